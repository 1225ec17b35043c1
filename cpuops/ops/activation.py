"""Activations: elementwise functions, with and without options."""

import numpy as np

from .. import _check
from ..errors import ArgumentError, message, shown
from .elementwise import DERIVATIVES, UNARY, unary_gradient, unary_method


def _hardtanh_range(op, low, high):
    low, high = (_check.number(op, n, v, finite=False) for n, v in (("min", low), ("max", high)))
    if not low <= high:
        raise ArgumentError(message(op, "min", f"{shown(low)} with max {shown(high)}", "numbers with min <= max"))
    return low, high


def _celu_alpha(op, alpha):
    alpha = _check.number(op, "alpha", alpha)
    if alpha == 0:
        raise ArgumentError(message(op, "alpha", "0", "a finite number other than 0"))
    return alpha


def _gelu_formula(op, approximate):
    return {"none": "gelu", "tanh": "gelu_tanh"}[_check.choice(op, "approximate", approximate, ("none", "tanh"))]


class Activation:
    """Activations; their gradients: :class:`ActivationGradients`."""

    relu = unary_method("relu", "Rectified linear unit: max(x, 0).", "Gradient 0 at 0.")
    selu = unary_method(
        "selu", "Scaled exponential unit: 1.0507 · (x where x > 0, else 1.6733 (eˣ − 1)).", "Klambauer et al. 2017, eq. 14."
    )
    relu6 = unary_method("relu6", "Rectified linear unit, capped: min(max(x, 0), 6).", "Gradient 0 at 0 and at 6.")
    sigmoid = unary_method("sigmoid", "Logistic function: 1 / (1 + e⁻ˣ).", "At most 2 ulp in float32, in both tails.")
    log_sigmoid = unary_method("log_sigmoid", "Logarithm of the logistic function: −log(1 + e⁻ˣ).", "Exact in both tails.")
    tanh = unary_method("tanh", "Hyperbolic tangent.", "At most 2 ulp in float32.")
    silu = unary_method("silu", "Sigmoid linear unit (swish): x · sigmoid(x).", "At most 2 ulp in float32.")
    mish = unary_method("mish", "Mish: x · tanh(log(1 + eˣ)).", "Misra 2019.")
    hard_swish = unary_method("hard_swish", "Hard swish: x · min(max(x + 3, 0), 6) / 6.", "Howard et al. 2019.")
    softsign = unary_method("softsign", "Softsign: x / (1 + |x|).", "±1 at ±inf.")
    tanhshrink = unary_method(
        "tanhshrink", "Tanh shrinkage: x − tanh(x).", "Its series near 0, where the difference would cancel."
    )

    def leaky_relu(self, x, *, negative_slope=0.01, out=None):
        """Leaky rectified linear unit: x where x > 0, else negative_slope · x.

        Parameters
        ----------
        x : ndarray [...]
            float32 or float64.
        negative_slope : float
            Finite.
        out : ndarray [...], optional
            Where to write; may be `x` itself.

        Returns
        -------
        ndarray [...]
            Of `x`'s shape and dtype.

        Raises
        ------
        ArgumentError
            `negative_slope` is no finite number.
        """
        p = _check.number("leaky_relu", "negative_slope", negative_slope)
        return self._unary("leaky_relu", UNARY["leaky_relu"], x, out, p)

    def elu(self, x, *, alpha=1, out=None):
        """Exponential linear unit: x where x > 0, else alpha · (eˣ − 1).

        Parameters
        ----------
        x : ndarray [...]
            float32 or float64.
        alpha : float
            Finite.
        out : ndarray [...], optional
            Where to write; may be `x` itself.

        Returns
        -------
        ndarray [...]
            Of `x`'s shape and dtype.

        Raises
        ------
        ArgumentError
            `alpha` is no finite number.
        """
        return self._unary("elu", UNARY["elu"], x, out, _check.number("elu", "alpha", alpha))

    def celu(self, x, *, alpha=1, out=None):
        """Continuously differentiable exponential linear unit: x where x > 0, else alpha · (e^(x/alpha) − 1).

        Parameters
        ----------
        x : ndarray [...]
            float32 or float64.
        alpha : float
            Finite, not 0.
        out : ndarray [...], optional
            Where to write; may be `x` itself.

        Returns
        -------
        ndarray [...]
            Of `x`'s shape and dtype.

        Raises
        ------
        ArgumentError
            `alpha` is no finite number, or 0.
        """
        return self._unary("celu", UNARY["celu"], x, out, _celu_alpha("celu", alpha))

    def hardtanh(self, x, *, min=-1, max=1, out=None):
        """Clamp x to [min, max].

        Parameters
        ----------
        x : ndarray [...]
            float32 or float64.
        min, max : float
            Not NaN, min ≤ max.
        out : ndarray [...], optional
            Where to write; may be `x` itself.

        Returns
        -------
        ndarray [...]
            Of `x`'s shape and dtype; NaN stays NaN.

        Raises
        ------
        ArgumentError
            `min` or `max` is no number, or min > max.
        """
        low, high = _hardtanh_range("hardtanh", min, max)
        return self._unary("hardtanh", UNARY["hardtanh"], x, out, low, high)

    def hard_sigmoid(self, x, *, alpha=0.2, beta=0.5, out=None):
        """Piecewise linear sigmoid: min(max(alpha · x + beta, 0), 1).

        Parameters
        ----------
        x : ndarray [...]
            float32 or float64.
        alpha, beta : float
            Finite. ONNX's default; PyTorch's function has alpha = 1/6.
        out : ndarray [...], optional
            Where to write; may be `x` itself.

        Returns
        -------
        ndarray [...]
            Of `x`'s shape and dtype.

        Raises
        ------
        ArgumentError
            `alpha` or `beta` is no finite number.
        """
        p, q = (_check.number("hard_sigmoid", n, v) for n, v in (("alpha", alpha), ("beta", beta)))
        return self._unary("hard_sigmoid", UNARY["hard_sigmoid"], x, out, p, q)

    def gelu(self, x, *, approximate="none", out=None):
        """Gaussian error linear unit: x · Φ(x), Φ the normal distribution function.

        Parameters
        ----------
        x : ndarray [...]
            float32 or float64.
        approximate : {"none", "tanh"}
            "tanh": x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))).
        out : ndarray [...], optional
            Where to write; may be `x` itself.

        Returns
        -------
        ndarray [...]
            Of `x`'s shape and dtype.

        Raises
        ------
        ArgumentError
            `approximate` is another word.

        Notes
        -----
        At most 2 ulp in float32, in the negative tail too. Hendrycks and Gimpel 2016.
        """
        name = _gelu_formula("gelu", approximate)
        return self._unary("gelu", UNARY[name], x, out)

    def softplus(self, x, *, beta=1, out=None):
        """Softplus: log(1 + e^(beta·x)) / beta.

        Parameters
        ----------
        x : ndarray [...]
            float32 or float64.
        beta : float
            Finite, above 0.
        out : ndarray [...], optional
            Where to write; may be `x` itself.

        Returns
        -------
        ndarray [...]
            Of `x`'s shape and dtype.

        Raises
        ------
        ArgumentError
            `beta` is not a finite number above 0.

        Notes
        -----
        No threshold beyond which it becomes x: the formula is exact in both tails.
        """
        p = _check.number("softplus", "beta", beta, low=0, strict=True)
        return self._unary("softplus", UNARY["softplus"], x, out, p)

