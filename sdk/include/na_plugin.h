/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plugin ABI, version 1.2: everything a network transport needs to be loaded by Amalgam.
 *
 * A transport is a shared object named na_<name>.so that exports one symbol, na_plugin_entry_v1. It
 * includes this header and its own fabric's, links nothing of ours and imports no symbol of ours:
 * what it needs from the core is in struct na_host, what the core needs from it is in struct
 * na_plugin.
 *
 * How to read this header. Each function carries tags:
 *
 *   [any thread]      may be called from several threads at once, also on the same object
 *   [one at a time]   the core never calls it concurrently with another call on the same object
 *   [may not block]   returns without waiting for a peer or for another thread's progress
 *   [mandatory]       a table without it is refused when it is loaded
 *   [optional: ...]   may be NULL or past the table's size; after the colon, what the core then
 *                     does
 *
 * Rules that hold everywhere:
 *
 * - Status values are the NA_PLUGIN_* constants below, as int32_t. A function that returns anything
 *   but NA_PLUGIN_SUCCESS has had no effect that the core must undo, unless its comment says
 *   otherwise.
 * - Besides the status values that a comment names, a function returns the error that says best
 *   what is wrong, NA_PLUGIN_NOMEM or NA_PLUGIN_IO_ERROR for instance, which the user gets.
 * - Strings are NUL-terminated UTF-8. Input strings and structs belong to the caller and are valid
 *   during the call only; copy what you keep. Descriptor data (struct na_plugin and what it points
 *   to) must stay valid and unchanged as long as the process lives: a loaded plugin is never
 *   unloaded.
 * - Sizes and offsets are bytes, times are milliseconds unless the name ends in _ns.
 * - An operation (`void *op`) is the plugin's private part of an operation that the core owns. The
 *   core allocates na_plugin.op_size bytes at na_plugin.op_align, zero-filled once when the
 *   operation is created, and leaves the content alone afterwards, also between uses.
 * - A function that takes an op and returns NA_PLUGIN_SUCCESS has accepted the operation. For each
 *   accepted operation the plugin reports exactly one completion through struct na_host: with
 *   success, with an error, or with NA_PLUGIN_CANCELED. It may do so inside the very call that
 *   accepted it, in poll, poll_wait, cancel or context_stop, or from a thread of its own. If the
 *   call returns an error there is no completion. Buffers, addresses and memory handles given with
 *   an operation stay valid until its completion has been reported; from then on the operation may
 *   be used for something else, or be freed, before the reporting function has returned. A class
 *   that never completes from a thread of its own says so by NA_PLUGIN_CAP_NO_THREADS: where the
 *   user promised that one thread at a time uses it, the core then works without atomic exchanges.
 * - Objects that a function is given (class, context, address, memory handle) stay the caller's; a
 *   plugin that needs an address longer takes a reference.
 * - A message's buffer is never NULL, also where its size is 0: an empty message is sent, matched
 *   and completed like any other.
 * - Ids of contexts (id, dest_id, source_id, remote_id) are 0 to 255. Those of a peer are not
 *   checked by the core: the peer may have no such context.
 * - Completion functions never call back into the plugin, so they may be called with locks held.
 * - A failed or vanished peer fails the operations that concern it, never poll itself.
 *
 * How the ABI grows: functions are only appended to a table, and each table says its size. Either
 * side treats what lies past the other's size as absent. Families that not every fabric has are
 * tables of their own, fetched by get_extension. The layout of every struct here is frozen by
 * static assertions. What a comment does not call newer is there since 1.0.
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
 * plugin that stands in front of another one passes on what it was given. */
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

