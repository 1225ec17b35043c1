/* reduce_real.h: the loops of reduce.h for one scalar type. Included by reduce.h only. */

/* ================================================ contiguous runs: one column ================================ */

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
FUNC real FN(max_number_run)(const real *x, ptrdiff_t n) { return FN(extreme_of)(x, n, 0, 0); }
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

/* sum of exp(x - m); with `out`, the exponentials are kept there */
INLINE double FN(sum_exp_of)(const real *x, ptrdiff_t n, real m, real *out)
{
    wvec a = wset(0);
    const vec shift = vset(m);
    ptrdiff_t i = 0;
    while (i + 2 * LANES <= n) {
        /* short sums that join a long one: their roundings do not add up */
        wvec b = wset(0), c = b;
        for (ptrdiff_t end = least(n - 2 * LANES, i + 64 * LANES); i <= end; i += 2 * LANES) {
            vec p = vexp(vload(x + i) - shift), q = vexp(vload(x + i + LANES) - shift);
            if (out) {
                vstore(out + i, p);
                vstore(out + i + LANES, q);
            }
            b += FN(wide_sum)(p);
            c += FN(wide_sum)(q);
        }
        a += b + c;
    }
    for (; i < n; i += LANES) {
        ptrdiff_t k = least(n - i, LANES);
        vec p = vexp(vload_n(x + i, k) - shift);
        real t[LANES] __attribute__((aligned(SIMD_BYTES))) = {0};
        vstore_n(t, p, k);
        if (out)
            vstore_n(out + i, p, k);
        a += FN(wide_sum)(vload(t));
    }
    return whsum(a);
}
FUNC double sum_exp_run(const real *x, ptrdiff_t n, real m) { return FN(sum_exp_of)(x, n, m, NULL); }
FUNC double FN(exp_run)(const real *x, ptrdiff_t n, real m, real *out) { return FN(sum_exp_of)(x, n, m, out); }

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

/* ================================================ tiles: columns side by side ================================ */

/* State of up to REDUCE_TILE columns. SUM: sum. MAX, MIN: m. ARG: m, index. LOGSUMEXP: m, sum. `rest` is for the loops. */
typedef struct {
    real m[REDUCE_TILE];
    union {
        double sum[REDUCE_TILE];
        int64_t index[REDUCE_TILE];
    };
    union {
        double sum[REDUCE_TILE];
        inum index[REDUCE_TILE];
    } rest;
} SeenTile;

#define EACH(c, width) for (ptrdiff_t c = 0; c < (width); c += LANES)
#define COUNT(c, width) least((width) - (c), LANES)

FUNC void FN(sum_tile)(SeenTile *t, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step)
{
    double *part = t->rest.sum;
    for (ptrdiff_t top = 0; top < rows; top += REDUCE_RUN / 8) {
        ptrdiff_t r = top, end = least(rows, top + REDUCE_RUN / 8);
        for (ptrdiff_t c = 0; c < width; c++)
            part[c] = -0.0;
        for (; r + 4 <= end; r += 4) {
            const real *p = x + r * step, *q = p + step, *u = q + step, *v = u + step;
            ptrdiff_t c = 0;
            for (; c + WLANES <= width; c += WLANES) {
                wvec s = (wload(p + c) + wload(q + c)) + (wload(u + c) + wload(v + c));
                vstore_f64(part + c, vload_f64(part + c) + s);
            }
            for (; c < width; c++)
                part[c] += ((double)p[c] + (double)q[c]) + ((double)u[c] + (double)v[c]);
        }
        for (; r < end; r++) {
            const real *p = x + r * step;
            ptrdiff_t c = 0;
            for (; c + WLANES <= width; c += WLANES)
                vstore_f64(part + c, vload_f64(part + c) + wload(p + c));
            for (; c < width; c++)
                part[c] += (double)p[c];
        }
        for (ptrdiff_t c = 0; c < width; c++)
            t->sum[c] += part[c];
    }
}

