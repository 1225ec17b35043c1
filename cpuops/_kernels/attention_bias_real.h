/* attention_bias_real.h: gradient of the bias, for attention.h; one scalar type.
 *
 * bias_grad = the sum of ds over the axes along which the bias is broadcast. A task owns cells of it: those of a block of
 * queries and ATTENTION_BIAS_KEYS keys, as far as the bias tells them apart. It goes through all that is summed there, in
 * the order of batch, head, query, key, and computes ds anew. A bias that tells neither queries nor keys apart comes here
 * as one a query; the caller adds these up. */

INLINE int FN(bias_by_query)(const attention_plan *p) { return p->bias_shape[2] == p->sq; }
INLINE int FN(bias_by_key)(const attention_plan *p) { return p->bias_shape[3] == p->sk; }

INLINE ptrdiff_t FN(bias_query_tasks)(const attention_plan *p) { return FN(bias_by_query)(p) ? pieces(p->sq, p->block) : 1; }
INLINE ptrdiff_t FN(bias_key_tasks)(const attention_plan *p) { return FN(bias_by_key)(p) ? pieces(p->sk, ATTENTION_BIAS_KEYS) : 1; }

FUNC ptrdiff_t FN(bias_tasks)(const attention_plan *p)
{
    return p->bias_shape[0] * p->bias_shape[1] * FN(bias_query_tasks)(p) * FN(bias_key_tasks)(p);
}

/* a tile of ds [key][row] to the task's sums: sums [row] or [key], or, where the bias tells both apart, its gradient's rows */
FUNC void FN(add_tile)(const real *ds, ptrdiff_t ld, ptrdiff_t n, ptrdiff_t nk, int by_query, int by_key, double *sums, real *rows,
                       ptrdiff_t row_stride)
{
    if (by_query && by_key) {
        real t[LANES * LANES] __attribute__((aligned(64)));
        for (ptrdiff_t i = 0; i < n; i += LANES)
            for (ptrdiff_t j = 0; j < nk; j += LANES) {
                const ptrdiff_t m = smaller(LANES, nk - j);
                FN(transpose_tile)(ds + j * ld + i, ld, m, LANES, t, LANES);
                for (ptrdiff_t a = 0; a < LANES && i + a < n; a++) {
                    real *to = rows + (i + a) * row_stride + j;
                    vstore_n(to, vload_n(to, m) + vload(t + a * LANES), m);
                }
            }
    } else if (by_query) {
        for (ptrdiff_t i = 0; i < n; i += LANES) {
            vec sum = vzero();
            for (ptrdiff_t j = 0; j < nk; j++)
                sum = sum + vload(ds + j * ld + i);
            for (ptrdiff_t a = 0; a < LANES && i + a < n; a++)
                sums[i + a] += (double)sum[a];
        }
    } else {
        for (ptrdiff_t j = 0; j < nk; j++) {
            vec sum = vzero();
            for (ptrdiff_t i = 0; i < n; i += LANES)
                sum = sum + vload_n(ds + j * ld + i, smaller(LANES, n - i));
            sums[j] += (double)vhsum(sum);
        }
    }
}

FUNC void FN(bias_task)(const attention_plan *p, ptrdiff_t unit, char *slot)
{
    FN(backward_slot) s;
    FN(backward_layout)(p, slot, &s);
    const int by_query = FN(bias_by_query)(p), by_key = FN(bias_by_key)(p);
    const ptrdiff_t kt = unit % FN(bias_key_tasks)(p), rest = unit / FN(bias_key_tasks)(p);
    const ptrdiff_t qt = rest % FN(bias_query_tasks)(p), cell = rest / FN(bias_query_tasks)(p);
    const ptrdiff_t b1 = cell / p->bias_shape[1], h1 = cell % p->bias_shape[1];
    /* what is summed: all of an axis that the bias does not tell apart */
    const int every_b = p->bias_shape[0] != p->batch, every_h = p->bias_shape[1] != p->heads;
    const ptrdiff_t i_low = by_query ? qt * p->block : 0, i_high = by_query ? smaller(p->sq, i_low + p->block) : p->sq;
    const ptrdiff_t j_low = by_key ? kt * ATTENTION_BIAS_KEYS : 0;
    const ptrdiff_t j_high = by_key ? smaller(p->sk, j_low + ATTENTION_BIAS_KEYS) : p->sk;
    real *out = (real *)p->bias_grad + (cell * p->bias_shape[2] + i_low) * p->bias_shape[3] + j_low;
    if (by_query && by_key)
        for (ptrdiff_t i = i_low; i < i_high; i++)
            memset(out + (i - i_low) * p->sk, 0, (size_t)(j_high - j_low) * sizeof(real));
    else
        memset(s.sums, 0, sizeof(double) * (size_t)larger(p->block, ATTENTION_BIAS_KEYS));
    const int term_by_key = FN(term_is_by_key)(p);
    for (ptrdiff_t b = every_b ? 0 : b1; b < (every_b ? p->batch : b1 + 1); b++)
        for (ptrdiff_t h = every_h ? 0 : h1; h < (every_h ? p->heads : h1 + 1); h++)
            for (ptrdiff_t i = i_low; i < i_high; i += p->block) {
                const ptrdiff_t group = h / p->group, r0 = h % p->group * p->sq + i, n = smaller(p->block, i_high - i);
                const ptrdiff_t end = smaller(j_high, most_keys(p, r0, n));
                if (end > j_low)
                    FN(pack_block)(p, b, group, r0, n, &s);
                for (ptrdiff_t j = j_low; j < end; j += ATTENTION_K) {
                    const ptrdiff_t keys = smaller(ATTENTION_K, end - j);
                    if (term_by_key && !FN(term_row)(p, b, group, r0, j, keys, s.by_key))
                        continue;
                    int hides;
                    ptrdiff_t seen[ATTENTION_Q / GEMM_NR];
                    const ptrdiff_t nk = FN(gradient_tile)(p, b, group, r0, n, j, keys, term_by_key, 1, &s, &hides, seen);
                    FN(add_tile)(s.ds, FN(tile_ld)(p), n, nk, by_query, by_key, s.sums + (by_query ? 0 : j - j_low), out + (j - j_low), p->sk);
                }
            }
    if (!(by_query && by_key))
        for (ptrdiff_t i = 0; i < (by_query ? i_high - i_low : j_high - j_low); i++)
            out[i] = (real)s.sums[i];
}
