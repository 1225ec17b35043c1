/* conv_winograd_real.h: the body of conv_winograd.h for one scalar type. */

/* ---- the transforms of one axis; m is a constant after inlining ---- */
#define WINOGRAD_A 0.75
#define WINOGRAD_B 1.5
#define WINOGRAD_AA (WINOGRAD_A * WINOGRAD_A)
#define WINOGRAD_BB (WINOGRAD_B * WINOGRAD_B)
#define WINOGRAD_NA (1 / (2 * WINOGRAD_AA * (WINOGRAD_AA - WINOGRAD_BB)))
#define WINOGRAD_NB (1 / (2 * WINOGRAD_BB * (WINOGRAD_BB - WINOGRAD_AA)))

/* B^T: n cells; row i holds the coefficients of the product of (x - p) over all points p but its own */
INLINE void FN(winograd_cells)(const int m, const vec *d, vec *r)
{
    if (m == 2) {
        r[0] = d[2] - d[0];
        r[1] = d[2] + d[1];
        r[2] = d[2] - d[1];
        r[3] = d[3] - d[1];
        return;
    }
    const vec a = vset((real)WINOGRAD_A), b = vset((real)WINOGRAD_B), aa = vset((real)WINOGRAD_AA), bb = vset((real)WINOGRAD_BB);
    const vec both = vset((real)(WINOGRAD_AA * WINOGRAD_BB)), sum = vset((real)(WINOGRAD_AA + WINOGRAD_BB));
    const vec t = vfnma(bb, d[2], d[4]), u = vfnma(bb, d[1], d[3]), v = vfnma(aa, d[2], d[4]), w = vfnma(aa, d[1], d[3]);
    r[0] = vfma(both, d[0], vfnma(sum, d[2], d[4]));
    r[1] = vfma(a, u, t);
    r[2] = vfnma(a, u, t);
    r[3] = vfma(b, w, v);
    r[4] = vfnma(b, w, v);
    r[5] = vfma(both, d[1], vfnma(sum, d[3], d[5]));
}

/* G: 3 weights; the polynomial at each point, divided by the product of the distances to the others */
INLINE void FN(winograd_weights)(const int m, const vec *g, vec *r)
{
    if (m == 2) {
        const vec half = vset((real)0.5), t = (g[0] + g[2]) * half, u = g[1] * half;
        r[0] = -g[0];
        r[1] = t + u;
        r[2] = t - u;
        r[3] = g[2];
        return;
    }
    const vec na = vset((real)WINOGRAD_NA), nb = vset((real)WINOGRAD_NB);
    const vec t = vfma(vset((real)WINOGRAD_AA), g[2], g[0]), u = vset((real)WINOGRAD_A) * g[1];
    const vec v = vfma(vset((real)WINOGRAD_BB), g[2], g[0]), w = vset((real)WINOGRAD_B) * g[1];
    r[0] = g[0] * vset((real)(1 / (WINOGRAD_AA * WINOGRAD_BB)));
    r[1] = (t + u) * na;
    r[2] = (t - u) * na;
    r[3] = (v + w) * nb;
    r[4] = (v - w) * nb;
    r[5] = g[2];
}

/* A^T: n products; the powers of each point */
INLINE void FN(winograd_outputs)(const int m, const vec *p, vec *r)
{
    const vec s = p[1] + p[2], t = p[1] - p[2];
    if (m == 2) {
        r[0] = p[0] + s;
        r[1] = t + p[3];
        return;
    }
    const vec a = vset((real)WINOGRAD_A), b = vset((real)WINOGRAD_B), aa = vset((real)WINOGRAD_AA), bb = vset((real)WINOGRAD_BB);
    const vec aaa = vset((real)(WINOGRAD_AA * WINOGRAD_A)), bbb = vset((real)(WINOGRAD_BB * WINOGRAD_B));
    const vec u = p[3] + p[4], v = p[3] - p[4];
    r[0] = p[0] + (s + u);
    r[1] = vfma(a, t, b * v);
    r[2] = vfma(aa, s, bb * u);
    r[3] = vfma(aaa, t, vfma(bbb, v, p[5]));
}

