"""Gradient kernels of elementwise operations and activations."""

from .._memory import empty
from ..ops.elementwise import cost
from ..results import PairGrads


class ElementwiseKernelGradients:
    def _unary_backward(self, name, index, g, x, out, p, q):
        self._run("elementwise.unary_backward", x.dtype, cost(name, x.size), index, g, x, out, x.size, p, q)
        return out

    def _pair_backward(self, name, index, g, x, y):
        if x.shape != y.shape:  # the sums over broadcast axes are the forward's own kernels
            return super()._pair_backward(name, index, g, x, y)
        x_grad, y_grad, n = empty(x.shape, x.dtype), empty(x.shape, x.dtype), x.size
        self._run("elementwise.binary_backward", x.dtype, cost(name, 2 * n), index, g, x, y, x_grad, y_grad, 1, n, n, 0, 1, 0, 1)
        return PairGrads(x_grad, y_grad)
