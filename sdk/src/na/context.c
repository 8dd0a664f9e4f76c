/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation and destruction of contexts. */

#include "na/context.h"

#include "na/completion.h"
#include "na/log.h"
#include "na/signals.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static na_return_t context_open(struct na_context *context);
static void context_close(struct na_context *context);
static bool context_link(struct na_context *context);
static void context_unlink(struct na_context *context);
static void context_open_wait(struct na_context *context);
static void context_stop(struct na_context *context);
static void context_trigger_canceled(struct na_context *context);
static void context_keep_counters(struct na_context *context);

na_context_t *NA_Context_create(na_class_t *na_class)
{
    return NA_Context_create_id(na_class, 0);
}

na_context_t *NA_Context_create_id(na_class_t *na_class, uint8_t id)
{
    struct na_context *context;
    void *block = NULL;

    if (na_class_fork_refused(na_class, __func__))
        return NULL;
    if (na_class == NULL || id >= na_class->max_contexts) {
        NA_LOG_ERROR(
            "class is %p, context id is %u; pass an open class, and an id below max_contexts of "
            "its init info (%u)",
            (void *) na_class, id, na_class != NULL ? na_class->max_contexts : 0);
        return NULL;
    }
    if (posix_memalign(&block, _Alignof(struct na_context), sizeof(struct na_context)) != 0) {
        NA_LOG_ERROR("no memory for a context of %zu bytes", sizeof(struct na_context));
        return NULL;
    }
    memset(block, 0, sizeof(struct na_context));
    context = block;
    context->na_class = na_class;
    context->id = id;
    context->single_consumer = na_class->single_context || na_class->is_alone;
    context->is_alone = na_class->is_alone;
    context->wait_fd = context->wake_fd = -1;
    mpsc_queue_init(&context->queue);
    if (!context_link(context)) {
        NA_LOG_ERROR("context id %u is in use; destroy that context first, or take another id", id);
        free(context);
        return NULL;
    }
    if (context_open(context) != NA_SUCCESS) {
        context_unlink(context);
        free(context);
        return NULL;
    }
    return context;
}

na_return_t NA_Context_destroy(na_class_t *na_class, na_context_t *context)
{
    if (na_class_fork_refused(context != NULL ? context->na_class : NULL, __func__))
        return NA_PERMISSION;
    if (context == NULL)
        return NA_SUCCESS;
    if (na_class == NULL || context->na_class != na_class) {
        NA_LOG_ERROR("context %p is not of class %p; pass its own class", (void *) context,
                     (void *) na_class);
        return NA_INVALID_ARG;
    }
    if (context->stopped) {
        NA_LOG_ERROR("cannot destroy context %u: it is being destroyed, and this is one of its "
                     "callbacks",
                     context->id);
        return NA_BUSY;
    }
    if (!mpsc_queue_is_empty(&context->queue)) {
        NA_LOG_ERROR("cannot destroy context %u: completions wait; call NA_Trigger() until it "
                     "finds nothing",
                     context->id);
        return NA_BUSY;
    }
    context->stopped = true;
    context_stop(context);
    context_trigger_canceled(context);
    context_close(context);
    context_keep_counters(context);
    context_unlink(context);
    free(context);
    return NA_SUCCESS;
}

unsigned int NA_Context_get_completion_count(const na_context_t *context)
{
    return context != NULL ? mpsc_queue_count((struct mpsc_queue *) (uintptr_t) &context->queue)
                           : 0;
}

void na_context_wake(struct na_context *context)
{
    const uint64_t one = 1;
    ssize_t written;

    if (mpsc_queue_is_empty(&context->queue))
        return;
    if (context->na_class->table.wake != NULL)
        context->na_class->table.wake(context->plugin_context);
    if (context->wake_fd >= 0) {
        written = write(context->wake_fd, &one, sizeof(one));
        (void) written; /* fails only if the eventfd is readable already */
    }
}

