/* conv_product_real.h: the body of conv_product.h for one scalar type: packers, stores, jobs. */

/* ---- the plain operand ---- */

typedef struct {
    conv_product *product;
    FN(gemm_matrix) matrix;
} FN(conv_plain);

/* weights that meet padding: noted when they are not finite */
FUNC void FN(conv_pack_weights)(const void *ctx, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t k0, ptrdiff_t nk, real *panel,
                                ptrdiff_t width)
{
    const FN(conv_plain) *x = (const FN(conv_plain) *)ctx;
    FN(gemm_plain)(&x->matrix, i0, ni, k0, nk, panel, width);
    if (!FN(conv_finite)(panel, nk * width))
        __atomic_store_n(&x->product->poisoned, 1, __ATOMIC_RELAXED);
}

/* ---- patches ---- */

/* consecutive output cells in one row, as columns of a panel */
typedef struct {
    ptrdiff_t start, count; /* columns */
    ptrdiff_t z, y, x;      /* the input cell of the first one without a tap's shift */
    const real *in;         /* the image */
} FN(conv_run);

INLINE ptrdiff_t FN(conv_runs)(const conv_job *j, const real *in, ptrdiff_t i0, ptrdiff_t ni, FN(conv_run) * run)
{
    const ptrdiff_t positions = conv_positions(j);
    ptrdiff_t count = 0, b = i0 / positions, rest = i0 % positions;
    ptrdiff_t x = rest % j->out[2], y = rest / j->out[2] % j->out[1], z = rest / j->out[2] / j->out[1];
    for (ptrdiff_t i = 0; i < ni; count++) {
        FN(conv_run) *r = run + count;
        r->start = i, r->count = conv_min(j->out[2] - x, ni - i);
        r->z = z * j->step[0] + j->off[0], r->y = y * j->step[1] + j->off[1], r->x = x * j->step[2] + j->off[2];
        r->in = in + b * j->in_batch;
        i += r->count;
        x = 0;
        if (++y == j->out[1]) {
            y = 0;
            if (++z == j->out[0])
                z = 0, b++;
        }
    }
    return count;
}

/* panel[k][column] = the cell that term k = (channel, tap) of the output cell reads, 0 over padding */
FUNC void FN(conv_pack_patches)(const void *ctx, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t k0, ptrdiff_t nk, real *panel,
                                ptrdiff_t width)
{
    const conv_product *p = (const conv_product *)ctx;
    const conv_job *j = p->call.job;
    const ptrdiff_t taps = conv_taps(j), step = j->step[2] * j->in_axis[2];
    const ptrdiff_t below = GEMM_NR / j->out[2], right = GEMM_NR % j->out[2];
    /* the cells of the next panel are asked for: so many streams are not seen by the hardware. Of several taps some read them now */
    const ptrdiff_t ahead = taps > 1 ? GEMM_NR * step : below * j->step[1] * j->in_axis[1] + right * step;
    FN(conv_run) run[GEMM_NR];
    const real *in = (const real *)p->call.in + p->image * j->in_batch + p->group * j->in_group;
    const ptrdiff_t runs = FN(conv_runs)(j, in, i0, ni, run);
    for (ptrdiff_t t = 0; t < taps; t++) {
        const ptrdiff_t c0 = conv_ceil(conv_max(k0 - t, 0), taps), c1 = k0 + nk > t ? conv_ceil(k0 + nk - t, taps) : 0;
        real *const row = panel + (c0 * taps + t - k0) * width;
        const conv_shift *s = p->shift + t;
        for (ptrdiff_t i = 0; i < runs; i++) {
            const FN(conv_run) *r = run + i;
            const ptrdiff_t z = r->z + s->z, y = r->y + s->y, x = r->x + s->x;
            real *to = row + r->start;
            ptrdiff_t first, last;
            conv_inside(x, j->step[2], j->in[2], r->count, &first, &last);
            const int none = z < 0 || z >= j->in[0] || y < 0 || y >= j->in[1] || last < first;
            if (none || last - first + 1 < r->count)
                FN(conv_zero_rows)(to, taps * width, r->count, c1 - c0);
            if (none)
                continue;
            const real *from = r->in + c0 * j->in_channel + z * j->in_axis[0] + y * j->in_axis[1] + x * j->in_axis[2];
            FN(conv_copy_rows)(to + first, taps * width, from + first * step, j->in_channel, step, last - first + 1, c1 - c0, ahead);
        }
    }
    if (ni < width)
        for (ptrdiff_t k = 0; k < nk; k++)
            FN(conv_zero)(panel + k * width + ni, width - ni);
}

