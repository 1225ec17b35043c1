/* pool_max_real.h: max pooling; its gradient: pool_max_back_real.h. Included by pool.h only, which tells how a row is made.
 *
 * A later cell replaces an earlier one when it is larger, or NaN where the earlier is not: the first maximum stays and NaN
 * wins. With indices, a cell carries the code of the row of x it came from (ascending with the rows of a window), and
 * among equals the lowest code wins, then the lowest column: the first in row-major order, although rows are folded first.
 * Padding is -inf with the highest code, so that any cell of x wins over it.
 */

/* ---- one row of one tile */

typedef struct {
    real *line, *phases, *value;
    inum *codes, *phase_codes;
    inum *found;            /* runs, direct: an output cell's maximum as a distance from its window's nominal corner */
    int64_t *index;         /* segments: its index */
    ptrdiff_t *offset;      /* of the taps along W in the phases */
    pool_window *columns;   /* segments, direct: the windows along W */
    ptrdiff_t *taps;        /* direct: lists of a window's cells */
    ptrdiff_t *tap_shifts;  /* gathered: of the taps along W, by phases, how far before a place their output lies, */
    inum *tap_codes;        /* and how many cells they are from the window's corner */
    ptrdiff_t starts[MOST_PHASES + 1];
    ptrdiff_t corner;       /* the nominal corner of a row's output 0: its first row's first cell, less the padding before it */
    inum *ring;             /* gathered: `found` of several rows of output, */
    real *gradients;        /* and what came from above (phases only) */
    pool_window *inside;    /* the windows along W, */
    pool_window *holders;   /* and the outputs that may hold a column */
    FN(max_state) state;
    ptrdiff_t tile;         /* whose columns, offsets and padding these are */
    direct_lists direct;
} FN(max_scratch);

static FN(max_scratch) FN(max_scratch_of)(const pool_plan *p, void *memory)
{
    FN(max_scratch) s = {.tile = NO_TILE};
    char *at = (char *)memory;
    ptrdiff_t line = p->line * p->chunk + SLACK, cells = p->tile * p->chunk + SLACK, chunk = p->chunk + SLACK;
#define TAKE(member, n)    \
    s.member = (void *)at; \
    at += 8 * (n);
    TAKE(line, line)
    TAKE(codes, line)
    TAKE(phases, p->phases * p->phase)
    TAKE(phase_codes, p->phases * p->phase)
    TAKE(value, cells)
    TAKE(found, cells)
    TAKE(index, cells)
    TAKE(columns, 3 * (p->tile + SLACK))
    TAKE(offset, least(p->w.kernel, p->line))
    TAKE(taps, DIRECT_LISTS * MOST_DIRECT)
    TAKE(tap_shifts, MOST_GATHERED)
    TAKE(tap_codes, MOST_GATHERED)
    TAKE(state.best, chunk)
    TAKE(state.row, chunk)
    TAKE(state.column, chunk)
    TAKE(state.part, chunk)
    TAKE(state.part_row, chunk)
    TAKE(state.part_tap, chunk)
    if (p->gathered) {
        TAKE(ring, p->ring * p->slot)
        TAKE(gradients, p->ring * p->slot)
        TAKE(inside, 3 * p->tile)
        TAKE(holders, 3 * p->w.in)
    }
#undef TAKE
    return s;
}

/* padding in places lo..hi-1 of a line of n channels */
static void FN(pad_with_lowest)(const pool_plan *p, const FN(max_scratch) *s, ptrdiff_t lo, ptrdiff_t hi, ptrdiff_t n)
{
    for (ptrdiff_t i = lo; i < hi; i++)
        for (ptrdiff_t c = 0; c < n; c++) {
            s->phases[place_of(p, i, n) + c] = -(real)INFINITY;
            s->phase_codes[place_of(p, i, n) + c] = NO_ROW;
        }
}

