/* ctc.h: connectionist temporal classification (Graves et al. 2006), loss and gradient.
 *
 * A sample has T frames and L labels, and states that alternate blank 0, label 0, blank 1, ..., label L-1, blank L. They are
 * kept apart, so that a vector holds neighbours of one kind. With e the probabilities of a frame, and skip_i true where
 * label i differs from label i-1 (and i > 0):
 *
 *   alpha   blank_i' = e_blank u_i,  u_i = blank_i + label_(i-1)
 *           label_i' = e_i (label_i + (skip_i ? u_i : blank_i))        from blank_0 = 1, all else 0, before frame 0
 *   loss    -log P,  P = blank_L + label_(L-1)
 *   beta    of y = beta e of the frame after:  blank_i' = v_i = y_blank_i + y_label_i
 *           label_i' = y_label_i + (skip_(i+1) ? v_(i+1) : y_blank_(i+1))    from y_blank_L = 1, all else 0
 *   grad    g (exp(e_c) - sum of alpha beta / P over the states of class c)
 *
 * All of it is in log space to base 2, with the fraction of the logarithm kept as a number: a state is m 2^e with its own
 * exponent e, a whole number in double, and a mantissa m in double, whatever the operand's type. A sum shifts one mantissa
 * and adds, where logarithms would take an exponential and a logarithm of it; nothing underflows, and what rounds is the
 * mantissa, so that a loss of a thousand is as exact as one of one. A probability of 0 is m = 0, e = CTC_NEVER. A factor of
 * a frame lies in 0.7 ... 1.5 and a sum at most trebles, so mantissas are brought back to 1 ... 2 every CTC_OFTEN frames only.
 *
 * A worker takes whole samples; nothing of one sample meets another. The gradient's alpha table is of `segment` frames: of
 * all of them where that takes CTC_TABLE_BYTES at most, else of some sqrt(T) after each of as many rows that are kept, from
 * which a segment is computed again.
 */
#ifndef CPUOPS_CTC_H
#define CPUOPS_CTC_H
#include "simd.h"
#include "vmath.h"
#include "wide.h"

enum {
    CTC_LANES = 8,             /* widths are multiples of every level's lanes */
    CTC_OFTEN = 16,            /* frames: mantissas stay below 2^36 */
    CTC_TABLE_BYTES = 8 << 20  /* of a worker */
};
#define CTC_NEVER (-1e300) /* below every exponent that a frame can lead to, and far enough from overflow */
#define CTC_LOWEST (-1e280) /* a finite log-probability below counts as this */
#define CTC_EXACT (-1e9)    /* log-probabilities below have no digit of a mantissa left */

typedef struct {
    const void *log_probs, *grad;
    const int64_t *targets, *frames, *lengths;
    void *out;
    ptrdiff_t batch, classes, longest; /* N, C, S */
    int64_t blank;
    int zero_infinity;
    ptrdiff_t segment, kept; /* frames of the table; rows that are kept beside it */
    ptrdiff_t width, each;   /* of the longest target; doubles of a worker */
    ptrdiff_t next;          /* the first sample that no worker has taken */
    double *memory;
} ctc_plan;

/* states of one kind, or factors: their mantissas and exponents */
typedef struct {
    double *m, *e;
} ctc_states;

typedef struct {
    vec_f64 m, e;
} ctc_numbers;

/* cells of a kind of a sample with that many labels: labels + 1 blanks, in whole vectors */
INLINE ptrdiff_t ctc_width(ptrdiff_t labels) { return (labels + CTC_LANES) / CTC_LANES * CTC_LANES; }

/* a row holds blanks and labels; before label 0 and behind the last blank there is a vector of never */
INLINE ptrdiff_t ctc_row(ptrdiff_t width) { return 4 * width + 4 * CTC_LANES; }
INLINE ctc_states ctc_blanks(double *row, ptrdiff_t width) { return (ctc_states){row, row + width + CTC_LANES}; }
INLINE ctc_states ctc_labels(double *row, ptrdiff_t width)
{
    double *m = row + 2 * width + 3 * CTC_LANES;
    return (ctc_states){m, m + width + CTC_LANES};
}

