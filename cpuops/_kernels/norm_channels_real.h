/* norm_channels_real.h: normalisation by channels, for one scalar type. Included by norm_real.h only. */

/* ---- channels: batch normalisation with runs of S >= LONG_RUN cells */

/* Block `part` of channel c, whose cells are `batch` runs, is at most three spans: the end of a run, whole runs, the beginning
 * of another. */
typedef struct {
    FN(span) of[3];
    int spans;
} FN(block);

/* in place: a struct that is copied in vectors just after its members were written makes the copy wait */
INLINE void FN(find_block)(const norm_plan *p, ptrdiff_t c, ptrdiff_t part, FN(block) *k)
{
    k->spans = 0;
    if (p->parts == 1) {
        k->of[k->spans++] = (FN(span)){c * p->run, p->run, p->batch, p->channels * p->run};
        return;
    }
    ptrdiff_t lo = part * p->part, hi = smaller(lo + p->part, p->batch * p->run);
    while (lo < hi) {
        ptrdiff_t b = lo / p->run, i = lo % p->run, whole = i == 0 ? (hi - lo) / p->run : 0;
        ptrdiff_t n = whole ? p->run : smaller(p->run - i, hi - lo);
        k->of[k->spans++] = (FN(span)){(b * p->channels + c) * p->run + i, n, larger(whole, 1), p->channels * p->run};
        lo += n * larger(whole, 1);
    }
}

static double FN(part_sum)(const norm_plan *p, ptrdiff_t c, ptrdiff_t part)
{
    FN(block) k;
    FN(find_block)(p, c, part, &k);
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
    FN(block) k;
    FN(find_block)(p, c, part, &k);
    wsums deviations = {{wset(0)}}, squares = deviations;
    for (int i = 0; i < k.spans; i++)
        FN(add_deviations)((const real *)p->x, k.of + i, (real)mean, p->parts == 1 ? p->run : 0, &deviations, &squares);
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
    FN(block) k;
    FN(find_block)(p, c, part, &k);
    wsums sum = {{wset(0)}}, moment = sum;
    for (int i = 0; i < k.spans; i++)
        FN(add_products)(x, g, k.of + i, (real)s->hi, &sum, &moment);
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
    FN(block) k;
    FN(find_block)(p, c, part, &k);
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
    FN(block) k;
    FN(find_block)(p, c, part, &k);
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
    p->together = p->parts == 1 ? larger(1, BLOCK_CELLS / 4 / larger(cells, 1)) : 1;
    p->bytes = sizeof(double) * (size_t)(3 * p->channels * p->parts + 6 * p->channels);
}

/* sums: [C, parts] of x, then [C, parts, 2] of deviations; behind them the channels' statistics */
INLINE norm_statistics *FN(shared_statistics)(const norm_plan *p) { return (norm_statistics *)(p->memory + 3 * p->channels * p->parts); }

static int FN(channels_forward_stage)(norm_plan *p)
{
    norm_statistics *shared = FN(shared_statistics)(p);
    p->stage++;
    if (!p->train) {
        p->units = blocks_for(p->channels * p->parts, p->together);
        return p->stage == 1;
    }
    p->units = p->cut ? p->channels * p->parts : blocks_for(p->channels, p->together);
    for (ptrdiff_t c = 0; p->cut && c < p->channels; c++) {
        double *sums = p->memory + c * p->parts, *deviations = p->memory + p->channels * p->parts + 2 * c * p->parts;
        if (p->stage == 2)
            shared[c].hi = (double)(real)(FN(joined)(p, sums, 1) / (double)(p->batch * p->run));
        if (p->stage == 3)
            shared[c] = FN(found_statistics)(p, c, shared[c].hi, FN(joined)(p, deviations, 2), FN(joined)(p, deviations + 1, 2));
    }
    return p->stage <= (p->cut ? 3 : 1);
}

/* a channel, or a part of one */
static void FN(channel_forward)(const norm_plan *p, ptrdiff_t unit)
{
    ptrdiff_t c = unit, part = 0;
    if (p->parts > 1) {
        c = unit / p->parts;
        part = unit % p->parts;
    }
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

/* channels of few cells, one pass over all of them after the other: each waits for its sums, but not for its neighbours' */
static void FN(channels_abreast)(const norm_plan *p, ptrdiff_t first, ptrdiff_t n)
{
    norm_statistics s[MOST_ABREAST];
    double mean[MOST_ABREAST], sums[2];
    for (ptrdiff_t k = 0; p->train && k < n; k++)
        mean[k] = (double)(real)(FN(part_sum)(p, first + k, 0) / (double)(p->batch * p->run));
    for (ptrdiff_t k = 0; k < n; k++)
        if (p->train) {
            FN(part_deviations)(p, first + k, 0, mean[k], sums);
            s[k] = FN(found_statistics)(p, first + k, mean[k], sums[0], sums[1]);
        } else
            s[k] = FN(given_statistics)(p, first + k);
    for (ptrdiff_t k = 0; k < n; k++)
        FN(part_normalise)(p, first + k, 0, s + k);
}

static void FN(channels_forward)(const norm_plan *p, ptrdiff_t unit)
{
    if (p->parts > 1) {
        FN(channel_forward)(p, unit);
        return;
    }
    ptrdiff_t last = smaller((unit + 1) * p->together, p->channels);
    for (ptrdiff_t c = unit * p->together; c < last; c += MOST_ABREAST)
        FN(channels_abreast)(p, c, smaller(MOST_ABREAST, last - c));
}

static int FN(channels_backward_stage)(norm_plan *p)
{
    double *abc = p->memory + 3 * p->channels * p->parts + 3 * p->channels;
    p->stage++;
    p->units = p->cut ? p->channels * p->parts : blocks_for(p->channels, p->together);
    for (ptrdiff_t c = 0; p->cut && p->stage == 2 && c < p->channels; c++) {
        norm_statistics s = FN(given_statistics)(p, c);
        double *sums = p->memory + 2 * c * p->parts;
        FN(channel_grads)(p, c, &s, FN(joined)(p, sums, 2), FN(joined)(p, sums + 1, 2), abc + 3 * c);
    }
    return p->stage <= (p->cut ? 2 : 1);
}

/* a channel, or a part of one */
static void FN(channel_backward)(const norm_plan *p, ptrdiff_t unit)
{
    ptrdiff_t c = unit, part = 0;
    if (p->cut) {
        c = unit / p->parts;
        part = unit % p->parts;
    }
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

static void FN(channels_backward)(const norm_plan *p, ptrdiff_t unit)
{
    ptrdiff_t last = p->parts == 1 ? smaller((unit + 1) * p->together, p->channels) : unit + 1;
    for (ptrdiff_t c = p->parts == 1 ? unit * p->together : unit; c < last; c++)
        FN(channel_backward)(p, c);
}
