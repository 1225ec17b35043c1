/* conv.h: correlations of any rank, layout and stride, and their weight gradients.
 *
 * The job (conv_job) is one three-dimensional correlation in G groups,
 *
 *     out[b, g, m, o] (+)= sum over c, t of  w[g, m, c, t] * in[b, g, c, o*step + t*dil + off],    t a tap of the kernel,
 *
 * with element strides for all three arrays and cells outside `in` skipped. It serves the forward pass; the gradient to x,
 * as one job for each position between strides (conv_phase: flipped weights, transposed channels, strided output); and the
 * gradient to w, where in and out are given and w is the result.
 *
 * Paths, chosen by shape only:
 *   direct   the taps of a channel read one zero-padded copy of a region of the input (the band), split by phase of the
 *            stride, so that every tap of every position is a contiguous vector at a constant offset. No patches.
 *   gemm     patches are packed straight into panels of gemm.h, positions of all images in one row of columns.
 *   masked   the definition in scalar code, which skips padding. It runs when a weight is infinite or NaN and there is
 *            padding to multiply it with: 0 * inf is NaN, and absent cells must not poison.
 *
 * Sums are in the operands' type; their order depends on shapes only.
 */
#ifndef CPUOPS_CONV_H
#define CPUOPS_CONV_H
#include "simd.h"
#include "gemm.h"

typedef struct {
    ptrdiff_t batch, groups, outputs, channels; /* outputs and channels of one group */
    ptrdiff_t in[3], out[3], kernel[3];         /* lengths: depth, height, width */
    ptrdiff_t step[3], dil[3], off[3];
    ptrdiff_t in_batch, in_group, in_channel, in_axis[3]; /* strides in elements */
    ptrdiff_t out_batch, out_group, out_channel, out_axis[3];
    ptrdiff_t w_group, w_output, w_channel, w_axis[3];
} conv_job;

