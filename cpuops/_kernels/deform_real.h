/* deform_real.h: the tasks of deformable convolution. See deform.h. */

/* ---- packed weights: panels of GEMM_NR lanes, short ones filled with zeros ---- */

/* of the forward: [panel of outputs][tap, channel][lane] */
FUNC void FN(deform_pack)(const deform_call *c, ptrdiff_t block)
{
    const ptrdiff_t taps = deform_taps(c), inputs = deform_inputs(c), outputs = deform_outputs(c);
    const ptrdiff_t first = c->starts[block], n = c->starts[block + 1] - first, group = first / inputs;
    const real *w = (const real *)c->weight + (group * outputs * inputs + first - group * inputs) * taps;
    real *to = (real *)c->shared + (block - c->first) * c->packed_stride;
    for (ptrdiff_t m0 = 0; m0 < outputs; m0 += GEMM_NR)
        for (ptrdiff_t tap = 0; tap < taps; tap++)
            for (ptrdiff_t k = 0; k < n; k++, to += GEMM_NR)
                for (ptrdiff_t m = 0; m < GEMM_NR; m++)
                    to[m] = m0 + m < outputs ? w[((m0 + m) * inputs + k) * taps + tap] : 0;
}

/* of the gradients: [chunk][panel of (tap, channel)][output][lane] */
FUNC void FN(deform_pack_turned)(const deform_call *c, ptrdiff_t block)
{
    const ptrdiff_t taps = deform_taps(c), inputs = deform_inputs(c), outputs = deform_outputs(c);
    const ptrdiff_t first = c->starts[block], n = c->starts[block + 1] - first, group = first / inputs;
    const real *w = (const real *)c->weight + (group * outputs * inputs + first - group * inputs) * taps;
    real *to = (real *)c->shared + (block - c->first) * c->packed_stride;
    for (ptrdiff_t low = 0; low < taps; low += c->taps) {
        const ptrdiff_t terms = (deform_min(low + c->taps, taps) - low) * n;
        for (ptrdiff_t k0 = 0; k0 < terms; k0 += GEMM_NR)
            for (ptrdiff_t m = 0; m < outputs; m++)
                for (ptrdiff_t k = k0; k < k0 + GEMM_NR; k++)
                    *to++ = k < terms ? w[(m * inputs + k % n) * taps + low + k / n] : 0;
    }
}

/* ---- forward ---- */

/* out[outputs m0.., positions] = sum + bias, or += sum */
FUNC void FN(deform_store)(const FN(deform_state) *s, ptrdiff_t m0, ptrdiff_t outputs, int add)
{
    const deform_call *c = s->call;
    const ptrdiff_t positions = deform_positions(c), channel = s->group * deform_outputs(c) + m0;
    const real *bias = c->bias ? (const real *)c->bias + channel : NULL;
    real *out = (real *)c->out + (s->item * c->outputs + channel) * positions + s->start;
    real tile[LANES * LANES] __attribute__((aligned(64)));
    for (ptrdiff_t m = 0; m < outputs; m += LANES)
        for (ptrdiff_t p = 0; p < s->count; p += LANES) {
            const ptrdiff_t n = deform_min(LANES, s->count - p), rows = deform_min(LANES, outputs - m);
            FN(transpose_tile)(s->sum + p * c->sum_ld + m, c->sum_ld, n, rows, tile, LANES);
            for (ptrdiff_t i = 0; i < rows; i++) {
                real *to = out + (m + i) * positions + p;
                vec v = vload(tile + i * LANES);
                if (add)
                    v = vload_n(to, n) + v;
                else if (bias)
                    v = v + vset(bias[m + i]);
                vstore_n(to, v, n);
            }
        }
}

