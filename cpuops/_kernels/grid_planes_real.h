/* grid_planes_real.h: samples from planes as they lie in x, a vector along the places. Included by grid_sample.h only.
 *
 * cell: the tap's place in a plane, -1 outside; such taps are left out, not multiplied. */

typedef struct {
    FN(grid_axis) x, y;
    inum cell[MOST_TAPS * MOST_TAPS][GRID_TILE];
    ptrdiff_t far_cell[MOST_TAPS * MOST_TAPS][GRID_TILE]; /* instead, in planes of 2^31 cells and more */
    real weight[MOST_TAPS * MOST_TAPS][GRID_TILE];
    real along_x[MOST_TAPS * MOST_TAPS][GRID_TILE], along_y[MOST_TAPS * MOST_TAPS][GRID_TILE]; /* products with one slope */
    real nothing[GRID_TILE];                                                                  /* 0, or NaN of what is no number */
    double sums[2][GRID_TILE];
} FN(grid_tile);

INLINE int FN(far)(const grid_plan *p) { return !IS_F64 && p->height * p->width > INT32_MAX; }

/* the taps of LANES places along an axis, one or two: as axis_table's, but for cells outside, which are what they are */
typedef struct {
    ivec at[2];
    vec weight[2], slope[2];
} FN(few_taps);

INLINE FN(few_taps) FN(few_taps_of)(const double *i, const double *di, int taps)
{
    FN(few_taps) t;
    wsums first, near, far, down, up;
    for (int h = 0; h < (IS_F64 ? 1 : 2); h++) {
        wvec v = vload_f64(i + h * WLANES), nothing = v - v, d = vload_f64(di + h * WLANES);
        v = vsel_f64(veq_f64(nothing, wset(0)), v, wset(-8));
        first.v[h] = taps == 1 ? vround_f64(v) : vfloor_f64(v);
        far.v[h] = v - first.v[h] + nothing;
        near.v[h] = taps == 1 ? wset(1) + nothing : wset(1) - far.v[h];
        down.v[h] = nothing - d;
        up.v[h] = nothing + d;
    }
    t.at[0] = ivof(FN(wjoin)(first));
    t.at[1] = t.at[0] + ivset(1);
    t.weight[0] = FN(wjoin)(near);
    t.weight[1] = FN(wjoin)(far);
    t.slope[0] = FN(wjoin)(down);
    t.slope[1] = FN(wjoin)(up);
    return t;
}

INLINE vmask FN(is_cell)(ivec at, ptrdiff_t size) { return mand(mnot(ivlt(at, ivset(0))), ivlt(at, ivset((inum)size))); }

INLINE void FN(few_tables)(const grid_plan *p, const real *grid, ptrdiff_t n, int taps, int slopes, FN(grid_tile) *t)
{
    double ix[GRID_TILE], dx[GRID_TILE], iy[GRID_TILE], dy[GRID_TILE];
    FN(coordinates)(p, grid, n, (double)p->width, ix, dx);
    FN(coordinates)(p, grid + 1, n, (double)p->height, iy, dy);
    for (ptrdiff_t k = n; k % LANES; k++)
        ix[k] = dx[k] = iy[k] = dy[k] = 0;
    for (ptrdiff_t k = 0; k < n; k += LANES) {
        FN(few_taps) x = FN(few_taps_of)(ix + k, dx + k, taps), y = FN(few_taps_of)(iy + k, dy + k, taps);
        for (int j = 0; j < taps; j++)
            for (int i = 0; i < taps; i++) {
                int tap = j * taps + i;
                vmask inside = mand(FN(is_cell)(x.at[i], p->width), FN(is_cell)(y.at[j], p->height));
                ivstore(t->cell[tap] + k, ivsel(inside, y.at[j] * ivset((inum)p->width) + x.at[i], ivset(-1)));
                vstore(t->weight[tap] + k, y.weight[j] * x.weight[i]);
                if (slopes) {
                    vstore(t->along_x[tap] + k, y.weight[j] * x.slope[i]);
                    vstore(t->along_y[tap] + k, y.slope[j] * x.weight[i]);
                }
            }
        vec weight = vload(t->weight[0] + k);
        vstore(t->nothing + k, weight - weight);
    }
}

