/* grid_table_real.h: where a tile of places lies in x, and what its taps weigh. Included by grid_sample.h only.
 *
 * In double, without branches, in passes that are each a vector loop. A place g along an axis of L cells is the coordinate
 *
 *   i = (g + 1) / 2 * (L - 1)           align_corners       (g + 1) * L / 2 - 1/2    else
 *
 * di/dg = half. Outside of x: zeros, or i is brought into x (bilinear, nearest) or each tap's cell is (bicubic).
 */

typedef struct {
    ptrdiff_t at[MOST_TAPS][GRID_TILE]; /* cell along the axis, from -1 to size */
    real weight[MOST_TAPS][GRID_TILE];
    real slope[MOST_TAPS][GRID_TILE];   /* d weight / d g */
} FN(grid_axis);

/* from here on a product of quotient and divisor is not exact */
#define FAR_AWAY 0x1p50

/* i mirrored into 0..size-1, turns: the sign of the slope; infinities become NaN. far: i may be FAR_AWAY */
INLINE double FN(mirrored)(double i, double size, int align, int far, double *turns)
{
    double low = align ? 0 : -0.5, span = align ? size - 1 : size, from = i - low, v = from < 0 ? -from : from;
    if (span == 0) { /* align_corners and one cell */
        *turns = 0;
        return i - i;
    }
    double times = floor(v / span), rest = v - times * span, odd = times - 2 * floor(times * 0.5);
    if (far) {
        rest = fmod(v, 2 * span);
        odd = rest >= span;
        rest -= odd != 0 ? span : 0;
    }
    *turns = (from < 0 ? -1.0 : 1.0) * (1 - 2 * odd);
    return (odd != 0 ? span - rest : rest) + low;
}

/* keeps NaN */
INLINE double FN(clipped)(double i, double low, double high) { return i < low ? low : i > high ? high : i; }

INLINE int FN(any_far)(const double *i, ptrdiff_t n)
{
    int far = 0;
    for (ptrdiff_t k = 0; k < n; k++)
        far |= !(i[k] < FAR_AWAY && i[k] > -FAR_AWAY);
    return far;
}

INLINE void FN(mirror)(double *i, double *di, ptrdiff_t n, double size, double half, int align, int far)
{
    for (ptrdiff_t k = 0; k < n; k++) {
        double turns;
        i[k] = FN(mirrored)(i[k], size, align, far, &turns);
        if (di)
            di[k] = half * turns;
    }
}

/* the same in a vector loop where it may be */
static void FN(mirror_all)(double *i, double *di, ptrdiff_t n, double size, double half, int align)
{
    if (FN(any_far)(i, n))
        FN(mirror)(i, di, n, size, half, align, 1);
    else if (align)
        FN(mirror)(i, di, n, size, half, 1, 0);
    else
        FN(mirror)(i, di, n, size, half, 0, 0);
}

/* i of n places, and di/dg after padding */
static void FN(coordinates)(const grid_plan *p, const real *grid, ptrdiff_t n, double size, double *i, double *di)
{
    double half = (p->align ? size - 1 : size) / 2, shift = p->align ? 0 : -0.5;
    for (ptrdiff_t k = 0; k < n; k++) {
        i[k] = ((double)grid[2 * k] + 1) * half + shift;
        di[k] = half;
    }
    if (p->padding == GRID_REFLECTION && p->taps < 4)
        FN(mirror_all)(i, di, n, size, half, p->align != 0);
    if (p->padding != GRID_ZEROS && p->taps < 4)
        for (ptrdiff_t k = 0; k < n; k++) {
            di[k] = i[k] <= 0 || i[k] >= size - 1 ? 0 : di[k];
            i[k] = FN(clipped)(i[k], 0, size - 1);
        }
    else if (p->padding != GRID_REFLECTION) /* farther out there is nothing else */
        for (ptrdiff_t k = 0; k < n; k++)
            i[k] = FN(clipped)(i[k], -4, size + 4);
}

