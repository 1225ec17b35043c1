/* elementwise_real.h: the loops over elementwise.h's formulas, for one scalar type. Included by elementwise.h only.
 *
 * One body a formula: four vectors a turn (independent chains hide the latency of the polynomials), then the rest a
 * vector at a time, the last one partial, through the same inlined formula: an element has the same bits anywhere.
 * A cell is read before it is written, so `out` may be an operand.
 */
#define ZERO vzero()
#define ONE vset(1)
#define HALF vset((real)0.5)
#define THREE vset(3)
#define SIX vset(6)
#define INFINITE vset((real)INFINITY)
#define TWO_OVER_SQRT_PI vset((real)1.1283791670955125738961589031)
/* Klambauer et al. 2017, eq. 14 */
#define SELU_ALPHA vset((real)1.6732632423543772848170429917)
#define SELU_SCALE vset((real)1.0507009873554804934193349853)
/* NaN stays: both comparisons are false on it */
#define CLAMP(v, lo, hi) vsel(vlt(v, lo), lo, vsel(vgt(v, hi), hi, v))
/* beyond this every sigmoid, exp and normal density here is 0 or constant in `real` */
#define BOUNDED(v) CLAMP(v, vset(-1000), vset(1000))

/* sigmoid(x) and sigmoid(-x), which is 1 - sigmoid(x) without cancellation */
INLINE vec FN(sigmoids)(vec x, vec *minus)
{
    vec low = vsigmoid(vneg(vabs(x))), high = ONE - low;
    vmask below = vlt(x, ZERO);
    *minus = vsel(below, high, low);
    return vsel(below, low, high);
}

INLINE vec FN(sigmoid_slope)(vec x)
{
    vec t, s = FN(sigmoids)(x, &t);
    return s * t;
}

/* d/dx silu = s (1 + x (1 - s)) */
INLINE vec FN(silu_slope)(vec x)
{
    vec t, s = FN(sigmoids)(x, &t);
    return s * vfma(x, t, ONE);
}

/* d/dx gelu_tanh = s + x s(1-s) 2 c (1 + 3 a x^2), s = sigmoid(2u), u = c (x + a x^3), c = sqrt(2/pi), a = 0.044715 */
INLINE vec FN(gelu_tanh_slope)(vec x)
{
    const vec c2 = vset((real)1.5957691216057307117597842397), a = vset((real)0.044715);
    vec xx = x * x, u2 = c2 * x * vfma(a, xx, ONE);
    vec t, s = FN(sigmoids)(u2, &t);
    return vfma(x * s * t, c2 * vfma(vset((real)(3 * 0.044715)), xx, ONE), s);
}

/* mish = x tanh(log(1 + e^x)) = x n / (n + 2), n = e^x (e^x + 2); beyond `top` the fraction is 1 */
INLINE vec FN(mish_n)(vec x)
{
    const vec top = vset(IS_F64 ? 40 : 20);
    vec e = vexp(vsel(vgt(x, top), top, x));
    return e * (e + vset(2));
}

INLINE vec FN(mish)(vec x)
{
    vec n = FN(mish_n)(x);
    return vsel(veq(x, vset(-(real)INFINITY)), vneg(ZERO), x * (n / (n + vset(2))));
}

/* t + x (1 - t^2) sigmoid(x), with 1 - t^2 = 4 (n + 1) / (n + 2)^2 */
INLINE vec FN(mish_slope)(vec x)
{
    vec n = FN(mish_n)(x), d = ONE / (n + vset(2));
    return vfma(x * vsigmoid(x), vset(4) * (n + ONE) * d * d, n * d);
}

/* x - tanh(x); near 0 its series, where the difference would cancel */
INLINE vec FN(tanhshrink)(vec x)
{
#if IS_F64
#define TANHSHRINK_NEAR 0.25
    static const real C[] = {
        1.0 / 3, -2.0 / 15, 17.0 / 315, -62.0 / 2835, 1382.0 / 155925, -21844.0 / 6081075, 929569.0 / 638512875,
        -6404582.0 / 10854718875, 443861162.0 / 1856156927625, -18888466084.0 / 194896477400625,
        113927491862.0 / 2900518163668125,
    };
#else
#define TANHSHRINK_NEAR 0.5f
    static const real C[] = {0.333333343f, -0.133335233f, 0.0540273562f, -0.0225125533f, 0.0116739236f, -0.00753085688f};
#endif
    enum { TERMS = sizeof C / sizeof *C };
    vec xx = x * x, s = vset(C[TERMS - 1]);
    for (int i = TERMS - 2; i >= 0; i--)
        s = vfma(s, xx, vset(C[i]));
    vec far = vsel(veq(vabs(x), INFINITE), x, x - vtanh(x));
    return vsel(vlt(vabs(x), vset(TANHSHRINK_NEAR)), x * (xx * s), far);
#undef TANHSHRINK_NEAR
}

