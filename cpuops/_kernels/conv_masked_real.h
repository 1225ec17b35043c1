/* conv_masked_real.h: the body of conv_masked.h for one scalar type. */

/* out[b, g, m, every position] of one (b, g, m) */
FUNC void FN(conv_masked)(const conv_call *call, ptrdiff_t unit)
{
    const conv_job *j = call->job;
    const real *in = (const real *)call->in, *w = (const real *)call->w, *bias = (const real *)call->bias;
    real *out = (real *)call->out;
    const ptrdiff_t m = unit % j->outputs, g = unit / j->outputs % j->groups, b = unit / j->outputs / j->groups;
    in += b * j->in_batch + g * j->in_group;
    w += g * j->w_group + m * j->w_output;
    out += b * j->out_batch + g * j->out_group + m * j->out_channel;
    for (ptrdiff_t z = 0; z < j->out[0]; z++)
        for (ptrdiff_t y = 0; y < j->out[1]; y++) {
            real *row = out + z * j->out_axis[0] + y * j->out_axis[1];
            for (ptrdiff_t x = 0; x < j->out[2]; x++) {
                real sum = 0;
                for (ptrdiff_t c = 0; c < j->channels; c++)
                    for (ptrdiff_t t = 0; t < j->kernel[0]; t++)
                        for (ptrdiff_t u = 0; u < j->kernel[1]; u++)
                            for (ptrdiff_t v = 0; v < j->kernel[2]; v++) {
                                const ptrdiff_t iz = z * j->step[0] + t * j->dil[0] + j->off[0];
                                const ptrdiff_t iy = y * j->step[1] + u * j->dil[1] + j->off[1];
                                const ptrdiff_t ix = x * j->step[2] + v * j->dil[2] + j->off[2];
                                if (iz < 0 || iz >= j->in[0] || iy < 0 || iy >= j->in[1] || ix < 0 || ix >= j->in[2])
                                    continue;
                                sum += w[c * j->w_channel + t * j->w_axis[0] + u * j->w_axis[1] + v * j->w_axis[2]] *
                                       in[c * j->in_channel + iz * j->in_axis[0] + iy * j->in_axis[1] + ix * j->in_axis[2]];
                            }
                row[x * j->out_axis[2]] = bias ? sum + bias[g * j->outputs + m] : sum;
                FN(conv_finish)(call, row + x * j->out_axis[2], 1, 1);
            }
        }
}

/* the weight gradient of one (g, m): entries that are not finite are computed again, without padding and gaps */
FUNC void FN(conv_masked_weight)(const conv_call *call, ptrdiff_t unit)
{
    const conv_job *j = call->job;
    const real *in = (const real *)call->in, *grad = (const real *)call->w;
    real *w = (real *)call->out;
    const ptrdiff_t m = unit % j->outputs, g = unit / j->outputs;
    in += g * j->in_group;
    grad += g * j->out_group + m * j->out_channel;
    w += g * j->w_group + m * j->w_output;
    for (ptrdiff_t c = 0; c < j->channels; c++)
        for (ptrdiff_t t = 0; t < j->kernel[0]; t++)
            for (ptrdiff_t u = 0; u < j->kernel[1]; u++)
                for (ptrdiff_t v = 0; v < j->kernel[2]; v++) {
                    real *to = w + c * j->w_channel + t * j->w_axis[0] + u * j->w_axis[1] + v * j->w_axis[2];
                    if (*to - *to == 0)
                        continue;
                    ptrdiff_t z0, z1, y0, y1, x0, x1;
                    conv_inside(t * j->dil[0] + j->off[0], j->step[0], j->in[0], j->out[0], &z0, &z1);
                    conv_inside(u * j->dil[1] + j->off[1], j->step[1], j->in[1], j->out[1], &y0, &y1);
                    conv_inside(v * j->dil[2] + j->off[2], j->step[2], j->in[2], j->out[2], &x0, &x1);
                    real sum = 0;
                    for (ptrdiff_t b = 0; b < j->batch; b++)
                        for (ptrdiff_t z = z0; z <= z1; z++)
                            for (ptrdiff_t y = y0; y <= y1; y++) {
                                const real *a = in + b * j->in_batch + c * j->in_channel +
                                                (z * j->step[0] + t * j->dil[0] + j->off[0]) * j->in_axis[0] +
                                                (y * j->step[1] + u * j->dil[1] + j->off[1]) * j->in_axis[1] +
                                                (v * j->dil[2] + j->off[2]) * j->in_axis[2];
                                const real *o = grad + b * j->out_batch + z * j->out_axis[0] + y * j->out_axis[1];
                                for (ptrdiff_t x = x0; x <= x1; x++)
                                    sum += o[x * j->out_axis[2]] * a[x * j->step[2] * j->in_axis[2]];
                            }
                    *to = sum;
                }
}
