"""Views of arrays, buffers that take turns, small vectors, and gradients of one's own, as C++ has them."""

import numpy as np
import pytest

import loopgrad as lg
from test_recording import recorded


def test_rows_and_reshaped_arrays():
    def total(p, row):
        s = p.scalar("s", init=0.0)
        for j in p.loop("j", row.extent(0)):
            s += row[j]
        return s

    def body(p):
        n, m = p.sizes("n m")
        x, flat, y = p.input("x", (n, 2, m)), p.input("flat", n * m), p.output("y", (n, m))
        square = flat.reshaped((n, m))
        assert len(square.shape) == 2 and len(x.row(0).shape) == 2 and x.row(0, 1).row(0).shape == ()
        for i in p.loop("i", n):
            for j in p.loop("j", m):
                y.row(i)[j] = square[i, j]
            y[i, 0] += total(p, x.row(i, 1))

    assert recorded(body).endswith(
        "    y[i, j] = flat[i*m + j]\n"
        "  local f32 s\n"
        "  s = 0\n"
        "  for j in 0..m:\n"
        "    s += x[i, 1, j]\n"
        "  y[i, 0] += s\n"
    )


def test_buffers_take_turns():
    @lg.program
    def smooth(p):
        n, steps = p.sizes("n steps")
        x, y = p.input("x", n, "f64"), p.output("y", n, "f64")
        u = p.ring("u", 2, n, "f64")
        for i in p.loop("i", n):
            u[0, i] = x[i]
        for t in p.loop("t", steps):
            for i in p.loop("i", n):
                u[t + 1, i] = u[t, i] * u[t, (i + 1) % n]
        for i in p.loop("i", n):
            y[i] = u[steps, i]

    assert "local f64 u[2, n]" in str(smooth) and "u[(t + 1)%2, i] = " in str(smooth)
    x = np.linspace(0.5, 1.5, 7)
    assert lg.gradcheck(smooth, {"x": x}, sizes={"steps": 3})
    expected = x
    for _ in range(3):
        expected = expected * np.roll(expected, -1)
    np.testing.assert_allclose(lg.compile(smooth)(x=x, steps=3), expected, rtol=1e-14)


def test_small_vectors_are_those_of_numpy():
    @lg.program
    def turned(p):
        n = p.size("n")
        m, x, y = p.input("m", (3, 3), "f64"), p.input("x", (n, 3), "f64"), p.output("y", (n, 3), "f64")
        for i in p.loop("i", n):
            v = np.array([x[i, k] for k in range(3)])
            turn = np.array([[m[r, c] for c in range(3)] for r in range(3)])
            w = np.cross(turn @ v, v) / lg.sqrt(v @ v + 1)
            for k in range(3):
                y[i, k] = w[k]

    random = np.random.default_rng(0)
    m, x = random.normal(size=(3, 3)), random.normal(size=(5, 3))
    expected = [np.cross(m @ v, v) / np.sqrt(v @ v + 1) for v in x]
    np.testing.assert_allclose(lg.compile(turned)(m=m, x=x), expected, rtol=1e-13)
    assert lg.gradcheck(turned, {"m": m, "x": x})


def straight_through(tangent):
    @lg.program
    def rounded(p):
        n = p.size("n")
        x, loss = p.input("x", n, "f64"), p.output("loss", (), "f64")
        q = p.local("q", n, "f64")

        def forward():
            for i in p.loop("i", n):
                q[i] = lg.floor(x[i] + 0.5)

        def adjoint(d):
            for i in p.loop("i", n):
                d(x)[i] += d(q)[i]

        def forward_mode(d):
            for i in p.loop("i", n):
                d(q)[i] = d(x)[i]

        p.custom_gradient([q], x, forward, adjoint, forward_mode if tangent else None)
        loss[...] = 0
        for i in p.loop("i", n):
            loss[...] += q[i] * q[i]

    return rounded


@pytest.mark.parametrize("tangent", [True, False])
def test_a_gradient_of_ones_own(tangent):
    x = np.array([0.2, 1.7, -2.4])
    gradient = lg.compile_gradient(straight_through(tangent))
    assert gradient.forward(x=x) == 8
    np.testing.assert_array_equal(gradient.backward(d_loss=np.ones(())), [0, 4, -4])
