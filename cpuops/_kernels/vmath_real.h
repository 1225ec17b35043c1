/* vmath_real.h: the words of vmath.h for one scalar type. Included by vmath.h only.
 *
 * Names: n is the integer multiple of ln 2 taken out of an exponent; a value `v` that is carried beyond its precision has
 * its lost part in `v_lo`. Polynomials are minimax fits with rounded coefficients.
 */

#if IS_F64
#define MANTISSA 52
#define BIAS 1023
#define MAGIC 6755399441055744.0 /* 1.5 * 2^52: x + MAGIC has the rounded integer in its last bits */
#define EXP_HIGH 710.0           /* exp is infinite here */
#define EXP_LOW -746.0           /* exp is 0 here */
#define EXPM1_LOW -40.0          /* expm1 is -1 here, tanh(-EXPM1_LOW / 2) is 1 */
#define X_EXP_LOW -760.0         /* x * exp(x) is 0 here */
#define GELU_TANH_LOW -23.0      /* gelu_tanh is 0 here */
#define NORMAL_LOW -39.0         /* x * Phi(x) is 0 here */
#define NORMPDF_LOW -6.24733783e-17
#define GELU_TANH_A_LOW -9.9693088091109202e-17
#define GELU_TANH_B_LOW -6.175149918155315e-19
#else
#define MANTISSA 23
#define BIAS 127
#define MAGIC 12582912.0f
#define EXP_HIGH 89.0f
#define EXP_LOW -105.0f
#define EXPM1_LOW -20.0f
#define X_EXP_LOW -112.0f
#define GELU_TANH_LOW -12.0f
#define NORMAL_LOW -15.0f
#define NORMPDF_LOW -2.84130571e-08f
#define GELU_TANH_A_LOW -4.53406804e-08f
#define GELU_TANH_B_LOW 2.3988324e-09f
#endif
#define IN_PIECES (SIMD_AVX512 && !IS_F64) /* by vmath_pieces_real.h */
#define C(x) vset((real)(x))
#define LOG2E 1.44269504088896340736
#define LN2_HIGH 0.693145751953125 /* 16 bits: n * LN2_HIGH is exact */
#define LN2_LOW 1.42860682030941723212e-6

/* c0 + c1 x + ...: POLYNOMIAL(x, c0, c1, ...), by Horner's rule. In macros: a loop this long is not always unrolled. */
#define POLYNOMIAL(x, ...) HORNER_OF(__VA_ARGS__, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2)(x, __VA_ARGS__)
#define HORNER_OF(a, b, c, d, e, f, g, h, i, j, k, l, m, count, ...) HORNER_##count
#define HORNER_2(x, c, d) vfma(C(d), x, C(c))
#define HORNER_3(x, c, ...) vfma(HORNER_2(x, __VA_ARGS__), x, C(c))
#define HORNER_4(x, c, ...) vfma(HORNER_3(x, __VA_ARGS__), x, C(c))
#define HORNER_5(x, c, ...) vfma(HORNER_4(x, __VA_ARGS__), x, C(c))
#define HORNER_6(x, c, ...) vfma(HORNER_5(x, __VA_ARGS__), x, C(c))
#define HORNER_7(x, c, ...) vfma(HORNER_6(x, __VA_ARGS__), x, C(c))
#define HORNER_8(x, c, ...) vfma(HORNER_7(x, __VA_ARGS__), x, C(c))
#define HORNER_9(x, c, ...) vfma(HORNER_8(x, __VA_ARGS__), x, C(c))
#define HORNER_10(x, c, ...) vfma(HORNER_9(x, __VA_ARGS__), x, C(c))
#define HORNER_11(x, c, ...) vfma(HORNER_10(x, __VA_ARGS__), x, C(c))
#define HORNER_12(x, c, ...) vfma(HORNER_11(x, __VA_ARGS__), x, C(c))
#define HORNER_13(x, c, ...) vfma(HORNER_12(x, __VA_ARGS__), x, C(c))

/* 2^n for integers n within the normal range */
INLINE vec vm_pow2(vec n) { return (vec)((vm_bits)(n + C(MAGIC + BIAS)) << MANTISSA); }