INLINE void FN(extreme_tile)(SeenTile *t, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step, int min)
{
#define PICK(a, b) (min ? vmin(a, b) : vmax(a, b))
    ptrdiff_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const real *p = x + r * step, *q = p + step, *u = q + step, *v = u + step;
        ptrdiff_t c = 0;
        for (; c + LANES <= width; c += LANES) {
            vec s = PICK(PICK(vload(p + c), vload(q + c)), PICK(vload(u + c), vload(v + c)));
            vstore(t->m + c, PICK(vload(t->m + c), s));
        }
        for (; c < width; c += LANES) {
            ptrdiff_t k = width - c;
            vec s = PICK(PICK(vload_n(p + c, k), vload_n(q + c, k)), PICK(vload_n(u + c, k), vload_n(v + c, k)));
            vstore_n(t->m + c, PICK(vload_n(t->m + c, k), s), k);
        }
    }
    for (; r < rows; r++)
        EACH(c, width)
        {
            ptrdiff_t k = COUNT(c, width);
            vstore_n(t->m + c, PICK(vload_n(t->m + c, k), vload_n(x + r * step + c, k)), k);
        }
#undef PICK
}
FUNC void FN(max_tile)(SeenTile *t, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step)
{
    FN(extreme_tile)(t, x, rows, width, step, 0);
}
FUNC void FN(min_tile)(SeenTile *t, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step)
{
    FN(extreme_tile)(t, x, rows, width, step, 1);
}

/* `first` is the index of column c of row 0: first + c / fold_width; a row on, indices are `stride` larger */
INLINE void FN(index_tile)(SeenTile *t, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step, int min,
                           int64_t first, ptrdiff_t stride, ptrdiff_t fold_width)
{
    inum *row = t->rest.index;
    for (ptrdiff_t top = 0; top < rows; top += 1 << 24) {
        ptrdiff_t end = least(rows, top + (1 << 24));
        for (ptrdiff_t c = 0; c < width; c++)
            row[c] = -1;
        for (ptrdiff_t r = top; r < end; r++) {
            ivec here = ivset((inum)(r - top));
            EACH(c, width)
            {
                ptrdiff_t k = COUNT(c, width);
                vec v = vload_n(x + r * step + c, k), m = vload_n(t->m + c, k);
                vmask better = mor(min ? vlt(v, m) : vgt(v, m), mand(visnan(v), mnot(visnan(m))));
                vstore_n(t->m + c, vsel(better, v, m), k);
                vstore_n((real *)row + c, (vec)ivsel(better, here, (ivec)vload_n((real *)row + c, k)), k);
            }
        }
        for (ptrdiff_t slot = 0; slot * fold_width < width; slot++)
            for (ptrdiff_t c = slot * fold_width; c < least(width, (slot + 1) * fold_width); c++)
                t->index[c] = row[c] < 0 ? t->index[c] : first + (top + row[c]) * stride + slot;
    }
}
FUNC void FN(argmax_tile)(SeenTile *t, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step, int64_t first,
                          ptrdiff_t stride, ptrdiff_t fold_width)
{
    FN(index_tile)(t, x, rows, width, step, 0, first, stride, fold_width);
}
FUNC void FN(argmin_tile)(SeenTile *t, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step, int64_t first,
                          ptrdiff_t stride, ptrdiff_t fold_width)
{
    FN(index_tile)(t, x, rows, width, step, 1, first, stride, fold_width);
}

/* largest number of each column, within +-REAL_MAX, into top, from what it holds already */
FUNC void FN(max_number_tile)(real *top, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step)
{
    EACH(c, width)
    {
        ptrdiff_t k = COUNT(c, width);
        vec m = vload_n(top + c, k);
        for (ptrdiff_t r = 0; r < rows; r++)
            m = vmax_fast(vload_n(x + r * step + c, k), m);
        vstore_n(top + c, vmin_fast(m, vset(REAL_MAX)), k);
    }
}

