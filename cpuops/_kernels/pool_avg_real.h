/* pool_avg_real.h: average pooling and its gradient. Included by pool.h only, which tells how a row is made.
 *
 * out[o] = sum of x over the window / divisor(o); divisor: the taps counted along D, H and W multiplied, or one number.
 * out_x[i] = sum over the windows o that hold i of g[o] / divisor(o): gathered by the owner of the row, so nothing races.
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
        vstore_f64(line, r->whole ? FN(sum_rows)(r, 0, nd, nh, WLANES) : FN(sum_rows)(r, 0, nd, nh, n));
        return;
    }
    for (ptrdiff_t i = 0; i < n; i += WLANES) {
        ptrdiff_t at = least(i, n - WLANES);
        vstore_f64(line + at, FN(sum_rows)(r, at, nd, nh, WLANES));
    }
}

INLINE void FN(sum_dealt_of)(const FN(avg_rows) *r, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t n, ptrdiff_t first, ptrdiff_t phase, double *line)
{
    for (ptrdiff_t i = 0; i < n; i += 2 * WLANES) {
        ptrdiff_t at = most(0, least(i, n - 2 * WLANES)), place = first + at;
        wvec even, odd;
        vdeal_f64(FN(sum_rows)(r, at, nd, nh, WLANES), FN(sum_rows)(r, at + WLANES, nd, nh, WLANES), &even, &odd);
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
static void FN(any_sum_line)(FN(avg_rows) r, ptrdiff_t n, ptrdiff_t channels, ptrdiff_t pixel, double *line)
{
    ptrdiff_t runs = channels == pixel ? 1 : n, run = channels == pixel ? n * pixel : channels;
    for (ptrdiff_t i = 0; i < runs; i++, r.x += pixel)
        FN(sum_line)(&r, run, line + i * channels);
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

/* the n channels of one output pixel from its window's cells */
FUNC void FN(direct_avg)(const real *x, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t pixel, double scale, ptrdiff_t n, real *out)
{
    for (ptrdiff_t i = 0; i < n; i += WLANES) {
        ptrdiff_t at = n < WLANES ? 0 : least(i, n - WLANES);
        if (n < WLANES) {
            wvec sum = wload_n(x, n);
            for (ptrdiff_t t = 1; t < taps; t++)
                sum += wload_n(x + offset[t] * pixel, n);
            wstore_n(out, QUOTIENT(sum, wset(scale)), n);
            return;
        }
        wvec sum = wload(x + at);
        for (ptrdiff_t t = 1; t < taps; t++)
            sum += wload(x + offset[t] * pixel + at);
        wstore(out + at, QUOTIENT(sum, wset(scale)));
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
    ptrdiff_t *taps;        /* direct: the cells of windows that are whole along W, and of others */
} FN(avg_scratch);

static FN(avg_scratch) FN(avg_scratch_of)(const pool_plan *p, void *memory)
{
    FN(avg_scratch) s;
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
    TAKE(taps, 3 * MOST_DIRECT)
#undef TAKE
    return s;
}

static void FN(pad_with_nothing)(const pool_plan *p, const FN(avg_scratch) *s, ptrdiff_t lo, ptrdiff_t hi, ptrdiff_t n)
{
    for (ptrdiff_t i = lo; i < hi; i++)
        for (ptrdiff_t c = 0; c < n; c++)
            s->phases[place_of(p, i, n) + c] = -0.0;
}

/* what a tile's rows share */
static void FN(avg_tile)(const pool_plan *p, const pool_tile *t, const FN(avg_scratch) *s)
{
    for (ptrdiff_t o = 0; o < t->outputs; o++)
        s->columns[o] = window(&p->w, t->o + o);
    for (ptrdiff_t k = 0; !p->segments && k < p->w.kernel; k++)
        s->offset[k] = place_of(p, k * p->w.dilation, t->channels);
    if (!p->segments && !p->direct)
        FN(pad_with_nothing)(p, s, 0, t->lo, t->channels);
}

static void FN(avg_scales)(const pool_plan *p, const pool_tile *t, const FN(avg_scratch) *s, double rows)
{
    for (ptrdiff_t o = 0; o < t->outputs; o++) {
        double divisor = rows * columns_counted(p, s->columns[o]), scale = IS_F64 ? divisor : 1 / divisor;
        for (ptrdiff_t c = 0; c < t->channels; c++)
            s->scale[o * t->channels + c] = scale;
    }
}

static void FN(avg_row_segments)(const pool_plan *p, const pool_tile *t, const FN(avg_scratch) *s, FN(avg_rows) r, const real *row, real *out)
{
    ptrdiff_t n = t->channels, all = p->channels, dilation = p->w.dilation;
    int parted = t->hi > p->line;
    if (!parted)
        FN(any_sum_line)(r, t->hi, n, all, s->line);
    for (ptrdiff_t o = 0; o < t->outputs; o++) {
        pool_window w = s->columns[o];
        ptrdiff_t taps = parted ? (p->line - 1) / dilation + 1 : w.taps;
        for (ptrdiff_t first = 0; first < w.taps; first += taps) {
            ptrdiff_t column = w.first + first * dilation, here = least(taps, w.taps - first);
            if (parted) {
                r.x = row + column * all;
                r.whole = 0;
                FN(any_sum_line)(r, (here - 1) * dilation + 1, n, all, s->line);
            }
            FN(segment_sum)(s->line + (parted ? 0 : (column - t->origin) * n), here, dilation * n, n, first == 0, s->sum);
        }
        for (ptrdiff_t c = 0; c < n; c++)
            out[o * all + c] = (real)QUOTIENT(s->sum[c], s->scale[o * n + c]);
    }
}

static void FN(avg_row_direct)(const pool_plan *p, const pool_tile *t, const FN(avg_scratch) *s, pool_window wd, pool_window wh,
                               const real *row, real *out)
{
    ptrdiff_t n = t->channels, all = p->channels, whole = 0;
    for (ptrdiff_t o = 0; o < t->outputs; o++) {
        pool_window ww = s->columns[o];
        int inside = ww.taps == p->w.kernel;
        ptrdiff_t *cells = s->taps + (inside ? 0 : MOST_DIRECT), taps = whole;
        if (!inside || whole == 0)
            taps = direct_taps(p, wd, wh, ww, cells);
        whole = inside ? taps : whole;
        FN(direct_avg)(row + ww.first * all, cells, taps, all, s->scale[o * n], n, out + o * all);
    }
}

static void FN(avg_row_runs)(const pool_plan *p, const pool_tile *t, const FN(avg_scratch) *s, FN(avg_rows) r, real *out)
{
    ptrdiff_t n = t->channels, all = p->channels, valid = t->hi - t->lo;
    if (p->phases == 1)
        FN(any_sum_line)(r, valid, n, all, s->phases + t->lo * n);
    else if (p->phases == 2 && n == 1 && (r.whole || valid >= 2 * WLANES))
        FN(sum_dealt)(&r, valid, t->lo, p->phase, s->phases);
    else {
        FN(any_sum_line)(r, valid, n, all, s->line);
        for (ptrdiff_t f = 0; f < p->phases; f++) {
            /* cells of the line that stand in phase f */
            ptrdiff_t i = (f - t->lo % p->phases + p->phases) % p->phases, to = place_of(p, t->lo + i, n);
            for (; i < valid; i += p->phases, to += n)
                for (ptrdiff_t c = 0; c < n; c++)
                    s->phases[to + c] = s->line[i * n + c];
        }
    }
    if (t->hi < t->span)
        FN(pad_with_nothing)(p, s, t->hi, t->span, n);
    if (!p->by_pixel)
        FN(avg_run)(s->phases, s->offset, p->w.kernel, s->scale, t->outputs * n, out);
    for (ptrdiff_t o = 0; p->by_pixel && o < t->outputs; o++)
        FN(avg_run)(s->phases + o * p->w.stride * n, s->offset, p->w.kernel, s->scale + o * n, n, out + o * all);
}

/* units lo..hi-1 of the forward; each writes its own outputs */
FUNC void FN(avg_pool)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    FN(avg_scratch) s = FN(avg_scratch_of)(p, memory);
    ptrdiff_t all = p->channels, area = p->h.in * p->w.in;
    const real *x = (const real *)p->x, *end = x + p->planes * cells_in(p) * all;
    pool_cursor at = cursor_at(p, lo, p->d.out, p->h.out);
    pool_tile t = tile_of(p, at.tile);
    FN(avg_tile)(p, &t, &s);
    double scaled_by = 0;
    for (ptrdiff_t u = lo; u < hi; u++) {
        pool_window wd = window(&p->d, at.d), wh = window(&p->h, at.h);
        double counted = rows_counted(p, wd, wh);
        if (counted != scaled_by)
            FN(avg_scales)(p, &t, &s, counted);
        scaled_by = counted;
        const real *row = x + (at.plane * cells_in(p) + (wd.first * p->h.in + wh.first) * p->w.in) * all + t.c;
        real *out = (real *)p->out + (at.row * p->w.out + t.o) * all + t.c;
        FN(avg_rows) r = {row + (t.origin + t.lo) * all, wd.taps, wh.taps, p->d.dilation * area * all, p->h.dilation * p->w.in * all, 0};
        /* the last vectors of a line of one channel reach at most 2 WLANES beyond it, in its last row */
        r.whole = all == 1 && end - r.x >= (r.nd - 1) * r.step_d + (r.nh - 1) * r.step_h + t.hi - t.lo + 2 * WLANES;
        if (p->segments)
            FN(avg_row_segments)(p, &t, &s, r, row, out);
        else if (p->direct)
            FN(avg_row_direct)(p, &t, &s, wd, wh, row, out);
        else
            FN(avg_row_runs)(p, &t, &s, r, out);
        if (cursor_next(&at, p, p->d.out, p->h.out) && u + 1 < hi) {
            t = tile_of(p, at.tile);
            FN(avg_tile)(p, &t, &s);
            scaled_by = 0;
        }
    }
}

