/* reduce_real.h: what has been seen of each column, and the tasks, for one scalar type. Included by reduce.h only. */

INLINE void FN(begin)(SeenTile *t, ptrdiff_t width, int op, int64_t first, ptrdiff_t fold_width)
{
    int argument = op == REDUCE_ARGMAX || op == REDUCE_ARGMIN, largest = op == REDUCE_MAX || op == REDUCE_ARGMAX;
    real m = op == REDUCE_LOGSUMEXP ? -REAL_MAX : largest ? -(real)INFINITY : (real)INFINITY;
    double sum = op == REDUCE_SUM ? -0.0 : 0.0;
    if (op != REDUCE_SUM)
        for (ptrdiff_t c = 0; c < width; c++)
            t->m[c] = m;
    if (argument)
        for (ptrdiff_t slot = 0; slot * fold_width < width; slot++)
            for (ptrdiff_t c = slot * fold_width; c < least(width, (slot + 1) * fold_width); c++)
                t->index[c] = first + slot;
    else
        for (ptrdiff_t c = 0; c < width; c++)
            t->sum[c] = sum;
}

/* column a of one state takes in column b of another */
INLINE void FN(merge)(SeenTile *to, ptrdiff_t a, const SeenTile *from, ptrdiff_t b, int op)
{
    real p = to->m[a], q = from->m[b];
    switch (op) {
    case REDUCE_SUM:
        to->sum[a] += from->sum[b];
        break;
    case REDUCE_MAX:
        to->m[a] = p != p || (p > q) ? p : q;
        break;
    case REDUCE_MIN:
        to->m[a] = p != p || (p < q) ? p : q;
        break;
    case REDUCE_LOGSUMEXP:
        if (q > p) {
            to->sum[a] = to->sum[a] == 0 ? from->sum[b] : to->sum[a] * exp_one((double)p - q) + from->sum[b];
            to->m[a] = q;
        } else if (from->sum[b] != 0)
            to->sum[a] += q == p ? from->sum[b] : from->sum[b] * exp_one((double)q - p);
        break;
    default: {
        int same = p == q || (p != p && q != q), wins = op == REDUCE_ARGMAX ? q > p : q < p;
        if (wins || (q != q && p == p) || (same && from->index[b] < to->index[a])) {
            to->m[a] = q;
            to->index[a] = from->index[b];
        }
    }
    }
}

/* `rows` rows of a tile, first index and stride as in index_tile */
INLINE void FN(take_tile)(SeenTile *t, int op, const real *x, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step, int64_t first,
                          ptrdiff_t stride, ptrdiff_t fold_width)
{
    switch (op) {
    case REDUCE_SUM:
        FN(sum_tile)(t, x, rows, width, step);
        break;
    case REDUCE_MAX:
        FN(max_tile)(t, x, rows, width, step);
        break;
    case REDUCE_MIN:
        FN(min_tile)(t, x, rows, width, step);
        break;
    case REDUCE_ARGMAX:
        FN(argmax_tile)(t, x, rows, width, step, first, stride, fold_width);
        break;
    case REDUCE_ARGMIN:
        FN(argmin_tile)(t, x, rows, width, step, first, stride, fold_width);
        break;
    default:
        FN(logsumexp_tile)(t, x, rows, width, step);
    }
}

/* rows lo..hi of the reduced axes, flat, in one tile of columns that begins at x */
INLINE void FN(take)(SeenTile *t, const Reduction *p, int op, const real *x, ptrdiff_t tile, ptrdiff_t lo, ptrdiff_t hi)
{
    ptrdiff_t fold = most(1, least(REDUCE_FOLD / tile, p->rows)), wide = fold * tile;
    if (tile < p->width) {
        fold = 1;
        wide = tile;
    }
    FN(begin)(t, wide, op, lo, tile);
    for (ptrdiff_t at = lo; at < hi;) {
        ptrdiff_t segment = at / p->rows, row = at % p->rows, n = least(hi - at, p->rows - row);
        const real *s = x + reduced_at(p, segment) + row * p->width;
        ptrdiff_t whole = n / fold, left = n % fold, step = fold * p->width;
        /* whole rows of the folded matrix, then the beginning of one more */
        FN(take_tile)(t, op, s, whole, wide, step, at, fold, tile);
        if (left)
            FN(take_tile)(t, op, s + whole * step, 1, left * tile, step, at + whole * fold, fold, tile);
        at += n;
    }
    for (ptrdiff_t c = tile; c < wide; c++)
        FN(merge)(t, c % tile, t, c, op);
}

