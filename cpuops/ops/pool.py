"""Max and average pooling in one, two and three dimensions, regular and adaptive, and their gradients, by kind."""

from .adaptive_pool import AdaptivePool, AdaptivePoolGradients
from .avg_pool import AvgPool, AvgPoolGradients
from .max_pool import MaxPool, MaxPoolGradients

__all__ = ["Pool", "PoolGradients"]


class Pool(MaxPool, AvgPool, AdaptivePool):
    """Forward pooling."""


class PoolGradients(MaxPoolGradients, AvgPoolGradients, AdaptivePoolGradients):
    """Gradients of pooling."""
