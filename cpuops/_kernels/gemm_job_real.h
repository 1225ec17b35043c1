/* gemm_job_real.h: a product to be planned, the order of its sums, and the packing of a matrix, for one scalar type. Included by gemm.h only. */

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
    int moving; /* products of this plan have B in other places: how it is read may not depend on where */
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