/* Capabilities of a plugin, and of a class (where they may be fewer) */
#define NA_PLUGIN_CAP_RMA          (UINT64_C(1) << 0) /* put and get work */
#define NA_PLUGIN_CAP_RMA_NATIVE   (UINT64_C(1) << 1) /* without the target polling */
#define NA_PLUGIN_CAP_WAIT_FD      (UINT64_C(1) << 2) /* poll_get_fd gives a descriptor */
#define NA_PLUGIN_CAP_CANCEL_SEND  (UINT64_C(1) << 3) /* a queued send can be cancelled */
#define NA_PLUGIN_CAP_PEER_DEATH   (UINT64_C(1) << 4) /* operations fail when their peer dies */
#define NA_PLUGIN_CAP_DEVICE_MEM   (UINT64_C(1) << 5) /* memory types other than host */
#define NA_PLUGIN_CAP_FORWARD_PROG (UINT64_C(1) << 6) /* progresses without being polled */
#define NA_PLUGIN_CAP_NO_THREADS   (UINT64_C(1) << 7) /* completes inside of calls only */
/* Since 1.2, of a class that was given an auth_key: messages come from who has the same key, as
 * they were sent, once and in order. HG does not seal them again. */
#define NA_PLUGIN_CAP_AUTHENTICATED (UINT64_C(1) << 8)
/* Since 1.2, of a class that is asked to encrypt: nothing that a program sends, puts or gets can be
 * read without its key. A class without it that is asked to is closed again. */
#define NA_PLUGIN_CAP_ENCRYPTED (UINT64_C(1) << 9)
/* Since 1.2, of an authenticated class that was given auth_key_also: that key counts as much as the
 * first. A class that proves keys and does not say so is closed again when there is one. */
#define NA_PLUGIN_CAP_SECOND_KEY (UINT64_C(1) << 10)
/* Since 1.2, of an authenticated class that is asked for mem_per_session: a peer reaches memory
 * only in the session in which it was granted to it (na_plugin_mem_grant.h). A class without it
 * that is asked to is closed again. */
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
 * What the core gives
 */

/*
 * One thing that a plugin can open. Frozen: never grows. Strings are copied by the core. An offer
 * whose protocol no init string can ask for is listed as not usable; a device with a space, a comma
 * or a control character, which none can name either, is left out.
 *
 * The scale of priorities is shared by all plugins, from 0 to 100: 100 is the memory of the node,
 * 65 to 95 the hardware of a fabric, 20 to 40 what runs everywhere over TCP, below that what is
 * taken if there is nothing else; 0 is for what is the same as another offer by another name. A
 * plugin places itself by what it is faster than.
 */
struct na_plugin_offer {
    const char *protocol; /* as in `plugin+protocol`, see there; never NULL */
    const char *device;   /* device, domain or interface; NULL when there is none to name */
    const char *reason;   /* why it is not usable; NULL when it is */
    int32_t priority;     /* `auto` takes the usable offer with the highest one, over all plugins */
    uint32_t flags;       /* NA_PLUGIN_OFFER_* */
};

/*
 * Takes one offer during na_plugin.enumerate, which it copies. Returns NA_PLUGIN_SUCCESS, or what
 * enumerate is to return at once. [one at a time]
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
     * Completes an operation that carries no message: a send, a put or a get, or any operation that
     * failed or was cancelled, receives included.
     */
    void (*op_complete)(void *op, int32_t status);

    /*
     * Completes a receive. `size` is the length of the message in the posted buffer. For an
     * unexpected receive that succeeded, `source` is a reference to the sender which passes to the
     * core and `tag` the sender's tag; for an expected receive they are NULL and the tag that was
     * asked for. Each report passes a reference of its own, which ends in one addr_free: a plugin
     * that keeps the sender's object takes one more for the core, as in addr_dup. A receive that
     * failed may be completed here, with size 0 and source NULL, or by op_complete; both mean the
     * same.
     */
    void (*op_complete_recv)(void *op, int32_t status, uint64_t size, struct na_plugin_addr *source,
                             uint32_t tag);

    /*
     * Reports one message of a multi-receive: it lies at `buf` inside the posted buffer. `last` not
     * 0 ends the operation: after that the buffer belongs to the core again. An operation that ends
     * without a message (cancelled, failed) is ended by op_complete. Returns NA_PLUGIN_NOMEM when
     * the event cannot be queued: the message was not taken, `source` is still the plugin's, try
     * later.
     */
    int32_t (*op_complete_multi_recv)(void *op, int32_t status, void *buf, uint64_t size,
                                      struct na_plugin_addr *source, uint32_t tag, uint32_t last);

    /*
     * Returns zero-filled memory of `size` bytes at `align` (a power of two, 0 for the default),
     * which mem_free frees, or NULL.
     */
    void *(*mem_alloc)(uint64_t size, uint64_t align);

    /* Frees what mem_alloc gave; NULL is allowed. */
    void (*mem_free)(void *ptr);

    /* Returns 1 when a message of this level would be written, 0 otherwise. */
    uint32_t (*log_enabled)(uint32_t level);

    /* Writes one line. `plugin` is the plugin's name, `message` has no newline. */
    void (*log)(uint32_t level, const char *plugin, const char *function, uint32_t line,
                const char *message);

    /* Returns monotonic time in nanoseconds. */
    uint64_t (*clock_ns)(void);

    /*
     * Returns the core's table of an optional family (ids below, where the core is the one who
     * gives), which lives as long as the process, or NULL. It begins with struct
     * na_plugin_extension. Since 1.1: a core whose table ends before this member has no such
     * families.
     */
    const void *(*get_extension)(const char *id);
};

