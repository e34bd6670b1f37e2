"""Programs as operations of PyTorch."""

import gc
import threading

import pytest

import loopgrad as lg
from conftest import convolution, module

torch = module("torch")
import loopgrad.torch  # noqa: E402

f64 = torch.float64


def reference(x, w):
    n = x.shape[0] - w.shape[0] + 1
    return torch.sin(torch.nn.functional.conv1d(x[None, None], w[None, None])[0, 0]) * x[:n]


def tensors(*shapes, dtype=f64):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(s, dtype=dtype, generator=generator, requires_grad=True) for s in shapes]


@pytest.fixture(scope="module")
def op():
    return lg.torch.op(convolution(lg.f64))


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)


def test_values_and_gradients(op):
    x, w = tensors(9, 3)
    close(op(x, w), reference(x, w))
    close(op(w=w, x=x), reference(x, w))
    g = torch.randn(7, dtype=f64)
    for a, b in zip(torch.autograd.grad(op(x, w), (x, w), g), torch.autograd.grad(reference(x, w), (x, w), g)):
        close(a, b)
    with torch.no_grad():
        assert not op(x, w).requires_grad


def test_gradcheck(op):
    assert torch.autograd.gradcheck(op, tensors(9, 3))
    assert torch.autograd.gradgradcheck(op, tensors(9, 3))


