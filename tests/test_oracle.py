"""The oracle agrees with itself: its gradients are the slopes of its functions, by finite differences."""

import types

import numpy as np
import oracle
from support import Failures, seeded
from test_gradients import slope_errors


def test_gradients_of_the_oracle(row):
    if not row.differentiable:
        assert not row.gradients
        return
    stand_in = types.SimpleNamespace(**{name: getattr(oracle, name) for name in row.methods()})
    failures = Failures()
    calls = [c for c in row.calls(seeded("oracle", row.name)) if c.smooth and all(0 < a.size < 600 for a in c.arrays.values())]
    for call in calls[:: max(1, len(calls) // 25)]:
        for message in slope_errors(row, call, stand_in, np.random.default_rng(1), failures):
            failures.add(message)
    failures.raise_any()


def test_every_row_has_an_oracle(row):
    for name in row.methods():
        assert callable(getattr(oracle, name, None)), f"no oracle for {name}"
