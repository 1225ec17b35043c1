/* pool_plan.h: how a call of pool.h is cut into units of work, and which way it goes. By shape only. Included by pool.h only. */
#ifndef CPUOPS_POOL_PLAN_H
#define CPUOPS_POOL_PLAN_H

typedef struct {
    const void *x, *g;           /* operands: the input, the gradient from above */
    void *out;
    char *index;                 /* int32 or int64 by index_size; size 0: none are wanted */
    ptrdiff_t index_size;
    pool_axis d, h, w;
    ptrdiff_t planes, channels;
    ptrdiff_t lanes;             /* of a vector of x's type */
    int include_pad;             /* taps in padding count in an average's divisor */
    double divisor;              /* 0: the number of taps */
    int segments, by_pixel, direct;
    ptrdiff_t turned;            /* small planes of one channel: so many of them are a unit, transposed to channels last */
    int whole;                   /* one window holds its plane, which is one axis */
    int pairs;                   /* along W the windows are cells 2o and 2o + 1, one channel: no line is needed */
    int threes;                  /* along W the windows are three cells, one or two apart, of one channel: no line is needed */
    int apart;                   /* gradients of pairs whose rows are in one window at most: written where they are found */
    int strips;                  /* gradients of the maximum of threes: in one pass over the windows, in vectors of them */
    int patches;                 /* the same in vectors of channels, straight into out */
    int gathered;                /* gradients of the maximum: gathered by comparing, not scattered cell by cell */
    ptrdiff_t chunk, chunks;     /* channels at a time */
    ptrdiff_t tile, tiles;       /* columns at a time: of the output, in avg_pool_backward of x */
    ptrdiff_t rows, units;       /* a unit: one row of one tile; rows of a tile follow one another */
    ptrdiff_t block, next;       /* units a block; the first block that no worker has taken */
    ptrdiff_t line, phase, back; /* cells of a line, of a phase, and of avg_pool_backward's line of gradients */
    ptrdiff_t phases;
    ptrdiff_t parts, part;       /* max_pool_backward: parts of a plane, and cells of the axis that is cut a part */
    ptrdiff_t abreast;           /* planes a unit, scattered at once */
    ptrdiff_t ring, slot, far;   /* gathered: rows of output in the ring, room for each; how far, in places, an output may lie
                                    before a cell of its window */
    ptrdiff_t ahead;             /* rows of output found before they are needed */
    size_t bytes;                /* scratch a worker */
} pool_plan;

typedef void (*pool_work)(const pool_plan *p, ptrdiff_t lo, ptrdiff_t hi, void *memory); /* on units lo..hi-1 */

INLINE ptrdiff_t reach(const pool_axis *a) { return a->dilation * (a->kernel - 1) + 1; }

/* the widest window of an axis, in taps */
INLINE ptrdiff_t widest(const pool_axis *a) { return a->kernel ? least(a->kernel, a->in) : least(a->in, a->in / a->out + 2); }
INLINE ptrdiff_t cells_in(const pool_plan *p) { return p->d.in * p->h.in * p->w.in; }
INLINE ptrdiff_t cells_out(const pool_plan *p) { return p->d.out * p->h.out * p->w.out; }

static void cut_channels(pool_plan *p, ptrdiff_t chunk)
{
    p->chunk = most(1, least(p->channels, chunk));
    p->chunks = ceil_div(p->channels, p->chunk);
}

static void cut_blocks(pool_plan *p, ptrdiff_t rows, ptrdiff_t cells)
{
    p->rows = rows;
    p->units = rows * p->tiles * p->chunks;
    p->block = most(1, BLOCK_CELLS / most(1, cells));
}

/* so many windows at once that a line of `room` cells holds them */
static ptrdiff_t windows_of(const pool_axis *a, ptrdiff_t room)
{
    if (a->kernel)
        return room < reach(a) ? 1 : least(a->out, (room - reach(a)) / a->stride + 1);
    double n = (double)(room - 2) * (double)a->out / (double)a->in;
    return n < 1 ? 1 : least(a->out, n > (double)room ? room : (ptrdiff_t)n);
}

