/* norm_runs_real.h: sums and elements of runs of cells, for one scalar type. Included by norm_real.h only. */

/* ---- runs: n cells that share a mean. Sums are of four vectors by pairs, then in double, in one order for every n */

INLINE vec FN(load_some)(const real *p, ptrdiff_t n) { return n >= LANES ? vload(p) : vload_n(p, n); }

INLINE void FN(store_some)(real *p, vec v, ptrdiff_t n)
{
    if (n >= LANES)
        vstore(p, v);
    else
        vstore_n(p, v, n);
}

/* lanes n.. are 0 */
INLINE vec FN(first_lanes)(vec v, ptrdiff_t n) { return n >= LANES ? v : vsel(vlt(viota(), vset((real)n)), v, vzero()); }
INLINE vec FN(pairs)(vec a, vec b, vec c, vec d) { return (a + b) + (c + d); }
INLINE vec FN(pairs_of)(const vec *v) { return FN(pairs)(v[0], v[1], v[2], v[3]); }

/* the last vectors of a run, fewer than four, as four: cells n.. are 0. One sum in double is then enough for them, which
 * counts where runs are short */
INLINE void FN(load_four)(const real *p, ptrdiff_t n, vec *v)
{
    for (ptrdiff_t k = 0; k < 4; k++, n -= LANES)
        v[k] = n >= LANES ? vload(p + k * LANES) : n > 0 ? vload_n(p + k * LANES, n) : vzero();
}

/* their deviations */
INLINE void FN(deviate_four)(const real *p, ptrdiff_t n, vec mean, vec *d)
{
    FN(load_four)(p, n, d);
    for (ptrdiff_t k = 0; k < 4; k++)
        d[k] = FN(first_lanes)(d[k] - mean, n - k * LANES);
}

INLINE double FN(total_of)(vec v)
{
    wsums w = FN(wsplit)(v);
    return wtotal(&w);
}

/* `runs` runs of n cells, `step` apart */
typedef struct {
    ptrdiff_t at, n, runs, step;
} FN(span);

/* sum += x */
FUNC void FN(add_run)(const real *x, const FN(span) *q, wsums *sum)
{
    ptrdiff_t first = q->at, n = q->n, runs = q->runs, step = q->step;
    wsums s = *sum;
    x += first;
    for (ptrdiff_t r = 0; r < runs; r++, x += step) {
        ptrdiff_t i = 0;
        for (; i + 4 * LANES <= n; i += 4 * LANES)
            wadd(&s, FN(pairs)(vload(x + i), vload(x + i + LANES), vload(x + i + 2 * LANES), vload(x + i + 3 * LANES)));
        if (i < n) {
            vec v[4];
            FN(load_four)(x + i, n - i, v);
            wadd(&s, FN(pairs_of)(v));
        }
    }
    *sum = s;
}

/* deviations += x - mean, squares += (x - mean)^2. The cells `ahead` of these (0: none), a row or channel that comes next, are
 * fetched to level 2: this pass finds its own there, and memory would be idle (Sapphire Rapids: group norm a tenth, batch norm
 * in training a fourth less) */
FUNC void FN(add_deviations)(const real *x, const FN(span) *q, real mean, ptrdiff_t ahead, wsums *deviations, wsums *squares)
{
    ptrdiff_t first = q->at, n = q->n, runs = q->runs, step = q->step;
    wsums s = *deviations, t = *squares;
    vec m = vset(mean);
    x += first;
    for (ptrdiff_t r = 0; r < runs; r++, x += step) {
        ptrdiff_t i = 0;
        for (; i + 4 * LANES <= n; i += 4 * LANES) {
            vec a = vload(x + i) - m, b = vload(x + i + LANES) - m, c = vload(x + i + 2 * LANES) - m, d = vload(x + i + 3 * LANES) - m;
            wadd(&s, FN(pairs)(a, b, c, d));
            wadd(&t, FN(pairs)(a * a, b * b, c * c, d * d));
            for (int k = 0; ahead && k < 4; k++)
                __builtin_prefetch(x + i + k * LANES + ahead, 0, 2);
        }
        if (i < n) {
            vec d[4];
            FN(deviate_four)(x + i, n - i, m, d);
            wadd(&s, FN(pairs_of)(d));
            wadd(&t, FN(pairs)(d[0] * d[0], d[1] * d[1], d[2] * d[2], d[3] * d[3]));
        }
    }
    *deviations = s;
    *squares = t;
}