/* a finished piece of an output that is a matrix */
FUNC void FN(conv_activate_product)(void *ctx, real *c, ptrdiff_t ld, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t j0, ptrdiff_t nj)
{
    const conv_call *call = &((const conv_product *)ctx)->call;
    (void)i0, (void)j0;
    FN(activate)(call->activation, c, c + call->apart, ni, nj, ld);
}

/* a tile of [outputs, positions] to the output */
FUNC void FN(conv_store_product)(void *ctx, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t j0, ptrdiff_t nj, const real *tile,
                                 ptrdiff_t ld, int add, int last)
{
    const conv_product *p = (const conv_product *)ctx;
    const conv_job *j = p->call.job;
    const ptrdiff_t positions = conv_positions(j);
    for (ptrdiff_t at = 0; at < nj;) {
        const ptrdiff_t b = (j0 + at) / positions, cell = (j0 + at) % positions;
        real *out = (real *)p->call.out + b * j->out_batch + p->group * j->out_group + i0 * j->out_channel;
        ptrdiff_t n = conv_min(positions - cell, nj - at);
        if (p->dense) {
            out += cell * j->out_axis[2];
        } else {
            const ptrdiff_t x = cell % j->out[2], y = cell / j->out[2] % j->out[1], z = cell / j->out[2] / j->out[1];
            out += z * j->out_axis[0] + y * j->out_axis[1] + x * j->out_axis[2];
            n = conv_min(n, j->out[2] - x);
        }
        FN(conv_store_runs)(tile + at, ld, out, j->out_channel, j->out_axis[2], n, ni, add);
        if (last)
            FN(conv_finish)(&p->call, out, ni, n);
        at += n;
    }
}

/* ---- channels last: rows of the product are positions, columns output channels ---- */

/* the cell and the image of one position, without a tap's shift */
typedef struct {
    ptrdiff_t z, y, x;
    const real *in;
} FN(conv_cell);

INLINE void FN(conv_cells)(const conv_job *j, const real *in, ptrdiff_t i0, ptrdiff_t ni, FN(conv_cell) * cell)
{
    FN(conv_run) run[GEMM_MR];
    const ptrdiff_t runs = FN(conv_runs)(j, in, i0, ni, run);
    for (ptrdiff_t r = 0; r < runs; r++)
        for (ptrdiff_t i = 0; i < run[r].count; i++) {
            FN(conv_cell) *c = cell + run[r].start + i;
            c->z = run[r].z, c->y = run[r].y, c->x = run[r].x + i * j->step[2], c->in = run[r].in;
        }
}

/* where channel 0 of the cell is, NULL over padding */
INLINE const real *FN(conv_at)(const conv_job *j, const FN(conv_cell) * c, const conv_shift *s)
{
    const ptrdiff_t z = c->z + s->z, y = c->y + s->y, x = c->x + s->x;
    if (z < 0 || z >= j->in[0] || y < 0 || y >= j->in[1] || x < 0 || x >= j->in[2])
        return NULL;
    return c->in + z * j->in_axis[0] + y * j->in_axis[1] + x * j->in_axis[2];
}

