/* SPDX-License-Identifier: BSD-3-Clause */
/* Lost peers. A plugin reports one while it holds locks, so the report is queued, and the program's
 * callback runs after the next poll. */

#include "na/peer_lost.h"

#include "na/log.h"
#include "na_ext.h"

#include <stdlib.h>

static void lost_add(void *arg, struct na_plugin_addr *addr, int32_t status);
static struct na_lost *lost_get(struct na_class *na_class);
static void lost_put(struct na_class *na_class, struct na_lost *lost);
static struct na_lost *lost_take(struct na_class *na_class, na_peer_lost_cb_t *callback_p,
                                 void **arg_p);

na_return_t NA_Class_set_peer_lost(na_class_t *na_class, na_peer_lost_cb_t callback, void *arg)
{
    const struct na_plugin_peer_events *events;
    int32_t status = NA_PLUGIN_OPNOTSUPPORTED;

    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (na_class == NULL) {
        NA_LOG_ERROR("class is NULL; pass an open one");
        return NA_INVALID_ARG;
    }
    events = &na_class->transport->peer_events;
    pthread_mutex_lock(&na_class->lost_mutex);
    na_class->lost_callback = callback;
    na_class->lost_arg = arg;
    pthread_mutex_unlock(&na_class->lost_mutex);
    if (events->peer_events_set != NULL)
        status = events->peer_events_set(na_class->plugin_class, callback != NULL ? lost_add : NULL,
                                         na_class);
    return callback != NULL ? na_return_from_plugin(status) : NA_SUCCESS;
}

/* Takes one report at a time, because a callback may replace or remove the callback. */
UTIL_COLD void na_peer_lost_run(struct na_class *na_class)
{
    na_peer_lost_cb_t callback;
    struct na_lost *lost;
    void *arg;

    while ((lost = lost_take(na_class, &callback, &arg)) != NULL) {
        if (callback != NULL)
            callback(na_class, (na_addr_t *) lost->addr, na_return_from_plugin(lost->status), arg);
        na_class->table.addr_free(na_class->plugin_class, lost->addr);
        lost_put(na_class, lost);
    }
}

void na_peer_lost_end(struct na_class *na_class)
{
    (void) NA_Class_set_peer_lost(na_class, NULL, NULL);
    na_peer_lost_run(na_class);
}

/* Called by the plugin, which may hold locks, so no function of the plugin is called here. */
static void lost_add(void *arg, struct na_plugin_addr *addr, int32_t status)
{
    struct na_class *na_class = arg;
    struct na_lost **end, *lost;

    pthread_mutex_lock(&na_class->lost_mutex);
    lost = lost_get(na_class);
    if (lost == NULL) {
        pthread_mutex_unlock(&na_class->lost_mutex);
        NA_LOG_ERROR("a peer is lost, and there is no memory to say so: its address stays");
        return;
    }
    *lost = (struct na_lost){.addr = addr, .status = status};
    for (end = &na_class->lost; *end != NULL; end = &(*end)->next)
        continue;
    *end = lost;
    atomic_store_explicit(&na_class->has_lost, true, memory_order_release);
    pthread_mutex_unlock(&na_class->lost_mutex);
}

/* Allocates a report, or takes an unused entry of the reserve, so that its reference to the address
 * is not leaked if there is no memory. lost_mutex is held. */
static struct na_lost *lost_get(struct na_class *na_class)
{
    struct na_lost *lost = malloc(sizeof(*lost));

    for (uint32_t i = 0; lost == NULL && i < NA_LOST_RESERVE; i++)
        if (na_class->lost_reserve[i].addr == NULL)
            lost = &na_class->lost_reserve[i];
    return lost;
}

static void lost_put(struct na_class *na_class, struct na_lost *lost)
{
    const uintptr_t place = (uintptr_t) lost, reserve = (uintptr_t) na_class->lost_reserve;

    if (place - reserve >= sizeof(na_class->lost_reserve)) {
        free(lost);
        return;
    }
    pthread_mutex_lock(&na_class->lost_mutex);
    lost->addr = NULL;
    pthread_mutex_unlock(&na_class->lost_mutex);
}

/* Returns the first report and the callback to call for it, or NULL if there is no report. */
static struct na_lost *lost_take(struct na_class *na_class, na_peer_lost_cb_t *callback_p,
                                 void **arg_p)
{
    struct na_lost *lost;

    pthread_mutex_lock(&na_class->lost_mutex);
    lost = na_class->lost;
    if (lost != NULL)
        na_class->lost = lost->next;
    atomic_store_explicit(&na_class->has_lost, na_class->lost != NULL, memory_order_relaxed);
    *callback_p = na_class->lost_callback;
    *arg_p = na_class->lost_arg;
    pthread_mutex_unlock(&na_class->lost_mutex);
    return lost;
}
