"""Windows of images as columns, and back; the arithmetic and the tasks are unfold.h's."""
cimport numpy as cnp
from cython.parallel cimport prange

from cpuops._kernels.types cimport data, real

cdef extern from "unfold.h" nogil:
    ctypedef struct unfold_plan:
        Py_ssize_t planes, h, w, kh, kw, oh, ow, sh, sw, dh, dw, top, left
    Py_ssize_t unfold_units(const unfold_plan *p) noexcept
    Py_ssize_t unfold_at_once(const unfold_plan *p) noexcept
    Py_ssize_t fold_units(const unfold_plan *p) noexcept
    Py_ssize_t fold_at_once(const unfold_plan *p) noexcept
    void unfold_block_f32(const unfold_plan *p, const float *x, float *columns, Py_ssize_t b) noexcept
    void unfold_block_f64(const unfold_plan *p, const double *x, double *columns, Py_ssize_t b) noexcept
    void fold_block_f32(const unfold_plan *p, const float *columns, float *x, Py_ssize_t b) noexcept
    void fold_block_f64(const unfold_plan *p, const double *columns, double *x, Py_ssize_t b) noexcept


cdef unfold_plan plan_of(Py_ssize_t planes, tuple geometry):
    cdef unfold_plan p
    p.planes = planes
    p.h, p.w, p.kh, p.kw, p.oh, p.ow, p.sh, p.sw, p.dh, p.dw, p.top, p.left = geometry
    return p


cdef inline void task(const unfold_plan *p, const real *given, real *out, bint fold, Py_ssize_t b) noexcept nogil:
    if real is float:
        if fold:
            fold_block_f32(p, given, out, b)
        else:
            unfold_block_f32(p, given, out, b)
    else:
        if fold:
            fold_block_f64(p, given, out, b)
        else:
            unfold_block_f64(p, given, out, b)


cdef Py_ssize_t run(const unfold_plan *p, const real *given, real *out, bint fold, int num_threads) noexcept nogil:
    cdef Py_ssize_t units = fold_units(p) if fold else unfold_units(p), count = fold_at_once(p) if fold else unfold_at_once(p)
    cdef Py_ssize_t b, blocks = (units + count - 1) // count
    if num_threads <= 1 or blocks <= 1:
        for b in range(blocks):
            task(p, given, out, fold, b)
    else:
        for b in prange(blocks, schedule='dynamic', num_threads=num_threads):
            task(p, given, out, fold, b)
    return blocks


def unfold(real tag, cnp.ndarray x, cnp.ndarray out, Py_ssize_t planes, tuple geometry, int num_threads):
    """OUT out = columns of the windows of IN x. Parallel over blocks of rows of taps."""
    cdef unfold_plan p = plan_of(planes, geometry)
    cdef const real *xp = <const real *> data(x)
    cdef real *outp = <real *> data(out)
    cdef Py_ssize_t blocks = 0
    if out.size:
        with nogil:
            blocks = run(&p, xp, outp, False, num_threads)
    return blocks


def fold(real tag, cnp.ndarray x, cnp.ndarray out, Py_ssize_t planes, tuple geometry, int num_threads):
    """OUT out = sums of IN x, columns, at the cells that they came from. Parallel over blocks of rows of out."""
    cdef unfold_plan p = plan_of(planes, geometry)
    cdef const real *xp = <const real *> data(x)
    cdef real *outp = <real *> data(out)
    cdef Py_ssize_t blocks = 0
    if out.size:
        with nogil:
            blocks = run(&p, xp, outp, True, num_threads)
    return blocks
