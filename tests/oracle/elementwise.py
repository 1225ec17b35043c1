"""Elementwise operations and activations: the function, and beneath it its derivative."""

import math

import numpy as np

SELU_SCALE = 1.0507009873554804934193349852946
SELU_ALPHA = 1.6732632423543772848170429916717

erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def quiet(function):
    """Compute infinities and NaN without warnings."""

    def wrapped(*args, **options):
        with np.errstate(all="ignore"):
            return function(*args, **options)

    wrapped.__name__ = function.__name__
    return wrapped


def keep_nan(x, values):
    """Put NaN wherever x is NaN, which comparisons alone would lose."""
    return np.where(np.isnan(x), np.nan, values)


# ---------------------------------------------------------------- two operands


def unbroadcast(grad, shape):
    """Sum grad over the axes along which an operand of that shape was repeated."""
    grad = grad.sum(tuple(range(grad.ndim - len(shape))))
    for axis, length in enumerate(shape):
        if length == 1 and grad.shape[axis] != 1:
            grad = grad.sum(axis, keepdims=True)
    return grad.reshape(shape)


def pair_backward(lhs_slope, rhs_slope):
    """Gradient of an operation of two operands from its two partial derivatives."""

    @quiet
    def backward(output_grad, lhs, rhs):
        a, b = np.broadcast_arrays(lhs, rhs)
        return (
            unbroadcast(output_grad * lhs_slope(a, b), np.shape(lhs)),
            unbroadcast(output_grad * rhs_slope(a, b), np.shape(rhs)),
        )

    return backward


def half_on_ties(won):
    """1 where the operand won, 1/2 where both are equal."""
    return lambda a, b: np.where(a == b, 0.5, won(a, b).astype(np.float64))


add = quiet(lambda lhs, rhs: np.add(lhs, rhs))
sub = quiet(lambda lhs, rhs: np.subtract(lhs, rhs))
mul = quiet(lambda lhs, rhs: np.multiply(lhs, rhs))
div = quiet(lambda lhs, rhs: np.divide(lhs, rhs))
maximum = quiet(lambda lhs, rhs: np.maximum(lhs, rhs))
minimum = quiet(lambda lhs, rhs: np.minimum(lhs, rhs))

add_backward = pair_backward(lambda a, b: np.ones_like(a), lambda a, b: np.ones_like(a))
sub_backward = pair_backward(lambda a, b: np.ones_like(a), lambda a, b: -np.ones_like(a))
mul_backward = pair_backward(lambda a, b: b, lambda a, b: a)
div_backward = pair_backward(lambda a, b: 1 / b, lambda a, b: -a / b**2)
maximum_backward = pair_backward(half_on_ties(np.greater), half_on_ties(np.less))
minimum_backward = pair_backward(half_on_ties(np.less), half_on_ties(np.greater))


# ---------------------------------------------------------------- one operand: name -> (function, derivative)


