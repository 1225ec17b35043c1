/* pad_real.h: rows of a padded array, and of its gradient. Included by pad.h only. */

/* the stores between the ends are aligned: one that crosses a cache line costs two */
INLINE void FN(copy_cells)(real *to, const real *from, ptrdiff_t n)
{
    if (n < 2 * LANES) {
        ptrdiff_t i = n < LANES ? 0 : LANES;
        if (i)
            vstore(to, vload(from));
        if (i < n)
            vstore_n(to + i, vload_n(from + i, n - i), n - i);
        return;
    }
    if (n * (ptrdiff_t)sizeof(real) >= LONG_COPY) {
        memcpy(to, from, (size_t)n * sizeof(real));
        return;
    }
    vstore(to, vload(from));
    for (ptrdiff_t i = LANES - (ptrdiff_t)((uintptr_t)to / sizeof(real) % LANES); i + LANES <= n; i += LANES)
        vstore(to + i, vload(from + i));
    vstore(to + n - LANES, vload(from + n - LANES));
}

INLINE void FN(fill_cells)(real *to, real value, ptrdiff_t n)
{
    vec v = vset(value);
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vstore(to + i, v);
    if (i < n)
        vstore_n(to + i, v, n - i);
}

/* the same in whole vectors, where what follows is written later (and read from x too): short rows have no time for tails */
INLINE void FN(copy_over)(real *to, const real *from, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += LANES)
        vstore(to + i, vload(from + i));
}

INLINE void FN(fill_over)(real *to, real value, ptrdiff_t n)
{
    if (n <= 3) {
        for (ptrdiff_t i = 0; i < n; i++)
            to[i] = value;
        return;
    }
    for (ptrdiff_t i = 0; i < n; i += LANES)
        vstore(to + i, vset(value));
}

/* reals a..b-1 of a row, all on one side of x, which show cells of x's row */
static void FN(show_cells)(const pad_axis *last, const real *row, ptrdiff_t inner, ptrdiff_t a, ptrdiff_t b, real *to)
{
    if (inner == 1 && last->mode == PAD_EDGE) {
        FN(fill_cells)(to + a, row[a < last->before ? 0 : last->in - 1], b - a);
        return;
    }
    if (inner == 1) {
        for (ptrdiff_t c = a; c < b; c++)
            to[c] = row[source(last, c)];
        return;
    }
    for (ptrdiff_t c = a; c < b;) {
        ptrdiff_t o = c / inner, end = lesser(b, (o + 1) * inner);
        FN(copy_cells)(to + c, row + source(last, o) * inner + (c - o * inner), end - c);
        c = end;
    }
}

INLINE void FN(outside)(const pad_plan *p, const real *row, ptrdiff_t a, ptrdiff_t b, real *to)
{
    if (a >= b)
        return;
    if (p->axes[p->n - 1].mode == PAD_CONSTANT)
        FN(fill_cells)(to + a, (real)p->value, b - a);
    else
        FN(show_cells)(&p->axes[p->n - 1], row, p->inner, a, b, to);
}

/* a whole short row */
INLINE void FN(pad_row_over)(const pad_axis *last, real value, const real *from, real *to)
{
    ptrdiff_t before = last->before, in = last->in, after = last->out - before - in;
    if (last->mode != PAD_REFLECT) {
        FN(fill_over)(to, last->mode == PAD_EDGE ? from[0] : value, before);
        FN(copy_over)(to + before, from, in);
        FN(fill_over)(to + before + in, last->mode == PAD_EDGE ? from[in - 1] : value, after);
        return;
    }
    for (ptrdiff_t c = 0; c < before; c++)
        to[c] = from[before - c];
    FN(copy_over)(to + before, from, in);
    for (ptrdiff_t c = 0; c < after; c++)
        to[before + in + c] = from[in - 2 - c];
}