/* ---- the gradient */

typedef struct {
    ptrdiff_t c, channels, w, cells; /* of x: first channel, how many; first column, how many */
    ptrdiff_t q, qs;                 /* runs: first place, how many; cell c stands at (c + before) / stride of its phase */
    ptrdiff_t from, to;              /* the outputs that hold any of them: from..to-1 */
} back_tile_(REAL_SUFFIX);

/* ---- the gradient */

typedef struct {
    double *line;     /* segments: a tile of x's row */
    double *back;     /* of a range of output columns: gradients over their divisors, summed over the rows that hold x's */
    double *weight;   /* of the same columns: 1 / taps counted along W */
    double *phases;
    ptrdiff_t *offset, starts[MOST_PHASES + 1];
} FN(avg_backward_scratch);

static FN(avg_backward_scratch) FN(avg_backward_scratch_of)(const pool_plan *p, void *memory)
{
    FN(avg_backward_scratch) s;
    double *at = (double *)memory;
    s.line = at;
    at += p->line * p->chunk + SLACK;
    s.back = at;
    at += p->back * p->chunk + SLACK;
    s.weight = at;
    at += p->back * p->chunk + SLACK;
    s.phases = at;
    at += (p->segments || p->by_pixel ? 1 : p->w.stride) * p->phase;
    s.offset = (ptrdiff_t *)at;
    return s;
}

