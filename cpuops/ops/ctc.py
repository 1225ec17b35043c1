"""Connectionist temporal classification, and its gradient.

Letters: T frames, N samples, C classes, S labels.
"""

import numpy as np

from .. import _alloc, _check
from ..errors import ArgumentError, IndexRangeError, ShapeError, message

__all__ = ["Ctc", "CtcGradients"]

STATE_NS, STATE_BACKWARD_NS = 2.0, 6.0  # a label or a blank in a frame, on one thread


def cost(x, lengths, state_ns):
    """Nanoseconds on one thread: the states of every frame, and the classes' exponentials in the gradient."""
    states = len(x) * (2 * float(lengths.sum()) + len(lengths))
    return states * state_ns + (x.size * 0.5 if state_ns == STATE_BACKWARD_NS else 0.0)


def _lengths(op, name, value, batch, most):
    a = _check.integers(op, name, value)
    _check.shape(op, name, a, (batch,), "one entry a sample")
    _check.index_range(op, name, a, most + 1)
    return a


def _labels(op, value, batch, lengths_of, classes):
    """Targets as int64 and their lengths: what lies beyond a sample's length is neither read nor refused."""
    a = _check.array(op, "targets", value)
    if a.dtype.kind not in "iu":
        return _check.integers(op, "targets", a), None  # which refuses it
    _check.rank(op, "targets", a, 2)
    if a.shape[0] != batch:
        raise ShapeError(message(op, "targets", f"of shape {a.shape}", f"({batch}, S): one row a sample"))
    lengths = _lengths(op, "target_lengths", lengths_of, batch, a.shape[1])
    targets = _check.contiguous(a.astype(np.int64, order="C", copy=False))  # unsigned ones beyond 2**63 become negative
    bad = (np.arange(a.shape[1]) < lengths[:, np.newaxis]) & ((targets < 0) | (targets >= classes))
    if bad.any():
        at = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
        raise IndexRangeError(message(op, "targets", f"{a[at]} at {list(at)}", f"a label from 0 to {classes - 1}"))
    return targets, lengths


