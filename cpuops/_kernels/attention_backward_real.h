/* attention_backward_real.h: gradients of q, k and v, for attention.h; one scalar type.
 *
 *     p = exp(s - logsumexp)    delta = sum of output_grad output    ds = p (output_grad v^T - delta)
 *     v_grad = p^T output_grad    q_grad = ds k scale    k_grad = ds^T q scale
 * with ds (1 - tanh^2) in place of ds under a softcap. The probabilities are computed anew, tile by tile.
 *
 * A task has some blocks of one group's rows, so that q_grad has one writer, and adds up k_grad and v_grad of all keys over
 * them. Where a group is cut into several tasks (chunks), each has partial gradients of its own, which are added in order. */

typedef struct {
    real *q, *g;          /* [panel][E][GEMM_NR]: queries times scale; [panel][EV][GEMM_NR]: output_grad */
    real *q_rows, *g_rows; /* the same [row][E], [row][EV], padded to whole vectors */
    real *q_grad;         /* [panel][E][GEMM_NR] */
    real *lse, *delta;    /* [row] */
    real *s, *ds;         /* [ATTENTION_K][ld]: scores, then p; output_grad v^T, then ds */
    real *by_key;
    double *sums;         /* gradient of the bias: [row] or [key] */
    FN(term_scratch) *terms;
} FN(backward_slot);

/* rows of tiles lie a vector apart from a multiple of the L1's way */
INLINE ptrdiff_t FN(tile_ld)(const attention_plan *p) { return p->block + LANES; }

FUNC size_t FN(backward_layout)(const attention_plan *p, char *at, FN(backward_slot) *s)
{
    const size_t size = sizeof(real), lanes = (size_t)p->block, tile = ATTENTION_K * (size_t)FN(tile_ld)(p);
    char *start = at;
#define TAKE(name, bytes) s->name = (void *)at, at += whole_lines(bytes)
    TAKE(q, lanes * (size_t)p->e * size);
    TAKE(g, lanes * (size_t)p->ev * size);
    TAKE(q_rows, lanes * (size_t)rounded(p->e, LANES) * size);
    TAKE(g_rows, lanes * (size_t)rounded(p->ev, LANES) * size);
    TAKE(q_grad, lanes * (size_t)p->e * size);
    TAKE(lse, lanes * size);
    TAKE(delta, lanes * size);
    TAKE(s, tile * size);
    TAKE(ds, tile * size);
    TAKE(by_key, ATTENTION_K * size);
    TAKE(sums, sizeof(double) * (size_t)larger(p->block, ATTENTION_BIAS_KEYS));
    TAKE(terms, sizeof(FN(term_scratch)));
#undef TAKE
    return (size_t)(at - start);
}

/* out [n][ld] = x [n][width] times scale */
FUNC void FN(copy_rows)(const real *x, ptrdiff_t n, ptrdiff_t width, real scale, real *out)
{
    const ptrdiff_t ld = rounded(width, LANES);
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t w = 0; w < width; w += LANES)
            vstore(out + i * ld + w, vload_n(x + i * width + w, smaller(LANES, width - w)) * vset(scale));
}

/* the sum of output_grad output of a row of all */
FUNC real FN(row_delta)(const attention_plan *p, ptrdiff_t row)
{
    const real *g = (const real *)p->output_grad + row * p->ev, *out = (const real *)p->output + row * p->ev;
    vec sum = vzero();
    for (ptrdiff_t w = 0; w < p->ev; w += LANES) {
        ptrdiff_t m = smaller(LANES, p->ev - w);
        sum = vfma(vload_n(g + w, m), vload_n(out + w, m), sum);
    }
    return vhsum(sum);
}

/* what a block of rows [r0, r0 + n) of a group needs before it meets keys */
FUNC void FN(pack_block)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t r0, ptrdiff_t n, const FN(backward_slot) *s)
{
    const ptrdiff_t first = (b * p->kv_heads + group) * p->rows + r0;
    const real *q = (const real *)p->q + first * p->e, *g = (const real *)p->output_grad + first * p->ev;
    const real *lse = (const real *)p->logsumexp + first;
    for (ptrdiff_t i = 0; i < n; i += GEMM_NR) {
        FN(pack_rows)(q + i * p->e, smaller(GEMM_NR, n - i), p->e, (real)p->scale, s->q + i * p->e);
        FN(pack_rows)(g + i * p->ev, smaller(GEMM_NR, n - i), p->ev, 1, s->g + i * p->ev);
    }
    for (ptrdiff_t i = 0; i < rounded(n, GEMM_NR); i++) {
        s->delta[i] = i < n ? FN(row_delta)(p, first + i) : 0;
        s->lse[i] = i < n ? lse[i] : 0;
    }
}

