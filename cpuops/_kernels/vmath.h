/* vmath.h: vector mathematics on `vec`, float and double, one source for all levels. Include after simd.h.
 *
 * Every word takes any value: subnormal arguments and results are kept (rounded once), infinities give the limit, a NaN
 * gives a NaN, and the sign of zero is the function's. A lane's bits depend on that lane alone. At v4 there are branches for
 * values far from the usual: in tails of vgelu, vgelu_slope, vsigmoid and vsilu of floats; for vlog and vlog1p of doubles that
 * are subnormal, above 2^1000, or have no logarithm. Nothing else branches on the data.
 *
 *   vexp vexpm1 vlog vlog1p vtanh vsigmoid verf
 *   vrelu        x, or 0 where x is less; -0 stays
 *   vgelu        x*Phi(x), relatively accurate in the lower tail, -0 at -inf
 *   vgelu_slope  its derivative, Phi(x) + x*exp(-x*x/2)/sqrt(2*pi)
 *   vgelu_tanh   x*sigmoid(2*sqrt(2/pi)*(x + 0.044715*x^3))
 *   vsilu        x*sigmoid(x) (-0 at -inf)
 *   vsoftplus    log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|))       vlogsigmoid  -vsoftplus(-x)
 *
 * Largest error found, in units of the last place of the exact value, in sweeps against libm in double (float32: every
 * 37th of the 2^32 bit patterns, and 4e6 values within -110 ... 90) and in long double or __float128 (float64: 1e6 values
 * from all exponents, with more around 0 and 1 and down to underflow):
 *
 *                 float32               float64
 *                 v2     v3     v4      v2     v3     v4
 *   vexp          0.98   1.00   1.00    0.96   1.00   1.00
 *   vexpm1        1.10   1.29   1.29    1.13   1.13   1.13
 *   vlog          0.87   0.86   0.86    0.84   0.84   1.13
 *   vlog1p        0.99   0.99   0.99    0.91   0.91   1.59
 *   vtanh         1.31   1.31   1.14    1.43   1.43   1.43
 *   vsigmoid      1.46   1.52   1.06    1.46   1.46   1.46
 *   verf          1.27   1.07   1.07    1.45   1.30   1.30
 *   vgelu         0.81   0.81   1.60    3.87   2.89   2.89
 *   vgelu_tanh    1.89   1.59   1.59    1.57   1.57   1.57
 *   vsilu         1.43   1.46   1.67    1.34   1.43   1.43
 *   vsoftplus     1.34   1.31   1.31    1.25   1.25   1.42
 *   vlogsigmoid   1.33   1.30   1.30    1.25   1.25   1.42
 *
 * vgelu_slope errs by at most 2e-7 (float32), beside the values of its sum.
 *
 * How two ulp are kept where there is no fused multiply-add (v2): multiples of ln 2 are subtracted in two parts, the first
 * exact; sums that are divided by, or multiplied afterwards, carry the part their rounding lost; squares and products in
 * an exponent are taken with their error term. Normal-distribution tails of floats are computed in double, but at v4, where
 * polynomials in many pieces (their coefficients are looked up in registers) are as accurate, and five times as fast.
 */
#ifndef CPUOPS_VMATH_H
#define CPUOPS_VMATH_H
#include "simd.h"
#if SIMD_AVX512
#include "vmath_pieces.h"
#endif

#define vexp FN(vexp)
#define vexpm1 FN(vexpm1)
#define vlog FN(vlog)
#define vlog1p FN(vlog1p)
#define vtanh FN(vtanh)
#define vsigmoid FN(vsigmoid)
#define verf FN(verf)
#define vrelu FN(vrelu)
#define vgelu FN(vgelu)
#define vgelu_slope FN(vgelu_slope)
#define vgelu_tanh FN(vgelu_tanh)
#define vsilu FN(vsilu)
#define vsoftplus FN(vsoftplus)
#define vlogsigmoid FN(vlogsigmoid)

