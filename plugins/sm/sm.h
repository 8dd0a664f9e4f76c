/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules of the plugin, from the lowest to the highest. Each one calls those above it in this
 * list and none below it:
 *
 *     names reap memory_file segment            an endpoint's files and memory
 *     wake                                      ending the sleep of a context
 *     liveness peer_memory                      whether a peer is alive, reaching its memory
 *     pool                                      memory that is allocated for programs
 *     registration writers cursor               registered memory
 *     rma_shared rma_native                     mapped pools of peers, cross-memory attach
 *     connect peer                              connections to a peer, the table of peers
 *     ring send                                 messages that are sent
 *     rma_copy memory rma                       transfers, memory handles
 *     accept                                    rings of peers that send to us
 *     receive                                   messages from the rings
 *     watch poll                                progress
 *     context endpoint address plugin           what the core calls
 *
 * A lower module reports to higher ones by marks that poll and watch act on: a failed peer
 * (sm_peer_fail), an aborted connection (sm_conn_abort), a ring that is closing or refused.
 */

#ifndef SM_H
#define SM_H

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "message.h"
#include "objects.h"

#define SM_LOG(level, ...)  KIT_LOG(level, SM_PLUGIN_NAME, __VA_ARGS__)
#define SM_LOG_ERROR(...)   SM_LOG(NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define SM_LOG_WARNING(...) SM_LOG(NA_PLUGIN_LOG_WARNING, __VA_ARGS__)
#define SM_LOG_INFO(...)    SM_LOG(NA_PLUGIN_LOG_INFO, __VA_ARGS__)
#define SM_LOG_DEBUG(...)   SM_LOG(NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

struct iovec;
struct sockaddr_un;

/* names.c */
bool sm_name_check(const char *name, size_t length, const char **reason_p);
void sm_user_set(void);
uint32_t sm_user(void);
void sm_segment_path(char path[SM_PATH_MAX], const char *name);
void sm_wake_path(char path[SM_PATH_MAX], const char *name, const struct kit_key *secret,
                  uint32_t id);
const char *sm_error_hint(int error);
int32_t sm_error_status(int error);

/* reap.c: the state of a name whose owner may be dead */
enum sm_reaped {
    SM_REAPED_NONE, /* the name is free */
    SM_REAPED_ALIVE,
    SM_REAPED_BUSY,    /* another process is removing it */
    SM_REAPED_FOREIGN, /* not a file that this user's endpoints make */
    SM_REAPED_UNKNOWN  /* it cannot be opened: errno says why */
};
enum sm_reaped sm_reap_name(const char *name);
void sm_reap_all(void);

/* memory_file.c */
int32_t sm_memory_create(struct sm_segment *segment, const char *name, uint64_t size);
int32_t sm_memory_open(const struct na_plugin_class *na_class, const char *name,
                       const struct sm_segment_header *header, int flags, int *fd_p,
                       uint64_t *size_p);
int32_t sm_memory_check(int fd, const char *name, const struct sm_segment_header *header,
                        uint64_t *size_p);

/* segment.c */
int32_t sm_segment_create(struct na_plugin_class *na_class, const char *name);
int32_t sm_segment_describe(struct na_plugin_class *na_class);
int32_t sm_segment_publish(struct na_plugin_class *na_class);
void sm_segment_destroy(struct na_plugin_class *na_class);
int32_t sm_segment_find(const char *name, struct sm_segment_header *copy, dev_t *device_p,
                        ino_t *inode_p);
int32_t sm_reserve(int fd, uint64_t offset, uint64_t size, uint32_t log_level);
bool sm_file_size_allowed(uint64_t size, uint32_t log_level);
int32_t sm_region_take(struct sm_segment *segment, uint64_t size, uint64_t reserved,
                       uint32_t log_level, uint64_t *offset_p);
void sm_region_give(struct sm_segment *segment, uint64_t offset, uint64_t size);

/* wake.c */
int32_t sm_wake_setup(struct na_plugin_context *context);
void sm_wake_teardown(struct na_plugin_context *context);
void sm_wake_close(struct na_plugin_context *context);
void sm_wake_set_flags(struct na_plugin_context *context, uint32_t flags);
void sm_wake_timer(struct na_plugin_context *context, bool wanted);
int sm_wake_send(const struct na_plugin_class *na_class, const struct sockaddr_un *address);
void sm_wake(struct na_plugin_context *context);
void sm_context_kick(struct na_plugin_context *context);
void sm_context_signal(struct na_plugin_context *context);
bool sm_membarrier_register(void);
bool sm_barrier(struct na_plugin_class *na_class);

