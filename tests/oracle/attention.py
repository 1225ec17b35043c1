"""Attention: softmax(q·kᵀ·scale + bias)·v over whole arrays, keys and values repeated for every head of a group.

A hidden pair has probability 0, and products leave it out, so that what is hidden may hold anything.
"""

import numpy as np


def hidden_pairs(scores, mask, attn_bias, is_causal, causal_alignment):
    """Where the mask, the causal limit or a bias of −inf hides a key from a query."""
    hidden = np.zeros(scores, bool)
    if mask is not None:
        hidden |= mask
    if attn_bias is not None:
        hidden |= np.isneginf(attn_bias)
    if is_causal:
        shift = scores[3] - scores[2] if causal_alignment == "bottom_right" else 0
        hidden |= ~np.tri(scores[2], scores[3], shift, dtype=bool)
    return hidden


def visible_sum(weights, x, hidden):
    """Σ_j weights[.., i, j] x[.., j, :] over the pairs that are not hidden."""
    bad = ~np.isfinite(x).all(axis=-1)
    total = weights @ np.where(bad[..., np.newaxis], 0, x)
    for at in np.argwhere(bad):
        *lead, j = at
        lead = tuple(lead)
        terms = weights[(*lead, slice(None), j)][:, np.newaxis] * x[(*lead, j)]
        total[lead] += np.where(hidden[(*lead, slice(None), j)][:, np.newaxis], 0, terms)
    return total


def attention_parts(
    query, key, value, mask=None, attn_bias=None, scale=None, softcap=None, is_causal=False, causal_alignment="bottom_right"
):
    """(scale, repeated key, repeated value, hidden, tanh of the capped scores, biased scores, logsumexp, probabilities)."""
    group = query.shape[1] // max(1, key.shape[1])
    key, value = np.repeat(key, group, axis=1), np.repeat(value, group, axis=1)
    scale = 1 / np.sqrt(max(1, query.shape[3])) if scale is None else scale
    with np.errstate(all="ignore"):
        s = query @ key.swapaxes(2, 3) * scale
        hidden = hidden_pairs(s.shape, mask, attn_bias, is_causal, causal_alignment)
        tanh = np.tanh(s / softcap) if softcap else np.zeros(s.shape)
        s = softcap * tanh if softcap else s
        s = np.where(hidden, -np.inf, s if attn_bias is None else s + attn_bias)
        dead = hidden.all(axis=3, keepdims=True)
        top = s.max(axis=3, keepdims=True, initial=-np.inf)
        top = np.where(np.isinf(top) & dead, 0, top)
        e = np.where(hidden, 0, np.exp(s - top))
        total = e.sum(axis=3, keepdims=True)
        p = np.where(dead, 0, e / np.where(dead, 1, total))
        lse = np.where(dead, -np.inf, np.where(np.isinf(top), top, top + np.log(total)))[..., 0]
    return scale, key, value, hidden, tanh, s, lse, p


def attention_with_logsumexp(query, key, value, mask=None, attn_bias=None, **options):
    """Output and logsumexp."""
    _, _, value, hidden, _, _, lse, p = attention_parts(query, key, value, mask, attn_bias, **options)
    with np.errstate(all="ignore"):
        return visible_sum(p, value, hidden), lse


def attention(query, key, value, mask=None, attn_bias=None, **options):
    """The output alone."""
    return attention_with_logsumexp(query, key, value, mask, attn_bias, **options)[0]


def summed_to(x, shape):
    """Summed over the axes along which `shape` is broadcast."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    return x.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)


def attention_backward(
    query, key, value, output, logsumexp, output_grad, mask=None, attn_bias=None, *, bias_grad=False, **options
):
    """Gradients to query, key, value and, when asked for, attn_bias: softmax's p∘(g − Σ g p) between two products."""
    kv_heads, group = key.shape[1], query.shape[1] // max(1, key.shape[1])
    scale, key, value, hidden, tanh, _, _, p = attention_parts(query, key, value, mask, attn_bias, **options)
    with np.errstate(all="ignore"):
        p_grad = np.where(hidden, 0, output_grad @ value.swapaxes(2, 3))
        s_grad = np.where(hidden, 0, p * (p_grad - (p * p_grad).sum(axis=3, keepdims=True)))
        raw_grad = np.where(hidden, 0, s_grad * (1 - tanh**2))
        seen = hidden.swapaxes(2, 3)
        grads = [
            visible_sum(raw_grad, key, hidden) * scale,
            visible_sum(raw_grad.swapaxes(2, 3), query, seen) * scale,
            visible_sum(p.swapaxes(2, 3), output_grad, seen),
        ]
    for i in (1, 2):
        b, _, sk, width = grads[i].shape
        grads[i] = grads[i].reshape(b, kv_heads, group, sk, width).sum(axis=2)
    if bias_grad:
        grads.append(None if attn_bias is None else summed_to(s_grad, attn_bias.shape))
    return tuple(grads)
