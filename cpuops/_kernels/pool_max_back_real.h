/* pool_max_back_real.h: the gradient of max pooling, from x alone and from indices. Included by pool.h only, after
 * pool_max_real.h, whose rows it searches for the maxima.
 */

/* ---- gathered: a cell adds up the gradients of those outputs that hold it and whose maximum it is, by comparing, in the
 * order of the outputs. The places of the maxima stand in a ring of rows of output, as distances from their windows' corners. */

typedef struct {
    const inum *found; /* of a row of output, */
    const real *g;     /* its gradients, */
    inum code;         /* and which distance from the corner the cell has */
} FN(source);

INLINE vec FN(add_where)(vec sum, const FN(source) *s, ptrdiff_t i)
{
    return sum + vsel(iveq(ivload(s->found + i), ivset(s->code)), vload(s->g + i), vzero());
}

/* ring slots: p->far places of no output on either side of the row, and as many as a vector may touch */
INLINE ptrdiff_t FN(slot)(const pool_plan *p, ptrdiff_t oh) { return (oh & (p->ring - 1)) * p->slot + p->far; }

/* whether the indices of n channels lie in their window, and found: their distances from its corner. Its rows, `code` cells
 * apart, have `counted` columns inside x, from `low` on */
INLINE int FN(find)(const int64_t *index, ptrdiff_t n, ptrdiff_t corner, ptrdiff_t low, ptrdiff_t counted, ptrdiff_t taps, ptrdiff_t code,
                    inum *found)
{
    vmask all = veq(vzero(), vzero());
    for (ptrdiff_t i = 0; i < n; i++)
        found[i] = (inum)(index[i] - corner);
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        ivec at = ivload(found + i) - ivset((inum)low);
        vmask inside = vge(viota(), vset((real)(n - i)));
        for (ptrdiff_t k = 0; k < taps; k++) {
            inside = mor(inside, mand(mnot(ivlt(at, ivset(0))), ivlt(at, ivset((inum)counted))));
            at -= ivset((inum)code);
        }
        all = mand(all, inside);
    }
    return mall(all);
}

/* the row oh of the ring: from indices or, where these are none, by search; 0: an index lies outside its window */
static int FN(find_row)(const pool_plan *p, const pool_tile *t, FN(max_scratch) *s, const real *x, const int64_t *index, const real *g,
                        ptrdiff_t oh)
{
    ptrdiff_t n = t->channels, all = p->channels, cells = t->outputs * n;
    s->found = s->ring + FN(slot)(p, oh);
    if (index) {
        pool_window wh = window(&p->h, oh);
        for (ptrdiff_t o = 0; o < t->outputs; o++) {
            ptrdiff_t column = o * p->w.stride - p->w.before;
            if (!FN(find)(index + (oh * p->w.out + o) * all, n, wh.first * p->w.in + column, s->inside[o].first - column, s->inside[o].taps,
                          wh.taps, p->w.in, s->found + o * n))
                return 0;
        }
    } else
        FN(max_row)(p, t, s, x, 0, oh, s->value, 1, n);
    if (p->by_pixel)
        return 1;
    for (ptrdiff_t i = 0; i < p->far + 2 * LANES; i++)
        s->found[cells + i] = NOWHERE;
    memcpy(s->gradients + FN(slot)(p, oh), g + oh * p->w.out * all, (size_t)cells * sizeof(real));
    return 1;
}

/* the sources of row h: outputs' rows that hold it; `code` is that of the window's column 0 */
static ptrdiff_t FN(rows_holding)(const pool_plan *p, const FN(max_scratch) *s, ptrdiff_t h, const real *g, FN(source) *rows, inum *codes)
{
    ptrdiff_t lo, hi, n = 0;
    cover(&p->h, h, &lo, &hi);
    for (ptrdiff_t oh = lo; oh <= hi; oh++)
        if (holds(&p->h, oh, h)) {
            rows[n].found = s->ring + FN(slot)(p, oh);
            rows[n].g = p->by_pixel ? g + oh * p->w.out * p->channels : s->gradients + FN(slot)(p, oh);
            codes[n++] = (inum)((h - window(&p->h, oh).first) * p->w.in);
        }
    return n;
}

