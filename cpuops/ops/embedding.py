"""Embedding: rows of a table by index, and its gradient.

V rows of D numbers each; N indices.
"""

import numpy as np

from .. import _alloc, _check, _threads
from ..errors import ArgumentError, message

__all__ = ["Embedding", "EmbeddingGradients"]


class Embedding:
    """Forward operations of the family."""

    def embedding(self, weights, indices, *, out=None):
        """Look rows of a table up: output[...] = weights[indices[...]].

        Parameters
        ----------
        weights : ndarray, float32 or float64, [V, D]
        indices : ndarray of any integer dtype, [...]
            From 0 to V - 1.
        out : ndarray, optional
            Where to write the result; it may not overlap an operand.

        Returns
        -------
        ndarray
            [..., D]

        Raises
        ------
        IndexRangeError
            An index is negative or not below V.
        ShapeError
            weights has not two axes.
        DTypeError
            weights is no floating array, or indices no integer one.

        Notes
        -----
        Gradient: every row of g is added to the row of weights_grad that it came from. Rows are copied, NaN and all.
        2·N·D elements are moved.
        """
        (w,) = _check.required_strided("embedding", ("weights",), (weights,))
        i = _indices("embedding", w, indices)
        d = w.shape[1]
        out = _alloc.output("embedding", out, (*i.shape, d), w.dtype, (weights, indices))
        self._run("embedding.embedding", w.dtype, _threads.work(bytes_=2 * out.nbytes), w, i, out, i.size, d)
        return out


class EmbeddingGradients:
    """Gradients of the family."""

    def embedding_backward(self, weights, output_grad, indices, *, accumulate=False, out=None):
        """Differentiate :meth:`embedding` by its table: weights_grad[v] = Σ g[...] over the places where indices is v.

        Parameters
        ----------
        weights : ndarray, [V, D]
            The table; only its shape and dtype matter.
        output_grad : ndarray, [..., D]
        indices : ndarray of any integer dtype, [...]
        accumulate : bool
            Whether the gradient is added to what `out` holds. A table of many rows, of which a batch names few, is then
            not written at all but for those.
        out : ndarray, optional
            Where to write the result; it may not overlap an operand. Needed with `accumulate`.

        Returns
        -------
        ndarray
            [V, D]; zeros in the rows that no index names, or what they were with `accumulate`.

        Raises
        ------
        IndexRangeError
            An index is negative or not below V.
        ShapeError
            weights has not two axes, or output_grad is not [..., D] for the shape of indices.
        DTypeError
            An operand is no array of the dtype it should have, or the floating dtypes differ.
        ArgumentError
            `accumulate` is no flag, or there is no `out` to add to.

        Notes
        -----
        Repeated indices add up in the order of indices (row-major), in the precision of the table, whatever the thread
        count; with `accumulate` after what is there. V·D elements are written (none with `accumulate`) and up to 3·N·D
        moved.
        """
        op = "embedding_backward"
        w, g = _check.required_strided(op, ("weights", "output_grad"), (weights, output_grad))
        i = _indices(op, w, indices)
        if g.shape != (*i.shape, w.shape[1]):
            _check.shape(op, "output_grad", g, (*i.shape, w.shape[1]), f"indices has shape {i.shape}, weights {w.shape}")
        if _check.flag(op, "accumulate", accumulate) and out is None:
            raise ArgumentError(message(op, "accumulate", "True without out", "an array out to add to"))
        out = _alloc.output(op, out, w.shape, w.dtype, (weights, output_grad, indices))
        return self._embedding_backward(_check.contiguous(g), i, accumulate, out)

    def _embedding_backward(self, g, indices, accumulate, out):
        if not accumulate:
            out[...] = 0
        np.add.at(out, indices, g)
        return out


def _indices(op, w, indices):
    if w.ndim != 2:
        _check.rank(op, "weights", w, 2)
    i = _check.integers(op, "indices", indices)
    _check.index_range(op, "indices", i, w.shape[0])
    return i
