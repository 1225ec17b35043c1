"""The table that Module.summary returns."""

from __future__ import annotations

from typing import Any

from ..autograd import Var, no_grad
from ._module import Module

__all__ = ["summary"]


def summary(module: Module, *inputs: Any) -> str:
    """A line for every part: name, kind, shape of its result, number of its own parameters."""
    shapes = shapes_of_results(module, inputs) if inputs else {}
    rows = [("name", "kind", "result", "parameters")]
    for name, part in module.named_modules():
        own = sum(p.size for n, p in part.named_parameters() if "." not in n)
        indent = "  " * (name.count(".") + bool(name))
        kind = repr(part).partition("\n")[0].rstrip("(")
        rows.append((indent + (name.rpartition(".")[2] or "–"), kind, shapes.get(id(part), ""), f"{own:,}"))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = ["  ".join([row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2].ljust(widths[2]), row[3].rjust(widths[3])]) for row in rows]
    rule = "-" * len(lines[0])
    trained = sum(p.size for p in module.parameters() if p.requires_grad)
    size = sum(p.array.nbytes for p in module.parameters())
    return "\n".join([lines[0], rule, *lines[1:], rule, f"{module.num_parameters():,} parameters, {trained:,} trained, {size:,} bytes"])


def shapes_of_results(module: Module, inputs: tuple[Any, ...]) -> dict[int, str]:
    """{id of a part: shape of what it returns} in one call, without recording or training."""
    found: dict[int, str] = {}
    modes = [(part, part.training) for part in module.modules()]
    # a forward of the object's own, which some program may have put there
    kept = {id(part): vars(part)["forward"] for part, _ in modes if "forward" in vars(part)}

    def watched(part: Module) -> Any:
        forward = part.forward

        def run(*args: Any, **options: Any) -> Any:
            result = forward(*args, **options)
            found[id(part)] = shape_text(result)
            return result

        return run

    try:
        for part, _ in modes:
            part.training = False
            vars(part)["forward"] = watched(part)
        with no_grad():
            module(*inputs)
    finally:
        for part, mode in modes:
            part.training = mode
            vars(part).pop("forward", None)
            if id(part) in kept:
                vars(part)["forward"] = kept[id(part)]
    return found


def shape_text(result: Any) -> str:
    if isinstance(result, Var):
        return str(list(result.shape))
    return ", ".join(shape_text(r) for r in result) if isinstance(result, list | tuple) else ""
