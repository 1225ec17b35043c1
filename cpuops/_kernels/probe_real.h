/* probe_real.h: the body of probe.h for one scalar type. */

/* PROBE_CHAINS independent chains of fused multiply-adds, `steps` long. Two units with a latency of 4 cycles need 8
 * chains; 12 and the two factors still fit 16 registers. With |a| < 1 the values settle: no infinity, no subnormal */
FUNC real FN(probe_fma)(ptrdiff_t steps, real a, real b)
{
    const vec va = vset(a), vb = vset(b);
#define X(i) vec c##i = viota() + vset((real)i);
    PROBE_EACH(X)
#undef X
    for (ptrdiff_t s = 0; s < steps; s++) {
#define X(i) c##i = vfma(c##i, va, vb);
        PROBE_EACH(X)
#undef X
    }
    vec sum = vzero();
#define X(i) sum = sum + c##i;
    PROBE_EACH(X)
#undef X
    return vhsum(sum);
}

/* n is a multiple of 4 * LANES in both */
FUNC void FN(probe_copy)(const real *src, real *dst, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 4 * LANES) {
        vec a = vload(src + i), b = vload(src + i + LANES), c = vload(src + i + 2 * LANES), d = vload(src + i + 3 * LANES);
        vstore(dst + i, a);
        vstore(dst + i + LANES, b);
        vstore(dst + i + 2 * LANES, c);
        vstore(dst + i + 3 * LANES, d);
    }
}

FUNC real FN(probe_read)(const real *src, ptrdiff_t n)
{
    vec a = vzero(), b = vzero(), c = vzero(), d = vzero();
    for (ptrdiff_t i = 0; i < n; i += 4 * LANES) {
        a = a + vload(src + i);
        b = b + vload(src + i + LANES);
        c = c + vload(src + i + 2 * LANES);
        d = d + vload(src + i + 3 * LANES);
    }
    return vhsum((a + b) + (c + d));
}
