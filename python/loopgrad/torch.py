"""Programs as differentiable operations of PyTorch."""

from typing import Any, Dict, Optional, Sequence

import torch

from . import _core
from ._operations import check_names, derivative_names, is_number, names_of, number_type
from ._torch_forward import Transformed, has_level, pushed_forward, tangents_of, transforms, with_tangents
from ._torch_runs import Kind, Versions, dtype_of, plain
from .errors import DifferentiationError, usage_error

__all__ = ["op", "Op"]

_is_compiling = torch.compiler.is_compiling


class _Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, op, mask, sizes, duals, *inputs):
        kind = op._kind(inputs, mask, sizes)
        lease = kind.lease()
        outputs = op._run(lease.executable.forward_list, inputs, sizes)
        ctx.lease, ctx.sizes, ctx.duals = lease, sizes, duals
        if op._constants:
            ctx.mark_non_differentiable(*[outputs[i] for i in op._constants])
        # Inputs may be needed to differentiate once more, and hold what autograd checks for changes in place.
        if op.double_backward:
            ctx.save_for_backward(*inputs, *[outputs[i] for i in kind.outputs_read])
        else:
            ctx.save_for_backward(*[inputs[i] for i in kind.inputs_read], *[outputs[i] for i in kind.outputs_read])
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *gradients):
        kind, op = ctx.lease.kind, ctx.lease.kind.op
        inputs, outputs = kind.restore(ctx)
        tangents = None if ctx.duals is None else tangents_of(op, ctx.duals)
        is_dual = tangents is not None or tangents_of(op, gradients) is not None
        if (torch.is_grad_enabled() or is_dual) and not op.double_backward:
            hint = "loopgrad.torch.op(program, double_backward=True)" if not op.max_tape_bytes else "leave max_tape_bytes out"
            raise DifferentiationError(
                f"program '{op.program.name}': its operation was made without double_backward. Hint: {hint}"
            )
        if is_dual:  # the gradient has a tangent, which an operation on dual tensors gives it
            results = op._joined(kind, with_tangents(inputs, tangents), gradients, ctx.sizes)
        elif torch.is_grad_enabled():
            results = _Backward.apply(op, ctx.lease, ctx.sizes, len(op._names), *inputs, *outputs, *gradients)
        else:
            results = kind.backward(ctx.lease.executable, inputs, outputs, gradients)
        return (None, None, None, None, *results)


class _Backward(torch.autograd.Function):
    """The backward run as an operation of its own, whose gradient is that of the joined gradient program."""

    @staticmethod
    def forward(ctx, op, lease, sizes, count, *tensors):
        inputs, outputs = tensors[:count], tensors[count : count + len(op.outputs)]
        gradients = tensors[count + len(op.outputs) :]
        ctx.op, ctx.kind, ctx.sizes, ctx.count = op, lease.kind, sizes, count
        ctx.save_for_backward(*inputs, *gradients)
        return tuple(lease.kind.backward(lease.executable, inputs, outputs, gradients))

    @staticmethod
    def backward(ctx, *seconds):
        op, create_graph = ctx.op, torch.is_grad_enabled()
        saved = ctx.saved_tensors
        # Names of their own: a gradient may depend on an input by what came between, which is not this function's to add.
        with torch.enable_grad():
            saved = [(t.view_as(t) if create_graph else t.detach().requires_grad_()) if t.requires_grad else t
                     for t in saved]  # fmt: skip
            inputs, gradients = saved[: ctx.count], saved[ctx.count :]
            firsts = op._joined(ctx.kind, inputs, gradients, ctx.sizes)
            pairs = [(f, s) for f, s in zip(firsts, seconds) if f is not None and s is not None and f.requires_grad]
            wanted = [t for t in saved if t.requires_grad]
            if not pairs or not wanted:
                found = []
            else:
                found = torch.autograd.grad(
                    [f for f, _ in pairs], wanted, [s for _, s in pairs], create_graph=create_graph, allow_unused=True
                )
        found = iter(found)
        results = [next(found, None) if t.requires_grad else None for t in saved]
        middle = [None] * len(op.outputs)
        return (None, None, None, None, *results[: ctx.count], *middle, *results[ctx.count :])