/* panel[k][row] = the cell that term k = (tap, channel) of position i0 + row reads, 0 over padding */
FUNC void FN(conv_pack_rows)(const void *ctx, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t k0, ptrdiff_t nk, real *panel,
                             ptrdiff_t width)
{
    const conv_product *p = (const conv_product *)ctx;
    const conv_job *j = p->call.job;
    real rows[(GEMM_MR + LANES - 1) / LANES * LANES * CONV_PATCH_BLOCK] __attribute__((aligned(64)));
    FN(conv_cell) cell[GEMM_MR];
    FN(conv_cells)(j, (const real *)p->call.in + p->group * j->in_group, i0, ni, cell);
    for (ptrdiff_t at = 0; at < nk; at += CONV_PATCH_BLOCK) {
        const ptrdiff_t n = conv_min(CONV_PATCH_BLOCK, nk - at);
        ptrdiff_t tap = (k0 + at) / j->channels, c = (k0 + at) % j->channels;
        for (ptrdiff_t k = 0; k < n; tap++, c = 0) {
            const ptrdiff_t run = conv_min(j->channels - c, n - k);
            for (ptrdiff_t i = 0; i < ni; i++) {
                const real *from = FN(conv_at)(j, cell + i, p->shift + tap);
                real *to = rows + i * CONV_PATCH_BLOCK + k;
                if (from)
                    FN(conv_copy)(to, from + c, run);
                else
                    FN(conv_zero)(to, run);
            }
            k += run;
        }
        /* the last strip of LANES rows first: where width is no multiple of LANES its vectors end in the next row of the panel */
        for (ptrdiff_t k = 0; k < n; k += LANES)
            for (ptrdiff_t i = (width - 1) / LANES * LANES; i >= 0; i -= LANES)
                FN(transpose_tile)(rows + i * CONV_PATCH_BLOCK + k, CONV_PATCH_BLOCK, ni - i, n - k,
                                   panel + (at + k) * width + i, width);
    }
}

/* a tile of [positions, outputs] to the output */
FUNC void FN(conv_store_rows)(void *ctx, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t j0, ptrdiff_t nj, const real *tile,
                              ptrdiff_t ld, int add, int last)
{
    const conv_product *p = (const conv_product *)ctx;
    const conv_job *j = p->call.job;
    const ptrdiff_t positions = conv_positions(j);
    for (ptrdiff_t i = 0; i < ni; i++) {
        const ptrdiff_t b = (i0 + i) / positions, cell = (i0 + i) % positions;
        const ptrdiff_t x = cell % j->out[2], y = cell / j->out[2] % j->out[1], z = cell / j->out[2] / j->out[1];
        real *out = (real *)p->call.out + b * j->out_batch + p->group * j->out_group;
        out += z * j->out_axis[0] + y * j->out_axis[1] + x * j->out_axis[2];
        FN(conv_store_runs)(tile + i * ld, 0, out + j0 * j->out_channel, 0, j->out_channel, nj, 1, add);
        if (last)
            FN(conv_finish)(&p->call, out + j0 * j->out_channel, nj, 1);
    }
}

/* panel[k][row] = the cell that term i0 + row = (tap, channel) reads at position k (of all images), 0 over padding */
FUNC void FN(conv_pack_term_rows)(const void *ctx, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t k0, ptrdiff_t nk, real *panel,
                                  ptrdiff_t width)
{
    const conv_product *p = (const conv_product *)ctx;
    const conv_job *j = p->call.job;
    const real *in = (const real *)p->call.in + p->group * j->in_group;
    FN(conv_run) run[CONV_PATCH_BLOCK];
    for (ptrdiff_t at = 0; at < nk; at += CONV_PATCH_BLOCK) {
        const ptrdiff_t runs = FN(conv_runs)(j, in, k0 + at, conv_min(CONV_PATCH_BLOCK, nk - at), run);
        ptrdiff_t tap = i0 / j->channels, c = i0 % j->channels;
        for (ptrdiff_t i = 0; i < ni; tap++, c = 0) {
            const ptrdiff_t n = conv_min(j->channels - c, ni - i);
            const conv_shift *s = p->shift + tap;
            for (ptrdiff_t q = 0; q < runs; q++) {
                const FN(conv_run) *r = run + q;
                const ptrdiff_t z = r->z + s->z, y = r->y + s->y, x = r->x + s->x;
                real *to = panel + (at + r->start) * width + i;
                ptrdiff_t first, last;
                conv_inside(x, j->step[2], j->in[2], r->count, &first, &last);
                if (z < 0 || z >= j->in[0] || y < 0 || y >= j->in[1] || last < first)
                    first = r->count, last = r->count - 1;
                const real *from = r->in + c + z * j->in_axis[0] + y * j->in_axis[1] + x * j->in_axis[2];
                for (ptrdiff_t k = 0; k < r->count; k++, to += width) {
                    if (k < first || k > last)
                        FN(conv_zero)(to, n);
                    else
                        FN(conv_copy)(to, from + k * j->step[2] * j->in_axis[2], n);
                }
            }
            i += n;
        }
    }
    if (ni < width)
        for (ptrdiff_t k = 0; k < nk; k++)
            FN(conv_zero)(panel + k * width + ni, width - ni);
}