/* sum[c] += exp(x - m[c]) over the rows, with what they held as doubles; with `out`, exponentials are kept there */
INLINE void FN(exp_tile)(const real *m, double *sum, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step,
                         real *out)
{
    EACH(c, width)
    {
        ptrdiff_t k = COUNT(c, width);
        const vec shift = vload_n(m + c, k);
        double s[LANES] __attribute__((aligned(64))) = {0};
        wvec lo = wset(0), hi = lo;
        for (ptrdiff_t r = 0; r < rows;) {
            /* short sums that join a long one: their roundings do not add up */
            wvec a = wset(0), b = a;
            for (ptrdiff_t end = least(rows, r + 32); r < end; r++) {
                vec e = vexp(vload_n(x + r * step + c, k) - shift);
                if (out)
                    vstore_n(out + r * step + c, e, k);
                FN(add_wide)(&a, &b, e);
            }
            lo += a;
            hi += b;
        }
        vstore_f64(s, lo);
        if (!IS_F64)
            vstore_f64(s + LANES_f64 % LANES, hi);
        for (ptrdiff_t i = 0; i < k; i++)
            sum[c + i] += s[i];
    }
}

FUNC void FN(logsumexp_tile)(SeenTile *t, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step)
{
    ptrdiff_t chunk = most(4, REDUCE_CHUNK / width);
    real before[REDUCE_TILE];
    for (ptrdiff_t r = 0; r < rows; r += chunk) {
        ptrdiff_t k = least(rows - r, chunk);
        memcpy(before, t->m, (size_t)width * sizeof(real));
        FN(max_number_tile)(t->m, x + r * step, k, width, step);
        for (ptrdiff_t c = 0; c < width; c += LANES_f64) {
            ptrdiff_t n = least(width - c, LANES_f64);
            wvec shift = vzero_f64(), sum = vload_n_f64(t->sum + c, n);
            for (ptrdiff_t i = 0; i < n; i++)
                shift[i] = (double)before[c + i] - (double)t->m[c + i];
            /* no sum yet, or the same bound: nothing to do, and 0 * exp(...) stays 0 */
            if (many_f64(vne_f64(sum, vzero_f64())) && many_f64(vne_f64(shift, vzero_f64())))
                vstore_n_f64(t->sum + c, sum * vexp_f64(shift), n);
        }
        FN(exp_tile)(t->m, t->sum, x + r * step, k, width, step, NULL);
    }
}

/* ================================================ states ===================================================== */

INLINE void FN(begin)(SeenTile *t, ptrdiff_t width, int op, int64_t first, ptrdiff_t fold_width)
{
    int argument = op == REDUCE_ARGMAX || op == REDUCE_ARGMIN, largest = op == REDUCE_MAX || op == REDUCE_ARGMAX;
    real m = op == REDUCE_LOGSUMEXP ? -REAL_MAX : largest ? -(real)INFINITY : (real)INFINITY;
    double sum = op == REDUCE_SUM ? -0.0 : 0.0;
    if (op != REDUCE_SUM)
        for (ptrdiff_t c = 0; c < width; c++)
            t->m[c] = m;
    if (argument)
        for (ptrdiff_t slot = 0; slot * fold_width < width; slot++)
            for (ptrdiff_t c = slot * fold_width; c < least(width, (slot + 1) * fold_width); c++)
                t->index[c] = first + slot;
    else
        for (ptrdiff_t c = 0; c < width; c++)
            t->sum[c] = sum;
}

