# Matrix products for kernels: the declarations of gemm.h (read its head first) and the threaded driver.
#
#     cdef gemm_job_f32 job
#     memset(&job, 0, sizeof(job)); job.m = ...
#     gemm_plan_f32(&job, num_threads)
#     cdef Block s = scratch(job.scratch_bytes)
#     job.scratch = s.ptr
#     with nogil:
#         gemm_f32(&job, num_threads)
from cython.parallel cimport prange

cdef extern from "gemm.h" nogil:
    ctypedef void (*gemm_packer_f32)(const void *ctx, Py_ssize_t i0, Py_ssize_t ni, Py_ssize_t k0, Py_ssize_t nk,
                                     float *panel, Py_ssize_t width) noexcept nogil
    ctypedef void (*gemm_packer_f64)(const void *ctx, Py_ssize_t i0, Py_ssize_t ni, Py_ssize_t k0, Py_ssize_t nk,
                                     double *panel, Py_ssize_t width) noexcept nogil
    ctypedef void (*gemm_store_f32)(void *ctx, Py_ssize_t i0, Py_ssize_t ni, Py_ssize_t j0, Py_ssize_t nj, const float *tile,
                                    Py_ssize_t ld, int add, int last) noexcept nogil
    ctypedef void (*gemm_store_f64)(void *ctx, Py_ssize_t i0, Py_ssize_t ni, Py_ssize_t j0, Py_ssize_t nj,
                                    const double *tile, Py_ssize_t ld, int add, int last) noexcept nogil
    ctypedef void (*gemm_finish_f32)(void *ctx, float *c, Py_ssize_t ld, Py_ssize_t i0, Py_ssize_t ni, Py_ssize_t j0,
                                     Py_ssize_t nj) noexcept nogil
    ctypedef void (*gemm_finish_f64)(void *ctx, double *c, Py_ssize_t ld, Py_ssize_t i0, Py_ssize_t ni, Py_ssize_t j0,
                                     Py_ssize_t nj) noexcept nogil

    ctypedef struct gemm_matrix_f32:
        const float *p
        Py_ssize_t rs
        Py_ssize_t ks
        Py_ssize_t inner
        const Py_ssize_t *table

    ctypedef struct gemm_matrix_f64:
        const double *p
        Py_ssize_t rs
        Py_ssize_t ks
        Py_ssize_t inner
        const Py_ssize_t *table

    ctypedef struct gemm_job_f32:
        Py_ssize_t m
        Py_ssize_t n
        Py_ssize_t k
        gemm_packer_f32 pack_a
        gemm_packer_f32 pack_b
        const void *a
        const void *b
        float *c
        Py_ssize_t ldc
        gemm_store_f32 store
        void *store_ctx
        const float *bias_row
        const float *bias_col
        gemm_finish_f32 finish
        void *finish_ctx
        int add
        size_t scratch_bytes
        void *scratch
        Py_ssize_t slots
        Py_ssize_t next

    ctypedef struct gemm_job_f64:
        Py_ssize_t m
        Py_ssize_t n
        Py_ssize_t k
        gemm_packer_f64 pack_a
        gemm_packer_f64 pack_b
        const void *a
        const void *b
        double *c
        Py_ssize_t ldc
        gemm_store_f64 store
        void *store_ctx
        const double *bias_row
        const double *bias_col
        gemm_finish_f64 finish
        void *finish_ctx
        int add
        size_t scratch_bytes
        void *scratch
        Py_ssize_t slots
        Py_ssize_t next

    void gemm_plain_f32(const void *ctx, Py_ssize_t i0, Py_ssize_t ni, Py_ssize_t k0, Py_ssize_t nk, float *panel,
                        Py_ssize_t width) noexcept
    void gemm_plain_f64(const void *ctx, Py_ssize_t i0, Py_ssize_t ni, Py_ssize_t k0, Py_ssize_t nk, double *panel,
                        Py_ssize_t width) noexcept
    void gemm_plan_f32(gemm_job_f32 *job, int num_threads) noexcept
    void gemm_plan_f64(gemm_job_f64 *job, int num_threads) noexcept
    void gemm_serial_f32(const gemm_job_f32 *job) noexcept
    void gemm_serial_f64(const gemm_job_f64 *job) noexcept
    Py_ssize_t gemm_phases_f32(const gemm_job_f32 *job) noexcept
    Py_ssize_t gemm_phases_f64(const gemm_job_f64 *job) noexcept
    Py_ssize_t gemm_shares_f32(const gemm_job_f32 *job) noexcept
    Py_ssize_t gemm_shares_f64(const gemm_job_f64 *job) noexcept
    void gemm_work_f32(gemm_job_f32 *job, Py_ssize_t phase, Py_ssize_t slot) noexcept
    void gemm_work_f64(gemm_job_f64 *job, Py_ssize_t phase, Py_ssize_t slot) noexcept


# the planned job on up to num_threads threads: one parallel region a phase, over the workers, which share the tasks
cdef inline void gemm_f32(gemm_job_f32 *job, int num_threads) noexcept nogil:
    cdef Py_ssize_t phase, slot
    if num_threads <= 1 or job.slots <= 1:
        gemm_serial_f32(job)
        return
    for phase in range(gemm_phases_f32(job)):
        job.next = 0
        for slot in prange(job.slots, schedule='static', chunksize=1, num_threads=num_threads):
            gemm_work_f32(job, phase, slot)


cdef inline void gemm_f64(gemm_job_f64 *job, int num_threads) noexcept nogil:
    cdef Py_ssize_t phase, slot
    if num_threads <= 1 or job.slots <= 1:
        gemm_serial_f64(job)
        return
    for phase in range(gemm_phases_f64(job)):
        job.next = 0
        for slot in prange(job.slots, schedule='static', chunksize=1, num_threads=num_threads):
            gemm_work_f64(job, phase, slot)