/* ---- the weight gradient: [outputs, batch and positions] x [batch and positions, terms] ---- */

/* panel[k][column] = the cell that term i0 + column reads at position k (of all images), 0 over padding */
FUNC void FN(conv_pack_terms)(const void *ctx, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t k0, ptrdiff_t nk, real *panel,
                              ptrdiff_t width)
{
    const conv_product *p = (const conv_product *)ctx;
    const conv_job *j = p->call.job;
    const ptrdiff_t taps = conv_taps(j), step = j->step[2] * j->in_axis[2];
    const real *in = (const real *)p->call.in + p->group * j->in_group;
    real rows[GEMM_NR * CONV_PATCH_BLOCK] __attribute__((aligned(64)));
    FN(conv_run) run[CONV_PATCH_BLOCK];
    for (ptrdiff_t at = 0; at < nk; at += CONV_PATCH_BLOCK) {
        const ptrdiff_t n = conv_min(CONV_PATCH_BLOCK, nk - at), runs = FN(conv_runs)(j, in, k0 + at, n, run);
        if (p->padded)
            FN(conv_zero)(rows, ni * CONV_PATCH_BLOCK);
        /* terms i, i + taps, ... share a tap */
        for (ptrdiff_t i = 0; i < conv_min(ni, taps); i++) {
            const conv_shift *s = p->shift + (i0 + i) % taps;
            const ptrdiff_t channel = (i0 + i) / taps * j->in_channel;
            for (ptrdiff_t q = 0; q < runs; q++) {
                const FN(conv_run) *r = run + q;
                const ptrdiff_t z = r->z + s->z, y = r->y + s->y, x = r->x + s->x;
                ptrdiff_t first, last;
                conv_inside(x, j->step[2], j->in[2], r->count, &first, &last);
                if (z < 0 || z >= j->in[0] || y < 0 || y >= j->in[1] || last < first)
                    continue;
                const real *from = r->in + channel + z * j->in_axis[0] + y * j->in_axis[1];
                from += (x + first * j->step[2]) * j->in_axis[2];
                real *to = rows + i * CONV_PATCH_BLOCK + r->start + first;
                FN(conv_copy_rows)(to, taps * CONV_PATCH_BLOCK, from, j->in_channel, step, last - first + 1, conv_ceil(ni - i, taps), 0);
            }
        }
        for (ptrdiff_t k = 0; k < n; k += LANES)
            for (ptrdiff_t i = 0; i < width; i += LANES)
                FN(transpose_tile)(rows + i * CONV_PATCH_BLOCK + k, CONV_PATCH_BLOCK, ni - i, n - k,
                                   panel + (at + k) * width + i, width);
    }
}

/* a finished piece of the weight gradient */
FUNC void FN(conv_check_weights)(void *ctx, real *c, ptrdiff_t ld, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t j0, ptrdiff_t nj)
{
    (void)i0, (void)j0;
    for (ptrdiff_t i = 0; i < ni; i++)
        if (!FN(conv_finite)(c + i * ld, nj)) {
            __atomic_store_n(&((conv_product *)ctx)->poisoned, 1, __ATOMIC_RELAXED);
            return;
        }
}

