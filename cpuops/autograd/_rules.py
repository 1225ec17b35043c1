"""Which method is the gradient of which operand, and what it takes: read from the signatures of `Backend` and `BackwardOps`.

    conv2d(x, weight, bias=None, *, stride=1, …)
        x       conv2d_x_backward(x, weight, output_grad, *, stride=1, …)
        weight  conv2d_weight_backward(x, weight, output_grad, *, stride=1, …)
        bias    conv2d_bias_backward(x, bias, output_grad, …)

An operation's gradients are the methods ``<operation>_<operand>_backward``, or else ``<operation>_backward``, which belongs to the
first operand when it returns one array (it has `out=`) and to the fields ``<operand>_grad`` of its NamedTuple otherwise. Their
arguments are found by name: the operation's own arguments, the fields of its result, and the gradient that arrives (at a further
result: ``<field>_grad``; that result is then a Var too). What the names do not say stands in the tables below, one line each.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from typing import Any

from .. import results
from ..backend import Backend
from ..backward import BackwardOps
from ..errors import NoDerivativeError
from . import _separate

__all__ = ["NOT_DIFFERENTIABLE", "Rule", "differentiable_operations", "rule_of"]

# operations that have no gradient, methods that are none
NOT_DIFFERENTIABLE = frozenset({"argmax", "name", "num_threads"})
# gradients that are no operation's own: another form of one that is
OTHER_FORMS = frozenset({"conv2d_input_backward"})
# operation -> the method that its forward runs, because its gradient takes more than it returns
ACTIVATED = ("linear_activation", *(f"conv{n}d_activation" for n in (1, 2, 3)))
RUNS = {"attention": "attention_with_logsumexp", **{op: f"{op}_with_sum" for op in ACTIVATED}}
# operation -> when its output serves the gradient in place of what the run returns besides: relu's slope is that of its result
SERVES = dict.fromkeys(ACTIVATED, "isinstance(activation, str) and activation == 'relu'")
# operations that clip at exact bounds: their result lies within them where the operand does, and serves the gradient in its place: what
# follows mostly keeps it anyway
CLIPS = frozenset({"relu", "relu6"})
# operation -> the gradient's method, where that is not the name with _backward
GRADIENTS = {"attention_with_logsumexp": "attention_backward", **{f"{op}_with_sum": f"{op}_backward" for op in ACTIVATED}}
# method -> its NamedTuple, where that is not the name in capitals with Grads
TUPLES = {
    **{f"{pair}_backward": "PairGrads" for pair in ("add", "sub", "mul", "div", "maximum", "minimum")},
    "grid_sample_2d_backward": "GridSampleGrads",
}
# (method, field) -> operand, where the field is not the operand's name with _grad
FIELDS = {("attention_backward", "bias_grad"): "attn_bias"}
# a method's option that asks for one of its gradients -> the operand; and the NamedTuple that it then returns
ASKED = {("attention_backward", "bias_grad"): "attn_bias", **{(f"{op}_backward", "x_grad"): "x" for op in ACTIVATED}}
ASKED_TUPLES = {"attention_backward": "AttentionBiasGrads"}
# arguments of gradients that follow from others
ARRIVING = frozenset({"output_grad", "grad_loss"})
DERIVED = {"original_shape": "x.shape", "input_size": "x.shape[2:]"}
# operations whose only operand enters linearly: the gradient of the gradient is the operation again
LINEAR = {
    **dict.fromkeys(["reduce_sum", "reduce_mean", "unfold4d", "fold4d", "interpolate", "pad"], "x"),
    **{f"{kind}_pool{n}d": "x" for kind in ("avg", "adaptive_avg") for n in (1, 2, 3)},
    "embedding": "weights",
}  # fmt: skip
# options of theirs that are added: a gradient has none of them
ADDED = frozenset({"extrapolation_value", "value"})
# operations that are linear in x and in weight, whose three products are gradients of each other
BILINEAR = tuple(f"{kind}{n}d" for kind in ("conv", "conv_transpose") for n in (1, 2, 3))


def camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


@dataclass(frozen=True)
class Argument:
    """One parameter of a method."""

    name: str
    keyword: bool
    default: Any = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True)
class GradientCall:
    """A call that gives the gradients to `operands`: `text`, where the saved values stand under their names.

    `fields` are those of the NamedTuple it returns, "" for an array. `uses` are the names it takes.
    """

    operands: tuple[str, ...]
    fields: tuple[str, ...]
    text: str
    uses: tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """How an operation is run and differentiated."""

    name: str
    run: str
    arguments: tuple[Argument, ...]
    operands: tuple[str, ...]
    # the fields of the run's result, () for an array; whether the operation returns only the first
    results: tuple[str, ...]
    first_only: bool
    gradients: tuple[GradientCall, ...]
    # operands that a gradient does not depend on, though it takes them for their shape
    ignored: tuple[str, ...] = ()
    # saved values that are no argument or result: (name, expression in the forward)
    derived: tuple[tuple[str, str], ...] = ()
    # results after the first that a gradient arrives at too
    more_results: tuple[str, ...] = ()
    # a condition on which the operation is run itself, and its output kept as every field of the run's result
    serves: str = ""

    @property
    def class_name(self) -> str:
        return camel(self.name.removesuffix("_backward")) + ("BackwardBackward" if self.name.endswith("_backward") else "Backward")


@cache
def arguments_of(cls: Any, name: str) -> tuple[Argument, ...]:
    """The parameters of a method but for `self` (or `ops`) and `out`."""
    parameters = list(inspect.signature(getattr(cls, name)).parameters.values())[1:]
    return tuple(Argument(p.name, p.kind is p.KEYWORD_ONLY, p.default) for p in parameters if p.name != "out")


def has_out(cls: Any, name: str) -> bool:
    return "out" in inspect.signature(getattr(cls, name)).parameters


def gradient_home(name: str) -> Any:
    """Where a gradient's method is: `BackwardOps`, the module of separate gradients, or None."""
    return BackwardOps if hasattr(BackwardOps, name) else _separate if hasattr(_separate, name) else None


