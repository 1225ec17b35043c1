/* pool_avg_real.h: average pooling; its gradient: pool_avg_back_real.h. Included by pool.h only, which tells how a row is made.
 *
 * out[o] = sum of x over the window / divisor(o); divisor: the taps counted along D, H and W multiplied, or one number.
 * Sums in double. Padding is -0.0, which adds to anything without changing it.
 */

/* ---- step 1: rows to a line of doubles */

typedef struct {
    const real *x; /* the first cell of the line, in the windows' first row */
    ptrdiff_t nd, nh, step_d, step_h;
    int whole;     /* a vector at any cell of the line may be read whole: x goes on */
} FN(avg_rows);

INLINE wvec FN(sum_rows)(const FN(avg_rows) *r, ptrdiff_t column, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t lanes)
{
    wvec sum = wset(0);
    for (ptrdiff_t d = 0; d < nd; d++)
        for (ptrdiff_t h = 0; h < nh; h++) {
            const real *at = r->x + column + d * r->step_d + h * r->step_h;
            wvec v = lanes == WLANES ? wload(at) : wload_n(at, lanes);
            sum = d == 0 && h == 0 ? v : sum + v;
        }
    return sum;
}

INLINE void FN(sum_line_of)(const FN(avg_rows) *r, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t n, double *line)
{
    if (n < WLANES) {
        wvec v = r->whole ? FN(sum_rows)(r, 0, nd, nh, WLANES) : FN(sum_rows)(r, 0, nd, nh, n);
        vstore_f64(line, FN(end_sums)(n, v));
        return;
    }
    ptrdiff_t i = 0;
    /* one column's additions wait for each other: of many rows, four columns at once */
    for (; nd * nh > 4 && i + 4 * WLANES <= n; i += 4 * WLANES) {
        wvec sum[4];
        for (int k = 0; k < 4; k++)
            sum[k] = wload(r->x + i + k * WLANES);
        for (ptrdiff_t d = 0; d < nd; d++)
            for (ptrdiff_t h = d == 0; h < nh; h++)
                for (int k = 0; k < 4; k++)
                    sum[k] += wload(r->x + i + k * WLANES + d * r->step_d + h * r->step_h);
        for (int k = 0; k < 4; k++)
            vstore_f64(line + i + k * WLANES, sum[k]);
    }
    for (; i < n; i += WLANES) {
        ptrdiff_t at = least(i, n - WLANES);
        vstore_f64(line + at, FN(sum_rows)(r, at, nd, nh, WLANES));
    }
}

INLINE void FN(sum_dealt_of)(const FN(avg_rows) *r, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t n, ptrdiff_t first, ptrdiff_t phase, double *line)
{
    for (ptrdiff_t i = 0; i < n; i += 2 * WLANES) {
        ptrdiff_t at = most(0, least(i, n - 2 * WLANES)), place = first + at;
        wvec a = FN(sum_rows)(r, at, nd, nh, WLANES), b = FN(sum_rows)(r, at + WLANES, nd, nh, WLANES), even, odd;
        if (n < 2 * WLANES) {
            a = FN(end_sums)(n, a);
            b = FN(end_sums)(n - WLANES, b);
        }
        vdeal_f64(a, b, &even, &odd);
        vstore_f64(line + (place & 1) * phase + (place >> 1), even);
        vstore_f64(line + (~place & 1) * phase + ((place + 1) >> 1), odd);
    }
}

