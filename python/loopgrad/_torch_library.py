"""Operations as torch.library has them, so that torch.compile keeps them whole."""

import hashlib
import itertools
import weakref

import torch

from . import _core
from ._shapes import shapes_of
from ._torch_forward import refuse_tangents
from ._torch_runs import DTYPES, plain

_numbers = itertools.count()
_library = torch.library.Library("loopgrad", "DEF")


class _Leases:
    """Leases that a compiled graph holds as tensors: a number, whose memory ends with the lease."""

    def __init__(self):
        self._alive = weakref.WeakValueDictionary()
        self._next = itertools.count(1)

    def token(self, lease):
        number = next(self._next)
        self._alive[number] = lease
        return torch.from_dlpack(_core.token(number, lease))

    def lease(self, token):
        return self._alive[int(token)]


def _given(op, sizes):
    return {name: size for name, size in zip(op.program.sizes, sizes) if type(size) is not int or size >= 0}


def register(op):
    """Makes the forward and the backward operation of `op`; returns the forward one."""
    number, leases = next(_numbers), _Leases()
    # What compilers keep on disk for a name is for this program: another one may have had it in a former process.
    digest = hashlib.sha256(f"{op.program} {op.wrt} {op.of}".encode()).hexdigest()[:16]
    name = f"{op.program.name}_{digest}_{number}"
    count = len(op.inputs)
    _library.define(f"{name}(Tensor[] inputs, int mask, SymInt[] sizes) -> Tensor[]")
    _library.define(
        f"{name}_backward(Tensor token, int mask, Tensor[] inputs, Tensor[] outputs, Tensor[] gradients) -> Tensor[]"
    )
    space = getattr(torch.ops, "loopgrad")

    def forward(inputs, mask, sizes):
        refuse_tangents(op)
        inputs = [plain(t) for t in inputs]
        given = _given(op, sizes) or None
        if mask == 0:
            outputs = op._run(op._executable(inputs, given), inputs, given)
            return [*outputs, torch.zeros((), dtype=torch.int64)]
        lease = op._kind(inputs, mask, given).lease()
        outputs = op._run(lease.executable.forward_list, inputs, given)
        return [*outputs, leases.token(lease)]

    def fake_forward(inputs, mask, sizes):
        known = {a.name: tuple(t.shape) for a, t in zip(op.inputs, inputs)}
        shapes = shapes_of(op.program, known, _given(op, sizes), torch.sym_min, torch.sym_max)
        device = inputs[0].device if inputs else op.device
        outputs = [torch.empty(shapes[a.name], dtype=DTYPES[a.dtype.name], device=device) for a in op.outputs]
        return [*outputs, torch.empty((), dtype=torch.int64)]

    def wanted(mask):
        return [i for i in range(count) if mask >> i & 1]

    def backward(token, mask, inputs, outputs, gradients):
        lease = leases.lease(token)
        found = lease.kind.backward(lease.executable, inputs, outputs, gradients)
        return [found[i] for i in wanted(mask)]

    def fake_backward(token, mask, inputs, outputs, gradients):
        return [torch.empty_like(inputs[i], memory_format=torch.contiguous_format) for i in wanted(mask)]

    def setup(ctx, inputs, output):
        ctx.mask, ctx.count = inputs[1], len(inputs[0])
        ctx.save_for_backward(*[plain(t) for t in inputs[0]], *output)
        ctx.set_materialize_grads(True)

    def differentiate(ctx, gradients):
        saved = ctx.saved_tensors
        ins, outs, token = saved[: ctx.count], saved[ctx.count : -1], saved[-1]
        grads = [torch.zeros_like(o) if g is None else g for g, o in zip(gradients, outs)]
        run = getattr(space, name + "_backward").default
        found = iter(run(token, ctx.mask, list(ins), list(outs), grads))
        return [next(found) if ctx.mask >> i & 1 else None for i in range(ctx.count)], None, None

    for run, what in ((forward, name), (backward, name + "_backward")):
        _library.impl(what, run, "CompositeExplicitAutograd")  # on any device, and without tensors, which say on which
    torch.library.register_fake(f"loopgrad::{name}", fake_forward, lib=_library)
    torch.library.register_fake(f"loopgrad::{name}_backward", fake_backward, lib=_library)
    torch.library.register_autograd(f"loopgrad::{name}", differentiate, setup_context=setup, lib=_library)
    return getattr(space, name).default
