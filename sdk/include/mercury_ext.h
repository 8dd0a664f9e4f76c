/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Additions of this RPC layer to mercury.h. The rules of its first comment for threads, errors
 * (HG_INVALID_ARG) and forks (HG_PERMISSION) apply here, too.
 */
#ifndef MERCURY_EXT_H
#define MERCURY_EXT_H

#include "mercury.h"
#include "mercury_bulk.h"

/* Counters beyond hg_diag_counters. New fields are only appended. */
struct hg_ext_counters {
    uint64_t refused_magic_count;    /* Messages with a wrong magic number */
    uint64_t refused_version_count;  /* Messages of another version of the wire format */
    uint64_t refused_header_count;   /* Messages that are too short or inconsistent */
    uint64_t refused_checksum_count; /* Messages whose checksum does not match */
    uint64_t unknown_rpc_count;      /* Requests for ids not registered, one-way ones included */
    uint64_t late_response_count;    /* Responses to RPCs that had ended, unless dropped by the
                                      * transport */
    uint64_t send_error_count;       /* Messages that the transport could not send */
    uint64_t sm_req_sent_count;      /* Requests that auto_sm sent through shared memory */
    uint64_t sm_req_recv_count;      /* Requests received through it */
    uint64_t sm_bulk_count;          /* Bulk transfers started through it */
    uint64_t timeout_count;          /* Operations that ended by their deadline */
    uint64_t parked_count;           /* Operations that ended before the transport completed them */
    /* Since 1.1 */
    uint64_t forward_done_count;     /* Forwards that ended with HG_SUCCESS */
    uint64_t forward_canceled_count; /* Forwards that ended with HG_CANCELED */
    uint64_t forward_timeout_count;  /* Forwards that ended with HG_TIMEOUT */
    uint64_t forward_error_count;    /* Forwards that ended with another error */
    uint64_t bulk_bytes;             /* Bytes of bulk transfers that ended with HG_SUCCESS */
    uint64_t bulk_canceled_count;    /* Bulk transfers that ended with HG_CANCELED */
    uint64_t bulk_timeout_count;     /* Bulk transfers that ended with HG_TIMEOUT */
    uint64_t bulk_error_count;       /* Bulk transfers that ended with another error */
    uint64_t retry_count;            /* Retries of transfers and control messages that the
                                      * transport had refused for lack of resources */
    uint64_t req_sent_bytes;         /* Bytes of requests sent, including the header */
    uint64_t req_recv_bytes;         /* Bytes of requests received */
    uint64_t resp_sent_bytes;        /* Bytes of responses sent */
    uint64_t resp_recv_bytes;        /* Bytes of responses received */
    uint64_t queued_count;           /* Forwards that had to wait for a limit of RPCs in flight */
    uint64_t waiting_count;          /* Those that wait now */
    uint64_t refused_key_count;      /* Messages whose sender has another auth_key, or none; for
                                      * transports that prove keys see NA_Class_get_counters() */
    uint64_t overflow_queued_count;  /* Inputs and outputs that did not fit a message and had to
                                      * wait for the overflow budget */
    uint64_t overflow_waiting_count; /* Those that wait now */
    uint64_t overflow_refused_count; /* Those that were refused */
    uint64_t overflow_bytes;         /* Bytes of the budgets in use now */
};

/* Default of HG_Class_set_overflow_timeout(), in milliseconds. */
#define HG_OVERFLOW_TIMEOUT_DEFAULT 300000u