INLINE void ctc_fill(double *to, double value, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        to[i] = value;
}

/* a row of never: cells of mantissas and of exponents take turns, with their margins */
INLINE void ctc_clear(double *row, ptrdiff_t width)
{
    ptrdiff_t n = width + CTC_LANES;
    ctc_fill(row, 0, n);
    ctc_fill(row + n, CTC_NEVER, n);
    ctc_fill(row + 2 * n, 0, n);
    ctc_fill(row + 3 * n, CTC_NEVER, n);
}

/* the memory of a worker, for samples of at most `labels` labels and `frames` frames */
static void ctc_cut(ctc_plan *p, ptrdiff_t labels, ptrdiff_t frames, int gradient)
{
    p->width = ctc_width(labels);
    ptrdiff_t row = ctc_row(p->width);
    p->segment = p->kept = 0;
    if (gradient) {
        p->segment = frames > 0 ? frames : 1;
        if (p->segment > CTC_TABLE_BYTES / (ptrdiff_t)sizeof(double) / row)
            p->segment = (ptrdiff_t)ceil(sqrt((double)frames));
        p->kept = (frames + p->segment - 1) / p->segment;
    }
    /* two rows at hand; skip and the factors; and of the gradient a row of classes */
    p->each = row * (2 + p->segment + p->kept) + 4 * (p->width + CTC_LANES);
    if (gradient)
        p->each += (p->classes + CTC_LANES - 1) / CTC_LANES * CTC_LANES;
    p->next = 0;
}

INLINE ctc_numbers ctc_load(ctc_states s, ptrdiff_t i) { return (ctc_numbers){vload_f64(s.m + i), vload_f64(s.e + i)}; }
INLINE void ctc_store(ctc_states s, ptrdiff_t i, ctc_numbers a)
{
    vstore_f64(s.m + i, a.m);
    vstore_f64(s.e + i, vsel_f64(veq_f64(a.m, vzero_f64()), vset_f64(CTC_NEVER), a.e));
}

/* 2^n for whole n up to 1023; 0 far below */
INLINE vec_f64 ctc_power(vec_f64 n) { return vm_pow2_f64(vmax_fast_f64(n, vset_f64(-1023))); }

INLINE ctc_numbers ctc_add(ctc_numbers a, ctc_numbers b)
{
    vec_f64 d = a.e - b.e;
    vmask_f64 first = vge_f64(d, vzero_f64());
    vec_f64 high = vsel_f64(first, a.m, b.m), low = vsel_f64(first, b.m, a.m);
    return (ctc_numbers){vfma_f64(low, ctc_power(-vabs_f64(d)), high), vsel_f64(first, a.e, b.e)};
}

INLINE ctc_numbers ctc_times(ctc_numbers a, ctc_numbers b) { return (ctc_numbers){a.m * b.m, a.e + b.e}; }

INLINE ctc_numbers ctc_choose(const double *which, ctc_numbers a, ctc_numbers b)
{
    vmask_f64 m = vgt_f64(vload_f64(which), vzero_f64());
    return (ctc_numbers){vsel_f64(m, a.m, b.m), vsel_f64(m, a.e, b.e)};
}

/* exp(x), with the mantissa in 0.7 ... 1.5 */
INLINE ctc_numbers ctc_exp(vec_f64 x)
{
    vec_f64 n, low = vmax_fast_f64(vset_f64(CTC_LOWEST), x), r = vm_exp_reduce_f64(vmax_fast_f64(vset_f64(CTC_EXACT), low), &n, NULL);
    vec_f64 m = vm_exp_m1_f64(r) + vset_f64(1);
    vmask_f64 tiny = vlt_f64(low, vset_f64(CTC_EXACT)), normal = vlt_f64(vabs_f64(x), vset_f64((double)INFINITY));
    n = vsel_f64(tiny, vround_f64(low * vset_f64(1.4426950408889634)), n);
    m = vsel_f64(tiny, vset_f64(1), m);
    /* 0 of -inf; infinity and NaN stay what they are */
    vec_f64 other = vsel_f64(vlt_f64(x, vzero_f64()), vzero_f64(), x);
    return (ctc_numbers){vsel_f64(normal, m, other), vsel_f64(normal, n, vzero_f64())};
}

