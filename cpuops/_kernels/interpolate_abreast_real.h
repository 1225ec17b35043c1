/* interpolate_abreast_real.h: small planes one a lane: every cell is a vector of planes, in the order and with the sums of
 * interpolate_rows_real.h. Included by interpolate.h only. */

/* n terms of output t of W, for each of `rows` rows */
INLINE void FN(column_abreast_of)(const FN(terms) *t, ptrdiff_t n, const real *x, ptrdiff_t line, ptrdiff_t rows, real *to, ptrdiff_t to_line)
{
    for (ptrdiff_t r = 0; r < rows; r++, x += line, to += to_line)
        vstore(to, n ? FN(turned_sum)(x, t->index, t->weight, n, LANES) : vzero());
}

FUNC void FN(columns_abreast)(const resample_axis *w, const real *x, ptrdiff_t rows, real *to)
{
    ptrdiff_t line = w->in * LANES, to_line = w->out * LANES;
    for (ptrdiff_t o = 0; o < w->out; o++, to += LANES) {
        FN(terms) t = FN(terms_of)(w, o);
        if (t.n == 2)
            FN(column_abreast_of)(&t, 2, x, line, rows, to, to_line);
        else if (t.n == 4)
            FN(column_abreast_of)(&t, 4, x, line, rows, to, to_line);
        else
            FN(column_abreast_of)(&t, t.n, x, line, rows, to, to_line);
    }
}

/* row h of what rows of `line` cells make */
INLINE void FN(row_abreast)(const resample_axis *axis, const real *x, ptrdiff_t line, ptrdiff_t h, real *to)
{
    FN(terms) t = FN(terms_of)(axis, h);
    const char *rows[RUN];
    for (ptrdiff_t k = 0; k < t.n; k++)
        rows[k] = (const char *)(x + t.index[k] * line * LANES);
    FN(sum_rows)(rows, t.weight, t.n, to, line * LANES, 0, 0);
}

FUNC void FN(unit_abreast)(const resample_plan *p, ptrdiff_t unit, void *memory)
{
    const resample_axis *h = &p->h, *w = &p->w;
    ptrdiff_t plane = unit * LANES, planes = least(LANES, p->planes - plane), in = h->in * w->in, out = h->out * w->out;
    real *x = (real *)memory, *between = x + in * LANES, *to = between + cells_between(p) * LANES;
    FN(turn)((const real *)p->x + plane * in, in, planes, LANES, x);
    if (p->columns_before)
        FN(columns_abreast)(w, x, h->in, between);
    for (ptrdiff_t o = 0; o < h->out; o++) {
        if (p->columns_before) {
            FN(row_abreast)(h, between, w->out, o, to + o * w->out * LANES);
        } else {
            FN(row_abreast)(h, x, w->in, o, between);
            FN(columns_abreast)(w, between, 1, to + o * w->out * LANES);
        }
    }
    FN(turn_back)(to, LANES, out, planes, (real *)p->out + plane * out);
}
