/* reduce.h: reductions of a C-contiguous array over any set of axes, without moving it.
 *
 * Adjacent axes of one kind are merged, so that kept and reduced groups alternate. The innermost of them make a contiguous
 * matrix of `rows` reduced by `width` kept cells (width 1 where the last group is reduced); around it lie kept groups
 * (`outer` combinations) and reduced groups (`segments`). Output: [outer, width].
 *
 * What a reduction knows of the cells it has seen:
 *   SUM       their sum in double
 *   MAX MIN   their extreme; NaN stays
 *   ARGMAX ARGMIN   that and its first index over the reduced axes in row-major order
 *   LOGSUMEXP a bound m (their maximum, clamped to finite numbers) and the sum in double of exp(x - m)
 * Two such states merge; all cuts below depend on the shape alone, and merging goes in index order.
 */
#ifndef CPUOPS_REDUCE_H
#define CPUOPS_REDUCE_H
#include "vmath.h"
#include "wide.h"
#include <float.h>

enum { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_ARGMAX, REDUCE_ARGMIN, REDUCE_LOGSUMEXP };
enum {
    REDUCE_GROUPS = 32,      /* NumPy has at most 64 axes */
    REDUCE_TILE = 256,       /* columns that are reduced together */
    REDUCE_FOLD = 64,        /* narrow matrices are read as if several rows were one, up to this width */
    REDUCE_SHORT = 32,       /* matrices of so few rows are reduced several at once, */
    REDUCE_BESIDE = 1024,    /* with so many cells */
    REDUCE_RUN = 4096,       /* cells summed before the sum joins a total */
    REDUCE_AHEAD = 1024,     /* bytes that are asked for ahead: a level-2 cache alone is a third slower */
    REDUCE_CHUNK = 16384,    /* cells whose maximum is taken before their exponentials are summed */
    REDUCE_BLOCK = 32768,    /* cells that are worth a task */
    REDUCE_TASKS = 256,      /* most tasks that few large outputs are cut into */
    REDUCE_FEW = 64          /* outputs beyond this number are not cut */
};

typedef struct {
    ptrdiff_t outer, segments, rows, width;
    int kept_groups, reduced_groups;
    ptrdiff_t kept_dims[REDUCE_GROUPS], kept_steps[REDUCE_GROUPS];
    ptrdiff_t reduced_dims[REDUCE_GROUPS], reduced_steps[REDUCE_GROUPS];
    /* from here on by reduction_cut */
    ptrdiff_t tiles;         /* of each output row */
    ptrdiff_t cells;         /* outer * tiles */
    ptrdiff_t parts;         /* that each cell's rows are cut into */
    ptrdiff_t share;         /* cells a task, where parts is 1 */
    ptrdiff_t tasks;
} Reduction;

INLINE ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t most(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
INLINE ptrdiff_t cut(ptrdiff_t n, ptrdiff_t size) { return (n + size - 1) / size; }

FUNC void reduction_cut(Reduction *p)
{
    ptrdiff_t length = p->segments * p->rows, tile = least(p->width, REDUCE_TILE), work = length * tile;
    p->tiles = cut(p->width, REDUCE_TILE);
    p->cells = p->outer * p->tiles;
    p->parts = 1;
    p->share = work ? most(1, REDUCE_BLOCK / work) : REDUCE_BLOCK;
    if (p->cells && p->cells < REDUCE_FEW && work > 2 * REDUCE_BLOCK)
        p->parts = least(length, least(cut(work, REDUCE_BLOCK), cut(REDUCE_TASKS, p->cells)));
    p->tasks = p->parts > 1 ? p->cells * p->parts : cut(p->cells, p->share);
}

/* blocks that the gradients are written in */
FUNC ptrdiff_t reduction_shares(const Reduction *p)
{
    return p->outer * p->segments * cut(p->rows, most(1, REDUCE_BLOCK / most(1, p->width)));
}

/* where combination i of some groups begins */
INLINE ptrdiff_t walk(const ptrdiff_t *dims, const ptrdiff_t *steps, int n, ptrdiff_t i)
{
    ptrdiff_t at = 0;
    for (int g = n - 1; g > 0; g--) {
        at += i % dims[g] * steps[g];
        i /= dims[g];
    }
    return n ? at + i * steps[0] : 0;
}
INLINE ptrdiff_t kept_at(const Reduction *p, ptrdiff_t i) { return walk(p->kept_dims, p->kept_steps, p->kept_groups, i); }
INLINE ptrdiff_t reduced_at(const Reduction *p, ptrdiff_t i)
{
    return walk(p->reduced_dims, p->reduced_steps, p->reduced_groups, i);
}

/* asks for the `bytes` that lie REDUCE_AHEAD behind p; beyond the end of an array that does nothing */
INLINE void ask_ahead(const void *p, int bytes)
{
    for (int i = 0; i < bytes; i += 64)
        __builtin_prefetch((const char *)p + REDUCE_AHEAD + i);
}

INLINE double exp_one(double x) { return vexp_f64(vset_f64(x))[0]; }
INLINE double log_one(double x) { return vlog_f64(vset_f64(x))[0]; }

#define SeenTile FN(SeenTile)
#define sum_run FN(sum_run)
#define extreme_run FN(extreme_run)
#define sum_exp_run FN(sum_exp_run)
#define logsumexp_run FN(logsumexp_run)
#define REAL_MAX FN(REAL_MAX)
#define REAL_MAX_f32 FLT_MAX
#define REAL_MAX_f64 DBL_MAX

/* vectors along `width` columns, the last one perhaps partial */
#define EACH(c, width) for (ptrdiff_t c = 0; c < (width); c += LANES)
#define COUNT(c, width) least((width) - (c), LANES)

#define REAL_BODY "reduce_runs_real.h"
#include "for_each_real.h"
#define REAL_BODY "reduce_tiles_real.h"
#include "for_each_real.h"
#define REAL_BODY "reduce_real.h"
#include "for_each_real.h"
#define REAL_BODY "reduce_gradients_real.h"
#include "for_each_real.h"
#endif
