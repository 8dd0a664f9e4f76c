/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages for plugins whose fabric moves frames between endpoints.
 *
 * A frame is up to `max_frame` bytes that the fabric delivers whole, in order for each pair of
 * endpoints, or not at all. This layer implements NA over frames: messages that queue behind a
 * frame in flight share the next one; receives are matched here and not in the fabric, so that
 * cancel, order and limits are exact on every fabric; messages that the fabric has no room for
 * queue; and peers are those of kit_session.h, so that a restarted process is not taken for the
 * earlier one.
 *
 * The plugin's struct na_plugin_class begins with struct kit_endpoint, and the functions with the
 * signatures of na_plugin.h at the end of this header go into the plugin's table as they are. The
 * plugin adds struct kit_msg_ops. An address of the core's is a struct kit_peer.
 *
 * One lock for each endpoint guards everything here, and every call of the fabric's library that is
 * made through struct kit_msg_ops; the fabric's library needs no lock of its own. A function takes
 * the lock, and any thread may call it, unless its comment says that the lock is held. Nothing
 * blocks except kit_msg_context_destroy() of the last context, for up to 100 ms, so that peers are
 * told, and kit_msg_rma_leave(). The status codes are those of na_plugin.h. Since 1.1.
 */

#ifndef KIT_MSG_H
#define KIT_MSG_H

#include "kit_session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A frame to send: `size` bytes at `data`; `priv` is ops.frame_size bytes of the plugin's. */
struct kit_frame {
    void *data;
    uint64_t size;
    void *registration; /* from ops.slab_register, of the memory of `data` */
    struct kit_peer *peer;
    void *priv;
    bool is_hello;  /* begins with a HELLO */
    bool is_copied; /* false; ops.send sets it if the fabric does not need the frame any more */
};

/*
 * One put or get that the plugin carries out. If its context is stopped the operation completes
 * before the fabric is done with the request: the fabric may use the memory of `local` until the
 * plugin's mem_deregister() returns, which waits for that (kit_rma_region_leave(),
 * kit_msg_rma_leave()). `priv` is ops.rma_size bytes of the plugin's.
 */
struct kit_msg_rma {
    struct kit_peer *peer;
    struct na_plugin_mem *local;
    struct na_plugin_mem *remote;
    uint64_t local_offset;
    uint64_t remote_offset;
    uint64_t length;
    uint32_t remote_id;
    uint32_t is_put;
    void *priv;
    struct kit_rma_transfer *transfer; /* of kit_remote.h */
};

/* The fabric's functions. All are called with the endpoint's lock held and may not block. */
struct kit_msg_ops {
    uint64_t max_frame;  /* bytes of the largest frame; 1024 suffice unless names are long; longer
                            messages are sent in parts */
    uint32_t max_sends;  /* frames in flight to one peer; beyond it messages queue, share frames */
    uint32_t peer_size;  /* bytes at kit_peer.priv, zero-filled */
    uint32_t frame_size; /* bytes at kit_frame.priv */
    uint32_t rma_size;   /* bytes at kit_msg_rma.priv */
    bool has_tcp_names;  /* a peer's name is host:port, where it, or its host, answers over TCP */

    /*
     * Starts to send a frame. Success: kit_msg_frame_sent follows, perhaps inside the call; or the
     * plugin set is_copied, and the kit counts the frame as sent when the next poll begins, so that
     * messages to that peer gather until then and share a frame.
     * NA_PLUGIN_AGAIN: the next poll tries again, in order. Any other error: the peer failed.
     */
    int32_t (*send)(struct kit_endpoint *endpoint, struct kit_frame *frame);

    /*
     * Polls the fabric's completions; calls kit_msg_frame_sent, kit_msg_frame_received,
     * kit_msg_rma_done, and kit_peer_failed, the latter after the frames of that peer that have
     * come. An error concerns the whole endpoint.
     */
    int32_t (*poll)(struct kit_endpoint *endpoint);