INLINE ptrdiff_t conv_min(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t conv_max(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
INLINE ptrdiff_t conv_ceil(ptrdiff_t a, ptrdiff_t b) { return (a + b - 1) / b; } /* a >= 0 */
INLINE ptrdiff_t conv_gcd(ptrdiff_t a, ptrdiff_t b)
{
    while (b) {
        ptrdiff_t r = a % b;
        a = b, b = r;
    }
    return a;
}
INLINE ptrdiff_t conv_taps(const conv_job *j) { return j->kernel[0] * j->kernel[1] * j->kernel[2]; }
INLINE ptrdiff_t conv_positions(const conv_job *j) { return j->out[0] * j->out[1] * j->out[2]; }

/* the positions first..last (last < first: none) whose cell start + o*step lies in 0..length-1 */
INLINE void conv_inside(ptrdiff_t start, ptrdiff_t step, ptrdiff_t length, ptrdiff_t count, ptrdiff_t *first, ptrdiff_t *last)
{
    *first = start >= 0 ? 0 : (-start - 1) / step + 1;
    *last = length - 1 < start ? -1 : conv_min(count - 1, (length - 1 - start) / step);
}

/* whether a window of the job overhangs the input */
INLINE int conv_padded(const conv_job *j)
{
    for (int a = 0; a < 3; a++)
        if (j->off[a] < 0 || (j->out[a] - 1) * j->step[a] + (j->kernel[a] - 1) * j->dil[a] + j->off[a] >= j->in[a])
            return 1;
    return 0;
}

/* ---- the forward job, from what ops/conv.py checked: x and out C-contiguous in either layout ---- */
INLINE void conv_forward_job(conv_job *j, ptrdiff_t batch, ptrdiff_t groups, ptrdiff_t outputs, ptrdiff_t channels, int channels_last,
                             const ptrdiff_t size[3], const ptrdiff_t kernel[3], const ptrdiff_t output[3],
                             const ptrdiff_t stride[3], const ptrdiff_t dilation[3], const ptrdiff_t before[3])
{
    const ptrdiff_t cin = groups * channels, cout = groups * outputs;
    j->batch = batch, j->groups = groups, j->outputs = outputs, j->channels = channels;
    ptrdiff_t in = channels_last ? cin : 1, out = channels_last ? cout : 1, w = channels_last ? channels * cout : 1;
    for (int a = 2; a >= 0; a--) {
        j->in[a] = size[a], j->kernel[a] = kernel[a], j->out[a] = output[a];
        j->step[a] = stride[a], j->dil[a] = dilation[a], j->off[a] = -before[a];
        j->in_axis[a] = in, j->out_axis[a] = out, j->w_axis[a] = w;
        in *= size[a], out *= output[a], w *= kernel[a];
    }
    j->in_channel = channels_last ? 1 : in, j->out_channel = channels_last ? 1 : out;
    j->in_group = channels * j->in_channel, j->out_group = outputs * j->out_channel;
    j->in_batch = channels_last ? in : in * cin, j->out_batch = channels_last ? out : out * cout;
    j->w_channel = channels_last ? cout : w;
    j->w_output = channels_last ? 1 : channels * w;
    j->w_group = outputs * j->w_output;
}

/* ---- the gradient to the input: one job a phase ----
 *
 * x_grad[h] = sum of w[t] * g[o] over o*s + t*d + off = h. With p = gcd(s, d), the cells h with (h - off) mod s = r are
 * reached by the taps t with t*d = r (mod s): none unless p divides r, else t = t0 + n*(s/p). Stepping h by s moves o by 1,
 * stepping n moves o by -d/p: a stride-1 correlation of g with every (s/p)-th tap, in reverse. */

/* taps t0, t0 + s/p, ... of one axis that share a phase: there are min(k, s/p) phases with taps, and t0 counts them */
INLINE ptrdiff_t conv_phases(const conv_job *j, int axis)
{
    return conv_min(j->kernel[axis], j->step[axis] / conv_gcd(j->step[axis], j->dil[axis]));
}

/* first cell of the phase of tap t0 */
INLINE ptrdiff_t conv_phase_start(const conv_job *j, int a, ptrdiff_t t0)
{
    const ptrdiff_t h0 = (t0 * j->dil[a] + j->off[a]) % j->step[a];
    return h0 < 0 ? h0 + j->step[a] : h0;
}

/* whether every cell of x has a phase with taps (else the rest is to be set to 0) */
INLINE int conv_phases_cover(const conv_job *j)
{
    for (int a = 0; a < 3; a++) {
        ptrdiff_t met = 0;
        for (ptrdiff_t t0 = 0; t0 < conv_phases(j, a); t0++)
            met += conv_phase_start(j, a, t0) < j->in[a];
        if (met < conv_min(j->step[a], j->in[a]))
            return 0;
    }
    return 1;
}

/* the job of phase t0[3] of the forward job f, from g (laid out as f's out) to x_grad (as f's in); the job's pointers are
 * g + 0, w + *w_start and x_grad + *x_start. Returns 0 when the phase has no cell */
INLINE int conv_phase(const conv_job *f, const ptrdiff_t t0[3], conv_job *j, ptrdiff_t *w_start, ptrdiff_t *x_start)
{
    *w_start = *x_start = 0;
    j->batch = f->batch, j->groups = f->groups, j->outputs = f->channels, j->channels = f->outputs;
    j->in_batch = f->out_batch, j->in_group = f->out_group, j->in_channel = f->out_channel;
    j->out_batch = f->in_batch, j->out_group = f->in_group, j->out_channel = f->in_channel;
    j->w_group = f->w_group, j->w_output = f->w_channel, j->w_channel = f->w_output;
    for (int a = 0; a < 3; a++) {
        const ptrdiff_t s = f->step[a], d = f->dil[a], p = conv_gcd(s, d), hop = s / p;
        const ptrdiff_t n = (f->kernel[a] - 1 - t0[a]) / hop + 1;
        const ptrdiff_t h0 = conv_phase_start(f, a, t0[a]);
        if (h0 >= f->in[a])
            return 0;
        j->in[a] = f->out[a], j->kernel[a] = n, j->out[a] = (f->in[a] - 1 - h0) / s + 1;
        j->step[a] = 1, j->dil[a] = d / p;
        /* exact division: h0 - off - t0*d is a multiple of s */
        j->off[a] = (h0 - f->off[a] - t0[a] * d) / s - (n - 1) * (d / p);
        j->in_axis[a] = f->out_axis[a], j->out_axis[a] = f->in_axis[a] * s;
        j->w_axis[a] = -f->w_axis[a] * hop;
        *w_start += (t0[a] + (n - 1) * hop) * f->w_axis[a];
        *x_start += h0 * f->in_axis[a];
    }
    return 1;
}

/* ---- simpler jobs that are the same ---- */
INLINE void conv_move_axis(conv_job *j, int from, int to)
{
    j->in[to] = j->in[from], j->out[to] = j->out[from], j->kernel[to] = j->kernel[from];
    j->step[to] = j->step[from], j->dil[to] = j->dil[from], j->off[to] = j->off[from];
    j->in_axis[to] = j->in_axis[from], j->out_axis[to] = j->out_axis[from], j->w_axis[to] = j->w_axis[from];
}
INLINE void conv_unit_axis(conv_job *j, int a)
{
    j->in[a] = j->out[a] = j->kernel[a] = j->step[a] = j->dil[a] = 1;
    j->off[a] = j->in_axis[a] = j->out_axis[a] = j->w_axis[a] = 0;
}
/* an axis on which output o reads exactly cell o */
INLINE int conv_plain_axis(const conv_job *j, int a)
{
    return j->kernel[a] == 1 && j->step[a] == 1 && j->off[a] == 0 && j->in[a] == j->out[a];
}
/* moves axes of one position to the front and merges axes without kernel that are contiguous in both arrays, so that
 * the last axis is as long as it can be */
INLINE void conv_simplify(conv_job *j)
{
    int last = 2;
    for (int a = 2; a >= 0; a--) {
        if (j->dil[a] < 1 || j->kernel[a] == 1)
            j->dil[a] = 1; /* a dilation without a second tap means nothing */
        if (j->out[a] == 1)
            j->step[a] = 1;
    }
    for (int a = 2; a >= 0; a--) {
        if (j->out[a] == 1 && j->kernel[a] == 1 && j->off[a] == 0 && j->in[a] > 0)
            continue;
        if (last < 2 && conv_plain_axis(j, a) && conv_plain_axis(j, last + 1) &&
            j->in_axis[a] == j->in_axis[last + 1] * j->in[last + 1] && j->out_axis[a] == j->out_axis[last + 1] * j->out[last + 1]) {
            j->in[last + 1] *= j->in[a];
            j->out[last + 1] *= j->out[a];
            continue;
        }
        if (a != last)
            conv_move_axis(j, a, last);
        last--;
    }
    for (; last >= 0; last--)
        conv_unit_axis(j, last);
}

/* ---- the band: how a region of the input is laid out for the direct path ---- */
typedef struct {
    ptrdiff_t phases_y, phases_x; /* of the stride: tap t is in phase t % phases, shifted by t*dil / step cells */
    ptrdiff_t reach_y, reach_x;   /* largest shift */
    ptrdiff_t rows, cols;         /* positions of a full region */
    ptrdiff_t regions_y, regions_x;
    ptrdiff_t row;      /* cells from one row to the next; the zeros right of one serve as the zeros left of the next */
    ptrdiff_t shared;   /* how many of them */
    ptrdiff_t plane;    /* cells of one phase of one channel */
    ptrdiff_t channel;  /* cells of one channel: all depth taps, all phases */
    ptrdiff_t chunk;    /* channels in the band at a time */
    ptrdiff_t cells;    /* of the whole band, with room for the last vector */
} conv_band;

INLINE ptrdiff_t conv_period(const conv_job *j, int a)
{
    return conv_min(j->kernel[a], j->step[a] / conv_gcd(j->step[a], j->dil[a]));
}

/* zeros at the beginning and at the end of every row of every phase, for a region of all columns */
INLINE ptrdiff_t conv_shared_zeros(const conv_job *j, ptrdiff_t phases, ptrdiff_t length)
{
    ptrdiff_t least = length;
    for (ptrdiff_t f = 0; f < phases; f++) {
        ptrdiff_t first, last;
        conv_inside(f * j->dil[2] % j->step[2] + j->off[2], j->step[2], j->in[2], length, &first, &last);
        least = conv_min(least, conv_min(first, length - 1 - last));
    }
    return least;
}

/* the band of a job in about `budget` elements, for vectors of `lanes` */
INLINE void conv_plan_band(const conv_job *j, ptrdiff_t budget, ptrdiff_t lanes, conv_band *p)
{
    p->phases_y = conv_period(j, 1), p->phases_x = conv_period(j, 2);
    p->reach_y = (j->kernel[1] - 1) * j->dil[1] / j->step[1];
    p->reach_x = (j->kernel[2] - 1) * j->dil[2] / j->step[2];
    const ptrdiff_t planes = j->kernel[0] * p->phases_y * p->phases_x;
    /* columns: all of them, unless one row of one channel is more than half the budget */
    const ptrdiff_t widest = conv_max(lanes * 4, budget / 2 / (planes * (1 + p->reach_y)) - p->reach_x);
    p->regions_x = conv_ceil(j->out[2], widest);
    p->cols = p->regions_x > 1 ? conv_ceil(conv_ceil(j->out[2], p->regions_x), lanes) * lanes : j->out[2];
    p->regions_x = conv_ceil(j->out[2], p->cols);
    p->row = p->cols + p->reach_x;
    p->shared = p->regions_x == 1 ? conv_min(conv_shared_zeros(j, p->phases_x, p->row), p->reach_x) : 0;
    p->row -= p->shared;
    /* rows: what the budget allows with all channels, or with as many channels as allow a few rows */
    const ptrdiff_t a_row = planes * p->row, few = conv_min(j->out[1], 4);
    p->chunk = conv_max(1, conv_min(j->channels, budget / (a_row * (few + p->reach_y))));
    p->chunk = conv_ceil(conv_max(j->channels, 1), conv_ceil(conv_max(j->channels, 1), p->chunk));
    const ptrdiff_t most = conv_max(1, budget / (a_row * p->chunk) - p->reach_y);
    p->regions_y = conv_ceil(j->out[1], most);
    p->rows = conv_ceil(j->out[1], p->regions_y);
    p->regions_y = conv_ceil(j->out[1], p->rows);
    p->plane = (p->rows + p->reach_y) * p->row + p->shared;
    p->plane = conv_ceil(p->plane, lanes) * lanes;
    if (p->plane % 512 == 0)
        p->plane += lanes; /* planes a multiple of 2 KB apart would fall into the same cache sets */
    p->channel = planes * p->plane;
    p->cells = p->chunk * p->channel + lanes;
}

/* offset of a tap's cells from those of tap 0 of phase 0 */
INLINE ptrdiff_t conv_tap_offset(const conv_job *j, const conv_band *p, ptrdiff_t z, ptrdiff_t y, ptrdiff_t x)
{
    const ptrdiff_t plane = (z * p->phases_y + y % p->phases_y) * p->phases_x + x % p->phases_x;
    return plane * p->plane + y * j->dil[1] / j->step[1] * p->row + x * j->dil[2] / j->step[2];
}

/* ---- the direct path ---- */
/* output channels of one pass over the band: the group's channels in equal parts that fit the registers */
INLINE ptrdiff_t conv_panels(ptrdiff_t outputs) { return conv_ceil(outputs, GEMM_MR); }
INLINE ptrdiff_t conv_panel_start(ptrdiff_t outputs, ptrdiff_t i) { return i * outputs / conv_panels(outputs); }

typedef struct {
    const conv_job *job;
    int f64;
    const void *in, *w, *bias; /* bias may be NULL */
    void *out;
} conv_call;

typedef struct {
    conv_call call;
    conv_band band;
    ptrdiff_t splits;      /* units that share a region, each with some of the panels */
    ptrdiff_t units, next; /* the unit to take next */
    size_t scratch_bytes, slot_bytes; /* of everything; of the band of one slot */
    void *packed;                     /* weights, group by group */
    ptrdiff_t *tap;                   /* offsets of the taps of a channel */
    char *slots;                      /* bands */
    int poisoned;                     /* a weight is not finite */
} conv_direct;

/* bytes of a band: a quarter of a 1 MB second-level cache */
#define CONV_BAND_BYTES 524288
INLINE size_t conv_round64(size_t n) { return (n + 63) / 64 * 64; }

INLINE void conv_plan_direct(const conv_call *call, ptrdiff_t slots, conv_direct *d)
{
    const conv_job *j = call->job;
    const size_t size = call->f64 ? 8 : 4;
    d->call = *call;
    conv_plan_band(j, CONV_BAND_BYTES / (ptrdiff_t)size, SIMD_BYTES / (ptrdiff_t)size, &d->band);
    const ptrdiff_t regions = j->batch * j->groups * j->out[0] * d->band.regions_y * d->band.regions_x;
    /* when there are few regions, several units copy the same one, each for some of the panels */
    d->splits = conv_max(1, conv_min(conv_panels(j->outputs) / 3, 16 / conv_max(regions, 1)));
    d->units = regions * d->splits;
    d->next = 0;
    d->poisoned = 0;
    d->slot_bytes = conv_round64((size_t)d->band.cells * size);
    d->scratch_bytes = conv_round64((size_t)(j->groups * j->outputs * j->channels * conv_taps(j)) * size) +
                       conv_round64((size_t)conv_taps(j) * sizeof(ptrdiff_t)) + d->slot_bytes * (size_t)slots;
}

INLINE void conv_direct_scratch(conv_direct *d, void *scratch)
{
    const conv_job *j = d->call.job;
    const size_t size = d->call.f64 ? 8 : 4;
    d->packed = scratch;
    d->tap = (ptrdiff_t *)((char *)scratch + conv_round64((size_t)(j->groups * j->outputs * j->channels * conv_taps(j)) * size));
    d->slots = (char *)d->tap + conv_round64((size_t)conv_taps(j) * sizeof(ptrdiff_t));
    ptrdiff_t *tap = d->tap;
    for (ptrdiff_t z = 0; z < j->kernel[0]; z++)
        for (ptrdiff_t y = 0; y < j->kernel[1]; y++)
            for (ptrdiff_t x = 0; x < j->kernel[2]; x++)
                *tap++ = conv_tap_offset(j, &d->band, z, y, x);
}

#define REAL_BODY "conv_real.h"
#include "for_each_real.h"

/* ---- tasks: task i of a call, for any scalar type ---- */
#define CONV_TASK(name, type, f64_)               \
    FUNC void name(void *ctx, ptrdiff_t i)        \
    {                                             \
        type *t = (type *)ctx;                    \
        if (t->f64_)                              \
            name##_f64(t, i);                     \
        else                                      \
            name##_f32(t, i);                     \
    }
CONV_TASK(conv_masked, conv_call, f64)
CONV_TASK(conv_masked_weight, conv_call, f64)
CONV_TASK(conv_direct_pack, conv_direct, call.f64)
CONV_TASK(conv_direct_slot, conv_direct, call.f64)
#endif
