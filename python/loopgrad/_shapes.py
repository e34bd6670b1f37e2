"""Shapes of a program's arrays from those of some, also where extents are symbols of a compiler."""

import re

from . import _core


def _value(text, sizes):
    """An extent as a program prints it, which is Python as well, evaluated."""
    return eval(text, {"__builtins__": {}, "min": min, "max": max}, dict(sizes))


def _unknown(text, sizes, names):
    return [n for n in set(re.findall(r"[A-Za-z_]\w*", text)) if n in names and n not in sizes]


def shapes_of(program, shapes, sizes):
    """``shapes``: of arrays by name; the rest follows. Returns the shapes of all."""
    plain = all(isinstance(e, int) and type(e) is int for shape in shapes.values() for e in shape)
    if plain:
        return _core.extents(program, {name: list(s) for name, s in shapes.items()}, sizes)[1]
    known, names = dict(sizes), program.sizes
    extents = [(text, extent) for a in program.arguments if a.name in shapes
               for text, extent in zip(a.shape, shapes[a.name])]  # fmt: skip
    progress = True
    while progress:
        progress = False
        for text, extent in extents:
            unknown = _unknown(text, known, names)
            if len(unknown) != 1:
                continue
            name = unknown[0]
            at = [_value(text, {**known, name: k}) for k in (0, 1, 2)]
            if at[2] - at[1] != at[1] - at[0]:
                continue  # not affine: another extent has to give it
            step = at[1] - at[0]
            known[name] = extent - at[0] if step == 1 else (extent - at[0]) // step
            progress = True
    return {a.name: [_value(text, known) for text in a.shape] for a in program.arguments}
