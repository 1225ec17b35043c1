"""Cross-entropy, mean squared error and their gradients; formulas and loops: loss.h.

Parallel over blocks of rows or cells, whose losses are added in order.
"""
cimport numpy as cnp
from cython.parallel cimport parallel, threadid

from cpuops._kernels.blocks cimport block_count, block_end, block_start
from cpuops._kernels.tasks cimport Tasks, tasks_begin, tasks_next
from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "loss.h" nogil:
    ctypedef struct CrossEntropy:
        Py_ssize_t classes
        int has_ignore
        cnp.int64_t ignore
        double smoothing
    void cross_entropy_rows_f32(const CrossEntropy *q, const float *x, const cnp.int64_t *labels, float *out, double *sum,
                                cnp.int64_t *count, Py_ssize_t rows) noexcept
    void cross_entropy_rows_f64(const CrossEntropy *q, const double *x, const cnp.int64_t *labels, double *out, double *sum,
                                cnp.int64_t *count, Py_ssize_t rows) noexcept
    void cross_entropy_backward_rows_f32(const CrossEntropy *q, const float *g, Py_ssize_t g_step, double scale, const float *x,
                                         const cnp.int64_t *labels, float *out, Py_ssize_t rows) noexcept
    void cross_entropy_backward_rows_f64(const CrossEntropy *q, const double *g, Py_ssize_t g_step, double scale,
                                         const double *x, const cnp.int64_t *labels, double *out, Py_ssize_t rows) noexcept
    void squared_error_f32(const float *x, const float *y, float *out, Py_ssize_t n) noexcept
    void squared_error_f64(const double *x, const double *y, double *out, Py_ssize_t n) noexcept
    double squared_error_sum_f32(const float *x, const float *y, Py_ssize_t n) noexcept
    double squared_error_sum_f64(const double *x, const double *y, Py_ssize_t n) noexcept
    void squared_error_backward_f32(const float *g, Py_ssize_t g_step, double scale, const float *x, const float *y, float *dx,
                                    float *dy, Py_ssize_t n) noexcept
    void squared_error_backward_f64(const double *g, Py_ssize_t g_step, double scale, const double *x, const double *y,
                                    double *dx, double *dy, Py_ssize_t n) noexcept

# what happens to the losses of rows or cells
REDUCTIONS = {"none": 0, "sum": 1, "mean": 2}

cdef enum:
    BLOCK = 32768       # cells a task


cdef inline Py_ssize_t rows_a_block(Py_ssize_t cells) noexcept nogil:
    return BLOCK // cells if 0 < cells < BLOCK else 1 if cells else BLOCK


