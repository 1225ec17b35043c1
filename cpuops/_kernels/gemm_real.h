/* gemm_real.h: the body of gemm.h (read its head) for one scalar type. */

typedef void (*FN(gemm_packer))(const void *ctx, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t k0, ptrdiff_t nk, real *panel,
                                ptrdiff_t width);
typedef void (*FN(gemm_store))(void *ctx, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t j0, ptrdiff_t nj, const real *tile,
                               ptrdiff_t ld, int add, int last);
typedef void (*FN(gemm_finish))(void *ctx, real *c, ptrdiff_t ld, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t j0, ptrdiff_t nj);

/* a matrix in memory, for gemm_plain: element (i, k) is p[i*rs + k*ks], i being a row of A or a column of B. With
 * `table`, k counts through blocks of `inner`: element (i, k) is p[i*rs + table[k / inner] + k % inner * ks], which is a
 * sum over batch items of any layout */
typedef struct {
    const real *p;
    ptrdiff_t rs, ks;
    ptrdiff_t inner;
    const ptrdiff_t *table;
} FN(gemm_matrix);

typedef struct {
    ptrdiff_t m, n, k;
    FN(gemm_packer) pack_a, pack_b;
    const void *a, *b;
    real *c; /* row-major, row stride ldc; unused when `store` is set */
    ptrdiff_t ldc;
    FN(gemm_store) store;
    void *store_ctx;
    const real *bias_row, *bias_col;
    FN(gemm_finish) finish;
    void *finish_ctx;
    int add; /* add to what C holds */
    ptrdiff_t chunk; /* steps of K in a chunk, or 0 for gemm_kc(k); see the order of a sum */
    /* filled in by gemm_plan */
    size_t scratch_bytes;
    void *scratch;
    ptrdiff_t mr, kc, chunks, slots;
    ptrdiff_t panels_a, panels_b, stride_a, stride_b; /* strides of packed panels, in elements */
    ptrdiff_t block, split;                           /* panels of the shared operand packed at once; of these, a task */
    ptrdiff_t band, group;                            /* panels of the private operand a phase; a task */
    ptrdiff_t wave;                                   /* deep: chunks a phase */
    int share_a, deep, direct_a, direct_b;
    ptrdiff_t lead; /* columns by which the first panel of B is short, so that the others begin on a cache line */
    int slabs; /* the shared operand is packed by steps of K across a block, not by panels */
    ptrdiff_t first_a, first_b; /* panels of the operands before those that are counted here */
    ptrdiff_t parts_a, parts_b; /* apart: C in rectangles, each a task that packs for itself; panels_a, panels_b are of one */
    int keep; /* packed panels of the private operand are kept for the other blocks of the shared one */
} FN(gemm_job);

/* ---- the order of a sum ---- */

/* a panel of A (14 x 384 float32: 21 KB) stays in L1 while a panel of B (48 KB) streams from L2; longer chunks gain
 * nothing, shorter ones read and write C more often */
#ifndef GEMM_KC
#define GEMM_KC (IS_F64 ? 256 : 384)
#endif
INLINE ptrdiff_t FN(gemm_chunks)(ptrdiff_t k) { return k <= GEMM_KC ? 1 : (k + GEMM_KC - 1) / GEMM_KC; }
INLINE ptrdiff_t FN(gemm_kc)(ptrdiff_t k)
{
    ptrdiff_t chunks = FN(gemm_chunks)(k);
    return chunks == 1 ? k : ((k + chunks - 1) / chunks + 15) / 16 * 16;
}

/* ---- packing a matrix ---- */

