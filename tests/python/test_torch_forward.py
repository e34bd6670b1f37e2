"""Forward mode of operations of PyTorch, and torch.func."""

import pytest

import loopgrad as lg
from conftest import convolution
from test_torch import close, decay, f64, reference, scattered, tensors, torch

forward_ad = torch.autograd.forward_ad


@pytest.fixture(scope="module")
def op():
    return lg.torch.op(convolution(lg.f64))


def test_tangents(op):
    assert torch.autograd.gradcheck(op, tensors(9, 3), check_forward_ad=True)
    in_place = lg.torch.op(decay)
    f = lambda rate, u: in_place(rate, u, steps=3)[:2]  # noqa: E731
    assert torch.autograd.gradcheck(f, tensors((), 5), check_forward_ad=True)
    x, w = (t.detach() for t in tensors(9, 3))
    expected = torch.func.jvp(lambda x: reference(x, w), (x,), (x,))[1]
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        left_out = lg.torch.op(convolution(lg.f64), wrt=["w"])
        assert forward_ad.unpack_dual(left_out(dual, w)).tangent is None
        close(forward_ad.unpack_dual(op(dual, w)).tangent, expected)


def test_tangents_and_gradients_of_each_other(op):
    assert torch.autograd.gradgradcheck(op, tensors(9, 3), check_fwd_over_rev=True)
    gather = lg.torch.op(scattered, versioned=["idx"])
    idx, x = torch.tensor([0, 5, 5, 2], dtype=torch.int32), tensors(6)[0]
    assert torch.autograd.gradgradcheck(lambda x: gather(idx, x), x, check_fwd_over_rev=True)
    x, w = tensors(9, 3)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(op(forward_ad.make_dual(x, torch.ones_like(x)), w)).tangent
        found = torch.autograd.grad(tangent.sum(), (x, w))
        (g,) = torch.autograd.grad(reference(x, w).sum(), x, create_graph=True)
        for a, b in zip(found, torch.autograd.grad(g.sum(), (x, w))):
            close(a, b)
        y = op(forward_ad.make_dual(x, torch.ones_like(x)), w)
        once = lg.torch.op(convolution(lg.f64), double_backward=False)
        with pytest.raises(lg.DifferentiationError, match="double_backward"):
            torch.autograd.grad(once(forward_ad.make_dual(x, torch.ones_like(x)), w).sum(), x)
    with forward_ad.dual_level():  # another one, in which nothing has tangents
        assert forward_ad.unpack_dual(torch.autograd.grad(y.sum(), x)[0]).tangent is None


def test_half_precision_has_tangents_of_its_type():
    op = lg.torch.op(convolution(lg.bf16, "half"))
    x, w = (t.detach() for t in tensors(9, 3, dtype=torch.bfloat16))
    y, t = torch.func.jvp(lambda x: op(x, w), (x,), (x,))
    assert y.dtype == t.dtype == torch.bfloat16
    expected = torch.func.jvp(lambda x: reference(x, w.float()), (x.float(),), (x.float(),))[1]
    torch.testing.assert_close(t.float(), expected, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("transform", ["grad", "jacfwd", "jacrev", "hessian"])
def test_functions_of_functions(op, transform):
    x, w = (t.detach() for t in tensors(9, 3))
    differentiate = getattr(torch.func, transform)
    results = [differentiate(lambda x: f(x, w).pow(2).sum())(x) for f in (op, reference)]
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-9)


def test_vmap(op):
    xs, w = torch.stack([t.detach() for t in tensors(9, 9)], 1), tensors(3)[0].detach()
    close(torch.func.vmap(op, (1, None))(xs, w), torch.stack([reference(x, w) for x in xs.T]))
    assert torch.func.vmap(op, (1, None))(xs[:, :0], w).shape == (0, 7)
    in_place = lg.torch.op(decay)
    u = tensors((2, 5))[0].detach()
    for a, b in zip(torch.func.vmap(lambda u: in_place(u[0], u, steps=2))(u), zip(*(in_place(v[0], v, steps=2) for v in u))):
        assert torch.equal(a, torch.stack(b))


def test_no_tangent_is_dropped(op):
    x, w = (t.detach() for t in tensors(9, 3))
    run = lg.compile(convolution(lg.f64))
    compiled = torch.compile(op, backend="aot_eager")
    with forward_ad.dual_level():
        assert run(x=x, w=w).shape == (7,)
        dual = forward_ad.make_dual(x, torch.ones(9, dtype=f64))
        with pytest.raises(lg.UsageError, match="'x'.*tangent"):
            run(x=dual, w=w)
        with pytest.raises(Exception, match="forward mode"):
            compiled(dual, w)
    with pytest.raises(lg.UsageError, match="'t_x'"):  # a tangent of a tangent
        torch.func.jacfwd(torch.func.jacfwd(lambda x: op(x, w)))(x)
    with pytest.raises(lg.DifferentiationError, match="torch.func.jacfwd"):
        torch.autograd.functional.jacobian(lambda x: op(x, w), x, strategy="forward-mode", vectorize=True)
