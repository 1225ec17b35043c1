/* pool_max_strip_real.h: the gradient of max pooling from x in one pass over the windows, without a search for places: a window's
 * cells meet its maximum, and the first that equals it gets the window's gradient. Included by pool.h only, after
 * pool_threes_real.h. This file: windows of three columns of one channel; pool_max_patch_real.h: many channels.
 *
 * Rows of finite cells take the short way. Others are handled with care: NaN equals nothing, and -inf also stands in the padding.
 */

/* v where the mask, else 0 */
INLINE vec FN(only)(vmask m, vec v)
{
#if SIMD_AVX512
    return vsel(m, v, vzero());
#else
    return (vec)(m & (ivec)v);
#endif
}

/* sum + v where the mask; sum is not -0 */
INLINE vec FN(plus_only)(vec sum, vmask m, vec v)
{
#if SIMD_AVX512
    return vsel(m, sum + v, sum);
#else
    return sum + FN(only)(m, v);
#endif
}

/* windows in which v is the maximum */
INLINE vmask FN(is_top)(vec v, vec top, int careful) { return careful ? mor(veq(v, top), visnan(v)) : veq(v, top); }

/* ---- strips: a vector of windows at a time. Rows of x are dealt to as many phases as the stride has,
 * from the padding on; so are the sums of a row of cells that is shared by rows of outputs */

typedef struct {
    const pool_plan *p;
    real *cells;                 /* a ring of rows of x, */
    real *sums;                  /* and one of sums */
    real *inside;                /* 1 where a cell is one of x */
    const real *x[STRIP_ROWS];   /* of each row of the windows: its cells, */
    real *kept[STRIP_ROWS];      /* its sums, */
    int begun[STRIP_ROWS];       /* whether they hold anything, */
    real *out[STRIP_ROWS];       /* and where it goes if it is complete now, else 0 */
} FN(strip);

static FN(strip) FN(strip_in)(const pool_plan *p, void *memory)
{
    ptrdiff_t row = p->phases * p->slot;
    FN(strip) s = {.p = p, .cells = (real *)memory, .sums = (real *)memory + STRIP_RING * row, .inside = (real *)memory + (STRIP_RING + STRIP_SUMS) * row};
    for (ptrdiff_t i = 0; i < STRIP_RING * row; i++)
        s.cells[i] = -(real)INFINITY;
    for (ptrdiff_t i = 0; i < row; i++)
        s.inside[i] = 0;
    for (ptrdiff_t i = 0; i < p->w.in; i++)
        s.inside[place_of(p, i + p->w.before, 1)] = 1;
    return s;
}

/* a row of x into its phases; returns whether all of it is finite */
INLINE int FN(deal_row)(const FN(strip) *s, const real *x, int stride, real *row)
{
    ptrdiff_t n = s->p->w.in, before = s->p->w.before, odd = before & 1;
    real *even_to = stride == 2 ? row + odd * s->p->phase + before / 2 : row + before;
    real *odd_to = row + (1 - odd) * s->p->phase + (before + 1) / 2;
    vec sum = vzero(), lowest = vset(-(real)INFINITY);
    for (ptrdiff_t i = 0; i < n; i += stride * LANES) {
        vec v[2];
        for (int k = 0; k < stride; k++) {
            ptrdiff_t left = n - i - k * LANES;
            v[k] = left >= LANES ? vload(x + i + k * LANES) : vload_n(x + i + k * LANES, most(left, 0));
            sum = vfma(v[k], vzero(), sum);
            if (left < LANES)
                v[k] = vsel(mspan(0, left), v[k], lowest);
        }
        if (stride == 2) {
            vdeal(v[0], v[1], v, v + 1);
            vstore(odd_to + i / 2, v[1]);
        }
        vstore(even_to + i / stride, v[0]);
    }
    return !many(visnan(sum));
}

