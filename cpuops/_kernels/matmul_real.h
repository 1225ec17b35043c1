/* matmul_real.h: which way a product goes, its tasks, and batches of products, for one scalar type. Included by matmul.h only. */

/* gemm's finish: a piece of C, while it is in the cache */
FUNC void FN(product_activate)(void *ctx, real *c, ptrdiff_t ld, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t j0, ptrdiff_t nj)
{
    const FN(product) *p = (const FN(product) *)ctx;
    (void)i0, (void)j0;
    FN(activate)(p->activation, c, c + p->apart, ni, nj, ld);
}

/* ---- gemm, flipped: tiles of the transposed C ---- */

FUNC void FN(product_store)(void *ctx, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t j0, ptrdiff_t nj, const real *tile, ptrdiff_t ld, int add,
                            int last)
{
    const FN(product) *p = (const FN(product) *)ctx;
    real flipped[GEMM_NR * (GEMM_MR + LANES)] __attribute__((aligned(64)));
    const ptrdiff_t width = FN(gemm_ceil)(GEMM_MR, LANES) * LANES;
    for (ptrdiff_t i = 0; i < ni; i += LANES)
        for (ptrdiff_t j = 0; j < nj; j += LANES)
            FN(transpose_tile)(tile + i * ld + j, ld, ni - i, FN(gemm_min)(LANES, nj - j), flipped + j * width + i, width);
    real *c = p->c + i0 + j0 * p->ccs;
    FN(gemm_merge)(nj, ni, flipped, width, c, p->ccs, add, NULL, last && p->bias ? p->bias + i0 : NULL);
    if (last && p->activation)
        FN(product_activate)(ctx, c, p->ccs, j0, nj, i0, ni);
}

/* the job for p (whose fields may have moved since the plan: an item of a batch) */
INLINE FN(gemm_job) FN(product_job)(const FN(product) *p)
{
    FN(gemm_job) w = p->job;
    w.a = &p->a;
    w.b = &p->b;
    w.c = p->c;
    w.store_ctx = w.finish_ctx = (void *)p;
    w.scratch = p->scratch;
    return w;
}

/* ---- the whole ---- */

/* vectors that tiles of an m x n product fill, in whole vectors along n */
INLINE ptrdiff_t FN(product_vectors)(ptrdiff_t m, ptrdiff_t n) { return m * FN(gemm_ceil)(n, LANES); }

/* whether a few rows are multiplied along B as it lies. Tiles are faster where B's rows are whole lines apart, so that they read it in
 * place, and where it stays in the cache or there are rows enough that memory does not bind */
INLINE int FN(product_streams)(const FN(product) *p)
{
    if (p->m > PRODUCT_STREAM_ROWS || (p->b.rs != 1 && p->b.ks != 1) || p->a.table)
        return 0;
    const int cached = p->n <= STREAM_BYTES / (ptrdiff_t)sizeof(real) / p->k;
    const int tiles = p->b.rs == 1 && FN(gemm_lines)(&p->b) && p->n >= 8 * GEMM_NR && (p->m > 6 || (p->m > 3 && cached));
    return !tiles;
}

/* whether tiles suit the transposed product better */
INLINE int FN(product_turns)(const FN(product) *p)
{
    const ptrdiff_t vectors = FN(product_vectors)(p->m, p->n), turned = FN(product_vectors)(p->n, p->m);
    if (p->n <= LANES && p->a.ks == 1) /* a vector a row, and rows of A are read in place: turned, they would be packed */
        return 0;
    return turned * 9 < vectors * 8 /* 49 columns fill 64 lanes, but as rows they fill tiles: worth it from an eighth on */
           || (p->n <= GEMM_NR && p->n <= p->m / 4 && p->a.rs == 1 && p->a.ks != 1) /* columns of A make good B */
           /* columns of B are read where they are as rows of A; packing them would be for a few rows only */
           || (p->m <= 4 * LANES && p->m <= p->n / 2 && p->b.ks == 1 && p->b.rs != 1 && !p->b.table && turned * 8 < vectors * 9);
}

