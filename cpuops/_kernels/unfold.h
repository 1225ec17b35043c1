/* unfold.h: windows of images as columns, and back.
 *
 * x is [planes, H, W], the columns are [planes, KH, KW, OH, OW]: cell (i, j, p, q) of a plane is x[p*sh + i*dh - top,
 * q*sw + j*dw - left], or 0 outside of x. unfold reads x and writes columns, fold adds columns up into x: each cell of x is
 * gathered by its own task, tap after tap in the order of the kernel, in double.
 */
#ifndef CPUOPS_UNFOLD_H
#define CPUOPS_UNFOLD_H
#include "simd.h"
#include "wide.h"

enum {
    UNFOLD_BLOCK = 65536, /* columns' cells that a task reads or writes: tens of microseconds */
    FOLD_LINE = 512,      /* cells of x that are summed at a time: 4 KB of doubles */
    FOLD_BATCH = 16       /* taps that are added without storing the sum in between */
};

typedef struct {
    ptrdiff_t planes, h, w, kh, kw, oh, ow, sh, sw, dh, dw, top, left;
} unfold_plan;

INLINE ptrdiff_t unfold_min(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t unfold_max(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
/* a / b rounded up, b > 0; most divisors are 1 */
INLINE ptrdiff_t unfold_ceil(ptrdiff_t a, ptrdiff_t b) { return b == 1 ? a : a > 0 ? (a - 1) / b + 1 : -(-a / b); }

/* the windows first..end-1 whose cell start + o*step lies in 0..length-1 */
INLINE void unfold_inside(ptrdiff_t start, ptrdiff_t step, ptrdiff_t length, ptrdiff_t windows, ptrdiff_t *first, ptrdiff_t *end)
{
    *first = unfold_min(windows, unfold_max(0, unfold_ceil(-start, step)));
    *end = unfold_max(*first, unfold_min(windows, unfold_ceil(length - start, step)));
}

/* taps 0, hop, 2*hop, ... of a row of the kernel reach the same cells of x modulo the stride */
INLINE ptrdiff_t unfold_hop(const unfold_plan *p)
{
    ptrdiff_t a = p->sw, b = p->dw;
    while (b) {
        ptrdiff_t r = a % b;
        a = b, b = r;
    }
    return p->sw / a;
}

/* one sum for each of some cells of x, `step` apart in x and consecutive in the columns: a source a tap, with the cells m
 * that it reaches. `sum` has the cells from `from` on */
typedef struct {
    ptrdiff_t from, to;
    int n, started;
    ptrdiff_t source[FOLD_BATCH], first[FOLD_BATCH], end[FOLD_BATCH]; /* source: of cell m, m cells further */
    double sum[FOLD_LINE];
} fold_line;

/* tasks: some units, which are a row of taps of a plane (unfold) or a row of x (fold) */
INLINE ptrdiff_t unfold_units(const unfold_plan *p) { return p->planes * p->kh; }
INLINE ptrdiff_t fold_units(const unfold_plan *p) { return p->planes * p->h; }
INLINE ptrdiff_t unfold_at_once(const unfold_plan *p) { return unfold_max(1, UNFOLD_BLOCK / unfold_max(1, p->kw * p->oh * p->ow)); }
INLINE ptrdiff_t fold_at_once(const unfold_plan *p)
{
    const ptrdiff_t column = p->kh * p->kw * p->oh * p->ow;
    return unfold_max(1, UNFOLD_BLOCK / unfold_max(1, unfold_max(p->w, column / unfold_max(1, p->h))));
}

#define REAL_BODY "unfold_real.h"
#include "for_each_real.h"
#endif
