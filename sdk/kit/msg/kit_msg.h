/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages for plugins whose fabric moves frames between endpoints.
 *
 * A frame is up to `max_frame` bytes that the fabric delivers whole, in order for each pair of
 * endpoints, or not at all. This layer makes NA of it: small messages share a frame when they queue
 * up behind one that is still being sent; receives are matched here and not in the fabric, so that
 * cancel, order and limits are exact on every one; what finds no room queues; and peers are those
 * of kit_session.h, told apart from the processes before and after them.
 *
 * The plugin's struct na_plugin_class begins with struct kit_endpoint, and the functions with the
 * signatures of na_plugin.h at the end of this header go into the plugin's table as they are. What
 * the plugin adds is struct kit_msg_ops. An address of the core's is a struct kit_peer.
 *
 * One lock for each endpoint covers everything here, and every call of the fabric's library that is
 * made through struct kit_msg_ops; the library needs no lock of its own. Unless a function says
 * that the lock is held, it takes it, and any thread may call it. Nothing blocks but
 * kit_msg_context_destroy() of the last context, for up to 100 ms, so that peers learn of it, and
 * kit_msg_rma_leave(). The status codes are those of na_plugin.h. Since 1.1.
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
    void *registration; /* what ops.slab_register gave for the memory that data lies in */
    struct kit_peer *peer;
    void *priv;
    bool is_hello;  /* it begins with a HELLO */
    bool is_copied; /* false; ops.send sets it when the fabric has no need of the frame any more */
};

/*
 * One put or get that the plugin carries out. It outlives the operation if that is completed
 * before the fabric lets go of it, as it is when its context is stopped: then the fabric may go on
 * with the memory of `local` until the plugin's mem_deregister() has returned, which waits for that
 * (kit_rma_region_leave(), kit_msg_rma_leave()). `priv` is ops.rma_size bytes of the plugin's.
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

/* What the fabric does. All are called with the endpoint's lock held and may not block. */
struct kit_msg_ops {
    uint64_t max_frame;  /* bytes of the largest frame; 1024 do, unless names are long; longer
                            messages go in parts */
    uint32_t max_sends;  /* frames in progress to one peer before messages queue and share */
    uint32_t peer_size;  /* private bytes of a peer, zero-filled */
    uint32_t frame_size; /* private bytes of a frame */
    uint32_t rma_size;   /* private bytes of a put or get */
    bool has_tcp_names;  /* a peer's name is host:port, where it, or its host, answers over TCP */

    /*
     * Starts to send. Success: kit_msg_frame_sent follows, perhaps inside the call; or the frame is
     * marked as copied, and the kit itself takes it for sent when the next poll begins: messages to
     * that peer gather until then and share a frame.
     * NA_PLUGIN_AGAIN: tried again, in order, at the next poll. Anything else: the peer failed.
     */
    int32_t (*send)(struct kit_endpoint *endpoint, struct kit_frame *frame);

    /*
     * Reads the fabric's completions; calls kit_msg_frame_sent, kit_msg_frame_received,
     * kit_msg_rma_done, kit_peer_failed (behind the frames of that peer that have come). An error
     * concerns the endpoint as a whole.
     */
    int32_t (*poll)(struct kit_endpoint *endpoint);

    /* A descriptor that polls readable when poll has something to do; negative for none. */
    int (*get_fd)(struct kit_endpoint *endpoint);

    /* True when it is safe to sleep on the descriptor: nothing that poll could take was read. */
    bool (*try_wait)(struct kit_endpoint *endpoint);

    /* A received frame that kit_msg_frame_received deferred may be used again by the plugin. */
    void (*frame_release)(struct kit_endpoint *endpoint, void *cookie);

    /*
     * Makes ready to send to a peer: name and, when raw_size is not 0, raw are set. May go on in
     * the background, `send` says NA_PLUGIN_AGAIN as long. Called again after peer_close when the
     * peer is used again.
     */
    int32_t (*peer_open)(struct kit_endpoint *endpoint, struct kit_peer *peer);

