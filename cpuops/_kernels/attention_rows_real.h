/* attention_rows_real.h: few rows a group (one query, thousands of keys), for attention.h; one scalar type.
 *
 * Scores are [row][key]: for a score the lanes are features, for the softmax keys, for the output features again. K and V
 * are each read once from memory, and once a row from the cache. */

/* how far ahead of the present element the next ones are asked for: half a page (a whole one and a quarter were slower) */
#define PREFETCH (2048 / (ptrdiff_t)sizeof(real))

typedef struct {
    real *q; /* [rows][E], times scale */
    real *o; /* [rows][EV] */
    real *s; /* [ATTENTION_K], and a vector beyond */
    real *term;
    real *m, *l; /* [rows] */
} FN(rows_slot);

FUNC size_t FN(rows_layout)(const attention_plan *p, char *at, FN(rows_slot) *s)
{
    const size_t size = sizeof(real), rows = (size_t)p->rows;
    char *start = at;
#define TAKE(name, bytes) s->name = (void *)at, at += whole_lines(bytes)
    TAKE(q, rows * (size_t)p->e * size);
    TAKE(o, rows * (size_t)p->ev * size);
    TAKE(s, ATTENTION_K * size);
    TAKE(term, ATTENTION_K * size);
    TAKE(m, rows * size);
    TAKE(l, rows * size);
#undef TAKE
    return (size_t)(at - start);
}

/* s[nk] = k q for LANES keys at a time; whole vectors of s are written */
FUNC void FN(scores_of_row)(const real *q, const real *k, ptrdiff_t nk, ptrdiff_t e, real *s)
{
    real sums[LANES * LANES] __attribute__((aligned(64))), lanes[LANES * LANES] __attribute__((aligned(64)));
    const ptrdiff_t tail = e % LANES;
    for (ptrdiff_t j = 0; j < nk; j += LANES, k += LANES * e) {
        ptrdiff_t n = smaller(LANES, nk - j), i = 0;
        for (; i + 4 <= n; i += 4) {
            const real *k0 = k + i * e, *k1 = k0 + e, *k2 = k1 + e, *k3 = k2 + e;
            vec a0 = vzero(), a1 = vzero(), a2 = vzero(), a3 = vzero();
            ptrdiff_t w = 0;
            for (; w + LANES <= e; w += LANES) {
                vec x = vload(q + w);
                __builtin_prefetch(k0 + w + PREFETCH);
                __builtin_prefetch(k1 + w + PREFETCH);
                __builtin_prefetch(k2 + w + PREFETCH);
                __builtin_prefetch(k3 + w + PREFETCH);
                a0 = vfma(vload(k0 + w), x, a0);
                a1 = vfma(vload(k1 + w), x, a1);
                a2 = vfma(vload(k2 + w), x, a2);
                a3 = vfma(vload(k3 + w), x, a3);
            }
            if (tail) {
                vec x = vload_n(q + w, tail);
                a0 = vfma(vload_n(k0 + w, tail), x, a0);
                a1 = vfma(vload_n(k1 + w, tail), x, a1);
                a2 = vfma(vload_n(k2 + w, tail), x, a2);
                a3 = vfma(vload_n(k3 + w, tail), x, a3);
            }
            vstore(sums + i * LANES, a0);
            vstore(sums + (i + 1) * LANES, a1);
            vstore(sums + (i + 2) * LANES, a2);
            vstore(sums + (i + 3) * LANES, a3);
        }
        for (; i < n; i++) {
            vec a = vzero();
            ptrdiff_t w = 0;
            for (; w + LANES <= e; w += LANES)
                a = vfma(vload(k + i * e + w), vload(q + w), a);
            if (tail)
                a = vfma(vload_n(k + i * e + w, tail), vload_n(q + w, tail), a);
            vstore(sums + i * LANES, a);
        }
        /* lane i of the result: the sum of row i, by pairs */
        FN(transpose_tile)(sums, LANES, n, LANES, lanes, LANES);
        for (ptrdiff_t half = LANES / 2; half; half /= 2)
            for (ptrdiff_t a = 0; a < half; a++)
                vstore(lanes + a * LANES, vload(lanes + a * LANES) + vload(lanes + (a + half) * LANES));
        vstore(s + j, vload(lanes));
    }
}

