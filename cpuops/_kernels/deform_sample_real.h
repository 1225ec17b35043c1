/* deform_sample_real.h: where the taps of a block of positions lie, and bilinear samples there. See deform.h. */

#if IS_F64
typedef int64_t FN(deform_int);
#else
typedef int32_t FN(deform_int);
#endif

/* one worker at one block of one batch item */
typedef struct {
    const deform_call *call;
    ptrdiff_t item, block, first, n, padded; /* first channel, channels, the same in whole vectors */
    ptrdiff_t group, moved;                  /* weight group, offset group */
    real *band, *grad_band;                  /* cell 0 is a cell of zeros, then those of the rows, channels last */
    real *column, *sum;                      /* [position][ld]; the product of the forward, or the gradient [output][position] */
    ptrdiff_t top, rows;                     /* rows of x in the band */
    int patch;                               /* no band: the four cells of each position are fetched */
    /* of the positions at hand, one vector after the other */
    ptrdiff_t start, count;
    real *base_y, *base_x;   /* where tap 0 lies without offset */
    FN(deform_int) *at[4];   /* the four cells, as elements of the band: top left, top right, bottom left, bottom right */
    real *weight[4], *dot[4];
    real *part_y, *part_x;   /* how far between the cells */
    real *y, *x, *mask;      /* the top left cell */
} FN(deform_state);

INLINE void FN(deform_begin)(FN(deform_state) *s, const deform_call *c, int backward, void *memory)
{
    const ptrdiff_t p = deform_whole(DEFORM_ROWS, LANES), band = c->band_cells * c->padded;
    s->call = c;
    s->band = (real *)memory;
    real *next = s->band + band;
    s->grad_band = next;
    next += backward ? band : 0;
    s->column = next;
    next += DEFORM_ROWS * c->ld;
    for (int q = 0; q < 4; q++, next += 3 * p) {
        s->at[q] = (FN(deform_int) *)next;
        s->weight[q] = next + p;
        s->dot[q] = next + 2 * p;
    }
    s->base_y = next, s->base_x = next + p, s->part_y = next + 2 * p, s->part_x = next + 3 * p;
    s->y = next + 4 * p, s->x = next + 5 * p, s->mask = next + 6 * p;
    s->sum = next + 7 * p;
}

INLINE void FN(deform_take)(FN(deform_state) *s, ptrdiff_t item, ptrdiff_t block)
{
    const deform_call *c = s->call;
    s->item = item, s->block = block, s->first = c->starts[block], s->n = c->starts[block + 1] - s->first;
    s->padded = deform_whole(s->n, LANES);
    s->group = s->first / deform_inputs(c), s->moved = s->first / deform_moved(c);
}

/* the planes of dy and dx of a tap follow one another */
INLINE ptrdiff_t FN(deform_plane)(const FN(deform_state) *s, ptrdiff_t tap)
{
    return ((s->item * s->call->offset_groups + s->moved) * deform_taps(s->call) + tap) * deform_positions(s->call);
}

/* the rows of x that output rows [low, high) reach; whether they fit in a band */
FUNC int FN(deform_reach)(FN(deform_state) *s, ptrdiff_t low, ptrdiff_t high)
{
    const deform_call *c = s->call;
    const ptrdiff_t width = c->output[1];
    const vec height = vset((real)c->size[0]), outside = vset(-1);
    vec least = height, most = outside;
    for (ptrdiff_t tap = 0; tap < deform_taps(c); tap++) {
        const real *dy = (const real *)c->offset + 2 * FN(deform_plane)(s, tap) + low * width;
        for (ptrdiff_t row = low; row < high; row++, dy += width) {
            const vec base = vset((real)(row * c->stride[0] - c->before[0] + tap / c->kernel[1] * c->dilation[0]));
            for (ptrdiff_t i = 0; i < width; i += LANES) {
                const vec y = vfloor(width - i >= LANES ? vload(dy + i) : vload_n(dy + i, width - i)) + base;
                const vmask inside = mand(vge(y, outside), vlt(y, height));
                least = vsel(mand(inside, vlt(y, least)), y, least);
                most = vsel(mand(inside, vgt(y, most)), y, most);
            }
        }
    }
    const ptrdiff_t bottom = deform_min(c->size[0], (ptrdiff_t)vhmax(most) + 2);
    s->top = deform_max(0, (ptrdiff_t)vhmin(least));
    s->rows = deform_max(0, bottom - s->top);
    return (s->rows * c->size[1] + 1) * s->padded <= c->band_cells * c->padded;
}

