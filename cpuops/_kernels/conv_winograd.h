/* conv_winograd.h: 3x3 correlations of stride 1 by minimal filtering. See conv.h.
 *
 * F(m x m, 3 x 3), m = 2 or 4: a tile of m x m outputs from n x n cells, n = m + 2, with n^2 multiplications a channel and output
 * instead of 9 m^2 (Winograd 1980; Lavin and Gray 2016):
 *
 *     out tile = A^T [ (G w G^T) . (B^T cells B) ] A,    . being n^2 products of matrices: [tiles, channels] x [channels, outputs]
 *
 * Matrices by Toom and Cook from the points 0, +-1 and infinity (m = 2), 0, +-3/4, +-3/2 and infinity (m = 4). The usual 0, +-1,
 * +-2 would double the error (docs/numerics.md says what it is).
 *
 * Lanes are channels in the transform of the cells and outputs in those of weights and products; other layouts are transposed on
 * the way in and out. Bounds on scratch decide what is held:
 *   weights shared   transformed weights of all outputs; a unit is a block of tiles
 *   tiles shared     transformed cells of a block of tiles; a unit is a chunk of outputs, for all tiles of the block or a part of
 *                    them, and transforms their weights, of one chunk of the channels after the other
 * An element's sum is in the order of the channels, in chunks (CONV_WINOGRAD_DEPTH), whatever is shared and whoever computes it.
 * Cells over padding are 0, and every output of a tile mixes all its products: an output that is not finite, be it for a NaN in
 * an operand or for an overflow on the way, sends the whole call to another path (`poisoned`).
 */
#ifndef CPUOPS_CONV_WINOGRAD_H
#define CPUOPS_CONV_WINOGRAD_H
#include "blocks.h"
#include "conv_finish.h"
#include "gemm.h"
#include "transpose.h"

#ifndef CONV_WINOGRAD_UNIT_BYTES
#define CONV_WINOGRAD_UNIT_BYTES 1000000 /* transformed cells and products of a unit: they stay in the second-level cache */
#endif
#define CONV_WINOGRAD_SHARED_BYTES 4000000
#ifndef CONV_WINOGRAD_WEIGHT_BYTES
#define CONV_WINOGRAD_WEIGHT_BYTES 1200000 /* weights of a chunk of outputs: these too */
#endif
#define CONV_WINOGRAD_TILES 128            /* at most in a block */
#define CONV_WINOGRAD_PART 8               /* at least in a part of one */
#define CONV_WINOGRAD_DEPTH 128            /* channels of a sum that are added without a pause */
#define CONV_WINOGRAD_RUN 7                /* tiles side by side that are transformed together: 30 cells a row */
#define CONV_WINOGRAD_TRANSFORM 100        /* cycles of a vector's transform */
#define CONV_WINOGRAD_STEP 1.2e5           /* cycles of a step of work that threads share, at the end of which they wait */
#define CONV_WINOGRAD_LEAST 16             /* channels and outputs from which the transforms pay */

/* tiles of an array, and where their transforms lie: [n2][tiles][channels] */
typedef struct {
    const conv_job *job; /* the array is its input */
    const void *in;
    ptrdiff_t m, n2;        /* side of a tile of outputs; products a tile */
    ptrdiff_t down, across; /* tiles of an image */
    ptrdiff_t count;        /* of all images */
    ptrdiff_t row, plane;
} conv_tiles;

typedef struct {
    conv_call call;
    conv_tiles tiles;
    int share_weights;
    ptrdiff_t block, chunk;     /* tiles and outputs that are held at a time */
    ptrdiff_t panel;            /* outputs of a panel of weights */
    ptrdiff_t depth;            /* channels of transformed weights that are held at a time: all, or a chunk of the sum */
    ptrdiff_t plane_w;          /* of the weights, [n2][panels][depth][panel] */
    ptrdiff_t plane_out;        /* of the products, [n2][tiles][chunk] */
    ptrdiff_t first, parts;     /* tiles shared: the first of the block, and the parts of it */
    ptrdiff_t tasks;            /* that fill what is shared */
    int apart;                  /* every worker fills it for itself */
    ptrdiff_t units, next, workers;
    size_t scratch_bytes, shared_bytes, worker_bytes, own_bytes; /* own: of a worker's cells or weights, the products follow */
    char *shared, *memory;
    int poisoned;
} conv_winograd;

