/* pool.h: max and average pooling in one canonical form, for any rank, layout and kind of window.
 *
 * x is [planes, D, H, W, C], the output [planes, OD, OH, OW, C]: channels first has C = 1 and a plane a channel, channels
 * last a plane a batch; absent axes have length 1. Windows are products of one range an axis, given by `window` below and
 * by nothing else, forward and backward.
 *
 * A row of output is made in two steps. First the rows of x that its windows touch are folded into one line, cell by cell
 * (vectors along W * C, whatever the window). Then the line is folded along W:
 *
 *   in runs      windows at a stride s: the line is laid out by phases, cell w in phase w % s at place w / s. Tap t of
 *                every window then lies at one offset, and outputs are vectors again, also with one channel. Padding is
 *                filled with the identity. With stride 1 there is one phase, the line itself; `by_pixel` (many channels,
 *                or a stride beyond MOST_PHASES) keeps the line and makes a run of each output pixel
 *   in segments  adaptive windows and very wide ones: each output folds its own range of the line, which is made in
 *                several parts when the window is wider than the line may be
 *
 * Windows of two or three cells along W, of one channel, are folded in registers (pairs, and the files of threes), rows that are
 * alike one after the other. With many channels and few taps there is no line either: an output pixel is folded directly from its window's cells. Small planes
 * of one channel have many channels once they are turned: planes_turned() of them are transposed in scratch, and the results
 * back. One window that holds its whole plane is a row (pool_whole_real.h).
 *
 * Lines hold at most LINE cells, or MOST_LINE for wide windows, so scratch is bounded whatever the size of x.
 */
#ifndef CPUOPS_POOL_H
#define CPUOPS_POOL_H
#include "simd.h"
#include "transpose.h"
#include "wide.h"

enum {
    LINE = 4096,        /* cells a line: 32 KB of doubles */
    MOST_LINE = 65536,  /* of one window's reach, before it is cut into segments */
    MOST_CHUNK = 256,   /* channels at a time */
    MOST_PHASES = 8,
    MOST_DIRECT = 64,   /* taps of a window without a line */
    DIRECT_LISTS = 16,  /* of such taps, by the window's rows and columns */
    MOST_TURNED = 2048, /* vectors of a unit: 128 KB of 64 bytes each */
    MOST_ABREAST = 256, /* cells of a plane that is one window, when several are folded at once */
    MOST_PATCH = 16,    /* taps of a window whose gradient is added to out at once */
    STRIP_ROWS = 3,     /* of a window whose gradient is made in strips, */
    STRIP_SUMS = 4,     /* rows of sums, */
    STRIP_RING = 8,     /* and rows of x that are dealt, powers of two */
    MOST_GATHERED = 64, /* taps of a window whose gradient is gathered by comparing */
    ABREAST = 4,        /* planes whose gradients are scattered at once */
    SLACK = 64,         /* cells behind a line that a full vector may touch */
    BLOCK_CELLS = 65536 /* cells of x folded by one block of rows: tens of microseconds */
};

typedef struct {
    ptrdiff_t in, out, kernel, stride, before, after, dilation; /* kernel 0: adaptive */
} pool_axis;

typedef struct {
    ptrdiff_t first, taps; /* cells first + t * dilation, 0 <= t < taps, all inside x */
    ptrdiff_t counted;     /* taps inside the padded extent */
} pool_window;

/* i * n / d without overflow for every i <= d < 2**62 */
INLINE ptrdiff_t scaled(ptrdiff_t i, ptrdiff_t n, ptrdiff_t d)
{
    return d >> 31 ? (ptrdiff_t)((__int128)i * n / d) : n / d * i + n % d * i / d;
}

