"""Elementwise operations and activations; formulas and derivatives: elementwise.h.

Parallel over blocks of cells; each cell is written by one thread and depends on its own operands only. A kernel returns the
number of its blocks, for those who ask how its work is shared.
"""
cimport numpy as cnp
from cpython.pycapsule cimport PyCapsule_New
from cython.parallel cimport parallel, threadid

from cpuops._kernels.blocks cimport block_count, block_end, block_start
from cpuops._kernels.tasks cimport Tasks, tasks_begin, tasks_next
from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "elementwise.h" nogil:
    int LIGHT_COUNT, UNARY_COUNT, BINARY_COUNT
    const char **UNARY_NAMES
    const char **BINARY_NAMES
    void unary_f32(int op, const float *x, float *out, Py_ssize_t n, double p, double q) noexcept
    void unary_f64(int op, const double *x, double *out, Py_ssize_t n, double p, double q) noexcept
    void unary_backward_f32(int op, const float *g, const float *x, float *out, Py_ssize_t n, double p, double q) noexcept
    void unary_backward_f64(int op, const double *g, const double *x, double *out, Py_ssize_t n, double p, double q) noexcept
    void binary_f32(int op, const float *x, const float *y, float *out, int ndim, const Py_ssize_t *dims,
                    const Py_ssize_t *xs, const Py_ssize_t *ys, Py_ssize_t lo, Py_ssize_t hi) noexcept
    void binary_f64(int op, const double *x, const double *y, double *out, int ndim, const Py_ssize_t *dims,
                    const Py_ssize_t *xs, const Py_ssize_t *ys, Py_ssize_t lo, Py_ssize_t hi) noexcept
    void binary_backward_f32(int op, const float *g, const float *x, const float *y, int ystep, float *dx, float *dy,
                             Py_ssize_t n) noexcept
    void binary_backward_f64(int op, const double *g, const double *x, const double *y, int ystep, double *dx, double *dy,
                             Py_ssize_t n) noexcept
    ctypedef struct PairRows:
        Py_ssize_t m, n, tiles, parts, share
    PairRows pair_rows_cut(Py_ssize_t m, Py_ssize_t n) noexcept
    void pair_rows_f32(int op, const PairRows *p, const float *g, const float *full, const float *row, int row_is_x,
                       float *dfull, float *drow, double *sums, Py_ssize_t task) noexcept
    void pair_rows_f64(int op, const PairRows *p, const double *g, const double *full, const double *row, int row_is_x,
                       double *dfull, double *drow, double *sums, Py_ssize_t task) noexcept
    void pair_rows_merge_f32(const PairRows *p, const double *sums, float *drow) noexcept
    void pair_rows_merge_f64(const PairRows *p, const double *sums, double *drow) noexcept

# place of each formula in elementwise.h's lists
UNARY = {UNARY_NAMES[i].decode(): i for i in range(UNARY_COUNT)}
HEAVY = frozenset(name for name, i in UNARY.items() if i >= LIGHT_COUNT) | {"glu"}
BINARY = {BINARY_NAMES[i].decode(): i for i in range(BINARY_COUNT)}


