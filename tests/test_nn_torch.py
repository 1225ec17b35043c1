"""Modules and whole networks against PyTorch: outputs, gradients of parameters and inputs, gradients of gradients."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from cpuops import autograd, nn  # noqa: E402
from cpuops.autograd import Var  # noqa: E402


@pytest.fixture(autouse=True)
def on_one_thread(serial):
    with autograd.using(serial):
        yield


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def array(tensor):
    return tensor.detach().numpy().copy()


def own_parameters(module):
    return [value for value in vars(module).values() if isinstance(value, nn.Parameter)]


def pairs_of(ours, theirs):
    """(our parameters, PyTorch's module) of every layer that has some."""
    mine = [own_parameters(m) for m in ours.modules() if own_parameters(m)]
    other = [m for m in theirs.modules() if list(m.parameters(recurse=False))]
    return list(zip(mine, other, strict=True))


def with_same_weights(ours, theirs):
    """Both in float64, PyTorch's weights in ours."""
    ours.astype(np.float64)
    theirs.double()
    for parameters, module in pairs_of(ours, theirs):
        for p, q in zip(parameters, turned(module, module.parameters(recurse=False)), strict=True):
            assert p.shape == q.shape
            p.array = np.ascontiguousarray(array(q))
    return ours, theirs


def turned(module, tensors):
    """Matrices of PyTorch's linear and recurrent layers are [d_out, d_in]."""
    flip = isinstance(module, torch.nn.Linear | torch.nn.LSTM | torch.nn.GRU)
    return [t.T if flip and t.ndim == 2 else t for t in tensors]


def check_parameter_gradients(ours, theirs, tolerance):
    checked = 0
    for parameters, module in pairs_of(ours, theirs):
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters(recurse=False)]
        for p, q in zip(parameters, turned(module, grads), strict=True):
            mine = np.zeros(p.shape) if p.grad is None else p.grad
            np.testing.assert_allclose(mine, array(q), rtol=tolerance, atol=tolerance)
            checked += 1
    return checked


def compare(ours, theirs, x):
    """The same weights in, the same outputs and gradients out."""
    with_same_weights(ours, theirs)
    v, t = Var(x), torch.tensor(x, requires_grad=True)
    y, z = (r[0] if isinstance(r, tuple) else r for r in (ours(v), theirs(t)))
    np.testing.assert_allclose(y.array, array(z), rtol=1e-9, atol=1e-9)
    g = normal(*y.shape, seed=9)
    y.backward(g)
    z.backward(torch.tensor(g))
    np.testing.assert_allclose(v.grad, array(t.grad), rtol=1e-9, atol=1e-9)
    return check_parameter_gradients(ours, theirs, 1e-9)


