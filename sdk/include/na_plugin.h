/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plugin ABI, version 1.2: everything a network transport needs to be loaded by Amalgam.
 *
 * A transport is a shared object named na_<name>.so that exports one symbol, na_plugin_entry_v1. It
 * includes this header and those of its fabric, links no library of Amalgam and imports no symbol
 * of Amalgam: struct na_host has everything it needs from the core, struct na_plugin everything the
 * core needs from it.
 *
 * How to read this header. Each function carries tags:
 *
 *   [any thread] may be called from several threads at once, also on the same object [one at a
 *   time] the core never calls it concurrently with another call on the same object [may not block]
 *   returns without waiting for a peer or for another thread's progress [mandatory] a table without
 *   this function is refused when the plugin is loaded [optional: ...] may be NULL or past the
 *   table's size; the text after the colon says what the core then does
 *
 * Rules that apply everywhere:
 *
 * - Status values are the NA_PLUGIN_* constants below, as int32_t. A function that returns another
 *   value than NA_PLUGIN_SUCCESS has no effect that the core must undo, unless its comment says
 *   otherwise. - Besides the status values that a comment names, a function returns the error that
 *   describes the failure best, for instance NA_PLUGIN_NOMEM or NA_PLUGIN_IO_ERROR, which is passed
 *   to the user. - Strings are NUL-terminated UTF-8. Input strings and structs belong to the caller
 *   and are valid during the call only; copy what you keep. Descriptor data (struct na_plugin and
 *   what it points to) must stay valid and unchanged as long as the process lives: a loaded plugin
 *   is never unloaded. - Sizes and offsets are bytes, times are milliseconds unless the name ends
 *   in _ns. - An operation (`void *op`) is the plugin's private part of an operation that the core
 *   owns. The core allocates na_plugin.op_size bytes at na_plugin.op_align, zero-filled once when
 *   the operation is created, and does not change the content afterwards, also between uses. - A
 *   function that takes an op and returns NA_PLUGIN_SUCCESS has accepted the operation. For each
 *   accepted operation the plugin reports exactly one completion through struct na_host: with
 *   success, with an error, or with NA_PLUGIN_CANCELED. It may do so inside the call that accepted
 *   the operation, in poll, poll_wait, cancel or context_stop, or from its own threads. If the call
 *   returns an error there is no completion. Buffers, addresses and memory handles given with an
 *   operation stay valid until its completion has been reported; from then on the operation may be
 *   reused or freed, even before the reporting function has returned. A class that never completes
 *   operations from its own threads declares NA_PLUGIN_CAP_NO_THREADS: if the user promised that
 *   one thread at a time uses it, the core then works without atomic exchanges. - Objects passed to
 *   a function (class, context, address, memory handle) are owned by the caller; a plugin that
 *   needs an address longer takes a reference. - A message's buffer is never NULL, also if its size
 *   is 0: an empty message is sent, matched and completed like any other. - Ids of contexts (id,
 *   dest_id, source_id, remote_id) are 0 to 255. Those of a peer are not checked by the core: the
 *   peer may have no such context. - Completion functions never call back into the plugin, so they
 *   may be called with locks held. - A failed or vanished peer fails the operations that concern
 *   it, never poll itself.
 *
 * How the ABI grows: functions are only appended to a table, and each table says its size. Either
 * side treats members past the other's size as absent. Families that not every fabric has are
 * separate tables, fetched by get_extension. The layout of every struct here is frozen by static
 * assertions. Everything that is not marked as newer exists since 1.0.
 */

#ifndef NA_PLUGIN_H
#define NA_PLUGIN_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * Version
 */

#define NA_PLUGIN_ABI_MAJOR 1u
#define NA_PLUGIN_ABI_MINOR 2u

/* Versions in tables are major << 16 | minor. Majors must be equal, any pair of minors works. */
#define NA_PLUGIN_ABI_VERSION ((NA_PLUGIN_ABI_MAJOR << 16) | NA_PLUGIN_ABI_MINOR)

/* The one symbol that a plugin exports; the major is part of its name. */
#define NA_PLUGIN_ENTRY_SYMBOL "na_plugin_entry_v1"

#if defined(__GNUC__) || defined(__clang__)
#    define NA_PLUGIN_EXPORT              __attribute__((visibility("default")))
#    define NA_PLUGIN_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#    define NA_PLUGIN_EXPORT
#    define NA_PLUGIN_PRINTF(text, first)
#endif

/* ------------------------------------------------------------------------------------------------
 * Status values (int32_t), numerically those of na_return_t
 */

