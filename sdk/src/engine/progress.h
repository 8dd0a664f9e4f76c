/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress of a context: polling its transports and sleeping until something happens.
 */
#ifndef HG_ENGINE_PROGRESS_H
#define HG_ENGINE_PROGRESS_H

#include "engine/context.h"

/*
 * How long HG_Progress() polls before it sleeps: it adapts between these, of which the upper ones
 * are for messages and for transfers (about 4 MiB on one node). Longer waits bring it down at once.
 */
#define HG_POLL_NS_MIN          1000u
#define HG_POLL_NS_ALONE        50000u /* then others may have the processor in between */
#define HG_POLL_NS_MAX_MESSAGE  150000u
#define HG_POLL_NS_MAX_TRANSFER 600000u

/* Poll all paths once and run NA's callbacks. */
hg_return_t hg_context_poll(hg_context_t *context);

/* To be called by a thread that polled and does not poll on, for those that sleep. */
void hg_context_rearm_sleepers(hg_context_t *context);

static inline void hg_context_rearm(hg_context_t *context)
{
    if (util_unlikely((atomic_load(&context->waiters) & HG_WAITERS_OF_PROGRESS) != 0))
        hg_context_rearm_sleepers(context);
}

#endif /* HG_ENGINE_PROGRESS_H */
