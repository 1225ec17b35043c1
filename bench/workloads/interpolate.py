"""Resampling."""

from ..operations import Call
from .base import normal, operation


def resized(shape, *size, **options):
    return lambda rng: Call({"x": normal(rng, *shape), "output_size": size}, options)


# what an upsampling decoder doubles, and an image that a data pipeline shrinks
DECODER, IMAGE = (2, 64, 112, 112), (4, 3, 448, 448)

WORKLOADS = [
    *operation("interpolate", "interpolate", "decoder-nearest-x2", resized(DECODER, 224, 224, mode="nearest")),
    *operation("interpolate", "interpolate", "decoder-bilinear-x2", resized(DECODER, 224, 224)),
    *operation("interpolate", "interpolate", "decoder-bicubic-x2", resized(DECODER, 224, 224, mode="bicubic")),
    *operation("interpolate", "interpolate", "image-nearest-half", resized(IMAGE, 224, 224, mode="nearest")),
    *operation("interpolate", "interpolate", "image-bilinear-half", resized(IMAGE, 224, 224)),
    *operation("interpolate", "interpolate", "image-bicubic-half", resized(IMAGE, 224, 224, mode="bicubic")),
    *operation(
        "interpolate", "interpolate", "image-bicubic-antialias-224",
        resized((4, 3, 500, 375), 224, 224, mode="bicubic", antialias=True, exclude_outside=True, cubic_a=-0.5),
    ),
    *operation("interpolate", "interpolate", "pyramid-bilinear-13-to-20", resized((4, 256, 13, 13), 20, 20), gradients=()),
    *operation("interpolate", "interpolate", "audio-linear-16k-to-22k", resized((8, 2, 16000), 22050), gradients=()),
    *operation("interpolate", "interpolate", "volume-trilinear-x2", resized((1, 16, 16, 56, 56), 32, 112, 112), gradients=()),
]  # fmt: skip
