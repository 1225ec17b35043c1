"""The families of operations: forward methods (for Backend) and default gradients (for BackwardOps)."""

import importlib
import importlib.util

FAMILIES = {
    "elementwise": "Elementwise",
    "activation": "Activation",
    "reduce": "Reduce",
    "softmax": "Softmax",
    "loss": "Loss",
    "matmul": "Matmul",
    "embedding": "Embedding",
    "conv": "Conv",
    "pool": "Pool",
    "norm": "Norm",
}


def _classes(package, suffix):
    out = []
    for module, name in FAMILIES.items():
        if importlib.util.find_spec(f"{package}.{module}") is None:
            continue
        out.append(getattr(importlib.import_module(f"{package}.{module}"), name + suffix))
    return tuple(out)


def forward_families():
    return _classes(__name__, "")


def gradient_families():
    return _classes(__name__, "Gradients")
