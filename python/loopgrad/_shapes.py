"""Shapes of a program's arrays from those of some, also where extents are symbols of a compiler.

Sizes are found as ``backends/runtime/solve_sizes.cpp`` finds them, whose words these functions repeat for numbers that are
symbols. Where a symbol decides, the compiler is asked, and guards what it has answered.
"""

from . import _core
from .errors import usage_error


def _divided(a, b):
    return 0 if b == 0 else a // b


def _remainder(a, b):
    return 0 if b == 0 else a % b


_BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": _divided,
    "mod": _remainder,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
_UNARY = {
    "neg": lambda a: -a,
    "abs": lambda a: -a if a < 0 else a,
    "not": lambda a: not a,
    "bool": lambda a: a != 0,
    "i32": lambda a: (a + 2**31) % 2**32 - 2**31,
    "i64": lambda a: a,
}


def _value(tree, sizes, least, greatest):
    """An extent evaluated."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return sizes[tree]
    name, *operands = tree
    first = _value(operands[0], sizes, least, greatest)
    if name in _UNARY:
        return _UNARY[name](first)
    if name == "select":
        return _value(operands[1] if first else operands[2], sizes, least, greatest)
    if name in ("and", "or"):  # which ask for what they need
        return first if bool(first) == (name == "or") else _value(operands[1], sizes, least, greatest)
    second = _value(operands[1], sizes, least, greatest)
    if name in ("min", "max"):
        return (least if name == "min" else greatest)(first, second)
    return _BINARY[name](first, second)


def _sizes_in(tree):
    if isinstance(tree, tuple):
        return set().union(*map(_sizes_in, tree[1:]))
    return {tree} if isinstance(tree, str) else set()


def _affine(tree, evaluate, sizes):
    """The tree as a constant and factors of sizes that are not known, or None."""
    unknown = _sizes_in(tree) - sizes.keys()
    if not unknown:
        return evaluate(tree), {}
    if isinstance(tree, str):
        return 0, {tree: 1}
    parts = [_affine(part, evaluate, sizes) for part in tree[1:]]
    if None in parts:
        return None
    if tree[0] == "neg":
        return _scaled(parts[0], -1)
    if tree[0] == "mul" and not (parts[0][1] and parts[1][1]):
        by, of = parts if parts[1][1] else parts[::-1]
        return _scaled(of, by[0])
    if tree[0] not in ("add", "sub"):
        return None
    constant, factors = _scaled(parts[1], 1 if tree[0] == "add" else -1)
    both = {name: parts[0][1].get(name, 0) + factors.get(name, 0) for name in {**parts[0][1], **factors}}
    return parts[0][0] + constant, {name: f for name, f in both.items() if not (type(f) is int and f == 0)}


def _scaled(form, by):
    return form[0] * by, {name: factor * by for name, factor in form[1].items()}


def _solve(extents, sizes, evaluate):
    """Finds sizes: extents that are a size alone come first, then repeatedly those with one size that is not known."""
    for tree, extent in extents:
        if isinstance(tree, str):
            sizes.setdefault(tree, extent)
    progress = True
    while progress:
        progress = False
        for tree, extent in extents:
            form = _affine(tree, evaluate, sizes)
            if form is None or len(form[1]) != 1:
                continue
            ((name, factor),) = form[1].items()
            rest = extent - form[0]
            sizes[name] = rest if type(factor) is int and factor == 1 else _divided(rest, factor)
            progress = True


def shapes_of(program, shapes, sizes, least=min, greatest=max):
    """``shapes``: of arrays by name; the rest follows. Returns the shapes of all. ``least`` and ``greatest``: of two
    numbers that may be symbols."""
    numbers = [e for shape in shapes.values() for e in shape] + list(sizes.values())
    if all(type(e) is int for e in numbers):
        return _core.extents(program, {name: list(s) for name, s in shapes.items()}, sizes)[1]
    trees, known = _core.extent_trees(program), dict(sizes)
    extents = [pair for name, shape in shapes.items() for pair in zip(trees[name], shape)]

    def evaluate(tree):
        return _value(tree, known, least, greatest)

    _solve(extents, known, evaluate)
    for name in sorted(set().union(*(_sizes_in(tree) for shape in trees.values() for tree in shape))):
        if name not in known:
            raise usage_error(
                program.name, f"size '{name}' does not follow from the arguments", f'pass it: {{"{name}": ...}}'
            )
    return {name: [evaluate(tree) for tree in shape] for name, shape in trees.items()}
