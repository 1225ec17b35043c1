/* conv_winograd_weight.h: the weight gradient of 3x3 correlations of stride 1 by minimal filtering. See conv_winograd.h.
 *
 * The transpose of the forward pass by its weights, with the same matrices and tiles:
 *
 *     w grad = G^T [ sum over tiles of (B^T cells B) . (A grad tile A^T) ] G,
 *
 * . being n^2 products of matrices, [channels, tiles] x [tiles, outputs]. A block of tiles is transformed and held, then multiplied
 * and added to sums, [n^2][channels][outputs]. Two plans keep within the scratch:
 *   one block       all tiles of some channels and outputs are held; the sums, of a few of these at a time, stay in the cache
 *   many blocks     the sums of some channels and outputs are held until all tiles have been added
 * Channels and outputs beyond those go through the tiles again. Threads share each step of this; or, where that is less work than
 * waiting for each other and fetching from each other's caches, each does all of it for some channels and outputs (apart).
 *
 * An element's sum is in the order of the tiles, block after block; the blocks depend on the shape only. Every product of a tile
 * reaches a weight, so that what is not finite shows in the result, as in the forward pass.
 */
#ifndef CPUOPS_CONV_WINOGRAD_WEIGHT_H
#define CPUOPS_CONV_WINOGRAD_WEIGHT_H
#include "conv_winograd.h"

#define CONV_WINOGRAD_HELD_BYTES 8000000  /* tiles and sums together, of all threads */
#define CONV_WINOGRAD_APART_BYTES 4000000 /* the same of each of several threads that compute apart */
#define CONV_WINOGRAD_SUM_BYTES 800000   /* one block: sums a thread */
/* many blocks: tiles and sums that stay in the second-level cache, if so many tiles do: sums are read and written for each block */
#define CONV_WINOGRAD_NEAR_BYTES 1600000
#define CONV_WINOGRAD_NEAR_TILES 32
#define CONV_WINOGRAD_LEAST_TILES 4 /* of all images: from here on the sums, which are more than the weights, pay */

typedef struct {
    conv_call call;
    conv_job grad;           /* the output's gradient as an input without padding */
    conv_tiles cells, grads; /* of the input and of the gradient; gradients lie [n2][panels][tiles][panel] */
    ptrdiff_t block, blocks; /* tiles that are held, and added without a pause */
    ptrdiff_t from[2], to[2]; /* channels and outputs whose weights are computed */
    ptrdiff_t apart[2];      /* parts of channels and of outputs, each computed by one thread; 0: threads share the steps */
    ptrdiff_t held[2];       /* channels and outputs of which they are held at most */
    ptrdiff_t rows, cols;    /* channels and outputs of the sums, at most */
    ptrdiff_t plane;         /* of the sums, [n2][rows][cols] */
    /* what is being computed */
    ptrdiff_t first, count;  /* tiles */
    ptrdiff_t c, nc, m, nm;  /* channels and outputs of which they are held */
    ptrdiff_t row, n_rows, col, n_cols; /* of these, those that are summed */
    ptrdiff_t parts;         /* tasks of a vector's transforms */
    ptrdiff_t splits;        /* tasks of a product of matrices */
    ptrdiff_t workers, tasks; /* tasks: of apart, or of the products */
    size_t scratch_bytes, cells_bytes, grads_bytes, worker_bytes;
    char *cell_memory, *grad_memory, *sums;
    int poisoned;
} conv_winograd_weight;

INLINE int conv_winograd_weight_fits(const conv_job *j, ptrdiff_t size)
{
    if (!conv_winograd_fits(j, size) || !(j->w_output == 1 || (j->w_channel == 9 && j->w_axis[1] == 3 && j->w_axis[2] == 1)))
        return 0;
    return conv_winograd_tiles(j, NULL).count >= CONV_WINOGRAD_LEAST_TILES;
}

/* ---- the order of the work: blocks, in channels and outputs that are held; sums of these ---- */

