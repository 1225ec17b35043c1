"""Windows as columns and back: what each tap of the kernel reads of each window."""

import numpy as np

from oracle.conv import Taps, per_axis


def columns(x, kernel_size, stride, padding, dilation):
    kernel = per_axis(kernel_size, 2)
    taps = Taps(x.shape[2:], kernel, stride, padding, dilation)
    out = np.zeros((*x.shape[:2], *kernel, *taps.out))
    for tap, outs, ins in taps:
        out[(..., *tap, *outs)] = x[(..., *ins)]
    return out.reshape(x.shape[0], x.shape[1] * kernel[0] * kernel[1], taps.out[0] * taps.out[1])


def image(columns, size, kernel_size, stride, padding, dilation):
    size, kernel = per_axis(size, 2), per_axis(kernel_size, 2)
    taps = Taps(size, kernel, stride, padding, dilation)
    channels = columns.shape[1] // (kernel[0] * kernel[1])
    columns = columns.reshape(columns.shape[0], channels, *kernel, *taps.out)
    out = np.zeros((columns.shape[0], channels, *size))
    for tap, outs, ins in taps:
        out[(..., *ins)] += columns[(..., *tap, *outs)]
    return out


def unfold4d(x, kernel_size, *, stride=1, padding=0, dilation=1):
    return columns(x, kernel_size, stride, padding, dilation)


def fold4d(x, output_size, kernel_size, *, stride=1, padding=0, dilation=1):
    return image(x, output_size, kernel_size, stride, padding, dilation)


def unfold4d_backward(output_grad, input_size, kernel_size, *, stride=1, padding=0, dilation=1):
    return image(output_grad, input_size, kernel_size, stride, padding, dilation)


def fold4d_backward(output_grad, kernel_size, *, stride=1, padding=0, dilation=1):
    return columns(output_grad, kernel_size, stride, padding, dilation)
