/* wide_real.h: the words of wide.h for one scalar type. Included by wide.h only. */

#if IS_F64
INLINE wvec wload(const real *p) { return vload(p); }
INLINE void wstore(real *p, wvec a) { vstore(p, a); }
#elif SIMD_AVX512
INLINE wvec wload(const real *p) { return (wvec)_mm512_cvtps_pd(_mm256_loadu_ps(p)); }
INLINE void wstore(real *p, wvec a) { _mm256_storeu_ps(p, _mm512_cvtpd_ps((__m512d)a)); }
#elif SIMD_AVX2
INLINE wvec wload(const real *p) { return (wvec)_mm256_cvtps_pd(_mm_loadu_ps(p)); }
INLINE void wstore(real *p, wvec a) { _mm_storeu_ps(p, _mm256_cvtpd_ps((__m256d)a)); }
#elif defined(__x86_64__)
INLINE wvec wload(const real *p) { return (wvec)_mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)p))); }
INLINE void wstore(real *p, wvec a) { _mm_storel_epi64((__m128i *)p, _mm_castps_si128(_mm_cvtpd_ps((__m128d)a))); }
#else
INLINE wvec wload(const real *p) { return (wvec){p[0], p[1]}; }
INLINE void wstore(real *p, wvec a)
{
    p[0] = (real)a[0];
    p[1] = (real)a[1];
}
#endif

#if IS_F64
INLINE wvec wload_n(const real *p, ptrdiff_t n) { return vload_n(p, n); }
INLINE void wstore_n(real *p, wvec a, ptrdiff_t n) { vstore_n(p, a, n); }
#elif SIMD_AVX512
INLINE wvec wload_n(const real *p, ptrdiff_t n) { return (wvec)_mm512_cvtps_pd(_mm256_maskz_loadu_ps((__mmask8)((1u << n) - 1), p)); }
INLINE void wstore_n(real *p, wvec a, ptrdiff_t n)
{
    _mm256_mask_storeu_ps(p, (__mmask8)((1u << n) - 1), _mm512_cvtpd_ps((__m512d)a));
}
#else
INLINE wvec wload_n(const real *p, ptrdiff_t n)
{
    real t[WLANES] = {0};
    memcpy(t, p, (size_t)n * sizeof(real));
    return wload(t);
}
INLINE void wstore_n(real *p, wvec a, ptrdiff_t n)
{
    real t[WLANES];
    wstore(t, a);
    memcpy(p, t, (size_t)n * sizeof(real));
}
#endif

/* the lanes of a vec, as doubles: one vector of them or two */
typedef struct {
    wvec v[IS_F64 ? 1 : 2];
} wsums;
INLINE wsums FN(wsplit)(vec a)
{
#if IS_F64
    return (wsums){{a}};
#elif SIMD_AVX512
    return (wsums){{(wvec)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)a)), (wvec)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)a, 1))}};
#elif SIMD_AVX2
    return (wsums){{(wvec)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)a)), (wvec)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)a, 1))}};
#elif defined(__x86_64__)
    return (wsums){{(wvec)_mm_cvtps_pd((__m128)a), (wvec)_mm_cvtps_pd(_mm_movehl_ps((__m128)a, (__m128)a))}};
#else
    return (wsums){{{a[0], a[1]}, {a[2], a[3]}}};
#endif
}

INLINE vec FN(wjoin)(wsums a)
{
#if IS_F64
    return a.v[0];
#elif SIMD_AVX512
    __m256 lo = _mm512_cvtpd_ps((__m512d)a.v[0]), hi = _mm512_cvtpd_ps((__m512d)a.v[1]);
    return (vec)_mm512_insertf32x8(_mm512_castps256_ps512(lo), hi, 1);
#elif SIMD_AVX2
    return (vec)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)a.v[1]), _mm256_cvtpd_ps((__m256d)a.v[0]));
#elif defined(__x86_64__)
    return (vec)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)a.v[0]), _mm_cvtpd_ps((__m128d)a.v[1]));
#else
    return (vec){(real)a.v[0][0], (real)a.v[0][1], (real)a.v[1][0], (real)a.v[1][1]};
#endif
}

INLINE void wadd(wsums *sum, vec a)
{
    wsums w = FN(wsplit)(a);
    for (int i = 0; i < (IS_F64 ? 1 : 2); i++)
        sum->v[i] += w.v[i];
}

INLINE double wtotal(const wsums *sum) { return whsum(IS_F64 ? sum->v[0] : sum->v[0] + sum->v[IS_F64 ? 0 : 1]); }

INLINE ivec ivset(inum n) { return (ivec){0} + n; }
INLINE ivec ivload(const inum *p) { return (ivec) * (const uivec *)p; }
INLINE void ivstore(inum *p, ivec a) { *(uivec *)p = (uivec)a; }
INLINE ivec ivof(vec a) { return __builtin_convertvector(a, ivec); }
INLINE ivec ivsel(vmask m, ivec a, ivec b) { return (ivec)vsel(m, (vec)a, (vec)b); }
#if SIMD_AVX512 && IS_F64
INLINE vmask iveq(ivec a, ivec b) { return _mm512_cmpeq_epi64_mask((__m512i)a, (__m512i)b); }
INLINE vmask ivlt(ivec a, ivec b) { return _mm512_cmplt_epi64_mask((__m512i)a, (__m512i)b); }
#elif SIMD_AVX512
INLINE vmask iveq(ivec a, ivec b) { return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b); }
INLINE vmask ivlt(ivec a, ivec b) { return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b); }
#else
INLINE vmask iveq(ivec a, ivec b) { return (vmask)(a == b); }
INLINE vmask ivlt(ivec a, ivec b) { return (vmask)(a < b); }
#endif

