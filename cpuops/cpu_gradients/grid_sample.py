"""Gradients of sampling by kernel."""

from ..ops.grid_sample import cost, for_kernel


class GridSampleKernelGradients:
    """Hooks of :class:`cpuops.ops.grid_sample.GridSampleGradients`."""

    def _grid_sample_2d_backward(self, x, grid, g, options, x_grad, grid_grad):
        estimate, rest = cost(x, grid, options[0]), (x.shape, for_kernel(*options))
        self._run("grid_sample.x_gradient", x.dtype, estimate, grid, g, x_grad, *rest)
        if options[0] == "nearest":  # which is constant wherever it has a slope
            grid_grad[...] = 0
        else:
            self._run("grid_sample.grid_gradient", x.dtype, estimate, x, grid, g, grid_grad, *rest)