/* scores s to p, dp to ds, for one panel of nk keys; with `bias`, ds is the gradient of the biased score */
FUNC void FN(gradient_panel)(real *s, real *dp, ptrdiff_t ld, ptrdiff_t nk, const FN(hiding) *hide, real cap, const real *lse,
                             const real *delta, int bias)
{
    const real over_cap = cap != 0 ? 1 / cap : 0;
    const int plain = cap == 0 && !hide->term && !hide->visible;
    for (ptrdiff_t lane = 0; lane < GEMM_NR; lane += LANES) {
        const vec z = vload(lse + lane), d = vload(delta + lane);
        real *x = s + lane, *y = dp + lane;
        if (plain) {
            for (ptrdiff_t j = 0; j < nk; j++, x += ld, y += ld) {
                vec e = FN(weight)(vload(x) - z);
                vstore(x, e);
                vstore(y, e * (vload(y) - d));
            }
            continue;
        }
        for (ptrdiff_t j = 0; j < nk; j++, x += ld, y += ld) {
            vmask hidden;
            vec tanh = vzero();
            vec e = FN(weight)(FN(score)(vload(x), hide, j, lane, cap, over_cap, &hidden, &tanh) - z);
            vec t = e * (vload(y) - d);
            if (cap != 0 && !bias)
                t = t * vfnma(tanh, tanh, vset(1));
            vstore(x, vsel(hidden, vzero(), e));
            vstore(y, vsel(hidden, vzero(), t));
        }
    }
}

/* s and ds of rows [r0, r0 + n) and keys [j0, j0 + keys): of each panel the keys that it sees, the rest 0. Returns how many
 * keys the panel sees that sees the most; *hides tells whether any cell is hidden */
FUNC ptrdiff_t FN(gradient_tile)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t r0, ptrdiff_t n, ptrdiff_t j0,
                                 ptrdiff_t keys, int by_key, int bias, const FN(backward_slot) *s, int *hides, ptrdiff_t *seen)
{
    const ptrdiff_t g = b * p->kv_heads + group, ld = FN(tile_ld)(p);
    const real *k = (const real *)p->k + (g * p->sk + j0) * p->e, *v = (const real *)p->v + (g * p->sk + j0) * p->ev;
    ptrdiff_t most = 0;
    *hides = 0;
    for (ptrdiff_t i = 0; i < n; i += GEMM_NR) {
        ptrdiff_t nk = keys;
        FN(hiding) hide = FN(panel_terms)(p, b, group, r0 + i, smaller(GEMM_NR, n - i), j0, &nk, by_key ? s->by_key : NULL, s->terms);
        *hides |= hide.term || hide.visible || nk < keys;
        seen[i / GEMM_NR] = nk;
        most = larger(most, nk);
        if (nk) {
            FN(product)(nk, 2, p->e, k, p->e, 1, s->q + i * p->e, GEMM_NR, s->s + i, ld, 0);
            FN(product)(nk, 2, p->ev, v, p->ev, 1, s->g + i * p->ev, GEMM_NR, s->ds + i, ld, 0);
            FN(gradient_panel)(s->s + i, s->ds + i, ld, nk, &hide, (real)p->softcap, s->lse + i, s->delta + i, bias);
        }
        for (ptrdiff_t j = nk; j < keys; j++) {
            memset(s->s + j * ld + i, 0, GEMM_NR * sizeof(real));
            memset(s->ds + j * ld + i, 0, GEMM_NR * sizeof(real));
        }
    }
    return most;
}

/* C[m][n] += A[m][kc] B[kc][n padded to whole vectors], A with rows lda apart */
FUNC void FN(product_to_rows)(ptrdiff_t m, ptrdiff_t n, ptrdiff_t kc, const real *a, ptrdiff_t lda, const real *b, ptrdiff_t ldb, real *c)
{
    const ptrdiff_t strips = pieces(m, GEMM_MR), mr = strips ? pieces(m, strips) : 1;
    for (ptrdiff_t j = 0; j < n; j += GEMM_NR)
        for (ptrdiff_t i = 0; i < m; i += mr)
            FN(gemm_piece)(smaller(mr, m - i), smaller(GEMM_NR, n - j), kc, a + i * lda, lda, 1, b + j, ldb, c + i * n + j, n, 1, NULL, NULL);
}

/* the same for weights [key][row] of keys [j0, j0 + nk) and rows [r0, r0 + n), where keys that a row does not see are left
 * alone if the row is not finite */
