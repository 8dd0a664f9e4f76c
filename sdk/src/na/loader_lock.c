/* SPDX-License-Identifier: BSD-3-Clause */

#include "na/loader_lock.h"

#include "na/fork.h"

static pthread_mutex_t loader_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool is_owner; /* this thread holds loader_mutex */

void na_loader_lock(void)
{
    na_fork_watch();
    (void) pthread_mutex_lock(&loader_mutex);
    is_owner = true;
}

void na_loader_unlock(void)
{
    is_owner = false;
    (void) pthread_mutex_unlock(&loader_mutex);
}

/* A plugin may call fork() while it is being loaded: this thread holds the lock then, and keeps it,
 * in the child as well. */
void na_loader_fork_begin(void)
{
    if (!is_owner)
        (void) pthread_mutex_lock(&loader_mutex);
}

void na_loader_fork_end(void)
{
    if (!is_owner)
        (void) pthread_mutex_unlock(&loader_mutex);
}