/* A: m gradients of outputs */
INLINE void FN(winograd_grads)(const int m, const vec *g, vec *r)
{
    if (m == 2) {
        r[0] = g[0];
        r[1] = g[0] + g[1];
        r[2] = g[0] - g[1];
        r[3] = g[1];
        return;
    }
    const vec a = vset((real)WINOGRAD_A), b = vset((real)WINOGRAD_B), aa = vset((real)WINOGRAD_AA), bb = vset((real)WINOGRAD_BB);
    const vec aaa = vset((real)(WINOGRAD_AA * WINOGRAD_A)), bbb = vset((real)(WINOGRAD_BB * WINOGRAD_B));
    const vec s = vfma(aa, g[2], g[0]), t = vfma(aaa, g[3], a * g[1]), u = vfma(bb, g[2], g[0]), v = vfma(bbb, g[3], b * g[1]);
    r[0] = g[0];
    r[1] = s + t;
    r[2] = s - t;
    r[3] = u + v;
    r[4] = u - v;
    r[5] = g[3];
}

/* ---- runs: tiles side by side in one image ---- */
typedef struct {
    ptrdiff_t image, y, x, count; /* the first tile's place, in tiles */
} FN(winograd_run);

/* the run that begins with tile t, of at most `left` tiles: the row of tiles in equal parts */
INLINE FN(winograd_run) FN(winograd_find)(const conv_tiles *d, ptrdiff_t t, ptrdiff_t left)
{
    const ptrdiff_t parts = conv_ceil(d->across, CONV_WINOGRAD_RUN), most = conv_ceil(d->across, parts);
    FN(winograd_run) r;
    r.x = conv_split(&t, d->across), r.y = conv_split(&t, d->down), r.image = t;
    r.count = conv_min(left, conv_min(d->across, (r.x / most + 1) * most) - r.x);
    return r;
}

/* ---- cells ---- */

/* one row of cells of nc channels from c0 on to lanes, `apart` elements from one cell to the next; 0 over padding */
INLINE void FN(winograd_row)(const conv_job *j, const real *in, ptrdiff_t iy, ptrdiff_t ix, ptrdiff_t count, ptrdiff_t nc, real *to,
                             const ptrdiff_t apart)
{
    const ptrdiff_t first = conv_min(count, ix < 0 ? -ix : 0);
    ptrdiff_t end = conv_min(count, j->in[2] - ix);
    if (iy < 0 || iy >= j->in[1] || end < first)
        end = first;
    for (ptrdiff_t x = 0; x < first; x++)
        vstore(to + x * apart, vzero());
    for (ptrdiff_t x = end; x < count; x++)
        vstore(to + x * apart, vzero());
    if (end == first)
        return;
    const real *from = in + iy * j->in_axis[1] + (ix + first) * j->in_axis[2];
    to += first * apart;
    const ptrdiff_t n = end - first;
    if (j->in_channel == 1 && nc == LANES)
        for (ptrdiff_t x = 0; x < n; x++)
            vstore(to + x * apart, vload(from + x * j->in_axis[2]));
    else if (j->in_channel == 1)
        for (ptrdiff_t x = 0; x < n; x++)
            vstore(to + x * apart, vload_n(from + x * j->in_axis[2], nc));
    else
        for (ptrdiff_t x = 0; x < n; x += LANES)
            FN(transpose_tile)(from + x, j->in_channel, nc, n - x, to + x * apart, apart);
}