    /* Returns a descriptor that is readable while poll has work to do; negative: none. */
    int (*get_fd)(struct kit_endpoint *endpoint);

    /* True if it is safe to sleep on the descriptor: an event before the sleep will wake it. */
    bool (*try_wait)(struct kit_endpoint *endpoint);

    /* The plugin may reuse a frame that kit_msg_frame_received deferred. */
    void (*frame_release)(struct kit_endpoint *endpoint, void *cookie);

    /*
     * Prepares sending to a peer: its name and, if raw_size is not 0, raw are set. This may go on
     * in the background, while `send` returns NA_PLUGIN_AGAIN. Called again when the peer is used
     * after a peer_close.
     */
    int32_t (*peer_open)(struct kit_endpoint *endpoint, struct kit_peer *peer);

    /*
     * Undoes a successful peer_open, once; frames in flight to the peer still end in
     * kit_msg_frame_sent. Also called by kit_endpoint_close.
     */
    void (*peer_close)(struct kit_endpoint *endpoint, struct kit_peer *peer);

    /*
     * The network to the peer's host is silent, and the peer fails. When this returns no data in
     * flight from there can reach our memory, even if the network comes back. Optional.
     */
    void (*peer_abort)(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t silent_ms);

    /*
     * Registers memory for frames with the fabric: `*registration_p` is the plugin's until
     * slab_deregister. After an error the memory is not used. Optional, both.
     */
    int32_t (*slab_register)(struct kit_endpoint *endpoint, void *base, uint64_t size,
                             void **registration_p);
    void (*slab_deregister)(struct kit_endpoint *endpoint, void *registration);

    /*
     * For fabrics that tell over which path (connection) a frame came; optional. peer_path returns
     * the path to a peer, owned by the plugin, or NULL; path_is_named, called for each HELLO, tells
     * whether the sender over a path has introduced itself to the plugin by that name, which may be
     * a name without a peer. A HELLO that does not come over the path of the peer that it names is
     * dropped with its frame. A fabric that tells the name of each frame's sender, for example with
     * datagrams, has only path_is_named: a path is then any description of the sender, valid during
     * kit_msg_frame_received(), and no process has two names.
     */
    const void *(*peer_path)(struct kit_endpoint *endpoint, const struct kit_peer *peer);
    bool (*path_is_named)(struct kit_endpoint *endpoint, const void *path, const char *name);

    /*
     * Starts a put or get. Success: kit_msg_rma_done follows, perhaps inside the call.
     * NA_PLUGIN_AGAIN: the next poll tries again, in order. Another error completes the operation.
     */
    int32_t (*rma_start)(struct kit_endpoint *endpoint, struct kit_msg_rma *rma);

    /*
     * Asks to end a put or get early: it was cancelled (status NA_PLUGIN_CANCELED) or its peer
     * failed. True: the local memory will not be accessed any more; the operation completes at
     * once, and the plugin still calls kit_msg_rma_done when the fabric is done with the request.
     * False: the operation completes in kit_msg_rma_done, or when its context is stopped.
     * Optional: false.
     */
    bool (*rma_abandon)(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status);

    /*
     * Aborts all operations of the fabric when the last context is destroyed: the connections to
     * all peers are aborted, and opened again after a context is created. True: kit_msg_frame_sent
     * and kit_msg_rma_done follow, perhaps inside the call. False: not possible. Optional.
     */
    bool (*reset)(struct kit_endpoint *endpoint);

    /* A control record of a peer came (kit_msg_control_send). It is not trusted. Optional. */
    void (*control)(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t type,
                    const void *data, uint64_t size);
};

/* First member of the plugin's struct na_plugin_class. */
struct kit_endpoint {
    const struct kit_msg_ops *ops;
    const char *plugin;         /* name, for the log */
    const char *protocol;       /* as in addresses: `plugin+protocol://name` */
    struct msg_endpoint *state; /* internal to this layer */
    struct kit_rma *rma;        /* set by kit_remote.h; NULL: none */
    bool is_rma_configured;     /* set by kit_remote.h */
};

