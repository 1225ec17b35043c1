"""Padding: cell by cell, one axis after the other."""

import numpy as np


def shown(length, pair, mode):
    """For each cell of the padded axis the cell of x that it shows, None where it shows none."""
    before, after = pair
    cells = []
    for p in range(-before, length + after):
        if mode == "edge":
            p = min(max(p, 0), length - 1)
        while mode == "reflect" and not 0 <= p < length:
            p = 0 if length == 1 else -p if p < 0 else 2 * (length - 1) - p
        cells.append(p if 0 <= p < length else None)
    return cells


def pad(x, pads, *, mode="constant", value=0):
    for axis, pair in enumerate(pads):
        if any(pair):
            x = np.moveaxis(x, axis, 0)
            outside = np.full(x.shape[1:], value, x.dtype)
            x = np.stack([outside if p is None else x[p] for p in shown(len(x), pair, mode)])
            x = np.moveaxis(x, 0, axis)
    return x


def pad_backward(output_grad, pads, *, mode="constant"):
    grad = output_grad
    for axis, pair in enumerate(pads):
        if any(pair):
            g = np.moveaxis(grad, axis, 0)
            length = len(g) - sum(pair)
            grad = np.zeros((length, *g.shape[1:]))
            for p, row in zip(shown(length, pair, mode), g, strict=True):
                if p is not None:
                    grad[p] += row
            grad = np.moveaxis(grad, 0, axis)
    return grad
