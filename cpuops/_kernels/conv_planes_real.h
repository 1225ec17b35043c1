/* conv_planes_real.h: the body of conv_planes.h for one scalar type. */
#if CONV_PLANES_MASKS

/* ---- cells of a row ---- */

/* the masks of a vector whose first cells are c, c + 1, ..., c + n - 1 of a row of `width` cells; stride 2: of pairs of vectors
 * from cells c, c + 2, ... on */
INLINE void FN(conv_plane_spans)(ptrdiff_t n, ptrdiff_t step, ptrdiff_t c, ptrdiff_t width, vmask * m)
{
    for (ptrdiff_t v = 0; v < n; v += step) {
        m[v] = mspan(-(c + v), width - (c + v));
        if (step == 2)
            m[v + 1] = mspan(-(c + v + LANES), width - (c + v + LANES));
    }
}

/* t[v] = the cells v, v + step, v + 2*step, ... from p on, 0 <= v < n; masked at an edge of the row */
INLINE void FN(conv_plane_cells)(const int n, const int step, const int edge, const real *p, const vmask * m, vec *t)
{
#pragma GCC unroll 6
    for (int v = 0; v < n; v += step) {
        const vec a = edge ? vload_m(p + v, m[v]) : vload(p + v);
        if (step == 1)
            t[v] = a;
        else {
            const vec b = edge ? vload_m(p + v + LANES, m[v + 1]) : vload(p + v + LANES);
            vec odd;
            vdeal(a, b, &t[v], &odd);
            if (v + 1 < n)
                t[v + 1] = odd;
        }
    }
}
/* whether these are all inside the row */
INLINE int FN(conv_plane_inside)(const int n, const int step, ptrdiff_t c, ptrdiff_t width)
{
    return c >= 0 && c + n - 1 + step * LANES <= width;
}

/* rows y, y + 1, ... of a plane of `height` rows, or the row of zeros. Not inlined: compilers would keep the addresses in vectors */
FUNC void FN(conv_plane_rows)(const real *plane, ptrdiff_t apart, ptrdiff_t height, const real *zeros, ptrdiff_t y, ptrdiff_t n,
                                const real **row)
{
    for (ptrdiff_t r = 0; r < n; r++, y++)
        row[r] = y >= 0 && y < height ? plane + y * apart : zeros;
}

/* whether all weights are finite */
INLINE int FN(conv_plane_finite)(const conv_job *j, const real *w)
{
    const ptrdiff_t k = j->kernel[2];
    if (j->w_group == k * k && j->w_axis[1] * j->w_axis[2] == k) /* one block, be it flipped */
        return FN(conv_finite)(j->w_axis[2] > 0 ? w : w - k * k + 1, j->groups * k * k);
    real bad = 0;
    for (ptrdiff_t g = 0; g < j->groups; g++)
        for (ptrdiff_t t = 0; t < k * k; t++)
            bad += w[g * j->w_group + t / k * j->w_axis[1] + t % k * j->w_axis[2]] * 0;
    return bad == 0; /* else it is NaN */
}

#define CONV_PLANE_KERNEL (CONV_PLANES_REACH * CONV_PLANES_REACH)

/* the weights of a group, each in all lanes */
INLINE void FN(conv_plane_weights)(const int k, const conv_job *j, const real *from, vec *w)
{
#pragma GCC unroll 5
    for (int u = 0; u < k; u++)
#pragma GCC unroll 5
        for (int v = 0; v < k; v++)
            w[u * k + v] = vset(from[u * j->w_axis[1] + v * j->w_axis[2]]);
}

/* windows that reach a pair of cells of x of stride 2; see "spread" */
INLINE ptrdiff_t FN(conv_plane_deep)(const ptrdiff_t k, const ptrdiff_t e) { return (k - 1 + e) / 2 + 1; }

