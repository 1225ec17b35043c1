/* gemm_tile_real.h: the register tile of gemm.h, for one scalar type. Included by gemm.h only. */

/* steps of K by which B comes to the L1 early: rows of it that were not packed are not what the hardware expects */
#define GEMM_NEAR 8

#define GEMM_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)

/* c[rows, nv vectors] (+)= a b over kc, then + bias. A element (i, k) is a[i*ars + k*aks]; B row k starts at b + k*bks.
 * The lines at ahead + k*ahead_step come to the L2 meanwhile (ahead NULL: none). rows and nv are constants after inlining;
 * all accumulators are in registers */
INLINE void FN(gemm_tile)(const int rows, const int nv, ptrdiff_t kc, const real *a, ptrdiff_t ars, ptrdiff_t aks,
                          const real *b, ptrdiff_t bks, real *c, ptrdiff_t ldc, int add, const real *bias_row,
                          const real *bias_col, const real *ahead, ptrdiff_t ahead_step)
{
#define X(i) vec c##i = vzero(), d##i = vzero();
    GEMM_ROWS(X)
#undef X
    /* rows 3q, 3q+1, 3q+2 from one pointer, by the addressing modes p, p + s, p + 2s */
    const real *a0 = a, *a3 = a + 3 * ars, *a6 = a + 6 * ars, *a9 = a + 9 * ars, *a12 = a + 12 * ars;
    const ptrdiff_t s2 = 2 * ars;
    __asm__("" : "+r"(aks)); /* keeps the compiler from a second copy of the loop for stride 1 */
#define A0 a0[0]
#define A1 a0[ars]
#define A2 a0[s2]
#define A3 a3[0]
#define A4 a3[ars]
#define A5 a3[s2]
#define A6 a6[0]
#define A7 a6[ars]
#define A8 a6[s2]
#define A9 a9[0]
#define A10 a9[ars]
#define A11 a9[s2]
#define A12 a12[0]
#define A13 a12[ars]
    if (!ahead)
        ahead = b, ahead_step = 0;
    for (ptrdiff_t k = 0; k < kc; k++) {
        __builtin_prefetch(ahead, 0, 2);
        __builtin_prefetch(b + GEMM_NEAR * bks);
        if (nv > 1)
            __builtin_prefetch(b + GEMM_NEAR * bks + LANES);
        vec b0 = vload(b), b1 = nv > 1 ? vload(b + LANES) : b0;
#define X(i)                               \
    if (i < rows) {                        \
        vec t = vset(A##i);                \
        c##i = vfma(t, b0, c##i);          \
        if (nv > 1)                        \
            d##i = vfma(t, b1, d##i);      \
    }
        GEMM_ROWS(X)
#undef X
        b += bks, ahead += ahead_step;
        a0 += aks, a3 += aks, a6 += aks, a9 += aks, a12 += aks;
    }
#undef A0
#undef A1
#undef A2
#undef A3
#undef A4
#undef A5
#undef A6
#undef A7
#undef A8
#undef A9
#undef A10
#undef A11
#undef A12
#undef A13
    if (add) {
        real *p = c;
#define X(i)                               \
    if (i < rows) {                        \
        c##i = vload(p) + c##i;            \
        if (nv > 1)                        \
            d##i = vload(p + LANES) + d##i; \
        p += ldc;                          \
    }
        GEMM_ROWS(X)
#undef X
    }
    if (bias_row) {
#define X(i)                    \
    if (i < rows) {             \
        vec t = vset(bias_row[i]); \
        c##i = c##i + t;        \
        d##i = d##i + t;        \
    }
        GEMM_ROWS(X)
#undef X
    }
    if (bias_col) {
        vec b0 = vload(bias_col), b1 = nv > 1 ? vload(bias_col + LANES) : b0;
#define X(i) c##i = c##i + b0, d##i = d##i + b1;
        GEMM_ROWS(X)
#undef X
    }
#define X(i)                           \
    if (i < rows) {                    \
        vstore(c, c##i);               \
        if (nv > 1)                    \
            vstore(c + LANES, d##i);   \
        c += ldc;                      \
    }
    GEMM_ROWS(X)
#undef X
}

#define GEMM_TILE_ARGS                                                                                                  \
    ptrdiff_t kc, const real *a, ptrdiff_t ars, ptrdiff_t aks, const real *b, ptrdiff_t bks, real *c, ptrdiff_t ldc,    \
        int add, const real *bias_row, const real *bias_col, const real *ahead, ptrdiff_t ahead_step
#define X(i)                                                                                                            \
    FUNC void FN(gemm_tile_##i##_1)(GEMM_TILE_ARGS)                                                                     \
    {                                                                                                                   \
        FN(gemm_tile)(i + 1 <= GEMM_MR ? i + 1 : 1, 1, kc, a, ars, aks, b, bks, c, ldc, add, bias_row, bias_col, ahead,    \
                      ahead_step);                                                                                          \
    }                                                                                                                   \
    FUNC void FN(gemm_tile_##i##_2)(GEMM_TILE_ARGS)                                                                     \
    {                                                                                                                   \
        FN(gemm_tile)(i + 1 <= GEMM_MR ? i + 1 : 1, 2, kc, a, ars, aks, b, bks, c, ldc, add, bias_row, bias_col, ahead,    \
                      ahead_step);                                                                                          \
    }
GEMM_ROWS(X)
#undef X
typedef void (*FN(gemm_tile_function))(GEMM_TILE_ARGS);
#define X(i) {FN(gemm_tile_##i##_1), FN(gemm_tile_##i##_2)},
/* [rows - 1][vectors - 1] */
static const FN(gemm_tile_function) FN(gemm_tiles)[14][2] __attribute__((unused)) = {GEMM_ROWS(X)};
#undef X

/* c[rows, cols] = t, or c + t; then + bias */
FUNC void FN(gemm_merge)(ptrdiff_t rows, ptrdiff_t cols, const real *t, ptrdiff_t ldt, real *c, ptrdiff_t ldc, int add,
                         const real *bias_row, const real *bias_col)
{
    for (ptrdiff_t i = 0; i < rows; i++, t += ldt, c += ldc)
        for (ptrdiff_t j = 0; j < cols; j += LANES) {
            ptrdiff_t n = cols - j < LANES ? cols - j : LANES;
            vec v = vload_n(t + j, n);
            if (add)
                v = vload_n(c + j, n) + v;
            if (bias_row)
                v = v + vset(bias_row[i]);
            if (bias_col)
                v = v + vload_n(bias_col + j, n);
            vstore_n(c + j, v, n);
        }
}

/* rows <= GEMM_MR by cols <= GEMM_NR of C. B is read in whole vectors; a short row of C goes through a buffer */
INLINE void FN(gemm_piece_ahead)(ptrdiff_t rows, ptrdiff_t cols, GEMM_TILE_ARGS)
{
    FN(gemm_tile_function) tile = FN(gemm_tiles)[rows - 1][cols > LANES];
    if (cols == GEMM_NR || cols == LANES) {
        tile(kc, a, ars, aks, b, bks, c, ldc, add, bias_row, bias_col, ahead, ahead_step);
        return;
    }
    real t[GEMM_MR * GEMM_NR] __attribute__((aligned(64)));
    tile(kc, a, ars, aks, b, bks, t, GEMM_NR, 0, NULL, NULL, ahead, ahead_step);
    FN(gemm_merge)(rows, cols, t, GEMM_NR, c, ldc, add, bias_row, bias_col);
}

INLINE void FN(gemm_piece)(ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t kc, const real *a, ptrdiff_t ars, ptrdiff_t aks,
                           const real *b, ptrdiff_t bks, real *c, ptrdiff_t ldc, int add, const real *bias_row,
                           const real *bias_col)
{
    FN(gemm_piece_ahead)(rows, cols, kc, a, ars, aks, b, bks, c, ldc, add, bias_row, bias_col, NULL, 0);
}