enum { FN(MOST_EXACT) = 1 << 24 }; /* cells of an axis that every scalar type counts */

static void FN(plane_tables)(const grid_plan *p, ptrdiff_t image, ptrdiff_t place, ptrdiff_t n, int slopes, FN(grid_tile) *t)
{
    const real *grid = (const real *)p->grid + 2 * (image * p->places + place);
    if (p->taps < 4 && !FN(far)(p) && p->height < FN(MOST_EXACT) && p->width < FN(MOST_EXACT)) {
        if (p->taps == 1)
            FN(few_tables)(p, grid, n, 1, 0, t);
        else if (slopes)
            FN(few_tables)(p, grid, n, 2, 1, t);
        else
            FN(few_tables)(p, grid, n, 2, 0, t);
        return;
    }
    ptrdiff_t width = p->width, height = p->height;
    int far = FN(far)(p);
    FN(axis_table)(p, grid, n, width, &t->x);
    FN(axis_table)(p, grid + 1, n, height, &t->y);
    for (ptrdiff_t j = 0; j < p->taps; j++)
        for (ptrdiff_t i = 0; i < p->taps; i++) {
            ptrdiff_t tap = j * p->taps + i;
            const ptrdiff_t *y = t->y.at[j], *x = t->x.at[i];
            for (ptrdiff_t k = 0; k < n; k++) {
                int inside = (x[k] >= 0) & (x[k] < width) & (y[k] >= 0) & (y[k] < height);
                ptrdiff_t cell = inside ? y[k] * width + x[k] : -1;
                t->cell[tap][k] = (inum)cell;
                if (far)
                    t->far_cell[tap][k] = cell;
                t->weight[tap][k] = t->y.weight[j][k] * t->x.weight[i][k];
            }
            for (ptrdiff_t k = 0; slopes && k < n; k++) {
                t->along_x[tap][k] = t->y.weight[j][k] * t->x.slope[i][k];
                t->along_y[tap][k] = t->y.slope[j][k] * t->x.weight[i][k];
            }
        }
    for (ptrdiff_t k = 0; k < n; k++)
        t->nothing[k] = t->weight[0][k] - t->weight[0][k];
}

INLINE ptrdiff_t FN(cell_of)(const FN(grid_tile) *t, int far, ptrdiff_t tap, ptrdiff_t k)
{
    return far ? t->far_cell[tap][k] : (ptrdiff_t)t->cell[tap][k];
}

INLINE void FN(plane_sample_of)(const real *x, const FN(grid_tile) *t, ptrdiff_t n, int taps, int far, real *out)
{
    for (ptrdiff_t k = 0; k < n; k++) {
        real sum = t->nothing[k];
        for (int tap = 0; tap < taps * taps; tap++) {
            ptrdiff_t cell = FN(cell_of)(t, far, tap, k);
            real v = x[cell < 0 ? 0 : cell], product = t->weight[tap][k] * v;
            sum += cell < 0 ? 0 : product;
        }
        out[k] = sum;
    }
}

