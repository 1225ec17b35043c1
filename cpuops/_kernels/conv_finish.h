/* conv_finish.h: what follows a finished sum of the output: its activation, while it is in the cache. See conv.h. */
#ifndef CPUOPS_CONV_FINISH_H
#define CPUOPS_CONV_FINISH_H
#include "activate.h"
#include "conv_job.h"
#define REAL_BODY "conv_finish_real.h"
#include "for_each_real.h"
#endif
