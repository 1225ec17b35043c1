/* attention_forward_real.h: blocks of many rows, and the forward operation's stages, for attention.h; one scalar type. */

/* what a worker has for itself: pointers into its slot */
typedef struct {
    real *q;   /* [panel][E][GEMM_NR]: the block's queries, times scale */
    real *o;   /* [panel][EV][GEMM_NR]: sums of exp(s - m) v */
    real *m, *l; /* [panel][GEMM_NR] */
    real *s;   /* [ATTENTION_K][GEMM_NR]: scores of a panel, then their exp */
    real *by_key; /* [ATTENTION_K] */
    FN(term_scratch) *terms;
} FN(forward_slot);

FUNC size_t FN(forward_layout)(const attention_plan *p, char *at, FN(forward_slot) *s)
{
    const size_t size = sizeof(real), lanes = (size_t)p->block;
    char *start = at;
#define TAKE(name, bytes) s->name = (void *)at, at += whole_lines(bytes)
    TAKE(q, lanes * (size_t)p->e * size);
    TAKE(o, lanes * (size_t)p->ev * size);
    TAKE(m, lanes * size);
    TAKE(l, lanes * size);
    TAKE(s, ATTENTION_K * GEMM_NR * size);
    TAKE(by_key, ATTENTION_K * size);
    TAKE(terms, sizeof(FN(term_scratch)));
#undef TAKE
    return (size_t)(at - start);
}

/* [E][GEMM_NR] = rows of x [n][width], times scale; 0 in the lanes beyond n */
FUNC void FN(pack_rows)(const real *x, ptrdiff_t n, ptrdiff_t width, real scale, real *panel)
{
    FN(gemm_pack_run)(x, width, 1, n, width, panel, GEMM_NR);
    if (scale != 1)
        for (ptrdiff_t i = 0; i < width * GEMM_NR; i += LANES)
            vstore(panel + i, vload(panel + i) * vset(scale));
}

/* rows [0, n) of out [.., width] = the panel's, times factor of each lane */
FUNC void FN(unpack_rows)(const real *panel, const real *factor, ptrdiff_t n, ptrdiff_t width, real *out)
{
    real t[LANES * LANES] __attribute__((aligned(64)));
    for (ptrdiff_t lane = 0; lane < n; lane += LANES)
        for (ptrdiff_t w = 0; w < width; w += LANES) {
            FN(transpose_tile)(panel + w * GEMM_NR + lane, GEMM_NR, smaller(LANES, width - w), LANES, t, LANES);
            for (ptrdiff_t i = 0; i < LANES && lane + i < n; i++)
                vstore_n(out + (lane + i) * width + w, vload(t + i * LANES) * vset(factor[lane + i]), smaller(LANES, width - w));
        }
}

/* s[nk][GEMM_NR] to exp(s - m), with m and l brought up to date and what o must be multiplied by in `fade`. Tells whether
 * that is 1 everywhere */
