"""Gradient kernels of transposed convolution: those of convolution, with x and output in each other's place."""


class ConvTransposeKernelGradients:
    """The hook of :class:`cpuops.ops.conv_transpose.ConvTransposeGradients`, on a kernel."""

    def _conv_transpose_x_backward(self, w, g, geometry, out):
        self._run("conv.conv_forward", g.dtype, geometry.work, g, w, None, out, geometry.numbers)
        return out