/* panels [low, high) of outputs, for the columns of one chunk at the positions at hand */
INLINE void FN(deform_product)(FN(deform_state) *s, ptrdiff_t tap0, ptrdiff_t terms, ptrdiff_t low, ptrdiff_t high)
{
    const deform_call *c = s->call;
    const ptrdiff_t all = deform_taps(c) * s->n, outputs = deform_outputs(c);
    const real *packed = (const real *)c->shared + (s->block - c->first) * c->packed_stride + tap0 * s->n * GEMM_NR;
    const int add = tap0 > 0 || s->first % deform_inputs(c) > 0;
    for (ptrdiff_t first = low; first < high; first += DEFORM_PANELS) {
        const ptrdiff_t end = deform_min(first + DEFORM_PANELS, high);
        for (ptrdiff_t p = 0; p < s->count; p += GEMM_MR)
            for (ptrdiff_t panel = first; panel < end; panel++)
                FN(gemm_piece)(deform_min(GEMM_MR, s->count - p), GEMM_NR, terms, s->column + p * c->ld, c->ld, 1,
                               packed + panel * all * GEMM_NR, GEMM_NR,
                               s->sum + p * c->sum_ld + (panel - first) * GEMM_NR, c->sum_ld, 0, NULL, NULL);
        FN(deform_store)(s, first * GEMM_NR, deform_min(end * GEMM_NR, outputs) - first * GEMM_NR, add);
    }
}

/* a strip of a block, for panels [low, high) of outputs (depthwise: all outputs) */
INLINE void FN(deform_forward_strip)(FN(deform_state) *s, ptrdiff_t strip, ptrdiff_t low, ptrdiff_t high)
{
    const deform_call *c = s->call;
    const ptrdiff_t bottom = deform_min((strip + 1) * c->rows, c->output[0]);
    for (ptrdiff_t row = strip * c->rows, end; row < bottom; row = end) {
        end = FN(deform_strip)(s, row, bottom);
        if (!s->patch)
            FN(deform_load_band)(s);
        for (ptrdiff_t p = row * c->output[1]; p < end * c->output[1]; p += DEFORM_ROWS) {
            FN(deform_places)(s, p, deform_min(DEFORM_ROWS, end * c->output[1] - p));
            for (ptrdiff_t tap = 0; tap < deform_taps(c); tap += c->taps) {
                const ptrdiff_t after = deform_min(tap + c->taps, deform_taps(c));
                FN(deform_sample)(s, tap, after);
                if (c->depthwise)
                    FN(deform_product_depthwise)(s, tap, after);
                else
                    FN(deform_product)(s, tap, (after - tap) * s->n, low, high);
            }
        }
    }
}

/* a strip of one weight group, for a part of its outputs and the blocks of the pass */
FUNC void FN(deform_forward)(const deform_call *c, ptrdiff_t task, void *memory)
{
    const ptrdiff_t strip = task % c->strips, part = task / c->strips % c->parts, inputs = deform_inputs(c);
    const ptrdiff_t group = task / c->strips / c->parts % c->weight_groups;
    const ptrdiff_t item = task / c->strips / c->parts / c->weight_groups;
    const ptrdiff_t panels = deform_ceil(deform_outputs(c), GEMM_NR);
    const ptrdiff_t low = part * panels / c->parts, high = (part + 1) * panels / c->parts;
    const ptrdiff_t first = deform_max(c->first, deform_block_at(c, group * inputs));
    const ptrdiff_t last = deform_min(c->last, deform_block_at(c, (group + 1) * inputs));
    FN(deform_state) s;
    FN(deform_begin)(&s, c, 0, memory);
    for (ptrdiff_t block = first; block < last; block++) {
        FN(deform_take)(&s, item, block);
        FN(deform_forward_strip)(&s, strip, low, high);
    }
}

/* a strip of one block */
FUNC void FN(deform_forward_depthwise)(const deform_call *c, ptrdiff_t task, void *memory)
{
    const ptrdiff_t blocks = c->last - c->first;
    FN(deform_state) s;
    FN(deform_begin)(&s, c, 0, memory);
    FN(deform_take)(&s, task / c->strips / blocks, c->first + task / c->strips % blocks);
    FN(deform_forward_strip)(&s, task % c->strips, 0, 0);
}

/* ---- gradients to x, offset and mask ---- */

/* the gradient of the output, of outputs [m0, m0 + n) of the group at the positions at hand, to s->sum */
INLINE void FN(deform_load_grad)(FN(deform_state) *s, ptrdiff_t m0, ptrdiff_t n)
{
    const deform_call *c = s->call;
    const ptrdiff_t positions = deform_positions(c);
    const real *g = (const real *)c->grad + (s->item * c->outputs + s->group * deform_outputs(c) + m0) * positions + s->start;
    for (ptrdiff_t m = 0; m < n; m++)
        memcpy(s->sum + m * c->grad_ld, g + m * positions, (size_t)s->count * sizeof(real));
}

