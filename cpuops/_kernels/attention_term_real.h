/* attention_term_real.h: what is added to scores and what is hidden, for attention.h; one scalar type. */

#define HIDDEN ((real)-INFINITY)

INLINE const real *FN(bias_at)(const attention_plan *p, ptrdiff_t b, ptrdiff_t h, ptrdiff_t i, ptrdiff_t j)
{
    const ptrdiff_t *s = p->bias_stride;
    return (const real *)p->bias + b * s[0] + h * s[1] + i * s[2] + j * s[3];
}
INLINE const unsigned char *FN(mask_at)(const attention_plan *p, ptrdiff_t b, ptrdiff_t h, ptrdiff_t i, ptrdiff_t j)
{
    const ptrdiff_t *s = p->mask_stride;
    return p->mask + b * s[0] + h * s[1] + i * s[2] + j * s[3];
}

/* whether row r of a group sees key j: the slow way, one cell */
FUNC int FN(sees)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t r, ptrdiff_t j)
{
    ptrdiff_t h = head_of(p, group, r), i = r % p->sq;
    if (j >= keys_seen(p, r) || (p->mask && *FN(mask_at)(p, b, h, i, j)))
        return 0;
    return !p->bias || *FN(bias_at)(p, b, h, i, j) != HIDDEN;
}

/* term[j] = bias, or HIDDEN where the mask hides, for nk keys from j0 of one row. Tells whether any is visible */
FUNC int FN(term_row)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t r, ptrdiff_t j0, ptrdiff_t nk, real *term)
{
    ptrdiff_t h = head_of(p, group, r), i = r % p->sq, bj = p->bias_stride[3], mj = p->mask_stride[3];
    const real *bias = p->bias ? FN(bias_at)(p, b, h, i, j0) : NULL;
    const unsigned char *mask = p->mask ? FN(mask_at)(p, b, h, i, j0) : NULL;
    if (!bias)
        for (ptrdiff_t j = 0; j < nk; j++)
            term[j] = 0;
    else if (bj == 1)
        memcpy(term, bias, (size_t)nk * sizeof(real));
    else
        for (ptrdiff_t j = 0; j < nk; j++)
            term[j] = bias[j * bj];
    if (mask && mj == 1)
        for (ptrdiff_t j = 0; j < nk; j++)
            term[j] = mask[j] ? HIDDEN : term[j];
    else if (mask)
        for (ptrdiff_t j = 0; j < nk; j++)
            term[j] = mask[j * mj] ? HIDDEN : term[j];
    int any = 0;
    for (ptrdiff_t j = 0; j < nk; j++)
        any |= term[j] != HIDDEN;
    return any;
}

/* the same number of keys, the same term for every row of a group */
INLINE int FN(term_is_by_key)(const attention_plan *p)
{
    return (!p->bias || (!p->bias_stride[1] && !p->bias_stride[2])) && (!p->mask || (!p->mask_stride[1] && !p->mask_stride[2]));
}

/* what a panel of scores [key][GEMM_NR rows] is told about its cells */
typedef struct {
    const real *term;    /* [key][GEMM_NR], or [key] when by_key; NULL when there is neither mask nor bias */
    int by_key;
    const real *visible; /* causal: how many keys of the tile each lane sees; NULL when all */
} FN(hiding);

/* scratch of a panel's terms */
typedef struct {
    real rows[GEMM_NR * ATTENTION_K]; /* [row][key], before they are transposed */
    real term[GEMM_NR * ATTENTION_K];
    real visible[GEMM_NR];
} FN(term_scratch);

/* The terms of rows [r0, r0 + n) and keys [j0, j0 + *nk). *nk is lowered to the keys that one of them may see; 0 when all
 * cells are hidden. `by_key` is the term of the whole tile where that is the same for all rows */
FUNC FN(hiding) FN(panel_terms)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t r0, ptrdiff_t n, ptrdiff_t j0,
                                ptrdiff_t *nk, const real *by_key, FN(term_scratch) *s)
{
    FN(hiding) hide = {by_key, by_key != NULL, NULL};
    if (p->causal) {
        *nk = larger(0, smaller(*nk, most_keys(p, r0, n) - j0));
        int all = 1;
        for (ptrdiff_t i = 0; i < GEMM_NR; i++) {
            ptrdiff_t seen = i < n ? larger(0, smaller(*nk, keys_seen(p, r0 + i) - j0)) : *nk;
            s->visible[i] = (real)seen;
            all &= seen == *nk;
        }
        hide.visible = all ? NULL : s->visible;
    }
    if (by_key || (!p->bias && !p->mask) || !*nk)
        return hide;
    const real *rows = s->rows;
    ptrdiff_t apart = ATTENTION_K;
    if (!p->mask && p->bias_stride[3] == 1 && r0 / p->sq == (r0 + n - 1) / p->sq) { /* transposed from where it is */
        rows = FN(bias_at)(p, b, head_of(p, group, r0), r0 % p->sq, j0);
        apart = p->bias_stride[2];
    } else {
        int any = 0;
        for (ptrdiff_t i = 0; i < n; i++)
            any |= FN(term_row)(p, b, group, r0 + i, j0, *nk, s->rows + i * ATTENTION_K);
        if (!any)
            *nk = 0;
    }
    for (ptrdiff_t i = 0; i < GEMM_NR; i += LANES)
        for (ptrdiff_t j = 0; j < *nk; j += LANES)
            FN(transpose_tile)(rows + i * apart + j, apart, smaller(LANES, larger(0, n - i)), smaller(LANES, *nk - j),
                               s->term + j * GEMM_NR + i, GEMM_NR);
    hide.term = s->term;
    return hide;
}