/* what fits the scratch of a tile in the forward: in 8-byte cells */
static ptrdiff_t forward_cells(const pool_plan *p)
{
    ptrdiff_t line = p->line * p->chunk + SLACK, outputs = p->tile * p->chunk + SLACK;
    return 2 * line + 2 * p->phases * p->phase + 3 * outputs + 3 * (p->tile + SLACK) + least(p->w.kernel, p->line) +
           DIRECT_LISTS * MOST_DIRECT + 2 * MOST_GATHERED + 6 * (p->chunk + SLACK);
}

INLINE int in_pairs(const pool_plan *p)
{
    const pool_axis *w = &p->w;
    return p->channels == 1 && w->kernel == 2 && w->stride == 2 && w->dilation == 1 && w->before == 0 && w->out <= w->in / 2;
}

INLINE int in_threes(const pool_plan *p)
{
    const pool_axis *w = &p->w;
    return p->channels == 1 && w->kernel == 3 && w->stride <= 2 && w->dilation == 1;
}

/* whether one window holds its plane, which is one axis */
INLINE int is_whole(const pool_plan *p)
{
    const pool_axis *w = &p->w;
    return p->d.in * p->h.in * p->d.out * p->h.out * w->out == 1 && w->kernel == w->in && w->before == 0 && w->after == 0 && w->in < INT32_MAX;
}

/* units are planes (of a chunk of their channels) */
static int plan_whole(pool_plan *p)
{
    p->whole = is_whole(p);
    if (!p->whole)
        return 0;
    cut_channels(p, MOST_CHUNK);
    p->units = p->planes * p->chunks;
    p->block = most(1, BLOCK_CELLS / (p->w.in * p->chunk));
    p->bytes = 0;
    return 1;
}

static void plan_tiles(pool_plan *p, ptrdiff_t cells, ptrdiff_t chunk)
{
    const pool_axis *w = &p->w;
    cut_channels(p, chunk);
    /* a maximum's place in its window is an int32 beside float32 */
    double span = ((double)((widest(&p->d) - 1) * p->d.dilation) * (double)p->h.in + (double)((widest(&p->h) - 1) * p->h.dilation)) * (double)w->in +
                  (double)reach(w);
    ptrdiff_t rows = widest(&p->d) * widest(&p->h), taps = widest(w);
    p->direct = p->chunk >= p->lanes && rows * taps <= MOST_DIRECT && span <= INT32_MAX &&
                (w->kernel == 0 || rows * taps <= rows * w->stride + w->stride + taps);
    p->segments = !p->direct && (w->kernel == 0 || reach(w) > MOST_LINE / 2 / p->chunk || span > INT32_MAX ||
                                 (p->channels == 1 && w->dilation == 1 && ((w->stride > MOST_PHASES && w->kernel >= 8) || (w->out < 8 && w->kernel >= 16))));
    /* four times the reach: else most of a line is folded again for the next tile */
    ptrdiff_t room = most(cells / p->chunk, p->segments ? 1 : least(4 * reach(w), MOST_LINE / p->chunk));
    p->tile = windows_of(w, room);
    p->tiles = ceil_div(w->out, p->tile);
    p->line = p->segments ? least(room, w->in) : (p->tile - 1) * w->stride + reach(w);
    p->by_pixel = p->chunk < p->channels || (w->stride > 1 && (p->chunk >= p->lanes || w->stride > MOST_PHASES));
    p->phases = p->segments || p->by_pixel ? 1 : w->stride;
    p->phase = ceil_div(p->line, p->phases) * p->chunk + SLACK;
    p->far = p->ring = p->gathered = 0;
    p->pairs = in_pairs(p);
    p->threes = in_threes(p) && !p->segments;
    p->bytes = 8 * (size_t)forward_cells(p);
    cut_blocks(p, p->planes * p->d.out * p->h.out, rows * most(p->line, widest(w)) * p->chunk);
}

