/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network abstraction (NA) layer: messages and remote memory access (RMA) over transports that
 * are plugins, loaded at run time and named by an init string.
 *
 * Threads: a function may be called by any thread at any time, unless the class was opened with a
 * thread mode that promises less. An object must not be used while or after another thread frees
 * it.
 *
 * Operations: an operation id is created once, posted, completes exactly once for each time it was
 * posted (a multi-receive: after its last event), and can then be posted again, also from inside
 * its own callback. The arguments of the post (buffers, addresses, memory handles) must stay valid
 * until its callback runs. Callbacks only run in NA_Trigger().
 *
 * Wrong arguments return NA_INVALID_ARG and log one line that says what was wrong; that code is not
 * repeated below where it only means a NULL pointer. NA_FAULT means that a plugin has broken the
 * rules of its ABI, for instance by success without a result.
 *
 * Forks: objects that a child inherited by fork() belong to the parent. In the child, functions
 * that would change or send something, including those that destroy objects, do nothing, log that,
 * and return NA_PERMISSION (or NULL, 0, -1, or a value that keeps the caller from waiting). The
 * child can open its own classes, except over transports that do not work there: MPI, and UCX if
 * the parent had a UCX class open.
 * \since 1.1
 */

#ifndef NA_H
#define NA_H

#include "na_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Library --------------------------------------------------------------------------------- */

/**
 * Get the version of the NA programming interface that the library was built with.
 *
 * \param major [OUT]  receives the major version, or NULL
 * \param minor [OUT]  receives the minor version, or NULL
 * \param patch [OUT]  receives the patch level, or NULL
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Version_get(unsigned int *major, unsigned int *minor, unsigned int *patch);

/**
 * List the usable protocols that plugins offer on this machine. Loads the plugin that the string
 * names, or all plugins if it names none.
 *
 * \param info_string [IN]          "plugin+protocol", "protocol", or NULL for everything
 * \param na_protocol_info_p [OUT]  receives the list; the caller frees it with
 *                                  NA_Free_protocol_info()
 *
 * \return NA_SUCCESS; NA_INVALID_ARG if the string is malformed; NA_PROTONOSUPPORT, with an empty
 *         list, if nothing matches; NA_NOMEM
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Get_protocol_info(const char *info_string,
                                           struct na_protocol_info **na_protocol_info_p);

/**
 * Free a list of protocols.
 *
 * \param na_protocol_info [IN]  the list, or NULL
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Free_protocol_info(struct na_protocol_info *na_protocol_info);

/**
 * Open a transport with default options.
 *
 * An init string is a comma-separated list of choices, tried in that order. Each choice is
 * `plugin+protocol`, or only `protocol`, which takes the best plugin that offers it, or only
 * `plugin`, which takes its best protocol, or `auto`, which takes the best protocol of all; then
 * optionally `://` and the address to listen on, `host:port` or a device for most transports. A
 * protocol that is itself a list has ";" between its parts, because a comma always begins the next
 * choice; a plugin that is named may accept protocols that it does not list. Examples: "na+sm",
 * "ofi+tcp://localhost:3344", "ofi+verbs,ucx+all,ofi+tcp", "ofi+tcp;ofi_rxm://eth0",
 * "ucx+rc;cma;posix://10.0.0.1:5". Options of a plugin follow the address, as in
 * "na+sm://name?rma=copy"; unknown ones are refused with NA_INVALID_ARG and the list of the
 * plugin's options.
 *
 * A protocol without a plugin, and "auto", query all plugins, and each plugin file that was not
 * loaded before is first tried in a child process: a program that waits for any child may see it
 * end.
 *
 * The program keeps its signal handlers: handlers that a fabric's library installs for signals that
 * end a process (some do as soon as they are loaded or listed) are removed again.
 *
 * \param info_string [IN]  init string
 * \param listen [IN]       accept messages from peers that did not get our address from us
 *
 * \return the class, to be closed with NA_Finalize(); NULL on failure, the log says why
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_class_t *NA_Initialize(const char *info_string, bool listen) NA_WARN_UNUSED_RESULT;

/**
 * Open a transport with options of version 4.0: later fields of struct na_init_info are not read
 * and need not exist.
 *
 * \param info_string [IN]   init string, see NA_Initialize()
 * \param listen [IN]        accept messages from peers that did not get our address from us
 * \param na_init_info [IN]  options, or NULL for the defaults
 *
 * \return the class, to be closed with NA_Finalize(); NULL on failure, the log says why
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_class_t *NA_Initialize_opt(const char *info_string, bool listen,
                                        const struct na_init_info *na_init_info)
    NA_WARN_UNUSED_RESULT;

/**
 * Open a transport with options of a given version.
 *
 * \param info_string [IN]   init string, see NA_Initialize()
 * \param listen [IN]        accept messages from peers that did not get our address from us
 * \param version [IN]       NA_VERSION(major, minor) of the headers that the caller was compiled
 *                           with: below 5.0 the options are a struct na_init_info_4_0. Use the
 *                           macro: a literal number means that there is no `encrypt` and no
 *                           `mem_per_session`
 * \param na_init_info [IN]  options, or NULL for the defaults
 *
 * \return the class, to be closed with NA_Finalize(); NULL on failure, the log says why
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_class_t *NA_Initialize_opt2(const char *info_string, bool listen, unsigned int version,
                                         const struct na_init_info *na_init_info)
    NA_WARN_UNUSED_RESULT;

/**
 * Close a class. Its contexts must have been destroyed, its addresses, memory handles and message
 * buffers freed. Remaining operations are freed with it, which the log reports.
 *
 * \param na_class [IN]  the class; NULL does nothing
 *
 * \return NA_SUCCESS; NA_BUSY if contexts are left: the class stays open. An error of the plugin is
 *         returned, but the class is closed all the same.
 *
 * One thread, when no other uses the class. \since 1.0
 */
