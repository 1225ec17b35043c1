/* softmax_real.h: the loops of softmax.h for one scalar type. Included by softmax.h only. */

/* What scales or shifts a row: 1/sum, or its logarithm. NaN where the maximum is infinite: sum is then 0 or infinite. */
FUNC void FN(softmax_factors)(const double *sum, real *f, ptrdiff_t width, int logs)
{
    for (ptrdiff_t c = 0; c < width; c += LANES_f64) {
        ptrdiff_t k = least(width - c, LANES_f64);
        double t[LANES_f64] __attribute__((aligned(64)));
        wvec s = vload_n_f64(sum + c, k);
        vmask_f64 fine = mand_f64(vgt_f64(s, vzero_f64()), vlt_f64(s, vset_f64((double)INFINITY)));
        vstore_f64(t, vsel_f64(fine, logs ? vlog_f64(s) : vset_f64(1) / s, vset_f64((double)NAN)));
        for (ptrdiff_t i = 0; i < k; i++)
            f[c + i] = (real)t[i];
    }
}

/* ---- forward: one row, one tile */

/* out = exp(x - m) * f, or (x - m) - f */
FUNC void FN(softmax_write_run)(const real *x, real *out, ptrdiff_t n, real m, real f, int logs)
{
    const vec shift = vset(m), factor = vset(f);
    if (!logs) {
        FN(exp_scale_run)(x, out, n, m, f);
        return;
    }
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vstore(out + i, (vload(x + i) - shift) - factor);
    if (i < n)
        vstore_n(out + i, (vload_n(x + i, n - i) - shift) - factor, n - i);
}

/* n a multiple of LANES */
INLINE void FN(scale_run)(real *out, ptrdiff_t n, real f)
{
    const vec factor = vset(f);
    for (ptrdiff_t i = 0; i < n; i += LANES)
        vstore(out + i, vload(out + i) * factor);
}

/* vexp where x is not above 0, without its upper bound; infinity gives NaN */
INLINE vec FN(exp_below)(vec x)
{
    vec n, r = vm_exp_reduce(vmax_fast(vset((real)(IS_F64 ? -746 : -105)), x), &n, NULL);
    return vm_scale(vm_exp_m1(r) + vset(1), n);
}

/* exp(x - shift) of `count` (1 or 4) vectors goes to out; their sum. In `real`, where the terms may lose a bit: what
 * divides by the sum has as many digits, and two conversions a vector are a sixth of the time */
INLINE vec FN(exp_some)(const real *x, int count, vec shift, real *out)
{
    vec e[4];
    for (int k = 0; k < count; k++)
        e[k] = FN(exp_below)(vload(x + k * LANES) - shift);
    for (int k = 0; k < count; k++)
        vstore(out + k * LANES, e[k]);
    return count == 4 ? (e[0] + e[1]) + (e[2] + e[3]) : e[0];
}

/* exp(x - m) of whole vectors goes to out, of a last partial one to `last`, a whole vector (a masked store cannot be
 * forwarded to the load that follows soon); their sum is returned */
INLINE double FN(row_exp)(const real *x, ptrdiff_t n, real m, real *out, real *last)
{
    ptrdiff_t whole = n - n % LANES, i = 0;
    const vec shift = vset(m), lane = viota();
    wvec s = wset(0);
    while (i < whole) {
        /* short sums that join a long one: their roundings do not add up */
        wvec part = wset(0);
        ptrdiff_t end = least(whole, i + 64 * LANES);
        for (; i + 4 * LANES <= end; i += 4 * LANES)
            part += FN(wide_sum)(FN(exp_some)(x + i, 4, shift, out + i));
        for (; i < end; i += LANES)
            part += FN(wide_sum)(FN(exp_some)(x + i, 1, shift, out + i));
        s += part;
    }
    if (whole < n) {
        vec e = vsel(vlt(lane, vset((real)(n - whole))), vexp(vload_n(x + whole, n - whole) - shift), vzero());
        vstore(last, e);
        s += FN(wide_sum)(e);
    }
    return whsum(s);
}

