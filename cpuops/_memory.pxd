cimport numpy as cnp


cdef class Block:
    cdef void *ptr          # 64-byte aligned, uninitialised
    cdef size_t size        # bytes asked for
    cdef size_t capacity    # bytes there are
    cdef bint zeroed        # fresh from the system, and not written since


cdef Block scratch(size_t nbytes)
cdef cnp.ndarray empty_like(cnp.ndarray x)
cdef cnp.ndarray empty_dims(int ndim, const cnp.npy_intp *dims, cnp.dtype dtype)
