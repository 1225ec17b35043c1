"""The table of operations and the float64 oracle, which live with the tests; and which method belongs to which row."""

import sys
from pathlib import Path

from cpuops import results

# last, so that no test module takes the name of somebody else's
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))

import oracle
from table import ROWS
from table.base import Call, parts

__all__ = ["METHODS", "ROWS", "Call", "Oracle", "parts"]

# method -> (its row, the Gradient or None for the operation itself)
METHODS = {row.name: (row, None) for row in ROWS.values()}
METHODS |= {gradient.name: (row, gradient) for row in ROWS.values() for gradient in row.gradients}


class Oracle:
    """The float64 oracle with a backend's manners: its methods, `out=`, and NamedTuples where a backend returns them."""

    def __getattr__(self, method):
        function, (row, gradient) = getattr(oracle, method), METHODS[method]
        name = (gradient or row).result

        def call(*operands, out=None, **options):
            result = function(*operands, **options)
            if out is not None:
                out[...] = result
                return out
            return getattr(results, name)(*result) if name else result

        return call
