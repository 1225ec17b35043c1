"""The operations as functions on Vars. Those of the backends are generated from their signatures when they are first used."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ..errors import ArgumentError, message, shown
from . import _generate, _shapes
from ._rules import differentiable_operations, rule_of
from ._var import GradFn, Var

SHAPES = _shapes.__all__
OPERATIONS = differentiable_operations()
__all__ = [*SHAPES, *OPERATIONS, "power"]
_GRAD_FNS: dict[str, type[GradFn]] = {}
_LOCK = threading.Lock()  # two threads that use an operation for the first time get one function
globals().update({name: getattr(_shapes, name) for name in SHAPES})


def __getattr__(name: str) -> Any:
    if name not in OPERATIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _LOCK:
        if name not in _GRAD_FNS:
            globals()[name], _GRAD_FNS[name] = _generate.make(rule_of(name))
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def grad_fn_of(name: str) -> type[GradFn]:
    """The GradFn of an operation of the backends."""
    if name not in _GRAD_FNS:
        __getattr__(name)
    return _GRAD_FNS[name]


def power(x: Var, exponent: int | float) -> Var:
    """x to a whole power, or to a half: products, square roots and reciprocals."""
    if type(exponent) not in (int, float) or (2 * exponent) % 1:
        raise ArgumentError(message("power", "exponent", shown(exponent), "a multiple of 0.5 (else exp(exponent · log(x)))"))
    if exponent < 0:
        return reciprocal(power(x, -exponent))
    whole, half = int(exponent), exponent % 1
    found = sqrt(x) if half else None
    factor = x
    while whole:
        if whole & 1:
            found = factor if found is None else mul(found, factor)
        whole >>= 1
        if whole:
            factor = square(factor)
    if found is None:  # 1, of x's shape, with a gradient of 0
        return _shapes.where(np.ones(x.shape, bool), 1.0, x)
    return found


add, sub, mul, div, neg, abs, matmul, sqrt, square, reciprocal, reduce_sum, reduce_mean = (
    __getattr__(name)
    for name in ("add", "sub", "mul", "div", "neg", "abs", "matmul", "sqrt", "square", "reciprocal", "reduce_sum", "reduce_mean")
)


def _of_one_sequence(function: Any) -> Any:
    def method(self: Var, *lengths: Any) -> Var:
        return function(self, lengths[0] if len(lengths) == 1 and not isinstance(lengths[0], int) else lengths)  # type: ignore[no-any-return]

    return method


_OPERATORS: dict[str, Any] = {
    "__add__": add, "__radd__": lambda self, other: add(other, self),
    "__sub__": sub, "__rsub__": lambda self, other: sub(other, self),
    "__mul__": mul, "__rmul__": lambda self, other: mul(other, self),
    "__truediv__": div, "__rtruediv__": lambda self, other: div(other, self),
    "__matmul__": matmul, "__rmatmul__": lambda self, other: matmul(other, self),
    "__pow__": power, "__neg__": neg, "__abs__": abs, "__getitem__": _shapes.getitem,
    "reshape": _of_one_sequence(_shapes.reshape), "transpose": _of_one_sequence(lambda x, axes: _shapes.transpose(x, axes or None)),
    "flatten": _shapes.flatten, "T": property(_shapes.transpose),
    "sum": lambda self, axis=None, keepdims=False: reduce_sum(self, axis=axis, keepdims=keepdims),
    "mean": lambda self, axis=None, keepdims=False: reduce_mean(self, axis=axis, keepdims=keepdims),
}  # fmt: skip
for _name, _function in _OPERATORS.items():
    setattr(Var, _name, _function)
