"""Programs as functions of JAX."""

import numpy as np
import pytest

import loopgrad as lg
from conftest import convolution

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402

import loopgrad.jax  # noqa: E402


def reference(x, w):
    return jnp.sin(jnp.convolve(x, w[::-1], mode="valid")) * x[: x.shape[0] - w.shape[0] + 1]


@pytest.fixture(scope="module")
def op():
    return lg.jax.op(convolution(lg.f64), threads=1)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_values_gradients_and_second_gradients(op, random):
    x, w = jnp.array(random.standard_normal(9)), jnp.array(random.standard_normal(3))
    close(op(x, w), reference(x, w))

    def first(f):
        return jax.jit(jax.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1)))

    def second(f):
        return jax.grad(lambda x, w: (first(f)(x, w)[0] ** 2).sum(), (0, 1))

    for order in (first, second):
        for a, b in zip(order(op)(x, w), order(reference)(x, w)):
            close(a, b)


def test_vmap_and_dlpack(op, random):
    xs, w = jnp.array(random.standard_normal((4, 9))), jnp.array(random.standard_normal(3))
    close(jax.vmap(op, (0, None))(xs, w), jax.vmap(reference, (0, None))(xs, w))
    run = lg.compile(convolution(lg.f64))
    y = np.zeros(7)
    run(x=xs[0], w=w, y=y)
    close(y, reference(xs[0], w))
    with pytest.raises(lg.UsageError, match="'y'.*read-only"):
        run(x=xs[0], w=w, y=jnp.zeros(7))


def test_mistakes(op):
    with pytest.raises(lg.UsageError, match="'x'.*float32"):
        op(jnp.ones(9, jnp.float32), jnp.ones(3))
    with pytest.raises(lg.UsageError, match="x, w"):
        op(jnp.ones(9))
