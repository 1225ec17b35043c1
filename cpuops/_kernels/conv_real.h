/* conv_real.h: the body of conv.h (read its head) for one scalar type. */

/* ---- masked: the definition ---- */

/* out[b, g, m, every position] of one (b, g, m) */
FUNC void FN(conv_masked)(const conv_call *call, ptrdiff_t unit)
{
    const conv_job *j = call->job;
    const real *in = (const real *)call->in, *w = (const real *)call->w, *bias = (const real *)call->bias;
    real *out = (real *)call->out;
    const ptrdiff_t m = unit % j->outputs, g = unit / j->outputs % j->groups, b = unit / j->outputs / j->groups;
    in += b * j->in_batch + g * j->in_group;
    w += g * j->w_group + m * j->w_output;
    out += b * j->out_batch + g * j->out_group + m * j->out_channel;
    for (ptrdiff_t z = 0; z < j->out[0]; z++)
        for (ptrdiff_t y = 0; y < j->out[1]; y++)
            for (ptrdiff_t x = 0; x < j->out[2]; x++) {
                real sum = 0;
                for (ptrdiff_t c = 0; c < j->channels; c++)
                    for (ptrdiff_t t = 0; t < j->kernel[0]; t++)
                        for (ptrdiff_t u = 0; u < j->kernel[1]; u++)
                            for (ptrdiff_t v = 0; v < j->kernel[2]; v++) {
                                const ptrdiff_t iz = z * j->step[0] + t * j->dil[0] + j->off[0];
                                const ptrdiff_t iy = y * j->step[1] + u * j->dil[1] + j->off[1];
                                const ptrdiff_t ix = x * j->step[2] + v * j->dil[2] + j->off[2];
                                if (iz < 0 || iz >= j->in[0] || iy < 0 || iy >= j->in[1] || ix < 0 || ix >= j->in[2])
                                    continue;
                                sum += w[c * j->w_channel + t * j->w_axis[0] + u * j->w_axis[1] + v * j->w_axis[2]] *
                                       in[c * j->in_channel + iz * j->in_axis[0] + iy * j->in_axis[1] + ix * j->in_axis[2]];
                            }
                out[z * j->out_axis[0] + y * j->out_axis[1] + x * j->out_axis[2]] = bias ? sum + bias[g * j->outputs + m] : sum;
            }
}

/* the weight gradient of one (g, m); call->w is the output's gradient, call->out the result. Entries that are not finite are computed again, without the padding and the gaps */
FUNC void FN(conv_masked_weight)(const conv_call *call, ptrdiff_t unit)
{
    const conv_job *j = call->job;
    const real *in = (const real *)call->in, *grad = (const real *)call->w;
    real *w = (real *)call->out;
    const ptrdiff_t m = unit % j->outputs, g = unit / j->outputs;
    in += g * j->in_group;
    grad += g * j->out_group + m * j->out_channel;
    w += g * j->w_group + m * j->w_output;
    for (ptrdiff_t c = 0; c < j->channels; c++)
        for (ptrdiff_t t = 0; t < j->kernel[0]; t++)
            for (ptrdiff_t u = 0; u < j->kernel[1]; u++)
                for (ptrdiff_t v = 0; v < j->kernel[2]; v++) {
                    real *to = w + c * j->w_channel + t * j->w_axis[0] + u * j->w_axis[1] + v * j->w_axis[2];
                    if (*to - *to == 0)
                        continue;
                    ptrdiff_t z0, z1, y0, y1, x0, x1;
                    conv_inside(t * j->dil[0] + j->off[0], j->step[0], j->in[0], j->out[0], &z0, &z1);
                    conv_inside(u * j->dil[1] + j->off[1], j->step[1], j->in[1], j->out[1], &y0, &y1);
                    conv_inside(v * j->dil[2] + j->off[2], j->step[2], j->in[2], j->out[2], &x0, &x1);
                    real sum = 0;
                    for (ptrdiff_t b = 0; b < j->batch; b++)
                        for (ptrdiff_t z = z0; z <= z1; z++)
                            for (ptrdiff_t y = y0; y <= y1; y++) {
                                const real *a = in + b * j->in_batch + c * j->in_channel +
                                                (z * j->step[0] + t * j->dil[0] + j->off[0]) * j->in_axis[0] +
                                                (y * j->step[1] + u * j->dil[1] + j->off[1]) * j->in_axis[1] +
                                                (v * j->dil[2] + j->off[2]) * j->in_axis[2];
                                const real *o = grad + b * j->out_batch + z * j->out_axis[0] + y * j->out_axis[1];
                                for (ptrdiff_t x = x0; x <= x1; x++)
                                    sum += o[x * j->out_axis[2]] * a[x * j->step[2] * j->in_axis[2]];
                            }
                    *to = sum;
                }
}