/* ---- float vectors as two double vectors, lanes in order ---- */
#if SIMD_AVX512
INLINE vec_f64 vwiden_lo(vec_f32 a) { return (vec_f64)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)a)); }
INLINE vec_f64 vwiden_hi(vec_f32 a) { return (vec_f64)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)a, 1)); }
INLINE vec_f32 vnarrow(vec_f64 lo, vec_f64 hi)
{
    __m512 r = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)lo));
    return (vec_f32)_mm512_insertf32x8(r, _mm512_cvtpd_ps((__m512d)hi), 1);
}
#elif SIMD_AVX2
INLINE vec_f64 vwiden_lo(vec_f32 a) { return (vec_f64)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)a)); }
INLINE vec_f64 vwiden_hi(vec_f32 a) { return (vec_f64)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)a, 1)); }
INLINE vec_f32 vnarrow(vec_f64 lo, vec_f64 hi)
{
    return (vec_f32)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)hi), _mm256_cvtpd_ps((__m256d)lo));
}
#elif defined(__SSE2__)
INLINE vec_f64 vwiden_lo(vec_f32 a) { return (vec_f64)_mm_cvtps_pd((__m128)a); }
INLINE vec_f64 vwiden_hi(vec_f32 a) { return (vec_f64)_mm_cvtps_pd(_mm_movehl_ps((__m128)a, (__m128)a)); }
INLINE vec_f32 vnarrow(vec_f64 lo, vec_f64 hi)
{
    return (vec_f32)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)lo), _mm_cvtpd_ps((__m128d)hi));
}
#else
INLINE vec_f64 vwiden_lo(vec_f32 a)
{
    vec_f64 r;
    for (int i = 0; i < LANES_f64; i++)
        r[i] = (double)a[i];
    return r;
}
INLINE vec_f64 vwiden_hi(vec_f32 a)
{
    vec_f64 r;
    for (int i = 0; i < LANES_f64; i++)
        r[i] = (double)a[LANES_f64 + i];
    return r;
}
INLINE vec_f32 vnarrow(vec_f64 lo, vec_f64 hi)
{
    vec_f32 r;
    for (int i = 0; i < LANES_f64; i++) {
        r[i] = (float)lo[i];
        r[LANES_f64 + i] = (float)hi[i];
    }
    return r;
}
#endif

/* ---- parts of vmath_real.h ---- */
typedef uint32_t vm_bits_f32 __attribute__((vector_size(SIMD_BYTES)));
typedef uint64_t vm_bits_f64 __attribute__((vector_size(SIMD_BYTES)));
#define vm_bits FN(vm_bits)
#define vm_pow2 FN(vm_pow2)
#define vm_scale FN(vm_scale)
#define vm_product FN(vm_product)
#define vm_square FN(vm_square)
#define vm_exp_reduce FN(vm_exp_reduce)
#define vm_exp_tail FN(vm_exp_tail)
#define vm_exp_m1 FN(vm_exp_m1)
#define vm_expm1 FN(vm_expm1)
#define vm_logistic FN(vm_logistic)
#define vm_sigmoid_tail FN(vm_sigmoid_tail)
#define vm_scale_wide FN(vm_scale_wide)
#define vm_sigmoid_pieces FN(vm_sigmoid_pieces)
#define vm_log_parts FN(vm_log_parts)
#define vm_log_sum FN(vm_log_sum)
#define vm_log_any FN(vm_log_any)
#define vm_log1p_any FN(vm_log1p_any)
#define vm_log_odd FN(vm_log_odd)
#define vm_log_odd_lanes FN(vm_log_odd_lanes)
#define vm_log1p_odd_lanes FN(vm_log1p_odd_lanes)
#define vm_log_pieces FN(vm_log_pieces)
#define vm_normal_tail FN(vm_normal_tail)
#define vm_exp_square FN(vm_exp_square)
#define vm_normcdf FN(vm_normcdf)
#define vm_normpdf FN(vm_normpdf)
#define vm_gelu_tail FN(vm_gelu_tail)
#define vm_gelu_slope_tail FN(vm_gelu_slope_tail)
#define vm_normal_pieces FN(vm_normal_pieces)
#define vm_piecewise FN(vm_piecewise)
#define vm_pieces FN(vm_pieces)

#define REAL_BODY "vmath_real.h"
#include "for_each_real.h"
#endif