/* what a tile's rows share */
static void FN(max_tile)(const pool_plan *p, const pool_tile *t, FN(max_scratch) *s)
{
    if (t->number == s->tile)
        return;
    s->tile = t->number;
    if (p->segments || p->direct)
        for (ptrdiff_t o = 0; o < t->outputs; o++)
            s->columns[o] = window(&p->w, t->o + o);
    if (p->segments)
        return;
    for (ptrdiff_t k = 0; k < p->w.kernel; k++)
        s->offset[k] = place_of(p, k * p->w.dilation, t->channels);
    if (!p->direct) {
        FN(pad_with_lowest)(p, s, 0, t->lo, t->channels);
        FN(pad_with_lowest)(p, s, t->hi, t->span, t->channels);
    }
}

/* the first cell of the rows that is `top`, in n columns from `column` on: its value, and with *at its place behind `base` */
static real FN(find_top)(const FN(max_rows) *r, ptrdiff_t column, ptrdiff_t n, real top, int64_t *at)
{
    for (ptrdiff_t d = 0; d < r->nd; d++)
        for (ptrdiff_t h = 0; h < r->nh; h++) {
            const real *row = r->x + column + d * r->step_d + h * r->step_h;
            ptrdiff_t place = FN(row_place)(row, n, top);
            if (place != NOWHERE) {
                *at = d * r->step_d + h * r->step_h + place;
                return row[place];
            }
        }
    return top;
}

/* a vector of outputs at a time, of windows of one channel without gaps; r: of one row, where a window's cells may be read with
 * those behind them, else the line */
static void FN(max_spans)(const pool_plan *p, const pool_tile *t, const FN(max_scratch) *s, const FN(max_rows) *r, ptrdiff_t base, int indexed,
                          real *out)
{
    const real *x = r->x;
    if (r->nd * r->nh > 1 || !r->whole) {
        FN(max_line)(r, t->hi, s->line);
        x = s->line;
    }
    int few = 2 * t->outputs <= LANES && widest(&p->w) >= 4 * LANES; /* long ones: most lanes would do another's work again */
    for (ptrdiff_t o = 0; few && o < t->outputs; o++)
        out[o] = FN(row_top)(x + s->columns[o].first - t->origin, s->columns[o].taps);
    for (ptrdiff_t o = 0; !few && o < t->outputs; o += LANES) {
        const real *at[LANES];
        ptrdiff_t taps[LANES];
        for (int k = 0; k < LANES; k++) {
            pool_window w = s->columns[least(o + k, t->outputs - 1)];
            at[k] = x + (w.first - t->origin);
            taps[k] = w.taps;
        }
        FN(store_some)(out + o, FN(span_tops)(at, taps), t->outputs - o);
    }
    for (ptrdiff_t o = 0; indexed && o < t->outputs; o++) {
        ptrdiff_t first = s->columns[o].first;
        out[o] = FN(find_top)(r, first - t->origin, s->columns[o].taps, out[o], s->index + o);
        s->index[o] += base + first;
    }
}

static void FN(max_row_segments)(const pool_plan *p, const pool_tile *t, const FN(max_scratch) *s, FN(max_rows) *r, const real *x,
                                 ptrdiff_t base, real *out, int indexed, ptrdiff_t pixel)
{
    ptrdiff_t n = t->channels, all = p->channels, dilation = p->w.dilation, step_d = p->d.dilation * p->h.in * p->w.in, step_h = p->h.dilation * p->w.in;
    int parted = t->hi > p->line;
    if (all == 1 && dilation == 1 && !parted) {
        FN(max_spans)(p, t, s, r, base, indexed, out);
        return;
    }
    /* codes number the rows, so that they fit whatever the plane's size */
    r->code_d = r->nh;
    r->code_h = 1;
    if (!parted)
        FN(any_max_line)(r, t->hi, n, all, indexed, s->line, s->codes);
    for (ptrdiff_t o = 0; o < t->outputs; o++) {
        pool_window w = s->columns[o];
        ptrdiff_t taps = parted ? (p->line - 1) / dilation + 1 : w.taps;
        for (ptrdiff_t first = 0; first < w.taps; first += taps) {
            ptrdiff_t column = w.first + first * dilation, here = least(taps, w.taps - first);
            ptrdiff_t place = parted ? 0 : (column - t->origin) * n;
            if (parted) {
                r->x = x + (base + column) * all + t->c;
                r->whole = 0;
                FN(any_max_line)(r, (here - 1) * dilation + 1, n, all, indexed, s->line, s->codes);
            }
            FN(segment)(&s->state, s->line + place, s->codes + place, here, dilation * n, n, indexed);
            if (indexed || parted)
                FN(join)(&s->state, n, column, dilation, first == 0);
        }
        memcpy(out + o * pixel, indexed || parted ? s->state.best : s->state.part, (size_t)n * sizeof(real));
        for (ptrdiff_t c = 0; indexed && c < n; c++) {
            ptrdiff_t row = s->state.row[c];
            s->index[o * n + c] = base + (r->nd == 1 ? row * step_h : row / r->nh * step_d + row % r->nh * step_h) + s->state.column[c];
        }
    }
}

