/* octets.h: vectors of reals from and to uint8, on simd.h.
 *
 *   vload_octets(p)       LANES bytes as reals       vload_octets_n(p, n)     the first n <= LANES of them only, others 0
 *   vstore_octets(p, v)   v rounded (half to even) and saturated to 0..255; a NaN gives any byte
 *   vstore_octets_n(p, v, n)
 */
#ifndef CPUOPS_OCTETS_H
#define CPUOPS_OCTETS_H
#include "simd.h"
#define vload_octets FN(vload_octets)
#define vload_octets_n FN(vload_octets_n)
#define vstore_octets FN(vstore_octets)
#define vstore_octets_n FN(vstore_octets_n)
#define REAL_BODY "octets_real.h"
#include "for_each_real.h"
#endif
