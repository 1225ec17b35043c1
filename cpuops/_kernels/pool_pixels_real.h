/* pool_pixels_real.h: cells as several ways write and move them. Included by pool.h only. */

/* a vector at a time, the last one partial */
INLINE void FN(store_some)(real *out, vec v, ptrdiff_t n)
{
    if (n >= LANES)
        vstore(out, v);
    else if (n > 0)
        vstore_n(out, v, n);
}

INLINE void FN(wstore_some)(real *out, wvec v, ptrdiff_t n)
{
    if (n >= WLANES)
        wstore(out, v);
    else if (n > 0)
        wstore_n(out, v, n);
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

/* to[i * pitch + k] = x[k * cells + i] for k < planes */
static void FN(turn)(const real *x, ptrdiff_t cells, ptrdiff_t planes, ptrdiff_t pitch, real *to)
{
    for (ptrdiff_t k = 0; k < planes; k += LANES)
        for (ptrdiff_t i = 0; i < cells; i += LANES)
            FN(transpose_tile)(x + k * cells + i, cells, least(LANES, planes - k), least(LANES, cells - i), to + i * pitch + k, pitch);
}

/* to[k * cells + i] = x[i * pitch + k] for k < planes */
static void FN(turn_back)(const real *x, ptrdiff_t pitch, ptrdiff_t cells, ptrdiff_t planes, real *to)
{
    real some[LANES * LANES + LANES];
    for (ptrdiff_t k = 0; k < planes; k += LANES) {
        ptrdiff_t here = least(LANES, planes - k);
        for (ptrdiff_t i = 0; i < cells && cells >= LANES; i += LANES) {
            ptrdiff_t at = least(i, cells - LANES);
            FN(transpose_tile)(x + at * pitch + k, pitch, LANES, here, to + k * cells + at, cells);
        }
        if (cells < LANES) { /* whole vectors would end beyond the last plane */
            FN(transpose_tile)(x + k, pitch, cells, here, some, cells);
            memcpy(to + k * cells, some, (size_t)(here * cells) * sizeof(real));
        }
    }
}
