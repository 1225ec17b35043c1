"""The layout rule itself, inline: what a kernel may be given as it is."""
cimport numpy as cnp
from cpython.object cimport Py_TYPE, PyTypeObject

cdef extern from "numpy/arrayobject.h":
    int PyArray_ISCARRAY_RO(cnp.ndarray array) noexcept
    int PyArray_ISBEHAVED_RO(cnp.ndarray array) noexcept
    int PyArray_ISCARRAY(cnp.ndarray array) noexcept
    PyTypeObject PyArray_Type


cdef inline bint is_ready(object value) noexcept:
    """An exact ndarray of float32 or float64, C-contiguous, aligned, native byte order."""
    cdef int kind
    if Py_TYPE(value) != &PyArray_Type:
        return False
    kind = cnp.PyArray_TYPE(<cnp.ndarray> value)
    return (kind == cnp.NPY_FLOAT or kind == cnp.NPY_DOUBLE) and PyArray_ISCARRAY_RO(<cnp.ndarray> value)


cdef inline bint same_dims(cnp.ndarray a, cnp.ndarray b) noexcept:
    cdef int i, n = cnp.PyArray_NDIM(a)
    if n != cnp.PyArray_NDIM(b):
        return False
    for i in range(n):
        if cnp.PyArray_DIM(a, i) != cnp.PyArray_DIM(b, i):
            return False
    return True


cdef inline bint are_alike(object a, object b) noexcept:
    """Whether both are ready, of one dtype and one shape."""
    return (is_ready(a) and is_ready(b) and cnp.PyArray_TYPE(<cnp.ndarray> a) == cnp.PyArray_TYPE(<cnp.ndarray> b)
            and same_dims(<cnp.ndarray> a, <cnp.ndarray> b))


cdef inline bint is_ready_strided(object value) noexcept:
    """An exact ndarray of float32 or float64, aligned, native byte order, whole elements as strides."""
    cdef cnp.ndarray a
    cdef int i
    if Py_TYPE(value) != &PyArray_Type:
        return False
    a = <cnp.ndarray> value
    if not PyArray_ISBEHAVED_RO(a) or (cnp.PyArray_TYPE(a) != cnp.NPY_FLOAT and cnp.PyArray_TYPE(a) != cnp.NPY_DOUBLE):
        return False
    for i in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_STRIDE(a, i) % cnp.PyArray_ITEMSIZE(a):
            return False
    return True


cdef inline bint fits_like(object out, cnp.ndarray x, object a, object b) noexcept:
    """Whether `out` may be written to elementwise from ready operands a and b of x's shape and dtype: it is one of them, or lies
    apart."""
    cdef size_t start, other, n
    if out is a or out is b:
        return bool(PyArray_ISCARRAY(<cnp.ndarray> out))
    if Py_TYPE(out) != &PyArray_Type or not PyArray_ISCARRAY(<cnp.ndarray> out):
        return False
    if cnp.PyArray_TYPE(<cnp.ndarray> out) != cnp.PyArray_TYPE(x) or not same_dims(<cnp.ndarray> out, x):
        return False
    start, n = <size_t> cnp.PyArray_DATA(<cnp.ndarray> out), cnp.PyArray_NBYTES(x)
    other = <size_t> cnp.PyArray_DATA(<cnp.ndarray> a)
    if other < start + n and start < other + n:
        return False
    other = <size_t> cnp.PyArray_DATA(<cnp.ndarray> b)
    return other >= start + n or start >= other + n
