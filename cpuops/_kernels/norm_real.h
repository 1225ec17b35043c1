/* norm_real.h: normalisation for one scalar type. Included by norm.h only, which has the formulas. */

#include "norm_runs_real.h"
#include "norm_rows_real.h"
#include "norm_channels_real.h"
#include "norm_columns_real.h"

/* ---- batch normalisation: by channels or by columns */

static void FN(batch_cut)(norm_plan *p)
{
    p->columnwise = p->run < LONG_RUN;
    if (p->columnwise)
        FN(columns_cut)(p);
    else
        FN(channels_cut)(p);
}

static int FN(batch_forward_stage)(norm_plan *p) { return p->columnwise ? FN(columns_forward_stage)(p) : FN(channels_forward_stage)(p); }

static void FN(batch_forward)(const norm_plan *p, ptrdiff_t unit)
{
    if (p->columnwise)
        FN(columns_forward)(p, unit);
    else
        FN(channels_forward)(p, unit);
}

static int FN(batch_backward_stage)(norm_plan *p) { return p->columnwise ? FN(columns_backward_stage)(p) : FN(channels_backward_stage)(p); }

static void FN(batch_backward)(const norm_plan *p, ptrdiff_t unit)
{
    if (p->columnwise)
        FN(columns_backward)(p, unit);
    else
        FN(channels_backward)(p, unit);
}

#undef XHAT
#undef MOMENT
#undef XHAT_WIDE
#undef COLUMN_XHAT
