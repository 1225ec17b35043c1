/* conv_weight.h: the weight gradient from a band (conv_band.h), and the bias gradient. See conv.h. */
#ifndef CPUOPS_CONV_WEIGHT_H
#define CPUOPS_CONV_WEIGHT_H
#include "conv_band.h"
#include "gemm.h"

#define CONV_PIECES 64         /* parts of a sum, so that threads have work; they are added in order */
#define CONV_FEW_PIECES 32     /* of a small one */
#define CONV_PIECE_WORK 1000000 /* multiply-adds that are worth one more */
#define CONV_PARTIAL_BYTES 4194304 /* of all parts together, at most */

/* ---- lanes: positions in lanes ----
 *
 * A copy of the gradient has its rows as far apart as the band's: w[m, c, t] is the dot product of the gradient's channel m and
 * the cells that tap t of channel c reads. Every weight of a unit has a vector of partial sums. For few output channels. */
#define CONV_LANES_M 3 /* CONV_LANES_M * CONV_LANES_N sums, CONV_LANES_M gradients and a cell are in registers */
#if SIMD_AVX512 || defined(__aarch64__)
#define CONV_LANES_N 9
#else
#define CONV_LANES_N 4
#endif
#define CONV_LANES_SUMS 262144 /* bytes of the sums of a unit, which stay in the second-level cache */

typedef struct {
    conv_call call;
    conv_band band;
    ptrdiff_t grad_plane; /* cells of one channel of the gradient's copy */
    ptrdiff_t splits;     /* units of a group, each with outputs of its own */
    ptrdiff_t regions;    /* of one group */
    ptrdiff_t pieces;     /* that the regions are summed in */
    ptrdiff_t units, next, workers;
    size_t scratch_bytes, worker_bytes;
    void *partial; /* [pieces][groups][outputs][channels, taps] */
    ptrdiff_t *tap;
    char *memory; /* of the workers */
    int poisoned; /* a sum is not finite */
} conv_lanes;

/* parts of all groups' sums */
INLINE ptrdiff_t conv_weight_pieces(const conv_job *j)
{
    const ptrdiff_t work = j->batch * conv_positions(j) * j->groups * j->outputs * conv_terms(j);
    return conv_max(CONV_FEW_PIECES, conv_min(CONV_PIECES, work / CONV_PIECE_WORK));
}

INLINE ptrdiff_t conv_lanes_outputs(const conv_lanes *d) { return conv_ceil(d->call.job->outputs, d->splits); }
INLINE size_t conv_lanes_partial(const conv_lanes *d)
{
    const conv_job *j = d->call.job;
    return conv_round64(d->pieces * j->groups * j->outputs * conv_terms(j) * conv_size(&d->call));
}
INLINE size_t conv_lanes_sums(const conv_lanes *d)
{
    return conv_round64(conv_lanes_outputs(d) * conv_terms(d->call.job) * SIMD_BYTES);
}

INLINE void conv_plan_lanes(const conv_call *call, ptrdiff_t threads, conv_lanes *d)
{
    const conv_job *j = call->job;
    const ptrdiff_t size = conv_size(call), lanes = SIMD_BYTES / size, terms = conv_terms(j);
    d->call = *call;
    conv_plan_band(j, size, PTRDIFF_MAX, &d->band);
    const conv_band *b = &d->band;
    d->grad_plane = conv_ceil((b->rows - 1) * b->row + b->cols, lanes) * lanes;
    d->splits = conv_ceil(j->outputs, conv_max(CONV_LANES_M, CONV_LANES_SUMS / (terms * SIMD_BYTES)));
    d->splits = conv_ceil(j->outputs, conv_ceil(j->outputs, d->splits));
    d->regions = j->batch * conv_regions(j, b);
    d->pieces = conv_min(conv_ceil(conv_weight_pieces(j), j->groups * d->splits),
                         CONV_PARTIAL_BYTES / (j->groups * j->outputs * terms * size));
    d->pieces = conv_max(1, conv_min(d->pieces, d->regions));
    d->units = d->pieces * j->groups * d->splits;
    d->workers = conv_min(threads, d->units);
    d->next = 0, d->poisoned = 0;
    d->worker_bytes = conv_lanes_sums(d) + conv_round64(b->cells * size) +
        conv_round64(conv_lanes_outputs(d) * d->grad_plane * size);
    d->scratch_bytes = conv_lanes_partial(d) + conv_round64(conv_taps(j) * (ptrdiff_t)sizeof(ptrdiff_t)) +
                       d->worker_bytes * (size_t)d->workers;
}

INLINE void conv_lanes_scratch(conv_lanes *d, void *scratch)
{
    d->partial = scratch;
    d->tap = (ptrdiff_t *)((char *)scratch + conv_lanes_partial(d));
    d->memory = (char *)d->tap + conv_round64(conv_taps(d->call.job) * (ptrdiff_t)sizeof(ptrdiff_t));
    conv_tap_table(d->call.job, &d->band, d->tap);
}

/* ---- outer: output channels in lanes ----
 *
 * The band is read a cell at a time and broadcast; the gradient is transposed to [position][output channel], and the rows of
 * the result are terms (channel, tap). Nothing is summed across lanes. For groups of at least half a vector of outputs. */
