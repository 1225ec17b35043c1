"""Scaled dot-product attention and its gradient.

Letters: B batch, H query heads, Hkv key heads, Sq queries, Sk keys, E width of queries and keys, Ev width of values.
"""

import math

import numpy as np

from .. import _alloc, _check, _threads, results
from ..errors import ShapeError, message

__all__ = ["Attention", "AttentionGradients"]

ALIGNMENTS = ("bottom_right", "top_left")


def _heads(op, q, k, v):
    """Check that the shapes of query, key and value belong together."""
    for name, a in (("query", q), ("key", k), ("value", v)):
        _check.rank(op, name, a, 4)
    b, h, _, e = q.shape
    _, kv_heads, sk, _ = k.shape
    if k.shape[0] != b or k.shape[3] != e:
        raise ShapeError(message(op, "key", f"of shape {k.shape}", f"(B, Hkv, Sk, E) with query's B = {b} and E = {e}"))
    if v.shape[:3] != k.shape[:3]:
        raise ShapeError(message(op, "value", f"of shape {v.shape}", f"key's B, Hkv and Sk: {(b, kv_heads, sk)} and Ev"))
    if h % kv_heads if kv_heads else h:
        raise ShapeError(message(op, "query", f"of {h} heads", f"a multiple of key's {kv_heads} heads"))


def _over_scores(op, name, a, scores):
    """An operand that broadcasts over the scores [B, H, Sq, Sk], with four axes; strides as they are."""
    if a is None:
        return None
    lengths = (1,) * (4 - a.ndim) + a.shape
    if a.ndim > 4 or any(n not in (1, m) for n, m in zip(lengths, scores, strict=True)):
        wanted = f"one that broadcasts to the scores' {scores} (B, H, Sq, Sk)"
        raise ShapeError(message(op, name, f"of shape {a.shape}", wanted))
    return a[(np.newaxis,) * (4 - a.ndim)]


def _operands(op, query, key, value, mask, attn_bias):
    """(query, key, value), mask and bias, checked; the last two with four axes, or None."""
    q, k, v = _check.required(op, ("query", "key", "value"), (query, key, value))
    _heads(op, q, k, v)
    scores = (*q.shape[:3], k.shape[2])
    mask = None if mask is None else _check.mask(op, "mask", mask)
    bias = None if attn_bias is None else _check.strided(op, ("query", "attn_bias"), (q, attn_bias))[1]
    return (q, k, v), _over_scores(op, "mask", mask, scores), _over_scores(op, "attn_bias", bias, scores)


def _options(op, q, k, scale, softcap, is_causal, causal_alignment):
    """(scale, softcap or 0, how many keys beyond its own number a query sees or None)."""
    scale = 1 / math.sqrt(max(1, q.shape[3])) if scale is None else _check.number(op, "scale", scale)
    if softcap is not None:
        # beyond these a float32 quotient score / softcap would be lost
        limits = np.finfo(q.dtype)
        softcap = _check.number(op, "softcap", softcap, low=0, strict=True)
        softcap = min(max(softcap, float(limits.tiny)), math.sqrt(float(limits.max)))
    causal = _check.flag(op, "is_causal", is_causal)
    alignment = _check.choice(op, "causal_alignment", causal_alignment, ALIGNMENTS)
    offset = k.shape[2] - q.shape[2] if alignment == "bottom_right" else 0
    return scale, softcap or 0.0, offset if causal else None


def _cost(q, v, causal, products):
    """Nanoseconds on one thread of so many products of the scores' size, and their exponentials (some 30 operations)."""
    cells = math.prod(q.shape[:3]) * v.shape[2] / (1 if causal is None else 2)
    return _threads.work(bytes_=q.nbytes + v.nbytes, flops=cells * (products * (q.shape[3] + v.shape[3]) + 30))


