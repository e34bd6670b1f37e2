"""JAX, jitted, on the CPU: python bench/peers/run_jax.py --json FILE (see bench/README.md)."""

import os
import sys

import common

options = common.arguments(__doc__)
os.environ["JAX_PLATFORMS"] = "cpu"
# XLA takes as many threads as there are cores to run on.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])

import jax
import jax.numpy as jnp

DT = 0.1


def conv1d(a, s):
    return jax.lax.conv_general_dilated(a["x"][None, None], a["w"][None, None], (1,), "VALID")[0, 0]


def matmul(a, s):
    return a["a"] @ a["b"]


def heat2d(a, s):
    u = a["u0"]
    for _ in range(s["T"]):
        c = u[1:-1, 1:-1]
        lap = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * c
        u = u.at[1:-1, 1:-1].set(c + DT * (lap - c * c * c))
    return u


def burgers(a, s):
    u = a["u0"]
    for _ in range(s["T"]):
        c = u[1:-1, 1:-1]
        up, down, west, east = u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:]
        slopes = jnp.maximum(c, 0) * (2 * c - up - west) + jnp.minimum(c, 0) * (down + east - 2 * c)
        u = u.at[1:-1, 1:-1].set(c - DT * slopes)
    return u


def wave3d(a, s):
    before = u = a["u0"]
    for _ in range(s["T"]):
        p = jnp.pad(u, 1)
        i = slice(1, -1)
        lap = (p[:-2, i, i] + p[2:, i, i] + p[i, :-2, i] + p[i, 2:, i] + p[i, i, :-2] + p[i, i, 2:] - 6 * u)
        before, u = u, 2 * u - before + 0.1 * a["c"] * lap
    return u


def layernorm(a, s):
    x = a["x"]
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / jnp.sqrt(variance + 1e-5) * a["g"] + a["b"]


def tanh_chain(a, s):
    v = a["x"]
    for _ in range(s["layers"]):
        v = jnp.tanh(a["a"] * v + a["b"])
    return v


def attend(q, k, v, w, dilation):
    """Longformer's loop with gathered keys: scores beyond the ends are 0, as the padding makes them."""
    pad = w * dilation
    index = jnp.arange(q.shape[1])[:, None] + dilation * jnp.arange(2 * w + 1)
    shape = lambda x: jnp.pad(x, ((0, 0), (pad, pad), (0, 0)))[:, index]  # head, position, offset, d
    scores = jnp.einsum("hjd,hjod->hjo", q, shape(k))
    return jnp.einsum("hjo,hjod->hjd", jax.nn.softmax(scores) / q.shape[-1] ** 0.5, shape(v))


def window_attention(a, s):
    n = s["dilated"]
    groups = ((slice(0, n), 4), (slice(n, None), 1))  # of heads, with their dilation
    parts = [attend(a["q"][h], a["k"][h], a["v"][h], s["w"], d) for h, d in groups if a["q"][h].shape[0]]
    return jnp.concatenate(parts)


def csr_sum(a, s):
    return jax.ops.segment_sum(a["w"][:, None] * a["x"][a["src"]], a["end"], s["V"], indices_are_sorted=True)


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
    "broadcast": lambda a, s: jnp.broadcast_to(a["a"], (s["n"], s["n"])),
    "copy": lambda a, s: jnp.copy(a["a"]),
    "divide": lambda a, s: a["a"] / a["b"],
    "exp": lambda a, s: jnp.exp(a["a"]),
    "log": lambda a, s: jnp.log(a["a"]),
    "max": lambda a, s: a["a"].max(1),
    "multiply": lambda a, s: a["a"] * a["b"],
    "negate": lambda a, s: -a["a"],
    "power": lambda a, s: a["a"] ** a["b"],
    "relu": lambda a, s: jax.nn.relu(a["a"]),
    "subtract": lambda a, s: a["a"] - a["b"],
    "sum": lambda a, s: a["a"].sum(1),
    "transpose": lambda a, s: a["a"].T,
}


def run(case, arrays, f):
    """Functions that run forward alone, and forward and backward, and return what they computed."""
    wrt, output = common.names(case)
    rest = {n: jnp.asarray(array) for n, array in arrays.items() if n not in wrt and not n.startswith("d_")}
    if "ptr" in rest:  # the end of every edge, made once
        nodes, edges = case["sizes"]["V"], case["sizes"]["E"]
        rest["end"] = jnp.repeat(jnp.arange(nodes), jnp.diff(rest["ptr"]), total_repeat_length=edges)
    inputs = [jnp.asarray(arrays[name]) for name in wrt]
    incoming = jnp.asarray(arrays["d_" + output])

    def primal(*values):
        return f({**rest, **dict(zip(wrt, values))}, case["sizes"])

    def gradient(incoming, *values):
        y, back = jax.vjp(primal, *values)
        return y, back(incoming)

    primal_jit, gradient_jit = jax.jit(primal), jax.jit(gradient)

    def forward():
        return primal_jit(*inputs).block_until_ready()

    def both():
        y, gradients = jax.block_until_ready(gradient_jit(incoming, *inputs))
        return {output: y, **{"d_" + n: g for n, g in zip(wrt, gradients)}}

    return forward, both


def main():
    programs, wrong = [], 0
    for case in common.cases(options, list(PROGRAMS)):
        f = PROGRAMS[case["program"]]
        arrays = common.exported(case, options.check) if options.check else common.make_arrays(case)
        if options.check:
            error = common.check(case, arrays, run(case, arrays, f)[1]())
            wrong += not error <= common.TOLERANCE
            print(f"{case['program']}: largest relative difference {error:.1e}")
            continue
        rows = [common.row("jax jit", *run(case, arrays, f), options.rounds)]
        programs.append({"program": case["program"], "sizes": case["sizes"], "rows": rows})
    if not options.check:
        common.finish(options, {"jax": jax.__version__}, programs)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
