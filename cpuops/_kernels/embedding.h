/* embedding.h: rows of a table by index, and the gradient: rows added into a table in index order, on simd.h. */
#ifndef CPUOPS_EMBEDDING_H
#define CPUOPS_EMBEDDING_H
#include "simd.h"
#include "stream.h"
#define REAL_BODY "embedding_real.h"
#include "for_each_real.h"
#endif
