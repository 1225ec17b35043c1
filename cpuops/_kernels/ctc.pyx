"""Connectionist temporal classification; recurrences and memory: ctc.h.

Parallel over samples: a worker takes one after the other, and each has its own states in the scratch memory.
"""
cimport numpy as cnp
from cython.parallel cimport prange
from libc.stdint cimport int64_t

from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "ctc.h" nogil:
    ctypedef struct ctc_plan:
        const void *log_probs
        const void *grad
        const int64_t *targets
        const int64_t *frames
        const int64_t *lengths
        void *out
        Py_ssize_t batch, classes, longest, each
        int64_t blank
        int zero_infinity
        double *memory
    void ctc_cut(ctc_plan *p, Py_ssize_t labels, Py_ssize_t frames, int gradient) noexcept
    void ctc_loss_worker_f32(ctc_plan *p, Py_ssize_t worker) noexcept
    void ctc_loss_worker_f64(ctc_plan *p, Py_ssize_t worker) noexcept
    void ctc_backward_worker_f32(ctc_plan *p, Py_ssize_t all_frames, Py_ssize_t worker) noexcept
    void ctc_backward_worker_f64(ctc_plan *p, Py_ssize_t all_frames, Py_ssize_t worker) noexcept


cdef Py_ssize_t most(const int64_t *values, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, found = 0
    for i in range(n):
        if values[i] > found:
            found = values[i]
    return found


cdef ctc_plan plan_of(cnp.ndarray log_probs, cnp.ndarray targets, cnp.ndarray frames, cnp.ndarray lengths, cnp.ndarray out,
                      Py_ssize_t blank, bint gradient):
    cdef ctc_plan p
    p.log_probs, p.out, p.grad = data(log_probs), data(out), NULL
    p.targets, p.frames, p.lengths = <const int64_t *> data(targets), <const int64_t *> data(frames), <const int64_t *> data(lengths)
    p.batch, p.classes, p.longest = cnp.PyArray_DIM(log_probs, 1), cnp.PyArray_DIM(log_probs, 2), cnp.PyArray_DIM(targets, 1)
    p.blank, p.zero_infinity, p.memory = blank, 0, NULL
    ctc_cut(&p, most(p.lengths, p.batch), most(p.frames, p.batch), gradient)
    return p


cdef inline void loss_worker(real tag, ctc_plan *p, Py_ssize_t worker) noexcept nogil:
    if real is float:
        ctc_loss_worker_f32(p, worker)
    else:
        ctc_loss_worker_f64(p, worker)


cdef inline void backward_worker(real tag, ctc_plan *p, Py_ssize_t frames, Py_ssize_t worker) noexcept nogil:
    if real is float:
        ctc_backward_worker_f32(p, frames, worker)
    else:
        ctc_backward_worker_f64(p, frames, worker)


def loss(real tag, cnp.ndarray log_probs, cnp.ndarray targets, cnp.ndarray frames, cnp.ndarray lengths, cnp.ndarray out,
         Py_ssize_t blank, bint zero_infinity, int num_threads):
    """OUT out [N], losses of IN log_probs [T, N, C] with IN targets [N, S]; IN frames, lengths [N]: what counts of either."""
    cdef ctc_plan p = plan_of(log_probs, targets, frames, lengths, out, blank, False)
    cdef Py_ssize_t workers = max(1, min(num_threads, p.batch)), worker
    cdef Block memory = scratch(<size_t> (workers * p.each) * sizeof(double))
    p.zero_infinity = zero_infinity
    p.memory = <double *> memory.ptr
    with nogil:
        if num_threads <= 1:
            loss_worker(tag, &p, 0)
        else:
            for worker in prange(workers, schedule='static', chunksize=1, num_threads=num_threads):
                loss_worker(tag, &p, worker)
    return p.batch


def loss_backward(real tag, cnp.ndarray log_probs, cnp.ndarray targets, cnp.ndarray frames, cnp.ndarray lengths, cnp.ndarray grad,
                  cnp.ndarray out, Py_ssize_t blank, int num_threads):
    """OUT out [T, N, C], the gradient, from that of the losses IN grad [N]; the rest as in `loss`."""
    cdef ctc_plan p = plan_of(log_probs, targets, frames, lengths, out, blank, True)
    cdef Py_ssize_t workers = max(1, min(num_threads, p.batch)), worker, all_frames = cnp.PyArray_DIM(log_probs, 0)
    cdef Block memory = scratch(<size_t> (workers * p.each) * sizeof(double))
    p.grad = data(grad)
    p.memory = <double *> memory.ptr
    with nogil:
        if num_threads <= 1:
            backward_worker(tag, &p, all_frames, 0)
        else:
            for worker in prange(workers, schedule='static', chunksize=1, num_threads=num_threads):
                backward_worker(tag, &p, all_frames, worker)
    return p.batch
