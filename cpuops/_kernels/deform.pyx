"""Deformable convolution and its gradients; how the work is cut and what is summed in which order: deform.h.

geometry: (batch, channels, outputs, weight groups, offset groups, size, kernel, output, stride, dilation, before), the last
six as (height, width). There is at least one channel and one output.
"""
cimport numpy as cnp
from cython.parallel cimport prange

from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "deform.h" nogil:
    int DEFORM_PACK, DEFORM_FORWARD, DEFORM_PACK_TURNED, DEFORM_BOTH, DEFORM_OFFSET, DEFORM_X, DEFORM_WEIGHT, DEFORM_SUM
    Py_ssize_t DEFORM_PARTIAL_BYTES
    ctypedef struct deform_call:
        Py_ssize_t batch, channels, outputs, weight_groups, offset_groups
        Py_ssize_t size[2]
        Py_ssize_t kernel[2]
        Py_ssize_t output[2]
        Py_ssize_t stride[2]
        Py_ssize_t dilation[2]
        Py_ssize_t before[2]
        const void *x
        const void *offset
        const void *weight
        const void *mask
        const void *bias
        const void *grad
        void *out
        void *x_grad
        void *offset_grad
        void *weight_grad
        void *mask_grad
        Py_ssize_t blocks, strips, parts, pieces, per_pass
        Py_ssize_t *starts
        size_t memory_bytes, shared_bytes
        void *shared
        Py_ssize_t first, last, next, tasks
    void deform_plan(deform_call *c, Py_ssize_t size, int backward, int threads) noexcept
    Py_ssize_t deform_find_blocks(const deform_call *c, Py_ssize_t size, Py_ssize_t *starts) noexcept
    Py_ssize_t deform_weight_units(const deform_call *c) noexcept
    Py_ssize_t deform_forward_tasks(const deform_call *c) noexcept
    Py_ssize_t deform_partial(const deform_call *c) noexcept
    void deform_work_f32(deform_call *c, int phase, void *memory) noexcept
    void deform_work_f64(deform_call *c, int phase, void *memory) noexcept


cdef void *address(cnp.ndarray a) noexcept:
    return NULL if a is None else data(a)


cdef deform_call call_of(object geometry, cnp.ndarray x, cnp.ndarray offset, cnp.ndarray weight, cnp.ndarray mask):
    cdef deform_call c
    cdef int a
    c.batch, c.channels, c.outputs, c.weight_groups, c.offset_groups = geometry[:5]
    for a in range(2):
        c.size[a], c.kernel[a], c.output[a] = geometry[5][a], geometry[6][a], geometry[7][a]
        c.stride[a], c.dilation[a], c.before[a] = geometry[8][a], geometry[9][a], geometry[10][a]
    c.x, c.offset, c.weight, c.mask = address(x), address(offset), address(weight), address(mask)
    c.bias = c.grad = NULL
    c.out = c.x_grad = c.offset_grad = c.weight_grad = c.mask_grad = NULL
    return c


cdef void phase_of(real tag, deform_call *c, int phase, Py_ssize_t tasks, char *memory, int num_threads) noexcept nogil:
    """The tasks of a phase, each of which writes cells of its own, by as many workers as there are threads or tasks."""
    cdef Py_ssize_t slot, slots = tasks if tasks < num_threads else num_threads
    c.next, c.tasks = 0, tasks
    if slots <= 1:
        if real is float:
            deform_work_f32(c, phase, memory)
        else:
            deform_work_f64(c, phase, memory)
    else:
        for slot in prange(slots, schedule='static', chunksize=1, num_threads=num_threads):
            if real is float:
                deform_work_f32(c, phase, memory + slot * c.memory_bytes)
            else:
                deform_work_f64(c, phase, memory + slot * c.memory_bytes)


cdef void next_pass(deform_call *c, Py_ssize_t first, Py_ssize_t many, Py_ssize_t end) noexcept nogil:
    c.first = first
    c.last = first + many if first + many < end else end


