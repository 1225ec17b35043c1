/* pool_whole_real.h: the one window that holds its whole plane, forward and gradients. Included by pool.h only.
 *
 * Channels first: a plane is a row of n cells, in vectors along it. Channels last: vectors along the channels of a chunk.
 */

/* cells i.. of a row of n, i < n; lanes behind its end hold `fill` */
INLINE vec FN(row_vector)(const real *x, ptrdiff_t i, ptrdiff_t n, real fill)
{
    return n - i >= LANES ? vload(x + i) : vsel(vlt(viota(), vset((real)(n - i))), vload_n(x + i, n - i), vset(fill));
}

INLINE real FN(row_top)(const real *x, ptrdiff_t n)
{
    vec top[4] = {FN(row_vector)(x, 0, n, -(real)INFINITY)};
    ptrdiff_t i = LANES;
    if (n >= 8 * LANES) {
        for (int k = 1; k < 4; k++)
            top[k] = vload(x + k * LANES);
        for (i = 4 * LANES; i + 4 * LANES <= n; i += 4 * LANES)
            for (int k = 0; k < 4; k++)
                top[k] = vmax(vload(x + i + k * LANES), top[k]);
        top[0] = vmax(vmax(top[0], top[1]), vmax(top[2], top[3]));
    }
    for (; i < n; i += LANES)
        top[0] = vmax(vload(x + least(i, n - LANES)), top[0]);
    return vhmax(top[0]);
}

/* the first cell that is `top`, NaN too; NOWHERE: there is none; in a short one without a branch that cannot be foretold */
INLINE ptrdiff_t FN(row_place)(const real *x, ptrdiff_t n, real top)
{
    vec all = vset(top);
    if (n >= LANES && n <= 64) {
        uint64_t at = 0;
        for (ptrdiff_t i = 0; i < n; i += LANES) {
            ptrdiff_t from = least(i, n - LANES);
            vec v = vload(x + from);
            at |= (uint64_t)mbits(top == top ? veq(v, all) : visnan(v)) << from;
        }
        return at ? __builtin_ctzll(at) : NOWHERE;
    }
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        vec v = FN(row_vector)(x, i, n, top == top ? (real)NAN : 0);
        int lane = mfirst(top == top ? veq(v, all) : visnan(v));
        if (lane < LANES)
            return i + lane;
    }
    return NOWHERE;
}

/* the maxima of n <= LANES rows, one behind the other */
INLINE void FN(rows_tops)(const real *x, ptrdiff_t cells, ptrdiff_t n, real *tops)
{
    if (cells >= LANES && cells <= MOST_ABREAST)
        FN(store_some)(tops, FN(row_tops)(x, cells, n), n);
    else
        for (ptrdiff_t i = 0; i < n; i++)
            tops[i] = FN(row_top)(x + i * cells, cells);
}

/* channels c.. of one pixel, as many as the vectors hold */
#define EACH(k) for (int k = 0; k < vectors; k++)

/* of channels c.. of `pixel` the maximum over the cells and, indexed, the first cell that is it; lanes: of the last vector */
INLINE void FN(channel_tops_of)(const real *x, ptrdiff_t cells, ptrdiff_t pixel, int vectors, ptrdiff_t lanes, int indexed, real *tops, inum *places)
{
    vec best[4];
    ivec place[4];
    EACH (k) {
        best[k] = lanes < LANES ? vload_n(x, lanes) : vload(x + k * LANES);
        place[k] = ivset(0);
    }
    for (ptrdiff_t i = 1; i < cells; i++)
        EACH (k) {
            const real *at = x + i * pixel + k * LANES;
            vec v = lanes < LANES ? vload_n(at, lanes) : vload(at);
            if (indexed) {
                vmask keep = mor(vle(v, best[k]), visnan(best[k]));
                best[k] = vsel(keep, best[k], v);
                place[k] = ivsel(keep, place[k], ivset((inum)i));
            } else
                best[k] = vmax(v, best[k]);
        }
    EACH (k) {
        if (lanes < LANES)
            vstore_n(tops, best[k], lanes);
        else
            vstore(tops + k * LANES, best[k]);
        if (indexed)
            ivstore(places + k * LANES, place[k]);
    }
}