/* cells first.. of a vector, of which n are left in the row */
INLINE void FN(store_part)(real *out, vec v, ptrdiff_t first, ptrdiff_t n)
{
    if (first <= 0) {
        FN(store_some)(out, v, n);
        return;
    }
#if SIMD_AVX512 && IS_F64
    _mm512_mask_storeu_pd(out, mspan(first, n), (__m512d)v);
#elif SIMD_AVX512
    _mm512_mask_storeu_ps(out, mspan(first, n), (__m512)v);
#elif SIMD_AVX2 && IS_F64
    _mm256_maskstore_pd(out, (__m256i)mspan(first, n), (__m256d)v);
#elif SIMD_AVX2
    _mm256_maskstore_ps(out, (__m256i)mspan(first, n), (__m256)v);
#else
    for (ptrdiff_t k = first; k < least(n, LANES); k++)
        out[k] = v[k];
#endif
}

/* `usual`: the first row is begun, and all but the last are complete */
INLINE void FN(strip_of)(const FN(strip) *s, const real *from, ptrdiff_t nh, int stride, int usual, int careful)
{
    ptrdiff_t outputs = s->p->w.out, width = s->p->w.in, phase = s->p->phase, column = -s->p->w.before;
    vec behind[STRIP_ROWS][2];
    const real *x[STRIP_ROWS];
    real *kept[STRIP_ROWS], *out[STRIP_ROWS];
    for (ptrdiff_t h = 0; h < nh; h++) {
        behind[h][0] = behind[h][1] = vzero();
        x[h] = s->x[h];
        kept[h] = s->kept[h];
        out[h] = s->out[h];
    }
    /* the last windows reach one place beyond their own, or two */
    for (ptrdiff_t i = 0; i < outputs + 3 - stride; i += LANES, column += stride * LANES) {
        int whole = column >= 0 && column + stride * LANES <= width;
        vec v[STRIP_ROWS][3], tops[STRIP_ROWS], top;
        vmask inside[3];
        for (int t = 0; t < 3; t++) {
            ptrdiff_t at = i + (stride == 2 ? (t & 1) * phase + t / 2 : t);
            for (ptrdiff_t h = 0; h < nh; h++) {
                v[h][t] = vload(x[h] + at);
                tops[h] = t == 0 ? v[h][t] : careful ? vmax(v[h][t], tops[h]) : vmax_fast(v[h][t], tops[h]);
            }
            inside[t] = careful ? veq(vload(s->inside + at), vset(1)) : veq(vzero(), vzero());
        }
        top = tops[0];
        for (ptrdiff_t h = 1; h < nh; h++)
            top = careful ? vmax(tops[h], top) : vmax_fast(tops[h], top);
        ptrdiff_t n = outputs - i;
        vec g = (n >= LANES ? vload(from + i) : vload_n(from + i, most(n, 0))) + vzero(); /* no -0 */
        for (ptrdiff_t h = 0; h < nh; h++) {
            /* g goes to the first cell that is the maximum; sums are in the order of the outputs */
            vmask hit[3];
            vec gs[3], share[3], sum[2];
            for (int t = 0; t < 3; t++) {
                hit[t] = FN(is_top)(v[h][t], top, careful);
                if (careful)
                    hit[t] = mand(hit[t], inside[t]);
                gs[t] = g;
                share[t] = FN(only)(hit[t], g);
                g = (vec)((ivec)g ^ (ivec)share[t]);
            }
            sum[0] = FN(lag)(behind[h][0], share[2], stride == 2 ? 1 : 2);
            int begun = usual ? h == 0 : s->begun[h];
            if (begun)
                sum[0] = vload(kept[h] + i) + sum[0];
            if (stride == 2)
                sum[1] = begun ? FN(plus_only)(vload(kept[h] + i + phase), hit[1], gs[1]) : share[1];
            else
                sum[0] += FN(lag)(behind[h][1], share[1], 1);
            sum[0] = FN(plus_only)(sum[0], hit[0], gs[0]);
            behind[h][0] = share[2];
            behind[h][1] = share[1];
            if (usual ? h == nh - 1 : !out[h]) {
                for (int f = 0; f < stride; f++)
                    vstore(kept[h] + i + f * phase, sum[f]);
                continue;
            }
            if (stride == 2)
                vzip(sum[0], sum[1], sum, sum + 1);
            for (int f = 0; f < stride; f++)
                if (whole)
                    vstore(out[h] + column + f * LANES, sum[f]);
                else
                    FN(store_part)(out[h] + column + f * LANES, sum[f], -column - f * LANES, width - column - f * LANES);
        }
    }
    for (ptrdiff_t h = 0; h < nh; h++)
        if (out[h] && column < width)
            FN(zero_pixels)(out[h] + column, width - column, 1, 1);
}