/* k0 <= k < k0 + nk lie in one block of the table */
INLINE void FN(gemm_pack_run)(const real *p, ptrdiff_t rs, ptrdiff_t ks, ptrdiff_t ni, ptrdiff_t nk, real *panel,
                              ptrdiff_t width)
{
    if (ks == 1 && rs != 1) {
        /* the last strip of LANES columns first: where width is no multiple of LANES its vectors end in the next row of
         * the panel, which the other strips then write */
        for (ptrdiff_t k = 0; k < nk; k += LANES)
            for (ptrdiff_t i = (width - 1) / LANES * LANES; i >= 0; i -= LANES)
                FN(transpose_tile)(p + i * rs + k, rs, ni - i, nk - k, panel + k * width + i, width);
    } else if (rs == 1 && ni == GEMM_NR && width == GEMM_NR) {
        for (ptrdiff_t k = 0; k < nk; k++, p += ks, panel += GEMM_NR) {
            vstore(panel, vload(p));
            vstore(panel + LANES, vload(p + LANES));
        }
    } else if (rs == 1 && ni == GEMM_MR && width == GEMM_MR && width % LANES) {
        for (ptrdiff_t k = 0; k < nk; k++, p += ks, panel += GEMM_MR)
            memcpy(panel, p, GEMM_MR * sizeof(real));
    } else if (rs == 1) { /* the last vector of a row ends in the next one, which is written after it */
        for (ptrdiff_t k = 0; k < nk; k++, p += ks, panel += width)
            for (ptrdiff_t i = 0; i < width; i += LANES) {
                ptrdiff_t n = ni - i;
                vstore(panel + i, n >= LANES ? vload(p + i) : n > 0 ? vload_n(p + i, n) : vzero());
            }
    } else {
        for (ptrdiff_t k = 0; k < nk; k++, p += ks, panel += width) {
            for (ptrdiff_t i = 0; i < ni; i++)
                panel[i] = p[i * rs];
            for (ptrdiff_t i = ni; i < width; i++)
                panel[i] = 0;
        }
    }
}

/* the packer of a matrix in memory: ctx is a gemm_matrix */
FUNC void FN(gemm_plain)(const void *ctx, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t k0, ptrdiff_t nk, real *panel,
                         ptrdiff_t width)
{
    const FN(gemm_matrix) *x = (const FN(gemm_matrix) *)ctx;
    const real *p = x->p + i0 * x->rs;
    if (!x->table) {
        FN(gemm_pack_run)(p + k0 * x->ks, x->rs, x->ks, ni, nk, panel, width);
        return;
    }
    /* blocks may be as short as two: a division for each would take as long as its copy */
    ptrdiff_t block = k0 / x->inner, in = k0 % x->inner, n;
    for (ptrdiff_t k = 0; k < nk; k += n, block++, in = 0) {
        n = x->inner - in < nk - k ? x->inner - in : nk - k;
        FN(gemm_pack_run)(p + x->table[block] + in * x->ks, x->rs, x->ks, ni, n, panel + k * width, width);
    }
}

/* ---- the plan ---- */

#define GEMM_SLAB 8 /* steps of K packed together */

/* a packed block of the shared operand: three quarters of a 1 MB L2. Twice that is 2 % slower, four times 10 % (Sapphire
 * Rapids, 2 MB L2, whose L3 is slow) */
#define GEMM_SHARED_BYTES 750000
#define GEMM_KEPT_BYTES 3000000    /* packed panels of the private operand, from where they stream once a block */
#define GEMM_PARTIAL_BYTES 3000000 /* partial sums of a deep job, for eight threads */
#define GEMM_DEEP_BYTES 500000     /* deep: packed A of one chunk, a worker */

