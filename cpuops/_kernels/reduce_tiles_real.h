/* reduce_tiles_real.h: reductions of columns that lie side by side, for one scalar type. Included by reduce.h only. */

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

/* part[0..n) += `fours` times four rows */
INLINE void FN(add_fours)(double *part, const real *x, int fours, ptrdiff_t n, ptrdiff_t step)
{
    ptrdiff_t c = 0;
    for (; c + WLANES <= n; c += WLANES) {
        wvec s = vload_f64(part + c);
        for (int k = 0; k < fours; k++) {
            const real *p = x + c + 4 * k * step;
            s += (wload(p) + wload(p + step)) + (wload(p + 2 * step) + wload(p + 3 * step));
        }
        vstore_f64(part + c, s);
    }
    for (; c < n; c++)
        for (int k = 0; k < fours; k++) {
            const real *p = x + c + 4 * k * step;
            part[c] += ((double)p[0] + (double)p[step]) + ((double)p[2 * step] + (double)p[3 * step]);
        }
}

/* The same for eight rows. The next eight are asked for meanwhile: columns of a wide matrix lie too far apart to be foreseen. */
INLINE void FN(add_eight)(double *part, const real *x, ptrdiff_t n, ptrdiff_t step)
{
    const ptrdiff_t line = 64 / sizeof(real);
    ptrdiff_t c = 0;
    for (; c + line <= n; c += line) {
        for (int k = 8; k < 16; k++)
            __builtin_prefetch(x + c + k * step);
        FN(add_fours)(part + c, x + c, 2, line, step);
    }
    FN(add_fours)(part + c, x + c, 2, n - c, step);
}

FUNC void FN(sum_tile)(SeenTile *t, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step)
{
    double *part = t->rest.sum;
    for (ptrdiff_t top = 0; top < rows; top += REDUCE_RUN / 8) {
        ptrdiff_t r = top, end = least(rows, top + REDUCE_RUN / 8);
        for (ptrdiff_t c = 0; c < width; c++)
            part[c] = -0.0;
        for (; r + 8 <= end; r += 8)
            FN(add_eight)(part, x + r * step, width, step);
        for (; r + 4 <= end; r += 4)
            FN(add_fours)(part, x + r * step, 1, width, step);
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
