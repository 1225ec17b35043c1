/* pool_pixels_real.h: cells of one scalar type that several ways write. Included by pool.h only. */

/* n pixels of channels c.. of out */
static void FN(zero_pixels)(real *out, ptrdiff_t n, ptrdiff_t channels, ptrdiff_t pixel)
{
    if (channels == pixel)
        memset(out, 0, (size_t)(n * pixel) * sizeof(real));
    else
        for (ptrdiff_t i = 0; i < n; i++)
            memset(out + i * pixel, 0, (size_t)channels * sizeof(real));
}
