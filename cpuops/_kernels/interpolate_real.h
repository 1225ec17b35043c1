/* interpolate_real.h: bands of rows of out by each order of interpolate.h, which includes it. */

typedef struct {
    ptrdiff_t plane, od, h0, h1, o0, o1, c0, c1;
    FN(terms) d;
    FN(source) source;
    real *block, *more, *turned, *ring, *result;
    FN(pattern) even, odd;
    pick_group *picks;
    ptrdiff_t tile, picked;        /* the tile whose columns and groups these are */
    ptrdiff_t few;                 /* its outputs, where they are at most a vector of copied cells, */
    inum cells[LANES];             /* and which cells */
} FN(unit);

/* row h of out, at the unit's first column */
INLINE char *FN(row_of_out)(const resample_plan *p, const FN(unit) *u, ptrdiff_t channel, ptrdiff_t h)
{
    ptrdiff_t item = p->bytes ? 1 : (ptrdiff_t)sizeof(real);
    ptrdiff_t plane = u->plane * p->channels + channel;
    return (char *)p->out + (((plane * p->d.out + u->od) * p->h.out + h) * p->w.out + u->o0) * item;
}

/* the columns of `rows` rows, to rows `to_line` apart */
FUNC void FN(columns)(const resample_plan *p, const FN(unit) *u, const real *x, ptrdiff_t line, ptrdiff_t rows, ptrdiff_t channel, real *to,
                      ptrdiff_t to_line)
{
    ptrdiff_t cells = u->c1 - u->c0;
    if (p->turned) {
        FN(block_turned)(p, x, line, rows, u->c0, cells, channel, u->turned, to, to_line, u->o0, u->o1);
        return;
    }
    for (ptrdiff_t r = 0; r < rows; r++)
        FN(line)(&p->w, &u->even, &u->odd, x + r * line, u->c0, cells, to + r * to_line, u->o0, u->o1);
}

/* rows h..h+rows-1 of x (of out, where those are as many), columns c0..c1-1: where they lie, or summed into the block */
INLINE const real *FN(source_rows)(const resample_plan *p, const FN(unit) *u, const resample_axis *axis, ptrdiff_t h, ptrdiff_t rows, ptrdiff_t *line)
{
    if (!p->bytes && p->d.start == NULL && axis->start == NULL) {
        *line = u->source.row / (ptrdiff_t)sizeof(real);
        return (const real *)(u->source.x + u->d.only * u->source.area + h * u->source.row);
    }
    *line = p->line;
    FN(terms) only = FN(terms_of)(axis, h);
    if (!p->bytes && rows == 1 && u->d.n * only.n == 1 && FN(share)(&u->d, 0) * FN(share)(&only, 0) == 1)
        return (const real *)(u->source.x + FN(cell)(&u->d, 0) * u->source.area + FN(cell)(&only, 0) * u->source.row);
    for (ptrdiff_t r = 0; r < rows; r++)
        FN(row_of_x)(p, &u->source, u->d, FN(terms_of)(axis, h + r), u->block + r * p->line, u->more, (u->c1 - u->c0) * p->channels);
    return u->block;
}

FUNC void FN(unit_rows)(const resample_plan *p, const FN(unit) *u)
{
    for (ptrdiff_t h = u->h0; h < u->h1; h++) {
        char *out = FN(row_of_out)(p, u, 0, h);
        real *to = p->bytes ? u->result : (real *)out;
        FN(row_of_x)(p, &u->source, u->d, FN(terms_of)(&p->h, h), to, u->more, u->o1 - u->o0);
        if (p->bytes)
            FN(store_row)(to, (uint8_t *)out, u->o1 - u->o0);
    }
}

FUNC void FN(unit_first_h)(const resample_plan *p, const FN(unit) *u)
{
    for (ptrdiff_t h = u->h0; h < u->h1; h += p->block) {
        ptrdiff_t line, rows = least(p->block, u->h1 - h);
        const real *x = FN(source_rows)(p, u, &p->h, h, rows, &line);
        for (ptrdiff_t channel = 0; channel < p->channels; channel++) {
            char *out = FN(row_of_out)(p, u, channel, h);
            if (!p->bytes) {
                FN(columns)(p, u, x, line, rows, channel, (real *)out, p->w.out);
                continue;
            }
            FN(columns)(p, u, x, line, rows, channel, u->ring, p->ring_line);
            for (ptrdiff_t r = 0; r < rows; r++)
                FN(store_row)(u->ring + r * p->ring_line, (uint8_t *)out + r * p->w.out, u->o1 - u->o0);
        }
    }
}

