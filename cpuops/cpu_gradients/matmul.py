"""Gradients of the matmul family by kernel: one product each, which takes any strides and sums over batch axes itself."""

import numpy as np

from .. import _alloc, _threads
from ..ops.matmul import product_ns

__all__ = ["MatmulKernelGradients"]


class MatmulKernelGradients:
    """Hooks of the products."""

    def _linear_x_backward(self, w, g, out):
        self._run("matmul.matmul", w.dtype, product_ns(out.shape, w.shape[1]), g, w.T, None, out, 0)
        return out

    def _linear_weight_backward(self, x, g, out):
        if x.ndim == 1:
            x, g = x[None], g[None]
        work = product_ns(out.shape, x.size // (x.shape[-1] or 1))
        self._run("matmul.matmul", g.dtype, work, x.swapaxes(-1, -2), g, None, out, (1 << (x.ndim - 2)) - 1)
        return out

    def _matmul_backward(self, g, lhs, rhs):
        work = _threads.work(bytes_=(g.size + lhs.size + rhs.size) * g.itemsize, flops=2 * g.size * lhs.shape[-1])
        a = lhs if lhs.ndim > 1 else lhs[None, :]
        b = rhs if rhs.ndim > 1 else rhs[:, None]
        if lhs.ndim == 1:
            g = np.expand_dims(g, -1 if rhs.ndim == 1 else -2)
        if rhs.ndim == 1:
            g = g[..., None]
        lhs_grad, rhs_grad = _alloc.empty(lhs.shape, g.dtype), _alloc.empty(rhs.shape, g.dtype)
        self._run("matmul.matmul", g.dtype, work, g, np.swapaxes(b, -1, -2), None, lhs_grad, _summed(a.shape, g.ndim))
        self._run("matmul.matmul", g.dtype, work, np.swapaxes(a, -1, -2), g, None, rhs_grad, _summed(b.shape, g.ndim))
        return lhs_grad, rhs_grad


def _summed(shape, ndim):
    """Bits of the batch axes of a product of `ndim` axes that an operand of that shape was broadcast along."""
    missing = ndim - len(shape)
    bits = (1 << missing) - 1
    for i, n in enumerate(shape[:-2]):
        if n == 1:
            bits |= 1 << (missing + i)
    return bits
