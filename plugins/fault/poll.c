/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress and waiting. */

#include "fault.h"

int32_t fault_poll(struct na_plugin_context *na_context, uint32_t *count)
{
    struct fault_context *context = fault_context_get(na_context);
    struct fault_class *fault_class = context->fault_class;
    int32_t ret;

    if (!fault_class->has_faults)
        return fault_class->inner->poll(context->inner, count);
    fault_death_close(context);
    if (fault_class->may_defer)
        fault_defer_release(context);
    if (fault_class->options.cancel_fails != 0)
        fault_cancel_due(context);
    (void) pthread_mutex_lock(&fault_class->state);
    fault_timer_update(context);
    (void) pthread_mutex_unlock(&fault_class->state);
    if (!fault_context_enter(context))
        return NA_PLUGIN_SUCCESS;
    ret = fault_class->inner->poll(context->inner, count);
    fault_context_leave(context);
    return ret;
}

int32_t fault_poll_get_fd(struct na_plugin_context *na_context)
{
    const struct fault_context *context = fault_context_get(na_context);
    const struct na_plugin *inner = context->fault_class->inner;

    if (context->fault_class->has_faults)
        return context->epoll_fd;
    return inner->poll_get_fd != NULL ? inner->poll_get_fd(context->inner) : -1;
}

uint32_t fault_poll_try_wait(struct na_plugin_context *na_context)
{
    struct fault_context *context = fault_context_get(na_context);
    struct fault_class *fault_class = context->fault_class;
    const struct na_plugin *inner = fault_class->inner;
    uint32_t safe;

    if (fault_class->has_faults && fault_timer_is_due(context))
        return 0;
    if (inner->poll_try_wait == NULL || !fault_context_enter(context))
        return 1;
    safe = inner->poll_try_wait(context->inner);
    fault_context_leave(context);
    return safe;
}
