/* norm_real.h: normalisation for one scalar type. Included by norm.h only, which has the formulas. */

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
        for (; i < n; i += LANES)
            wadd(&s, FN(load_some)(x + i, n - i));
    }
    *sum = s;
}

/* deviations += x - mean, squares += (x - mean)^2 */
FUNC void FN(add_deviations)(const real *x, const FN(span) *q, real mean, wsums *deviations, wsums *squares)
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
        }
        for (; i < n; i += LANES) {
            vec a = FN(first_lanes)(FN(load_some)(x + i, n - i) - m, n - i);
            wadd(&s, a);
            wadd(&t, a * a);
        }
    }
    *deviations = s;
    *squares = t;
}

/* sums += g gamma, moments += g gamma (x - hi); gamma absent: 1 */
INLINE void FN(add_products)(const real *x, const real *g, const FN(span) *q, real hi, const real *gamma, wsums *sums, wsums *moments)
{
    ptrdiff_t first = q->at, n = q->n, runs = q->runs, step = q->step;
    wsums s = *sums, t = *moments;
    vec m = vset(hi);
    x += first;
    g += first;
    for (ptrdiff_t r = 0; r < runs; r++, x += step, g += step) {
        ptrdiff_t i = 0;
        for (; i + 4 * LANES <= n; i += 4 * LANES) {
            vec v[4], w[4];
            for (int k = 0; k < 4; k++) {
                v[k] = gamma ? vload(g + i + k * LANES) * vload(gamma + i + k * LANES) : vload(g + i + k * LANES);
                w[k] = v[k] * (vload(x + i + k * LANES) - m);
            }
            wadd(&s, FN(pairs)(v[0], v[1], v[2], v[3]));
            wadd(&t, FN(pairs)(w[0], w[1], w[2], w[3]));
        }
        for (; i < n; i += LANES) {
            vec v = FN(load_some)(g + i, n - i);
            v = gamma ? v * FN(load_some)(gamma + i, n - i) : v;
            wadd(&s, v);
            wadd(&t, FN(first_lanes)(v * (FN(load_some)(x + i, n - i) - m), n - i));
        }
    }
    *sums = s;
    *moments = t;
}

FUNC void FN(add_products_run)(const real *x, const real *g, const FN(span) *q, real hi, wsums *sums, wsums *moments)
{
    FN(add_products)(x, g, q, hi, 0, sums, moments);
}