static void FN(max_row_direct)(const pool_plan *p, const pool_tile *t, FN(max_scratch) *s, const real *x, pool_window wd,
                               pool_window wh, ptrdiff_t base, real *out, int indexed, ptrdiff_t pixel)
{
    const pool_axis *w = &p->w;
    ptrdiff_t n = t->channels, all = p->channels, taps;
    for (ptrdiff_t o = 0; o < t->outputs; o++) {
        pool_window ww = s->columns[o];
        const ptrdiff_t *cells = direct_list(p, &s->direct, s->taps, wd, wh, ww, &taps);
        const real *from = x + (base + ww.first) * all + t->c;
        if (indexed)
            FN(direct_argmax)(from, cells, taps, all, n, ww.first - ((t->o + o) * w->stride - w->before), out + o * pixel, s->found + o * n);
        else
            FN(direct_max)(from, cells, taps, all, n, out + o * pixel);
    }
}

static void FN(max_row_runs)(const pool_plan *p, const pool_tile *t, const FN(max_scratch) *s, const FN(max_rows) *r, real *out, int indexed, ptrdiff_t pixel)
{
    const pool_axis *w = &p->w;
    ptrdiff_t n = t->channels, valid = t->hi - t->lo;
    if (p->phases == 1)
        FN(any_max_line)(r, valid, n, p->channels, indexed, s->phases + t->lo * n, s->phase_codes + t->lo * n);
    else if (p->phases == 2 && n == 1 && (r->whole || valid >= 2 * LANES)) {
        if (indexed)
            FN(argmax_dealt)(r, valid, t->lo, p->phase, s->phases, s->phase_codes);
        else
            FN(max_dealt)(r, valid, t->lo, p->phase, s->phases);
    } else {
        FN(any_max_line)(r, valid, n, p->channels, indexed, s->line, s->codes);
        int four = p->phases == 4 && n == 1;
        if (four)
            FN(deal_four)(p, s->line, s->codes, valid, t->lo, indexed, s->phases, s->phase_codes);
        for (ptrdiff_t f = 0; f < p->phases && !four; f++) {
            /* cells of the line that stand in phase f */
            ptrdiff_t i = (f - t->lo % p->phases + p->phases) % p->phases, to = place_of(p, t->lo + i, n);
            if (n == 1) {
                for (ptrdiff_t j = 0; i + j * p->phases < valid; j++)
                    s->phases[to + j] = s->line[i + j * p->phases];
                for (ptrdiff_t j = 0; indexed && i + j * p->phases < valid; j++)
                    s->phase_codes[to + j] = s->codes[i + j * p->phases];
                continue;
            }
            for (; i < valid; i += p->phases, to += n)
                for (ptrdiff_t c = 0; c < n; c++) {
                    s->phases[to + c] = s->line[i * n + c];
                    if (indexed)
                        s->phase_codes[to + c] = s->codes[i * n + c];
                }
        }
    }
    ptrdiff_t runs = p->by_pixel ? t->outputs : 1, run = p->by_pixel ? n : t->outputs * n, step = w->stride * n;
    for (ptrdiff_t i = 0; i < runs; i++) {
        if (indexed)
            FN(run_argmax)(s->phases + i * step, s->phase_codes + i * step, s->offset, w->kernel, w->dilation, run, out + i * pixel,
                           s->found + i * n);
        else
            FN(run_max)(s->phases + i * step, s->offset, w->kernel, run, out + i * pixel);
    }
}