FUNC void FN(seen_product_to_rows)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t r0, ptrdiff_t n, ptrdiff_t j0,
                                   ptrdiff_t nk, const real *weights, ptrdiff_t ld, const real *x, ptrdiff_t width, real *c)
{
    const ptrdiff_t ldx = rounded(width, LANES);
    for (ptrdiff_t i = 0; i < n;) {
        ptrdiff_t end = i;
        while (end < n && FN(all_finite)(x + end * ldx, width))
            end++;
        if (end > i)
            FN(product_to_rows)(nk, width, end - i, weights + i, ld, x + i * ldx, ldx, c);
        if (end < n)
            for (ptrdiff_t j = 0; j < nk; j++)
                if (FN(sees)(p, b, group, r0 + end, j0 + j))
                    for (ptrdiff_t w = 0; w < width; w++)
                        c[j * width + w] += weights[j * ld + end] * x[end * ldx + w];
        i = end + 1;
    }
}

/* where chunk c of a group adds up its key gradients; those of values lie behind */
INLINE real *FN(chunk_k_grad)(const attention_plan *p, ptrdiff_t g, ptrdiff_t c)
{
    return c ? (real *)p->memory + (g * (p->chunks - 1) + c - 1) * p->sk * (p->e + p->ev) : (real *)p->k_grad + g * p->sk * p->e;
}
INLINE real *FN(chunk_v_grad)(const attention_plan *p, ptrdiff_t g, ptrdiff_t c)
{
    return c ? FN(chunk_k_grad)(p, g, c) + p->sk * p->e : (real *)p->v_grad + g * p->sk * p->ev;
}

/* one block of rows with all keys */
FUNC void FN(backward_block)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t r0, ptrdiff_t n, ptrdiff_t chunk,
                             const FN(backward_slot) *s)
{
    const ptrdiff_t g = b * p->kv_heads + group, ld = FN(tile_ld)(p), e_ld = rounded(p->e, LANES), ev_ld = rounded(p->ev, LANES);
    const ptrdiff_t first = g * p->rows + r0, panels = pieces(n, GEMM_NR);
    FN(pack_block)(p, b, group, r0, n, s);
    FN(copy_rows)((const real *)p->q + first * p->e, n, p->e, (real)p->scale, s->q_rows);
    FN(copy_rows)((const real *)p->output_grad + first * p->ev, n, p->ev, 1, s->g_rows);
    memset(s->q_grad, 0, (size_t)(panels * GEMM_NR * p->e) * sizeof(real));
    int rows_finite = -1; /* not looked at yet */
    const int by_key = (p->bias || p->mask) && FN(term_is_by_key)(p);
    const ptrdiff_t end = most_keys(p, r0, n);
    for (ptrdiff_t j0 = 0; j0 < end; j0 += ATTENTION_K) {
        const ptrdiff_t keys = smaller(ATTENTION_K, end - j0);
        if (by_key && !FN(term_row)(p, b, group, r0, j0, keys, s->by_key))
            continue;
        int hides;
        ptrdiff_t seen[ATTENTION_Q / GEMM_NR];
        const ptrdiff_t nk = FN(gradient_tile)(p, b, group, r0, n, j0, keys, by_key, 0, s, &hides, seen);
        if (!nk)
            continue;
        const real *k = (const real *)p->k + (g * p->sk + j0) * p->e;
        const int keys_finite = !hides || FN(all_finite)(k, keys * p->e);
        if (hides && rows_finite < 0)
            rows_finite = FN(all_finite)((const real *)p->q + first * p->e, n * p->e) &&
                          FN(all_finite)((const real *)p->output_grad + first * p->ev, n * p->ev);
        ptrdiff_t low = -1, high = 0; /* the rows of panels that see a key */
        for (ptrdiff_t a = 0; a < panels; a++) {
            if (!seen[a])
                continue;
            const ptrdiff_t i = a * GEMM_NR;
            low = low < 0 ? i : low;
            high = smaller(n, i + GEMM_NR);
            if (keys_finite)
                FN(product)(p->e, 2, seen[a], k, 1, p->e, s->ds + i, ld, s->q_grad + i * p->e, GEMM_NR, 1);
            else
                FN(seen_product)(p, b, group, r0 + i, smaller(GEMM_NR, n - i), j0, seen[a], k, p->e, s->ds + i, ld, s->q_grad + i * p->e);
        }
        real *k_grad = FN(chunk_k_grad)(p, g, chunk) + j0 * p->e, *v_grad = FN(chunk_v_grad)(p, g, chunk) + j0 * p->ev;
        if (!hides || rows_finite) {
            FN(product_to_rows)(nk, p->ev, high - low, s->s + low, ld, s->g_rows + low * ev_ld, ev_ld, v_grad);
            FN(product_to_rows)(nk, p->e, high - low, s->ds + low, ld, s->q_rows + low * e_ld, e_ld, k_grad);
        } else {
            FN(seen_product_to_rows)(p, b, group, r0 + low, high - low, j0, nk, s->s + low, ld, s->g_rows + low * ev_ld, p->ev, v_grad);
            FN(seen_product_to_rows)(p, b, group, r0 + low, high - low, j0, nk, s->ds + low, ld, s->q_rows + low * e_ld, p->e, k_grad);
        }
    }
    real factor[GEMM_NR];
    for (ptrdiff_t i = 0; i < GEMM_NR; i++)
        factor[i] = (real)p->scale;
    for (ptrdiff_t i = 0; i < n; i += GEMM_NR)
        FN(unpack_rows)(s->q_grad + i * p->e, factor, smaller(GEMM_NR, n - i), p->e, (real *)p->q_grad + (first + i) * p->e);
}