#if SIMD_AVX512 && IS_F64
INLINE vec vgather(const real *p, ivec i, vmask m) { return (vec)_mm512_mask_i64gather_pd(_mm512_setzero_pd(), m, (__m512i)i, p, 8); }
#elif SIMD_AVX512
INLINE vec vgather(const real *p, ivec i, vmask m) { return (vec)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), m, (__m512i)i, p, 4); }
#elif SIMD_AVX2 && IS_F64
INLINE vec vgather(const real *p, ivec i, vmask m)
{
    return (vec)_mm256_mask_i64gather_pd(_mm256_setzero_pd(), p, (__m256i)i, (__m256d)m, 8);
}
#elif SIMD_AVX2
INLINE vec vgather(const real *p, ivec i, vmask m)
{
    return (vec)_mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, (__m256i)i, (__m256)m, 4);
}
#else
INLINE vec vgather(const real *p, ivec i, vmask m)
{
    vec v = vzero();
    ivec on = (ivec)m;
    for (int k = 0; k < LANES; k++)
        v[k] = on[k] ? p[i[k]] : 0;
    return v;
}
#endif

INLINE vmask mspan(ptrdiff_t first, ptrdiff_t end)
{
    first = first < 0 ? 0 : first < LANES ? first : LANES;
    end = end < 0 ? 0 : end < LANES ? end : LANES;
#if SIMD_AVX512
    return (vmask)(((1u << end) - 1) & ~((1u << first) - 1));
#else
    return mand(vge(viota(), vset((real)first)), vlt(viota(), vset((real)end)));
#endif
}
INLINE vec vload_m(const real *p, vmask m)
{
#if SIMD_AVX512 && IS_F64
    return (vec)_mm512_maskz_loadu_pd(m, p);
#elif SIMD_AVX512
    return (vec)_mm512_maskz_loadu_ps(m, p);
#elif SIMD_AVX2 && IS_F64
    return (vec)_mm256_maskload_pd(p, (__m256i)m);
#elif SIMD_AVX2
    return (vec)_mm256_maskload_ps(p, (__m256i)m);
#else
    vec v = vzero();
    for (int k = 0; k < LANES; k++)
        v[k] = m[k] ? p[k] : 0;
    return v;
#endif
}

#define PICK4(b, s) (b), (b) + (s), (b) + 2 * (s), (b) + 3 * (s)
#define PICK8(b, s) PICK4(b, s), PICK4((b) + 4 * (s), s)
#define PICK16(b, s) PICK8(b, s), PICK8((b) + 8 * (s), s)
#define MEET2(b, n) (b), (b) + (n)
#define MEET4(b, n) MEET2(b, n), MEET2((b) + 1, n)
#define MEET8(b, n) MEET4(b, n), MEET4((b) + 2, n)
#define MEET16(b, n) MEET8(b, n), MEET8((b) + 4, n)
#define LANES_HERE (SIMD_BYTES / (IS_F64 ? 8 : 4))
#if SIMD_BYTES == 64 && !IS_F64
#define EVERY_OTHER(b) PICK16(b, 2)
#define MERGED(b) MEET16(b, 16)
#elif SIMD_BYTES == 64 || (SIMD_BYTES == 32 && !IS_F64)
#define EVERY_OTHER(b) PICK8(b, 2)
#define MERGED(b) MEET8(b, 8)
#elif SIMD_BYTES == 32 || !IS_F64
#define EVERY_OTHER(b) PICK4(b, 2)
#define MERGED(b) MEET4(b, 4)
#else
#define EVERY_OTHER(b) (b), (b) + 2
#define MERGED(b) MEET2(b, 2)
#endif
INLINE void vdeal(vec a, vec b, vec *even, vec *odd)
{
    *even = __builtin_shufflevector(a, b, EVERY_OTHER(0));
    *odd = __builtin_shufflevector(a, b, EVERY_OTHER(1));
}

INLINE void vdeal_four(const real *p, vec *v)
{
    vec a, b, c, d;
    vdeal(vload(p), vload(p + LANES), &a, &b);
    vdeal(vload(p + 2 * LANES), vload(p + 3 * LANES), &c, &d);
    vdeal(a, c, v, v + 2);
    vdeal(b, d, v + 1, v + 3);
}

INLINE void vzip(vec even, vec odd, vec *a, vec *b)
{
    *a = __builtin_shufflevector(even, odd, MERGED(0));
    *b = __builtin_shufflevector(even, odd, MERGED(LANES_HERE / 2));
}
INLINE void vgather_pairs(const real *p, ivec i, vec *first, vec *second)
{
#if SIMD_AVX512 && !IS_F64
    __m512d a = _mm512_i32gather_pd(_mm512_castsi512_si256((__m512i)i), p, 4);
    __m512d b = _mm512_i32gather_pd(_mm512_extracti32x8_epi32((__m512i)i, 1), p, 4);
    vdeal((vec)a, (vec)b, first, second);
#elif SIMD_AVX2 && !IS_F64
    __m256d a = _mm256_i32gather_pd((const double *)p, _mm256_castsi256_si128((__m256i)i), 4);
    __m256d b = _mm256_i32gather_pd((const double *)p, _mm256_extracti128_si256((__m256i)i, 1), 4);
    vdeal((vec)a, (vec)b, first, second);
#else
    vmask all = veq(vzero(), vzero());
    *first = vgather(p, i, all);
    *second = vgather(p + 1, i, all);
#endif
}
#undef PICK4
#undef PICK8
#undef PICK16
#undef MEET2
#undef MEET4
#undef MEET8
#undef MEET16
#undef EVERY_OTHER
#undef MERGED
#undef LANES_HERE
