/* simd_real.h: the words of simd.h for one scalar type. Included by simd.h only. */

#if IS_F64
#define SEL_(a, b) b
#else
#define SEL_(a, b) a
#endif
#define X512(op) PASTE(_mm512_##op, SEL_(ps, pd))
#define X256(op) PASTE(_mm256_##op, SEL_(ps, pd))
#define X128(op) PASTE(_mm_##op, SEL_(ps, pd))

INLINE vec vload(const real *p) { return (vec) * (const uvec *)p; }
INLINE void vstore(real *p, vec a) { *(uvec *)p = (uvec)a; }
INLINE vec vset(real s) { return s - (vec){0}; }
INLINE vec vzero(void) { return (vec){0}; }

INLINE vec viota(void)
{
    vec r;
    for (int i = 0; i < LANES; i++)
        r[i] = (real)i;
    return r;
}

#if SIMD_AVX2
/* the first n lanes, as maskload and maskstore want them */
INLINE __m256i FN(first)(ptrdiff_t n) { return (__m256i)(viota() < vset((real)n)); }
#endif

/* n in 0..LANES: nothing beyond p[n-1] is touched */
INLINE vec vload_n(const real *p, ptrdiff_t n)
{
#if SIMD_AVX512
    return (vec)X512(maskz_loadu)((vmask)((1u << n) - 1), p);
#elif SIMD_AVX2
    return (vec)X256(maskload)(p, FN(first)(n));
#else
    real t[LANES] __attribute__((aligned(SIMD_BYTES))) = {0};
    memcpy(t, p, (size_t)n * sizeof(real));
    return vload(t);
#endif
}

INLINE void vstore_n(real *p, vec a, ptrdiff_t n)
{
#if SIMD_AVX512
    X512(mask_storeu)(p, (vmask)((1u << n) - 1), a);
#elif SIMD_AVX2
    X256(maskstore)(p, FN(first)(n), a);
#else
    real t[LANES] __attribute__((aligned(SIMD_BYTES)));
    vstore(t, a);
    memcpy(p, t, (size_t)n * sizeof(real));
#endif
}

#if SIMD_AVX512
INLINE vec vfma(vec a, vec b, vec c) { return (vec)X512(fmadd)(a, b, c); }
INLINE vec vfms(vec a, vec b, vec c) { return (vec)X512(fmsub)(a, b, c); }
INLINE vec vfnma(vec a, vec b, vec c) { return (vec)X512(fnmadd)(a, b, c); }
#elif SIMD_AVX2
INLINE vec vfma(vec a, vec b, vec c) { return (vec)X256(fmadd)(a, b, c); }
INLINE vec vfms(vec a, vec b, vec c) { return (vec)X256(fmsub)(a, b, c); }
INLINE vec vfnma(vec a, vec b, vec c) { return (vec)X256(fnmadd)(a, b, c); }
#elif SIMD_FMA
/* the compiler makes one instruction of the loop; arm_neon.h is not included, for its names are the words' names */
INLINE vec vfma(vec a, vec b, vec c)
{
    for (int i = 0; i < LANES; i++)
        c[i] = SEL_(__builtin_fmaf, __builtin_fma)(a[i], b[i], c[i]);
    return c;
}
INLINE vec vfms(vec a, vec b, vec c) { return vfma(a, b, -c); }
INLINE vec vfnma(vec a, vec b, vec c) { return vfma(-a, b, c); }
#else
INLINE vec vfma(vec a, vec b, vec c) { return a * b + c; }
INLINE vec vfms(vec a, vec b, vec c) { return a * b - c; }
INLINE vec vfnma(vec a, vec b, vec c) { return c - a * b; }
#endif

