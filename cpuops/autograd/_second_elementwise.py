"""Derivatives of elementwise operations as differentiable functions; kinks are constants, right almost everywhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import _check
from ..results import PreluGrads
from . import functions as F
from ._separate import sum_to
from ._var import Var

SQRT_2, INV_SQRT_2PI = math.sqrt(2.0), 1.0 / math.sqrt(2.0 * math.pi)
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
GELU_C, GELU_A = math.sqrt(2.0 / math.pi), 0.044715


def when(condition: Any, like: Var) -> Any:
    """1 where a condition on arrays holds, else 0, NaN where `like` is NaN."""
    found = np.asarray(condition, like.dtype)
    nan = np.isnan(like.array)
    return np.where(nan, like.array, found) if nan.any() else found


# ---------------------------------------------------------------- functions


def neg_backward(output_grad: Var, x: Var) -> Var:
    return F.neg(output_grad)


def exp_backward(output_grad: Var, output: Var) -> Var:
    return output_grad * output


def expm1_backward(output_grad: Var, x: Var) -> Var:
    return output_grad * F.exp(x)


def log_backward(output_grad: Var, x: Var) -> Var:
    return output_grad / x


def log1p_backward(output_grad: Var, x: Var) -> Var:
    return output_grad / (x + 1.0)


def sqrt_backward(output_grad: Var, x: Var) -> Var:
    return output_grad * 0.5 / F.sqrt(x)


def reciprocal_backward(output_grad: Var, x: Var) -> Var:
    return F.neg(output_grad / F.square(x))


def abs_backward(output_grad: Var, x: Var) -> Var:
    return output_grad * np.sign(x.array)


def square_backward(output_grad: Var, x: Var) -> Var:
    return output_grad * x * 2.0


def erf_backward(output_grad: Var, x: Var) -> Var:
    return output_grad * (F.exp(F.neg(F.square(x))) * (2.0 / math.sqrt(math.pi)))


# ---------------------------------------------------------------- activations


def relu_backward(output_grad: Var, x: Var) -> Var:
    return output_grad * when(x.array > 0, x)


def leaky_relu_backward(output_grad: Var, x: Var, *, negative_slope: float = 0.01) -> Var:
    positive = when(x.array > 0, x)
    return output_grad * (positive + negative_slope * (1 - positive))


def prelu_backward(output_grad: Var, x: Var, weight: Var) -> PreluGrads:
    shape = (-1,) + (1,) * (x.ndim - 2) if x.ndim > 1 and weight.ndim else weight.shape
    negative = 1 - when(x.array > 0, x)
    slope = weight.reshape(shape) if weight.ndim else weight
    x_grad = output_grad * (slope * negative + (1 - negative))
    weight_grad = sum_to(F, output_grad * x * negative, slope.shape).reshape(weight.shape)
    return PreluGrads(x_grad, weight_grad)  # type: ignore[arg-type]


def elu_backward(output_grad: Var, x: Var, *, alpha: float = 1) -> Var:
    return output_grad * F.where(x.array > 0, 1.0, F.exp(x) * float(alpha))


def celu_backward(output_grad: Var, x: Var, *, alpha: float = 1) -> Var:
    return output_grad * F.where(x.array > 0, 1.0, F.exp(x * (1.0 / alpha)))


def selu_backward(output_grad: Var, x: Var) -> Var:
    return output_grad * F.where(x.array > 0, SELU_SCALE, F.exp(x) * (SELU_ALPHA * SELU_SCALE))


def relu6_backward(output_grad: Var, x: Var) -> Var:
    return output_grad * when((x.array > 0) & (x.array < 6), x)


def hardtanh_backward(output_grad: Var, x: Var, *, min: float = -1, max: float = 1) -> Var:
    return output_grad * when((x.array > min) & (x.array < max), x)


def hard_sigmoid_backward(output_grad: Var, x: Var, *, alpha: float = 0.2, beta: float = 0.5) -> Var:
    inner = x.array * alpha + beta
    return output_grad * (when((inner > 0) & (inner < 1), x) * x.dtype.type(alpha))


def hard_swish_backward(output_grad: Var, x: Var) -> Var:
    middle, above = when((x.array > -3) & (x.array < 3), x), (x.array >= 3).astype(x.dtype)
    return output_grad * ((x * (1 / 3) + 0.5) * middle + above)


def sigmoid_backward(output_grad: Var, output: Var) -> Var:
    return output_grad * (output * (1.0 - output))


def tanh_backward(output_grad: Var, output: Var) -> Var:
    return output_grad * (1.0 - F.square(output))


def log_sigmoid_backward(output_grad: Var, x: Var) -> Var:
    return output_grad * F.sigmoid(F.neg(x))


def gelu_backward(output_grad: Var, x: Var, *, approximate: str = "none") -> Var:
    if approximate == "none":
        density = F.exp(F.square(x) * -0.5) * INV_SQRT_2PI
        return output_grad * ((F.erf(x * (1 / SQRT_2)) + 1.0) * 0.5 + x * density)
    t = F.tanh((x + F.power(x, 3) * GELU_A) * GELU_C)
    inner = (F.square(x) * (3 * GELU_A) + 1.0) * GELU_C
    return output_grad * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - F.square(t)) * inner)


def silu_backward(output_grad: Var, x: Var) -> Var:
    s = F.sigmoid(x)
    return output_grad * (s * (x * (1.0 - s) + 1.0))


def mish_backward(output_grad: Var, x: Var) -> Var:
    t = F.tanh(F.softplus(x))
    return output_grad * (t + x * F.sigmoid(x) * (1.0 - F.square(t)))


def softplus_backward(output_grad: Var, x: Var, *, beta: float = 1) -> Var:
    return output_grad * F.sigmoid(x * float(beta))


def softsign_backward(output_grad: Var, x: Var) -> Var:
    return output_grad / F.square(F.abs(x) + 1.0)


def tanhshrink_backward(output_grad: Var, x: Var) -> Var:
    return output_grad * F.square(F.tanh(x))


def glu_backward(output_grad: Var, x: Var, *, axis: int = -1) -> Var:
    a = _check.axis("glu_backward", axis, x.ndim)
    half = x.shape[a] // 2
    value, gate = F.slice_axis(x, a, 0, half), F.sigmoid(F.slice_axis(x, a, half))
    return F.concat([output_grad * gate, output_grad * value * gate * (1.0 - gate)], a)