INLINE real FN(row_bound)(const real *x, ptrdiff_t n)
{
    if (n > 2 * LANES)
        return FN(finite_bound)(FN(max_number_run)(x, n));
    /* one expression; the lanes beyond are -inf */
    const vec low = vset(-(real)INFINITY), lane = viota();
    ptrdiff_t k = least(n, LANES);
    vec a = vsel(vlt(lane, vset((real)k)), vload_n(x, k), low);
    if (n > LANES)
        a = vmax_fast(vsel(vlt(lane, vset((real)(n - k))), vload_n(x + k, n - k), low), a);
    return FN(finite_bound)(vhmax(a));
}

/* `rows` rows, some at a time */
INLINE void FN(softmax_rows)(const real *x, real *out, ptrdiff_t rows, ptrdiff_t n, int logs)
{
    ptrdiff_t together = n <= SOFTMAX_CACHED ? SOFTMAX_TOGETHER : 1, whole = n - n % LANES;
    /* the exponentials of a row wait for its maximum: short rows find theirs first (32 cells, v4: a sixth faster; 128: slower) */
    const int is_short = n <= 4 * LANES;
    for (ptrdiff_t r = 0; r < rows; r += together, x += together * n, out += together * n) {
        real m[SOFTMAX_TOGETHER], f[SOFTMAX_TOGETHER], last[SOFTMAX_TOGETHER][LANES] __attribute__((aligned(64)));
        double sum[SOFTMAX_TOGETHER];
        ptrdiff_t k = least(together, rows - r);
        for (ptrdiff_t i = 0; is_short && i < k; i++)
            m[i] = FN(row_bound)(x + i * n, n);
        for (ptrdiff_t i = 0; i < k; i++) {
            if (!is_short)
                m[i] = FN(row_bound)(x + i * n, n);
            sum[i] = logs ? sum_exp_run(x + i * n, n, m[i]) : FN(row_exp)(x + i * n, n, m[i], out + i * n, last[i]);
        }
        FN(softmax_factors)(sum, f, k, logs);
        for (ptrdiff_t i = 0; i < k; i++)
            if (logs)
                FN(softmax_write_run)(x + i * n, out + i * n, n, m[i], f[i], 1);
            else {
                FN(scale_run)(out + i * n, whole, f[i]);
                if (whole < n)
                    vstore_n(out + i * n + whole, vload(last[i]) * vset(f[i]), n - whole);
            }
    }
}

FUNC void FN(softmax_write_tile)(const real *x, real *out, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step, const real *m,
                                 const real *f, int logs)
{
    if (!logs) {
        FN(exp_scale_tile)(x, out, rows, width, step, m, f);
        return;
    }
    for (ptrdiff_t r = 0; r < rows; r++)
        EACH(c, width)
        {
            ptrdiff_t k = COUNT(c, width);
            vstore_n(out + r * step + c, (vload_n(x + r * step + c, k) - vload_n(m + c, k)) - vload_n(f + c, k), k);
        }
}

INLINE vec FN(factors_of)(wvec lo, wvec hi, int logs)
{
    double sum[LANES] __attribute__((aligned(64)));
    real f[LANES] __attribute__((aligned(64)));
    vstore_f64(sum, lo);
    if (!IS_F64)
        vstore_f64(sum + LANES_f64 % LANES, hi);
    FN(softmax_factors)(sum, f, LANES, logs);
    return vload(f);
}

