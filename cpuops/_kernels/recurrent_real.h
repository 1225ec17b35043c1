/* recurrent_real.h: the body of recurrent.h (read its head) for one scalar type. */

/* ---- the product of a step ---- */

FUNC void FN(recurrent_plan)(recurrent_job *j, int num_threads)
{
    const ptrdiff_t line = 64 / (ptrdiff_t)sizeof(real), gates = j->kind == RECURRENT_LSTM ? 4 : 3, threads = num_threads > 1 ? num_threads : 1;
    j->from = j->backward ? gates * j->n : j->n;
    j->to = j->backward ? j->n : gates * j->n;
    j->kc = FN(gemm_kc)(j->from);
    j->chunks = FN(gemm_ceil)(j->from, j->kc);
    j->panels = FN(gemm_ceil)(j->to, GEMM_NR);
    j->stride = j->kc * GEMM_NR + line; /* a packer may write a vector beyond */
    /* rows that lie a multiple of 2 KB apart would fall on one set of the L1 */
    j->ld = FN(gemm_ceil)(j->from, line) * line;
    while (j->ld * (ptrdiff_t)sizeof(real) % 2048 < 64 || j->ld * (ptrdiff_t)sizeof(real) % 2048 > 2048 - 64)
        j->ld += line;
    j->wide = j->backward ? 0 : FN(gemm_ceil)(j->to, line) * line; /* backwards the product goes to h_grad */
    j->rows = FN(gemm_min)(FN(gemm_ceil)(j->batch, threads), RECURRENT_ROWS);
    j->slots = j->batch ? FN(gemm_min)(threads, FN(gemm_ceil)(j->batch, j->rows)) : 0;
    j->scratch_bytes = (size_t)(j->chunks * j->panels * j->stride + j->slots * j->rows * (j->ld + j->wide)) * sizeof(real);
}

INLINE real *FN(recurrent_panel)(const recurrent_job *j, ptrdiff_t chunk, ptrdiff_t panel)
{
    return (real *)j->scratch + (chunk * j->panels + panel) * j->stride;
}

/* packs w, backwards its transpose */
FUNC void FN(recurrent_pack)(const recurrent_job *j)
{
    const ptrdiff_t rs = j->backward ? j->from : 1, ks = j->backward ? 1 : j->to;
    for (ptrdiff_t chunk = 0; chunk < j->chunks; chunk++) {
        const ptrdiff_t k0 = chunk * j->kc, nk = FN(gemm_min)(j->kc, j->from - k0);
        for (ptrdiff_t q = 0; q < j->panels; q++) {
            const ptrdiff_t i0 = q * GEMM_NR, ni = FN(gemm_min)(GEMM_NR, j->to - i0);
            FN(gemm_pack_run)((const real *)j->w + i0 * rs + k0 * ks, rs, ks, ni, nk, FN(recurrent_panel)(j, chunk, q), GEMM_NR);
        }
    }
}

/* c[rows, to] = a[rows, from] w, or c + a w */
FUNC void FN(recurrent_product)(const recurrent_job *j, ptrdiff_t rows, const real *a, real *c, ptrdiff_t ldc, int add)
{
    const ptrdiff_t tall = FN(gemm_ceil)(rows, FN(gemm_ceil)(rows, GEMM_MR));
    for (ptrdiff_t chunk = 0; chunk < j->chunks; chunk++) {
        const ptrdiff_t k0 = chunk * j->kc, nk = FN(gemm_min)(j->kc, j->from - k0);
        for (ptrdiff_t q = 0; q < j->panels; q++) {
            const ptrdiff_t j0 = q * GEMM_NR, nj = FN(gemm_min)(GEMM_NR, j->to - j0);
            for (ptrdiff_t i = 0; i < rows; i += tall)
                FN(gemm_piece)(FN(gemm_min)(tall, rows - i), nj, nk, a + i * j->ld + k0, j->ld, 1, FN(recurrent_panel)(j, chunk, q),
                               GEMM_NR, c + i * ldc + j0, ldc, add || chunk > 0, NULL, NULL);
        }
    }
}

/* ---- one row of one step: x are its gates' sums, h its state, overwritten ---- */