/* weights of output columns first..first+n-1 */
static void FN(column_weights)(const pool_plan *p, ptrdiff_t channels, ptrdiff_t first, ptrdiff_t n, double *weight)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double v = 1 / columns_counted(p, window(&p->w, first + i));
        for (ptrdiff_t c = 0; c < channels; c++)
            weight[i * channels + c] = v;
    }
}

/* back[i] += g[i] * scale (or = when first) */
INLINE void FN(add_scaled)(const real *g, double scale, ptrdiff_t n, int first, double *back)
{
    ptrdiff_t i = 0;
    for (; i + WLANES <= n; i += WLANES) {
        wvec v = wload(g + i) * wset(scale);
        vstore_f64(back + i, first ? v : vload_f64(back + i) + v);
    }
    for (; i < n; i++)
        back[i] = first ? (double)g[i] * scale : back[i] + (double)g[i] * scale;
}

/* back = weight * sum over the output rows that hold row (d, h) of g / rows counted, for columns first..first+n-1, all
 * inside the output; g: the plane. Returns 0 when no row does. */
FUNC int FN(gather_rows)(const pool_plan *p, const real *g, ptrdiff_t d, ptrdiff_t h, ptrdiff_t c0, ptrdiff_t channels, ptrdiff_t first,
                         ptrdiff_t n, const double *weight, double *back)
{
    ptrdiff_t dlo, dhi, hlo, hhi, all = p->channels;
    int any = 0;
    cover(&p->d, d, &dlo, &dhi);
    cover(&p->h, h, &hlo, &hhi);
    for (ptrdiff_t od = dlo; od <= dhi; od++) {
        if (!holds(&p->d, od, d))
            continue;
        pool_window wd = window(&p->d, od);
        for (ptrdiff_t oh = hlo; oh <= hhi; oh++) {
            if (!holds(&p->h, oh, h))
                continue;
            double scale = 1 / rows_counted(p, wd, window(&p->h, oh));
            const real *from = g + ((od * p->h.out + oh) * p->w.out + first) * all + c0;
            if (channels == all)
                FN(add_scaled)(from, scale, n * channels, !any, back);
            else
                for (ptrdiff_t i = 0; i < n; i++)
                    FN(add_scaled)(from + i * all, scale, channels, !any, back + i * channels);
            any = 1;
        }
    }
    if (any) {
        ptrdiff_t i = 0;
        for (; i + WLANES <= n * channels; i += WLANES)
            vstore_f64(back + i, vload_f64(back + i) * vload_f64(weight + i));
        for (; i < n * channels; i++)
            back[i] *= weight[i];
    }
    return any;
}