FUNC void FN(add_products_row)(const real *x, const real *g, const FN(span) *q, real hi, const real *gamma, wsums *sums, wsums *moments)
{
    FN(add_products)(x, g, q, hi, gamma, sums, moments);
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
 * Between the passes over four rows nothing is asked of memory, and this one asks for three streams at once: the next four
 * rows are fetched while these are computed (Sapphire Rapids, 4096 x 768 float32: 4.7 ms without, 2.9 ms with) */
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
            if (rows == 4) {
                __builtin_prefetch(r[k].x + i + ahead);
                __builtin_prefetch(r[k].g + i + ahead);
                __builtin_prefetch(r[k].out + i + ahead, 1);
            }
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

/* ---- rows: layer, RMS, group and instance normalisation */

static norm_statistics FN(row_statistics)(const norm_plan *p, const real *x, ptrdiff_t n, double share)
{
    wsums sum = {{wset(0)}}, none = sum, squares = sum;
    FN(span) q = {0, n, 1, 0};
    double mean = 0, size = (double)n, deviation, square, correction;
    if (p->centre) {
        FN(add_run)(x, &q, &sum);
        double total = wtotal(&sum);
        if (!IS_F64 && !isfinite(total)) {
            total = 0;
            FN(wide_sum)(x, &q, &total);
        }
        mean = (double)(real)(total * share);
    }
    FN(add_deviations)(x, &q, (real)mean, &none, &squares);
    deviation = wtotal(&none);
    square = wtotal(&squares);
    if (!FN(kept)(square, size)) {
        deviation = square = 0;
        FN(wide_deviations)(x, &q, mean, &deviation, &square);
    }
    double variance = variance_of(p->centre ? deviation : 0, square, share, &correction);
    return FN(statistics)(mean, correction, variance, p->epsilon);
}

/* sums of g gamma and of g gamma xhat of n cells */
static void FN(run_products)(const real *x, const real *g, ptrdiff_t n, const norm_statistics *s, const real *gamma, double *sum, double *moment)
{
    wsums sums = {{wset(0)}}, moments = sums;
    FN(span) q = {0, n, 1, 0};
    if (gamma)
        FN(add_products_row)(x, g, &q, (real)s->hi, gamma, &sums, &moments);
    else
        FN(add_products_run)(x, g, &q, (real)s->hi, &sums, &moments);
    *sum = wtotal(&sums);
    *moment = wtotal(&moments);
    if (!IS_F64 && !(FN(plain)(s->rstd) && isfinite(*moment))) {
        *sum = *moment = 0;
        FN(wide_products)(x, g, &q, s->hi, gamma, sum, moment);
    }
    *moment = MOMENT(s, *sum, *moment);
}

INLINE double FN(value_or)(const void *values, ptrdiff_t i, double otherwise)
{
    return values ? (double)((const real *)values)[i] : otherwise;
}

/* gamma and beta of runs of few cells, a cell each, in memory that starts at `cells` */
static void FN(spread_parameters)(norm_plan *p, real *cells)
{
    ptrdiff_t all = p->groups * p->channels;
    for (ptrdiff_t c = 0; c < all; c++)
        for (ptrdiff_t i = 0; i < p->run; i++) {
            cells[c * p->run + i] = (real)FN(value_or)(p->gamma, c, 1);
            cells[(all + c) * p->run + i] = (real)FN(value_or)(p->beta, c, 0);
        }
    p->gamma = cells;
    p->beta = p->beta ? cells + all * p->run : 0;
    p->spread = p->run;
    p->channels *= p->run;
    p->run = 1;
}

static int FN(spreads)(const norm_plan *p)
{
    return p->run > 1 && p->run < LONG_RUN && p->groups * p->channels * p->run <= MOST_SPREAD;
}

static void FN(rows_forward_cut)(norm_plan *p)
{
    p->spread = 1;
    if (!p->gamma && !p->beta) { /* the row is one run */
        p->run *= p->channels;
        p->channels = 1;
    }
    p->bytes = FN(spreads)(p) ? 2 * sizeof(real) * (size_t)(p->groups * p->channels * p->run) : 0;
}

static int FN(rows_forward_stage)(norm_plan *p)
{
    ptrdiff_t rows = p->batch * p->groups, n = p->channels * p->run;
    if (p->stage++ > 0 || n == 0)
        return 0;
    if (FN(spreads)(p))
        FN(spread_parameters)(p, (real *)p->memory);
    cut_parts(p, rows, BLOCK_CELLS / n, rows);
    p->units = p->parts;
    return 1;
}

/* unit: a block of rows */
static void FN(rows_forward)(const norm_plan *p, ptrdiff_t unit)
{
    ptrdiff_t n = p->channels * p->run;
    double share = 1 / (double)n;
    for (ptrdiff_t r = unit * p->part; r < smaller((unit + 1) * p->part, p->batch * p->groups); r++) {
        const real *x = (const real *)p->x + r * n;
        real *out = (real *)p->out + r * n;
        ptrdiff_t c0 = r % p->groups * p->channels;
        norm_statistics s = FN(row_statistics)(p, x, n, share);
        if (p->run == 1 && p->gamma)
            FN(normalise_row)(x, n, &s, (const real *)p->gamma + c0, p->beta ? (const real *)p->beta + c0 : 0, out);
        else
            for (ptrdiff_t c = 0; c < p->channels; c++) {
                FN(span) q = {c * p->run, p->run, 1, 0};
                FN(normalise_run)(x, &q, &s, FN(value_or)(p->gamma, c0 + c, 1), FN(value_or)(p->beta, c0 + c, 0), out);
            }
    }
}

static void FN(add_doubles)(const double *from, ptrdiff_t n, double *to)
{
    ptrdiff_t i = 0;
    for (; i + WLANES <= n; i += WLANES)
        vstore_f64(to + i, vload_f64(to + i) + vload_f64(from + i));
    for (; i < n; i++)
        to[i] += from[i];
}

/* doubles between the partial sums of two blocks of the batch: whole vectors may be added behind the last */
INLINE ptrdiff_t FN(sums_step)(const norm_plan *p) { return p->groups * p->channels + LANES_f32; }

static void FN(rows_backward_cut)(norm_plan *p)
{
    ptrdiff_t all = p->groups * p->channels, n = p->channels * p->run, cells = 0;
    p->spread = 1;
    if (FN(spreads)(p)) {
        all *= p->run;
        cells = 2 * all;
    }
    p->columnwise = p->run == 1 && p->gamma && n > LONG_ROW;
    ptrdiff_t step = all + LANES_f32, most = p->columnwise ? p->batch : smaller(MOST_PARTS, PARTIAL_SUMS / (2 * step));
    cut_parts(p, p->batch, BLOCK_CELLS / larger(p->groups * n, 1), most);
    p->part = (p->part + 3) / 4 * 4; /* rows are differentiated four at a time */
    p->parts = larger(1, blocks_for(p->batch, p->part));
    /* sums of each part, or statistics of each row; sums of each channel of the row at hand; spread parameters */
    p->sums = (p->columnwise ? 3 * p->batch * p->groups : 2 * p->parts * step);
    p->bytes = sizeof(double) * (size_t)(p->sums + 2 * p->parts * p->groups * p->channels + cells);
}

static int FN(rows_backward_stage)(norm_plan *p)
{
    p->stage++;
    if (p->stage == 1) {
        if (FN(spreads)(p))
            FN(spread_parameters)(p, (real *)(p->memory + p->sums));
        p->units = p->parts * p->groups;
        if (!p->columnwise)
            memset(p->memory, 0, sizeof(double) * (size_t)p->sums);
        return p->channels > 0;
    }
    ptrdiff_t all = p->groups * p->channels, step = FN(sums_step)(p);
    if (p->columnwise) {
        p->units = blocks_for(all, COLUMNS);
        return p->stage == 2;
    }
    /* the parts' sums onto those of the first, in their order */
    for (ptrdiff_t b = 1; b < p->parts; b++)
        FN(add_doubles)(p->memory + 2 * b * step, 2 * step, p->memory);
    for (ptrdiff_t c = 0; c < all; c += p->spread) {
        double gamma = 0, beta = 0;
        for (ptrdiff_t i = c; p->parts && i < c + p->spread; i++) {
            gamma += p->memory[i];
            beta += p->memory[step + i];
        }
        ((real *)p->gamma_grad)[c / p->spread] = (real)gamma;
        if (p->beta_grad)
            ((real *)p->beta_grad)[c / p->spread] = (real)beta;
    }
    return 0;
}

/* one row with a vector gamma, up to its gradient: statistics, and b and c */
static void FN(set_back_row)(const norm_plan *p, ptrdiff_t r, const real *gamma, double share, FN(back_row) *row)
{
    ptrdiff_t n = p->channels;
    double sum, moment;
    row->x = (const real *)p->x + r * n;
    row->g = (const real *)p->g + r * n;
    row->out = (real *)p->out + r * n;
    row->s = FN(row_statistics)(p, row->x, n, share);
    FN(run_products)(row->x, row->g, n, &row->s, gamma, &sum, &moment);
    row->b = row->s.rstd * (moment * share);
    row->c = p->centre ? row->s.rstd * (sum * share) : 0;
}

/* one row with a number gamma for each run: to out, and its channels' sums */
static void FN(back_row_of_runs)(const norm_plan *p, ptrdiff_t r, const real *gamma, double *sums, double *gamma_sum, double *beta_sum)
{
    ptrdiff_t run = p->run, n = p->channels * run;
    const real *x = (const real *)p->x + r * n, *g = (const real *)p->g + r * n;
    norm_statistics s = FN(row_statistics)(p, x, n, 1 / (double)n);
    double sum = 0, moment = 0;
    for (ptrdiff_t c = 0; c < p->channels; c++) {
        double weight = FN(value_or)(gamma, c, 1), *q = sums + 2 * c;
        FN(run_products)(x + c * run, g + c * run, run, &s, 0, q, q + 1);
        beta_sum[c] += q[0];
        gamma_sum[c] += q[1];
        sum += weight * q[0];
        moment += weight * q[1];
    }
    double b = s.rstd * (moment / (double)n), d = p->centre ? s.rstd * (sum / (double)n) : 0;
    for (ptrdiff_t c = 0; c < p->channels; c++) {
        FN(span) q = {c * run, run, 1, 0};
        FN(differentiate_run)(x, g, &q, &s, s.rstd * FN(value_or)(gamma, c, 1), b, d, (real *)p->out + r * n);
    }
}

/* parameter gradients of some columns, over all rows; `kept`: each row's statistics */
static void FN(back_columns)(const norm_plan *p, ptrdiff_t unit, const norm_statistics *kept)
{
    double gamma[COLUMNS] = {0}, beta[COLUMNS] = {0};
    ptrdiff_t n = p->channels, first = unit * COLUMNS, last = smaller(first + COLUMNS, p->groups * n);
    for (ptrdiff_t r = 0; r < p->batch * p->groups; r++) {
        /* columns of this row's group that lie in first..last-1 */
        ptrdiff_t c0 = r % p->groups * n, lo = larger(first, c0), hi = smaller(last, c0 + n), at = r * n + lo - c0;
        FN(back_row) row = {(const real *)p->x + at, (const real *)p->g + at, 0, kept[r], 0, 0};
        if (lo < hi)
            FN(parameter_sums)(&row, hi - lo, gamma + lo - first, beta + lo - first);
    }
    for (ptrdiff_t c = first; c < last; c++) {
        ((real *)p->gamma_grad)[c] = (real)gamma[c - first];
        if (p->beta_grad)
            ((real *)p->beta_grad)[c] = (real)beta[c - first];
    }
}

/* stage 1, unit: a block of batches of one group; stage 2, unit: columns */
static void FN(rows_backward)(const norm_plan *p, ptrdiff_t unit)
{
    norm_statistics *kept = (norm_statistics *)p->memory;
    if (p->stage == 2) {
        FN(back_columns)(p, unit, kept);
        return;
    }
    ptrdiff_t part = unit / p->groups, group = unit % p->groups, c0 = group * p->channels, step = FN(sums_step)(p);
    double *gamma_sum = p->memory + 2 * part * step + c0, *beta_sum = gamma_sum + step;
    const real *gamma = p->gamma ? (const real *)p->gamma + c0 : 0;
    ptrdiff_t b = part * p->part, last = smaller(b + p->part, p->batch);
    FN(back_row) rows[4];
    double share = p->run ? 1 / (double)(p->channels * p->run) : 0; /* no cells: statistics 0, so that their gradients are too */
    for (; p->run == 1 && gamma && !p->columnwise && b + 4 <= last; b += 4) {
        int plain = 1;
        for (int k = 0; k < 4; k++) {
            FN(set_back_row)(p, (b + k) * p->groups + group, gamma, share, rows + k);
            plain &= FN(plain_row)(rows + k);
        }
        if (plain)
            FN(differentiate_four)(rows, p->channels, gamma, gamma_sum, beta_sum);
        for (int k = 0; k < 4 && !plain; k++)
            FN(differentiate_one)(rows + k, p->channels, gamma, gamma_sum, beta_sum);
    }
    for (; b < last; b++) {
        ptrdiff_t r = b * p->groups + group;
        if (p->run > 1 || !gamma) {
            FN(back_row_of_runs)(p, r, gamma, p->memory + p->sums + 2 * unit * p->channels, gamma_sum, beta_sum);
            continue;
        }
        FN(set_back_row)(p, r, gamma, share, rows);
        if (p->columnwise)
            kept[r] = rows[0].s;
        FN(differentiate_one)(rows, p->channels, gamma, p->columnwise ? 0 : gamma_sum, beta_sum);
    }
}

/* ---- channels: batch normalisation with runs of S >= LONG_RUN cells */

/* Block `part` of channel c, whose cells are `batch` runs, is at most three spans: the end of a run, whole runs, the beginning
 * of another. */
typedef struct {
    FN(span) of[3];
    int spans;
} FN(block);

static FN(block) FN(block_of)(const norm_plan *p, ptrdiff_t c, ptrdiff_t part)
{
    FN(block) k = {{{0, 0, 0, 0}}, 0};
    ptrdiff_t lo = part * p->part, hi = smaller(lo + p->part, p->batch * p->run);
    while (lo < hi) {
        ptrdiff_t b = lo / p->run, i = lo % p->run, whole = i == 0 ? (hi - lo) / p->run : 0;
        ptrdiff_t n = whole ? p->run : smaller(p->run - i, hi - lo);
        k.of[k.spans++] = (FN(span)){(b * p->channels + c) * p->run + i, n, larger(whole, 1), p->channels * p->run};
        lo += n * larger(whole, 1);
    }
    return k;
}

static double FN(part_sum)(const norm_plan *p, ptrdiff_t c, ptrdiff_t part)
{
    FN(block) k = FN(block_of)(p, c, part);
    wsums sums = {{wset(0)}};
    for (int i = 0; i < k.spans; i++)
        FN(add_run)((const real *)p->x, k.of + i, &sums);
    double sum = wtotal(&sums);
    if (IS_F64 || isfinite(sum))
        return sum;
    sum = 0;
    for (int i = 0; i < k.spans; i++)
        FN(wide_sum)((const real *)p->x, k.of + i, &sum);
    return sum;
}

static void FN(part_deviations)(const norm_plan *p, ptrdiff_t c, ptrdiff_t part, double mean, double *sums)
{
    FN(block) k = FN(block_of)(p, c, part);
    wsums deviations = {{wset(0)}}, squares = deviations;
    for (int i = 0; i < k.spans; i++)
        FN(add_deviations)((const real *)p->x, k.of + i, (real)mean, &deviations, &squares);
    sums[0] = wtotal(&deviations);
    sums[1] = wtotal(&squares);
    if (FN(kept)(sums[1], (double)p->part))
        return;
    sums[0] = sums[1] = 0;
    for (int i = 0; i < k.spans; i++)
        FN(wide_deviations)((const real *)p->x, k.of + i, mean, sums, sums + 1);
}

/* sums of g and of g xhat */
static void FN(part_products)(const norm_plan *p, ptrdiff_t c, ptrdiff_t part, const norm_statistics *s, double *sums)
{
    const real *x = (const real *)p->x, *g = (const real *)p->g;
    FN(block) k = FN(block_of)(p, c, part);
    wsums sum = {{wset(0)}}, moment = sum;
    for (int i = 0; i < k.spans; i++)
        FN(add_products_run)(x, g, k.of + i, (real)s->hi, &sum, &moment);
    sums[0] = wtotal(&sum);
    sums[1] = wtotal(&moment);
    if (!IS_F64 && !(FN(plain)(s->rstd) && isfinite(sums[1]))) {
        sums[0] = sums[1] = 0;
        for (int i = 0; i < k.spans; i++)
            FN(wide_products)(x, g, k.of + i, s->hi, 0, sums, sums + 1);
    }
    sums[1] = MOMENT(s, sums[0], sums[1]);
}

static void FN(part_normalise)(const norm_plan *p, ptrdiff_t c, ptrdiff_t part, const norm_statistics *s)
{
    FN(block) k = FN(block_of)(p, c, part);
    for (int i = 0; i < k.spans; i++)
        FN(normalise_run)((const real *)p->x, k.of + i, s, FN(value_or)(p->gamma, c, 1), FN(value_or)(p->beta, c, 0), (real *)p->out);
}

/* sums of a channel's parts, in their order */
INLINE double FN(joined)(const norm_plan *p, const double *sums, ptrdiff_t stride)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < p->parts; i++)
        sum += sums[i * stride];
    return sum;
}

