"""Attention: training shapes, causal ones, grouped heads, biases, and decoding."""

from ..operations import Call
from .base import normal, operation


def heads(b, h, sq, e, *, kv=None, sk=None, bias=None, **options):
    """Operands of B, H (kv of them for keys), Sq, E; `bias` has its own shape."""

    def make(rng):
        keys = (b, kv or h, sk or sq, e)
        args = {"query": normal(rng, b, h, sq, e), "key": normal(rng, *keys), "value": normal(rng, *keys)}
        args |= {"mask": None, "attn_bias": None if bias is None else normal(rng, *bias)}
        return Call(args, options)

    return make


def training(label, make, **more):
    """Forward with logsumexp, and backward."""
    return operation("attention", "attention_with_logsumexp", label, make, forward=False, **more)


def both(label, make, **more):
    return [*operation("attention", "attention", label, make, **more), *training(label, make, **more)]


WORKLOADS = [
    *both("small-8x4x64x32", heads(8, 4, 64, 32)),
    *both("base-2x8x512x64", heads(2, 8, 512, 64)),
    *both("base-2x8x512x64", heads(2, 8, 512, 64), dtype="float64"),
    *both("causal-2x8x512x64", heads(2, 8, 512, 64, is_causal=True)),
    *both("causal-1x4x2048x128", heads(1, 4, 2048, 128, is_causal=True)),
    *both("grouped-1x16of4x512x64", heads(1, 16, 512, 64, kv=4, is_causal=True)),
    *both("bias-2x8x512x64", heads(2, 8, 512, 64, bias=(1, 8, 512, 512))),
    *operation("attention", "attention", "decode-1x32x1of4096x64", heads(1, 32, 1, 64, sk=4096)),
    *operation("attention", "attention", "decode-1x32of8x1of4096x128", heads(1, 32, 1, 128, kv=8, sk=4096)),
]