INLINE void FN(deform_zero_cell)(real *cell, ptrdiff_t padded)
{
    for (ptrdiff_t i = 0; i < padded; i += LANES)
        vstore(cell + i, vzero());
}

/* the rows at hand, channels last */
FUNC void FN(deform_load_band)(FN(deform_state) *s)
{
    const deform_call *c = s->call;
    const ptrdiff_t plane = deform_cells(c), cells = s->rows * c->size[1];
    const real *x = (const real *)c->x + (s->item * c->channels + s->first) * plane + s->top * c->size[1];
    FN(deform_zero_cell)(s->band, s->padded);
    for (ptrdiff_t i = 0; i < cells; i += LANES)
        for (ptrdiff_t k = 0; k < s->n; k += LANES)
            FN(transpose_tile)(x + k * plane + i, plane, s->n - k, cells - i, s->band + (i + 1) * s->padded + k, s->padded);
}

/* rows [low, high) of output at once if their band fits, else fewer; the row after the last one of them */
INLINE ptrdiff_t FN(deform_strip)(FN(deform_state) *s, ptrdiff_t low, ptrdiff_t high)
{
    while (s->patch = !FN(deform_reach)(s, low, high), s->patch && high - low > 1)
        high = low + (high - low) / 2;
    return high;
}

/* `count` positions from `start`, in row-major order */
INLINE void FN(deform_places)(FN(deform_state) *s, ptrdiff_t start, ptrdiff_t count)
{
    const deform_call *c = s->call;
    ptrdiff_t row = start / c->output[1], column = start % c->output[1];
    s->start = start, s->count = count;
    for (ptrdiff_t p = 0; p < deform_whole(count, LANES); p++) {
        s->base_y[p] = (real)(row * c->stride[0] - c->before[0]);
        s->base_x[p] = (real)(column * c->stride[1] - c->before[1]);
        if (++column == c->output[1])
            column = 0, row++;
    }
}

/* the cells and weights of one tap at the positions at hand. A cell that x does not have is cell 0. A sample whose place is
 * outside has no cell; one whose place is NaN has none and weights of NaN */
FUNC void FN(deform_corners)(FN(deform_state) *s, ptrdiff_t tap)
{
    const deform_call *c = s->call;
    const ptrdiff_t plane = FN(deform_plane)(s, tap), positions = deform_positions(c);
    const real *dy = (const real *)c->offset + 2 * plane + s->start, *dx = dy + positions;
    const real *mask = c->mask ? (const real *)c->mask + plane + s->start : NULL;
    const vec tap_y = vset((real)(tap / c->kernel[1] * c->dilation[0])), tap_x = vset((real)(tap % c->kernel[1] * c->dilation[1]));
    const vec zero = vzero(), one = vset(1), before = vset(-1), nan = vset((real)NAN);
    const vec height = vset((real)c->size[0]), width = vset((real)c->size[1]);
    const vec last_y = vset((real)(c->size[0] - 1)), last_x = vset((real)(c->size[1] - 1));
    const vec top = vset((real)s->top), cell = vset((real)s->padded), row = vset((real)(c->size[1] * s->padded));
    const vec slot = vset((real)(deform_whole(DEFORM_ROWS, LANES) * s->padded));
    for (ptrdiff_t p = 0; p < s->count; p += LANES) {
        const ptrdiff_t n = deform_min(LANES, s->count - p);
        const vec moved_y = vload_n(dy + p, n), moved_x = vload_n(dx + p, n), floor_y = vfloor(moved_y), floor_x = vfloor(moved_x);
        const vec y = floor_y + (vload(s->base_y + p) + tap_y), x = floor_x + (vload(s->base_x + p) + tap_x);
        vec part_y = moved_y - floor_y, part_x = moved_x - floor_x;
        /* -1 < y + part < size */
        const vmask in_y = mand(vlt(y, height), mor(vge(y, zero), mand(vge(y, before), vgt(part_y, zero))));
        const vmask in_x = mand(vlt(x, width), mor(vge(x, zero), mand(vge(x, before), vgt(part_x, zero))));
        const vmask in = mand(in_y, in_x);
        const vec none = vsel(mor(visnan(moved_y), visnan(moved_x)), nan, zero);
        part_y = vsel(in, part_y, none), part_x = vsel(in, part_x, none);
        const vmask up = mand(in, vge(y, zero)), down = mand(in, vlt(y, last_y)), left = vge(x, zero), right = vlt(x, last_x);
        const vmask there[4] = {mand(up, left), mand(up, right), mand(down, left), mand(down, right)};
        const vec here = ((viota() + vset((real)p)) + one) * cell;
        const vec corner = (y - top) * row + (x + one) * cell;
        const vec places[4] = {corner, corner + cell, corner + row, corner + row + cell};
        const vec slots[4] = {here, here + slot, here + slot + slot, here + slot + slot + slot};
        const vec weights[4] = {(one - part_y) * (one - part_x), (one - part_y) * part_x, part_y * (one - part_x), part_y * part_x};
        for (int q = 0; q < 4; q++) {
            *(ivec *)(s->at[q] + p) = __builtin_convertvector(vsel(there[q], s->patch ? slots[q] : places[q], zero), ivec);
            vstore(s->weight[q] + p, weights[q]);
        }
        vstore(s->part_y + p, part_y), vstore(s->part_x + p, part_x);
        vstore(s->y + p, y), vstore(s->x + p, x);
        vstore(s->mask + p, mask ? vload_n(mask + p, n) : one);
    }
}

