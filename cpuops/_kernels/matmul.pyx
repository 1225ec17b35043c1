# Matrix products. parallel over cells of the output (or parts of a long sum, added in order); see matmul.h.
cimport numpy as cnp
from cython.parallel cimport prange
from libc.stdint cimport uint64_t

from cpuops._kernels.blocks cimport block_count, block_end, block_start
from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cnp.import_array()


cdef extern from "matmul.h" nogil:
    ctypedef struct product_batch:
        Py_ssize_t phases
        Py_ssize_t slots
        size_t scratch_bytes

    ctypedef struct matmul_job:
        product_batch batch
        size_t table_bytes
        void *scratch

    ctypedef struct matmul_operand:
        void *data
        int ndim
        const Py_ssize_t *dims
        const Py_ssize_t *strides

    void matmul_plan(matmul_job *w, int is_f64, const matmul_operand *a, const matmul_operand *b, void *c,
                     const void *bias, uint64_t summed, int activation, Py_ssize_t apart, int num_threads) noexcept
    void matmul_ready(matmul_job *w) noexcept
    void matmul_begin(matmul_job *w, Py_ssize_t phase) noexcept
    void matmul_work(matmul_job *w, Py_ssize_t phase, Py_ssize_t slot) noexcept
    void matmul_serial(const matmul_job *w) noexcept
    Py_ssize_t matmul_shares(const matmul_job *w) noexcept
    int matmul_tiles(const matmul_job *w) noexcept
    void matmul_activate(const matmul_job *w, Py_ssize_t lo, Py_ssize_t hi) noexcept
    int ACTIVATION_RELU, ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_SILU

# numbers of activations, by the names of their methods
ACTIVATION = {"relu": ACTIVATION_RELU, "gelu": ACTIVATION_GELU, "gelu_tanh": ACTIVATION_GELU_TANH, "silu": ACTIVATION_SILU}

# cells a block that is activated at the end
cdef enum:
    BLOCK = 16384


cdef inline matmul_operand operand(cnp.ndarray x) noexcept:
    cdef matmul_operand t
    t.data = data(x)
    t.ndim = cnp.PyArray_NDIM(x)
    t.dims = <const Py_ssize_t *> cnp.PyArray_DIMS(x)
    t.strides = <const Py_ssize_t *> cnp.PyArray_STRIDES(x)
    return t


cdef inline void run(matmul_job *w, int num_threads) noexcept nogil:
    cdef Py_ssize_t phase, slot
    matmul_ready(w)
    if num_threads <= 1 or w.batch.slots <= 1:
        matmul_serial(w)
        return
    for phase in range(w.batch.phases):
        matmul_begin(w, phase)
        for slot in prange(w.batch.slots, schedule='static', chunksize=1, num_threads=num_threads):
            matmul_work(w, phase, slot)


def matmul(real tag, cnp.ndarray lhs, cnp.ndarray rhs, cnp.ndarray bias, cnp.ndarray out, uint64_t summed, int num_threads):
    """IN lhs, rhs (at least one axis each, any strides of whole elements), bias [N] or None; OUT out (C-contiguous).
    out = lhs @ rhs by NumPy's rules, + bias on the last axis. Batch axes whose bit, counted from the left of the broadcast
    batch, is set in `summed` are summed away. parallel over cells of out, or over parts of a sum, added in order."""
    cdef matmul_job w
    cdef matmul_operand a = operand(lhs), b = operand(rhs)
    cdef Block s
    w.scratch = NULL
    matmul_plan(&w, sizeof(real) == 8, &a, &b, data(out), NULL if bias is None else data(bias), summed, 0, 0, num_threads)
    if w.table_bytes + w.batch.scratch_bytes:
        s = scratch(w.table_bytes + w.batch.scratch_bytes)
        w.scratch = s.ptr
    with nogil:
        run(&w, num_threads)
    return matmul_shares(&w)


def linear_activation(real tag, cnp.ndarray x, cnp.ndarray weight, cnp.ndarray bias, cnp.ndarray sums, cnp.ndarray out,
                      int activation, int num_threads):
    """OUT sums (or None) = IN x @ IN weight + IN bias (or None) as `matmul`, OUT out = their activation, in the same pass.

    Parallel over cells, or over parts of a sum; where there are no tiles, the activation over blocks of cells.
    """
    cdef matmul_job w
    cdef matmul_operand a = operand(x), b = operand(weight)
    cdef real *outp = <real *> data(out)
    cdef real *c = outp if sums is None else <real *> data(sums)
    cdef Py_ssize_t block, blocks = block_count(out.size, BLOCK), cells = out.size
    cdef Block s
    w.scratch = NULL
    matmul_plan(&w, sizeof(real) == 8, &a, &b, c, NULL if bias is None else data(bias), 0, activation, outp - c, num_threads)
    if w.table_bytes + w.batch.scratch_bytes:
        s = scratch(w.table_bytes + w.batch.scratch_bytes)
        w.scratch = s.ptr
    with nogil:
        run(&w, num_threads)
        if not matmul_tiles(&w):
            if num_threads <= 1:
                matmul_activate(&w, 0, cells)
            else:
                for block in prange(blocks, schedule='dynamic', num_threads=num_threads):
                    matmul_activate(&w, block_start(block, BLOCK), block_end(block, BLOCK, cells))
    return matmul_shares(&w)