/* many channels: pixel by pixel */
FUNC void FN(gather_pixels)(const pool_plan *p, const pool_tile *t, const FN(max_scratch) *s, const FN(source) *rows, const inum *codes,
                            ptrdiff_t nrows, real *out)
{
    ptrdiff_t n = t->channels, all = p->channels;
    for (ptrdiff_t w = 0; w < p->w.in; w++, out += all) {
        FN(source) from[MOST_GATHERED];
        ptrdiff_t sources = 0, c = 0;
        for (ptrdiff_t r = 0; r < nrows; r++)
            for (ptrdiff_t o = s->holders[w].first; o < s->holders[w].first + s->holders[w].taps; o++)
                if (holds(&p->w, o, w)) {
                    from[sources].found = rows[r].found + o * n;
                    from[sources].g = rows[r].g + o * all;
                    from[sources++].code = (inum)(codes[r] + w + p->w.before - o * p->w.stride);
                }
        for (; c + 4 * LANES <= n; c += 4 * LANES) {
            vec sum[4] = {vzero(), vzero(), vzero(), vzero()};
            for (ptrdiff_t i = 0; i < sources; i++)
                for (int k = 0; k < 4; k++)
                    sum[k] = FN(add_where)(sum[k], from + i, c + k * LANES);
            for (int k = 0; k < 4; k++)
                vstore(out + c + k * LANES, sum[k]);
        }
        for (; c < n; c += LANES) {
            ptrdiff_t at = least(c, n - LANES); /* n >= LANES */
            vec sum = vzero();
            for (ptrdiff_t i = 0; i < sources; i++)
                sum = FN(add_where)(sum, from + i, at);
            vstore(out + at, sum);
        }
    }
}

/* the sources of one phase, in the order of the outputs; they begin at place `at` of it */
static ptrdiff_t FN(phase_sources)(const FN(max_scratch) *s, ptrdiff_t f, ptrdiff_t at, const FN(source) *rows, const inum *codes,
                                   ptrdiff_t nrows, FN(source) *from)
{
    ptrdiff_t n = 0;
    for (ptrdiff_t r = 0; r < nrows; r++)
        for (ptrdiff_t j = s->starts[f]; j < s->starts[f + 1]; j++) {
            from[n].found = rows[r].found + at - s->tap_shifts[j];
            from[n].g = rows[r].g + at - s->tap_shifts[j];
            from[n++].code = codes[r] + s->tap_codes[j];
        }
    return n;
}

INLINE void FN(gather_two)(const FN(source) *from, ptrdiff_t sources, ptrdiff_t i, vec *a, vec *b)
{
    *a = *b = vzero();
    for (ptrdiff_t j = 0; j < sources; j++) {
        *a = FN(add_where)(*a, from + j, i);
        *b = FN(add_where)(*b, from + j, i + LANES);
    }
}

