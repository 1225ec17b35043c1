/* conv_band.h: how a region of the input is laid out for the paths that need no patches. See conv.h.
 *
 * A region is some rows and columns of positions of one output slice. Its band has, for each channel and depth tap, a plane
 * for each phase of the stride in height and width: the cells that are a multiple of the stride apart, padding as zeros. In a
 * plane the cells of a tap at all positions have a constant offset from the positions, so that any run of positions reads
 * contiguous vectors. Positions are counted flat, with the distance of rows (`row`); those in the gaps between rows are
 * computed and dropped.
 */
#ifndef CPUOPS_CONV_BAND_H
#define CPUOPS_CONV_BAND_H
#include "conv_job.h"
#include "transpose.h"
#include "wide.h"

#define CONV_BAND_BYTES 262144 /* of a band: a part of a second-level cache of 512 KB or more */

typedef struct {
    ptrdiff_t phases_y, phases_x; /* tap t is in phase t % phases, shifted by t*dil / step cells */
    ptrdiff_t reach_y, reach_x;   /* the largest shifts */
    ptrdiff_t rows, cols;         /* positions of a full region */
    ptrdiff_t regions_y, regions_x;
    ptrdiff_t row;     /* cells from one row to the next: zeros right of one serve as the zeros left of the next */
    ptrdiff_t shared;  /* how many of them */
    ptrdiff_t plane;   /* cells of one phase of one channel */
    ptrdiff_t channel; /* cells of one channel */
    ptrdiff_t chunk;   /* channels in the band at a time */
    ptrdiff_t cells;   /* of the whole band, with room for the last vector */
} conv_band;

/* where phase f of an axis begins, in input cells */
INLINE ptrdiff_t conv_phase_cell(const conv_job *j, int a, ptrdiff_t f) { return f == 0 ? 0 : f * j->dil[a] % j->step[a]; }
INLINE ptrdiff_t conv_reach(const conv_job *j, int a) { return (j->kernel[a] - 1) * j->dil[a] / j->step[a]; }

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

/* the regions of a band, and the channels that it holds at a time */
INLINE void conv_cut_band(const conv_job *j, ptrdiff_t size, ptrdiff_t most, ptrdiff_t planes, conv_band *p)
{
    const ptrdiff_t budget = CONV_BAND_BYTES / size, lanes = SIMD_BYTES / size, channels = conv_max(j->channels, 1);
    /* columns: all of them, unless one row of one channel is more than half the budget */
    const ptrdiff_t widest = conv_max(lanes * 4, conv_min(most, budget / 2 / (planes * (1 + p->reach_y)) - p->reach_x));
    p->regions_x = conv_ceil(j->out[2], widest);
    p->cols = p->regions_x > 1 ? conv_ceil(conv_ceil(j->out[2], p->regions_x), lanes) * lanes : j->out[2];
    p->regions_x = conv_ceil(j->out[2], p->cols);
    p->row = p->cols + p->reach_x;
    p->shared = p->regions_x == 1 ? conv_min(conv_shared_zeros(j, p->phases_x, p->row), p->reach_x) : 0;
    p->row -= p->shared;
    /* channels: all of them, or as many as allow a few rows; rows: what is left of the budget */
    const ptrdiff_t a_row = planes * p->row, few = conv_min(j->out[1], 4);
    p->chunk = conv_max(1, conv_min(channels, budget / (a_row * (few + p->reach_y))));
    p->chunk = conv_ceil(channels, conv_ceil(channels, p->chunk));
    const ptrdiff_t highest = conv_max(1, conv_min(most / p->row, budget / (a_row * p->chunk) - p->reach_y));
    p->rows = conv_ceil(j->out[1], conv_ceil(j->out[1], highest));
    p->regions_y = conv_ceil(j->out[1], p->rows);
}