/* the products of all tiles, or as many as the direct sum has where there is nothing to gain */
INLINE ptrdiff_t conv_winograd_side(const conv_job *j)
{
    const ptrdiff_t four = conv_ceil(j->out[1], 4) * conv_ceil(j->out[2], 4) * 36;
    const ptrdiff_t two = conv_ceil(j->out[1], 2) * conv_ceil(j->out[2], 2) * 16;
    return two < four ? 2 : 4;
}

/* whether the job is one of these, and large enough to gain */
INLINE int conv_winograd_fits(const conv_job *j, ptrdiff_t size)
{
    if (j->groups != 1 || j->kernel[0] != 1 || j->out[0] != 1 || j->in[0] != 1 || j->kernel[1] != 3 || j->kernel[2] != 3)
        return 0;
    if (j->step[1] != 1 || j->step[2] != 1 || j->dil[1] != 1 || j->dil[2] != 1)
        return 0;
    if (!(j->in_channel == 1 || j->in_axis[2] == 1) || !(j->out_channel == 1 || j->out_axis[2] == 1))
        return 0;
    if (j->channels < CONV_WINOGRAD_LEAST || j->outputs < CONV_WINOGRAD_LEAST)
        return 0;
    const ptrdiff_t m = conv_winograd_side(j), products = conv_ceil(j->out[1], m) * conv_ceil(j->out[2], m) * (m + 2) * (m + 2);
    if (products * 3 > conv_positions(j) * 9 * 2)
        return 0;
    return j->channels <= CONV_WINOGRAD_SHARED_BYTES / 36 / 8 / size; /* transformed cells of a few tiles */
}

/* channels of one chunk of a sum: half as many as gemm.h would take, for the products are larger than their sums */
INLINE ptrdiff_t conv_winograd_depth(const conv_job *j)
{
    const ptrdiff_t chunks = conv_ceil(j->channels, CONV_WINOGRAD_DEPTH);
    return chunks == 1 ? j->channels : conv_ceil(conv_ceil(j->channels, chunks), 16) * 16;
}

/* elements of a plane of at least n: an odd number of cache lines, so that equal places of all planes are in different sets */
INLINE ptrdiff_t conv_winograd_plane(ptrdiff_t n, ptrdiff_t size) { return (conv_ceil(n * size, 64) | 1) * 64 / size; }

/* the tiles of a job's input; row and plane are still to be set */
INLINE conv_tiles conv_winograd_tiles(const conv_job *j, const void *in)
{
    const ptrdiff_t m = conv_winograd_side(j), down = conv_ceil(j->out[1], m), across = conv_ceil(j->out[2], m);
    const conv_tiles t = {j, in, m, (m + 2) * (m + 2), down, across, j->batch * down * across, 0, 0};
    return t;
}

/* whether workers that fill what is shared each for itself, with `vectors` transforms, are done before some that share the work, wait
 * for each other and fetch what others have written: a core fetches some three bytes a cycle from another one */
INLINE int conv_winograd_apart(double vectors, double bytes, ptrdiff_t threads)
{
    const double others = 1 - 1 / (double)threads;
    return threads > 1 && others * vectors * CONV_WINOGRAD_TRANSFORM < CONV_WINOGRAD_STEP + others * bytes / 3;
}