/* p * 2^n, rounded once, for n within twice the normal range */
INLINE vec vm_scale(vec p, vec n)
{
#if SIMD_AVX512 && IS_F64
    return (vec)_mm512_scalef_pd((__m512d)p, (__m512d)n);
#elif SIMD_AVX512
    return (vec)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    vec half = n * C(0.5) + C(MAGIC + BIAS);
    vec rest = n - (half - C(MAGIC + BIAS));
    return p * (vec)((vm_bits)half << MANTISSA) * vm_pow2(rest);
#endif
}

/* a * b = result + lo */
INLINE vec vm_product(vec a, vec b, vec *lo)
{
    vec p = a * b;
#if SIMD_FMA
    *lo = vfms(a, b, p);
#else
    const vm_bits upper = ~(vm_bits){0} << (MANTISSA + 2) / 2;
    vec ah = (vec)((vm_bits)a & upper), al = a - ah;
    vec bh = (vec)((vm_bits)b & upper), bl = b - bh;
    *lo = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
#endif
    return p;
}

/* x * x = result + lo, to within an ulp of lo */
INLINE vec vm_square(vec x, vec *lo)
{
#if SIMD_FMA
    return vm_product(x, x, lo);
#else
    vec h = (vec)((vm_bits)x & (~(vm_bits){0} << (MANTISSA + 2) / 2));
    *lo = (x - h) * (x + h);
    return h * h;
#endif
}

/* (exp(r) - 1 - r)/r^2 for |r| <= ln(2)/2 */
INLINE vec vm_exp_tail(vec r)
{
#if IS_F64
    return POLYNOMIAL(r, 0.50000000000000111, 0.1666666666666643, 0.041666666666527664, 0.0083333333334550067,
                      0.0013888888944522785, 0.00019841269629132931, 2.4801491816388452e-05, 2.7557453285662219e-06,
                      2.7630830215173356e-07, 2.5048173781490751e-08);
#else
    return POLYNOMIAL(r, 0.49999994f, 0.166665167f, 0.0416682512f, 0.00836909469f, 0.00138222368f);
#endif
}
INLINE vec vm_exp_m1(vec r) { return vfma(r * r, vm_exp_tail(r), r); }

/* x = n ln 2 + r; what r lost goes to r_lo when asked for */
INLINE vec vm_exp_reduce(vec x, vec *n, vec *r_lo)
{
    vec k = vfma(x, C(LOG2E), C(MAGIC)) - C(MAGIC);
    vec a = vfnma(k, C(LN2_HIGH), x);
    vec r = vfnma(k, C(LN2_LOW), a);
    if (r_lo)
        *r_lo = vfnma(k, C(LN2_LOW), a - r);
    *n = k;
    return r;
}

INLINE vec vrelu(vec x) { return vsel(vlt(x, C(0)), C(0), x); }

INLINE vec vexp(vec x)
{
    vec n, r = vm_exp_reduce(vmax_fast(C(EXP_LOW), vmin_fast(C(EXP_HIGH), x)), &n, NULL);
    return vm_scale(vm_exp_m1(r) + C(1), n);
}

/* expm1 = result + lo, result not yet rounded to include lo; x <= EXP_HIGH / 2 */
INLINE vec vm_expm1(vec x, vec *lo)
{
    vec n, r_lo, r = vm_exp_reduce(x, &n, &r_lo);
    vec s = vm_pow2(n), s1 = s - C(1), sr = s * r;
    vec h = s1 + sr;
    *lo = vfma(s, vfma(r * r, vm_exp_tail(r), r_lo), sr - (h - s1));
    return h;
}