/*
 * What the init string and the init info say, parsed. Grows like a table.
 */
struct na_plugin_init {
    uint32_t size;
    /* 1: peers that were not told of us may send. 0: origin only; addr_self and addr_to_string work
     * all the same, see addr_lookup for what becomes of that address. */
    uint32_t listen;
    const char *class_name; /* the part before the first '+', or the plugin's name */
    const char *protocol;   /* the protocol that was picked; never NULL */
    const char *address;    /* all that follows "://", verbatim; NULL when there is none */
    const char *ip_subnet;  /* preferred subnet; NULL when not given */
    /* The key that the processes of a job share; NULL when not given. A class that proves and
     * checks it in all that it sends says NA_PLUGIN_CAP_AUTHENTICATED; over others HG does, in each
     * RPC.
     * A plugin whose fabric has keys of its own may use the text for them. It is a secret: never
     * log it. */
    const char *auth_key;
    uint64_t max_unexpected_size; /* hint: bytes the caller would like; 0 for the default */
    uint64_t max_expected_size;   /* hint, likewise */
    uint32_t progress_mode;       /* NA_PLUGIN_PROGRESS_* */
    uint32_t thread_mode;         /* NA_PLUGIN_THREAD_* */
    uint32_t addr_format;         /* NA_PLUGIN_ADDR_* */
    uint32_t traffic_class;       /* NA_PLUGIN_TC_*: a hint; ignored where there is no such thing */
    uint32_t max_contexts;        /* at least 1: contexts that will be created, ids 0..n-1 */
    /* 1: transfers to device memory are wanted. A plugin that has none need not refuse to open: it
     * leaves NA_PLUGIN_CAP_DEVICE_MEM out of the class, and mem_register refuses such memory
     * (NA_PLUGIN_OPNOTSUPPORTED). */
    uint32_t request_mem_device;
    /* Since 1.2: what follows the last "?" of the init string's address, which is not in `address`
     * then: `name=value`, several with "&" between them. NULL when there is nothing. Each name is
     * one of na_plugin.option_names, and there once; a value may be anything, also empty. A plugin
     * refuses a value that it does not know (NA_PLUGIN_INVALID_ARG). */
    const char *options;
    /* Since 1.2: a second key that is accepted besides auth_key, and a secret as that is; NULL when
     * not given. A class that knows it says NA_PLUGIN_CAP_SECOND_KEY. */
    const char *auth_key_also;
    /* Since 1.2: 1 when nothing may be sent that can be read without auth_key, which is given then.
     * A class that keeps to it says NA_PLUGIN_CAP_ENCRYPTED; it refuses to open with a reason
     * where it cannot. */
    uint32_t encrypt;
    /* Since 1.2: 1 when peers may reach memory only in the session in which it was granted to them,
     * with auth_key, which is given then. A class that keeps to it says
     * NA_PLUGIN_CAP_MEM_PER_SESSION. */
    uint32_t mem_per_session;
};

