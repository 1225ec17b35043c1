"""Reductions over any set of axes and their gradients; decomposition and loops: reduce.h.

Parallel over blocks of outputs, or, where outputs are few, over parts of their cells: each task writes results or a
state of its own, and states are merged in index order.
"""
cimport numpy as cnp
from cython.parallel cimport parallel, threadid

from cpuops._kernels.blocks cimport block_count, block_end, block_start
from cpuops._kernels.tasks cimport Tasks, tasks_begin, tasks_next
from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "reduce.h" nogil:
    enum:
        REDUCE_GROUPS
        REDUCE_SUM
        REDUCE_MAX
        REDUCE_MIN
        REDUCE_ARGMAX
        REDUCE_ARGMIN
        REDUCE_LOGSUMEXP
    ctypedef struct Reduction:
        Py_ssize_t outer, segments, rows, width
        int kept_groups, reduced_groups
        Py_ssize_t *kept_dims
        Py_ssize_t *kept_steps
        Py_ssize_t *reduced_dims
        Py_ssize_t *reduced_steps
        Py_ssize_t parts, tasks
    void reduction_cut(Reduction *p) noexcept
    Py_ssize_t reduction_shares(const Reduction *p) noexcept
    size_t reduce_state_size_f32() noexcept
    size_t reduce_state_size_f64() noexcept
    void reduce_task_f32(const Reduction *p, int op, const float *x, void *out, double *sums, double divisor, void *states,
                         Py_ssize_t task) noexcept
    void reduce_task_f64(const Reduction *p, int op, const double *x, void *out, double *sums, double divisor, void *states,
                         Py_ssize_t task) noexcept
    void reduce_merge_f32(const Reduction *p, int op, void *out, double *sums, double divisor, void *states) noexcept
    void reduce_merge_f64(const Reduction *p, int op, void *out, double *sums, double divisor, void *states) noexcept
    void spread_share_f32(const Reduction *p, const float *g, float *out, double divisor, Py_ssize_t i) noexcept
    void spread_share_f64(const Reduction *p, const double *g, double *out, double divisor, Py_ssize_t i) noexcept
    void exp_share_f32(const Reduction *p, const float *x, const float *m, const double *sum, const float *g, float *out,
                       Py_ssize_t i) noexcept
    void exp_share_f64(const Reduction *p, const double *x, const double *m, const double *sum, const double *g, double *out,
                       Py_ssize_t i) noexcept
    void place_cell_f32(const Reduction *p, const cnp.int64_t *index, const float *g, float *out, Py_ssize_t cell) noexcept
    void place_cell_f64(const Reduction *p, const cnp.int64_t *index, const double *g, double *out, Py_ssize_t cell) noexcept

# place of each reduction in reduce.h's list
OPS = {"sum": REDUCE_SUM, "max": REDUCE_MAX, "min": REDUCE_MIN, "argmax": REDUCE_ARGMAX, "argmin": REDUCE_ARGMIN,
       "logsumexp": REDUCE_LOGSUMEXP}

# cells a block where gradients are zeroed or outputs placed
cdef enum:
    BLOCK = 32768


cdef void read_plan(tuple plan, Reduction *p):
    """plan: (outer, segments, rows, width, kept dims, kept steps, reduced dims, reduced steps)."""
    cdef tuple kept_dims = plan[4], kept_steps = plan[5], reduced_dims = plan[6], reduced_steps = plan[7]
    cdef int i
    p.outer, p.segments, p.rows, p.width = plan[0], plan[1], plan[2], plan[3]
    p.kept_groups, p.reduced_groups = <int> len(kept_dims), <int> len(reduced_dims)
    for i in range(p.kept_groups):
        p.kept_dims[i], p.kept_steps[i] = kept_dims[i], kept_steps[i]
    for i in range(p.reduced_groups):
        p.reduced_dims[i], p.reduced_steps[i] = reduced_dims[i], reduced_steps[i]
    reduction_cut(p)


cdef inline void one_task(real tag, const Reduction *p, int op, const real *x, void *out, double *sums, double divisor,
                          void *states, Py_ssize_t task) noexcept nogil:
    if real is float:
        reduce_task_f32(p, op, x, out, sums, divisor, states, task)
    else:
        reduce_task_f64(p, op, x, out, sums, divisor, states, task)


def reduce(real tag, int op, cnp.ndarray x, cnp.ndarray out, cnp.ndarray sums, double divisor, tuple plan, int num_threads):
    """OUT out = reduction of IN x; op: value in OPS; plan: see read_plan; sums are divided by `divisor`.

    With OUT sums (float64, else None), logsumexp gives m and sum of log(sum) + m in `out` and `sums`.
    """
    cdef Reduction p
    read_plan(plan, &p)
    cdef const real *xp = <const real *> data(x)
    cdef void *outp = data(out)
    cdef double *sumsp = NULL if sums is None else <double *> data(sums)
    cdef void *states = NULL
    cdef Block block
    cdef Py_ssize_t t
    if p.parts > 1:
        block = scratch(p.tasks * (reduce_state_size_f32() if real is float else reduce_state_size_f64()))
        states = block.ptr
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for t in range(p.tasks):
                one_task(tag, &p, op, xp, outp, sumsp, divisor, states, t)
        else:
            tasks_begin(&queue, p.tasks, num_threads)
            with parallel(num_threads=num_threads):
                t = tasks_next(&queue, threadid())
                while t >= 0:
                    one_task(tag, &p, op, xp, outp, sumsp, divisor, states, t)
                    t = tasks_next(&queue, threadid())
        if p.parts > 1:
            if real is float:
                reduce_merge_f32(&p, op, outp, sumsp, divisor, states)
            else:
                reduce_merge_f64(&p, op, outp, sumsp, divisor, states)
    return p.tasks


