/* elementwise.h: every elementwise formula with its derivative beside it, and the loops over them.
 *
 * UNARY_LIST   U(name, f(x), gradient from g and x)        p, q: the operation's options (see ops/activation.py);
 *              LIGHT_LIST: memory bounds their forward, HEAVY_LIST: arithmetic does
 * BINARY_LIST  B(name, f(x, y), gradient to x, gradient to y)   x: lhs, y: rhs; PAIR_LIST: those whose operands broadcast
 *
 * exp, tanh and sigmoid have their gradient in terms of the output (interface.md): there x is the output.
 * In a gradient a NaN x gives NaN whatever the formula makes of it (U_GRAD below).
 * Where the chain rule meets infinity (0 * inf), the operand is clamped to where the derivative is already constant.
 */
#ifndef CPUOPS_ELEMENTWISE_H
#define CPUOPS_ELEMENTWISE_H
#include "blocks.h"
#include "simd.h"
#include "vmath.h"
#include "wide.h"

#define LIGHT_LIST(U)                                                                                                    \
    U(neg, vneg(x), vneg(g))                                                                                             \
    U(sqrt, vsqrt(x), g * HALF / vsqrt(x))                                                                               \
    U(reciprocal, ONE / x, vneg(g / x / x))                                                                              \
    U(abs, vabs(x), vsel(veq(x, ZERO), ZERO * g, vcopysign(ONE, x) * g))                                                 \
    U(square, x * x, g * (x + x))                                                                                        \
    U(relu, vrelu(x), vsel(vgt(x, ZERO), g, ZERO))                                                                       \
    U(leaky_relu, vsel(vgt(x, ZERO), x, p * x), vsel(vgt(x, ZERO), g, p * g))                                            \
    U(relu6, CLAMP(x, ZERO, SIX), vsel(mand(vgt(x, ZERO), vlt(x, SIX)), g, ZERO))                                        \
    U(hardtanh, CLAMP(x, p, q), vsel(mand(vgt(x, p), vlt(x, q)), g, ZERO))                                               \
    U(hard_sigmoid, CLAMP(vfma(p, x, q), ZERO, ONE),                                                                     \
      vsel(mand(vgt(vfma(p, x, q), ZERO), vlt(vfma(p, x, q), ONE)), p * g, ZERO))                                        \
    U(hard_swish, vsel(vle(x, vneg(THREE)), ZERO, vsel(vge(x, THREE), x, x * (x + THREE) / SIX)),                        \
      vsel(vle(x, vneg(THREE)), ZERO, vsel(vge(x, THREE), g, g * (x / THREE + HALF))))                                   \
    U(softsign, vsel(veq(vabs(x), INFINITE), vcopysign(ONE, x), x / (ONE + vabs(x))),                                    \
      g / ((ONE + vabs(x)) * (ONE + vabs(x))))

#define HEAVY_LIST(U)                                                                                                    \
    U(exp, vexp(x), g * x)                                                                                               \
    U(expm1, vexpm1(x), g * vexp(x))                                                                                     \
    U(log, vlog(x), g / x)                                                                                               \
    U(log1p, vlog1p(x), g / (x + ONE))                                                                                   \
    U(erf, verf(x), g * TWO_OVER_SQRT_PI * vexp(vneg(x * x)))                                                            \
    U(elu, vsel(vgt(x, ZERO), x, p * vexpm1(x)), vsel(vgt(x, ZERO), g, g * p * vexp(x)))                                 \
    U(selu, SELU_SCALE * vsel(vgt(x, ZERO), x, SELU_ALPHA * vexpm1(x)),                                                  \
      g * SELU_SCALE * vsel(vgt(x, ZERO), ONE, SELU_ALPHA * vexp(x)))                                                    \
    U(celu, vsel(vgt(x, ZERO), x, p * vexpm1(x / p)), vsel(vgt(x, ZERO), g, g * vexp(x / p)))                            \
    U(sigmoid, vsigmoid(x), g * x * (ONE - x))                                                                           \
    U(log_sigmoid, vlogsigmoid(x), g * vsigmoid(vneg(x)))                                                                \
    U(tanh, vtanh(x), g * vfnma(x, x, ONE))                                                                              \
    U(gelu, vgelu(x), g * vgelu_slope(x))                                                                                \
    U(gelu_tanh, vgelu_tanh(x), g * FN(gelu_tanh_slope)(BOUNDED(x)))                                                     \
    U(silu, vsilu(x), g * FN(silu_slope)(BOUNDED(x)))                                                                    \
    U(mish, FN(mish)(x), g * FN(mish_slope)(BOUNDED(x)))                                                                 \
    U(softplus, vsoftplus(p * x) / p, g * vsigmoid(p * x))                                                               \
    U(tanhshrink, FN(tanhshrink)(x), g * vtanh(x) * vtanh(x))

