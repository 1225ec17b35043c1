/* pool_spans_real.h: sums and maxima of spans: cells that lie side by side. Included by pool.h only, after pool_join_real.h.
 *
 * A vector of results is made from as many spans at once, in vectors along each. A span's order depends on its length only.
 */

/* the first n lanes of v, n < WLANES, and padding behind them */
INLINE wvec FN(end_sums)(ptrdiff_t n, wvec v) { return vsel_f64(mspan_f64(0, n), v, wset(-0.0)); }

/* sums of WLANES spans, taps[k] cells from at[k] on; where there are fewer than WLANES, a whole vector may be read all the same */
INLINE wvec FN(span_sums)(const real *const *at, const ptrdiff_t *taps)
{
    wvec sum[WLANES];
    ptrdiff_t common = taps[0], t = WLANES;
    for (int k = 1; k < WLANES; k++)
        common = least(common, taps[k]);
    for (int k = 0; k < WLANES; k++)
        sum[k] = wload(at[k]);
    for (; t + WLANES <= common; t += WLANES)
        for (int k = 0; k < WLANES; k++)
            sum[k] += wload(at[k] + t);
    for (int k = 0; k < WLANES; k++) {
        ptrdiff_t i = t;
        if (taps[k] < WLANES) {
            sum[k] = FN(end_sums)(taps[k], sum[k]);
            continue;
        }
        for (; i + WLANES <= taps[k]; i += WLANES)
            sum[k] += wload(at[k] + i);
        if (i < taps[k]) /* the last vector begins among cells that are in the sum already */
            sum[k] += vsel_f64(mspan_f64(i + WLANES - taps[k], WLANES), wload(at[k] + taps[k] - WLANES), wset(-0.0));
    }
    return joined_f64(sum, SUM_f64);
}

/* the same of n <= WLANES rows of `cells` >= WLANES cells, one behind the other */
INLINE wvec FN(row_sums)(const real *x, ptrdiff_t cells, ptrdiff_t n)
{
    const real *at[WLANES];
    wvec sum[WLANES];
    ptrdiff_t t = WLANES;
    vmask_f64 rest = mspan_f64(WLANES - cells % WLANES, WLANES);
    for (int k = 0; k < WLANES; k++) {
        at[k] = x + least(k, n - 1) * cells;
        sum[k] = wload(at[k]);
    }
    for (; t + WLANES <= cells; t += WLANES)
        for (int k = 0; k < WLANES; k++)
            sum[k] += wload(at[k] + t);
    if (t < cells)
        for (int k = 0; k < WLANES; k++)
            sum[k] += vsel_f64(rest, wload(at[k] + cells - WLANES), wset(-0.0));
    return joined_f64(sum, SUM_f64);
}

/* maxima of LANES spans, as above */
INLINE vec FN(span_tops)(const real *const *at, const ptrdiff_t *taps)
{
    vec top[LANES];
    ptrdiff_t common = taps[0], t = LANES;
    for (int k = 1; k < LANES; k++)
        common = least(common, taps[k]);
    for (int k = 0; k < LANES; k++)
        top[k] = vload(at[k]);
    for (; t + LANES <= common; t += LANES)
        for (int k = 0; k < LANES; k++)
            top[k] = vmax(vload(at[k] + t), top[k]);
    for (int k = 0; k < LANES; k++) {
        if (taps[k] < LANES)
            top[k] = vsel(mspan(0, taps[k]), top[k], vset(-(real)INFINITY));
        for (ptrdiff_t i = t; i < taps[k]; i += LANES)
            top[k] = vmax(vload(at[k] + least(i, taps[k] - LANES)), top[k]);
    }
    return FN(joined)(top, FN(TOP));
}

INLINE vec FN(row_tops)(const real *x, ptrdiff_t cells, ptrdiff_t n)
{
    const real *at[LANES];
    vec top[LANES];
    for (int k = 0; k < LANES; k++) {
        at[k] = x + least(k, n - 1) * cells;
        top[k] = vload(at[k]);
    }
    for (ptrdiff_t t = LANES; t < cells; t += LANES)
        for (int k = 0; k < LANES; k++)
            top[k] = vmax(vload(at[k] + least(t, cells - LANES)), top[k]);
    return FN(joined)(top, FN(TOP));
}