#define NA_PLUGIN_SUCCESS        0  /* done, or accepted */
#define NA_PLUGIN_PERMISSION     1  /* the access flags or the peer's identity forbid it */
#define NA_PLUGIN_NOENTRY        2  /* no such endpoint, name or entry */
#define NA_PLUGIN_INTERRUPT      3  /* a signal interrupted a wait */
#define NA_PLUGIN_AGAIN          4  /* no resources now; the same call may succeed after a poll */
#define NA_PLUGIN_NOMEM          5  /* out of memory or shared memory */
#define NA_PLUGIN_ACCESS         6  /* the operating system refused access */
#define NA_PLUGIN_FAULT          7  /* an address or an internal state was bad */
#define NA_PLUGIN_BUSY           8  /* in use */
#define NA_PLUGIN_EXIST          9  /* exists already */
#define NA_PLUGIN_NODEV          10 /* no such device, or the fabric is not on this machine */
#define NA_PLUGIN_INVALID_ARG    11 /* an argument is malformed */
#define NA_PLUGIN_PROTOCOL_ERROR 12 /* the peer sent something that is not of this protocol */
#define NA_PLUGIN_OVERFLOW       13 /* a value is out of range, or a buffer too small for it */
#define NA_PLUGIN_MSGSIZE        14 /* a message is larger than the limit or the posted buffer */
#define NA_PLUGIN_PROTONOSUPPORT 15 /* the protocol is not one of this plugin's */
#define NA_PLUGIN_OPNOTSUPPORTED 16 /* the plugin does not offer this operation */
#define NA_PLUGIN_ADDRINUSE      17 /* the address to listen at is taken */
#define NA_PLUGIN_ADDRNOTAVAIL   18 /* the address to listen at is not ours */
#define NA_PLUGIN_HOSTUNREACH    19 /* the peer is gone or cannot be reached */
#define NA_PLUGIN_TIMEOUT        20 /* nothing happened in the given time */
#define NA_PLUGIN_CANCELED       21 /* the operation was cancelled */
#define NA_PLUGIN_IO_ERROR       22 /* the fabric failed in another way */
#define NA_PLUGIN_HOSTFIREWALL   23 /* the peer is unreachable behind a firewall */

/* ------------------------------------------------------------------------------------------------
 * Objects. The plugin defines the first four as it likes, the core the last two.
 */

struct na_plugin_class;   /* an opened endpoint */
struct na_plugin_context; /* a set of queues of a class, polled on its own */
struct na_plugin_addr;    /* a peer, reference-counted by the plugin */
struct na_plugin_mem;     /* a memory handle, local or remote */
/* The core's side of a class and of a context. Reserved: no function of the core takes them yet. A
 * plugin that wraps another one passes them on. */
struct na_host_class;
struct na_host_context;

/* ------------------------------------------------------------------------------------------------
 * Constants
 */

/* Log levels */
#define NA_PLUGIN_LOG_ERROR   1u
#define NA_PLUGIN_LOG_WARNING 2u
#define NA_PLUGIN_LOG_INFO    3u
#define NA_PLUGIN_LOG_DEBUG   4u

/* Capabilities of a plugin, and of a class (which may have fewer) */
#define NA_PLUGIN_CAP_RMA          (UINT64_C(1) << 0) /* put and get work */
#define NA_PLUGIN_CAP_RMA_NATIVE   (UINT64_C(1) << 1) /* without the target polling */
#define NA_PLUGIN_CAP_WAIT_FD      (UINT64_C(1) << 2) /* poll_get_fd gives a descriptor */
#define NA_PLUGIN_CAP_CANCEL_SEND  (UINT64_C(1) << 3) /* a queued send can be cancelled */
#define NA_PLUGIN_CAP_PEER_DEATH   (UINT64_C(1) << 4) /* operations fail when their peer dies */
#define NA_PLUGIN_CAP_DEVICE_MEM   (UINT64_C(1) << 5) /* memory types other than host */
#define NA_PLUGIN_CAP_FORWARD_PROG (UINT64_C(1) << 6) /* progresses without being polled */
#define NA_PLUGIN_CAP_NO_THREADS   (UINT64_C(1) << 7) /* completes inside of calls only */
/* Since 1.2, of a class with an auth_key: all messages are from peers with the same key, unaltered,
 * once and in order. HG does not seal them again. */
#define NA_PLUGIN_CAP_AUTHENTICATED (UINT64_C(1) << 8)
/* Since 1.2, of a class with `encrypt` set: no data that a program sends, puts or gets can be read
 * without its key. If the class lacks this capability, the core closes it again. */
#define NA_PLUGIN_CAP_ENCRYPTED (UINT64_C(1) << 9)
/* Since 1.2, of an authenticated class with auth_key_also: that key is accepted like the first. If
 * there is a second key and an authenticated class lacks this capability, the core closes it again.
 */
#define NA_PLUGIN_CAP_SECOND_KEY (UINT64_C(1) << 10)
/* Since 1.2, of an authenticated class with mem_per_session set: a peer reaches memory only in the
 * session in which it was granted (na_plugin_mem_grant.h). If the class lacks this capability, the
 * core closes it again. */
#define NA_PLUGIN_CAP_MEM_PER_SESSION (UINT64_C(1) << 11)

/* Flags of an offer */
#define NA_PLUGIN_OFFER_USABLE     (1u << 0) /* opening it on this machine can succeed */
#define NA_PLUGIN_OFFER_NODE_LOCAL (1u << 1) /* reaches peers on the same node only */
#define NA_PLUGIN_OFFER_NAMED_ONLY (1u << 2) /* only for init strings that name the plugin */

/* Access flags of a memory handle, as seen by the remote side */
#define NA_PLUGIN_MEM_READ  0x01u /* peers may get */
#define NA_PLUGIN_MEM_WRITE 0x02u /* peers may put */

/* Memory types */
#define NA_PLUGIN_MEM_TYPE_HOST 0u
#define NA_PLUGIN_MEM_TYPE_CUDA 1u
#define NA_PLUGIN_MEM_TYPE_ROCM 2u
#define NA_PLUGIN_MEM_TYPE_ZE   3u

/* na_plugin_init.progress_mode */
#define NA_PLUGIN_PROGRESS_BUSY     0x01u /* never sleeps: no wait or wake-up call is needed */
#define NA_PLUGIN_PROGRESS_NO_RETRY 0x02u /* report back-pressure to the caller, do not queue */

