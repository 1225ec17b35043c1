/* loss_real.h: the loops of loss.h for one scalar type. Included by loss.h only. */

/* log of the sums of some rows; NaN where a maximum is infinite */
INLINE void FN(log_sums)(const double *sum, double *log_sum)
{
    for (int i = 0; i < SOFTMAX_TOGETHER; i += LANES_f64) {
        wvec s = vload_f64(sum + i);
        vmask_f64 fine = mand_f64(vgt_f64(s, vzero_f64()), vlt_f64(s, vset_f64((double)INFINITY)));
        vstore_f64(log_sum + i, vsel_f64(fine, vlog_f64(s), vset_f64((double)NAN)));
    }
}

INLINE int FN(ignored)(const CrossEntropy *q, int64_t label) { return q->has_ignore && label == q->ignore; }

/* Losses of `rows` rows: into out where it is not NULL, else added to *sum; *count: rows that are not ignored */
FUNC void FN(cross_entropy_rows)(const CrossEntropy *q, const real *x, const int64_t *labels, real *out, double *sum,
                                 int64_t *count, ptrdiff_t rows)
{
    const double e = q->smoothing;
    const ptrdiff_t n = q->classes;
    for (ptrdiff_t r = 0; r < rows; r += SOFTMAX_TOGETHER) {
        double sums[SOFTMAX_TOGETHER], logs[SOFTMAX_TOGETHER], at[SOFTMAX_TOGETHER];
        ptrdiff_t k = least(SOFTMAX_TOGETHER, rows - r);
        for (ptrdiff_t i = 0; i < SOFTMAX_TOGETHER; i++)
            sums[i] = 1;
        for (ptrdiff_t i = 0; i < k; i++) {
            const real *row = x + (r + i) * n;
            if (FN(ignored)(q, labels[r + i]))
                continue;
            real m;
            if (n <= 2 * LANES) {
                real last[LANES] __attribute__((aligned(64))), whole[2 * LANES];
                m = FN(row_bound)(row, n);
                sums[i] = FN(row_exp)(row, n, m, whole, last);
            } else {
                m = -REAL_MAX;
                sums[i] = 0;
                logsumexp_run(row, n, &m, sums + i);
            }
            /* q . (x - m) */
            at[i] = (double)row[labels[r + i]] - (double)m;
            if (e > 0)
                at[i] = (e < 1 ? (1 - e) * at[i] : 0) + e * (sum_run(row, n) / (double)n - (double)m);
        }
        FN(log_sums)(sums, logs);
        for (ptrdiff_t i = 0; i < k; i++) {
            int skip = FN(ignored)(q, labels[r + i]);
            double loss = skip ? 0 : logs[i] - at[i];
            *count += !skip;
            if (out)
                out[r + i] = (real)loss;
            else
                *sum += loss;
        }
    }
}

/* Gradients of `rows` rows; g: one a row, or one for all (g_step 0), times `scale` */
FUNC void FN(cross_entropy_backward_rows)(const CrossEntropy *q, const real *g, ptrdiff_t g_step, double scale, const real *x,
                                          const int64_t *labels, real *out, ptrdiff_t rows)
{
    const ptrdiff_t n = q->classes, whole = n - n % LANES, together = n <= SOFTMAX_CACHED ? SOFTMAX_TOGETHER : 1;
    const double everywhere = n ? q->smoothing / (double)n : 0;
    for (ptrdiff_t r = 0; r < rows; r += together) {
        double sum[SOFTMAX_TOGETHER], at[SOFTMAX_TOGETHER];
        real last[SOFTMAX_TOGETHER][LANES] __attribute__((aligned(64)));
        ptrdiff_t k = least(together, rows - r);
        for (ptrdiff_t i = 0; i < SOFTMAX_TOGETHER; i++)
            at[i] = 0;
        for (ptrdiff_t i = 0; i < k; i++) {
            if (FN(ignored)(q, labels[r + i]))
                continue;
            const real *row = x + (r + i) * n;
            real m = FN(row_bound)(row, n);
            sum[i] = FN(row_exp)(row, n, m, out + (r + i) * n, last[i]);
            at[i] = (double)row[labels[r + i]] - (double)m;
            if (!(sum[i] > 0 && sum[i] < (double)INFINITY))
                sum[i] = (double)NAN;
        }
        for (ptrdiff_t i = 0; i < SOFTMAX_TOGETHER; i += LANES_f64)
            vstore_f64(at + i, vexp_f64(vload_f64(at + i)));
        for (ptrdiff_t i = 0; i < k; i++) {
            real *to = out + (r + i) * n;
            if (FN(ignored)(q, labels[r + i])) {
                memset(to, 0, (size_t)n * sizeof(real));
                continue;
            }
            double c = (double)g[(r + i) * g_step] * scale;
            const vec factor = vset((real)(c / sum[i])), less = vset((real)(c * everywhere));
            for (ptrdiff_t j = 0; j < whole; j += LANES)
                vstore(to + j, vfms(vload(to + j), factor, less));
            if (whole < n)
                vstore_n(to + whole, vfms(vload(last[i]), factor, less), n - whole);
            to[labels[r + i]] = (real)(c * ((at[i] / sum[i] - everywhere) - (1 - q->smoothing)));
        }
    }
}

INLINE vec FN(squared)(vec x, vec y) { return (x - y) * (x - y); }

FUNC void FN(squared_error)(const real *x, const real *y, real *out, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vstore(out + i, FN(squared)(vload(x + i), vload(y + i)));
    if (i < n)
        vstore_n(out + i, FN(squared)(vload_n(x + i, n - i), vload_n(y + i, n - i)), n - i);
}

FUNC double FN(squared_error_sum)(const real *x, const real *y, ptrdiff_t n)
{
    double total = 0;
    for (ptrdiff_t top = 0; top < n; top += REDUCE_RUN) {
        ptrdiff_t i = top, end = least(n, top + REDUCE_RUN);
        wvec a = wset(0), b = a;
        for (; i + 2 * WLANES <= end; i += 2 * WLANES) {
            wvec p = wload(x + i) - wload(y + i), q = wload(x + i + WLANES) - wload(y + i + WLANES);
            a += p * p;
            b += q * q;
        }
        double rest = 0;
        for (; i < end; i++) {
            double d = (double)x[i] - (double)y[i];
            rest += d * d;
        }
        total += whsum(a + b) + rest;
    }
    return total;
}

/* dx = 2 g (x - y) scale and dy = -dx; g: one a cell, or one for all (g_step 0) */
FUNC void FN(squared_error_backward)(const real *g, ptrdiff_t g_step, double scale, const real *x, const real *y, real *dx,
                                     real *dy, ptrdiff_t n)
{
    const vec all = vset((real)(2 * scale * (g_step || !n ? 1 : (double)g[0])));
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        ptrdiff_t k = least(n - i, LANES);
        vec d = (vload_n(x + i, k) - vload_n(y + i, k)) * all;
        if (g_step)
            d = d * vload_n(g + i, k);
        vstore_n(dx + i, d, k);
        vstore_n(dy + i, vneg(d), k);
    }
}