static void plan_as_laid(pool_plan *p)
{
    if (!plan_whole(p))
        plan_tiles(p, LINE, MOST_CHUNK);
}

/* how many planes of one channel are transposed at once, 0: none. It pays where rows are short */
static ptrdiff_t planes_turned(const pool_plan *p)
{
    ptrdiff_t cells = most(cells_in(p), cells_out(p)), vectors = least(least(4, p->planes / p->lanes), MOST_TURNED / cells);
    return p->channels != 1 || (is_whole(p) && cells >= p->lanes) ? 0 : vectors * p->lanes;
}

/* the plan of such a unit, with channels last; its operands are in scratch */
static pool_plan plan_of_unit(const pool_plan *p, ptrdiff_t planes, void (*plan)(pool_plan *))
{
    pool_plan q = *p;
    q.planes = 1;
    q.channels = planes;
    q.turned = 0;
    plan(&q);
    return q;
}

/* x, outputs and indices of a unit */
INLINE size_t turned_bytes(const pool_plan *p) { return 8 * (size_t)(p->turned * (cells_in(p) + 2 * cells_out(p))); }

static void plan_turned(pool_plan *p, void (*plan)(pool_plan *))
{
    p->turned = planes_turned(p);
    if (p->turned == 0) {
        plan(p);
        return;
    }
    p->units = ceil_div(p->planes, p->turned);
    p->block = most(1, BLOCK_CELLS / (most(cells_in(p), cells_out(p)) * p->turned));
    p->bytes = turned_bytes(p) + plan_of_unit(p, p->turned, plan).bytes;
}

/* whether rows of pairs or threes are long enough to be folded faster in registers than turned, with vectors of any width */
INLINE int is_long(const pool_plan *p)
{
    return in_pairs(p) ? p->w.out >= 8 : in_threes(p) && p->w.out >= (p->w.stride == 2 ? 14 : 32);
}

static void plan_unless(int as_laid, pool_plan *p, void (*plan)(pool_plan *))
{
    p->turned = 0;
    if (as_laid)
        plan(p);
    else
        plan_turned(p, plan);
}

static void plan_forward(pool_plan *p) { plan_unless(is_long(p), p, plan_as_laid); }

/* avg_pool: threes are summed in doubles, of which short vectors hold few, but few planes of so many cells are turned at once */
static void plan_average(pool_plan *p)
{
    plan_unless(is_long(p) && (in_pairs(p) || SIMD_BYTES == 64 || (p->w.stride == 2 && p->w.out >= 20)), p, plan_as_laid);
}

/* avg_pool_backward: units are rows of x */
static void plan_rows_back(pool_plan *p)
{
    const pool_axis *w = &p->w;
    if (plan_whole(p))
        return;
    p->pairs = in_pairs(p) && p->d.kernel && p->h.kernel;
    cut_channels(p, MOST_CHUNK);
    p->segments = w->kernel == 0 || reach(w) > MOST_LINE / 2 / p->chunk ||
                  (w->stride > 1 && (p->chunk >= p->lanes || w->stride > MOST_PHASES));
    ptrdiff_t room = most(1, LINE / p->chunk);
    p->tile = least(w->in, room);
    p->tiles = ceil_div(w->in, p->tile);
    p->line = p->tile;
    p->phases = p->segments ? 0 : w->stride;
    p->back = p->segments ? least(2 * room, w->out) : p->tile / w->stride + 2 + (reach(w) - 1) / w->stride;
    p->phase = p->segments ? 0 : (p->tile / w->stride + 2) * p->chunk + SLACK;
    p->bytes = 8 * (size_t)(p->line * p->chunk + 2 * p->back * p->chunk + p->phases * p->phase +
                            (p->segments ? 3 * (p->back + p->tile) : w->kernel) + 3 * SLACK);
    ptrdiff_t over = p->d.kernel ? ceil_div(p->d.kernel, p->d.stride) : p->d.out / p->d.in + 2;
    over *= p->h.kernel ? ceil_div(p->h.kernel, p->h.stride) : p->h.out / p->h.in + 2;
    cut_blocks(p, p->planes * p->d.in * p->h.in, (1 + over) * p->tile * p->chunk);
}

