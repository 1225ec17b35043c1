/* conv_direct_real.h: the body of conv_direct.h for one scalar type. */

/* s[m, v] += w[m] * the vector v*step from `from` on */
INLINE void FN(conv_tile_term)(const int rows, const int nv, const real *w, const real *from, const ptrdiff_t step, vec *s)
{
    vec a[4];
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++)
        a[v] = vload(from + v * step);
#pragma GCC unroll 14
    for (int m = 0; m < rows; m++) {
        const vec k = vset(w[m]);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            s[m * nv + v] = vfma(k, a[v], s[m * nv + v]);
    }
}

/* out[m*ld + v*out_step] = bias[m] + sum over channels and taps of weight * band, but at least `floor`, for `rows` output channels
 * and nv vectors, which are `step` apart in the band; the first n lanes. Cells `ahead` of these will be wanted soon, unless it is
 * 0. rows and nv are constants after inlining */
INLINE void FN(conv_tile)(const int rows, const int nv, const real *w, const real *bias, const real *band, const ptrdiff_t step,
                          const ptrdiff_t *tap, ptrdiff_t taps, ptrdiff_t channels, ptrdiff_t channel, ptrdiff_t ahead, real floor,
                          real *out, ptrdiff_t ld, const ptrdiff_t out_step, const ptrdiff_t n)
{
    vec s[GEMM_MR * 4];
#pragma GCC unroll 14
    for (int m = 0; m < rows; m++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            s[m * nv + v] = bias ? vset(bias[m]) : vzero();
    if (taps == 1) { /* short sums, and channels that are too many streams for the hardware to prefetch */
        if (rows >= 8)
#pragma GCC unroll 14
            for (int m = 0; m < rows; m++)
#pragma GCC unroll 4
                for (int v = 0; v < nv; v++)
                    __builtin_prefetch(out + m * ld + v * out_step, 1);
        if (ahead)
            for (ptrdiff_t c = 0; c < channels; c++, band += channel, w += rows) {
#pragma GCC unroll 4
                for (int v = 0; v < nv; v++)
                    __builtin_prefetch(band + ahead + v * step, 0, 2);
                FN(conv_tile_term)(rows, nv, w, band, step, s);
            }
        else
            for (ptrdiff_t c = 0; c < channels; c++, band += channel, w += rows)
                FN(conv_tile_term)(rows, nv, w, band, step, s);
    } else
        for (ptrdiff_t c = 0; c < channels; c++, band += channel)
            for (ptrdiff_t t = 0; t < taps; t++, w += rows)
                FN(conv_tile_term)(rows, nv, w, band + tap[t], step, s);
#pragma GCC unroll 14
    for (int m = 0; m < rows; m++, out += ld)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            const vec r = vmax_fast(vset(floor), s[m * nv + v]);
            if (n == LANES)
                vstore(out + v * out_step, r);
            else
                vstore_n(out + v * out_step, r, n);
        }
}

/* flat: the vectors follow each other */
#define CONV_TILE_ARGS                                                                                                   \
    const real *w, const real *bias, const real *band, const ptrdiff_t *tap, ptrdiff_t taps, ptrdiff_t channels,         \
        ptrdiff_t channel, ptrdiff_t ahead, real floor, real *out, ptrdiff_t ld