/* One vector of k columns; x may be out. Exponentials of a partial vector go to `kept` (see row_exp). */
INLINE void FN(softmax_column)(const real *x, real *out, ptrdiff_t rows, ptrdiff_t k, ptrdiff_t step, int logs)
{
    real kept[SOFTMAX_SHALLOW * LANES] __attribute__((aligned(64)));
    int keep = k < LANES && rows <= SOFTMAX_SHALLOW;
    vec m = vset(-REAL_MAX);
    for (ptrdiff_t r = 0; r < rows; r++)
        m = vmax_fast(vload_n(x + r * step, k), m);
    m = vmin_fast(m, vset(REAL_MAX));
    wvec lo = wset(0), hi = lo;
    for (ptrdiff_t r = 0; r < rows;) {
        wvec a = wset(0), b = a;
        for (ptrdiff_t end = least(rows, r + 32); r < end; r++) {
            vec e = vexp(vload_n(x + r * step, k) - m);
            if (!logs && keep)
                vstore(kept + r * LANES, e);
            else if (!logs)
                vstore_n(out + r * step, e, k);
            FN(add_wide)(&a, &b, e);
        }
        lo += a;
        hi += b;
    }
    vec f = FN(factors_of)(lo, hi, logs);
    for (ptrdiff_t r = 0; r < rows; r++) {
        vec v = logs   ? (vload_n(x + r * step, k) - m) - f
                : keep ? vload(kept + r * LANES) * f
                       : vload_n(out + r * step, k) * f;
        vstore_n(out + r * step, v, k);
    }
}

FUNC void FN(softmax_tile)(const real *x, real *out, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step, int logs)
{
    ptrdiff_t c = 0;
    if (logs)
        for (; c + LANES <= width; c += LANES)
            FN(softmax_column)(x + c, out + c, rows, LANES, step, 1);
    else
        for (; c + LANES <= width; c += LANES)
            FN(softmax_column)(x + c, out + c, rows, LANES, step, 0);
    if (c < width)
        FN(softmax_column)(x + c, out + c, rows, width - c, step, logs);
}

/* ---- backward: `of` is sum(g s), or sum(g) for logs */

/* a + g s of WLANES cells; products of floats are exact in double, so that fusing them changes no bit */
INLINE wvec FN(add_products)(wvec a, const real *g, const real *s)
{
    return IS_F64 ? a + wload(g) * wload(s) : vfma_f64(wload(g), wload(s), a);
}

INLINE double FN(dot_run)(const real *g, const real *s, ptrdiff_t n)
{
    double total = 0;
    for (ptrdiff_t top = 0; top < n; top += REDUCE_RUN) {
        ptrdiff_t i = top, end = least(n, top + REDUCE_RUN);
        wvec a = wset(0), b = a;
        for (; i + 2 * WLANES <= end; i += 2 * WLANES) {
            ask_ahead(g + i, 2 * WLANES * sizeof(real));
            ask_ahead(s + i, 2 * WLANES * sizeof(real));
            a = FN(add_products)(a, g + i, s + i);
            b = FN(add_products)(b, g + i + WLANES, s + i + WLANES);
        }
        double rest = 0;
        for (; i < end; i++)
            rest += (double)g[i] * (double)s[i];
        total += whsum(a + b) + rest;
    }
    return total;
}

FUNC void FN(dot_tile)(SeenTile *t, const real *g, const real *s, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step)
{
    for (ptrdiff_t top = 0; top < rows; top += REDUCE_RUN / 8) {
        ptrdiff_t end = least(rows, top + REDUCE_RUN / 8);
        double *part = t->rest.sum;
        for (ptrdiff_t c = 0; c < width; c++)
            part[c] = 0;
        for (ptrdiff_t r = top; r < end; r++) {
            const real *p = g + r * step, *q = s + r * step;
            ptrdiff_t c = 0;
            for (; c + WLANES <= width; c += WLANES)
                vstore_f64(part + c, vload_f64(part + c) + wload(p + c) * wload(q + c));
            for (; c < width; c++)
                part[c] += (double)p[c] * (double)q[c];
        }
        for (ptrdiff_t c = 0; c < width; c++)
            t->sum[c] += part[c];
    }
}

INLINE vec FN(softmax_slope)(vec g, vec s, vec of, int logs)
{
    return logs ? vfnma(vexp(s), of, g) : s * (g - of);
}