/* see that the columns of group g of rows of x are in the ring, in its own place */
INLINE void FN(hold)(const resample_plan *p, const FN(unit) *u, ptrdiff_t g, ptrdiff_t *held, ptrdiff_t groups)
{
    ptrdiff_t slot = g & (groups - 1), first = g * p->block, line;
    if (held[slot] == g)
        return;
    held[slot] = g;
    resample_axis as_it_is = {.in = p->h.in, .out = p->h.in};
    ptrdiff_t rows = least(p->block, p->h.in - first);
    const real *x = FN(source_rows)(p, u, &as_it_is, first, rows, &line);
    for (ptrdiff_t channel = 0; channel < p->channels; channel++)
        FN(columns)(p, u, x, line, rows, channel, u->ring + (channel * p->ring + slot * p->block) * p->ring_line, p->ring_line);
}

FUNC void FN(unit_first_w)(const resample_plan *p, const FN(unit) *u)
{
    enum { NOTHING = -1 };
    ptrdiff_t groups = p->ring / p->block, held[MOST_RING];
    int shift = __builtin_ctzll((unsigned long long)p->block);
    for (ptrdiff_t g = 0; g < groups; g++)
        held[g] = NOTHING;
    for (ptrdiff_t h = u->h0; h < u->h1; h++) {
        FN(terms) t = FN(terms_of)(&p->h, h);
        for (ptrdiff_t k = 0; k < t.n; k++)
            FN(hold)(p, u, t.index[k] >> shift, held, groups);
        for (ptrdiff_t channel = 0; channel < p->channels; channel++) {
            const real *ring = u->ring + channel * p->ring * p->ring_line;
            char *out = FN(row_of_out)(p, u, channel, h);
            real *to = p->bytes ? u->result : (real *)out;
            const char *rows[RUN];
            for (ptrdiff_t k = 0; k < t.n || k == 0; k += RUN) {
                ptrdiff_t m = least(RUN, t.n - k);
                for (ptrdiff_t i = 0; i < m; i++)
                    rows[i] = (const char *)(ring + (t.index[k + i] & (p->ring - 1)) * p->ring_line);
                FN(sum_rows)(rows, t.weight + k, m, to, u->o1 - u->o0, 0, k > 0);
            }
            if (p->bytes)
                FN(store_row)(to, (uint8_t *)out, u->o1 - u->o0);
        }
    }
}

FUNC void FN(unit_long)(const resample_plan *p, FN(unit) *u)
{
    for (ptrdiff_t h = u->h0; h < u->h1; h++) {
        char *out = FN(row_of_out)(p, u, 0, h);
        for (ptrdiff_t o = u->o0; o < u->o1; o++) {
            FN(terms) t = FN(terms_of)(&p->w, o);
            double total = 0;
            for (ptrdiff_t k = 0, end; k < t.n; k = end) {
                ptrdiff_t line;
                end = least(t.n, k + p->span);
                while (t.index[end - 1] - t.index[k] >= p->span)
                    end = k + (end - k + 1) / 2;
                u->c0 = t.index[k];
                u->c1 = t.index[end - 1] + 1;
                u->source = FN(source_of)(p, u->plane, u->c0);
                const real *x = FN(source_rows)(p, u, &p->h, h, 1, &line);
                total += (double)FN(long_dot)(x, t.index + k, t.weight + k, end - k, u->c0);
            }
            real result = (real)total;
            if (p->bytes)
                FN(store_row)(memcpy(u->result, &result, sizeof result), (uint8_t *)out + (o - u->o0), 1);
            else
                ((real *)out)[o - u->o0] = result;
        }
    }
}

/* what rows of few outputs gather */
static void FN(set_few)(const resample_axis *w, FN(unit) *u)
{
    ptrdiff_t n = u->o1 - u->o0;
    u->few = w->start && n <= LANES && w->start[u->o1] - w->start[u->o0] == n && u->c1 - u->c0 <= INT32_MAX ? n : 0;
    for (ptrdiff_t i = 0; i < LANES; i++)
        u->cells[i] = i < u->few ? (inum)(w->index[w->start[u->o0] + i] - u->c0) : 0;
}

FUNC void FN(unit_pick_few)(const resample_plan *p, const FN(unit) *u)
{
    real *to = (real *)FN(row_of_out)(p, u, 0, u->h0);
    const char *plane = u->source.x + (u->d.n ? FN(cell)(&u->d, 0) * u->source.area : 0), *before = NULL;
    vec v = vzero();
    for (ptrdiff_t h = u->h0; h < u->h1; h++, to += p->w.out) {
        FN(terms) t = FN(terms_of)(&p->h, h);
        if (t.n == 0 || u->d.n == 0) {
            vstore_n(to, vzero(), u->few);
            continue;
        }
        const char *from = plane + FN(cell)(&t, 0) * u->source.row;
        if (from != before)
            v = vgather((const real *)from, ivload(u->cells), mspan(0, u->few));
        before = from;
        vstore_n(to, v, u->few);
    }
}

