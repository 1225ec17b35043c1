"""Convolution: the forward pass and the gradients to x, weight and bias.

The jobs, the paths and the arithmetic are conv.h's (read its head); here are the scratch and the threads.
"""
import os

cimport numpy as cnp
from cython.parallel cimport parallel, threadid

from cpuops._kernels.tasks cimport Tasks, tasks_begin, tasks_next
from cpuops._kernels.types cimport data, real
from cpuops._memory cimport Block, scratch

cdef extern from "conv.h" nogil:
    ctypedef struct conv_job:
        Py_ssize_t batch, groups, outputs, channels
    ctypedef struct conv_call:
        const conv_job *job
        int f64
        const void *x "in"
        const void *w
        const void *bias
        void *out
        int activation
        Py_ssize_t apart
    ctypedef struct conv_direct:
        size_t scratch_bytes
        Py_ssize_t panels, workers, units
        int poisoned
    ctypedef struct conv_lanes:
        size_t scratch_bytes
        Py_ssize_t workers, units
        int poisoned
    ctypedef struct conv_outer:
        size_t scratch_bytes
        Py_ssize_t workers, units
        int poisoned
    ctypedef struct conv_product:
        size_t scratch_bytes
        Py_ssize_t jobs, parts, tasks, phases, workers
        int poisoned
    ctypedef struct conv_depthwise:
        size_t scratch_bytes
        Py_ssize_t rows, pieces
        double *partial
    ctypedef struct conv_planes:
        size_t scratch_bytes
        Py_ssize_t workers, units
        int poisoned
    ctypedef struct conv_tiles:
        Py_ssize_t m, count
    ctypedef struct conv_winograd:
        conv_tiles tiles
        size_t scratch_bytes
        Py_ssize_t workers, units, block, first, next, tasks
        int share_weights, poisoned
    ctypedef struct conv_winograd_weight:
        conv_tiles cells
        size_t scratch_bytes
        Py_ssize_t workers, tasks
        Py_ssize_t apart[2]
        int poisoned
    ctypedef struct conv_phases_call:
        conv_direct direct
        conv_job wide
    ctypedef struct conv_spread:
        size_t scratch_bytes
        Py_ssize_t workers, units
        int poisoned
    ctypedef struct conv_bias:
        int f64
        const void *grad
        void *out
        Py_ssize_t outer, channels, inner, pieces
        size_t scratch_bytes
        double *partial

    # jobs
    void conv_forward_job(conv_job *j, const Py_ssize_t *numbers) noexcept
    void conv_simplify(conv_job *j) noexcept
    bint conv_padded(const conv_job *j) noexcept
    Py_ssize_t conv_positions(const conv_job *j) noexcept
    Py_ssize_t conv_taps(const conv_job *j) noexcept
    Py_ssize_t conv_phases(const conv_job *j, int axis) noexcept
    bint conv_phases_cover(const conv_job *j) noexcept
    bint conv_phase(const conv_job *f, const Py_ssize_t *t0, conv_job *j, Py_ssize_t *w_start, Py_ssize_t *x_start) noexcept
    conv_call conv_some_groups(const conv_call *call, int of_weights, Py_ssize_t first, Py_ssize_t count, conv_job *j) noexcept

    # paths
    Py_ssize_t CONV_PARTIAL_BYTES
    int CONV_DIRECT, CONV_PRODUCT, CONV_LANES, CONV_OUTER, CONV_DEPTHWISE, CONV_PLANES, CONV_WINOGRAD
    int conv_forward_path(const conv_job *j, Py_ssize_t size, bint winograd) noexcept
    int conv_weight_path(const conv_job *j, Py_ssize_t size, bint winograd) noexcept
    Py_ssize_t conv_groups_at_once(const conv_job *j, int path, Py_ssize_t size) noexcept

    # plans
    void conv_plan_direct(const conv_call *call, Py_ssize_t threads, conv_direct *d) noexcept
    void conv_direct_scratch(conv_direct *d, void *scratch) noexcept
    void conv_plan_lanes(const conv_call *call, Py_ssize_t threads, conv_lanes *d) noexcept
    void conv_lanes_scratch(conv_lanes *d, void *scratch) noexcept
    void conv_plan_outer(const conv_call *call, Py_ssize_t threads, conv_outer *d) noexcept
    void conv_outer_scratch(conv_outer *d, void *scratch) noexcept
    Py_ssize_t conv_outer_sums(const conv_outer *d) noexcept
    void conv_plan_product(const conv_call *call, int of_weights, Py_ssize_t threads, conv_product *p) noexcept
    void conv_product_scratch(conv_product *p, void *scratch) noexcept
    void conv_product_begin(conv_product *p, Py_ssize_t i) noexcept
    void conv_product_phase(conv_product *p, Py_ssize_t phase) noexcept
    void conv_plan_depthwise(const conv_call *call, int of_weights, Py_ssize_t most_bytes, conv_depthwise *d) noexcept
    bint conv_planes_spread(const conv_job *forward, Py_ssize_t size) noexcept
    void conv_plan_planes(const conv_call *call, bint spread, Py_ssize_t threads, conv_planes *d) noexcept
    void conv_plan_planes_weight(const conv_call *call, Py_ssize_t threads, conv_planes *d) noexcept
    void conv_planes_scratch(conv_planes *d, void *scratch) noexcept
    void conv_planes_prepare(conv_planes *d, bint spread, bint weights) noexcept
    void conv_plan_winograd(const conv_call *call, Py_ssize_t threads, conv_winograd *d) noexcept
    void conv_winograd_scratch(conv_winograd *d, void *scratch) noexcept
    void conv_plan_winograd_weight(const conv_call *call, Py_ssize_t threads, conv_winograd_weight *d) noexcept
    void conv_winograd_weight_scratch(conv_winograd_weight *d, void *scratch) noexcept
    Py_ssize_t conv_winograd_weight_fills(const conv_winograd_weight *d) noexcept
    Py_ssize_t conv_winograd_weight_products(const conv_winograd_weight *d) noexcept
    Py_ssize_t conv_winograd_weight_sums(const conv_winograd_weight *d) noexcept
    bint conv_winograd_weight_last(const conv_winograd_weight *d) noexcept
    bint conv_winograd_weight_next(conv_winograd_weight *d) noexcept
    bint conv_winograd_weight_advance(conv_winograd_weight *d) noexcept
    bint conv_phases_fit(const conv_job *forward, Py_ssize_t size) noexcept
    Py_ssize_t conv_phases_channels(const conv_job *forward, Py_ssize_t size) noexcept
    conv_call conv_some_channels(const conv_call *call, Py_ssize_t first, Py_ssize_t count, conv_job *j) noexcept
    bint conv_plan_phases(const conv_call *call, Py_ssize_t threads, conv_phases_call *d) noexcept
    void conv_phases_scratch(conv_phases_call *d, void *scratch) noexcept
    bint conv_spread_fits(const conv_job *forward, Py_ssize_t size) noexcept
    void conv_plan_spread(const conv_call *call, Py_ssize_t threads, conv_spread *d) noexcept
    void conv_spread_scratch(conv_spread *d, void *scratch) noexcept
    void conv_plan_bias(conv_bias *d) noexcept

    # tasks: (context, index)
    void conv_masked(void *call, Py_ssize_t unit) noexcept
    void conv_masked_weight(void *call, Py_ssize_t unit) noexcept
    void conv_direct_pack(void *direct, Py_ssize_t group) noexcept
    void conv_direct_worker(void *direct, Py_ssize_t i) noexcept
    void conv_product_worker(void *product, Py_ssize_t i) noexcept
    void conv_product_share(void *product, Py_ssize_t i) noexcept
    void conv_lanes_worker(void *lanes, Py_ssize_t i) noexcept
    void conv_lanes_sum(void *lanes, Py_ssize_t output) noexcept
    void conv_outer_worker(void *outer, Py_ssize_t i) noexcept
    void conv_outer_sum(void *outer, Py_ssize_t i) noexcept
    void conv_depthwise_row(void *depthwise, Py_ssize_t row) noexcept
    void conv_depthwise_piece(void *depthwise, Py_ssize_t piece) noexcept
    void conv_depthwise_sum(void *depthwise, Py_ssize_t tap) noexcept
    void conv_planes_worker(void *planes, Py_ssize_t i) noexcept
    void conv_planes_spread_worker(void *planes, Py_ssize_t i) noexcept
    void conv_planes_weight_worker(void *planes, Py_ssize_t i) noexcept
    void conv_planes_sum(void *planes, Py_ssize_t i) noexcept
    void conv_winograd_share(void *winograd, Py_ssize_t i) noexcept
    void conv_winograd_worker(void *winograd, Py_ssize_t i) noexcept
    void conv_winograd_weight_range(void *weight, Py_ssize_t i) noexcept
    void conv_winograd_weight_fill(void *weight, Py_ssize_t i) noexcept
    void conv_winograd_weight_multiply(void *weight, Py_ssize_t i) noexcept
    void conv_winograd_weight_sum(void *weight, Py_ssize_t i) noexcept
    void conv_phases_pack(void *phases, Py_ssize_t i) noexcept
    void conv_phases_worker(void *phases, Py_ssize_t i) noexcept
    void conv_spread_worker(void *spread, Py_ssize_t i) noexcept
    void conv_bias_piece(void *bias, Py_ssize_t piece) noexcept
    void conv_bias_sum(void *bias, Py_ssize_t channel) noexcept