/* Defaults of HG_Class_set_overflow_budget() in bytes: for a class and for each peer. */
#define HG_OVERFLOW_BUDGET_DEFAULT      (UINT64_C(1) << 30)
#define HG_OVERFLOW_PEER_BUDGET_DEFAULT (UINT64_C(256) << 20)

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Like HG_Init_opt2(), but returns the reason of a failure, for programs that depend on it.
 *
 * \param na_info_string [IN]  init string; may be NULL if hg_init_info has an NA class
 * \param na_listen [IN]       HG_TRUE if requests from others are to be received
 * \param version [IN]         HG_VERSION() of the headers that the caller was compiled with
 * \param hg_init_info [IN]    options, or NULL for the defaults
 * \param hg_class_p [OUT]     class, to be closed by HG_Finalize(), or NULL on failure
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class_p, the init string or an option is wrong; HG_FAULT
 * if the system cannot derive a secret from auth_key; HG_NOMEM; HG_MSGSIZE or HG_OPNOTSUPPORTED if
 * the transport's messages or tags are too small; the code of NA_Initialize_reason(). The log has a
 * line with details
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Init_reason(const char *na_info_string, uint8_t na_listen,
                                     unsigned int version, const struct hg_init_info *hg_init_info,
                                     hg_class_t **hg_class_p);

/**
 * Read the counters of refused and dropped messages of a class.
 *
 * \param hg_class [IN]   class
 * \param counters [OUT]  counters; fields unknown to the library are set to 0
 * \param size [IN]       sizeof(struct hg_ext_counters) of the caller
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if a pointer is NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Class_get_ext_counters(const hg_class_t *hg_class,
                                                struct hg_ext_counters *counters, size_t size);

/**
 * Get the number of a class: classes are numbered in the order in which they are opened.
 *
 * \param hg_class [IN]         class
 *
 * \return the number in this process, from 0; 0 if hg_class is NULL
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC uint32_t HG_Class_get_number(const hg_class_t *hg_class);

/**
 * Get the NA class through which a class with auto_sm reaches peers on the same node.
 *
 * \param hg_class [IN]         class
 *
 * \return the NA class, owned by hg_class and valid while hg_class is open; NULL if there is none,
 * or if hg_class is NULL
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC na_class_t *HG_Class_get_na_sm(const hg_class_t *hg_class);

/**
 * Write the counters of a class as text in the format that Prometheus reads (version 0.0.4; not
 * OpenMetrics, which names counters differently), for services that export their metrics. Names
 * begin with amalgam_; names and their meaning do not change between releases. All samples have the
 * labels `class` and `transport`, the latter for instance "ofi+tcp"; with auto_sm the text has the
 * counters of the operations of both transports. Only counters are read, so the class may be in
 * use.
 *
 * The texts of two classes cannot be concatenated, because the format allows each name in one place
 * only: a service with several classes calls HG_Classes_get_prometheus().
 *
 * \param hg_class [IN]         class
 * \param name [IN]             value of the label `class`, any text in UTF-8, of which at most 255
 *     bytes are written, with a question mark for each byte that is not UTF-8; NULL for the class's
 *     number in the process
 * \param buf [OUT]             receives the text, at most *buf_size_p bytes with its null; NULL to
 *     ask for the size only
 * \param buf_size_p [IN,OUT]   size of buf in bytes; receives the size needed, including the null.
 *     It grows with the numbers: leave some spare room
 *
 * \return HG_SUCCESS; HG_OVERFLOW if buf is too small: then it contains an empty string; HG_NOMEM;
 * HG_INVALID_ARG if hg_class or buf_size_p is NULL
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Class_get_prometheus(const hg_class_t *hg_class, const char *name,
                                              char *buf, hg_size_t *buf_size_p);

/**
 * Write the counters of several classes as one text, like HG_Class_get_prometheus(). The classes
 * must differ in the labels `class` or `transport`.
 *
 * \param classes [IN]          array of classes, each once
 * \param names [IN]            array of as many values of the label `class`, as in
 *     HG_Class_get_prometheus(); NULL: the numbers of all classes
 * \param count [IN]            number of classes, at least one
 * \param buf [OUT]             as in HG_Class_get_prometheus()
 * \param buf_size_p [IN,OUT]   as in HG_Class_get_prometheus()
 *
 * \return as HG_Class_get_prometheus(); HG_INVALID_ARG if classes, one of them or buf_size_p
 * is NULL, count is 0, or two of them would have the same labels
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Classes_get_prometheus(hg_class_t *const *classes,
                                                const char *const *names, size_t count, char *buf,
                                                hg_size_t *buf_size_p);

/**
 * Whether messages and bulk data to a peer go through the shared memory of auto_sm rather than the
 * transport of the init string. The peer must be on the same node and use auto_sm, and the address
 * must be looked up from a string with both parts, or be the address of a received request.
 *
 * \param hg_class [IN]  class
 * \param addr [IN]      address of it
 *
 * \return true if so; false otherwise, or if an argument is NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC bool HG_Addr_is_auto_sm(const hg_class_t *hg_class, hg_addr_t addr) HG_WARN_UNUSED_RESULT;

/**
 * The NA class of a class.
 *
 * \param hg_class [IN]  class
 *
 * \return the NA class, owned by the class, or NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC na_class_t *HG_Class_get_na(const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/*
 * Deadlines
 *
 * When its deadline expires an operation ends by its callback, with ret HG_TIMEOUT, at the latest
 * in the first progress call afterwards (to within 0.1 ms), even if the transport can neither
 * complete nor cancel it. Later messages for it are dropped and counted. A sleeping progress call,
 * and the descriptor of HG_Event_get_wait_fd(), wake in time. Milliseconds count from the call that
 * starts the operation; 0 means no deadline.
 *
 * Only a deadline guarantees that an RPC ends: responses are lost when their targets die, and a
 * target queues at most 256 responses that only report why an RPC failed (no such RPC, another key)
 * while the transport does not take them; further ones are dropped, with a warning.
 *
 * A cancelled operation with a deadline ends with HG_CANCELED some 20 ms later even if the
 * transport has not completed it; one without a deadline ends when the transport completes it.
 */

