"""Resampling beyond the table: exact adjoints and cells, images in uint8, and ONNX's own node tests for Resize."""

import math
from fractions import Fraction

import numpy as np
import pytest
from support import LAYOUTS, Failures, different_bits, seeded
from table import ROWS, Call

import cpuops

ROW = ROWS["interpolate"]
MODES = ("nearest", "nearest_exact", "bilinear", "bicubic", "lanczos3")


# ---------------------------------------------------------------- float


def test_the_gradient_is_the_transpose(serial):
    """<g, A x> = <Aᵀ g, x> to 1e-12 of the terms, for every call of the table."""
    failures = Failures()
    rng = seeded("adjoint")
    for call in ROW.calls(rng):
        call = Call(call.args, {k: v for k, v in call.options.items() if k != "extrapolation_value"})
        y = call.on(serial, "interpolate")
        if not y.size:
            continue
        g = rng.standard_normal(y.shape)
        ((gradient, gcall),) = ROW.gradient_calls(call, (y,), g)
        x_grad = gcall.on(serial, gradient.name)
        forward, back = g * y, x_grad * call.args["x"]
        error = abs(math.fsum(forward.ravel()) - math.fsum(back.ravel()))
        failures.check(error <= 1e-12 * max(np.abs(forward).sum(), np.abs(back).sum()), f"{call}: {error}")
    failures.raise_any()


@pytest.mark.parametrize("mode", ["nearest", "nearest_exact"])
def test_nearest_cells_are_exact(mode, serial):
    """The cells of rational arithmetic, where float32 and even double ratios fall on the wrong side."""
    failures = Failures()
    pairs = [(2, 82), (49, 147), (7, 1001), (1001, 7), (999, 1000), (3, 4099), (8193, 4097), (41, 123), (1_000_003, 11)]
    for size, output in [*pairs, *((n, m) for n in range(1, 14) for m in range(1, 40))]:
        shift = Fraction(1, 2) if mode == "nearest_exact" else 0
        want = [math.floor((o + shift) * Fraction(size, output)) for o in range(output)]
        got = serial.interpolate(np.arange(size, dtype=np.float64)[None, None], output, mode=mode)[0, 0]
        failures.check(got.tolist() == want, f"{size} to {output}")
    failures.raise_any()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_cells_of_weight_zero_contribute_nothing(value, dtype, serial):
    """Outputs that stand on a cell see that cell only, in every kernel that vanishes at whole distances."""
    for n, rows in ((9, 1), (40, 3), (40, 40)):
        x = np.full((1, rows, n), 1, dtype)
        x[..., 4] = value
        for mode in MODES[2:]:
            y = serial.interpolate(x, 2 * n - 1, mode=mode, coordinate_transform="align_corners")
            on_cells = y[..., ::2]
            assert (on_cells[..., np.arange(n) != 4] == 1).all(), (mode, n)
            assert not np.isfinite(y[..., 7:10]).any(), (mode, n)
            gone = serial.interpolate(x, n, mode=mode, coordinate_transform="tf_crop_and_resize", roi=((-2, -1),))
            assert (gone == 0).all()


def test_align_corners_of_one_output_reads_cell_0(serial):
    x = np.arange(1.0, 8).reshape(1, 1, 7)
    for mode in MODES:
        for antialias in (False, True):
            y = serial.interpolate(x, 1, mode=mode, coordinate_transform="align_corners", antialias=antialias)
            assert y.tolist() == [[[1.0]]], mode


def test_a_constant_stays_constant(dtype, serial):
    """The weights of an output add up to 1, clamped or dropped at the edges."""
    x = np.full((1, 2, 11, 13), 3, dtype)
    for mode in MODES:
        for options in ({}, {"antialias": True}, {"exclude_outside": True}, {"antialias": True, "exclude_outside": True}):
            for size in ((25, 29), (5, 4), (11, 40)):
                y = serial.interpolate(x, size, mode=mode, **options)
                np.testing.assert_allclose(y, 3, rtol=2e-6 if dtype == "float32" else 1e-14)


# ---------------------------------------------------------------- planes by the vector