NA_PUBLIC na_return_t NA_Finalize(na_class_t *na_class);

/**
 * Remove shared memory and files that dead processes left on this machine, for all loaded plugins.
 * Those of living processes are not touched.
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Cleanup(void);

/**
 * Ask whether a class has optional features.
 *
 * \param na_class [IN]  the class
 * \param flags [IN]     NA_OPT_MULTI_RECV | NA_OPT_FIREWALL_ADDR
 *
 * \return true if it has all of them
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC bool NA_Has_opt_feature(na_class_t *na_class, unsigned long flags) NA_WARN_UNUSED_RESULT;

/**
 * Set the log level of the whole process.
 *
 * \param level [IN]  "none", "error", "warning", "info" or "debug"; in addition or instead,
 *                    separated by commas, levels of subsystems (since 1.1), as in
 *                    "warning,na_sm=debug,hg=info": the last match applies. Other words are
 *                    reported and ignored
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Set_log_level(const char *level);

/**
 * Write the counters of all open classes to the log stream, whatever the log level is.
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Diag_dump_counters(void);

/**
 * Get the name of a class: the part of an init string before the '+'.
 *
 * \param na_class [IN]  the class
 *
 * \return the name, owned by the class; NULL if na_class is NULL
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC const char *NA_Get_class_name(const na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/**
 * Get the protocol of a class: the part of an init string after the '+'.
 *
 * \param na_class [IN]  the class
 *
 * \return the protocol's name, owned by the class; NULL if na_class is NULL
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC const char *NA_Get_class_protocol(const na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/**
 * Ask whether a class was opened to listen.
 *
 * \param na_class [IN]  the class
 *
 * \return true if it listens
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC bool NA_Is_listening(const na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/* ---- Contexts and operations ----------------------------------------------------------------- */

/**
 * Create a context with id 0.
 *
 * \param na_class [IN]  the class
 *
 * \return the context, to be freed with NA_Context_destroy(); NULL on failure, the log says why
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_context_t *NA_Context_create(na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/**
 * Create a context with an id by which peers can address it.
 *
 * \param na_class [IN]  the class
 * \param id [IN]        the id, below the number of contexts that the class was opened for, not in
 *                       use
 *
 * \return the context, to be freed with NA_Context_destroy(); NULL on failure, the log says why
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_context_t *NA_Context_create_id(na_class_t *na_class,
                                             uint8_t id) NA_WARN_UNUSED_RESULT;

/**
 * Destroy a context. Outstanding operations, for instance posted receives, are canceled: their
 * callbacks run inside this call, with NA_CANCELED, and cannot post new operations.
 *
 * \param na_class [IN]  the class
 * \param context [IN]   the context; NULL does nothing
 *
 * \return NA_SUCCESS; NA_BUSY if completions wait to be triggered: the context continues to work;
 *         call NA_Trigger() until there are none, and destroy it again. NA_BUSY also inside one of
 *         those callbacks; NA_INVALID_ARG if the context is not of this class
 *
 * One thread, when no other uses the context. \since 1.0
 */
NA_PUBLIC na_return_t NA_Context_destroy(na_class_t *na_class, na_context_t *context);

