"""Gradients of pooling by kernel."""


class PoolKernelGradients:
    """Hooks of :class:`cpuops.ops.pool.PoolGradients`."""

    def _max_pool_backward(self, x, g, geometry, out):
        self._run("pool.max_pool_backward", x.dtype, geometry.cost(x.itemsize, 3), g, x, out, geometry.for_kernel)
        return out

    def _max_pool_with_indices_backward(self, g, indices, geometry, out):
        self._run("pool.max_pool_scatter", g.dtype, geometry.cost(g.itemsize, 2), g, indices, out, geometry.for_kernel)
        return out

    def _avg_pool_backward(self, g, geometry, include_pad, divisor, out):
        self._run("pool.avg_pool_backward", g.dtype, geometry.cost(g.itemsize), g, out, geometry.for_kernel, include_pad, divisor)
        return out