/* sums += g, moments += g (x - hi) */
FUNC void FN(add_products)(const real *x, const real *g, const FN(span) *q, real hi, wsums *sums, wsums *moments)
{
    ptrdiff_t first = q->at, n = q->n, runs = q->runs, step = q->step;
    wsums s = *sums, t = *moments;
    vec m = vset(hi), v[4], w[4];
    x += first;
    g += first;
    for (ptrdiff_t r = 0; r < runs; r++, x += step, g += step) {
        ptrdiff_t i = 0;
        for (; i + 4 * LANES <= n; i += 4 * LANES) {
            for (int k = 0; k < 4; k++) {
                v[k] = vload(g + i + k * LANES);
                w[k] = v[k] * (vload(x + i + k * LANES) - m);
            }
            wadd(&s, FN(pairs_of)(v));
            wadd(&t, FN(pairs_of)(w));
        }
        if (i < n) {
            FN(load_four)(g + i, n - i, v);
            FN(deviate_four)(x + i, n - i, m, w);
            for (int k = 0; k < 4; k++)
                w[k] = v[k] * w[k];
            wadd(&s, FN(pairs_of)(v));
            wadd(&t, FN(pairs_of)(w));
        }
    }
    *sums = s;
    *moments = t;
}

/* of a row, in one pass: deviations, their squares, and with v = g gamma sums of v and of v (x - mean) */
typedef struct {
    wsums deviations, squares, sums, moments;
} FN(row_sums);

INLINE void FN(add_four)(FN(row_sums) *s, const vec *d, const vec *v)
{
    wadd(&s->deviations, FN(pairs_of)(d));
    wadd(&s->squares, FN(pairs)(d[0] * d[0], d[1] * d[1], d[2] * d[2], d[3] * d[3]));
    wadd(&s->sums, FN(pairs_of)(v));
    wadd(&s->moments, FN(pairs)(v[0] * d[0], v[1] * d[1], v[2] * d[2], v[3] * d[3]));
}

/* ahead: cells to what the next pass of this kind will read, which is fetched as far as the level-2 cache */
FUNC void FN(add_row)(const real *x, const real *g, const real *gamma, ptrdiff_t n, ptrdiff_t ahead, real mean, FN(row_sums) *sums)
{
    FN(row_sums) s = {{{wset(0)}}, {{wset(0)}}, {{wset(0)}}, {{wset(0)}}};
    vec m = vset(mean), d[4], v[4], w[4];
    ptrdiff_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        for (int k = 0; k < 4; k++) {
            d[k] = vload(x + i + k * LANES) - m;
            v[k] = vload(g + i + k * LANES) * vload(gamma + i + k * LANES);
            __builtin_prefetch(x + i + k * LANES + ahead, 0, 2);
            __builtin_prefetch(g + i + k * LANES + ahead, 0, 2);
        }
        FN(add_four)(&s, d, v);
    }
    if (i < n) {
        FN(deviate_four)(x + i, n - i, m, d);
        FN(load_four)(g + i, n - i, v);
        FN(load_four)(gamma + i, n - i, w);
        for (int k = 0; k < 4; k++)
            v[k] = v[k] * w[k];
        FN(add_four)(&s, d, v);
    }
    *sums = s;
}

/* The same in double, for float operands whose sums or squares leave the range of a float. */

FUNC void FN(wide_sum)(const real *x, const FN(span) *q, double *sum)
{
    ptrdiff_t first = q->at, n = q->n, runs = q->runs, step = q->step;
    for (ptrdiff_t r = 0; r < runs; r++)
        for (ptrdiff_t i = first + r * step; i < first + r * step + n; i++)
            *sum += (double)x[i];
}

