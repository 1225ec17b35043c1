/* matmul_dot_real.h: products with one vector, for one scalar type. Included by matmul.h only. */

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
