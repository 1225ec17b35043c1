/* conv_band_real.h: the body of conv_band.h for one scalar type, and runs of cells in general. */

/* ---- runs of cells ---- */

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

/* `count` rows of n zeros, `ld` apart */
INLINE void FN(conv_zero_rows)(real *to, ptrdiff_t ld, ptrdiff_t n, ptrdiff_t count)
{
#if SIMD_AVX512
    for (; n > 0; n -= LANES, to += LANES) {
        const ptrdiff_t cells = conv_min(n, LANES);
        for (ptrdiff_t i = 0; i < count; i++)
            vstore_n(to + i * ld, vzero(), cells);
    }
#else
    for (ptrdiff_t i = 0; i < count; i++)
        FN(conv_zero)(to + i * ld, n);
#endif
}

/* Rows are walked strip by strip where masks cost nothing to use, but something to make: a strip's are the same in all rows. Of n
 * cells that are left it has `cells`; of every other one of a row, 2 cells - 1 to the last of these, `low` and `high` in two vectors */
typedef struct {
    ptrdiff_t cells, low, high;
} FN(conv_strip);
INLINE FN(conv_strip) FN(conv_strip_of)(ptrdiff_t n)
{
    const ptrdiff_t cells = conv_min(n, LANES), span = 2 * cells - 1;
    FN(conv_strip) s = {cells, conv_min(span, LANES), conv_max(span - LANES, 0)};
    return s;
}

/* to[0..n-1] = from[0], from[step], ... in `count` rows, `ld` apart in `to` and `apart` in `from`; cells `ahead` of these will be
 * wanted soon, unless it is 0 */
INLINE void FN(conv_copy_rows)(real *to, ptrdiff_t ld, const real *from, ptrdiff_t apart, ptrdiff_t step, ptrdiff_t n,
                               ptrdiff_t count, ptrdiff_t ahead)
{
#if SIMD_AVX512
    for (; step <= 2 && n > 0; n -= LANES, to += LANES, from += step * LANES) {
        const FN(conv_strip) s = FN(conv_strip_of)(n);
        const real *f = from;
        real *t = to;
        if (step == 1)
            for (ptrdiff_t i = 0; i < count; i++, t += ld, f += apart) {
                if (ahead)
                    __builtin_prefetch(f + ahead);
                vstore_n(t, vload_n(f, s.cells), s.cells);
            }
        else
            for (ptrdiff_t i = 0; i < count; i++, t += ld, f += apart) {
                vec even, odd;
                if (ahead) {
                    __builtin_prefetch(f + ahead);
                    __builtin_prefetch(f + ahead + LANES);
                }
                vdeal(vload_n(f, s.low), vload_n(f + LANES, s.high), &even, &odd);
                vstore_n(t, even, s.cells);
            }
    }
    if (n <= 0)
        return;
#endif
    for (ptrdiff_t r = 0; r < count; r++, to += ld, from += apart) {
        ptrdiff_t i = 0;
        if (ahead) {
            __builtin_prefetch(from + ahead);
            __builtin_prefetch(from + ahead + LANES);
        }
        if (step == 1) {
            FN(conv_copy)(to, from, n);
            continue;
        }
        if (step == 2)
            for (vec even, odd; i + LANES < n; i += LANES) { /* reads one cell beyond the last of these, hence < */
                vdeal(vload(from + 2 * i), vload(from + 2 * i + LANES), &even, &odd);
                vstore(to + i, even);
            }
        for (; i < n; i++)
            to[i] = from[i * step];
    }
}

/* the cells of two vectors that hold every other one of a row, the first among them */
INLINE vmask FN(conv_evens)(void)
{
    vec even, odd;
    vzip(vset(1), vzero(), &even, &odd);
    return vgt(even, vzero());
}

