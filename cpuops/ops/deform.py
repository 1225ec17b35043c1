"""Deformable convolution and its gradients.

Letters: B batch, Cin Cout channels, H W image, KH KW kernel, OH OW output; wg weight groups, og offset groups.
"""

from typing import NamedTuple

import numpy as np

from .. import _alloc, _check, _threads, results
from ..errors import ShapeError, message
from .conv_geometry import _geometry

__all__ = ["Deform", "DeformGeometry", "DeformGradients"]

# coordinates are floating-point numbers of the operands' dtype: beyond this float32 cannot tell neighbours apart
LONGEST = 2**24


class DeformGeometry(NamedTuple):
    """One deformable convolution; tuples hold height and width. The field order is the kernels' order."""

    batch: int
    channels: int
    outputs: int
    weight_groups: int
    offset_groups: int
    size: tuple
    kernel: tuple
    output: tuple
    stride: tuple
    dilation: tuple
    before: tuple

    @property
    def taps(self):
        return self.kernel[0] * self.kernel[1]

    @property
    def positions(self):
        return self.output[0] * self.output[1]

    @property
    def work(self):
        """Cost of the forward: a product and, for each of its terms, a sample of four cells."""
        terms = self.batch * self.positions * self.taps * self.channels
        return _threads.work(flops=2 * terms * self.outputs // self.weight_groups + 16 * terms)


def _checked(op, x, offset, weight, mask, bias, stride, padding, dilation, weight_groups, offset_groups, grad=None):
    """The operands as arrays of one dtype (mask, bias and grad may be None), and the geometry."""
    names = ("x", "offset", "weight", "mask", "bias", "output_grad")
    for name, value in zip(names, (x, offset, weight), strict=False):
        _check._refuse_none(op, name, value)
    arrays = _check.floatings(op, names, (x, offset, weight, mask, bias, grad))
    xa, oa, wa, ma, ba, ga = arrays
    for name, a in zip(names, arrays, strict=True):
        if a is not None and name != "bias":
            _check.rank(op, name, a, 4)
    weight_groups = _check.integer(op, "weight_groups", weight_groups, 1)
    offset_groups = _check.integer(op, "offset_groups", offset_groups, 1)
    cin, cout = xa.shape[1], wa.shape[0]
    if cin != weight_groups * wa.shape[1]:
        expected = f"weight_groups * weight channels = {weight_groups} * {wa.shape[1]} (weight of shape {wa.shape})"
        raise ShapeError(message(op, "x", f"of {cin} channels (shape {xa.shape})", expected))
    if cout % weight_groups:
        raise ShapeError(message(op, "weight", f"of {cout} output channels", f"a multiple of weight_groups {weight_groups}"))
    if cin % offset_groups:
        raise ShapeError(message(op, "x", f"of {cin} channels (shape {xa.shape})", f"a multiple of offset_groups {offset_groups}"))
    g = _geometry(op, xa.shape, wa.shape, stride, padding, dilation, weight_groups)
    for axis, name in ((1, "height"), (2, "width")):
        reach = (g.output[axis] - 1) * g.stride[axis] + (g.kernel[axis] - 1) * g.dilation[axis] + 1
        if max(reach, g.size[axis] + g.before[axis]) >= LONGEST:
            raise ShapeError(message(op, "x", f"of shape {xa.shape}", f"a {name}, padding included, below {LONGEST}"))
    geometry = DeformGeometry(
        g.batch, cin, cout, weight_groups, offset_groups,
        g.size[1:], g.kernel[1:], g.output[1:], g.stride[1:], g.dilation[1:], g.before[1:],
    )  # fmt: skip
    planes = offset_groups * geometry.taps
    _check.shape(op, "offset", oa, (g.batch, 2 * planes, *geometry.output), "(dy, dx) for each offset group, tap and output cell")
    if ma is not None:
        _check.shape(op, "mask", ma, (g.batch, planes, *geometry.output), "one value for each offset group, tap and output cell")
    if ba is not None:
        _check.shape(op, "bias", ba, (cout,), "one value an output channel")
    if ga is not None:
        _check.shape(op, "output_grad", ga, (g.batch, cout, *geometry.output), "the output's shape")
    return xa, oa, wa, ma, ba, ga, geometry


def _corners(geometry, tap, offset):
    """The four cells of a tap's samples and their shares, by offset [batch, offset group, (dy, dx), position].

    Yields, for each corner, the cell's index in its plane (-1: x has no such cell), what it weighs, and the derivatives of that
    by dy and dx; all [batch, offset group, 1, position].
    """
    at, shares = [], []
    inside, unknown = True, np.isnan(offset).any(axis=2)
    for axis, t in enumerate(divmod(tap, geometry.kernel[1])):
        places = np.arange(geometry.output[axis]) * geometry.stride[axis] + t * geometry.dilation[axis] - geometry.before[axis]
        base = np.broadcast_to(places[:, np.newaxis] if axis == 0 else places, geometry.output).reshape(-1)
        moved = offset[:, :, axis].astype(np.float64)
        with np.errstate(invalid="ignore"):
            whole = np.floor(moved)
            part, first = moved - whole, base + whole
        inside = inside & ((first >= 0) | ((first == -1) & (part > 0))) & (first < geometry.size[axis])
        at.append(first)
        shares.append(part)
    y, x = (np.where(inside, a, -1).astype(np.int64) for a in at)
    part_y, part_x = (np.where(inside, s, np.where(unknown, np.nan, 0)) for s in shares)
    for below, right in np.ndindex(2, 2):
        row, column = y + below, x + right
        there = inside & (row >= 0) & (row < geometry.size[0]) & (column >= 0) & (column < geometry.size[1])
        share_y, slope_y = (part_y, 1.0) if below else (1 - part_y, -1.0)
        share_x, slope_x = (part_x, 1.0) if right else (1 - part_x, -1.0)
        where = np.where(there, row * geometry.size[1] + column, -1)
        yield tuple(a[:, :, np.newaxis] for a in (where, share_y * share_x, slope_y * share_x, share_y * slope_x))


class Deform:
    """Deformable convolution."""

    def deform_conv2d(
        self, x, offset, weight, mask=None, bias=None, *, stride=1, padding=0, dilation=1, weight_groups=1, offset_groups=1, out=None
    ):
        """Correlate images at moved places: out[b,m,p,q] = bias[m] + Σ_{c,i,j} weight[m,c,i,j] · mask · x[b, c, h + dy, w + dx].

        Parameters
        ----------
        x : ndarray [B, Cin, H, W]
        offset : ndarray [B, 2·offset_groups·KH·KW, OH, OW]
            How far each tap is moved, in pixels: for each offset group and tap (i, j), dy and then dx.
        weight : ndarray [Cout, Cin/weight_groups, KH, KW]
        mask : ndarray [B, offset_groups·KH·KW, OH, OW], optional
            What each sample is multiplied with.
        bias : ndarray [Cout], optional
        stride, dilation : int or sequence of two, >= 1
        padding : int, sequence of two ints or of two (before, after) pairs, "valid" or "same"
        weight_groups : int
            Divides Cin and Cout; output channels of a group see the input channels of that group.
        offset_groups : int
            Divides Cin; input channels of a group are sampled at the same places.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, Cout, OH, OW]
            OH = ⌊(H + top + bottom − dh·(KH−1) − 1)/sh⌋ + 1, OW likewise.

        Raises
        ------
        ShapeError
            Ranks, channel counts, a kernel larger than the padded input, offset, mask or bias of another shape, or an axis of
            2²⁴ cells or more.
        ArgumentError
            Options out of range.
        DTypeError
            Operands that are not all float32 or all float64.

        Notes
        -----
        h = p·sh + i·dh − top and w = q·sw + j·dw − left. Between cells x is bilinear; a cell that x does not have counts as 0,
        and a sample at h + dy ≤ −1, w + dx ≤ −1, h + dy ≥ H or w + dx ≥ W is 0, an infinite offset included. A NaN offset
        makes a NaN sample. A cell of weight 0 takes part: its NaN or infinity makes the sample NaN. Sums are in the operands'
        precision, in blocks of a few hundred terms; their order depends on the shapes only, and, where offsets spread over more
        rows than scratch holds, on the offsets. 2·B·Cout·OH·OW·(Cin/weight_groups)·KH·KW flops and 8 more a sample.
        Dai et al. 2017 (offsets), Zhu et al. 2019 (mask).
        """
        op = "deform_conv2d"
        xa, oa, wa, ma, ba, _, geometry = _checked(op, x, offset, weight, mask, bias, stride, padding, dilation, weight_groups, offset_groups)
        out = _alloc.output(op, out, (geometry.batch, geometry.outputs, *geometry.output), xa.dtype, (x, offset, weight, mask, bias))
        if geometry.channels and geometry.outputs:
            self._run("deform.deform_conv2d", xa.dtype, geometry.work, xa, oa, wa, ma, ba, out, geometry)
        else:
            out[...] = 0 if ba is None else ba[:, np.newaxis, np.newaxis]
        return out


class DeformGradients:
    """Gradients of deformable convolution."""

    def deform_conv2d_backward(
        self, x, offset, weight, mask, bias, output_grad, *, stride=1, padding=0, dilation=1, weight_groups=1, offset_groups=1
    ):
        """Differentiate :meth:`deform_conv2d` by all operands: mask_grad = Σ_c column_grad · sample, and so on, see Notes.

        Parameters
        ----------
        x : ndarray [B, Cin, H, W]
        offset : ndarray [B, 2·offset_groups·KH·KW, OH, OW]
        weight : ndarray [Cout, Cin/weight_groups, KH, KW]
        mask : ndarray [B, offset_groups·KH·KW, OH, OW] or None
        bias : ndarray [Cout] or None
            Only its shape and dtype count.
        output_grad : ndarray of the output's shape
        stride, padding, dilation, weight_groups, offset_groups
            As given to :meth:`deform_conv2d`.

        Returns
        -------
        DeformConv2dGrads
            (x_grad, offset_grad, weight_grad, mask_grad, bias_grad); mask_grad and bias_grad are None without mask or bias.

        Raises
        ------
        ShapeError, ArgumentError, DTypeError
            As the forward; ShapeError also when output_grad has not the output's shape.

        Notes
        -----
        With column_grad[c,i,j,p,q] = Σ_m weight[m,c,i,j] · output_grad[m,p,q] and sample = Σ of the four cells v times their
        weights: weight_grad = Σ_{b,p,q} output_grad · mask · sample, mask_grad = Σ_c column_grad · sample,
        offset_grad = mask · Σ_c column_grad · ∂sample, where ∂ by dy is (1−x)(v_below_left − v_above_left) + x(v_below_right −
        v_above_right) with x the part between columns, and likewise by dx; x_grad adds column_grad · mask · weight to each
        of the four cells. On a whole pixel the derivative is the one towards larger coordinates; outside it is 0. An empty batch
        gives zeros to weight and bias. 3 to 4 times the flops of the forward, with no memory for columns of more than
        a few hundred positions.
        """
        op = "deform_conv2d_backward"
        _check._refuse_none(op, "output_grad", output_grad)
        xa, oa, wa, ma, ba, g, geometry = _checked(
            op, x, offset, weight, mask, bias, stride, padding, dilation, weight_groups, offset_groups, output_grad
        )
        grads = [None if a is None else _alloc.empty(a.shape, a.dtype) for a in (xa, oa, wa, ma)]
        if geometry.channels and geometry.outputs:
            self._deform_conv2d_backward(xa, oa, wa, ma, g, geometry, *grads)
        else:
            for grad in grads:
                if grad is not None:
                    grad.fill(0)
        bias_grad = None if ba is None else self._conv_bias_backward(g, 1, _alloc.empty(ba.shape, ba.dtype))
        return results.DeformConv2dGrads(*grads, bias_grad)

    def _deform_conv2d_backward(self, x, offset, weight, mask, g, geometry, x_grad, offset_grad, weight_grad, mask_grad):
        """Tap by tap, in double precision. Axes: batch, group, channel of the group, position."""
        batch, wg, og, taps, positions = geometry.batch, geometry.weight_groups, geometry.offset_groups, geometry.taps, geometry.positions
        # a cell of zeros at the end stands for those that x does not have
        cells = np.zeros((batch, og, geometry.channels // og, geometry.size[0] * geometry.size[1] + 1))
        cells[..., :-1] = x.reshape(*cells.shape[:3], cells.shape[3] - 1)
        total = np.zeros(cells.shape)
        offset, offset_grad = offset.reshape(batch, og, taps, 2, positions), offset_grad.reshape(batch, og, taps, 2, positions)
        g = g.reshape(batch, wg, geometry.outputs // wg, positions).astype(np.float64)
        w, w_grad = (a.reshape(wg, geometry.outputs // wg, geometry.channels // wg, taps) for a in (weight, weight_grad))
        for tap in range(taps):
            column_grad = np.einsum("bgmp,gmc->bgcp", g, w[..., tap], dtype=np.float64, optimize=True).reshape(*cells.shape[:3], positions)
            m = 1.0 if mask is None else mask.reshape(batch, og, taps, 1, positions)[:, :, tap]
            sample, slope_y, slope_x = (np.zeros(column_grad.shape) for _ in range(3))
            for where, share, share_y, share_x in _corners(geometry, tap, offset[:, :, tap]):
                value = np.take_along_axis(cells, where, axis=3)
                sample += share * value
                slope_y += share_y * value
                slope_x += share_x * value
                cell_grad = m * share * column_grad
                for b, o in np.ndindex(batch, og):
                    np.add.at(total[b, o], (slice(None), where[b, o, 0]), cell_grad[b, o])
            offset_grad[:, :, tap, 0] = (m * slope_y * column_grad).sum(axis=2)
            offset_grad[:, :, tap, 1] = (m * slope_x * column_grad).sum(axis=2)
            if mask is not None:
                mask_grad.reshape(batch, og, taps, positions)[:, :, tap] = (sample * column_grad).sum(axis=2)
            column = (m * sample).reshape(batch, wg, geometry.channels // wg, positions)
            w_grad[..., tap] = np.einsum("bgmp,bgcp->gmc", g, column, optimize=True)
        x_grad[...] = total[..., :-1].reshape(x_grad.shape)
