/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of peers: one object for each endpoint that a class knows, found by name and
 * incarnation. A peer without references stays in the table, because its next message needs it
 * again; it is destroyed when it is dead and unreferenced, or with the class.
 */

#include "sm.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SM_PEER_SWEEP 4 /* peers checked for each new one */

static uint32_t sm_peer_hash(const char *name);
static struct na_plugin_addr *sm_peer_find(struct na_plugin_class *na_class, const char *name,
                                           uint64_t incarnation);
static int32_t sm_peer_learn(struct na_plugin_class *na_class, const char *name,
                             struct na_plugin_addr **peer_p);
static struct na_plugin_addr *sm_peer_alloc(struct na_plugin_class *na_class, const char *name,
                                            uint32_t max_contexts);
static int32_t sm_peer_map_base(struct na_plugin_addr *peer,
                                const struct sm_segment_header *header);
static void sm_peer_add(struct na_plugin_class *na_class, struct na_plugin_addr *peer);
static void sm_peer_sweep(struct na_plugin_class *na_class);
static void sm_peer_forget(struct na_plugin_addr *peer);
static void sm_peer_destroy(struct na_plugin_addr *peer);

/*
 * Returns the endpoint at `name` with a reference; if `incarnation` is not 0, only that one. A peer
 * that is known may be dead, unless `check_alive` is set.
 */
int32_t sm_peer_get(struct na_plugin_class *na_class, const char *name, uint64_t incarnation,
                    bool check_alive, struct na_plugin_addr **peer_p)
{
    struct na_plugin_addr *peer = NULL;
    int32_t ret = NA_PLUGIN_SUCCESS;

    kit_lock_take(&na_class->lock);
    if (incarnation != 0)
        peer = sm_peer_find(na_class, name, incarnation);
    if (peer == NULL)
        ret = sm_peer_learn(na_class, name, &peer);
    if (ret == NA_PLUGIN_SUCCESS && incarnation != 0 && peer->header.incarnation != incarnation)
        ret = NA_PLUGIN_NOENTRY;
    if (ret == NA_PLUGIN_SUCCESS && check_alive &&
        (sm_peer_failure(peer) != 0 || !sm_peer_alive(peer)))
        ret = NA_PLUGIN_NOENTRY;
    if (ret == NA_PLUGIN_SUCCESS) {
        sm_peer_hold(peer);
        *peer_p = peer;
    }
    kit_lock_drop(&na_class->lock);
    return ret;
}

/*
 * Returns an absent peer with a reference: no endpoint has the name, so the peer has failed already
 * and its base is zeros.
 */
int32_t sm_peer_get_absent(struct na_plugin_class *na_class, const char *name,
                           struct na_plugin_addr **peer_p)
{
    struct na_plugin_addr *peer;

    kit_lock_take(&na_class->lock);
    peer = sm_peer_find(na_class, name, 0);
    if (peer == NULL && (peer = sm_peer_alloc(na_class, name, SM_MAX_CONTEXTS)) != NULL) {
        sm_store(&peer->failure, NA_PLUGIN_HOSTUNREACH);
        sm_peer_add(na_class, peer);
    }
    if (peer != NULL)
        sm_peer_hold(peer);
    kit_lock_drop(&na_class->lock);
    *peer_p = peer;
    return peer != NULL ? NA_PLUGIN_SUCCESS : NA_PLUGIN_NOMEM;
}

/*
 * A program may look an address up before the other process opens the endpoint. So each operation
 * on an absent peer looks for an endpoint of its name, and the address stands for the first one
 * that is found. Returns `peer` itself if there is none.
 */
struct na_plugin_addr *sm_peer_arrived(struct na_plugin_addr *peer)
{
    struct na_plugin_addr *arrived = sm_load_acquire(&peer->arrived);
    struct na_plugin_addr *none = NULL;