/* g where this operand wins, half where they are equal, 0 where it loses, NaN where they cannot be compared */
INLINE vec FN(share)(vec g, vmask wins, vmask loses)
{
    return vsel(wins, g, vsel(loses, ZERO, g * HALF));
}

/* Where memory bounds a run that is too long for a level-1 cache, it asks for its lines a kilobyte ahead, those to be written,
 * too, and its stores begin at a line (`before_line`): 100,000 cells in a level-2 cache take 2 to 14 % less (Sapphire
 * Rapids), and a product into an array that begins within a line a third. Within a level-1 cache, or beside a polynomial,
 * asking costs more than it brings. */
#define LINE 64
#define LONG_RUN ((ptrdiff_t)(32768 / sizeof(real)))
#define AHEAD 1024
#define ASK(p, written)                                                                     \
    for (int at = 0; at < 4 * SIMD_BYTES; at += LINE)                                       \
        __builtin_prefetch((const char *)((p) + i) + AHEAD + at, written, 3);
#define READ(p) ASK(p, 0)
#define WRITTEN(p) ASK(p, 1)

/* ONCE: four vectors; ONCE_N: m lanes of one; AHEAD_OF: what to ask for where `by_memory` */
#define LOOP(n, by_memory, AHEAD_OF, ONCE, ONCE_N)                  \
    ptrdiff_t i = 0;                                                \
    for (; i + 4 * LANES <= n; i += 4 * LANES) {                    \
        if ((by_memory) && (n) >= LONG_RUN) {                       \
            AHEAD_OF                                                \
        }                                                           \
        ONCE                                                        \
    }                                                               \
    for (; i < n; i += LANES) {                                     \
        ptrdiff_t m = n - i < LANES ? n - i : LANES;                \
        ONCE_N                                                      \
    }

