/* pool_threes_real.h: windows of three cells along W, a stride of one or two apart, of one channel: in registers, without a line.
 * Included by pool.h only, before pool_max_real.h and pool_avg_real.h, which tell what is folded.
 */

/* the lanes `from` on of two vectors laid end to end */
#define RUN2(b) (b), (b) + 1
#define RUN4(b) RUN2(b), RUN2((b) + 2)
#define RUN8(b) RUN4(b), RUN4((b) + 4)
#define RUN16(b) RUN8(b), RUN8((b) + 8)
#if SIMD_BYTES == 64 && !IS_F64
#define RUN RUN16
#elif SIMD_BYTES == 64 || (SIMD_BYTES == 32 && !IS_F64)
#define RUN RUN8
#elif SIMD_BYTES == 32 || !IS_F64
#define RUN RUN4
#else
#define RUN RUN2
#endif

/* cells side by side in a, b and `next` (stride 2 only): of a vector of windows the first ones, the second and the third */
INLINE void FN(three_taps)(vec a, vec b, vec next, int stride, vec *taps)
{
    if (stride == 2) {
        vdeal(a, b, taps, taps + 1);
        taps[2] = __builtin_shufflevector(taps[0], next, RUN(1));
    } else {
        taps[0] = a;
        taps[1] = __builtin_shufflevector(a, b, RUN(1));
        taps[2] = __builtin_shufflevector(a, b, RUN(2));
    }
}

/* lanes `by` places earlier, of vectors that follow one another */
INLINE vec FN(lag)(vec before, vec now, int by)
{
    return by == 1 ? __builtin_shufflevector(before, now, RUN(SIMD_BYTES / sizeof(real) - 1)) : __builtin_shufflevector(before, now, RUN(SIMD_BYTES / sizeof(real) - 2));
}
#undef RUN2
#undef RUN4
#undef RUN8
#undef RUN16
#undef RUN

/* which lanes of a vector from `column` on are in a row of `width` cells */
INLINE vmask FN(in_row)(ptrdiff_t column, ptrdiff_t width) { return mspan(-column, width - column); }

/* ---- maxima: n windows, whose columns begin at `column` of rows of `width` cells; r->x: column 0 of their first row. With r->whole
 * vectors may be read that reach beyond the row; their lanes there become padding */

INLINE vec FN(three_cells)(const real *at, vmask inside, int whole) { return whole ? vload(at) : vload_m(at, inside); }

INLINE vec FN(fold_cells)(const FN(max_rows) *r, ptrdiff_t column, ptrdiff_t width, ptrdiff_t nd, ptrdiff_t nh, int whole)
{
    vmask inside = FN(in_row)(column, width);
    vec best = FN(three_cells)(r->x + column, inside, whole);
    for (ptrdiff_t d = 0; d < nd; d++)
        for (ptrdiff_t h = d == 0; h < nh; h++)
            best = vmax(FN(three_cells)(r->x + column + d * r->step_d + h * r->step_h, inside, whole), best);
    return column >= 0 && column + LANES <= width ? best : vsel(inside, best, vset(-(real)INFINITY));
}

INLINE void FN(max_threes_of)(const FN(max_rows) *r, ptrdiff_t nd, ptrdiff_t nh, int stride, ptrdiff_t column, ptrdiff_t width, ptrdiff_t n, int whole,
                              real *out)
{
    vec a = FN(fold_cells)(r, column, width, nd, nh, whole), v[3];
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        vec b = FN(fold_cells)(r, column + LANES, width, nd, nh, whole), next = b;
        column += stride * LANES;
        if (stride == 2)
            next = FN(fold_cells)(r, column, width, nd, nh, whole);
        FN(three_taps)(a, b, next, stride, v);
        FN(store_some)(out + i, vmax(v[2], vmax(v[1], v[0])), n - i);
        a = next;
    }
}

/* stride 2: rows are folded along W first, so that the first of equals is the first in row-major order; found: as of runs */
INLINE void FN(argmax_threes_of)(const FN(max_rows) *r, ptrdiff_t nd, ptrdiff_t nh, ptrdiff_t column, ptrdiff_t width, ptrdiff_t n, int whole, real *out,
                                 inum *found)
{
    vec lowest = vset(-(real)INFINITY);
    for (ptrdiff_t i = 0; i < n; i += LANES, column += 2 * LANES) {
        vec best = vzero();
        ivec place = ivset(0);
        vmask in_a = FN(in_row)(column, width), in_b = FN(in_row)(column + LANES, width), in_next = FN(in_row)(column + 2 * LANES, width);
        int edge = column < 0 || column + 3 * LANES > width;
        for (ptrdiff_t d = 0; d < nd; d++)
            for (ptrdiff_t h = 0; h < nh; h++) {
                const real *row = r->x + column + d * r->step_d + h * r->step_h;
                vec a = FN(three_cells)(row, in_a, whole), b = FN(three_cells)(row + LANES, in_b, whole);
                vec next = FN(three_cells)(row + 2 * LANES, in_next, whole), v[3];
                if (edge) {
                    a = vsel(in_a, a, lowest);
                    b = vsel(in_b, b, lowest);
                    next = vsel(in_next, next, lowest);
                }
                FN(three_taps)(a, b, next, 2, v);
                vmask keep = KEEPS(v[1], v[0]);
                vec top = vsel(keep, v[0], v[1]);
                ivec at = ivsel(keep, ivset(0), ivset(1));
                if (column < 0) /* any cell of x before the padding */
                    at = ivsel(mspan(0, 1), ivset(1), at);
                keep = KEEPS(v[2], top);
                top = vsel(keep, top, v[2]);
                at = ivsel(keep, at, ivset(2)) + ivset((inum)(d * r->code_d + h * r->code_h));
                if (d == 0 && h == 0) {
                    best = top;
                    place = at;
                    continue;
                }
                keep = KEEPS(top, best);
                best = vsel(keep, best, top);
                place = ivsel(keep, place, at);
            }
        FN(store_some)(out + i, best, n - i);
        ivstore(found + i, place);
    }
}

FUNC void FN(max_threes)(const FN(max_rows) *r, int stride, ptrdiff_t column, ptrdiff_t width, ptrdiff_t n, real *out)
{
#define CALL(nd, nh)                                                     \
    if (!r->whole)                                                       \
        FN(max_threes_of)(r, nd, nh, stride, column, width, n, 0, out);  \
    else if (stride == 2)                                                \
        FN(max_threes_of)(r, nd, nh, 2, column, width, n, 1, out);       \
    else                                                                 \
        FN(max_threes_of)(r, nd, nh, 1, column, width, n, 1, out)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}

FUNC void FN(argmax_threes)(const FN(max_rows) *r, ptrdiff_t column, ptrdiff_t width, ptrdiff_t n, real *out, inum *found)
{
#define CALL(nd, nh)                                                       \
    if (r->whole)                                                          \
        FN(argmax_threes_of)(r, nd, nh, column, width, n, 1, out, found);  \
    else                                                                   \
        FN(argmax_threes_of)(r, nd, nh, column, width, n, 0, out, found)
    BY_ROWS(r->nd, r->nh, CALL)
#undef CALL
}
