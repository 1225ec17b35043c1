/* activate_real.h: the body of activate.h for one scalar type. */

/* y = the activation of x [rows, cols], rows ld apart; y may be x */
FUNC void FN(activate)(int activation, const real *x, real *y, ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t ld)
{
    if (cols == ld)
        cols *= rows, rows = 1;
#define EACH(f)                                                       \
    for (ptrdiff_t i = 0; i < rows; i++)                              \
        for (ptrdiff_t j = 0; j < cols; j += LANES) {                 \
            const ptrdiff_t n = cols - j, at = i * ld + j;            \
            if (n >= LANES) {                                         \
                vec v = vload(x + at);                                \
                vstore(y + at, f);                                    \
            } else {                                                  \
                vec v = vload_n(x + at, n);                           \
                vstore_n(y + at, f, n);                               \
            }                                                         \
        }                                                             \
    break;
    switch (activation) {
    case ACTIVATION_RELU:
        EACH(vrelu(v))
    case ACTIVATION_GELU:
        EACH(vgelu(v))
    case ACTIVATION_GELU_TANH:
        EACH(vgelu_tanh(v))
    case ACTIVATION_SILU:
        EACH(vsilu(v))
    }
#undef EACH
}
