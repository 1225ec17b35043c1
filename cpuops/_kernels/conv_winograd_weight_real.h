/* conv_winograd_weight_real.h: the body of conv_winograd_weight.h for one scalar type. */

/* G^T: n sums to 3 weights */
INLINE void FN(winograd_taps)(const int m, const vec *u, vec *r)
{
    const vec s = u[1] + u[2], t = u[1] - u[2];
    if (m == 2) {
        const vec half = vset((real)0.5);
        r[0] = vfma(half, s, -u[0]);
        r[1] = half * t;
        r[2] = vfma(half, s, u[3]);
        return;
    }
    const vec p = u[3] + u[4], q = u[3] - u[4];
    const vec na = vset((real)WINOGRAD_NA), nb = vset((real)WINOGRAD_NB);
    r[0] = vfma(vset((real)(1 / (WINOGRAD_AA * WINOGRAD_BB))), u[0], vfma(na, s, nb * p));
    r[1] = vfma(vset((real)(WINOGRAD_NA * WINOGRAD_A)), t, vset((real)(WINOGRAD_NB * WINOGRAD_B)) * q);
    r[2] = vfma(vset((real)(WINOGRAD_NA * WINOGRAD_AA)), s, vfma(vset((real)(WINOGRAD_NB * WINOGRAD_BB)), p, u[5]));
}

/* part of a vector of channels of the block's cells, or of its gradients */
FUNC void FN(conv_winograd_weight_fill)(conv_winograd_weight *d, ptrdiff_t i)
{
    const ptrdiff_t part = conv_split(&i, d->parts), cells = conv_winograd_weight_cells(d);
    const ptrdiff_t t = conv_part(d->count, d->parts, part), count = conv_part(d->count, d->parts, part + 1) - t;
    if (i < cells) {
        real *to = (real *)d->cell_memory + t * d->cells.row + i * LANES;
        (d->cells.m == 2 ? FN(winograd_cells_2) : FN(winograd_cells_4))(&d->cells, d->first + t, count, d->c + i * LANES, to);
    } else {
        const ptrdiff_t m = (i - cells) * LANES, panel = m / GEMM_NR;
        real *to = (real *)d->grad_memory + (panel * d->block + t) * GEMM_NR + m % GEMM_NR;
        (d->cells.m == 2 ? FN(winograd_grads_2) : FN(winograd_grads_4))(&d->grads, d->first + t, count, d->m + m, to);
    }
}

/* some channels of one of the products */
FUNC void FN(conv_winograd_weight_multiply)(conv_winograd_weight *d, ptrdiff_t i)
{
    const ptrdiff_t split = conv_split(&i, d->splits), bands = conv_min(d->n_rows, conv_max(d->splits, conv_ceil(d->n_rows, GEMM_MR)));
    const ptrdiff_t begin = conv_part(bands, d->splits, split), end = conv_part(bands, d->splits, split + 1);
    const real *a = (const real *)d->cell_memory + i * d->cells.plane + d->row;
    const real *b = (const real *)d->grad_memory + i * d->grads.plane + d->col * d->block;
    real *sums = (real *)d->sums + i * d->plane;
    for (ptrdiff_t m = 0; m < d->n_cols; m += GEMM_NR)
        for (ptrdiff_t band = begin; band < end; band++) {
            const ptrdiff_t c = conv_part(d->n_rows, bands, band), rows = conv_part(d->n_rows, bands, band + 1) - c;
            FN(gemm_tiles)[rows - 1][d->n_cols - m > LANES](d->count, a + c, 1, d->cells.row, b + m * d->block, GEMM_NR,
                                                            sums + c * d->cols + m, d->cols, d->first > 0, NULL, NULL, NULL, 0);
        }
}