/* few channels: a phase at a time */
FUNC void FN(gather_phases)(const pool_plan *p, const pool_tile *t, const FN(max_scratch) *s, const FN(source) *rows, const inum *codes,
                            ptrdiff_t nrows, real *out)
{
    ptrdiff_t n = t->channels, all = p->channels, reached = t->hi - t->lo;
    FN(source) from[2][MOST_GATHERED];
    if (p->phases == 2 && n == 1) {
        ptrdiff_t sources[2];
        for (ptrdiff_t f = 0; f < 2; f++)
            sources[f] = FN(phase_sources)(s, (t->lo + f) & 1, (t->lo + f) >> 1, rows, codes, nrows, from[f]);
        for (ptrdiff_t i = 0; i < reached; i += 4 * LANES) {
            vec even[2], odd[2], v[4];
            FN(gather_two)(from[0], sources[0], i / 2, even, even + 1);
            FN(gather_two)(from[1], sources[1], i / 2, odd, odd + 1);
            vzip(even[0], odd[0], v, v + 1);
            vzip(even[1], odd[1], v + 2, v + 3);
            for (int k = 0; k < 4; k++)
                FN(store_some)(out + i + k * LANES, v[k], reached - i - k * LANES);
        }
    } else
        for (ptrdiff_t f = 0; f < p->phases; f++) {
            /* cells that stand in phase f */
            ptrdiff_t i = (f - t->lo % p->phases + p->phases) % p->phases, here = reached > i ? ceil_div(reached - i, p->phases) : 0;
            ptrdiff_t sources = FN(phase_sources)(s, f, (t->lo + i) / p->phases * n, rows, codes, nrows, from[0]);
            real *to = p->phases == 1 && n == all ? out : s->line;
            for (ptrdiff_t j = 0; j < here * n; j += 2 * LANES) {
                vec a, b;
                FN(gather_two)(from[0], sources, j, &a, &b);
                FN(store_some)(to + j, a, here * n - j);
                FN(store_some)(to + j + LANES, b, here * n - j - LANES);
            }
            if (to != out)
                for (ptrdiff_t j = 0; j < here; j++)
                    for (ptrdiff_t c = 0; c < n; c++)
                        out[(i + j * p->phases) * all + c] = to[j * n + c];
        }
    FN(zero_pixels)(out + reached * all, p->w.in - reached, n, all);
}

/* what the rows of a plane share */
static void FN(gather_tile)(const pool_plan *p, const pool_tile *t, FN(max_scratch) *s)
{
    ptrdiff_t taps = 0, last;
    for (ptrdiff_t o = 0; o < t->outputs; o++)
        s->inside[o] = window(&p->w, o);
    for (ptrdiff_t w = 0; p->by_pixel && w < p->w.in; w++) {
        cover(&p->w, w, &s->holders[w].first, &last);
        s->holders[w].taps = last + 1 - s->holders[w].first;
    }
    for (ptrdiff_t f = 0; f < p->phases && !p->by_pixel; f++) {
        s->starts[f] = taps;
        for (ptrdiff_t j = p->w.kernel - 1; j >= 0; j--) /* so that a cell's sum has the order of the outputs */
            if (j * p->w.dilation % p->phases == f) {
                s->tap_shifts[taps] = j * p->w.dilation / p->phases * t->channels;
                s->tap_codes[taps++] = (inum)(j * p->w.dilation);
            }
        s->starts[f + 1] = taps;
    }
    for (ptrdiff_t i = 0; i < p->ring * p->slot; i++)
        s->ring[i] = NOWHERE;
}

/* rows first..last-1 of a plane of out; 0: an index lies outside its window */
static int FN(gather_plane)(const pool_plan *p, const pool_tile *t, FN(max_scratch) *s, const real *x, const int64_t *index, const real *g,
                            ptrdiff_t first, ptrdiff_t last, real *out)
{
    ptrdiff_t made, hi, bottom, unused;
    FN(source) rows[MOST_GATHERED];
    inum codes[MOST_GATHERED];
    cover(&p->h, first, &made, &unused);
    cover(&p->h, last - 1, &unused, &bottom);
    for (ptrdiff_t h = first; h < last; h++) {
        real *row = out + h * p->w.in * p->channels;
        cover(&p->h, h, &unused, &hi);
        /* several rows ahead: what was written just now in other vectors than it is read in makes the reader wait */
        for (ptrdiff_t end = made <= hi ? least(bottom, hi + p->ahead) : 0; made <= end; made++)
            if (!FN(find_row)(p, t, s, x, index, g, made))
                return 0;
        ptrdiff_t n = FN(rows_holding)(p, s, h, g, rows, codes);
        if (n == 0)
            FN(zero_pixels)(row, p->w.in, t->channels, p->channels);
        else if (p->by_pixel)
            FN(gather_pixels)(p, t, s, rows, codes, n, row);
        else
            FN(gather_phases)(p, t, s, rows, codes, n, row);
    }
    return 1;
}

/* one part of a plane of out, cell by cell: zeroed, then the windows that touch it are searched in their order, and each adds
 * its gradient at its maximum if that lies in the part */