#define CUBIC_A (-0.75)
/* Keys' kernel at distance d, and its derivative: inside one cell, and from one to two */
INLINE double FN(cubic_near)(double d) { return ((CUBIC_A + 2) * d - (CUBIC_A + 3)) * d * d + 1; }
INLINE double FN(cubic_near_slope)(double d) { return (3 * (CUBIC_A + 2) * d - 2 * (CUBIC_A + 3)) * d; }
INLINE double FN(cubic_far)(double d) { return ((CUBIC_A * d - 5 * CUBIC_A) * d + 8 * CUBIC_A) * d - 4 * CUBIC_A; }
INLINE double FN(cubic_far_slope)(double d) { return (3 * CUBIC_A * d - 10 * CUBIC_A) * d + 8 * CUBIC_A; }

/* n places; grid points to this axis' coordinate of the first */
FUNC void FN(axis_table)(const grid_plan *p, const real *grid, ptrdiff_t n, ptrdiff_t length, FN(grid_axis) *t)
{
    double i[GRID_TILE], di[GRID_TILE], first[GRID_TILE], nothing[GRID_TILE], size = (double)length;
    FN(coordinates)(p, grid, n, size, i, di);
    for (ptrdiff_t k = 0; k < n; k++) {
        nothing[k] = i[k] - i[k]; /* 0, or NaN of what is no number */
        i[k] = nothing[k] == 0 ? i[k] : -8;
        first[k] = p->taps == 1 ? __builtin_rint(i[k]) : floor(i[k]);
    }
    if (p->taps == 1)
        for (ptrdiff_t k = 0; k < n; k++) {
            t->at[0][k] = (ptrdiff_t)FN(clipped)(first[k], -1, size);
            t->weight[0][k] = (real)(1 + nothing[k]);
            t->slope[0][k] = 0;
        }
    else if (p->taps == 2)
        for (ptrdiff_t k = 0; k < n; k++) {
            double far = i[k] - first[k] + nothing[k];
            t->at[0][k] = (ptrdiff_t)FN(clipped)(first[k], -1, size);
            t->at[1][k] = (ptrdiff_t)FN(clipped)(first[k] + 1, -1, size);
            t->weight[0][k] = (real)(1 - far);
            t->weight[1][k] = (real)far;
            t->slope[0][k] = (real)(-di[k] + nothing[k]);
            t->slope[1][k] = (real)(di[k] + nothing[k]);
        }
    else {
        for (ptrdiff_t k = 0; k < n; k++) {
            double d = i[k] - first[k] + nothing[k];
            t->weight[0][k] = (real)FN(cubic_far)(d + 1);
            t->weight[1][k] = (real)FN(cubic_near)(d);
            t->weight[2][k] = (real)FN(cubic_near)(1 - d);
            t->weight[3][k] = (real)FN(cubic_far)(2 - d);
            t->slope[0][k] = (real)(di[k] * FN(cubic_far_slope)(d + 1));
            t->slope[1][k] = (real)(di[k] * FN(cubic_near_slope)(d));
            t->slope[2][k] = (real)(-di[k] * FN(cubic_near_slope)(1 - d));
            t->slope[3][k] = (real)(-di[k] * FN(cubic_far_slope)(2 - d));
        }
        double low = p->padding == GRID_ZEROS ? -1 : 0, high = p->padding == GRID_ZEROS ? size : size - 1;
        for (int tap = 0; tap < 4; tap++) {
            for (ptrdiff_t k = 0; k < n; k++)
                i[k] = first[k] + (tap - 1);
            if (p->padding == GRID_REFLECTION)
                FN(mirror_all)(i, 0, n, size, 1, p->align != 0);
            for (ptrdiff_t k = 0; k < n; k++)
                t->at[tap][k] = (ptrdiff_t)(nothing[k] == 0 ? FN(clipped)(i[k], low, high) : -1);
        }
    }
}
#undef CUBIC_A
#undef FAR_AWAY
