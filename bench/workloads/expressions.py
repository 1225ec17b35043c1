"""Every operation that a NumPy expression can replace, with that expression: an operation must not be slower than it.

An expression takes the arrays that its method takes, in that order.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from table.conv import make as convolution  # after operations, which makes it importable

from ..operations import METHODS, Call
from .base import normal, operation
from .matmul import dense, lookup
from .norm import channels, rows
from .pool import window
from .reduce import logits, over, targets

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
GELU_SLOPE, GELU_CUBIC = np.sqrt(2 / np.pi).item(), 0.044715

# ---------------------------------------------------------------- elementwise


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(GELU_SLOPE * (x + GELU_CUBIC * x * x * x)))


def gelu_tanh_grad(g, x):
    t = np.tanh(GELU_SLOPE * (x + GELU_CUBIC * x * x * x))
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU_SLOPE * (1 + 3 * GELU_CUBIC * x * x))


def mish_grad(g, x):
    t = np.tanh(np.log1p(np.exp(x)))
    return g * (t + x * (1 - t * t) * sigmoid(x))


def silu_grad(g, x):
    s = sigmoid(x)
    return g * s * (1 + x * (1 - s))


def glu(x):
    a, b = np.split(x, 2, axis=-1)
    return a * sigmoid(b)


def glu_grad(g, x):
    a, b = np.split(x, 2, axis=-1)
    s = sigmoid(b)
    return np.concatenate([g * s, g * a * s * (1 - s)], axis=-1)


def share_of_ties(over, g, a, b):
    lhs = g * (over(a, b) + 0.5 * (a == b)).astype(g.dtype)
    return lhs, g - lhs


def anywhere(x):
    return x


def positive(x):
    return np.abs(x) + 0.1


# operation: (what its last operand is made of, the expression, that of its gradient, options)
UNARY = {
    # NaN stays, as in every gradient here
    "neg": (anywhere, lambda x: -x, lambda g, x: np.where(np.isnan(x), x, -g)),
    "exp": (anywhere, np.exp, lambda g, y: g * y),
    "expm1": (anywhere, np.expm1, lambda g, x: g * np.exp(x)),
    "log": (positive, np.log, lambda g, x: g / x),
    "log1p": (positive, np.log1p, lambda g, x: g / (1 + x)),
    "sqrt": (positive, np.sqrt, lambda g, x: g / (2 * np.sqrt(x))),
    "reciprocal": (positive, lambda x: 1 / x, lambda g, x: -g / (x * x)),
    "abs": (anywhere, np.abs, lambda g, x: g * np.sign(x)),
    "square": (anywhere, np.square, lambda g, x: 2 * g * x),
    "erf": (anywhere, None, lambda g, x: g * (2 / np.sqrt(np.pi).item() * np.exp(-x * x))),
    "relu": (anywhere, lambda x: np.maximum(x, 0), lambda g, x: g * (x > 0)),
    "leaky_relu": (anywhere, lambda x: np.where(x > 0, x, 0.01 * x), lambda g, x: np.where(x > 0, g, 0.01 * g)),
    "elu": (anywhere, lambda x: np.where(x > 0, x, np.expm1(x)), lambda g, x: np.where(x > 0, g, g * np.exp(x))),
    "selu": (
        anywhere, lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x)),
        lambda g, x: SELU_SCALE * g * np.where(x > 0, 1, SELU_ALPHA * np.exp(x)),
    ),
    "celu": (anywhere, lambda x: np.where(x > 0, x, np.expm1(x)), lambda g, x: np.where(x > 0, g, g * np.exp(x))),
    "relu6": (anywhere, lambda x: np.clip(x, 0, 6), lambda g, x: g * ((x > 0) & (x < 6))),
    "hardtanh": (anywhere, lambda x: np.clip(x, -1, 1), lambda g, x: g * ((x > -1) & (x < 1))),
    "sigmoid": (anywhere, sigmoid, lambda g, s: g * s * (1 - s)),
    "hard_sigmoid": (anywhere, lambda x: np.clip(0.2 * x + 0.5, 0, 1), lambda g, x: 0.2 * g * (np.abs(x) < 2.5)),
    "log_sigmoid": (anywhere, lambda x: -np.log1p(np.exp(-x)), lambda g, x: g / (1 + np.exp(x))),
    "tanh": (anywhere, np.tanh, lambda g, t: g * (1 - t * t)),
    "gelu": (anywhere, gelu_tanh, gelu_tanh_grad, {"approximate": "tanh"}),
    "silu": (anywhere, lambda x: x * sigmoid(x), silu_grad),
    "mish": (anywhere, lambda x: x * np.tanh(np.log1p(np.exp(x))), mish_grad),
    "hard_swish": (
        anywhere, lambda x: x * np.clip(x + 3, 0, 6) / 6, lambda g, x: g * np.where(np.abs(x) < 3, (2 * x + 3) / 6, x > 0),
    ),
    "softplus": (anywhere, lambda x: np.log1p(np.exp(x)), lambda g, x: g * sigmoid(x)),
    "softsign": (anywhere, lambda x: x / (1 + np.abs(x)), lambda g, x: g / np.square(1 + np.abs(x))),
    "tanhshrink": (anywhere, lambda x: x - np.tanh(x), lambda g, x: g * np.square(np.tanh(x))),
    "glu": (anywhere, glu, glu_grad),
}  # fmt: skip

PAIRS = {
    "add": (anywhere, np.add, None),
    "sub": (anywhere, np.subtract, lambda g, x, y: (g.copy(), -g)),
    "mul": (anywhere, np.multiply, lambda g, x, y: (g * y, g * x)),
    "div": (positive, np.divide, lambda g, x, y: (g / y, -g * x / (y * y))),
    "maximum": (anywhere, np.maximum, partial(share_of_ties, np.greater)),
    "minimum": (anywhere, np.minimum, partial(share_of_ties, np.less)),
}

# ---------------------------------------------------------------- reductions, losses, products


def logsumexp(x):
    highest = x.max(-1, keepdims=True)
    return np.log(np.exp(x - highest).sum(-1)) + highest.squeeze(-1)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x):
    return x - logsumexp(x)[..., np.newaxis]


def cross_entropy(x, labels):
    return -log_softmax(x)[np.arange(len(x)), labels].mean()


def cross_entropy_grad(g, x, labels):
    grad = softmax(x)
    grad[np.arange(len(x)), labels] -= 1
    return grad * (g / len(x))


def mse_grads(g, x, y):
    grad = (2 * g / x.size) * (x - y)
    return grad, -grad


def place_of_largest(g, x):
    grad = np.zeros_like(x)
    np.put_along_axis(grad, x.argmax(-1)[:, np.newaxis], g[:, np.newaxis], axis=-1)
    return grad


def embedding_grad(weights, g, indices):
    grad = np.zeros_like(weights)
    np.add.at(grad, indices, g)
    return grad


# ---------------------------------------------------------------- images


def channel(v):
    return v[:, np.newaxis, np.newaxis]


def batch_norm(x, gamma, beta, mean, variance):
    scale = gamma / np.sqrt(variance + 1e-5)
    return x * channel(scale) + channel(beta - mean * scale)


def batch_norm_train(x, gamma, beta):
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    return batch_norm(x, gamma, beta, mean, variance), mean, variance


def batch_norm_train_grads(x, gamma, mean, variance, g):
    n = x.size // x.shape[1]
    scale = 1 / np.sqrt(variance + 1e-5)
    normalised = (x - channel(mean)) * channel(scale)
    beta_grad, gamma_grad = g.sum((0, 2, 3)), (g * normalised).sum((0, 2, 3))
    x_grad = channel(gamma * scale) * (g - channel(beta_grad) / n - normalised * channel(gamma_grad) / n)
    return x_grad, gamma_grad, beta_grad


def layer_norm(x, gamma, beta):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def layer_norm_grads(x, gamma, g):
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    normalised, h = centred * scale, g * gamma
    x_grad = scale * (h - h.mean(-1, keepdims=True) - normalised * (h * normalised).mean(-1, keepdims=True))
    return x_grad, (g * normalised).sum(0), g.sum(0)


def prelu_grads(g, x, weight):
    return np.where(x > 0, g, channel(weight) * g), (g * np.minimum(x, 0)).sum((0, 2, 3))


def windows(x, k, stride):
    """[B, C, OH, OW, k, k], a view."""
    return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::stride, ::stride]


def padded(x):
    return np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))


def conv3x3(x, weight):
    return np.moveaxis(np.tensordot(windows(padded(x), 3, 1), weight, ([1, 4, 5], [1, 2, 3])), -1, 1)


def conv3x3_x_grad(x, weight, g):
    return conv3x3(g, weight[:, :, ::-1, ::-1].swapaxes(0, 1))


def conv3x3_weight_grad(x, weight, g):
    return np.tensordot(g, windows(padded(x), 3, 1), ([0, 2, 3], [0, 2, 3]))


def depthwise3x3(x, weight):
    p, (h, w) = padded(x), x.shape[2:]
    return sum(p[:, :, i : i + h, j : j + w] * channel(weight[:, 0, i, j]) for i in range(3) for j in range(3))


def pairs(x):
    """[B, C, H / 2, 2, W / 2, 2], a view."""
    b, c, h, w = x.shape
    return x.reshape(b, c, h // 2, 2, w // 2, 2)


def doubled(x):
    return x.repeat(2, axis=2).repeat(2, axis=3)


# ---------------------------------------------------------------- all of them

IMAGE, FILTERS = (8, 32, 32, 32), (8, 32, 32, (32, 32), (3, 3))  # batch, channels in and out, sides, kernel


def weighed(rng):
    return Call({"x": normal(rng, *IMAGE), "weight": normal(rng, IMAGE[1])})


def row_of(rng):
    return Call({"lhs": normal(rng, 128, 1000), "rhs": normal(rng, 1000)})


def filters(bias=False, **options):
    return lambda rng: convolution(rng, *FILTERS, bias=bias, padding=1, **options)


# (operation, label, operands of the forward call, {method: expression})
SHAPED = [
    ("reduce_sum", "last", over((128, 1000), axis=-1), {
        "reduce_sum": lambda x: x.sum(-1), "reduce_sum_backward": lambda g: np.repeat(g[:, np.newaxis], 1000, axis=1)}),
    ("reduce_sum", "first", over((128, 1000), axis=0), {"reduce_sum": lambda x: x.sum(0)}),
    ("reduce_sum", "all", over((128, 1000)), {"reduce_sum": np.sum}),
    ("reduce_mean", "last", over((128, 1000), axis=-1), {
        "reduce_mean": lambda x: x.mean(-1), "reduce_mean_backward": lambda g: np.repeat(g[:, np.newaxis] / 1000, 1000, axis=1)}),
    ("reduce_mean", "first", over((128, 1000), axis=0), {"reduce_mean": lambda x: x.mean(0)}),
    ("reduce_max", "last", over((128, 1000), axis=-1), {
        "reduce_max": lambda x: x.max(-1), "reduce_max_backward": place_of_largest}),
    ("reduce_max", "first", over((128, 1000), axis=0), {"reduce_max": lambda x: x.max(0)}),
    ("reduce_min", "last", over((128, 1000), axis=-1), {"reduce_min": lambda x: x.min(-1)}),
    ("argmax", "last", over((128, 1000), axis=-1), {"argmax": lambda x: x.argmax(-1)}),
    ("logsumexp", "last", over((128, 1000), axis=-1), {
        "logsumexp": logsumexp, "logsumexp_backward": lambda g, x: softmax(x) * g[:, np.newaxis]}),
    ("softmax", "last", over((128, 1000)), {
        "softmax": softmax, "softmax_backward": lambda g, s: s * (g - (g * s).sum(-1, keepdims=True))}),
    ("log_softmax", "last", over((128, 1000)), {
        "log_softmax": log_softmax, "log_softmax_backward": lambda g, y: g - np.exp(y) * g.sum(-1, keepdims=True)}),
    ("cross_entropy", "128x1000", logits(128, 1000), {
        "cross_entropy": cross_entropy, "cross_entropy_backward": cross_entropy_grad}),
    ("mse_loss", "128000", targets(128_000), {
        "mse_loss": lambda x, y: np.square(x - y).mean(), "mse_loss_backward": mse_grads}),
    ("add", "row", row_of, {"add": np.add, "add_backward": lambda g, x, y: (g.copy(), g.sum(0))}),
    ("mul", "row", row_of, {"mul_backward": lambda g, x, y: (g * y, (g * x).sum(0))}),
    ("prelu", "channels", weighed, {"prelu": lambda x, w: np.where(x > 0, x, channel(w) * x), "prelu_backward": prelu_grads}),
    ("linear", "64x512x256", dense(64, 512, 256), {
        "linear": lambda x, w, b: x @ w + b, "linear_backward": lambda x, w, g: (g @ w.T, x.T @ g, g.sum(0))}),
    ("embedding", "512of1000x256", lookup(1000, 256, 512), {
        "embedding": lambda w, i: w[i], "embedding_backward": embedding_grad}),
    ("conv2d", "3x3", filters(bias=True), {"conv2d_bias_backward": lambda x, b, g: g.sum((0, 2, 3))}),
    ("conv2d", "3x3", filters(), {
        "conv2d": conv3x3, "conv2d_x_backward": conv3x3_x_grad, "conv2d_weight_backward": conv3x3_weight_grad}),
    ("conv2d", "depthwise-3x3", filters(groups=32), {"conv2d": depthwise3x3}),
    ("max_pool2d", "2x2", window(IMAGE, 2), {
        "max_pool2d": lambda x: pairs(x).max((3, 5)),
        "max_pool2d_backward": lambda x, g: doubled(g) * (x == doubled(pairs(x).max((3, 5))))}),
    ("max_pool2d", "3x3s2", window(IMAGE, 3, stride=2), {"max_pool2d": lambda x: windows(x, 3, 2).max((4, 5))}),
    ("avg_pool2d", "2x2", window(IMAGE, 2), {
        "avg_pool2d": lambda x: pairs(x).mean((3, 5)), "avg_pool2d_backward": lambda x, g: doubled(g) / 4}),
    ("adaptive_avg_pool2d", "whole", window(IMAGE, 1, "output_size"), {
        "adaptive_avg_pool2d": lambda x: x.mean((2, 3), keepdims=True)}),
    ("adaptive_max_pool2d", "whole", window(IMAGE, 1, "output_size"), {
        "adaptive_max_pool2d": lambda x: x.max((2, 3), keepdims=True)}),
    ("batch_norm", "8x32x32x32", channels(IMAGE, given=True), {"batch_norm": batch_norm}),
    ("batch_norm_train", "8x32x32x32", channels(IMAGE), {
        "batch_norm_train": batch_norm_train, "batch_norm_train_backward": batch_norm_train_grads}),
    ("layer_norm", "128x1000", rows((128, 1000)), {"layer_norm": layer_norm, "layer_norm_backward": layer_norm_grads}),
]  # fmt: skip


def elementwise(names, shape, prepare):
    def make(rng):
        drawn = {name: normal(rng, *shape) for name in names}
        drawn[names[-1]] = prepare(drawn[names[-1]])
        return Call(drawn)

    return make


def with_expressions(op, label, make, expressions, dtype):
    row = METHODS[op][0]
    gradients = [g.name for g in row.gradients if g.name in expressions]
    made = operation("expression", op, label, make, gradients=gradients, forward=op in expressions, dtype=dtype)
    return [replace(workload, expression=expressions[workload.method]) for workload in made]


def every():
    for dtype, count in (("float32", 100), ("float32", 4000), ("float64", 100)):
        shape = (count, 1000)
        for table, names in ((UNARY, ("x",)), (PAIRS, ("lhs", "rhs"))):
            for op, (prepare, forward, gradient, *options) in table.items():
                drawn = elementwise(names, shape, prepare)
                make = (lambda rng, drawn=drawn, more=options[0]: replace(drawn(rng), options=more)) if options else drawn
                expressions = {m: e for m, e in ((op, forward), (f"{op}_backward", gradient)) if e is not None}
                yield from with_expressions(op, f"{count}x1000", make, expressions, dtype)
    for dtype in ("float32", "float64"):
        for op, label, make, expressions in SHAPED:
            yield from with_expressions(op, label, make, expressions, dtype)


WORKLOADS = list(every())