INLINE void FN(slope_run)(const real *g, const real *s, real *out, ptrdiff_t n, real total, int logs)
{
    const vec of = vset(total);
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        ask_ahead(out + i, SIMD_BYTES);
        vstore(out + i, FN(softmax_slope)(vload(g + i), vload(s + i), of, logs));
    }
    if (i < n)
        vstore_n(out + i, FN(softmax_slope)(vload_n(g + i, n - i), vload_n(s + i, n - i), of, logs), n - i);
}
INLINE void FN(softmax_slope_run)(const real *g, const real *s, real *out, ptrdiff_t n, real of)
{
    FN(slope_run)(g, s, out, n, of, 0);
}
INLINE void FN(log_softmax_slope_run)(const real *g, const real *s, real *out, ptrdiff_t n, real of)
{
    FN(slope_run)(g, s, out, n, of, 1);
}

INLINE void FN(slope_tile)(const real *g, const real *s, real *out, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step,
                           const real *of, int logs)
{
    for (ptrdiff_t r = 0; r < rows; r++)
        EACH(c, width)
        {
            ptrdiff_t k = COUNT(c, width), at = r * step + c;
            vec v = FN(softmax_slope)(vload_n(g + at, k), vload_n(s + at, k), vload_n(of + c, k), logs);
            vstore_n(out + at, v, k);
        }
}
FUNC void FN(softmax_slope_tile)(const real *g, const real *s, real *out, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step,
                                 const real *of)
{
    FN(slope_tile)(g, s, out, rows, width, step, of, 0);
}
FUNC void FN(log_softmax_slope_tile)(const real *g, const real *s, real *out, ptrdiff_t rows, ptrdiff_t width,
                                     ptrdiff_t step, const real *of)
{
    FN(slope_tile)(g, s, out, rows, width, step, of, 1);
}

INLINE void FN(slope_column)(const real *g, const real *s, real *out, ptrdiff_t rows, ptrdiff_t k, ptrdiff_t step, int logs)
{
    wvec lo = wset(0), hi = lo;
    for (ptrdiff_t r = 0; r < rows;) {
        wvec a = wset(0), b = a;
        for (ptrdiff_t end = least(rows, r + 32); r < end; r++)
            if (logs)
                FN(add_wide)(&a, &b, vload_n(g + r * step, k));
            else
                FN(add_wide_product)(&a, &b, vload_n(g + r * step, k), vload_n(s + r * step, k));
        lo += a;
        hi += b;
    }
    vec of = FN(narrow)(lo, hi);
    for (ptrdiff_t r = 0; r < rows; r++)
        vstore_n(out + r * step, FN(softmax_slope)(vload_n(g + r * step, k), vload_n(s + r * step, k), of, logs), k);
}

FUNC void FN(slope_whole_tile)(const real *g, const real *s, real *out, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step,
                               int logs)
{
    ptrdiff_t c = 0;
    if (logs)
        for (; c + LANES <= width; c += LANES)
            FN(slope_column)(g + c, s + c, out + c, rows, LANES, step, 1);
    else
        for (; c + LANES <= width; c += LANES)
            FN(slope_column)(g + c, s + c, out + c, rows, LANES, step, 0);
    if (c < width)
        FN(slope_column)(g + c, s + c, out + c, rows, width - c, step, logs);
}

/* ---- both directions: x alone, or g and s (the forward's output) when g is not NULL */

FUNC void FN(softmax_whole_rows)(const real *g, const real *x, real *out, ptrdiff_t rows, ptrdiff_t n, int logs)
{
    if (!g && logs)
        FN(softmax_rows)(x, out, rows, n, 1);
    else if (!g)
        FN(softmax_rows)(x, out, rows, n, 0);
    else
        for (ptrdiff_t r = 0; r < rows; r++, g += n, x += n, out += n)
            if (logs)
                FN(log_softmax_slope_run)(g, x, out, n, (real)sum_run(g, n));
            else
                FN(softmax_slope_run)(g, x, out, n, (real)FN(dot_run)(g, x, n));
}