/* what all units share: `spread` for the gradient to x, `weights` for that to the weights */
FUNC void FN(conv_planes_prepare)(conv_planes *d, int spread, int weights)
{
    const conv_job *j = d->call.job;
    vmask *m = (vmask *)d->spans;
    memset(d->zeros, 0, conv_planes_zeros(d));
    if (spread) {
        const ptrdiff_t e = j->off[2] & 1, deep = FN(conv_plane_deep)(j->kernel[2], e);
        for (ptrdiff_t x = 0, c = (e - j->off[2]) / 2 - (deep - 1); x < j->in[2]; x += 2 * LANES, c += LANES, m += deep)
            FN(conv_plane_spans)(deep, 1, c, j->out[2], m);
    } else
        for (ptrdiff_t x = 0, c = j->off[2]; x < j->out[2]; x += LANES, c += j->step[2] * LANES, m += CONV_PLANES_REACH + 1)
            FN(conv_plane_spans)(j->kernel[2], j->step[2], c, j->in[2], m);
    d->poisoned = !weights && !FN(conv_plane_finite)(j, (const real *)d->call.w);
}

/* ---- forward ---- */

/* a vector of `rows` output rows, n lanes of it, none below `floor`, from cell c on of their input rows; k, step, rows and edge are constants after
 * inlining. Each sum is over the rows of taps, then their columns */
INLINE void FN(conv_plane_tile)(const int k, const int step, const int rows, const int edge, const vec *w, vec bias,
                                const real *const *row, ptrdiff_t c, const vmask * m, vec floor, real *out, ptrdiff_t apart,
                                ptrdiff_t n)
{
    vec s[CONV_PLANES_ROWS], t[CONV_PLANES_REACH];
#pragma GCC unroll 7
    for (int o = 0; o < rows; o++)
        s[o] = bias;
#pragma GCC unroll 17
    for (int r = 0; r < (rows - 1) * step + k; r++) {
        FN(conv_plane_cells)(k, step, edge, row[r] + c, m, t);
#pragma GCC unroll 5
        for (int v = 0; v < k; v++)
#pragma GCC unroll 7
            for (int o = 0; o < rows; o++)
                if (r >= o * step && r < o * step + k)
                    s[o] = vfma(w[(r - o * step) * k + v], t[v], s[o]);
    }
#pragma GCC unroll 7
    for (int o = 0; o < rows; o++) {
        const vec r = vmax_fast(floor, s[o]);
        if (edge)
            vstore_n(out + o * apart, r, n);
        else
            vstore(out + o * apart, r);
    }
}