class Attention:
    """Forward operations of the family."""

    def attention(
        self,
        query,
        key,
        value,
        mask=None,
        attn_bias=None,
        *,
        scale=None,
        softcap=None,
        is_causal=False,
        causal_alignment="bottom_right",
        out=None,
    ):
        """Weigh values by the similarity of keys and queries: softmax(query·keyᵀ·scale + attn_bias)·value.

        Parameters
        ----------
        query : ndarray, float32 or float64, [B, H, Sq, E]
        key : ndarray [B, Hkv, Sk, E]
            H is a multiple of Hkv; query head h reads key head h // (H / Hkv).
        value : ndarray [B, Hkv, Sk, Ev]
        mask : ndarray of bool that broadcasts to [B, H, Sq, Sk], optional
            True hides a key from a query.
        attn_bias : ndarray that broadcasts to [B, H, Sq, Sk], optional
            Added to the scores; −inf hides.
        scale : float, optional
            1/√E when None.
        softcap : float, optional
            Scores s become softcap·tanh(s / softcap), before mask and bias. Positive.
        is_causal : bool
            Query i sees the keys j ≤ i + offset only.
        causal_alignment : {"bottom_right", "top_left"}
            offset is Sk − Sq (the last query sees every key) or 0 (the first query sees the first key).
        out : ndarray, optional
            Where to write the result; it may not overlap an operand.

        Returns
        -------
        ndarray
            [B, H, Sq, Ev]

        Raises
        ------
        ShapeError
            An operand has not four axes, key or value do not fit, H is no multiple of Hkv, or mask or attn_bias do not
            broadcast to the scores.
        DTypeError
            mask is no bool array, or another operand no float32 or float64 array, or they differ.
        ArgumentError
            softcap is not positive and finite, scale is not finite, or an option has no such value.

        Notes
        -----
        Vaswani et al. 2017, eq. 1, in tiles with online softmax (Dao et al. 2022): beside the output, memory for some tiles a
        thread. A query from which every key is hidden gives 0. A hidden key contributes nothing, whatever its key, value or
        bias hold; a NaN or an infinity that is seen goes to the queries that see it.
        2·B·H·Sq·Sk·(E + Ev) operations, half of it when causal. Gradient: `attention_backward`.
        """
        operands, mask_, bias = _operands("attention", query, key, value, mask, attn_bias)
        options = _options("attention", *operands[:2], scale, softcap, is_causal, causal_alignment)
        shape, dtype = (*operands[0].shape[:3], operands[2].shape[3]), operands[0].dtype
        out = _alloc.output("attention", out, shape, dtype, (query, key, value, mask, attn_bias))
        cost = _cost(operands[0], operands[2], options[2], 2)
        self._run("attention.attention", dtype, cost, *operands, mask_, bias, out, None, *options)
        return out

    def attention_with_logsumexp(
        self,
        query,
        key,
        value,
        mask=None,
        attn_bias=None,
        *,
        scale=None,
        softcap=None,
        is_causal=False,
        causal_alignment="bottom_right",
    ):
        """Do as :meth:`attention`, and return what its gradient needs besides.

        Parameters
        ----------
        query : ndarray [B, H, Sq, E]
        key : ndarray [B, Hkv, Sk, E]
        value : ndarray [B, Hkv, Sk, Ev]
        mask : ndarray of bool that broadcasts to [B, H, Sq, Sk], optional
        attn_bias : ndarray that broadcasts to [B, H, Sq, Sk], optional
        scale, softcap, is_causal, causal_alignment
            As of :meth:`attention`.

        Returns
        -------
        AttentionWithLogsumexp
            (output [B, H, Sq, Ev], logsumexp [B, H, Sq]): the logarithm of the softmax's denominator, of the scores as they
            enter the softmax; −inf for a query from which every key is hidden.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As of :meth:`attention`.

        Notes
        -----
        Gradient: `attention_backward`, of the output; logsumexp is a constant to it.
        """
        op = "attention_with_logsumexp"
        operands, mask_, bias = _operands(op, query, key, value, mask, attn_bias)
        options = _options(op, *operands[:2], scale, softcap, is_causal, causal_alignment)
        q, _, v = operands
        out = _alloc.empty((*q.shape[:3], v.shape[3]), q.dtype)
        logsumexp = _alloc.empty(q.shape[:3], q.dtype)
        cost = _cost(q, v, options[2], 2)
        self._run("attention.attention", q.dtype, cost, *operands, mask_, bias, out, logsumexp, *options)
        return results.AttentionWithLogsumexp(out, logsumexp)


