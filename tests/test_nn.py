"""Modules: names, state, modes, layers by hand; tests/test_nn_torch.py compares them with PyTorch."""

import copy

import numpy as np
import pytest

import cpuops
from cpuops import autograd, nn
from cpuops.autograd import Var
from cpuops.errors import ArgumentError, DTypeError, KernelError, ShapeError


@pytest.fixture(autouse=True)
def on_one_thread(serial):
    with autograd.using(serial):
        yield


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


class Net(nn.Module):
    def __init__(self):
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, generator=0), nn.BatchNorm(4), nn.ReLU())
        self.head = nn.Linear(4, 3, generator=1)
        self.scale = nn.Parameter(np.ones(1, np.float32))
        self.tied = self.head
        self.note = "no parameter"

    def forward(self, x):
        return self.head(autograd.reduce_mean(self.stem(x), axis=(2, 3))) * self.scale


NAMES = ["scale", "stem.0.weight", "stem.0.bias", "stem.1.gamma", "stem.1.beta", "head.weight", "head.bias"]
BUFFERS = ["stem.1.running_mean", "stem.1.running_variance", "stem.1.batches"]


def test_names():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == NAMES
    assert [n for n, _ in net.named_buffers()] == BUFFERS
    assert [n for n, _ in net.named_modules()] == ["", "stem", "stem.0", "stem.1", "stem.2", "head"]
    assert len(list(net.parameters())) == 7 and net.num_parameters() == 1 + 36 + 4 + 8 + 12 + 3
    assert list(net.state_dict()) == NAMES + BUFFERS
    assert "Conv2d(1, 4, kernel_size=(3, 3), padding=1)" in repr(net) and "\n" in repr(net)


def test_state():
    a, b = Net(), Net()
    for p in a.parameters():
        p.array[...] = normal(*p.shape, seed=3)
    a(normal(2, 1, 5, 5))
    b.load_state_dict(a.state_dict())
    for (n, x), (m, y) in zip(a.state_dict().items(), b.state_dict().items(), strict=True):
        assert n == m and np.array_equal(x, y) and not np.shares_memory(x, y)
    state = dict(a.state_dict())
    for change, error, name in (
        (lambda s: s.pop("scale"), ArgumentError, "scale"),
        (lambda s: s.update(other=np.ones(1)), ArgumentError, "other"),
        (lambda s: s.update(scale=np.ones(2, np.float32)), ShapeError, "scale"),
        (lambda s: s.update(scale=np.ones(1)), DTypeError, "scale"),
        (lambda s: s.update(scale=[1.0]), DTypeError, "scale"),
    ):
        bad = {**state, "head.bias": np.full(3, 9.0, np.float32)}
        change(bad)
        with pytest.raises(error, match=f"load_state_dict.*{name}"):
            b.load_state_dict(bad)
        assert not (b.head.bias.array == 9).any(), "a refused state was loaded in part"
    b.load_state_dict({"scale": np.full(1, 4.0, np.float32)}, strict=False)
    assert b.scale.array[0] == 4


