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

/* ---- bytes */

typedef uint8_t FN(octets) __attribute__((vector_size(LANES)));

INLINE vec FN(load_octets)(const uint8_t *p, ptrdiff_t n)
{
    FN(octets) b = {0};
    memcpy(&b, p, n < LANES ? (size_t)n : sizeof b);
    return __builtin_convertvector(b, vec);
}

/* rounded (half to even) and saturated */
FUNC void FN(store_octets)(const real *from, uint8_t *to, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        vec v = vmin_fast(vmax_fast(vround(vload(from + i)), vzero()), vset(255));
        FN(octets) b = __builtin_convertvector(__builtin_convertvector(v, ivec), FN(octets));
        memcpy(to + i, &b, n - i < LANES ? (size_t)(n - i) : sizeof b);
    }
}

/* ---- sums of rows: to[c] = sum_t weight[t] rows[t][c], or that added to it */

INLINE vec FN(load_cells)(const char *row, ptrdiff_t c, ptrdiff_t n, int bytes)
{
    if (bytes)
        return FN(load_octets)((const uint8_t *)row + c, n);
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

typedef struct {
    ptrdiff_t n, at[MOST_TAPS]; /* cell at[t] + cells * (o / outputs) */
    vec weight[MOST_TAPS];
} FN(pattern);

INLINE FN(pattern) FN(pattern_of)(const resample_axis *a, ptrdiff_t o)
{
    FN(pattern) p;
    FN(terms) t = FN(terms_of)(a, o);
    p.n = t.n;
    for (ptrdiff_t k = 0; k < t.n; k++) {
        p.at[k] = t.index[k] - o / a->outputs * a->cells;
        p.weight[k] = vset(t.weight[k]);
    }
    return p;
}

INLINE vec FN(phase)(const FN(pattern) *p, ptrdiff_t n, const real *x)
{
    if (n == 0)
        return vzero();
    vec s = p->weight[0] * vload(x + p->at[0]);
    for (ptrdiff_t t = 1; t < n; t++)
        s = vfma(p->weight[t], vload(x + p->at[t]), s);
    return s;
}

/* outputs 2 i and 2 i + 1, lo <= i < hi; hi - lo >= LANES. The last vectors overlap those before */
INLINE void FN(line_doubled_of)(const FN(pattern) *even, const FN(pattern) *odd, const real *x, real *to, ptrdiff_t lo, ptrdiff_t hi,
                                ptrdiff_t n, ptrdiff_t m)
{
    for (ptrdiff_t i = lo; i < hi; i += LANES) {
        vec a, b;
        i = least(i, hi - LANES);
        vzip(FN(phase)(even, n, x + i), FN(phase)(odd, m, x + i), &a, &b);
        vstore(to + 2 * i, a);
        vstore(to + 2 * i + LANES, b);
    }
}

FUNC void FN(line_doubled)(const resample_axis *a, const real *x, real *to, ptrdiff_t lo, ptrdiff_t hi)
{
    FN(pattern) even = FN(pattern_of)(a, a->first), odd = FN(pattern_of)(a, a->first + 1);
#define LINE(n, m) FN(line_doubled_of)(&even, &odd, x, to, lo, hi, n, m)
    if (even.n == 1 && odd.n == 1)
        LINE(1, 1);
    else if (even.n == 2 && odd.n == 2)
        LINE(2, 2);
    else if (even.n == 4 && odd.n == 4)
        LINE(4, 4);
    else
        LINE(even.n, odd.n);
#undef LINE
}

/* outputs lo..hi-1; hi - lo >= LANES. Two terms at neighbouring cells share their loads; pairs: all do */
INLINE void FN(line_halved_of)(const FN(pattern) *p, const real *x, real *to, ptrdiff_t lo, ptrdiff_t hi, ptrdiff_t n, int pairs)
{
    for (ptrdiff_t o = lo; o < hi; o += LANES) {
        vec s = vzero(), even, odd;
        o = least(o, hi - LANES);
        for (ptrdiff_t t = 0; t < n; t++) {
            const real *from = x + 2 * o + p->at[t];
            vdeal(vload(from), vload(from + LANES), &even, &odd);
            s = t ? vfma(p->weight[t], even, s) : p->weight[0] * even;
            if (pairs || (t + 1 < n && p->at[t + 1] == p->at[t] + 1))
                t++, s = vfma(p->weight[t], odd, s);
        }
        vstore(to + o, s);
    }
}

FUNC void FN(line_halved)(const FN(pattern) *p, const real *x, real *to, ptrdiff_t lo, ptrdiff_t hi)
{
    int pairs = p->n % 2 == 0;
    for (ptrdiff_t t = 0; t + 1 < p->n; t += 2)
        pairs &= p->at[t + 1] == p->at[t] + 1;
#define LINE(n, pairs) FN(line_halved_of)(p, x, to, lo, hi, n, pairs)
    if (p->n == 1)
        LINE(1, 0);
    else if (p->n == 2 && pairs)
        LINE(2, 1);
    else if (p->n == 4 && pairs)
        LINE(4, 1);
    else if (p->n == 8 && pairs)
        LINE(8, 1);
    else
        LINE(p->n, pairs);
#undef LINE
}

/* outputs o0..o1-1 of a line of which x holds `cells` cells from c0 on */
FUNC void FN(line)(const resample_axis *a, const real *x, ptrdiff_t c0, ptrdiff_t cells, real *to, ptrdiff_t o0, ptrdiff_t o1)
{
    ptrdiff_t lo = o1, hi = o1; /* outputs of the repeating part */
    if (a->outputs == 2) {
        lo = most(a->first, (o0 + 1) / 2 * 2) / 2;
        hi = least(a->last, o1 / 2 * 2) / 2;
        if (hi - lo >= LANES)
            FN(line_doubled)(a, x - c0, to - o0, lo, hi);
        else
            lo = hi = o1;
        lo = least(2 * lo, o1);
        hi = least(2 * hi, o1);
    } else if (a->outputs == 1) {
        FN(pattern) p = FN(pattern_of)(a, a->first);
        lo = most(a->first, o0);
        hi = least(a->last, o1);
        /* a vector reads up to one cell behind the last term's */
        while (hi > lo && p.n && 2 * (hi - 1) + p.at[p.n - 1] + 1 - c0 >= cells)
            hi--;
        if (hi - lo >= LANES)
            FN(line_halved)(&p, x - c0, to - o0, lo, hi);
        else
            lo = hi = o1;
    }
    FN(line_by_cell)(a, x, c0, to, o0, o0, lo);
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
        FN(line)(&p->w, x + r * line, u->c0, cells, to + r * to_line, u->o0, u->o1);
}

/* rows h..h+rows-1 of x (of out, where those are as many), columns c0..c1-1: where they lie, or summed into the block */
INLINE const real *FN(source_rows)(const resample_plan *p, const FN(unit) *u, const resample_axis *axis, ptrdiff_t h, ptrdiff_t rows, ptrdiff_t *line)
{
    if (!p->bytes && p->d.start == NULL && axis->start == NULL) {
        *line = u->source.row / (ptrdiff_t)sizeof(real);
        return (const real *)(u->source.x + u->d.only * u->source.area + h * u->source.row);
    }
    *line = p->line;
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
            FN(store_octets)(to, (uint8_t *)out, u->o1 - u->o0);
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
                FN(store_octets)(u->ring + r * p->ring_line, (uint8_t *)out + r * p->w.out, u->o1 - u->o0);
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
                FN(store_octets)(to, (uint8_t *)out, u->o1 - u->o0);
        }
    }
}