/* column a of one state takes in column b of another */
INLINE void FN(merge)(SeenTile *to, ptrdiff_t a, const SeenTile *from, ptrdiff_t b, int op)
{
    real p = to->m[a], q = from->m[b];
    switch (op) {
    case REDUCE_SUM:
        to->sum[a] += from->sum[b];
        break;
    case REDUCE_MAX:
        to->m[a] = p != p || (p > q) ? p : q;
        break;
    case REDUCE_MIN:
        to->m[a] = p != p || (p < q) ? p : q;
        break;
    case REDUCE_LOGSUMEXP:
        if (q > p) {
            to->sum[a] = to->sum[a] == 0 ? from->sum[b] : to->sum[a] * exp_one((double)p - q) + from->sum[b];
            to->m[a] = q;
        } else if (from->sum[b] != 0)
            to->sum[a] += q == p ? from->sum[b] : from->sum[b] * exp_one((double)q - p);
        break;
    default: {
        int same = p == q || (p != p && q != q), wins = op == REDUCE_ARGMAX ? q > p : q < p;
        if (wins || (q != q && p == p) || (same && from->index[b] < to->index[a])) {
            to->m[a] = q;
            to->index[a] = from->index[b];
        }
    }
    }
}

/* `rows` rows of a tile, first index and stride as in index_tile */
INLINE void FN(take_tile)(SeenTile *t, int op, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step, int64_t first,
                          ptrdiff_t stride, ptrdiff_t fold_width)
{
    switch (op) {
    case REDUCE_SUM:
        FN(sum_tile)(t, x, rows, width, step);
        break;
    case REDUCE_MAX:
        FN(max_tile)(t, x, rows, width, step);
        break;
    case REDUCE_MIN:
        FN(min_tile)(t, x, rows, width, step);
        break;
    case REDUCE_ARGMAX:
        FN(argmax_tile)(t, x, rows, width, step, first, stride, fold_width);
        break;
    case REDUCE_ARGMIN:
        FN(argmin_tile)(t, x, rows, width, step, first, stride, fold_width);
        break;
    default:
        FN(logsumexp_tile)(t, x, rows, width, step);
    }
}

/* rows lo..hi of the reduced axes, flat, in one tile of columns that begins at x */
INLINE void FN(take)(SeenTile *t, const Reduction *p, int op, const real *x, ptrdiff_t tile, ptrdiff_t lo, ptrdiff_t hi)
{
    ptrdiff_t fold = most(1, least(REDUCE_FOLD / tile, p->rows)), wide = fold * tile;
    if (tile < p->width) {
        fold = 1;
        wide = tile;
    }
    FN(begin)(t, wide, op, lo, tile);
    for (ptrdiff_t at = lo; at < hi;) {
        ptrdiff_t segment = at / p->rows, row = at % p->rows, n = least(hi - at, p->rows - row);
        const real *s = x + reduced_at(p, segment) + row * p->width;
        ptrdiff_t whole = n / fold, left = n % fold, step = fold * p->width;
        /* whole rows of the folded matrix, then the beginning of one more */
        FN(take_tile)(t, op, s, whole, wide, step, at, fold, tile);
        if (left)
            FN(take_tile)(t, op, s + whole * step, 1, left * tile, step, at + whole * fold, fold, tile);
        at += n;
    }
    for (ptrdiff_t c = tile; c < wide; c++)
        FN(merge)(t, c % tile, t, c, op);
}

/* the same for width 1, where the rows are runs, into column j of an empty state */
INLINE void FN(take_runs)(SeenTile *t, ptrdiff_t j, const Reduction *p, int op, const real *x, ptrdiff_t lo, ptrdiff_t hi)
{
    for (ptrdiff_t at = lo; at < hi;) {
        ptrdiff_t segment = at / p->rows, row = at % p->rows, n = least(hi - at, p->rows - row);
        const real *s = x + reduced_at(p, segment) + row;
        real m;
        switch (op) {
        case REDUCE_SUM:
            t->sum[j] += sum_run(s, n);
            break;
        case REDUCE_MAX:
            m = extreme_run(s, n, 0);
            t->m[j] = t->m[j] != t->m[j] || t->m[j] > m ? t->m[j] : m;
            break;
        case REDUCE_MIN:
            m = extreme_run(s, n, 1);
            t->m[j] = t->m[j] != t->m[j] || t->m[j] < m ? t->m[j] : m;
            break;
        case REDUCE_LOGSUMEXP:
            logsumexp_run(s, n, t->m + j, t->sum + j);
            break;
        default:
            /* a run at a time, so that its places fit the lanes */
            for (ptrdiff_t i = 0; i < n; i += REDUCE_RUN) {
                ptrdiff_t k = least(n - i, REDUCE_RUN);
                ptrdiff_t place = op == REDUCE_ARGMAX ? FN(place_max)(s + i, k, &m) : FN(place_min)(s + i, k, &m);
                int wins = op == REDUCE_ARGMAX ? m > t->m[j] : m < t->m[j];
                if (wins || (m != m && t->m[j] == t->m[j])) {
                    t->m[j] = m;
                    t->index[j] = at + i + place;
                }
            }
        }
        at += n;
    }
}