/* `rows` output rows of a group */
INLINE void FN(conv_plane_pass)(const int k, const int step, const int rows, const conv_planes *d, ptrdiff_t g,
                                const real *const *row, real *out)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t width = j->in[2], count = j->out[2], apart = j->out_axis[1];
    const vmask *m = (const vmask *)d->spans;
    const vec bias = d->call.bias ? vset(((const real *)d->call.bias)[g]) : vzero(), floor = vset(FN(conv_floor)(&d->call));
    vec w[CONV_PLANE_KERNEL];
    FN(conv_plane_weights)(k, j, (const real *)d->call.w + g * j->w_group, w);
    for (ptrdiff_t x = 0, c = j->off[2]; x < count; x += LANES, c += step * LANES, m += CONV_PLANES_REACH + 1)
        if (FN(conv_plane_inside)(k, step, c, width) && x + LANES <= count)
            FN(conv_plane_tile)(k, step, rows, 0, w, bias, row, c, m, floor, out + x, apart, LANES);
        else
            FN(conv_plane_tile)(k, step, rows, 1, w, bias, row, c, m, floor, out + x, apart, conv_min(LANES, count - x));
}
#define CONV_PLANE_ARGS const conv_planes *d, ptrdiff_t g, const real *const *row, real *out
#define X(k, step, rows)                                                                              \
    FUNC void FN(conv_plane_pass_##k##_##step##_##rows)(CONV_PLANE_ARGS)                              \
    {                                                                                                 \
        FN(conv_plane_pass)(k, step, rows <= CONV_PLANES_ROWS ? rows : 1, d, g, row, out);            \
    }
#define CONV_PLANE_EACH(X) X(3, 1) X(3, 2) X(5, 1) X(5, 2)
#define Y(k, step) X(k, step, 1) X(k, step, 2) X(k, step, 4) X(k, step, 7)
CONV_PLANE_EACH(Y)
#undef X
#undef Y
typedef void (*FN(conv_plane_function))(CONV_PLANE_ARGS);
#define X(k, step)                                                                                      \
    [(k == 5) * 2 + step - 1] = {FN(conv_plane_pass_##k##_##step##_1), FN(conv_plane_pass_##k##_##step##_2), \
                                 FN(conv_plane_pass_##k##_##step##_4), FN(conv_plane_pass_##k##_##step##_7)},
/* [0, 2 for 3x3, 5x5, 1 more for stride 2][0, 1, 2, 3 for 1, 2, 4, 7 rows] */
static const FN(conv_plane_function) FN(conv_plane_passes)[4][4] __attribute__((unused)) = {CONV_PLANE_EACH(X)};
#undef X
INLINE ptrdiff_t FN(conv_plane_kind)(const conv_job *j) { return (j->kernel[2] == 5) * 2 + j->step[2] - 1; }

/* rows y0..y1-1 of one output plane */
INLINE void FN(conv_plane_forward)(const conv_planes *d, ptrdiff_t b, ptrdiff_t g, ptrdiff_t y0, ptrdiff_t y1)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t k = j->kernel[2], step = j->step[2];
    const FN(conv_plane_function) *f = FN(conv_plane_passes)[FN(conv_plane_kind)(j)];
    const real floor = FN(conv_floor)(&d->call);
    const real *in = (const real *)d->call.in + b * j->in_batch + g * j->in_group;
    real *out = (real *)d->call.out + b * j->out_batch + g * j->out_group;
    const real *row[(CONV_PLANES_ROWS - 1) * 2 + CONV_PLANES_REACH];
    for (ptrdiff_t y = y0, rows; y < y1; y += rows) {
        const ptrdiff_t left = y1 - y;
        const int size = left >= 7 && CONV_PLANES_ROWS == 7 ? 3 : left >= 4 ? 2 : left >= 2;
        rows = size == 3 ? 7 : 1 << size;
        FN(conv_plane_rows)(in, j->in_axis[1], j->in[1], (const real *)d->zeros, y * step + j->off[1], (rows - 1) * step + k, row);
        real *to = out + y * j->out_axis[1];
        f[size](d, g, row, to);
        FN(conv_finish_rows)(&d->call, floor, to, 1, rows, j->out[2]);
    }
}

/* ---- spread: the gradient to x for stride 2 ----
 *
 * Along an axis, cell h of x is reached by tap t from window o with 2*o + t + off = h. With off = 2*q + e, e being 0 or 1, cells
 * 2*m are reached by taps e, e + 2, ... from windows m - q - e, m - q - e - 1, ..., and cells 2*m + 1 by taps 1 - e, 3 - e, ...
 * from windows m - q, m - q - 1, ...: both from the `deep` windows up to m - q. */

/* the tap of cells 2*m + odd for window m - q - depth, or -1 */
INLINE int FN(conv_plane_spread_tap)(const int k, const int e, const int odd, const int depth)
{
    const int t = odd ? 1 - e + 2 * depth : e + 2 * (depth - e);
    return t >= 0 && t < k && (odd || depth >= e) ? t : -1;
}

/* `pairs` pairs of rows of x: vectors of even and of odd cells from window c on of the gradient's rows, of which `width` exist.
 * n cells of x. k, e, pairs and edge are constants after inlining */
INLINE void FN(conv_plane_spread_tile)(const int k, const int e, const int pairs, const int edge, const vec *w, vec bias,
                                       const real *const *row, ptrdiff_t c, const vmask * m, real *out,
                                       ptrdiff_t apart, ptrdiff_t rows, ptrdiff_t n)
{
    const int deep = (int)FN(conv_plane_deep)(k, e);
    vec s[8], t[3]; /* s[pair][odd row][odd cell] */
#pragma GCC unroll 8
    for (int i = 0; i < 4 * pairs; i++)
        s[i] = bias;
#pragma GCC unroll 4
    for (int r = pairs + deep - 2; r >= 0; r--) {
        FN(conv_plane_cells)(deep, 1, edge, row[r] + c, m, t);
#pragma GCC unroll 2
        for (int a = 0; a < pairs; a++)
#pragma GCC unroll 2
            for (int odd = 0; odd < 2; odd++) {
                const int u = a + deep - 1 - r < deep ? FN(conv_plane_spread_tap)(k, e, odd, a + deep - 1 - r) : -1;
#pragma GCC unroll 3
                for (int depth = 0; depth < deep; depth++)
#pragma GCC unroll 2
                    for (int i = 0; i < 2; i++) {
                        const int v = FN(conv_plane_spread_tap)(k, e, i, depth);
                        if (u >= 0 && v >= 0)
                            s[a * 4 + odd * 2 + i] = vfma(w[u * k + v], t[deep - 1 - depth], s[a * 4 + odd * 2 + i]);
                    }
            }
    }
#pragma GCC unroll 4
    for (int a = 0; a < 2 * pairs; a++) {
        vec low, high;
        if (a >= rows)
            break;
        vzip(s[2 * a], s[2 * a + 1], &low, &high);
        if (edge) {
            vstore_n(out + a * apart, low, conv_min(LANES, n));
            vstore_n(out + a * apart + LANES, high, conv_min(LANES, conv_max(0, n - LANES)));
        } else {
            vstore(out + a * apart, low);
            vstore(out + a * apart + LANES, high);
        }
    }
}

/* `rows` rows of x of a group, at most 2*pairs */
INLINE void FN(conv_plane_spread_pass)(const int k, const int e, const int pairs, const conv_planes *d, ptrdiff_t g,
                                       const real *const *row, real *out, ptrdiff_t rows)
{
    const conv_job *f = d->call.job;
    const int deep = (int)FN(conv_plane_deep)(k, e);
    const ptrdiff_t width = f->out[2], count = f->in[2], apart = f->in_axis[1];
    const vmask *m = (const vmask *)d->spans;
    const vec bias = d->call.bias ? vset(((const real *)d->call.bias)[g]) : vzero();
    vec w[CONV_PLANE_KERNEL];
    FN(conv_plane_weights)(k, f, (const real *)d->call.w + g * f->w_group, w);
    for (ptrdiff_t x = 0, c = (e - f->off[2]) / 2 - (deep - 1); x < count; x += 2 * LANES, c += LANES, m += deep)
        if (FN(conv_plane_inside)(deep, 1, c, width) && x + 2 * LANES <= count)
            FN(conv_plane_spread_tile)(k, e, pairs, 0, w, bias, row, c, m, out + x, apart, rows, 2 * LANES);
        else
            FN(conv_plane_spread_tile)(k, e, pairs, 1, w, bias, row, c, m, out + x, apart, rows, count - x);
}
#define CONV_PLANE_SPREAD_ARGS const conv_planes *d, ptrdiff_t g, const real *const *row, real *out, ptrdiff_t rows
#define X(k, e, pairs)                                                                \
    FUNC void FN(conv_plane_spread_pass_##k##_##e##_##pairs)(CONV_PLANE_SPREAD_ARGS)  \
    {                                                                                 \
        FN(conv_plane_spread_pass)(k, e, pairs, d, g, row, out, rows);                \
    }
X(3, 0, 1) X(3, 1, 1) X(5, 0, 1) X(5, 1, 1) X(3, 0, 2) X(3, 1, 2) X(5, 0, 2) X(5, 1, 2)
#undef X
typedef void (*FN(conv_plane_spread_function))(CONV_PLANE_SPREAD_ARGS);
#define X(k, e) {FN(conv_plane_spread_pass_##k##_##e##_1), FN(conv_plane_spread_pass_##k##_##e##_2)}
/* [0, 1 for 3x3, 5x5][e][pairs - 1] */
static const FN(conv_plane_spread_function) FN(conv_plane_spread_passes)[2][2][2] __attribute__((unused)) = {
    {X(3, 0), X(3, 1)}, {X(5, 0), X(5, 1)}};
#undef X

/* rows y0..y1-1 of one plane of x; y0 is even */
INLINE void FN(conv_plane_spread)(const conv_planes *d, ptrdiff_t b, ptrdiff_t g, ptrdiff_t y0, ptrdiff_t y1)
{
    const conv_job *f = d->call.job;
    const ptrdiff_t k = f->kernel[2], e = f->off[2] & 1, deep = FN(conv_plane_deep)(k, e);
    const FN(conv_plane_spread_function) *pass = FN(conv_plane_spread_passes)[k == 5][e];
    const real *grad = (const real *)d->call.in + b * f->out_batch + g * f->out_group;
    real *out = (real *)d->call.out + b * f->in_batch + g * f->in_group;
    const real *row[4];
    for (ptrdiff_t y = y0, rows; y < y1; y += rows) {
        const ptrdiff_t pairs = y1 - y > 2 ? 2 : 1;
        rows = conv_min(2 * pairs, y1 - y);
        FN(conv_plane_rows)(grad, f->out_axis[1], f->out[1], (const real *)d->zeros, (y - (f->off[1] - e)) / 2 - (deep - 1),
                            pairs + deep - 1, row);
        pass[pairs - 1](d, g, row, out + y * f->in_axis[1], rows);
    }
}

/* takes units until there are none left; of_x: of the gradient to x */
INLINE void FN(conv_planes_units)(conv_planes *d, const int of_x)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t height = of_x ? j->in[1] : j->out[1];
    for (ptrdiff_t unit; (unit = conv_take(&d->next, d->units)) >= 0;) {
        const ptrdiff_t first = unit / d->bands * d->planes, y = unit % d->bands * d->rows;
        ptrdiff_t b = first / j->groups, g = first % j->groups;
        for (ptrdiff_t p = 0; p < d->planes && b < j->batch; p++) {
            if (of_x)
                FN(conv_plane_spread)(d, b, g, y, conv_min(y + d->rows, height));
            else
                FN(conv_plane_forward)(d, b, g, y, conv_min(y + d->rows, height));
            if (++g == j->groups)
                g = 0, b++;
        }
    }
}

FUNC void FN(conv_planes_worker)(conv_planes *d, ptrdiff_t i)
{
    (void)i;
    FN(conv_planes_units)(d, 0);
}

FUNC void FN(conv_planes_spread_worker)(conv_planes *d, ptrdiff_t i)
{
    (void)i;
    FN(conv_planes_units)(d, 1);
}

/* ---- weights ---- */

#define CONV_PLANE_GRADS CONV_PLANES_ROWS /* rows of gradients of a pass */

/* s[tap] += vectors of CONV_PLANE_GRADS rows of gradients times the cells that the tap reads */
INLINE void FN(conv_plane_products)(const int k, const int step, const int edge, const real *const *grad, const real *const *row,
                                    ptrdiff_t x, ptrdiff_t n, ptrdiff_t c, const vmask * m, vec *s)
{
    vec g[CONV_PLANE_GRADS], t[CONV_PLANES_REACH];
#pragma GCC unroll 7
    for (int o = 0; o < CONV_PLANE_GRADS; o++)
        g[o] = edge ? vload_n(grad[o] + x, n) : vload(grad[o] + x);
#pragma GCC unroll 17
    for (int r = 0; r < (CONV_PLANE_GRADS - 1) * step + k; r++) {
        FN(conv_plane_cells)(k, step, edge, row[r] + c, m, t);
#pragma GCC unroll 7
        for (int o = 0; o < CONV_PLANE_GRADS; o++)
            if (r >= o * step && r < o * step + k)
#pragma GCC unroll 5
                for (int v = 0; v < k; v++)
                    s[(r - o * step) * k + v] = vfma(g[o], t[v], s[(r - o * step) * k + v]);
    }
}

/* sum[tap] += the products of rows y0..y1-1 of `images` planes */
INLINE void FN(conv_plane_sums)(const int k, const int step, const conv_planes *d, const real *grad, const real *in,
                                ptrdiff_t images, ptrdiff_t y0, ptrdiff_t y1, double *sum)
{
    const conv_job *j = d->call.job;
    const real *zeros = (const real *)d->zeros, *row[(CONV_PLANE_GRADS - 1) * 2 + CONV_PLANES_REACH], *from[CONV_PLANE_GRADS];
    const ptrdiff_t count = j->out[2], width = j->in[2];
    vec s[CONV_PLANE_KERNEL];
#pragma GCC unroll 25
    for (int i = 0; i < k * k; i++)
        s[i] = vzero();
    for (; images > 0; images--, grad += j->out_batch, in += j->in_batch)
        for (ptrdiff_t y = y0; y < y1; y += CONV_PLANE_GRADS) {
            FN(conv_plane_rows)(grad, j->out_axis[1], y1, zeros, y, CONV_PLANE_GRADS, from);
            FN(conv_plane_rows)(in, j->in_axis[1], j->in[1], zeros, y * step + j->off[1], (CONV_PLANE_GRADS - 1) * step + k, row);
            const vmask *m = (const vmask *)d->spans;
            for (ptrdiff_t x = 0, c = j->off[2]; x < count; x += LANES, c += step * LANES, m += CONV_PLANES_REACH + 1)
                if (x + LANES <= count && FN(conv_plane_inside)(k, step, c, width))
                    FN(conv_plane_products)(k, step, 0, from, row, x, LANES, c, m, s);
                else
                    FN(conv_plane_products)(k, step, 1, from, row, x, conv_min(LANES, count - x), c, m, s);
        }
#pragma GCC unroll 25
    for (int i = 0; i < k * k; i++)
        sum[i] += (double)vhsum(s[i]);
}
#define CONV_PLANE_SUMS_ARGS \
    const conv_planes *d, const real *grad, const real *in, ptrdiff_t images, ptrdiff_t y0, ptrdiff_t y1, double *sum
#define X(k, step)                                                                                          \
    FUNC void FN(conv_plane_sums_##k##_##step)(CONV_PLANE_SUMS_ARGS)                                        \
    {                                                                                                       \
        FN(conv_plane_sums)(k, step, d, grad, in, images, y0, y1, sum);                                     \
    }
#if SIMD_AVX512
#define CONV_PLANE_SUMS_EACH CONV_PLANE_EACH
#else
#define CONV_PLANE_SUMS_EACH(X) X(3, 1) X(3, 2)
#endif
CONV_PLANE_SUMS_EACH(X)
#undef X
typedef void (*FN(conv_plane_sums_function))(CONV_PLANE_SUMS_ARGS);
#define X(k, step) [(k == 5) * 2 + step - 1] = FN(conv_plane_sums_##k##_##step),
/* [conv_plane_kind] */
static const FN(conv_plane_sums_function) FN(conv_plane_sums_of)[4] __attribute__((unused)) = {CONV_PLANE_SUMS_EACH(X)};
#undef X

/* one piece of the sums of one group: some of its items, in order */
INLINE void FN(conv_plane_piece)(const conv_planes *d, ptrdiff_t unit)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t g = unit / d->pieces, piece = unit % d->pieces;
    double *sum = d->partial + unit * conv_taps(j);
    memset(sum, 0, (size_t)conv_taps(j) * sizeof *sum);
    for (ptrdiff_t i = conv_part(d->items, d->pieces, piece); i < conv_part(d->items, d->pieces, piece + 1); i++) {
        const ptrdiff_t b = i / d->bands * d->planes, y = i % d->bands * d->rows;
        FN(conv_plane_sums_of)[FN(conv_plane_kind)(j)](
            d, (const real *)d->call.w + b * j->out_batch + g * j->out_group, (const real *)d->call.in + b * j->in_batch + g * j->in_group,
            conv_min(d->planes, j->batch - b), y, conv_min(y + d->rows, j->out[1]), sum);
    }
}

FUNC void FN(conv_planes_weight_worker)(conv_planes *d, ptrdiff_t i)
{
    (void)i;
    for (ptrdiff_t unit; (unit = conv_take(&d->next, d->units)) >= 0;)
        FN(conv_plane_piece)(d, unit);
}

/* the pieces of all groups, in order, to the weight gradient */
FUNC void FN(conv_planes_sum)(conv_planes *d, ptrdiff_t i)
{
    const conv_job *j = d->call.job;
    const ptrdiff_t taps = conv_taps(j);
    double bad = 0;
    (void)i;
    const double *partial = d->partial;
    for (ptrdiff_t g = 0; g < j->groups; g++, partial += d->pieces * taps)
        for (ptrdiff_t u = 0, t = 0; u < j->kernel[1]; u++)
            for (ptrdiff_t v = 0; v < j->kernel[2]; v++, t++) {
                double sum = partial[t];
                for (ptrdiff_t p = 1; p < d->pieces; p++)
                    sum += partial[p * taps + t];
                bad += sum * 0;
                ((real *)d->call.out)[g * j->w_group + u * j->w_axis[1] + v * j->w_axis[2]] = (real)sum;
            }
    if (bad != 0) /* NaN */
        d->poisoned = 1;
}

#else /* never called */
INLINE void FN(conv_planes_prepare)(conv_planes *d, int spread, int weights) { (void)d, (void)spread, (void)weights; }
INLINE void FN(conv_planes_worker)(conv_planes *d, ptrdiff_t i) { (void)d, (void)i; }
INLINE void FN(conv_planes_spread_worker)(conv_planes *d, ptrdiff_t i) { (void)d, (void)i; }
INLINE void FN(conv_planes_weight_worker)(conv_planes *d, ptrdiff_t i) { (void)d, (void)i; }
INLINE void FN(conv_planes_sum)(conv_planes *d, ptrdiff_t i) { (void)d, (void)i; }
#endif