PLANES = 19  # no whole number of vectors of any kernel, but more than one
RESIZED = (((13, 13), (20, 20)), ((7, 7), (14, 14)), ((9, 30), (21, 11)), ((3, 4), (2, 2)), ((28, 28), (14, 14)))


@pytest.mark.parametrize("mode", MODES)
def test_small_planes_have_the_bits_of_each_alone(mode, dtype, serial, threaded):
    """Many small planes are resampled by the vector, a single one is not."""
    failures = Failures()
    rng = seeded(f"planes/{mode}/{dtype}")
    for size, output in RESIZED:
        x, g = (rng.standard_normal((1, PLANES, *shape)).astype(dtype) for shape in (size, output))
        x[0, 5, 1, 2] = g[0, 7, 1, 1] = np.nan
        for options in ({}, {"antialias": True}, {"coordinate_transform": "tf_crop_and_resize", "roi": ((-0.3, 0.7), (0.2, 1.4))}):

            def results(backend, planes, options=options, output=output, x=x, g=g):
                made = backend.interpolate(x[:, planes], output, mode=mode, **options)
                return made, backend.interpolate_backward(x[:, planes], g[:, planes], output, mode=mode, **options)

            together = results(serial, slice(None))
            for k, alone in enumerate(zip(*(results(serial, slice(k, k + 1)) for k in range(PLANES)), strict=True)):
                differing = different_bits(together[k], np.concatenate(alone, axis=1))
                failures.check(not differing, f"{size} to {output}, {options}, result {k}: {differing}")
            for a, b in zip(together, results(threaded, slice(None)), strict=True):
                failures.check(not different_bits(a, b), f"{size} to {output}, {options}: threads")
    failures.raise_any()


# ---------------------------------------------------------------- uint8


IMAGES = [
    ((1, 3, 37, 53), {"output_size": (80, 106)}), ((2, 3, 64, 66), {"output_size": (32, 33)}), ((1, 1, 40, 41), {"output_size": (13, 70)}),
    ((1, 4, 50, 60), {"scale_factor": (0.37, 1.9)}), ((1, 3, 20, 30), {"output_size": (20, 44)}), ((1, 3, 20, 30), {"output_size": (44, 30)}),
    ((1, 3, 20, 30), {"output_size": (20, 30)}), ((1, 7, 9, 8), {"output_size": (18, 5)}), ((1, 2, 300, 40), {"output_size": (2, 9)}),
    ((1, 3, 2, 40000), {"output_size": (3, 5)}), ((2, 3, 41), {"output_size": 82}), ((1, 2, 5, 9, 11), {"output_size": (9, 4, 22)}),
]  # fmt: skip
FILTERS = [{"mode": m} for m in MODES] + [
    {"mode": "bilinear", "antialias": True}, {"mode": "bilinear", "coordinate_transform": "align_corners"},
    {"mode": "bicubic", "antialias": True, "exclude_outside": True, "cubic_a": -0.5}, {"mode": "lanczos3", "antialias": True},
]  # fmt: skip