/* ------------------------------------------------------------------------------------------------
 * Endpoints
 */

/* Configuration. The name and the raw address are copied. */
struct kit_endpoint_config {
    const struct kit_msg_ops *ops;
    const char *plugin;
    const char *protocol;
    const char *name; /* our own canonical name */
    const void *raw;  /* our own raw address, sent in each HELLO */
    uint32_t raw_size;
    const struct na_plugin_init *init; /* limits wanted, modes, number of contexts, auth key */
};

/*
 * Opens the message layer of an endpoint whose fabric can send and receive already, and fills in
 * the message limits and common capabilities of `info`. kit_endpoint_close undoes it, and is safe
 * after a failure and on an endpoint of zeroes.
 *
 * NA_PLUGIN_SUCCESS; NA_PLUGIN_INVALID_ARG for a config out of range (logged); NA_PLUGIN_NOMEM, or
 * NA_PLUGIN_IO_ERROR if getrandom fails.
 */
int32_t kit_endpoint_open(struct kit_endpoint *endpoint, const struct kit_endpoint_config *config,
                          struct na_plugin_class_info *info);

/*
 * Frees everything, with peer_close for open peers and slab_deregister. The contexts were destroyed
 * before. If frames are in flight the plugin must have closed its fabric endpoint, so that the
 * fabric does not refer to them.
 */
void kit_endpoint_close(struct kit_endpoint *endpoint);

/* ------------------------------------------------------------------------------------------------
 * Events that the plugin reports, with the lock held. All these functions may be called inside of
 * ops, and call none of ops themselves: they set marks, on which this layer acts when its outermost
 * call ends. kit_msg_frame_received is called inside of ops.poll only.
 */

/* A frame was sent. An error means that the peer failed. */
void kit_msg_frame_sent(struct kit_endpoint *endpoint, struct kit_frame *frame, int32_t status);

/*
 * A frame arrived; `data` need not be aligned. True: the frame was consumed, and the plugin may
 * reuse the memory. False: `data` must stay unchanged until ops.frame_release(cookie). Without a
 * cookie the result is always true, because a deferred frame is copied. The frame is not trusted;
 * an encrypted one is decrypted in place. `path` is as in ops.peer_path, NULL if not known; only
 * frames that begin with a HELLO need it.
 */
bool kit_msg_frame_received(struct kit_endpoint *endpoint, void *data, uint64_t size,
                            const void *path, void *cookie);

/*
 * True if there is room to defer another frame. If not, a plugin without cookies leaves frames in
 * the fabric, which blocks their senders, and pauses the descriptor (kit_msg_wait_pause). A receive
 * that is posted makes room, and wakes a sleeping thread to poll.
 */
bool kit_msg_may_receive(const struct kit_endpoint *endpoint);

/* The fabric is done with a put or get. */
void kit_msg_rma_done(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status);

/* Counts as malformed data that the plugin itself dropped and logged. Since 1.2. */
void kit_msg_dropped(struct kit_endpoint *endpoint);

/* Counts and logs a peer that the plugin itself refused because of its key. */
void kit_msg_refused(struct kit_endpoint *endpoint, const char *name, const char *why);

/* Bytes of the largest control record. */
#define KIT_CONTROL_MAX 512u

/*
 * Queues a control record for ops.control at the peer, in order with messages. `type` is the
 * plugin's own. Size is at most KIT_CONTROL_MAX bytes.
 *
 * NA_PLUGIN_SUCCESS, NA_PLUGIN_MSGSIZE, or NA_PLUGIN_NOMEM.
 */
int32_t kit_msg_control_send(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t type,
                             const void *data, uint64_t size);

