"""cpuops: neural-network operations and their gradients on the CPU, NumPy arrays in and out."""

from . import errors, memory, results
from .backend import Backend
from .backward import BackwardOps
from .config import show_config
from .cpu import CpuBackend, ThreadedCpuBackend
from .errors import ArgumentError, DTypeError, IndexRangeError, KernelError, ShapeError
from .explain import explain

__version__ = "0.1.0"
__all__ = [
    "ArgumentError", "Backend", "BackwardOps", "CpuBackend", "DTypeError", "IndexRangeError", "KernelError", "ShapeError",
    "ThreadedCpuBackend", "errors", "explain", "memory", "results", "show_config",
]  # fmt: skip
