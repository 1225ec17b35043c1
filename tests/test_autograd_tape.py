"""The tape itself: sums, release, memory, cycles, threads, settings, refusals, checkpoint."""

import copy
import gc
import pickle
import sys
import threading
import tracemalloc
import weakref
from collections import Counter

import numpy as np
import pytest

import cpuops
from cpuops import autograd
from cpuops.autograd import GroupNormBackward, Var, checkpoint, functions, grad, no_grad, using
from cpuops.errors import ArgumentError, ChangedError, DTypeError, KernelError, NoDerivativeError, ReleasedError, ShapeError


@pytest.fixture(autouse=True)
def on_one_thread(serial):
    with using(serial):
        yield


def rng(seed=0):
    return np.random.default_rng(seed)


def normal(*shape, seed=0, dtype=np.float64):
    return rng(seed).standard_normal(shape).astype(dtype)


# ---------------------------------------------------------------- Var and GradFn


def test_var():
    x = normal(2, 3)
    v = Var(x)
    assert v.array is x and v.requires_grad and v.is_leaf and v.grad is None and v.grad_fn is None
    assert v.shape == (2, 3) and v.ndim == 2 and v.size == 6 and v.dtype == np.float64 and len(v) == 2
    w = Var(x, requires_grad=False)
    assert not w.requires_grad and w.id == w.id and len({v.id, w.id, v.detach().id, autograd.relu(v).id}) == 4
    d = v.detach()
    assert d.array is x and not d.requires_grad and d.grad_fn is None
    assert "2" in repr(Var(np.array([2.0]))) and "ReluBackward" in repr(autograd.relu(v))
    assert Var(np.array([3.0])).item() == 3.0 and [r.shape for r in v] == [(3,), (3,)]
    assert Var(np.arange(3), requires_grad=False).array.dtype.kind == "i"


def test_grad_can_be_set_and_cleared():
    v = Var(normal(3))
    v.sum().backward()
    v.sum().backward()
    assert (v.grad == 2).all()
    v.grad = None
    assert v.grad is None
    v.grad = np.full(3, 5.0)
    v.sum().backward()
    assert (v.grad == 6).all()
    with pytest.raises(ShapeError, match="grad"):
        v.grad = np.ones(4)
    with pytest.raises(DTypeError, match="grad"):
        v.grad = np.ones(3, np.float32)
    with pytest.raises(ArgumentError, match="leaf"):
        autograd.relu(v).grad = np.ones(3)


def test_copies_are_leaves_of_their_own():
    v = Var(normal(3))
    (v * v).sum().backward()
    for copied in (copy.deepcopy(v), copy.copy(v), pickle.loads(pickle.dumps(v))):
        assert copied.id != v.id and copied.requires_grad and np.array_equal(copied.grad, v.grad)
        before = v.grad.copy()
        (copied * v.detach()).sum().backward()
        assert np.array_equal(v.grad, before) and not np.array_equal(copied.grad, before)
        (copied * v).sum().backward()
        v.grad = before
    assert not copy.deepcopy(v.detach()).requires_grad
    with pytest.raises(ArgumentError, match="relu"):
        copy.deepcopy(autograd.relu(v))


