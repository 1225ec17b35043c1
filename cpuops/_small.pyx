# cython: binding=True
"""Methods whose small calls are compiled from end to end.

A call on 64 elements is over in 20 ns of arithmetic; what it costs is the way there. Here the operands are found ready, the
output is allocated and the kernel called without a Python frame between. Whatever is not
plain (operands to convert or refuse, an `out=` that needs a second look, work that may be worth a second thread, a backend
with primitives of its own: `Backend._small_ns`) goes to the readable method, which says the same in Python.
"""
cimport numpy as cnp

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


def unary_method(name, int index, double ns):
    """The forward method of a function of one array; `ns`: nanoseconds an element."""
    cdef tuple pair = keys("elementwise.unary")

    def method(self, x, *, out=None):
        cdef Py_ssize_t n
        if is_ready(x) and (out is None or fits_like(out, x, x, x)):
            n = cnp.PyArray_SIZE(<cnp.ndarray> x)
            kernel = kernel_of(self, pair, x, n * ns)
            if kernel is not None:
                if out is None:
                    out = empty_like(<cnp.ndarray> x)
                kernel(0.0, index, x, out, n, 0.0, 0.0, 1)
                return out
        return self._unary(name, index, x, out)

    return method


def pair_method(name, int index, double ns):
    """The forward method of a broadcast pair."""
    cdef tuple pair = keys("elementwise.binary"), one = (1,)

    def method(self, lhs, rhs, *, out=None):
        cdef Py_ssize_t n
        if are_alike(lhs, rhs) and (out is None or fits_like(out, lhs, lhs, rhs)):
            n = cnp.PyArray_SIZE(<cnp.ndarray> lhs)
            kernel = kernel_of(self, pair, lhs, n * ns)
            if kernel is not None:
                if out is None:
                    out = empty_like(<cnp.ndarray> lhs)
                kernel(0.0, index, lhs, 0, rhs, 0, out, (n,), one, one, 1)
                return out
        return self._pair(name, index, lhs, rhs, out)

    return method


cdef inline object gradient(self, tuple pair, name, op, int index, double ns, operand, output_grad, x, out):
    cdef Py_ssize_t n
    if are_alike(output_grad, x) and (out is None or fits_like(out, x, output_grad, x)):
        n = cnp.PyArray_SIZE(<cnp.ndarray> x)
        kernel = kernel_of(self, pair, x, n * ns)
        if kernel is not None:
            if out is None:
                out = empty_like(<cnp.ndarray> x)
            kernel(0.0, index, output_grad, x, out, n, 0.0, 0.0, 1)
            return out
    return self._unary_gradient(op, name, index, operand, output_grad, x, out)


def gradient_method(name, int index, double ns, operand):
    """The gradient method of a function of one array, from its operand "x" or its "output"."""
    cdef tuple pair = keys("elementwise.unary_backward")
    op = name + "_backward"

    if operand == "x":

        def method(self, output_grad, x, *, out=None):
            return gradient(self, pair, name, op, index, ns, "x", output_grad, x, out)
    else:

        def method(self, output_grad, output, *, out=None):
            return gradient(self, pair, name, op, index, ns, "output", output_grad, output, out)

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