INLINE void conv_plan_winograd(const conv_call *call, ptrdiff_t threads, conv_winograd *d)
{
    const conv_job *j = call->job;
    const ptrdiff_t size = conv_size(call), lanes = SIMD_BYTES / size, wide = 2 * lanes;
    d->call = *call;
    d->tiles = conv_winograd_tiles(j, call->in);
    const ptrdiff_t n2 = d->tiles.n2, tiles = d->tiles.count;
    d->tiles.row = conv_ceil(j->channels, lanes) * lanes;
    if (d->tiles.row * size % 2048 == 0) /* rows of a tile of gemm.h would fall on one set */
        d->tiles.row += 64 / size;
    const ptrdiff_t outputs = conv_ceil(j->outputs, wide) * wide, a_tile = n2 * d->tiles.row * size;
    d->panel = wide;
    d->parts = 1;
    d->share_weights = conv_winograd_plane(j->channels * outputs, size) * n2 * size <= CONV_WINOGRAD_SHARED_BYTES;
    if (d->share_weights) {
        d->depth = j->channels;
        d->chunk = conv_min(outputs, 4 * wide);
        d->block = CONV_WINOGRAD_UNIT_BYTES / (a_tile + n2 * d->chunk * size);
        d->block = conv_min(conv_max(d->block / GEMM_MR, 1) * GEMM_MR, CONV_WINOGRAD_TILES);
        if (threads > 1)
            d->block = conv_max(GEMM_MR, conv_min(d->block, tiles / (3 * threads)));
        d->block = even_size(tiles, d->block, threads);
        d->units = conv_ceil(tiles, d->block);
        d->block = conv_ceil(tiles, d->units);
        d->tasks = conv_ceil(j->outputs, lanes);
    } else {
        d->depth = conv_winograd_depth(j);
        d->chunk = conv_max(1, conv_min(4, CONV_WINOGRAD_WEIGHT_BYTES / (n2 * d->depth * wide * size))) * wide;
        d->block = conv_max(1, conv_min(CONV_WINOGRAD_TILES, CONV_WINOGRAD_SHARED_BYTES / a_tile));
        d->block = conv_ceil(tiles, conv_ceil(tiles, d->block));
        if (threads > 1)
            d->chunk = conv_max(1, conv_min(d->chunk / wide, conv_ceil(outputs / wide, threads))) * wide;
        d->units = conv_ceil(j->outputs, d->chunk);
        /* several units transform the same weights, for some of the tiles each */
        d->parts = even_parts(d->units, 1, d->block / CONV_WINOGRAD_PART, threads);
        d->units *= d->parts;
        d->tasks = conv_ceil(j->channels, lanes);
    }
    d->tiles.plane = conv_winograd_plane(d->block * d->tiles.row, size);
    d->plane_w = conv_winograd_plane((d->share_weights ? outputs : d->chunk) * d->depth, size);
    d->plane_out = conv_winograd_plane(d->block * d->chunk, size);
    d->workers = conv_min(threads, d->units);
    d->first = 0, d->next = 0, d->poisoned = 0;
    const size_t in = conv_round64(n2 * d->tiles.plane * size), w = conv_round64(n2 * d->plane_w * size);
    d->shared_bytes = d->share_weights ? w : in;
    d->own_bytes = d->share_weights ? in : w;
    d->worker_bytes = d->own_bytes + conv_round64(n2 * d->plane_out * size);
    d->apart = conv_winograd_apart((double)d->tasks * (double)(d->share_weights ? j->channels : d->block), (double)d->shared_bytes, threads);
    if (d->apart)
        d->tasks = 0, d->worker_bytes += d->shared_bytes;
    d->scratch_bytes = (d->apart ? 0 : d->shared_bytes) + d->worker_bytes * (size_t)d->workers;
}

INLINE void conv_winograd_scratch(conv_winograd *d, void *scratch)
{
    d->shared = (char *)scratch;
    d->memory = d->shared + (d->apart ? 0 : d->shared_bytes);
}

#define REAL_BODY "conv_winograd_real.h"
#include "for_each_real.h"
#endif