/* a / b and rounded up, b > 0; most divisors are 1 or 2, and a division costs 20 cycles */
INLINE ptrdiff_t quotient(ptrdiff_t a, ptrdiff_t b) { return b == 1 ? a : b == 2 && a >= 0 ? a >> 1 : a / b; }
INLINE ptrdiff_t ceil_div(ptrdiff_t a, ptrdiff_t b) { return a <= 0 ? -quotient(-a, b) : quotient(a - 1, b) + 1; }
INLINE ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t most(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

/* the window of output i */
INLINE pool_window window(const pool_axis *a, ptrdiff_t i)
{
    pool_window w;
    if (a->kernel == 0) {
        w.first = scaled(i, a->in, a->out);
        /* ceil((i + 1) in / out) = in - floor((out - i - 1) in / out) */
        w.taps = a->in - scaled(a->out - i - 1, a->in, a->out) - w.first;
        w.counted = w.taps;
        return w;
    }
    ptrdiff_t start = i * a->stride - a->before, d = a->dilation;
    ptrdiff_t skipped = start < 0 ? ceil_div(-start, d) : 0;
    w.first = start + skipped * d;
    w.taps = least(a->kernel, ceil_div(a->in - start, d)) - skipped;
    w.counted = least(a->kernel, ceil_div(a->in + a->after - start, d));
    return w;
}

/* outputs lo..hi (hi included) are those whose windows may hold cell c; `holds` tells which do */
INLINE void cover(const pool_axis *a, ptrdiff_t c, ptrdiff_t *lo, ptrdiff_t *hi)
{
    if (a->kernel == 0) {
        *lo = scaled(c, a->out, a->in);
        *hi = a->out - 1 - scaled(a->in - c - 1, a->out, a->in);
        return;
    }
    ptrdiff_t at = c + a->before;
    *lo = most(0, ceil_div(at - a->dilation * (a->kernel - 1), a->stride));
    *hi = least(a->out - 1, quotient(at, a->stride));
}

INLINE int holds(const pool_axis *a, ptrdiff_t i, ptrdiff_t c)
{
    return a->dilation == 1 || (c + a->before - i * a->stride) % a->dilation == 0;
}

/* how many outputs from o on have windows of as many cells, each one stride behind the other */
INLINE ptrdiff_t alike(const pool_axis *a, ptrdiff_t o)
{
    ptrdiff_t start = o * a->stride - a->before, room = a->in - start - (a->dilation * (a->kernel - 1) + 1);
    return a->kernel == 0 || start < 0 || room < 0 ? 1 : least(a->out - o, quotient(room, a->stride) + 1);
}

/* whether cells c - 1 and c are in the same windows */
INLINE int same_cover(const pool_axis *a, ptrdiff_t c)
{
    ptrdiff_t lo, hi, lo_before, hi_before;
    if (a->dilation != 1)
        return 0;
    cover(a, c, &lo, &hi);
    cover(a, c - 1, &lo_before, &hi_before);
    return lo == lo_before && hi == hi_before;
}

/* ---- the cut of a call into units of work: by shape only */

typedef struct {
    const void *x, *g;           /* operands: the input, the gradient from above */
    void *out;
    char *index;                 /* int32 or int64 by index_size; size 0: none are wanted */
    ptrdiff_t index_size;
    pool_axis d, h, w;
    ptrdiff_t planes, channels;
    ptrdiff_t lanes;             /* of a vector of x's type */
    int include_pad;             /* taps in padding count in an average's divisor */
    double divisor;              /* 0: the number of taps */
    int segments, by_pixel, direct;
    ptrdiff_t turned;            /* small planes of one channel: so many of them are a unit, transposed to channels last */
    int whole;                   /* one window holds its plane, which is one axis */
    int pairs;                   /* along W the windows are cells 2o and 2o + 1, one channel: no line is needed */
    int threes;                  /* along W the windows are three cells, one or two apart, of one channel: no line is needed */
    int apart;                   /* gradients of pairs whose rows are in one window at most: written where they are found */
    int strips;                  /* gradients of the maximum of threes: in one pass over the windows, in vectors of them */
    int patches;                 /* the same in vectors of channels, straight into out */
    int gathered;                /* gradients of the maximum: gathered by comparing, not scattered cell by cell */
    ptrdiff_t chunk, chunks;     /* channels at a time */
    ptrdiff_t tile, tiles;       /* columns at a time: of the output, in avg_pool_backward of x */
    ptrdiff_t rows, units;       /* a unit: one row of one tile; rows of a tile follow one another */
    ptrdiff_t block, next;       /* units a block; the first block that no worker has taken */
    ptrdiff_t line, phase, back; /* cells of a line, of a phase, and of avg_pool_backward's line of gradients */
    ptrdiff_t phases;
    ptrdiff_t parts, part;       /* max_pool_backward: parts of a plane, and cells of the axis that is cut a part */
    ptrdiff_t abreast;           /* planes a unit, scattered at once */
    ptrdiff_t ring, slot, far;   /* gathered: rows of output in the ring, room for each; how far, in places, an output may lie
                                    before a cell of its window */
    ptrdiff_t ahead;             /* rows of output found before they are needed */
    size_t bytes;                /* scratch a worker */
} pool_plan;

typedef void (*pool_work)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory); /* on units lo..hi-1 */

