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
#include "turned.h"
#include "wide.h"

enum {
    LINE = 4096,        /* cells a line: 32 KB of doubles */
    MOST_LINE = 65536,  /* of one window's reach, before it is cut into segments */
    MOST_CHUNK = 256,   /* channels at a time */
    MOST_PHASES = 8,
    MOST_DIRECT = 64,   /* taps of a window without a line */
    DIRECT_LISTS = 16,  /* of such taps, by the window's rows and columns */
    MOST_TURNED = 4096, /* vectors of a unit: 256 KB of 64 bytes each */
    MOST_ABREAST = 256, /* cells of a plane that is one window, when several are folded at once */
    MOST_PATCH = 16,    /* taps of a window whose gradient is added to out at once */
    FEWEST_PATCHED = 256, /* cells of a turned plane whose gradient is, where no windows share most of their cells */
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

#include "pool_plan.h"

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
