/* pool_work_real.h: a block of units, in whichever way its plan says. Included by pool.h only.
 *
 * Turned: planes of one channel become the channels of one plane in scratch, whose output is turned back.
 */

/* a plane of `turned` channels in scratch */
typedef struct {
    pool_plan plan;
    real *x, *out;
    void *index, *rest; /* scratch of the plan's own */
} FN(turned);

static FN(turned) FN(turned_of)(const pool_plan *p, void (*plan)(pool_plan *), void *memory)
{
    FN(turned) t;
    t.plan = plan_of_unit(p, p->turned, plan);
    t.x = (real *)memory;
    t.out = t.x + p->turned * cells_in(p);
    t.index = (char *)memory + 8 * p->turned * (cells_in(p) + cells_out(p));
    t.rest = (char *)memory + turned_bytes(p);
    return t;
}

/* the maxima of planes of x from `plane` on, and with `size` bytes an index where they stand, in t */
static void FN(turned_maxima)(const pool_plan *p, FN(turned) *t, FN(max_scratch) *s, ptrdiff_t plane, ptrdiff_t planes, ptrdiff_t size)
{
    t->plan.x = t->x;
    t->plan.out = t->out;
    t->plan.index = (char *)t->index;
    t->plan.index_size = size;
    FN(turn)((const real *)p->x + plane * cells_in(p), cells_in(p), planes, p->turned, t->x);
    if (t->plan.whole)
        FN(max_whole)(&t->plan, 0, t->plan.units);
    else
        FN(max_rows_of)(&t->plan, s, 0, t->plan.units);
}

FUNC void FN(max_turned)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    FN(turned) t = FN(turned_of)(p, plan_as_laid, memory);
    FN(max_scratch) s = {0};
    if (!t.plan.whole)
        s = FN(max_scratch_of)(&t.plan, t.rest);
    ptrdiff_t outputs = cells_out(p);
    for (ptrdiff_t u = lo; u < hi; u++) {
        ptrdiff_t plane = u * p->turned, planes = least(p->turned, p->planes - plane);
        FN(turned_maxima)(p, &t, &s, plane, planes, p->index_size);
        FN(turn_back)(t.out, p->turned, outputs, planes, (real *)p->out + plane * outputs);
        char *index = p->index + plane * outputs * p->index_size;
        if (p->index_size == 8)
            turn_back_f64(t.index, p->turned, outputs, planes, (double *)index);
        else if (p->index_size == 4)
            turn_back_f32(t.index, p->turned, outputs, planes, (float *)index);
    }
}

/* in patches of vectors of planes */
FUNC void FN(patches_turned)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    pool_plan unit = plan_of_unit(p, p->turned, plan_patches_turned);
    ptrdiff_t cells = cells_in(p), outputs = cells_out(p);
    real *x = (real *)memory, *out = x + p->turned * cells, *g = out + p->turned * cells;
    for (ptrdiff_t u = lo; u < hi; u++) {
        ptrdiff_t plane = u * p->turned, planes = least(p->turned, p->planes - plane);
        FN(turn)((const real *)p->x + plane * cells, cells, planes, p->turned, x);
        FN(turn)((const real *)p->g + plane * outputs, outputs, planes, p->turned, g);
        FN(patches)(&unit, ceil_div(planes, LANES) * LANES, x, g, 0, 0, p->d.in, out);
        FN(turn_back)(out, p->turned, cells, planes, (real *)p->out + plane * cells);
    }
}

/* the maxima are found in vectors of planes, and each plane's gradients go where they stand */
FUNC void FN(max_turned_back)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    FN(turned) t = FN(turned_of)(p, plan_as_laid, memory);
    FN(max_scratch) s = {0};
    if (!t.plan.whole)
        s = FN(max_scratch_of)(&t.plan, t.rest);
    ptrdiff_t cells = cells_in(p), outputs = cells_out(p);
    for (ptrdiff_t u = lo; u < hi; u++) {
        ptrdiff_t plane = u * p->turned, planes = least(p->turned, p->planes - plane);
        FN(turned_maxima)(p, &t, &s, plane, planes, sizeof(int64_t));
        memset((real *)p->out + plane * cells, 0, (size_t)(planes * cells) * sizeof(real));
        for (ptrdiff_t k0 = 0; k0 < planes; k0 += LANES)
            for (ptrdiff_t o = 0; o < outputs; o++)
                for (ptrdiff_t k = k0; k < least(k0 + LANES, planes); k++) {
                    const int64_t *at = (const int64_t *)t.index + o * p->turned + k;
                    ((real *)p->out)[(plane + k) * cells + *at] += ((const real *)p->g)[(plane + k) * outputs + o];
                }
    }
}