INLINE ptrdiff_t reach(const pool_axis *a) { return a->dilation * (a->kernel - 1) + 1; }

/* the widest window of an axis, in taps */
INLINE ptrdiff_t widest(const pool_axis *a) { return a->kernel ? least(a->kernel, a->in) : least(a->in, a->in / a->out + 2); }
INLINE ptrdiff_t cells_in(const pool_plan *p) { return p->d.in * p->h.in * p->w.in; }
INLINE ptrdiff_t cells_out(const pool_plan *p) { return p->d.out * p->h.out * p->w.out; }

static void cut_channels(pool_plan *p, ptrdiff_t chunk)
{
    p->chunk = most(1, least(p->channels, chunk));
    p->chunks = ceil_div(p->channels, p->chunk);
}

static void cut_blocks(pool_plan *p, ptrdiff_t rows, ptrdiff_t cells)
{
    p->rows = rows;
    p->units = rows * p->tiles * p->chunks;
    p->block = most(1, BLOCK_CELLS / most(1, cells));
}

/* so many windows at once that a line of `room` cells holds them */
static ptrdiff_t windows_of(const pool_axis *a, ptrdiff_t room)
{
    if (a->kernel)
        return room < reach(a) ? 1 : least(a->out, (room - reach(a)) / a->stride + 1);
    double n = (double)(room - 2) * (double)a->out / (double)a->in;
    return n < 1 ? 1 : least(a->out, n > (double)room ? room : (ptrdiff_t)n);
}

/* what fits the scratch of a tile in the forward: in 8-byte cells */
static ptrdiff_t forward_cells(const pool_plan *p)
{
    ptrdiff_t line = p->line * p->chunk + SLACK, outputs = p->tile * p->chunk + SLACK;
    return 2 * line + 2 * p->phases * p->phase + 3 * outputs + 3 * (p->tile + SLACK) + least(p->w.kernel, p->line) +
           DIRECT_LISTS * MOST_DIRECT + 2 * MOST_GATHERED + 6 * (p->chunk + SLACK);
}

INLINE int in_pairs(const pool_plan *p)
{
    const pool_axis *w = &p->w;
    return p->channels == 1 && w->kernel == 2 && w->stride == 2 && w->dilation == 1 && w->before == 0 && w->out <= w->in / 2;
}

INLINE int in_threes(const pool_plan *p)
{
    const pool_axis *w = &p->w;
    return p->channels == 1 && w->kernel == 3 && w->stride <= 2 && w->dilation == 1;
}

/* whether one window holds its plane, which is one axis */
INLINE int is_whole(const pool_plan *p)
{
    const pool_axis *w = &p->w;
    return p->d.in * p->h.in * p->d.out * p->h.out * w->out == 1 && w->kernel == w->in && w->before == 0 && w->after == 0 && w->in < INT32_MAX;
}

