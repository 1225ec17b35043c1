"""Batch, layer, RMS, group and instance normalisation, and their gradients.

Letters: B batch, C channels, G groups, D features, S cells that share a channel. In every formula
xhat = (x − mean) / sqrt(variance + epsilon).
"""

import math

import numpy as np

from .. import _alloc, _check, _threads, results
from ..errors import ArgumentError, ShapeError, message

__all__ = ["Norm", "NormGradients"]


def _cost(x, passes):
    """Nanoseconds on one thread; `passes` counts how often an array of x's size is read from memory or written."""
    return _threads.work(bytes_=passes * x.nbytes)


def _operands(op, names, values, optional=()):
    """x and further arrays of one dtype; those of `optional` may be None."""
    if isinstance(values[0], np.generic):
        raise ShapeError(message(op, names[0], "a scalar (0 axes)", "an array with axes"))
    for name, value in zip(names, values, strict=True):
        if value is None and name not in optional:
            return _check.required(op, (name,), (value,))
    return _check.floatings(op, names, values)


def _vector(op, name, a, n, whose):
    """Refuse a parameter that has not one entry a channel."""
    if a is not None:
        _check.shape(op, name, a, (n,), f"one entry {whose}")


def _channels(op, x, names, vectors):
    """Shape (B, 1, C, S) of a batch, whose parameters are checked."""
    _check.rank(op, "x", x, 2, 64)
    for name, v in zip(names, vectors, strict=True):
        _vector(op, name, v, x.shape[1], "a channel")
    return (x.shape[0], 1, x.shape[1], math.prod(x.shape[2:]))


def _features(op, x, names, vectors, name_of_x="x"):
    """Shape (B, 1, D, 1) of rows along the last axis, whose parameters are checked."""
    _check.rank(op, name_of_x, x, 1, 64)
    for name, v in zip(names, vectors, strict=True):
        _vector(op, name, v, x.shape[-1], f"a feature of {name_of_x}'s last axis")
    return (math.prod(x.shape[:-1]), 1, x.shape[-1], 1)


