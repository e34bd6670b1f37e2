"""Recording, compiling and explaining programs."""

import json as _json
import os as _os
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, Tuple, Union

import numpy as np

from . import _core
from ._operations import names_of

Extent = Union[int, "_core.Value"]


class ProgramBuilder(_core.ProgramBuilder):
    """Records one program: ``_core.ProgramBuilder`` with what reads better in Python."""

    def sizes(self, names: str) -> Tuple["_core.Value", ...]:
        """Several sizes: ``n, m = p.sizes("n m")``."""
        return tuple(self.size(name) for name in names.replace(",", " ").split())

    def table(self, name: str, numbers: Sequence[float], dtype: Any = "f32") -> "_core.Array":
        """A local array that holds these numbers."""
        array = self.local(name, len(numbers), dtype)
        for k, number in enumerate(numbers):
            array[k] = number
        return array

    def let(self, name: str, value: Any) -> Any:
        """A value that is computed here, once, under a name: it stays what it is, whatever is written later. The elements
        of an array of NumPy, a small vector or matrix, are called ``name_0`` or ``name_0_1``."""
        if not isinstance(value, np.ndarray):
            return super().let(name, value)
        names = ["_".join([name, *map(str, index)]) for index in np.ndindex(value.shape)]
        made = np.empty(value.shape, object)
        for index, each in zip(np.ndindex(value.shape), self._let_each(names, list(value.flat))):
            made[index] = each
        return made

    def loops(self, **ranges: Any) -> Iterator[Tuple["_core.Value", ...]]:
        """Nested loops in one statement: ``for i, j in p.loops(i=n, j=(1, m - 1)):``."""
        opened = [(name, r if isinstance(r, tuple) else (0, r)) for name, r in ranges.items()]
        return self._nest(opened, ())

    def _nest(self, ranges, iterators):
        if not ranges:
            yield iterators
            return
        (name, (lower, upper)), rest = ranges[0], ranges[1:]
        for i in self.loop(name, lower, upper):
            yield from self._nest(rest, iterators + (i,))


def program(function: Optional[Callable] = None, *, name: Optional[str] = None) -> Any:
    """Records a program by calling ``function(p)`` once with a builder. As a decorator it gives the program.

    A function with more parameters gives a function of these that records a program each time.
    """
    if function is None:
        return lambda f: program(f, name=name)
    called = name or function.__name__
    count = function.__code__.co_argcount + function.__code__.co_kwonlyargcount

    def record(*args, **kwargs):
        p = ProgramBuilder(called)
        function(p, *args, **kwargs)
        return p.build()

    record.__name__, record.__doc__ = called, function.__doc__
    return record() if count == 1 else record


def compile(program: "_core.Program", **options: Any) -> "_core.Executable":
    """Compiles a program. Options: ``target`` ("openmp", "cuda", "interpreter"), ``threads``, ``threads_per_block``,
    ``facts`` ("verify", "trust", "check-accesses"), ``schedule``, ``expected_sizes``, ``checked``, ``trap_nan``,
    ``f64``."""
    return _core.compile(program, **options)


def compile_gradient(
    program: "_core.Program",
    wrt: Sequence[str] = (),
    of: Sequence[str] = (),
    variant: str = "restructured",
    directions: str = "",
    max_tape_bytes: int = 0,
    **options: Any,
) -> "_core.GradientExecutable":
    """Differentiates and compiles. ``wrt`` and ``of``: all arrays of float type when empty. ``variant``:
    "restructured", "atomic" or "naive-tape". ``directions``: the name of a size, or a number as text: so many incoming
    gradients at once, in an extra last dimension. ``max_tape_bytes``: loops run again in segments where their tape would
    take more (0: no limit). Options as in ``compile``."""
    return _core.compile(_core.differentiate(program, names_of(wrt), names_of(of), variant, directions, max_tape_bytes), **options)


def _arguments(target, variant, arguments):
    words = list(arguments)
    if target is not None:
        words += ["--target", target]
    return words + ["--variant", variant]


def show(
    program: "_core.Program",
    stage: str = "program",
    target: Optional[str] = None,
    variant: str = "restructured",
    wrt: Sequence[str] = (),
    sizes: Optional[Dict[str, int]] = None,
) -> str:
    """The program at a stage: "program", "adjoint", "summation", "loops", "schedule" or "code"."""
    words = _arguments(target, variant, ["--stage", stage])
    return _core.command("show", program, words, sizes or {}, names_of(wrt)).text


def report(
    program: "_core.Program",
    out: Union[str, "_os.PathLike[str]"],
    target: Optional[str] = None,
    variant: str = "restructured",
    wrt: Sequence[str] = (),
    sizes: Optional[Dict[str, int]] = None,
    measure: bool = False,
    max_tape_bytes: int = 0,
) -> str:
    """What ``explain`` knows as one page for a browser, with code and pictures, written to the file ``out``, whose name is
    returned. ``measure`` compiles and runs the variants on made-up inputs of these sizes, and times every loop."""
    words = ["--out", _os.fspath(out), "--max-tape-bytes", str(max_tape_bytes), *(["--measure"] if measure else [])]
    _core.command("report", program, _arguments(target, variant, words), sizes or {}, names_of(wrt))
    return _os.fspath(out)


def emit(
    program: "_core.Program",
    out: Union[str, "_os.PathLike[str]"],
    target: str = "openmp",
    variant: str = "restructured",
    wrt: Sequence[str] = (),
    sizes: Optional[Dict[str, int]] = None,
    name: Optional[str] = None,
    facts: str = "verify",
) -> Dict[str, str]:
    """The gradient as a header in C and a source in C++ or CUDA in the folder ``out``, to be built without loopgrad:
    the names of both as "header" and "source", and how to compile them as "build"."""
    words = ["--out", _os.fspath(out), "--facts", facts, *(["--name", name] if name else [])]
    made = _core.command("emit", program, _arguments(target, variant, words), sizes or {}, names_of(wrt))
    return _json.loads(made.json)


def _explained(program, target, variant, wrt, sizes, more=()):
    return _core.command("explain", program, _arguments(target, variant, list(more)), sizes or {}, names_of(wrt))


def explain(
    program: "_core.Program",
    target: Optional[str] = None,
    variant: str = "restructured",
    wrt: Sequence[str] = (),
    sizes: Optional[Dict[str, int]] = None,
    details: Union[bool, Sequence[str]] = False,
) -> str:
    """What a person wants to know first: estimates of time, the tape, what is not parallel and why, what to change.
    With `details` tables of all decisions follow, or of "tape", "sums", "loops" and "remarks". Sizes that are not
    given count as 1024."""
    groups = [] if details is False else ["--details" if details is True else "--details=" + ",".join(details)]
    return _explained(program, target, variant, wrt, sizes, groups).text
def explain_json(
    program: "_core.Program",
    target: Optional[str] = None,
    variant: str = "restructured",
    wrt: Sequence[str] = (),
    sizes: Optional[Dict[str, int]] = None,
) -> Any:
    """The same as dictionaries and lists."""
    return _json.loads(_explained(program, target, variant, wrt, sizes).json)