/* na_plugin_init.thread_mode; 0 means that any thread may call anything */
#define NA_PLUGIN_THREAD_SINGLE_CLASS   0x01u /* one thread at a time uses the class */
#define NA_PLUGIN_THREAD_SINGLE_CONTEXT 0x02u /* one thread at a time uses a context */

/* na_plugin_init.addr_format */
#define NA_PLUGIN_ADDR_UNSPEC 0u
#define NA_PLUGIN_ADDR_IPV4   1u
#define NA_PLUGIN_ADDR_IPV6   2u
#define NA_PLUGIN_ADDR_NATIVE 3u

/* na_plugin_init.traffic_class */
#define NA_PLUGIN_TC_UNSPEC       0u
#define NA_PLUGIN_TC_BEST_EFFORT  1u
#define NA_PLUGIN_TC_LOW_LATENCY  2u
#define NA_PLUGIN_TC_BULK_DATA    3u
#define NA_PLUGIN_TC_DEDICATED    4u
#define NA_PLUGIN_TC_SCAVENGER    5u
#define NA_PLUGIN_TC_NETWORK_CTRL 6u

/* na_plugin.msg_buf_alloc flags */
#define NA_PLUGIN_BUF_SEND       0x01u
#define NA_PLUGIN_BUF_RECV       0x02u
#define NA_PLUGIN_BUF_MULTI_RECV 0x04u

/* ------------------------------------------------------------------------------------------------
 * Provided by the core
 */

/*
 * One thing that a plugin can open. Frozen: never grows. Strings are copied by the core. An offer
 * whose protocol cannot occur in an init string is listed as not usable; a device with a space, a
 * comma or a control character, which an init string cannot name either, is left out.
 *
 * The scale of priorities is shared by all plugins, from 0 to 100: 100 is the memory of the node,
 * 65 to 95 the hardware of a fabric, 20 to 40 transports over TCP that run everywhere, lower values
 * last resorts; 0 is for another name of an offer. A plugin places itself according to what it is
 * faster than.
 */
struct na_plugin_offer {
    const char *protocol; /* as in `plugin+protocol`, see enumerate; never NULL */
    const char *device;   /* device, domain or interface; NULL when there is none to name */
    const char *reason;   /* why it is not usable; NULL when it is */
    int32_t priority;     /* `auto` takes the usable offer with the highest priority of all
                           * plugins */
    uint32_t flags;       /* NA_PLUGIN_OFFER_* */
};

/*
 * Receives and copies one offer during na_plugin.enumerate. Returns NA_PLUGIN_SUCCESS, or a value
 * that enumerate must return at once. [one at a time]
 */
typedef int32_t (*na_plugin_offer_fn)(void *arg, const struct na_plugin_offer *offer);

/*
 * The host table. The core passes the same one to every plugin; it is valid as long as the process
 * lives. Every function is [any thread] and [may not block].
 */
struct na_host {
    uint32_t abi_version; /* NA_PLUGIN_ABI_VERSION of the core */
    uint32_t size;        /* bytes of this table that the core knows */

    /*
     * Completes an operation without a received message: a send, a put or a get, or any operation
     * that failed or was cancelled, including receives.
     */
    void (*op_complete)(void *op, int32_t status);

    /*
     * Completes a receive. `size` is the length of the message in the posted buffer. For an
     * unexpected receive that succeeded, `source` is a reference to the sender, which the core
     * takes over, and `tag` the sender's tag; for an expected receive they are NULL and the tag of
     * the receive. Each report passes one reference, which the core releases by addr_free: a plugin
     * that keeps the sender's object takes another reference for the core, as in addr_dup. A
     * receive that failed may be completed here, with size 0 and source NULL, or by op_complete;
     * both mean the same.
     */
    void (*op_complete_recv)(void *op, int32_t status, uint64_t size, struct na_plugin_addr *source,
                             uint32_t tag);

    /*
     * Reports one message of a multi-receive: it lies at `buf` inside the posted buffer. `last` not
     * 0 ends the operation: afterwards the buffer belongs to the core again. An operation that ends
     * without a message (cancelled, failed) is ended by op_complete. Returns NA_PLUGIN_NOMEM when
     * the event cannot be queued: the message was not accepted, the plugin still owns `source`, and
     * must retry later.
     */
    int32_t (*op_complete_multi_recv)(void *op, int32_t status, void *buf, uint64_t size,
                                      struct na_plugin_addr *source, uint32_t tag, uint32_t last);

    /*
     * Returns zero-filled memory of `size` bytes at `align` (a power of two, 0 for the default),
     * which mem_free frees, or NULL.
     */
    void *(*mem_alloc)(uint64_t size, uint64_t align);

    /* Frees memory from mem_alloc; NULL is allowed. */
    void (*mem_free)(void *ptr);

    /* Returns 1 when a message of this level would be written, 0 otherwise. */
    uint32_t (*log_enabled)(uint32_t level);

    /* Writes one line. `plugin` is the plugin's name, `message` has no newline. */
    void (*log)(uint32_t level, const char *plugin, const char *function, uint32_t line,
                const char *message);

    /* Returns monotonic time in nanoseconds. */
    uint64_t (*clock_ns)(void);

    /*
     * Returns the core's table of an optional family (of those ids below that the core provides),
     * which is valid as long as the process lives, or NULL. It begins with struct
     * na_plugin_extension. Since 1.1: a core whose table ends before this member has no such
     * families.
     */
    const void *(*get_extension)(const char *id);
};

/*
 * The parsed init string and init info. Grows like a table.
 */
