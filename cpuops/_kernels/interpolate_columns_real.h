/* interpolate_columns_real.h: the columns of one line and of a block of turned rows, in the order of interpolate_rows_real.h.
 * Included by interpolate.h only. */

/* ---- columns of one line: to[o - o0] from x[cell - c0] */

/* sum_t weight[t] x[index[t] - c0] */
FUNC real FN(long_dot)(const real *x, const ptrdiff_t *index, const real *weight, ptrdiff_t n, ptrdiff_t c0)
{
    double total = 0;
    ptrdiff_t t = 0;
    if (index[n - 1] - index[0] == n - 1) {
        const real *from = x + (index[0] - c0);
        for (; t + LANES <= n;) {
            ptrdiff_t end = least(n / LANES * LANES, t + RUN * LANES);
            vec s = vset(0);
            for (; t < end; t += LANES)
                s = vfma(vload(weight + t), vload(from + t), s);
            total += (double)vhsum(s);
        }
    }
    while (t < n) {
        ptrdiff_t end = least(n, t + RUN);
        real s = weight[t] * x[index[t] - c0];
        for (t++; t < end; t++)
            s = FN(fma1)(weight[t], x[index[t] - c0], s);
        total += (double)s;
    }
    return (real)total;
}

INLINE real FN(dot)(const real *x, const ptrdiff_t *index, const real *weight, ptrdiff_t n, ptrdiff_t c0)
{
    if (n == 0)
        return 0;
    if (n > RUN)
        return FN(long_dot)(x, index, weight, n, c0);
    real s = weight[0] * x[index[0] - c0];
    for (ptrdiff_t t = 1; t < n; t++)
        s = FN(fma1)(weight[t], x[index[t] - c0], s);
    return s;
}

FUNC void FN(line_by_cell)(const resample_axis *a, const real *x, ptrdiff_t c0, real *to, ptrdiff_t o0, ptrdiff_t lo, ptrdiff_t hi)
{
    const real *weight = (const real *)a->weight;
    const ptrdiff_t *index = a->index, *start = a->start;
    if (lo < hi && a->widest == 1 && start[hi] - start[lo] == hi - lo) {
        ptrdiff_t shift = start[lo] - lo;
        for (ptrdiff_t o = lo; o < hi; o++)
            to[o - o0] = weight[o + shift] * x[index[o + shift] - c0];
        return;
    }
    for (ptrdiff_t o = lo; o < hi; o++)
        to[o - o0] = FN(dot)(x, index + start[o], weight + start[o], start[o + 1] - start[o], c0);
}

/* the terms of an output of the repeating part: cells at[t] + cells * (o / outputs) */
typedef struct {
    ptrdiff_t n, at[MOST_TAPS];
    int pairs; /* they are neighbours two by two */
    vec weight[MOST_TAPS];
} FN(pattern);

static void FN(set_pattern)(FN(pattern) *p, const resample_axis *a, ptrdiff_t o)
{
    FN(terms) t = FN(terms_of)(a, o);
    p->n = t.n;
    p->pairs = t.n % 2 == 0;
    for (ptrdiff_t k = 0; k < t.n; k++) {
        p->at[k] = t.index[k] - o / a->outputs * a->cells;
        p->weight[k] = vset(t.weight[k]);
        p->pairs &= k % 2 == 0 || p->at[k] == p->at[k - 1] + 1;
    }
}

INLINE vec FN(load_some)(const real *x, ptrdiff_t n) { return n >= LANES ? vload(x) : n > 0 ? vload_n(x, n) : vzero(); }

INLINE void FN(store_some)(real *to, vec v, ptrdiff_t n)
{
    if (n >= LANES)
        vstore(to, v);
    else if (n > 0)
        vstore_n(to, v, n);
}

INLINE vec FN(phase)(const FN(pattern) *p, ptrdiff_t n, const real *x, ptrdiff_t some)
{
    if (n == 0)
        return vzero();
    vec s = p->weight[0] * FN(load_some)(x + p->at[0], some);
    for (ptrdiff_t t = 1; t < n; t++)
        s = vfma(p->weight[t], FN(load_some)(x + p->at[t], some), s);
    return s;
}

