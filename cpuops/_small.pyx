# cython: binding=True
"""Methods whose small calls are compiled from end to end.

A call on 64 elements is over in 20 ns of arithmetic; what it costs is the way there. Here the operands are found ready, the
output is allocated and the kernel called without a Python frame between; an elementwise kernel's loop even without a Python
call (`add` of 64 numbers: 0.21 us, 0.45 with one). Whatever is not plain (operands to convert or refuse, an `out=` that needs
a second look, work that may be worth a second thread, a backend with primitives of its own: `Backend._small_ns`) goes to the
readable method, which says the same in Python.
"""
cimport numpy as cnp
from cpython.pycapsule cimport PyCapsule_GetPointer

from cpuops._memory cimport empty_dims, empty_like
from cpuops._operand cimport are_alike, fits_like, is_ready, is_ready_strided

from cpuops._kernels import KERNELS

cnp.import_array()

cdef dict kernels = KERNELS


cdef inline object kernel_of(self, tuple pair, object x, double ns):
    """The kernel of `pair` (its keys for float32 and float64) for a small call on ready `x`, or None."""
    if ns >= <double> self._small_ns:
        return None
    return kernels.get(pair[0] if cnp.PyArray_TYPE(<cnp.ndarray> x) == cnp.NPY_FLOAT else pair[1])


cdef inline tuple keys(name):
    return (name, "f"), (name, "d")


# an elementwise kernel's loop, of either dtype
ctypedef void (*unary_loop)(int op, const void *x, void *out, Py_ssize_t n, double p, double q) noexcept nogil
ctypedef void (*gradient_loop)(int op, const void *g, const void *x, void *out, Py_ssize_t n, double p, double q) noexcept nogil
ctypedef void (*pair_loop)(int op, const void *x, const void *y, void *out, Py_ssize_t n) noexcept nogil
cdef unary_loop unary_loops[2]
cdef gradient_loop gradient_loops[2]
cdef pair_loop pair_loops[2]

cdef enum:
    BRIEF = 1024    # elements: giving up the GIL would take longer than these


def set_loops(dict loops):
    """The elementwise kernels' loops, as `_kernels.elementwise` has them (set once, by `ops.elementwise`)."""
    for i, char in enumerate("fd"):
        unary_loops[i] = <unary_loop> PyCapsule_GetPointer(loops[char][0], NULL)
        gradient_loops[i] = <gradient_loop> PyCapsule_GetPointer(loops[char][1], NULL)
        pair_loops[i] = <pair_loop> PyCapsule_GetPointer(loops[char][2], NULL)


cdef inline int kind(x) noexcept:
    return cnp.PyArray_TYPE(<cnp.ndarray> x) != cnp.NPY_FLOAT


cdef inline void *at(x) noexcept:
    return cnp.PyArray_DATA(<cnp.ndarray> x)


def unary_method(name, int index, double ns):
    """The forward method of a function of one array; `ns`: nanoseconds an element."""

    def method(self, x, *, out=None):
        cdef Py_ssize_t n
        cdef unary_loop loop
        cdef void *from_
        cdef void *to
        if is_ready(x) and (out is None or fits_like(out, x, x, x)):
            n = cnp.PyArray_SIZE(<cnp.ndarray> x)
            if n * ns < <double> self._small_ns:
                if out is None:
                    out = empty_like(<cnp.ndarray> x)
                loop, from_, to = unary_loops[kind(x)], at(x), at(out)
                if n <= BRIEF:
                    loop(index, from_, to, n, 0.0, 0.0)
                else:
                    with nogil:
                        loop(index, from_, to, n, 0.0, 0.0)
                return out
        return self._unary(name, index, x, out)

    return method


def pair_method(name, int index, double ns):
    """The forward method of a broadcast pair."""

    def method(self, lhs, rhs, *, out=None):
        cdef Py_ssize_t n
        cdef pair_loop loop
        cdef void *first
        cdef void *second
        cdef void *to
        if are_alike(lhs, rhs) and (out is None or fits_like(out, lhs, lhs, rhs)):
            n = cnp.PyArray_SIZE(<cnp.ndarray> lhs)
            if n * ns < <double> self._small_ns:
                if out is None:
                    out = empty_like(<cnp.ndarray> lhs)
                loop, first, second, to = pair_loops[kind(lhs)], at(lhs), at(rhs), at(out)
                if n <= BRIEF:
                    loop(index, first, second, to, n)
                else:
                    with nogil:
                        loop(index, first, second, to, n)
                return out
        return self._pair(name, index, lhs, rhs, out)

    return method


