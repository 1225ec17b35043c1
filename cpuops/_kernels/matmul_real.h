/* matmul_real.h: the body of matmul.h (read its head) for one scalar type. */

typedef struct {
    ptrdiff_t m, n, k;
    FN(gemm_matrix) a, b; /* a.rs: from row to row; b.rs: from column to column */
    real *c;
    ptrdiff_t crs, ccs; /* C(i, j) is c[i*crs + j*ccs]; one of them is 1 */
    const real *bias;
    int activation;  /* ACTIVATION_...: C's values, activated, go where C is, or `apart` elements from there */
    ptrdiff_t apart;
    int vector;         /* M or N is 1 by the shape of the whole call, not only of this item: the order of dot */
    ptrdiff_t brs, bcs; /* bias[i*brs + j*bcs] to C(i, j): one of them is 1, the other 0. NULL: none */
    /* filled in by product_plan */
    size_t scratch_bytes;
    void *scratch;
    ptrdiff_t phases, slots;
    ptrdiff_t rows, cols;   /* of C a task */
    ptrdiff_t parts, wave;  /* dot: parts of a sum, and how many of them a phase */
    int path, flipped;
    FN(gemm_job) job;
} FN(product);

/* C transposed: rows become columns. Every path may take the one or the other, whichever shape suits it */
INLINE void FN(product_flip)(FN(product) *p)
{
    FN(gemm_matrix) x = p->a;
    ptrdiff_t t = p->m;
    p->a = p->b, p->b = x;
    p->m = p->n, p->n = t;
    t = p->crs, p->crs = p->ccs, p->ccs = t;
    t = p->brs, p->brs = p->bcs, p->bcs = t;
    p->flipped = !p->flipped;
}

/* ---- dot: N = 1 (or M = 1, flipped): y[i] = sum over k of a[i, k] x[k], parallel over rows, or over rows and parts
 *
 * K is cut into parts of DOT_K. In a part, lane l sums the terms k = l, l + LANES, l + 2 LANES, ..., a fused multiply-add
 * a term, from 0; lanes are added as vhsum does, parts in order. That is how rows of A that are contiguous are read
 * (dot_rows), and columns of A can be read in the same order (dot_columns). */
#define DOT_K 2048
#define DOT_ROWS 16
#define DOT_TERMS 8 /* rows of a column-major A at a time, all of one lane: its sums are loaded and stored once for them */
#define DOT_COLUMNS 1024 /* columns a block: the LANES sums of each are at most 64 KB of the L2, a row is a page or two */

#define DOT_EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
/* the lanes of eight sums at once, lane[u*LANES + l] of a[u] . x[u]: enough of them for the latency of a multiply-add */
INLINE void FN(dot8)(const int one_x, const real *const *a, const real *const *x, ptrdiff_t n, real *lane)
{
#define X(u)                            \
    vec s##u = vzero();                 \
    const real *a##u = a[u], *x##u = x[one_x ? 0 : u];
    DOT_EACH(X)
#undef X
    ptrdiff_t k = 0;
    for (; k + LANES <= n; k += LANES) {
#define X(u) s##u = vfma(vload(a##u + k), vload(x##u + k), s##u);
        DOT_EACH(X)
#undef X
    }
    if (k < n) {
#define X(u) s##u = vfma(vload_n(a##u + k, n - k), vload_n(x##u + k, n - k), s##u);
        DOT_EACH(X)
#undef X
    }
#define X(u) vstore(lane + u * LANES, s##u);
    DOT_EACH(X)
#undef X
}

/* the sum of t[0..LANES): as vhsum adds lanes */
INLINE vec FN(dot_lanes)(vec *t)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            t[l] = t[l] + t[l + half];
    return t[0];
}

