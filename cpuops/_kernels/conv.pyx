"""Convolution: the forward pass and the gradients to x, weight and bias.

The arithmetic and the jobs are conv.h's; here are the choice of path, the scratch and the threads.
"""
cimport numpy as cnp
from cython.parallel cimport prange

from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "conv.h" nogil:
    ctypedef struct conv_job:
        Py_ssize_t batch, groups, outputs, channels
        Py_ssize_t[3] size "in"
        Py_ssize_t[3] out
        Py_ssize_t[3] kernel
        Py_ssize_t[3] step
    ctypedef struct conv_call:
        const conv_job *job
        int f64
        const void *x "in"
        const void *w
        const void *bias
        void *out
    ctypedef struct conv_direct:
        size_t scratch_bytes
        Py_ssize_t units
        int poisoned
    void conv_forward_job(conv_job *j, Py_ssize_t batch, Py_ssize_t groups, Py_ssize_t outputs, Py_ssize_t channels, int channels_last,
                          const Py_ssize_t *size, const Py_ssize_t *kernel, const Py_ssize_t *output, const Py_ssize_t *stride,
                          const Py_ssize_t *dilation, const Py_ssize_t *before) noexcept
    void conv_simplify(conv_job *j) noexcept
    bint conv_padded(const conv_job *j) noexcept
    Py_ssize_t conv_positions(const conv_job *j) noexcept
    Py_ssize_t conv_phases(const conv_job *j, int axis) noexcept
    bint conv_phases_cover(const conv_job *j) noexcept
    bint conv_phase(const conv_job *f, const Py_ssize_t *t0, conv_job *j, Py_ssize_t *w_start, Py_ssize_t *x_start) noexcept
    void conv_plan_direct(const conv_call *call, Py_ssize_t slots, conv_direct *d) noexcept
    void conv_direct_scratch(conv_direct *d, void *scratch) noexcept
    # tasks
    void conv_masked(void *call, Py_ssize_t unit) noexcept
    void conv_masked_weight(void *call, Py_ssize_t unit) noexcept
    void conv_direct_pack(void *direct, Py_ssize_t group) noexcept
    void conv_direct_slot(void *direct, Py_ssize_t slot) noexcept

ctypedef void (*task_function)(void *context, Py_ssize_t i) noexcept nogil


cdef void each(task_function task, void *context, Py_ssize_t n, int num_threads) noexcept nogil:
    """Tasks 0 to n-1, each of which writes cells of its own."""
    cdef Py_ssize_t i
    if num_threads <= 1 or n <= 1:
        for i in range(n):
            task(context, i)
    else:
        for i in prange(n, schedule='dynamic', num_threads=num_threads):
            task(context, i)


cdef int read_geometry(object geometry, conv_job *j) except -1:
    """ops.conv.Geometry as a job on contiguous arrays."""
    cdef Py_ssize_t[3] size, kernel, output, stride, dilation, before
    cdef int a
    for a in range(3):
        size[a], kernel[a], output[a] = geometry[5][a], geometry[6][a], geometry[7][a]
        stride[a], dilation[a], before[a] = geometry[8][a], geometry[9][a], geometry[10][a]
    conv_forward_job(j, geometry[0], geometry[1], geometry[2], geometry[3], geometry[4], size, kernel, output, stride, dilation, before)
    return 0


# ---------------------------------------------------------------- one correlation


cdef int correlate(conv_call *call, int num_threads) except -1:
    """call.out = correlation of call.x with call.w, plus bias; every output cell is written.

    direct: parallel over units (a region of an image, a group, a share of its output channels). masked: over batch and
    output channels.
    """
    cdef conv_direct d
    cdef conv_job job = call.job[0]
    cdef Block memory
    conv_simplify(&job)
    if job.batch * job.groups * job.outputs * conv_positions(&job) == 0:
        return 0
    call.job = &job
    conv_plan_direct(call, num_threads, &d)
    memory = scratch(d.scratch_bytes)
    with nogil:
        conv_direct_scratch(&d, memory.ptr)
        each(conv_direct_pack, &d, job.groups, num_threads)
        if d.poisoned and conv_padded(&job):
            each(conv_masked, call, job.batch * job.groups * job.outputs, num_threads)
        else:
            each(conv_direct_slot, &d, num_threads, num_threads)
    return 0


def conv_forward(real tag, cnp.ndarray x, cnp.ndarray w, bias, cnp.ndarray out, object geometry, int num_threads):
    """OUT out = IN x correlated with IN w, plus IN bias [Cout] (or None)."""
    cdef conv_job job
    cdef conv_call call
    read_geometry(geometry, &job)
    call.job, call.f64 = &job, sizeof(real) == 8
    call.x, call.w, call.out = data(x), data(w), data(out)
    call.bias = NULL if bias is None else data(<cnp.ndarray> bias)
    correlate(&call, num_threads)


def conv_x_backward(real tag, cnp.ndarray w, cnp.ndarray grad, cnp.ndarray out, object geometry, int num_threads):
    """OUT out (x's shape) from IN w and IN grad: one correlation a phase of the stride, into cells of its own."""
    cdef conv_job forward, job
    cdef conv_call call
    cdef Py_ssize_t[3] t0
    cdef Py_ssize_t w_start, x_start
    read_geometry(geometry, &forward)
    call.f64, call.x, call.bias = sizeof(real) == 8, data(grad), NULL
    if not conv_phases_cover(&forward):
        out.fill(0)
    for t0[0] in range(conv_phases(&forward, 0)):
        for t0[1] in range(conv_phases(&forward, 1)):
            for t0[2] in range(conv_phases(&forward, 2)):
                if conv_phase(&forward, t0, &job, &w_start, &x_start):
                    call.job, call.w, call.out = &job, <real *> data(w) + w_start, <real *> data(out) + x_start
                    correlate(&call, num_threads)


# ---------------------------------------------------------------- the bias gradient

cdef extern from "conv.h" nogil:
    double conv_sum_f32(const float *x, Py_ssize_t n) noexcept
    double conv_sum_f64(const double *x, Py_ssize_t n) noexcept
