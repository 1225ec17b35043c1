/* pool_max_patch_real.h: the gradient of max pooling from x of many channels: a window's cells in vectors of channels, and its gradient
 * straight into out. Included by pool.h only, after pool_max_strip_real.h, whose words it uses.
 */

typedef struct {
    ptrdiff_t taps[3];      /* of a window along D, H and W, */
    ptrdiff_t had[3];       /* so many of them at the begin in windows before, */
    ptrdiff_t lo[3], hi[3]; /* and lo..hi-1 in the part */
    ptrdiff_t step[3];      /* reals from one to the next */
} FN(patch);

/* nd, nh, nw, had_h, had_w: as in s; `whole`: all taps are in the part, none along D in a window before */
INLINE void FN(patch_of)(const FN(patch) *s, const real *x, const real *from, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t nw, ptrdiff_t had_h, ptrdiff_t had_w,
                         int whole, ptrdiff_t lanes, int careful, real *out)
{
    vec top, g = (lanes < LANES ? vload_n(from, lanes) : vload(from)) + vzero(); /* no -0 */
    for (ptrdiff_t d = 0; d < nd; d++)
        for (ptrdiff_t h = 0; h < nh; h++)
            for (ptrdiff_t w = 0; w < nw; w++) {
                const real *at = x + d * s->step[0] + h * s->step[1] + w * s->step[2];
                vec v = lanes < LANES ? vload_n(at, lanes) : vload(at);
                top = d == 0 && h == 0 && w == 0 ? v : careful ? vmax(v, top) : vmax_fast(v, top);
            }
    for (ptrdiff_t d = 0; d < nd; d++)
        for (ptrdiff_t h = 0; h < nh; h++)
            for (ptrdiff_t w = 0; w < nw; w++) {
                ptrdiff_t at = d * s->step[0] + h * s->step[1] + w * s->step[2];
                vmask hit = FN(is_top)(lanes < LANES ? vload_n(x + at, lanes) : vload(x + at), top, careful);
                vec share = FN(only)(hit, g), sum = share;
                if (whole || (d >= s->lo[0] && d < s->hi[0] && h >= s->lo[1] && h < s->hi[1] && w >= s->lo[2] && w < s->hi[2])) {
                    if (h < had_h || w < had_w || (!whole && d < s->had[0]))
                        sum = FN(plus_only)(lanes < LANES ? vload_n(out + at, lanes) : vload(out + at), hit, g);
                    if (lanes < LANES)
                        vstore_n(out + at, sum, lanes);
                    else
                        vstore(out + at, sum);
                }
                g = (vec)((ivec)g ^ (ivec)share);
            }
}

FUNC void FN(patch_with_care)(const FN(patch) *s, const real *x, const real *g, ptrdiff_t n, real *out)
{
    const ptrdiff_t *t = s->taps;
    for (ptrdiff_t c = 0; c < n; c += LANES)
        FN(patch_of)(s, x + c, g + c, t[0], t[1], t[2], s->had[1], s->had[2], 0, least(LANES, n - c), 1, out + c);
}

FUNC void FN(patch_of_finite)(const FN(patch) *s, const real *x, const real *g, ptrdiff_t n, real *out)
{
    const ptrdiff_t *t = s->taps;
    int flat = t[0] == 1 && s->had[0] == 0, threes = flat && t[1] == 3 && t[2] == 3, twos = flat && t[1] == 2 && t[2] == 2;
    for (int a = 0; a < 3; a++)
        flat &= s->lo[a] <= 0 && s->hi[a] >= t[a];
    ptrdiff_t c = 0;
#define ALL(condition, taps, had_taps)                                                      \
    if (flat && (condition) && s->had[1] == had_taps && s->had[2] == had_taps)              \
        for (; c + LANES <= n; c += LANES)                                                  \
            FN(patch_of)(s, x + c, g + c, 1, taps, taps, had_taps, had_taps, 1, LANES, 0, out + c);
    ALL(threes, 3, 1)
    ALL(threes, 3, 2)
    ALL(twos, 2, 0)
#undef ALL
    for (; c < n; c += LANES)
        FN(patch_of)(s, x + c, g + c, t[0], t[1], t[2], s->had[1], s->had[2], 0, least(LANES, n - c), 0, out + c);
}

