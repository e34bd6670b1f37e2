"""Programs as differentiable functions of JAX.

A call works under ``jit``, ``grad`` and ``vmap`` (one call for each element). On the CPU XLA calls the compiled program by its
foreign function interface, on its own memory and without Python (``_core.ffi_operation``). Where JAX has a GPU, it is a
``jax.pure_callback``, and arrays of a GPU pass through the host. The backward function runs the program forward again, since
a tape between two calls would be state that JAX does not know of.
"""

import collections
import hashlib
from typing import Any, Dict, Optional, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from . import _core
from ._operations import derivative_names, is_number, number_type, whole_numbers
from ._shapes import shapes_of
from .errors import usage_error

__all__ = ["op"]

_DTYPES = {"bool": jnp.bool_, "i32": jnp.int32, "i64": jnp.int64, "f16": jnp.float16,
           "bf16": jnp.bfloat16, "f32": jnp.float32, "f64": jnp.float64}  # fmt: skip


_TARGET = "loopgrad"
_names = collections.Counter()


def _dtype(info):
    return jnp.dtype(_DTYPES[info.dtype.name])


def _is_float(info):
    return jnp.issubdtype(_dtype(info), jnp.floating)


def _gradient_dtype(info):
    """Gradients of 16 bits are computed in 32."""
    return jnp.dtype(jnp.float32) if _dtype(info).itemsize == 2 else _dtype(info)


class _Pool:
    """Compiled code for callbacks, which may come from several threads at once: one copy for each."""

    def __init__(self, make, copy):
        self._make, self._copy, self._free, self._first = make, copy, [], None

    def take(self):
        try:
            return self._free.pop()
        except IndexError:
            if self._first is None:
                self._first = self._make()
                return self._first
            return self._copy(self._first)

    def give(self, executable):
        self._free.append(executable)


