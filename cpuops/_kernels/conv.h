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
#include "transpose.h"
#include "wide.h"

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

/* takes the fastest of nested counters, of n values, off a flat one */
INLINE ptrdiff_t conv_split(ptrdiff_t *flat, ptrdiff_t n)
{
    if (n == 1) /* most of them, and a division takes as long as a row of a small image */
        return 0;
    const ptrdiff_t i = *flat % n;
    *flat /= n;
    return i;
}

/* the positions first..last (last < first: none) whose cell start + o*step lies in 0..length-1 */
INLINE void conv_inside(ptrdiff_t start, ptrdiff_t step, ptrdiff_t length, ptrdiff_t count, ptrdiff_t *first, ptrdiff_t *last)
{
    const ptrdiff_t before = start < 0 ? -start : 0, room = length - 1 - start;
    *first = step == 1 || before <= 1 ? before : (before - 1) / step + 1; /* divisions are slow */
    *last = room < 0 ? -1 : conv_min(count - 1, step == 1 ? room : room / step);
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

/* where phase f of an axis begins, in input cells */
INLINE ptrdiff_t conv_phase_cell(const conv_job *j, int a, ptrdiff_t f) { return f == 0 ? 0 : f * j->dil[a] % j->step[a]; }

/* zeros at the beginning and at the end of every row of every phase, for a region of all columns */
INLINE ptrdiff_t conv_shared_zeros(const conv_job *j, ptrdiff_t phases, ptrdiff_t length)
{
    ptrdiff_t least = length;
    for (ptrdiff_t f = 0; f < phases; f++) {
        ptrdiff_t first, last;
        conv_inside(conv_phase_cell(j, 2, f) + j->off[2], j->step[2], j->in[2], length, &first, &last);
        least = conv_min(least, conv_min(first, length - 1 - last));
    }
    return least;
}

/* the band of a job in about `budget` elements, for vectors of `lanes`; regions of about `most` positions */
INLINE void conv_plan_band(const conv_job *j, ptrdiff_t budget, ptrdiff_t most, ptrdiff_t lanes, conv_band *p)
{
    p->phases_y = conv_period(j, 1), p->phases_x = conv_period(j, 2);
    p->reach_y = (j->kernel[1] - 1) * j->dil[1] / j->step[1];
    p->reach_x = (j->kernel[2] - 1) * j->dil[2] / j->step[2];
    const ptrdiff_t planes = j->kernel[0] * p->phases_y * p->phases_x;
    /* columns: all of them, unless one row of one channel is more than half the budget */
    const ptrdiff_t widest = conv_max(lanes * 4, conv_min(most, budget / 2 / (planes * (1 + p->reach_y)) - p->reach_x));
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
    const ptrdiff_t highest = conv_max(1, conv_min(most / p->row, budget / (a_row * p->chunk) - p->reach_y));
    p->regions_y = conv_ceil(j->out[1], highest);
    p->rows = conv_ceil(j->out[1], p->regions_y);
    p->regions_y = conv_ceil(j->out[1], p->rows);
    p->plane = (p->rows + p->reach_y) * p->row + p->shared;
    /* channels side by side are transposed into the band, whole vectors at a time: the last one ends beyond the last row */
    p->plane = conv_ceil(p->plane + (j->in_channel == 1 ? lanes : 0), lanes) * lanes;
    if (p->plane % 512 == 0)
        p->plane += lanes; /* planes a multiple of 2 KB apart would fall into the same cache sets */
    p->channel = planes * p->plane;
    p->cells = p->chunk * p->channel + lanes;
}

/* offset of each tap's cells in the band of a channel */
INLINE void conv_tap_table(const conv_job *j, const conv_band *p, ptrdiff_t *tap)
{
    for (ptrdiff_t z = 0; z < j->kernel[0]; z++)
        for (ptrdiff_t y = 0; y < j->kernel[1]; y++)
            for (ptrdiff_t x = 0; x < j->kernel[2]; x++) {
                const ptrdiff_t plane = (z * p->phases_y + y % p->phases_y) * p->phases_x + x % p->phases_x;
                *tap++ = plane * p->plane + y * j->dil[1] / j->step[1] * p->row + x * j->dil[2] / j->step[2];
            }
}

/* whether the input can be read as it is: the tap of a position is the cell of the same place */
INLINE int conv_in_place(const conv_job *j)
{
    return j->out[1] == 1 && conv_plain_axis(j, 0) && conv_plain_axis(j, 1) && conv_plain_axis(j, 2) && j->in_axis[2] == 1;
}

/* ---- the direct path ---- */
/* output channels of one pass over the band: the group's channels in equal parts that fit the registers */
INLINE ptrdiff_t conv_panels(ptrdiff_t outputs) { return conv_ceil(outputs, GEMM_MR); }
/* where part i of `parts` equal parts of n begins */
INLINE ptrdiff_t conv_part(ptrdiff_t n, ptrdiff_t parts, ptrdiff_t i) { return parts == 1 ? i * n : i * n / parts; }

typedef struct {
    const conv_job *job;
    int f64;
    const void *in, *w, *bias; /* bias may be NULL */
    void *out;
} conv_call;

typedef struct {
    conv_call call;
    conv_band band;
    int in_place, by_rows; /* the input is its own band; tiles are pieces of image rows */
    ptrdiff_t panels;      /* of the outputs of a group */
    ptrdiff_t splits;      /* units that share a region, each with some of the panels */
    ptrdiff_t units, next; /* the unit to take next */
    ptrdiff_t workers;     /* that share them, each with a band */
    size_t scratch_bytes, slot_bytes; /* of everything; of one band */
    void *packed;                     /* weights, group by group */
    ptrdiff_t *tap;                   /* offsets of the taps of a channel */
    char *slots;                      /* bands */
    int poisoned;                     /* a weight is not finite */
} conv_direct;

#define CONV_SHORT_SUM 32 /* terms: from here on a flat tile costs less than the lanes that rows leave empty */
/* bytes of a band: a quarter of a 1 MB second-level cache */
#define CONV_BAND_BYTES 524288
INLINE size_t conv_round64(size_t n) { return (n + 63) / 64 * 64; }

INLINE void conv_plan_direct(const conv_call *call, ptrdiff_t threads, conv_direct *d)
{
    const conv_job *j = call->job;
    const size_t size = call->f64 ? 8 : 4;
    d->call = *call;
    conv_plan_band(j, CONV_BAND_BYTES / (ptrdiff_t)size, PTRDIFF_MAX, SIMD_BYTES / (ptrdiff_t)size, &d->band);
    d->in_place = conv_in_place(j);
    d->by_rows = !d->in_place && j->outputs <= 4 && j->channels * conv_taps(j) <= CONV_SHORT_SUM && d->band.chunk >= j->channels;
    if (d->in_place)
        d->band.cells = conv_max(d->band.cells, j->channels * SIMD_BYTES / (ptrdiff_t)size);
    const ptrdiff_t regions = j->batch * j->groups * j->out[0] * d->band.regions_y * d->band.regions_x;
    /* when there are few regions, several units copy the same one, each for some of the panels */
    d->panels = conv_panels(j->outputs);
    d->splits = conv_max(1, conv_min(d->panels / 3, 16 / conv_max(regions, 1)));
    d->units = regions * d->splits;
    d->workers = conv_min(threads, d->units);
    d->next = 0;
    d->poisoned = 0;
    d->slot_bytes = conv_round64((size_t)d->band.cells * size);
    d->scratch_bytes = conv_round64((size_t)(j->groups * j->outputs * j->channels * conv_taps(j)) * size) +
                       conv_round64((size_t)conv_taps(j) * sizeof(ptrdiff_t)) + d->slot_bytes * (size_t)d->workers;
}

INLINE void conv_direct_scratch(conv_direct *d, void *scratch)
{
    const conv_job *j = d->call.job;
    const size_t size = d->call.f64 ? 8 : 4;
    d->packed = scratch;
    d->tap = (ptrdiff_t *)((char *)scratch + conv_round64((size_t)(j->groups * j->outputs * j->channels * conv_taps(j)) * size));
    d->slots = (char *)d->tap + conv_round64((size_t)conv_taps(j) * sizeof(ptrdiff_t));
    conv_tap_table(j, &d->band, d->tap);
}

/* ---- the weight gradient, positions in lanes ----
 *
 * The same band, and a copy of the gradient with rows as far apart: w[m, c, t] is the dot product of the gradient's row m
 * and the cells that tap t of channel c reads. Every weight of a unit has a vector of partial sums. For few channels. */
#if SIMD_AVX512 || defined(__aarch64__)
#define CONV_LANES_M 3 /* CONV_LANES_M * CONV_LANES_N accumulators, M gradients and one cell in registers */
#define CONV_LANES_N 9
#else
#define CONV_LANES_M 3
#define CONV_LANES_N 4
#endif

typedef struct {
    conv_call call; /* call.w is the output's gradient, call.out the weight's */
    conv_band band;
    ptrdiff_t grad_plane;   /* cells of one channel of the gradient's copy */
    ptrdiff_t splits;       /* units of a group, each with outputs of its own */
    ptrdiff_t regions;      /* of one group */
    ptrdiff_t pieces;       /* the regions are summed in so many pieces */
    ptrdiff_t units, next, workers;
    size_t scratch_bytes, slot_bytes;
    void *partial;          /* [pieces][groups][outputs][channels, taps] */
    int poisoned;           /* a sum is not finite */
    ptrdiff_t *tap;
    char *slots;
} conv_lanes;

/* ---- the weight gradient, output channels in lanes ----
 *
 * The band again, read a cell at a time and broadcast; the gradient is transposed to [position][output channel] and rows of
 * the result are terms (channel, tap). Nothing is summed across lanes. For groups of at least half a vector of outputs. */
#if SIMD_AVX512 || defined(__aarch64__)
#define CONV_OUTER_VECTORS 4
#define CONV_OUTER_ROWS(nv) ((nv) > 2 ? 6 : 8)
#else
#define CONV_OUTER_VECTORS 2
#define CONV_OUTER_ROWS(nv) ((nv) > 1 ? GEMM_MR : 8)
#endif
#define CONV_SUM_TERMS 32 /* terms whose pieces are added, and then transposed, at a time */
#define CONV_OUTER_BLOCK 32768 /* bytes of the gradient that stay in the first-level cache */

typedef struct {
    conv_call call; /* call.w is the output's gradient, call.out the weight's */
    conv_band band;
    int in_place;   /* the input is its own band */
    ptrdiff_t vectors, panels, width; /* outputs of a panel: vectors of them, and how many */
    ptrdiff_t positions;              /* of the largest region */
    ptrdiff_t splits, regions, pieces;
    ptrdiff_t units, next, workers;
    size_t scratch_bytes, slot_bytes;
    void *partial; /* [pieces][groups][panels][channels, taps][width] */
    int poisoned;  /* a sum is not finite */
    ptrdiff_t *tap;
    char *slots;
} conv_outer;

#define CONV_LANES_SUMS 262144   /* bytes of the vectors of partial sums of a unit, which stay in the second-level cache */
#define CONV_PARTIAL 4194304     /* bytes of all pieces together */

INLINE ptrdiff_t conv_lanes_outputs(const conv_lanes *d) { return conv_ceil(d->call.job->outputs, d->splits); }

INLINE void conv_plan_lanes(const conv_call *call, ptrdiff_t threads, conv_lanes *d)
{
    const conv_job *j = call->job;
    const ptrdiff_t size = call->f64 ? 8 : 4, lanes = SIMD_BYTES / size, terms = j->channels * conv_taps(j);
    d->call = *call;
    conv_plan_band(j, CONV_BAND_BYTES / size, PTRDIFF_MAX, lanes, &d->band);
    const conv_band *b = &d->band;
    d->grad_plane = conv_ceil((b->rows - 1) * b->row + b->cols, lanes) * lanes;
    const ptrdiff_t most = conv_max(CONV_LANES_M, CONV_LANES_SUMS / (conv_max(terms, 1) * SIMD_BYTES));
    d->splits = conv_ceil(j->outputs, most);
    d->splits = conv_ceil(j->outputs, conv_ceil(j->outputs, d->splits));
    d->regions = j->batch * j->out[0] * b->regions_y * b->regions_x;
    d->pieces = conv_min(conv_ceil(32, j->groups * d->splits), CONV_PARTIAL / (j->groups * j->outputs * terms * size));
    d->pieces = conv_max(1, conv_min(d->pieces, d->regions));
    d->units = d->pieces * j->groups * d->splits;
    d->workers = conv_min(threads, d->units);
    d->next = 0, d->poisoned = 0;
    const size_t sums = (size_t)(conv_lanes_outputs(d) * terms) * SIMD_BYTES;
    d->slot_bytes = sums + conv_round64((size_t)b->cells * (size_t)size) + conv_round64((size_t)(conv_lanes_outputs(d) * d->grad_plane * size));
    d->scratch_bytes = conv_round64((size_t)(d->pieces * j->groups * j->outputs * terms * size)) +
                       conv_round64((size_t)conv_taps(j) * sizeof(ptrdiff_t)) + d->slot_bytes * (size_t)d->workers;
}

INLINE void conv_lanes_scratch(conv_lanes *d, void *scratch)
{
    const conv_job *j = d->call.job;
    const size_t size = d->call.f64 ? 8 : 4;
    d->partial = scratch;
    d->tap = (ptrdiff_t *)((char *)scratch +
                           conv_round64((size_t)(d->pieces * j->groups * j->outputs * j->channels * conv_taps(j)) * size));
    d->slots = (char *)d->tap + conv_round64((size_t)conv_taps(j) * sizeof(ptrdiff_t));
    conv_tap_table(j, &d->band, d->tap);
}

/* ---- the gemm path ---- */
typedef struct {
    ptrdiff_t z, y, x;
} conv_shift;

typedef struct {
    conv_call call;
    ptrdiff_t group, image; /* that are being computed; image 0 for all */
    ptrdiff_t jobs;         /* one a group, or one a group and image: by_image */
    int by_image;
    conv_shift *shift;  /* of each tap, in input cells; taps in the order of the weights' memory */
    /* the operand that is plain memory (the weights, or the output's gradient): element k of output channel m is at
     * w_start + m * (stride of m) + w_table[k / inner] + k % inner * w_step */
    ptrdiff_t w_start, w_step, inner, runs, *w_table;
    int of_weights, padded; /* the product is the weight gradient; windows overhang the input */
    int channels_last;      /* in both arrays: the product is transposed, its rows are positions or terms */
    ptrdiff_t ldc;          /* from one position to the next, channels last and dense */
    int dense;              /* the cells of a row of the result are evenly spaced (weight gradient: side by side) */
    int poisoned;           /* padded, and a weight is not finite (or became so) */
    size_t scratch_bytes;
} conv_product;

/* the addresses of a sequence of nested axes (length n, stride s >= 0, first axis outermost): those that are evenly spaced
 * are one run of `inner` cells `step` apart; returns the number of runs, whose starts go to `table` unless it is NULL */
INLINE ptrdiff_t conv_spaced(int axes, const ptrdiff_t *n, const ptrdiff_t *s, ptrdiff_t *inner, ptrdiff_t *step, ptrdiff_t *table)
{
    ptrdiff_t runs = 1;
    int a = axes - 1;
    *inner = *step = 1;
    for (; a >= 0; a--) {
        if (n[a] == 1)
            continue;
        if (*inner == 1)
            *step = s[a], *inner = n[a];
        else if (s[a] == *inner * *step)
            *inner *= n[a];
        else
            break;
    }
    for (int i = 0; i <= a; i++)
        runs *= n[i];
    for (ptrdiff_t r = 0; table && r < runs; r++) {
        ptrdiff_t rest = r;
        table[r] = 0;
        for (int i = a; i >= 0; i--) {
            table[r] += rest % n[i] * s[i];
            rest /= n[i];
        }
    }
    return runs;
}

/* terms of the sum: (channel, tap), or (tap, channel) for channels last; taps in the order of the weights' memory */
INLINE ptrdiff_t conv_weight_runs(const conv_job *j, conv_product *p, ptrdiff_t *table)
{
    const int first = p->channels_last ? 0 : 1;
    ptrdiff_t n[4], s[4];
    n[p->channels_last ? 3 : 0] = j->channels, s[p->channels_last ? 3 : 0] = j->w_channel;
    p->w_start = 0;
    for (int a = 0; a < 3; a++) {
        const ptrdiff_t step = j->w_axis[a];
        n[first + a] = j->kernel[a], s[first + a] = step < 0 ? -step : step;
        if (step < 0)
            p->w_start += (j->kernel[a] - 1) * step;
    }
    return conv_spaced(4, n, s, &p->inner, &p->w_step, table);
}
INLINE ptrdiff_t conv_grad_runs(const conv_job *j, conv_product *p, ptrdiff_t *table)
{
    const ptrdiff_t n[4] = {j->batch, j->out[0], j->out[1], j->out[2]};
    const ptrdiff_t s[4] = {j->out_batch, j->out_axis[0], j->out_axis[1], j->out_axis[2]};
    p->w_start = 0;
    return conv_spaced(4, n, s, &p->inner, &p->w_step, table);
}

/* whether the axes of an array, the last one `step` apart, are those of a dense block */
INLINE int conv_dense(const ptrdiff_t n[3], const ptrdiff_t s[3], ptrdiff_t step)
{
    for (int a = 2; a >= 0; a--) {
        if (n[a] != 1 && s[a] != step)
            return 0;
        step *= n[a];
    }
    return 1;
}

INLINE void conv_plan_product(const conv_call *call, int of_weights, conv_product *p)
{
    const conv_job *j = call->job;
    p->call = *call;
    p->of_weights = of_weights;
    p->padded = conv_padded(j);
    p->channels_last = j->in_channel == 1 && j->out_channel == 1;
    if (of_weights)
        p->channels_last &= j->w_output == 1 && conv_dense(j->kernel, j->w_axis, j->channels * j->w_channel);
    const ptrdiff_t positions = conv_positions(j);
    if (of_weights && p->channels_last)
        p->dense = 1;
    else if (of_weights)
        p->dense = conv_dense(j->kernel, j->w_axis, 1) && j->w_channel == conv_taps(j);
    else if (p->channels_last) {
        /* rows of the result are all positions of all images */
        p->ldc = positions == 1 ? j->out_batch : j->out[2] > 1 ? j->out_axis[2] : j->out[1] > 1 ? j->out_axis[1] : j->out_axis[0];
        p->dense = conv_dense(j->out, j->out_axis, p->ldc) && (j->batch == 1 || j->out_batch == positions * p->ldc);
    } else
        p->dense = conv_dense(j->out, j->out_axis, j->out_axis[2]);
    /* a large image is a matrix of its own, which needs no store callback */
    p->by_image = !of_weights && !p->channels_last && p->dense && j->out_axis[2] == 1 && positions >= 512;
    p->jobs = j->groups * (p->by_image ? j->batch : 1);
    p->image = 0;
    p->poisoned = 0;
    p->w_table = NULL;
    p->runs = of_weights ? conv_grad_runs(j, p, NULL) : conv_weight_runs(j, p, NULL);
    p->scratch_bytes = (size_t)conv_taps(j) * sizeof(conv_shift) + (p->runs > 1 ? (size_t)p->runs * sizeof(ptrdiff_t) : 0);
}

INLINE void conv_product_scratch(conv_product *p, void *scratch)
{
    const conv_job *j = p->call.job;
    p->shift = (conv_shift *)scratch;
    conv_shift *s = p->shift;
    for (ptrdiff_t z = 0; z < j->kernel[0]; z++)
        for (ptrdiff_t y = 0; y < j->kernel[1]; y++)
            for (ptrdiff_t x = 0; x < j->kernel[2]; x++, s++) {
                s->z = (j->w_axis[0] < 0 ? j->kernel[0] - 1 - z : z) * j->dil[0];
                s->y = (j->w_axis[1] < 0 ? j->kernel[1] - 1 - y : y) * j->dil[1];
                s->x = (j->w_axis[2] < 0 ? j->kernel[2] - 1 - x : x) * j->dil[2];
            }
    if (p->runs > 1) {
        p->w_table = (ptrdiff_t *)s;
        if (p->of_weights)
            conv_grad_runs(j, p, p->w_table);
        else
            conv_weight_runs(j, p, p->w_table);
    }
}

INLINE ptrdiff_t conv_outer_sums(const conv_outer *d)
{
    return d->call.job->groups * d->panels * conv_ceil(d->call.job->channels * conv_taps(d->call.job), CONV_SUM_TERMS);
}
INLINE ptrdiff_t conv_outer_channels(const conv_outer *d) { return conv_ceil(d->call.job->channels, d->splits); }

INLINE void conv_plan_outer(const conv_call *call, ptrdiff_t threads, conv_outer *d)
{
    const conv_job *j = call->job;
    const ptrdiff_t size = call->f64 ? 8 : 4, lanes = SIMD_BYTES / size, taps = conv_taps(j);
    d->call = *call;
    const ptrdiff_t vectors = conv_ceil(j->outputs, lanes);
    d->panels = conv_ceil(vectors, CONV_OUTER_VECTORS);
    d->vectors = conv_ceil(vectors, d->panels);
    d->width = d->vectors * lanes;
    const ptrdiff_t outputs = d->panels * d->width;
    conv_plan_band(j, CONV_BAND_BYTES / size, conv_max(64, CONV_BAND_BYTES / (outputs * size)), lanes, &d->band);
    const conv_band *b = &d->band;
    d->in_place = conv_in_place(j);
    d->positions = b->rows * b->cols;
    d->regions = j->batch * j->out[0] * b->regions_y * b->regions_x;
    const ptrdiff_t bytes = conv_max(1, j->groups * outputs * j->channels * taps * size);
    d->pieces = conv_max(1, conv_min(d->regions, conv_min(conv_ceil(32, j->groups), CONV_PARTIAL / bytes)));
    /* units of a piece transpose the same gradient, each for some of the channels */
    d->splits = conv_max(1, conv_min(j->channels * taps / 256, 16 / (j->groups * d->pieces)));
    d->splits = conv_ceil(j->channels, conv_ceil(j->channels, d->splits));
    d->units = d->pieces * j->groups * d->splits;
    d->workers = conv_min(threads, d->units);
    d->next = 0, d->poisoned = 0;
    d->slot_bytes = conv_round64((size_t)(b->cells * size)) + (size_t)(d->positions * outputs * size);
    d->scratch_bytes = conv_round64((size_t)(d->pieces * bytes)) + conv_round64((size_t)taps * sizeof(ptrdiff_t)) + d->slot_bytes * (size_t)d->workers;
}

INLINE void conv_outer_scratch(conv_outer *d, void *scratch)
{
    const conv_job *j = d->call.job;
    d->partial = scratch;
    d->tap = (ptrdiff_t *)((char *)scratch + conv_round64((size_t)(d->pieces * j->groups * d->panels * d->width * j->channels * conv_taps(j)) *
                                                          (d->call.f64 ? 8 : 4)));
    d->slots = (char *)d->tap + conv_round64((size_t)conv_taps(j) * sizeof(ptrdiff_t));
    conv_tap_table(j, &d->band, d->tap);
}

/* ---- the bias gradient: sums over [outer][channels][inner], in double ---- */
#define CONV_BIAS_RUN 16384 /* elements summed at once */
#define CONV_BIAS_PIECES 32

typedef struct {
    int f64;
    const void *grad;
    void *out;
    ptrdiff_t outer, channels, inner;
    ptrdiff_t runs, items, pieces; /* runs of a channel in one outer index; items are what pieces are made of */
    size_t scratch_bytes;
    double *partial; /* [pieces][channels] */
} conv_bias;

INLINE void conv_plan_bias(conv_bias *d)
{
    d->runs = conv_ceil(d->inner, CONV_BIAS_RUN);
    d->items = d->outer * d->runs;
    d->pieces = conv_max(1, conv_min(d->items, conv_min(CONV_BIAS_PIECES, CONV_PARTIAL / 8 / conv_max(1, d->channels))));
    d->scratch_bytes = (size_t)(d->pieces * d->channels) * sizeof(double);
}

/* ---- depthwise, channels last ---- */
#define CONV_DEPTHWISE_TAPS 128 /* the lists of them are on the stack */
#define CONV_DEPTHWISE_PIECES 32

typedef struct {
    conv_call call;
    ptrdiff_t rows, pieces; /* output rows of all images, and the pieces that the weight gradient sums them in */
    size_t scratch_bytes;
    double *partial;        /* [pieces][taps][groups] */
} conv_depthwise;

INLINE int conv_is_depthwise(const conv_job *j)
{
    return j->groups > 1 && j->outputs == 1 && j->channels == 1 && j->in_group == 1 && j->out_group == 1 && j->w_group == 1 &&
           conv_taps(j) <= CONV_DEPTHWISE_TAPS;
}

INLINE void conv_plan_depthwise(const conv_call *call, conv_depthwise *d)
{
    const conv_job *j = call->job;
    d->call = *call;
    d->rows = j->batch * j->out[0] * j->out[1];
    const ptrdiff_t bytes = conv_taps(j) * j->groups * 8;
    d->pieces = conv_max(1, conv_min(d->rows, conv_min(CONV_DEPTHWISE_PIECES, CONV_PARTIAL / bytes)));
    d->scratch_bytes = (size_t)(d->pieces * bytes);
}

/* ---- some of the groups of a call, as a call of its own (whose job is *j); of_weights: call->w is the output's gradient ---- */
INLINE void *conv_move(const void *p, ptrdiff_t elements, int f64)
{
    return p ? (char *)p + elements * (f64 ? 8 : 4) : NULL;
}
INLINE conv_call conv_some_groups(const conv_call *call, int of_weights, ptrdiff_t first, ptrdiff_t count, conv_job *j)
{
    conv_call c = *call;
    *j = *call->job;
    j->groups = conv_min(count, j->groups - first);
    c.job = j;
    c.in = conv_move(c.in, first * j->in_group, c.f64);
    c.w = conv_move(c.w, first * (of_weights ? j->out_group : j->w_group), c.f64);
    c.out = conv_move(c.out, first * (of_weights ? j->w_group : j->out_group), c.f64);
    c.bias = conv_move(c.bias, first * j->outputs, c.f64);
    return c;
}

/* ---- which path; by shape only ---- */
enum { CONV_DIRECT, CONV_PRODUCT, CONV_LANES, CONV_OUTER, CONV_DEPTHWISE };
#define CONV_SCRATCH 4194304 /* bytes: the most for a band, or for the weights of all groups of a call */

/* groups that are run in one go: their weights, packed or as sums, fit CONV_SCRATCH */
INLINE ptrdiff_t conv_groups_at_once(const conv_job *j, int path, ptrdiff_t size)
{
    if (path == CONV_PRODUCT)
        return j->groups;
    const ptrdiff_t bytes = conv_max(1, j->outputs * j->channels * conv_taps(j) * size);
    return conv_max(1, conv_min(j->groups, CONV_SCRATCH / bytes));
}

INLINE int conv_band_fits(const conv_job *j, ptrdiff_t size)
{
    conv_band band;
    for (int a = 1; a < 3; a++)
        if ((j->kernel[a] - 1) * j->dil[a] / j->step[a] > CONV_SCRATCH)
            return 0;
    conv_plan_band(j, CONV_BAND_BYTES / size, PTRDIFF_MAX, SIMD_BYTES / size, &band);
    return band.cells <= CONV_SCRATCH / size;
}

INLINE int conv_forward_path(const conv_job *j, ptrdiff_t size)
{
    const ptrdiff_t terms = j->channels * conv_taps(j);
    if (conv_is_depthwise(j))
        return CONV_DEPTHWISE;
    /* the band does without patches, but its tiles end in gaps, and stream all weights for each region */
    if (j->outputs * terms * size > 524288 || !conv_band_fits(j, size))
        return CONV_PRODUCT;
    /* one tap: the copy would serve a single use */
    if (conv_taps(j) == 1 && j->channels > 64 && !conv_in_place(j))
        return CONV_PRODUCT;
    /* channels last are transposed into the band and out of it, which few taps do not pay for */
    if (j->in_channel == 1 && j->groups == 1 && (conv_taps(j) < 4 && j->channels >= 16))
        return CONV_PRODUCT;
    return CONV_DIRECT;
}

INLINE int conv_weight_path(const conv_job *j, ptrdiff_t size)
{
    const ptrdiff_t terms = j->channels * conv_taps(j), lanes = SIMD_BYTES / size;
    if (conv_is_depthwise(j))
        return CONV_DEPTHWISE;
    if (j->outputs * terms * size > CONV_SCRATCH || terms * SIMD_BYTES > CONV_SCRATCH || !conv_band_fits(j, size))
        return CONV_PRODUCT;
    if (j->outputs < lanes / 2)
        return CONV_LANES;
    /* the sums of a region are read and written again for the next; where regions are small, or sums many, this is what
     * takes the time, and for many outputs it is cheap to pack patches */
    if (j->outputs * terms * size > 1048576 || (j->outputs >= 64 && conv_positions(j) <= 64))
        return CONV_PRODUCT;
    if (conv_taps(j) == 1 && (j->outputs > 64 || j->channels > 128))
        return CONV_PRODUCT;
    return CONV_OUTER;
}

#define REAL_BODY "conv_real.h"
#include "for_each_real.h"
#define REAL_BODY "conv_depthwise_real.h"
#include "for_each_real.h"
#define REAL_BODY "conv_gemm_real.h"
#include "for_each_real.h"
#define REAL_BODY "conv_weight_real.h"
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
CONV_TASK(conv_lanes_slot, conv_lanes, call.f64)
CONV_TASK(conv_lanes_sum, conv_lanes, call.f64)
CONV_TASK(conv_outer_slot, conv_outer, call.f64)
CONV_TASK(conv_outer_sum, conv_outer, call.f64)
CONV_TASK(conv_depthwise_row, conv_depthwise, call.f64)
CONV_TASK(conv_depthwise_piece, conv_depthwise, call.f64)
CONV_TASK(conv_depthwise_sum, conv_depthwise, call.f64)
CONV_TASK(conv_bias_piece, conv_bias, f64)
CONV_TASK(conv_bias_sum, conv_bias, f64)
#endif