/**
 * Set the deadline of handles, requests, bulk transfers and lookups of a class for which none is
 * set individually. Initially there is none.
 *
 * \param hg_class [IN]     class
 * \param deadline_ms [IN]  milliseconds, or 0. Existing handles keep their deadlines
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Class_set_default_deadline(hg_class_t *hg_class, unsigned int deadline_ms);

/**
 * The default deadline of a class.
 *
 * \param hg_class [IN]  class
 *
 * \return milliseconds; 0: none
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC unsigned int HG_Class_get_default_deadline(const hg_class_t *hg_class)
    HG_WARN_UNUSED_RESULT;

/**
 * Set how long to wait for the data of an input or output that did not fit a message: a response
 * whose output is not fetched ends with HG_TIMEOUT, and its memory can be used again; a request
 * whose input cannot be fetched is answered with HG_TIMEOUT. A deadline of the handle takes
 * precedence. The default is HG_OVERFLOW_TIMEOUT_DEFAULT. An origin that makes no progress for
 * longer gets an error instead of its output.
 *
 * \param hg_class [IN]    class
 * \param timeout_ms [IN]  milliseconds; 0: for ever
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Class_set_overflow_timeout(hg_class_t *hg_class, unsigned int timeout_ms);

/**
 * Limit the memory, in bytes, that peers can make a class use for inputs and outputs that do not
 * fit a message. Inputs count from before they are fetched until their handles are destroyed or
 * HG_Release_input_buf() is called, outputs while they are fetched; inputs and outputs have
 * separate budgets of this size. Bytes that the transport still uses count until it releases them.
 *
 * An input or output that does not fit now waits until there is room: for each peer in order of
 * arrival, and no peer waits for another one's share. A peer gets no more than it leaves for all
 * others together, so peers that hold on to their shares leave room for others, each half of the
 * rest. Waiting reserves nothing: a large input waits while smaller ones of other peers use the
 * room. Outputs that a peer has not fetched yet do not count; HG_Class_set_overflow_timeout() ends
 * them, and frees the memory that stopped peers occupy. When nothing is in use, the first one is
 * always admitted. A wait ends like a fetch, by the deadline or the overflow timeout: a target that
 * gathers more inputs than its budget before it destroys the first handle waits for itself.
 *
 * An RPC ends with HG_MSGSIZE at its origin if its input or output is larger than either limit, and
 * with HG_AGAIN if too many are waiting (16384, or 4096 of its peer). The defaults are
 * HG_OVERFLOW_BUDGET_DEFAULT and HG_OVERFLOW_PEER_BUDGET_DEFAULT, and with them nothing is too
 * large: what is larger than the second, up to 4 GiB, is taken one at a time, and uses its peer's
 * whole budget.
 *
 * \param hg_class [IN]     class
 * \param class_bytes [IN]  bytes for all peers together; 0: no limit
 * \param peer_bytes [IN]   bytes for each peer; 0: no limit of its own
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Class_set_overflow_budget(hg_class_t *hg_class, hg_size_t class_bytes,
                                                   hg_size_t peer_bytes);

/**
 * Set the deadline of operations on a handle, from the next HG_Forward() or HG_Respond() on. After
 * HG_TIMEOUT the handle can be used again as after any other result. The target is told that nobody
 * waits for its response, but not to stop.
 *
 * \param handle [IN]       handle, created by HG_Create() or received. Handles that are created or
 *     received later have the default of their class
 * \param deadline_ms [IN]  milliseconds, or 0
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if handle is NULL
 *
 * One thread at a time. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Set_deadline(hg_handle_t handle, unsigned int deadline_ms);

/**
 * The deadline of operations on a handle.
 *
 * \param handle [IN]  handle
 *
 * \return milliseconds; 0: none
 *
 * One thread at a time. \since 1.1
 */