/* ---- the band ---- */

INLINE void FN(conv_zero)(real *p, ptrdiff_t n) { memset(p, 0, (size_t)n * sizeof(real)); }

/* to[0..n-1] = from[0..n-1] */
INLINE void FN(conv_copy)(real *to, const real *from, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vstore(to + i, vload(from + i));
#if SIMD_AVX512
    if (i < n)
        vstore_n(to + i, vload_n(from + i, n - i), n - i);
#else
    if (i < n && n >= LANES)
        vstore(to + n - LANES, vload(from + n - LANES));
    else
        for (; i < n; i++)
            to[i] = from[i];
#endif
}

/* to[0..n-1] = from[0], from[step], ... */
INLINE void FN(conv_copy_row)(real *to, const real *from, ptrdiff_t step, ptrdiff_t n)
{
    if (step == 1) {
        FN(conv_copy)(to, from, n);
        return;
    }
    ptrdiff_t i = 0;
    if (step == 2)
        for (vec even, odd; i + LANES < n; i += LANES) { /* reads one cell beyond the last of these, hence < */
            vdeal(vload(from + 2 * i), vload(from + 2 * i + LANES), &even, &odd);
            vstore(to + i, even);
        }
#if SIMD_AVX512
    if (step == 2 && i < n) {
        const ptrdiff_t left = 2 * (n - i) - 1;
        vec even, odd;
        vdeal(vload_n(from + 2 * i, conv_min(left, LANES)), vload_n(from + 2 * i + LANES, conv_max(left - LANES, 0)), &even, &odd);
        vstore_n(to + i, even, n - i);
        return;
    }
#endif
    for (; i < n; i++)
        to[i] = from[i * step];
}

/* one row of the planes of nc channels that lie side by side: cells first..first+n-1, the margins 0 */
INLINE void FN(conv_fill_channels)(const conv_band *p, const real *from, ptrdiff_t apart, ptrdiff_t nc, ptrdiff_t first, ptrdiff_t n, real *to)
{
    for (ptrdiff_t c = 0; c < nc; c++) {
        real *row = to + c * p->channel;
        for (ptrdiff_t i = 0; i < first; i++)
            row[i] = 0;
        for (ptrdiff_t i = first + n; i < p->row; i++)
            row[i] = 0;
    }
    /* a vector that ends beyond the row is overwritten by the next row's */
    for (ptrdiff_t i = 0; i < n; i += LANES)
        for (ptrdiff_t c = 0; c < nc; c += LANES)
            FN(transpose_tile)(from + i * apart + c, apart, n - i, nc - c, to + first + i + c * p->channel, p->channel);
}

/* the band of channels c0..c0+nc-1 for output slice z and the region at (y0, x0) with `rows` rows; `in` at its group. All that
 * a tile can read is written: what it does not use shall not be a NaN or (slow) a subnormal */
