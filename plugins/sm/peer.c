/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of peers: one object for each endpoint that a class knows, found by name and
 * incarnation, a random number that tells it from others of its name. A peer stays known without
 * references, because its next message needs it again; it is destroyed when it is dead and
 * unreferenced, or with the class.
 */

#include "sm.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SM_PEER_SWEEP 4u /* buckets checked for each new peer */

static uint32_t sm_peer_hash(const char *name);
static struct na_plugin_addr *sm_peer_find(struct na_plugin_class *na_class, const char *name,
                                           uint64_t incarnation);
static int32_t sm_peer_learn(struct na_plugin_class *na_class, const char *name,
                             struct na_plugin_addr **peer_p);
static int32_t sm_peer_make(struct na_plugin_class *na_class, const char *name,
                            struct na_plugin_addr **peer_p);
static int32_t sm_peer_make_absent(struct na_plugin_class *na_class, const char *name,
                                   struct na_plugin_addr **peer_p);
static int32_t sm_peer_map_base(struct na_plugin_addr *peer,
                                const struct sm_segment_header *header);
static void sm_peer_add(struct na_plugin_class *na_class, struct na_plugin_addr *peer);
static void sm_peer_forget(struct na_plugin_addr *peer);
static void sm_peer_destroy(struct na_plugin_addr *peer);
static void sm_peer_unlink(struct na_plugin_addr *peer);

/*
 * One reference to the endpoint at `name`. With `incarnation` not 0 only that one will do; if we
 * know it already it need not exist any more, unless `check_alive` says so.
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
    if (ret == NA_PLUGIN_SUCCESS && incarnation != 0 && peer->incarnation != incarnation)
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
 * One reference to an endpoint that does not exist: a peer that failed already, with a segment of
 * zeros.
 */
int32_t sm_peer_get_absent(struct na_plugin_class *na_class, const char *name,
                           struct na_plugin_addr **peer_p)
{
    struct na_plugin_addr *peer;
    int32_t ret = NA_PLUGIN_SUCCESS;

    kit_lock_take(&na_class->lock);
    peer = sm_peer_find(na_class, name, 0);
    if (peer == NULL) {
        ret = sm_peer_make_absent(na_class, name, &peer);
        if (ret == NA_PLUGIN_SUCCESS)
            sm_peer_add(na_class, peer);
    }
    if (ret == NA_PLUGIN_SUCCESS) {
        sm_peer_hold(peer);
        *peer_p = peer;
    }
    kit_lock_drop(&na_class->lock);
    return ret;
}

/*
 * A program may look an address up before its process has opened the endpoint. So each operation
 * on an absent peer checks whether an endpoint has its name by now; the first one that is found
 * is the one that the address stands for from then on. Returns `peer` itself if there is none.
 */
struct na_plugin_addr *sm_peer_arrived(struct na_plugin_addr *peer)
{
    struct na_plugin_addr *arrived = sm_load_acquire(&peer->arrived);
    struct na_plugin_addr *none = NULL;

    if (arrived != NULL)
        return arrived;
    if (peer->incarnation != 0 ||
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
    if (atomic_fetch_sub_explicit(&peer->refs, 1, memory_order_acq_rel) == 1) {
        sm_peer_unlink(peer);
        sm_peer_forget(peer);
    }
    kit_lock_drop(&na_class->lock);
}

/*
 * Checks a few known peers without references and forgets the dead. Each new peer pays for a little
 * of it, so that the cost of dead peers stays bounded without a timer. The class's lock is held.
 */
void sm_peer_sweep(struct na_plugin_class *na_class)
{
    for (uint32_t i = 0; i < SM_PEER_SWEEP; i++) {
        struct na_plugin_addr **link = &na_class->peers[na_class->sweep_next++ % SM_PEER_BUCKETS];

        while (*link != NULL) {
            struct na_plugin_addr *peer = *link;

            if (sm_load_acquire(&peer->refs) != 0 ||
                (sm_peer_failure(peer) == 0 && sm_peer_alive(peer))) {
                link = &peer->hash_next;
                continue;
            }
            *link = peer->hash_next;
            na_class->peer_count--;
            sm_peer_forget(peer);
        }
    }
}

void sm_peer_destroy_all(struct na_plugin_class *na_class)
{
    for (uint32_t i = 0; i < SM_PEER_BUCKETS; i++) {
        while (na_class->peers[i] != NULL) {
            struct na_plugin_addr *peer = na_class->peers[i];

            na_class->peers[i] = peer->hash_next;
            sm_peer_destroy(peer);
        }
    }
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
    struct na_plugin_addr *peer = na_class->peers[sm_peer_hash(name)];

    while (peer != NULL && (peer->incarnation != incarnation || strcmp(peer->name, name) != 0))
        peer = peer->hash_next;
    return peer;
}

/* The endpoint at the name now; a known peer keeps its object. */
static int32_t sm_peer_learn(struct na_plugin_class *na_class, const char *name,
                             struct na_plugin_addr **peer_p)
{
    struct na_plugin_addr *peer, *known;
    int32_t ret = sm_peer_make(na_class, name, &peer);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    known = sm_peer_find(na_class, name, peer->incarnation);
    if (known != NULL) {
        sm_peer_destroy(peer);
        *peer_p = known;
        return NA_PLUGIN_SUCCESS;
    }
    sm_peer_add(na_class, peer);
    *peer_p = peer;
    return NA_PLUGIN_SUCCESS;
}

static int32_t sm_peer_make(struct na_plugin_class *na_class, const char *name,
                            struct na_plugin_addr **peer_p)
{
    struct sm_segment_header header;
    struct na_plugin_addr *peer;
    dev_t device;
    ino_t inode;
    int32_t ret;