/* units are planes (of a chunk of their channels) */
static int plan_whole(pool_plan *p)
{
    p->whole = is_whole(p);
    if (!p->whole)
        return 0;
    cut_channels(p, MOST_CHUNK);
    p->units = p->planes * p->chunks;
    p->block = most(1, BLOCK_CELLS / (p->w.in * p->chunk));
    p->bytes = 0;
    return 1;
}

static void plan_tiles(pool_plan *p, ptrdiff_t cells, ptrdiff_t chunk)
{
    const pool_axis *w = &p->w;
    cut_channels(p, chunk);
    /* a maximum's place in its window is an int32 beside float32 */
    double span = ((double)((widest(&p->d) - 1) * p->d.dilation) * (double)p->h.in + (double)((widest(&p->h) - 1) * p->h.dilation)) * (double)w->in +
                  (double)reach(w);
    ptrdiff_t rows = widest(&p->d) * widest(&p->h), taps = widest(w);
    p->direct = p->chunk >= p->lanes && rows * taps <= MOST_DIRECT && span <= INT32_MAX &&
                (w->kernel == 0 || rows * taps <= rows * w->stride + w->stride + taps);
    p->segments = !p->direct && (w->kernel == 0 || reach(w) > MOST_LINE / 2 / p->chunk || span > INT32_MAX ||
                                 (p->channels == 1 && w->dilation == 1 && ((w->stride > MOST_PHASES && w->kernel >= 8) || (w->out < 8 && w->kernel >= 16))));
    /* four times the reach: else most of a line is folded again for the next tile */
    ptrdiff_t room = most(cells / p->chunk, p->segments ? 1 : least(4 * reach(w), MOST_LINE / p->chunk));
    p->tile = windows_of(w, room);
    p->tiles = ceil_div(w->out, p->tile);
    p->line = p->segments ? least(room, w->in) : (p->tile - 1) * w->stride + reach(w);
    p->by_pixel = p->chunk < p->channels || (w->stride > 1 && (p->chunk >= p->lanes || w->stride > MOST_PHASES));
    p->phases = p->segments || p->by_pixel ? 1 : w->stride;
    p->phase = ceil_div(p->line, p->phases) * p->chunk + SLACK;
    p->far = p->ring = p->gathered = 0;
    p->pairs = in_pairs(p);
    p->threes = in_threes(p) && !p->segments;
    p->bytes = 8 * (size_t)forward_cells(p);
    cut_blocks(p, p->planes * p->d.out * p->h.out, rows * most(p->line, widest(w)) * p->chunk);
}

static void plan_as_laid(pool_plan *p)
{
    if (!plan_whole(p))
        plan_tiles(p, LINE, MOST_CHUNK);
}

/* how many planes of one channel are transposed at once, 0: none. It pays where rows are short */
static ptrdiff_t planes_turned(const pool_plan *p)
{
    ptrdiff_t cells = most(cells_in(p), cells_out(p)), vectors = least(least(4, p->planes / p->lanes), MOST_TURNED / cells);
    return p->channels != 1 || (is_whole(p) && cells >= p->lanes) ? 0 : vectors * p->lanes;
}

/* the plan of such a unit, with channels last; its operands are in scratch */
static pool_plan plan_of_unit(const pool_plan *p, ptrdiff_t planes, void (*plan)(pool_plan *))
{
    pool_plan q = *p;
    q.planes = 1;
    q.channels = planes;
    q.turned = 0;
    plan(&q);
    return q;
}

/* x, outputs and indices of a unit */
INLINE size_t turned_bytes(const pool_plan *p) { return 8 * (size_t)(p->turned * (cells_in(p) + 2 * cells_out(p))); }

static void plan_turned(pool_plan *p, void (*plan)(pool_plan *))
{
    p->turned = planes_turned(p);
    if (p->turned == 0) {
        plan(p);
        return;
    }
    p->units = ceil_div(p->planes, p->turned);
    p->block = most(1, BLOCK_CELLS / (most(cells_in(p), cells_out(p)) * p->turned));
    p->bytes = turned_bytes(p) + plan_of_unit(p, p->turned, plan).bytes;
}

