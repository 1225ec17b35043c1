/* deform.h: deformable convolution as products of blocks of sampled columns, on gemm.h.
 *
 * A column is what the kernel's taps see at one output position: column[tap, channel] is x, bilinear at the tap's place moved by
 * its offset, times the mask. Channels lie in lanes: a band (the rows of x that a strip of output rows reaches, for a block of
 * channels) is copied channels last, so that one sample is four vectors times four weights, for as many channels as a vector
 * has. Where a tap's four cells lie and what they weigh is found once for all channels of the block.
 *
 *   forward        out[m, p] = sum over k of weight[m, k] column[p, k]: rows are positions, lanes are outputs
 *   weight         weight_grad[m, k] = sum over p of grad[m, p] column[p, k]: rows are outputs, lanes are terms
 *   x and offset   column_grad[p, k] = sum over m of grad[m, p] weight[m, k]: rows are positions, lanes are terms; its
 *                  products with the four cells give the gradients of offset and mask, and it is added to the four cells
 *
 * With one input channel a weight group and few outputs (depthwise) the products have channels in lanes too.
 *
 * Cutting, by shape only. Blocks: channels of one weight group (depthwise: of any) and one offset group. Chunks: the taps of a block whose columns
 * are sampled at once. Strips: rows of output that share a band; when the offsets spread further than the band has room, a strip
 * is halved, and a single row that still does not fit reads its cells one by one (a patch). The packed weights of a pass (some
 * blocks) are a few MB at most, or those of one block.
 *
 * The order of a sum: over blocks, then chunks, ascending, each one product of gemm.h; bias joins the first. Offset and mask
 * gradients: over lanes and then blocks. x_grad: within a band over taps, then positions; bands are added in order, by the one owner of a
 * (batch item, block). weight_grad: over positions of a part of the batch, the parts in order.
 */
#ifndef CPUOPS_DEFORM_H
#define CPUOPS_DEFORM_H
#include "gemm.h"

#define DEFORM_ROWS (112 / GEMM_MR * GEMM_MR) /* positions of a product: whole tiles, a column block of some 250 KB */
#define DEFORM_WIDTH_BYTES 256                /* channels of a block */
#define DEFORM_TERM_BYTES 2304                /* columns of a chunk: 9 taps of a whole block */
#define DEFORM_BAND_BYTES 2000000             /* a band; a worker has two */
#define DEFORM_SPREAD 8                       /* rows that offsets are expected to add to a band */
#define DEFORM_STRIP 768                      /* positions of a strip that are worth a band */
#define DEFORM_PANELS 16                      /* panels of outputs that are accumulated at once */
#define DEFORM_OUTPUTS 256                    /* outputs whose gradient is held at once */
#define DEFORM_PACKED_BYTES 4000000           /* packed weights of a pass */
#define DEFORM_PARTIAL_BYTES 4000000          /* partial weight gradients, a worker */
#define DEFORM_PARTS 16                       /* parts of the batch whose weight gradients are summed apart */
#define DEFORM_DEPTHWISE 4                    /* outputs of a group of one channel, at most, to be depthwise */
#define DEFORM_UNITS 8                        /* (batch item, block)s wanted of a gradient */

enum { DEFORM_PACK, DEFORM_FORWARD, DEFORM_PACK_TURNED, DEFORM_BOTH, DEFORM_OFFSET, DEFORM_X, DEFORM_WEIGHT, DEFORM_SUM };

typedef struct {
    ptrdiff_t batch, channels, outputs, weight_groups, offset_groups; /* channels and outputs of all groups */
    ptrdiff_t size[2], kernel[2], output[2], stride[2], dilation[2], before[2];
    const void *x, *offset, *weight, *mask, *bias, *grad; /* mask, bias: or NULL; grad: of the output */
    void *out, *x_grad, *offset_grad, *weight_grad, *mask_grad;
    /* the plan */
    int depthwise;
    ptrdiff_t width;         /* channels of a block at most */
    ptrdiff_t padded;        /* the same in whole vectors */
    ptrdiff_t taps, chunks;  /* taps of a chunk at most; chunks of a block */
    ptrdiff_t rows, strips;  /* output rows of a strip */
    ptrdiff_t blocks;
    ptrdiff_t *starts;       /* [blocks + 1]: first channel of each */
    ptrdiff_t parts;         /* panels of outputs are cut into so many tasks of the forward */
    ptrdiff_t pieces;        /* parts of the batch, for the weight gradient */
    ptrdiff_t packed_stride; /* elements of the packed weights of a block */
    ptrdiff_t per_pass;      /* blocks of a pass */
    ptrdiff_t ld, band_cells, sum_ld, grad_ld; /* elements */
    size_t memory_bytes;                       /* scratch of a worker */
    size_t shared_bytes;                       /* packed weights or partial sums */
    void *shared;
    /* the running pass */
    ptrdiff_t first, last; /* blocks (units of the weight gradient) */
    ptrdiff_t next, tasks;
} deform_call;