/* reals lo..hi-1 of the output */
FUNC void FN(pad_cells)(const pad_plan *p, ptrdiff_t lo, ptrdiff_t hi)
{
    const pad_axis rows = p->axes[p->n - 2], last = p->axes[p->n - 1];
    ptrdiff_t inner = p->inner, length = last.out * inner, begin = last.before * inner, own = last.in * inner, row = lo / length;
    ptrdiff_t planes = 1; /* of x */
    for (ptrdiff_t axis = 0; axis < p->n - 2; axis++)
        planes *= p->axes[axis].in;
    real *to = (real *)p->to + row * length, value = (real)p->value;
    const real *x = (const real *)p->from, *end = x + planes * rows.in * own;
    int is_short = inner == 1 && length * (ptrdiff_t)sizeof(real) < SHORT_ROW && (last.mode != PAD_REFLECT || mirrored_once(&last));
    pad_cursor c;
    cursor_start(p, &c, row / rows.out, 0);
    settle(p, &c, 0);
    lo -= row * length;
    hi -= row * length;
    for (ptrdiff_t o = row % rows.out; hi > 0; o = 0) {
        ptrdiff_t plane = c.plane[p->n - 2];
        for (; o < rows.out && hi > 0; o++, lo = 0, hi -= length, to += length) {
            ptrdiff_t a = lo, b = lesser(hi, length), at = plane < 0 ? -1 : source(&rows, o);
            const real *from = x + (plane * rows.in + at) * own;
            int over = is_short && lo == 0 && hi >= length + LANES;
            if (at < 0 && over)
                FN(fill_over)(to, value, length);
            else if (at < 0)
                FN(fill_cells)(to + a, value, b - a);
            else if (over && end - from >= own + LANES)
                FN(pad_row_over)(&last, value, from, to);
            else {
                FN(outside)(p, from, a, lesser(b, begin), to);
                ptrdiff_t first = greater(a, begin), stop = lesser(b, begin + own);
                if (first < stop)
                    FN(copy_cells)(to + first, from + (first - begin), stop - first);
                FN(outside)(p, from, greater(a, begin + own), b, to);
            }
        }
        settle(p, &c, cursor_step(p, &c, 0));
    }
}

/* ---- the gradient: x_grad[i] = sum of output_grad[o] over the cells o that show i, in their order, in double */

/* reals a..b-1 of x's row, taken from one row of output_grad: written to the line, or added to what is there */
INLINE void FN(add_once)(const real *row, ptrdiff_t n, int first, double *line)
{
    ptrdiff_t i = 0;
    for (; i + WLANES <= n; i += WLANES)
        vstore_f64(line + i, first ? wload(row + i) : vload_f64(line + i) + wload(row + i));
    for (; i < n; i++)
        line[i] = first ? (double)row[i] : line[i] + (double)row[i];
}

static void FN(add_shown)(const pad_axis *last, const real *row, ptrdiff_t inner, ptrdiff_t a, ptrdiff_t b, int first, double *line)
{
    for (ptrdiff_t c = a; c < b;) {
        ptrdiff_t i = c / inner, end = lesser(b, (i + 1) * inner);
        int fresh = first;
        for (ptrdiff_t o = next_holder(last, i, -1); o >= 0; o = next_holder(last, i, o), fresh = 0)
            FN(add_once)(row + o * inner + (c - i * inner), end - c, fresh, line + (c - a));
        c = end;
    }
}

/* reals a..b-1 of x's row, b - a <= PAD_LINE, from one row of output_grad */
static void FN(add_row)(const pad_plan *p, const real *row, ptrdiff_t once, ptrdiff_t twice, ptrdiff_t a, ptrdiff_t b, int first, double *line)
{
    const pad_axis *last = &p->axes[p->n - 1];
    ptrdiff_t lo = greater(a, lesser(b, once)), hi = greater(lo, lesser(b, twice));
    FN(add_shown)(last, row, p->inner, a, lo, first, line);
    FN(add_once)(row + (lo + last->before * p->inner), hi - lo, first, line + (lo - a));
    FN(add_shown)(last, row, p->inner, hi, b, first, line + (hi - a));
}

INLINE void FN(round_cells)(const double *line, ptrdiff_t n, real *to)
{
    for (ptrdiff_t i = 0; i < n; i++)
        to[i] = (real)line[i];
}

/* reals a..b-1 of x's row from the one row of output_grad that shows it, none of them shown once; inner 1 */
static void FN(sum_shown)(const pad_axis *last, const real *row, ptrdiff_t a, ptrdiff_t b, real *to)
{
    for (ptrdiff_t i = a; i < b; i++) {
        ptrdiff_t o = next_holder(last, i, -1);
        double sum = row[o];
        while ((o = next_holder(last, i, o)) >= 0)
            sum += (double)row[o];
        to[i] = (real)sum;
    }
}

