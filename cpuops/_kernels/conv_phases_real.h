/* conv_phases_real.h: the body of conv_phases.h for one scalar type. */

/* a panel of h channels of x, from m0 on, of the phases' weights where the taps of a channel lie side by side: those of a few
 * channels are transposed at a time, and go to their phases */
INLINE void FN(conv_phases_transpose)(const conv_phases_call *d, ptrdiff_t g, ptrdiff_t m0, ptrdiff_t h)
{
    enum { WIDTH = (GEMM_MR + LANES - 1) / LANES * LANES, SOON = 4 };
    const conv_job *f = d->direct.call.job;
    const ptrdiff_t taps = conv_taps(f);
    const real *w = (const real *)d->direct.call.w + g * f->w_group + m0 * f->w_channel;
    real tile[LANES * WIDTH] __attribute__((aligned(64))), *to[CONV_PHASES_TAPS];
    ptrdiff_t step[CONV_PHASES_TAPS];
    for (const conv_one_phase *p = d->phase; p < d->phase + d->phases; p++) {
        const conv_job *j = &p->job;
        real *row = (real *)d->direct.packed + p->packed + (g * f->channels + m0) * conv_terms(j);
        for (ptrdiff_t z = 0; z < j->kernel[0]; z++)
            for (ptrdiff_t y = 0; y < j->kernel[1]; y++)
                for (ptrdiff_t x = 0; x < j->kernel[2]; x++, row += h) {
                    const ptrdiff_t tap = p->w_start + z * j->w_axis[0] + y * j->w_axis[1] + x * j->w_axis[2];
                    to[tap] = row, step[tap] = conv_taps(j) * h;
                }
    }
    for (ptrdiff_t c = 0; c < f->outputs; c++, w += f->w_output) {
        for (ptrdiff_t i = 0; c + SOON < f->outputs && i < h * taps; i += 64 / (ptrdiff_t)sizeof(real))
            __builtin_prefetch(w + SOON * f->w_output + i);
        for (ptrdiff_t t = 0; t < taps; t += LANES) {
            const ptrdiff_t n = conv_min(LANES, taps - t);
            for (ptrdiff_t m = 0; m < h; m += LANES)
                FN(transpose_tile)(w + m * taps + t, taps, h - m, n, tile + m, WIDTH);
            for (ptrdiff_t k = 0; k < n; k++) {
                FN(conv_copy)(to[t + k], tile + k * WIDTH, h);
                to[t + k] += step[t + k];
            }
        }
    }
}

/* task i: one panel of weights of all phases; panels and groups one after the other */
FUNC void FN(conv_phases_pack)(conv_phases_call *d, ptrdiff_t i)
{
    conv_direct *t = &d->direct;
    const conv_job *f = t->call.job;
    const ptrdiff_t panel = conv_split(&i, t->panels), g = i, taps = conv_taps(f);
    const ptrdiff_t m0 = conv_part(f->channels, t->panels, panel), h = conv_part(f->channels, t->panels, panel + 1) - m0;
    /* every tap has a phase, unless a phase has no cell */
    const int side_by_side = conv_dense(f->kernel, f->w_axis, 1) && f->w_channel == taps && d->taps == taps;
    if (side_by_side)
        FN(conv_phases_transpose)(d, g, m0, h);
    for (ptrdiff_t q = 0; q < d->phases; q++) {
        const conv_one_phase *p = d->phase + q;
        const real *w = (const real *)t->call.w + p->w_start + g * f->w_group + m0 * f->w_channel;
        real *packed = (real *)t->packed + p->packed + (g * f->channels + m0) * conv_terms(&p->job);
        if (!(side_by_side ? FN(conv_finite)(packed, h * conv_terms(&p->job)) : FN(conv_pack_panel)(&p->job, w, h, packed)))
            __atomic_store_n(&t->poisoned, 1, __ATOMIC_RELAXED);
    }
}

/* out[0..n-1] (+)= a[0], b[0], a[1], b[1], ... */
INLINE void FN(conv_store_pairs)(const real *a, const real *b, real *out, ptrdiff_t n, int add)
{
    for (ptrdiff_t i = 0; i < n; i += 2 * LANES, a += LANES, b += LANES, out += 2 * LANES) {
        const ptrdiff_t first = conv_min(LANES, n - i), second = conv_min(LANES, n - i - first);
        vec low, high;
        vzip(vload(a), vload(b), &low, &high);
        if (n - i >= 2 * LANES) {
            vstore(out, add ? vload(out) + low : low);
            vstore(out + LANES, add ? vload(out + LANES) + high : high);
        } else {
            vstore_n(out, add ? vload_n(out, first) + low : low, first);
            if (second)
                vstore_n(out + LANES, add ? vload_n(out + LANES, second) + high : high, second);
        }
    }
}