#define AT(p, k) vload_n((p) + (k) * n + i, m)
#define PUT(p, k, v) vstore_n((p) + (k) * n + i, v, m)
#define EACH for (ptrdiff_t i = 0, m = n < LANES ? n : LANES; i < n; i += LANES, m = n - i < LANES ? n - i : LANES)

FUNC void FN(lstm_cell)(ptrdiff_t n, const real *p, const real *x, const real *before, real *c, real *h, real *out, real *gates, real *bent)
{
    EACH {
        const vec in = vsigmoid(AT(x, 0) + AT(p, 0)), forget = vsigmoid(AT(x, 1) + AT(p, 1));
        const vec new = vtanh(AT(x, 2) + AT(p, 2)), show = vsigmoid(AT(x, 3) + AT(p, 3));
        const vec cell = vfma(forget, AT(before, 0), in * new), tc = vtanh(cell), state = show * tc;
        PUT(c, 0, cell);
        PUT(h, 0, state);
        PUT(out, 0, state);
        if (gates) {
            PUT(gates, 0, in);
            PUT(gates, 1, forget);
            PUT(gates, 2, new);
            PUT(gates, 3, show);
            PUT(bent, 0, tc);
        }
    }
}

/* h holds what came from the step after, c the gradient to this step's cells, and then to those before it */
FUNC void FN(lstm_cell_backward)(ptrdiff_t n, const real *g, const real *gates, const real *before, const real *bent, const real *h, real *c,
                                 real *p_grad, real *factor)
{
    const vec one = vset(1);
    EACH {
        const vec in = AT(gates, 0), forget = AT(gates, 1), new = AT(gates, 2), show = AT(gates, 3), tc = AT(bent, 0);
        const vec hg = AT(h, 0) + AT(g, 0), cg = vfma(hg * show, vfnma(tc, tc, one), AT(c, 0));
        const vec sums[4] = {cg * new * (in * (one - in)), cg * AT(before, 0) * (forget * (one - forget)),
                             cg * in * vfnma(new, new, one), hg * tc * (show * (one - show))};
        PUT(c, 0, cg * forget);
        for (int k = 0; k < 4; k++) {
            PUT(p_grad, k, sums[k]);
            PUT(factor, k, sums[k]);
        }
    }
}

FUNC void FN(gru_cell)(ptrdiff_t n, const real *p, const real *x, const real *bias, real *h, real *out, real *gates, real *news, real *asked)
{
    EACH {
        const vec reset = vsigmoid(AT(p, 0) + (AT(x, 0) + AT(bias, 0))), keep = vsigmoid(AT(p, 1) + (AT(x, 1) + AT(bias, 1)));
        const vec q = AT(x, 2) + AT(bias, 2), new = vtanh(vfma(reset, q, AT(p, 2))), state = vfma(keep, AT(h, 0) - new, new);
        PUT(h, 0, state);
        PUT(out, 0, state);
        if (gates) {
            PUT(gates, 0, reset);
            PUT(gates, 1, keep);
            PUT(news, 0, new);
            PUT(asked, 0, q);
        }
    }
}

/* h holds the gradient to the state that the step made, and then the part of that to the state before which needs no product */
FUNC void FN(gru_cell_backward)(ptrdiff_t n, const real *g, const real *gates, const real *news, const real *asked, const real *before,
                                real *h, real *p_grad, real *q_grad, real *factor)
{
    const vec one = vset(1);
    EACH {
        const vec reset = AT(gates, 0), keep = AT(gates, 1), new = AT(news, 0);
        const vec hg = AT(h, 0) + AT(g, 0), ng = hg * (one - keep) * vfnma(new, new, one);
        const vec rg = ng * AT(asked, 0) * (reset * (one - reset)), kg = hg * (AT(before, 0) - new) * (keep * (one - keep));
        const vec sums[3] = {rg, kg, ng * reset};
        PUT(h, 0, hg * keep);
        PUT(p_grad, 0, rg);
        PUT(p_grad, 1, kg);
        PUT(p_grad, 2, ng);
        for (int k = 0; k < 3; k++) {
            PUT(q_grad, k, sums[k]);
            PUT(factor, k, sums[k]);
        }
    }
}

#undef AT
#undef PUT
#undef EACH

/* ---- some rows through all steps ---- */

