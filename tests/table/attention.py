"""Attention."""

import numpy as np
from oracle.attention import attention_parts, summed_to

from table.base import Bad, Call, Gradient, Row, normal

NAN, INF = float("nan"), float("inf")
RTOL = {"float32": 1e-5, "float64": 1e-12}


def f(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


# (B, H, Hkv, Sq, Sk, E, Ev): few rows and many, several panels, blocks, tiles and parts, every kind of tail
SHAPES = [
    (1, 1, 1, 1, 1, 1, 1), (2, 2, 1, 3, 5, 3, 2), (1, 3, 3, 7, 9, 8, 17), (2, 4, 2, 17, 33, 16, 16), (1, 6, 2, 5, 40, 5, 3),
    (1, 2, 2, 33, 65, 17, 8), (1, 1, 1, 70, 130, 4, 5), (1, 2, 1, 131, 17, 7, 33), (3, 2, 2, 2, 6, 64, 64), (1, 1, 1, 9, 150, 40, 70),
    (2, 2, 2, 2, 140, 19, 40), (1, 3, 1, 1, 33, 8, 16),
    (1, 4, 1, 1, 20, 33, 65), (1, 4, 4, 1, 129, 9, 31), (2, 2, 2, 16, 16, 2, 1), (1, 1, 1, 64, 64, 32, 32), (1, 5, 1, 40, 31, 6, 6),
]  # fmt: skip
EMPTY = [(0, 2, 1, 3, 4, 5, 6), (2, 0, 1, 3, 4, 5, 6), (2, 0, 0, 3, 4, 5, 6), (2, 2, 1, 0, 4, 5, 6), (2, 2, 1, 3, 0, 5, 6),
         (2, 2, 1, 3, 4, 0, 6), (2, 2, 1, 3, 4, 5, 0)]  # fmt: skip
# (mask, bias): which of the four axes are broadcast ("1"), or None
OVER = [
    (None, None), ("", None), (None, ""), ("", ""), ("12", None), ("012", "0"), (None, "01"), ("3", "12"), ("13", "2"), (None, "3"),
    ("0123", "23"), ("2", "0123"), ("02", "013"), ("01", "123"), (None, "02"), ("1", "13"), ("23", "012"), (None, "0"),
]  # fmt: skip
OPTIONS = [
    {}, {"is_causal": True}, {"scale": 0.7, "softcap": 1.5}, {"is_causal": True, "causal_alignment": "top_left", "scale": -0.4},
    {"softcap": 3.0, "is_causal": True, "causal_alignment": "bottom_right"},
]  # fmt: skip


def over(rng, scores, axes, *, few=False):
    """The shape of an operand that is broadcast over these axes; leading ones left out now and then."""
    shape = [1 if str(i) in axes else n for i, n in enumerate(scores)]
    while few and shape and shape[0] == 1:
        shape.pop(0)
    return shape


def operands(rng, shape, mask=None, bias=None, few=False):
    b, h, kv, sq, sk, e, ev = shape
    args = {"query": normal(rng, b, h, sq, e), "key": normal(rng, b, kv, sk, e), "value": normal(rng, b, kv, sk, ev)}
    args["mask"] = None if mask is None else rng.random(over(rng, (b, h, sq, sk), mask, few=few)) < 0.3
    args["attn_bias"] = None if bias is None else normal(rng, *over(rng, (b, h, sq, sk), bias, few=few))
    return args


def calls(rng):
    for i in range(len(SHAPES) * 3):
        mask, bias = OVER[i % len(OVER)]
        yield Call(operands(rng, SHAPES[i % len(SHAPES)], mask, bias, few=i % 4 == 1), OPTIONS[i % len(OPTIONS)])
    for i, shape in enumerate(EMPTY * 2):
        mask, bias = OVER[(5 * i + 3) % len(OVER)]
        yield Call(operands(rng, shape, mask, bias), OPTIONS[i % len(OPTIONS)])
    # a bias of -inf hides; whole rows, whole tiles and nothing but one key hidden; a score without spread
    args = operands(rng, (1, 2, 1, 20, 300, 8, 8), "01", "0")
    args["mask"][..., :5, :] = True
    args["mask"][..., 7, :] = np.arange(300) != 290
    args["mask"][..., 130:260] = True
    args["attn_bias"][..., 3::7] = -np.inf
    yield Call(args, smooth=False)
    args = operands(rng, (2, 2, 2, 40, 140, 8, 8), "012", "12")
    args["mask"][..., :128] = True
    args["attn_bias"][1] = -np.inf
    yield Call(args, smooth=False)
    args = operands(rng, (1, 2, 2, 3, 140, 8, 8), "02")
    args["mask"][0, 1] = True
    yield Call(args, {"is_causal": True})
    # scores around 3000, of which the exponential is infinite: the maximum must be taken off
    for rows in (2, 20):
        args = operands(rng, (1, 1, 1, rows, 140, 4, 4))
        args["query"] = 30 + args["query"] / 100
        args["key"] = 50 + args["key"] / 20
        yield Call(args, smooth=False)
    # keys in parts, joined in order; blocks in chunks
    for shape in ((1, 1, 1, 2, 1100, 3, 4), (1, 2, 1, 20, 1300, 3, 4), (1, 1, 1, 600, 40, 4, 3)):
        yield Call(operands(rng, shape, "2", "2"), OPTIONS[1])
        yield Call(operands(rng, shape))


def large(rng):
    for shape, mask, bias, options in (
        ((1, 4, 2, 300, 520, 16, 17), None, None, {"is_causal": True}),
        ((2, 8, 2, 1, 3000, 32, 32), "012", None, {}),
        ((1, 1, 1, 900, 700, 24, 24), "01", "1", {"softcap": 5.0}),
        ((2, 3, 3, 260, 257, 33, 20), None, "02", {"is_causal": True, "causal_alignment": "top_left"}),
    ):
        yield Call(operands(rng, shape, mask, bias), options)


# ---------------------------------------------------------------- what an error is relative to


def shared(call):
    """(largest score, |value| for each query head, probabilities, and so on), of the call in float64."""
    a = call.cast(np.float64).args
    options = {k: v for k, v in call.options.items() if k != "bias_grad"}
    found = attention_parts(a["query"], a["key"], a["value"], a.get("mask"), a.get("attn_bias"), **options)
    _, key, _, hidden, _, _, _, _ = found
    with np.errstate(all="ignore"):
        raw = np.abs(a["query"]) @ np.abs(key).swapaxes(2, 3) * abs(found[0])
    if a.get("attn_bias") is not None:
        raw = raw + np.abs(a["attn_bias"])
    return float(np.where(hidden | ~np.isfinite(raw), 0, raw).max(initial=0.0)), found


def forward_scale(call, wanted):
    """The output to |value|, the logsumexp to the scores; scores themselves err by their own size."""
    size, (_, _, value, *_, p) = shared(call)
    with np.errstate(all="ignore"):
        sizes = [(1 + size) * (p @ np.abs(value)), 1 + size]
    return [np.abs(w) + np.nan_to_num(s, posinf=0) for w, s in zip(wanted, sizes, strict=False)]


def backward_scale(call, wanted):
    """To the sum of the absolute terms, and the scores."""
    a = call.cast(np.float64).args
    size, (scale, key, value, _, _, _, _, p) = shared(call)
    kv_heads = a["key"].shape[1]
    with np.errstate(all="ignore"):
        g = np.abs(a["output_grad"])
        p_grad = g @ np.abs(value).swapaxes(2, 3)
        s_grad = p * (p_grad + (p * p_grad).sum(axis=3, keepdims=True))
        terms = [
            s_grad @ np.abs(key) * abs(scale),
            s_grad.swapaxes(2, 3) @ np.abs(a["query"]) * abs(scale),
            p.swapaxes(2, 3) @ g,
        ]
    for i in (1, 2):
        b, _, sk, width = terms[i].shape
        terms[i] = terms[i].reshape(b, kv_heads, -1 if terms[i].size else 0, sk, width).sum(axis=2)
    if len(wanted) > 3:
        terms.append(summed_to(s_grad, a["attn_bias"].shape))
    return [np.abs(w) + (1 + size) * np.nan_to_num(t, posinf=0) for w, t in zip(wanted, terms, strict=True)]


# ---------------------------------------------------------------- refusals

q, k, v = f(1, 4, 3, 8), f(1, 2, 5, 8), f(1, 2, 5, 6)
o, lse = f(1, 4, 3, 6), f(1, 4, 3)


def refusals(op, more):
    """`more`: what stands between value and mask."""

    def bad(why, errors, names, query=q, key=k, value=v, mask=None, bias=None, between=more, **options):
        return Bad(why, (query, key, value, *between, mask, bias), options, errors, names, op)

    yield bad("query of three axes", "ShapeError", "query", query=f(4, 3, 8))
    yield bad("key of five axes", "ShapeError", "key", key=f(1, 1, 2, 5, 8))
    yield bad("key of another width", "ShapeError", "key query", key=f(1, 2, 5, 7))
    yield bad("key of another batch", "ShapeError", "key query", key=f(2, 2, 5, 8))
    yield bad("value of another length", "ShapeError", "value key", value=f(1, 2, 4, 6))
    yield bad("value of other heads", "ShapeError", "value key", value=f(1, 4, 5, 6))
    yield bad("three heads over two", "ShapeError ArgumentError", "query key", query=f(1, 3, 3, 8))
    yield bad("no key heads", "ShapeError ArgumentError", "query key", key=f(1, 0, 5, 8), value=f(1, 0, 5, 6))
    for shape in ((1, 1, 3, 4), (1, 2, 3, 5), (2, 1, 3, 5), (1, 1, 2, 5), (1, 1, 1, 3, 5), (4,)):
        yield bad(f"mask {shape}", "ShapeError", "mask", mask=np.zeros(shape, bool))
        yield bad(f"bias {shape}", "ShapeError", "attn_bias", bias=f(*shape))
    yield bad("mask of integers", "DTypeError", "mask", mask=np.zeros((1, 1, 3, 5), np.int8))
    yield bad("bias of bools", "DTypeError", "attn_bias", bias=np.zeros((1, 1, 3, 5), bool))
    yield bad("bias of another dtype", "DTypeError", "attn_bias", bias=np.zeros((1, 1, 3, 5)))
    for value in (0, 0.0, -1.0, NAN, INF, "1", True):
        yield bad(f"softcap {value!r}", "ArgumentError", "softcap", softcap=value)
    for value in (NAN, INF, "1", True):
        yield bad(f"scale {value!r}", "ArgumentError", "scale", scale=value)
    for value in ("left", "", None, 1):
        yield bad(f"causal_alignment {value!r}", "ArgumentError", "causal_alignment", is_causal=True, causal_alignment=value)
        yield bad(f"is_causal {value!r}", "ArgumentError", "is_causal", is_causal=value)
    if more:
        yield bad("output of another shape", "ShapeError", "output", between=(f(1, 4, 2, 6), lse, o))
        yield bad("logsumexp of another shape", "ShapeError", "logsumexp", between=(o, f(1, 4, 2), o))
        yield bad("bias_grad 1", "ArgumentError", "bias_grad", bias_grad=1)


def flops(call, output):
    b, h, sq, _ = call.args["query"].shape
    work = 2.0 * b * h * sq * call.args["key"].shape[2] * (call.args["query"].shape[3] + call.args["value"].shape[3])
    return work / 2 if call.options.get("is_causal") else work


TAKES = "query key value output logsumexp output_grad mask attn_bias"
INPUTS = ("query", "key", "value")
COMMON = {
    "optional": ("mask", "attn_bias"), "defaults": {"mask": None, "attn_bias": None}, "differentiable": (*INPUTS, "attn_bias"),
    "scale": forward_scale, "rtol": RTOL, "flops": flops,
}  # fmt: skip

def logsumexp_of(call):
    """For the gradient of `attention`, which does not return it."""
    exact = call.cast(np.float64).args
    return attention_parts(*exact.values(), **call.options)[6].astype(call.args["query"].dtype)


def gradients(**more):
    """With the bias's where there is one, and without."""
    return (
        Gradient(
            "attention_backward", TAKES, (*INPUTS, "attn_bias"), "AttentionBiasGrads",
            fields=("query_grad", "key_grad", "value_grad", "bias_grad"), when=lambda call: call.args["attn_bias"] is not None,
            more=lambda call: {"bias_grad": True}, scale=backward_scale, work=3.5, **more,
        ),
        Gradient("attention_backward", TAKES, INPUTS, "AttentionGrads", scale=backward_scale, work=2.5, **more),
    )  # fmt: skip


ROWS = [
    Row(
        "attention",
        calls,
        large,
        gradients(given={"logsumexp": logsumexp_of}),
        bad=lambda: refusals("attention", ()),
        **COMMON,
    ),
    Row(
        "attention_with_logsumexp",
        calls,
        large,
        gradients(),
        results=("output", "logsumexp"),
        result="AttentionWithLogsumexp",
        bad=lambda: (*refusals("attention_with_logsumexp", ()), *refusals("attention_backward", (o, lse, o))),
        **COMMON,
    ),
]
