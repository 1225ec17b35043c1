"""Refusals. Every one is a :class:`KernelError`, raised before any thread starts and before anything is written."""

__all__ = [
    "ArgumentError", "ChangedError", "DTypeError", "IndexRangeError", "KernelError", "NoDerivativeError", "ReleasedError", "ShapeError",
]  # fmt: skip

# a message stays readable whatever was passed
_LONGEST = 300


class KernelError(Exception):
    """Base of all refusals of cpuops."""


class ShapeError(KernelError, ValueError):
    """An array has a wrong rank or shape."""


class ArgumentError(KernelError, ValueError):
    """An option has a value outside its range."""


class DTypeError(KernelError, TypeError):
    """An operand is no array of the expected dtype."""


class IndexRangeError(KernelError, IndexError):
    """An index, label or length is out of range."""


class NoDerivativeError(KernelError, NotImplementedError):
    """A derivative is asked for that does not exist or is not implemented."""


class ReleasedError(KernelError, RuntimeError):
    """A gradient is asked for a second time, after what was saved for it has been released."""


class ChangedError(KernelError, RuntimeError):
    """An array that was saved for a gradient has been changed since."""


def shown(value):
    """`value` in at most a few hundred printable characters."""
    try:
        text = repr(value)
    except Exception:  # a foreign object's own __repr__ may fail; the refusal must not
        text = f"a {type(value).__name__}"
    text = text.encode("ascii", "backslashreplace").decode()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def message(op, argument, given, expected):
    """The one form of a message: operation, argument, what was given, what was expected.

    `given` and `expected` are texts; pass values through :func:`shown`.
    """
    return f"{op}: {argument} is {given}, expected {expected}"