FUNC void FN(strip_with_care)(const FN(strip) *s, const real *g, ptrdiff_t nh)
{
    if (s->p->w.stride == 2)
        FN(strip_of)(s, g, nh, 2, 0, 1);
    else
        FN(strip_of)(s, g, nh, 1, 0, 1);
}

FUNC void FN(strip_of_finite)(const FN(strip) *s, const real *g, ptrdiff_t nh)
{
    int usual = nh == 3 && s->begun[0] && !s->begun[1] && s->out[0] && s->out[1] && !s->out[2];
    if (usual && s->p->w.stride == 2)
        FN(strip_of)(s, g, 3, 2, 1, 0);
    else if (s->p->w.stride == 2)
        FN(strip_of)(s, g, nh, 2, 0, 0);
    else if (nh == 3)
        FN(strip_of)(s, g, 3, 1, 0, 0);
    else
        FN(strip_of)(s, g, nh, 1, 0, 0);
}

/* rows first..last-1 of a plane of out */
static void FN(strip_plane)(FN(strip) *s, const real *x, const real *g, ptrdiff_t first, ptrdiff_t last, real *out)
{
    const pool_plan *p = s->p;
    const pool_axis *axis = &p->h;
    ptrdiff_t width = p->w.in, row = p->phases * p->phase, from, to, unused, dealt = 0, unfit = -1, end = 0;
    cover(axis, first, &from, &unused);
    cover(axis, last - 1, &unused, &to);
    for (ptrdiff_t oh = from; oh <= to; oh++) {
        pool_window w = window(axis, oh);
        ptrdiff_t next = oh + 1 < axis->out ? window(axis, oh + 1).first : axis->in;
        /* rows ahead: what was written just now in other vectors than it is read in makes the reader wait */
        dealt = most(dealt, w.first);
        for (ptrdiff_t until = least(axis->in, w.first + STRIP_RING); dealt < until; dealt++) {
            real *cells = s->cells + (dealt & (STRIP_RING - 1)) * row;
            if (!(p->w.stride == 2 ? FN(deal_row)(s, x + dealt * width, 2, cells) : FN(deal_row)(s, x + dealt * width, 1, cells)))
                unfit = dealt;
        }
        for (ptrdiff_t i = 0; i < w.taps; i++) {
            ptrdiff_t h = w.first + i;
            s->x[i] = s->cells + (h & (STRIP_RING - 1)) * row;
            s->kept[i] = s->sums + (h & (STRIP_SUMS - 1)) * row;
            s->begun[i] = h < end;
            s->out[i] = h < next && h >= first && h < last ? out + h * width : 0;
        }
        end = w.first + w.taps;
        for (ptrdiff_t i = 0; i < width * axis->stride; i += 64 / (ptrdiff_t)sizeof(real))
            __builtin_prefetch(out + end * width + i, 1); /* the rows that come next */
        if (unfit >= w.first)
            FN(strip_with_care)(s, g + oh * p->w.out, w.taps);
        else
            FN(strip_of_finite)(s, g + oh * p->w.out, w.taps);
    }
    for (ptrdiff_t h = first; h < last; h++) {
        cover(axis, h, &from, &to);
        if (from > to)
            FN(zero_pixels)(out + h * width, width, 1, 1);
    }
}