def sigmoid_of(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def softplus_of(x, beta=1.0):
    t = beta * x
    return (np.maximum(t, 0) + np.log1p(np.exp(-np.abs(t)))) / beta


def normal_density(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def normal_cdf(x):
    return erfc(-x / math.sqrt(2)) / 2


def gelu_inner(x):
    """u and du/dx of the tanh form x·(1 + tanh u)/2."""
    c = math.sqrt(2 / math.pi)
    return c * (x + 0.044715 * x**3), c * (1 + 3 * 0.044715 * x**2)


def gelu_of(x, approximate="none"):
    """x Φ(x), or its approximation by a hyperbolic tangent."""
    if approximate == "none":
        return np.where(x == -np.inf, -0.0, x * normal_cdf(x))
    u, _ = gelu_inner(x)
    return np.where(x == -np.inf, -0.0, x * sigmoid_of(2 * u))


def gelu_slope(x, approximate="none"):
    if approximate == "none":
        return normal_cdf(x) + x * normal_density(x)
    u, du = gelu_inner(x)
    s = sigmoid_of(2 * u)
    return s + x * 2 * s * sigmoid_of(-2 * u) * du


def silu_of(x):
    return np.where(x == -np.inf, -0.0, x * sigmoid_of(x))


def mish_of(x):
    return x * np.tanh(softplus_of(x))


def mish_slope(x):
    t = np.tanh(softplus_of(x))
    return t + x * (1 - t * t) * sigmoid_of(x)


UNARY = {
    "neg": (lambda x: -x, lambda x: np.full_like(x, -1.0)),
    "exp": (np.exp, np.exp),
    "expm1": (np.expm1, np.exp),
    "log": (np.log, lambda x: 1 / x),
    "log1p": (np.log1p, lambda x: 1 / (1 + x)),
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    "reciprocal": (lambda x: 1 / x, lambda x: -1 / (x * x)),
    "abs": (np.abs, np.sign),
    "square": (lambda x: x * x, lambda x: 2 * x),
    "erf": (erf, lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x)),
    "relu": (lambda x: np.maximum(x, 0), lambda x: np.where(x > 0, 1.0, 0.0)),
    "leaky_relu": (
        lambda x, negative_slope=0.01: np.where(x > 0, x, negative_slope * x),
        lambda x, negative_slope=0.01: np.where(x > 0, 1.0, negative_slope),
    ),
    "elu": (
        lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)),
        lambda x, alpha=1.0: np.where(x > 0, 1.0, alpha * np.exp(x)),
    ),
    "selu": (
        lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x)),
        lambda x: SELU_SCALE * np.where(x > 0, 1.0, SELU_ALPHA * np.exp(x)),
    ),
    "celu": (
        lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
        lambda x, alpha=1.0: np.where(x > 0, 1.0, np.exp(x / alpha)),
    ),
    "relu6": (lambda x: np.clip(x, 0, 6), lambda x: np.where((x > 0) & (x < 6), 1.0, 0.0)),
    "hardtanh": (
        lambda x, min=-1.0, max=1.0: np.clip(x, min, max),
        lambda x, min=-1.0, max=1.0: np.where((x > min) & (x < max), 1.0, 0.0),
    ),
    "sigmoid": (sigmoid_of, lambda x: sigmoid_of(x) * sigmoid_of(-x)),
    "hard_sigmoid": (
        lambda x, alpha=0.2, beta=0.5: np.clip(alpha * x + beta, 0, 1),
        lambda x, alpha=0.2, beta=0.5: np.where((alpha * x + beta > 0) & (alpha * x + beta < 1), alpha, 0.0),
    ),
    "log_sigmoid": (lambda x: -softplus_of(-x), lambda x: sigmoid_of(-x)),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "gelu": (gelu_of, gelu_slope),
    "silu": (silu_of, lambda x: sigmoid_of(x) * (1 + x * sigmoid_of(-x))),
    "mish": (mish_of, mish_slope),
    "hard_swish": (
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        lambda x: np.where(x <= -3, 0.0, np.where(x >= 3, 1.0, (2 * x + 3) / 6)),
    ),
    "softplus": (softplus_of, lambda x, beta=1.0: sigmoid_of(beta * x)),
    "softsign": (lambda x: x / (1 + np.abs(x)), lambda x: 1 / (1 + np.abs(x)) ** 2),
    "tanhshrink": (lambda x: x - np.tanh(x), lambda x: np.tanh(x) ** 2),
}

# gradients that take the function's result in place of its operand
FROM_OUTPUT = {
    "sigmoid": lambda s: s * (1 - s),
    "tanh": lambda t: 1 - t * t,
    "exp": lambda e: e,
}


def forward_of(function):
    return quiet(lambda x, **options: keep_nan(x, function(np.asarray(x), **options)))


def backward_of(slope):
    return quiet(lambda output_grad, x, **options: keep_nan(x, output_grad * slope(np.asarray(x), **options)))


for _name, (_function, _slope) in UNARY.items():
    globals()[_name] = forward_of(_function)
    globals()[_name + "_backward"] = backward_of(FROM_OUTPUT.get(_name, _slope))
# a subgradient of 0 is exact, also where an infinite gradient arrives
relu_backward = quiet(lambda output_grad, x: keep_nan(x, np.where(x > 0, output_grad, 0.0)))


def per_channel(weight, x):
    """Shape a weight of one value, or of one value for each channel (axis 1), so that it meets x."""
    return weight.reshape(()) if weight.size == 1 else weight.reshape((-1,) + (1,) * (x.ndim - 2))


@quiet
def prelu(x, weight):
    """x where x > 0, else weight·x."""
    return keep_nan(x, np.where(x > 0, x, per_channel(weight, x) * x))


@quiet
def prelu_backward(output_grad, x, weight):
    """Gradients to x and weight."""
    x_grad = keep_nan(x, output_grad * np.where(x > 0, 1.0, per_channel(weight, x)))
    terms = keep_nan(x, output_grad * np.where(x > 0, 0.0, x))
    if weight.size == 1:
        return x_grad, terms.sum().reshape(weight.shape)
    return x_grad, terms.sum(tuple(a for a in range(x.ndim) if a != 1))


@quiet
def glu(x, *, axis=-1):
    """First half times the sigmoid of the second half."""
    a, b = np.split(x, 2, axis)
    return a * sigmoid_of(b)


@quiet
def glu_backward(output_grad, x, *, axis=-1):
    """Gradient to x."""
    a, b = np.split(x, 2, axis)
    s = sigmoid_of(b)
    return np.concatenate([output_grad * s, output_grad * a * s * sigmoid_of(-b)], axis)