FUNC int FN(softmax_panel)(real *s, ptrdiff_t nk, const FN(hiding) *hide, real cap, real *m, real *l, real *fade)
{
    const real over_cap = cap != 0 ? 1 / cap : 0;
    vec t0 = vset(HIDDEN), t1 = t0, u0 = t0, u1 = t0;
    if (cap != 0 || hide->term || hide->visible) {
        for (ptrdiff_t j = 0; j < nk; j++) {
            vmask hidden;
            vec tanh, a = FN(score)(vload(s + j * GEMM_NR), hide, j, 0, cap, over_cap, &hidden, &tanh);
            vec b = FN(score)(vload(s + j * GEMM_NR + LANES), hide, j, LANES, cap, over_cap, &hidden, &tanh);
            vstore(s + j * GEMM_NR, a);
            vstore(s + j * GEMM_NR + LANES, b);
            t0 = vmax(a, t0), t1 = vmax(b, t1);
        }
    } else {
        ptrdiff_t j = 0;
        for (; j + 2 <= nk; j += 2) {
            t0 = vmax(vload(s + j * GEMM_NR), t0), t1 = vmax(vload(s + j * GEMM_NR + LANES), t1);
            u0 = vmax(vload(s + (j + 1) * GEMM_NR), u0), u1 = vmax(vload(s + (j + 1) * GEMM_NR + LANES), u1);
        }
        for (; j < nk; j++)
            t0 = vmax(vload(s + j * GEMM_NR), t0), t1 = vmax(vload(s + j * GEMM_NR + LANES), t1);
    }
    const vec m0 = vload(m), m1 = vload(m + LANES);
    t0 = vmax(vmax(t0, u0), m0), t1 = vmax(vmax(t1, u1), m1);
    /* all hidden so far: exp(-inf - 0) is 0, where exp(-inf + inf) would be NaN */
    const vec z0 = vsel(veq(t0, vset(HIDDEN)), vzero(), t0), z1 = vsel(veq(t1, vset(HIDDEN)), vzero(), t1);
    const vec f0 = vexp(m0 - z0), f1 = vexp(m1 - z1);
    vec l0 = vzero(), l1 = vzero();
    for (ptrdiff_t j = 0; j < nk; j++) {
        vec a = FN(weight)(vload(s + j * GEMM_NR) - z0), b = FN(weight)(vload(s + j * GEMM_NR + LANES) - z1);
        vstore(s + j * GEMM_NR, a);
        vstore(s + j * GEMM_NR + LANES, b);
        l0 = l0 + a, l1 = l1 + b;
    }
    vstore(m, t0), vstore(m + LANES, t1);
    vstore(l, vfma(vload(l), f0, l0)), vstore(l + LANES, vfma(vload(l + LANES), f1, l1));
    vstore(fade, f0), vstore(fade + LANES, f1);
    return mall(mand(veq(f0, vset(1)), veq(f1, vset(1))));
}

/* 1/l, but 0 for a row that sees no key, and NaN for one whose scores are all -inf; and the logsumexp */
FUNC void FN(finish_rows)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t r0, ptrdiff_t n, const real *m, const real *l,
                          real *factor, real *lse)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        factor[i] = 1 / l[i];
        if (m[i] == HIDDEN) {
            factor[i] = 0;
            for (ptrdiff_t j = 0; j < p->sk; j++)
                if (FN(sees)(p, b, group, r0 + i, j)) {
                    factor[i] = (real)NAN;
                    break;
                }
        }
        if (lse)
            lse[i] = isinf(m[i]) ? m[i] : m[i] + vlog(vset(l[i]))[0];
    }
}

/* where part `part` of a group puts (m, l, o): [rows], [rows], [rows][EV] */
INLINE real *FN(partial)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t part)
{
    return (real *)p->memory + ((b * p->kv_heads + group) * p->parts + part) * p->rows * (p->ev + 2);
}

/* (m, l, o) of n rows, o [EV][GEMM_NR] or, in rows, [n][EV], to the output or to a partial result */
FUNC void FN(leave_rows)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t part, ptrdiff_t r0, ptrdiff_t n, const real *m,
                           const real *l, const real *o, int panel, real *factor)
{
    ptrdiff_t first = (b * p->kv_heads + group) * p->rows + r0;
    real *out = (real *)p->out + first * p->ev;
    if (p->parts > 1) {
        real *to = FN(partial)(p, b, group, part);
        memcpy(to + r0, m, (size_t)n * sizeof(real));
        memcpy(to + p->rows + r0, l, (size_t)n * sizeof(real));
        out = to + (2 * p->rows + r0 * p->ev);
        for (ptrdiff_t i = 0; i < n; i++)
            factor[i] = 1;
    } else {
        FN(finish_rows)(p, b, group, r0, n, m, l, factor, p->lse ? (real *)p->lse + first : NULL);
    }
    if (panel)
        FN(unpack_rows)(o, factor, n, p->ev, out);
    else
        for (ptrdiff_t i = 0; i < n; i++)
            for (ptrdiff_t w = 0; w < p->ev; w += LANES)
                vstore_n(out + i * p->ev + w, vload_n(o + i * p->ev + w, smaller(LANES, p->ev - w)) * vset(factor[i]),
                         smaller(LANES, p->ev - w));
}

