/* conv_masked.h: the definition in scalar code; cells over padding are skipped. See conv.h. */
#ifndef CPUOPS_CONV_MASKED_H
#define CPUOPS_CONV_MASKED_H
#include "conv_finish.h"
#define REAL_BODY "conv_masked_real.h"
#include "for_each_real.h"
#endif
