"""Multi-head attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _check
from .. import autograd as F
from .._types import Array, Operand
from ..autograd import Var
from ..errors import ArgumentError, message
from ._linear import Linear
from ._module import Module, generator_of

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(Module):
    """Attention of several heads between linear maps (Vaswani et al. 2017): [B, Sq, D], [B, Sk, D] → [B, Sq, D].

    Parameters
    ----------
    features : int
        D, a multiple of `heads`.
    heads : int
        Of the queries.
    kv_heads : int, optional
        Of keys and values, which divides `heads`: grouped-query attention (Ainslie et al. 2023); as many as `heads` when None.
    bias : bool
        Whether the four linear maps have one.
    is_causal : bool
        A query sees only keys at its own place and before (the last query is at the last key).
    generator, dtype
        As in :class:`Linear`.

    Notes
    -----
    Called with queries, and keys and values when they are not the same. `mask`, of a shape that broadcasts to [B, H, Sq, Sk], hides
    where it is True; `attn_bias` is added to the scores.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        bias: bool = True,
        is_causal: bool = False,
        generator: np.random.Generator | int | None = None,
        dtype: Any = np.float32,
    ):
        op = "MultiHeadAttention"
        d, h = _check.integer(op, "features", features, 1), _check.integer(op, "heads", heads, 1)
        kv = h if kv_heads is None else _check.integer(op, "kv_heads", kv_heads, 1)
        for name, value, of in (("features", d, h), ("heads", h, kv)):
            if value % of:
                raise ArgumentError(message(op, name, str(value), f"a multiple of {of}"))
        self.heads, self.kv_heads, self.is_causal = h, kv, _check.flag(op, "is_causal", is_causal)
        random = generator_of(generator)
        width = d // h
        self.query = Linear(d, d, bias=bias, generator=random, dtype=dtype)
        self.key = Linear(d, kv * width, bias=bias, generator=random, dtype=dtype)
        self.value = Linear(d, kv * width, bias=bias, generator=random, dtype=dtype)
        self.output = Linear(d, d, bias=bias, generator=random, dtype=dtype)

    def describe(self) -> str:
        return f"{self.query.d_in}, heads={self.heads}" + (f", kv_heads={self.kv_heads}" if self.kv_heads != self.heads else "")

    def forward(
        self,
        query: Var | Operand,
        key: Var | Operand | None = None,
        value: Var | Operand | None = None,
        *,
        mask: Array | None = None,
        attn_bias: Var | Operand | None = None,
    ) -> Var:
        key = query if key is None else key
        value = key if value is None else value
        q = self._split(self.query(query), self.heads)
        k, v = self._split(self.key(key), self.kv_heads), self._split(self.value(value), self.kv_heads)
        found = F.attention(q, k, v, mask, attn_bias, is_causal=self.is_causal)
        batch, _, length, _ = found.shape
        return self.output(F.transpose(found, (0, 2, 1, 3)).reshape((batch, length, -1)))  # type: ignore[no-any-return]

    @staticmethod
    def _split(x: Var, heads: int) -> Var:
        """[B, S, H·E] as [B, H, S, E]."""
        batch, length, width = x.shape
        return F.transpose(x.reshape((batch, length, heads, width // heads)), (0, 2, 1, 3))
