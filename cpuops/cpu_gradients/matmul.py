"""Gradients of the matmul family by kernel: one product each, which takes any strides and sums over batch axes itself."""

import numpy as np

from .. import _alloc
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
        dtype = g.dtype
        lhs_grad, rhs_grad = _alloc.empty(lhs.shape, dtype), _alloc.empty(rhs.shape, dtype)
        work = product_ns(g.shape, lhs.shape[-1])
        a, b, lhs_bits, rhs_bits = lhs, rhs, 0, 0
        if a.ndim != 2 or b.ndim != 2:
            if rhs.ndim == 1:
                b, g = rhs[:, None], g[..., None]
            if lhs.ndim == 1:
                a, g = lhs[None, :], np.expand_dims(g, -2)
            lhs_bits, rhs_bits = _summed(a.shape, g.ndim), _summed(b.shape, g.ndim)
        self._run("matmul.matmul", dtype, work, g, b.swapaxes(-1, -2), None, lhs_grad, lhs_bits)
        self._run("matmul.matmul", dtype, work, a.swapaxes(-1, -2), g, None, rhs_grad, rhs_bits)
        return lhs_grad, rhs_grad


def _summed(shape, ndim):
    """Bits of the batch axes of a product of `ndim` axes that an operand of that shape was broadcast along."""
    missing = ndim - len(shape)
    bits = (1 << missing) - 1
    for i, n in enumerate(shape[:-2]):
        if n == 1:
            bits |= 1 << (missing + i)
    return bits
