"""⟨A x, y⟩ = ⟨x, Aᵀ y⟩ for pairs of operations that are each other's transpose, in float64 to 1e-12."""

import math

import numpy as np
import pytest
from support import seeded
from table.base import parts

RTOL = 1e-12
KERNELS = (1, 2, 3, 4, 5, 6, 7)


def check(forward, adjoint, x, y):
    """Relative to the sum of the absolute products."""
    ax, aty = forward(x), adjoint(y)
    assert ax.shape == y.shape and aty.shape == x.shape
    left, right = math.fsum((ax * y).ravel()), math.fsum((x * aty).ravel())
    assert abs(left - right) <= RTOL * math.fsum(np.abs(ax * y).ravel())
    return left


def options_of(rng, n, kernel, top):
    """(options, length): unlike on each axis, every window inside, and no cell left over at the end."""
    stride, dilation = rng.integers(1, 4, n).tolist(), rng.integers(1, 4, n).tolist()
    pads = [tuple(p) for p in rng.integers(0, 3, (n, 2)).tolist()]
    length = [
        max(1, d * (k - 1) + 1 - sum(p)) + int(rng.integers(1, top))
        for d, k, p in zip(dilation, kernel, pads, strict=True)
    ]  # fmt: skip
    output = [(m + sum(p) - d * (k - 1) - 1) // s + 1 for m, p, d, k, s in zip(length, pads, dilation, kernel, stride, strict=True)]
    return {"stride": stride, "padding": pads, "dilation": dilation}, length, output


@pytest.mark.parametrize("size", KERNELS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_convolution(n, size, backend):
    rng = np.random.default_rng(10 * n + size)
    seen = 0
    for groups, cin, cout in ((1, 3, 5), (1, 17, 8), (4, 1, 1), (3, 2, 4), (1, 33, 2)):
        kernel = [size, *rng.integers(1, 5 if n < 3 else 3, n - 1).tolist()]
        options, length, output = options_of(rng, n, kernel, 9 if n < 3 else 4)
        options["groups"] = groups
        weight = rng.standard_normal((groups * cout, cin, *kernel))
        x, y = rng.standard_normal((2, groups * cin, *length)), rng.standard_normal((2, groups * cout, *output))
        each = zip(length, output, kernel, options["stride"], options["dilation"], options["padding"], strict=True)
        extra = [m + sum(p) - d * (k - 1) - 1 - (o - 1) * s for m, o, k, s, d, p in each]
        conv, transposed = getattr(backend, f"conv{n}d"), getattr(backend, f"conv_transpose{n}d")
        seen += check(
            lambda a, conv=conv, weight=weight, options=options: conv(a, weight, **options),
            lambda b, t=transposed, weight=weight, options=options, extra=extra: t(b, weight, output_padding=extra, **options),
            x,
            y,
        ) != 0  # fmt: skip
    assert seen >= 4


@pytest.mark.parametrize("size", KERNELS)
def test_windows(size, backend):
    rng = np.random.default_rng(size)
    seen = 0
    for _ in range(5):
        kernel = [size, int(rng.integers(1, 8))]
        options, length, output = options_of(rng, 2, kernel, 30)
        x, y = rng.standard_normal((2, 3, *length)), rng.standard_normal((2, 3 * math.prod(kernel), math.prod(output)))
        seen += check(
            lambda a, k=kernel, o=options: backend.unfold4d(a, k, **o),
            lambda b, n=length, k=kernel, o=options: backend.fold4d(b, n, k, **o),
            x,
            y,
        ) != 0  # fmt: skip
    assert seen >= 4


# ---------------------------------------------------------------- the table's operations that are linear in x

LINEAR = {"pad", "grid_sample_2d", *(f"{kind}avg_pool{n}d" for kind in ("", "adaptive_") for n in (1, 2, 3))}


def test_the_gradient_to_x(row, backend):
    """Every call of the row with all its options; what a padding adds of its own is taken off."""
    rng, seen = seeded("adjoint", row.name), 0
    for call in row.calls(rng):
        call = call.cast(np.float64)
        nothing = call.map(lambda k, v: np.zeros_like(v) if k == "x" else v).on(backend, row.name)
        if not np.isfinite(nothing).all():
            continue
        moved = call.on(backend, row.name) - nothing
        y = rng.standard_normal(moved.shape)
        ((gradient, gcall),) = row.gradient_calls(call, (moved,), y)
        x_grad = parts(gcall.on(backend, gradient.name))[0]
        seen += check(lambda _, moved=moved: moved, lambda _, grad=x_grad: grad, call.args["x"], y) != 0
    assert seen >= 5


test_the_gradient_to_x.rows = lambda row: row.name in LINEAR
