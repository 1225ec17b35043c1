"""Parity with PyTorch, gradients included, where it is installed: the table's calls, and random options."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the peer these tests compare with, is not installed")
hypothesis = pytest.importorskip("hypothesis", reason="hypothesis, which draws the random options, is not installed")

import torch.nn.functional as F  # noqa: E402
from hypothesis import HealthCheck, assume, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from oracle.conv import Taps, pad_pairs, per_axis  # noqa: E402
from oracle.pool import sliding  # noqa: E402
from support import Failures, all_differences, result_of, seeded  # noqa: E402
from table import ROWS, Call  # noqa: E402
from table.base import parts  # noqa: E402

DRAWS = settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """For torch; where its OpenMP is ours, its number of threads is a limit for backends made in the meantime."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# ---------------------------------------------------------------- what torch calls it


def flat(pairs):
    """F.pad takes the last axis first."""
    return [p for pair in reversed(pairs) for p in pair]


def first(x):
    """Channels last to channels first."""
    return x.movedim(-1, 1)


def last(y):
    return y.movedim(1, -1)


def conv(n):
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[n]

    def run(x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1, layout="NCHW"):
        if layout == "NHWC":
            y = run(
                first(x),
                weight.permute(3, 2, 0, 1).contiguous(),
                bias,
                stride=stride,
                padding=padding,
                dilation=dilation,
                groups=groups,
            )
            return last(y)
        dilation = per_axis(dilation, n)
        pads = pad_pairs(padding, tuple(weight.shape[2:]), dilation)
        return function(F.pad(x, flat(pads)), weight, bias, per_axis(stride, n), 0, dilation, groups)

    return run


