/* conv_depthwise.h: one channel a group, channels last: groups are lanes, padding is skipped. See conv.h. */
#ifndef CPUOPS_CONV_DEPTHWISE_H
#define CPUOPS_CONV_DEPTHWISE_H
#include "conv_finish.h"
#include "wide.h"

#define CONV_DEPTHWISE_TAPS 128  /* their list is on the stack */
#define CONV_DEPTHWISE_COLUMNS 5 /* of taps whose weight gradients are summed together */
#define CONV_DEPTHWISE_BYTES 8192 /* of weights that a row is computed with at a time */
#define CONV_DEPTHWISE_PIECES 64 /* of the sum of a weight gradient */

typedef struct {
    conv_call call;
    ptrdiff_t rows, pieces; /* output rows of all images, and the pieces that the weight gradient sums them in */
    size_t scratch_bytes;
    double *partial; /* [pieces][taps][groups] */
} conv_depthwise;

INLINE int conv_is_depthwise(const conv_job *j)
{
    return j->groups > 1 && j->outputs == 1 && j->channels == 1 && j->in_group == 1 && j->out_group == 1 && j->w_group == 1 &&
           conv_taps(j) <= CONV_DEPTHWISE_TAPS;
}

INLINE void conv_plan_depthwise(const conv_call *call, int of_weights, ptrdiff_t most_bytes, conv_depthwise *d)
{
    const conv_job *j = call->job;
    const ptrdiff_t bytes = conv_taps(j) * j->groups * 8;
    d->call = *call;
    d->rows = j->batch * j->out[0] * j->out[1];
    d->pieces = conv_max(1, conv_min(d->rows, conv_min(CONV_DEPTHWISE_PIECES, most_bytes / bytes)));
    d->scratch_bytes = of_weights ? (size_t)(d->pieces * bytes) : 0;
}

#define REAL_BODY "conv_depthwise_real.h"
#include "for_each_real.h"
#endif
