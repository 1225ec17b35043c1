"""Optimizer: groups of parameters, their options and their state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .. import _alloc, _check, _operand, _threads
from .._operand import ready_alike
from .._types import Array, Operand
from ..autograd import Var
from ..autograd._context import default_backend
from ..errors import ArgumentError, DTypeError, ShapeError, message, shown

__all__ = ["Optimizer"]

STEPS = "steps"  # the state's entry that counts the steps of a parameter


class Alike(NamedTuple):
    """Parameters of one dtype that have made equally many steps, their gradients and their states."""

    parameters: list[Array]
    grads: list[Array]
    states: list[dict[str, Any]]


def _fitting(array: Array, g: Array) -> tuple[Array, Array]:
    """A parameter and its gradient as a kernel takes them, or why not: either may have been exchanged since it was checked."""
    if not (_operand.ready(array) and array.flags.writeable):
        raise ArgumentError(message("step", "parameters", "an array of another kind", "writable C-contiguous floating arrays"))
    g = _check.floating("step", "grad", g)
    _check.shape("step", "grad", g, array.shape)
    if g.dtype != array.dtype:
        raise DTypeError(message("step", "grad", f"of dtype {g.dtype}", f"its parameter's {array.dtype}"))
    return array, g


class Optimizer(ABC):
    """What all optimizers do; a subclass has its options' checks, the names of its state, and the step of parameters alike.

    Parameters
    ----------
    parameters : iterable of Var, or of dict
        Leaves to train. A dict is a group with options of its own: ``{"parameters": [...], "lr": 0.01}``.
    backend : CpuBackend, optional
        Where steps run; None is the tape's default.
    **options
        The subclass's own, for every group that does not say otherwise.

    Attributes
    ----------
    groups : list of dict
        The groups: ``"parameters"``, and every option by name. An option may be changed between steps.

    Raises
    ------
    ArgumentError
        No parameters, one that is no leaf, one that stands twice, or an unknown or wrong option.
    """

    # the state's arrays that a parameter may have
    SLOTS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, parameters: Iterable[Var] | Iterable[Mapping[str, Any]], *, backend: Any = None, **options: Any):
        self._op = type(self).__name__
        self.backend = default_backend() if backend is None else backend
        self.groups = self._grouped(list(parameters), options)
        self._state: dict[int, dict[str, Any]] = {}

    def _grouped(self, given: list[Any], options: dict[str, Any]) -> list[dict[str, Any]]:
        of_dicts = bool(given) and all(isinstance(entry, Mapping) for entry in given)
        groups, seen = [], set()
        for entry in given if of_dicts else [{"parameters": given}]:
            unknown = sorted(entry.keys() - options.keys() - {"parameters"})
            if unknown:
                raise ArgumentError(message(self._op, "parameters", f"a group with {shown(unknown)}", f"options {', '.join(options)}"))
            group = {**options, **entry, "parameters": list(entry.get("parameters", ()))}
            self._check(group)
            for p in group["parameters"]:
                if not isinstance(p, Var) or not p.is_leaf:
                    what = "a Var that an operation made" if isinstance(p, Var) else f"a {type(p).__name__}"
                    raise ArgumentError(message(self._op, "parameters", f"{what} among them", "leaf Vars"))
                if p.dtype.kind != "f" or not p.array.flags.c_contiguous or not p.array.flags.writeable:
                    raise ArgumentError(message(self._op, "parameters", "an array of another kind", "writable C-contiguous floating arrays"))
                if id(p) in seen:
                    raise ArgumentError(message(self._op, "parameters", "one Var twice", "each once"))
                seen.add(id(p))
            groups.append(group)
        if not seen:
            raise ArgumentError(message(self._op, "parameters", "nothing", "at least one Var"))
        return groups

    def _number(self, group: Mapping[str, Any], name: str, low: float = 0.0, below: float | None = None) -> float:
        """The checked option of a group."""
        value = _check.number(self._op, name, group[name], low=low)
        if below is not None and value >= below:
            raise ArgumentError(message(self._op, name, shown(value), f"a number from {low:g} to below {below:g}"))
        return value

    @abstractmethod
    def _check(self, group: Mapping[str, Any]) -> None:
        """Refuse wrong options."""

    @abstractmethod
    def _step(self, group: dict[str, Any], alike: Alike, step: int, lr: float) -> None:
        """Update parameters and their state; `step` is the number of this step, from 1."""

    @property
    def parameters(self) -> Iterator[Var]:
        """Every parameter of every group."""
        return (p for group in self.groups for p in group["parameters"])

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for p in self.parameters:
            if p.requires_grad:
                p.grad = None

    def step(self, scale: float = 1.0) -> None:
        """Move every parameter that has a gradient.

        Parameters
        ----------
        scale : float
            What every group's `lr` is multiplied by in this step: the value of a schedule.
        """
        scale = _check.number("step", "scale", scale, low=0)
        for group in self.groups:
            self._check(group)
        for group in self.groups:
            # of one dtype, and as many steps old: one call of a kernel, whatever their number
            together: dict[tuple[str, int], Alike] = {}
            for p in group["parameters"]:
                g = p.grad
                if g is None:
                    continue
                array = p.array
                if not (ready_alike(array, g) and array.flags.writeable):
                    array, g = _fitting(array, g)
                state = self._state.get(id(p))
                if state is None:
                    state = self._state[id(p)] = {STEPS: 0}
                key = array.dtype.char, state[STEPS]
                alike = together.get(key)
                if alike is None:
                    alike = together[key] = Alike([], [], [])
                alike.parameters.append(array)
                alike.grads.append(g)
                alike.states.append(state)
            for (_, steps), alike in together.items():
                self._step(group, alike, steps + 1, group["lr"] * scale)
                for state in alike.states:
                    state[STEPS] = steps + 1

    def _slots(self, alike: Alike, name: str, wanted: bool = True) -> list[Array] | None:
        """An array of every state, zeros at first; None where it is not wanted."""
        if not wanted:
            return None
        for p, state in zip(alike.parameters, alike.states, strict=True):
            if name not in state:
                state[name] = _alloc.zeros(p.shape, p.dtype)
        return [state[name] for state in alike.states]

    def _run(self, kernel: str, alike: Alike, *arguments: Any, arrays: int) -> None:
        """Call a kernel of `optim` on parameters, gradients and what follows; `arrays` pass through memory."""
        parameters, grads, _ = alike
        work = _threads.work(bytes_=arrays * sum(p.nbytes for p in parameters))
        self.backend._run(f"optim.{kernel}", parameters[0].dtype, work, parameters, grads, *arguments)

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Array]:
        """The state of all parameters as arrays: ``"<place>.<name>"``, the place counted through all groups. Options are not in it."""
        state = {}
        for i, p in enumerate(self.parameters):
            for name, value in self._state.get(id(p), {}).items():
                state[f"{i}.{name}"] = np.asarray(value)
        return state

    def load_state_dict(self, state: Mapping[str, Operand]) -> None:
        """Take over a state that :meth:`state_dict` gave; everything is checked before anything changes.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError
            A name, shape or dtype that this optimizer's parameters cannot have.
        """
        op = "load_state_dict"
        parameters = list(self.parameters)
        new: dict[int, dict[str, Any]] = {}
        for name, value in state.items():
            place, _, slot = name.partition(".")
            if not place.isdecimal() or int(place) >= len(parameters) or slot not in (STEPS, *self.SLOTS):
                expected = f"places below {len(parameters)} and {', '.join((STEPS, *self.SLOTS))}"
                raise ArgumentError(message(op, "state", f"with an entry {shown(name)}", expected))
            p, a = parameters[int(place)], _check.array(op, name, value)
            if slot == STEPS:
                if a.dtype.kind not in "iu" or a.shape != ():
                    raise DTypeError(message(op, name, f"of dtype {a.dtype} and shape {a.shape}", "one integer"))
                new.setdefault(id(p), {})[slot] = int(a)
                continue
            if a.shape != p.shape:
                raise ShapeError(message(op, name, f"of shape {a.shape}", f"its parameter's {p.shape}"))
            if a.dtype != p.dtype:
                raise DTypeError(message(op, name, f"of dtype {a.dtype}", f"its parameter's {p.dtype}"))
            new.setdefault(id(p), {})[slot] = np.array(a, order="C")
        for own in new.values():
            if STEPS not in own:
                raise ArgumentError(message(op, "state", f"arrays without {STEPS}", "both"))
        self._state = new

    def __repr__(self) -> str:
        groups = [", ".join(f"{k}={v}" for k, v in group.items() if k != "parameters") for group in self.groups]
        return f"{type(self).__name__}({'; '.join(groups)}; {sum(1 for _ in self.parameters)} parameters)"