/*
 * The same for a record in two parts (kit_msg_control_data() returns as kit_msg_control_send()) of
 * up to kit_msg_control_most() bytes together. An endpoint that encrypts sends bulk data in
 * records, which may be as large as a frame, up to KIT_CONTROL_LARGE.
 */
#define KIT_CONTROL_LARGE 16512u
uint32_t kit_msg_control_most(const struct kit_endpoint *endpoint);
int32_t kit_msg_control_data(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t type,
                             const void *head, uint64_t head_size, const void *data, uint64_t size);

/* ------------------------------------------------------------------------------------------------
 * For the plugin's own functions
 */

/*
 * Returns the peer of a canonical name, made if it is new, with a reference: it is valid until
 * addr_free. `raw` may be NULL. If the peer is known the next frame to it begins with a HELLO, so
 * that a restarted process is recognized.
 *
 * NA_PLUGIN_SUCCESS, NA_PLUGIN_INVALID_ARG for a name that is empty or too long (logged), or
 * NA_PLUGIN_NOMEM.
 */
int32_t kit_msg_peer_lookup(struct kit_endpoint *endpoint, const char *name, const void *raw,
                            uint32_t raw_size, struct na_plugin_addr **addr_p);

/*
 * For mem_deregister and mem_destroy of plugins whose fabric uses the handle of a put or get, local
 * or remote: polls, for at most `timeout_ns` ns, until no put or get of a stopped context uses the
 * handle. False: the time is over. The lock is held.
 */
bool kit_msg_rma_leave(struct kit_endpoint *endpoint, const struct na_plugin_mem *mem,
                       uint64_t timeout_ns);

/*
 * True if all data sent is encrypted (NA_PLUGIN_CAP_ENCRYPTED). The plugin must then send data of
 * the program in frames only, as kit_remote.h does, or refuse to open.
 */
bool kit_endpoint_encrypts(const struct kit_endpoint *endpoint);

/*
 * True if a peer reaches memory only in the session in which that was granted to it
 * (NA_PLUGIN_CAP_MEM_PER_SESSION). Peers of such a plugin reach memory only by its `rma`, which
 * kit_remote.h lets check the grants.
 */
bool kit_endpoint_has_grants(const struct kit_endpoint *endpoint);

/* Counts and logs a peer that requested memory which it was not granted. The lock is held. */
void kit_msg_memory_refused(struct kit_endpoint *endpoint, const struct kit_peer *peer);

/* True if a context is open and not stopped. The lock is held. */
bool kit_endpoint_is_active(const struct kit_endpoint *endpoint);

/* Unlocking acts on the events reported meanwhile, as each of the functions below does. */
void kit_msg_lock(struct kit_endpoint *endpoint);
void kit_msg_unlock(struct kit_endpoint *endpoint);

/* Acts on reported events, for a plugin that called its own poll under the lock. */
void kit_msg_dispatch(struct kit_endpoint *endpoint);

/*
 * One round of progress, for a function that waits for a bounded time: polls the fabric, retries
 * frames that it had no room for, and acts on reported events. Returns NA_PLUGIN_SUCCESS, or the
 * error of ops.poll. The lock is held.
 */
int32_t kit_msg_progress(struct kit_endpoint *endpoint);

/*
 * Reference and release a peer, as peer_hold and peer_release of struct kit_rma_ops. Without a
 * reference a peer that was never opened could be freed while transfers use it. `owner` is ignored.
 */
void kit_msg_peer_hold(void *owner, void *peer);
void kit_msg_peer_release(void *owner, void *peer);

/* ------------------------------------------------------------------------------------------------
 * For the plugin's table, as na_plugin.h specifies
 */

uint32_t kit_msg_op_size(void);
uint32_t kit_msg_op_align(void);

int32_t kit_msg_context_create(struct na_plugin_class *na_class,
                               struct na_host_context *host_context, uint32_t id,
                               struct na_plugin_context **context_p);
