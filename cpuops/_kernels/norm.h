/* norm.h: batch, layer, RMS, group and instance normalisation and their gradients.
 *
 *   out = (x - mean) * rstd * gamma + beta,   rstd = 1 / sqrt(variance + epsilon)
 *   x_grad = rstd * (g gamma - s1 / n - xhat s2 / n),   s1 = sum of g gamma,  s2 = sum of g gamma xhat
 *   gamma_grad = sum of g xhat,   beta_grad = sum of g,   xhat = (x - mean) * rstd
 *
 * Statistics take two passes in double: the mean, then the deviations from it, whose own sum corrects the mean (in float64
 * its rounding is all that is left). A mean is used as hi + lo of the operand's type, so that x - hi is exact where it
 * matters and the difference keeps all digits. Elements are computed in the operand's type; where 1 / sqrt(...) leaves the
 * range in which float products keep their digits, in double.
 *
 * Two shapes of work:
 *   rows      layer, RMS, group, instance: x is [B, G, C, S] and a row (b, g) is C * S contiguous cells with one mean. With
 *             S = 1 gamma is a vector along the row, else a number for each run of S cells; short runs have gamma spread to a
 *             vector first (`spreads`)
 *   channels  batch: x is [B, C, S] and a channel is B runs of S cells. Runs of few cells are slow to walk one by one: with
 *             S < LONG_RUN a batch is B rows of C * S columns, statistics are those of columns, and a channel joins its S
 */
#ifndef CPUOPS_NORM_H
#define CPUOPS_NORM_H
#include "blocks.h"
#include "simd.h"
#include "wide.h"

enum {
    LONG_RUN = 32,
    BLOCK_CELLS = 32768,   /* cells of a block: tens of microseconds for the passes over it */
    MOST_ABREAST = 32,     /* channels of one part each, a pass over all of them after the other */
    MOST_SPREAD = 8192,    /* cells of a spread gamma */
    MANY_ROWS = 8,         /* a batch over which the spreading of more and of longer runs pays: by a fifth for 7x7 maps */
    MANY_SPREAD = 32768,
    MANY_RUN = 64,
    MOST_PARTS = 128,      /* blocks whose sums are joined, for channels that are cut, and for parameter gradients */
    PARTIAL_SUMS = 131072, /* doubles of partial sums: 1 MB */
    LONG_ROW = 8192,       /* cells of a row beyond which parameter gradients get a pass of their own, by columns */
    COLUMNS = 512          /* columns a unit of that pass, or of a batch of short runs */
};

typedef struct {
    const void *x, *g, *gamma, *beta; /* gamma, beta may be absent: 1 and 0 */
    const void *residual;             /* of rows, may be absent: what is added to x before, or to the gradient of x after */
    void *total;                      /* where x + residual is written, which is then what is normalised */
    void *out, *mean, *variance;      /* out: the output, or the gradient of x. mean, variance: given, or written */
    void *gamma_grad, *beta_grad;
    ptrdiff_t batch, groups, channels, run; /* B, G, C (of a group; batch normalisation has G = 1), S */
    ptrdiff_t spread;                 /* cells that share a gamma, where gamma was spread (C then counts cells, and S is 1) */
    double epsilon;
    int centre, train;                /* 0: RMS; 0: mean and variance are constants */
    /* the cut, by shape only */
    ptrdiff_t parts, part;            /* blocks of the batch, or of a channel's cells, and their size */
    ptrdiff_t together;               /* channels of a unit, where they have few cells */
    ptrdiff_t threads;
    ptrdiff_t units;                  /* of the present stage */
    int stage, columnwise, cut;
    double *memory;                   /* statistics and partial sums, shared */
    ptrdiff_t sums;                   /* doubles of it before what each unit has for itself */
    size_t bytes;
} norm_plan;

typedef void (*norm_cut)(norm_plan *p); /* fills in the cut, and the bytes of memory that it takes */
typedef int (*norm_stage)(norm_plan *p); /* joins what the stage before left, sets p->units; 0 when there is nothing more */
typedef void (*norm_work)(const norm_plan *p, ptrdiff_t unit);

INLINE ptrdiff_t smaller(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t larger(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
INLINE ptrdiff_t blocks_for(ptrdiff_t n, ptrdiff_t size) { return (n + size - 1) / size; }

/* n in at most `most` blocks of at least `size`, and at least one, which may be empty */
static void cut_parts(norm_plan *p, ptrdiff_t n, ptrdiff_t size, ptrdiff_t most)
{
    p->part = larger(larger(size, 1), blocks_for(n, larger(most, 1)));
    p->parts = larger(1, blocks_for(n, p->part));
}

/* a mean as hi + lo of the operand's type, and 1 / sqrt(variance + epsilon) */
typedef struct {
    double hi, lo, rstd;
} norm_statistics;

/* from sums of deviations from a mean of 1 / share cells and of their squares: the variance, and the mean's correction */
INLINE double variance_of(double deviations, double squares, double share, double *correction)
{
    *correction = deviations * share;
    double variance = squares * share - *correction * *correction;
    return variance < 0 ? 0 : variance; /* NaN stays */
}

#define REAL_BODY "norm_real.h"
#include "for_each_real.h"
#endif
