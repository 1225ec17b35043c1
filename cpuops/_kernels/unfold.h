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
    FOLD_LINE = 256,      /* cells of a class that are summed at a time: 2 KB of doubles */
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

INLINE ptrdiff_t unfold_gcd(ptrdiff_t a, ptrdiff_t b)
{
    while (b) {
        ptrdiff_t r = a % b;
        a = b, b = r;
    }
    return a;
}

/* The taps that reach a row of x. Those of a row of the kernel come in classes: tap j and every hop-th after it reach the
 * cells first, first + sw, ... only, cell number m of these through window m + shift of tap j and `back` less of each next one.
 * Class 0 has `first`, `shift` and `taps`; the next one's are told by `turn`, `slide` and `full`. Rows of the kernel that are hop_h
 * apart reach the same rows of x, likewise */
typedef struct {
    ptrdiff_t classes, hop, back, tap_step, first, turn, shift, slide, taps, full; /* full: the last class with that many taps */
    ptrdiff_t most, longest;                      /* cells of class `first`, which after `longest` are one less */
    ptrdiff_t hop_h, back_h, row_step; /* of the columns, from a row of the kernel to the next that counts */
    ptrdiff_t rows, source;                       /* of a row of x: rows of the kernel, and where window 0 of the first tap is */
} fold_taps;

INLINE void fold_all_taps(const unfold_plan *p, fold_taps *t)
{
    const ptrdiff_t windows = p->oh * p->ow;
    t->hop = p->sw / unfold_gcd(p->sw, p->dw);
    t->classes = unfold_min(t->hop, p->kw);
    t->back = t->hop * p->dw / p->sw;
    t->tap_step = t->hop * windows;
    t->first = -p->left % p->sw;
    t->first += t->first < 0 ? p->sw : 0;
    t->shift = (t->first + p->left) / p->sw;
    t->turn = p->dw % p->sw, t->slide = p->dw / p->sw;
    t->taps = (p->kw - 1) / t->hop + 1, t->full = (p->kw - 1) % t->hop;
    t->most = (p->w - 1) / p->sw + 1, t->longest = (p->w - 1) % p->sw;
    t->hop_h = p->sh / unfold_gcd(p->sh, p->dh);
    t->back_h = t->hop_h * p->dh / p->sh;
    t->row_step = t->hop_h * p->kw * windows - t->back_h * p->ow;
}

INLINE ptrdiff_t unfold_quotient(ptrdiff_t a, ptrdiff_t b) { return b == 1 ? a : b == 2 ? a >> 1 : a / b; } /* a >= 0 */

INLINE void fold_row_taps(const unfold_plan *p, ptrdiff_t row, fold_taps *t)
{
    ptrdiff_t i = 0, above = row + p->top;
    t->rows = 0;
    for (; i < t->hop_h && i < p->kh && above >= 0; i++, above -= p->dh) {
        const ptrdiff_t window = unfold_quotient(above, p->sh);
        if (window * p->sh != above)
            continue;
        const ptrdiff_t u = window < p->oh ? 0 : unfold_quotient(window - p->oh, t->back_h) + 1;
        const ptrdiff_t end = unfold_min(unfold_quotient(p->kh - 1 - i, t->hop_h), unfold_quotient(window, t->back_h)) + 1;
        t->rows = unfold_max(0, end - u);
        t->source = (i + u * t->hop_h) * p->kw * p->oh * p->ow + (window - u * t->back_h) * p->ow;
        return;
    }
}

/* sums of cells from..to-1 of a class: of each tap where in the columns cell 0 would be, and the cells that it reaches */
typedef struct {
    ptrdiff_t from, to;
    int n, started;
    ptrdiff_t source[FOLD_BATCH], first[FOLD_BATCH], end[FOLD_BATCH];
    double sum[FOLD_LINE]; /* so far, once started */
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
