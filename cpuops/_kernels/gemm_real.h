/* gemm_real.h: the work of a planned product, task by task, for one scalar type. Included by gemm.h only. */

/* tile (pa, pb) of C */
typedef struct {
    ptrdiff_t i0, j0, ni, nj;
    const real *bias_row, *bias_col; /* only with the last chunk */
    int add, last;
} FN(gemm_place);

INLINE FN(gemm_place) FN(gemm_where)(const FN(gemm_job) *w, ptrdiff_t pa, ptrdiff_t pb, ptrdiff_t chunk)
{
    FN(gemm_place) t = {.i0 = FN(gemm_row)(w, pa), .j0 = FN(gemm_column)(w, pb)};
    t.ni = FN(gemm_min)(w->mr, w->m - t.i0);
    t.nj = FN(gemm_columns)(w, pb);
    t.add = chunk > 0 || w->add;
    t.last = chunk == w->chunks - 1;
    t.bias_row = t.last && w->bias_row ? w->bias_row + t.i0 : NULL;
    t.bias_col = t.last && w->bias_col ? w->bias_col + t.j0 : NULL;
    return t;
}

/* a tile's sum over one chunk, or one of its partial sums, to C */
INLINE void FN(gemm_out)(const FN(gemm_job) *w, const FN(gemm_place) *t, const real *tile, ptrdiff_t ld)
{
    if (!w->store) {
        FN(gemm_merge)(t->ni, t->nj, tile, ld, w->c + t->i0 * w->ldc + t->j0, w->ldc, t->add, t->bias_row, t->bias_col);
        return;
    }
    if (t->bias_row || t->bias_col) {
        real sum[GEMM_MR * GEMM_NR] __attribute__((aligned(64)));
        FN(gemm_merge)(t->ni, t->nj, tile, ld, sum, GEMM_NR, 0, t->bias_row, t->bias_col);
        w->store(w->store_ctx, t->i0, t->ni, t->j0, t->nj, sum, GEMM_NR, t->add, t->last);
    } else {
        w->store(w->store_ctx, t->i0, t->ni, t->j0, t->nj, tile, ld, t->add, t->last);
    }
}

INLINE void FN(gemm_finished)(const FN(gemm_job) *w, const FN(gemm_place) *t)
{
    if (t->last && w->finish && !w->store)
        w->finish(w->finish_ctx, w->c + t->i0 * w->ldc + t->j0, w->ldc, t->i0, t->ni, t->j0, t->nj);
}

/* where a tile finds a panel of an operand for one chunk: element (i, k) is p[i*rs + k*ks] */
typedef struct {
    const real *p;
    ptrdiff_t rs, ks;
} FN(gemm_strip);

INLINE FN(gemm_strip) FN(gemm_find)(const FN(gemm_job) *w, int is_a, ptrdiff_t panel, ptrdiff_t chunk, const real *packed)
{
    const ptrdiff_t i0 = is_a ? FN(gemm_row)(w, panel) : FN(gemm_column)(w, panel);
    /* a tile reads B by whole panels, so the first and the last one are packed if they are short */
    if (is_a ? w->direct_a : w->direct_b && FN(gemm_columns)(w, panel) == GEMM_NR) {
        const FN(gemm_matrix) *x = (const FN(gemm_matrix) *)(is_a ? w->a : w->b);
        const ptrdiff_t k0 = chunk * w->kc, at = x->table ? x->table[k0 / x->inner] + k0 % x->inner * x->ks : k0 * x->ks;
        FN(gemm_strip) s = {x->p + i0 * x->rs + at, x->rs, x->ks};
        return s;
    }
    FN(gemm_strip) s = {packed, 1, is_a ? w->mr : GEMM_NR};
    return s;
}

/* packs a panel, unless it is read where it is */
INLINE void FN(gemm_pack_panel)(const FN(gemm_job) *w, int is_a, ptrdiff_t panel, ptrdiff_t chunk, real *to)
{
    if (FN(gemm_find)(w, is_a, panel, chunk, to).p != to)
        return;
    ptrdiff_t width = is_a ? w->mr : GEMM_NR, i0 = is_a ? FN(gemm_row)(w, panel) : FN(gemm_column)(w, panel), k0 = chunk * w->kc;
    ptrdiff_t ni = is_a ? FN(gemm_min)(width, w->m - i0) : FN(gemm_columns)(w, panel), nk = FN(gemm_min)(w->kc, w->k - k0);
    (is_a ? w->pack_a : w->pack_b)(is_a ? w->a : w->b, i0, ni, k0, nk, to, width);
}

