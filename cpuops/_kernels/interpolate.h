/* interpolate.h: resampling by tables, one an axis: how a call is cut and in which order its axes are taken.
 *
 *   out[p, d, h, w] = sum over cells  weight_d weight_h weight_w  x[p, cell_d, cell_h, cell_w]
 *
 * The forward takes the tables of cpuops/ops/interpolate_tables.py and the gradient their transposes: both gather, so every
 * cell of out has one writer. A unit is a band of rows of one plane of out, in one tile of its columns. Rows are made by
 *
 *   ROWS      sums of rows of x; W is not resampled
 *   FIRST_H   such sums in a block of scratch rows, then the columns; for one that shrinks along H, and without H
 *   FIRST_W   the columns of rows of x, kept in a ring, then sums of those; for one that grows along H
 *   PICK      copies, where every table is one, of a nearest mode: a row of x to a row of out, and that to those like it
 *   ABREAST   FIRST_W or FIRST_H of small planes, one a lane
 *   LONG      FIRST_H in pieces, for an output that reads more columns than scratch should hold
 *
 * and columns by lines (repeating tables, in vectors along the line; else cell by cell) or, where enough rows come together,
 * turned: LANES rows are transposed, so that any table works on whole vectors. Scratch a worker: a few MB at most.
 */
#ifndef CPUOPS_INTERPOLATE_H
#define CPUOPS_INTERPOLATE_H
#include "octets.h"
#include "simd.h"
#include "turned.h"
#include "wide.h"

enum {
    MOST_SPAN = 4096,       /* columns of x that a tile should read: a turned block of them is 256 KB */
    LONGEST_SPAN = 16384,   /* that it may read when it is a single column of out */
    MOST_RING = 512,        /* rows in a ring */
    SLACK = 32,             /* cells behind a scratch row that a full vector may touch; also keeps rows off one cache set */
    RUN = 64,               /* terms of a sum in sequence; sums of longer ones are added up from such */
    RUNS = 64 * RUN,
    MOST_TAPS = 16,         /* of a repeating table */
    BAND_CELLS = 65536,     /* of out, in a unit: tens of microseconds */
    BAND_CELLS_RING = 262144, /* more where every band makes its first rows anew */
    MOST_ROW_ABREAST = 128, /* cells of a row of a small plane, */
    MOST_ABREAST = 8192     /* its vectors, with what is made of its first axis and its output: 512 KB of 64 bytes each */
};

typedef struct {
    ptrdiff_t in, out;
    const ptrdiff_t *start, *index; /* output o reads cells index[k], start[o] <= k < start[o+1]; start NULL: only cell o */
    const void *weight;
    ptrdiff_t widest, reach;        /* the most cells of an output; from its first to its last */
    ptrdiff_t outputs, cells, first, last; /* first <= o < last repeat: `outputs` of them every `cells` cells; 0: none do */
} resample_axis;

enum { ROWS, FIRST_H, FIRST_W, PICK, ABREAST, LONG };

typedef struct {
    const void *x;
    void *out;
    int bytes;                /* x and out are uint8 */
    ptrdiff_t planes, channels; /* channels > 1: x is [planes, D, H, W, channels], out [planes, channels, D, H, W] */
    resample_axis d, h, w;
    int order, turned;
    int columns_before;       /* ABREAST: the columns come first */
    ptrdiff_t tile, tiles;    /* columns of out at a time */
    ptrdiff_t band, bands;    /* rows of out at a time */
    ptrdiff_t block;          /* rows whose columns are made together */
    ptrdiff_t span, line;     /* most columns that a tile reads; cells of a scratch row of them */
    ptrdiff_t ring, ring_line; /* rows, a power of two as the block is: a division takes as long as a vector of a row */
    ptrdiff_t units, grab, next;
    size_t bytes_worker;
} resample_plan;

