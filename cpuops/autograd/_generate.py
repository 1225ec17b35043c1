"""A function on Vars and a GradFn for every rule, written as source text and compiled once.

What is written for ``relu``:

    def relu(x, *, backend=None):
        settings = current()
        …
        if isinstance(x, Var):
            edge_x = x._edge; x = x.array
        …
        output = backend.relu(x)
        var = new(Var); var.array = output
        if settings.recording and (edge_x is not None):
            node = new(ReluBackward)
            node.id = next_id(); node._backend = backend; node._edges = (edge_x,); node._saved = (output,)
            …
    def _compute(ops, g, needs, saved):
        output, = saved
        return (ops.relu_backward(g, output),)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _check, results
from ..backend import Backend
from ..errors import NoDerivativeError, message
from . import _separate
from ._context import current, default_backend
from ._group_norm import GroupNormFromParts
from ._parts import by_result
from ._rules import DERIVED, Argument, Rule, camel
from ._var import Checked, GradFn, Var, attached, new, next_id

__all__ = ["make"]

# operations whose gradients may be output_grad itself, or one array for two operands
SHARING = frozenset({"add", "sub", "add_layer_norm", "add_rms_norm"})


def constant(op: str, name: str, var: Var) -> Any:
    """The array of a Var that stands where no gradient goes."""
    if var.requires_grad:
        raise NoDerivativeError(message(op, name, "a Var that requires a gradient", "an array or a Var without: there is no derivative to it"))
    return var.array


def plain(op: str, name: str, value: Any) -> Any:
    """An operand that is no Var: numbers and None as they are, everything else as an array."""
    return value if value is None or type(value) in (int, float) else _check.array(op, name, value)


def listed(names: Any) -> str:
    """The text of a tuple."""
    return "(" + "".join(f"{name}, " for name in names) + ")"


def parameter_list(arguments: tuple[Argument, ...]) -> str:
    texts, starred = [], False
    for a in arguments:
        if a.keyword and not starred:
            texts.append("*")
            starred = True
        texts.append(a.name if a.required else f"{a.name}=default_{a.name}")
    return ", ".join([*texts, *([] if starred else ["*"]), "backend=None"])


def saved_values(rule: Rule) -> dict[str, str]:
    """What is kept: the name in the gradient's call and the expression in the forward, kept only for who uses it."""
    values: dict[str, str] = {}
    for call in rule.gradients:
        for name in call.uses:
            if name in values:
                continue
            derived = dict(rule.derived).get(name) or DERIVED.get(name)
            if derived:
                value = derived
            elif name.endswith("_shape") and name not in {a.name for a in rule.arguments}:
                value = name.removesuffix("_shape") + ".shape"
            elif name in rule.results:
                value = f"result.{name}"
            else:
                value = name
            users = [o for c in rule.gradients if name in c.uses for o in c.operands]
            unconditional = set(users) == set(rule.operands) or not (value in rule.operands or "." in value or value == "output")
            if not unconditional:
                value = f"({value} if {' or '.join(f'edge_{u} is not None' for u in users)} else None)"
            values[name] = value
    return values


def forward_text(rule: Rule) -> str:
    further = [f"more_{field}" if field in rule.more_results else f"result.{field}" for field in rule.results[1:]]
    lines = [
        f"def {rule.name}({parameter_list(rule.arguments)}):",
        "    settings = current()",
        "    if backend is None:",
        "        backend = settings.backend",
        "        if backend is None:",
        "            backend = default_backend()",
    ]
    for a in rule.arguments:
        if a.name in rule.operands:
            lines += [
                f"    if isinstance({a.name}, Var):",
                f"        edge_{a.name} = {a.name}._edge",
                f"        {a.name} = {a.name}.array",
                "    else:",
                f"        edge_{a.name} = None",
                f"        if type({a.name}) is not ndarray:",
                f"            {a.name} = plain({rule.name!r}, {a.name!r}, {a.name})",
            ]
        elif a.name in rule.ignored:
            lines += [f"    if isinstance({a.name}, Var):", f"        {a.name} = {a.name}.array"]
        elif not a.keyword:
            lines += [f"    if isinstance({a.name}, Var):", f"        {a.name} = constant({rule.name!r}, {a.name!r}, {a.name})"]
    call = ", ".join(f"{a.name}={a.name}" if a.keyword else a.name for a in rule.arguments)
    recorded = " or ".join(f"edge_{o} is not None" for o in rule.operands)
    if rule.first_only:  # what only the gradient takes is not computed for nothing
        served = f"Result(*(backend.{rule.name}({call}),) * {len(rule.results)}) if {rule.serves} else " if rule.serves else ""
        lines += [
            f"    if settings.recording and ({recorded}):",
            f"        result = {served}backend.{rule.run}({call})",
            "        output = result[0]",
            "    else:",
            f"        output = backend.{rule.name}({call})",
        ]
    elif rule.results:
        lines += [f"    result = backend.{rule.run}({call})", "    output = result[0]"]
    else:
        lines += [f"    output = backend.{rule.run}({call})"]
    lines += [
        "    var = new(Var)",
        "    var.array = output",
        f"    if settings.recording and ({recorded}):",
        "        node = new(Node)",
        "        node.id = next_id()",
        "        node._backend = backend",
        f"        node._edges = {listed(f'edge_{o}' for o in rule.operands)}",
        f"        node._saved = {listed(saved_values(rule).values())}",
        "        if settings.checking:",
        "            node._saved = Checked(node._saved)",
        "        var._edge = node",
        *(f"        more_{field} = attached(result.{field}, node._result({rule.results.index(field)}))" for field in rule.more_results),
        "    else:",
        "        var._edge = None",
        *(f"        more_{field} = attached(result.{field}, None)" for field in rule.more_results),
        "    return var" if rule.first_only or not rule.results else f"    return type(result){listed(['var', *further])}",
    ]
    return "\n".join(lines)