def test_the_third_derivative(op):
    """The gradient itself depends on the inputs there, which must not be counted twice."""

    def third(f, x, w):
        (g,) = torch.autograd.grad(f(x, w).pow(2).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad((g * g).sum(), w, create_graph=True)
        return torch.autograd.grad((h**2).sum(), (x, w))

    x, w = tensors(9, 3)
    for a, b in zip(third(op, x, w), third(reference, x, w)):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_gradients_by_some_inputs(op):
    x, w = tensors(9, 3)
    frozen = w.detach()
    close(torch.autograd.grad(op(x, frozen).sum(), x)[0], torch.autograd.grad(reference(x, frozen).sum(), x)[0])
    only = lg.torch.op(convolution(lg.f64), wrt=["x"])
    assert torch.autograd.grad(only(x, w).sum(), w, allow_unused=True) == (None,)


def test_an_operation_that_is_used_twice_has_two_tapes(op):
    """Both forward runs come before the first backward run."""
    x, w = tensors(11, 3)

    def twice(f):
        return (f(f(x, w), w) * f(x[1:10], w)[:5].sum()).sum()

    for a, b in zip(torch.autograd.grad(twice(op), (x, w)), torch.autograd.grad(twice(reference), (x, w))):
        close(a, b)


def test_backward_twice(op):
    x, w = tensors(9, 3)
    loss = op(x, w).sum()
    first = torch.autograd.grad(loss, (x, w), retain_graph=True)
    for a, b in zip(first, torch.autograd.grad(loss, (x, w))):
        close(a, b)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(loss, (x, w))


def test_tapes_are_given_back(op):
    x, w = tensors(9, 3)
    kind = op._kind([x, w], 3)
    for _ in range(5):
        op(x, w).sum().backward()
    gc.collect()
    held = len(kind.free)
    for _ in range(5):
        op(x, w).sum().backward()
    gc.collect()
    assert len(kind.free) == held <= 3


def test_inputs_that_are_changed_in_place_are_found(op):
    x, w = tensors(9, 3)
    y = op(x * 1, w2 := w * 1)
    with torch.no_grad():
        w2.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_layouts(op):
    x, w = tensors(18, 3)
    close(op(x[::2], w), reference(x[::2], w))
    a = torch.autograd.grad(op(x[::2], w).sum(), x)[0]  # an expanded incoming gradient
    close(a, torch.autograd.grad(reference(x[::2], w).sum(), x)[0])


def test_threads(op):
    x, w = tensors(400, 3)
    expected = torch.autograd.grad(op(x, w).sum(), (x, w))
    wrong = []

    def work():
        for _ in range(20):
            for a, b in zip(torch.autograd.grad(op(x, w).sum(), (x, w)), expected):
                if not torch.equal(a, b):
                    wrong.append(a)

    threads = [threading.Thread(target=work) for _ in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


@lg.program
def decay(p):
    """In place, with a number of steps that no extent gives, and two outputs."""
    n, steps = p.sizes("n steps")
    rate = p.input("rate", (), "f64")
    u = p.inout("u", n, "f64")
    total, count = p.output("total", (), "f64"), p.output("count", (), "i64")
    for t in p.loop("t", steps):
        for i in p.loop("i", n):
            u[i] -= rate[...] * u[i] * u[i]
    total[...] = 0
    count[...] = n
    for i in p.loop("i", n):
        total[...] += lg.exp(u[i])


def test_in_outs_sizes_and_outputs_without_gradients():
    op = lg.torch.op(decay)
    rate, u = tensors((), 5)
    kept = u.detach().clone()

    def plain(rate, u):
        for _ in range(3):
            u = u - rate * u * u
        return u, u.exp().sum()

    last, total, count = op(rate, u, steps=3)
    assert count.item() == 5 and not count.requires_grad and torch.equal(u, kept)
    close(last, plain(rate, u)[0])
    close(total, plain(rate, u)[1])
    f = lambda rate, u: op(rate, u, sizes={"steps": 3})[:2]  # noqa: E731
    assert torch.autograd.gradcheck(f, (rate, u))
    assert torch.autograd.gradgradcheck(f, (rate, u))


@lg.program
def scattered(p):
    n, m = p.sizes("n m")
    idx, x, y = p.input("idx", m, "i32"), p.input("x", n, "f64"), p.output("y", m, "f64")
    p.in_range(idx, 0, n)
    for e in p.loop("e", m):
        y[e] = x[idx[e]] * x[idx[e]]


def test_versioned_inputs_are_looked_at_again_when_they_change():
    op = lg.torch.op(scattered, versioned=["idx"])
    x = tensors(6)[0]
    idx = torch.tensor([0, 5, 5, 2], dtype=torch.int32)
    check = lambda: close(torch.autograd.grad(op(idx, x).sum(), x)[0],  # noqa: E731
                          torch.autograd.grad((x[idx.long()] ** 2).sum(), x)[0])  # fmt: skip
    for _ in range(3):
        check()
    idx[1] = 0  # in place: the order of the backward run's sums must be another one
    check()
    idx = torch.tensor([3, 3, 3, 3], dtype=torch.int32)  # another tensor, perhaps where the old one was
    check()
    assert torch.autograd.gradgradcheck(lambda x: op(idx, x), x)
    idx[0] = 6
    with pytest.raises(lg.RuntimeError, match="'idx'"):
        op(idx, x)
    with pytest.raises(lg.UsageError, match="'y'"):
        lg.torch.op(scattered, versioned=["y"])


def test_half_precision():
    op = lg.torch.op(convolution(lg.bf16, "half"))
    x, w = tensors(9, 3, dtype=torch.bfloat16)
    y = op(x, w)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == torch.bfloat16
    torch.testing.assert_close(y, reference(x.float(), w.float()).bfloat16(), rtol=2e-2, atol=2e-2)


@lg.program
def rows(p):
    """A tape whose extent depends on data."""
    n = p.size("n")
    count, x, y = p.input("count", n, "i32"), p.input("x", n, "f64"), p.output("y", n, "f64")
    for i in p.loop("i", n):
        s = p.scalar("s", init=x[i])
        for k in p.loop("k", count[i]):
            s *= lg.sin(s)
        y[i] = s


def test_what_cannot_be_differentiated_twice_says_so():
    count, x = torch.tensor([0, 1, 3], dtype=torch.int32), tensors(3)[0]
    op = lg.torch.op(rows)
    assert torch.autograd.gradcheck(lambda x: op(count, x), x)
    (g,) = torch.autograd.grad(op(count, x).sum(), x, create_graph=True)
    with pytest.raises(lg.DifferentiationError, match="at_most"):
        g.sum().backward()
    op = lg.torch.op(convolution(lg.f64), double_backward=False)
    x, w = tensors(9, 3)
    with pytest.raises(lg.DifferentiationError, match="double_backward"):
        torch.autograd.grad(op(x, w).sum(), x, create_graph=True)


@lg.program
def steps(p):
    n, count = p.sizes("n count")
    x = p.inout("x", n, lg.f64)
    for _ in p.loop("t", count):
        for i in p.loop("i", n):
            x[i] = x[i] + 0.1 * lg.sin(x[i])


def test_a_budget_for_the_tape():
    all_saved, in_segments = lg.torch.op(steps), lg.torch.op(steps, max_tape_bytes=1000)
    x = tensors(4)[0]

    def gradient(op):
        return torch.autograd.grad(op(x, count=100).sum(), x)[0]

    assert torch.equal(gradient(all_saved), gradient(in_segments))
    compiled = torch.compile(in_segments, backend="aot_eager", fullgraph=True)
    assert torch.equal(gradient(all_saved), gradient(compiled))
    (kind,) = in_segments._kinds.values()
    assert 0 < kind.executable.tape_bytes <= 1000
    with pytest.raises(lg.RuntimeError, match="max_tape_bytes = 100"):
        gradient(lg.torch.op(steps, max_tape_bytes=100))
    with pytest.raises(lg.DifferentiationError, match="leave max_tape_bytes out"):
        torch.autograd.grad(in_segments(x, count=100).sum(), x, create_graph=True)
    with pytest.raises(lg.DifferentiationError, match="leave max_tape_bytes out"):
        torch.func.grad(lambda x: in_segments(x, count=100).sum())(x)
    with pytest.raises(lg.UsageError, match="leave double_backward or max_tape_bytes out"):
        lg.torch.op(steps, double_backward=True, max_tape_bytes=1000)


def test_mistakes(op):
    x, w = tensors(9, 3)
    with pytest.raises(lg.UsageError, match="'x'.*f32, expected f64"):
        op(x.float(), w)
    with pytest.raises(lg.UsageError, match="'w'.*no tensor"):
        op(x, 3)
    with pytest.raises(lg.UsageError, match="too many"):
        op(x, w, w)
    with pytest.raises(lg.UsageError, match="the inputs are x, w; the sizes are n, k"):
        op(x, w, z=3)
    with pytest.raises(lg.UsageError, match="'v'"):
        lg.torch.op(convolution(), wrt=["v"])
    run = lg.compile(convolution(lg.f64))
    with pytest.raises(lg.UsageError, match="'x'.*requires a gradient"):
        run(x=x, w=w)
    y = run(x=x.detach(), w=w.detach())
    assert isinstance(y, torch.Tensor)
    close(y, reference(x, w).detach())


def test_plain_runs_write_into_tensors():
    run = lg.compile(convolution(lg.f64))
    x, w = (t.detach() for t in tensors(9, 3))
    y = torch.zeros(9, dtype=f64)
    run(x=x, w=w, y=y[1:8])
    close(y[1:8], reference(x, w))
    assert y[0] == y[8] == 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile_keeps_one_graph(op, backend):
    torch._dynamo.reset()
    f = torch.compile(lambda x, w: op(x * 2, w).cos().sum(), fullgraph=True, backend=backend)
    r = lambda x, w: reference(x * 2, w).cos().sum()  # noqa: E731
    for n in (9, 12, 15):  # the second and third with symbols for sizes
        x, w = tensors(n, 3)
        for a, b in zip(torch.autograd.grad(f(x, w), (x, w)), torch.autograd.grad(r(x, w), (x, w))):
            close(a, b)
        with torch.no_grad():
            close(f(x, w), r(x, w))


def test_compile_gives_tapes_back(op):
    torch._dynamo.reset()
    f = torch.compile(lambda x, w: op(x, w).sum(), fullgraph=True, backend="aot_eager")
    x, w = tensors(9, 3)
    kind = op._kind([x, w], 3)
    for _ in range(6):
        f(x, w).backward()
    gc.collect()
    assert len(kind.free) <= 3 and kind.free


def test_opcheck(op):
    x, w = tensors(9, 3)
    torch.library.opcheck(op._compiled(), ([x, w], 3, [-1, -1]), test_utils=("test_schema", "test_faketensor"))