class Op:
    """A program as an operation on tensors: see ``op``."""

    def __init__(
        self,
        program,
        wrt=(),
        of=(),
        variant="restructured",
        double_backward=None,
        versioned=(),
        max_tape_bytes=0,
        _order=1,
        **options,
    ):
        if double_backward and max_tape_bytes:
            raise usage_error(
                program.name,
                "a gradient within max_tape_bytes cannot be differentiated again",
                "leave double_backward or max_tape_bytes out",
            )
        self.program, self.variant, self.max_tape_bytes = program, variant, max_tape_bytes
        self.double_backward = not max_tape_bytes if double_backward is None else double_backward
        self._given_options, self._order = options, _order
        self.device = "cuda" if options.get("target") == "cuda" else "cpu"  # where there are no inputs
        arguments = program.arguments
        self.inputs = [a for a in arguments if a.role != "output"]
        self.outputs = [a for a in arguments if a.role != "input"]
        self.dtypes = {a.name: dtype_of(a) for a in arguments}
        floats = [a.name for a in arguments if self.dtypes[a.name].is_floating_point]
        self.wrt, self.of = map(tuple, derivative_names(program, wrt, of, floats))
        versioned = names_of(versioned)
        check_names(program, versioned, [a.name for a in self.inputs if a.role == "input"], "input")
        _core.check_options(**options)
        self._versioned = {i for i, a in enumerate(self.inputs) if a.name in versioned}
        self._versions, self._versioned_names = Versions(), tuple(versioned)
        self._sizes = program.sizes
        # What torch.compile follows is names: it would make symbols of the numbers here.
        self._names, self._result_names = tuple(a.name for a in self.inputs), tuple(a.name for a in self.outputs)
        self._has_gradient = [name in self.wrt for name in self._names]
        positions = {name: i for i, name in enumerate(self._names)}
        # Where each argument of a run comes from: an input, or a new array.
        self._constants = [i for i, a in enumerate(self.outputs) if a.name not in self.of]
        self._number_types = [number_type(a) for a in self.inputs]
        self._has_scalars = any(self._number_types)
        self._has_in_outs = any(a.role == "in-out" for a in arguments)
        self._order_of_run = [(positions.get(a.name), a.role == "in-out") for a in arguments]
        self._sources = [at for at, _ in self._order_of_run]
        self._output_places = [i for i, a in enumerate(arguments) if a.role != "input"]
        self._plain: Dict[bool, Any] = {}
        self._kinds: Dict[Any, Kind] = {}
        self._joined_ops: Dict[Any, Op] = {}
        self._tangent_ops: Dict[Any, Op] = {}
        self._custom = None

    def __deepcopy__(self, memo):
        """Itself: what a call leaves behind belongs to the call, so that copies of a module can share it."""
        return self

    def _options(self, is_cuda, inputs, sizes):
        """Of a compilation, for the sizes of the call that needs it first."""
        options = dict(self._given_options)
        if "expected_sizes" not in options:
            shapes = {a.name: list(t.shape) for a, t in zip(self.inputs, inputs)}
            options["expected_sizes"] = {**_core.extents(self.program, shapes, sizes or {})[0], **(sizes or {})}
        options.setdefault("target", "cuda" if is_cuda else "openmp")
        if options["target"] == "openmp":
            options.setdefault("threads", torch.get_num_threads())
        return options

    def _mask(self, tensors):
        """By which inputs a gradient is wanted, as bits."""
        mask = 0
        for i, (t, has_gradient) in enumerate(zip(tensors, self._has_gradient)):
            if has_gradient and t.requires_grad:
                mask += 1 << i
        return mask

    def _kind(self, tensors, mask, sizes=None):
        key = (tensors[0].is_cuda if tensors else False, mask)
        kind = self._kinds.get(key)
        if kind is None:
            wrt = [a.name for i, a in enumerate(self.inputs) if mask >> i & 1]
            kind = self._kinds[key] = Kind(self, self._options(key[0], tensors, sizes), wrt)
        return kind

    def _run(self, run, inputs, sizes):
        """Runs on new arrays for outputs and copies of in-outs; returns both in the order of declaration."""
        if not inputs:  # nothing says that outputs are tensors
            shapes = _core.extents(self.program, {}, sizes or {})[1]
            outputs = [torch.empty(shapes[n], dtype=self.dtypes[n], device=self.device) for n in self._result_names]
            run(outputs, sizes)
            return outputs
        inputs = self._with_versions(inputs)
        if not self._has_in_outs:
            return run([None if at is None else inputs[at] for at in self._sources], sizes)
        arrays = [None if at is None else inputs[at].clone() if copied else inputs[at]
                  for at, copied in self._order_of_run]  # fmt: skip
        made = iter(run(arrays, sizes))
        return [next(made) if arrays[i] is None else arrays[i] for i in self._output_places]

    def _with_versions(self, inputs):
        if not self._versioned:
            return inputs
        return [self._versions.wrapped(t) if i in self._versioned and t is not None else t for i, t in enumerate(inputs)]

    def _arguments(self, tensors, named, sizes):
        """Tensors in the order of the inputs, and sizes."""
        given, sizes = dict(zip(self._names, tensors)), dict(sizes or {})
        for name, value in named.items():
            if name in self._sizes:
                sizes[name] = value
            elif name in self._names and name not in given:
                given[name] = value
            else:
                raise self._usage(f"'{name}' is no input or size, or is given twice")
        device = next((t.device for t in given.values() if isinstance(t, torch.Tensor)), None)
        for name, number in zip(self._names, self._number_types):
            tensor = given.get(name)
            if is_number(tensor, number):
                given[name] = torch.tensor(tensor, dtype=self.dtypes[name], device=device)
            elif not isinstance(tensor, torch.Tensor):
                raise self._usage(f"the argument is a {type(tensor).__name__}, and no tensor", name)
        return [given[name] for name in self._names], sizes or None

    def _usage(self, message, array=""):
        inputs, sizes = ", ".join(a.name for a in self.inputs), ", ".join(self._sizes)
        return usage_error(self.program.name, message, f"the inputs are {inputs}; the sizes are {sizes}", array)

    def __call__(self, *tensors, sizes: Optional[Dict[str, int]] = None, **named):
        may_be_numbers = self._has_scalars and not all(isinstance(t, torch.Tensor) for t in tensors)
        if named or len(tensors) != len(self._names) or may_be_numbers:
            if len(tensors) > len(self._names):
                raise self._usage(f"{len(tensors)} tensors are too many")
            tensors, sizes = self._arguments(tensors, named, sizes)
        if _is_compiling():
            mask = self._mask(tensors) if torch.is_grad_enabled() else 0
            outputs = self._compiled()(list(tensors), mask, [(sizes or {}).get(name, -1) for name in self._sizes])
            outputs = outputs[: len(self._result_names)]
        else:
            outputs = self._eager(tensors, sizes)
        return outputs[0] if len(self._result_names) == 1 else tuple(outputs)

    def _eager(self, tensors, sizes):
        if transforms() is not None:
            return Transformed.apply(self, sizes, *tensors)
        if has_level():
            tangents = tangents_of(self, tensors)
            if tangents is not None:
                return pushed_forward(self, tensors, tangents, sizes)
        return self._recorded(tensors, sizes, None)

    def _recorded(self, tensors, sizes, duals):
        """A run that autograd's backward mode knows of; `duals`: the inputs as forward mode has them."""
        try:
            mask = self._mask(tensors) if torch.is_grad_enabled() else 0
            tensors = [t if t.is_contiguous() and not t.is_neg() else plain(t) for t in tensors]
        except AttributeError:
            self._arguments(tensors, {}, sizes)  # says which is no tensor
            raise
        if mask:
            return _Forward.apply(self, mask, sizes, duals, *tensors)
        return self._run(self._executable(tensors, sizes), tensors, sizes)

    def _executable(self, tensors, sizes):
        """What runs the program alone."""
        is_cuda = tensors[0].is_cuda if tensors else self.device == "cuda"
        if is_cuda not in self._plain:
            options = self._options(is_cuda, tensors, sizes)
            options.pop("backward_schedule", None)
            self._plain[is_cuda] = _core.compile(self.program, **options).run_list
        return self._plain[is_cuda]

    def _joined(self, kind, inputs, gradients, sizes):
        """The gradients by all inputs as differentiable results of an operation."""
        prefix = "g_" if self._order == 1 else f"g{self._order}_"
        if kind not in self._joined_ops:
            self._joined_ops[kind] = self._following(kind.gradient.joined(prefix), prefix)
        second = self._joined_ops[kind]
        known = {a.name: t for a, t in zip(self.inputs, inputs)}
        known.update({prefix + a.name: t.to(torch.float32) if t.dtype in (torch.float16, torch.bfloat16) else t
                      for a, t in zip(self.outputs, gradients)})  # fmt: skip
        found = second(*[known[a.name] for a in second.inputs], sizes=sizes)
        found = dict(zip((a.name for a in second.outputs), found if isinstance(found, tuple) else (found,)))
        return [None if (r := found.get(prefix + a.name)) is None else r.to(dtype_of(a)) for a in self.inputs]

    def _tangent(self, wrt):
        """The operation of the tangent program by these inputs."""
        if wrt not in self._tangent_ops:
            program = _core.tangent(self.program, list(wrt), list(self.of))
            self._tangent_ops[wrt] = self._following(program, "t_")
        return self._tangent_ops[wrt]

    def _following(self, program, prefix):
        """The operation of a program that has been made of this one, whose results have this prefix."""
        results = [a.name for a in program.arguments if a.name.startswith(prefix) and a.role != "input"]
        options = {k: v for k, v in self._given_options.items() if "schedule" not in k and k != "expected_sizes"}
        order = self._order + 1
        return Op(
            program,
            of=results,
            variant=self.variant,
            versioned=self._versioned_names,
            max_tape_bytes=self.max_tape_bytes,
            _order=order,
            **options,
        )

    # What torch.compile sees: opaque operations with shapes and a gradient, not their Python code.

    def _compiled(self):
        if self._custom is None:
            raise self._usage("torch.compile meets an operation that was not made ready for it")
        return self._custom


