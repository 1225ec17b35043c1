/* matmul_narrow_real.h: products with a short sum, or with few rows, for one scalar type. Included by matmul.h only. */

/* ---- short: K <= PRODUCT_SHORT_K and C row-major, parallel over blocks of C. A is read where it is. B is, too, if its rows are
 * contiguous and C has few rows; else a block of it is packed */
#define SHORT_BLOCK (65536 / (ptrdiff_t)sizeof(real)) /* packed B: a small part of the L2, beside the rows of C */
#define SHORT_CELLS 16384 /* up to here C stays in the L1 and L2 whatever the order, and B goes through the stack */

/* what tile number t fetches of the next item while it is computed, a line every step of its K: B's part, then A's */
INLINE const real *FN(short_ahead)(const FN(product) *p, ptrdiff_t t)
{
    const ptrdiff_t at = t * (64 / (ptrdiff_t)sizeof(real)); /* columns of B, then rows of A, before the part */
    if (at < p->n)
        return p->next_b ? p->next_b + at * p->k : NULL;
    return p->next_a && at - p->n < p->m ? p->next_a + (at - p->n) * p->k : NULL;
}

INLINE void FN(short_tiles)(const FN(product) *p, ptrdiff_t i0, ptrdiff_t i1, ptrdiff_t high, ptrdiff_t j, ptrdiff_t nj, const real *b, ptrdiff_t bks)
{
    const ptrdiff_t across = j / GEMM_NR * FN(gemm_ceil)(p->m, high);
    for (ptrdiff_t i = i0; i < i1; i += high)
        FN(gemm_piece_ahead)(FN(gemm_min)(high, i1 - i), nj, p->k, p->a.p + i * p->a.rs, p->a.rs, p->a.ks, b, bks,
                             p->c + i * p->crs + j, p->crs, 0, NULL, p->bias ? p->bias + j : NULL,
                             FN(short_ahead)(p, across + i / high), 64 / (ptrdiff_t)sizeof(real));
}

FUNC void FN(product_short)(const FN(product) *p, ptrdiff_t task, ptrdiff_t slot)
{
    const ptrdiff_t down = FN(gemm_ceil)(p->m, p->rows);
    const ptrdiff_t i0 = task % down * p->rows, i1 = FN(gemm_min)(i0 + p->rows, p->m);
    const ptrdiff_t j0 = task / down * p->cols, j1 = FN(gemm_min)(j0 + p->cols, p->n);
    const ptrdiff_t high = FN(gemm_ceil)(i1 - i0, FN(gemm_ceil)(i1 - i0, GEMM_MR)); /* 15 rows are 8 and 7, not 14 and 1 */
    if (!p->scratch_bytes) {
        real panel[PRODUCT_SHORT_K * GEMM_NR + LANES] __attribute__((aligned(64)));
        for (ptrdiff_t j = j0; j < j1; j += GEMM_NR) {
            ptrdiff_t nj = FN(gemm_min)(GEMM_NR, j1 - j), bks = p->b.ks;
            const real *b = p->b.p + j * p->b.rs;
            if (p->b.rs != 1 || (nj != GEMM_NR && nj != LANES)) {
                bks = nj > LANES ? GEMM_NR : LANES;
                FN(gemm_pack_run)(b, p->b.rs, p->b.ks, nj, p->k, panel, bks);
                b = panel;
            }
            FN(short_tiles)(p, i0, i1, high, j, nj, b, bks);
        }
        return;
    }
    /* along the rows of C, so that it is written in the order in which it lies */
    real *packed = (real *)p->scratch + slot * (SHORT_BLOCK + 2 * LANES);
    const ptrdiff_t across = FN(gemm_max)(1, SHORT_BLOCK / FN(gemm_max)(1, p->k) / GEMM_NR) * GEMM_NR;
    for (ptrdiff_t jb = j0; jb < j1; jb += across) {
        ptrdiff_t je = FN(gemm_min)(jb + across, j1);
        for (ptrdiff_t j = jb; j < je; j += GEMM_NR)
            FN(gemm_pack_run)(p->b.p + j * p->b.rs, p->b.rs, p->b.ks, FN(gemm_min)(GEMM_NR, je - j), p->k, packed + (j - jb) * p->k, GEMM_NR);
        for (ptrdiff_t i = i0; i < i1; i += high)
            for (ptrdiff_t j = jb; j < je; j += GEMM_NR)
                FN(short_tiles)(p, i, FN(gemm_min)(i + high, i1), high, j, FN(gemm_min)(GEMM_NR, je - j), packed + (j - jb) * p->k, GEMM_NR);
    }
}

/* ---- stream: M <= 8 (or N <= 8, flipped), B with contiguous rows or columns, parallel over columns. B is read once, and
 * a block's sums wait in a buffer, t[i*STREAM_COLS + j], from one chunk of K to the next */
#define STREAM_K 8
#define STREAM_COLS (2048 / (ptrdiff_t)sizeof(real)) /* columns a block: eight rows of sums are 16 KB of the L1 */
#define STREAM_SCRATCH (PRODUCT_STREAM_ROWS * STREAM_COLS)