/* sums of a tile into t */
INLINE void FN(softmax_sums)(SeenTile *t, const real *g, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step, int logs)
{
    if (!g)
        FN(logsumexp_tile)(t, x, rows, width, step);
    else if (logs)
        FN(sum_tile)(t, g, rows, width, step);
    else
        FN(dot_tile)(t, g, x, rows, width, step);
}

/* results of a tile: m and f of each column, or f = sum(g s) */
INLINE void FN(softmax_write)(const real *g, const real *x, real *out, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step,
                              const real *m, const real *f, int logs)
{
    if (!g)
        FN(softmax_write_tile)(x, out, rows, width, step, m, f, logs);
    else if (logs)
        FN(log_softmax_slope_tile)(g, x, out, rows, width, step, f);
    else
        FN(softmax_slope_tile)(g, x, out, rows, width, step, f);
}

INLINE void FN(softmax_totals)(const SeenTile *t, const real *g, real *f, ptrdiff_t width, int logs)
{
    if (!g)
        FN(softmax_factors)(t->sum, f, width, logs);
    else
        for (ptrdiff_t c = 0; c < width; c++)
            f[c] = (real)t->sum[c];
}

INLINE void FN(softmax_whole_tile)(const real *g, const real *x, real *out, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step,
                                   int logs)
{
    if (g)
        FN(slope_whole_tile)(g, x, out, rows, width, step, logs);
    else
        FN(softmax_tile)(x, out, rows, width, step, logs);
}

/* ---- SHORT */

INLINE void FN(lay_beside)(const real *x, real *beside, ptrdiff_t cells, ptrdiff_t rows, ptrdiff_t width, int back)
{
    ptrdiff_t wide = cells * width;
    for (ptrdiff_t r = 0; r < rows; r++)
        for (ptrdiff_t i = 0; i < cells; i++)
            for (ptrdiff_t c = 0; c < width; c++) {
                real *apart = (real *)x + (i * rows + r) * width + c, *there = beside + r * wide + i * width + c;
                if (back)
                    *apart = *there;
                else
                    *there = *apart;
            }
}

FUNC void FN(softmax_short)(const Reduction *p, const real *g, const real *x, real *out, ptrdiff_t cell, ptrdiff_t end, int logs)
{
    real beside[REDUCE_BESIDE / 2], g_beside[REDUCE_BESIDE / 2];
    ptrdiff_t w = p->width, rows = p->rows, most_cells = most(1, least(REDUCE_FOLD, REDUCE_BESIDE / 2 / most(1, rows)) / w);
    for (; cell < end; cell += most_cells) {
        ptrdiff_t cells = least(end - cell, most_cells), at = cell * rows * w;
        if (w == 1) {
            FN(lay_beside)(x + at, beside, cells, rows, 1, 0);
            if (g)
                FN(lay_beside)(g + at, g_beside, cells, rows, 1, 0);
        } else {
            FN(lay_beside)(x + at, beside, cells, rows, w, 0);
            if (g)
                FN(lay_beside)(g + at, g_beside, cells, rows, w, 0);
        }
        FN(softmax_whole_tile)(g ? g_beside : NULL, beside, beside, rows, cells * w, cells * w, logs);
        if (w == 1)
            FN(lay_beside)(out + at, beside, cells, rows, 1, 1);
        else
            FN(lay_beside)(out + at, beside, cells, rows, w, 1);
    }
}

/* ---- PARTS */