static void FN(spread_part)(const pool_plan *p, ptrdiff_t chunk, FN(max_scratch) *s, const real *x, const real *g, int cut,
                            ptrdiff_t first, ptrdiff_t last, real *out)
{
    const pool_axis *axes[3] = {&p->d, &p->h, &p->w};
    ptrdiff_t lo[3] = {0, 0, 0}, hi[3] = {p->d.out - 1, p->h.out - 1, p->w.out - 1}, all = p->channels, unused;
    cover(axes[cut], first, &lo[cut], &unused);
    cover(axes[cut], last - 1, &unused, &hi[cut]);
    /* from here on in cells: the axes before the one that is cut have length 1 */
    first *= cells_in(p) / axes[cut]->in;
    last *= cells_in(p) / axes[cut]->in;
    FN(zero_pixels)(out + first * all, last - first, least(p->chunk, all - chunk * p->chunk), all);
    for (ptrdiff_t n = 0; n < p->tiles; n++) {
        pool_tile t = tile_of(p, chunk * p->tiles + n);
        if (t.o > hi[2] || t.o + t.outputs <= lo[2])
            continue;
        FN(max_tile)(p, &t, s);
        for (ptrdiff_t od = lo[0]; od <= hi[0]; od++)
            for (ptrdiff_t oh = lo[1]; oh <= hi[1]; oh++) {
                FN(max_row)(p, &t, s, x, od, oh, s->value, 1, t.channels);
                FN(indices_of)(p, &t, s, s->index, 0, t.channels);
                const real *from = g + ((od * p->h.out + oh) * p->w.out + t.o) * all;
                if (all == 1 && p->parts == 1) {
                    for (ptrdiff_t o = 0; o < t.outputs; o++)
                        out[s->index[o]] += from[o];
                    continue;
                }
                for (ptrdiff_t o = 0; o < t.outputs; o++)
                    for (ptrdiff_t c = 0; c < t.channels; c++) {
                        int64_t at = s->index[o * t.channels + c];
                        if (at >= first && at < last)
                            out[at * all + c] += from[o * all + c];
                    }
            }
    }
}

/* the rows lo..hi-1, along D and H, of a plane of out that lie in a window, whose maxima are in s->found */
static void FN(write_pairs)(const pool_plan *p, const pool_tile *t, const FN(max_scratch) *s, pool_window wd, pool_window wh, const real *g, const ptrdiff_t *lo,
                            const ptrdiff_t *hi, real *out)
{
    ptrdiff_t end = t->o + t->outputs == p->w.out ? p->w.in : 2 * (t->o + t->outputs);
    for (ptrdiff_t d = most(wd.first, lo[0]); d < least(wd.first + wd.taps, hi[0]); d++)
        for (ptrdiff_t h = most(wh.first, lo[1]); h < least(wh.first + wh.taps, hi[1]); h++) {
            real *row = out + (d * p->h.in + h) * p->w.in + 2 * t->o;
            inum code = (inum)(((d - wd.first) * p->h.in + (h - wh.first)) * p->w.in);
            for (ptrdiff_t i = 0; i < t->outputs; i += LANES) {
                ptrdiff_t n = least(LANES, t->outputs - i);
                ivec place = ivload(s->found + i);
                vec from = n < LANES ? vload_n(g + i, n) : vload(g + i), a, b;
                vzip(vzero() + vsel(iveq(place, ivset(code)), from, vzero()), vzero() + vsel(iveq(place, ivset(code + 1)), from, vzero()), &a, &b);
                FN(store_some)(row + 2 * i, a, 2 * n);
                FN(store_some)(row + 2 * i + LANES, b, 2 * n - LANES);
            }
            FN(zero_pixels)(row + 2 * t->outputs, end - 2 * (t->o + t->outputs), 1, 1);
        }
}

