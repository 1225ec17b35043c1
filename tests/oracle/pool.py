"""Pooling: one window at a time."""

import itertools

import numpy as np

from oracle.conv import pad_pairs, per_axis, pixels, planes


class Axis:
    """The windows along one axis: the cells each one sees, and how many taps lie in the padded extent."""

    def __init__(self, cells, inside):
        self.cells, self.inside = cells, inside

    @classmethod
    def sliding(cls, length, kernel, stride, pads, dilation, ceil_mode):
        room = length + sum(pads) - dilation * (kernel - 1) - 1
        count = (-(-room // stride) if ceil_mode else room // stride) + 1
        if ceil_mode and (count - 1) * stride >= length + pads[0]:
            count -= 1
        cells, inside = [], []
        for w in range(count):
            taps = w * stride - pads[0] + dilation * np.arange(kernel)
            cells.append(taps[(taps >= 0) & (taps < length)])
            inside.append(int((taps < length + pads[1]).sum()))
        return cls(cells, inside)

    @classmethod
    def adaptive(cls, length, count):
        cells = [np.arange(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]
        return cls(cells, [len(c) for c in cells])


def sliding(shape, kernel_size, stride, padding, dilation, ceil_mode):
    n = len(shape)
    kernel, dilation = per_axis(kernel_size, n), per_axis(dilation, n)
    stride = kernel if stride is None else per_axis(stride, n)
    pads = pad_pairs(padding, kernel, dilation)
    return [Axis.sliding(*a, ceil_mode) for a in zip(shape, kernel, stride, pads, dilation, strict=True)]


def adaptive(shape, output_size):
    return [Axis.adaptive(*a) for a in zip(shape, per_axis(output_size, len(shape)), strict=True)]


def windows(axes, shape):
    """(place in the output, flat cells of the plane in row-major order, taps in the padded extent) of each."""
    flat = np.arange(int(np.prod(shape))).reshape(shape)
    for at in itertools.product(*(range(len(a.cells)) for a in axes)):
        cells = flat[np.ix_(*(a.cells[i] for a, i in zip(axes, at, strict=True)))].reshape(-1)
        yield at, cells, int(np.prod([a.inside[i] for a, i in zip(axes, at, strict=True)]))


def out_shape(x, axes):
    return x.shape[:2] + tuple(len(a.cells) for a in axes)


def flat_planes(x):
    return x.reshape((*x.shape[:2], int(np.prod(x.shape[2:]))))


def max_over(x, axes):
    """(largest of each window, its flat cell): the first in row-major order, and NaN wins."""
    flat = flat_planes(x)
    out = np.zeros(out_shape(x, axes))
    indices = np.zeros(out.shape, np.int64)
    for at, cells, _ in windows(axes, x.shape[2:]):
        here = (slice(None), slice(None), *at)
        indices[here] = cells[flat[..., cells].argmax(-1)]
        out[here] = np.take_along_axis(flat, indices[here][..., None], -1)[..., 0]
    return out, indices


def max_backward(x, output_grad, indices):
    """Each gradient is added to the cell it came from."""
    grad = np.zeros(x.size)
    first = np.arange(x.shape[0] * x.shape[1]).reshape((*x.shape[:2], 1)) * int(np.prod(x.shape[2:]))
    np.add.at(grad, (first + flat_planes(indices)).reshape(-1), output_grad.reshape(-1))
    return grad.reshape(x.shape)


def divisors(axes, shape, include_pad, override):
    """(place, cells, divisor) of each window of an average."""
    for at, cells, inside in windows(axes, shape):
        yield at, cells, override if override is not None else inside if include_pad else len(cells)


def avg_over(x, axes, include_pad=False, override=None):
    flat = flat_planes(x)
    out = np.zeros(out_shape(x, axes))
    for at, cells, divisor in divisors(axes, x.shape[2:], include_pad, override):
        out[(slice(None), slice(None), *at)] = flat[..., cells].sum(-1) / divisor
    return out


def avg_backward(x, output_grad, axes, include_pad=False, override=None):
    grad = np.zeros(flat_planes(x).shape)
    for at, cells, divisor in divisors(axes, x.shape[2:], include_pad, override):
        grad[..., cells] += output_grad[(slice(None), slice(None), *at)][..., None] / divisor
    return grad.reshape(x.shape)


def either_layout(function):
    """Take layout="NHWC": four-axis arrays are turned before and after."""

    def wrapped(*args, layout="NCHW", **options):
        if layout == "NCHW":
            return function(*args, **options)
        turned = [planes(a) if isinstance(a, np.ndarray) and a.ndim == 4 else a for a in args]
        result = function(*turned, **options)
        return tuple(map(pixels, result)) if isinstance(result, tuple) else pixels(result)

    return wrapped


def spatial(x):
    return x.shape[2:]


@either_layout
def max_pool_with_indices(x, kernel_size, *, stride=None, padding=0, dilation=1, ceil_mode=False, indices_dtype=np.int64):
    out, indices = max_over(x, sliding(spatial(x), kernel_size, stride, padding, dilation, ceil_mode))
    return out, indices.astype(indices_dtype)


def max_pool(x, kernel_size, **options):
    return max_pool_with_indices(x, kernel_size, **options)[0]


@either_layout
def max_pool_with_indices_backward(x, kernel_size, output_grad, indices, **options):
    return max_backward(x, output_grad, indices)


@either_layout
def max_pool_backward(x, output_grad, kernel_size, **options):
    return max_backward(x, output_grad, max_pool_with_indices(x, kernel_size, **options)[1])


@either_layout
def avg_pool(
    x,
    kernel_size,
    *,
    stride=None,
    padding=0,
    dilation=1,
    count_include_pad=True,
    ceil_mode=False,
    divisor_override=None,
):
    axes = sliding(spatial(x), kernel_size, stride, padding, dilation, ceil_mode)
    return avg_over(x, axes, count_include_pad, divisor_override)


@either_layout
def avg_pool_backward(
    x,
    output_grad,
    kernel_size,
    *,
    stride=None,
    padding=0,
    dilation=1,
    count_include_pad=True,
    ceil_mode=False,
    divisor_override=None,
):
    axes = sliding(spatial(x), kernel_size, stride, padding, dilation, ceil_mode)
    return avg_backward(x, output_grad, axes, count_include_pad, divisor_override)


@either_layout
def adaptive_avg_pool(x, output_size):
    return avg_over(x, adaptive(spatial(x), output_size))


@either_layout
def adaptive_avg_pool_backward(x, output_grad):
    return avg_backward(x, output_grad, adaptive(spatial(x), spatial(output_grad)))


@either_layout
def adaptive_max_pool_with_indices(x, output_size, *, indices_dtype=np.int64):
    out, indices = max_over(x, adaptive(spatial(x), output_size))
    return out, indices.astype(indices_dtype)


def adaptive_max_pool(x, output_size, **options):
    return adaptive_max_pool_with_indices(x, output_size, **options)[0]


@either_layout
def adaptive_max_pool_with_indices_backward(x, output_grad, indices):
    return max_backward(x, output_grad, indices)


@either_layout
def adaptive_max_pool_backward(x, output_grad):
    return max_backward(x, output_grad, adaptive_max_pool_with_indices(x, spatial(output_grad))[1])


for _n in (1, 2, 3):
    for _function in (
        "max_pool max_pool_with_indices max_pool_with_indices_backward max_pool_backward avg_pool avg_pool_backward "
        "adaptive_avg_pool adaptive_avg_pool_backward adaptive_max_pool adaptive_max_pool_with_indices "
        "adaptive_max_pool_with_indices_backward adaptive_max_pool_backward"
    ).split():
        globals()[_function.replace("_pool", f"_pool{_n}d")] = globals()[_function]