HG_PUBLIC unsigned int HG_Get_deadline(hg_handle_t handle) HG_WARN_UNUSED_RESULT;

/* For HG_Class_set_poll_time(): what the library finds best. */
#define HG_POLL_TIME_DEFAULT UINT32_MAX

/**
 * Limit how long HG_Progress() polls before it sleeps. A longer time spares a wake-up of some 10 us
 * to RPCs that come that often; while none come, the time shrinks to a microsecond by itself. The
 * default is 150 us for messages and 600 us while transfers are in flight. HG_Event_ready() polls
 * for as long, but for at most 50 us, because its thread has other descriptors to wait for.
 *
 * \param hg_class [IN]  class
 * \param max_us [IN]    microseconds, up to 1,000,000; 0: sleep at once; or HG_POLL_TIME_DEFAULT
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL or max_us is too large
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Class_set_poll_time(hg_class_t *hg_class, unsigned int max_us);

/*
 * RPCs in flight
 *
 * A class, or one address, may limit the RPCs in flight to a target: RPCs that were forwarded and
 * are not complete, and one-way RPCs until they are sent. HG_Forward() also accepts RPCs beyond the
 * limit, encodes their input, and sends them when it is their turn: for each target and context in
 * the order of the calls. Addresses that HG_Addr_cmp() finds equal are one target, over all
 * contexts of the class. RPCs to the class's own address are not limited, unless
 * hg_init_info.no_loopback sends them through the transport.
 *
 * A waiting forward is like any other: its deadline runs, HG_Cancel() ends it with HG_CANCELED, it
 * keeps its handle and so its context in use (HG_Context_destroy() returns HG_BUSY), and it needs
 * HG_Trigger(), which may count its start like a callback. If the target is gone, the waiting
 * forwards fail when it is their turn, in order. Without limits a forward costs one additional
 * load.
 */

/* For HG_Addr_set_max_in_flight(): use the class's limit. */
#define HG_MAX_IN_FLIGHT_DEFAULT UINT32_MAX