class _Op:
    def __init__(self, program, wrt, of, variant, max_tape_bytes, order, options):
        self.program, self.variant, self.order, self.options = program, variant, order, options
        self.max_tape_bytes = max_tape_bytes
        arguments = program.arguments
        self.inputs = [a for a in arguments if a.role != "output"]
        self.outputs = [a for a in arguments if a.role != "input"]
        self.wrt, self.of = derivative_names(program, wrt, of, [a.name for a in arguments if _is_float(a)])
        _core.check_options(**options)
        self._places = {a.name: i for i, a in enumerate(self.inputs)}
        self._plain = _Pool(lambda: _core.compile(program, **options), lambda e: e)
        self._gradient = None
        self._gradients = _Pool(lambda: _core.compile(self._differentiated(), **options), lambda e: e.copy())
        self._second = None
        self._functions: Dict[Any, Any] = {}

    def function(self, sizes):
        """The function of JAX for these sizes. It is kept, since JAX compiles each function that it has not seen before."""
        key = tuple(sorted(sizes.items()))
        if key not in self._functions:
            self._functions[key] = _function(self, sizes)
        return self._functions[key]

    def _differentiated(self):
        if self._gradient is None:
            self._gradient = _core.differentiate(
                self.program, self.wrt, self.of, self.variant, max_tape_bytes=self.max_tape_bytes
            )
        return self._gradient

    def arrays(self, given):
        """As arrays of JAX; numbers of Python have the type of what they stand for."""
        if len(given) != len(self.inputs):
            names = ", ".join(a.name for a in self.inputs)
            raise usage_error(self.program.name, f"{len(given)} arrays for {len(self.inputs)} inputs", f"pass {names}")
        return tuple(
            jnp.asarray(x, _dtype(info) if is_number(x, number_type(info)) else None) for x, info in zip(given, self.inputs)
        )

    def check(self, arrays):
        for array, info in zip(arrays, self.inputs):
            if jnp.result_type(array) != _dtype(info):
                raise usage_error(
                    self.program.name,
                    f"the argument has type {jnp.result_type(array)}, expected {_dtype(info)}",
                    "convert the argument; float64 and int64 need jax.config.update('jax_enable_x64', True)",
                    info.name,
                )

    def _shapes(self, arrays, sizes):
        return shapes_of(self.program, {a.name: tuple(x.shape) for a, x in zip(self.inputs, arrays)}, sizes)

    def _run(self, run, arrays, sizes):
        """Outputs and in-outs in the order of declaration, and all arrays of the run."""
        shapes = self._shapes(arrays, sizes)
        objects = []
        for info in self.program.arguments:
            if info.role == "output":
                objects.append(np.empty(shapes[info.name], _dtype(info)))
            else:
                array = np.asarray(arrays[self._places[info.name]])
                objects.append(np.array(array, order="C") if info.role == "in-out" else np.ascontiguousarray(array))
                objects[-1] = objects[-1].reshape(array.shape)  # which turns rank 0 into 1
        run(objects, sizes)
        return objects

    def options_for(self, arrays, sizes):
        """Of a compilation for arrays like these, whose sizes plans are made for, unless they are symbols."""
        if not all(isinstance(extent, int) for x in arrays for extent in x.shape):
            return self.options
        shapes = {a.name: list(x.shape) for a, x in zip(self.inputs, arrays)}
        expected = {**_core.extents(self.program, shapes, sizes)[0], **sizes}
        return {"expected_sizes": expected, **self.options}

    def name_for_xla(self, what, sizes, options):
        """Says what is run: compiled code that JAX keeps on disk has this name, and may be another process's."""
        text = f"{self.program} {what} {self.wrt} {self.of} {self.variant} {self.max_tape_bytes} "
        text += f"{sorted(options.items())} {sorted(sizes.items())}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        _names[digest] += 1
        return f"{self.program.name}_{digest}_{_names[digest]}"

    def forward_callback(self, sizes):
        def callback(*given):
            executable = self._plain.take()
            try:
                objects = self._run(executable.run_list, given, sizes)
            finally:
                self._plain.give(executable)
            return [o for o, a in zip(objects, self.program.arguments) if a.role != "input"]

        return callback

    def gradient_callback(self, sizes):
        def callback(given, grads):
            executable = self._gradients.take()
            try:
                objects = self._run(executable.forward_list, given, sizes)
                known = {a.name: o for a, o in zip(self.program.arguments, objects)}
                return self._backward(executable, known, grads)
            finally:
                self._gradients.give(executable)

        return callback

    def value(self, site, arrays, sizes):
        results = [jax.ShapeDtypeStruct(self._shapes(arrays, sizes)[a.name], _dtype(a)) for a in self.outputs]
        if self._is_for_xla():
            made = site.operation(self.program, [a.name for a in self.inputs], [a.name for a in self.outputs], arrays)
            return jax.ffi.ffi_call(_TARGET, results, vmap_method="sequential")(*arrays, operation=made)
        return jax.pure_callback(site.value, results, *arrays, vmap_method="sequential")

    def gradients(self, site, arrays, incoming):
        """By the arrays in `wrt`, in the order of the inputs."""
        by = [(x, a) for x, a in zip(arrays, self.inputs) if a.name in self.wrt]
        if not self._is_for_xla():
            results = [jax.ShapeDtypeStruct(x.shape, _dtype(a)) for x, a in by]
            return jax.pure_callback(site.gradients, results, list(arrays), list(incoming), vmap_method="sequential")
        of = [(g.astype(_gradient_dtype(a)), a) for a, g in zip(self.outputs, incoming) if a.name in self.of]
        names = [a.name for a in self.inputs] + ["d_" + a.name for _, a in of]
        made = site.operation(self._differentiated(), names, ["d_" + a.name for _, a in by], arrays)
        results = [jax.ShapeDtypeStruct(x.shape, _gradient_dtype(a)) for x, a in by]
        found = jax.ffi.ffi_call(_TARGET, results, vmap_method="sequential")(*arrays, *(g for g, _ in of), operation=made)
        return [g.astype(_dtype(a)) for g, (_, a) in zip(found, by)]

    def _is_for_xla(self):
        return self.options.get("target") != "cuda" and jax.default_backend() == "cpu"

    def _backward(self, executable, known, grads):
        by_output = {a.name: g for a, g in zip(self.outputs, grads)}
        arrays = []
        for info in executable.backward_arguments:
            if info.name in known:
                arrays.append(known[info.name])
            elif info.role == "output":
                arrays.append(np.empty(known[info.name[2:]].shape, _dtype(info)))
            else:
                arrays.append(np.array(by_output[info.name[2:]], _dtype(info), order="C"))
        executable.backward_list(arrays)
        found = {a.name[2:]: x for a, x in zip(executable.backward_arguments, arrays) if a.name not in known}
        return [np.asarray(found[a.name], _dtype(a)) for a in self.inputs if a.name in self.wrt]

    def second(self, arrays, incoming, sizes):
        """The same gradients by the joined program, which can be differentiated."""
        if self._second is None:
            prefix = "g_" if self.order == 1 else f"g{self.order}_"
            program = self._differentiated().joined(prefix)
            firsts = [a.name for a in program.arguments if a.name.startswith(prefix) and a.role != "input"]
            self._second = (prefix, _Op(program, (), firsts, self.variant, 0, self.order + 1, self.options))
        prefix, op = self._second
        known = {a.name: x for a, x in zip(self.inputs, arrays)}
        known.update({prefix + a.name: g for a, g in zip(self.outputs, incoming)})
        found = op.function(sizes)(*[known[a.name].astype(_dtype(a)) for a in op.inputs])
        by_name = {a.name: x for a, x in zip(op.outputs, found)}
        return [by_name[prefix + a.name].astype(_dtype(a)) for a in self.inputs if a.name in self.wrt]


