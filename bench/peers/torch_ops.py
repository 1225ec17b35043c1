"""cpuops's methods as torch functions: same operands in the same order, same options by name."""

from functools import partial

import torch
import torch.nn.functional as F

__all__ = ["FOUR_AXES", "FUNCTIONS", "OUT", "PREPARED", "autograd"]

aten = torch.ops.aten
# methods that also run in the channels_last memory format
FOUR_AXES = (
    "conv2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d", "interpolate", "batch_norm",
    "group_norm", "instance_norm",
)  # fmt: skip


def pair(value, n):
    return list(value) if isinstance(value, tuple | list) else [value] * n


# ---------------------------------------------------------------- convolution


def conv(n):
    function = getattr(F, f"conv{n}d")

    def forward(x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1):
        return function(x, weight, bias, stride, padding, dilation, groups)

    def gradient(mask, pick):
        def backward(x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1):
            lists = [pair(v, n) for v in (stride, padding, dilation)]
            grads = aten.convolution_backward(output_grad, x, weight, None, *lists, False, [0] * n, groups, mask)
            return grads[pick]

        return backward

    def activated(x, weight, bias=None, *, activation, **options):
        return getattr(F, activation)(forward(x, weight, bias, **options))

    return {
        f"conv{n}d": forward,
        f"conv{n}d_activation": activated,
        f"conv{n}d_x_backward": gradient([True, False, False], 0),
        f"conv{n}d_weight_backward": gradient([False, True, False], 1),
    }