/* a band of about CONV_BAND_BYTES, for scalars of `size` bytes; regions of about `most` positions */
INLINE void conv_plan_band(const conv_job *j, ptrdiff_t size, ptrdiff_t most, conv_band *p)
{
    const ptrdiff_t budget = CONV_BAND_BYTES / size, lanes = SIMD_BYTES / size, channels = conv_max(j->channels, 1);
    p->phases_y = conv_phases(j, 1), p->phases_x = conv_phases(j, 2);
    p->reach_y = conv_reach(j, 1), p->reach_x = conv_reach(j, 2);
    const ptrdiff_t planes = j->kernel[0] * p->phases_y * p->phases_x;
    const ptrdiff_t width = j->out[2] + p->reach_x, height = j->out[1] + p->reach_y;
    p->regions_x = p->regions_y = 1, p->cols = j->out[2], p->rows = j->out[1], p->chunk = channels;
    /* of a small image all of it: the rest would say so too, in many divisions */
    if (width < 4096 && height < 4096 && planes < 64 && 2 * planes * width * (1 + p->reach_y) <= budget &&
        channels * planes * width * height <= budget && width * height <= most) {
        p->shared = conv_min(conv_shared_zeros(j, p->phases_x, width), p->reach_x);
        p->row = width - p->shared;
    } else
        conv_cut_band(j, size, most, planes, p);
    /* channels side by side are transposed into the band in whole vectors, the last of which ends beyond the last row */
    p->plane = (p->rows + p->reach_y) * p->row + p->shared + (j->in_channel == 1 ? lanes : 0);
    p->plane = conv_ceil(p->plane, lanes) * lanes;
    if (p->plane * size % 2048 == 0)
        p->plane += lanes; /* planes would fall into the same cache sets */
    p->channel = planes * p->plane;
    p->cells = p->chunk * p->channel + lanes;
}

/* whether the band is not made much larger by a wide kernel */
INLINE int conv_band_fits(const conv_job *j, ptrdiff_t size, ptrdiff_t bytes)
{
    conv_band band;
    if (conv_reach(j, 1) > bytes || conv_reach(j, 2) > bytes)
        return 0;
    conv_plan_band(j, size, PTRDIFF_MAX, &band);
    return band.cells <= bytes / size;
}

/* offset of each tap's cells from the position, in the band of a channel */
INLINE void conv_tap_table(const conv_job *j, const conv_band *p, ptrdiff_t *tap)
{
    for (ptrdiff_t z = 0; z < j->kernel[0]; z++)
        for (ptrdiff_t y = 0; y < j->kernel[1]; y++)
            for (ptrdiff_t x = 0; x < j->kernel[2]; x++) {
                const ptrdiff_t plane = (z * p->phases_y + y % p->phases_y) * p->phases_x + x % p->phases_x;
                *tap++ = plane * p->plane + y * j->dil[1] / j->step[1] * p->row + x * j->dil[2] / j->step[2];
            }
}

/* region `unit` of the nested counters (image, slice, row, column); `images` counts what is outside of them */
typedef struct {
    ptrdiff_t x, cols, y, rows, z, image;
} conv_region;
INLINE conv_region conv_find_region(const conv_job *j, const conv_band *p, ptrdiff_t unit)
{
    conv_region r;
    r.x = conv_split(&unit, p->regions_x) * p->cols, r.cols = conv_min(p->cols, j->out[2] - r.x);
    r.y = conv_split(&unit, p->regions_y) * p->rows, r.rows = conv_min(p->rows, j->out[1] - r.y);
    r.z = conv_split(&unit, j->out[0]);
    r.image = unit;
    return r;
}
INLINE ptrdiff_t conv_regions(const conv_job *j, const conv_band *p) { return j->out[0] * p->regions_y * p->regions_x; }
INLINE ptrdiff_t conv_region_start(const conv_job *j, const conv_region *r)
{
    return r->z * j->out_axis[0] + r->y * j->out_axis[1] + r->x * j->out_axis[2];
}

/* whether the input can be read as it is: the one tap of a position is the cell at the same place */
INLINE int conv_in_place(const conv_job *j)
{
    return j->out[1] == 1 && conv_plain_axis(j, 0) && conv_plain_axis(j, 1) && conv_plain_axis(j, 2) && j->in_axis[2] == 1;
}

#define REAL_BODY "conv_band_real.h"
#include "for_each_real.h"
#endif
