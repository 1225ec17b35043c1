/* pool_max_fold_real.h: maxima of rows, runs, pairs, single pixels and segments. Included by pool.h only, which tells what these
 * are; what is a maximum: pool_max_real.h. */

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

/* n cells of a line dealt to four phases, the first one to place `first`; what is behind them becomes padding */
static void FN(deal_four)(const pool_plan *p, real *line, inum *codes, ptrdiff_t n, ptrdiff_t first, int indexed, real *phases, inum *phase_codes)
{
    for (ptrdiff_t i = n; i < n + 4 * LANES; i++) {
        line[i] = -(real)INFINITY;
        codes[i] = NO_ROW;
    }
    for (ptrdiff_t i = 0; i < n; i += 4 * LANES) {
        vec v[4], c[4];
        vdeal_four(line + i, v);
        if (indexed)
            vdeal_four((const real *)(codes + i), c);
        for (int k = 0; k < 4; k++) {
            ptrdiff_t to = place_of(p, first + k, 1) + i / 4;
            vstore(phases + to, v[k]);
            if (indexed)
                ivstore(phase_codes + to, (ivec)c[k]);
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

/* ---- pairs: n windows of cells 2i and 2i + 1 along W, without a line; found: as of runs */

/* of windows i.., of which `cells` cells are left in a row */
INLINE vec FN(pairs_top)(const FN(max_rows) *r, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t i, ptrdiff_t cells, int indexed, ivec *place)
{
    vec best = vzero();
    *place = ivset(0);
    for (ptrdiff_t d = 0; d < nd; d++)
        for (ptrdiff_t h = 0; h < nh; h++) {
            const real *at = r->x + 2 * i + d * r->step_d + h * r->step_h;
            inum code = (inum)(d * r->code_d + h * r->code_h);
            vec even, odd;
            if (cells >= 2 * LANES)
                vdeal(vload(at), vload(at + LANES), &even, &odd);
            else
                vdeal(vload_n(at, least(cells, LANES)), cells > LANES ? vload_n(at + LANES, cells - LANES) : vzero(), &even, &odd);
            if (!indexed) {
                even = vmax(odd, even);
                best = d == 0 && h == 0 ? even : vmax(even, best);
                continue;
            }
            vmask keep = KEEPS(even, best);
            best = d == 0 && h == 0 ? even : vsel(keep, best, even);
            *place = d == 0 && h == 0 ? *place : ivsel(keep, *place, ivset(code));
            keep = KEEPS(odd, best);
            best = vsel(keep, best, odd);
            *place = ivsel(keep, *place, ivset(code + 1));
        }
    return best;
}

INLINE void FN(fold_pairs)(const FN(max_rows) *r, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t n, real *out, inum *found, int indexed)
{
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        ivec place;
        FN(store_some)(out + i, FN(pairs_top)(r, nd, nh, i, 2 * (n - i), indexed, &place), n - i);
        if (indexed)
            ivstore(found + i, place);
    }
}

FUNC void FN(max_pairs)(const FN(max_rows) *r, ptrdiff_t n, real *out)
{
#define CALL(nd, nh) FN(fold_pairs)(r, nd, nh, n, out, 0, 0)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

FUNC void FN(argmax_pairs)(const FN(max_rows) *r, ptrdiff_t n, real *out, inum *found)
{
#define CALL(nd, nh) FN(fold_pairs)(r, nd, nh, n, out, found, 1)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}
