/* reduce_runs_real.h: reductions of contiguous runs, one column each, for one scalar type. Included by reduce.h only. */

/* Sums begin at -0, the neutral element of addition: a sum of -0 alone is -0. */
INLINE double FN(sum_short)(const real *x, ptrdiff_t n)
{
    double s = -0.0;
    ptrdiff_t i = 0;
    if (n >= WLANES) {
        /* eight chains: an addition takes four turns, and two begin each */
        wvec a[8];
        for (int k = 0; k < 8; k++)
            a[k] = wset(-0.0);
        for (; i + 8 * WLANES <= n; i += 8 * WLANES) {
            ask_ahead(x + i, 8 * WLANES * sizeof(real));
            for (int k = 0; k < 8; k++)
                a[k] += wload(x + i + k * WLANES);
        }
        for (; i + WLANES <= n; i += WLANES)
            a[0] += wload(x + i);
        s = whsum(((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7])));
    }
    for (; i < n; i++)
        s += (double)x[i];
    return s;
}

FUNC double sum_run(const real *x, ptrdiff_t n)
{
    double s = -0.0;
    for (ptrdiff_t i = 0; i < n; i += REDUCE_RUN)
        s += FN(sum_short)(x + i, least(n - i, REDUCE_RUN));
    return s;
}

/* The extreme of n > 0 cells; NaN where there is one and `nan_stays`, else NaN are passed over (-inf or inf remains). */
INLINE real FN(extreme_of)(const real *x, ptrdiff_t n, int min, int nan_stays)
{
#define PICK(a, acc) (min ? vmin_fast(a, acc) : vmax_fast(a, acc))
    const vec start = vset(min ? (real)INFINITY : -(real)INFINITY);
    vec a = start, b = start, c = start, d = start;
    vmask nan = visnan(start);
    ptrdiff_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        ask_ahead(x + i, 4 * SIMD_BYTES);
        vec p = vload(x + i), q = vload(x + i + LANES), r = vload(x + i + 2 * LANES), s = vload(x + i + 3 * LANES);
        a = PICK(p, a);
        b = PICK(q, b);
        c = PICK(r, c);
        d = PICK(s, d);
        if (nan_stays)
            nan = mor(nan, mor(visnan2(p, q), visnan2(r, s)));
    }
    for (; i + LANES <= n; i += LANES) {
        vec p = vload(x + i);
        a = PICK(p, a);
        nan = mor(nan, visnan(p));
    }
    if (i < n && n >= LANES) {
        /* the last ones, some of them once more */
        vec p = vload(x + n - LANES);
        b = PICK(p, b);
        nan = mor(nan, visnan(p));
        i = n;
    }
    real m = min ? (real)INFINITY : -(real)INFINITY;
    if (n >= LANES) {
        a = PICK(PICK(a, b), PICK(c, d));
        m = min ? vhmin_fast(a) : vhmax_fast(a);
    }
    for (; i < n; i++) {
        m = (min ? x[i] < m : x[i] > m) ? x[i] : m;
        if (nan_stays && x[i] != x[i])
            return x[i];
    }
    return nan_stays && many(nan) ? (real)NAN : m;
#undef PICK
}
FUNC real FN(max_run)(const real *x, ptrdiff_t n) { return FN(extreme_of)(x, n, 0, 1); }
FUNC real FN(min_run)(const real *x, ptrdiff_t n) { return FN(extreme_of)(x, n, 1, 1); }
INLINE real FN(max_number_run)(const real *x, ptrdiff_t n) { return FN(extreme_of)(x, n, 0, 0); }
INLINE real extreme_run(const real *x, ptrdiff_t n, int min) { return min ? FN(min_run)(x, n) : FN(max_run)(x, n); }

/* index of the first cell that equals m, or that is NaN where m is; there is one */
FUNC ptrdiff_t FN(find_run)(const real *x, ptrdiff_t n, real m)
{
    for (ptrdiff_t i = 0; i + LANES <= n; i += LANES) {
        vec v = vload(x + i);
        int found = mfirst(m != m ? visnan(v) : veq(v, vset(m)));
        if (found < LANES)
            return i + found;
    }
    ptrdiff_t i = n / LANES * LANES;
    while (i < n - 1 && !(x[i] == m || (m != m && x[i] != x[i])))
        i++;
    return i;
}

/* The extreme of 0 < n <= REDUCE_RUN cells, as extreme_of, and its first index. Every GROUP cells leave an extreme of their
 * lanes, among which the winner is looked for. */