INLINE vec vexpm1(vec x)
{
    /* half of everything, for 2^n to exist up to the overflow; but tiny x are not halved */
#if SIMD_FMA && !IS_F64
    vec n, r = vm_exp_reduce(vmax_fast(C(EXPM1_LOW), vmin_fast(C(EXP_HIGH), x)), &n, NULL);
    vec s = vm_pow2(n - C(1)), tail = r * r * vm_exp_tail(r);
    vec y = vfma(s, tail, vfma(s, r, s - C(0.5)));
#else
    vec n, r_lo, r = vm_exp_reduce(vmax_fast(C(EXPM1_LOW), vmin_fast(C(EXP_HIGH), x)), &n, &r_lo);
    vec s = vm_pow2(n - C(1)), s1 = s - C(0.5), sr = s * r, tail = vfma(r * r, vm_exp_tail(r), r_lo);
    vec h = s1 + sr;
    vec y = h + vfma(s, tail, sr - (h - s1));
#endif
    return vcopysign(vsel(veq(n, C(0)), r + tail, y + y), x);
}

#if !IN_PIECES
INLINE vec vtanh(vec x)
{
#if IS_F64
    /* with m = expm1(-2|x|): tanh = -m/(2 + m), and the reciprocal of the divisor is (1 + tanh)/2 */
    vec lo, h = vm_expm1(vmax_fast(C(EXPM1_LOW), C(-2) * vabs(x)), &lo);
    vec m = h + lo, m_lo = lo - (m - h);
    vec d = C(2) + m, d_lo = (m - (d - C(2))) + m_lo;
    vec q = m / d;
    return vcopysign(q + vfnma(q, d_lo, m_lo) * vfnma(C(0.5), q, C(0.5)), x);
#else
    vec t = vabs(x), z = x * x;
    vec near = vfma(t * z, POLYNOMIAL(z, -0.333332837f, 0.133314833f, -0.0537428558f, 0.0206486322f, -0.00571501255f), t);
    vec n, r = vm_exp_reduce(vmin_fast(C(-EXPM1_LOW), t + t), &n, NULL);
    vec far = C(1) - C(2) / vfma(vm_pow2(n), vm_exp_m1(r) + C(1), C(1));
    return vcopysign(vsel(vlt(t, C(0.625)), near, far), x);
#endif
}
#endif

/* num / (1 + exp(y + y_lo)), with y within EXP_LOW ... -2 EXP_LOW */
INLINE vec vm_logistic(vec y, const vec *y_lo, vec num)
{
    vec n, r = vm_exp_reduce(y, &n, NULL);
    if (y_lo)
        r = r + *y_lo;
    vec e = vm_exp_m1(r), p = C(1) + e, p_lo = e - (p - C(1));
    /* divisor and numerator by 2^n for positive n: no overflow, and a subnormal result is rounded in vm_scale */
    vec up = vmax_fast(n, C(0)), down = vm_pow2(vmin_fast(n, C(0)));
    vec one = vm_pow2(-vmin_fast(up, C(BIAS - 1)));
    p = p * down;
    vec big = vmax_fast(one, p), small = vmin_fast(one, p);
    vec d = big + small, d_lo = vfma(p_lo, down, small - (d - big));
    vec q = num / d;
    /* 1/d to 6 % for the correction */
    vec w = vfma(vfma(C(0.3384314613416563), d, C(-1.5889357109990765)), d, C(2.296767227591784));
    return vm_scale(vfnma(q, d_lo * w, q), -up);
}

#if !IN_PIECES
INLINE vec vsigmoid(vec x)
{
    /* num/(1 + e) with e = exp(-|x|) = p 2^n, and num = e below 0, 1 above */
    vec n, r = vm_exp_reduce(vmax_fast(C(EXP_LOW), -vabs(x)), &n, NULL);
    vec t = vm_exp_m1(r), p = C(1) + t, e = vm_scale(p, n), d = C(1) + e;
    vmask below = vlt(x, C(0));
    vec q = vsel(below, e, C(1)) / d;
    /* what 1 + e lost, and relatively what e did, over d: 1/d to 6 % will do */
    vec lost = vsel(below, t - (p - C(1)), C(0)) - (e - (d - C(1)));
    return vfma(q, lost * vfnma(C(0.4706), d, C(1.4118)), q);
}

