/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/context.h"

#include "engine/log.h"
#include "engine/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static hg_return_t hg_context_open_wait(hg_context_t *context);

hg_class_t *HG_Context_get_class(const hg_context_t *context)
{
    return context != NULL ? context->hg_class : NULL;
}

uint8_t HG_Context_get_id(const hg_context_t *context)
{
    return context != NULL ? context->id : 0;
}

hg_return_t HG_Context_set_data(hg_context_t *context, void *data, void (*free_callback)(void *))
{
    if (util_unlikely(!hg_context_is_usable(context)))
        return hg_context_refuse(context, __func__);
    context->data = data;
    context->data_free = free_callback;
    return HG_SUCCESS;
}

void *HG_Context_get_data(const hg_context_t *context)
{
    return context != NULL ? context->data : NULL;
}

/* The transport was opened for max_contexts contexts. */
bool hg_context_id_take(hg_class_t *hg_class, uint32_t *id_p)
{
    const uint32_t max = hg_class->max_contexts > 0 ? hg_class->max_contexts : HG_CONTEXT_IDS;
    const bool is_any = *id_p == HG_CONTEXT_ANY;
    uint32_t id = is_any ? 0 : *id_p;
    bool is_free;

    (void) pthread_mutex_lock(&hg_class->lock);
    while (is_any && id < max && (hg_class->context_ids[id / 64] >> id % 64 & 1) != 0)
        id++;
    is_free = id < max && (hg_class->context_ids[id / 64] >> id % 64 & 1) == 0;
    if (is_free)
        hg_class->context_ids[id / 64] |= UINT64_C(1) << id % 64;
    (void) pthread_mutex_unlock(&hg_class->lock);
    if (is_free)
        *id_p = id;
    else if (id < max)
        HG_LOG_ERROR("cannot create a context with id %" PRIu32 ": there is one; use another id",
                     id);
    else
        HG_LOG_ERROR("cannot create %s context%s: the class was opened for max_contexts %" PRIu32
                     "; set na_init_info.max_contexts in struct hg_init_info to as many as you "
                     "create",
                     is_any ? "another" : "a", is_any ? "" : " with such an id", max);
    return is_free;
}

void hg_context_id_give(hg_class_t *hg_class, uint32_t id)
{
    (void) pthread_mutex_lock(&hg_class->lock);
    hg_class->context_ids[id / 64] &= ~(UINT64_C(1) << id % 64);
    (void) pthread_mutex_unlock(&hg_class->lock);
}

void hg_context_init(hg_context_t *context, hg_class_t *hg_class, uint8_t id)
{
    pthread_condattr_t attr;

    context->hg_class = hg_class;
    context->forks = hg_class->forks;
    context->id = id;
    context->epoll_fd = context->event_fd = -1;
    mpsc_queue_init(&context->queue);
    hg_timers_init(&context->timers);
    (void) pthread_mutex_init(&context->trigger_lock, NULL);
    (void) pthread_condattr_init(&attr);
    (void) pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void) pthread_cond_init(&context->trigger_cond, &attr);
    (void) pthread_condattr_destroy(&attr);
}

void hg_context_fini(hg_context_t *context)
{
    hg_timers_fini(&context->timers);
    (void) pthread_mutex_destroy(&context->trigger_lock);
    (void) pthread_cond_destroy(&context->trigger_cond);
}

hg_return_t hg_context_open(hg_context_t *context)
{
    hg_class_t *hg_class = context->hg_class;
    int i;

    for (i = 0; i < HG_PATH_MAX; i++) {
        if (hg_class->paths[i].na_class == NULL)
            continue;
        context->na_context[i] = NA_Context_create_id(hg_class->paths[i].na_class, context->id);
        if (context->na_context[i] == NULL)
            return HG_NA_ERROR;
    }
    return hg_context_open_wait(context);
}

void hg_context_close(hg_context_t *context)
{
    int i;

    if (context->epoll_fd >= 0)
        (void) close(context->epoll_fd);
    if (context->event_fd >= 0)
        (void) close(context->event_fd);
    for (i = 0; i < HG_PATH_MAX; i++) {
        na_return_t na_return;

        if (context->na_context[i] == NULL)
            continue;
        do {
            (void) NA_Trigger(context->na_context[i], UINT_MAX, NULL);
            na_return =
                NA_Context_destroy(context->hg_class->paths[i].na_class, context->na_context[i]);
        } while (na_return == NA_BUSY);
        if (na_return != NA_SUCCESS)
            HG_LOG_ERROR("destroying the transport's context failed: %s",
                         NA_Error_to_string(na_return));
    }
}

void hg_context_link(hg_context_t *context)
{
    hg_class_t *hg_class = context->hg_class;

    (void) pthread_mutex_lock(&hg_class->lock);
    context->next = hg_class->contexts;
    hg_class->contexts = context;
    (void) pthread_mutex_unlock(&hg_class->lock);
}

/*
 * Open one epoll descriptor over those of the transports and our own. If a transport has no
 * descriptor, epoll_fd stays -1 and progress waits in NA_Poll_wait(), in slices.
 */
static hg_return_t hg_context_open_wait(hg_context_t *context)
{
    hg_class_t *hg_class = context->hg_class;
    int fds[HG_PATH_MAX + 1], count = 0, i;

    atomic_store(&context->poll_ns[HG_POLL_MESSAGE], HG_POLL_NS_MAX_MESSAGE);
    atomic_store(&context->poll_ns[HG_POLL_TRANSFER], HG_POLL_NS_MAX_TRANSFER);
    if (hg_class->is_busy)
        return HG_SUCCESS;
    for (i = 0; i < HG_PATH_MAX; i++) {
        if (context->na_context[i] == NULL)
            continue;
        fds[count] = NA_Poll_get_fd(hg_class->paths[i].na_class, context->na_context[i]);
        if (fds[count++] < 0)
            return HG_SUCCESS;
    }
    context->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    context->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (context->event_fd < 0 || context->epoll_fd < 0) {
        HG_LOG_ERROR(
            "no descriptor to wait on (%s); the limit of descriptors (ulimit -n) may be too "
            "low, or a seccomp filter refuses the call",
            strerror(errno));
        return HG_NOMEM;
    }
    fds[count++] = context->event_fd;
    for (i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};

        if (epoll_ctl(context->epoll_fd, EPOLL_CTL_ADD, fds[i], &event) != 0) {
            HG_LOG_ERROR("cannot wait on descriptor %d of the transport (%s)", fds[i],
                         strerror(errno));
            return HG_IO_ERROR;
        }
    }
    return HG_SUCCESS;
}

hg_return_t UTIL_COLD hg_context_refuse(const hg_context_t *context, const char *function)
{
    if (context != NULL && hg_fork_refuses(context->hg_class, function))
        return HG_PERMISSION;
    HG_LOG_ERROR("%s(): the context is NULL; pass an open one", function);
    return HG_INVALID_ARG;
}
