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

/* sum += x */
FUNC void FN(add_run)(const real *x, ptrdiff_t n, wsums *sum)
{
    wsums s = *sum;
    ptrdiff_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        wadd(&s, FN(pairs)(vload(x + i), vload(x + i + LANES), vload(x + i + 2 * LANES), vload(x + i + 3 * LANES)));
    for (; i < n; i += LANES)
        wadd(&s, FN(load_some)(x + i, n - i));
    *sum = s;
}

/* deviations += x - mean, squares += (x - mean)^2 */
FUNC void FN(add_deviations)(const real *x, ptrdiff_t n, real mean, wsums *deviations, wsums *squares)
{
    wsums s = *deviations, q = *squares;
    vec m = vset(mean);
    ptrdiff_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        vec a = vload(x + i) - m, b = vload(x + i + LANES) - m, c = vload(x + i + 2 * LANES) - m, d = vload(x + i + 3 * LANES) - m;
        wadd(&s, FN(pairs)(a, b, c, d));
        wadd(&q, FN(pairs)(a * a, b * b, c * c, d * d));
    }
    for (; i < n; i += LANES) {
        vec a = FN(first_lanes)(FN(load_some)(x + i, n - i) - m, n - i);
        wadd(&s, a);
        wadd(&q, a * a);
    }
    *deviations = s;
    *squares = q;
}

/* sums += g gamma, moments += g gamma (x - hi); gamma absent: 1 */
INLINE void FN(add_products)(const real *x, const real *g, ptrdiff_t n, real hi, const real *gamma, wsums *sums, wsums *moments)
{
    wsums s = *sums, q = *moments;
    vec m = vset(hi);
    ptrdiff_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        vec v[4], w[4];
        for (int k = 0; k < 4; k++) {
            v[k] = gamma ? vload(g + i + k * LANES) * vload(gamma + i + k * LANES) : vload(g + i + k * LANES);
            w[k] = v[k] * (vload(x + i + k * LANES) - m);
        }
        wadd(&s, FN(pairs)(v[0], v[1], v[2], v[3]));
        wadd(&q, FN(pairs)(w[0], w[1], w[2], w[3]));
    }
    for (; i < n; i += LANES) {
        vec v = FN(load_some)(g + i, n - i);
        v = gamma ? v * FN(load_some)(gamma + i, n - i) : v;
        wadd(&s, v);
        wadd(&q, FN(first_lanes)(v * (FN(load_some)(x + i, n - i) - m), n - i));
    }
    *sums = s;
    *moments = q;
}

FUNC void FN(add_products_run)(const real *x, const real *g, ptrdiff_t n, real hi, wsums *sums, wsums *moments)
{
    FN(add_products)(x, g, n, hi, 0, sums, moments);
}

FUNC void FN(add_products_row)(const real *x, const real *g, ptrdiff_t n, real hi, const real *gamma, wsums *sums, wsums *moments)
{
    FN(add_products)(x, g, n, hi, gamma, sums, moments);
}

/* The same in double, for float operands whose sums or squares leave the range of a float. */

FUNC double FN(wide_sum)(const real *x, ptrdiff_t n)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum;
}

FUNC void FN(wide_deviations)(const real *x, ptrdiff_t n, double mean, double *deviations, double *squares)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double d = (double)x[i] - mean;
        *deviations += d;
        *squares += d * d;
    }
}

FUNC void FN(wide_products)(const real *x, const real *g, ptrdiff_t n, double hi, const real *gamma, double *sums, double *moments)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double v = (double)g[i] * (gamma ? (double)gamma[i] : 1);
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
    s.lo = IS_F64 ? correction : (double)(real)(exact - s.hi);
    s.rstd = 1 / sqrt(variance + epsilon);
    return s;
}

#define XHAT_WIDE(v, s) ((((double)(v) - (s)->hi) - (s)->lo) * (s)->rstd)
/* sum of g xhat from the sums of g and of g (x - hi) */
#define MOMENT(s, sum, moment) ((s)->rstd * ((moment) - (s)->lo * (sum)))

