/* matmul.h: matrix products of any shape and strides, batched and summed, cut into tasks; on gemm.h.
 *
 * One product C[M,N] = A[M,K] B[K,N] + bias takes a path by shape (and by layout, where that changes no bit), as it is or
 * as the product of the transposed matrices:
 *
 *   dot      a matrix times one vector. Sums in an order of their own (see DOT_K)
 *   short    K <= PRODUCT_SHORT_K: tiles straight from A; small products, outer products
 *   stream   M or N <= 8: the large operand is read once, in the order in which it lies, unless tiles can read it in place
 *   gemm     all else
 *
 * Except for dot, which is chosen by shape alone, all of them add up in the order of gemm.h, so the bits do not tell
 * which one it was.
 *
 * An activation of the result is taken of gemm's tiles while they are in the cache, of the other paths' results at the end.
 *
 * A batch is a product an item, parallel over items or within each. Axes of the batch may be summed: they become part of
 * K, so a gradient over a broadcast axis is never materialised unsummed.
 */
#ifndef CPUOPS_MATMUL_H
#define CPUOPS_MATMUL_H
#include "gemm.h"
#include "activate.h"

enum { PRODUCT_DOT, PRODUCT_SHORT, PRODUCT_STREAM, PRODUCT_GEMM };
#define PRODUCT_SHORT_K 128
#define PRODUCT_STREAM_ROWS 8
#define STREAM_BYTES 6000000 /* of the large operand: beyond, reading it is what takes the time */
#define PRODUCT_AXES 64 /* NumPy's most */

/* the items of a batch, and how they are worked off */
typedef struct {
    int axes; /* of the batch: lengths, and steps in elements */
    ptrdiff_t length[PRODUCT_AXES], step_a[PRODUCT_AXES], step_b[PRODUCT_AXES];
    ptrdiff_t items;
    ptrdiff_t block; /* items a task, or 0: parallel within an item */
    ptrdiff_t phases, slots;
    size_t scratch_bytes;
    Tasks queue; /* of the running phase */
} product_batch;

#define REAL_BODY "matmul_product_real.h"
#include "for_each_real.h"
#define REAL_BODY "matmul_dot_real.h"
#include "for_each_real.h"
#define REAL_BODY "matmul_narrow_real.h"
#include "for_each_real.h"
#define REAL_BODY "matmul_real.h"
#include "for_each_real.h"

/* ---- NumPy's matmul, for the Cython side ---- */

/* an operand as NumPy has it: strides in bytes, whole elements */
typedef struct {
    void *data;
    int ndim;
    const ptrdiff_t *dims, *strides;
} matmul_operand;

typedef struct {
    product_batch batch;
    int is_f64;
    union {
        product_f32 f32;
        product_f64 f64;
    } p;
    int sum_axes; /* of the batch, summed, that are no plain part of K */
    ptrdiff_t sum_length[PRODUCT_AXES], sum_a[PRODUCT_AXES], sum_b[PRODUCT_AXES];
    ptrdiff_t sums; /* summed items an item */
    size_t table_bytes;
    void *scratch; /* table_bytes + batch.scratch_bytes, 64-byte aligned */
} matmul_job;

/* length and step of axis `axis`, from the left, of a batch of nb axes */
static inline ptrdiff_t matmul_axis(const matmul_operand *x, int axis, int nb, ptrdiff_t size, ptrdiff_t *step)
{
    int at = axis - nb + x->ndim - 2;
    *step = 0;
    if (at < 0 || x->dims[at] == 1)
        return 1;
    *step = x->strides[at] / size;
    return x->dims[at];
}

/* one more axis, or a longer last one where both operands step on evenly; returns the number of axes */
static inline int matmul_append(int axes, ptrdiff_t *length, ptrdiff_t *step_a, ptrdiff_t *step_b, ptrdiff_t n, ptrdiff_t a, ptrdiff_t b)
{
    if (n == 1)
        return axes;
    if (axes && step_a[axes - 1] == n * a && step_b[axes - 1] == n * b) {
        length[axes - 1] *= n;
        step_a[axes - 1] = a;
        step_b[axes - 1] = b;
        return axes;
    }
    length[axes] = n;
    step_a[axes] = a;
    step_b[axes] = b;
    return axes + 1;
}

