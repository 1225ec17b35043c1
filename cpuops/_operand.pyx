"""The layout rule, compiled: what a kernel may be given as it is.

Every call of every operation passes here once an operand, so the check of a good operand must cost tens of
nanoseconds; everything else goes to the readable slow path in `_check.py`.
"""
cimport numpy as cnp
from cpython.object cimport Py_TYPE, PyTypeObject

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    int PyArray_ISCARRAY_RO(cnp.ndarray array) noexcept
    int PyArray_ISCARRAY(cnp.ndarray array) noexcept
    PyTypeObject PyArray_Type

cdef object slow = None


def set_slow_path(function):
    """`function(op, name, value)` converts or refuses what is no ready operand (set once, by `_check`)."""
    global slow
    slow = function


cdef inline bint is_ready(object value) noexcept:
    """An exact ndarray of float32 or float64, C-contiguous, aligned, native byte order."""
    cdef int kind
    if Py_TYPE(value) != &PyArray_Type:
        return False
    kind = cnp.PyArray_TYPE(<cnp.ndarray> value)
    return (kind == cnp.NPY_FLOAT or kind == cnp.NPY_DOUBLE) and PyArray_ISCARRAY_RO(<cnp.ndarray> value)


def ready(value):
    """Whether a kernel may be given `value` as it is."""
    return is_ready(value)


def floating(op, name, value):
    """`value` as a C-contiguous, aligned, native float32 or float64 array; one copy at most, none where it is one."""
    if is_ready(value):
        return value
    return slow(op, name, value)


cdef inline bint same_dims(cnp.ndarray a, cnp.ndarray b) noexcept:
    cdef int i, n = cnp.PyArray_NDIM(a)
    if n != cnp.PyArray_NDIM(b):
        return False
    for i in range(n):
        if cnp.PyArray_DIM(a, i) != cnp.PyArray_DIM(b, i):
            return False
    return True


def ready_alike(a, b):
    """Whether both are ready, of one dtype and one shape."""
    if not (is_ready(a) and is_ready(b)):
        return False
    return cnp.PyArray_TYPE(<cnp.ndarray> a) == cnp.PyArray_TYPE(<cnp.ndarray> b) and same_dims(<cnp.ndarray> a, <cnp.ndarray> b)


cdef inline bint among(object value, tuple values) noexcept:
    cdef Py_ssize_t i
    for i in range(len(values)):
        if values[i] is value:
            return True
    return False


def fits(out, tuple shape, dtype, tuple operands, tuple inplace):
    """Whether `out` is certainly a good output; where this says no, `_alloc.output` finds out what is wrong, if anything."""
    cdef cnp.ndarray a, b
    cdef Py_ssize_t i
    cdef size_t start, end, other
    if Py_TYPE(out) != &PyArray_Type:
        return False
    a = <cnp.ndarray> out
    if not PyArray_ISCARRAY(a) or <object> cnp.PyArray_DESCR(a) is not dtype or cnp.PyArray_NDIM(a) != len(shape):
        return False
    for i in range(len(shape)):
        if cnp.PyArray_DIM(a, <int> i) != <cnp.npy_intp> shape[i]:
            return False
    start = <size_t> cnp.PyArray_DATA(a)
    end = start + cnp.PyArray_NBYTES(a)
    for i in range(len(operands)):
        operand = operands[i]
        if not is_ready(operand):
            return False
        b = <cnp.ndarray> operand
        other = <size_t> cnp.PyArray_DATA(b)
        if other + cnp.PyArray_NBYTES(b) <= start or end <= other:
            continue
        if not (other == start and among(operand, inplace) and same_dims(a, b) and cnp.PyArray_TYPE(a) == cnp.PyArray_TYPE(b)):
            return False
    return True
