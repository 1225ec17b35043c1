/* reduce_gradients_real.h: gradients of reductions, for one scalar type. Included by reduce.h only. */

/* out = exp(x - m) * f along a run, and in a tile whose columns have their own m and f */
FUNC void FN(exp_scale_run)(const real *x, real *out, ptrdiff_t n, real m, real f)
{
    const vec shift = vset(m), factor = vset(f);
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vstore(out + i, vexp(vload(x + i) - shift) * factor);
    if (i < n)
        vstore_n(out + i, vexp(vload_n(x + i, n - i) - shift) * factor, n - i);
}
FUNC void FN(exp_scale_tile)(const real *x, real *out, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step, const real *m,
                             const real *f)
{
    for (ptrdiff_t r = 0; r < rows; r++)
        EACH(c, width)
        {
            ptrdiff_t k = COUNT(c, width);
            vec e = vexp(vload_n(x + r * step + c, k) - vload_n(m + c, k));
            vstore_n(out + r * step + c, e * vload_n(f + c, k), k);
        }
}

/* The matrices of `rows` by `width` are handed out whole, several a task, or cut into blocks of rows. */
typedef struct {
    ptrdiff_t cell, segment, row, rows;
} FN(Share);

INLINE ptrdiff_t FN(share)(const Reduction *p, ptrdiff_t i, FN(Share) * s)
{
    ptrdiff_t size = most(1, REDUCE_BLOCK / most(1, p->width)), blocks = cut(p->rows, size);
    s->row = 0;
    s->segment = 0;
    if (blocks > 1) {
        s->row = i % blocks * size;
        i /= blocks;
    }
    if (p->segments > 1) {
        s->segment = i % p->segments;
        i /= p->segments;
    }
    s->cell = i;
    s->rows = least(size, p->rows - s->row);
    return kept_at(p, s->cell) + reduced_at(p, s->segment) + s->row * p->width;
}

/* every cell that was reduced into a cell of g gets that one, over `divisor` */
FUNC void FN(spread_share)(const Reduction *p, const real *g, real *out, double divisor, ptrdiff_t i)
{
    FN(Share) s;
    real *to = out + FN(share)(p, i, &s);
    ptrdiff_t done = p->width, n = s.rows * p->width;
    for (ptrdiff_t c = 0; c < p->width; c++)
        to[c] = (real)((double)g[s.cell * p->width + c] / divisor);
    if (p->width == 1) {
        for (ptrdiff_t c = 1; c < n; c++)
            to[c] = to[0];
        return;
    }
    for (; done < n; done += least(done, n - done))
        memcpy(to + done, to, (size_t)least(done, n - done) * sizeof(real));
}

/* g * softmax: exp(x - m) * g / sum, from logsumexp's m and sum */
FUNC void FN(exp_share)(const Reduction *p, const real *x, const real *m, const double *sum, const real *g, real *out,
                        ptrdiff_t i)
{
    FN(Share) s;
    ptrdiff_t at = FN(share)(p, i, &s), w = p->width;
    m += s.cell * w;
    sum += s.cell * w;
    g += s.cell * w;
    if (w == 1) {
        FN(exp_scale_run)(x + at, out + at, s.rows, *m, (real)(*g / *sum));
        return;
    }
    for (ptrdiff_t column = 0; column < w; column += REDUCE_TILE) {
        real shift[REDUCE_TILE], factor[REDUCE_TILE];
        ptrdiff_t tile = least(w - column, REDUCE_TILE), fold = tile < w ? 1 : most(1, least(REDUCE_FOLD / tile, s.rows));
        for (ptrdiff_t c = 0; c < fold * tile; c++) {
            shift[c] = m[column + c % tile];
            factor[c] = (real)(g[column + c % tile] / sum[column + c % tile]);
        }
        const real *from = x + at + column;
        real *to = out + at + column;
        ptrdiff_t whole = s.rows / fold, left = s.rows % fold, done = whole * fold * w;
        FN(exp_scale_tile)(from, to, whole, fold * tile, fold * w, shift, factor);
        FN(exp_scale_tile)(from + done, to + done, left != 0, left * tile, 0, shift, factor);
    }
}

/* g to the cells at `index` (flat over the reduced axes); the others are 0 already */
FUNC void FN(place_cell)(const Reduction *p, const int64_t *index, const real *g, real *out, ptrdiff_t cell)
{
    for (ptrdiff_t c = 0; c < p->width; c++) {
        int64_t i = index[cell * p->width + c];
        out[kept_at(p, cell) + reduced_at(p, i / p->rows) + i % p->rows * p->width + c] = g[cell * p->width + c];
    }
}