INLINE vec vsilu(vec x)
{
    vec low = vmax_fast(C(X_EXP_LOW), x);
    vec y = vm_logistic(vmax_fast(C(EXPM1_LOW), -low), NULL, low);
    return vsel(veq(low + low, low), low, y); /* infinity, and the sign of zero */
}
#endif

INLINE vec vgelu_tanh(vec x)
{
    vec low = vmax_fast(C(GELU_TANH_LOW), x), c = vmin_fast(C(-GELU_TANH_LOW), low);
    /* y = -c (a + b c^2), a = 2 sqrt(2/pi), b = 0.044715 a, all to twice the precision */
    const double a = 1.5957691216057308, b = 0.071354816272600249;
    vec s_lo, s = vm_square(c, &s_lo);
    vec bs_lo, bs = vm_product(s, C(b), &bs_lo);
    bs_lo = bs_lo + (s_lo * C(b) + s * C(GELU_TANH_B_LOW));
    vec big = vmax_fast(C(a), bs), small = vmin_fast(C(a), bs);
    vec t = big + small, t_lo = (small - (t - big)) + (bs_lo + C(GELU_TANH_A_LOW));
    vec y_lo, y = vm_product(t, -c, &y_lo);
    y_lo = vfnma(t_lo, c, y_lo);
    y = vm_logistic(vmax_fast(C(EXPM1_LOW), y), &y_lo, low);
    return vsel(veq(low + low, low), low, y);
}

#include "vmath_log_real.h"

INLINE vec vsoftplus(vec x)
{
    vec n, r = vm_exp_reduce(vmax_fast(C(EXP_LOW), -vabs(x)), &n, NULL);
    vec t = vm_exp_m1(r), p = C(1) + t, p_lo = t - (p - C(1));
    vec e = vm_scale(p, n), e_lo = vm_scale(p_lo, n);
#if LOG_IN_PIECES
    vec u = C(1) + e, lost = (e - (u - C(1))) + e_lo;
    return vmax_fast(C(0), x) + vm_log_pieces(u, &lost);
#else
    /* log1p(e): above a half as ln 2 + log1p((e - 1)/2), exactly */
    vmask above = vgt(e, C(0.5));
    vec f = vsel(above, C(0.5) * (e - C(1)), e), c = vsel(above, C(0.5) * e_lo, e_lo), head = vmax_fast(C(0), x);
    return vm_log_sum(f, vsel(above, C(1), C(0)), &c, &head);
#endif
}

INLINE vec vlogsigmoid(vec x) { return -vsoftplus(-x); }

/* exp(-t*t/2) = result * 2^n (1 + lo), 0 <= t <= -NORMAL_LOW */
INLINE vec vm_exp_square(vec t, vec *n, vec *lo)
{
    vec s_lo, s = vm_square(t, &s_lo);
    vec r = vfnma(C(0.5), s_lo, vm_exp_reduce(C(-0.5) * s, n, NULL));
    vec e = vm_exp_m1(r), p = C(1) + e;
    *lo = (e - (p - C(1))) * vfnma(C(0.7), e, C(1));
    return p;
}

/* exp(-x*x/2)/sqrt(2*pi) */
INLINE vec vm_normpdf(vec x)
{
    vec n, lo, p = vm_exp_square(vmin_fast(C(1 - NORMAL_LOW), vabs(x)), &n, &lo);
    p = p * C(0.39894228040143267794);
    return vm_scale(vfma(p, lo + C(NORMPDF_LOW), p), n);
}

