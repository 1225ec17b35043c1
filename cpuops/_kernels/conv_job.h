/* conv_job.h: what is to be computed. See conv.h. */
#ifndef CPUOPS_CONV_JOB_H
#define CPUOPS_CONV_JOB_H
#include "simd.h"

typedef struct {
    ptrdiff_t batch, groups, outputs, channels; /* outputs and channels of one group */
    ptrdiff_t in[3], out[3], kernel[3];         /* lengths: depth, height, width */
    ptrdiff_t step[3], dil[3], off[3];
    ptrdiff_t in_batch, in_group, in_channel, in_axis[3]; /* strides in elements */
    ptrdiff_t out_batch, out_group, out_channel, out_axis[3];
    ptrdiff_t w_group, w_output, w_channel, w_axis[3];
} conv_job;

/* a job and its arrays: float, or double when f64. For the weight gradient w is the gradient of the output, laid out as the
 * job's out, and out is the result, laid out as the job's w */
typedef struct {
    const conv_job *job;
    int f64;
    const void *in, *w, *bias; /* bias: one value an output channel, or NULL */
    void *out;
    int activation;            /* ACTIVATION_...: out's values, activated, go where out is, or `apart` elements from there */
    ptrdiff_t apart;
} conv_call;

/* ---- arithmetic ---- */
INLINE ptrdiff_t conv_min(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t conv_max(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
INLINE ptrdiff_t conv_ceil(ptrdiff_t a, ptrdiff_t b) { return (a + b - 1) / b; } /* a >= 0 */
INLINE size_t conv_round64(ptrdiff_t bytes) { return ((size_t)bytes + 63) / 64 * 64; }
/* the next unit for a worker, or a negative number where there are none left */
INLINE ptrdiff_t conv_take(ptrdiff_t *next, ptrdiff_t units)
{
    const ptrdiff_t unit = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
    return unit < units ? unit : -1;
}

INLINE ptrdiff_t conv_size(const conv_call *call) { return call->f64 ? 8 : 4; }
INLINE ptrdiff_t conv_gcd(ptrdiff_t a, ptrdiff_t b)
{
    while (b) {
        ptrdiff_t r = a % b;
        a = b, b = r;
    }
    return a;
}
/* where part i of `parts` equal parts of n begins */
INLINE ptrdiff_t conv_part(ptrdiff_t n, ptrdiff_t parts, ptrdiff_t i) { return parts == 1 ? i * n : i * n / parts; }
/* takes the fastest of nested counters, of n values, off a flat one */
INLINE ptrdiff_t conv_split(ptrdiff_t *flat, ptrdiff_t n)
{
    if (n == 1) /* most of them, and a division takes as long as a row of a small image */
        return 0;
    const ptrdiff_t i = *flat % n;
    *flat /= n;
    return i;
}

INLINE ptrdiff_t conv_taps(const conv_job *j) { return j->kernel[0] * j->kernel[1] * j->kernel[2]; }
INLINE ptrdiff_t conv_terms(const conv_job *j) { return j->channels * conv_taps(j); }
INLINE ptrdiff_t conv_positions(const conv_job *j) { return j->out[0] * j->out[1] * j->out[2]; }

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

/* the positions first..last (last < first: none) whose cell start + o*step lies in 0..length-1 */
INLINE void conv_inside(ptrdiff_t start, ptrdiff_t step, ptrdiff_t length, ptrdiff_t count, ptrdiff_t *first, ptrdiff_t *last)
{
    const ptrdiff_t before = start < 0 ? -start : 0, room = length - 1 - start;
    *first = step == 1 || before <= 1 ? before : (before - 1) / step + 1;
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

/* ---- the forward job, from the numbers that ops/conv_geometry.py checked: x and out C-contiguous in either layout ---- */
INLINE void conv_forward_job(conv_job *j, const ptrdiff_t *numbers)
{
    j->batch = numbers[0], j->groups = numbers[1], j->outputs = numbers[2], j->channels = numbers[3];
    const ptrdiff_t channels_last = numbers[4], *size = numbers + 5, *kernel = size + 3, *output = kernel + 3;
    const ptrdiff_t *stride = output + 3, *dilation = stride + 3, *before = dilation + 3;
    const ptrdiff_t channels = j->channels, cin = j->groups * channels, cout = j->groups * j->outputs;
    ptrdiff_t in = channels_last ? cin : 1, out = channels_last ? cout : 1, w = channels_last ? channels * cout : 1;
    for (int a = 2; a >= 0; a--) {
        j->in[a] = size[a], j->kernel[a] = kernel[a], j->out[a] = output[a];
        j->step[a] = stride[a], j->dil[a] = dilation[a], j->off[a] = -before[a];
        j->in_axis[a] = in, j->out_axis[a] = out, j->w_axis[a] = w;
        in *= size[a], out *= output[a], w *= kernel[a];
    }
    j->in_channel = channels_last ? 1 : in, j->out_channel = channels_last ? 1 : out;
    j->in_group = channels * j->in_channel, j->out_group = j->outputs * j->out_channel;
    j->in_batch = channels_last ? in : in * cin, j->out_batch = channels_last ? out : out * cout;
    j->w_channel = channels_last ? cout : w;
    j->w_output = channels_last ? 1 : channels * w;
    j->w_group = j->outputs * j->w_output;
}

/* ---- the gradient to the input: one job a phase ----
 *
 * x_grad[h] = sum of w[t] * g[o] over o*s + t*d + off = h. With p = gcd(s, d), the cells h with (h - off) mod s = r are
 * reached by the taps t with t*d = r (mod s): none unless p divides r, else t = t0 + n*(s/p). Stepping h by s moves o by 1,
 * stepping n moves o by -d/p: a stride-1 correlation of g with every (s/p)-th tap, in reverse. */

/* the classes of taps t0, t0 + s/p, ... of an axis; t0 counts them */
INLINE ptrdiff_t conv_phases(const conv_job *j, int a)
{
    return conv_min(j->kernel[a], j->step[a] / conv_gcd(j->step[a], j->dil[a]));
}
/* first cell that the taps of class t0 reach */
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

/* the job of phase t0[3] of the forward job f, from g (laid out as f's out) to x_grad (as f's in); its arrays are g,
 * w + *w_start and x_grad + *x_start. Returns 0 when the phase has no cell */
INLINE int conv_phase(const conv_job *f, const ptrdiff_t t0[3], conv_job *j, ptrdiff_t *w_start, ptrdiff_t *x_start)
{
    *w_start = *x_start = 0;
    j->batch = f->batch, j->groups = f->groups, j->outputs = f->channels, j->channels = f->outputs;
    j->in_batch = f->out_batch, j->in_group = f->out_group, j->in_channel = f->out_channel;
    j->out_batch = f->in_batch, j->out_group = f->in_group, j->out_channel = f->in_channel;
    j->w_group = f->w_group, j->w_output = f->w_channel, j->w_channel = f->w_output;
    for (int a = 0; a < 3; a++) {
        const ptrdiff_t s = f->step[a], d = f->dil[a], p = conv_gcd(s, d), hop = s / p;
        const ptrdiff_t n = (f->kernel[a] - 1 - t0[a]) / hop + 1, h0 = conv_phase_start(f, a, t0[a]);
        if (h0 >= f->in[a])
            return 0;
        j->in[a] = f->out[a], j->kernel[a] = n, j->out[a] = (f->in[a] - 1 - h0) / s + 1;
        j->step[a] = 1, j->dil[a] = d / p;
        /* h0 - off - t0*d is a multiple of s */
        j->off[a] = (h0 - f->off[a] - t0[a] * d) / s - (n - 1) * (d / p);
        j->in_axis[a] = f->out_axis[a], j->out_axis[a] = f->in_axis[a] * s;
        j->w_axis[a] = -f->w_axis[a] * hop;
        *w_start += (t0[a] + (n - 1) * hop) * f->w_axis[a];
        *x_start += h0 * f->in_axis[a];
    }
    return 1;
}

/* ---- a simpler job that is the same ---- */
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
/* axes of one position to the front; neighbours without kernel that are contiguous in both arrays become one: the last axis,
 * along which the vectors lie, is as long as it can be */
INLINE void conv_simplify(conv_job *j)
{
    int last = 2;
    for (int a = 2; a >= 0; a--) {
        if (j->kernel[a] == 1)
            j->dil[a] = 1;
        if (j->out[a] == 1)
            j->step[a] = 1;
        if (j->out[a] == 1 && j->kernel[a] == 1 && j->off[a] == 0 && j->in[a] > 0)
            continue;
        if (last < 2 && conv_plain_axis(j, a) && conv_plain_axis(j, last + 1) &&
            j->in_axis[a] == j->in_axis[last + 1] * j->in[last + 1] && j->out_axis[a] == j->out_axis[last + 1] * j->out[last +
                                                                                                                        1]) {
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

/* ---- some of the groups of a call, as a call of its own, whose job is *j ---- */
INLINE void *conv_move(const void *p, ptrdiff_t elements, ptrdiff_t size) { return p ? (char *)p + elements * size : NULL; }
INLINE conv_call conv_some_groups(const conv_call *call, int of_weights, ptrdiff_t first, ptrdiff_t count, conv_job *j)
{
    conv_call c = *call;
    const ptrdiff_t size = conv_size(call);
    *j = *call->job;
    j->groups = conv_min(count, j->groups - first);
    c.job = j;
    c.in = conv_move(c.in, first * j->in_group, size);
    c.w = conv_move(c.w, first * (of_weights ? j->out_group : j->w_group), size);
    c.out = conv_move(c.out, first * (of_weights ? j->w_group : j->out_group), size);
    c.bias = conv_move(c.bias, first * j->outputs, size);
    return c;
}
#endif
