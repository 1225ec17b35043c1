"""Optimizer steps; formulas: optim_real.h. Parallel over blocks of cells; each cell is written by one thread, from its own state."""
cimport numpy as cnp
from cython.parallel cimport prange

from cpuops._kernels.blocks cimport block_count, block_end, block_start
from cpuops._kernels.types cimport data, real

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


cdef inline void block(Kind kind, const optim_step *s, real *p, const real *g, real *a, real *b, real *c, Py_ssize_t i,
                       Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t lo = block_start(i, BLOCK), count = block_end(i, BLOCK, n) - lo
    cdef real *al = a + lo if a is not NULL else NULL
    cdef real *bl = b + lo if b is not NULL else NULL
    cdef real *cl = c + lo if c is not NULL else NULL
    if real is float:
        if kind == SGD:
            sgd_f32(s, p + lo, g + lo, al, bl, cl, count)
        elif kind == ADAM:
            adam_f32(s, p + lo, g + lo, al, bl, cl, count)
        else:
            rmsprop_f32(s, p + lo, g + lo, al, bl, cl, count)
    else:
        if kind == SGD:
            sgd_f64(s, p + lo, g + lo, al, bl, cl, count)
        elif kind == ADAM:
            adam_f64(s, p + lo, g + lo, al, bl, cl, count)
        else:
            rmsprop_f64(s, p + lo, g + lo, al, bl, cl, count)


cdef void run(Kind kind, const optim_step *s, real *p, const real *g, real *a, real *b, real *c, Py_ssize_t n,
              int num_threads) noexcept nogil:
    cdef Py_ssize_t i, blocks = block_count(n, BLOCK)
    if num_threads <= 1:
        for i in range(blocks):
            block(kind, s, p, g, a, b, c, i, n)
    else:
        for i in prange(blocks, schedule='dynamic', num_threads=num_threads):
            block(kind, s, p, g, a, b, c, i, n)


cdef inline void *cells(array):
    """Where an optional state's cells are."""
    return NULL if array is None else data(<cnp.ndarray> array)


def sgd(real tag, cnp.ndarray p, cnp.ndarray g, a, Py_ssize_t n, double lr, double weight_decay, double momentum,
        double dampening, int nesterov, int first, int num_threads):
    """INOUT p[n] and momentum a[n] (None where momentum is 0) by one step along IN g[n]."""
    cdef optim_step s
    s.lr, s.weight_decay, s.momentum, s.dampening, s.nesterov, s.first = lr, weight_decay, momentum, dampening, nesterov, first
    cdef real *pp = <real *> data(p)
    cdef const real *gp = <const real *> data(g)
    cdef real *ap = <real *> cells(a)
    with nogil:
        run(SGD, &s, pp, gp, ap, <real *> NULL, <real *> NULL, n, num_threads)


def adam(real tag, cnp.ndarray p, cnp.ndarray g, cnp.ndarray a, cnp.ndarray b, c, Py_ssize_t n, double lr, double weight_decay,
         double beta1, double beta2, double epsilon, double correction1, double root_correction2, int decoupled, int num_threads):
    """INOUT p[n], moments a[n] and b[n], and the largest second moment c[n] (None: not amsgrad) by one step along IN g[n]."""
    cdef optim_step s
    s.lr, s.weight_decay, s.beta1, s.beta2, s.epsilon = lr, weight_decay, beta1, beta2, epsilon
    s.correction1, s.root_correction2, s.decoupled, s.amsgrad = correction1, root_correction2, decoupled, c is not None
    cdef real *pp = <real *> data(p)
    cdef const real *gp = <const real *> data(g)
    cdef real *ap = <real *> data(a)
    cdef real *bp = <real *> data(b)
    cdef real *cp = <real *> cells(c)
    with nogil:
        run(ADAM, &s, pp, gp, ap, bp, cp, n, num_threads)


def rmsprop(real tag, cnp.ndarray p, cnp.ndarray g, cnp.ndarray a, b, c, Py_ssize_t n, double lr, double weight_decay,
            double alpha, double momentum, double epsilon, int num_threads):
    """INOUT p[n], mean square a[n], momentum b[n] and mean c[n] (None: no momentum, not centered) by one step along IN g[n]."""
    cdef optim_step s
    s.lr, s.weight_decay, s.beta2, s.momentum, s.epsilon, s.centered = lr, weight_decay, alpha, momentum, epsilon, c is not None
    cdef real *pp = <real *> data(p)
    cdef const real *gp = <const real *> data(g)
    cdef real *ap = <real *> data(a)
    cdef real *bp = <real *> cells(b)
    cdef real *cp = <real *> cells(c)
    with nogil:
        run(RMSPROP, &s, pp, gp, ap, bp, cp, n, num_threads)


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
    with nogil:
        if num_threads <= 1:
            for i in range(blocks):
                sums[i] = block_square_sum(xp, i, n)
        else:
            for i in prange(blocks, schedule='dynamic', num_threads=num_threads):
                sums[i] = block_square_sum(xp, i, n)
    return blocks
