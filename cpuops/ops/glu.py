"""glu: one half of an array gated by the other."""

import numpy as np

from .. import _alloc, _check
from ..errors import ShapeError, message
from .activation import sigmoid
from .elementwise import BINARY, cost


def _glu_split(op, x, axis):
    """(axis, shape of a half, rows, elements a row of a half)"""
    _check.rank(op, "x", x, 1, 64)
    axis = _check.axis(op, axis, x.ndim)
    if x.shape[axis] % 2:
        raise ShapeError(message(op, "x", f"of shape {x.shape}", f"an even length along axis {axis}"))
    half = (*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :])
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return axis, half, rows, int(np.prod(half[axis:], dtype=np.int64))


class Glu:
    """The gated linear unit; its gradient: :class:`GluGradients`."""

    def glu(self, x, *, axis=-1, out=None):
        """Gated linear unit: the first half of x along `axis` times the sigmoid of the second.

        Parameters
        ----------
        x : ndarray [..., 2n, ...]
            float32 or float64; an even length along `axis`.
        axis : int
            The axis to halve.
        out : ndarray [..., n, ...], optional
            Where to write.

        Returns
        -------
        ndarray [..., n, ...]
            Half of `x`'s shape along `axis`.

        Raises
        ------
        ShapeError, ArgumentError
            The length along `axis` is odd, or there is no such axis.

        Notes
        -----
        Dauphin et al. 2017.
        """
        xa = _check.floating("glu", "x", x)
        axis, half, rows, n = _glu_split("glu", xa, axis)
        out = _alloc.output("glu", out, half, xa.dtype, (x,))
        walk = ((rows, n), (2 * n, 1), (2 * n, 1))
        self._run("elementwise.binary", xa.dtype, cost("glu", out.size), BINARY["glu"], xa, 0, xa, n, out, *walk)
        return out


class GluGradients:
    """Default gradient of glu."""

    def glu_backward(self, output_grad, x, *, axis=-1, out=None):
        """Gradient of :meth:`glu`: with halves a and b, `output_grad` · s and `output_grad` · a s (1 − s), s = sigmoid(b).

        Parameters
        ----------
        output_grad : ndarray [..., n, ...]
            The gradient that arrives from above.
        x : ndarray [..., 2n, ...]
            The forward's operand.
        axis : int
            As in the forward.
        out : ndarray [..., 2n, ...], optional
            Where to write.

        Returns
        -------
        ndarray [..., 2n, ...]
            The gradient to x.

        Raises
        ------
        ShapeError, ArgumentError
            `output_grad` has not the output's shape, the length along `axis` is odd, or there is no such axis.
        """
        op = "glu_backward"
        g, xa = _check.required(op, ("output_grad", "x"), (output_grad, x))
        axis, half, rows, n = _glu_split(op, xa, axis)
        _check.shape(op, "output_grad", g, half, "the shape of the output")
        out = _alloc.output(op, out, xa.shape, xa.dtype, (output_grad, x))
        return self._glu_backward(g, xa, axis, rows, n, out)

    def _glu_backward(self, g, x, axis, rows, n, out):
        a, b = np.split(x, 2, axis)
        s = sigmoid(b)
        np.concatenate((g * s, g * a * s * (1 - s)), axis, out=out)
        return out
