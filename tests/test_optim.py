"""Optimizers, clipping and schedules: against their formulas in float64 NumPy, and step for step against PyTorch's."""

import math

import numpy as np
import pytest

import cpuops
from cpuops import optim
from cpuops.autograd import Var
from cpuops.errors import ArgumentError, DTypeError, ShapeError

# five steps, each some roundings; a parameter is of the order of 1
TOLERANCE = {"float32": {"rtol": 2e-5, "atol": 2e-6}, "float64": {"rtol": 1e-12, "atol": 1e-13}}
SIZES = [0, 1, 7, 17, 1000, 40_000]  # the last is several blocks


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def given(rng, dtype, sizes=SIZES):
    """Parameters, and gradients of five steps."""
    parameters = [rng.standard_normal(n).astype(dtype) for n in sizes]
    return parameters, [[rng.standard_normal(n).astype(dtype) for n in sizes] for _ in range(5)]


def trained(make, parameters, gradients, scales=None):
    """The parameters after a step along each of the gradients."""
    variables = [Var(p.copy()) for p in parameters]
    optimizer = make(variables)
    for t, step in enumerate(gradients):
        for v, g in zip(variables, step, strict=True):
            v.grad = g.copy()
        optimizer.step(1.0 if scales is None else scales[t])
    return [v.array for v in variables], optimizer


# ---------------------------------------------------------------- formulas, one parameter, in float64


