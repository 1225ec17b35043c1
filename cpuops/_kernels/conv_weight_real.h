/* conv_weight_real.h: the body of conv_weight.h for one scalar type. */

/* ---- lanes ---- */

/* sum[m*ld + n] += the products of gradient row m and the cells from row[n], vector by vector; nm and nn are constants
 * after inlining */
INLINE void FN(conv_lanes_tile)(const int nm, const int nn, const real *grad, ptrdiff_t plane, const real *const *row,
                                ptrdiff_t count, vec *sum, ptrdiff_t ld)
{
    vec s[CONV_LANES_M * CONV_LANES_N];
    const real *at[CONV_LANES_N];
#pragma GCC unroll 9
    for (int n = 0; n < nn; n++)
        at[n] = row[n];
#pragma GCC unroll 3
    for (int m = 0; m < nm; m++)
#pragma GCC unroll 9
        for (int n = 0; n < nn; n++)
            s[m * nn + n] = sum[m * ld + n];
    const real *g0 = grad, *g1 = grad + plane, *g2 = grad + 2 * plane;
    for (ptrdiff_t p = 0; p < count; p += LANES) {
        const vec a0 = vload(g0 + p), a1 = nm > 1 ? vload(g1 + p) : a0, a2 = nm > 2 ? vload(g2 + p) : a0;
#pragma GCC unroll 9
        for (int n = 0; n < nn; n++) {
            const vec x = vload(at[n] + p);
            s[n] = vfma(a0, x, s[n]);
            if (nm > 1)
                s[nn + n] = vfma(a1, x, s[nn + n]);
            if (nm > 2)
                s[2 * nn + n] = vfma(a2, x, s[2 * nn + n]);
        }
    }
#pragma GCC unroll 3
    for (int m = 0; m < nm; m++)
#pragma GCC unroll 9
        for (int n = 0; n < nn; n++)
            sum[m * ld + n] = s[m * nn + n];
}

