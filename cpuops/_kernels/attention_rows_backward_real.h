/* attention_rows_backward_real.h: gradients of q, k and v of few rows a group (one query, thousands of keys), for
 * attention.h; one scalar type. Rows as in attention_rows_real.h, formulas as in attention_backward_real.h: of each tile
 * k, v and their gradients are read and written while they are in the cache, once a row. */

/* a row costs an eighth of a panel of rows, whose five products are made by tiles of registers */
INLINE int FN(rows_one_by_one)(const attention_plan *p) { return p->rows * 8 <= GEMM_NR; }

typedef struct {
    real *q;      /* [rows][E], times scale */
    real *q_grad; /* [rows][E] */
    real *s, *ds; /* [ATTENTION_K], and a vector beyond: scores, then p; output_grad v^T, then ds */
    real *term;
} FN(rows_backward_slot);

FUNC size_t FN(rows_backward_layout)(const attention_plan *p, char *at, FN(rows_backward_slot) *s)
{
    const size_t size = sizeof(real), cells = (size_t)p->rows * (size_t)p->e;
    char *start = at;
#define TAKE(name, bytes) s->name = (void *)at, at += whole_lines(bytes)
    TAKE(q, cells * size);
    TAKE(q_grad, cells * size);
    TAKE(s, ATTENTION_K * size);
    TAKE(ds, ATTENTION_K * size);
    TAKE(term, ATTENTION_K * size);
#undef TAKE
    return (size_t)(at - start);
}

/* scores s to p, dp to ds, of nk keys of one row; whole vectors are written */
FUNC void FN(gradient_row)(real *s, real *dp, ptrdiff_t nk, const real *term, real cap, real lse, real delta)
{
    for (ptrdiff_t j = 0; j < nk; j += LANES) {
        vec a = vload(s + j), slope = vset(1);
        vmask hidden = vge(viota(), vset((real)(nk - j))); /* beyond the last key */
        if (cap != 0) {
            const vec tanh = vtanh(a * vset(1 / cap));
            a = vset(cap) * tanh;
            slope = vfnma(tanh, tanh, slope);
        }
        if (term) {
            const vec t = vload_n(term + j, smaller(LANES, nk - j));
            hidden = mor(hidden, veq(t, vset(HIDDEN)));
            a = a + t;
        }
        const vec e = FN(weight)(a - vset(lse));
        vstore(s + j, vsel(hidden, vzero(), e));
        vstore(dp + j, vsel(hidden, vzero(), e * (vload(dp + j) - vset(delta)) * slope));
    }
}

/* out[j] += w[j] x for nk keys of `width` features; keys of term HIDDEN are left out when there are terms */
FUNC void FN(add_to_keys)(const real *w, const real *x, ptrdiff_t nk, ptrdiff_t width, const real *term, real *out)
{
    for (ptrdiff_t j = 0; j < nk; j++, out += width) {
        if (term && term[j] == HIDDEN)
            continue;
        const vec a = vset(w[j]);
        ptrdiff_t i = 0;
        for (; i + LANES <= width; i += LANES)
            vstore(out + i, vfma(a, vload(x + i), vload(out + i)));
        if (i < width)
            vstore_n(out + i, vfma(a, vload_n(x + i, width - i), vload_n(out + i, width - i)), width - i);
    }
}

/* all rows of a group with all keys */
FUNC void FN(backward_rows)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, char *slot)
{
    FN(rows_backward_slot) s;
    FN(rows_backward_layout)(p, slot, &s);
    const ptrdiff_t at = b * p->kv_heads + group, first = at * p->rows, e = p->e, ev = p->ev;
    const real *q = (const real *)p->q + first * e, *g = (const real *)p->output_grad + first * ev;
    const real *k = (const real *)p->k + at * p->sk * e, *v = (const real *)p->v + at * p->sk * ev;
    const real *lse = (const real *)p->logsumexp + first;
    real *q_grad = (real *)p->q_grad + first * e;
    real *k_grad = (real *)p->k_grad + at * p->sk * e, *v_grad = (real *)p->v_grad + at * p->sk * ev;
    real delta[GEMM_NR];
    for (ptrdiff_t r = 0; r < p->rows; r++)
        delta[r] = FN(row_delta)(p, first + r);
    for (ptrdiff_t i = 0; i < p->rows * e; i++)
        s.q[i] = q[i] * (real)p->scale;
    memset(s.q_grad, 0, (size_t)(p->rows * e) * sizeof(real));
    const int terms = p->bias || p->mask;
    for (ptrdiff_t j0 = 0; j0 < p->sk; j0 += ATTENTION_K) {
        const ptrdiff_t keys = smaller(ATTENTION_K, p->sk - j0), at_k = j0 * e, at_v = j0 * ev;
        memset(k_grad + at_k, 0, (size_t)(keys * e) * sizeof(real));
        memset(v_grad + at_v, 0, (size_t)(keys * ev) * sizeof(real));
        for (ptrdiff_t r = 0; r < p->rows; r++) {
            const ptrdiff_t nk = smaller(keys, keys_seen(p, r) - j0);
            if (nk <= 0 || (terms && !FN(term_row)(p, b, group, r, j0, nk, s.term)))
                continue;
            const real *term = terms ? s.term : NULL;
            FN(scores_of_row)(s.q + r * e, k + at_k, nk, e, s.s);
            FN(scores_of_row)(g + r * ev, v + at_v, nk, ev, s.ds);
            FN(gradient_row)(s.s, s.ds, nk, term, (real)p->softcap, lse[r], delta[r]);
            FN(output_of_row)(s.ds, k + at_k, nk, e, term, s.q_grad + r * e);
            FN(add_to_keys)(s.s, g + r * ev, nk, ev, term, v_grad + at_v);
            FN(add_to_keys)(s.ds, s.q + r * e, nk, e, term, k_grad + at_k);
        }
    }
    for (ptrdiff_t i = 0; i < p->rows * e; i++)
        q_grad[i] = s.q_grad[i] * (real)p->scale;
}
