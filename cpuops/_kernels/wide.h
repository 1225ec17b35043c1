/* wide.h: more words on vectors, for sums in double of either scalar type, for strides of two and for integers as wide as
 * the scalar. Include after simd.h.
 *
 *   wvec  WLANES        a vector of doubles and its lanes, the same for float and for double operands
 *   wload wstore        WLANES reals read as doubles; doubles rounded to reals and written (both unaligned)
 *   wload_n wstore_n    the same of the first n lanes only (others read as 0)
 *   wset whsum          broadcast, sum across lanes in one fixed order
 *   FN(wsplit) FN(wjoin) the lanes of a vec as doubles (a wsums), and such doubles rounded to a vec
 *   wsums wadd wtotal   a running sum of vec in double: its state, a vector added, the total
 *   vdeal vzip          of two vectors laid end to end: those at even and those at odd places, and back
 *   vdeal_four          four vectors from memory: of every four cells the first, the second, ...
 *   mspan vload_m       lanes first..end-1 of any two integers as a mask; a load of a mask's lanes: others read as 0, not from memory
 *   inum                the integer scalar of ivec: int32_t for float, int64_t for double
 *   ivset ivload ivstore iveq ivlt ivsel    broadcast, unaligned access, equal and less (vmasks), a where the mask, else b
 *   ivof                the lanes of a vec without their fractions, as integers; they must fit
 *   vgather             p[i] of an ivec i, lane by lane where the mask, else 0: other places are not read
 *   vgather_pairs       p[i] and p[i + 1] of every lane, two floats in one access
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
#define wload FN(wload)
#define wstore FN(wstore)
#define wload_n FN(wload_n)
#define wstore_n FN(wstore_n)
#define wsums FN(wsums)
#define wadd FN(wadd)
#define wtotal FN(wtotal)
#define inum FN(inum)
#define uivec FN(uivec)
#define ivset FN(ivset)
#define ivload FN(ivload)
#define ivstore FN(ivstore)
#define iveq FN(iveq)
#define ivlt FN(ivlt)
#define ivof FN(ivof)
#define vgather FN(vgather)
#define vgather_pairs FN(vgather_pairs)
#define ivsel FN(ivsel)
#define mspan FN(mspan)
#define vload_m FN(vload_m)
#define vdeal FN(vdeal)
#define vdeal_four FN(vdeal_four)
#define vzip FN(vzip)

/* vhsum_f64 in registers: the same order, the same bits */
INLINE double whsum(wvec v)
{
#if SIMD_BYTES == 64
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
    return v[0] + v[1];
#elif SIMD_BYTES == 32
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1);
    return v[0] + v[1];
#else
    return v[0] + v[1];
#endif
}

typedef int32_t inum_f32;
typedef int64_t inum_f64;
typedef int32_t uivec_f32 __attribute__((vector_size(SIMD_BYTES), aligned(4), may_alias));
typedef int64_t uivec_f64 __attribute__((vector_size(SIMD_BYTES), aligned(8), may_alias));

#define REAL_BODY "wide_real.h"
#include "for_each_real.h"
#endif
