/* simd.h: one vector type an ISA level, one source for all levels.
 *
 * The level is what the compiler was told (-march=x86-64-v2/-v3/-v4, or a baseline elsewhere): nothing here or above
 * asks the CPU. Kernels are written once, in files that end in _real.h, with the words below, and are compiled for
 * float and for double by for_each_real.h:
 *
 *   real  vec  ivec  vmask  LANES        the scalar, its vector, same-width integers, a lane mask, lanes a vector
 *   vload vstore vload_n vstore_n        unaligned; the _n forms touch only the first n lanes (others read as 0)
 *   vset vzero viota                     broadcast, zero, 0 1 2 ...
 *   vfma(a,b,c)  a*b+c                   fused where the ISA has FMA, multiply and add at v2 (emulation costs 40x)
 *   vfms(a,b,c)  a*b-c    vfnma(a,b,c)  c-a*b
 *   vlt vle vgt vge veq vne visnan       comparisons to vmask (vne is true on NaN, the others false)
 *   visnan2(a,b)                         NaN in either
 *   mand mor mnot  many mall             masks
 *   mfirst                               the lowest lane that is set, LANES where none is
 *   mbits(m)                             lane i of a mask as bit i
 *   vsel(m,a,b)                          a where m, else b
 *   vabs vneg vcopysign vsqrt vfloor vround (half to even)
 *   vmax vmin                            IEEE 754-2019 maximum, minimum: NaN in either operand gives NaN
 *   vmax_fast vmin_fast                  the bare instruction: the second operand when either is NaN
 *   vhsum vhmax vhmin                    across lanes, in one fixed order (pairs: 0+half, then halves of halves)
 *   vhmax_fast vhmin_fast                the same where no lane is NaN
 *   + - * / and unary minus              on vec directly
 *
 * Compile with -ffp-contract=off: only vfma fuses, so an element has the same bits in a body and in a tail.
 */
#ifndef CPUOPS_SIMD_H
#define CPUOPS_SIMD_H
#include <stdint.h>
#include <stddef.h>
#include <string.h>
#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define SIMD_BYTES 64
#define SIMD_AVX512 1
#elif defined(__AVX2__) && defined(__FMA__)
#define SIMD_BYTES 32
#define SIMD_AVX2 1
#else
#define SIMD_BYTES 16
#if defined(__SSE4_1__)
#define SIMD_SSE4 1
#endif
#endif
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define SIMD_FMA 1
#endif

#define INLINE static inline __attribute__((always_inline, unused))
#define FUNC static __attribute__((noinline, unused))

typedef float vec_f32 __attribute__((vector_size(SIMD_BYTES)));
typedef double vec_f64 __attribute__((vector_size(SIMD_BYTES)));
typedef int32_t ivec_f32 __attribute__((vector_size(SIMD_BYTES)));
typedef int64_t ivec_f64 __attribute__((vector_size(SIMD_BYTES)));
typedef float uvec_f32 __attribute__((vector_size(SIMD_BYTES), aligned(4), may_alias));
typedef double uvec_f64 __attribute__((vector_size(SIMD_BYTES), aligned(8), may_alias));
#define LANES_f32 (SIMD_BYTES / 4)
#define LANES_f64 (SIMD_BYTES / 8)
#if SIMD_AVX512
typedef __mmask16 vmask_f32;
typedef __mmask8 vmask_f64;
#else
typedef ivec_f32 vmask_f32;
typedef ivec_f64 vmask_f64;
#endif

/* ---- the words: name -> name_f32 or name_f64, by FN, which for_each_real.h defines ---- */
#define vec FN(vec)
#define ivec FN(ivec)
#define uvec FN(uvec)
#define vmask FN(vmask)
#define LANES FN(LANES)
#define vload FN(vload)
#define vstore FN(vstore)
#define vload_n FN(vload_n)
#define vstore_n FN(vstore_n)
#define vset FN(vset)
#define vzero FN(vzero)
#define viota FN(viota)
#define vfma FN(vfma)
#define vfms FN(vfms)
#define vfnma FN(vfnma)
#define vlt FN(vlt)
#define vle FN(vle)
#define vgt FN(vgt)
#define vge FN(vge)
#define veq FN(veq)
#define vne FN(vne)
#define visnan FN(visnan)
#define visnan2 FN(visnan2)
#define mand FN(mand)
#define mor FN(mor)
#define mnot FN(mnot)
#define many FN(many)
#define mall FN(mall)
#define mfirst FN(mfirst)
#define mbits FN(mbits)
#define vsel FN(vsel)
#define vabs FN(vabs)
#define vneg FN(vneg)
#define vcopysign FN(vcopysign)
#define vsqrt FN(vsqrt)
#define vfloor FN(vfloor)
#define vround FN(vround)
#define vmax FN(vmax)
#define vmin FN(vmin)
#define vmax_fast FN(vmax_fast)
#define vmin_fast FN(vmin_fast)
#define vhsum FN(vhsum)
#define vhmax FN(vhmax)
#define vhmin FN(vhmin)
#define vhmax_fast FN(vhmax_fast)
#define vhmin_fast FN(vhmin_fast)
#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define FN(name) PASTE(name, REAL_SUFFIX)

#define REAL_BODY "simd_real.h"
#include "for_each_real.h"
#endif