/*
 * Limits of an opened class, filled in by initialize. The core sets `size` and zeroes the rest
 * before; a plugin writes no member past that size. Grows like a table.
 */
struct na_plugin_class_info {
    uint32_t size;
    uint32_t max_tag; /* highest tag that messages may carry */
    uint64_t
        capabilities; /* NA_PLUGIN_CAP_* of this class; others than the plugin's are not used */
    /* Largest unexpected and expected message, header included: at least 256 bytes besides the
     * header, at most 1 GiB; buffers of this size are allocated by the dozen. */
    uint64_t max_unexpected_size;
    uint64_t max_expected_size;
    uint64_t unexpected_header_size; /* bytes at the front that are the plugin's, at most 4096 */
    uint64_t expected_header_size;
    uint64_t max_rma_size; /* largest single put or get, at least 4096; 0 for no limit */
    /* Since 1.1: most segments of a memory handle of this class, where they are fewer than those of
     * na_plugin_mem_segments; 0: as many. Look at `size` before it is written. */
    uint64_t max_segments;
};

/* ------------------------------------------------------------------------------------------------
 * What the plugin gives
 */

/*
 * The plugin's descriptor and table. Filled by the plugin, returned by its entry function, checked
 * when it is loaded and never written by the core.
 */
struct na_plugin {
    uint32_t abi_version; /* NA_PLUGIN_ABI_VERSION that the plugin was built with */
    uint32_t size;        /* sizeof(struct na_plugin) that the plugin was built with */

    const char *name;        /* the <name> of the file na_<name>.so */
    const char *version;     /* the plugin's own version, for people */
    const char *description; /* one line for people */

    /*
     * Further class names under which init strings may ask for this plugin, NULL-terminated; NULL
     * for none, which is what most plugins have. They are for a transport that people know by
     * another name than its file's: na_sm.so is `na`, as in `na+sm`. `alias+protocol` finds it when
     * the file na_<alias>.so does not exist: the core looks at na_<protocol>.so first and then at
     * every plugin. The first one, or else the plugin's name, is the class name that users see and
     * that begins addresses; a plugin that wants its own name there and an alias besides puts its
     * name first.
     */
    const char *const *class_names;

    uint32_t op_size;      /* private bytes for each operation; may be 0 */
    uint32_t op_align;     /* their alignment, a power of two up to 128; 0 when op_size is 0 */
    uint64_t capabilities; /* NA_PLUGIN_CAP_* that a class of this plugin can have */

    /*
     * Reports everything that can be opened, best first: each protocol, on each device worth
     * naming, also those that this machine lacks (not usable, with the reason). A protocol's name
     * is made of letters, digits and "_-.;+", no "+" at an end or next to another; ";" stands
     * between the parts of a list, since "," ends a choice of an init string. Opens no endpoint.
     * Returns what the last `report` returned, or an error when the fabric could not be asked.
     *
     * `protocol` NULL means all. Otherwise an init string asks for this protocol, with or without
     * the plugin's name before it: report offers of exactly this name, and none if it means
     * nothing to you. This is where the plugin decides on names that it does not list among all, a
     * provider's raw name or a list of transports: what could be opened is reported with
     * NA_PLUGIN_OFFER_NAMED_ONLY, so that `plugin+protocol` opens it, but the protocol alone, which
     * any plugin may answer, does not; what could not is reported as not usable, and the reason is
     * what the user reads.
     * [mandatory] [any thread] [may not block]
     */
    int32_t (*enumerate)(const char *protocol, na_plugin_offer_fn report, void *arg);