/* whether rows need no line; threes one apart are found faster from one */
INLINE int FN(narrow)(const pool_plan *p, int indexed) { return p->pairs || (p->threes && (!indexed || p->w.stride == 2)); }

static void FN(max_row_narrow)(const pool_plan *p, const pool_tile *t, const FN(max_scratch) *s, const FN(max_rows) *r, real *out, int indexed)
{
    if (p->pairs) {
        if (indexed)
            FN(argmax_pairs)(r, t->outputs, out, s->found);
        else
            FN(max_pairs)(r, t->outputs, out);
        return;
    }
    const real *end = (const real *)p->x + p->planes * cells_in(p);
    FN(max_rows) rows = *r;
    rows.x -= t->origin + t->lo;
    /* a cell before the rows' begin and vectors behind their ends are touched */
    rows.whole = rows.x + t->origin >= (const real *)p->x && end - rows.x >= (r->nd - 1) * r->step_d + (r->nh - 1) * r->step_h + p->w.in + 4 * LANES;
    if (indexed)
        FN(argmax_threes)(&rows, t->origin, p->w.in, t->outputs, out, s->found);
    else
        FN(max_threes)(&rows, (int)p->w.stride, t->origin, p->w.in, t->outputs, out);
}

/* the rows of x that output row (od, oh) of a plane folds, from the tile's first column on; s->corner becomes theirs */
INLINE FN(max_rows) FN(rows_at)(const pool_plan *p, const pool_tile *t, FN(max_scratch) *s, const real *x, ptrdiff_t od, ptrdiff_t oh)
{
    pool_window wd = window(&p->d, od), wh = window(&p->h, oh);
    ptrdiff_t all = p->channels, area = p->h.in * p->w.in, base = (wd.first * p->h.in + wh.first) * p->w.in;
    FN(max_rows) r;
    r.nd = wd.taps;
    r.nh = wh.taps;
    r.step_d = p->d.dilation * area * all;
    r.step_h = p->h.dilation * p->w.in * all;
    r.code_d = p->d.dilation * area; /* codes are distances in cells from the windows' first row */
    r.code_h = p->h.dilation * p->w.in;
    r.x = x + (base + t->origin + t->lo) * all + t->c;
    /* the last vectors of a line of one channel reach at most 2 LANES beyond it, in its last row */
    const real *end = (const real *)p->x + p->planes * cells_in(p) * all;
    r.whole = all == 1 && end - r.x >= (r.nd - 1) * r.step_d + (r.nh - 1) * r.step_h + t->hi - t->lo + 2 * LANES;
    s->corner = base - p->w.before;
    return r;
}

/* x: the plane; out: the row's first output of the tile, `pixel` cells an output. With `indexed`, s->found and s->corner
 * (segments: s->index) tell where the maxima stand */
static void FN(max_row)(const pool_plan *p, const pool_tile *t, FN(max_scratch) *s, const real *x, ptrdiff_t od, ptrdiff_t oh,
                        real *out, int indexed, ptrdiff_t pixel)
{
    FN(max_rows) r = FN(rows_at)(p, t, s, x, od, oh);
    if (FN(narrow)(p, indexed))
        FN(max_row_narrow)(p, t, s, &r, out, indexed);
    else if (p->segments)
        FN(max_row_segments)(p, t, s, &r, x, s->corner + p->w.before, out, indexed, pixel);
    else if (p->direct)
        FN(max_row_direct)(p, t, s, x, window(&p->d, od), window(&p->h, oh), s->corner + p->w.before, out, indexed, pixel);
    else
        FN(max_row_runs)(p, t, s, &r, out, indexed, pixel);
}

