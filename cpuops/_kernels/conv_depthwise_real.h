/* conv_depthwise_real.h: the body of conv_depthwise.h for one scalar type. */

/* nv vectors of groups at one position: bias + sum over the taps that meet the input */
INLINE void FN(conv_depthwise_cell)(const int nv, ptrdiff_t lanes, const real *const *in, const real *const *w, ptrdiff_t taps,
                                    const real *bias, ptrdiff_t g, real *out)
{
    vec s[4];
    for (int v = 0; v < nv; v++)
        s[v] = bias ? vload_n(bias + g + v * LANES, lanes) : vzero();
    for (ptrdiff_t t = 0; t < taps; t++)
        for (int v = 0; v < nv; v++)
            s[v] = lanes == LANES ? vfma(vload(w[t] + g + v * LANES), vload(in[t] + g + v * LANES), s[v])
                                  : vfma(vload_n(w[t] + g, lanes), vload_n(in[t] + g, lanes), s[v]);
    for (int v = 0; v < nv; v++)
        vstore_n(out + g + v * LANES, s[v], lanes);
}

/* one output row of one image */
FUNC void FN(conv_depthwise_row)(const conv_depthwise *d, ptrdiff_t unit)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t y = conv_split(&unit, j->out[1]), z = conv_split(&unit, j->out[0]), b = unit, groups = j->groups;
    const real *in = (const real *)d->call.in + b * j->in_batch;
    const real *w = (const real *)d->call.w, *bias = (const real *)d->call.bias;
    real *out = (real *)d->call.out + b * j->out_batch + z * j->out_axis[0] + y * j->out_axis[1];
    const real *cell[CONV_DEPTHWISE_TAPS], *weight[CONV_DEPTHWISE_TAPS];
    for (ptrdiff_t x = 0; x < j->out[2]; x++, out += j->out_axis[2]) {
        ptrdiff_t taps = 0;
        for (ptrdiff_t t = 0; t < j->kernel[0]; t++) {
            const ptrdiff_t iz = z * j->step[0] + t * j->dil[0] + j->off[0];
            for (ptrdiff_t u = 0; u < j->kernel[1] && iz >= 0 && iz < j->in[0]; u++) {
                const ptrdiff_t iy = y * j->step[1] + u * j->dil[1] + j->off[1];
                for (ptrdiff_t v = 0; v < j->kernel[2] && iy >= 0 && iy < j->in[1]; v++) {
                    const ptrdiff_t ix = x * j->step[2] + v * j->dil[2] + j->off[2];
                    if (ix < 0 || ix >= j->in[2])
                        continue;
                    cell[taps] = in + iz * j->in_axis[0] + iy * j->in_axis[1] + ix * j->in_axis[2];
                    weight[taps++] = w + t * j->w_axis[0] + u * j->w_axis[1] + v * j->w_axis[2];
                }
            }
        }
        ptrdiff_t g = 0;
        for (; g + 4 * LANES <= groups; g += 4 * LANES)
            FN(conv_depthwise_cell)(4, LANES, cell, weight, taps, bias, g, out);
        for (; g < groups; g += LANES)
            FN(conv_depthwise_cell)(1, conv_min(LANES, groups - g), cell, weight, taps, bias, g, out);
    }
}

/* sum[g] += products of n gradients and cells of nv vectors of groups */
INLINE void FN(conv_depthwise_dot)(const int nv, ptrdiff_t lanes, const real *grad, ptrdiff_t grad_step, const real *in,
                                   ptrdiff_t in_step, ptrdiff_t n, double *sum)
{
    vec s[4] = {vzero(), vzero(), vzero(), vzero()};
    real t[LANES];
    for (ptrdiff_t x = 0; x < n; x++, grad += grad_step, in += in_step)
        for (int v = 0; v < nv; v++)
            s[v] = lanes == LANES ? vfma(vload(grad + v * LANES), vload(in + v * LANES), s[v])
                                  : vfma(vload_n(grad, lanes), vload_n(in, lanes), s[v]);
    for (int v = 0; v < nv; v++) {
        vstore(t, s[v]);
        for (ptrdiff_t l = 0; l < lanes; l++)
            sum[v * LANES + l] += (double)t[l];
    }
}

/* the weight gradient over one piece of the output rows of all images */
FUNC void FN(conv_depthwise_piece)(const conv_depthwise *d, ptrdiff_t piece)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t groups = j->groups, taps = conv_taps(j), gs = j->out_axis[2], is = j->step[2] * j->in_axis[2];
    double *sum = d->partial + piece * taps * groups;
    memset(sum, 0, (size_t)(taps * groups) * sizeof(double));
    for (ptrdiff_t row = conv_part(d->rows, d->pieces, piece); row < conv_part(d->rows, d->pieces, piece + 1); row++) {
        ptrdiff_t b = row;
        const ptrdiff_t y = conv_split(&b, j->out[1]), z = conv_split(&b, j->out[0]);
        for (ptrdiff_t t = 0; t < taps; t++) {
            ptrdiff_t rest = t, first, last;
            const ptrdiff_t ix = conv_split(&rest, j->kernel[2]) * j->dil[2] + j->off[2];
            const ptrdiff_t iy = y * j->step[1] + conv_split(&rest, j->kernel[1]) * j->dil[1] + j->off[1];
            const ptrdiff_t iz = z * j->step[0] + rest * j->dil[0] + j->off[0];
            conv_inside(ix, j->step[2], j->in[2], j->out[2], &first, &last);
            if (iz < 0 || iz >= j->in[0] || iy < 0 || iy >= j->in[1] || last < first)
                continue;
            const real *in = (const real *)d->call.in + b * j->in_batch + iz * j->in_axis[0] + iy * j->in_axis[1] +
                             (ix + first * j->step[2]) * j->in_axis[2];
            const real *grad = (const real *)d->call.w + b * j->out_batch + z * j->out_axis[0] + y * j->out_axis[1];
            grad += first * gs;
            double *to = sum + t * groups;
            ptrdiff_t g = 0;
            for (; g + 4 * LANES <= groups; g += 4 * LANES)
                FN(conv_depthwise_dot)(4, LANES, grad + g, gs, in + g, is, last - first + 1, to + g);
            for (; g < groups; g += LANES)
                FN(conv_depthwise_dot)(1, conv_min(LANES, groups - g), grad + g, gs, in + g, is, last - first + 1, to + g);
        }
    }
}

/* the pieces of tap t, in order */
FUNC void FN(conv_depthwise_sum)(const conv_depthwise *d, ptrdiff_t t)
{
    const conv_job *j = d->call.job;
    ptrdiff_t rest = t;
    real *out = (real *)d->call.out;
    out += conv_split(&rest, j->kernel[2]) * j->w_axis[2];
    out += conv_split(&rest, j->kernel[1]) * j->w_axis[1];
    out += rest * j->w_axis[0];
    for (ptrdiff_t g = 0; g < j->groups; g++) {
        double sum = 0;
        for (ptrdiff_t piece = 0; piece < d->pieces; piece++)
            sum += d->partial[(piece * conv_taps(j) + t) * j->groups + g];
        out[g * j->w_group] = (real)sum;
    }
}
