"""Gradient kernels of convolution."""

import math

from .. import _threads


class ConvKernelGradients:
    """The hooks of :class:`cpuops.ops.conv_gradients.ConvGradients`, on kernels."""

    def _conv_x_backward(self, w, g, geometry, out):
        self._run("conv.conv_x_backward", g.dtype, geometry.work, w, g, None, out, geometry.numbers)
        return out

    def _conv_weight_backward(self, x, g, geometry, out):
        self._run("conv.conv_weight_backward", g.dtype, geometry.work, x, g, out, geometry.numbers)
        return out

    def _conv_bias_backward(self, g, channel, out):
        inner = math.prod(g.shape[channel + 1 :])
        outer = math.prod(g.shape[:channel])
        self._run("conv.conv_bias_backward", g.dtype, _threads.work(bytes_=g.nbytes), g, out, outer, g.shape[channel], inner)
        return out