/* where a panel is that will be wanted next: lines l of it, l < lines, are at p + l*apart + k*step for the k of a chunk.
 * A packer that starts on them, or tiles, would wait for memory: the tiles of the panel before fetch a line of every step */
typedef struct {
    const real *p;
    ptrdiff_t lines, apart, step;
} FN(gemm_ahead);

/* the panel is packed, or is yet to be packed or read from its matrix */
INLINE FN(gemm_ahead) FN(gemm_look)(const FN(gemm_job) *w, int is_a, ptrdiff_t panel, ptrdiff_t chunk, const real *packed)
{
    const ptrdiff_t width = is_a ? w->mr : GEMM_NR, nk = FN(gemm_min)(w->kc, w->k - chunk * w->kc);
    const ptrdiff_t i0 = is_a ? FN(gemm_row)(w, panel) : FN(gemm_column)(w, panel), line = 64 / (ptrdiff_t)sizeof(real);
    const ptrdiff_t n = is_a ? FN(gemm_min)(width, w->m - i0) : FN(gemm_columns)(w, panel);
    const FN(gemm_matrix) *x = (const FN(gemm_matrix) *)(is_a ? w->a : w->b);
    FN(gemm_ahead) t = {packed, packed ? width : 0, nk, 1};
    if (packed || (is_a ? w->pack_a : w->pack_b) != FN(gemm_plain) || x->table)
        return t;
    t.p = x->p + i0 * x->rs + chunk * w->kc * x->ks;
    t.step = x->ks;
    t.apart = x->ks == 1 ? x->rs : line;
    t.lines = x->ks == 1 ? n : x->rs == 1 ? FN(gemm_ceil)(n, line) : 0;
    return t;
}

/* a tile from two panels; ahead and ahead_step as in gemm_tile */
INLINE void FN(gemm_cell)(const FN(gemm_job) *w, ptrdiff_t pa, ptrdiff_t pb, ptrdiff_t chunk, FN(gemm_strip) a, FN(gemm_strip) b,
                          const real *ahead, ptrdiff_t ahead_step)
{
    FN(gemm_place) t = FN(gemm_where)(w, pa, pb, chunk);
    ptrdiff_t nk = FN(gemm_min)(w->kc, w->k - chunk * w->kc);
    if (w->store) {
        real c[GEMM_MR * GEMM_NR] __attribute__((aligned(64)));
        FN(gemm_tiles)[t.ni - 1][t.nj > LANES](nk, a.p, a.rs, a.ks, b.p, b.ks, c, GEMM_NR, 0, NULL, NULL, ahead,
                                               ahead_step);
        FN(gemm_out)(w, &t, c, GEMM_NR);
    } else {
        FN(gemm_piece_ahead)(t.ni, t.nj, nk, a.p, a.rs, a.ks, b.p, b.ks, w->c + t.i0 * w->ldc + t.j0, w->ldc, t.add, t.bias_row,
                             t.bias_col, ahead, ahead_step);
    }
    FN(gemm_finished)(w, &t);
}

/* Deep jobs. A partial C is tiles of GEMM_MR x GEMM_NR, one after the other */

/* chunk first + task into its own partial C */
INLINE void FN(gemm_deep_chunk)(const FN(gemm_job) *w, ptrdiff_t first, ptrdiff_t task, ptrdiff_t slot)
{
    ptrdiff_t chunk = first + task, nk = FN(gemm_min)(w->kc, w->k - chunk * w->kc), tiles = w->panels_a * w->panels_b;
    real *c = (real *)w->scratch + task * tiles * GEMM_TILE;
    real *a = (real *)w->scratch + w->wave * tiles * GEMM_TILE + slot * (w->panels_a * w->stride_a + w->stride_b);
    real *b = a + w->panels_a * w->stride_a;
    for (ptrdiff_t p = 0; p < w->panels_a; p++)
        FN(gemm_pack_panel)(w, 1, p, chunk, a + p * w->stride_a);
    for (ptrdiff_t q = 0; q < w->panels_b; q++) {
        FN(gemm_pack_panel)(w, 0, q, chunk, b);
        for (ptrdiff_t p = 0; p < w->panels_a; p++, c += GEMM_TILE) {
            FN(gemm_place) t = FN(gemm_where)(w, p, q, chunk);
            FN(gemm_strip) x = FN(gemm_find)(w, 1, p, chunk, a + p * w->stride_a), y = FN(gemm_find)(w, 0, q, chunk, b);
            FN(gemm_tiles)[t.ni - 1][t.nj > LANES](nk, x.p, x.rs, x.ks, y.p, y.ks, c, GEMM_NR, 0, NULL, NULL, NULL, 0);
        }
    }
}

