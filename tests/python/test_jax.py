"""Programs as functions of JAX."""

import functools
import threading

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


@pytest.fixture(params=["xla", "callback"])
def op(request):
    """As XLA calls it, and as it is where JAX has a GPU."""
    if request.param == "xla":
        yield lg.jax.op(convolution(lg.f64), threads=1)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lg.jax._Op, "_is_for_xla", lambda self: False)
        yield lg.jax.op(convolution(lg.f64), threads=1)


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


def test_xla_calls_the_program_itself():
    op = lg.jax.op(convolution(lg.f64))
    text = jax.jit(jax.grad(lambda x, w: op(x, w).sum())).lower(jnp.ones(9), jnp.ones(3)).as_text()
    assert "@loopgrad(" in text and "callback" not in text


@lg.program
def gathered(p):
    """An in-out, indices, and results of which one has no gradient."""
    n, m, times = p.sizes("n m times")
    at, x = p.input("at", m, "i32"), p.input("x", n, "f64")
    count, a, y = p.output("count", (), "i64"), p.inout("a", m, "f64"), p.output("y", m, "f64")
    p.in_range(at, 0, n)
    count[...] = m * times
    for i in p.loop("i", m):
        for _ in p.loop("t", times):
            a[i] *= x[at[i]]
        y[i] = x[at[i]] * a[i]


def test_in_outs_indices_and_sizes_of_their_own():
    op = lg.jax.op(gathered, threads=1)
    at, x, a = jnp.array([2, 0, 2], jnp.int32), jnp.array([2.0, 3.0, 5.0]), jnp.array([1.0, 10.0, 100.0])

    def run(x, a):
        return op(at, x, a, sizes={"times": 2})

    for f in (run, jax.jit(run)):
        count, powers, y = f(x, a)
        assert count == 6 and count.dtype == jnp.int64
        close(powers, [25, 40, 2500])
        close(y, [125, 80, 12500])
        d_x, d_a = jax.grad(lambda x, a: 2 * f(x, a)[1].sum() + f(x, a)[2].sum(), (0, 1))(x, a)
        close(d_a, [2 * 25 + 125, 2 * 4 + 8, 2 * 25 + 125])
        close(d_x, [10 * (2 * 2 * 2 + 3 * 4), 0, 101 * (2 * 2 * 5 + 3 * 25)])
    close(a, [1, 10, 100])
    some = lg.jax.op(gathered, wrt="x", of="y", threads=1)
    close(jax.jit(jax.grad(lambda x: some(at, x, a, sizes={"times": 2})[2].sum()))(x), [10 * 12, 0, 101 * 75])


def test_what_a_run_finds_is_an_error_of_jax():
    op, x, a = lg.jax.op(gathered), jnp.ones(3), jnp.ones(2)
    run = functools.partial(op, sizes={"times": 1})
    for f in (run, jax.jit(run)):
        with pytest.raises(Exception, match=r"array 'at': at\[1\] = 3 is not in the stated range"):
            jax.block_until_ready(f(jnp.array([0, 3], jnp.int32), x, a))
    for f in (run, jax.grad(lambda *arrays: lg.jax.op(gathered, wrt="x", of="y")(*arrays, sizes={"times": 1})[2].sum(), 1)):
        for a in (jnp.ones(1), jnp.ones(3)):
            with pytest.raises(Exception, match=rf"array 'a': the argument has extent {a.size} in dimension 0, expected m = 2"):
                jax.block_until_ready(f(jnp.zeros(2, jnp.int32), x, a))
    count, powers, y = op(jnp.zeros(0, jnp.int32), x, jnp.zeros(0), sizes={"times": 1})
    assert count == 0 and powers.shape == y.shape == (0,)


def test_an_operation_that_is_gone_is_an_error():
    made = lg._core.ffi_operation("held", convolution(lg.f64), ["x", "w"], ["y"], {})
    shape = jax.ShapeDtypeStruct((7,), jnp.float64)
    run = jax.jit(lambda x, w: jax.ffi.ffi_call("loopgrad", shape, vmap_method="sequential")(x, w, operation="held"))
    x, w = jnp.ones(9), jnp.ones(3)
    close(run(x, w), reference(x, w))
    del made
    with pytest.raises(Exception, match="is gone"):
        run(x, w).block_until_ready()


def test_threads(random):
    """Each call has a tape of its own."""
    op = lg.jax.op(convolution(lg.f64), threads=1)
    gradient = jax.jit(jax.grad(lambda x, w: (op(x, w) ** 2).sum(), (0, 1)))
    inputs = [(jnp.array(random.standard_normal(2000)), jnp.array(random.standard_normal(3))) for _ in range(4)]
    expected = [gradient(*one) for one in inputs]
    found = [[] for _ in inputs]

    def work(k):
        found[k] = [gradient(*inputs[k]) for _ in range(50)]

    threads = [threading.Thread(target=work, args=[k]) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for e, all_of_it in zip(expected, found):
        assert len(all_of_it) == 50
        for one in all_of_it:
            np.testing.assert_array_equal(one[0], e[0])
            np.testing.assert_array_equal(one[1], e[1])


def test_vmap_and_dlpack(op, random):
    xs, w = jnp.array(random.standard_normal((4, 9))), jnp.array(random.standard_normal(3))
    close(jax.vmap(op, (0, None))(xs, w), jax.vmap(reference, (0, None))(xs, w))
    run = lg.compile(convolution(lg.f64))
    y = np.zeros(7)
    run(x=xs[0], w=w, y=y)
    close(y, reference(xs[0], w))
    with pytest.raises(lg.UsageError, match="'y'.*read-only"):
        run(x=xs[0], w=w, y=jnp.zeros(7))


def test_a_budget_for_the_tape(random):
    @lg.program
    def steps(p):
        n, count = p.sizes("n count")
        x = p.inout("x", n, lg.f64)
        for _ in p.loop("t", count):
            for i in p.loop("i", n):
                x[i] = x[i] + 0.1 * lg.sin(x[i])

    def gradient(**options):
        op = lg.jax.op(steps, threads=1, **options)
        return jax.grad(lambda x: op(x, sizes={"count": 100}).sum())

    x = jnp.array(random.standard_normal(4))
    np.testing.assert_array_equal(gradient()(x), gradient(max_tape_bytes=1000)(x))
    with pytest.raises(Exception, match="max_tape_bytes = 100"):
        gradient(max_tape_bytes=100)(x).block_until_ready()
    with pytest.raises(lg.Error, match="leave max_tape_bytes out"):
        jax.grad(lambda x: gradient(max_tape_bytes=1000)(x).sum())(x)


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
    """JAX never forgets an operation that it has compiled."""
    op = lg.jax.op(convolution(lg.f64), threads=1)
    x, w = jnp.array(random.standard_normal(9)), jnp.array(random.standard_normal(3))
    kept = []
    make, lg._core.ffi_operation = lg._core.ffi_operation, lambda name, *more, **named: kept.append(name) or make(name, *more, **named)
    try:
        for _ in range(3):
            op(x, w)
            jax.grad(lambda x: jax.grad(lambda x: op(x, w).sum())(x).sum())(x)
    finally:
        lg._core.ffi_operation = make
    assert 0 < len(set(kept)) == len(kept) <= 4


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
