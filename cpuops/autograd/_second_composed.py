"""Derivatives of pairs, reductions, products, losses, norms, pools and attention as differentiable functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _check
from ..results import (
    AddLayerNormGrads,
    AddRmsNormGrads,
    BatchNormGrads,
    BatchNormTrainGrads,
    Conv1dActivationGrads,
    Conv2dActivationGrads,
    Conv3dActivationGrads,
    GroupNormGrads,
    InstanceNormGrads,
    LayerNormGrads,
    LinearActivationGrads,
    MseLossGrads,
    PairGrads,
    RmsNormGrads,
)
from . import functions as F
from ._context import current
from ._engine import gradients_to
from ._separate import sum_to
from ._var import Var


def through(forward: Callable[..., Var], operands: Sequence[Var | None], output_grad: Var) -> list[Any]:
    """The gradients of a composition to its operands, as Vars; None to those that need none."""
    # places of their own on the tape, also where two operands are one Var
    own = [v if v is None else v.reshape(v.shape) for v in operands]
    needed = [v for v in own if v is not None and v.requires_grad]
    found = iter(gradients_to([forward(*own)], needed, [output_grad], True, True, partial=True)) if needed else iter(())
    return [next(found) if v is not None and v.requires_grad else None for v in own]


# ---------------------------------------------------------------- pairs


def choice_backward(output_grad: Var, lhs: Any, rhs: Any, larger: bool) -> PairGrads:
    left, right = np.broadcast_arrays(*(np.asarray(v.array if isinstance(v, Var) else v, output_grad.dtype) for v in (lhs, rhs)))
    weight = np.where(left == right, 0.5, (left > right) == larger).astype(output_grad.dtype)
    weight = np.where(np.isnan(left) | np.isnan(right), output_grad.dtype.type(np.nan), weight)
    return PairGrads(
        sum_to(F, output_grad * weight, np.shape(lhs.array if isinstance(lhs, Var) else lhs)),
        sum_to(F, output_grad * (1 - weight), np.shape(rhs.array if isinstance(rhs, Var) else rhs)),
    )


def maximum_backward(output_grad: Var, lhs: Any, rhs: Any) -> PairGrads:
    return choice_backward(output_grad, lhs, rhs, True)


def minimum_backward(output_grad: Var, lhs: Any, rhs: Any) -> PairGrads:
    return choice_backward(output_grad, lhs, rhs, False)


# ---------------------------------------------------------------- reductions, softmax


def spread(output_grad: Var, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Var:
    """A reduction's gradient with length 1 along the axes that were reduced."""
    axes = _check.axes("reduce", axis, len(shape))
    return output_grad.reshape(tuple(1 if a in axes else n for a, n in enumerate(shape)))


def first_extreme(output_grad: Var, x: Var, axis: Any, keepdims: bool, op: str) -> Var:
    """To the element that the kernel's gradient chooses, which does not depend on small changes of x."""
    backend = current().backend
    ones = np.ones(output_grad.shape, x.dtype)
    chosen = getattr(backend, op)(ones, x.array, axis=axis, keepdims=keepdims)
    return spread(output_grad, x.shape, axis, keepdims) * chosen


def reduce_max_backward(output_grad: Var, x: Var, *, axis: Any = None, keepdims: bool = False) -> Var:
    return first_extreme(output_grad, x, axis, keepdims, "reduce_max_backward")


def reduce_min_backward(output_grad: Var, x: Var, *, axis: Any = None, keepdims: bool = False) -> Var:
    return first_extreme(output_grad, x, axis, keepdims, "reduce_min_backward")


def logsumexp_backward(output_grad: Var, x: Var, *, axis: Any = None, keepdims: bool = False) -> Var:
    total = F.logsumexp(x, axis=axis, keepdims=True)
    return spread(output_grad, x.shape, axis, keepdims) * F.exp(x - total)


def softmax_backward(output_grad: Var, output: Var, *, axis: int, scale: float = 1.0) -> Var:
    slope = output * (output_grad - F.reduce_sum(output_grad * output, axis=axis, keepdims=True))
    return slope if scale == 1 else slope * scale


def log_softmax_backward(output_grad: Var, output: Var, *, axis: int, scale: float = 1.0) -> Var:
    slope = output_grad - F.exp(output) * F.reduce_sum(output_grad, axis=axis, keepdims=True)
    return slope if scale == 1 else slope * scale


# ---------------------------------------------------------------- losses


def cross_entropy_backward(
    output_grad: Var, logits: Var, targets: Any, *, reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0
) -> Var:
    labels = _check.integers("cross_entropy_backward", "targets", targets)
    counted = np.ones(labels.shape, bool) if ignore_index is None else labels != ignore_index
    wanted = np.full(logits.shape, label_smoothing / max(logits.shape[1], 1), logits.dtype)
    rows = np.flatnonzero(counted)
    wanted[rows, labels[rows]] += 1 - label_smoothing
    scale = 1.0 / max(len(rows), 1) if reduction == "mean" else 1.0
    weight = (counted * scale).astype(logits.dtype)[:, np.newaxis]
    g = output_grad.reshape((-1, 1)) if output_grad.ndim else output_grad
    softmax = F.softmax(F.where(counted[:, np.newaxis], logits, 0.0), axis=1)
    return g * weight * (softmax - wanted)