/* element of x, of the first channel of the block, that corner q of position p is */
INLINE ptrdiff_t FN(deform_cell)(const FN(deform_state) *s, int q, ptrdiff_t p)
{
    const deform_call *c = s->call;
    return (s->item * c->channels + s->first) * deform_cells(c) + ((ptrdiff_t)s->y[p] + q / 2) * c->size[1] + (ptrdiff_t)s->x[p] + q % 2;
}

/* the four cells of each position, channels last */
FUNC void FN(deform_fetch)(FN(deform_state) *s)
{
    const ptrdiff_t plane = deform_cells(s->call);
    FN(deform_zero_cell)(s->band, s->padded);
    for (int q = 0; q < 4; q++)
        for (ptrdiff_t p = 0; p < s->count; p++)
            if (s->at[q][p]) {
                const real *from = (const real *)s->call->x + FN(deform_cell)(s, q, p);
                real *to = s->band + s->at[q][p];
                for (ptrdiff_t k = 0; k < s->n; k++)
                    to[k] = from[k * plane];
                for (ptrdiff_t k = s->n; k < s->padded; k++)
                    to[k] = 0;
            }
}

/* the columns of taps [low, high) at the positions at hand. What a tap writes beyond its channels, the next one overwrites */
FUNC void FN(deform_sample)(FN(deform_state) *s, ptrdiff_t low, ptrdiff_t high)
{
    const ptrdiff_t ld = s->call->ld, padded = s->padded;
    for (ptrdiff_t tap = low; tap < high; tap++) {
        FN(deform_corners)(s, tap);
        if (s->patch)
            FN(deform_fetch)(s);
        real *to = s->column + (tap - low) * s->n;
        for (ptrdiff_t p = 0; p < s->count; p++, to += ld) {
            const real *a = s->band + s->at[0][p], *b = s->band + s->at[1][p];
            const real *c = s->band + s->at[2][p], *d = s->band + s->at[3][p];
            const vec wa = vset(s->weight[0][p]), wb = vset(s->weight[1][p]);
            const vec wc = vset(s->weight[2][p]), wd = vset(s->weight[3][p]), mask = vset(s->mask[p]);
            for (ptrdiff_t i = 0; i < padded; i += LANES) {
                vec v = wa * vload(a + i);
                v = vfma(wb, vload(b + i), v);
                v = vfma(wc, vload(c + i), v);
                v = vfma(wd, vload(d + i), v);
                vstore(to + i, v * mask);
            }
        }
    }
}
