"""Cross-entropy and mean squared error, and their gradients.

Letters: N rows, C classes.
"""

import numpy as np

from .. import _alloc, _check, _threads
from .._kernels import constants
from .._memory import empty
from ..errors import ArgumentError, message
from ..results import MseLossGrads

__all__ = ["Loss", "LossGradients"]

REDUCTIONS = constants("loss").REDUCTIONS
EXP_NS = 0.6  # a logit on one thread


def _cross_entropy_operands(op, logits, targets, reduction, ignore_index, label_smoothing):
    x = _check.floating(op, "logits", logits)
    _check.rank(op, "logits", x, 2)
    labels = _check.integers(op, "targets", targets)
    _check.shape(op, "targets", labels, x.shape[:1], "one label a row of logits")
    _check.choice(op, "reduction", reduction, REDUCTIONS)
    if ignore_index is not None:
        ignore_index = _check.integer(op, "ignore_index", ignore_index)
    smoothing = _check.number(op, "label_smoothing", label_smoothing, 0.0)
    if smoothing > 1:
        raise ArgumentError(message(op, "label_smoothing", str(smoothing), "a number from 0 to 1"))
    _check.index_range(op, "targets", labels, x.shape[1], ignore_index)
    return x, labels, ignore_index, smoothing


class Loss:
    """Losses."""

    def cross_entropy(self, logits, targets, *, reduction="mean", ignore_index=None, label_smoothing=0.0, out=None):
        """Cross-entropy of logits with labels: log Σ eˣ − Σ q x, with q the smoothed label.

        Parameters
        ----------
        logits : ndarray [N, C]
            float32 or float64.
        targets : ndarray [N]
            Labels from 0 to C − 1, of any integer dtype.
        reduction : {"mean", "sum", "none"}
            "mean" divides by the number of rows that are not ignored.
        ignore_index : int, optional
            Rows with this label have the loss 0; it may lie outside of the classes.
        label_smoothing : float
            From 0 to 1: q is 1 − ε at the label, plus ε / C at every class.
        out : ndarray, optional
            Where to write.

        Returns
        -------
        ndarray [] or [N]
            Of `logits`' dtype.

        Raises
        ------
        DTypeError, ShapeError, ArgumentError, IndexRangeError
            Logits are no floating matrix, labels no integers or not one a row or out of range, or an option is unknown.

        Notes
        -----
        One fused pass, accumulated in double. A NaN or +inf in a row makes its loss NaN; the mean over no row is NaN.
        Gradient: g (softmax(x) − q).
        """
        op = "cross_entropy"
        x, labels, ignore, smoothing = _cross_entropy_operands(op, logits, targets, reduction, ignore_index, label_smoothing)
        out = _alloc.output(op, out, labels.shape if reduction == "none" else (), x.dtype, (logits, targets))
        options = (REDUCTIONS[reduction], ignore is not None, ignore or 0, smoothing)
        self._run("loss.cross_entropy", x.dtype, x.size * EXP_NS, x, labels, out, *x.shape, *options)
        return out

    def mse_loss(self, input, target, *, reduction="mean", out=None):
        """Squared error: (input − target)², or its mean or sum.

        Parameters
        ----------
        input, target : ndarray [...]
            Of one shape and dtype, float32 or float64.
        reduction : {"mean", "sum", "none"}
            What is returned.
        out : ndarray, optional
            Where to write.

        Returns
        -------
        ndarray [] or [...]

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            The operands differ in shape or dtype, or `reduction` is unknown.

        Notes
        -----
        Accumulated in double; the mean over no element is NaN. Gradient: 2 g (input − target), and its negative.
        """
        op = "mse_loss"
        x, y = _check.same_shape(op, ("input", "target"), (input, target))
        _check.choice(op, "reduction", reduction, REDUCTIONS)
        each = reduction == "none"
        out = _alloc.output(op, out, y.shape if each else (), y.dtype, (input, target))
        self._run("loss.mse_loss", y.dtype, _threads.work(bytes_=2 * y.nbytes), x, y, out, y.size, REDUCTIONS[reduction])
        return out


class LossGradients:
    """Gradients of the losses."""

    def cross_entropy_backward(self, output_grad, logits, targets, *, reduction="mean", ignore_index=None, label_smoothing=0.0, out=None):
        """Gradient of :meth:`cross_entropy`: g (softmax(x) − q), 0 in ignored rows.

        Parameters
        ----------
        output_grad : ndarray [] or [N]
            The gradient that arrives from above, of the output's shape.
        logits : ndarray [N, C]
            The forward's operand.
        targets : ndarray [N]
            The labels.
        reduction, ignore_index, label_smoothing
            As in the forward.
        out : ndarray [N, C], optional
            Where to write.

        Returns
        -------
        ndarray [N, C]
            The gradient to the logits.

        Raises
        ------
        DTypeError, ShapeError, ArgumentError, IndexRangeError
            As in the forward, or `output_grad` has not the output's shape.
        """
        op = "cross_entropy_backward"
        x, labels, ignore, smoothing = _cross_entropy_operands(op, logits, targets, reduction, ignore_index, label_smoothing)
        g, x = _check.required(op, ("output_grad", "logits"), (output_grad, x))
        _check.shape(op, "output_grad", g, labels.shape if reduction == "none" else (), f'reduction "{reduction}"')
        out = _alloc.output(op, out, x.shape, x.dtype, (output_grad, logits, targets))
        rows = len(labels) if ignore is None else int(np.count_nonzero(labels != ignore))
        scale = 1.0 / rows if reduction == "mean" and rows else 1.0
        return self._cross_entropy_backward(g, x, labels, scale, ignore, smoothing, out)

    def _cross_entropy_backward(self, g, x, labels, scale, ignore, smoothing, out):
        if out.size:
            rows = np.flatnonzero(labels != ignore) if ignore is not None else np.arange(len(labels))
            s = self.softmax(x.astype(np.float64), axis=1) - smoothing / x.shape[1]
            s[rows, labels[rows]] -= 1 - smoothing
            out[...] = 0
            out[rows] = s[rows] * (np.broadcast_to(g, labels.shape)[rows, None] * scale)
        return out

    def mse_loss_backward(self, output_grad, input, target, *, reduction="mean"):
        """Gradients of :meth:`mse_loss`: 2 g (input − target), and its negative.

        Parameters
        ----------
        output_grad : ndarray [] or [...]
            The gradient that arrives from above, of the output's shape.
        input, target : ndarray [...]
            The forward's operands.
        reduction : {"mean", "sum", "none"}
            As in the forward.

        Returns
        -------
        MseLossGrads
            (input_grad, target_grad)

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            As in the forward, or `output_grad` has not the output's shape.
        """
        op = "mse_loss_backward"
        x, y = _check.same_shape(op, ("input", "target"), (input, target))
        g, x = _check.required(op, ("output_grad", "input"), (output_grad, x))
        _check.choice(op, "reduction", reduction, REDUCTIONS)
        _check.shape(op, "output_grad", g, y.shape if reduction == "none" else (), f'reduction "{reduction}"')
        scale = 1.0 / y.size if reduction == "mean" and y.size else 1.0
        x_grad, y_grad = empty(y.shape, y.dtype), empty(y.shape, y.dtype)
        self._mse_loss_backward(g, x, y, reduction == "none", scale, x_grad, y_grad)
        return MseLossGrads(x_grad, y_grad)

    def _mse_loss_backward(self, g, x, y, each, scale, x_grad, y_grad):
        np.multiply(x - y, 2 * scale * g, out=x_grad, casting="same_kind")
        np.negative(x_grad, out=y_grad)
