/* matmul_product_real.h: one product and its transposed, for one scalar type. Included by matmul.h only (read its head). */

typedef struct {
    ptrdiff_t m, n, k;
    FN(gemm_matrix) a, b; /* a.rs: from row to row; b.rs: from column to column */
    real *c;
    ptrdiff_t crs, ccs; /* C(i, j) is c[i*crs + j*ccs]; one of them is 1 */
    const real *bias;
    int activation;  /* ACTIVATION_...: C's values, activated, go where C is, or `apart` elements from there */
    ptrdiff_t apart;
    int vector;         /* M or N is 1 by the shape of the whole call, not only of this item: the order of dot */
    ptrdiff_t brs, bcs; /* bias[i*brs + j*bcs] to C(i, j): one of them is 1, the other 0. NULL: none */
    const real *next_a, *next_b; /* the next item's operands, where they are one piece of memory: short fetches them meanwhile */
    /* filled in by product_plan */
    size_t scratch_bytes;
    void *scratch;
    ptrdiff_t phases, slots;
    ptrdiff_t rows, cols;   /* of C a task */
    ptrdiff_t parts, wave;  /* dot: parts of a sum, and how many of them a phase */
    int path, flipped;
    FN(gemm_job) job;
} FN(product);

/* C transposed: rows become columns. Every path may take the one or the other, whichever shape suits it */
INLINE void FN(product_flip)(FN(product) *p)
{
    FN(gemm_matrix) x = p->a;
    ptrdiff_t t = p->m;
    p->a = p->b, p->b = x;
    p->m = p->n, p->n = t;
    t = p->crs, p->crs = p->ccs, p->ccs = t;
    t = p->brs, p->brs = p->bcs, p->bcs = t;
    p->flipped = !p->flipped;
}