#define CONV_LANES_ARGS const real *grad, ptrdiff_t plane, const real *const *row, ptrdiff_t count, vec *sum, ptrdiff_t ld
#define CONV_LANES_EACH(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define X(n)                                                                                                            \
    FUNC void FN(conv_lanes_tile_1_##n)(CONV_LANES_ARGS)                                                                \
    {                                                                                                                   \
        FN(conv_lanes_tile)(1, n <= CONV_LANES_N ? n : 1, grad, plane, row, count, sum, ld);                             \
    }                                                                                                                   \
    FUNC void FN(conv_lanes_tile_2_##n)(CONV_LANES_ARGS)                                                                \
    {                                                                                                                   \
        FN(conv_lanes_tile)(2, n <= CONV_LANES_N ? n : 1, grad, plane, row, count, sum, ld);                             \
    }                                                                                                                   \
    FUNC void FN(conv_lanes_tile_3_##n)(CONV_LANES_ARGS)                                                                \
    {                                                                                                                   \
        FN(conv_lanes_tile)(3, n <= CONV_LANES_N ? n : 1, grad, plane, row, count, sum, ld);                             \
    }
CONV_LANES_EACH(X)
#undef X
typedef void (*FN(conv_lanes_function))(CONV_LANES_ARGS);
#define X(n) {FN(conv_lanes_tile_1_##n), FN(conv_lanes_tile_2_##n), FN(conv_lanes_tile_3_##n)},
/* [n - 1][m - 1] */
static const FN(conv_lanes_function) FN(conv_lanes_tiles)[9][3] __attribute__((unused)) = {CONV_LANES_EACH(X)};
#undef X

/* gradient rows of nm output channels in a region, as far apart as the band's; 0 between them */
FUNC void FN(conv_fill_grad)(const conv_job *j, const conv_band *p, ptrdiff_t plane, const real *grad, ptrdiff_t nm,
                             ptrdiff_t rows, ptrdiff_t cols, real *to)
{
    for (ptrdiff_t m = 0; m < nm; m++, to += plane) {
        FN(conv_zero)(to, plane);
        FN(conv_copy_rows)(to, p->row, grad + m * j->out_channel, j->out_axis[1], j->out_axis[2], cols, rows, 0);
    }
}

/* one unit: some outputs of one group, summed over one piece of the regions */
FUNC void FN(conv_lanes_unit)(const conv_lanes *d, ptrdiff_t unit, vec *sum, real *band, real *grad)
{
    const conv_job *j = d->call.job;
    const conv_band *p = &d->band;
    const ptrdiff_t split = conv_split(&unit, d->splits), g = conv_split(&unit, j->groups), piece = unit;
    const ptrdiff_t m0 = split * conv_lanes_outputs(d), nm = conv_min(conv_lanes_outputs(d), j->outputs - m0);
    const ptrdiff_t taps = conv_taps(j), terms = j->channels * taps;
    for (ptrdiff_t i = 0; i < nm * terms; i++)
        sum[i] = vzero();
    const ptrdiff_t last = conv_part(d->regions, d->pieces, piece + 1);
    for (ptrdiff_t region = conv_part(d->regions, d->pieces, piece); region < last; region++) {
        const conv_region r = conv_find_region(j, p, region);
        const real *in = (const real *)d->call.in + r.image * j->in_batch + g * j->in_group;
        const real *out = (const real *)d->call.w + r.image * j->out_batch + g * j->out_group + m0 * j->out_channel +
                          conv_region_start(j, &r);
        FN(conv_fill_grad)(j, p, d->grad_plane, out, nm, r.rows, r.cols, grad);
        for (ptrdiff_t c0 = 0; c0 < j->channels; c0 += p->chunk) {
            const ptrdiff_t nc = conv_min(p->chunk, j->channels - c0), tiles = conv_ceil(nc * taps, CONV_LANES_N);
            FN(conv_fill_band)(j, p, in, c0, nc, &r, band);
            for (ptrdiff_t m = 0; m < nm;) {
                const ptrdiff_t h = conv_min(CONV_LANES_M, nm - m);
                for (ptrdiff_t i = 0; i < tiles; i++) {
                    const ptrdiff_t n0 = conv_part(nc * taps, tiles, i), n1 = conv_part(nc * taps, tiles, i + 1);
                    const real *row[CONV_LANES_N], *cells = band + n0 / taps * p->channel;
                    for (ptrdiff_t n = n0, tap = n0 % taps; n < n1; n++) {
                        row[n - n0] = cells + d->tap[tap];
                        if (++tap == taps)
                            tap = 0, cells += p->channel;
                    }
                    FN(conv_lanes_tiles)[n1 - n0 - 1][h - 1](grad + m * d->grad_plane, d->grad_plane, row,
                                                             (r.rows - 1) * p->row + r.cols,
                                                             sum + m * terms + c0 * taps + n0, terms);
                }
                m += h;
            }
        }
    }
    real *partial = (real *)d->partial + ((piece * j->groups + g) * j->outputs + m0) * terms;
    for (ptrdiff_t i = 0; i < nm * terms; i++)
        partial[i] = vhsum(sum[i]);
}

FUNC void FN(conv_lanes_worker)(conv_lanes *d, ptrdiff_t i)
{
    char *mine = d->memory + (size_t)i * d->worker_bytes;
    vec *sum = (vec *)mine;
    real *band = (real *)(mine + conv_lanes_sums(d));
    real *grad = (real *)((char *)band + conv_round64(d->band.cells * (ptrdiff_t)sizeof(real)));
    for (ptrdiff_t unit; (unit = conv_take(&d->next, d->units)) >= 0;)
        FN(conv_lanes_unit)(d, unit, sum, band, grad);
}

/* the pieces of one output channel (counted through all groups), in order, to the weight gradient */
FUNC void FN(conv_lanes_sum)(conv_lanes *d, ptrdiff_t i)
{
    const conv_job *j = d->call.job;
    const real *partial = (const real *)d->partial + i * conv_terms(j);
    real *out = (real *)d->call.out + i / j->outputs * j->w_group + i % j->outputs * j->w_output;
    const ptrdiff_t step = j->groups * j->outputs * conv_terms(j);
    double bad = 0;
    for (ptrdiff_t c = 0; c < j->channels; c++)
        for (ptrdiff_t z = 0; z < j->kernel[0]; z++)
            for (ptrdiff_t y = 0; y < j->kernel[1]; y++)
                for (ptrdiff_t x = 0; x < j->kernel[2]; x++, partial++) {
                    double sum = 0;
                    for (ptrdiff_t piece = 0; piece < d->pieces; piece++)
                        sum += (double)partial[piece * step];
                    out[c * j->w_channel + z * j->w_axis[0] + y * j->w_axis[1] + x * j->w_axis[2]] = (real)sum;
                    bad += sum * 0;
                }
    if (bad != 0) /* NaN */
        __atomic_store_n(&d->poisoned, 1, __ATOMIC_RELAXED);
}

/* ---- outer ---- */

/* sum[r][v] += cells row[r][k] times gradients b[k][v], k over `count` cells of each of `lines` lines of the band, which lie
 * `apart`; rows and nv are constants after inlining */
INLINE void FN(conv_outer_tile)(const int rows, const int nv, ptrdiff_t lines, ptrdiff_t apart, ptrdiff_t count,
                                const real *const *row,
                                const real *b, real *sum)
{
    vec s[24];
    const real *at[8];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
        at[r] = row[r];
#pragma GCC unroll 24
    for (int i = 0; i < rows * nv; i++)
        s[i] = vload(sum + i * LANES);
    for (ptrdiff_t from = 0; lines > 0; lines--, from += apart)
        for (ptrdiff_t k = from; k < from + count; k++, b += nv * LANES) {
            vec a[4];
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                a[v] = vload(b + v * LANES);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                const vec x = vset(at[r][k]);
#pragma GCC unroll 4
                for (int v = 0; v < nv; v++)
                    s[r * nv + v] = vfma(x, a[v], s[r * nv + v]);
            }
        }
#pragma GCC unroll 24
    for (int i = 0; i < rows * nv; i++)
        vstore(sum + i * LANES, s[i]);
}

#define CONV_OUTER_ARGS                                                                                                  \
    ptrdiff_t lines, ptrdiff_t apart, ptrdiff_t count, const real *const *row, const real *b, real *sum
#define CONV_OUTER_EACH(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define CONV_OUTER_ONE(n, nv)                                                                                            \
    FUNC void FN(conv_outer_tile_##nv##_##n)(CONV_OUTER_ARGS)                                                            \
    {                                                                                                                    \
        FN(conv_outer_tile)(nv <= CONV_OUTER_VECTORS && n <= CONV_OUTER_ROWS(nv) ? n : 1,                                \
                            nv <= CONV_OUTER_VECTORS ? nv : 1, lines, apart, count, row, b, sum);                        \
    }
#define X(n) CONV_OUTER_ONE(n, 1) CONV_OUTER_ONE(n, 2) CONV_OUTER_ONE(n, 3) CONV_OUTER_ONE(n, 4)
CONV_OUTER_EACH(X)
#undef X
typedef void (*FN(conv_outer_function))(CONV_OUTER_ARGS);
#define X(n) {FN(conv_outer_tile_1_##n), FN(conv_outer_tile_2_##n), FN(conv_outer_tile_3_##n), FN(conv_outer_tile_4_##n)},
/* [rows - 1][vectors - 1] */
static const FN(conv_outer_function) FN(conv_outer_tiles)[8][4] __attribute__((unused)) = {CONV_OUTER_EACH(X)};
#undef X

/* the gradient of a region, [panel][position][width], missing outputs 0 */
FUNC void FN(conv_transpose_grad)(const conv_outer *d, const real *grad, ptrdiff_t rows, ptrdiff_t cols, real *to)
{
    const conv_job *j = d->call.job;
    for (ptrdiff_t m0 = 0; m0 < j->outputs; m0 += d->width, to += rows * cols * d->width)
        for (ptrdiff_t v = 0; v < d->width; v += LANES) {
            const ptrdiff_t nm = conv_max(0, conv_min(LANES, j->outputs - m0 - v));
            for (ptrdiff_t y = 0; y < rows; y++) {
                real *row = to + y * cols * d->width;
                const real *from = grad + (m0 + v) * j->out_channel + y * j->out_axis[1];
                if (j->out_axis[2] == 1)
                    for (ptrdiff_t x = 0; x < cols; x += LANES)
                        FN(transpose_tile)(from + x, j->out_channel, nm, cols - x, row + x * d->width + v, d->width);
                else if (nm == LANES && j->out_channel == 1)
                    for (ptrdiff_t x = 0; x < cols; x++)
                        vstore(row + x * d->width + v, vload(from + x * j->out_axis[2]));
                else
                    for (ptrdiff_t x = 0; x < cols; x++)
                        for (ptrdiff_t m = 0; m < LANES; m++)
                            row[x * d->width + v + m] = m < nm ? from[x * j->out_axis[2] + m * j->out_channel] : 0;
            }
        }
}

/* one unit: some channels of one group, summed over one piece of the regions */
FUNC void FN(conv_outer_unit)(const conv_outer *d, ptrdiff_t unit, real *band, real *grad)
{
    const conv_job *j = d->call.job;
    const conv_band *p = &d->band;
    const ptrdiff_t split = conv_split(&unit, d->splits), g = conv_split(&unit, j->groups), piece = unit;
    const ptrdiff_t taps = conv_taps(j), terms = j->channels * taps, height = CONV_OUTER_ROWS(d->vectors);
    const ptrdiff_t first = split * conv_outer_channels(d), end = conv_min(first + conv_outer_channels(d), j->channels);
    const ptrdiff_t block = CONV_OUTER_BLOCK / (d->width * (ptrdiff_t)sizeof(real));
    real *sum = (real *)d->partial + (piece * j->groups + g) * d->panels * terms * d->width;
    for (ptrdiff_t i = 0; i < d->panels; i++)
        FN(conv_zero)(sum + (i * terms + first * taps) * d->width, (end - first) * taps * d->width);
    const ptrdiff_t last = conv_part(d->regions, d->pieces, piece + 1);
    for (ptrdiff_t region = conv_part(d->regions, d->pieces, piece); region < last; region++) {
        const conv_region r = conv_find_region(j, p, region);
        const real *in = (const real *)d->call.in + r.image * j->in_batch + g * j->in_group;
        const real *out = (const real *)d->call.w + r.image * j->out_batch + g * j->out_group + conv_region_start(j, &r);
        const ptrdiff_t lines = conv_max(1, block / r.cols);
        FN(conv_transpose_grad)(d, out, r.rows, r.cols, grad);
        const ptrdiff_t chunk = d->in_place ? end - first : p->chunk;
        for (ptrdiff_t c0 = first; c0 < end; c0 += chunk) {
            const ptrdiff_t nc = conv_min(chunk, end - c0), tiles = conv_ceil(nc * taps, height);
            const real *from = band;
            ptrdiff_t channel = p->channel;
            if (d->in_place) {
                from = in + c0 * j->in_channel + r.z * j->in_axis[0] + r.x;
                channel = j->in_channel;
            } else
                FN(conv_fill_band)(j, p, in, c0, nc, &r, band);
            for (ptrdiff_t y = 0; y < r.rows; y += lines)
                for (ptrdiff_t x = 0; x < r.cols; x += block)
                    for (ptrdiff_t i = 0; i < d->panels; i++)
                        for (ptrdiff_t t = 0; t < tiles; t++) {
                            const ptrdiff_t n0 = conv_part(nc * taps, tiles, t), n1 = conv_part(nc * taps, tiles, t + 1);
                            const real *row[8], *cells = from + n0 / taps * channel + y * p->row + x;
                            for (ptrdiff_t n = n0, tap = n0 % taps; n < n1; n++) {
                                row[n - n0] = cells + d->tap[tap];
                                if (++tap == taps)
                                    tap = 0, cells += channel;
                            }
                            FN(conv_outer_tiles)[n1 - n0 - 1][d->vectors - 1](
                                conv_min(lines, r.rows - y), p->row, conv_min(block, r.cols - x), row,
                                grad + (i * r.rows * r.cols + y * r.cols + x) * d->width,
                                    sum + (i * terms + c0 * taps + n0) * d->width);
                        }
        }
    }
}

FUNC void FN(conv_outer_worker)(conv_outer *d, ptrdiff_t i)
{
    char *mine = d->memory + (size_t)i * d->worker_bytes;
    real *band = (real *)mine, *grad = (real *)(mine + conv_round64(d->band.cells * (ptrdiff_t)sizeof(real)));
    for (ptrdiff_t unit; (unit = conv_take(&d->next, d->units)) >= 0;)
        FN(conv_outer_unit)(d, unit, band, grad);
}

/* the pieces of some terms of one panel, in order, to the weight gradient */
FUNC void FN(conv_outer_sum)(conv_outer *d, ptrdiff_t i)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t terms = conv_terms(j), all = conv_outer_set(d);
    const ptrdiff_t first = conv_split(&i, conv_ceil(terms, CONV_SUM_TERMS)) * CONV_SUM_TERMS, n = conv_min(CONV_SUM_TERMS,
                                                                                                            terms - first);
    const ptrdiff_t panel = conv_split(&i, d->panels), g = i, m0 = panel * d->width, nm = conv_min(d->width, j->outputs - m0);
    const real *partial = (const real *)d->partial + ((g * d->panels + panel) * terms + first) * d->width;
    real *out = (real *)d->call.out + g * j->w_group + m0 * j->w_output, sum[CONV_SUM_TERMS][4 * LANES];
    ptrdiff_t to[CONV_SUM_TERMS];
    real bad = 0;
    for (ptrdiff_t t = 0; t < n; t++, partial += d->width) {
        for (ptrdiff_t v = 0; v < d->width; v += WLANES) {
            wvec s = wload(partial + v);
            for (ptrdiff_t piece = 1; piece < d->pieces; piece++)
                s = s + wload(partial + piece * all + v);
            wstore(&sum[t][v], s);
        }
        ptrdiff_t rest = first + t;
        to[t] = conv_split(&rest, j->kernel[2]) * j->w_axis[2];
        to[t] += conv_split(&rest, j->kernel[1]) * j->w_axis[1];
        to[t] += conv_split(&rest, j->kernel[0]) * j->w_axis[0];
        to[t] += rest * j->w_channel;
    }
    for (ptrdiff_t m = 0; m < nm; m++)
        for (ptrdiff_t t = 0; t < n; t++) {
            out[m * j->w_output + to[t]] = sum[t][m];
            bad += sum[t][m] * 0;
        }
    if (bad != 0) /* NaN */
        __atomic_store_n(&d->poisoned, 1, __ATOMIC_RELAXED);
}

/* ---- the bias gradient ---- */

/* sum of n elements in double: element i in lane i mod 4 * WLANES, the lanes in a fixed order */
FUNC double FN(conv_sum)(const real *x, ptrdiff_t n)
{
    wvec s[4] = {wset(0), wset(0), wset(0), wset(0)};
    ptrdiff_t i = 0;
    for (; i + 4 * WLANES <= n; i += 4 * WLANES)
        for (int l = 0; l < 4; l++)
            s[l] = s[l] + wload(x + i + l * WLANES);
    double sum = whsum((s[0] + s[1]) + (s[2] + s[3]));
    for (; i < n; i++)
        sum += (double)x[i];
    return sum;
}

/* piece i of the sums of all channels: some of the runs of each channel; or of the rows, where channels lie side by side */
FUNC void FN(conv_bias_piece)(conv_bias *d, ptrdiff_t i)
{
    const real *grad = (const real *)d->grad;
    double *sum = d->partial + i * d->channels;
    for (ptrdiff_t c = 0; c < d->channels; c++)
        sum[c] = 0;
    for (ptrdiff_t item = conv_part(d->items, d->pieces, i); item < conv_part(d->items, d->pieces, i + 1); item++) {
        if (d->inner == 1) {
            const real *row = grad + item * d->channels;
            for (ptrdiff_t c = 0; c < d->channels; c++)
                sum[c] += (double)row[c];
            continue;
        }
        const ptrdiff_t outer = item / d->runs, at = item % d->runs * CONV_BIAS_RUN;
        const real *run = grad + outer * d->channels * d->inner + at;
        for (ptrdiff_t c = 0; c < d->channels; c++)
            sum[c] += FN(conv_sum)(run + c * d->inner, conv_min(CONV_BIAS_RUN, d->inner - at));
    }
}

FUNC void FN(conv_bias_sum)(conv_bias *d, ptrdiff_t c)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < d->pieces; i++)
        sum += d->partial[i * d->channels + c];
    ((real *)d->out)[c] = (real)sum;
}
