/* vmath.h: vector mathematics on `vec`, for float and double, one source for all levels. Include after simd.h. */
#ifndef CPUOPS_VMATH_H
#define CPUOPS_VMATH_H
#include "simd.h"
#define vexp FN(vexp)
#define vexpm1 FN(vexpm1)
#define vlog FN(vlog)
#define vlog1p FN(vlog1p)
#define vtanh FN(vtanh)
#define vsigmoid FN(vsigmoid)
#define verf FN(verf)
#define vgelu FN(vgelu)
#define vgelu_tanh FN(vgelu_tanh)
#define vsilu FN(vsilu)
#define vsoftplus FN(vsoftplus)
#define vlogsigmoid FN(vlogsigmoid)
#define vnormcdf FN(vnormcdf)
#define vnormpdf FN(vnormpdf)
#define REAL_BODY "vmath_real.h"
#include "for_each_real.h"
#endif