T = torch.nn
LAYERS = {
    "linear": (lambda: nn.Linear(5, 7), lambda: T.Linear(5, 7), (3, 4, 5)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), lambda: T.Conv1d(4, 6, 3, 2, 1, groups=2), (2, 4, 9)),
    "conv2d": (
        lambda: nn.Conv2d(3, 6, (3, 2), padding=(1, 2), dilation=(1, 2)), lambda: T.Conv2d(3, 6, (3, 2), 1, (1, 2), (1, 2)), (2, 3, 7, 8)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2, bias=False), lambda: T.Conv3d(2, 3, 2, bias=False), (2, 2, 3, 4, 5)),
    "conv_transpose1d": (
        lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, output_padding=1), lambda: T.ConvTranspose1d(4, 6, 3, 2, output_padding=1), (2, 4, 5)),
    "conv_transpose2d": (
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=(2, 1), padding=1, groups=2),
        lambda: T.ConvTranspose2d(4, 6, 3, (2, 1), 1, groups=2), (2, 4, 5, 6)),
    "conv_transpose3d": (lambda: nn.ConvTranspose3d(2, 3, 2, stride=2), lambda: T.ConvTranspose3d(2, 3, 2, 2), (1, 2, 3, 2, 3)),
    "batch_norm": (lambda: nn.BatchNorm(3), lambda: T.BatchNorm2d(3), (4, 3, 5, 2)),
    "layer_norm": (lambda: nn.LayerNorm(6), lambda: T.LayerNorm(6), (2, 3, 6)),
    "rms_norm": (lambda: nn.RMSNorm(6), lambda: T.RMSNorm(6, eps=1e-5), (2, 3, 6)),
    "group_norm": (lambda: nn.GroupNorm(2, 6), lambda: T.GroupNorm(2, 6), (2, 6, 5)),
    "instance_norm": (lambda: nn.InstanceNorm(3, affine=True), lambda: T.InstanceNorm1d(3, affine=True), (2, 3, 6)),
    "prelu": (lambda: nn.PReLU(3), lambda: T.PReLU(3), (2, 3, 4)),
    "prelu of one": (lambda: nn.PReLU(), lambda: T.PReLU(), (2, 3, 4)),
    "gelu": (lambda: nn.GELU(approximate="tanh"), lambda: T.GELU(approximate="tanh"), (2, 3, 4)),
    "max_pool2d": (lambda: nn.MaxPool2d(3, stride=2, padding=1), lambda: T.MaxPool2d(3, 2, 1), (2, 3, 7, 8)),
    "avg_pool1d": (lambda: nn.AvgPool1d(3, stride=2), lambda: T.AvgPool1d(3, 2), (2, 3, 7)),
    "adaptive_avg_pool2d": (lambda: nn.AdaptiveAvgPool2d(2), lambda: T.AdaptiveAvgPool2d(2), (2, 3, 7, 8)),
    "adaptive_max_pool3d": (lambda: nn.AdaptiveMaxPool3d(2), lambda: T.AdaptiveMaxPool3d(2), (2, 3, 4, 5, 3)),
    "lstm": (lambda: nn.LSTM(3, 5), lambda: T.LSTM(3, 5), (6, 2, 3)),
    "lstm, two layers both ways": (
        lambda: nn.LSTM(3, 5, layers=2, bidirectional=True, batch_first=True),
        lambda: T.LSTM(3, 5, 2, bidirectional=True, batch_first=True), (2, 6, 3)),
    "gru": (lambda: nn.GRU(3, 5), lambda: T.GRU(3, 5), (6, 2, 3)),
    "gru, two layers both ways": (
        lambda: nn.GRU(3, 5, layers=2, bidirectional=True), lambda: T.GRU(3, 5, 2, bidirectional=True), (6, 2, 3)),
    "lenet": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm(6), nn.Tanh(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(24, 10), nn.SiLU(), nn.Linear(10, 3), nn.LogSoftmax()),
        lambda: T.Sequential(
            T.Conv2d(1, 4, 5), T.ReLU(), T.MaxPool2d(2), T.Conv2d(4, 6, 3, bias=False), T.BatchNorm2d(6), T.Tanh(), T.AvgPool2d(2),
            T.Flatten(), T.Linear(24, 10), T.SiLU(), T.Linear(10, 3), T.LogSoftmax(-1)), (5, 1, 16, 16)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    torch.manual_seed(0)
    make, other, shape = LAYERS[name]
    ours, theirs = make(), other()
    assert compare(ours, theirs, normal(*shape)) == len(list(theirs.parameters()))


def test_state_of_recurrent_layers():
    torch.manual_seed(0)
    for ours, theirs in ((nn.LSTM(3, 4, layers=2), T.LSTM(3, 4, 2)), (nn.GRU(3, 4, layers=2), T.GRU(3, 4, 2))):
        with_same_weights(ours, theirs)
        x, h, c = normal(5, 2, 3), normal(2, 2, 4, seed=1), normal(2, 2, 4, seed=2)
        state = (h, c) if isinstance(ours, nn.LSTM) else h
        outputs, last = ours(x, state)
        want, want_last = theirs(torch.tensor(x), tuple(map(torch.tensor, state)) if isinstance(state, tuple) else torch.tensor(h))
        np.testing.assert_allclose(outputs.array, array(want), rtol=1e-10, atol=1e-12)
        for mine, other in zip(last, want_last, strict=True) if isinstance(state, tuple) else [(last, want_last)]:
            np.testing.assert_allclose(mine.array, array(other), rtol=1e-10, atol=1e-12)


def test_batch_norm_statistics():
    ours, theirs = nn.BatchNorm(3, dtype=np.float64), T.BatchNorm1d(3).double()
    for seed in range(3):
        x = normal(5, 3, seed=seed)
        ours(x), theirs(torch.tensor(x))
    np.testing.assert_allclose(ours.running_mean.array, array(theirs.running_mean))
    np.testing.assert_allclose(ours.running_variance.array, array(theirs.running_var))
    x = normal(5, 3, seed=7)
    np.testing.assert_allclose(ours.eval()(x).array, array(theirs.eval()(torch.tensor(x))))


def test_gradient_penalty():
    """Second order through a network: the gradient of ‖∂loss/∂x‖² to the parameters."""
    torch.manual_seed(0)
    make, other, shape = LAYERS["lenet"]
    ours, theirs = with_same_weights(make(), other())
    labels = np.array([0, 2, 1, 1, 0])
    x, t = Var(normal(*shape)), torch.tensor(normal(*shape), requires_grad=True)
    (g,) = autograd.grad(autograd.cross_entropy(ours(x), labels), x, create_graph=True)
    autograd.square(g).sum().backward()
    (h,) = torch.autograd.grad(T.functional.cross_entropy(theirs(t), torch.tensor(labels)), t, create_graph=True)
    h.square().sum().backward()
    np.testing.assert_allclose(g.array, array(h), rtol=1e-9, atol=1e-12)
    assert check_parameter_gradients(ours, theirs, 1e-8) == len(list(theirs.parameters()))