/* a tile of [outputs, terms] to the weight gradient */
FUNC void FN(conv_store_weights)(void *ctx, ptrdiff_t i0, ptrdiff_t ni, ptrdiff_t j0, ptrdiff_t nj, const real *tile,
                                 ptrdiff_t ld, int add, int last)
{
    conv_product *p = (conv_product *)ctx;
    const conv_job *j = p->call.job;
    real bad = 0;
    for (ptrdiff_t k = 0; k < nj; k++) {
        const ptrdiff_t term = j0 + k, x = term % j->kernel[2], y = term / j->kernel[2] % j->kernel[1];
        const ptrdiff_t z = term / j->kernel[2] / j->kernel[1] % j->kernel[0], c = term / conv_taps(j);
        real *to = (real *)p->call.out + p->group * j->w_group + c * j->w_channel + z * j->w_axis[0] + y * j->w_axis[1] +
            x * j->w_axis[2];
        for (ptrdiff_t i = 0; i < ni; i++) {
            real *out = to + (i0 + i) * j->w_output;
            *out = add ? *out + tile[i * ld + k] : tile[i * ld + k];
            bad += *out * 0;
        }
    }
    if (last && p->padded && bad != 0) /* NaN */
        __atomic_store_n(&p->poisoned, 1, __ATOMIC_RELAXED);
}

/* ---- the jobs ---- */

INLINE void FN(conv_forward_product)(conv_product *p, FN(conv_plain) * weights, FN(gemm_job) * job)
{
    const conv_job *j = p->call.job;
    const ptrdiff_t positions = (p->by_image ? 1 : j->batch) * conv_positions(j);
    const real *bias = p->call.bias ? (const real *)p->call.bias + p->group * j->outputs : NULL;
    real *out = (real *)p->call.out + p->image * j->out_batch + p->group * j->out_group;
    const FN(gemm_packer) pack = p->padded ? FN(conv_pack_weights) : FN(gemm_plain);
    const void *const w = p->padded ? (const void *)weights : (const void *)&weights->matrix;
    weights->matrix.p = (const real *)p->call.w + p->group * j->w_group + p->start, weights->matrix.rs = j->w_output;
    job->k = conv_terms(j);
    if (p->call.activation)
        job->finish = FN(conv_activate_product), job->finish_ctx = p;
    if (p->channels_last) {
        job->m = positions, job->n = j->outputs;
        job->pack_a = FN(conv_pack_rows), job->a = p;
        job->pack_b = pack, job->b = w, job->moving = j->groups > 1;
        job->bias_col = bias;
        if (p->dense)
            job->c = out, job->ldc = p->ldc;
        else
            job->store = FN(conv_store_rows), job->store_ctx = p;
    } else {
        job->m = j->outputs, job->n = positions;
        job->pack_a = pack, job->a = w;
        job->pack_b = FN(conv_pack_patches), job->b = p;
        job->bias_row = bias;
        if (p->by_image)
            job->c = out, job->ldc = j->out_channel;
        else
            job->store = FN(conv_store_product), job->store_ctx = p;
    }
}

/* a chunk of the sum over the positions of all images that ends with an image, so that rows of the gradient are read where they
 * are; 0 where none is about as long as gemm.h's */
INLINE ptrdiff_t FN(conv_weight_chunk)(ptrdiff_t positions)
{
    for (ptrdiff_t n = conv_max(1, conv_ceil(positions, GEMM_KC + GEMM_KC / 16)); n <= positions / (GEMM_KC - GEMM_KC / 4); n++)
        if (positions % n == 0)
            return positions / n;
    return 0;
}

INLINE void FN(conv_weight_product)(conv_product *p, FN(conv_plain) * grad, FN(gemm_job) * job)
{
    const conv_job *j = p->call.job;
    grad->matrix.p = (const real *)p->call.w + p->group * j->out_group, grad->matrix.rs = j->out_channel;
    job->k = j->batch * conv_positions(j), job->chunk = FN(conv_weight_chunk)(conv_positions(j));
    if (p->channels_last) {
        job->m = conv_terms(j), job->n = j->outputs;
        job->pack_a = FN(conv_pack_term_rows), job->a = p;
        job->pack_b = FN(gemm_plain), job->b = &grad->matrix, job->moving = j->groups > 1;
    } else {
        job->m = j->outputs, job->n = conv_terms(j);
        job->pack_a = FN(gemm_plain), job->a = &grad->matrix;
        job->pack_b = FN(conv_pack_terms), job->b = p;
    }
    if (!p->dense) {
        job->store = FN(conv_store_weights), job->store_ctx = p;
        return;
    }
    job->c = (real *)p->call.out + p->group * j->w_group, job->ldc = p->channels_last ? j->w_channel : j->w_output;
    if (p->padded)
        job->finish = FN(conv_check_weights), job->finish_ctx = p;
}