static void plan_forward(pool_plan *p) { plan_turned(p, plan_as_laid); }

/* avg_pool: rows of three vectors and more are averaged faster in registers than turned */
static void plan_average(pool_plan *p)
{
    p->turned = 0;
    if (in_threes(p) && p->w.out >= 3 * SIMD_BYTES / 8)
        plan_as_laid(p);
    else
        plan_forward(p);
}

/* avg_pool_backward: units are rows of x */
static void plan_rows_back(pool_plan *p)
{
    const pool_axis *w = &p->w;
    if (plan_whole(p))
        return;
    p->pairs = in_pairs(p) && p->d.kernel && p->h.kernel;
    cut_channels(p, MOST_CHUNK);
    p->segments = w->kernel == 0 || reach(w) > MOST_LINE / 2 / p->chunk ||
                  (w->stride > 1 && (p->chunk >= p->lanes || w->stride > MOST_PHASES));
    ptrdiff_t room = most(1, LINE / p->chunk);
    p->tile = least(w->in, room);
    p->tiles = ceil_div(w->in, p->tile);
    p->line = p->tile;
    p->phases = p->segments ? 0 : w->stride;
    p->back = p->segments ? least(2 * room, w->out) : p->tile / w->stride + 2 + (reach(w) - 1) / w->stride;
    p->phase = p->segments ? 0 : (p->tile / w->stride + 2) * p->chunk + SLACK;
    p->bytes = 8 * (size_t)(p->line * p->chunk + 2 * p->back * p->chunk + p->phases * p->phase +
                            (p->segments ? 3 * (p->back + p->tile) : w->kernel) + 3 * SLACK);
    ptrdiff_t over = p->d.kernel ? ceil_div(p->d.kernel, p->d.stride) : p->d.out / p->d.in + 2;
    over *= p->h.kernel ? ceil_div(p->h.kernel, p->h.stride) : p->h.out / p->h.in + 2;
    cut_blocks(p, p->planes * p->d.in * p->h.in, (1 + over) * p->tile * p->chunk);
}

static void plan_backward(pool_plan *p) { plan_turned(p, plan_rows_back); }

/* whether gradients of the maximum are gathered row by row, and the ring of rows that it takes. Comparing pays for long rows, and where
 * phases are laid together in vectors */
static void plan_gather(pool_plan *p)
{
    p->gathered = !p->segments && p->tiles == 1 && p->d.in == 1 && p->d.out == 1 && p->h.kernel && p->w.kernel &&
                  p->h.kernel * p->w.kernel <= MOST_GATHERED &&
                  (p->by_pixel ? p->chunk >= p->lanes && (p->channels % p->chunk == 0 || p->channels % p->chunk >= p->lanes) : p->w.out * p->chunk >= 32 && (p->phases <= 2 || p->chunk > 1));
    if (!p->gathered)
        return;
    ptrdiff_t held = (reach(&p->h) - 1) / p->h.stride + 1;
    p->far = p->by_pixel ? 0 : (reach(&p->w) - 1) / p->phases * p->chunk;
    p->slot = p->tile * p->chunk + 2 * p->far + SLACK;
    for (p->ring = 1; p->ring < held || (p->ring < 16 + held && p->ring * p->slot <= LINE / 2);)
        p->ring *= 2;
    p->ahead = p->ring - held;
    p->gathered = p->ring * p->slot <= MOST_LINE;
    p->bytes = 8 * (size_t)(forward_cells(p) + 2 * p->ring * p->slot + 3 * p->tile + 3 * p->w.in);
}

/* whether no cell is in two windows */
INLINE int is_apart(const pool_axis *a) { return a->kernel > 0 && a->kernel <= a->stride && a->dilation == 1; }

