"""Deformable convolution: x within a frame of zeros, one cell wide, is read between cells at every tap."""

import numpy as np

from oracle.conv import by_group, mixed, pad_pairs, paired, per_axis, ungrouped


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
        self.rows, self.columns = x.shape[2] + 2, x.shape[3] + 2
        self.near = (h > -1) & (h < x.shape[2]) & (w > -1) & (w < x.shape[3])
        self.nan = np.isnan(h) | np.isnan(w)
        h, w = np.where(self.near, h, -1), np.where(self.near, w, -1)
        self.h, self.w = np.floor(h).astype(int), np.floor(w).astype(int)
        self.y, self.x = h - self.h, w - self.w

    def frame(self, x):
        """[B, C, cells] with the frame; its first cell is 0."""
        return np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).reshape((*x.shape[:2], self.rows * self.columns))

    def groups(self, channels):
        count = self.near.shape[1]
        return [(o, range(o * channels // count, (o + 1) * channels // count)) for o in range(count)]

    def corners(self, b, o):
        """(flat cell of the framed image, weight, weight's derivative by h, by w) of the four cells; the first cell for what is not near."""
        y, x, near, nan = self.y[b, o], self.x[b, o], self.near[b, o], self.nan[b, o]
        first = self.h[b, o] * self.columns + self.w[b, o]
        for down, right, *parts in (
            (1, 1, (1 - y) * (1 - x), x - 1, y - 1),
            (1, 2, (1 - y) * x, -x, 1 - y),
            (2, 1, y * (1 - x), 1 - x, -y),
            (2, 2, y * x, x, y),
        ):
            yield np.where(near, first + down * self.columns + right, 0), *(np.where(nan, np.nan, part) for part in parts)


def read(plane, corners, which=1):
    """Samples of a framed plane, or with which = 2, 3 their derivatives by h and w."""
    return sum(corner[which] * plane[corner[0]] for corner in corners)


def matrices(weight, groups):
    """[groups, Cout of one, Cin of one · taps]."""
    w = by_group(weight, groups, 0)
    return w.reshape((*w.shape[:2], int(np.prod(w.shape[2:]))))


def in_groups(columns, groups):
    """[channels, taps, OH, OW] as [1, groups, channels of one · taps, OH, OW]."""
    return columns.reshape((1, groups, columns.shape[0] // groups * columns.shape[1], *columns.shape[2:]))


def deform_conv2d(x, offset, weight, mask=None, bias=None, *, stride=1, padding=0, dilation=1, weight_groups=1, offset_groups=1):
    reading = Reading(x, offset, weight, stride, padding, dilation, offset_groups)
    shape, framed = reading.near.shape, reading.frame(x)
    masks = np.ones(shape) if mask is None else mask.reshape(shape)
    w, out = matrices(weight, weight_groups), np.zeros((len(x), weight.shape[0], *shape[3:]))
    for b in range(len(x)):
        columns = np.zeros((x.shape[1], *shape[2:]))
        for o, channels in reading.groups(x.shape[1]):
            corners = list(reading.corners(b, o))
            for c in channels:
                columns[c] = masks[b, o] * read(framed[b, c], corners)
        out[b] = ungrouped(mixed(w, in_groups(columns, weight_groups)))[0]
    return out if bias is None else out + bias.reshape(-1, 1, 1)


def deform_conv2d_backward(x, offset, weight, mask, bias, output_grad, *, stride=1, padding=0, dilation=1, weight_groups=1, offset_groups=1):
    reading = Reading(x, offset, weight, stride, padding, dilation, offset_groups)
    shape, framed = reading.near.shape, reading.frame(x)
    masks = np.ones(shape) if mask is None else mask.reshape(shape)
    w, g = matrices(weight, weight_groups), by_group(output_grad, weight_groups, 1)
    framed_grad, weight_grad = np.zeros(framed.shape), np.zeros(w.shape)
    offset_grad, mask_grad = np.zeros((*shape[:3], 2, *shape[3:])), np.zeros(shape)
    for b in range(len(x)):
        arrived = mixed(w.swapaxes(1, 2), g[b : b + 1]).reshape((x.shape[1], *shape[2:]))
        columns = np.zeros(arrived.shape)
        for o, channels in reading.groups(x.shape[1]):
            corners, m, near = list(reading.corners(b, o)), masks[b, o], reading.near[b, o]
            for c in channels:
                plane, grad = framed[b, c], arrived[c]
                samples = read(plane, corners)
                columns[c] = m * samples
                mask_grad[b, o] += grad * samples
                offset_grad[b, o, :, 0] += m * grad * read(plane, corners, 2)
                offset_grad[b, o, :, 1] += m * grad * read(plane, corners, 3)
                for cell, part, *_ in corners:
                    framed_grad[b, c] += np.bincount(cell.reshape(-1), np.where(near, m * part * grad, 0).reshape(-1), framed.shape[2])
        weight_grad += paired(g[b : b + 1], in_groups(columns, weight_groups))
    return (
        framed_grad.reshape((*x.shape[:2], reading.rows, reading.columns))[:, :, 1:-1, 1:-1],
        offset_grad.reshape(offset.shape),
        weight_grad.reshape(weight.shape),
        None if mask is None else mask_grad.reshape(mask.shape),
        None if bias is None else output_grad.sum((0, 2, 3)),
    )