    /*
     * Undoes a peer_open that succeeded, once; frames in progress to the peer still end in
     * kit_msg_frame_sent. Also called by kit_endpoint_close.
     */
    void (*peer_close)(struct kit_endpoint *endpoint, struct kit_peer *peer);

    /*
     * The network to the peer's host is silent, and the peer is about to fail: after this nothing
     * that is on its way from there reaches our memory, also when the network is back. Optional.
     */
    void (*peer_abort)(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t silent_ms);

    /*
     * Memory for frames, when the fabric wants to know it: `*registration_p` is the plugin's until
     * slab_deregister. NA_PLUGIN_SUCCESS, or an error, and there is no such frame. Optional, both.
     */
    int32_t (*slab_register)(struct kit_endpoint *endpoint, void *base, uint64_t size,
                             void **registration_p);
    void (*slab_deregister)(struct kit_endpoint *endpoint, void *registration);

    /*
     * Where the fabric tells which path a frame came over: the path that leads to a peer, which
     * stays the plugin's, NULL when there is none, and whether the sender over a path has
     * introduced itself to the plugin by that name. A HELLO that does not come over the path of the
     * peer that it names is dropped, with the frame that it is in. It is asked when the HELLO
     * comes, also for names without a peer. Optional. A fabric that tells each frame's sender by
     * its name, as one of datagrams does, has path_is_named alone: a path, which need not outlive
     * kit_msg_frame_received(), is then any description of the sender, and no process has two
     * names.
     */
    const void *(*peer_path)(struct kit_endpoint *endpoint, const struct kit_peer *peer);
    bool (*path_is_named)(struct kit_endpoint *endpoint, const void *path, const char *name);

    /*
     * Starts a put or get; kit_msg_rma_done follows, perhaps inside the call. NA_PLUGIN_AGAIN:
     * tried again, in order, at the next poll. Anything else ends that operation.
     */
    int32_t (*rma_start)(struct kit_endpoint *endpoint, struct kit_msg_rma *rma);

    /*
     * Asked to end it early, by a cancel (status NA_PLUGIN_CANCELED) or because its peer failed.
     * True: it is certain that the local memory will not be touched any more; the operation
     * completes at once, and kit_msg_rma_done is still called when the fabric lets go of the
     * request. False: it completes when kit_msg_rma_done is called, or with its context when that
     * is stopped. Optional: false.
     */
    bool (*rma_abandon)(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status);

    /*
     * Ends all that the fabric works on, when the last context is destroyed: the ways to all peers
     * are broken, and made anew when a context is made again. True: kit_msg_frame_sent and
     * kit_msg_rma_done follow, perhaps inside the call. False when that cannot be done. Optional.
     */
    bool (*reset)(struct kit_endpoint *endpoint);

    /* A control record from a peer (kit_msg_control_send). Check everything in it. Optional. */
    void (*control)(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t type,
                    const void *data, uint64_t size);
};

/* Begins the plugin's struct na_plugin_class. */
struct kit_endpoint {
    const struct kit_msg_ops *ops;
    const char *plugin;         /* name, for the log */
    const char *protocol;       /* as it appears in addresses: `plugin+protocol://name` */
    struct msg_endpoint *state; /* inside of this layer */
    struct kit_rma *rma;        /* of kit_remote.h; NULL: none */
    bool is_rma_configured;     /* likewise */
};

/* ------------------------------------------------------------------------------------------------
 * Endpoints
 */

/* What kit_endpoint_open is told. Strings are copied. */
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
 * Opens the message layer of an endpoint whose fabric side can send and receive already, and fills
 * in the message limits and common capabilities of `info`. Undone by kit_endpoint_close, which
 * is safe after a failure and on an endpoint of zeroes.
 *
 * NA_PLUGIN_SUCCESS; NA_PLUGIN_INVALID_ARG for a config out of range (logged); NA_PLUGIN_NOMEM, or
 * NA_PLUGIN_IO_ERROR without random numbers.
 */
