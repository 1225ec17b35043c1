"""Parity with PyTorch on PyTorch's own sample inputs (its OpInfo records), forward and gradients, in float64.

`ADAPTERS` has a line an operation: torch's name for it, and a function of torch's signature that says what to call here:
(method, operands by name as tensors, options), or None for a sample that is outside of this package's interface. Operands may be
made of the sample's tensors by differentiable functions (a batch axis, a transposition, ones for an absent weight): gradients are
taken back through them. Tolerances and the gradients' calls are those of the table's row.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch, whose sample inputs these tests run, is not installed")
pytest.importorskip("expecttest", reason="expecttest, which torch's sample inputs need, is not installed")

from support import Failures, all_differences, result_of, seeded  # noqa: E402
from table import ROWS, Call  # noqa: E402
from table.base import parts  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

MOST = 60  # samples of one operation, evenly chosen
RECORDS = {op.name: op for op in op_db if not op.variant_test_name}
F_ = "nn.functional."


# ---------------------------------------------------------------- adapters


def batched(x, axes):
    """torch lets the batch axis be absent."""
    return x[None] if x.ndim == axes - 1 else x


def single(value):
    """torch takes one entry for all axes."""
    return value[0] if isinstance(value, list | tuple) and len(value) == 1 else value


def conv(n):
    def adapt(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return f"conv{n}d", {"x": batched(x, n + 2), "weight": weight, "bias": bias}, options

    return adapt


def conv_transpose(n):
    def adapt(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        options = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation, "groups": groups}
        return f"conv_transpose{n}d", {"x": batched(x, n + 2), "weight": weight, "bias": bias}, options

    return adapt


def max_pool(n):
    def adapt(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        options = {"stride": stride or None, "padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
        method = f"max_pool{n}d_with_indices" if return_indices else f"max_pool{n}d"
        return method, {"x": batched(x, n + 2), "kernel_size": kernel_size}, options

    return adapt


def avg_pool(n):
    def adapt(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        if divisor_override is not None and divisor_override < 0:
            return None
        padding = padding if n == 1 else single(padding)
        options = {"stride": stride or None, "padding": padding, "ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
        if n > 1:
            options["divisor_override"] = divisor_override
        return f"avg_pool{n}d", {"x": batched(x, n + 2), "kernel_size": kernel_size}, options

    return adapt


def unary(method):
    """Options, where there are any, have torch's names."""

    def adapt(x, **options):
        return method, {"x": x}, {k: v for k, v in options.items() if k != "inplace"}

    return adapt


def pair(method):
    def adapt(lhs, rhs, **options):
        return (method, {"lhs": lhs, "rhs": rhs}, {}) if torch.is_tensor(rhs) and not options else None

    return adapt


def reduction(method):
    def adapt(x, dim=None, keepdim=False, dtype=None):
        axis = None if dim is None or dim == [] else tuple(dim) if isinstance(dim, list | tuple) else dim
        return (method, {"x": x}, {"axis": axis, "keepdims": keepdim}) if dtype is None and x.ndim else None

    return adapt


def along(method):
    def adapt(x, dim=-1, dtype=None):
        return (method, {"x": x}, {"axis": dim}) if dtype is None and x.ndim else None

    return adapt


def normalized(method):
    """layer_norm and rms_norm of several axes are those of one, the last, that holds them all."""

    def adapt(x, shape, weight=None, bias=None, eps=None):
        size = torch.Size(shape).numel()
        eps = eps if eps is not None else 1e-5 if method == "layer_norm" else torch.finfo(x.dtype).eps
        if not size or eps < 0:
            return None
        flat = {"x": x.reshape(*x.shape[: x.ndim - len(shape)], size)}
        flat["gamma"] = torch.ones(size, dtype=x.dtype) if weight is None else weight.reshape(size)
        if method == "layer_norm":
            flat["beta"] = None if bias is None else bias.reshape(size)
        return method, {**flat, "epsilon": eps}, {}

    return adapt


def group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    if not x.numel() or eps < 0:
        return None
    return "group_norm", {"x": x, "num_groups": groups, "gamma": weight, "beta": bias, "epsilon": eps}, {}


def unfold(x, kernel_size, dilation=1, padding=0, stride=1):
    options = {"dilation": dilation, "padding": padding, "stride": stride}
    return "unfold4d", {"x": batched(x, 4), "kernel_size": kernel_size}, options


def linear(x, weight, bias=None):
    return ("linear", {"x": x, "weight": weight.t(), "bias": bias}, {}) if weight.ndim == 2 else None


def mse_loss(x, target, reduction="mean"):
    return "mse_loss", {"input": x, "target": target}, {"reduction": reduction}


def glu(x, dim=-1):
    return "glu", {"x": x}, {"axis": dim}


def prelu(x, weight):
    return "prelu", {"x": x, "weight": weight}, {}


def hardtanh(x, min_val=-1, max_val=1):
    return "hardtanh", {"x": x}, {"min": min_val, "max": max_val}


