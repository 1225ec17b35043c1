/* turned_real.h: the body of turned.h for one scalar type. */

INLINE ptrdiff_t FN(up_to)(ptrdiff_t n) { return n < LANES ? n : LANES; }

/* a whole tile, as transpose_tile does it; inserting from memory does without half of its shuffles */
INLINE void FN(turn_tile)(const real *x, ptrdiff_t pitch, real *to, ptrdiff_t to_pitch)
{
#if SIMD_AVX512 && !IS_F64
    for (int q = 0; q < LANES; q += 4) {
        vec v[4];
        for (int i = 0; i < 4; i++) {
            const real *row = x + i * pitch + q;
            __m512 some = _mm512_castps128_ps512(_mm_loadu_ps(row));
            some = _mm512_insertf32x4(some, _mm_loadu_ps(row + 4 * pitch), 1);
            some = _mm512_insertf32x4(some, _mm_loadu_ps(row + 8 * pitch), 2);
            v[i] = (vec)_mm512_insertf32x4(some, _mm_loadu_ps(row + 12 * pitch), 3);
        }
        FN(transpose_quad)(v, v + 1, v + 2, v + 3);
        for (int i = 0; i < 4; i++)
            vstore(to + (q + i) * to_pitch, v[i]);
    }
#else
    FN(transpose_tile)(x, pitch, LANES, LANES, to, to_pitch);
#endif
}

static void FN(turn)(const real *x, ptrdiff_t cells, ptrdiff_t planes, ptrdiff_t pitch, real *to)
{
    for (ptrdiff_t k = 0; k < planes; k += LANES) {
        const real *from = x + k * cells;
        ptrdiff_t here = FN(up_to)(planes - k), i = 0;
        for (; here == LANES && i + LANES <= cells; i += LANES)
            FN(turn_tile)(from + i, cells, to + i * pitch + k, pitch);
        for (; i < cells; i += LANES)
            FN(transpose_tile)(from + i, cells, here, FN(up_to)(cells - i), to + i * pitch + k, pitch);
    }
}

enum { FN(AHEAD) = 3 };

static void FN(turn_back)(const real *x, ptrdiff_t pitch, ptrdiff_t cells, ptrdiff_t planes, real *to)
{
    real some[LANES * LANES + LANES];
    for (ptrdiff_t k = 0; k < planes; k += LANES) {
        ptrdiff_t here = FN(up_to)(planes - k);
        for (ptrdiff_t i = 0; i < cells && cells >= LANES; i += LANES) {
            ptrdiff_t at = i + LANES < cells ? i : cells - LANES;
            for (ptrdiff_t j = 0; j < here; j++) /* what is written a few tiles on */
                __builtin_prefetch(to + (k + j) * cells + at + FN(AHEAD) * LANES, 1);
            if (here == LANES)
                FN(turn_tile)(x + at * pitch + k, pitch, to + k * cells + at, cells);
            else
                FN(transpose_tile)(x + at * pitch + k, pitch, LANES, here, to + k * cells + at, cells);
        }
        if (cells < LANES) { /* whole vectors would end beyond the last plane */
            FN(transpose_tile)(x + k, pitch, cells, here, some, cells);
            memcpy(to + k * cells, some, (size_t)(here * cells) * sizeof(real));
        }
    }
}