FUNC void FN(wide_deviations)(const real *x, const FN(span) *q, double mean, double *deviations, double *squares)
{
    ptrdiff_t first = q->at, n = q->n, runs = q->runs, step = q->step;
    for (ptrdiff_t r = 0; r < runs; r++)
        for (ptrdiff_t i = first + r * step; i < first + r * step + n; i++) {
            double d = (double)x[i] - mean;
            *deviations += d;
            *squares += d * d;
        }
}

FUNC void FN(wide_products)(const real *x, const real *g, const FN(span) *q, double hi, const real *gamma, double *sums, double *moments)
{
    ptrdiff_t first = q->at, n = q->n, runs = q->runs, step = q->step;
    for (ptrdiff_t r = 0; r < runs; r++)
        for (ptrdiff_t i = first + r * step; i < first + r * step + n; i++) {
            double v = (double)g[i] * (gamma ? (double)gamma[i - first] : 1);
            *sums += v;
            *moments += v * ((double)x[i] - hi);
        }
}

/* whether a sum of squares that was taken in `real` has kept its digits */
INLINE int FN(kept)(double squares, double n) { return IS_F64 || (squares < 1e30 * n && squares > 1e-30 * n); }

/* whether products with `scale` do, wherever it is used: far from the ends of a float's range */
INLINE int FN(plain)(double scale) { return IS_F64 || scale == 0 || (fabs(scale) > 1e-15 && fabs(scale) < 1e15); }

/* mean: as the deviations were taken from, in `real` */
INLINE norm_statistics FN(statistics)(double mean, double correction, double variance, double epsilon)
{
    norm_statistics s;
    double exact = mean + correction;
    s.hi = IS_F64 ? mean : (double)(real)exact;
    s.lo = IS_F64 ? correction : isfinite(exact) ? (double)(real)(exact - s.hi) : 0;
    s.rstd = 1 / sqrt(variance + epsilon);
    return s;
}

/* lo * scale, and 0 for no lo, whatever the scale: infinity would make it NaN */
INLINE double FN(part_of)(double lo, double scale) { return lo == 0 ? 0 : lo * scale; }

#define XHAT_WIDE(v, s) ((((double)(v) - (s)->hi) - (s)->lo) * (s)->rstd)
/* sum of g xhat from the sums of g and of g (x - hi) */
#define MOMENT(s, sum, moment) ((s)->rstd * ((moment) - FN(part_of)((s)->lo, sum)))

/* out = xhat * gamma + beta, numbers. lo is a fraction of hi's last place: it, and only it, may go into the shift */
FUNC void FN(normalise_run)(const real *x, const FN(span) *q, const norm_statistics *s, double gamma, double beta, real *out)
{
    ptrdiff_t first = q->at, n = q->n, runs = q->runs, step = q->step;
    double a = s->rstd * gamma;
    int plain = FN(plain)(s->rstd) && FN(plain)(a) && (IS_F64 || fabs(s->hi) < 1e37);
    vec scale = vset((real)a), shift = vset((real)(beta - FN(part_of)(s->lo, a))), hi = vset((real)s->hi);
    x += first;
    out += first;
    for (ptrdiff_t r = 0; r < runs; r++, x += step, out += step) {
        for (ptrdiff_t i = 0; plain && i < n; i += LANES) {
            FN(store_some)(out + i, vfma(FN(load_some)(x + i, n - i) - hi, scale, shift), n - i);
        }
        for (ptrdiff_t i = 0; !plain && i < n; i++)
            out[i] = (real)(XHAT_WIDE(x[i], s) * gamma + beta);
    }
}

/* out = x + residual; out may be x */
FUNC void FN(add_residual)(const real *x, const real *residual, ptrdiff_t n, real *out)
{
    for (ptrdiff_t i = 0; i < n; i += LANES)
        FN(store_some)(out + i, FN(load_some)(x + i, n - i) + FN(load_some)(residual + i, n - i), n - i);
}

/* xhat of a vector, from hi, rstd and lo * rstd in vectors */
#define XHAT(v, hi, rstd, lo) vfms((v) - (hi), rstd, lo)

