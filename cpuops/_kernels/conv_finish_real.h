/* conv_finish_real.h: the body of conv_finish.h for one scalar type. */

/* `count` positions of a row, of `channels` output channels, the first of them at out: which of the two are side by side */
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
