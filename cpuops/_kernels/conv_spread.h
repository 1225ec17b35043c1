/* conv_spread.h: the gradient to x of a depthwise convolution of stride 2, channels first. See conv.h.
 *
 *     out[b, g, y, x] = bias[g] + sum over u, v, o of  w[g, u, v] * grad[b, g, oy, ox],   oy*sy + u*dy + offy = y, x likewise
 *
 * As one job a phase of the stride (conv_phase) every other cell is stored four times over. Here the even and the odd cells of a
 * row are two vectors, each with the taps that reach it, and are stored interleaved. The gradient of a plane is copied into a
 * frame of zeros, which all taps read.
 */
#ifndef CPUOPS_CONV_SPREAD_H
#define CPUOPS_CONV_SPREAD_H
#include "conv_job.h"
#include "conv_band.h"
#include "wide.h"

#define CONV_SPREAD_TAPS 64
#define CONV_SPREAD_BYTES 1048576 /* of a frame */

typedef struct {
    conv_call call; /* of the forward job: in: output's gradient, w: weights, out: x's gradient */
    ptrdiff_t before, row, cells; /* of the frame: zeros before the first cell of a row, cells of a row and of all */
    ptrdiff_t units, next, workers;
    size_t scratch_bytes, frame_bytes;
    char *frames;
    int poisoned; /* a weight is not finite and would be multiplied by a zero of the frame */
} conv_spread;

/* zeros before and behind a row of gradients: as far as a tap reaches from cells 0 and in - 1, and vectors beyond */
INLINE ptrdiff_t conv_spread_before(const conv_job *f)
{
    return conv_max(0, ((f->kernel[2] - 1) * f->dil[2] + f->off[2] + 1) / 2 + 1);
}
INLINE ptrdiff_t conv_spread_row(const conv_job *f, ptrdiff_t size)
{
    const ptrdiff_t lanes = SIMD_BYTES / size, pairs = conv_ceil(conv_ceil(f->in[2], 2), lanes) * lanes;
    return conv_spread_before(f) + conv_max(f->out[2], pairs + conv_max(0, -f->off[2]) / 2 + 2);
}

INLINE int conv_spread_fits(const conv_job *f, ptrdiff_t size)
{
    if (f->groups < 2 || f->outputs != 1 || f->channels != 1 || f->kernel[0] != 1 || f->in[0] != 1 || f->out[0] != 1)
        return 0;
    if (f->step[2] != 2 || f->in_axis[2] != 1 || f->out_axis[2] != 1 || conv_taps(f) > CONV_SPREAD_TAPS || f->kernel[2] < 2)
        return 0;
    const ptrdiff_t most = CONV_SPREAD_BYTES / size;
    return (f->kernel[2] - 1) * f->dil[2] < most && -f->off[2] < most && conv_spread_row(f, size) <= most / f->out[1];
}

INLINE void conv_plan_spread(const conv_call *call, ptrdiff_t threads, conv_spread *d)
{
    const conv_job *f = call->job;
    const ptrdiff_t size = conv_size(call);
    d->call = *call;
    d->before = conv_spread_before(f), d->row = conv_spread_row(f, size);
    d->cells = d->row * f->out[1];
    d->units = f->batch * f->groups;
    d->workers = conv_min(threads, d->units);
    d->next = 0, d->poisoned = 0;
    d->frame_bytes = conv_round64(d->cells * size);
    d->scratch_bytes = d->frame_bytes * (size_t)d->workers;
}
INLINE void conv_spread_scratch(conv_spread *d, void *scratch) { d->frames = (char *)scratch; }

#define REAL_BODY "conv_spread_real.h"
#include "for_each_real.h"
#endif