INLINE void conv_winograd_weight_sum_from(conv_winograd_weight *d, ptrdiff_t row, ptrdiff_t col)
{
    d->row = row, d->n_rows = conv_min(d->rows, d->nc - row);
    d->col = col, d->n_cols = conv_min(d->cols, d->nm - col);
}
INLINE void conv_winograd_weight_hold(conv_winograd_weight *d, ptrdiff_t c, ptrdiff_t m, ptrdiff_t first)
{
    d->c = c, d->nc = conv_min(d->held[0], d->to[0] - c);
    d->m = m, d->nm = conv_min(d->held[1], d->to[1] - m);
    d->first = first, d->count = conv_min(d->block, d->cells.count - first);
    conv_winograd_weight_sum_from(d, 0, 0);
}
INLINE int conv_winograd_weight_last(const conv_winograd_weight *d) { return d->first + d->count == d->cells.count; }
/* goes on to the next sums of what is held; whether there are any */
INLINE int conv_winograd_weight_next(conv_winograd_weight *d)
{
    if (d->col + d->n_cols < d->nm)
        conv_winograd_weight_sum_from(d, d->row, d->col + d->n_cols);
    else if (d->row + d->n_rows < d->nc)
        conv_winograd_weight_sum_from(d, d->row + d->n_rows, 0);
    else
        return 0;
    return 1;
}
/* goes on to what is held next; whether there is any */
INLINE int conv_winograd_weight_advance(conv_winograd_weight *d)
{
    if (!conv_winograd_weight_last(d))
        conv_winograd_weight_hold(d, d->c, d->m, d->first + d->count);
    else if (d->m + d->nm < d->to[1])
        conv_winograd_weight_hold(d, d->c, d->m + d->nm, 0);
    else if (d->c + d->nc < d->to[0])
        conv_winograd_weight_hold(d, d->c + d->nc, d->from[1], 0);
    else
        return 0;
    return 1;
}

/* ---- tasks; of one block, some vectors may be there already ---- */
INLINE ptrdiff_t conv_winograd_weight_lanes(const conv_winograd_weight *d) { return SIMD_BYTES / conv_size(&d->call); }
INLINE ptrdiff_t conv_winograd_weight_cells(const conv_winograd_weight *d)
{
    return d->blocks == 1 && d->m > d->from[1] ? 0 : conv_ceil(d->nc, conv_winograd_weight_lanes(d));
}
INLINE ptrdiff_t conv_winograd_weight_grads(const conv_winograd_weight *d)
{
    const int there = d->blocks == 1 && d->c > d->from[0] && d->nm == d->to[1] - d->from[1];
    return there ? 0 : conv_ceil(d->nm, conv_winograd_weight_lanes(d));
}
INLINE ptrdiff_t conv_winograd_weight_fills(const conv_winograd_weight *d)
{
    return (conv_winograd_weight_cells(d) + conv_winograd_weight_grads(d)) * d->parts;
}
INLINE ptrdiff_t conv_winograd_weight_products(const conv_winograd_weight *d) { return d->cells.n2 * d->splits; }
INLINE ptrdiff_t conv_winograd_weight_sums(const conv_winograd_weight *d)
{
    return conv_ceil(d->n_rows, conv_winograd_weight_lanes(d)) * conv_ceil(d->n_cols, conv_winograd_weight_lanes(d));
}

/* ---- the plan ---- */

/* n in `parts` equal parts of whole units: the length of one */
INLINE ptrdiff_t conv_winograd_weight_share(ptrdiff_t n, ptrdiff_t parts, ptrdiff_t unit)
{
    return conv_ceil(conv_ceil(n, unit), parts) * unit;
}
/* the same in as few parts as have a length of at most `most`, or of one unit */
INLINE ptrdiff_t conv_winograd_weight_part(ptrdiff_t n, ptrdiff_t most, ptrdiff_t unit)
{
    return conv_winograd_weight_share(n, conv_ceil(conv_ceil(n, unit), conv_max(1, most / unit)), unit);
}

