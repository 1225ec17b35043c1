"""Attention as a composition of differentiable operations, for the derivatives of its gradient. It stores Sq×Sk arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..results import AttentionBiasGrads, AttentionGrads
from . import functions as F
from ._second_composed import through
from ._var import Var


def hidden_keys(
    shape: tuple[int, ...], mask: Any, attn_bias: Any, is_causal: bool, causal_alignment: str
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which of [B, H, Sq, Sk] a query does not see: by the mask, by the order, or by a bias of −inf."""
    hidden = np.zeros(shape, bool)
    if mask is not None:
        hidden |= mask
    if attn_bias is not None:
        hidden |= np.isneginf(attn_bias)
    if is_causal:
        queries, keys = shape[-2:]
        ahead = keys - queries if causal_alignment == "bottom_right" else 0
        hidden |= np.arange(keys) > np.arange(queries)[:, np.newaxis] + ahead
    return hidden


def attention_backward(
    query: Var,
    key: Var,
    value: Var,
    output: Var,
    logsumexp: Any,
    output_grad: Var,
    mask: Any = None,
    attn_bias: Any = None,
    *,
    scale: float | None = None,
    softcap: float | None = None,
    is_causal: bool = False,
    causal_alignment: str = "bottom_right",
    bias_grad: bool = False,
) -> AttentionGrads | AttentionBiasGrads:
    batch, heads, queries, width = query.shape
    kv_heads, keys = key.shape[1:3]
    factor = 1.0 / math.sqrt(width) if scale is None else float(scale)
    bias = attn_bias if attn_bias is None or isinstance(attn_bias, Var) else Var(attn_bias, requires_grad=False)
    hidden = hidden_keys((batch, heads, queries, keys), mask, None if bias is None else bias.array, is_causal, causal_alignment)
    unseeing = hidden.all(-1, keepdims=True)
    # what no query sees may hold anything
    unseen = hidden.reshape((batch, kv_heads, -1, keys)).all(2).reshape((batch, kv_heads, keys, 1))

    def forward(query: Var, key: Var, value: Var, bias: Var | None) -> Var:
        key, value = F.where(unseen, 0.0, key), F.where(unseen, 0.0, value)
        # query head h reads key head h // (heads / kv_heads)
        q = query.reshape((batch, kv_heads, heads // kv_heads, queries, width))
        k = F.transpose(key, (0, 1, 3, 2)).reshape((batch, kv_heads, 1, width, keys))
        scores = F.matmul(q, k).reshape(hidden.shape) * factor
        if softcap is not None:
            scores = F.tanh(scores * (1.0 / softcap)) * float(softcap)
        if bias is not None:
            scores = scores + bias
        scores = F.where(hidden & ~unseeing, -math.inf, F.where(unseeing, 0.0, scores))
        weights = F.where(hidden, 0.0, F.softmax(scores)).reshape((batch, kv_heads, heads // kv_heads, queries, keys))
        return F.matmul(weights, F.expand_dims(value, 2)).reshape(output_grad.shape)

    grads = through(forward, (query, key, value, bias), output_grad)
    return AttentionBiasGrads(*grads) if bias_grad else AttentionGrads(*grads[:3])
