/* probe.h: what a core and its memory can do at most, at this ISA level. Operations never call it; the benches hold
 * their times against it (bench/limits.py). */
#ifndef CPUOPS_PROBE_H
#define CPUOPS_PROBE_H
#include "simd.h"

#define PROBE_CHAINS 12
#define PROBE_EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

#define REAL_BODY "probe_real.h"
#include "for_each_real.h"
#endif
