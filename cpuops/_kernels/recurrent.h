/* recurrent.h: the loops of LSTM and GRU over the steps of a sequence, and the loops of their gradients.
 *
 *   LSTM   i, f, g, o = p + h w                          c' = sigm(f) c + sigm(i) tanh(g),  h' = sigm(o) tanh(c')
 *   GRU    r, z = sigm(p + q), q = h w + b               m = tanh(p + r q),                 h' = m + z (h - m)
 *
 * p [length, batch, gates n] are the products with the inputs, made before for all steps; w is [n, gates n]. Backwards the loop
 * gives the gradients to p (GRU: and to q), from which those of the weights are products over all steps.
 *
 * The rows of a batch know nothing of one another: a task takes some rows through all steps, so that threads meet once a sequence.
 * w (backwards its transpose) is packed once, in the panels of gemm.h, and a step multiplies by it in that header's order of sums:
 * the bits depend neither on the number of rows in a task nor on the number of threads.
 */
#ifndef CPUOPS_RECURRENT_H
#define CPUOPS_RECURRENT_H
#include "gemm.h"
#include "vmath.h"

enum { RECURRENT_LSTM, RECURRENT_GRU };
enum { RECURRENT_ROWS = 128 }; /* most rows of a task: its scratch, beside what is packed */

typedef struct {
    int kind, backward;
    ptrdiff_t length, batch, n;
    const void *projected, *h0, *c0, *w, *bias, *output_grad;
    /* of every step: gates; LSTM: cells (one more, the first being c0) and their tanh; GRU: m and the last third of q. Forward
     * without gates nothing is kept, and cells are those of one step */
    void *gates, *cells, *bent, *news, *asked;
    void *out;                       /* h of every step */
    void *p_grad, *q_grad, *h_grad;  /* gradients; h_grad to the initial state, */
    void *c_grad;                    /* as c_grad, which at first is that to the last */
    /* filled in by recurrent_plan */
    ptrdiff_t rows, slots;
    ptrdiff_t from, to, kc, chunks, panels, stride; /* w packed: K, N, and the panels of every chunk of K */
    ptrdiff_t ld, wide;                             /* a row of the step's factor, and of its product */
    size_t scratch_bytes;
    void *scratch;
} recurrent_job;

#define REAL_BODY "recurrent_real.h"
#include "for_each_real.h"
#endif
