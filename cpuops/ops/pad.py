"""Padding of any number of axes with a constant, the mirror image or the edge, and its gradient."""

import functools
import math

import numpy as np

from .. import _alloc, _check, _threads
from ..errors import ArgumentError, ShapeError, message, shown

__all__ = ["Pad", "PadGradients", "canonical"]

MODES = ("constant", "reflect", "edge")
CONSTANT, EDGE, REFLECT = range(3)  # as pad.h numbers them


class Pad:
    """Forward operations of the family."""

    def pad(self, x, pads, *, mode="constant", value=0, out=None):
        """Surround x with cells along every axis: output[o] = x[o − before], or outside of x as `mode` says.

        Parameters
        ----------
        x : ndarray, float32 or float64, of any shape
        pads : sequence of one (before, after) pair an axis
            Cells added at both ends of every axis of x, at least 0.
        mode : {"constant", "reflect", "edge"}
            Outside of x: `value`; x mirrored at its first and last cell, which are not repeated, as often as it takes; or the
            nearest cell of x.
        value : float
            What a constant padding holds; NaN and infinities too.
        out : ndarray, optional
            Where to write the result; it may not overlap an operand.

        Returns
        -------
        ndarray
            [before + L + after of every axis]

        Raises
        ------
        ShapeError
            An axis of no cells is to be padded with "reflect" or "edge", or the result would not fit any memory.
        ArgumentError
            pads is no such sequence or has a negative entry, or mode or value is none of those above.
        DTypeError
            x is no floating array.

        Notes
        -----
        Gradient: every cell of x gets the sum of g over the cells that show it (`pad_backward`). Cells are copied, NaN and all; a
        mirrored axis of one cell is repeated. The output is written once, x is read once.
        """
        op = "pad"
        xa = _check.floating(op, "x", x)
        mode = _check.choice(op, "mode", mode, MODES)
        value = _check.number(op, "value", value, finite=False)
        pairs = _pairs(op, pads, xa.ndim)
        shape = tuple(before + n + after for n, (before, after) in zip(xa.shape, pairs, strict=True))
        if mode != "constant":
            for i, n in enumerate(xa.shape):
                if n == 0 and any(pairs[i]):
                    raise ShapeError(message(op, "pads", f"{pairs[i]} on axis {i}, where x has no cell", f'(0, 0) with mode "{mode}"'))
        if math.prod(shape) >= _check.BOUND // 8:
            raise ShapeError(message(op, "pads", f"{shown(pairs)}, which makes an output of {shape}", "one that fits memory"))
        out = _alloc.output(op, out, shape, xa.dtype, (x,))
        if out.size:
            axes, inner = canonical(xa.shape, pairs, mode)
            self._run("pad.pad", xa.dtype, _threads.work(bytes_=xa.nbytes + out.nbytes), xa, out, axes, inner, value)
        return out


class PadGradients:
    """Gradients of the family."""

    def pad_backward(self, output_grad, pads, *, mode="constant", out=None):
        """Differentiate :meth:`pad`: x_grad[i] = Σ output_grad[o] over the cells o that show cell i of x.

        Parameters
        ----------
        output_grad : ndarray, float32 or float64, of the padded shape
        pads, mode
            As given to the forward.
        out : ndarray, optional
            Where to write the result; it may not overlap an operand.

        Returns
        -------
        ndarray
            Of x's shape: before and after less along every axis.

        Raises
        ------
        ShapeError
            output_grad is shorter than its padding, or x would have no cell where "reflect" or "edge" needs one.
        ArgumentError, DTypeError
            As the forward.

        Notes
        -----
        Sums are in double precision, in the order of the output's cells: the exact transpose of the forward.
        """
        op = "pad_backward"
        g = _check.floating(op, "output_grad", output_grad)
        mode = _check.choice(op, "mode", mode, MODES)
        pairs = _pairs(op, pads, g.ndim)
        shape = tuple(n - before - after for n, (before, after) in zip(g.shape, pairs, strict=True))
        for i, n in enumerate(shape):
            least = 1 if mode != "constant" and any(pairs[i]) else 0
            if n < least:
                wanted = f"at least {sum(pairs[i]) + least} cells on axis {i} (pads {pairs[i]})"
                raise ShapeError(message(op, "output_grad", f"of shape {g.shape}", wanted))
        out = _alloc.output(op, out, shape, g.dtype, (output_grad,))
        return self._pad_backward(g, pairs, mode, out) if out.size else out

    def _pad_backward(self, g, pads, mode, out):
        x_grad = g.astype(np.float64)
        for i, (before, after) in enumerate(pads):
            n = out.shape[i]
            along = np.moveaxis(x_grad, i, 0)
            if mode == "constant":
                along = along[before : before + n]
            elif before or after:
                shown_cell = np.pad(np.arange(n), (before, after), mode)
                g_along, along = along, np.zeros((n, *along.shape[1:]))
                np.add.at(along, shown_cell, g_along)
            x_grad = np.moveaxis(along, 0, i)
        out[...] = x_grad
        return out


def _pairs(op, pads, ndim):
    wanted = f"{ndim} (before, after) pairs of integers >= 0, one for each axis"
    if isinstance(pads, np.ndarray) and pads.ndim == 2:
        pads = list(pads)
    if not isinstance(pads, list | tuple) or len(pads) != ndim:
        raise ArgumentError(message(op, "pads", shown(pads), wanted))
    pairs = tuple(map(tuple, pads)) if all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pads) else ()
    if all(type(v) is int and 0 <= v < _check.BOUND for pair in pairs for v in pair) and (pairs or not ndim):
        return pairs
    pairs = []
    for pair in pads:
        if not isinstance(pair, list | tuple | np.ndarray) or np.ndim(pair) != 1 or len(pair) != 2:
            raise ArgumentError(message(op, "pads", shown(pads), wanted))
        pairs.append(tuple(_check.integer(op, "pads", v, 0) for v in pair))
    return tuple(pairs)


@functools.lru_cache(256)
def canonical(shape, pads, mode):
    """Gather the axes as the kernels take them.

    Parameters
    ----------
    shape : tuple
        Of x.
    pads : tuple of (before, after)
    mode : str

    Returns
    -------
    axes : tuple of (in, out, before, mode)
        At least two. An axis without padding is part of the one before it where that moves whole cells.
    inner : int
        Elements that move together at the end.
    """
    axes, inner = [], 1
    for n, (before, after) in zip(shape, pads, strict=True):
        plain = not (before or after)
        if plain and axes and (mode == "constant" or axes[-1][3] == CONSTANT):
            length, padded, first, kind = axes[-1]
            axes[-1] = (length * n, padded * n, first * n, kind)
            continue
        kind = CONSTANT if plain or mode == "constant" else EDGE if mode == "edge" or n == 1 else REFLECT
        axes.append((n, n + before + after, before, kind))
    if len(axes) > 1 and axes[-1][3] == CONSTANT and mode != "constant":
        inner = axes.pop()[0]
    return ((1, 1, 0, CONSTANT),) * (2 - len(axes)) + tuple(axes), inner
