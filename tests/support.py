"""What the tests share: backends, comparisons, memory layouts."""

import zlib

import numpy as np
from table.base import parts

import cpuops
from cpuops._threads import THREADING_NS

DTYPES = ("float32", "float64")


def seeded(*words):
    """A generator of its own for each test: no test depends on the order of the others."""
    return np.random.default_rng(zlib.crc32(" ".join(map(str, words)).encode()))


# ---------------------------------------------------------------- backends


class Eager(cpuops.ThreadedCpuBackend):
    """Takes all its threads however small the work is."""

    def _threads(self, cost_ns):
        return self.num_threads


class Recording(cpuops.ThreadedCpuBackend):
    """Takes all its threads for a call that is worth it, also on a crowded machine, and notes whether it was."""

    def __init__(self, num_threads):
        super().__init__(num_threads)
        self.worth = []

    def _threads(self, cost_ns):
        self.worth.append(cost_ns >= THREADING_NS)
        return self.num_threads if self.worth[-1] else 1


class Mine(cpuops.Backend, cpuops.BackwardOps):
    """A third party's backend: the abstract primitives, delegated, and every default gradient."""

    def __init__(self):
        self._inner = cpuops.CpuBackend()

    @property
    def name(self):
        return "mine"

    @property
    def num_threads(self):
        return 1

    def _kernel(self, name, dtype):
        return self._inner._kernel(name, dtype)

    def _threads(self, cost_ns):
        return 1


# ---------------------------------------------------------------- comparisons


class Failures:
    """Gathers what is wrong, so that one test can report many calls."""

    def __init__(self):
        self.messages, self.count = [], 0

    def add(self, message):
        if message:
            self.messages.append(str(message))

    def check(self, good, message):
        self.count += 1
        if not good:
            self.add(message() if callable(message) else message)

    def raise_any(self):
        assert self.count, "nothing was checked"
        if self.messages:
            shown = "\n".join(self.messages[:8])
            raise AssertionError(f"{len(self.messages)} of {self.count} checks failed:\n{shown}")


def result_of(failures, what, function, *args, **options):
    """The result, or None after noting the exception."""
    try:
        return function(*args, **options)
    except Exception as error:
        failures.count += 1
        failures.add(f"{what}: {type(error).__name__}: {error}")
        return None


def difference(got, want, scale, rtol, dtype):
    """None when got is right, else what differs. NaN and infinities must agree exactly."""
    if not isinstance(got, np.ndarray):
        return f"the result is {type(got).__name__}, not an array"
    want = np.asarray(want)
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if got.dtype != dtype or not got.dtype.isnative:
        return f"dtype {got.dtype.str}, expected {np.dtype(dtype).str}"
    if got.dtype.kind in "iu":
        wrong = got != want
    else:
        with np.errstate(all="ignore"):
            want = want.astype(got.dtype).astype(np.float64)  # a float32 overflow is an infinity
            exact = got.astype(np.float64)
            bound = rtol * np.broadcast_to(scale, want.shape) + 4 * np.finfo(got.dtype).smallest_subnormal
            agree = np.where(
                np.isfinite(want), np.abs(exact - want) <= bound, (exact == want) | (np.isnan(exact) & np.isnan(want))
            )
        wrong = ~agree
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
    return f"{int(wrong.sum())} of {wrong.size} wrong, first at {list(at)}: {got[at]!r}, expected {want[at]!r}"


def all_differences(got, wanted, scales, rtol, dtype, exact=()):
    """The first difference among several results."""
    got = parts(got)
    if len(got) != len(wanted):
        return f"{len(got)} results, expected {len(wanted)}"
    for i, (g, w, s) in enumerate(zip(got, wanted, scales, strict=True)):
        if w is None or g is None:
            if w is not g:
                return f"result {i} is {g!r}, expected {w!r}"
            continue
        message = difference(g, w, s, rtol, w.dtype if i in exact else dtype)
        if message:
            return f"result {i}: {message}" if len(wanted) > 1 else message
    return None


def canonical(a):
    """Bytes with one kind of NaN: which one an operation gives is not promised."""
    if a.dtype.kind == "f" and np.isnan(a).any():
        a = np.where(np.isnan(a), a.dtype.type(np.nan), a)
    return np.ascontiguousarray(a).tobytes()


def different_bits(first, second):
    """None when two results have the same shapes, dtypes and bits."""
    first, second = parts(first), parts(second)
    if len(first) != len(second):
        return f"{len(first)} and {len(second)} results"
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        if a is None and b is None:
            continue
        if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i}: {a!r:.80} and {b!r:.80}"
        if canonical(a) != canonical(b):
            wrong = (a != b) & ~((a != a) & (b != b))
            return f"result {i}: {int(wrong.sum())} of {a.size} differ in their bits"
    return None


# ---------------------------------------------------------------- memory layouts


def apart(a):
    """Every second element along the last axis."""
    if a.ndim == 0:
        return a
    wide = np.full((*a.shape[:-1], 2 * a.shape[-1]), 77, a.dtype)
    wide[..., ::2] = a
    return wide[..., ::2]


def first_apart(a):
    """Every second element along the first axis, starting at the second."""
    if a.ndim == 0:
        return a
    wide = np.full((2 * a.shape[0], *a.shape[1:]), 77, a.dtype)
    wide[1::2] = a
    return wide[1::2]


def negative(a):
    """Every axis runs backwards through memory."""
    back = (slice(None, None, -1),) * a.ndim
    return a[back].copy()[back]


def fortran(a):
    return np.asfortranarray(a) if a.ndim else a


def swapped_axes(a):
    """The last two axes are exchanged in memory."""
    return a.swapaxes(-1, -2).copy().swapaxes(-1, -2) if a.ndim > 1 else apart(a)


def misaligned(a):
    """One byte off."""
    raw = np.zeros(a.nbytes + 1, np.uint8)
    shifted = raw[1:].view(a.dtype).reshape(a.shape)
    shifted[...] = a
    return shifted


def other_byte_order(a):
    return a.astype(a.dtype.newbyteorder("S"))


def read_only(a):
    a = a.copy()
    a.setflags(write=False)
    return a


def amid_nan(a):
    """Contiguous, with NaN (or a wild index, or True) before and after it, which a read past the end would fetch."""
    wild = np.nan if a.dtype.kind == "f" else True if a.dtype.kind == "b" else np.iinfo(a.dtype).max
    block = np.full(a.size + 80, wild, a.dtype)
    block[3 : 3 + a.size] = a.reshape(-1)
    return block[3 : 3 + a.size].reshape(a.shape)


def odd_bytes_apart(a):
    """Strides that are no multiple of the element's size: a field of a packed record."""
    record = np.zeros(a.shape, np.dtype([("gap", np.uint8), ("value", a.dtype)]))
    record["value"] = a
    return record["value"]


def first_repeated(a):
    """Stride zero along the first axis (floating operands; other values)."""
    return np.broadcast_to(a[:1], a.shape) if a.ndim and a.shape[0] and a.dtype.kind == "f" else a


def one_repeated(a):
    """Every stride zero (floating operands; other values)."""
    return np.broadcast_to(a.reshape(-1)[0], a.shape) if a.size and a.dtype.kind == "f" else a


LAYOUTS = {
    f.__name__: f
    for f in (
        apart,
        first_apart,
        negative,
        fortran,
        swapped_axes,
        misaligned,
        other_byte_order,
        read_only,
        amid_nan,
        odd_bytes_apart,
        first_repeated,
        one_repeated,
    )
}
