"""PyTorch eager on the GPU: the same operations at the same sizes, and the same network. Needs torch with CUDA.

    python bench/experiments/run_torch.py RESULTS.json TORCH.json

RESULTS.json is what bench_experiments wrote: it says which sizes. Times are of CUDA events, medians, in milliseconds; backward
is forward and backward together less forward alone.
"""

import json
import statistics
import sys
from pathlib import Path

import torch

OPERATIONS = {
    "add": lambda a, b: a + b,
    "broadcast": lambda a, b: a[0].expand_as(a).contiguous(),
    "copy": lambda a, b: a.clone(),
    "divide": lambda a, b: a / b,
    "exp": lambda a, b: torch.exp(a),
    "log": lambda a, b: torch.log(a),
    "matmul": lambda a, b: a @ b,
    "max": lambda a, b: torch.max(a, 1).values,
    "multiply": lambda a, b: a * b,
    "negate": lambda a, b: -a,
    "power": lambda a, b: a**b,
    "relu": lambda a, b: torch.relu(a),
    "subtract": lambda a, b: a - b,
    "sum": lambda a, b: a.sum(1),
    "transpose": lambda a, b: a.T.contiguous(),
}
BINARY = ("add", "divide", "matmul", "multiply", "power", "subtract")
BATCH, INPUTS, CLASSES, RATE = 256, 784, 10, 0.5


def milliseconds(start):
    """Median over batches of calls, as bench_experiments measures."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def batch(count):
        begin.record()
        for _ in range(count):
            start()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / count

    start()
    once = batch(1)
    if once > 300:
        return once
    count = max(1, min(50, int(2 / max(once, 1e-4))))
    times, total = [], 0.0
    while len(times) < 15 and (len(times) < 3 or total < 200):
        times.append(batch(count))
        total += times[-1] * count
    return statistics.median(times)


def operation(name, n):
    f = OPERATIONS[name]
    a = torch.empty(n, n, device="cuda").uniform_(0.5, 2).requires_grad_()
    b = torch.empty(n, n, device="cuda").uniform_(0.5, 2).requires_grad_(name in BINARY)
    wrt = [a, b] if name in BINARY else [a]
    y = f(a, b)
    incoming = torch.rand_like(y)
    forward_ms = milliseconds(lambda: f(a, b))
    both_ms = milliseconds(lambda: torch.autograd.grad(f(a, b), wrt, incoming))
    return {"op": name, "n": n, "forward_ms": forward_ms, "backward_ms": max(both_ms - forward_ms, 0.0)}


def network(width):
    layers = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, CLASSES)
    ).cuda()
    x, label = torch.rand(BATCH, INPUTS, device="cuda"), torch.randint(CLASSES, (BATCH,), device="cuda")
    descend = torch.optim.SGD(layers.parameters(), RATE)

    def step():
        descend.zero_grad()
        torch.nn.functional.cross_entropy(layers(x), label).backward()
        descend.step()

    return {"width": width, "step_ms": milliseconds(step)}


def main():
    if not torch.cuda.is_available():
        sys.exit("torch sees no GPU")
    torch.backends.cuda.matmul.allow_tf32 = False
    results = json.loads(Path(sys.argv[1]).read_text())
    cases = sorted({(row["op"], row["n"]) for row in results["operations"]})
    widths = sorted({row["width"] for row in results["network"]})
    out = {
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(),
        "operations": [operation(name, n) for name, n in cases],
        "network": [network(width) for width in widths],
    }
    Path(sys.argv[2]).write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