/* o[EV] += sum of w[j] v[j]; keys of term HIDDEN are left out when there are terms */
FUNC void FN(output_of_row)(const real *w, const real *v, ptrdiff_t nk, ptrdiff_t ev, const real *term, real *o)
{
    for (ptrdiff_t c = 0; c < ev; c += 4 * LANES) {
        const ptrdiff_t n = smaller(4 * LANES, ev - c);
        if (n == 4 * LANES && !term) {
            vec a0 = vzero(), a1 = vzero(), a2 = vzero(), a3 = vzero(), b0 = vzero(), b1 = vzero(), b2 = vzero(), b3 = vzero();
            const real *x = v + c;
            ptrdiff_t j = 0;
            for (; j + 2 <= nk; j += 2, x += 2 * ev) {
                for (int i = 0; i < 4; i++) {
                    __builtin_prefetch(x + i * LANES + PREFETCH);
                    __builtin_prefetch(x + ev + i * LANES + PREFETCH);
                }
                vec p = vset(w[j]), q = vset(w[j + 1]);
                a0 = vfma(p, vload(x), a0);
                a1 = vfma(p, vload(x + LANES), a1);
                a2 = vfma(p, vload(x + 2 * LANES), a2);
                a3 = vfma(p, vload(x + 3 * LANES), a3);
                b0 = vfma(q, vload(x + ev), b0);
                b1 = vfma(q, vload(x + ev + LANES), b1);
                b2 = vfma(q, vload(x + ev + 2 * LANES), b2);
                b3 = vfma(q, vload(x + ev + 3 * LANES), b3);
            }
            if (j < nk) {
                vec p = vset(w[j]);
                a0 = vfma(p, vload(x), a0);
                a1 = vfma(p, vload(x + LANES), a1);
                a2 = vfma(p, vload(x + 2 * LANES), a2);
                a3 = vfma(p, vload(x + 3 * LANES), a3);
            }
            vstore(o + c, vload(o + c) + (a0 + b0));
            vstore(o + c + LANES, vload(o + c + LANES) + (a1 + b1));
            vstore(o + c + 2 * LANES, vload(o + c + 2 * LANES) + (a2 + b2));
            vstore(o + c + 3 * LANES, vload(o + c + 3 * LANES) + (a3 + b3));
            continue;
        }
        for (ptrdiff_t d = c; d < c + n; d += LANES) {
            const ptrdiff_t m = smaller(LANES, ev - d);
            vec a = vzero();
            for (ptrdiff_t j = 0; j < nk; j++)
                if (!term || term[j] != HIDDEN)
                    a = vfma(vset(w[j]), vload_n(v + j * ev + d, m), a);
            vstore_n(o + d, vload_n(o + d, m) + a, m);
        }
    }
}

/* s[nk] (and what else its last vector holds) to exp(s - m), m and l brought up to date. Returns the factor of o */
FUNC real FN(softmax_row)(real *s, ptrdiff_t nk, const real *term, real cap, real *m, real *l)
{
    vec top = vset(HIDDEN), sum = vzero();
    for (ptrdiff_t j = 0; j < nk; j += LANES) {
        vec a = vload(s + j);
        if (cap != 0)
            a = vset(cap) * vtanh(a * vset(1 / cap));
        if (term) {
            vec t = vload_n(term + j, smaller(LANES, nk - j));
            a = vsel(veq(t, vset(HIDDEN)), vset(HIDDEN), a + t);
        }
        a = vsel(vlt(viota(), vset((real)(nk - j))), a, vset(HIDDEN)); /* lanes beyond the last key */
        vstore(s + j, a);
        top = vmax(a, top);
    }
    vec old = vset(*m);
    top = vmax(vset(vhmax(top)), old);
    const vec z = vsel(veq(top, vset(HIDDEN)), vzero(), top), fade = vexp(old - z);
    for (ptrdiff_t j = 0; j < nk; j += LANES) {
        vec a = FN(weight)(vload(s + j) - z);
        vstore(s + j, a);
        sum = sum + a;
    }
    *m = top[0];
    *l = vfma(vset(*l), fade, vset(vhsum(sum)))[0];
    return fade[0];
}

FUNC void FN(leave_rows)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t part, ptrdiff_t r0, ptrdiff_t n, const real *m,
                           const real *l, const real *o, int panel, real *factor);

/* all rows of a group with one part of the keys */
FUNC void FN(forward_rows)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t part, char *slot)
{
    FN(rows_slot) s;
    FN(rows_layout)(p, slot, &s);
    const ptrdiff_t g = b * p->kv_heads + group;
    const real *q = (const real *)p->q + g * p->rows * p->e;
    const real *k = (const real *)p->k + g * p->sk * p->e, *v = (const real *)p->v + g * p->sk * p->ev;
    for (ptrdiff_t i = 0; i < p->rows * p->e; i++)
        s.q[i] = q[i] * (real)p->scale;
    memset(s.o, 0, (size_t)(p->rows * p->ev) * sizeof(real));
    for (ptrdiff_t r = 0; r < p->rows; r++)
        s.m[r] = HIDDEN, s.l[r] = 0;
    const int terms = p->bias || p->mask;
    const ptrdiff_t end = smaller(p->sk, (part + 1) * p->part);
    for (ptrdiff_t j0 = part * p->part; j0 < end; j0 += ATTENTION_K)
        for (ptrdiff_t r = 0; r < p->rows; r++) {
            ptrdiff_t nk = smaller(smaller(ATTENTION_K, end - j0), keys_seen(p, r) - j0);
            if (nk <= 0 || (terms && !FN(term_row)(p, b, group, r, j0, nk, s.term)))
                continue;
            FN(scores_of_row)(s.q + r * p->e, k + j0 * p->e, nk, p->e, s.s);
            real fade = FN(softmax_row)(s.s, nk, terms ? s.term : NULL, (real)p->softcap, s.m + r, s.l + r), *o = s.o + r * p->ev;
            if (fade != 1)
                for (ptrdiff_t w = 0; w < p->ev; w++)
                    o[w] *= fade;
            FN(output_of_row)(s.s, v + j0 * p->ev, nk, p->ev, terms ? s.term : NULL, o);
        }
    real factor[GEMM_NR];
    FN(leave_rows)(p, b, group, part, 0, p->rows, s.m, s.l, s.o, 0, factor);
}
