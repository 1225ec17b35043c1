/* conv_spread_real.h: the body of conv_spread.h for one scalar type. */

/* the columns of taps that reach the even (0) or the odd (1) outputs of a row: where the first of these reads, from the frame's
 * first gradient of the row, and the weights of each row of taps */
typedef struct {
    ptrdiff_t count, cell[CONV_SPREAD_TAPS];
    real weight[CONV_SPREAD_TAPS]; /* [rows of taps][count] */
} FN(conv_spread_columns);

/* the rows of taps that reach an output row, and the row of the frame that each reads */
typedef struct {
    ptrdiff_t count, tap[CONV_SPREAD_TAPS];
    const real *row[CONV_SPREAD_TAPS];
} FN(conv_spread_rows);

INLINE vec FN(conv_spread_sum)(const FN(conv_spread_columns) * p, const FN(conv_spread_rows) * r, ptrdiff_t i, vec s)
{
    for (ptrdiff_t u = 0; u < r->count; u++) {
        const real *w = p->weight + r->tap[u] * p->count;
        for (ptrdiff_t v = 0; v < p->count; v++)
            s = vfma(vset(w[v]), vload(r->row[u] + p->cell[v] + i), s);
    }
    return s;
}

/* one row of n outputs */
INLINE void FN(conv_spread_row_of)(const FN(conv_spread_columns) * p, const FN(conv_spread_rows) * r, vec bias, real *out, ptrdiff_t n)
{
    for (ptrdiff_t x = 0; x < n; x += 2 * LANES) {
        vec a, b;
        vzip(FN(conv_spread_sum)(p, r, x / 2, bias), FN(conv_spread_sum)(p + 1, r, x / 2, bias), &a, &b);
        if (n - x >= 2 * LANES) {
            vstore(out + x, a);
            vstore(out + x + LANES, b);
        } else {
            vstore_n(out + x, a, conv_min(LANES, n - x));
            vstore_n(out + x + LANES, b, conv_max(0, n - x - LANES));
        }
    }
}

/* one plane of one image */
FUNC void FN(conv_spread_unit)(conv_spread *d, ptrdiff_t unit, real *frame)
{
    const conv_job *f = d->call.job;
    const ptrdiff_t g = unit % f->groups, b = unit / f->groups;
    const real *grad = (const real *)d->call.in + b * f->out_batch + g * f->out_group;
    const real *w = (const real *)d->call.w + g * f->w_group;
    real *out = (real *)d->call.out + b * f->in_batch + g * f->in_group;
    const vec bias = d->call.bias ? vset(((const real *)d->call.bias)[g]) : vzero();
    for (ptrdiff_t y = 0; y < f->out[1]; y++) {
        real *row = frame + y * d->row;
        for (ptrdiff_t x = 0; x < d->before; x++)
            row[x] = 0;
        FN(conv_copy)(row + d->before, grad + y * f->out_axis[1], f->out[2]);
        for (ptrdiff_t x = d->before + f->out[2]; x < d->row; x++)
            row[x] = 0;
    }
    FN(conv_spread_columns) columns[2] = {{.count = 0}, {.count = 0}};
    for (ptrdiff_t v = 0; v < f->kernel[2]; v++) {
        const ptrdiff_t back = f->off[2] + v * f->dil[2]; /* output x reads gradient (x - back) / 2 */
        FN(conv_spread_columns) *p = &columns[back & 1];
        p->cell[p->count++] = ((back & 1) - back) / 2;
    }
    real bad = 0;
    for (ptrdiff_t u = 0, n[2] = {0, 0}; u < f->kernel[1]; u++)
        for (ptrdiff_t v = 0; v < f->kernel[2]; v++) {
            const ptrdiff_t odd = (f->off[2] + v * f->dil[2]) & 1;
            bad += (columns[odd].weight[n[odd]++] = w[u * f->w_axis[1] + v * f->w_axis[2]]) * 0;
        }
    for (ptrdiff_t y = 0; y < f->in[1]; y++) {
        FN(conv_spread_rows) rows;
        rows.count = 0;
        for (ptrdiff_t u = 0; u < f->kernel[1]; u++) {
            const ptrdiff_t above = y - f->off[1] - u * f->dil[1];
            if (above < 0 || (f->step[1] == 2 && (above & 1)))
                continue;
            const ptrdiff_t oy = f->step[1] == 2 ? above / 2 : above / f->step[1];
            if (oy >= f->out[1] || oy * f->step[1] != above)
                continue;
            rows.tap[rows.count] = u;
            rows.row[rows.count++] = frame + oy * d->row + d->before;
        }
        FN(conv_spread_row_of)(columns, &rows, bias, out + y * f->in_axis[1], f->in[2]);
    }
    if (bad != 0) /* NaN */
        __atomic_store_n(&d->poisoned, 1, __ATOMIC_RELAXED);
}

/* takes units until there are none left */
FUNC void FN(conv_spread_worker)(conv_spread *d, ptrdiff_t i)
{
    real *frame = (real *)(d->frames + (size_t)i * d->frame_bytes);
    for (ptrdiff_t unit; (unit = conv_take(&d->next, d->units)) >= 0;)
        FN(conv_spread_unit)(d, unit, frame);
}
