"""Every operation and gradient against the float64 oracle, on every backend."""

import numpy as np
from support import Failures, all_differences, different_bits, result_of, seeded
from table.base import parts


def rounded(results, dtype):
    """The exact results as a caller would hold them."""
    return tuple(np.asarray(r, dtype) if np.asarray(r).dtype.kind == "f" else np.asarray(r) for r in results)


def compare(failures, method, call, wanted, scales, row, dtype, serial, others, exact=()):
    what = f"{method}{call}"
    got = result_of(failures, what, call.on, serial, method)
    if got is None:
        return
    message = all_differences(got, wanted, scales, row.rtol[dtype], dtype, exact)
    failures.check(message is None, f"{what}: {message}")
    for name, other in others.items():
        again = result_of(failures, f"{what} on {name}", call.on, other, method)
        if again is not None:
            message = different_bits(got, again)
            failures.check(message is None, f"{what} on {name}: {message}")


def test_parity(row, dtype, serial, threaded, eager):
    failures = Failures()
    rng = seeded("parity", row.name)
    others = {"two threads": threaded, "three threads always": eager}
    for call in row.calls(rng):
        call = call.cast(dtype)
        exact_call = call.cast(np.float64)
        wanted = row.wanted(exact_call)
        compare(failures, row.name, call, wanted, row.scale(exact_call, wanted), row, dtype, serial, others, row.exact)
        results = rounded(wanted, dtype)
        output_grad = np.asarray(rng.standard_normal(wanted[0].shape), dtype)
        for gradient, gcall in row.gradient_calls(call, results, output_grad):
            exact_call = gcall.cast(np.float64)
            wanted_grads = gradient.wanted(exact_call)
            scales = gradient.scale(exact_call, wanted_grads)
            compare(failures, gradient.name, gcall, wanted_grads, scales, row, dtype, serial, others)
    failures.raise_any()


def test_results_are_ready_to_use(row, dtype, backend):
    """New, C-contiguous, native, 64-byte aligned, writable arrays that share nothing with the operands."""
    failures = Failures()
    calls = list(row.calls(seeded("outputs", row.name)))
    for call in calls[:: max(1, len(calls) // 12)]:
        call = call.cast(dtype)
        results = result_of(failures, f"{row.name}{call}", call.on, backend, row.name)
        if results is None:
            continue
        found = [(row.name, call, parts(results))]
        output_grad = np.ones(parts(results)[0].shape, dtype)
        for gradient, gcall in row.gradient_calls(call, parts(results), output_grad):
            grads = result_of(failures, f"{gradient.name}{gcall}", gcall.on, backend, gradient.name)
            found.append((gradient.name, gcall, parts(grads)))
        for method, its_call, arrays in found:
            for a in arrays:
                if a is None:
                    continue
                flags = a.flags
                ready = flags.c_contiguous and flags.writeable and flags.aligned and a.dtype.isnative
                failures.check(ready, f"{method}{its_call}: {flags}")
                failures.check(not a.size or a.ctypes.data % 64 == 0, f"{method}{its_call}: at address {a.ctypes.data:#x}")
                shares = any(np.may_share_memory(a, v) for v in its_call.arrays.values())
                failures.check(not shares, f"{method}{its_call}: the result shares memory with an operand")
                failures.check(type(a) is np.ndarray, f"{method}{its_call}: a {type(a).__name__}")
    failures.raise_any()