cdef bint WINOGRAD = os.environ.get("CPUOPS_WINOGRAD", "1") != "0"

ctypedef void (*task_function)(void *context, Py_ssize_t i) noexcept nogil


cdef void each(task_function task, void *context, Py_ssize_t n, int num_threads) noexcept nogil:
    """Tasks 0 to n-1, each of which writes cells of its own."""
    cdef Py_ssize_t i
    cdef Tasks queue
    if num_threads <= 1 or n <= 1:
        for i in range(n):
            task(context, i)
    else:
        tasks_begin(&queue, n, num_threads)
        with parallel(num_threads=num_threads):
            i = tasks_next(&queue, threadid())
            while i >= 0:
                task(context, i)
                i = tasks_next(&queue, threadid())


cdef inline void read_geometry(bytes numbers, conv_job *j):
    """The numbers of ops.conv_geometry.Geometry as a job on contiguous arrays."""
    conv_forward_job(j, <const Py_ssize_t *> <const char *> numbers)


cdef bint told(list report, str path, Py_ssize_t workers, size_t scratch_bytes, Py_ssize_t tasks, Py_ssize_t tile=0) except -1:
    """Whether a report is all that is wanted: what conv_explain tells of a part of the work is in it then. tile: the side of
    minimal filtering's."""
    if report is not None:
        report.append((f"{path} F({tile}x{tile}, 3x3)" if tile else path, workers, scratch_bytes, tasks))
    return report is not None


