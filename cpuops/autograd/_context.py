"""What holds while operations are recorded: backend, recording or not, checking or not. One for each thread of control."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..cpu import ThreadedCpuBackend
from ..errors import ArgumentError, message, shown

__all__ = ["Settings", "current", "default_backend", "detect_changes", "drawing_from", "enable_grad", "no_grad", "repeating", "using"]


class Settings:
    """What the functions of this package look at; never changed once it is current.

    `draws` is the dictionary in which :func:`checkpoint` notes what its function draws random numbers from, and `repeating` says that
    the function runs for the second time.
    """

    __slots__ = ("backend", "checking", "draws", "recording", "repeating")

    def __init__(
        self,
        backend: Any = None,
        recording: bool = True,
        checking: bool = False,
        draws: dict[int, Any] | None = None,
        repeating: bool = False,
    ):
        self.backend = backend
        self.recording = recording
        self.checking = checking
        self.draws = draws
        self.repeating = repeating

    def but(self, **changes: Any) -> "Settings":
        return Settings(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})


_SETTINGS: ContextVar[Settings] = ContextVar("cpuops.autograd", default=Settings())  # noqa: B039  (never changed)
current = _SETTINGS.get
_DEFAULT: list[Any] = []


def default_backend() -> Any:
    """The backend of those who choose none: a :class:`ThreadedCpuBackend`, made when it is first needed."""
    if not _DEFAULT:
        _DEFAULT.append(ThreadedCpuBackend())
    return _DEFAULT[0]


@contextmanager
def changed(**changes: Any) -> Iterator[Settings]:
    """Within the block (and this thread or task only) the settings are others."""
    settings = current().but(**changes)
    token = _SETTINGS.set(settings)
    try:
        yield settings
    finally:
        _SETTINGS.reset(token)


@contextmanager
def using(backend: Any) -> Iterator[Any]:
    """Within the block operations run on `backend`, any class of `Backend` and `BackwardOps`.

    Parameters
    ----------
    backend : object
        What it records remembers it: gradients are taken by the backend of the forward.

    Raises
    ------
    ArgumentError
        `backend` has no operations, or no gradients.
    """
    if not hasattr(backend, "relu") or not hasattr(backend, "relu_backward"):
        raise ArgumentError(message("using", "backend", shown(backend), "an object of a class of Backend and BackwardOps"))
    with changed(backend=backend):
        yield backend


@contextmanager
def no_grad() -> Iterator[None]:
    """Within the block nothing is recorded: results need no gradient."""
    with changed(recording=False):
        yield


@contextmanager
def enable_grad() -> Iterator[None]:
    """Within the block operations are recorded, also inside :func:`no_grad`."""
    with changed(recording=True):
        yield


@contextmanager
def detect_changes() -> Iterator[None]:
    """Within the block every saved array is remembered by a checksum, and backward refuses when one has changed since.

    For the search of a wrong gradient: it reads every saved array twice.
    """
    with changed(checking=True):
        yield


def repeating() -> bool:
    """Whether this is the second run of a :func:`checkpoint`: what counts calls should not count this one."""
    return current().repeating


def drawing_from(source: Any) -> None:
    """To be called before random numbers are drawn in a forward, so that :func:`checkpoint` can draw them again.

    Parameters
    ----------
    source : object with an attribute `state`
        What is drawn from: the `bit_generator` of a NumPy Generator, or anything else whose `state` can be read and set.
    """
    draws = current().draws
    if draws is not None and id(source) not in draws:
        draws[id(source)] = source, source.state