FUNC void FN(channel_tops)(const real *x, ptrdiff_t cells, ptrdiff_t pixel, ptrdiff_t n, int indexed, real *tops, inum *places)
{
    for (ptrdiff_t c = 0, step; c < n; c += step) {
        step = n - c >= 4 * LANES ? 4 * LANES : LANES;
#define TOPS(vectors, lanes, indexed) FN(channel_tops_of)(x + c, cells, pixel, vectors, lanes, indexed, tops + c, places + c)
        if (n - c < LANES)
            TOPS(1, n - c, indexed);
        else if (step == LANES)
            TOPS(1, LANES, indexed);
        else if (indexed)
            TOPS(4, LANES, 1);
        else
            TOPS(4, LANES, 0);
#undef TOPS
    }
}

/* plane and channels of a unit */
typedef struct {
    ptrdiff_t plane, c, channels;
} FN(whole_unit);

INLINE FN(whole_unit) FN(whole_at)(const pool_plan *p, ptrdiff_t unit)
{
    FN(whole_unit) w;
    w.plane = quotient(unit, p->chunks);
    w.c = (unit - w.plane * p->chunks) * p->chunk;
    w.channels = least(p->chunk, p->channels - w.c);
    return w;
}

FUNC void FN(max_whole)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi)
{
    ptrdiff_t cells = cells_in(p), all = p->channels;
    inum places[MOST_CHUNK + SLACK];
    for (ptrdiff_t u = lo, n; all == 1 && u < hi; u += n) {
        const real *x = (const real *)p->x + u * cells;
        real *out = (real *)p->out + u;
        n = least(LANES, hi - u);
        FN(rows_tops)(x, cells, n, out);
        for (ptrdiff_t i = 0; p->index_size && i < n; i++, x += cells) {
            ptrdiff_t at = FN(row_place)(x, cells, out[i]);
            out[i] = x[at];
            put_index(p, u + i, at);
        }
    }
    for (ptrdiff_t u = lo; all > 1 && u < hi; u++) {
        FN(whole_unit) w = FN(whole_at)(p, u);
        const real *x = (const real *)p->x + w.plane * cells * all + w.c;
        ptrdiff_t to = w.plane * all + w.c;
        real *out = (real *)p->out + to;
        FN(channel_tops)(x, cells, all, w.channels, p->index_size != 0, out, places);
        for (ptrdiff_t c = 0; c < w.channels && p->index_size; c++)
            put_index(p, to + c, places[c]);
    }
}

FUNC void FN(max_whole_backward)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi)
{
    ptrdiff_t cells = cells_in(p), all = p->channels;
    real tops[MOST_CHUNK + SLACK];
    inum places[MOST_CHUNK + SLACK];
    if (all == 1)
        memset((real *)p->out + lo * cells, 0, (size_t)((hi - lo) * cells) * sizeof(real));
    for (ptrdiff_t u = lo; u < hi; u++) {
        FN(whole_unit) w = FN(whole_at)(p, u);
        const real *x = (const real *)p->x + w.plane * cells * all + w.c, *g = (const real *)p->g + w.plane * all + w.c;
        const int64_t *index = (const int64_t *)p->index + w.plane * all + w.c;
        real *out = (real *)p->out + w.plane * cells * all + w.c;
        if (all == 1) {
            if (!p->index && (u - lo) % LANES == 0)
                FN(rows_tops)(x, cells, least(LANES, hi - u), tops);
            out[p->index ? index[0] : FN(row_place)(x, cells, tops[(u - lo) % LANES])] += g[0];
            continue;
        }
        FN(zero_pixels)(out, cells, w.channels, all);
        if (!p->index)
            FN(channel_tops)(x, cells, all, w.channels, 1, tops, places);
        for (ptrdiff_t c = 0; c < w.channels; c++)
            out[(p->index ? index[c] : (int64_t)places[c]) * all + c] += g[c];
    }
}

/* ---- averages */

INLINE double FN(row_total)(const real *x, ptrdiff_t n)
{
    double total = 0;
    for (ptrdiff_t from = 0; from < n; from += LINE) {
        ptrdiff_t m = least(LINE, n - from), i = WLANES;
        wvec sum[4] = {m < WLANES ? vsel_f64(vlt_f64(viota_f64(), wset((double)m)), wload_n(x, m), wset(-0.0)) : wload(x), wset(-0.0), wset(-0.0), wset(-0.0)};
        for (; i + 4 * WLANES <= m; i += 4 * WLANES)
            for (int k = 0; k < 4; k++)
                sum[k] += wload(x + i + k * WLANES);
        for (; i + WLANES <= m; i += WLANES)
            sum[1] += wload(x + i);
        if (i < m)
            sum[2] += vsel_f64(vlt_f64(viota_f64(), wset((double)(m - i))), wload_n(x + i, m - i), wset(-0.0));
        double part = whsum((sum[0] + sum[1]) + (sum[2] + sum[3]));
        total = from ? total + part : part;
        x += m;
    }
    return total;
}