/* c (C-contiguous) = a @ b by NumPy's rules, + bias on the last axis unless NULL. Batch axes whose bit, counted from the
 * left, is set in `summed` are summed away. An activation of c goes `apart` elements from it. Fills in w up to the scratch */
static void matmul_plan(matmul_job *w, int is_f64, const matmul_operand *a, const matmul_operand *b, void *c, const void *bias,
                        uint64_t summed, int activation, ptrdiff_t apart, int num_threads)
{
    const ptrdiff_t size = is_f64 ? 8 : 4;
    const int nb = (a->ndim > b->ndim ? a->ndim : b->ndim) - 2;
    ptrdiff_t m = a->ndim > 1 ? a->dims[a->ndim - 2] : 1, ars = a->ndim > 1 ? a->strides[a->ndim - 2] / size : 0;
    ptrdiff_t n = b->ndim > 1 ? b->dims[b->ndim - 1] : 1, brs = b->ndim > 1 ? b->strides[b->ndim - 1] / size : 0;
    ptrdiff_t inner = a->dims[a->ndim - 1], aks = a->strides[a->ndim - 1] / size;
    ptrdiff_t bks = b->strides[b->ndim > 1 ? b->ndim - 2 : 0] / size;
    product_batch *t = &w->batch;
    int one_b = 1, one_b_shape = 1; /* every item has the same B: in memory; by its shape */
    t->axes = w->sum_axes = 0;
    t->items = w->sums = 1;
    for (int axis = 0; axis < nb; axis++) {
        ptrdiff_t sa, sb, la = matmul_axis(a, axis, nb, size, &sa), lb = matmul_axis(b, axis, nb, size, &sb);
        ptrdiff_t length = la == 1 ? lb : la;
        if (summed >> axis & 1) {
            w->sums *= length;
            w->sum_axes = matmul_append(w->sum_axes, w->sum_length, w->sum_a, w->sum_b, length, sa, sb);
        } else {
            t->items *= length;
            t->axes = matmul_append(t->axes, t->length, t->step_a, t->step_b, length, sa, sb);
            one_b &= length == 1 || sb == 0;
            one_b_shape &= lb == 1;
        }
    }
    /* a vector times one matrix an item is a dot by shape; rows times the same matrix are not, however they lie */
    const int vector = n == 1 || (m == 1 && !(one_b_shape && t->items > 1));
    if (t->axes == 1 && one_b && t->items && (m == 1 ? !vector : t->step_a[0] == m * ars)) {
        /* items with one B, whose rows follow on one another: one product of more rows */
        ars = m == 1 ? t->step_a[0] : ars;
        m *= t->items;
        t->items = 1;
        t->axes = 0;
    }
    if (w->sum_axes == 1 && (inner == 1 || (w->sum_a[0] == inner * aks && w->sum_b[0] == inner * bks))) {
        /* summed items that lie as if K were longer */
        aks = inner == 1 ? w->sum_a[0] : aks;
        bks = inner == 1 ? w->sum_b[0] : bks;
        w->sum_axes = 0;
    }
    ptrdiff_t k = inner * w->sums;
    if (k == 0)
        w->sum_axes = 0;
    if (k == 1) /* an axis of one cell may have any stride: one that suits */
        aks = bks = 1;
    if (n == 1)
        brs = 1;
    w->is_f64 = is_f64;
    w->table_bytes = w->sum_axes ? ((size_t)w->sums * 2 * sizeof(ptrdiff_t) + 63) / 64 * 64 : 0;
    static const ptrdiff_t to_come[1] = {0}; /* there is a table, but no memory for it yet */
    const ptrdiff_t *table = w->sum_axes ? to_come : NULL;
    if (is_f64) {
        w->p.f64 = (product_f64){.m = m, .n = n, .k = k, .a = {a->data, ars, aks, inner, table}, .b = {b->data, brs, bks, inner, table}, .c = c, .crs = n, .ccs = 1, .bias = bias, .activation = activation, .apart = apart, .bcs = 1, .vector = vector};
        batch_plan_f64(t, &w->p.f64, num_threads);
    } else {
        w->p.f32 = (product_f32){.m = m, .n = n, .k = k, .a = {a->data, ars, aks, inner, table}, .b = {b->data, brs, bks, inner, table}, .c = c, .crs = n, .ccs = 1, .bias = bias, .activation = activation, .apart = apart, .bcs = 1, .vector = vector};
        batch_plan_f32(t, &w->p.f32, num_threads);
    }
}

