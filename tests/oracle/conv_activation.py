"""A convolution and the activation of its result."""

from oracle.conv import family as convolution
from oracle.matmul import activated


def activated_family(n):
    """The three functions of n axes."""
    plain, backward = (convolution(n)[f"conv{n}d{part}"] for part in ("", "_backward"))

    def with_sum(x, weight, bias=None, *, activation, **options):
        """The activation of the sum, and the sum."""
        total = plain(x, weight, bias, **options)
        return activated(activation)[0](total), total

    def forward(x, weight, bias=None, *, activation, **options):
        """The activation of the sum."""
        return with_sum(x, weight, bias, activation=activation, **options)[0]

    def gradients(x, weight, bias, sum, output_grad, *, activation, x_grad=True, **options):
        """The convolution's gradients of what arrives at the sum."""
        grads = backward(x, weight, output_grad * activated(activation)[1](sum), bias=bias is not None, **options)
        return grads[0] if x_grad else None, grads[1], grads[2]

    return {
        f"conv{n}d_activation": forward,
        f"conv{n}d_activation_with_sum": with_sum,
        f"conv{n}d_activation_backward": gradients,
    }


for _n in (1, 2, 3):
    globals().update(activated_family(_n))
