"""JAX, jitted: python bench/peers/run_jax.py --json FILE (see bench/README.md)."""

import os
import sys

import common

options = common.arguments(__doc__)
if options.device == "cpu":
    os.environ["JAX_PLATFORMS"] = "cpu"
    # XLA takes as many threads as there are cores to run on.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])

import jax
import jax.numpy as jnp
import numpy as np

import jax_grids
import jax_meshes
import jax_programs
import jax_sequences

jax.config.update("jax_default_matmul_precision", "highest")  # f32 as such, no TF32


def array(values):
    return jnp.asarray(values.astype(np.int32) if values.dtype == np.int64 else values)  # as indices want it


def run(case, arrays, f):
    """Functions that run forward alone, and forward and backward, and return what they computed."""
    wrt, outputs = common.names(case)
    jax.config.update("jax_enable_x64", any(a.dtype == np.float64 for a in arrays.values()))
    rest = {n: array(a) for n, a in arrays.items() if n not in wrt and not n.startswith("d_")}
    inputs = [array(arrays[name]) for name in wrt]
    incoming = {name: array(arrays["d_" + name]) for name in outputs}

    def primal(rest, *values):
        return common.named(outputs, f({**rest, **dict(zip(wrt, values))}, case["sizes"]))

    def gradient(rest, incoming, *values):
        y, back = jax.vjp(lambda *v: primal(rest, *v), *values)
        return y, back(incoming)

    primal_jit, gradient_jit = jax.jit(primal), jax.jit(gradient)

    def both():
        y, gradients = gradient_jit(rest, incoming, *inputs)
        return {**y, **{"d_" + n: g for n, g in zip(wrt, gradients)}}

    return lambda: primal_jit(rest, *inputs), both


def main():
    return common.main(
        options,
        jax_programs.PROGRAMS | jax_sequences.PROGRAMS | jax_meshes.PROGRAMS | jax_grids.PROGRAMS,
        lambda case, arrays, f: [("jax jit", run(case, arrays, f))],
        wait=jax.block_until_ready,
        to_numpy=np.asarray,
        peers={"jax": jax.__version__},
        device=jax.devices()[0].device_kind if options.device == "cuda" else None,
    )


if __name__ == "__main__":
    sys.exit(main())