def sigmoid(z):
    """1 / (1 + e⁻ᶻ) in NumPy, for readable gradients."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1, e) / (1 + e)


def _gelu_slope(backend, x):
    """Φ(x) + x φ(x)"""
    x = np.clip(x, -1000, 1000)
    z = np.asarray(x / x.dtype.type(np.sqrt(2)))
    return (1 + backend.erf(z)) / 2 + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def _gelu_tanh_slope(x):
    x = np.clip(x, -1000, 1000)
    c = np.sqrt(2 / np.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return (1 + t) / 2 + x / 2 * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)


def _silu_slope(x):
    s = sigmoid(x)
    return s * (1 + np.clip(x, -1000, 1000) * (1 - s))


def _mish_slope(x):
    """d/dx x tanh(softplus(x)) = t + x (1 − t²) sigmoid(x)"""
    t = np.tanh(np.logaddexp(0, x))
    return t + np.clip(x, -1000, 1000) * (1 - t * t) * sigmoid(x)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848, 1.0507009873554804934

DERIVATIVES.update({
    "relu": lambda b, g, x, p, q: np.where(x > 0, g, 0),
    "leaky_relu": lambda b, g, x, p, q: np.where(x > 0, g, p * g),
    "elu": lambda b, g, x, p, q: np.where(x > 0, g, g * p * np.exp(x)),
    "selu": lambda b, g, x, p, q: g * _SELU_SCALE * np.where(x > 0, 1, _SELU_ALPHA * np.exp(x)),
    "celu": lambda b, g, x, p, q: np.where(x > 0, g, g * np.exp(x / p)),
    "relu6": lambda b, g, x, p, q: np.where((x > 0) & (x < 6), g, 0),
    "hardtanh": lambda b, g, x, p, q: np.where((x > p) & (x < q), g, 0),
    "sigmoid": lambda b, g, s, p, q: g * s * (1 - s),
    "hard_sigmoid": lambda b, g, x, p, q: np.where((p * x + q > 0) & (p * x + q < 1), p * g, 0),
    "log_sigmoid": lambda b, g, x, p, q: g * sigmoid(-x),
    "tanh": lambda b, g, t, p, q: g * (1 - t * t),
    "gelu": lambda b, g, x, p, q: g * _gelu_slope(b, x),
    "gelu_tanh": lambda b, g, x, p, q: g * _gelu_tanh_slope(x),
    "silu": lambda b, g, x, p, q: g * _silu_slope(x),
    "mish": lambda b, g, x, p, q: g * _mish_slope(x),
    "hard_swish": lambda b, g, x, p, q: g * np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5)),
    "softplus": lambda b, g, x, p, q: g * sigmoid(p * x),
    "softsign": lambda b, g, x, p, q: g / (1 + np.abs(x)) ** 2,
    "tanhshrink": lambda b, g, x, p, q: g * np.tanh(x) ** 2,
})  # fmt: skip


class ActivationGradients:
    """Default gradients of activations (NaN x gives NaN)."""

    relu_backward = unary_gradient("relu", "x", "[x > 0]")
    selu_backward = unary_gradient("selu", "x", "1.0507 · (1 where x > 0, else 1.6733 eˣ)")
    relu6_backward = unary_gradient("relu6", "x", "[0 < x < 6]")
    sigmoid_backward = unary_gradient("sigmoid", "output", "s (1 − s), s the output")
    log_sigmoid_backward = unary_gradient("log_sigmoid", "x", "sigmoid(−x)")
    tanh_backward = unary_gradient("tanh", "output", "(1 − t²), t the output")
    silu_backward = unary_gradient("silu", "x", "s (1 + x (1 − s)), s = sigmoid(x)")
    mish_backward = unary_gradient("mish", "x", "(t + x (1 − t²) sigmoid(x)), t = tanh(log(1 + eˣ))")
    hard_swish_backward = unary_gradient("hard_swish", "x", "(0 to −3, x/3 + 1/2 between, 1 from 3)")
    softsign_backward = unary_gradient("softsign", "x", "1 / (1 + |x|)²")
    tanhshrink_backward = unary_gradient("tanhshrink", "x", "tanh²(x)")

    def leaky_relu_backward(self, output_grad, x, *, negative_slope=0.01, out=None):
        """Gradient of :meth:`leaky_relu`: `output_grad` where x > 0, else negative_slope · `output_grad`.

        Parameters
        ----------
        output_grad, x : ndarray [...]
            The gradient from above, and the forward's operand.
        negative_slope : float
            As in the forward.
        out : ndarray [...], optional
            Where to write; may be either operand.

        Returns
        -------
        ndarray [...]
            The gradient to x.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError
            `negative_slope` is no finite number, the operands differ in shape or dtype, or `out` does not fit.
        """
        op = "leaky_relu_backward"
        p = _check.number(op, "negative_slope", negative_slope)
        return self._unary_gradient(op, "leaky_relu", UNARY["leaky_relu"], "x", output_grad, x, out, p)

    def elu_backward(self, output_grad, x, *, alpha=1, out=None):
        """Gradient of :meth:`elu`: `output_grad` · (1 where x > 0, else alpha · eˣ).

        Parameters
        ----------
        output_grad, x : ndarray [...]
            The gradient from above, and the forward's operand.
        alpha : float
            As in the forward.
        out : ndarray [...], optional
            Where to write; may be either operand.

        Returns
        -------
        ndarray [...]
            The gradient to x.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError
            `alpha` is no finite number, the operands differ in shape or dtype, or `out` does not fit.
        """
        op = "elu_backward"
        return self._unary_gradient(op, "elu", UNARY["elu"], "x", output_grad, x, out, _check.number(op, "alpha", alpha))

    def celu_backward(self, output_grad, x, *, alpha=1, out=None):
        """Gradient of :meth:`celu`: `output_grad` · (1 where x > 0, else e^(x/alpha)).

        Parameters
        ----------
        output_grad, x : ndarray [...]
            The gradient from above, and the forward's operand.
        alpha : float
            As in the forward.
        out : ndarray [...], optional
            Where to write; may be either operand.

        Returns
        -------
        ndarray [...]
            The gradient to x.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError
            `alpha` is no finite number, or 0, the operands differ in shape or dtype, or `out` does not fit.
        """
        op = "celu_backward"
        return self._unary_gradient(op, "celu", UNARY["celu"], "x", output_grad, x, out, _celu_alpha(op, alpha))

    def hardtanh_backward(self, output_grad, x, *, min=-1, max=1, out=None):
        """Gradient of :meth:`hardtanh`: `output_grad` where min < x < max, else 0.

        Parameters
        ----------
        output_grad, x : ndarray [...]
            The gradient from above, and the forward's operand.
        min, max : float
            As in the forward.
        out : ndarray [...], optional
            Where to write; may be either operand.

        Returns
        -------
        ndarray [...]
            The gradient to x.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError
            `min` or `max` is no number, or min > max, the operands differ in shape or dtype, or `out` does not fit.
        """
        op = "hardtanh_backward"
        low, high = _hardtanh_range(op, min, max)
        return self._unary_gradient(op, "hardtanh", UNARY["hardtanh"], "x", output_grad, x, out, low, high)

    def hard_sigmoid_backward(self, output_grad, x, *, alpha=0.2, beta=0.5, out=None):
        """Gradient of :meth:`hard_sigmoid`: alpha · `output_grad` where 0 < alpha · x + beta < 1, else 0.

        Parameters
        ----------
        output_grad, x : ndarray [...]
            The gradient from above, and the forward's operand.
        alpha, beta : float
            As in the forward.
        out : ndarray [...], optional
            Where to write; may be either operand.

        Returns
        -------
        ndarray [...]
            The gradient to x.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError
            `alpha` or `beta` is no finite number, the operands differ in shape or dtype, or `out` does not fit.
        """
        op = "hard_sigmoid_backward"
        p, q = (_check.number(op, n, v) for n, v in (("alpha", alpha), ("beta", beta)))
        return self._unary_gradient(op, "hard_sigmoid", UNARY["hard_sigmoid"], "x", output_grad, x, out, p, q)

    def gelu_backward(self, output_grad, x, *, approximate="none", out=None):
        """Gradient of :meth:`gelu`: `output_grad` · (Φ(x) + x φ(x)), or the tanh form's own derivative.

        Parameters
        ----------
        output_grad, x : ndarray [...]
            The gradient from above, and the forward's operand.
        approximate : {"none", "tanh"}
            As in the forward.
        out : ndarray [...], optional
            Where to write; may be either operand.

        Returns
        -------
        ndarray [...]
            The gradient to x.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError
            `approximate` is another word, the operands differ in shape or dtype, or `out` does not fit.
        """
        op = "gelu_backward"
        name = _gelu_formula(op, approximate)
        return self._unary_gradient(op, name, UNARY[name], "x", output_grad, x, out)

    def softplus_backward(self, output_grad, x, *, beta=1, out=None):
        """Gradient of :meth:`softplus`: `output_grad` · sigmoid(beta · x).

        Parameters
        ----------
        output_grad, x : ndarray [...]
            The gradient from above, and the forward's operand.
        beta : float
            As in the forward.
        out : ndarray [...], optional
            Where to write; may be either operand.

        Returns
        -------
        ndarray [...]
            The gradient to x.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError
            `beta` is not a finite number above 0, the operands differ in shape or dtype, or `out` does not fit.
        """
        op = "softplus_backward"
        p = _check.number(op, "beta", beta, low=0, strict=True)
        return self._unary_gradient(op, "softplus", UNARY["softplus"], "x", output_grad, x, out, p)