def conv_transpose(n):
    function = getattr(F, f"conv_transpose{n}d")

    def run(x, weight, bias=None, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
        y = function(x, weight, None, per_axis(stride, n), 0, 0, groups, per_axis(dilation, n))
        # torch allows less of padding and output_padding: both are made here
        pads = pad_pairs(padding, (1,) * n, (1,) * n)
        for a, ((before, after), extra) in enumerate(zip(pads, per_axis(output_padding, n), strict=True), 2):
            y = F.pad(y, [0, 0] * (n + 1 - a) + [0, extra])
            y = y.narrow(a, before, y.shape[a] - before - after)
        return y if bias is None else y + bias.reshape((-1,) + (1,) * n)

    return run


def windows(kernel_size, stride, padding, dilation):
    """torch's arguments without padding, and the padding."""
    kernel, pads = per_axis(kernel_size, 2), pad_pairs(padding, (1, 1), (1, 1))
    return (kernel, per_axis(dilation, 2), 0, per_axis(stride, 2)), pads


def unfold4d(x, kernel_size, *, stride=1, padding=0, dilation=1):
    options, pads = windows(kernel_size, stride, padding, dilation)
    return F.unfold(F.pad(x, flat(pads)), *options)


def fold4d(x, output_size, kernel_size, *, stride=1, padding=0, dilation=1):
    options, pads = windows(kernel_size, stride, padding, dilation)
    size = per_axis(output_size, 2)
    y = F.fold(x, [n + sum(p) for n, p in zip(size, pads, strict=True)], *options)
    return y[:, :, pads[0][0] : pads[0][0] + size[0], pads[1][0] : pads[1][0] + size[1]]


def deform_conv2d(x, offset, weight, mask=None, bias=None, *, stride=1, padding=0, dilation=1, weight_groups=1, offset_groups=1):
    """torchvision has it, torch has the parts: F.unfold's sums with every tap read by F.grid_sample."""
    kernel, out, dilation = tuple(weight.shape[2:]), offset.shape[2:], per_axis(dilation, 2)
    pads, stride = pad_pairs(padding, kernel, dilation), per_axis(stride, 2)
    if not torch.isfinite(offset).all() or offset.abs().max() > 1e6:
        return None  # grid_sample makes cells of them
    batch, channels, *size = x.shape
    moved = offset.reshape(batch, offset_groups, -1, 2, *out)
    images = x.reshape(batch * offset_groups, channels // offset_groups, *size)
    columns = []
    for tap, place in enumerate(np.ndindex(*kernel)):
        ends = []
        for axis in (0, 1):
            cells = torch.arange(out[axis], dtype=x.dtype) * stride[axis] + place[axis] * dilation[axis] - pads[axis][0]
            cells = (cells[:, None] if axis == 0 else cells).expand(*out) + moved[:, :, tap, axis]
            ends.append((2 * cells + 1) / size[axis] - 1)
        grid = torch.stack(ends[::-1], dim=-1).reshape(batch * offset_groups, *out, 2)
        columns.append(F.grid_sample(images, grid, align_corners=False).reshape(batch, channels, *out))
    columns = torch.stack(columns, dim=2)
    if mask is not None:
        each = mask.reshape(batch, offset_groups, 1, -1, *out).expand(-1, -1, channels // offset_groups, -1, -1, -1)
        columns = columns * each.reshape(columns.shape)
    columns = columns.reshape(batch, weight_groups, channels // weight_groups, -1, *out)
    weight = weight.reshape(weight_groups, -1, channels // weight_groups, kernel[0] * kernel[1])
    y = torch.einsum("gmct,bgctyx->bgmyx", weight, columns).reshape(batch, -1, *out)
    return y if bias is None else y + bias.reshape(-1, 1, 1)


def both_sides(padding, n):
    """One padding an axis, or None where the two sides differ, which torch's pools do not have."""
    pairs = pad_pairs(padding, (1,) * n, (1,) * n)
    return tuple(before for before, _ in pairs) if all(before == after for before, after in pairs) else None


def max_pool(n, indices=False):
    function = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[n]

    def run(x, kernel_size, *, stride=None, padding=0, dilation=1, ceil_mode=False, layout="NCHW", indices_dtype=None):
        if layout == "NHWC":
            y = run(first(x), kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
            return y if y is None else tuple(map(last, y)) if indices else last(y)
        padding = both_sides(padding, n)
        if padding is None:
            return None
        return function(x, kernel_size, stride, padding, dilation, ceil_mode, indices)

    return run


def avg_pool(n):
    function = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[n]

    def run(
        x,
        kernel_size,
        *,
        stride=None,
        padding=0,
        dilation=1,
        count_include_pad=True,
        ceil_mode=False,
        divisor_override=None,
        layout="NCHW",
    ):
        if layout == "NHWC":
            options = {
                "stride": stride,
                "padding": padding,
                "dilation": dilation,
                "count_include_pad": count_include_pad,
                "ceil_mode": ceil_mode,
                "divisor_override": divisor_override,
            }
            y = run(first(x), kernel_size, **options)
            return None if y is None else last(y)
        if any(d != 1 for d in per_axis(dilation, n)) or (n == 1 and divisor_override):
            return None  # torch has neither here
        padding = both_sides(padding, n)
        if padding is None:
            return None
        if n == 3 and any(size < k for size, k in zip(x.shape[2:], per_axis(kernel_size, n), strict=True)):
            return None  # torch wants the kernel to fit without the padding
        more = () if n == 1 else (divisor_override,)
        return function(x, kernel_size, stride, padding, ceil_mode, count_include_pad, *more)

    return run


def pad(x, pads, *, mode="constant", value=0.0):
    pairs = [tuple(map(int, p)) for p in pads]
    if mode == "constant":
        return F.pad(x, flat(pairs), value=float(value))
    for axis, pair in enumerate(pairs):  # F.pad mirrors the last axes only, and not more than once
        x = x.index_select(axis, torch.from_numpy(np.pad(np.arange(x.shape[axis]), pair, mode)))
    return x


def grid_sample(x, grid, *, mode="bilinear", padding_mode="zeros", align_corners=False):
    if not grid.isfinite().all():
        return None  # torch takes NaN for -1
    return F.grid_sample(x, grid, mode, padding_mode, align_corners)


def adaptive(function, several=False):
    def run(x, output_size, *, layout="NCHW", indices_dtype=None):
        if layout == "NHWC":
            y = run(first(x), output_size)
            return tuple(map(last, y)) if several else last(y)
        return function(x, output_size)

    return run


LINEAR_MODES = {3: "linear", 4: "bilinear", 5: "trilinear"}


def interpolate(x, output_size=None, *, scale_factor=None, **options):
    """Where torch has the same: two transforms, no crop, one cubic coefficient each with and without antialiasing."""
    mode = options.pop("mode", "bilinear")
    transform = options.pop("coordinate_transform", None)
    a, exclude = options.pop("cubic_a", -0.75), options.pop("exclude_outside", False)
    antialias = options.pop("antialias", False)
    size = None if output_size is None else per_axis(output_size, x.ndim - 2)
    if options or mode == "lanczos3":
        return None
    if mode.startswith("nearest"):
        # torch computes a nearest cell in float32: only where that is exact
        if transform is not None or size is None or any(o % n and n % o for o, n in zip(size, x.shape[2:], strict=True)):
            return None
        return F.interpolate(x, size, mode=mode.replace("_", "-"))
    if transform not in (None, "half_pixel", "align_corners") or (mode == "bicubic" and x.ndim != 4):
        return None
    if antialias != exclude or (mode == "bicubic" and a != (-0.5 if antialias else -0.75)) or (antialias and x.ndim != 4):
        return None
    if size is None and (transform == "align_corners" or antialias):
        return None
    mode = LINEAR_MODES[x.ndim] if mode == "bilinear" else mode
    corners = transform == "align_corners"
    return F.interpolate(x, size, scale_factor, mode, align_corners=corners, recompute_scale_factor=False, antialias=antialias)


def reduction(function):
    def run(x, *, axis=None, keepdims=False):
        axes = tuple(range(x.ndim)) if axis is None else axis
        if axes == () and x.ndim:
            return x.clone()
        return function(x, axes, keepdim=keepdims) if x.ndim else x.clone()

    return run


def cross_entropy(logits, targets, *, reduction="mean", ignore_index=None, label_smoothing=0.0):
    ignore = -987654 if ignore_index is None else ignore_index
    return F.cross_entropy(logits, targets.long(), reduction=reduction, ignore_index=ignore, label_smoothing=label_smoothing)


def layer_norm(x, gamma, beta=None, epsilon=1e-5):
    return F.layer_norm(x, (x.shape[-1],), gamma, beta, epsilon)


def batch_norm_train(x, gamma, beta, epsilon):
    if not x.numel():
        return None
    axes = [a for a in range(x.ndim) if a != 1]
    y = F.batch_norm(x, None, None, gamma, beta, True, 0.1, epsilon)
    return y, x.mean(axes), x.var(axes, correction=0)


def group_norm(x, num_groups, gamma=None, beta=None, epsilon=1e-5):
    if gamma is None and beta is not None:
        gamma = torch.ones_like(beta)  # torch 2.13 fails on a beta alone
    return F.group_norm(x, num_groups, gamma, beta, epsilon) if x.numel() else None


def instance_norm(x, gamma=None, beta=None, epsilon=1e-5):
    return group_norm(x, x.shape[1], gamma, beta, epsilon)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, *, zero_infinity=False):
    # torch wants a frame, reads what lies beyond a target, and makes NaN of the gradient of an infinite loss
    used = torch.arange(targets.shape[1]) < target_lengths[:, None]
    targets = torch.where(used, targets.long(), (blank + 1) % log_probs.shape[2])
    frames = input_lengths.long()
    loss = F.ctc_loss(log_probs, targets, frames.clamp(min=1), target_lengths.long(), blank, "none")
    loss = torch.where(torch.isinf(loss), loss.detach(), F.ctc_loss(
        log_probs, targets, frames.clamp(min=1), target_lengths.long(), blank, "none", zero_infinity=True
    ))
    nothing = torch.where(target_lengths == 0, 0.0, torch.inf).to(loss.dtype)
    loss = torch.where(frames == 0, nothing, loss)
    return torch.where(torch.isinf(loss), 0.0, loss) if zero_infinity else loss


def activated(activation):
    return (lambda x: F.gelu(x, approximate="tanh")) if activation == "gelu_tanh" else getattr(F, activation)


def linear_activation(x, weight, bias=None, activation="relu"):
    total = F.linear(x, weight.t(), bias)
    return activated(activation)(total), total


def conv_activation(n):
    def function(x, weight, bias=None, activation="relu", **options):
        total = conv(n)(x, weight, bias, **options)
        return activated(activation)(total), total

    return function


def attention(query, key, value, mask=None, attn_bias=None, scale=None, softcap=None, is_causal=False, causal_alignment="bottom_right"):
    """(output, logsumexp): the output by torch's own attention unless there is a softcap, which it lacks."""
    shape = (*query.shape[:3], key.shape[2])
    hidden = torch.zeros(shape, dtype=torch.bool) if mask is None else mask.broadcast_to(shape).clone()
    if is_causal:
        shift = shape[3] - shape[2] if causal_alignment == "bottom_right" else 0
        hidden |= torch.ones(shape[2:], dtype=torch.bool).triu(shift + 1)
    bias = torch.zeros(shape, dtype=query.dtype) if attn_bias is None else attn_bias.broadcast_to(shape)
    bias = bias.masked_fill(hidden, -np.inf)
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    scores = query @ key.mT * (query.shape[3] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores + bias
    logsumexp = torch.logsumexp(scores, 3)
    if not softcap:
        return F.scaled_dot_product_attention(query, key, value, bias, scale=scale), logsumexp
    seen = ~torch.isneginf(bias).all(3, keepdim=True)
    return torch.softmax(torch.where(seen, scores, 0.0), 3) * seen @ value, logsumexp


def hard_sigmoid(x, alpha=0.2, beta=0.5):
    return torch.clamp(alpha * x + beta, 0, 1)


def celu(x, alpha=1.0):
    # F.celu rounds 1/alpha to float32 in its gradient
    return torch.where(x > 0, x, alpha * torch.expm1(torch.where(x > 0, 0.0, x) / alpha))


def gelu(x, approximate="none"):
    # F.gelu loses its last digits far out, where it adds 1 to erf
    if approximate == "none":
        return x * torch.special.erfc(-x / 2**0.5) / 2
    return x * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))


def softplus(x, beta=1.0):
    return torch.logaddexp(torch.zeros((), dtype=x.dtype), x * beta) / beta


def mse_loss(input, target, reduction="mean"):
    return F.mse_loss(input, target, reduction=reduction)


def batch_norm(x, gamma, beta, mean, variance, epsilon):
    return F.batch_norm(x, mean, variance, gamma, beta, False, 0.1, epsilon)


SAME_NAME = (
    "add sub mul div maximum minimum neg exp expm1 log log1p sqrt reciprocal abs square erf sigmoid tanh matmul".split(),
    "relu leaky_relu elu selu relu6 silu mish softsign tanhshrink prelu".split(),
)
TORCH = {
    **{name: getattr(torch, name) for name in SAME_NAME[0]},
    **{name: getattr(F, name) for name in SAME_NAME[1]},
    "celu": celu,
    "gelu": gelu,
    "softplus": softplus,
    "hard_sigmoid": hard_sigmoid,
    "log_sigmoid": F.logsigmoid,
    "hard_swish": F.hardswish,
    "hardtanh": lambda x, min=-1.0, max=1.0: F.hardtanh(x, min, max),
    "glu": lambda x, axis=-1: F.glu(x, axis),
    "reduce_sum": reduction(torch.sum),
    "reduce_mean": reduction(torch.mean),
    "reduce_max": reduction(torch.amax),
    "reduce_min": reduction(torch.amin),
    "logsumexp": reduction(torch.logsumexp),
    "softmax": lambda x, axis=-1, scale=1.0: F.softmax(x * scale, axis),
    "log_softmax": lambda x, axis=-1, scale=1.0: F.log_softmax(x * scale, axis),
    "cross_entropy": cross_entropy,
    "mse_loss": mse_loss,
    "deform_conv2d": deform_conv2d,
    "unfold4d": unfold4d,
    "fold4d": fold4d,
    "linear": lambda x, weight, bias=None: F.linear(x, weight.t(), bias),
    "linear_activation": lambda *operands, activation: linear_activation(*operands, activation)[0],
    "linear_activation_with_sum": lambda *operands, activation: linear_activation(*operands, activation),
    "pad": pad,
    "grid_sample_2d": grid_sample,
    "embedding": lambda weights, indices: F.embedding(indices.long(), weights),
    "batch_norm": batch_norm,
    "batch_norm_train": batch_norm_train,
    "layer_norm": layer_norm,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "ctc_loss": ctc_loss,
    "attention": lambda *operands, **options: attention(*operands, **options)[0],
    "attention_with_logsumexp": attention,
    "add_layer_norm": lambda x, residual, gamma, beta=None, epsilon=1e-5: (layer_norm(x + residual, gamma, beta, epsilon), x + residual),
    "add_rms_norm": lambda x, residual, gamma, epsilon=1e-5: (
        F.rms_norm(x + residual, (x.shape[-1],), gamma, epsilon), x + residual
    ),
    "rms_norm": lambda x, gamma, epsilon=1e-5: F.rms_norm(x, (x.shape[-1],), gamma, epsilon),
}
for _n in (1, 2, 3):
    TORCH |= {
        f"conv{_n}d": conv(_n),
        f"conv{_n}d_activation": lambda *operands, n=_n, **options: conv_activation(n)(*operands, **options)[0],
        f"conv{_n}d_activation_with_sum": conv_activation(_n),
        f"conv_transpose{_n}d": conv_transpose(_n),
        f"max_pool{_n}d": max_pool(_n),
        f"max_pool{_n}d_with_indices": max_pool(_n, True),
        f"avg_pool{_n}d": avg_pool(_n),
        f"adaptive_avg_pool{_n}d": adaptive(getattr(F, f"adaptive_avg_pool{_n}d")),
        f"adaptive_max_pool{_n}d": adaptive(getattr(F, f"adaptive_max_pool{_n}d")),
        f"adaptive_max_pool{_n}d_with_indices": adaptive(getattr(F, f"adaptive_max_pool{_n}d_with_indices"), True),
    }
TORCH["interpolate"] = interpolate
WITHOUT_TORCH = {"argmax", "conv2d_input_backward"}  # of ties and of NaN torch promises nothing; the other is conv2d's gradient
# torch rounds a constant of these gradients to float32, even for float64
COARSE_GRADIENTS = {"hard_swish", "selu"}


def as_tensor(value):
    value = np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value
    return torch.from_numpy(np.array(value, value.dtype.newbyteorder("="))) if isinstance(value, np.ndarray) else value


def compare(failures, row, call, backend, rng):
    """One float64 call and all its gradients on the backend and in torch."""
    call = call.cast(np.float64)
    tensors = {}
    for name, value in call.args.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "u":
            value = value.astype(np.int64)
        tensors[name] = as_tensor(value)
        if name in row.differentiable and value is not None:
            tensors[name].requires_grad_()
    theirs = TORCH[row.name](*tensors.values(), **call.options)
    if theirs is None:
        return
    theirs = parts(theirs)
    what = f"{row.name}{call}"
    ours = result_of(failures, what, lambda: parts(call.on(backend, row.name)))
    if ours is None:
        return
    wanted = [t.detach().numpy() for t in theirs]
    if row.name == "prelu" and call.args["x"].ndim < 2 and call.args["weight"].size == 1:
        wanted = [np.asarray(w).reshape(call.args["x"].shape) for w in wanted]
    wanted = [w.astype(o.dtype) if o.dtype.kind == "i" else w for w, o in zip(wanted, ours, strict=True)]
    # torch itself errs by a few units: ten times our tolerance
    rtol = 10 * row.rtol["float64"]
    message = all_differences(ours, wanted, row.scale(call, wanted), rtol, "float64", row.exact)
    failures.check(message is None, f"{what}: {message}")
    if not row.differentiable or not call.smooth or message:
        return
    output_grad = np.asarray(rng.standard_normal(ours[0].shape))
    names = [n for n in row.differentiable if tensors.get(n) is not None]
    slopes = torch.autograd.grad(theirs[0], [tensors[n] for n in names], torch.from_numpy(output_grad), allow_unused=True)
    slopes = {n: np.zeros(call.args[n].shape) if s is None else s.numpy() for n, s in zip(names, slopes, strict=True)}
    for gradient, gcall in row.gradient_calls(call, ours, output_grad):
        found = result_of(failures, gradient.name, lambda g=gradient, c=gcall: parts(c.on(backend, g.name)))
        if found is None:
            continue
        exact = gradient.wanted(gcall)
        scales = gradient.scale(gcall, exact)
        for name, got, scale in zip(gradient.gives, found, scales, strict=True):
            if name in slopes:
                coarse = 1e-7 if row.name in COARSE_GRADIENTS else rtol
                message = all_differences(got, [slopes[name]], [scale], coarse, "float64")
                failures.check(message is None, f"{gradient.name} to {name}, {what}: {message}")


def test_table(row, serial):
    if row.name in WITHOUT_TORCH:
        assert row.name not in TORCH
        return
    failures = Failures()
    rng = seeded("torch", row.name)
    calls = [c for c in row.calls(rng) if all(n > 0 for a in c.arrays.values() for n in a.shape)]
    for call in calls:
        compare(failures, row, call, serial, rng)
    failures.raise_any()


def test_every_operation_has_its_peer():
    assert set(TORCH) | WITHOUT_TORCH == set(ROWS)


# ---------------------------------------------------------------- random options


def one_of(draw, n, low, high):
    return tuple(draw(st.integers(low, high)) for _ in range(n))


def written(draw, values):
    """An int where all axes agree, sometimes; else a tuple or a list."""
    if len(set(values)) == 1 and draw(st.booleans()):
        return values[0]
    return list(values) if draw(st.booleans()) else tuple(values)


@st.composite
def conv_calls(draw, n):
    top = {1: 40, 2: 14, 3: 7}[n]
    groups = draw(st.sampled_from([1, 1, 2, 3, 5]))
    kind = draw(st.sampled_from(["dense", "dense", "grouped", "depthwise"]))
    groups = 1 if kind == "dense" else groups
    cin, cout = (1, draw(st.integers(1, 3))) if kind == "depthwise" else (draw(st.integers(1, 9)), draw(st.integers(1, 17)))
    if kind == "depthwise":
        groups = draw(st.integers(1, 19))
    kernel, stride, dilation = one_of(draw, n, 1, 5 if n < 3 else 3), one_of(draw, n, 1, 4), one_of(draw, n, 1, 3)
    pads = tuple((draw(st.integers(0, 4)), draw(st.integers(0, 4))) for _ in range(n))
    low = [max(1, d * (k - 1) + 1 - sum(p)) for d, k, p in zip(dilation, kernel, pads, strict=True)]
    length = tuple(draw(st.integers(v, max(v, top))) for v in low)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x, w = (
        rng.standard_normal((draw(st.integers(1, 3)), groups * cin, *length)),
        rng.standard_normal((groups * cout, cin, *kernel)),
    )
    options = {"stride": written(draw, stride), "padding": pads, "dilation": written(draw, dilation), "groups": groups}
    if n == 2 and draw(st.booleans()):
        x, w = x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy()
        options["layout"] = "NHWC"
    args = {"x": x, "weight": w}
    if draw(st.booleans()):
        args["bias"] = rng.standard_normal(groups * cout)
    return Call(args, options)


@st.composite
def conv_transpose_calls(draw, n):
    groups = draw(st.sampled_from([1, 1, 2, 3, 17]))
    cin, cout = (1, draw(st.integers(1, 3))) if groups == 17 else (draw(st.integers(1, 9)), draw(st.integers(1, 17)))
    kernel, stride, dilation = one_of(draw, n, 1, 5 if n < 3 else 3), one_of(draw, n, 1, 4), one_of(draw, n, 1, 3)
    length, extra = one_of(draw, n, 1, {1: 30, 2: 9, 3: 4}[n]), one_of(draw, n, 0, 5)
    full = [(m - 1) * s + d * (k - 1) + e + 1 for m, s, d, k, e in zip(length, stride, dilation, kernel, extra, strict=True)]
    before = tuple(draw(st.integers(0, min(4, m - 1))) for m in full)
    pads = tuple((p, draw(st.integers(0, min(4, m - 1 - p)))) for m, p in zip(full, before, strict=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    args = {
        "x": rng.standard_normal((draw(st.integers(1, 3)), groups * cin, *length)),
        "weight": rng.standard_normal((groups * cin, cout, *kernel)),
    }
    if draw(st.booleans()):
        args["bias"] = rng.standard_normal(groups * cout)
    options = {"stride": written(draw, stride), "padding": pads, "output_padding": written(draw, extra)}
    return Call(args, {**options, "dilation": written(draw, dilation), "groups": groups})


@st.composite
def pool_calls(draw, n, average):
    top = {1: 40, 2: 14, 3: 8}[n]
    kernel, stride = one_of(draw, n, 1, 5 if n < 3 else 3), one_of(draw, n, 1, 4)
    dilation = (1,) * n if average else one_of(draw, n, 1, 3)
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    low = [max(1, d * (k - 1) + 1 - 2 * p) for d, k, p in zip(dilation, kernel, padding, strict=True)]
    length = tuple(draw(st.integers(v, max(v, top))) for v in low)
    options = {"stride": written(draw, stride), "padding": written(draw, padding), "ceil_mode": draw(st.booleans())}
    if average:
        options["count_include_pad"] = draw(st.booleans())
        if n > 1:
            options["divisor_override"] = draw(st.sampled_from([None, 1, 5]))
    else:
        options["dilation"] = written(draw, dilation)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 18)), *length)
    x = rng.permutation(int(np.prod(shape))).reshape(shape) / 7
    windows = sliding(length, kernel, stride, padding, dilation, options["ceil_mode"])
    assume(all(len(cells) for axis in windows for cells in axis.cells))  # a window that touches no cell is refused
    if n == 2 and draw(st.booleans()):
        x = x.transpose(0, 2, 3, 1).copy()
        options["layout"] = "NHWC"
    return Call({"x": x, "kernel_size": written(draw, kernel)}, options)


def drawn(name, calls, backend):
    row = ROWS[name]

    @DRAWS
    @given(call=calls)
    def check(call):
        failures = Failures()
        compare(failures, row, call, backend, np.random.default_rng(0))
        if failures.count:
            failures.raise_any()

    check()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_random_convolutions(n, serial):
    drawn(f"conv{n}d", conv_calls(n), serial)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_random_transposed_convolutions(n, serial):
    drawn(f"conv_transpose{n}d", conv_transpose_calls(n), serial)


@pytest.mark.parametrize("kind", ["max_pool{}d", "max_pool{}d_with_indices", "avg_pool{}d"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_random_pools(kind, n, serial):
    drawn(kind.format(n), pool_calls(n, kind.startswith("avg")), serial)


@st.composite
def array_calls(draw, low=1, high=4, longest=9):
    shape = tuple(draw(st.integers(1, longest)) for _ in range(draw(st.integers(low, high))))
    return shape, np.random.default_rng(draw(st.integers(0, 2**32)))


@st.composite
def reduction_calls(draw):
    shape, rng = draw(array_calls())
    axes = draw(st.lists(st.sampled_from(range(len(shape))), unique=True, min_size=1))
    axes = tuple(a - len(shape) if draw(st.booleans()) else a for a in axes)
    values = rng.permutation(int(np.prod(shape))).reshape(shape) / 5
    return Call({"x": values}, {"axis": axes, "keepdims": draw(st.booleans())})


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "logsumexp"])
def test_random_reductions(name, serial):
    drawn(name, reduction_calls(), serial)


@st.composite
def matmul_calls(draw):
    batch, rng = draw(array_calls(0, 3, 3))
    m, k, n = (draw(st.integers(1, 40)) for _ in range(3))
    left = tuple(1 if draw(st.booleans()) else b for b in batch)
    right = tuple(b if a == 1 or draw(st.booleans()) else 1 for a, b in zip(left, batch, strict=True))
    right = right[draw(st.integers(0, len(right))) :]
    return Call({"lhs": rng.standard_normal((*left, m, k)), "rhs": rng.standard_normal((*right, k, n))})


def test_random_products(serial):
    drawn("matmul", matmul_calls(), serial)


@st.composite
def pair_calls(draw):
    shape, rng = draw(array_calls(0))
    left = tuple(1 if draw(st.integers(0, 3)) == 0 else n for n in shape)
    right = tuple(1 if draw(st.integers(0, 3)) == 0 else n for n in shape)[draw(st.integers(0, len(shape))) :]
    values = rng.permutation(int(np.prod(left) + np.prod(right))) / 3 + 0.6
    size = int(np.prod(left))
    return Call({"lhs": values[:size].reshape(left), "rhs": values[size:].reshape(right)})


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum"])
def test_random_pairs(name, serial):
    drawn(name, pair_calls(), serial)


@st.composite
def softmax_calls(draw):
    shape, rng = draw(array_calls())
    return Call({"x": 3 * rng.standard_normal(shape)}, {"axis": draw(st.integers(-len(shape), len(shape) - 1))})


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_random_softmax(name, serial):
    drawn(name, softmax_calls(), serial)


@st.composite
def group_calls(draw):
    groups, per_group = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    spatial, rng = draw(array_calls(1, 3, 8))
    channels = groups * per_group
    assume(per_group * int(np.prod(spatial)) > 1)
    args = {"x": rng.standard_normal((draw(st.integers(1, 3)), channels, *spatial)), "num_groups": groups}
    args["gamma"] = rng.standard_normal(channels) if draw(st.booleans()) else None
    args["beta"] = rng.standard_normal(channels) if draw(st.booleans()) else None
    return Call({**args, "epsilon": draw(st.sampled_from([1e-5, 0.1]))})


def test_random_group_norms(serial):
    drawn("group_norm", group_calls(), serial)


def test_taps_count_as_torch_does():
    """The oracle's output lengths are torch's."""
    for length in range(1, 12):
        for k, s, d, p in ((1, 1, 1, 0), (2, 3, 1, 1), (3, 2, 2, 2), (4, 1, 3, 4)):
            if length + 2 * p >= d * (k - 1) + 1:
                y = F.conv1d(torch.zeros(1, 1, length), torch.zeros(1, 1, k), None, s, p, d)
                assert Taps((length,), (k,), s, p, d).out == (y.shape[2],)
