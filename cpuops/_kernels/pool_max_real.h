/* pool_max_real.h: max pooling; its gradient: pool_max_back_real.h. Included by pool.h only, which tells how a row is made.
 *
 * A later cell replaces an earlier one when it is larger, or NaN where the earlier is not: the first maximum stays and NaN
 * wins. With indices, a cell carries the code of the row of x it came from (ascending with the rows of a window), and
 * among equals the lowest code wins, then the lowest column: the first in row-major order, although rows are folded first.
 * Padding is -inf with the highest code, so that any cell of x wins over it.
 */
#define NO_ROW (IS_F64 ? INT64_MAX : INT32_MAX)
#define KEEPS(v, best) mor(vle(v, best), visnan(best))
/* the same, and among equals that of the lower code */
#define PRECEDES(v, c, best, code) \
    mor(mnot(KEEPS(v, best)), mand(mor(veq(v, best), mand(visnan(v), visnan(best))), ivlt(c, code)))
#define BEATS_ONE(v, best) ((!((v) <= (best)) && (best) == (best)))
#define PRECEDES_ONE(v, c, best, code) (BEATS_ONE(v, best) || (((v) == (best) || ((v) != (v) && (best) != (best))) && (c) < (code)))

/* ---- step 1: rows to a line */

typedef struct {
    const real *x; /* the first cell of the line, in the windows' first row */
    ptrdiff_t nd, nh, step_d, step_h, code_d, code_h;
    int whole;     /* a vector at any cell of the line may be read whole: x goes on */
} FN(max_rows);

/* one vector of columns, folded over nd * nh rows; code_d, code_h: steps of the rows' codes */
INLINE vec FN(fold_rows)(const FN(max_rows) *r, ptrdiff_t column, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t lanes, int indexed, ivec *code)
{
    vec best = vzero();
    *code = ivset(0);
    for (ptrdiff_t d = 0; d < nd; d++)
        for (ptrdiff_t h = 0; h < nh; h++) {
            const real *at = r->x + column + d * r->step_d + h * r->step_h;
            vec v = lanes == LANES ? vload(at) : vload_n(at, lanes);
            if (d == 0 && h == 0)
                best = v;
            else if (indexed) {
                vmask keep = KEEPS(v, best);
                best = vsel(keep, best, v);
                *code = ivsel(keep, *code, ivset((inum)(d * r->code_d + h * r->code_h)));
            } else
                best = vmax(v, best);
        }
    return best;
}

/* lanes n.. of a vector that ends a line become padding: what stands there is padding or nobody's */
INLINE void FN(end_line)(ptrdiff_t n, vec *v, ivec *code)
{
    vmask inside = vlt(viota(), vset((real)n));
    *v = vsel(inside, *v, vset(-(real)INFINITY));
    *code = ivsel(inside, *code, ivset(NO_ROW));
}

/* n cells of a line; the last vector is laid over its neighbour: the same values are written twice */
INLINE void FN(fold_line)(const FN(max_rows) *r, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t n, real *line, inum *codes, int indexed)
{
    ivec code;
    if (n < LANES) {
        vec v = r->whole ? FN(fold_rows)(r, 0, nd, nh, LANES, indexed, &code) : FN(fold_rows)(r, 0, nd, nh, n, indexed, &code);
        FN(end_line)(n, &v, &code);
        vstore(line, v);
        if (indexed)
            ivstore(codes, code);
        return;
    }
    ptrdiff_t i = 0;
    /* one column's comparisons wait for each other: of many rows, four columns at once */
    for (; nd * nh > 4 && !indexed && i + 4 * LANES <= n; i += 4 * LANES) {
        vec best[4];
        for (int k = 0; k < 4; k++)
            best[k] = vload(r->x + i + k * LANES);
        for (ptrdiff_t d = 0; d < nd; d++)
            for (ptrdiff_t h = d == 0; h < nh; h++)
                for (int k = 0; k < 4; k++)
                    best[k] = vmax(vload(r->x + i + k * LANES + d * r->step_d + h * r->step_h), best[k]);
        for (int k = 0; k < 4; k++)
            vstore(line + i + k * LANES, best[k]);
    }
    for (; i < n; i += LANES) {
        ptrdiff_t at = least(i, n - LANES);
        vstore(line + at, FN(fold_rows)(r, at, nd, nh, LANES, indexed, &code));
        if (indexed)
            ivstore(codes + at, code);
    }
}