class _Site:
    """What runs for an operation with these sizes, made once: JAX never forgets what it has compiled for it."""

    def __init__(self, op, sizes):
        self._op, self._sizes, self._operations = op, sizes, {}
        self.value, self.gradients = op.forward_callback(sizes), op.gradient_callback(sizes)

    def operation(self, program, arguments, results, arrays):
        """The name by which XLA runs the program, or the gradient, as long as this site is there."""
        what = type(program).__name__
        if what not in self._operations:
            options = self._op.options_for(arrays, self._sizes)
            name = self._op.name_for_xla(what, self._sizes, options)
            made = _core.ffi_operation(name, program, arguments, results, self._sizes, **options)
            self._operations[what] = (name, made)
        return self._operations[what][0]


def _function(op, sizes):
    """The function of JAX, on tuples of outputs."""
    site = _Site(op, sizes)

    @jax.custom_vjp
    def run(*arrays):
        return tuple(op.value(site, arrays, sizes))

    @jax.custom_vjp
    def gradients(arrays, incoming):
        return tuple(op.gradients(site, arrays, incoming))

    def backward(arrays, incoming):
        found = iter(gradients(arrays, incoming))
        return tuple(
            next(found) if a.name in op.wrt else np.zeros(x.shape, jax.dtypes.float0) if not _is_float(a) else jnp.zeros_like(x)
            for a, x in zip(op.inputs, arrays)
        )

    def backward_twice(saved, seconds):
        return jax.vjp(lambda arrays, incoming: tuple(op.second(arrays, incoming, sizes)), *saved)[1](seconds)

    run.defvjp(lambda *arrays: (run(*arrays), arrays), backward)
    gradients.defvjp(lambda *saved: (gradients(*saved), saved), backward_twice)
    return run


jax.ffi.register_ffi_target(_TARGET, _core.ffi_target(), platform="cpu", api_version=1)


def op(
    program: "_core.Program",
    wrt: Sequence[str] = (),
    of: Sequence[str] = (),
    variant: str = "restructured",
    max_tape_bytes: int = 0,
    **options: Any,
):
    """A differentiable function of the inputs and in-outs of the program, in the order of their declaration.

    Sizes that no extent gives are passed as ``sizes={"T": 10}``. It returns the outputs and the new values of in-outs.
    ``wrt`` and ``of`` leave out inputs and outputs that have no gradient. ``max_tape_bytes``: loops run again in segments
    where the tape would take more; such gradients cannot be differentiated again. Options are those of
    ``loopgrad.compile``.
    """
    made = _Op(program, wrt, of, variant, max_tape_bytes, 1, options)

    def call(*arrays: Any, sizes: Optional[Dict[str, int]] = None):
        arrays = made.arrays(arrays)
        made.check(arrays)
        results = made.function(whole_numbers(program, sizes or {}))(*arrays)
        return results[0] if len(made.outputs) == 1 else results

    call.__name__ = program.name
    return call
