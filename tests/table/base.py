"""What a row of the table is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import oracle

# every size around a vector of 4, 8 or 16 elements, and a few beyond several of them
TAILS = tuple(range(1, 34))
SIZES = (0, *TAILS, 63, 64, 65, 127, 130, 257)
CHANNELS = (1, 3, 7, 8, 9, 15, 16, 17, 23, 24, 25, 33)


def is_floating(value):
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


@dataclass(frozen=True)
class Call:
    """One call: the positional arguments by name, in the signature's order, and the keyword options.

    `smooth` says that no operand stands at a kink or a tie, so that finite differences tell the gradient.
    """

    args: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    smooth: bool = True

    def __post_init__(self):
        # NumPy makes scalars of arrays without axes
        self.args.update({k: np.asarray(v) for k, v in self.args.items() if isinstance(v, np.floating)})

    def map(self, function: Callable[[str, np.ndarray], Any]) -> Call:
        """The same call with every array replaced."""
        args = {k: function(k, v) if isinstance(v, np.ndarray) else v for k, v in self.args.items()}
        return replace(self, args=args)

    def cast(self, dtype) -> Call:
        """The same call with every floating array in dtype."""
        return self.map(lambda _, v: v.astype(dtype) if is_floating(v) else v)

    def on(self, backend, name: str, **more):
        """Make the call; optional operands at the end that are None are left out."""
        values = list(self.args.values())
        while values and values[-1] is None:
            values.pop()
        return getattr(backend, name)(*values, **self.options, **more)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {k: v for k, v in self.args.items() if isinstance(v, np.ndarray)}

    def __str__(self):
        def brief(value):
            return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)

        given = [f"{k}={brief(v)}" for k, v in {**self.args, **self.options}.items()]
        return "(" + ", ".join(given) + ")"


def parts(result) -> tuple:
    """The arrays of a result, be they one or several."""
    return tuple(result) if isinstance(result, tuple) else (result,)


@dataclass(frozen=True)
class Gradient:
    """A method that belongs to a row.

    `takes` are its positional arguments: output_grad (grad_loss where the contract calls it so), the operation's operands,
    its results by their field names ("output" for the only one) or one of `given`. `gives` are the operands whose gradients it returns.
    """

    name: str
    takes: str
    gives: tuple[str, ...]
    result: str = ""  # the NamedTuple, where it returns several
    fields: tuple[str, ...] = ()  # of that NamedTuple, where they are not the names of `gives` with _grad
    without: tuple[str, ...] = ()  # options of the operation that it does not have
    when: Callable[[Call], bool] = lambda call: True
    more: Callable[[Call], dict] = lambda call: {}  # further keyword options
    given: dict[str, Callable[[Call], Any]] = field(default_factory=dict)
    free: str = ""  # "first" or "last" axis of output_grad, where any length is legal; "longer": both; "every": any shape
    work: float = 1.0  # operations, as a multiple of the forward's
    scale: Callable | None = None

    def call(self, row: Row, call: Call, results: tuple, output_grad: np.ndarray) -> Call:
        known = {**row.defaults, **call.args, **dict(zip(row.results, results, strict=True))}
        known |= {"output_grad": output_grad, "grad_loss": output_grad}
        known.update({name: make(call) for name, make in self.given.items()})
        options = {k: v for k, v in call.options.items() if k not in self.without}
        return Call({name: known[name] for name in self.takes.split()}, {**options, **self.more(call)})

    def wanted(self, call: Call) -> tuple:
        return parts(getattr(oracle, self.name)(*call.args.values(), **call.options))


@dataclass(frozen=True)
class Bad:
    """A call that must be refused: with one of these errors, naming one of these arguments."""

    why: str
    args: tuple
    options: dict[str, Any]
    errors: str  # names of cpuops.errors, separated by blanks
    names: str  # arguments, separated by blanks: the message contains one of them
    op: str = ""  # the row's name when empty


@dataclass(frozen=True)
class Row:
    """One operation.

    calls(rng)    small calls: sizes 0, 1, every tail, several blocks, every option off its default
    large(rng)    calls that are worth a second thread
    scale(call, wanted)   what an error is relative to, for each result: an array, or a number
    rtol          {dtype: relative tolerance} of results and gradients: the only tolerances there are
    flops(call, output)   arithmetic of one call
    on_surface    {operand: function} where a gradient is meant along a surface: a moved operand is brought back by it
    """

    name: str
    calls: Callable[[np.random.Generator], Iterable[Call]]
    large: Callable[[np.random.Generator], Iterable[Call]]
    gradients: tuple[Gradient, ...] = ()
    results: tuple[str, ...] = ("output",)
    result: str = ""
    differentiable: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()  # operands that may be None
    defaults: dict[str, Any] = field(default_factory=dict)  # positional arguments a call may leave out
    scale: Callable = None
    rtol: dict[str, float] = field(default_factory=lambda: {"float32": 1e-5, "float64": 1e-12})
    ulp: dict[str, int] | None = None  # {dtype: units in the last place}, where the whole range is promised
    flops: Callable = lambda call, output: output.size
    elementwise: bool = False
    inplace: tuple[str, ...] = ()
    on_surface: dict[str, Callable] = field(default_factory=dict)
    bad: Callable[[], Iterable[Bad]] = lambda: ()
    exact: tuple[int, ...] = ()  # positions of integer results

    def wanted(self, call: Call) -> tuple:
        """The oracle's results, in float64."""
        return parts(getattr(oracle, self.name)(*call.cast(np.float64).args.values(), **call.options))

    def moved_bytes(self, call: Call, results: tuple) -> int:
        """Least traffic of one call: every operand read once, every result written once."""
        return sum(a.nbytes for a in (*call.arrays.values(), *(r for r in results if r is not None)))

    def methods(self) -> tuple[str, ...]:
        return (self.name, *(g.name for g in self.gradients))

    def gradient_calls(self, call: Call, results: tuple, output_grad: np.ndarray):
        """(gradient, its call) for every gradient that applies."""
        return [(g, g.call(self, call, results, output_grad)) for g in self.gradients if g.when(call)]


