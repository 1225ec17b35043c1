"""The memory of geometries: what is equal but of another type is another question, and it stays bounded."""

from typing import NamedTuple

import pytest

from cpuops._remembered import remembered


class First(NamedTuple):
    a: int
    b: int


class Second(NamedTuple):
    a: int
    b: int


@pytest.fixture
def asked():
    """A remembered function that returns its arguments, and the list of those that it was really called with."""
    calls = []

    @remembered
    def function(*args):
        calls.append(args)
        return args

    return function, calls


KEPT = [
    (1,), (True,), (1.5,), (1.0,), (0,), (0.0,), (False,), (None,), ("1",), ((1, 2),), (First(1, 2),), (Second(1, 2),),
    ((1, True),), ((True, 1),), ((1, 1),), ((), 1),
]  # fmt: skip


def test_equal_arguments_of_other_types_are_other_arguments(asked):
    function, calls = asked
    for _ in range(2):
        for args in KEPT:
            answer = function(*args)
            assert answer == args and repr(answer) == repr(args)
    assert len(calls) == len(KEPT)


@pytest.mark.parametrize("value", [-0.0, float("nan"), [1], 1j, ([1],)], ids=repr)
def test_what_is_no_key_is_asked_again(asked, value):
    function, calls = asked
    assert repr(function(value)) == repr(function(value)) == repr((value,))
    assert len(calls) == 2


def test_zero_is_not_minus_zero(asked):
    function, calls = asked
    assert [repr(function(v)[0]) for v in (0.0, -0.0, 0.0, -0.0)] == ["0.0", "-0.0", "0.0", "-0.0"]
    assert len(calls) == 3


def test_a_refusal_is_not_kept():
    calls = []

    @remembered
    def refuse(x):
        calls.append(x)
        raise ValueError(x)

    for _ in range(2):
        with pytest.raises(ValueError, match="3"):
            refuse(3)
    assert calls == [3, 3]


def test_the_memory_is_bounded(asked):
    function, calls = asked
    for i in range(1000):
        function(i)
    calls.clear()
    function(999)
    assert not calls
    function(0)
    assert calls == [(0,)]