static na_return_t context_open(struct na_context *context)
{
    struct na_class *na_class = context->na_class;
    na_return_t ret = na_event_pool_init(&context->pool);
    int32_t status;

    if (ret != NA_SUCCESS) {
        NA_LOG_ERROR("no memory for the events of a context");
        return ret;
    }
    na_signals_enter();
    status = na_class->table.context_create(na_class->plugin_class,
                                            (struct na_host_context *) (void *) context,
                                            context->id, &context->plugin_context);
    na_signals_leave();
    ret = na_return_from_plugin(status);
    if (ret == NA_SUCCESS && context->plugin_context == NULL)
        ret = NA_FAULT;
    if (ret != NA_SUCCESS) {
        NA_LOG_ERROR("plugin %s cannot create context %u: %s", na_class->transport->name,
                     context->id, NA_Error_to_string(ret));
        na_event_pool_destroy(&context->pool);
        return ret;
    }
    context_open_wait(context);
    return NA_SUCCESS;
}

static void context_close(struct na_context *context)
{
    struct na_class *na_class = context->na_class;
    int32_t status = na_class->table.context_destroy(context->plugin_context);

    if (status != NA_PLUGIN_SUCCESS)
        NA_LOG_WARNING("plugin %s had trouble destroying context %u: %s", na_class->transport->name,
                       context->id, NA_Error_to_string(na_return_from_plugin(status)));
    if (context->wake_fd >= 0)
        (void) close(context->wake_fd);
    na_event_pool_destroy(&context->pool);
}

/* Adds the context to its class. Returns false if the id is in use. */
static bool context_link(struct na_context *context)
{
    struct na_class *na_class = context->na_class;
    bool unused = true;

    pthread_mutex_lock(&na_class->mutex);
    for (struct na_context *other = na_class->contexts; other != NULL; other = other->next)
        unused = unused && other->id != context->id;
    if (unused) {
        context->next = na_class->contexts;
        na_class->contexts = context;
    }
    pthread_mutex_unlock(&na_class->mutex);
    return unused;
}

static void context_unlink(struct na_context *context)
{
    struct na_class *na_class = context->na_class;
    struct na_context **link = &na_class->contexts;

    pthread_mutex_lock(&na_class->mutex);
    while (*link != NULL && *link != context)
        link = &(*link)->next;
    if (*link != NULL)
        *link = context->next;
    pthread_mutex_unlock(&na_class->mutex);
}

/* For a plugin without poll_wait, NA_Poll_wait() sleeps on the plugin's descriptor and on an
 * eventfd, to which na_context_wake() writes. */
static void context_open_wait(struct na_context *context)
{
    const struct na_plugin *table = &context->na_class->table;

    if (context->na_class->no_block || table->poll_wait != NULL || table->poll_get_fd == NULL)
        return;
    context->wait_fd = table->poll_get_fd(context->plugin_context);
    if (context->wait_fd >= 0)
        context->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void context_stop(struct na_context *context)
{
    struct na_class *na_class = context->na_class;
    int32_t status = na_class->table.context_stop(context->plugin_context);
    unsigned int left;

    if (status != NA_PLUGIN_SUCCESS)
        NA_LOG_WARNING("plugin %s had trouble stopping context %u: %s", na_class->transport->name,
                       context->id, NA_Error_to_string(na_return_from_plugin(status)));
    left = na_op_force_all(na_class, context);
    if (left > 0)
        NA_LOG_WARNING("plugin %s left %u operations outstanding when context %u was stopped; "
                       "canceled without it, report it to the plugin's maker",
                       na_class->transport->name, left, context->id);
}

/* Runs the callbacks of the operations that stopping the context has canceled. */
static void context_trigger_canceled(struct na_context *context)
{
    while (!mpsc_queue_is_empty(&context->queue))
        (void) NA_Trigger(context, UINT_MAX, NULL);
}

static void context_keep_counters(struct na_context *context)
{
    struct na_class_counters *counters = &context->na_class->counters;

    atomic_fetch_add(&counters->completed, atomic_load(&context->completed));
    atomic_fetch_add(&counters->failed, atomic_load(&context->failed));
    atomic_fetch_add(&counters->canceled, atomic_load(&context->canceled));
}
