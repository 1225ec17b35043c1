/* conv.h: correlations of any rank, layout and stride, and their weight gradients.
 *
 * The job (conv_job.h) is one three-dimensional correlation in G groups,
 *
 *     out[b, g, m, o] = bias[g, m] + sum over c, t of  w[g, m, c, t] * in[b, g, c, o*step + t*dil + off],
 *
 * t being a tap of the kernel, with element strides for all arrays; cells outside `in` are skipped. It serves the forward
 * pass; the gradient to x, as one job for each phase of the stride (conv_phase: flipped weights, channels exchanged, strided
 * output); and the gradient to w, where in and out are given and w is the result. Positions are o, cells are elements of
 * `in`, terms are pairs (c, t).
 *
 * Paths, chosen by shape only:
 *   direct      a zero-padded copy of a region of the input (the band, conv_band.h), which all taps read: no patches
 *   product     patches are packed straight into panels of gemm.h (conv_product.h): many channels, small images
 *   lanes       weight gradient from the band, positions in lanes (conv_weight.h): few output channels
 *   outer       weight gradient from the band, output channels in lanes (conv_weight.h)
 *   winograd    3x3 taps, stride 1, many channels: fewer multiplications (conv_winograd.h; conv_winograd_weight.h: weight gradient)
 *   depthwise   one channel a group, channels last (conv_depthwise.h)
 *   planes      one channel a group, channels first, 3x3 and 5x5 taps: forward and both gradients (conv_planes.h)
 *   phases      gradient to x of any stride, channels first: all phases from one band (conv_phases.h)
 *   spread      other kernels of that kind: gradient to x of stride 2, all phases at once (conv_spread.h)
 *   masked      the definition (conv_masked.h). The others multiply padding by 0, which must not make a NaN of an infinity:
 *               when a weight is infinite or NaN and there is padding, or a weight gradient came out so, it runs instead.
 *
 * Of a forward job's finished sums an activation may be taken, piece by piece while they are in the cache (conv_finish.h).
 *
 * Sums are in the operands' type, in blocks; partial sums are added in order; the order depends on shapes only. Scratch is
 * bounded: at most 8 MB a thread, whatever the batch and the image.
 */
#ifndef CPUOPS_CONV_H
#define CPUOPS_CONV_H
#include "conv_job.h"
#include "conv_masked.h"
#include "conv_band.h"
#include "conv_direct.h"
#include "conv_depthwise.h"
#include "conv_planes.h"
#include "conv_product.h"
#include "conv_weight.h"
#include "conv_winograd.h"
#include "conv_winograd_weight.h"
#include "conv_spread.h"
#include "conv_phases.h"

/* ---- which path; by shape only ---- */
enum { CONV_DIRECT, CONV_PRODUCT, CONV_LANES, CONV_OUTER, CONV_DEPTHWISE, CONV_PLANES, CONV_WINOGRAD };

#define CONV_SCRATCH_BYTES 4194304 /* the most for a band, and for the weights (packed, or as sums) of the groups of a call */
/* Of a group's weights, where patches begin to pay: direct streams them for each region, and outer reads and writes its sums */
#define CONV_DIRECT_BYTES 524288
#define CONV_OUTER_BYTES 1048576
#define CONV_SMALL_IMAGE 1024 /* positions: from larger ones patches of one tap come a page a channel, which costs more than it saves */

INLINE int conv_forward_path(const conv_job *j, ptrdiff_t size, int winograd)
{
    if (winograd && conv_winograd_fits(j, size))
        return CONV_WINOGRAD;
    if (conv_is_depthwise(j))
        return CONV_DEPTHWISE;
    if (conv_planes_fit(j, size))
        return CONV_PLANES;
    if (j->outputs * conv_terms(j) * size > CONV_DIRECT_BYTES || !conv_band_fits(j, size, CONV_SCRATCH_BYTES))
        return CONV_PRODUCT;
    /* one tap: the copy would serve a single use */
    if (conv_taps(j) == 1 && j->channels > 64 && !conv_in_place(j))
        return CONV_PRODUCT;
    /* read in place, channels that lie a multiple of 4 KB apart would push one another out of the first-level cache */
    if (conv_taps(j) == 1 && j->channels >= 256 && j->in_channel * size % 4096 == 0)
        return CONV_PRODUCT;
    /* of a small image a panel of patches, in the first-level cache, serves many outputs */
    if (conv_taps(j) == 1 && j->channels >= 128 && j->outputs >= 256 && conv_positions(j) <= CONV_SMALL_IMAGE)
        return CONV_PRODUCT;
    /* channels last are transposed into the band and out of it */
    if (conv_taps(j) < 4 && j->channels >= 16 && j->in_channel == 1 && j->groups == 1)
        return CONV_PRODUCT;
    return CONV_DIRECT;
}

