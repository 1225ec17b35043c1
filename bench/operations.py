"""The table of operations and the float64 oracle, which live with the tests; and which method belongs to which row."""

import sys
from pathlib import Path

# last, so that no test module takes the name of somebody else's
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

import oracle  # noqa: E402
from table import ROWS  # noqa: E402
from table.base import Call, normal, parts  # noqa: E402

__all__ = ["METHODS", "ROWS", "Call", "normal", "oracle", "parts"]

# method -> (its row, the Gradient or None for the operation itself)
METHODS = {row.name: (row, None) for row in ROWS.values()}
METHODS |= {gradient.name: (row, gradient) for row in ROWS.values() for gradient in row.gradients}