SAME_NAME = "neg exp expm1 log log1p sqrt reciprocal abs square erf sigmoid tanh".split()
ADAPTERS = {
    **{name: unary(name) for name in SAME_NAME},
    **{F_ + name: unary(name) for name in ("relu", "relu6", "leaky_relu", "selu", "mish", "silu", "softsign", "tanhshrink")},
    **{name: pair(name) for name in ("sub", "mul", "maximum", "minimum")},
    **{name: reduction("reduce_" + ours) for name, ours in (("sum", "sum"), ("mean", "mean"), ("amax", "max"), ("amin", "min"))},
    "add": pair("add"),
    "matmul": pair("matmul"),
    "logsumexp": reduction("logsumexp"),
    "softmax": along("softmax"),
    "log_softmax": along("log_softmax"),
    F_ + "elu": unary("elu"),
    F_ + "logsigmoid": unary("log_sigmoid"),
    F_ + "hardswish": unary("hard_swish"),
    F_ + "hardtanh": hardtanh,
    F_ + "glu": glu,
    F_ + "prelu": prelu,
    F_ + "linear": linear,
    F_ + "mse_loss": mse_loss,
    F_ + "layer_norm": normalized("layer_norm"),
    F_ + "rms_norm": normalized("rms_norm"),
    F_ + "group_norm": group_norm,
    **{F_ + f"conv{n}d": conv(n) for n in (1, 2, 3)},
    F_ + "unfold": unfold,
    **{F_ + f"conv_transpose{n}d": conv_transpose(n) for n in (1, 2, 3)},
    **{F_ + f"max_pool{n}d": max_pool(n) for n in (1, 2, 3)},
    **{F_ + f"avg_pool{n}d": avg_pool(n) for n in (1, 2, 3)},
}
# torch rounds a constant of these gradients to float32, even for float64
COARSE_GRADIENTS = {"hard_swish", "selu"}


# ---------------------------------------------------------------- the harness


def numbers(value):
    """An operand as the package takes it."""
    return value.detach().numpy() if torch.is_tensor(value) else value


def samples(name):
    found = list(RECORDS[name].sample_inputs("cpu", torch.float64, requires_grad=True))
    return found[:: -(-len(found) // MOST)]


def compare(failures, name, sample, backend, rng):
    """One sample; False when the adapter refuses it."""
    given = (sample.input, *sample.args)
    adapted = ADAPTERS[name](*given, **sample.kwargs)
    if adapted is None:
        return False
    method, operands, options = adapted
    row = ROWS[method]
    theirs = parts(RECORDS[name](*given, **sample.kwargs))
    call = Call({k: numbers(v) for k, v in operands.items()}, options)
    what = f"{method}{call} ({name})"
    ours = result_of(failures, what, lambda: parts(call.on(backend, method)))
    if ours is None:
        return True
    rtol = 10 * row.rtol["float64"]  # torch itself errs by a few units
    wanted = [t.detach().numpy().reshape(o.shape) for t, o in zip(theirs, ours, strict=True)]
    message = all_differences(ours, wanted, row.scale(call, wanted), rtol, "float64", row.exact)
    failures.check(message is None, f"{what}: {message}")
    leaves = [t for t in (*given, *sample.kwargs.values()) if torch.is_tensor(t) and t.requires_grad]
    if message or not leaves or not row.differentiable or not theirs[0].requires_grad:
        return True
    output_grad = rng.standard_normal(ours[0].shape)
    their_grads = torch.autograd.grad(theirs[0], leaves, torch.from_numpy(output_grad).reshape(theirs[0].shape), allow_unused=True)
    for gradient, gcall in row.gradient_calls(call, ours, output_grad):
        found = result_of(failures, gradient.name, lambda g=gradient, c=gcall: parts(c.on(backend, g.name)))
        if found is None:
            continue
        scales = gradient.scale(gcall, gradient.wanted(gcall))
        coarse = 1e-7 if method in COARSE_GRADIENTS else rtol
        grads = dict(zip(gradient.gives, zip(found, scales, strict=True), strict=True))
        compare_gradients(failures, f"{gradient.name}, {what}", operands, grads, leaves, their_grads, coarse)
    return True


def compare_gradients(failures, what, operands, grads, leaves, their_grads, rtol):
    """Take the gradients of the operands, and their scales, back to the sample's own tensors, and compare there."""
    made = [k for k, (grad, _) in grads.items() if grad is not None and torch.is_tensor(operands.get(k)) and operands[k].requires_grad]
    for leaf, theirs in zip(leaves, their_grads, strict=True):
        back = []
        for which in (0, 1):
            sent = [torch.from_numpy(np.broadcast_to(grads[k][which], operands[k].shape).copy()) for k in made]
            sums = torch.autograd.grad([operands[k] for k in made], leaf, sent, allow_unused=True, retain_graph=True) if made else [None]
            back.append(sums[0])
        if back[0] is None:
            continue  # another gradient method is that tensor's
        want = np.zeros(leaf.shape) if theirs is None else theirs.numpy()
        message = all_differences(back[0].numpy(), [want], [np.abs(back[1].numpy())], rtol, "float64")
        failures.check(message is None, f"{what}: {message}")


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("name", ADAPTERS)
def test_sample_inputs(name, serial):
    failures = Failures()
    rng = seeded("opinfo", name)
    seen = [compare(failures, name, sample, serial, rng) for sample in samples(name)]
    failures.raise_any()
    assert any(seen), "the adapter refuses every sample"


def test_every_adapter_has_its_record():
    assert set(ADAPTERS) <= set(RECORDS), sorted(set(ADAPTERS) - set(RECORDS))
