/* pool_max_real.h: max pooling and its gradient. Included by pool.h only, which tells how a row is made.
 *
 * A later cell replaces an earlier one when it is larger, or NaN where the earlier is not: the first maximum stays and NaN
 * wins. With indices, a cell carries the code of the row of x it came from (ascending with the rows of a window), and
 * among equals the lowest code wins, then the lowest column: the first in row-major order, although rows are folded first.
 * Padding is -inf with the highest code, so that any cell of x wins over it.
 */
#define NO_ROW (IS_F64 ? INT64_MAX : INT32_MAX)

/* ---- step 1: rows to a line */

/* one vector of columns, folded over nd * nh rows; code_d, code_h: steps of the rows' codes */
INLINE vec FN(fold_rows)(const real *x, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t step_d, ptrdiff_t step_h, ptrdiff_t lanes,
                         int indexed, ptrdiff_t code_d, ptrdiff_t code_h, ivec *code)
{
    vec best = vzero();
    ivec from = ivset(0);
    for (ptrdiff_t d = 0; d < nd; d++)
        for (ptrdiff_t h = 0; h < nh; h++) {
            const real *at = x + d * step_d + h * step_h;
            vec v = lanes == LANES ? vload(at) : vload_n(at, lanes);
            if (d == 0 && h == 0)
                best = v;
            else if (indexed) {
                vmask take = mand(mnot(vle(v, best)), veq(best, best));
                best = vsel(take, v, best);
                from = ivsel(take, ivset((inum)(d * code_d + h * code_h)), from);
            } else
                best = vmax(v, best);
        }
    *code = from;
    return best;
}

/* n cells of a line; the last vector is laid over its neighbour, the same values are written twice */
INLINE void FN(line_of)(const real *x, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t step_d, ptrdiff_t step_h, int indexed,
                        ptrdiff_t code_d, ptrdiff_t code_h, ptrdiff_t n, real *line, inum *codes)
{
    ivec code;
    if (n < LANES) {
        vec v = FN(fold_rows)(x, nd, nh, step_d, step_h, n, indexed, code_d, code_h, &code);
        vstore_n(line, v, n);
        if (indexed)
            vstore_n((real *)codes, (vec)code, n);
        return;
    }
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        ptrdiff_t at = least(i, n - LANES);
        vec v = FN(fold_rows)(x + at, nd, nh, step_d, step_h, LANES, indexed, code_d, code_h, &code);
        vstore(line + at, v);
        if (indexed)
            ivstore(codes + at, code);
    }
}