int32_t kit_endpoint_open(struct kit_endpoint *endpoint, const struct kit_endpoint_config *config,
                          struct na_plugin_class_info *info);

/*
 * Frees everything; calls peer_close and slab_deregister of what is left. The contexts are
 * destroyed. When frames are in progress the plugin must have closed its fabric endpoint before, so
 * that nothing refers to them.
 */
void kit_endpoint_close(struct kit_endpoint *endpoint);

/* ------------------------------------------------------------------------------------------------
 * What the plugin reports, with the lock held. All may be called from inside of ops, and call none
 * of them: what they say is noted down, and acted on when the outermost call of this layer ends.
 * kit_msg_frame_received belongs into ops.poll.
 */

/* The fabric is done with a frame; another status than success means that its peer failed. */
void kit_msg_frame_sent(struct kit_endpoint *endpoint, struct kit_frame *frame, int32_t status);

/*
 * A frame came; `data` need not be aligned. True: consumed, the memory is the plugin's again.
 * False: `data` must stay as it is until ops.frame_release(cookie). With no cookie it is always
 * true: what cannot be taken yet is copied. Nothing in the frame is trusted; what is encrypted is
 * decrypted where it lies. `path` is as in ops.peer_path, NULL when it is not known; only frames
 * that begin with a HELLO need it.
 */
bool kit_msg_frame_received(struct kit_endpoint *endpoint, void *data, uint64_t size,
                            const void *path, void *cookie);

/*
 * Whether there is room for another frame that no receive takes yet. When there is none, a plugin
 * without cookies leaves frames with the fabric, which holds their senders back, and pauses the
 * descriptor (kit_msg_wait_pause); a receive that is posted makes room, and has a sleeper poll.
 */
bool kit_msg_may_receive(const struct kit_endpoint *endpoint);

/* The fabric lets go of a put or get. */
void kit_msg_rma_done(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status);

/* Counts as malformed what the plugin itself drops, which logs it. Since 1.2. */
void kit_msg_dropped(struct kit_endpoint *endpoint);

/* Counts and logs a caller that the plugin itself turned away because of its key. */
void kit_msg_refused(struct kit_endpoint *endpoint, const char *name, const char *why);

/* Bytes of the largest control record. */
#define KIT_CONTROL_MAX 512u

/*
 * Queues a control record for the peer's ops.control, in order with messages, behind what waits.
 * `type` is the plugin's own. Size is at most KIT_CONTROL_MAX bytes.
 *
 * NA_PLUGIN_SUCCESS, NA_PLUGIN_MSGSIZE, or NA_PLUGIN_NOMEM.
 */
int32_t kit_msg_control_send(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t type,
                             const void *data, uint64_t size);

/*
 * The same of a record in two parts (kit_msg_control_data() returns as kit_msg_control_send()),
 * which are up to kit_msg_control_most() bytes together: where all is encrypted records are what
 * bulk data go in, and may be as large as a frame, up to KIT_CONTROL_LARGE.
 */
#define KIT_CONTROL_LARGE 16512u
uint32_t kit_msg_control_most(const struct kit_endpoint *endpoint);
int32_t kit_msg_control_data(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t type,
                             const void *head, uint64_t head_size, const void *data, uint64_t size);

/* ------------------------------------------------------------------------------------------------
 * For the plugin's own functions; they take the lock themselves
 */

/*
 * The peer of that canonical name, made if it is new, with one reference, which ends in addr_free.
 * `raw` may be NULL. A lookup of a known peer makes the next frame to it begin with a HELLO, so
 * that a restarted process is met as what it is.
 *
 * NA_PLUGIN_SUCCESS, NA_PLUGIN_INVALID_ARG when it is too long (logged), or NA_PLUGIN_NOMEM.
 */