/* the same of windows whose rows are all in the part: found and written in one go; out: like r->x */
INLINE void FN(spread_pairs_of)(const FN(max_rows) *r, ptrdiff_t nd, ptrdiff_t nh, const real *g, ptrdiff_t n, real *out)
{
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        ptrdiff_t cells = 2 * (n - i);
        ivec place;
        FN(pairs_top)(r, nd, nh, i, cells, 1, &place);
        vec from = n - i < LANES ? vload_n(g + i, n - i) : vload(g + i), a, b;
        for (ptrdiff_t d = 0; d < nd; d++)
            for (ptrdiff_t h = 0; h < nh; h++) {
                real *to = out + 2 * i + d * r->step_d + h * r->step_h;
                ivec code = ivset((inum)(d * r->code_d + h * r->code_h));
                vzip(vzero() + vsel(iveq(place, code), from, vzero()), vzero() + vsel(iveq(place, code + 1), from, vzero()), &a, &b);
                FN(store_some)(to, a, cells);
                FN(store_some)(to + LANES, b, cells - LANES);
            }
    }
}

FUNC void FN(spread_whole_pairs)(const FN(max_rows) *r, const real *g, ptrdiff_t n, real *out)
{
#define CALL(nd, nh) FN(spread_pairs_of)(r, nd, nh, g, n, out)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

/* the window that holds row i of a part that begins at `first`; -1: none does, or one whose rows before i are in the part too */
INLINE ptrdiff_t FN(window_from)(const pool_axis *a, ptrdiff_t i, ptrdiff_t first, int *held)
{
    ptrdiff_t lo, hi;
    cover(a, i, &lo, &hi);
    *held = lo <= hi;
    return *held && most(window(a, lo).first, first) == i ? lo : -1;
}

/* one part of a plane of out, windows of pairs apart from each other: each writes its cells, and what is in none is zeroed */
static void FN(spread_pairs)(const pool_plan *p, FN(max_scratch) *s, const real *x, const real *g, int cut, ptrdiff_t first, ptrdiff_t last, real *out)
{
    ptrdiff_t lo[2] = {0, 0}, hi[2] = {p->d.in, p->h.in};
    if (cut < 2) {
        lo[cut] = first;
        hi[cut] = last;
    }
    for (ptrdiff_t n = 0; n < p->tiles; n++) {
        pool_tile t = tile_of(p, n);
        FN(max_tile)(p, &t, s);
        for (ptrdiff_t d = lo[0]; d < hi[0]; d++) {
            int in_d, in_h;
            ptrdiff_t od = FN(window_from)(&p->d, d, lo[0], &in_d);
            for (ptrdiff_t h = lo[1]; h < hi[1]; h++) {
                ptrdiff_t oh = FN(window_from)(&p->h, h, lo[1], &in_h);
                if (n == 0 && !(in_d && in_h))
                    FN(zero_pixels)(out + (d * p->h.in + h) * p->w.in, p->w.in, 1, 1);
                if (od < 0 || oh < 0)
                    continue;
                pool_window wd = window(&p->d, od), wh = window(&p->h, oh);
                const real *from = g + (od * p->h.out + oh) * p->w.out + t.o;
                if (t.outputs * 2 == p->w.in && wd.first >= lo[0] && wd.first + wd.taps <= hi[0] && wh.first >= lo[1] && wh.first + wh.taps <= hi[1]) {
                    FN(max_rows) r = FN(rows_at)(p, &t, s, x, od, oh);
                    FN(spread_whole_pairs)(&r, from, t.outputs, out + (r.x - x));
                    continue;
                }
                FN(max_row)(p, &t, s, x, od, oh, s->value, 1, 1);
                FN(write_pairs)(p, &t, s, wd, wh, from, lo, hi, out);
            }
        }
    }
}

/* units lo..hi-1 of the gradient from x alone; each writes its own part of out */
FUNC void FN(max_planes_back)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    FN(max_scratch) s = {0};
    FN(strip) strip;
    if (p->strips)
        strip = FN(strip_in)(p, memory);
    else if (!p->patches)
        s = FN(max_scratch_of)(p, memory);
    ptrdiff_t all = p->channels;
    int cut = p->d.in > 1 ? 0 : p->h.in > 1 ? 1 : 2;
    for (ptrdiff_t u = lo; u < hi; u++) {
        ptrdiff_t plane = u / p->parts / p->chunks, chunk = u / p->parts % p->chunks, c = chunk * p->chunk;
        ptrdiff_t first = u % p->parts * p->part, last = least(first + p->part, (cut == 0 ? &p->d : cut == 1 ? &p->h : &p->w)->in);
        const real *x = (const real *)p->x + plane * cells_in(p) * all, *g = (const real *)p->g + plane * cells_out(p) * all + c;
        real *out = (real *)p->out + plane * cells_in(p) * all + c;
        if (p->strips) {
            FN(strip_plane)(&strip, x, g, cut == 1 ? first : 0, cut == 1 ? last : 1, out);
        } else if (p->patches) {
            FN(patches)(p, least(p->chunk, all - c), x + c, g, cut, first, last, out);
        } else if (p->apart) {
            FN(spread_pairs)(p, &s, x, g, cut, first, last, out);
        } else if (p->gathered) {
            pool_tile t = tile_of(p, chunk);
            if (u == lo || p->chunks > 1) {
                FN(max_tile)(p, &t, &s);
                FN(gather_tile)(p, &t, &s);
            }
            FN(gather_plane)(p, &t, &s, x, 0, g, cut == 1 ? first : 0, cut == 1 ? last : p->h.in, out);
        } else
            FN(spread_part)(p, chunk, &s, x, g, cut, first, last, out);
    }
}

