/* conv_depthwise_real.h: the body of conv_depthwise.h for one scalar type. */

/* ---- forward ---- */

/* taps that a position meets: where its cell is, from the position's first one, and where its weight */
typedef struct {
    ptrdiff_t count, cell[CONV_DEPTHWISE_TAPS], weight[CONV_DEPTHWISE_TAPS];
} FN(conv_depthwise_taps);

/* bias + sum over the taps, but at least `floor`, for nx positions in a row and nv vectors of groups, the last of `lanes` lanes; nx
 * and nv are constants after inlining. A load for each multiply-add: as many as the first-level cache gives */
INLINE void FN(conv_depthwise_tile)(const int nx, const int nv, ptrdiff_t lanes, const FN(conv_depthwise_taps) * p, const real *in,
                                    ptrdiff_t in_step, const real *w, const real *bias, real floor, real *out, ptrdiff_t out_step)
{
    vec s[8];
#pragma GCC unroll 8
    for (int v = 0; v < nv; v++) {
        const vec b = bias ? vload_n(bias + v * LANES, lanes) : vzero();
#pragma GCC unroll 8
        for (int x = 0; x < nx; x++)
            s[v * nx + x] = b;
    }
    for (ptrdiff_t t = 0; t < p->count; t++) {
        const real *cell = in + p->cell[t], *weight = w + p->weight[t];
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++) {
            const vec k = lanes == LANES ? vload(weight + v * LANES) : vload_n(weight, lanes);
#pragma GCC unroll 8
            for (int x = 0; x < nx; x++) {
                const real *at = cell + x * in_step + v * LANES;
                s[v * nx + x] = vfma(k, lanes == LANES ? vload(at) : vload_n(at, lanes), s[v * nx + x]);
            }
        }
    }
#pragma GCC unroll 8
    for (int v = 0; v < nv; v++)
#pragma GCC unroll 8
        for (int x = 0; x < nx; x++) {
            real *to = out + x * out_step + v * LANES;
            const vec r = vmax_fast(vset(floor), s[v * nx + x]);
            if (lanes == LANES)
                vstore(to, r);
            else
                vstore_n(to, r, lanes);
        }
}
#define CONV_DEPTHWISE_ARGS                                                                                              \
    ptrdiff_t lanes, const FN(conv_depthwise_taps) * p, const real *in, ptrdiff_t in_step, const real *w, const real *bias, \
        real floor, real *out, ptrdiff_t out_step
