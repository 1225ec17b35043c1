"""Small inputs with their right values, from public bug reports and test suites (tests/data/cases.json says which)."""

import json
import os

import numpy as np
import pytest
from support import Failures
from test_nan import test_the_floating_point_mode_is_left_alone as check_mode

import cpuops

with open(os.path.join(os.path.dirname(__file__), "data", "cases.json"), encoding="utf-8") as _file:
    CASES = json.load(_file)["cases"]


def array_of(entry, dtype):
    """The entry's array; floating ones in the dtype of the run."""
    if entry is None:
        return None
    kind = dtype if entry["dtype"] == "float" else entry["dtype"]
    words = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
    return np.array([words.get(v, v) if isinstance(v, str) else v for v in entry["data"]], kind).reshape(entry["shape"])


# ---------------------------------------------------------------- how an operand lies in memory


def every_second(a, axes):
    """The values of a, with gaps along the last axes."""
    wide = np.full([2 * n if i >= a.ndim - axes else n for i, n in enumerate(a.shape)], 77, a.dtype)
    view = wide[tuple(slice(None, None, 2) if i >= a.ndim - axes else slice(None) for i in range(a.ndim))]
    view[...] = a
    return view


def backwards(a):
    turn = tuple(slice(None, None, -1) if n > 1 else slice(None) for n in a.shape)
    return a[turn].copy()[turn]


def frozen(a):
    a = a.copy()
    a.setflags(write=False)
    return a


LAYOUTS = {
    "every second cell": lambda a: every_second(a, 2),
    "strided view": lambda a: every_second(a, 1),
    "negative stride": backwards,
    "read-only": frozen,
    "stride 0 to (1,1,2,3)": lambda a: np.broadcast_to(a, (1, 1, 2, 3)),
}


def tuples(value):
    """Options as Python has them: JSON knows lists only."""
    return tuple(tuples(v) for v in value) if isinstance(value, list) else value


def call(backend, case, dtype, out=None):
    inputs = {k: array_of(v, dtype) for k, v in case.get("inputs", {}).items()}
    for name, layout in case.get("layout", {}).items():
        inputs[name] = LAYOUTS[layout](inputs[name])
    options = {k: tuples(v) for k, v in case.get("options", {}).items()}
    if out == "x":
        options["out"] = inputs["x"]
    elif out == "buffer of NaN":
        expected = case["expected"]["output"]
        options["out"] = np.full(expected["shape"], np.nan, dtype)
    elif out == "shifted overlap":
        block = np.zeros(inputs["x"].size + 1, dtype)
        block[:-1] = inputs["x"]
        inputs["x"], options["out"] = block[:-1], block[1:]
    result = getattr(backend, case["op"])(**inputs, **options)
    assert "out" not in options or result is options["out"]
    return result


def fields_of(result):
    return result._asdict() if hasattr(result, "_asdict") else {"output": result}


def close(got, want, rtol, atol):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if got.shape != want.shape:
        return False
    finite = np.isfinite(want)
    with np.errstate(invalid="ignore"):
        near = np.abs(got - want) <= atol + rtol * np.abs(want)
    return bool(np.where(finite, near, (got == want) | (np.isnan(got) & np.isnan(want))).all())


def judge(failures, backend, case, expected_fields=None):
    for dtype, tolerance in case["dtypes"].items():
        what = f"{case['op']} on {backend!r} in {dtype} ({case['source']}: {case['note']})"
        if "raises" in case:
            try:
                call(backend, case, dtype, case.get("out"))
                failures.check(False, f"{what}: accepted")
            except Exception as error:
                failures.check(isinstance(error, getattr(cpuops, case["raises"])), f"{what}: {type(error).__name__}: {error}")
            continue
        found = fields_of(call(backend, case, dtype, case.get("out")))
        for field, entry in case["expected"].items():
            got = found[field]
            if entry is None:
                failures.check(got is None, f"{what}: {field} is {got!r}, expected None")
                continue
            want = array_of(entry, dtype)
            failures.check(got is not None and got.dtype == want.dtype, f"{what}: {field} is {got!r:.60}")
            failures.check(
                close(got, want, tolerance["rtol"], tolerance["atol"]), f"{what}: {field} is {got!r}, expected {want!r}"
            )


def plain(case):
    return "property" not in case


@pytest.mark.parametrize("case", [c for c in CASES if plain(c)], ids=lambda case: case["id"])
def test_case(case, serial, eager):
    failures = Failures()
    for backend in (serial, eager):
        judge(failures, backend, case)
    failures.raise_any()


# ---------------------------------------------------------------- statements that are checked in code


def product_gradients(forward, backward):
    """Gradients to a and b of the sum of f(a·b)·b."""

    def run(backend, a, b):
        c = backend.matmul(a, b)
        y = forward(backend, c)
        z = backend.matmul(y, b)
        y_grad, b_grad = backend.matmul_backward(np.ones_like(z), y, b)
        a_grad, more = backend.matmul_backward(backward(backend, y_grad, c, y), a, b)
        return {"a_grad": a_grad, "b_grad": b_grad + more}

    return run


PRODUCTS = {
    "burn:softmax:backward:test_softmax_grad": product_gradients(
        lambda b, c: b.softmax(c, axis=1), lambda b, g, c, y: b.softmax_backward(g, y, axis=1)
    ),
    "burn:log_softmax:backward:test_log_softmax_grad": product_gradients(
        lambda b, c: b.log_softmax(c, axis=1), lambda b, g, c, y: b.log_softmax_backward(g, y, axis=1)
    ),
    "burn:relu:backward:should_diff_relu": product_gradients(lambda b, c: b.relu(c), lambda b, g, c, y: b.relu_backward(g, c)),
}