/* outputs of one tile: `out` is real, or int64 for the indices; with `sums`, LOGSUMEXP gives m and sum apart */
FUNC void FN(finish)(const SeenTile *t, ptrdiff_t tile, ptrdiff_t at, int op, double divisor, int none, void *out, double *sums)
{
    real *to = (real *)out + at;
    if (op == REDUCE_SUM && none)
        for (ptrdiff_t c = 0; c < tile; c++)
            to[c] = (real)(0.0 / divisor);
    else if (op == REDUCE_SUM && divisor == 1)
        for (ptrdiff_t c = 0; c < tile; c++)
            to[c] = (real)t->sum[c];
    else if (op == REDUCE_SUM)
        for (ptrdiff_t c = 0; c < tile; c++)
            to[c] = (real)(t->sum[c] / divisor);
    else if (op == REDUCE_MAX || op == REDUCE_MIN || (op == REDUCE_LOGSUMEXP && sums))
        memcpy(to, t->m, (size_t)tile * sizeof(real));
    else if (op == REDUCE_LOGSUMEXP)
        for (ptrdiff_t c = 0; c < tile; c += LANES_f64) {
            ptrdiff_t k = least(tile - c, LANES_f64);
            double log_sum[LANES_f64] __attribute__((aligned(64)));
            vstore_f64(log_sum, vlog_f64(vload_n_f64(t->sum + c, k)));
            for (ptrdiff_t i = 0; i < k; i++)
                to[c + i] = (real)((double)t->m[c + i] + log_sum[i]);
        }
    else
        memcpy((int64_t *)out + at, t->index, (size_t)tile * sizeof(int64_t));
    if (op == REDUCE_LOGSUMEXP && sums)
        memcpy(sums + at, t->sum, (size_t)tile * sizeof(double));
}

FUNC void FN(take_cell)(SeenTile *t, const Reduction *p, int op, const real *x, ptrdiff_t cell, ptrdiff_t part)
{
    ptrdiff_t o = cell / p->tiles, column = cell % p->tiles * REDUCE_TILE, tile = least(p->width - column, REDUCE_TILE);
    ptrdiff_t length = p->segments * p->rows, size = cut(length, p->parts);
    ptrdiff_t lo = least(length, part * size), hi = least(length, lo + size);
    const real *base = x + kept_at(p, o) + column;
    if (p->width == 1) {
        FN(begin)(t, 1, op, lo, 1);
        FN(take_runs)(t, 0, p, op, base, lo, hi);
    } else
        FN(take)(t, p, op, base, tile, lo, hi);
}