/* B by rows: `steps` of them added to all columns */
INLINE void FN(stream_rows)(const int rows, const int steps, const real *a, ptrdiff_t ars, ptrdiff_t aks, const real *b, ptrdiff_t bks,
                            real *t, ptrdiff_t n, int first)
{
    real x[PRODUCT_STREAM_ROWS][STREAM_K];
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < steps; k++)
            x[i][k] = a[i * ars + k * aks];
    for (ptrdiff_t j = 0; j < n; j += LANES) {
        ptrdiff_t count = n - j;
        vec s[PRODUCT_STREAM_ROWS];
        for (int i = 0; i < rows; i++)
            s[i] = first ? vzero() : vload(t + i * STREAM_COLS + j);
        for (int k = 0; k < steps; k++) {
            vec v = count >= LANES ? vload(b + k * bks + j) : vload_n(b + k * bks + j, count);
            for (int i = 0; i < rows; i++)
                s[i] = vfma(vset(x[i][k]), v, s[i]);
        }
        for (int i = 0; i < rows; i++)
            vstore(t + i * STREAM_COLS + j, s[i]);
    }
}

/* B by columns (element (k, j) is b[j*brs + k]): LANES of them at a time, transposed on the way */
INLINE void FN(stream_columns)(const int rows, const real *a, ptrdiff_t ars, ptrdiff_t aks, const real *b, ptrdiff_t brs, real *t,
                               ptrdiff_t n, ptrdiff_t nk)
{
    real block[LANES * LANES] __attribute__((aligned(64)));
    for (ptrdiff_t j = 0; j < n; j += LANES) {
        vec s[PRODUCT_STREAM_ROWS];
        for (int i = 0; i < rows; i++)
            s[i] = vzero();
        for (ptrdiff_t k = 0; k < nk; k += LANES) {
            ptrdiff_t steps = FN(gemm_min)(LANES, nk - k);
            FN(transpose_tile)(b + j * brs + k, brs, n - j, steps, block, LANES);
            for (ptrdiff_t q = 0; q < steps; q++) {
                vec v = vload(block + q * LANES);
                for (int i = 0; i < rows; i++)
                    s[i] = vfma(vset(a[i * ars + (k + q) * aks]), v, s[i]);
            }
        }
        for (int i = 0; i < rows; i++)
            vstore(t + i * STREAM_COLS + j, s[i]);
    }
}

#define X(r)                                                                                                               \
    FUNC void FN(stream_##r)(const real *a, ptrdiff_t ars, ptrdiff_t aks, const real *b, ptrdiff_t brs, ptrdiff_t bks,     \
                             real *t, ptrdiff_t n, ptrdiff_t nk)                                                           \
    {                                                                                                                      \
        ptrdiff_t k = 0;                                                                                                   \
        if (brs != 1) {                                                                                                    \
            FN(stream_columns)(r, a, ars, aks, b, brs, t, n, nk);                                                          \
            return;                                                                                                        \
        }                                                                                                                  \
        for (; k + STREAM_K <= nk; k += STREAM_K)                                                                          \
            FN(stream_rows)(r, STREAM_K, a + k * aks, ars, aks, b + k * bks, bks, t, n, k == 0);                           \
        for (; k < nk; k++)                                                                                                \
            FN(stream_rows)(r, 1, a + k * aks, ars, aks, b + k * bks, bks, t, n, k == 0);                                  \
    }
X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#undef X

/* c = t, or c + t, + bias, to C of any strides */
FUNC void FN(product_merge)(const FN(product) *p, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t j0, ptrdiff_t nj, const real *t, ptrdiff_t ld,
                            int add, int last)
{
    const real *bias = last ? p->bias : NULL;
    if (p->ccs == 1) {
        FN(gemm_merge)(ni, nj, t, ld, p->c + i0 * p->crs + j0, p->crs, add, NULL, bias ? bias + j0 : NULL);
        return;
    }
    for (ptrdiff_t j = 0; j < nj; j++) /* C is row-major the other way round */
        for (ptrdiff_t i = 0; i < ni; i++) {
            real *c = p->c + i0 + i + (j0 + j) * p->ccs, v = t[i * ld + j];
            v = add ? *c + v : v;
            *c = bias ? v + bias[i0 + i] : v;
        }
}

FUNC void FN(product_stream)(const FN(product) *p, ptrdiff_t task, ptrdiff_t slot)
{
    static void (*const kernels[])(const real *, ptrdiff_t, ptrdiff_t, const real *, ptrdiff_t, ptrdiff_t, real *, ptrdiff_t, ptrdiff_t) = {
        FN(stream_1), FN(stream_2), FN(stream_3), FN(stream_4), FN(stream_5), FN(stream_6), FN(stream_7), FN(stream_8)};
    real *t = (real *)p->scratch + slot * STREAM_SCRATCH;
    const ptrdiff_t kc = FN(gemm_kc)(p->k), j1 = FN(gemm_min)((task + 1) * p->cols, p->n);
    const ptrdiff_t most = p->b.rs == 1 ? STREAM_COLS : LANES; /* columns are read from end to end */
    for (ptrdiff_t j = task * p->cols; j < j1; j += most) {
        ptrdiff_t nj = FN(gemm_min)(most, j1 - j);
        for (ptrdiff_t k = 0; k < p->k; k += kc) {
            ptrdiff_t nk = FN(gemm_min)(kc, p->k - k);
            kernels[p->m - 1](p->a.p + k * p->a.ks, p->a.rs, p->a.ks, p->b.p + k * p->b.ks + j * p->b.rs, p->b.rs, p->b.ks, t, nj, nk);
            FN(product_merge)(p, 0, p->m, j, nj, t, STREAM_COLS, k > 0, k + nk == p->k);
        }
    }
}