@pytest.mark.parametrize("case", [c for c in CASES if c["id"] in PRODUCTS], ids=lambda case: case["id"])
def test_gradients_through_products(case, backend):
    for dtype, tolerance in case["dtypes"].items():
        got = PRODUCTS[case["id"]](backend, *(array_of(case["inputs"][k], dtype) for k in ("a", "b")))
        for field, entry in case["expected"].items():
            assert close(got[field], array_of(entry, dtype), tolerance["rtol"], tolerance["atol"]), (dtype, field, got[field])


def test_the_tail_that_no_window_reaches(dtype, backend):
    """burn:property:conv1d:tail: length 11, kernel 4, stride 4 leaves three cells without gradient."""
    grad = backend.conv1d_x_backward(np.ones((2, 3, 11), dtype), np.ones((4, 3, 4), dtype), np.ones((2, 4, 2), dtype), stride=4)
    assert grad.shape == (2, 3, 11) and (grad[..., :8] == 4).all() and (grad[..., 8:] == 0).all()


def test_output_padding_of_a_whole_stride(dtype, backend):
    """burn:property:conv_transpose1d:output_padding: the added cell holds the bias, and gradients have the operands' shapes."""
    x, weight, bias = np.ones((1, 2, 3), dtype), np.ones((2, 1, 2), dtype), np.array([5], dtype)
    y = backend.conv_transpose1d(x, weight, bias, output_padding=1)
    assert (y == np.array([7, 9, 9, 7, 5], dtype)).all()
    grads = backend.conv_transpose1d_backward(x, weight, np.ones_like(y), output_padding=1)
    assert (grads.x_grad == np.full_like(x, 2)).all() and (grads.weight_grad == np.full_like(weight, 3)).all()
    assert grads.bias_grad == np.array([5], dtype)


def ctc_operands(rng, dtype, frames, batch, classes, target_lengths):
    x = np.asarray(rng.standard_normal((frames, batch, classes)), dtype)
    x -= np.log(np.exp(x).sum(-1, keepdims=True))
    targets = rng.integers(1, classes, (batch, max(target_lengths)))
    return x, targets, np.full(batch, frames), np.array(target_lengths)


def test_ctc_of_a_swapped_and_narrowed_operand(dtype, backend):
    """burn:property:ctc_loss:strided"""
    x, *rest = ctc_operands(np.random.default_rng(1), dtype, 12, 4, 6, (3, 2, 4, 1))
    wide = np.full((8, 24, 12), np.nan, dtype)
    view = wide[2:6, ::2, 3:9].swapaxes(0, 1)
    view[...] = x
    g = np.arange(1, 5).astype(dtype)
    assert backend.ctc_loss(view, *rest).tobytes() == backend.ctc_loss(x, *rest).tobytes()
    assert backend.ctc_loss_backward(view, *rest, g).tobytes() == backend.ctc_loss_backward(x, *rest, g).tobytes()


def test_ctc_of_many_frames(dtype, backend):
    """burn:property:ctc_loss:long: 400 frames, 36 classes, targets of 60 and 40."""
    operands = ctc_operands(np.random.default_rng(2), dtype, 400, 2, 36, (60, 40))
    loss = backend.ctc_loss(*operands)
    assert np.isfinite(loss).all() and (loss > 10).all() and (loss < 10000).all()
    grad = backend.ctc_loss_backward(*operands, np.ones(2, dtype))
    # probabilities less probabilities: nothing is left of their sum
    assert np.abs(grad.sum(-1)).max() < (1e-5 if dtype == "float32" else 1e-12)


def test_ctc_gradient_in_segments(dtype, backend):
    """A table of forward variables that takes too much memory is computed again in parts."""
    x, targets, frames, lengths = ctc_operands(np.random.default_rng(3), dtype, 1700, 2, 4, (200, 1))
    frames[1] = 1699
    long = backend.ctc_loss_backward(x, targets, frames, lengths, np.ones(2, dtype))
    short = backend.ctc_loss_backward(x[:, 1:], targets[1:, :1], frames[1:], lengths[1:], np.ones(1, dtype))
    assert long[:, 1:].tobytes() == short.tobytes() and np.abs(long.sum(-1)).max() < 1e-5


def test_attention_of_one_visible_key(dtype, backend):
    """burn:property:attention: the first query of a causal call sees one key; it sees none where that one is hidden."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 2, 4, 3)).astype(dtype) for _ in range(3))
    got = backend.attention(q, k, v, softcap=2.0, is_causal=True)
    assert np.allclose(got[:, :, 0], v[:, :, 0], rtol=1e-6, atol=0)
    hidden = np.array([[[[True, False, False, False]]]])
    got = backend.attention(q, k, v, hidden, is_causal=True)
    assert (got[:, :, 0] == 0).all() and np.isfinite(got).all() and (got[:, :, 1:] != 0).all()


CHECKED_ELSEWHERE = {
    "burn:property:ctc_loss:strided": test_ctc_of_a_swapped_and_narrowed_operand,
    "burn:property:ctc_loss:long": test_ctc_of_many_frames,
    "burn:property:attention:softcap+causal": test_attention_of_one_visible_key,
    "burn:property:attention:hidden+causal": test_attention_of_one_visible_key,
    "prop-import-leaves-fpu-alone": check_mode,
    "burn:property:conv1d:tail": test_the_tail_that_no_window_reaches,
    "burn:property:conv_transpose1d:output_padding": test_output_padding_of_a_whole_stride,
}


def test_no_case_is_left_out():
    for case in CASES:
        assert plain(case) or case["id"] in PRODUCTS or case["id"] in CHECKED_ELSEWHERE, case["id"]