/* what is held of so many channels and outputs, and the sums: with the fewest transforms done again. Any threads, for no sum
 * depends on it */
INLINE void conv_winograd_weight_cut(conv_winograd_weight *d, ptrdiff_t channels, ptrdiff_t outputs, ptrdiff_t threads)
{
    const ptrdiff_t size = conv_size(&d->call), wide = 2 * conv_winograd_weight_lanes(d), cell = d->cells.n2 * size;
    const ptrdiff_t most = (d->apart[0] ? CONV_WINOGRAD_APART_BYTES : CONV_WINOGRAD_HELD_BYTES) / cell, units = conv_ceil(channels, wide);
    /* one block: elements of the sums; many: none, they come with the rows */
    const ptrdiff_t sums = d->blocks > 1 ? 0 : conv_min(most / 3, threads * CONV_WINOGRAD_SUM_BYTES / cell);
    ptrdiff_t best = PTRDIFF_MAX;
    for (ptrdiff_t parts = 1; parts <= units; parts++) {
        const ptrdiff_t rows = conv_ceil(units, parts) * wide, a_col = d->block + (d->blocks > 1 ? rows : 0);
        const ptrdiff_t room = most - sums - (rows + 64 / size) * d->block;
        const ptrdiff_t cols = conv_winograd_weight_part(outputs, room / a_col, wide), passes = conv_ceil(outputs, cols);
        if (cols * a_col > room)
            continue;
        const ptrdiff_t of_cells = d->blocks > 1 ? passes : 1, of_grads = d->blocks == 1 && passes == 1 ? 1 : parts;
        const ptrdiff_t work = of_cells * channels + of_grads * outputs;
        if (work < best)
            best = work, d->held[0] = rows, d->held[1] = cols;
    }
    d->rows = d->held[0], d->cols = d->held[1];
    if (d->blocks == 1) {
        d->cols = conv_winograd_weight_part(d->held[1], 2 * wide, wide);
        d->rows = conv_winograd_weight_part(d->held[0], sums / d->cols, wide / 2);
    }
}

/* cycles for a part of the channels and outputs: two vectors of multiply-adds each, and the transforms */
INLINE double conv_winograd_weight_work(const conv_winograd_weight *d, ptrdiff_t channels, ptrdiff_t outputs)
{
    const double lanes = (double)conv_winograd_weight_lanes(d), rows = (double)channels, cols = (double)outputs;
    return (double)d->cells.count * ((double)d->cells.n2 * rows * cols / 2 + CONV_WINOGRAD_TRANSFORM * (rows + cols)) / lanes;
}

/* whether threads compute parts of the channels and outputs by themselves, and which; the shared plan is there */
INLINE int conv_winograd_weight_apart(conv_winograd_weight *d, ptrdiff_t threads)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t wide = 2 * conv_winograd_weight_lanes(d);
    const ptrdiff_t steps = 2 * (d->blocks > 1 ? d->blocks : conv_ceil(j->channels, d->rows) * conv_ceil(j->outputs, d->cols));
    double least = conv_winograd_weight_work(d, j->channels, j->outputs) / (double)threads + CONV_WINOGRAD_STEP * (double)steps;
    for (ptrdiff_t a = 1; a <= conv_min(threads, conv_ceil(j->channels, wide)); a++) {
        const ptrdiff_t b = conv_min(threads / a, conv_ceil(j->outputs, wide));
        const double work = conv_winograd_weight_work(d, conv_winograd_weight_share(j->channels, a, wide),
                                                      conv_winograd_weight_share(j->outputs, b, wide));
        if (work < least && !uneven(a * b, threads))
            least = work, d->apart[0] = a, d->apart[1] = b;
    }
    return d->apart[0] > 0;
}