def differentiable_operations() -> list[str]:
    """Every operation of `Backend` that has a gradient, and the gradients that are operations themselves."""
    names = [n for n in dir(Backend) if not n.startswith(("_", "has_")) and not n.endswith("_backward")]
    own = [n for n in names if n not in NOT_DIFFERENTIABLE]
    again = [f"{n}_backward" for n in LINEAR if n in own]
    again += [f"{n}_{operand}_backward" for n in BILINEAR if n in own for operand in ("x", "weight")]
    return own + again


@cache
def rule_of(name: str) -> Rule:
    """The rule of an operation.

    Raises
    ------
    NoDerivativeError
        Its gradient cannot be told from the signatures: a line in a table of this module is missing.
    """
    if name.endswith("_backward"):
        return bilinear_rule(name) if name.endswith(("_x_backward", "_weight_backward")) else linear_rule(name)
    run = RUNS.get(name, name)
    arguments = arguments_of(Backend, name)
    fields = () if has_out(Backend, run) else getattr(results, camel(run))._fields
    known = {a.name for a in arguments} | set(fields or ("output",))
    calls = []
    for argument in arguments:
        method = f"{name}_{argument.name}_backward"
        if not argument.keyword and gradient_home(method):
            calls.append(gradient_call(name, method, known, arguments, (argument.name,), ("",)))
    if not calls:
        method = GRADIENTS.get(run, f"{run}_backward")
        if gradient_home(method) is None:
            raise NoDerivativeError(f"{name}: gradient is nowhere, expected a method {method} of BackwardOps")
        operands, fields_ = gives(method, arguments)
        calls.append(gradient_call(name, method, known, arguments, operands, fields_))
    given = {operand for call in calls for operand in call.operands}
    operands = tuple(a.name for a in arguments if a.name in given)
    if given - set(operands):
        raise NoDerivativeError(f"{name}: gradient to {given - set(operands)} is of no operand, expected a line in FIELDS")
    more = tuple(f for f in fields[1:] if any(f"grad_of_{f}" in call.text for call in calls))
    return Rule(name, run, arguments, operands, tuple(fields), run != name, tuple(calls), more_results=more, serves=SERVES.get(name, ""))