/* out = xhat * gamma + beta, numbers. lo is a fraction of hi's last place: it, and only it, may go into the shift */
FUNC void FN(normalise_run)(const real *x, ptrdiff_t n, const norm_statistics *s, double gamma, double beta, real *out)
{
    double a = s->rstd * gamma;
    if (!(FN(plain)(s->rstd) && FN(plain)(a) && (IS_F64 || fabs(s->hi) < 1e37))) {
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = (real)(XHAT_WIDE(x[i], s) * gamma + beta);
        return;
    }
    vec scale = vset((real)a), shift = vset((real)(beta - s->lo * a)), hi = vset((real)s->hi);
    for (ptrdiff_t i = 0; i < n; i += LANES)
        FN(store_some)(out + i, vfma(FN(load_some)(x + i, n - i) - hi, scale, shift), n - i);
}

/* xhat of a vector, from hi, rstd and lo * rstd in vectors */
#define XHAT(v, hi, rstd, lo) vfms((v) - (hi), rstd, lo)

/* the same with vectors, of which beta may be absent */
FUNC void FN(normalise_row)(const real *x, ptrdiff_t n, const norm_statistics *s, const real *gamma, const real *beta, real *out)
{
    if (!FN(plain)(s->rstd)) {
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = (real)(XHAT_WIDE(x[i], s) * (double)gamma[i] + (beta ? (double)beta[i] : 0));
        return;
    }
    vec hi = vset((real)s->hi), rstd = vset((real)s->rstd), lo = vset((real)(s->lo * s->rstd));
    if (beta)
        for (ptrdiff_t i = 0; i < n; i += LANES) {
            vec h = XHAT(FN(load_some)(x + i, n - i), hi, rstd, lo);
            FN(store_some)(out + i, vfma(h, FN(load_some)(gamma + i, n - i), FN(load_some)(beta + i, n - i)), n - i);
        }
    else
        for (ptrdiff_t i = 0; i < n; i += LANES) {
            vec h = XHAT(FN(load_some)(x + i, n - i), hi, rstd, lo);
            FN(store_some)(out + i, h * FN(load_some)(gamma + i, n - i), n - i);
        }
}

/* out = a g - (b xhat + c) */
FUNC void FN(differentiate_run)(const real *x, const real *g, ptrdiff_t n, const norm_statistics *s, double a, double b, double c, real *out)
{
    double slope = b * s->rstd;
    if (!(FN(plain)(s->rstd) && FN(plain)(a) && FN(plain)(slope))) {
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = (real)(a * (double)g[i] - (b * XHAT_WIDE(x[i], s) + c));
        return;
    }
    vec va = vset((real)a), vb = vset((real)slope), vc = vset((real)(c - slope * s->lo)), hi = vset((real)s->hi);
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        vec t = vfma(FN(load_some)(x + i, n - i) - hi, vb, vc);
        FN(store_some)(out + i, vfms(va, FN(load_some)(g + i, n - i), t), n - i);
    }
}

/* out = a g: the gradient where mean and variance are constants */
FUNC void FN(scale_run)(const real *g, ptrdiff_t n, double a, real *out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = (real)((double)g[i] * a);
}

/* a row of the gradient: out = rstd g gamma - (b xhat + c) */
typedef struct {
    const real *x, *g;
    real *out;
    norm_statistics s;
    double b, c;
} FN(back_row);

INLINE int FN(plain_row)(const FN(back_row) *r) { return FN(plain)(r->s.rstd) && FN(plain)(r->b * r->s.rstd); }

