"""Attention and its gradient; formulas and the cut of the work: attention.h.

A call is one to three stages; within one, workers take units until none is left, and each cell and each partial result
has one writer. Partial results are joined in their order, in a later stage.
"""
cimport numpy as cnp
from cython.parallel cimport prange

from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "attention.h" nogil:
    ctypedef struct attention_plan:
        const void *q
        const void *k
        const void *v
        const void *bias
        const unsigned char *mask
        const void *output
        const void *logsumexp
        const void *output_grad
        void *out
        void *lse
        void *q_grad
        void *k_grad
        void *v_grad
        void *bias_grad
        Py_ssize_t batch, heads, kv_heads, sq, sk, e, ev
        Py_ssize_t mask_stride[4]
        Py_ssize_t bias_stride[4]
        Py_ssize_t bias_shape[4]
        double scale, softcap
        int causal
        Py_ssize_t offset
        Py_ssize_t units, next
        char *memory
        size_t shared_bytes, slot_bytes
    ctypedef void (*attention_cut)(attention_plan *p) noexcept
    ctypedef int (*attention_stage)(attention_plan *p) noexcept
    ctypedef void (*attention_work)(const attention_plan *p, Py_ssize_t unit, void *slot) noexcept
    void attention_units(attention_plan *p, attention_work work, Py_ssize_t slot) noexcept
    attention_cut forward_cut_f32, forward_cut_f64, backward_cut_f32, backward_cut_f64
    attention_stage forward_stage_f32, forward_stage_f64, backward_stage_f32, backward_stage_f64
    attention_work forward_work_f32, forward_work_f64, backward_work_f32, backward_work_f64


cdef inline void *at(cnp.ndarray a):
    return data(a) if a is not None else NULL


# strides in elements, 0 along an axis of one cell
cdef void strides(cnp.ndarray a, Py_ssize_t *out):
    cdef int i
    for i in range(4):
        out[i] = 0 if a is None or a.shape[i] == 1 else a.strides[i] // a.itemsize


cdef attention_plan plan_of(cnp.ndarray q, cnp.ndarray k, cnp.ndarray v, cnp.ndarray mask, cnp.ndarray bias, double scale,
                            double softcap, object causal):
    cdef attention_plan p
    p.q, p.k, p.v, p.mask, p.bias = at(q), at(k), at(v), <const unsigned char *> at(mask), at(bias)
    p.output = p.logsumexp = p.output_grad = NULL
    p.out = p.lse = p.q_grad = p.k_grad = p.v_grad = p.bias_grad = NULL
    p.batch, p.heads, p.sq, p.e = q.shape[0], q.shape[1], q.shape[2], q.shape[3]
    p.kv_heads, p.sk, p.ev = k.shape[1], k.shape[2], v.shape[3]
    strides(mask, p.mask_stride)
    strides(bias, p.bias_stride)
    p.scale, p.softcap = scale, softcap
    p.causal = causal is not None
    p.offset = causal if p.causal else 0
    return p


cdef Py_ssize_t run(attention_plan *p, attention_cut cut, attention_stage stage, attention_work work, int num_threads) except -1:
    """All stages of a call; `stage` tells whether there is one more. The units of the finest."""
    p.memory = NULL
    cut(p)
    cdef Py_ssize_t _worker, workers, units = 0
    cdef Block memory = scratch(p.shared_bytes + p.slot_bytes * <size_t> (num_threads if num_threads > 1 else 1))
    p.memory = <char *> memory.ptr
    with nogil:
        while stage(p):
            units = max(units, p.units)
            workers = num_threads if num_threads < p.units else p.units
            if workers <= 1:
                attention_units(p, work, 0)
            else:
                for _worker in prange(workers, schedule='static', chunksize=1, num_threads=num_threads):
                    attention_units(p, work, _worker)
    return units


def attention(real tag, cnp.ndarray q, cnp.ndarray k, cnp.ndarray v, cnp.ndarray mask, cnp.ndarray bias, cnp.ndarray out,
              cnp.ndarray lse, double scale, double softcap, object causal, int num_threads):
    """OUT out [B, H, Sq, Ev], lse [B, H, Sq] (or None), from IN q, k, v, mask and bias (four axes, or None).

    softcap: 0 for none. causal: None, or how many keys beyond its own number a query sees. Parallel over blocks of queries
    and parts of the keys.
    """
    cdef attention_plan p = plan_of(q, k, v, mask, bias, scale, softcap, causal)
    p.out, p.lse = at(out), at(lse)
    return run(&p, forward_cut_f32 if real is float else forward_cut_f64, forward_stage_f32 if real is float else forward_stage_f64,
               forward_work_f32 if real is float else forward_work_f64, num_threads)


def attention_backward(real tag, cnp.ndarray q, cnp.ndarray k, cnp.ndarray v, cnp.ndarray output, cnp.ndarray lse, cnp.ndarray g,
                       cnp.ndarray mask, cnp.ndarray bias, cnp.ndarray q_grad, cnp.ndarray k_grad, cnp.ndarray v_grad,
                       cnp.ndarray bias_grad, double scale, double softcap, object causal, int num_threads):
    """OUT q_grad, k_grad, v_grad, bias_grad (or None) from the output's gradient IN g and what the forward returned.

    bias_grad has, on every axis, the length of the scores or 1, and not 1 on both of the last two unless the scores have.
    Parallel over key heads, chunks of their queries, and cells of bias_grad.
    """
    cdef int i
    cdef attention_plan p = plan_of(q, k, v, mask, bias, scale, softcap, causal)
    p.output, p.logsumexp, p.output_grad = at(output), at(lse), at(g)
    p.q_grad, p.k_grad, p.v_grad, p.bias_grad = at(q_grad), at(k_grad), at(v_grad), at(bias_grad)
    if bias_grad is not None:
        for i in range(4):
            p.bias_shape[i] = bias_grad.shape[i]
    return run(&p, backward_cut_f32 if real is float else backward_cut_f64, backward_stage_f32 if real is float else backward_stage_f64,
               backward_work_f32 if real is float else backward_work_f64, num_threads)
