"""What tensors may be besides plain ones."""

import copy

import pytest

import loopgrad as lg
from conftest import convolution
from test_torch import close, decay, f64, reference, scattered, tensors, torch


@pytest.fixture(scope="module")
def op():
    return lg.torch.op(convolution(lg.f64))


def test_a_minus_that_is_put_off(op):
    z, w = torch.randn(9, dtype=torch.complex128, generator=torch.Generator().manual_seed(1)), tensors(3)[0]
    x = z.conj().imag
    assert x.is_neg()
    close(op(x, w), reference(x, w))
    g = torch.randn(7, dtype=torch.complex128).conj().imag
    for a, b in zip(torch.autograd.grad(op(x, w), w, g), torch.autograd.grad(reference(x, w), w, g)):
        close(a, b)
    with pytest.raises(lg.UsageError, match="'x'.*negative bit"):
        lg.compile(convolution(lg.f64))(x=x, w=w.detach())


@lg.program
def shapes(p):
    """Extents that three points do not tell from affine ones."""
    n, k = p.sizes("n k")
    few, rest, x = p.input("few", lg.min(n, 5), "f64"), p.input("rest", n % 4, "f64"), p.input("x", n, "f64")
    window = p.input("window", (k + n, lg.select(n > 6, 2, 1)), "f64")
    y, z = p.output("y", lg.min(n, 5), "f64"), p.output("z", ((n + k) // 2, lg.max(k, n - k)), "f64")
    for i in p.loop("i", lg.min(n, 5)):
        y[i] = few[i] * x[i]
    for i, j in p.loops(i=(n + k) // 2, j=lg.max(k, n - k)):
        z[i, j] = x[i % n] * window[j, 0]
    for i in p.loop("i", n % 4):
        y[i] += rest[i]


def test_shapes_with_symbols():
    torch._dynamo.reset()
    op = lg.torch.op(shapes)

    def loss(few, rest, x, window):
        y, z = op(few, rest, window=window, x=x)
        return y.sum() / y.shape[0] + (z * 1.5).sum() / (z.shape[0] + 2 * z.shape[1])

    compiled = torch.compile(loss, backend="aot_eager", dynamic=True)  # results show the extents
    for n, k in ((8, 2), (11, 3), (6, 4)):
        given = tensors(min(n, 5), n % 4, n, (n + k, 2 if n > 6 else 1))
        close(compiled(*given), loss(*given))
        for a, b in zip(torch.autograd.grad(compiled(*given), given), torch.autograd.grad(loss(*given), given)):
            close(a, b)


def test_a_program_without_inputs():
    @lg.program
    def counted(p):
        n = p.size("n")
        y = p.output("y", n, "f64")
        for i in p.loop("i", n):
            y[i] = lg.cast("f64", i) * 2

    op = lg.torch.op(counted)
    expected = torch.arange(0, 6, 2, dtype=f64)
    close(op(n=3), expected)
    torch._dynamo.reset()
    close(torch.compile(lambda: op(n=3) + 1, backend="aot_eager", fullgraph=True)(), expected + 1)


def test_versioned_tensors_that_pytorch_does_not_count_changes_of():
    op, x = lg.torch.op(scattered, versioned=["idx"]), tensors(6)[0].detach()
    with torch.inference_mode():
        idx = torch.tensor([0, 5, 2], dtype=torch.int32)
        close(op(idx, x), x[[0, 5, 2]] ** 2)
        idx[0] = 1
        close(op(idx, x), x[[1, 5, 2]] ** 2)
        idx[0] = 6
        with pytest.raises(lg.RuntimeError, match="'idx'"):
            op(idx, x)


def test_numbers_and_copies():
    op, u = lg.torch.op(decay), tensors(5)[0]
    torch._dynamo.reset()
    compiled = torch.compile(lambda u: op(0.5, u, steps=2), backend="aot_eager", fullgraph=True)
    expected = op(torch.tensor(0.5, dtype=f64), u, steps=2)
    for found in (op(0.5, u, steps=2), op(rate=0.5, u=u, steps=2), compiled(u)):
        for a, b in zip(found, expected):
            close(a, b)
    with pytest.raises(lg.UsageError, match="'rate'.*a str, and no tensor"):
        op("0.5", u, steps=2)
    with pytest.raises(lg.UsageError, match="'u'.*a float, and no tensor"):
        op(0.5, 0.5, steps=2)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.op, self.rate = op, torch.nn.Parameter(torch.tensor(0.5, dtype=f64))

        def forward(self, u):
            return self.op(self.rate, u, steps=2)[1]

    copied = copy.deepcopy(Layer())
    copied(u).backward()
    assert copied.rate.grad is not None


def test_errors_have_one_line():
    y = torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1, dtype=f64), (9,))
    with pytest.raises(lg.UsageError) as caught:
        lg.compile(convolution(lg.f64))(x=y, w=torch.ones(3, dtype=f64))
    assert "\n" not in str(caught.value) and "Hint" in str(caught.value)