/* cells that are only copied; bytes: groups of the unit's tile */
FUNC void FN(unit_pick)(const resample_plan *p, const FN(unit) *u)
{
    const resample_axis *w = &p->w;
    ptrdiff_t item = p->bytes ? 1 : (ptrdiff_t)sizeof(real);
    size_t row = (size_t)((u->o1 - u->o0) * item);
    for (ptrdiff_t channel = 0; channel < p->channels; channel++) {
        const char *before = NULL, *copied = NULL; /* the row of x before, and what has become of it */
        for (ptrdiff_t h = u->h0; h < u->h1; h++) {
            FN(terms) t = FN(terms_of)(&p->h, h);
            char *to = FN(row_of_out)(p, u, channel, h);
            if (t.n == 0 || u->d.n == 0) {
                memset(to, 0, row);
                continue;
            }
            const char *from = u->source.x + FN(cell)(&u->d, 0) * u->source.area + FN(cell)(&t, 0) * u->source.row + channel;
            if (from == before)
                memcpy(to, copied, row);
            else if (u->picked)
                pick_row(u->picks, u->picked, (const uint8_t *)from, (uint8_t *)to);
            else if (p->bytes)
                pick_cells(w, (const uint8_t *)from, u->c0, p->channels, (uint8_t *)to, u->o0, u->o1);
            else if (w->start == NULL)
                memcpy(to, from, row);
            else
                FN(line)(w, &u->even, &u->odd, (const real *)from, u->c0, u->c1 - u->c0, (real *)to, u->o0, u->o1);
            before = from;
            copied = to;
        }
    }
}

/* what a worker keeps from unit to unit of a banded order: its memory, and the patterns of W */
INLINE void FN(lay_unit)(const resample_plan *p, void *memory, FN(unit) *u)
{
    u->picks = (pick_group *)memory;
    u->picked = 0;
    u->tile = -1;
    u->block = (real *)memory;
    u->more = u->block + p->block * p->line;
    u->turned = u->more + p->line;
    u->ring = u->turned + (p->turned ? LANES * p->line : 0);
    u->result = u->ring + most(p->ring * p->channels, p->block) * p->ring_line;
    if (p->w.outputs)
        FN(set_pattern)(&u->even, &p->w, p->w.first);
    if (p->w.outputs == 2)
        FN(set_pattern)(&u->odd, &p->w, p->w.first + 1);
}

/* a worker: units until none is left */
FUNC void FN(resample)(resample_plan *p, void *memory)
{
    FN(unit) u;
    if (p->order != ABREAST)
        FN(lay_unit)(p, memory, &u);
    for (;;) {
        ptrdiff_t n = __atomic_fetch_add(&p->next, p->grab, __ATOMIC_RELAXED), end = least(p->units, n + p->grab);
        if (n >= p->units)
            return;
        for (; n < end; n++) {
            if (p->order == ABREAST) {
                FN(unit_abreast)(p, n, memory);
                continue;
            }
            ptrdiff_t band = p->tiles == 1 ? n : n / p->tiles, tile = n - band * p->tiles, rest = p->bands == 1 ? band : band / p->bands;
            band -= rest * p->bands;
            u.plane = p->d.out == 1 ? rest : rest / p->d.out;
            u.od = rest - u.plane * p->d.out;
            u.h0 = band * p->band;
            u.h1 = least(p->h.out, u.h0 + p->band);
            u.o0 = tile * p->tile;
            u.o1 = least(p->w.out, u.o0 + p->tile);
            u.d = FN(terms_of)(&p->d, u.od);
            if (tile != u.tile) {
                columns_of(&p->w, u.o0, u.o1, &u.c0, &u.c1);
                if (p->order == PICK && p->bytes)
                    u.picked = pick_groups(&p->w, p->channels, u.c0, u.c1, u.o0, u.o1, u.picks);
                u.few = 0;
                if (p->order == PICK && !p->bytes)
                    FN(set_few)(&p->w, &u);
                u.tile = p->order == LONG ? -1 : tile; /* a long unit moves its columns */
            }
            u.source = FN(source_of)(p, u.plane, u.c0);
            switch (p->order) {
            case ROWS: FN(unit_rows)(p, &u); break;
            case FIRST_H: FN(unit_first_h)(p, &u); break;
            case FIRST_W: FN(unit_first_w)(p, &u); break;
            case PICK: u.few ? FN(unit_pick_few)(p, &u) : FN(unit_pick)(p, &u); break;
            default: FN(unit_long)(p, &u);
            }
        }
    }
}
