"""The recycling allocator of outputs and scratch.

A fresh array of some megabytes costs more in page faults than most operations cost in arithmetic, so the memory of an
array that died is kept for the next one. A :class:`Block` owns its memory and gives it back to the pool when it dies;
an array made here has one as its base, and so have all its views.

The pool
    Capacities are rounded up to eight classes an octave (at most 12.5 % above what was asked for). Each class has a list
    of free blocks, the last one freed on top, because its memory is warm. All free blocks are in one more list, by age:
    when the pool would hold more than its limit, the oldest ones go back to the system. What is larger than the
    limit is never kept. The links of both lists are in the free memory itself.

No lock
    Everything here runs with the GIL held, from the look into a list to the last link that is set, and nothing on
    the way runs Python code. The GIL is the lock. A lock of our own would be a fork hazard: a fork copies it as it
    stands, and if another thread held it, the child would wait for a thread that it does not have. `os.fork` is
    called with the GIL held too, so a child always finds the lists whole.
"""

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.string cimport memset

import numpy as np

cnp.import_array()


cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    #include <string.h>
    #if defined(_WIN32)
    #  include <malloc.h>
    #else
    #  include <sys/mman.h>
    #  if !defined(MAP_ANONYMOUS) && defined(MAP_ANON)
    #    define MAP_ANONYMOUS MAP_ANON
    #  endif
    #endif

    /* tracemalloc sees these arrays as it sees NumPy's own: this is numpy.lib.tracemalloc_domain */
    #define NUMPY_TRACE_DOMAIN 389047
    #if !defined(PYPY_VERSION)
    #  define trace_new(p, n) ((void)PyTraceMalloc_Track(NUMPY_TRACE_DOMAIN, (uintptr_t)(p), (n)))
    #  define trace_free(p) ((void)PyTraceMalloc_Untrack(NUMPY_TRACE_DOMAIN, (uintptr_t)(p)))
    #else
    #  define trace_new(p, n) ((void)0)
    #  define trace_free(p) ((void)0)
    #endif

    #define CACHE_LINE ((size_t)64)               /* bytes; also the widest vector */
    #define LARGE_PAGE ((size_t)64 << 10)         /* a multiple of every system's page */
    #define HUGE_PAGE ((size_t)2 << 20)
    /* from this size on memory is mapped: it goes back to the system at once when it is given up, whatever malloc would
       do with it, and can lie on huge pages */
    #define MAPPED_BYTES ((size_t)1 << 20)
    #define HUGE_BYTES ((size_t)4 << 20)          /* from this size on huge pages are asked for */

    #define VARIED_BYTES ((size_t)4096)           /* from this size on a larger free block is taken, too: */
    #define FURTHER_ARRAY 2                       /* 25 % larger, so that shapes that vary find memory */
    #define FURTHER_SCRATCH 16                    /* four times, for it comes back at once */

    /* ---- size classes: multiples of 64 up to 1024, then eight an octave */
    #define CLASSES 448
    #define LARGEST ((size_t)1 << (8 * sizeof(size_t) - 2))

    static inline int log2_floor(size_t n) {
    #if defined(__GNUC__)
        return 63 - __builtin_clzll((unsigned long long)n);
    #else
        int k = 0;
        while (n >>= 1) k++;
        return k;
    #endif
    }

    /* the class that holds n bytes, 1 <= n <= LARGEST, and its capacity */
    static inline int size_class(size_t n, size_t *capacity) {
        size_t lines = (n + CACHE_LINE - 1) / CACHE_LINE;       /* >= 1 */
        if (lines <= 16) {
            *capacity = lines * CACHE_LINE;
            return (int)lines - 1;                              /* 0 .. 15 */
        }
        int shift = log2_floor(lines - 1) - 3;                  /* lines - 1 has four leading bits above shift */
        size_t steps = ((lines - 1) >> shift) + 1;              /* 9 .. 16 */
        *capacity = (steps << shift) * CACHE_LINE;
        return 16 + (shift - 1) * 8 + (int)(steps - 9);
    }

    /* ---- memory of the system; size is the capacity. Zero pages set *zeroed */
    static inline void *system_take(size_t size, int *zeroed) {
        *zeroed = 0;
    #if defined(_WIN32)
        return _aligned_malloc(size, CACHE_LINE);
    #else
        if (size < MAPPED_BYTES) {
            void *p = NULL;
            return posix_memalign(&p, CACHE_LINE, size) ? NULL : p;
        }
        /* more than asked for, so that a huge page can begin at the block's begin; both ends are cut off again */
        size_t align = size >= HUGE_BYTES ? HUGE_PAGE : 0;
        char *p = (char *)mmap(NULL, size + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == (char *)MAP_FAILED) return NULL;
        if (align) {
            size_t before = (align - ((uintptr_t)p & (align - 1))) & (align - 1);
            if (before) munmap(p, before);
            if (align - before) munmap(p + before + size, align - before);
            p += before;
    #  if defined(MADV_HUGEPAGE)
            (void)madvise(p, size & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);   /* a wish: without it pages are small */
    #  endif
        }
        *zeroed = 1;
        return p;
    #endif
    }

    static inline void system_free(void *p, size_t size) {
    #if defined(_WIN32)
        (void)size;
        _aligned_free(p);
    #else
        if (size < MAPPED_BYTES) free(p);
        else munmap(p, size);
    #endif
    }

    /* ---- the pool */
    typedef struct Free {
        struct Free *newer, *older;         /* in the list of all */
        struct Free *above, *below;         /* in the list of its class */
        size_t capacity;
        int cls;
    } Free;                                 /* 48 bytes: fits the smallest block */

    /* small blocks cost malloc more than their size: this bounds how many of them lie around */
    #define MOST_FREE_BLOCKS 16384

    static struct {
        Free *top[CLASSES];
        Free *newest, *oldest;
        size_t blocks, held, in_use, limit;
        unsigned long long hits, misses;
    } pool = {.limit = (size_t)256 << 20};      /* cpuops.memory sets it from the environment */

    static inline void pool_unlink(Free *f) {
        if (f->newer) f->newer->older = f->older; else pool.newest = f->older;
        if (f->older) f->older->newer = f->newer; else pool.oldest = f->newer;
        if (f->above) f->above->below = f->below; else pool.top[f->cls] = f->below;
        if (f->below) f->below->above = f->above;
        pool.held -= f->capacity;
        pool.blocks--;
    }

    /* gives the oldest free blocks back to the system until at most `keep` bytes are held */
    static void pool_shrink(size_t keep) {
        while (pool.held > keep) {
            Free *f = pool.oldest;
            pool_unlink(f);
            system_free(f, f->capacity);
        }
    }

    /* memory of at least n bytes (n <= LARGEST), or NULL; of large blocks one of the next `further` classes will do, too */
    static inline void *pool_take(size_t n, int further, size_t *capacity, int *zeroed) {
        size_t cap;
        int cls = size_class(n ? n : 1, &cap);
        if (cap <= pool.limit) {
            int last = cap >= VARIED_BYTES && cls + further < CLASSES ? cls + further : cls;
            for (; cls <= last; cls++) {
                Free *f = pool.top[cls];
                if (f) {
                    pool_unlink(f);
                    pool.hits++;
                    *capacity = f->capacity;
                    pool.in_use += f->capacity;
                    *zeroed = 0;
                    trace_new(f, n);
                    return f;
                }
            }
        }
        else if (n)                         /* will not be kept, so is as long as asked for: memory checkers see its end */
            cap = n < MAPPED_BYTES ? n : (n + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
        void *p = system_take(cap, zeroed);
        if (!p && pool.held) {
            pool_shrink(0);
            p = system_take(cap, zeroed);
        }
        if (!p) return NULL;
        pool.misses++;
        pool.in_use += cap;
        *capacity = cap;
        trace_new(p, n);
        return p;
    }

    static inline void pool_give(void *p, size_t capacity) {
        trace_free(p);
        pool.in_use -= capacity;
        size_t cap;
        int cls = size_class(capacity, &cap);
        if (capacity > pool.limit || cap != capacity) {     /* not of a class: it was above the limit when it was made */
            system_free(p, capacity);
            return;
        }
        pool_shrink(pool.limit - capacity);
        if (pool.blocks >= MOST_FREE_BLOCKS) {
            Free *f = pool.oldest;
            pool_unlink(f);
            system_free(f, f->capacity);
        }
        Free *f = (Free *)p;
        f->capacity = capacity;
        f->cls = cls;
        f->newer = NULL;
        f->older = pool.newest;
        if (f->older) f->older->newer = f; else pool.oldest = f;
        pool.newest = f;
        f->above = NULL;
        f->below = pool.top[cls];
        if (f->below) f->below->above = f;
        pool.top[cls] = f;
        pool.held += capacity;
        pool.blocks++;
    }
    """
    const size_t LARGEST
    const int FURTHER_ARRAY, FURTHER_SCRATCH
    ctypedef struct Pool:
        size_t blocks, held, in_use, limit
        unsigned long long hits, misses
    Pool pool
    void *pool_take(size_t n, int further, size_t *capacity, int *zeroed) noexcept
    void pool_give(void *p, size_t capacity) noexcept
    void pool_shrink(size_t keep) noexcept


cdef extern from "numpy/arrayobject.h":
    object PyArray_NewFromDescr(void *subtype, void *descr, int nd, cnp.npy_intp *dims, cnp.npy_intp *strides,
                                void *data, int flags, void *obj)
    int PyArray_SetBaseObject(cnp.ndarray arr, PyObject *obj) except -1
    PyObject PyArray_Type
    bint PyDataType_REFCHK(void *descr)
    bint PyArray_IsNativeByteOrder(char order)


@cython.final
@cython.freelist(64)
cdef class Block:
    """Memory that goes back to the pool when this object dies."""

    def __cinit__(self):
        self.ptr = NULL

    def __dealloc__(self):
        if self.ptr != NULL:
            pool_give(self.ptr, self.capacity)

    @property
    def address(self):
        """The first byte's address."""
        return <size_t> self.ptr

    @property
    def nbytes(self):
        """Bytes asked for."""
        return self.size


cdef Block take(size_t nbytes, int further=FURTHER_ARRAY):
    """A Block of nbytes, or None where there is no memory."""
    cdef Block block
    cdef size_t capacity = 0
    cdef int zeroed = 0
    cdef void *p
    if nbytes > LARGEST:
        return None
    block = Block.__new__(Block)
    p = pool_take(nbytes, further, &capacity, &zeroed)
    if p == NULL:
        return None
    block.ptr = p
    block.size = nbytes
    block.capacity = capacity
    block.zeroed = zeroed
    return block


cdef Block scratch(size_t nbytes):
    """Uninitialised memory for a kernel, 64-byte aligned; MemoryError where there is none. Needs the GIL."""
    cdef Block block = take(nbytes, FURTHER_SCRATCH)
    if block is None:
        raise MemoryError(f"cpuops: cannot allocate {nbytes} bytes of scratch memory")
    return block


cdef object no_memory(tuple shape, cnp.dtype descr):
    nbytes = int(descr.itemsize)
    for n in shape:
        nbytes *= int(n) or 1   # what is asked for beside an empty axis counts, too: no array can have it
    text = str(shape) if len(shape) <= 32 else f"of {len(shape)} axes"
    return MemoryError(f"cpuops: cannot allocate an array of shape {text[:500]} and dtype {descr}: {nbytes} bytes")


cdef Py_ssize_t AXES = 64       # NumPy's most


cdef cnp.ndarray make(tuple shape, object dtype, bint zero):
    cdef cnp.dtype descr = <cnp.dtype> dtype if isinstance(dtype, cnp.dtype) else np.dtype(dtype)
    cdef cnp.npy_intp dims[64]
    cdef Py_ssize_t i, n, ndim = len(shape)
    cdef size_t nbytes
    cdef bint nothing = False
    cdef Block block
    if PyDataType_REFCHK(<void *> descr):
        raise TypeError(f"cpuops: no arrays of dtype {descr}")
    if not PyArray_IsNativeByteOrder(descr.byteorder):
        descr = descr.newbyteorder("=")
    if ndim > AXES:
        raise ValueError(f"cpuops: an array of {ndim} axes, expected at most {AXES}")
    nbytes = descr.itemsize
    try:
        for i in range(ndim):
            n = shape[i]
            dims[i] = n
            if n <= 0:
                if n < 0:
                    raise ValueError(f"cpuops: shape is {shape}, expected no negative length")
                nothing = True
            elif nbytes > LARGEST // <size_t> n:
                raise OverflowError
            else:
                nbytes *= <size_t> n
    except OverflowError:
        raise no_memory(shape, descr) from None
    block = take(0 if nothing else nbytes)
    if block is None:
        raise no_memory(shape, descr)
    if zero and not block.zeroed:
        if nbytes > 1 << 18:
            with nogil:
                memset(block.ptr, 0, block.size)
        else:
            memset(block.ptr, 0, block.size)
    return array_over(block, descr, <int> ndim, dims)


cdef inline cnp.ndarray array_over(Block block, cnp.dtype descr, int ndim, cnp.npy_intp *dims):
    """The C-contiguous array that owns `block`."""
    cdef cnp.ndarray array
    Py_INCREF(descr)        # NewFromDescr takes it over
    array = PyArray_NewFromDescr(&PyArray_Type, <void *> descr, ndim, dims, NULL, block.ptr, cnp.NPY_ARRAY_CARRAY, NULL)
    Py_INCREF(block)        # and SetBaseObject this
    PyArray_SetBaseObject(array, <PyObject *> block)
    return array


cdef cnp.ndarray empty_like(cnp.ndarray x):
    """An uninitialised array of x's shape; x is contiguous and native, so that its size in bytes is known to be possible."""
    cdef Block block = take(cnp.PyArray_NBYTES(x))
    if block is None:
        raise no_memory((<object> x).shape, x.dtype)
    return array_over(block, x.dtype, cnp.PyArray_NDIM(x), cnp.PyArray_DIMS(x))


cdef cnp.ndarray empty_dims(int ndim, const cnp.npy_intp *dims, cnp.dtype dtype):
    """An uninitialised array of few bytes."""
    cdef size_t nbytes = dtype.itemsize
    cdef int i
    for i in range(ndim):
        nbytes *= <size_t> dims[i]
    cdef Block block = take(nbytes)
    if block is None:
        raise no_memory(tuple([dims[i] for i in range(ndim)]), dtype)
    return array_over(block, dtype, ndim, <cnp.npy_intp *> dims)


def empty(tuple shape, dtype):
    """An uninitialised array: C-contiguous, native, 64-byte aligned, writable, in recycled memory.

    Parameters
    ----------
    shape : tuple of int
        Lengths, at least 0.
    dtype : dtype or type
        Anything of NumPy's but object.

    Returns
    -------
    numpy.ndarray

    Raises
    ------
    MemoryError
        When there is no memory, or no machine could have it; names shape, dtype and bytes.
    """
    return make(shape, dtype, False)


def zeros(tuple shape, dtype):
    """As :func:`empty`, filled with zeros."""
    return make(shape, dtype, True)


def counts():
    """(held, in_use, limit, blocks, hits, misses) of the pool; the first three in bytes."""
    return pool.held, pool.in_use, pool.limit, pool.blocks, pool.hits, pool.misses


def set_limit(size_t limit):
    """Bound the bytes that the pool holds; what is above is given back at once."""
    pool.limit = limit
    pool_shrink(limit)


def trim(size_t keep):
    """Give free blocks back to the system until at most `keep` bytes are held."""
    pool_shrink(keep)
