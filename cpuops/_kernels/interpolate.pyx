"""Resampling by tables; orders of work: interpolate.h, arithmetic: interpolate_real.h.

x is [planes, D, H, W] and out [planes, OD, OH, OW]. An axis is (size, outputs, start, index, weight, widest, reach, period
of four), as `Table.for_kernel` gives it, or (size,) where it is left as it is. Parallel over units, bands of rows of out;
each cell of out is written by one thread.
"""
cimport numpy as cnp
from cython.parallel cimport prange

from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "interpolate.h" nogil:
    ctypedef struct resample_axis:
        Py_ssize_t in_ "in"
        Py_ssize_t out
        const Py_ssize_t *start
        const Py_ssize_t *index
        const void *weight
        Py_ssize_t widest, reach, outputs, cells, first, last
    ctypedef struct resample_plan:
        const void *x
        void *out
        int bytes
        Py_ssize_t planes, channels
        resample_axis d, h, w
        Py_ssize_t units, grab, next
        size_t bytes_worker
    void plan_resample(resample_plan *p, Py_ssize_t lanes, size_t item) noexcept
    void resample_f32(resample_plan *p, void *memory) noexcept
    void resample_f64(resample_plan *p, void *memory) noexcept
    Py_ssize_t LANES_f32, LANES_f64


cdef resample_axis axis_of(tuple t):
    cdef resample_axis a
    a.in_ = a.out = t[0]
    a.start = a.index = NULL
    a.weight = NULL
    a.widest = a.reach = a.outputs = a.cells = a.first = a.last = 0
    if len(t) > 1:
        a.out = t[1]
        a.start = <const Py_ssize_t *> data(t[2])
        a.index = <const Py_ssize_t *> data(t[3])
        a.weight = data(t[4])
        a.widest, a.reach, a.outputs, a.cells, a.first, a.last = t[5:]
    return a


cdef inline void work(real tag, resample_plan *p, char *memory) noexcept nogil:
    if real is float:
        resample_f32(p, memory)
    else:
        resample_f64(p, memory)


def interpolate(real tag, cnp.ndarray x, cnp.ndarray out, Py_ssize_t planes, Py_ssize_t channels, tuple d, tuple h, tuple w,
                int num_threads):
    """OUT out = IN x, both of the tag's type or both uint8, by the tables of the three axes, whose weights are of the tag's type.

    With channels > 1, x is [planes, D, H, W, channels] and out [planes, channels, OD, OH, OW].
    """
    cdef resample_plan p
    p.x = data(x)
    p.out = data(out)
    p.bytes = x.itemsize == 1
    p.planes, p.channels = planes, channels
    p.d, p.h, p.w = axis_of(d), axis_of(h), axis_of(w)
    plan_resample(&p, LANES_f32 if real is float else LANES_f64, sizeof(real))
    cdef Py_ssize_t blocks = (p.units + p.grab - 1) // p.grab
    cdef int slot, slots = num_threads if num_threads < blocks else <int> blocks
    cdef Block memory = scratch(p.bytes_worker * (slots if slots > 1 else 1))
    cdef char *mp = <char *> memory.ptr
    with nogil:
        if slots <= 1:
            work(tag, &p, mp)
        else:
            for slot in prange(slots, schedule='static', chunksize=1, num_threads=num_threads):
                work(tag, &p, mp + slot * p.bytes_worker)
    return blocks
