"""Convolutions: the layers of well-known networks, forward and the two large gradients each; some with their activation."""

from table.conv import make  # after operations, which makes it importable

from ..operations import Call
from .base import operation


def layer(batch, cin, cout, length, kernel, groups=1, **options):
    return lambda rng: make(rng, batch, cin, cout, length, kernel, bias=False, groups=groups, **options)


def conv(n, label, *shape, **options):
    op = f"conv{n}d"
    return operation("conv", op, label, layer(*shape, **options), gradients=(f"{op}_x_backward", f"{op}_weight_backward"))


def activated(n, label, activation, *shape, groups=1, **options):
    """Sums of the size of 1. Without relu's gradients: they jump where the sums of two libraries differ in sign."""

    def draw(rng):
        call = make(rng, *shape, groups=groups, **options)
        weight = call.args["weight"]
        args = {**call.args, "weight": weight * weight[0].size ** -0.5}
        return Call(args, {**call.options, "activation": activation})

    gradients = () if activation == "relu" else None
    return operation("conv_activation", f"conv{n}d_activation", f"{label}-{activation}", draw, gradients=gradients)


def depthwise(label, batch, channels, size, kernel, stride):
    padding = kernel // 2
    shape = (batch, channels, channels, (size, size), (kernel, kernel))
    return conv(2, label, *shape, groups=channels, padding=padding, stride=stride)


WORKLOADS = [
    *conv(2, "resnet50-stem-7x7s2", 2, 3, 64, (224, 224), (7, 7), stride=2, padding=3),
    *conv(2, "resnet50-1x1-64to256@56", 2, 64, 256, (56, 56), (1, 1)),
    *conv(2, "resnet50-3x3-64@56", 4, 64, 64, (56, 56), (3, 3), padding=1),
    *conv(2, "resnet50-3x3s2-128@56", 4, 128, 128, (56, 56), (3, 3), stride=2, padding=1),
    *conv(2, "resnet50-1x1-1024to256@14", 4, 1024, 256, (14, 14), (1, 1)),
    *conv(2, "resnet50-3x3-512@7", 4, 512, 512, (7, 7), (3, 3), padding=1),
    *conv(2, "vgg-3x3-64to128@112", 1, 64, 128, (112, 112), (3, 3), padding=1),
    *conv(2, "unet-3x3-3to32@256", 1, 3, 32, (256, 256), (3, 3), padding=1),
    *conv(2, "resnext-3x3-128g32@56", 4, 128, 128, (56, 56), (3, 3), groups=32, padding=1),
    *conv(2, "lenet-5x5-6to16@14", 64, 6, 16, (14, 14), (5, 5)),
    *depthwise("mobilenet-3x3-144@56", 4, 144, 56, 3, 1),
    *depthwise("mobilenet-3x3s2-144@56", 4, 144, 56, 3, 2),
    *depthwise("mobilenet-5x5-240@28", 4, 240, 28, 5, 1),
    *conv(1, "audio-k80s4", 4, 1, 64, (16000,), (80,), stride=4),
    *conv(1, "audio-k3d4-64", 4, 64, 64, (4000,), (3,), dilation=4, padding=4),
    *conv(3, "video-3x3x3-16to32@16x56x56", 1, 16, 32, (16, 56, 56), (3, 3, 3), padding=1),
    *activated(2, "resnet50-1x1-64to64@56", "relu", 4, 64, 64, (56, 56), (1, 1)),
    *activated(2, "resnet50-1x1-1024to256@14", "relu", 4, 1024, 256, (14, 14), (1, 1)),
    *activated(2, "resnet50-3x3-64@56", "relu", 4, 64, 64, (56, 56), (3, 3), padding=1),
    *activated(2, "mobilenet-3x3-144@56", "relu", 4, 144, 144, (56, 56), (3, 3), groups=144, padding=1),
    *activated(2, "efficientnet-5x5-240@28", "silu", 4, 240, 240, (28, 28), (5, 5), groups=240, padding=2),
    *activated(2, "yolo-3x3s2-64to128@80", "silu", 1, 64, 128, (80, 80), (3, 3), stride=2, padding=1),
    *activated(1, "whisper-k3-80to384@3000", "gelu", 1, 80, 384, (3000,), (3,), padding=1),
]

# the other layers of ResNet-50 (batch, channels in and out, side, kernel, stride), and one whose operands take 800 MB
LAYERS = [
    (4, 128, 128, 28, 3, 1), (4, 256, 256, 14, 3, 1), (4, 256, 256, 28, 3, 2), (4, 512, 512, 14, 3, 2), (4, 64, 64, 56, 1, 1),
    (4, 256, 64, 56, 1, 1), (4, 512, 128, 28, 1, 1), (4, 128, 512, 28, 1, 1), (4, 256, 1024, 14, 1, 1), (4, 2048, 512, 7, 1, 1),
    (4, 512, 2048, 7, 1, 1), (4, 256, 512, 56, 1, 2),
]  # fmt: skip


def layer_of_resnet50(batch, cin, cout, side, k, stride):
    kernel = f"{k}x{k}" + (f"s{stride}" if stride > 1 else "")
    label = f"resnet50-{kernel}-{cin}" + (f"to{cout}" if cout != cin else "") + f"@{side}"
    return conv(2, label, batch, cin, cout, (side, side), (k, k), stride=stride, padding=k // 2)


MORE = [
    *(w for each in LAYERS for w in layer_of_resnet50(*each)),
    *conv(2, "vgg-3x3-64@224", 8, 64, 64, (224, 224), (3, 3), padding=1),
]
