"""PyTorch, eager and compiled, on the GPU: python bench/peers/run_torch_gpu.py --json FILE (see bench/README.md).

The programs that tools/gpu/verify.sh compares at these sizes. Times are of CUDA events, medians of 20, in milliseconds;
backward is forward and backward together less forward alone. Full f32: no TF32.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

DT = 0.1


def heat2d(u, steps=10):
    for _ in range(steps):
        c = u[1:-1, 1:-1]
        lap = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * c
        inner = c + DT * (lap - c * c * c)
        u = torch.cat([u[:1], torch.cat([u[1:-1, :1], inner, u[1:-1, -1:]], 1), u[-1:]])
    return u


def wave3d(u0, c, steps=8):
    before = u = u0
    i = slice(1, -1)
    for _ in range(steps):
        p = F.pad(u, (1,) * 6)
        lap = p[:-2, i, i] + p[2:, i, i] + p[i, :-2, i] + p[i, 2:, i] + p[i, i, :-2] + p[i, i, 2:] - 6 * u
        before, u = u, 2 * u - before + 0.1 * c * lap
    return u


def mlp(x, w1, b1, w2, b2, w3, b3, label):
    h = torch.relu(torch.addmm(b1, x, w1))
    h = torch.relu(torch.addmm(b2, h, w2))
    return F.cross_entropy(torch.addmm(b3, h, w3), label)


def random(*shape):
    return (torch.rand(*shape, device="cuda") - 0.5).requires_grad_()


def cases():
    rows, cols = 65536, 1024
    x = random(rows, cols)
    yield "softmax", {"rows": rows, "cols": cols}, lambda x: torch.softmax(x, 1), [x], []
    yield "layernorm", {"rows": rows, "cols": cols}, lambda x, g, b: F.layer_norm(x, (cols,), g, b, 1e-5), [x, random(cols), random(cols)], []
    del x
    yield "heat2d", {"n": 2048, "m": 2048, "T": 10}, heat2d, [random(2048, 2048)], []
    yield "wave3d", {"n": 256, "T": 8}, wave3d, [random(256, 256, 256), random(256, 256, 256)], []
    batch, sizes = 4096, (784, 1024, 1024, 10)
    weights = [t for a, b in zip(sizes, sizes[1:]) for t in (random(a, b), random(b))]
    label = torch.randint(10, (batch,), device="cuda")
    wrt = [torch.rand(batch, sizes[0], device="cuda"), *weights]
    yield "mlp", {"batch": batch, "in": 784, "hidden1": 1024, "hidden2": 1024, "classes": 10}, mlp, wrt, [label]


def median(start, runs=20, warm_up=5):
    times = []
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for k in range(warm_up + runs):
        begin.record()
        start()
        end.record()
        end.synchronize()
        if k >= warm_up:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


def measure(name, f, inputs, others):
    wrt = [t for t in inputs if t.requires_grad]
    incoming = torch.rand_like(f(*inputs, *others))
    forward = median(lambda: f(*inputs, *others))
    both = median(lambda: torch.autograd.grad(f(*inputs, *others), wrt, incoming))
    return {"name": name, "forward_ms": forward, "backward_ms": max(both - forward, 0.0), "both_ms": both}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    programs = []
    for name, sizes, f, inputs, others in cases():
        rows = [measure("pytorch eager", f, inputs, others)]
        torch._dynamo.reset()
        rows.append(measure("torch.compile", torch.compile(f, dynamic=False), inputs, others))
        programs.append({"program": name, "sizes": sizes, "rows": rows})
        print(name, " | ".join(f"{r['name']} {r['forward_ms']:.3f} + {r['backward_ms']:.3f} ms" for r in rows), flush=True)
        gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
        result = {"date": time.strftime("%F"), "gpu": gpu, "pytorch": torch.__version__, "command": "python bench/peers/run_torch_gpu.py",
                  "times": "medians of 20, ms, by CUDA events; backward: both together less forward alone", "programs": programs}
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
