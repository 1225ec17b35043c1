"""Gradient of attention by kernel."""

from .. import _alloc
from ..ops.attention import _cost


class AttentionKernelGradients:
    """Hook of :class:`cpuops.ops.attention.AttentionGradients`."""

    def _attention_backward(self, q, k, v, output, lse, g, mask, bias, options, q_grad, k_grad, v_grad, bias_grad):
        into = bias_grad
        # a bias that tells neither queries nor keys apart: a sum a query first
        if bias_grad is not None and bias_grad.shape[2:] == (1, 1):
            into = _alloc.empty((*bias_grad.shape[:2], q.shape[2], 1), q.dtype)
        cost = _cost(q, v, options[2], 5 if bias_grad is None else 7)
        operands = q, k, v, output, lse, g, mask, bias, q_grad, k_grad, v_grad, into
        self._run("attention.attention_backward", q.dtype, cost, *operands, *options)
        if into is not bias_grad:
            self.reduce_sum(into, axis=2, keepdims=True, out=bias_grad)
