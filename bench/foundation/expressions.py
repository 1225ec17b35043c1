"""Every operation beside the NumPy expression that it replaces: the demand is not to be slower."""

from functools import partial

import numpy as np

from .workload import Workload, normal, plain

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
GELU_SLOPE, GELU_CUBIC = np.sqrt(2 / np.pi).item(), 0.044715


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


def maximum_grads(g, a, b):
    lhs = g * ((a > b) + 0.5 * (a == b)).astype(g.dtype)
    return lhs, g - lhs


# What a letter of the second column stands for: x y g normal, p positive, s and t outputs of sigmoid and tanh, e of exp.
KINDS = {"p": lambda x: np.abs(x) + np.float32(0.1), "s": sigmoid, "t": np.tanh, "e": np.exp}

# (method, operands, expression, options); all operands have one shape, the last axis is 1000.
ELEMENTWISE = [
    ("add", "xy", lambda x, y: x + y),
    ("sub", "xy", lambda x, y: x - y),
    ("mul", "xy", lambda x, y: x * y),
    ("div", "xp", lambda x, y: x / y),
    ("maximum", "xy", np.maximum),
    ("minimum", "xy", np.minimum),
    ("neg", "x", lambda x: -x),
    ("exp", "x", np.exp),
    ("expm1", "x", np.expm1),
    ("log", "p", np.log),
    ("log1p", "p", np.log1p),
    ("sqrt", "p", np.sqrt),
    ("reciprocal", "p", lambda x: 1 / x),
    ("abs", "x", np.abs),
    ("square", "x", np.square),
    ("relu", "x", lambda x: np.maximum(x, 0)),
    ("leaky_relu", "x", lambda x: np.where(x > 0, x, 0.01 * x)),
    ("elu", "x", lambda x: np.where(x > 0, x, np.expm1(x))),
    ("selu", "x", lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x))),
    ("celu", "x", lambda x: np.where(x > 0, x, np.expm1(x))),
    ("relu6", "x", lambda x: np.clip(x, 0, 6)),
    ("hardtanh", "x", lambda x: np.clip(x, -1, 1)),
    ("sigmoid", "x", sigmoid),
    ("hard_sigmoid", "x", lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    ("log_sigmoid", "x", lambda x: -np.log1p(np.exp(-x))),
    ("tanh", "x", np.tanh),
    ("gelu", "x", gelu_tanh, {"approximate": "tanh"}),
    ("silu", "x", lambda x: x * sigmoid(x)),
    ("mish", "x", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    ("hard_swish", "x", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ("softplus", "x", lambda x: np.log1p(np.exp(x))),
    ("softsign", "x", lambda x: x / (1 + np.abs(x))),
    ("tanhshrink", "x", lambda x: x - np.tanh(x)),
    ("glu", "x", glu),
    ("sub_backward", "gxy", lambda g, x, y: (g.copy(), -g)),
    ("mul_backward", "gxy", lambda g, x, y: (g * y, g * x)),
    ("div_backward", "gxp", lambda g, x, y: (g / y, -g * x / (y * y))),
    ("maximum_backward", "gxy", maximum_grads),
    ("neg_backward", "gx", lambda g, x: np.where(np.isnan(x), x, -g)),  # NaN stays, as in every gradient here
    ("exp_backward", "ge", lambda g, e: g * e),
    ("expm1_backward", "gx", lambda g, x: g * np.exp(x)),
    ("log_backward", "gp", lambda g, x: g / x),
    ("log1p_backward", "gp", lambda g, x: g / (1 + x)),
    ("sqrt_backward", "gp", lambda g, x: g / (2 * np.sqrt(x))),
    ("reciprocal_backward", "gp", lambda g, x: -g / (x * x)),
    ("abs_backward", "gx", lambda g, x: g * np.sign(x)),
    ("square_backward", "gx", lambda g, x: 2 * g * x),
    ("erf_backward", "gx", lambda g, x: g * (2 / np.sqrt(np.pi).item() * np.exp(-x * x))),
    ("relu_backward", "gx", lambda g, x: g * (x > 0)),
    ("leaky_relu_backward", "gx", lambda g, x: np.where(x > 0, g, 0.01 * g)),
    ("elu_backward", "gx", lambda g, x: np.where(x > 0, g, g * np.exp(x))),
    ("selu_backward", "gx", lambda g, x: SELU_SCALE * g * np.where(x > 0, 1, SELU_ALPHA * np.exp(x))),
    ("celu_backward", "gx", lambda g, x: np.where(x > 0, g, g * np.exp(x))),
    ("relu6_backward", "gx", lambda g, x: g * ((x > 0) & (x < 6))),
    ("hardtanh_backward", "gx", lambda g, x: g * ((x > -1) & (x < 1))),
    ("hard_sigmoid_backward", "gx", lambda g, x: 0.2 * g * (np.abs(x) < 2.5)),
    ("log_sigmoid_backward", "gx", lambda g, x: g / (1 + np.exp(x))),
    ("sigmoid_backward", "gs", lambda g, s: g * s * (1 - s)),
    ("tanh_backward", "gt", lambda g, t: g * (1 - t * t)),
    ("gelu_backward", "gx", gelu_tanh_grad, {"approximate": "tanh"}),
    ("silu_backward", "gx", silu_grad),
    ("mish_backward", "gx", mish_grad),
    ("hard_swish_backward", "gx", lambda g, x: g * np.where(np.abs(x) < 3, (2 * x + 3) / 6, x > 0)),
    ("softplus_backward", "gx", lambda g, x: g * sigmoid(x)),
    ("softsign_backward", "gx", lambda g, x: g / np.square(1 + np.abs(x))),
    ("tanhshrink_backward", "gx", lambda g, x: g * np.square(np.tanh(x))),
]


def logsumexp(x, axis=-1):
    highest = x.max(axis, keepdims=True)
    return np.log(np.exp(x - highest).sum(axis)) + highest.squeeze(axis)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x):
    return x - logsumexp(x)[..., np.newaxis]


def cross_entropy(x, targets):
    return -log_softmax(x)[np.arange(len(x)), targets].mean()


def cross_entropy_grad(g, x, targets):
    grad = softmax(x)
    grad[np.arange(len(x)), targets] -= 1
    return grad * (g / len(x))


def largest_grad(g, x):
    grad = np.zeros_like(x)
    np.put_along_axis(grad, x.argmax(-1)[:, np.newaxis], g[:, np.newaxis], axis=-1)
    return grad


def embedding_grad(weights, g, indices):
    grad = np.zeros_like(weights)
    np.add.at(grad, indices, g)
    return grad


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


def windows(x, k, stride):
    """[B, C, OH, OW, k, k], a view."""
    return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::stride, ::stride]


