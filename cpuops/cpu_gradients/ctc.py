"""Gradient of connectionist temporal classification by kernel."""

from ..ops.ctc import STATE_BACKWARD_NS, cost

__all__ = ["CtcKernelGradients"]


class CtcKernelGradients:
    """The hook of ctc_loss_backward."""

    def _ctc_loss_backward(self, x, targets, frames, lengths, g, blank, out):
        work = cost(x, lengths, STATE_BACKWARD_NS)
        self._run("ctc.loss_backward", x.dtype, work, x, targets, frames, lengths, g, out, blank)
        return out
