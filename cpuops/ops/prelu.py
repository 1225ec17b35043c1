"""prelu: a rectified linear unit whose slope is learned."""

import numpy as np

from .. import _alloc, _check
from ..errors import ShapeError, message
from ..results import PreluGrads
from .elementwise import BINARY, cost


def _prelu_operands(op, names, values):
    """The operands, the first two x and weight."""
    x, weight, *rest = _check.required(op, names, values)
    _check.rank(op, "weight", weight, 0, 1)
    channels = x.shape[1] if x.ndim > 1 else 1
    if weight.size not in (1, channels):
        expected = f"one slope, or one for each of x's {channels} channels (axis 1)"
        raise ShapeError(message(op, "weight", f"of shape {weight.shape}", expected))
    return x, weight, *rest


def _prelu_steps(x, weight):
    """x as [B, C, rest] against the slopes: (dims, steps of x, steps of weight)."""
    if weight.size == 1:
        return (x.size,), (1,), (0,)
    inner = x.size // max(1, x.shape[0] * x.shape[1])
    if inner == 1:
        return (x.shape[0], x.shape[1]), (x.shape[1], 1), (0, 1)
    return (x.shape[0], x.shape[1], inner), (x.shape[1] * inner, inner, 1), (0, 1, 0)


class Prelu:
    """The parametric rectified linear unit; its gradient: :class:`PreluGradients`."""

    def prelu(self, x, weight, *, out=None):
        """Parametric rectified linear unit: x where x > 0, else weight · x.

        Parameters
        ----------
        x : ndarray [B, C, ...]
            float32 or float64.
        weight : ndarray [C] or [1]
            The slopes; one a channel (axis 1 of `x`), or one for all.
        out : ndarray [B, C, ...], optional
            Where to write; may be `x` itself.

        Returns
        -------
        ndarray [B, C, ...]
            Of `x`'s shape and dtype.

        Raises
        ------
        ShapeError
            `weight` has neither 1 nor C entries.

        Notes
        -----
        He et al. 2015, eq. 1.
        """
        xa, w = _prelu_operands("prelu", ("x", "weight"), (x, weight))
        out = _alloc.output("prelu", out, xa.shape, xa.dtype, (x, weight), (x,))
        dims, xs, ws = _prelu_steps(xa, w)
        self._run("elementwise.binary", xa.dtype, cost("prelu", xa.size), BINARY["prelu"], xa, 0, w, 0, out, dims, xs, ws)
        return out


class PreluGradients:
    """Default gradient of prelu (NaN x gives NaN)."""

    def prelu_backward(self, output_grad, x, weight):
        """Gradients of :meth:`prelu`.

        Parameters
        ----------
        output_grad, x : ndarray [B, C, ...]
            The gradient from above, and the forward's operand.
        weight : ndarray [C] or [1]
            The slopes.

        Returns
        -------
        PreluGrads
            `x_grad` [B, C, ...]: `output_grad` · (1 where x > 0, else weight);
            `weight_grad`, of `weight`'s shape: the sum of `output_grad` · x where
            x ≤ 0, over everything but the channel (in double precision).

        Raises
        ------
        ShapeError
            `output_grad` has not x's shape, or `weight` has neither 1 nor C entries.
        """
        op = "prelu_backward"
        xa, w, g = _prelu_operands(op, ("x", "weight", "output_grad"), (x, weight, output_grad))
        _check.shape(op, "output_grad", g, xa.shape, "the shape of x")
        x_grad, each = self._prelu_backward(g, xa, w)
        kept = () if w.size == 1 else (1,)
        total = self.reduce_sum(each, axis=tuple(a for a in range(xa.ndim) if a not in kept))
        return PreluGrads(x_grad, total.reshape(w.shape))

    def _prelu_backward(self, g, x, w):
        """(x_grad, the weight gradient before its sum)"""
        slope = w.reshape(()) if w.size == 1 else w.reshape(-1, *(1,) * (x.ndim - 2))
        x_grad = np.where(x > 0, g, np.where(np.isnan(x), x, g * slope))
        return x_grad, np.where(x > 0, g.dtype.type(0), g * x)
