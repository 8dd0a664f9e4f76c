/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating, stopping and destroying contexts. */

#include "fault.h"

static void context_list(struct fault_context *context, bool is_open);
static void drain_unmatched(struct fault_context *context);

int32_t fault_context_create(struct na_plugin_class *na_class, struct na_host_context *host_context,
                             uint32_t id, struct na_plugin_context **context_p)
{
    struct fault_class *fault_class = fault_class_get(na_class);
    struct fault_context *context = kit_host->mem_alloc(sizeof(*context), 0);
    int32_t ret;

    if (context == NULL)
        return NA_PLUGIN_NOMEM;
    context->fault_class = fault_class;
    context->id = id;
    context->epoll_fd = context->inner_fd = context->timer_fd = -1;
    context->armed_ns = UINT64_MAX;
    fault_paths_init(&context->own_paths);
    context->paths = fault_class->single_context ? &context->own_paths : &fault_class->paths;
    kit_list_init(&context->cancels);
    kit_list_init(&context->unmatched);
    ret = fault_class->inner->context_create(fault_class->inner_class, host_context, id,
                                             &context->inner);
    if (ret != NA_PLUGIN_SUCCESS || context->inner == NULL) {
        kit_host->mem_free(context);
        return ret != NA_PLUGIN_SUCCESS ? ret : NA_PLUGIN_FAULT;
    }
    if (!fault_timer_open(context)) {
        (void) fault_class->inner->context_stop(context->inner);
        (void) fault_class->inner->context_destroy(context->inner);
        kit_host->mem_free(context);
        return NA_PLUGIN_NOMEM;
    }
    (void) pthread_rwlock_init(&context->gate, NULL);
    context_list(context, true);
    *context_p = (struct na_plugin_context *) (void *) context;
    return NA_PLUGIN_SUCCESS;
}

int32_t fault_context_stop(struct na_plugin_context *na_context)
{
    struct fault_context *context = fault_context_get(na_context);
    struct fault_class *fault_class = context->fault_class;
    int32_t ret = NA_PLUGIN_SUCCESS;

    (void) pthread_mutex_lock(&fault_class->state);
    context->stopped = true;
    (void) pthread_mutex_unlock(&fault_class->state);
    fault_defer_drain(context, NA_PLUGIN_CANCELED);
    if (!atomic_load(&context->gone))
        ret = fault_class->inner->context_stop(context->inner);
    drain_unmatched(context);
    return ret;
}

int32_t fault_context_destroy(struct na_plugin_context *na_context)
{
    struct fault_context *context = fault_context_get(na_context);
    int32_t ret = NA_PLUGIN_SUCCESS;

    context_list(context, false);
    fault_timer_close(context);
    if (!atomic_load(&context->gone))
        ret = context->fault_class->inner->context_destroy(context->inner);
    (void) pthread_rwlock_destroy(&context->gate);
    kit_host->mem_free(context);
    return ret;
}

static void context_list(struct fault_context *context, bool is_open)
{
    struct fault_class *fault_class = context->fault_class;

    (void) pthread_mutex_lock(&fault_class->order);
    (void) pthread_mutex_lock(&fault_class->state);
    if (is_open)
        kit_list_append(&fault_class->contexts, &context->link);
    else
        kit_list_remove(&context->link);
    (void) pthread_mutex_unlock(&fault_class->state);
    (void) pthread_mutex_unlock(&fault_class->order);
}

static void drain_unmatched(struct fault_context *context)
{
    struct fault_class *fault_class = context->fault_class;

    for (;;) {
        struct kit_link *link;

        (void) pthread_mutex_lock(&fault_class->state);
        link = kit_list_first(&context->unmatched);
        (void) pthread_mutex_unlock(&fault_class->state);
        if (link == NULL)
            return;
        fault_op_cancel(kit_container(link, struct fault_op, state_link), false);
    }
}