# ---------------------------------------------------------------- the paths; each returns whether padding may have met a NaN


cdef bint direct(conv_call *call, int num_threads, list report) except -1:
    """Parallel over units: a region of an image, a group, a share of its output channels."""
    cdef conv_direct d
    cdef Block memory
    conv_plan_direct(call, num_threads, &d)
    if told(report, "direct", d.workers, d.scratch_bytes, d.units):
        return False
    memory = scratch(d.scratch_bytes)
    with nogil:
        conv_direct_scratch(&d, memory.ptr)
        each(conv_direct_pack, &d, call.job.groups * d.panels, num_threads)
        if not (d.poisoned and conv_padded(call.job)):
            each(conv_direct_worker, &d, d.workers, num_threads)
    return d.poisoned and conv_padded(call.job)


cdef bint product(conv_call *call, bint of_weights, int num_threads, list report) except -1:
    """Parts of all jobs at once; or one job, phase by phase: parallel over what its workers share."""
    cdef conv_product p
    cdef Block memory
    cdef Py_ssize_t i, phase
    conv_plan_product(call, of_weights, num_threads, &p)
    if told(report, "product", p.workers, p.scratch_bytes, p.tasks):
        return False
    memory = scratch(p.scratch_bytes)
    with nogil:
        conv_product_scratch(&p, memory.ptr)
        if p.parts:
            each(conv_product_worker, &p, p.workers, num_threads)
        else:
            for i in range(p.jobs):
                conv_product_begin(&p, i)
                for phase in range(p.phases):
                    conv_product_phase(&p, phase)
                    each(conv_product_share, &p, p.workers, num_threads)
    return p.poisoned


cdef bint depthwise(conv_call *call, bint of_weights, int num_threads, list report) except -1:
    """Forward: parallel over output rows. Weight gradient: over pieces of them, which are then added in order."""
    cdef conv_depthwise d
    cdef Block memory
    conv_plan_depthwise(call, of_weights, CONV_PARTIAL_BYTES, &d)
    if told(report, "depthwise", num_threads, d.scratch_bytes, d.pieces if of_weights else d.rows):
        return False
    memory = scratch(d.scratch_bytes)
    d.partial = <double *> memory.ptr
    with nogil:
        if of_weights:
            each(conv_depthwise_piece, &d, d.pieces, num_threads)
            each(conv_depthwise_sum, &d, conv_taps(call.job), num_threads)
        else:
            each(conv_depthwise_row, &d, d.rows, num_threads)
    return False


