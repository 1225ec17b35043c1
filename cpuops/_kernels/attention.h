/* attention.h: softmax(q k^T scale + bias) v and its gradient, in tiles over the keys, on gemm.h and vmath.h.
 *
 * Letters: B batch, H query heads, HK key heads, N = H/HK heads a group, SQ queries, SK keys, E width of q and k, EV of v.
 * q [B,H,SQ,E], k [B,HK,SK,E], v [B,HK,SK,EV], output [B,H,SQ,EV], contiguous; mask and bias have four strides, 0 where
 * they are broadcast. A group's queries lie one after the other: its rows are r = (head in the group)*SQ + query, and
 * all of them meet the same keys, which are read where they are.
 *
 * A block of rows meets the keys in tiles of ATTENTION_K. Scores are kept transposed, [key][row]: rows of the block are
 * the lanes of vectors, in panels of GEMM_NR. So K and V are the operand that the register tile takes element by element
 * (no packing, any E and EV), what is packed is packed once a block, and maxima and sums over keys are vertical.
 *
 * Online softmax (Milakov and Gimelshein 2018; Dao et al. 2022), m the maximum so far, l the sum of exp(s - m):
 *     m' = max(m, s)    l' = l exp(m - m') + sum exp(s - m')    o' = o exp(m - m') + exp(s - m') v    output = o/l
 *     logsumexp = m + log(l)
 * Where few blocks but many keys are, the keys are cut into parts of fixed length, whose (m, l, o) are joined in order.
 *
 * Hidden is what the mask says, a key beyond the causal limit, and a bias of -inf. A hidden cell gets the score -inf by
 * selection, not by addition, and products skip it wherever the other factor is not finite.
 *
 * attention_term_real.h      mask, bias, causal limits; products that skip hidden cells
 * attention_forward_real.h   blocks of many rows        attention_rows_real.h   few rows: keys and features are the lanes
 * attention_backward_real.h  gradients of q, k, v       attention_rows_backward_real.h   those of few rows
 * attention_bias_real.h      gradient of the bias
 */
#ifndef CPUOPS_ATTENTION_H
#define CPUOPS_ATTENTION_H
#include "simd.h"
#include "vmath.h"
#include "gemm.h"

#define ATTENTION_K 128 /* keys a tile: scores of a panel, 16 KB, stay in L1 */
/* rows a block: each tile of K and V is fetched once for so many */
#define ATTENTION_Q_f32 128
#define ATTENTION_Q_f64 64
#define ATTENTION_Q FN(ATTENTION_Q)
/* ... and fewer where E or EV are so large that the packed block would not stay in L2 */
#define ATTENTION_BLOCK_CELLS 65536
/* keys are cut while there are fewer tasks than this, into parts of at least so many keys */
#define ATTENTION_TASKS 32
#define ATTENTION_PART 512
/* backward: at most so many partial key and value gradients, of at least so many rows each */
#define ATTENTION_CHUNKS 8
#define ATTENTION_CHUNK_ROWS 256
#define ATTENTION_PARTIAL_BYTES (1 << 26) /* and, beyond two, so much memory */
/* gradient of the bias: keys a task */
#define ATTENTION_BIAS_KEYS 512

/* exp(r) = 1 + r (c0 + c1 r + ...) for |r| <= ln(2)/2: minimax of the relative error, 9e-8 before rounding */
#define WEIGHT_0 0.9999997f
#define WEIGHT_1 0.49999148f
#define WEIGHT_2 0.16667639f
#define WEIGHT_3 0.04189816f
#define WEIGHT_4 0.00829027f

