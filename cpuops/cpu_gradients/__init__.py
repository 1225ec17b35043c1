"""Gradient kernels that replace the defaults of BackwardOps in the CPU backends, one short hook each."""

from .attention import AttentionKernelGradients
from .conv import ConvKernelGradients
from .conv_transpose import ConvTransposeKernelGradients
from .ctc import CtcKernelGradients
from .deform import DeformKernelGradients
from .elementwise import ElementwiseKernelGradients
from .embedding import EmbeddingKernelGradients
from .glu import GluKernelGradients
from .grid_sample import GridSampleKernelGradients
from .interpolate import InterpolateKernelGradients
from .loss import LossKernelGradients
from .matmul import MatmulKernelGradients
from .norm import NormKernelGradients
from .pad import PadKernelGradients
from .pool import PoolKernelGradients
from .prelu import PreluKernelGradients
from .reduce import ReduceKernelGradients
from .softmax import SoftmaxKernelGradients
from .unfold import UnfoldKernelGradients

__all__ = ["CpuGradients"]


class CpuGradients(
    ElementwiseKernelGradients,
    PreluKernelGradients,
    GluKernelGradients,
    ReduceKernelGradients,
    SoftmaxKernelGradients,
    LossKernelGradients,
    MatmulKernelGradients,
    EmbeddingKernelGradients,
    ConvKernelGradients,
    ConvTransposeKernelGradients,
    UnfoldKernelGradients,
    DeformKernelGradients,
    PoolKernelGradients,
    PadKernelGradients,
    InterpolateKernelGradients,
    GridSampleKernelGradients,
    NormKernelGradients,
    CtcKernelGradients,
    AttentionKernelGradients,
):
    """Hooks ``_<operation>_backward`` that call a kernel."""