FUNC void FN(sum_line)(const FN(avg_rows) *r, ptrdiff_t n, double *line)
{
#define CALL(nd, nh) FN(sum_line_of)(r, nd, nh, n, line)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

FUNC void FN(sum_dealt)(const FN(avg_rows) *r, ptrdiff_t n, ptrdiff_t first, ptrdiff_t phase, double *line)
{
#define CALL(nd, nh) FN(sum_dealt_of)(r, nd, nh, n, first, phase, line)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

/* `n` pixels of a line, of `channels` out of `pixel` */
static void FN(any_sum_line)(const FN(avg_rows) *r, ptrdiff_t n, ptrdiff_t channels, ptrdiff_t pixel, double *line)
{
    if (channels == pixel) {
        FN(sum_line)(r, n * pixel, line);
        return;
    }
    FN(avg_rows) one = *r;
    for (ptrdiff_t i = 0; i < n; i++, one.x += pixel)
        FN(sum_line)(&one, channels, line + i * channels);
}

/* ---- step 2, runs; direct */

/* sum / divisor: `scale` is the divisor in double, where the quotient is rounded once, and for float its reciprocal,
 * whose error is far below a float's */
#define QUOTIENT(sum, scale) (IS_F64 ? (sum) / (scale) : (sum) * (scale))

INLINE void FN(avg_run_of)(const double *line, const ptrdiff_t *offset, ptrdiff_t taps, const double *scale, ptrdiff_t n, real *out)
{
    for (ptrdiff_t i = 0; i < n; i += WLANES) {
        ptrdiff_t at = n < WLANES ? 0 : least(i, n - WLANES);
        wvec sum = vload_f64(line + offset[0] + at);
        for (ptrdiff_t t = 1; t < taps; t++)
            sum += vload_f64(line + offset[t] + at);
        sum = QUOTIENT(sum, vload_f64(scale + at));
        if (n < WLANES)
            wstore_n(out, sum, n);
        else
            wstore(out + at, sum);
    }
}

FUNC void FN(avg_run)(const double *line, const ptrdiff_t *offset, ptrdiff_t taps, const double *scale, ptrdiff_t n, real *out)
{
    if (taps == 2)
        FN(avg_run_of)(line, offset, 2, scale, n, out);
    else if (taps == 3)
        FN(avg_run_of)(line, offset, 3, scale, n, out);
    else
        FN(avg_run_of)(line, offset, taps, scale, n, out);
}

/* channels of one output pixel from its window's cells, as many as `vectors` hold; `lanes` of a single one */
INLINE void FN(direct_sum)(const real *x, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t pixel, int vectors, ptrdiff_t lanes, double scale, real *out)
{
    wvec sum[4];
    for (int k = 0; k < vectors; k++)
        sum[k] = lanes < WLANES ? wload_n(x, lanes) : wload(x + k * WLANES);
    for (ptrdiff_t t = 1; t < taps; t++) {
        const real *from = x + offset[t] * pixel;
        for (int k = 0; k < vectors; k++)
            sum[k] += lanes < WLANES ? wload_n(from, lanes) : wload(from + k * WLANES);
    }
    for (int k = 0; k < vectors; k++) {
        wvec mean = QUOTIENT(sum[k], wset(scale));
        if (lanes < WLANES)
            wstore_n(out, mean, lanes);
        else
            wstore(out + k * WLANES, mean);
    }
}

/* all n channels; the last of several vectors is laid over its neighbour */
FUNC void FN(direct_avg)(const real *x, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t pixel, double scale, ptrdiff_t n, real *out)
{
    ptrdiff_t c = 0;
    for (; c + 4 * WLANES <= n; c += 4 * WLANES)
        FN(direct_sum)(x + c, offset, taps, pixel, 4, WLANES, scale, out + c);
    for (; c < n; c += WLANES)
        if (n < WLANES) {
            FN(direct_sum)(x, offset, taps, pixel, 1, n, scale, out);
        } else {
            ptrdiff_t at = least(c, n - WLANES);
            FN(direct_sum)(x + at, offset, taps, pixel, 1, WLANES, scale, out + at);
        }
}

/* ---- step 2, segments */

/* taps cells of `channels` channels, `step` apart, added to sum (or begun with, when first) */
FUNC void FN(segment_sum)(const double *line, ptrdiff_t taps, ptrdiff_t step, ptrdiff_t channels, int first, double *sum)
{
    if (channels == 1) {
        ptrdiff_t t = 0;
        double s = -0.0;
        if (step == 1 && taps >= 4 * WLANES) {
            wvec a = vload_f64(line), b = vload_f64(line + WLANES);
            for (t = 2 * WLANES; t + 2 * WLANES <= taps; t += 2 * WLANES) {
                a += vload_f64(line + t);
                b += vload_f64(line + t + WLANES);
            }
            s = whsum(a + b);
        }
        for (; t < taps; t++)
            s += line[t * step];
        *sum = first ? s : *sum + s;
        return;
    }
    for (ptrdiff_t c = 0; c < channels; c++)
        sum[c] = first ? line[c] : sum[c] + line[c];
    for (ptrdiff_t t = 1; t < taps; t++) {
        const double *at = line + t * step;
        ptrdiff_t c = 0;
        for (; c + WLANES <= channels; c += WLANES)
            vstore_f64(sum + c, vload_f64(sum + c) + vload_f64(at + c));
        for (; c < channels; c++)
            sum[c] += at[c];
    }
}

/* ---- one row of one tile */

typedef struct {
    double *line, *phases;
    double *scale;          /* of an output cell: QUOTIENT's */
    double *sum;            /* segments: a channel's */
    ptrdiff_t *offset;      /* of the taps along W in the phases */
    pool_window *columns;   /* the windows along W */
    ptrdiff_t *taps;        /* direct: lists of a window's cells */
    direct_lists direct;
    ptrdiff_t tile;         /* whose columns, offsets and padding these are; `scale` is for rows that count */
    double scaled_by;
} FN(avg_scratch);

static FN(avg_scratch) FN(avg_scratch_of)(const pool_plan *p, void *memory)
{
    FN(avg_scratch) s = {.tile = NO_TILE};
    char *at = (char *)memory;
#define TAKE(member, n)    \
    s.member = (void *)at; \
    at += 8 * (n);
    TAKE(line, p->line * p->chunk + SLACK)
    TAKE(phases, p->phases * p->phase)
    TAKE(scale, p->tile * p->chunk + SLACK)
    TAKE(columns, 3 * (p->tile + SLACK))
    TAKE(sum, p->chunk + SLACK)
    TAKE(offset, least(p->w.kernel, p->line))
    TAKE(taps, DIRECT_LISTS * MOST_DIRECT)
#undef TAKE
    return s;
}

/* what full vectors touch behind n cells: whatever stands in recycled memory could be subnormal, which costs a hundred cycles */
static void FN(clean_behind)(double *cells, ptrdiff_t n)
{
    for (ptrdiff_t i = n; i < n + WLANES; i++)
        cells[i] = -0.0;
}

static void FN(pad_with_nothing)(const pool_plan *p, const FN(avg_scratch) *s, ptrdiff_t lo, ptrdiff_t hi, ptrdiff_t n)
{
    for (ptrdiff_t i = lo; i < hi; i++)
        for (ptrdiff_t c = 0; c < n; c++)
            s->phases[place_of(p, i, n) + c] = -0.0;
}

/* what a tile's rows share */
static void FN(avg_tile)(const pool_plan *p, const pool_tile *t, FN(avg_scratch) *s)
{
    if (t->number == s->tile)
        return;
    s->tile = t->number;
    s->scaled_by = 0;
    for (ptrdiff_t o = 0; o < t->outputs; o++)
        s->columns[o] = window(&p->w, t->o + o);
    for (ptrdiff_t k = 0; !p->segments && k < p->w.kernel; k++)
        s->offset[k] = place_of(p, k * p->w.dilation, t->channels);
    if (!p->segments && !p->direct) {
        FN(pad_with_nothing)(p, s, 0, t->lo, t->channels);
        FN(pad_with_nothing)(p, s, t->hi, t->span, t->channels);
        for (ptrdiff_t f = 0; f < p->phases; f++)
            FN(clean_behind)(s->phases + f * p->phase, (t->span + p->phases - 1 - f) / p->phases * t->channels);
    }
}

static void FN(avg_scales)(const pool_plan *p, const pool_tile *t, FN(avg_scratch) *s, double rows)
{
    if (rows == s->scaled_by)
        return;
    s->scaled_by = rows;
    for (ptrdiff_t o = 0; o < t->outputs; o++) {
        double divisor = rows * columns_counted(p, s->columns[o]), scale = IS_F64 ? divisor : 1 / divisor;
        for (ptrdiff_t c = 0; c < t->channels; c++)
            s->scale[o * t->channels + c] = scale;
    }
    FN(clean_behind)(s->scale, t->outputs * t->channels);
}

/* a vector of outputs at a time, of windows of one channel without gaps; r: of one row, where a window's cells may be read with
 * those behind them, else the line */
static void FN(avg_spans)(const pool_plan *p, const pool_tile *t, const FN(avg_scratch) *s, const FN(avg_rows) *r, real *out)
{
    int bare = r->nd * r->nh == 1 && r->whole;
    if (!bare)
        FN(sum_line)(r, t->hi, s->line);
    if (2 * t->outputs <= WLANES && widest(&p->w) >= 4 * WLANES) { /* few long ones: most lanes would do another's work again */
        for (ptrdiff_t o = 0; o < t->outputs; o++) {
            ptrdiff_t from = s->columns[o].first - t->origin, taps = s->columns[o].taps;
            out[o] = (real)QUOTIENT(bare ? FN(row_total)(r->x + from, taps) : row_total_f64(s->line + from, taps), s->scale[o]);
        }
        return;
    }
    for (ptrdiff_t o = 0; o < t->outputs; o += WLANES) {
        const real *cells[WLANES];
        const double *sums[WLANES];
        ptrdiff_t taps[WLANES];
        for (int k = 0; k < WLANES; k++) {
            pool_window w = s->columns[least(o + k, t->outputs - 1)];
            cells[k] = r->x + (w.first - t->origin);
            sums[k] = s->line + (w.first - t->origin);
            taps[k] = w.taps;
        }
        wvec v = bare ? FN(span_sums)(cells, taps) : span_sums_f64(sums, taps);
        FN(wstore_some)(out + o, QUOTIENT(v, vload_f64(s->scale + o)), t->outputs - o);
    }
}

static void FN(avg_row_segments)(const pool_plan *p, const pool_tile *t, const FN(avg_scratch) *s, FN(avg_rows) *r, const real *row, real *out)
{
    ptrdiff_t n = t->channels, all = p->channels, dilation = p->w.dilation;
    int parted = t->hi > p->line;
    if (all == 1 && dilation == 1 && !parted) {
        FN(avg_spans)(p, t, s, r, out);
        return;
    }
    if (!parted)
        FN(any_sum_line)(r, t->hi, n, all, s->line);
    for (ptrdiff_t o = 0; o < t->outputs; o++) {
        pool_window w = s->columns[o];
        ptrdiff_t taps = parted ? (p->line - 1) / dilation + 1 : w.taps;
        for (ptrdiff_t first = 0; first < w.taps; first += taps) {
            ptrdiff_t column = w.first + first * dilation, here = least(taps, w.taps - first);
            if (parted) {
                r->x = row + column * all;
                r->whole = 0;
                FN(any_sum_line)(r, (here - 1) * dilation + 1, n, all, s->line);
            }
            FN(segment_sum)(s->line + (parted ? 0 : (column - t->origin) * n), here, dilation * n, n, first == 0, s->sum);
        }
        for (ptrdiff_t c = 0; c < n; c++)
            out[o * all + c] = (real)QUOTIENT(s->sum[c], s->scale[o * n + c]);
    }
}

static void FN(avg_row_direct)(const pool_plan *p, const pool_tile *t, FN(avg_scratch) *s, pool_window wd, pool_window wh,
                               const real *row, real *out)
{
    ptrdiff_t n = t->channels, all = p->channels, taps;
    for (ptrdiff_t o = 0; o < t->outputs; o++) {
        pool_window ww = s->columns[o];
        const ptrdiff_t *cells = direct_list(p, &s->direct, s->taps, wd, wh, ww, &taps);
        FN(direct_avg)(row + ww.first * all, cells, taps, all, s->scale[o * n], n, out + o * all);
    }
}

static void FN(avg_row_runs)(const pool_plan *p, const pool_tile *t, const FN(avg_scratch) *s, const FN(avg_rows) *r, real *out)
{
    ptrdiff_t n = t->channels, all = p->channels, valid = t->hi - t->lo;
    if (p->phases == 1)
        FN(any_sum_line)(r, valid, n, all, s->phases + t->lo * n);
    else if (p->phases == 2 && n == 1 && (r->whole || valid >= 2 * WLANES))
        FN(sum_dealt)(r, valid, t->lo, p->phase, s->phases);
    else {
        FN(any_sum_line)(r, valid, n, all, s->line);
        int four = p->phases == 4 && n == 1;
        for (ptrdiff_t i = valid; four && i < valid + 4 * WLANES; i++)
            s->line[i] = -0.0; /* becomes padding */
        for (ptrdiff_t i = 0; four && i < valid; i += 4 * WLANES) {
            wvec v[4];
            vdeal_four_f64(s->line + i, v);
            for (int k = 0; k < 4; k++)
                vstore_f64(s->phases + place_of(p, t->lo + k, 1) + i / 4, v[k]);
        }
        for (ptrdiff_t f = 0; f < p->phases && !four; f++) {
            /* cells of the line that stand in phase f */
            ptrdiff_t i = (f - t->lo % p->phases + p->phases) % p->phases, to = place_of(p, t->lo + i, n);
            for (ptrdiff_t j = 0; n == 1 && i + j * p->phases < valid; j++)
                s->phases[to + j] = s->line[i + j * p->phases];
            for (; n > 1 && i < valid; i += p->phases, to += n)
                for (ptrdiff_t c = 0; c < n; c++)
                    s->phases[to + c] = s->line[i * n + c];
        }
    }
    if (!p->by_pixel)
        FN(avg_run)(s->phases, s->offset, p->w.kernel, s->scale, t->outputs * n, out);
    for (ptrdiff_t o = 0; p->by_pixel && o < t->outputs; o++)
        FN(avg_run)(s->phases + o * p->w.stride * n, s->offset, p->w.kernel, s->scale + o * n, n, out + o * all);
}

/* windows of two cells along W, n of them: rows are folded and dealt in one go */
INLINE void FN(avg_row_pairs)(const FN(avg_rows) *r, ptrdiff_t nd, ptrdiff_t nh, double scale, ptrdiff_t n, real *out)
{
    wvec a, b = wset(0);
    if (n < WLANES) {
        a = FN(sum_rows)(r, 0, nd, nh, least(WLANES, 2 * n));
        if (2 * n > WLANES)
            b = FN(sum_rows)(r, WLANES, nd, nh, 2 * n - WLANES);
        vdeal_f64(a, b, &a, &b);
        wstore_n(out, QUOTIENT(a + b, wset(scale)), n);
        return;
    }
    for (ptrdiff_t i = 0; i < n; i += WLANES) {
        ptrdiff_t at = least(i, n - WLANES);
        a = FN(sum_rows)(r, 2 * at, nd, nh, WLANES);
        b = FN(sum_rows)(r, 2 * at + WLANES, nd, nh, WLANES);
        vdeal_f64(a, b, &a, &b);
        wstore(out + at, QUOTIENT(a + b, wset(scale)));
    }
}

INLINE void FN(avg_pairs_of)(FN(avg_rows) *r, ptrdiff_t nd, ptrdiff_t nh, double scale, ptrdiff_t n, ptrdiff_t rows, ptrdiff_t step, real *out)
{
    for (; rows > 0; rows--, r->x += step, out += n)
        FN(avg_row_pairs)(r, nd, nh, scale, n, out);
}

/* `rows` rows of outputs, whose windows' rows are `step` cells further each time */
FUNC void FN(avg_pairs)(FN(avg_rows) *r, double scale, ptrdiff_t n, ptrdiff_t rows, ptrdiff_t step, real *out)
{
#define CALL(nd, nh) FN(avg_pairs_of)(r, nd, nh, scale, n, rows, step, out)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

#include "pool_avg_threes_real.h"

/* units lo..hi-1 of the forward; each writes its own outputs */
FUNC void FN(avg_rows_of)(const pool_plan *p, FN(avg_scratch) *s, ptrdiff_t lo, ptrdiff_t hi)
{
    ptrdiff_t all = p->channels, area = p->h.in * p->w.in;
    const real *x = (const real *)p->x, *end = x + p->planes * cells_in(p) * all;
    pool_cursor at = cursor_at(p, lo, p->d.out, p->h.out);
    pool_tile t = tile_of(p, at.tile);
    FN(avg_tile)(p, &t, s);
    for (ptrdiff_t u = lo, rows; u < hi; u += rows) {
        pool_window wd = window(&p->d, at.d), wh = window(&p->h, at.h);
        rows = (p->pairs || p->threes) && p->tiles == 1 ? least(alike(&p->h, at.h), hi - u) : 1;
        double counted = rows_counted(p, wd, wh);
        FN(avg_scales)(p, &t, s, counted);
        const real *row = x + (at.plane * cells_in(p) + (wd.first * p->h.in + wh.first) * p->w.in) * all + t.c;
        real *out = (real *)p->out + (at.row * p->w.out + t.o) * all + t.c;
        FN(avg_rows) r = {row + (t.origin + t.lo) * all, wd.taps, wh.taps, p->d.dilation * area * all, p->h.dilation * p->w.in * all, 0};
        /* the last vectors of a line of one channel reach at most 2 WLANES beyond it, in its last row */
        r.whole = all == 1 && end - r.x >= (r.nd - 1) * r.step_d + (r.nh - 1) * r.step_h + t.hi - t.lo + 2 * WLANES;
        if (p->pairs)
            FN(avg_pairs)(&r, s->scale[0], t.outputs, rows, p->h.stride * p->w.in, out);
        else if (p->threes) {
            r.x = row;
            for (ptrdiff_t i = 0; i < rows; i++, r.x += p->h.stride * p->w.in, out += p->w.out)
                FN(avg_threes)(&r, (int)p->w.stride, t.origin, p->w.in, s->scale, t.outputs, out);
        } else if (p->segments)
            FN(avg_row_segments)(p, &t, s, &r, row, out);
        else if (p->direct)
            FN(avg_row_direct)(p, &t, s, wd, wh, row, out);
        else
            FN(avg_row_runs)(p, &t, s, &r, out);
        cursor_skip(&at, rows);
        if (cursor_next(&at, p, p->d.out, p->h.out) && u + rows < hi) {
            t = tile_of(p, at.tile);
            FN(avg_tile)(p, &t, s);
        }
    }
}

#undef QUOTIENT
