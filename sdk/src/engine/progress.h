/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress of a context: polling its transports, and sleeping until there is something to do. */
#ifndef HG_ENGINE_PROGRESS_H
#define HG_ENGINE_PROGRESS_H

#include "engine/context.h"

/*
 * How long HG_Progress() polls before it sleeps. The time adapts between the minimum and a maximum
 * for messages or for transfers (about 4 MiB on one node); after a long sleep it is halved.
 */
#define HG_POLL_NS_MIN          1000u
#define HG_POLL_NS_ALONE        50000u /* polling longer than this yields the processor */
#define HG_POLL_NS_MAX_MESSAGE  150000u
#define HG_POLL_NS_MAX_TRANSFER 600000u

/* Poll all paths once and run NA's callbacks, which may queue completions. */
hg_return_t hg_context_poll(hg_context_t *context);

/* Called by a thread that has polled and stops polling, on behalf of the sleeping threads. */
void hg_context_rearm_sleepers(hg_context_t *context);

static inline void hg_context_rearm(hg_context_t *context)
{
    if (util_unlikely((atomic_load(&context->waiters) & HG_WAITERS_OF_PROGRESS) != 0))
        hg_context_rearm_sleepers(context);
}

#endif /* HG_ENGINE_PROGRESS_H */