#if SIMD_AVX512
#if IS_F64
#define CMP512(a, b, op) _mm512_cmp_pd_mask(a, b, op)
#define BLEND512(m, a, b) _mm512_mask_blend_pd(m, a, b)
#else
#define CMP512(a, b, op) _mm512_cmp_ps_mask(a, b, op)
#define BLEND512(m, a, b) _mm512_mask_blend_ps(m, a, b)
#endif
INLINE vmask vlt(vec a, vec b) { return CMP512(a, b, _CMP_LT_OQ); }
INLINE vmask vle(vec a, vec b) { return CMP512(a, b, _CMP_LE_OQ); }
INLINE vmask vgt(vec a, vec b) { return CMP512(a, b, _CMP_GT_OQ); }
INLINE vmask vge(vec a, vec b) { return CMP512(a, b, _CMP_GE_OQ); }
INLINE vmask veq(vec a, vec b) { return CMP512(a, b, _CMP_EQ_OQ); }
INLINE vmask vne(vec a, vec b) { return CMP512(a, b, _CMP_NEQ_UQ); }
INLINE vmask visnan(vec a) { return CMP512(a, a, _CMP_UNORD_Q); }
INLINE vmask visnan2(vec a, vec b) { return CMP512(a, b, _CMP_UNORD_Q); }
INLINE vmask mand(vmask a, vmask b) { return (vmask)(a & b); }
INLINE vmask mor(vmask a, vmask b) { return (vmask)(a | b); }
INLINE vmask mnot(vmask a) { return (vmask)~a; }
INLINE int many(vmask a) { return a != 0; }
INLINE int mall(vmask a) { return a == (vmask)-1; }
INLINE unsigned mbits(vmask a) { return a; }
INLINE vec vsel(vmask m, vec a, vec b) { return (vec)BLEND512(m, b, a); }
#undef CMP512
#undef BLEND512
#else
INLINE vmask vlt(vec a, vec b) { return (vmask)(a < b); }
INLINE vmask vle(vec a, vec b) { return (vmask)(a <= b); }
INLINE vmask vgt(vec a, vec b) { return (vmask)(a > b); }
INLINE vmask vge(vec a, vec b) { return (vmask)(a >= b); }
INLINE vmask veq(vec a, vec b) { return (vmask)(a == b); }
INLINE vmask vne(vec a, vec b) { return (vmask)(a != b); }
INLINE vmask visnan(vec a) { return (vmask)(a != a); }
INLINE vmask mand(vmask a, vmask b) { return a & b; }
INLINE vmask mor(vmask a, vmask b) { return a | b; }
INLINE vmask mnot(vmask a) { return ~a; }
#if SIMD_AVX2
INLINE vmask visnan2(vec a, vec b) { return (vmask)X256(cmp)(a, b, _CMP_UNORD_Q); }
INLINE int many(vmask a) { return X256(movemask)((vec)a) != 0; }
INLINE int mall(vmask a) { return X256(movemask)((vec)a) == (1 << LANES) - 1; }
INLINE unsigned mbits(vmask a) { return (unsigned)X256(movemask)((vec)a); }
INLINE vec vsel(vmask m, vec a, vec b) { return (vec)X256(blendv)(b, a, (vec)m); }
#elif SIMD_SSE4
INLINE vmask visnan2(vec a, vec b) { return (vmask)X128(cmpunord)(a, b); }
INLINE int many(vmask a) { return X128(movemask)((vec)a) != 0; }
INLINE int mall(vmask a) { return X128(movemask)((vec)a) == (1 << LANES) - 1; }
INLINE unsigned mbits(vmask a) { return (unsigned)X128(movemask)((vec)a); }
INLINE vec vsel(vmask m, vec a, vec b) { return (vec)X128(blendv)(b, a, (vec)m); }
#else
INLINE vmask visnan2(vec a, vec b) { return visnan(a) | visnan(b); }
INLINE unsigned mbits(vmask a)
{
    unsigned bits = 0;
    for (int i = 0; i < LANES; i++)
        bits |= (unsigned)(a[i] != 0) << i;
    return bits;
}
INLINE int many(vmask a)
{
    int r = 0;
    for (int i = 0; i < LANES; i++)
        r |= a[i] != 0;
    return r;
}
INLINE int mall(vmask a)
{
    int r = 1;
    for (int i = 0; i < LANES; i++)
        r &= a[i] != 0;
    return r;
}
INLINE vec vsel(vmask m, vec a, vec b) { return (vec)((m & (ivec)a) | (~m & (ivec)b)); }
#endif
#endif
INLINE int mfirst(vmask a) { return __builtin_ctz(mbits(a) | 1u << LANES); }

#if IS_F64
#define SIGN_BIT ((ivec){0} + INT64_MIN)
#else
#define SIGN_BIT ((ivec){0} + INT32_MIN)
#endif
INLINE vec vabs(vec a) { return (vec)((ivec)a & ~SIGN_BIT); }
INLINE vec vneg(vec a) { return (vec)((ivec)a ^ SIGN_BIT); }
INLINE vec vcopysign(vec a, vec sign) { return (vec)(((ivec)a & ~SIGN_BIT) | ((ivec)sign & SIGN_BIT)); }
#undef SIGN_BIT