/* out[index] += g along a plane, and the same of ABREAST planes at once: neighbours often share their maximum, and one plane's
 * additions to it would wait for each other */
INLINE void FN(scatter_planes)(const real *g, const int64_t *index, ptrdiff_t outputs, ptrdiff_t cells, int planes, real *out)
{
    for (ptrdiff_t o = 0; o < outputs; o++) {
        ptrdiff_t at[ABREAST];
        real v[ABREAST];
        for (int k = 0; k < planes; k++) {
            at[k] = k * cells + index[k * outputs + o];
            v[k] = g[k * outputs + o];
        }
        for (int k = 0; k < planes; k++)
            out[at[k]] += v[k];
    }
}

FUNC void FN(scatter)(const real *g, const int64_t *index, ptrdiff_t outputs, ptrdiff_t cells, ptrdiff_t planes, real *out)
{
    memset(out, 0, (size_t)(planes * cells) * sizeof(real));
    if (planes == ABREAST)
        FN(scatter_planes)(g, index, outputs, cells, ABREAST, out);
    else
        for (ptrdiff_t k = 0; k < planes; k++)
            FN(scatter_planes)(g + k * outputs, index + k * outputs, outputs, cells, 1, out + k * cells);
}

/* units lo..hi-1 of the gradient from indices (int64), which need not be those of a forward */
FUNC void FN(scatter_planes_back)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory)
{
    ptrdiff_t all = p->channels, cells = cells_in(p), outputs = cells_out(p);
    FN(max_scratch) s = {0};
    if (p->gathered)
        s = FN(max_scratch_of)(p, memory);
    for (ptrdiff_t u = lo; u < hi; u++) {
        ptrdiff_t plane = u / p->chunks * p->abreast, chunk = u % p->chunks, c0 = chunk * p->chunk, channels = least(p->chunk, all - c0);
        const real *g = (const real *)p->g + plane * outputs * all + c0;
        const int64_t *index = (const int64_t *)p->index + plane * outputs * all + c0;
        real *out = (real *)p->out + plane * cells * all + c0;
        if (p->gathered) {
            pool_tile t = tile_of(p, chunk);
            if (u == lo || p->chunks > 1)
                FN(gather_tile)(p, &t, &s);
            if (FN(gather_plane)(p, &t, &s, 0, index, g, 0, p->h.in, out))
                continue;
        }
        if (all == 1) {
            FN(scatter)(g, index, outputs, cells, least(p->abreast, p->planes - plane), out);
            continue;
        }
        FN(zero_pixels)(out, cells, channels, all);
        for (ptrdiff_t o = 0; o < outputs; o++)
            for (ptrdiff_t c = 0; c < channels; c++)
                out[index[o * all + c] * all + c] += g[o * all + c];
    }
}
