"""A residual added and the sum normalised in one pass over memory, and the gradients.

    add_layer_norm(x, residual, …)   sum = x + residual, output = layer_norm(sum, …)
    add_rms_norm(x, residual, …)     sum = x + residual, output = rms_norm(sum, …)

These are bound by memory: a row of the sum is normalised while it is in the cache, so that of five passes over memory (two read
and one written to add, one read and one written to normalise) four are left, and of the gradient's six likewise five.
D features.
"""

import numpy as np

from .. import _alloc, _check, results
from .norm import _cost, _features, _operands

__all__ = ["AddNorm", "AddNormGradients"]


class AddNorm:
    """Forward: both results, for the sum is the next layer's residual."""

    def add_layer_norm(self, x, residual, gamma, beta=None, epsilon=1e-5):
        """Add a residual and normalise the last axis: sum = x + residual, output = xhat · gamma + beta, xhat of the sum.

        Parameters
        ----------
        x : ndarray [..., D]
        residual : ndarray of x's shape
        gamma : ndarray [D]
        beta : ndarray [D], optional
        epsilon : float
            Added to the variance; finite, not negative.

        Returns
        -------
        AddLayerNorm
            (output, sum), both of x's shape.

        Raises
        ------
        ShapeError
            When x is 0-dimensional, residual has another shape or a parameter has not D entries.
        DTypeError
            When an operand is no float32 or float64 array, or they differ.
        ArgumentError
            When epsilon is negative or not finite.

        Notes
        -----
        The bits of `add` and `layer_norm` after each other, in one pass over memory. Gradient: `add_layer_norm_backward`.
        """
        return results.AddLayerNorm(*self._add_norm("add_layer_norm", x, residual, gamma, beta, epsilon, True))

    def add_rms_norm(self, x, residual, gamma, epsilon=1e-5):
        """Add a residual and divide by the root mean square: sum = x + residual, output = sum / √(mean(sum²) + ε) · gamma.

        Parameters
        ----------
        x : ndarray [..., D]
        residual : ndarray of x's shape
        gamma : ndarray [D]
        epsilon : float
            Added to the mean square; finite, not negative.

        Returns
        -------
        AddRmsNorm
            (output, sum), both of x's shape.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As for :meth:`add_layer_norm`.

        Notes
        -----
        The bits of `add` and `rms_norm` after each other, in one pass over memory. Gradient: `add_rms_norm_backward`.
        """
        return results.AddRmsNorm(*self._add_norm("add_rms_norm", x, residual, gamma, None, epsilon, False))

    def _add_norm(self, op, x, residual, gamma, beta, epsilon, centre):
        xa, residual, gamma, beta = _operands(op, ("x", "residual", "gamma", "beta"), (x, residual, gamma, beta), ("beta",))
        shape = _features(op, xa, ("gamma", "beta"), (gamma, beta))
        _check.shape(op, "residual", residual, xa.shape, "x's shape")
        epsilon = _check.epsilon(op, epsilon)
        out, total = _alloc.empty(xa.shape, xa.dtype), _alloc.empty(xa.shape, xa.dtype)
        self._run("norm.rows", xa.dtype, _cost(xa, 5), xa, residual, total, gamma, beta, out, shape, epsilon, centre)
        return out, total


class AddNormGradients:
    """Gradients: of the operation, from what arrives at both of its results."""

    def add_layer_norm_backward(self, sum, gamma, epsilon, output_grad, sum_grad=None):
        """Differentiate `add_layer_norm`: x_grad = residual_grad = sum_grad + what `layer_norm_backward` gives for the sum.

        Parameters
        ----------
        sum : ndarray [..., D]
            As the forward returned it.
        gamma : ndarray [D]
        epsilon : float
        output_grad : ndarray of sum's shape
        sum_grad : ndarray of sum's shape, optional
            The gradient that arrives at `sum`, which the next layer adds to.

        Returns
        -------
        AddLayerNormGrads
            (x_grad, residual_grad, gamma_grad = Σ output_grad · xhat, beta_grad = Σ output_grad), sums over all rows. The first
            two are one array.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad or sum_grad has not sum's shape.
        """
        op = "add_layer_norm_backward"
        x_grad, gamma_grad, beta_grad = self._add_norm_back(op, sum, gamma, epsilon, output_grad, sum_grad, True)
        return results.AddLayerNormGrads(x_grad, x_grad, gamma_grad, beta_grad)

    def add_rms_norm_backward(self, sum, gamma, epsilon, output_grad, sum_grad=None):
        """Differentiate `add_rms_norm`: x_grad = residual_grad = sum_grad + what `rms_norm_backward` gives for the sum.

        Parameters
        ----------
        sum : ndarray [..., D]
            As the forward returned it.
        gamma : ndarray [D]
        epsilon : float
        output_grad : ndarray of sum's shape
        sum_grad : ndarray of sum's shape, optional
            The gradient that arrives at `sum`, which the next layer adds to.

        Returns
        -------
        AddRmsNormGrads
            (x_grad, residual_grad, gamma_grad = Σ output_grad · xhat), the sum over all rows. The first two are one array.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad or sum_grad has not sum's shape.
        """
        op = "add_rms_norm_backward"
        x_grad, gamma_grad, _ = self._add_norm_back(op, sum, gamma, epsilon, output_grad, sum_grad, False)
        return results.AddRmsNormGrads(x_grad, x_grad, gamma_grad)

    def _add_norm_back(self, op, total, gamma, epsilon, output_grad, sum_grad, centre):
        names = ("sum", "gamma", "output_grad", "sum_grad")
        total, gamma, g, more = _operands(op, names, (total, gamma, output_grad, sum_grad), ("sum_grad",))
        shape = _features(op, total, ("gamma",), (gamma,), "sum")
        epsilon = _check.epsilon(op, epsilon)
        for name, value in (("output_grad", g), ("sum_grad", more)):
            if value is not None:
                _check.shape(op, name, value, total.shape, "sum's shape")
        out = _alloc.empty(total.shape, total.dtype)
        gamma_grad, beta_grad = _alloc.zeros(gamma.shape, total.dtype), _alloc.zeros(gamma.shape, total.dtype)
        if not total.size:  # sums over no cells
            return out, gamma_grad, beta_grad
        return self._add_norm_backward(total, gamma, epsilon, g, more, shape, centre, out, gamma_grad, beta_grad)

    def _add_norm_backward(self, total, gamma, epsilon, g, more, shape, centre, out, gamma_grad, beta_grad):
        self._rows_norm_backward(total, gamma, epsilon, g, shape, centre, out, gamma_grad, beta_grad)
        if more is not None:
            np.add(out, more, out=out)
        return out, gamma_grad, beta_grad