/* reals a..b-1 of row h of x, b - a <= PAD_LINE, which several rows of output_grad show */
static void FN(sum_rows)(const pad_plan *p, const pad_cursor *c, ptrdiff_t h, ptrdiff_t once, ptrdiff_t twice, ptrdiff_t a, ptrdiff_t b, real *to)
{
    double line[PAD_LINE];
    ptrdiff_t held[MOST_AXES], outer = p->n - 1, wide = p->axes[outer].out * p->inner, k;
    int first = 1;
#define AT(k) ((k) < outer - 1 ? c->at[k] : h)
    for (k = 0; k < outer; k++)
        held[k] = next_holder(&p->axes[k], AT(k), -1);
    do {
        ptrdiff_t at = 0;
        for (k = 0; k < outer; k++)
            at = at * p->axes[k].out + held[k];
        FN(add_row)(p, (const real *)p->from + at * wide, once, twice, a, b, first, line);
        first = 0;
        for (k = outer - 1; k >= 0; k--) {
            ptrdiff_t next = next_holder(&p->axes[k], AT(k), held[k]);
            if (next >= 0) {
                held[k] = next;
                break;
            }
            held[k] = next_holder(&p->axes[k], AT(k), -1);
        }
    } while (k >= 0);
#undef AT
    FN(round_cells)(line, b - a, to + a);
}

/* reals lo..hi-1 of x_grad */
FUNC void FN(pad_gather)(const pad_plan *p, ptrdiff_t lo, ptrdiff_t hi)
{
    const pad_axis rows = p->axes[p->n - 2], last = p->axes[p->n - 1];
    ptrdiff_t inner = p->inner, length = last.in * inner, row = lo / length, wide = last.out * inner, skip = last.before * inner;
    ptrdiff_t once, twice, row_once, row_twice, planes = 1; /* of output_grad */
    real *to = (real *)p->to + row * length;
    double line[PAD_LINE];
    pad_cursor c;
    for (ptrdiff_t axis = 0; axis < p->n - 2; axis++) {
        planes *= p->axes[axis].out;
        shown_once(&p->axes[axis], &c.once[axis], &c.twice[axis]);
    }
    shown_once(&rows, &row_once, &row_twice);
    shown_once(&last, &once, &twice);
    once *= inner;
    twice *= inner;
    const real *g = (const real *)p->from, *end_of_g = g + planes * rows.out * wide;
    int is_short = length * (ptrdiff_t)sizeof(real) < SHORT_ROW;
    cursor_start(p, &c, row / rows.in, 1);
    settle_back(p, &c, 0);
    lo -= row * length;
    hi -= row * length;
    for (ptrdiff_t h = row % rows.in; hi > 0; h = 0) {
        ptrdiff_t plane = c.plane[p->n - 2];
        for (; h < rows.in && hi > 0; h++, lo = 0, hi -= length, to += length) {
            ptrdiff_t b = lesser(hi, length);
            int single = plane >= 0 && h >= row_once && h < row_twice;
            const real *from = g + (plane * rows.out + h + rows.before) * wide;
            int over = is_short && hi >= length + LANES && end_of_g - from >= skip + length + LANES;
            for (ptrdiff_t a = lo, end; a < b; a = end) {
                end = lesser(b, a + PAD_LINE);
                if (!single)
                    FN(sum_rows)(p, &c, h, once, twice, a, end, to);
                else if (a >= once && a < twice) {
                    end = lesser(b, twice);
                    if (over)
                        FN(copy_over)(to + a, from + skip + a, end - a);
                    else
                        FN(copy_cells)(to + a, from + skip + a, end - a);
                } else {
                    end = a < once ? lesser(end, once) : end;
                    if (inner == 1)
                        FN(sum_shown)(&last, from, a, end, to);
                    else {
                        FN(add_row)(p, from, once, twice, a, end, 1, line);
                        FN(round_cells)(line, end - a, to + a);
                    }
                }
            }
        }
        settle_back(p, &c, cursor_step(p, &c, 1));
    }
}
