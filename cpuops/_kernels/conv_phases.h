/* conv_phases.h: the gradient to x of a strided convolution, channels first, all phases of the stride at once. See conv.h.
 *
 * As one job a phase (conv_phase) the gradient would be copied into a band, and every line of x written, once for each. Here one
 * band, with the margins that any phase wants, serves all of them, and where the stride along a row is 2 the even and the odd
 * cells are stored together, interleaved. Tiles are those of conv_direct.h.
 */
#ifndef CPUOPS_CONV_PHASES_H
#define CPUOPS_CONV_PHASES_H
#include "conv_direct.h"

#define CONV_PHASES 32       /* at most */
#define CONV_PHASES_TAPS 512 /* of all of them */
#define CONV_PHASES_BYTES 4194304 /* of packed weights, at a time */
#define CONV_PHASES_SHARES 4      /* of the channels of x, one after the other, so that there are no more */

typedef struct {
    conv_job job;      /* from the output's gradient to the cells of this phase */
    ptrdiff_t w_start; /* of its weights, in the array */
    ptrdiff_t start;   /* of its first cell, in x */
    ptrdiff_t packed;  /* of its weights, in the packed ones */
    ptrdiff_t first;   /* of its taps */
} conv_one_phase;

typedef struct {
    /* call: of the forward job: in: output's gradient, w: weights, out: x's gradient; band: of `wide`; tap: of all phases */
    conv_direct direct;
    conv_job wide; /* the correlation that has the taps of all phases, and the most cells */
    conv_one_phase phase[CONV_PHASES]; /* neighbours along a row side by side */
    ptrdiff_t phases, taps; /* taps of all phases */
    int pairs; /* they are stored two by two */
} conv_phases_call;

/* channels of x whose weights are packed at a time; of several groups all */
INLINE ptrdiff_t conv_phases_channels(const conv_job *f, ptrdiff_t size)
{
    const ptrdiff_t shares = f->groups > 1 ? 1 : conv_ceil(f->outputs * conv_terms(f), CONV_PHASES_BYTES / size);
    return conv_ceil(conv_ceil(f->channels, conv_max(1, shares)), GEMM_MR) * GEMM_MR;
}

/* `count` channels of x from `first` on, or those that are left, as a call of its own, whose job is *j */
INLINE conv_call conv_some_channels(const conv_call *call, ptrdiff_t first, ptrdiff_t count, conv_job *j)
{
    conv_call c = *call;
    const ptrdiff_t size = conv_size(call);
    *j = *call->job;
    j->channels = conv_min(count, j->channels - first);
    c.job = j;
    c.w = conv_move(c.w, first * j->w_channel, size);
    c.out = conv_move(c.out, first * j->in_channel, size);
    c.bias = conv_move(c.bias, first, size);
    return c;
}

INLINE int conv_phases_fit(const conv_job *f, ptrdiff_t size)
{
    ptrdiff_t phases = 1;
    int strided = 0;
    for (int a = 0; a < 3; a++) {
        if (f->dil[a] != 1 && f->kernel[a] > 1)
            return 0;
        phases *= conv_min(f->kernel[a], f->step[a]);
        strided |= f->step[a] > 1 && f->kernel[a] > 1;
    }
    return strided && phases <= CONV_PHASES && conv_taps(f) <= CONV_PHASES_TAPS && f->in_axis[2] == 1 && f->out_axis[2] == 1 &&
           f->groups * f->outputs * conv_terms(f) <= (f->groups > 1 ? 1 : CONV_PHASES_SHARES) * CONV_PHASES_BYTES / size;
}

/* the phases, and the job that is as wide as all of them; returns whether there is anything to do */
INLINE int conv_list_phases(conv_phases_call *d)
{
    const conv_job *f = d->direct.call.job;
    ptrdiff_t t0[3], terms = 0;
    d->phases = d->taps = 0;
    for (t0[0] = 0; t0[0] < conv_phases(f, 0); t0[0]++)
        for (t0[1] = 0; t0[1] < conv_phases(f, 1); t0[1]++)
            for (t0[2] = 0; t0[2] < conv_phases(f, 2); t0[2]++) {
                conv_one_phase *p = d->phase + d->phases;
                if (!conv_phase(f, t0, &p->job, &p->w_start, &p->start))
                    continue;
                p->first = d->taps, p->packed = terms;
                d->taps += conv_taps(&p->job), terms += conv_terms(&p->job) * f->groups * f->channels;
                d->phases++;
            }
    if (!d->phases)
        return 0;
    d->wide = d->phase[0].job;
    for (int a = 0; a < 3; a++) {
        ptrdiff_t end = d->wide.off[a] + d->wide.kernel[a];
        for (ptrdiff_t i = 1; i < d->phases; i++) {
            const conv_job *j = &d->phase[i].job;
            end = conv_max(end, j->off[a] + j->kernel[a]);
            d->wide.off[a] = conv_min(d->wide.off[a], j->off[a]);
            d->wide.out[a] = conv_max(d->wide.out[a], j->out[a]);
        }
        d->wide.kernel[a] = end - d->wide.off[a], d->wide.dil[a] = 1;
    }
    /* two neighbours along each row: the odd one may come first */
    d->pairs = f->step[2] == 2 && f->kernel[2] > 1 && f->in[2] > 1;
    for (ptrdiff_t i = 0; d->pairs && i < d->phases; i += 2)
        if (d->phase[i].start > d->phase[i + 1].start) {
            const conv_one_phase p = d->phase[i];
            d->phase[i] = d->phase[i + 1], d->phase[i + 1] = p;
        }
    return 1;
}

/* returns 0 when the path is none for this call after all */
INLINE int conv_plan_phases(const conv_call *call, ptrdiff_t threads, conv_phases_call *d)
{
    const ptrdiff_t size = conv_size(call);
    d->direct.call = *call;
    if (!conv_list_phases(d) || !conv_band_fits(&d->wide, size, CONV_PHASES_BYTES))
        return 0;
    conv_plan_band(&d->wide, size, PTRDIFF_MAX, &d->direct.band);
    conv_share_direct(&d->direct, &d->wide, threads);
    return 1;
}

INLINE void conv_phases_scratch(conv_phases_call *d, void *scratch)
{
    conv_lay_direct(&d->direct, scratch);
    const conv_band *b = &d->direct.band;
    for (ptrdiff_t i = 0; i < d->phases; i++) {
        const conv_job *j = &d->phase[i].job;
        ptrdiff_t *tap = d->direct.tap + d->phase[i].first;
        for (ptrdiff_t z = 0; z < j->kernel[0]; z++)
            for (ptrdiff_t y = 0; y < j->kernel[1]; y++)
                for (ptrdiff_t x = 0; x < j->kernel[2]; x++)
                    *tap++ = (z + j->off[0] - d->wide.off[0]) * b->plane + (y + j->off[1] - d->wide.off[1]) * b->row + x +
                             j->off[2] - d->wide.off[2];
    }
}

#define REAL_BODY "conv_phases_real.h"
#include "for_each_real.h"
#endif