/* out[0], out[step], ... (+)= tile[0..n-1] in `rows` rows, `ld` apart in `tile` and `apart` in `out` */
INLINE void FN(conv_store_runs)(const real *tile, ptrdiff_t ld, real *out, ptrdiff_t apart, ptrdiff_t step, ptrdiff_t n,
                                ptrdiff_t rows, int add)
{
    const vmask mine = FN(conv_evens)(); /* the others are somebody else's and stay; none beyond the last of these is touched */
    vec a, b;
#if SIMD_AVX512
    for (; step <= 2 && n > 0; n -= LANES, tile += LANES, out += step * LANES) {
        const FN(conv_strip) s = FN(conv_strip_of)(n);
        const real *t = tile;
        real *o = out;
        if (step == 1)
            for (ptrdiff_t r = 0; r < rows; r++, t += ld, o += apart)
                vstore_n(o, add ? vload_n(o, s.cells) + vload_n(t, s.cells) : vload_n(t, s.cells), s.cells);
        else
            for (ptrdiff_t r = 0; r < rows; r++, t += ld, o += apart) {
                const vec low = vload_n(o, s.low), high = vload_n(o + LANES, s.high);
                vzip(vload_n(t, s.cells), vzero(), &a, &b);
                vstore_n(o, vsel(mine, add ? low + a : a, low), s.low);
                vstore_n(o + LANES, vsel(mine, add ? high + b : b, high), s.high);
            }
    }
    if (n <= 0)
        return;
#endif
    for (ptrdiff_t r = 0; r < rows; r++, tile += ld, out += apart) {
        ptrdiff_t i = 0;
        if (step == 1 && !add) {
            FN(conv_copy)(out, tile, n);
            continue;
        }
        if (step == 1)
            for (; i + LANES <= n; i += LANES)
                vstore(out + i, vload(out + i) + vload(tile + i));
        if (step == 2 && !add)
            for (; i + LANES < n; i += LANES) {
                vzip(vload(tile + i), vzero(), &a, &b);
                vstore(out + 2 * i, vsel(mine, a, vload(out + 2 * i)));
                vstore(out + 2 * i + LANES, vsel(mine, b, vload(out + 2 * i + LANES)));
            }
        for (; i < n; i++)
            out[i * step] = add ? out[i * step] + tile[i] : tile[i];
    }
}

/* whether no element is infinite or NaN */
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

/* ---- the band ---- */

/* one row of the planes of nc channels that lie side by side: cells first..first+n-1, the margins 0 */
INLINE void FN(conv_fill_channels)(const conv_band *p, const real *from, ptrdiff_t apart, ptrdiff_t nc, ptrdiff_t first,
                                   ptrdiff_t n, real *to)
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

/* the band of channels c0..c0+nc-1 for a region; `in` at its image and group. All that a tile can read is written: what it
 * does not use shall be no NaN, nor subnormal, which is slow */
FUNC void FN(conv_fill_band)(const conv_job *j, const conv_band *p, const real *in, ptrdiff_t c0, ptrdiff_t nc,
                             const conv_region *r, real *band)
{
    const ptrdiff_t height = r->rows + p->reach_y, above = j->step[1] * j->in_axis[1], apart = j->step[2] * j->in_axis[2];
    const int together = j->in_channel == 1 && nc >= 4;
    vstore(band + nc * p->channel, vzero());
    for (ptrdiff_t t = 0; t < j->kernel[0]; t++)
        for (ptrdiff_t fy = 0; fy < p->phases_y; fy++)
            for (ptrdiff_t fx = 0; fx < p->phases_x; fx++, band += p->plane) {
                const ptrdiff_t iz = r->z * j->step[0] + t * j->dil[0] + j->off[0];
                const ptrdiff_t ystart = r->y * j->step[1] + conv_phase_cell(j, 1, fy) + j->off[1];
                const ptrdiff_t xstart = r->x * j->step[2] + conv_phase_cell(j, 2, fx) + j->off[2];
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
                    if (together)
                        continue;
                    for (ptrdiff_t e = top; e < end && !small; e++) {
                        real *to = plane + e * p->row;
                        for (ptrdiff_t i = 0; i < first; i++)
                            to[i] = 0;
                        for (ptrdiff_t i = last + 1; i < p->row; i++)
                            to[i] = 0;
                    }
                    FN(conv_copy_rows)(plane + top * p->row + first, p->row, from + top * above, above, apart, n, end - top, 0);
                }
            }
}