/**
 * Count the completions that wait to be triggered.
 *
 * \param context [IN]  the context
 *
 * \return their number, which other threads may change at any time
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC unsigned int NA_Context_get_completion_count(const na_context_t *context)
    NA_WARN_UNUSED_RESULT;

/**
 * Create an operation id.
 *
 * \param na_class [IN]  the class
 * \param flags [IN]     NA_OP_SINGLE, or NA_OP_MULTI for NA_Msg_multi_recv_unexpected()
 *
 * \return the operation, to be freed with NA_Op_destroy(); NULL on failure, the log says why
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_op_id_t *NA_Op_create(na_class_t *na_class, unsigned long flags) NA_WARN_UNUSED_RESULT;

/**
 * Free an operation id. An outstanding operation is freed after it has completed and its callback
 * has run. May be called from that callback.
 *
 * \param na_class [IN]  the class
 * \param op_id [IN]     the operation; NULL does nothing
 *
 * Any thread, once. \since 1.0
 */
NA_PUBLIC void NA_Op_destroy(na_class_t *na_class, na_op_id_t *op_id);

/* ---- Addresses ------------------------------------------------------------------------------- */

/**
 * Find the address of a peer by its name, as NA_Addr_to_string() returned it in the peer.
 *
 * \param na_class [IN]  the class
 * \param name [IN]      the name
 * \param addr_p [OUT]   receives the address; the caller frees it with NA_Addr_free()
 *
 * \return NA_SUCCESS; NA_INVALID_ARG or NA_PROTOCOL_ERROR if the name is malformed; NA_NOENTRY or
 *         NA_HOSTUNREACH if no peer has that name; NA_NOMEM; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Addr_lookup(na_class_t *na_class, const char *name, na_addr_t **addr_p);

/**
 * Free an address.
 *
 * \param na_class [IN]  the class
 * \param addr [IN]      the address; NULL does nothing
 *
 * Any thread, once. \since 1.0
 */
NA_PUBLIC void NA_Addr_free(na_class_t *na_class, na_addr_t *addr);

/**
 * Tell the transport that a peer is believed to be gone, so that its state can be released when its
 * address is freed.
 *
 * \param na_class [IN]  the class
 * \param addr [IN]      the peer's address, still to be freed with NA_Addr_free()
 *
 * \return NA_SUCCESS, also if the plugin has no use for it
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Addr_set_remove(na_class_t *na_class, na_addr_t *addr);

/**
 * Get the own address.
 *
 * \param na_class [IN]  the class
 * \param addr_p [OUT]   receives the address; the caller frees it with NA_Addr_free()
 *
 * \return NA_SUCCESS; NA_NOMEM; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Addr_self(na_class_t *na_class, na_addr_t **addr_p);

/**
 * Duplicate an address. Both addresses must be freed.
 *
 * \param na_class [IN]     the class
 * \param addr [IN]         the address
 * \param new_addr_p [OUT]  receives the duplicate; the caller frees it with NA_Addr_free()
 *
 * \return NA_SUCCESS; NA_NOMEM; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Addr_dup(na_class_t *na_class, na_addr_t *addr, na_addr_t **new_addr_p);

/**
 * Compare two addresses.
 *
 * \param na_class [IN]  the class
 * \param addr1 [IN]     an address, or NULL
 * \param addr2 [IN]     another, or NULL
 *
 * \return true if they are of the same peer, or both NULL
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC bool NA_Addr_cmp(na_class_t *na_class, na_addr_t *addr1,
                           na_addr_t *addr2) NA_WARN_UNUSED_RESULT;

/**
 * Ask whether an address is the own one.
 *
 * \param na_class [IN]  the class
 * \param addr [IN]      the address
 *
 * \return true if it is
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC bool NA_Addr_is_self(na_class_t *na_class, na_addr_t *addr) NA_WARN_UNUSED_RESULT;

/**
 * Write an address as a string that NA_Addr_lookup() of any process understands.
 *
 * \param na_class [IN]      the class
 * \param buf [OUT]          receives the string and its null; NULL to ask only for the size
 * \param buf_size [IN,OUT]  size of buf in bytes; receives the size needed, the null included
 * \param addr [IN]          the address
 *
 * \return NA_SUCCESS; NA_OVERFLOW if buf is too small; NA_FAULT if the plugin does not return a
 *         string; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Addr_to_string(na_class_t *na_class, char *buf, size_t *buf_size,
                                        na_addr_t *addr);

/**
 * Get the size of a serialized address.
 *
 * \param na_class [IN]  the class
 * \param addr [IN]      the address
 *
 * \return bytes that NA_Addr_serialize() writes; 0 if the plugin cannot serialize addresses
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC size_t NA_Addr_get_serialize_size(na_class_t *na_class,
                                            na_addr_t *addr) NA_WARN_UNUSED_RESULT;

/**
 * Serialize an address, for a peer that uses the same protocol.
 *
 * \param na_class [IN]  the class
 * \param buf [OUT]      receives the bytes
 * \param buf_size [IN]  size of buf in bytes
 * \param addr [IN]      the address
 *
 * \return NA_SUCCESS; NA_OVERFLOW if buf is too small; NA_OPNOTSUPPORTED if the plugin cannot
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Addr_serialize(na_class_t *na_class, void *buf, size_t buf_size,
                                        na_addr_t *addr);

/**
 * Make an address from bytes that NA_Addr_serialize() wrote. The bytes are checked.
 *
 * \param na_class [IN]  the class
 * \param addr_p [OUT]   receives the address; the caller frees it with NA_Addr_free()
 * \param buf [IN]       the bytes
 * \param buf_size [IN]  their number
 * \param flags [IN]     enum na_addr_flags, or 0
 *
 * \return NA_SUCCESS; NA_OVERFLOW or NA_PROTOCOL_ERROR if the bytes are not an address;
 *         NA_HOSTUNREACH if the peer is gone; NA_OPNOTSUPPORTED if the plugin cannot; NA_NOMEM
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Addr_deserialize(na_class_t *na_class, na_addr_t **addr_p, const void *buf,
                                          size_t buf_size, uint64_t flags);

/* ---- Messages -------------------------------------------------------------------------------- */

