"""Gradient kernels of convolution."""

import math

from .. import _threads
from ..ops.conv import _work


class ConvKernelGradients:
    """The hooks of :class:`cpuops.ops.conv.ConvGradients`, on kernels."""

    def _conv_x_backward(self, w, g, geometry, out):
        self._run("conv.conv_x_backward", g.dtype, _work(geometry), w, g, None, out, geometry)
        return out

    def _conv_weight_backward(self, x, g, geometry, out):
        self._run("conv.conv_weight_backward", g.dtype, _work(geometry), x, g, out, geometry)
        return out

    def _conv_bias_backward(self, g, channel, out):
        inner = math.prod(g.shape[channel + 1 :])
        outer = math.prod(g.shape[:channel])
        self._run("conv.conv_bias_backward", g.dtype, _threads.work(bytes_=g.nbytes), g, out, outer, g.shape[channel], inner)
        return out
