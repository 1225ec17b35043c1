# The tasks of a parallel region, each worker's own first; see tasks.h.

cdef extern from "tasks.h" nogil:
    ctypedef struct Tasks:
        pass
    void tasks_begin(Tasks *t, Py_ssize_t count, Py_ssize_t workers) noexcept
    Py_ssize_t tasks_next(Tasks *t, Py_ssize_t worker) noexcept
