"""What a server of 64 cores has to do at once: batches for which the shares of its threads count. Not measured, only cut."""

from ..operations import METHODS
from . import attention, conv_transpose, ctc, deform, elementwise, grid_sample, interpolate, matmul, norm, pad, pool, reduce, unfold
from .base import operation
from .conv import layer

BATCH = 64


def every(op, label, make):
    """Forward and all gradients but those to a bias, which only add up."""
    # attention has two of one name
    gradients = dict.fromkeys(g.name for g in METHODS[op][0].gradients if "bias" not in g.name)
    return operation("large", op, label, make, gradients=gradients)


def conv(label, cin, cout, size, kernel, groups=1, **options):
    op = f"conv{len(size)}d"
    gradients = (f"{op}_x_backward", f"{op}_weight_backward")
    return operation("large", op, label, layer(BATCH, cin, cout, size, kernel, groups, **options), gradients=gradients)


LARGE = [
    *every("gelu", "2e7", elementwise.one(20_000_000)),
    *every("mul", "rows-20000x1000", elementwise.pair((20_000, 1000), (1000,))),
    *every("reduce_sum", "rows-20000x1000", reduce.over((20_000, 1000), axis=1)),
    *every("reduce_mean", "columns-20000x1000", reduce.over((20_000, 1000), axis=0)),
    *every("softmax", "vocabulary-512x32000", reduce.over((512, 32_000))),
    *every("cross_entropy", "vocabulary-512x32000", reduce.logits(512, 32_000)),
    *every("matmul", "2048", matmul.square(2048)),
    *every("matmul", "batch1024-128", matmul.product((1024, 128, 128), (1024, 128, 128))),
    *every("linear", "transformer-4096x1024x4096", matmul.dense(4096, 1024, 4096)),
    *every("embedding", "tokens-65536of32000x256", matmul.lookup(32_000, 256, 65_536)),
    *conv("resnet50-stem-7x7s2", 3, 64, (224, 224), (7, 7), stride=2, padding=3),
    *conv("resnet50-3x3-64@56", 64, 64, (56, 56), (3, 3), padding=1),
    *conv("resnet50-3x3-512@7", 512, 512, (7, 7), (3, 3), padding=1),
    *conv("resnet50-3x3s2-128@56", 128, 128, (56, 56), (3, 3), stride=2, padding=1),
    *conv("resnet50-1x1-256to64@56", 256, 64, (56, 56), (1, 1)),
    *conv("resnet50-1x1-1024to256@14", 1024, 256, (14, 14), (1, 1)),
    *conv("resnext-3x3-128g32@56", 128, 128, (56, 56), (3, 3), 32, padding=1),
    *conv("mobilenet-3x3-144@56", 144, 144, (56, 56), (3, 3), 144, padding=1),
    *conv("audio-k3d4-64", 64, 64, (4000,), (3,), dilation=4, padding=4),
    *conv("video-3x3x3-16to32@8x28x28", 16, 32, (8, 28, 28), (3, 3, 3), padding=1),
    *every("conv_transpose2d", "dcgan-k4s2-256to128@16", conv_transpose.layer(BATCH, 256, 128, (16, 16), (4, 4), stride=2, padding=1)),
    *every("deform_conv2d", "3x3-64@56", lambda rng: deform.make(rng, 32, 64, 64, (56, 56), (3, 3), bias=False, padding=1)),
    *every("unfold4d", "3x3-64@56", unfold.image(BATCH // 2, 64, 56, 3, padding=1)),
    *every("max_pool2d", "resnet-stem-3x3s2", pool.window((BATCH, 64, 112, 112), 3, stride=2, padding=1)),
    *every("avg_pool2d", "densenet-2x2", pool.window((BATCH, 128, 56, 56), 2)),
    *every("interpolate", "decoder-bilinear-x2", interpolate.resized((16, 64, 112, 112), 224, 224)),
    *every("grid_sample_2d", "features-64x64", grid_sample.turn(BATCH, 32, (64, 64), (64, 64))),
    *every("pad", "planes-56x56", pad.amid((BATCH, 64, 56, 56), pad.PLANES)),
    *every("layer_norm", "transformer-16384x768", norm.rows((16_384, 768))),
    *every("add_layer_norm", "transformer-16384x768", norm.rows((16_384, 768), residual=True)),
    *every("batch_norm_train", "resnet-64x56x56", norm.channels((BATCH, 64, 56, 56))),
    *every("group_norm", "unet-64x128x32x32g32", norm.channels((BATCH, 128, 32, 32), groups=32)),
    *every("attention_with_logsumexp", "base-16x12x512x64", attention.heads(16, 12, 512, 64)),
    *every("attention_with_logsumexp", "causal-16x12x512x64", attention.heads(16, 12, 512, 64, is_causal=True)),
    *every("attention_with_logsumexp", "decode-64x32of8x1of2048x64", attention.heads(BATCH, 32, 1, 64, kv=8, sk=2048)),
    *every("ctc_loss", "characters-400x128x32-80", ctc.speech(400, 2 * BATCH, 32, 80)),
]