INLINE ptrdiff_t deform_min(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t deform_max(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
INLINE ptrdiff_t deform_ceil(ptrdiff_t a, ptrdiff_t b) { return (a + b - 1) / b; }
INLINE ptrdiff_t deform_whole(ptrdiff_t a, ptrdiff_t b) { return deform_ceil(a, b) * b; }

INLINE ptrdiff_t deform_taps(const deform_call *c) { return c->kernel[0] * c->kernel[1]; }
INLINE ptrdiff_t deform_cells(const deform_call *c) { return c->size[0] * c->size[1]; }
INLINE ptrdiff_t deform_positions(const deform_call *c) { return c->output[0] * c->output[1]; }
/* channels and outputs of a weight group, channels of an offset group */
INLINE ptrdiff_t deform_inputs(const deform_call *c) { return c->channels / c->weight_groups; }
INLINE ptrdiff_t deform_outputs(const deform_call *c) { return c->outputs / c->weight_groups; }
INLINE ptrdiff_t deform_moved(const deform_call *c) { return c->channels / c->offset_groups; }

/* the block after the one that starts at channel c0: the rest of its groups in equal parts */
INLINE ptrdiff_t deform_next(const deform_call *c, ptrdiff_t c0, ptrdiff_t lanes)
{
    const ptrdiff_t inputs = deform_inputs(c), moved = deform_moved(c);
    const ptrdiff_t left = c->depthwise ? moved - c0 % moved : deform_min(inputs - c0 % inputs, moved - c0 % moved);
    if (left <= c->width)
        return c0 + left;
    return c0 + deform_min(c->width, deform_whole(deform_ceil(left, deform_ceil(left, c->width)), lanes));
}

/* how many blocks there are; with `starts`, where they start */
INLINE ptrdiff_t deform_find_blocks(const deform_call *c, ptrdiff_t size, ptrdiff_t *starts)
{
    ptrdiff_t n = 0;
    for (ptrdiff_t c0 = 0; c0 < c->channels; c0 = deform_next(c, c0, SIMD_BYTES / size), n++)
        if (starts)
            starts[n] = c0;
    if (starts)
        starts[n] = c->channels;
    return n;
}

/* the first block at or after a channel that starts one */
INLINE ptrdiff_t deform_block_at(const deform_call *c, ptrdiff_t channel)
{
    ptrdiff_t low = 0, high = c->blocks;
    while (low < high) {
        const ptrdiff_t middle = (low + high) / 2;
        if (c->starts[middle] < channel)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* parts of the weight gradient: (block, chunk, outputs) */
INLINE ptrdiff_t deform_output_parts(const deform_call *c) { return deform_ceil(deform_outputs(c), DEFORM_OUTPUTS); }
INLINE ptrdiff_t deform_weight_units(const deform_call *c) { return c->blocks * c->chunks * deform_output_parts(c); }
INLINE ptrdiff_t deform_partial(const deform_call *c)
{
    return deform_min(deform_outputs(c), DEFORM_OUTPUTS) * c->taps * (c->depthwise ? c->padded : c->width);
}

/* tasks of the forward in a pass */
INLINE ptrdiff_t deform_forward_tasks(const deform_call *c)
{
    return c->batch * (c->depthwise ? c->last - c->first : c->weight_groups * c->parts) * c->strips;
}

/* there is at least one channel and one output */
INLINE void deform_plan(deform_call *c, ptrdiff_t size, int backward, int threads)
{
    const ptrdiff_t lanes = SIMD_BYTES / size, nr = 2 * lanes, all = deform_taps(c), outputs = deform_outputs(c);
    const ptrdiff_t reach = (c->kernel[0] - 1) * c->dilation[0] + 1;
    c->depthwise = c->weight_groups > 1 && deform_inputs(c) == 1 && outputs <= DEFORM_DEPTHWISE;
    const ptrdiff_t alike = c->depthwise ? deform_moved(c) : deform_min(deform_inputs(c), deform_moved(c));
    c->width = DEFORM_WIDTH_BYTES / size;
    while (c->width > lanes && (reach + c->stride[0] + DEFORM_SPREAD) * c->size[1] * c->width * size > DEFORM_BAND_BYTES)
        c->width /= 2;
    while (backward && c->width > lanes && c->batch * deform_ceil(c->channels, c->width) < DEFORM_UNITS)
        c->width /= 2;
    c->width = deform_min(c->width, alike);
    c->padded = deform_whole(c->width, lanes);
    c->taps = deform_max(1, deform_min(all, DEFORM_TERM_BYTES / size / c->width));
    c->chunks = deform_ceil(all, c->taps);
    c->taps = deform_ceil(all, c->chunks);
    c->chunks = deform_ceil(all, c->taps);
    c->blocks = deform_find_blocks(c, size, NULL);

    const ptrdiff_t room = DEFORM_BAND_BYTES / deform_max(1, c->size[1] * c->padded * size) - reach - DEFORM_SPREAD / 2;
    c->rows = deform_max(deform_ceil(DEFORM_STRIP, c->output[1]), deform_ceil(2 * reach, c->stride[0]));
    c->rows = deform_max(1, deform_min(deform_min(c->rows, room / c->stride[0]), c->output[0]));
    c->strips = deform_ceil(c->output[0], c->rows);
    c->rows = deform_ceil(c->output[0], c->strips);
    c->strips = deform_ceil(c->output[0], c->rows);

    const ptrdiff_t panels = deform_ceil(outputs, nr), units = c->batch * c->weight_groups * c->strips;
    c->parts = deform_min(panels, units >= 2 * threads ? 1 : deform_ceil(2 * threads, deform_max(1, units)));
    c->packed_stride = c->depthwise ? all * outputs * c->padded
                     : backward     ? c->chunks * deform_whole(c->taps * c->width, nr) * outputs
                                    : panels * nr * all * c->width;
    c->per_pass = deform_max(1, deform_min(c->blocks, DEFORM_PACKED_BYTES / (c->packed_stride * size)));
    c->shared_bytes = (size_t)(c->per_pass * c->packed_stride * size);
    c->pieces = DEFORM_PARTIAL_BYTES / (deform_partial(c) * size);
    c->pieces = deform_max(1, deform_min(deform_min(c->pieces, DEFORM_PARTS), c->batch * c->strips));

    const ptrdiff_t p = deform_whole(DEFORM_ROWS, lanes);
    c->ld = deform_whole(c->taps * c->width, nr) + lanes;
    if (c->ld * size % 1024 == 0) /* rows of a tile apart, in the sets of the first-level cache */
        c->ld += lanes;
    const ptrdiff_t most = deform_min(DEFORM_BAND_BYTES / (c->padded * size), deform_cells(c) + 1);
    c->band_cells = deform_max(most, 4 * p + 1);
    c->sum_ld = (c->depthwise ? outputs * c->padded : deform_min(panels, DEFORM_PANELS) * nr) + lanes;
    c->grad_ld = p + lanes;
    const ptrdiff_t sums = backward && !c->depthwise ? deform_min(outputs, DEFORM_OUTPUTS) * c->grad_ld : DEFORM_ROWS * c->sum_ld;
    const ptrdiff_t elements = (backward ? 2 : 1) * (c->band_cells * c->padded) + DEFORM_ROWS * c->ld + deform_whole(sums, lanes) + 19 * p;
    c->memory_bytes = (size_t)deform_whole(elements * size, 64);
}

#define REAL_BODY "deform_sample_real.h"
#include "for_each_real.h"
#define REAL_BODY "deform_depthwise_real.h"
#include "for_each_real.h"
#define REAL_BODY "deform_real.h"
#include "for_each_real.h"
#endif