INLINE ptrdiff_t FN(place_of)(const real *x, ptrdiff_t n, int min, real *extreme)
{
#define PICK(a, b) (min ? vmin_fast(a, b) : vmax_fast(a, b))
    enum { GROUP = 4 * LANES };
    if (n >= GROUP) {
        vec seen[REDUCE_RUN / GROUP], best = vset(min ? (real)INFINITY : -(real)INFINITY);
        vmask nan = visnan(vzero());
        ptrdiff_t last = n - GROUP, groups = 0;
        for (ptrdiff_t i = 0; i < n; i += GROUP) {
            /* the last group begins earlier, where it must */
            const real *at = x + least(i, last);
            ask_ahead(at, 4 * SIMD_BYTES);
            vec a = vload(at), b = vload(at + LANES), c = vload(at + 2 * LANES), d = vload(at + 3 * LANES);
            vec top = PICK(PICK(a, b), PICK(c, d));
            best = PICK(best, top);
            seen[groups++] = top;
            nan = mor(nan, mor(visnan2(a, b), visnan2(c, d)));
        }
        if (!many(nan)) {
            real m = min ? vhmin_fast(best) : vhmax_fast(best);
            ptrdiff_t i = 0;
            while (!many(veq(seen[i], vset(m))))
                i++;
            i = least(i * GROUP, last);
            *extreme = m;
            uint64_t found = 0;
            for (int k = 3; k >= 0; k--)
                found = found << LANES | mbits(veq(vload(x + i + k * LANES), vset(m)));
            return i + __builtin_ctzll(found);
        }
    }
    *extreme = extreme_run(x, n, min);
    return FN(find_run)(x, n, *extreme);
#undef PICK
}
FUNC ptrdiff_t FN(place_max)(const real *x, ptrdiff_t n, real *m) { return FN(place_of)(x, n, 0, m); }
FUNC ptrdiff_t FN(place_min)(const real *x, ptrdiff_t n, real *m) { return FN(place_of)(x, n, 1, m); }

/* the cells of a vector as doubles: added up in halves, added to the halves of a sum, and back */
INLINE wvec FN(wide_sum)(vec e)
{
#if IS_F64
    return e;
#else
    return vwiden_lo(e) + vwiden_hi(e);
#endif
}
INLINE void FN(add_wide)(wvec *lo, wvec *hi, vec e)
{
#if IS_F64
    *lo += e;
    (void)hi;
#else
    *lo += vwiden_lo(e);
    *hi += vwiden_hi(e);
#endif
}
INLINE void FN(add_wide_product)(wvec *lo, wvec *hi, vec p, vec q)
{
#if IS_F64
    *lo += p * q;
    (void)hi;
#else
    *lo += vwiden_lo(p) * vwiden_lo(q);
    *hi += vwiden_hi(p) * vwiden_hi(q);
#endif
}
INLINE vec FN(narrow)(wvec lo, wvec hi)
{
#if IS_F64
    (void)hi;
    return lo;
#else
    return vnarrow(lo, hi);
#endif
}

/* sum of exp(x - m): all in double, so that the logarithm of a sum that one term dominates keeps the others */
FUNC double sum_exp_run(const real *x, ptrdiff_t n, real m)
{
    wvec a = wset(0);
    const vec shift = vset(m);
    ptrdiff_t i = 0;
    while (i + 2 * LANES <= n) {
        /* short sums that join a long one: their roundings do not add up */
        wvec b = wset(0), c = b;
        for (ptrdiff_t end = least(n - 2 * LANES, i + 64 * LANES); i <= end; i += 2 * LANES) {
            b += FN(wide_sum)(vexp(vload(x + i) - shift));
            c += FN(wide_sum)(vexp(vload(x + i + LANES) - shift));
        }
        a += b + c;
    }
    for (; i < n; i += LANES) {
        ptrdiff_t k = least(n - i, LANES);
        vec p = vexp(vload_n(x + i, k) - shift);
        real t[LANES] __attribute__((aligned(SIMD_BYTES))) = {0};
        vstore_n(t, p, k);
        a += FN(wide_sum)(vload(t));
    }
    return whsum(a);
}

/* A finite stand-in for a maximum: x - m is then -inf for x = -inf and inf for x = inf, never NaN. */
INLINE real FN(finite_bound)(real m) { return m > REAL_MAX ? REAL_MAX : m < -REAL_MAX ? -REAL_MAX : m; }

/* log(sum(exp(x))) as *m + log(*sum), from what these hold already (-REAL_MAX and 0 at the beginning) */
FUNC void logsumexp_run(const real *x, ptrdiff_t n, real *m, double *sum)
{
    for (ptrdiff_t i = 0; i < n; i += REDUCE_CHUNK) {
        ptrdiff_t k = least(n - i, REDUCE_CHUNK);
        real top = FN(finite_bound)(FN(max_number_run)(x + i, k));
        if (top > *m) {
            if (*sum != 0)
                *sum *= exp_one((double)*m - top);
            *m = top;
        }
        *sum += sum_exp_run(x + i, k, *m);
    }
}