    if (arrived != NULL)
        return arrived;
    if (peer->header.incarnation != 0 ||
        sm_peer_get(peer->na_class, peer->name, 0, true, &arrived) != NA_PLUGIN_SUCCESS)
        return peer;
    if (atomic_compare_exchange_strong_explicit(&peer->arrived, &none, arrived,
                                                memory_order_acq_rel, memory_order_acquire))
        return arrived;
    sm_peer_release(arrived);
    return none;
}

void sm_peer_release(struct na_plugin_addr *peer)
{
    struct na_plugin_class *na_class = peer->na_class;

    if (kit_likely(sm_peer_failure(peer) == 0)) {
        sm_sub_release(&peer->refs, 1);
        return;
    }
    kit_lock_take(&na_class->lock);
    if (atomic_fetch_sub_explicit(&peer->refs, 1, memory_order_acq_rel) == 1)
        sm_peer_forget(peer);
    kit_lock_drop(&na_class->lock);
}

void sm_peer_destroy_all(struct na_plugin_class *na_class)
{
    while (!kit_list_empty(&na_class->peers)) {
        struct kit_link *link = na_class->peers.next;

        kit_list_remove(link);
        sm_peer_destroy(kit_container(link, struct na_plugin_addr, link));
    }
}

/*
 * Returns the connection after `conn`, of all that the class sends by: the first one for NULL, NULL
 * after the last one. The class's lock is held.
 */
struct sm_conn *sm_conn_next(struct na_plugin_class *na_class, const struct sm_conn *conn)
{
    struct kit_link *link = conn != NULL ? &conn->peer->link : na_class->peers.next;
    uint32_t id = conn != NULL ? conn->remote_id + 1 : 0;

    for (; link != &na_class->peers; link = link->next, id = 0) {
        struct na_plugin_addr *peer = kit_container(link, struct na_plugin_addr, link);

        for (; id < peer->header.max_contexts; id++) {
            struct sm_conn *next = sm_load_acquire(&peer->conns[id]);

            if (next != NULL)
                return next;
        }
    }
    return NULL;
}

static uint32_t sm_peer_hash(const char *name)
{
    uint32_t hash = 2166136261u;

    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t) *name) * 16777619u;
    return (hash ^ (hash >> 16)) % SM_PEER_BUCKETS;
}

static struct na_plugin_addr *sm_peer_find(struct na_plugin_class *na_class, const char *name,
                                           uint64_t incarnation)
{
    struct na_plugin_addr *peer = na_class->peer_buckets[sm_peer_hash(name)];

    while (peer != NULL &&
           (peer->header.incarnation != incarnation || strcmp(peer->name, name) != 0))
        peer = peer->hash_next;
    return peer;
}

/* Returns the peer that has the name at present, and adds it if it is new. */
static int32_t sm_peer_learn(struct na_plugin_class *na_class, const char *name,
                             struct na_plugin_addr **peer_p)
{
    struct sm_segment_header header;
    struct na_plugin_addr *peer;
    dev_t device;
    ino_t inode;
    int32_t ret = sm_segment_find(name, &header, &device, &inode);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    *peer_p = sm_peer_find(na_class, name, header.incarnation);
    if (*peer_p != NULL)
        return NA_PLUGIN_SUCCESS;
    peer = sm_peer_alloc(na_class, name, header.max_contexts);
    if (peer == NULL)
        return NA_PLUGIN_NOMEM;
    peer->header = header;
    peer->device = device;
    peer->inode = inode;
    peer->same_pid_namespace =
        header.pid_namespace != 0 && header.pid_namespace == na_class->pid_namespace;
    ret = sm_peer_map_base(peer, &header);
    if (ret != NA_PLUGIN_SUCCESS) {
        sm_peer_destroy(peer);
        return ret;
    }
    sm_peer_add(na_class, peer);
    *peer_p = peer;
    return NA_PLUGIN_SUCCESS;
}