cdef void pair_f32(int op, const float *x, const float *y, float *out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t one = 1
    binary_f32(op, x, y, out, 1, &n, &one, &one, 0, n)


cdef void pair_f64(int op, const double *x, const double *y, double *out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t one = 1
    binary_f64(op, x, y, out, 1, &n, &one, &one, 0, n)


# the loops themselves by the character of the dtype, for `_small`: (forward, gradient, pair of one shape)
LOOPS = {
    "f": (PyCapsule_New(<void *> unary_f32, NULL, NULL), PyCapsule_New(<void *> unary_backward_f32, NULL, NULL),
          PyCapsule_New(<void *> pair_f32, NULL, NULL)),
    "d": (PyCapsule_New(<void *> unary_f64, NULL, NULL), PyCapsule_New(<void *> unary_backward_f64, NULL, NULL),
          PyCapsule_New(<void *> pair_f64, NULL, NULL)),
}

# elements a block: 64 KB of float32, so that operands and output of a block fit a level-2 cache
cdef enum:
    BLOCK = 16384
    MOST_AXES = 64      # NumPy has no more


cdef inline void unary_block(real tag, int op, const real *x, real *out, Py_ssize_t b, Py_ssize_t n,
                             double p, double q) noexcept nogil:
    cdef Py_ssize_t lo = block_start(b, BLOCK), hi = block_end(b, BLOCK, n)
    if real is float:
        unary_f32(op, x + lo, out + lo, hi - lo, p, q)
    else:
        unary_f64(op, x + lo, out + lo, hi - lo, p, q)


def unary(real tag, int op, cnp.ndarray x, cnp.ndarray out, Py_ssize_t n, double p, double q, int num_threads):
    """OUT out[n] = f(IN x[n]); op: place in UNARY; p, q: the operation's options."""
    cdef const real *xp = <const real *> data(x)
    cdef real *outp = <real *> data(out)
    cdef Py_ssize_t b, blocks = block_count(n, BLOCK)
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for b in range(blocks):
                unary_block(tag, op, xp, outp, b, n, p, q)
        else:
            tasks_begin(&queue, blocks, num_threads)
            with parallel(num_threads=num_threads):
                b = tasks_next(&queue, threadid())
                while b >= 0:
                    unary_block(tag, op, xp, outp, b, n, p, q)
                    b = tasks_next(&queue, threadid())
    return blocks


cdef inline void unary_backward_block(real tag, int op, const real *g, const real *x, real *out, Py_ssize_t b, Py_ssize_t n,
                                      double p, double q) noexcept nogil:
    cdef Py_ssize_t lo = block_start(b, BLOCK), hi = block_end(b, BLOCK, n)
    if real is float:
        unary_backward_f32(op, g + lo, x + lo, out + lo, hi - lo, p, q)
    else:
        unary_backward_f64(op, g + lo, x + lo, out + lo, hi - lo, p, q)


def unary_backward(real tag, int op, cnp.ndarray g, cnp.ndarray x, cnp.ndarray out, Py_ssize_t n, double p, double q,
                   int num_threads):
    """OUT out[n] = f'(IN x[n]) IN g[n]; for exp, tanh and sigmoid x is the output."""
    cdef const real *gp = <const real *> data(g)
    cdef const real *xp = <const real *> data(x)
    cdef real *outp = <real *> data(out)
    cdef Py_ssize_t b, blocks = block_count(n, BLOCK)
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for b in range(blocks):
                unary_backward_block(tag, op, gp, xp, outp, b, n, p, q)
        else:
            tasks_begin(&queue, blocks, num_threads)
            with parallel(num_threads=num_threads):
                b = tasks_next(&queue, threadid())
                while b >= 0:
                    unary_backward_block(tag, op, gp, xp, outp, b, n, p, q)
                    b = tasks_next(&queue, threadid())
    return blocks


cdef inline void binary_block(real tag, int op, const real *x, const real *y, real *out, int ndim, const Py_ssize_t *dims,
                              const Py_ssize_t *xs, const Py_ssize_t *ys, Py_ssize_t b, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t lo = block_start(b, BLOCK), hi = block_end(b, BLOCK, n)
    if real is float:
        binary_f32(op, x, y, out, ndim, dims, xs, ys, lo, hi)
    else:
        binary_f64(op, x, y, out, ndim, dims, xs, ys, lo, hi)


def binary(real tag, int op, cnp.ndarray x, Py_ssize_t x_offset, cnp.ndarray y, Py_ssize_t y_offset, cnp.ndarray out,
           tuple dims, tuple xs, tuple ys, int num_threads):
    """OUT out[dims] = f(IN x, IN y); xs, ys: elements a step along each axis (0 where broadcast; 0 or 1 along the last)."""
    cdef Py_ssize_t d[MOST_AXES]
    cdef Py_ssize_t sx[MOST_AXES]
    cdef Py_ssize_t sy[MOST_AXES]
    cdef int a, ndim = <int> len(dims)
    cdef Py_ssize_t n = 1
    for a in range(ndim):
        d[a] = dims[a]
        sx[a] = xs[a]
        sy[a] = ys[a]
        n *= d[a]
    cdef const real *xp = <const real *> data(x) + x_offset
    cdef const real *yp = <const real *> data(y) + y_offset
    cdef real *outp = <real *> data(out)
    cdef Py_ssize_t b, blocks = block_count(n, BLOCK)
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for b in range(blocks):
                binary_block(tag, op, xp, yp, outp, ndim, d, sx, sy, b, n)
        else:
            tasks_begin(&queue, blocks, num_threads)
            with parallel(num_threads=num_threads):
                b = tasks_next(&queue, threadid())
                while b >= 0:
                    binary_block(tag, op, xp, yp, outp, ndim, d, sx, sy, b, n)
                    b = tasks_next(&queue, threadid())
    return blocks


# the rows of a pair's gradients: g is dense, x, dx and dy hold a row every `row` elements; row r reads y's row r % y_rows,
# `y_row` elements apart, along which y steps `ystep` (0: one value for the whole row)
ctypedef struct Rows:
    Py_ssize_t n, row, y_row, y_rows, per_row
    int ystep


cdef inline void pair_block(real tag, int op, const real *g, const real *x, const real *y, real *dx, real *dy,
                            const Rows *rows, Py_ssize_t b) noexcept nogil:
    cdef Py_ssize_t r = b // rows.per_row, piece = b % rows.per_row
    cdef Py_ssize_t lo = block_start(piece, BLOCK), hi = block_end(piece, BLOCK, rows.n), at = r * rows.row + lo
    cdef const real *yb = y + (r % rows.y_rows) * rows.y_row + lo * rows.ystep
    if real is float:
        binary_backward_f32(op, g + r * rows.n + lo, x + at, yb, rows.ystep, dx + at, dy + at, hi - lo)
    else:
        binary_backward_f64(op, g + r * rows.n + lo, x + at, yb, rows.ystep, dx + at, dy + at, hi - lo)


def binary_backward(real tag, int op, cnp.ndarray g, cnp.ndarray x, cnp.ndarray y, cnp.ndarray dx, cnp.ndarray dy,
                    Py_ssize_t m, Py_ssize_t n, Py_ssize_t row, Py_ssize_t second, int ystep, Py_ssize_t y_row,
                    Py_ssize_t y_rows, int num_threads):
    """Both gradients of a pair in one pass over IN g[m, n]; OUT dx, dy; the rows as `Rows` says.

    y and dy begin `second` elements into their arrays (the halves of glu; 0 for arrays of their own).
    """
    cdef const real *gp = <const real *> data(g)
    cdef const real *xp = <const real *> data(x)
    cdef const real *yp = <const real *> data(y) + second
    cdef real *dxp = <real *> data(dx)
    cdef real *dyp = <real *> data(dy) + second
    cdef Rows rows
    rows.n, rows.row, rows.y_row, rows.y_rows, rows.ystep = n, row, y_row, y_rows, ystep
    rows.per_row = block_count(n, BLOCK)
    cdef Py_ssize_t b, blocks = m * rows.per_row
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for b in range(blocks):
                pair_block(tag, op, gp, xp, yp, dxp, dyp, &rows, b)
        else:
            tasks_begin(&queue, blocks, num_threads)
            with parallel(num_threads=num_threads):
                b = tasks_next(&queue, threadid())
                while b >= 0:
                    pair_block(tag, op, gp, xp, yp, dxp, dyp, &rows, b)
                    b = tasks_next(&queue, threadid())
    return blocks


cdef inline void pair_rows(real tag, int op, const PairRows *p, const real *g, const real *full, const real *row, bint row_is_x,
                           real *dfull, real *drow, double *sums, Py_ssize_t task) noexcept nogil:
    if real is float:
        pair_rows_f32(op, p, g, full, row, row_is_x, dfull, drow, sums, task)
    else:
        pair_rows_f64(op, p, g, full, row, row_is_x, dfull, drow, sums, task)


def binary_backward_rows(real tag, int op, cnp.ndarray g, cnp.ndarray full, cnp.ndarray row, bint row_is_x, cnp.ndarray dfull,
                         cnp.ndarray drow, Py_ssize_t m, Py_ssize_t n, int num_threads):
    """Both gradients of a pair whose one operand is a row: IN g, full [m, n], row [n]; OUT dfull [m, n], drow [n], the sum over
    the rows. m, n: at least 1; `row_is_x`: the row is the pair's first."""
    cdef const real *gp = <const real *> data(g)
    cdef const real *fp = <const real *> data(full)
    cdef const real *rp = <const real *> data(row)
    cdef real *dfp = <real *> data(dfull)
    cdef real *drp = <real *> data(drow)
    cdef PairRows p = pair_rows_cut(m, n)
    cdef Py_ssize_t t, tasks = p.tiles * p.parts
    cdef Block block
    cdef double *sums = NULL
    if p.parts > 1:
        block = scratch(p.parts * n * sizeof(double))
        sums = <double *> block.ptr
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for t in range(tasks):
                pair_rows(tag, op, &p, gp, fp, rp, row_is_x, dfp, drp, sums, t)
        else:
            tasks_begin(&queue, tasks, num_threads)
            with parallel(num_threads=num_threads):
                t = tasks_next(&queue, threadid())
                while t >= 0:
                    pair_rows(tag, op, &p, gp, fp, rp, row_is_x, dfp, drp, sums, t)
                    t = tasks_next(&queue, threadid())
        if p.parts > 1:
            if real is float:
                pair_rows_merge_f32(&p, sums, drp)
            else:
                pair_rows_merge_f64(&p, sums, drp)
    return tasks
