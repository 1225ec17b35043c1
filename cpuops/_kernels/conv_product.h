/* conv_product.h: convolution as a product of gemm.h, whose packers take the patches from the input. See conv.h.
 *
 * Channels first: out [outputs, positions of all images] = weights [outputs, terms] x patches [terms, positions], terms
 *     (channel, tap). A large image is a product of its own, and goes straight to its place. Weight gradient [outputs, terms] =
 *     output's gradient [outputs, positions] x patches [positions, terms].
 * Channels last: out [positions, outputs] = patches [positions, terms] x weights [terms, outputs], terms (tap, channel). Weight
 *     gradient [terms, outputs] = patches [terms, positions] x output's gradient [positions, outputs].
 * Taps are in the order of the weights' memory, so that flipped weights are read forwards.
 */
#ifndef CPUOPS_CONV_PRODUCT_H
#define CPUOPS_CONV_PRODUCT_H
#include "conv_band.h"
#include "conv_finish.h"
#include "gemm.h"

#define CONV_PATCH_BLOCK 64  /* terms or positions that are gathered before they are transposed: 8 KB on the stack */
#define CONV_LARGE_IMAGE 512 /* positions: from here on a row of tiles that ends with the image wastes little */

typedef struct {
    ptrdiff_t z, y, x;
} conv_shift;

typedef struct {
    conv_call call;
    int of_weights, channels_last;
    int padded;             /* windows overhang the input */
    int dense;              /* the result is (rows of) a matrix in memory, else cells are stored one by one */
    int by_image;           /* a job is a group of one image, not of all */
    ptrdiff_t jobs;
    ptrdiff_t group, image; /* that are being computed; image 0 for all */
    /* several jobs are cut into `parts` (at most `most`), the tasks of workers; one job (parts 0) is shared phase by phase */
    ptrdiff_t threads, most, parts, tasks, workers;
    ptrdiff_t phases, phase;
    void *running; /* the job whose phases these are: a conv_running */
    Tasks queue;   /* of the parts, or of the phase */
    ptrdiff_t ldc;          /* channels last and dense: from one position to the next */
    conv_shift *shift;      /* of each tap, in input cells */
    /* the operand that is plain memory (the weights, or the output's gradient): element k of output channel m is at
     * start + m * (stride of m) + table[k / inner] + k % inner * step */
    ptrdiff_t start, step, inner, runs, *table;
    int poisoned;           /* padded, and a weight is not finite (or became so) */
    size_t table_bytes, running_bytes, part_bytes, scratch_bytes;
    char *scratch; /* of the products */
} conv_product;

/* the addresses of nested axes (lengths n, strides s >= 0, outermost first): those that are evenly spaced are one run of
 * `inner` cells `step` apart. Returns the number of runs; their starts go to `table` unless it is NULL */
INLINE ptrdiff_t conv_spaced(const ptrdiff_t n[4], const ptrdiff_t s[4], ptrdiff_t *inner, ptrdiff_t *step, ptrdiff_t *table)
{
    ptrdiff_t runs = 1;
    int a = 3;
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
        for (int i = a; i >= 0; i--)
            table[r] += conv_split(&rest, n[i]) * s[i];
    }
    return runs;
}

/* the plain operand: the positions of the gradient, or the terms of the weights */
INLINE ptrdiff_t conv_product_runs(conv_product *p, ptrdiff_t *table)
{
    const conv_job *j = p->call.job;
    ptrdiff_t n[4] = {j->batch, j->out[0], j->out[1], j->out[2]};
    ptrdiff_t s[4] = {j->out_batch, j->out_axis[0], j->out_axis[1], j->out_axis[2]};
    p->start = 0;
    if (!p->of_weights) {
        const int first = p->channels_last ? 0 : 1, channel = p->channels_last ? 3 : 0;
        n[channel] = j->channels, s[channel] = j->w_channel;
        for (int a = 0; a < 3; a++) {
            const ptrdiff_t step = j->w_axis[a];
            n[first + a] = j->kernel[a], s[first + a] = step < 0 ? -step : step;
            if (step < 0)
                p->start += (j->kernel[a] - 1) * step;
        }
    }
    return conv_spaced(n, s, &p->inner, &p->step, table);
}

