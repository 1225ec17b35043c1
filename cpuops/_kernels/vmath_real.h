/* vmath_real.h: the words of vmath.h for one scalar type. Included by vmath.h only. (first version: lane by lane) */
#define LANEWISE(name, expr)                     \
    FUNC vec name(vec v)                         \
    {                                            \
        real t[LANES] __attribute__((aligned(SIMD_BYTES))); \
        vstore(t, v);                            \
        for (int i = 0; i < LANES; i++) {        \
            double a = t[i];                     \
            t[i] = (real)(expr);                 \
        }                                        \
        return vload(t);                         \
    }
LANEWISE(vexp, exp(a))
LANEWISE(vexpm1, expm1(a))
LANEWISE(vlog, log(a))
LANEWISE(vlog1p, log1p(a))
LANEWISE(vtanh, tanh(a))
LANEWISE(vsigmoid, a > 0 ? 1 / (1 + exp(-a)) : exp(a) / (1 + exp(a)))
LANEWISE(verf, erf(a))
LANEWISE(vnormcdf, 0.5 * erfc(-0.70710678118654752440 * a))
LANEWISE(vnormpdf, 0.39894228040143267794 * exp(-0.5 * a * a))
LANEWISE(vgelu, a < -40 ? -0.0 : a * (0.5 * erfc(-0.70710678118654752440 * a)))
LANEWISE(vgelu_tanh, a < -100 ? -0.0 : a / (1 + exp(-1.5957691216057307 * (a + 0.044715 * a * a * a))))
LANEWISE(vsilu, a == -INFINITY ? -0.0 : a > 0 ? a / (1 + exp(-a)) : a * (exp(a) / (1 + exp(a))))
LANEWISE(vsoftplus, a != a ? a : (a > 0 ? a : 0) + log1p(exp(-fabs(a))))
LANEWISE(vlogsigmoid, a != a ? a : (a < 0 ? a : -0.0) - log1p(exp(-fabs(a))))
#undef LANEWISE