/* out[i] = (real) line[i] */
INLINE void FN(round_line)(const double *line, ptrdiff_t n, real *out)
{
    ptrdiff_t i = 0;
    for (; i + WLANES <= n; i += WLANES)
        wstore(out + i, vload_f64(line + i));
    for (; i < n; i++)
        out[i] = (real)line[i];
}

/* sum over offsets of back[offset + i] */
INLINE void FN(sum_offsets)(const double *back, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t n, double *sum)
{
    ptrdiff_t i = 0;
    for (; i + WLANES <= n; i += WLANES) {
        wvec s = vload_f64(back + offset[0] + i);
        for (ptrdiff_t t = 1; t < taps; t++)
            s += vload_f64(back + offset[t] + i);
        vstore_f64(sum + i, s);
    }
    for (; i < n; i++) {
        double s = back[offset[0] + i];
        for (ptrdiff_t t = 1; t < taps; t++)
            s += back[offset[t] + i];
        sum[i] = s;
    }
}

/* adaptive or very wide windows: each output column adds itself to the cells of its window */
static void FN(avg_backward_segments)(const pool_plan *p, const FN(avg_backward_scratch) *s, const real *g, ptrdiff_t d, ptrdiff_t h,
                                      ptrdiff_t c0, ptrdiff_t n, ptrdiff_t w0, ptrdiff_t cells, real *out)
{
    const pool_axis *w = &p->w;
    ptrdiff_t all = p->channels, lo, hi, unused;
    cover(w, w0, &lo, &unused);
    cover(w, w0 + cells - 1, &unused, &hi);
    for (ptrdiff_t i = 0; i < cells * n; i++)
        s->line[i] = 0;
    int any = 0;
    for (ptrdiff_t first = lo; first <= hi; first += p->back) {
        ptrdiff_t here = least(p->back, hi + 1 - first);
        FN(column_weights)(p, n, first, here, s->weight);
        if (!FN(gather_rows)(p, g, d, h, c0, n, first, here, s->weight, s->back))
            break;
        any = 1;
        for (ptrdiff_t o = 0; o < here; o++) {
            pool_window ww = window(w, first + o);
            /* the taps that lie in w0 .. w0 + cells - 1 */
            ptrdiff_t from = ww.first >= w0 ? 0 : ceil_div(w0 - ww.first, w->dilation);
            ptrdiff_t to = least(ww.taps, ceil_div(w0 + cells - ww.first, w->dilation));
            const double *back = s->back + o * n;
            for (ptrdiff_t t = from; t < to; t++) {
                double *line = s->line + (ww.first + t * w->dilation - w0) * n;
                for (ptrdiff_t c = 0; c < n; c++)
                    line[c] += back[c];
            }
        }
    }
    if (!any) {
        FN(zero_pixels)(out, cells, n, all);
        return;
    }
    if (n == all)
        FN(round_line)(s->line, cells * n, out);
    else
        for (ptrdiff_t i = 0; i < cells; i++)
            FN(round_line)(s->line + i * n, n, out + i * all);
}

/* the columns of x of one tile, in runs: cell c stands at q = (c + before) / stride of its phase, and tap k of it belongs to
 * output q - k * dilation / stride */
typedef struct {
    ptrdiff_t c, channels, w, cells; /* first channel, how many; first column, how many */
    ptrdiff_t q, qs;                 /* first place, how many */
    ptrdiff_t farthest;              /* how far before its place an output may lie */
    ptrdiff_t from, to;              /* the outputs there are */
} FN(back_tile);

static FN(back_tile) FN(back_tile_of)(const pool_plan *p, FN(avg_backward_scratch) *s, ptrdiff_t tile)
{
    const pool_axis *w = &p->w;
    FN(back_tile) t = {0};
    t.c = tile / p->tiles * p->chunk;
    t.channels = least(p->chunk, p->channels - t.c);
    t.w = tile % p->tiles * p->tile;
    t.cells = least(p->tile, w->in - t.w);
    if (p->segments)
        return t;
    ptrdiff_t n = t.channels, phases = p->by_pixel ? 1 : w->stride, at = 0;
    t.farthest = (reach(w) - 1) / w->stride;
    t.q = (t.w + w->before) / w->stride;
    t.qs = (t.w + t.cells - 1 + w->before) / w->stride + 1 - t.q;
    t.from = most(0, t.q - t.farthest);
    t.to = most(t.from, least(w->out, t.q + t.qs));
    FN(column_weights)(p, n, t.from, t.to - t.from, s->weight);
    for (ptrdiff_t i = 0; i < (t.qs + t.farthest) * n; i++)
        s->back[i] = 0;
    for (ptrdiff_t r = 0; r < phases && !p->by_pixel; r++) {
        s->starts[r] = at;
        for (ptrdiff_t k = 0; k < w->kernel; k++)
            if (k * w->dilation % phases == r)
                s->offset[at++] = (t.farthest - k * w->dilation / phases) * n;
        s->starts[r + 1] = at;
    }
    return t;
}

