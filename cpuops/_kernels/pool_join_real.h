/* pool_join_real.h: one number of each of LANES vectors, all of them at once. Included by pool.h only.
 *
 * out[k] = the lanes of v[k] added, or the largest of them, NaN first, in one order for every k. A step joins the halves of two
 * vectors, so LANES vectors take LANES - 1 additions; one after the other they would take LANES - 1 steps that wait for each other.
 */

enum { FN(SUM), FN(TOP) };

INLINE vec FN(joined_two)(vec a, vec b, int how) { return how == FN(SUM) ? a + b : vmax(b, a); }

#if SIMD_BYTES == 64
#define QUARTERS(i, j, k, l) 2 * (i), 2 * (i) + 1, 2 * (j), 2 * (j) + 1, 2 * (k), 2 * (k) + 1, 2 * (l), 2 * (l) + 1
#define LOW_PARTS QUARTERS(0, 2, 4, 6)
#define HIGH_PARTS QUARTERS(1, 3, 5, 7)
#define EVENS 0, 8, 2, 10, 4, 12, 6, 14
#define ODDS 1, 9, 3, 11, 5, 13, 7, 15
#define LOW_PAIRS 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH_PAIRS 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#elif SIMD_BYTES == 32
#define LOW_PARTS 0, 1, 4, 5
#define HIGH_PARTS 2, 3, 6, 7
#define EVENS 0, 4, 2, 6
#define ODDS 1, 5, 3, 7
#define LOW_PAIRS 0, 8, 1, 9, 4, 12, 5, 13
#define HIGH_PAIRS 2, 10, 3, 11, 6, 14, 7, 15
#else
#define LOW_PARTS 0, 1
#define HIGH_PARTS 0, 1
#define EVENS 0, 2
#define ODDS 1, 3
#define LOW_PAIRS 0, 4, 1, 5
#define HIGH_PAIRS 2, 6, 3, 7
#endif

/* a and b, in blocks of 16 bytes: lanes of the one beside lanes of the other */
INLINE vec FN(joined_evens)(vec a, vec b, int how)
{
    vec_f64 p = (vec_f64)a, q = (vec_f64)b;
    return FN(joined_two)((vec) __builtin_shufflevector(p, q, EVENS), (vec) __builtin_shufflevector(p, q, ODDS), how);
}
INLINE vec FN(joined_pairs)(vec a, vec b, int how)
{
    vec_f32 p = (vec_f32)a, q = (vec_f32)b;
    return FN(joined_two)((vec) __builtin_shufflevector(p, q, LOW_PAIRS), (vec) __builtin_shufflevector(p, q, HIGH_PAIRS), how);
}
/* whole blocks */
INLINE vec FN(joined_parts)(vec a, vec b, int how)
{
    vec_f64 p = (vec_f64)a, q = (vec_f64)b;
    return FN(joined_two)((vec) __builtin_shufflevector(p, q, LOW_PARTS), (vec) __builtin_shufflevector(p, q, HIGH_PARTS), how);
}

INLINE vec FN(joined)(vec *v, int how)
{
    int n = LANES;
    for (int i = 0; !IS_F64 && i < n / 2; i++)
        v[i] = FN(joined_pairs)(v[2 * i], v[2 * i + 1], how);
    n = IS_F64 ? n : n / 2;
    for (int i = 0; i < n / 2; i++)
        v[i] = FN(joined_evens)(v[2 * i], v[2 * i + 1], how);
    for (n /= 2; n > 1; n /= 2)
        for (int i = 0; i < n / 2; i++)
            v[i] = FN(joined_parts)(v[2 * i], v[2 * i + 1], how);
    return v[0];
}
#undef QUARTERS
#undef LOW_PARTS
#undef HIGH_PARTS
#undef EVENS
#undef ODDS
#undef LOW_PAIRS
#undef HIGH_PAIRS
