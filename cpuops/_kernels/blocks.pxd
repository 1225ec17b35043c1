# Block ranges: the only partition arithmetic; see blocks.h.

cdef extern from "blocks.h" nogil:
    Py_ssize_t even_size(Py_ssize_t n, Py_ssize_t most, Py_ssize_t threads) noexcept

# blocks of `size` that cover n
cdef inline Py_ssize_t block_count(Py_ssize_t n, Py_ssize_t size) noexcept nogil:
    return (n + size - 1) // size

# first index of block b
cdef inline Py_ssize_t block_start(Py_ssize_t b, Py_ssize_t size) noexcept nogil:
    return b * size

# one past the last index of block b
cdef inline Py_ssize_t block_end(Py_ssize_t b, Py_ssize_t size, Py_ssize_t n) noexcept nogil:
    return n if (b + 1) * size > n else (b + 1) * size
