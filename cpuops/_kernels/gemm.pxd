# Matrix products for kernels: the declarations of gemm.h (read its head first) and the threaded driver.
#
#     cdef gemm_job_f32 job
#     memset(&job, 0, sizeof(job)); job.m = ...
#     gemm_plan(&job, num_threads)
#     cdef Block s = scratch(job.scratch_bytes)
#     job.scratch = s.ptr
#     with nogil: gemm(&job, num_threads)