/* the same with vectors, of which beta may be absent. The next row is fetched while this one is written (Sapphire Rapids,
 * 4096 x 768 float32: 1.45 ms without, 1.1 ms with) */
FUNC void FN(normalise_row)(const real *x, ptrdiff_t n, const norm_statistics *s, const real *gamma, const real *beta, real *out)
{
    if (!FN(plain)(s->rstd)) {
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = (real)(XHAT_WIDE(x[i], s) * (double)gamma[i] + (beta ? (double)beta[i] : 0));
        return;
    }
    vec hi = vset((real)s->hi), rstd = vset((real)s->rstd), lo = vset((real)FN(part_of)(s->lo, s->rstd));
    if (beta)
        for (ptrdiff_t i = 0; i < n; i += LANES) {
            vec h = XHAT(FN(load_some)(x + i, n - i), hi, rstd, lo);
            FN(store_some)(out + i, vfma(h, FN(load_some)(gamma + i, n - i), FN(load_some)(beta + i, n - i)), n - i);
            __builtin_prefetch(x + n + i);
        }
    else
        for (ptrdiff_t i = 0; i < n; i += LANES) {
            vec h = XHAT(FN(load_some)(x + i, n - i), hi, rstd, lo);
            FN(store_some)(out + i, h * FN(load_some)(gamma + i, n - i), n - i);
            __builtin_prefetch(x + n + i);
        }
}

/* out = a g - (b xhat + c) */
FUNC void FN(differentiate_run)(const real *x, const real *g, const FN(span) *q, const norm_statistics *s, double a, double b, double c,
                                real *out)
{
    ptrdiff_t first = q->at, n = q->n, runs = q->runs, step = q->step;
    double slope = b * s->rstd;
    int plain = FN(plain)(s->rstd) && FN(plain)(a) && FN(plain)(slope);
    vec va = vset((real)a), vb = vset((real)slope), vc = vset((real)(c - FN(part_of)(s->lo, slope))), hi = vset((real)s->hi);
    x += first;
    g += first;
    out += first;
    for (ptrdiff_t r = 0; r < runs; r++, x += step, g += step, out += step) {
        for (ptrdiff_t i = 0; plain && i < n; i += LANES) {
            vec t = vfma(FN(load_some)(x + i, n - i) - hi, vb, vc);
            FN(store_some)(out + i, vfms(va, FN(load_some)(g + i, n - i), t), n - i);
        }
        for (ptrdiff_t i = 0; !plain && i < n; i++)
            out[i] = (real)(a * (double)g[i] - (b * XHAT_WIDE(x[i], s) + c));
    }
}

/* out = a g: the gradient where mean and variance are constants */
FUNC void FN(scale_run)(const real *g, const FN(span) *q, double a, real *out)
{
    ptrdiff_t first = q->at, n = q->n, runs = q->runs, step = q->step;
    int plain = FN(plain)(a);
    vec va = vset((real)a);
    for (ptrdiff_t r = 0, at = first; r < runs; r++, at += step) {
        for (ptrdiff_t i = 0; plain && i < n; i += LANES)
            FN(store_some)(out + at + i, va * FN(load_some)(g + at + i, n - i), n - i);
        for (ptrdiff_t i = 0; !plain && i < n; i++)
            out[at + i] = (real)((double)g[at + i] * a);
    }
}

/* a row of the gradient: out = rstd g gamma - (b xhat + c) */
typedef struct {
    const real *x, *g;
    real *out;
    norm_statistics s;
    double b, c;
} FN(back_row);

INLINE int FN(plain_row)(const FN(back_row) *r) { return FN(plain)(r->s.rstd) && FN(plain)(r->b * r->s.rstd); }

/* one row or four: out, and gamma_sum += g xhat, beta_sum += g of the columns. Either may be left out.
 * The next four rows are fetched while these are computed: their gradient's lines here, what is read in `add_row`, so that
 * memory is asked in every pass; to level 2, for in level 1 they would drive out these four (Sapphire Rapids, 4096 x 768
 * float32: 4.7 ms without, 2.5 ms with all of it here and to level 1, 1.9 ms so) */