int32_t kit_msg_context_stop(struct na_plugin_context *context);
int32_t kit_msg_context_destroy(struct na_plugin_context *context);

void kit_msg_addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
int32_t kit_msg_addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                         struct na_plugin_addr **addr_p);
int32_t kit_msg_addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p);
uint32_t kit_msg_addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
uint32_t kit_msg_addr_compare(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                              struct na_plugin_addr *addr2);
int32_t kit_msg_addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                               char *buf, uint64_t *size);
int32_t kit_msg_addr_set_remove(struct na_plugin_class *na_class, struct na_plugin_addr *addr);

int32_t kit_msg_send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                                uint64_t size, void *data, struct na_plugin_addr *dest,
                                uint32_t dest_id, uint32_t tag);
int32_t kit_msg_recv_unexpected(struct na_plugin_context *context, void *op, void *buf,
                                uint64_t size, void *data);
int32_t kit_msg_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                              uint64_t size, void *data, struct na_plugin_addr *dest,
                              uint32_t dest_id, uint32_t tag);
int32_t kit_msg_recv_expected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                              void *data, struct na_plugin_addr *source, uint32_t source_id,
                              uint32_t tag);

/* These call ops.rma_start. A plugin that has to check its handles does so before it calls them. */
int32_t kit_msg_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                    uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                    uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
int32_t kit_msg_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                    uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                    uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);

int32_t kit_msg_poll(struct na_plugin_context *context, uint32_t *count);
int32_t kit_msg_poll_get_fd(struct na_plugin_context *context);
uint32_t kit_msg_poll_try_wait(struct na_plugin_context *context);

/*
 * For `try_wait`: while paused, sleeping threads are woken by a timer and not by the fabric's
 * descriptor, which may stay readable for events that no poll can process.
 */
void kit_msg_wait_pause(struct kit_endpoint *endpoint, bool is_paused);

/* `get_fd` returns another descriptor from now on; the earlier one is closed. */
void kit_msg_wait_fd_changed(struct kit_endpoint *endpoint);

int32_t kit_msg_cancel(struct na_plugin_context *context, void *op);
int32_t kit_msg_cancel_trusted(struct na_plugin_context *context, void *op);

/*
 * Returns na.multi_recv/1, na.addr_serialize/1 (name, raw and incarnation, all checked),
 * na.counters/1 (refused_key, malformed, stale, other_name, refused_memory) or na.peer_events/1,
 * which are constants, or NULL. kit_remote_get_extension() has these, too.
 */
const void *kit_msg_get_extension(const char *id);

/*
 * The functions above that every plugin over this layer has, for the initializer of its table:
 * `KIT_MSG_FUNCTIONS,`. The plugin adds get_extension (kit_msg_get_extension or that of
 * kit_remote.h), and, if it has them, put, get and the functions for sleeping on a descriptor.
 */
#define KIT_MSG_FUNCTIONS                                                                       \
    .context_create = kit_msg_context_create, .context_stop = kit_msg_context_stop,             \
    .context_destroy = kit_msg_context_destroy, .addr_free = kit_msg_addr_free,                 \
    .addr_dup = kit_msg_addr_dup, .addr_self = kit_msg_addr_self,                               \
    .addr_is_self = kit_msg_addr_is_self, .addr_compare = kit_msg_addr_compare,                 \
    .addr_to_string = kit_msg_addr_to_string, .addr_set_remove = kit_msg_addr_set_remove,       \
    .msg_send_unexpected = kit_msg_send_unexpected,                                             \
    .msg_recv_unexpected = kit_msg_recv_unexpected, .msg_send_expected = kit_msg_send_expected, \
    .msg_recv_expected = kit_msg_recv_expected, .poll = kit_msg_poll, .cancel = kit_msg_cancel, \
    .cancel_trusted = kit_msg_cancel_trusted

#ifdef __cplusplus
}
#endif

#endif /* KIT_MSG_H */
