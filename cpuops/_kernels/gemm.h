/* gemm.h: C[M,N] (+)= A[M,K] B[K,N] for any operand that can be packed, on simd.h.
 *
 * One register tile (GEMM_MR rows by GEMM_NR = 2 vectors of columns) serves every level and both dtypes. An operand comes
 * in through a packer (a callback that copies a strip of it into a panel: image patches, gradients, any strides), the
 * product goes out to a row-major C or through a store callback.
 *
 *     gemm_job_f32 job = {0};
 *     job.m = M; job.n = N; job.k = K;
 *     job.pack_a = my_weights; job.a = &weights;            packers: see gemm_packer; gemm_plain_f32 serves matrices
 *     job.pack_b = my_patches; job.b = &patches;
 *     job.c = out; job.ldc = N;                             or job.store = my_store; job.store_ctx = &where;
 *     job.bias_row = bias;                                  optional: bias[i] to row i (or bias_col: bias[j] to column j)
 *     gemm_plan_f32(&job, num_threads);                     fills in the blocking and job.scratch_bytes
 *     job.scratch = scratch(job.scratch_bytes).ptr;         64-byte aligned; at most 4 MB, and half a MB a worker (apart: 4 MB a worker)
 *     for each phase below gemm_phases_f32(&job):           or gemm_serial_f32(&job), where num_threads was 1
 *         gemm_begin_f32(&job, phase, &queue);
 *         for each slot below job.slots, in parallel:
 *             gemm_work_f32(&job, phase, slot, &queue);
 *
 * gemm_packer(ctx, i0, ni, k0, nk, panel, width): for 0 <= k < nk and 0 <= i < width
 *     panel[k*width + i] = the operand at (i0 + i, k0 + k) for i < ni, and 0 for ni <= i < width,
 * where i counts rows of A or columns of B. width is at most GEMM_MR for A and always GEMM_NR for B; i0 is a multiple of
 * width. panel is 64-byte aligned. A packer may write up to one vector beyond panel[nk*width - 1]. Of a matrix
 * (gemm_plain) what lies well is not packed but read where it is; then the first panel of B may be short, and i0 is anything.
 * gemm_store(ctx, i0, ni, j0, nj, tile, ld, add, last): tile[i*ld + j] belongs to C(i0 + i, j0 + j). Overwrite C, or add
 *     to it when `add`. `last` is set with the last part of the sum; bias has been added to that one.
 * gemm_finish(ctx, c, ld, i0, ni, j0, nj): called once for every finished piece of a row-major C, while it is in the
 *     cache (an activation). Not called with a store callback, which sees `last`.
 *
 * The order of a sum. K is cut into gemm_chunks(K) equal chunks, or into those of job.chunk steps; within a chunk k ascends, one fused
 * multiply-add a step starting from 0; the chunk sums are added in order (to what C holds, when job.add is set), then the bias. Nothing else
 * enters: every path in this header (packed, direct, deep) gives the same bits, whatever M, N, layout and thread count.
 * 0 * NaN and 0 * inf are NaN, as in IEEE arithmetic: no term is skipped.
 *
 * Parallel over tasks that own cells of C, in one of three ways. Apart: C in a grid of rectangles, one a thread, each of which
 * packs what it needs: there is one phase, and nobody waits (docs/adr/0009). Where too much would be packed again and again: a task
 * packs its own strips of one operand (private), the other operand's block is packed once (shared), by tasks of an earlier phase.
 * With few cells and a long K (deep) the chunks are the tasks: each writes its own partial C, and these are added in order.
 * A caller that is parallel itself plans with gemm_plan_parts, and runs the rectangles as its tasks (gemm_part).
 */
#ifndef CPUOPS_GEMM_H
#define CPUOPS_GEMM_H
#include "blocks.h"
#include "simd.h"
#include "tasks.h"
#include "transpose.h"

/* rows of the tile: 2 * rows accumulators, two vectors of B and one of A fill the register file */
#if SIMD_AVX512
#define GEMM_MR 14
#elif SIMD_AVX2
#define GEMM_MR 6
#elif defined(__aarch64__)
#define GEMM_MR 12
#else
#define GEMM_MR 4
#endif
#define GEMM_NR_f32 (2 * LANES_f32)
#define GEMM_NR_f64 (2 * LANES_f64)
#define GEMM_NR FN(GEMM_NR)
#define GEMM_TILE (GEMM_MR * GEMM_NR) /* cells */

#define REAL_BODY "gemm_tile_real.h"
#include "for_each_real.h"
#define REAL_BODY "gemm_job_real.h"
#include "for_each_real.h"
#define REAL_BODY "gemm_plan_real.h"
#include "for_each_real.h"
#define REAL_BODY "gemm_real.h"
#include "for_each_real.h"
#endif