/* the gradient of the columns of taps [tap, tap + ...): terms of them */
FUNC void FN(deform_column_grad)(FN(deform_state) *s, ptrdiff_t tap, ptrdiff_t terms)
{
    const deform_call *c = s->call;
    const ptrdiff_t outputs = deform_outputs(c);
    /* the chunks before are whole ones */
    const real *packed = (const real *)c->shared + (s->block - c->first) * c->packed_stride +
        tap / c->taps * deform_whole(c->taps * s->n, GEMM_NR) * outputs;
    for (ptrdiff_t m0 = 0; m0 < outputs; m0 += DEFORM_OUTPUTS) {
        const ptrdiff_t m = deform_min(DEFORM_OUTPUTS, outputs - m0);
        FN(deform_load_grad)(s, m0, m);
        for (ptrdiff_t p = 0; p < s->count; p += GEMM_MR)
            for (ptrdiff_t k = 0; k < terms; k += GEMM_NR)
                FN(gemm_piece)(deform_min(GEMM_MR, s->count - p), deform_min(GEMM_NR, terms - k), m, s->sum + p, 1, c->grad_ld,
                               packed + k * outputs + m0 * GEMM_NR, GEMM_NR, s->column + p * c->ld + k, c->ld, m0 > 0, NULL, NULL);
    }
}

/* products of the column gradient of one tap with the four cells, summed over the block's channels: what offset and mask
 * need of x. With D of the cells a b (above), c d (below) and the parts y, x between them,
 *     mask_grad = (1-y)(1-x) Da + (1-y)x Db + y(1-x) Dc + yx Dd
 *     dy_grad = mask ((1-x)(Dc - Da) + x(Dd - Db)),  dx_grad = mask ((1-y)(Db - Da) + y(Dd - Dc)) */
FUNC void FN(deform_offset_grad)(FN(deform_state) *s, ptrdiff_t tap, const real *column)
{
    const deform_call *call = s->call;
    const ptrdiff_t ld = call->ld, whole = s->n / LANES * LANES, rest = s->n - whole, plane = FN(deform_plane)(s, tap);
    for (ptrdiff_t p = 0; p < s->count; p++, column += ld) {
        const real *a = s->band + s->at[0][p], *b = s->band + s->at[1][p];
        const real *c = s->band + s->at[2][p], *d = s->band + s->at[3][p];
        vec da = vzero(), db = vzero(), dc = vzero(), dd = vzero();
        for (ptrdiff_t i = 0; i < whole; i += LANES) {
            const vec g = vload(column + i);
            da = vfma(g, vload(a + i), da), db = vfma(g, vload(b + i), db);
            dc = vfma(g, vload(c + i), dc), dd = vfma(g, vload(d + i), dd);
        }
        if (rest) {
            const vec g = vload_n(column + whole, rest);
            da = vfma(g, vload(a + whole), da), db = vfma(g, vload(b + whole), db);
            dc = vfma(g, vload(c + whole), dc), dd = vfma(g, vload(d + whole), dd);
        }
        s->dot[0][p] = vhsum(da), s->dot[1][p] = vhsum(db), s->dot[2][p] = vhsum(dc), s->dot[3][p] = vhsum(dd);
    }
    real *dy = (real *)call->offset_grad + 2 * plane + s->start, *dx = dy + deform_positions(call);
    real *mask_grad = call->mask ? (real *)call->mask_grad + plane + s->start : NULL;
    const int add = s->first % deform_moved(call) > 0;
    const vec one = vset(1);
    for (ptrdiff_t p = 0; p < s->count; p += LANES) {
        const ptrdiff_t n = deform_min(LANES, s->count - p);
        const vec a = vload(s->dot[0] + p), b = vload(s->dot[1] + p), c = vload(s->dot[2] + p), d = vload(s->dot[3] + p);
        const vec y = vload(s->part_y + p), x = vload(s->part_x + p), mask = vload(s->mask + p);
        vec to_y = mask * vfma(x, d - b, (one - x) * (c - a)), to_x = mask * vfma(y, d - c, (one - y) * (b - a));
        vec to_mask = vload(s->weight[0] + p) * a;
        to_mask = vfma(vload(s->weight[1] + p), b, to_mask);
        to_mask = vfma(vload(s->weight[2] + p), c, to_mask);
        to_mask = vfma(vload(s->weight[3] + p), d, to_mask);
        if (add) {
            to_y = vload_n(dy + p, n) + to_y, to_x = vload_n(dx + p, n) + to_x;
            if (mask_grad)
                to_mask = vload_n(mask_grad + p, n) + to_mask;
        }
        vstore_n(dy + p, to_y, n), vstore_n(dx + p, to_x, n);
        if (mask_grad)
            vstore_n(mask_grad + p, to_mask, n);
    }
}