/**
 * Get the size limit of unexpected messages, the plugin's header included.
 *
 * \param na_class [IN]  the class
 *
 * \return the limit in bytes
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC size_t NA_Msg_get_max_unexpected_size(const na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/**
 * Get the size limit of expected messages, the plugin's header included.
 *
 * \param na_class [IN]  the class
 *
 * \return the limit in bytes
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC size_t NA_Msg_get_max_expected_size(const na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/**
 * Get the size of the plugin's header at the beginning of each unexpected message, on both sides.
 *
 * \param na_class [IN]  the class
 *
 * \return bytes, often 0
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC size_t NA_Msg_get_unexpected_header_size(const na_class_t *na_class)
    NA_WARN_UNUSED_RESULT;

/**
 * Get the size of the plugin's header at the beginning of each expected message, on both sides.
 *
 * \param na_class [IN]  the class
 *
 * \return bytes, often 0
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC size_t NA_Msg_get_expected_header_size(const na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/**
 * Get the highest tag that a message can have.
 *
 * \param na_class [IN]  the class
 *
 * \return the highest tag; it and all below may be used
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_tag_t NA_Msg_get_max_tag(const na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/**
 * Allocate a message buffer that suits the transport (aligned, registered).
 *
 * \param na_class [IN]        the class
 * \param buf_size [IN]        size in bytes
 * \param flags [IN]           intended use: NA_SEND, NA_RECV, NA_MULTI_RECV
 * \param plugin_data_p [OUT]  receives the plugin's data of the buffer, to be passed with each use
 *                             of it; owned by the buffer
 *
 * \return the buffer, to be freed with NA_Msg_buf_free(); NULL if buf_size is 0 or on failure
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void *NA_Msg_buf_alloc(na_class_t *na_class, size_t buf_size, unsigned long flags,
                                 void **plugin_data_p) NA_WARN_UNUSED_RESULT;

/**
 * Free a message buffer. No operation may use it any more.
 *
 * \param na_class [IN]     the class
 * \param buf [IN]          the buffer; NULL does nothing
 * \param plugin_data [IN]  as NA_Msg_buf_alloc() gave it
 *
 * Any thread, once. \since 1.0
 */
NA_PUBLIC void NA_Msg_buf_free(na_class_t *na_class, void *buf, void *plugin_data);