/* whether the gradients of threes are made in strips, whose sums are kept of as many rows as a window has */
static int plan_strips(pool_plan *p)
{
    p->strips = !p->apart && p->threes && p->d.in == 1 && p->d.out == 1 && p->h.kernel >= 1 && p->h.kernel <= STRIP_ROWS &&
                (p->h.dilation == 1 || p->h.kernel == 1) && p->tiles == 1 && p->w.in <= LINE;
    if (!p->strips)
        return 0;
    p->phases = p->w.stride;
    p->phase = p->slot = ceil_div(most(p->w.out, ceil_div(p->w.in + p->w.before, p->phases)), 16) * 16 + SLACK; /* whole lines of cache */
    p->bytes = 8 * (size_t)((STRIP_RING + STRIP_SUMS + 1) * p->phases * p->slot);
    return 1;
}

/* whether every cell between the first window and the last is in one */
INLINE int is_gapless(const pool_axis *a) { return a->kernel == 0 || (a->stride <= a->kernel && (a->dilation == 1 || a->kernel == 1)); }

static int plan_patches(pool_plan *p)
{
    p->patches = p->chunk >= p->lanes && widest(&p->d) * widest(&p->h) * widest(&p->w) <= MOST_PATCH && is_gapless(&p->d) &&
                 is_gapless(&p->h) && is_gapless(&p->w);
    if (p->patches)
        p->bytes = 0;
    return p->patches;
}

/* gradients of the maximum: a unit is a part of a plane (of a chunk of its channels), which its worker owns */
static void plan_parts(pool_plan *p)
{
    plan_forward(p);
    if (p->turned || p->whole)
        return;
    plan_tiles(p, 4 * LINE, 64);
    const pool_axis *a = p->d.in > 1 ? &p->d : p->h.in > 1 ? &p->h : &p->w;
    ptrdiff_t whole = p->planes * p->chunks, cells = cells_in(p) * p->chunk;
    p->parts = whole >= 16 || whole == 0 ? 1 : least(16 / whole, cells / BLOCK_CELLS);
    ptrdiff_t overlap = a->kernel ? 4 * reach(a) : 4 * (a->in / a->out + 2);
    p->part = most(ceil_div(a->in, most(1, p->parts)), overlap);
    p->parts = ceil_div(a->in, p->part);
    p->units = whole * p->parts;
    p->block = p->parts > 1 ? 1 : most(1, BLOCK_CELLS / cells);
    p->apart = p->pairs && is_apart(&p->d) && is_apart(&p->h) && (p->d.in > 1 || p->h.in > 1 || p->parts == 1);
    if (!plan_strips(p) && !plan_patches(p) && !p->apart)
        plan_gather(p);
}

/* the same from indices, which may lie anywhere in a plane: a unit is a plane (of a chunk of its channels), or several */
static void plan_scatter(pool_plan *p)
{
    p->turned = 0;
    if (plan_whole(p))
        return;
    plan_tiles(p, 4 * LINE, 64);
    plan_gather(p);
    p->gathered = p->gathered && p->h.dilation == 1 && p->w.dilation == 1 && p->channels > 1 && cells_in(p) <= INT32_MAX / 4 &&
                  p->h.kernel <= p->h.stride && p->w.kernel <= p->w.stride; /* else scattering is as fast */
    p->abreast = p->channels == 1 && p->planes >= 16 ? ABREAST : 1;
    p->units = ceil_div(p->planes, p->abreast) * p->chunks;
    p->block = most(1, BLOCK_CELLS / (cells_in(p) * p->chunk * p->abreast));
    p->bytes = p->gathered ? p->bytes : 0;
}

/* one worker: `work` on blocks of units until none is left */
INLINE ptrdiff_t blocks_of(const pool_plan *p) { return ceil_div(p->units, p->block); }

static void work_blocks(pool_plan *p, pool_work work, void *memory)
{
    for (;;) {
        ptrdiff_t b = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED);
        if (b >= blocks_of(p))
            return;
        work(p, b * p->block, least((b + 1) * p->block, p->units), memory);
    }
}

/* ---- where a unit is */

typedef struct {
    ptrdiff_t tile, row, plane, d, h; /* row: of the tile; plane, d, h: the same, of nd by nh rows a plane */
} pool_cursor;

