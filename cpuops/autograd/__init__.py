"""Automatic differentiation: a tape over any class of `Backend` and `BackwardOps`.

    from cpuops import autograd
    from cpuops.autograd import Var

    w = Var(weight)
    with autograd.using(cpuops.CpuBackend()):       # a ThreadedCpuBackend where nothing is said
        loss = autograd.cross_entropy(autograd.relu(x @ w), labels)
    loss.backward()
    w.grad

Every operation of the backends is a function here, on Vars and arrays, with the same name and arguments.
"""

from typing import TYPE_CHECKING, Any

from . import functions
from ._checkpoint import checkpoint
from ._context import detect_changes, drawing_from, enable_grad, no_grad, repeating, using
from ._engine import grad
from ._var import GradFn, Var

if TYPE_CHECKING:
    from ._group_norm import GroupNormFromParts as GroupNormBackward
    from .functions import *  # noqa: F403

__all__ = [
    "GradFn", "GroupNormBackward", "Var", "checkpoint", "detect_changes", "drawing_from", "enable_grad", "grad", "no_grad", "repeating",
    "using",
]  # fmt: skip
__all__ += functions.__all__


def __getattr__(name: str) -> Any:
    """Operations are generated when they are first used."""
    try:
        found = functions.grad_fn_of("group_norm") if name == "GroupNormBackward" else getattr(functions, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
