/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A child of fork() cannot use UCX if its parent had workers then: UCX would wait for ever for its
 * async thread, which the child does not have.
 */

#include "ucx.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_uint class_count;
static bool is_unusable;

static void fork_before(void);
static void fork_in_parent(void);
static void fork_in_child(void);

void ucx_fork_watch(void)
{
    (void) pthread_atfork(fork_before, fork_in_parent, fork_in_child);
}

/* A class is about to open. Paired with ucx_fork_leave(). */
int32_t ucx_fork_enter(void)
{
    if (is_unusable) {
        UCX_LOG_ERROR("UCX was in use when this process was forked, and cannot be used in it: fork "
                      "before the first class is opened, or execute a program in the child");
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    (void) atomic_fetch_add_explicit(&class_count, 1, memory_order_relaxed);
    return NA_PLUGIN_SUCCESS;
}

void ucx_fork_leave(void)
{
    (void) atomic_fetch_sub_explicit(&class_count, 1, memory_order_relaxed);
}

static void fork_before(void)
{
    (void) pthread_mutex_lock(&ucx_resources_lock);
    (void) pthread_mutex_lock(&ucx_log_lock);
}

static void fork_in_parent(void)
{
    (void) pthread_mutex_unlock(&ucx_log_lock);
    (void) pthread_mutex_unlock(&ucx_resources_lock);
}

static void fork_in_child(void)
{
    is_unusable = is_unusable || atomic_load_explicit(&class_count, memory_order_relaxed) != 0;
    fork_in_parent();
}