/* a job and the matrix of its plain operand */
typedef struct {
    FN(conv_plain) plain;
    FN(gemm_job) job;
} FN(conv_running);

/* job i: of group i % groups, of all images or of image i / groups */
FUNC void FN(conv_product_job)(conv_product *p, ptrdiff_t i, FN(conv_running) * r)
{
    FN(conv_plain) *plain = &r->plain;
    memset(&r->job, 0, sizeof r->job);
    p->group = i % p->call.job->groups, p->image = i / p->call.job->groups;
    plain->product = p;
    plain->matrix.ks = p->step, plain->matrix.inner = p->inner, plain->matrix.table = p->table;
    if (p->of_weights)
        FN(conv_weight_product)(p, plain, &r->job);
    else
        FN(conv_forward_product)(p, plain, &r->job);
}

/* how the threads share the jobs, which have all the same shape */
FUNC void FN(conv_share_product)(conv_product *p, ptrdiff_t threads)
{
    FN(conv_running) r;
    p->running_bytes = conv_round64(sizeof r);
    p->threads = threads, p->most = even_parts(p->jobs, 1, threads, threads);
    p->parts = p->tasks = 0, p->workers = 1, p->part_bytes = 0;
    if (p->jobs) {
        FN(conv_product_job)(p, 0, &r);
        if (threads > 1 && p->jobs > 1) {
            FN(gemm_plan_parts)(&r.job, p->most);
            p->parts = r.job.slots;
            p->tasks = p->jobs * p->parts;
            p->workers = conv_min(threads, p->tasks);
            p->part_bytes = r.job.scratch_bytes / (size_t)p->parts;
        } else {
            FN(gemm_plan)(&r.job, (int)threads);
            p->tasks = FN(gemm_shares)(&r.job);
            p->workers = r.job.slots;
            p->part_bytes = r.job.scratch_bytes;
        }
    }
    p->scratch_bytes = p->table_bytes + p->running_bytes + p->part_bytes * (size_t)(p->parts ? p->workers : 1);
}

/* the parts of jobs that worker i gets hold of */
FUNC void FN(conv_product_worker)(conv_product *p, ptrdiff_t i)
{
    for (ptrdiff_t task; (task = tasks_next(&p->queue, i)) >= 0;) {
        conv_product mine = *p;
        FN(conv_running) r;
        FN(conv_product_job)(&mine, task / p->parts, &r);
        FN(gemm_plan_parts)(&r.job, p->most);
        r.job.scratch = p->scratch + (size_t)i * p->part_bytes;
        FN(gemm_part)(&r.job, task % p->parts, 0);
        if (mine.poisoned)
            __atomic_store_n(&p->poisoned, 1, __ATOMIC_RELAXED);
    }
}

/* job i, as gemm.h shares it: phase after phase, each of worker after worker */
FUNC void FN(conv_product_begin)(conv_product *p, ptrdiff_t i)
{
    FN(conv_running) *r = (FN(conv_running) *)p->running;
    FN(conv_product_job)(p, i, r);
    FN(gemm_plan)(&r->job, (int)p->threads);
    r->job.scratch = p->scratch;
    p->phases = FN(gemm_phases)(&r->job);
}
FUNC void FN(conv_product_phase)(conv_product *p, ptrdiff_t phase)
{
    p->phase = phase;
    FN(gemm_begin)(&((FN(conv_running) *)p->running)->job, phase, &p->queue);
}
FUNC void FN(conv_product_share)(conv_product *p, ptrdiff_t i)
{
    FN(gemm_work)(&((FN(conv_running) *)p->running)->job, p->phase, i, &p->queue);
}