/* the same dealt to two phases, the first cell to place `first`; n >= 2 LANES, or whole */
INLINE void FN(fold_dealt)(const FN(max_rows) *r, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t n, ptrdiff_t first, ptrdiff_t phase,
                           real *line, inum *codes, int indexed)
{
    for (ptrdiff_t i = 0; i < n; i += 2 * LANES) {
        ptrdiff_t at = most(0, least(i, n - 2 * LANES)), place = first + at;
        ptrdiff_t even = (place & 1) * phase + (place >> 1), odd = (~place & 1) * phase + ((place + 1) >> 1);
        ivec ca, cb;
        vec a = FN(fold_rows)(r, at, nd, nh, LANES, indexed, &ca), b = FN(fold_rows)(r, at + LANES, nd, nh, LANES, indexed, &cb);
        if (n < 2 * LANES) {
            FN(end_line)(n, &a, &ca);
            FN(end_line)(n - LANES, &b, &cb);
        }
        vec lo, hi;
        vdeal(a, b, &lo, &hi);
        vstore(line + even, lo);
        vstore(line + odd, hi);
        if (indexed) {
            vdeal((vec)ca, (vec)cb, &lo, &hi);
            ivstore(codes + even, (ivec)lo);
            ivstore(codes + odd, (ivec)hi);
        }
    }
}

