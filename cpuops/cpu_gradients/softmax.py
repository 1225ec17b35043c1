"""Gradient kernels of softmax and log-softmax."""

from ..ops.softmax import BACKWARD_NS, FORWARD_NS, around


class SoftmaxKernelGradients:
    """The hooks of :class:`cpuops.ops.softmax.SoftmaxGradients`, on kernels."""

    def _softmax_backward(self, g, s, axis, scale, out):
        self._run("softmax.softmax_backward", s.dtype, s.size * BACKWARD_NS, g, s, out, *around(s.shape, axis), False, scale)
        return out

    def _log_softmax_backward(self, g, y, axis, scale, out):
        self._run("softmax.softmax_backward", y.dtype, y.size * FORWARD_NS, g, y, out, *around(y.shape, axis), True, scale)
        return out
