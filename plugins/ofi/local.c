/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints of one process that are peers of each other through shared memory. The provider has an
 * endpoint use the memory of such a peer directly, also after the peer is closed. So a closed class
 * keeps its libfabric objects until no other endpoint of the process has its address.
 */

#include "ofi.h"

#include <pthread.h>
#include <string.h>

static void ofi_resources_close(struct ofi_resources *resources);
static struct ofi_local *ofi_local_find(const char *name);
static void ofi_local_unlink(struct ofi_local *local);

/* All open or kept endpoints of node-local protocols in this process; under ofi_locals_lock. */
static pthread_mutex_t ofi_locals_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ofi_local *ofi_locals;

static void ofi_fork_before(void)
{
    (void) pthread_mutex_lock(&ofi_list_lock);
    (void) pthread_mutex_lock(&ofi_locals_lock);
}

static void ofi_fork_in_parent(void)
{
    (void) pthread_mutex_unlock(&ofi_locals_lock);
    (void) pthread_mutex_unlock(&ofi_list_lock);
}

/* The endpoints are the parent's: for the child they are in another process. */
static void ofi_fork_in_child(void)
{
    ofi_locals = NULL;
    ofi_fork_in_parent();
}

void ofi_fork_watch(void)
{
    (void) pthread_atfork(ofi_fork_before, ofi_fork_in_parent, ofi_fork_in_child);
}

/* Does nothing for protocols that are not node-local. */
int32_t ofi_local_add(struct na_plugin_class *na_class)
{
    struct ofi_local *local;

    if (!na_class->protocol.node_local)
        return NA_PLUGIN_SUCCESS;
    local = kit_host->mem_alloc(sizeof(*local), 0);
    if (local == NULL)
        return NA_PLUGIN_NOMEM;
    memcpy(local->name, na_class->name, sizeof(local->name));
    (void) pthread_mutex_lock(&ofi_locals_lock);
    local->next = ofi_locals;
    ofi_locals = local;
    (void) pthread_mutex_unlock(&ofi_locals_lock);
    na_class->local = local;
    return NA_PLUGIN_SUCCESS;
}

/* Returns the endpoint of that name, with a reference that ofi_local_put() drops; or NULL. */
struct ofi_local *ofi_local_get(const struct na_plugin_class *na_class, const char *name)
{
    struct ofi_local *local;

    if (!na_class->protocol.node_local)
        return NULL;
    (void) pthread_mutex_lock(&ofi_locals_lock);
    local = ofi_local_find(name);
    if (local != NULL)
        local->references++;
    (void) pthread_mutex_unlock(&ofi_locals_lock);
    return local;
}

void ofi_local_put(struct ofi_local *local)
{
    bool last;

    if (local == NULL)
        return;
    (void) pthread_mutex_lock(&ofi_locals_lock);
    local->references--;
    last = local->references == 0 && local->is_kept;
    if (last)
        ofi_local_unlink(local);
    (void) pthread_mutex_unlock(&ofi_locals_lock);
    if (!last)
        return;
    ofi_resources_close(&local->kept);
    kit_host->mem_free(local);
}

/* Closes the libfabric objects of a class, or keeps them until the last reference is dropped. */
void ofi_local_close(struct ofi_local *local, struct ofi_resources *resources)
{
    bool keep = false;

    if (local != NULL) {
        (void) pthread_mutex_lock(&ofi_locals_lock);
        keep = local->references != 0;
        local->is_kept = keep;
        if (keep)
            local->kept = *resources;
        else
            ofi_local_unlink(local);
        (void) pthread_mutex_unlock(&ofi_locals_lock);
    }
    if (keep)
        return;
    ofi_resources_close(resources);
    kit_host->mem_free(local);
}

/* Closes dependent objects first; those that were never opened are NULL. */
static void ofi_resources_close(struct ofi_resources *resources)
{
    if (resources->endpoint != NULL)
        ofi_close(&resources->endpoint->fid);
    if (resources->receive_mr != NULL)
        ofi_close(&resources->receive_mr->fid);
    if (resources->av != NULL)
        ofi_close(&resources->av->fid);
    if (resources->cq != NULL)
        ofi_close(&resources->cq->fid);
    if (resources->sleep_cq != NULL)
        ofi_close(&resources->sleep_cq->fid);
    if (resources->domain != NULL)
        ofi_close(&resources->domain->fid);
    if (resources->fabric != NULL)
        ofi_close(&resources->fabric->fid);
    fi_freeinfo(resources->info);
    kit_host->mem_free(resources->receive_memory);
    kit_host->mem_free(resources->receives);
}

/* An endpoint that is only kept cannot become a peer. */
static struct ofi_local *ofi_local_find(const char *name)
{
    struct ofi_local *local = ofi_locals;

    while (local != NULL && (local->is_kept || strcmp(local->name, name) != 0))
        local = local->next;
    return local;
}

static void ofi_local_unlink(struct ofi_local *local)
{
    struct ofi_local **link = &ofi_locals;

    while (*link != local)
        link = &(*link)->next;
    *link = local->next;
}