FUNC void FN(product_plan)(FN(product) *p, int num_threads)
{
    const ptrdiff_t threads = num_threads > 1 ? num_threads : 1, size = sizeof(real);
    ptrdiff_t tasks = 1;
    p->phases = p->slots = 1;
    p->scratch_bytes = 0;
    p->wave = 0;
    if (p->m <= 0 || p->n <= 0) {
        p->path = PRODUCT_SHORT;
        p->phases = 0;
        return;
    }
    if (p->vector) {
        if (p->n != 1)
            FN(product_flip)(p);
        p->path = PRODUCT_DOT;
        p->parts = FN(gemm_max)(1, FN(gemm_ceil)(p->k, DOT_K));
        const ptrdiff_t least = FN(gemm_max)(DOT_ROWS, 128 / size); /* rows a task: whole cache lines of columns */
        ptrdiff_t blocks = FN(gemm_ceil)(p->m, least);
        if (threads > 1 && blocks < 2 * threads && p->parts > 1) {
            p->wave = FN(gemm_min)(p->parts, FN(gemm_max)(1, 200000 / p->m));
            p->cols = FN(gemm_max)(1, p->wave / (4 * threads));
            p->phases = 2 * FN(gemm_ceil)(p->parts, p->wave);
            tasks = FN(gemm_ceil)(p->wave, p->cols);
        } else {
            p->rows = FN(gemm_max)(1, FN(gemm_min)(blocks / (4 * threads), DOT_COLUMNS / least)) * least;
            tasks = FN(gemm_ceil)(p->m, p->rows);
        }
        p->slots = FN(gemm_min)(threads, tasks);
        if (p->wave || p->a.ks != 1 || p->b.ks != 1 || p->a.table)
            p->scratch_bytes = (size_t)(p->slots * DOT_SCRATCH + p->wave * p->m) * sizeof(real);
        return;
    }
    if (p->k <= PRODUCT_SHORT_K && !p->a.table) {
        p->path = PRODUCT_SHORT;
        p->cols = p->n;
        p->rows = p->m;
        if (threads > 1) {
            ptrdiff_t across = FN(gemm_ceil)(p->n, GEMM_NR), down = FN(gemm_ceil)(p->m, 4 * GEMM_MR);
            p->rows = FN(gemm_max)(1, down / (4 * threads)) * 4 * GEMM_MR;
            if (down < 4 * threads)
                p->cols = FN(gemm_max)(1, across / FN(gemm_ceil)(4 * threads, down)) * GEMM_NR;
        }
        tasks = FN(gemm_ceil)(p->m, p->rows) * FN(gemm_ceil)(p->n, p->cols);
        p->slots = FN(gemm_min)(threads, tasks);
        if (p->m > GEMM_MR && p->n > SHORT_CELLS / p->m)
            p->scratch_bytes = (size_t)(p->slots * (SHORT_BLOCK + 2 * LANES)) * sizeof(real);
        return;
    }
    if (p->n <= PRODUCT_STREAM_ROWS && p->n < p->m)
        FN(product_flip)(p);
    if (FN(product_streams)(p)) {
        p->path = PRODUCT_STREAM;
        ptrdiff_t lines = FN(gemm_ceil)(p->n * size, 256);
        p->cols = FN(gemm_max)(1, FN(gemm_min)(lines / (4 * threads), 16)) * 256 / size;
        tasks = FN(gemm_ceil)(p->n, p->cols);
        p->slots = FN(gemm_min)(threads, tasks);
        p->scratch_bytes = (size_t)(p->slots * STREAM_SCRATCH) * sizeof(real);
        return;
    }
    p->path = PRODUCT_GEMM;
    if (p->ccs == 1 && FN(product_turns)(p))
        FN(product_flip)(p);
    FN(gemm_job) w = {.m = p->m, .n = p->n, .k = p->k, .pack_a = FN(gemm_plain), .pack_b = FN(gemm_plain), .a = &p->a, .b = &p->b, .c = p->c, .ldc = p->crs, .bias_col = p->bias};
    if (p->ccs != 1) {
        w.store = FN(product_store);
        w.bias_col = NULL;
    } else if (p->activation) {
        w.finish = FN(product_activate);
    }
    FN(gemm_plan)(&w, num_threads);
    p->job = w;
    p->phases = FN(gemm_phases)(&w);
    p->scratch_bytes = w.scratch_bytes;
    p->slots = w.slots;
}

FUNC ptrdiff_t FN(product_tasks)(const FN(product) *p, ptrdiff_t phase)
{
    switch (p->path) {
    case PRODUCT_DOT:
        if (!p->wave)
            return FN(gemm_ceil)(p->m, p->rows);
        return phase % 2 ? 1 : FN(gemm_ceil)(FN(gemm_min)(p->wave, p->parts - phase / 2 * p->wave), p->cols);
    case PRODUCT_SHORT:
        return FN(gemm_ceil)(p->m, p->rows) * FN(gemm_ceil)(p->n, p->cols);
    case PRODUCT_STREAM:
        return FN(gemm_ceil)(p->n, p->cols);
    default:
        return FN(gemm_tasks)(&p->job, phase);
    }
}

INLINE void FN(product_task)(const FN(product) *p, const FN(gemm_job) *job, ptrdiff_t phase, ptrdiff_t task, ptrdiff_t slot)
{
    switch (p->path) {
    case PRODUCT_DOT:
        FN(product_dot)(p, phase, task, slot);
        break;
    case PRODUCT_SHORT:
        FN(product_short)(p, task, slot);
        break;
    case PRODUCT_STREAM:
        FN(product_stream)(p, task, slot);
        break;
    default:
        FN(gemm_task)(job, phase, task, slot);
    }
}

/* the tasks of a phase that worker `slot` gets hold of */
FUNC void FN(product_work)(const FN(product) *p, ptrdiff_t phase, ptrdiff_t slot, Tasks *queue)
{
    const FN(gemm_job) job = FN(product_job)(p);
    for (ptrdiff_t task; (task = tasks_next(queue, slot)) >= 0;)
        FN(product_task)(p, &job, phase, task, slot);
}