struct na_plugin_init {
    uint32_t size;
    /* 1: peers that do not have our address from us may send. 0: origin only; addr_self and
     * addr_to_string still work, see addr_lookup for the use of that address. */
    uint32_t listen;
    const char *class_name; /* the part before the first '+', or the plugin's name */
    const char *protocol;   /* the protocol that was picked; never NULL */
    const char *address;    /* everything after "://", verbatim; NULL when there is none */
    const char *ip_subnet;  /* preferred subnet; NULL when not given */
    /* The key shared by the processes of a job; NULL when not given. A class that proves and checks
     * it for everything it sends declares NA_PLUGIN_CAP_AUTHENTICATED; over other classes HG does
     * so for each RPC. A plugin whose fabric has its own keys may use the text for them. It is a
     * secret: never log it. */
    const char *auth_key;
    uint64_t max_unexpected_size; /* hint: wanted size in bytes; 0 for the default */
    uint64_t max_expected_size;   /* hint, likewise */
    uint32_t progress_mode;       /* NA_PLUGIN_PROGRESS_* */
    uint32_t thread_mode;         /* NA_PLUGIN_THREAD_* */
    uint32_t addr_format;         /* NA_PLUGIN_ADDR_* */
    uint32_t traffic_class;       /* NA_PLUGIN_TC_*: a hint; ignored by fabrics without it */
    uint32_t max_contexts;        /* at least 1: contexts that will be created, ids 0..n-1 */
    /* 1: transfers to device memory are wanted. A plugin without them need not refuse to open: its
     * class does not declare NA_PLUGIN_CAP_DEVICE_MEM, and mem_register refuses such memory
     * (NA_PLUGIN_OPNOTSUPPORTED). */
    uint32_t request_mem_device;
    /* Since 1.2: the part of the init string's address after the last "?", which is then not in
     * `address`: `name=value`, several separated by "&". NULL when there is none. Each name is one
     * of na_plugin.option_names, and occurs once; a value may be anything, also empty. A plugin
     * refuses unknown values (NA_PLUGIN_INVALID_ARG). */
    const char *options;
    /* Since 1.2: a second key that is accepted besides auth_key, and is as secret; NULL when not
     * given. A class that accepts it declares NA_PLUGIN_CAP_SECOND_KEY. */
    const char *auth_key_also;
    /* Since 1.2: 1 when no data may be sent that can be read without auth_key, which is then given.
     * A class that does so declares NA_PLUGIN_CAP_ENCRYPTED; if it cannot, it refuses to open with
     * a reason. */
    uint32_t encrypt;
    /* Since 1.2: 1 when peers may reach memory only in the session in which it was granted to them,
     * with auth_key, which is then given. A class that does so declares
     * NA_PLUGIN_CAP_MEM_PER_SESSION. */
    uint32_t mem_per_session;
};

/*
 * Limits of an opened class, filled in by initialize. The core sets `size` and zeroes the rest
 * before the call; a plugin writes no member past that size. Grows like a table.
 */
struct na_plugin_class_info {
    uint32_t size;
    uint32_t max_tag;      /* highest tag of messages */
    uint64_t capabilities; /* NA_PLUGIN_CAP_* of this class; those not declared by the plugin are
                       * ignored */
    /* Largest unexpected and expected message, header included: at least 256 bytes besides the
     * header, at most 1 GiB; many buffers of this size are allocated. */
    uint64_t max_unexpected_size;
    uint64_t max_expected_size;
    uint64_t unexpected_header_size; /* size of the plugin's header, at most 4096 */
    uint64_t expected_header_size;
    uint64_t max_rma_size; /* largest single put or get, at least 4096; 0 for no limit */
    /* Since 1.1: maximum number of segments of a memory handle of this class, if it is lower than
     * that of na_plugin_mem_segments; 0: the same. Check `size` before writing it. */
    uint64_t max_segments;
};

/* ------------------------------------------------------------------------------------------------
 * Provided by the plugin
 */

/*
 * The plugin's descriptor and table. Filled in by the plugin, returned by its entry function,
 * checked at load time and never written by the core.
 */
struct na_plugin {
    uint32_t abi_version; /* NA_PLUGIN_ABI_VERSION that the plugin was built with */
    uint32_t size;        /* sizeof(struct na_plugin) that the plugin was built with */

    const char *name;        /* the <name> of the file na_<name>.so */
    const char *version;     /* the plugin's own version, for people */
    const char *description; /* one line for people */

    /*
     * Additional class names of this plugin in init strings, NULL-terminated; most plugins have
     * none: NULL. They are for a transport that is known by another name than its file's: na_sm.so
     * is `na`, as in `na+sm`. `alias+protocol` finds the plugin if there is no file na_<alias>.so:
     * the core checks na_<protocol>.so first and then every plugin. The first class name, or
     * without any the plugin's name, is the class name that users see and that begins addresses; a
     * plugin that wants its own name there, and an alias besides, puts its name first.
     */
    const char *const *class_names;

    uint32_t op_size;      /* private bytes for each operation; may be 0 */
    uint32_t op_align;     /* their alignment, a power of two up to 128; 0 when op_size is 0 */
    uint64_t capabilities; /* NA_PLUGIN_CAP_* that a class of this plugin can have */

