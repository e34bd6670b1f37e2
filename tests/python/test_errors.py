"""Mistakes are exceptions of one family at the user's own line, and never end the process."""

import numpy as np
import pytest

import loopgrad as lg
from conftest import convolution, line_of


def fails(body, *words, kind=lg.UsageError, at=None):
    """`at` marks the line of the mistake in this file."""
    p = lg.ProgramBuilder("p")
    with pytest.raises(kind) as caught:
        body(p)
        p.build()
    for word in words:
        assert word in str(caught.value)
    if at:
        assert caught.value.line == line_of(at, __file__)
        assert caught.value.file == __file__
        assert str(caught.value).startswith(f"test_errors.py:{caught.value.line}: ")
    return caught.value


def test_a_wrong_rank_names_array_and_line():
    def body(p):
        n = p.size("n")
        x, y = p.input("x", n), p.output("y", n)
        for i in p.loop("i", n):
            y[i] = x[i, i]  # rank

    error = fails(body, "program 'p'", "'x'", "Hint", at="# rank")
    assert (error.code, error.program, error.loop, error.array) == ("bad_program", "p", "i", "x")


def test_an_array_is_no_value():
    def left(p):
        x, y = p.input("x"), p.output("y")
        y[...] = x * 2  # array on the left

    def right(p):
        n = p.size("n")
        x, y = p.input("x", n), p.output("y", n)
        for i in p.loop("i", n):
            y[i] = y[i] + x  # array on the right

    def added_to(p):
        n = p.size("n")
        y = p.output("y", n)
        y += 1  # array on its own

    fails(left, "'x' is used as a value", "x[...]", at="# array on the left")
    fails(right, "'x' is used as a value", "x[i]", at="# array on the right")
    fails(added_to, "'y' is used as a value", "y[i]", at="# array on its own")


def test_a_condition_of_python_is_refused():
    def body(p):
        x, y = p.input("x"), p.output("y")
        if x[...] > 0:  # condition
            y[...] = 1

    fails(body, "p.when", "lg.select", at="# condition")


def test_a_chain_of_comparisons_is_refused():
    def body(p):
        n = p.size("n")
        y = p.output("y", n)
        for i in p.loop("i", n):
            with p.when(0 < i < n - 1):  # chain
                y[i] = 1

    fails(body, "&", at="# chain")


def test_math_of_python_is_refused():
    import math

    def body(p):
        x, y = p.input("x"), p.output("y")
        y[...] = math.sin(x[...])  # math

    fails(body, "lg.exp", at="# math")


def test_arrays_of_numpy_are_no_operands():
    def body(p):
        x, y = p.input("x"), p.output("y")
        y[...] = np.ones(3) * x[...]

    fails(body, "what is stored is a ndarray")


def test_a_loop_that_is_left_is_refused():
    def body(p):
        n = p.size("n")
        y = p.output("y", n)
        for i in p.loop("i", n):  # left
            y[i] = 0
            break

    fails(body, "left before its end")


def test_an_exception_in_a_branch_drops_it():
    def body(p):
        y = p.output("y")
        try:
            with p.when(lg.min(1, 2) < 3):
                raise KeyError
        except KeyError:
            y[...] = 1

    fails(body, "left before its end")


def test_otherwise_follows_a_branch():
    def body(p):
        y = p.output("y")
        y[...] = 0
        with p.otherwise():  # nothing before
            y[...] = 1

    fails(body, "does not follow", at="# nothing before")


def test_an_element_of_a_body_that_has_ended():
    def body(p):
        n = p.size("n")
        x, y = p.input("x", n), p.output("y", n)
        for i in p.loop("i", n):
            t = x[i]
        y[0] = t  # ended

    fails(body, "body that has ended", at="# ended")


def test_division_of_integers():
    def body(p):
        n = p.size("n")
        y = p.output("y", n)
        for i in p.loop("i", n):
            y[i] = i / 2  # quotient

    fails(body, "//", at="# quotient")