def test_modes_and_freezing():
    net = Net()
    assert all(m.training for m in net.modules())
    assert net.eval() is net and not any(m.training for m in net.modules())
    net.train()
    net(normal(2, 1, 5, 5)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.stem.freeze()
    net(normal(2, 1, 5, 5)).sum().backward()
    assert [n for n, p in net.named_parameters() if p.grad is not None] == ["scale", "head.weight", "head.bias"]
    assert list(net.state_dict()) == NAMES + BUFFERS
    net.stem[0].weight.unfreeze()
    assert net.stem[0].weight.requires_grad
    wide = net.astype(np.float64)
    assert wide is net and all(p.dtype == np.float64 for p in net.parameters()) and net.stem[1].batches.array.dtype == np.int64
    assert net(normal(2, 1, 5, 5, dtype=np.float64)).dtype == np.float64


def test_a_copied_module_is_its_own():
    net = Net()
    other = copy.deepcopy(net)
    assert other.tied is other.head and not {p.id for p in net.parameters()} & {p.id for p in other.parameters()}
    x = normal(2, 1, 5, 5)
    (net(x) + other(x)).sum().backward()
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        assert np.array_equal(p.grad, q.grad) and not np.shares_memory(p.array, q.array)


def test_summary():
    net = Net()
    before = {n: a.copy() for n, a in net.state_dict().items()}
    text = net.summary(normal(2, 1, 5, 5))
    lines = text.splitlines()
    assert [w in lines[0] for w in ("name", "kind", "result", "parameters")] == [True] * 4
    assert any("Conv2d" in line and "[2, 4, 5, 5]" in line and line.endswith("40") for line in lines)
    assert lines[-1] == "64 parameters, 64 trained, 256 bytes"
    assert all(np.array_equal(a, before[n]) for n, a in net.state_dict().items()) and net.training
    assert "forward" not in vars(net.head) and "Linear" in net.summary()


def test_an_undefined_forward_is_said():
    with pytest.raises(NotImplementedError, match="forward"):
        nn.Module()(1)


# ---------------------------------------------------------------- layers


def same_as_two_modules(one, two, activation, x):
    """`one` has the bits of `two` and the activation after it, forwards and in its gradients, and its parameters."""
    after = nn.GELU(approximate="tanh") if activation == "gelu_tanh" else {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}[activation]()
    assert list(one.state_dict()) == list(two.state_dict()) and activation in repr(one)
    a, b = one(x), after(two(x))
    assert a.array.tobytes() == b.array.tobytes()
    a.backward(np.ones_like(a.array))
    b.backward(np.ones_like(b.array))
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        assert p.grad.tobytes() == q.grad.tobytes()


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_linear_and_activation_in_one_module(activation):
    x = np.random.default_rng(0).standard_normal((3, 40, 70)).astype(np.float32)
    one, two = nn.LinearActivation(70, 33, activation, generator=1), nn.Linear(70, 33, generator=1)
    same_as_two_modules(one, two, activation, x)
    with pytest.raises(cpuops.ArgumentError, match=r"LinearActivation.*activation"):
        nn.LinearActivation(3, 4, "gelo")


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("activation", ["relu", "gelu_tanh", "silu"])
def test_convolution_and_activation_in_one_module(n, activation):
    x = np.random.default_rng(n).standard_normal((2, 6, *(7, 8, 9)[:n])).astype(np.float32)
    options = {"stride": 2, "padding": 1, "groups": 2, "generator": 1}
    one, two = getattr(nn, f"Conv{n}dActivation")(6, 8, 3, activation, **options), getattr(nn, f"Conv{n}d")(6, 8, 3, **options)
    same_as_two_modules(one, two, activation, x)
    with pytest.raises(cpuops.ArgumentError, match=rf"Conv{n}dActivation.*activation"):
        getattr(nn, f"Conv{n}dActivation")(3, 4, 3, "gelo")


def test_initial_values_come_from_the_generator():
    a, b, c = nn.Linear(5, 4, generator=7), nn.Linear(5, 4, generator=7), nn.Linear(5, 4, generator=8)
    assert np.array_equal(a.weight.array, b.weight.array) and not np.array_equal(a.weight.array, c.weight.array)
    assert not np.array_equal(nn.Linear(5, 4).weight.array, nn.Linear(5, 4).weight.array)
    random = np.random.default_rng(7)
    assert not np.array_equal(nn.Linear(5, 4, generator=random).weight.array, nn.Linear(5, 4, generator=random).weight.array)
    assert np.abs(a.weight.array).max() <= 5**-0.5 and nn.Linear(5, 4, dtype=np.float64).weight.dtype == np.float64


def test_initialisers():
    random = np.random.default_rng(0)
    shape = (400, 300)
    for made, variance in (
        (nn.init.glorot_uniform(random, shape, np.float64, *nn.init.fans(shape)), 2 / 700),
        (nn.init.glorot_normal(random, shape, np.float64, *nn.init.fans(shape)), 2 / 700),
        (nn.init.he_uniform(random, shape, np.float64, 400), 2 / 400),
        (nn.init.he_normal(random, shape, np.float64, 400), 2 / 400),
        (nn.init.lecun_uniform(random, shape, np.float64, 400), 1 / 400),
        (nn.init.lecun_normal(random, shape, np.float64, 400), 1 / 400),
        (nn.init.normal(random, shape, np.float64, 0.3), 0.09),
        (nn.init.uniform(random, shape, np.float64, 0.3), 0.03),
    ):
        assert abs(made.var() / variance - 1) < 0.03 and abs(made.mean()) < 4 * (variance / made.size) ** 0.5
    cut = nn.init.truncated_normal(random, shape, np.float32, 0.5, 1.5)
    assert np.abs(cut).max() <= 0.75 and cut.dtype == np.float32 and cut.std() > 0.3
    q = nn.init.orthogonal(random, (6, 2, 2), np.float64, 2.0).reshape(6, 4)
    np.testing.assert_allclose(q.T @ q, 4 * np.eye(4), atol=1e-12)
    r = nn.init.orthogonal(random, (3, 5), np.float64)
    np.testing.assert_allclose(r @ r.T, np.eye(3), atol=1e-12)
    assert nn.init.fans((8, 3, 5, 5), "conv") == (75, 200) and nn.init.fans((3, 8, 5), "conv_transpose") == (15, 40)
    assert nn.init.fans((8, 1, 3), "conv", 8) == (3, 3)
    with pytest.raises(ArgumentError, match="kind"):
        nn.init.fans((3, 4), "conv")
    with pytest.raises(ArgumentError, match="shape"):
        nn.init.orthogonal(random, (3,), np.float32)


def test_batch_norm_statistics():
    x = normal(6, 3, 4) * 2 + 1
    layer = nn.BatchNorm(3, momentum=0.25)
    layer(x)
    np.testing.assert_allclose(layer.running_mean.array, 0.25 * x.mean((0, 2)), rtol=1e-5)
    np.testing.assert_allclose(layer.running_variance.array, 0.75 + 0.25 * x.var((0, 2), ddof=1), rtol=1e-5)
    average = nn.BatchNorm(3, momentum=None)
    for i in range(3):
        average(normal(6, 3, 4, seed=i))
    np.testing.assert_allclose(average.running_mean.array, np.mean([normal(6, 3, 4, seed=i).mean((0, 2)) for i in range(3)], 0), atol=1e-6)
    assert int(average.batches.array) == 3
    layer.eval()
    before = layer.running_mean.array.copy()
    layer(x)
    assert np.array_equal(before, layer.running_mean.array)
    layer.train()
    layer(np.zeros((0, 3, 4), np.float32))
    assert np.array_equal(before, layer.running_mean.array) and np.isfinite(layer.running_variance.array).all()


def test_batch_norm_counts_a_checkpoint_once():
    layer, x = nn.BatchNorm(3), Var(normal(6, 3, 4))
    autograd.checkpoint(layer, x).sum().backward()
    assert int(layer.batches.array) == 1 and layer.gamma.grad is not None


def test_dropout():
    x = np.ones((200, 300), np.float32)
    a, b, c = nn.Dropout(0.3, seed=5), nn.Dropout(0.3, seed=5), nn.Dropout(0.3, seed=6)
    y = a(x).array
    assert abs((y == 0).mean() - 0.3) < 0.01 and np.allclose(y[y != 0], 1 / 0.7) and y.dtype == np.float32
    with autograd.using(cpuops.ThreadedCpuBackend(3)):
        assert np.array_equal(y, b(x).array), "other bits on other threads"
    assert not np.array_equal(y, c(x).array)
    second = a(x).array
    assert not np.array_equal(y, second)
    b.load_state_dict({"calls": np.array([5, 1])})
    assert np.array_equal(second, b(x).array), "a training that is resumed does not go on as it would have"
    assert np.array_equal(a.eval()(x).array, x) and (nn.Dropout(1.0)(x).array == 0).all() and np.array_equal(nn.Dropout(0.0)(x).array, x)
    whole = nn.Dropout(0.5, axes=(2, -1), seed=1)(np.ones((4, 5, 3, 3), np.float32)).array
    assert (whole.reshape(20, 9).std(1) == 0).all() and whole.std() > 0
    v = Var(x)
    z = nn.Dropout(0.3, seed=5)(v)
    z.backward(x)
    assert np.array_equal(v.grad, z.array)
    layer, v = nn.Dropout(0.3, seed=5), Var(x)
    y = autograd.checkpoint(layer, v)
    y.backward(x)
    assert np.array_equal(v.grad, y.array) and layer.state == 1
    for p in (-0.1, 1.1, None, "0.5", float("nan")):
        with pytest.raises(ArgumentError, match=r"Dropout.*p"):
            nn.Dropout(p)


def test_embedding():
    layer = nn.Embedding(7, 3, padding_idx=2, generator=0)
    assert (layer.weight.array[2] == 0).all()
    ids = np.array([[1, 2], [2, 6]])
    y = layer(ids)
    assert np.array_equal(y.array, layer.weight.array[ids])
    y.sum().backward()
    assert (layer.weight.grad[[1, 6]] == 1).all() and (layer.weight.grad[[0, 2, 3, 4, 5]] == 0).all()
    with pytest.raises(IndexError, match=r"embedding.*indices"):
        layer(np.array([7]))
    with pytest.raises(ArgumentError, match="padding_idx"):
        nn.Embedding(7, 3, padding_idx=7)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_recurrent_sequences(kind):
    """The loops and their gradients against the same on the tape step by step; second derivatives go that way."""
    from cpuops.nn import _recurrence

    node = {"lstm": _recurrence.LstmBackward, "gru": _recurrence.GruBackward}[kind]

    def run(*operands):
        if kind == "gru":
            return _recurrence.gru_sequence(*operands)
        h, c = _recurrence.lstm_sequence(*operands)
        return autograd.concat([h, autograd.expand_dims(c, 0)])

    for length, batch, n in ((1, 1, 1), (4, 3, 5), (3, 2, 17)):
        gates = 4 if kind == "lstm" else 3
        shapes = {"projected": (length, batch, gates * n), "h0": (batch, n), "c0": (batch, n), "w_hh": (n, gates * n), "b_hh": (gates * n,)}
        arrays = [normal(*shapes[name], seed=i, dtype=np.float64) for i, name in enumerate(node.operands)]
        ours, theirs = [Var(a) for a in arrays], [Var(a) for a in arrays]
        y, z = run(*ours), node.steps(*theirs)
        np.testing.assert_allclose(y.array, z.array, rtol=1e-12, atol=1e-14)
        g = normal(*y.shape, seed=9, dtype=np.float64)
        first = [autograd.grad(v, operands, g, True) for v, operands in ((y, ours), (z, theirs))]
        for a, b in zip(*first, strict=True):
            np.testing.assert_allclose(a.array, b.array, rtol=1e-10, atol=1e-13)
            second = [autograd.grad(autograd.square(v).sum(), o, retain_graph=True) for v, o in ((a, ours[0]), (b, theirs[0]))]
            np.testing.assert_allclose(*second, rtol=1e-9, atol=1e-12)
        alone = Var(arrays[0])
        run(alone, *arrays[1:]).backward(g)
        np.testing.assert_allclose(alone.grad, first[1][0].array, rtol=1e-10, atol=1e-13)


def test_results_of_a_recurrent_sequence():
    """One operation with two results: either may be all that is used, once and twice differentiated."""
    from cpuops.nn import _recurrence

    arrays = [normal(*shape, seed=i, dtype=np.float64) for i, shape in enumerate(((4, 3, 20), (3, 5), (3, 5), (5, 20)))]
    weights = normal(5, 3, 5, seed=9, dtype=np.float64)
    for h_used, c_used in ((True, True), (True, False), (False, True)):
        ours, theirs = [Var(a) for a in arrays], [Var(a) for a in arrays]
        h, c = _recurrence.lstm_sequence(*ours)
        steps = _recurrence.LstmBackward.steps(*theirs)
        losses = []
        for these, last in ((h, c), (steps[:-1], steps[-1])):
            used = [(these * weights[:-1]).sum()] * h_used + [(autograd.square(last) * weights[-1]).sum()] * c_used
            losses.append(used[0] if len(used) == 1 else used[0] + used[1])
        assert h.grad_fn.op == "lstm_sequence" and h.grad_fn.inputs() == tuple(v.id for v in ours) and c.grad_fn.input_grad_fns() == (h.grad_fn,)
        for graph in (False, True):
            first = [autograd.grad(loss, o, create_graph=graph, retain_graph=True) for loss, o in zip(losses, (ours, theirs), strict=True)]
            for a, b in zip(*first, strict=True):
                np.testing.assert_allclose(*((v.array if graph else v) for v in (a, b)), rtol=1e-10, atol=1e-13)
        second = [autograd.grad(autograd.square(v[1]).sum(), o) for v, o in zip(first, (ours, theirs), strict=True)]
        for a, b in zip(*second, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: nn.Linear(0, 3), "Linear.*d_in"),
        (lambda: nn.Linear(3, 3, generator=-1), "generator"),
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "Conv2d.*channels_in"),
        (lambda: nn.Conv1d(3, 4, (3, 3)), "Conv1d.*kernel_size"),
        (lambda: nn.Conv3d(3, 4, 0), "Conv3d.*kernel_size"),
        (lambda: nn.MaxPool2d(0), "MaxPool2d.*kernel_size"),
        (lambda: nn.BatchNorm(3, momentum=1.5), "BatchNorm.*momentum"),
        (lambda: nn.LayerNorm(3, epsilon=-1.0), "LayerNorm.*epsilon"),
        (lambda: nn.MultiHeadAttention(10, 3), "MultiHeadAttention.*features"),
        (lambda: nn.MultiHeadAttention(12, 3, kv_heads=2), "MultiHeadAttention.*heads"),
        (lambda: nn.ReLU(slope=1), "ReLU.*slope"),
        (lambda: nn.Sequential(3), "Sequential.*modules"),
        (lambda: nn.LSTM(3, 4)(normal(5, 2, 4)), "LSTM.*x"),
        (lambda: nn.LSTM(3, 4)(normal(5, 2, 3), normal(1, 2, 4)), "LSTM.*state"),
        (lambda: nn.GRU(3, 4)(normal(5, 2, 3), normal(2, 2, 4)), "GRU.*state"),
        (lambda: nn.GRU(3, 4, layers=0), "GRU.*layers"),
    ],
)
def test_refusals(make, name):
    with pytest.raises(KernelError, match=name):
        make()


def test_containers():
    layers = nn.ModuleList(nn.ReLU(), nn.Tanh())
    layers.append(nn.Linear(3, 2))
    assert len(layers) == 3 and [type(m).__name__ for m in layers] == ["ReLU", "Tanh", "Linear"]
    assert isinstance(layers[1:], nn.ModuleList) and len(layers[1:]) == 2 and list(layers.state_dict()) == ["2.weight", "2.bias"]
    seq = nn.Sequential(*layers)
    assert isinstance(seq[:2], nn.Sequential) and seq(normal(4, 3)).shape == (4, 2)
