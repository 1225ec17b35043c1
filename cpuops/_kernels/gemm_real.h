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
    /* filled in by gemm_plan */
    size_t scratch_bytes;
    void *scratch;
    ptrdiff_t mr, kc, chunks, slots;
    ptrdiff_t panels_a, panels_b, stride_a, stride_b; /* strides of packed panels, in elements */
    ptrdiff_t block;                                  /* panels of the shared operand packed at once */
    ptrdiff_t group;                                  /* panels of the private operand a task */
    ptrdiff_t wave;                                   /* deep: chunks a phase */
    int share_a, deep;
    ptrdiff_t next; /* the task to take next in the running phase */
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

/* ---- the register tile ---- */

#define GEMM_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)

/* c[rows, nv vectors] (+)= a b over kc, then + bias. A element (i, k) is a[i*ars + k*aks]; B row k starts at b + k*bks.
 * rows and nv are constants after inlining; all accumulators are in registers */
INLINE void FN(gemm_tile)(const int rows, const int nv, ptrdiff_t kc, const real *a, ptrdiff_t ars, ptrdiff_t aks,
                          const real *b, ptrdiff_t bks, real *c, ptrdiff_t ldc, int add, const real *bias_row,
                          const real *bias_col)
{
#define X(i) vec c##i = vzero(), d##i = vzero();
    GEMM_ROWS(X)
#undef X
    /* rows 3q, 3q+1, 3q+2 from one pointer, by the addressing modes p, p + s, p + 2s */
    const real *a0 = a, *a3 = a + 3 * ars, *a6 = a + 6 * ars, *a9 = a + 9 * ars, *a12 = a + 12 * ars;
    const ptrdiff_t s2 = 2 * ars;
    __asm__("" : "+r"(aks)); /* keeps the compiler from a second copy of the loop for stride 1 */
#define A0 a0[0]
#define A1 a0[ars]
#define A2 a0[s2]
#define A3 a3[0]
#define A4 a3[ars]
#define A5 a3[s2]
#define A6 a6[0]
#define A7 a6[ars]
#define A8 a6[s2]
#define A9 a9[0]
#define A10 a9[ars]
#define A11 a9[s2]
#define A12 a12[0]
#define A13 a12[ars]
    for (ptrdiff_t k = 0; k < kc; k++) {
        vec b0 = vload(b), b1 = nv > 1 ? vload(b + LANES) : b0;
#define X(i)                               \
    if (i < rows) {                        \
        vec t = vset(A##i);                \
        c##i = vfma(t, b0, c##i);          \
        if (nv > 1)                        \
            d##i = vfma(t, b1, d##i);      \
    }
        GEMM_ROWS(X)
#undef X
        b += bks;
        a0 += aks, a3 += aks, a6 += aks, a9 += aks, a12 += aks;
    }
#undef A0
#undef A1
#undef A2
#undef A3
#undef A4
#undef A5
#undef A6
#undef A7
#undef A8
#undef A9
#undef A10
#undef A11
#undef A12
#undef A13
    if (add) {
        real *p = c;
#define X(i)                               \
    if (i < rows) {                        \
        c##i = vload(p) + c##i;            \
        if (nv > 1)                        \
            d##i = vload(p + LANES) + d##i; \
        p += ldc;                          \
    }
        GEMM_ROWS(X)
#undef X
    }
    if (bias_row) {
#define X(i)                    \
    if (i < rows) {             \
        vec t = vset(bias_row[i]); \
        c##i = c##i + t;        \
        d##i = d##i + t;        \
    }
        GEMM_ROWS(X)
#undef X
    }
    if (bias_col) {
        vec b0 = vload(bias_col), b1 = nv > 1 ? vload(bias_col + LANES) : b0;
#define X(i) c##i = c##i + b0, d##i = d##i + b1;
        GEMM_ROWS(X)
#undef X
    }
#define X(i)                           \
    if (i < rows) {                    \
        vstore(c, c##i);               \
        if (nv > 1)                    \
            vstore(c + LANES, d##i);   \
        c += ldc;                      \
    }
    GEMM_ROWS(X)
#undef X
}

#define GEMM_TILE_ARGS                                                                                                  \
    ptrdiff_t kc, const real *a, ptrdiff_t ars, ptrdiff_t aks, const real *b, ptrdiff_t bks, real *c, ptrdiff_t ldc,    \
        int add, const real *bias_row, const real *bias_col
#define X(i)                                                                                                            \
    FUNC void FN(gemm_tile_##i##_1)(GEMM_TILE_ARGS)                                                                     \
    {                                                                                                                   \
        FN(gemm_tile)(i + 1 <= GEMM_MR ? i + 1 : 1, 1, kc, a, ars, aks, b, bks, c, ldc, add, bias_row, bias_col);       \
    }                                                                                                                   \
    FUNC void FN(gemm_tile_##i##_2)(GEMM_TILE_ARGS)                                                                     \
    {                                                                                                                   \
        FN(gemm_tile)(i + 1 <= GEMM_MR ? i + 1 : 1, 2, kc, a, ars, aks, b, bks, c, ldc, add, bias_row, bias_col);       \
    }
GEMM_ROWS(X)
#undef X
typedef void (*FN(gemm_tile_function))(GEMM_TILE_ARGS);
#define X(i) {FN(gemm_tile_##i##_1), FN(gemm_tile_##i##_2)},
/* [rows - 1][vectors - 1] */
static const FN(gemm_tile_function) FN(gemm_tiles)[14][2] __attribute__((unused)) = {GEMM_ROWS(X)};
#undef X

/* rows <= GEMM_MR by cols <= GEMM_NR of C. A short row of the tile goes through a buffer of whole vectors */
INLINE void FN(gemm_piece)(ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t kc, const real *a, ptrdiff_t ars, ptrdiff_t aks,
                           const real *b, ptrdiff_t bks, real *c, ptrdiff_t ldc, int add, const real *bias_row,
                           const real *bias_col)
{
    FN(gemm_tile_function) tile = FN(gemm_tiles)[rows - 1][cols > LANES];
    if (cols == GEMM_NR || cols == LANES) {
        tile(kc, a, ars, aks, b, bks, c, ldc, add, bias_row, bias_col);
        return;
    }
    real t[GEMM_MR * GEMM_NR] __attribute__((aligned(64)));
    tile(kc, a, ars, aks, b, bks, t, GEMM_NR, 0, NULL, NULL);
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < cols; j += LANES) {
            ptrdiff_t n = cols - j < LANES ? cols - j : LANES;
            vec v = vload(t + i * GEMM_NR + j);
            if (add)
                v = vload_n(c + i * ldc + j, n) + v;
            if (bias_row)
                v = v + vset(bias_row[i]);
            if (bias_col)
                v = v + vload_n(bias_col + j, n);
            vstore_n(c + i * ldc + j, v, n);
        }
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
    } else if (rs == 1 && ni == GEMM_MR && width == GEMM_MR) {
        for (ptrdiff_t k = 0; k < nk; k++, p += ks, panel += GEMM_MR)
            memcpy(panel, p, GEMM_MR * sizeof(real));
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
    for (ptrdiff_t k = k0; k < k0 + nk;) {
        ptrdiff_t block = k / x->inner, in = k % x->inner, n = x->inner - in;
        if (n > k0 + nk - k)
            n = k0 + nk - k;
        FN(gemm_pack_run)(p + x->table[block] + in * x->ks, x->rs, x->ks, ni, n, panel + (k - k0) * width, width);
        k += n;
    }
}

/* ---- the plan ---- */

#define GEMM_SHARED_BYTES 3000000 /* a packed block of the shared operand: about the L2, well under any L3 */
#define GEMM_PARTIAL_BYTES 3000000 /* partial sums of the deep path */
#define GEMM_TASKS 16             /* tasks a phase to aim at: several for every thread of a small machine */

INLINE ptrdiff_t FN(gemm_ceil)(ptrdiff_t a, ptrdiff_t b) { return (a + b - 1) / b; }
INLINE ptrdiff_t FN(gemm_min)(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t FN(gemm_max)(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

/* nothing decided here changes a bit of the result */
FUNC void FN(gemm_plan)(FN(gemm_job) *w, int num_threads)
{
    const ptrdiff_t padded = 64 / (ptrdiff_t)sizeof(real); /* slack of a vector after every panel, and its alignment */
    ptrdiff_t threads = num_threads > 1 ? num_threads : 1;
    w->kc = FN(gemm_kc)(w->k);
    w->chunks = w->k > 0 ? FN(gemm_ceil)(w->k, w->kc) : 1;
    w->panels_a = FN(gemm_ceil)(w->m, GEMM_MR);
    w->mr = w->panels_a ? FN(gemm_ceil)(w->m, w->panels_a) : 1; /* 15 rows are 8 and 7, not 14 and 1 */
    w->panels_b = FN(gemm_ceil)(w->n, GEMM_NR);
    w->stride_a = (w->mr * w->kc + padded + padded - 1) / padded * padded;
    w->stride_b = (GEMM_NR * w->kc + padded + padded - 1) / padded * padded;
    /* the operand with more panels is private: packed by the task that uses it, right before it does */
    w->share_a = w->panels_a < w->panels_b;
    ptrdiff_t shared = w->share_a ? w->panels_a : w->panels_b, own = w->share_a ? w->panels_b : w->panels_a;
    ptrdiff_t shared_stride = w->share_a ? w->stride_a : w->stride_b, own_stride = w->share_a ? w->stride_b : w->stride_a;
    w->block = FN(gemm_min)(shared, FN(gemm_max)(1, GEMM_SHARED_BYTES / (shared_stride * (ptrdiff_t)sizeof(real))));
    w->group = FN(gemm_max)(1, FN(gemm_min)(own / GEMM_TASKS, w->share_a ? 4 : 8));
    ptrdiff_t tasks = FN(gemm_ceil)(own, w->group);
    /* too few cells for the threads, but a long sum */
    size_t cells = (size_t)w->m * (size_t)w->n;
    w->deep = 0;
    if (threads > 1 && tasks < 2 * threads && w->chunks > 2 * tasks && w->chunks >= threads && cells &&
        cells <= GEMM_PARTIAL_BYTES / sizeof(real) / (size_t)(2 * threads)) {
        w->deep = 1;
        w->wave = FN(gemm_min)(w->chunks, GEMM_PARTIAL_BYTES / (ptrdiff_t)(cells * sizeof(real)));
        w->slots = FN(gemm_min)(threads, w->wave);
        /* a slot packs one panel of each operand at a time; partial sums come first */
        w->scratch_bytes = ((size_t)w->wave * FN(gemm_ceil)((ptrdiff_t)cells, padded) * padded +
                            (size_t)w->slots * (size_t)(w->panels_a * w->stride_a + w->stride_b)) * sizeof(real);
        return;
    }
    w->slots = FN(gemm_max)(1, FN(gemm_min)(threads, tasks));
    w->scratch_bytes = ((size_t)w->block * (size_t)shared_stride + (size_t)w->slots * (size_t)w->group * (size_t)own_stride) * sizeof(real);
}

/* ---- the work of one task ---- */

INLINE void FN(gemm_pack_panel)(const FN(gemm_job) *w, int is_a, ptrdiff_t panel, ptrdiff_t chunk, real *to)
{
    ptrdiff_t width = is_a ? w->mr : GEMM_NR, i0 = panel * width, k0 = chunk * w->kc;
    ptrdiff_t ni = FN(gemm_min)(width, (is_a ? w->m : w->n) - i0), nk = FN(gemm_min)(w->kc, w->k - k0);
    (is_a ? w->pack_a : w->pack_b)(is_a ? w->a : w->b, i0, ni, k0, nk, to, width);
}

/* one tile of C from two packed panels */
INLINE void FN(gemm_cell)(const FN(gemm_job) *w, ptrdiff_t pa, ptrdiff_t pb, ptrdiff_t chunk, const real *a, const real *b)
{
    ptrdiff_t i0 = pa * w->mr, j0 = pb * GEMM_NR;
    ptrdiff_t ni = FN(gemm_min)(w->mr, w->m - i0), nj = FN(gemm_min)(GEMM_NR, w->n - j0);
    ptrdiff_t nk = FN(gemm_min)(w->kc, w->k - chunk * w->kc);
    int add = chunk > 0 || w->add, last = chunk == w->chunks - 1;
    const real *row = last && w->bias_row ? w->bias_row + i0 : NULL, *col = last && w->bias_col ? w->bias_col + j0 : NULL;
    if (!w->store) {
        real *c = w->c + i0 * w->ldc + j0;
        FN(gemm_piece)(ni, nj, nk, a, 1, w->mr, b, GEMM_NR, c, w->ldc, add, row, col);
        if (last && w->finish)
            w->finish(w->finish_ctx, c, w->ldc, i0, ni, j0, nj);
        return;
    }
    real t[GEMM_MR * GEMM_NR] __attribute__((aligned(64)));
    FN(gemm_tiles)[ni - 1][nj > LANES](nk, a, 1, w->mr, b, GEMM_NR, t, GEMM_NR, 0, row, NULL);
    if (col)
        for (ptrdiff_t i = 0; i < ni; i++)
            for (ptrdiff_t j = 0; j < nj; j++)
                t[i * GEMM_NR + j] += col[j];
    w->store(w->store_ctx, i0, ni, j0, nj, t, GEMM_NR, add, last);
}

INLINE real *FN(gemm_partial)(const FN(gemm_job) *w, ptrdiff_t chunk)
{
    const ptrdiff_t padded = 64 / (ptrdiff_t)sizeof(real);
    return (real *)w->scratch + chunk % w->wave * FN(gemm_ceil)(w->m * w->n, padded) * padded;
}

/* phases alternate: pack the shared operand (deep: compute a wave of partial C), then multiply (deep: add them up) */
FUNC ptrdiff_t FN(gemm_phases)(const FN(gemm_job) *w)
{
    if (w->m <= 0 || w->n <= 0)
        return 0;
    if (w->deep)
        return 2 * FN(gemm_ceil)(w->chunks, w->wave);
    return 2 * w->chunks * FN(gemm_ceil)(w->share_a ? w->panels_a : w->panels_b, w->block);
}

FUNC ptrdiff_t FN(gemm_tasks)(const FN(gemm_job) *w, ptrdiff_t phase)
{
    ptrdiff_t half = phase / 2;
    if (w->deep)
        return phase % 2 ? FN(gemm_ceil)(w->m * w->n, 4096) : FN(gemm_min)(w->wave, w->chunks - half * w->wave);
    ptrdiff_t shared = w->share_a ? w->panels_a : w->panels_b, own = w->share_a ? w->panels_b : w->panels_a;
    ptrdiff_t first = half / w->chunks * w->block;
    return phase % 2 ? FN(gemm_ceil)(own, w->group) : FN(gemm_min)(w->block, shared - first);
}

FUNC void FN(gemm_task)(const FN(gemm_job) *w, ptrdiff_t phase, ptrdiff_t task, ptrdiff_t slot)
{
    real *scratch = (real *)w->scratch;
    ptrdiff_t half = phase / 2, chunk = half % w->chunks, first = half / w->chunks * w->block;
    ptrdiff_t shared = w->share_a ? w->panels_a : w->panels_b, own = w->share_a ? w->panels_b : w->panels_a;
    ptrdiff_t shared_stride = w->share_a ? w->stride_a : w->stride_b, own_stride = w->share_a ? w->stride_b : w->stride_a;
    if (phase % 2 == 0) {
        FN(gemm_pack_panel)(w, w->share_a, first + task, chunk, scratch + task * shared_stride);
        return;
    }
    ptrdiff_t last = FN(gemm_min)(first + w->block, shared);
    ptrdiff_t p0 = task * w->group, p1 = FN(gemm_min)(p0 + w->group, own);
    real *mine = scratch + w->block * shared_stride + slot * w->group * own_stride;
    for (ptrdiff_t p = p0; p < p1; p++)
        FN(gemm_pack_panel)(w, !w->share_a, p, chunk, mine + (p - p0) * own_stride);
    for (ptrdiff_t s = first; s < last; s++)
        for (ptrdiff_t p = p0; p < p1; p++) {
            const real *sp = scratch + (s - first) * shared_stride, *pp = mine + (p - p0) * own_stride;
            FN(gemm_cell)(w, w->share_a ? s : p, w->share_a ? p : s, chunk, w->share_a ? sp : pp, w->share_a ? pp : sp);
        }
}

/* deep: chunk `task` of this wave into its own partial C, or the partial sums added in order over a range of cells */
FUNC void FN(gemm_deep_task)(const FN(gemm_job) *w, ptrdiff_t phase, ptrdiff_t task, ptrdiff_t slot)
{
    ptrdiff_t first = phase / 2 * w->wave, end = FN(gemm_min)(first + w->wave, w->chunks);
    if (phase % 2 == 0) {
        FN(gemm_job) one = *w; /* the same product over one chunk, stored row-major */
        ptrdiff_t chunk = first + task;
        real *mine = FN(gemm_partial)(w, w->wave) ;
        (void)mine;
        const ptrdiff_t padded = 64 / (ptrdiff_t)sizeof(real);
        real *a = (real *)w->scratch + w->wave * FN(gemm_ceil)(w->m * w->n, padded) * padded +
                  slot * (w->panels_a * w->stride_a + w->stride_b);
        real *b = a + w->panels_a * w->stride_a, *c = FN(gemm_partial)(w, chunk);
        (void)one;
        ptrdiff_t nk = FN(gemm_min)(w->kc, w->k - chunk * w->kc);
        for (ptrdiff_t p = 0; p < w->panels_a; p++)
            FN(gemm_pack_panel)(w, 1, p, chunk, a + p * w->stride_a);
        for (ptrdiff_t q = 0; q < w->panels_b; q++) {
            FN(gemm_pack_panel)(w, 0, q, chunk, b);
            for (ptrdiff_t p = 0; p < w->panels_a; p++) {
                ptrdiff_t i0 = p * w->mr, j0 = q * GEMM_NR;
                FN(gemm_piece)(FN(gemm_min)(w->mr, w->m - i0), FN(gemm_min)(GEMM_NR, w->n - j0), nk, a + p * w->stride_a, 1,
                               w->mr, b, GEMM_NR, c + i0 * w->n + j0, w->n, 0, NULL, NULL);
            }
        }
        return;
    }
    (void)end;
}