def gives(method: str, arguments: tuple[Argument, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The operands whose gradients a method returns, and the fields they stand in."""
    if has_out(gradient_home(method), method):
        return (arguments[0].name,), ("",)
    tuple_name = ASKED_TUPLES.get(method) or TUPLES.get(method) or camel(method.removesuffix("_backward")) + "Grads"
    if not hasattr(results, tuple_name):
        raise NoDerivativeError(f"{method}: result is no {tuple_name}, expected a line in TUPLES")
    fields = getattr(results, tuple_name)._fields
    return tuple(FIELDS.get((method, f)) or f.removesuffix("_grad") for f in fields), fields


def gradient_call(
    op: str, method: str, known: set[str], arguments: tuple[Argument, ...], operands: tuple[str, ...], fields: tuple[str, ...]
) -> GradientCall:
    home = gradient_home(method)
    texts, uses = [], []
    optional = {a.name for a in arguments if a.keyword}
    for argument in arguments_of(home, method):
        name = "output" if op in CLIPS and argument.name == "x" else argument.name
        if (method, name) in ASKED:
            value = f"needs_{ASKED[method, name]} is not None"
        elif name in ARRIVING:
            value = "g"
        elif argument.keyword and name not in optional and name in operands:
            continue  # a flag that shares an operand's name
        elif name in known or (name.endswith("_shape") and name.removesuffix("_shape") in known) or name in DERIVED:
            value = name
            uses.append(name)
        elif name.endswith("_grad") and name.removesuffix("_grad") in known:  # what arrives at a further result
            value = f"grad_of_{name.removesuffix('_grad')}"
        elif not argument.required:
            continue
        else:
            raise NoDerivativeError(f"{op}: argument {name} of {method} is unknown, expected a line in DERIVED or ARRIVING")
        texts.append(f"{name}={value}" if argument.keyword else value)
    callee = f"ops.{method}(" if home is BackwardOps else f"separate.{method}(ops, "
    # the separate functions' first argument is `ops`
    return GradientCall(operands, fields, f"{callee}{', '.join(texts)})", tuple(uses))


def linear_rule(name: str) -> Rule:
    """``avg_pool2d_backward`` as an operation on output_grad, whose gradient is ``avg_pool2d``."""
    forward = name.removesuffix("_backward")
    operand = LINEAR[forward]
    arguments = arguments_of(BackwardOps, name)
    known = {a.name for a in arguments}
    texts, uses = ["g"], []
    for argument in arguments_of(Backend, forward):
        if argument.name == operand:
            continue
        if argument.name in ADDED:
            texts.append(f"{argument.name}=0.0")
        elif argument.name in known or argument.name == "output_size":  # which an adaptive pool's gradient reads off its operand
            uses.append(argument.name)
            texts.append(f"{argument.name}={argument.name}")
    spatial = "output_grad.shape[1:-1] if layout == 'NHWC' else output_grad.shape[2:]" if "layout" in known else "output_grad.shape[2:]"
    derived = () if "output_size" in known or "output_size" not in uses else (("output_size", f"({spatial})"),)
    call = GradientCall(("output_grad",), ("",), f"ops.{forward}({', '.join(texts)})", tuple(uses))
    ignored = tuple(a.name for a in arguments if a.name == operand)
    return Rule(name, name, arguments, ("output_grad",), (), False, (call,), ignored, derived)


def bilinear_rule(name: str) -> Rule:
    """A gradient of a convolution as an operation, whose gradients are the other two products."""
    forward, operand = name.removesuffix("_backward").rsplit("_", 1)
    other = "weight" if operand == "x" else "x"
    arguments = arguments_of(BackwardOps, name)
    values = {"output_grad": "output_grad", operand: "g", other: other}

    def call(cls: Any, method: str, gives: str) -> GradientCall:
        texts, uses = [], []
        for argument in arguments_of(cls, method):
            if argument.keyword:
                value = argument.name
            elif argument.name in values:
                value = values[argument.name]
            else:
                continue  # the bias
            texts.append(f"{argument.name}={value}")
            if value != "g":
                uses.append(value)
        return GradientCall((gives,), ("",), f"ops.{method}({', '.join(texts)})", tuple(uses))

    calls = (call(BackwardOps, f"{forward}_{other}_backward", other), call(Backend, forward, "output_grad"))
    ignored = tuple(a.name for a in arguments if a.name == operand)
    return Rule(name, name, arguments, (other, "output_grad"), (), False, calls, ignored)