/* the same in vectors, GRID_TILE being whole ones: lanes behind n have the cells of an earlier tile, and are masked off */
INLINE void FN(plane_sample_vectors)(const real *x, const FN(grid_tile) *t, ptrdiff_t n, int taps, real *out)
{
    for (ptrdiff_t k = 0; k < n; k += LANES) {
        vmask here = vlt(viota(), vset((real)(n - k)));
        vec sum = vload(t->nothing + k);
        ivec corner = ivload(t->cell[0] + k);
        if (taps == 2 && n - k >= LANES && !many(mor(ivlt(corner, ivset(0)), ivlt(ivload(t->cell[3] + k), ivset(0))))) {
            vec v[4];
            vgather_pairs(x, corner, v, v + 1);
            vgather_pairs(x, ivload(t->cell[2] + k), v + 2, v + 3);
            for (int tap = 0; tap < 4; tap++)
                sum += vload(t->weight[tap] + k) * v[tap];
            vstore(out + k, sum);
            continue;
        }
        for (int tap = 0; tap < taps * taps; tap++) {
            ivec cell = ivload(t->cell[tap] + k);
            vmask inside = mand(here, mnot(ivlt(cell, ivset(0))));
            sum += vsel(inside, vload(t->weight[tap] + k) * vgather(x, cell, inside), vzero());
        }
        if (n - k >= LANES)
            vstore(out + k, sum);
        else
            vstore_n(out + k, sum, n - k);
    }
}

static void FN(plane_sample)(const grid_plan *p, ptrdiff_t unit, void *memory)
{
    FN(grid_tile) *t = (FN(grid_tile) *)memory;
    ptrdiff_t image = unit / p->parts, from = unit % p->parts * p->part, to = at_most(from + p->part, p->places);
    for (ptrdiff_t place = from; place < to; place += GRID_TILE) {
        ptrdiff_t n = at_most(GRID_TILE, to - place);
        FN(plane_tables)(p, image, place, n, 0, t);
        for (ptrdiff_t plane = image * p->channels; plane < (image + 1) * p->channels; plane++) {
            const real *x = (const real *)p->x + plane * p->height * p->width;
            real *out = (real *)p->out + plane * p->places + place;
            if (FN(far)(p)) {
                FN(plane_sample_of)(x, t, n, (int)p->taps, 1, out);
                continue;
            }
#define CALL(taps) FN(plane_sample_vectors)(x, t, n, taps, out)
            BY_TAPS(p->taps, CALL)
#undef CALL
        }
    }
}

/* of several planes at once: neighbours share cells, and one plane's additions to a cell wait for each other */
INLINE void FN(plane_spread)(const grid_plan *p, const FN(grid_tile) *t, const real *g, ptrdiff_t n, int planes, real *out)
{
    ptrdiff_t taps = p->taps * p->taps, cells = p->height * p->width;
    int far = FN(far)(p);
    for (ptrdiff_t k = 0; k < n; k++)
        for (ptrdiff_t tap = 0; tap < taps; tap++) {
            ptrdiff_t cell = FN(cell_of)(t, far, tap, k);
            real weight = t->weight[tap][k];
            if (cell >= 0)
                for (int c = 0; c < planes; c++)
                    out[c * cells + cell] += weight * g[c * p->places + k];
        }
}

static void FN(plane_x_gradient)(const grid_plan *p, ptrdiff_t unit, void *memory)
{
    FN(grid_tile) *t = (FN(grid_tile) *)memory;
    ptrdiff_t image = unit / p->groups, c = unit % p->groups * p->lanes, stop = at_most(c + p->lanes, p->channels);
    ptrdiff_t cells = p->height * p->width;
    memset((real *)p->out + (image * p->channels + c) * cells, 0, (size_t)((stop - c) * cells) * sizeof(real));
    for (ptrdiff_t place = 0; place < p->places; place += GRID_TILE) {
        ptrdiff_t n = at_most(GRID_TILE, p->places - place);
        FN(plane_tables)(p, image, place, n, 0, t);
        const real *g = (const real *)p->g + (image * p->channels + c) * p->places + place;
        real *out = (real *)p->out + (image * p->channels + c) * cells;
        ptrdiff_t left = stop - c;
        for (; left >= 4; left -= 4, g += 4 * p->places, out += 4 * cells)
            FN(plane_spread)(p, t, g, n, 4, out);
        if (left == 3)
            FN(plane_spread)(p, t, g, n, 3, out);
        else if (left == 2)
            FN(plane_spread)(p, t, g, n, 2, out);
        else if (left == 1)
            FN(plane_spread)(p, t, g, n, 1, out);
    }
}

