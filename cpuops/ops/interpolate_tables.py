"""Resampling along one axis as a table: which cells an output reads, with which weights.

:class:`Table` is the one definition of every mode, transform and option. The forward applies it, the gradient applies its
transpose, and so do the readable defaults. Source coordinates are exact (integer arithmetic) where they are ratios of
lengths; weights are in double precision and are rounded once, to the dtype of the operation.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

__all__ = ["MODES", "ROUNDINGS", "TRANSFORMS", "Rule", "Table", "table_of"]

MODES = ("nearest", "nearest_exact", "bilinear", "bicubic", "lanczos3")
TRANSFORMS = (
    "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric", "tf_crop_and_resize",
)  # fmt: skip
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")

KEPT_TABLES, KEPT_CELLS = 32, 4096  # those of small axes are kept: 10 MB at the very most;
KEPT_LONG, KEPT_LONG_CELLS = 4, 65536  # and a few of long ones, as of sound: 20 MB
WEIGHTS_AT_ONCE = 1 << 20  # bounds the temporary arrays
MOST_REPEATED_TAPS = 16
FEWEST_REPEATED = 4  # outputs; fewer are not worth a loop of their own


class Rule(NamedTuple):
    """How one axis is resampled. `scale` is the factor as given, None for the ratio of the lengths; `roi` is (start, end)."""

    size: int
    output: int
    scale: float | None
    mode: str
    transform: str
    rounding: str
    cubic_a: float
    exclude_outside: bool
    antialias: bool
    roi: tuple | None


class Period(NamedTuple):
    """Outputs first <= o < last repeat: of each `outputs` of them, the next ones read `cells` cells further on."""

    outputs: int = 0
    cells: int = 0
    first: int = 0
    last: int = 0


class Table(NamedTuple):
    """output[o] = Σ weight[k] x[cell[k]] over start[o] <= k < start[o + 1]; no weight is 0, cells ascend."""

    size: int
    output: int
    start: np.ndarray
    cell: np.ndarray
    weight: np.ndarray
    period: Period
    outside: np.ndarray  # outputs beyond a crop, which read nothing

    @property
    def identity(self):
        """Whether output is x."""
        return self.size == self.output == len(self.cell) and bool(
            (self.weight == 1).all() and (self.cell == np.arange(self.size)).all() and (np.diff(self.start) == 1).all()
        )

    @property
    def transposed(self):
        """The table that gives x's gradient from the output's."""
        order = np.argsort(self.cell, kind="stable")
        rows = np.repeat(np.arange(self.output), np.diff(self.start))
        start = _starts(np.bincount(self.cell, minlength=self.size))
        return _finished(self.output, self.size, start, rows[order], self.weight[order], self.outside[:0])

    @property
    def for_kernel(self):
        """(cells, outputs, start, cell, weight, most cells of an output, widest reach of one, *period)."""
        counts = np.diff(self.start)
        full = np.flatnonzero(counts)
        reach = self.cell[self.start[1:][full] - 1] - self.cell[self.start[:-1][full]] + 1
        widest, longest = int(counts.max(initial=0)), int(reach.max(initial=0))
        return (self.size, self.output, self.start, self.cell, self.weight, widest, longest, *self.period)


def table_of(rule, dtype, backward=False):
    """The table of a rule (or its transpose), with the weights in `dtype`; None where it changes nothing."""
    cells = max(rule.size, rule.output)
    make = _kept if cells <= KEPT_CELLS else _kept_long if cells <= KEPT_LONG_CELLS else _made
    return make(rule, np.dtype(dtype), backward)


def _made(rule, dtype, backward):
    table = _table(rule, dtype)
    if table.identity:
        return None
    table = table.transposed if backward else table
    return table, table.for_kernel


_kept, _kept_long = lru_cache(KEPT_TABLES)(_made), lru_cache(KEPT_LONG)(_made)


def _starts(counts):
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _finished(size, output, start, index, weight, outside):
    arrays = start.astype(np.int64), index.astype(np.int64), weight
    for a in (*arrays, outside):
        a.setflags(write=False)
    return Table(size, output, *arrays, _period(size, output, *arrays), outside)


# ---------------------------------------------------------------- coordinates


class Coordinates(NamedTuple):
    """Output o's centre lies at whole[o] + rest[o] / unit among the cells, the next one's step / unit further on.

    Where the coordinates are ratios of lengths these are integers.
    """

    whole: np.ndarray  # of int64
    rest: np.ndarray  # 0 <= rest <= unit
    unit: float
    step: float

    @classmethod
    def ratios(cls, i, factor, offset, unit, step=None):
        """(i factor + offset) / unit, exactly."""
        if len(i) * factor + abs(offset) >= 2**62:
            i = i.astype(object)
        whole, rest = np.divmod(i * factor + offset, unit)
        return cls(whole.astype(np.int64), rest.astype(np.float64), unit, factor if step is None else step)

    @classmethod
    def numbers(cls, x, step):
        whole = np.floor(x)
        return cls(np.clip(whole, -(2**62), 2**62).astype(np.int64), x - whole, 1.0, abs(step))

    def beyond(self, size):
        """Outputs that lie outside of the first and the last cell's centre."""
        x = self.whole + self.rest / self.unit
        return np.flatnonzero((x < 0) | (x > size - 1))

    def rounded(self, rounding):
        twice = 2 * self.rest
        up = {
            "floor": self.rest >= self.unit,  # a number just below a cell may have been rounded up to it
            "ceil": self.rest > 0,
            "round_prefer_floor": twice > self.unit,
            "round_prefer_ceil": twice >= self.unit,
        }
        return self.whole + up[rounding]


