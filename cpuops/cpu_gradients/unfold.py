"""Gradient kernels of unfold4d and fold4d: those of the other one's forward pass."""

from .. import _threads


class UnfoldKernelGradients:
    """The hooks of :class:`cpuops.ops.unfold.UnfoldGradients`, on kernels."""

    def _unfold4d_backward(self, g, size, kernel, options, geometry, out):
        planes = out.shape[0] * out.shape[1]
        self._run("unfold.fold", g.dtype, _threads.work(bytes_=g.nbytes + out.nbytes), g, out, planes, geometry)
        return out

    def _fold4d_backward(self, g, kernel, options, geometry, out):
        planes = g.shape[0] * g.shape[1]
        self._run("unfold.unfold", g.dtype, _threads.work(bytes_=g.nbytes + out.nbytes), g, out, planes, geometry)
        return out
