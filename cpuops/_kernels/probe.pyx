"""What the machine can do at most at this ISA level, for the benches: multiply-adds, copies, reads; loops: probe_real.h.

One slot a thread, so that the limit of n threads is measured on n threads; no operation works like that.
"""
cimport numpy as cnp
from cython.parallel cimport prange

from cpuops._kernels.types cimport data, real

cdef extern from "probe.h" nogil:
    enum:
        PROBE_CHAINS
        LANES_f32
        LANES_f64
    float probe_fma_f32(Py_ssize_t steps, float a, float b) noexcept
    double probe_fma_f64(Py_ssize_t steps, double a, double b) noexcept
    void probe_copy_f32(const float *src, float *dst, Py_ssize_t n) noexcept
    void probe_copy_f64(const double *src, double *dst, Py_ssize_t n) noexcept
    float probe_read_f32(const float *src, Py_ssize_t n) noexcept
    double probe_read_f64(const double *src, Py_ssize_t n) noexcept

# floating-point operations of one step of `fma` on one thread, by dtype
FLOPS_A_STEP = {"float32": 2 * PROBE_CHAINS * LANES_f32, "float64": 2 * PROBE_CHAINS * LANES_f64}
# the element count of each thread's share in `copy` and `read` must be a multiple of this
SHARE_MULTIPLE = 4 * LANES_f32


cdef inline void fma_slot(real *out, Py_ssize_t steps, Py_ssize_t slot) noexcept nogil:
    if real is float:
        out[slot] = probe_fma_f32(steps, 0.5, 1)
    else:
        out[slot] = probe_fma_f64(steps, 0.5, 1)


def fma(real tag, cnp.ndarray out, Py_ssize_t steps, int num_threads):
    """OUT out[num_threads]: the sum of each slot's chains, which nobody needs."""
    cdef real *outp = <real *> data(out)
    cdef Py_ssize_t slot
    with nogil:
        if num_threads <= 1:
            fma_slot(outp, steps, 0)
        else:
            for slot in prange(num_threads, schedule='static', chunksize=1, num_threads=num_threads):
                fma_slot(outp, steps, slot)


cdef inline void copy_slot(const real *src, real *dst, Py_ssize_t share, Py_ssize_t times, Py_ssize_t slot) noexcept nogil:
    cdef Py_ssize_t _t
    for _t in range(times):
        if real is float:
            probe_copy_f32(src + slot * share, dst + slot * share, share)
        else:
            probe_copy_f64(src + slot * share, dst + slot * share, share)


def copy(real tag, cnp.ndarray src, cnp.ndarray dst, Py_ssize_t share, Py_ssize_t times, int num_threads):
    """OUT dst[num_threads * share] = IN src, `times` times; slot s copies its own share."""
    cdef const real *srcp = <const real *> data(src)
    cdef real *dstp = <real *> data(dst)
    cdef Py_ssize_t slot
    with nogil:
        if num_threads <= 1:
            copy_slot(srcp, dstp, share, times, 0)
        else:
            for slot in prange(num_threads, schedule='static', chunksize=1, num_threads=num_threads):
                copy_slot(srcp, dstp, share, times, slot)


cdef inline void read_slot(const real *src, real *out, Py_ssize_t share, Py_ssize_t times, Py_ssize_t slot) noexcept nogil:
    cdef Py_ssize_t _t
    for _t in range(times):
        if real is float:
            out[slot] = probe_read_f32(src + slot * share, share)
        else:
            out[slot] = probe_read_f64(src + slot * share, share)


def read(real tag, cnp.ndarray src, cnp.ndarray out, Py_ssize_t share, Py_ssize_t times, int num_threads):
    """OUT out[num_threads] = sum of each slot's share of IN src[num_threads * share], `times` times."""
    cdef const real *srcp = <const real *> data(src)
    cdef real *outp = <real *> data(out)
    cdef Py_ssize_t slot
    with nogil:
        if num_threads <= 1:
            read_slot(srcp, outp, share, times, 0)
        else:
            for slot in prange(num_threads, schedule='static', chunksize=1, num_threads=num_threads):
                read_slot(srcp, outp, share, times, slot)