def _coordinates(rule):
    size, output, scale = rule.size, rule.output, rule.scale
    i = np.arange(output)
    if rule.transform == "align_corners":
        return Coordinates.ratios(i, size - 1, 0, max(output - 1, 1), size - 1 if output > 1 else 0)
    if rule.transform == "tf_crop_and_resize":
        start, end = rule.roi
        step = (end - start) * (size - 1) / max(output - 1, 1)
        first = start * (size - 1) if output > 1 else 0.5 * (start + end) * (size - 1)
        return Coordinates.numbers(first + i * step, step)
    if rule.transform == "pytorch_half_pixel" and output == 1:
        return Coordinates.ratios(i, 0, 0, 1, size if scale is None else 1 / scale)
    if rule.transform == "asymmetric":
        return Coordinates.ratios(i, size, 0, output) if scale is None else Coordinates.numbers(i / scale, 1 / scale)
    if scale is None:  # the half pixels are one; the shift of half_pixel_symmetric is 0 here
        return Coordinates.ratios(i, 2 * size, size - output, 2 * output)
    shift = size / 2 * (1 - output / (scale * size)) if rule.transform == "half_pixel_symmetric" else 0.0
    return Coordinates.numbers(shift + (i + 0.5) / scale - 0.5, 1 / scale)


# ---------------------------------------------------------------- weights


def _linear(t, a):
    return np.maximum(1 - np.abs(t), 0)


def _cubic(t, a):
    """Keys 1981, equation 4, in factors, so that weights near its zeros are exact too: all whole t but 0."""
    t = np.abs(t)
    near = (1 - t) * (1 + t - (a + 2) * t * t)
    far = a * (t - 1) * (t - 2) * (t - 2)
    return np.where(t < 1, near, np.where((t > 1) & (t < 2), far, 0))


def _lanczos3(t, a):
    whole = (t == np.rint(t)) & (t != 0)  # where NumPy's sinc leaves a rounding error
    return np.where((np.abs(t) >= 3) | whole, 0, np.sinc(t) * np.sinc(t / 3))


# kernel, and how far it reaches
KERNELS = {"bilinear": (_linear, 1), "bicubic": (_cubic, 2), "lanczos3": (_lanczos3, 3)}


