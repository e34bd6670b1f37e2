"""What is recorded from Python is what C++ records."""

import numpy as np
import pytest

import loopgrad as lg


def recorded(body):
    p = lg.ProgramBuilder("p")
    body(p)
    return str(p.build())


def test_a_built_in_program_is_the_same_text():
    @lg.program
    def conv1d(p):
        n, k = p.size("n"), p.size("k")
        x = p.input("x", (n + k - 1,))
        w = p.input("w", (k,))
        y = p.output("y", (n,))
        for i in p.loop("i", n):
            y[i] = 0
            for j in p.loop("j", k):
                y[i] += x[i + j] * w[j]

    assert str(conv1d) == str(lg.builtin("conv1d"))


def test_statements():
    def body(p):
        n = p.size("n")
        x, y = p.input("x", n), p.output("y", (n, 2))
        a = p.inout("a", (), "f64")
        for i in p.loop("i", 1, n):
            t = p.local("t", 2)
            t[0] = x[i]
            t[1] = x[i - 1] / 2
            with p.when((x[i] > 0) & ~(i == 3)):
                y[i, 0] = lg.exp(t[0])
                y[i, 1] = lg.select(x[i] < 1, 2, lg.max(t[1], 0)) ** 0.5
            with p.otherwise():
                y[i, 0] = -t[0]
                y[i, 1] = t[0] - 1
                y[i, 1] *= t[1]
                y[i, 1] /= 3
            a[...] += x[i]
            y[i, 0].max_with(x[i])
            y[i, 1].min_with(abs(x[i]))

    assert recorded(body) == (
        "program p(n)\n"
        "  input  f32 x[n]\n"
        "  output f32 y[n, 2]\n"
        "  inout  f64 a\n"
        "for i in 1..n:\n"
        "  local f32 t[2]\n"
        "  t[0] = x[i]\n"
        "  t[1] = x[i - 1]/2\n"
        "  if x[i] > 0 && !(i == 3):\n"
        "    y[i, 0] = exp(t[0])\n"
        "    y[i, 1] = pow(select(x[i] < 1, 2, max(t[1], 0)), 0.5)\n"
        "  else:\n"
        "    y[i, 0] = -t[0]\n"
        "    y[i, 1] = t[0] - 1\n"
        "    y[i, 1] *= t[1]\n"
        "    y[i, 1] = y[i, 1]/3\n"
        "  a += f64(x[i])\n"
        "  y[i, 0] max= x[i]\n"
        "  y[i, 1] min= abs(x[i])\n"
    )