/* one block of rows with one part of the keys */
FUNC void FN(forward_block)(const attention_plan *p, ptrdiff_t b, ptrdiff_t group, ptrdiff_t block, ptrdiff_t part, char *slot)
{
    FN(forward_slot) s;
    FN(forward_layout)(p, slot, &s);
    ptrdiff_t r0, n;
    block_rows(p, block, &r0, &n);
    const ptrdiff_t g = b * p->kv_heads + group, panels = pieces(n, GEMM_NR);
    const real *q = (const real *)p->q + (g * p->rows + r0) * p->e;
    const real *k = (const real *)p->k + g * p->sk * p->e, *v = (const real *)p->v + g * p->sk * p->ev;
    const ptrdiff_t qp = p->e * GEMM_NR, op = p->ev * GEMM_NR;
    for (ptrdiff_t a = 0; a < panels; a++)
        FN(pack_rows)(q + a * GEMM_NR * p->e, smaller(GEMM_NR, n - a * GEMM_NR), p->e, (real)p->scale, s.q + a * qp);
    memset(s.o, 0, (size_t)(panels * op) * sizeof(real));
    for (ptrdiff_t i = 0; i < panels * GEMM_NR; i++)
        s.m[i] = HIDDEN, s.l[i] = 0;
    const int by_key = (p->bias || p->mask) && FN(term_is_by_key)(p);
    const ptrdiff_t end = smaller(most_keys(p, r0, n), (part + 1) * p->part);
    for (ptrdiff_t j0 = part * p->part; j0 < end; j0 += ATTENTION_K) {
        const ptrdiff_t keys = smaller(ATTENTION_K, end - j0);
        if (by_key && !FN(term_row)(p, b, group, r0, j0, keys, s.by_key))
            continue;
        int finite = -1; /* not looked at yet */
        for (ptrdiff_t a = 0; a < panels; a++) {
            ptrdiff_t nk = keys, first = r0 + a * GEMM_NR, rows = smaller(GEMM_NR, n - a * GEMM_NR);
            FN(hiding) hide = FN(panel_terms)(p, b, group, first, rows, j0, &nk, by_key ? s.by_key : NULL, s.terms);
            if (!nk)
                continue;
            FN(product)(nk, 2, p->e, k + j0 * p->e, p->e, 1, s.q + a * qp, GEMM_NR, s.s, GEMM_NR, 0);
            real fade[GEMM_NR] __attribute__((aligned(64)));
            real *o = s.o + a * op;
            if (!FN(softmax_panel)(s.s, nk, &hide, (real)p->softcap, s.m + a * GEMM_NR, s.l + a * GEMM_NR, fade)) {
                const vec f0 = vload(fade), f1 = vload(fade + LANES);
                for (ptrdiff_t w = 0; w < p->ev; w++) {
                    vstore(o + w * GEMM_NR, vload(o + w * GEMM_NR) * f0);
                    vstore(o + w * GEMM_NR + LANES, vload(o + w * GEMM_NR + LANES) * f1);
                }
            }
            if ((hide.term || hide.visible) && finite < 0)
                finite = FN(all_finite)(v + j0 * p->ev, keys * p->ev);
            if (finite)
                FN(product)(p->ev, 2, nk, v + j0 * p->ev, 1, p->ev, s.s, GEMM_NR, o, GEMM_NR, 1);
            else
                FN(seen_product)(p, b, group, first, rows, j0, nk, v + j0 * p->ev, p->ev, s.s, GEMM_NR, o);
        }
    }
    for (ptrdiff_t a = 0; a < panels; a++) {
        real factor[GEMM_NR];
        FN(leave_rows)(p, b, group, part, r0 + a * GEMM_NR, smaller(GEMM_NR, n - a * GEMM_NR), s.m + a * GEMM_NR, s.l + a * GEMM_NR,
                       s.o + a * op, 1, factor);
    }
}

/* ---- stages ---- */

