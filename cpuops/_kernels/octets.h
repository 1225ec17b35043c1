/* octets.h: vectors of reals from and to uint8, on simd.h.
 *
 *   vload_octets(p)       LANES bytes as reals       vload_octets_n(p, n)     the first n <= LANES of them only, others 0
 *   vstore_octets(p, v)   v rounded (half to even) and saturated to 0..255; a NaN gives any byte
 *   vstore_octets_n(p, v, n)
 *
 *   octets16  octets_load octets_store        sixteen bytes, unaligned
 *   octets_shuffle(v, at)                     v[at] in every byte, 0 where at is OCTETS_NOWHERE; OCTETS_SHUFFLE: it is fast
 */
#ifndef CPUOPS_OCTETS_H
#define CPUOPS_OCTETS_H
#include "simd.h"
#define vload_octets FN(vload_octets)
#define vload_octets_n FN(vload_octets_n)
#define vstore_octets FN(vstore_octets)
#define vstore_octets_n FN(vstore_octets_n)

typedef uint8_t octets16 __attribute__((vector_size(16)));
typedef uint8_t uoctets16 __attribute__((vector_size(16), aligned(1), may_alias));
enum { OCTETS_NOWHERE = 0x80 };
INLINE octets16 octets_load(const uint8_t *p) { return (octets16) * (const uoctets16 *)p; }
INLINE void octets_store(uint8_t *p, octets16 v) { *(uoctets16 *)p = (uoctets16)v; }
#if defined(__SSSE3__)
#define OCTETS_SHUFFLE 1
INLINE octets16 octets_shuffle(octets16 v, octets16 at) { return (octets16)_mm_shuffle_epi8((__m128i)v, (__m128i)at); }
#else
#define OCTETS_SHUFFLE 0
INLINE octets16 octets_shuffle(octets16 v, octets16 at)
{
    octets16 r;
    for (int i = 0; i < 16; i++)
        r[i] = at[i] < 16 ? v[at[i]] : 0;
    return r;
}
#endif

#define REAL_BODY "octets_real.h"
#include "for_each_real.h"
#endif