INLINE ptrdiff_t FN(gemm_ceil)(ptrdiff_t a, ptrdiff_t b) { return (a + b - 1) / b; }
INLINE ptrdiff_t FN(gemm_min)(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t FN(gemm_max)(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

INLINE ptrdiff_t FN(gemm_shared)(const FN(gemm_job) *w) { return w->share_a ? w->panels_a : w->panels_b; }
INLINE ptrdiff_t FN(gemm_private)(const FN(gemm_job) *w) { return w->share_a ? w->panels_b : w->panels_a; }
INLINE ptrdiff_t FN(gemm_shared_stride)(const FN(gemm_job) *w) { return w->share_a ? w->stride_a : w->stride_b; }
INLINE ptrdiff_t FN(gemm_private_stride)(const FN(gemm_job) *w) { return w->share_a ? w->stride_b : w->stride_a; }
/* the first row of A, or column of B, of a panel that is counted in a rectangle */
INLINE ptrdiff_t FN(gemm_row)(const FN(gemm_job) *w, ptrdiff_t panel) { return (w->first_a + panel) * w->mr; }
INLINE ptrdiff_t FN(gemm_column)(const FN(gemm_job) *w, ptrdiff_t panel)
{
    return FN(gemm_max)(0, (w->first_b + panel) * GEMM_NR - w->lead);
}
/* the columns of a panel of B */
INLINE ptrdiff_t FN(gemm_columns)(const FN(gemm_job) *w, ptrdiff_t panel)
{
    return FN(gemm_min)(FN(gemm_column)(w, panel + 1), w->n) - FN(gemm_column)(w, panel);
}
FUNC ptrdiff_t FN(gemm_phases)(const FN(gemm_job) *w);

/* the tasks of a block: groups of a band, times parts of the block */
INLINE ptrdiff_t FN(gemm_cut)(const FN(gemm_job) *w)
{
    return FN(gemm_max)(1, FN(gemm_ceil)(w->band, w->group) * FN(gemm_ceil)(w->block, w->split));
}

#define GEMM_FEW 9 /* panels */

/* panels of the private operand a task: several tasks a thread, for balance */
INLINE ptrdiff_t FN(gemm_group)(ptrdiff_t own, ptrdiff_t threads)
{
    return FN(gemm_max)(1, FN(gemm_min)(own / FN(gemm_max)(16, 4 * threads), 8));
}

/* how the operands are packed and kept for panels_a by panels_b panels, and by whom */
INLINE void FN(gemm_plan_shared)(FN(gemm_job) *w, ptrdiff_t threads)
{
    const FN(gemm_matrix) *b = (const FN(gemm_matrix) *)w->b;
    const int rows_b = !w->direct_b && w->pack_b == FN(gemm_plain) && !b->table && b->rs == 1;
    /* the operand with more panels is private: packed by the task that uses it, right before it does. But rows of B are packed
     * from end to end where A is not packed at all and has more than a few panels */
    w->share_a = w->panels_a < w->panels_b && !(w->direct_a && rows_b && w->panels_a > GEMM_FEW);
    w->slabs = !w->share_a && rows_b;
    const ptrdiff_t size = sizeof(real), shared = FN(gemm_shared)(w), own = FN(gemm_private)(w);
    const ptrdiff_t shared_stride = FN(gemm_shared_stride)(w), own_stride = FN(gemm_private_stride)(w);
    w->block = FN(gemm_max)(1, GEMM_SHARED_BYTES / (shared_stride * size));
    w->block = FN(gemm_max)(1, FN(gemm_ceil)(shared, FN(gemm_max)(1, FN(gemm_ceil)(shared, w->block)))); /* blocks of one size */
    w->group = FN(gemm_group)(own, threads);
    /* packed panels of the private operand are kept from block to block, a band of them at a time, where that can be shared
     * evenly; else parts of the shared block even the shares out, and panels are packed once a part */
    w->split = w->block;
    w->keep = !(w->share_a ? w->direct_b : w->direct_a) && shared > w->block;
    w->band = own;
    if (w->keep)
        w->band = FN(gemm_ceil)(own, FN(gemm_ceil)(own, FN(gemm_max)(1, GEMM_KEPT_BYTES / (own_stride * size))));
    w->group = even_size(w->band, w->group, threads);
    if (w->keep && (FN(gemm_cut)(w) < 2 * threads || uneven(FN(gemm_cut)(w), threads))) {
        w->keep = 0;
        w->band = own;
    }
    if (!w->keep) {
        const ptrdiff_t groups = FN(gemm_cut)(w), parts = FN(gemm_min)(w->block, FN(gemm_ceil)(2 * threads, groups));
        w->split = FN(gemm_ceil)(w->block, even_parts(groups, parts, w->block / 2, threads));
    }
    w->slots = FN(gemm_min)(threads, FN(gemm_cut)(w));
    w->scratch_bytes = (size_t)(w->block * shared_stride + (w->keep ? w->band : w->slots) * own_stride) * sizeof(real);
}

/* too few cells to occupy the threads, but a long sum */
INLINE int FN(gemm_plan_deep)(FN(gemm_job) *w, ptrdiff_t threads)
{
    const ptrdiff_t size = sizeof(real), own = FN(gemm_max)(w->panels_a, w->panels_b);
    const ptrdiff_t groups = FN(gemm_ceil)(own, FN(gemm_group)(own, threads));
    const ptrdiff_t tiles = w->panels_a <= 1000 && w->panels_b <= 1000 ? w->panels_a * w->panels_b : 1000000;
    w->wave = FN(gemm_min)(w->chunks, FN(gemm_max)(1, threads / 8) * GEMM_PARTIAL_BYTES / (GEMM_TILE * size) / FN(gemm_max)(1, tiles));
    if (uneven(w->wave, threads) && w->wave > threads)
        w->wave -= w->wave % threads;
    w->deep = groups < 2 * threads && w->wave >= 2 * threads && w->panels_a * w->stride_a * size <= GEMM_DEEP_BYTES;
    w->slots = threads;
    w->scratch_bytes = (size_t)(w->wave * tiles * GEMM_TILE + threads * (w->panels_a * w->stride_a + w->stride_b)) * sizeof(real);
    return w->deep;
}

/* costs, in multiply-adds: packing a cell; a line of C that two threads write to; a phase, at whose ends threads wait for each
 * other and after which each finds packed panels and C in the caches of others */
#define GEMM_PACKING 16.0
#define GEMM_LINE 1e4
#define GEMM_PHASE 4e6

/* so many panels of A by so many of B, packed and multiplied */
INLINE double FN(gemm_cost)(const FN(gemm_job) *w, ptrdiff_t panels_a, ptrdiff_t panels_b)
{
    const double rows = (double)(panels_a * w->mr), cols = (double)(panels_b * GEMM_NR);
    const double packed = (w->direct_a ? 0 : rows) + (w->direct_b ? 0 : cols);
    return (rows * cols + packed * GEMM_PACKING) * (double)w->k;
}

/* C in rectangles, of which each packs for itself: no waiting, and each thread has its own memory. The grid of at most `most`
 * whose largest rectangle costs least; returns that */
INLINE double FN(gemm_grid)(FN(gemm_job) *w, ptrdiff_t most)
{
    const int lines_shared = w->store || w->ldc * (ptrdiff_t)sizeof(real) % 64;
    double least = 0;
    for (ptrdiff_t a = 1; a <= FN(gemm_min)(most, w->panels_a); a++) {
        const ptrdiff_t b = FN(gemm_min)(most / a, w->panels_b);
        const ptrdiff_t rows = FN(gemm_ceil)(w->panels_a, a);
        double cost = FN(gemm_cost)(w, rows, FN(gemm_ceil)(w->panels_b, b));
        if (b > 1 && lines_shared)
            cost += (double)(rows * w->mr) * GEMM_LINE;
        if (a == 1 || cost < least)
            least = cost, w->parts_a = a, w->parts_b = b;
    }
    return least;
}

/* what threads take that share the packing, as gemm_grid counts */
INLINE double FN(gemm_together)(const FN(gemm_job) *w, ptrdiff_t threads)
{
    FN(gemm_job) t = *w;
    t.parts_a = t.parts_b = 0;
    FN(gemm_plan_shared)(&t, threads);
    return FN(gemm_cost)(w, w->panels_a, w->panels_b) / (double)threads + GEMM_PHASE * (double)FN(gemm_phases)(&t);
}

/* the parts of a grid, each planned for one thread */
INLINE void FN(gemm_plan_apart)(FN(gemm_job) *w)
{
    const ptrdiff_t rows = w->panels_a, cols = w->panels_b;
    w->panels_a = FN(gemm_ceil)(rows, w->parts_a), w->panels_b = FN(gemm_ceil)(cols, w->parts_b);
    FN(gemm_plan_shared)(w, 1);
    w->parts_a = FN(gemm_ceil)(rows, w->panels_a), w->parts_b = FN(gemm_ceil)(cols, w->panels_b);
    w->slots = w->parts_a * w->parts_b;
    w->scratch_bytes = (w->scratch_bytes + 63) / 64 * 64 * (size_t)w->slots;
}

/* NumPy's arrays begin 16 bytes into a line. Panels of a B that is read in place begin with a line, which makes them a third faster:
 * the columns before the first whole one belong to a panel of their own, which is short by `lead`. That takes rows whole lines
 * apart, and panels enough that one more does not matter */
#define GEMM_LEAD 12
INLINE int FN(gemm_lines)(const FN(gemm_matrix) *b) { return b->ks * (ptrdiff_t)sizeof(real) % 64 == 0; }
INLINE ptrdiff_t FN(gemm_before)(const FN(gemm_matrix) *b) { return (ptrdiff_t)(-(uintptr_t)b->p % 64 / sizeof(real)) % GEMM_NR; }
INLINE ptrdiff_t FN(gemm_lead)(const FN(gemm_matrix) *b, ptrdiff_t n)
{
    const ptrdiff_t before = FN(gemm_before)(b);
    return before && FN(gemm_lines)(b) && n >= GEMM_LEAD * GEMM_NR ? GEMM_NR - before : 0;
}

/* up to so many panels of A share a B of contiguous rows better where it is. Rows a multiple of 4 KB apart fall on one set of the L1 */
INLINE ptrdiff_t FN(gemm_direct_panels)(const FN(gemm_matrix) *b, ptrdiff_t lead)
{
    const ptrdiff_t apart = (b->ks < 0 ? -b->ks : b->ks) * (ptrdiff_t)sizeof(real);
    if (FN(gemm_lines)(b) && (lead || !FN(gemm_before)(b)))
        return apart % 4096 ? 20 : 2;
    return apart < 2048 ? 3 : 1;
}

/* what all plans have in common: chunks, panels, and whether an operand is read where it is */
INLINE void FN(gemm_plan_panels)(FN(gemm_job) *w)
{
    const ptrdiff_t padded = 64 / (ptrdiff_t)sizeof(real); /* slack of a vector after every panel, and its alignment */
    w->kc = w->chunk ? w->chunk : FN(gemm_kc)(w->k);
    w->chunks = w->k > 0 ? FN(gemm_ceil)(w->k, w->kc) : 1;
    w->panels_a = FN(gemm_ceil)(w->m, GEMM_MR);
    w->mr = w->panels_a ? FN(gemm_ceil)(w->m, w->panels_a) : 1; /* 15 rows are 8 and 7, not 14 and 1 */
    w->panels_b = FN(gemm_ceil)(w->n, GEMM_NR);
    w->stride_b = (GEMM_NR * w->kc + padded + padded - 1) / padded * padded;
    /* A with contiguous rows is read where it is, if no chunk lies in two blocks of a table, unless rows that lie a multiple of
     * 2 KB apart would fall on one set of the L1 and push one another out; B with contiguous rows, when too few panels of A
     * share the packing of it */
    const FN(gemm_matrix) *a = (const FN(gemm_matrix) *)w->a, *b = (const FN(gemm_matrix) *)w->b;
    w->direct_a = w->pack_a == FN(gemm_plain) && a->ks == 1 && (!a->table || a->inner % w->kc == 0);
    if (w->direct_a && w->mr > 8) {
        ptrdiff_t apart = (a->rs < 0 ? -a->rs : a->rs) * (ptrdiff_t)sizeof(real) % 2048;
        int apart_enough = apart >= 64 && apart <= 2048 - 64;
        if (!apart_enough && w->panels_b <= 2) { /* nor does packing pay: smaller tiles, whose rows fit */
            w->panels_a = FN(gemm_ceil)(w->m, 8);
            w->mr = FN(gemm_ceil)(w->m, w->panels_a);
        } else {
            w->direct_a = apart_enough;
        }
    }
    w->stride_a = (w->mr * w->kc + padded + padded - 1) / padded * padded;
    const ptrdiff_t in_place = w->pack_b == FN(gemm_plain) && !b->table && b->rs == 1, lead = in_place ? FN(gemm_lead)(b, w->n) : 0;
    w->direct_b = in_place && w->panels_a <= FN(gemm_direct_panels)(b, lead);
    w->lead = w->direct_b ? lead : 0;
    w->panels_b = FN(gemm_ceil)(w->lead + w->n, GEMM_NR);
    w->deep = 0, w->first_a = w->first_b = w->parts_a = w->parts_b = 0;
}

/* a plan for num_threads threads; nothing decided here changes a bit of the result */
FUNC void FN(gemm_plan)(FN(gemm_job) *w, int num_threads)
{
    const ptrdiff_t threads = num_threads > 1 ? num_threads : 1;
    FN(gemm_plan_panels)(w);
    if (threads > 1 && w->panels_a && w->panels_b) {
        if (FN(gemm_plan_deep)(w, threads))
            return;
        const double least = FN(gemm_grid)(w, threads);
        if (least <= FN(gemm_together)(w, threads)) {
            FN(gemm_plan_apart)(w);
            return;
        }
        w->parts_a = w->parts_b = 0;
    }
    FN(gemm_plan_shared)(w, threads);
}

/* a plan in at most `most` parts for a caller that is parallel itself; see gemm_part */
FUNC void FN(gemm_plan_parts)(FN(gemm_job) *w, ptrdiff_t most)
{
    FN(gemm_plan_panels)(w);
    if (w->panels_a && w->panels_b) {
        FN(gemm_grid)(w, most);
        FN(gemm_plan_apart)(w);
    } else
        FN(gemm_plan_shared)(w, 1);
}

/* ---- the work of one task ---- */

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

/* A job runs phase after phase; the tasks of one phase are independent. Phases alternate: pack a block of the shared
 * operand, multiply (deep: a wave of partial C, their sums). A band, chunk and block a pair of phases, in that order */
FUNC ptrdiff_t FN(gemm_phases)(const FN(gemm_job) *w)
{
    if (w->m <= 0 || w->n <= 0)
        return 0;
    if (w->parts_a)
        return 1;
    if (w->deep)
        return 2 * FN(gemm_ceil)(w->chunks, w->wave);
    return 2 * FN(gemm_ceil)(FN(gemm_private)(w), w->band) * w->chunks * FN(gemm_ceil)(FN(gemm_shared)(w), w->block);
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
