/* transpose.h: a LANES x LANES tile transposed in registers, on simd.h.
 *
 *   transpose_tile(p, rs, rows, cols, out, os)    out[k*os + i] = p[i*rs + k] for i < LANES, k < cols; 0 for i >= rows.
 *                                                 Whole vectors are stored: os < LANES is fine, rows of out then overlap
 *                                                 and the later one wins, the last one ends beyond its os
 */
#ifndef CPUOPS_TRANSPOSE_H
#define CPUOPS_TRANSPOSE_H
#include "simd.h"
#define REAL_BODY "transpose_real.h"
#include "for_each_real.h"
#endif
