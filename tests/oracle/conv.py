"""Convolutions of one, two and three axes: one sum over the taps of the kernel, written three times."""

import numpy as np


def per_axis(value, n):
    return tuple(int(v) for v in value) if isinstance(value, (tuple, list)) else (int(value),) * n


def pad_pairs(padding, kernel, dilation):
    """One (before, after) an axis."""
    n = len(kernel)
    if padding == "valid":
        return ((0, 0),) * n
    if padding == "same":
        totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return tuple((t // 2, t - t // 2) for t in totals)
    if isinstance(padding, (tuple, list)):
        return tuple(tuple(p) if isinstance(p, (tuple, list)) else (p, p) for p in padding)
    return ((padding, padding),) * n


class Taps:
    """For each tap of the kernel: where it stands, and the output cells and input cells it joins.

    Cells in the padding are left out, so that nothing is multiplied with them.
    """

    def __init__(self, length, kernel, stride, padding, dilation):
        n = len(kernel)
        self.length, self.kernel = tuple(length), tuple(kernel)
        self.stride, self.dilation = per_axis(stride, n), per_axis(dilation, n)
        self.pads = pad_pairs(padding, kernel, self.dilation)
        self.out = tuple(
            (size + sum(p) - d * (k - 1) - 1) // s + 1
            for size, p, d, k, s in zip(self.length, self.pads, self.dilation, self.kernel, self.stride, strict=True)
        )

    def __iter__(self):
        for tap in np.ndindex(*self.kernel):
            outs, ins = [], []
            for a, t in enumerate(tap):
                stride, shift = self.stride[a], t * self.dilation[a] - self.pads[a][0]
                first = max(0, -(shift // stride))
                last = min(self.out[a] - 1, (self.length[a] - 1 - shift) // stride)
                outs.append(slice(first, last + 1))
                ins.append(slice(first * stride + shift, last * stride + shift + 1, stride))
            if all(o.stop > o.start for o in outs):
                yield tap, tuple(outs), tuple(ins)


def by_group(a, groups, axis):
    """The channels of an axis as [groups, channels of one]."""
    return a.reshape((*a.shape[:axis], groups, a.shape[axis] // groups, *a.shape[axis + 1 :]))


def ungrouped(a):
    """[B, groups, channels, …] as [B, groups·channels, …]."""
    return a.reshape((a.shape[0], a.shape[1] * a.shape[2], *a.shape[3:]))


def flat(cells):
    """[B, groups, channels, …] as [B, groups, channels, cells]."""
    return cells.reshape((*cells.shape[:3], int(np.prod(cells.shape[3:]))))


def mixed(matrices, cells):
    """matrices [groups, m, n] times the channels of cells [B, groups, n, …]."""
    return np.matmul(matrices, flat(cells)).reshape((*cells.shape[:2], matrices.shape[1], *cells.shape[3:]))


def paired(a, b):
    """Σ over samples and cells of a [B, groups, m, …] times b [B, groups, n, …]: [groups, m, n]."""
    return np.matmul(flat(a), flat(b).swapaxes(-1, -2)).sum(0)


def conv(x, weight, bias, stride, padding, dilation, groups):
    """Σ over channels and taps of x·weight."""
    taps = Taps(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    cells, w = by_group(x, groups, 1), by_group(weight, groups, 0)
    out = np.zeros((x.shape[0], *w.shape[:2], *taps.out))
    for tap, outs, ins in taps:
        out[(..., *outs)] += mixed(w[(..., *tap)], cells[(..., *ins)])
    out = ungrouped(out)
    return out if bias is None else out + bias.reshape((-1,) + (1,) * (x.ndim - 2))


def conv_x_backward(x, weight, output_grad, stride, padding, dilation, groups):
    """The same sum, read as a function of x."""
    taps = Taps(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    g, w = by_group(output_grad, groups, 1), by_group(weight, groups, 0)
    grad = np.zeros(by_group(x, groups, 1).shape)
    for tap, outs, ins in taps:
        grad[(..., *ins)] += mixed(w[(..., *tap)].swapaxes(1, 2), g[(..., *outs)])
    return ungrouped(grad)


def conv_weight_backward(x, weight, output_grad, stride, padding, dilation, groups):
    """The same sum, read as a function of weight."""
    taps = Taps(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    g, cells = by_group(output_grad, groups, 1), by_group(x, groups, 1)
    grad = np.zeros(by_group(weight, groups, 0).shape)
    for tap, outs, ins in taps:
        grad[(..., *tap)] = paired(g[(..., *outs)], cells[(..., *ins)])
    return grad.reshape(weight.shape)


def bias_backward(output_grad):
    return output_grad.sum((0, *tuple(range(2, output_grad.ndim))))


def planes(a):
    """[B,H,W,C] as [B,C,H,W]."""
    return a.transpose(0, 3, 1, 2)


def pixels(a):
    return a.transpose(0, 2, 3, 1)


def filters(w):
    """[KH,KW,Cin,Cout] as [Cout,Cin,KH,KW]."""
    return w.transpose(3, 2, 0, 1)


def unfilters(w):
    return w.transpose(2, 3, 1, 0)


def family(n):
    """The five functions of n axes."""

    def forward(x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1, layout="NCHW"):
        if layout == "NHWC":
            return pixels(conv(planes(x), filters(weight), bias, stride, padding, dilation, groups))
        return conv(x, weight, bias, stride, padding, dilation, groups)

    def x_backward(x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, layout="NCHW"):
        options = stride, padding, dilation, groups
        if layout == "NHWC":
            return pixels(conv_x_backward(planes(x), filters(weight), planes(output_grad), *options))
        return conv_x_backward(x, weight, output_grad, *options)

    def weight_backward(x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, layout="NCHW"):
        options = stride, padding, dilation, groups
        if layout == "NHWC":
            return unfilters(conv_weight_backward(planes(x), filters(weight), planes(output_grad), *options))
        return conv_weight_backward(x, weight, output_grad, *options)

    def only_bias_backward(x, bias, output_grad, *, layout="NCHW"):
        return bias_backward(planes(output_grad) if layout == "NHWC" else output_grad)

    def backward(x, weight, output_grad, *, bias=True, layout="NCHW", **options):
        return (
            x_backward(x, weight, output_grad, layout=layout, **options),
            weight_backward(x, weight, output_grad, layout=layout, **options),
            only_bias_backward(x, None, output_grad, layout=layout) if bias else None,
        )

    return {
        f"conv{n}d": forward,
        f"conv{n}d_x_backward": x_backward,
        f"conv{n}d_weight_backward": weight_backward,
        f"conv{n}d_bias_backward": only_bias_backward,
        f"conv{n}d_backward": backward,
    }


for _n in (1, 2, 3):
    globals().update(family(_n))


def conv2d_input_backward(output_grad, kernel, input_shape, stride_h, stride_w):
    """The x gradient of an NHWC convolution without padding."""
    x = np.zeros((input_shape[0], input_shape[3], input_shape[1], input_shape[2]))
    return pixels(conv_x_backward(x, filters(kernel), planes(output_grad), (stride_h, stride_w), 0, 1, 1))
