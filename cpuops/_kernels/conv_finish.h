/* conv_finish.h: what follows a finished sum of the output: its activation. See conv.h. Relu is taken in registers, as a tile is
 * stored, where nothing else wants the sum; what is left is activated where it was stored, while that is in the cache. */
#ifndef CPUOPS_CONV_FINISH_H
#define CPUOPS_CONV_FINISH_H
#include "activate.h"
#include "conv_job.h"
#define REAL_BODY "conv_finish_real.h"
#include "for_each_real.h"
#endif