/* once w->scratch is set */
static void matmul_ready(matmul_job *w)
{
    ptrdiff_t *ta = NULL, *tb = NULL;
    void *rest = (char *)w->scratch + w->table_bytes;
    if (w->sum_axes) {
        ta = (ptrdiff_t *)w->scratch;
        tb = ta + w->sums;
        for (ptrdiff_t item = 0; item < w->sums; item++) {
            ptrdiff_t left = item;
            ta[item] = tb[item] = 0;
            for (int axis = w->sum_axes - 1; axis >= 0; axis--) {
                ptrdiff_t i = left % w->sum_length[axis];
                left /= w->sum_length[axis];
                ta[item] += i * w->sum_a[axis];
                tb[item] += i * w->sum_b[axis];
            }
        }
    }
    if (w->is_f64) {
        w->p.f64.scratch = rest;
        w->p.f64.a.table = w->p.f64.flipped ? tb : ta;
        w->p.f64.b.table = w->p.f64.flipped ? ta : tb;
    } else {
        w->p.f32.scratch = rest;
        w->p.f32.a.table = w->p.f32.flipped ? tb : ta;
        w->p.f32.b.table = w->p.f32.flipped ? ta : tb;
    }
}

static void matmul_begin(matmul_job *w, ptrdiff_t phase)
{
    if (w->is_f64)
        batch_begin_f64(&w->batch, &w->p.f64, phase);
    else
        batch_begin_f32(&w->batch, &w->p.f32, phase);
}

static void matmul_work(matmul_job *w, ptrdiff_t phase, ptrdiff_t slot)
{
    if (w->is_f64)
        batch_work_f64(&w->batch, &w->p.f64, phase, slot);
    else
        batch_work_f32(&w->batch, &w->p.f32, phase, slot);
}

/* cells [lo, hi) of a result whose tiles were not activated */
static void matmul_activate(const matmul_job *w, ptrdiff_t lo, ptrdiff_t hi)
{
    if (w->is_f64)
        activate_f64(w->p.f64.activation, w->p.f64.c + lo, w->p.f64.c + lo + w->p.f64.apart, 1, hi - lo, 0);
    else
        activate_f32(w->p.f32.activation, w->p.f32.c + lo, w->p.f32.c + lo + w->p.f32.apart, 1, hi - lo, 0);
}

static int matmul_tiles(const matmul_job *w) { return (w->is_f64 ? w->p.f64.path : w->p.f32.path) == PRODUCT_GEMM; }

/* about equal tasks that the threads share, within an item or over the items */
static ptrdiff_t matmul_shares(const matmul_job *w)
{
    const product_batch *t = &w->batch;
    if (!t->phases || t->block)
        return t->block ? (t->items + t->block - 1) / t->block : 0;
    if (matmul_tiles(w))
        return w->is_f64 ? gemm_shares_f64(&w->p.f64.job) : gemm_shares_f32(&w->p.f32.job);
    return w->is_f64 ? product_tasks_f64(&w->p.f64, 0) : product_tasks_f32(&w->p.f32, 0);
}

static void matmul_serial(const matmul_job *w)
{
    if (w->is_f64)
        batch_serial_f64(&w->batch, &w->p.f64);
    else
        batch_serial_f32(&w->batch, &w->p.f32);
}
#endif
