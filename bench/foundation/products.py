"""Matrix products and the convolutions of ResNet-50 beside OpenBLAS and PyTorch."""

from functools import partial

import numpy as np

from .workload import Workload, normal, plain


def matmul_workload(label, lhs, rhs, *, dtype=np.float32, threads=(1,), demand=None):
    k = lhs[-1]
    output = (*np.broadcast_shapes(lhs[:-2], rhs[:-2]), lhs[-2], rhs[-1])
    return Workload(
        name=f"matmul {label} {np.dtype(dtype).name}",
        operands=normal([lhs, rhs], dtype=dtype),
        ours=lambda ops, a, b: partial(ops.matmul, a, b),
        peers={"numpy": plain(np.matmul), "torch": plain(lambda a, b: a @ b)},
        reference=np.matmul,
        tolerance=1e-5 if dtype == np.float32 else 1e-13,
        flops=2 * k * int(np.prod(output)),
        threads=threads,
        demand=demand or {},
    )


def matmul_workloads():
    for dtype in (np.float32, np.float64):
        for n in (512, 1024):
            yield matmul_workload(n, (n, n), (n, n), dtype=dtype, threads=(1, 2), demand={"numpy": 0.9})
        for n in (32, 64, 128, 256):
            yield matmul_workload(n, (n, n), (n, n), dtype=dtype)
    yield matmul_workload("64 of 32", (64, 32, 32), (64, 32, 32))
    yield matmul_workload("4096x64x64", (4096, 64), (64, 64))
    yield matmul_workload("64x4096x64", (64, 4096), (4096, 64))
    yield matmul_workload("32x1024x1024", (32, 1024), (1024, 1024))


# batch, input channels, output channels, side of the image, side of the kernel, stride: the distinct layers of ResNet-50
# (its first, of three channels, is not among them), once each
RESNET50 = [
    (4, 64, 64, 56, 3, 1),
    (4, 128, 128, 28, 3, 1),
    (4, 256, 256, 14, 3, 1),
    (4, 512, 512, 7, 3, 1),
    (4, 128, 128, 56, 3, 2),
    (4, 256, 256, 28, 3, 2),
    (4, 512, 512, 14, 3, 2),
    (4, 64, 64, 56, 1, 1),
    (4, 64, 256, 56, 1, 1),
    (4, 256, 64, 56, 1, 1),
    (4, 512, 128, 28, 1, 1),
    (4, 128, 512, 28, 1, 1),
    (4, 1024, 256, 14, 1, 1),
    (4, 256, 1024, 14, 1, 1),
    (4, 2048, 512, 7, 1, 1),
    (4, 512, 2048, 7, 1, 1),
    (4, 256, 512, 56, 1, 2),
]


def conv_reference(x, weight, stride, padding):
    """Sum over the kernel's taps of one product each."""
    (b, _, h, w), (m, _, k, _) = x.shape, weight.shape
    oh, ow = (h + 2 * padding - k) // stride + 1, (w + 2 * padding - k) // stride + 1
    output = np.zeros((b, m, oh, ow))
    for i, j, under in taps(np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)]), k, oh, ow, stride):
        output += np.einsum("bchw,mc->bmhw", under, weight[:, :, i, j], optimize=True)
    return output


def conv_x_grad_reference(x, weight, g, stride, padding):
    grad = np.zeros((*x.shape[:2], x.shape[2] + 2 * padding, x.shape[3] + 2 * padding))
    for i, j, under in taps(grad, weight.shape[2], *g.shape[2:], stride):
        under += np.einsum("bmhw,mc->bchw", g, weight[:, :, i, j], optimize=True)
    return grad[:, :, padding : padding + x.shape[2], padding : padding + x.shape[3]]


def conv_weight_grad_reference(x, weight, g, stride, padding):
    grad = np.zeros(weight.shape)
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    for i, j, under in taps(x, weight.shape[2], *g.shape[2:], stride):
        grad[:, :, i, j] = np.einsum("bmhw,bchw->mc", g, under, optimize=True)
    return grad


def taps(x, k, oh, ow, stride):
    """For each tap: its place, and the view of x that meets it."""
    for i in range(k):
        for j in range(k):
            yield i, j, x[:, :, i : i + stride * oh : stride, j : j + stride * ow : stride][:, :, :oh, :ow]


def torch_conv(x, weight, *, stride, padding):
    import torch

    return torch.nn.functional.conv2d(x, weight, stride=stride, padding=padding)


def torch_conv_grads(x, weight, g, *, stride, padding, wanted):
    import torch

    grads = torch.ops.aten.convolution_backward(
        g, x, weight, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, wanted
    )  # fmt: skip
    return next(grad for grad in grads if grad is not None)


def conv_workloads():
    for batch, c, m, side, k, stride in RESNET50:
        padding = k // 2
        out = (side + 2 * padding - k) // stride + 1
        shapes = [(batch, c, side, side), (m, c, k, k), (batch, m, out, out)]
        options = {"stride": stride, "padding": padding}
        label = f"{k}x{k} {c}-{m} {side}x{side}" + (f" stride {stride}" if stride > 1 else "")
        passes = {
            "conv2d": (shapes[:2], conv_reference, partial(torch_conv, **options)),
            "conv2d_x_backward": (
                shapes, conv_x_grad_reference, partial(torch_conv_grads, wanted=[True, False, False], **options)),
            "conv2d_weight_backward": (
                shapes, conv_weight_grad_reference, partial(torch_conv_grads, wanted=[False, True, False], **options)),
        }  # fmt: skip
        for method, (operands, reference, torch_call) in passes.items():
            yield Workload(
                name=f"{method} {label}",
                operands=normal(operands),
                ours=lambda ops, *a, method=method, options=options: partial(getattr(ops, method), *a, **options),
                peers={"torch": plain(torch_call)},
                reference=partial(reference, **options),
                tolerance=1e-4,
                flops=2 * batch * m * c * k * k * out * out,
                threads=(1, 2),
                demand={"torch": 0.7},
            )


def workloads():
    yield from matmul_workloads()
    yield from conv_workloads()
