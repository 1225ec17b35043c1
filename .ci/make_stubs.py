"""Write cpuops/backend.pyi, cpuops/backward.pyi and cpuops/autograd/functions.pyi: what families and factories put on the two
classes, and the functions on Vars that are generated from them.

    python .ci/make_stubs.py            writes them
    python .ci/make_stubs.py --check    exits 1 when a stub is not what would be written

A parameter's type follows from its name (TYPES), which means the same in every operation; a result's from the docstring.
"""

import inspect
import re
import sys
from pathlib import Path

import cpuops
from cpuops import results
from cpuops.autograd import functions
from cpuops.autograd._rules import rule_of

FOLDER = Path(cpuops.__file__).parent
OPERANDS = "x offset mask weight bias output_grad output logits targets indices weights input target gamma beta mean variance kernel lhs rhs"
OPERANDS += " query key value logsumexp attn_bias grid log_probs input_lengths target_lengths grad_loss"
OPERANDS += " residual sum sum_grad"
TYPES = dict.fromkeys(OPERANDS.split(), "Operand") | {
    "out": "Array | None",
    "epsilon": "float", "label_smoothing": "float", "negative_slope": "float", "min": "float", "max": "float", "alpha": "float",
    "axis": "int", "groups": "int", "blank": "int", "zero_infinity": "bool", "accumulate": "bool",
    "num_groups": "int", "stride_h": "int", "stride_w": "int",
    "scale": "float", "softcap": "float", "causal_alignment": "str", "is_causal": "bool", "bias_grad": "bool",
    "keepdims": "bool", "ceil_mode": "bool", "count_include_pad": "bool",
    "reduction": "str", "approximate": "str", "activation": "str", "x_grad": "bool", "layout": "str",
    "mode": "str", "coordinate_transform": "str", "nearest_rounding": "str",
    "scale_factor": "float | Sequence[float]", "roi": "Sequence[Sequence[float]]",
    "cubic_a": "float", "extrapolation_value": "float", "exclude_outside": "bool", "antialias": "bool",
    "ignore_index": "int", "divisor_override": "int", "indices_dtype": "DTypeLike",
    "stride": "PerAxis", "dilation": "PerAxis", "kernel_size": "PerAxis", "output_size": "PerAxis", "padding": "Padding",
    "weight_groups": "int", "offset_groups": "int",
    "output_padding": "PerAxis", "input_size": "PerAxis",
    "pads": "Sequence[Sequence[int]]",
    "padding_mode": "str", "align_corners": "bool",
    "original_shape": "Sequence[int]", "input_shape": "Sequence[int]",
}  # fmt: skip
# the same word as an operand, but an option
OPTIONS = {"beta": "float", "bias": "bool", "value": "float"}
PAIRS = ("add", "sub", "mul", "div", "maximum", "minimum")


def type_of(method, parameter):
    if parameter.kind is parameter.KEYWORD_ONLY and parameter.name in OPTIONS:
        return OPTIONS[parameter.name]
    known = TYPES[parameter.name]
    if parameter.name in ("lhs", "rhs") and method.removesuffix("_backward") in PAIRS:
        return known + " | float"
    if parameter.name == "axis" and parameter.default is None:
        return "int | Sequence[int] | None"
    return known + " | None" if parameter.default is None and "None" not in known else known


def result_of(method):
    returns = re.search(r"Returns\n\s*-+\n\s*(\w+)", method.__doc__)[1]
    return "Array" if returns == "ndarray" else returns


def method_stub(name, method):
    text, starred = ["self"], False
    for p in list(inspect.signature(method).parameters.values())[1:]:
        if p.kind is p.KEYWORD_ONLY and not starred:
            text.append("*")
            starred = True
        default = (
            "" if p.default is p.empty else f" = {p.default!r}" if isinstance(p.default, int | float | str | None) else " = ..."
        )
        text.append(f"{p.name}: {type_of(name, p)}{default}")
    return f"    def {name}({', '.join(text)}) -> {result_of(method)}: ..."


