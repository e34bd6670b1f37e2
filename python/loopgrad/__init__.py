"""Gradients of loop programs, as parallel as the programs, without a stack and without atomics.

    import loopgrad as lg

    @lg.program
    def conv1d(p):
        n, k = p.size("n"), p.size("k")
        x = p.input("x", (n + k - 1,), lg.f32)
        w = p.input("w", (k,), lg.f32)
        y = p.output("y", (n,), lg.f32)
        for i in p.loop("i", n):
            y[i] = 0
            for j in p.loop("j", k):
                y[i] += x[i + j] * w[j]

    gradient = lg.compile_gradient(conv1d, wrt=["x", "w"])
    y = gradient.forward(x=x, w=w)
    d_x, d_w = gradient.backward(d_y=d_y)
"""

import os as _os

from . import _core
from ._core import (
    ArgumentInfo,
    Array,
    DType,
    Element,
    Executable,
    Gradcheck,
    GradcheckFinding,
    Gradient,
    GradientExecutable,
    Program,
    Value,
    abs,
    acos,
    asin,
    atan,
    atan2,
    builtin,
    builtin_names,
    cast,
    ceil,
    cos,
    cosh,
    differentiate,
    erf,
    exp,
    expm1,
    floor,
    fma,
    gradcheck,
    has_cuda,
    jacobian,
    load,
    log,
    log1p,
    max,
    min,
    pow,
    select,
    sigmoid,
    sin,
    sinh,
    sqrt,
    stop_gradient,
    tan,
    tangent,
    tanh,
    versioned,
    why_no_cuda,
)
from .errors import (
    CompileError,
    DifferentiationError,
    Error,
    InternalError,
    RuntimeError,
    TransformError,
    UsageError,
)
from .programs import ProgramBuilder, compile, compile_gradient, emit, explain, explain_json, program, report, show

_core._set_package_folder(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep)

bool_ = DType.bool
i32, i64, f16, bf16, f32, f64 = DType.i32, DType.i64, DType.f16, DType.bf16, DType.f32, DType.f64

__version__ = _core.__version__
__all__ = [name for name in dir() if not name.startswith("_")]


def __getattr__(name):  # loopgrad.torch and loopgrad.jax are loaded when they are asked for
    if name in ("torch", "jax"):
        import importlib

        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'loopgrad' has no attribute {name!r}")