/* the same for width 1, where the rows are runs, into column j of an empty state */
INLINE void FN(take_runs)(SeenTile *t, ptrdiff_t j, const Reduction *p, int op, const real *x, ptrdiff_t lo, ptrdiff_t hi)
{
    for (ptrdiff_t at = lo; at < hi;) {
        ptrdiff_t segment = at / p->rows, row = at % p->rows, n = least(hi - at, p->rows - row);
        const real *s = x + reduced_at(p, segment) + row;
        real m;
        switch (op) {
        case REDUCE_SUM:
            t->sum[j] += sum_run(s, n);
            break;
        case REDUCE_MAX:
            m = extreme_run(s, n, 0);
            t->m[j] = t->m[j] != t->m[j] || t->m[j] > m ? t->m[j] : m;
            break;
        case REDUCE_MIN:
            m = extreme_run(s, n, 1);
            t->m[j] = t->m[j] != t->m[j] || t->m[j] < m ? t->m[j] : m;
            break;
        case REDUCE_LOGSUMEXP:
            logsumexp_run(s, n, t->m + j, t->sum + j);
            break;
        default:
            /* a run at a time, so that its places fit the lanes */
            for (ptrdiff_t i = 0; i < n; i += REDUCE_RUN) {
                ptrdiff_t k = least(n - i, REDUCE_RUN);
                ptrdiff_t place = op == REDUCE_ARGMAX ? FN(place_max)(s + i, k, &m) : FN(place_min)(s + i, k, &m);
                int wins = op == REDUCE_ARGMAX ? m > t->m[j] : m < t->m[j];
                if (wins || (m != m && t->m[j] == t->m[j])) {
                    t->m[j] = m;
                    t->index[j] = at + i + place;
                }
            }
        }
        at += n;
    }
}

/* outputs of one tile: `out` is real, or int64 for the indices; with `sums`, LOGSUMEXP gives m and sum apart */
FUNC void FN(finish)(const SeenTile *t, ptrdiff_t tile, ptrdiff_t at, int op, double divisor, int none, void *out, double *sums)
{
    real *to = (real *)out + at;
    if (op == REDUCE_SUM && none)
        for (ptrdiff_t c = 0; c < tile; c++)
            to[c] = (real)(0.0 / divisor);
    else if (op == REDUCE_SUM && divisor == 1)
        for (ptrdiff_t c = 0; c < tile; c++)
            to[c] = (real)t->sum[c];
    else if (op == REDUCE_SUM)
        for (ptrdiff_t c = 0; c < tile; c++)
            to[c] = (real)(t->sum[c] / divisor);
    else if (op == REDUCE_MAX || op == REDUCE_MIN || (op == REDUCE_LOGSUMEXP && sums))
        memcpy(to, t->m, (size_t)tile * sizeof(real));
    else if (op == REDUCE_LOGSUMEXP)
        for (ptrdiff_t c = 0; c < tile; c += LANES_f64) {
            ptrdiff_t k = least(tile - c, LANES_f64);
            double log_sum[LANES_f64] __attribute__((aligned(64)));
            vstore_f64(log_sum, vlog_f64(vload_n_f64(t->sum + c, k)));
            for (ptrdiff_t i = 0; i < k; i++)
                to[c + i] = (real)((double)t->m[c + i] + log_sum[i]);
        }
    else
        memcpy((int64_t *)out + at, t->index, (size_t)tile * sizeof(int64_t));
    if (op == REDUCE_LOGSUMEXP && sums)
        memcpy(sums + at, t->sum, (size_t)tile * sizeof(double));
}

FUNC void FN(take_cell)(SeenTile *t, const Reduction *p, int op, const real *x, ptrdiff_t cell, ptrdiff_t part)
{
    ptrdiff_t o = cell / p->tiles, column = cell % p->tiles * REDUCE_TILE, tile = least(p->width - column, REDUCE_TILE);
    ptrdiff_t length = p->segments * p->rows, size = cut(length, p->parts);
    ptrdiff_t lo = least(length, part * size), hi = least(length, lo + size);
    const real *base = x + kept_at(p, o) + column;
    if (p->width == 1) {
        FN(begin)(t, 1, op, lo, 1);
        FN(take_runs)(t, 0, p, op, base, lo, hi);
    } else
        FN(take)(t, p, op, base, tile, lo, hi);
}