/**
 * Limit the RPCs in flight to each target. Forwards in flight do not count if there was no limit
 * when they were started. A higher limit, or none, lets waiting forwards start.
 *
 * \param hg_class [IN]  class
 * \param max [IN]       number of RPCs; 0, the default: no limit
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL or max is HG_MAX_IN_FLIGHT_DEFAULT
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Class_set_max_in_flight(hg_class_t *hg_class, unsigned int max);

/**
 * The limit of RPCs in flight to each target.
 *
 * \param hg_class [IN]  class
 *
 * \return how many; 0: no limit
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC unsigned int HG_Class_get_max_in_flight(const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/**
 * Limit the RPCs in flight to one target, whatever the class's limit is. The limit exists until all
 * addresses equal to this one that were passed to this function or forwarded to are freed.
 *
 * \param hg_class [IN]  class
 * \param addr [IN]      address of the target, not one that is part of a handle: duplicate that
 * \param max [IN]       number of RPCs; 0: no limit; HG_MAX_IN_FLIGHT_DEFAULT: the class's limit
 *     again
 *
 * \return HG_SUCCESS; HG_NOMEM; HG_INVALID_ARG if an argument is NULL, or addr of another class or
 * part of a handle
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Addr_set_max_in_flight(hg_class_t *hg_class, hg_addr_t addr,
                                                unsigned int max);

/**
 * Like HG_Addr_lookup1(), with its own deadline; HG_Addr_lookup1() uses the class's. With a
 * deadline a thread looks the address up, so that the operation ends in time even if name servers
 * do not answer; while that thread runs, HG_Finalize() returns HG_BUSY. A class opened with
 * NA_THREAD_MODE_SINGLE_CLS looks up within the call, however long that takes.
 *
 * \param context [IN]      as in HG_Addr_lookup1()
 * \param callback [IN]     called with type HG_CB_LOOKUP; ret is HG_SUCCESS, HG_TIMEOUT,
 *     HG_CANCELED or the error
 * \param arg [IN]          passed to the callback
 * \param name [IN]         address string of a peer, copied
 * \param deadline_ms [IN]  milliseconds; 0: none, whatever the class has
 * \param op_id_p [OUT]     operation, valid until the callback; may be NULL or HG_OP_ID_IGNORE
 *
 * \return as HG_Addr_lookup1()
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Addr_lookup_deadline(hg_context_t *context, hg_cb_t callback, void *arg,
                                              const char *name, unsigned int deadline_ms,
                                              hg_op_id_t *op_id_p);

/**
 * Cancel a lookup. Its callback is called once, with HG_CANCELED unless the lookup failed before.
 *
 * \param op_id [IN]  operation; after its callback has returned this has no effect
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if it is HG_OP_ID_NULL
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Addr_lookup_cancel(hg_op_id_t op_id);

/**
 * Like HG_Bulk_transfer_id(), with its own deadline; the other functions use the class's.
 *
 * HG_TIMEOUT means that the deadline has expired, not that the memory is unused: while
 * HG_Bulk_in_use() is true for the local descriptor, the transport may still write to its memory or
 * read it. Memory that HG_Bulk_create() allocated exists as long as needed.
 *
 * \param context [IN]        context that runs the transfer
 * \param callback [IN]       called at the end; NULL for none
 * \param arg [IN]            passed to it
 * \param op [IN]             HG_BULK_PULL or HG_BULK_PUSH
 * \param origin_addr [IN]    address of the origin
 * \param origin_id [IN]      id of the origin's context
 * \param origin_handle [IN]  the origin's descriptor
 * \param origin_offset [IN]  where to begin in it, in bytes
 * \param local_handle [IN]   descriptor made here
 * \param local_offset [IN]   where to begin in it, in bytes
 * \param size [IN]           bytes; 0 is allowed
 * \param deadline_ms [IN]    milliseconds; 0: none, whatever the class has
 * \param op_id [OUT]         operation, to be cancelled; NULL or HG_OP_ID_IGNORE if it is not
 *                            wanted
 *
 * \return as HG_Bulk_transfer_id()
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Bulk_transfer_deadline(hg_context_t *context, hg_cb_t callback, void *arg,
                                                hg_bulk_op_t op, hg_addr_t origin_addr,
                                                uint8_t origin_id, hg_bulk_t origin_handle,
                                                hg_size_t origin_offset, hg_bulk_t local_handle,
                                                hg_size_t local_offset, hg_size_t size,
                                                unsigned int deadline_ms, hg_op_id_t *op_id);

/**
 * Let a peer reach the memory of a descriptor, in a class that was opened with `mem_per_session`:
 * in the current session with the peer, or if there is none in the session that delivers the next
 * message to it. The grant ends with the session, when the connection is lost or the peer is
 * restarted, and when the descriptor is freed.
 *
 * A descriptor in an RPC's input or output (hg_proc_hg_bulk_t()) needs no such call for the peer
 * that gets the RPC. Descriptors that the program serializes itself need it, and so does each peer
 * to which that peer passes the descriptor on: the owner grants it to each before the descriptor is
 * sent. In other classes this does nothing.
 *
 * \param handle [IN]  descriptor of memory of this process
 * \param addr [IN]    address of the peer, owned by the caller
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if the memory is another process's, the address of another
 *         class, or an argument is NULL; HG_NOMEM, also if the class has too many grants;
 *         HG_PERMISSION if the class was inherited by fork()
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Bulk_grant(hg_bulk_t handle, hg_addr_t addr);

/**
 * Whether a transfer that ended with HG_TIMEOUT or HG_CANCELED before the transport completed it
 * may still access the memory of a descriptor. That ends with progress, or at the latest when the
 * context of the transfer is destroyed.
 *
 * \param handle [IN]  local descriptor
 *
 * \return true if so; false otherwise, or if handle is HG_BULK_NULL
 *
 * Any thread. \since 1.1
 */
