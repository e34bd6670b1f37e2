"""What the tests share. They run with PYTHONPATH set to the package in the build folder."""

import os

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np  # noqa: E402

import loopgrad as lg  # noqa: E402


def module(name):
    """An optional library; where LOOPGRAD_REQUIRE_PYTHON is set it is not optional."""
    if os.environ.get("LOOPGRAD_REQUIRE_PYTHON"):
        return __import__(name)
    return pytest.importorskip(name)


def line_of(text, file):
    """The only line of a file that ends with the text."""
    lines = [i for i, line in enumerate(open(file), 1) if line.rstrip().endswith(text)]
    assert len(lines) == 1, lines
    return lines[0]


def convolution(dtype=lg.f32, name="convolution"):
    """y = sin(x * w) x, an output that is read again while it is made."""
    p = lg.ProgramBuilder(name)
    n, k = p.sizes("n k")
    x = p.input("x", (n + k - 1,), dtype)
    w = p.input("w", (k,), dtype)
    y = p.output("y", (n,), dtype)
    for i in p.loop("i", n):
        s = p.scalar("s", dtype, init=0)
        for j in p.loop("j", k):
            s += x[i + j] * w[j]
        y[i] = lg.sin(s) * x[i]
    return p.build()


def convolved(x, w):
    n = len(x) - len(w) + 1
    return np.sin(np.correlate(x, w, "valid")) * x[:n]


@pytest.fixture
def random():
    return np.random.default_rng(7)