    /*
     * Reports all offers, best first: each protocol, on each device worth naming, also those that
     * this machine lacks (not usable, with the reason). A protocol's name consists of letters,
     * digits and "_-.;+", without "+" at an end or next to another; ";" separates the parts of a
     * list, because "," ends a choice of an init string. Opens no endpoint. Returns the result of
     * the last `report`, or an error when the fabric could not be queried.
     *
     * `protocol` NULL means all. Otherwise an init string has this protocol, with or without the
     * plugin's name before it: report offers of exactly this name, and none if it is unknown. Here
     * the plugin decides on names that it does not list among all, for instance a provider's raw
     * name or a list of transports: a name that could be opened is reported with
     * NA_PLUGIN_OFFER_NAMED_ONLY, so that `plugin+protocol` opens it, but the protocol alone, which
     * any plugin may offer, does not; a name that could not is reported as not usable, and the user
     * reads the reason. [mandatory] [any thread] [may not block]
     */
    int32_t (*enumerate)(const char *protocol, na_plugin_offer_fn report, void *arg);

    /*
     * Opens an endpoint. `*class_p` is NULL on entry; on failure the plugin may leave it NULL, or
     * store a partly initialized class there, which the core then passes to finalize. After a
     * failure the user reads the status and one line: the last one that this call has logged, in
     * the calling thread, at NA_PLUGIN_LOG_ERROR, whatever log level is set (up to 255 bytes). So
     * that line should have the error, the value and what to do, and be the last one at that level.
     * Returns NA_PLUGIN_INVALID_ARG for a malformed address or option, NA_PLUGIN_ADDRINUSE or
     * NA_PLUGIN_ADDRNOTAVAIL for an address to listen at that is taken or not ours, NA_PLUGIN_NODEV
     * or NA_PLUGIN_PROTONOSUPPORT for a device or protocol that this machine lacks. [mandatory]
     * [any thread]
     */
    int32_t (*initialize)(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info);

    /*
     * Frees a class whose contexts are destroyed, and whose addresses and memory handles are freed
     * (forgotten ones are freed here), also one that initialize left partly initialized. Returns an
     * error to have it reported; the class is freed all the same. [mandatory] [one at a time]
     */
    int32_t (*finalize)(struct na_plugin_class *na_class);

    /*
     * Creates context number `id`, 0 <= id < na_plugin_init.max_contexts; each id at most once at a
     * time. A number may be used again after context_destroy: peers keep their addresses and
     * connections, and messages that they send from then on arrive at the new context. A message
     * that was sent to the former one and not received, or sent while there was none, fails
     * (NA_PLUGIN_HOSTUNREACH) or is lost; one that was still in flight may arrive at the new one.
     * `*context_p` is NULL on entry. After a failure the core does not read it and calls neither
     * context_stop nor context_destroy: unlike initialize, this function cleans up itself. Returns
     * NA_PLUGIN_INVALID_ARG for an id that is too high, NA_PLUGIN_EXIST for one that is in use.
     * context_destroy frees it. [mandatory] [one at a time]
     */
    int32_t (*context_create)(struct na_plugin_class *na_class,
                              struct na_host_context *host_context, uint32_t id,
                              struct na_plugin_context **context_p);

    /*
     * First step of closing: all outstanding operations of the context complete before this
     * returns, as cancelled unless they completed otherwise; no operation is accepted afterwards
     * (NA_PLUGIN_FAULT). Message buffers are not accessed any more. Nor is the local memory of puts
     * and gets if the fabric can be stopped; otherwise the fabric may still access it, although the
     * operation has completed, until mem_deregister has returned. The plugin keeps the resources
     * that the fabric still uses, and frees them in polls of other contexts or in finalize; this
     * call waits for neither the fabric nor a peer. Idempotent. Returns an error to have it logged;
     * context_destroy follows all the same. [mandatory] [one at a time] [may not block]
     */
    int32_t (*context_stop)(struct na_plugin_context *context);

    /*
     * Second step of closing: frees a stopped context. None of its operations is outstanding. It
     * may wait for a tenth of a second, so that the fabric finishes its work and peers are
     * notified. Returns an error to have it logged; the context is freed all the same. [mandatory]
     * [one at a time]
     */
    int32_t (*context_destroy)(struct na_plugin_context *context);

    /*
     * Prepares the private part of a new operation; undone by op_finalize. Returns an error when
     * the operation cannot be created: op_finalize is not called then. [optional: the zero-filled
     * bytes are used as they are] [any thread] [may not block]
     */
    int32_t (*op_initialize)(struct na_plugin_class *na_class, void *op);
    void (*op_finalize)(struct na_plugin_class *na_class, void *op);

    /*
     * Makes an address from its string form (`class+protocol://...`, or the part after "://").
     * `*addr_p` is one reference, freed by addr_free. Returns NA_PLUGIN_INVALID_ARG for a
     * malformed string. A peer that is known not to exist is an error here (NA_PLUGIN_NOENTRY,
     * NA_PLUGIN_HOSTUNREACH); otherwise the first operation fails. The address of a class that does
     * not listen (na_plugin_init.listen 0), which is the source of its messages, is looked up like
     * any other; a peer that has it from such a message can answer. Operations of a peer that has
     * only the string may arrive or fail with NA_PLUGIN_HOSTUNREACH, depending on the fabric: a
     * caller must not rely on either. [mandatory] [any thread]
     */
    int32_t (*addr_lookup)(struct na_plugin_class *na_class, const char *name,
                           struct na_plugin_addr **addr_p);

    /* Drops one reference. [mandatory] [any thread] [may not block] */
    void (*addr_free)(struct na_plugin_class *na_class, struct na_plugin_addr *addr);

