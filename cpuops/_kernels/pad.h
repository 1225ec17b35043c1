/* pad.h: padding of any number of axes, and its transpose.
 *
 * Axes are gathered by the caller: those without padding are part of the one before them or of the `inner` cells that move
 * together. There are two axes at least; a plane is the last two, a row the last one: its cells before x, those of x, those behind. Which cell of x an output cell shows is
 * said by `source` and by nothing else; `next_holder` is its inverse, which the gradient walks.
 */
#ifndef CPUOPS_PAD_H
#define CPUOPS_PAD_H
#include "simd.h"
#include "wide.h"

enum { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT };
enum {
    MOST_AXES = 64,
    PAD_LINE = 512,       /* cells summed at a time: 4 KB of doubles */
    PAD_BLOCK = 32768,    /* cells a block */
    SHORT_ROW = 512,      /* bytes of a row that has no time for tails */
    LONG_COPY = 16384     /* bytes from which memcpy is better */
};

typedef struct {
    ptrdiff_t in, out, before, mode; /* reflect: in > 1 */
} pad_axis;

typedef struct {
    const void *from; /* x; in the gradient output_grad */
    void *to;
    const pad_axis *axes;
    ptrdiff_t n, inner; /* axes; reals a cell */
    double value;
} pad_plan;

typedef void (*pad_work)(const pad_plan *p, ptrdiff_t lo, ptrdiff_t hi); /* on reals lo..hi-1 of `to` */

/* whether a reflection shows no cell of x more than twice */
INLINE int mirrored_once(const pad_axis *a) { return a->before < a->in && a->out - a->before < 2 * a->in; }

/* the cell of x that output cell o shows, -1: none */
INLINE ptrdiff_t source(const pad_axis *a, ptrdiff_t o)
{
    ptrdiff_t p = o - a->before;
    if (p >= 0 && p < a->in)
        return p;
    if (a->mode == PAD_CONSTANT)
        return -1;
    if (a->mode == PAD_EDGE)
        return p < 0 ? 0 : a->in - 1;
    if (mirrored_once(a)) /* a division costs 20 cycles */
        return p < 0 ? -p : 2 * (a->in - 1) - p;
    ptrdiff_t period = 2 * (a->in - 1);
    p %= period;
    p = p < 0 ? p + period : p;
    return p < a->in ? p : period - p;
}

/* the first output cell after `o` that shows cell i of x, -1: none */
INLINE ptrdiff_t next_holder(const pad_axis *a, ptrdiff_t i, ptrdiff_t o)
{
    ptrdiff_t own = i + a->before, next = o + 1;
    if (a->mode == PAD_REFLECT && mirrored_once(a)) {
        ptrdiff_t left = a->before - i, right = a->before + 2 * (a->in - 1) - i;
        next = i > 0 && left > o ? left : own > o ? own : i < a->in - 1 && right > o ? right : a->out;
    } else if (a->mode == PAD_REFLECT) {
        ptrdiff_t period = 2 * (a->in - 1), p = next - a->before;
        ptrdiff_t up = (i - p) % period, down = (-i - p) % period;
        up = up < 0 ? up + period : up;
        down = down < 0 ? down + period : down;
        next += up < down ? up : down;
    } else if (a->mode == PAD_CONSTANT || (i > 0 && i < a->in - 1))
        next = o < own ? own : a->out;
    else {
        if (i > 0 && next < own)
            next = own;
        if (i < a->in - 1 && next > own)
            next = a->out;
    }
    return next < a->out ? next : -1;
}

/* cells lo..hi-1 of x are shown once, at i + before */
INLINE void shown_once(const pad_axis *a, ptrdiff_t *lo, ptrdiff_t *hi)
{
    ptrdiff_t after = a->out - a->in - a->before;
    *lo = 0;
    *hi = a->in;
    if (a->mode == PAD_CONSTANT)
        return;
    if (a->before)
        *lo = a->mode == PAD_EDGE ? 1 : a->before + 1;
    if (after)
        *hi = a->in - 1 - (a->mode == PAD_EDGE ? 0 : after);
    if (*hi < *lo || *lo > a->in)
        *lo = *hi = 0;
}

/* ---- a place in the axes before the last two, and where its plane of the other array is */

typedef struct {
    ptrdiff_t at[MOST_AXES];
    ptrdiff_t plane[MOST_AXES + 1]; /* by axis: the plane so far; plane[n - 2] is the number of its plane, -1 when x has none, or
                                     when output_grad has several */
    ptrdiff_t once[MOST_AXES], twice[MOST_AXES]; /* shown_once */
} pad_cursor;

INLINE void settle(const pad_plan *p, pad_cursor *c, ptrdiff_t axis)
{
    for (; axis < p->n - 2; axis++) {
        ptrdiff_t i = source(&p->axes[axis], c->at[axis]);
        c->plane[axis + 1] = i < 0 || c->plane[axis] < 0 ? -1 : c->plane[axis] * p->axes[axis].in + i;
    }
}

/* the same for a plane of x */
INLINE void settle_back(const pad_plan *p, pad_cursor *c, ptrdiff_t axis)
{
    for (; axis < p->n - 2; axis++) {
        const pad_axis *a = &p->axes[axis];
        int single = c->plane[axis] >= 0 && c->at[axis] >= c->once[axis] && c->at[axis] < c->twice[axis];
        c->plane[axis + 1] = single ? c->plane[axis] * a->out + c->at[axis] + a->before : -1;
    }
}

INLINE void cursor_start(const pad_plan *p, pad_cursor *c, ptrdiff_t plane, int of_x)
{
    c->plane[0] = 0;
    for (ptrdiff_t axis = p->n - 3; axis >= 0; axis--) {
        ptrdiff_t length = of_x ? p->axes[axis].in : p->axes[axis].out;
        c->at[axis] = plane % length;
        plane /= length;
    }
}

/* to the next plane; the first axis that changed */
INLINE ptrdiff_t cursor_step(const pad_plan *p, pad_cursor *c, int of_x)
{
    for (ptrdiff_t axis = p->n - 3; axis >= 0; axis--) {
        if (++c->at[axis] < (of_x ? p->axes[axis].in : p->axes[axis].out))
            return axis;
        c->at[axis] = 0;
    }
    return 0;
}

INLINE ptrdiff_t lesser(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t greater(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

#define REAL_BODY "pad_real.h"
#include "for_each_real.h"
#endif
