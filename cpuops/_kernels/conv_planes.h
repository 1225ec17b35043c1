/* conv_planes.h: one channel a group, channels first: 3x3 and 5x5 taps, stride 1 or 2 along both axes. See conv.h.
 *
 * Positions of a row are lanes, and the weights of a plane stay in registers: a cell is loaded once for every output row of a
 * pass that reads it. The input is read where it is: what lies over padding is masked, and rows that it lacks are a row of
 * zeros. So it is for levels whose loads have masks; the others have conv_direct.h and conv_spread.h.
 *   forward    some output rows at a time
 *   spread     the gradient to x for stride 2: the even and the odd cells of a row are two vectors, each with the taps that reach
 *              it, and are stored interleaved; rows of x likewise come in pairs
 *   weights    the gradient to the weights: a vector of sums for each tap, all in registers
 */
#ifndef CPUOPS_CONV_PLANES_H
#define CPUOPS_CONV_PLANES_H
#include "conv_band.h"
#include "conv_finish.h"
#include "wide.h"

#define CONV_PLANES_REACH 5        /* taps along an axis, at most */
#define CONV_PLANES_UNIT 32768     /* outputs of a unit, about */
#define CONV_PLANES_RUN 4096       /* positions that a weight gradient sums in the operands' type, about */
#define CONV_PLANES_PIECES 512     /* of the sums of all weight gradients */
#define CONV_PLANES_WIDEST 1048576 /* bytes of a row */
#if SIMD_AVX512 || SIMD_AVX2
#define CONV_PLANES_MASKS 1
#endif
/* output rows of a pass: sums of so many are as many as multiply-adds are under way at a time, and 7, 14, 28, 56 are multiples */
#if SIMD_AVX512
#define CONV_PLANES_ROWS 7
#else
#define CONV_PLANES_ROWS 4
#endif

typedef struct {
    conv_call call;   /* spread: of the forward job: in: output's gradient, w: weights, out: x's gradient */
    ptrdiff_t bands, rows; /* of a plane, and the rows of each; weights: of the output's gradient */
    ptrdiff_t planes; /* of a unit; weights: images that are summed together */
    ptrdiff_t items, pieces; /* weights: bands or runs of images of a group, and the pieces that they are summed in */
    ptrdiff_t units, next, workers;
    size_t scratch_bytes;
    void *zeros;     /* a row of what is read */
    void *spans;     /* masks of the cells of each vector of a row */
    double *partial; /* weights: [groups][pieces][taps] */
    int poisoned;    /* a weight is not finite and would meet padding; or a weight gradient is not finite */
} conv_planes;

/* whether the groups of a forward job are planes with a kernel and a stride that are known here */
INLINE int conv_planes_fit(const conv_job *j, ptrdiff_t size)
{
#if CONV_PLANES_MASKS
    const ptrdiff_t k = j->kernel[2], s = j->step[2];
    return j->outputs == 1 && j->channels == 1 && j->kernel[0] == 1 && j->in[0] == 1 && j->out[0] == 1 && j->off[0] == 0 &&
           j->in_axis[2] == 1 && j->out_axis[2] == 1 && (k == 3 || k == 5) && j->kernel[1] == k && (s == 1 || s == 2) &&
           j->step[1] == s && j->dil[1] == 1 && j->dil[2] == 1 && conv_max(j->in[2], j->out[2]) < CONV_PLANES_WIDEST / size;
#else
    (void)j, (void)size;
    return 0;
#endif
}
/* and for the gradient to the weights: the sums of 25 taps want 32 registers */
INLINE int conv_planes_sums(const conv_job *j, ptrdiff_t size)
{
    return conv_planes_fit(j, size) && (SIMD_BYTES == 64 || j->kernel[2] == 3);
}
/* and for the gradient to x of stride 2: the axes' offsets are both even or both odd */
INLINE int conv_planes_spread(const conv_job *f, ptrdiff_t size)
{
    return conv_planes_fit(f, size) && f->step[2] == 2 && ((f->off[1] ^ f->off[2]) & 1) == 0;
}

INLINE size_t conv_planes_zeros(const conv_planes *d)
{
    const conv_job *j = d->call.job;
    return conv_round64(conv_max(j->in[2], j->out[2]) * conv_size(&d->call));
}
/* a mask for each column of taps of each vector, and one more for pairs of vectors */
INLINE size_t conv_planes_shared(const conv_planes *d)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t vectors = conv_ceil(conv_max(j->in[2], j->out[2]) * conv_size(&d->call), SIMD_BYTES);
    return conv_planes_zeros(d) + conv_round64(vectors * (CONV_PLANES_REACH + 1) * SIMD_BYTES);
}

/* units of about as many results as CONV_PLANES_UNIT; a plane of `height` rows of `width` is cut into bands of whole passes */
INLINE void conv_plan_planes(const conv_call *call, int spread, ptrdiff_t threads, conv_planes *d)
{
    const conv_job *j = call->job;
    const ptrdiff_t height = spread ? j->in[1] : j->out[1], width = spread ? j->in[2] : j->out[2], planes = j->batch * j->groups;
    d->call = *call;
    d->rows = height, d->bands = 1, d->planes = 1;
    if (height * width > 2 * CONV_PLANES_UNIT) {
        d->rows = conv_ceil(CONV_PLANES_UNIT / width + 1, 4 * CONV_PLANES_ROWS) * 4 * CONV_PLANES_ROWS;
        d->bands = conv_ceil(height, d->rows);
    } else
        d->planes = conv_max(1, conv_min(CONV_PLANES_UNIT / (height * width), planes / 16));
    d->units = conv_ceil(planes, d->planes) * d->bands;
    d->workers = conv_min(threads, d->units);
    d->next = 0, d->poisoned = 0, d->partial = NULL;
    d->scratch_bytes = conv_planes_shared(d);
}

INLINE void conv_plan_planes_weight(const conv_call *call, ptrdiff_t threads, conv_planes *d)
{
    const conv_job *j = call->job;
    d->call = *call;
    d->rows = conv_min(j->out[1], conv_ceil(CONV_PLANES_RUN / j->out[2] + 1, 4) * 4);
    d->bands = conv_ceil(j->out[1], d->rows);
    d->planes = d->bands > 1 ? 1 : conv_max(1, CONV_PLANES_RUN / (j->out[1] * j->out[2]));
    d->items = conv_ceil(j->batch, d->planes) * d->bands;
    d->pieces = conv_max(1, conv_min(d->items, CONV_PLANES_PIECES / j->groups));
    d->units = j->groups * d->pieces;
    d->workers = conv_min(threads, d->units);
    d->next = 0, d->poisoned = 0;
    d->scratch_bytes = conv_planes_shared(d) + (size_t)(d->units * conv_taps(j)) * sizeof(double);
}

INLINE void conv_planes_scratch(conv_planes *d, void *scratch)
{
    d->zeros = scratch;
    d->spans = (char *)scratch + conv_planes_zeros(d);
    d->partial = (double *)((char *)scratch + conv_planes_shared(d));
}

#define REAL_BODY "conv_planes_real.h"
#include "for_each_real.h"
#endif
