"""Gradient kernels that replace the defaults of BackwardOps in the CPU backends, one short hook each."""

from ..ops import _classes


class CpuGradients(*_classes(__name__, "KernelGradients")):
    """Hooks ``_<operation>_backward`` that call a kernel."""
