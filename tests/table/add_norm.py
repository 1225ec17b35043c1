"""A residual added and the sum normalised."""

from dataclasses import replace

from table.base import Bad, Call, Gradient, Row, normal
from table.norm import RTOL, c3, epsilon_refusals, f, gradient_scale, output_scale, row_calls, row_large


def with_residual(make):
    """The calls of the norm, with a residual behind x."""

    def calls(rng):
        for call in make(rng):
            x, *rest = call.args.items()
            yield Call(dict([x, ("residual", normal(rng, *x[1].shape)), *rest]), call.options)

    return calls


def of_the_sum(scale, grads):
    """The norm's scale, where its x is the sum of two operands; both have one gradient."""

    def scaled(call, wanted):
        total = call.args["sum"] if "sum" in call.args else call.args["x"] + call.args["residual"]
        call = replace(call, args={**call.args, "x": total})
        if not grads:
            return scale(call, wanted)
        first, *rest = scale(call, [wanted[0], *wanted[2:]])
        return [first, first, *rest]

    return scaled


def refusals(name, with_beta):
    x, g = f(2, 4), f(4)

    def args(x=x, residual=x, gamma=g, beta=g, epsilon=1e-5):
        return (x, residual, gamma, beta, epsilon) if with_beta else (x, residual, gamma, epsilon)

    yield from epsilon_refusals(lambda v: Bad(f"epsilon {v!r}", args(epsilon=v), {}, "ArgumentError", "epsilon"))
    yield from epsilon_refusals(lambda v: Bad(f"epsilon {v!r}", (x, g, v, x), {}, "ArgumentError", "epsilon", name + "_backward"))
    for shape in ((4,), (1, 4), (2, 1), (4, 2), (2, 4, 1), ()):
        yield Bad(f"a residual of shape {shape}", args(residual=f(*shape)), {}, "ShapeError", "residual")
        yield Bad(f"a sum_grad of shape {shape}", (x, g, 1e-5, x, f(*shape)), {}, "ShapeError", "sum_grad", name + "_backward")
    yield Bad("gamma of another length", args(gamma=c3), {}, "ShapeError", "gamma")
    yield Bad("x without axes", args(x=f(), residual=f()), {}, "ShapeError", "x")
    yield Bad("gamma of another length in the gradient", (x, c3, 1e-5, x), {}, "ShapeError", "gamma", name + "_backward")
    if with_beta:
        yield Bad("beta of another length", args(beta=c3), {}, "ShapeError", "beta")


def add_norm(name, with_beta):
    gives = ("x", "residual", "gamma", "beta") if with_beta else ("x", "residual", "gamma")
    result = "AddLayerNorm" if with_beta else "AddRmsNorm"
    return Row(
        name,
        with_residual(row_calls(with_beta)),
        with_residual(row_large(with_beta)),
        (
            Gradient(
                name + "_backward", "sum gamma epsilon output_grad sum_grad", gives, result + "Grads",
                scale=of_the_sum(gradient_scale("last", with_beta), True), work=2, given={"sum_grad": lambda call: None},
            ),
        ),
        results=("output", "sum"),
        result=result,
        differentiable=gives,
        optional=("beta",) if with_beta else (),
        defaults={"epsilon": 1e-5},
        scale=of_the_sum(output_scale("last", with_beta), False),
        rtol=RTOL,
        flops=lambda call, output: 7 * output.size,
        bad=lambda: refusals(name, with_beta),
    )  # fmt: skip


ROWS = [add_norm("add_layer_norm", True), add_norm("add_rms_norm", False)]