INLINE void conv_plan_winograd_weight(const conv_call *call, ptrdiff_t threads, conv_winograd_weight *d)
{
    const conv_job *j = call->job;
    const ptrdiff_t size = conv_size(call), lanes = SIMD_BYTES / size;
    d->call = *call;
    d->grad = *j;
    d->grad.channels = j->outputs, d->grad.in_batch = j->out_batch, d->grad.in_channel = j->out_channel;
    for (int a = 0; a < 3; a++)
        d->grad.in[a] = j->out[a], d->grad.in_axis[a] = j->out_axis[a], d->grad.off[a] = 0;
    d->cells = conv_winograd_tiles(j, call->in), d->grads = conv_winograd_tiles(&d->grad, call->w);

    const ptrdiff_t n2 = d->cells.n2, near = CONV_WINOGRAD_NEAR_BYTES / (n2 * size) - j->channels * j->outputs;
    d->block = near / (j->channels + j->outputs);
    d->block = d->block < CONV_WINOGRAD_NEAR_TILES ? CONV_WINOGRAD_TILES : conv_min(d->block, CONV_WINOGRAD_TILES);
    d->blocks = conv_ceil(d->cells.count, d->block);
    d->block = conv_ceil(d->cells.count, d->blocks);
    d->from[0] = d->from[1] = d->apart[0] = d->apart[1] = 0, d->to[0] = j->channels, d->to[1] = j->outputs;
    conv_winograd_weight_cut(d, j->channels, j->outputs, threads);
    if (threads > 1 && conv_winograd_weight_apart(d, threads)) {
        const ptrdiff_t channels = conv_winograd_weight_share(j->channels, d->apart[0], 2 * lanes);
        const ptrdiff_t outputs = conv_winograd_weight_share(j->outputs, d->apart[1], 2 * lanes);
        d->apart[0] = conv_ceil(j->channels, channels), d->apart[1] = conv_ceil(j->outputs, outputs);
        d->to[0] = channels, d->to[1] = outputs; /* of the first part */
        threads = 1;
        conv_winograd_weight_cut(d, channels, outputs, threads);
    }
    d->cells.row = conv_winograd_plane(d->held[0], size); /* rows of a tile of gemm.h fall on different sets, too */
    d->grads.row = 2 * lanes;
    d->cells.plane = conv_winograd_plane(d->block * d->cells.row, size);
    d->grads.plane = conv_winograd_plane(d->block * d->held[1], size);
    d->plane = conv_winograd_plane(d->rows * d->cols, size);
    d->cells_bytes = conv_round64(n2 * d->cells.plane * size);
    d->grads_bytes = conv_round64(n2 * d->grads.plane * size);
    d->worker_bytes = d->cells_bytes + d->grads_bytes + conv_round64(n2 * d->plane * size);
    d->parts = threads == 1 ? 1 : conv_min(d->block, conv_ceil(4 * threads, (d->held[0] + d->held[1]) / lanes));
    d->splits = threads == 1 ? 1 : conv_min(conv_ceil(d->rows, GEMM_MR), conv_ceil(4 * threads, n2));
    d->splits = even_parts(n2, d->splits, d->rows / CONV_WINOGRAD_PART, threads);
    d->tasks = d->apart[0] ? d->apart[0] * d->apart[1] : conv_winograd_weight_products(d);
    d->workers = d->apart[0] ? d->tasks : conv_min(threads, d->tasks);
    d->scratch_bytes = d->worker_bytes * (size_t)(d->apart[0] ? d->workers : 1);
    d->poisoned = 0;
    conv_winograd_weight_hold(d, 0, 0, 0);
}

INLINE void conv_winograd_weight_scratch(conv_winograd_weight *d, void *scratch)
{
    d->cell_memory = (char *)scratch;
    d->grad_memory = d->cell_memory + d->cells_bytes;
    d->sums = d->grad_memory + d->grads_bytes;
}

#define REAL_BODY "conv_winograd_weight_real.h"
#include "for_each_real.h"
#endif
