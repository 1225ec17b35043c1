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