def deform_conv2d(real tag, cnp.ndarray x, cnp.ndarray offset, cnp.ndarray weight, cnp.ndarray mask, cnp.ndarray bias,
                  cnp.ndarray out, object geometry, int num_threads):
    """OUT out = IN weight on samples of IN x at places moved by IN offset, times IN mask (or None), + IN bias (or None).
    Parallel over batch items, weight groups (depthwise: blocks of channels), strips of rows, and parts of the outputs."""
    cdef deform_call c = call_of(geometry, x, offset, weight, mask)
    c.bias, c.out = address(bias), address(out)
    deform_plan(&c, sizeof(real), 0, num_threads)
    cdef Block starts = scratch((c.blocks + 1) * sizeof(Py_ssize_t))
    cdef Block memory = scratch(c.memory_bytes * num_threads), shared = scratch(c.shared_bytes)
    cdef char *mp = <char *> memory.ptr
    cdef Py_ssize_t first = 0, tasks = 0
    c.starts, c.shared = <Py_ssize_t *> starts.ptr, shared.ptr
    with nogil:
        deform_find_blocks(&c, sizeof(real), c.starts)
        while first < c.blocks:
            next_pass(&c, first, c.per_pass, c.blocks)
            phase_of(tag, &c, DEFORM_PACK, c.last - first, mp, num_threads)
            tasks = deform_forward_tasks(&c)
            phase_of(tag, &c, DEFORM_FORWARD, tasks, mp, num_threads)
            first = c.last
    return tasks


def deform_conv2d_backward(real tag, cnp.ndarray x, cnp.ndarray offset, cnp.ndarray weight, cnp.ndarray mask, cnp.ndarray grad,
                           cnp.ndarray x_grad, cnp.ndarray offset_grad, cnp.ndarray weight_grad, cnp.ndarray mask_grad,
                           object geometry, int num_threads):
    """OUT x_grad, offset_grad, weight_grad, mask_grad (None like IN mask): the gradients of deform_conv2d for IN grad.
    Parallel over offset groups of batch items, or, where these are few, first over their strips (offset and mask) and then
    over blocks of channels (x); then over blocks of weight_grad and parts of the batch, whose sums are added in order."""
    cdef deform_call c = call_of(geometry, x, offset, weight, mask)
    c.grad = address(grad)
    c.x_grad, c.offset_grad, c.weight_grad, c.mask_grad = address(x_grad), address(offset_grad), address(weight_grad), address(mask_grad)
    deform_plan(&c, sizeof(real), 1, num_threads)
    cdef Py_ssize_t units = deform_weight_units(&c), moved = c.batch * c.offset_groups, first = 0, many
    cdef size_t unit_bytes = c.pieces * deform_partial(&c) * sizeof(real)
    many = DEFORM_PARTIAL_BYTES * num_threads // unit_bytes
    many = 1 if many < 1 else units if many > units else many
    cdef Block starts = scratch((c.blocks + 1) * sizeof(Py_ssize_t))
    cdef Block memory = scratch(c.memory_bytes * num_threads), shared = scratch(max(c.shared_bytes, many * unit_bytes))
    cdef char *mp = <char *> memory.ptr
    c.starts, c.shared = <Py_ssize_t *> starts.ptr, shared.ptr
    # one column gradient serves x and offset, if there is an offset group of a batch item for each thread
    cdef bint together = moved % num_threads == 0 or moved >= 4 * num_threads
    with nogil:
        deform_find_blocks(&c, sizeof(real), c.starts)
        while first < c.blocks:
            next_pass(&c, first, c.per_pass, c.blocks)
            phase_of(tag, &c, DEFORM_PACK_TURNED, c.last - first, mp, num_threads)
            if together:
                phase_of(tag, &c, DEFORM_BOTH, moved, mp, num_threads)
            else:
                phase_of(tag, &c, DEFORM_OFFSET, moved * c.strips, mp, num_threads)
                phase_of(tag, &c, DEFORM_X, c.batch * (c.last - first), mp, num_threads)
            first = c.last
        first = 0
        while first < units:
            next_pass(&c, first, many, units)
            phase_of(tag, &c, DEFORM_WEIGHT, c.pieces * (c.last - first), mp, num_threads)
            phase_of(tag, &c, DEFORM_SUM, c.last - first, mp, num_threads)
            first = c.last
    return moved if together else moved * c.strips
