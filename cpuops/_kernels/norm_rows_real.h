/* norm_rows_real.h: normalisation by rows, for one scalar type. Included by norm_real.h only. */

/* ---- rows: layer, RMS, group and instance normalisation */

/* the mean of a row, in `real`: what deviations are taken from; 0 for RMS */
INLINE double FN(row_mean)(const norm_plan *p, const real *x, ptrdiff_t n, double share, double total)
{
    FN(span) q = {0, n, 1, 0};
    if (!p->centre)
        return 0;
    if (!IS_F64 && !isfinite(total)) {
        total = 0;
        FN(wide_sum)(x, &q, &total);
    }
    return (double)(real)(total * share);
}

/* its statistics, from sums of deviations and of their squares; the mean's correction */
INLINE norm_statistics FN(deviation_statistics)(const norm_plan *p, const real *x, ptrdiff_t n, double share, double mean,
                                                double deviation, double square, double *correction)
{
    FN(span) q = {0, n, 1, 0};
    if (!FN(kept)(square, (double)n)) {
        deviation = square = 0;
        FN(wide_deviations)(x, &q, mean, &deviation, &square);
    }
    double variance = variance_of(p->centre ? deviation : 0, square, share, correction);
    return FN(statistics)(mean, *correction, variance, p->epsilon);
}

static double FN(row_total)(const norm_plan *p, const real *x, ptrdiff_t n)
{
    FN(span) q = {0, n, 1, 0};
    wsums sum = {{wset(0)}};
    if (p->centre)
        FN(add_run)(x, &q, &sum);
    return wtotal(&sum);
}

static norm_statistics FN(row_statistics)(const norm_plan *p, const real *x, ptrdiff_t n, double share)
{
    double correction;
    if (n <= 4 * LANES) { /* it stays in registers */
        vec v[4], d[4];
        FN(load_four)(x, n, v);
        double mean = FN(row_mean)(p, x, n, share, FN(total_of)(FN(pairs_of)(v)));
        for (ptrdiff_t k = 0; k < 4; k++)
            d[k] = FN(first_lanes)(v[k] - vset((real)mean), n - k * LANES);
        double square = FN(total_of)(FN(pairs)(d[0] * d[0], d[1] * d[1], d[2] * d[2], d[3] * d[3]));
        return FN(deviation_statistics)(p, x, n, share, mean, FN(total_of)(FN(pairs_of)(d)), square, &correction);
    }
    double mean = FN(row_mean)(p, x, n, share, FN(row_total)(p, x, n));
    wsums deviations = {{wset(0)}}, squares = deviations;
    FN(span) q = {0, n, 1, 0};
    FN(add_deviations)(x, &q, (real)mean, p->run > 1 && n <= BLOCK_CELLS ? n : 0, &deviations, &squares);
    return FN(deviation_statistics)(p, x, n, share, mean, wtotal(&deviations), wtotal(&squares), &correction);
}

