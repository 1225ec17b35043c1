/* ctc_real.h: samples of ctc.h for one scalar type. log_probs [T, N, C], targets [N, S]. */

/* a sample, and a worker's memory for it */
typedef struct {
    const real *log_probs; /* of frame 0; the next frame is `step` further */
    const int64_t *targets;
    ptrdiff_t step, frames, labels, width, row;
    double *rows[2], *skip, *posterior, *table, *kept, *classes;
    ctc_states factors;
} FN(ctc_sample);

static FN(ctc_sample) FN(ctc_sample_of)(const ctc_plan *p, ptrdiff_t n, double *memory)
{
    FN(ctc_sample) s;
    s.log_probs = (const real *)p->log_probs + n * p->classes;
    s.targets = p->targets + n * p->longest;
    s.step = p->batch * p->classes;
    s.frames = p->frames[n];
    s.labels = p->lengths[n];
    s.width = ctc_width(s.labels);
    s.row = ctc_row(s.width);
    ptrdiff_t room = ctc_row(p->width), line = p->width + CTC_LANES;
    s.rows[0] = memory;
    s.rows[1] = memory + room;
    s.skip = memory + 2 * room;
    s.factors = (ctc_states){s.skip + line, s.skip + 2 * line};
    s.posterior = s.skip + 3 * line;
    s.table = s.skip + 4 * line;
    s.kept = s.table + p->segment * room;
    s.classes = s.kept + p->kept * room;
    ctc_clear(s.rows[0], s.width);
    ctc_clear(s.rows[1], s.width);
    ctc_fill(s.skip, 0, s.width + CTC_LANES);
    for (ptrdiff_t i = 1; i < s.labels; i++)
        s.skip[i] = s.targets[i] != s.targets[i - 1];
    return s;
}

/* the labels' probabilities in a frame, to s->factors; the blank's is returned */
INLINE ctc_numbers FN(ctc_factors)(const ctc_plan *p, const FN(ctc_sample) *s, ptrdiff_t t)
{
    const real *at = s->log_probs + t * s->step;
    ctc_states f = s->factors;
    for (ptrdiff_t i = 0; i < s->labels; i++)
        f.m[i] = (double)at[s->targets[i]];
    f.m[s->labels] = (double)at[p->blank]; /* there is room for it behind the labels */
    ctc_fill(f.m + s->labels + 1, -(double)INFINITY, s->width - s->labels - 1);
    for (ptrdiff_t i = 0; i < s->width; i += LANES_f64) {
        ctc_numbers e = ctc_exp(vload_f64(f.m + i));
        vstore_f64(f.m + i, e.m);
        vstore_f64(f.e + i, e.e);
    }
    ctc_numbers blank = ctc_lane(f, s->labels);
    f.m[s->labels] = f.e[s->labels] = 0;
    return blank;
}

INLINE void FN(ctc_step)(const ctc_plan *p, const FN(ctc_sample) *s, ptrdiff_t t, double *from, double *to)
{
    ctc_numbers blank = FN(ctc_factors)(p, s, t);
    ctc_alpha(from, to, s->skip, s->factors, blank, s->width);
    if (t % CTC_OFTEN == CTC_OFTEN - 1) {
        ctc_normalise(ctc_blanks(to, s->width), s->width);
        ctc_normalise(ctc_labels(to, s->width), s->width);
    }
}

/* P, in every lane, from the row of the last frame */
INLINE ctc_numbers FN(ctc_total)(const FN(ctc_sample) *s, double *row)
{
    return ctc_add(ctc_lane(ctc_blanks(row, s->width), s->labels), ctc_lane(ctc_labels(row, s->width), s->labels - 1));
}

/* the loss of a sample */
FUNC void FN(ctc_loss_sample)(const ctc_plan *p, ptrdiff_t n, double *memory)
{
    FN(ctc_sample) s = FN(ctc_sample_of)(p, n, memory);
    ctc_states blanks = ctc_blanks(s.rows[0], s.width);
    blanks.m[0] = 1;
    blanks.e[0] = 0;
    for (ptrdiff_t t = 0; t < s.frames; t++)
        FN(ctc_step)(p, &s, t, s.rows[t & 1], s.rows[~t & 1]);
    ctc_numbers total = FN(ctc_total)(&s, s.rows[s.frames & 1]);
    double loss = -(vlog_f64(total.m)[0] + total.e[0] * 0.69314718055994531);
    if (total.m[0] == 0)
        loss = p->zero_infinity ? 0 : (double)INFINITY;
    ((real *)p->out)[n] = (real)(loss == 0 ? 0 : loss); /* not -0 */
}