int32_t kit_msg_peer_lookup(struct kit_endpoint *endpoint, const char *name, const void *raw,
                            uint32_t raw_size, struct na_plugin_addr **addr_p);

/*
 * For mem_deregister and mem_destroy where the fabric itself uses the handle, local or remote, of a
 * put or get: polls until those that were under way when their context was stopped are done with
 * it, for at most `timeout_ns` ns. False: they are not. The lock is held.
 */
bool kit_msg_rma_leave(struct kit_endpoint *endpoint, const struct na_plugin_mem *mem,
                       uint64_t timeout_ns);

/*
 * Whether all that is sent is encrypted: a plugin that has this said of it
 * (NA_PLUGIN_CAP_ENCRYPTED) sends bytes of the program in frames alone, or refuses to open.
 * kit_remote.h does that.
 */
bool kit_endpoint_encrypts(const struct kit_endpoint *endpoint);

/*
 * Whether a peer reaches memory only in the session in which it was granted to it: a plugin that
 * has this said of it (NA_PLUGIN_CAP_MEM_PER_SESSION) lets peers reach memory by its engine alone,
 * `rma`, which kit_remote.h has ask.
 */
bool kit_endpoint_has_grants(const struct kit_endpoint *endpoint);

/* Counts and logs a peer that asked for memory which it was not granted. The lock is held. */
void kit_msg_memory_refused(struct kit_endpoint *endpoint, const struct kit_peer *peer);

/* Whether a context is open that is not stopped. The lock is held. */
bool kit_endpoint_is_active(const struct kit_endpoint *endpoint);

/* Unlocking acts on what was reported meanwhile, as each of the functions below does. */
void kit_msg_lock(struct kit_endpoint *endpoint);
void kit_msg_unlock(struct kit_endpoint *endpoint);

/* The same for a plugin that calls its own poll under the lock, after it and not inside. */
void kit_msg_dispatch(struct kit_endpoint *endpoint);

/*
 * One round of progress, for a function that waits for a bounded time: the fabric is polled, what
 * it had no room for is sent again, and what was reported is acted on. NA_PLUGIN_SUCCESS, or what
 * ops.poll returned. The lock is held.
 */
int32_t kit_msg_progress(struct kit_endpoint *endpoint);

/*
 * Keep a peer valid, and let go of it: peer_hold and peer_release of struct kit_rma_ops. A peer
 * that was never opened is not closed either, and would go while transfers know it. `owner` is of
 * no matter.
 */
void kit_msg_peer_hold(void *owner, void *peer);
void kit_msg_peer_release(void *owner, void *peer);

/* ------------------------------------------------------------------------------------------------
 * For the plugin's table, as na_plugin.h says
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

/* They end in ops.rma_start. A plugin with more to check of its handles does so before it calls. */
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
 * For `try_wait`: while paused, sleepers wake by a timer and not by the fabric's descriptor, which
 * may stay readable for what no poll can do anything about.
 */
void kit_msg_wait_pause(struct kit_endpoint *endpoint, bool is_paused);

/* `get_fd` gives another descriptor; the one from before is closed. */
void kit_msg_wait_fd_changed(struct kit_endpoint *endpoint);

int32_t kit_msg_cancel(struct na_plugin_context *context, void *op);
int32_t kit_msg_cancel_trusted(struct na_plugin_context *context, void *op);

/*
 * na.multi_recv/1, na.addr_serialize/1 (name, raw and incarnation, all checked), na.counters/1
 * (refused_key, malformed, stale, other_name, refused_memory) and na.peer_events/1, which live as
 * long as the process; else NULL. kit_remote_get_extension() has these, too.
 */
const void *kit_msg_get_extension(const char *id);

/*
 * The functions above that every plugin over this layer has, for the initializer of its table:
 * `KIT_MSG_FUNCTIONS,`. The plugin names get_extension, kit_msg_get_extension or that of
 * kit_remote.h, and puts, gets and sleeping on a descriptor where it has them.
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
