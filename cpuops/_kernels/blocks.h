/* blocks.h: the only arithmetic of shares. Blocks whose partial results are put together are cut by shape alone, so that bits do
 * not depend on the thread count; blocks that are independent may also be made to come out even. */
#ifndef CPUOPS_BLOCKS_H
#define CPUOPS_BLOCKS_H
#include <stddef.h>

/* whether some thread does a twentieth more than the mean when they share equal tasks */
static inline int uneven(ptrdiff_t tasks, ptrdiff_t threads)
{
    return threads > 1 && 20 * ((tasks + threads - 1) / threads) * threads > 21 * tasks;
}

/* the largest size, from `most` to a quarter of it, of which blocks that cover n are shared evenly; else `most` */
static inline ptrdiff_t even_size(ptrdiff_t n, ptrdiff_t most, ptrdiff_t threads)
{
    for (ptrdiff_t size = most, step = (most + 31) / 32; size > most / 4 && size > 0; size -= step)
        if (!uneven((n + size - 1) / size, threads))
            return size;
    return most;
}
/* the fewest parts, from `least` to `most`, so that `each` tasks a part are shared evenly, or else as evenly as can be */
static inline ptrdiff_t even_parts(ptrdiff_t each, ptrdiff_t least, ptrdiff_t most, ptrdiff_t threads)
{
    ptrdiff_t best = least;
    for (ptrdiff_t parts = least + 1; parts <= most && uneven(each * best, threads); parts++)
        if ((each * parts + threads - 1) / threads * best < (each * best + threads - 1) / threads * parts)
            best = parts;
    return best;
}

/* the largest power of two up to n, or 1: parts that most thread counts share evenly */
static inline ptrdiff_t power_of_two(ptrdiff_t n)
{
    ptrdiff_t p = 1;
    while (2 * p <= n)
        p *= 2;
    return p;
}
#endif
