/* unfold_real.h: the body of unfold.h for one scalar type. */

INLINE void FN(put_zeros)(real *out, ptrdiff_t n)
{
    for (; n > LANES; n -= LANES, out += LANES)
        vstore(out, vzero());
    vstore_n(out, vzero(), n);
}

/* out[q] = x[q * step], 0 <= q < n */
INLINE void FN(put_cells)(const real *x, ptrdiff_t step, real *out, ptrdiff_t n)
{
    ptrdiff_t q = 0;
    if (step == 1) {
        for (; q + LANES < n; q += LANES)
            vstore(out + q, vload(x + q));
        if (q < n)
            vstore_n(out + q, vload_n(x + q, n - q), n - q);
    } else if (step == 2) {
        vec even, odd;
        for (; q + LANES < n; q += LANES) {
            vdeal(vload(x + 2 * q), vload(x + 2 * q + LANES), &even, &odd);
            vstore(out + q, even);
        }
        if (q < n) {
            const ptrdiff_t left = 2 * (n - q) - 1;
            const vec a = vload_n(x + 2 * q, unfold_min(left, LANES));
            const vec b = left > LANES ? vload_n(x + 2 * q + LANES, left - LANES) : vzero();
            vdeal(a, b, &even, &odd);
            vstore_n(out + q, even, n - q);
        }
    } else
        for (; q < n; q++)
            out[q] = x[q * step];
}

/* one tap: its cell of every window of a plane */
INLINE void FN(unfold_tap)(const unfold_plan *p, const real *x, ptrdiff_t i, ptrdiff_t j, real *out)
{
    ptrdiff_t p0, p1, q0, q1;
    unfold_inside(i * p->dh - p->top, p->sh, p->h, p->oh, &p0, &p1);
    unfold_inside(j * p->dw - p->left, p->sw, p->w, p->ow, &q0, &q1);
    if (q0 == q1 || p0 == p1) {
        FN(put_zeros)(out, p->oh * p->ow);
        return;
    }
    const real *from = x + (p0 * p->sh + i * p->dh - p->top) * p->w + q0 * p->sw + j * p->dw - p->left;
    FN(put_zeros)(out, p0 * p->ow);
    out += p0 * p->ow;
    if (p->sh == 1 && p->sw == 1 && q0 == 0 && q1 == p->w && q1 == p->ow) {
        FN(put_cells)(from, 1, out, (p1 - p0) * p->ow);
        out += (p1 - p0) * p->ow;
    } else
        for (ptrdiff_t r = p0; r < p1; r++, from += p->sh * p->w, out += p->ow) {
            if (q0)
                FN(put_zeros)(out, q0);
            FN(put_cells)(from, p->sw, out + q0, q1 - q0);
            if (q1 < p->ow)
                FN(put_zeros)(out + q1, p->ow - q1);
        }
    FN(put_zeros)(out, (p->oh - p1) * p->ow);
}

/* task b */
FUNC void FN(unfold_block)(const unfold_plan *p, const real *x, real *columns, ptrdiff_t b)
{
    const ptrdiff_t count = unfold_at_once(p), end = unfold_min(unfold_units(p), (b + 1) * count), tap = p->oh * p->ow;
    for (ptrdiff_t u = b * count; u < end; u++)
        for (ptrdiff_t j = 0; j < p->kw; j++)
            FN(unfold_tap)(p, x + u / p->kh * p->h * p->w, u % p->kh, j, columns + (u * p->kw + j) * tap);
}

/* ---- fold ---- */

/* adds the batch to the sums, or, the last one, writes them to `cells`. Cells that all of its taps reach go in vectors, those
 * at the ends one by one, by the same additions */
INLINE void FN(fold_cell)(fold_line *l, const real *x, ptrdiff_t m, real *cells)
{
    double sum = l->started ? l->sum[m - l->from] : 0;
    for (int k = 0; k < l->n; k++)
        if (l->first[k] <= m && m < l->end[k])
            sum += x[l->source[k] + m];
    if (cells)
        cells[m - l->from] = (real)sum;
    else
        l->sum[m - l->from] = sum;
}

FUNC void FN(fold_add)(fold_line *l, const real *x, real *cells)
{
    ptrdiff_t first = l->from, end = l->to, m;
    for (int k = 0; k < l->n; k++) {
        first = unfold_max(first, l->first[k]);
        end = unfold_min(end, l->end[k]);
    }
    first = unfold_min(first, l->to);
    end = unfold_max(end, first);
    for (m = l->from; m < first; m++)
        FN(fold_cell)(l, x, m, cells);
    for (m = end; m < l->to; m++)
        FN(fold_cell)(l, x, m, cells);
    for (m = first; m < end; m += WLANES) {
        const ptrdiff_t n = unfold_min(WLANES, end - m), at = m - l->from;
        if (n == WLANES) {
            wvec sum = l->started ? vload_f64(l->sum + at) : wset(0);
            for (int k = 0; k < l->n; k++)
                sum += wload(x + l->source[k] + m);
            if (cells)
                wstore(cells + at, sum);
            else
                vstore_f64(l->sum + at, sum);
        } else {
            wvec sum = l->started ? vload_n_f64(l->sum + at, n) : wset(0);
            for (int k = 0; k < l->n; k++)
                sum += wload_n(x + l->source[k] + m, n);
            if (cells)
                wstore_n(cells + at, sum, n);
            else
                vstore_n_f64(l->sum + at, sum, n);
        }
    }
    l->n = 0;
    l->started = 1;
}