/* the same for one number */
INLINE ctc_numbers ctc_lane(ctc_states s, ptrdiff_t i) { return (ctc_numbers){vset_f64(s.m[i]), vset_f64(s.e[i])}; }

/* mantissas back to 1 ... 2 */
INLINE void ctc_normalise(ctc_states s, ptrdiff_t width)
{
    for (ptrdiff_t i = 0; i < width; i += LANES_f64) {
        ctc_numbers a = ctc_load(s, i);
        vm_bits_f64 bits = (vm_bits_f64)a.m, magic = (vm_bits_f64)vset_f64(4503599627370496.0); /* 2^52 */
        vec_f64 up = (vec_f64)((bits >> 52) | magic) - vset_f64(4503599627370496.0 + 1023);
        vec_f64 m = (vec_f64)((bits & ((((vm_bits_f64){0} + 1) << 52) - 1)) | (vm_bits_f64)vset_f64(1));
        vmask_f64 good = mand_f64(vgt_f64(a.m, vzero_f64()), vlt_f64(a.m, vset_f64((double)INFINITY)));
        vstore_f64(s.m + i, vsel_f64(good, m, a.m));
        vstore_f64(s.e + i, vsel_f64(good, a.e + up, a.e));
    }
}

/* one frame of alpha: `to` from the frame before */
FUNC void ctc_alpha(double *from, double *to, const double *skip, ctc_states factors, ctc_numbers blank_factor, ptrdiff_t width)
{
    ctc_states blanks = ctc_blanks(from, width), labels = ctc_labels(from, width);
    ctc_states to_blanks = ctc_blanks(to, width), to_labels = ctc_labels(to, width);
    to_labels.m[-1] = 0;
    to_labels.e[-1] = CTC_NEVER;
    for (ptrdiff_t i = 0; i < width; i += LANES_f64) {
        ctc_numbers blank = ctc_load(blanks, i), u = ctc_add(blank, ctc_load(labels, i - 1));
        ctc_numbers w = ctc_add(ctc_load(labels, i), ctc_choose(skip + i, u, blank));
        ctc_store(to_blanks, i, ctc_times(u, blank_factor));
        ctc_store(to_labels, i, ctc_times(w, ctc_load(factors, i)));
    }
}

/* one frame of beta, in place: y becomes beta e, and `posterior` what the states of each label weigh in the frame; the blanks'
 * total is returned. v: a row for blanks; share: 1 / P */
FUNC double ctc_beta(double *y, double *alpha, const double *skip, ctc_states factors, ctc_numbers blank_factor, ctc_numbers share,
                     double *v_row, double *posterior, ptrdiff_t width)
{
    ctc_states blanks = ctc_blanks(y, width), labels = ctc_labels(y, width), v = ctc_blanks(v_row, width);
    ctc_states alpha_blanks = ctc_blanks(alpha, width), alpha_labels = ctc_labels(alpha, width);
    for (ptrdiff_t i = 0; i < width; i += LANES_f64)
        ctc_store(v, i, ctc_add(ctc_load(blanks, i), ctc_load(labels, i)));
    vec_f64 total = vzero_f64();
    for (ptrdiff_t i = 0; i < width; i += LANES_f64) {
        ctc_numbers blank = ctc_load(v, i);
        ctc_numbers next = ctc_choose(skip + i + 1, ctc_load(v, i + 1), ctc_load(blanks, i + 1));
        ctc_numbers label = ctc_add(ctc_load(labels, i), next);
        ctc_numbers a = ctc_times(ctc_load(alpha_blanks, i), blank), b = ctc_times(ctc_load(alpha_labels, i), label);
        total += a.m * share.m * ctc_power(a.e + share.e);
        vstore_f64(posterior + i, b.m * share.m * ctc_power(b.e + share.e));
        ctc_store(blanks, i, ctc_times(blank, blank_factor));
        ctc_store(labels, i, ctc_times(label, ctc_load(factors, i)));
    }
    return whsum(total);
}

#define REAL_BODY "ctc_real.h"
#include "for_each_real.h"
#endif