cdef inline object gradient(self, name, op, int index, double ns, operand, output_grad, x, out):
    cdef Py_ssize_t n
    cdef gradient_loop loop
    cdef void *g
    cdef void *from_
    cdef void *to
    if are_alike(output_grad, x) and (out is None or fits_like(out, x, output_grad, x)):
        n = cnp.PyArray_SIZE(<cnp.ndarray> x)
        if n * ns < <double> self._small_ns:
            if out is None:
                out = empty_like(<cnp.ndarray> x)
            loop, g, from_, to = gradient_loops[kind(x)], at(output_grad), at(x), at(out)
            if n <= BRIEF:
                loop(index, g, from_, to, n, 0.0, 0.0)
            else:
                with nogil:
                    loop(index, g, from_, to, n, 0.0, 0.0)
            return out
    return self._unary_gradient(op, name, index, operand, output_grad, x, out)


def gradient_method(name, int index, double ns, operand):
    """The gradient method of a function of one array, from its operand "x" or its "output"."""
    op = name + "_backward"

    if operand == "x":

        def method(self, output_grad, x, *, out=None):
            return gradient(self, name, op, index, ns, "x", output_grad, x, out)
    else:

        def method(self, output_grad, output, *, out=None):
            return gradient(self, name, op, index, ns, "output", output_grad, output, out)

    return method


cdef tuple SOFTMAX = keys("softmax.softmax"), MATMUL = keys("matmul.matmul"), REDUCE = keys("reduce.reduce"), NONE = ()


def reduction(self, x, axis, int op, cnp.dtype dtype, bint mean, double ns):
    """A reduction along the last axis, or of everything, where the call is small and plain, else None.

    dtype: of the output, None for that of x; ns: nanoseconds a byte.
    """
    cdef Py_ssize_t n, m, size
    cdef int kept
    if not is_ready(x):
        return None
    kept, n = 0, cnp.PyArray_SIZE(<cnp.ndarray> x)
    size = n
    if axis is not None:
        kept = cnp.PyArray_NDIM(<cnp.ndarray> x) - 1
        if type(axis) is not int or kept < 0 or (axis != -1 and axis != kept):
            return None
        n = cnp.PyArray_DIM(<cnp.ndarray> x, kept)
    if size == 0 or n == 1:
        return None
    kernel = kernel_of(self, REDUCE, x, cnp.PyArray_NBYTES(<cnp.ndarray> x) * ns)
    if kernel is None:
        return None
    m = size // n
    out = empty_dims(kept, cnp.PyArray_DIMS(<cnp.ndarray> x), (<cnp.ndarray> x).dtype if dtype is None else dtype)
    # as ops.reduce.plan cuts it
    kernel(0.0, op, x, out, None, <double> n if mean else 1.0,
           (m, 1, n, 1, (m,), (n,), NONE, NONE) if m > 1 else (m, 1, n, 1, NONE, NONE, NONE, NONE), 1)
    return out


def softmax(self, x, axis, double ns, int logs):
    """Softmax or its logarithm along the last axis where the call is small and plain, else None."""
    cdef Py_ssize_t n, size
    cdef int ndim
    if not is_ready(x) or type(axis) is not int:
        return None
    ndim = cnp.PyArray_NDIM(<cnp.ndarray> x)
    size = cnp.PyArray_SIZE(<cnp.ndarray> x)
    if ndim == 0 or size == 0 or (axis != -1 and axis != ndim - 1):
        return None
    kernel = kernel_of(self, SOFTMAX, x, size * ns)
    if kernel is None:
        return None
    n = cnp.PyArray_DIM(<cnp.ndarray> x, ndim - 1)
    out = empty_like(<cnp.ndarray> x)
    kernel(0.0, x, out, size // n, n, 1, logs, 1.0, 1)
    return out


def matmul(self, lhs, rhs, double ns):
    """A product of two matrices where the call is small and plain, else None; `ns`: nanoseconds a multiply-add."""
    cdef cnp.ndarray a, b
    cdef cnp.npy_intp dims[2]
    cdef double terms
    if not (is_ready_strided(lhs) and is_ready_strided(rhs)):
        return None
    a, b = <cnp.ndarray> lhs, <cnp.ndarray> rhs
    if cnp.PyArray_NDIM(a) != 2 or cnp.PyArray_NDIM(b) != 2 or cnp.PyArray_TYPE(a) != cnp.PyArray_TYPE(b):
        return None
    if cnp.PyArray_DIM(a, 1) != cnp.PyArray_DIM(b, 0):
        return None
    terms = <double> cnp.PyArray_SIZE(a) * cnp.PyArray_DIM(b, 1)
    kernel = kernel_of(self, MATMUL, a, terms * ns)
    if kernel is None:
        return None
    dims[0], dims[1] = cnp.PyArray_DIM(a, 0), cnp.PyArray_DIM(b, 1)
    out = empty_dims(2, dims, a.dtype)
    kernel(0.0, a, b, None, out, 0, 1)
    return out
