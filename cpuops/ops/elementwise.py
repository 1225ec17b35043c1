"""Elementwise arithmetic and functions, and the calls that activations share with them.

Formulas and derivatives of the kernels stand in ``_kernels/elementwise.h``, side by side.
"""

import numpy as np

from .. import _alloc, _check, _small
from .._kernels import constants
from .._memory import empty
from .._remembered import remembered
from ..errors import ArgumentError, message, shown
from ..results import PairGrads

UNARY, BINARY, HEAVY = (getattr(constants("elementwise"), name) for name in ("UNARY", "BINARY", "HEAVY"))
_small.set_loops(constants("elementwise").LOOPS)

# nanoseconds an element on one thread, to decide on threads: memory-bound operations against polynomials
LIGHT_NS, HEAVY_NS = 0.4, 1.0


def cost(name, elements):
    return elements * (HEAVY_NS if name in HEAVY else LIGHT_NS)


def unary_method(name, summary, notes):
    """The forward method of a function of one array without options."""
    method = _small.unary_method(name, UNARY[name], cost(name, 1))
    method.__name__ = name
    method.__doc__ = f"""{summary}

        Parameters
        ----------
        x : ndarray [...]
            float32 or float64.
        out : ndarray [...], optional
            Where to write; may be `x` itself.

        Returns
        -------
        ndarray [...]
            Of `x`'s shape and dtype.

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            `x` is no floating array, or `out` does not fit.

        Notes
        -----
        {notes} NaN gives NaN.
        """
    return method


def binary_method(name, summary, notes):
    """The forward method of a broadcast pair."""
    method = _small.pair_method(name, BINARY[name], cost(name, 1))
    method.__name__ = name
    method.__doc__ = f"""{summary}

        Parameters
        ----------
        lhs, rhs : ndarray [...], or one of them a Python number
            float32 or float64, of one dtype; shapes that broadcast.
        out : ndarray [...], optional
            Where to write; may be an operand of the result's shape.

        Returns
        -------
        ndarray [...]
            Of the broadcast shape.

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            The operands are no floating arrays of one dtype or do not broadcast, or `out` does not fit.

        Notes
        -----
        {notes}
        """
    return method


NUMBERS = (int, float)


def pair_operands(op, lhs, rhs, more=(), more_names=()):
    """`lhs` and `rhs` (one of them may be a Python number), and further operands, all of one dtype."""
    first, second = type(lhs) in NUMBERS, type(rhs) in NUMBERS
    if first and not second:
        rhs = _check.floating(op, "rhs", rhs)
        lhs = _number_like(op, "lhs", lhs, rhs)
    elif second and not first:
        lhs = _check.floating(op, "lhs", lhs)
        rhs = _number_like(op, "rhs", rhs, lhs)
    return _check.required(op, ("lhs", "rhs", *more_names), (lhs, rhs, *more))


def _number_like(op, name, value, array):
    try:
        with np.errstate(over="ignore"):
            return np.asarray(np.float64(value).astype(array.dtype))
    except OverflowError:
        raise ArgumentError(message(op, name, shown(value), "a number that a float can hold")) from None


@remembered
def broadcast(op, x_shape, y_shape):
    """(shape, dims, x steps, y steps) of a broadcast pair of C-contiguous arrays: the steps in elements, adjacent axes merged.

    Along the last axis a step is 0 or 1.
    """
    shape = _check.broadcast(op, ("lhs", "rhs"), (x_shape, y_shape))
    nd = len(shape)
    sides = []
    for own in (x_shape, y_shape):
        own = (1,) * (nd - len(own)) + tuple(own)
        steps, step = [0] * nd, 1
        for a in range(nd - 1, -1, -1):
            steps[a] = step if own[a] != 1 else 0
            step *= own[a]
        sides.append(steps)
    dims, xs, ys = [1], [0], [0]
    for n, x, y in zip(shape, *sides, strict=True):
        if n == 1:
            continue
        # the axis before continues into this one when both operands step over it whole
        if xs[-1] == x * n and ys[-1] == y * n and dims != [1]:
            dims[-1], xs[-1], ys[-1] = dims[-1] * n, x, y
        elif dims == [1]:
            dims, xs, ys = [n], [x], [y]
        else:
            dims.append(n)
            xs.append(x)
            ys.append(y)
    return shape, tuple(dims), tuple(xs), tuple(ys)


