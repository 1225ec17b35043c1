"""Gradient kernels of the reductions."""

import numpy as np

from .. import _threads
from .._memory import empty
from ..ops.reduce import EXP_NS_A_BYTE, INDEX, OPS, plan

DOUBLE = np.dtype(np.float64)


class ReduceKernelGradients:
    """The hooks of :class:`cpuops.ops.reduce.ReduceGradients`, on kernels."""

    def _reduce_sum_backward(self, g, axes, divisor, out):
        self._run("reduce.spread", g.dtype, _threads.work(bytes_=out.nbytes), g, out, divisor, plan(out.shape, axes))
        return out

    def _reduce_extreme_backward(self, g, x, axes, which, out):
        index, steps, cost = empty(g.shape, INDEX), plan(x.shape, axes), _threads.work(bytes_=x.nbytes)
        self._run("reduce.reduce", x.dtype, cost, OPS[which], x, index, None, 1.0, steps)
        self._run("reduce.place", x.dtype, cost, g, index, out, steps)
        return out

    def _logsumexp_backward(self, g, x, axes, out):
        m, sums, steps, cost = empty(g.shape, x.dtype), empty(g.shape, DOUBLE), plan(x.shape, axes), x.nbytes * EXP_NS_A_BYTE
        self._run("reduce.reduce", x.dtype, cost, OPS["logsumexp"], x, m, sums, 1.0, steps)
        self._run("reduce.logsumexp_backward", x.dtype, cost, g, x, m, sums, out, steps)
        return out