FUNC void FN(max_line)(const FN(max_rows) *r, ptrdiff_t n, real *line)
{
#define CALL(nd, nh) FN(fold_line)(r, nd, nh, n, line, 0, 0)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

FUNC void FN(argmax_line)(const FN(max_rows) *r, ptrdiff_t n, real *line, inum *codes)
{
#define CALL(nd, nh) FN(fold_line)(r, nd, nh, n, line, codes, 1)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

FUNC void FN(max_dealt)(const FN(max_rows) *r, ptrdiff_t n, ptrdiff_t first, ptrdiff_t phase, real *line)
{
#define CALL(nd, nh) FN(fold_dealt)(r, nd, nh, n, first, phase, line, 0, 0)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

FUNC void FN(argmax_dealt)(const FN(max_rows) *r, ptrdiff_t n, ptrdiff_t first, ptrdiff_t phase, real *line, inum *codes)
{
#define CALL(nd, nh) FN(fold_dealt)(r, nd, nh, n, first, phase, line, codes, 1)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

/* `n` pixels of a line, of `channels` out of `pixel` */
static void FN(any_max_line)(const FN(max_rows) *r, ptrdiff_t n, ptrdiff_t channels, ptrdiff_t pixel, int indexed, real *line, inum *codes)
{
    if (channels == pixel) {
        if (indexed)
            FN(argmax_line)(r, n * pixel, line, codes);
        else
            FN(max_line)(r, n * pixel, line);
        return;
    }
    FN(max_rows) one = *r;
    for (ptrdiff_t i = 0; i < n; i++, one.x += pixel) {
        if (indexed)
            FN(argmax_line)(&one, channels, line + i * channels, codes + i * channels);
        else
            FN(max_line)(&one, channels, line + i * channels);
    }
}

/* ---- step 2, runs: n outputs that lie side by side in every phase */

INLINE void FN(fold_run)(const real *line, const inum *codes, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t dilation,
                         ptrdiff_t n, real *out, inum *found, int indexed)
{
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        ptrdiff_t at = n < LANES ? 0 : least(i, n - LANES);
        vec best = vload(line + offset[0] + at);
        ivec code = ivset(0), column = ivset(0);
        if (indexed)
            code = ivload(codes + offset[0] + at);
        for (ptrdiff_t t = 1; t < taps; t++) {
            vec v = vload(line + offset[t] + at);
            if (indexed) {
                ivec c = ivload(codes + offset[t] + at);
                vmask take = PRECEDES(v, c, best, code);
                best = vsel(take, v, best);
                code = ivsel(take, c, code);
                column = ivsel(take, ivset((inum)(t * dilation)), column);
            } else
                best = vmax(v, best);
        }
        if (n < LANES)
            vstore_n(out, best, n);
        else
            vstore(out + at, best);
        if (indexed)
            ivstore(found + at, code + column);
    }
}

FUNC void FN(run_max)(const real *line, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t n, real *out)
{
    if (taps == 2)
        FN(fold_run)(line, 0, offset, 2, 0, n, out, 0, 0);
    else if (taps == 3)
        FN(fold_run)(line, 0, offset, 3, 0, n, out, 0, 0);
    else
        FN(fold_run)(line, 0, offset, taps, 0, n, out, 0, 0);
}

FUNC void FN(run_argmax)(const real *line, const inum *codes, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t dilation,
                         ptrdiff_t n, real *out, inum *found)
{
    if (taps == 2)
        FN(fold_run)(line, codes, offset, 2, dilation, n, out, found, 1);
    else if (taps == 3)
        FN(fold_run)(line, codes, offset, 3, dilation, n, out, found, 1);
    else
        FN(fold_run)(line, codes, offset, taps, dilation, n, out, found, 1);
}

/* ---- direct: channels of one output pixel from its window's cells, as many as `vectors` hold; `lanes` of a single one.
 * before: cells of x before the window's first that its place counts from */
INLINE void FN(fold_direct)(const real *x, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t pixel, int vectors, ptrdiff_t lanes, ptrdiff_t before,
                            real *out, inum *found, int indexed)
{
    vec best[4];
    ivec place[4];
    for (int k = 0; k < vectors; k++) {
        best[k] = lanes < LANES ? vload_n(x, lanes) : vload(x + k * LANES);
        place[k] = ivset((inum)before);
    }
    for (ptrdiff_t t = 1; t < taps; t++) {
        const real *from = x + offset[t] * pixel;
        ivec here = ivset((inum)(before + offset[t]));
        for (int k = 0; k < vectors; k++) {
            vec v = lanes < LANES ? vload_n(from, lanes) : vload(from + k * LANES);
            if (indexed) {
                vmask keep = KEEPS(v, best[k]);
                best[k] = vsel(keep, best[k], v);
                place[k] = ivsel(keep, place[k], here);
            } else
                best[k] = vmax(v, best[k]);
        }
    }
    for (int k = 0; k < vectors; k++) {
        if (lanes < LANES)
            vstore_n(out, best[k], lanes);
        else
            vstore(out + k * LANES, best[k]);
        if (indexed && lanes < LANES)
            vstore_n((real *)found, (vec)place[k], lanes);
        else if (indexed)
            ivstore(found + k * LANES, place[k]);
    }
}

/* all n channels; the last of several vectors is laid over its neighbour */
INLINE void FN(direct_of)(const real *x, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t pixel, ptrdiff_t n, ptrdiff_t before, real *out,
                          inum *found, int indexed)
{
    ptrdiff_t c = 0;
    for (; c + 4 * LANES <= n; c += 4 * LANES)
        FN(fold_direct)(x + c, offset, taps, pixel, 4, LANES, before, out + c, found + c, indexed);
    for (; c < n; c += LANES)
        if (n < LANES) {
            FN(fold_direct)(x, offset, taps, pixel, 1, n, before, out, found, indexed);
        } else {
            ptrdiff_t at = least(c, n - LANES);
            FN(fold_direct)(x + at, offset, taps, pixel, 1, LANES, before, out + at, found + at, indexed);
        }
}

FUNC void FN(direct_max)(const real *x, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t pixel, ptrdiff_t n, real *out)
{
    FN(direct_of)(x, offset, taps, pixel, n, 0, out, 0, 0);
}

FUNC void FN(direct_argmax)(const real *x, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t pixel, ptrdiff_t n, ptrdiff_t before,
                            real *out, inum *found)
{
    FN(direct_of)(x, offset, taps, pixel, n, before, out, found, 1);
}

/* ---- step 2, segments: one output, any number of cells of the line */

typedef struct {
    real *best;       /* a channel: the maximum so far, */
    int64_t *row;     /* the code of its row, */
    int64_t *column;  /* and its column */
    real *part;       /* the same of one line */
    inum *part_row, *part_tap;
} FN(max_state);

/* the first place of the maximum (or NaN) among n cells with the lowest code */
FUNC void FN(long_argmax)(const real *line, const inum *codes, ptrdiff_t n, real *best, inum *row, inum *tap)
{
    vec top = vload(line);
    for (ptrdiff_t i = LANES; i < n; i += LANES)
        top = vmax(vload(line + least(i, n - LANES)), top);
    real m = vhmax(top);
    inum code = NO_ROW, at = 0;
    vec all = vset(m);
    int nan = m != m;
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        ptrdiff_t from = least(i, n - LANES);
        vec v = vload(line + from);
        vmask same = nan ? visnan(v) : veq(v, all);
        if (!many(mand(same, ivlt(ivload(codes + from), ivset(code)))))
            continue;
        for (ptrdiff_t k = from; k < from + LANES; k++)
            if ((nan ? line[k] != line[k] : line[k] == m) && codes[k] < code) {
                code = codes[k];
                at = (inum)k;
            }
    }
    *best = m;
    *row = code;
    *tap = at;
}

/* taps cells of `channels` channels, `step` apart, into s->part */
FUNC void FN(segment)(const FN(max_state) *s, const real *line, const inum *codes, ptrdiff_t taps, ptrdiff_t step,
                      ptrdiff_t channels, int indexed)
{
    if (channels == 1 && step == 1 && taps >= 2 * LANES) {
        if (indexed) {
            FN(long_argmax)(line, codes, taps, s->part, s->part_row, s->part_tap);
            return;
        }
        vec top = vload(line);
        for (ptrdiff_t i = LANES; i < taps; i += LANES)
            top = vmax(vload(line + least(i, taps - LANES)), top);
        s->part[0] = vhmax(top);
        return;
    }
    if (channels == 1) {
        real best = line[0];
        inum row = indexed ? codes[0] : 0, tap = 0;
        for (ptrdiff_t t = 1; t < taps; t++) {
            real v = line[t * step];
            if (indexed ? PRECEDES_ONE(v, codes[t * step], best, row) : BEATS_ONE(v, best)) {
                best = v;
                row = indexed ? codes[t * step] : 0;
                tap = (inum)t;
            }
        }
        s->part[0] = best;
        s->part_row[0] = row;
        s->part_tap[0] = tap;
        return;
    }
    for (ptrdiff_t c = 0; c < channels; c += LANES) {
        vec best = vload(line + c);
        ivec row = indexed ? ivload(codes + c) : ivset(0), tap = ivset(0);
        for (ptrdiff_t t = 1; t < taps; t++) {
            vec v = vload(line + t * step + c);
            if (!indexed) {
                best = vmax(v, best);
                continue;
            }
            ivec code = ivload(codes + t * step + c);
            vmask take = PRECEDES(v, code, best, row);
            best = vsel(take, v, best);
            row = ivsel(take, code, row);
            tap = ivsel(take, ivset((inum)t), tap);
        }
        vstore(s->part + c, best);
        ivstore(s->part_row + c, row);
        ivstore(s->part_tap + c, tap);
    }
}

/* s->part, whose first tap is at `column`, joins what was found in columns before it */
static void FN(join)(const FN(max_state) *s, ptrdiff_t channels, int64_t column, int64_t dilation, int first)
{
    for (ptrdiff_t c = 0; c < channels; c++)
        if (first || PRECEDES_ONE(s->part[c], s->part_row[c], s->best[c], s->row[c])) {
            s->best[c] = s->part[c];
            s->row[c] = s->part_row[c];
            s->column[c] = column + s->part_tap[c] * dilation;
        }
}

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

static void FN(max_row_segments)(const pool_plan *p, const pool_tile *t, const FN(max_scratch) *s, FN(max_rows) *r, const real *x,
                                 ptrdiff_t base, real *out, int indexed, ptrdiff_t pixel)
{
    ptrdiff_t n = t->channels, all = p->channels, dilation = p->w.dilation, step_d = p->d.dilation * p->h.in * p->w.in, step_h = p->h.dilation * p->w.in;
    int parted = t->hi > p->line;
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
        for (ptrdiff_t f = 0; f < p->phases; f++) {
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

/* x: the plane; out: the row's first output of the tile, `pixel` cells an output. With `indexed`, s->found and s->corner
 * (segments: s->index) tell where the maxima stand */
static void FN(max_row)(const pool_plan *p, const pool_tile *t, FN(max_scratch) *s, const real *x, ptrdiff_t od, ptrdiff_t oh,
                        real *out, int indexed, ptrdiff_t pixel)
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
    if (p->segments)
        FN(max_row_segments)(p, t, s, &r, x, base, out, indexed, pixel);
    else if (p->direct)
        FN(max_row_direct)(p, t, s, x, wd, wh, base, out, indexed, pixel);
    else
        FN(max_row_runs)(p, t, s, &r, out, indexed, pixel);
}

/* the indices of a row, `pixel` cells an output */
INLINE void FN(indices_of)(const pool_plan *p, const pool_tile *t, const FN(max_scratch) *s, int64_t *wide, int32_t *narrow, ptrdiff_t pixel)
{
    ptrdiff_t n = t->channels, stride = p->w.stride;
    int64_t corner = s->corner + t->o * stride;
    for (ptrdiff_t o = 0; o < (n == 1 ? 1 : t->outputs); o++)
        for (ptrdiff_t c = 0; c < (n == 1 ? t->outputs : n); c++) {
            int64_t at = p->segments ? s->index[o * n + c] : corner + (n == 1 ? c : o) * stride + s->found[o * n + c];
            if (wide)
                wide[o * pixel + c] = at;
            else
                narrow[o * pixel + c] = (int32_t)at;
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
    for (ptrdiff_t u = lo; u < hi; u++) {
        ptrdiff_t to = (at.row * p->w.out + t.o) * all + t.c;
        FN(max_row)(p, &t, s, (const real *)p->x + at.plane * plane, at.d, at.h, (real *)p->out + to, p->index_size != 0, all);
        if (p->index_size)
            FN(write_indices)(p, &t, s, p->index + to * p->index_size, all);
        if (cursor_next(&at, p, p->d.out, p->h.out) && u + 1 < hi) {
            t = tile_of(p, at.tile);
            FN(max_tile)(p, &t, s);
        }
    }
}

#undef NO_ROW
#undef KEEPS
#undef PRECEDES
#undef BEATS_ONE
#undef PRECEDES_ONE