/* of channels c.. of `pixel` the sums over the cells, divided */
INLINE void FN(channel_means_of)(const real *x, ptrdiff_t cells, ptrdiff_t pixel, int vectors, ptrdiff_t lanes, double divisor, real *means)
{
    wvec total[4];
    for (ptrdiff_t from = 0; from < cells; from += LINE) {
        ptrdiff_t m = least(LINE, cells - from);
        wvec sum[4];
        EACH (k)
            sum[k] = lanes < WLANES ? wload_n(x, lanes) : wload(x + k * WLANES);
        for (ptrdiff_t i = 1; i < m; i++)
            EACH (k) {
                const real *at = x + i * pixel + k * WLANES;
                sum[k] += lanes < WLANES ? wload_n(at, lanes) : wload(at);
            }
        EACH (k)
            total[k] = from ? total[k] + sum[k] : sum[k];
        x += m * pixel;
    }
    EACH (k) {
        if (lanes < WLANES)
            wstore_n(means, total[k] / wset(divisor), lanes);
        else
            wstore(means + k * WLANES, total[k] / wset(divisor));
    }
}

FUNC void FN(avg_whole)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi)
{
    ptrdiff_t cells = cells_in(p), all = p->channels;
    double divisor = p->divisor != 0 ? p->divisor : (double)cells;
    int abreast = cells >= WLANES && cells <= MOST_ABREAST;
    for (ptrdiff_t u = lo; all == 1 && u < hi; u += WLANES) {
        const real *x = (const real *)p->x + u * cells;
        real *out = (real *)p->out + u;
        ptrdiff_t n = least(WLANES, hi - u);
        if (abreast)
            FN(wstore_some)(out, FN(row_sums)(x, cells, n) / wset(divisor), n);
        for (ptrdiff_t i = 0; !abreast && i < n; i++)
            out[i] = (real)(FN(row_total)(x + i * cells, cells) / divisor);
    }
    for (ptrdiff_t u = lo; all > 1 && u < hi; u++) {
        FN(whole_unit) w = FN(whole_at)(p, u);
        const real *x = (const real *)p->x + w.plane * cells * all + w.c;
        real *out = (real *)p->out + w.plane * all + w.c;
        for (ptrdiff_t c = 0, step; c < w.channels; c += step) {
            ptrdiff_t left = w.channels - c;
            step = left >= 4 * WLANES ? 4 * WLANES : WLANES;
            if (left < WLANES)
                FN(channel_means_of)(x + c, cells, all, 1, left, divisor, out + c);
            else if (step == WLANES)
                FN(channel_means_of)(x + c, cells, all, 1, WLANES, divisor, out + c);
            else
                FN(channel_means_of)(x + c, cells, all, 4, WLANES, divisor, out + c);
        }
    }
}

FUNC void FN(avg_whole_backward)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi)
{
    ptrdiff_t cells = cells_in(p), all = p->channels;
    double divisor = p->divisor != 0 ? p->divisor : (double)cells;
    for (ptrdiff_t u = lo; u < hi; u++) {
        FN(whole_unit) w = FN(whole_at)(p, u);
        const real *g = (const real *)p->g + w.plane * all + w.c;
        real *out = (real *)p->out + w.plane * cells * all + w.c;
        if (all == 1) {
            vec v = vset((real)((double)g[0] / divisor));
            for (ptrdiff_t i = 0; i < cells; i += LANES)
                if (cells < LANES)
                    vstore_n(out, v, cells);
                else
                    vstore(out + least(i, cells - LANES), v);
            continue;
        }
        for (ptrdiff_t c = 0; c < w.channels; c++)
            out[c] = (real)((double)g[c] / divisor);
        for (ptrdiff_t i = 1; i < cells; i++)
            memcpy(out + i * all, out, (size_t)w.channels * sizeof(real));
    }
}
#undef EACH
