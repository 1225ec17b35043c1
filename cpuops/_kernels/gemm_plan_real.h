/* gemm_plan_real.h: how a product is cut and what of it is packed, for one scalar type. Included by gemm.h only. */

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

/* B of contiguous rows is read where it is by up to so many panels of A, and with which lead. Rows a multiple of 4 KB apart fall on one
 * set of the L1 */
INLINE ptrdiff_t FN(gemm_direct_panels)(const FN(gemm_job) *w, ptrdiff_t *lead)
{
    const FN(gemm_matrix) *b = (const FN(gemm_matrix) *)w->b;
    const ptrdiff_t apart = (b->ks < 0 ? -b->ks : b->ks) * (ptrdiff_t)sizeof(real);
    const ptrdiff_t before = (ptrdiff_t)(-(uintptr_t)b->p % 64 / sizeof(real)) % GEMM_NR;
    *lead = 0;
    if (w->moving || !FN(gemm_lines)(b) || (before && w->n < GEMM_LEAD * GEMM_NR))
        return apart < 2048 ? 3 : 1;
    *lead = before ? GEMM_NR - before : 0;
    return apart % 4096 ? 20 : 2;
}

/* what all plans have in common: chunks, panels, and whether an operand is read where it is */
INLINE void FN(gemm_plan_panels)(FN(gemm_job) *w)
{
    const ptrdiff_t padded = 64 / (ptrdiff_t)sizeof(real); /* slack of a vector after every panel, and its alignment */
    w->kc = w->chunk ? w->chunk : FN(gemm_max)(1, FN(gemm_kc)(w->k));
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
    w->direct_b = w->pack_b == FN(gemm_plain) && !b->table && b->rs == 1 && w->panels_a <= FN(gemm_direct_panels)(w, &w->lead);
    if (!w->direct_b)
        w->lead = 0;
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