FUNC void FN(avg_turned)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    FN(turned) t = FN(turned_of)(p, plan_as_laid, memory);
    FN(avg_scratch) s = {0};
    if (!t.plan.whole)
        s = FN(avg_scratch_of)(&t.plan, t.rest);
    t.plan.x = t.x;
    t.plan.out = t.out;
    for (ptrdiff_t u = lo; u < hi; u++) {
        ptrdiff_t plane = u * p->turned, planes = least(p->turned, p->planes - plane);
        FN(turn)((const real *)p->x + plane * cells_in(p), cells_in(p), planes, p->turned, t.x);
        if (t.plan.whole)
            FN(avg_whole)(&t.plan, 0, t.plan.units);
        else
            FN(avg_rows_of)(&t.plan, &s, 0, t.plan.units);
        FN(turn_back)(t.out, p->turned, cells_out(p), planes, (real *)p->out + plane * cells_out(p));
    }
}

FUNC void FN(avg_turned_back)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    FN(turned) t = FN(turned_of)(p, plan_rows_back, memory);
    FN(back_scratch) s = {0};
    if (!t.plan.whole)
        s = FN(back_scratch_of)(&t.plan, t.rest);
    t.plan.g = t.out;
    t.plan.out = t.x;
    for (ptrdiff_t u = lo; u < hi; u++) {
        ptrdiff_t plane = u * p->turned, planes = least(p->turned, p->planes - plane);
        FN(turn)((const real *)p->g + plane * cells_out(p), cells_out(p), planes, p->turned, t.out);
        if (t.plan.whole)
            FN(avg_whole_backward)(&t.plan, 0, t.plan.units);
        else
            FN(back_rows_of)(&t.plan, &s, 0, t.plan.units);
        FN(turn_back)(t.x, p->turned, cells_in(p), planes, (real *)p->out + plane * cells_in(p));
    }
}

/* ---- units lo..hi-1; each writes its own cells of out */

FUNC void FN(max_pool)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    if (p->turned) {
        FN(max_turned)(p, lo, hi, memory);
    } else if (p->whole) {
        FN(max_whole)(p, lo, hi);
    } else {
        FN(max_scratch) s = FN(max_scratch_of)(p, memory);
        FN(max_rows_of)(p, &s, lo, hi);
    }
}

FUNC void FN(max_pool_backward)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    if (p->turned && p->patches)
        FN(patches_turned)(p, lo, hi, memory);
    else if (p->turned)
        FN(max_turned_back)(p, lo, hi, memory);
    else if (p->whole)
        FN(max_whole_backward)(p, lo, hi);
    else
        FN(max_planes_back)(p, lo, hi, memory);
}

FUNC void FN(max_pool_scatter)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    if (p->whole)
        FN(max_whole_backward)(p, lo, hi);
    else
        FN(scatter_planes_back)(p, lo, hi, memory);
}

FUNC void FN(avg_pool)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    if (p->turned) {
        FN(avg_turned)(p, lo, hi, memory);
    } else if (p->whole) {
        FN(avg_whole)(p, lo, hi);
    } else {
        FN(avg_scratch) s = FN(avg_scratch_of)(p, memory);
        FN(avg_rows_of)(p, &s, lo, hi);
    }
}

FUNC void FN(avg_pool_backward)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    if (p->turned) {
        FN(avg_turned_back)(p, lo, hi, memory);
    } else if (p->whole) {
        FN(avg_whole_backward)(p, lo, hi);
    } else {
        FN(back_scratch) s = FN(back_scratch_of)(p, memory);
        FN(back_rows_of)(p, &s, lo, hi);
    }
}