class AttentionGradients:
    """Gradients of the family."""

    def has_attention_backward(self):
        """Tell whether :meth:`attention_backward` is there: it is.

        Returns
        -------
        bool
        """
        return True

    def attention_backward(
        self,
        query,
        key,
        value,
        output,
        logsumexp,
        output_grad,
        mask=None,
        attn_bias=None,
        *,
        scale=None,
        softcap=None,
        is_causal=False,
        causal_alignment="bottom_right",
        bias_grad=False,
    ):
        """Differentiate `attention`, from what `attention_with_logsumexp` returned.

        With the probabilities p = exp(s − logsumexp) and ds = p·(output_grad·valueᵀ − Σ output_grad·output):
        query_grad = ds·key·scale, key_grad = dsᵀ·query·scale, value_grad = pᵀ·output_grad, bias_grad = ds; under a softcap
        ds·(1 − tanh²) takes the place of ds in the first two.

        Parameters
        ----------
        query : ndarray [B, H, Sq, E]
        key : ndarray [B, Hkv, Sk, E]
        value : ndarray [B, Hkv, Sk, Ev]
        output : ndarray [B, H, Sq, Ev]
        logsumexp : ndarray [B, H, Sq]
        output_grad : ndarray [B, H, Sq, Ev]
        mask : ndarray of bool that broadcasts to [B, H, Sq, Sk], optional
        attn_bias : ndarray that broadcasts to [B, H, Sq, Sk], optional
        scale, softcap, is_causal, causal_alignment
            As of `attention`.
        bias_grad : bool
            Whether to compute the gradient of attn_bias too.

        Returns
        -------
        AttentionGrads
            (query_grad, key_grad, value_grad); with `bias_grad` an AttentionBiasGrads, which has bias_grad as well: summed
            over the broadcast axes to attn_bias's shape, or None where there is no attn_bias.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As of `attention`; ShapeError also when output, logsumexp or output_grad have not the forward's shapes.

        Notes
        -----
        Dao et al. 2022, algorithm 4. The probabilities are computed anew, tile by tile; memory grows with Sq + Sk. Gradients of
        key and value are sums over the queries of all heads of a group, in a fixed order. A query that sees no key, and
        a hidden key, have gradient 0 whatever they hold.
        5·B·H·Sq·Sk·(E + Ev) operations, 2 more with `bias_grad`, half of it when causal.
        """
        op = "attention_backward"
        (q, k, v), mask, bias = _operands(op, query, key, value, mask, attn_bias)
        names = ("query", "output", "logsumexp", "output_grad")
        _, o, lse, g = _check.required(op, names, (q, output, logsumexp, output_grad))
        shape = (*q.shape[:3], v.shape[3])
        _check.shape(op, "output", o, shape, "(B, H, Sq, Ev)")
        _check.shape(op, "logsumexp", lse, shape[:3], "(B, H, Sq)")
        _check.shape(op, "output_grad", g, shape, "output's")
        options = _options(op, q, k, scale, softcap, is_causal, causal_alignment)
        wants_bias = _check.flag(op, "bias_grad", bias_grad)
        b_grad = _alloc.empty(bias.shape, q.dtype) if wants_bias and bias is not None else None
        grads = tuple(_alloc.empty(a.shape, q.dtype) for a in (q, k, v))
        self._attention_backward(q, k, v, o, lse, g, mask, bias, options, *grads, b_grad)
        if not wants_bias:
            return results.AttentionGrads(*grads)
        return results.AttentionBiasGrads(*grads, None if b_grad is None else b_grad.reshape(np.shape(attn_bias)))

    def _attention_backward(self, q, k, v, output, lse, g, mask, bias, options, q_grad, k_grad, v_grad, bias_grad):
        scale, softcap, causal = options
        scores = (*q.shape[:3], k.shape[2])
        mask = np.broadcast_to(False if mask is None else mask, scores)
        biases = np.broadcast_to(q.dtype.type(0) if bias is None else bias, scores)
        later = np.zeros(scores[2:], bool)  # what causal hides
        if causal is not None:
            later = np.arange(scores[3]) > np.arange(scores[2])[:, np.newaxis] + causal
        for grad in (k_grad, v_grad, bias_grad):
            if grad is not None:
                grad[...] = 0
        group = q.shape[1] // k.shape[1] if k.shape[1] else 0
        with np.errstate(all="ignore"):
            for b, h in np.ndindex(*scores[:2]):
                at, kv = (b, h), (b, h // group)
                qh, kh, vh, oh, gh, ah = (np.asarray(a, np.float64) for a in (q[at], k[kv], v[kv], output[at], g[at], biases[at]))
                hidden = mask[at] | later | (ah == -np.inf)
                s = qh @ kh.T * scale
                tanh = np.tanh(s / softcap) if softcap else 0
                s = softcap * tanh if softcap else s
                p = np.where(hidden, 0, np.exp(s + ah - lse[at][:, np.newaxis]))
                ds = np.where(hidden, 0, p * (gh @ vh.T - (gh * oh).sum(1, keepdims=True)))
                if bias_grad is not None:
                    cell = tuple(i if n > 1 else 0 for i, n in zip(at, bias_grad.shape, strict=False))
                    over = tuple(a for a in (0, 1) if bias_grad.shape[2 + a] == 1)
                    bias_grad[cell] += ds.sum(over, keepdims=True)
                ds = np.where(hidden, 0, ds * (1 - tanh * tanh))
                q_grad[at] = _seen_product(ds, kh, hidden) * scale
                k_grad[kv] += _seen_product(ds.T, qh, hidden.T) * scale
                v_grad[kv] += _seen_product(p.T, gh, hidden.T)


def _seen_product(weights, x, hidden):
    """weights @ x, to which a hidden pair adds nothing even where x is not finite."""
    finite = np.isfinite(x).all(1)
    total = weights[:, finite] @ x[finite]
    for j in np.flatnonzero(~finite):
        total += np.where(hidden[:, j, np.newaxis], 0, weights[:, j, np.newaxis] * x[j])
    return total