    /*
     * Opens an endpoint. `*class_p` is NULL on entry; on failure the plugin may leave it NULL, or
     * leave a partly made class there, which the core then hands to finalize. Of a failure the user
     * reads the status and one line: the last one that this call has logged, in the calling thread,
     * at NA_PLUGIN_LOG_ERROR, whatever log level is set (up to 255 bytes). So say there what was
     * wrong, the value and what to do, and log nothing at that level behind it. Returns
     * NA_PLUGIN_INVALID_ARG for an address or an option that is malformed, NA_PLUGIN_ADDRINUSE or
     * NA_PLUGIN_ADDRNOTAVAIL for one to listen at that is taken or not ours, NA_PLUGIN_NODEV or
     * NA_PLUGIN_PROTONOSUPPORT for what is not on this machine. [mandatory] [any thread]
     */
    int32_t (*initialize)(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info);

    /*
     * Frees a class whose contexts are destroyed, whose addresses and memory handles are freed
     * (what a caller forgot to free is freed here), also one that initialize left half made.
     * Returns an error to have it reported; the class is gone all the same. [mandatory]
     * [one at a time]
     */
    int32_t (*finalize)(struct na_plugin_class *na_class);

    /*
     * Makes context number `id`, 0 <= id < na_plugin_init.max_contexts; each id at most once at a
     * time. A number may be used again after context_destroy: peers go on with the addresses and
     * connections that they have, and what they send from then on arrives at the new context. A
     * message that was sent to the former one and not received, or while there was none, fails
     * (NA_PLUGIN_HOSTUNREACH) or is lost; one that was still under way may arrive at the new one.
     * `*context_p` is NULL on entry. After a failure the core does not look at it and calls neither
     * context_stop nor context_destroy: unlike initialize, this frees what it has made. Returns
     * NA_PLUGIN_INVALID_ARG for an id that is too high, NA_PLUGIN_EXIST for one that is in use.
     * context_destroy frees it. [mandatory] [one at a time]
     */
    int32_t (*context_create)(struct na_plugin_class *na_class,
                              struct na_host_context *host_context, uint32_t id,
                              struct na_plugin_context **context_p);

    /*
     * First half of closing: everything outstanding on the context completes, as cancelled where it
     * has not completed otherwise, before this returns; nothing is accepted afterwards
     * (NA_PLUGIN_FAULT). Buffers of messages are not touched any more. Nor is the local memory of
     * puts and gets where the fabric can be stopped; where it cannot, it may go on with that, even
     * though the operation has completed, until mem_deregister has returned. What a fabric goes on
     * with is the plugin's to keep, and to free in polls of other contexts or in finalize; this
     * call waits for neither the fabric nor a peer. Idempotent. Returns an error to have it logged;
     * context_destroy follows all the same. [mandatory] [one at a time] [may not block]
     */
    int32_t (*context_stop)(struct na_plugin_context *context);

    /*
     * Second half of closing: frees a stopped context. No operation of it is outstanding. It may
     * wait for a tenth of a second, so that what the fabric works on ends and peers are told.
     * Returns an error to have it logged; the context is gone all the same. [mandatory]
     * [one at a time]
     */
    int32_t (*context_destroy)(struct na_plugin_context *context);

    /*
     * Prepares the private part of a new operation; undone by op_finalize. Returns an error when
     * there cannot be such an operation: op_finalize is not called then. [optional: the zero-filled
     * bytes are used as they are] [any thread] [may not block]
     */
    int32_t (*op_initialize)(struct na_plugin_class *na_class, void *op);
    void (*op_finalize)(struct na_plugin_class *na_class, void *op);

    /*
     * Makes an address from its string form (`class+protocol://...`, or what follows "://").
     * `*addr_p` is one reference, which ends in addr_free. Returns NA_PLUGIN_INVALID_ARG for a
     * malformed string. A peer that can be seen not to exist is an error here (NA_PLUGIN_NOENTRY,
     * NA_PLUGIN_HOSTUNREACH); otherwise the first operation fails. The address of a class that does
     * not listen (na_plugin_init.listen 0), which is the source of its messages, is looked up like
     * any other; a peer that knows it from such a message can answer, and one that knows only the
     * string may find that its operations arrive or fail with NA_PLUGIN_HOSTUNREACH, as the fabric
     * can: a caller must not count on either. [mandatory] [any thread]
     */
    int32_t (*addr_lookup)(struct na_plugin_class *na_class, const char *name,
                           struct na_plugin_addr **addr_p);