    /*
     * Adds one reference, or copies: `*addr_p` is freed by a separate addr_free. Returns
     * NA_PLUGIN_NOMEM if out of memory. [mandatory] [any thread] [may not block]
     */
    int32_t (*addr_dup)(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                        struct na_plugin_addr **addr_p);

    /*
     * Returns NA_PLUGIN_SUCCESS and the address of the class itself in `*addr_p`: one reference,
     * freed by addr_free. [mandatory] [any thread] [may not block]
     */
    int32_t (*addr_self)(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p);

    /*
     * Returns 1 when it is the class's own address, 0 otherwise. [mandatory] [any thread]
     * [may not block]
     */
    uint32_t (*addr_is_self)(struct na_plugin_class *na_class, struct na_plugin_addr *addr);

    /*
     * Returns 1 when both mean the same endpoint, 0 otherwise. [mandatory] [any thread]
     * [may not block]
     */
    uint32_t (*addr_compare)(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                             struct na_plugin_addr *addr2);

    /*
     * Writes the string form, including the NUL, that addr_lookup of any process takes. With `buf`
     * NULL only sets `*size` to the size needed; if the buffer is too small, sets it as well and
     * returns NA_PLUGIN_OVERFLOW. [mandatory] [any thread] [may not block]
     */
    int32_t (*addr_to_string)(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                              char *buf, uint64_t *size);

    /*
     * Notes that the peer will not come back: its resources may be freed with the last reference.
     * Returns NA_PLUGIN_SUCCESS, also when there is nothing to do. [optional: nothing] [any thread]
     * [may not block]
     */
    int32_t (*addr_set_remove)(struct na_plugin_class *na_class, struct na_plugin_addr *addr);

    /*
     * Returns memory for message buffers, which msg_buf_free frees, or NULL; `*data_p` is the
     * fabric's data of the buffer, owned by the buffer: every message call gets both. [optional:
     * page-aligned memory for large, cache-line-aligned for small buffers, data NULL] [any thread]
     * [may not block]
     */
    void *(*msg_buf_alloc)(struct na_plugin_class *na_class, uint64_t size, uint32_t flags,
                           void **data_p);
    void (*msg_buf_free)(struct na_plugin_class *na_class, void *buf, void *data);

    /*
     * Writes the plugin's header at the beginning of a send buffer, once for each buffer. Returns
     * NA_PLUGIN_OVERFLOW when `size` is too small for it. [optional: nothing; required when a
     * header size is not 0] [any thread] [may not block]
     */
    int32_t (*msg_init_unexpected)(struct na_plugin_class *na_class, void *buf, uint64_t size);
    int32_t (*msg_init_expected)(struct na_plugin_class *na_class, void *buf, uint64_t size);

    /*
     * Sends a message that matches no particular receive, to context `dest_id` of `dest`. The core
     * has checked size and tag against the class's limits. Returns NA_PLUGIN_HOSTUNREACH for a peer
     * that is known to be gone, NA_PLUGIN_FAULT for a context that was stopped. Messages of one
     * context to one context arrive in the order of the calls that accepted them; unexpected and
     * expected ones share that order. Messages that differ in either context are not ordered. When
     * resources run out the plugin queues the operation and retries in poll, or, with
     * NA_PLUGIN_PROGRESS_NO_RETRY, returns NA_PLUGIN_AGAIN. A message without a posted receive
     * waits at the destination or holds back its sender, within a bound; it is not dropped. Up to
     * that bound expected messages overtake those that wait, at the source or the destination. Once
     * the bound is reached, all later messages may be held back until a receive is posted,
     * including expected messages and those of other senders: a caller that waits for those must
     * post receives for unexpected messages. [mandatory] [any thread] [may not block]
     */
    int32_t (*msg_send_unexpected)(struct na_plugin_context *context, void *op, const void *buf,
                                   uint64_t size, void *data, struct na_plugin_addr *dest,
                                   uint32_t dest_id, uint32_t tag);

    /*
     * Posts a buffer for one unexpected message from any peer; posted receives are filled in order.
     * A message larger than the buffer completes it with NA_PLUGIN_MSGSIZE. Returns NA_PLUGIN_FAULT
     * for a context that was stopped. [mandatory] [any thread] [may not block]
     */
    int32_t (*msg_recv_unexpected)(struct na_plugin_context *context, void *op, void *buf,
                                   uint64_t size, void *data);

    /*
     * Sends a message to a receive that was posted before with us as source and with this tag.
     * Without such a receive the destination drops the message. Returns as msg_send_unexpected.
     * [mandatory] [any thread] [may not block]
     */
    int32_t (*msg_send_expected)(struct na_plugin_context *context, void *op, const void *buf,
                                 uint64_t size, void *data, struct na_plugin_addr *dest,
                                 uint32_t dest_id, uint32_t tag);

    /*
     * Posts a buffer for the expected message with `tag` from context `source_id` of `source`.
     * Among receives for the same source and tag the first posted is filled first. Returns as
     * msg_send_unexpected. [mandatory] [any thread] [may not block]
     */
    int32_t (*msg_recv_expected)(struct na_plugin_context *context, void *op, void *buf,
                                 uint64_t size, void *data, struct na_plugin_addr *source,
                                 uint32_t source_id, uint32_t tag);

    /*
     * Describes `length` bytes at `base`, which peers may access as `flags` allow. Does not access
     * the memory. `*mem_p` is freed by mem_destroy. Returns NA_PLUGIN_INVALID_ARG for memory
     * outside the address space. [optional: no RMA] [any thread] [may not block]
     */
    int32_t (*mem_create)(struct na_plugin_class *na_class, void *base, uint64_t length,
                          uint32_t flags, struct na_plugin_mem **mem_p);