/* the sums of cells from..to-1 of a class of `taps` taps, whose first window 0 is at `source`: where they are, in x or `cells` */
INLINE const real *FN(fold_cells)(const unfold_plan *p, const fold_taps *t, const real *x, ptrdiff_t taps, ptrdiff_t source,
                                  ptrdiff_t shift, fold_line *l, real *cells)
{
    l->n = l->started = 0;
    for (ptrdiff_t u = 0; u < t->rows; u++, source += t->row_step) {
        ptrdiff_t at = source, q = shift;
        for (ptrdiff_t j = 0; j < taps; j++, at += t->tap_step, q -= t->back) {
            const ptrdiff_t first = unfold_max(l->from, -q), end = unfold_min(l->to, p->ow - q);
            if (first >= end)
                continue;
            if (t->rows == 1 && taps == 1 && first == l->from && end == l->to)
                return x + at + q + first;
            if (l->n == FOLD_BATCH)
                FN(fold_add)(l, x, NULL);
            l->source[l->n] = at + q;
            l->first[l->n] = first;
            l->end[l->n++] = end;
        }
    }
    FN(fold_add)(l, x, cells);
    return cells;
}

/* out[2 m] = a[m], out[2 m + 1] = b[m], 0 <= m < n */
INLINE void FN(put_pairs)(const real *a, const real *b, real *out, ptrdiff_t n)
{
    ptrdiff_t m = 0;
    vec low, high;
    for (; m + LANES <= n; m += LANES) {
        vzip(vload(a + m), vload(b + m), &low, &high);
        vstore(out + 2 * m, low);
        vstore(out + 2 * m + LANES, high);
    }
    if (m < n) {
        const ptrdiff_t left = 2 * (n - m);
        vzip(vload_n(a + m, n - m), vload_n(b + m, n - m), &low, &high);
        vstore_n(out + 2 * m, low, unfold_min(left, LANES));
        if (left > LANES)
            vstore_n(out + 2 * m + LANES, high, left - LANES);
    }
}

FUNC void FN(fold_row)(const unfold_plan *p, const fold_taps *t, const real *x, real *out)
{
    fold_line l;
    real buffer[2][FOLD_LINE] __attribute__((aligned(64)));
    const int pairs = t->classes == 2 && p->sw == 2;
    if (t->classes < p->sw || t->rows == 0)
        FN(put_zeros)(out, p->w);
    if (t->rows == 0)
        return;
    for (l.from = 0; l.from < t->most; l.from += FOLD_LINE) {
        const real *found[2] = {buffer[0], buffer[1]};
        ptrdiff_t first = t->first, shift = t->shift, source = t->source;
        for (ptrdiff_t j = 0; j < t->classes; j++, source += p->oh * p->ow) {
            l.to = unfold_min(t->most - (first > t->longest), l.from + FOLD_LINE);
            if (l.from < l.to) {
                const real *cells = FN(fold_cells)(p, t, x, t->taps - (j > t->full), source, shift, &l, buffer[pairs ? first : 0]);
                real *to = out + first + l.from * p->sw;
                if (pairs)
                    found[first] = cells;
                else if (p->sw == 1)
                    FN(put_cells)(cells, 1, to, l.to - l.from);
                else
                    for (ptrdiff_t m = 0; m < l.to - l.from; m++)
                        to[m * p->sw] = cells[m];
            }
            first += t->turn, shift -= t->slide;
            if (first >= p->sw)
                first -= p->sw, shift--;
        }
        if (pairs) {
            const ptrdiff_t n = unfold_min(p->w - 2 * l.from, 2 * FOLD_LINE);
            FN(put_pairs)(found[0], found[1], out + 2 * l.from, n / 2);
            if (n % 2)
                out[2 * l.from + n - 1] = found[0][n / 2];
        }
    }
}

/* task b */
FUNC void FN(fold_block)(const unfold_plan *p, const real *columns, real *x, ptrdiff_t b)
{
    const ptrdiff_t count = fold_at_once(p), end = unfold_min(fold_units(p), (b + 1) * count);
    fold_taps taps;
    fold_all_taps(p, &taps);
    for (ptrdiff_t u = b * count; u < end; u++) {
        fold_row_taps(p, u % p->h, &taps);
        FN(fold_row)(p, &taps, columns + u / p->h * p->kh * p->kw * p->oh * p->ow, x + u * p->w);
    }
}