/**
 * Prepare a buffer for NA_Msg_send_unexpected(): the plugin writes its header. The message's
 * content goes after NA_Msg_get_unexpected_header_size() bytes. Once for each buffer is enough.
 *
 * \param na_class [IN]  the class
 * \param buf [IN]       the buffer
 * \param buf_size [IN]  its size in bytes
 *
 * \return NA_SUCCESS; NA_OVERFLOW if the header does not fit; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Msg_init_unexpected(na_class_t *na_class, void *buf, size_t buf_size);

/**
 * Send a message to a peer that need not have posted a receive for it. A peer that is short of
 * receives for long may drop it, though transports avoid that.
 *
 * \param na_class [IN]     the class
 * \param context [IN]      where the completion goes
 * \param callback [IN]     called by NA_Trigger() after completion, or NULL
 * \param arg [IN]          passed to the callback
 * \param buf [IN]          the message, after the plugin's header
 * \param buf_size [IN]     its size in bytes, header included
 * \param plugin_data [IN]  as NA_Msg_buf_alloc() gave it, or NULL for another buffer
 * \param dest_addr [IN]    receiver
 * \param dest_id [IN]      receiver's context id
 * \param tag [IN]          passed to the receiver, NA_Msg_get_max_tag() at most
 * \param op_id [IN]        operation
 *
 * \return NA_SUCCESS: the callback will be called, with the result. All others: it will not.
 *         NA_AGAIN if resources are short: progress and try again; NA_BUSY if the operation is
 *         outstanding; NA_MSGSIZE if the message is too long; NA_OVERFLOW if the tag is too high;
 *         NA_HOSTUNREACH if the peer is known to be gone; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Msg_send_unexpected(na_class_t *na_class, na_context_t *context,
                                             na_cb_t callback, void *arg, const void *buf,
                                             size_t buf_size, void *plugin_data,
                                             na_addr_t *dest_addr, uint8_t dest_id, na_tag_t tag,
                                             na_op_id_t *op_id);

/**
 * Receive one unexpected message, from any peer and with any tag.
 *
 * \param na_class [IN]     the class
 * \param context [IN]      whose messages to receive, and where the completion goes
 * \param callback [IN]     called by NA_Trigger() after completion, or NULL
 * \param arg [IN]          passed to the callback
 * \param buf [OUT]         receives the message
 * \param buf_size [IN]     its size in bytes; a longer message completes with NA_MSGSIZE
 * \param plugin_data [IN]  as NA_Msg_buf_alloc() gave it, or NULL for another buffer
 * \param op_id [IN]        operation
 *
 * \return NA_SUCCESS: the callback will be called, with the result. All others: it will not.
 *         NA_AGAIN if resources are short; NA_BUSY if the operation is outstanding; others of the
 *         plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Msg_recv_unexpected(na_class_t *na_class, na_context_t *context,
                                             na_cb_t callback, void *arg, void *buf,
                                             size_t buf_size, void *plugin_data, na_op_id_t *op_id);

/**
 * Receive unexpected messages into one buffer, one after the other, until it is used up. The
 * callback is called for each; the event with `last` set ends the operation. An error or a
 * cancellation is such an event, too.
 *
 * \param na_class [IN]     the class
 * \param context [IN]      whose messages to receive, and where the completions go
 * \param callback [IN]     called by NA_Trigger() for each event, or NULL
 * \param arg [IN]          passed to the callback
 * \param buf [OUT]         receives the messages
 * \param buf_size [IN]     its size in bytes
 * \param plugin_data [IN]  as NA_Msg_buf_alloc() gave it, or NULL for another buffer
 * \param op_id [IN]        operation, created with NA_OP_MULTI
 *
 * \return NA_SUCCESS: the callback will be called, with the results. All others: it will not.
 *         NA_OPNOTSUPPORTED without NA_OPT_MULTI_RECV; NA_INVALID_ARG if the operation is not an
 *         NA_OP_MULTI one; NA_AGAIN if resources are short; NA_BUSY if the operation is
 *         outstanding; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Msg_multi_recv_unexpected(na_class_t *na_class, na_context_t *context,
                                                   na_cb_t callback, void *arg, void *buf,
                                                   size_t buf_size, void *plugin_data,
                                                   na_op_id_t *op_id);

/**
 * Prepare a buffer for NA_Msg_send_expected(): the plugin writes its header. The message's content
 * goes after NA_Msg_get_expected_header_size() bytes. Once for each buffer is enough.
 *
 * \param na_class [IN]  the class
 * \param buf [IN]       the buffer
 * \param buf_size [IN]  its size in bytes
 *
 * \return NA_SUCCESS; NA_OVERFLOW if the header does not fit; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Msg_init_expected(na_class_t *na_class, void *buf, size_t buf_size);

/**
 * Send a message to a peer that has posted a receive for it. Without such a receive, the peer may
 * drop the message without notice.
 *
 * \param na_class [IN]     the class
 * \param context [IN]      where the completion goes
 * \param callback [IN]     called by NA_Trigger() after completion, or NULL
 * \param arg [IN]          passed to the callback
 * \param buf [IN]          the message, after the plugin's header
 * \param buf_size [IN]     its size in bytes, header included
 * \param plugin_data [IN]  as NA_Msg_buf_alloc() gave it, or NULL for another buffer
 * \param dest_addr [IN]    receiver
 * \param dest_id [IN]      receiver's context id
 * \param tag [IN]          tag that the receive matches, NA_Msg_get_max_tag() at most
 * \param op_id [IN]        operation
 *
 * \return as NA_Msg_send_unexpected()
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Msg_send_expected(na_class_t *na_class, na_context_t *context,
                                           na_cb_t callback, void *arg, const void *buf,
                                           size_t buf_size, void *plugin_data, na_addr_t *dest_addr,
                                           uint8_t dest_id, na_tag_t tag, na_op_id_t *op_id);

/**
 * Receive the message that a given peer sends with a given tag. Must be posted before the message
 * is sent.
 *
 * \param na_class [IN]     the class
 * \param context [IN]      whose messages to receive, and where the completion goes
 * \param callback [IN]     called by NA_Trigger() after completion, or NULL
 * \param arg [IN]          passed to the callback
 * \param buf [OUT]         receives the message
 * \param buf_size [IN]     its size in bytes; a longer message completes with NA_MSGSIZE
 * \param plugin_data [IN]  as NA_Msg_buf_alloc() gave it, or NULL for another buffer
 * \param source_addr [IN]  sender
 * \param source_id [IN]    sender's context id
 * \param tag [IN]          tag to match, NA_Msg_get_max_tag() at most
 * \param op_id [IN]        operation
 *
 * \return NA_SUCCESS: the callback will be called, with the result. All others: it will not.
 *         NA_AGAIN if resources are short; NA_BUSY if the operation is outstanding; NA_OVERFLOW if
 *         the tag is too high; NA_HOSTUNREACH if the peer is known to be gone; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Msg_recv_expected(na_class_t *na_class, na_context_t *context,
                                           na_cb_t callback, void *arg, void *buf, size_t buf_size,
                                           void *plugin_data, na_addr_t *source_addr,
                                           uint8_t source_id, na_tag_t tag, na_op_id_t *op_id);

/* ---- Memory and RMA -------------------------------------------------------------------------- */