static void plan_backward(pool_plan *p) { plan_unless(in_pairs(p) && is_long(p), p, plan_rows_back); }

/* whether gradients of the maximum are gathered row by row, and the ring of rows that it takes. Comparing pays for long rows, and where
 * phases are laid together in vectors */
static void plan_gather(pool_plan *p)
{
    p->gathered = !p->segments && p->tiles == 1 && p->d.in == 1 && p->d.out == 1 && p->h.kernel && p->w.kernel &&
                  p->h.kernel * p->w.kernel <= MOST_GATHERED &&
                  (p->by_pixel ? p->chunk >= p->lanes && (p->channels % p->chunk == 0 || p->channels % p->chunk >= p->lanes) : p->w.out * p->chunk >= 32 && (p->phases <= 2 || p->chunk > 1));
    if (!p->gathered)
        return;
    ptrdiff_t held = (reach(&p->h) - 1) / p->h.stride + 1;
    p->far = p->by_pixel ? 0 : (reach(&p->w) - 1) / p->phases * p->chunk;
    p->slot = p->tile * p->chunk + 2 * p->far + SLACK;
    for (p->ring = 1; p->ring < held || (p->ring < 16 + held && p->ring * p->slot <= LINE / 2);)
        p->ring *= 2;
    p->ahead = p->ring - held;
    p->gathered = p->ring * p->slot <= MOST_LINE;
    p->bytes = 8 * (size_t)(forward_cells(p) + 2 * p->ring * p->slot + 3 * p->tile + 3 * p->w.in);
}

/* whether no cell is in two windows */
INLINE int is_apart(const pool_axis *a) { return a->kernel > 0 && a->kernel <= a->stride && a->dilation == 1; }

/* whether the gradients of threes are made in strips, whose sums are kept of as many rows as a window has */
static int plan_strips(pool_plan *p)
{
    p->strips = !p->apart && p->threes && p->d.in == 1 && p->d.out == 1 && p->h.kernel >= 1 && p->h.kernel <= STRIP_ROWS &&
                (p->h.dilation == 1 || p->h.kernel == 1) && p->tiles == 1 && p->w.in <= LINE;
    if (!p->strips)
        return 0;
    p->phases = p->w.stride;
    p->phase = p->slot = ceil_div(most(p->w.out, ceil_div(p->w.in + p->w.before, p->phases)), 16) * 16 + SLACK; /* whole lines of cache */
    p->bytes = 8 * (size_t)((STRIP_RING + STRIP_SUMS + 1) * p->phases * p->slot);
    return 1;
}

/* whether every cell between the first window and the last is in one */
INLINE int is_gapless(const pool_axis *a) { return a->kernel == 0 || (a->stride <= a->kernel && (a->dilation == 1 || a->kernel == 1)); }

static int plan_patches(pool_plan *p)
{
    p->patches = p->chunk >= p->lanes && widest(&p->d) * widest(&p->h) * widest(&p->w) <= MOST_PATCH && is_gapless(&p->d) &&
                 is_gapless(&p->h) && is_gapless(&p->w);
    if (p->patches)
        p->bytes = 0;
    return p->patches;
}

/* a unit of turned planes: in patches of the sizes that are unrolled, where most windows lie inside of x or share cells. With short
 * vectors their places are found as fast */
