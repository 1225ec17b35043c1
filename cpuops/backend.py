"""Backend: the forward operations, over two primitives and one call site."""

from abc import ABC, abstractmethod

from .ops import Forward


class Backend(Forward, ABC):
    """Forward operations on NumPy arrays; no gradient.

    A backend supplies four primitives: `name`, `num_threads`, `_kernel` and `_threads`. Everything else is inherited
    and may be overridden.
    """

    # Calls that cost less (estimated nanoseconds) may pass by `_kernel`, `_threads` and `_run` (_small.pyx)
    _small_ns = 0.0

    @property
    @abstractmethod
    def name(self):
        """str: what the backend is called."""

    @property
    @abstractmethod
    def num_threads(self):
        """int: the most threads that one call uses."""

    @abstractmethod
    def _kernel(self, name, dtype):
        """Return the kernel function of a name such as ``"softmax.softmax"`` for float32 or float64."""

    @abstractmethod
    def _threads(self, cost_ns):
        """Return how many threads a call takes that costs about `cost_ns` nanoseconds on one."""

    def _run(self, name, dtype, cost_ns, *args):
        """Call a kernel: the only call site, where dtype, thread count and (in a subclass) tracing meet.

        The leading 0.0 is the tag whose C type selected the kernel's specialisation.
        """
        return self._kernel(name, dtype)(0.0, *args, self._threads(cost_ns))
