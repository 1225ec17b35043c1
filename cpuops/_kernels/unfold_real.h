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

/* adds the batch: cells that all of its taps reach in vectors, those at the ends one by one; the same additions */
FUNC void FN(fold_add)(fold_line *l, const real *x)
{
    ptrdiff_t first = l->from, end = l->to;
    for (int k = 0; k < l->n; k++) {
        first = unfold_max(first, l->first[k]);
        end = unfold_min(end, l->end[k]);
    }
    first = unfold_min(first, l->to);
    end = unfold_max(end, first);
    for (ptrdiff_t m = l->from; m < l->to; m++) {
        if (m == first) /* the vectors' */
            m = end;
        if (m >= l->to)
            break;
        double sum = l->started ? l->sum[m - l->from] : 0;
        for (int k = 0; k < l->n; k++)
            if (l->first[k] <= m && m < l->end[k])
                sum += x[l->source[k] + m];
        l->sum[m - l->from] = sum;
    }
    for (ptrdiff_t m = first; m < end; m += WLANES) {
        const ptrdiff_t n = unfold_min(WLANES, end - m);
        double *to = l->sum + (m - l->from);
        if (n == WLANES) {
            wvec sum = l->started ? vload_f64(to) : wset(0);
            for (int k = 0; k < l->n; k++)
                sum += wload(x + l->source[k] + m);
            vstore_f64(to, sum);
        } else {
            wvec sum = l->started ? vload_n_f64(to, n) : wset(0);
            for (int k = 0; k < l->n; k++)
                sum += wload_n(x + l->source[k] + m, n);
            vstore_n_f64(to, sum, n);
        }
    }
    l->n = 0;
    l->started = 1;
}

/* cells m of the row, at first + m * sw, that taps j0, j0 + hop, ... reach: q = m + shift for the first of these taps */
INLINE void FN(fold_cells)(const unfold_plan *p, const real *x, ptrdiff_t row, ptrdiff_t j0, ptrdiff_t hop, ptrdiff_t shift,
                           fold_line *l)
{
    const ptrdiff_t back = hop * p->dw / p->sw;
    l->n = l->started = 0;
    for (ptrdiff_t i = 0; i < p->kh; i++) {
        const ptrdiff_t above = row + p->top - i * p->dh;
        if (above < 0)
            break;
        if (above % p->sh || above / p->sh >= p->oh)
            continue;
        const ptrdiff_t at = i * p->kw * p->oh * p->ow + above / p->sh * p->ow;
        for (ptrdiff_t j = j0, q = shift; j < p->kw; j += hop, q -= back) {
            const ptrdiff_t first = unfold_max(l->from, -q), end = unfold_min(l->to, p->ow - q);
            if (first >= end)
                continue;
            if (l->n == FOLD_BATCH)
                FN(fold_add)(l, x);
            l->source[l->n] = at + j * p->oh * p->ow + q;
            l->first[l->n] = first;
            l->end[l->n++] = end;
        }
    }
    FN(fold_add)(l, x);
}

/* out[i * step] = the sums */
INLINE void FN(fold_store)(const fold_line *l, real *out, ptrdiff_t step)
{
    const ptrdiff_t n = l->to - l->from;
    ptrdiff_t m = 0;
    if (step == 1)
        for (; m < n; m += WLANES) {
            if (m + WLANES <= n)
                wstore(out + m, vload_f64(l->sum + m));
            else
                wstore_n(out + m, vload_n_f64(l->sum + m, n - m), n - m);
        }
    else
        for (; m < n; m++)
            out[m * step] = (real)l->sum[m];
}

FUNC void FN(fold_row)(const unfold_plan *p, const real *x, ptrdiff_t row, real *out)
{
    fold_line l;
    const ptrdiff_t hop = unfold_hop(p), classes = unfold_min(hop, p->kw);
    if (classes < p->sw)
        FN(put_zeros)(out, p->w);
    for (ptrdiff_t j0 = 0; j0 < classes; j0++) {
        ptrdiff_t first = (j0 * p->dw - p->left) % p->sw;
        first += first < 0 ? p->sw : 0;
        if (first >= p->w)
            continue;
        const ptrdiff_t cells = (p->w - 1 - first) / p->sw + 1, shift = (first + p->left - j0 * p->dw) / p->sw;
        for (l.from = 0; l.from < cells; l.from = l.to) {
            l.to = unfold_min(cells, l.from + FOLD_LINE);
            FN(fold_cells)(p, x, row, j0, hop, shift, &l);
            FN(fold_store)(&l, out + first + l.from * p->sw, p->sw);
        }
    }
}

/* task b */
FUNC void FN(fold_block)(const unfold_plan *p, const real *columns, real *x, ptrdiff_t b)
{
    const ptrdiff_t count = fold_at_once(p), end = unfold_min(fold_units(p), (b + 1) * count);
    for (ptrdiff_t u = b * count; u < end; u++)
        FN(fold_row)(p, columns + u / p->h * p->kh * p->kw * p->oh * p->ow, u % p->h, x + u * p->w);
}