/* parts [0, nq) (of n terms each) of rows [0, ni): s[part*ni + i]; nq * ni <= DOT_ROWS */
FUNC void FN(dot_rows)(const real *a, ptrdiff_t rs, const real *x, ptrdiff_t ni, ptrdiff_t nq, ptrdiff_t n, real *s)
{
    real lane[DOT_ROWS * LANES] __attribute__((aligned(64))), square[LANES * LANES] __attribute__((aligned(64)));
    const ptrdiff_t units = ni * nq;
    for (ptrdiff_t u = 0; u < units; u += 8) {
        const real *pa[8], *px[8];
        for (ptrdiff_t v = 0; v < 8; v++) {
            ptrdiff_t at = FN(gemm_min)(u + v, units - 1), part = nq == 1 ? 0 : at / ni;
            pa[v] = a + (at - part * ni) * rs + part * DOT_K;
            px[v] = x + part * DOT_K;
        }
        if (nq == 1)
            FN(dot8)(1, pa, px, n, lane + u * LANES);
        else
            FN(dot8)(0, pa, px, n, lane + u * LANES);
    }
    for (ptrdiff_t u = 0; u < units; u += LANES) {
        vec t[LANES];
        FN(transpose_tile)(lane + u * LANES, LANES, units - u, LANES, square, LANES);
        for (int l = 0; l < LANES; l++)
            t[l] = vload(square + l * LANES);
        vstore_n(s + u, FN(dot_lanes)(t), FN(gemm_min)(LANES, units - u));
    }
}

/* `terms` rows of A, `step` apart, times x[0], x[LANES], ..., added to the sums of one lane */
INLINE void FN(dot_lane)(const int terms, const int first, const int missing, const real *a, ptrdiff_t step, const real *x, real *lane, ptrdiff_t nj)
{
    for (ptrdiff_t j = 0; j < nj; j += LANES) {
        ptrdiff_t count = nj - j;
        vec sum = first ? vzero() : vload(lane + j);
        for (int t = 0; t < terms; t++)
            sum = vfma(count >= LANES ? vload(a + t * step + j) : vload_n(a + t * step + j, count), vset(x[t * LANES]), sum);
        if (missing) /* the 0 * 0 that dot8 adds beyond the last term, which makes -0 to 0 */
            sum = sum + vzero();
        vstore(lane + j, sum);
    }
}

/* one part of columns [0, nj) that lie side by side, row k of them at a + k*ks: s[j] */
FUNC void FN(dot_columns)(const real *a, ptrdiff_t ks, const real *x, ptrdiff_t nj, ptrdiff_t n, real *lanes, real *s)
{
    const ptrdiff_t width = FN(gemm_ceil)(nj, LANES) * LANES, step = LANES * ks; /* lanes[l*width + j] */
    for (ptrdiff_t k = 0; k < n; k += DOT_TERMS * LANES)
        for (ptrdiff_t l = 0; l < LANES; l++) {
            const real *p = a + (k + l) * ks, *q = x + k + l;
            real *lane = lanes + l * width;
            ptrdiff_t terms = FN(gemm_min)(DOT_TERMS, (n - k - l + LANES - 1) / LANES);
            if (terms == DOT_TERMS && k)
                FN(dot_lane)(DOT_TERMS, 0, 0, p, step, q, lane, nj);
            else if (terms == DOT_TERMS)
                FN(dot_lane)(DOT_TERMS, 1, 0, p, step, q, lane, nj);
            else { /* the rest of K: some lanes have a term less */
                if (k == 0)
                    memset(lane, 0, (size_t)width * sizeof(real));
                for (ptrdiff_t t = 0; t < terms; t++)
                    FN(dot_lane)(1, 0, 0, p + t * step, step, q + t * LANES, lane, nj);
                if (n % LANES && l >= n % LANES)
                    FN(dot_lane)(0, 0, 1, p, step, q, lane, nj);
            }
        }
    for (ptrdiff_t j = 0; j < width; j += LANES) {
        vec t[LANES];
        for (int l = 0; l < LANES; l++)
            t[l] = n ? vload(lanes + l * width + j) : vzero();
        vstore_n(s + j, FN(dot_lanes)(t), FN(gemm_min)(LANES, nj - j));
    }
}

/* to[i*ld + k] = element (i0 + i, k0 + k) of a matrix of any strides */
FUNC void FN(dot_gather)(const FN(gemm_matrix) *x, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t k0, ptrdiff_t nk, real *to, ptrdiff_t ld)
{
    ptrdiff_t n;
    for (ptrdiff_t k = 0; k < nk; k += n) {
        ptrdiff_t at = k0 + k, inner = x->table ? x->inner : k0 + nk;
        const real *p = x->p + i0 * x->rs + (x->table ? x->table[at / inner] : 0) + at % inner * x->ks;
        n = FN(gemm_min)(inner - at % inner, nk - k);
        for (ptrdiff_t i = 0; i < ni; i++)
            for (ptrdiff_t j = 0; j < n; j++)
                to[i * ld + k + j] = p[i * x->rs + j * x->ks];
    }
}
/* reals a worker: a part of x; then a part of DOT_ROWS rows, or DOT_COLUMNS totals and LANES sums for each */
#define DOT_SCRATCH ((1 + DOT_ROWS) * DOT_K)

