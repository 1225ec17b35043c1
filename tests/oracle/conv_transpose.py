"""Transposed convolutions of one, two and three axes: each cell of x, times the kernel, laid down at its place in the output."""

import numpy as np

from oracle.conv import bias_backward, by_group, mixed, pad_pairs, paired, per_axis, ungrouped


class Laid:
    """For each tap of the kernel: the cells of x whose product with it lands in the output, and where."""

    def __init__(self, length, kernel, stride, padding, output_padding, dilation, out=None):
        n = len(kernel)
        self.kernel, self.stride, self.dilation = tuple(kernel), per_axis(stride, n), per_axis(dilation, n)
        self.before = [before for before, _ in pad_pairs(padding, self.kernel, self.dilation)]
        # what an axis has beyond (L - 1)·stride
        more = [
            d * (k - 1) + e + 1 - before - after
            for k, d, e, (before, after) in zip(
                kernel, self.dilation, per_axis(output_padding, n), pad_pairs(padding, self.kernel, self.dilation), strict=True
            )
        ]
        if length is None:
            length = [(o - m) // s + 1 for o, m, s in zip(out, more, self.stride, strict=True)]
        self.length = tuple(length)
        self.out = tuple((size - 1) * s + m for size, s, m in zip(length, self.stride, more, strict=True))

    def __iter__(self):
        for tap in np.ndindex(*self.kernel):
            cells, places = [], []
            for a, t in enumerate(tap):
                at = np.arange(self.length[a]) * self.stride[a] + t * self.dilation[a] - self.before[a]
                inside = (at >= 0) & (at < self.out[a])
                cells.append(np.flatnonzero(inside))
                places.append(at[inside])
            yield tap, cells, places


def at(cells):
    """The index of cells along the last axes."""
    return (..., *np.ix_(*cells))


def family(n):
    """The five functions of n axes."""

    def forward(x, weight, bias=None, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
        laid = Laid(x.shape[2:], weight.shape[2:], stride, padding, output_padding, dilation)
        xs, w = by_group(x, groups, 1), by_group(weight, groups, 0).swapaxes(1, 2)
        out = np.zeros((x.shape[0], *w.shape[:2], *laid.out))
        for tap, cells, places in laid:
            out[at(places)] += mixed(w[(..., *tap)], xs[at(cells)])
        out = ungrouped(out)
        return out if bias is None else out + bias.reshape((-1,) + (1,) * n)

    def x_backward(weight, output_grad, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
        laid = Laid(None, weight.shape[2:], stride, padding, output_padding, dilation, output_grad.shape[2:])
        g, w = by_group(output_grad, groups, 1), by_group(weight, groups, 0)
        grad = np.zeros((output_grad.shape[0], *w.shape[:2], *laid.length))
        for tap, cells, places in laid:
            grad[at(cells)] += mixed(w[(..., *tap)], g[at(places)])
        return ungrouped(grad)

    def weight_backward(x, weight, output_grad, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
        laid = Laid(x.shape[2:], weight.shape[2:], stride, padding, output_padding, dilation)
        xs, g = by_group(x, groups, 1), by_group(output_grad, groups, 1)
        grad = np.zeros(by_group(weight, groups, 0).shape)
        for tap, cells, places in laid:
            grad[(..., *tap)] = paired(xs[at(cells)], g[at(places)])
        return grad.reshape(weight.shape)

    def only_bias_backward(x, bias, output_grad):
        return bias_backward(output_grad)

    def backward(x, weight, output_grad, *, bias=True, **options):
        return (
            x_backward(weight, output_grad, **options),
            weight_backward(x, weight, output_grad, **options),
            bias_backward(output_grad) if bias else None,
        )

    return {
        f"conv_transpose{n}d": forward,
        f"conv_transpose{n}d_x_backward": x_backward,
        f"conv_transpose{n}d_weight_backward": weight_backward,
        f"conv_transpose{n}d_bias_backward": only_bias_backward,
        f"conv_transpose{n}d_backward": backward,
    }


__all__ = []
for _n in (1, 2, 3):
    globals().update(family(_n))
    __all__ += family(_n)