def sgd(p, gradients, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    v = None
    for g in gradients:
        g = g + weight_decay * p
        v = g if v is None else momentum * v + (1 - dampening) * g
        p = p - lr * (g + momentum * v if nesterov else v if momentum else g)
    return p


def adam(p, gradients, lr=1e-3, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=0.0, amsgrad=False, decoupled=False):
    m = v = most = np.zeros_like(p)
    for t, g in enumerate(gradients, 1):
        p, g = (p * (1 - lr * weight_decay), g) if decoupled else (p, g + weight_decay * p)
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        most = np.maximum(most, v) if amsgrad else v
        p = p - lr * m / (1 - betas[0] ** t) / (np.sqrt(most / (1 - betas[1] ** t)) + epsilon)
    return p


def rmsprop(p, gradients, lr=1e-2, alpha=0.99, epsilon=1e-8, weight_decay=0.0, momentum=0.0, centered=False):
    square = mean = v = np.zeros_like(p)
    for g in gradients:
        g = g + weight_decay * p
        square, mean = alpha * square + (1 - alpha) * g * g, alpha * mean + (1 - alpha) * g
        v = momentum * v + g / (np.sqrt(square - mean * mean if centered else square) + epsilon)
        p = p - lr * v
    return p


OPTIMIZERS = [
    (optim.SGD, sgd, {"lr": 0.1}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.02}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (optim.Adam, adam, {"lr": 0.01}),
    (optim.Adam, adam, {"lr": 0.1, "betas": (0.7, 0.9), "epsilon": 1e-3, "weight_decay": 0.3, "amsgrad": True}),
    (optim.AdamW, lambda *a, **k: adam(*a, **k, decoupled=True), {"lr": 0.1, "weight_decay": 0.3}),
    (optim.AdamW, lambda *a, **k: adam(*a, **k, decoupled=True), {"lr": 0.1, "weight_decay": 0.2, "betas": (0.5, 0.6), "amsgrad": True}),
    (optim.RMSprop, rmsprop, {"lr": 0.02}),
    (optim.RMSprop, rmsprop, {"lr": 0.02, "alpha": 0.8, "epsilon": 1e-3, "weight_decay": 0.1, "momentum": 0.7, "centered": True}),
]


def name(value):
    return value.__name__ if callable(value) else ",".join(value)


@pytest.mark.parametrize(("cls", "formula", "options"), OPTIMIZERS, ids=name)
def test_steps(cls, formula, options, dtype, rng):
    parameters, gradients = given(rng, dtype)
    got, _ = trained(lambda v: cls(v, **options), parameters, gradients)
    for i, (p, after) in enumerate(zip(parameters, got, strict=True)):
        want = formula(p.astype(float), [step[i].astype(float) for step in gradients], **options)
        assert after.dtype == dtype
        np.testing.assert_allclose(after, want, **TOLERANCE[np.dtype(dtype).name])


@pytest.mark.parametrize(("cls", "formula", "options"), OPTIMIZERS, ids=name)
def test_threads_give_the_same_bits(cls, formula, options, rng, eager):
    del formula
    parameters, gradients = given(rng, np.float32)
    one, _ = trained(lambda v: cls(v, **options, backend=cpuops.CpuBackend()), parameters, gradients)
    many, _ = trained(lambda v: cls(v, **options, backend=eager), parameters, gradients)
    for a, b in zip(one, many, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(("cls", "formula", "options"), OPTIMIZERS, ids=name)
def test_a_loaded_state_goes_on_with_the_same_bits(cls, formula, options, rng):
    del formula
    parameters, gradients = given(rng, np.float32, [5, 300])
    whole, _ = trained(lambda v: cls(v, **options), parameters, gradients)
    half, optimizer = trained(lambda v: cls(v, **options), parameters, gradients[:2])
    state = {k: v.copy() for k, v in optimizer.state_dict().items()}

    def resumed(variables):
        new = cls(variables, **options)
        new.load_state_dict(state)
        return new

    rest, _ = trained(resumed, half, gradients[2:])
    for a, b in zip(whole, rest, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(("cls", "formula", "options"), OPTIMIZERS, ids=name)
def test_steps_are_torchs(cls, formula, options, dtype, rng):
    torch = pytest.importorskip("torch")
    del formula
    parameters, gradients = given(rng, dtype)
    got, _ = trained(lambda v: cls(v, **options), parameters, gradients)
    theirs = [torch.nn.Parameter(torch.from_numpy(p.copy())) for p in parameters]
    other = getattr(torch.optim, cls.__name__)(theirs, **{"eps" if k == "epsilon" else k: v for k, v in options.items()})
    for step in gradients:
        for p, g in zip(theirs, step, strict=True):
            p.grad = torch.from_numpy(g.copy())
        other.step()
    for p, after in zip(theirs, got, strict=True):
        want = p.detach().numpy()
        np.testing.assert_allclose(after, want, **TOLERANCE[np.dtype(dtype).name])


def test_groups_and_scale(rng):
    p, q = rng.standard_normal((2, 50))
    a, b = Var(p.copy()), Var(q.copy())
    optimizer = optim.SGD([{"parameters": [a], "lr": 0.5}, {"parameters": [b]}], lr=0.1)
    a.grad, b.grad = np.ones(50), np.ones(50)
    optimizer.step(0.5)
    np.testing.assert_allclose(a.array, p - 0.25, rtol=1e-14)
    np.testing.assert_allclose(b.array, q - 0.05, rtol=1e-14)
    optimizer.groups[1]["lr"] = 0.0
    optimizer.step()
    np.testing.assert_allclose(b.array, q - 0.05, rtol=1e-14)
    optimizer.zero_grad()
    assert a.grad is None and b.grad is None
    before = a.array.copy()
    optimizer.step()  # nothing has a gradient
    assert np.array_equal(a.array, before)


def test_nan_gradients_show(rng):
    v = Var(rng.standard_normal(40))
    v.grad = np.where(np.arange(40) == 33, np.nan, 0.0)
    optim.Adam([v]).step()
    assert np.isnan(v.array[33]) and np.isfinite(np.delete(v.array, 33)).all()


BAD = [
    (optim.SGD, {"lr": -1.0}, "lr"),
    (optim.SGD, {"lr": "fast"}, "lr"),
    (optim.SGD, {"lr": math.nan}, "lr"),
    (optim.SGD, {"lr": 0.1, "momentum": -0.1}, "momentum"),
    (optim.SGD, {"lr": 0.1, "nesterov": True}, "nesterov"),
    (optim.SGD, {"lr": 0.1, "nesterov": True, "momentum": 0.9, "dampening": 0.1}, "nesterov"),
    (optim.Adam, {"betas": (0.9, 1.0)}, "betas"),
    (optim.Adam, {"betas": 0.9}, "betas"),
    (optim.AdamW, {"epsilon": -1e-8}, "epsilon"),
    (optim.AdamW, {"amsgrad": 1}, "amsgrad"),
    (optim.RMSprop, {"alpha": 1.0}, "alpha"),
    (optim.RMSprop, {"centered": "yes"}, "centered"),
]


@pytest.mark.parametrize(("cls", "options", "argument"), BAD, ids=lambda v: v.__name__ if callable(v) else str(v))
def test_wrong_options(cls, options, argument):
    with pytest.raises(cpuops.errors.ArgumentError, match=rf"^{cls.__name__}: {argument}"):
        cls([Var(np.zeros(3))], **options)


def test_wrong_parameters():
    v = Var(np.zeros(3))
    for parameters in ([], [np.zeros(3)], [v, v], [v + v], [{"parameters": [v], "speed": 1.0}], [Var(np.zeros((3, 3)).T[1:])]):
        with pytest.raises(cpuops.errors.ArgumentError, match=r"^SGD: parameters"):
            optim.SGD(parameters, lr=0.1)


def test_one_call_takes_all_parameters_alike(rng):
    """Of one dtype and as many steps old; a parameter whose first gradient comes late is corrected by its own count."""
    called = []

    class Counting(cpuops.CpuBackend):
        def _run(self, name, dtype, cost_ns, *args):
            called.append((name, dtype.name, len(args[0])))
            return super()._run(name, dtype, cost_ns, *args)

    variables = [Var(rng.standard_normal(n).astype(t)) for n, t in ((3, "f4"), (5, "f8"), (40_000, "f4"), (7, "f4"))]
    starts, late = [v.array.astype(float) for v in variables], variables[3]
    optimizer = optim.Adam(variables, backend=Counting())
    gradients = [[rng.standard_normal(v.size).astype(v.dtype) for v in variables] for _ in range(3)]
    for t, step in enumerate(gradients):
        for v, g in zip(variables, step, strict=True):
            v.grad = g if v is not late or t else None
        optimizer.step()
    first, then = [("optim.adam", "float32", 2), ("optim.adam", "float64", 1)], [("optim.adam", "float32", 1)]
    assert [sorted(called[i : i + n]) for i, n in ((0, 2), (2, 3), (5, 3))] == [first, sorted(first + then), sorted(first + then)]
    for i, v in enumerate(variables):
        want = adam(starts[i], [step[i].astype(float) for step in gradients[(v is late) :]])
        np.testing.assert_allclose(v.array, want, **TOLERANCE["float32"])


def test_exchanged_arrays_are_checked_again(rng):
    def step(array, grad):
        v = Var(np.ones(3, np.float32))
        optimizer = optim.SGD([v], 0.1)
        v.grad = np.ones(3, np.float32)
        v.array, v._edge.grad = array, grad
        optimizer.step()
        return v.array

    f4 = np.float32
    frozen = np.ones(3, f4)
    frozen.flags.writeable = False
    for array, grad, error, what in (
        (np.ones((3, 2), f4)[:, 0], np.ones(3, f4), ArgumentError, "parameters"),
        (frozen, np.ones(3, f4), ArgumentError, "parameters"),
        (np.ones(4, f4), np.ones(3, f4), ShapeError, "grad"),
        (np.ones(3), np.ones(3, f4), DTypeError, "grad"),
    ):
        with pytest.raises(error, match=f"step.*{what}"):
            step(array, grad)
    assert np.array_equal(step(np.ones(3, f4), np.ones((3, 2), f4)[:, 1]), np.full(3, f4(1) - f4(0.1)))
    assert step(np.ones(0, f4), np.ones(0, f4)).size == 0


def test_an_option_that_went_wrong_changes_nothing():
    v = Var(np.ones(3))
    optimizer = optim.SGD([v], lr=0.1)
    v.grad = np.ones(3)
    optimizer.groups[0]["lr"] = -1.0
    with pytest.raises(cpuops.errors.ArgumentError, match="lr"):
        optimizer.step()
    assert np.array_equal(v.array, np.ones(3))


def test_wrong_state(rng):
    optimizer = optim.Adam([Var(rng.standard_normal(3))])
    right = {"0.steps": np.asarray(2), "0.first_moment": np.zeros(3), "0.second_moment": np.zeros(3)}
    optimizer.load_state_dict(right)
    kept = optimizer.state_dict()
    for wrong, kind in (
        ({"1.steps": np.asarray(1)}, cpuops.errors.ArgumentError),
        ({"0.speed": np.zeros(3)}, cpuops.errors.ArgumentError),
        ({"steps": np.asarray(1)}, cpuops.errors.ArgumentError),
        (right | {"0.first_moment": np.zeros(4)}, cpuops.errors.ShapeError),
        (right | {"0.first_moment": np.zeros(3, np.float32)}, cpuops.errors.DTypeError),
        (right | {"0.steps": np.asarray(1.5)}, cpuops.errors.DTypeError),
        ({"0.first_moment": np.zeros(3)}, cpuops.errors.ArgumentError),
    ):
        with pytest.raises(kind):
            optimizer.load_state_dict(wrong)
        assert optimizer.state_dict().keys() == kept.keys() and optimizer.state_dict()["0.steps"] == 2


# ---------------------------------------------------------------- clipping


def test_clip_grad_norm(dtype, rng):
    parameters, (gradients, *_) = given(rng, dtype)
    variables = [Var(p) for p in parameters]
    for v, g in zip(variables, gradients, strict=True):
        v.grad = g.copy()
    want = math.sqrt(sum(float(np.square(g.astype(float)).sum()) for g in gradients))
    assert optim.clip_grad_norm(variables, 2 * want) == pytest.approx(want, rel=1e-12)
    assert all(np.array_equal(v.grad, g) for v, g in zip(variables, gradients, strict=True))
    optim.clip_grad_norm(variables, 0.5)
    assert optim.clip_grad_norm(variables, math.inf) == pytest.approx(0.5, rel=1e-5)
    np.testing.assert_allclose(variables[-1].grad, gradients[-1] * (0.5 / want), rtol=1e-5)


def test_clip_grad_norm_runs_on_the_backend(rng):
    class Noting(cpuops.CpuBackend):
        def _run(self, name, *arguments):
            noted.append(name)
            super()._run(name, *arguments)

    noted = []
    v = Var(np.zeros(9))
    v.grad = np.full(9, 2.0)
    assert optim.clip_grad_norm([v], 3.0, backend=Noting()) == pytest.approx(6.0)
    assert noted[0] == "optim.square_sum" and len(noted) == 2, "the squares, and the gradient's product"
    np.testing.assert_allclose(v.grad, 1.0)


def test_clip_grad_norm_beyond_float32():
    v = Var(np.zeros(4, np.float32))
    v.grad = np.full(4, 1e25, np.float32)
    assert optim.clip_grad_norm([v], 1.0) == pytest.approx(2e25, rel=1e-6)
    np.testing.assert_allclose(v.grad, 0.5, rtol=1e-6)


def test_clip_grad_norm_leaves_what_is_not_finite():
    v = Var(np.zeros(3))
    v.grad = np.array([1.0, np.nan, 2.0])
    assert math.isnan(optim.clip_grad_norm([v], 1.0))
    assert v.grad[0] == 1.0 and v.grad[2] == 2.0
    assert optim.clip_grad_norm([], 1.0) == 0.0
    with pytest.raises(cpuops.errors.ArgumentError, match="max_norm"):
        optim.clip_grad_norm([v], 0.0)


def test_clip_grad_value():
    v, without = Var(np.zeros(3)), Var(np.zeros(3))
    v.grad = np.array([-3.0, 0.25, np.nan])
    optim.clip_grad_value([v, without], 0.5)
    np.testing.assert_array_equal(v.grad, [-0.5, 0.25, np.nan])
    assert without.grad is None


# ---------------------------------------------------------------- schedules


def test_cosine():
    at = optim.schedules.cosine(110, warmup=10, final=0.1)
    assert [at(i) for i in (0, 4, 9, 10)] == [0.1, 0.5, 1.0, 1.0]
    assert at(60) == pytest.approx(0.55)
    assert at(110) == at(10_000) == pytest.approx(0.1)


def test_linear_constant_and_step():
    assert [optim.schedules.linear(4)(i) for i in range(6)] == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    assert [optim.schedules.constant(warmup=2)(i) for i in range(4)] == [0.5, 1.0, 1.0, 1.0]
    at = optim.schedules.step([2, 5], factor=0.5, warmup=1)
    assert [at(i) for i in range(8)] == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_wrong_schedules():
    for make in (
        lambda: optim.schedules.cosine(0), lambda: optim.schedules.cosine(10, warmup=10), lambda: optim.schedules.linear(3, final=-1),
        lambda: optim.schedules.step([3, 3]), lambda: optim.schedules.constant()(-1), lambda: optim.schedules.constant()(1.5),
    ):  # fmt: skip
        with pytest.raises(cpuops.errors.ArgumentError):
            make()