    /* Drops one reference. [mandatory] [any thread] [may not block] */
    void (*addr_free)(struct na_plugin_class *na_class, struct na_plugin_addr *addr);

    /*
     * Adds one reference, or copies: `*addr_p` ends in an addr_free of its own. Returns
     * NA_PLUGIN_NOMEM when there is no memory for that. [mandatory] [any thread] [may not block]
     */
    int32_t (*addr_dup)(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                        struct na_plugin_addr **addr_p);

    /*
     * Returns NA_PLUGIN_SUCCESS and the address of the class itself in `*addr_p`: one reference,
     * which ends in addr_free. [mandatory] [any thread] [may not block]
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
     * Writes the string form, NUL included, that addr_lookup of any process takes. With `buf` NULL
     * only sets `*size` to what is needed; with too small a buffer sets it too and returns
     * NA_PLUGIN_OVERFLOW. [mandatory] [any thread] [may not block]
     */
    int32_t (*addr_to_string)(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                              char *buf, uint64_t *size);

    /*
     * The peer behind the address will not come back: its resources may go when the last reference
     * does. Returns NA_PLUGIN_SUCCESS, also when there is nothing to do. [optional: nothing]
     * [any thread] [may not block]
     */
    int32_t (*addr_set_remove)(struct na_plugin_class *na_class, struct na_plugin_addr *addr);

    /*
     * Returns memory for message buffers, which msg_buf_free frees, or NULL; `*data_p` is what the
     * fabric wants to know of it, and belongs to the buffer: every message call gets both back.
     * [optional: page-aligned memory for large, cache-line-aligned for small buffers, data NULL]
     * [any thread] [may not block]
     */
    void *(*msg_buf_alloc)(struct na_plugin_class *na_class, uint64_t size, uint32_t flags,
                           void **data_p);
    void (*msg_buf_free)(struct na_plugin_class *na_class, void *buf, void *data);

    /*
     * Writes the plugin's header at the front of a send buffer, once for each buffer. Returns
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
     * expected ones share that order. Between messages that differ in either context there is no
     * order. When resources run out the plugin queues the operation and retries in poll, or, if
     * told so by NA_PLUGIN_PROGRESS_NO_RETRY, returns NA_PLUGIN_AGAIN. A message that finds no
     * posted receive waits at the destination or holds back its sender, within a bound; it is not
     * dropped. Up to that bound expected messages get past those that wait, here or there. Once it
     * is reached, whatever comes after may be held back until a receive is posted, expected
     * messages and other senders included: a caller that waits for those has to post receives for
     * unexpected ones.
     * [mandatory] [any thread] [may not block]
     */
    int32_t (*msg_send_unexpected)(struct na_plugin_context *context, void *op, const void *buf,
                                   uint64_t size, void *data, struct na_plugin_addr *dest,
                                   uint32_t dest_id, uint32_t tag);

    /*
     * Posts a buffer for one unexpected message from anybody; posted receives are filled in order.
     * A message larger than the buffer completes it with NA_PLUGIN_MSGSIZE. Returns NA_PLUGIN_FAULT
     * for a context that was stopped. [mandatory] [any thread] [may not block]
     */
    int32_t (*msg_recv_unexpected)(struct na_plugin_context *context, void *op, void *buf,
                                   uint64_t size, void *data);

    /*
     * Sends a message to a receive that names us and the tag and that was posted before. Without
     * one the destination drops it. Returns as msg_send_unexpected. [mandatory] [any thread]
     * [may not block]
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
     * Describes `length` bytes at `base`, which remote sides may access as `flags` say. Does not
     * touch the memory. `*mem_p` ends in mem_destroy. Returns NA_PLUGIN_INVALID_ARG for memory that
     * does not lie in the address space. [optional: no RMA] [any thread] [may not block]
     */
    int32_t (*mem_create)(struct na_plugin_class *na_class, void *base, uint64_t length,
                          uint32_t flags, struct na_plugin_mem **mem_p);

