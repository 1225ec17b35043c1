"""Gradient kernels of the activations that take more than one array; the others share elementwise's."""

import numpy as np

from .._memory import empty
from ..ops.activation import _prelu_steps
from ..ops.elementwise import BINARY, cost


class ActivationKernelGradients:
    def _prelu_backward(self, g, x, w):
        x_grad, each = empty(x.shape, x.dtype), empty(x.shape, x.dtype)
        dims, _, steps = _prelu_steps(x, w)
        if steps[-1] == 1:  # one slope a column
            w, one_a_row, rows, n, slopes = np.broadcast_to(w, x.shape).copy(), 1, 1, x.size, 1
        else:
            one_a_row, slopes, n = 0, w.size, dims[-1]
            rows = x.size // n if n else 0
        self._run(
            "elementwise.binary_backward", x.dtype, cost("prelu", 2 * x.size), BINARY["prelu"], g, x, w, one_a_row, x_grad, each,
            rows, n, n, 0, slopes,
        )  # fmt: skip
        return x_grad, each

    def _glu_backward(self, g, x, axis, rows, n, out):
        self._run(
            "elementwise.binary_backward", x.dtype, cost("glu", x.size), BINARY["glu"], g, x, x, 1, out, out, rows, n, 2 * n, n, 1
        )
        return out
