/* grid_sample_real.h: one way or the other. Included by grid_sample.h only. */

INLINE size_t FN(table_bytes)(void)
{
    size_t stage = sizeof(FN(grid_stage)) + 128, tile = sizeof(FN(grid_tile));
    return stage > tile ? stage : tile;
}

FUNC void FN(sample)(const grid_plan *p, ptrdiff_t unit, void *memory)
{
    (p->staged ? FN(staged_sample) : FN(plane_sample))(p, unit, memory);
}

FUNC void FN(x_gradient)(const grid_plan *p, ptrdiff_t unit, void *memory)
{
    (p->staged ? FN(staged_x_gradient) : FN(plane_x_gradient))(p, unit, memory);
}

FUNC void FN(grid_gradient)(const grid_plan *p, ptrdiff_t unit, void *memory)
{
    (p->staged ? FN(staged_grid_gradient) : FN(plane_grid_gradient))(p, unit, memory);
}

FUNC void FN(plan_of_sample)(grid_plan *p) { plan_sample(p, (ptrdiff_t)sizeof(real), FN(table_bytes)(), 0); }
FUNC void FN(plan_of_x_gradient)(grid_plan *p) { plan_x_gradient(p, (ptrdiff_t)sizeof(real), FN(table_bytes)()); }
FUNC void FN(plan_of_grid_gradient)(grid_plan *p) { plan_grid_gradient(p, (ptrdiff_t)sizeof(real), FN(table_bytes)()); }