/* the whole product on the calling thread */
FUNC void FN(product_serial)(const FN(product) *p)
{
    if (p->path == PRODUCT_SHORT) { /* most calls are small: nothing else for them */
        for (ptrdiff_t task = 0; task < p->phases * FN(product_tasks)(p, 0); task++)
            FN(product_short)(p, task, 0);
        return;
    }
    const FN(gemm_job) job = FN(product_job)(p);
    for (ptrdiff_t phase = 0; phase < p->phases; phase++) {
        const ptrdiff_t tasks = FN(product_tasks)(p, phase);
        for (ptrdiff_t task = 0; task < tasks; task++)
            FN(product_task)(p, &job, phase, task, 0);
    }
}

/* ---- batches ---- */

/* p, whose shapes and strides are set, for every item of the batch */
FUNC void FN(batch_plan)(product_batch *t, FN(product) *p, int num_threads)
{
    const ptrdiff_t threads = num_threads > 1 ? num_threads : 1;
    const double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k; /* an item */
    t->block = 0;
    if (t->items > 1 && (t->items >= 4 * threads || flops < 2e6)) {
        /* a task is some microseconds at least, but there are several a thread */
        ptrdiff_t most = t->items / (8 * threads), least = (ptrdiff_t)(2e5 / (flops + 1)) + 1;
        t->block = FN(gemm_max)(1, FN(gemm_min)(most, least));
    }
    FN(product_plan)(p, t->block ? 1 : num_threads);
    if (t->block) {
        p->scratch_bytes = (p->scratch_bytes + 63) / 64 * 64;
        t->slots = FN(gemm_min)(threads, FN(gemm_ceil)(t->items, t->block));
        t->phases = p->phases > 0;
        t->scratch_bytes = p->scratch_bytes * (size_t)t->slots;
    } else {
        t->slots = p->slots;
        t->phases = p->phases * t->items;
        t->scratch_bytes = p->scratch_bytes;
    }
}

/* the operand's n rows (or columns) of k fill one piece of memory */
INLINE int FN(product_solid)(const FN(gemm_matrix) *x, ptrdiff_t n, ptrdiff_t k)
{
    return (x->ks == 1 && x->rs == k) || (x->rs == 1 && x->ks == n);
}

/* q, a copy of p, becomes the product of an item */
INLINE void FN(batch_item)(const product_batch *t, const FN(product) *p, ptrdiff_t item, FN(product) *q)
{
    q->c = p->c + item * p->m * p->n;
    q->a.p = p->a.p;
    q->b.p = p->b.p;
    for (int axis = t->axes - 1; axis >= 0; axis--) {
        const ptrdiff_t i = axis ? item % t->length[axis] : item; /* one axis, no division */
        item = axis ? item / t->length[axis] : 0;
        q->a.p += i * (p->flipped ? t->step_b : t->step_a)[axis];
        q->b.p += i * (p->flipped ? t->step_a : t->step_b)[axis];
    }
}

INLINE void FN(batch_items)(const product_batch *t, const FN(product) *p, ptrdiff_t lo, ptrdiff_t hi, ptrdiff_t slot)
{
    const int solid_a = FN(product_solid)(&p->a, p->m, p->k), solid_b = FN(product_solid)(&p->b, p->n, p->k);
    FN(product) q = *p, next = *p;
    q.scratch = (char *)p->scratch + (size_t)slot * p->scratch_bytes;
    FN(batch_item)(t, p, lo, &q);
    for (ptrdiff_t item = lo; item < hi; item++) {
        const int more = item + 1 < hi;
        if (more)
            FN(batch_item)(t, p, item + 1, &next);
        q.next_a = more && solid_a ? next.a.p : NULL;
        q.next_b = more && solid_b ? next.b.p : NULL;
        FN(product_serial)(&q);
        q.a.p = next.a.p, q.b.p = next.b.p, q.c = next.c;
    }
}

/* the tasks of a phase: blocks of items, or what an item is cut into */
FUNC void FN(batch_begin)(product_batch *t, const FN(product) *p, ptrdiff_t phase)
{
    tasks_begin(&t->queue, t->block ? FN(gemm_ceil)(t->items, t->block) : FN(product_tasks)(p, phase % p->phases), t->slots);
}

/* those that worker `slot` gets hold of */
FUNC void FN(batch_work)(product_batch *t, const FN(product) *p, ptrdiff_t phase, ptrdiff_t slot)
{
    if (!t->block) {
        FN(product) q = *p;
        FN(batch_item)(t, p, phase / p->phases, &q);
        FN(product_work)(&q, phase % p->phases, slot, &t->queue);
        return;
    }
    for (ptrdiff_t task; (task = tasks_next(&t->queue, slot)) >= 0;)
        FN(batch_items)(t, p, task * t->block, FN(gemm_min)((task + 1) * t->block, t->items), slot);
}

FUNC void FN(batch_serial)(const product_batch *t, const FN(product) *p)
{
    if (t->phases)
        FN(batch_items)(t, p, 0, t->items, 0);
}
