"""Normalisation."""

import numpy as np

from table.base import CHANNELS, SIZES, Bad, Call, Gradient, Row, normal

NAN, INF = float("nan"), float("inf")
EPSILONS = (1e-5, 1e-3, 0.5)


def f(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def rows_of(call, kind):
    """x with the axes that one statistic covers together at the end: [.., statistics, values]."""
    x = call.args["x"].astype(np.float64)
    if kind == "last":
        return x.reshape(-1, x.shape[-1])
    if kind == "channel":
        return np.moveaxis(x, 1, 0).reshape(x.shape[1], -1) if x.size else np.zeros((x.shape[1], 0))
    groups = call.args.get("num_groups", x.shape[1])
    return x.reshape(x.shape[0] * groups, -1) if x.size else np.zeros((0, 0))


def deviations(call, kind, centre=True):
    """The smallest divisor √(variance + ε) and the largest |x̂| of the call."""
    rows = rows_of(call, kind)
    if not rows.size:
        return 1.0, 1.0
    centred = rows - rows.mean(1, keepdims=True) * centre
    root = np.sqrt((centred**2).mean(1, keepdims=True) + call.args.get("epsilon", 1e-5))
    return float(root.min()), float(np.abs(centred / root).max())


def biggest(call, name, default=1.0):
    value = call.args.get(name)
    return default if value is None else float(np.abs(value).max(initial=0.0))


def output_scale(kind, centre=True):
    """To gamma·x̂ and beta at their largest; a statistic to the data it is of."""

    def scale(call, wanted):
        _, hat = deviations(call, kind, centre)
        size = (1 + hat) * biggest(call, "gamma") + biggest(call, "beta", 0.0)
        return [np.abs(wanted[0]) + size] + [np.abs(w) + biggest(call, "x") ** (i + 1) for i, w in enumerate(wanted[1:])]

    return scale


def gradient_scale(kind, centre=True):
    """To the terms: g·gamma/√(variance + ε) for x, √(number of terms)·g·x̂ for gamma, √·g for beta."""

    def scale(call, wanted):
        root, hat = deviations(call, kind, centre)
        g = biggest(call, "output_grad")
        count = call.args["output_grad"].size ** 0.5
        sizes = [g * biggest(call, "gamma") * (1 + hat**2) / root, g * (1 + hat) * count, g * count]
        return [np.abs(w) + s for w, s in zip(wanted, sizes, strict=False)]

    return scale


RTOL = {"float32": 2e-6, "float64": 1e-13}


def epsilon_refusals(make):
    for v in (NAN, INF, -INF, -1e-3, None, "1", True):
        yield make(v)


# ---------------------------------------------------------------- batch_norm

BATCHES = [(2, 3), (5, 1), (4, 33), (2, 3, 7), (3, 2, 4, 5), (2, 3, 2, 3, 4), (1, 3, 2), (9, 17, 1), (2, 8, 130), (3, 5, 9, 16)]


def batch_calls(train):
    def calls(rng):
        shapes = (
            list(BATCHES) + [(2, c, 5) for c in CHANNELS] + [(3, 2, n) for n in SIZES if n] + [(n, 3) for n in SIZES if n > 1]
        )
        shapes += [(0, 3), (0, 3, 4), (2, 0, 3), (2, 3, 0)] if not train else [(0, 3), (0, 3, 4)]
        for i, shape in enumerate(shapes):
            c = shape[1]
            x = normal(rng, *shape) * np.linspace(0.5, 2, c).reshape((-1,) + (1,) * (len(shape) - 2)) + 0.7
            args = {"x": x, "gamma": normal(rng, c) + 1.5, "beta": normal(rng, c)}
            if not train:
                args |= {"mean": normal(rng, c), "variance": np.abs(normal(rng, c)) + 0.3}
            yield Call({**args, "epsilon": EPSILONS[i % 3]})

    return calls


def batch_large(train):
    def large(rng):
        for shape in ((5, 3, 40_001), (8, 33, 40, 41), (20_001, 17), (3, 300, 601)):
            c = shape[1]
            args = {"x": normal(rng, *shape), "gamma": normal(rng, c), "beta": normal(rng, c)}
            if not train:
                args |= {"mean": normal(rng, c), "variance": np.abs(normal(rng, c)) + 0.3}
            yield Call({**args, "epsilon": 1e-5})

    return large


def given_scale(call, wanted):
    """With given statistics: the size of one term."""
    root = np.sqrt(call.args["variance"] + call.args["epsilon"]).min(initial=np.inf)
    hat = (biggest(call, "x") + biggest(call, "mean")) / root
    if "output_grad" not in call.args:
        return [np.abs(wanted[0]) + hat * biggest(call, "gamma") + biggest(call, "beta")]
    g, count = biggest(call, "output_grad"), call.args["output_grad"].size ** 0.5
    return [np.abs(w) + s for w, s in zip(wanted, (g * biggest(call, "gamma") / root, g * hat * count, g * count), strict=True)]


x234, c3, c4 = f(2, 3, 4), f(3), f(4)
v3 = np.abs(c3)


def batch_refusals(train):
    name = "batch_norm_train" if train else "batch_norm"

    def args(x=x234, gamma=c3, beta=c3, mean=c3, variance=v3, epsilon=1e-5):
        return (x, gamma, beta, epsilon) if train else (x, gamma, beta, mean, variance, epsilon)

    yield from epsilon_refusals(lambda v: Bad(f"epsilon {v!r}", args(epsilon=v), {}, "ArgumentError", "epsilon"))
    yield from epsilon_refusals(
        lambda v: Bad(f"epsilon {v!r}", (x234, c3, c3, v3, v, x234), {}, "ArgumentError", "epsilon", name + "_backward")
    )
    yield Bad("gamma of another length", args(gamma=c4), {}, "ShapeError", "gamma")
    yield Bad("gamma of two axes", args(gamma=c3[None]), {}, "ShapeError", "gamma")
    yield Bad("beta of another length", args(beta=c4), {}, "ShapeError", "beta")
    yield Bad("x of one axis", args(x=c3), {}, "ShapeError", "x")
    yield Bad(
        "gamma of another length in the gradient", (x234, c4, c3, v3, 1e-5, x234), {}, "ShapeError", "gamma", name + "_backward"
    )
    yield Bad(
        "mean of another length in the gradient", (x234, c3, c4, v3, 1e-5, x234), {}, "ShapeError", "mean", name + "_backward"
    )
    yield Bad(
        "variance of another length in the gradient",
        (x234, c3, c3, c4, 1e-5, x234),
        {},
        "ShapeError",
        "variance",
        name + "_backward",
    )
    if train:
        yield Bad("one value a channel", args(x=f(1, 3)), {}, "ArgumentError", "x")
        yield Bad("one value a channel, three axes", args(x=f(1, 3, 1)), {}, "ArgumentError", "x")
    else:
        yield Bad("mean of another length", args(mean=c4), {}, "ShapeError", "mean")
        yield Bad("variance of another length", args(variance=c4), {}, "ShapeError", "variance")


BATCH_NORM = Row(
    "batch_norm",
    batch_calls(False),
    batch_large(False),
    (
        Gradient(
            "batch_norm_backward",
            "x gamma mean variance epsilon output_grad",
            ("x", "gamma", "beta"),
            "BatchNormGrads",
            scale=given_scale,
            work=2,
        ),
    ),
    differentiable=("x", "gamma", "beta"),
    scale=given_scale,
    rtol=RTOL,
    flops=lambda call, output: 2 * output.size,
    bad=lambda: batch_refusals(False),
)
BATCH_NORM_TRAIN = Row(
    "batch_norm_train",
    batch_calls(True),
    batch_large(True),
    (
        Gradient(
            "batch_norm_train_backward", "x gamma mean variance epsilon output_grad", ("x", "gamma", "beta"),
            "BatchNormTrainGrads",
            scale=gradient_scale("channel"), work=2,
        ),
    ),
    results=("output", "mean", "variance"),
    result="BatchNormTrain",
    differentiable=("x", "gamma", "beta"),
    scale=output_scale("channel"),
    rtol=RTOL,
    flops=lambda call, output: 5 * output.size,
    bad=lambda: batch_refusals(True),
)  # fmt: skip


# ---------------------------------------------------------------- layer_norm, rms_norm


def row_calls(with_beta):
    def calls(rng):
        shapes = [(3, n) for n in SIZES if n] + [(n, 5) for n in SIZES]
        shapes += [(7,), (2, 3, 5), (2, 3, 4, 17), (0, 4), (2, 0, 4), (1, 1), (5, 1000), (2, 4097)]
        for i, shape in enumerate(shapes):
            args = {"x": normal(rng, *shape, spread=1 + i % 3) + i % 2, "gamma": normal(rng, shape[-1]) + 1.5}
            if with_beta:
                args["beta"] = normal(rng, shape[-1]) if i % 3 else None
            yield Call({**args, "epsilon": EPSILONS[i % 3]})
        yield Call({"x": normal(rng, 3, 9), "gamma": normal(rng, 9)})

    return calls


def row_large(with_beta):
    def large(rng):
        for shape in ((1, 300_001), (50_001, 5), (701, 1003)):
            args = {"x": normal(rng, *shape), "gamma": normal(rng, shape[-1])}
            yield Call({**args, "beta": normal(rng, shape[-1]), "epsilon": 1e-5} if with_beta else {**args, "epsilon": 1e-5})

    return large


def row_refusals(name, with_beta):
    x, g = f(2, 4), f(4)

    def args(x=x, gamma=g, beta=g, epsilon=1e-5):
        return (x, gamma, beta, epsilon) if with_beta else (x, gamma, epsilon)

    yield from epsilon_refusals(lambda v: Bad(f"epsilon {v!r}", args(epsilon=v), {}, "ArgumentError", "epsilon"))
    yield from epsilon_refusals(lambda v: Bad(f"epsilon {v!r}", (x, g, v, x), {}, "ArgumentError", "epsilon", name + "_backward"))
    yield Bad("gamma of another length", args(gamma=c3), {}, "ShapeError", "gamma")
    yield Bad("gamma of two axes", args(gamma=g[None]), {}, "ShapeError", "gamma")
    yield Bad("x without axes", args(x=f()), {}, "ShapeError", "x")
    yield Bad("gamma of another length in the gradient", (x, c3, 1e-5, x), {}, "ShapeError", "gamma", name + "_backward")
    if with_beta:
        yield Bad("beta of another length", args(beta=c3), {}, "ShapeError", "beta")


def row_norm(name, with_beta):
    gives = ("x", "gamma", "beta") if with_beta else ("x", "gamma")
    return Row(
        name,
        row_calls(with_beta),
        row_large(with_beta),
        (
            Gradient(
                name + "_backward", "x gamma epsilon output_grad", gives, "LayerNormGrads" if with_beta else "RmsNormGrads",
                scale=gradient_scale("last", with_beta), work=2,
            ),
        ),
        differentiable=gives,
        optional=("beta",) if with_beta else (),
        defaults={"epsilon": 1e-5},
        scale=output_scale("last", with_beta),
        rtol=RTOL,
        flops=lambda call, output: 6 * output.size,
        bad=lambda: row_refusals(name, with_beta),
    )  # fmt: skip


# ---------------------------------------------------------------- group_norm, instance_norm


def group_calls(instance):
    def calls(rng):
        shapes = [
            ((2, 6), 3),
            ((2, 6, 5), 2),
            ((2, 6, 4, 3), 6),
            ((1, 4, 2, 3, 5), 1),
            ((2, 33, 7), 11),
            ((3, 17, 3), 17),
            ((2, 24, 3, 5), 8),
            ((9, 4, 7, 7), 2),
            ((8, 3, 7, 9), 3),
            ((0, 4, 3), 2),
            ((2, 4, 0), 2),
        ]
        shapes += [((1, c, 4), c) for c in CHANNELS] + [((2, 4, n), 2) for n in SIZES if n] + [((2, 3, 40, 41), 3)]
        for i, (shape, groups) in enumerate(shapes):
            if instance and len(shape) == 2:
                shape = (*shape, 3)
            args = {"x": normal(rng, *shape, spread=1 + i % 3) + i % 2}
            if not instance:
                args["num_groups"] = groups
            args["gamma"] = normal(rng, shape[1]) + 1.5 if i % 4 else None
            args["beta"] = normal(rng, shape[1]) if i % 3 else None
            yield Call({**args, "epsilon": EPSILONS[i % 3]})
        args = {"x": normal(rng, 2, 4, 5)}
        yield Call(args if instance else {**args, "num_groups": 2})

    return calls


def group_large(instance):
    def large(rng):
        for shape, groups in (((2, 4, 60_001), 2), ((8, 32, 30, 41), 8), ((4, 510, 23), 30)):
            args = {"x": normal(rng, *shape)}
            if not instance:
                args["num_groups"] = groups
            yield Call({**args, "gamma": normal(rng, shape[1]), "beta": normal(rng, shape[1]), "epsilon": 1e-5})

    return large


def group_refusals(instance):
    name = "instance_norm" if instance else "group_norm"

    def args(x=x234, groups=3, gamma=c3, beta=c3, epsilon=1e-5):
        return (x, gamma, beta, epsilon) if instance else (x, groups, gamma, beta, epsilon)

    def back(x=x234, groups=3, gamma=c3, epsilon=1e-5, g=x234):
        return (x, gamma, epsilon, g) if instance else (x, groups, gamma, epsilon, g)

    yield from epsilon_refusals(lambda v: Bad(f"epsilon {v!r}", args(epsilon=v), {}, "ArgumentError", "epsilon"))
    yield from epsilon_refusals(
        lambda v: Bad(f"epsilon {v!r}", back(epsilon=v), {}, "ArgumentError", "epsilon", name + "_backward")
    )
    yield Bad("gamma of another length", args(gamma=c4), {}, "ShapeError", "gamma")
    yield Bad("beta of another length", args(beta=c4), {}, "ShapeError", "beta")
    yield Bad("x of one axis", args(x=c3, groups=1), {}, "ShapeError", "x")
    yield Bad("gamma of another length in the gradient", back(gamma=c4), {}, "ShapeError", "gamma", name + "_backward")
    if not instance:
        for v in (0, -1, 2, 6, 2**31, 2**62, 1.0, "3", None, True):
            yield Bad(f"num_groups {v!r}", args(groups=v), {}, "ArgumentError ShapeError", "num_groups")
        yield Bad("num_groups 0 in the gradient", back(groups=0), {}, "ArgumentError", "num_groups", name + "_backward")
        yield Bad(
            "num_groups 2 in the gradient", back(groups=2), {}, "ArgumentError ShapeError", "num_groups", name + "_backward"
        )


def group(name, instance):
    takes = "x gamma epsilon output_grad" if instance else "x num_groups gamma epsilon output_grad"
    result = "InstanceNormGrads" if instance else "GroupNormGrads"
    return Row(
        name,
        group_calls(instance),
        group_large(instance),
        (Gradient(name + "_backward", takes, ("x", "gamma", "beta"), result, scale=gradient_scale("group"), work=2),),
        differentiable=("x", "gamma", "beta"),
        optional=("gamma", "beta"),
        defaults={"epsilon": 1e-5, "gamma": None},
        scale=output_scale("group"),
        rtol=RTOL,
        flops=lambda call, output: 6 * output.size,
        bad=lambda: group_refusals(instance),
    )


ROWS = [
    BATCH_NORM,
    BATCH_NORM_TRAIN,
    row_norm("layer_norm", True),
    row_norm("rms_norm", False),
    group("group_norm", False),
    group("instance_norm", True),
]