FUNC void FN(conv_fill_band)(const conv_job *j, const conv_band *p, const real *in, ptrdiff_t c0, ptrdiff_t nc, ptrdiff_t z,
                             ptrdiff_t y0, ptrdiff_t rows, ptrdiff_t x0, real *band)
{
    const ptrdiff_t height = rows + p->reach_y, above = j->step[1] * j->in_axis[1], apart = j->step[2] * j->in_axis[2];
    const int together = j->in_channel == 1 && nc >= 4;
    vstore(band + nc * p->channel, vzero());
    for (ptrdiff_t t = 0; t < j->kernel[0]; t++)
        for (ptrdiff_t fy = 0; fy < p->phases_y; fy++)
            for (ptrdiff_t fx = 0; fx < p->phases_x; fx++, band += p->plane) {
                const ptrdiff_t iz = z * j->step[0] + t * j->dil[0] + j->off[0];
                const ptrdiff_t ystart = y0 * j->step[1] + conv_phase_cell(j, 1, fy) + j->off[1];
                const ptrdiff_t xstart = x0 * j->step[2] + conv_phase_cell(j, 2, fx) + j->off[2];
                ptrdiff_t first, last, top, bottom;
                conv_inside(xstart, j->step[2], j->in[2], p->row, &first, &last);
                conv_inside(ystart, j->step[1], j->in[1], height, &top, &bottom);
                if (iz < 0 || iz >= j->in[0] || last < first)
                    bottom = top - 1;
                if (bottom < top)
                    top = bottom = 0, last = first - 1; /* all of it is padding */
                const ptrdiff_t n = last - first + 1, end = n > 0 ? bottom + 1 : 0;
                const real *from = in + c0 * j->in_channel + iz * j->in_axis[0] + ystart * j->in_axis[1] +
                                   (xstart + first * j->step[2]) * j->in_axis[2];
                if (together)
                    for (ptrdiff_t e = top; e < end; e++)
                        FN(conv_fill_channels)(p, from + e * above, apart, nc, first, n, band + e * p->row);
                for (ptrdiff_t c = 0; c < nc; c++, from += j->in_channel) {
                    real *plane = band + c * p->channel;
                    /* short rows: a few stores clear the margins of all of them */
                    const int small = p->plane <= 32 * LANES && !together;
                    FN(conv_zero)(plane, small ? p->plane : top * p->row);
                    if (!small)
                        FN(conv_zero)(plane + end * p->row, p->plane - end * p->row);
                    if (!together)
                        for (ptrdiff_t e = top; e < end; e++) {
                            real *to = plane + e * p->row;
                            for (ptrdiff_t i = 0; i < first && !small; i++)
                                to[i] = 0;
                            FN(conv_copy_row)(to + first, from + e * above, apart, n);
                            for (ptrdiff_t i = last + 1; i < p->row && !small; i++)
                                to[i] = 0;
                        }
                }
            }
}

/* ---- direct ---- */

/* s[m, v] += w[m] * the vector v*step from `from` on; with `ahead`, prefetches the next tile's */
INLINE void FN(conv_tile_term)(const int rows, const int nv, const real *w, const real *from, const ptrdiff_t step, const int ahead, vec *s)
{
    vec a[4];
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++)
        a[v] = vload(from + v * step);
    if (ahead)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            __builtin_prefetch(from + (nv + v) * step);
#pragma GCC unroll 14
    for (int m = 0; m < rows; m++) {
        const vec k = vset(w[m]);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            s[m * nv + v] = vfma(k, a[v], s[m * nv + v]);
    }
}

/* out[m*ld + v*out_step] = bias[m] + sum over channels and taps of weight * band, for `rows` output channels and nv vectors, which
 * lie v*step apart in the band; the first n lanes. rows and nv are constants after inlining */
INLINE void FN(conv_tile)(const int rows, const int nv, const real *w, const real *bias, const real *band, const ptrdiff_t step,
                          const ptrdiff_t *tap, ptrdiff_t taps, ptrdiff_t channels, ptrdiff_t channel, real *out, ptrdiff_t ld,
                          const ptrdiff_t out_step, const ptrdiff_t n)
{
    vec s[GEMM_MR * 4];
#pragma GCC unroll 14
    for (int m = 0; m < rows; m++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            s[m * nv + v] = bias ? vset(bias[m]) : vzero();
    if (taps == 1) { /* the band may be the input itself, whose channels are too many streams for the hardware to prefetch */
        if (rows >= 8)
#pragma GCC unroll 14
            for (int m = 0; m < rows; m++)
#pragma GCC unroll 4
                for (int v = 0; v < nv; v++)
                    __builtin_prefetch(out + m * ld + v * out_step, 1);
        for (ptrdiff_t c = 0; c < channels; c++, band += channel, w += rows)
            FN(conv_tile_term)(rows, nv, w, band, step, rows >= 8, s);
    } else
        for (ptrdiff_t c = 0; c < channels; c++, band += channel)
            for (ptrdiff_t t = 0; t < taps; t++, w += rows)
                FN(conv_tile_term)(rows, nv, w, band + tap[t], step, 0, s);
#pragma GCC unroll 14
    for (int m = 0; m < rows; m++, out += ld)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            if (n == LANES)
                vstore(out + v * out_step, s[m * nv + v]);
            else
                vstore_n(out + v * out_step, s[m * nv + v], n);
        }
}

