/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers with memory of a peer's pool (pool.c), which is mapped at the first of them: one copy
 * in user space. Registrations are checked, and puts announced, as with cross-memory attach, of
 * which sm_native_step() is the caller here, too.
 */

#include "sm.h"

#include <string.h>
#include <sys/mman.h>

static const struct sm_pool_view *sm_shared_view(struct na_plugin_addr *peer);
static struct sm_pool_view *sm_shared_map(struct na_plugin_addr *peer);
static void sm_shared_free(struct sm_pool_view *view);
static uint8_t *sm_shared_at(const struct sm_pool_view *view, const void *address, uint64_t size);

/* True if all remote memory of the transfer is in the peer's pool. */
bool sm_shared_available(const struct sm_op *op)
{
    const struct sm_pool_view *view = sm_load_acquire(&op->peer->pool);
    struct sm_cursor cursor;
    uint64_t left = op->size;

    if (view == NULL && (view = sm_shared_view(op->peer)) == NULL)
        return false;
    /* The owner cannot tell whether a writer in another PID namespace is dead. */
    if (view->size == 0 || (op->is_put && !op->peer->same_pid_namespace))
        return false;
    sm_cursor_seek(&cursor, op->remote, op->remote_offset);
    while (left > 0) {
        uint64_t span;
        const void *address = sm_cursor_span(&cursor, left, &span);

        if (sm_shared_at(view, address, span) == NULL)
            return false;
        left -= span;
    }
    return true;
}

/*
 * The memory of a dead peer can still be accessed, and transfers end at once, so that no watch
 * notices the death. So the peer is checked here, now and then. Returns its failure, or 0.
 */
int32_t sm_shared_watch(struct na_plugin_addr *peer)
{
    const uint64_t now = kit_host->clock_ns();

    if (kit_unlikely(now - sm_load(&peer->pool_watched) >= SM_WATCH_NS)) {
        sm_store(&peer->pool_watched, now);
        sm_peer_suspect(peer);
    }
    return sm_peer_failure(peer);
}

/* Copies the next piece of a transfer that is available. */
void sm_shared_piece(struct sm_op *op)
{
    const struct sm_pool_view *view = sm_load_acquire(&op->peer->pool);
    const uint64_t rest = op->size - op->used;
    uint64_t left = rest < SM_RMA_CHUNK ? rest : SM_RMA_CHUNK;
    struct sm_cursor remote, local;

    sm_cursor_seek(&remote, op->remote, op->remote_offset + op->used);
    sm_cursor_seek(&local, op->local, op->local_offset + op->used);
    op->used += left;
    while (left > 0) {
        uint64_t remote_span, span;
        const void *address = sm_cursor_span(&remote, left, &remote_span);
        uint8_t *theirs = sm_shared_at(view, address, remote_span);

        left -= remote_span;
        for (; remote_span > 0; remote_span -= span, theirs += span) {
            void *ours = sm_cursor_span(&local, remote_span, &span);

            if (op->is_put)
                memcpy(theirs, ours, span);
            else
                memcpy(ours, theirs, span);
        }
    }
}

void sm_shared_forget(struct na_plugin_addr *peer)
{
    sm_shared_free(sm_load(&peer->pool));
}

/* Returns the view of the peer's pool, mapped here, or NULL while there is no pool. */
static const struct sm_pool_view *sm_shared_view(struct na_plugin_addr *peer)
{
    struct sm_pool_view *view, *none = NULL;

    if (peer->na_class->force_copy || !sm_peer_mapped(peer) ||
        sm_load_acquire(&peer->base->pool_offset) == 0)
        return NULL;
    view = sm_shared_map(peer);
    if (view == NULL || atomic_compare_exchange_strong_explicit(
                            &peer->pool, &none, view, memory_order_acq_rel, memory_order_acquire))
        return view;
    sm_shared_free(view); /* another thread has mapped it */
    return none;
}

/* Everything in the header is the peer's word: sm_peer_map() checks place and size. */
static struct sm_pool_view *sm_shared_map(struct na_plugin_addr *peer)
{
    const uint64_t offset = sm_load(&peer->base->pool_offset);
    struct sm_pool_view *view = kit_host->mem_alloc(sizeof(*view), 0);
    void *map = NULL;
    int32_t ret;

    if (view == NULL)
        return NULL;
    view->base = peer->base->pool_base;
    view->size = peer->base->pool_size;
    if (!sm_pool_is_allowed(view->size) || !sm_pool_is_lazy())
        ret = NA_PLUGIN_PERMISSION;
    else
        ret = sm_peer_map(peer, offset, view->size, true, &map);
    if (ret == NA_PLUGIN_AGAIN || ret == NA_PLUGIN_NOMEM) { /* perhaps the next time */
        kit_host->mem_free(view);
        return NULL;
    }
    if (ret == NA_PLUGIN_SUCCESS) {
        view->map = map;
        sm_pool_advise(map, view->size);
        SM_LOG_INFO("transfers with memory that %s allocated by its library: one copy", peer->name);
    } else {
        view->size = 0;
        SM_LOG_INFO("the pool of %s cannot be mapped (%s): transfers are slower", peer->name,
                    kit_status_name(ret));
    }
    return view;
}

static void sm_shared_free(struct sm_pool_view *view)
{
    if (view != NULL && view->size != 0)
        (void) munmap(view->map, view->size);
    kit_host->mem_free(view);
}

/* Returns where memory of the peer's process is mapped; NULL if it is not all in the pool. */
static uint8_t *sm_shared_at(const struct sm_pool_view *view, const void *address, uint64_t size)
{
    const uint64_t offset = (uint64_t) (uintptr_t) address - view->base;

    return offset < view->size && size <= view->size - offset ? view->map + offset : NULL;
}