/* corner + i * step + found[i] as indices, wide or narrow */
INLINE void FN(add_corner)(const inum *restrict found, ptrdiff_t n, int64_t corner, int64_t step, int64_t *restrict wide, int32_t *restrict narrow)
{
    if (wide)
        for (ptrdiff_t i = 0; i < n; i++)
            wide[i] = corner + i * step + found[i];
    else
        for (ptrdiff_t i = 0; i < n; i++)
            narrow[i] = (int32_t)(corner + i * step + found[i]);
}

/* the indices of a row, `pixel` cells an output */
INLINE void FN(indices_of)(const pool_plan *p, const pool_tile *t, const FN(max_scratch) *s, int64_t *wide, int32_t *narrow, ptrdiff_t pixel)
{
    ptrdiff_t n = t->channels, stride = p->w.stride;
    int64_t corner = s->corner + t->o * stride;
    if (!p->segments && n == 1) {
        FN(add_corner)(s->found, t->outputs, corner, stride, wide, narrow);
        return;
    }
    for (ptrdiff_t o = 0; o < t->outputs; o++) {
        int64_t *to = wide ? wide + o * pixel : 0;
        int32_t *narrow_to = narrow ? narrow + o * pixel : 0;
        if (!p->segments)
            FN(add_corner)(s->found + o * n, n, corner + o * stride, 0, to, narrow_to);
        for (ptrdiff_t c = 0; p->segments && c < n; c++)
            if (to)
                to[c] = s->index[o * n + c];
            else
                narrow_to[c] = (int32_t)s->index[o * n + c];
    }
}

FUNC void FN(write_indices)(const pool_plan *p, const pool_tile *t, const FN(max_scratch) *s, char *index, ptrdiff_t pixel)
{
    if (p->index_size == 4)
        FN(indices_of)(p, t, s, 0, (int32_t *)index, pixel);
    else
        FN(indices_of)(p, t, s, (int64_t *)index, 0, pixel);
}

/* units lo..hi-1 of the forward; each writes its own outputs */
FUNC void FN(max_rows_of)(const pool_plan *p, FN(max_scratch) *s, ptrdiff_t lo, ptrdiff_t hi)
{
    ptrdiff_t all = p->channels, plane = cells_in(p) * all;
    pool_cursor at = cursor_at(p, lo, p->d.out, p->h.out);
    pool_tile t = tile_of(p, at.tile);
    FN(max_tile)(p, &t, s);
    for (ptrdiff_t u = lo, rows; u < hi; u += rows) {
        ptrdiff_t to = (at.row * p->w.out + t.o) * all + t.c, step = p->h.stride * p->w.in;
        const real *x = (const real *)p->x + at.plane * plane;
        rows = FN(narrow)(p, p->index_size != 0) ? least(alike(&p->h, at.h), hi - u) : 1;
        if (rows > 1) {
            FN(max_rows) r = FN(rows_at)(p, &t, s, x, at.d, at.h);
            for (ptrdiff_t i = 0; i < rows; i++, to += p->w.out, r.x += step, s->corner += step) {
                FN(max_row_narrow)(p, &t, s, &r, (real *)p->out + to, p->index_size != 0);
                if (p->index_size)
                    FN(write_indices)(p, &t, s, p->index + to * p->index_size, 1);
            }
        } else {
            FN(max_row)(p, &t, s, x, at.d, at.h, (real *)p->out + to, p->index_size != 0, all);
            if (p->index_size)
                FN(write_indices)(p, &t, s, p->index + to * p->index_size, all);
        }
        cursor_skip(&at, rows);
        if (cursor_next(&at, p, p->d.out, p->h.out) && u + rows < hi) {
            t = tile_of(p, at.tile);
            FN(max_tile)(p, &t, s);
        }
    }
}