/* the partial sums of one tile, added in the order of the chunks */
INLINE void FN(gemm_deep_sum)(const FN(gemm_job) *w, ptrdiff_t first, ptrdiff_t tile)
{
    ptrdiff_t end = FN(gemm_min)(first + w->wave, w->chunks), tiles = w->panels_a * w->panels_b;
    FN(gemm_place) t = {0};
    for (ptrdiff_t chunk = first; chunk < end; chunk++) {
        t = FN(gemm_where)(w, tile % w->panels_a, tile / w->panels_a, chunk);
        FN(gemm_out)(w, &t, (const real *)w->scratch + ((chunk - first) * tiles + tile) * GEMM_TILE, GEMM_NR);
    }
    FN(gemm_finished)(w, &t);
}

typedef struct {
    ptrdiff_t chunk, s0, s1, p0, p1; /* panels [s0, s1) of the shared operand, [p0, p1) of the private one */
} FN(gemm_step);

INLINE FN(gemm_step) FN(gemm_steps)(const FN(gemm_job) *w, ptrdiff_t phase)
{
    ptrdiff_t blocks = FN(gemm_ceil)(FN(gemm_shared)(w), w->block), pair = phase / 2;
    FN(gemm_step) t = {.chunk = pair / blocks % w->chunks, .s0 = pair % blocks * w->block, .p0 = pair / blocks / w->chunks * w->band};
    t.s1 = FN(gemm_min)(t.s0 + w->block, FN(gemm_shared)(w));
    t.p1 = FN(gemm_min)(t.p0 + w->band, FN(gemm_private)(w));
    return t;
}

FUNC ptrdiff_t FN(gemm_tasks)(const FN(gemm_job) *w, ptrdiff_t phase)
{
    if (w->parts_a)
        return w->parts_a * w->parts_b;
    if (w->deep)
        return phase % 2 ? w->panels_a * w->panels_b : FN(gemm_min)(w->wave, w->chunks - phase / 2 * w->wave);
    FN(gemm_step) t = FN(gemm_steps)(w, phase);
    if (phase % 2)
        return FN(gemm_ceil)(t.p1 - t.p0, w->group) * FN(gemm_ceil)(t.s1 - t.s0, w->split);
    if (w->slabs)
        return FN(gemm_ceil)(FN(gemm_min)(w->kc, w->k - t.chunk * w->kc), GEMM_SLAB);
    return w->share_a && w->direct_a ? 0 : t.s1 - t.s0;
}

/* those of a phase that multiplies: about equal, and what the threads share */
FUNC ptrdiff_t FN(gemm_shares)(const FN(gemm_job) *w) { return FN(gemm_tasks)(w, !w->deep && !w->parts_a); }

/* steps [k0, k0 + GEMM_SLAB) of a chunk of the shared operand B, for a block: its rows are read from end to end */
INLINE void FN(gemm_pack_slab)(const FN(gemm_job) *w, const FN(gemm_step) *t, ptrdiff_t k0, real *packed)
{
    const ptrdiff_t first = t->chunk * w->kc + k0, end = FN(gemm_min)(w->k, (t->chunk + 1) * w->kc);
    for (ptrdiff_t s = t->s0; s < t->s1; s++)
        FN(gemm_plain)(w->b, FN(gemm_column)(w, s), FN(gemm_columns)(w, s), first,
                       FN(gemm_min)(GEMM_SLAB, end - first), packed + (s - t->s0) * w->stride_b + k0 * GEMM_NR, GEMM_NR);
}

FUNC void FN(gemm_serial)(const FN(gemm_job) *w);

