/* for_each_real.h: includes REAL_BODY twice, for float and for double (no include guard: it is a loop of two).
 *
 *   #define REAL_BODY "softmax_real.h"
 *   #include "for_each_real.h"
 *
 * gives every FN(name) of the body as name_f32 and name_f64. Inside, `real` is the scalar type and the words of simd.h
 * are those of that type. IS_F64 is 0 or 1.
 */
#define REAL_SUFFIX f32
#define real float
#define IS_F64 0
#include REAL_BODY
#undef REAL_SUFFIX
#undef real
#undef IS_F64
#define REAL_SUFFIX f64
#define real double
#define IS_F64 1
#include REAL_BODY
#undef REAL_SUFFIX
#undef real
#undef IS_F64
#undef REAL_BODY
