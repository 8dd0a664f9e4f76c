/* SPDX-License-Identifier: BSD-3-Clause */

#include "na/loader_lock.h"

#include "na/fork.h"

static pthread_mutex_t loader_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool loader_is_mine; /* this thread holds it */
void na_loader_lock(void)
{
    na_fork_watch();
    (void) pthread_mutex_lock(&loader_mutex);
    loader_is_mine = true;
}

void na_loader_unlock(void)
{
    loader_is_mine = false;
    (void) pthread_mutex_unlock(&loader_mutex);
}

/* A plugin that is being loaded may fork itself: then the child goes on with the lock. */
void na_loader_fork_begin(void)
{
    if (!loader_is_mine)
        (void) pthread_mutex_lock(&loader_mutex);
}

void na_loader_fork_end(void)
{
    if (!loader_is_mine)
        (void) pthread_mutex_unlock(&loader_mutex);
}