#if SIMD_AVX512 || defined(__aarch64__)
#define CONV_OUTER_VECTORS 4
#define CONV_OUTER_ROWS(nv) ((nv) > 2 ? 6 : 8)
#else
#define CONV_OUTER_VECTORS 2
#define CONV_OUTER_ROWS(nv) ((nv) > 1 ? GEMM_MR : 8)
#endif
#define CONV_OUTER_BLOCK 32768 /* bytes of the gradient that stay in the first-level cache */
#define CONV_OUTER_TERMS 256   /* terms of a unit, so that transposing the gradient costs little */
#define CONV_OUTER_SPLIT 128   /* at least, if there are more threads than units */
#define CONV_SUM_TERMS 32      /* terms whose pieces are added, and then transposed, at a time */

typedef struct {
    conv_call call;
    conv_band band;
    int in_place;                     /* the input is its own band */
    ptrdiff_t vectors, panels, width; /* outputs of a panel: vectors of them, how many */
    ptrdiff_t splits;                 /* units of a group, each with channels of its own */
    ptrdiff_t regions, pieces;        /* as in conv_lanes */
    ptrdiff_t units, next, workers;
    size_t scratch_bytes, worker_bytes;
    void *partial; /* [pieces][groups][panels][channels, taps][width] */
    ptrdiff_t *tap;
    char *memory;
    int poisoned;
} conv_outer;

INLINE ptrdiff_t conv_outer_channels(const conv_outer *d) { return conv_ceil(d->call.job->channels, d->splits); }
/* sums of all groups, gaps included */
INLINE ptrdiff_t conv_outer_set(const conv_outer *d)
{
    return d->call.job->groups * d->panels * conv_terms(d->call.job) * d->width;
}
/* tasks that add the pieces */
INLINE ptrdiff_t conv_outer_sums(const conv_outer *d)
{
    return d->call.job->groups * d->panels * conv_ceil(conv_terms(d->call.job), CONV_SUM_TERMS);
}

/* at most n units of a group, with equal numbers of channels; no bit depends on them */
INLINE ptrdiff_t conv_outer_splits(const conv_job *j, ptrdiff_t n)
{
    n = conv_max(1, conv_min(conv_terms(j) / CONV_OUTER_SPLIT, n));
    return conv_ceil(j->channels, conv_ceil(j->channels, n));
}

INLINE void conv_plan_outer(const conv_call *call, ptrdiff_t threads, conv_outer *d)
{
    const conv_job *j = call->job;
    const ptrdiff_t size = conv_size(call), lanes = SIMD_BYTES / size, vectors = conv_ceil(j->outputs, lanes);
    d->call = *call;
    d->panels = conv_ceil(vectors, CONV_OUTER_VECTORS);
    d->vectors = conv_ceil(vectors, d->panels);
    d->width = d->vectors * lanes;
    const ptrdiff_t outputs = d->panels * d->width;
    /* the transposed gradient of a region is about as large as the band */
    conv_plan_band(j, size, conv_max(64, CONV_BAND_BYTES / (outputs * size)), &d->band);
    d->in_place = conv_in_place(j);
    d->regions = j->batch * conv_regions(j, &d->band);
    d->pieces = conv_min(conv_ceil(conv_weight_pieces(j), j->groups), CONV_PARTIAL_BYTES / (conv_outer_set(d) * size));
    d->pieces = conv_max(1, conv_min(d->pieces, d->regions));
    d->splits = conv_outer_splits(j, conv_min(conv_terms(j) / CONV_OUTER_TERMS, CONV_PIECES / 4 / (j->groups * d->pieces)));
    d->splits = conv_outer_splits(j, even_parts(j->groups * d->pieces, d->splits, conv_terms(j) / CONV_OUTER_SPLIT, threads));
    d->units = d->pieces * j->groups * d->splits;
    d->workers = conv_min(threads, d->units);
    d->next = 0, d->poisoned = 0;
    d->worker_bytes = conv_round64(d->band.cells * size) + conv_round64(d->band.rows * d->band.cols * outputs * size);
    d->scratch_bytes = conv_round64(d->pieces * conv_outer_set(d) * size) +
        conv_round64(conv_taps(j) * (ptrdiff_t)sizeof(ptrdiff_t)) +
                       d->worker_bytes * (size_t)d->workers;
}

INLINE void conv_outer_scratch(conv_outer *d, void *scratch)
{
    d->partial = scratch;
    d->tap = (ptrdiff_t *)((char *)scratch + conv_round64(d->pieces * conv_outer_set(d) * conv_size(&d->call)));
    d->memory = (char *)d->tap + conv_round64(conv_taps(d->call.job) * (ptrdiff_t)sizeof(ptrdiff_t));
    conv_tap_table(d->call.job, &d->band, d->tap);
}

/* ---- the bias gradient: sums over [outer][channels][inner], in double ---- */
#define CONV_BIAS_RUN 16384 /* elements summed at once */

typedef struct {
    int f64;
    const void *grad;
    void *out;
    ptrdiff_t outer, channels, inner;
    ptrdiff_t runs, items, pieces; /* runs of a channel at one outer index; items are what pieces are made of */
    size_t scratch_bytes;
    double *partial; /* [pieces][channels] */
} conv_bias;

INLINE void conv_plan_bias(conv_bias *d)
{
    d->runs = conv_ceil(d->inner, CONV_BIAS_RUN);
    d->items = d->outer * d->runs;
    d->pieces = conv_min(d->items, conv_min(CONV_PIECES, CONV_PARTIAL_BYTES / 8 / conv_max(1, d->channels)));
    d->pieces = conv_max(1, d->pieces);
    d->scratch_bytes = (size_t)(d->pieces * d->channels) * sizeof(double);
}

#define REAL_BODY "conv_weight_real.h"
#include "for_each_real.h"
#endif