static norm_statistics FN(given_statistics)(const norm_plan *p, ptrdiff_t c)
{
    return FN(statistics)((double)((const real *)p->mean)[c], 0, (double)((const real *)p->variance)[c], p->epsilon);
}

/* of channel c, from the sums of its parts; also to the results */
static norm_statistics FN(found_statistics)(const norm_plan *p, ptrdiff_t c, double mean, double deviations, double squares)
{
    double correction, variance = variance_of(deviations, squares, 1 / (double)(p->batch * p->run), &correction);
    ((real *)p->mean)[c] = (real)(isfinite(mean) ? mean + correction : mean);
    ((real *)p->variance)[c] = (real)variance;
    return FN(statistics)(mean, correction, variance, p->epsilon);
}

/* a, b, c of out = a g - (b xhat + c), and the parameters' gradients, from sums of g and g xhat */
static void FN(channel_grads)(const norm_plan *p, ptrdiff_t c, const norm_statistics *s, double sum, double moment, double *abc)
{
    double n = (double)(p->batch * p->run);
    abc[0] = s->rstd * FN(value_or)(p->gamma, c, 1);
    abc[1] = p->train ? abc[0] * (moment / n) : 0;
    abc[2] = p->train ? abc[0] * (sum / n) : 0;
    ((real *)p->gamma_grad)[c] = (real)moment;
    ((real *)p->beta_grad)[c] = (real)sum;
}

