"""The types that public signatures speak of."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt


class SupportsArray(Protocol):
    def __array__(self) -> np.ndarray[Any, Any]: ...


class SupportsDLPack(Protocol):
    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
# what np.asarray turns into an array without copying; lists are refused
Operand: TypeAlias = Array | np.generic | memoryview | SupportsArray | SupportsDLPack
DTypeLike: TypeAlias = npt.DTypeLike
# one number for every axis, or one an axis
PerAxis: TypeAlias = int | Sequence[int]
# likewise, or a (before, after) pair an axis, or "valid" or "same"
Padding: TypeAlias = int | str | Sequence[int] | Sequence[tuple[int, int]]
