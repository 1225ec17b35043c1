/* pool_avg_back_real.h: the gradient of average pooling. Included by pool.h only, after pool_avg_real.h.
 *
 * out_x[i] = sum over the windows o that hold i of g[o] / divisor(o): gathered by the owner of the row, so nothing races.
 * Sums in double.
 *
 * A row of x is made from the rows of output that hold it. First those rows of g, each over its divisor's part along D and H,
 * are added up and divided by the part along W, which gives one line along OW. Then cell c of x gathers it from the outputs
 * that hold c. In runs: c stands at q = (c + before) / stride of its phase, and tap k is that of output
 * q - k * dilation / stride. In segments: each output adds itself to its cells.
 */

/* a tile of x */
typedef struct {
    ptrdiff_t c, channels, w, cells; /* first channel, how many; first column, how many */
    ptrdiff_t from, to;              /* the outputs that may hold any of them: from..to-1 */
    ptrdiff_t q, qs, far;            /* runs: first place, how many; how far before its place an output may lie */
} FN(back_tile);

typedef struct {
    double *line;         /* segments: a tile of x's row */
    double *back, *weight; /* along OW: the line of gradients, and 1 / the divisor's part along W */
    double *phases;
    ptrdiff_t *offset, starts[MOST_PHASES + 1]; /* runs: by phases, how far from a place its taps' outputs lie in `back` */
    pool_window *columns; /* segments: the windows along W of the outputs in `weight`, */
    pool_window *holders; /* and the outputs that hold a column of x (many channels) */
    int gathers;
    FN(back_tile) tile;   /* the last one */
    ptrdiff_t number;
} FN(back_scratch);

static FN(back_scratch) FN(back_scratch_of)(const pool_plan *p, void *memory)
{
    FN(back_scratch) s = {.number = NO_TILE};
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
    if (p->segments)
        FN(clean_behind)(s.back, p->back * p->chunk);
    return s;
}

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

static FN(back_tile) FN(new_back_tile)(const pool_plan *p, FN(back_scratch) *s, ptrdiff_t tile)
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

static FN(back_tile) FN(back_tile_of)(const pool_plan *p, FN(back_scratch) *s, ptrdiff_t tile)
{
    if (tile != s->number)
        s->tile = FN(new_back_tile)(p, s, tile);
    s->number = tile;
    return s->tile;
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

/* each value of g, weighted, in two columns of `rows` rows of x of n columns; what is in no window is zero */
INLINE void FN(spread_row)(const pool_plan *p, const real *g, wvec by_row, wvec by_column, ptrdiff_t held, ptrdiff_t n, ptrdiff_t rows, real *out)
{
    for (ptrdiff_t i = 0; i < held; i += 2 * LANES) {
        ptrdiff_t cells = held - i;
        vec a, b;
        wsums v = FN(wsplit)(cells >= 2 * LANES ? vload(g + i / 2) : vload_n(g + i / 2, (cells + 1) / 2));
        for (int k = 0; k < (IS_F64 ? 1 : 2); k++)
            v.v[k] = v.v[k] * by_row * by_column;
        vzip(FN(wjoin)(v), FN(wjoin)(v), &a, &b);
        for (ptrdiff_t r = 0; r < rows; r++) {
            FN(store_some)(out + r * p->w.in + i, a, cells);
            FN(store_some)(out + r * p->w.in + i + LANES, b, cells - LANES);
        }
    }
    for (ptrdiff_t r = 0; r < rows && held < n; r++)
        FN(zero_pixels)(out + r * p->w.in + held, n - held, 1, 1);
}

/* n cells of row (d, h) of x, from column w on, that windows of two cells along W hold, and as many of at most `left` rows behind it
 * as go with it: how many they were, 0 when several rows of output hold one */
static ptrdiff_t FN(back_pairs)(const pool_plan *p, const real *g, ptrdiff_t d, ptrdiff_t h, ptrdiff_t w, ptrdiff_t n, ptrdiff_t left, real *out)
{
    ptrdiff_t dlo, dhi, hlo, hhi, kernel = p->h.kernel, rows = 1, windows = 1;
    cover(&p->d, d, &dlo, &dhi);
    cover(&p->h, h, &hlo, &hhi);
    if (dlo != dhi || hlo != hhi || w % 2 || !holds(&p->d, dlo, d) || !holds(&p->h, hlo, h))
        return 0;
    if (kernel == p->h.stride && p->h.dilation == 1 && p->h.before == 0 && h % kernel == 0) { /* a window's first row, of windows side by side */
        rows = least(kernel, least(left, p->h.in - h));
        windows = rows < kernel ? 1 : least(alike(&p->h, hlo), left / kernel);
    }
    const real *from = g + (dlo * p->h.out + hlo) * p->w.out + w / 2;
    wvec by_row = wset(1 / rows_counted(p, window(&p->d, dlo), window(&p->h, hlo))), by_column = wset(p->divisor != 0 ? 1 : 0.5);
    ptrdiff_t held = most(0, least(n, 2 * p->w.out - w));
    for (ptrdiff_t i = 0; i < windows; i++, from += p->w.out, out += rows * p->w.in) {
        if (rows == 2)
            FN(spread_row)(p, from, by_row, by_column, held, n, 2, out);
        else
            FN(spread_row)(p, from, by_row, by_column, held, n, rows, out);
    }
    return rows * windows;
}

/* units lo..hi-1: rows of x, each written by its owner */
FUNC void FN(back_rows_of)(const pool_plan *p, FN(back_scratch) *s, ptrdiff_t lo, ptrdiff_t hi)
{
    ptrdiff_t all = p->channels;
    pool_cursor at = cursor_at(p, lo, p->d.in, p->h.in);
    FN(back_tile) t = FN(back_tile_of)(p, s, at.tile);
    for (ptrdiff_t u = lo, rows; u < hi; u += rows) {
        const real *g = (const real *)p->g + at.plane * cells_out(p) * all;
        real *out = (real *)p->out + (at.row * p->w.in + t.w) * all + t.c;
        rows = p->pairs ? FN(back_pairs)(p, g, at.d, at.h, t.w, t.cells, hi - u, out) : 0;
        if (rows == 0) {
            rows = 1;
            if (u > lo && at.h > 0 && same_cover(&p->h, at.h)) {
                /* held by the same rows of output as the row before */
                ptrdiff_t runs = t.channels == all ? 1 : t.cells, run = t.channels == all ? t.cells * all : t.channels;
                for (ptrdiff_t i = 0; i < runs; i++)
                    memcpy(out + i * all, out + i * all - p->w.in * all, (size_t)run * sizeof(real));
            } else if (p->segments)
                FN(back_row_segments)(p, &t, s, g, at.d, at.h, out);
            else
                FN(back_row_runs)(p, &t, s, g, at.d, at.h, out);
        }
        cursor_skip(&at, rows);
        if (cursor_next(&at, p, p->d.in, p->h.in) && u + rows < hi)
            t = FN(back_tile_of)(p, s, at.tile);
    }
}
