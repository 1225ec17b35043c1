"""Deformable convolution: x within a frame of zeros, one cell wide, is read between cells at every tap."""

import numpy as np

from oracle.conv import pad_pairs, per_axis


class Reading:
    """The four cells of every sample in the framed image, and where between them it lies.

    Arrays are [B, offset groups, taps, OH, OW]; `near` says whether the sample is within one cell of x.
    """

    def __init__(self, x, offset, weight, stride, padding, dilation, offset_groups):
        kernel = weight.shape[2:]
        stride, dilation = per_axis(stride, 2), per_axis(dilation, 2)
        pads = pad_pairs(padding, kernel, dilation)
        moved = offset.reshape(len(x), offset_groups, kernel[0] * kernel[1], 2, *offset.shape[2:])
        ends = []
        for axis in (0, 1):
            tap = np.indices(kernel)[axis].reshape(-1, 1, 1) * dilation[axis]
            cell = np.indices(offset.shape[2:])[axis] * stride[axis] - pads[axis][0]
            ends.append(tap + cell + moved[:, :, :, axis])
        h, w = ends
        self.near = (h > -1) & (h < x.shape[2]) & (w > -1) & (w < x.shape[3])
        self.nan = np.isnan(h) | np.isnan(w)
        h, w = np.where(self.near, h, -1), np.where(self.near, w, -1)
        self.h, self.w = np.floor(h).astype(int), np.floor(w).astype(int)
        self.y, self.x = h - self.h, w - self.w

    def frame(self, x):
        return np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))

    def corners(self):
        """(row, column, weight, weight's derivative by h, by w) of the four cells."""
        y, x = self.y, self.x
        yield self.h + 1, self.w + 1, (1 - y) * (1 - x), x - 1, y - 1
        yield self.h + 1, self.w + 2, (1 - y) * x, -x, 1 - y
        yield self.h + 2, self.w + 1, y * (1 - x), 1 - x, -y
        yield self.h + 2, self.w + 2, y * x, x, y

    def groups(self, channels):
        count = self.near.shape[1]
        return [(o, slice(o * channels // count, (o + 1) * channels // count)) for o in range(count)]

    def read(self, image, which=2):
        """Samples [B, channels, taps, OH, OW], or with which = 3, 4 their derivatives by h and w."""
        framed = self.frame(image)
        found = np.zeros((*image.shape[:2], *self.near.shape[2:]))
        for b in range(len(image)):
            for o, channels in self.groups(image.shape[1]):
                for corner in self.corners():
                    row, column, part = (corner[i][b, o] for i in (0, 1, which))
                    cells = framed[b, channels][:, row, column]
                    found[b, channels] += np.where(self.near[b, o], part * cells, 0)
                found[b, channels][:, self.nan[b, o]] = np.nan
        return found


def product(weight, columns, groups):
    """Σ over channels and taps, group by group."""
    co, ci = weight.shape[0] // groups, weight.shape[1]
    w = weight.reshape(groups, co, ci, columns.shape[2])
    columns = columns.reshape(len(columns), groups, ci, *columns.shape[2:])
    out = np.einsum("gmct,bgctyx->bgmyx", w, columns)
    return out.reshape(len(columns), groups * co, *columns.shape[-2:])


def deform_conv2d(x, offset, weight, mask=None, bias=None, *, stride=1, padding=0, dilation=1, weight_groups=1, offset_groups=1):
    reading = Reading(x, offset, weight, stride, padding, dilation, offset_groups)
    samples = reading.read(x)
    if mask is not None:
        samples = samples * np.repeat(mask.reshape(reading.near.shape), x.shape[1] // offset_groups, axis=1)
    out = product(weight, samples, weight_groups)
    return out if bias is None else out + bias.reshape(-1, 1, 1)


def deform_conv2d_backward(x, offset, weight, mask, bias, output_grad, *, stride=1, padding=0, dilation=1, weight_groups=1, offset_groups=1):
    reading = Reading(x, offset, weight, stride, padding, dilation, offset_groups)
    shape, each = reading.near.shape, x.shape[1] // offset_groups
    ones = np.ones(shape) if mask is None else mask.reshape(shape)
    masks = np.repeat(ones, each, axis=1)
    samples = reading.read(x)

    groups, co, ci = weight_groups, weight.shape[0] // weight_groups, weight.shape[1]
    g = output_grad.reshape(len(x), groups, co, *output_grad.shape[2:])
    column_grad = np.einsum("bgmyx,gmct->bgctyx", g, weight.reshape(groups, co, ci, samples.shape[2])).reshape(samples.shape)
    columns = (masks * samples).reshape(len(x), groups, ci, *samples.shape[2:])
    weight_grad = np.einsum("bgmyx,bgctyx->gmct", g, columns).reshape(weight.shape)

    def over_channels(terms):
        return terms.reshape(len(x), offset_groups, each, *terms.shape[2:]).sum(2)

    slopes = [ones * over_channels(column_grad * reading.read(x, which)) for which in (3, 4)]
    offset_grad = np.stack(slopes, axis=3).reshape(offset.shape)
    mask_grad = None if mask is None else over_channels(column_grad * samples).reshape(mask.shape)

    framed = reading.frame(np.zeros(x.shape))
    for b in range(len(x)):
        for o, channels in reading.groups(x.shape[1]):
            for row, column, part, *_ in reading.corners():
                moved = np.where(reading.near[b, o], ones[b, o] * part[b, o], 0) * column_grad[b, channels]
                np.add.at(framed[b, channels], (slice(None), row[b, o], column[b, o]), moved)
    bias_grad = None if bias is None else output_grad.sum((0, 2, 3))
    return framed[:, :, 1:-1, 1:-1], offset_grad, weight_grad, mask_grad, bias_grad