class Elementwise:
    """Arithmetic on broadcast pairs, and functions of one array."""

    def _unary(self, name, index, x, out, p=0.0, q=0.0):
        xa = _check.floating(name, "x", x)
        if out is None:
            out = empty(xa.shape, xa.dtype)
        else:
            out = _alloc.output(name, out, xa.shape, xa.dtype, (x,), (x,))
        n = xa.size
        self._run("elementwise.unary", xa.dtype, cost(name, n), index, xa, out, n, p, q)
        return out

    def _pair(self, name, index, lhs, rhs, out):
        x, y = (lhs, rhs) if _check.ready_alike(lhs, rhs) else pair_operands(name, lhs, rhs)
        if x.shape == y.shape:
            shape, *walk = x.shape, (x.size,), (1,), (1,)
        else:
            shape, *walk = broadcast(name, x.shape, y.shape)
        out = empty(shape, x.dtype) if out is None else _alloc.output(name, out, shape, x.dtype, (lhs, rhs), (lhs, rhs))
        self._run("elementwise.binary", x.dtype, cost(name, out.size), index, x, 0, y, 0, out, *walk)
        return out

    add = binary_method("add", "Add: lhs + rhs.", "Gradient: `output_grad` to both. NaN in either operand gives NaN.")
    sub = binary_method("sub", "Subtract: lhs − rhs.", "Gradient: `output_grad` and −`output_grad`.")
    mul = binary_method("mul", "Multiply: lhs · rhs.", "Gradient: `output_grad` · rhs and `output_grad` · lhs.")
    div = binary_method(
        "div", "Divide: lhs / rhs.", "IEEE division by zero. Gradient: `output_grad` / rhs and −`output_grad` · lhs / rhs²."
    )
    maximum = binary_method(
        "maximum", "Take the larger: max(lhs, rhs).",
        "NaN in either operand gives NaN. Gradient: to the larger; each of two equal operands gets half.",
    )  # fmt: skip
    minimum = binary_method(
        "minimum", "Take the smaller: min(lhs, rhs).",
        "NaN in either operand gives NaN. Gradient: to the smaller; each of two equal operands gets half.",
    )  # fmt: skip
    neg = unary_method("neg", "Negate: −x.", "Flips the sign bit, of zeros too.")
    exp = unary_method("exp", "Exponential: eˣ.", "At most 2 ulp in float32; subnormal results are kept.")
    expm1 = unary_method("expm1", "Exponential less one: eˣ − 1, exact near 0.", "At most 2 ulp in float32.")
    log = unary_method("log", "Natural logarithm.", "At most 2 ulp in float32; 0 gives −inf, negative numbers NaN.")
    log1p = unary_method(
        "log1p", "Logarithm of one more: log(1 + x), exact near 0.", "At most 2 ulp in float32; −1 gives −inf, less NaN."
    )
    sqrt = unary_method("sqrt", "Square root.", "Correctly rounded; negative numbers give NaN.")
    reciprocal = unary_method("reciprocal", "Reciprocal: 1 / x.", "Correctly rounded.")
    abs = unary_method("abs", "Absolute value.", "Gradient 0 at 0.")
    square = unary_method("square", "Square: x².", "Correctly rounded.")
    erf = unary_method("erf", "Error function: 2/√π ∫₀ˣ e^(−t²) dt.", "At most 2 ulp in float32.")


def unary_gradient(name, operand, derivative):
    """The gradient method of a function without options; `operand` is "x", or "output" where the derivative uses it."""
    op = name + "_backward"
    method = _small.gradient_method(name, UNARY[name], cost(name, 1), operand)
    method.__name__ = op
    what = "The forward's operand." if operand == "x" else "The forward's result."
    method.__doc__ = f"""Gradient of :meth:`{name}`: `output_grad` · {derivative}.

        Parameters
        ----------
        output_grad : ndarray [...]
            The gradient that arrives from above.
        {operand} : ndarray [...]
            {what}
        out : ndarray [...], optional
            Where to write; may be either operand.

        Returns
        -------
        ndarray [...]
            The gradient to x.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            The operands differ in shape or dtype, or `out` does not fit.

        Notes
        -----
        NaN in `{operand}` gives NaN.
        """
    return method


# Readable derivatives: (backend, g, x, p, q) -> gradient; p, q as the forward's options
DERIVATIVES = {
    "neg": lambda b, g, x, p, q: -g,
    "exp": lambda b, g, e, p, q: g * e,
    "expm1": lambda b, g, x, p, q: g * np.exp(x),
    "log": lambda b, g, x, p, q: g / x,
    "log1p": lambda b, g, x, p, q: g / (1 + x),
    "sqrt": lambda b, g, x, p, q: g / (2 * np.sqrt(x)),
    "reciprocal": lambda b, g, x, p, q: -g / x / x,
    "abs": lambda b, g, x, p, q: g * np.sign(x),
    "square": lambda b, g, x, p, q: 2 * g * x,
    "erf": lambda b, g, x, p, q: g * (2 / np.sqrt(np.pi)) * np.exp(-x * x),
}

