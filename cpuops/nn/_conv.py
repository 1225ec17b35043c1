"""Convolutions and transposed convolutions of one to three axes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from .. import _check
from .. import autograd as F
from .._types import Operand, Padding, PerAxis
from ..autograd import Var
from ..errors import ArgumentError, message
from ..ops.linear_activation import ACTIVATION
from . import init
from ._module import Module, Parameter, generator_of

__all__ = [
    "Conv1d", "Conv1dActivation", "Conv2d", "Conv2dActivation", "Conv3d", "Conv3dActivation", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d",
]  # fmt: skip


class _Convolution(Module):
    axes: ClassVar[int]
    transposed: ClassVar[bool] = False

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        kernel_size: PerAxis,
        *,
        stride: PerAxis = 1,
        padding: Padding = 0,
        dilation: PerAxis = 1,
        groups: int = 1,
        bias: bool = True,
        generator: np.random.Generator | int | None = None,
        dtype: Any = np.float32,
    ):
        op = type(self).__name__
        cin, cout = _check.integer(op, "channels_in", channels_in, 1), _check.integer(op, "channels_out", channels_out, 1)
        groups = _check.integer(op, "groups", groups, 1)
        for name, channels in (("channels_in", cin), ("channels_out", cout)):
            if channels % groups:
                raise ArgumentError(message(op, name, str(channels), f"a multiple of groups, {groups}"))
        kernel = _check.per_axis(op, "kernel_size", kernel_size, self.axes, 1)
        self.options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        kind = "conv_transpose" if self.transposed else "conv"
        shape = (cin, cout // groups, *kernel) if self.transposed else (cout, cin // groups, *kernel)
        random, bound = generator_of(generator), 1.0 / math.sqrt(init.fans(shape, kind, groups)[0])
        self.weight = Parameter(init.uniform(random, shape, dtype, bound))
        self.bias = Parameter(init.uniform(random, (cout,), dtype, bound)) if _check.flag(op, "bias", bias) else None
        self._text = f"{cin}, {cout}, kernel_size={kernel}"

    def describe(self) -> str:
        defaults = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "output_padding": 0}
        more = [f"{name}={value}" for name, value in self.options.items() if value != defaults[name]]
        return ", ".join([self._text, *more, *([] if self.bias is not None else ["bias=False"])])

    def forward(self, x: Var | Operand) -> Var:
        function = getattr(F, f"conv{'_transpose' if self.transposed else ''}{self.axes}d")
        return function(x, self.weight, self.bias, **self.options)  # type: ignore[no-any-return]


CONVOLUTION = """Convolve (cross-correlate) {axes} with learned kernels: [B, Cin, …] → [B, Cout, …].

    Parameters
    ----------
    channels_in, channels_out : int
        Multiples of `groups`; weight is [Cout, Cin/groups, k…].
    kernel_size, stride, dilation : int or sequence of int
        One for all axes, or one an axis.
    padding : int, sequence, "valid" or "same"
        As in the operation.
    groups : int
        Groups of channels that do not mix.
    bias : bool
        Whether it has one, [Cout].
    generator, dtype
        As in :class:`Linear`.

    Notes
    -----
    Initially uniform within 1/√fan_in, the bias too.
    """


class Conv1d(_Convolution):
    __doc__ = CONVOLUTION.format(axes="one axis")
    axes = 1


class Conv2d(_Convolution):
    __doc__ = CONVOLUTION.format(axes="two axes")
    axes = 2


class Conv3d(_Convolution):
    __doc__ = CONVOLUTION.format(axes="three axes")
    axes = 3


class _Activated(_Convolution):
    def __init__(self, channels_in: int, channels_out: int, kernel_size: PerAxis, activation: str = "relu", **options: Any):
        super().__init__(channels_in, channels_out, kernel_size, **options)
        self.activation = _check.choice(type(self).__name__, "activation", activation, tuple(ACTIVATION))

    def describe(self) -> str:
        return f"{super().describe()}, {self.activation}"

    def forward(self, x: Var | Operand) -> Var:
        function = getattr(F, f"conv{self.axes}d_activation")
        return function(x, self.weight, self.bias, activation=self.activation, **self.options)  # type: ignore[no-any-return]


ACTIVATED = """Convolve {axes} with learned kernels and apply an activation, in one pass: [B, Cin, …] → [B, Cout, …].

    Parameters
    ----------
    activation : {{"relu", "gelu", "gelu_tanh", "silu"}}
        What follows the convolution.
    channels_in, channels_out, kernel_size, stride, padding, dilation, groups, bias, generator, dtype
        As of :class:`Conv{n}d`.

    Notes
    -----
    The results of :class:`Conv{n}d` and the activation after each other.
    """


class Conv1dActivation(_Activated):
    __doc__ = ACTIVATED.format(axes="one axis", n=1)
    axes = 1


class Conv2dActivation(_Activated):
    __doc__ = ACTIVATED.format(axes="two axes", n=2)
    axes = 2


class Conv3dActivation(_Activated):
    __doc__ = ACTIVATED.format(axes="three axes", n=3)
    axes = 3


class _Transposed(_Convolution):
    transposed = True

    def __init__(self, channels_in: int, channels_out: int, kernel_size: PerAxis, *, output_padding: PerAxis = 0, **options: Any):
        super().__init__(channels_in, channels_out, kernel_size, **options)
        self.options["output_padding"] = output_padding


TRANSPOSED = """Convolve {axes}, transposed: [B, Cin, …] → [B, Cout, …], longer by the stride.

    Parameters
    ----------
    channels_in, channels_out : int
        Multiples of `groups`; weight is [Cin, Cout/groups, k…].
    output_padding : int or sequence of int
        Cells that the output is longer by.
    kernel_size, stride, padding, dilation, groups, bias, generator, dtype
        As in :class:`Conv2d`.
    """


class ConvTranspose1d(_Transposed):
    __doc__ = TRANSPOSED.format(axes="one axis")
    axes = 1


class ConvTranspose2d(_Transposed):
    __doc__ = TRANSPOSED.format(axes="two axes")
    axes = 2


class ConvTranspose3d(_Transposed):
    __doc__ = TRANSPOSED.format(axes="three axes")
    axes = 3
