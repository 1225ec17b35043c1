"""The two CPU backends. The second overrides the thread decision and nothing else."""

import math

from . import _threads
from ._kernels import KERNELS, load
from .backend import Backend
from .backward import BackwardOps
from .cpu_gradients import CpuGradients

__all__ = ["CpuBackend", "ThreadedCpuBackend"]


class CpuBackend(CpuGradients, Backend, BackwardOps):
    """One thread: never enters a parallel region."""

    _small_ns = math.inf

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        if "_small_ns" not in vars(cls) and vars(cls).keys() & {"_kernel", "_threads", "_run"}:
            cls._small_ns = 0.0  # its own primitives are to see every call

    @property
    def name(self):
        return "cpu"

    @property
    def num_threads(self):
        return 1

    def __repr__(self):
        return "CpuBackend()"

    def _kernel(self, name, dtype):
        function = KERNELS.get((name, dtype.char))
        return load(name, dtype.char) if function is None else function

    def _threads(self, cost_ns):
        return 1


class ThreadedCpuBackend(CpuBackend):
    """Up to `num_threads` threads a call; small work stays on one.

    Parameters
    ----------
    num_threads : int, optional
        1 to 1024. None takes ``CPUOPS_NUM_THREADS``, else ``OMP_NUM_THREADS``, else the usable CPUs (affinity and
        cgroup quota), lowered by a `threadpoolctl` limit in force in the calling thread.

    Raises
    ------
    ArgumentError
        When `num_threads` is no integer from 1 to 1024.
    """

    _small_ns = float(_threads.THREADING_NS)

    def __init__(self, num_threads=None):
        self._num_threads = _threads.default_num_threads() if num_threads is None else _threads.checked_num_threads(num_threads)

    @property
    def name(self):
        return "threaded-cpu"

    @property
    def num_threads(self):
        return self._num_threads

    def __repr__(self):
        return f"ThreadedCpuBackend(num_threads={self._num_threads})"

    def _threads(self, cost_ns):
        return _threads.threads_for(cost_ns, self._num_threads)
