"""Reductions, softmax and losses."""

import numpy as np

from oracle.elementwise import quiet


def axes_of(axis, ndim):
    """Sorted axes; None stands for all."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted(a % ndim for a in (axis if isinstance(axis, tuple) else (axis,))))


def spread(reduced, shape, axis, keepdims):
    """Repeat a reduced array along the axes that were reduced."""
    axes = axes_of(axis, len(shape))
    if not keepdims:
        reduced = np.asarray(reduced).reshape([1 if a in axes else n for a, n in enumerate(shape)])
    return np.broadcast_to(reduced, shape).copy()


def as_rows(x, axis):
    """The reduced axes together at the end: (kept shape, x of shape [rows, n], way back)."""
    axes = axes_of(axis, x.ndim)
    kept = [a for a in range(x.ndim) if a not in axes]
    order = kept + list(axes)
    moved = x.transpose(order)
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    rows = int(np.prod([x.shape[a] for a in kept], dtype=np.int64))
    return moved.reshape(rows, count), lambda r: r.reshape(moved.shape).transpose(np.argsort(order))


def shaped(values, x, axis, keepdims):
    axes = axes_of(axis, x.ndim)
    if keepdims:
        return values.reshape([1 if a in axes else n for a, n in enumerate(x.shape)])
    return values.reshape([n for a, n in enumerate(x.shape) if a not in axes])


@quiet
def reduce_sum(x, *, axis=None, keepdims=False):
    """Sum."""
    return np.sum(x, axis=axes_of(axis, x.ndim), keepdims=keepdims)


@quiet
def reduce_mean(x, *, axis=None, keepdims=False):
    """Mean; NaN over no element."""
    rows, _ = as_rows(x, axis)
    return shaped(rows.sum(1) / np.float64(rows.shape[1]), x, axis, keepdims)


def reduce_max(x, *, axis=None, keepdims=False):
    """Largest, NaN if there is one."""
    return np.max(x, axis=axes_of(axis, x.ndim), keepdims=keepdims)


def reduce_min(x, *, axis=None, keepdims=False):
    """Smallest, NaN if there is one."""
    return np.min(x, axis=axes_of(axis, x.ndim), keepdims=keepdims)


def argmax(x, *, axis=None, keepdims=False):
    """Position of the first largest within the reduced axes in row-major order; the first NaN wins."""
    rows, _ = as_rows(x, axis)
    return shaped(rows.argmax(1).astype(np.int64), x, axis, keepdims)


@quiet
def logsumexp(x, *, axis=None, keepdims=False):
    """log Σ exp x."""
    rows, _ = as_rows(x, axis)
    top = rows.max(1, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0)
    return shaped(np.log(np.exp(rows - shift[:, None]).sum(1)) + shift, x, axis, keepdims)


def reduce_sum_backward(output_grad, original_shape, *, axis=None, keepdims=False):
    """Repeat the gradient."""
    return spread(output_grad, original_shape, axis, keepdims)


def reduce_mean_backward(output_grad, original_shape, *, axis=None, keepdims=False):
    """Repeat the gradient, divided by the number of terms."""
    count = np.prod([original_shape[a] for a in axes_of(axis, len(original_shape))], dtype=np.float64)
    return spread(output_grad, original_shape, axis, keepdims) / max(count, 1)


def first_takes_all(output_grad, x, pick, axis):
    rows, back = as_rows(x, axis)
    grad = np.zeros(rows.shape)
    if rows.size:
        grad[np.arange(rows.shape[0]), pick(rows)] = np.reshape(output_grad, -1)
    return back(grad)


def reduce_max_backward(output_grad, x, *, axis=None, keepdims=False):
    """The first largest takes the gradient."""
    return first_takes_all(output_grad, x, lambda rows: rows.argmax(1), axis)


def reduce_min_backward(output_grad, x, *, axis=None, keepdims=False):
    """The first smallest takes the gradient."""
    return first_takes_all(output_grad, x, lambda rows: rows.argmin(1), axis)


@quiet
def logsumexp_backward(output_grad, x, *, axis=None, keepdims=False):
    """g·exp(x − logsumexp x)."""
    total = spread(logsumexp(x, axis=axis, keepdims=True), x.shape, axis, True)
    return spread(output_grad, x.shape, axis, keepdims) * np.exp(x - total)


@quiet
def log_softmax(x, *, axis=-1, scale=1.0):
    """x − logsumexp x."""
    x = x * scale
    shifted = x - x.max(axis, keepdims=True) if x.size else x
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


@quiet
def softmax(x, *, axis=-1, scale=1.0):
    """exp x / Σ exp x, of x·scale."""
    x = x * scale
    e = np.exp(x - x.max(axis, keepdims=True)) if x.size else x
    return e / e.sum(axis, keepdims=True)


def softmax_backward(output_grad, output, *, axis, scale=1.0):
    """s∘(g − Σ g s), times scale."""
    return scale * output * (output_grad - (output_grad * output).sum(axis, keepdims=True))


def log_softmax_backward(output_grad, output, *, axis, scale=1.0):
    """g − softmax·Σ g, times scale."""
    return scale * (output_grad - np.exp(output) * output_grad.sum(axis, keepdims=True))


def target_weights(logits, targets, ignore_index, label_smoothing):
    """The distribution each row is compared with (zeros for an ignored row), and which rows count."""
    n, c = logits.shape
    counts = np.ones(n, bool) if ignore_index is None else targets != ignore_index
    weights = np.full((n, c), label_smoothing / c)
    for row in range(n):
        if counts[row]:
            weights[row, targets[row]] += 1 - label_smoothing
        else:
            weights[row] = 0
    return weights, counts


@quiet
def cross_entropy(logits, targets, *, reduction="mean", ignore_index=None, label_smoothing=0.0):
    """−Σ_c weights·log_softmax, the mean over the rows that count."""
    weights, counts = target_weights(logits, targets, ignore_index, label_smoothing)
    losses = -np.where(weights != 0, weights * log_softmax(logits), 0.0).sum(1)
    if reduction == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / np.float64(counts.sum())


@quiet
def cross_entropy_backward(output_grad, logits, targets, *, reduction="mean", ignore_index=None, label_smoothing=0.0):
    """(softmax − weights)·g for the rows that count."""
    weights, counts = target_weights(logits, targets, ignore_index, label_smoothing)
    grad = np.where(counts[:, None], softmax(logits) - weights, 0.0)
    if reduction == "none":
        return grad * output_grad[:, None]
    return grad * output_grad / (counts.sum() if reduction == "mean" else 1)


@quiet
def mse_loss(input, target, *, reduction="mean"):
    """(input − target)²."""
    squares = (input - target) ** 2
    if reduction == "none":
        return squares
    return squares.sum() if reduction == "sum" else squares.sum() / np.float64(squares.size)


def mse_loss_backward(output_grad, input, target, *, reduction="mean"):
    """±2(input − target)·g."""
    grad = 2 * (input - target) * output_grad / (max(input.size, 1) if reduction == "mean" else 1)
    return grad, -grad
