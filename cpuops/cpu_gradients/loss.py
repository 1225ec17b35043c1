"""Gradient kernels of the losses."""

from .. import _threads
from ..ops.loss import EXP_NS


class LossKernelGradients:
    """The hooks of :class:`cpuops.ops.loss.LossGradients`, on kernels."""

    def _cross_entropy_backward(self, g, x, labels, scale, ignore, smoothing, out):
        options = (scale, ignore is not None, ignore or 0, smoothing)
        self._run("loss.cross_entropy_backward", x.dtype, x.size * EXP_NS, g, x, labels, out, *x.shape, *options)
        return out

    def _mse_loss_backward(self, g, x, y, each, scale, x_grad, y_grad):
        cost = _threads.work(bytes_=4 * y.nbytes)
        self._run("loss.mse_loss_backward", y.dtype, cost, g, x, y, x_grad, y_grad, y.size, each, scale)
