# Fused dtype, and the pointer to an array's first cell (four times cheaper than a typed memoryview argument).
cimport numpy as cnp

ctypedef fused real:
    float
    double

cdef extern from "numpy/arrayobject.h" nogil:
    void *data "PyArray_DATA"(cnp.ndarray array)
