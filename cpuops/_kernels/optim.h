/* optim.h: optimizer steps, fused: a parameter and its state pass through the caches once. */
#ifndef CPUOPS_OPTIM_H
#define CPUOPS_OPTIM_H
#include "simd.h"

/* What a step needs to know; each optimizer reads its own part. Rates are in double, and rounded where they meet a cell. */
typedef struct {
    double lr, weight_decay, momentum, dampening, beta1, beta2, epsilon;
    double correction1, root_correction2; /* 1 - beta1^t, sqrt(1 - beta2^t) at step t */
    int nesterov, first, decoupled, amsgrad, centered;
} optim_step;

#define REAL_BODY "optim_real.h"
#include "for_each_real.h"
#endif
