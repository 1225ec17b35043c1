/* deform_depthwise_real.h: the products of deformable convolution with one input channel a weight group. See deform.h.
 *
 * Channels stay in lanes: a block has many weight groups, packed weights are [tap][output of a group][channel], and nothing is
 * summed across lanes. */

FUNC void FN(deform_pack_depthwise)(const deform_call *c, ptrdiff_t block)
{
    const ptrdiff_t taps = deform_taps(c), outputs = deform_outputs(c), first = c->starts[block];
    const ptrdiff_t n = c->starts[block + 1] - first, padded = deform_whole(n, LANES);
    const real *w = (const real *)c->weight + first * outputs * taps;
    real *to = (real *)c->shared + (block - c->first) * c->packed_stride;
    for (ptrdiff_t tap = 0; tap < taps; tap++)
        for (ptrdiff_t m = 0; m < outputs; m++)
            for (ptrdiff_t k = 0; k < padded; k++)
                *to++ = k < n ? w[(k * outputs + m) * taps + tap] : 0;
}

INLINE const real *FN(deform_depthwise_weights)(const FN(deform_state) *s, ptrdiff_t tap)
{
    const deform_call *c = s->call;
    return (const real *)c->shared + (s->block - c->first) * c->packed_stride + tap * deform_outputs(c) * s->padded;
}

/* out of the columns of taps [low, high) at the positions at hand */
FUNC void FN(deform_product_depthwise)(FN(deform_state) *s, ptrdiff_t low, ptrdiff_t high)
{
    const deform_call *c = s->call;
    const ptrdiff_t outputs = deform_outputs(c), positions = deform_positions(c), step = outputs * s->padded;
    const real *weights = FN(deform_depthwise_weights)(s, low);
    for (ptrdiff_t p = 0; p < s->count; p++)
        for (ptrdiff_t m = 0; m < outputs; m++)
            for (ptrdiff_t k = 0; k < s->padded; k += LANES) {
                const real *column = s->column + p * c->ld + k, *w = weights + m * s->padded + k;
                vec sum = vzero();
                for (ptrdiff_t tap = low; tap < high; tap++, column += s->n, w += step)
                    sum = vfma(vload(w), vload(column), sum);
                vstore(s->sum + p * c->sum_ld + m * s->padded + k, sum);
            }
    real tile[LANES * LANES] __attribute__((aligned(64)));
    for (ptrdiff_t m = 0; m < outputs; m++)
        for (ptrdiff_t k = 0; k < s->n; k += LANES)
            for (ptrdiff_t p = 0; p < s->count; p += LANES) {
                const ptrdiff_t n = deform_min(LANES, s->count - p), channels = deform_min(LANES, s->n - k);
                FN(transpose_tile)(s->sum + p * c->sum_ld + m * s->padded + k, c->sum_ld, n, channels, tile, LANES);
                for (ptrdiff_t i = 0; i < channels; i++) {
                    const ptrdiff_t channel = (s->first + k + i) * outputs + m;
                    real *to = (real *)c->out + (s->item * c->outputs + channel) * positions + s->start + p;
                    vec v = vload(tile + i * LANES);
                    if (low > 0)
                        v = vload_n(to, n) + v;
                    else if (c->bias)
                        v = v + vset(((const real *)c->bias)[channel]);
                    vstore_n(to, v, n);
                }
            }
}

/* the gradient of the output at the positions at hand, to s->sum: [output of a group][position][channel] */
FUNC void FN(deform_load_grad_depthwise)(FN(deform_state) *s)
{
    const deform_call *c = s->call;
    const ptrdiff_t outputs = deform_outputs(c), positions = deform_positions(c);
    const real *g = (const real *)c->grad + (s->item * c->outputs + s->first * outputs) * positions + s->start;
    for (ptrdiff_t m = 0; m < outputs; m++)
        for (ptrdiff_t p = 0; p < s->count; p += LANES)
            for (ptrdiff_t k = 0; k < s->n; k += LANES)
                FN(transpose_tile)(g + (k * outputs + m) * positions + p, outputs * positions, s->n - k, s->count - p,
                                   s->sum + (m * DEFORM_ROWS + p) * s->padded + k, s->padded);
}

/* the gradient of the columns of taps [low, high). What a tap writes beyond its channels, the next one overwrites */
FUNC void FN(deform_column_grad_depthwise)(FN(deform_state) *s, ptrdiff_t low, ptrdiff_t high)
{
    const deform_call *c = s->call;
    const ptrdiff_t outputs = deform_outputs(c), padded = s->padded;
    FN(deform_load_grad_depthwise)(s);
    for (ptrdiff_t p = 0; p < s->count; p++) {
        const real *w = FN(deform_depthwise_weights)(s, low);
        real *column = s->column + p * c->ld;
        for (ptrdiff_t tap = low; tap < high; tap++, column += s->n, w += outputs * padded)
            for (ptrdiff_t k = 0; k < padded; k += LANES) {
                vec sum = vzero();
                for (ptrdiff_t m = 0; m < outputs; m++)
                    sum = vfma(vload(w + m * padded + k), vload(s->sum + (m * DEFORM_ROWS + p) * padded + k), sum);
                vstore(column + k, sum);
            }
    }
}

/* partial sums [tap][output of a group][channel] of the weight gradient += those of the positions at hand */
FUNC void FN(deform_weight_depthwise)(FN(deform_state) *s, ptrdiff_t taps, real *partial)
{
    const deform_call *c = s->call;
    const ptrdiff_t outputs = deform_outputs(c);
    FN(deform_load_grad_depthwise)(s);
    for (ptrdiff_t tap = 0; tap < taps; tap++)
        for (ptrdiff_t m = 0; m < outputs; m++)
            for (ptrdiff_t k = 0; k < s->padded; k += LANES, partial += LANES) {
                const real *column = s->column + tap * s->n + k, *g = s->sum + m * DEFORM_ROWS * s->padded + k;
                vec sum = vzero();
                for (ptrdiff_t p = 0; p < s->count; p++, column += c->ld, g += s->padded)
                    sum = vfma(vload(g), vload(column), sum);
                vstore(partial, vload(partial) + sum);
            }
}

/* weight_grad of taps [tap, tap + taps): its pieces in order */
FUNC void FN(deform_sum_depthwise)(const deform_call *c, const real *partial, ptrdiff_t apart, ptrdiff_t block, ptrdiff_t tap,
                                   ptrdiff_t taps)
{
    const ptrdiff_t outputs = deform_outputs(c), first = c->starts[block];
    const ptrdiff_t n = c->starts[block + 1] - first, padded = deform_whole(n, LANES);
    real *out = (real *)c->weight_grad + first * outputs * deform_taps(c) + tap;
    for (ptrdiff_t t = 0; t < taps; t++)
        for (ptrdiff_t m = 0; m < outputs; m++, partial += padded)
            for (ptrdiff_t k = 0; k < n; k++) {
                real sum = partial[k];
                for (ptrdiff_t piece = 1; piece < c->pieces; piece++)
                    sum += partial[piece * apart + k];
                out[(k * outputs + m) * deform_taps(c) + t] = sum;
            }
}