def padded(x, by=1):
    return np.pad(x, ((0, 0), (0, 0), (by, by), (by, by)))


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


def max_pool_grad(x, g):
    return doubled(g) * (x == doubled(pairs(x).max((3, 5))))


# (method, arguments, expression, options); what expression takes is what the method takes, without the fixed arguments.
def shaped(dtype):
    """Operations whose operands have shapes of their own; `fixed` arguments go to the method between its arrays."""
    rng = np.random.default_rng(0)
    labels, tokens = rng.integers(0, 1000, 128), rng.integers(0, 1000, (8, 64))
    image, half, c, eps = (8, 32, 32, 32), (8, 32, 16, 16), 32, 1e-5
    one, rows = np.ones((), dtype), [(128, 1000)]

    def case(method, shapes, expression, call=None, **options):
        return method, normal(shapes, dtype=dtype), expression, call or (lambda f, *a: partial(f, *a, **options))

    def norm_operands(rng):
        x, gamma, g = normal([image, (c,), image], dtype=dtype)(rng)
        return x, gamma, x.mean((0, 2, 3)), x.var((0, 2, 3)), g

    return [
        case("reduce_sum", rows, lambda x: x.sum(-1), axis=-1),
        case("reduce_sum axis 0", rows, lambda x: x.sum(0), axis=0),
        case("reduce_sum all", rows, lambda x: x.sum()),
        case("reduce_mean", rows, lambda x: x.mean(-1), axis=-1),
        case("reduce_mean axis 0", rows, lambda x: x.mean(0), axis=0),
        case("reduce_max", rows, lambda x: x.max(-1), axis=-1),
        case("reduce_max axis 0", rows, lambda x: x.max(0), axis=0),
        case("reduce_min", rows, lambda x: x.min(-1), axis=-1),
        case("argmax", rows, lambda x: x.argmax(-1), axis=-1),
        case("logsumexp", rows, logsumexp, axis=-1),
        case("reduce_sum_backward", [(128,)], lambda g: np.repeat(g[:, np.newaxis], 1000, axis=1),
             lambda f, g: partial(f, g, (128, 1000), axis=-1)),
        case("reduce_mean_backward", [(128,)], lambda g: np.repeat(g[:, np.newaxis] / 1000, 1000, axis=1),
             lambda f, g: partial(f, g, (128, 1000), axis=-1)),
        case("reduce_max_backward", [(128,), (128, 1000)], largest_grad, axis=-1),
        case("logsumexp_backward", [(128,), (128, 1000)], lambda g, x: softmax(x) * g[:, np.newaxis], axis=-1),
        case("softmax", rows, softmax),
        case("log_softmax", rows, log_softmax),
        case("softmax_backward", [(128, 1000)] * 2, lambda g, s: s * (g - (g * s).sum(-1, keepdims=True)), axis=-1),
        case("log_softmax_backward", [(128, 1000)] * 2, lambda g, y: g - np.exp(y) * g.sum(-1, keepdims=True), axis=-1),
        case("cross_entropy", rows, lambda x: cross_entropy(x, labels), lambda f, x: partial(f, x, labels)),
        case("cross_entropy_backward", rows, lambda x: cross_entropy_grad(1, x, labels), lambda f, x: partial(f, one, x, labels)),
        case("mse_loss", rows * 2, lambda x, y: np.square(x - y).mean()),
        case("mse_loss_backward", rows * 2, lambda x, y: (2 / x.size * (x - y), 2 / x.size * (y - x)),
             lambda f, x, y: partial(f, one, x, y)),
        case("add row", [(128, 1000), (1000,)], lambda x, y: x + y),
        case("add_backward row", [(128, 1000), (128, 1000), (1000,)], lambda g, x, y: (g.copy(), g.sum(0))),
        case("mul_backward row", [(128, 1000), (128, 1000), (1000,)], lambda g, x, y: (g * y, (g * x).sum(0))),
        case("prelu", [image, (c,)], lambda x, w: np.where(x > 0, x, channel(w) * x)),
        case("prelu_backward", [image, image, (c,)],
             lambda g, x, w: (np.where(x > 0, g, channel(w) * g), (g * np.minimum(x, 0)).sum((0, 2, 3)))),
        case("linear", [(64, 512), (512, 256), (256,)], lambda x, w, b: x @ w + b),
        case("linear_backward", [(64, 512), (512, 256), (64, 256)], lambda x, w, g: (g @ w.T, x.T @ g, g.sum(0))),
        case("embedding", [(1000, 256)], lambda w: w[tokens], lambda f, w: partial(f, w, tokens)),
        case("embedding_backward", [(1000, 256), (8, 64, 256)], lambda w, g: embedding_grad(w, g, tokens),
             lambda f, w, g: partial(f, w, g, tokens)),
        case("conv2d", [image, (c, c, 3, 3)], conv3x3, padding=1),
        case("conv2d_x_backward", [image, (c, c, 3, 3), image], conv3x3_x_grad, padding=1),
        case("conv2d_weight_backward", [image, (c, c, 3, 3), image], conv3x3_weight_grad, padding=1),
        case("conv2d_bias_backward", [image, (c,), image], lambda x, b, g: g.sum((0, 2, 3))),
        case("conv2d depthwise", [image, (c, 1, 3, 3)], depthwise3x3, padding=1, groups=c),
        case("max_pool2d", [image], lambda x: pairs(x).max((3, 5)), lambda f, x: partial(f, x, 2)),
        case("max_pool2d 3x3 stride 2", [image], lambda x: windows(x, 3, 2).max((4, 5)), lambda f, x: partial(f, x, 3, stride=2)),
        case("max_pool2d_backward", [image, half], max_pool_grad, lambda f, x, g: partial(f, x, g, 2)),
        case("avg_pool2d", [image], lambda x: pairs(x).mean((3, 5)), lambda f, x: partial(f, x, 2)),
        case("avg_pool2d_backward", [image, half], lambda x, g: doubled(g) / 4, lambda f, x, g: partial(f, x, g, 2)),
        case("adaptive_avg_pool2d", [image], lambda x: x.mean((2, 3), keepdims=True), lambda f, x: partial(f, x, 1)),
        case("adaptive_max_pool2d", [image], lambda x: x.max((2, 3), keepdims=True), lambda f, x: partial(f, x, 1)),
        case("batch_norm", [image, (c,), (c,), (c,)], lambda x, s, b, m: batch_norm(x, s, b, m, m * m),
             lambda f, x, s, b, m: partial(f, x, s, b, m, m * m, eps)),
        case("batch_norm_train", [image, (c,), (c,)], batch_norm_train, lambda f, x, s, b: partial(f, x, s, b, eps)),
        ("batch_norm_train_backward", norm_operands, batch_norm_train_grads,
         lambda f, x, s, m, v, g: partial(f, x, s, m, v, eps, g)),
        case("layer_norm", [(128, 1000), (1000,), (1000,)], layer_norm),
        case("layer_norm_backward", [(128, 1000), (1000,), (128, 1000)], layer_norm_grads,
             lambda f, x, s, g: partial(f, x, s, eps, g)),
    ]  # fmt: skip