FUNC void FN(unit_long)(const resample_plan *p, const FN(unit) *u)
{
    for (ptrdiff_t h = u->h0; h < u->h1; h++) {
        char *out = FN(row_of_out)(p, u, 0, h);
        for (ptrdiff_t o = u->o0; o < u->o1; o++) {
            FN(terms) t = FN(terms_of)(&p->w, o);
            double total = 0;
            for (ptrdiff_t k = 0, end; k < t.n; k = end) {
                FN(unit) part = *u;
                ptrdiff_t line;
                end = least(t.n, k + p->span);
                while (t.index[end - 1] - t.index[k] >= p->span)
                    end = k + (end - k + 1) / 2;
                part.c0 = t.index[k];
                part.c1 = t.index[end - 1] + 1;
                part.source = FN(source_of)(p, u->plane, part.c0);
                const real *x = FN(source_rows)(p, &part, &p->h, h, 1, &line);
                total += (double)FN(long_dot)(x, t.index + k, t.weight + k, end - k, part.c0);
            }
            real result = (real)total;
            if (p->bytes)
                FN(store_octets)(memcpy(u->result, &result, sizeof result), (uint8_t *)out + (o - u->o0), 1);
            else
                ((real *)out)[o - u->o0] = result;
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
            default: FN(unit_long)(p, &u);
            }
        }
    }
}
