/* octets_real.h: the words of octets.h for one scalar type. gcc 12 converts between vectors of bytes and of reals lane by
 * lane, hence the instructions by name where speed counts: for float. */

INLINE vec vload_octets(const uint8_t *p)
{
#if SIMD_AVX512 && !IS_F64
    return (vec)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
#elif SIMD_AVX2 && !IS_F64
    return (vec)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
#elif SIMD_SSE4 && !IS_F64
    int32_t four;
    memcpy(&four, p, sizeof four);
    return (vec)_mm_cvtepi32_ps(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(four)));
#else
    vec v;
    for (int i = 0; i < LANES; i++)
        v[i] = (real)p[i];
    return v;
#endif
}

INLINE void vstore_octets(uint8_t *p, vec v)
{
    v = vmin_fast(vmax_fast(vround(v), vzero()), vset(255));
#if SIMD_AVX512 && !IS_F64
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32((__m512)v)));
#elif SIMD_AVX2 && !IS_F64
    __m256i i = _mm256_cvtps_epi32((__m256)v);
    __m128i s = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(s, s));
#elif SIMD_SSE4 && !IS_F64
    __m128i s = _mm_packs_epi32(_mm_cvtps_epi32((__m128)v), _mm_setzero_si128());
    int32_t four = _mm_cvtsi128_si32(_mm_packus_epi16(s, s));
    memcpy(p, &four, sizeof four);
#else
    for (int i = 0; i < LANES; i++)
        p[i] = (uint8_t)v[i];
#endif
}

INLINE vec vload_octets_n(const uint8_t *p, ptrdiff_t n)
{
    uint8_t some[LANES] = {0};
    memcpy(some, p, (size_t)n);
    return vload_octets(some);
}

INLINE void vstore_octets_n(uint8_t *p, vec v, ptrdiff_t n)
{
    uint8_t some[LANES];
    vstore_octets(some, v);
    memcpy(p, some, (size_t)n);
}
