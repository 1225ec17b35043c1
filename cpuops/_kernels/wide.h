/* wide.h: sums in double of either scalar type, on vectors. Include after simd.h.
 *
 *   wvec  WLANES        a vector of doubles and its lanes, the same for float and for double operands
 *   wload wstore        WLANES reals read as doubles; doubles rounded to reals and written (both unaligned)
 *   wset whsum          broadcast, sum across lanes in one fixed order
 *   vdeal vzip          of two vectors laid end to end: those at even and those at odd places, and back
 *
 * wvec is used with + - * / only, never with a fused multiply-add: a tail is then plain C on doubles and has the same
 * bits as the body.
 */
#ifndef CPUOPS_WIDE_H
#define CPUOPS_WIDE_H
#include "simd.h"

#define wvec vec_f64
#define WLANES LANES_f64
#define wset vset_f64
#define whsum vhsum_f64
#define wload FN(wload)
#define wstore FN(wstore)
#define vdeal FN(vdeal)
#define vzip FN(vzip)

#define REAL_BODY "wide_real.h"
#include "for_each_real.h"
#endif
