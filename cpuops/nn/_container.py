"""Modules of modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

from ..errors import DTypeError, message
from ._module import Module

__all__ = ["ModuleList", "Sequential"]


class ModuleList(Module):
    """Modules in a row, named by their places: "0", "1", …; what calls them is the module that has the list."""

    def __init__(self, *modules: Module):
        self._modules: list[Module] = []
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> None:
        """One more at the end."""
        if not isinstance(module, Module):
            raise DTypeError(message(type(self).__name__, "modules", f"a {type(module).__name__}", "a Module"))
        self._modules.append(module)

    def _members(self) -> Iterator[tuple[str, Any]]:
        return ((str(i), module) for i, module in enumerate(self._modules))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules)

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    def __getitem__(self, index: int | slice) -> Module | ModuleList:
        return type(self)(*self._modules[index]) if isinstance(index, slice) else self._modules[index]


class Sequential(ModuleList):
    """Modules of which each takes the result of the one before."""

    def forward(self, x: Any) -> Any:
        for module in self._modules:
            x = module(x)
        return x
