/* interpolate_real.h: sums of rows, and columns, for one scalar type. uint8 has float's: it is read and written through it.
 *
 * Terms are added in the table's order, the first product unfused; after RUN terms a new sum begins. A cell's bits are so
 * the same by every road but the long dot product.
 */

INLINE real FN(fma1)(real a, real b, real c)
{
#if SIMD_FMA && IS_F64
    return __builtin_fma(a, b, c);
#elif SIMD_FMA
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

/* a row of results to one of bytes */
FUNC void FN(store_row)(const real *from, uint8_t *to, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vstore_octets(to + i, vload(from + i));
    if (i < n)
        vstore_octets_n(to + i, vload_n(from + i, n - i), n - i);
}

/* ---- sums of rows: to[c] = sum_t weight[t] rows[t][c], or that added to it */

INLINE vec FN(load_cells)(const char *row, ptrdiff_t c, ptrdiff_t n, int bytes)
{
    if (bytes)
        return n < LANES ? vload_octets_n((const uint8_t *)row + c, n) : vload_octets((const uint8_t *)row + c);
    return n < LANES ? vload_n((const real *)row + c, n) : vload((const real *)row + c);
}

INLINE void FN(sum_rows_of)(const char *const *rows, const real *weight, ptrdiff_t n, real *to, ptrdiff_t cells, int bytes, int add)
{
    ptrdiff_t c = 0;
    for (; c + 4 * LANES <= cells; c += 4 * LANES) {
        vec w = vset(weight[0]), s[4];
        for (int k = 0; k < 4; k++)
            s[k] = w * FN(load_cells)(rows[0], c + k * LANES, LANES, bytes);
        for (ptrdiff_t t = 1; t < n; t++) {
            w = vset(weight[t]);
            for (int k = 0; k < 4; k++)
                s[k] = vfma(w, FN(load_cells)(rows[t], c + k * LANES, LANES, bytes), s[k]);
        }
        for (int k = 0; k < 4; k++)
            vstore(to + c + k * LANES, add ? vload(to + c + k * LANES) + s[k] : s[k]);
    }
    for (; c < cells; c += LANES) {
        ptrdiff_t m = least(LANES, cells - c);
        vec s = vset(weight[0]) * FN(load_cells)(rows[0], c, m, bytes);
        for (ptrdiff_t t = 1; t < n; t++)
            s = vfma(vset(weight[t]), FN(load_cells)(rows[t], c, m, bytes), s);
        if (add)
            s = vload_n(to + c, m) + s;
        vstore_n(to + c, s, m);
    }
}

FUNC void FN(sum_rows)(const char *const *rows, const real *weight, ptrdiff_t n, real *to, ptrdiff_t cells, int bytes, int add)
{
#define SUM(n, bytes, add) FN(sum_rows_of)(rows, weight, n, to, cells, bytes, add)
    if (n == 0) {
        if (!add)
            memset(to, 0, (size_t)cells * sizeof *to);
    } else if (add) {
        if (bytes)
            SUM(n, 1, 1);
        else
            SUM(n, 0, 1);
    } else if (bytes) {
        if (n == 1)
            SUM(1, 1, 0);
        else if (n == 2)
            SUM(2, 1, 0);
        else
            SUM(n, 1, 0);
    } else if (n == 1) {
        SUM(1, 0, 0);
    } else if (n == 2) {
        SUM(2, 0, 0);
    } else if (n == 4) {
        SUM(4, 0, 0);
    } else {
        SUM(n, 0, 0);
    }
#undef SUM
}

/* where the rows of x begin that a row of out is made of: those of one plane, at column c of the first channel */
typedef struct {
    const char *x;
    ptrdiff_t area, row; /* bytes from one d, and from one h, to the next */
} FN(source);

INLINE FN(source) FN(source_of)(const resample_plan *p, ptrdiff_t plane, ptrdiff_t c)
{
    ptrdiff_t item = p->bytes ? 1 : (ptrdiff_t)sizeof(real);
    FN(source) s;
    s.row = p->w.in * p->channels * item;
    s.area = s.row * p->h.in;
    s.x = (const char *)p->x + plane * p->d.in * s.area + c * p->channels * item;
    return s;
}

/* the terms of one output along an axis */
typedef struct {
    const ptrdiff_t *index;
    const real *weight;
    ptrdiff_t n, only; /* index NULL: the one cell `only`, with weight 1 */
} FN(terms);

INLINE FN(terms) FN(terms_of)(const resample_axis *a, ptrdiff_t o)
{
    FN(terms) t = {NULL, NULL, 1, o};
    if (a->start) {
        t.index = a->index + a->start[o];
        t.weight = (const real *)a->weight + a->start[o];
        t.n = a->start[o + 1] - a->start[o];
    }
    return t;
}
INLINE ptrdiff_t FN(cell)(const FN(terms) *t, ptrdiff_t k) { return t->index ? t->index[k] : t->only; }
INLINE real FN(share)(const FN(terms) *t, ptrdiff_t k) { return t->index ? t->weight[k] : 1; }

/* to[0..cells-1] = the terms (d, h) of rows of x; `more`: a row for the sums of RUNS terms */
FUNC void FN(row_of_x)(const resample_plan *p, const FN(source) *s, FN(terms) d, FN(terms) h, real *to, real *more, ptrdiff_t cells)
{
    const char *rows[RUN];
    real weight[RUN];
    ptrdiff_t n = d.n * h.n, i = 0, j = 0;
    if (n == 0)
        FN(sum_rows)(rows, weight, 0, to, cells, 0, 0);
    for (ptrdiff_t k0 = 0; k0 < n; k0 += RUNS) {
        real *part = k0 ? more : to;
        for (ptrdiff_t k = k0; k < least(n, k0 + RUNS); k += RUN) {
            ptrdiff_t m = least(RUN, n - k);
            for (ptrdiff_t t = 0; t < m; t++) {
                rows[t] = s->x + FN(cell)(&d, i) * s->area + FN(cell)(&h, j) * s->row;
                weight[t] = FN(share)(&d, i) * FN(share)(&h, j);
                if (++j == h.n) {
                    j = 0;
                    i++;
                }
            }
            FN(sum_rows)(rows, weight, m, part, cells, p->bytes, k > k0);
        }
        if (k0) {
            const char *both = (const char *)more;
            real one = 1;
            FN(sum_rows)(&both, &one, 1, to, cells, 0, 1);
        }
    }
}

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

/* ---- units */

typedef struct {
    ptrdiff_t plane, od, h0, h1, o0, o1, c0, c1;
    FN(terms) d;
    FN(source) source;
    real *block, *more, *turned, *ring, *result;
    FN(pattern) even, odd;
} FN(unit);

/* row h of out, at the unit's first column */
INLINE char *FN(row_of_out)(const resample_plan *p, const FN(unit) *u, ptrdiff_t channel, ptrdiff_t h)
{
    ptrdiff_t item = p->bytes ? 1 : (ptrdiff_t)sizeof(real);
    ptrdiff_t plane = u->plane * p->channels + channel;
    return (char *)p->out + (((plane * p->d.out + u->od) * p->h.out + h) * p->w.out + u->o0) * item;
}

/* the columns of `rows` rows, to rows `to_line` apart */
FUNC void FN(columns)(const resample_plan *p, const FN(unit) *u, const real *x, ptrdiff_t line, ptrdiff_t rows, ptrdiff_t channel, real *to,
                      ptrdiff_t to_line)
{
    ptrdiff_t cells = u->c1 - u->c0;
    if (p->turned) {
        FN(block_turned)(p, x, line, rows, u->c0, cells, channel, u->turned, to, to_line, u->o0, u->o1);
        return;
    }
    for (ptrdiff_t r = 0; r < rows; r++)
        FN(line)(&p->w, &u->even, &u->odd, x + r * line, u->c0, cells, to + r * to_line, u->o0, u->o1);
}

/* rows h..h+rows-1 of x (of out, where those are as many), columns c0..c1-1: where they lie, or summed into the block */
INLINE const real *FN(source_rows)(const resample_plan *p, const FN(unit) *u, const resample_axis *axis, ptrdiff_t h, ptrdiff_t rows, ptrdiff_t *line)
{
    if (!p->bytes && p->d.start == NULL && axis->start == NULL) {
        *line = u->source.row / (ptrdiff_t)sizeof(real);
        return (const real *)(u->source.x + u->d.only * u->source.area + h * u->source.row);
    }
    *line = p->line;
    FN(terms) only = FN(terms_of)(axis, h);
    if (!p->bytes && rows == 1 && u->d.n * only.n == 1 && FN(share)(&u->d, 0) * FN(share)(&only, 0) == 1)
        return (const real *)(u->source.x + FN(cell)(&u->d, 0) * u->source.area + FN(cell)(&only, 0) * u->source.row);
    for (ptrdiff_t r = 0; r < rows; r++)
        FN(row_of_x)(p, &u->source, u->d, FN(terms_of)(axis, h + r), u->block + r * p->line, u->more, (u->c1 - u->c0) * p->channels);
    return u->block;
}

FUNC void FN(unit_rows)(const resample_plan *p, const FN(unit) *u)
{
    for (ptrdiff_t h = u->h0; h < u->h1; h++) {
        char *out = FN(row_of_out)(p, u, 0, h);
        real *to = p->bytes ? u->result : (real *)out;
        FN(row_of_x)(p, &u->source, u->d, FN(terms_of)(&p->h, h), to, u->more, u->o1 - u->o0);
        if (p->bytes)
            FN(store_row)(to, (uint8_t *)out, u->o1 - u->o0);
    }
}

FUNC void FN(unit_first_h)(const resample_plan *p, const FN(unit) *u)
{
    for (ptrdiff_t h = u->h0; h < u->h1; h += p->block) {
        ptrdiff_t line, rows = least(p->block, u->h1 - h);
        const real *x = FN(source_rows)(p, u, &p->h, h, rows, &line);
        for (ptrdiff_t channel = 0; channel < p->channels; channel++) {
            char *out = FN(row_of_out)(p, u, channel, h);
            if (!p->bytes) {
                FN(columns)(p, u, x, line, rows, channel, (real *)out, p->w.out);
                continue;
            }
            FN(columns)(p, u, x, line, rows, channel, u->ring, p->ring_line);
            for (ptrdiff_t r = 0; r < rows; r++)
                FN(store_row)(u->ring + r * p->ring_line, (uint8_t *)out + r * p->w.out, u->o1 - u->o0);
        }
    }
}

/* see that the columns of group g of rows of x are in the ring, in its own place */
INLINE void FN(hold)(const resample_plan *p, const FN(unit) *u, ptrdiff_t g, ptrdiff_t *held, ptrdiff_t groups)
{
    ptrdiff_t slot = g % groups, first = g * p->block, line;
    if (held[slot] == g)
        return;
    held[slot] = g;
    resample_axis as_it_is = {.in = p->h.in, .out = p->h.in};
    ptrdiff_t rows = least(p->block, p->h.in - first);
    const real *x = FN(source_rows)(p, u, &as_it_is, first, rows, &line);
    for (ptrdiff_t channel = 0; channel < p->channels; channel++)
        FN(columns)(p, u, x, line, rows, channel, u->ring + (channel * p->ring + slot * p->block) * p->ring_line, p->ring_line);
}

FUNC void FN(unit_first_w)(const resample_plan *p, const FN(unit) *u)
{
    enum { NOTHING = -1 };
    ptrdiff_t groups = p->ring / p->block, held[MOST_RING];
    for (ptrdiff_t g = 0; g < groups; g++)
        held[g] = NOTHING;
    for (ptrdiff_t h = u->h0; h < u->h1; h++) {
        FN(terms) t = FN(terms_of)(&p->h, h);
        for (ptrdiff_t k = 0; k < t.n; k++)
            FN(hold)(p, u, t.index[k] / p->block, held, groups);
        for (ptrdiff_t channel = 0; channel < p->channels; channel++) {
            const real *ring = u->ring + channel * p->ring * p->ring_line;
            char *out = FN(row_of_out)(p, u, channel, h);
            real *to = p->bytes ? u->result : (real *)out;
            const char *rows[RUN];
            for (ptrdiff_t k = 0; k < t.n || k == 0; k += RUN) {
                ptrdiff_t m = least(RUN, t.n - k);
                for (ptrdiff_t i = 0; i < m; i++) {
                    ptrdiff_t row = t.index[k + i], slot = row / p->block % groups;
                    rows[i] = (const char *)(ring + (slot * p->block + row % p->block) * p->ring_line);
                }
                FN(sum_rows)(rows, t.weight + k, m, to, u->o1 - u->o0, 0, k > 0);
            }
            if (p->bytes)
                FN(store_row)(to, (uint8_t *)out, u->o1 - u->o0);
        }
    }
}

FUNC void FN(unit_long)(const resample_plan *p, FN(unit) *u)
{
    for (ptrdiff_t h = u->h0; h < u->h1; h++) {
        char *out = FN(row_of_out)(p, u, 0, h);
        for (ptrdiff_t o = u->o0; o < u->o1; o++) {
            FN(terms) t = FN(terms_of)(&p->w, o);
            double total = 0;
            for (ptrdiff_t k = 0, end; k < t.n; k = end) {
                ptrdiff_t line;
                end = least(t.n, k + p->span);
                while (t.index[end - 1] - t.index[k] >= p->span)
                    end = k + (end - k + 1) / 2;
                u->c0 = t.index[k];
                u->c1 = t.index[end - 1] + 1;
                u->source = FN(source_of)(p, u->plane, u->c0);
                const real *x = FN(source_rows)(p, u, &p->h, h, 1, &line);
                total += (double)FN(long_dot)(x, t.index + k, t.weight + k, end - k, u->c0);
            }
            real result = (real)total;
            if (p->bytes)
                FN(store_row)(memcpy(u->result, &result, sizeof result), (uint8_t *)out + (o - u->o0), 1);
            else
                ((real *)out)[o - u->o0] = result;
        }
    }
}

/* bytes that are only copied */
FUNC void FN(unit_pick)(const resample_plan *p, const FN(unit) *u)
{
    const resample_axis *w = &p->w;
    for (ptrdiff_t channel = 0; channel < p->channels; channel++) {
        const uint8_t *before = NULL, *copied = NULL; /* the row of x before, and what has become of it */
        for (ptrdiff_t h = u->h0; h < u->h1; h++) {
            FN(terms) t = FN(terms_of)(&p->h, h);
            uint8_t *to = (uint8_t *)FN(row_of_out)(p, u, channel, h);
            if (t.n == 0 || u->d.n == 0) {
                memset(to, 0, (size_t)(u->o1 - u->o0));
                continue;
            }
            const uint8_t *from = (const uint8_t *)u->source.x + FN(cell)(&u->d, 0) * u->source.area + FN(cell)(&t, 0) * u->source.row + channel;
            if (from == before)
                memcpy(to, copied, (size_t)(u->o1 - u->o0));
            else
                pick_cells(w, from, u->c0, p->channels, to, u->o0, u->o1);
            before = from;
            copied = to;
        }
    }
}

/* a worker: units until none is left */
FUNC void FN(resample)(resample_plan *p, void *memory)
{
    FN(unit) u;
    u.block = (real *)memory;
    u.more = u.block + p->block * p->line;
    u.turned = u.more + p->line;
    u.ring = u.turned + (p->turned ? LANES * p->line : 0);
    u.result = u.ring + most(p->ring * p->channels, p->block) * p->ring_line;
    if (p->w.outputs)
        FN(set_pattern)(&u.even, &p->w, p->w.first);
    if (p->w.outputs == 2)
        FN(set_pattern)(&u.odd, &p->w, p->w.first + 1);
    for (;;) {
        ptrdiff_t n = __atomic_fetch_add(&p->next, p->grab, __ATOMIC_RELAXED), end = least(p->units, n + p->grab);
        if (n >= p->units)
            return;
        for (; n < end; n++) {
            ptrdiff_t tile = n % p->tiles, band = n / p->tiles % p->bands, rest = n / p->tiles / p->bands;
            u.od = rest % p->d.out;
            u.plane = rest / p->d.out;
            u.h0 = band * p->band;
            u.h1 = least(p->h.out, u.h0 + p->band);
            u.o0 = tile * p->tile;
            u.o1 = least(p->w.out, u.o0 + p->tile);
            columns_of(&p->w, u.o0, u.o1, &u.c0, &u.c1);
            u.d = FN(terms_of)(&p->d, u.od);
            u.source = FN(source_of)(p, u.plane, u.c0);
            switch (p->order) {
            case ROWS: FN(unit_rows)(p, &u); break;
            case FIRST_H: FN(unit_first_h)(p, &u); break;
            case FIRST_W: FN(unit_first_w)(p, &u); break;
            case PICK: FN(unit_pick)(p, &u); break;
            default: FN(unit_long)(p, &u);
            }
        }
    }
}