/* nc x nm weights, of channels c... and outputs o..., from their sums; whether all are finite */
INLINE int FN(winograd_taps_of)(const int m, const conv_winograd_weight *d, const real *sums, ptrdiff_t c, ptrdiff_t nc,
                                ptrdiff_t o, ptrdiff_t nm)
{
    const int n = m + 2;
    const conv_job *j = d->call.job;
    real *out = (real *)d->call.out + c * j->w_channel + o * j->w_output;
    real band[9 * LANES * LANES] __attribute__((aligned(64))); /* [channel][tap][output] */
    vec finite = vzero();
    for (ptrdiff_t k = 0; k < nc; k++, sums += d->cols) {
        vec row[3][6];
#pragma GCC unroll 6
        for (int x = 0; x < n; x++) {
            vec u[6], r[3];
#pragma GCC unroll 6
            for (int i = 0; i < n; i++)
                u[i] = vload(sums + (i * n + x) * d->plane);
            FN(winograd_taps)(m, u, r);
#pragma GCC unroll 3
            for (int y = 0; y < 3; y++)
                row[y][x] = r[y];
        }
#pragma GCC unroll 3
        for (int y = 0; y < 3; y++) {
            vec r[3];
            FN(winograd_taps)(m, row[y], r);
#pragma GCC unroll 3
            for (int x = 0; x < 3; x++) {
                finite = vfma(r[x], vzero(), finite);
                if (j->w_output == 1)
                    vstore_n(out + k * j->w_channel + y * j->w_axis[1] + x * j->w_axis[2], r[x], nm);
                else
                    vstore(band + (k * 9 + y * 3 + x) * LANES, r[x]);
            }
        }
    }
    if (j->w_output != 1)
        FN(winograd_store_turned)(band, nc * 9, nm, out, j->w_output);
    return vhsum(finite) == 0; /* else it is NaN */
}
#define WINOGRAD_TAPS(m)                                                                                                 \
    FUNC int FN(winograd_taps_##m)(const conv_winograd_weight *d, const real *sums, ptrdiff_t c, ptrdiff_t nc, ptrdiff_t o, \
                                   ptrdiff_t nm)                                                                        \
    {                                                                                                                    \
        return FN(winograd_taps_of)(m, d, sums, c, nc, o, nm);                                                           \
    }
WINOGRAD_TAPS(2)
WINOGRAD_TAPS(4)
#undef WINOGRAD_TAPS

/* a vector of channels by a vector of outputs of the weight gradient; in the order of its memory */
FUNC void FN(conv_winograd_weight_sum)(conv_winograd_weight *d, ptrdiff_t i)
{
    const ptrdiff_t down = conv_ceil(d->n_rows, LANES), across = conv_ceil(d->n_cols, LANES);
    const int last = d->call.job->w_output == 1;
    const ptrdiff_t row = (last ? i / across : i % down) * LANES, col = (last ? i % across : i / down) * LANES;
    if (!(d->cells.m == 2 ? FN(winograd_taps_2) : FN(winograd_taps_4))(
            d, (const real *)d->sums + row * d->cols + col, d->c + d->row + row, conv_min(LANES, d->n_rows - row),
            d->m + d->col + col, conv_min(LANES, d->n_cols - col)))
        __atomic_store_n(&d->poisoned, 1, __ATOMIC_RELAXED);
}

/* range i of the channels and outputs, from the tiles to the weights */
FUNC void FN(conv_winograd_weight_range)(conv_winograd_weight *d, ptrdiff_t i)
{
    conv_winograd_weight mine = *d;
    const ptrdiff_t at[2] = {i / d->apart[1], i % d->apart[1]}, end[2] = {d->call.job->channels, d->call.job->outputs};
    for (int axis = 0; axis < 2; axis++) {
        mine.from[axis] = at[axis] * d->to[axis];
        mine.to[axis] = conv_min(mine.from[axis] + d->to[axis], end[axis]);
    }
    conv_winograd_weight_scratch(&mine, d->cell_memory + (size_t)i * d->worker_bytes);
    conv_winograd_weight_hold(&mine, mine.from[0], mine.from[1], 0);
    do {
        for (ptrdiff_t k = 0; k < conv_winograd_weight_fills(&mine); k++)
            FN(conv_winograd_weight_fill)(&mine, k);
        do {
            for (ptrdiff_t k = 0; k < conv_winograd_weight_products(&mine); k++)
                FN(conv_winograd_weight_multiply)(&mine, k);
            for (ptrdiff_t k = 0; conv_winograd_weight_last(&mine) && k < conv_winograd_weight_sums(&mine); k++)
                FN(conv_winograd_weight_sum)(&mine, k);
        } while (conv_winograd_weight_next(&mine));
    } while (!mine.poisoned && conv_winograd_weight_advance(&mine));
    if (mine.poisoned)
        __atomic_store_n(&d->poisoned, 1, __ATOMIC_RELAXED);
}