static void plan_patches_turned(pool_plan *p)
{
    ptrdiff_t kernel = p->w.kernel;
    plan_tiles(p, 4 * LINE, 64);
    p->patches = SIMD_BYTES > 16 && p->d.in == 1 && p->h.kernel == kernel && (kernel == 2 || (kernel == 3 && p->w.stride < 3)) &&
                 (cells_in(p) >= FEWEST_PATCHED || (p->h.stride == 1 && p->w.stride == 1)) && plan_patches(p);
}

/* gradients of the maximum of small planes, turned: in patches, or where the maxima of the forward stand */
static int plan_turned_back(pool_plan *p)
{
    int as_laid = in_pairs(p) ? p->w.out >= 16 : in_threes(p) && (p->w.stride == 1 ? is_long(p) : p->w.out >= 28);
    p->turned = as_laid ? 0 : planes_turned(p);
    if (p->turned == 0)
        return 0;
    p->patches = plan_of_unit(p, p->turned, plan_patches_turned).patches;
    if (!p->patches) {
        plan_turned(p, plan_as_laid);
        return 1;
    }
    p->units = ceil_div(p->planes, p->turned);
    p->block = most(1, BLOCK_CELLS / (cells_in(p) * p->turned));
    p->bytes = 8 * (size_t)(p->turned * (2 * cells_in(p) + cells_out(p)));
    return 1;
}

/* gradients of the maximum: a unit is a part of a plane (of a chunk of its channels), which its worker owns */
static void plan_parts(pool_plan *p)
{
    if (plan_turned_back(p) || plan_whole(p))
        return;
    plan_tiles(p, 4 * LINE, 64);
    const pool_axis *a = p->d.in > 1 ? &p->d : p->h.in > 1 ? &p->h : &p->w;
    ptrdiff_t whole = p->planes * p->chunks, cells = cells_in(p) * p->chunk;
    p->parts = whole >= 16 || whole == 0 ? 1 : least(16 / whole, cells / BLOCK_CELLS);
    ptrdiff_t overlap = a->kernel ? 4 * reach(a) : 4 * (a->in / a->out + 2);
    p->part = most(ceil_div(a->in, most(1, p->parts)), overlap);
    p->parts = ceil_div(a->in, p->part);
    p->units = whole * p->parts;
    p->block = p->parts > 1 ? 1 : most(1, BLOCK_CELLS / cells);
    p->apart = p->pairs && is_apart(&p->d) && is_apart(&p->h) && (p->d.in > 1 || p->h.in > 1 || p->parts == 1);
    if (!plan_strips(p) && !plan_patches(p) && !p->apart)
        plan_gather(p);
}

/* the same from indices, which may lie anywhere in a plane: a unit is a plane (of a chunk of its channels), or several */
static void plan_scatter(pool_plan *p)
{
    p->turned = 0;
    if (plan_whole(p))
        return;
    plan_tiles(p, 4 * LINE, 64);
    plan_gather(p);
    p->gathered = p->gathered && p->h.dilation == 1 && p->w.dilation == 1 && p->channels > 1 && cells_in(p) <= INT32_MAX / 4 &&
                  p->h.kernel <= p->h.stride && p->w.kernel <= p->w.stride; /* else scattering is as fast */
    p->abreast = p->channels == 1 && p->planes >= 16 ? ABREAST : 1;
    p->units = ceil_div(p->planes, p->abreast) * p->chunks;
    p->block = most(1, BLOCK_CELLS / (cells_in(p) * p->chunk * p->abreast));
    p->bytes = p->gathered ? p->bytes : 0;
}

/* one worker: `work` on blocks of units until none is left */
INLINE ptrdiff_t blocks_of(const pool_plan *p) { return ceil_div(p->units, p->block); }

static void work_blocks(pool_plan *p, pool_work work, void *memory)
{
    for (;;) {
        ptrdiff_t b = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED);
        if (b >= blocks_of(p))
            return;
        work(p, b * p->block, least((b + 1) * p->block, p->units), memory);
    }
}
#endif
