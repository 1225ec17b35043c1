# Embedding: rows of a table by index, and their gradient. The indices have been checked.
cimport numpy as cnp
from cython.parallel cimport parallel, threadid
from libc.stdint cimport int64_t

from cpuops._kernels.blocks cimport block_count, block_end, block_start
from cpuops._kernels.tasks cimport Tasks, tasks_begin, tasks_next
from cpuops._kernels.types cimport data, real

cnp.import_array()


cdef extern from "embedding.h" nogil:
    void embedding_gather_f32(const float *table, Py_ssize_t rs, Py_ssize_t cs, const int64_t *index, float *out,
                              Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t d) noexcept
    void embedding_gather_f64(const double *table, Py_ssize_t rs, Py_ssize_t cs, const int64_t *index, double *out,
                              Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t d) noexcept
    void embedding_scatter_f32(const float *grad, const int64_t *index, float *out, Py_ssize_t n, Py_ssize_t d,
                               Py_ssize_t v0, Py_ssize_t v1, Py_ssize_t c0, Py_ssize_t c1, int accumulate) noexcept
    void embedding_scatter_f64(const double *grad, const int64_t *index, double *out, Py_ssize_t n, Py_ssize_t d,
                               Py_ssize_t v0, Py_ssize_t v1, Py_ssize_t c0, Py_ssize_t c1, int accumulate) noexcept


cdef inline void gather(const real *table, Py_ssize_t rs, Py_ssize_t cs, const int64_t *index, real *out, Py_ssize_t b,
                        Py_ssize_t rows, Py_ssize_t n, Py_ssize_t d) noexcept nogil:
    if real is float:
        embedding_gather_f32(table, rs, cs, index, out, block_start(b, rows), block_end(b, rows, n), d)
    else:
        embedding_gather_f64(table, rs, cs, index, out, block_start(b, rows), block_end(b, rows, n), d)


def embedding(real tag, cnp.ndarray table, cnp.ndarray indices, cnp.ndarray out, Py_ssize_t n, Py_ssize_t d, int num_threads):
    """IN table [V, d] (any strides of whole elements), indices [n] (int64, in range); OUT out [n, d]. parallel over blocks
    of rows of out."""
    cdef const real *t = <const real *> data(table)
    cdef const int64_t *index = <const int64_t *> data(indices)
    cdef real *o = <real *> data(out)
    cdef Py_ssize_t rs = cnp.PyArray_STRIDE(table, 0) // <Py_ssize_t> sizeof(real)
    cdef Py_ssize_t cs = cnp.PyArray_STRIDE(table, 1) // <Py_ssize_t> sizeof(real)
    # 64 KB of output a block
    cdef Py_ssize_t rows = 1 + 65536 // (1 + d * <Py_ssize_t> sizeof(real)), blocks = block_count(n, rows), b
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            gather(t, rs, cs, index, o, 0, n, n, d)
        else:
            tasks_begin(&queue, blocks, num_threads)
            with parallel(num_threads=num_threads):
                b = tasks_next(&queue, threadid())
                while b >= 0:
                    gather(t, rs, cs, index, o, b, rows, n, d)
                    b = tasks_next(&queue, threadid())
    return blocks


cdef inline void scatter(const real *grad, const int64_t *index, real *out, Py_ssize_t task, Py_ssize_t across,
                         Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t n, Py_ssize_t v, Py_ssize_t d,
                         bint accumulate) noexcept nogil:
    cdef Py_ssize_t r = task // across, c = task % across
    if real is float:
        embedding_scatter_f32(grad, index, out, n, d, block_start(r, rows), block_end(r, rows, v), block_start(c, columns),
                              block_end(c, columns, d), accumulate)
    else:
        embedding_scatter_f64(grad, index, out, n, d, block_start(r, rows), block_end(r, rows, v), block_start(c, columns),
                              block_end(c, columns, d), accumulate)


def embedding_backward(real tag, cnp.ndarray grad, cnp.ndarray indices, cnp.ndarray out, Py_ssize_t n, Py_ssize_t v,
                       Py_ssize_t d, bint accumulate, int num_threads):
    """IN grad [n, d], indices [n] (int64, in range); OUT out [v, d]: the rows of grad added up by index, in index order, in
    the precision of grad, to what is there with `accumulate`. parallel over blocks of the table: of columns, which cost
    nothing, as far as they are two cache lines wide, then of rows, for each of which all indices are read."""
    cdef const real *g = <const real *> data(grad)
    cdef const int64_t *index = <const int64_t *> data(indices)
    cdef real *o = <real *> data(out)
    cdef Py_ssize_t wanted = 2 * num_threads if num_threads > 1 else 1
    cdef Py_ssize_t line = 128 // <Py_ssize_t> sizeof(real), lines = block_count(d, line)
    cdef Py_ssize_t columns = line * block_count(lines, min(wanted, lines)) if d else 1
    cdef Py_ssize_t across = block_count(d, columns)
    cdef Py_ssize_t down = block_count(wanted, across) if across else 1
    cdef Py_ssize_t rows = block_count(v, min(down, v)) if v else 1
    cdef Py_ssize_t tasks = across * block_count(v, rows), task
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            if tasks:
                scatter(g, index, o, 0, 1, v, d, n, v, d, accumulate)
        else:
            tasks_begin(&queue, tasks, num_threads)
            with parallel(num_threads=num_threads):
                task = tasks_next(&queue, threadid())
                while task >= 0:
                    scatter(g, index, o, task, across, rows, columns, n, v, d, accumulate)
                    task = tasks_next(&queue, threadid())
    return tasks