/* Returns a peer with a base of zeros, which is in no table yet; NULL without memory. */
static struct na_plugin_addr *sm_peer_alloc(struct na_plugin_class *na_class, const char *name,
                                            uint32_t max_contexts)
{
    struct na_plugin_addr *peer = kit_host->mem_alloc(sizeof(*peer), 0);
    void *base = MAP_FAILED;

    if (peer == NULL)
        return NULL;
    peer->base_size = sm_layout_base_size(max_contexts);
    peer->conns = kit_host->mem_alloc(max_contexts * sizeof(*peer->conns), 0);
    if (peer->conns != NULL)
        base =
            mmap(NULL, peer->base_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        kit_host->mem_free((void *) peer->conns);
        kit_host->mem_free(peer);
        return NULL;
    }
    peer->base = base;
    peer->memory_fd = -1;
    peer->ask_fd = -1;
    peer->na_class = na_class;
    peer->header.max_contexts = max_contexts;
    (void) snprintf(peer->name, sizeof(peer->name), "%s", name);
    return peer;
}

/* Maps the base, which stays zeros until the peer hands it over if we cannot open it. */
static int32_t sm_peer_map_base(struct na_plugin_addr *peer, const struct sm_segment_header *header)
{
    uint64_t file_size;
    void *base;
    int32_t ret;
    int fd;

    ret = sm_memory_open(peer->na_class, peer->name, header, O_RDWR, &fd, &file_size);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret == NA_PLUGIN_AGAIN ? NA_PLUGIN_SUCCESS : ret;
    base = mmap(peer->base, peer->base_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    (void) close(fd);
    if (base == MAP_FAILED)
        return NA_PLUGIN_NOMEM;
    sm_store_release(&peer->mapped, true);
    return NA_PLUGIN_SUCCESS;
}

/* The class's lock is held. */
static void sm_peer_add(struct na_plugin_class *na_class, struct na_plugin_addr *peer)
{
    struct na_plugin_addr **bucket = &na_class->peer_buckets[sm_peer_hash(peer->name)];

    sm_peer_sweep(na_class);
    peer->hash_next = *bucket;
    *bucket = peer;
    kit_list_append(&na_class->peers, &peer->link);
}

/*
 * Checks a few peers and destroys those that are dead and unreferenced. Each new peer pays for a
 * few, which limits the dead ones without a timer. The class's lock is held.
 */
static void sm_peer_sweep(struct na_plugin_class *na_class)
{
    for (int i = 0; i < SM_PEER_SWEEP && !kit_list_empty(&na_class->peers); i++) {
        struct kit_link *link = na_class->peers.next;
        struct na_plugin_addr *peer = kit_container(link, struct na_plugin_addr, link);

        kit_list_remove(link); /* to the end: the next sweep checks others */
        kit_list_append(&na_class->peers, link);
        if (sm_load_acquire(&peer->refs) == 0 &&
            (sm_peer_failure(peer) != 0 || !sm_peer_alive(peer)))
            sm_peer_forget(peer);
    }
}

/* Destroys a peer while its class lives on, and drops its reference to the endpoint found later. */
static void sm_peer_forget(struct na_plugin_addr *peer)
{
    struct na_plugin_addr **next = &peer->na_class->peer_buckets[sm_peer_hash(peer->name)];
    struct na_plugin_addr *arrived = sm_load_acquire(&peer->arrived);

    while (*next != peer)
        next = &(*next)->hash_next;
    *next = peer->hash_next;
    kit_list_remove(&peer->link);
    if (arrived != NULL)
        sm_sub_release(&arrived->refs, 1);
    sm_peer_destroy(peer);
}

static void sm_peer_destroy(struct na_plugin_addr *peer)
{
    for (uint32_t i = 0; i < peer->header.max_contexts; i++) {
        struct sm_conn *conn = sm_load_acquire(&peer->conns[i]);

        if (conn != NULL)
            sm_conn_destroy(conn);
    }
    sm_registration_forget(peer);
    sm_shared_forget(peer);
    sm_writer_forget(peer);
    (void) munmap(peer->base, peer->base_size);
    if (peer->memory_fd >= 0)
        (void) close(peer->memory_fd);
    if (peer->ask_fd >= 0)
        (void) close(peer->ask_fd);
    kit_host->mem_free((void *) peer->conns);
    kit_host->mem_free(peer);
}
