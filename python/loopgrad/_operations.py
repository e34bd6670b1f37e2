"""What operations of PyTorch and of JAX ask of their arguments alike."""

import operator

from .errors import usage_error


def names_of(names):
    """A list of names; one name may stand for itself."""
    return [names] if isinstance(names, str) else list(names)


def check_names(program, names, known, what):
    for name in names:
        if name not in known:
            raise usage_error(program.name, f"there is no {what} or in-out '{name}'", f"one of {', '.join(known)}")


def derivative_names(program, wrt, of, floats):
    """The inputs and the outputs that derivatives are by and of: all of float type when none are given."""
    inputs = [a.name for a in program.arguments if a.role != "output"]
    outputs = [a.name for a in program.arguments if a.role != "input"]
    wrt, of = names_of(wrt), names_of(of)
    check_names(program, wrt, inputs, "input")
    check_names(program, of, outputs, "output")
    return wrt or [n for n in inputs if n in floats], of or [n for n in outputs if n in floats]


def whole_numbers(program, sizes):
    """Sizes as numbers of Python."""
    found = {}
    for name, size in sizes.items():
        if name not in program.sizes:
            raise usage_error(program.name, f"there is no size '{name}'", f"one of {', '.join(program.sizes) or 'none'}")
        try:
            found[name] = operator.index(size)
        except Exception as error:  # JAX has types of its own
            raise usage_error(
                program.name, f"the size '{name}' is a {type(size).__name__}, and no whole number", "pass an int"
            ) from error
    return found


def number_type(info):
    """The type of the numbers of Python that may stand for this array; "" where none may."""
    return "" if info.role != "input" or info.shape else info.dtype.name


def is_number(value, name):
    """Whether `value` is a number of that type, as `array_of_number` of the bindings has it."""
    if not name or type(value) not in (bool, int, float):
        return False
    return name == "bool" if type(value) is bool else name != "bool" and (type(value) is int or "f" in name)
