"""Operations of loopgrad beside PyTorch, eager and compiled: python bench/python/operations.py [--json FILE] (see bench/README.md).

Forward without a gradient, and forward with backward, in milliseconds: the least of some rounds, which alternate. Results of all three
are compared first.
"""

import argparse
import platform
import time

import torch
import torch.nn.functional as F

import loopgrad as lg
import recording

WINDOW = {"H": 1, "dilated": 0, "S": 2048, "D": 64, "w": 32}
MESH = {"n": 32768, "in": 13, "out": 64}


def window_attention(q, k, v):
    """Keys and values unfolded, as bench/peers has it: scores beyond the ends are 0."""
    w = WINDOW["w"]
    window = lambda x: F.pad(x, (0, 0, w, w)).unfold(1, 2 * w + 1, 1)  # noqa: E731  head, position, width, offset
    scores = torch.einsum("hjd,hjdo->hjo", q, window(k))
    return torch.einsum("hjo,hjdo->hjd", torch.softmax(scores, -1) / q.shape[-1] ** 0.5, window(v))


def subdivnet(x, adj, w0, w1, w2, w3):
    near = x[adj.long()]  # face, neighbour, channel
    around = (near - near.roll(-1, 1)).abs().sum(1)
    away = (near - x[:, None]).abs().sum(1)
    return x @ w0 + near.sum(1) @ w1 + around @ w2 + away @ w3


def cases(device):
    generator = torch.Generator().manual_seed(1)
    random = lambda *shape: torch.randn(shape, generator=generator).to(device)  # noqa: E731
    shape = (WINDOW["H"], WINDOW["S"], WINDOW["D"])
    sizes = {"dilated": 0, "w": WINDOW["w"]}
    yield "window_attention", WINDOW, [random(*shape) for _ in range(3)], sizes, window_attention
    n, inner, outer = MESH["n"], MESH["in"], MESH["out"]
    adj = (torch.arange(n)[:, None] + torch.randint(-512, 513, (n, 3), generator=generator)) % n
    weights = [random(inner, outer) / 8 for _ in range(4)]
    yield "subdivnet", MESH, [random(n, inner), adj.int().to(device), *weights], None, subdivnet


def milliseconds(fs, device, rounds, least=0.1):
    """The least time of each, in turns, so that other work on the machine meets all alike."""
    def once(f):
        if device != "cpu":
            torch.cuda.synchronize()
        start = time.perf_counter()
        f()
        if device != "cpu":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    best = {name: min(once(f) for _ in range(3)) for name, f in fs.items()}
    for _ in range(rounds):
        for name, f in fs.items():
            spent = 0.0
            while spent < least:
                spent += (took := once(f))
                best[name] = min(best[name], took)
    return {name: 1e3 * t for name, t in best.items()}


def difference(found, expected):
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, expected))


def measure(name, arrays, sizes, plain, device, rounds):
    program = lg.builtin(name)
    indices = [a.name for a in program.arguments if a.dtype.name == "i32"]  # which stay from call to call
    op = lg.torch.op(program, versioned=indices)
    compiled = torch.compile(plain)
    grads = [a.clone().requires_grad_() if a.is_floating_point() else a for a in arrays]
    wanted = [a for a in grads if a.requires_grad]
    fs = {"loopgrad": lambda *a: op(*a, sizes=sizes), "torch eager": plain, "torch compiled": compiled}
    g = torch.randn(fs["torch eager"](*arrays).shape, generator=torch.Generator().manual_seed(2)).to(device)
    both = {k: lambda f=f: torch.autograd.grad(f(*grads), wanted, g) for k, f in fs.items()}
    expected_y, expected = plain(*arrays), both["torch eager"]()
    row = {"differences": {k: max(difference([f(*arrays)], [expected_y]), difference(both[k](), expected)) for k, f in fs.items()}}
    assert max(row["differences"].values()) < 1e-3, row
    with torch.no_grad():
        row["forward_ms"] = milliseconds({k: lambda f=f: f(*arrays) for k, f in fs.items()}, device, rounds)
    row["forward_backward_ms"] = milliseconds(both, device, rounds)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--rounds", default=10, type=int)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found = {}
    for name, shape, arrays, sizes, plain in cases(options.device):
        found[name] = {"sizes": shape, **measure(name, arrays, sizes, plain, options.device, options.rounds)}
        print(f"{name} {shape}")
        for what in ("forward_ms", "forward_backward_ms"):
            print(f"  {what:20}", "  ".join(f"{k} {t:8.3f}" for k, t in found[name][what].items()))
        print("  largest differences ", "  ".join(f"{k} {d:8.1e}" for k, d in found[name]["differences"].items()))
    if options.json:
        text = {"benchmark": "python_operations", "device": options.device, "threads": options.threads,
                "machine": platform.machine(), "torch": torch.__version__, "programs": found}  # fmt: skip
        recording.write(options.json, options.device, text)


if __name__ == "__main__":
    main()