#include "attention_rows_backward_real.h"
#include "attention_bias_real.h"

/* ---- stages: 1 the chunks, 2 their sums, 3 the gradient of the bias ---- */

static void FN(backward_cut)(attention_plan *p)
{
    attention_blocks(p, ATTENTION_Q, GEMM_NR);
    const ptrdiff_t groups = p->batch * p->kv_heads, cells = p->sk * (p->e + p->ev);
    if (groups && cells) {
        p->chunks = smaller(smaller(p->blocks, ATTENTION_CHUNKS), pieces(ATTENTION_TASKS, groups));
        p->chunks = smaller(p->chunks, 2 + ATTENTION_PARTIAL_BYTES / (ptrdiff_t)sizeof(real) / (groups * cells));
        p->chunks = larger(1, smaller(p->chunks, p->rows / ATTENTION_CHUNK_ROWS));
    }
    p->shared_bytes = whole_lines((size_t)(groups * (p->chunks - 1) * cells) * sizeof(real));
    FN(backward_slot) s;
    FN(rows_backward_slot) r;
    p->slot_bytes = FN(rows_one_by_one)(p) && !p->bias_grad ? FN(rows_backward_layout)(p, p->memory, &r) : FN(backward_layout)(p, p->memory, &s);
}

static int FN(backward_stage)(attention_plan *p)
{
    const ptrdiff_t groups = p->batch * p->kv_heads;
    p->next = 0;
    p->stage++;
    if (p->stage == 1 && groups) {
        p->units = groups * p->chunks;
        return 1;
    }
    if (p->stage <= 2 && p->chunks > 1) {
        p->stage = 2;
        p->units = groups * pieces(p->sk, ATTENTION_K);
        return 1;
    }
    if (p->stage <= 3 && p->bias_grad) {
        p->stage = 3;
        p->units = FN(bias_tasks)(p);
        return 1;
    }
    return 0;
}

FUNC void FN(add_chunks)(real *to, const real *from, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        ptrdiff_t m = smaller(LANES, n - i);
        vstore_n(to + i, vload_n(to + i, m) + vload_n(from + i, m), m);
    }
}

static void FN(backward_work)(const attention_plan *p, ptrdiff_t unit, void *slot)
{
    if (p->stage == 1) {
        const ptrdiff_t chunk = unit % p->chunks, g = unit / p->chunks;
        if (FN(rows_one_by_one)(p)) { /* one block, so one chunk */
            FN(backward_rows)(p, g / p->kv_heads, g % p->kv_heads, slot);
            return;
        }
        FN(backward_slot) s;
        FN(backward_layout)(p, slot, &s);
        memset(FN(chunk_k_grad)(p, g, chunk), 0, (size_t)(p->sk * p->e) * sizeof(real));
        memset(FN(chunk_v_grad)(p, g, chunk), 0, (size_t)(p->sk * p->ev) * sizeof(real));
        for (ptrdiff_t block = chunk; block < p->blocks; block += p->chunks) {
            ptrdiff_t r0, n;
            block_rows(p, block, &r0, &n);
            FN(backward_block)(p, g / p->kv_heads, g % p->kv_heads, r0, n, chunk, &s);
        }
    } else if (p->stage == 2) {
        const ptrdiff_t tiles = pieces(p->sk, ATTENTION_K), g = unit / tiles, j0 = unit % tiles * ATTENTION_K;
        const ptrdiff_t nk = smaller(ATTENTION_K, p->sk - j0);
        for (ptrdiff_t c = 1; c < p->chunks; c++) {
            FN(add_chunks)(FN(chunk_k_grad)(p, g, 0) + j0 * p->e, FN(chunk_k_grad)(p, g, c) + j0 * p->e, nk * p->e);
            FN(add_chunks)(FN(chunk_v_grad)(p, g, 0) + j0 * p->ev, FN(chunk_v_grad)(p, g, c) + j0 * p->ev, nk * p->ev);
        }
    } else {
        FN(bias_task)(p, unit, slot);
    }
}
