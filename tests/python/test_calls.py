"""What calls refuse, and what stays right after one that failed."""

import numpy as np
import pytest

import loopgrad as lg
from conftest import convolution, convolved


@pytest.fixture(scope="module")
def run():
    return lg.compile(convolution(lg.f64), threads=1)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"n": "7"}, "'n' is a str"),
        ({"n": 7.0}, "'n' is a float"),
        ({"n": 2**70}, "'n' does not fit"),
        ({"sizes": {"n": None}}, "'n' is a NoneType"),
        ({"sizes": {1: 7}}, "1 names no"),
        ({"sizes": 7}, "sizes are a int"),
        ({"arrays": np.ones(3)}, "arrays are a ndarray"),
        ({"stream": "0"}, "stream is a str"),
    ],
)
def test_what_is_no_size(run, given, message):
    with pytest.raises(lg.UsageError, match=message):
        run(**{"x": np.ones(9), "w": np.ones(3), **given})


@pytest.mark.parametrize(
    "options", [{"threads": "2"}, {"target": 1}, {"checked": 2}, {"expected_sizes": {"n": "7"}}, {"expected_sizes": 7}]
)
def test_what_is_no_option(options):
    with pytest.raises(lg.UsageError, match="is a|are a"):
        lg.compile(convolution(), **options)


def test_sizes_may_be_numbers_of_numpy(run):
    assert run(x=np.ones(9), w=np.ones(3), n=np.int32(7)).shape == (7,)


def test_backward_says_which_gradient_is_missing():
    gradient = lg.compile_gradient(convolution(lg.f64), threads=1)
    gradient.forward(x=np.ones(9), w=np.ones(3))
    with pytest.raises(lg.UsageError, match="array 'd_y': the argument is missing"):
        gradient.backward()


def test_a_gradient_after_a_run_that_failed(random):
    """Of the last run that came to its end, whose sizes are others."""
    gradient = lg.compile_gradient(convolution(lg.f64), threads=1)
    x, w, d_y = random.standard_normal(9), random.standard_normal(3), random.standard_normal(7)
    np.testing.assert_allclose(gradient.forward(x=x, w=w), convolved(x, w))
    expected = gradient.backward(d_y=d_y)
    with pytest.raises(lg.UsageError, match="'y'"):
        gradient.forward(x=np.ones(20), w=np.ones(4), y=np.ones(17, np.float32))
    for a, b in zip(gradient.backward(d_y=d_y), expected):
        np.testing.assert_array_equal(a, b)


def test_numbers_stand_for_arrays_of_rank_0():
    @lg.program
    def line(p):
        n = p.size("n")
        slope, start, up = p.input("slope", (), "f64"), p.input("start", (), "i32"), p.input("up", (), "bool")
        y = p.output("y", n, "f64")
        for i in p.loop("i", n):
            y[i] = lg.select(up[...], slope[...], -slope[...]) * (i + start[...])

    gradient = lg.compile_gradient(line, threads=1)
    np.testing.assert_array_equal(gradient.forward(slope=2.5, start=1, up=False, n=2), [-2.5, -5])
    assert gradient.backward(d_y=np.ones(2)) == -3
    run = lg.compile(line, threads=1)
    for wrong in ({"start": 1.5}, {"start": 2**40}, {"up": 1}, {"slope": True}):
        name = next(iter(wrong))
        with pytest.raises(lg.UsageError, match=f"'{name}'"):
            run(**{"slope": 2.5, "start": 1, "up": True, "n": 2, **wrong})
    with pytest.raises(lg.UsageError, match="'x'.*rank 0"):
        lg.compile(convolution())(x=1.0, w=np.ones(3, np.float32))
