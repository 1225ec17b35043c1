"""Convolution in one, two and three dimensions. Letters as in :mod:`cpuops.ops.conv_geometry`."""

from .. import _alloc
from .conv_geometry import _bias, _geometry, _operands

__all__ = ["Conv"]


class Conv:
    """Convolution (cross-correlation) of one to three spatial axes."""

    def conv1d(self, x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1, out=None):
        """Correlate along one axis: out[b, m, o] = bias[m] + Σ_{c,k} weight[m, c, k] · x[b, c, o·stride + k·dilation − before].

        Parameters
        ----------
        x : ndarray [B, Cin, L]
        weight : ndarray [Cout, Cin/groups, K]
        bias : ndarray [Cout], optional
        stride, dilation : int or sequence of one int, >= 1
        padding : int, sequence of one int or of one (before, after) pair, "valid" (none) or "same" (keeps the length)
        groups : int
            Divides Cin and Cout; output channels of a group see the input channels of that group.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, Cout, ⌊(L + before + after − dilation·(K−1) − 1)/stride⌋ + 1]

        Raises
        ------
        ShapeError, ArgumentError, DTypeError
            As :meth:`conv2d`.

        Notes
        -----
        Numerics and gradient are those of :meth:`conv2d`.
        """
        return self._convolve("conv1d", 1, x, weight, bias, stride, padding, dilation, groups, "NCHW", out)

    def conv2d(self, x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1, layout="NCHW", out=None):
        """Correlate images: out[b,m,p,q] = bias[m] + Σ_{c,i,j} weight[m,c,i,j] · x[b,c, p·sh + i·dh − top, q·sw + j·dw − left].

        Parameters
        ----------
        x : ndarray [B, Cin, H, W], or [B, H, W, Cin] with ``layout="NHWC"``
        weight : ndarray [Cout, Cin/groups, KH, KW], or [KH, KW, Cin/groups, Cout]
        bias : ndarray [Cout], optional
        stride, dilation : int or sequence of two, >= 1
        padding : int, sequence of two ints or of two (before, after) pairs, "valid" or "same"
            Cells around x that count as absent: they are skipped, not multiplied. "same" keeps height and width (an odd
            extra cell at the end) and needs stride 1.
        groups : int
            Divides Cin and Cout; output channels of a group see the input channels of that group.
        layout : {"NCHW", "NHWC"}
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, Cout, OH, OW], or [B, OH, OW, Cout]
            OH = ⌊(H + top + bottom − dh·(KH−1) − 1)/sh⌋ + 1, OW likewise.

        Raises
        ------
        ShapeError
            Ranks, channel counts or a kernel that is larger than the padded input.
        ArgumentError
            Options out of range.
        DTypeError
            Operands that are not all float32 or all float64.

        Notes
        -----
        Sums are in the operands' precision, in blocks of a few hundred terms. The order of the sum depends on the shapes
        only. 3x3 kernels of stride 1 and many channels, and both their gradients, take fewer multiplications and a few
        times the error (Winograd 1980; ``docs/numerics.md``); :func:`cpuops.explain` tells which path a call takes.
        2·B·Cout·OH·OW·(Cin/groups)·KH·KW flops. NaN and infinity reach exactly the outputs whose window holds them.
        With gradient g of the output: x_grad[b,c,h,w] = Σ g·weight over the windows that cover the cell,
        weight_grad[m,c,i,j] = Σ_{b,p,q} g[b,m,p,q] · x[b,c, p·sh + i·dh − top, …], bias_grad[m] = Σ_{b,p,q} g.
        """
        return self._convolve("conv2d", 2, x, weight, bias, stride, padding, dilation, groups, layout, out)

    def conv3d(self, x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1, out=None):
        """Correlate volumes, as :meth:`conv2d` with one more axis.

        Parameters
        ----------
        x : ndarray [B, Cin, D, H, W]
        weight : ndarray [Cout, Cin/groups, KD, KH, KW]
        bias : ndarray [Cout], optional
        stride, dilation : int or sequence of three, >= 1
        padding : int, sequence of three ints or of three (before, after) pairs, "valid" or "same"
        groups : int
            Divides Cin and Cout; output channels of a group see the input channels of that group.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, Cout, OD, OH, OW]

        Raises
        ------
        ShapeError, ArgumentError, DTypeError
            As :meth:`conv2d`.

        Notes
        -----
        Numerics and gradient are those of :meth:`conv2d`.
        """
        return self._convolve("conv3d", 3, x, weight, bias, stride, padding, dilation, groups, "NCHW", out)

    def _convolve(self, op, n, x, weight, bias, stride, padding, dilation, groups, layout, out):
        xa, wa = _operands(op, n, ("x", "weight"), (x, weight))
        geometry = _geometry(op, xa.shape, wa.shape, stride, padding, dilation, groups, layout)
        ba = _bias(op, xa, bias, geometry.groups * geometry.outputs)
        out = _alloc.output(op, out, geometry.output_shape, xa.dtype, (x, weight, bias))
        self._run("conv.conv_forward", xa.dtype, geometry.work, xa, wa, ba, out, geometry.numbers)
        return out