# Readable gradients of pairs: (backend, g, lhs, rhs) -> both, before the sum over broadcast axes
PAIRS = {
    "add": lambda b, g, x, y: (g, g),
    "sub": lambda b, g, x, y: (g, b.neg(g)),
    "mul": lambda b, g, x, y: (b.mul(g, y), b.mul(g, x)),
    "div": lambda b, g, x, y: (b.div(g, y), b.neg(b.div(b.div(b.mul(g, x), y), y))),
    "maximum": lambda b, g, x, y: (_share(g, x > y, x < y), _share(g, x < y, x > y)),
    "minimum": lambda b, g, x, y: (_share(g, x < y, x > y), _share(g, x > y, x < y)),
}


def _share(g, wins, loses):
    """All of g where this operand wins, half where they are equal."""
    return np.where(wins, g, np.where(loses, 0, g / 2)).astype(g.dtype)


def pair_gradient(name, summary):
    index = BINARY[name]
    op = name + "_backward"

    def method(self, output_grad, lhs, rhs):
        if _check.ready_alike(lhs, rhs) and _check.ready_alike(lhs, output_grad):
            return self._pair_backward(name, index, output_grad, lhs, rhs)
        x, y, g = pair_operands(op, lhs, rhs, (output_grad,), ("output_grad",))
        _check.shape(op, "output_grad", g, broadcast(op, x.shape, y.shape)[0], "the shape of the output")
        return self._pair_backward(name, index, g, x, y)

    method.__name__ = op
    method.__doc__ = f"""Gradients of :meth:`{name}`: {summary}.

        Parameters
        ----------
        output_grad : ndarray [...]
            The gradient that arrives from above, of the broadcast shape.
        lhs, rhs : ndarray [...], or one of them a Python number
            The forward's operands.

        Returns
        -------
        PairGrads
            ``(lhs_grad, rhs_grad)``, each summed over the broadcast axes to its operand's shape (in double precision).

        Raises
        ------
        ShapeError, DTypeError
            `output_grad` has not the output's shape, or the dtypes differ.
        """
    return method


class ElementwiseGradients:
    """Default gradients of elementwise operations."""

    def _unary_gradient(self, op, name, index, operand, output_grad, x, out, p=0.0, q=0.0):
        g, xa = _check.same_shape(op, ("output_grad", operand), (output_grad, x))
        if out is None:
            out = empty(xa.shape, xa.dtype)
        else:
            out = _alloc.output(op, out, xa.shape, xa.dtype, (output_grad, x), (output_grad, x))
        return self._unary_backward(name, index, g, xa, out, p, q)

    def _unary_backward(self, name, index, g, x, out, p, q):
        with np.errstate(all="ignore"):
            gradient = DERIVATIVES[name](self, g, x, x.dtype.type(p), x.dtype.type(q))
        np.copyto(out, np.where(np.isnan(x), x, gradient))
        return out

    def _pair_backward(self, name, index, g, x, y):
        with np.errstate(all="ignore"):
            x_grad, y_grad = PAIRS[name](self, g, x, y)
        return PairGrads(self._sum_to(x_grad, x.shape, g), self._sum_to(y_grad, y.shape, g))

    def _sum_to(self, grad, shape, g):
        """`grad` summed over the axes along which an operand of `shape` was broadcast; never `g` itself."""
        if grad.shape == shape:
            out = empty(shape, grad.dtype)
            np.copyto(out, grad)
            return out
        new = grad.ndim - len(shape)
        axes = tuple(a for a in range(grad.ndim) if a < new or shape[a - new] != grad.shape[a])
        return self.reduce_sum(grad, axis=axes, keepdims=True).reshape(shape)

    add_backward = pair_gradient("add", "`output_grad` to both")
    sub_backward = pair_gradient("sub", "`output_grad` and −`output_grad`")
    mul_backward = pair_gradient("mul", "`output_grad` · rhs and `output_grad` · lhs")
    div_backward = pair_gradient("div", "`output_grad` / rhs and −`output_grad` · lhs / rhs²")
    maximum_backward = pair_gradient("maximum", "`output_grad` to the larger operand, half to each of two equal ones")
    minimum_backward = pair_gradient("minimum", "`output_grad` to the smaller operand, half to each of two equal ones")
    neg_backward = unary_gradient("neg", "x", "−1")
    exp_backward = unary_gradient("exp", "output", "eˣ, which is the output")
    expm1_backward = unary_gradient("expm1", "x", "eˣ")
    log_backward = unary_gradient("log", "x", "1 / x")
    log1p_backward = unary_gradient("log1p", "x", "1 / (1 + x)")
    sqrt_backward = unary_gradient("sqrt", "x", "1 / (2 √x)")
    reciprocal_backward = unary_gradient("reciprocal", "x", "(−1 / x²)")
    abs_backward = unary_gradient("abs", "x", "sign(x), 0 at 0")
    square_backward = unary_gradient("square", "x", "2x")
    erf_backward = unary_gradient("erf", "x", "2/√π · e^(−x²)")