def _groups(op, x, num_groups, names, vectors):
    """Shape (B, G, C / G, S) of groups of channels, whose parameters are checked."""
    batch, _, channels, run = _channels(op, x, names, vectors)
    groups = _check.integer(op, "num_groups", num_groups, 1)
    if channels % groups:
        raise ArgumentError(message(op, "num_groups", str(groups), f"a divisor of x's {channels} channels"))
    return (batch, groups, channels // groups, run)


def _instances(op, x, names, vectors):
    """The same with a group a channel."""
    batch, _, channels, run = _channels(op, x, names, vectors)
    return (batch, channels, 1, run)


class Norm:
    """Forward normalisation: statistics in two passes and in double precision, whatever the mean."""

    def batch_norm(self, x, gamma, beta, mean, variance, epsilon, *, out=None):
        """Normalise channels by given statistics: output = xhat · gamma + beta.

        Parameters
        ----------
        x : ndarray [B, C, ...]
        gamma, beta, mean, variance : ndarray [C]
        epsilon : float
            Added to the variance; finite, not negative.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError
            When x has no channel axis or a parameter has not C entries.
        DTypeError
            When an operand is no float32 or float64 array, or they differ.
        ArgumentError
            When epsilon is negative or not finite.

        Notes
        -----
        Gradient: `batch_norm_backward`.
        """
        names = ("x", "gamma", "beta", "mean", "variance")
        xa, *vectors = _operands("batch_norm", names, (x, gamma, beta, mean, variance))
        shape = _channels("batch_norm", xa, names[1:], vectors)
        epsilon = _check.epsilon("batch_norm", epsilon)
        out = _alloc.output("batch_norm", out, xa.shape, xa.dtype, (x, gamma, beta, mean, variance))
        self._run("norm.batch", xa.dtype, _cost(xa, 2), xa, *vectors, out, shape, epsilon, False)
        return out

    def batch_norm_train(self, x, gamma, beta, epsilon):
        """Normalise channels by the statistics of the batch: output = xhat · gamma + beta.

        Parameters
        ----------
        x : ndarray [B, C, ...]
        gamma, beta : ndarray [C]
        epsilon : float
            Added to the variance; finite, not negative.

        Returns
        -------
        BatchNormTrain
            (output, mean, variance): mean and (biased) variance [C] over batch and space. An empty batch gives an empty
            output and zeros.

        Raises
        ------
        ShapeError, DTypeError
            As for :meth:`batch_norm`.
        ArgumentError
            When epsilon is negative or not finite, or a channel has one value only.

        Notes
        -----
        Gradient: `batch_norm_train_backward`.
        """
        xa, gamma, beta = _operands("batch_norm_train", ("x", "gamma", "beta"), (x, gamma, beta))
        shape = _channels("batch_norm_train", xa, ("gamma", "beta"), (gamma, beta))
        epsilon = _check.epsilon("batch_norm_train", epsilon)
        if shape[0] * shape[3] == 1:
            raise ArgumentError(message("batch_norm_train", "x", f"of shape {xa.shape}", "more than one value a channel"))
        if xa.size == 0:
            mean, variance = _alloc.zeros(gamma.shape, xa.dtype), _alloc.zeros(gamma.shape, xa.dtype)
            return results.BatchNormTrain(_alloc.empty(xa.shape, xa.dtype), mean, variance)
        out = _alloc.empty(xa.shape, xa.dtype)
        mean, variance = _alloc.empty(gamma.shape, xa.dtype), _alloc.empty(gamma.shape, xa.dtype)
        self._run("norm.batch", xa.dtype, _cost(xa, 4), xa, gamma, beta, mean, variance, out, shape, epsilon, True)
        return results.BatchNormTrain(out, mean, variance)

    def layer_norm(self, x, gamma, beta=None, epsilon=1e-5, *, out=None):
        """Normalise the last axis: output = xhat · gamma + beta.

        Parameters
        ----------
        x : ndarray [..., D]
        gamma : ndarray [D]
        beta : ndarray [D], optional
        epsilon : float
            Added to the variance; finite, not negative.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError
            When x is 0-dimensional or a parameter has not D entries.
        DTypeError
            When an operand is no float32 or float64 array, or they differ.
        ArgumentError
            When epsilon is negative or not finite.

        Notes
        -----
        Ba et al. 2016. A NaN or an infinity stays in its row. Gradient: `layer_norm_backward`.
        """
        names = ("x", "gamma", "beta")
        xa, gamma_, beta_ = _operands("layer_norm", names, (x, gamma, beta), ("beta",))
        shape = _features("layer_norm", xa, names[1:], (gamma_, beta_))
        return self._rows("layer_norm", shape, xa, gamma_, beta_, epsilon, True, out, (x, gamma, beta))

    def rms_norm(self, x, gamma, epsilon=1e-5, *, out=None):
        """Divide the last axis by its root mean square: output = x / sqrt(mean(x²) + epsilon) · gamma.

        Parameters
        ----------
        x : ndarray [..., D]
        gamma : ndarray [D]
        epsilon : float
            Added to the mean square; finite, not negative.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As for :meth:`layer_norm`.

        Notes
        -----
        Zhang and Sennrich 2019. Gradient: `rms_norm_backward`.
        """
        xa, gamma_ = _operands("rms_norm", ("x", "gamma"), (x, gamma))
        shape = _features("rms_norm", xa, ("gamma",), (gamma_,))
        return self._rows("rms_norm", shape, xa, gamma_, None, epsilon, False, out, (x, gamma))

    def group_norm(self, x, num_groups, gamma=None, beta=None, epsilon=1e-5, *, out=None):
        """Normalise groups of channels of each sample: output = xhat · gamma + beta.

        Parameters
        ----------
        x : ndarray [B, C, ...]
        num_groups : int
            How many groups the channels make, neighbours together; a divisor of C.
        gamma, beta : ndarray [C], optional
        epsilon : float
            Added to the variance; finite, not negative.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError
            When x has no channel axis or a parameter has not C entries.
        DTypeError
            When an operand is no float32 or float64 array, or they differ.
        ArgumentError
            When num_groups does not divide C, or epsilon is negative or not finite.

        Notes
        -----
        Wu and He 2018. Gradient: `group_norm_backward`.
        """
        names = ("x", "gamma", "beta")
        xa, gamma_, beta_ = _operands("group_norm", names, (x, gamma, beta), ("gamma", "beta"))
        shape = _groups("group_norm", xa, num_groups, names[1:], (gamma_, beta_))
        return self._rows("group_norm", shape, xa, gamma_, beta_, epsilon, True, out, (x, gamma, beta))

    def instance_norm(self, x, gamma=None, beta=None, epsilon=1e-5, *, out=None):
        """Normalise each channel of each sample: output = xhat · gamma + beta.

        Parameters
        ----------
        x : ndarray [B, C, ...]
        gamma, beta : ndarray [C], optional
        epsilon : float
            Added to the variance; finite, not negative.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As for :meth:`group_norm`.

        Notes
        -----
        Ulyanov et al. 2016: :meth:`group_norm` with a group a channel. Gradient: `instance_norm_backward`.
        """
        names = ("x", "gamma", "beta")
        xa, gamma_, beta_ = _operands("instance_norm", names, (x, gamma, beta), ("gamma", "beta"))
        shape = _instances("instance_norm", xa, names[1:], (gamma_, beta_))
        return self._rows("instance_norm", shape, xa, gamma_, beta_, epsilon, True, out, (x, gamma, beta))

    def _rows(self, op, shape, x, gamma, beta, epsilon, centre, out, operands):
        epsilon = _check.epsilon(op, epsilon)
        out = _alloc.output(op, out, x.shape, x.dtype, operands)
        self._run("norm.rows", x.dtype, _cost(x, 3), x, None, None, gamma, beta, out, shape, epsilon, centre)
        return out


class NormGradients:
    """Gradients of normalisation; each public method checks and ends in a hook."""

    def batch_norm_backward(self, x, gamma, mean, variance, epsilon, output_grad):
        """Differentiate `batch_norm`: mean and variance are constants.

        x_grad = output_grad · gamma / sqrt(variance + epsilon).

        Parameters
        ----------
        x : ndarray [B, C, ...]
        gamma, mean, variance : ndarray [C]
        epsilon : float
        output_grad : ndarray of x's shape

        Returns
        -------
        BatchNormGrads
            (x_grad, gamma_grad = Σ output_grad · xhat, beta_grad = Σ output_grad), sums over batch and space.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not x's shape.
        """
        grads = self._batch_back("batch_norm_backward", x, gamma, mean, variance, epsilon, output_grad, False)
        return results.BatchNormGrads(*grads)

    def batch_norm_train_backward(self, x, gamma, mean, variance, epsilon, output_grad):
        """Differentiate `batch_norm_train`: mean and variance are those of x.

        x_grad = gamma / sqrt(variance + epsilon) · (output_grad − Σ output_grad / n − xhat · Σ (output_grad · xhat) / n)
        with sums over a channel's n cells.

        Parameters
        ----------
        x : ndarray [B, C, ...]
        gamma : ndarray [C]
        mean, variance : ndarray [C]
            As the forward returned them.
        epsilon : float
        output_grad : ndarray of x's shape

        Returns
        -------
        BatchNormTrainGrads
            (x_grad, gamma_grad = Σ output_grad · xhat, beta_grad = Σ output_grad).

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not x's shape.

        Notes
        -----
        Ioffe and Szegedy 2015. Gradients that arrive at mean and variance themselves are not part of it.
        """
        grads = self._batch_back("batch_norm_train_backward", x, gamma, mean, variance, epsilon, output_grad, True)
        return results.BatchNormTrainGrads(*grads)

    def layer_norm_backward(self, x, gamma, epsilon, output_grad):
        """Differentiate `layer_norm`; the statistics are computed again from x.

        x_grad = (h − Σ h / D − xhat · Σ (h · xhat) / D) / sqrt(variance + epsilon) with h = output_grad · gamma and sums
        over a row.

        Parameters
        ----------
        x : ndarray [..., D]
        gamma : ndarray [D]
        epsilon : float
        output_grad : ndarray of x's shape

        Returns
        -------
        LayerNormGrads
            (x_grad, gamma_grad = Σ output_grad · xhat, beta_grad = Σ output_grad), sums over all rows.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not x's shape.
        """
        op = "layer_norm_backward"
        xa, gamma, g = _operands(op, ("x", "gamma", "output_grad"), (x, gamma, output_grad))
        shape = _features(op, xa, ("gamma",), (gamma,))
        return results.LayerNormGrads(*self._rows_back(op, shape, xa, gamma, g, epsilon, True))

    def rms_norm_backward(self, x, gamma, epsilon, output_grad):
        """Differentiate `rms_norm`; the mean square is computed again from x.

        x_grad = (h − xhat · Σ (h · xhat) / D) / sqrt(mean(x²) + epsilon) with h = output_grad · gamma and sums over a row.

        Parameters
        ----------
        x : ndarray [..., D]
        gamma : ndarray [D]
        epsilon : float
        output_grad : ndarray of x's shape

        Returns
        -------
        RmsNormGrads
            (x_grad, gamma_grad = Σ output_grad · xhat), the sum over all rows.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not x's shape.
        """
        op = "rms_norm_backward"
        xa, gamma, g = _operands(op, ("x", "gamma", "output_grad"), (x, gamma, output_grad))
        shape = _features(op, xa, ("gamma",), (gamma,))
        return results.RmsNormGrads(*self._rows_back(op, shape, xa, gamma, g, epsilon, False)[:2])

    def group_norm_backward(self, x, num_groups, gamma, epsilon, output_grad):
        """Differentiate `group_norm`; the statistics are computed again from x.

        x_grad = (h − Σ h / n − xhat · Σ (h · xhat) / n) / sqrt(variance + epsilon) with h = output_grad · gamma and sums
        over the n cells of a group.

        Parameters
        ----------
        x : ndarray [B, C, ...]
        num_groups : int
        gamma : ndarray [C] or None
            None counts as ones.
        epsilon : float
        output_grad : ndarray of x's shape

        Returns
        -------
        GroupNormGrads
            (x_grad, gamma_grad = Σ output_grad · xhat, beta_grad = Σ output_grad), sums over batch and space; also
            without gamma or beta.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not x's shape.
        """
        op = "group_norm_backward"
        xa, gamma, g = _operands(op, ("x", "gamma", "output_grad"), (x, gamma, output_grad), ("gamma",))
        shape = _groups(op, xa, num_groups, ("gamma",), (gamma,))
        return results.GroupNormGrads(*self._rows_back(op, shape, xa, gamma, g, epsilon, True))

    def instance_norm_backward(self, x, gamma, epsilon, output_grad):
        """Differentiate `instance_norm`: `group_norm_backward` with a group a channel.

        Parameters
        ----------
        x : ndarray [B, C, ...]
        gamma : ndarray [C] or None
            None counts as ones.
        epsilon : float
        output_grad : ndarray of x's shape

        Returns
        -------
        InstanceNormGrads
            (x_grad, gamma_grad = Σ output_grad · xhat, beta_grad = Σ output_grad), sums over batch and space; also
            without gamma or beta.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not x's shape.
        """
        op = "instance_norm_backward"
        xa, gamma, g = _operands(op, ("x", "gamma", "output_grad"), (x, gamma, output_grad), ("gamma",))
        shape = _instances(op, xa, ("gamma",), (gamma,))
        return results.InstanceNormGrads(*self._rows_back(op, shape, xa, gamma, g, epsilon, True))

    def _batch_back(self, op, x, gamma, mean, variance, epsilon, output_grad, train):
        names = ("x", "gamma", "mean", "variance", "output_grad")
        x, gamma, mean, variance, g = _operands(op, names, (x, gamma, mean, variance, output_grad))
        shape = _channels(op, x, names[1:4], (gamma, mean, variance))
        epsilon = _check.epsilon(op, epsilon)
        _check.shape(op, "output_grad", g, x.shape, "x's shape")
        out = _alloc.empty(x.shape, x.dtype)
        gamma_grad, beta_grad = _alloc.zeros(gamma.shape, x.dtype), _alloc.zeros(gamma.shape, x.dtype)
        if not x.size:  # sums over no cells
            return out, gamma_grad, beta_grad
        return self._batch_norm_backward(x, gamma, mean, variance, epsilon, g, shape, train, out, gamma_grad, beta_grad)

    def _rows_back(self, op, shape, x, gamma, g, epsilon, centre):
        epsilon = _check.epsilon(op, epsilon)
        _check.shape(op, "output_grad", g, x.shape, "x's shape")
        out = _alloc.empty(x.shape, x.dtype)
        channels = (shape[1] * shape[2],)
        gamma_grad, beta_grad = _alloc.zeros(channels, x.dtype), _alloc.zeros(channels, x.dtype)
        if not x.size:  # sums over no cells
            return out, gamma_grad, beta_grad
        return self._rows_norm_backward(x, gamma, epsilon, g, shape, centre, out, gamma_grad, beta_grad)

    # ---- the hooks: shape is (B, G, C, S), and the rows (b, g) or the channels have one mean each

    def _batch_norm_backward(self, x, gamma, mean, variance, epsilon, g, shape, train, out, gamma_grad, beta_grad):
        batch, _, channels, run = shape
        x, g = (a.reshape(batch, channels, run).astype(np.float64) for a in (x, g))
        gamma, mean, variance = (a.astype(np.float64)[:, None] for a in (gamma, mean, variance))
        rstd = 1 / np.sqrt(variance + epsilon)
        xhat = (x - mean) * rstd
        beta_grad[...] = g.sum((0, 2))
        gamma_grad[...] = (g * xhat).sum((0, 2))
        if train:
            g = g - g.mean((0, 2), keepdims=True) - xhat * (g * xhat).mean((0, 2), keepdims=True)
        out[...] = (gamma * rstd * g).reshape(out.shape)
        return out, gamma_grad, beta_grad

    def _rows_norm_backward(self, x, gamma, epsilon, g, shape, centre, out, gamma_grad, beta_grad):
        x, g = (a.reshape(shape).astype(np.float64) for a in (x, g))
        weight = 1.0 if gamma is None else gamma.astype(np.float64).reshape(*shape[1:3], 1)
        rows = (2, 3)
        xhat = x - x.mean(rows, keepdims=True) if centre else x
        rstd = 1 / np.sqrt((xhat * xhat).mean(rows, keepdims=True) + epsilon)
        xhat = xhat * rstd
        h = g * weight
        x_grad = h - xhat * (h * xhat).mean(rows, keepdims=True)
        if centre:
            x_grad -= h.mean(rows, keepdims=True)
        out[...] = (rstd * x_grad).reshape(out.shape)
        gamma_grad[...] = (g * xhat).sum((0, 3)).reshape(-1)
        beta_grad[...] = g.sum((0, 3)).reshape(-1)
        return out, gamma_grad, beta_grad