def backward_text(rule: Rule) -> str:
    names = list(saved_values(rule))
    lines = ["def compute(ops, g, needs, saved):"]
    if names:
        lines.append(f"    {listed(names)} = saved")
    if len(rule.operands) > 1:
        lines.append(f"    {listed(f'needs_{o}' for o in rule.operands)} = needs")
    if rule.more_results:
        places = listed(rule.results.index(field) for field in rule.more_results)
        lines.append(f"    {listed(['g', *(f'grad_of_{field}' for field in rule.more_results)])} = by_result(g, {places})")
    values: dict[str, str] = {}
    for i, call in enumerate(rule.gradients):
        if len(rule.gradients) == 1 and call.fields == ("",):
            values[call.operands[0]] = call.text
            continue
        if call.fields == ("",):
            values[call.operands[0]] = f"{call.text} if needs_{call.operands[0]} is not None else None"
            continue
        lines.append(f"    grads{i} = {call.text}")
        for operand, field in zip(call.operands, call.fields, strict=True):
            values[operand] = f"grads{i}.{field} if needs_{operand} is not None else None"
    lines.append(f"    return {listed(values[o] for o in rule.operands)}")
    return "\n".join(lines)


def tracked(rule: Rule) -> dict[int, int]:
    """Which saved arrays are operands or results: {position: position of the operand's edge, or -1 for the first result}."""
    results = {"output": -1, **{field: -1 - i for i, field in enumerate(rule.results) if i == 0 or field in rule.more_results}}
    return {
        i: rule.operands.index(name) if name in rule.operands else results[name]
        for i, name in enumerate(saved_values(rule))
        if name in rule.operands or name in results
    }


# operations whose GradFn has a constructor of its own
BASES: dict[str, type[GradFn]] = {"group_norm": GroupNormFromParts}


def make(rule: Rule) -> tuple[Callable[..., Any], type[GradFn]]:
    """The function and the GradFn of a rule."""
    base = BASES.get(rule.name, GradFn)
    namespace: dict[str, Any] = {
        "Checked": Checked, "Var": Var, "constant": constant, "current": current, "default_backend": default_backend, "ndarray": np.ndarray,
        "attached": attached, "by_result": by_result, "new": new, "next_id": next_id, "plain": plain, "separate": _separate,
    }  # fmt: skip
    namespace.update({f"default_{a.name}": a.default for a in rule.arguments if not a.required})
    if rule.serves:
        namespace["Result"] = getattr(results, camel(rule.run))
    text = forward_text(rule) + "\n" + backward_text(rule)
    exec(compile(text, f"<cpuops.autograd {rule.name}>", "exec"), namespace)
    compute, function = namespace.pop("compute"), namespace[rule.name]
    compute.__qualname__ = f"{rule.class_name}._compute"
    body = {
        "__slots__": (),
        "__doc__": base.__doc__ if base is not GradFn else f"The recorded operation :func:`{rule.name}`.",
        "__module__": "cpuops.autograd",
        "op": rule.name,
        "saved_names": tuple(saved_values(rule)),
        "tracked": tracked(rule),
        "shares": rule.name in SHARING,
        "_compute": staticmethod(compute),
    }
    node = type(rule.class_name, (base,), body)
    namespace["Node"] = node
    function.__module__ = "cpuops.autograd"
    first = ((getattr(Backend, rule.name, None) or function).__doc__ or "").partition("\n")[0]
    function.__doc__ = f"{first}\n\n    As :meth:`cpuops.Backend.{rule.name}`, on Vars and arrays; `backend` is taken for this call."
    return function, node
