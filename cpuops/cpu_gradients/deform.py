"""Gradient kernels of deformable convolution."""


class DeformKernelGradients:
    """The hooks of :class:`cpuops.ops.deform.DeformGradients`, on kernels."""

    def _deform_conv2d_backward(self, x, offset, weight, mask, g, geometry, x_grad, offset_grad, weight_grad, mask_grad):
        grads = x_grad, offset_grad, weight_grad, mask_grad
        self._run("deform.deform_conv2d_backward", g.dtype, 3 * geometry.work, x, offset, weight, mask, g, *grads, geometry)
