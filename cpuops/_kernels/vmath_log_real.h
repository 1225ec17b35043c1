/* vmath_log_real.h: natural logarithms, for one scalar type. Included by vmath_real.h only. */

#define LOG_IN_PIECES (SIMD_AVX512 && IS_F64)

/* x > 0 as 2^k m with m in [0.75, 1.5) */
INLINE vec vm_log_parts(vec x, vec *k)
{
#if SIMD_AVX512 && IS_F64
    vec m = (vec)_mm512_getmant_pd((__m512d)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src);
    *k = (vec)_mm512_getexp_pd((__m512d)x) - (vec)_mm512_getexp_pd((__m512d)m);
    return m;
#elif SIMD_AVX512
    vec m = (vec)_mm512_getmant_ps((__m512)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src);
    *k = (vec)_mm512_getexp_ps((__m512)x) - (vec)_mm512_getexp_ps((__m512)m);
    return m;
#else
    const vm_bits one = (vm_bits)C(1), low = (vm_bits)C(0.75), magic = (vm_bits)C(2 * MAGIC / 3);
    vmask subnormal = vlt(x, vm_pow2(C(1 - BIAS)));
    x = vsel(subnormal, x * C(2 * MAGIC / 3), x);
    vm_bits b = (vm_bits)x + (one - low);
    *k = (vec)((b >> MANTISSA) | magic) - vsel(subnormal, C(2 * MAGIC / 3 + BIAS + MANTISSA), C(2 * MAGIC / 3 + BIAS));
    return (vec)((b & ((((vm_bits){0} + 1) << MANTISSA) - 1)) + low);
#endif
}

/* head + k ln 2 + log1p(f) + c/(1 + f) for f in [-0.25, 0.5], integer k, c of the size of rounding errors, head >= 0; NULL
 * for c or head is 0 */
INLINE vec vm_log_sum(vec f, vec k, const vec *c, const vec *head)
{
    vec low = k * C(LN2_LOW);
    if (c)
        low = vfma(k, C(LN2_LOW), *c * vfma(f, f - C(1), C(1)));
#if IS_F64
    vec s = f / (f + C(2)), z = s * s, hf = C(0.5) * f * f;
    vec q = z * POLYNOMIAL(z, 0.66666666666666596, 0.4000000000005674, 0.28571428555805606, 0.22222224299499141,
                           0.18181665676918476, 0.15391118821286973, 0.13173479098718241, 0.13843877073424113);
    vec y = f - (hf - (s * (hf + q) + low));
#else
    vec z = f * f;
    vec q = POLYNOMIAL(f, 0.333333403f, -0.250001669f, 0.199995652f, -0.166551664f, 0.142771721f, -0.12731275f,
                       0.116958469f, -0.0908658877f, 0.0373881571f);
    vec y = f + (vfnma(C(0.5), z, f * z * q) + low);
#endif
    y = vfma(k, C(LN2_HIGH), y);
    return head ? *head + y : y;
}

INLINE vec vm_log_any(vec x)
{
    vec k, m = vm_log_parts(x, &k);
    vec y = vm_log_sum(m - C(1), k, NULL, NULL);
    y = vsel(vlt(x, C(INFINITY)), y, x);
    return vsel(vgt(x, C(0)), y, vsel(veq(x, C(0)), C(-INFINITY), C(NAN)));
}

INLINE vec vm_log1p_any(vec x)
{
    vec u = C(1) + x, k, m = vm_log_parts(u, &k);
    /* what 1 + x lost, over 2^k; nothing from 2^(2 MANTISSA) on, where 1 is less than that */
    vec c = (x - (u - C(1))) * vm_pow2(-vmin_fast(C(2 * MANTISSA), k));
    vmask small = veq(k, C(0));
    c = vsel(small, C(0), c);
    vec y = vm_log_sum(vsel(small, x, m - C(1)), k, &c, NULL);
    y = vcopysign(vsel(vlt(x, C(INFINITY)), y, x), x);
    return vsel(vgt(x, C(-1)), y, vsel(veq(x, C(-1)), C(-INFINITY), C(NAN)));
}

#if LOG_IN_PIECES
/* Doubles at v4, without a division: the leading bits of a number choose one of 16 reciprocals, and with it its logarithm,
 * from registers */

/* lanes of which vm_log_pieces knows nothing: below 2^-1022, from 2^1000 on, NaN */
INLINE vmask vm_log_odd(vec u)
{
    const vm_bits least = (vm_bits)C(0x1p-1022);
    return _mm512_cmpge_epu64_mask((__m512i)((vm_bits)u - least), (__m512i)((vm_bits)C(0x1p1000) - least));
}

/* log(u + lost), lost (NULL: 0) of the size of rounding errors. Where that is near 0, c is 1 and u + lost - 1 is exact */
INLINE vec vm_log_pieces(vec u, const vec *lost)
{
    /* u rounded to 5 bits is about 2^k/c; c 2^-k by a difference of exponents */
    const vm_bits b = (vm_bits)u + (((vm_bits){0} + 1) << (MANTISSA - 5));
    const __m512i piece = (__m512i)(b >> (MANTISSA - 4));
#define ROW(i) (vec)_mm512_permutex2var_pd(_mm512_load_pd(PIECES_LOG[i]), piece, _mm512_load_pd(PIECES_LOG[i] + 8))
    vec k = (vec)_mm512_getexp_pd((__m512d)b), s = (vec)((vm_bits)ROW(0) - (b & (vm_bits)C(INFINITY)));
    vec r = vfms(u, s, C(1));
    if (lost)
        r = vfma(*lost, s, r);
    vec high = vfma(k, C(LN2_HIGH), ROW(1)), low = vfma(k, C(LN2_LOW), ROW(2));
#undef ROW
    return high + (r + vfma(r * r, POLYNOMIAL(r, -0.49999999999999689, 0.33333333333348131, -0.25000000004644185,
                                              0.19999999899234944, -0.16666649570484873, 0.14285900480076896,
                                              -0.12522738618268336, 0.11017197726313857), low));
}

FUNC vec vm_log_odd_lanes(vec x, vmask odd, vec y) { return vsel(odd, vm_log_any(x), y); }
FUNC vec vm_log1p_odd_lanes(vec x, vmask odd, vec y) { return vsel(odd, vm_log1p_any(x), y); }

INLINE vec vlog(vec x)
{
    const vmask odd = vm_log_odd(x);
    vec y = vm_log_pieces(x, NULL);
    return __builtin_expect(many(odd), 0) ? vm_log_odd_lanes(x, odd, y) : y;
}

INLINE vec vlog1p(vec x)
{
    vec u = C(1) + x, lost = x - (u - C(1));
    const vmask odd = vm_log_odd(u);
    vec y = vcopysign(vm_log_pieces(u, &lost), x);
    return __builtin_expect(many(odd), 0) ? vm_log1p_odd_lanes(x, odd, y) : y;
}
#else
INLINE vec vlog(vec x) { return vm_log_any(x); }
INLINE vec vlog1p(vec x) { return vm_log1p_any(x); }
#endif