    /* Frees a handle, made or deserialized; deregisters first. [with mem_create] [any thread] */
    void (*mem_destroy)(struct na_plugin_class *na_class, struct na_plugin_mem *mem);

    /*
     * Makes the memory accessible to peers and to local operations, until mem_deregister. After
     * deregistration no remote access succeeds where the fabric can enforce it, and puts and gets
     * of stopped contexts do not touch it. So mem_deregister may have to wait: for some seconds at
     * most, also if a peer is stopped; then the connection to that peer is aborted. Returns
     * NA_PLUGIN_OPNOTSUPPORTED for a type of memory that the class cannot use. [optional: success]
     * [any thread]
     */
    int32_t (*mem_register)(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                            uint32_t mem_type, uint64_t device);
    int32_t (*mem_deregister)(struct na_plugin_class *na_class, struct na_plugin_mem *mem);

    /*
     * The serialized form of a registered handle: mem_serialize_size returns its size,
     * mem_serialize writes it, and mem_deserialize makes a remote handle of it, freed by
     * mem_destroy. mem_serialize returns NA_PLUGIN_OVERFLOW if the buffer is too small and
     * NA_PLUGIN_INVALID_ARG for a handle that is not registered, mem_deserialize
     * NA_PLUGIN_PROTOCOL_ERROR for bytes that are not a handle. The core sends and checks length
     * and access flags itself; everything in `buf` comes from another process and must be checked.
     * [with mem_create] [any thread] [may not block]
     */
    uint64_t (*mem_serialize_size)(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
    int32_t (*mem_serialize)(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                             uint64_t size);
    int32_t (*mem_deserialize)(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                               struct na_plugin_mem **mem_p);

    /*
     * Copies `length` bytes between a registered local and a deserialized remote handle of context
     * `remote_id` of `remote`: put writes there, get reads from there. Completes when the local
     * memory may be reused and, for put, when the data is visible to the target. The core has
     * checked both ranges, the flags and max_rma_size; length is not 0. Queues, retries and returns
     * like a send. [optional: NA_PLUGIN_OPNOTSUPPORTED; with mem_create] [any thread]
     * [may not block]
     */
    int32_t (*put)(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                   uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                   uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
    int32_t (*get)(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                   uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                   uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);

    /*
     * Makes progress without waiting and adds its completions to `*count`: each completion that it
     * reported, of any context of the class, and each message of a multi-receive, once. Completions
     * of other calls or of the plugin's own threads may be added by a later poll, also once, or not
     * at all: the core takes completions from its queue and does not depend on this number. When
     * another thread is already polling the context it may return at once without progress. Returns
     * an error only when the whole class cannot continue. [mandatory] [any thread] [may not block]
     */
    int32_t (*poll)(struct na_plugin_context *context, uint32_t *count);

    /*
     * Like poll, but waits up to `timeout_ms` for something to complete or for wake. Returns as
     * poll, and NA_PLUGIN_TIMEOUT when nothing completed in that time. [optional: the core waits on
     * the descriptor of poll_get_fd, or polls and backs off] [any thread]
     */
    int32_t (*poll_wait)(struct na_plugin_context *context, uint32_t timeout_ms, uint32_t *count);

    /*
     * Returns a descriptor that becomes readable when poll has something to do, or when one of the
     * plugin's own threads has completed something, provided poll_try_wait returned 1 before; the
     * plugin owns it. Returns -1 when this class has none (busy mode). [optional: none] [any
     * thread] [may not block]
     */
    int32_t (*poll_get_fd)(struct na_plugin_context *context);

    /*
     * Returns 1 when it is safe to sleep on the descriptor: any event from now on makes it
     * readable, until the next poll. Returns 0 when there is something to poll for, or if that is
     * unknown: the caller polls at once and asks again, so an unnecessary 0 costs one poll, and a
     * permanent 0 a processor. After a wrong 1 the caller may sleep for any time although work is
     * waiting. [optional: 1] [any thread] [may not block]
     */
    uint32_t (*poll_try_wait)(struct na_plugin_context *context);

    /* Ends a poll_wait in another thread early. [optional: nothing] [any thread] [may not block] */
    void (*wake)(struct na_plugin_context *context);

    /*
     * Requests that an operation complete soon: as cancelled if it has not made any progress yet,
     * otherwise as it would without the request. Once it has completed, its memory belongs to the
     * caller again: a partly filled receive is not written to any more. Any part of a put that
     * completes as cancelled may have reached the target, and parts in flight may still be written
     * there afterwards, until the target deregisters the memory. A send that completes as cancelled
     * does not arrive. Returns NA_PLUGIN_SUCCESS when the request was accepted, also when the
     * operation completed meanwhile, and NA_PLUGIN_OPNOTSUPPORTED when it cannot be cancelled. The
     * core calls it only for operations that are outstanding when it checks, so the completion may
     * have been reported, and the memory freed, just before: compare `op` with the addresses of the
     * plugin's operations, and read nothing through it before one of them is equal. If there is
     * cancel_trusted the core calls that instead. [mandatory] [any thread] [may not block]
     */
    int32_t (*cancel)(struct na_plugin_context *context, void *op);

    /*
     * Returns the table of an optional family (ids below, or a vendor's own prefixed with its
     * domain, such as "com.example.atomics/1"), which is valid as long as the process lives, or
     * NULL. It begins with struct na_plugin_extension. [optional: no extensions] [any thread] [may
     * not block]
     */
    const void *(*get_extension)(const char *id);

    /* Frees process-wide state; no class is open. [optional: nothing] [one at a time] */
    void (*cleanup)(void);

    /*
     * Like cancel, and returns the same, for a plugin that finds the state of an operation in its
     * private part and need not search. Until the call returns, `op` is an operation of `context`
     * that was posted and not called back: it is not posted again, finalized or freed, and its
     * arguments stay valid. Two cases are still possible: its completion has been reported, or the
     * call that posts it is running in another thread and has not written to it yet. So record in
     * the private part whether and where the operation is queued; set and clear that, before the
     * completion is reported, under a lock that this function takes, too. A core before 1.2, and a
     * wrapping plugin that cannot guarantee this, call cancel. Since 1.2. [optional: cancel] [any
     * thread] [may not block]
     */
    int32_t (*cancel_trusted)(struct na_plugin_context *context, void *op);

    /*
     * Names of the options in init strings, as in `plugin+protocol://address?name=value`: at most
     * 32 names, NULL-terminated, each of at most 32 lower-case letters, digits and "_". The core
     * refuses an init string with any other name and lists these. NULL for none: then the core does
     * not parse options, and a "?" is a part of the address, as with a core before 1.2 for all
     * plugins. Since 1.2.
     */
    const char *const *option_names;

    /*
     * Returns the capabilities of the class's na_plugin_class_info that apply to this peer: for
     * instance NA_PLUGIN_CAP_RMA_NATIVE, if transfers with some peers need their help. The plugin
     * may find that out in this call; the result may change until a message of the peer has
     * arrived. Since 1.2. [optional: those of the class] [any thread] [may not block]
     */
    uint64_t (*addr_capabilities)(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
};

/*
 * The only exported function, called once after the plugin is loaded. Returns NA_PLUGIN_SUCCESS
 * with `*plugin_p` set, or an error with `*reason_p` set to a string that is valid for ever: then
 * the plugin refuses to work on this machine, and the user reads the reason. It must check
 * host->abi_version before it uses members that were added after version 1.0. [one at a time] [may
 * not block]
 */
NA_PLUGIN_EXPORT int32_t na_plugin_entry_v1(const struct na_host *host,
                                            const struct na_plugin **plugin_p,
                                            const char **reason_p);

/* ------------------------------------------------------------------------------------------------
 * Extensions: each id names one table and its revision; a table grows like struct na_plugin. Each
 * has its own header, na_plugin_<extension>.h: see the end of this one
 */

struct na_plugin_extension {
    uint32_t size;     /* of the whole table that begins here */
    uint32_t reserved; /* 0 */
};

/* ------------------------------------------------------------------------------------------------
 * A helper, and what holds the layout
 */

/*
 * Formats one log line and passes it to the core; costs one call when the level is off. [any
 * thread]
 */
static inline void na_plugin_log(const struct na_host *host, uint32_t level, const char *plugin,
                                 const char *function, uint32_t line, const char *format, ...)
    NA_PLUGIN_PRINTF(6, 7);

static inline void na_plugin_log(const struct na_host *host, uint32_t level, const char *plugin,
                                 const char *function, uint32_t line, const char *format, ...)
{
    char message[1024];
    va_list args;

    if (!host->log_enabled(level))
        return;
    va_start(args, format);
    (void) vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    host->log(level, plugin, function, line, message);
}

#ifdef __cplusplus
#    define NA_PLUGIN_ASSERT(condition) static_assert(condition, "layout of ABI 1")
#else
#    define NA_PLUGIN_ASSERT(condition) _Static_assert(condition, "layout of ABI 1")
#endif

/* Minors may append members; existing members keep their offsets. */
#if UINTPTR_MAX == UINT64_MAX
NA_PLUGIN_ASSERT(sizeof(struct na_plugin_offer) == 32);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_offer, priority) == 24);
NA_PLUGIN_ASSERT(sizeof(struct na_plugin_extension) == 8);
NA_PLUGIN_ASSERT(offsetof(struct na_host, op_complete) == 8);
NA_PLUGIN_ASSERT(offsetof(struct na_host, clock_ns) == 64);
NA_PLUGIN_ASSERT(offsetof(struct na_host, get_extension) == 72);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_init, class_name) == 8);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_init, max_unexpected_size) == 48);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_init, request_mem_device) == 84);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_init, options) == 88);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_class_info, max_rma_size) == 48);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin, name) == 8);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin, op_size) == 40);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin, enumerate) == 56);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin, addr_lookup) == 120);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin, msg_send_unexpected) == 216);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin, mem_create) == 248);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin, put) == 304);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin, cleanup) == 376);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin, cancel_trusted) == 384);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin, option_names) == 392);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin, addr_capabilities) == 400);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_class_info, max_segments) == 56);
#endif

#ifdef __cplusplus
}
#endif

/*
 * The extensions. Each header compiles without the others; they are included here as well, because
 * in ABI 1 they were parts of this header.
 */
#include "na_plugin_addr_serialize.h"
#include "na_plugin_counters.h"
#include "na_plugin_mem_alloc.h"
#include "na_plugin_mem_grant.h"
#include "na_plugin_mem_segments.h"
#include "na_plugin_multi_recv.h"
#include "na_plugin_offer_details.h"
#include "na_plugin_peer_events.h"
#include "na_plugin_wrap.h"

#endif /* NA_PLUGIN_H */