/* parts [q0, q1) of rows [i0, i0 + ni): to s[(q - q0)*step + i - i0], or (s NULL) added up in y */
INLINE void FN(dot_block)(const FN(product) *p, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t q0, ptrdiff_t q1, real *scratch, real *s, ptrdiff_t step)
{
    const int by_rows = p->a.ks == 1 && !p->a.table, by_columns = !by_rows && p->a.rs == 1 && !p->a.table;
    real few[DOT_ROWS], *local = by_columns ? scratch + DOT_K : few;
    for (ptrdiff_t q = q0; q < q1;) {
        ptrdiff_t k0 = q * DOT_K, n = FN(gemm_min)(DOT_K, p->k - k0), nq = 1;
        const real *x = p->b.p + k0;
        if (p->b.ks != 1 || p->b.table) {
            FN(dot_gather)(&p->b, 0, 1, k0, n, scratch, DOT_K);
            x = scratch;
        } else if (by_rows && n == DOT_K) { /* several parts of few rows at once */
            nq = FN(gemm_max)(1, FN(gemm_min)(8 / ni, FN(gemm_min)(q1 - q, (p->k - k0) / DOT_K)));
        }
        if (by_rows) {
            FN(dot_rows)(p->a.p + i0 * p->a.rs + k0, p->a.rs, x, ni, nq, n, local);
        } else if (by_columns) {
            FN(dot_columns)(p->a.p + i0 + k0 * p->a.ks, p->a.ks, x, ni, n, scratch + DOT_K + DOT_COLUMNS, local);
        } else {
            FN(dot_gather)(&p->a, i0, ni, k0, n, scratch + DOT_K, DOT_K);
            FN(dot_rows)(scratch + DOT_K, DOT_K, x, ni, 1, n, local);
        }
        for (ptrdiff_t part = 0; part < nq; part++, q++)
            for (ptrdiff_t i = 0; i < ni; i++) {
                real t = local[part * ni + i], *y = p->c + i0 + i;
                if (s) {
                    s[(q - q0) * step + i] = t;
                    continue;
                }
                *y = q ? *y + t : t;
                if (p->bias && q == p->parts - 1)
                    *y += p->bias[(i0 + i) * p->brs];
            }
    }
}

FUNC void FN(product_dot)(const FN(product) *p, ptrdiff_t phase, ptrdiff_t task, ptrdiff_t slot)
{
    real *mine = (real *)p->scratch + slot * DOT_SCRATCH;
    const ptrdiff_t most = p->a.rs == 1 && p->a.ks != 1 && !p->a.table ? DOT_COLUMNS : DOT_ROWS;
    if (!p->wave) { /* a task owns rows */
        ptrdiff_t end = FN(gemm_min)((task + 1) * p->rows, p->m);
        for (ptrdiff_t i = task * p->rows; i < end; i += most)
            FN(dot_block)(p, i, FN(gemm_min)(most, end - i), 0, p->parts, mine, NULL, 0);
        return;
    }
    real *sums = (real *)p->scratch + p->slots * DOT_SCRATCH;
    ptrdiff_t first = phase / 2 * p->wave, n = FN(gemm_min)(p->wave, p->parts - first);
    if (phase % 2 == 0) { /* a task owns a few parts of all rows */
        ptrdiff_t q0 = task * p->cols, q1 = FN(gemm_min)(q0 + p->cols, n);
        for (ptrdiff_t i = 0; i < p->m; i += most)
            FN(dot_block)(p, i, FN(gemm_min)(most, p->m - i), first + q0, first + q1, mine, sums + q0 * p->m + i, p->m);
        return;
    }
    for (ptrdiff_t q = 0; q < n; q++)
        for (ptrdiff_t i = 0; i < p->m; i++) {
            real *y = p->c + i, t = sums[q * p->m + i];
            *y = first + q ? *y + t : t;
            if (p->bias && first + q == p->parts - 1)
                *y += p->bias[i * p->brs];
        }
}

/* ---- short: K <= 64 and C row-major, parallel over blocks of C. A is read where it is. B is, too, if its rows are
 * contiguous and C has few rows; else a block of it is packed */
#define SHORT_BLOCK (65536 / (ptrdiff_t)sizeof(real)) /* packed B: a small part of the L2, beside the rows of C */
#define SHORT_CELLS 16384 /* up to here C stays in the L1 and L2 whatever the order, and B goes through the stack */