cdef bint planes(conv_call *call, bint of_weights, bint of_x, int num_threads, list report) except -1:
    """Forward and the gradient to x (of the forward job in the call, stride 2): parallel over planes or bands of them. Weight
    gradient: over groups and pieces of their sums, which are then added in order."""
    cdef conv_planes d
    cdef Block memory
    if of_weights:
        conv_plan_planes_weight(call, num_threads, &d)
    else:
        conv_plan_planes(call, of_x, num_threads, &d)
    if told(report, "planes", d.workers, d.scratch_bytes, d.units):
        return False
    memory = scratch(d.scratch_bytes)
    with nogil:
        conv_planes_scratch(&d, memory.ptr)
        conv_planes_prepare(&d, of_x, of_weights)
        if of_weights:
            each(conv_planes_weight_worker, &d, d.workers, num_threads)
            conv_planes_sum(&d, 0)
        else:
            each(conv_planes_spread_worker if of_x else conv_planes_worker, &d, d.workers, num_threads)
    return d.poisoned and (of_weights or of_x or conv_padded(call.job))


cdef bint winograd(conv_call *call, int num_threads, list report) except -1:
    """Parallel over what is shared, then over units; block after block of tiles where these are what is shared."""
    cdef conv_winograd d
    cdef Block memory
    conv_plan_winograd(call, num_threads, &d)
    if told(report, "winograd", d.workers, d.scratch_bytes, d.units, d.tiles.m):
        return False
    memory = scratch(d.scratch_bytes)
    with nogil:
        conv_winograd_scratch(&d, memory.ptr)
        while d.first < d.tiles.count and not d.poisoned:
            each(conv_winograd_share, &d, d.tasks, num_threads)
            d.next = 0
            each(conv_winograd_worker, &d, d.workers, num_threads)
            d.first += d.tiles.count if d.share_weights else d.block
    return d.poisoned


cdef bint winograd_weight(conv_call *call, int num_threads, list report) except -1:
    """Parallel over parts of the weights; or block after block of tiles, over their transforms, the products, and the weights."""
    cdef conv_winograd_weight d
    cdef Block memory
    conv_plan_winograd_weight(call, num_threads, &d)
    if told(report, "winograd", d.workers, d.scratch_bytes, d.tasks, d.cells.m):
        return False
    memory = scratch(d.scratch_bytes)
    with nogil:
        conv_winograd_weight_scratch(&d, memory.ptr)
        if d.apart[0]:
            each(conv_winograd_weight_range, &d, d.workers, num_threads)
        while not d.apart[0]:
            each(conv_winograd_weight_fill, &d, conv_winograd_weight_fills(&d), num_threads)
            while True:
                each(conv_winograd_weight_multiply, &d, conv_winograd_weight_products(&d), num_threads)
                if conv_winograd_weight_last(&d):
                    each(conv_winograd_weight_sum, &d, conv_winograd_weight_sums(&d), num_threads)
                if not conv_winograd_weight_next(&d):
                    break
            if d.poisoned or not conv_winograd_weight_advance(&d):
                break
    return d.poisoned


cdef bint lanes(conv_call *call, int num_threads, list report) except -1:
    """Parallel over pieces of the sum, groups and output channels; the pieces are then added in order."""
    cdef conv_lanes d
    cdef Block memory
    conv_plan_lanes(call, num_threads, &d)
    if told(report, "lanes", d.workers, d.scratch_bytes, d.units):
        return False
    memory = scratch(d.scratch_bytes)
    with nogil:
        conv_lanes_scratch(&d, memory.ptr)
        each(conv_lanes_worker, &d, d.workers, num_threads)
        each(conv_lanes_sum, &d, call.job.groups * call.job.outputs, num_threads)
    return d.poisoned


cdef bint outer(conv_call *call, int num_threads, list report) except -1:
    """Parallel over pieces of the sum, groups and channels; the pieces are then added in order."""
    cdef conv_outer d
    cdef Block memory
    conv_plan_outer(call, num_threads, &d)
    if told(report, "outer", d.workers, d.scratch_bytes, d.units):
        return False
    memory = scratch(d.scratch_bytes)
    with nogil:
        conv_outer_scratch(&d, memory.ptr)
        each(conv_outer_worker, &d, d.workers, num_threads)
        each(conv_outer_sum, &d, conv_outer_sums(&d), num_threads)
    return d.poisoned