static void FN(part_differentiate)(const norm_plan *p, ptrdiff_t c, ptrdiff_t part, const norm_statistics *s, const double *abc)
{
    FN(block) k = FN(block_of)(p, c, part);
    for (int i = 0; i < k.spans; i++)
        if (p->train)
            FN(differentiate_run)((const real *)p->x, (const real *)p->g, k.of + i, s, abc[0], abc[1], abc[2], (real *)p->out);
        else
            FN(scale_run)((const real *)p->g, k.of + i, abc[0], (real *)p->out);
}

/* cells of a channel in blocks; few channels are cut, and their blocks shared out, with a stage a pass */
static void FN(channels_cut)(norm_plan *p)
{
    ptrdiff_t cells = p->batch * p->run;
    cut_parts(p, cells, BLOCK_CELLS, MOST_PARTS);
    p->cut = p->channels < 16 && p->parts > 1;
    p->bytes = sizeof(double) * (size_t)(3 * p->channels * p->parts + 6 * p->channels);
}

/* sums: [C, parts] of x, then [C, parts, 2] of deviations; behind them the channels' statistics */
INLINE norm_statistics *FN(shared_statistics)(const norm_plan *p) { return (norm_statistics *)(p->memory + 3 * p->channels * p->parts); }

static int FN(channels_forward_stage)(norm_plan *p)
{
    norm_statistics *shared = FN(shared_statistics)(p);
    p->stage++;
    if (!p->train) {
        p->units = p->channels * p->parts;
        return p->stage == 1;
    }
    p->units = p->cut ? p->channels * p->parts : p->channels;
    for (ptrdiff_t c = 0; p->cut && c < p->channels; c++) {
        double *sums = p->memory + c * p->parts, *deviations = p->memory + p->channels * p->parts + 2 * c * p->parts;
        if (p->stage == 2)
            shared[c].hi = (double)(real)(FN(joined)(p, sums, 1) / (double)(p->batch * p->run));
        if (p->stage == 3)
            shared[c] = FN(found_statistics)(p, c, shared[c].hi, FN(joined)(p, deviations, 2), FN(joined)(p, deviations + 1, 2));
    }
    return p->stage <= (p->cut ? 3 : 1);
}

