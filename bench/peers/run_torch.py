"""PyTorch, eager and compiled, on the CPU: python bench/peers/run_torch.py --json FILE (see bench/README.md)."""

import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch
import torch.nn.functional as F

import common

DT = 0.1


def conv1d(a, s):
    return F.conv1d(a["x"][None, None], a["w"][None, None])[0, 0]


def matmul(a, s):
    return a["a"] @ a["b"]


def heat2d(a, s):
    u = a["u0"]
    for _ in range(s["T"]):
        c = u[1:-1, 1:-1]
        lap = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * c
        top, bottom, left, right = u[:1], u[-1:], u[1:-1, :1], u[1:-1, -1:]
        u = torch.cat([top, torch.cat([left, c + DT * (lap - c * c * c), right], 1), bottom])
    return u


def burgers(a, s):
    u = a["u0"]
    for _ in range(s["T"]):
        c = u[1:-1, 1:-1]
        up, down, west, east = u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:]
        slopes = c.clamp(min=0) * (2 * c - up - west) + c.clamp(max=0) * (down + east - 2 * c)
        u = torch.cat([u[:1], torch.cat([u[1:-1, :1], c - DT * slopes, u[1:-1, -1:]], 1), u[-1:]])
    return u


def wave3d(a, s):
    before = u = a["u0"]
    for _ in range(s["T"]):
        p = F.pad(u, (1,) * 6)
        i = slice(1, -1)
        lap = (p[:-2, i, i] + p[2:, i, i] + p[i, :-2, i] + p[i, 2:, i] + p[i, i, :-2] + p[i, i, 2:] - 6 * u)
        before, u = u, 2 * u - before + 0.1 * a["c"] * lap
    return u


def layernorm(a, s):
    return F.layer_norm(a["x"], (s["cols"],), a["g"], a["b"], 1e-5)


def tanh_chain(a, s):
    v = a["x"]
    for _ in range(s["layers"]):
        v = torch.tanh(a["a"] * v + a["b"])
    return v


def attend(q, k, v, w, dilation):
    """Longformer's loop with unfolded keys: scores beyond the ends are 0, as the padding makes them."""
    pad = w * dilation
    shape = lambda x: F.pad(x, (0, 0, pad, pad)).unfold(1, 2 * pad + 1, 1)[..., ::dilation]  # head, position, d, offset
    scores = torch.einsum("hjd,hjdo->hjo", q, shape(k))
    return torch.einsum("hjo,hjdo->hjd", torch.softmax(scores, -1) / q.shape[-1] ** 0.5, shape(v))


def window_attention(a, s):
    n = s["dilated"]
    groups = ((slice(0, n), 4), (slice(n, None), 1))  # of heads, with their dilation
    parts = [attend(a["q"][h], a["k"][h], a["v"][h], s["w"], d) for h, d in groups if a["q"][h].shape[0]]
    return torch.cat(parts)


def csr_sum(a, s):
    messages = a["w"][:, None] * a["x"][a["src"]]
    return torch.zeros_like(a["x"]).index_add(0, a["end"], messages)


PROGRAMS = {
    "conv1d": conv1d,
    "matmul": matmul,
    "heat2d": heat2d,
    "burgers": burgers,
    "wave3d": wave3d,
    "layernorm": layernorm,
    "tanh_chain": tanh_chain,
    "window_attention": window_attention,
    "csr_sum": csr_sum,
    "add": lambda a, s: a["a"] + a["b"],
    "broadcast": lambda a, s: a["a"].expand(s["n"], s["n"]).contiguous(),
    "copy": lambda a, s: a["a"].clone(),
    "divide": lambda a, s: a["a"] / a["b"],
    "exp": lambda a, s: torch.exp(a["a"]),
    "log": lambda a, s: torch.log(a["a"]),
    "max": lambda a, s: torch.max(a["a"], 1).values,
    "multiply": lambda a, s: a["a"] * a["b"],
    "negate": lambda a, s: -a["a"],
    "power": lambda a, s: a["a"] ** a["b"],
    "relu": lambda a, s: torch.relu(a["a"]),
    "subtract": lambda a, s: a["a"] - a["b"],
    "sum": lambda a, s: a["a"].sum(1),
    "transpose": lambda a, s: a["a"].T.contiguous(),
}


def tensors(arrays):
    out = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    if "ptr" in out:  # the end of every edge, made once
        degrees = out["ptr"].diff().long()
        out["end"] = torch.repeat_interleave(torch.arange(len(degrees)), degrees)
        out["src"] = out["src"].long()
    return out


def run(case, arrays, f):
    """Functions that run forward alone, and forward and backward, and return what they computed."""
    wrt, output = common.names(case)
    a = tensors(arrays)
    for name in wrt:
        a[name].requires_grad_()
    inputs = [a[name] for name in wrt]

    def forward():
        return f(a, case["sizes"])

    def both():
        y = forward()
        gradients = torch.autograd.grad(y, inputs, a["d_" + output])
        return {output: y.detach().numpy(), **{"d_" + n: g.numpy() for n, g in zip(wrt, gradients)}}

    return forward, both


def main():
    options = common.arguments(__doc__)
    torch.set_num_threads(options.threads)
    programs, wrong = [], 0
    for case in common.cases(options, list(PROGRAMS)):
        f = PROGRAMS[case["program"]]
        arrays = common.exported(case, options.check) if options.check else common.make_arrays(case)
        if options.check:
            error = common.check(case, arrays, run(case, arrays, f)[1]())
            wrong += not error <= common.TOLERANCE
            print(f"{case['program']}: largest relative difference {error:.1e}")
            continue
        rows = [common.row("pytorch eager", *run(case, arrays, f), options.rounds)]
        torch._dynamo.reset()
        rows.append(common.row("torch.compile", *run(case, arrays, torch.compile(f, dynamic=False)), options.rounds))
        programs.append({"program": case["program"], "sizes": case["sizes"], "rows": rows})
    if not options.check:
        common.finish(options, {"pytorch": torch.__version__}, programs)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