/* alpha of frames first..last-1 to the table, from the row before; the last row */
static double *FN(ctc_fill_table)(const ctc_plan *p, const FN(ctc_sample) *s, double *before, ptrdiff_t first, ptrdiff_t last)
{
    for (ptrdiff_t t = first; t < last; t++) {
        double *to = s->table + (t - first) * s->row;
        FN(ctc_step)(p, s, t, before, to);
        before = to;
    }
    return before;
}

/* to = g (exp(x) - posterior): the posterior of the labels and of the blank. s->classes is 0, and 0 again afterwards */
INLINE void FN(ctc_gradient)(const ctc_plan *p, const FN(ctc_sample) *s, const real *x, real *to, double blank, real g)
{
    double *classes = s->classes;
    ptrdiff_t n = p->classes, i = 0;
    for (; i + LANES <= n; i += LANES)
        vstore(to + i, vexp(vload(x + i)));
    if (i < n)
        vstore_n(to + i, vexp(vload_n(x + i, n - i)), n - i);
    classes[p->blank] = blank;
    for (i = 0; i < s->labels; i++)
        classes[s->targets[i]] += s->posterior[i];
    for (i = 0; i < s->labels; i++) {
        ptrdiff_t c = s->targets[i];
        to[c] = (real)((double)to[c] - classes[c]); /* a label that comes again finds 0 */
        classes[c] = 0;
    }
    to[p->blank] = (real)((double)to[p->blank] - classes[p->blank]);
    classes[p->blank] = 0;
    const vec scale = vset(g);
    for (i = 0; i + LANES <= n; i += LANES)
        vstore(to + i, vload(to + i) * scale);
    if (i < n)
        vstore_n(to + i, vload_n(to + i, n - i) * scale, n - i);
}

/* a sample's gradient, in all T frames of `out` */
FUNC void FN(ctc_backward_sample)(const ctc_plan *p, ptrdiff_t n, ptrdiff_t all_frames, double *memory)
{
    FN(ctc_sample) s = FN(ctc_sample_of)(p, n, memory);
    real *out = (real *)p->out + n * p->classes, g = ((const real *)p->grad)[n];
    double *y = s.rows[0], *last = y;
    ctc_states blanks = ctc_blanks(y, s.width), labels = ctc_labels(y, s.width);
    blanks.m[0] = 1;
    blanks.e[0] = 0;
    for (ptrdiff_t t = 0; t < s.frames; t += p->segment) {
        double *kept = s.kept + t / p->segment * s.row;
        memcpy(kept, last, sizeof(double) * (size_t)s.row);
        last = FN(ctc_fill_table)(p, &s, kept, t, t + p->segment < s.frames ? t + p->segment : s.frames);
    }
    ctc_numbers total = FN(ctc_total)(&s, last), share = {vset_f64(1) / total.m, -total.e};
    ptrdiff_t frames = total.m[0] == 0 ? 0 : s.frames;
    for (ptrdiff_t t = frames; t < all_frames; t++)
        memset(out + t * s.step, 0, sizeof(real) * (size_t)p->classes);
    if (frames)
        ctc_fill(s.classes, 0, p->classes);
    blanks.m[0] = 0;
    blanks.e[0] = CTC_NEVER;
    blanks.m[s.labels] = 1;
    blanks.e[s.labels] = 0;
    for (ptrdiff_t t = frames - 1; t >= 0; t--) {
        ptrdiff_t first = t / p->segment * p->segment;
        if (t == first + p->segment - 1 && t != frames - 1)
            FN(ctc_fill_table)(p, &s, s.kept + first / p->segment * s.row, first, t + 1);
        ctc_numbers factor = FN(ctc_factors)(p, &s, t);
        double *alpha = s.table + (t - first) * s.row;
        double blank = ctc_beta(y, alpha, s.skip, s.factors, factor, share, s.rows[1], s.posterior, s.width);
        if (t % CTC_OFTEN == 0) {
            ctc_normalise(blanks, s.width);
            ctc_normalise(labels, s.width);
        }
        FN(ctc_gradient)(p, &s, s.log_probs + t * s.step, out + t * s.step, blank, g);
    }
}

/* samples until none is left */
static void FN(ctc_loss_worker)(ctc_plan *p, ptrdiff_t worker)
{
    for (ptrdiff_t n; (n = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED)) < p->batch;)
        FN(ctc_loss_sample)(p, n, p->memory + worker * p->each);
}

static void FN(ctc_backward_worker)(ctc_plan *p, ptrdiff_t all_frames, ptrdiff_t worker)
{
    for (ptrdiff_t n; (n = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED)) < p->batch;)
        FN(ctc_backward_sample)(p, n, all_frames, p->memory + worker * p->each);
}
