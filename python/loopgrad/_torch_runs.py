"""Compiled gradients of an operation of PyTorch with their tapes, and versions of tensors."""

import itertools

import torch
from torch.utils.weak import WeakIdKeyDictionary

from . import _core

DTYPES = {
    "bool": torch.bool,
    "i32": torch.int32,
    "i64": torch.int64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}


def dtype_of(info):
    return DTYPES[info.dtype.name]


def plain(tensor):
    """The tensor as its memory is to be read: in order, and without a minus that PyTorch has put off (``z.conj().imag``)."""
    if tensor.is_contiguous() and not tensor.is_neg():
        return tensor
    return tensor.resolve_neg().contiguous()


class Lease:
    """A gradient with its tape, from a forward run to the end of what may run backward from it."""

    __slots__ = ("kind", "executable", "__weakref__")

    def __init__(self, kind, executable):
        self.kind, self.executable = kind, executable

    def __del__(self):
        self.kind.free.append(self.executable)


class Kind:
    """The gradient of an operation by some of its inputs, compiled for one target."""

    def __init__(self, op, options, wrt):
        self.gradient = _core.differentiate(
            op.program, list(wrt), list(op.of), op.variant, max_tape_bytes=op.max_tape_bytes
        )
        self.executable = _core.compile(self.gradient, **options)
        self.free = [self.executable]
        inputs = {info.name: i for i, info in enumerate(op.inputs)}
        outputs = {info.name: i for i, info in enumerate(op.outputs)}
        self.op, self.inputs_read, self.outputs_read = op, [], []
        self.dtypes = [dtype_of(info) for info in op.inputs]
        # Where the arrays of a backward run come from, as positions among inputs, outputs, gradients of outputs, and None for
        # what is made; which of them the run changes; and which are gradients of which inputs.
        self.sources, self.changed, self.results = [], [], []
        self.gradient_dtypes = [torch.float32 if dtype_of(a).itemsize == 2 else dtype_of(a) for a in op.outputs]
        after_inputs, after_outputs = len(op.inputs), len(op.inputs) + len(op.outputs)
        for place, info in enumerate(self.executable.backward_arguments):
            name = info.name[2:]
            if info.name in outputs:  # an in-out is as the forward run has left it
                self.sources.append(after_inputs + outputs[info.name])
                self.outputs_read.append(outputs[info.name])
            elif info.name in inputs:
                self.sources.append(inputs[info.name])
                self.inputs_read.append(inputs[info.name])
            else:
                self.sources.append(-1 if info.role == "output" else after_outputs + outputs[name])
                if info.role != "input":
                    self.results.append((inputs[name], place))
            if info.role == "in-out":
                self.changed.append(place)

    def lease(self):
        try:
            executable = self.free.pop()
        except IndexError:
            executable = self.executable.copy()
        return Lease(self, executable)

    def backward(self, executable, inputs, outputs, gradients):
        """The gradients by all inputs, None where there is none."""
        gradients = [g if g.dtype is d and g.is_contiguous() and not g.is_neg() else plain(g.to(d))
                     for g, d in zip(gradients, self.gradient_dtypes)]  # fmt: skip
        given = (*self.op._with_versions(inputs), *outputs, *gradients, None)
        arrays = [given[at] for at in self.sources]
        for at in self.changed:
            arrays[at] = arrays[at].clone()
        made = iter(executable.backward_list(arrays))
        results = [None] * len(inputs)
        for at, place in self.results:
            results[at] = next(made) if arrays[place] is None else arrays[place]
        return [r if r is None or r.dtype is d else r.to(d) for r, d in zip(results, self.dtypes)]

    def restore(self, ctx):
        """Inputs and outputs of the forward run; None for those that nobody reads."""
        op, saved = self.op, ctx.saved_tensors
        count = len(op._names) if op.double_backward else len(self.inputs_read)
        inputs, outputs = saved[:count], [None] * len(op._result_names)
        if not op.double_backward:
            inputs = [None] * len(op._names)
            for i, t in zip(self.inputs_read, saved):
                inputs[i] = t
        for i, t in zip(self.outputs_read, saved[count:]):
            outputs[i] = t
        return inputs, outputs


class Versions:
    """A number for the contents of a tensor: another one for each tensor, and when PyTorch has changed it in place."""

    def __init__(self):
        self._known, self._next = WeakIdKeyDictionary(), itertools.count(1)

    def wrapped(self, tensor):
        if tensor.is_inference():  # PyTorch does not count the changes of these
            return tensor
        known = self._known.get(tensor)
        if known is None or known[0] != tensor._version:
            known = self._known[tensor] = (tensor._version, next(self._next))
        return _core.versioned(tensor, known[1])