/* outputs 2 i and 2 i + 1, lo <= i < hi. The last of several vectors overlaps the one before; a single one may be short */
INLINE void FN(doubled_of)(const FN(pattern) *even, const FN(pattern) *odd, const real *x, real *to, ptrdiff_t lo, ptrdiff_t hi, ptrdiff_t n,
                           ptrdiff_t m)
{
    vec a, b;
    if (hi - lo < LANES) {
        vzip(FN(phase)(even, n, x + lo, hi - lo), FN(phase)(odd, m, x + lo, hi - lo), &a, &b);
        FN(store_some)(to + 2 * lo, a, 2 * (hi - lo));
        FN(store_some)(to + 2 * lo + LANES, b, 2 * (hi - lo) - LANES);
        return;
    }
    for (ptrdiff_t i = lo; i < hi; i += LANES) {
        i = least(i, hi - LANES);
        vzip(FN(phase)(even, n, x + i, LANES), FN(phase)(odd, m, x + i, LANES), &a, &b);
        vstore(to + 2 * i, a);
        vstore(to + 2 * i + LANES, b);
    }
}

FUNC void FN(doubled)(const FN(pattern) *even, const FN(pattern) *odd, const real *x, real *to, ptrdiff_t lo, ptrdiff_t hi)
{
#define LINE(n, m) FN(doubled_of)(even, odd, x, to, lo, hi, n, m)
    if (even->n == 1 && odd->n == 1)
        LINE(1, 1);
    else if (even->n == 2 && odd->n == 2)
        LINE(2, 2);
    else if (even->n == 4 && odd->n == 4)
        LINE(4, 4);
    else
        LINE(even->n, odd->n);
#undef LINE
}

/* outputs o..o+some-1: every second cell of each term's, two neighbours sharing their loads */
INLINE vec FN(seconds)(const FN(pattern) *p, ptrdiff_t n, int pairs, const real *x, ptrdiff_t some)
{
    vec s = vzero(), even, odd;
    for (ptrdiff_t t = 0; t < n; t++) {
        const real *from = x + p->at[t];
        int both = pairs || (t + 1 < n && p->at[t + 1] == p->at[t] + 1);
        ptrdiff_t cells = 2 * some - !both;
        vdeal(FN(load_some)(from, cells), FN(load_some)(from + LANES, some < LANES ? cells - LANES : LANES), &even, &odd);
        s = t ? vfma(p->weight[t], even, s) : p->weight[0] * even;
        if (both)
            s = vfma(p->weight[++t], odd, s);
    }
    return s;
}

INLINE void FN(halved_of)(const FN(pattern) *p, const real *x, real *to, ptrdiff_t lo, ptrdiff_t hi, ptrdiff_t n, int pairs)
{
    if (hi - lo < LANES) {
        FN(store_some)(to + lo, FN(seconds)(p, n, pairs, x + 2 * lo, hi - lo), hi - lo);
        return;
    }
    for (ptrdiff_t o = lo; o < hi; o += LANES) {
        o = least(o, hi - LANES);
        vstore(to + o, FN(seconds)(p, n, pairs, x + 2 * o, LANES));
    }
}

FUNC void FN(halved)(const FN(pattern) *p, const real *x, real *to, ptrdiff_t lo, ptrdiff_t hi)
{
#define LINE(n, pairs) FN(halved_of)(p, x, to, lo, hi, n, pairs)
    if (p->n == 1)
        LINE(1, 0);
    else if (p->n == 2 && p->pairs)
        LINE(2, 1);
    else if (p->n == 4 && p->pairs)
        LINE(4, 1);
    else if (p->n == 8 && p->pairs)
        LINE(8, 1);
    else
        LINE(p->n, p->pairs);
#undef LINE
}

/* outputs o0..o1-1 of a line of which x holds `cells` cells from c0 on; even and odd: patterns of the repeating part */
FUNC void FN(line)(const resample_axis *a, const FN(pattern) *even, const FN(pattern) *odd, const real *x, ptrdiff_t c0, ptrdiff_t cells, real *to,
                   ptrdiff_t o0, ptrdiff_t o1)
{
    ptrdiff_t lo = o1, hi = o1; /* outputs of the repeating part */
    if (a->outputs == 2) {
        lo = most(a->first, (o0 + 1) / 2 * 2);
        hi = least(a->last, o1 / 2 * 2);
        if (lo < hi)
            FN(doubled)(even, odd, x - c0, to - o0, lo / 2, hi / 2);
    } else if (a->outputs == 1) {
        lo = most(a->first, o0);
        hi = least(a->last, o1);
        /* whole vectors read up to one cell behind the last term's */
        while (hi - lo >= LANES && even->n && 2 * (hi - 1) + even->at[even->n - 1] + 1 - c0 >= cells)
            hi--;
        if (lo < hi)
            FN(halved)(even, x - c0, to - o0, lo, hi);
    }
    if (lo >= hi)
        lo = hi = o1;
    if (o0 < lo)
        FN(line_by_cell)(a, x, c0, to, o0, o0, lo);
    if (hi < o1)
        FN(line_by_cell)(a, x, c0, to, o0, hi, o1);
}

