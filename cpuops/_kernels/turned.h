/* turned.h: small planes side by side, one a lane, so that any work on a plane is work on vectors.
 *
 *   turn(x, cells, planes, pitch, to)       to[i * pitch + k] = x[k * cells + i] for k < planes, 0 up to a whole vector; pitch is whole vectors
 *   turn_back(x, pitch, cells, planes, to)  to[k * cells + i] = x[i * pitch + k] for k < planes
 */
#ifndef CPUOPS_TURNED_H
#define CPUOPS_TURNED_H
#include "transpose.h"
#define REAL_BODY "turned_real.h"
#include "for_each_real.h"
#endif
