"""Batches of arrays for a training: shuffled, prepared ahead in a thread, and resumed in the middle of an epoch."""

from __future__ import annotations

import os
import queue
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from . import _check
from ._types import Array, Operand
from .errors import ArgumentError, ShapeError, message

__all__ = ["Batches"]

Batch = tuple[Array, ...]
Transform = Callable[..., Any]


class Batches:
    """The batches of one epoch after the other; iterating gives those of the present epoch that are left.

    Parameters
    ----------
    *arrays : ndarray [N, ...]
        Examples along the first axis, labels and whatever else belongs to them. Not copied.
    batch_size : int
    shuffle : bool
        Whether every epoch has an order of its own.
    drop_last : bool
        Whether a last batch that is smaller is left out.
    transform : callable, optional
        ``transform(rng, *batch)`` returns the batch's arrays anew (one array or a tuple), such as shifted images.
    prefetch : int
        Batches that a thread prepares ahead; with 0 no thread is started.
    seed : int, optional
        What orders and transforms follow from; unpredictable when None.

    Raises
    ------
    ArgumentError, ShapeError
        No arrays, different numbers of examples, or an option out of range.

    Notes
    -----
    Order and `rng` follow from the seed, the epoch and the number of the batch, not from `prefetch` or from threads. An iteration that
    is left early leaves the epoch where it is. In a forked process an iteration under way goes on, without the thread.
    """

    def __init__(
        self, *arrays: Operand, batch_size: int, shuffle: bool = True, drop_last: bool = False, transform: Transform | None = None,
        prefetch: int = 2, seed: int | None = None,
    ):  # fmt: skip
        op = "Batches"
        if not arrays:
            raise ArgumentError(message(op, "arrays", "nothing", "at least one array"))
        self.arrays = tuple(_check.array(op, f"arrays[{i}]", a) for i, a in enumerate(arrays))
        for i, a in enumerate(self.arrays):
            _check.rank(op, f"arrays[{i}]", a, 1, 64)
            if len(a) != len(self.arrays[0]):
                raise ShapeError(message(op, f"arrays[{i}]", f"of {len(a)} examples", f"{len(self.arrays[0])}, as the first"))
        self.batch_size = _check.integer(op, "batch_size", batch_size, 1)
        self.shuffle, self.drop_last = _check.flag(op, "shuffle", shuffle), _check.flag(op, "drop_last", drop_last)
        self.prefetch = _check.integer(op, "prefetch", prefetch, 0)
        if transform is not None and not callable(transform):
            raise ArgumentError(message(op, "transform", f"a {type(transform).__name__}", "a function"))
        self.transform = transform
        self.seed = secrets.randbits(62) if seed is None else _check.integer(op, "seed", seed, 0)
        self.epoch = 0
        self.done = 0  # batches of this epoch that were given out

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        n = len(self.arrays[0])
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def _order(self, epoch: int) -> Array:
        n = len(self.arrays[0])
        return np.random.default_rng((self.seed, epoch)).permutation(n) if self.shuffle else np.arange(n)

    def _batch(self, order: Array, epoch: int, i: int) -> Batch:
        chosen = order[i * self.batch_size : (i + 1) * self.batch_size]
        batch: Any = tuple(a[chosen] for a in self.arrays)
        if self.transform is not None:
            batch = self.transform(np.random.default_rng((self.seed, epoch, i)), *batch)
        return batch if isinstance(batch, tuple) else (batch,)

    def __iter__(self) -> Iterator[Batch]:
        epoch, order = self.epoch, self._order(self.epoch)
        make = self._ahead if self.prefetch else self._as_asked
        for i, batch in enumerate(make(order, epoch, self.done), self.done):
            # before it is given out: whoever saves the state while using the batch goes on with the next
            self.done = i + 1
            if self.done == len(self):
                self.epoch, self.done = epoch + 1, 0
            yield batch

    def _as_asked(self, order: Array, epoch: int, first: int) -> Iterator[Batch]:
        return (self._batch(order, epoch, i) for i in range(first, len(self)))

    def _ahead(self, order: Array, epoch: int, first: int) -> Iterator[Batch]:
        """The batches, prepared by a thread that ends with the iteration."""
        ready: queue.Queue[tuple[Batch | None, BaseException | None]] = queue.Queue(self.prefetch)
        stop, process = threading.Event(), os.getpid()

        def prepare() -> None:
            for i in range(first, len(self)):
                if stop.is_set():
                    return
                try:
                    item: tuple[Batch | None, BaseException | None] = self._batch(order, epoch, i), None
                except BaseException as error:  # it is the iteration's to raise
                    item = None, error
                ready.put(item)
                if item[0] is None:
                    return

        thread = threading.Thread(target=prepare, name="cpuops.data", daemon=True)
        thread.start()
        try:
            for i in range(first, len(self)):
                if os.getpid() != process:  # the thread, and perhaps the queue's lock, stayed in the parent
                    yield from self._as_asked(order, epoch, i)
                    return
                batch, error = ready.get()
                if batch is None:
                    assert error is not None
                    raise error
                yield batch
        finally:
            if os.getpid() == process:
                stop.set()
                while thread.is_alive():  # it may wait for room
                    try:
                        ready.get(timeout=0.01)
                    except queue.Empty:
                        thread.join(0.01)

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Array]:
        """Seed, epoch, and batches of it that were given out."""
        return {"position": np.array([self.seed, self.epoch, self.done], np.int64)}

    def load_state_dict(self, state: Mapping[str, Operand]) -> None:
        """Go on from where :meth:`state_dict` was taken.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError, IndexRangeError
            Another state than of these batches.
        """
        op = "load_state_dict"
        if set(state) != {"position"}:
            raise ArgumentError(message(op, "state", f"with entries {', '.join(sorted(state)) or 'none'}", "position alone"))
        position = _check.integers(op, "position", state["position"])
        _check.shape(op, "position", position, (3,), "seed, epoch and batch")
        seed, epoch, done = (int(v) for v in position)
        if seed < 0 or epoch < 0 or not 0 <= done < max(1, len(self)):
            raise ArgumentError(message(op, "position", f"{[seed, epoch, done]}", f"an epoch of {len(self)} batches"))
        self.seed, self.epoch, self.done = seed, epoch, done