    /* Frees a handle, made or deserialized; deregisters first. [with mem_create] [any thread] */
    void (*mem_destroy)(struct na_plugin_class *na_class, struct na_plugin_mem *mem);

    /*
     * Makes the memory accessible to peers and to local operations, until mem_deregister. After
     * deregistration no remote access succeeds where the fabric can enforce it, and puts and gets
     * of stopped contexts do not touch it. So mem_deregister may have to wait: for some seconds at
     * most, also when a peer stands still; then the connection to that peer is broken. Returns
     * NA_PLUGIN_OPNOTSUPPORTED for a kind of memory that the class cannot use. [optional: success]
     * [any thread]
     */
    int32_t (*mem_register)(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                            uint32_t mem_type, uint64_t device);
    int32_t (*mem_deregister)(struct na_plugin_class *na_class, struct na_plugin_mem *mem);

    /*
     * The form in which a registered handle travels: mem_serialize_size returns its size,
     * mem_serialize writes it, and mem_deserialize makes a remote handle of it, which ends in
     * mem_destroy. mem_serialize returns NA_PLUGIN_OVERFLOW for too small a buffer and
     * NA_PLUGIN_INVALID_ARG for a handle that is not registered, mem_deserialize
     * NA_PLUGIN_PROTOCOL_ERROR for bytes that are no handle. Length and access flags travel beside
     * it and are checked by the core; everything in `buf` comes from another process and must be
     * checked. [with mem_create] [any thread] [may not block]
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
     * Makes progress without waiting and adds what it completed to `*count`: each completion that
     * it reported, of any context of the class, and each message of a multi-receive, once. What
     * another call or a thread of the plugin's own has completed may be added by a later poll, once
     * as well, or not at all: the core takes completions from its queue and not from this number.
     * When another thread is polling the context already it may return at once with nothing.
     * Returns an error only when the whole class cannot go on. [mandatory] [any thread]
     * [may not block]
     */
    int32_t (*poll)(struct na_plugin_context *context, uint32_t *count);

    /*
     * Like poll, but waits up to `timeout_ms` for something to complete or for wake. Returns as
     * poll, and NA_PLUGIN_TIMEOUT when there was nothing in that time. [optional: the core waits on
     * the descriptor of poll_get_fd, or polls and backs off] [any thread]
     */
    int32_t (*poll_wait)(struct na_plugin_context *context, uint32_t timeout_ms, uint32_t *count);

    /*
     * Returns a descriptor that polls readable when poll has something to do, or a thread of the
     * plugin's own has completed something, provided poll_try_wait said so before; the plugin keeps
     * it. Returns -1 when this class has none (busy mode). [optional: none] [any thread]
     * [may not block]
     */
    int32_t (*poll_get_fd)(struct na_plugin_context *context);

    /*
     * Returns 1 when it is safe to sleep on the descriptor: whatever arrives from now on makes it
     * readable, until the next poll. Returns 0 when there is something to poll for, or it is not
     * known whether there is: the caller polls at once and asks again, so that a 0 too many costs a
     * poll, and one that never becomes 1 a processor. After a 1 too many the caller may sleep for
     * as long as it likes beside work that waits. [optional: 1] [any thread] [may not block]
     */
    uint32_t (*poll_try_wait)(struct na_plugin_context *context);

    /* Ends a poll_wait in another thread early. [optional: nothing] [any thread] [may not block] */
    void (*wake)(struct na_plugin_context *context);