INLINE pool_cursor cursor_at(const pool_plan *p, ptrdiff_t unit, ptrdiff_t nd, ptrdiff_t nh)
{
    pool_cursor c;
    c.tile = unit / p->rows;
    c.row = unit % p->rows;
    c.h = c.row % nh;
    c.d = c.row / nh % nd;
    c.plane = c.row / nh / nd;
    return c;
}

/* to the next unit; 1 when it is the first of another tile */
INLINE int cursor_next(pool_cursor *c, const pool_plan *p, ptrdiff_t nd, ptrdiff_t nh)
{
    c->row++;
    if (++c->h < nh)
        return 0;
    c->h = 0;
    if (++c->d < nd)
        return 0;
    c->d = 0;
    c->plane++;
    if (c->row < p->rows)
        return 0;
    c->row = c->plane = 0;
    c->tile++;
    return 1;
}

/* over n rows of one plane, of which the last is not passed */
INLINE void cursor_skip(pool_cursor *c, ptrdiff_t n)
{
    c->row += n - 1;
    c->h += n - 1;
}

/* the columns and channels of a tile of the output */
typedef struct {
    ptrdiff_t number;
    ptrdiff_t c, channels;  /* first channel, how many */
    ptrdiff_t o, outputs;   /* first output column, how many */
    ptrdiff_t origin;       /* column of x at the line's place 0 */
    ptrdiff_t lo, hi, span; /* places lo..hi-1 of the line lie in x, of `span` that windows touch */
} pool_tile;

static pool_tile tile_of(const pool_plan *p, ptrdiff_t n)
{
    const pool_axis *w = &p->w;
    pool_tile t;
    t.number = n;
    t.c = n / p->tiles * p->chunk;
    t.channels = least(p->chunk, p->channels - t.c);
    t.o = n % p->tiles * p->tile;
    t.outputs = least(p->tile, w->out - t.o);
    if (p->segments) {
        pool_window last = window(w, t.o + t.outputs - 1);
        /* with dilation the first window's first tap need not be the lowest, nor the last one's last the highest */
        t.origin = w->kernel ? most(0, t.o * w->stride - w->before) : window(w, t.o).first;
        t.lo = 0;
        t.hi = (w->kernel ? least(w->in, (t.o + t.outputs - 1) * w->stride - w->before + reach(w)) : last.first + last.taps) - t.origin;
        t.span = t.hi;
    } else {
        t.origin = t.o * w->stride - w->before;
        t.lo = most(0, -t.origin);
        t.span = (t.outputs - 1) * w->stride + reach(w);
        t.hi = least(t.span, w->in - t.origin);
    }
    return t;
}

/* the place of cell i of a line of n channels in its phases */
INLINE ptrdiff_t place_of(const pool_plan *p, ptrdiff_t i, ptrdiff_t n) { return i % p->phases * p->phase + i / p->phases * n; }

/* the divisor of an average is a product of one number an axis: that of W, and that of D and H */
INLINE double taps_counted(const pool_plan *p, pool_window w) { return (double)(p->include_pad ? w.counted : w.taps); }

INLINE double rows_counted(const pool_plan *p, pool_window d, pool_window h)
{
    return p->divisor != 0 ? p->divisor : taps_counted(p, d) * taps_counted(p, h);
}

INLINE double columns_counted(const pool_plan *p, pool_window w) { return p->divisor != 0 ? 1 : taps_counted(p, w); }

/* the cells of the window (d, h, w) as distances from its first, for channels-last x: at most MOST_DIRECT */
static ptrdiff_t direct_taps(const pool_plan *p, pool_window d, pool_window h, pool_window w, ptrdiff_t *offset)
{
    ptrdiff_t n = 0, area = p->h.in * p->w.in;
    for (ptrdiff_t i = 0; i < d.taps; i++)
        for (ptrdiff_t j = 0; j < h.taps; j++)
            for (ptrdiff_t k = 0; k < w.taps; k++)
                offset[n++] = i * p->d.dilation * area + j * p->h.dilation * p->w.in + k * p->w.dilation;
    return n;
}

