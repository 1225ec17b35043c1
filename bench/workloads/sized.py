"""One operation of every family at six sizes, for the exponent of time against work."""

from .base import OperationWorkload
from .conv import layer
from .elementwise import one
from .matmul import lookup, square
from .norm import rows
from .pool import window
from .reduce import logits, over

# family -> (method, {label: maker}): six sizes, each about four times the work of the one before
SIZED = {
    "elementwise": ("exp", {f"{n}": one(n) for n in (4**k * 1000 for k in range(6))}),
    "activation": ("gelu", {f"{n}": one(n) for n in (4**k * 1000 for k in range(6))}),
    "reduce": ("reduce_sum", {f"{n}x1000": over((n, 1000), axis=1) for n in (4**k for k in range(6))}),
    "softmax": ("softmax", {f"{n}x1000": over((n, 1000)) for n in (4**k for k in range(6))}),
    "loss": ("cross_entropy", {f"{n}x1000": logits(n, 1000) for n in (4**k for k in range(6))}),
    "matmul": ("matmul", {f"{n}": square(n) for n in (32, 51, 81, 128, 203, 323)}),
    "embedding": ("embedding", {f"{n}x256": lookup(5000, 256, n) for n in (4**k * 10 for k in range(6))}),
    "conv": ("conv2d", {f"32to32@{n}": layer(1, 32, 32, (n, n), (3, 3), padding=1) for n in (8, 16, 32, 64, 128, 256)}),
    "depthwise": ("conv2d", {f"32g32@{n}": layer(1, 32, 32, (n, n), (3, 3), 32, padding=1) for n in (8, 16, 32, 64, 128, 256)}),
    "pool": ("max_pool2d", {f"32@{n}": window((1, 32, n, n), 3, stride=2, padding=1) for n in (16, 32, 64, 128, 256, 512)}),
    "norm": ("layer_norm", {f"{n}x256": rows((n, 256)) for n in (4**k * 4 for k in range(6))}),
}

SERIES = {
    family: [OperationWorkload(family, method, f"sized-{label}", make=make) for label, make in makers.items()]
    for family, (method, makers) in SIZED.items()
}