INLINE pool_window FN(patch_axis)(const pool_axis *axis, ptrdiff_t o, ptrdiff_t lo, ptrdiff_t first, ptrdiff_t last, int a, FN(patch) *s)
{
    pool_window w = window(axis, o), before = window(axis, most(o - 1, 0));
    s->taps[a] = w.taps;
    s->had[a] = o > lo ? least(w.taps, most(0, before.first + before.taps - w.first)) : 0;
    s->lo[a] = first - w.first;
    s->hi[a] = last - w.first;
    return w;
}

/* whether rows first..first+rows-1, `step` reals apart, of `pixels` pixels are finite in n channels */
static int FN(finite_rows)(const real *x, ptrdiff_t rows, ptrdiff_t step, ptrdiff_t pixels, ptrdiff_t n, ptrdiff_t all)
{
    vec sum = vzero();
    if (n == all) {
        n *= pixels;
        pixels = 1;
    }
    for (ptrdiff_t r = 0; r < rows; r++)
        for (ptrdiff_t i = 0; i < pixels; i++) {
            const real *at = x + r * step + i * all;
            for (ptrdiff_t c = 0; c < n; c += LANES)
                sum = vfma(n - c < LANES ? vload_n(at + c, n - c) : vload(at + c), vzero(), sum);
        }
    return !many(visnan(sum));
}

/* cells first..last-1, along the axis `cut`, of n channels of a plane of out */
static void FN(patches)(const pool_plan *p, ptrdiff_t n, const real *x, const real *g, int cut, ptrdiff_t first, ptrdiff_t last, real *out)
{
    const pool_axis *axes[3] = {&p->d, &p->h, &p->w};
    ptrdiff_t all = p->channels, begin[3] = {0, 0, 0}, end[3] = {p->d.in, p->h.in, p->w.in}, lo[3], hi[3], reached[3], unused;
    FN(patch) s = {.step = {p->h.in * p->w.in * all, p->w.in * all, all}};
    begin[cut] = first;
    end[cut] = last;
    for (int a = 0; a < 3; a++) {
        cover(axes[a], begin[a], lo + a, &unused);
        cover(axes[a], end[a] - 1, &unused, hi + a);
        pool_window w = window(axes[a], hi[a]);
        reached[a] = most(begin[a], least(end[a], w.first + w.taps)); /* no window holds cells from there on */
    }
    for (ptrdiff_t od = lo[0]; od <= hi[0]; od++) {
        pool_window wd = FN(patch_axis)(&p->d, od, lo[0], begin[0], end[0], 0, &s);
        ptrdiff_t looked = 0, unfit = -1;
        for (ptrdiff_t oh = lo[1]; oh <= hi[1]; oh++) {
            pool_window wh = FN(patch_axis)(&p->h, oh, lo[1], begin[1], end[1], 1, &s);
            for (looked = most(looked, wh.first); looked < wh.first + wh.taps; looked++)
                if (!FN(finite_rows)(x + wd.first * s.step[0] + looked * s.step[1], wd.taps, s.step[0], p->w.in, n, all))
                    unfit = looked;
            ptrdiff_t row = wd.first * s.step[0] + wh.first * s.step[1];
            const real *from = g + (od * p->h.out + oh) * p->w.out * all;
            for (ptrdiff_t ow = lo[2]; ow <= hi[2]; ow++) {
                ptrdiff_t at = row + FN(patch_axis)(&p->w, ow, lo[2], begin[2], end[2], 2, &s).first * all;
                if (unfit >= wh.first)
                    FN(patch_with_care)(&s, x + at, from + ow * all, n, out + at);
                else
                    FN(patch_of_finite)(&s, x + at, from + ow * all, n, out + at);
            }
        }
    }
    for (ptrdiff_t d = begin[0]; d < end[0]; d++)
        for (ptrdiff_t h = begin[1]; h < end[1]; h++) {
            ptrdiff_t w = d < reached[0] && h < reached[1] ? reached[2] : begin[2];
            FN(zero_pixels)(out + d * s.step[0] + h * s.step[1] + w * all, end[2] - w, n, all);
        }
}