INLINE void FN(plane_lean_of)(const real *x, FN(grid_tile) *t, const real *g, ptrdiff_t n, int taps, int far)
{
    for (ptrdiff_t k = 0; k < n; k++) {
        real along_x = t->nothing[k], along_y = t->nothing[k];
        for (int tap = 0; tap < taps * taps; tap++) {
            ptrdiff_t cell = FN(cell_of)(t, far, tap, k);
            real v = x[cell < 0 ? 0 : cell], in_x = t->along_x[tap][k] * v, in_y = t->along_y[tap][k] * v;
            along_x += cell < 0 ? 0 : in_x;
            along_y += cell < 0 ? 0 : in_y;
        }
        t->sums[0][k] += (double)g[k] * (double)along_x;
        t->sums[1][k] += (double)g[k] * (double)along_y;
    }
}

INLINE void FN(plane_lean_vectors)(const real *x, FN(grid_tile) *t, const real *g, ptrdiff_t n, int taps)
{
    for (ptrdiff_t k = 0; k < n; k += LANES) {
        vmask here = vlt(viota(), vset((real)(n - k)));
        vec along_x = vload(t->nothing + k), along_y = along_x, slope = n - k >= LANES ? vload(g + k) : vload_n(g + k, n - k);
        for (int tap = 0; tap < taps * taps; tap++) {
            ivec cell = ivload(t->cell[tap] + k);
            vmask inside = mand(here, mnot(ivlt(cell, ivset(0))));
            vec v = vgather(x, cell, inside);
            along_x += vsel(inside, vload(t->along_x[tap] + k) * v, vzero());
            along_y += vsel(inside, vload(t->along_y[tap] + k) * v, vzero());
        }
        wsums wg = FN(wsplit)(slope), wx = FN(wsplit)(along_x), wy = FN(wsplit)(along_y);
        for (int h = 0; h < (IS_F64 ? 1 : 2); h++) {
            double *in_x = t->sums[0] + k + h * WLANES, *in_y = t->sums[1] + k + h * WLANES;
            vstore_f64(in_x, vload_f64(in_x) + wg.v[h] * wx.v[h]);
            vstore_f64(in_y, vload_f64(in_y) + wg.v[h] * wy.v[h]);
        }
    }
}

static void FN(plane_grid_gradient)(const grid_plan *p, ptrdiff_t unit, void *memory)
{
    FN(grid_tile) *t = (FN(grid_tile) *)memory;
    ptrdiff_t image = unit / p->parts, from = unit % p->parts * p->part, to = at_most(from + p->part, p->places);
    for (ptrdiff_t place = from; place < to; place += GRID_TILE) {
        ptrdiff_t n = at_most(GRID_TILE, to - place);
        FN(plane_tables)(p, image, place, n, 1, t);
        memset(t->sums, 0, sizeof t->sums);
        for (ptrdiff_t plane = image * p->channels; plane < (image + 1) * p->channels; plane++) {
            const real *x = (const real *)p->x + plane * p->height * p->width, *g = (const real *)p->g + plane * p->places + place;
            if (FN(far)(p)) {
                FN(plane_lean_of)(x, t, g, n, (int)p->taps, 1);
                continue;
            }
#define CALL(taps) FN(plane_lean_vectors)(x, t, g, n, taps)
            BY_TAPS(p->taps, CALL)
#undef CALL
        }
        real *out = (real *)p->out + 2 * (image * p->places + place);
        for (ptrdiff_t k = 0; k < n; k++) {
            out[2 * k] = (real)t->sums[0][k];
            out[2 * k + 1] = (real)t->sums[1][k];
        }
    }
}