def test_gradient_penalty_of_recurrent_layers():
    torch.manual_seed(0)
    for ours, theirs in ((nn.LSTM(3, 4), T.LSTM(3, 4)), (nn.GRU(3, 4), T.GRU(3, 4))):
        with_same_weights(ours, theirs)
        data = normal(5, 2, 3)
        x, t = Var(data), torch.tensor(data, requires_grad=True)
        (g,) = autograd.grad(autograd.square(ours(x)[0]).sum(), x, create_graph=True)
        autograd.square(g).sum().backward()
        (h,) = torch.autograd.grad(theirs(t)[0].square().sum(), t, create_graph=True)
        h.square().sum().backward()
        np.testing.assert_allclose(x.grad, array(t.grad), rtol=1e-8, atol=1e-10)
        assert check_parameter_gradients(ours, theirs, 1e-8) == 4


def test_multi_head_attention():
    torch.manual_seed(0)
    ours, theirs = nn.MultiHeadAttention(12, 3), T.MultiheadAttention(12, 3, batch_first=True)
    ours.astype(np.float64)
    theirs.double()
    weights = [*theirs.in_proj_weight.chunk(3), theirs.out_proj.weight]
    biases = [*theirs.in_proj_bias.chunk(3), theirs.out_proj.bias]
    layers = [ours.query, ours.key, ours.value, ours.output]
    for layer, w, b in zip(layers, weights, biases, strict=True):
        layer.weight.array, layer.bias.array = np.ascontiguousarray(array(w).T), array(b)
    q, kv = normal(2, 4, 12), normal(2, 6, 12, seed=1)
    mask = np.arange(24).reshape(4, 6) % 5 == 0
    x, y = Var(q), Var(kv)
    s, t = (torch.tensor(a, requires_grad=True) for a in (q, kv))
    out = ours(x, y, mask=mask)
    want, _ = theirs(s, t, t, attn_mask=torch.tensor(mask))
    np.testing.assert_allclose(out.array, array(want), rtol=1e-10, atol=1e-12)
    g = normal(2, 4, 12, seed=3)
    out.backward(g)
    want.backward(torch.tensor(g))
    np.testing.assert_allclose(x.grad, array(s.grad), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(y.grad, array(t.grad), rtol=1e-9, atol=1e-12)
    grads = [*theirs.in_proj_weight.grad.chunk(3), theirs.out_proj.weight.grad]
    for layer, w in zip(layers, grads, strict=True):
        np.testing.assert_allclose(layer.weight.grad, array(w).T, rtol=1e-9, atol=1e-12)


def test_grouped_and_causal_attention():
    """Keys and values of two heads for four of queries, a causal order, a bias with a gradient; once and twice."""
    layer = nn.MultiHeadAttention(8, 4, kv_heads=2, is_causal=True, generator=0, dtype=np.float64)
    x, bias = Var(normal(2, 5, 8)), Var(normal(1, 4, 5, 5, seed=1))
    y = layer(x, attn_bias=bias)
    t, tb = torch.tensor(x.array, requires_grad=True), torch.tensor(bias.array, requires_grad=True)

    def project(part, heads):
        return (t @ torch.tensor(part.weight.array) + torch.tensor(part.bias.array)).reshape(2, 5, heads, 2).transpose(1, 2)

    hidden = torch.triu(torch.full((5, 5), -torch.inf, dtype=torch.float64), 1)
    attended = T.functional.scaled_dot_product_attention(
        project(layer.query, 4), project(layer.key, 2).repeat_interleave(2, 1), project(layer.value, 2).repeat_interleave(2, 1), tb + hidden
    )
    want = attended.transpose(1, 2).reshape(2, 5, 8) @ torch.tensor(layer.output.weight.array) + torch.tensor(layer.output.bias.array)
    np.testing.assert_allclose(y.array, array(want), rtol=1e-10, atol=1e-12)
    first = autograd.grad(autograd.square(y).sum(), [x, bias], create_graph=True)
    wanted = torch.autograd.grad(want.square().sum(), [t, tb], create_graph=True)
    for a, b in zip(first, wanted, strict=True):
        np.testing.assert_allclose(a.array, array(b), rtol=1e-9, atol=1e-12)
    second = autograd.grad(autograd.square(first[0]).sum() + autograd.square(first[1]).sum(), [x, bias])
    wanted = torch.autograd.grad(wanted[0].square().sum() + wanted[1].square().sum(), [t, tb])
    for a, b in zip(second, wanted, strict=True):
        np.testing.assert_allclose(a, array(b), rtol=1e-8, atol=1e-10)