#if SIMD_AVX512
INLINE vec vsqrt(vec a) { return (vec)X512(sqrt)(a); }
INLINE vec vfloor(vec a) { return (vec)X512(roundscale)(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
INLINE vec vround(vec a) { return (vec)X512(roundscale)(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE vec vmax_fast(vec a, vec b) { return (vec)X512(max)(a, b); }
INLINE vec vmin_fast(vec a, vec b) { return (vec)X512(min)(a, b); }
#elif SIMD_AVX2
INLINE vec vsqrt(vec a) { return (vec)X256(sqrt)(a); }
INLINE vec vfloor(vec a) { return (vec)X256(floor)(a); }
INLINE vec vround(vec a) { return (vec)X256(round)(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE vec vmax_fast(vec a, vec b) { return (vec)X256(max)(a, b); }
INLINE vec vmin_fast(vec a, vec b) { return (vec)X256(min)(a, b); }
#elif SIMD_SSE4
INLINE vec vsqrt(vec a) { return (vec)X128(sqrt)(a); }
INLINE vec vfloor(vec a) { return (vec)X128(floor)(a); }
INLINE vec vround(vec a) { return (vec)X128(round)(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE vec vmax_fast(vec a, vec b) { return (vec)X128(max)(a, b); }
INLINE vec vmin_fast(vec a, vec b) { return (vec)X128(min)(a, b); }
#else
#define LANEWISE(name, expr)             \
    INLINE vec name(vec a)               \
    {                                    \
        for (int i = 0; i < LANES; i++)  \
            a[i] = (real)(expr);         \
        return a;                        \
    }
LANEWISE(vsqrt, __builtin_sqrt((double)a[i]))
LANEWISE(vfloor, __builtin_floor((double)a[i]))
LANEWISE(vround, __builtin_rint((double)a[i]))
#undef LANEWISE
INLINE vec vmax_fast(vec a, vec b) { return vsel(vgt(a, b), a, b); }
INLINE vec vmin_fast(vec a, vec b) { return vsel(vlt(a, b), a, b); }
#endif

/* max(-0, +0) is whichever comes second; NaN of either operand stays */
INLINE vec vmax(vec a, vec b) { return vsel(visnan(a), a, vmax_fast(a, b)); }
INLINE vec vmin(vec a, vec b) { return vsel(visnan(a), a, vmin_fast(a, b)); }

/* across lanes in one fixed order, whatever the compiler: lane i meets lane i + half */
#define ACROSS(name, a_op_b)                 \
    INLINE real name(vec a)                  \
    {                                        \
        vec b;                               \
        HALVES(a_op_b)                       \
        return a[0];                         \
    }
#define MEET(a_op_b, ...)                                  \
    b = __builtin_shufflevector(a, a, __VA_ARGS__);        \
    a = (a_op_b);
/* the lanes beyond those that matter repeat them */
#if SIMD_BYTES == 64 && !IS_F64
#define HALVES(o)                                                            \
    MEET(o, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15)      \
    MEET(o, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7)                  \
    MEET(o, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3)                  \
    MEET(o, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
#elif SIMD_BYTES == 64 || (SIMD_BYTES == 32 && !IS_F64)
#define HALVES(o)                            \
    MEET(o, 4, 5, 6, 7, 4, 5, 6, 7)          \
    MEET(o, 2, 3, 2, 3, 2, 3, 2, 3)          \
    MEET(o, 1, 1, 1, 1, 1, 1, 1, 1)
#elif SIMD_BYTES == 32 || !IS_F64
#define HALVES(o) MEET(o, 2, 3, 2, 3) MEET(o, 1, 1, 1, 1)
#else
#define HALVES(o) MEET(o, 1, 1)
#endif
ACROSS(vhsum, a + b)
ACROSS(vhmax, vsel(mor(vgt(a, b), visnan(a)), a, b))
ACROSS(vhmin, vsel(mor(vlt(a, b), visnan(a)), a, b))
ACROSS(vhmax_fast, vmax_fast(a, b))
ACROSS(vhmin_fast, vmin_fast(a, b))
#undef ACROSS
#undef HALVES
#undef MEET

#undef X512
#undef X256
#undef X128
#undef SEL_