INLINE void put_index(const pool_plan *p, ptrdiff_t o, ptrdiff_t at)
{
    if (p->index_size == 8)
        ((int64_t *)p->index)[o] = at;
    else if (p->index_size == 4)
        ((int32_t *)p->index)[o] = (int32_t)at;
}

/* lists of a window's cells, kept by how many rows and columns it has */
typedef struct {
    ptrdiff_t d[DIRECT_LISTS], h[DIRECT_LISTS], w[DIRECT_LISTS], taps[DIRECT_LISTS]; /* taps 0: none yet */
} direct_lists;

INLINE const ptrdiff_t *direct_list(const pool_plan *p, direct_lists *kept, ptrdiff_t *lists, pool_window d, pool_window h, pool_window w, ptrdiff_t *taps)
{
    ptrdiff_t i = 4 * (h.taps & 3) + (w.taps & 3), *list = lists + i * MOST_DIRECT;
    if (kept->taps[i] == 0 || kept->d[i] != d.taps || kept->h[i] != h.taps || kept->w[i] != w.taps) {
        kept->d[i] = d.taps;
        kept->h[i] = h.taps;
        kept->w[i] = w.taps;
        kept->taps[i] = direct_taps(p, d, h, w, list);
    }
    *taps = kept->taps[i];
    return list;
}

enum { NOWHERE = -1, NO_TILE = -1 }; /* the place of a maximum that is not there; the tile of new scratch */

/* few rows are the rule: with their number constant the loops over them unroll */
#define BY_ROWS(nd, nh, CALL)           \
    if ((nd) == 1 && (nh) == 1) {       \
        CALL(1, 1);                     \
    } else if ((nd) == 1 && (nh) == 2) {\
        CALL(1, 2);                     \
    } else if ((nd) == 1 && (nh) == 3) {\
        CALL(1, 3);                     \
    } else {                            \
        CALL(nd, nh);                   \
    }

#define REAL_BODY "pool_pixels_real.h"
#include "for_each_real.h"
#define REAL_BODY "pool_join_real.h"
#include "for_each_real.h"
#define REAL_BODY "pool_spans_real.h"
#include "for_each_real.h"
#define REAL_BODY "pool_whole_real.h"
#include "for_each_real.h"
/* of maxima: pool_max_real.h */
#define NO_ROW (IS_F64 ? INT64_MAX : INT32_MAX)
#define KEEPS(v, best) mor(vle(v, best), visnan(best))
/* the same, and among equals that of the lower code */
#define PRECEDES(v, c, best, code) \
    mor(mnot(KEEPS(v, best)), mand(mor(veq(v, best), mand(visnan(v), visnan(best))), ivlt(c, code)))
#define BEATS_ONE(v, best) ((!((v) <= (best)) && (best) == (best)))
#define PRECEDES_ONE(v, c, best, code) (BEATS_ONE(v, best) || (((v) == (best) || ((v) != (v) && (best) != (best))) && (c) < (code)))
#define REAL_BODY "pool_max_fold_real.h"
#include "for_each_real.h"
#define REAL_BODY "pool_threes_real.h"
#include "for_each_real.h"
#define REAL_BODY "pool_max_real.h"
#include "for_each_real.h"
#define REAL_BODY "pool_max_strip_real.h"
#include "for_each_real.h"
#define REAL_BODY "pool_max_patch_real.h"
#include "for_each_real.h"
#define REAL_BODY "pool_max_back_real.h"
#include "for_each_real.h"
#undef NO_ROW
#undef KEEPS
#undef PRECEDES
#undef BEATS_ONE
#undef PRECEDES_ONE
#define REAL_BODY "pool_avg_real.h"
#include "for_each_real.h"
#define REAL_BODY "pool_avg_back_real.h"
#include "for_each_real.h"
#define REAL_BODY "pool_work_real.h"
#include "for_each_real.h"
#endif
