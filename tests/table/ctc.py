"""Connectionist temporal classification."""

import numpy as np
import oracle

from table.base import Bad, Call, Gradient, Row, normal

H31, H62 = 2**31, 2**62


def log_softmax(x):
    highest = x.max(-1, keepdims=True)
    return x - highest - np.log(np.exp(x - highest).sum(-1, keepdims=True))


def make(rng, frames, batch, classes, labels, *, input_lengths=None, target_lengths=None, blank=0, kind=np.int64, repeats=False):
    """A call whose targets end in garbage."""
    others = np.array([c for c in range(classes) if c != blank] or [0])
    targets = others[rng.integers(0, 1 if repeats else len(others), (batch, labels))]
    if target_lengths is None:
        target_lengths = rng.integers(0, labels + 1, batch)
    if input_lengths is None:
        input_lengths = rng.integers(min(frames, 2 * labels + 1), frames + 1, batch)
    input_lengths, target_lengths = (np.asarray(v, kind) for v in (input_lengths, target_lengths))
    targets = targets.astype(kind)
    for n in range(batch):
        targets[n, target_lengths[n] :] = np.iinfo(kind).max if n % 2 else 99
    args = {"log_probs": log_softmax(normal(rng, frames, batch, classes, spread=1.5)), "targets": targets}
    return {**args, "input_lengths": input_lengths, "target_lengths": target_lengths, "blank": blank}


def call(args, **options):
    """Where a loss is infinite, differences tell nothing."""
    finite = np.isfinite(oracle.ctc_loss(**args)).all()
    return Call(args, options, smooth=bool(finite or options.get("zero_infinity")))


