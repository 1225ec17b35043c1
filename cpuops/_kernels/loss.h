/* loss.h: cross-entropy of logits [n, classes] with labels [n], the mean squared error, and their gradients.
 *
 *   cross-entropy of a row, e the label smoothing and q = (1 - e) at the label + e/classes everywhere:
 *     loss      log(sum(exp(x))) - sum(q x)
 *     backward  g (softmax(x) - q)
 *   A row whose label is `ignore` has the loss 0 and the gradient 0.
 *
 *   squared error   (x - y)^2      backward  2 g (x - y) to x, and the negative to y
 *
 * One pass: a row's maximum, sum and loss or gradient are taken while it is in the cache.
 */
#ifndef CPUOPS_LOSS_H
#define CPUOPS_LOSS_H
#include "softmax.h"

typedef struct {
    ptrdiff_t classes;
    int has_ignore;
    int64_t ignore;
    double smoothing;
} CrossEntropy;

#define REAL_BODY "loss_real.h"
#include "for_each_real.h"
#endif
