"""Activations as modules, for :class:`Sequential`: each calls the operation of its name."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import numpy as np

from .. import _check
from .. import autograd as F
from .._types import Operand
from ..autograd import Var
from ..errors import ArgumentError, message, shown
from ._module import Module, Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Flatten",
    "HardSigmoid",
    "HardSwish",
    "HardTanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
    "TanhShrink",
]  # fmt: skip


class _Activation(Module):
    """An operation of one array; keyword options are passed on."""

    op: ClassVar[str]

    def __init__(self, **options: Any):
        known = {p.name for p in inspect.signature(getattr(F, self.op)).parameters.values() if p.kind is p.KEYWORD_ONLY} - {"backend"}
        if not options.keys() <= known:
            name = min(options.keys() - known)
            raise ArgumentError(message(type(self).__name__, name, shown(options[name]), f"one of the options {sorted(known)}"))
        self.options = options

    def describe(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options.items())

    def forward(self, x: Var | Operand) -> Var:
        return getattr(F, self.op)(x, **self.options)  # type: ignore[no-any-return]


def _named(name: str, op: str) -> type[_Activation]:
    text = f"The operation `{op}` as a module; its options are keyword arguments."
    return type(name, (_Activation,), {"op": op, "__doc__": text, "__module__": "cpuops.nn"})


ReLU, LeakyReLU, ELU, SELU, CELU, ReLU6 = (
    _named(name, op)
    for name, op in (
        ("ReLU", "relu"),
        ("LeakyReLU", "leaky_relu"),
        ("ELU", "elu"),
        ("SELU", "selu"),
        ("CELU", "celu"),
        ("ReLU6", "relu6"),
    )
)
HardTanh, Sigmoid, HardSigmoid, LogSigmoid, Tanh = (
    _named(name, op)
    for name, op in (
        ("HardTanh", "hardtanh"),
        ("Sigmoid", "sigmoid"),
        ("HardSigmoid", "hard_sigmoid"),
        ("LogSigmoid", "log_sigmoid"),
        ("Tanh", "tanh"),
    )
)
GELU, SiLU, Mish, HardSwish, Softplus, Softsign, TanhShrink = (
    _named(name, op)
    for name, op in (
        ("GELU", "gelu"),
        ("SiLU", "silu"),
        ("Mish", "mish"),
        ("HardSwish", "hard_swish"),
        ("Softplus", "softplus"),
        ("Softsign", "softsign"),
        ("TanhShrink", "tanhshrink"),
    )
)
GLU, Softmax, LogSoftmax = (_named(name, op) for name, op in (("GLU", "glu"), ("Softmax", "softmax"), ("LogSoftmax", "log_softmax")))


class PReLU(Module):
    """Leaky rectifier with a learned slope, one for all or one a channel (He et al. 2015).

    Parameters
    ----------
    channels : int
        Number of slopes: 1, or the channels.
    slope : float
        Their initial value.
    dtype : dtype
        float32 or float64.
    """

    def __init__(self, channels: int = 1, *, slope: float = 0.25, dtype: Any = np.float32):
        n = _check.integer("PReLU", "channels", channels, 1)
        self.weight = Parameter(np.full(n, _check.number("PReLU", "slope", slope), dtype))

    def describe(self) -> str:
        return str(self.weight.size)

    def forward(self, x: Var | Operand) -> Var:
        return F.prelu(x, self.weight if self.weight.size > 1 else self.weight.reshape(()))


class Flatten(Module):
    """All axes from `start_axis` on become one."""

    def __init__(self, start_axis: int = 1):
        self.start_axis = _check.integer("Flatten", "start_axis", start_axis, 0)

    def forward(self, x: Var | Operand) -> Var:
        return F.flatten(x, self.start_axis)
