"""Gradients of normalisation by kernel."""

from ..ops.norm import _cost


class NormKernelGradients:
    """Hooks of :class:`cpuops.ops.norm.NormGradients`."""

    def _batch_norm_backward(self, x, gamma, mean, variance, epsilon, g, shape, train, out, gamma_grad, beta_grad):
        operands = x, gamma, mean, variance, g, out, gamma_grad, beta_grad
        self._run("norm.batch_backward", x.dtype, _cost(x, 5), *operands, shape, epsilon, train)
        return out, gamma_grad, beta_grad

    def _rows_norm_backward(self, x, gamma, epsilon, g, shape, centre, out, gamma_grad, beta_grad):
        operands = x, gamma, g, None, out, gamma_grad, beta_grad
        self._run("norm.rows_backward", x.dtype, _cost(x, 5), *operands, shape, epsilon, centre)
        return out, gamma_grad, beta_grad

    def _add_norm_backward(self, total, gamma, epsilon, g, more, shape, centre, out, gamma_grad, beta_grad):
        operands = total, gamma, g, more, out, gamma_grad, beta_grad
        self._run("norm.rows_backward", total.dtype, _cost(total, 6), *operands, shape, epsilon, centre)
        return out, gamma_grad, beta_grad
