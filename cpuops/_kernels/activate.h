/* activate.h: the activations that may follow a linear layer or a convolution, on a piece of its output. Formulas: elementwise.h, vmath.h. */
#ifndef CPUOPS_ACTIVATE_H
#define CPUOPS_ACTIVATE_H
#include "vmath.h"

enum { ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_SILU };

#define REAL_BODY "activate_real.h"
#include "for_each_real.h"
#endif