def test_names_for_elements_that_are_stale():
    def body(p):
        n = p.size("n")
        x = p.inout("x", n)
        for i in p.loop("i", n - 1):
            t = x[i]
            x[i] = x[i + 1]
            x[i + 1] = t  # stale

    fails(body, "written", at="# stale")


def test_no_gradient():
    @lg.program
    def ints(p):
        x, y = p.input("x", (), "i64"), p.output("y", (), "i64")
        y[...] = x[...]

    with pytest.raises(lg.UsageError, match="ints"):
        lg.differentiate(ints, wrt=["x"])


@pytest.mark.parametrize("options", [{"target": "tpu"}, {"thread": 2}, {"facts": "maybe"}, {"threads": -1}])
def test_options(options):
    with pytest.raises(lg.UsageError, match="Hint"):
        lg.compile(convolution(), **options)


def test_a_schedule_that_is_illegal():
    with pytest.raises(lg.TransformError) as caught:
        lg.compile(lg.builtin("recurrence"), schedule="parallelize(i)")
    assert caught.value.loop == "i" and caught.value.array == "x" and caught.value.file.endswith("recurrence.cpp")


def test_a_gpu_that_is_missing():
    if lg.has_cuda():
        pytest.skip("there is a GPU")
    assert lg.why_no_cuda()
    with pytest.raises(lg.RuntimeError) as caught:
        lg.compile(convolution(), target="cuda")
    assert caught.value.code == "no_device"


def test_unknown_programs():
    with pytest.raises(lg.UsageError, match="conv1d"):
        lg.builtin("conv9d")
    with pytest.raises(lg.UsageError, match="cannot be opened"):
        lg.load("/nowhere/libprograms.so")


def test_the_family():
    assert issubclass(lg.RuntimeError, RuntimeError) and issubclass(lg.RuntimeError, lg.Error)
    assert not issubclass(lg.InternalError, lg.Error)


def test_mistakes_with_views():
    def fact(p):
        p.in_range(p.input("x", (3, 3), "i32").row(0), 0, 3)  # fact about a view

    def too_many(p):
        p.input("x", 3).row(0, 1)

    def extent(p):
        p.input("x", (3, 3)).row(0).extent(1)

    def value(p):
        p.output("y")[...] = 2 * p.input("x", (3, 3)).row(0)

    def product(p):
        n = p.size("n")
        p.input("x", n).reshaped((n, 2))

    fails(fact, "'x.row(..)' is a view", at="# fact about a view")
    fails(too_many, "2 indices for the 1 dimensions of 'x'")
    fails(extent, "dimension 1 of 'x.row(..)', which has rank 1")
    fails(value, "write an element of it, x.row(..)[i]")
    fails(product, "'x'", "the product of the new extents")


def test_mistakes_with_gradients_of_ones_own():
    def nothing(*_):
        pass

    def unknown(p):
        n = p.size("n")
        x, z, y = p.input("x", n), p.input("z", n), p.output("y", n)

        def forward():
            for i in p.loop("i", n):
                y[i] = x[i]

        def adjoint(d):
            d(z)  # no input

        p.custom_gradient(y, x, forward, adjoint)

    def too_late(p):
        x, y = p.input("x"), p.output("y")
        kept = []

        def forward():
            y[...] = x[...]

        p.custom_gradient(y, x, forward, kept.append)
        kept[0](x)  # after its rule

    def no_array(p):
        p.custom_gradient(p.scalar("s"), p.input("x"), nothing, nothing)

    def raises(p):
        p.custom_gradient(p.output("y"), p.input("x"), lambda: 1 / 0, nothing)

    fails(unknown, "'z'", at="# no input")
    fails(too_late, "a derivative is named after its rule", at="# after its rule")
    fails(no_array, "is no array")
    fails(raises, kind=ZeroDivisionError)
