"""What deformable convolution is beside convolution, and where its samples may lie."""

import numpy as np
import pytest
from support import seeded
from table.deform import make

OPTIONS = [{"padding": 1}, {"stride": (2, 1), "padding": ((0, 2), (1, 0)), "dilation": (1, 2)}, {"padding": "same"}]


def unmoved(dtype, cin=5, cout=7, batch=2, mask=False, length=(13, 17), **options):
    call = make(seeded("unmoved", cin, options), batch, cin, cout, length, (3, 3), mask=mask, **options).cast(dtype)
    call.args["offset"] = np.zeros_like(call.args["offset"])
    return call


@pytest.mark.parametrize("options", OPTIONS)
def test_without_offsets_it_is_convolution(options, dtype, backend):
    call = unmoved(dtype, **options)
    x, _, w, _, bias = call.args.values()
    wanted = backend.conv2d(x, w, bias, **options)
    rtol, size = (1e-6 if dtype == "float32" else 1e-15), np.abs(wanted).max()
    got = call.on(backend, "deform_conv2d")
    assert np.abs(got - wanted).max() <= 20 * rtol * size
    g = seeded("g").standard_normal(wanted.shape).astype(dtype)
    grads = backend.deform_conv2d_backward(*call.args.values(), g, **options)
    for found, conv in zip((grads.x_grad, grads.weight_grad, grads.bias_grad), backend.conv2d_backward(x, w, g, **options), strict=True):
        assert np.abs(found - conv).max() <= 100 * rtol * np.abs(conv).max()
    assert grads.mask_grad is None


def test_whole_offsets_move_the_image(dtype, backend):
    """Moved by (1, -2) everywhere: the convolution of the moved image."""
    call = unmoved(dtype, padding=1)
    x, offset, w, _, bias = call.args.values()
    offset[:, 0::2], offset[:, 1::2] = 1, -2
    moved = np.zeros_like(x)
    moved[:, :, :-1, 2:] = x[:, :, 1:, :-2]
    got = backend.deform_conv2d(x, offset, w, None, bias, padding=1)[:, :, 1:-1, 1:-1]
    wanted = backend.conv2d(moved, w, bias, padding=1)[:, :, 1:-1, 1:-1]
    assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("place", [-1e30, 1e30, np.inf, -np.inf, 3e9, -40.0, 40.0])
def test_far_away_is_zero(place, dtype, backend, eager):
    """A tap out of the image leaves what the others see, and has no gradient."""
    for b in (backend, eager):
        call = unmoved(dtype, mask=True, padding=1)
        x, offset, w, mask, bias = call.args.values()
        near = w.copy()
        near[:, :, 1, 1] = 0
        wanted = b.deform_conv2d(x, offset, near, mask, bias, padding=1)
        for first in (8, 9):  # dy or dx of the middle tap
            offset[:] = 0
            offset[:, first] = place
            got = b.deform_conv2d(x, offset, w, mask, bias, padding=1)
            assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()
            grads = b.deform_conv2d_backward(x, offset, w, mask, bias, np.ones_like(got), padding=1)
            assert all(np.isfinite(g).all() for g in grads)
            assert not grads.offset_grad[:, 8:10].any() and not grads.mask_grad[:, 4].any()
            assert not grads.weight_grad[:, :, 1, 1].any()


def test_a_nan_offset_stays(dtype, backend, eager):
    """All outputs of its position are NaN, and no other; its own gradient is NaN."""
    call = unmoved(dtype, mask=True, padding=1)
    x, offset, w, mask, bias = call.args.values()
    plain = backend.deform_conv2d(x, offset, w, mask, bias, padding=1)
    for index in ((1, 3, 5, 6), (0, 16, 0, 0), (1, 17, 12, 16)):
        poisoned = offset.copy()
        poisoned[index] = np.nan
        for b in (backend, eager):
            got = b.deform_conv2d(x, poisoned, w, mask, bias, padding=1)
            hit = np.zeros(got.shape, bool)
            hit[index[0], :, index[2], index[3]] = True
            assert np.isnan(got[hit]).all() and got[~hit].tobytes() == plain[~hit].tobytes()
            grads = b.deform_conv2d_backward(x, poisoned, w, mask, bias, np.ones_like(got), padding=1)
            tap = index[1] // 2
            assert np.isnan(grads.mask_grad[index[0], tap, index[2], index[3]])
            assert np.isnan(grads.offset_grad[index[0], index[1], index[2], index[3]])
            assert np.isnan(grads.offset_grad).sum() <= 2 and np.isnan(grads.mask_grad).sum() == 1
            assert np.isnan(grads.weight_grad[:, :, tap // 3, tap % 3]).all() and np.isfinite(grads.x_grad).all()


def test_an_empty_batch_has_zero_gradients(dtype, backend):
    call = unmoved(dtype, batch=0, mask=True, padding=1)
    out = call.on(backend, "deform_conv2d")
    assert out.shape == (0, 7, 13, 17)
    grads = backend.deform_conv2d_backward(*call.args.values(), out, padding=1)
    assert not grads.weight_grad.any() and not grads.bias_grad.any() and grads.x_grad.shape == (0, 5, 13, 17)


def test_the_sample_is_linear_in_x(dtype, backend):
    """⟨g, f(x)⟩ = ⟨x, x_grad⟩, and = ⟨w, weight_grad⟩, with several strips, blocks and chunks."""
    call = make(seeded("adjoint"), 2, 70, 9, (40, 33), (3, 5), bias=False, padding=(1, 2), offset_groups=2).cast(dtype)
    out = call.on(backend, "deform_conv2d")
    g = seeded("g").standard_normal(out.shape).astype(dtype)
    grads = backend.deform_conv2d_backward(*call.args.values(), g, **call.options)

    def product(a, b):
        return float((a.astype(np.float64) * b).sum())

    size = np.linalg.norm(g.reshape(-1)) * np.linalg.norm(out.reshape(-1))
    tolerance = (1e-6 if dtype == "float32" else 1e-14) * size
    for operand, grad in ((call.args["x"], grads.x_grad), (call.args["weight"], grads.weight_grad), (call.args["mask"], grads.mask_grad)):
        assert abs(product(g, out) - product(operand, grad)) <= tolerance


def test_offsets_beyond_what_a_band_holds(dtype, backend, eager):
    """Samples that reach over all of a large image are those of small pieces of it, one position at a time."""
    call = make(seeded("wide"), 1, 16, 3, (70, 1000), (1, 1), stride=(30, 20), spread=40.0).cast(dtype)
    out = call.on(backend, "deform_conv2d")
    assert out.tobytes() == call.on(eager, "deform_conv2d").tobytes()
    x, offset, w, mask, bias = call.args.values()
    for p, q in np.ndindex(*out.shape[2:]):
        h, v = offset[0, :, p, q] + np.array([p * 30, q * 20], dtype)
        wanted = bias.astype(np.float64)
        for row in (int(np.floor(h)), int(np.floor(h)) + 1):
            for column in (int(np.floor(v)), int(np.floor(v)) + 1):
                if 0 <= row < 70 and 0 <= column < 1000:
                    share = (1 - abs(h - row)) * (1 - abs(v - column)) * mask[0, 0, p, q]
                    wanted = wanted + w[:, :, 0, 0] @ (share * x[0, :, row, column])
        assert np.abs(out[0, :, p, q] - wanted).max() <= (1e-3 if dtype == "float32" else 1e-9)