typedef struct {
    const void *q, *k, *v, *bias;
    const unsigned char *mask;
    const void *output, *logsumexp, *output_grad;              /* backward */
    void *out, *lse, *q_grad, *k_grad, *v_grad, *bias_grad;    /* what is written; NULL where it is not wanted */
    ptrdiff_t batch, heads, kv_heads, sq, sk, e, ev;
    ptrdiff_t mask_stride[4], bias_stride[4];                  /* in elements; 0 on a broadcast axis */
    ptrdiff_t bias_shape[4];
    double scale, softcap;                                     /* softcap 0: none */
    int causal;
    ptrdiff_t offset;                                          /* causal: query i sees the keys j <= i + offset */
    /* the cut, by shape only */
    ptrdiff_t group, rows;                                     /* heads of a group; its rows */
    ptrdiff_t block, span, blocks;                             /* rows a block, rows that blocks may not cross, blocks a group */
    ptrdiff_t part, parts;                                     /* keys a part */
    ptrdiff_t chunks;                                          /* partial gradients of a group */
    ptrdiff_t units, next;                                     /* of the running stage; the first one not taken */
    int stage;
    char *memory;                                              /* what all workers share, then a slot a worker */
    size_t shared_bytes, slot_bytes;
} attention_plan;

typedef void (*attention_cut)(attention_plan *p);              /* fills in the cut and the bytes */
typedef int (*attention_stage)(attention_plan *p);             /* next stage: sets p->units; 0 when there is none */
typedef void (*attention_work)(const attention_plan *p, ptrdiff_t unit, void *slot);

static void attention_units(attention_plan *p, attention_work work, ptrdiff_t slot)
{
    for (;;) {
        ptrdiff_t unit = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED);
        if (unit >= p->units)
            return;
        work(p, unit, p->memory + p->shared_bytes + (size_t)slot * p->slot_bytes);
    }
}

INLINE ptrdiff_t smaller(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t larger(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
INLINE ptrdiff_t pieces(ptrdiff_t n, ptrdiff_t size) { return (n + size - 1) / size; }
INLINE ptrdiff_t rounded(ptrdiff_t n, ptrdiff_t to) { return pieces(n, to) * to; }
INLINE size_t whole_lines(size_t bytes) { return (bytes + 127) / 64 * 64; } /* and a vector that a packer may write beyond */

/* the head and the query of a group's row */
INLINE ptrdiff_t head_of(const attention_plan *p, ptrdiff_t group, ptrdiff_t r) { return group * p->group + r / p->sq; }

/* keys that a query sees; SK without causal */
INLINE ptrdiff_t keys_seen(const attention_plan *p, ptrdiff_t r)
{
    return p->causal ? larger(0, smaller(p->sk, r % p->sq + p->offset + 1)) : p->sk;
}

/* rows [r0, r0 + n) of a group that a block holds: the blocks of a span, span after span */
INLINE void block_rows(const attention_plan *p, ptrdiff_t block, ptrdiff_t *r0, ptrdiff_t *n)
{
    ptrdiff_t each = pieces(p->span, p->block);
    *r0 = block / each * p->span + block % each * p->block;
    *n = smaller(p->block, p->span - block % each * p->block);
}

/* the most keys that one of the rows [r0, r0 + n) sees */
INLINE ptrdiff_t most_keys(const attention_plan *p, ptrdiff_t r0, ptrdiff_t n)
{
    if (r0 / p->sq != (r0 + n - 1) / p->sq)
        return keys_seen(p, p->sq - 1);
    return keys_seen(p, r0 + n - 1);
}

static void attention_blocks(attention_plan *p, ptrdiff_t rows, ptrdiff_t panel)
{
    ptrdiff_t wide = larger(1, larger(p->e, p->ev));
    p->group = p->kv_heads ? p->heads / p->kv_heads : 0;
    p->rows = p->group * p->sq;
    p->block = larger(panel, smaller(rows, ATTENTION_BLOCK_CELLS / wide / panel * panel));
    p->span = p->sq >= p->block ? p->sq : p->rows;
    p->blocks = p->span ? p->rows / p->span * pieces(p->span, p->block) : 0;
    p->stage = 0;
    p->parts = p->chunks = 1;
    p->part = p->sk;
    p->shared_bytes = 0;
}

#define REAL_BODY "attention_term_real.h"
#include "for_each_real.h"
#define REAL_BODY "attention_rows_real.h"
#include "for_each_real.h"
#define REAL_BODY "attention_forward_real.h"
#include "for_each_real.h"
#define REAL_BODY "attention_backward_real.h"
#include "for_each_real.h"
#endif
