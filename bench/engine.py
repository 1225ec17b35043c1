"""What the worker asks of a library: one engine a library, one contestant a way of doing a workload with it."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .errors import BenchError

__all__ = ["ENGINES", "PEERS", "Contestant", "Engine", "load"]

# name -> where its class stands. The first is ours
ENGINES = {
    "cpuops": ("bench.cpuops_engine", "CpuopsEngine"),
    "torch": ("bench.peers.torch_peer", "TorchPeer"),
    "onnxruntime": ("bench.peers.onnx_peer", "OnnxPeer"),
    "numpy": ("bench.peers.numpy_peer", "NumpyPeer"),
    "jax": ("bench.peers.jax_peer", "JaxPeer"),
    "mlx": ("bench.peers.mlx_peer", "MlxPeer"),
}
PEERS = tuple(name for name in ENGINES if name != "cpuops")


def as_arrays(result):
    """The arrays of a result, be they one or several; things that NumPy can read are read."""
    several = result if isinstance(result, tuple | list) else (result,)
    return tuple(None if r is None else np.asarray(r) for r in several)


class Contestant(NamedTuple):
    """One way of doing a workload: `call` is what is timed, `read` turns its result into arrays in our layout."""

    variant: str
    call: Callable[[], Any]
    read: Callable[[Any], tuple] = as_arrays


class Engine(ABC):
    """A library that does workloads."""

    name: str
    # whether its results are held to cpuops's own tolerances; a peer is asked for the right answer, not for our accuracy
    exact = False

    @abstractmethod
    def __init__(self, threads):
        """Limit the library to so many threads; ImportError when it is not installed."""

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def contestants(self, job) -> list[Contestant]:
        """Its ways of doing the job; none when it has no such operation."""


def load(name, threads):
    if name not in ENGINES:
        raise BenchError(f"no engine {name!r}; there are {', '.join(ENGINES)}")
    module, attribute = ENGINES[name]
    return getattr(importlib.import_module(module), attribute)(threads)
