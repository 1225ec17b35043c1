"""The NamedTuples that operations with several results return."""

from typing import NamedTuple

from ._types import Array


class PairGrads(NamedTuple):
    """Gradients of an elementwise pair, each of its operand's shape."""

    lhs_grad: Array
    rhs_grad: Array


class PreluGrads(NamedTuple):
    """Gradients of prelu."""

    x_grad: Array
    weight_grad: Array


class MseLossGrads(NamedTuple):
    """Gradients of mse_loss."""

    input_grad: Array
    target_grad: Array


class MatmulGrads(NamedTuple):
    """Gradients of matmul, summed over broadcast batch axes."""

    lhs_grad: Array
    rhs_grad: Array


class LinearGrads(NamedTuple):
    """Gradients of linear."""

    x_grad: Array
    weight_grad: Array
    bias_grad: Array


class Conv1dGrads(NamedTuple):
    """Gradients of conv1d; `bias_grad` is None when it was not asked for."""

    x_grad: Array
    weight_grad: Array
    bias_grad: Array | None


class Conv2dGrads(NamedTuple):
    """Gradients of conv2d; `bias_grad` is None when it was not asked for."""

    x_grad: Array
    weight_grad: Array
    bias_grad: Array | None


class Conv3dGrads(NamedTuple):
    """Gradients of conv3d; `bias_grad` is None when it was not asked for."""

    x_grad: Array
    weight_grad: Array
    bias_grad: Array | None


class Conv1dActivationWithSum(NamedTuple):
    """The activation of conv1d's result, and that result."""

    output: Array
    sum: Array


class Conv1dActivationGrads(NamedTuple):
    """Gradients of conv1d_activation; None where x_grad was not asked for or there is no bias."""

    x_grad: Array | None
    weight_grad: Array
    bias_grad: Array | None


class Conv2dActivationWithSum(NamedTuple):
    """The activation of conv2d's result, and that result."""

    output: Array
    sum: Array


class Conv2dActivationGrads(NamedTuple):
    """Gradients of conv2d_activation; None where x_grad was not asked for or there is no bias."""

    x_grad: Array | None
    weight_grad: Array
    bias_grad: Array | None


class Conv3dActivationWithSum(NamedTuple):
    """The activation of conv3d's result, and that result."""

    output: Array
    sum: Array


class Conv3dActivationGrads(NamedTuple):
    """Gradients of conv3d_activation; None where x_grad was not asked for or there is no bias."""

    x_grad: Array | None
    weight_grad: Array
    bias_grad: Array | None


class ConvTranspose1dGrads(NamedTuple):
    """Gradients of conv_transpose1d; `bias_grad` is None when it was not asked for."""

    x_grad: Array
    weight_grad: Array
    bias_grad: Array | None


class ConvTranspose2dGrads(NamedTuple):
    """Gradients of conv_transpose2d; `bias_grad` is None when it was not asked for."""

    x_grad: Array
    weight_grad: Array
    bias_grad: Array | None


class ConvTranspose3dGrads(NamedTuple):
    """Gradients of conv_transpose3d; `bias_grad` is None when it was not asked for."""

    x_grad: Array
    weight_grad: Array
    bias_grad: Array | None


class DeformConv2dGrads(NamedTuple):
    """Gradients of deform_conv2d; `mask_grad` and `bias_grad` are None where the operand was."""

    x_grad: Array
    offset_grad: Array
    weight_grad: Array
    mask_grad: Array | None
    bias_grad: Array | None


class MaxPool1dWithIndices(NamedTuple):
    """Maxima and their flat indices over the spatial axes of one plane."""

    output: Array
    indices: Array


class MaxPool2dWithIndices(NamedTuple):
    """Maxima and their flat indices over the spatial axes of one plane."""

    output: Array
    indices: Array


class MaxPool3dWithIndices(NamedTuple):
    """Maxima and their flat indices over the spatial axes of one plane."""

    output: Array
    indices: Array


class AdaptiveMaxPool1dWithIndices(NamedTuple):
    """Maxima and their flat indices over the spatial axes of one plane."""

    output: Array
    indices: Array


class AdaptiveMaxPool2dWithIndices(NamedTuple):
    """Maxima and their flat indices over the spatial axes of one plane."""

    output: Array
    indices: Array


class AdaptiveMaxPool3dWithIndices(NamedTuple):
    """Maxima and their flat indices over the spatial axes of one plane."""

    output: Array
    indices: Array


class GridSampleGrads(NamedTuple):
    """Gradients of grid_sample_2d."""

    x_grad: Array
    grid_grad: Array


class BatchNormTrain(NamedTuple):
    """Normalised x and the (biased) statistics of the batch."""

    output: Array
    mean: Array
    variance: Array


class BatchNormTrainGrads(NamedTuple):
    """Gradients of batch_norm_train."""

    x_grad: Array
    gamma_grad: Array
    beta_grad: Array


class BatchNormGrads(NamedTuple):
    """Gradients of batch_norm."""

    x_grad: Array
    gamma_grad: Array
    beta_grad: Array


class LayerNormGrads(NamedTuple):
    """Gradients of layer_norm."""

    x_grad: Array
    gamma_grad: Array
    beta_grad: Array


class GroupNormGrads(NamedTuple):
    """Gradients of group_norm."""

    x_grad: Array
    gamma_grad: Array
    beta_grad: Array


class InstanceNormGrads(NamedTuple):
    """Gradients of instance_norm."""

    x_grad: Array
    gamma_grad: Array
    beta_grad: Array


class RmsNormGrads(NamedTuple):
    """Gradients of rms_norm."""

    x_grad: Array
    gamma_grad: Array


class AttentionWithLogsumexp(NamedTuple):
    """attention_with_logsumexp: the output and the logarithm of the softmax's denominator."""

    output: Array
    logsumexp: Array


class AttentionGrads(NamedTuple):
    """Gradients of attention."""

    query_grad: Array
    key_grad: Array
    value_grad: Array


class AttentionBiasGrads(NamedTuple):
    """Gradients of attention, that of attn_bias among them (None where there is none)."""

    query_grad: Array
    key_grad: Array
    value_grad: Array
    bias_grad: Array | None


class LinearActivationWithSum(NamedTuple):
    """The activation of a linear layer's result, and that result."""

    output: Array
    sum: Array


class LinearActivationGrads(NamedTuple):
    """Gradients of linear_activation; None where x_grad was not asked for or there is no bias."""

    x_grad: Array | None
    weight_grad: Array
    bias_grad: Array | None


class AddLayerNorm(NamedTuple):
    """x + residual, and its last axis normalised."""

    output: Array
    sum: Array


class AddRmsNorm(NamedTuple):
    """x + residual, and its last axis over its root mean square."""

    output: Array
    sum: Array


class AddLayerNormGrads(NamedTuple):
    """Gradients of add_layer_norm; the first two are one array."""

    x_grad: Array
    residual_grad: Array
    gamma_grad: Array
    beta_grad: Array


class AddRmsNormGrads(NamedTuple):
    """Gradients of add_rms_norm; the first two are one array."""

    x_grad: Array
    residual_grad: Array
    gamma_grad: Array
