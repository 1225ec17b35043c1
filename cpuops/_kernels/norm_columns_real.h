/* norm_columns_real.h: normalisation by channels of few cells, for one scalar type. Included by norm_real.h only. */

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
    cut_parts(p, p->batch, BLOCK_CELLS / larger(smaller(n, COLUMNS), 1), power_of_two(smaller(MOST_PARTS, PARTIAL_SUMS / larger(2 * n, 1))));
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
