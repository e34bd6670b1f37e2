"""A recursive filter as an operation of JAX: what it does to a signal is learned from how it should sound.

In JAX it is a `lax.scan` over time, one small step after the other. Here the loops are the operation, which XLA calls as it
stands, and its gradient is generated; `jit`, `grad` and an optimiser in JAX know nothing of that.
"""

import jax
import jax.numpy as jnp
import numpy as np

import loopgrad as lg


@lg.program
def smooth(p):
    channels, length = p.sizes("channels length")
    x = p.input("x", (channels, length))
    a = p.input("a", channels)
    y = p.output("y", (channels, length))
    for c in p.loop("c", channels):
        state = p.scalar("state", init=0.0)
        for t in p.loop("t", length):
            state[...] = a[c] * state + (1 - a[c]) * x[c, t]
            y[c, t] = state


filtered = lg.jax.op(smooth)


def with_scan(x, a):
    """The same in JAX."""

    def step(state, now):
        state = a * state + (1 - a) * now
        return state, state

    return jax.lax.scan(step, jnp.zeros_like(a), x.T)[1].T


def main():
    random = np.random.default_rng(1)
    x = jnp.array(random.standard_normal((8, 2000)), jnp.float32)
    wanted = jnp.array(random.uniform(0.1, 0.9, 8), jnp.float32)
    y = filtered(x, wanted)

    def loss(f):
        return lambda a: ((f(x, a) - y) ** 2).sum() / x.size

    a = jnp.full(8, 0.5, jnp.float32)
    mine, theirs = (jax.jit(jax.grad(loss(f))) for f in (filtered, with_scan))
    difference = float(jnp.abs(mine(a) - theirs(a)).max())
    for _ in range(300):
        a = a - 0.5 * mine(a)
    error = float(jnp.abs(a - wanted).max())
    print(f"gradients differ by {difference:.1e}, the filters that were learned from the wanted ones by {error:.1e}")
    assert difference < 1e-5 and error < 1e-2


if __name__ == "__main__":
    main()