/* so few rows that most lanes of a panel would be empty */
INLINE int FN(few_rows)(const attention_plan *p) { return p->rows < GEMM_NR / 2; }

static void FN(forward_cut)(attention_plan *p)
{
    attention_blocks(p, ATTENTION_Q, GEMM_NR);
    if (FN(few_rows)(p))
        p->blocks = p->rows > 0;
    ptrdiff_t tasks = p->batch * p->kv_heads * p->blocks;
    if (tasks && tasks < ATTENTION_TASKS) {
        p->part = larger(ATTENTION_PART, rounded(pieces(p->sk, pieces(ATTENTION_TASKS, tasks)), ATTENTION_K));
        p->parts = larger(1, pieces(p->sk, p->part));
    }
    if (p->parts > 1)
        p->shared_bytes = whole_lines((size_t)(p->batch * p->kv_heads * p->parts * p->rows * (p->ev + 2)) * sizeof(real));
    FN(forward_slot) s;
    FN(rows_slot) r;
    p->slot_bytes = FN(few_rows)(p) ? FN(rows_layout)(p, p->memory, &r) : FN(forward_layout)(p, p->memory, &s);
}

#define ATTENTION_JOIN 64 /* rows a task when parts are joined */

static int FN(forward_stage)(attention_plan *p)
{
    p->stage++;
    p->next = 0;
    ptrdiff_t rows = p->batch * p->heads * p->sq;
    p->units = p->stage == 1 ? p->batch * p->kv_heads * p->blocks * p->parts : pieces(rows, ATTENTION_JOIN);
    return rows && (p->stage == 1 || (p->stage == 2 && p->parts > 1));
}

/* (m, l, o) of all parts of one row to its output */
FUNC void FN(join_row)(const attention_plan *p, ptrdiff_t row)
{
    const ptrdiff_t g = row / p->rows, r = row % p->rows, b = g / p->kv_heads, group = g % p->kv_heads;
    real m = HIDDEN, l = 0, factor;
    for (ptrdiff_t part = 0; part < p->parts; part++)
        m = vmax(vset(FN(partial)(p, b, group, part)[r]), vset(m))[0];
    const real z = m == HIDDEN ? 0 : m;
    real *out = (real *)p->out + row * p->ev;
    for (ptrdiff_t part = 0; part < p->parts; part++) {
        const real *from = FN(partial)(p, b, group, part), *o = from + 2 * p->rows + r * p->ev;
        vec f = vexp(vset(from[r] - z));
        l = vfma(vset(from[p->rows + r]), f, vset(l))[0];
        for (ptrdiff_t w = 0; w < p->ev; w += LANES) {
            ptrdiff_t n = smaller(LANES, p->ev - w);
            vec sum = part ? vload_n(out + w, n) : vzero();
            vstore_n(out + w, vfma(vload_n(o + w, n), f, sum), n);
        }
    }
    FN(finish_rows)(p, b, group, r, 1, &m, &l, &factor, p->lse ? (real *)p->lse + row : NULL);
    for (ptrdiff_t w = 0; w < p->ev; w += LANES) {
        ptrdiff_t n = smaller(LANES, p->ev - w);
        vstore_n(out + w, vload_n(out + w, n) * vset(factor), n);
    }
}

static void FN(forward_work)(const attention_plan *p, ptrdiff_t unit, void *slot)
{
    if (p->stage == 2) {
        for (ptrdiff_t r = unit * ATTENTION_JOIN; r < smaller((unit + 1) * ATTENTION_JOIN, p->batch * p->heads * p->sq); r++)
            FN(join_row)(p, r);
        return;
    }
    ptrdiff_t part = unit % p->parts, block = unit / p->parts % p->blocks, g = unit / p->parts / p->blocks;
    if (p->causal)
        block = p->blocks - 1 - block; /* the longest first */
    if (FN(few_rows)(p))
        FN(forward_rows)(p, g / p->kv_heads, g % p->kv_heads, part, slot);
    else
        FN(forward_block)(p, g / p->kv_heads, g % p->kv_heads, block, part, slot);
}