#if IS_F64
/* Phi(-t) = (result + y_lo) * 2^n, 0 <= t <= 39 */
INLINE vec vm_normal_tail(vec t, vec *n, vec *y_lo)
{
    vec lo, p = vm_exp_square(t, n, &lo);
    /* Phi(-t) exp(t*t/2) = g(t) is w R(v) with w = 1/(t + 4) and v = (t - 4)/(t + 4) = 1 - 8w, R of degree 23 */
    vec big = vmax_fast(C(4), t), small = vmin_fast(C(4), t);
    vec d = big + small, d_lo = small - (d - big);
    vec w = C(1) / d, v = vfnma(C(8), w, C(1)), z = v * v;
    vec even = POLYNOMIAL(z, 0.38713740074221198, 0.060396574891023166, -0.0034796923687422329, 0.0001333443240758403,
                          -1.9083201929713354e-06, 7.1687631464552192e-07, -6.3016582428793766e-07,
                          2.7248955114501361e-07, -8.6037354811027792e-08, 1.9949152714856461e-08,
                          -2.5972128511435967e-09);
    vec odd = POLYNOMIAL(z, -0.60789664197189208, -0.18652185795965889, -0.0075401889666856974, 0.0016308184570261784,
                         -0.00023109493038750304, 3.5144659588524377e-05, -5.9200762904394725e-06,
                         1.0213180082490708e-06, -1.5458994446515057e-07, 1.2908073799678979e-08,
                         2.128161419984846e-09, -7.7724524214070958e-10);
    /* the last two sums cancel for large t: what they lose is kept */
    const vec c0 = C(0.75528513041575152);
    vec s = vfma(even, z, c0), h = vfma(odd, v, s);
    vec h_lo = vfma(even, z, c0 - s) + vfma(odd, v, s - h);
    vec g = h * w, g_lo = vfma(h_lo, w, vfms(h, w, g));
    /* w stands for another t than the given one: g' = t g - 1/sqrt(2 pi) brings g back */
    vec wd_lo, wd = vm_product(w, d, &wd_lo);
    vec lost = (C(1) - wd) - wd_lo - w * d_lo;
    g_lo = vfma(vfnma(t, g, C(0.39894228040143267794)), lost * d, g_lo);
    vec y = g * p;
    *y_lo = vfma(vfma(g, lo, g_lo), p, vfms(g, p, y));
    return y;
}

/* Phi(x) */
INLINE vec vm_normcdf(vec x)
{
    vec n, h_lo, h = vm_normal_tail(vmin_fast(C(-NORMAL_LOW), vabs(x)), &n, &h_lo);
    h = vm_scale(h + h_lo, n);
    return vsel(vlt(x, C(0)), h, C(1) - h);
}

INLINE vec vgelu(vec x)
{
    vec t = vmin_fast(C(-NORMAL_LOW), vabs(x));
    vec n, h_lo, h = vm_normal_tail(t, &n, &h_lo), y = h * t;
    y = -vm_scale(y + vfma(h_lo, t, vfms(h, t, y)), n);
    return vsel(vlt(x, C(0)), y, x + y);
}

INLINE vec verf(vec x)
{
    vec t = vabs(x), z = t * t;
    vec n, h_lo, h = vm_normal_tail(vmin_fast(C(9), C(1.41421356237309504880) * t), &n, &h_lo);
    vec far = vfnma(C(2), vm_scale(h + h_lo, n), C(1));
    vec near = t * POLYNOMIAL(z, 0.12837916709551259, -0.37612638903184098, 0.11283791670971098, -0.026866170648031137,
                              0.0052239776526924742, -0.00085483285357942787, 0.00012055386193280009,
                              -1.4926881464540577e-05, 1.6481058951767502e-06, -1.6557131603945853e-07,
                              1.6013252689380303e-08, -1.6464887548359849e-09, 1.4343903870165841e-10);
    return vcopysign(vsel(vlt(t, C(1)), t + near, far), x);
}