# shares a block: small matrices are handed out several at once
cdef inline Py_ssize_t shares_a_block(const Reduction *p) noexcept nogil:
    cdef Py_ssize_t cells = p.rows * p.width
    return 1 if cells >= BLOCK else BLOCK // (cells if cells else 1)


cdef inline void spread_block(const Reduction *p, const real *g, real *out, double divisor, Py_ssize_t lo,
                              Py_ssize_t hi) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(lo, hi):
        if real is float:
            spread_share_f32(p, g, out, divisor, i)
        else:
            spread_share_f64(p, g, out, divisor, i)


def spread(real tag, cnp.ndarray g, cnp.ndarray out, double divisor, tuple plan, int num_threads):
    """OUT out: every cell gets the cell of IN g that it was reduced into, over `divisor`. plan: that of `out`."""
    cdef Reduction p
    read_plan(plan, &p)
    cdef const real *gp = <const real *> data(g)
    cdef real *outp = <real *> data(out)
    cdef Py_ssize_t b, n = reduction_shares(&p), size = shares_a_block(&p), blocks = block_count(n, size)
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for b in range(blocks):
                spread_block(&p, gp, outp, divisor, block_start(b, size), block_end(b, size, n))
        else:
            tasks_begin(&queue, blocks, num_threads)
            with parallel(num_threads=num_threads):
                b = tasks_next(&queue, threadid())
                while b >= 0:
                    spread_block(&p, gp, outp, divisor, block_start(b, size), block_end(b, size, n))
                    b = tasks_next(&queue, threadid())
    return blocks


cdef inline void exp_block(const Reduction *p, const real *x, const real *m, const double *sum, const real *g, real *out,
                           Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(lo, hi):
        if real is float:
            exp_share_f32(p, x, m, sum, g, out, i)
        else:
            exp_share_f64(p, x, m, sum, g, out, i)


def logsumexp_backward(real tag, cnp.ndarray g, cnp.ndarray x, cnp.ndarray m, cnp.ndarray sums, cnp.ndarray out, tuple plan,
                       int num_threads):
    """OUT out = g exp(x - m) / sums; IN m, sums: as `reduce` leaves them for logsumexp."""
    cdef Reduction p
    read_plan(plan, &p)
    cdef const real *gp = <const real *> data(g)
    cdef const real *xp = <const real *> data(x)
    cdef const real *mp = <const real *> data(m)
    cdef const double *sumsp = <const double *> data(sums)
    cdef real *outp = <real *> data(out)
    cdef Py_ssize_t b, n = reduction_shares(&p), size = shares_a_block(&p), blocks = block_count(n, size)
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for b in range(blocks):
                exp_block(&p, xp, mp, sumsp, gp, outp, block_start(b, size), block_end(b, size, n))
        else:
            tasks_begin(&queue, blocks, num_threads)
            with parallel(num_threads=num_threads):
                b = tasks_next(&queue, threadid())
                while b >= 0:
                    exp_block(&p, xp, mp, sumsp, gp, outp, block_start(b, size), block_end(b, size, n))
                    b = tasks_next(&queue, threadid())
    return blocks


cdef inline void zero_block(real *out, Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(lo, hi):
        out[i] = 0


cdef inline void place_block(const Reduction *p, const cnp.int64_t *index, const real *g, real *out, Py_ssize_t lo,
                             Py_ssize_t hi) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(lo, hi):
        if real is float:
            place_cell_f32(p, index, g, out, i)
        else:
            place_cell_f64(p, index, g, out, i)


def place(real tag, cnp.ndarray g, cnp.ndarray index, cnp.ndarray out, tuple plan, int num_threads):
    """OUT out: 0, but IN g at IN index (int64, flat over the reduced axes). plan: that of `out`."""
    cdef Reduction p
    read_plan(plan, &p)
    cdef const real *gp = <const real *> data(g)
    cdef const cnp.int64_t *ip = <const cnp.int64_t *> data(index)
    cdef real *outp = <real *> data(out)
    cdef Py_ssize_t b, n = cnp.PyArray_SIZE(out), blocks = block_count(n, BLOCK), zeroed = blocks
    cdef Py_ssize_t size = BLOCK // p.width if 0 < p.width < BLOCK else 1
    cdef Tasks queue
    with nogil:
        if num_threads <= 1:
            for b in range(blocks):
                zero_block(outp, block_start(b, BLOCK), block_end(b, BLOCK, n))
        else:
            tasks_begin(&queue, blocks, num_threads)
            with parallel(num_threads=num_threads):
                b = tasks_next(&queue, threadid())
                while b >= 0:
                    zero_block(outp, block_start(b, BLOCK), block_end(b, BLOCK, n))
                    b = tasks_next(&queue, threadid())
        if n:
            blocks = block_count(p.outer, size)
            if num_threads <= 1:
                for b in range(blocks):
                    place_block(&p, ip, gp, outp, block_start(b, size), block_end(b, size, p.outer))
            else:
                tasks_begin(&queue, blocks, num_threads)
                with parallel(num_threads=num_threads):
                    b = tasks_next(&queue, threadid())
                    while b >= 0:
                        place_block(&p, ip, gp, outp, block_start(b, size), block_end(b, size, p.outer))
                        b = tasks_next(&queue, threadid())
    return zeroed
