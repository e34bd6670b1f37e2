"""What a call costs above its kernel: python bench/python/overhead.py [--json FILE] (see bench/README.md).

A tiny program on 1 to 16 elements, in microseconds a call, with PyTorch's own operation beside it. The kernel takes
nanoseconds, so all of it is overhead. Time of the processor that the calling thread uses, as other work on the machine
does not count in it, except with --device cuda, which is wall time.
"""

import argparse
import gc
import platform
import time
import timeit

import numpy as np
import torch

import loopgrad as lg
import recording


@lg.program
def scale(p):
    n = p.size("n")
    x, y = p.input("x", n), p.output("y", n)
    for i in p.loop("i", n):
        y[i] = 2 * x[i]


class TorchScale(torch.autograd.Function):
    """The least that an operation written in Python costs in PyTorch."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


timer = time.thread_time


def microseconds(f, rounds=15, seconds=0.05):
    for _ in range(200):
        f()
    number = max(1, int(seconds / max(1e-7, timeit.timeit(f, number=200, timer=timer) / 200)))
    return min(timeit.repeat(f, number=number, repeat=rounds, timer=timer)) / number * 1e6


def measure(n, device):
    x = torch.ones(n, device=device)
    y = torch.empty_like(x)
    g = torch.ones_like(x)
    x_grad = torch.ones(n, device=device, requires_grad=True)
    op = lg.torch.op(scale, threads=1) if device == "cpu" else lg.torch.op(scale)
    target = {"target": "openmp", "threads": 1} if device == "cpu" else {"target": "cuda"}
    run = lg.compile(scale, **target)
    gradient = lg.compile_gradient(scale, **target)
    gradient.forward(x=x)
    rows = {
        "run, arrays in a list": lambda: run.run_list([x, y]),
        "run, arrays by name": lambda: run(x=x, y=y),
        "run, output made": lambda: run.run_list([x, None]),
        "gradient.forward, output made": lambda: gradient.forward_list([x, None]),
        "op without gradient": lambda: op(x),
        "op with gradient": lambda: op(x_grad),
        "op with gradient, and backward": lambda: torch.autograd.grad(op(x_grad), x_grad, g),
        "torch: x * 2 without gradient": lambda: x * 2,
        "torch: x * 2 with gradient": lambda: x_grad * 2,
        "torch: x * 2, and backward": lambda: torch.autograd.grad(x_grad * 2, x_grad, g),
        "torch: Function in Python, with gradient": lambda: TorchScale.apply(x_grad),
        "torch: Function in Python, and backward": lambda: torch.autograd.grad(TorchScale.apply(x_grad), x_grad, g),
    }
    if device == "cpu":
        a, b = np.ones(n, np.float32), np.ones(n, np.float32)
        rows["run, NumPy by name"] = lambda: run(x=a, y=b)
    return {name: microseconds(f) for name, f in rows.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", default="1,4,16")
    options = parser.parse_args()
    global timer
    timer = time.thread_time if options.device == "cpu" else time.perf_counter
    torch.set_num_threads(1)
    gc.disable()
    found = {n: measure(n, options.device) for n in map(int, options.sizes.split(","))}
    print(f"{'microseconds a call':44}" + "".join(f"  n = {n:<4}" for n in found))
    for name in next(iter(found.values())):
        print(f"{name:44}" + "".join(f"{row[name]:9.2f}" for row in found.values()))
    if options.json:
        text = {"benchmark": "python_overhead", "device": options.device, "machine": platform.machine(),
                "python": platform.python_version(), "torch": torch.__version__, "microseconds": found}  # fmt: skip
        recording.write(options.json, options.device, text)


if __name__ == "__main__":
    main()