static void FN(channels_forward)(const norm_plan *p, ptrdiff_t unit)
{
    ptrdiff_t c = unit / p->parts, part = unit % p->parts;
    norm_statistics s, *shared = FN(shared_statistics)(p);
    if (!p->train) {
        s = FN(given_statistics)(p, c);
        FN(part_normalise)(p, c, part, &s);
    } else if (!p->cut) {
        c = unit;
        double mean = 0, sums[2], deviations = 0, squares = 0;
        for (part = 0; part < p->parts; part++)
            mean += FN(part_sum)(p, c, part);
        mean = (double)(real)(mean / (double)(p->batch * p->run));
        for (part = 0; part < p->parts; part++) {
            FN(part_deviations)(p, c, part, mean, sums);
            deviations += sums[0];
            squares += sums[1];
        }
        s = FN(found_statistics)(p, c, mean, deviations, squares);
        for (part = 0; part < p->parts; part++)
            FN(part_normalise)(p, c, part, &s);
    } else if (p->stage == 1)
        p->memory[unit] = FN(part_sum)(p, c, part);
    else if (p->stage == 2)
        FN(part_deviations)(p, c, part, shared[c].hi, p->memory + p->channels * p->parts + 2 * unit);
    else
        FN(part_normalise)(p, c, part, shared + c);
}

static int FN(channels_backward_stage)(norm_plan *p)
{
    double *abc = p->memory + 3 * p->channels * p->parts + 3 * p->channels;
    p->stage++;
    p->units = p->cut ? p->channels * p->parts : p->channels;
    for (ptrdiff_t c = 0; p->cut && p->stage == 2 && c < p->channels; c++) {
        norm_statistics s = FN(given_statistics)(p, c);
        double *sums = p->memory + 2 * c * p->parts;
        FN(channel_grads)(p, c, &s, FN(joined)(p, sums, 2), FN(joined)(p, sums + 1, 2), abc + 3 * c);
    }
    return p->stage <= (p->cut ? 2 : 1);
}

static void FN(channels_backward)(const norm_plan *p, ptrdiff_t unit)
{
    ptrdiff_t c = p->cut ? unit / p->parts : unit, part = unit % p->parts;
    norm_statistics s = FN(given_statistics)(p, c);
    if (!p->cut) {
        double sums[2], sum = 0, moment = 0, abc[3];
        for (part = 0; part < p->parts; part++) {
            FN(part_products)(p, c, part, &s, sums);
            sum += sums[0];
            moment += sums[1];
        }
        FN(channel_grads)(p, c, &s, sum, moment, abc);
        for (part = 0; part < p->parts; part++)
            FN(part_differentiate)(p, c, part, &s, abc);
    } else if (p->stage == 1)
        FN(part_products)(p, c, part, &s, p->memory + 2 * unit);
    else
        FN(part_differentiate)(p, c, part, &s, p->memory + 3 * p->channels * p->parts + 3 * p->channels + 3 * c);
}