INLINE void conv_lay_product(const conv_call *call, int of_weights, conv_product *p)
{
    const conv_job *j = call->job;
    const ptrdiff_t positions = conv_positions(j);
    p->call = *call;
    p->of_weights = of_weights;
    p->padded = conv_padded(j);
    p->channels_last = j->in_channel == 1 && j->out_channel == 1;
    p->ldc = 0;
    if (of_weights) {
        p->channels_last &= j->w_output == 1 && conv_dense(j->kernel, j->w_axis, j->channels * j->w_channel);
        p->dense = p->channels_last || (conv_dense(j->kernel, j->w_axis, 1) && j->w_channel == conv_taps(j));
    } else if (p->channels_last) {
        p->ldc = positions == 1 ? j->out_batch : j->out_axis[j->out[2] > 1 ? 2 : j->out[1] > 1 ? 1 : 0];
        p->dense = conv_dense(j->out, j->out_axis, p->ldc) && (j->batch == 1 || j->out_batch == positions * p->ldc);
    } else
        p->dense = conv_dense(j->out, j->out_axis, j->out_axis[2]);
    p->by_image = !of_weights && !p->channels_last && p->dense && j->out_axis[2] == 1 && positions >= CONV_LARGE_IMAGE;
    p->jobs = j->groups * (p->by_image ? j->batch : 1);
    p->poisoned = 0;
    p->runs = conv_product_runs(p, NULL);
    p->table = p->runs > 1 ? &p->runs : NULL; /* there is one: plans ask for no more before it has its place */
    p->table_bytes = conv_round64(conv_taps(j) * (ptrdiff_t)sizeof(conv_shift) + (p->runs > 1 ? p->runs : 0) * (ptrdiff_t)sizeof(ptrdiff_t));
}

INLINE void conv_product_scratch(conv_product *p, void *scratch)
{
    const conv_job *j = p->call.job;
    conv_shift *s = p->shift = (conv_shift *)scratch;
    p->running = (char *)scratch + p->table_bytes;
    p->scratch = (char *)p->running + p->running_bytes;
    tasks_begin(&p->queue, p->tasks, p->workers);
    for (ptrdiff_t z = 0; z < j->kernel[0]; z++)
        for (ptrdiff_t y = 0; y < j->kernel[1]; y++)
            for (ptrdiff_t x = 0; x < j->kernel[2]; x++, s++) {
                s->z = (j->w_axis[0] < 0 ? j->kernel[0] - 1 - z : z) * j->dil[0];
                s->y = (j->w_axis[1] < 0 ? j->kernel[1] - 1 - y : y) * j->dil[1];
                s->x = (j->w_axis[2] < 0 ? j->kernel[2] - 1 - x : x) * j->dil[2];
            }
    if (p->runs > 1) {
        p->table = (ptrdiff_t *)s;
        conv_product_runs(p, p->table);
    }
}

#define REAL_BODY "conv_product_real.h"
#include "for_each_real.h"

INLINE void conv_plan_product(const conv_call *call, int of_weights, ptrdiff_t threads, conv_product *p)
{
    conv_lay_product(call, of_weights, p);
    (call->f64 ? conv_share_product_f64 : conv_share_product_f32)(p, threads);
}
INLINE void conv_product_begin(conv_product *p, ptrdiff_t i) { (p->call.f64 ? conv_product_begin_f64 : conv_product_begin_f32)(p, i); }
INLINE void conv_product_phase(conv_product *p, ptrdiff_t phase)
{
    (p->call.f64 ? conv_product_phase_f64 : conv_product_phase_f32)(p, phase);
}
#endif