INLINE void FN(copy_rows)(real *to, ptrdiff_t ld, const real *from, ptrdiff_t n, ptrdiff_t rows)
{
    for (ptrdiff_t r = 0; r < rows; r++)
        memcpy(to + r * ld, from + r * n, (size_t)n * sizeof(real));
}

/* rows [r0, r0 + rows); `h` [rows, ld] and `x` [rows, wide] are the task's own */
FUNC void FN(recurrent_forward)(const recurrent_job *j, ptrdiff_t r0, ptrdiff_t rows, real *h, real *x)
{
    const ptrdiff_t n = j->n, step = j->batch * n, gates = j->to / n, kept = j->gates ? step : 0;
    FN(copy_rows)(h, j->ld, (const real *)j->h0 + r0 * n, n, rows);
    if (j->kind == RECURRENT_LSTM)
        FN(copy_rows)((real *)j->cells + r0 * n, n, (const real *)j->c0 + r0 * n, n, rows);
    for (ptrdiff_t t = 0; t < j->length; t++) {
        FN(recurrent_product)(j, rows, h, x, j->wide, 0);
        for (ptrdiff_t r = 0; r < rows; r++) {
            const ptrdiff_t row = (r0 + r) * n, at = t * step + row;
            const real *p = (const real *)j->projected + at * gates;
            real *out = (real *)j->out + at;
            if (j->kind == RECURRENT_LSTM) {
                real *before = (real *)j->cells + t * kept + row;
                FN(lstm_cell)(n, p, x + r * j->wide, before, before + kept, h + r * j->ld, out, kept ? (real *)j->gates + at * 4 : NULL,
                              kept ? (real *)j->bent + at : NULL);
            } else {
                FN(gru_cell)(n, p, x + r * j->wide, (const real *)j->bias, h + r * j->ld, out, kept ? (real *)j->gates + at * 2 : NULL,
                             kept ? (real *)j->news + at : NULL, kept ? (real *)j->asked + at : NULL);
            }
        }
    }
}

/* `factor` [rows, ld]: the gradients that a step multiplies by the transpose of w */
FUNC void FN(recurrent_backward)(const recurrent_job *j, ptrdiff_t r0, ptrdiff_t rows, real *factor)
{
    const ptrdiff_t n = j->n, step = j->batch * n, gates = j->from / n;
    real *h = (real *)j->h_grad + r0 * n, *c = (real *)j->c_grad + (j->c_grad ? r0 * n : 0);
    memset(h, 0, (size_t)(rows * n) * sizeof(real));
    for (ptrdiff_t t = j->length - 1; t >= 0; t--) {
        for (ptrdiff_t r = 0; r < rows; r++) {
            const ptrdiff_t row = (r0 + r) * n, at = t * step + row;
            const real *g = (const real *)j->output_grad + at;
            real *p_grad = (real *)j->p_grad + at * gates;
            if (j->kind == RECURRENT_LSTM) {
                FN(lstm_cell_backward)(n, g, (const real *)j->gates + at * 4, (const real *)j->cells + at, (const real *)j->bent + at,
                                       h + r * n, c + r * n, p_grad, factor + r * j->ld);
            } else {
                const real *before = t ? (const real *)j->out + at - step : (const real *)j->h0 + row;
                FN(gru_cell_backward)(n, g, (const real *)j->gates + at * 2, (const real *)j->news + at, (const real *)j->asked + at, before,
                                      h + r * n, p_grad, (real *)j->q_grad + at * gates, factor + r * j->ld);
            }
        }
        FN(recurrent_product)(j, rows, factor, h, n, j->kind == RECURRENT_GRU);
    }
}

/* the tasks of worker `slot` */
FUNC void FN(recurrent_work)(const recurrent_job *j, ptrdiff_t slot)
{
    real *own = FN(recurrent_panel)(j, j->chunks, 0) + slot * j->rows * (j->ld + j->wide);
    for (ptrdiff_t r0 = slot * j->rows; r0 < j->batch; r0 += j->slots * j->rows) {
        const ptrdiff_t rows = FN(gemm_min)(j->rows, j->batch - r0);
        if (j->backward)
            FN(recurrent_backward)(j, r0, rows, own);
        else
            FN(recurrent_forward)(j, r0, rows, own, own + j->rows * j->ld);
    }
}