def _operands(op, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
    (x,) = _check.required(op, ("log_probs",), (log_probs,))
    _check.rank(op, "log_probs", x, 3)
    frames, batch, classes = x.shape
    if not classes:
        raise ShapeError(message(op, "log_probs", f"of shape {x.shape}", "at least one class, the blank"))
    labels, lengths = _labels(op, targets, batch, target_lengths, classes)
    frames = _lengths(op, "input_lengths", input_lengths, batch, frames)
    blank = _check.integer(op, "blank", blank)
    if not 0 <= blank < classes:
        raise ArgumentError(message(op, "blank", str(blank), f"a class from 0 to {classes - 1}"))
    return x, labels, frames, lengths, blank, _check.flag(op, "zero_infinity", zero_infinity)


class Ctc:
    """Forward operations of the family."""

    def ctc_loss(
        self, log_probs, targets, input_lengths, target_lengths, blank=0, *, zero_infinity=False, out=None
    ):
        """Sum the probability of every alignment of a target with the frames: loss = −log Σ Π exp(log_probs).

        Parameters
        ----------
        log_probs : ndarray [T, N, C]
            Logarithms of probabilities, float32 or float64, as of `log_softmax` over the last axis.
        targets : ndarray [N, S]
            Labels from 0 to C − 1, of any integer dtype. What lies beyond a sample's target length is ignored.
        input_lengths : ndarray [N]
            How many frames of each sample count, from 0 to T.
        target_lengths : ndarray [N]
            How many labels of each row of targets count, from 0 to S.
        blank : int
            The class that stands for no label.
        zero_infinity : bool
            Whether the loss of a target that no alignment reaches is 0 and not +inf.
        out : ndarray [N], optional
            Where to write.

        Returns
        -------
        ndarray [N]
            The loss of each sample, not divided by anything, of `log_probs`' dtype.

        Raises
        ------
        ShapeError
            An operand has not the axes above, or another batch than log_probs.
        DTypeError
            log_probs is no floating array, or targets or lengths are no integers.
        IndexRangeError
            A label that counts, or a length, is out of range.
        ArgumentError
            `blank` is no class, or `zero_infinity` no flag.

        Notes
        -----
        Graves et al. 2006. Forward variables are kept in log space in double; the memory is that of two frames a thread.
        An alignment repeats labels and puts blanks between them, at least one between two equal ones, so a target needs
        as many frames as it has labels and equal neighbours. No frame at all reaches the empty target only, whose loss
        is then 0. A log-probability may be −inf; a NaN that an alignment could read makes its sample's loss NaN.
        Gradient: `ctc_loss_backward`.
        """
        op = "ctc_loss"
        x, *operands, zero = _operands(op, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
        out = _alloc.output(op, out, x.shape[1:2], x.dtype, (log_probs, targets, input_lengths, target_lengths))
        labels, frames, lengths, blank = operands
        self._run("ctc.loss", x.dtype, cost(x, lengths, STATE_NS), x, labels, frames, lengths, out, blank, zero)
        return out


class CtcGradients:
    """Gradients of the family."""

    def has_ctc_loss_backward(self):
        """Tell whether `ctc_loss_backward` exists: it does on every backend with gradients.

        Returns
        -------
        bool
        """
        return True

    def ctc_loss_backward(
        self, log_probs, targets, input_lengths, target_lengths, grad_loss, blank=0, *, zero_infinity=False, out=None
    ):
        """Differentiate `ctc_loss` by the logits under a `log_softmax`: grad_loss · (exp(log_probs) − posterior).

        Parameters
        ----------
        log_probs : ndarray [T, N, C]
            The forward's operand.
        targets : ndarray [N, S]
        input_lengths, target_lengths : ndarray [N]
        grad_loss : ndarray [N]
            The gradient that arrives from above.
        blank, zero_infinity
            As in the forward.
        out : ndarray [T, N, C], optional
            Where to write.

        Returns
        -------
        ndarray [T, N, C]
            0 in frames past a sample's length, and for samples whose loss is +inf, with `zero_infinity` or without.

        Raises
        ------
        ShapeError, DTypeError, IndexRangeError, ArgumentError
            As in the forward; ShapeError also when grad_loss has not the losses' shape.

        Notes
        -----
        The posterior of a class in a frame is the probability, given the target, that an alignment is there at one of the
        class's states. The convention is that of the field (and of PyTorch): what is returned is the gradient to logits
        whose `log_softmax` log_probs is, and is passed on to them as it stands, not through `log_softmax_backward`; the
        derivative by free log_probs would be −grad_loss · posterior. Forward variables are computed again, in log space
        in double; a thread's scratch is at most some 8 MB, or the forward variables of as many frames as the square root of
        their number, twice.
        """
        op = "ctc_loss_backward"
        x, *operands, _ = _operands(op, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
        x, g = _check.required(op, ("log_probs", "grad_loss"), (x, grad_loss))
        _check.shape(op, "grad_loss", g, x.shape[1:2], "one entry a sample")
        out = _alloc.output(op, out, x.shape, x.dtype, (log_probs, targets, input_lengths, target_lengths, grad_loss))
        return self._ctc_loss_backward(x, *operands[:3], g, operands[3], out)

    def _ctc_loss_backward(self, x, targets, frames, lengths, g, blank, out):
        out[...] = 0
        with np.errstate(all="ignore"):
            for n in range(x.shape[1]):
                logs = x[: frames[n], n].astype(np.float64)
                states = np.full(2 * lengths[n] + 1, blank)
                states[1::2] = targets[n, : lengths[n]]
                alpha = _alphas(logs[:, states], states, blank)
                loss = -np.logaddexp.reduce(alpha[-1, -2:])
                if loss == np.inf:
                    continue
                # backwards the same recurrence holds; its own frame's log-probabilities are in both
                beta = _alphas(logs[::-1, states[::-1]], states[::-1], blank, own=False)[::-1, ::-1]
                gradient = np.exp(logs)
                np.subtract.at(gradient, (slice(None), states), np.exp(alpha[1:] + beta[:-1] + loss))
                out[: frames[n], n] = gradient * float(g[n])
        return out


def _alphas(logs, states, blank, own=True):
    """Logarithms of the probability to be at each state before the first frame and after each; `own` includes the frame's."""
    skip = np.zeros(len(states), bool)
    skip[2:] = states[2:] != states[:-2]
    skip[::2] = False
    row = np.full(len(states), -np.inf)
    row[0] = 0
    rows = [row]
    for log in logs:
        arrived = row.copy()
        arrived[1:] = np.logaddexp(arrived[1:], row[:-1])
        arrived[skip] = np.logaddexp(arrived, np.concatenate([[-np.inf] * 2, row])[: len(row)])[skip]
        row = arrived + log
        rows.append(row if own else arrived)
    return np.array(rows)
