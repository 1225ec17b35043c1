"""The families of operations: each has its forward methods in one class and their default gradients in another."""

from .activation import Activation, ActivationGradients
from .add_norm import AddNorm, AddNormGradients
from .attention import Attention, AttentionGradients
from .conv import Conv
from .conv_activation import ConvActivation, ConvActivationGradients
from .conv_gradients import ConvGradients
from .conv_transpose import ConvTranspose, ConvTransposeGradients
from .ctc import Ctc, CtcGradients
from .deform import Deform, DeformGradients
from .elementwise import Elementwise, ElementwiseGradients
from .embedding import Embedding, EmbeddingGradients
from .glu import Glu, GluGradients
from .grid_sample import GridSample, GridSampleGradients
from .interpolate import Interpolate, InterpolateGradients
from .linear_activation import LinearActivation, LinearActivationGradients
from .loss import Loss, LossGradients
from .matmul import Matmul, MatmulGradients
from .norm import Norm, NormGradients
from .pad import Pad, PadGradients
from .pool import Pool, PoolGradients
from .prelu import Prelu, PreluGradients
from .reduce import Reduce, ReduceGradients
from .softmax import Softmax, SoftmaxGradients
from .unfold import Unfold, UnfoldGradients

__all__ = ["Forward", "Gradients"]


class Forward(
    Elementwise, Activation, Prelu, Glu, Reduce, Softmax, Loss, Matmul, LinearActivation, Embedding, Conv, ConvActivation, ConvTranspose, Deform,
    Unfold, Pool, Interpolate, Pad, GridSample, Norm, AddNorm, Attention, Ctc,
):  # fmt: skip
    """Every forward method."""


class Gradients(
    ElementwiseGradients,
    ActivationGradients,
    PreluGradients,
    GluGradients,
    ReduceGradients,
    SoftmaxGradients,
    LossGradients,
    MatmulGradients,
    LinearActivationGradients,
    EmbeddingGradients,
    ConvGradients,
    ConvActivationGradients,
    ConvTransposeGradients,
    DeformGradients,
    UnfoldGradients,
    PoolGradients,
    PadGradients,
    InterpolateGradients,
    GridSampleGradients,
    NormGradients,
    AddNormGradients,
    CtcGradients,
    AttentionGradients,
):
    """Every default gradient."""
