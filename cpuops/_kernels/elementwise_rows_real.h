/* elementwise_rows_real.h: gradients of a pair of which one operand is a row that all rows of the other share, for one scalar
 * type. Included by elementwise.h only.
 *
 * The gradient to the whole operand is written, that to the row is summed in double, four rows at a time, so that a sum is
 * loaded and stored once for four. Both in one loop would be slower: where rows are nearly 4 KB apart, a load waits for the
 * store of the row before. The order of a sum is that of the rows, whatever the thread count.
 * A row begins anywhere in a cache line: its first cells are written apart, so that no store of a vector touches two lines. While
 * four rows of float32 are summed, the next four are asked for (of float64, which take twice as long, they come by themselves).
 */

/* OUT dfull of one row of IN g, full, row */
#define B_ROWS(name, f, dx, dy)                                                                                              \
    INLINE void FN(whole_##name)(const real *g, const real *full, const real *row, int row_is_x, real *dfull, ptrdiff_t n)   \
    {                                                                                                                        \
        const ptrdiff_t before = (ptrdiff_t)(-(uintptr_t)dfull % SIMD_BYTES / sizeof(real));                                 \
        ptrdiff_t c = before < n ? before : n;                                                                               \
        if (c) {                                                                                                             \
            vec a = vload_n(g, c), b = vload_n(full, c), r = vload_n(row, c);                                                \
            vstore_n(dfull, row_is_x ? FN(dy_##name)(a, r, b) : FN(dx_##name)(a, b, r), c);                                  \
        }                                                                                                                    \
        for (; c + 4 * LANES <= n; c += 4 * LANES) {                                                                         \
            vec to[4];                                                                                                       \
            for (int k = 0; k < 4; k++) {                                                                                    \
                vec a = vload(g + c + k * LANES), b = vload(full + c + k * LANES), r = vload(row + c + k * LANES);           \
                to[k] = row_is_x ? FN(dy_##name)(a, r, b) : FN(dx_##name)(a, b, r);                                          \
            }                                                                                                                \
            for (int k = 0; k < 4; k++)                                                                                      \
                vstore(dfull + c + k * LANES, to[k]);                                                                        \
        }                                                                                                                    \
        for (; c < n; c += LANES) {                                                                                          \
            const ptrdiff_t m = n - c < LANES ? n - c : LANES;                                                               \
            vec a = vload_n(g + c, m), b = vload_n(full + c, m), r = vload_n(row + c, m);                                    \
            vstore_n(dfull + c, row_is_x ? FN(dy_##name)(a, r, b) : FN(dx_##name)(a, b, r), m);                              \
        }                                                                                                                    \
    }                                                                                                                        \
    /* INOUT sum of the row's gradient over `count` rows, `step` apart; it has room for whole vectors */                     \
    INLINE void FN(summed_##name)(const real *g, const real *full, const real *row, int row_is_x, double *sum, int count,    \
                                  ptrdiff_t n, ptrdiff_t step)                                                               \
    {                                                                                                                        \
        for (ptrdiff_t c = 0; c < n; c += LANES) {                                                                           \
            const ptrdiff_t m = n - c;                                                                                       \
            const vec r = m >= LANES ? vload(row + c) : vload_n(row + c, m);                                                 \
            for (int k = 0; !IS_F64 && k < count; k++)                                                                       \
                __builtin_prefetch(g + (count + k) * step + c);                                                              \
            wsums to[4];                                                                                                     \
            for (int k = 0; k < count; k++) {                                                                                \
                const real *gk = g + k * step + c, *fk = full + k * step + c;                                                \
                vec a = m >= LANES ? vload(gk) : vload_n(gk, m), b = m >= LANES ? vload(fk) : vload_n(fk, m);                \
                to[k] = FN(wsplit)(row_is_x ? FN(dx_##name)(a, r, b) : FN(dy_##name)(a, b, r));                              \
            }                                                                                                                \
            for (int h = 0; h < (IS_F64 ? 1 : 2); h++) {                                                                     \
                wvec s = count == 4 ? (to[0].v[h] + to[1].v[h]) + (to[2].v[h] + to[3].v[h]) : to[0].v[h];                    \
                double *at = sum + c + h * WLANES;                                                                           \
                vstore_f64(at, vload_f64(at) + s);                                                                           \
            }                                                                                                                \
        }                                                                                                                    \
    }                                                                                                                        \
    INLINE void FN(rows_##name)(const real *g, const real *full, const real *row, int row_is_x, real *dfull, double *sum,    \
                                ptrdiff_t rows, ptrdiff_t n, ptrdiff_t step)                                                 \
    {                                                                                                                        \
        for (ptrdiff_t r = 0; r < rows;) {                                                                                   \
            int count = rows - r < 4 ? 1 : 4;                                                                                \
            for (int k = 0; k < count; k++)                                                                                  \
                FN(whole_##name)(g + (r + k) * step, full + (r + k) * step, row, row_is_x, dfull + (r + k) * step, n);       \
            if (count == 4)                                                                                                  \
                FN(summed_##name)(g + r * step, full + r * step, row, row_is_x, sum, 4, n, step);                            \
            else                                                                                                             \
                FN(summed_##name)(g + r * step, full + r * step, row, row_is_x, sum, 1, n, step);                            \
            r += count;                                                                                                      \
        }                                                                                                                    \
    }                                                                                                                        \
    FUNC void FN(br_##name)(const real *g, const real *full, const real *row, int row_is_x, real *dfull, double *sum,        \
                            ptrdiff_t rows, ptrdiff_t n, ptrdiff_t step)                                                     \
    {                                                                                                                        \
        if (row_is_x)                                                                                                        \
            FN(rows_##name)(g, full, row, 1, dfull, sum, rows, n, step);                                                     \
        else                                                                                                                 \
            FN(rows_##name)(g, full, row, 0, dfull, sum, rows, n, step);                                                     \
    }
PAIR_LIST(B_ROWS)
#undef B_ROWS

typedef void (*FN(pair_rows_fn))(const real *, const real *, const real *, int, real *, double *, ptrdiff_t, ptrdiff_t, ptrdiff_t);
#define B_ROW(name, f, dx, dy) FN(br_##name),
static const FN(pair_rows_fn) FN(PAIR_ROWS)[] = {PAIR_LIST(B_ROW)};
#undef B_ROW

/* Task `task` of PairRows: some rows of some columns; their sum goes to `sums`, or, where the rows are not cut, to drow. */
FUNC void FN(pair_rows)(int op, const PairRows *p, const real *g, const real *full, const real *row, int row_is_x, real *dfull,
                        real *drow, double *sums, ptrdiff_t task)
{
    ptrdiff_t part = task / p->tiles, c = task % p->tiles * PAIR_TILE, r = part * p->share;
    ptrdiff_t width = p->n - c < PAIR_TILE ? p->n - c : PAIR_TILE, rows = p->m - r < p->share ? p->m - r : p->share;
    double sum[PAIR_TILE + LANES_f32] __attribute__((aligned(64)));
    for (ptrdiff_t i = 0; i < width + LANES_f32; i++)
        sum[i] = -0.0;
    FN(PAIR_ROWS)[op](g + r * p->n + c, full + r * p->n + c, row + c, row_is_x, dfull + r * p->n + c, sum, rows, width, p->n);
    if (p->parts > 1)
        memcpy(sums + part * p->n + c, sum, (size_t)width * sizeof(double));
    else
        for (ptrdiff_t i = 0; i < width; i++)
            drow[c + i] = (real)sum[i];
}

/* the sums of the parts, in their order */
FUNC void FN(pair_rows_merge)(const PairRows *p, const double *sums, real *drow)
{
    ptrdiff_t c = 0;
    for (; c + WLANES <= p->n; c += WLANES) {
        wvec s = vload_f64(sums + c);
        for (ptrdiff_t part = 1; part < p->parts; part++)
            s += vload_f64(sums + part * p->n + c);
        wstore(drow + c, s);
    }
    for (; c < p->n; c++) {
        double s = sums[c];
        for (ptrdiff_t part = 1; part < p->parts; part++)
            s += sums[part * p->n + c];
        drow[c] = (real)s;
    }
}