/* the column gradient of one tap, to the four cells in the gradient's band. Lanes beyond the block's channels are never read */
FUNC void FN(deform_scatter)(FN(deform_state) *s, const real *column)
{
    const ptrdiff_t ld = s->call->ld, padded = s->padded;
    for (ptrdiff_t p = 0; p < s->count; p++, column += ld) {
        real *a = s->grad_band + s->at[0][p], *b = s->grad_band + s->at[1][p];
        real *c = s->grad_band + s->at[2][p], *d = s->grad_band + s->at[3][p];
        const vec wa = vset(s->weight[0][p]), wb = vset(s->weight[1][p]);
        const vec wc = vset(s->weight[2][p]), wd = vset(s->weight[3][p]), mask = vset(s->mask[p]);
        for (ptrdiff_t i = 0; i < padded; i += LANES) {
            const vec g = mask * vload(column + i);
            vstore(a + i, vfma(wa, g, vload(a + i)));
            vstore(b + i, vfma(wb, g, vload(b + i)));
            vstore(c + i, vfma(wc, g, vload(c + i)));
            vstore(d + i, vfma(wd, g, vload(d + i)));
        }
    }
}

/* the gradient's band, channels last, to x_grad */
FUNC void FN(deform_add_band)(FN(deform_state) *s)
{
    const deform_call *c = s->call;
    const ptrdiff_t plane = deform_cells(c), cells = s->rows * c->size[1];
    real *x = (real *)c->x_grad + (s->item * c->channels + s->first) * plane + s->top * c->size[1];
    real tile[LANES * LANES] __attribute__((aligned(64)));
    for (ptrdiff_t i = 0; i < cells; i += LANES)
        for (ptrdiff_t k = 0; k < s->n; k += LANES) {
            const ptrdiff_t n = deform_min(LANES, cells - i), channels = deform_min(LANES, s->n - k);
            FN(transpose_tile)(s->grad_band + (i + 1) * s->padded + k, s->padded, n, channels, tile, LANES);
            for (ptrdiff_t j = 0; j < channels; j++) {
                real *to = x + (k + j) * plane + i;
                vstore_n(to, vload_n(to, n) + vload(tile + j * LANES), n);
            }
        }
}

/* the four cells of each position, one by one, to x_grad, and zeros in their places */
FUNC void FN(deform_add_patch)(FN(deform_state) *s)
{
    const ptrdiff_t plane = deform_cells(s->call);
    for (ptrdiff_t p = 0; p < s->count; p++)
        for (int q = 0; q < 4; q++)
            if (s->at[q][p]) {
                real *to = (real *)s->call->x_grad + FN(deform_cell)(s, q, p), *from = s->grad_band + s->at[q][p];
                for (ptrdiff_t k = 0; k < s->n; k++)
                    to[k * plane] += from[k];
                FN(deform_zero_cell)(from, s->padded);
            }
}

/* a block of a batch item on one strip: gradients of offset and mask, of x, or all */
FUNC void FN(deform_backward_strip)(FN(deform_state) *s, ptrdiff_t strip, int of_offset, int of_x)
{
    const deform_call *c = s->call;
    const ptrdiff_t bottom = deform_min((strip + 1) * c->rows, c->output[0]);
    for (ptrdiff_t row = strip * c->rows, end; row < bottom; row = end) {
        end = FN(deform_strip)(s, row, bottom);
        if (of_offset && !s->patch)
            FN(deform_load_band)(s);
        if (of_x)
            memset(s->grad_band, 0, (size_t)((s->patch ? c->band_cells : s->rows * c->size[1] + 1) * s->padded) * sizeof(real));
        for (ptrdiff_t p = row * c->output[1]; p < end * c->output[1]; p += DEFORM_ROWS) {
            FN(deform_places)(s, p, deform_min(DEFORM_ROWS, end * c->output[1] - p));
            for (ptrdiff_t tap = 0; tap < deform_taps(c); tap += c->taps) {
                const ptrdiff_t after = deform_min(tap + c->taps, deform_taps(c));
                if (c->depthwise)
                    FN(deform_column_grad_depthwise)(s, tap, after);
                else
                    FN(deform_column_grad)(s, tap, (after - tap) * s->n);
                for (ptrdiff_t t = tap; t < after; t++) {
                    const real *column = s->column + (t - tap) * s->n;
                    FN(deform_corners)(s, t);
                    if (of_offset && s->patch)
                        FN(deform_fetch)(s);
                    if (of_offset)
                        FN(deform_offset_grad)(s, t, column);
                    if (of_x)
                        FN(deform_scatter)(s, column);
                    if (of_x && s->patch)
                        FN(deform_add_patch)(s);
                }
            }
        }
        if (of_x && !s->patch)
            FN(deform_add_band)(s);
    }
}

