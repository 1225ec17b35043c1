/* conv_direct.h: the direct path: tiles of output channels by flat positions, from a band (conv_band.h). See conv.h. */
#ifndef CPUOPS_CONV_DIRECT_H
#define CPUOPS_CONV_DIRECT_H
#include "conv_band.h"
#include "conv_finish.h"
#include "gemm.h"

#define CONV_SHORT_SUM 32 /* terms: from here on a flat tile costs less than the lanes that rows leave empty */

typedef struct {
    conv_call call;
    conv_band band;
    int in_place, by_rows; /* the input is its own band; tiles are pieces of image rows */
    ptrdiff_t panels;      /* the outputs of a group in equal parts that fit a tile */
    ptrdiff_t splits;      /* units that share a region, each with some of the panels */
    ptrdiff_t units, next; /* a unit: a region of an image and group; the one to take next */
    ptrdiff_t workers;     /* that take them, each with a band */
    size_t scratch_bytes, band_bytes;
    void *packed;   /* weights */
    ptrdiff_t *tap; /* offsets of the taps of a channel */
    char *bands;
    int poisoned; /* a weight is not finite */
} conv_direct;

INLINE size_t conv_direct_weights(const conv_direct *d)
{
    const conv_job *j = d->call.job;
    return conv_round64(j->groups * j->outputs * conv_terms(j) * conv_size(&d->call));
}

/* the band of `j`, the correlation that is computed, is planned: how panels and regions are shared, and the scratch */
INLINE void conv_share_direct(conv_direct *d, const conv_job *j, ptrdiff_t threads)
{
    const ptrdiff_t regions = j->batch * j->groups * conv_regions(j, &d->band);
    d->panels = conv_ceil(j->outputs, GEMM_MR);
    d->splits = conv_max(1, conv_min(d->panels / 3, 16 / conv_max(regions, 1)));
    d->units = regions * d->splits;
    d->workers = conv_min(threads, d->units);
    d->next = 0, d->poisoned = 0;
    d->band_bytes = conv_round64(d->band.cells * conv_size(&d->call));
    d->scratch_bytes = conv_direct_weights(d) + conv_round64(conv_taps(d->call.job) * (ptrdiff_t)sizeof(ptrdiff_t)) +
                       d->band_bytes * (size_t)d->workers;
}

INLINE void conv_plan_direct(const conv_call *call, ptrdiff_t threads, conv_direct *d)
{
    const conv_job *j = call->job;
    const ptrdiff_t size = conv_size(call);
    d->call = *call;
    d->in_place = conv_in_place(j);
    conv_plan_band(j, size, d->in_place ? CONV_BAND_BYTES / size / conv_max(j->channels, 1) : PTRDIFF_MAX, &d->band);
    d->by_rows = !d->in_place && j->outputs <= 4 && conv_terms(j) <= CONV_SHORT_SUM && d->band.chunk >= j->channels;
    if (d->in_place) /* a vector of the last positions of each channel */
        d->band.cells = conv_max(d->band.cells, j->channels * SIMD_BYTES / size);
    conv_share_direct(d, j, threads);
}

/* where weights, taps and bands are in the scratch */
INLINE void conv_lay_direct(conv_direct *d, void *scratch)
{
    d->packed = scratch;
    d->tap = (ptrdiff_t *)((char *)scratch + conv_direct_weights(d));
    d->bands = (char *)d->tap + conv_round64(conv_taps(d->call.job) * (ptrdiff_t)sizeof(ptrdiff_t));
}

INLINE void conv_direct_scratch(conv_direct *d, void *scratch)
{
    conv_lay_direct(d, scratch);
    conv_tap_table(d->call.job, &d->band, d->tap);
}

#define REAL_BODY "conv_direct_real.h"
#include "for_each_real.h"
#endif
