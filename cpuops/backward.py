"""BackwardOps: a gradient for every operation, for any backend."""

from .ops import Gradients


class BackwardOps(Gradients):
    """Mixin: default gradients, composed of NumPy and the forward methods of the class it is mixed into.

    ``class Mine(Backend, BackwardOps)`` has every gradient. Each public ``*_backward`` checks its operands and ends in a
    private hook of the same name with a leading underscore; the hook's default is readable NumPy, and the CPU backends
    replace it with a kernel.
    """