    ret = sm_segment_find(name, &header, &device, &inode);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    peer = kit_host->mem_alloc(sizeof(*peer), 0);
    if (peer != NULL)
        peer->conns = kit_host->mem_alloc(header.max_contexts * sizeof(*peer->conns), 0);
    if (peer == NULL || peer->conns == NULL) {
        ret = NA_PLUGIN_NOMEM;
        goto out;
    }
    memcpy(peer->name, name, strlen(name) + 1);
    peer->na_class = na_class;
    peer->incarnation = header.incarnation;
    peer->pid_namespace = header.pid_namespace;
    peer->cookie = header.cookie;
    peer->cookie_address = header.cookie_address;
    peer->process = header.process;
    peer->secret = header.secret;
    peer->device = device;
    peer->inode = inode;
    peer->pid = header.pid;
    peer->max_contexts = header.max_contexts;
    peer->max_unexpected = header.max_unexpected;
    peer->max_expected = header.max_expected;
    peer->fence = (header.flags & SM_ENDPOINT_FENCE) != 0;
    peer->same_pid_namespace =
        header.pid_namespace != 0 && header.pid_namespace == na_class->pid_namespace;
    ret = sm_peer_map_base(peer, &header);
    *peer_p = peer;

out:
    if (ret != NA_PLUGIN_SUCCESS && peer != NULL) {
        kit_host->mem_free((void *) peer->conns);
        kit_host->mem_free(peer);
    }
    return ret;
}

/* Memory that must be handed over takes the place of zeros later. */
static int32_t sm_peer_map_base(struct na_plugin_addr *peer, const struct sm_segment_header *header)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    uint64_t file_size;
    int32_t ret;
    void *base;
    int fd = -1;

    ret = sm_memory_open(peer->na_class, peer->name, header, O_RDWR, &fd, &file_size);
    if (ret == NA_PLUGIN_SUCCESS)
        flags = MAP_SHARED;
    else if (ret != NA_PLUGIN_AGAIN)
        return ret;
    peer->memory_fd = -1;
    peer->ask_fd = -1;
    peer->base_size = sm_layout_base_size(header->max_contexts);
    base = mmap(NULL, peer->base_size, PROT_READ | PROT_WRITE, flags,
                ret == NA_PLUGIN_SUCCESS ? fd : -1, 0);
    if (ret == NA_PLUGIN_SUCCESS)
        (void) close(fd);
    if (base == MAP_FAILED)
        return NA_PLUGIN_NOMEM;
    peer->base = base;
    sm_store_release(&peer->mapped, ret == NA_PLUGIN_SUCCESS);
    return NA_PLUGIN_SUCCESS;
}

static int32_t sm_peer_make_absent(struct na_plugin_class *na_class, const char *name,
                                   struct na_plugin_addr **peer_p)
{
    const uint32_t max_contexts = SM_MAX_CONTEXTS;
    const uint64_t size = sm_layout_base_size(max_contexts);
    struct na_plugin_addr *peer = kit_host->mem_alloc(sizeof(*peer), 0);
    void *base = MAP_FAILED;

    if (peer != NULL)
        peer->conns = kit_host->mem_alloc(max_contexts * sizeof(*peer->conns), 0);
    if (peer != NULL && peer->conns != NULL)
        base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        goto error;
    peer->base = base;
    peer->base_size = size;
    peer->memory_fd = -1;
    peer->ask_fd = -1;
    peer->na_class = na_class;
    peer->max_contexts = max_contexts;
    memcpy(peer->name, name, strlen(name) + 1);
    sm_store(&peer->failure, NA_PLUGIN_HOSTUNREACH);
    *peer_p = peer;
    return NA_PLUGIN_SUCCESS;

error:
    if (peer != NULL)
        kit_host->mem_free((void *) peer->conns);
    kit_host->mem_free(peer);
    return NA_PLUGIN_NOMEM;
}

/* The class's lock is held. */
static void sm_peer_add(struct na_plugin_class *na_class, struct na_plugin_addr *peer)
{
    uint32_t bucket = sm_peer_hash(peer->name);

    sm_peer_sweep(na_class);
    peer->hash_next = na_class->peers[bucket];
    na_class->peers[bucket] = peer;
    na_class->peer_count++;
}

/* Destroys a peer while its class goes on: the reference that it has to another one ends. */
static void sm_peer_forget(struct na_plugin_addr *peer)
{
    struct na_plugin_addr *arrived = sm_load_acquire(&peer->arrived);

    if (arrived != NULL)
        sm_sub_release(&arrived->refs, 1);
    sm_peer_destroy(peer);
}

static void sm_peer_destroy(struct na_plugin_addr *peer)
{
    for (uint32_t i = 0; i < peer->max_contexts; i++) {
        struct sm_conn *conn = sm_load_acquire(&peer->conns[i]);

        if (conn != NULL)
            sm_conn_destroy(conn);
    }
    sm_registration_forget(peer);
    sm_writer_forget(peer);
    (void) munmap(peer->base, peer->base_size);
    if (peer->memory_fd >= 0)
        (void) close(peer->memory_fd);
    if (peer->ask_fd >= 0)
        (void) close(peer->ask_fd);
    kit_host->mem_free((void *) peer->conns);
    kit_host->mem_free(peer);
}

static void sm_peer_unlink(struct na_plugin_addr *peer)
{
    struct na_plugin_class *na_class = peer->na_class;
    struct na_plugin_addr **link = &na_class->peers[sm_peer_hash(peer->name)];

    while (*link != NULL && *link != peer)
        link = &(*link)->hash_next;
    if (*link == peer) {
        *link = peer->hash_next;
        na_class->peer_count--;
    }
}