/* ---- columns: batch normalisation with runs of few cells: x is B rows of C * S columns. A unit is a block of rows of a tile
 * of columns. Its sums lie at [part, columns] of either half of the partial sums; behind them what each column needs */

typedef struct {
    norm_statistics *channel; /* a channel: its statistics, */
    double *abc;              /* and a, b, c of out = a xhat + b, or of out = a g - (b xhat + c) */
    real *hi, *lo, *rstd;     /* a column, in the operand's type: xhat = (x - hi) rstd - lo, */
    real *a, *b, *c;          /* and a, b, c */
} FN(columns);

static FN(columns) FN(columns_of)(const norm_plan *p)
{
    ptrdiff_t n = p->channels * p->run;
    FN(columns) k;
    k.channel = (norm_statistics *)(p->memory + 2 * p->parts * n);
    k.abc = (double *)(k.channel + p->channels);
    k.hi = (real *)(k.abc + 3 * p->channels);
    k.lo = k.hi + n;
    k.rstd = k.lo + n;
    k.a = k.rstd + n;
    k.b = k.a + n;
    k.c = k.b + n;
    return k;
}

static void FN(columns_cut)(norm_plan *p)
{
    ptrdiff_t n = p->channels * p->run;
    cut_parts(p, p->batch, BLOCK_CELLS / larger(smaller(n, COLUMNS), 1), smaller(MOST_PARTS, PARTIAL_SUMS / larger(2 * n, 1)));
    p->bytes = sizeof(double) * (size_t)(2 * p->parts * n + 6 * p->channels) + 6 * sizeof(real) * (size_t)n;
}

/* the cells of a channel, as spans of its columns */
INLINE FN(span) FN(cells_of)(const norm_plan *p, ptrdiff_t channel)
{
    return (FN(span)){channel * p->run, p->run, p->batch, p->channels * p->run};
}

/* the sum of a channel over the parts, in their order, and over its columns */
static double FN(channel_total)(const norm_plan *p, const double *sums, ptrdiff_t channel)
{
    double sum = 0;
    for (ptrdiff_t part = 0; part < p->parts; part++)
        for (ptrdiff_t i = 0; i < p->run; i++)
            sum += sums[(part * p->channels + channel) * p->run + i];
    return sum;
}

/* a channel's numbers to its columns */
static void FN(set_columns)(const norm_plan *p, const FN(columns) *k, ptrdiff_t channel, norm_statistics s, double a, double b, double c)
{
    double *abc = k->abc + 3 * channel;
    k->channel[channel] = s;
    abc[0] = a;
    abc[1] = b;
    abc[2] = c;
    for (ptrdiff_t i = channel * p->run; i < (channel + 1) * p->run; i++) {
        k->hi[i] = (real)s.hi;
        k->lo[i] = (real)FN(part_of)(s.lo, s.rstd);
        k->rstd[i] = (real)s.rstd;
        k->a[i] = (real)a;
        k->b[i] = (real)b;
        k->c[i] = (real)c;
    }
}

/* rows first..last-1 of columns lo..hi-1 */
typedef struct {
    ptrdiff_t n, part, first, last, lo, hi;
} FN(tile);

static FN(tile) FN(tile_at)(const norm_plan *p, ptrdiff_t unit)
{
    ptrdiff_t n = p->channels * p->run, tiles = blocks_for(n, COLUMNS);
    FN(tile) t = {n, unit / tiles, 0, 0, unit % tiles * COLUMNS, 0};
    t.first = t.part * p->part;
    t.last = smaller(t.first + p->part, p->batch);
    t.hi = smaller(t.lo + COLUMNS, n);
    return t;
}

/* sums[i] += v, of a vector's first n lanes */
INLINE void FN(add_lanes)(double *sums, vec v, ptrdiff_t n)
{
    if (n >= LANES) {
        wsums w = FN(wsplit)(v);
        for (int k = 0; k < (IS_F64 ? 1 : 2); k++)
            vstore_f64(sums + k * WLANES, vload_f64(sums + k * WLANES) + w.v[k]);
        return;
    }
    real some[LANES];
    vstore(some, v);
    for (ptrdiff_t k = 0; k < n; k++)
        sums[k] += (double)some[k];
}

FUNC void FN(column_sums)(const norm_plan *p, FN(tile) t, double *sums)
{
    const real *x = (const real *)p->x;
    memset(sums + t.lo, 0, sizeof(double) * (size_t)(t.hi - t.lo));
    for (ptrdiff_t r = t.first, rows; r < t.last; r += rows) {
        rows = t.last - r >= 4 ? 4 : 1;
        for (ptrdiff_t i = t.lo; i < t.hi; i += LANES) {
            const real *at = x + r * t.n + i;
            ptrdiff_t m = t.hi - i;
            vec v = FN(load_some)(at, m);
            if (rows == 4)
                v = FN(pairs)(v, FN(load_some)(at + t.n, m), FN(load_some)(at + 2 * t.n, m), FN(load_some)(at + 3 * t.n, m));
            FN(add_lanes)(sums + i, v, m);
        }
    }
}