def stub(cls, bases, head):
    methods = {n: m for n, m in inspect.getmembers(cls, callable) if not n.startswith("_")}
    lines = [method_stub(n, m) for n, m in methods.items()]
    body = "\n".join([f"class {cls.__name__}{bases}:", *head, *lines])
    tuples = sorted(n for n, c in vars(results).items() if hasattr(c, "_fields") and re.search(rf"-> {n}:", body))
    types = sorted(n for n in ("Array", "DTypeLike", "Operand", "Padding", "PerAxis") if re.search(rf"\b{n}\b", body))
    imports = ["# written by .ci/make_stubs.py"]
    imports += ["from abc import ABC, abstractmethod"] if "ABC" in bases else []
    imports += [
        "from collections.abc import Callable, Sequence" if "Callable" in body else "from collections.abc import Sequence"
    ]
    imports += ["from typing import Any", "", "import numpy as np", ""] if "np." in body else [""]
    imports += [f"from ._types import {', '.join(types)}"]
    imports += [f"from .results import {', '.join(tuples)}"] if tuples else []
    return "\n".join([*imports, "", body, ""])


def function_stub(name):
    """An operation on Vars: its operands may be Vars, and so is its (first) result."""
    function = getattr(functions, name)
    text, starred = [], False
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not starred:
            text.append("*")
            starred = True
        kind = "Any" if p.name == "backend" else re.sub(r"\bOperand\b", "Var | Operand", type_of(name, p))
        default = (
            "" if p.default is p.empty else f" = {p.default!r}" if isinstance(p.default, int | float | str | None) else " = ..."
        )
        text.append(f"{p.name}: {kind}{default}")
    rule = rule_of(name)
    result = result_of(getattr(cpuops.Backend, name)) if rule.results and not rule.first_only else "Var"
    return f"def {name}({', '.join(text)}) -> {result}: ..."


def functions_stub():
    """The functions that functions.py has of its own are in its source; this is beside it, and has all."""
    lines = [function_stub(name) for name in functions.OPERATIONS]
    body = "\n".join(lines)
    tuples = sorted(n for n, c in vars(results).items() if hasattr(c, "_fields") and re.search(rf"-> {n}:", body))
    types = sorted(n for n in ("DTypeLike", "Operand", "Padding", "PerAxis") if re.search(rf"\b{n}\b", body))
    return "\n".join([
        "# written by .ci/make_stubs.py", "from collections.abc import Sequence", "from typing import Any", "",
        f"from .._types import {', '.join(types)}", f"from ..results import {', '.join(tuples)}",
        f"from ._shapes import {', '.join(f'{n} as {n}' for n in functions.SHAPES)}", "from ._var import GradFn, Var", "",
        "SHAPES: list[str]", "OPERATIONS: list[str]", "__all__: list[str]", "",
        "def grad_fn_of(name: str) -> type[GradFn]: ...", "def power(x: Var, exponent: int | float) -> Var: ...",
        body, "",
    ])  # fmt: skip


def stubs():
    primitives = [
        "    @property", "    @abstractmethod", "    def name(self) -> str: ...",
        "    @property", "    @abstractmethod", "    def num_threads(self) -> int: ...",
        "    @abstractmethod", "    def _kernel(self, name: str, dtype: np.dtype[Any]) -> Callable[..., None]: ...",
        "    @abstractmethod", "    def _threads(self, cost_ns: float) -> int: ...",
        "    def _run(self, name: str, dtype: np.dtype[Any], cost_ns: float, *args: Any) -> None: ...",
    ]  # fmt: skip
    return {
        FOLDER / "backend.pyi": stub(cpuops.Backend, "(ABC)", primitives),
        FOLDER / "backward.pyi": stub(cpuops.BackwardOps, "", []),
        FOLDER / "autograd" / "functions.pyi": functions_stub(),
    }


if __name__ == "__main__":
    stale = [path for path, text in stubs().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if "--check" in sys.argv[1:]:
            print(f"{path.name} is stale: run python .ci/make_stubs.py")
        else:
            path.write_text(stubs()[path])
    sys.exit(bool(stale) and "--check" in sys.argv[1:])