/* a score from a product q k scale: capped, biased, hidden. j: the key's place in the tile */
INLINE vec FN(score)(vec s, const FN(hiding) *hide, ptrdiff_t j, ptrdiff_t lane, real cap, real over_cap, vmask *hidden, vec *tanh)
{
    vmask h = vlt(vzero(), vzero());
    if (cap != 0) {
        *tanh = vtanh(s * vset(over_cap));
        s = vset(cap) * *tanh;
    }
    if (hide->term) {
        vec t = hide->by_key ? vset(hide->term[j]) : vload(hide->term + j * GEMM_NR + lane);
        h = veq(t, vset(HIDDEN));
        s = s + t;
    }
    if (hide->visible)
        h = mor(h, vle(vload(hide->visible + lane), vset((real)j)));
    *hidden = h;
    return vsel(h, vset(HIDDEN), s);
}

/* exp of a score less its row's maximum or logsumexp, so of x <= 0. Below the smallest normal number it is 0: a result that
 * underflows costs as much as a hundred others, and next to a probability of order 1 it is nothing. Relative error 2e-7
 * (float), 2 ulp (double) where the result is above 1e-4 */
INLINE vec FN(weight)(vec x)
{
    const vec low = vset((real)(IS_F64 ? -708 : -87)), magic = vset((real)(IS_F64 ? 6755399441055744.0 : 12582912.0));
    const vmask gone = vlt(x, low);
    x = vmax_fast(low, x); /* NaN stays */
    const vec n = vfma(x, vset((real)1.44269504088896340736), magic) - magic, r = vfnma(n, vset((real)0.69314718055994530942), x);
#if IS_F64
    const vec e = vm_exp_m1(r) + vset(1);
#else
    vec e = vfma(vset(WEIGHT_4), r, vset(WEIGHT_3));
    e = vfma(vfma(vfma(vfma(e, r, vset(WEIGHT_2)), r, vset(WEIGHT_1)), r, vset(WEIGHT_0)), r, vset(1));
#endif
#if SIMD_AVX512
    return vsel(gone, vzero(), vm_scale(e, n));
#else
    return vsel(gone, vzero(), e * vm_pow2(n));
#endif
}

/* ---- products ---- */

/* C[m, nv vectors] (+)= A[m, kc] B[kc, nv vectors]; all of C is written in whole vectors */
FUNC void FN(product)(ptrdiff_t m, int nv, ptrdiff_t kc, const real *a, ptrdiff_t ars, ptrdiff_t aks, const real *b, ptrdiff_t bks,
                      real *c, ptrdiff_t ldc, int add)
{
    const ptrdiff_t strips = pieces(m, GEMM_MR), mr = strips ? pieces(m, strips) : 1, step = FN(gemm_kc)(kc);
    for (ptrdiff_t k = 0; k < kc || k == 0; k += larger(step, 1)) {
        ptrdiff_t nk = smaller(larger(step, 1), kc - k);
        for (ptrdiff_t i = 0; i < m; i += mr) {
            ptrdiff_t rows = smaller(mr, m - i);
            FN(gemm_tiles)[rows - 1][nv - 1](nk, a + i * ars + k * aks, ars, aks, b + k * bks, bks, c + i * ldc, ldc, add || k, NULL, NULL, NULL, 0);
        }
    }
}

/* whether all of n contiguous values are finite */
FUNC int FN(all_finite)(const real *x, ptrdiff_t n)
{
    vec s0 = vzero(), s1 = vzero(), s2 = vzero(), s3 = vzero();
    ptrdiff_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        s0 = vfma(vload(x + i), vzero(), s0);
        s1 = vfma(vload(x + i + LANES), vzero(), s1);
        s2 = vfma(vload(x + i + 2 * LANES), vzero(), s2);
        s3 = vfma(vload(x + i + 3 * LANES), vzero(), s3);
    }
    for (; i < n; i += LANES)
        s0 = vfma(vload_n(x + i, smaller(LANES, n - i)), vzero(), s0);
    return !many(visnan((s0 + s1) + (s2 + s3)));
}

/* C[width][GEMM_NR rows] += X^T P for keys [j0, j0 + nk) of X [key][width], P [key][ldp]. Where a key of X is not finite,
 * rows that do not see it are left alone */
FUNC void FN(seen_product)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t r0, ptrdiff_t n, ptrdiff_t j0, ptrdiff_t nk,
                           const real *x, ptrdiff_t width, const real *weights, ptrdiff_t ldp, real *c)
{
    for (ptrdiff_t j = 0; j < nk;) {
        ptrdiff_t end = j;
        while (end < nk && FN(all_finite)(x + end * width, width))
            end++;
        if (end > j)
            FN(product)(width, 2, end - j, x + j * width, 1, width, weights + j * ldp, ldp, c, GEMM_NR, 1);
        if (end < nk)
            for (ptrdiff_t i = 0; i < n; i++)
                if (FN(sees)(p, b, group, r0 + i, j0 + end))
                    for (ptrdiff_t w = 0; w < width; w++)
                        c[w * GEMM_NR + i] += weights[end * ldp + i] * x[end * width + w];
        j = end + 1;
    }
}