/* For an operation that depends on a peer: a sleeper without a watch timer is woken to start it. */
static inline void sm_context_watch(struct na_plugin_context *context)
{
    if (kit_unlikely(sm_load(&context->armed) != 0 && sm_load(&context->timer_armed) == 0))
        sm_context_kick(context);
}

/* liveness.c */
bool sm_peer_alive(struct na_plugin_addr *peer);
void sm_peer_fail(struct na_plugin_addr *peer, int32_t status);
void sm_peer_suspect(struct na_plugin_addr *peer);
bool sm_wake_peer(struct na_plugin_addr *peer, uint32_t id);

static inline int32_t sm_peer_failure(struct na_plugin_addr *peer)
{
    return sm_load_acquire(&peer->failure);
}

/* peer_memory.c; sm_handover is the datagram that asks for memory, with two descriptors */
struct sm_handover {
    uint64_t magic;
    uint64_t incarnation;
    char name[SM_NAME_MAX + 1];
};
#define SM_HANDOVER_MAGIC UINT64_C(0x5245444e4148534d)
int32_t sm_peer_open(struct na_plugin_addr *peer, int flags, int *fd_p, uint64_t *size_p);
int32_t sm_peer_map(struct na_plugin_addr *peer, uint64_t offset, uint64_t size, bool is_writable,
                    void **map_p);
int32_t sm_handover_ask(struct na_plugin_addr *peer, uint32_t id);
int32_t sm_handover_attach(struct na_plugin_addr *peer, int fd);
int sm_descriptors_send(int socket_fd, const struct sockaddr_un *address, const void *buf,
                        size_t size, const int *fds, uint32_t count);
ssize_t sm_descriptors_receive(int socket_fd, void *buf, size_t size, int fds[2],
                               uint32_t *count_p);
void sm_descriptors_close(const int *fds, uint32_t count);

/* False while `base` is a placeholder of zeros, until the peer hands its memory over. */
static inline bool sm_peer_mapped(struct na_plugin_addr *peer)
{
    return sm_load_acquire(&peer->mapped);
}

/* pool.c */
extern const struct na_plugin_mem_alloc sm_mem_alloc_extension;
int32_t sm_pool_configure(struct na_plugin_class *na_class, const struct na_plugin_init *init);
bool sm_pool_is_allowed(uint64_t size);
bool sm_pool_is_lazy(void);
void sm_pool_advise(void *map, uint64_t size);
void sm_pool_lose(struct na_plugin_class *na_class, const struct na_plugin_mem *mem);
void sm_pool_close(struct na_plugin_class *na_class);

/* registration.c: the table in which peers check registrations */
void sm_registration_grow(struct na_plugin_class *na_class, const struct na_plugin_mem *mem);
void sm_registration_publish(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
void sm_registration_withdraw(struct na_plugin_class *na_class, const struct na_plugin_mem *mem);
void sm_registration_close(struct na_plugin_class *na_class);
int32_t sm_registration_check(struct na_plugin_addr *peer, struct na_plugin_mem *mem);
uint64_t sm_registration_digest(const struct na_plugin_addr *peer, struct na_plugin_mem *mem);
void sm_registration_forget(struct na_plugin_addr *peer);

/* writers.c: puts under way, which the owner of the memory waits for */
void sm_writers_offer(struct na_plugin_class *na_class);
bool sm_writers_await(struct na_plugin_class *na_class, uint64_t digest);
int32_t sm_writer_enter(struct na_plugin_addr *peer, uint64_t digest, _Atomic uint64_t **mark_p);
void sm_writer_leave(_Atomic uint64_t *mark);
void sm_writer_forget(struct na_plugin_addr *peer);

/* memory.c */
int32_t sm_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length, uint32_t flags,
                      struct na_plugin_mem **mem_p);
void sm_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t sm_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                        uint32_t mem_type, uint64_t device);
int32_t sm_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
uint64_t sm_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t sm_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                         uint64_t size);
int32_t sm_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                           struct na_plugin_mem **mem_p);
extern const struct na_plugin_mem_segments sm_mem_segments_extension;
void sm_registry_destroy(struct na_plugin_class *na_class);

static inline struct na_plugin_mem *sm_mem_of(const struct kit_region *region)
{
    return (struct na_plugin_mem *) (uintptr_t) region;
}

