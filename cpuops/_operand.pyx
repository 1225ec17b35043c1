"""The layout rule, compiled: what a kernel may be given as it is.

Every call of every operation passes here once an operand, so the check of a good operand must cost tens of
nanoseconds; everything else goes to the readable slow path in `_check.py`.
"""
cimport numpy as cnp
from cpython.object cimport Py_TYPE, PyTypeObject

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    int PyArray_ISCARRAY_RO(cnp.ndarray array) noexcept
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


def ready_alike(a, b):
    """Whether both are ready, of one dtype and one shape."""
    cdef int i, n
    if not (is_ready(a) and is_ready(b)):
        return False
    if cnp.PyArray_TYPE(<cnp.ndarray> a) != cnp.PyArray_TYPE(<cnp.ndarray> b):
        return False
    n = cnp.PyArray_NDIM(<cnp.ndarray> a)
    if n != cnp.PyArray_NDIM(<cnp.ndarray> b):
        return False
    for i in range(n):
        if cnp.PyArray_DIM(<cnp.ndarray> a, i) != cnp.PyArray_DIM(<cnp.ndarray> b, i):
            return False
    return True