def test_operations_are_generated_once():
    names = [n for n in functions.OPERATIONS if n not in vars(functions)][:4] or ["relu"]
    found = []
    threads = [threading.Thread(target=lambda: found.append([getattr(functions, n) for n in names])) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 8 and all(f == found[0] for f in found)
    assert autograd.relu is functions.relu and "relu" in dir(autograd)


def test_grad_fn():
    x, w = Var(normal(4, 3)), Var(normal(3, 2, seed=1))
    h = x @ w
    y = autograd.relu(h)
    fn = y.grad_fn
    assert fn.name() == "ReluBackward" and fn.inputs() == (h.id,) and fn.input_grad_fns() == (h.grad_fn,)
    assert h.grad_fn.name() == "MatmulBackward" and h.grad_fn.inputs() == (x.id, w.id)
    assert h.grad_fn.input_grad_fns() == (None, None)
    assert fn.saved_tensors()[0] is y.array
    g = normal(4, 2, seed=2)
    (hg,) = fn.backward(g)
    assert (hg == np.where(h.array > 0, g, 0)).all()
    (hv,) = fn.backward_var(Var(g))
    assert isinstance(hv, Var) and hv.requires_grad and (hv.array == hg).all()
    only = (x @ w.detach()).grad_fn
    assert only.backward(g)[1] is None and only.inputs() == (x.id, None)


def test_only_what_a_gradient_needs_is_saved():
    x, y = Var(normal(50, 50)), Var(normal(50, 50, seed=1))
    assert (x + y).grad_fn.saved_tensors() == () == (x - 3.0).grad_fn.saved_tensors()
    assert [id(a) for a in (x * y.detach()).grad_fn.saved_tensors()] == [id(y.array)]
    assert [id(a) for a in (x.detach() @ y).grad_fn.saved_tensors()] == [id(x.array)]
    assert autograd.reduce_sum(x).grad_fn.saved_tensors() == ()
    for function in (autograd.sigmoid, autograd.relu, autograd.relu6):
        s = function(x)
        assert [id(a) for a in s.grad_fn.saved_tensors()] == [id(s.array)]
    assert x.reshape(-1).grad_fn.saved_tensors() == ()
    assert autograd.linear(x, y, Var(normal(50))).grad_fn.saved_tensors()


@pytest.mark.parametrize("op", ["linear", "conv1d", "conv2d", "conv3d"])
@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_the_sum_before_a_relu_is_not_kept(op, activation):
    """Relu's gradient is told by its output, which the next operation keeps anyway."""
    axes = () if op == "linear" else (7,) * int(op[4])
    weight = Var(normal(3, 5) if op == "linear" else normal(5, 3, *(2 for _ in axes)))
    x, bias = Var(normal(4, 3, *axes, seed=1)), Var(normal(5, seed=2))
    y = getattr(autograd, f"{op}_activation")(x, weight, bias, activation=activation)
    kept = [a for a in y.grad_fn.saved_tensors() if a.shape == y.shape]
    assert len(kept) == 1 and (kept[0] is y.array) == (activation == "relu")
    total = getattr(autograd, op)(x, weight, bias)
    other = getattr(autograd, activation)(total)
    assert y.array.tobytes() == other.array.tobytes() and (activation == "relu" or kept[0].tobytes() == total.array.tobytes())
    g = normal(*y.shape, seed=3)
    for got, want in zip(grad(y, (x, weight, bias), g), grad(other, (x, weight, bias), g), strict=True):
        assert np.asarray(got).tobytes() == np.asarray(want).tobytes()


# ---------------------------------------------------------------- operators


def test_operators():
    a, b = normal(3, 4), normal(4, seed=1) + 3
    x, y = Var(a), Var(b)
    for mine, want in (
        (x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (-x, -a), (abs(x), np.abs(a)), (x @ y, a @ b),
        (2 + x, 2 + a), (2 - x, 2 - a), (2 * x, 2 * a), (2 / y, 2 / b), (a + y, a + b), (a - y, a - b), (a * y, a * b), (a / y, a / b),
        (a @ y, a @ b), (x**2, a**2), (x**3, a**3), (y**0.5, b**0.5), (y**-1, 1 / b), (y**-1.5, b**-1.5), (x**0, np.ones((3, 4))),
        (x.T, a.T), (x.reshape(4, 3), a.reshape(4, 3)), (x.reshape((2, -1)), a.reshape(2, 6)), (x.transpose(1, 0), a.T),
        (x.transpose(), a.T), (x.flatten(), a.ravel()), (x.sum(1), a.sum(1)), (x.mean(0, keepdims=True), a.mean(0, keepdims=True)),
        (x[1], a[1]), (x[:, ::2], a[:, ::2]), (x[[0, 0, 2]], a[[0, 0, 2]]), (x[a > 0], a[a > 0]), (x[..., None], a[..., None]),
    ):  # fmt: skip
        assert isinstance(mine, Var) and mine.requires_grad
        np.testing.assert_allclose(mine.array, want, rtol=1e-13)
    for bad in (0.3, "2", None, True, 1j):
        with pytest.raises(ArgumentError, match="exponent"):
            x**bad
    with pytest.raises(DTypeError, match=r"add.*rhs"):
        x + "a"
    with pytest.raises(DTypeError, match=r"mul.*rhs"):
        x * a.astype(np.float32)
    for detaching in (lambda: np.add(a, x), lambda: np.asarray(x, dtype=float), lambda: float(x), lambda: cpuops.CpuBackend().relu(x)):
        with pytest.raises((TypeError, ValueError)):
            detaching()


SHAPE_CALLS = {
    "reshape": lambda x: autograd.reshape(x, (4, -1)),
    "transpose": lambda x: autograd.transpose(x, (1, 2, 0)),
    "flatten": lambda x: autograd.flatten(x, 1),
    "expand_dims": lambda x: autograd.expand_dims(x, -1),
    "squeeze": lambda x: autograd.squeeze(autograd.expand_dims(x, 1), 1),
    "squeeze all": lambda x: autograd.squeeze(x[:1]),
    "broadcast_to": lambda x: autograd.broadcast_to(x[:, :1], (5, 2, 3, 4)),
    "getitem": lambda x: x[1, ::-2, 1:],
    "getitem None": lambda x: x[:, None, ..., -1],
    "getitem repeated": lambda x: x[[0, 1, 1, 0, 1], 1],
    "getitem mask": lambda x: x[np.arange(24).reshape(2, 3, 4) % 3 == 0],
    "getitem Var": lambda x: x[Var(np.array([1, 1]), requires_grad=False)],
    "slice_axis": lambda x: autograd.slice_axis(x, 2, 1, 4, 2),
    "concat": lambda x: autograd.concat([x, x * 2.0, x[:, :1]], 1),
    "stack": lambda x: autograd.stack([x, x * x], -1),
    "where": lambda x: autograd.where(np.arange(4) > 1, x, x * x),
    "where scalar": lambda x: autograd.where(np.arange(24).reshape(2, 3, 4) % 2 == 0, x, 1.5),
    "gather": lambda x: autograd.gather(x, np.array([[[3, 0, 0]] * 3] * 2), 2),
    "scatter_add": lambda x: autograd.scatter_add(x, np.array([[[4, 0, 0, 1]] * 3] * 2), 2, 6),
    "iteration": lambda x: autograd.stack([row * row for row in x[0]]),
}


@pytest.mark.parametrize("name", SHAPE_CALLS)
def test_shape_operations(name):
    """Once and twice, through a function that makes every cell matter differently."""
    call, x = SHAPE_CALLS[name], normal(2, 3, 4)
    weight = normal(*call(Var(x)).shape, seed=5)

    def loss(v):
        y = call(v)
        return functions.reduce_sum(y * y * y * weight)

    def value(a):
        return float(loss(Var(a)).array)

    d = normal(2, 3, 4, seed=6)
    v = Var(x)
    (first,) = grad(loss(v), v, create_graph=True)
    want = (8 * (value(x + 1e-4 * d) - value(x - 1e-4 * d)) - (value(x + 2e-4 * d) - value(x - 2e-4 * d))) / 12e-4
    np.testing.assert_allclose((first.array * d).sum(), want, rtol=1e-7, atol=1e-8)
    (second,) = grad(functions.reduce_sum(first * d), v)

    def slope(a):
        u = Var(a)
        return float((grad(loss(u), u)[0] * d).sum())

    want = (8 * (slope(x + 1e-4 * d) - slope(x - 1e-4 * d)) - (slope(x + 2e-4 * d) - slope(x - 2e-4 * d))) / 12e-4
    np.testing.assert_allclose((second * d).sum(), want, rtol=1e-6, atol=1e-6)


def test_where_lets_no_nan_through():
    x = Var(np.array([0.0, 4.0]))
    functions.reduce_sum(autograd.where(x.array > 0, autograd.sqrt(autograd.where(x.array > 0, x, 1.0)), 0.0)).backward()
    assert (x.grad == [0.0, 0.25]).all()


@pytest.mark.parametrize(
    ("call", "error", "names"),
    [
        (lambda x: x.reshape(5), ShapeError, "reshape.*shape"),
        (lambda x: x.reshape("a"), ShapeError, "reshape.*shape"),
        (lambda x: autograd.transpose(x, (0, 0, 1)), ArgumentError, "transpose.*axes"),
        (lambda x: autograd.transpose(x, (0, 1, 3)), ArgumentError, "transpose.*axis"),
        (lambda x: autograd.squeeze(x, 0), ShapeError, "squeeze.*axis"),
        (lambda x: autograd.broadcast_to(x, (3, 3)), ShapeError, "broadcast_to.*shape"),
        (lambda x: x[5], IndexError, "getitem.*key"),
        (lambda x: x["a"], KernelError, "getitem.*key"),
        (lambda x: x[Var(np.ones(2))], DTypeError, "getitem.*key"),
        (lambda x: autograd.concat([]), ArgumentError, "concat.*xs"),
        (lambda x: autograd.concat([x, x[0]]), ShapeError, "concat.*xs"),
        (lambda x: autograd.concat([x, x.array.astype(np.float32)]), DTypeError, "concat.*xs"),
        (lambda x: autograd.stack(x), ArgumentError, "stack.*xs"),
        (lambda x: autograd.where(x, x, x), DTypeError, "where.*condition"),
        (lambda x: autograd.where(np.ones(7, bool), x, x), ShapeError, "where.*x"),
        (lambda x: autograd.gather(x, np.zeros((2, 3, 1)), 2), DTypeError, "gather.*indices"),
        (lambda x: autograd.gather(x, np.full((2, 3, 1), 4), 2), IndexError, "gather.*indices"),
        (lambda x: autograd.gather(x, np.zeros((2, 1, 4), int), 2), ShapeError, "gather.*indices"),
        (lambda x: autograd.relu([1.0, 2.0]), DTypeError, "relu.*x"),
        (lambda x: autograd.relu(None), DTypeError, "relu.*x"),
        (lambda x: autograd.conv2d(x, x), ShapeError, "conv2d.*x"),
        (lambda x: x.item(), ShapeError, "item"),
        (lambda x: bool(x), ShapeError, "item"),
        (lambda x: Var(x), DTypeError, "Var.*array"),
        (lambda x: Var([1.0]), DTypeError, "Var.*array"),
        (lambda x: Var(np.arange(3)), DTypeError, "Var.*array"),
        (lambda x: Var(x.array, requires_grad=1), ArgumentError, "Var.*requires_grad"),
        (lambda x: using("cpu").__enter__(), ArgumentError, "using.*backend"),
        (lambda x: x.backward(), ArgumentError, "backward.*grad"),
        (lambda x: x.backward(np.ones(3)), ShapeError, "backward.*grad"),
        (lambda x: x.backward(np.ones(x.shape, np.float32)), DTypeError, "backward.*grad"),
        (lambda x: x.detach().backward(), ArgumentError, "backward"),
        (lambda x: grad(x.sum(), x.detach()), ArgumentError, "grad.*inputs"),
        (lambda x: grad(x.sum(), x.array), DTypeError, "grad.*inputs"),
        (lambda x: grad(x.detach(), x), ArgumentError, "grad.*outputs"),
        (lambda x: grad(x, x), ArgumentError, "grad.*outputs"),
        (lambda x: grad([x.sum()], [x], [None, None]), ArgumentError, "grad.*grad_outputs"),
        (lambda x: grad(x.sum(), x, create_graph=1), ArgumentError, "grad.*create_graph"),
        (lambda x: checkpoint(lambda v: 3, x), DTypeError, "checkpoint.*function"),
    ],
)
def test_refusals(call, error, names):
    with pytest.raises(error, match=names) as caught:
        call(Var(normal(2, 3, 4)))
    assert isinstance(caught.value, KernelError)


# ---------------------------------------------------------------- sums


def test_a_var_used_often():
    x = Var(normal(5))
    y = x * x + x * 3.0 + x
    y = y + y
    y.sum().backward()
    np.testing.assert_allclose(x.grad, 2 * (2 * x.array + 4))


def test_gradients_are_nobody_elses():
    """No two gradients share memory, with each other or with the one that arrives."""
    a, b, c = (Var(normal(4, seed=i)) for i in range(3))
    g = normal(4, seed=9)
    (a + b - c.reshape(2, 2).reshape(4)).backward(g)
    arrays = [a.grad, b.grad, c.grad, g]
    assert not any(np.shares_memory(p, q) for i, p in enumerate(arrays) for q in arrays[:i])
    keep = a.grad
    want = keep.copy()
    (a * 2.0).sum().backward()
    assert (keep == want).all(), "an array that was handed out was changed"
    found = grad((a + b), [a, b], g)
    assert not np.shares_memory(*found) and not np.shares_memory(found[0], g)


def test_grad_leaves_grad_alone_and_computes_no_more():
    class Counting(cpuops.CpuBackend):
        calls = ()

        def conv2d_weight_backward(self, *args, **options):
            type(self).calls += ("weight",)
            return super().conv2d_weight_backward(*args, **options)

        def conv2d_x_backward(self, *args, **options):
            type(self).calls += ("x",)
            return super().conv2d_x_backward(*args, **options)

    x, w = Var(normal(1, 2, 5, 5)), Var(normal(3, 2, 3, 3))
    with using(Counting()):
        y = autograd.conv2d(x, w)
        h = autograd.relu(y)
        loss = h.sum()
        hg, wg = grad(loss, [h, w], retain_graph=True)
        assert Counting.calls == ("weight",) and x.grad is None and w.grad is None
        assert (hg == 1).all() and wg.shape == w.shape
        grad(loss, [y])
        assert Counting.calls == ("weight",)
        autograd.conv2d(x.detach(), w).sum().backward()
        assert Counting.calls == ("weight", "weight")


def test_grad_of_several():
    x, y, z = Var(normal(3)), Var(normal(3, seed=1)), Var(normal(3, seed=2))
    p, q = x * y, x + y
    gx, gz = grad([p, q], [x, z], [np.ones(3), np.full(3, 2.0)])
    np.testing.assert_allclose(gx, y.array + 2)
    assert gz is None
    m = x * 2.0
    inner, outer = grad((m * m).sum(), [m, x])
    np.testing.assert_allclose(inner, 2 * m.array)
    np.testing.assert_allclose(outer, 4 * m.array)


def test_deep_and_wide():
    """Neither recursion nor time that grows with the number of paths."""
    x = Var(np.ones(1))
    y = x
    for _ in range(30_000):
        y = y + 1.0
    y.backward()
    assert x.grad[0] == 1
    del y
    y = x
    for _ in range(64):
        y = y * 0.5 + y * 0.5
    x.grad = None
    y.backward()
    assert x.grad[0] == 1


# ---------------------------------------------------------------- release


def test_a_second_backward_is_refused():
    x = Var(normal(4))
    y = autograd.exp(autograd.sigmoid(x))
    loss = y.sum()
    loss.backward(retain_graph=True)
    first = x.grad.copy()
    loss.backward()
    np.testing.assert_allclose(x.grad, 2 * first)
    with pytest.raises(ReleasedError, match="retain_graph"):
        loss.backward()
    with pytest.raises(ReleasedError, match=r"exp.*released"):
        y.grad_fn.backward(np.ones(4))
    with pytest.raises(RuntimeError):
        grad(y.sum(), x)
    assert np.array_equal(x.grad, 2 * first), "a refused backward changed a gradient"


def test_what_is_saved_is_freed_without_the_collector():
    gc.disable()
    try:
        x = Var(normal(8, 3, 6, 6))
        w = Var(normal(4, 3, 3, 3))
        y = autograd.relu(autograd.conv2d(x, w))
        out = autograd.batch_norm_train(y, np.ones(4), np.zeros(4), 1e-5).output
        loss = autograd.square(autograd.softmax(out.reshape(8, -1))).sum()
        watched = [weakref.ref(v) for v in (y, out, y.grad_fn, out.grad_fn, loss.grad_fn)] + [weakref.ref(y.array), weakref.ref(out.array)]
        loss.backward()
        del y, out, loss
        assert all(ref() is None for ref in watched), "something refers to itself"
        v = autograd.exp(w).sum()
        (g,) = grad(v, w, create_graph=True)
        (h,) = grad(g.sum(), w, create_graph=True)
        z = checkpoint(lambda a: autograd.relu(a) * w, w)
        watched = [weakref.ref(a) for a in (v, g, h, z, v.grad_fn, g.grad_fn, h.grad_fn, z.grad_fn)]
        z.sum().backward()
        del v, g, h, z
        assert all(ref() is None for ref in watched), "something refers to itself"
    finally:
        gc.enable()


def test_backward_frees_as_it_goes():
    """After backward a Var that is still held keeps its own array only."""
    x = Var(normal(1000))
    h = autograd.exp(x * 2.0)
    saved = weakref.ref(h.grad_fn.saved_tensors()[0])
    y = autograd.square(h)
    assert saved() is h.array
    y.sum().backward()
    assert h.grad_fn._saved is None and y.grad_fn._saved is None
    del h
    assert saved() is None


def test_memory_of_a_step_is_bounded():
    """The peak of a deep network's step is what its layers save and a few arrays more, and no step adds to it."""
    n, layers = 50_000, 20
    x, w = normal(n, dtype=np.float32), [Var(np.ones(1, np.float32)) for _ in range(layers)]

    class Counting(cpuops.CpuBackend):
        """Counts the bytes of the results that are alive."""

        alive = peak = 0

        def _counted(self, a):
            cls = type(self)
            cls.alive += a.nbytes
            cls.peak = max(cls.peak, cls.alive)
            weakref.finalize(a, cls._gone, a.nbytes)
            return a

        @classmethod
        def _gone(cls, nbytes):
            cls.alive -= nbytes

        def mul(self, *args, **options):
            return self._counted(super().mul(*args, **options))

        def relu(self, *args, **options):
            return self._counted(super().relu(*args, **options))

        def relu_backward(self, *args, **options):
            return self._counted(super().relu_backward(*args, **options))

    def step():
        h = Var(x, requires_grad=False)
        for v in w:
            h = autograd.relu(h * v)
        h.sum().backward()

    with using(Counting()):
        step()
        first = Counting.peak
        for _ in range(3):
            step()
    # of a layer: relu's result, for itself and for the next product
    assert layers * x.nbytes <= Counting.peak <= (layers + 5) * x.nbytes
    assert Counting.peak == first
    assert Counting.alive <= 8 * layers


def test_a_step_leaves_nothing_behind():
    x, w = normal(64, 32, dtype=np.float32), Var(normal(32, 16, dtype=np.float32))

    def step():
        autograd.relu(x @ w).sum().backward()
        w.grad = None

    for _ in range(20):
        step()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(200):
            step()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()
        gc.enable()


class Nothing:
    """A backend that does nothing, so that what is left is the tape."""

    def relu(self, x):
        return x

    def relu_backward(self, output_grad, x):
        return output_grad


def test_what_an_operation_costs():
    """An operation enters four Python functions: its own, the backend's, and the same for the gradient. What these cost, the
    bench measures (training/chain)."""
    x, g, n = Var(np.ones(64)), np.ones(64), 50
    entered = Counter()

    def enter(frame, event, arg):
        if event == "call":
            entered[frame.f_code.co_qualname] += 1

    def run():
        v = x
        for _ in range(n):
            v = autograd.relu(v)
        v.backward(g)
        x.grad = None

    with using(Nothing()):
        run()  # the rule of relu is made when it is first asked for
        sys.setprofile(enter)
        try:
            run()
        finally:
            sys.setprofile(None)
    assert entered.total() <= 4 * n + 10, entered.most_common(12)


# ---------------------------------------------------------------- settings


def test_no_grad():
    x = Var(normal(3))
    with no_grad():
        y = autograd.relu(x) * x
        assert not y.requires_grad and not x.reshape(1, 3).requires_grad and not checkpoint(autograd.relu, x).requires_grad
        with autograd.enable_grad():
            assert autograd.relu(x).requires_grad
    assert autograd.relu(x).requires_grad
    with pytest.raises(ZeroDivisionError), no_grad():
        1 / 0  # noqa: B018
    assert autograd.relu(x).requires_grad


@pytest.mark.parametrize("recording", [True, False])
def test_attention_gives_what_its_gradient_takes_only_when_there_is_one(recording):
    class Counting(cpuops.CpuBackend):
        called = ()

        def attention(self, *args, **options):
            self.called += ("attention",)
            return super().attention(*args, **options)

        def attention_with_logsumexp(self, *args, **options):
            self.called += ("attention_with_logsumexp",)
            return super().attention_with_logsumexp(*args, **options)

    backend, q, k, v = Counting(), *(normal(1, 2, 5, 4, seed=i) for i in range(3))
    with using(backend):
        plain = autograd.attention(q, k, v).array
        with autograd.enable_grad() if recording else no_grad():
            y = autograd.attention(Var(q), k, v)
    assert backend.called == ("attention", "attention_with_logsumexp" if recording else "attention")
    assert y.requires_grad == recording and y.array.tobytes() == plain.tobytes()


def test_the_backend_is_chosen_and_remembered():
    class Named(cpuops.CpuBackend):
        def __init__(self):
            self.seen = []

        def relu(self, x, *, out=None):
            self.seen.append("relu")
            return super().relu(x, out=out)

        def relu_backward(self, output_grad, x, *, out=None):
            self.seen.append("backward")
            return super().relu_backward(output_grad, x, out=out)

    a, b = Named(), Named()
    x = Var(normal(3))
    with using(a):
        y = autograd.relu(x)
        with using(b):
            autograd.relu(x, backend=a)
            y.sum().backward()
    assert a.seen == ["relu", "relu", "backward"] and b.seen == []
    autograd.relu(x, backend=b)
    assert b.seen == ["relu"]


def test_the_default_backend():
    def run():
        # a new thread has no settings
        assert isinstance(autograd.relu(Var(np.ones(3))).grad_fn._backend, cpuops.ThreadedCpuBackend)
        done.append(True)

    done = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done


def test_settings_belong_to_a_thread():
    barrier, seen = threading.Barrier(2), {}

    def run(name, recording):
        backend = cpuops.CpuBackend()
        with using(backend), autograd.enable_grad() if recording else no_grad():
            barrier.wait()
            y = autograd.relu(Var(np.ones(3)))
            seen[name] = y.requires_grad, not y.requires_grad or y.grad_fn._backend is backend
            barrier.wait()

    threads = [threading.Thread(target=run, args=(n, n == "on")) for n in ("on", "off")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == {"on": (True, True), "off": (False, True)}


def test_threads_add_up_in_one_leaf():
    w = Var(np.zeros(1000))
    errors = []

    def run():
        try:
            with using(cpuops.CpuBackend()):
                for _ in range(50):
                    (w * 1.0).sum().backward()
        except Exception as error:  # handed to the main thread
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors and (w.grad == 300).all()


def test_changes_are_noticed():
    x = normal(6)
    for change in (True, False):
        v = Var(x.copy())
        with autograd.detect_changes():
            y = autograd.exp(autograd.square(v))
            z = y * v
        if change:
            v.array[3] += 1
            with pytest.raises(ChangedError, match=r"(mul|square): \w+ is an array that was changed"):
                z.sum().backward()
            assert v.grad is None
        else:
            z.sum().backward()
            assert v.grad is not None
    v = Var(x.copy())
    z = autograd.square(v)
    v.array[0] += 1
    z.sum().backward()  # unwatched: as without the debug mode


# ---------------------------------------------------------------- GroupNormBackward by hand


@pytest.mark.parametrize("affine", [True, False])
def test_group_norm_backward(affine):
    x, w, b = Var(normal(2, 6, 4)), Var(normal(6, seed=1)) if affine else None, Var(normal(6, seed=2)) if affine else None
    y = autograd.group_norm(x, 3, w, b, 1e-3)
    assert isinstance(y.grad_fn, GroupNormBackward) and y.grad_fn.name() == "GroupNormBackward"
    g = normal(2, 6, 4, seed=3)
    fn = GroupNormBackward((11, 12, 13), x.array, w.array if affine else None, 3, 1e-3, (None, None, None))
    assert fn.inputs() == (11, 12, 13) and fn.input_grad_fns() == (None, None, None) and fn.saved_tensors()[0] is x.array
    mine, tape = fn.backward(g), y.grad_fn.backward(g)
    for m, t in zip(mine, tape, strict=True):
        assert t is None or np.array_equal(m, t)
    # the source's formula
    flat, gw = x.array.reshape(2, 3, 8), (g * (w.array[:, None] if affine else 1)).reshape(2, 3, 8)
    r = 1 / np.sqrt(flat.var(2, keepdims=True) + 1e-3)
    hat = (flat - flat.mean(2, keepdims=True)) * r
    want = r * (gw - gw.mean(2, keepdims=True) - hat * (gw * hat).mean(2, keepdims=True))
    np.testing.assert_allclose(mine[0], want.reshape(2, 6, 4), rtol=1e-10, atol=1e-12)
    for v, m in zip(fn.backward_var(Var(g)), mine, strict=True):
        if v is not None:
            np.testing.assert_allclose(v.array, m, rtol=1e-9, atol=1e-12)
    h = autograd.exp(x)
    chained = GroupNormBackward((h.id, 0, 0), h.array, None, 3, 1e-3, (h.grad_fn, None, None))
    assert chained.input_grad_fns()[0] is h.grad_fn
    for bad, error, name in (
        (((1, 2), x.array, None, 3, 1e-3, (None,) * 3), ArgumentError, "input_ids"),
        (((1, 2, 3), x.array, None, 4, 1e-3, (None,) * 3), ShapeError, "input"),
        (((1, 2, 3), x.array, np.ones(5), 3, 1e-3, (None,) * 3), ShapeError, "weight"),
        (((1, 2, 3), x.array, None, 3, -1.0, (None,) * 3), ArgumentError, "epsilon"),
        (((1, 2, 3), x.array, None, 3, 1e-3, (None, 5, None)), ArgumentError, "input_grad_fns"),
    ):
        with pytest.raises(error, match=name):
            GroupNormBackward(*bad)


# ---------------------------------------------------------------- checkpoint


def test_checkpoint():
    x, w = Var(normal(4, 3)), Var(normal(3, 3, seed=1))
    outer = None
    calls = []

    def part(v, factor, flag):
        calls.append(flag)
        h = autograd.relu(v @ outer)
        return h * factor + w.sum(), autograd.sigmoid(h)

    def loss(run):
        nonlocal outer
        outer = autograd.exp(w)
        a, b = run(x * 1.0, 2.0, "flag")
        return (a * b).sum()

    plain = loss(part)
    want = grad(plain, [x, w])
    saved = loss(lambda *args: checkpoint(part, *args))
    assert calls == ["flag", "flag"]
    got = grad(saved, [x, w])
    assert len(calls) == 4  # each output once more
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    loss(lambda *args: checkpoint(part, *args)).backward()
    np.testing.assert_allclose(w.grad, want[1], rtol=1e-12)
    with pytest.raises(NoDerivativeError, match="checkpoint"):
        grad(loss(lambda *args: checkpoint(part, *args)), x, create_graph=True)


def test_checkpoint_in_checkpoint_and_random_numbers():
    generator = rng(3)

    def noisy(v):
        autograd.drawing_from(generator.bit_generator)
        return v * generator.standard_normal(v.shape)

    def inner(v):
        return checkpoint(noisy, v) * 2.0

    x = Var(np.ones(5))
    y = checkpoint(inner, x)
    z = generator.standard_normal(3)
    y.sum().backward()
    again = rng(3)
    np.testing.assert_allclose(x.grad, 2 * again.standard_normal(5))
    assert (z == again.standard_normal(3)).all() and generator.standard_normal() == again.standard_normal()


def test_checkpoint_saves_memory():
    x = normal(20_000)
    held = []

    def part(v):
        for _ in range(10):
            v = autograd.exp(v * 0.1)
            held.append(weakref.ref(v.array))
        return v

    y = checkpoint(part, Var(x))
    assert sum(ref() is not None for ref in held) == 1
    assert [a.nbytes for a in y.grad_fn.saved_tensors()] == [x.nbytes]


def test_errors_pickle():
    with pytest.raises(NoDerivativeError) as caught:
        autograd.batch_norm(np.ones((2, 3)), np.ones(3), np.ones(3), Var(np.ones(3)), np.ones(3), 1e-5)
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, NotImplementedError) and "mean" in str(again)