/* One task of small matrices: as many as fit are laid side by side, so that all their columns go together. */
INLINE void FN(reduce_short)(SeenTile *t, const Reduction *p, int op, const real *x, void *out, double *sums, double divisor,
                             ptrdiff_t task)
{
    real beside[REDUCE_BESIDE];
    ptrdiff_t w = p->width, end = least(p->cells, (task + 1) * p->share);
    ptrdiff_t most_cells = least(REDUCE_FOLD, REDUCE_BESIDE / most(1, p->rows)) / w;
    for (ptrdiff_t cell = task * p->share; cell < end; cell += most_cells) {
        ptrdiff_t cells = least(end - cell, most_cells), wide = cells * w;
        /* where there is one matrix a cell, they follow one another */
        const real *from = x + cell * p->rows * w;
        if (w == 1)
            for (ptrdiff_t r = 0; r < p->rows; r++)
                for (ptrdiff_t i = 0; i < cells; i++)
                    beside[r * wide + i] = from[i * p->rows + r];
        else
            for (ptrdiff_t i = 0; i < cells; i++, from += p->rows * w)
                for (ptrdiff_t r = 0; r < p->rows; r++)
                    for (ptrdiff_t c = 0; c < w; c++)
                        beside[r * wide + i * w + c] = from[r * w + c];
        FN(begin)(t, wide, op, 0, wide);
        FN(take_tile)(t, op, beside, p->rows, wide, wide, 0, 1, wide);
        FN(finish)(t, wide, cell * w, op, divisor, p->rows == 0, out, sums);
    }
}

/* One task. Where cells are cut (parts > 1), it leaves a state of its own in `states`, which reduce_merge gathers. */
FUNC void FN(reduce_task)(const Reduction *p, int op, const real *x, void *out, double *sums, double divisor, void *states,
                          ptrdiff_t task)
{
    if (p->parts > 1) {
        FN(take_cell)((SeenTile *)states + task, p, op, x, task / p->parts, task % p->parts);
        return;
    }
    SeenTile t;
    int none = p->segments * p->rows == 0;
    if (p->segments == 1 && p->rows <= REDUCE_SHORT && p->width <= REDUCE_FOLD / 2) {
        FN(reduce_short)(&t, p, op, x, out, sums, divisor, task);
        return;
    }
    ptrdiff_t end = least(p->cells, (task + 1) * p->share);
    if (p->width == 1) {
        for (ptrdiff_t cell = task * p->share; cell < end; cell += REDUCE_FOLD) {
            ptrdiff_t cells = least(end - cell, REDUCE_FOLD);
            FN(begin)(&t, cells, op, 0, cells);
            for (ptrdiff_t j = 0; j < cells; j++)
                FN(take_runs)(&t, j, p, op, x + kept_at(p, cell + j), 0, p->segments * p->rows);
            FN(finish)(&t, cells, cell, op, divisor, none, out, sums);
        }
        return;
    }
    for (ptrdiff_t cell = task * p->share; cell < end; cell++) {
        ptrdiff_t column = cell % p->tiles * REDUCE_TILE;
        FN(take_cell)(&t, p, op, x, cell, 0);
        FN(finish)(&t, least(p->width - column, REDUCE_TILE), cell / p->tiles * p->width + column, op, divisor, none, out, sums);
    }
}

FUNC void FN(reduce_merge)(const Reduction *p, int op, void *out, double *sums, double divisor, void *states)
{
    for (ptrdiff_t cell = 0; cell < p->cells; cell++) {
        ptrdiff_t column = cell % p->tiles * REDUCE_TILE, tile = least(p->width - column, REDUCE_TILE);
        SeenTile *t = (SeenTile *)states + cell * p->parts;
        for (ptrdiff_t part = 1; part < p->parts; part++)
            for (ptrdiff_t c = 0; c < tile; c++)
                FN(merge)(t, c, t + part, c, op);
        FN(finish)(t, tile, cell / p->tiles * p->width + column, op, divisor, 0, out, sums);
    }
}
FUNC size_t FN(reduce_state_size)(void) { return sizeof(SeenTile); }

/* ================================================ gradients ================================================== */

/* out = exp(x - m) * f along a run, and in a tile whose columns have their own m and f */
FUNC void FN(exp_scale_run)(const real *x, real *out, ptrdiff_t n, real m, real f)
{
    const vec shift = vset(m), factor = vset(f);
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vstore(out + i, vexp(vload(x + i) - shift) * factor);
    if (i < n)
        vstore_n(out + i, vexp(vload_n(x + i, n - i) - shift) * factor, n - i);
}
FUNC void FN(exp_scale_tile)(const real *x, real *out, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step, const real *m,
                             const real *f)
{
    for (ptrdiff_t r = 0; r < rows; r++)
        EACH(c, width)
        {
            ptrdiff_t k = COUNT(c, width);
            vec e = vexp(vload_n(x + r * step + c, k) - vload_n(m + c, k));
            vstore_n(out + r * step + c, e * vload_n(f + c, k), k);
        }
}