/**
 * Describe contiguous memory for RMA. It can be used after NA_Mem_register(). The same memory may
 * be described several times.
 *
 * \param na_class [IN]       the class
 * \param buf [IN]            the memory, which must live as long as the handle
 * \param buf_size [IN]       its size in bytes
 * \param flags [IN]          what peers may do: NA_MEM_READ_ONLY, NA_MEM_WRITE_ONLY or
 *                            NA_MEM_READWRITE
 * \param mem_handle_p [OUT]  receives the handle; the caller frees it with NA_Mem_handle_free()
 *
 * \return NA_SUCCESS; NA_INVALID_ARG; NA_NOMEM; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Mem_handle_create(na_class_t *na_class, void *buf, size_t buf_size,
                                           unsigned long flags, na_mem_handle_t **mem_handle_p);

/**
 * Describe memory in several pieces for RMA. Offsets count through the pieces as if they were one.
 *
 * \param na_class [IN]       the class
 * \param segments [IN]       the pieces, copied
 * \param segment_count [IN]  their number, NA_Mem_handle_get_max_segments() at most
 * \param flags [IN]          what peers may do: NA_MEM_READ_ONLY, NA_MEM_WRITE_ONLY or
 *                            NA_MEM_READWRITE
 * \param mem_handle_p [OUT]  receives the handle; the caller frees it with NA_Mem_handle_free()
 *
 * \return NA_SUCCESS; NA_INVALID_ARG; NA_OPNOTSUPPORTED if there are more pieces than the class can
 *         take; NA_NOMEM; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Mem_handle_create_segments(na_class_t *na_class,
                                                    struct na_segment *segments,
                                                    size_t segment_count, unsigned long flags,
                                                    na_mem_handle_t **mem_handle_p);

/**
 * Free a memory handle. It must have been deregistered if it was registered.
 *
 * \param na_class [IN]    the class
 * \param mem_handle [IN]  the handle; NULL does nothing
 *
 * Any thread, once. \since 1.0
 */
NA_PUBLIC void NA_Mem_handle_free(na_class_t *na_class, na_mem_handle_t *mem_handle);

