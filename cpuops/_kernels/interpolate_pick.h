/* interpolate_pick.h: bytes that are only copied, as the nearest modes do. Included by interpolate.h only.
 *
 * Sixteen outputs are made of the few 16-byte pieces of the row that hold their cells: each piece is shuffled into the places
 * of its outputs, and the results are or-ed. Which bytes go where is the same for all rows of a tile.
 */

enum { MOST_PIECES = 8, PICK_GROUP = 16 };

typedef struct {
    ptrdiff_t from, to, pieces;          /* the first piece, from the tile's first cell; the first output, from the tile's */
    octets16 place[MOST_PIECES];
} pick_group;

/* scratch of a tile of outputs */
INLINE size_t pick_bytes_worker(ptrdiff_t tile) { return (size_t)(pieces(tile, PICK_GROUP) + 1) * sizeof(pick_group); }

/* the groups of outputs o0..o1-1, of cells of `channels` bytes from cell c0 to c1; 0: they are made one by one */
static ptrdiff_t pick_groups(const resample_axis *w, ptrdiff_t channels, ptrdiff_t c0, ptrdiff_t c1, ptrdiff_t o0, ptrdiff_t o1, pick_group *groups)
{
    ptrdiff_t n = 0, bytes = (c1 - c0 - 1) * channels + 1; /* of one channel, from its first to its last */
    if (!OCTETS_SHUFFLE || w->start == NULL || w->start[o1] - w->start[o0] < o1 - o0 || o1 - o0 < PICK_GROUP)
        return 0;
    for (ptrdiff_t o = o0; o < o1; o += PICK_GROUP, n++) {
        pick_group *g = groups + n;
        g->to = least(o, o1 - PICK_GROUP) - o0;
        const ptrdiff_t *index = w->index + w->start[o0] + g->to;
        g->from = (index[0] - c0) * channels;
        g->pieces = pieces((index[PICK_GROUP - 1] - index[0]) * channels + 1, 16);
        g->from = least(g->from, bytes - 16 * g->pieces); /* nothing behind the row is read */
        g->pieces = pieces((index[PICK_GROUP - 1] - c0) * channels + 1 - g->from, 16);
        if (g->from < 0 || g->pieces > MOST_PIECES)
            return 0;
        for (ptrdiff_t k = 0; k < g->pieces; k++)
            for (int i = 0; i < PICK_GROUP; i++) {
                ptrdiff_t at = (index[i] - c0) * channels - g->from - 16 * k;
                g->place[k][i] = at >= 0 && at < 16 ? (uint8_t)at : OCTETS_NOWHERE;
            }
    }
    return n;
}

INLINE void pick_group_of(const pick_group *g, const uint8_t *from, ptrdiff_t pieces, uint8_t *to)
{
    octets16 v = octets_shuffle(octets_load(from + g->from), g->place[0]);
    for (ptrdiff_t k = 1; k < pieces; k++)
        v |= octets_shuffle(octets_load(from + g->from + 16 * k), g->place[k]);
    octets_store(to + g->to, v);
}

static void pick_row(const pick_group *g, ptrdiff_t n, const uint8_t *from, uint8_t *to)
{
    for (const pick_group *end = g + n; g < end; g++)
        if (g->pieces == 1)
            pick_group_of(g, from, 1, to);
        else if (g->pieces == 2)
            pick_group_of(g, from, 2, to);
        else
            pick_group_of(g, from, g->pieces, to);
}

/* to[0..n-1] = the bytes of cells index[0..n-1]; restrict, since a byte may alias anything */
INLINE void pick_bytes(const uint8_t *restrict from, const ptrdiff_t *restrict index, ptrdiff_t c0, ptrdiff_t channels, uint8_t *restrict to, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        to[i] = from[(index[i] - c0) * channels];
}

/* outputs o0..o1-1 of a line of bytes of which `from` holds the cells from c0 on, one channel of several */
FUNC void pick_cells(const resample_axis *w, const uint8_t *restrict from, ptrdiff_t c0, ptrdiff_t channels, uint8_t *restrict to, ptrdiff_t o0, ptrdiff_t o1)
{
    if (w->start == NULL && channels == 1) {
        memcpy(to, from + (o0 - c0), (size_t)(o1 - o0));
    } else if (w->start == NULL) {
        for (ptrdiff_t o = o0; o < o1; o++)
            to[o - o0] = from[(o - c0) * channels];
    } else if (w->start[o1] - w->start[o0] < o1 - o0) { /* some lie outside of a crop */
        for (ptrdiff_t o = o0; o < o1; o++)
            to[o - o0] = w->start[o] < w->start[o + 1] ? from[(w->index[w->start[o]] - c0) * channels] : 0;
    } else {
        pick_bytes(from, w->index + w->start[o0], c0, channels, to, o1 - o0);
    }
}