/* flat: the vectors follow each other */
#define CONV_TILE_ARGS                                                                                                   \
    const real *w, const real *bias, const real *band, const ptrdiff_t *tap, ptrdiff_t taps, ptrdiff_t channels,         \
        ptrdiff_t channel, real *out, ptrdiff_t ld
/* four vectors a pass where the rows leave registers for them */
#define CONV_WIDE_ROWS (GEMM_MR / 2 - 1)
#define CONV_TILE(i, nv, most)                                                                                           \
    FUNC void FN(conv_tile_##i##_##nv)(CONV_TILE_ARGS)                                                                   \
    {                                                                                                                    \
        FN(conv_tile)(i < most ? i + 1 : 1, nv, w, bias, band, LANES, tap, taps, channels, channel, out, ld, LANES, LANES); \
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
        ptrdiff_t channels, ptrdiff_t channel, real *out, ptrdiff_t ld, ptrdiff_t out_step, ptrdiff_t n
#define CONV_ROW_TILE(i, nv, most)                                                                                       \
    FUNC void FN(conv_row_tile_##i##_##nv)(CONV_ROW_TILE_ARGS)                                                           \
    {                                                                                                                    \
        FN(conv_tile)(i < most ? i + 1 : 1, nv, w, bias, band, step, tap, taps, channels, channel, out, ld, out_step, n); \
    }
#define X(i) CONV_ROW_TILE(i, 1, 4) CONV_ROW_TILE(i, 2, 4) CONV_ROW_TILE(i, 4, CONV_WIDE_ROWS)
X(0) X(1) X(2) X(3)
#undef X
typedef void (*FN(conv_row_tile_function))(CONV_ROW_TILE_ARGS);
#define X(i) {FN(conv_row_tile_##i##_1), FN(conv_row_tile_##i##_2), FN(conv_row_tile_##i##_4)}
/* [rows - 1][0, 1, 2 for 1, 2, 4 vectors] */
static const FN(conv_row_tile_function) FN(conv_row_tiles)[4][3] __attribute__((unused)) = {X(0), X(1), X(2), X(3)};
#undef X

FUNC int FN(conv_finite)(const real *p, ptrdiff_t n)
{
    vec s[4] = {vzero(), vzero(), vzero(), vzero()};
    ptrdiff_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int l = 0; l < 4; l++)
            s[l] = vfma(vload(p + i + l * LANES), vzero(), s[l]);
    real sum = vhsum(s[0] + s[1] + (s[2] + s[3]));
    for (; i < n; i++)
        sum += p[i] * 0;
    return sum == 0; /* else it is NaN */
}

/* task i: one panel of weights as the tiles read it, [channel][tap][row]; panels and groups one after the other */
FUNC void FN(conv_direct_pack)(conv_direct *d, ptrdiff_t i)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t panel = conv_split(&i, d->panels), g = i, terms = j->channels * conv_taps(j);
    const ptrdiff_t m0 = conv_part(j->outputs, d->panels, panel), m1 = conv_part(j->outputs, d->panels, panel + 1);
    const real *w = (const real *)d->call.w + g * j->w_group;
    real *const packed = (real *)d->packed + (g * j->outputs + m0) * terms, *to = packed;
    for (ptrdiff_t c = 0; c < j->channels; c++)
        for (ptrdiff_t t = 0; t < j->kernel[0]; t++)
            for (ptrdiff_t u = 0; u < j->kernel[1]; u++)
                for (ptrdiff_t v = 0; v < j->kernel[2]; v++) {
                    const real *from = w + c * j->w_channel + t * j->w_axis[0] + u * j->w_axis[1] + v * j->w_axis[2];
                    for (ptrdiff_t m = m0; m < m1; m++)
                        *to++ = from[m * j->w_output];
                }
    if (!FN(conv_finite)(packed, to - packed))
        __atomic_store_n(&d->poisoned, 1, __ATOMIC_RELAXED);
}

/* n elements of a tile's row to the output */
INLINE void FN(conv_store_run)(const real *tile, real *out, ptrdiff_t step, ptrdiff_t n, int add)
{
    if (step == 1 && !add) {
        FN(conv_copy)(out, tile, n);
        return;
    }
    ptrdiff_t i = 0;
    if (step == 1)
        for (; i + LANES <= n; i += LANES)
            vstore(out + i, vload(out + i) + vload(tile + i));
#if SIMD_AVX512
    if (step == 1 && i < n) {
        vstore_n(out + i, vload_n(out + i, n - i) + vload_n(tile + i, n - i), n - i);
        return;
    }
#endif
    if (step == 2 && !add) {
        /* every other cell is somebody else's and stays; none beyond the last of these is touched */
        vec even, odd, a, b;
        vzip(vset(1), vzero(), &even, &odd);
        const vmask mine = vgt(even, vzero());
        for (; i + LANES < n; i += LANES) {
            vzip(vload(tile + i), vzero(), &a, &b);
            vstore(out + 2 * i, vsel(mine, a, vload(out + 2 * i)));
            vstore(out + 2 * i + LANES, vsel(mine, b, vload(out + 2 * i + LANES)));
        }
    }
    if (add)
        for (; i < n; i++)
            out[i * step] += tile[i];
    else
        for (; i < n; i++)
            out[i * step] = tile[i];
}

/* a run of n positions, `rows` channels to where these lie side by side */
INLINE void FN(conv_store_channels)(const real *tile, ptrdiff_t ld, ptrdiff_t rows, real *out, ptrdiff_t step, ptrdiff_t n, int add)
{
    real t[LANES * LANES] __attribute__((aligned(64)));
    for (ptrdiff_t i = 0; i < n; i += LANES)
        for (ptrdiff_t m = 0; m < rows; m += LANES) {
            const ptrdiff_t count = conv_min(LANES, n - i);
            FN(transpose_tile)(tile + m * ld + i, ld, rows - m, count, t, LANES);
            for (ptrdiff_t k = 0; k < count; k++)
                FN(conv_store_run)(t + k * LANES, out + (i + k) * step + m, 1, conv_min(LANES, rows - m), add);
        }
}

/* a tile of `rows` rows of `width` cells, whose first n cells are the region's flat positions from row y, column x on */
INLINE void FN(conv_store_tile)(const conv_job *j, const conv_band *b, const real *tile, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t y,
                                ptrdiff_t x, ptrdiff_t n, ptrdiff_t cols, real *out, int add)
{
    for (ptrdiff_t i = 0; i < n; y++, x = 0) {
        const ptrdiff_t run = conv_min(cols - x, n - i);
        real *to = out + y * j->out_axis[1] + x * j->out_axis[2];
        if (run > 0 && j->out_channel == 1 && rows > 1)
            FN(conv_store_channels)(tile + i, width, rows, to, j->out_axis[2], run, add);
        else if (run > 0)
            for (ptrdiff_t m = 0; m < rows; m++)
                FN(conv_store_run)(tile + m * width + i, to + m * j->out_channel, j->out_axis[2], run, add);
        i += b->row - x;
    }
}

/* `h` output channels at flat positions from..to-1 of a region; cell of position 0 at `band`, `channel` cells between channels */
INLINE void FN(conv_direct_pass)(const conv_direct *d, ptrdiff_t h, const real *w, const real *bias, ptrdiff_t nc, const real *band,
                                 ptrdiff_t channel, ptrdiff_t from, ptrdiff_t to, ptrdiff_t cols, real *out, int add)
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
        if (x + width <= cols && j->out_axis[2] == 1 && !add) {
            f(w, bias, band + from, d->tap, taps, nc, channel, out + y * j->out_axis[1] + x, j->out_channel);
        } else {
            f(w, bias, band + from, d->tap, taps, nc, channel, tile, width);
            FN(conv_store_tile)(j, &d->band, tile, h, width, y, x, conv_min(width, to - from), cols, out, add);
        }
        from += width;
        for (x += width; x >= row; x -= row)
            y++;
    }
}