#define UNARY_LIST(U) LIGHT_LIST(U) HEAVY_LIST(U)

#define PAIR_LIST(B)                                                                                                     \
    B(add, x + y, g, g)                                                                                                  \
    B(sub, x - y, g, vneg(g))                                                                                            \
    B(mul, x * y, g * y, g * x)                                                                                          \
    B(div, x / y, g / y, vneg(g * x / y / y))                                                                            \
    B(maximum, vmax(x, y), FN(share)(g, vgt(x, y), vlt(x, y)), FN(share)(g, vlt(x, y), vgt(x, y)))                       \
    B(minimum, vmin(x, y), FN(share)(g, vlt(x, y), vgt(x, y)), FN(share)(g, vgt(x, y), vlt(x, y)))

#define BINARY_LIST(B)                                                                                                   \
    PAIR_LIST(B)                                                                                                         \
    /* x: the half that passes, y: the half that gates */                                                               \
    B(glu, x * vsigmoid(y), g * vsigmoid(y), g * x * FN(sigmoid_slope)(y))                                                \
    /* y: the slope; the gradient to y is summed by the caller */                                                       \
    B(prelu, vsel(vgt(x, ZERO), x, y * x), vsel(vgt(x, ZERO), g, vsel(visnan(x), x, g * y)), vsel(vgt(x, ZERO), ZERO, g * x))

/* places in the lists, and names for Python */
#define U_INDEX(name, f, d) U_##name,
enum { LIGHT_LIST(U_INDEX) LIGHT_COUNT, BEFORE_HEAVY = LIGHT_COUNT - 1, HEAVY_LIST(U_INDEX) UNARY_COUNT };
#define B_INDEX(name, f, dx, dy) B_##name,
enum { BINARY_LIST(B_INDEX) BINARY_COUNT };
#define U_NAME(name, f, d) #name,
static const char *const UNARY_NAMES[] __attribute__((unused)) = {UNARY_LIST(U_NAME)};
#define B_NAME(name, f, dx, dy) #name,
static const char *const BINARY_NAMES[] __attribute__((unused)) = {BINARY_LIST(B_NAME)};

/* A pair of [m, n] and [n]: blocks of PAIR_TILE columns, and of rows where there are enough for their sums to be kept. */
enum {
    PAIR_TILE = 512,
    PAIR_CELLS = 32768,      /* that are worth a part of their own */
    PAIR_SUMS = 65536        /* most sums of parts that are kept */
};
typedef struct {
    ptrdiff_t m, n;
    ptrdiff_t tiles, parts, share;   /* tiles of columns; parts of `share` rows; a task is a tile of a part */
} PairRows;

FUNC PairRows pair_rows_cut(ptrdiff_t m, ptrdiff_t n)
{
    PairRows p = {m, n, (n + PAIR_TILE - 1) / PAIR_TILE, 1, m};
    ptrdiff_t rows = PAIR_CELLS / n + 1;
    if (2 * n <= PAIR_SUMS) {
        ptrdiff_t most = power_of_two(PAIR_SUMS / n);
        p.share = (m + most - 1) / most;
        p.share = ((p.share > rows ? p.share : rows) + 3) / 4 * 4;
        p.parts = (m + p.share - 1) / p.share;
    }
    return p;
}

#define REAL_BODY "elementwise_real.h"
#include "for_each_real.h"
#define REAL_BODY "elementwise_rows_real.h"
#include "for_each_real.h"
#endif