cdef bint spread(conv_call *call, int num_threads, list report) except -1:
    """The gradient to x of the forward job in the call; parallel over planes."""
    cdef conv_spread d
    cdef Block memory
    conv_plan_spread(call, num_threads, &d)
    if told(report, "spread", d.workers, d.scratch_bytes, d.units):
        return False
    memory = scratch(d.scratch_bytes)
    with nogil:
        conv_spread_scratch(&d, memory.ptr)
        each(conv_spread_worker, &d, d.workers, num_threads)
    return d.poisoned


cdef bint phases(conv_call *call, int num_threads, list report) except -1:
    """The gradient to x of the forward job in the call; parallel as `direct`. Also whether the path is none for it."""
    cdef conv_phases_call d
    cdef Block memory
    if not conv_plan_phases(call, num_threads, &d):
        return True
    if told(report, "phases", d.direct.workers, d.direct.scratch_bytes, d.direct.units):
        return False
    memory = scratch(d.direct.scratch_bytes)
    with nogil:
        conv_phases_scratch(&d, memory.ptr)
        each(conv_phases_pack, &d, call.job.groups * d.direct.panels, num_threads)
        if not (d.direct.poisoned and conv_padded(&d.wide)):
            each(conv_phases_worker, &d, d.direct.workers, num_threads)
    return d.direct.poisoned and conv_padded(&d.wide)


# ---------------------------------------------------------------- one job


cdef int run(conv_call *whole, bint of_weights, int num_threads, list report) except -1:
    """whole.out = correlation of whole.x with whole.w, plus bias: every cell is written. of_weights: the gradient to the
    weight, from whole.x and the output's gradient whole.w. With a report nothing is computed: what conv_explain tells of
    each part of the work is appended to it."""
    cdef conv_job simple = whole.job[0], some
    cdef conv_call call
    cdef Py_ssize_t group, at_once, size = 8 if whole.f64 else 4
    cdef int path
    cdef bint poisoned
    conv_simplify(&simple)
    whole.job = &simple
    path = (conv_weight_path if of_weights else conv_forward_path)(&simple, size, WINOGRAD)
    if path == CONV_WINOGRAD:
        if not (winograd_weight if of_weights else winograd)(whole, num_threads, report):
            return 0
        path = (conv_weight_path if of_weights else conv_forward_path)(&simple, size, False)
    at_once = conv_groups_at_once(&simple, path, size)
    for group in range(0, simple.groups, at_once):
        call = conv_some_groups(whole, of_weights, group, at_once, &some)
        if path == CONV_PRODUCT:
            poisoned = product(&call, of_weights, num_threads, report)
        elif path == CONV_DEPTHWISE:
            poisoned = depthwise(&call, of_weights, num_threads, report)
        elif path == CONV_PLANES:
            poisoned = planes(&call, of_weights, False, num_threads, report)
        elif path == CONV_LANES:
            poisoned = lanes(&call, num_threads, report)
        elif path == CONV_OUTER:
            poisoned = outer(&call, num_threads, report)
        else:
            poisoned = direct(&call, num_threads, report)
        if poisoned:
            with nogil:
                if of_weights:
                    each(conv_masked_weight, &call, some.groups * some.outputs, num_threads)
                else:
                    each(conv_masked, &call, some.batch * some.groups * some.outputs, num_threads)
    return 0


cdef inline conv_call call_of(bint f64, cnp.ndarray x, cnp.ndarray w, bias, cnp.ndarray out) noexcept:
    """The arrays of a call; its job is still to be set."""
    cdef conv_call call
    call.job, call.f64 = NULL, f64
    call.x, call.w, call.out = data(x), data(w), data(out)
    call.bias = NULL if bias is None else data(<cnp.ndarray> bias)
    call.activation = call.apart = 0
    return call


def conv_forward(real tag, cnp.ndarray x, cnp.ndarray w, bias, cnp.ndarray out, bytes geometry, int num_threads):
    """OUT out = IN x correlated with IN w, plus IN bias [Cout] (or None)."""
    cdef conv_job job
    cdef conv_call call = call_of(sizeof(real) == 8, x, w, bias, out)
    if out.size == 0:
        return
    read_geometry(geometry, &job)
    call.job = &job
    run(&call, False, num_threads, None)


def conv_activation(real tag, cnp.ndarray x, cnp.ndarray w, bias, sums, cnp.ndarray out, int activation, bytes geometry, int num_threads):
    """OUT sums (or None) as `conv_forward`, OUT out = their activation, in the same pass."""
    cdef conv_job job
    cdef conv_call call = call_of(sizeof(real) == 8, x, w, bias, out if sums is None else <cnp.ndarray> sums)
    if out.size == 0:
        return
    read_geometry(geometry, &job)
    call.job, call.activation, call.apart = &job, activation, <real *> data(out) - <real *> call.out
    run(&call, False, num_threads, None)