/* ---- columns of a block of rows, turned: turned[(c - c0) * LANES + r] */

INLINE vec FN(turned_sum)(const real *turned, const ptrdiff_t *index, const real *weight, ptrdiff_t n, ptrdiff_t step)
{
    vec s = vset(weight[0]) * vload(turned + index[0] * step);
    for (ptrdiff_t t = 1; t < n; t++)
        s = vfma(vset(weight[t]), vload(turned + index[t] * step), s);
    return s;
}

FUNC vec FN(turned_long)(const real *turned, const ptrdiff_t *index, const real *weight, ptrdiff_t n, ptrdiff_t step)
{
    vec total = vzero();
    for (ptrdiff_t k0 = 0; k0 < n; k0 += RUNS) {
        vec part = vzero();
        for (ptrdiff_t k = k0; k < least(n, k0 + RUNS); k += RUN)
            part += FN(turned_sum)(turned, index + k, weight + k, least(RUN, n - k), step);
        total += part;
    }
    return total;
}

INLINE void FN(turned_outputs_of)(const resample_axis *a, const real *turned, ptrdiff_t c0, ptrdiff_t step, ptrdiff_t o, ptrdiff_t outputs, real *to)
{
    const real *weight = (const real *)a->weight;
    for (ptrdiff_t k = 0; k < outputs; k++) {
        ptrdiff_t first = a->start[o + k], n = a->start[o + k + 1] - first;
        const real *from = turned - c0 * step;
        vec s = n == 0 ? vzero()
                : n <= RUN ? FN(turned_sum)(from, a->index + first, weight + first, n, step)
                           : FN(turned_long)(from, a->index + first, weight + first, n, step);
        vstore(to + k * LANES, s);
    }
}

/* outputs o0..o1-1 of `rows` rows of x that lie `line` cells apart, to rows that lie `to_line` apart; for each channel */
FUNC void FN(block_turned)(const resample_plan *p, const real *x, ptrdiff_t line, ptrdiff_t rows, ptrdiff_t c0, ptrdiff_t cells, ptrdiff_t channel,
                           real *turned, real *to, ptrdiff_t to_line, ptrdiff_t o0, ptrdiff_t o1)
{
    real results[LANES * LANES] __attribute__((aligned(SIMD_BYTES))), last[LANES * LANES];
    if (channel == 0)
        for (ptrdiff_t c = 0; c < cells * p->channels; c += LANES)
            FN(transpose_tile)(x + c, line, rows, least(LANES, cells * p->channels - c), turned + c * LANES, LANES);
    for (ptrdiff_t o = o0; o < o1; o += LANES) {
        if (o1 - o0 >= LANES)
            o = least(o, o1 - LANES);
        ptrdiff_t outputs = least(LANES, o1 - o);
        if (outputs < LANES)
            memset(results, 0, sizeof results);
        if (p->w.start == NULL) /* the columns as they are, of one channel among several */
            for (ptrdiff_t k = 0; k < outputs; k++)
                vstore(results + k * LANES, vload(turned + ((o + k - c0) * p->channels + channel) * LANES));
        else
            FN(turned_outputs_of)(&p->w, turned + channel * LANES, c0, p->channels * LANES, o, outputs, results);
        if (outputs == LANES) {
            FN(transpose_tile)(results, LANES, LANES, rows, to + (o - o0), to_line);
        } else {
            FN(transpose_tile)(results, LANES, LANES, rows, last, LANES);
            for (ptrdiff_t r = 0; r < rows; r++)
                memcpy(to + r * to_line + (o - o0), last + r * LANES, (size_t)outputs * sizeof(real));
        }
    }
}