/* The matrices of `rows` by `width` are handed out whole, several a task, or cut into blocks of rows. */
typedef struct {
    ptrdiff_t cell, segment, row, rows;
} FN(Share);

INLINE ptrdiff_t FN(share)(const Reduction *p, ptrdiff_t i, FN(Share) * s)
{
    ptrdiff_t size = most(1, REDUCE_BLOCK / most(1, p->width)), blocks = cut(p->rows, size);
    s->row = 0;
    s->segment = 0;
    if (blocks > 1) {
        s->row = i % blocks * size;
        i /= blocks;
    }
    if (p->segments > 1) {
        s->segment = i % p->segments;
        i /= p->segments;
    }
    s->cell = i;
    s->rows = least(size, p->rows - s->row);
    return kept_at(p, s->cell) + reduced_at(p, s->segment) + s->row * p->width;
}

/* every cell that was reduced into a cell of g gets that one, over `divisor` */
FUNC void FN(spread_share)(const Reduction *p, const real *g, real *out, double divisor, ptrdiff_t i)
{
    FN(Share) s;
    real *to = out + FN(share)(p, i, &s);
    ptrdiff_t done = p->width, n = s.rows * p->width;
    for (ptrdiff_t c = 0; c < p->width; c++)
        to[c] = (real)((double)g[s.cell * p->width + c] / divisor);
    if (p->width == 1) {
        for (ptrdiff_t c = 1; c < n; c++)
            to[c] = to[0];
        return;
    }
    for (; done < n; done += least(done, n - done))
        memcpy(to + done, to, (size_t)least(done, n - done) * sizeof(real));
}

/* g * softmax: exp(x - m) * g / sum, from logsumexp's m and sum */
FUNC void FN(exp_share)(const Reduction *p, const real *x, const real *m, const double *sum, const real *g, real *out,
                        ptrdiff_t i)
{
    FN(Share) s;
    ptrdiff_t at = FN(share)(p, i, &s), w = p->width;
    m += s.cell * w;
    sum += s.cell * w;
    g += s.cell * w;
    if (w == 1) {
        FN(exp_scale_run)(x + at, out + at, s.rows, *m, (real)(*g / *sum));
        return;
    }
    for (ptrdiff_t column = 0; column < w; column += REDUCE_TILE) {
        real shift[REDUCE_TILE], factor[REDUCE_TILE];
        ptrdiff_t tile = least(w - column, REDUCE_TILE), fold = tile < w ? 1 : most(1, least(REDUCE_FOLD / tile, s.rows));
        for (ptrdiff_t c = 0; c < fold * tile; c++) {
            shift[c] = m[column + c % tile];
            factor[c] = (real)(g[column + c % tile] / sum[column + c % tile]);
        }
        const real *from = x + at + column;
        real *to = out + at + column;
        ptrdiff_t whole = s.rows / fold, left = s.rows % fold, done = whole * fold * w;
        FN(exp_scale_tile)(from, to, whole, fold * tile, fold * w, shift, factor);
        FN(exp_scale_tile)(from + done, to + done, left != 0, left * tile, 0, shift, factor);
    }
}

/* g to the cells at `index` (flat over the reduced axes); the others are 0 already */
FUNC void FN(place_cell)(const Reduction *p, const int64_t *index, const real *g, real *out, ptrdiff_t cell)
{
    for (ptrdiff_t c = 0; c < p->width; c++) {
        int64_t i = index[cell * p->width + c];
        out[kept_at(p, cell) + reduced_at(p, i / p->rows) + i % p->rows * p->width + c] = g[cell * p->width + c];
    }
}
