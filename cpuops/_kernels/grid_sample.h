/* grid_sample.h: samples of x [N, C, H, W] at the places of a grid [N, OH, OW, 2], and the gradients to both.
 *
 * A sample is a sum over taps, a product of one weight an axis: 1 (nearest), 2 (bilinear) or 4 (bicubic) taps along each axis.
 * Which cells they are and what they weigh is worked out once for a tile of places (grid_table_real.h) and serves all channels.
 * A tap outside x has the cell -1 or `size`. Two ways to the cells:
 *
 *   staged   a vector's worth of channels of x lies side by side in scratch, framed by one cell of zeros that taps outside x read
 *            (and gradients are thrown into): each tap of a sample is one vector. Where the frame fits the scratch
 *   planes   each channel in its own place, vectors along the samples: planes beyond any cache, few channels, and one tap
 *
 * x's gradient: one writer a channel, samples in their order. A place that is not a number gives NaN to its samples and to its own
 * gradient, and nothing to x's.
 */
#ifndef CPUOPS_GRID_SAMPLE_H
#define CPUOPS_GRID_SAMPLE_H
#include "simd.h"
#include "transpose.h"
#include "wide.h"

enum { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };
enum {
    GRID_TILE = 128,             /* places at a time */
    MOST_TAPS = 4,               /* an axis */
    MOST_STAGED = 1 << 22,       /* bytes of a frame */
    GRID_BLOCK = 4096,           /* places a unit, in planes */
    GRID_PART = 65536,           /* places a unit, staged: 1 MB of sums in grid's gradient */
    CHANNELS_TOGETHER = 8        /* of x's gradient in planes: they share a table */
};

typedef struct {
    const void *x, *grid, *g;
    void *out;
    ptrdiff_t images, channels, height, width, places;
    ptrdiff_t taps, padding, align, threads; /* threads: of the call, among which channels of x are cut */
    int staged;
    ptrdiff_t lanes;             /* channels a unit */
    ptrdiff_t part, parts, groups, units, next; /* a unit: places of a part, channels of a group */
    size_t bytes;                /* scratch a worker */
} grid_plan;

typedef void (*grid_work)(const grid_plan *p, ptrdiff_t unit, void *memory);

INLINE ptrdiff_t at_most(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t at_least(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
INLINE ptrdiff_t parts_of(ptrdiff_t n, ptrdiff_t size) { return (n + size - 1) / size; }
INLINE ptrdiff_t pitch(const grid_plan *p) { return p->width + 2; }
INLINE ptrdiff_t frame(const grid_plan *p) { return (p->height + 2) * pitch(p); }

static void grid_units(grid_plan *p, ptrdiff_t lanes, ptrdiff_t part, size_t bytes)
{
    p->lanes = lanes;
    p->part = part < 1 ? 1 : part;
    p->parts = parts_of(p->places, p->part);
    p->groups = parts_of(p->channels, lanes);
    p->bytes = bytes;
    p->next = 0;
}

/* forward: units are channels by places; few channels: places are cut, and staged again for each part */
static void plan_sample(grid_plan *p, ptrdiff_t size, size_t table, int gradient)
{
    ptrdiff_t lanes = SIMD_BYTES / size, groups = p->images * parts_of(p->channels, lanes);
    p->staged = p->channels >= lanes && (gradient || p->taps > 1) && (double)(p->height + 2) * (double)pitch(p) * SIMD_BYTES <= MOST_STAGED;
    if (p->staged)
        grid_units(p, lanes, groups >= 4 ? p->places : parts_of(p->places, 4), table + (size_t)frame(p) * SIMD_BYTES);
    else
        grid_units(p, p->channels > 0 ? p->channels : 1, GRID_BLOCK, table);
    p->units = p->images * p->groups * p->parts;
}

/* gradient to x: units are channels */
static void plan_x_gradient(grid_plan *p, ptrdiff_t size, size_t table)
{
    plan_sample(p, size, table, 1);
    if (!p->staged) /* as many as leave every thread some; no bits depend on it */
        p->lanes = at_most(CHANNELS_TOGETHER, at_least(1, p->threads == 1 ? p->channels : parts_of(p->images * p->channels, 4 * p->threads)));
    grid_units(p, p->lanes, p->places, p->bytes);
    p->units = p->images * p->groups;
}

/* gradient to the grid: units are places */
static void plan_grid_gradient(grid_plan *p, ptrdiff_t size, size_t table)
{
    plan_sample(p, size, table, 1);
    ptrdiff_t part = p->staged ? at_most(GRID_PART, p->images >= 4 ? p->places : parts_of(p->places, 4)) : GRID_BLOCK;
    grid_units(p, p->lanes, part, p->bytes + (p->staged ? 16 * (size_t)part : 0));
    p->units = p->images * p->parts;
}

static void work_units(grid_plan *p, grid_work work, void *memory)
{
    for (;;) {
        ptrdiff_t unit = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED);
        if (unit >= p->units)
            return;
        work(p, unit, memory);
    }
}

/* with the number of taps constant the loops over them unroll */
#define BY_TAPS(taps, CALL)  \
    if ((taps) == 1) {       \
        CALL(1);             \
    } else if ((taps) == 2) {\
        CALL(2);             \
    } else {                 \
        CALL(4);             \
    }

#define REAL_BODY "grid_table_real.h"
#include "for_each_real.h"
#define REAL_BODY "grid_staged_real.h"
#include "for_each_real.h"
#define REAL_BODY "grid_planes_real.h"
#include "for_each_real.h"

#define REAL_BODY "grid_sample_real.h"
#include "for_each_real.h"
#endif