/* four vectors a pass where the rows leave registers for them */
#define CONV_WIDE_ROWS (GEMM_MR / 2 - 1)
#define CONV_TILE(i, nv, most)                                                                                           \
    FUNC void FN(conv_tile_##i##_##nv)(CONV_TILE_ARGS)                                                                   \
    {                                                                                                                    \
        FN(conv_tile)(i < most ? i + 1 : 1, nv, w, bias, band, LANES, tap, taps, channels, channel, ahead, floor, out,   \
                      ld, LANES, LANES);                                                                                 \
    }
#define X(i) CONV_TILE(i, 1, GEMM_MR) CONV_TILE(i, 2, GEMM_MR) CONV_TILE(i, 4, CONV_WIDE_ROWS)
GEMM_ROWS(X)
#undef X
typedef void (*FN(conv_tile_function))(CONV_TILE_ARGS);
#define X(i) {FN(conv_tile_##i##_1), FN(conv_tile_##i##_2), FN(conv_tile_##i##_4)},
/* [rows - 1][0, 1, 2 for 1, 2, 4 vectors] */
static const FN(conv_tile_function) FN(conv_tiles)[14][3] __attribute__((unused)) = {GEMM_ROWS(X)};
#undef X

/* by rows: one vector of each of several image rows, for short sums of few output channels, which are over before the
 * cells of a flat tile are sorted into rows */
#define CONV_ROW_TILE_ARGS                                                                                               \
    const real *w, const real *bias, const real *band, ptrdiff_t step, const ptrdiff_t *tap, ptrdiff_t taps,             \
        ptrdiff_t channels, ptrdiff_t channel, real floor, real *out, ptrdiff_t ld, ptrdiff_t out_step, ptrdiff_t n
#define CONV_ROW_TILE(i, nv, most)                                                                                       \
    FUNC void FN(conv_row_tile_##i##_##nv)(CONV_ROW_TILE_ARGS)                                                           \
    {                                                                                                                    \
        FN(conv_tile)(i < most ? i + 1 : 1, nv, w, bias, band, step, tap, taps, channels, channel, 0, floor, out, ld, \
                      out_step, n);                                                                                      \
    }
#define X(i) CONV_ROW_TILE(i, 1, 4) CONV_ROW_TILE(i, 2, 4) CONV_ROW_TILE(i, 4, CONV_WIDE_ROWS)
X(0) X(1) X(2) X(3)
#undef X
typedef void (*FN(conv_row_tile_function))(CONV_ROW_TILE_ARGS);
#define X(i) {FN(conv_row_tile_##i##_1), FN(conv_row_tile_##i##_2), FN(conv_row_tile_##i##_4)}
/* [rows - 1][0, 1, 2 for 1, 2, 4 vectors] */
static const FN(conv_row_tile_function) FN(conv_row_tiles)[4][3] __attribute__((unused)) = {X(0), X(1), X(2), X(3)};
#undef X

/* a panel of h output channels from w on as the tiles read it, [channel][tap][row]; returns whether all of it is finite */
INLINE int FN(conv_pack_panel)(const conv_job *j, const real *w, ptrdiff_t h, real *packed)
{
    real *to = packed;
    const int apart = j->w_output * (ptrdiff_t)sizeof(real) >= 64 && j->w_channel > j->w_output;
    for (ptrdiff_t c = 0; c < j->channels; c++) {
        /* a line of memory for each output channel, far from those of the last input channel */
        for (ptrdiff_t m = 0; apart && m < h; m++)
            __builtin_prefetch(w + (c + 2) * j->w_channel + m * j->w_output);
        for (ptrdiff_t t = 0; t < j->kernel[0]; t++)
            for (ptrdiff_t u = 0; u < j->kernel[1]; u++)
                for (ptrdiff_t v = 0; v < j->kernel[2]; v++) {
                    const real *from = w + c * j->w_channel + t * j->w_axis[0] + u * j->w_axis[1] + v * j->w_axis[2];
                    for (ptrdiff_t m = 0; m < h; m++)
                        *to++ = from[m * j->w_output];
                }
    }
    return FN(conv_finite)(packed, to - packed);
}

/* task i: one panel of weights; panels and groups one after the other */
FUNC void FN(conv_direct_pack)(conv_direct *d, ptrdiff_t i)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t panel = conv_split(&i, d->panels), g = i;
    const ptrdiff_t m0 = conv_part(j->outputs, d->panels, panel), h = conv_part(j->outputs, d->panels, panel + 1) - m0;
    if (!FN(conv_pack_panel)(j, (const real *)d->call.w + g * j->w_group + m0 * j->w_output, h,
                             (real *)d->packed + (g * j->outputs + m0) * conv_terms(j)))
        __atomic_store_n(&d->poisoned, 1, __ATOMIC_RELAXED);
}

/* a run of n positions, `rows` channels to where these lie side by side */
INLINE void FN(conv_store_channels)(const real *tile, ptrdiff_t ld, ptrdiff_t rows, real *out, ptrdiff_t step, ptrdiff_t n,
                                    int add)
{
    real t[LANES * LANES] __attribute__((aligned(64)));
    for (ptrdiff_t i = 0; i < n; i += LANES)
        for (ptrdiff_t m = 0; m < rows; m += LANES) {
            const ptrdiff_t count = conv_min(LANES, n - i);
            FN(transpose_tile)(tile + m * ld + i, ld, rows - m, count, t, LANES);
            FN(conv_store_runs)(t, LANES, out + i * step + m, step, 1, conv_min(LANES, rows - m), count, add);
        }
}

/* a tile of `rows` rows of `width` cells, whose first n cells are the region's flat positions from row y, column x on */
INLINE void FN(conv_store_tile)(const conv_job *j, const conv_band *b, const real *tile, ptrdiff_t rows, ptrdiff_t width,
                                ptrdiff_t y, ptrdiff_t x, ptrdiff_t n, ptrdiff_t cols, real *out, int add)
{
    for (ptrdiff_t i = 0; i < n; y++, x = 0) {
        const ptrdiff_t run = conv_min(cols - x, n - i);
        real *to = out + y * j->out_axis[1] + x * j->out_axis[2];
        if (run > 0 && j->out_channel == 1 && rows > 1)
            FN(conv_store_channels)(tile + i, width, rows, to, j->out_axis[2], run, add);
        else if (run > 0)
            FN(conv_store_runs)(tile + i, width, to, j->out_channel, j->out_axis[2], run, rows, add);
        i += b->row - x;
    }
}

/* panel i of output channels, h of them, at flat positions from..to-1 of a region. The cell of position `start` is at `cells`,
 * the next channel's `channel` cells on; the cells of the next region are `ahead`, and each panel asks for its share of them */
INLINE void FN(conv_direct_pass)(const conv_direct *d, ptrdiff_t i, ptrdiff_t h, const real *w, const real *bias, ptrdiff_t nc,
                                 const real *cells, ptrdiff_t start, ptrdiff_t channel, ptrdiff_t ahead, ptrdiff_t from,
                                 ptrdiff_t to, ptrdiff_t cols, real floor, real *out, int add)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t taps = conv_taps(j), row = d->band.row;
    real tile[GEMM_MR * 2 * LANES] __attribute__((aligned(64)));
    ptrdiff_t y = from / row, x = from % row;
    while (from < to) {
        const ptrdiff_t left = conv_ceil(to - from, LANES);
        const int v = left >= 4 && h <= CONV_WIDE_ROWS ? 2 : left >= 2;
        const ptrdiff_t width = (ptrdiff_t)LANES << v;
        const FN(conv_tile_function) f = FN(conv_tiles)[h - 1][v];
        const real *at = cells + (from - start);
        const ptrdiff_t ask = ahead && from / width % d->panels == i ? ahead : 0;
        if (x + width <= cols && j->out_axis[2] == 1 && !add) {
            f(w, bias, at, d->tap, taps, nc, channel, ask, floor, out + y * j->out_axis[1] + x, j->out_channel);
        } else {
            f(w, bias, at, d->tap, taps, nc, channel, ask, floor, tile, width);
            FN(conv_store_tile)(j, &d->band, tile, h, width, y, x, conv_min(width, to - from), cols, out, add);
        }
        from += width;
        for (x += width; x >= row; x -= row)
            y++;
    }
}