/* OUT out[n] = f(IN x[n]) */
#define U_FORWARD(name, f, d)                                                                         \
    INLINE vec FN(f_##name)(vec x, vec p, vec q)                                                      \
    {                                                                                                 \
        (void)p, (void)q;                                                                             \
        return f;                                                                                     \
    }                                                                                                 \
    FUNC void FN(u_##name)(const real *xs, real *out, ptrdiff_t n, real ps, real qs)                  \
    {                                                                                                 \
        const vec p = vset(ps), q = vset(qs);                                                         \
        LOOP(n, U_##name < LIGHT_COUNT, READ(xs) WRITTEN(out),                                        \
             vec a = vload(xs + i); vec b = vload(xs + i + LANES);                                    \
             vec c = vload(xs + i + 2 * LANES); vec e = vload(xs + i + 3 * LANES);                    \
             a = FN(f_##name)(a, p, q); b = FN(f_##name)(b, p, q);                                    \
             c = FN(f_##name)(c, p, q); e = FN(f_##name)(e, p, q);                                    \
             vstore(out + i, a); vstore(out + i + LANES, b);                                          \
             vstore(out + i + 2 * LANES, c); vstore(out + i + 3 * LANES, e);                          \
             , vstore_n(out + i, FN(f_##name)(vload_n(xs + i, m), p, q), m);)                         \
    }
UNARY_LIST(U_FORWARD)
#undef U_FORWARD

/* OUT out[n] = gradient(IN gs[n], IN xs[n]) */
#define U_GRAD(name, f, d)                                                                            \
    INLINE vec FN(d_##name)(vec g, vec x, vec p, vec q)                                               \
    {                                                                                                 \
        (void)p, (void)q;                                                                             \
        return vsel(visnan(x), x, d);                                                                 \
    }                                                                                                 \
    FUNC void FN(ub_##name)(const real *gs, const real *xs, real *out, ptrdiff_t n, real ps, real qs) \
    {                                                                                                 \
        const vec p = vset(ps), q = vset(qs);                                                         \
        LOOP(n, 1, READ(gs) READ(xs) WRITTEN(out),                                                    \
             vec r[4];                                                                                \
             for (int k = 0; k < 4; k++)                                                              \
                 r[k] = FN(d_##name)(vload(gs + i + k * LANES), vload(xs + i + k * LANES), p, q);     \
             for (int k = 0; k < 4; k++) vstore(out + i + k * LANES, r[k]);                           \
             , vstore_n(out + i, FN(d_##name)(vload_n(gs + i, m), vload_n(xs + i, m), p, q), m);)     \
    }
UNARY_LIST(U_GRAD)
#undef U_GRAD

/* OUT out[n] = f(IN xs, IN ys); xstep, ystep 1, or 0 for one value against many */
#define B_FORWARD(name, f, dx, dy)                                                                    \
    INLINE vec FN(f2_##name)(vec x, vec y) { return f; }                                              \
    FUNC void FN(b_##name)(const real *xs, int xstep, const real *ys, int ystep, real *out, ptrdiff_t n) \
    {                                                                                                 \
        if (xstep && ystep) {                                                                         \
            LOOP(n, 1, READ(xs) READ(ys) WRITTEN(out),                                                \
                 vec r[4];                                                                            \
                 for (int k = 0; k < 4; k++)                                                          \
                     r[k] = FN(f2_##name)(vload(xs + i + k * LANES), vload(ys + i + k * LANES));      \
                 for (int k = 0; k < 4; k++) vstore(out + i + k * LANES, r[k]);                       \
                 , vstore_n(out + i, FN(f2_##name)(vload_n(xs + i, m), vload_n(ys + i, m)), m);)      \
        } else if (xstep) {                                                                           \
            const vec y = vset(ys[0]);                                                                \
            LOOP(n, 1, READ(xs) WRITTEN(out),                                                         \
                 vec r[4];                                                                            \
                 for (int k = 0; k < 4; k++) r[k] = FN(f2_##name)(vload(xs + i + k * LANES), y);      \
                 for (int k = 0; k < 4; k++) vstore(out + i + k * LANES, r[k]);                       \
                 , vstore_n(out + i, FN(f2_##name)(vload_n(xs + i, m), y), m);)                       \
        } else {                                                                                      \
            const vec x = vset(xs[0]);                                                                \
            LOOP(n, 1, WRITTEN(out),                                                                  \
                 vec r[4];                                                                            \
                 for (int k = 0; k < 4; k++)                                                          \
                     r[k] = FN(f2_##name)(x, ystep ? vload(ys + i + k * LANES) : vset(ys[0]));        \
                 for (int k = 0; k < 4; k++) vstore(out + i + k * LANES, r[k]);                       \
                 , vstore_n(out + i, FN(f2_##name)(x, ystep ? vload_n(ys + i, m) : vset(ys[0])), m);) \
        }                                                                                             \
    }
BINARY_LIST(B_FORWARD)
#undef B_FORWARD

/* OUT dxs[n], OUT dys[n] from IN gs, xs, ys [n] (ystep 0: one y for all) */
#define B_GRAD(name, f, dx, dy)                                                                       \
    INLINE vec FN(dx_##name)(vec g, vec x, vec y) { (void)g, (void)x, (void)y; return dx; }           \
    INLINE vec FN(dy_##name)(vec g, vec x, vec y) { (void)g, (void)x, (void)y; return dy; }           \
    FUNC void FN(bb_##name)(const real *gs, const real *xs, const real *ys, int ystep, real *dxs, real *dys, ptrdiff_t n) \
    {                                                                                                 \
        const vec only = vset(ys[0]);                                                                 \
        LOOP(n, 1, READ(gs) WRITTEN(dxs) WRITTEN(dys),                                                \
             vec rx[4]; vec ry[4];                                                                    \
             for (int k = 0; k < 4; k++) {                                                            \
                 vec g = vload(gs + i + k * LANES); vec x = vload(xs + i + k * LANES);                \
                 vec y = ystep ? vload(ys + i + k * LANES) : only;                                    \
                 rx[k] = FN(dx_##name)(g, x, y); ry[k] = FN(dy_##name)(g, x, y);                      \
             }                                                                                        \
             for (int k = 0; k < 4; k++) vstore(dxs + i + k * LANES, rx[k]);                          \
             for (int k = 0; k < 4; k++) vstore(dys + i + k * LANES, ry[k]);                          \
             ,                                                                                        \
             vec g = vload_n(gs + i, m); vec x = vload_n(xs + i, m);                                  \
             vec y = ystep ? vload_n(ys + i, m) : only;                                               \
             vstore_n(dxs + i, FN(dx_##name)(g, x, y), m);                                            \
             vstore_n(dys + i, FN(dy_##name)(g, x, y), m);)                                           \
    }
BINARY_LIST(B_GRAD)
#undef B_GRAD

typedef void (*FN(unary_fn))(const real *, real *, ptrdiff_t, real, real);
typedef void (*FN(unary_grad_fn))(const real *, const real *, real *, ptrdiff_t, real, real);
typedef void (*FN(binary_fn))(const real *, int, const real *, int, real *, ptrdiff_t);
typedef void (*FN(binary_grad_fn))(const real *, const real *, const real *, int, real *, real *, ptrdiff_t);
#define U_ROW(name, f, d) FN(u_##name),
static const FN(unary_fn) FN(UNARY)[] = {UNARY_LIST(U_ROW)};
#undef U_ROW
#define U_ROW(name, f, d) FN(ub_##name),
static const FN(unary_grad_fn) FN(UNARY_GRAD)[] = {UNARY_LIST(U_ROW)};
#undef U_ROW
#define B_ROW(name, f, dx, dy) FN(b_##name),
static const FN(binary_fn) FN(BINARY)[] = {BINARY_LIST(B_ROW)};
#undef B_ROW
#define B_ROW(name, f, dx, dy) FN(bb_##name),
static const FN(binary_grad_fn) FN(BINARY_GRAD)[] = {BINARY_LIST(B_ROW)};
#undef B_ROW

/* cells before the first line that begins in `out`, of a run that is worth it */
INLINE ptrdiff_t FN(before_line)(const real *out, ptrdiff_t n)
{
    return n < LONG_RUN ? 0 : (ptrdiff_t)(-(uintptr_t)out % LINE / sizeof(real));
}

/* RUN(k, m), m cells from the k-th on: those before the first line, then the rest. Not in LOOP, where constants would leave their
 * registers: a tenth of a polynomial's time */
#define BY_LINES(out, n)                                            \
    {                                                               \
        const ptrdiff_t head = FN(before_line)(out, n);             \
        if (head)                                                   \
            RUN(0, head);                                           \
        RUN(head, (n) - head);                                      \
    }

FUNC void FN(unary)(int op, const real *x, real *out, ptrdiff_t n, double p, double q)
{
#define RUN(k, m) FN(UNARY)[op](x + (k), out + (k), m, (real)p, (real)q)
    BY_LINES(out, n)
#undef RUN
}

FUNC void FN(unary_backward)(int op, const real *g, const real *x, real *out, ptrdiff_t n, double p, double q)
{
#define RUN(k, m) FN(UNARY_GRAD)[op](g + (k), x + (k), out + (k), m, (real)p, (real)q)
    BY_LINES(out, n)
#undef RUN
}

/* cells [lo, hi) of a broadcast pair: out is contiguous of `ndim` axes `dims`; xs[a], ys[a]: elements a step along axis a;
 * along the last axis they are 0 or 1. The cells are walked in runs along the last axis. */
FUNC void FN(binary)(int op, const real *x, const real *y, real *out, int ndim, const ptrdiff_t *dims, const ptrdiff_t *xs,
                     const ptrdiff_t *ys, ptrdiff_t lo, ptrdiff_t hi)
{
    ptrdiff_t at[64], run = dims[ndim - 1], rest = lo;
    for (int a = ndim - 1; a >= 0; a--) {
        at[a] = rest % dims[a];
        rest /= dims[a];
    }
    while (lo < hi) {
        ptrdiff_t n = run - at[ndim - 1], xo = 0, yo = 0;
        if (n > hi - lo)
            n = hi - lo;
        for (int a = 0; a < ndim; a++) {
            xo += at[a] * xs[a];
            yo += at[a] * ys[a];
        }
        const int xstep = (int)xs[ndim - 1], ystep = (int)ys[ndim - 1];
#define RUN(k, m) FN(BINARY)[op](x + xo + (k) * xstep, xstep, y + yo + (k) * ystep, ystep, out + lo + (k), m)
        BY_LINES(out + lo, n)
#undef RUN
        lo += n;
        at[ndim - 1] += n;
        for (int a = ndim - 1; a > 0 && at[a] == dims[a]; a--) {
            at[a] = 0;
            at[a - 1]++;
        }
    }
}

/* one run of a pair's gradients */
FUNC void FN(binary_backward)(int op, const real *g, const real *x, const real *y, int ystep, real *dx, real *dy, ptrdiff_t n)
{
    FN(BINARY_GRAD)[op](g, x, y, ystep, dx, dy, n);
}

#undef LOOP
#undef BY_LINES
#undef READ
#undef WRITTEN
#undef ASK
#undef AHEAD
#undef LONG_RUN
#undef LINE
#undef ZERO
#undef ONE
#undef HALF
#undef THREE
#undef SIX
#undef INFINITE
#undef TWO_OVER_SQRT_PI
#undef SELU_ALPHA
#undef SELU_SCALE
#undef CLAMP
#undef BOUNDED
