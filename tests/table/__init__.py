"""The operations of the package, one row each, read by every test and by the benches (it needs no pytest).

A row says how to call an operation (sizes, options, data), what is right (an oracle), what its gradients are called and
take, how exact they must be, what they cost, and which calls must be refused. See :class:`table.base.Row`.

    from table import ROWS
    row = ROWS["softmax"]
    for call in row.calls(rng): ...
"""

from table import (
    add_norm,
    attention,
    conv,
    conv_activation,
    conv_transpose,
    ctc,
    deform,
    elementwise,
    grid_sample,
    interpolate,
    linear_activation,
    matmul,
    norm,
    pad,
    pool,
    reduce,
    unfold,
)
from table.base import Bad, Call, Gradient, Row, common_refusals

FAMILIES = {
    "elementwise": elementwise.ROWS,
    "reduce": reduce.ROWS,
    "matmul": matmul.ROWS,
    "linear_activation": linear_activation.ROWS,
    "conv": conv.ROWS,
    "conv_activation": conv_activation.ROWS,
    "conv_transpose": conv_transpose.ROWS,
    "unfold": unfold.ROWS,
    "deform": deform.ROWS,
    "pool": pool.ROWS,
    "pad": pad.ROWS,
    "interpolate": interpolate.ROWS,
    "grid_sample": grid_sample.ROWS,
    "norm": norm.ROWS,
    "add_norm": add_norm.ROWS,
    "ctc": ctc.ROWS,
    "attention": attention.ROWS,
}
ROWS = {row.name: row for rows in FAMILIES.values() for row in rows}

__all__ = ["FAMILIES", "ROWS", "Bad", "Call", "Gradient", "Row", "common_refusals"]
