"""Batch, layer, RMS, group and instance normalisation; formulas and the cut of the work: norm.h.

Rows are [B, G, C, S], one mean each (b, g); batch normalisation is [B, C, S], one mean each c. A call is one or a few
stages; within one, workers take units until none is left, and each cell and each partial sum has one writer. Between
stages partial sums are added in their order. Sums in double.
"""
cimport numpy as cnp
from cython.parallel cimport parallel, threadid

from cpuops._kernels.tasks cimport Tasks, tasks_begin, tasks_next
from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "norm.h" nogil:
    ctypedef struct norm_plan:
        const void *x
        const void *g
        const void *gamma
        const void *beta
        const void *residual
        void *total
        void *out
        void *mean
        void *variance
        void *gamma_grad
        void *beta_grad
        Py_ssize_t batch, groups, channels, run
        double epsilon
        int centre, train
        Py_ssize_t threads, units
        int stage
        double *memory
        size_t bytes
    ctypedef void (*norm_cut)(norm_plan *p) noexcept
    ctypedef int (*norm_stage)(norm_plan *p) noexcept
    ctypedef void (*norm_work)(const norm_plan *p, Py_ssize_t unit) noexcept
    norm_cut rows_forward_cut_f32, rows_forward_cut_f64, rows_backward_cut_f32, rows_backward_cut_f64, batch_cut_f32, batch_cut_f64
    norm_stage rows_forward_stage_f32, rows_forward_stage_f64, rows_backward_stage_f32, rows_backward_stage_f64
    norm_stage batch_forward_stage_f32, batch_forward_stage_f64, batch_backward_stage_f32, batch_backward_stage_f64
    norm_work rows_forward_f32, rows_forward_f64, rows_backward_f32, rows_backward_f64
    norm_work batch_forward_f32, batch_forward_f64, batch_backward_f32, batch_backward_f64


cdef inline void *at(cnp.ndarray a):
    return data(a) if a is not None else NULL


cdef norm_plan plan_of(cnp.ndarray x, cnp.ndarray gamma, cnp.ndarray out, tuple shape, double epsilon):
    cdef norm_plan p
    p.x, p.gamma, p.out = at(x), at(gamma), at(out)
    p.g = p.beta = p.residual = NULL
    p.total = p.mean = p.variance = p.gamma_grad = p.beta_grad = NULL
    p.batch, p.groups, p.channels, p.run = shape
    p.epsilon = epsilon
    p.centre, p.train, p.stage = 1, 0, 0
    return p


cdef Py_ssize_t run(norm_plan *p, norm_cut cut, norm_stage stage, norm_work work, int num_threads) except -1:
    """All stages of a call; `stage` tells whether there is one more. The units of the finest."""
    cut(p)
    cdef Block memory = scratch(p.bytes)
    cdef Tasks queue
    cdef Py_ssize_t unit, units = 0
    p.threads = num_threads
    p.memory = <double *> memory.ptr
    with nogil:
        while stage(p):
            units = max(units, p.units)
            if num_threads <= 1 or p.units <= 1:
                for unit in range(p.units):
                    work(p, unit)
            else:
                tasks_begin(&queue, p.units, num_threads)
                with parallel(num_threads=num_threads):
                    unit = tasks_next(&queue, threadid())
                    while unit >= 0:
                        work(p, unit)
                        unit = tasks_next(&queue, threadid())
    return units


def rows(real tag, cnp.ndarray x, cnp.ndarray residual, cnp.ndarray total, cnp.ndarray gamma, cnp.ndarray beta, cnp.ndarray out,
         tuple shape, double epsilon, bint centre, int num_threads):
    """OUT out = IN x normalised by rows; shape: (B, G, C, S); gamma, beta: IN [G * C] or None; centre: 0 for RMS. With IN residual
    (or None) it is OUT total = x + residual that is normalised."""
    cdef norm_plan p = plan_of(x, gamma, out, shape, epsilon)
    p.beta, p.residual, p.total = at(beta), at(residual), at(total)
    p.centre = centre
    return run(&p, rows_forward_cut_f32 if real is float else rows_forward_cut_f64,
               rows_forward_stage_f32 if real is float else rows_forward_stage_f64,
               rows_forward_f32 if real is float else rows_forward_f64, num_threads)


def rows_backward(real tag, cnp.ndarray x, cnp.ndarray gamma, cnp.ndarray g, cnp.ndarray residual, cnp.ndarray out,
                  cnp.ndarray gamma_grad, cnp.ndarray beta_grad, tuple shape, double epsilon, bint centre, int num_threads):
    """OUT out (like IN x), gamma_grad, beta_grad [G * C] (or None), from the output's gradient IN g; IN residual (or None) is added
    to out."""
    cdef norm_plan p = plan_of(x, gamma, out, shape, epsilon)
    p.g, p.residual, p.gamma_grad, p.beta_grad = at(g), at(residual), at(gamma_grad), at(beta_grad)
    p.centre = centre
    return run(&p, rows_backward_cut_f32 if real is float else rows_backward_cut_f64,
               rows_backward_stage_f32 if real is float else rows_backward_stage_f64,
               rows_backward_f32 if real is float else rows_backward_f64, num_threads)


def batch(real tag, cnp.ndarray x, cnp.ndarray gamma, cnp.ndarray beta, cnp.ndarray mean, cnp.ndarray variance, cnp.ndarray out,
          tuple shape, double epsilon, bint train, int num_threads):
    """OUT out = IN x normalised by channels; shape: (B, 1, C, S); mean, variance [C]: IN, or OUT when train."""
    cdef norm_plan p = plan_of(x, gamma, out, shape, epsilon)
    p.beta, p.mean, p.variance = at(beta), at(mean), at(variance)
    p.train = train
    return run(&p, batch_cut_f32 if real is float else batch_cut_f64,
               batch_forward_stage_f32 if real is float else batch_forward_stage_f64,
               batch_forward_f32 if real is float else batch_forward_f64, num_threads)


def batch_backward(real tag, cnp.ndarray x, cnp.ndarray gamma, cnp.ndarray mean, cnp.ndarray variance, cnp.ndarray g, cnp.ndarray out,
                   cnp.ndarray gamma_grad, cnp.ndarray beta_grad, tuple shape, double epsilon, bint train, int num_threads):
    """OUT out (like IN x), gamma_grad, beta_grad [C], from the output's gradient IN g; train: mean and variance depend on x."""
    cdef norm_plan p = plan_of(x, gamma, out, shape, epsilon)
    p.g, p.mean, p.variance, p.gamma_grad, p.beta_grad = at(g), at(mean), at(variance), at(gamma_grad), at(beta_grad)
    p.train = train
    return run(&p, batch_cut_f32 if real is float else batch_cut_f64,
               batch_backward_stage_f32 if real is float else batch_backward_stage_f64,
               batch_backward_f32 if real is float else batch_backward_f64, num_threads)