/* one row or four: out, and gamma_sum += g xhat, beta_sum += g of the columns. Either may be left out */
INLINE void FN(differentiate)(const FN(back_row) *r, int rows, ptrdiff_t n, const real *gamma, int outs, double *gamma_sum, double *beta_sum)
{
    vec hi[4], rstd[4], lo[4], slope[4], shift[4];
    for (int k = 0; k < rows; k++) {
        double b = r[k].b * r[k].s.rstd;
        hi[k] = vset((real)r[k].s.hi);
        rstd[k] = vset((real)r[k].s.rstd);
        lo[k] = vset((real)(r[k].s.lo * r[k].s.rstd));
        slope[k] = vset((real)b);
        shift[k] = vset((real)(r[k].c - b * r[k].s.lo));
    }
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        vec weight = outs ? FN(load_some)(gamma + i, n - i) : vzero(), v[4], w[4];
        for (int k = 0; k < rows; k++) {
            vec d = FN(load_some)(r[k].x + i, n - i) - hi[k];
            v[k] = FN(load_some)(r[k].g + i, n - i);
            if (outs)
                FN(store_some)(r[k].out + i, vfms(rstd[k], v[k] * weight, vfma(d, slope[k], shift[k])), n - i);
            w[k] = v[k] * vfms(d, rstd[k], lo[k]);
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

static norm_statistics FN(row_statistics)(const norm_plan *p, const real *x, ptrdiff_t n)
{
    wsums sum = {{wset(0)}}, none = sum, squares = sum;
    double mean = 0, size = (double)n, deviation, square, correction;
    if (p->centre) {
        FN(add_run)(x, n, &sum);
        double total = wtotal(&sum);
        if (!IS_F64 && !isfinite(total))
            total = FN(wide_sum)(x, n);
        mean = (double)(real)(total / size);
    }
    FN(add_deviations)(x, n, (real)mean, &none, &squares);
    deviation = wtotal(&none);
    square = wtotal(&squares);
    if (!FN(kept)(square, size)) {
        deviation = square = 0;
        FN(wide_deviations)(x, n, mean, &deviation, &square);
    }
    double variance = variance_of(p->centre ? deviation : 0, square, size, &correction);
    return FN(statistics)(mean, correction, variance, p->epsilon);
}

/* sums of g gamma and of g gamma xhat of n cells */
static void FN(run_products)(const real *x, const real *g, ptrdiff_t n, const norm_statistics *s, const real *gamma, double *sum, double *moment)
{
    wsums sums = {{wset(0)}}, moments = sums;
    if (gamma)
        FN(add_products_row)(x, g, n, (real)s->hi, gamma, &sums, &moments);
    else
        FN(add_products_run)(x, g, n, (real)s->hi, &sums, &moments);
    *sum = wtotal(&sums);
    *moment = wtotal(&moments);
    if (!IS_F64 && !(FN(plain)(s->rstd) && isfinite(*moment))) {
        *sum = *moment = 0;
        FN(wide_products)(x, g, n, s->hi, gamma, sum, moment);
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
    for (ptrdiff_t r = unit * p->part; r < smaller((unit + 1) * p->part, p->batch * p->groups); r++) {
        const real *x = (const real *)p->x + r * n;
        real *out = (real *)p->out + r * n;
        ptrdiff_t c0 = r % p->groups * p->channels;
        norm_statistics s = FN(row_statistics)(p, x, n);
        if (p->run == 1 && p->gamma)
            FN(normalise_row)(x, n, &s, (const real *)p->gamma + c0, p->beta ? (const real *)p->beta + c0 : 0, out);
        else
            for (ptrdiff_t c = 0; c < p->channels; c++)
                FN(normalise_run)(x + c * p->run, p->run, &s, FN(value_or)(p->gamma, c0 + c, 1), FN(value_or)(p->beta, c0 + c, 0), out + c * p->run);
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
    p->parts = blocks_for(p->batch, p->part);
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

/* one row with a vector gamma, up to its gradient: sums, and b and c */
static FN(back_row) FN(back_row_of)(const norm_plan *p, ptrdiff_t r, const real *gamma)
{
    ptrdiff_t n = p->channels;
    FN(back_row) row = {(const real *)p->x + r * n, (const real *)p->g + r * n, (real *)p->out + r * n, {0, 0, 0}, 0, 0};
    double sum, moment;
    row.s = FN(row_statistics)(p, row.x, n);
    FN(run_products)(row.x, row.g, n, &row.s, gamma, &sum, &moment);
    row.b = row.s.rstd * (moment / (double)n);
    row.c = p->centre ? row.s.rstd * (sum / (double)n) : 0;
    return row;
}

/* one row with a number gamma for each run: to out, and its channels' sums */
static void FN(back_row_of_runs)(const norm_plan *p, ptrdiff_t r, const real *gamma, double *sums, double *gamma_sum, double *beta_sum)
{
    ptrdiff_t run = p->run, n = p->channels * run;
    const real *x = (const real *)p->x + r * n, *g = (const real *)p->g + r * n;
    norm_statistics s = FN(row_statistics)(p, x, n);
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
    for (ptrdiff_t c = 0; c < p->channels; c++)
        FN(differentiate_run)(x + c * run, g + c * run, run, &s, s.rstd * FN(value_or)(gamma, c, 1), b, d, (real *)p->out + r * n + c * run);
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
    for (; p->run == 1 && gamma && !p->columnwise && b + 4 <= last; b += 4) {
        int plain = 1;
        for (int k = 0; k < 4; k++) {
            rows[k] = FN(back_row_of)(p, (b + k) * p->groups + group, gamma);
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
        rows[0] = FN(back_row_of)(p, r, gamma);
        if (p->columnwise)
            kept[r] = rows[0].s;
        FN(differentiate_one)(rows, p->channels, gamma, p->columnwise ? 0 : gamma_sum, beta_sum);
    }
}

/* ---- channels: batch normalisation with runs of S >= LONG_RUN cells */

/* pieces of cells lo..hi-1 of a channel, which is `batch` runs: offset of each in x, and its length */
typedef struct {
    ptrdiff_t at, n, left;
} FN(piece);

INLINE FN(piece) FN(piece_at)(const norm_plan *p, ptrdiff_t c, ptrdiff_t lo, ptrdiff_t hi)
{
    ptrdiff_t b = lo / p->run, s = lo % p->run;
    return (FN(piece)){(b * p->channels + c) * p->run + s, smaller(p->run - s, hi - lo), hi - lo};
}

INLINE int FN(piece_next)(const norm_plan *p, FN(piece) *q)
{
    q->left -= q->n;
    q->at = (q->at / p->run + p->channels) * p->run;
    q->n = smaller(p->run, q->left);
    return q->left > 0;
}

INLINE ptrdiff_t FN(part_end)(const norm_plan *p, ptrdiff_t part) { return smaller((part + 1) * p->part, p->batch * p->run); }

/* for the pieces of block `part` of channel c */
#define FOR_PIECES(q, c, part) \
    FN(piece) q = FN(piece_at)(p, c, (part) * p->part, FN(part_end)(p, part)); \
    for (int more = q.left > 0; more; more = FN(piece_next)(p, &q))

static double FN(part_sum)(const norm_plan *p, ptrdiff_t c, ptrdiff_t part)
{
    const real *x = (const real *)p->x;
    wsums sums = {{wset(0)}};
    {
        FOR_PIECES(q, c, part)
            FN(add_run)(x + q.at, q.n, &sums);
    }
    double sum = wtotal(&sums);
    if (IS_F64 || isfinite(sum))
        return sum;
    sum = 0;
    FOR_PIECES(q, c, part)
        sum += FN(wide_sum)(x + q.at, q.n);
    return sum;
}

static void FN(part_deviations)(const norm_plan *p, ptrdiff_t c, ptrdiff_t part, double mean, double *sums)
{
    const real *x = (const real *)p->x;
    wsums deviations = {{wset(0)}}, squares = deviations;
    {
        FOR_PIECES(q, c, part)
            FN(add_deviations)(x + q.at, q.n, (real)mean, &deviations, &squares);
    }
    sums[0] = wtotal(&deviations);
    sums[1] = wtotal(&squares);
    if (FN(kept)(sums[1], (double)(FN(part_end)(p, part) - part * p->part)))
        return;
    sums[0] = sums[1] = 0;
    FOR_PIECES(q, c, part)
        FN(wide_deviations)(x + q.at, q.n, mean, sums, sums + 1);
}

/* sums of g and of g xhat */
static void FN(part_products)(const norm_plan *p, ptrdiff_t c, ptrdiff_t part, const norm_statistics *s, double *sums)
{
    const real *x = (const real *)p->x, *g = (const real *)p->g;
    wsums sum = {{wset(0)}}, moment = sum;
    {
        FOR_PIECES(q, c, part)
            FN(add_products_run)(x + q.at, g + q.at, q.n, (real)s->hi, &sum, &moment);
    }
    sums[0] = wtotal(&sum);
    sums[1] = wtotal(&moment);
    if (!IS_F64 && !(FN(plain)(s->rstd) && isfinite(sums[1]))) {
        sums[0] = sums[1] = 0;
        FOR_PIECES(q, c, part)
            FN(wide_products)(x + q.at, g + q.at, q.n, s->hi, 0, sums, sums + 1);
    }
    sums[1] = MOMENT(s, sums[0], sums[1]);
}

static void FN(part_normalise)(const norm_plan *p, ptrdiff_t c, ptrdiff_t part, const norm_statistics *s)
{
    FOR_PIECES(q, c, part)
        FN(normalise_run)((const real *)p->x + q.at, q.n, s, FN(value_or)(p->gamma, c, 1), FN(value_or)(p->beta, c, 0), (real *)p->out + q.at);
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
    double correction, variance = variance_of(deviations, squares, (double)(p->batch * p->run), &correction);
    ((real *)p->mean)[c] = (real)(mean + correction);
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
    FOR_PIECES(q, c, part) {
        const real *x = (const real *)p->x + q.at, *g = (const real *)p->g + q.at;
        if (p->train)
            FN(differentiate_run)(x, g, q.n, s, abc[0], abc[1], abc[2], (real *)p->out + q.at);
        else
            FN(scale_run)(g, q.n, abc[0], (real *)p->out + q.at);
    }
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
    double *mean;             /* a column: the same in double and in the operand's type */
    real *hi, *lo, *rstd, *a, *b, *c;
} FN(columns);

static FN(columns) FN(columns_of)(const norm_plan *p)
{
    ptrdiff_t n = p->channels * p->run;
    FN(columns) k;
    k.channel = (norm_statistics *)(p->memory + 2 * p->parts * n);
    k.abc = (double *)(k.channel + p->channels);
    k.mean = k.abc + 3 * p->channels;
    k.hi = (real *)(k.mean + n);
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
    p->bytes = sizeof(double) * (size_t)(2 * p->parts * n + 6 * p->channels + n) + 6 * sizeof(real) * (size_t)n;
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
        k->lo[i] = (real)s.lo;
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

FUNC void FN(column_sums)(const norm_plan *p, FN(tile) t, double *sums)
{
    memset(sums + t.lo, 0, sizeof(double) * (size_t)(t.hi - t.lo));
    for (ptrdiff_t r = t.first; r < t.last; r++) {
        const real *x = (const real *)p->x + r * t.n;
        ptrdiff_t i = t.lo, rows = t.last - r;
        if (rows >= 4) {
            for (; i + WLANES <= t.hi; i += WLANES)
                vstore_f64(sums + i, vload_f64(sums + i) + ((wload(x + i) + wload(x + t.n + i)) + (wload(x + 2 * t.n + i) + wload(x + 3 * t.n + i))));
            for (; i < t.hi; i++)
                sums[i] += ((double)x[i] + (double)x[t.n + i]) + ((double)x[2 * t.n + i] + (double)x[3 * t.n + i]);
            r += 3;
            continue;
        }
        for (; i + WLANES <= t.hi; i += WLANES)
            vstore_f64(sums + i, vload_f64(sums + i) + wload(x + i));
        for (; i < t.hi; i++)
            sums[i] += (double)x[i];
    }
}

FUNC void FN(column_deviations)(const norm_plan *p, const FN(columns) *k, FN(tile) t, double *sums, double *squares)
{
    memset(sums + t.lo, 0, sizeof(double) * (size_t)(t.hi - t.lo));
    memset(squares + t.lo, 0, sizeof(double) * (size_t)(t.hi - t.lo));
    for (ptrdiff_t r = t.first; r < t.last; r++) {
        const real *x = (const real *)p->x + r * t.n;
        ptrdiff_t i = t.lo;
        for (; i + WLANES <= t.hi; i += WLANES) {
            wvec d = wload(x + i) - vload_f64(k->mean + i);
            vstore_f64(sums + i, vload_f64(sums + i) + d);
            vstore_f64(squares + i, vload_f64(squares + i) + d * d);
        }
        for (; i < t.hi; i++) {
            double d = (double)x[i] - k->mean[i];
            sums[i] += d;
            squares[i] += d * d;
        }
    }
}

/* whether all columns of a tile keep to the operand's type */
static int FN(plain_tile)(const norm_plan *p, const FN(columns) *k, FN(tile) t)
{
    for (ptrdiff_t c = t.lo / p->run; c <= (t.hi - 1) / p->run; c++)
        if (!(FN(plain)(k->channel[c].rstd) && FN(plain)(k->abc[3 * c]) && (IS_F64 || fabs(k->channel[c].hi) < 1e37)))
            return 0;
    return 1;
}

#define COLUMN_XHAT(v, i, n) \
    ((((v) - FN(load_some)(k->hi + (i), n)) - FN(load_some)(k->lo + (i), n)) * FN(load_some)(k->rstd + (i), n))

FUNC void FN(column_products)(const norm_plan *p, const FN(columns) *k, FN(tile) t, double *sums, double *moments)
{
    int plain = FN(plain_tile)(p, k, t);
    memset(sums + t.lo, 0, sizeof(double) * (size_t)(t.hi - t.lo));
    memset(moments + t.lo, 0, sizeof(double) * (size_t)(t.hi - t.lo));
    for (ptrdiff_t r = t.first; r < t.last; r++) {
        const real *x = (const real *)p->x + r * t.n, *g = (const real *)p->g + r * t.n;
        ptrdiff_t i = t.lo;
        for (; plain && i + LANES <= t.hi; i += LANES) {
            vec v = vload(g + i);
            wsums a = FN(wsplit)(v), b = FN(wsplit)(v * COLUMN_XHAT(vload(x + i), i, LANES));
            for (int j = 0; j < (IS_F64 ? 1 : 2); j++) {
                double *as = sums + i + j * WLANES, *bs = moments + i + j * WLANES;
                vstore_f64(as, vload_f64(as) + a.v[j]);
                vstore_f64(bs, vload_f64(bs) + b.v[j]);
            }
        }
        for (; i < t.hi; i++) {
            sums[i] += (double)g[i];
            moments[i] += (double)g[i] * XHAT_WIDE(x[i], k->channel + i / p->run);
        }
    }
}

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

static int FN(columns_forward_stage)(norm_plan *p)
{
    ptrdiff_t n = p->channels * p->run;
    FN(columns) k = FN(columns_of)(p);
    p->stage += p->train || p->stage > 0 ? 1 : 3; /* 1 sums, 2 deviations, 3 normalise */
    p->units = p->parts * blocks_for(n, COLUMNS);
    for (ptrdiff_t c = 0; c < p->channels; c++) {
        double cells = (double)(p->batch * p->run), gamma = FN(value_or)(p->gamma, c, 1), beta = FN(value_or)(p->beta, c, 0);
        if (p->stage == 2)
            for (ptrdiff_t i = 0; i < p->run; i++)
                k.mean[c * p->run + i] = i ? k.mean[c * p->run] : FN(channel_total)(p, p->memory, c) / cells;
        else if (p->stage == 3 && p->train)
            FN(set_columns)(p, &k, c, FN(found_statistics)(p, c, k.mean[c * p->run], FN(channel_total)(p, p->memory, c),
                                                            FN(channel_total)(p, p->memory + p->parts * n, c)), gamma, beta, 0);
        else if (p->stage == 3)
            FN(set_columns)(p, &k, c, FN(given_statistics)(p, c), gamma, beta, 0);
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
    ptrdiff_t n = p->channels * p->run;
    FN(columns) k = FN(columns_of)(p);
    p->stage++; /* 1 products, 2 differentiate */
    p->units = p->parts * blocks_for(n, COLUMNS);
    for (ptrdiff_t c = 0; c < p->channels && p->stage <= 2; c++) {
        norm_statistics s = FN(given_statistics)(p, c);
        double abc[3] = {s.rstd * FN(value_or)(p->gamma, c, 1), 0, 0};
        if (p->stage == 2)
            FN(channel_grads)(p, c, &s, FN(channel_total)(p, p->memory, c), FN(channel_total)(p, p->memory + p->parts * n, c), abc);
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
#undef XHAT_WIDE
#undef FOR_PIECES
#undef COLUMN_XHAT
