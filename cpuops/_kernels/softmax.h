/* softmax.h: softmax, log-softmax and their gradients over the middle axis of [outer, n, inner].
 *
 *   softmax      e = exp(x - m), out = e / sum(e)              backward  s (g - sum(g s))
 *   log-softmax  out = (x - m) - log(sum(exp(x - m)))          backward  g - exp(y) sum(g)
 *
 * With a scale it is x scale that is normalised, as if multiplied before, and the gradient that is scaled: a task does that to
 * its own cells in `out`, while they are in the cache. m is the maximum; sums are taken in double. How an array is walked depends on its shape alone:
 *   SHORT   very few values to normalise: several matrices are laid side by side
 *   ROWS    inner 1: two passes over a row that stays in the cache, and one that scales
 *   TILES   the same for columns side by side
 *   PARTS   the rest, as reduce.h cuts it: sums of parts, merged in order, then every part is written
 */
#ifndef CPUOPS_SOFTMAX_H
#define CPUOPS_SOFTMAX_H
#include "reduce.h"

enum { SOFTMAX_SHORT, SOFTMAX_ROWS, SOFTMAX_TILES, SOFTMAX_PARTS };
enum {
    SOFTMAX_SHORTEST = 8,               /* rows up to this are laid side by side, */
    SOFTMAX_NARROW = 3,                 /* and matrices of so few columns */
    SOFTMAX_TOGETHER = 8,               /* rows that share one vector of divisions or logarithms, */
    SOFTMAX_CACHED = 2048,              /* if they are not longer */
    SOFTMAX_LONGEST = 2 * REDUCE_BLOCK, /* rows that a task takes whole */
    SOFTMAX_DEEPEST = 1024,             /* columns that a task takes whole; where they hardly fill a vector, */
    SOFTMAX_SHALLOW = 128               /* only up to this */
};

typedef struct {
    Reduction p;
    int kind;
    double scale;
} Softmax;

FUNC void softmax_cut(Softmax *q, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner)
{
    Reduction *p = &q->p;
    p->outer = outer;
    p->segments = 1;
    p->rows = n;
    p->width = inner;
    p->kept_groups = 1;
    p->reduced_groups = 0;
    p->kept_dims[0] = outer;
    p->kept_steps[0] = n * inner;
    reduction_cut(p);
    if (inner == 1 ? n <= SOFTMAX_SHORTEST : inner <= SOFTMAX_NARROW && n <= REDUCE_SHORT)
        q->kind = SOFTMAX_SHORT;
    else if (inner == 1 && n <= SOFTMAX_LONGEST)
        q->kind = SOFTMAX_ROWS;
    else if (inner > 1 && n <= (inner >= SIMD_BYTES / 8 ? SOFTMAX_DEEPEST : SOFTMAX_SHALLOW))
        q->kind = SOFTMAX_TILES;
    else
        q->kind = SOFTMAX_PARTS;
    if (q->kind != SOFTMAX_PARTS && p->parts > 1) {
        p->parts = 1;
        p->tasks = cut(p->cells, p->share);
    }
}

#define REAL_BODY "softmax_real.h"
#include "for_each_real.h"
#endif