/* sums of rows lo..hi of one tile of columns into t, narrow matrices folded as in reduce_real.h */
INLINE void FN(softmax_take)(SeenTile *t, const Reduction *p, const real *g, const real *x, ptrdiff_t tile, ptrdiff_t lo,
                             ptrdiff_t hi, int logs)
{
    int op = g ? REDUCE_SUM : REDUCE_LOGSUMEXP;
    ptrdiff_t w = p->width, fold = tile < w ? 1 : most(1, REDUCE_FOLD / tile), wide = fold * tile;
    ptrdiff_t whole = (hi - lo) / fold, left = (hi - lo) % fold, at = lo * w, end = at + whole * fold * w;
    FN(begin)(t, wide, op, 0, wide);
    if (w == 1 && !g)
        logsumexp_run(x + lo, hi - lo, t->m, t->sum);
    else if (w == 1)
        t->sum[0] = logs ? sum_run(g + lo, hi - lo) : FN(dot_run)(g + lo, x + lo, hi - lo);
    else {
        FN(softmax_sums)(t, g ? g + at : NULL, x + at, whole, wide, fold * w, logs);
        if (left)
            FN(softmax_sums)(t, g ? g + end : NULL, x + end, 1, left * tile, 0, logs);
        for (ptrdiff_t c = tile; c < wide; c++)
            FN(merge)(t, c % tile, t, c, op);
    }
}

/* results of rows lo..hi from the sums in t */
INLINE void FN(softmax_give)(const SeenTile *t, const Reduction *p, const real *g, const real *x, real *out, ptrdiff_t tile,
                             ptrdiff_t lo, ptrdiff_t hi, int logs)
{
    ptrdiff_t w = p->width, fold = tile < w ? 1 : most(1, REDUCE_FOLD / tile), wide = fold * tile, at = lo * w;
    ptrdiff_t whole = (hi - lo) / fold, left = (hi - lo) % fold, end = at + whole * fold * w;
    real m[REDUCE_TILE], f[REDUCE_TILE];
    FN(softmax_totals)(t, g, f, tile, logs);
    if (w == 1) {
        if (!g)
            FN(softmax_write_run)(x + lo, out + lo, hi - lo, t->m[0], f[0], logs);
        else if (logs)
            FN(log_softmax_slope_run)(g + lo, x + lo, out + lo, hi - lo, f[0]);
        else
            FN(softmax_slope_run)(g + lo, x + lo, out + lo, hi - lo, f[0]);
        return;
    }
    for (ptrdiff_t c = 0; c < wide; c++) {
        m[c] = t->m[c % tile];
        f[c] = f[c % tile];
    }
    FN(softmax_write)(g ? g + at : NULL, x + at, out + at, whole, wide, fold * w, m, f, logs);
    if (left)
        FN(softmax_write)(g ? g + end : NULL, x + end, out + end, 1, left * tile, 0, m, f, logs);
}

/* ---- scale: of x before, into out; of the gradient after, in out */

/* to = from * scale; to may be from */
FUNC void FN(scale_tile)(const real *from, real *to, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step, double scale)
{
    const vec f = vset((real)scale);
    for (ptrdiff_t r = 0; r < rows; r++, from += step, to += step) {
        ptrdiff_t i = 0;
        for (; i + LANES <= width; i += LANES)
            vstore(to + i, vload(from + i) * f);
        if (i < width)
            vstore_n(to + i, vload_n(from + i, width - i) * f, width - i);
    }
}

/* the forward's operand: x, or out with x scaled */
INLINE const real *FN(scaled)(const Softmax *q, const real *g, const real *x, real *out, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step)
{
    if (g || q->scale == 1)
        return x;
    FN(scale_tile)(x, out, rows, width, step, q->scale);
    return out;
}

INLINE void FN(scale_gradient)(const Softmax *q, const real *g, real *out, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step)
{
    if (g && q->scale != 1)
        FN(scale_tile)(out, out, rows, width, step, q->scale);
}

/* ---- tasks */