/* a vector of channels c0... of tiles t0..t0+count-1 to their place in plane 0; `grads`: tiles of m x m gradients of outputs */
INLINE void FN(winograd_cells_of)(const int m, const int grads, const conv_tiles *d, ptrdiff_t t0, ptrdiff_t count,
                                  ptrdiff_t c0, real *cells)
{
    const int n = m + 2, side = grads ? m : n;
    const conv_job *j = d->job;
    const ptrdiff_t nc = conv_min(LANES, j->channels - c0);
    real band[(CONV_WINOGRAD_RUN * 4 + 2) * 6 * LANES] __attribute__((aligned(64)));
    for (ptrdiff_t t = 0; t < count;) {
        const FN(winograd_run) r = FN(winograd_find)(d, t0 + t, count - t);
        const real *in = (const real *)d->in + r.image * j->in_batch + c0 * j->in_channel;
        const ptrdiff_t width = r.count * m + side - m;
        for (ptrdiff_t i = 0; i < side; i++)
            FN(winograd_row)(j, in, r.y * m + i + j->off[1], r.x * m + j->off[2], width, nc, band + i * LANES, n * LANES);
        for (ptrdiff_t x = 0; x < width; x++) {
            real *column = band + x * n * LANES;
            vec a[6], b[6];
#pragma GCC unroll 6
            for (int i = 0; i < side; i++)
                a[i] = vload(column + i * LANES);
            (grads ? FN(winograd_grads) : FN(winograd_cells))(m, a, b);
#pragma GCC unroll 6
            for (int i = 0; i < n; i++)
                vstore(column + i * LANES, b[i]);
        }
        for (ptrdiff_t k = 0; k < r.count; k++) {
            const real *from = band + k * m * n * LANES;
            real *to = cells + (t + k) * d->row;
            for (int i = 0; i < n; i++) {
                vec a[6], b[6];
#pragma GCC unroll 6
                for (int x = 0; x < side; x++)
                    a[x] = vload(from + (x * n + i) * LANES);
                (grads ? FN(winograd_grads) : FN(winograd_cells))(m, a, b);
#pragma GCC unroll 6
                for (int x = 0; x < n; x++)
                    vstore(to + (i * n + x) * d->plane, b[x]);
            }
        }
        t += r.count;
    }
}
#define WINOGRAD_FILL(name, m, grads)                                                                                    \
    FUNC void FN(name##_##m)(const conv_tiles *d, ptrdiff_t t0, ptrdiff_t count, ptrdiff_t c0, real *cells)              \
    {                                                                                                                    \
        FN(winograd_cells_of)(m, grads, d, t0, count, c0, cells);                                                        \
    }
WINOGRAD_FILL(winograd_cells, 2, 0)
WINOGRAD_FILL(winograd_cells, 4, 0)
WINOGRAD_FILL(winograd_grads, 2, 1)
WINOGRAD_FILL(winograd_grads, 4, 1)
#undef WINOGRAD_FILL

/* ---- weights ---- */

/* channels c0..c0+nc-1 of a vector of outputs m0... to [channel][tap][outputs]; outputs beyond the last are 0. Returns whether the
 * taps are in reverse */
FUNC int FN(winograd_read_weights)(const conv_job *j, const real *w, ptrdiff_t m0, ptrdiff_t c0, ptrdiff_t nc, real *to)
{
    const ptrdiff_t nm = conv_min(LANES, j->outputs - m0), y = j->w_axis[1], x = j->w_axis[2];
    const int flipped = x == -1 && y == -3;
    w += m0 * j->w_output + c0 * j->w_channel;
    if (flipped || (x == 1 && y == 3)) { /* the taps of a weight are 9 numbers in a row, perhaps those of all channels too */
        const ptrdiff_t together = j->w_channel == 9 ? nc : 1;
        for (ptrdiff_t c = 0; c < nc; c += together)
            for (ptrdiff_t k = 0; k < together * 9; k += LANES)
                FN(transpose_tile)(w + c * j->w_channel + k - (flipped ? 8 : 0), j->w_output, nm, together * 9 - k,
                                   to + (c * 9 + k) * LANES, LANES);
        return flipped;
    }
    for (ptrdiff_t k = 0; k < 9; k++, to += LANES) {
        const real *from = w + k / 3 * y + k % 3 * x;
        if (j->w_output == 1)
            for (ptrdiff_t c = 0; c < nc; c++)
                vstore(to + c * 9 * LANES, vload_n(from + c * j->w_channel, nm));
        else if (j->w_channel == 1)
            FN(transpose_tile)(from, j->w_output, nm, nc, to, 9 * LANES);
        else
            for (ptrdiff_t c = 0; c < nc; c++)
                for (ptrdiff_t i = 0; i < LANES; i++)
                    to[c * 9 * LANES + i] = i < nm ? from[i * j->w_output + c * j->w_channel] : 0;
    }
    return 0;
}

/* channels c0..end-1 of a vector of outputs m0..., to `weights`: the place of that vector in plane 0 */
INLINE void FN(winograd_weights_of)(const int m, const conv_winograd *d, ptrdiff_t m0, ptrdiff_t c0, ptrdiff_t end, real *weights)
{
    const int n = m + 2;
    real tap[9 * LANES * LANES] __attribute__((aligned(64)));
    for (; c0 < end; c0 += LANES) {
        const ptrdiff_t nc = conv_min(LANES, end - c0);
        const int flipped = FN(winograd_read_weights)(d->call.job, (const real *)d->call.w, m0, c0, nc, tap);
        const real *at = tap + (flipped ? 8 * LANES : 0);
        const ptrdiff_t step = flipped ? -LANES : LANES;
        for (ptrdiff_t c = 0; c < nc; c++, weights += d->panel, at += 9 * LANES) {
            vec column[3][6];
#pragma GCC unroll 3
            for (int x = 0; x < 3; x++) {
                const vec g[3] = {vload(at + x * step), vload(at + (3 + x) * step), vload(at + (6 + x) * step)};
                FN(winograd_weights)(m, g, column[x]);
            }
#pragma GCC unroll 6
            for (int i = 0; i < n; i++) {
                const vec g[3] = {column[0][i], column[1][i], column[2][i]};
                vec r[6];
                FN(winograd_weights)(m, g, r);
#pragma GCC unroll 6
                for (int x = 0; x < n; x++)
                    vstore(weights + (i * n + x) * d->plane_w, r[x]);
            }
        }
    }
}
FUNC void FN(winograd_weights_2)(const conv_winograd *d, ptrdiff_t m0, ptrdiff_t c0, ptrdiff_t end, real *weights)
{
    FN(winograd_weights_of)(2, d, m0, c0, end, weights);
}
FUNC void FN(winograd_weights_4)(const conv_winograd *d, ptrdiff_t m0, ptrdiff_t c0, ptrdiff_t end, real *weights)
{
    FN(winograd_weights_of)(4, d, m0, c0, end, weights);
}

/* outputs m0..m0+nm-1 of channels c0..end-1, to `weights`; outputs beyond the last are 0 */
INLINE void FN(winograd_some_weights)(const conv_winograd *d, ptrdiff_t m0, ptrdiff_t nm, ptrdiff_t c0, ptrdiff_t end, real *weights)
{
    for (ptrdiff_t m = 0; m < nm; m += LANES)
        (d->tiles.m == 2 ? FN(winograd_weights_2) : FN(winograd_weights_4))(d, m0 + m, c0, end,
                                                                            weights + m / d->panel * d->panel * d->depth + m % d->panel);
}

/* ---- products ---- */

/* of `count` tiles and nm outputs, over nk channels from c0 on, where `weights` begin */
INLINE void FN(winograd_multiply)(const conv_winograd *d, const real *cells, const real *weights, ptrdiff_t count, ptrdiff_t nm,
                                  ptrdiff_t c0, ptrdiff_t nk, real *products)
{
    const ptrdiff_t bands = conv_ceil(count, GEMM_MR);
    for (ptrdiff_t i = 0; i < d->tiles.n2; i++, cells += d->tiles.plane, weights += d->plane_w, products += d->plane_out)
        for (ptrdiff_t m0 = 0; m0 < nm; m0 += d->panel)
            for (ptrdiff_t b = 0; b < bands; b++) {
                const ptrdiff_t t = conv_part(count, bands, b), rows = conv_part(count, bands, b + 1) - t;
                FN(gemm_tiles)[rows - 1][nm - m0 > LANES](nk, cells + t * d->tiles.row + c0, d->tiles.row, 1,
                                                          weights + m0 * d->depth, d->panel, products + t * d->chunk + m0, d->chunk, c0 > 0, NULL, NULL,
                                                          NULL, 0);
            }
}

/* ---- outputs ---- */

/* vectors of `count` places, one after the other, as n rows of places, which are `apart` */
INLINE void FN(winograd_store_turned)(const real *from, ptrdiff_t count, ptrdiff_t n, real *to, ptrdiff_t apart)
{
    real turned[LANES * LANES] __attribute__((aligned(64)));
    for (; count >= LANES; count -= LANES, from += LANES * LANES, to += LANES)
        FN(transpose_tile)(from, LANES, LANES, n, to, apart);
    if (count <= 0)
        return;
    FN(transpose_tile)(from, LANES, count, n, turned, LANES);
    for (ptrdiff_t i = 0; i < n; i++)
        vstore_n(to + i * apart, vload(turned + i * LANES), count);
}

/* a vector of outputs m0... of tiles t0..t0+count-1, from `products` (of these), to their places; whether all are finite */
INLINE int FN(winograd_outputs_of)(const int m, const conv_winograd *d, ptrdiff_t t0, ptrdiff_t count, ptrdiff_t m0,
                                   const real *products)
{
    const int n = m + 2, last = d->call.job->out_channel == 1;
    const conv_job *j = d->call.job;
    const ptrdiff_t nm = conv_min(LANES, j->outputs - m0);
    const vec bias = d->call.bias ? vload_n((const real *)d->call.bias + m0, nm) : vzero();
    const real floor = FN(conv_floor)(&d->call);
    real band[4 * CONV_WINOGRAD_RUN * 4 * LANES] __attribute__((aligned(64)));
    vec finite = vzero();
    for (ptrdiff_t t = 0; t < count;) {
        const FN(winograd_run) r = FN(winograd_find)(&d->tiles, t0 + t, count - t);
        const ptrdiff_t y0 = r.y * m, x0 = r.x * m, width = r.count * m;
        const ptrdiff_t rows = conv_min(m, j->out[1] - y0), cols = conv_min(width, j->out[2] - x0);
        real *out = (real *)d->call.out + r.image * j->out_batch + m0 * j->out_channel + y0 * j->out_axis[1] + x0 * j->out_axis[2];
        for (ptrdiff_t k = 0; k < r.count; k++) {
            const real *from = products + (t + k) * d->chunk;
            vec row[4][6];
#pragma GCC unroll 6
            for (int x = 0; x < n; x++) {
                vec p[6], q[4];
#pragma GCC unroll 6
                for (int i = 0; i < n; i++)
                    p[i] = vload(from + (i * n + x) * d->plane_out);
                FN(winograd_outputs)(m, p, q);
#pragma GCC unroll 4
                for (int y = 0; y < m; y++)
                    row[y][x] = q[y];
            }
#pragma GCC unroll 4
            for (int y = 0; y < m; y++) {
                vec q[4];
                FN(winograd_outputs)(m, row[y], q);
#pragma GCC unroll 4
                for (int x = 0; x < m; x++) {
                    finite = vfma(q[x], vzero(), finite);
                    q[x] = vmax_fast(vset(floor), q[x] + bias);
                    if (!last)
                        vstore(band + (y * width + k * m + x) * LANES, q[x]);
                    else if (y < rows && k * m + x < cols)
                        vstore_n(out + y * j->out_axis[1] + (k * m + x) * j->out_axis[2], q[x], nm);
                }
            }
        }
        for (ptrdiff_t y = 0; !last && y < rows; y++)
            FN(winograd_store_turned)(band + y * width * LANES, cols, nm, out + y * j->out_axis[1], j->out_channel);
        FN(conv_finish_rows)(&d->call, floor, out, nm, rows, cols);
        t += r.count;
    }
    return vhsum(finite) == 0; /* else it is NaN */
}
FUNC int FN(winograd_outputs_2)(const conv_winograd *d, ptrdiff_t t0, ptrdiff_t count, ptrdiff_t m0, const real *products)
{
    return FN(winograd_outputs_of)(2, d, t0, count, m0, products);
}
FUNC int FN(winograd_outputs_4)(const conv_winograd *d, ptrdiff_t t0, ptrdiff_t count, ptrdiff_t m0, const real *products)
{
    return FN(winograd_outputs_of)(4, d, t0, count, m0, products);
}

/* ---- tasks ---- */

/* outputs m0..m0+nm-1 of tiles first..first+count-1 from their products */
INLINE void FN(winograd_some_outputs)(conv_winograd *d, ptrdiff_t first, ptrdiff_t count, ptrdiff_t m0, ptrdiff_t nm,
                                      const real *products)
{
    for (ptrdiff_t i = 0; i < nm; i += LANES)
        if (!(d->tiles.m == 2 ? FN(winograd_outputs_2) : FN(winograd_outputs_4))(d, first, count, m0 + i, products + i))
            __atomic_store_n(&d->poisoned, 1, __ATOMIC_RELAXED);
}

INLINE void FN(winograd_some_cells)(const conv_winograd *d, ptrdiff_t first, ptrdiff_t count, ptrdiff_t c0, real *cells)
{
    (d->tiles.m == 2 ? FN(winograd_cells_2) : FN(winograd_cells_4))(&d->tiles, first, count, c0, cells + c0);
}

/* a vector of outputs, or of channels of the block, to what is shared */
INLINE void FN(winograd_fill)(const conv_winograd *d, ptrdiff_t i, real *shared)
{
    const ptrdiff_t first = i * LANES, panel = first / d->panel * d->panel;
    if (d->share_weights)
        FN(winograd_some_weights)(d, first, LANES, 0, d->depth, shared + panel * d->depth + first - panel);
    else
        FN(winograd_some_cells)(d, d->first, conv_min(d->block, d->tiles.count - d->first), first, shared);
}

FUNC void FN(conv_winograd_share)(conv_winograd *d, ptrdiff_t i) { FN(winograd_fill)(d, i, (real *)d->shared); }

/* takes units until there are none left */
FUNC void FN(conv_winograd_worker)(conv_winograd *d, ptrdiff_t i)
{
    const ptrdiff_t channels = d->call.job->channels, outputs = d->call.job->outputs;
    real *own = (real *)(d->memory + (size_t)i * d->worker_bytes), *products = (real *)((char *)own + d->own_bytes);
    real *shared = d->apart ? (real *)((char *)own + d->worker_bytes - d->shared_bytes) : (real *)d->shared;
    for (ptrdiff_t at = 0; d->apart && at < (d->share_weights ? outputs : channels); at += LANES)
        FN(winograd_fill)(d, at / LANES, shared);
    const ptrdiff_t kc = conv_winograd_depth(d->call.job);
    for (ptrdiff_t unit; !__atomic_load_n(&d->poisoned, __ATOMIC_RELAXED) && (unit = conv_take(&d->next, d->units)) >= 0;) {
        const ptrdiff_t part = unit % d->parts, block = d->share_weights ? unit * d->block : d->first;
        const ptrdiff_t all = conv_min(d->block, d->tiles.count - block), at = conv_part(all, d->parts, part);
        const ptrdiff_t first = block + at, count = conv_part(all, d->parts, part + 1) - at;
        if (d->share_weights)
            for (ptrdiff_t c0 = 0; c0 < channels; c0 += LANES)
                FN(winograd_some_cells)(d, first, count, c0, own);
        const ptrdiff_t begin = d->share_weights ? 0 : unit / d->parts * d->chunk, end = d->share_weights ? outputs : begin + d->chunk;
        for (ptrdiff_t m0 = begin; m0 < conv_min(end, outputs); m0 += d->chunk) {
            const ptrdiff_t nm = conv_min(d->chunk, outputs - m0);
            for (ptrdiff_t c0 = 0; c0 < channels; c0 += kc) {
                const ptrdiff_t nk = conv_min(kc, channels - c0);
                if (d->share_weights) {
                    FN(winograd_multiply)(d, own, shared + m0 * d->depth + c0 * d->panel, count, nm, c0, nk, products);
                } else {
                    FN(winograd_some_weights)(d, m0, nm, c0, c0 + nk, own);
                    FN(winograd_multiply)(d, shared + at * d->tiles.row, own, count, nm, c0, nk, products);
                }
            }
            FN(winograd_some_outputs)(d, first, count, m0, nm, products);
        }
    }
}
