"""cpuops's methods as JAX functions of their array operands; every other operand and option is a constant."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["function_of"]


def per_axis(value, n):
    return tuple(value) if isinstance(value, tuple | list) else (value,) * n


def conv(x, weight, *, stride=1, padding=0, dilation=1, groups=1):
    n = x.ndim - 2
    pads = [(p, p) for p in per_axis(padding, n)]
    strides, dilations = per_axis(stride, n), per_axis(dilation, n)
    return lax.conv_general_dilated(x, weight, strides, pads, rhs_dilation=dilations, feature_group_count=groups)


def windows(x, size, stride, padding):
    n = x.ndim - 2
    kernel = per_axis(size, n)
    steps = kernel if stride is None else per_axis(stride, n)
    return (1, 1, *kernel), (1, 1, *steps), ((0, 0), (0, 0), *((p, p) for p in per_axis(padding, n)))


def max_pool(x, size, *, stride=None, padding=0):
    return lax.reduce_window(x, -jnp.inf, lax.max, *windows(x, size, stride, padding))


def avg_pool(x, size, *, stride=None, padding=0):
    shape, steps, pads = windows(x, size, stride, padding)
    return lax.reduce_window(x, 0.0, lax.add, shape, steps, pads) / math.prod(shape)


def across(values, x):
    return values.reshape((1, -1) + (1,) * (x.ndim - 2))


def batch_norm(x, gamma, beta, mean, variance, epsilon):
    return (x - across(mean, x)) * across(gamma * lax.rsqrt(variance + epsilon), x) + across(beta, x)


def batch_norm_train(x, gamma, beta, epsilon):
    axes = (0, *range(2, x.ndim))
    mean, variance = x.mean(axes), x.var(axes)
    return batch_norm(x, gamma, beta, mean, variance, epsilon), mean, variance


def layer_norm(x, gamma, beta, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + epsilon) * gamma + beta


def rms_norm(x, gamma, epsilon):
    return x * lax.rsqrt((x**2).mean(-1, keepdims=True) + epsilon) * gamma


def group_norm(x, num_groups, gamma, beta, epsilon):
    rows = x.reshape(x.shape[0], num_groups, -1)
    centred = rows - rows.mean(-1, keepdims=True)
    normal = (centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + epsilon)).reshape(x.shape)
    return normal * across(gamma, x) + across(beta, x)


def instance_norm(x, gamma, beta, epsilon):
    return group_norm(x, x.shape[1], gamma, beta, epsilon)


def cross_entropy(logits, targets):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[:, None], 1).mean()


FORWARD = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "div": jnp.divide, "maximum": jnp.maximum, "minimum": jnp.minimum,
    "neg": jnp.negative, "exp": jnp.exp, "log": jnp.log, "sqrt": jnp.sqrt, "erf": jax.scipy.special.erf, "relu": jax.nn.relu,
    "sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh, "silu": jax.nn.silu, "elu": jax.nn.elu,
    "gelu": lambda x, approximate="none": jax.nn.gelu(x, approximate=approximate == "tanh"),
    "reduce_sum": jnp.sum, "reduce_mean": jnp.mean, "reduce_max": jnp.max, "argmax": jnp.argmax,
    "logsumexp": lambda x, axis=None: jax.scipy.special.logsumexp(x, axis),
    "softmax": lambda x, axis=-1: jax.nn.softmax(x, axis), "log_softmax": lambda x, axis=-1: jax.nn.log_softmax(x, axis),
    "cross_entropy": cross_entropy, "mse_loss": lambda input, target: jnp.square(input - target).mean(),
    "matmul": jnp.matmul, "linear": lambda x, weight, bias: x @ weight + bias,
    "embedding": lambda weights, indices: weights[indices],
    "batch_norm": batch_norm, "batch_norm_train": batch_norm_train,
    "layer_norm": layer_norm, "rms_norm": rms_norm, "group_norm": group_norm, "instance_norm": instance_norm,
    **{f"conv{n}d": conv for n in (1, 2, 3)},
    **{f"max_pool{n}d": max_pool for n in (1, 2, 3)},
    **{f"avg_pool{n}d": avg_pool for n in (1, 2, 3)},
}  # fmt: skip

# gradients that take the result, or are products: functions of the operands in their order
DIRECT = {
    "linear_x_backward": lambda weight, output_grad: output_grad @ weight.T,
    "linear_weight_backward": lambda x, output_grad: x.T @ output_grad,
    "linear_bias_backward": lambda output_grad: output_grad.sum(0),
    "linear_backward": lambda x, weight, output_grad: (output_grad @ weight.T, x.T @ output_grad, output_grad.sum(0)),
    "exp_backward": lambda output_grad, output: output_grad * output,
    "tanh_backward": lambda output_grad, output: output_grad * (1 - output * output),
    "sigmoid_backward": lambda output_grad, output: output_grad * output * (1 - output),
    "softmax_backward": lambda output_grad, output, axis: (
        output * (output_grad - (output_grad * output).sum(axis, keepdims=True))
    ),
    "log_softmax_backward": lambda output_grad, output, axis: (
        output_grad - jnp.exp(output) * output_grad.sum(axis, keepdims=True)
    ),
}


def function_of(method, args, options):
    """(function, array operands) of a workload, or None."""
    constants = {k: v for k, v in args.items() if not isinstance(v, np.ndarray)}
    arrays = {k: v for k, v in args.items() if isinstance(v, np.ndarray)}
    if method in DIRECT:
        return lambda *values: DIRECT[method](*values, **options), list(arrays.values())
    if method in FORWARD:
        names = list(args)

        def forward(*values):
            given = dict(zip(arrays, values, strict=True)) | constants
            return FORWARD[method](*(given[n] for n in names), **options)

        return forward, list(arrays.values())
    return _gradient(method, arrays, constants, options)


# suffix of a gradient's name -> the operands it is by, where not all floating ones
PARTS = {"_x_backward": ("x",), "_weight_backward": ("weight",)}
WITH_BETA = ("group_norm", "instance_norm", "batch_norm_train", "layer_norm")


def _gradient(method, arrays, constants, options):
    suffix = next((s for s in PARTS if method.endswith(s)), "_backward")
    operation = method.removesuffix(suffix)
    if operation not in FORWARD or "output_grad" not in arrays or not method.endswith("_backward"):
        return None
    operands = {k: v for k, v in arrays.items() if k not in ("output_grad", "mean", "variance")}
    if "original_shape" in constants:
        constants = dict(constants)
        operands = {"x": np.ones(constants.pop("original_shape"), arrays["output_grad"].dtype)}
    if operation in WITH_BETA:  # which its gradient does not read
        operands["beta"] = np.zeros_like(operands["gamma"])
    wanted = PARTS.get(suffix) or tuple(k for k, v in operands.items() if v.dtype.kind == "f")
    order = [k for k in ("x", "num_groups", "gamma", "beta", "epsilon") if k in operands or k in constants]
    order += [k for k in (*operands, *constants) if k not in order]

    def gradient(output_grad, *values):
        given = dict(zip(operands, values, strict=True))

        def forward(*differentiated):
            known = given | constants | dict(zip(wanted, differentiated, strict=True))
            result = FORWARD[operation](*(known[k] for k in order), **options)
            return result[0] if isinstance(result, tuple) else result

        _, pull = jax.vjp(forward, *(given[k] for k in wanted))
        return pull(output_grad)

    return gradient, [arrays["output_grad"], *operands.values()]
