"""Gradients: slopes by finite differences, and the kernels against the readable defaults."""

import numpy as np
import pytest
from support import Failures, Mine, all_differences, result_of, seeded
from table.base import Row, parts

STEP = 1e-4
# of a fourth-order central difference with that step in float64
SLOPE_RTOL = 2e-7
# a default may take another road to the same number
DEFAULT_FACTOR = 8


def slope_errors(row: Row, call, backend, rng, failures):
    """Compare every gradient along random directions with differences of the backend's own forward."""
    results = tuple(np.asarray(r) for r in parts(call.on(backend, row.name)))
    output_grad = np.asarray(rng.standard_normal(results[0].shape))
    slopes = {}
    for name in row.differentiable:
        value = call.args.get(name)
        if value is None:
            continue
        direction = np.asarray(rng.standard_normal(value.shape))

        back = row.on_surface.get(name, np.asarray)

        def at(step, name=name, value=value, direction=direction, back=back):
            moved = call.map(lambda k, v: np.asarray(back(v + step * STEP * direction)) if k == name else v)
            return np.asarray(parts(moved.on(backend, row.name))[0]) * output_grad

        # differences of each term before the sum, which loses less
        terms = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * STEP)
        slopes[name] = direction, float(terms.sum()), float(np.abs(terms).sum())
    for gradient, gcall in row.gradient_calls(call, results, output_grad):
        for name, grad in zip(gradient.gives, parts(gcall.on(backend, gradient.name)), strict=True):
            if name not in slopes:
                continue
            direction, slope, size = slopes[name]
            products = np.asarray(grad) * direction
            mine = float(products.sum())
            size = max(1.0, size, float(np.abs(products).sum()))
            failures.count += 1
            if not np.isfinite(mine):
                yield f"{gradient.name}: {name}_grad is not finite, {call}"
            elif abs(mine - slope) > SLOPE_RTOL * size:
                yield f"{gradient.name}: {name}_grad·d = {mine:.12g}, differences give {slope:.12g}, {call}"
            else:
                seen_slopes(failures).setdefault((gradient.name, name), []).append(abs(slope))


def seen_slopes(failures):
    if not hasattr(failures, "slopes"):
        failures.slopes = {}
    return failures.slopes


def test_finite_differences(row, serial):
    if not row.differentiable:
        assert not row.gradients
        return
    failures = Failures()
    calls = [c for c in row.calls(seeded("slopes", row.name)) if c.smooth and all(a.size < 1500 for a in c.arrays.values())]
    rng = seeded("directions", row.name)
    for call in calls:
        try:
            for message in slope_errors(row, call, serial, rng, failures):
                failures.add(message)
        except Exception as error:
            failures.add(f"{type(error).__name__}: {error}, {call}")
    failures.raise_any()
    for gradient in row.gradients:
        for name in gradient.gives:
            found = seen_slopes(failures).get((gradient.name, name), [])
            assert sum(s > 1e-3 for s in found) >= 3, f"{gradient.name}: no slope of {name} to speak of was compared"


def has_gradients(row):
    return bool(row.gradients)


def test_default_gradients(row, dtype, serial):
    """The defaults of BackwardOps, on a backend that supplies the primitives only, are right and near the kernels."""
    mine = Mine()
    failures = Failures()
    calls = list(row.calls(seeded("default", row.name)))
    for call in calls[:: 1 if len(calls) < 120 else 2]:
        call = call.cast(dtype)
        results = result_of(failures, f"{row.name}{call}", lambda call=call: parts(call.on(serial, row.name)))
        if results is None:
            continue
        output_grad = np.asarray(np.random.default_rng(len(str(call))).standard_normal(results[0].shape), dtype)
        for gradient, gcall in row.gradient_calls(call, results, output_grad):
            what = f"{gradient.name}{gcall}"
            default = result_of(failures, "default " + what, gcall.on, mine, gradient.name)
            kernel = result_of(failures, "kernel " + what, gcall.on, serial, gradient.name)
            if default is None or kernel is None:
                continue
            exact = gcall.cast(np.float64)
            wanted = gradient.wanted(exact)
            scales = gradient.scale(exact, wanted)
            rtol = DEFAULT_FACTOR * row.rtol[dtype]
            message = all_differences(default, wanted, scales, rtol, dtype)
            failures.check(message is None, f"default {what}: {message}")
            message = all_differences(default, parts(kernel), scales, rtol, dtype)
            failures.check(message is None, f"default against kernel, {what}: {message}")
    failures.raise_any()


test_default_gradients.rows = has_gradients


def test_backward_ops_is_complete():
    """A default for every gradient of the table, and none of them abstract."""
    from table import ROWS

    import cpuops

    for row in ROWS.values():
        for gradient in row.gradients:
            assert hasattr(cpuops.BackwardOps, gradient.name), gradient.name
            assert not hasattr(cpuops.Backend, gradient.name), f"{gradient.name} is a method of Backend"
    with pytest.raises(TypeError, match="abstract"):
        cpuops.Backend()