/* one pixel after the other */
static void FN(back_by_pixel)(const pool_plan *p, const FN(back_tile) *t, const FN(avg_backward_scratch) *s, real *out)
{
    for (ptrdiff_t i = 0; i < t->cells; i++) {
        ptrdiff_t first, last, n = t->channels;
        int any = 0;
        cover(&p->w, t->w + i, &first, &last);
        for (ptrdiff_t o = first; o <= last; o++) {
            if (!holds(&p->w, o, t->w + i))
                continue;
            const double *back = s->back + (o - t->q + t->farthest) * n;
            for (ptrdiff_t c = 0; c < n; c++)
                s->line[c] = any ? s->line[c] + back[c] : back[c];
            any = 1;
        }
        if (any)
            FN(round_line)(s->line, n, out + i * p->channels);
        else
            FN(zero_pixels)(out + i * p->channels, 1, n, p->channels);
    }
}

/* all channels of all pixels, a phase at a time, then the phases merged */
static void FN(back_by_phase)(const pool_plan *p, const FN(back_tile) *t, const FN(avg_backward_scratch) *s, real *out)
{
    ptrdiff_t phases = p->w.stride, n = t->channels;
    for (ptrdiff_t r = 0; r < phases; r++) {
        double *phase = s->phases + r * p->phase;
        if (s->starts[r] < s->starts[r + 1])
            FN(sum_offsets)(s->back, s->offset + s->starts[r], s->starts[r + 1] - s->starts[r], t->qs * n, phase);
        else
            memset(phase, 0, (size_t)(t->qs * n) * sizeof(double));
    }
    if (phases == 1) {
        FN(round_line)(s->phases, t->cells * n, out);
        return;
    }
    ptrdiff_t r = (t->w + p->w.before) % phases, q = 0, i = 0;
    if (phases == 2 && n == 1) {
        if (r == 1)
            out[i++] = (real)s->phases[p->phase + q++];
        for (; i + 2 * WLANES <= t->cells; i += 2 * WLANES, q += WLANES) {
            wvec a, b;
            vzip_f64(vload_f64(s->phases + q), vload_f64(s->phases + p->phase + q), &a, &b);
            wstore(out + i, a);
            wstore(out + i + WLANES, b);
        }
        r = 0;
    }
    for (; i < t->cells; i++) {
        for (ptrdiff_t c = 0; c < n; c++)
            out[i * n + c] = (real)s->phases[r * p->phase + q * n + c];
        if (++r == phases) {
            r = 0;
            q++;
        }
    }
}

/* units lo..hi-1: rows of x, each written by its owner */
FUNC void FN(avg_pool_backward)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    FN(avg_backward_scratch) s = FN(avg_backward_scratch_of)(p, memory);
    FN(back_tile) t = FN(back_tile_of)(p, &s, lo / p->rows);
    for (ptrdiff_t u = lo; u < hi; u++) {
        ptrdiff_t row = u % p->rows, h = row % p->h.in, d = row / p->h.in % p->d.in, plane = row / p->h.in / p->d.in;
        if (row == 0)
            t = FN(back_tile_of)(p, &s, u / p->rows);
        const real *g = (const real *)p->g + plane * cells_out(p) * p->channels;
        real *out = (real *)p->out + (row * p->w.in + t.w) * p->channels + t.c;
        if (p->segments)
            FN(avg_backward_segments)(p, &s, g, d, h, t.c, t.channels, t.w, t.cells, out);
        else if (t.to == t.from || !FN(gather_rows)(p, g, d, h, t.c, t.channels, t.from, t.to - t.from, s.weight,
                                                    s.back + (t.from - t.q + t.farthest) * t.channels))
            FN(zero_pixels)(out, t.cells, t.channels, p->channels);
        else if (p->by_pixel)
            FN(back_by_pixel)(p, &t, &s, out);
        else
            FN(back_by_phase)(p, &t, &s, out);
    }
}

#undef QUOTIENT
#undef BY_ROWS
