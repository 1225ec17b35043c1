"""show_config: what this build and this process are made of, and what the environment variables came to."""

import platform

import numpy as np

from . import _kernels, _omp, _threads, memory
from .errors import ArgumentError, message, shown

__all__ = ["show_config"]


def show_config(mode=None):
    """Print and return the configuration.

    Parameters
    ----------
    mode : {"stdout", "dicts"}, optional
        ``"stdout"`` prints and returns None, ``"dicts"`` returns the dict without printing; by default both.

    Returns
    -------
    dict or None
        ``isa`` : level in use; ``isa_available`` : levels of this build that this CPU runs; ``num_threads`` : what
        ``ThreadedCpuBackend()`` takes here and now; ``usable_cpus``; ``openmp`` : specification and runtime, or None;
        ``compiler``; ``versions`` : of cpuops, NumPy and Python; ``memory`` : see :func:`cpuops.memory.info`.

    Raises
    ------
    ArgumentError
        When `mode` is another word.
    """
    if mode not in (None, "stdout", "dicts"):
        raise ArgumentError(message("show_config", "mode", shown(mode), "'stdout' or 'dicts'"))
    config = _config()
    if mode != "dicts":
        print("\n".join(_lines(config)))
    return None if mode == "stdout" else config


def _config():
    from . import __version__  # the package is complete only after this module

    return {
        "isa": _kernels.isa,
        "isa_available": list(_kernels.isa_available),
        "num_threads": _threads.default_num_threads(),
        "usable_cpus": _threads.usable_cpus(),
        "openmp": _omp.runtime(),
        "compiler": _omp.compiler(),
        "versions": {"cpuops": __version__, "numpy": np.__version__, "python": platform.python_version()},
        "memory": memory.info(),
    }


def _lines(config):
    for key, value in config.items():
        if isinstance(value, dict):
            yield f"{key}:"
            yield from (f"  {name}: {item}" for name, item in value.items())
        elif isinstance(value, list):
            yield f"{key}: {', '.join(value)}"
        else:
            yield f"{key}: {value}"
