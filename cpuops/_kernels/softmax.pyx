"""Softmax, log-softmax and their gradients; formulas and loops: softmax.h.

Parallel over rows or tiles of columns; few long ones are cut into parts, whose sums are merged in order.
"""
cimport numpy as cnp
from cython.parallel cimport parallel, threadid

from cpuops._kernels.tasks cimport Tasks, tasks_begin, tasks_next
from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "softmax.h" nogil:
    enum:
        REDUCE_SUM
        REDUCE_LOGSUMEXP
    ctypedef struct Reduction:
        Py_ssize_t parts, tasks
    ctypedef struct Softmax:
        Reduction p
        double scale
    void softmax_cut(Softmax *q, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner) noexcept
    size_t reduce_state_size_f32() noexcept
    size_t reduce_state_size_f64() noexcept
    void softmax_task_f32(const Softmax *q, const float *g, const float *x, float *out, void *states, int logs,
                          Py_ssize_t task) noexcept
    void softmax_task_f64(const Softmax *q, const double *g, const double *x, double *out, void *states, int logs,
                          Py_ssize_t task) noexcept
    void softmax_merge_f32(const Softmax *q, int op, void *states) noexcept
    void softmax_merge_f64(const Softmax *q, int op, void *states) noexcept
    void softmax_part_f32(const Softmax *q, const float *g, const float *x, float *out, const void *states, int logs,
                          Py_ssize_t task) noexcept
    void softmax_part_f64(const Softmax *q, const double *g, const double *x, double *out, const void *states, int logs,
                          Py_ssize_t task) noexcept


cdef inline void one_task(const Softmax *q, const real *g, const real *x, real *out, void *states, int logs,
                          Py_ssize_t t) noexcept nogil:
    if real is float:
        softmax_task_f32(q, g, x, out, states, logs, t)
    else:
        softmax_task_f64(q, g, x, out, states, logs, t)


cdef inline void one_part(const Softmax *q, const real *g, const real *x, real *out, const void *states, int logs,
                          Py_ssize_t t) noexcept nogil:
    if real is float:
        softmax_part_f32(q, g, x, out, states, logs, t)
    else:
        softmax_part_f64(q, g, x, out, states, logs, t)


cdef Py_ssize_t run(const real *g, const real *x, real *out, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner, int logs,
                    double scale, int num_threads) except -1:
    """Either direction: g is NULL in the forward."""
    cdef Softmax q
    cdef Block block
    cdef void *states = NULL
    cdef Py_ssize_t t
    if n == 0:  # rows of nothing, of which there may be 2^33
        return 0
    softmax_cut(&q, outer, n, inner)
    q.scale = scale
    if q.p.parts > 1:
        block = scratch(q.p.tasks * (reduce_state_size_f32() if real is float else reduce_state_size_f64()))
        states = block.ptr
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for t in range(q.p.tasks):
                one_task(&q, g, x, out, states, logs, t)
        else:
            tasks_begin(&queue, q.p.tasks, num_threads)
            with parallel(num_threads=num_threads):
                t = tasks_next(&queue, threadid())
                while t >= 0:
                    one_task(&q, g, x, out, states, logs, t)
                    t = tasks_next(&queue, threadid())
        if q.p.parts > 1:
            if real is float:
                softmax_merge_f32(&q, REDUCE_LOGSUMEXP if g is NULL else REDUCE_SUM, states)
            else:
                softmax_merge_f64(&q, REDUCE_LOGSUMEXP if g is NULL else REDUCE_SUM, states)
            if num_threads <= 1:
                for t in range(q.p.tasks):
                    one_part(&q, g, x, out, states, logs, t)
            else:
                tasks_begin(&queue, q.p.tasks, num_threads)
                with parallel(num_threads=num_threads):
                    t = tasks_next(&queue, threadid())
                    while t >= 0:
                        one_part(&q, g, x, out, states, logs, t)
                        t = tasks_next(&queue, threadid())
    return q.p.tasks


def softmax(real tag, cnp.ndarray x, cnp.ndarray out, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner, int logs,
            double scale, int num_threads):
    """OUT out = softmax (log-softmax with `logs`) of IN x[outer, n, inner] * scale over n."""
    cdef const real *none = NULL
    return run(none, <const real *> data(x), <real *> data(out), outer, n, inner, logs, scale, num_threads)


def softmax_backward(real tag, cnp.ndarray g, cnp.ndarray output, cnp.ndarray out, Py_ssize_t outer, Py_ssize_t n,
                     Py_ssize_t inner, int logs, double scale, int num_threads):
    """OUT out = gradient of softmax (log-softmax) for IN g and the forward's result IN output, [outer, n, inner]."""
    return run(<const real *> data(g), <const real *> data(output), <real *> data(out), outer, n, inner, logs, scale, num_threads)
