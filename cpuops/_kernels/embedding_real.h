/* embedding_real.h: the body of embedding.h for one scalar type. Table [V, D], indices [N], rows [N, D]. */

#define EMBEDDING_AHEAD 8 /* rows to prefetch ahead: they lie anywhere in the table */

/* forward, rows [lo, hi): out[i] = table[index[i]]; cell (v, j) of the table is table[v*rs + j*cs] */
FUNC void FN(embedding_gather)(const real *table, ptrdiff_t rs, ptrdiff_t cs, const int64_t *index, real *out, ptrdiff_t lo,
                               ptrdiff_t hi, ptrdiff_t d)
{
    for (ptrdiff_t i = lo; i < hi; i++) {
        if (i + EMBEDDING_AHEAD < hi)
            __builtin_prefetch(table + index[i + EMBEDDING_AHEAD] * rs);
        const real *row = table + index[i] * rs;
        real *to = out + i * d;
        ptrdiff_t j = 0;
        if (cs != 1) {
            for (; j < d; j++)
                to[j] = row[j * cs];
        } else if (d >= 16 * LANES) {
            memcpy(to, row, (size_t)d * sizeof(real));
        } else {
            for (; j + LANES <= d; j += LANES)
                vstore(to + j, vload(row + j));
            if (j < d)
                vstore_n(to + j, vload_n(row + j, d - j), d - j);
        }
    }
}

/* backward of one row, columns [c0, c1): table_grad[index[i]] += grad[i] */
INLINE void FN(embedding_add)(const real *grad, real *row, ptrdiff_t c0, ptrdiff_t c1)
{
    ptrdiff_t j = c0;
    for (; j + LANES <= c1; j += LANES)
        vstore(row + j, vload(row + j) + vload(grad + j));
    if (j < c1)
        vstore_n(row + j, vload_n(row + j, c1 - j) + vload_n(grad + j, c1 - j), c1 - j);
}

/* rows [v0, v1) and columns [c0, c1) of the table's gradient, which nobody else writes: zero them, unless they are added to, then
 * add in index order */
FUNC void FN(embedding_scatter)(const real *grad, const int64_t *index, real *out, ptrdiff_t n, ptrdiff_t d,
                                ptrdiff_t v0, ptrdiff_t v1, ptrdiff_t c0, ptrdiff_t c1, int accumulate)
{
    if (!accumulate && c0 == 0 && c1 == d)
        clear_stream(out + v0 * d, (size_t)((v1 - v0) * d) * sizeof(real));
    else
        for (ptrdiff_t r = v0; !accumulate && r < v1; r++)
            memset(out + r * d + c0, 0, (size_t)(c1 - c0) * sizeof(real));
    ptrdiff_t mine[256]; /* the positions among the next ones whose row is ours, collected without a branch */
    for (ptrdiff_t first = 0; first < n; first += 256) {
        ptrdiff_t end = first + 256 < n ? first + 256 : n, count = 0;
        for (ptrdiff_t i = first; i < end; i++) {
            mine[count] = i;
            count += index[i] >= v0 && index[i] < v1;
        }
        for (ptrdiff_t i = 0; i < count; i++) {
            if (i + EMBEDDING_AHEAD < count)
                __builtin_prefetch(out + index[mine[i + EMBEDDING_AHEAD]] * d + c0, 1);
            FN(embedding_add)(grad + mine[i] * d, out + index[mine[i]] * d, c0, c1);
        }
    }
}
