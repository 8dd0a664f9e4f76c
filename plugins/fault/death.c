/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Death of the endpoint: the wrapped contexts are closed, so that peers see it as dead. Our
 * operations with a peer fail; receives of unexpected messages wait until they are cancelled.
 */

#include "fault.h"

bool fault_death_count(struct fault_class *fault_class)
{
    const uint64_t limit = fault_class->options.die_after;

    if (limit == 0 || atomic_fetch_add(&fault_class->posted, 1) < limit)
        return true;
    if (!atomic_exchange(&fault_class->dying, true)) {
        FAULT_INFO("the endpoint dies after %llu operations", (unsigned long long) limit);
        (void) pthread_mutex_lock(&fault_class->state);
        for (struct kit_link *at = kit_list_first(&fault_class->contexts); at != NULL;
             at = kit_list_next(&fault_class->contexts, at))
            fault_timer_update(kit_container(at, struct fault_context, link));
        (void) pthread_mutex_unlock(&fault_class->state);
    }
    return false;
}

void fault_death_close(struct fault_context *context)
{
    struct fault_class *fault_class = context->fault_class;

    if (!atomic_load(&fault_class->dying) || atomic_load(&context->gone) ||
        pthread_rwlock_trywrlock(&context->gate) != 0)
        return;
    if (!atomic_load(&context->gone)) {
        (void) pthread_mutex_lock(&fault_class->state);
        context->closing = true;
        (void) pthread_mutex_unlock(&fault_class->state);
        fault_defer_drain(context, NA_PLUGIN_HOSTUNREACH);
        (void) fault_class->inner->context_stop(context->inner);
        fault_timer_forget_inner(context);
        (void) fault_class->inner->context_destroy(context->inner);
        atomic_store(&context->gone, true);
    }
    (void) pthread_rwlock_unlock(&context->gate);
}