/* cursor.c; struct sm_cursor is a position in the segments of a handle. */
struct sm_cursor {
    const struct na_plugin_segment *segments;
    uint32_t index;
    uint64_t offset; /* in the segment */
};
void sm_mem_store(const struct na_plugin_mem *mem, uint64_t mem_offset,
                  const struct sm_message *message, uint32_t offset);
void sm_cursor_seek(struct sm_cursor *cursor, const struct na_plugin_mem *mem, uint64_t offset);
void *sm_cursor_span(struct sm_cursor *cursor, uint64_t wanted, uint64_t *size_p);
uint32_t sm_cursor_iovecs(struct sm_cursor *cursor, uint64_t length, struct iovec *vectors,
                          uint32_t count, uint64_t *length_p);

/* rma_shared.c: transfers with memory of a peer's pool */
bool sm_shared_available(const struct sm_op *op);
int32_t sm_shared_watch(struct na_plugin_addr *peer);
void sm_shared_piece(struct sm_op *op);
void sm_shared_forget(struct na_plugin_addr *peer);

/* rma_native.c */
bool sm_native_available(struct na_plugin_addr *peer);
bool sm_native_step(struct sm_op *op, int32_t *status_p);

/* connect.c */
int32_t sm_conn_make(struct na_plugin_addr *peer, uint32_t remote_id, struct sm_conn **conn_p);
int32_t sm_conn_ready(struct sm_conn *conn);
int32_t sm_conn_prepare(struct sm_conn *conn);
void sm_conn_abort(struct sm_conn *conn, int32_t status);
void sm_conn_destroy(struct sm_conn *conn);
void sm_conn_notify_slow(struct sm_conn *conn, uint32_t status);
void sm_conn_announce(struct sm_conn *conn, struct na_plugin_context *context);
void sm_backlog_add(struct sm_conn *conn);
struct sm_conn *sm_backlog_next(struct na_plugin_class *na_class);

/* Returns the connection to a context of the peer, and makes it at first use. */
static inline int32_t sm_conn_get(struct na_plugin_addr *peer, uint32_t remote_id,
                                  struct sm_conn **conn_p)
{
    if (kit_likely(remote_id < peer->header.max_contexts)) {
        *conn_p = sm_load_acquire(&peer->conns[remote_id]);
        if (kit_likely(*conn_p != NULL))
            return NA_PLUGIN_SUCCESS;
    }
    return sm_conn_make(peer, remote_id, conn_p);
}

/* True for a destroyed context, false for one that is not created yet: messages to that wait. */
static inline bool sm_context_gone(const struct sm_context_area *area)
{
    return (sm_load_acquire(&area->flags) & SM_CONTEXT_GONE) != 0;
}

/* peer.c */
int32_t sm_peer_get(struct na_plugin_class *na_class, const char *name, uint64_t incarnation,
                    bool check_alive, struct na_plugin_addr **peer_p);
int32_t sm_peer_get_absent(struct na_plugin_class *na_class, const char *name,
                           struct na_plugin_addr **peer_p);
struct na_plugin_addr *sm_peer_arrived(struct na_plugin_addr *peer);
void sm_peer_release(struct na_plugin_addr *peer);
void sm_peer_destroy_all(struct na_plugin_class *na_class);
struct sm_conn *sm_conn_next(struct na_plugin_class *na_class, const struct sm_conn *conn);

/* Returns the peer that an address stands for; see sm_peer_arrived(). */
static inline struct na_plugin_addr *sm_peer_current(struct na_plugin_addr *peer)
{
    return kit_likely(sm_peer_failure(peer) == 0) ? peer : sm_peer_arrived(peer);
}

/* send.c */
int32_t sm_send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                           uint64_t size, void *data, struct na_plugin_addr *dest, uint32_t dest_id,
                           uint32_t tag);
int32_t sm_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                         uint64_t size, void *data, struct na_plugin_addr *dest, uint32_t dest_id,
                         uint32_t tag);
bool sm_send_cancel(struct na_plugin_context *context, const struct sm_op *op);
bool sm_send_cancel_trusted(struct na_plugin_context *context, struct sm_op *op);
uint32_t sm_backlog_flush(struct na_plugin_class *na_class, struct na_plugin_context *context);
bool sm_backlog_announce(struct na_plugin_class *na_class, struct na_plugin_context *context);

