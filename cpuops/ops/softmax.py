"""Softmax and log-softmax along an axis, and their gradients."""

import math

import numpy as np

from .. import _alloc, _check, _small

__all__ = ["Softmax", "SoftmaxGradients"]

FORWARD_NS, BACKWARD_NS = 0.6, 0.4  # an element on one thread


def around(shape, axis):
    """(outer, n, inner): the products of the lengths before, at and after an axis."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


class Softmax:
    """Normalised exponentials and their logarithms."""

    def softmax(self, x, *, axis=-1, scale=1.0, out=None):
        """Normalise exponentials along an axis: eˣ / Σ eˣ, of x · scale where a scale is given.

        Parameters
        ----------
        x : ndarray [...]
            float32 or float64.
        axis : int
            The axis along which results sum to 1.
        scale : float
            What x is multiplied by first, in the same pass; finite.
        out : ndarray [...], optional
            Where to write.

        Returns
        -------
        ndarray [...]
            Of `x`'s shape and dtype.

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            `x` is no floating array, `axis` is out of range, `scale` is not finite, or `out` does not fit.

        Notes
        -----
        Shifted by the maximum, so that nothing overflows; the sum is taken in double. −inf gives 0; a NaN, a +inf or
        nothing but −inf makes its own row NaN. Gradient: scale · s ∘ (g − Σ g s).
        """
        return self._softmax_of("softmax", x, axis, scale, out, False)

    def log_softmax(self, x, *, axis=-1, scale=1.0, out=None):
        """Logarithm of the softmax along an axis: x − log Σ eˣ, of x · scale where a scale is given.

        Parameters
        ----------
        x : ndarray [...]
            float32 or float64.
        axis : int
            The axis along which the exponentials of the results sum to 1.
        scale : float
            What x is multiplied by first, in the same pass; finite.
        out : ndarray [...], optional
            Where to write.

        Returns
        -------
        ndarray [...]
            Of `x`'s shape and dtype.

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            `x` is no floating array, `axis` is out of range, `scale` is not finite, or `out` does not fit.

        Notes
        -----
        Shifted by the maximum, so that nothing overflows; the sum is taken in double. A NaN, a +inf or nothing but −inf
        makes its own row NaN. Gradient: scale · (g − softmax · Σ g).
        """
        return self._softmax_of("log_softmax", x, axis, scale, out, True)

    def _softmax_of(self, op, x, axis, scale, out, logs):
        small = _small.softmax(self, x, axis, FORWARD_NS, logs) if out is None and type(scale) is float and scale == 1 else None
        if small is not None:
            return small
        xa = _check.floating(op, "x", x)
        axis, scale = _check.axis(op, axis, xa.ndim), _check.number(op, "scale", scale)
        out = _alloc.output(op, out, xa.shape, xa.dtype, (x,))
        self._run("softmax.softmax", xa.dtype, xa.size * FORWARD_NS, xa, out, *around(xa.shape, axis), logs, scale)
        return out


class SoftmaxGradients:
    """Gradients of softmax and log-softmax."""

    def softmax_backward(self, output_grad, output, *, axis=-1, scale=1.0, out=None):
        """Gradient of :meth:`softmax`: scale · s ∘ (g − Σ g s) with s the output.

        Parameters
        ----------
        output_grad : ndarray [...]
            The gradient that arrives from above.
        output : ndarray [...]
            The forward's result.
        axis : int
            As in the forward.
        scale : float
            As in the forward.
        out : ndarray [...], optional
            Where to write.

        Returns
        -------
        ndarray [...]
            The gradient to x.

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            The operands differ in shape or dtype, `axis` is out of range, `scale` is not finite, or `out` does not fit.
        """
        g, s, axis, scale, out = self._softmax_operands("softmax_backward", output_grad, output, axis, scale, out)
        return self._softmax_backward(g, s, axis, scale, out)

    def log_softmax_backward(self, output_grad, output, *, axis=-1, scale=1.0, out=None):
        """Gradient of :meth:`log_softmax`: scale · (g − eʸ · Σ g) with y the output.

        Parameters
        ----------
        output_grad : ndarray [...]
            The gradient that arrives from above.
        output : ndarray [...]
            The forward's result.
        axis : int
            As in the forward.
        scale : float
            As in the forward.
        out : ndarray [...], optional
            Where to write.

        Returns
        -------
        ndarray [...]
            The gradient to x.

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            The operands differ in shape or dtype, `axis` is out of range, `scale` is not finite, or `out` does not fit.
        """
        g, y, axis, scale, out = self._softmax_operands("log_softmax_backward", output_grad, output, axis, scale, out)
        return self._log_softmax_backward(g, y, axis, scale, out)

    def _softmax_operands(self, op, output_grad, output, axis, scale, out):
        g, y = _check.same_shape(op, ("output_grad", "output"), (output_grad, output))
        axis, scale = _check.axis(op, axis, y.ndim), _check.number(op, "scale", scale)
        return g, y, axis, scale, _alloc.output(op, out, y.shape, y.dtype, (output_grad, output))

    def _softmax_backward(self, g, s, axis, scale, out):
        with np.errstate(all="ignore"):
            out[...] = scale * s * (g - (g * s).sum(axis, dtype=np.float64, keepdims=True))
        return out

    def _log_softmax_backward(self, g, y, axis, scale, out):
        with np.errstate(all="ignore"):
            out[...] = scale * (g - np.exp(y) * g.sum(axis, dtype=np.float64, keepdims=True))
        return out
