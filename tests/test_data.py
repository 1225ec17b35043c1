"""Batches: every example once, the same whatever prepares them, resumed, and in a forked process."""

import os
import threading
import time

import numpy as np
import pytest

from cpuops.data import Batches
from cpuops.errors import ArgumentError, KernelError, ShapeError

X, Y = np.arange(46.0).reshape(23, 2), np.arange(23)


def jitter(rng, x, y):
    return x + rng.standard_normal(x.shape), y


def epochs(batches, n=2):
    return [[tuple(a.copy() for a in batch) for batch in batches] for _ in range(n)]


def same(a, b):
    return len(a) == len(b) and all(x.tobytes() == y.tobytes() for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True))


@pytest.mark.parametrize("prefetch", [0, 1, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_every_example_once_in_another_order(prefetch, drop_last):
    batches = Batches(X, Y, batch_size=5, seed=3, prefetch=prefetch, drop_last=drop_last)
    one, two = epochs(batches)
    assert len(one) == len(two) == len(batches) == (4 if drop_last else 5)
    labels = [np.concatenate([y for _, y in epoch]) for epoch in (one, two)]
    for found in labels:
        assert len(set(found)) == len(found) == (20 if drop_last else 23)
    assert not np.array_equal(*labels)
    assert all(np.array_equal(x, X[y]) for x, y in one + two)


def test_not_shuffled():
    (one,) = epochs(Batches(X, Y, batch_size=23, shuffle=False), 1)
    assert np.array_equal(one[0][1], Y)


def test_the_same_whatever_prepares_them():
    want, *others = (epochs(Batches(X, Y, batch_size=4, seed=1, prefetch=p, transform=jitter)) for p in (0, 1, 7))
    for got in others:
        assert all(same(a, b) for a, b in zip(want, got, strict=True))
    assert not same(want[0], epochs(Batches(X, Y, batch_size=4, seed=2, transform=jitter), 1)[0])


@pytest.mark.parametrize("stop", [1, 5, 6])
def test_resumed_in_the_middle(stop):
    make = lambda seed: Batches(X, Y, batch_size=4, seed=seed, transform=jitter)  # noqa: E731
    batches = make(1)
    for i, _ in enumerate(batches, 1):
        if i == stop:
            break
    state = batches.state_dict()
    want = epochs(batches)
    other = make(2)
    other.load_state_dict(state)
    got = epochs(other)
    assert all(same(a, b) for a, b in zip(want, got, strict=True))


def test_a_transform_may_return_one_array_and_its_errors_are_raised():
    batches = Batches(X, batch_size=8, transform=lambda rng, x: x.sum(1))
    assert [b[0].shape for b in batches] == [(8,), (8,), (7,)]

    def broken(rng, x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        next(iter(Batches(X, batch_size=8, transform=broken)))


def test_no_thread_outlives_its_iteration():
    def ours():
        return [t for t in threading.enumerate() if t.name == "cpuops.data"]

    assert not ours()
    iteration = iter(Batches(X, Y, batch_size=1, prefetch=2))
    next(iteration)
    assert len(ours()) == 1
    iteration.close()
    assert not ours()


def test_prefetch_is_bounded():
    made = []
    iteration = iter(Batches(X, batch_size=1, prefetch=3, shuffle=False, transform=lambda rng, x: made.append(1) or x))
    next(iteration)
    time.sleep(0.1)
    assert len(made) <= 1 + 3 + 1  # given out, ready, and one that waits for room
    iteration.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_an_iteration_goes_on_in_a_forked_process():
    want = epochs(Batches(X, Y, batch_size=2, seed=4, transform=jitter), 1)[0]
    iteration = iter(Batches(X, Y, batch_size=2, seed=4, transform=jitter))
    first = [next(iteration)]
    child = os.fork()
    if child == 0:
        os._exit(0 if same(first + list(iteration), want) else 1)
    assert same(first + list(iteration), want)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("arrays", "options", "kind"),
    [
        ((), {}, ArgumentError), ((X, Y[1:]), {}, ShapeError), ((np.asarray(1.0),), {}, ShapeError), (([1, 2],), {}, KernelError),
        ((X,), {"batch_size": 0}, ArgumentError), ((X,), {"prefetch": -1}, ArgumentError), ((X,), {"transform": 3}, ArgumentError),
        ((X,), {"shuffle": "yes"}, ArgumentError), ((X,), {"seed": -1}, ArgumentError), ((X,), {"drop_last": 1}, ArgumentError),
    ],
)  # fmt: skip
def test_refused(arrays, options, kind):
    with pytest.raises(kind, match=r"^Batches: "):
        Batches(*arrays, **{"batch_size": 4} | options)


@pytest.mark.parametrize("state", [{}, {"position": np.zeros(2, int)}, {"position": np.array([0, 0, 99])}, {"position": np.zeros(3)}])
def test_refused_states(state):
    batches = Batches(X, batch_size=4, seed=7)
    with pytest.raises(KernelError):
        batches.load_state_dict(state)
    assert batches.state_dict()["position"].tolist() == [7, 0, 0]