INLINE void FN(deform_zero_planes)(FN(deform_state) *s)
{
    const ptrdiff_t plane = deform_cells(s->call);
    memset((real *)s->call->x_grad + (s->item * s->call->channels + s->first) * plane, 0, (size_t)(s->n * plane) * sizeof(real));
}

/* a block of a batch item: x_grad */
FUNC void FN(deform_backward_x)(const deform_call *c, ptrdiff_t task, void *memory)
{
    const ptrdiff_t blocks = c->last - c->first;
    FN(deform_state) s;
    FN(deform_begin)(&s, c, 1, memory);
    FN(deform_take)(&s, task / blocks, c->first + task % blocks);
    FN(deform_zero_planes)(&s);
    for (ptrdiff_t strip = 0; strip < c->strips; strip++)
        FN(deform_backward_strip)(&s, strip, 0, 1);
}

/* strips of an offset group of a batch item: offset_grad and mask_grad, and x_grad of the whole item with all its strips */
INLINE void FN(deform_backward_moved)(const deform_call *c, ptrdiff_t flat, ptrdiff_t low, ptrdiff_t high, int of_x, void *memory)
{
    const ptrdiff_t item = flat / c->offset_groups, group = flat % c->offset_groups, moved = deform_moved(c);
    const ptrdiff_t first = deform_max(c->first, deform_block_at(c, group * moved));
    const ptrdiff_t last = deform_min(c->last, deform_block_at(c, (group + 1) * moved));
    FN(deform_state) s;
    FN(deform_begin)(&s, c, 1, memory);
    for (ptrdiff_t block = first; block < last; block++) {
        FN(deform_take)(&s, item, block);
        if (of_x)
            FN(deform_zero_planes)(&s);
        for (ptrdiff_t strip = low; strip < high; strip++)
            FN(deform_backward_strip)(&s, strip, 1, of_x);
    }
}
FUNC void FN(deform_backward_both)(const deform_call *c, ptrdiff_t task, void *memory)
{
    FN(deform_backward_moved)(c, task, 0, c->strips, 1, memory);
}
FUNC void FN(deform_backward_offset)(const deform_call *c, ptrdiff_t task, void *memory)
{
    FN(deform_backward_moved)(c, task / c->strips, task % c->strips, task % c->strips + 1, 0, memory);
}

/* ---- gradient to the weight ---- */