cdef inline void loss_block(const CrossEntropy *q, const real *x, const cnp.int64_t *labels, real *out, double *sums,
                            cnp.int64_t *counts, Py_ssize_t b, Py_ssize_t size, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t lo = block_start(b, size), hi = block_end(b, size, n)
    cdef real *to = NULL if out is NULL else out + lo
    sums[b] = 0
    counts[b] = 0
    if real is float:
        cross_entropy_rows_f32(q, x + lo * q.classes, labels + lo, to, sums + b, counts + b, hi - lo)
    else:
        cross_entropy_rows_f64(q, x + lo * q.classes, labels + lo, to, sums + b, counts + b, hi - lo)


def cross_entropy(real tag, cnp.ndarray x, cnp.ndarray labels, cnp.ndarray out, Py_ssize_t n, Py_ssize_t classes,
                  int reduction, bint has_ignore, cnp.int64_t ignore, double smoothing, int num_threads):
    """OUT out: losses [n] or their sum or mean [1]; IN x [n, classes]; IN labels [n], int64 in range or ignored."""
    cdef CrossEntropy q
    q.classes, q.has_ignore, q.ignore, q.smoothing = classes, has_ignore, ignore, smoothing
    cdef const real *xp = <const real *> data(x)
    cdef const cnp.int64_t *lp = <const cnp.int64_t *> data(labels)
    cdef real *outp = <real *> data(out)
    cdef real *each = outp if reduction == 0 else NULL
    cdef Py_ssize_t b, size = rows_a_block(classes), blocks = block_count(n, size)
    cdef Block block = scratch(blocks * 16)
    cdef double *sums = <double *> block.ptr
    cdef cnp.int64_t *counts = <cnp.int64_t *> (sums + blocks)
    cdef double total = 0, count = 0
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for b in range(blocks):
                loss_block(&q, xp, lp, each, sums, counts, b, size, n)
        else:
            tasks_begin(&queue, blocks, num_threads)
            with parallel(num_threads=num_threads):
                b = tasks_next(&queue, threadid())
                while b >= 0:
                    loss_block(&q, xp, lp, each, sums, counts, b, size, n)
                    b = tasks_next(&queue, threadid())
        if reduction != 0:
            for b in range(blocks):
                total += sums[b]
                count += counts[b]
            outp[0] = <real> (total if reduction == 1 else total / count)
    return blocks


cdef inline void loss_backward_block(const CrossEntropy *q, const real *g, Py_ssize_t g_step, double scale, const real *x,
                                     const cnp.int64_t *labels, real *out, Py_ssize_t b, Py_ssize_t size,
                                     Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t lo = block_start(b, size), hi = block_end(b, size, n), at = lo * q.classes
    if real is float:
        cross_entropy_backward_rows_f32(q, g + lo * g_step, g_step, scale, x + at, labels + lo, out + at, hi - lo)
    else:
        cross_entropy_backward_rows_f64(q, g + lo * g_step, g_step, scale, x + at, labels + lo, out + at, hi - lo)


def cross_entropy_backward(real tag, cnp.ndarray g, cnp.ndarray x, cnp.ndarray labels, cnp.ndarray out, Py_ssize_t n,
                           Py_ssize_t classes, double scale, bint has_ignore, cnp.int64_t ignore, double smoothing,
                           int num_threads):
    """OUT out [n, classes] = gradient; IN g: [n], or one number; it is multiplied by `scale`."""
    cdef CrossEntropy q
    q.classes, q.has_ignore, q.ignore, q.smoothing = classes, has_ignore, ignore, smoothing
    cdef const real *gp = <const real *> data(g)
    cdef const real *xp = <const real *> data(x)
    cdef const cnp.int64_t *lp = <const cnp.int64_t *> data(labels)
    cdef real *outp = <real *> data(out)
    cdef Py_ssize_t b, size = rows_a_block(classes), blocks = block_count(n, size), g_step = cnp.PyArray_NDIM(g)
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for b in range(blocks):
                loss_backward_block(&q, gp, g_step, scale, xp, lp, outp, b, size, n)
        else:
            tasks_begin(&queue, blocks, num_threads)
            with parallel(num_threads=num_threads):
                b = tasks_next(&queue, threadid())
                while b >= 0:
                    loss_backward_block(&q, gp, g_step, scale, xp, lp, outp, b, size, n)
                    b = tasks_next(&queue, threadid())
    return blocks


cdef inline void error_block(const real *x, const real *y, real *out, double *sums, Py_ssize_t b, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t lo = block_start(b, BLOCK), hi = block_end(b, BLOCK, n)
    if sums is NULL:
        if real is float:
            squared_error_f32(x + lo, y + lo, out + lo, hi - lo)
        else:
            squared_error_f64(x + lo, y + lo, out + lo, hi - lo)
    elif real is float:
        sums[b] = squared_error_sum_f32(x + lo, y + lo, hi - lo)
    else:
        sums[b] = squared_error_sum_f64(x + lo, y + lo, hi - lo)


def mse_loss(real tag, cnp.ndarray x, cnp.ndarray y, cnp.ndarray out, Py_ssize_t n, int reduction, int num_threads):
    """OUT out: (IN x - IN y)^2 [n], or their sum or mean [1]."""
    cdef const real *xp = <const real *> data(x)
    cdef const real *yp = <const real *> data(y)
    cdef real *outp = <real *> data(out)
    cdef Py_ssize_t b, blocks = block_count(n, BLOCK)
    cdef Block block = scratch(blocks * 8)
    cdef double *sums = NULL if reduction == 0 else <double *> block.ptr
    cdef double total = 0
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for b in range(blocks):
                error_block(xp, yp, outp, sums, b, n)
        else:
            tasks_begin(&queue, blocks, num_threads)
            with parallel(num_threads=num_threads):
                b = tasks_next(&queue, threadid())
                while b >= 0:
                    error_block(xp, yp, outp, sums, b, n)
                    b = tasks_next(&queue, threadid())
        if reduction != 0:
            for b in range(blocks):
                total += sums[b]
            outp[0] = <real> (total if reduction == 1 else total / <double> n)
    return blocks


cdef inline void error_backward_block(const real *g, Py_ssize_t g_step, double scale, const real *x, const real *y, real *dx,
                                      real *dy, Py_ssize_t b, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t lo = block_start(b, BLOCK), hi = block_end(b, BLOCK, n)
    if real is float:
        squared_error_backward_f32(g + lo * g_step, g_step, scale, x + lo, y + lo, dx + lo, dy + lo, hi - lo)
    else:
        squared_error_backward_f64(g + lo * g_step, g_step, scale, x + lo, y + lo, dx + lo, dy + lo, hi - lo)


def mse_loss_backward(real tag, cnp.ndarray g, cnp.ndarray x, cnp.ndarray y, cnp.ndarray dx, cnp.ndarray dy, Py_ssize_t n,
                      bint each, double scale, int num_threads):
    """OUT dx [n] = 2 g (IN x - IN y) scale, OUT dy = -dx; IN g: [n] with `each`, else one number."""
    cdef const real *gp = <const real *> data(g)
    cdef const real *xp = <const real *> data(x)
    cdef const real *yp = <const real *> data(y)
    cdef real *dxp = <real *> data(dx)
    cdef real *dyp = <real *> data(dy)
    cdef Py_ssize_t b, g_step = each, blocks = block_count(n, BLOCK)
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for b in range(blocks):
                error_backward_block(gp, g_step, scale, xp, yp, dxp, dyp, b, n)
        else:
            tasks_begin(&queue, blocks, num_threads)
            with parallel(num_threads=num_threads):
                b = tasks_next(&queue, threadid())
                while b >= 0:
                    error_backward_block(gp, g_step, scale, xp, yp, dxp, dyp, b, n)
                    b = tasks_next(&queue, threadid())
    return blocks
