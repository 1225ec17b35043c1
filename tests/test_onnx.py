"""ONNX's own node tests, where the onnx package is installed: what an operator of the standard computes, we compute.

ADAPTERS says, for each ONNX operator, how to make its call with the methods of a backend. A family that gains a counterpart in
ONNX adds an adapter here, and nothing else.
"""

import warnings
from collections import defaultdict

import numpy as np
import pytest
from support import Failures

onnx = pytest.importorskip("onnx", reason="onnx, whose node tests these are, is not installed")


class Beyond(Exception):
    """What a node test asks for and cpuops does not have, by its contract; the reason in words."""


# ---------------------------------------------------------------- pooling


def pool_options(attributes, x):
    """Windows of a pooling node as (kernel, our options); padding as a pair an axis, "same" worked out."""
    sizes = x.shape[2:]
    n = len(sizes)
    kernel = tuple(attributes["kernel_shape"])
    stride = tuple(attributes.get("strides", (1,) * n))
    dilation = tuple(attributes.get("dilations", (1,) * n))
    pads = attributes.get("pads", (0,) * 2 * n)
    padding = tuple(zip(pads[:n], pads[n:], strict=True))
    kind = attributes.get("auto_pad", b"NOTSET").decode()
    if kind.startswith("SAME"):
        outputs = [-(-size // s) for size, s in zip(sizes, stride, strict=True)]
        reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
        total = [max(0, (o - 1) * s + r - size) for o, s, r, size in zip(outputs, stride, reach, sizes, strict=True)]
        padding = tuple((t // 2, t - t // 2) if kind == "SAME_UPPER" else (t - t // 2, t // 2) for t in total)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": bool(attributes.get("ceil_mode", 0))}
    return kernel, options


def above_half(kernel, padding):
    """ONNX allows more padding than half a window; then the cells are written out."""
    return any(2 * max(pair) > k for pair, k in zip(padding, kernel, strict=True))


def written_out(x, options, value):
    padding = options["padding"]
    return np.pad(x, ((0, 0), (0, 0), *padding), constant_values=value), {**options, "padding": 0}


def max_pool(backend, attributes, x):
    kernel, options = pool_options(attributes, x)
    if above_half(kernel, options["padding"]):
        x, options = written_out(x, options, -np.inf)
        return getattr(backend, f"max_pool{x.ndim - 2}d")(x, kernel, **options)
    output, indices = getattr(backend, f"max_pool{x.ndim - 2}d_with_indices")(x, kernel, **options)
    if attributes.get("storage_order", 0):
        at = np.unravel_index(indices, x.shape[2:])
        indices = np.ravel_multi_index(at[::-1], x.shape[:1:-1])
    plane = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * (x.ndim - 2))
    return output, indices + plane * int(np.prod(x.shape[2:]))  # ONNX counts cells of the whole array


def average_pool(backend, attributes, x):
    kernel, options = pool_options(attributes, x)
    include = bool(attributes.get("count_include_pad", 0))
    pool = getattr(backend, f"avg_pool{x.ndim - 2}d")
    if above_half(kernel, options["padding"]):
        ones, _ = written_out(np.ones_like(x), options, 1.0 if include else 0.0)
        x, options = written_out(x, options, 0.0)
        return pool(x, kernel, **options) / pool(ones, kernel, **options)
    return pool(x, kernel, count_include_pad=include, **options)


def over_all(kind):
    def run(backend, attributes, x):
        return getattr(backend, f"adaptive_{kind}_pool{x.ndim - 2}d")(x, 1)

    return run


# ---------------------------------------------------------------- padding


def pad(backend, attributes, x, pads, value=None, axes=None):
    mode = attributes.get("mode", b"constant").decode()
    pairs = np.zeros((x.ndim, 2), np.int64)
    pairs[slice(None) if axes is None else axes] = np.asarray(pads).reshape(2, -1).T
    if mode == "wrap" or pairs.min() < 0:
        raise Beyond("neither periodic nor negative padding")
    return backend.pad(x, pairs, mode=mode, value=0.0 if value is None else float(value))


# ---------------------------------------------------------------- attention


def attention(backend, attributes, query, key, value, mask=None, past_key=None, past_value=None, lengths=None):
    """Heads on an axis of their own; a mask of bools says what is seen; causal counts from the top left, after the past."""
    if any("window" in name for name in attributes) or (lengths is not None and attributes.get("is_causal", 0)):
        raise Beyond("no windows, and no causal limit of each sample")
    three_axes = query.ndim == 3
    if three_axes:
        heads = [attributes["q_num_heads"], *[attributes["kv_num_heads"]] * 2]
        query, key, value = (
            a.reshape(*a.shape[:2], n, -1).swapaxes(1, 2) for a, n in zip((query, key, value), heads, strict=True)
        )
    causal, alignment, later = bool(attributes.get("is_causal", 0)), "top_left", None
    if past_key is not None:
        past, new = past_key.shape[2], key.shape[2]
        key, value = np.concatenate((past_key, key), 2), np.concatenate((past_value, value), 2)
        if new == query.shape[2]:
            alignment = "bottom_right"
        elif causal:  # a limit that begins in no corner
            causal, later = False, ~np.tri(query.shape[2], past + new, past, dtype=bool)
    if mask is not None and 1 < mask.shape[-1] < key.shape[2]:  # keys that a mask does not reach are hidden
        rest = [(0, 0)] * (mask.ndim - 1) + [(0, key.shape[2] - mask.shape[-1])]
        mask = np.pad(mask, rest, constant_values=False if mask.dtype == bool else -np.inf)
    hidden, bias = (~mask, None) if mask is not None and mask.dtype == bool else (None, mask)
    if later is not None:
        hidden = later if hidden is None else hidden | later
    if lengths is not None:
        beyond = np.arange(key.shape[2]) >= lengths[:, np.newaxis, np.newaxis, np.newaxis]
        hidden = beyond if hidden is None else hidden | beyond
    output = backend.attention(
        query, key, value, hidden, bias,
        scale=attributes.get("scale"), softcap=attributes.get("softcap") or None,
        is_causal=causal, causal_alignment=alignment,
    )  # fmt: skip
    if three_axes:
        output = output.swapaxes(1, 2).reshape(output.shape[0], output.shape[2], -1)
    return output, key, value


# ---------------------------------------------------------------- sampling


def grid_sample(backend, attributes, x, grid):
    if x.ndim != 4:
        raise Beyond("volumes")
    mode = {"linear": "bilinear", "cubic": "bicubic"}
    mode = mode.get(name := attributes.get("mode", b"bilinear").decode(), name)
    return backend.grid_sample_2d(
        x, grid, mode=mode, padding_mode=attributes.get("padding_mode", b"zeros").decode(),
        align_corners=bool(attributes.get("align_corners", 0)),
    )  # fmt: skip


# ---------------------------------------------------------------- all of them

ADAPTERS = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "Pad": pad,
    "Attention": attention,
    "GridSample": grid_sample,
    "GlobalMaxPool": over_all("max"),
    "GlobalAveragePool": over_all("avg"),
}


# ---------------------------------------------------------------- the node tests


@pytest.fixture(scope="module")
def node_tests():
    """{operator: [test]} of every node test that is one node."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their making of extreme values warns
        collect = pytest.importorskip("onnx.backend.test.case.node", reason="this onnx package comes without its node tests")
        cases = collect.collect_testcases(None)
    found = defaultdict(list)
    for case in cases:
        if case.model is not None and len(case.model.graph.node) == 1:
            found[case.model.graph.node[0].op_type].append(case)
    return found


def attributes_of(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def in_order(node, names, arrays):
    """The node's operands, None where an optional one is left out."""
    given = dict(zip(names, arrays, strict=True))
    return [given[name] if name else None for name in node.input]


def of_our_dtypes(arrays):
    kinds = {a.dtype for a in arrays if a is not None and a.dtype.kind not in "iub"}
    return len(kinds) <= 1 and kinds <= {np.dtype(np.float32), np.dtype(np.float64)}


def check(failures, case, adapter, backend):
    """Whether the case is one that we have; what differs goes to failures."""
    node = case.model.graph.node[0]
    names = [i.name for i in case.model.graph.input]
    for inputs, outputs in case.data_sets:
        inputs = in_order(node, names, [np.asarray(a) for a in inputs])
        if inputs[0].dtype.kind != "f" or not of_our_dtypes(inputs):
            return False
        try:
            found = adapter(backend, attributes_of(node), *inputs)
        except Beyond:
            return False
        found = found if isinstance(found, tuple) else (found,)
        wanted = [i for i, name in enumerate(node.output) if name]
        if wanted[-1] >= len(found):
            return False
        for i, want in zip(wanted, outputs, strict=True):
            got = found[i]
            want = np.asarray(want)
            good = got.shape == want.shape and np.allclose(got, want, rtol=case.rtol, atol=case.atol, equal_nan=True)
            failures.check(good, lambda i=i, got=got, want=want: f"{case.name}, output {i}: {got!r}, expected {want!r}")
    return True


@pytest.mark.parametrize("operator", ADAPTERS)
def test_node(operator, node_tests, serial, eager):
    failures = Failures()
    cases = node_tests[operator]
    ours = [case for case in cases if all([check(failures, case, ADAPTERS[operator], b) for b in (serial, eager)])]
    assert 2 * len(ours) >= len(cases), f"only {len(ours)} of {len(cases)} node tests of {operator} were made"
    failures.raise_any()
