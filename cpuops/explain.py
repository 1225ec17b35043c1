"""explain: which way a call would go, without computing anything."""

import numpy as np

from . import _check
from .cpu import CpuBackend, ThreadedCpuBackend
from .errors import ArgumentError, DTypeError, ShapeError, message, shown
from .ops.conv_geometry import LAYOUTS, _geometry
from .ops.conv_transpose import _of_x

__all__ = ["explain"]

OPERATIONS = {f"conv{n}d{suffix}": (n, suffix[1:].split("_")[0]) for n in (1, 2, 3) for suffix in ("", "_x_backward", "_weight_backward")}
# a transposed convolution is the gradient to x of a convolution, and that its gradient to x
ADJOINT = {"": "x", "x": "", "weight": "weight"}
TRANSPOSED = {name.replace("conv", "conv_transpose"): (n, ADJOINT[gradient]) for name, (n, gradient) in OPERATIONS.items()}


def explain(
    operation, x_shape, weight_shape, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1, layout="NCHW", dtype="float32",
    num_threads=None,
):  # fmt: skip
    """Tell which path a convolution or one of its gradients would take here and now.

    Parameters
    ----------
    operation : str
        ``"conv2d"``, ``"conv2d_x_backward"``, ``"conv2d_weight_backward"``, or those of one or three axes, or of
        ``"conv_transpose2d"``.
    x_shape, weight_shape : sequence of int
        As of the operands of the forward pass.
    stride, padding, output_padding, dilation, groups, layout
        As given to the operation.
    dtype : str or dtype
        float32 or float64.
    num_threads : int, optional
        Of the backend: 1 is ``CpuBackend()``; None what ``ThreadedCpuBackend()`` takes.

    Returns
    -------
    dict
        ``path`` : what the work is done by, ``"winograd F(4x4, 3x3)"``, ``"direct"``, ``"product"`` and others that the
        head of ``cpuops/_kernels/conv.h`` describes; several, separated by commas, where phases of a stride differ, and
        ``"none"`` where there is nothing to do. ``threads`` : how many work at most. ``scratch`` : bytes of memory that
        are held meanwhile, at most, all threads together.

    Raises
    ------
    ArgumentError
        When the operation is none of these, or an option is out of range.
    ShapeError, DTypeError
        As the operation.

    Notes
    -----
    The answer depends on shapes, options, dtype and threads only. Values matter in one case: where an operand holds NaN
    or infinity, or sums overflow, the work of "winograd" is done again by the path that ``CPUOPS_WINOGRAD=0`` would
    take, and padding beside a weight that is not finite by the definition in scalar code.

    Examples
    --------
    >>> import cpuops
    >>> cpuops.explain("conv2d", (8, 64, 56, 56), (64, 64, 3, 3), padding=1)["path"]
    'winograd F(4x4, 3x3)'
    """
    if not isinstance(operation, str) or operation not in OPERATIONS | TRANSPOSED:
        raise ArgumentError(message("explain", "operation", shown(operation), f"one of {', '.join(OPERATIONS | TRANSPOSED)}"))
    n, gradient = (OPERATIONS | TRANSPOSED)[operation]
    shapes = [_check.dims("explain", name, s) for name, s in (("x_shape", x_shape), ("weight_shape", weight_shape))]
    for name, shape in zip(("x_shape", "weight_shape"), shapes, strict=True):
        if len(shape) != n + 2:
            raise ShapeError(message("explain", name, f"of {len(shape)} axes", f"{n + 2} for {operation}"))
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        dtype = None
    if dtype not in (np.float32, np.float64):
        raise DTypeError(message("explain", "dtype", shown(dtype), "float32 or float64"))
    layout = _check.choice("explain", "layout", layout, LAYOUTS if operation in OPERATIONS and n == 2 else LAYOUTS[:1])
    if operation in TRANSPOSED:
        geometry = _of_x("explain", *shapes, (stride, padding, output_padding, dilation, groups))
    else:
        geometry = _geometry("explain", *shapes, stride, padding, dilation, groups, layout, ("x_shape", "weight_shape"))
    if 0 in geometry.x_shape or 0 in geometry.output_shape:
        return {"path": "none", "threads": 1, "scratch": 0}
    backend = CpuBackend() if num_threads == 1 else ThreadedCpuBackend(num_threads)
    threads = backend._threads(geometry.work)
    parts = backend._kernel("conv.conv_explain", dtype)(0.0, geometry.numbers, gradient, threads)
    return {
        "path": ", ".join(dict.fromkeys(path for path, *_ in parts)) or "none",
        "threads": max((min(workers, threads) for _, workers, *_ in parts), default=1),
        "scratch": max((scratch for _, _, scratch, _ in parts), default=0),
    }
