"""Linear maps and embeddings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import _check
from .. import autograd as F
from .._types import Operand
from ..autograd import Var
from ..ops.linear_activation import ACTIVATION
from . import init
from ._module import Module, Parameter, generator_of

__all__ = ["Embedding", "Linear", "LinearActivation"]


class Linear(Module):
    """``x · weight + bias`` over the last axis.

    Parameters
    ----------
    d_in, d_out : int
        Features in and out: weight is [d_in, d_out].
    bias : bool
        Whether it has one, [d_out].
    generator : numpy Generator or int, optional
        What initial values are drawn from, or its seed.
    dtype : dtype
        float32 or float64.

    Notes
    -----
    Initially uniform within 1/√d_in, the bias too.
    """

    def __init__(self, d_in: int, d_out: int, *, bias: bool = True, generator: np.random.Generator | int | None = None, dtype: Any = np.float32):
        self.d_in = _check.integer("Linear", "d_in", d_in, 1)
        self.d_out = _check.integer("Linear", "d_out", d_out, 1)
        random, bound = generator_of(generator), 1.0 / math.sqrt(d_in)
        self.weight = Parameter(init.uniform(random, (d_in, d_out), dtype, bound))
        self.bias = Parameter(init.uniform(random, (d_out,), dtype, bound)) if _check.flag("Linear", "bias", bias) else None

    def describe(self) -> str:
        return f"{self.d_in}, {self.d_out}" + ("" if self.bias is not None else ", bias=False")

    def forward(self, x: Var | Operand) -> Var:
        return F.linear(x, self.weight, self.bias)


class LinearActivation(Linear):
    """``activation(x · weight + bias)`` over the last axis, in one pass.

    Parameters
    ----------
    d_in, d_out : int
        As of :class:`Linear`.
    activation : {"relu", "gelu", "gelu_tanh", "silu"}
        What follows the linear map.
    bias, generator, dtype
        As of :class:`Linear`.

    Notes
    -----
    The results of :class:`Linear` and the activation after each other.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        activation: str = "relu",
        *,
        bias: bool = True,
        generator: np.random.Generator | int | None = None,
        dtype: Any = np.float32,
    ):
        super().__init__(d_in, d_out, bias=bias, generator=generator, dtype=dtype)
        self.activation = _check.choice("LinearActivation", "activation", activation, tuple(ACTIVATION))

    def describe(self) -> str:
        return f"{super().describe()}, {self.activation}"

    def forward(self, x: Var | Operand) -> Var:
        return F.linear_activation(x, self.weight, self.bias, activation=self.activation)


class Embedding(Module):
    """Rows of a table: ``weight[indices]``.

    Parameters
    ----------
    entries, dim : int
        The table is [entries, dim], initially standard normal.
    padding_idx : int, optional
        An entry that is zero initially and gets no gradient.
    generator, dtype
        As in :class:`Linear`.
    """

    def __init__(
        self,
        entries: int,
        dim: int,
        *,
        padding_idx: int | None = None,
        generator: np.random.Generator | int | None = None,
        dtype: Any = np.float32,
    ):
        self.entries = _check.integer("Embedding", "entries", entries, 1)
        self.dim = _check.integer("Embedding", "dim", dim, 1)
        self.padding_idx = None if padding_idx is None else _check.integer("Embedding", "padding_idx", padding_idx, 0, entries - 1)
        weight = init.normal(generator_of(generator), (entries, dim), dtype)
        if self.padding_idx is not None:
            weight[self.padding_idx] = 0
        self.weight = Parameter(weight)

    def describe(self) -> str:
        return f"{self.entries}, {self.dim}" + ("" if self.padding_idx is None else f", padding_idx={self.padding_idx}")

    def forward(self, indices: Var | Operand) -> Var:
        ids = _check.integers("Embedding", "indices", indices.array if isinstance(indices, Var) else indices)
        rows = F.embedding(self.weight, ids)
        if self.padding_idx is None:
            return rows
        # the row's own value, without its gradient
        padding = (ids == self.padding_idx)[..., np.newaxis]
        return F.where(padding, self.weight.array[self.padding_idx], rows) if padding.any() else rows
