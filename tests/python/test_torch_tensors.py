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