def mse_loss_backward(output_grad: Var, input: Var, target: Var, *, reduction: str = "mean") -> MseLossGrads:
    scale = 2.0 / max(input.size, 1) if reduction == "mean" else 2.0
    input_grad = output_grad * scale * (input - target)
    return MseLossGrads(input_grad, F.neg(input_grad))  # type: ignore[arg-type]


# ---------------------------------------------------------------- products


def linear_x_backward(weight: Var, output_grad: Var) -> Var:
    return F.linear(output_grad, F.transpose(weight))


def linear_weight_backward(x: Var, output_grad: Var) -> Var:
    rows = x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))
    return F.matmul(F.transpose(rows), output_grad.reshape((rows.shape[0], output_grad.shape[-1])))


def linear_bias_backward(output_grad: Var) -> Var:
    return F.reduce_sum(output_grad, axis=tuple(range(output_grad.ndim - 1)))


def channel_sum(output_grad: Var, layout: str = "NCHW") -> Var:
    axes = range(output_grad.ndim)
    channel = output_grad.ndim - 1 if layout == "NHWC" else 1
    return F.reduce_sum(output_grad, axis=tuple(a for a in axes if a != channel))


def _bias_backward(x: Any, bias: Any, output_grad: Var, *, layout: str = "NCHW") -> Var:
    return channel_sum(output_grad, layout)


conv1d_bias_backward = conv2d_bias_backward = conv3d_bias_backward = _bias_backward
conv_transpose1d_bias_backward = conv_transpose2d_bias_backward = conv_transpose3d_bias_backward = _bias_backward


# ---------------------------------------------------------------- normalisation, by the formulas of the forward


def normalised(x: Var, axes: Any, epsilon: float) -> Var:
    """(x − mean) / √(variance + ε) over some axes."""
    centred = x - F.reduce_mean(x, axis=axes, keepdims=True)
    return centred / F.sqrt(F.reduce_mean(F.square(centred), axis=axes, keepdims=True) + float(epsilon))


def by_channel(v: Var, ndim: int) -> Var:
    return v.reshape((1, -1) + (1,) * (ndim - 2))


def affine(x: Var, gamma: Var | None, beta: Var | None) -> Var:
    """γ·x + β with one γ and β for every channel."""
    if gamma is not None:
        x = x * by_channel(gamma, x.ndim)
    return x if beta is None else x + by_channel(beta, x.ndim)


def zeros_like_channels(x: Var) -> Var:
    return Var(np.zeros(x.shape[1], x.dtype))


def batch_norm_backward(x: Var, gamma: Var, mean: Any, variance: Any, epsilon: float, output_grad: Var) -> BatchNormGrads:
    root = 1.0 / np.sqrt(variance + variance.dtype.type(epsilon))
    shape = (1, -1) + (1,) * (x.ndim - 2)
    hat = (x - mean.reshape(shape)) * root.reshape(shape)
    gamma_root = by_channel(gamma * root, x.ndim)
    return BatchNormGrads(output_grad * gamma_root, channel_sum(output_grad * hat), channel_sum(output_grad))  # type: ignore[arg-type]


def batch_norm_train_backward(x: Var, gamma: Var, mean: Any, variance: Any, epsilon: float, output_grad: Var) -> BatchNormTrainGrads:
    def forward(x: Var, gamma: Var) -> Var:
        return affine(normalised(x, (0, *range(2, x.ndim)), epsilon), gamma, None)

    x_grad, gamma_grad = through(forward, (x, gamma), output_grad)
    return BatchNormTrainGrads(x_grad, gamma_grad, channel_sum(output_grad))  # type: ignore[arg-type]


def group_norm_backward(x: Var, num_groups: int, gamma: Var | None, epsilon: float, output_grad: Var) -> GroupNormGrads:
    def forward(x: Var, gamma: Var | None) -> Var:
        return affine(normalised(x.reshape((x.shape[0], num_groups, -1)), 2, epsilon).reshape(x.shape), gamma, None)

    x_grad, gamma_grad = through(forward, (x, gamma), output_grad)
    return GroupNormGrads(x_grad, gamma_grad, channel_sum(output_grad))  # type: ignore[arg-type]


def instance_norm_backward(x: Var, gamma: Var | None, epsilon: float, output_grad: Var) -> InstanceNormGrads:
    return InstanceNormGrads(*group_norm_backward(x, x.shape[1], gamma, epsilon, output_grad))


def layer_norm_backward(x: Var, gamma: Var, epsilon: float, output_grad: Var) -> LayerNormGrads:
    x_grad, gamma_grad = through(lambda x, gamma: normalised(x, -1, epsilon) * gamma, (x, gamma), output_grad)
    return LayerNormGrads(x_grad, gamma_grad, sum_to(F, output_grad, (x.shape[-1],)))  # type: ignore[arg-type]


