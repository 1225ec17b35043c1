"""Module: parameters, buffers and parts under nested names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .. import _check
from .._alloc import aligned
from .._types import Array, Operand
from ..autograd import Var
from ..errors import ArgumentError, DTypeError, ShapeError, message, shown

__all__ = ["Buffer", "Module", "Parameter"]


class Parameter(Var):
    """A Var that a module trains: a leaf, found by its name in the module."""

    __slots__ = ()

    def freeze(self) -> None:
        """Take no gradient to it from now on."""
        self._edge = None

    def unfreeze(self) -> None:
        """Take gradients to it (again)."""
        if self._edge is None:
            self._edge = Var(self.array)._edge


class Buffer:
    """An array that belongs to a module's state and is not trained, such as running statistics."""

    __slots__ = ("array",)

    def __init__(self, array: Array):
        self.array = array

    def __repr__(self) -> str:
        return f"Buffer({list(self.array.shape)}, {self.array.dtype})"


class Module:
    """A part of a network: called with Vars or arrays, it returns Vars.

    A subclass assigns its :class:`Parameter`, :class:`Buffer` and Module attributes, in any order, and defines `forward`. They are
    found by their attributes' names; a part's names follow its own after a dot (``"encoder.weight"``).

    Attributes
    ----------
    training : bool
        What :meth:`train` and :meth:`eval` set: dropout and batch normalisation behave differently.
    """

    training: bool = True

    def forward(self, *inputs: Any, **options: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: forward is not defined, expected a method of the subclass")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return self.forward(*inputs, **options)

    def __repr__(self) -> str:
        parts = [f"  ({name}): " + repr(part).replace("\n", "\n  ") for name, part in self.named_children()]
        head = f"{type(self).__name__}({self.describe()}"
        return head + ("\n" + "\n".join(parts) + "\n)" if parts else ")")

    def describe(self) -> str:
        """What stands between the brackets of its repr."""
        return ""

    # ------------------------------------------------------------ what it has

    def _members(self) -> Iterator[tuple[str, Any]]:
        return iter(vars(self).items())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, module) of its own parts."""
        return ((name, value) for name, value in self._members() if isinstance(value, Module))

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """(name, module) of itself, under "", and of all parts of parts, each module once."""
        seen: set[int] = set()
        waiting: list[tuple[str, Module]] = [(prefix, self)]
        while waiting:
            name, module = waiting.pop(0)
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            inner = [(f"{name}.{child}" if name else child, part) for child, part in module.named_children()]
            waiting[:0] = inner

    def modules(self) -> Iterator[Module]:
        """Itself and all parts of parts."""
        return (module for _, module in self.named_modules())

    def _named(self, kind: type) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, value in module._members():
                if isinstance(value, kind) and id(value) not in seen:
                    seen.add(id(value))
                    yield f"{prefix}.{name}" if prefix else name, value

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """(name, parameter), each parameter once."""
        return self._named(Parameter)

    def parameters(self) -> Iterator[Parameter]:
        """Every parameter once, in the order of :meth:`named_parameters`: what an optimizer takes."""
        seen: set[int] = set()
        waiting: list[Module] = [self]
        while waiting:
            module = waiting.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            parts = []
            for _, value in module._members():
                if isinstance(value, Parameter):
                    if id(value) not in seen:
                        seen.add(id(value))
                        yield value
                elif isinstance(value, Module):
                    parts.append(value)
            waiting += reversed(parts)

    def named_buffers(self) -> Iterator[tuple[str, Buffer]]:
        """(name, buffer), each buffer once."""
        return self._named(Buffer)

    def num_parameters(self) -> int:
        """Elements of all parameters."""
        return sum(p.size for p in self.parameters())

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Array]:
        """The arrays of all parameters and buffers by name: the arrays themselves, not copies."""
        return {name: value.array for kind in (Parameter, Buffer) for name, value in self._named(kind)}

    def load_state_dict(self, state: Mapping[str, Operand], *, strict: bool = True) -> None:
        """Copy arrays into the parameters and buffers of the same names; all are checked before the first is written.

        Parameters
        ----------
        state : mapping of str to ndarray
            As :meth:`state_dict` gives it.
        strict : bool
            Whether a name that only one side has is refused.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError
            Names, shapes or dtypes do not agree.
        """
        op = "load_state_dict"
        own = {name: value for kind in (Parameter, Buffer) for name, value in self._named(kind)}
        if _check.flag(op, "strict", strict) and set(own) != set(state):
            missing, unknown = sorted(set(own) - set(state)), sorted(set(state) - set(own))
            raise ArgumentError(message(op, "state", f"without {shown(missing)} and with {shown(unknown)}", "the names of this module"))
        arrays = {}
        for name in own.keys() & state.keys():
            a, mine = _check.array(op, name, state[name]), own[name].array
            if a.shape != mine.shape:
                raise ShapeError(message(op, name, f"of shape {a.shape}", f"{mine.shape}"))
            if a.dtype != mine.dtype:
                raise DTypeError(message(op, name, f"of dtype {a.dtype}", f"{mine.dtype}"))
            arrays[name] = a.copy()
        for name, a in arrays.items():
            own[name].array[...] = a

    def astype(self, dtype: Any) -> Module:
        """Itself, with all floating parameters and buffers in a dtype; gradients are dropped."""
        for kind in (Parameter, Buffer):
            for _, value in self._named(kind):
                if value.array.dtype.kind == "f":
                    value.array = aligned(value.array, dtype)
        self.zero_grad()
        return self

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            if parameter.requires_grad:
                parameter.grad = None

    def train(self, mode: bool = True) -> Module:
        """Itself, with all parts in training (or not)."""
        _check.flag("train", "mode", mode)
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Itself, with all parts in use: no dropout, and running statistics."""
        return self.train(False)

    def freeze(self) -> Module:
        """Itself, with no gradient to any parameter."""
        for parameter in self.parameters():
            parameter.freeze()
        return self

    def summary(self, *inputs: Any) -> str:
        """A table of all parts: name, kind, shape of the result of a call with `inputs`, number of parameters."""
        from ._summary import summary

        return summary(self, *inputs)


def zeros(shape: int | tuple[int, ...], dtype: Any) -> Parameter:
    return Parameter(np.zeros(shape, dtype))


def ones(shape: int | tuple[int, ...], dtype: Any) -> Parameter:
    return Parameter(np.ones(shape, dtype))


def generator_of(value: np.random.Generator | int | None) -> np.random.Generator:
    """A generator from what layers take: one, the seed of one, or None for an unpredictable one."""
    if value is None or isinstance(value, np.random.Generator):
        return np.random.default_rng(value)
    return np.random.default_rng(_check.integer("nn", "generator", value, 0))


def fraction(op: str, name: str, value: float) -> float:
    """An option from 0 to 1."""
    v = _check.number(op, name, value, 0.0)
    if v > 1:
        raise ArgumentError(message(op, name, shown(value), "a number from 0 to 1"))
    return v