INLINE ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t most(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
INLINE ptrdiff_t pieces(ptrdiff_t n, ptrdiff_t size) { return (n + size - 1) / size; }

/* the columns c0..c1-1 that outputs o0..o1-1 read */
static void columns_of(const resample_axis *a, ptrdiff_t o0, ptrdiff_t o1, ptrdiff_t *c0, ptrdiff_t *c1)
{
    if (a->start == NULL) {
        *c0 = o0;
        *c1 = o1;
        return;
    }
    *c0 = a->in;
    *c1 = 0;
    for (ptrdiff_t o = o0; o < o1; o++) {
        if (a->start[o] == a->start[o + 1])
            continue;
        *c0 = least(*c0, a->index[a->start[o]]);
        *c1 = most(*c1, a->index[a->start[o + 1] - 1] + 1);
    }
    *c0 = least(*c0, *c1);
}

static ptrdiff_t widest_tile(const resample_axis *a, ptrdiff_t tile)
{
    ptrdiff_t span = 0, c0, c1;
    for (ptrdiff_t o = 0; o < a->out; o += tile) {
        columns_of(a, o, least(a->out, o + tile), &c0, &c1);
        span = most(span, c1 - c0);
    }
    return span;
}

INLINE double cells_read(const resample_axis *a) { return (double)(a->start ? a->start[a->out] : a->out); }
INLINE ptrdiff_t most_cells(const resample_axis *a) { return a->start ? a->widest : 1; }

/* whether every output is one cell, or none */
static int copies(const resample_axis *a, size_t item)
{
    if (a->start == NULL)
        return 1;
    if (a->widest > 1)
        return 0;
    for (ptrdiff_t k = 0; k < a->start[a->out]; k++)
        if ((item == sizeof(float) ? (double)((const float *)a->weight)[k] : ((const double *)a->weight)[k]) != 1)
            return 0;
    return 1;
}

/* whether the columns come first: the same for any layout, since bits depend on it. Times in cycles of an AVX-512 machine, of which only the ratios matter */
static int columns_first(const resample_plan *p)
{
    const resample_axis *h = &p->h, *w = &p->w;
    if (h->start == NULL || w->start == NULL || h->reach > MOST_RING - 2 * LANES_f32)
        return 0;
    double tap = 0.06, line = 0.25 * (double)(w->in + w->out) + 0.12 * cells_read(w);
    double taps_h = cells_read(h), taps_d = cells_read(&p->d) / (double)p->d.out;
    double first_w = (double)h->in * (line + (p->d.start ? tap * taps_d * (double)w->in : 0)) + tap * taps_h * (double)w->out;
    double first_h = (double)h->out * line + tap * taps_h * taps_d * (double)w->in;
    return first_w < first_h;
}

#include "interpolate_pick.h"

/* what comes of the first axis of a plane */
INLINE ptrdiff_t cells_between(const resample_plan *p) { return p->columns_before ? p->h.in * p->w.out : p->w.in; }

/* whether planes go one a lane: in short rows vectors would be half empty, and a row costs more than its cells */
static int plan_abreast(resample_plan *p, ptrdiff_t lanes, size_t item)
{
    const resample_axis *h = &p->h, *w = &p->w;
    ptrdiff_t in = h->in * w->in, out = h->out * w->out;
    p->columns_before = p->order == FIRST_W;
    if (p->bytes || p->channels > 1 || p->d.start || p->d.out > 1 || h->start == NULL || w->start == NULL || p->planes < lanes ||
        w->widest > RUN || h->widest > RUN || most(w->in, w->out) > MOST_ROW_ABREAST || in + cells_between(p) + out > MOST_ABREAST)
        return 0;
    p->order = ABREAST;
    p->units = pieces(p->planes, lanes);
    p->grab = most(1, BAND_CELLS / 4 / (most(in, out) * lanes));
    p->next = 0;
    p->bytes_worker = item * (size_t)(lanes * (in + cells_between(p) + out));
    return 1;
}

static void plan_resample(resample_plan *p, ptrdiff_t lanes, size_t item)
{
    const resample_axis *w = &p->w;
    ptrdiff_t rows = p->h.out;
    if (p->planes == 0 || p->h.out == 0 || w->out == 0)
        rows = 0;
    p->tile = most(1, least(w->out, MOST_SPAN));
    p->order = w->start == NULL && p->channels == 1 ? ROWS : columns_first(p) ? FIRST_W : FIRST_H;
    p->span = widest_tile(w, p->tile);
    while (p->span > MOST_SPAN && p->tile > 1) {
        p->tile = p->tile > 2 * lanes ? pieces(p->tile / 2, lanes) * lanes : p->tile / 2;
        p->span = widest_tile(w, p->tile);
    }
    if (p->span > LONGEST_SPAN) {
        p->order = LONG;
        p->span = LONGEST_SPAN;
    }
    if ((p->bytes || (p->channels == 1 && p->order != LONG)) && copies(&p->d, item) && copies(&p->h, item) && copies(w, item))
        p->order = PICK;
    if (p->order < PICK && rows && plan_abreast(p, lanes, item))
        return;
    p->tiles = pieces(w->out, p->tile);
    ptrdiff_t together = p->order == FIRST_W ? p->h.in : rows;
    p->turned = p->order != PICK && (p->channels > 1 || (p->order != LONG && w->start && w->widest > 1 && together >= lanes / 4 &&
                                    2 * (w->last - w->first) < w->out));
    p->block = p->turned ? lanes : 1;
    p->line = p->span * p->channels + SLACK;
    p->ring = p->order == FIRST_W ? p->block : 0;
    while (p->order == FIRST_W && p->ring < (pieces(p->h.reach, p->block) + 1) * p->block)
        p->ring *= 2;
    p->ring_line = p->tile + SLACK;
    int few = p->planes * p->d.out * p->tiles < 16;
    p->band = most(p->order == FIRST_W && !few ? 64 : 16, (p->order == FIRST_W && !few ? BAND_CELLS_RING : BAND_CELLS) / p->tile);
    p->band = most(1, least(rows, pieces(p->band, 16) * 16));
    p->bands = pieces(rows, p->band);
    p->units = p->planes * p->d.out * p->bands * p->tiles;
    p->grab = most(1, BAND_CELLS / 4 / (p->band * p->tile));
    p->next = 0;
    /* block of source rows, one more for long sums, turned block, ring or a block of results, a row of results */
    p->bytes_worker = item * (size_t)((p->block + 1 + (p->turned ? lanes : 0)) * p->line + (most(p->ring * p->channels, p->block) + 1) * p->ring_line);
    if (p->order == PICK)
        p->bytes_worker = p->bytes ? pick_bytes_worker(p->tile) : 0;
}

#define REAL_BODY "interpolate_rows_real.h"
#include "for_each_real.h"
#define REAL_BODY "interpolate_columns_real.h"
#include "for_each_real.h"
#define REAL_BODY "interpolate_abreast_real.h"
#include "for_each_real.h"
#define REAL_BODY "interpolate_real.h"
#include "for_each_real.h"
#endif