/* piece [.] of unit (block, chunk, outputs): its partial sums [output][taps * channels] */
FUNC void FN(deform_backward_weight)(const deform_call *c, ptrdiff_t task, void *memory)
{
    const ptrdiff_t units = c->last - c->first, unit = c->first + task % units, piece = task / units;
    const ptrdiff_t m0 = unit % deform_output_parts(c) * DEFORM_OUTPUTS, flat = unit / deform_output_parts(c);
    const ptrdiff_t block = flat / c->chunks, tap = flat % c->chunks * c->taps;
    const ptrdiff_t after = deform_min(tap + c->taps, deform_taps(c)), strips = c->batch * c->strips;
    const ptrdiff_t outputs = deform_min(DEFORM_OUTPUTS, deform_outputs(c) - m0);
    real *partial = (real *)c->shared + task * deform_partial(c);
    FN(deform_state) s;
    FN(deform_begin)(&s, c, 1, memory);
    FN(deform_take)(&s, 0, block);
    const ptrdiff_t terms = (after - tap) * s.n;
    memset(partial, 0, (size_t)(c->depthwise ? (after - tap) * outputs * s.padded : outputs * terms) * sizeof(real));
    for (ptrdiff_t strip = piece * strips / c->pieces; strip < (piece + 1) * strips / c->pieces; strip++) {
        const ptrdiff_t top = strip % c->strips * c->rows, bottom = deform_min(top + c->rows, c->output[0]);
        s.item = strip / c->strips;
        for (ptrdiff_t row = top, end; row < bottom; row = end) {
            end = FN(deform_strip)(&s, row, bottom);
            if (!s.patch)
                FN(deform_load_band)(&s);
            for (ptrdiff_t p = row * c->output[1]; p < end * c->output[1]; p += DEFORM_ROWS) {
                FN(deform_places)(&s, p, deform_min(DEFORM_ROWS, end * c->output[1] - p));
                FN(deform_sample)(&s, tap, after);
                if (c->depthwise) {
                    FN(deform_weight_depthwise)(&s, after - tap, partial);
                    continue;
                }
                FN(deform_load_grad)(&s, m0, outputs);
                for (ptrdiff_t m = 0; m < outputs; m += GEMM_MR)
                    for (ptrdiff_t k = 0; k < terms; k += GEMM_NR)
                        FN(gemm_piece)(deform_min(GEMM_MR, outputs - m), deform_min(GEMM_NR, terms - k), s.count,
                                       s.sum + m * c->grad_ld, c->grad_ld, 1, s.column + k, c->ld,
                                       partial + m * terms + k, terms, 1, NULL, NULL);
            }
        }
    }
}

/* weight_grad of a unit: its pieces in order */
FUNC void FN(deform_sum_weight)(const deform_call *c, ptrdiff_t task)
{
    const ptrdiff_t units = c->last - c->first, unit = c->first + task, all = deform_taps(c), inputs = deform_inputs(c);
    const ptrdiff_t m0 = unit % deform_output_parts(c) * DEFORM_OUTPUTS, flat = unit / deform_output_parts(c);
    const ptrdiff_t block = flat / c->chunks, tap = flat % c->chunks * c->taps;
    const ptrdiff_t taps = deform_min(tap + c->taps, all) - tap, outputs = deform_min(DEFORM_OUTPUTS, deform_outputs(c) - m0);
    const ptrdiff_t first = c->starts[block], n = c->starts[block + 1] - first, group = first / inputs;
    const real *partial = (const real *)c->shared + task * deform_partial(c);
    if (c->depthwise) {
        FN(deform_sum_depthwise)(c, partial, units * deform_partial(c), block, tap, taps);
        return;
    }
    real *out = (real *)c->weight_grad + ((group * deform_outputs(c) + m0) * inputs + first - group * inputs) * all + tap;
    for (ptrdiff_t m = 0; m < outputs; m++)
        for (ptrdiff_t t = 0; t < taps; t++)
            for (ptrdiff_t k = 0; k < n; k++, partial++) {
                real sum = partial[0];
                for (ptrdiff_t piece = 1; piece < c->pieces; piece++)
                    sum += partial[piece * units * deform_partial(c)];
                out[(m * inputs + k) * all + t] = sum;
            }
}

/* ---- the tasks of a phase that a worker gets hold of ---- */
FUNC void FN(deform_work)(deform_call *c, int phase, void *memory)
{
    for (;;) {
        const ptrdiff_t task = __atomic_fetch_add(&c->next, 1, __ATOMIC_RELAXED);
        if (task >= c->tasks)
            return;
        switch (phase) {
        case DEFORM_PACK: (c->depthwise ? FN(deform_pack_depthwise) : FN(deform_pack))(c, c->first + task); break;
        case DEFORM_FORWARD: (c->depthwise ? FN(deform_forward_depthwise) : FN(deform_forward))(c, task, memory); break;
        case DEFORM_PACK_TURNED: (c->depthwise ? FN(deform_pack_depthwise) : FN(deform_pack_turned))(c, c->first + task); break;
        case DEFORM_BOTH: FN(deform_backward_both)(c, task, memory); break;
        case DEFORM_OFFSET: FN(deform_backward_offset)(c, task, memory); break;
        case DEFORM_X: FN(deform_backward_x)(c, task, memory); break;
        case DEFORM_WEIGHT: FN(deform_backward_weight)(c, task, memory); break;
        case DEFORM_SUM: FN(deform_sum_weight)(c, task); break;
        }
    }
}
