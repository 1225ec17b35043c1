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

/* to[0..n-1] = from[0], from[step], ... */
INLINE void FN(conv_copy_row)(real *to, const real *from, ptrdiff_t step, ptrdiff_t n)
{
    if (step == 1) {
        ptrdiff_t i = 0;
        for (; i + LANES <= n; i += LANES)
            vstore(to + i, vload(from + i));
        for (; i < n; i++)
            to[i] = from[i];
    } else
        for (ptrdiff_t i = 0; i < n; i++)
            to[i] = from[i * step];
}

/* the band of channels c0..c0+nc-1 for output slice z and the region at (y0, x0) with `rows` rows; `in` at its group */
FUNC void FN(conv_fill_band)(const conv_job *j, const conv_band *p, const real *in, ptrdiff_t c0, ptrdiff_t nc, ptrdiff_t z,
                             ptrdiff_t y0, ptrdiff_t rows, ptrdiff_t x0, real *band)
{
    const ptrdiff_t height = rows + p->reach_y;
    for (ptrdiff_t c = c0; c < c0 + nc; c++)
        for (ptrdiff_t t = 0; t < j->kernel[0]; t++) {
            const ptrdiff_t iz = z * j->step[0] + t * j->dil[0] + j->off[0];
            for (ptrdiff_t fy = 0; fy < p->phases_y; fy++)
                for (ptrdiff_t fx = 0; fx < p->phases_x; fx++, band += p->plane) {
                    if (iz < 0 || iz >= j->in[0]) {
                        FN(conv_zero)(band, p->plane);
                        continue;
                    }
                    const real *from = in + c * j->in_channel + iz * j->in_axis[0];
                    const ptrdiff_t ystart = y0 * j->step[1] + fy * j->dil[1] % j->step[1] + j->off[1];
                    const ptrdiff_t xstart = x0 * j->step[2] + fx * j->dil[2] % j->step[2] + j->off[2];
                    ptrdiff_t first, last, top, bottom;
                    conv_inside(xstart, j->step[2], j->in[2], p->row, &first, &last);
                    conv_inside(ystart, j->step[1], j->in[1], height, &top, &bottom);
                    real *to = band;
                    if (last < first || bottom < top) {
                        FN(conv_zero)(band, p->plane);
                        continue;
                    }
                    FN(conv_zero)(to, top * p->row);
                    from += ystart * j->in_axis[1] + (xstart + first * j->step[2]) * j->in_axis[2];
                    for (ptrdiff_t e = top; e <= bottom; e++) {
                        to = band + e * p->row;
                        for (ptrdiff_t i = 0; i < first; i++)
                            to[i] = 0;
                        FN(conv_copy_row)(to + first, from + e * j->step[1] * j->in_axis[1], j->step[2] * j->in_axis[2],
                                          last - first + 1);
                        for (ptrdiff_t i = last + 1; i < p->row; i++)
                            to[i] = 0;
                    }
                    to = band + (bottom + 1) * p->row;
                    FN(conv_zero)(to, p->plane - (bottom + 1) * p->row);
                }
        }
}

/* ---- direct ---- */

/* tile[m][v] = sum over channels and taps of weight * band; rows and nv are constants after inlining */
INLINE void FN(conv_tile)(const int rows, const int nv, const real *w, const real *band, const ptrdiff_t *tap, ptrdiff_t taps,
                          ptrdiff_t channels, ptrdiff_t channel, real *tile)
{
    vec s[GEMM_MR * 4];
#pragma GCC unroll 56
    for (int i = 0; i < rows * nv; i++)
        s[i] = vzero();
    for (ptrdiff_t c = 0; c < channels; c++, band += channel)
        for (ptrdiff_t t = 0; t < taps; t++, w += rows) {
            const real *from = band + tap[t];
            vec a[4];
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                a[v] = vload(from + v * LANES);
#pragma GCC unroll 14
            for (int m = 0; m < rows; m++) {
                const vec k = vset(w[m]);
#pragma GCC unroll 4
                for (int v = 0; v < nv; v++)
                    s[m * nv + v] = vfma(k, a[v], s[m * nv + v]);
            }
        }
#pragma GCC unroll 56
    for (int i = 0; i < rows * nv; i++)
        vstore(tile + i * LANES, s[i]);
}