/**
 * Get the number of pieces that NA_Mem_handle_create_segments() takes.
 *
 * \param na_class [IN]  the class
 *
 * \return the number, 1 if only contiguous memory can be used
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC size_t NA_Mem_handle_get_max_segments(const na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/**
 * Register memory with the fabric.
 *
 * \param na_class [IN]    the class
 * \param mem_handle [IN]  the memory's handle
 * \param mem_type [IN]    kind of memory
 * \param device [IN]      device number, for other than main memory
 *
 * \return NA_SUCCESS; NA_OPNOTSUPPORTED if the plugin cannot use that kind of memory; others of the
 *         plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Mem_register(na_class_t *na_class, na_mem_handle_t *mem_handle,
                                      enum na_mem_type mem_type, uint64_t device);

/**
 * Undo NA_Mem_register(). Peers that still have the handle can no longer use it: their transfers
 * end with NA_PERMISSION, and other operations continue; hardware that checks handles itself may
 * have another code for it. Over shared memory and over networks without such hardware nothing is
 * written any more when this returns; it waits for transfers in progress, up to some seconds if a
 * peer has stopped in the middle. Then that peer's connection is aborted; over shared memory there
 * is none to abort, and a warning says that the peer may still write.
 *
 * \param na_class [IN]    the class
 * \param mem_handle [IN]  the memory's handle
 *
 * \return NA_SUCCESS; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Mem_deregister(na_class_t *na_class, na_mem_handle_t *mem_handle);

/**
 * Get the size of a serialized memory handle.
 *
 * \param na_class [IN]    the class
 * \param mem_handle [IN]  the handle
 *
 * \return bytes that NA_Mem_handle_serialize() writes; they may differ between handles
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC size_t NA_Mem_handle_get_serialize_size(na_class_t *na_class, na_mem_handle_t *mem_handle)
    NA_WARN_UNUSED_RESULT;

/**
 * Serialize a memory handle, for a peer that will access the memory.
 *
 * \param na_class [IN]    the class
 * \param buf [OUT]        receives the bytes
 * \param buf_size [IN]    size of buf in bytes
 * \param mem_handle [IN]  the handle
 *
 * \return NA_SUCCESS; NA_OVERFLOW if buf is too small; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Mem_handle_serialize(na_class_t *na_class, void *buf, size_t buf_size,
                                              na_mem_handle_t *mem_handle);

/**
 * Make a handle of a peer's memory from bytes that NA_Mem_handle_serialize() wrote there. The bytes
 * are checked.
 *
 * \param na_class [IN]       the class
 * \param mem_handle_p [OUT]  receives the handle; the caller frees it with NA_Mem_handle_free()
 * \param buf [IN]            the bytes
 * \param buf_size [IN]       their number
 *
 * \return NA_SUCCESS; NA_OVERFLOW or NA_PROTOCOL_ERROR if the bytes are not a handle; NA_NOMEM;
 *         NA_OPNOTSUPPORTED if the class has no RMA; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Mem_handle_deserialize(na_class_t *na_class,
                                                na_mem_handle_t **mem_handle_p, const void *buf,
                                                size_t buf_size);

/**
 * Write local memory to a peer's memory.
 *
 * \param na_class [IN]           the class
 * \param context [IN]            where the completion goes
 * \param callback [IN]           called by NA_Trigger() after completion, or NULL
 * \param arg [IN]                passed to the callback
 * \param local_mem_handle [IN]   local memory, registered
 * \param local_offset [IN]       where to begin in it, in bytes
 * \param remote_mem_handle [IN]  the peer's memory
 * \param remote_offset [IN]      where to begin in it, in bytes
 * \param data_size [IN]          how many bytes
 * \param remote_addr [IN]        the peer
 * \param remote_id [IN]          the peer's context id
 * \param op_id [IN]              operation
 *
 * \return NA_SUCCESS: the callback will be called, with the result. All others: it will not.
 *         NA_OVERFLOW if the range is not within both handles; NA_PERMISSION if the handle does not
 *         allow it; NA_OPNOTSUPPORTED if the class has no RMA; NA_AGAIN if resources are short:
 *         progress and try again; NA_BUSY if the operation is outstanding; NA_HOSTUNREACH if the
 *         peer is known to be gone; others of the plugin. A plugin may report each of these by the
 *         callback instead.
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Put(na_class_t *na_class, na_context_t *context, na_cb_t callback,
                             void *arg, na_mem_handle_t *local_mem_handle, na_offset_t local_offset,
                             na_mem_handle_t *remote_mem_handle, na_offset_t remote_offset,
                             size_t data_size, na_addr_t *remote_addr, uint8_t remote_id,
                             na_op_id_t *op_id);

/**
 * Read a peer's memory into local memory.
 *
 * \param na_class [IN]           the class
 * \param context [IN]            where the completion goes
 * \param callback [IN]           called by NA_Trigger() after completion, or NULL
 * \param arg [IN]                passed to the callback
 * \param local_mem_handle [IN]   local memory, registered
 * \param local_offset [IN]       where to begin in it, in bytes
 * \param remote_mem_handle [IN]  the peer's memory
 * \param remote_offset [IN]      where to begin in it, in bytes
 * \param data_size [IN]          how many bytes
 * \param remote_addr [IN]        the peer
 * \param remote_id [IN]          the peer's context id
 * \param op_id [IN]              operation
 *
 * \return as NA_Put()
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Get(na_class_t *na_class, na_context_t *context, na_cb_t callback,
                             void *arg, na_mem_handle_t *local_mem_handle, na_offset_t local_offset,
                             na_mem_handle_t *remote_mem_handle, na_offset_t remote_offset,
                             size_t data_size, na_addr_t *remote_addr, uint8_t remote_id,
                             na_op_id_t *op_id);

/* ---- Progress and completion ----------------------------------------------------------------- */

