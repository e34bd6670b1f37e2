"""What goes wrong: one family, with the texts of the C++ library."""

import builtins


class Error(Exception):
    """Base of all errors that a user can cause or meet.

    ``str(error)`` reads ``file:line: program 'p': what happened. Hint: what to do``.
    """

    code: str = ""  # "bad_shape", "not_differentiable", ...
    message: str = ""
    program: str = ""
    loop: str = ""
    array: str = ""
    hint: str = ""
    file: str = ""
    line: int = 0


class UsageError(Error):
    """The package or the program is used wrongly; nothing was executed."""


class TransformError(Error):
    """A transformation was asked for that would change the program's meaning."""


class DifferentiationError(Error):
    """The program cannot be differentiated correctly."""


class CompileError(Error):
    """The system's compiler could not be run or refused the generated code."""


class RuntimeError(Error, builtins.RuntimeError):
    """Found while executing: false facts, bad indices, memory or a device that is missing."""


class InternalError(Exception):
    """A bug of loopgrad itself: outside of the family, so that ``except Error`` never hides one."""


def usage_error(program: str, message: str, hint: str, array: str = "") -> UsageError:
    """A mistake that Python code finds, worded as those that the C++ library finds."""
    place = f"program '{program}': " + (f"array '{array}': " if array else "")
    error = UsageError(f"{place}{message}. Hint: {hint}")
    error.code, error.program, error.message, error.hint, error.array = "bad_argument", program, message, hint, array
    return error
