"""Padding of any number of axes and its gradient; formulas and order: pad.h, pad_real.h.

axes: a tuple (in, out, before, mode) for each axis; inner: reals a cell. Parallel over blocks of what is written.
"""
cimport numpy as cnp
from cython.parallel cimport prange

from cpuops._kernels.blocks cimport block_count, block_end, block_start, even_size
from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "pad.h" nogil:
    ctypedef struct pad_axis:
        Py_ssize_t in_ "in"
        Py_ssize_t out, before, mode
    ctypedef struct pad_plan:
        const void *from_ "from"
        void *to
        const pad_axis *axes
        Py_ssize_t n, inner
        double value
    Py_ssize_t PAD_BLOCK
    ctypedef void (*pad_work)(const pad_plan *p, Py_ssize_t lo, Py_ssize_t hi) noexcept
    pad_work pad_cells_f32, pad_cells_f64, pad_gather_f32, pad_gather_f64


cdef void run_block(pad_work work, const pad_plan *p, Py_ssize_t b, Py_ssize_t size, Py_ssize_t cells) noexcept nogil:
    work(p, block_start(b, size), block_end(b, size, cells))


cdef Py_ssize_t run(pad_work work, cnp.ndarray source, cnp.ndarray to, tuple axes, Py_ssize_t inner, double value,
                    int num_threads) except -1:
    cdef Py_ssize_t n = len(axes), i, b, cells = cnp.PyArray_SIZE(to)
    cdef Py_ssize_t size = even_size(cells, PAD_BLOCK, num_threads), blocks = block_count(cells, size)
    cdef Block memory = scratch(n * sizeof(pad_axis))
    cdef pad_axis *a = <pad_axis *> memory.ptr
    cdef pad_plan p
    for i in range(n):
        a[i].in_, a[i].out, a[i].before, a[i].mode = axes[i]
    p.from_, p.to, p.axes, p.n, p.inner, p.value = data(source), data(to), a, n, inner, value
    with nogil:
        if num_threads <= 1:
            for b in range(blocks):
                run_block(work, &p, b, size, cells)
        else:
            for b in prange(blocks, schedule='dynamic', num_threads=num_threads):
                run_block(work, &p, b, size, cells)
    return blocks


def pad(real tag, cnp.ndarray x, cnp.ndarray out, tuple axes, Py_ssize_t inner, double value, int num_threads):
    """OUT out = IN x amid its padding."""
    return run(pad_cells_f32 if real is float else pad_cells_f64, x, out, axes, inner, value, num_threads)


def pad_backward(real tag, cnp.ndarray g, cnp.ndarray out, tuple axes, Py_ssize_t inner, int num_threads):
    """OUT out (like x) = the sum of IN g over the cells that show each of x's."""
    return run(pad_gather_f32 if real is float else pad_gather_f64, g, out, axes, inner, 0, num_threads)
