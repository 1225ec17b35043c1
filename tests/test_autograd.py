"""The tape and the table: every operation's GradFn by finite differences, once and twice."""

import numpy as np
import pytest
from support import Failures, Mine, seeded
from table import ROWS
from table.base import parts

import cpuops
from cpuops import autograd
from cpuops.autograd import Var, functions
from cpuops.autograd._rules import BILINEAR, LINEAR, NOT_DIFFERENTIABLE, OTHER_FORMS, rule_of
from cpuops.autograd._second import DERIVATIVES

STEP = 1e-4
SLOPE_RTOL = 2e-7
SECOND_RTOL = 2e-6
# the gradient is by convention the one to the logits under a log_softmax: differences are taken through that
CONVENTIONS = {"ctc_loss"}
# operations whose gradient has no derivative: asked for it, they refuse
ONCE = {"deform_conv2d", "grid_sample_2d", "ctc_loss"}


def differentiable(row):
    return bool(row.gradients)


def chosen_calls(row, limit, words="tape"):
    """A few small smooth calls: the first ones, and one for every combination of options."""
    small = [
        c
        for c in row.calls(seeded(words, row.name))
        if c.smooth and all(0 < a.size < 400 for a in c.arrays.values()) and max(a.size for a in c.arrays.values()) > 2
    ]
    found, seen = [], set()
    for c in small:
        kind = (*sorted((k, str(v)) for k, v in c.options.items()), *(k for k, v in c.args.items() if v is None))
        if kind not in seen:
            seen.add(kind)
            found.append(c)
    return (found + small[:: max(1, len(small) // 3)])[:limit]


def on_tape(row, call, values, backend):
    """The operation's first result, with Vars for the operands in `values`."""
    with autograd.using(backend):
        result = getattr(autograd, row.name)(**{**call.args, **values}, **call.options)
    return result[0] if isinstance(result, tuple) else result


def on_tape_all(row, call, values, backend):
    with autograd.using(backend):
        return getattr(autograd, row.name)(**{**call.args, **values}, **call.options)


def operands_of(row, call):
    return {n: call.args[n] for n in rule_of(row.name).operands if call.args.get(n) is not None}


def slope(value, direction, function):
    """(directional derivative, size of its terms) by a fourth-order central difference."""
    at = [function(np.asarray(value + s * STEP * direction)) for s in (1, -1, 2, -2)]
    terms = (8 * (at[0] - at[1]) - (at[2] - at[3])) / (12 * STEP)
    return float(terms.sum()), float(np.abs(terms).sum())


# ---------------------------------------------------------------- nothing is left out


def test_every_differentiable_method_has_a_grad_fn():
    backward = {n for n in dir(cpuops.BackwardOps) if n.endswith("_backward") and not n.startswith(("_", "has_"))}
    used = set()
    for name in functions.OPERATIONS:
        used |= {call.text.partition("(")[0].removeprefix("ops.") for call in rule_of(name).gradients}
        assert issubclass(functions.grad_fn_of(name), autograd.GradFn)
    joint = {n for n in backward if any(f"{n.removesuffix('_backward')}_{o}_backward" in used for o in ("x", "weight"))}
    separate = {f"{n}_backward" for n in ("add", "sub", "mul", "div", "matmul")}
    assert not backward - used - joint - separate - OTHER_FORMS, "gradients that no GradFn calls"
    forward = {n for n in dir(cpuops.Backend) if not n.startswith(("_", "has_"))} - NOT_DIFFERENTIABLE - OTHER_FORMS
    assert forward <= set(functions.OPERATIONS) <= forward | {n for n in functions.OPERATIONS if n.endswith("_backward")}


@pytest.mark.parametrize("name", [n for n in functions.OPERATIONS if n in ROWS])
def test_rules_agree_with_the_table(name):
    """The operands that signatures tell are those whose gradients the table checks."""
    assert set(rule_of(name).operands) == set(ROWS[name].differentiable)


def test_an_operation_without_a_gradient_is_refused():
    with pytest.raises(cpuops.errors.NoDerivativeError, match="argmax"):
        rule_of("argmax")
    with pytest.raises(AttributeError, match="no attribute"):
        _ = autograd.no_such_operation


def test_every_second_derivative_is_there_or_named():
    for name in functions.OPERATIONS:
        methods = {m for call in rule_of(name).gradients for m in [call.text.partition("(")[0]] if m.startswith("ops.")}
        known = all(DERIVATIVES.known(m.removeprefix("ops.")) or hasattr(functions, m.removeprefix("ops.")) for m in methods)
        assert known != (name in ONCE), name


RESIDUALS = ("add_layer_norm", "add_rms_norm")


@pytest.mark.parametrize("name", RESIDUALS)
def test_both_results_of_a_fused_operation(name, backend):
    """What arrives at the output and at the sum goes to both operands, as in the backend's own gradient."""
    failures = Failures()
    row = ROWS[name]
    for call in chosen_calls(row, 4):
        rng = seeded("fused", name, call)
        variables = {n: Var(call.args[n]) for n in row.differentiable if call.args.get(n) is not None}
        result = on_tape_all(row, call, variables, backend)
        want = call.on(backend, name)
        failures.check(type(result) is type(want), "another result than the backend's")
        for var, array in zip(result, want, strict=True):
            failures.check(var.array.tobytes() == array.tobytes(), f"{name}{call}: another output")
        g, more = (rng.standard_normal(want.sum.shape) for _ in range(2))
        with autograd.using(backend):
            (functions.reduce_sum(result.output * g) + functions.reduce_sum(result.sum * more)).backward()
        epsilon = call.args.get("epsilon", 1e-5)
        grads = getattr(backend, f"{name}_backward")(want.sum, call.args["gamma"], epsilon, g, more)._asdict()
        for operand, var in variables.items():
            near = np.allclose(var.grad, grads[f"{operand}_grad"], rtol=1e-9, atol=1e-9 * np.abs(grads[f"{operand}_grad"]).max())
            failures.check(near, f"{name}{call}: {operand}")
    failures.raise_any()


def test_a_residual_is_not_broadcast():
    x = Var(np.ones((2, 3)))
    for name in RESIDUALS:
        for a, b in ((x, np.ones(3)), (np.ones((1, 3)), x)):
            with pytest.raises(cpuops.ShapeError, match=f"{name}.*(x|residual)"):
                getattr(autograd, name)(a, b, np.ones(3))


# ---------------------------------------------------------------- first order


def first_order(row, call, backend, failures):
    rng = seeded("directions", row.name, call)
    operands = operands_of(row, call)
    variables = {n: Var(v) for n, v in operands.items()}
    output = on_tape(row, call, variables, backend)
    g = np.asarray(rng.standard_normal(output.shape))
    fn = output.grad_fn
    assert fn.name() == rule_of(row.name).class_name
    assert [i for i in fn.inputs() if i] == [v.id for v in variables.values()]
    again = fn.backward(g)
    output.backward(g)
    for i, name in enumerate(rule_of(row.name).operands):
        if name not in variables:
            failures.check(again[i] is None, f"{name}: a gradient to nothing")
            continue
        value, var = operands[name], variables[name]
        failures.check(np.array_equal(again[i], var.grad, equal_nan=True), f"{row.name}{call}: {name} differs from backward()")
        failures.check(var.grad.shape == value.shape and var.grad.dtype == value.dtype, f"{row.name}{call}: {name} {var.grad.shape}")
        direction = np.asarray(rng.standard_normal(value.shape))
        want, size = slope(value, direction, lambda v, n=name: on_tape(row, call, {n: v}, backend).array * g)
        got = float((var.grad * direction).sum())
        size = max(1.0, size, float(np.abs(var.grad * direction).sum()))
        failures.check(abs(got - want) <= SLOPE_RTOL * size, f"{row.name}{call}: {name}·d {got:.10g}, differences {want:.10g}")


def test_first_order(row, serial):
    failures = Failures()
    for call in chosen_calls(row, 10):
        first_order(row, call, serial, failures)
    failures.raise_any()


test_first_order.rows = lambda row: differentiable(row) and row.name not in CONVENTIONS


def test_ctc_loss_through_log_softmax(serial):
    """Its gradient is the one to the logits: differences are taken there."""
    for call in chosen_calls(ROWS["ctc_loss"], 4):
        rng = seeded("ctc", call)
        logits = rng.standard_normal(call.args["log_probs"].shape)
        direction = rng.standard_normal(logits.shape)

        def losses(values, call=call):
            with autograd.using(serial):
                return on_tape(ROWS["ctc_loss"], call, {"log_probs": functions.log_softmax(values, axis=-1)}, serial)

        x = Var(logits)
        output = losses(x)
        g = np.where(np.isfinite(output.array), rng.standard_normal(output.shape), 0.0)
        output.backward(g)
        want, size = slope(logits, direction, lambda v, g=g: np.where(g, losses(v).array, 0.0) * g)
        assert abs(float((x.grad * direction).sum()) - want) <= 1e-6 * max(1.0, size), call


def test_first_order_on_a_backend_of_ones_own(row):
    failures = Failures()
    for call in chosen_calls(row, 2):
        first_order(row, call, Mine(), failures)
    failures.raise_any()


test_first_order_on_a_backend_of_ones_own.rows = test_first_order.rows


def test_only_what_is_needed(row, serial):
    """With one operand alone on the tape, its gradient is as with all."""
    for call in chosen_calls(row, 3):
        operands = operands_of(row, call)
        everything = {n: Var(v) for n, v in operands.items()}
        output = on_tape(row, call, everything, serial)
        g = np.asarray(seeded("g", row.name).standard_normal(output.shape))
        output.backward(g)
        for name, value in operands.items():
            alone = Var(value)
            on_tape(row, call, {name: alone}, serial).backward(g)
            np.testing.assert_allclose(alone.grad, everything[name].grad, rtol=1e-12, atol=1e-12, err_msg=f"{row.name}{call} {name}")


test_only_what_is_needed.rows = lambda row: len(row.differentiable) > 1


def test_nothing_goes_where_no_gradient_does(row, serial):
    """A Var that needs a gradient, where the operation has none, is refused and not detached."""
    call = chosen_calls(row, 1)[0]
    for name, value in call.arrays.items():
        if name in rule_of(row.name).operands or value.dtype.kind != "f":
            continue
        with pytest.raises(NotImplementedError, match=f"{row.name}.*{name}"):
            on_tape(row, call, {name: Var(value)}, serial)


test_nothing_goes_where_no_gradient_does.rows = differentiable


# ---------------------------------------------------------------- second order


def second_order(row, call, backend, failures):
    rng = seeded("second", row.name, call)
    operands = operands_of(row, call)
    names = list(operands)
    shape = on_tape(row, call, {}, backend).shape
    g = np.asarray(rng.standard_normal(shape))
    weights = {n: np.asarray(rng.standard_normal(v.shape)) for n, v in operands.items()}

    def first(values, output_grad, create_graph):
        """The gradients, each weighted: what is differentiated again."""
        variables = {n: v if isinstance(v, Var) else Var(v) for n, v in values.items()}
        output = on_tape(row, call, variables, backend)
        return autograd.grad(output, list(variables.values()), output_grad, create_graph=create_graph)

    variables, arriving = {n: Var(v) for n, v in operands.items()}, Var(g)
    with autograd.using(backend):
        grads = first(variables, arriving, True)
        plain = first(operands, g, False)
        for n, v, p in zip(names, grads, plain, strict=True):
            failures.check(np.allclose(v.array, p, rtol=1e-9, atol=1e-9), f"{row.name}{call}: {n} of backward_var is another one")
        scalar = None
        for n, v in zip(names, grads, strict=True):
            term = functions.reduce_sum(v * weights[n])
            scalar = term if scalar is None else scalar + term
        everything = [*variables.values(), arriving]
        second = autograd.grad(scalar, everything) if scalar.requires_grad else [None] * len(everything)
    for n, var, got in zip([*names, "output_grad"], everything, second, strict=True):
        direction = np.asarray(rng.standard_normal(var.shape))

        def along(value, n=n):
            values = {**operands, n: value} if n != "output_grad" else operands
            found = first(values, value if n == "output_grad" else g, False)
            return np.concatenate([np.ravel(f * weights[m]) for m, f in zip(names, found, strict=True)])

        want, size = slope(var.array, direction, along)
        mine = 0.0 if got is None else float((got * direction).sum())
        size = max(1.0, size, 0.0 if got is None else float(np.abs(got * direction).sum()))
        failures.check(abs(mine - want) <= SECOND_RTOL * size, f"{row.name}{call}: {n}·d {mine:.10g}, differences {want:.10g}")


def test_second_order(row, serial):
    failures = Failures()
    for call in chosen_calls(row, 8, "twice"):
        second_order(row, call, serial, failures)
    failures.raise_any()


test_second_order.rows = lambda row: differentiable(row) and row.name not in ONCE


def test_single_precision_stays(row, serial):
    """Gradients, and gradients of gradients, of float32 operands are float32."""
    for call in chosen_calls(row, 4, "single"):
        call = call.cast(np.float32)
        variables = {n: Var(v) for n, v in operands_of(row, call).items()}
        output = on_tape(row, call, variables, serial)
        with autograd.using(serial):
            first = autograd.grad(output, list(variables.values()), Var(np.ones(output.shape, np.float32)), create_graph=True)
            for g, v in zip(first, variables.values(), strict=True):
                assert g.array.dtype == np.float32 and g.shape == v.shape, call
                if g.requires_grad:
                    for second in autograd.grad(g, list(variables.values()), np.ones(g.shape, np.float32), retain_graph=True):
                        assert second is None or second.dtype == np.float32, call


test_single_precision_stays.rows = test_second_order.rows


def test_no_second_derivative_is_said(serial):
    for name in sorted(ONCE & set(ROWS)):
        row = ROWS[name]
        call = chosen_calls(row, 1)[0]
        variables = {n: Var(v) for n, v in operands_of(row, call).items()}
        output = on_tape(row, call, variables, serial)
        with pytest.raises(NotImplementedError, match=name.removesuffix("_with_logsumexp")):
            autograd.grad(output, list(variables.values()), np.ones(output.shape), create_graph=True)


def test_what_an_operation_adds_has_no_gradient(serial):
    """interpolate's extrapolation value and pad's value stay out of the gradient's gradient."""
    x, g = Var(np.ones((1, 1, 3, 3))), np.ones((1, 1, 4, 4))
    crop = {"coordinate_transform": "tf_crop_and_resize", "roi": ((-1.0, 0.5), (0.0, 2.0)), "extrapolation_value": 7.0}
    with autograd.using(serial):
        for y in (autograd.interpolate(x, 4, mode="bilinear", **crop), autograd.pad(x, ((0, 0), (0, 0), (1, 0), (0, 1)), value=7.0)):
            arriving = Var(g)
            (first,) = autograd.grad(y, x, arriving, create_graph=True)
            (second,) = autograd.grad(first, arriving, np.zeros(x.shape), retain_graph=True)
            assert (second == 0).all() and first.array.any()


def test_third_order(serial):
    """Gradients of gradients are on the tape too: d³/dx³ of functions, and of a convolution's three products."""
    x = Var(np.linspace(-1.5, 1.5, 7))
    with autograd.using(serial):
        for function, third in (
            (functions.exp, np.exp),
            (functions.tanh, lambda v: (4 * np.tanh(v) ** 2 - 2 * (1 - np.tanh(v) ** 2)) * (1 - np.tanh(v) ** 2)),
            (lambda v: v**4, lambda v: 24 * v),
        ):
            y = function(x)
            for _ in range(3):
                (y,) = autograd.grad(functions.reduce_sum(y), x, create_graph=True)
            np.testing.assert_allclose(y.array, third(x.array), rtol=1e-10, atol=1e-12)
        w = Var(np.linspace(-1, 1, 3).reshape(1, 1, 3))
        v = Var(np.linspace(0, 1, 8).reshape(1, 1, 8))
        loss = functions.reduce_sum(functions.square(functions.square(functions.conv1d(v, w))))
        (g,) = autograd.grad(loss, w, create_graph=True)
        (h,) = autograd.grad(functions.reduce_sum(g), w, create_graph=True)
        (third,) = autograd.grad(functions.reduce_sum(h), w)
        windows = np.lib.stride_tricks.sliding_window_view(v.array[0, 0], 3)
        s = windows.sum(1)
        np.testing.assert_allclose(third[0, 0], 24 * (windows * (windows @ w.array[0, 0])[:, None] * (s**2)[:, None]).sum(0))


def test_linear_and_bilinear_are_operations():
    have = [n for n in (*LINEAR, *BILINEAR) if hasattr(cpuops.Backend, n)]
    assert len(have) >= 8
    for name in have:
        assert parts(rule_of(name).operands)
