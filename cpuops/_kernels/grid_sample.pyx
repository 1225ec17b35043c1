"""Samples at the places of a grid and the gradients to both operands; formulas and ways: grid_sample.h.

options: (taps an axis, padding as grid_sample.h numbers it, align_corners). Parallel over channels and places (the output), over
channels (x's gradient) or over places (the grid's); each cell is written by one thread.
"""
cimport numpy as cnp
from cython.parallel cimport prange

from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "grid_sample.h" nogil:
    ctypedef struct grid_plan:
        const void *x
        const void *grid
        const void *g
        void *out
        Py_ssize_t images, channels, height, width, places, taps, padding, align, threads, units
        size_t bytes
    ctypedef void (*grid_work)(const grid_plan *p, Py_ssize_t unit, void *memory) noexcept
    void plan_of_sample_f32(grid_plan *p) noexcept
    void plan_of_sample_f64(grid_plan *p) noexcept
    void plan_of_x_gradient_f32(grid_plan *p) noexcept
    void plan_of_x_gradient_f64(grid_plan *p) noexcept
    void plan_of_grid_gradient_f32(grid_plan *p) noexcept
    void plan_of_grid_gradient_f64(grid_plan *p) noexcept
    void work_units(grid_plan *p, grid_work work, void *memory) noexcept
    grid_work sample_f32, sample_f64, x_gradient_f32, x_gradient_f64, grid_gradient_f32, grid_gradient_f64


cdef grid_plan plan_of(tuple shape, cnp.ndarray grid, cnp.ndarray x, cnp.ndarray g, cnp.ndarray out, tuple options, int num_threads):
    cdef grid_plan p
    p.images, p.channels, p.height, p.width = shape
    p.places = cnp.PyArray_DIM(grid, 1) * cnp.PyArray_DIM(grid, 2)
    p.taps, p.padding, p.align = options
    p.threads = num_threads
    p.grid, p.out = data(grid), data(out)
    p.x = data(x) if x is not None else NULL
    p.g = data(g) if g is not None else NULL
    return p


cdef Py_ssize_t run(grid_plan *p, grid_work work, int num_threads) except -1:
    cdef int slot, slots = num_threads if num_threads < p.units else <int> p.units
    cdef Block memory = scratch(p.bytes * (slots if slots > 1 else 1))
    cdef char *mp = <char *> memory.ptr
    with nogil:
        if slots <= 1:
            work_units(p, work, mp)
        else:
            for slot in prange(slots, schedule='static', chunksize=1, num_threads=num_threads):
                work_units(p, work, mp + slot * p.bytes)
    return p.units


def grid_sample(real tag, cnp.ndarray x, cnp.ndarray grid, cnp.ndarray out, tuple shape, tuple options, int num_threads):
    """OUT out [N, C, OH, OW] = IN x [N, C, H, W] (its shape in `shape`) at IN grid [N, OH, OW, 2]."""
    cdef grid_plan p = plan_of(shape, grid, x, None, out, options, num_threads)
    if real is float:
        plan_of_sample_f32(&p)
        return run(&p, sample_f32, num_threads)
    else:
        plan_of_sample_f64(&p)
        return run(&p, sample_f64, num_threads)


def x_gradient(real tag, cnp.ndarray grid, cnp.ndarray g, cnp.ndarray out, tuple shape, tuple options, int num_threads):
    """OUT out (like x) = IN g [N, C, OH, OW] spread to the cells that its samples were made of."""
    cdef grid_plan p = plan_of(shape, grid, None, g, out, options, num_threads)
    if real is float:
        plan_of_x_gradient_f32(&p)
        return run(&p, x_gradient_f32, num_threads)
    else:
        plan_of_x_gradient_f64(&p)
        return run(&p, x_gradient_f64, num_threads)


def grid_gradient(real tag, cnp.ndarray x, cnp.ndarray grid, cnp.ndarray g, cnp.ndarray out, tuple shape, tuple options,
                  int num_threads):
    """OUT out (like grid) = sum over the channels of IN g times the slope of the sample; two taps an axis or four."""
    cdef grid_plan p = plan_of(shape, grid, x, g, out, options, num_threads)
    if real is float:
        plan_of_grid_gradient_f32(&p)
        return run(&p, grid_gradient_f32, num_threads)
    else:
        plan_of_grid_gradient_f64(&p)
        return run(&p, grid_gradient_f64, num_threads)