def op(
    program: "_core.Program",
    wrt: Sequence[str] = (),
    of: Sequence[str] = (),
    variant: str = "restructured",
    double_backward: Optional[bool] = None,
    versioned: Sequence[str] = (),
    max_tape_bytes: int = 0,
    **options: Any,
) -> Op:
    """A differentiable operation.

    It is called with the inputs and in-outs of the program in the order of their declaration, or by name; sizes that
    no extent gives are passed by name too (``op(x, T=10)``). It returns the outputs and the new values of in-outs,
    whose arguments stay as they were. Tensors of the CPU run on the target openmp, those of a GPU on cuda, on the
    current stream. Tensors that are not contiguous are copied. How sums are done is planned for the sizes of the first call,
    unless ``expected_sizes`` says other ones. Gradients are computed for the inputs that require them,
    and compiled for each set of these once.

    ``wrt`` and ``of`` leave out inputs and outputs that have no gradient. ``double_backward=False`` keeps fewer tensors
    for the backward run, which cannot be differentiated then. ``versioned`` names inputs, such as the indices of a mesh or
    graph, that nothing but PyTorch changes: while such a tensor is the same and unchanged, facts about it are not verified
    again, and what is sorted by it is kept. ``max_tape_bytes``: loops run again in segments where the tape of a call would
    take more; such gradients cannot be differentiated again. Options are those of ``loopgrad.compile``.
    """
    made = Op(program, wrt, of, variant, double_backward, versioned, max_tape_bytes, **options)
    from ._torch_library import register

    made._custom = register(made)
    return made