/* the same for all of a region, by rows */
INLINE void FN(conv_row_pass)(const conv_direct *d, ptrdiff_t h, const real *w, const real *bias, ptrdiff_t nc,
                              const real *band, ptrdiff_t rows, ptrdiff_t cols, real floor, real *out)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t taps = conv_taps(j), row = d->band.row, channel = d->band.channel;
    real tile[4 * 4 * LANES] __attribute__((aligned(64)));
    for (ptrdiff_t x = 0; x < cols; x += LANES) {
        const ptrdiff_t n = conv_min(LANES, cols - x);
        for (ptrdiff_t y = 0; y < rows;) {
            const int v = rows - y >= 4 && h <= CONV_WIDE_ROWS ? 2 : rows - y >= 2;
            const FN(conv_row_tile_function) f = FN(conv_row_tiles)[h - 1][v];
            const real *from = band + y * row + x;
            real *to = out + y * j->out_axis[1] + x * j->out_axis[2];
            if (j->out_axis[2] == 1 && (n == LANES || SIMD_BYTES == 64)) {
                f(w, bias, from, row, d->tap, taps, nc, channel, floor, to, j->out_channel, j->out_axis[1], n);
            } else {
                f(w, bias, from, row, d->tap, taps, nc, channel, floor, tile, 4 * LANES, LANES, LANES);
                for (ptrdiff_t m = 0; m < h; m++)
                    FN(conv_store_runs)(tile + m * 4 * LANES, LANES, to + m * j->out_channel, j->out_axis[1], j->out_axis[2], n,
                                        1 << v, 0);
            }
            y += 1 << v;
        }
    }
}