/* One task of small matrices: as many as fit are laid side by side, so that all their columns go together. */
INLINE void FN(reduce_short)(SeenTile *t, const Reduction *p, int op, const real *x, void *out, double *sums, double divisor,
                             ptrdiff_t task)
{
    real beside[REDUCE_BESIDE];
    ptrdiff_t w = p->width, end = least(p->cells, (task + 1) * p->share);
    ptrdiff_t most_cells = least(REDUCE_FOLD, REDUCE_BESIDE / most(1, p->rows)) / w;
    for (ptrdiff_t cell = task * p->share; cell < end; cell += most_cells) {
        ptrdiff_t cells = least(end - cell, most_cells), wide = cells * w;
        /* where there is one matrix a cell, they follow one another */
        const real *from = x + cell * p->rows * w;
        if (w == 1)
            for (ptrdiff_t r = 0; r < p->rows; r++)
                for (ptrdiff_t i = 0; i < cells; i++)
                    beside[r * wide + i] = from[i * p->rows + r];
        else
            for (ptrdiff_t i = 0; i < cells; i++, from += p->rows * w)
                for (ptrdiff_t r = 0; r < p->rows; r++)
                    for (ptrdiff_t c = 0; c < w; c++)
                        beside[r * wide + i * w + c] = from[r * w + c];
        FN(begin)(t, wide, op, 0, wide);
        FN(take_tile)(t, op, beside, p->rows, wide, wide, 0, 1, wide);
        FN(finish)(t, wide, cell * w, op, divisor, p->rows == 0, out, sums);
    }
}

/* One task. Where cells are cut (parts > 1), it leaves a state of its own in `states`, which reduce_merge gathers; tiles of the same
 * rows follow each other, as they do in memory. */
FUNC void FN(reduce_task)(const Reduction *p, int op, const real *x, void *out, double *sums, double divisor, void *states,
                          ptrdiff_t task)
{
    if (p->parts > 1) {
        ptrdiff_t rows = task / p->tiles, part = rows % p->parts, cell = rows / p->parts * p->tiles + task % p->tiles;
        FN(take_cell)((SeenTile *)states + cell * p->parts + part, p, op, x, cell, part);
        return;
    }
    SeenTile t;
    int none = p->segments * p->rows == 0;
    if (p->segments == 1 && p->rows <= REDUCE_SHORT && p->width <= REDUCE_FOLD / 2) {
        FN(reduce_short)(&t, p, op, x, out, sums, divisor, task);
        return;
    }
    ptrdiff_t end = least(p->cells, (task + 1) * p->share);
    if (p->width == 1) {
        for (ptrdiff_t cell = task * p->share; cell < end; cell += REDUCE_FOLD) {
            ptrdiff_t cells = least(end - cell, REDUCE_FOLD);
            FN(begin)(&t, cells, op, 0, cells);
            for (ptrdiff_t j = 0; j < cells; j++)
                FN(take_runs)(&t, j, p, op, x + kept_at(p, cell + j), 0, p->segments * p->rows);
            FN(finish)(&t, cells, cell, op, divisor, none, out, sums);
        }
        return;
    }
    for (ptrdiff_t cell = task * p->share; cell < end; cell++) {
        ptrdiff_t column = cell % p->tiles * REDUCE_TILE;
        FN(take_cell)(&t, p, op, x, cell, 0);
        FN(finish)(&t, least(p->width - column, REDUCE_TILE), cell / p->tiles * p->width + column, op, divisor, none, out, sums);
    }
}

FUNC void FN(reduce_merge)(const Reduction *p, int op, void *out, double *sums, double divisor, void *states)
{
    for (ptrdiff_t cell = 0; cell < p->cells; cell++) {
        ptrdiff_t column = cell % p->tiles * REDUCE_TILE, tile = least(p->width - column, REDUCE_TILE);
        SeenTile *t = (SeenTile *)states + cell * p->parts;
        for (ptrdiff_t part = 1; part < p->parts; part++)
            if (op == REDUCE_SUM)
                for (ptrdiff_t c = 0; c < tile; c++) /* a loop of its own is in vectors */
                    t->sum[c] += t[part].sum[c];
            else
                for (ptrdiff_t c = 0; c < tile; c++)
                    FN(merge)(t, c, t + part, c, op);
        FN(finish)(t, tile, cell / p->tiles * p->width + column, op, divisor, 0, out, sums);
    }
}
FUNC size_t FN(reduce_state_size)(void) { return sizeof(SeenTile); }