/* the same for all of a region, by rows */
INLINE void FN(conv_row_pass)(const conv_direct *d, ptrdiff_t h, const real *w, const real *bias, ptrdiff_t nc, const real *band,
                              ptrdiff_t rows, ptrdiff_t cols, real *out)
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
                f(w, bias, from, row, d->tap, taps, nc, channel, to, j->out_channel, j->out_axis[1], n);
            } else {
                f(w, bias, from, row, d->tap, taps, nc, channel, tile, 4 * LANES, LANES, LANES);
                for (ptrdiff_t m = 0; m < h; m++)
                    for (ptrdiff_t k = 0; k < 1 << v; k++)
                        FN(conv_store_run)(tile + (m * 4 + k) * LANES, to + m * j->out_channel + k * j->out_axis[1], j->out_axis[2], n, 0);
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
    const ptrdiff_t x0 = conv_split(&unit, p->regions_x) * p->cols, cols = conv_min(p->cols, j->out[2] - x0);
    const ptrdiff_t y0 = conv_split(&unit, p->regions_y) * p->rows, rows = conv_min(p->rows, j->out[1] - y0);
    const ptrdiff_t z = conv_split(&unit, j->out[0]), g = conv_split(&unit, j->groups), b = unit;
    const ptrdiff_t taps = conv_taps(j), flat = (rows - 1) * p->row + cols;
    const ptrdiff_t first = conv_part(d->panels, d->splits, split), end = conv_part(d->panels, d->splits, split + 1);
    const real *in = (const real *)d->call.in + b * j->in_batch + g * j->in_group;
    const real *w = (const real *)d->packed + g * j->outputs * j->channels * taps;
    const real *bias = d->call.bias ? (const real *)d->call.bias + g * j->outputs : NULL;
    real *out = (real *)d->call.out + b * j->out_batch + g * j->out_group + z * j->out_axis[0] + y0 * j->out_axis[1] + x0 * j->out_axis[2];
    const ptrdiff_t chunk = d->in_place ? conv_max(j->channels, 1) : p->chunk;
    for (ptrdiff_t c0 = 0; c0 < conv_max(j->channels, 1); c0 += chunk) {
        const ptrdiff_t nc = conv_min(chunk, j->channels - c0);
        const real *cells = band;
        /* what the input holds in whole vectors is read there */
        const ptrdiff_t whole = d->in_place ? flat / LANES * LANES : 0;
        if (d->in_place) {
            cells = in + z * j->in_axis[0] + x0;
            for (ptrdiff_t c = 0; whole < flat && c < nc; c++) {
                vstore(band + c * LANES, vzero());
                FN(conv_copy)(band + c * LANES, cells + c * j->in_channel + whole, flat - whole);
            }
        } else
            FN(conv_fill_band)(j, p, in, c0, nc, z, y0, rows, x0, band);
        for (ptrdiff_t i = first; i < end; i++) {
            const ptrdiff_t m0 = conv_part(j->outputs, d->panels, i), h = conv_part(j->outputs, d->panels, i + 1) - m0;
            const real *panel = w + m0 * j->channels * taps + c0 * taps * h, *b0 = bias && c0 == 0 ? bias + m0 : NULL;
            real *to = out + m0 * j->out_channel;
            if (d->by_rows) {
                FN(conv_row_pass)(d, h, panel, b0, nc, cells, rows, cols, to);
            } else if (d->in_place) {
                FN(conv_direct_pass)(d, h, panel, b0, nc, cells, j->in_channel, 0, whole, cols, to, 0);
                FN(conv_direct_pass)(d, h, panel, b0, nc, band - whole, LANES, whole, flat, cols, to, 0);
            } else
                FN(conv_direct_pass)(d, h, panel, b0, nc, cells, p->channel, 0, flat, cols, to, c0 > 0);
        }
    }
}

/* units until there are none left; slots run at the same time */
FUNC void FN(conv_direct_slot)(conv_direct *d, ptrdiff_t slot)
{
    real *band = (real *)(d->slots + (size_t)slot * d->slot_bytes);
    for (;;) {
        const ptrdiff_t unit = __atomic_fetch_add(&d->next, 1, __ATOMIC_RELAXED);
        if (unit >= d->units)
            return;
        FN(conv_direct_unit)(d, unit, band);
    }
}