/* sums of d = x - hi and of d^2, or of g and of g d; four rows at a time */
INLINE void FN(column_moments)(const norm_plan *p, const FN(columns) *k, FN(tile) t, int products, double *sums, double *moments)
{
    const real *x = (const real *)p->x, *g = (const real *)p->g;
    memset(sums + t.lo, 0, sizeof(double) * (size_t)(t.hi - t.lo));
    memset(moments + t.lo, 0, sizeof(double) * (size_t)(t.hi - t.lo));
    for (ptrdiff_t r = t.first, rows; r < t.last; r += rows) {
        rows = t.last - r >= 4 ? 4 : 1;
        for (ptrdiff_t i = t.lo; i < t.hi; i += LANES) {
            ptrdiff_t m = t.hi - i;
            vec v[4], w[4], hi = FN(load_some)(k->hi + i, m);
            for (ptrdiff_t j = 0; j < 4; j++) {
                ptrdiff_t at = (r + (j < rows ? j : 0)) * t.n + i;
                vec d = FN(load_some)(x + at, m) - hi;
                v[j] = products ? FN(load_some)(g + at, m) : d;
                w[j] = v[j] * d;
            }
            FN(add_lanes)(sums + i, rows == 4 ? FN(pairs)(v[0], v[1], v[2], v[3]) : v[0], m);
            FN(add_lanes)(moments + i, rows == 4 ? FN(pairs)(w[0], w[1], w[2], w[3]) : w[0], m);
        }
    }
}

FUNC void FN(column_deviations)(const norm_plan *p, const FN(columns) *k, FN(tile) t, double *sums, double *squares)
{
    FN(column_moments)(p, k, t, 0, sums, squares);
}

FUNC void FN(column_products)(const norm_plan *p, const FN(columns) *k, FN(tile) t, double *sums, double *moments)
{
    FN(column_moments)(p, k, t, 1, sums, moments);
}

/* whether all columns of a tile keep to the operand's type */
static int FN(plain_tile)(const norm_plan *p, const FN(columns) *k, FN(tile) t)
{
    for (ptrdiff_t c = t.lo / p->run; c <= (t.hi - 1) / p->run; c++)
        if (!(FN(plain)(k->channel[c].rstd) && FN(plain)(k->abc[3 * c]) && (IS_F64 || fabs(k->channel[c].hi) < 1e37)))
            return 0;
    return 1;
}

#define COLUMN_XHAT(v, i, n) vfms((v) - FN(load_some)(k->hi + (i), n), FN(load_some)(k->rstd + (i), n), FN(load_some)(k->lo + (i), n))

FUNC void FN(column_normalise)(const norm_plan *p, const FN(columns) *k, FN(tile) t)
{
    int plain = FN(plain_tile)(p, k, t);
    for (ptrdiff_t r = t.first; r < t.last; r++) {
        const real *x = (const real *)p->x + r * t.n;
        real *out = (real *)p->out + r * t.n;
        ptrdiff_t i = t.lo;
        for (; plain && i < t.hi; i += LANES) {
            ptrdiff_t m = t.hi - i;
            vec h = COLUMN_XHAT(FN(load_some)(x + i, m), i, m);
            FN(store_some)(out + i, vfma(h, FN(load_some)(k->a + i, m), FN(load_some)(k->b + i, m)), m);
        }
        for (; i < t.hi; i++) {
            const double *abc = k->abc + 3 * (i / p->run);
            out[i] = (real)(XHAT_WIDE(x[i], k->channel + i / p->run) * abc[0] + abc[1]);
        }
    }
}

FUNC void FN(column_differentiate)(const norm_plan *p, const FN(columns) *k, FN(tile) t)
{
    int plain = FN(plain_tile)(p, k, t);
    for (ptrdiff_t r = t.first; r < t.last; r++) {
        const real *x = (const real *)p->x + r * t.n, *g = (const real *)p->g + r * t.n;
        real *out = (real *)p->out + r * t.n;
        ptrdiff_t i = t.lo;
        for (; plain && !p->train && i < t.hi; i += LANES) {
            ptrdiff_t m = t.hi - i;
            FN(store_some)(out + i, FN(load_some)(k->a + i, m) * FN(load_some)(g + i, m), m);
        }
        for (; plain && i < t.hi; i += LANES) {
            ptrdiff_t m = t.hi - i;
            vec h = COLUMN_XHAT(FN(load_some)(x + i, m), i, m);
            vec shift = vfma(FN(load_some)(k->b + i, m), h, FN(load_some)(k->c + i, m));
            FN(store_some)(out + i, vfms(FN(load_some)(k->a + i, m), FN(load_some)(g + i, m), shift), m);
        }
        for (; i < t.hi; i++) {
            const double *abc = k->abc + 3 * (i / p->run);
            double shift = p->train ? abc[1] * XHAT_WIDE(x[i], k->channel + i / p->run) + abc[2] : 0;
            out[i] = (real)(abc[0] * (double)g[i] - shift);
        }
    }
}