/* the same, dealt to two phases: cell i to line[first + i] of one line of twice the length; n >= 2 LANES */
INLINE void FN(dealt_line_of)(const real *x, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t step_d, ptrdiff_t step_h, int indexed,
                              ptrdiff_t code_d, ptrdiff_t code_h, ptrdiff_t n, ptrdiff_t first, ptrdiff_t phase,
                              real *line, inum *codes)
{
    for (ptrdiff_t i = 0; i < n; i += 2 * LANES) {
        ptrdiff_t at = least(i, n - 2 * LANES), place = first + at;
        ivec ca, cb;
        vec a = FN(fold_rows)(x + at, nd, nh, step_d, step_h, LANES, indexed, code_d, code_h, &ca);
        vec b = FN(fold_rows)(x + at + LANES, nd, nh, step_d, step_h, LANES, indexed, code_d, code_h, &cb);
        ptrdiff_t even = place % 2 * phase + place / 2, odd = (place + 1) % 2 * phase + (place + 1) / 2;
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

/* few rows are the rule: with their number constant the loops unroll */
#define BY_ROWS(nd, nh, CALL)           \
    if ((nd) == 1 && (nh) == 1) {       \
        CALL(1, 1);                     \
    } else if ((nd) == 1 && (nh) == 2) {\
        CALL(1, 2);                     \
    } else if ((nd) == 1 && (nh) == 3) {\
        CALL(1, 3);                     \
    } else {                            \
        CALL(nd, nh);                   \
    }

typedef struct {
    const real *x;      /* the first cell of the line, in the windows' first row */
    ptrdiff_t nd, nh, step_d, step_h, code_d, code_h;
} FN(max_rows);

FUNC void FN(max_line)(const FN(max_rows) *r, ptrdiff_t n, real *line, inum *codes)
{
#define CALL(nd, nh) FN(line_of)(r->x, nd, nh, r->step_d, r->step_h, 0, 0, 0, n, line, codes)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

FUNC void FN(argmax_line)(const FN(max_rows) *r, ptrdiff_t n, real *line, inum *codes)
{
#define CALL(nd, nh) FN(line_of)(r->x, nd, nh, r->step_d, r->step_h, 1, r->code_d, r->code_h, n, line, codes)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

FUNC void FN(max_dealt_line)(const FN(max_rows) *r, ptrdiff_t n, ptrdiff_t first, ptrdiff_t phase, real *line, inum *codes)
{
#define CALL(nd, nh) FN(dealt_line_of)(r->x, nd, nh, r->step_d, r->step_h, 0, 0, 0, n, first, phase, line, codes)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

FUNC void FN(argmax_dealt_line)(const FN(max_rows) *r, ptrdiff_t n, ptrdiff_t first, ptrdiff_t phase, real *line, inum *codes)
{
#define CALL(nd, nh) \
    FN(dealt_line_of)(r->x, nd, nh, r->step_d, r->step_h, 1, r->code_d, r->code_h, n, first, phase, line, codes)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

/* `n` pixels of a line, of `channels` out of `pixel` */
static void FN(any_max_line)(FN(max_rows) r, ptrdiff_t n, ptrdiff_t channels, ptrdiff_t pixel, int indexed, real *line, inum *codes)
{
    ptrdiff_t runs = channels == pixel ? 1 : n, run = channels == pixel ? n * pixel : channels;
    for (ptrdiff_t i = 0; i < runs; i++, r.x += pixel) {
        if (indexed)
            FN(argmax_line)(&r, run, line + i * channels, codes + i * channels);
        else
            FN(max_line)(&r, run, line + i * channels, codes);
    }
}

/* ---- step 2, runs: n outputs that lie side by side in every phase */

/* later cells replace earlier ones; `to` tells the tap's columns */
#define BETTER(v, c, best, code) \
    mor(mand(mnot(vle(v, best)), veq(best, best)), mand(mor(veq(v, best), mand(visnan(v), visnan(best))), ivlt(c, code)))

INLINE void FN(max_run)(const real *line, const inum *codes, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t dilation,
                        ptrdiff_t n, real *out, inum *index, int indexed)
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
                vmask take = BETTER(v, c, best, code);
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
            ivstore(index + at, code + column);
    }
}

FUNC void FN(run_max)(const real *line, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t n, real *out)
{
    if (taps == 2)
        FN(max_run)(line, 0, offset, 2, 0, n, out, 0, 0);
    else if (taps == 3)
        FN(max_run)(line, 0, offset, 3, 0, n, out, 0, 0);
    else
        FN(max_run)(line, 0, offset, taps, 0, n, out, 0, 0);
}

FUNC void FN(run_argmax)(const real *line, const inum *codes, const ptrdiff_t *offset, ptrdiff_t taps, ptrdiff_t dilation,
                         ptrdiff_t n, real *out, inum *index)
{
    if (taps == 2)
        FN(max_run)(line, codes, offset, 2, dilation, n, out, index, 1);
    else if (taps == 3)
        FN(max_run)(line, codes, offset, 3, dilation, n, out, index, 1);
    else
        FN(max_run)(line, codes, offset, taps, dilation, n, out, index, 1);
}

/* ---- step 2, segments: one output, any number of cells of the line */

typedef struct {
    real *best;       /* a channel: the maximum so far, */
    int64_t *row;     /* the code of its row, */
    int64_t *column;  /* and its column */
    real *part;       /* scratch: of one line */
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
            if (!indexed) {
                best = (v > best || v != v) ? v : best;
                continue;
            }
            inum c = codes[t * step];
            if ((!(v <= best) && best == best) || ((v == best || (v != v && best != best)) && c < row)) {
                best = v;
                row = c;
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
            vmask take = BETTER(v, code, best, row);
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
    for (ptrdiff_t c = 0; c < channels; c++) {
        real v = s->part[c], best = s->best[c];
        int take = first || (!(v <= best) && best == best) || ((v == best || (v != v && best != best)) && s->part_row[c] < s->row[c]);
        if (take) {
            s->best[c] = v;
            s->row[c] = s->part_row[c];
            s->column[c] = column + s->part_tap[c] * dilation;
        }
    }
}

/* ---- one row of one tile */

typedef struct {
    real *line, *phases, *value;
    inum *codes, *phase_codes, *found;
    ptrdiff_t *offset;
    int64_t *index;
    FN(max_state) state;
} FN(max_scratch);

static FN(max_scratch) FN(max_scratch_of)(const pool_plan *p, void *memory)
{
    FN(max_scratch) s;
    char *at = (char *)memory;
    ptrdiff_t line = p->line * p->chunk + SLACK, cells = p->tile * p->chunk + SLACK;
    ptrdiff_t phases = (p->segments || p->by_pixel ? 1 : p->w.stride) * p->phase, chunk = p->chunk + SLACK / 8;
#define TAKE(member, n)          \
    s.member = (void *)at;       \
    at += 8 * (n);
    TAKE(line, line)
    TAKE(codes, line)
    TAKE(phases, phases)
    TAKE(phase_codes, phases)
    TAKE(value, cells)
    TAKE(found, cells)
    TAKE(index, cells)
    TAKE(offset, p->segments ? 0 : p->w.kernel)
    TAKE(state.best, chunk)
    TAKE(state.row, chunk)
    TAKE(state.column, chunk)
    TAKE(state.part, chunk)
    TAKE(state.part_row, chunk)
    TAKE(state.part_tap, chunk)
#undef TAKE
    return s;
}

/* what a tile's rows share: the places of the taps, and padding */
static void FN(max_tile)(const pool_plan *p, const pool_tile *t, const FN(max_scratch) *s)
{
    if (p->segments)
        return;
    ptrdiff_t n = t->channels, phases = p->by_pixel ? 1 : p->w.stride, d = p->w.dilation;
    for (ptrdiff_t k = 0; k < p->w.kernel; k++)
        s->offset[k] = k * d % phases * p->phase + k * d / phases * n;
    ptrdiff_t span = (t->outputs - 1) * p->w.stride + reach(&p->w);
    for (ptrdiff_t i = 0; i < span; i++) {
        if (i == t->lo)
            i = t->hi;
        if (i >= span)
            break;
        for (ptrdiff_t c = 0; c < n; c++) {
            s->phases[i % phases * p->phase + i / phases * n + c] = -(real)INFINITY;
            s->phase_codes[i % phases * p->phase + i / phases * n + c] = NO_ROW;
        }
    }
}

/* x: the plane; out and index: the row's first output of the tile, `pixel` cells an output; size: bytes an index, 0 for none */
static void FN(max_row)(const pool_plan *p, const pool_tile *t, const FN(max_scratch) *s, const real *x, ptrdiff_t od,
                        ptrdiff_t oh, real *out, char *index, ptrdiff_t size, ptrdiff_t pixel)
{
    const pool_axis *w = &p->w;
    pool_window wd = window(&p->d, od), wh = window(&p->h, oh);
    ptrdiff_t n = t->channels, all = p->channels, area = p->h.in * w->in, base = (wd.first * p->h.in + wh.first) * w->in;
    int indexed = size != 0;
    FN(max_rows) r;
    r.nd = wd.taps;
    r.nh = wh.taps;
    r.step_d = p->d.dilation * area * all;
    r.step_h = p->h.dilation * w->in * all;
    r.x = x + (base + t->origin + t->lo) * all + t->c;
    if (p->segments) {
        /* codes number the rows, so that they fit whatever the plane's size */
        r.code_d = wh.taps;
        r.code_h = 1;
        int parted = t->hi > p->line;
        if (!parted)
            FN(any_max_line)(r, t->hi, n, all, indexed, s->line, s->codes);
        for (ptrdiff_t o = 0; o < t->outputs; o++) {
            pool_window ww = window(w, t->o + o);
            ptrdiff_t taps = parted ? most(1, (p->line - 1) / w->dilation + 1) : ww.taps;
            for (ptrdiff_t first = 0; first < ww.taps; first += taps) {
                ptrdiff_t column = ww.first + first * w->dilation, here = least(taps, ww.taps - first);
                const real *line = s->line + (column - t->origin) * n;
                const inum *codes = s->codes + (column - t->origin) * n;
                if (parted) {
                    FN(max_rows) q = r;
                    q.x = x + (base + column) * all + t->c;
                    FN(any_max_line)(q, (here - 1) * w->dilation + 1, n, all, indexed, s->line, s->codes);
                    line = s->line;
                    codes = s->codes;
                }
                FN(segment)(&s->state, line, codes, here, w->dilation * n, n, indexed);
                if (indexed || parted)
                    FN(join)(&s->state, n, column, w->dilation, first == 0);
            }
            memcpy(out + o * pixel, indexed || parted ? s->state.best : s->state.part, (size_t)n * sizeof(real));
            for (ptrdiff_t c = 0; indexed && c < n; c++) {
                int64_t row = s->state.row[c];
                int64_t at = base + row / wh.taps * p->d.dilation * area + row % wh.taps * p->h.dilation * w->in + s->state.column[c];
                if (size == 4)
                    ((int32_t *)index)[o * pixel + c] = (int32_t)at;
                else
                    ((int64_t *)index)[o * pixel + c] = at;
            }
        }
        return;
    }
    /* codes are distances in cells from the windows' first row */
    r.code_d = p->d.dilation * area;
    r.code_h = p->h.dilation * w->in;
    ptrdiff_t phases = p->by_pixel ? 1 : w->stride, valid = t->hi - t->lo;
    if (phases == 1)
        FN(any_max_line)(r, valid, n, all, indexed, s->phases + t->lo * n, s->phase_codes + t->lo * n);
    else if (phases == 2 && n == 1 && valid >= 2 * LANES) {
        if (indexed)
            FN(argmax_dealt_line)(&r, valid, t->lo, p->phase, s->phases, s->phase_codes);
        else
            FN(max_dealt_line)(&r, valid, t->lo, p->phase, s->phases, s->phase_codes);
    } else {
        FN(any_max_line)(r, valid, n, all, indexed, s->line, s->codes);
        ptrdiff_t phase = t->lo % phases, place = t->lo / phases;
        for (ptrdiff_t i = 0; i < valid; i++) {
            ptrdiff_t to = phase * p->phase + place * n;
            for (ptrdiff_t c = 0; c < n; c++)
                s->phases[to + c] = s->line[i * n + c];
            for (ptrdiff_t c = 0; indexed && c < n; c++)
                s->phase_codes[to + c] = s->codes[i * n + c];
            if (++phase == phases) {
                phase = 0;
                place++;
            }
        }
    }
    ptrdiff_t runs = p->by_pixel ? t->outputs : 1, run = p->by_pixel ? n : t->outputs * n;
    ptrdiff_t step = p->by_pixel ? w->stride * n : 0;
    for (ptrdiff_t i = 0; i < runs; i++) {
        const real *line = s->phases + i * step;
        if (!indexed) {
            FN(run_max)(line, s->offset, w->kernel, run, out + i * pixel);
            continue;
        }
        FN(run_argmax)(line, s->phase_codes + i * step, s->offset, w->kernel, w->dilation, run, out + i * pixel, s->found);
        int64_t at = base + (t->o + i) * w->stride - w->before;
        for (ptrdiff_t o = 0; o < run / n; o++, at += w->stride) {
            const inum *found = s->found + o * n;
            if (size == 4)
                for (ptrdiff_t c = 0; c < n; c++)
                    ((int32_t *)index)[(i + o) * pixel + c] = (int32_t)(at + found[c]);
            else
                for (ptrdiff_t c = 0; c < n; c++)
                    ((int64_t *)index)[(i + o) * pixel + c] = at + found[c];
        }
    }
}

/* ---- units */

/* units lo..hi-1 of the forward; each writes its own outputs */
FUNC void FN(max_pool)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    FN(max_scratch) s = FN(max_scratch_of)(p, memory);
    const real *x = (const real *)p->x;
    pool_tile t = tile_of(p, lo / p->rows);
    FN(max_tile)(p, &t, &s);
    for (ptrdiff_t u = lo; u < hi; u++) {
        ptrdiff_t row = u % p->rows, oh = row % p->h.out, od = row / p->h.out % p->d.out, plane = row / p->h.out / p->d.out;
        if (row == 0) {
            t = tile_of(p, u / p->rows);
            FN(max_tile)(p, &t, &s);
        }
        ptrdiff_t to = (row * p->w.out + t.o) * p->channels + t.c;
        FN(max_row)(p, &t, &s, x + plane * cells_in(p) * p->channels, od, oh, (real *)p->out + to, p->index + to * p->index_size,
                    p->index_size, p->channels);
    }
}

/* n pixels of channels c.. of out */
static void FN(zero_pixels)(real *out, ptrdiff_t n, ptrdiff_t channels, ptrdiff_t pixel)
{
    if (channels == pixel)
        memset(out, 0, (size_t)(n * pixel) * sizeof(real));
    else
        for (ptrdiff_t i = 0; i < n; i++)
            memset(out + i * pixel, 0, (size_t)channels * sizeof(real));
}

/* one part of a plane of out: zeroed, then the windows that touch it are searched again in their order, and each adds its
 * gradient at its maximum if that lies in the part */
static void FN(max_pool_backward_part)(const pool_plan *p, ptrdiff_t u, void *memory)
{
    FN(max_scratch) s = FN(max_scratch_of)(p, memory);
    ptrdiff_t all = p->channels, plane = u / p->parts / p->chunks, chunk = u / p->parts % p->chunks;
    const pool_axis *axes[3] = {&p->d, &p->h, &p->w};
    int cut = p->d.in > 1 ? 0 : p->h.in > 1 ? 1 : 2;
    ptrdiff_t lo[3] = {0, 0, 0}, hi[3] = {p->d.out - 1, p->h.out - 1, p->w.out - 1}, unused;
    ptrdiff_t first = u % p->parts * p->part, last = least(first + p->part, axes[cut]->in);
    cover(axes[cut], first, &lo[cut], &unused);
    cover(axes[cut], last - 1, &unused, &hi[cut]);
    /* from here on in cells: the axes before the one that is cut have length 1 */
    first *= cells_in(p) / axes[cut]->in;
    last *= cells_in(p) / axes[cut]->in;
    ptrdiff_t c0 = chunk * p->chunk, channels = least(p->chunk, all - c0);
    const real *x = (const real *)p->x + plane * cells_in(p) * all, *g = (const real *)p->g + plane * cells_out(p) * all + c0;
    real *out = (real *)p->out + plane * cells_in(p) * all + c0;
    FN(zero_pixels)(out + first * all, last - first, channels, all);
    for (ptrdiff_t n = 0; n < p->tiles; n++) {
        pool_tile t = tile_of(p, chunk * p->tiles + n);
        if (t.o > hi[2] || t.o + t.outputs <= lo[2])
            continue;
        FN(max_tile)(p, &t, &s);
        for (ptrdiff_t od = lo[0]; od <= hi[0]; od++)
            for (ptrdiff_t oh = lo[1]; oh <= hi[1]; oh++) {
                FN(max_row)(p, &t, &s, x, od, oh, s.value, (char *)s.index, 8, channels);
                const real *from = g + ((od * p->h.out + oh) * p->w.out + t.o) * all;
                for (ptrdiff_t o = 0; o < t.outputs; o++)
                    for (ptrdiff_t c = 0; c < channels; c++) {
                        int64_t at = s.index[o * channels + c];
                        if (at >= first && at < last)
                            out[at * all + c] += from[o * all + c];
                    }
            }
    }
}

FUNC void FN(max_pool_backward)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    for (ptrdiff_t u = lo; u < hi; u++)
        FN(max_pool_backward_part)(p, u, memory);
}

/* the gradient from indices (int64), added up in the outputs' order */
FUNC void FN(max_pool_scatter)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    (void)memory;
    ptrdiff_t all = p->channels;
    for (ptrdiff_t u = lo; u < hi; u++) {
        ptrdiff_t plane = u / p->chunks, c0 = u % p->chunks * p->chunk, channels = least(p->chunk, all - c0);
        const real *g = (const real *)p->g + plane * cells_out(p) * all + c0;
        const int64_t *index = (const int64_t *)p->index + plane * cells_out(p) * all + c0;
        real *out = (real *)p->out + plane * cells_in(p) * all + c0;
        FN(zero_pixels)(out, cells_in(p), channels, all);
        if (all == 1)
            for (ptrdiff_t o = 0; o < cells_out(p); o++)
                out[index[o]] += g[o];
        else
            for (ptrdiff_t o = 0; o < cells_out(p); o++)
                for (ptrdiff_t c = 0; c < channels; c++)
                    out[index[o * all + c] * all + c] += g[o * all + c];
    }
}

#undef BETTER
#undef BY_ROWS
#undef NO_ROW