/* One task; where cells are cut (parts > 1) it only leaves sums in `states`: softmax_merge and softmax_part do the rest. */
FUNC void FN(softmax_task)(const Softmax *q, const real *g, const real *x, real *out, void *states, int logs, ptrdiff_t task)
{
    const Reduction *p = &q->p;
    ptrdiff_t first = task * p->share, end = least(p->cells, first + p->share);
    if (q->kind == SOFTMAX_SHORT) {
        ptrdiff_t at = first * p->rows * p->width, n = (end - first) * p->rows * p->width;
        const real *from = FN(scaled)(q, g, x + at, out + at, 1, n, n);
        FN(softmax_short)(p, g, from - at, out, first, end, logs);
        FN(scale_gradient)(q, g, out + at, 1, n, n);
        return;
    }
    if (q->kind == SOFTMAX_ROWS) {
        /* with a scale a few rows at a time, which then stay in the first cache */
        ptrdiff_t some = q->scale == 1 ? end - first : SOFTMAX_TOGETHER;
        for (; first < end; first += some) {
            ptrdiff_t at = first * p->rows, rows = least(some, end - first), n = rows * p->rows;
            const real *from = FN(scaled)(q, g, x + at, out + at, 1, n, n);
            FN(softmax_whole_rows)(g ? g + at : NULL, from, out + at, rows, p->rows, logs);
            FN(scale_gradient)(q, g, out + at, 1, n, n);
        }
        return;
    }
    if (p->parts > 1) {
        first = task / p->parts;
        end = first + 1;
    }
    for (ptrdiff_t cell = first; cell < end; cell++) {
        ptrdiff_t column = cell % p->tiles * REDUCE_TILE, tile = least(p->width - column, REDUCE_TILE);
        ptrdiff_t at = cell / p->tiles * p->rows * p->width + column;
        const real *gc = g ? g + at : NULL;
        if (q->kind == SOFTMAX_TILES) {
            const real *from = FN(scaled)(q, g, x + at, out + at, p->rows, tile, p->width);
            FN(softmax_whole_tile)(gc, from, out + at, p->rows, tile, p->width, logs);
            FN(scale_gradient)(q, g, out + at, p->rows, tile, p->width);
        } else if (p->parts > 1) {
            ptrdiff_t size = cut(p->rows, p->parts), lo = least(p->rows, task % p->parts * size);
            ptrdiff_t hi = least(p->rows, lo + size), top = at + lo * p->width;
            const real *from = FN(scaled)(q, g, x + top, out + top, hi - lo, tile, p->width);
            FN(softmax_take)((SeenTile *)states + task, p, gc, from - lo * p->width, tile, lo, hi, logs);
        } else {
            SeenTile t;
            const real *from = FN(scaled)(q, g, x + at, out + at, p->rows, tile, p->width);
            FN(softmax_take)(&t, p, gc, from, tile, 0, p->rows, logs);
            FN(softmax_give)(&t, p, gc, from, out + at, tile, 0, p->rows, logs);
            FN(scale_gradient)(q, g, out + at, p->rows, tile, p->width);
        }
    }
}

FUNC void FN(softmax_merge)(const Softmax *q, int op, void *states)
{
    const Reduction *p = &q->p;
    for (ptrdiff_t cell = 0; cell < p->cells; cell++) {
        ptrdiff_t tile = least(p->width - cell % p->tiles * REDUCE_TILE, REDUCE_TILE);
        SeenTile *t = (SeenTile *)states + cell * p->parts;
        for (ptrdiff_t part = 1; part < p->parts; part++)
            for (ptrdiff_t c = 0; c < tile; c++)
                FN(merge)(t, c, t + part, c, op);
    }
}

FUNC void FN(softmax_part)(const Softmax *q, const real *g, const real *x, real *out, const void *states, int logs, ptrdiff_t task)
{
    const Reduction *p = &q->p;
    ptrdiff_t cell = task / p->parts, column = cell % p->tiles * REDUCE_TILE, tile = least(p->width - column, REDUCE_TILE);
    ptrdiff_t at = cell / p->tiles * p->rows * p->width + column;
    ptrdiff_t size = cut(p->rows, p->parts), lo = least(p->rows, task % p->parts * size), hi = least(p->rows, lo + size);
    const real *from = g || q->scale == 1 ? x : out; /* softmax_task has left x there, scaled */
    FN(softmax_give)((const SeenTile *)states + cell * p->parts, p, g ? g + at : NULL, from + at, out + at, tile, lo, hi, logs);
    FN(scale_gradient)(q, g, out + at + lo * p->width, hi - lo, tile, p->width);
}