/* a channel's mean, in `real`, from the sums of its columns */
static real FN(column_mean)(const norm_plan *p, ptrdiff_t c)
{
    double sum = FN(channel_total)(p, p->memory, c);
    FN(span) cells = FN(cells_of)(p, c);
    if (!IS_F64 && !isfinite(sum)) {
        sum = 0;
        FN(wide_sum)((const real *)p->x, &cells, &sum);
    }
    return (real)(sum / (double)(p->batch * p->run));
}

/* its statistics, from the sums of deviations from `mean` */
static norm_statistics FN(column_statistics)(const norm_plan *p, ptrdiff_t c, real mean)
{
    double deviations = FN(channel_total)(p, p->memory, c);
    double squares = FN(channel_total)(p, p->memory + p->parts * p->channels * p->run, c);
    FN(span) cells = FN(cells_of)(p, c);
    if (!FN(kept)(squares, (double)(p->batch * p->run))) {
        deviations = squares = 0;
        FN(wide_deviations)((const real *)p->x, &cells, (double)mean, &deviations, &squares);
    }
    return FN(found_statistics)(p, c, (double)mean, deviations, squares);
}

static int FN(columns_forward_stage)(norm_plan *p)
{
    FN(columns) k = FN(columns_of)(p);
    p->stage += p->train || p->stage > 0 ? 1 : 3; /* 1 sums, 2 deviations, 3 normalise */
    p->units = p->parts * blocks_for(p->channels * p->run, COLUMNS);
    for (ptrdiff_t c = 0; c < p->channels; c++) {
        double gamma = FN(value_or)(p->gamma, c, 1), beta = FN(value_or)(p->beta, c, 0);
        if (p->stage == 2) {
            real mean = FN(column_mean)(p, c);
            for (ptrdiff_t i = c * p->run; i < (c + 1) * p->run; i++)
                k.hi[i] = mean;
        } else if (p->stage == 3) {
            norm_statistics s = p->train ? FN(column_statistics)(p, c, k.hi[c * p->run]) : FN(given_statistics)(p, c);
            FN(set_columns)(p, &k, c, s, gamma, beta, 0);
        }
    }
    return p->stage <= 3;
}

static void FN(columns_forward)(const norm_plan *p, ptrdiff_t unit)
{
    FN(tile) t = FN(tile_at)(p, unit);
    FN(columns) k = FN(columns_of)(p);
    double *sums = p->memory + t.part * t.n;
    if (p->stage == 1)
        FN(column_sums)(p, t, sums);
    else if (p->stage == 2)
        FN(column_deviations)(p, &k, t, sums, sums + p->parts * t.n);
    else
        FN(column_normalise)(p, &k, t);
}

static int FN(columns_backward_stage)(norm_plan *p)
{
    const real *x = (const real *)p->x, *g = (const real *)p->g;
    FN(columns) k = FN(columns_of)(p);
    p->stage++; /* 1 products, 2 differentiate */
    p->units = p->parts * blocks_for(p->channels * p->run, COLUMNS);
    for (ptrdiff_t c = 0; c < p->channels && p->stage <= 2; c++) {
        norm_statistics s = FN(given_statistics)(p, c);
        double abc[3] = {0, 0, 0};
        if (p->stage == 2) {
            double sum = FN(channel_total)(p, p->memory, c);
            double moment = FN(channel_total)(p, p->memory + p->parts * p->channels * p->run, c);
            FN(span) cells = FN(cells_of)(p, c);
            if (!IS_F64 && !(FN(plain)(s.rstd) && isfinite(moment))) {
                sum = moment = 0;
                FN(wide_products)(x, g, &cells, s.hi, 0, &sum, &moment);
            }
            FN(channel_grads)(p, c, &s, sum, MOMENT(&s, sum, moment), abc);
        }
        FN(set_columns)(p, &k, c, s, abc[0], abc[1], abc[2]);
    }
    return p->stage <= 2;
}

static void FN(columns_backward)(const norm_plan *p, ptrdiff_t unit)
{
    FN(tile) t = FN(tile_at)(p, unit);
    FN(columns) k = FN(columns_of)(p);
    double *sums = p->memory + t.part * t.n;
    if (p->stage == 1)
        FN(column_products)(p, &k, t, sums, sums + p->parts * t.n);
    else
        FN(column_differentiate)(p, &k, t);
}

/* ---- batch normalisation: by channels or by columns */

static void FN(batch_cut)(norm_plan *p)
{
    p->columnwise = p->run < LONG_RUN;
    if (p->columnwise)
        FN(columns_cut)(p);
    else
        FN(channels_cut)(p);
}

static int FN(batch_forward_stage)(norm_plan *p) { return p->columnwise ? FN(columns_forward_stage)(p) : FN(channels_forward_stage)(p); }

static void FN(batch_forward)(const norm_plan *p, ptrdiff_t unit)
{
    if (p->columnwise)
        FN(columns_forward)(p, unit);
    else
        FN(channels_forward)(p, unit);
}

static int FN(batch_backward_stage)(norm_plan *p) { return p->columnwise ? FN(columns_backward_stage)(p) : FN(channels_backward_stage)(p); }

static void FN(batch_backward)(const norm_plan *p, ptrdiff_t unit)
{
    if (p->columnwise)
        FN(columns_backward)(p, unit);
    else
        FN(channels_backward)(p, unit);
}

#undef XHAT
#undef MOMENT
#undef XHAT_WIDE
#undef COLUMN_XHAT
