"""The compiled kernels: one ISA build, chosen once, at import.

Every kernel module is compiled once an ISA level into ``cpuops/_kernels/<level>/``. The widest level that both the CPU
and the build have is used; ``CPUOPS_ISA`` overrides. A module is loaded when its first kernel is asked for.
"""

import importlib
import os
from collections.abc import Callable
from pathlib import Path

from .cpuid import supported

LEVELS = ("v2", "v3", "v4", "base")

# (kernel, dtype.char) -> function; "softmax.softmax" is function softmax of module softmax
KERNELS: dict[tuple[str, str], Callable[..., None]] = {}


def load(name, char):
    """Fill KERNELS with the functions of the kernel's module; return the one asked for."""
    module_name = name.partition(".")[0]
    module = importlib.import_module(f"{__name__}.{isa}.{module_name}")
    for attribute, function in vars(module).items():
        # a fused function carries its two specialisations by C type
        by_type = getattr(function, "__signatures__", None)
        if by_type:
            KERNELS[f"{module_name}.{attribute}", "f"] = by_type["float"]
            KERNELS[f"{module_name}.{attribute}", "d"] = by_type["double"]
    return KERNELS[name, char]


def constants(module_name):
    """The kernel module itself, for the tables of names it exports beside its kernels."""
    return importlib.import_module(f"{__name__}.{isa}.{module_name}")


def _built():
    here = Path(__file__).parent
    return [level for level in LEVELS if any((here / level).glob("elementwise.*"))]


def _choose(asked, built, runnable):
    """The level to load: the one asked for, or the widest that is built and runs here."""
    usable = [level for level in built if level in runnable]
    if asked:
        if asked not in LEVELS:
            raise ImportError(f"CPUOPS_ISA={asked}: no such level, expected one of {', '.join(LEVELS)}")
        if asked not in built:
            raise ImportError(f"CPUOPS_ISA={asked}: this build of cpuops has no level {asked}, only {', '.join(built)}")
        if asked not in runnable:
            raise ImportError(f"CPUOPS_ISA={asked}: this CPU lacks level {asked}, it runs {', '.join(runnable) or 'none'}")
        return asked
    if not usable:
        raise ImportError(
            f"this build of cpuops has the levels {', '.join(built) or 'none'}, this CPU runs {', '.join(runnable) or 'none'}"
        )
    return usable[-1]


_runnable = supported()
isa_available = [level for level in _built() if level in _runnable]
isa = _choose(os.environ.get("CPUOPS_ISA", "").strip(), _built(), _runnable)
