"""Programs run on the caller's memory, and what does not fit is refused by name."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

import loopgrad as lg
from conftest import convolution, convolved


@pytest.fixture(scope="module")
def run():
    return lg.compile(convolution(), threads=2)


@pytest.fixture(scope="module")
def gradient():
    return lg.compile_gradient(convolution(lg.f64), threads=2)


def test_outputs_are_made_or_written_in_place(run, random):
    x, w = random.standard_normal(20, np.float32), random.standard_normal(3, np.float32)
    y = np.zeros(18, np.float32)
    made = run(x=x, w=w)
    assert made.dtype == np.float32 and made.shape == (18,)
    assert run({"x": x}, w=w, y=y) is y
    np.testing.assert_array_equal(y, made)
    np.testing.assert_allclose(y, convolved(x, w), rtol=1e-5)


def test_sizes_by_name():
    @lg.program
    def doubled(p):
        n, times = p.sizes("n times")
        x = p.inout("x", n)
        for t in p.loop("t", times):
            for i in p.loop("i", n):
                x[i] *= 2

    run, x = lg.compile(doubled), np.ones(4, np.float32)
    assert run(x=x, times=3) is None and x[0] == 8
    run(x=x, sizes={"times": 1})
    assert x[0] == 16
    with pytest.raises(lg.UsageError, match="times"):
        run(x=x)


def test_gradients_against_differences(gradient, random):
    x, w = random.standard_normal(9), random.standard_normal(3)
    d_y = random.standard_normal(7)
    np.testing.assert_allclose(gradient.forward(x=x, w=w), convolved(x, w), rtol=1e-12)
    d_x, d_w = gradient.backward(d_y=d_y)
    eps = 1e-6
    for array, found in ((x, d_x), (w, d_w)):
        for k in range(len(array)):
            old = array[k]
            array[k] = old + eps
            up = convolved(x, w) @ d_y
            array[k] = old - eps
            down = convolved(x, w) @ d_y
            array[k] = old
            assert abs((up - down) / (2 * eps) - found[k]) < 1e-7


@pytest.mark.parametrize("variant", ["restructured", "atomic", "naive-tape"])
def test_variants_agree(variant, gradient, random):
    x, w, d_y = random.standard_normal(9), random.standard_normal(3), random.standard_normal(7)
    other = lg.compile_gradient(convolution(lg.f64), variant=variant)
    assert other.gradient.variant == variant
    for g in (gradient, other):
        g.forward(x=x, w=w)
    for a, b in zip(gradient.backward(d_y=d_y), other.backward(d_y=d_y)):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_an_in_out_has_an_in_out_gradient():
    @lg.program
    def squared(p):
        n = p.size("n")
        a = p.inout("a", n, "f64")
        for i in p.loop("i", n):
            a[i] *= a[i]

    g = lg.compile_gradient(squared)
    a, d_a = np.array([1.0, 2.0, 3.0]), np.ones(3)
    assert g.forward(a=a) is None
    assert g.backward(d_a=d_a) is None
    np.testing.assert_array_equal(a, [1, 4, 9])
    np.testing.assert_array_equal(d_a, [2, 4, 6])


def refused(run, code, *words, **arrays):
    with pytest.raises(lg.UsageError) as caught:
        run(**arrays)
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value)


def test_wrong_arguments(run):
    x, w = np.ones(20, np.float32), np.ones(3, np.float32)
    refused(run, "bad_type", "'x'", "f64", x=x.astype(np.float64), w=w)
    refused(run, "bad_type", "'x'", x=x.astype(">f4"), w=w)
    refused(run, "bad_type", "'x'", x=x.astype(np.complex64), w=w)
    refused(run, "bad_shape", "'w'", "2 dimensions", x=x, w=w.reshape(1, 3))
    refused(run, "bad_layout", "'w'", "not contiguous", x=x, w=np.ones(6, np.float32)[::2])
    refused(run, "bad_shape", "n = 17", x=x, w=w, y=np.ones(17, np.float32))
    refused(run, "bad_argument", "'w'", "list", x=x, w=[1.0, 2.0, 3.0])
    refused(run, "bad_argument", "'z'", "x, w, y", "n, k", x=x, w=w, z=w)
    refused(run, "bad_argument", "'w'", "missing", x=x)
    refused(run, "aliasing", "'y'", x=x, w=w, y=x[:18])
    y = np.ones(18, np.float32)
    y.flags.writeable = False
    refused(run, "bad_argument", "'y'", "read-only", x=x, w=w, y=y)
    x.flags.writeable = False
    run(x=x, w=w)


def test_nothing_is_copied_and_strided_views_of_rows_fit():
    @lg.program
    def copied(p):
        n, m = p.sizes("n m")
        x, y = p.input("x", (n, m), "i64"), p.output("y", (n, m), "i64")
        for i, j in p.loops(i=n, j=m):
            y[i, j] = x[i, j]

    run = lg.compile(copied)
    big = np.arange(24).reshape(6, 4)
    out = np.zeros((8, 4), np.int64)
    run(x=big[2:4], y=out[3:5])
    np.testing.assert_array_equal(out[3:5], big[2:4])
    assert out[2].sum() == 0 and out[5].sum() == 0


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.int64, np.float16, np.float32, np.float64])
def test_types_of_numpy(dtype):
    p = lg.ProgramBuilder("p")
    x, y = p.input("x", 3, dtype), p.output("y", 3, dtype)
    for i in p.loop("i", 3):
        y[i] = x[i]
    x = np.array([0, 1, 1], dtype)
    y = lg.compile(p.build(), target="interpreter")(x=x)
    assert y.dtype == dtype
    np.testing.assert_array_equal(x, y)


def test_false_facts_are_errors():
    @lg.program
    def gathered(p):
        n = p.size("n")
        idx, x, y = p.input("idx", n, "i32"), p.input("x", n), p.output("y", n)
        p.in_range(idx, 0, n)
        for i in p.loop("i", n):
            y[i] = x[idx[i]]

    run, x = lg.compile(gathered), np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(run(idx=np.array([3, 2, 1, 0], np.int32), x=x), x[::-1])
    with pytest.raises(lg.RuntimeError) as caught:
        run(idx=np.array([3, 2, 1, 4], np.int32), x=x)
    assert caught.value.code == "bad_fact" and caught.value.file == __file__


def test_versioned_arrays_are_verified_once():
    @lg.program
    def gathered(p):
        n = p.size("n")
        idx, x, y = p.input("idx", n, "i32"), p.input("x", n), p.output("y", n)
        p.in_range(idx, 0, n)
        for i in p.loop("i", n):
            y[i] = 2 * x[idx[i]]

    g, x, idx = lg.compile_gradient(gathered), np.ones(4, np.float32), np.array([0, 3, 3, 1], np.int32)
    for _ in range(2):
        g.forward(x=x, idx=lg.versioned(idx, 1))
        np.testing.assert_array_equal(g.backward(d_y=np.ones(4, np.float32)), [2, 2, 0, 4])
    idx[0] = 9
    with pytest.raises(lg.RuntimeError, match="'idx'"):
        g.forward(x=x, idx=lg.versioned(idx, 2))


def test_other_threads_run_while_a_program_does():
    """The GIL is released: a thread of Python gets on while a run takes its time."""

    @lg.program
    def slow(p):
        n = p.size("n")
        x = p.inout("x")
        for i in p.loop("i", n):
            x[...] = lg.sin(x[...])

    run, x = lg.compile(slow, threads=1), np.ones((), np.float32)
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    run(x=x, n=20_000_000)
    during = counted[0] - before
    done.set()
    thread.join()
    assert during > 1000


def test_threads_have_copies_of_a_gradient(gradient, random):
    x, w = random.standard_normal(500), random.standard_normal(3)
    gradient.forward(x=x, w=w)
    expected = gradient.backward(d_y=np.ones(498))
    results = []

    def work():
        own = gradient.copy()
        for _ in range(20):
            own.forward(x=x, w=w)
            results.append(own.backward(d_y=np.ones(498)))

    threads = [threading.Thread(target=work) for _ in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(results) == 60
    for d_x, d_w in results:
        np.testing.assert_array_equal(d_x, expected[0])
        np.testing.assert_array_equal(d_w, expected[1])


def test_explain_and_show_are_strings_and_json():
    program = convolution()
    text = lg.explain(program, sizes={"n": 100, "k": 3})
    assert "Forward takes about" in text and "conftest.py:" in text and "Loops of the" not in text
    text = lg.explain(program, sizes={"n": 100, "k": 3}, details=["loops"])
    assert "Loops of the backward program" in text and "Sums of the" not in text
    assert "Sums of the" in lg.explain(program, details=True)
    found = lg.explain_json(program, sizes={"n": 100, "k": 3})
    assert found["sizes"] == {"k": 3, "n": 100} and found["programs"][1]["name"] == "backward"
    assert lg.show(program) == str(program)
    assert "#pragma omp" in lg.show(program, stage="code", target="openmp")
    assert "__global__" in lg.show(program, stage="code", target="cuda")
    with pytest.raises(lg.UsageError, match="stage"):
        lg.show(program, stage="nothing")


def test_reports_and_sources_are_files(tmp_path):
    program, sizes = convolution(), {"n": 100, "k": 3}
    page = lg.report(program, tmp_path / "page.html", sizes=sizes, wrt=["x"])
    text = Path(page).read_text()
    assert text.startswith("<!doctype html>") and "conftest.py" in text and "d_x" in text and "d_w" not in text
    made = lg.emit(program, tmp_path / "emitted", wrt=["w"], sizes=sizes, name="smooth")
    assert Path(made["header"]).name == "smooth.h" and "smooth_backward" in Path(made["source"]).read_text()
    assert "-std=c++20" in made["build"]
    assert "__global__" in Path(lg.emit(program, tmp_path, target="cuda")["source"]).read_text()
    with pytest.raises(lg.UsageError, match="variant"):
        lg.report(program, page, variant="fast")
    with pytest.raises(lg.Error, match="folder"):
        lg.emit(program, page)


def test_a_gradient_is_programs():
    gradient = lg.differentiate(convolution(lg.f64), wrt=["x"])
    assert "d_x" in str(gradient.backward)
    joined = gradient.joined()
    assert {"g_x", "g_y", "x", "w", "y"} == {a.name for a in joined.arguments}
    lg.differentiate(joined, wrt=["g_y"], of=["g_x"])
    tangent = lg.tangent(convolution(lg.f64), wrt=["x"])
    assert "t_x" in {a.name for a in tangent.arguments}


def squares():
    @lg.program
    def squares(p):
        n = p.size("n")
        x, y = p.input("x", (n,), lg.f64), p.output("y", (n,), lg.f64)
        for i in p.loop("i", n):
            y[i] = x[i] * x[i] + lg.abs(x[0])

    return squares


def test_a_jacobian_in_both_modes():
    x = np.array([1.0, 2.0, 3.0])
    expected = np.diag(2 * x) + np.outer(np.ones(3), [1, 0, 0])
    forward = lg.compile(lg.jacobian(squares(), "y", "x"))(x=x)
    np.testing.assert_allclose(forward.j_y_x, expected)
    reverse = lg.compile(lg.jacobian(squares(), of="y", wrt="x", reverse=True))(x=x)
    np.testing.assert_allclose(reverse.j_y_x, expected.T)


def test_several_directions_at_once():
    x, t_x = np.array([1.0, 2.0, 3.0]), np.arange(6.0).reshape(3, 2)
    jacobian = np.diag(2 * x) + np.outer(np.ones(3), [1, 0, 0])
    tangents = lg.compile(lg.tangent(squares(), directions="k"))(x=x, t_x=t_x)
    np.testing.assert_allclose(tangents.t_y, jacobian @ t_x)
    gradient = lg.compile_gradient(squares(), directions="2")
    gradient.forward(x=x)
    np.testing.assert_allclose(gradient.backward(d_y=t_x), jacobian.T @ t_x)


def test_gradcheck_finds_kinks_and_says_where():
    assert lg.gradcheck(squares(), {"x": np.array([1.0, 2.0, 3.0])}, wrt=["x"], target="interpreter")
    check = lg.gradcheck(squares(), {"x": np.array([0.0, 2.0, 3.0])}, target="interpreter")
    assert check.ok and "Taylor" in str(check)
    kink = check.kinks[0]
    assert (kink.array, kink.element, os.path.basename(kink.file)) == ("x", 0, "test_running.py")
    assert "abs at " in str(kink)
    rounded = lg.gradcheck(convolution(lg.f32), {"x": np.ones(7, np.float32) / 3, "w": np.ones(3, np.float32) / 7}, tolerance=1e-15)
    assert not rounded and rounded.findings[0].test == "dot product"
    with pytest.raises(lg.UsageError, match="array .x.: the argument is missing"):
        lg.gradcheck(squares(), {})


def test_all_built_in_programs_are_there():
    for name in lg.builtin_names():
        assert lg.builtin(name).name == name
    assert len(lg.builtin_names()) > 40


def test_programs_of_a_library():
    path = os.environ.get("LOOPGRAD_TEST_PLUGIN")
    if not path:
        pytest.skip("LOOPGRAD_TEST_PLUGIN names no library")
    programs = lg.load(path)
    assert sorted(programs) == ["halved", "shifted"]
    y = lg.compile(programs["halved"])(x=np.full(3, 3, np.float32))
    np.testing.assert_array_equal(y, [1.5, 1.5, 1.5])
    # Programs of both sides together: what identifies their nodes must be one count.
    g = lg.compile_gradient(programs["shifted"])
    np.testing.assert_array_equal(g.forward(x=np.arange(4, dtype=np.float32)), [1, 2, 3])
    np.testing.assert_array_equal(g.backward(d_y=np.ones(3, np.float32)), [0, 1, 1, 1])
    with pytest.raises(lg.UsageError, match="has no programs"):
        lg.load(lg._core.__file__)


def test_a_budget_for_the_tape_gives_the_same_gradient():
    @lg.program
    def steps(p):
        n, count = p.size("n"), p.size("count")
        x = p.inout("x", n, dtype=lg.f64)
        for t in p.loop("t", 0, count):
            for i in p.loop("i", 0, n):
                x[i] = x[i] + 0.1 * lg.sin(x[i])

    def gradient(**options):
        g = lg.compile_gradient(steps, **options)
        x, d = np.linspace(0, 1, 4), np.ones(4)
        g.forward(x=x, sizes={"count": 100})
        g.backward(x=x, d_x=d, sizes={"count": 100})
        return d, g.tape_bytes

    (all_saved, whole), (in_segments, part) = gradient(), gradient(max_tape_bytes=1000)
    assert whole >= 100 * 4 * 8 and part <= 1000
    np.testing.assert_array_equal(all_saved, in_segments)
    with pytest.raises(lg.Error, match="at least"):
        gradient(max_tape_bytes=100)