INLINE void FN(differentiate)(const FN(back_row) *r, int rows, ptrdiff_t n, const real *gamma, int outs, double *gamma_sum, double *beta_sum)
{
    ptrdiff_t ahead = rows == 4 ? 4 * (r[1].x - r[0].x) : 0;
    vec hi[4], rstd[4], lo[4], slope[4], shift[4];
    for (int k = 0; k < rows; k++) {
        double b = r[k].b * r[k].s.rstd;
        hi[k] = vset((real)r[k].s.hi);
        rstd[k] = vset((real)r[k].s.rstd);
        lo[k] = vset((real)FN(part_of)(r[k].s.lo, r[k].s.rstd));
        slope[k] = vset((real)b);
        shift[k] = vset((real)(r[k].c - FN(part_of)(r[k].s.lo, b)));
    }
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        vec weight = outs ? FN(load_some)(gamma + i, n - i) : vzero(), v[4], w[4];
        for (int k = 0; k < rows; k++) {
            vec d = FN(load_some)(r[k].x + i, n - i) - hi[k];
            v[k] = FN(load_some)(r[k].g + i, n - i);
            if (outs)
                FN(store_some)(r[k].out + i, vfms(rstd[k], v[k] * weight, vfma(d, slope[k], shift[k])), n - i);
            w[k] = v[k] * vfms(d, rstd[k], lo[k]);
            if (rows == 4)
                __builtin_prefetch(r[k].out + i + ahead, 1, 2);
        }
        if (!gamma_sum)
            continue;
        vec t = rows == 4 ? FN(pairs)(v[0], v[1], v[2], v[3]) : v[0], m = rows == 4 ? FN(pairs)(w[0], w[1], w[2], w[3]) : w[0];
        if (i + LANES <= n) {
            wsums tw = FN(wsplit)(t), mw = FN(wsplit)(m);
            for (int k = 0; k < (IS_F64 ? 1 : 2); k++) {
                double *ms = gamma_sum + i + k * WLANES, *ts = beta_sum + i + k * WLANES;
                vstore_f64(ms, vload_f64(ms) + mw.v[k]);
                vstore_f64(ts, vload_f64(ts) + tw.v[k]);
            }
        } else {
            real some[2 * LANES];
            vstore(some, m);
            vstore(some + LANES, t);
            for (ptrdiff_t k = 0; k < n - i; k++) {
                gamma_sum[i + k] += (double)some[k];
                beta_sum[i + k] += (double)some[LANES + k];
            }
        }
    }
}

FUNC void FN(differentiate_four)(const FN(back_row) *r, ptrdiff_t n, const real *gamma, double *gamma_sum, double *beta_sum)
{
    FN(differentiate)(r, 4, n, gamma, 1, gamma_sum, beta_sum);
}

FUNC void FN(differentiate_one)(const FN(back_row) *r, ptrdiff_t n, const real *gamma, double *gamma_sum, double *beta_sum)
{
    if (FN(plain_row)(r)) {
        FN(differentiate)(r, 1, n, gamma, 1, gamma_sum, beta_sum);
        return;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        double h = XHAT_WIDE(r->x[i], &r->s);
        r->out[i] = (real)(r->s.rstd * (double)r->g[i] * (double)gamma[i] - (r->b * h + r->c));
        if (gamma_sum) {
            gamma_sum[i] += (double)r->g[i] * h;
            beta_sum[i] += (double)r->g[i];
        }
    }
}

/* the columns' sums alone */
FUNC void FN(parameter_sums)(const FN(back_row) *r, ptrdiff_t n, double *gamma_sum, double *beta_sum)
{
    if (FN(plain)(r->s.rstd)) {
        FN(differentiate)(r, 1, n, 0, 0, gamma_sum, beta_sum);
        return;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        gamma_sum[i] += (double)r->g[i] * XHAT_WIDE(r->x[i], &r->s);
        beta_sum[i] += (double)r->g[i];
    }
}