#define CONV_TILE_ARGS                                                                                                   \
    const real *w, const real *band, const ptrdiff_t *tap, ptrdiff_t taps, ptrdiff_t channels, ptrdiff_t channel, real *tile
/* four vectors a pass where the rows leave registers for them */
#define CONV_WIDE_ROWS (GEMM_MR / 2 - 1)
#define X(i)                                                                                                            \
    FUNC void FN(conv_tile_##i##_1)(CONV_TILE_ARGS)                                                                     \
    {                                                                                                                   \
        FN(conv_tile)(i < GEMM_MR ? i + 1 : 1, 1, w, band, tap, taps, channels, channel, tile);                          \
    }                                                                                                                   \
    FUNC void FN(conv_tile_##i##_2)(CONV_TILE_ARGS)                                                                     \
    {                                                                                                                   \
        FN(conv_tile)(i < GEMM_MR ? i + 1 : 1, 2, w, band, tap, taps, channels, channel, tile);                          \
    }                                                                                                                   \
    FUNC void FN(conv_tile_##i##_4)(CONV_TILE_ARGS)                                                                     \
    {                                                                                                                   \
        FN(conv_tile)(i < CONV_WIDE_ROWS ? i + 1 : 1, 4, w, band, tap, taps, channels, channel, tile);                   \
    }
GEMM_ROWS(X)
#undef X
typedef void (*FN(conv_tile_function))(CONV_TILE_ARGS);
#define X(i) {FN(conv_tile_##i##_1), FN(conv_tile_##i##_2), FN(conv_tile_##i##_4)},
/* [rows - 1][0, 1, 2 for 1, 2, 4 vectors] */
static const FN(conv_tile_function) FN(conv_tiles)[14][3] __attribute__((unused)) = {GEMM_ROWS(X)};
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

/* the weights of a group as the tiles read them: panels [channel][tap][row], one after the other */
FUNC void FN(conv_direct_pack)(conv_direct *d, ptrdiff_t group)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t panels = conv_panels(j->outputs);
    const real *w = (const real *)d->call.w + group * j->w_group;
    real *const packed = (real *)d->packed + group * j->outputs * j->channels * conv_taps(j), *to = packed;
    for (ptrdiff_t i = 0; i < panels; i++) {
        const ptrdiff_t m0 = conv_panel_start(j->outputs, i), m1 = conv_panel_start(j->outputs, i + 1);
        for (ptrdiff_t c = 0; c < j->channels; c++)
            for (ptrdiff_t t = 0; t < j->kernel[0]; t++)
                for (ptrdiff_t u = 0; u < j->kernel[1]; u++)
                    for (ptrdiff_t v = 0; v < j->kernel[2]; v++) {
                        const real *from = w + c * j->w_channel + t * j->w_axis[0] + u * j->w_axis[1] + v * j->w_axis[2];
                        for (ptrdiff_t m = m0; m < m1; m++)
                            *to++ = from[m * j->w_output];
                    }
    }
    if (!FN(conv_finite)(packed, to - packed))
        __atomic_store_n(&d->poisoned, 1, __ATOMIC_RELAXED);
}

/* n elements of a tile's row to the output */
INLINE void FN(conv_store_run)(const real *tile, real *out, ptrdiff_t step, ptrdiff_t n, const real *bias, int add)
{
    ptrdiff_t i = 0;
    if (step == 1) {
        const vec k = vset(bias ? *bias : 0);
        for (; i + LANES <= n; i += LANES) {
            vec v = vload(tile + i);
            if (add)
                v = vload(out + i) + v;
            if (bias)
                v = v + k;
            vstore(out + i, v);
        }
    }
    for (; i < n; i++) {
        real v = tile[i];
        if (add)
            v = out[i * step] + v;
        if (bias)
            v = v + *bias;
        out[i * step] = v;
    }
}

/* a tile of `rows` rows of `width` cells, whose first n cells are the region's flat positions p..p+n-1 */
FUNC void FN(conv_store_tile)(const conv_job *j, const conv_band *b, const real *tile, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t p,
                              ptrdiff_t n, ptrdiff_t cols, real *out, const real *bias, int add)
{
    ptrdiff_t y = p / b->row, x = p % b->row;
    for (ptrdiff_t i = 0; i < n; y++, x = 0) {
        const ptrdiff_t run = conv_min(cols - x, n - i);
        if (run > 0)
            for (ptrdiff_t m = 0; m < rows; m++)
                FN(conv_store_run)(tile + m * width + i, out + m * j->out_channel + y * j->out_axis[1] + x * j->out_axis[2],
                                   j->out_axis[2], run, bias ? bias + m : NULL, add);
        i += b->row - x;
    }
}

/* one unit: a region of one image and group, for all or some panels of output channels */
FUNC void FN(conv_direct_unit)(const conv_direct *d, ptrdiff_t unit, real *band)
{
    const conv_job *j = d->call.job;
    const conv_band *p = &d->band;
    const ptrdiff_t split = unit % d->splits;
    unit /= d->splits;
    const ptrdiff_t x0 = unit % p->regions_x * p->cols, cols = conv_min(p->cols, j->out[2] - x0);
    unit /= p->regions_x;
    const ptrdiff_t y0 = unit % p->regions_y * p->rows, rows = conv_min(p->rows, j->out[1] - y0);
    unit /= p->regions_y;
    const ptrdiff_t z = unit % j->out[0];
    unit /= j->out[0];
    const ptrdiff_t g = unit % j->groups, b = unit / j->groups;
    const ptrdiff_t taps = conv_taps(j), panels = conv_panels(j->outputs), flat = (rows - 1) * p->row + cols;
    const real *in = (const real *)d->call.in + b * j->in_batch + g * j->in_group;
    const real *w = (const real *)d->packed + g * j->outputs * j->channels * taps;
    real *out = (real *)d->call.out + b * j->out_batch + g * j->out_group + z * j->out_axis[0] + y0 * j->out_axis[1] + x0 * j->out_axis[2];
    real tile[GEMM_MR * 2 * LANES] __attribute__((aligned(64)));
    for (ptrdiff_t c0 = 0; c0 < conv_max(j->channels, 1); c0 += p->chunk) {
        const ptrdiff_t nc = conv_min(p->chunk, j->channels - c0);
        const int add = c0 > 0, last = c0 + p->chunk >= j->channels;
        FN(conv_fill_band)(j, p, in, c0, nc, z, y0, rows, x0, band);
        for (ptrdiff_t i = split * panels / d->splits; i < (split + 1) * panels / d->splits; i++) {
            const ptrdiff_t m0 = conv_panel_start(j->outputs, i), h = conv_panel_start(j->outputs, i + 1) - m0;
            const real *panel = w + m0 * j->channels * taps + c0 * taps * h;
            const real *bias = d->call.bias && last ? (const real *)d->call.bias + g * j->outputs + m0 : NULL;
            for (ptrdiff_t at = 0; at < flat;) {
                const ptrdiff_t left = conv_ceil(flat - at, LANES);
                const int v = left >= 4 && h <= CONV_WIDE_ROWS ? 2 : left >= 2;
                const ptrdiff_t width = (ptrdiff_t)LANES << v;
                FN(conv_tiles)[h - 1][v](panel, band + at, d->tap, taps, nc, p->channel, tile);
                FN(conv_store_tile)(j, p, tile, h, width, at, conv_min(width, flat - at), cols, out + m0 * j->out_channel, bias, add);
                at += width;
            }
        }
    }
}

/* units until there are none left; slots run at the same time */
FUNC void FN(conv_direct_slot)(conv_direct *d, ptrdiff_t slot)
{
    real *band = (real *)(d->slots + (size_t)slot * d->slot_bytes);
    FN(conv_zero)(band, d->band.cells); /* what is read and not used shall not be subnormal, which is slow */
    for (;;) {
        const ptrdiff_t unit = __atomic_fetch_add(&d->next, 1, __ATOMIC_RELAXED);
        if (unit >= d->units)
            return;
        FN(conv_direct_unit)(d, unit, band);
    }
}
