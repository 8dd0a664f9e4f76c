/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After a fork() the child has copies of the parent's classes, whose use is refused. All locks are
 * free there, so that the child can open classes of its own. See na/fork.c.
 */
#include "hg/fork.h"

#include "bulk/bulk_registry.h"
#include "hg/generation.h"
#include "hg/lookup.h"

static pthread_once_t hg_fork_once = PTHREAD_ONCE_INIT;

static void hg_fork_register(void);
static void hg_fork_before(void);
static void hg_fork_in_parent(void);
static void hg_fork_in_child(void);

/* Called after the NA class was opened, so that these handlers enclose those of NA. */
void hg_fork_watch(void)
{
    (void) pthread_once(&hg_fork_once, hg_fork_register);
}

static void hg_fork_register(void)
{
    (void) pthread_atfork(hg_fork_before, hg_fork_in_parent, hg_fork_in_child);
}

static void hg_fork_before(void)
{
    (void) pthread_mutex_lock(&hg_classes_lock);
    (void) pthread_mutex_lock(&hg_lookup_lock);
    hg_bulk_registry_lock();
    (void) pthread_mutex_lock(&hg_generation_lock);
}

static void hg_fork_in_parent(void)
{
    (void) pthread_mutex_unlock(&hg_generation_lock);
    hg_bulk_registry_unlock();
    (void) pthread_mutex_unlock(&hg_lookup_lock);
    (void) pthread_mutex_unlock(&hg_classes_lock);
}

static void hg_fork_in_child(void)
{
    hg_forks++;
    hg_bulk_registry_clear();
    hg_fork_in_parent();
}