INLINE int conv_weight_path(const conv_job *j, ptrdiff_t size, int winograd)
{
    if (winograd && conv_winograd_weight_fits(j, size))
        return CONV_WINOGRAD;
    const ptrdiff_t terms = conv_terms(j), bytes = j->outputs * terms * size;
    if (conv_is_depthwise(j))
        return CONV_DEPTHWISE;
    if (conv_planes_sums(j, size))
        return CONV_PLANES;
    if (bytes > CONV_OUTER_BYTES || terms * SIMD_BYTES > CONV_SCRATCH_BYTES || !conv_band_fits(j, size, CONV_SCRATCH_BYTES))
        return CONV_PRODUCT;
    if (j->outputs < SIMD_BYTES / size / 2)
        return CONV_LANES;
    /* regions are small: their sums would be read and written all the time */
    if (j->outputs >= 64 && conv_positions(j) <= 64)
        return CONV_PRODUCT;
    if (conv_taps(j) == 1 && (j->outputs > 64 || j->channels > 128))
        return CONV_PRODUCT;
    return CONV_OUTER;
}

/* groups that are run in one go */
INLINE ptrdiff_t conv_groups_at_once(const conv_job *j, int path, ptrdiff_t size)
{
    if (path == CONV_PRODUCT)
        return j->groups;
    return conv_max(1, conv_min(j->groups, CONV_SCRATCH_BYTES / conv_max(1, j->outputs * conv_terms(j) * size)));
}

/* ---- tasks: task i of a call, of either scalar type ---- */
#define CONV_TASK(name, type, is_f64)             \
    FUNC void name(void *ctx, ptrdiff_t i)        \
    {                                             \
        type *t = (type *)ctx;                    \
        if (t->is_f64)                            \
            name##_f64(t, i);                     \
        else                                      \
            name##_f32(t, i);                     \
    }
CONV_TASK(conv_masked, conv_call, f64)
CONV_TASK(conv_masked_weight, conv_call, f64)
CONV_TASK(conv_direct_pack, conv_direct, call.f64)
CONV_TASK(conv_direct_worker, conv_direct, call.f64)
CONV_TASK(conv_product_worker, conv_product, call.f64)
CONV_TASK(conv_product_share, conv_product, call.f64)
CONV_TASK(conv_lanes_worker, conv_lanes, call.f64)
CONV_TASK(conv_lanes_sum, conv_lanes, call.f64)
CONV_TASK(conv_outer_worker, conv_outer, call.f64)
CONV_TASK(conv_outer_sum, conv_outer, call.f64)
CONV_TASK(conv_depthwise_row, conv_depthwise, call.f64)
CONV_TASK(conv_depthwise_piece, conv_depthwise, call.f64)
CONV_TASK(conv_depthwise_sum, conv_depthwise, call.f64)
INLINE void conv_planes_prepare(conv_planes *d, int spread, int weights)
{
    (d->call.f64 ? conv_planes_prepare_f64 : conv_planes_prepare_f32)(d, spread, weights);
}
CONV_TASK(conv_planes_worker, conv_planes, call.f64)
CONV_TASK(conv_planes_spread_worker, conv_planes, call.f64)
CONV_TASK(conv_planes_weight_worker, conv_planes, call.f64)
CONV_TASK(conv_planes_sum, conv_planes, call.f64)
CONV_TASK(conv_winograd_share, conv_winograd, call.f64)
CONV_TASK(conv_winograd_worker, conv_winograd, call.f64)
CONV_TASK(conv_winograd_weight_range, conv_winograd_weight, call.f64)
CONV_TASK(conv_winograd_weight_fill, conv_winograd_weight, call.f64)
CONV_TASK(conv_winograd_weight_multiply, conv_winograd_weight, call.f64)
CONV_TASK(conv_winograd_weight_sum, conv_winograd_weight, call.f64)
CONV_TASK(conv_phases_pack, conv_phases_call, direct.call.f64)
CONV_TASK(conv_phases_worker, conv_phases_call, direct.call.f64)
CONV_TASK(conv_spread_worker, conv_spread, call.f64)
CONV_TASK(conv_bias_piece, conv_bias, f64)
CONV_TASK(conv_bias_sum, conv_bias, f64)
#endif