cdef int run_phases(conv_job *forward, conv_call *call, Py_ssize_t size, int num_threads, list report) except -1:
    """call.out, laid out as forward's x, from call.x, laid out as its output: one job a phase of the stride."""
    cdef conv_job job
    cdef conv_call part = call[0], some
    cdef Py_ssize_t[3] t0
    cdef Py_ssize_t first, at_once, w_start, x_start
    cdef bint poisoned
    if conv_planes_spread(forward, size):
        part.job = forward
        if not planes(&part, False, True, num_threads, report):
            return 0
    elif conv_spread_fits(forward, size):
        part.job = forward
        if not spread(&part, num_threads, report):
            return 0
    elif conv_phases_fit(forward, size):
        part.job, at_once, poisoned = forward, conv_phases_channels(forward, size), False
        for first in range(0, forward.channels, at_once):
            some = conv_some_channels(&part, first, at_once, &job)
            poisoned = phases(&some, num_threads, report)
            if poisoned:
                break
        if not poisoned:
            return 0
    for t0[0] in range(conv_phases(forward, 0)):
        for t0[1] in range(conv_phases(forward, 1)):
            for t0[2] in range(conv_phases(forward, 2)):
                if conv_phase(forward, t0, &job, &w_start, &x_start):
                    part.job, part.w, part.out = &job, <char *> call.w + w_start * size, <char *> call.out + x_start * size
                    run(&part, False, num_threads, report)
    return 0


def conv_x_backward(real tag, cnp.ndarray w, cnp.ndarray grad, bias, cnp.ndarray out, bytes geometry, int num_threads):
    """OUT out (x's shape) from IN w and IN grad, plus IN bias of x's channels (or None): one correlation a phase of the
    stride, into cells of its own."""
    cdef conv_job forward
    cdef conv_call call = call_of(sizeof(real) == 8, grad, w, bias, out)
    if out.size == 0:
        return
    read_geometry(geometry, &forward)
    if grad.size == 0 or not conv_phases_cover(&forward):
        out[...] = 0 if bias is None else bias.reshape((-1, *(1,) * (out.ndim - 2)))
    if grad.size:
        run_phases(&forward, &call, sizeof(real), num_threads, None)


def conv_weight_backward(real tag, cnp.ndarray x, cnp.ndarray grad, cnp.ndarray out, bytes geometry, int num_threads):
    """OUT out (the weight's shape) from IN x and IN grad (the output's)."""
    cdef conv_job job
    cdef conv_call call = call_of(sizeof(real) == 8, x, grad, None, out)
    if x.size == 0 or grad.size == 0 or out.size == 0:
        out.fill(0)
        return
    read_geometry(geometry, &job)
    call.job = &job
    run(&call, True, num_threads, None)


def conv_bias_backward(real tag, cnp.ndarray grad, cnp.ndarray out, Py_ssize_t outer, Py_ssize_t channels, Py_ssize_t inner,
                       int num_threads):
    """OUT out[channels] = IN grad[outer, channels, inner] summed over the other two, in double: parallel over pieces of the
    sum, which are then added in order."""
    cdef conv_bias d
    cdef Block memory
    d.f64, d.grad, d.out = sizeof(real) == 8, data(grad), data(out)
    d.outer, d.channels, d.inner = outer, channels, inner
    conv_plan_bias(&d)
    memory = scratch(d.scratch_bytes)
    d.partial = <double *> memory.ptr
    with nogil:
        each(conv_bias_piece, &d, d.pieces, num_threads)
        each(conv_bias_sum, &d, channels, 1)


def conv_explain(real tag, bytes geometry, str gradient, int num_threads):
    """What the forward pass (gradient "") or the gradient to "x" or "weight" would do: a list of (path, threads, bytes of
    scratch, equal tasks that the threads take), one for each part of the work, which run one after the other."""
    cdef conv_job job
    cdef conv_call call
    cdef list report = []
    read_geometry(geometry, &job)
    call.job, call.f64 = &job, sizeof(real) == 8
    call.x = call.w = call.bias = call.out = NULL
    call.activation = call.apart = 0
    if gradient == "x":
        run_phases(&job, &call, sizeof(real), num_threads, report)
    else:
        run(&call, gradient == "weight", num_threads, report)
    return report