# ---------------------------------------------------------------- what an error is relative to


def relative(call, wanted):
    """To the exact value, element by element."""
    return [np.abs(w) for w in wanted]


def to_operand(*names):
    """To the exact value or the operands' largest element, for formulas in which operands cancel."""

    def scale(call, wanted):
        sizes = [np.abs(v[np.isfinite(v)]).max(initial=0.0) for k, v in call.arrays.items() if k in names]
        return [np.abs(w) + max(sizes) for w in wanted]

    return scale


def terms(method):
    """To the sum of the absolute terms, for operations that are linear in each operand."""

    def scale(call, wanted):
        absolute = call.map(lambda _, v: np.abs(v).astype(np.float64) if is_floating(v) else v)
        return parts(getattr(oracle, method)(*absolute.args.values(), **absolute.options))

    return scale


def largest(call, wanted):
    """To the largest element of each result."""
    return [np.abs(w).max(initial=0.0) if w is not None else 0.0 for w in wanted]


# ---------------------------------------------------------------- data


def normal(rng, *shape, spread=1.0):
    return rng.standard_normal(shape) * spread


def distinct(rng, *shape):
    """Values of which no two are close: no ties, and no kink within a finite difference."""
    size = int(np.prod(shape))
    return (rng.permutation(size) - size / 2 + 0.25).reshape(shape) / max(size, 1) * 4


def ties(rng, *shape):
    """Few values, so that equal ones meet."""
    return rng.integers(-2, 3, shape).astype(np.float64)


# ---------------------------------------------------------------- refusals that every row shares


def common_refusals(row: Row) -> Iterable[Bad]:
    """Bad calls that follow from a row alone: operands of a wrong kind, dtype or rank, gradients of a wrong shape."""
    rng = np.random.default_rng(0)
    call = next(
        c for c in row.calls(rng) if all(v.size > 1 for v in c.arrays.values()) and not (set(row.optional) - set(c.args))
    ).cast(np.float32)
    results = tuple(np.asarray(r, np.float32 if np.asarray(r).dtype.kind == "f" else np.int64) for r in row.wanted(call))
    output_grad = np.ones(results[0].shape, np.float32)
    yield from _refusals_of(row, row.name, call, row.optional)
    for gradient, gcall in row.gradient_calls(call, results, output_grad):
        yield from _refusals_of(row, gradient.name, gcall, row.optional)
        if "output_grad" not in gradient.takes.split() or len(gcall.args) == 1 or gradient.free == "every":
            continue
        shape = results[0].shape
        for why, other in (
            ("one axis more", (*shape, 2)),
            ("a longer first axis", (shape[0] + 1, *shape[1:]) if shape else (2,)),
            ("a longer last axis", (*shape[:-1], shape[-1] + 1) if shape else (3,)),
        ):
            if gradient.free and gradient.free in why:
                continue
            args = {**gcall.args, "output_grad": np.ones(other, np.float32)}
            companion = "original_shape indices output logits lhs rhs " + " ".join(gradient.takes.split())
            yield Bad(f"output_grad with {why}", tuple(args.values()), gcall.options, "ShapeError", companion, gradient.name)


def _refusals_of(row, method, call, optional):
    floating = [k for k, v in call.args.items() if is_floating(v)]
    for name, value in call.args.items():
        if not isinstance(value, np.ndarray):
            continue

        def bad(why, replacement, names=name, name=name):
            args = {**call.args, name: replacement}
            return Bad(f"{name} {why}", tuple(args.values()), call.options, "DTypeError", names, method)

        yield bad("a list", value.tolist())
        yield bad("a scalar object", object())
        yield bad("a string", "abc")
        yield bad("of objects", value.astype(object))
        yield bad("of strings", value.astype("U8"))
        yield bad("complex", value.astype(np.complex64))
        if name not in optional:
            yield bad("None", None)
        if name in floating:
            yield bad("float16", value.astype(np.float16))
            yield bad("longdouble", value.astype(np.longdouble))
            yield bad("integers", value.astype(np.int32))
            yield bad("bool", value.astype(bool))
            if len(floating) > 1:
                yield bad("of another dtype than the rest", value.astype(np.float64), names=" ".join(floating))
        else:
            yield bad("floating", value.astype(np.float32))
            other = np.int8 if value.dtype == np.bool_ else np.bool_
            yield bad(str(np.dtype(other)), value.astype(other))