#define X(nx, nv)                                                                                                        \
    FUNC void FN(conv_depthwise_tile_##nx##_##nv)(CONV_DEPTHWISE_ARGS)                                                   \
    {                                                                                                                    \
        if (nv > 1 || lanes == LANES)                                                                                    \
            FN(conv_depthwise_tile)(nx, nv, LANES, p, in, in_step, w, bias, floor, out, out_step);                       \
        else                                                                                                             \
            FN(conv_depthwise_tile)(nx, 1, lanes, p, in, in_step, w, bias, floor, out, out_step);                        \
    }
X(8, 1) X(4, 2) X(4, 1) X(1, 4) X(1, 1)
#undef X

/* positions in a row that meet the same taps, of groups g..end-1; `in` is the first one's first cell */
INLINE void FN(conv_depthwise_run)(const conv_job *j, const FN(conv_depthwise_taps) * p, ptrdiff_t count, ptrdiff_t g, ptrdiff_t end,
                                   const real *in, const real *w, const real *bias, real floor, real *out)
{
    const ptrdiff_t is = j->step[2] * j->in_axis[2], os = j->out_axis[2];
#define TILE(nx, nv, lanes) \
    FN(conv_depthwise_tile_##nx##_##nv)(lanes, p, in + i, is, w + i, bias ? bias + i : NULL, floor, out + i, os)
    ptrdiff_t i;
    for (; count >= 8; count -= 8, in += 8 * is, out += 8 * os)
        for (i = g; i < end; i += LANES)
            TILE(8, 1, conv_min(LANES, end - i));
    for (; count >= 4; count -= 4, in += 4 * is, out += 4 * os) {
        for (i = g; i + 2 * LANES <= end; i += 2 * LANES)
            TILE(4, 2, LANES);
        for (; i < end; i += LANES)
            TILE(4, 1, conv_min(LANES, end - i));
    }
    for (; count > 0; count--, in += is, out += os) {
        for (i = g; i + 4 * LANES <= end; i += 4 * LANES)
            TILE(1, 4, LANES);
        for (; i < end; i += LANES)
            TILE(1, 1, conv_min(LANES, end - i));
    }
#undef TILE
}

/* the same for rows of kw neighbouring taps and a stride of `step`: a cell is loaded once for all the positions of the tile that
 * read it. kw, step and nx are constants after inlining */
INLINE void FN(conv_depthwise_strip)(const int kw, const int step, const int nx, ptrdiff_t lanes, ptrdiff_t rows, const real *in,
                                     ptrdiff_t in_row, ptrdiff_t in_col, const real *w, ptrdiff_t w_row, ptrdiff_t w_col,
                                     const real *bias, real floor, real *out, ptrdiff_t out_step)
{
    vec s[8];
    const vec b = bias ? vload_n(bias, lanes) : vzero();
#pragma GCC unroll 8
    for (int x = 0; x < nx; x++)
        s[x] = b;
    for (; rows > 0; rows--, in += in_row, w += w_row) {
        vec k[5];
#pragma GCC unroll 5
        for (int v = 0; v < kw; v++)
            k[v] = lanes == LANES ? vload(w + v * w_col) : vload_n(w + v * w_col, lanes);
#pragma GCC unroll 19
        for (int c = 0; c < (nx - 1) * step + kw; c++) {
            const vec cell = lanes == LANES ? vload(in + c * in_col) : vload_n(in + c * in_col, lanes);
#pragma GCC unroll 8
            for (int x = 0; x < nx; x++)
                if (c >= x * step && c < x * step + kw)
                    s[x] = vfma(k[c - x * step], cell, s[x]);
        }
    }
#pragma GCC unroll 8
    for (int x = 0; x < nx; x++) {
        const vec r = vmax_fast(vset(floor), s[x]);
        if (lanes == LANES)
            vstore(out + x * out_step, r);
        else
            vstore_n(out + x * out_step, r, lanes);
    }
}
#define CONV_STRIP_ARGS                                                                                                  \
    ptrdiff_t lanes, ptrdiff_t rows, const real *in, ptrdiff_t in_row, ptrdiff_t in_col, const real *w, ptrdiff_t w_row, \
        ptrdiff_t w_col, const real *bias, real floor, real *out, ptrdiff_t out_step
#define X(kw, step, nx)                                                                                                  \
    FUNC void FN(conv_depthwise_strip_##kw##_##step##_##nx)(CONV_STRIP_ARGS)                                             \
    {                                                                                                                    \
        if (lanes == LANES)                                                                                              \
            FN(conv_depthwise_strip)(kw, step, nx, LANES, rows, in, in_row, in_col, w, w_row, w_col, bias, floor, out, out_step); \
        else                                                                                                             \
            FN(conv_depthwise_strip)(kw, step, nx, lanes, rows, in, in_row, in_col, w, w_row, w_col, bias, floor, out, out_step); \
    }
X(2, 1, 4) X(2, 1, 8) X(3, 1, 4) X(3, 1, 8) X(3, 2, 4) X(3, 2, 8) X(5, 1, 4) X(5, 1, 8) X(5, 2, 4) X(5, 2, 8)
#undef X
typedef void (*FN(conv_depthwise_function))(CONV_STRIP_ARGS);
#define X(kw, step) {FN(conv_depthwise_strip_##kw##_##step##_4), FN(conv_depthwise_strip_##kw##_##step##_8)}
/* [kernel's width][stride - 1][0, 1 for 4, 8 positions] */
static const FN(conv_depthwise_function) FN(conv_depthwise_strips)[6][2][2] __attribute__((unused)) = {
    [2] = {X(2, 1)}, [3] = {X(3, 1), X(3, 2)}, [5] = {X(5, 1), X(5, 2)}};
#undef X

/* positions in a row that meet all columns of the kernel, from *x on, of which the strips take what they can; the taps' rows
 * u0..u1 meet the input, `in` is the first cell of tap (u0, 0) of position *x */
INLINE void FN(conv_depthwise_strip_run)(const conv_job *j, ptrdiff_t u0, ptrdiff_t u1, ptrdiff_t *x, ptrdiff_t end, ptrdiff_t some,
                                         const real *in, const real *w, const real *bias, real floor, real *out)
{
    const ptrdiff_t kw = j->kernel[2], step = j->step[2], is = step * j->in_axis[2], os = j->out_axis[2];
    if (j->kernel[0] != 1 || j->dil[2] != 1 || kw > 5 || step > 2 || !FN(conv_depthwise_strips)[kw][step - 1][0] || u1 < u0)
        return;
    w += u0 * j->w_axis[1];
    for (int wide = 1; wide >= 0; wide--) {
        const ptrdiff_t nx = wide ? 8 : 4, count = (end - *x) / nx * nx;
        const FN(conv_depthwise_function) f = FN(conv_depthwise_strips)[kw][step - 1][wide];
        for (ptrdiff_t g = 0; g < j->groups; g += some)
            for (ptrdiff_t i = 0; i < count; i += nx)
                for (ptrdiff_t c = g; c < conv_min(g + some, j->groups); c += LANES)
                    f(conv_min(LANES, j->groups - c), u1 - u0 + 1, in + i * is + c, j->dil[1] * j->in_axis[1], j->in_axis[2], w + c,
                      j->w_axis[1], j->w_axis[2], bias ? bias + c : NULL, floor, out + (*x + i) * os + c, os);
        *x += count, in += count * is;
    }
}

/* one output row of one image */
FUNC void FN(conv_depthwise_row)(const conv_depthwise *d, ptrdiff_t unit)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t y = conv_split(&unit, j->out[1]), z = conv_split(&unit, j->out[0]), b = unit;
    const real *w = (const real *)d->call.w, *bias = (const real *)d->call.bias, floor = FN(conv_floor)(&d->call);
    real *out = (real *)d->call.out + b * j->out_batch + z * j->out_axis[0] + y * j->out_axis[1];
    const ptrdiff_t iz = z * j->step[0] + j->off[0], iy = y * j->step[1] + j->off[1];
    const ptrdiff_t origin = b * j->in_batch + iz * j->in_axis[0] + iy * j->in_axis[1];
    /* weights of some groups stay in the first-level cache for the whole row */
    const ptrdiff_t vectors = conv_max(4, CONV_DEPTHWISE_BYTES / SIMD_BYTES / conv_taps(j)), some = vectors * LANES;
    ptrdiff_t begin, end; /* positions that meet the taps of all columns */
    conv_inside(j->off[2], j->step[2], j->in[2], j->out[2], &begin, &end);
    ptrdiff_t last_begin, last_end;
    conv_inside((j->kernel[2] - 1) * j->dil[2] + j->off[2], j->step[2], j->in[2], j->out[2], &last_begin, &last_end);
    begin = conv_min(conv_max(begin, last_begin), j->out[2]), end = conv_min(end, last_end) + 1;
    ptrdiff_t u0, u1; /* rows of taps that meet the input: dil * u in -iy..in - 1 - iy */
    conv_inside(iy, j->dil[1], j->in[1], j->kernel[1], &u0, &u1);
    for (ptrdiff_t x = 0, count; x < j->out[2]; x += count) {
        FN(conv_depthwise_taps) p;
        if (x == begin && end > begin)
            FN(conv_depthwise_strip_run)(j, u0, u1, &x, end, some,
                                         (const real *)d->call.in + origin + u0 * j->dil[1] * j->in_axis[1] +
                                             (x * j->step[2] + j->off[2]) * j->in_axis[2],
                                         w, bias, floor, out);
        const ptrdiff_t ix = x * j->step[2] + j->off[2];
        count = x >= begin && end > x ? end - x : x < j->out[2];
        p.count = 0;
        for (ptrdiff_t t = 0; t < j->kernel[0]; t++)
            for (ptrdiff_t u = 0; u < j->kernel[1] && iz + t * j->dil[0] >= 0 && iz + t * j->dil[0] < j->in[0]; u++)
                for (ptrdiff_t v = 0; v < j->kernel[2] && iy + u * j->dil[1] >= 0 && iy + u * j->dil[1] < j->in[1]; v++) {
                    if (ix + v * j->dil[2] < 0 || ix + v * j->dil[2] >= j->in[2])
                        continue;
                    p.cell[p.count] = origin + t * j->dil[0] * j->in_axis[0] + u * j->dil[1] * j->in_axis[1] +
                                      (ix + v * j->dil[2]) * j->in_axis[2];
                    p.weight[p.count++] = t * j->w_axis[0] + u * j->w_axis[1] + v * j->w_axis[2];
                }
        for (ptrdiff_t g = 0; g < j->groups; g += some)
            FN(conv_depthwise_run)(j, &p, count, g, conv_min(g + some, j->groups), (const real *)d->call.in, w, bias,
                                   floor, out + x * j->out_axis[2]);
    }
    if (floor != 0)
        FN(activate)(d->call.activation, out, out + d->call.apart, j->out[2], j->groups, j->out_axis[2]);
}

/* ---- the weight gradient ---- */

/* the positions that meet each of some columns of taps, and those that meet all of them */
typedef struct {
    ptrdiff_t first[CONV_DEPTHWISE_COLUMNS], last[CONV_DEPTHWISE_COLUMNS], begin, end;
} FN(conv_depthwise_columns);

/* sum[v * ld ...] += the products of a row of gradients and the cells that tap v of kw reads, of nv vectors of groups, the last
 * of `lanes` lanes. kw and nv are constants after inlining */
INLINE void FN(conv_depthwise_dot)(const int kw, const int nv, ptrdiff_t lanes, const FN(conv_depthwise_columns) * p, const real *grad,
                                   ptrdiff_t grad_step, const real *in, ptrdiff_t in_step, ptrdiff_t in_col, double *sum,
                                   ptrdiff_t ld)
{
    vec s[CONV_DEPTHWISE_COLUMNS * 2];
    real t[LANES] __attribute__((aligned(64)));
#define LOAD(at) (lanes == LANES ? vload(at) : vload_n(at, lanes))
#pragma GCC unroll 10
    for (int i = 0; i < kw * nv; i++)
        s[i] = vzero();
#pragma GCC unroll 5
    for (int v = 0; v < kw; v++)
        for (ptrdiff_t x = p->first[v]; x < conv_min(p->begin, p->last[v] + 1); x++)
#pragma GCC unroll 2
            for (int k = 0; k < nv; k++)
                s[v * nv + k] = vfma(LOAD(grad + x * grad_step + k * LANES), LOAD(in + x * in_step + v * in_col + k * LANES), s[v * nv + k]);
    const real *g = grad + p->begin * grad_step, *c = in + p->begin * in_step;
    for (ptrdiff_t x = p->begin; x < p->end; x++, g += grad_step, c += in_step)
#pragma GCC unroll 2
        for (int k = 0; k < nv; k++) {
            const vec a = LOAD(g + k * LANES);
#pragma GCC unroll 5
            for (int v = 0; v < kw; v++)
                s[v * nv + k] = vfma(a, LOAD(c + v * in_col + k * LANES), s[v * nv + k]);
        }
#pragma GCC unroll 5
    for (int v = 0; v < kw; v++)
        for (ptrdiff_t x = conv_max(p->first[v], p->end); x <= p->last[v]; x++)
#pragma GCC unroll 2
            for (int k = 0; k < nv; k++)
                s[v * nv + k] = vfma(LOAD(grad + x * grad_step + k * LANES), LOAD(in + x * in_step + v * in_col + k * LANES), s[v * nv + k]);
#undef LOAD
#pragma GCC unroll 5
    for (int v = 0; v < kw; v++)
#pragma GCC unroll 2
        for (int k = 0; k < nv; k++) {
            double *to = sum + v * ld + k * LANES;
            vstore(t, s[v * nv + k]);
            if (lanes == LANES)
                for (ptrdiff_t l = 0; l < LANES; l += WLANES)
                    vstore_f64(to + l, vload_f64(to + l) + wload(t + l));
            else
                for (ptrdiff_t l = 0; l < lanes; l++)
                    to[l] += (double)t[l];
        }
}
#define CONV_DOT_ARGS                                                                                                    \
    ptrdiff_t lanes, const FN(conv_depthwise_columns) * p, const real *grad, ptrdiff_t grad_step, const real *in,        \
        ptrdiff_t in_step, ptrdiff_t in_col, double *sum, ptrdiff_t ld
#define X(kw)                                                                                                            \
    FUNC void FN(conv_depthwise_dot_##kw)(CONV_DOT_ARGS)                                                                 \
    {                                                                                                                    \
        if (lanes == 2 * LANES)                                                                                          \
            FN(conv_depthwise_dot)(kw, 2, LANES, p, grad, grad_step, in, in_step, in_col, sum, ld);                      \
        else if (lanes == LANES)                                                                                         \
            FN(conv_depthwise_dot)(kw, 1, LANES, p, grad, grad_step, in, in_step, in_col, sum, ld);                      \
        else                                                                                                             \
            FN(conv_depthwise_dot)(kw, 1, lanes, p, grad, grad_step, in, in_step, in_col, sum, ld);                      \
    }
X(1) X(2) X(3) X(4) X(5)
#undef X
typedef void (*FN(conv_dot_function))(CONV_DOT_ARGS);
/* [columns of taps - 1] */
static const FN(conv_dot_function) FN(conv_depthwise_dots)[CONV_DEPTHWISE_COLUMNS] __attribute__((unused)) = {
    FN(conv_depthwise_dot_1), FN(conv_depthwise_dot_2), FN(conv_depthwise_dot_3), FN(conv_depthwise_dot_4), FN(conv_depthwise_dot_5)};

/* the weight gradient over one piece of the output rows of all images */
FUNC void FN(conv_depthwise_piece)(const conv_depthwise *d, ptrdiff_t piece)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t groups = j->groups, taps = conv_taps(j), gs = j->out_axis[2], is = j->step[2] * j->in_axis[2];
    double *sum = d->partial + piece * taps * groups;
    memset(sum, 0, (size_t)(taps * groups) * sizeof(double));
    for (ptrdiff_t v0 = 0; v0 < j->kernel[2]; v0 += CONV_DEPTHWISE_COLUMNS) {
        const ptrdiff_t kw = conv_min(CONV_DEPTHWISE_COLUMNS, j->kernel[2] - v0), col = j->dil[2] * j->in_axis[2];
        const ptrdiff_t pair = kw > 3 ? LANES : 2 * LANES;
        FN(conv_depthwise_columns) p = {.begin = 0, .end = j->out[2]};
        for (ptrdiff_t v = 0; v < kw; v++) {
            conv_inside((v0 + v) * j->dil[2] + j->off[2], j->step[2], j->in[2], j->out[2], &p.first[v], &p.last[v]);
            p.begin = conv_max(p.begin, p.first[v]), p.end = conv_min(p.end, p.last[v] + 1);
        }
        if (p.end < p.begin) /* every column on its own */
            p.begin = p.end = j->out[2];
        for (ptrdiff_t row = conv_part(d->rows, d->pieces, piece); row < conv_part(d->rows, d->pieces, piece + 1); row++) {
            ptrdiff_t b = row;
            const ptrdiff_t y = conv_split(&b, j->out[1]), z = conv_split(&b, j->out[0]);
            const real *grad = (const real *)d->call.w + b * j->out_batch + z * j->out_axis[0] + y * j->out_axis[1];
            for (ptrdiff_t t = 0; t < j->kernel[0] * j->kernel[1]; t++) {
                const ptrdiff_t iy = y * j->step[1] + t % j->kernel[1] * j->dil[1] + j->off[1];
                const ptrdiff_t iz = z * j->step[0] + t / j->kernel[1] * j->dil[0] + j->off[0];
                if (iz < 0 || iz >= j->in[0] || iy < 0 || iy >= j->in[1])
                    continue;
                const real *in = (const real *)d->call.in + b * j->in_batch + iz * j->in_axis[0] + iy * j->in_axis[1];
                in += v0 * col + j->off[2] * j->in_axis[2];
                double *to = sum + (t * j->kernel[2] + v0) * groups;
                for (ptrdiff_t g = 0, n; g < groups; g += n) {
                    n = conv_min(pair, groups - g);
                    if (n > LANES && n < pair)
                        n = LANES;
                    FN(conv_depthwise_dots)[kw - 1](n, &p, grad + g, gs, in + g, is, col, to + g, groups);
                }
            }
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