    /*
     * Asks that an operation complete soon: as cancelled if nothing has happened yet, otherwise as
     * it would. Once it has completed, the caller's memory is its own again: a receive that was
     * half filled is written to no more. Of a put that completes as cancelled any part may be at
     * the target, and what is under way may still be written there afterwards, until the target
     * deregisters the memory. A send that completes as cancelled does not arrive. Returns
     * NA_PLUGIN_SUCCESS when the request was noted, also when the operation completed meanwhile,
     * and NA_PLUGIN_OPNOTSUPPORTED when it cannot be cancelled. The core calls it only for
     * operations that it knows to be outstanding when it looks, so the completion may have been
     * reported a moment ago, and the memory been freed: compare `op` with the addresses of the
     * operations that the plugin holds, and read nothing through it before one of them is equal. A
     * core that finds cancel_trusted calls that instead. [mandatory] [any thread] [may not block]
     */
    int32_t (*cancel)(struct na_plugin_context *context, void *op);

    /*
     * Returns the table of an optional family (ids below, or a vendor's own prefixed with its
     * domain, such as "com.example.atomics/1"), which lives as long as the process, or NULL. It
     * begins with struct na_plugin_extension. [optional: no extensions] [any thread]
     * [may not block]
     */
    const void *(*get_extension)(const char *id);

    /* Drops process-wide state; no class is open. [optional: nothing] [one at a time] */
    void (*cleanup)(void);

    /*
     * Like cancel, and returns the same, for a plugin that finds an operation by what it wrote into
     * it and need not search. Until the call returns, `op` stays an operation of `context` that was
     * posted and not called back: it is not posted again, finalized or freed, and what was given
     * with it stays valid. Two things may still have happened: its completion has been reported, or
     * the call that posts it runs in another thread and has not written to it yet. So keep in it
     * whether and where you hold it; set that and clear it, before the completion is reported,
     * under a lock that this function takes, too. A core before 1.2, and a plugin in front of this
     * one that cannot promise the same, call cancel. Since 1.2.
     * [optional: cancel] [any thread] [may not block]
     */
    int32_t (*cancel_trusted)(struct na_plugin_context *context, void *op);

    /*
     * What init strings may set, as in `plugin+protocol://address?name=value`: at most 32 names,
     * NULL-terminated, each of at most 32 lower-case letters, digits and "_". The core refuses an
     * init string with any other name and lists these. NULL for none: then the core looks for no
     * options, and a "?" belongs to the address, which is what a core before 1.2 does for all
     * plugins. Since 1.2.
     */
    const char *const *option_names;

    /*
     * Returns what the class can do with one peer: those of the capabilities of its
     * na_plugin_class_info that hold for this address, such as NA_PLUGIN_CAP_RMA_NATIVE where a
     * transfer with one peer needs its help, and with another one does not. It may find that out in
     * this call; what it has said may change as long as the peer was not heard of. Since 1.2.
     * [optional: those of the class] [any thread] [may not block]
     */
    uint64_t (*addr_capabilities)(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
};

/*
 * The one exported function, called once after the plugin is loaded. Returns NA_PLUGIN_SUCCESS with
 * `*plugin_p` set, or an error with `*reason_p` set to a string that lives for ever: that refuses
 * to work on this machine and is shown to the user. It must look at host->abi_version before it
 * uses members that were added after version 1.0. [one at a time] [may not block]
 */
NA_PLUGIN_EXPORT int32_t na_plugin_entry_v1(const struct na_host *host,
                                            const struct na_plugin **plugin_p,
                                            const char **reason_p);

/* ------------------------------------------------------------------------------------------------
 * Extensions: each id names one table and its revision; a table grows like struct na_plugin. Each
 * has a header of its own, na_plugin_<extension>.h: see the end of this one
 */

struct na_plugin_extension {
    uint32_t size;     /* of the whole table that begins here */
    uint32_t reserved; /* 0 */
};

/* ------------------------------------------------------------------------------------------------
 * A helper, and what holds the layout
 */

/*
 * Formats one log line and hands it to the core; costs one call when the level is off. [any thread]
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

/* Minors may append; what is there stays where it is. */
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
#include "na_plugin_mem_grant.h"
#include "na_plugin_mem_segments.h"
#include "na_plugin_multi_recv.h"
#include "na_plugin_offer_details.h"
#include "na_plugin_peer_events.h"
#include "na_plugin_wrap.h"

#endif /* NA_PLUGIN_H */