/**
 * Get a file descriptor that becomes readable when there is something to progress. Wait for it only
 * after NA_Poll_try_wait() returned true. The context owns it: do not read it, do not close it.
 *
 * \param na_class [IN]  the class
 * \param context [IN]   the context
 *
 * \return the descriptor; -1 if the plugin has none, or was opened with NA_NO_BLOCK
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC int NA_Poll_get_fd(na_class_t *na_class, na_context_t *context) NA_WARN_UNUSED_RESULT;

/**
 * Ask whether the caller may wait for the descriptor now. If so, any event from now on wakes it.
 *
 * \param na_class [IN]  the class
 * \param context [IN]   the context
 *
 * \return true if there is nothing to do and waiting is safe; false if there is something to
 *         progress or to trigger, or the class was opened with NA_NO_BLOCK
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC bool NA_Poll_try_wait(na_class_t *na_class, na_context_t *context) NA_WARN_UNUSED_RESULT;

/**
 * Progress communication without waiting.
 *
 * \param na_class [IN]  the class
 * \param context [IN]   the context
 * \param count_p [OUT]  receives the number of completions that wait to be triggered, or NULL
 *
 * \return NA_SUCCESS; an error only if the whole class cannot continue: errors of a single peer are
 *         reported by the callbacks of its operations
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Poll(na_class_t *na_class, na_context_t *context, unsigned int *count_p);

/**
 * Progress communication, and wait for a completion if there is none.
 *
 * \param na_class [IN]    the class
 * \param context [IN]     the context
 * \param timeout_ms [IN]  how long to wait at most, in milliseconds
 * \param count_p [OUT]    receives the number of completions that wait to be triggered, or NULL
 *
 * \return NA_SUCCESS if there are completions to trigger; NA_TIMEOUT if there were none in that
 *         time; an error only if the whole class cannot continue
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Poll_wait(na_class_t *na_class, na_context_t *context,
                                   unsigned int timeout_ms, unsigned int *count_p);

/**
 * The older form of NA_Poll_wait().
 *
 * \param na_class [IN]    the class
 * \param context [IN]     the context
 * \param timeout_ms [IN]  how long to wait at most, in milliseconds
 *
 * \return as NA_Poll_wait()
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Progress(na_class_t *na_class, na_context_t *context,
                                  unsigned int timeout_ms);

/**
 * Call the callbacks of completed operations in this thread.
 *
 * \param context [IN]        the context
 * \param max_count [IN]      maximum number of callbacks
 * \param actual_count [OUT]  receives the number of callbacks called, or NULL
 *
 * \return NA_SUCCESS, also if there were none
 *
 * Any thread, also from a callback; concurrent calls share the callbacks. \since 1.0
 */
NA_PUBLIC na_return_t NA_Trigger(na_context_t *context, unsigned int max_count,
                                 unsigned int *actual_count);

/**
 * Cancel an operation. Its callback is called in any case: with NA_CANCELED, or with another result
 * if the operation completed before.
 *
 * \param na_class [IN]  the class
 * \param context [IN]   the context that it was posted to
 * \param op_id [IN]     the operation
 *
 * \return NA_SUCCESS, also if the operation is not outstanding any more; NA_OPNOTSUPPORTED if the
 *         plugin cannot cancel it; others of the plugin
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Cancel(na_class_t *na_class, na_context_t *context, na_op_id_t *op_id);

/**
 * Get the name of a return code.
 *
 * \param errnum  the code
 *
 * \return its name, a constant; a text such as "(unknown)" if there is no such code
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC const char *NA_Error_to_string(na_return_t errnum) NA_WARN_UNUSED_RESULT;

/**
 * Convert options of version 4.0 to current ones; fields that 4.0 does not have get their defaults.
 *
 * \param new_info [OUT]  receives the options; its strings are those of old_info
 * \param old_info [IN]   options of version 4.0
 *
 * Any thread. \since 1.0
 */
static NA_INLINE void na_init_info_dup_4_0(struct na_init_info *new_info,
                                           const struct na_init_info_4_0 *old_info)
{
    new_info->ip_subnet = old_info->ip_subnet;
    new_info->auth_key = old_info->auth_key;
    new_info->max_unexpected_size = old_info->max_unexpected_size;
    new_info->max_expected_size = old_info->max_expected_size;
    new_info->progress_mode = old_info->progress_mode;
    new_info->addr_format = old_info->addr_format;
    new_info->max_contexts = old_info->max_contexts;
    new_info->thread_mode = old_info->thread_mode;
    new_info->request_mem_device = old_info->request_mem_device;
    new_info->traffic_class = NA_TC_UNSPEC;
    new_info->auth_key_also = NULL;
    new_info->encrypt = false;
    new_info->mem_per_session = false;
}

#ifdef __cplusplus
}
#endif

#endif /* NA_H */