/* one unit: a region of one image and group, for all or some panels of output channels */
FUNC void FN(conv_direct_unit)(const conv_direct *d, ptrdiff_t unit, real *band)
{
    const conv_job *j = d->call.job;
    const conv_band *p = &d->band;
    const ptrdiff_t split = conv_split(&unit, d->splits);
    conv_region r = conv_find_region(j, p, unit);
    const ptrdiff_t g = conv_split(&r.image, j->groups), b = r.image;
    const ptrdiff_t taps = conv_taps(j), terms = conv_terms(j), flat = (r.rows - 1) * p->row + r.cols;
    const ptrdiff_t first = conv_part(d->panels, d->splits, split), end = conv_part(d->panels, d->splits, split + 1);
    const real *in = (const real *)d->call.in + b * j->in_batch + g * j->in_group;
    const real *w = (const real *)d->packed + g * j->outputs * terms;
    const real *bias = d->call.bias ? (const real *)d->call.bias + g * j->outputs : NULL;
    real *out = (real *)d->call.out + b * j->out_batch + g * j->out_group + conv_region_start(j, &r);
    const ptrdiff_t channels = conv_max(j->channels, 1), chunk = d->in_place ? channels : p->chunk;
    /* from this region to the next, of the same image or the next one */
    const ptrdiff_t ahead = r.x + r.cols < j->out[2] ? r.cols : b + 1 < j->batch ? j->in_batch - r.x : 0;
    for (ptrdiff_t c0 = 0; c0 < channels; c0 += chunk) {
        const ptrdiff_t nc = conv_min(chunk, j->channels - c0);
        const int last = c0 + nc == j->channels;
        const real *cells = in + r.z * j->in_axis[0] + r.x, floor = nc == j->channels ? FN(conv_floor)(&d->call) : -(real)INFINITY;
        /* what the input holds in whole vectors is read there, the rest is copied */
        const ptrdiff_t whole = d->in_place ? flat / LANES * LANES : 0;
        if (!d->in_place)
            FN(conv_fill_band)(j, p, in, c0, nc, &r, band);
        else if (whole < flat)
            for (ptrdiff_t c = 0; c < nc; c++) {
                vstore(band + c * LANES, vzero());
                FN(conv_copy)(band + c * LANES, cells + c * j->in_channel + whole, flat - whole);
            }
        for (ptrdiff_t i = first; i < end; i++) {
            const ptrdiff_t m0 = conv_part(j->outputs, d->panels, i), h = conv_part(j->outputs, d->panels, i + 1) - m0;
            const real *panel = w + m0 * terms + c0 * taps * h, *b0 = bias && c0 == 0 ? bias + m0 : NULL;
            real *to = out + m0 * j->out_channel;
            if (d->by_rows) {
                FN(conv_row_pass)(d, h, panel, b0, nc, band, r.rows, r.cols, floor, to);
            } else if (d->in_place) {
                FN(conv_direct_pass)(d, i, h, panel, b0, nc, cells, 0, j->in_channel, ahead, 0, whole, r.cols, floor, to, 0);
                FN(conv_direct_pass)(d, i, h, panel, b0, nc, band, whole, LANES, 0, whole, flat, r.cols, floor, to, 0);
            } else
                FN(conv_direct_pass)(d, i, h, panel, b0, nc, band, 0, p->channel, 0, 0, flat, r.cols, floor, to, c0 > 0);
            if (last)
                FN(conv_finish_rows)(&d->call, floor, to, h, r.rows, r.cols);
        }
    }
}

/* takes units until there are none left */
FUNC void FN(conv_direct_worker)(conv_direct *d, ptrdiff_t i)
{
    real *band = (real *)(d->bands + (size_t)i * d->band_bytes);
    for (ptrdiff_t unit; (unit = conv_take(&d->next, d->units)) >= 0;)
        FN(conv_direct_unit)(d, unit, band);
}