/* accept.c. Callers hold poll_lock. */
void sm_doorbells_answer(struct na_plugin_context *context);
bool sm_handover_read(struct na_plugin_context *context);
void sm_in_ring_activate(struct na_plugin_context *context, struct sm_in_ring *ring);
void sm_in_ring_idle(struct na_plugin_context *context, struct sm_in_ring *ring);
void sm_in_ring_release(struct na_plugin_context *context, struct sm_in_ring *ring);
void sm_in_ring_refuse(struct na_plugin_context *context, struct sm_in_ring *ring,
                       const char *reason);
void sm_in_ring_release_all(struct na_plugin_context *context);

/* rma_copy.c: transfers copied through the rings */
int32_t sm_copy_start(struct na_plugin_context *context, struct sm_op *op);
enum sm_verdict sm_copy_receive(struct na_plugin_context *context, struct sm_in_ring *ring,
                                const struct sm_message *message);
uint32_t sm_copy_progress(struct na_plugin_context *context, bool is_announcing);
void sm_copy_cancel(struct na_plugin_context *context, struct sm_op *op);
void sm_copy_fail_peer(struct na_plugin_context *context, struct na_plugin_addr *peer,
                       int32_t status);
bool sm_copy_peer_is_gone(const struct na_plugin_addr *peer);
void sm_copy_leave(struct na_plugin_class *na_class, const struct kit_region *region);
void sm_copy_close(struct na_plugin_context *context);

/* rma.c */
int32_t sm_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
               uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
               uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
int32_t sm_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
               uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
               uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
uint32_t sm_rma_progress(struct na_plugin_context *context);
bool sm_rma_is_moving(const struct na_plugin_context *context);
bool sm_rma_cancel(struct na_plugin_context *context, struct sm_op *op, bool is_trusted);
void sm_rma_cancel_all(struct na_plugin_context *context);

/* receive.c */
int32_t sm_recv_unexpected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                           void *data);
int32_t sm_recv_expected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                         void *data, struct na_plugin_addr *source, uint32_t source_id,
                         uint32_t tag);
extern const struct na_plugin_multi_recv sm_multi_recv_extension;
uint32_t sm_ring_drain(struct na_plugin_context *context, struct sm_in_ring *ring);
bool sm_receive_cancel(struct na_plugin_context *context, void *op, bool is_trusted);
void sm_receive_cancel_all(struct na_plugin_context *context);
uint32_t sm_receive_fail_peers(struct na_plugin_context *context);

/* watch.c */
uint32_t sm_watch(struct na_plugin_context *context);
bool sm_watch_wanted(struct na_plugin_context *context);

/* poll.c */
int32_t sm_poll(struct na_plugin_context *context, uint32_t *count);
int32_t sm_poll_wait(struct na_plugin_context *context, uint32_t timeout_ms, uint32_t *count);
int32_t sm_poll_get_fd(struct na_plugin_context *context);
uint32_t sm_poll_try_wait(struct na_plugin_context *context);

/* context.c */
int32_t sm_context_setup(struct na_plugin_class *na_class, uint32_t id);
void sm_context_teardown(struct na_plugin_context *context);
int32_t sm_context_create(struct na_plugin_class *na_class, struct na_host_context *host_context,
                          uint32_t id, struct na_plugin_context **context_p);
int32_t sm_context_stop(struct na_plugin_context *context);
int32_t sm_context_destroy(struct na_plugin_context *context);
int32_t sm_cancel(struct na_plugin_context *context, void *op);
int32_t sm_cancel_trusted(struct na_plugin_context *context, void *op);
extern const struct na_plugin_counters sm_counters_extension;
extern const struct na_plugin_peer_events sm_peer_events_extension;

/* endpoint.c */
int32_t sm_class_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                            struct na_plugin_class **class_p, struct na_plugin_class_info *info);
int32_t sm_class_finalize(struct na_plugin_class *na_class);
void sm_class_prepare_fork(void);

/* address.c */
int32_t sm_addr_lookup(struct na_plugin_class *na_class, const char *name,
                       struct na_plugin_addr **addr_p);
void sm_addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
int32_t sm_addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                    struct na_plugin_addr **addr_p);
int32_t sm_addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p);
uint32_t sm_addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
uint32_t sm_addr_compare(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                         struct na_plugin_addr *addr2);
uint64_t sm_addr_capabilities(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
int32_t sm_addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr, char *buf,
                          uint64_t *size);
int32_t sm_addr_set_remove(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
extern const struct na_plugin_addr_serialize sm_addr_serialize_extension;

#endif /* SM_H */
