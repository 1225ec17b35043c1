/* conv_finish_real.h: the body of conv_finish.h for one scalar type. */

/* what a sum is raised to as it is stored, by max(floor, sum): relu takes 0, unless the sum itself is wanted */
INLINE real FN(conv_floor)(const conv_call *call)
{
    return call->activation == ACTIVATION_RELU && !call->apart ? 0 : -(real)INFINITY;
}

/* finished sums of `count` positions of a row, of `channels` output channels, the first of them at out */
INLINE void FN(conv_finish)(const conv_call *call, real *out, ptrdiff_t channels, ptrdiff_t count)
{
    const conv_job *j = call->job;
    if (call->activation == ACTIVATION_NONE)
        return;
    if (j->out_channel == 1 && j->out_axis[2] != 1)
        FN(activate)(call->activation, out, out + call->apart, count, channels, j->out_axis[2]);
    else
        FN(activate)(call->activation, out, out + call->apart, channels, count, j->out_channel);
}

/* the same of `rows` rows, unless they were stored above `floor` */
INLINE void FN(conv_finish_rows)(const conv_call *call, real floor, real *out, ptrdiff_t channels, ptrdiff_t rows, ptrdiff_t count)
{
    const ptrdiff_t apart = call->job->out_axis[1];
    if (floor == 0)
        return;
    if (count * call->job->out_axis[2] == apart) /* one row after the other */
        count *= rows, rows = 1;
    for (ptrdiff_t y = 0; y < rows; y++)
        FN(conv_finish)(call, out + y * apart, channels, count);
}