INLINE void FN(short_tiles)(const FN(product) *p, ptrdiff_t i0, ptrdiff_t i1, ptrdiff_t high, ptrdiff_t j, ptrdiff_t nj, const real *b, ptrdiff_t bks)
{
    for (ptrdiff_t i = i0; i < i1; i += high)
        FN(gemm_piece)(FN(gemm_min)(high, i1 - i), nj, p->k, p->a.p + i * p->a.rs, p->a.rs, p->a.ks, b, bks,
                       p->c + i * p->crs + j, p->crs, 0, NULL, p->bias ? p->bias + j : NULL);
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

/* gemm's finish: a piece of C, while it is in the cache */
FUNC void FN(product_activate)(void *ctx, real *c, ptrdiff_t ld, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t j0, ptrdiff_t nj)
{
    const FN(product) *p = (const FN(product) *)ctx;
    (void)i0, (void)j0;
    FN(activate)(p->activation, c, c + p->apart, ni, nj, ld);
}

/* ---- gemm, flipped: tiles of the transposed C ---- */

FUNC void FN(product_store)(void *ctx, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t j0, ptrdiff_t nj, const real *tile, ptrdiff_t ld, int add,
                            int last)
{
    const FN(product) *p = (const FN(product) *)ctx;
    real flipped[GEMM_NR * (GEMM_MR + LANES)] __attribute__((aligned(64)));
    const ptrdiff_t width = FN(gemm_ceil)(GEMM_MR, LANES) * LANES;
    for (ptrdiff_t i = 0; i < ni; i += LANES)
        for (ptrdiff_t j = 0; j < nj; j += LANES)
            FN(transpose_tile)(tile + i * ld + j, ld, ni - i, FN(gemm_min)(LANES, nj - j), flipped + j * width + i, width);
    real *c = p->c + i0 + j0 * p->ccs;
    FN(gemm_merge)(nj, ni, flipped, width, c, p->ccs, add, NULL, last && p->bias ? p->bias + i0 : NULL);
    if (last && p->activation)
        FN(product_activate)(ctx, c, p->ccs, j0, nj, i0, ni);
}

/* the job for p (whose fields may have moved since the plan: an item of a batch) */
INLINE FN(gemm_job) FN(product_job)(const FN(product) *p)
{
    FN(gemm_job) w = p->job;
    w.a = &p->a;
    w.b = &p->b;
    w.c = p->c;
    w.store_ctx = w.finish_ctx = (void *)p;
    w.scratch = p->scratch;
    return w;
}

/* ---- the whole ---- */

/* vectors that tiles of an m x n product fill, in whole vectors along n */
INLINE ptrdiff_t FN(product_vectors)(ptrdiff_t m, ptrdiff_t n) { return m * FN(gemm_ceil)(n, LANES); }

FUNC void FN(product_plan)(FN(product) *p, int num_threads)
{
    const ptrdiff_t threads = num_threads > 1 ? num_threads : 1, size = sizeof(real);
    ptrdiff_t tasks = 1;
    p->phases = p->slots = 1;
    p->scratch_bytes = 0;
    p->wave = 0;
    if (p->m <= 0 || p->n <= 0) {
        p->path = PRODUCT_SHORT;
        p->phases = 0;
        return;
    }
    if (p->vector) {
        if (p->n != 1)
            FN(product_flip)(p);
        p->path = PRODUCT_DOT;
        p->parts = FN(gemm_max)(1, FN(gemm_ceil)(p->k, DOT_K));
        const ptrdiff_t least = FN(gemm_max)(DOT_ROWS, 128 / size); /* rows a task: whole cache lines of columns */
        ptrdiff_t blocks = FN(gemm_ceil)(p->m, least);
        if (threads > 1 && blocks < 2 * threads && p->parts > 1) {
            p->wave = FN(gemm_min)(p->parts, FN(gemm_max)(1, 200000 / p->m));
            p->cols = FN(gemm_max)(1, p->wave / (4 * threads));
            p->phases = 2 * FN(gemm_ceil)(p->parts, p->wave);
            tasks = FN(gemm_ceil)(p->wave, p->cols);
        } else {
            p->rows = FN(gemm_max)(1, FN(gemm_min)(blocks / (4 * threads), DOT_COLUMNS / least)) * least;
            tasks = FN(gemm_ceil)(p->m, p->rows);
        }
        p->slots = FN(gemm_min)(threads, tasks);
        if (p->wave || p->a.ks != 1 || p->b.ks != 1 || p->a.table)
            p->scratch_bytes = (size_t)(p->slots * DOT_SCRATCH + p->wave * p->m) * sizeof(real);
        return;
    }
    if (p->k <= PRODUCT_SHORT_K && !p->a.table) {
        p->path = PRODUCT_SHORT;
        p->cols = p->n;
        p->rows = p->m;
        if (threads > 1) {
            ptrdiff_t across = FN(gemm_ceil)(p->n, GEMM_NR), down = FN(gemm_ceil)(p->m, 4 * GEMM_MR);
            p->rows = FN(gemm_max)(1, down / (4 * threads)) * 4 * GEMM_MR;
            if (down < 4 * threads)
                p->cols = FN(gemm_max)(1, across / FN(gemm_ceil)(4 * threads, down)) * GEMM_NR;
        }
        tasks = FN(gemm_ceil)(p->m, p->rows) * FN(gemm_ceil)(p->n, p->cols);
        p->slots = FN(gemm_min)(threads, tasks);
        if (p->m > GEMM_MR && p->n > SHORT_CELLS / p->m)
            p->scratch_bytes = (size_t)(p->slots * (SHORT_BLOCK + 2 * LANES)) * sizeof(real);
        return;
    }
    if (p->n <= PRODUCT_STREAM_ROWS && p->n < p->m)
        FN(product_flip)(p);
    if (p->m <= PRODUCT_STREAM_ROWS && (p->b.rs == 1 || p->b.ks == 1) && !p->a.table) {
        p->path = PRODUCT_STREAM;
        ptrdiff_t lines = FN(gemm_ceil)(p->n * size, 256);
        p->cols = FN(gemm_max)(1, FN(gemm_min)(lines / (4 * threads), 16)) * 256 / size;
        tasks = FN(gemm_ceil)(p->n, p->cols);
        p->slots = FN(gemm_min)(threads, tasks);
        p->scratch_bytes = (size_t)(p->slots * STREAM_SCRATCH) * sizeof(real);
        return;
    }
    p->path = PRODUCT_GEMM;
    /* 49 columns fill 64 lanes, but as rows of the transposed product they fill tiles: worth it from an eighth on */
    if (p->ccs == 1 && (FN(product_vectors)(p->n, p->m) * 9 < FN(product_vectors)(p->m, p->n) * 8 ||
                        (p->n <= GEMM_NR && p->n <= p->m / 4 && p->a.rs == 1 && p->a.ks != 1))) /* columns of A make good B */
        FN(product_flip)(p);
    FN(gemm_job) w = {.m = p->m, .n = p->n, .k = p->k, .pack_a = FN(gemm_plain), .pack_b = FN(gemm_plain), .a = &p->a, .b = &p->b, .c = p->c, .ldc = p->crs, .bias_col = p->bias};
    if (p->ccs != 1) {
        w.store = FN(product_store);
        w.bias_col = NULL;
    } else if (p->activation) {
        w.finish = FN(product_activate);
    }
    FN(gemm_plan)(&w, num_threads);
    p->job = w;
    p->phases = FN(gemm_phases)(&w);
    p->scratch_bytes = w.scratch_bytes;
    p->slots = w.slots;
}

FUNC ptrdiff_t FN(product_tasks)(const FN(product) *p, ptrdiff_t phase)
{
    switch (p->path) {
    case PRODUCT_DOT:
        if (!p->wave)
            return FN(gemm_ceil)(p->m, p->rows);
        return phase % 2 ? 1 : FN(gemm_ceil)(FN(gemm_min)(p->wave, p->parts - phase / 2 * p->wave), p->cols);
    case PRODUCT_SHORT:
        return FN(gemm_ceil)(p->m, p->rows) * FN(gemm_ceil)(p->n, p->cols);
    case PRODUCT_STREAM:
        return FN(gemm_ceil)(p->n, p->cols);
    default:
        return FN(gemm_tasks)(&p->job, phase);
    }
}

INLINE void FN(product_task)(const FN(product) *p, const FN(gemm_job) *job, ptrdiff_t phase, ptrdiff_t task, ptrdiff_t slot)
{
    switch (p->path) {
    case PRODUCT_DOT:
        FN(product_dot)(p, phase, task, slot);
        break;
    case PRODUCT_SHORT:
        FN(product_short)(p, task, slot);
        break;
    case PRODUCT_STREAM:
        FN(product_stream)(p, task, slot);
        break;
    default:
        FN(gemm_task)(job, phase, task, slot);
    }
}

/* the tasks of a phase that worker `slot` gets hold of; `next` counts them */
FUNC void FN(product_work)(const FN(product) *p, ptrdiff_t phase, ptrdiff_t slot, ptrdiff_t *next)
{
    const ptrdiff_t tasks = FN(product_tasks)(p, phase);
    const FN(gemm_job) job = FN(product_job)(p);
    for (;;) {
        ptrdiff_t task = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
        if (task >= tasks)
            return;
        FN(product_task)(p, &job, phase, task, slot);
    }
}

/* the whole product on the calling thread */
FUNC void FN(product_serial)(const FN(product) *p)
{
    if (p->path == PRODUCT_SHORT) { /* most calls are small: nothing else for them */
        for (ptrdiff_t task = 0; task < p->phases * FN(product_tasks)(p, 0); task++)
            FN(product_short)(p, task, 0);
        return;
    }
    const FN(gemm_job) job = FN(product_job)(p);
    for (ptrdiff_t phase = 0; phase < p->phases; phase++) {
        const ptrdiff_t tasks = FN(product_tasks)(p, phase);
        for (ptrdiff_t task = 0; task < tasks; task++)
            FN(product_task)(p, &job, phase, task, 0);
    }
}

/* ---- batches ---- */

/* p, whose shapes and strides are set, for every item of the batch */
FUNC void FN(batch_plan)(product_batch *t, FN(product) *p, int num_threads)
{
    const ptrdiff_t threads = num_threads > 1 ? num_threads : 1;
    const double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k; /* an item */
    t->block = 0;
    if (t->items > 1 && (t->items >= 4 * threads || flops < 2e6)) {
        /* a task is some microseconds at least, but there are several a thread */
        ptrdiff_t most = t->items / (8 * threads), least = (ptrdiff_t)(2e5 / (flops + 1)) + 1;
        t->block = FN(gemm_max)(1, FN(gemm_min)(most, least));
    }
    FN(product_plan)(p, t->block ? 1 : num_threads);
    if (t->block) {
        p->scratch_bytes = (p->scratch_bytes + 63) / 64 * 64;
        t->slots = FN(gemm_min)(threads, FN(gemm_ceil)(t->items, t->block));
        t->phases = p->phases > 0;
        t->scratch_bytes = p->scratch_bytes * (size_t)t->slots;
    } else {
        t->slots = p->slots;
        t->phases = p->phases * t->items;
        t->scratch_bytes = p->scratch_bytes;
    }
}

INLINE FN(product) FN(batch_item)(const product_batch *t, const FN(product) *p, ptrdiff_t item)
{
    FN(product) q = *p;
    q.c += item * p->m * p->n;
    for (int axis = t->axes - 1; axis >= 0; axis--) {
        ptrdiff_t i = item % t->length[axis];
        item /= t->length[axis];
        q.a.p += i * (p->flipped ? t->step_b : t->step_a)[axis];
        q.b.p += i * (p->flipped ? t->step_a : t->step_b)[axis];
    }
    return q;
}

INLINE void FN(batch_items)(const product_batch *t, const FN(product) *p, ptrdiff_t lo, ptrdiff_t hi, ptrdiff_t slot)
{
    for (ptrdiff_t item = lo; item < hi; item++) {
        FN(product) q = FN(batch_item)(t, p, item);
        q.scratch = (char *)p->scratch + (size_t)slot * p->scratch_bytes;
        FN(product_serial)(&q);
    }
}

/* what worker `slot` does in a phase: blocks of items, or tasks of one item */
FUNC void FN(batch_work)(product_batch *t, const FN(product) *p, ptrdiff_t phase, ptrdiff_t slot)
{
    if (!t->block) {
        FN(product) q = FN(batch_item)(t, p, phase / p->phases);
        FN(product_work)(&q, phase % p->phases, slot, &t->next);
        return;
    }
    for (;;) {
        ptrdiff_t lo = __atomic_fetch_add(&t->next, t->block, __ATOMIC_RELAXED);
        if (lo >= t->items)
            return;
        FN(batch_items)(t, p, lo, FN(gemm_min)(lo + t->block, t->items), slot);
    }
}

FUNC void FN(batch_serial)(const product_batch *t, const FN(product) *p)
{
    if (t->phases)
        FN(batch_items)(t, p, 0, t->items, 0);
}
