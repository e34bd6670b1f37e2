"""Forward mode of operations on tensors, and ``torch.func``.

Tangents of dual tensors belong to PyTorch's forward mode. An operation takes them off, runs on what is left, and gives its
outputs tangents by another operation, that of the tangent program. As this one is an operation like any other, what it
gives can be differentiated again.
"""

import torch
from torch.autograd import forward_ad

from . import _core
from .errors import DifferentiationError

_enabled = torch._C._is_fwd_grad_enabled
# The transformation of torch.func at work, whose tensors have no memory of their own; or None.
transforms = torch._C._functorch.peek_interpreter_stack


def has_level():
    return forward_ad._current_level >= 0


def tangents_of(op, tensors):
    """Tangents at the current level, None for each tensor that has none; just None when no tensor has one."""
    if not has_level() or not _enabled():
        return None
    try:
        found = [forward_ad.unpack_dual(t).tangent if isinstance(t, torch.Tensor) else None for t in tensors]
    except RuntimeError as error:  # of the older vmap that torch.autograd.functional has
        raise _error(op, f"there is no tangent of its arguments: {error}", "use torch.func.jacfwd or torch.func.jvp") from error
    return found if any(t is not None for t in found) else None


def with_tangents(tensors, tangents):
    if tangents is None:
        return tensors
    return [x if t is None else forward_ad.make_dual(x, t) for x, t in zip(tensors, tangents)]


def refuse_tangents(op):
    """Where PyTorch has hidden from its forward mode that an operation runs: results would lack their tangents."""
    if has_level() and _enabled():
        raise _error(op, "forward mode does not reach through torch.compile", "call the operation outside of it")


def _error(op, message, hint):
    error = DifferentiationError(f"program '{op.program.name}': {message}. Hint: {hint}")
    error.code, error.program, error.message, error.hint = "not_differentiable", op.program.name, message, hint
    return error


def pushed_forward(op, tensors, tangents, sizes):
    """Outputs with tangents."""
    primals = [forward_ad.unpack_dual(t).primal for t in tensors]
    outputs = op._recorded(primals, sizes, tensors)  # which have no tangents any more when their level has ended
    return with_tangents(outputs, _tangents_of_outputs(op, primals, tangents, sizes))


def _tangents_of_outputs(op, primals, tangents, sizes):
    named = {a.name: (p, t) for a, p, t in zip(op.inputs, primals, tangents)}
    wrt = tuple(name for name, (_, t) in named.items() if t is not None and name in op.wrt)
    if not wrt:
        return [None] * len(op._result_names)
    tangent = op._tangent(wrt)
    given = {name: p for name, (p, _) in named.items()}
    for name in wrt:  # tangents of 16 bits are computed in 32
        t = named[name][1]
        given["t_" + name] = t.float() if t.dtype.itemsize == 2 else t
    found = dict(zip((a.name for a in tangent.outputs), tangent._eager([given[a.name] for a in tangent.inputs], sizes)))
    return [found["t_" + a.name].to(op.dtypes[a.name]) if a.name in op.of else None for a in op.outputs]


class Transformed(torch.autograd.Function):
    """An operation as ``torch.func`` takes functions apart: each part consists of operations again."""

    @staticmethod
    def forward(op, sizes, *tensors):
        return tuple(op._eager(list(tensors), sizes))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.op, ctx.sizes = inputs[:2]
        ctx.save_for_backward(*inputs[2:])
        ctx.save_for_forward(*inputs[2:])
        ctx.mark_non_differentiable(*[output[i] for i in ctx.op._constants])

    @staticmethod
    def jvp(ctx, _op, _sizes, *tangents):
        return tuple(_tangents_of_outputs(ctx.op, ctx.saved_tensors, tangents, ctx.sizes))

    @staticmethod
    def backward(ctx, *gradients):
        op, inputs = ctx.op, ctx.saved_tensors
        mask = sum(1 << i for i, needed in enumerate(ctx.needs_input_grad[2:]) if needed and op._has_gradient[i])
        return (None, None, *op._joined(op._kind(inputs, mask, ctx.sizes), inputs, gradients, ctx.sizes))

    @staticmethod
    def vmap(info, in_dims, op, sizes, *tensors):
        dims, names = in_dims[2:], [a.name for a in op.outputs]
        each = [[t if d is None else t.select(d, k) for t, d in zip(tensors, dims)] for k in range(info.batch_size)]
        if each:
            results = tuple(torch.stack(outputs) for outputs in zip(*(op._eager(one, sizes) for one in each)))
        else:
            shapes = {
                a.name: [e for k, e in enumerate(t.shape) if k != d] for a, t, d in zip(op.inputs, tensors, dims)
            }
            shapes = _core.extents(op.program, shapes, sizes or {})[1]
            like = next(t for t, d in zip(tensors, dims) if d is not None)
            results = tuple(like.new_empty((0, *shapes[n]), dtype=op.dtypes[n]) for n in names)
        return results, (0,) * len(names)
