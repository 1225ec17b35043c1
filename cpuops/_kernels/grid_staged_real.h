/* grid_staged_real.h: samples with a vector of channels at each cell. Included by grid_sample.h only. */

typedef struct {
    FN(grid_axis) x, y;
    real samples[GRID_TILE * LANES], others[GRID_TILE * LANES]; /* a vector of channels a place */
    real turned[LANES * LANES];
    real *frame;                                                /* x, or its gradient */
    double *sums;                                               /* grid's gradient: 2 a place of the part */
} FN(grid_stage);

static FN(grid_stage) *FN(stage_of)(const grid_plan *p, void *memory)
{
    FN(grid_stage) *s = (FN(grid_stage) *)memory;
    s->frame = (real *)((char *)memory + (sizeof(FN(grid_stage)) + 63) / 64 * 64);
    s->sums = (double *)(s->frame + frame(p) * LANES);
    return s;
}

static void FN(tables)(const grid_plan *p, ptrdiff_t image, ptrdiff_t place, ptrdiff_t n, FN(grid_axis) *x, FN(grid_axis) *y)
{
    const real *grid = (const real *)p->grid + 2 * (image * p->places + place);
    FN(axis_table)(p, grid, n, p->width, x);
    FN(axis_table)(p, grid + 1, n, p->height, y);
    for (ptrdiff_t tap = 0; tap < p->taps; tap++) /* as distances in the frame */
        for (ptrdiff_t k = 0; k < n; k++) {
            x->at[tap][k] = (x->at[tap][k] + 1) * LANES;
            y->at[tap][k] = (y->at[tap][k] + 1) * pitch(p) * LANES;
        }
}

/* channels of x, from plane on, into the frame */
static void FN(stage)(const grid_plan *p, const real *plane, ptrdiff_t channels, real *frame)
{
    ptrdiff_t width = p->width, line = pitch(p) * LANES, cells = p->height * width;
    memset(frame, 0, (size_t)line * sizeof(real));
    memset(frame + (p->height + 1) * line, 0, (size_t)line * sizeof(real));
    for (ptrdiff_t h = 0; h < p->height; h++) {
        real *to = frame + (h + 1) * line;
        vstore(to, vzero());
        vstore(to + (width + 1) * LANES, vzero());
        for (ptrdiff_t w = 0; w < width; w += LANES)
            FN(transpose_tile)(plane + h * width + w, cells, channels, at_most(LANES, width - w), to + (w + 1) * LANES, LANES);
    }
}

/* n vectors of channels to n cells of each plane */
static void FN(unstage)(const real *from, ptrdiff_t n, ptrdiff_t channels, real *plane, ptrdiff_t cells, real *turned)
{
    for (ptrdiff_t k = 0; k < n; k += LANES) {
        if (n - k >= LANES) {
            FN(transpose_tile)(from + k * LANES, LANES, LANES, channels, plane + k, cells);
            continue;
        }
        FN(transpose_tile)(from + k * LANES, LANES, n - k, channels, turned, LANES);
        for (ptrdiff_t c = 0; c < channels; c++)
            vstore_n(plane + c * cells + k, vload(turned + c * LANES), n - k);
    }
}

/* ---- forward: sum of weight_y weight_x x */

INLINE void FN(sample_of)(FN(grid_stage) *s, ptrdiff_t n, int taps)
{
    for (ptrdiff_t k = 0; k < n; k++) {
        vec sum = vzero();
        for (int j = 0; j < taps; j++) {
            const real *row = s->frame + s->y.at[j][k];
            vec line = vset(s->x.weight[0][k]) * vload(row + s->x.at[0][k]);
            for (int i = 1; i < taps; i++)
                line = vfma(vset(s->x.weight[i][k]), vload(row + s->x.at[i][k]), line);
            sum = j == 0 ? vset(s->y.weight[0][k]) * line : vfma(vset(s->y.weight[j][k]), line, sum);
        }
        vstore(s->samples + k * LANES, sum);
    }
}

static void FN(staged_sample)(const grid_plan *p, ptrdiff_t unit, void *memory)
{
    FN(grid_stage) *s = FN(stage_of)(p, memory);
    ptrdiff_t image = unit / p->parts / p->groups, c = unit / p->parts % p->groups * LANES, from = unit % p->parts * p->part;
    ptrdiff_t to = at_most(from + p->part, p->places), channels = at_most(LANES, p->channels - c);
    FN(stage)(p, (const real *)p->x + (image * p->channels + c) * p->height * p->width, channels, s->frame);
    real *out = (real *)p->out + (image * p->channels + c) * p->places;
    for (ptrdiff_t place = from; place < to; place += GRID_TILE) {
        ptrdiff_t n = at_most(GRID_TILE, to - place);
        FN(tables)(p, image, place, n, &s->x, &s->y);
#define CALL(taps) FN(sample_of)(s, n, taps)
        BY_TAPS(p->taps, CALL)
#undef CALL
        FN(unstage)(s->samples, n, channels, out + place, p->places, s->turned);
    }
}

/* ---- x's gradient: each sample's g, spread by the same weights */

/* a tile of g, a vector of channels a place */
static void FN(gather_g)(const grid_plan *p, const real *g, ptrdiff_t n, ptrdiff_t channels, real *to)
{
    for (ptrdiff_t k = 0; k < n; k += LANES)
        FN(transpose_tile)(g + k, p->places, channels, at_most(LANES, n - k), to + k * LANES, LANES);
}

