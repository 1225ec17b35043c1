/* optim_real.h: one step of each optimizer on n cells of a parameter, for one scalar type. Included by optim.h only.
 *
 * p, and the state that belongs to it (NULL where there is none), are read and written in one pass; g is only read. An element's
 * new value depends on its own cells only, and the tail goes through the same vectors: the bits do not depend on its place.
 */

/* An optimizer's step is FN(name_cells)(s, p, g, a, b, c): vectors in, vectors out */
#define STEP_LOOP(name)                                                                                           \
    FUNC void FN(name)(const optim_step *s, real *p, const real *g, real *a, real *b, real *c, ptrdiff_t n)      \
    {                                                                                                             \
        for (ptrdiff_t i = 0; i < n; i += LANES) {                                                                \
            const ptrdiff_t m = n - i < LANES ? n - i : LANES;                                                    \
            vec vp = vload_n(p + i, m), va = vzero(), vb = vzero(), vc = vzero();                                 \
            if (a)                                                                                                \
                va = vload_n(a + i, m);                                                                           \
            if (b)                                                                                                \
                vb = vload_n(b + i, m);                                                                           \
            if (c)                                                                                                \
                vc = vload_n(c + i, m);                                                                           \
            vp = FN(name##_cells)(s, vp, vload_n(g + i, m), &va, &vb, &vc);                                       \
            vstore_n(p + i, vp, m);                                                                               \
            if (a)                                                                                                \
                vstore_n(a + i, va, m);                                                                           \
            if (b)                                                                                                \
                vstore_n(b + i, vb, m);                                                                           \
            if (c)                                                                                                \
                vstore_n(c + i, vc, m);                                                                           \
        }                                                                                                         \
    }

#define R(x) vset((real)(x))

/* a: the momentum. v = momentum v + (1 - dampening) g, p -= lr v, or lr (g + momentum v) by Nesterov; Sutskever et al. 2013 */
INLINE vec FN(sgd_cells)(const optim_step *s, vec p, vec g, vec *a, vec *b, vec *c)
{
    (void)b, (void)c;
    g = vfma(R(s->weight_decay), p, g);
    if (s->momentum != 0) {
        *a = s->first ? g : vfma(R(s->momentum), *a, R(1 - s->dampening) * g);
        g = s->nesterov ? vfma(R(s->momentum), *a, g) : *a;
    }
    return vfnma(R(s->lr), g, p);
}

/* a, b: the moments, c: the largest second moment (amsgrad). Kingma & Ba 2015; decoupled decay: Loshchilov & Hutter 2019 */
INLINE vec FN(adam_cells)(const optim_step *s, vec p, vec g, vec *a, vec *b, vec *c)
{
    if (s->decoupled)
        p = p * R(1 - s->lr * s->weight_decay);
    else
        g = vfma(R(s->weight_decay), p, g);
    *a = vfma(R(1 - s->beta1), g - *a, *a);
    *b = vfma(R(1 - s->beta2) * g, g, R(s->beta2) * *b);
    vec second = *b;
    if (s->amsgrad)
        second = *c = vmax(*c, *b);
    return vfnma(R(s->lr / s->correction1), *a / vfma(vsqrt(second), R(1 / s->root_correction2), R(s->epsilon)), p);
}

/* a: the mean square, b: the momentum, c: the mean (centered). Hinton 2012, lecture 6e; centered: Graves 2013 */
INLINE vec FN(rmsprop_cells)(const optim_step *s, vec p, vec g, vec *a, vec *b, vec *c)
{
    g = vfma(R(s->weight_decay), p, g);
    *a = vfma(R(1 - s->beta2) * g, g, R(s->beta2) * *a);
    vec square = *a;
    if (s->centered) {
        *c = vfma(R(1 - s->beta2), g - *c, *c);
        square = vfnma(*c, *c, square);
    }
    g = g / (vsqrt(square) + R(s->epsilon));
    if (s->momentum != 0)
        g = *b = vfma(R(s->momentum), *b, g);
    return vfnma(R(s->lr), g, p);
}

/* sum of squares, in double, by eight lanes that are added in order */
FUNC double FN(square_sum)(const real *x, ptrdiff_t n)
{
    double lane[8] = {0}, sum = 0;
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            lane[k] += (double)x[i + k] * (double)x[i + k];
    for (int k = 0; k < 8; k++)
        sum += lane[k];
    for (; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

STEP_LOOP(sgd)
STEP_LOOP(adam)
STEP_LOOP(rmsprop)
#undef STEP_LOOP
#undef R
