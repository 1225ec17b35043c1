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

/* lanes n.. of a vector that ends a line become padding: what stands there is padding or nobody's */
INLINE wvec FN(end_sums)(ptrdiff_t n, wvec v) { return vsel_f64(vlt_f64(viota_f64(), wset((double)n)), v, wset(-0.0)); }

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
    TAKE(taps, 2 * MOST_DIRECT)
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
static void FN(avg_tile)(const pool_plan *p, const pool_tile *t, const FN(avg_scratch) *s)
{
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

static void FN(avg_scales)(const pool_plan *p, const pool_tile *t, const FN(avg_scratch) *s, double rows)
{
    for (ptrdiff_t o = 0; o < t->outputs; o++) {
        double divisor = rows * columns_counted(p, s->columns[o]), scale = IS_F64 ? divisor : 1 / divisor;
        for (ptrdiff_t c = 0; c < t->channels; c++)
            s->scale[o * t->channels + c] = scale;
    }
    FN(clean_behind)(s->scale, t->outputs * t->channels);
}

static void FN(avg_row_segments)(const pool_plan *p, const pool_tile *t, const FN(avg_scratch) *s, FN(avg_rows) *r, const real *row, real *out)
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

static void FN(avg_row_runs)(const pool_plan *p, const pool_tile *t, const FN(avg_scratch) *s, const FN(avg_rows) *r, real *out)
{
    ptrdiff_t n = t->channels, all = p->channels, valid = t->hi - t->lo;
    if (p->phases == 1)
        FN(any_sum_line)(r, valid, n, all, s->phases + t->lo * n);
    else if (p->phases == 2 && n == 1 && (r->whole || valid >= 2 * WLANES))
        FN(sum_dealt)(r, valid, t->lo, p->phase, s->phases);
    else {
        FN(any_sum_line)(r, valid, n, all, s->line);
        for (ptrdiff_t f = 0; f < p->phases; f++) {
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
INLINE void FN(avg_pairs_of)(const FN(avg_rows) *r, ptrdiff_t nd, ptrdiff_t nh, double scale, ptrdiff_t n, real *out)
{
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        ptrdiff_t cells = 2 * (n - i);
        wsums even, odd;
        for (ptrdiff_t d = 0; d < nd; d++)
            for (ptrdiff_t h = 0; h < nh; h++) {
                const real *at = r->x + 2 * i + d * r->step_d + h * r->step_h;
                vec a, b;
                if (cells >= 2 * LANES) {
                    a = vload(at);
                    b = vload(at + LANES);
                } else {
                    a = vload_n(at, least(cells, LANES));
                    b = cells > LANES ? vload_n(at + LANES, cells - LANES) : vzero();
                }
                vdeal(a, b, &a, &b);
                wsums wa = FN(wsplit)(a), wb = FN(wsplit)(b);
                for (int k = 0; k < (IS_F64 ? 1 : 2); k++) {
                    even.v[k] = d == 0 && h == 0 ? wa.v[k] : even.v[k] + wa.v[k];
                    odd.v[k] = d == 0 && h == 0 ? wb.v[k] : odd.v[k] + wb.v[k];
                }
            }
        for (int k = 0; k < (IS_F64 ? 1 : 2); k++)
            even.v[k] = QUOTIENT(even.v[k] + odd.v[k], wset(scale));
        if (n - i >= LANES)
            vstore(out + i, FN(wjoin)(even));
        else
            vstore_n(out + i, FN(wjoin)(even), n - i);
    }
}

FUNC void FN(avg_pairs)(const FN(avg_rows) *r, double scale, ptrdiff_t n, real *out)
{
#define CALL(nd, nh) FN(avg_pairs_of)(r, nd, nh, scale, n, out)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

/* units lo..hi-1 of the forward; each writes its own outputs */
FUNC void FN(avg_pool)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    if (p->whole) {
        FN(avg_whole)(p, lo, hi);
        return;
    }
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
        if (p->pairs)
            FN(avg_pairs)(&r, s.scale[0], t.outputs, out);
        else if (p->segments)
            FN(avg_row_segments)(p, &t, &s, &r, row, out);
        else if (p->direct)
            FN(avg_row_direct)(p, &t, &s, wd, wh, row, out);
        else
            FN(avg_row_runs)(p, &t, &s, &r, out);
        if (cursor_next(&at, p, p->d.out, p->h.out) && u + 1 < hi) {
            t = tile_of(p, at.tile);
            FN(avg_tile)(p, &t, &s);
            scaled_by = 0;
        }
    }
}

/* ---- the gradient: a row of x from the rows of output that hold it
 *
 * First those rows of g, each over its divisor's part along D and H, are added up and divided by the part along W, which gives
 * one line along OW. Then cell c of x gathers it from the outputs that hold c. In runs: c stands at q = (c + before) / stride
 * of its phase, and tap k is that of output q - k * dilation / stride. In segments: each output adds itself to its cells. */

typedef struct {
    double *line;         /* segments: a tile of x's row */
    double *back, *weight; /* along OW: the line of gradients, and 1 / the divisor's part along W */
    double *phases;
    ptrdiff_t *offset, starts[MOST_PHASES + 1]; /* runs: by phases, how far from a place its taps' outputs lie in `back` */
    pool_window *columns; /* segments: the windows along W of the outputs in `weight`, */
    pool_window *holders; /* and the outputs that hold a column of x (many channels) */
    int gathers;
} FN(back_scratch);

static FN(back_scratch) FN(back_scratch_of)(const pool_plan *p, void *memory)
{
    FN(back_scratch) s;
    char *at = (char *)memory;
#define TAKE(member, n)    \
    s.member = (void *)at; \
    at += 8 * (n);
    TAKE(line, p->line * p->chunk + SLACK)
    TAKE(back, p->back * p->chunk + SLACK)
    TAKE(weight, p->back * p->chunk + SLACK)
    TAKE(phases, p->phases * p->phase)
    TAKE(columns, p->segments ? 3 * p->back : 0)
    TAKE(holders, p->segments ? 3 * p->tile : 0)
    TAKE(offset, p->segments ? 0 : p->w.kernel)
#undef TAKE
    return s;
}

/* a tile of x */
typedef struct {
    ptrdiff_t c, channels, w, cells; /* first channel, how many; first column, how many */
    ptrdiff_t from, to;              /* the outputs that may hold any of them: from..to-1 */
    ptrdiff_t q, qs, far;            /* runs: first place, how many; how far before its place an output may lie */
} FN(back_tile);

static void FN(column_weights)(const pool_plan *p, const FN(back_scratch) *s, ptrdiff_t channels, ptrdiff_t first, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        pool_window w = window(&p->w, first + i);
        if (p->segments)
            s->columns[i] = w;
        for (ptrdiff_t c = 0; c < channels; c++)
            s->weight[i * channels + c] = 1 / columns_counted(p, w);
    }
    FN(clean_behind)(s->weight, n * channels);
}

static FN(back_tile) FN(back_tile_of)(const pool_plan *p, FN(back_scratch) *s, ptrdiff_t tile)
{
    const pool_axis *w = &p->w;
    FN(back_tile) t = {0};
    ptrdiff_t at = 0, unused;
    t.c = tile / p->tiles * p->chunk;
    t.channels = least(p->chunk, p->channels - t.c);
    t.w = tile % p->tiles * p->tile;
    t.cells = least(p->tile, w->in - t.w);
    if (p->segments) {
        cover(w, t.w, &t.from, &unused);
        cover(w, t.w + t.cells - 1, &unused, &t.to);
        t.to++;
        if (t.to - t.from <= p->back)
            FN(column_weights)(p, s, t.channels, t.from, t.to - t.from);
        s->gathers = t.to - t.from <= p->back && w->dilation == 1 && t.channels >= WLANES;
        for (ptrdiff_t i = 0; s->gathers && i < t.cells; i++) {
            cover(w, t.w + i, &s->holders[i].first, &unused);
            s->holders[i].taps = unused + 1 - s->holders[i].first;
        }
        return t;
    }
    t.far = (reach(w) - 1) / w->stride;
    t.q = (t.w + w->before) / w->stride;
    t.qs = (t.w + t.cells - 1 + w->before) / w->stride + 1 - t.q;
    t.from = most(0, t.q - t.far);
    t.to = most(t.from, least(w->out, t.q + t.qs));
    FN(column_weights)(p, s, t.channels, t.from, t.to - t.from);
    memset(s->back, 0, (size_t)((t.qs + t.far) * t.channels) * sizeof(double));
    FN(clean_behind)(s->back, (t.qs + t.far) * t.channels);
    for (ptrdiff_t f = 0; f < p->phases; f++) {
        s->starts[f] = at;
        for (ptrdiff_t k = 0; k < w->kernel; k++)
            if (k * w->dilation % p->phases == f)
                s->offset[at++] = (t.far - k * w->dilation / p->phases) * t.channels;
        s->starts[f + 1] = at;
    }
    return t;
}

typedef struct {
    const real *g;
    double scale;
} FN(back_source);

/* back[i] (+)= weight[i] * sum over sources of g[i] * scale, in whole vectors; without `whole` g is not read behind its end */
INLINE void FN(add_sources)(const FN(back_source) *from, ptrdiff_t sources, ptrdiff_t n, int more, int whole, const double *weight, double *back)
{
    for (ptrdiff_t i = 0; i < n; i += WLANES) {
        wvec sum = wset(0);
        for (ptrdiff_t r = 0; r < sources; r++) {
            const real *at = from[r].g + i;
            wvec v = (whole || i + WLANES <= n ? wload(at) : wload_n(at, n - i)) * wset(from[r].scale);
            sum = r == 0 ? v : sum + v;
        }
        sum = sum * vload_f64(weight + i);
        if (more)
            sum += vload_f64(back + i);
        if (i + WLANES <= n)
            vstore_f64(back + i, sum);
        else
            vstore_n_f64(back + i, sum, n - i);
    }
}

FUNC void FN(add_any_sources)(const FN(back_source) *from, ptrdiff_t sources, ptrdiff_t n, int more, int whole, const double *weight, double *back)
{
    if (sources == 1)
        FN(add_sources)(from, 1, n, more, whole, weight, back);
    else if (sources == 2)
        FN(add_sources)(from, 2, n, more, whole, weight, back);
    else
        FN(add_sources)(from, sources, n, more, whole, weight, back);
}

enum { FN(MOST_SOURCES) = 16 };

/* back = weight * sum of g / rows counted over the output rows that hold row (d, h) of x; outputs first..first+n-1 of the
 * plane g. Returns 0 when there is no such row. */
FUNC int FN(gather_rows)(const pool_plan *p, const real *g, ptrdiff_t d, ptrdiff_t h, ptrdiff_t c0, ptrdiff_t channels, ptrdiff_t first,
                         ptrdiff_t n, const double *weight, double *back)
{
    ptrdiff_t dlo = 0, dhi = 0, hlo = 0, hhi = 0, all = p->channels, sources = 0, runs = channels == all ? 1 : n;
    ptrdiff_t run = channels == all ? n * channels : channels;
    const real *end = (const real *)p->g + p->planes * cells_out(p) * all;
    FN(back_source) from[FN(MOST_SOURCES)];
    int more = 0, whole = 1;
    if (p->d.out > 1 || p->d.in > 1)
        cover(&p->d, d, &dlo, &dhi);
    if (p->h.out > 1 || p->h.in > 1)
        cover(&p->h, h, &hlo, &hhi);
    for (ptrdiff_t od = dlo; od <= dhi; od++) {
        if (!holds(&p->d, od, d))
            continue;
        pool_window wd = window(&p->d, od);
        for (ptrdiff_t oh = hlo; oh <= hhi; oh++) {
            if (!holds(&p->h, oh, h))
                continue;
            if (sources == FN(MOST_SOURCES)) {
                for (ptrdiff_t o = 0; o < runs; o++) {
                    FN(add_any_sources)(from, sources, run, more, whole, weight + o * channels, back + o * channels);
                    for (ptrdiff_t r = 0; r < sources; r++)
                        from[r].g += all;
                }
                sources = 0;
                more = 1;
            }
            from[sources].g = g + ((od * p->h.out + oh) * p->w.out + first) * all + c0;
            whole = runs == 1 && end - from[sources].g >= run + WLANES;
            from[sources++].scale = 1 / rows_counted(p, wd, window(&p->h, oh));
        }
    }
    for (ptrdiff_t o = 0; sources && o < runs; o++) {
        FN(add_any_sources)(from, sources, run, more, whole, weight + o * channels, back + o * channels);
        for (ptrdiff_t r = 0; r < sources; r++)
            from[r].g += all;
    }
    return more || sources;
}

/* out[i] = (real) line[i] */
INLINE void FN(round_line)(const double *line, ptrdiff_t n, real *out)
{
    ptrdiff_t i = 0;
    for (; i + WLANES <= n; i += WLANES)
        wstore(out + i, vload_f64(line + i));
    if (i < n)
        wstore_n(out + i, vload_f64(line + i), n - i);
}

/* place i of a phase: the sum over its taps of back[offset + i] */
INLINE wvec FN(sum_taps)(const FN(back_scratch) *s, ptrdiff_t f, ptrdiff_t i)
{
    const ptrdiff_t *offset = s->offset + s->starts[f];
    ptrdiff_t taps = s->starts[f + 1] - s->starts[f];
    wvec sum = taps ? vload_f64(s->back + offset[0] + i) : wset(0);
    for (ptrdiff_t t = 1; t < taps; t++)
        sum += vload_f64(s->back + offset[t] + i);
    return sum;
}

/* a vector at a time, the last one partial */
INLINE void FN(wstore_some)(real *out, wvec v, ptrdiff_t n)
{
    if (n >= WLANES)
        wstore(out, v);
    else if (n > 0)
        wstore_n(out, v, n);
}

/* many channels: each pixel gathers its outputs */
static void FN(back_pixels)(const pool_plan *p, const FN(back_tile) *t, const FN(back_scratch) *s, real *out)
{
    ptrdiff_t n = t->channels;
    for (ptrdiff_t i = 0; i < t->cells; i++) {
        pool_window in = s->holders[i];
        const double *back = s->back + (in.first - t->from) * n;
        for (ptrdiff_t c = 0; c < n; c += WLANES) {
            wvec sum = in.taps ? vload_f64(back + c) : wset(0);
            for (ptrdiff_t o = 1; o < in.taps; o++)
                sum += vload_f64(back + o * n + c);
            FN(wstore_some)(out + i * p->channels + c, sum, n - c);
        }
    }
}

static void FN(back_row_segments)(const pool_plan *p, const FN(back_tile) *t, const FN(back_scratch) *s, const real *g, ptrdiff_t d,
                                  ptrdiff_t h, real *out)
{
    ptrdiff_t all = p->channels, n = t->channels, dilation = p->w.dilation;
    int any = 0, kept = t->to - t->from <= p->back;
    for (ptrdiff_t first = t->from; first < t->to; first += p->back) {
        ptrdiff_t here = least(p->back, t->to - first);
        if (!kept)
            FN(column_weights)(p, s, n, first, here);
        if (!FN(gather_rows)(p, g, d, h, t->c, n, first, here, s->weight, s->back))
            break;
        if (s->gathers) {
            FN(back_pixels)(p, t, s, out);
            return;
        }
        if (!any)
            memset(s->line, 0, (size_t)(t->cells * n) * sizeof(double));
        any = 1;
        for (ptrdiff_t o = 0; o < here; o++) {
            pool_window w = s->columns[o];
            /* the taps that lie in this tile */
            ptrdiff_t lo = w.first >= t->w ? 0 : ceil_div(t->w - w.first, dilation);
            ptrdiff_t hi = w.first + (w.taps - 1) * dilation < t->w + t->cells ? w.taps : ceil_div(t->w + t->cells - w.first, dilation);
            const double *back = s->back + o * n;
            double *line = s->line + (w.first - t->w) * n;
            if (n == 1)
                for (ptrdiff_t k = lo; k < hi; k++)
                    line[k * dilation] += back[0];
            else
                for (ptrdiff_t k = lo; k < hi; k++)
                    for (ptrdiff_t c = 0; c < n; c++)
                        line[k * dilation * n + c] += back[c];
        }
    }
    if (!any)
        FN(zero_pixels)(out, t->cells, n, all);
    else if (n == all)
        FN(round_line)(s->line, t->cells * n, out);
    else
        for (ptrdiff_t i = 0; i < t->cells; i++)
            FN(round_line)(s->line + i * n, n, out + i * all);
}

static void FN(back_row_runs)(const pool_plan *p, const FN(back_tile) *t, const FN(back_scratch) *s, const real *g, ptrdiff_t d, ptrdiff_t h,
                              real *out)
{
    ptrdiff_t phases = p->phases, n = t->channels, all = p->channels;
    if (t->to == t->from ||
        !FN(gather_rows)(p, g, d, h, t->c, n, t->from, t->to - t->from, s->weight, s->back + (t->from - t->q + t->far) * n)) {
        FN(zero_pixels)(out, t->cells, n, all);
        return;
    }
    ptrdiff_t first = (t->w + p->w.before) % phases, i = 0;
    if (phases == 1 && n == all) {
        for (; i < t->cells * n; i += WLANES)
            FN(wstore_some)(out + i, FN(sum_taps)(s, 0, i), t->cells * n - i);
        return;
    }
    if (phases == 2 && n == 1) {
        for (; i < t->cells; i += 2 * WLANES) {
            wvec a, b;
            vzip_f64(FN(sum_taps)(s, first, i / 2), FN(sum_taps)(s, 1 - first, first + i / 2), &a, &b);
            FN(wstore_some)(out + i, a, t->cells - i);
            FN(wstore_some)(out + i + WLANES, b, t->cells - i - WLANES);
        }
        return;
    }
    for (ptrdiff_t f = 0; f < phases; f++) {
        for (ptrdiff_t j = 0; j < t->qs * n; j += WLANES)
            vstore_f64(s->phases + f * p->phase + j, FN(sum_taps)(s, f, j));
        /* cells that stand in phase f */
        ptrdiff_t j = (f - first + phases) % phases;
        const double *from = s->phases + place_of(p, first + j, n);
        for (; j < t->cells; j += phases, from += n)
            for (ptrdiff_t c = 0; c < n; c++)
                out[j * all + c] = (real)from[c];
    }
}

/* n cells of row (d, h) of x, from column w on, that windows of two cells along W hold; 0 when several rows of output do */
static int FN(back_row_pairs)(const pool_plan *p, const real *g, ptrdiff_t d, ptrdiff_t h, ptrdiff_t w, ptrdiff_t n, real *out)
{
    ptrdiff_t dlo, dhi, hlo, hhi, held = most(0, least(n, 2 * p->w.out - w));
    cover(&p->d, d, &dlo, &dhi);
    cover(&p->h, h, &hlo, &hhi);
    if (dlo != dhi || hlo != hhi || w % 2 || !holds(&p->d, dlo, d) || !holds(&p->h, hlo, h))
        return 0;
    const real *from = g + (dlo * p->h.out + hlo) * p->w.out + w / 2;
    wvec rows = wset(1 / rows_counted(p, window(&p->d, dlo), window(&p->h, hlo))), columns = wset(p->divisor != 0 ? 1 : 0.5);
    for (ptrdiff_t i = 0; i < held; i += 2 * LANES) {
        ptrdiff_t cells = held - i;
        vec a, b;
        wsums v = FN(wsplit)(cells >= 2 * LANES ? vload(from + i / 2) : vload_n(from + i / 2, (cells + 1) / 2));
        for (int k = 0; k < (IS_F64 ? 1 : 2); k++)
            v.v[k] = v.v[k] * rows * columns;
        vzip(FN(wjoin)(v), FN(wjoin)(v), &a, &b);
        if (cells >= 2 * LANES) {
            vstore(out + i, a);
            vstore(out + i + LANES, b);
            continue;
        }
        vstore_n(out + i, a, least(cells, LANES));
        if (cells > LANES)
            vstore_n(out + i + LANES, b, cells - LANES);
    }
    FN(zero_pixels)(out + held, n - held, 1, 1);
    return 1;
}

/* units lo..hi-1: rows of x, each written by its owner */
FUNC void FN(avg_pool_backward)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    if (p->whole) {
        FN(avg_whole_backward)(p, lo, hi);
        return;
    }
    FN(back_scratch) s = FN(back_scratch_of)(p, memory);
    ptrdiff_t all = p->channels;
    pool_cursor at = cursor_at(p, lo, p->d.in, p->h.in);
    FN(back_tile) t = FN(back_tile_of)(p, &s, at.tile);
    if (p->segments)
        FN(clean_behind)(s.back, p->back * p->chunk);
    for (ptrdiff_t u = lo; u < hi; u++) {
        const real *g = (const real *)p->g + at.plane * cells_out(p) * all;
        real *out = (real *)p->out + (at.row * p->w.in + t.w) * all + t.c;
        if (u > lo && at.h > 0 && same_cover(&p->h, at.h)) {
            /* held by the same rows of output as the row before */
            ptrdiff_t runs = t.channels == all ? 1 : t.cells, run = t.channels == all ? t.cells * all : t.channels;
            for (ptrdiff_t i = 0; i < runs; i++)
                memcpy(out + i * all, out + i * all - p->w.in * all, (size_t)run * sizeof(real));
        } else if (!p->pairs || !FN(back_row_pairs)(p, g, at.d, at.h, t.w, t.cells, out)) {
            if (p->segments)
                FN(back_row_segments)(p, &t, &s, g, at.d, at.h, out);
            else
                FN(back_row_runs)(p, &t, &s, g, at.d, at.h, out);
        }
        if (cursor_next(&at, p, p->d.in, p->h.in) && u + 1 < hi)
            t = FN(back_tile_of)(p, &s, at.tile);
    }
}

#undef QUOTIENT