def rms_norm_backward(x: Var, gamma: Var, epsilon: float, output_grad: Var) -> RmsNormGrads:
    def forward(x: Var, gamma: Var) -> Var:
        return x / F.sqrt(F.reduce_mean(F.square(x), axis=-1, keepdims=True) + float(epsilon)) * gamma

    return RmsNormGrads(*through(forward, (x, gamma), output_grad))


def add_layer_norm_backward(sum: Var, gamma: Var, epsilon: float, output_grad: Var, sum_grad: Var | None = None) -> AddLayerNormGrads:
    grads = layer_norm_backward(sum, gamma, epsilon, output_grad)
    x_grad = grads.x_grad if sum_grad is None else grads.x_grad + sum_grad
    return AddLayerNormGrads(x_grad, x_grad, grads.gamma_grad, grads.beta_grad)


def add_rms_norm_backward(sum: Var, gamma: Var, epsilon: float, output_grad: Var, sum_grad: Var | None = None) -> AddRmsNormGrads:
    grads = rms_norm_backward(sum, gamma, epsilon, output_grad)
    x_grad = grads.x_grad if sum_grad is None else grads.x_grad + sum_grad
    return AddRmsNormGrads(x_grad, x_grad, grads.gamma_grad)


# ---------------------------------------------------------------- a linear layer or a convolution and its activation


ACTIVATIONS: dict[str, Callable[[Var], Var]] = {
    "relu": lambda x: F.relu(x), "gelu": lambda x: F.gelu(x), "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": lambda x: F.silu(x),
}  # fmt: skip


def _activation_backward(op: str, grads_of: Callable[..., Any]) -> Callable[..., Any]:
    def method(
        x: Var, weight: Var, bias: Any, sum: Any, output_grad: Var, *, activation: str = "relu", x_grad: bool = True, **options: Any
    ) -> Any:
        def forward(x: Var, weight: Var, bias: Any) -> Var:
            return ACTIVATIONS[activation](getattr(F, op)(x, weight, bias, **options))

        b = bias if bias is None or isinstance(bias, Var) else Var(bias, requires_grad=False)
        return grads_of(*through(forward, (x, weight, b), output_grad))

    return method


linear_activation_backward = _activation_backward("linear", LinearActivationGrads)
conv1d_activation_backward = _activation_backward("conv1d", Conv1dActivationGrads)
conv2d_activation_backward = _activation_backward("conv2d", Conv2dActivationGrads)
conv3d_activation_backward = _activation_backward("conv3d", Conv3dActivationGrads)


# ---------------------------------------------------------------- maximum pooling: which element is constant almost everywhere


def to_indices(x: Any, output_grad: Var, indices: Any, layout: str = "NCHW") -> Var:
    """`output_grad` added at flat indices of x's planes."""
    if layout == "NHWC":
        back, forth = (0, 3, 1, 2), (0, 2, 3, 1)
        return F.transpose(to_indices(_moved(x, back), F.transpose(output_grad, back), indices.transpose(back)), forth)
    batch, channels, *axes = x.shape
    cells = math.prod(output_grad.shape[2:])
    flat = F.scatter_add(output_grad.reshape((batch, channels, cells)), indices.reshape(batch, channels, cells), 2, math.prod(axes))
    return flat.reshape(x.shape)


def _moved(x: Any, axes: Sequence[int]) -> Any:
    return (x.array if isinstance(x, Var) else x).transpose(axes)


def _pool_backward(op: str) -> Callable[..., Var]:
    def method(x: Var, output_grad: Var, kernel_size: Any, **options: Any) -> Var:
        indices = getattr(current().backend, f"{op}_with_indices")(x.array, kernel_size, **options).indices
        return to_indices(x, output_grad, indices, options.get("layout", "NCHW"))

    return method


def _pool_with_indices_backward(x: Var, kernel_size: Any, output_grad: Var, indices: Any, **options: Any) -> Var:
    return to_indices(x, output_grad, indices, options.get("layout", "NCHW"))


def _adaptive_pool_backward(op: str) -> Callable[..., Var]:
    def method(x: Var, output_grad: Var, *, layout: str = "NCHW") -> Var:
        options = {"layout": layout} if layout != "NCHW" else {}
        size = output_grad.shape[1:-1] if layout == "NHWC" else output_grad.shape[2:]
        indices = getattr(current().backend, f"{op}_with_indices")(x.array, size, **options).indices
        return to_indices(x, output_grad, indices, layout)

    return method


def _adaptive_pool_with_indices_backward(x: Var, output_grad: Var, indices: Any, *, layout: str = "NCHW") -> Var:
    return to_indices(x, output_grad, indices, layout)


for _n in (1, 2, 3):
    globals()[f"max_pool{_n}d_backward"] = _pool_backward(f"max_pool{_n}d")
    globals()[f"max_pool{_n}d_with_indices_backward"] = _pool_with_indices_backward
    globals()[f"adaptive_max_pool{_n}d_backward"] = _adaptive_pool_backward(f"adaptive_max_pool{_n}d")
    globals()[f"adaptive_max_pool{_n}d_with_indices_backward"] = _adaptive_pool_with_indices_backward
