/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/queue.h"

#include <errno.h>
#include <unistd.h>

void UTIL_COLD hg_context_signal(hg_context_t *context, uint32_t waiters)
{
    if (waiters & HG_WAITER_TRIGGER_MASK) {
        (void) pthread_mutex_lock(&context->trigger_lock);
        (void) pthread_cond_signal(&context->trigger_cond);
        (void) pthread_mutex_unlock(&context->trigger_lock);
    }
    if ((waiters & HG_WAITERS_OF_PROGRESS) != 0 && !atomic_exchange(&context->is_signaled, true)) {
        const uint64_t one = 1;

        while (write(context->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
            ;
    }
}
