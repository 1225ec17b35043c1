"""Transposed convolutions: the upsampling layers of well-known networks, forward and the two large gradients each."""

from table.conv_transpose import make  # after operations, which makes it importable

from .base import operation


def layer(batch, cin, cout, length, kernel, groups=1, **options):
    return lambda rng: make(rng, batch, cin, cout, length, kernel, bias=False, groups=groups, **options)


def transposed(n, label, *shape, **options):
    op = f"conv_transpose{n}d"
    return operation("conv_transpose", op, label, layer(*shape, **options), gradients=(f"{op}_x_backward", f"{op}_weight_backward"))


WORKLOADS = [
    *transposed(2, "unet-k2s2-128to64@64", 1, 128, 64, (64, 64), (2, 2), stride=2),
    *transposed(2, "dcgan-k4s2-256to128@16", 4, 256, 128, (16, 16), (4, 4), stride=2, padding=1),
    *transposed(2, "dcgan-k4s2-64to3@64", 4, 64, 3, (64, 64), (4, 4), stride=2, padding=1),
    *transposed(2, "decoder-k3s2-64to32@56", 1, 64, 32, (56, 56), (3, 3), stride=2, padding=1, output_padding=1),
    *transposed(1, "vocoder-k16s8-128to64@400", 2, 128, 64, (400,), (16,), stride=8, padding=4),
    *transposed(3, "unet3d-k2s2-32to16@16", 1, 32, 16, (16, 16, 16), (2, 2, 2), stride=2),
]
