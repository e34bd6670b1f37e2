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
    for names in ({"wrt": ["v"]}, {"of": "x"}):
        with pytest.raises(lg.UsageError, match="or in-out '[vx]'"):
            lg.jax.op(convolution(lg.f64), **names)
    with pytest.raises(lg.UsageError, match="'speed'"):
        lg.jax.op(convolution(lg.f64), speed=1)
    with pytest.raises(lg.UsageError, match="'n' is a float"):
        op(jnp.ones(9), jnp.ones(3), sizes={"n": 7.5})
    with pytest.raises(lg.UsageError, match="there is no size 'm'"):
        op(jnp.ones(9), jnp.ones(3), sizes={"m": 7})


def test_one_name_is_a_name(random):
    """And not its letters."""
    x, window = jnp.array(random.standard_normal(5)), jnp.array(random.standard_normal(5))

    @lg.program
    def product(p):
        n = p.size("n")
        x, window, y = p.input("x", n, "f64"), p.input("window", n, "f64"), p.output("y", n, "f64")
        for i in p.loop("i", n):
            y[i] = x[i] * x[i] * window[i]

    op = lg.jax.op(product, wrt="window", of="y")
    close(jax.grad(lambda w: op(x, w).sum())(window), x * x)
    gradient = lg.compile_gradient(product, wrt="window")
    gradient.forward(x=np.asarray(x), window=np.asarray(window))
    close(gradient.backward(d_y=np.ones(5)), x * x)


def test_what_jax_compiles_for_a_call_is_kept(random):
    """JAX never forgets a callback that it has compiled."""
    op = lg.jax.op(convolution(lg.f64), threads=1)
    x, w = jnp.array(random.standard_normal(9)), jnp.array(random.standard_normal(3))
    kept = set()
    callback, jax.pure_callback = jax.pure_callback, lambda f, *more, **named: kept.add(f) or callback(f, *more, **named)
    try:
        for _ in range(3):
            op(x, w)
            jax.grad(lambda x: jax.grad(lambda x: op(x, w).sum())(x).sum())(x)
    finally:
        jax.pure_callback = callback
    assert len(kept) <= 4


def test_bfloat16_and_numbers():
    @lg.program
    def scaled(p):
        n = p.size("n")
        factor, x, y = p.input("factor", (), "f32"), p.input("x", n, "bf16"), p.output("y", n, "bf16")
        for i in p.loop("i", n):
            y[i] = factor[...] * x[i] * x[i]

    op, x = lg.jax.op(scaled), jnp.array([1, 2, 3], jnp.bfloat16)
    assert op(2.0, x).dtype == jnp.bfloat16
    close(op(2.0, x).astype(float), np.array([2, 8, 18]))
    close(jax.jit(jax.grad(lambda x: op(2, x).astype(jnp.float32).sum()))(x).astype(float), np.array([4, 8, 12]))
    run = lg.compile(scaled)
    for array in (x, np.asarray(x)):
        y = run(factor=2, x=array)
        assert y.dtype == jnp.bfloat16
        close(y.astype(float), np.array([2, 8, 18]))
    y = np.zeros(5, jnp.bfloat16)
    run(factor=2, x=np.asarray(x), y=y[1:4])
    close(y.astype(float), np.array([0, 2, 8, 18, 0]))
    with pytest.raises(lg.UsageError, match="'factor'.*bool"):
        op(True, x)