def test_loops_scalars_integers_and_facts():
    def body(p):
        n, m = p.sizes("n m")
        ptr, col = p.input("ptr", n + 1, "i32"), p.input("col", m, "i32")
        x, y = p.input("x", n), p.output("y", n)
        p.csr(ptr, m)
        p.in_range(col, 0, n)
        for v in p.loop("v", n):
            s = p.scalar("s", init=0.0)
            for e in p.loop("e", ptr[v], ptr[v + 1], at_most=m):
                s += x[col[e]]
            for k in p.loop_while("k", 10, lambda k: s > 1):
                s *= 0.5
            y[v] = s + lg.cast("f32", v // 2 + v % 3)

    assert recorded(body) == (
        "program p(n, m)\n"
        "  input  i32 ptr[n + 1]\n"
        "  input  i32 col[m]\n"
        "  input  f32 x[n]\n"
        "  output f32 y[n]\n"
        "  fact   ptr csr pointer of m\n"
        "  fact   col in 0..n\n"
        "for v in 0..n:\n"
        "  local f32 s\n"
        "  s = 0\n"
        "  for e in ptr[v]..ptr[v + 1] (at most m):\n"
        "    s += x[col[e]]\n"
        "  for k in 0..10 while s > 1:\n"
        "    s *= 0.5\n"
        "  y[v] = s + f32(v//2 + v%3)\n"
    )


def test_nested_loops_in_one_statement():
    def body(p):
        n = p.size("n")
        y = p.output("y", (n, n))
        for i, j in p.loops(i=n, j=(1, n)):
            y[i, j] = 1

    assert recorded(body).endswith("for i in 0..n:\n  for j in 1..n:\n    y[i, j] = 1\n")


def test_named_values_tables_and_strides():
    def body(p):
        n = p.size("n")
        x, y = p.inout("x", n), p.output("y", n)
        weights = p.table("weights", [0.25, 0.75])
        for i in p.loop("i", 0, n, step=2, descending=True):
            old = p.let("old", x[i] * weights[0])
            x[i] = 0
            y[i] = old

    text = recorded(body)
    assert "\nweights[1] = 0.75\n" in text and " old = " in text
    run = lg.compile(lg.program(name="p")(body), target="interpreter")
    x, y = np.arange(1, 6, dtype=np.float32), np.zeros(5, np.float32)
    run(x=x, y=y)
    np.testing.assert_array_equal(y, [0.25, 0, 0.75, 0, 1.25])
    np.testing.assert_array_equal(x, [0, 2, 0, 4, 0])


def test_small_vectors_are_named_by_components():
    def body(p):
        x, y = p.input("x", 3, "f64"), p.output("y", (), "f64")
        v = p.let("v", np.array([x[k] for k in range(3)]) / 2)
        m = p.let("m", np.outer(v[:2], [1, v[2]]))
        p.recompute(v[0])
        y[...] = (m @ v[:2])[0]

    assert recorded(body) == (
        "program p()\n"
        "  input  f64 x[3]\n"
        "  output f64 y\n"
        "local f64 v_0 recomputed\n"
        "v_0 = x[0]/2\n"
        "local f64 v_1\n"
        "v_1 = x[1]/2\n"
        "local f64 v_2\n"
        "v_2 = x[2]/2\n"
        "local f64 m_0_0\n"
        "m_0_0 = v_0\n"
        "local f64 m_0_1\n"
        "m_0_1 = v_0*v_2\n"
        "local f64 m_1_0\n"
        "m_1_0 = v_1\n"
        "local f64 m_1_1\n"
        "m_1_1 = v_1*v_2\n"
        "y = m_0_0*v_0 + m_0_1*v_1\n"
    )


def test_else_if():
    def body(p):
        n = p.size("n")
        x, y = p.input("x", n), p.output("y", n)
        for i in p.loop("i", n):
            with p.when(x[i] < 0):
                y[i] = 1
            with p.otherwise(x[i] < 1):
                y[i] = 2
            with p.otherwise():
                y[i] = 3

    assert recorded(body).endswith(
        "  if x[i] < 0:\n    y[i] = 1\n  else if x[i] < 1:\n    y[i] = 2\n  else:\n    y[i] = 3\n"
    )


def test_a_function_with_parameters_records_when_it_is_called():
    @lg.program
    def power(p, times):
        x, y = p.inout("x"), p.output("y")
        for _ in range(times):
            x[...] *= 2
        y[...] = x[...]

    assert str(power(3)).count("*= 2") == 3


def test_an_update_through_a_variable_is_one_statement():
    def body(p):
        n = p.size("n")
        x, y = p.input("x", n), p.output("y", n)
        for i in p.loop("i", n):
            t = y[i]
            t.set(0)
            t += x[i]

    assert recorded(body).endswith("  y[i] = 0\n  y[i] += x[i]\n")


def test_a_variable_of_a_body_does_not_hide_elements_after_it():
    """Python keeps `t` alive after the loop; C++ would not."""

    def body(p):
        n = p.size("n")
        x, y = p.inout("x", n), p.output("y", n)
        for i in p.loop("i", n):
            t = x[i]
            t += 1
        for i in p.loop("i", n):
            y[i] = x[i]

    assert recorded(body).endswith("y[i] = x[i]\n")


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64", "i32", "i64", "bool"])
def test_types(name):
    p = lg.ProgramBuilder("p")
    p.input("x", (), name)
    assert p.build().arguments[0].dtype.name == name


def test_types_of_other_libraries():
    p = lg.ProgramBuilder("p")
    for k, dtype in enumerate((np.float64, np.dtype("int32"), float, int, bool, "float16")):
        p.input(f"x{k}", (), dtype)
    assert [a.dtype.name for a in p.build().arguments] == ["f64", "i32", "f64", "i64", "bool", "f16"]


def test_arguments_and_sizes_of_a_program():
    program = lg.builtin("conv1d")
    assert program.name == "conv1d" and program.sizes == ["n", "k"]
    assert [repr(a) for a in program.arguments] == ["input x: f32[n + k - 1]", "input w: f32[k]", "output y: f32[n]"]


def test_what_the_tape_has():
    def body(p):
        n = p.size("n")
        x, y = p.input("x", n), p.output("y", n)
        for i in p.loop("i", n):
            s = p.scalar("s", init=lg.exp(x[i]))
            t = p.local("t", 2)
            t[0] = s * x[i]
            t[1] = x[i]
            v = p.let("v", t[0] * t[1])
            p.save(s)
            p.recompute(t)
            p.save(v)
            y[i] = v * v * s

    text = recorded(body)
    assert "local f32 s saved" in text
    assert "local f32 t[2] recomputed" in text
    assert "local f32 v saved" in text
    with pytest.raises(lg.UsageError, match="no local of this program"):
        recorded(lambda p: p.save(p.input("x", 3)))