/* a tile, or a pair of them, of `rows` rows of `width` cells, whose first n are a region's flat positions from row y, column x on */
INLINE void FN(conv_store_phase)(const conv_phases_call *d, const conv_one_phase *p, const conv_region *r, const real *tile,
                                 const real *odd, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t y, ptrdiff_t x, ptrdiff_t n, real *out,
                                 int add)
{
    const conv_job *j = &p->job;
    const ptrdiff_t cells = d->direct.call.job->in[2];
    for (ptrdiff_t i = 0; i < n && r->y + y < j->out[1]; y++, x = 0) {
        const ptrdiff_t run = conv_min(conv_min(r->cols, j->out[2] - r->x) - x, n - i);
        real *to = out + (r->y + y) * j->out_axis[1] + (r->x + x) * j->out_axis[2];
        if (!odd && run > 0)
            FN(conv_store_runs)(tile + i, width, to, j->out_channel, j->out_axis[2], run, rows, add);
        for (ptrdiff_t m = 0; odd && run > 0 && m < rows; m++)
            FN(conv_store_pairs)(tile + m * width + i, odd + m * width + i, to + m * j->out_channel,
                                 conv_min(2 * run, cells - 2 * (r->x + x)), add);
        i += d->direct.band.row - x;
    }
}

/* one unit: a region of one image and group, for all or some panels of the channels of x */
FUNC void FN(conv_phases_unit)(const conv_phases_call *d, ptrdiff_t unit, real *band)
{
    const conv_direct *t = &d->direct;
    const conv_job *j = &d->wide;
    const conv_band *b = &t->band;
    const ptrdiff_t split = conv_split(&unit, t->splits);
    conv_region r = conv_find_region(j, b, unit);
    const ptrdiff_t g = conv_split(&r.image, j->groups), flat = (r.rows - 1) * b->row + r.cols, by = d->pairs ? 2 : 1;
    const ptrdiff_t first = conv_part(t->panels, t->splits, split), end = conv_part(t->panels, t->splits, split + 1);
    const real *in = (const real *)t->call.in + r.image * j->in_batch + g * j->in_group;
    real *out = (real *)t->call.out + r.image * j->out_batch + g * j->out_group;
    real tile[2][GEMM_MR * 2 * LANES + LANES] __attribute__((aligned(64))); /* pairs are read one vector beyond */
    for (ptrdiff_t c0 = 0; c0 < j->channels; c0 += b->chunk) {
        const ptrdiff_t nc = conv_min(b->chunk, j->channels - c0);
        FN(conv_fill_band)(j, b, in, c0, nc, &r, band);
        for (ptrdiff_t q = 0; q < d->phases; q += by) {
            const conv_one_phase *p = d->phase + q;
            if (r.z >= p->job.out[0])
                continue;
            for (ptrdiff_t i = first; i < end; i++) {
                const ptrdiff_t m0 = conv_part(j->outputs, t->panels, i), h = conv_part(j->outputs, t->panels, i + 1) - m0;
                const real *bias = t->call.bias && c0 == 0 ? (const real *)t->call.bias + g * j->outputs + m0 : NULL;
                real *to = out + p->start + r.z * p->job.out_axis[0] + m0 * j->out_channel;
                for (ptrdiff_t from = 0, y = 0, x = 0, width; from < flat; from += width) {
                    const ptrdiff_t left = conv_ceil(flat - from, LANES);
                    const int v = left >= 4 && h <= CONV_WIDE_ROWS ? 2 : left >= 2;
                    width = (ptrdiff_t)LANES << v;
                    for (ptrdiff_t k = 0; k < by; k++) {
                        const ptrdiff_t taps = conv_taps(&p[k].job), *tap = t->tap + p[k].first;
                        const real *cells = band + from + (taps == 1 ? *tap : 0); /* tiles of one tap look into no table */
                        const real *w = (const real *)t->packed + p[k].packed + (g * j->outputs + m0) * j->channels * taps + c0 * taps * h;
                        FN(conv_tiles)[h - 1][v](w, bias, cells, tap, taps, nc, b->channel, 0, -(real)INFINITY, tile[k], width);
                    }
                    FN(conv_store_phase)(d, p, &r, tile[0], d->pairs ? tile[1] : NULL, h, width, y, x, conv_min(width, flat - from),
                                         to, c0 > 0);
                    for (x += width; x >= b->row; x -= b->row)
                        y++;
                }
            }
        }
    }
}

/* takes units until there are none left */
FUNC void FN(conv_phases_worker)(conv_phases_call *d, ptrdiff_t i)
{
    real *band = (real *)(d->direct.bands + (size_t)i * d->direct.band_bytes);
    for (ptrdiff_t unit; (unit = conv_take(&d->direct.next, d->direct.units)) >= 0;)
        FN(conv_phases_unit)(d, unit, band);
}