def _table(rule, dtype):
    at = _coordinates(rule)
    outside = at.beyond(rule.size) if rule.transform == "tf_crop_and_resize" else np.zeros(0, np.int64)
    if rule.mode in KERNELS:
        found = list(_weighted(rule, at, dtype))
        o, index, weight = (np.concatenate(p) for p in zip(*found, strict=True))
    else:
        o, index = np.arange(rule.output), np.clip(at.rounded(rule.rounding), 0, rule.size - 1)
        weight = np.ones(rule.output, dtype)
    if outside.size:
        inside = ~np.isin(o, outside)
        o, index, weight = o[inside], index[inside], weight[inside]
    start = _starts(np.bincount(o, minlength=rule.output))
    return _finished(rule.size, rule.output, start, index, weight, outside)


def _weighted(rule, at, dtype):
    """(outputs, cells, weights) of every weight that is not 0, some outputs at a time."""
    kernel, reach = KERNELS[rule.mode]
    stretched = max(at.unit, at.step) if rule.antialias else at.unit  # a unit of the kernel, in the coordinates' units
    far = math.ceil(reach * stretched / at.unit)
    taps = np.arange(-far, far + 2)
    drop = rule.exclude_outside or rule.mode == "lanczos3"
    rows = max(1, WEIGHTS_AT_ONCE // len(taps))
    for first in range(0, rule.output, rows):
        some = slice(first, first + rows)
        cell = at.whole[some, None] + taps
        weight = kernel((taps * at.unit - at.rest[some, None]) / stretched, rule.cubic_a)
        if drop:
            weight = np.where((cell >= 0) & (cell < rule.size), weight, 0.0)
        if drop or rule.antialias:
            total = weight.sum(1, keepdims=True)
            weight = weight / np.where(total == 0, 1, total)
        yield _merged(first, np.clip(cell, 0, rule.size - 1), weight, dtype)


def _merged(first, cell, weight, dtype):
    """Add up the weights that clamping has brought to one cell, round them, and leave out the zeros."""
    new = np.ones(cell.shape, bool)
    new[:, 1:] = cell[:, 1:] != cell[:, :-1]
    weight = np.add.reduceat(weight.reshape(-1), np.flatnonzero(new)).astype(dtype)
    o = np.broadcast_to(np.arange(first, first + len(cell))[:, None], cell.shape)[new]
    some = weight != 0
    return o[some], cell[new][some], weight[some]


# ---------------------------------------------------------------- repetition


def _period(size, output, start, index, weight):
    """Find the longest run, around the middle, in which one output of two cells or two outputs of one cell repeat."""
    counts = np.diff(start)
    o = np.arange(output)
    for outputs, cells in ((2, 1), (1, 2)):
        middle = output // 2 // outputs * outputs
        if output - middle < outputs or not len(index) or output < FEWEST_REPEATED:
            continue
        good = np.ones(output, bool)
        for phase in range(outputs):
            pattern = slice(start[middle + phase], start[middle + phase + 1])
            taps = pattern.stop - pattern.start
            of_phase = o % outputs == phase
            good[of_phase] &= (counts[of_phase] == taps) & (taps <= MOST_REPEATED_TAPS)
            for t in range(min(int(taps), MOST_REPEATED_TAPS)):
                at = np.minimum(start[:-1][of_phase] + t, len(index) - 1)
                shift = (o[of_phase] - middle) // outputs * cells
                good[of_phase] &= (index[at] - shift == index[pattern.start + t]) & (weight[at] == weight[pattern.start + t])
        bad = np.flatnonzero(~good)
        first = -(-int(bad[bad < middle].max(initial=-1) + 1) // outputs) * outputs
        last = int(bad[bad >= middle].min(initial=output)) // outputs * outputs
        if last - first >= FEWEST_REPEATED:
            return Period(outputs, cells, first, last)
    return Period()
