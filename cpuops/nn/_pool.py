"""Pools as modules, of one to three axes."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import _check
from .. import autograd as F
from .._types import Operand, PerAxis
from ..autograd import Var
from ._module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d",
    "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d",
]  # fmt: skip


class _Pool(Module):
    """An operation of x and one size; keyword options are passed on."""

    op: ClassVar[str]
    axes: ClassVar[int]
    size_name: ClassVar[str] = "kernel_size"

    def __init__(self, size: PerAxis, **options: Any):
        self.size = _check.per_axis(type(self).__name__, self.size_name, size, self.axes, 1)
        self.options = options

    def describe(self) -> str:
        return ", ".join([str(self.size), *(f"{name}={value}" for name, value in self.options.items())])

    def forward(self, x: Var | Operand) -> Var:
        return getattr(F, self.op)(x, self.size, **self.options)  # type: ignore[no-any-return]


def _named(name: str, op: str, axes: int, size_name: str = "kernel_size") -> type[_Pool]:
    text = f"The operation `{op}` as a module: first the {size_name}, then its options as keyword arguments."
    return type(name, (_Pool,), {"op": op, "axes": axes, "size_name": size_name, "__doc__": text, "__module__": "cpuops.nn"})


MaxPool1d, MaxPool2d, MaxPool3d = (_named(f"MaxPool{n}d", f"max_pool{n}d", n) for n in (1, 2, 3))
AvgPool1d, AvgPool2d, AvgPool3d = (_named(f"AvgPool{n}d", f"avg_pool{n}d", n) for n in (1, 2, 3))
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = (
    _named(f"AdaptiveMaxPool{n}d", f"adaptive_max_pool{n}d", n, "output_size") for n in (1, 2, 3)
)
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = (
    _named(f"AdaptiveAvgPool{n}d", f"adaptive_avg_pool{n}d", n, "output_size") for n in (1, 2, 3)
)
