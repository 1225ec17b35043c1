/* pool_avg_threes_real.h: averages of windows of three cells along W, one or two apart, of one channel: in registers, without a line, in
 * the order of the runs. Included by pool_avg_real.h only, which says what is summed.
 */

/* the sums of a vector of columns from `column`, -1 or more, of rows of `width` cells; r->x: column 0 of the first row */
INLINE wvec FN(sum_cells)(const FN(avg_rows) *r, ptrdiff_t column, ptrdiff_t width, ptrdiff_t nd, ptrdiff_t nh)
{
    if (column >= 0 && column + WLANES <= width)
        return FN(sum_rows)(r, column, nd, nh, WLANES);
    if (column >= width)
        return wset(-0.0);
    ptrdiff_t first = most(column, 0), n = least(WLANES, width - first);
    wvec v = FN(end_sums)(n, FN(sum_rows)(r, first, nd, nh, n));
    return column < 0 ? lag_f64(wset(-0.0), v, 1) : v;
}

INLINE void FN(avg_threes_of)(const FN(avg_rows) *r, ptrdiff_t nd, ptrdiff_t nh, int stride, ptrdiff_t column, ptrdiff_t width, const double *scale,
                              ptrdiff_t n, real *out)
{
    wvec a = FN(sum_cells)(r, column, width, nd, nh), v[3];
    for (ptrdiff_t i = 0; i < n; i += WLANES) {
        wvec b = FN(sum_cells)(r, column + WLANES, width, nd, nh), next = b;
        column += stride * WLANES;
        if (stride == 2)
            next = FN(sum_cells)(r, column, width, nd, nh);
        three_taps_f64(a, b, next, stride, v);
        FN(wstore_some)(out + i, QUOTIENT(v[0] + v[1] + v[2], vload_f64(scale + i)), n - i);
        a = next;
    }
}

/* a row of n outputs from `column` on */
FUNC void FN(avg_threes)(const FN(avg_rows) *r, int stride, ptrdiff_t column, ptrdiff_t width, const double *scale, ptrdiff_t n, real *out)
{
#define CALL(nd, nh)                                                              \
    if (stride == 2)                                                              \
        FN(avg_threes_of)(r, nd, nh, 2, column, width, scale, n, out);            \
    else                                                                          \
        FN(avg_threes_of)(r, nd, nh, 1, column, width, scale, n, out)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}