def elementwise_workload(method, letters, expression, options=None, *, rows, dtype):
    def operands(rng):
        arrays = normal([(rows, 1000)] * len(letters), dtype=dtype)(rng)
        arrays = [KINDS.get(letter, np.array)(x) for letter, x in zip(letters, arrays, strict=True)]
        if method == "glu_backward":
            arrays[0] = np.ascontiguousarray(arrays[0][:, :500])
        return tuple(arrays)

    return Workload(
        name=f"{method} {rows}000 {np.dtype(dtype).name}",
        operands=operands,
        ours=lambda ops, *a: partial(getattr(ops, method), *a, **(options or {})),
        peers={"numpy": plain(expression)},
        reference=expression,
        tolerance=tolerance(dtype),
        bytes=(len(letters) + 1) * rows * 1000 * np.dtype(dtype).itemsize,
        demand={"numpy": 1.0},
    )


def shaped_workload(name, operands, expression, call, *, dtype):
    return Workload(
        name=f"{name} {np.dtype(dtype).name}",
        operands=operands,
        ours=lambda ops, *a: call(getattr(ops, name.split()[0]), *a),
        peers={"numpy": plain(expression)},
        reference=expression,
        tolerance=tolerance(dtype),
        demand={"numpy": 1.0},
    )


def tolerance(dtype):
    return 1e-4 if np.dtype(dtype) == np.float32 else 1e-11


def workloads():
    glu_backward = ("glu_backward", "gx", glu_grad)
    for dtype, rows in ((np.float32, 100), (np.float32, 4000), (np.float64, 100)):
        for row in [*ELEMENTWISE, glu_backward]:
            yield elementwise_workload(*row, rows=rows, dtype=dtype)
    for dtype in (np.float32, np.float64):
        for row in shaped(dtype):
            yield shaped_workload(*row, dtype=dtype)
