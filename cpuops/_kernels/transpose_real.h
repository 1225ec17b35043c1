/* transpose_real.h: the body of transpose.h for one scalar type. */

/* within each 128 bits: a0 b0 a1 b1 (float: of the low halves), and of the high halves; double: a0 b0 and a1 b1 */
#if SIMD_BYTES == 64 && IS_F64
#define TR_LO 0, 8, 2, 10, 4, 12, 6, 14
#define TR_HI 1, 9, 3, 11, 5, 13, 7, 15
#elif SIMD_BYTES == 64
#define TR_LO 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define TR_HI 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#elif SIMD_BYTES == 32 && IS_F64
#define TR_LO 0, 4, 2, 6
#define TR_HI 1, 5, 3, 7
#elif SIMD_BYTES == 32
#define TR_LO 0, 8, 1, 9, 4, 12, 5, 13
#define TR_HI 2, 10, 3, 11, 6, 14, 7, 15
#elif IS_F64
#define TR_LO 0, 2
#define TR_HI 1, 3
#else
#define TR_LO 0, 4, 1, 5
#define TR_HI 2, 6, 3, 7
#endif

/* the square within each 128 bits: 2 x 2 double or 4 x 4 float */
INLINE void FN(transpose_pair)(vec *a, vec *b)
{
    vec x = __builtin_shufflevector(*a, *b, TR_LO), y = __builtin_shufflevector(*a, *b, TR_HI);
    *a = x;
    *b = y;
}
INLINE void FN(transpose_quad)(vec *a, vec *b, vec *c, vec *d)
{
    FN(transpose_pair)(a, c);
    FN(transpose_pair)(b, d);
    FN(transpose_pair)(a, b); /* a: column 0, b: column 1 */
    FN(transpose_pair)(c, d);
}

/* blocks of 128 bits: 2 x 2 or 4 x 4 of them */
INLINE void FN(transpose_blocks2)(vec *a, vec *b)
{
#if SIMD_BYTES == 32
    vec_f64 x = (vec_f64)*a, y = (vec_f64)*b;
    *a = (vec) __builtin_shufflevector(x, y, 0, 1, 4, 5);
    *b = (vec) __builtin_shufflevector(x, y, 2, 3, 6, 7);
#endif
    (void)a, (void)b;
}
INLINE void FN(transpose_blocks4)(vec *a, vec *b, vec *c, vec *d)
{
#if SIMD_BYTES == 64
    vec_f64 p = __builtin_shufflevector((vec_f64)*a, (vec_f64)*b, 0, 1, 2, 3, 8, 9, 10, 11);
    vec_f64 q = __builtin_shufflevector((vec_f64)*a, (vec_f64)*b, 4, 5, 6, 7, 12, 13, 14, 15);
    vec_f64 r = __builtin_shufflevector((vec_f64)*c, (vec_f64)*d, 0, 1, 2, 3, 8, 9, 10, 11);
    vec_f64 s = __builtin_shufflevector((vec_f64)*c, (vec_f64)*d, 4, 5, 6, 7, 12, 13, 14, 15);
    *a = (vec) __builtin_shufflevector(p, r, 0, 1, 4, 5, 8, 9, 12, 13);
    *b = (vec) __builtin_shufflevector(p, r, 2, 3, 6, 7, 10, 11, 14, 15);
    *c = (vec) __builtin_shufflevector(q, s, 0, 1, 4, 5, 8, 9, 12, 13);
    *d = (vec) __builtin_shufflevector(q, s, 2, 3, 6, 7, 10, 11, 14, 15);
#endif
    (void)a, (void)b, (void)c, (void)d;
}

/* the lanes of a vector, as a list */
#if SIMD_BYTES == 64 && !IS_F64
#define TR_EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#elif SIMD_BYTES == 64 || (SIMD_BYTES == 32 && !IS_F64)
#define TR_EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#elif SIMD_BYTES == 32 || !IS_F64
#define TR_EACH(X) X(0) X(1) X(2) X(3)
#else
#define TR_EACH(X) X(0) X(1)
#endif

INLINE void FN(transpose_tile)(const real *p, ptrdiff_t rs, ptrdiff_t rows, ptrdiff_t cols, real *out, ptrdiff_t os)
{
#define X(i) vec x##i;
    TR_EACH(X)
#undef X
    if (cols >= LANES) {
#define X(i) x##i = i < rows ? vload(p + i * rs) : vzero();
        TR_EACH(X)
#undef X
    } else {
#define X(i) x##i = i < rows ? vload_n(p + i * rs, cols) : vzero();
        TR_EACH(X)
#undef X
    }
#if SIMD_BYTES == 64 && !IS_F64
    FN(transpose_quad)(&x0, &x1, &x2, &x3);
    FN(transpose_quad)(&x4, &x5, &x6, &x7);
    FN(transpose_quad)(&x8, &x9, &x10, &x11);
    FN(transpose_quad)(&x12, &x13, &x14, &x15);
    FN(transpose_blocks4)(&x0, &x4, &x8, &x12);
    FN(transpose_blocks4)(&x1, &x5, &x9, &x13);
    FN(transpose_blocks4)(&x2, &x6, &x10, &x14);
    FN(transpose_blocks4)(&x3, &x7, &x11, &x15);
#elif SIMD_BYTES == 64
    FN(transpose_pair)(&x0, &x1);
    FN(transpose_pair)(&x2, &x3);
    FN(transpose_pair)(&x4, &x5);
    FN(transpose_pair)(&x6, &x7);
    FN(transpose_blocks4)(&x0, &x2, &x4, &x6);
    FN(transpose_blocks4)(&x1, &x3, &x5, &x7);
#elif SIMD_BYTES == 32 && !IS_F64
    FN(transpose_quad)(&x0, &x1, &x2, &x3);
    FN(transpose_quad)(&x4, &x5, &x6, &x7);
    FN(transpose_blocks2)(&x0, &x4);
    FN(transpose_blocks2)(&x1, &x5);
    FN(transpose_blocks2)(&x2, &x6);
    FN(transpose_blocks2)(&x3, &x7);
#elif SIMD_BYTES == 32
    FN(transpose_pair)(&x0, &x1);
    FN(transpose_pair)(&x2, &x3);
    FN(transpose_blocks2)(&x0, &x2);
    FN(transpose_blocks2)(&x1, &x3);
#elif !IS_F64
    FN(transpose_quad)(&x0, &x1, &x2, &x3);
#else
    FN(transpose_pair)(&x0, &x1);
#endif
    if (cols >= LANES) {
#define X(i) vstore(out + i * os, x##i);
        TR_EACH(X)
#undef X
    } else {
#define X(i)      \
    if (i < cols) \
        vstore(out + i * os, x##i);
        TR_EACH(X)
#undef X
    }
}
#undef TR_EACH
#undef TR_LO
#undef TR_HI
