"""Gradient kernel of prelu."""

from .._memory import empty
from ..ops.elementwise import BINARY, cost


class PreluKernelGradients:
    """Hook of :class:`cpuops.ops.prelu.PreluGradients`."""

    def _prelu_backward(self, g, x, w):
        x_grad, each, n = empty(x.shape, x.dtype), empty(x.shape, x.dtype), x.size
        if w.size == 1:
            rows = (1, n, n, 0, 0, 0, 1)
        elif n == x.shape[0] * x.shape[1]:  # a slope a column
            rows = (x.shape[0], x.shape[1], x.shape[1], 0, 1, 0, 1)
        else:  # a slope a row of [B, C, rest]
            rest = n // (x.shape[0] * x.shape[1]) if n else 0
            rows = (x.shape[0] * x.shape[1], rest, rest, 0, 0, 1, w.size)
        self._run("elementwise.binary_backward", x.dtype, cost("prelu", 2 * n), BINARY["prelu"], g, x, w, x_grad, each, *rows)
        return x_grad, each