def ctc_calls(rng):
    for labels in (1, 2, 3, 6, 7, 8, 9, 15, 16, 17, 24, 33):
        yield call(make(rng, 2 * labels + 5, 3, 5, labels, target_lengths=[labels, labels - 1, labels // 2]))
    for classes in (2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 130):
        yield call(make(rng, 9, 2, classes, 4, blank=classes // 2))
    for frames in (1, 2, 3, 15, 16, 17, 31, 33, 70):  # mantissas are brought back every 16 frames
        yield call(make(rng, frames, 4, 4, 2), zero_infinity=True)
    for kind in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split():
        yield call(make(rng, 9, 3, 5, 4, kind=kind, blank=4))
    yield call(make(rng, 12, 3, 6, 5, target_lengths=[5, 0, 3], repeats=True))  # equal labels need a blank between them
    yield call(make(rng, 9, 2, 3, 5, input_lengths=[9, 9], target_lengths=[5, 5], repeats=True))  # one alignment only
    for zero in (False, True):
        # no alignment; no frames; neither frames nor labels; and one that is like any other
        args = make(rng, 6, 5, 4, 4, input_lengths=[3, 0, 0, 2, 6], target_lengths=[4, 2, 0, 2, 3], repeats=True)
        yield call(args, zero_infinity=zero)
        yield call(make(rng, 0, 2, 3, 2, input_lengths=[0, 0], target_lengths=[0, 1]), zero_infinity=zero)
        # classes that cannot be: an alignment avoids them, or there is none
        args = make(rng, 8, 3, 5, 2, input_lengths=[8, 7, 8], target_lengths=[2, 2, 1])
        args["log_probs"][:, :, int(args["targets"][0, 0])] = -np.inf
        args["log_probs"][3, 1:, 0] = -np.inf
        yield call({**args, "log_probs": log_softmax(args["log_probs"])}, zero_infinity=zero)
    yield call(make(rng, 5, 0, 4, 3))
    yield call(make(rng, 5, 3, 4, 0))
    yield call(make(rng, 5, 2, 1, 0))
    args = make(rng, 9, 3, 4, 3)
    yield call({k: v for k, v in args.items() if k != "blank"})
    # numbers that are no logarithms of probabilities, far from the range of exp
    for spread in (30.0, 3000.0):
        args = make(rng, 20, 3, 5, 4)
        yield Call({**args, "log_probs": normal(rng, 20, 3, 5, spread=spread) - spread}, smooth=False)


def ctc_large(rng):
    yield Call(make(rng, 200, 13, 20, 20))
    yield Call(make(rng, 150, 9, 300, 17, blank=299), {"zero_infinity": True})


def ctc_refusals():
    x = np.log(np.full((4, 2, 3), 1 / 3, np.float32))
    t, frames, labels, g = np.array([[1, 2], [2, 1]]), np.array([4, 4]), np.array([2, 1]), np.ones(2, np.float32)

    def both(why, errors, names, x=x, t=t, frames=frames, labels=labels, blank=0):
        yield Bad(why, (x, t, frames, labels, blank), {}, errors, names)
        yield Bad(why, (x, t, frames, labels, g, blank), {}, errors, names, "ctc_loss_backward")

    for label in (3, -1, 2**32 + 1, H62, -H62):
        for at in ((0, 0), (0, 1), (1, 0)):
            bad = t.copy()
            bad[at] = label
            yield from both(f"label {label} at {at}", "IndexRangeError", "targets", t=bad)
    yield from both("label 2**64 - 1", "IndexRangeError", "targets", t=np.array([[2**64 - 1, 0], [0, 0]], np.uint64))
    for n in (5, -1, H31, 2**32, H62):
        yield from both(f"input length {n}", "IndexRangeError", "input_lengths", frames=np.array([4, n]))
    for n in (3, -1, H31, 2**32, H62):
        yield from both(f"target length {n}", "IndexRangeError", "target_lengths", labels=np.array([n, 1]))
    for n in (3, -1, H31, 2**32, H62, 2**70, 1.0, "0", None, True):
        yield from both(f"blank {n!r}", "IndexRangeError ArgumentError", "blank", blank=n)
    for axes in (x[0], x[None]):
        yield from both("log_probs of other axes", "ShapeError", "log_probs", x=axes)
    yield from both("no classes", "ShapeError", "log_probs", x=x[:, :, :0])
    yield from both("targets of another batch", "ShapeError", "targets", t=t[:1])
    yield from both("targets in a row", "ShapeError", "targets", t=t.reshape(-1))
    yield from both("input lengths of another batch", "ShapeError", "input_lengths", frames=frames[:1])
    yield from both("target lengths of another batch", "ShapeError", "target_lengths", labels=np.array([1, 1, 1]))
    yield from both("target lengths of two axes", "ShapeError", "target_lengths", labels=labels[:, None])
    for flag in (1, None, "yes"):
        options = {"zero_infinity": flag}
        yield Bad(f"zero_infinity {flag!r}", (x, t, frames, labels), options, "ArgumentError", "zero_infinity")
        args = (x, t, frames, labels, g)
        yield Bad(f"zero_infinity {flag!r}", args, options, "ArgumentError", "zero_infinity", "ctc_loss_backward")
    for shape in ((3,), (2, 1), ()):
        args = (x, t, frames, labels, np.ones(shape, np.float32))
        yield Bad(f"gradient of shape {shape}", args, {}, "ShapeError", "grad_loss", "ctc_loss_backward")


def loss_scale(call, wanted):
    """To the loss, and to a rounding a frame."""
    return [np.where(np.isfinite(w), np.abs(w), 0) + len(call.args["log_probs"]) + 1 for w in wanted]


def gradient_scale(call, wanted):
    """To probabilities of 1: they come out of logarithms whose sums have a rounding a frame."""
    size = 1 + np.abs(wanted[0]).max(initial=0.0)
    return [np.full(wanted[0].shape, size * (len(call.args["log_probs"]) + 10) / 10)]


CTC_LOSS = Row(
    "ctc_loss",
    ctc_calls,
    ctc_large,
    (
        Gradient(
            "ctc_loss_backward",
            "log_probs targets input_lengths target_lengths grad_loss blank",
            ("log_probs",),
            scale=gradient_scale,
            work=3,
        ),
    ),
    differentiable=("log_probs",),
    defaults={"blank": 0},
    on_surface={"log_probs": log_softmax},
    scale=loss_scale,
    rtol={"float32": 1e-6, "float64": 1e-13},
    flops=lambda call, output: 10 * len(call.args["log_probs"]) * (2 * int(call.args["target_lengths"].sum()) + output.size),
    bad=ctc_refusals,
)

ROWS = [CTC_LOSS]