INLINE void FN(spread_of)(FN(grid_stage) *s, ptrdiff_t n, int taps)
{
    for (ptrdiff_t k = 0; k < n; k++) {
        vec g = vload(s->samples + k * LANES);
        for (int j = 0; j < taps; j++) {
            real *row = s->frame + s->y.at[j][k];
            vec part = vset(s->y.weight[j][k]) * g;
            for (int i = 0; i < taps; i++) {
                real *cell = row + s->x.at[i][k];
                vstore(cell, vfma(vset(s->x.weight[i][k]), part, vload(cell)));
            }
        }
    }
}

static void FN(staged_x_gradient)(const grid_plan *p, ptrdiff_t unit, void *memory)
{
    FN(grid_stage) *s = FN(stage_of)(p, memory);
    ptrdiff_t image = unit / p->groups, c = unit % p->groups * LANES, channels = at_most(LANES, p->channels - c);
    ptrdiff_t cells = p->height * p->width;
    const real *g = (const real *)p->g + (image * p->channels + c) * p->places;
    real *out = (real *)p->out + (image * p->channels + c) * cells;
    memset(s->frame, 0, (size_t)(frame(p) * LANES) * sizeof(real));
    for (ptrdiff_t place = 0; place < p->places; place += GRID_TILE) {
        ptrdiff_t n = at_most(GRID_TILE, p->places - place);
        FN(tables)(p, image, place, n, &s->x, &s->y);
        FN(gather_g)(p, g + place, n, channels, s->samples);
#define CALL(taps) FN(spread_of)(s, n, taps)
        BY_TAPS(p->taps, CALL)
#undef CALL
    }
    for (ptrdiff_t h = 0; h < p->height; h++)
        FN(unstage)(s->frame + ((h + 1) * pitch(p) + 1) * LANES, p->width, channels, out + h * p->width, cells, s->turned);
}

/* ---- the grid's gradient: sum over channels of g sum of slope_x weight_y x, and of weight_x slope_y x */

INLINE void FN(lean_of)(FN(grid_stage) *s, ptrdiff_t n, int taps)
{
    for (ptrdiff_t k = 0; k < n; k++) {
        vec along_x = vzero(), along_y = vzero(), g = vload(s->samples + k * LANES);
        for (int j = 0; j < taps; j++) {
            const real *row = s->frame + s->y.at[j][k];
            vec v = vload(row + s->x.at[0][k]), line = vset(s->x.weight[0][k]) * v, lean = vset(s->x.slope[0][k]) * v;
            for (int i = 1; i < taps; i++) {
                v = vload(row + s->x.at[i][k]);
                line = vfma(vset(s->x.weight[i][k]), v, line);
                lean = vfma(vset(s->x.slope[i][k]), v, lean);
            }
            along_x = j == 0 ? vset(s->y.weight[0][k]) * lean : vfma(vset(s->y.weight[j][k]), lean, along_x);
            along_y = j == 0 ? vset(s->y.slope[0][k]) * line : vfma(vset(s->y.slope[j][k]), line, along_y);
        }
        vstore(s->samples + k * LANES, g * along_x);
        vstore(s->others + k * LANES, g * along_y);
    }
}

/* the sum of each place's lanes, added to every second of sums */
static void FN(add_lanes)(const real *from, ptrdiff_t n, double *sums, real *turned)
{
    for (ptrdiff_t k = 0; k < n; k += LANES) {
        ptrdiff_t here = at_most(LANES, n - k);
        FN(transpose_tile)(from + k * LANES, LANES, here, LANES, turned, LANES);
        for (ptrdiff_t half = LANES / 2; half; half /= 2)
            for (ptrdiff_t c = 0; c < half; c++)
                vstore(turned + c * LANES, vload(turned + c * LANES) + vload(turned + (c + half) * LANES));
        for (ptrdiff_t i = 0; i < here; i++)
            sums[2 * (k + i)] += (double)turned[i];
    }
}

static void FN(staged_grid_gradient)(const grid_plan *p, ptrdiff_t unit, void *memory)
{
    FN(grid_stage) *s = FN(stage_of)(p, memory);
    ptrdiff_t image = unit / p->parts, from = unit % p->parts * p->part, to = at_most(from + p->part, p->places);
    memset(s->sums, 0, (size_t)(to - from) * 2 * sizeof(double));
    for (ptrdiff_t c = 0; c < p->channels; c += LANES) {
        ptrdiff_t channels = at_most(LANES, p->channels - c), plane = image * p->channels + c;
        FN(stage)(p, (const real *)p->x + plane * p->height * p->width, channels, s->frame);
        for (ptrdiff_t place = from; place < to; place += GRID_TILE) {
            ptrdiff_t n = at_most(GRID_TILE, to - place);
            double *sums = s->sums + 2 * (place - from);
            FN(tables)(p, image, place, n, &s->x, &s->y);
            FN(gather_g)(p, (const real *)p->g + plane * p->places + place, n, channels, s->samples);
#define CALL(taps) FN(lean_of)(s, n, taps)
            BY_TAPS(p->taps, CALL)
#undef CALL
            FN(add_lanes)(s->samples, n, sums, s->turned);
            FN(add_lanes)(s->others, n, sums + 1, s->turned);
        }
    }
    real *out = (real *)p->out + 2 * (image * p->places + from);
    for (ptrdiff_t k = 0; k < 2 * (to - from); k++)
        out[k] = (real)s->sums[k];
}