def image(shape):
    """Noise, and corners black and white for the overshoot of the wider kernels."""
    x = seeded("image", shape).integers(0, 256, shape).astype(np.uint8)
    x[..., : shape[-1] // 3], x[..., shape[-1] // 3 : shape[-1] // 2] = 0, 255
    return x


def of_floats(serial, x, options):
    return np.clip(np.rint(serial.interpolate(x.astype(np.float32), **options)), 0, 255).astype(np.uint8)


def test_images_equal_the_float_result_rounded(serial, threaded, eager):
    failures = Failures()
    for shape, size in IMAGES:
        x = image(shape)
        for options in FILTERS:
            options = {**size, **options}
            want = of_floats(serial, x, options)
            for name, backend in {"serial": serial, "two threads": threaded, "three threads always": eager}.items():
                got = backend.interpolate(x, **options)
                failures.check(got.dtype == np.uint8 and not different_bits(got, want), f"{name}, {shape}, {options}")
            if len(shape) == 4:  # as a decoder gives it: [B, H, W, C] in memory
                last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
                for name, backend in {"serial": serial, "three threads always": eager}.items():
                    got = backend.interpolate(last, **options)
                    failures.check(not different_bits(got, want), f"channels last, {name}, {shape}, {options}")
                    failures.check(got.flags.c_contiguous, f"channels last, {shape}, {options}")
    failures.raise_any()


def test_images_saturate(serial):
    x = np.zeros((1, 1, 4, 4), np.uint8)
    x[..., 2:] = 255
    y = serial.interpolate(x.astype(np.float32), 16, mode="bicubic")
    assert y.min() < -1 and y.max() > 256
    y = serial.interpolate(x, 16, mode="bicubic")
    assert y.min() == 0 and y.max() == 255


def test_images_beyond_a_crop(serial):
    x = image((1, 3, 9, 8))
    for value, want in ((7.4, 7), (-3, 0), (1e9, 255), (math.inf, 255), (-math.inf, 0)):
        options = {"coordinate_transform": "tf_crop_and_resize", "roi": ((0, 1), (1.5, 2)), "extrapolation_value": value}
        assert (serial.interpolate(x, 5, **options) == want).all()


def test_images_of_any_layout_into_out(serial):
    x = image((2, 3, 20, 33))
    want = serial.interpolate(x, 15, mode="bicubic", antialias=True)
    for name, layout in LAYOUTS.items():
        if "repeated" in name or name == "other_byte_order":
            continue
        if name == "amid_nan":
            continue  # a byte has no NaN
        out = np.empty_like(want)
        assert serial.interpolate(layout(x), 15, mode="bicubic", antialias=True, out=out) is out, name
        assert (out == want).all(), name
    assert (serial.interpolate(x[:1, :1][:, [0, 0, 0]], 15) == serial.interpolate(np.broadcast_to(x[:1, :1], (1, 3, 20, 33)), 15)).all()
    assert serial.interpolate(x[:0], 15).shape == (0, 3, 15, 15)


def test_images_have_no_gradient(serial):
    x = image((1, 3, 9, 8))
    with pytest.raises(cpuops.DTypeError, match="interpolate_backward"):
        serial.interpolate_backward(x, np.zeros((1, 3, 4, 4), np.uint8), 4)
    for dtype in (np.int8, np.uint16, np.bool_, np.float16):
        with pytest.raises(cpuops.DTypeError, match=r"interpolate: x .*uint8"):
            serial.interpolate(x.astype(dtype), 4)
    with pytest.raises(cpuops.DTypeError, match="out"):
        serial.interpolate(x, 4, out=np.zeros((1, 3, 4, 4), np.float32))


# ---------------------------------------------------------------- other people's answers


def test_pillow(serial):
    """Pillow's resize of the same filter, which rounds its weights and saturates and rounds after each pass: within one of 255 in mid greys."""
    pillow = pytest.importorskip("PIL.Image", reason="Pillow, the peer this test compares with, is not installed")
    smooth = np.add.outer(np.arange(90), 2 * np.arange(70)) % 256
    x = (64 + np.stack([smooth, 255 - smooth, image((90, 70))], -1) // 2).astype(np.uint8)
    filters = {"bilinear": pillow.Resampling.BILINEAR, "bicubic": pillow.Resampling.BICUBIC, "lanczos3": pillow.Resampling.LANCZOS}
    for mode, resampling in filters.items():
        for size in ((45, 35), (31, 99), (180, 140), (7, 5)):
            want = np.asarray(pillow.fromarray(x).resize(size[::-1], resampling)).transpose(2, 0, 1)
            options = {"mode": mode, "antialias": True, "exclude_outside": True, "cubic_a": -0.5}
            got = serial.interpolate(x.transpose(2, 0, 1)[None], size, **options)[0]
            assert np.abs(got.astype(int) - want).max() <= 1, (mode, size)


ONNX_MODES = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}


def onnx_cases():
    """(name, x, options, expected, tolerances) of ONNX's node tests for Resize."""
    case = pytest.importorskip("onnx.backend.test.case.node", reason="onnx, whose node tests these are, is not installed")
    import onnx

    with np.errstate(all="ignore"):
        found = [c for c in case.collect_testcases(None) if c.name.startswith("test_resize_")]
    for c in found:
        (node,) = c.model.graph.node
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        given = {k: v.decode() if isinstance(v, bytes) else v for k, v in given.items()}
        inputs, (expected,) = c.data_sets[0]
        named = dict(zip([n for n in node.input if n], inputs, strict=True))
        yield c.name, named, given, expected, (c.rtol, c.atol)


def options_of(named, given, expected):
    """The options of interpolate, for the two last axes of [1, 1, H, W]."""
    axes = list(given.get("axes", range(4)))
    at = [axes.index(2), axes.index(3)]
    options = {
        "mode": ONNX_MODES[given.get("mode", "nearest")],
        "coordinate_transform": given.get("coordinate_transformation_mode", "half_pixel"),
        "nearest_rounding": given.get("nearest_mode", "round_prefer_floor"),
        "cubic_a": given.get("cubic_coeff_a", -0.75),
        "exclude_outside": bool(given.get("exclude_outside", 0)),
        "antialias": bool(given.get("antialias", 0)),
        "extrapolation_value": given.get("extrapolation_value", 0.0),
    }
    if "roi" in named:
        roi = named["roi"]
        options["roi"] = [(float(roi[a]), float(roi[a + len(axes)])) for a in at]
    if "scales" in named:
        return {**options, "scale_factor": [float(named["scales"][a]) for a in at]}
    return {**options, "output_size": expected.shape[2:]}


# ONNX stretches the corners over length · scale cells, here over the output's whole number of them, as PyTorch does
FRACTIONAL_CORNERS = {"test_resize_downsample_scales_linear_align_corners", "test_resize_downsample_scales_cubic_align_corners"}


def test_onnx_resize(serial):
    failures = Failures()
    for name, named, given, expected, (rtol, atol) in onnx_cases():
        if name in FRACTIONAL_CORNERS:
            lengths = np.array(named["X"].shape) * named["scales"]
            assert (lengths != np.floor(lengths)).any()
            continue
        got = serial.interpolate(named["X"], **options_of(named, given, expected))
        good = got.shape == expected.shape and np.allclose(got, expected, rtol, max(atol, 1e-6))
        failures.check(good, f"{name}: {got}, expected {expected}")
    assert failures.count >= 37
    failures.raise_any()


# ---------------------------------------------------------------- on the tape


def test_second_derivatives_beyond_a_crop(serial):
    """The value outside of a crop is a constant: the gradient's own gradient is the crop without it."""
    from cpuops import autograd

    rng = seeded("crop twice")
    options = {"coordinate_transform": "tf_crop_and_resize", "roi": ((-0.5, 0.7), (0.2, 1.4)), "mode": "bicubic"}
    given = rng.standard_normal((1, 2, 5, 6)), rng.standard_normal((1, 2, 4, 7)), rng.standard_normal((1, 2, 5, 6))
    x, g = autograd.Var(given[0]), autograd.Var(given[1])
    y = autograd.functions.interpolate(x, (4, 7), extrapolation_value=3.0, **options)
    (x_grad,) = autograd.grad([y], [x], [g], create_graph=True)
    (g_grad,) = autograd.grad([x_grad], [g], [given[2]])
    want = serial.interpolate(given[2], (4, 7), **options)
    np.testing.assert_allclose(np.asarray(g_grad), want, rtol=1e-13, atol=1e-14)
    assert (want == 0).any() and (y.array == 3).any()


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("size, output", [(70, 35), (33, 66), (40, 17), (300, 33), (16, 100), (21, 15), (3, 50)])
def test_nearest_bytes_and_reals_are_the_cells_themselves(size, output, channels_last):
    rng = seeded("nearest", size, output)
    image = rng.integers(0, 256, (2, 7, size, 3) if channels_last else (2, 3, 7, size)).astype(np.uint8)
    x = image.transpose(0, 3, 1, 2) if channels_last else image
    want = x[..., np.arange(9)[:, None] * 7 // 9, np.arange(output) * size // output]
    for dtype in (np.uint8, np.float32, np.float64):
        operand = x if dtype is np.uint8 else x.astype(dtype)
        for backend in (cpuops.CpuBackend(), cpuops.ThreadedCpuBackend(2)):
            np.testing.assert_array_equal(backend.interpolate(operand, (9, output), mode="nearest"), want)
