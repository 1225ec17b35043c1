"""Sequences of LSTM and GRU cells, and their gradients; formulas and the way of the work: recurrent.h. Parallel over rows of the batch."""
cimport numpy as cnp
from cython.parallel cimport prange
from libc.string cimport memset

from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "recurrent.h" nogil:
    ctypedef struct recurrent_job:
        int kind, backward
        Py_ssize_t length, batch, n
        const void *projected
        const void *h0
        const void *c0
        const void *w
        const void *bias
        const void *output_grad
        void *gates
        void *cells
        void *bent
        void *news
        void *asked
        void *out
        void *p_grad
        void *q_grad
        void *h_grad
        void *c_grad
        Py_ssize_t slots
        size_t scratch_bytes
        void *scratch
    int RECURRENT_LSTM, RECURRENT_GRU
    void recurrent_plan_f32(recurrent_job *j, int num_threads) noexcept
    void recurrent_plan_f64(recurrent_job *j, int num_threads) noexcept
    void recurrent_pack_f32(const recurrent_job *j) noexcept
    void recurrent_pack_f64(const recurrent_job *j) noexcept
    void recurrent_work_f32(const recurrent_job *j, Py_ssize_t slot) noexcept
    void recurrent_work_f64(const recurrent_job *j, Py_ssize_t slot) noexcept


cdef inline void work(real tag, const recurrent_job *j, Py_ssize_t slot) noexcept nogil:
    if real is float:
        recurrent_work_f32(j, slot)
    else:
        recurrent_work_f64(j, slot)


cdef void run(real tag, recurrent_job *j, int num_threads):
    cdef Block s
    cdef Py_ssize_t slot, slots
    if real is float:
        recurrent_plan_f32(j, num_threads)
    else:
        recurrent_plan_f64(j, num_threads)
    s = scratch(j.scratch_bytes)
    j.scratch = s.ptr
    slots = j.slots
    with nogil:
        if real is float:
            recurrent_pack_f32(j)
        else:
            recurrent_pack_f64(j)
        if slots <= 1:
            for slot in range(slots):
                work(tag, j, slot)
        else:
            for slot in prange(slots, schedule='static', chunksize=1, num_threads=num_threads):
                work(tag, j, slot)


cdef inline recurrent_job job(int kind, int backward, Py_ssize_t length, Py_ssize_t batch, Py_ssize_t n, cnp.ndarray w):
    cdef recurrent_job j
    memset(&j, 0, sizeof(j))
    j.kind, j.backward, j.length, j.batch, j.n = kind, backward, length, batch, n
    j.w = data(w)
    return j


cdef inline void *cells_of(array):
    return NULL if array is None else data(<cnp.ndarray> array)


def lstm(real tag, cnp.ndarray projected, cnp.ndarray h0, cnp.ndarray c0, cnp.ndarray w, gates, cnp.ndarray cells, bent,
         cnp.ndarray out, Py_ssize_t length, Py_ssize_t batch, Py_ssize_t n, int num_threads):
    """IN projected [length, batch, 4 n], h0, c0 [batch, n], w [n, 4 n]; OUT gates [length, batch, 4 n], cells [length + 1, batch, n],
    bent [length, batch, n] (or None, None and one step's cells), out [length, batch, n]. parallel over the batch."""
    cdef recurrent_job j = job(RECURRENT_LSTM, 0, length, batch, n, w)
    j.projected, j.h0, j.c0 = data(projected), data(h0), data(c0)
    j.gates, j.cells, j.bent, j.out = cells_of(gates), data(cells), cells_of(bent), data(out)
    run(tag, &j, num_threads)


def lstm_backward(real tag, cnp.ndarray output_grad, cnp.ndarray w, cnp.ndarray gates, cnp.ndarray cells, cnp.ndarray bent,
                  cnp.ndarray p_grad, cnp.ndarray h_grad, cnp.ndarray c_grad, Py_ssize_t length, Py_ssize_t batch, Py_ssize_t n,
                  int num_threads):
    """IN output_grad [length, batch, n] and what `lstm` took and gave; OUT p_grad [length, batch, 4 n], h_grad [batch, n]; INOUT c_grad
    [batch, n], to the last cells and then to the first. parallel over the batch."""
    cdef recurrent_job j = job(RECURRENT_LSTM, 1, length, batch, n, w)
    j.output_grad, j.gates, j.cells, j.bent = data(output_grad), data(gates), data(cells), data(bent)
    j.p_grad, j.h_grad, j.c_grad = data(p_grad), data(h_grad), data(c_grad)
    run(tag, &j, num_threads)


def gru(real tag, cnp.ndarray projected, cnp.ndarray h0, cnp.ndarray w, cnp.ndarray bias, gates, news, asked, cnp.ndarray out,
        Py_ssize_t length, Py_ssize_t batch, Py_ssize_t n, int num_threads):
    """IN projected [length, batch, 3 n], h0 [batch, n], w [n, 3 n], bias [3 n]; OUT gates [length, batch, 2 n], news, asked
    [length, batch, n] (or None, all three), out [length, batch, n]. parallel over the batch."""
    cdef recurrent_job j = job(RECURRENT_GRU, 0, length, batch, n, w)
    j.projected, j.h0, j.bias = data(projected), data(h0), data(bias)
    j.gates, j.news, j.asked, j.out = cells_of(gates), cells_of(news), cells_of(asked), data(out)
    run(tag, &j, num_threads)


def gru_backward(real tag, cnp.ndarray output_grad, cnp.ndarray h0, cnp.ndarray w, cnp.ndarray gates, cnp.ndarray news,
                 cnp.ndarray asked, cnp.ndarray out, cnp.ndarray p_grad, cnp.ndarray q_grad, cnp.ndarray h_grad, Py_ssize_t length,
                 Py_ssize_t batch, Py_ssize_t n, int num_threads):
    """IN output_grad [length, batch, n] and what `gru` took and gave; OUT p_grad, q_grad [length, batch, 3 n], h_grad [batch, n].
    parallel over the batch."""
    cdef recurrent_job j = job(RECURRENT_GRU, 1, length, batch, n, w)
    j.output_grad, j.h0, j.gates, j.news, j.asked = data(output_grad), data(h0), data(gates), data(news), data(asked)
    j.out, j.p_grad, j.q_grad, j.h_grad = data(out), data(p_grad), data(q_grad), data(h_grad)
    run(tag, &j, num_threads)
