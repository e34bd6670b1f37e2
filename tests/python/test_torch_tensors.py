"""What tensors may be besides plain ones."""

import pytest

import loopgrad as lg
from conftest import convolution
from test_torch import close, f64, reference, tensors, torch


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
