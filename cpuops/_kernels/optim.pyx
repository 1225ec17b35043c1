"""Optimizer steps of many parameters in one call; formulas: optim_real.h.

Parallel over blocks of cells of all parameters; each cell is written by one thread, from its own state.
"""
cimport numpy as cnp
from cython.parallel cimport parallel, threadid

from cpuops._kernels.blocks cimport block_count, block_end, block_start
from cpuops._kernels.tasks cimport Tasks, tasks_begin, tasks_next
from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "optim.h" nogil:
    ctypedef struct optim_step:
        double lr, weight_decay, momentum, dampening, beta1, beta2, epsilon, correction1, root_correction2
        int nesterov, first, decoupled, amsgrad, centered
    void sgd_f32(const optim_step *s, float *p, const float *g, float *a, float *b, float *c, Py_ssize_t n) noexcept
    void sgd_f64(const optim_step *s, double *p, const double *g, double *a, double *b, double *c, Py_ssize_t n) noexcept
    void adam_f32(const optim_step *s, float *p, const float *g, float *a, float *b, float *c, Py_ssize_t n) noexcept
    void adam_f64(const optim_step *s, double *p, const double *g, double *a, double *b, double *c, Py_ssize_t n) noexcept
    void rmsprop_f32(const optim_step *s, float *p, const float *g, float *a, float *b, float *c, Py_ssize_t n) noexcept
    void rmsprop_f64(const optim_step *s, double *p, const double *g, double *a, double *b, double *c, Py_ssize_t n) noexcept
    double square_sum_f32(const float *x, Py_ssize_t n) noexcept
    double square_sum_f64(const double *x, Py_ssize_t n) noexcept

cdef enum:
    BLOCK = 16384   # cells; with the most state five arrays of 64 KB in float32

SQUARE_BLOCK = BLOCK   # cells that give one sum of square_sum

cdef enum Kind:
    SGD, ADAM, RMSPROP


# a block of one parameter, and the same cells of its state (NULL where there is none)
cdef struct Piece:
    void *p
    const void *g
    void *a
    void *b
    void *c
    Py_ssize_t n


cdef inline void step(real tag, Kind kind, const optim_step *s, const Piece *t) noexcept nogil:
    if real is float:
        if kind == SGD:
            sgd_f32(s, <float *> t.p, <const float *> t.g, <float *> t.a, <float *> t.b, <float *> t.c, t.n)
        elif kind == ADAM:
            adam_f32(s, <float *> t.p, <const float *> t.g, <float *> t.a, <float *> t.b, <float *> t.c, t.n)
        else:
            rmsprop_f32(s, <float *> t.p, <const float *> t.g, <float *> t.a, <float *> t.b, <float *> t.c, t.n)
    else:
        if kind == SGD:
            sgd_f64(s, <double *> t.p, <const double *> t.g, <double *> t.a, <double *> t.b, <double *> t.c, t.n)
        elif kind == ADAM:
            adam_f64(s, <double *> t.p, <const double *> t.g, <double *> t.a, <double *> t.b, <double *> t.c, t.n)
        else:
            rmsprop_f64(s, <double *> t.p, <const double *> t.g, <double *> t.a, <double *> t.b, <double *> t.c, t.n)


cdef inline void *cells(list arrays, Py_ssize_t k, Py_ssize_t offset):
    """Where the cells of an array begin that lie `offset` bytes behind its first; NULL without arrays."""
    return NULL if arrays is None else <char *> data(<cnp.ndarray> arrays[k]) + offset


cdef void run(real tag, Kind kind, const optim_step *s, list p, list g, list a, list b, list c, int num_threads):
    cdef Py_ssize_t i, k, n, offset, pieces = 0
    cdef Block table
    cdef Piece *t
    for k in range(len(p)):
        pieces += block_count(cnp.PyArray_SIZE(<cnp.ndarray> p[k]), BLOCK)
    table = scratch(pieces * sizeof(Piece))
    t = <Piece *> table.ptr
    for k in range(len(p)):
        n = cnp.PyArray_SIZE(<cnp.ndarray> p[k])
        for i in range(block_count(n, BLOCK)):
            offset = block_start(i, BLOCK) * sizeof(real)
            t.p, t.g, t.a, t.b, t.c = (
                cells(p, k, offset), cells(g, k, offset), cells(a, k, offset), cells(b, k, offset), cells(c, k, offset)
            )
            t.n = block_end(i, BLOCK, n) - block_start(i, BLOCK)
            t += 1
    t = <Piece *> table.ptr
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for i in range(pieces):
                step(tag, kind, s, t + i)
        else:
            tasks_begin(&queue, pieces, num_threads)
            with parallel(num_threads=num_threads):
                i = tasks_next(&queue, threadid())
                while i >= 0:
                    step(tag, kind, s, t + i)
                    i = tasks_next(&queue, threadid())


def sgd(real tag, list p, list g, list a, double lr, double weight_decay, double momentum, double dampening, int nesterov,
        int first, int num_threads):
    """INOUT the parameters p and momenta a (None where momentum is 0) by one step along IN g: lists of arrays alike."""
    cdef optim_step s
    s.lr, s.weight_decay, s.momentum, s.dampening, s.nesterov, s.first = lr, weight_decay, momentum, dampening, nesterov, first
    run(tag, SGD, &s, p, g, a, None, None, num_threads)


def adam(real tag, list p, list g, list a, list b, list c, double lr, double weight_decay, double beta1, double beta2,
         double epsilon, double correction1, double root_correction2, int decoupled, int num_threads):
    """INOUT the parameters p, moments a and b, and the largest second moments c (None: not amsgrad) by one step along IN g."""
    cdef optim_step s
    s.lr, s.weight_decay, s.beta1, s.beta2, s.epsilon = lr, weight_decay, beta1, beta2, epsilon
    s.correction1, s.root_correction2, s.decoupled, s.amsgrad = correction1, root_correction2, decoupled, c is not None
    run(tag, ADAM, &s, p, g, a, b, c, num_threads)


def rmsprop(real tag, list p, list g, list a, list b, list c, double lr, double weight_decay, double alpha, double momentum,
            double epsilon, int num_threads):
    """INOUT the parameters p, mean squares a, momenta b and means c (None: no momentum, not centered) by one step along IN g."""
    cdef optim_step s
    s.lr, s.weight_decay, s.beta2, s.momentum, s.epsilon, s.centered = lr, weight_decay, alpha, momentum, epsilon, c is not None
    run(tag, RMSPROP, &s, p, g, a, b, c, num_threads)


cdef inline double block_square_sum(const real *x, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t lo = block_start(i, BLOCK), count = block_end(i, BLOCK, n) - lo
    if real is float:
        return square_sum_f32(x + lo, count)
    else:
        return square_sum_f64(x + lo, count)


def square_sum(real tag, cnp.ndarray x, cnp.ndarray out, Py_ssize_t n, int num_threads):
    """OUT out[blocks] (float64) = sums of squares of blocks of SQUARE_BLOCK of IN x[n]; parallel over them."""
    cdef const real *xp = <const real *> data(x)
    cdef double *sums = <double *> data(out)
    cdef Py_ssize_t i, blocks = block_count(n, BLOCK)
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for i in range(blocks):
                sums[i] = block_square_sum(xp, i, n)
        else:
            tasks_begin(&queue, blocks, num_threads)
            with parallel(num_threads=num_threads):
                i = tasks_next(&queue, threadid())
                while i >= 0:
                    sums[i] = block_square_sum(xp, i, n)
                    i = tasks_next(&queue, threadid())
    return blocks
