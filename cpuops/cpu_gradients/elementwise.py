"""Gradient kernels of elementwise operations and activations."""

from .._memory import empty
from ..ops.elementwise import cost
from ..results import PairGrads

FEWEST_COLUMNS = 64  # of a row that all rows of the other operand share; narrower ones are summed faster apart


class ElementwiseKernelGradients:
    def _unary_backward(self, name, index, g, x, out, p, q):
        self._run("elementwise.unary_backward", x.dtype, cost(name, x.size), index, g, x, out, x.size, p, q)
        return out

    def _pair_backward(self, name, index, g, x, y):
        if x.shape != y.shape:
            return self._broadcast_pair_backward(name, index, g, x, y)
        x_grad, y_grad, n = empty(x.shape, x.dtype), empty(x.shape, x.dtype), x.size
        self._run("elementwise.binary_backward", x.dtype, cost(name, 2 * n), index, g, x, y, x_grad, y_grad, 1, n, n, 0, 1, 0, 1)
        return PairGrads(x_grad, y_grad)

    def _broadcast_pair_backward(self, name, index, g, x, y):
        row_is_x = x.ndim < y.ndim
        row, full = (x, y) if row_is_x else (y, x)
        if row.size < FEWEST_COLUMNS or row.shape != g.shape[g.ndim - row.ndim :] or full.shape != g.shape or not g.size:
            return super()._pair_backward(name, index, g, x, y)  # the sums over broadcast axes are the forward's own kernels
        full_grad, row_grad, n = empty(g.shape, g.dtype), empty(row.shape, g.dtype), row.size
        self._run("elementwise.binary_backward_rows", g.dtype, cost(name, 2 * g.size), index, g, full, row, row_is_x, full_grad,
                  row_grad, g.size // n, n)  # fmt: skip
        return PairGrads(row_grad, full_grad) if row_is_x else PairGrads(full_grad, row_grad)
