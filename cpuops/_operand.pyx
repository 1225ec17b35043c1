"""The layout rule, compiled: what a kernel may be given as it is.

Every call of every operation passes here once an operand, so the check of a good operand must cost tens of
nanoseconds; everything else goes to the readable slow path in `_check.py`.
"""
cimport numpy as cnp
from cpython.object cimport Py_TYPE

cnp.import_array()

cdef object slow = None


def set_slow_path(function):
    """`function(op, name, value)` converts or refuses what is no ready operand (set once, by `_check`)."""
    global slow
    slow = function


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
    return are_alike(a, b)


def ready_together(values, bint optional):
    """Whether all of `values`, a tuple or list, are ready and of one dtype; `optional`: None may be among them."""
    cdef int kind = -1
    for value in values:
        if value is None and optional:
            continue
        if not is_ready(value):
            return False
        if kind < 0:
            kind = cnp.PyArray_TYPE(<cnp.ndarray> value)
        elif kind != cnp.PyArray_TYPE(<cnp.ndarray> value):
            return False
    return True


def ready_of_rank(tuple values, int ndim):
    """Whether all of `values` are ready, of one dtype and with so many axes."""
    cdef Py_ssize_t i
    for i in range(len(values)):
        if not is_ready(values[i]) or cnp.PyArray_NDIM(<cnp.ndarray> values[i]) != ndim:
            return False
        if cnp.PyArray_TYPE(<cnp.ndarray> values[i]) != cnp.PyArray_TYPE(<cnp.ndarray> values[0]):
            return False
    return True


def ready_strided(tuple values):
    """Whether a kernel that takes any strides may be given all of `values` as they are: of one dtype, and none is None."""
    cdef Py_ssize_t i
    for i in range(len(values)):
        if not is_ready_strided(values[i]):
            return False
        if i and cnp.PyArray_TYPE(<cnp.ndarray> values[i]) != cnp.PyArray_TYPE(<cnp.ndarray> values[0]):
            return False
    return True


def ready_product(a, b):
    """The shape of ``a @ b`` where a kernel may be given both as they are, they have one dtype and can be multiplied, and `b`
    has two axes; else None."""
    if not (is_ready_strided(a) and is_ready_strided(b)):
        return None
    cdef cnp.ndarray x = <cnp.ndarray> a, y = <cnp.ndarray> b
    cdef int i, n = cnp.PyArray_NDIM(x)
    if n == 0 or cnp.PyArray_NDIM(y) != 2 or cnp.PyArray_TYPE(x) != cnp.PyArray_TYPE(y):
        return None
    if cnp.PyArray_DIM(x, n - 1) != cnp.PyArray_DIM(y, 0):
        return None
    if n == 2:
        return cnp.PyArray_DIM(x, 0), cnp.PyArray_DIM(y, 1)
    return tuple([cnp.PyArray_DIM(x, i) for i in range(n - 1)] + [cnp.PyArray_DIM(y, 1)])


def ready_indices(value):
    """Whether `value` is an exact ndarray of int64, C-contiguous, aligned, native byte order."""
    return (Py_TYPE(value) == &PyArray_Type and cnp.PyArray_TYPE(<cnp.ndarray> value) == cnp.NPY_INT64
            and PyArray_ISCARRAY_RO(<cnp.ndarray> value))


cdef bint none_outside(const cnp.uint64_t *index, Py_ssize_t n, cnp.uint64_t last) noexcept nogil:
    """Without a branch, so that it runs in vectors: the top bit of i is set where i < 0, that of last - i where i > last."""
    cdef cnp.uint64_t seen = 0
    cdef Py_ssize_t i
    for i in range(n):
        seen |= index[i] | (last - index[i])
    return seen >> 63 == 0


def in_range(cnp.ndarray indices, Py_ssize_t upper):
    """Whether all of `indices` (int64, contiguous) are from 0 to upper - 1."""
    cdef const cnp.uint64_t *index = <const cnp.uint64_t *> cnp.PyArray_DATA(indices)
    cdef Py_ssize_t n = cnp.PyArray_SIZE(indices)
    cdef bint inside
    if n <= 4096:
        return none_outside(index, n, <cnp.uint64_t> upper - 1)
    with nogil:
        inside = none_outside(index, n, <cnp.uint64_t> upper - 1)
    return inside


cdef inline bint among(object value, tuple values) noexcept:
    cdef Py_ssize_t i
    for i in range(len(values)):
        if values[i] is value:
            return True
    return False


cdef inline bint apart(cnp.ndarray a, size_t start, size_t end) noexcept:
    """Whether no cell of `a`, whatever its strides, lies in the bytes from start to end."""
    cdef size_t first = <size_t> cnp.PyArray_DATA(a), last = first + cnp.PyArray_ITEMSIZE(a)
    cdef Py_ssize_t step
    cdef int i
    for i in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_DIM(a, i) == 0:
            return True
        step = (cnp.PyArray_DIM(a, i) - 1) * cnp.PyArray_STRIDE(a, i)
        if step < 0:
            first += step
        else:
            last += step
    return last <= start or end <= first


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
        if operand is None:
            continue
        if Py_TYPE(operand) != &PyArray_Type:
            return False
        b = <cnp.ndarray> operand
        if apart(b, start, end):
            continue
        if not is_ready(operand):
            return False
        other = <size_t> cnp.PyArray_DATA(b)
        if not (other == start and among(operand, inplace) and same_dims(a, b) and cnp.PyArray_TYPE(a) == cnp.PyArray_TYPE(b)):
            return False
    return True
