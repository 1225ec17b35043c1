"""Max and average pooling, regular and adaptive; how rows are made: pool.h, formulas: the files that it includes at its end.

x is [planes, D, H, W, C] and the output [planes, OD, OH, OW, C]. geometry: (planes, C, D axis, H axis, W axis), an axis
(in, out, kernel, stride, before, after, dilation), with kernel 0 for adaptive windows. Parallel over blocks of rows (the
forward: of the output; avg_pool_backward: of x) or over planes and parts of planes (the gradients of the maximum); each
cell is written by one thread.
"""
cimport numpy as cnp
from cython.parallel cimport prange

from cpuops._kernels.blocks cimport even_size
from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "pool.h" nogil:
    ctypedef struct pool_axis:
        Py_ssize_t in_ "in"
        Py_ssize_t out, kernel, stride, before, after, dilation
    ctypedef struct pool_plan:
        const void *x
        const void *g
        void *out
        char *index
        Py_ssize_t index_size
        pool_axis d, h, w
        Py_ssize_t planes, channels, lanes
        int include_pad
        double divisor
        Py_ssize_t units, block, next
        size_t bytes
    enum: SIMD_BYTES
    ctypedef void (*pool_work)(const pool_plan *p, Py_ssize_t lo, Py_ssize_t hi, void *memory) noexcept
    void plan_forward(pool_plan *p) noexcept
    void plan_average(pool_plan *p) noexcept
    void plan_backward(pool_plan *p) noexcept
    void plan_parts(pool_plan *p) noexcept
    void plan_scatter(pool_plan *p) noexcept
    Py_ssize_t blocks_of(const pool_plan *p) noexcept
    void work_blocks(pool_plan *p, pool_work work, void *memory) noexcept
    pool_work max_pool_f32, max_pool_f64, max_pool_backward_f32, max_pool_backward_f64, max_pool_scatter_f32, max_pool_scatter_f64
    pool_work avg_pool_f32, avg_pool_f64, avg_pool_backward_f32, avg_pool_backward_f64


cdef pool_axis axis_of(tuple t):
    cdef pool_axis a
    a.in_, a.out, a.kernel, a.stride, a.before, a.after, a.dilation = t
    return a


cdef pool_plan plan_of(tuple geometry, cnp.ndarray x, cnp.ndarray g, cnp.ndarray out, cnp.ndarray indices):
    cdef pool_plan p
    p.planes, p.channels = geometry[0], geometry[1]
    p.lanes = SIMD_BYTES // out.itemsize
    p.d, p.h, p.w = axis_of(geometry[2]), axis_of(geometry[3]), axis_of(geometry[4])
    p.x = data(x) if x is not None else NULL
    p.g = data(g) if g is not None else NULL
    p.out = data(out)
    p.index = <char *> data(indices) if indices is not None else NULL
    p.index_size = indices.itemsize if indices is not None else 0
    p.include_pad = 1
    p.divisor = 0
    p.next = 0
    return p


cdef Py_ssize_t run(pool_plan *p, pool_work work, int num_threads) except -1:
    """`work` on every block, by as many workers as there are threads or blocks, each with scratch of its own; the number of
    blocks."""
    p.block = even_size(p.units, p.block, num_threads)
    cdef Py_ssize_t blocks = blocks_of(p)
    cdef int slot, slots = num_threads if num_threads < blocks else <int> blocks
    cdef Block memory = scratch(p.bytes * (slots if slots > 1 else 1))
    cdef char *mp = <char *> memory.ptr
    with nogil:
        if slots <= 1:
            work_blocks(p, work, mp)
        else:
            for slot in prange(slots, schedule='static', chunksize=1, num_threads=num_threads):
                work_blocks(p, work, mp + slot * p.bytes)
    return blocks


def max_pool(real tag, cnp.ndarray x, cnp.ndarray out, cnp.ndarray indices, tuple geometry, int num_threads):
    """OUT out = maxima of IN x, OUT indices (int32, int64, or None) = their flat places in a plane."""
    cdef pool_plan p = plan_of(geometry, x, None, out, indices)
    plan_forward(&p)
    return run(&p, max_pool_f32 if real is float else max_pool_f64, num_threads)


def max_pool_backward(real tag, cnp.ndarray g, cnp.ndarray x, cnp.ndarray out, tuple geometry, int num_threads):
    """OUT out (like IN x) = IN g at the first maximum of each window, added up."""
    cdef pool_plan p = plan_of(geometry, x, g, out, None)
    plan_parts(&p)
    return run(&p, max_pool_backward_f32 if real is float else max_pool_backward_f64, num_threads)


def max_pool_scatter(real tag, cnp.ndarray g, cnp.ndarray indices, cnp.ndarray out, tuple geometry, int num_threads):
    """OUT out (like x) = IN g at IN indices (int64), added up."""
    cdef pool_plan p = plan_of(geometry, None, g, out, indices)
    plan_scatter(&p)
    return run(&p, max_pool_scatter_f32 if real is float else max_pool_scatter_f64, num_threads)


def avg_pool(real tag, cnp.ndarray x, cnp.ndarray out, tuple geometry, bint include_pad, double divisor, int num_threads):
    """OUT out = averages of IN x; divisor 0: the number of taps, those in padding too when include_pad."""
    cdef pool_plan p = plan_of(geometry, x, None, out, None)
    p.include_pad = include_pad
    p.divisor = divisor
    plan_average(&p)
    return run(&p, avg_pool_f32 if real is float else avg_pool_f64, num_threads)


def avg_pool_backward(real tag, cnp.ndarray g, cnp.ndarray out, tuple geometry, bint include_pad, double divisor,
                      int num_threads):
    """OUT out (like x) = IN g over its divisor, from every window that holds the cell."""
    cdef pool_plan p = plan_of(geometry, None, g, out, None)
    p.include_pad = include_pad
    p.divisor = divisor
    plan_backward(&p)
    return run(&p, avg_pool_backward_f32 if real is float else avg_pool_backward_f64, num_threads)
