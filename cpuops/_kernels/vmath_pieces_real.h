/* vmath_pieces_real.h: words of floats at v4 by polynomials in pieces, whose coefficients (vmath_pieces.h) are looked up in
 * registers: no division, and seldom an exponential. Included by vmath_real.h only. */

/* A function of t in [0, 15) by 16 polynomials of degree 6 in t - c: the ranges of t are a quarter long up to 1, then a
 * half to 3, one to 7, two to 15, which are the leading bits of t + 1, counted from those of 2. Its value is p u + c0 */
INLINE vec vm_piecewise(vec t, const float table[8][16], vec *c0, vec *u)
{
    const __m512i piece = _mm512_srli_epi32(_mm512_castps_si512((__m512)(t + C(1))), MANTISSA - 2);
#define ROW(k) (vec)_mm512_permutexvar_ps(piece, _mm512_load_ps(table[k]))
    *u = t - ROW(0);
    *c0 = ROW(1);
    return vfma(vfma(vfma(vfma(vfma(ROW(7), *u, ROW(6)), *u, ROW(5)), *u, ROW(4)), *u, ROW(3)), *u, ROW(2));
#undef ROW
}

/* a function of t by 32 polynomials of degree 6 in t - c; the last bits of `place` are the piece's number */
INLINE vec vm_pieces(vec t, vec place, const float table[8][32])
{
    const __m512i piece = _mm512_castps_si512((__m512)place);
#define ROW(k) (vec)_mm512_permutex2var_ps(_mm512_load_ps(table[k]), piece, _mm512_load_ps(table[k] + 16))
    const vec u = t - ROW(0);
    vec p = vfma(vfma(vfma(vfma(vfma(ROW(7), u, ROW(6)), u, ROW(5)), u, ROW(4)), u, ROW(3)), u, ROW(2));
    return vfma(p, u, ROW(1));
#undef ROW
}

/* p * 2^n rounded once, for n above -900: through double, since vscalef takes a hundred cycles over a subnormal result */
INLINE vec vm_scale_wide(vec p, vec n)
{
    const vec_f64 bias = vset_f64(6755399441055744.0 + 1023); /* 1.5 * 2^52: the integer stands in the last bits */
    vec_f64 lo = (vec_f64)((vm_bits_f64)(vwiden_lo(n) + bias) << 52), hi = (vec_f64)((vm_bits_f64)(vwiden_hi(n) + bias) << 52);
    return vnarrow(vwiden_lo(p) * lo, vwiden_hi(p) * hi);
}

#define PIECEWISE_END 14.99f
#define NORMAL_END 6.8f
#define SIGMOID_END 17.5f /* 1 less what is left here is 1 */
#define HALF_LOG2E_LOW -9.62981495e-09f /* -LOG2E/2 less its float */

INLINE vec vtanh(vec x)
{
    vec c0, u, p = vm_piecewise(vmin_fast(C(PIECEWISE_END), vabs(x)), PIECES_TANH, &c0, &u);
    return vcopysign(vfma(p, u, c0), x);
}

/* sigmoid(-t), 0 <= t <= SIGMOID_END */
INLINE vec vm_sigmoid_pieces(vec t) { return vm_pieces(t, vfma(t, C(31 / SIGMOID_END), C(MAGIC)), PIECES_SIGMOID); }

/* of lanes below -SIGMOID_END sigmoid(x) = exp(x), to half an ulp: returns exp(x) 2^-n - 1 */
INLINE vec vm_sigmoid_tail(vec x, vmask tail, vec *low, vec *n)
{
    *low = vmax_fast(C(X_EXP_LOW), vsel(tail, x, C(-SIGMOID_END)));
    return vm_exp_m1(vm_exp_reduce(*low, n, NULL));
}

INLINE vec vsigmoid(vec x)
{
    vec p = vm_sigmoid_pieces(vmin_fast(C(SIGMOID_END), vabs(x)));
    vec y = vsel(vlt(x, C(0)), p, C(1) - p);
    const vmask tail = vlt(x, C(-SIGMOID_END));
    if (__builtin_expect(many(tail), 0)) {
        vec low, n, e = vm_sigmoid_tail(x, tail, &low, &n);
        y = vsel(tail, vm_scale_wide(C(1) + e, n), y);
    }
    return y;
}