def conv_transpose(n):
    function = getattr(F, f"conv_transpose{n}d")

    def forward(x, weight, bias=None, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
        return function(x, weight, bias, stride, padding, output_padding, groups, dilation)

    def lists(stride, padding, output_padding, dilation, groups):
        first = [pair(v, n) for v in (stride, padding, dilation)]
        return *first, True, pair(output_padding, n), groups

    def x_backward(weight, output_grad, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
        return getattr(F, f"conv{n}d")(output_grad, weight, None, stride, padding, dilation, groups)

    def weight_backward(x, weight, output_grad, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
        options = lists(stride, padding, output_padding, dilation, groups)
        return aten.convolution_backward(output_grad, x, weight, None, *options, [False, True, False])[1]

    return {
        f"conv_transpose{n}d": forward,
        f"conv_transpose{n}d_x_backward": x_backward,
        f"conv_transpose{n}d_weight_backward": weight_backward,
    }


# ---------------------------------------------------------------- windows as columns


def unfold4d(x, kernel_size, *, stride=1, padding=0, dilation=1):
    return F.unfold(x, kernel_size, dilation, padding, stride)


def fold4d(x, output_size, kernel_size, *, stride=1, padding=0, dilation=1):
    return F.fold(x, output_size, kernel_size, dilation, padding, stride)


# ---------------------------------------------------------------- pooling


def pools(n):
    top, mean = getattr(F, f"max_pool{n}d"), getattr(F, f"avg_pool{n}d")
    adaptive = getattr(F, f"adaptive_avg_pool{n}d")
    return {
        f"max_pool{n}d": lambda x, size, *, stride=None, padding=0, dilation=1, ceil_mode=False: top(
            x, size, stride, padding, dilation, ceil_mode
        ),
        f"max_pool{n}d_with_indices": lambda x, size, *, stride=None, padding=0, dilation=1, ceil_mode=False: top(
            x, size, stride, padding, dilation, ceil_mode, return_indices=True
        ),
        f"avg_pool{n}d": lambda x, size, *, stride=None, padding=0, ceil_mode=False, count_include_pad=True: mean(
            x, size, stride, padding, ceil_mode, count_include_pad
        ),
        f"adaptive_avg_pool{n}d": adaptive,
    }


def max_pool2d_with_indices_backward(x, size, output_grad, indices, *, stride=None, padding=0, dilation=1, ceil_mode=False):
    lists = [pair(v, 2) for v in (size, size if stride is None else stride, padding, dilation)]
    return aten.max_pool2d_with_indices_backward(output_grad, x, *lists, ceil_mode, indices)


def avg_pool2d_backward(x, output_grad, size, *, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    lists = [pair(v, 2) for v in (size, size if stride is None else stride, padding)]
    return aten.avg_pool2d_backward(output_grad, x, *lists, ceil_mode, count_include_pad, None)


# ---------------------------------------------------------------- padding: torch takes the last axis first


def pad(x, pads, *, mode="constant", value=0.0):
    flat = [p for pair in reversed(pads) for p in pair]
    if mode == "constant":
        return F.pad(x, flat, value=value)
    return F.pad(x, flat[: 2 * (x.ndim - 2)], mode={"edge": "replicate"}.get(mode, mode))


# ---------------------------------------------------------------- resampling

LINEAR_MODES = {3: "linear", 4: "bilinear", 5: "trilinear"}


def interpolate(x, size, *, mode="bilinear", antialias=False, exclude_outside=False, cubic_a=-0.75):
    """Of the options those that torch has: its cubic coefficient and its edges depend on antialiasing."""
    if antialias != exclude_outside or (mode == "bicubic" and cubic_a != (-0.5 if antialias else -0.75)):
        raise ValueError("torch has no such filter")
    mode = LINEAR_MODES[x.ndim] if mode == "bilinear" else mode.replace("_", "-")
    return F.interpolate(x, size, mode=mode, antialias=antialias)


def interpolate_backward(x, output_grad, size, *, mode="bilinear", antialias=False, exclude_outside=False, cubic_a=-0.75):
    if mode == "nearest":
        return aten.upsample_nearest2d_backward(output_grad, size, x.shape)
    name = f"_upsample_{mode}2d_aa_backward" if antialias else f"upsample_{mode}2d_backward"
    return getattr(aten, name)(output_grad, size, x.shape, False)


# ---------------------------------------------------------------- sampling


def grid_sample_2d_backward(x, grid, output_grad, *, mode="bilinear", padding_mode="zeros", align_corners=False):
    numbers = ["bilinear", "nearest", "bicubic"].index(mode), ["zeros", "border", "reflection"].index(padding_mode)
    return aten.grid_sampler_2d_backward(output_grad, x, grid, *numbers, align_corners, (True, True))


def grid_sample_2d(x, grid, *, mode="bilinear", padding_mode="zeros", align_corners=False):
    return F.grid_sample(x, grid, mode, padding_mode, align_corners)


# ---------------------------------------------------------------- normalisation: ours returns (output, mean, variance)


def batch_norm_train(x, gamma, beta, epsilon):
    output, mean, _ = torch.native_batch_norm(x, gamma, beta, None, None, True, 0.1, epsilon)
    return output, mean, None


def add_layer_norm(x, residual, gamma, beta, epsilon):
    total = x + residual
    return F.layer_norm(total, (x.shape[-1],), gamma, beta, epsilon), total


def add_rms_norm(x, residual, gamma, epsilon):
    total = x + residual
    return F.rms_norm(total, (x.shape[-1],), gamma, epsilon), total


# ---------------------------------------------------------------- all of them

FUNCTIONS = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
    "neg": torch.neg, "exp": torch.exp, "expm1": torch.expm1, "log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt,
    "reciprocal": torch.reciprocal, "abs": torch.abs, "square": torch.square, "erf": torch.erf,
    "relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "gelu": F.gelu, "silu": F.silu, "elu": F.elu,
    "softplus": F.softplus, "hard_swish": F.hardswish, "mish": F.mish, "leaky_relu": F.leaky_relu,
    "exp_backward": torch.mul,
    "relu_backward": lambda g, x: aten.threshold_backward(g, x, 0),
    "sigmoid_backward": aten.sigmoid_backward,
    "tanh_backward": aten.tanh_backward,
    "gelu_backward": lambda g, x, approximate="none": aten.gelu_backward(g, x, approximate=approximate),
    "silu_backward": aten.silu_backward,
    "elu_backward": lambda g, x, alpha=1.0: aten.elu_backward(g, alpha, 1, 1, False, x),
    "log_backward": torch.div,
    "reduce_sum": lambda x, axis=None: torch.sum(x) if axis is None else torch.sum(x, axis),
    "reduce_mean": lambda x, axis=None: torch.mean(x) if axis is None else torch.mean(x, axis),
    "reduce_max": torch.amax,
    "argmax": torch.argmax,
    "logsumexp": torch.logsumexp,
    "softmax": lambda x, axis=-1: torch.softmax(x, axis),
    "log_softmax": lambda x, axis=-1: torch.log_softmax(x, axis),
    "softmax_backward": lambda g, y, axis: aten._softmax_backward_data(g, y, axis, y.dtype),
    "log_softmax_backward": lambda g, y, axis: aten._log_softmax_backward_data(g, y, axis, y.dtype),
    "cross_entropy": F.cross_entropy,
    "mse_loss": F.mse_loss,
    "matmul": torch.matmul,
    "matmul_backward": lambda g, lhs, rhs: (torch.matmul(g, rhs.mT), torch.matmul(lhs.mT, g)),
    "linear": lambda x, weight, bias: torch.addmm(bias, x, weight),
    "linear_activation": lambda x, weight, bias, *, activation: getattr(F, activation)(torch.addmm(bias, x, weight)),
    "unfold4d": unfold4d, "fold4d": fold4d, "unfold4d_backward": fold4d, "fold4d_backward": unfold4d,
    "linear_x_backward": lambda weight, g: torch.mm(g, weight.t()),
    "linear_weight_backward": lambda x, g: torch.mm(x.t(), g),
    "linear_bias_backward": lambda g: torch.sum(g, 0),
    "linear_backward": lambda x, weight, g: (torch.mm(g, weight.t()), torch.mm(x.t(), g), torch.sum(g, 0)),
    "pad": pad,
    "grid_sample_2d": grid_sample_2d,
    "grid_sample_2d_backward": grid_sample_2d_backward,
    "embedding": lambda weights, indices: F.embedding(indices, weights),
    "embedding_backward": lambda weights, g, indices: aten.embedding_dense_backward(g, indices, weights.shape[0], -1, False),
    "batch_norm": lambda x, gamma, beta, mean, variance, epsilon: F.batch_norm(x, mean, variance, gamma, beta, eps=epsilon),
    "batch_norm_train": batch_norm_train,
    "layer_norm": lambda x, gamma, beta, epsilon: F.layer_norm(x, (x.shape[-1],), gamma, beta, epsilon),
    "rms_norm": lambda x, gamma, epsilon: F.rms_norm(x, (x.shape[-1],), gamma, epsilon),
    "group_norm": F.group_norm,
    "add_layer_norm": add_layer_norm,
    "add_rms_norm": add_rms_norm,
    "ctc_loss": lambda x, *args: F.ctc_loss(x, *args, "none"),
    "instance_norm": lambda x, gamma, beta, epsilon: F.instance_norm(x, weight=gamma, bias=beta, eps=epsilon),
    "max_pool2d_with_indices_backward": max_pool2d_with_indices_backward,
    "avg_pool2d_backward": avg_pool2d_backward,
    "interpolate": interpolate,
    "interpolate_backward": interpolate_backward,
    "adaptive_avg_pool2d_backward": lambda x, g: aten._adaptive_avg_pool2d_backward(g, x),
    **conv(1), **conv(2), **conv(3), **conv_transpose(1), **conv_transpose(2), **conv_transpose(3),
    **pools(1), **pools(2), **pools(3),
}  # fmt: skip


# ---------------------------------------------------------------- gradients that use what a forward pass keeps


def layer_norm_backward(x, gamma, epsilon, output_grad):
    shape = [x.shape[-1]]
    _, mean, inverse = torch.native_layer_norm(x, shape, gamma, None, epsilon)
    return partial(aten.native_layer_norm_backward, output_grad, x, shape, mean, inverse, gamma, gamma, [True] * 3)


def batch_norm_train_backward(x, gamma, mean, variance, epsilon, output_grad):
    inverse = torch.rsqrt(variance + epsilon)
    return partial(aten.native_batch_norm_backward, output_grad, x, gamma, None, None, mean, inverse, True, epsilon, [True] * 3)


def ctc_loss_backward(x, targets, input_lengths, target_lengths, grad_loss, blank):
    lengths = input_lengths.tolist(), target_lengths.tolist()
    loss, alpha = aten._ctc_loss(x, targets, *lengths, blank, False)
    return partial(aten._ctc_loss_backward, grad_loss, x, targets, *lengths, loss, alpha, blank, False)


def pad_backward(output_grad, pads, *, mode="constant"):
    shape = [n - sum(pair) for n, pair in zip(output_grad.shape, pads, strict=True)]
    with torch.enable_grad():
        x = torch.zeros(shape, dtype=output_grad.dtype).requires_grad_()
        output = pad(x, pads, mode=mode)
    return partial(torch.autograd.grad, output, x, output_grad, retain_graph=True)


# method -> function of its operands that gives the call to be timed
PREPARED = {
    "layer_norm_backward": layer_norm_backward,
    "batch_norm_train_backward": batch_norm_train_backward,
    "ctc_loss_backward": ctc_loss_backward,
    "pad_backward": pad_backward,
}


# ---------------------------------------------------------------- attention


def attention(query, key, value, mask=None, attn_bias=None, *, is_causal=False):
    """torch's, whose causal alignment is ours where there are as many queries as keys; of masks it takes one."""
    grouped = query.shape[1] != key.shape[1]
    return F.scaled_dot_product_attention(query, key, value, attn_bias, is_causal=is_causal, enable_gqa=grouped)


FUNCTIONS["attention"] = attention


# ---------------------------------------------------------------- gradients that have no function of their own


def _group_norm(x, num_groups, gamma, epsilon):
    beta = torch.zeros_like(gamma).requires_grad_()
    return F.group_norm(x, num_groups, gamma, beta, epsilon), (x, gamma, beta)


def _instance_norm(x, gamma, epsilon):
    beta = torch.zeros_like(gamma).requires_grad_()
    return F.instance_norm(x, weight=gamma, bias=beta, eps=epsilon), (x, gamma, beta)


def _linear_activation(x, weight, bias, total, *, activation, x_grad=True):
    return getattr(F, activation)(torch.addmm(bias, x, weight)), (x, weight, bias)


def _conv_activation(n):
    function = FUNCTIONS[f"conv{n}d_activation"]
    return lambda x, weight, bias, total, *, x_grad=True, **options: (function(x, weight, bias, **options), (x, weight, bias))


def _attention(query, key, value, output, logsumexp, mask=None, attn_bias=None, **options):
    leaves = (query, key, value) if attn_bias is None else (query, key, value, attn_bias)
    return attention(query, key, value, mask, attn_bias, **options), leaves


def _add_layer_norm(total, gamma, epsilon, sum_grad=None):
    beta = torch.zeros_like(gamma).requires_grad_()
    return F.layer_norm(total, (total.shape[-1],), gamma, beta, epsilon), (total, total, gamma, beta)


def _add_rms_norm(total, gamma, epsilon, sum_grad=None):
    return F.rms_norm(total, (total.shape[-1],), gamma, epsilon), (total, total, gamma)


def _of_shape(function):
    def forward(shape, **options):
        x = torch.ones(shape).requires_grad_()
        return function(x, **options), (x,)

    return forward


# method -> function of its operands without output_grad that gives (output, leaves), where that is not the forward function
GRAPHS = {
    "attention_backward": _attention,
    "group_norm_backward": _group_norm,
    "linear_activation_backward": _linear_activation,
    **{f"conv{n}d_activation_backward": _conv_activation(n) for n in (1, 2, 3)},
    "add_layer_norm_backward": _add_layer_norm,
    "add_rms_norm_backward": _add_rms_norm,
    "instance_norm_backward": _instance_norm,
    "reduce_sum_backward": _of_shape(FUNCTIONS["reduce_sum"]),
    "reduce_mean_backward": _of_shape(FUNCTIONS["reduce_mean"]),
}


def autograd(method, args, options):
    """The call that differentiates, through a graph that is built once; None when torch has no such forward."""
    output_grad = args["output_grad"]
    operands = [v for k, v in args.items() if k != "output_grad"]
    with torch.enable_grad():
        operands = [v.detach().requires_grad_() if _differentiable(v) else v for v in operands]
        if method in GRAPHS:
            output, leaves = GRAPHS[method](*operands, **options)
        elif method.removesuffix("_backward") in FUNCTIONS:
            output = FUNCTIONS[method.removesuffix("_backward")](*operands, **options)
            leaves = [v for v in operands if _differentiable(v)]
        else:
            return None
    return partial(torch.autograd.grad, output, leaves, output_grad, retain_graph=True)


def _differentiable(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


# ---------------------------------------------------------------- into memory that exists: method -> (call, its result)


def _out(function, name="out"):
    def build(args, options):
        operands = list(args.values())
        result = torch.zeros_like(operands[0])
        return partial(function, *operands, **options, **{name: result}), result

    return build


def _relu_backward(args, options):
    g, x = args.values()
    result = torch.zeros_like(g)
    return partial(aten.threshold_backward.grad_input, g, x, 0, grad_input=result), result


OUT = {
    "add": _out(torch.add),
    "exp": _out(torch.exp),
    "tanh": _out(torch.tanh),
    "sigmoid": _out(torch.sigmoid),
    "gelu": _out(aten.gelu.out),
    "silu": _out(aten.silu.out),
    "relu": _out(aten.relu.out),
    "exp_backward": _out(torch.mul),
    "relu_backward": _relu_backward,
    "sigmoid_backward": _out(aten.sigmoid_backward.grad_input, "grad_input"),
    "tanh_backward": _out(aten.tanh_backward.grad_input, "grad_input"),
    "gelu_backward": _out(aten.gelu_backward.grad_input, "grad_input"),
}