HG_PUBLIC bool HG_Bulk_in_use(hg_bulk_t handle) HG_WARN_UNUSED_RESULT;

/* ---- Peers that are lost --------------------------------------------------------------------- */

/**
 * Called for a peer that is lost, while the class makes progress (in HG_Progress(),
 * HG_Event_progress() and functions that call them). It must not make progress, trigger, or close
 * anything; it may call other functions.
 *
 * \param hg_class [IN]  class
 * \param addr [IN]      the peer's address, valid during the call; HG_Addr_dup() keeps it,
 *     HG_Addr_cmp() identifies the peer
 * \param reason [IN]    the error of RPCs that wait for the peer: mostly HG_HOSTUNREACH
 * \param arg [IN]       argument given to HG_Class_set_peer_lost_callback()
 */
typedef void (*hg_peer_lost_cb_t)(hg_class_t *hg_class, hg_addr_t addr, hg_return_t reason,
                                  void *arg);

/**
 * Have a function called for each peer that is lost, also if no RPC waits for it, so that a service
 * can free the state of its clients: see NA_Class_set_peer_lost(). A peer that closes normally is
 * lost, too. With auto_sm a peer has an address over each of the two transports, and is reported
 * for both.
 *
 * \param hg_class [IN]  class
 * \param callback [IN]  the function; NULL for none, the default
 * \param arg [IN]       passed to it
 *
 * \return HG_SUCCESS; HG_OPNOTSUPPORTED if the transport cannot; HG_INVALID_ARG if hg_class is
 *         NULL; HG_PERMISSION if the class was inherited by fork()
 *
 * Any thread, while no other one makes progress. \since 1.1
 */
HG_PUBLIC hg_return_t HG_Class_set_peer_lost_callback(hg_class_t *hg_class,
                                                      hg_peer_lost_cb_t callback, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_EXT_H */