/* a rectangle of C, in the scratch of a slot */
FUNC void FN(gemm_part)(const FN(gemm_job) *w, ptrdiff_t part, ptrdiff_t slot)
{
    FN(gemm_job) t = *w;
    t.parts_a = t.parts_b = 0;
    t.first_a = part / w->parts_b * w->panels_a, t.first_b = part % w->parts_b * w->panels_b;
    t.panels_a = FN(gemm_min)(w->panels_a, FN(gemm_ceil)(w->m, w->mr) - t.first_a);
    t.panels_b = FN(gemm_min)(w->panels_b, FN(gemm_ceil)(w->lead + w->n, GEMM_NR) - t.first_b);
    t.scratch = (char *)w->scratch + w->scratch_bytes / (size_t)w->slots * (size_t)slot;
    FN(gemm_serial)(&t);
}

FUNC void FN(gemm_task)(const FN(gemm_job) *w, ptrdiff_t phase, ptrdiff_t task, ptrdiff_t slot)
{
    if (w->parts_a) {
        FN(gemm_part)(w, task, slot);
        return;
    }
    if (w->deep) {
        if (phase % 2)
            FN(gemm_deep_sum)(w, phase / 2 * w->wave, task);
        else
            FN(gemm_deep_chunk)(w, phase / 2 * w->wave, task, slot);
        return;
    }
    const int is_a = w->share_a;
    const ptrdiff_t shared_stride = FN(gemm_shared_stride)(w), own_stride = FN(gemm_private_stride)(w);
    FN(gemm_step) t = FN(gemm_steps)(w, phase);
    real *packed = (real *)w->scratch, *mine = packed + w->block * shared_stride;
    if (phase % 2 == 0) {
        if (w->slabs)
            FN(gemm_pack_slab)(w, &t, task * GEMM_SLAB, packed);
        else
            FN(gemm_pack_panel)(w, is_a, t.s0 + task, t.chunk, packed + task * shared_stride);
        return;
    }
    ptrdiff_t splits = FN(gemm_ceil)(t.s1 - t.s0, w->split), group = task / splits;
    ptrdiff_t s0 = t.s0 + task % splits * w->split, s1 = FN(gemm_min)(s0 + w->split, t.s1);
    ptrdiff_t p0 = t.p0 + group * w->group, p1 = FN(gemm_min)(p0 + w->group, t.p1);
    mine += (w->keep ? p0 - t.p0 : slot) * own_stride;
    const int pack = !w->keep || t.s0 == 0;
    for (ptrdiff_t p = p0; p < p1; p++) {
        real *to = mine + (w->keep ? p - p0 : 0) * own_stride;
        if (pack)
            FN(gemm_pack_panel)(w, !is_a, p, t.chunk, to);
        FN(gemm_strip) y = FN(gemm_find)(w, !is_a, p, t.chunk, to);
        FN(gemm_ahead) next = {0};
        if (p + 1 < (w->slots > 1 ? p1 : t.p1)) /* several workers: who takes the next group is open */
            next = FN(gemm_look)(w, !is_a, p + 1, t.chunk, pack ? NULL : to + own_stride);
        for (ptrdiff_t s = s0; s < s1; s++) {
            FN(gemm_strip) x = FN(gemm_find)(w, is_a, s, t.chunk, packed + (s - t.s0) * shared_stride);
            const real *ahead = s - s0 < next.lines ? next.p + (s - s0) * next.apart : NULL;
            FN(gemm_cell)(w, is_a ? s : p, is_a ? p : s, t.chunk, is_a ? x : y, is_a ? y : x, ahead, next.step);
        }
    }
}

/* the tasks of a phase, and those of them that worker `slot` gets hold of */
FUNC void FN(gemm_begin)(const FN(gemm_job) *w, ptrdiff_t phase, Tasks *queue) { tasks_begin(queue, FN(gemm_tasks)(w, phase), w->slots); }
FUNC void FN(gemm_work)(const FN(gemm_job) *w, ptrdiff_t phase, ptrdiff_t slot, Tasks *queue)
{
    for (ptrdiff_t task; (task = tasks_next(queue, slot)) >= 0;)
        FN(gemm_task)(w, phase, task, slot);
}

/* the whole job on the calling thread */
FUNC void FN(gemm_serial)(const FN(gemm_job) *w)
{
    const ptrdiff_t phases = FN(gemm_phases)(w);
    for (ptrdiff_t phase = 0; phase < phases; phase++) {
        const ptrdiff_t tasks = FN(gemm_tasks)(w, phase);
        for (ptrdiff_t task = 0; task < tasks; task++)
            FN(gemm_task)(w, phase, task, 0);
    }
}