/* sums of g and of g xhat of n cells */
static void FN(run_products)(const real *x, const real *g, ptrdiff_t n, const norm_statistics *s, double *sum, double *moment)
{
    wsums sums = {{wset(0)}}, moments = sums;
    FN(span) q = {0, n, 1, 0};
    FN(add_products)(x, g, &q, (real)s->hi, &sums, &moments);
    *sum = wtotal(&sums);
    *moment = wtotal(&moments);
    if (!IS_F64 && !(FN(plain)(s->rstd) && isfinite(*moment))) {
        *sum = *moment = 0;
        FN(wide_products)(x, g, &q, s->hi, 0, sum, moment);
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
    const int many = p->batch >= MANY_ROWS;
    return p->run > 1 && p->run < (many ? MANY_RUN : LONG_RUN) && p->groups * p->channels * p->run <= (many ? MANY_SPREAD : MOST_SPREAD);
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
    cut_parts(p, rows, even_size(rows, BLOCK_CELLS / n, p->threads), rows);
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
        if (p->residual) {
            real *total = (real *)p->total + r * n;
            FN(add_residual)(x, (const real *)p->residual + r * n, n, total);
            x = total;
        }
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
    ptrdiff_t step = all + LANES_f32, most = p->columnwise ? p->batch : power_of_two(smaller(MOST_PARTS, PARTIAL_SUMS / (2 * step)));
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

/* one row with a vector gamma, up to its gradient: statistics, and b and c; `ahead`: of add_row */
static void FN(set_back_row)(const norm_plan *p, ptrdiff_t r, const real *gamma, double share, ptrdiff_t ahead, FN(back_row) *row)
{
    ptrdiff_t n = p->channels;
    row->x = (const real *)p->x + r * n;
    row->g = (const real *)p->g + r * n;
    row->out = (real *)p->out + r * n;
    FN(row_sums) sums;
    double mean = FN(row_mean)(p, row->x, n, share, FN(row_total)(p, row->x, n)), correction;
    FN(add_row)(row->x, row->g, gamma, n, ahead, (real)mean, &sums);
    row->s = FN(deviation_statistics)(p, row->x, n, share, mean, wtotal(&sums.deviations), wtotal(&sums.squares), &correction);
    double sum = wtotal(&sums.sums), moment = wtotal(&sums.moments);
    if (!IS_F64 && !(FN(plain)(row->s.rstd) && isfinite(moment))) {
        FN(span) q = {0, n, 1, 0};
        sum = moment = 0;
        FN(wide_products)(row->x, row->g, &q, mean, gamma, &sum, &moment);
    }
    /* the products were taken with deviations from the mean as it was before its correction */
    moment = row->s.rstd * (moment - (p->centre && isfinite(correction) ? FN(part_of)(correction, sum) : 0));
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
        FN(run_products)(x + c * run, g + c * run, run, &s, q, q + 1);
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

/* what arrives at a row by another way, onto its gradient while that is near */
INLINE void FN(add_to_gradient)(const norm_plan *p, ptrdiff_t r, ptrdiff_t n)
{
    real *out = (real *)p->out + r * n;
    if (p->residual)
        FN(add_residual)(out, (const real *)p->residual + r * n, n, out);
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
    ptrdiff_t b = part * p->part, last = smaller(b + p->part, p->batch), next = p->groups * p->channels;
    FN(back_row) rows[4];
    double share = p->run ? 1 / (double)(p->channels * p->run) : 0; /* no cells: statistics 0, so that their gradients are too */
    for (; p->run == 1 && gamma && !p->columnwise && b + 4 <= last; b += 4) {
        int plain = 1;
        for (int k = 0; k < 4; k++) {
            FN(set_back_row)(p, (b + k) * p->groups + group, gamma, share, 4 * next, rows + k);
            plain &= FN(plain_row)(rows + k);
        }
        if (plain)
            FN(differentiate_four)(rows, p->channels, gamma, gamma_sum, beta_sum);
        for (int k = 0; k < 4 && !plain; k++)
            FN(differentiate_one)(rows + k, p->channels, gamma, gamma_sum, beta_sum);
        for (int k = 0; k < 4; k++)
            FN(add_to_gradient)(p, (b + k) * p->groups + group, p->channels);
    }
    for (; b < last; b++) {
        ptrdiff_t r = b * p->groups + group;
        if (p->run > 1 || !gamma) {
            FN(back_row_of_runs)(p, r, gamma, p->memory + p->sums + 2 * unit * p->channels, gamma_sum, beta_sum);
            continue;
        }
        FN(set_back_row)(p, r, gamma, share, p->columnwise ? 0 : next, rows);
        if (p->columnwise)
            kept[r] = rows[0].s;
        FN(differentiate_one)(rows, p->channels, gamma, p->columnwise ? 0 : gamma_sum, beta_sum);
        FN(add_to_gradient)(p, r, p->channels);
    }
}
