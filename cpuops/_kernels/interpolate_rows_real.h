/* interpolate_rows_real.h: sums of rows, for one scalar type. uint8 has float's: it is read and written through it. Included by
 * interpolate.h only.
 *
 * Terms are added in the table's order, the first product unfused; after RUN terms a new sum begins. A cell's bits are so
 * the same by every road but the long dot product.
 */

INLINE real FN(fma1)(real a, real b, real c)
{
#if SIMD_FMA && IS_F64
    return __builtin_fma(a, b, c);
#elif SIMD_FMA
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

/* a row of results to one of bytes */
FUNC void FN(store_row)(const real *from, uint8_t *to, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vstore_octets(to + i, vload(from + i));
    if (i < n)
        vstore_octets_n(to + i, vload_n(from + i, n - i), n - i);
}

/* ---- sums of rows: to[c] = sum_t weight[t] rows[t][c], or that added to it */

INLINE vec FN(load_cells)(const char *row, ptrdiff_t c, ptrdiff_t n, int bytes)
{
    if (bytes)
        return n < LANES ? vload_octets_n((const uint8_t *)row + c, n) : vload_octets((const uint8_t *)row + c);
    return n < LANES ? vload_n((const real *)row + c, n) : vload((const real *)row + c);
}

INLINE void FN(sum_rows_of)(const char *const *rows, const real *weight, ptrdiff_t n, real *to, ptrdiff_t cells, int bytes, int add)
{
    ptrdiff_t c = 0;
    for (; c + 4 * LANES <= cells; c += 4 * LANES) {
        vec w = vset(weight[0]), s[4];
        for (int k = 0; k < 4; k++)
            s[k] = w * FN(load_cells)(rows[0], c + k * LANES, LANES, bytes);
        for (ptrdiff_t t = 1; t < n; t++) {
            w = vset(weight[t]);
            for (int k = 0; k < 4; k++)
                s[k] = vfma(w, FN(load_cells)(rows[t], c + k * LANES, LANES, bytes), s[k]);
        }
        for (int k = 0; k < 4; k++)
            vstore(to + c + k * LANES, add ? vload(to + c + k * LANES) + s[k] : s[k]);
    }
    for (; c < cells; c += LANES) {
        ptrdiff_t m = least(LANES, cells - c);
        vec s = vset(weight[0]) * FN(load_cells)(rows[0], c, m, bytes);
        for (ptrdiff_t t = 1; t < n; t++)
            s = vfma(vset(weight[t]), FN(load_cells)(rows[t], c, m, bytes), s);
        if (add)
            s = vload_n(to + c, m) + s;
        vstore_n(to + c, s, m);
    }
}

FUNC void FN(sum_rows)(const char *const *rows, const real *weight, ptrdiff_t n, real *to, ptrdiff_t cells, int bytes, int add)
{
#define SUM(n, bytes, add) FN(sum_rows_of)(rows, weight, n, to, cells, bytes, add)
    if (n == 0) {
        if (!add)
            memset(to, 0, (size_t)cells * sizeof *to);
    } else if (add) {
        if (bytes)
            SUM(n, 1, 1);
        else
            SUM(n, 0, 1);
    } else if (bytes) {
        if (n == 1)
            SUM(1, 1, 0);
        else if (n == 2)
            SUM(2, 1, 0);
        else
            SUM(n, 1, 0);
    } else if (n == 1) {
        SUM(1, 0, 0);
    } else if (n == 2) {
        SUM(2, 0, 0);
    } else if (n == 4) {
        SUM(4, 0, 0);
    } else {
        SUM(n, 0, 0);
    }
#undef SUM
}

/* where the rows of x begin that a row of out is made of: those of one plane, at column c of the first channel */
typedef struct {
    const char *x;
    ptrdiff_t area, row; /* bytes from one d, and from one h, to the next */
} FN(source);

INLINE FN(source) FN(source_of)(const resample_plan *p, ptrdiff_t plane, ptrdiff_t c)
{
    ptrdiff_t item = p->bytes ? 1 : (ptrdiff_t)sizeof(real);
    FN(source) s;
    s.row = p->w.in * p->channels * item;
    s.area = s.row * p->h.in;
    s.x = (const char *)p->x + plane * p->d.in * s.area + c * p->channels * item;
    return s;
}

/* the terms of one output along an axis */
typedef struct {
    const ptrdiff_t *index;
    const real *weight;
    ptrdiff_t n, only; /* index NULL: the one cell `only`, with weight 1 */
} FN(terms);

INLINE FN(terms) FN(terms_of)(const resample_axis *a, ptrdiff_t o)
{
    FN(terms) t = {NULL, NULL, 1, o};
    if (a->start) {
        t.index = a->index + a->start[o];
        t.weight = (const real *)a->weight + a->start[o];
        t.n = a->start[o + 1] - a->start[o];
    }
    return t;
}
INLINE ptrdiff_t FN(cell)(const FN(terms) *t, ptrdiff_t k) { return t->index ? t->index[k] : t->only; }
INLINE real FN(share)(const FN(terms) *t, ptrdiff_t k) { return t->index ? t->weight[k] : 1; }

/* to[0..cells-1] = the terms (d, h) of rows of x; `more`: a row for the sums of RUNS terms */
FUNC void FN(row_of_x)(const resample_plan *p, const FN(source) *s, FN(terms) d, FN(terms) h, real *to, real *more, ptrdiff_t cells)
{
    const char *rows[RUN];
    real weight[RUN];
    ptrdiff_t n = d.n * h.n, i = 0, j = 0;
    if (n == 0)
        FN(sum_rows)(rows, weight, 0, to, cells, 0, 0);
    for (ptrdiff_t k0 = 0; k0 < n; k0 += RUNS) {
        real *part = k0 ? more : to;
        for (ptrdiff_t k = k0; k < least(n, k0 + RUNS); k += RUN) {
            ptrdiff_t m = least(RUN, n - k);
            for (ptrdiff_t t = 0; t < m; t++) {
                rows[t] = s->x + FN(cell)(&d, i) * s->area + FN(cell)(&h, j) * s->row;
                weight[t] = FN(share)(&d, i) * FN(share)(&h, j);
                if (++j == h.n) {
                    j = 0;
                    i++;
                }
            }
            FN(sum_rows)(rows, weight, m, part, cells, p->bytes, k > k0);
        }
        if (k0) {
            const char *both = (const char *)more;
            real one = 1;
            FN(sum_rows)(&both, &one, 1, to, cells, 0, 1);
        }
    }
}