INLINE vec vsilu(vec x)
{
    vec t = vmin_fast(C(SIGMOID_END), vabs(x));
    vec y = vfnma(t, vm_sigmoid_pieces(t), vmax_fast(C(0), x)); /* t sigmoid(-t) off x or 0, whose sign stays */
    const vmask tail = vlt(x, C(-SIGMOID_END));
    if (__builtin_expect(many(tail), 0)) {
        vec low, n, e = vm_sigmoid_tail(x, tail, &low, &n);
        y = vsel(tail, vm_scale_wide(vfma(low, e, low), n), y);
    }
    return y;
}

/* Phi(-t) = (R + r_lo)(1 + e) 2^n for 0 <= t < PIECEWISE_END, where it underflows; returns e */
INLINE vec vm_normal_tail(vec t, vec *r, vec *r_lo, vec *n)
{
    vec c0, u, p = vm_piecewise(t, PIECES_MILLS, &c0, &u);
    *r = vfma(p, u, c0);
    *r_lo = vfma(p, u, c0 - *r);
    /* 2^f - 1, |f| <= 1/2 */
    vec s = t * t, s_lo = vfms(t, t, s), k = vfma(s, C(-0.5 * LOG2E), C(MAGIC)) - C(MAGIC);
    vec f = vfma(s, C(-0.5 * LOG2E), -k) + vfma(s_lo, C(-0.5 * LOG2E), s * C(HALF_LOG2E_LOW));
    *n = k;
    return f * POLYNOMIAL(f, 0.693147182f, 0.240226492f, 0.0555036739f, 0.00961830746f, 0.00133873895f,
                          0.000153836547f);
}

/* Where the exponential is too steep for pieces, in lanes below -NORMAL_END: x Phi(x), and its derivative */
INLINE vec vm_gelu_tail(vec x, vmask tail)
{
    vec low = vmax_fast(C(-PIECEWISE_END), vsel(tail, x, C(-NORMAL_END))), r, r_lo, n, e = vm_normal_tail(-low, &r, &r_lo, &n);
    vec y = low * r; /* x inside, for a subnormal result to be rounded once */
    return vm_scale_wide(y + vfma(y, e, vfma(low, r_lo, vfms(low, r, y))), n);
}

INLINE vec vm_gelu_slope_tail(vec x, vmask tail)
{
    vec low = vmax_fast(C(-PIECEWISE_END), vsel(tail, x, C(-NORMAL_END))), r, r_lo, n, e = vm_normal_tail(-low, &r, &r_lo, &n);
    vec q = vfma(C(0.39894228040143267794), low, r);
    return vm_scale_wide(vfma(q, e, q), n);
}

/* a function of t in [0, NORMAL_END] */
INLINE vec vm_normal_pieces(vec t, const float table[8][32])
{
    return vm_pieces(t, vfma(t, vfma(t, C(0.5), C(1.2)), C(MAGIC)), table);
}

INLINE vec vgelu(vec x)
{
    vec t = vmin_fast(C(NORMAL_END), vabs(x)), p = vm_normal_pieces(t, PIECES_NORMAL);
    vec y = vfnma(t, p, vmax_fast(C(0), x)); /* t Phi(-t) off x or 0, whose sign stays */
    const vmask tail = vlt(x, C(-NORMAL_END));
    if (__builtin_expect(many(tail), 0))
        y = vsel(tail, vm_gelu_tail(x, tail), y);
    return y;
}

INLINE vec vgelu_slope(vec x)
{
    /* Phi(x) + x phi(x), and 1 less that of -x */
    vec p = vm_normal_pieces(vmin_fast(C(NORMAL_END), vabs(x)), PIECES_SLOPE);
    vec y = vsel(vlt(x, C(0)), p, C(1) - p);
    const vmask tail = vlt(x, C(-NORMAL_END));
    if (__builtin_expect(many(tail), 0))
        y = vsel(tail, vm_gelu_slope_tail(x, tail), y);
    return y;
}

#undef PIECEWISE_END
#undef NORMAL_END
#undef SIGMOID_END
#undef HALF_LOG2E_LOW