#else
#if !IN_PIECES
/* Phi(-t) in double to 29 bits, 0 <= t <= 15; w is 1/(t + 3.5) to float precision */
INLINE vec_f64 vm_normal_tail(vec_f64 t, vec_f64 w)
{
#define D(x) vset_f64(x)
    /* (2^f - 1)/f, |f| <= 1/2; Phi(-t) exp(t*t/2) (t + 3.5) in powers of v = (t - 2.375)/(t + 3.5) */
    static const double exp2_m1[] = {0.6931472028549861, 0.240226479138518, 0.055503324713716752,
                                     0.0096184373294196483, 0.0013398874343478603, 0.00015353369741762476};
    static const double tail[] = {0.86511764775430489, -0.83352987108198306, 0.5471413410138275, -0.21412225732187448,
                                  0.019349462158023991, 0.02308352748019939, -0.0061342087249139582,
                                  -0.0033905739405772962, 0.00093869196256597741, 0.00053373501426521891};
    const double magic = 6755399441055744.0 + 1023.0;
    vec_f64 s = t * t, m = vfma_f64(s, D(-0.5 * LOG2E), D(magic));
    vec_f64 f = vfma_f64(s, D(-0.5 * LOG2E), D(magic) - m);
    vec_f64 q = D(exp2_m1[5]), g = D(tail[9]);
    for (int i = 4; i >= 0; i--)
        q = vfma_f64(q, f, D(exp2_m1[i]));
    q = vfma_f64(q, f, D(1));
    w = w * vfnma_f64(t + D(3.5), w, D(2));
    vec_f64 v = vfnma_f64(D(2.375 + 3.5), w, D(1));
    for (int i = 8; i >= 0; i--)
        g = vfma_f64(g, v, D(tail[i]));
    return g * w * (q * (vec_f64)((vm_bits_f64)m << 52));
#undef D
}

#define NORMAL_TAIL(t, lo, hi)                                       \
    vec w_ = C(1) / (t + C(3.5));                                    \
    vec_f64 lo = vm_normal_tail(vwiden_lo(t), vwiden_lo(w_));        \
    vec_f64 hi = vm_normal_tail(vwiden_hi(t), vwiden_hi(w_))

/* Phi(x) */
INLINE vec vm_normcdf(vec x)
{
    vec t = vmin_fast(C(-NORMAL_LOW), vabs(x));
    NORMAL_TAIL(t, lo, hi);
    vec h = vnarrow(lo, hi);
    return vsel(vlt(x, C(0)), h, C(1) - h);
}

INLINE vec vgelu(vec x)
{
    vec t = vmin_fast(C(-NORMAL_LOW), vabs(x));
    NORMAL_TAIL(t, lo, hi);
    vec h = vnarrow(-vwiden_lo(t) * lo, -vwiden_hi(t) * hi);
    return vsel(vlt(x, C(0)), h, x + h);
}
#undef NORMAL_TAIL

#endif

INLINE vec verf(vec x)
{
    vec t = vabs(x), c = vmin_fast(C(4), t);
    vec near = POLYNOMIAL(t * t, 0.128379166f, -0.376126289f, 0.112836257f, -0.0268557407f, 0.00519246096f,
                          -0.0008050818f, 8.00287671e-05f);
    vec e = POLYNOMIAL(c, -0.000253532984f, -1.12743926f, -0.637576044f, -0.103589438f, 0.022063531f, -0.00300258817f,
                       0.000191829255f); /* log(erfc(c)), for c >= 0.955 */
    vec n, r = vm_exp_reduce(e, &n, NULL);
    vec far = C(1) - vm_pow2(n) * (C(1) + vm_exp_m1(r));
    return vcopysign(vsel(vlt(t, C(0.96)), vfma(t, near, t), far), x);
}
#endif

#if IN_PIECES
#include "vmath_pieces_real.h"
#else
INLINE vec vgelu_slope(vec x)
{
    return vfma(vmax_fast(C(-1000), vmin_fast(C(1000), x)), vm_normpdf(x), vm_normcdf(x));
}
#endif

#undef MANTISSA
#undef BIAS
#undef MAGIC
#undef EXP_HIGH
#undef EXP_LOW
#undef EXPM1_LOW
#undef X_EXP_LOW
#undef GELU_TANH_LOW
#undef NORMAL_LOW
#undef IN_PIECES
#undef C
#undef LOG2E
#undef LN2_HIGH
#undef LN2_LOW
#undef POLYNOMIAL
#undef HORNER_OF
#undef HORNER_2
#undef HORNER_3
#undef HORNER_4
#undef HORNER_5
#undef HORNER_6
#undef HORNER_7
#undef HORNER_8
#undef HORNER_9
#undef HORNER_10
#undef HORNER_11
#undef HORNER_12
#undef HORNER_13
#undef NORMPDF_LOW
#undef GELU_TANH_A_LOW
#undef GELU_TANH_B_LOW
