/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RPC API: classes, contexts, registration, addresses, handles, forward, respond, progress.
 *
 * A typical program calls HG_Init(), HG_Context_create() and HG_Register() on both sides. The
 * origin looks an address up, creates a handle, forwards it and makes progress (HG_Progress() and
 * HG_Trigger(), or the HG_Event_ functions) until its callback has run. The target makes progress,
 * and its handler reads the input, responds and destroys the handle.
 *
 * Threads: unless a function says otherwise it may be called by any thread at any time, also from
 * callbacks, on objects that no other thread is destroying. Callbacks and RPC handlers run only
 * inside HG_Trigger() and HG_Event_trigger(), in the calling thread. A handle is used by one thread
 * at a time, except HG_Cancel(), HG_Ref_incr(), HG_Ref_get() and HG_Destroy(), which any thread may
 * call.
 *
 * Errors: a function that fails with HG_INVALID_ARG, or fails to open or create something, writes
 * one line to the log that says why. Any function that takes an object returns HG_INVALID_ARG (or
 * NULL, 0, false) when that object is NULL.
 *
 * Forks: objects that a child inherited by fork() belong to the parent. In the child, functions
 * that would change or send something, including those that destroy objects, do nothing, log that,
 * and return HG_PERMISSION (or NULL, 0, -1, or a value that keeps the caller from waiting). The
 * child can open its own classes, except over transports that do not work there: MPI, and UCX if
 * the parent had a UCX class open.
 * \since 1.1
 */
#ifndef MERCURY_H
#define MERCURY_H

#include "mercury_core.h"
#include "mercury_header.h"
#include "mercury_types.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Library
 */

/**
 * Version of the library at run time.
 *
 * \param major_p [OUT]  major version
 * \param minor_p [OUT]  minor version
 * \param patch_p [OUT]  patch level
 *
 * Any of the pointers may be NULL.
 *
 * \return HG_SUCCESS
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Version_get(unsigned int *major_p, unsigned int *minor_p,
                                     unsigned int *patch_p);

/**
 * Name of a return code.
 *
 * \param errnum [IN]    return code
 *
 * \return its name, e.g. "HG_TIMEOUT", or "HG_UNKNOWN_ERROR"; a static string
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC const char *HG_Error_to_string(hg_return_t errnum) HG_WARN_UNUSED_RESULT;

/**
 * List the protocols that the installed transports offer.
 *
 * \param info_string [IN]          NULL for all, or "<protocol>", or "<plugin>+<protocol>"
 * \param na_protocol_info_p [OUT]  list, to be freed by HG_Free_na_protocol_info(); NULL if empty
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if na_protocol_info_p is NULL; HG_PROTONOSUPPORT if nothing
 * matches; HG_NOMEM
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Get_na_protocol_info(const char *info_string,
                                              struct na_protocol_info **na_protocol_info_p);

/**
 * Free a list made by HG_Get_na_protocol_info().
 *
 * \param na_protocol_info [IN]     list, or NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC void HG_Free_na_protocol_info(struct na_protocol_info *na_protocol_info);

/**
 * Remove shared-memory objects and sockets of earlier processes that ended abnormally. Those of
 * living processes are not touched.
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC void HG_Cleanup(void);

/*
 * Log and diagnostics
 */

/**
 * Set the least severe level that is logged, for all classes of the process. The environment
 * variable HG_LOG_LEVEL sets it at start.
 *
 * \param level [IN]     "none", "error", "warning" (the default), "info" or "debug", and levels of
 * subsystems (since 1.1), as in "warning,na_sm=debug"; anything else is ignored with a warning.
 * NA_Log_reload() reads the variable again
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC void HG_Set_log_level(const char *level);

/**
 * Choose the subsystems that log. The environment variable HG_LOG_SUBSYS sets it at start.
 *
 * \param subsys [IN]    comma-separated names, e.g. "hg,na"; a name after ~ is switched off
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC void HG_Set_log_subsys(const char *subsys);

/**
 * Set the function that writes log lines.
 *
 * \param log_func [IN]  a function like fprintf(), which may be called by several threads at once;
 * NULL for fprintf() itself
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC void HG_Set_log_func(int (*log_func)(FILE *stream, const char *format, ...));

/**
 * Set the stream that log lines of one level go to.
 *
 * \param level [IN]     "error", "warning", "info" or "debug"
 * \param stream [IN]    open stream, owned by the caller, or NULL for the default, stderr
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC void HG_Set_log_stream(const char *level, FILE *stream);

/**
 * Write the counters of all classes of the process, added up, to the log, whatever its level.
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC void HG_Diag_dump_counters(void);

/*
 * Classes
 */

/**
 * Open an endpoint with default options.
 *
 * \param na_info_string [IN]  init string, e.g. "na+sm", "ofi+tcp://host:port", or a
 *     comma-separated list of such
 * \param na_listen [IN]  HG_TRUE if requests from others are to be received
 *
 * \return the class, to be closed by HG_Finalize(), or NULL, with the reason in the log
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_class_t *HG_Init(const char *na_info_string, uint8_t na_listen) HG_WARN_UNUSED_RESULT;

/**
 * Open an endpoint with options of API version 2.2: newer fields of hg_init_info are not read. New
 * code uses HG_Init_opt2().
 *
 * \param na_info_string [IN]  init string, e.g. "na+sm", "ofi+tcp://host:port", or a
 *     comma-separated list of such
 * \param na_listen [IN]  HG_TRUE if requests from others are to be received
 * \param hg_init_info [IN]  options, or NULL for the defaults
 *
 * \return the class, to be closed by HG_Finalize(), or NULL, with the reason in the log
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_class_t *HG_Init_opt(const char *na_info_string, uint8_t na_listen,
                                  const struct hg_init_info *hg_init_info) HG_WARN_UNUSED_RESULT;

/**
 * Open an endpoint with options.
 *
 * \param na_info_string [IN]  init string, e.g. "na+sm", "ofi+tcp://host:port", or a
 *     comma-separated list of such
 * \param na_listen [IN]  HG_TRUE if requests from others are to be received
 * \param version [IN]  HG_VERSION(major, minor) of the headers that the caller was compiled with;
 *     newer fields are not read. Use the macro: a literal number means that there is no `encrypt`
 *     and no `mem_per_session`
 * \param hg_init_info [IN]  options, or NULL for the defaults. The strings in it are copied.
 *
 * \return the class, to be closed by HG_Finalize(), or NULL, with the reason in the log
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_class_t *HG_Init_opt2(const char *na_info_string, uint8_t na_listen,
                                   unsigned int version,
                                   const struct hg_init_info *hg_init_info) HG_WARN_UNUSED_RESULT;

/**
 * Close an endpoint. All contexts must be destroyed and all addresses, bulk descriptors and
 * procs freed before. Data registered with free callbacks is freed.
 *
 * \param hg_class [IN]  class, or NULL, which does nothing
 *
 * \return HG_SUCCESS; HG_BUSY if contexts, addresses or bulk descriptors are left (the log says how
 * many), then the class stays open; an NA error code if the transport failed to close
 *
 * One thread, when no other uses the class. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Finalize(hg_class_t *hg_class);

/**
 * Name of the class's plugin, e.g. "sm".
 *
 * \param hg_class [IN]  class
 *
 * \return the name, valid while the class is open, or NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC const char *HG_Class_get_name(const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/**
 * Protocol of the class, e.g. "tcp".
 *
 * \param hg_class [IN]  class
 *
 * \return the protocol, valid while the class is open, or NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC const char *HG_Class_get_protocol(const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/**
 * Whether the class receives requests from others.
 *
 * \param hg_class [IN]  class
 *
 * \return true if it listens; false if not or if hg_class is NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC bool HG_Class_is_listening(const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/**
 * Size of the largest encoded input that is sent in one message; a larger one is fetched by RMA.
 *
 * \param hg_class [IN]  class
 *
 * \return size in bytes, including the offset of HG_Class_set_input_offset(); 0 if hg_class is NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_size_t HG_Class_get_input_eager_size(const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/**
 * Size of the largest encoded output that is sent in one message; a larger one is fetched by RMA.
 *
 * \param hg_class [IN]  class
 *
 * \return size in bytes, including the offset of HG_Class_set_output_offset(); 0 if hg_class is
 * NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_size_t HG_Class_get_output_eager_size(const hg_class_t *hg_class)
    HG_WARN_UNUSED_RESULT;

/**
 * Reserve room for the caller's own header before each input. HG_Forward() and HG_Get_input()
 * encode and decode after it; HG_Get_input_buf() returns its start. Both sides must use the same
 * offset.
 *
 * \param hg_class [IN]  class
 * \param offset [IN]    bytes to reserve, 0 by default
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL or the offset exceeds the eager size
 *
 * One thread, before handles of the class are used. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Class_set_input_offset(hg_class_t *hg_class, hg_size_t offset);

/**
 * Reserve room for the caller's own header before each output. HG_Respond() and HG_Get_output()
 * encode and decode after it; HG_Get_output_buf() returns its start. Both sides must use the same
 * offset.
 *
 * \param hg_class [IN]  class
 * \param offset [IN]    bytes to reserve, 0 by default
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL or the offset exceeds the eager size
 *
 * One thread, before handles of the class are used. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Class_set_output_offset(hg_class_t *hg_class, hg_size_t offset);

/**
 * Attach data to a class. Data attached before are not freed.
 *
 * \param hg_class [IN]       class
 * \param data [IN]           data
 * \param free_callback [IN]  called with the data by HG_Finalize(), or NULL
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Class_set_data(hg_class_t *hg_class, void *data,
                                        void (*free_callback)(void *));

/**
 * Data attached to a class.
 *
 * \param hg_class [IN]  class
 *
 * \return the data, which stay the program's (see HG_Class_set_data()), or NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC void *HG_Class_get_data(const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/**
 * Read the counters of a class: the sum over all its contexts, destroyed ones included.
 *
 * \param hg_class [IN]        class
 * \param diag_counters [OUT]  counters
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if an argument is NULL
 *
 * Any thread; counters that change meanwhile may be read at slightly different times. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Class_get_counters(const hg_class_t *hg_class,
                                            struct hg_diag_counters *diag_counters);

/**
 * Set a function to be called for every handle that is created: by HG_Create(), and by
 * HG_Context_create() for requests to be received. It may attach data by HG_Set_data(), which stay
 * attached when the handle is reused.
 *
 * \param hg_class [IN]  class
 * \param callback [IN]  function, or NULL for none; if it fails, so does creating the handle
 * \param arg [IN]       second argument of the callback
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL
 *
 * One thread, before contexts are created. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Class_set_handle_create_callback(
    hg_class_t *hg_class, hg_return_t (*callback)(hg_handle_t, void *), void *arg);

/*
 * Contexts
 */

/**
 * Create a context with the lowest free id: 0 for the first. If the class listens, the context
 * receives requests from now on. A class can have max_contexts contexts, as set when it was opened,
 * 1 by default (struct na_init_info); further ones are refused.
 *
 * \param hg_class [IN]  class
 *
 * \return the context, to be destroyed by HG_Context_destroy(), or NULL, with the reason in the log
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_context_t *HG_Context_create(hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/**
 * Create a context with an id, by which HG_Set_target_id() reaches it. Ids start at 0 and are below
 * the max_contexts that the class was opened with.
 *
 * \param hg_class [IN]  class
 * \param id [IN]        id; each may be used once at a time
 *
 * \return the context, to be destroyed by HG_Context_destroy(), or NULL, with the reason in the log
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_context_t *HG_Context_create_id(hg_class_t *hg_class,
                                             uint8_t id) HG_WARN_UNUSED_RESULT;

/**
 * Destroy a context. Receives for requests are cancelled if HG_Context_unpost() has not done so.
 * Callbacks of operations that are complete but were not triggered run inside this call.
 *
 * \param context [IN]   context, or NULL, which does nothing
 *
 * \return HG_SUCCESS; HG_BUSY if after half a second (five while responses are sent) there are
 * handles that are not destroyed, or operations in progress (the log says how many): then the
 * context continues to work and to receive, and destroying it may be tried again; an NA error code
 *
 * One thread, when no other uses the context. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Context_destroy(hg_context_t *context);

/**
 * Stop receiving requests. Requests that have arrived are still handled.
 *
 * \param context [IN]   context
 *
 * \return HG_SUCCESS, also if it did not receive; HG_INVALID_ARG if context is NULL;
 * HG_TIMEOUT if the transport does not cancel its receives in time; an NA error code
 *
 * One thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Context_unpost(hg_context_t *context);

/**
 * Class of a context.
 *
 * \param context [IN]   context
 *
 * \return the class, which stays open as long as the context exists, or NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_class_t *HG_Context_get_class(const hg_context_t *context) HG_WARN_UNUSED_RESULT;

/**
 * Id of a context.
 *
 * \param context [IN]   context
 *
 * \return the id, 0 if none was given
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC uint8_t HG_Context_get_id(const hg_context_t *context) HG_WARN_UNUSED_RESULT;

/**
 * Attach data to a context. Data attached before are not freed.
 *
 * \param context [IN]        context
 * \param data [IN]           data
 * \param free_callback [IN]  called with the data by HG_Context_destroy(), or NULL
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if context is NULL
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Context_set_data(hg_context_t *context, void *data,
                                          void (*free_callback)(void *));

/**
 * Data attached to a context.
 *
 * \param context [IN]   context
 *
 * \return the data, which stay the program's (see HG_Context_set_data()), or NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC void *HG_Context_get_data(const hg_context_t *context) HG_WARN_UNUSED_RESULT;

/*
 * Registration
 */

/**
 * Register an RPC by a name. Its id is the same in all processes: XXH64 of the name with seed 0
 * (1 if that is 0). Registering the same name again replaces the functions.
 *
 * \param hg_class [IN]     class
 * \param func_name [IN]    name
 * \param in_proc_cb [IN]   encoder and decoder of the input, NULL if there is none
 * \param out_proc_cb [IN]  encoder and decoder of the output, NULL if there is none
 * \param rpc_cb [IN]       handler, NULL at a mere origin
 *
 * \return the id; 0 if hg_class or func_name is NULL, if another name has the same id, or if memory
 * is short, with the reason in the log
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_id_t HG_Register_name(hg_class_t *hg_class, const char *func_name,
                                   hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb,
                                   hg_rpc_cb_t rpc_cb) HG_WARN_UNUSED_RESULT;

/**
 * Whether an RPC name is registered by HG_Register_name().
 *
 * \param hg_class [IN]  class
 * \param func_name [IN] name
 * \param id_p [OUT]     its id, or the id that it would get
 * \param flag_p [OUT]   HG_TRUE if it is registered, else HG_FALSE
 *
 * id_p or flag_p may be NULL.
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class or func_name is NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Registered_name(hg_class_t *hg_class, const char *func_name, hg_id_t *id_p,
                                         uint8_t *flag_p);

/**
 * Register an RPC by a number. Registering the same number again replaces the functions; its data
 * and its response setting are kept.
 *
 * \param hg_class [IN]     class
 * \param id [IN]           RPC id
 * \param in_proc_cb [IN]   encoder and decoder of the input, NULL if there is none
 * \param out_proc_cb [IN]  encoder and decoder of the output, NULL if there is none
 * \param rpc_cb [IN]       handler, NULL at a mere origin
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL; HG_NOMEM
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Register(hg_class_t *hg_class, hg_id_t id, hg_proc_cb_t in_proc_cb,
                                  hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb);

/**
 * Remove an RPC and free its data. Requests that arrive later are answered with HG_NOENTRY. The
 * caller makes sure that no handle of that RPC is in use.
 *
 * \param hg_class [IN]  class
 * \param id [IN]        RPC id
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL; HG_NOENTRY if the id is not registered
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Deregister(hg_class_t *hg_class, hg_id_t id);

/**
 * Whether an RPC id is registered.
 *
 * \param hg_class [IN]  class
 * \param id [IN]        RPC id
 * \param flag_p [OUT]   HG_TRUE if it is, else HG_FALSE
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class or flag_p is NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Registered(hg_class_t *hg_class, hg_id_t id, uint8_t *flag_p);

/**
 * Whether an RPC id is registered, and its proc functions.
 *
 * \param hg_class [IN]  class
 * \param id [IN]  RPC id
 * \param flag_p [OUT]  HG_TRUE if it is registered, else HG_FALSE
 * \param in_proc_cb_p [OUT]  input's proc function, NULL if not registered; the pointer may be NULL
 * \param out_proc_cb_p [OUT]  output's proc function, NULL if not registered; the pointer may be
 *     NULL
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class or flag_p is NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Registered_proc_cb(hg_class_t *hg_class, hg_id_t id, uint8_t *flag_p,
                                            hg_proc_cb_t *in_proc_cb_p,
                                            hg_proc_cb_t *out_proc_cb_p);

/**
 * Attach data to an RPC id. Data attached before are not freed.
 *
 * \param hg_class [IN]       class
 * \param id [IN]             RPC id
 * \param data [IN]           data
 * \param free_callback [IN]  called with the data by HG_Deregister() or HG_Finalize(), or NULL
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL; HG_NOENTRY if the id is not registered
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Register_data(hg_class_t *hg_class, hg_id_t id, void *data,
                                       void (*free_callback)(void *));

/**
 * Data attached to an RPC id.
 *
 * \param hg_class [IN]  class
 * \param id [IN]        RPC id
 *
 * \return the data, which stay the program's (see HG_Register_data()), or NULL if there are none
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC void *HG_Registered_data(hg_class_t *hg_class, hg_id_t id) HG_WARN_UNUSED_RESULT;

/**
 * Make an RPC one-way: the origin's callback runs when the request is sent, the target does not
 * respond.
 *
 * \param hg_class [IN]  class
 * \param id [IN]        RPC id
 * \param disable [IN]   HG_TRUE for no response, HG_FALSE for the default
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL; HG_NOENTRY if the id is not registered
 *
 * Any thread; handles forwarded before keep the earlier setting. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Registered_disable_response(hg_class_t *hg_class, hg_id_t id,
                                                     uint8_t disable);

/**
 * Whether an RPC is one-way.
 *
 * \param hg_class [IN]     class
 * \param id [IN]           RPC id
 * \param disabled_p [OUT]  HG_TRUE if its response is disabled, else HG_FALSE
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class or disabled_p is NULL; HG_NOENTRY if the id is not
 * registered
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Registered_disabled_response(hg_class_t *hg_class, hg_id_t id,
                                                      uint8_t *disabled_p);

/*
 * Addresses
 */

/**
 * Look an address up; the result arrives in a callback.
 *
 * \param context [IN]   context that triggers the callback
 * \param callback [IN]  called with type HG_CB_LOOKUP; ret is HG_SUCCESS or the error
 * \param arg [IN]       passed to the callback
 * \param name [IN]      address string of a peer, copied
 * \param op_id_p [OUT]  operation for HG_Addr_lookup_cancel() of mercury_ext.h, valid until the
 * callback; may be NULL or HG_OP_ID_IGNORE
 *
 * \return HG_SUCCESS, and the callback will run; HG_INVALID_ARG if context, callback or name is
 * NULL; HG_NOMEM
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Addr_lookup1(hg_context_t *context, hg_cb_t callback, void *arg,
                                      const char *name, hg_op_id_t *op_id_p);

/* The short name means the form with a callback. */
#ifndef HG_Addr_lookup
#    define HG_Addr_lookup HG_Addr_lookup1
#endif

/**
 * Look an address up.
 *
 * \param hg_class [IN]  class
 * \param name [IN]      address string of a peer
 * \param addr_p [OUT]   address, to be freed by HG_Addr_free()
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if an argument is NULL or the string is malformed; HG_NOENTRY,
 * HG_HOSTUNREACH or another NA error code if no such peer was found; HG_NOMEM
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Addr_lookup2(hg_class_t *hg_class, const char *name, hg_addr_t *addr_p);

/**
 * Free an address.
 *
 * \param hg_class [IN]  class
 * \param addr [IN]      address, or HG_ADDR_NULL, which does nothing
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if hg_class is NULL or addr belongs to another class
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Addr_free(hg_class_t *hg_class, hg_addr_t addr);

/**
 * Tell the transport that the peer is gone, so that freeing the address frees all state of that
 * peer.
 *
 * \param hg_class [IN]  class
 * \param addr [IN]      address
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if an argument is NULL or addr belongs to another class; an NA
 * error code
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Addr_set_remove(hg_class_t *hg_class, hg_addr_t addr);

/**
 * The class's own address.
 *
 * \param hg_class [IN]  class
 * \param addr_p [OUT]   address, to be freed by HG_Addr_free()
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if an argument is NULL; HG_NOMEM; an NA error code
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Addr_self(hg_class_t *hg_class, hg_addr_t *addr_p);

/**
 * Duplicate an address.
 *
 * \param hg_class [IN]     class
 * \param addr [IN]         address
 * \param new_addr_p [OUT]  address of the same peer, to be freed by HG_Addr_free() by itself
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if an argument is NULL or addr belongs to another class;
 * HG_NOMEM; an NA error code
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Addr_dup(hg_class_t *hg_class, hg_addr_t addr, hg_addr_t *new_addr_p);

/**
 * Whether two addresses belong to the same peer.
 *
 * \param hg_class [IN]  class
 * \param addr1 [IN]     address, or HG_ADDR_NULL
 * \param addr2 [IN]     address, or HG_ADDR_NULL
 *
 * \return HG_TRUE if they are, or if both are HG_ADDR_NULL; else HG_FALSE
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC uint8_t HG_Addr_cmp(hg_class_t *hg_class, hg_addr_t addr1,
                              hg_addr_t addr2) HG_WARN_UNUSED_RESULT;

/**
 * String of an address, which any process can look up.
 *
 * \param hg_class [IN]        class
 * \param buf [OUT]            string with its terminating null byte; NULL to ask for the size only
 * \param buf_size_p [IN,OUT]  size of buf in bytes; on return the size needed
 * \param addr [IN]            address
 *
 * \return HG_SUCCESS; HG_OVERFLOW if buf is too small; HG_INVALID_ARG if an argument is NULL or
 * addr belongs to another class; an NA error code
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Addr_to_string(hg_class_t *hg_class, char *buf, hg_size_t *buf_size_p,
                                        hg_addr_t addr);

/*
 * Handles
 */

/**
 * Create a handle for an RPC to be forwarded. It has one reference.
 *
 * \param context [IN]  context that triggers the callbacks
 * \param addr [IN]  target, which the handle keeps alive; HG_ADDR_NULL if HG_Reset() sets it later
 * \param id [IN]  registered RPC id; 0 if HG_Reset() sets it later
 * \param handle_p [OUT]  handle, to be destroyed by HG_Destroy()
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if context or handle_p is NULL or addr belongs to another
 *     class; HG_NOENTRY if the id is not registered; HG_NOMEM; an error of the handle-create
 *     callback
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Create(hg_context_t *context, hg_addr_t addr, hg_id_t id,
                                hg_handle_t *handle_p);

/**
 * Drop a reference of a handle. The last one releases it, once its operation has completed.
 *
 * The handle of a request has a reference for its response, in addition to the handler's:
 * HG_Respond() may be called after HG_Destroy(), in the handler or later. If a request is never
 * answered HG_Destroy() must be called a second time, otherwise the handle exists until its context
 * is destroyed.
 *
 * \param handle [IN]    handle, or HG_HANDLE_NULL, which does nothing
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if there is no reference to the handle
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Destroy(hg_handle_t handle);

/**
 * Set another target and RPC for a handle created by HG_Create().
 *
 * \param handle [IN]    handle without an operation in progress
 * \param addr [IN]      target; with HG_ADDR_NULL the handle has none until it is reset again
 * \param id [IN]        registered RPC id; 0 keeps the current one, if there is one
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if handle is NULL, was received from an origin, or addr
 * belongs to another class; HG_BUSY if an operation is in progress; HG_NOENTRY if the id is not
 * registered; HG_AGAIN if as many handles are in use as the transport has tags for; HG_NOMEM; an NA
 * error code
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Reset(hg_handle_t handle, hg_addr_t addr, hg_id_t id);

/**
 * Add a reference to a handle.
 *
 * \param handle [IN]    handle
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if handle is NULL or there is no reference to it
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Ref_incr(hg_handle_t handle);

/**
 * Number of references to a handle: those of the program, including one for each input and output
 * that it has got and not freed; one of a forward in progress; at the target one while the handler
 * runs and, if the RPC has a response, one until that was sent. For an RPC to the own address with
 * a response it is the sum over both ends, until one of the two handles is released or used again:
 * 1 is the last reference to the RPC.
 *
 * \param handle [IN]    handle
 *
 * \return the number; -1 if handle is NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC int32_t HG_Ref_get(hg_handle_t handle) HG_WARN_UNUSED_RESULT;

/**
 * Class, context, peer and RPC of a handle. To keep the address longer than the handle, duplicate
 * it by HG_Addr_dup().
 *
 * \param handle [IN]    handle
 *
 * \return information that is valid as long as the handle, or NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC const struct hg_info *HG_Get_info(hg_handle_t handle) HG_WARN_UNUSED_RESULT;

/**
 * Attach data to a handle. Data attached before are not freed.
 *
 * \param handle [IN]         handle
 * \param data [IN]           data
 * \param free_callback [IN]  called with the data, or NULL: for a handle created by HG_Create()
 * when its last reference is dropped; for a received handle, which will be reused, when the context
 * is destroyed
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if handle is NULL
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Set_data(hg_handle_t handle, void *data, void (*free_callback)(void *));

/**
 * Data attached to a handle.
 *
 * \param handle [IN]    handle
 *
 * \return the data, which stay the program's (see HG_Set_data()), or NULL
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC void *HG_Get_data(hg_handle_t handle) HG_WARN_UNUSED_RESULT;

/**
 * Choose the target's context by the id given to HG_Context_create_id(). HG_Reset() resets it to 0.
 *
 * \param handle [IN]    handle
 * \param id [IN]        id of the target's context
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if handle is NULL
 *
 * One thread at a time, before HG_Forward(). \since 1.0
 */
HG_PUBLIC hg_return_t HG_Set_target_id(hg_handle_t handle, uint8_t id);

/*
 * Input and output
 */

/**
 * Size of a handle's encoded input, without headers but with the offset of
 * HG_Class_set_input_offset().
 *
 * \param handle [IN]    handle
 *
 * \return size in bytes; 0 if there is none or handle is NULL
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_size_t HG_Get_input_payload_size(hg_handle_t handle);

/**
 * Decode the input of a handle. Each successful call adds a reference to the handle.
 *
 * \param handle [IN]            handle, at the target
 * \param in_struct [OUT]  structure, to be freed by HG_Free_input()
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if an argument is NULL or there is no reference to the handle;
 * HG_FAULT if the RPC has no input's proc function or the handle has no input (any more);
 * HG_CHECKSUM_ERROR if the payload's checksum does not match; HG_PROTOCOL_ERROR if its encoding is
 * not this class's; HG_OVERFLOW or another error of the proc function
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Get_input(hg_handle_t handle, void *in_struct);

/**
 * Free what HG_Get_input() allocated, and drop a reference of the handle as HG_Destroy() does; the
 * handle may have been destroyed in between. The structure itself stays the caller's.
 *
 * \param handle [IN]            handle
 * \param in_struct [IN]   structure filled by HG_Get_input()
 *
 * \return HG_SUCCESS; otherwise the reference is not dropped: HG_INVALID_ARG if an argument is NULL
 * or there is no reference to the handle; HG_FAULT if the RPC has no input's proc function; an
 * error of the proc function
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Free_input(hg_handle_t handle, void *in_struct);

/**
 * Size of a handle's encoded output, without headers but with the offset of
 * HG_Class_set_output_offset().
 *
 * \param handle [IN]    handle
 *
 * \return size in bytes; 0 if there is none or handle is NULL
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_size_t HG_Get_output_payload_size(hg_handle_t handle);

/**
 * Decode the output of a handle. Each successful call adds a reference to the handle.
 *
 * \param handle [IN]            handle, at the origin after its callback got HG_SUCCESS
 * \param out_struct [OUT]  structure, to be freed by HG_Free_output()
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if an argument is NULL or there is no reference to the handle;
 * HG_FAULT if the RPC has no output's proc function or the handle has no output (any more);
 * HG_OPNOTSUPPORTED if the RPC is one-way; HG_CHECKSUM_ERROR if the payload's checksum does not
 * match; HG_PROTOCOL_ERROR if its encoding is not this class's; HG_OVERFLOW or another error of the
 * proc function
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Get_output(hg_handle_t handle, void *out_struct);

/**
 * Free what HG_Get_output() allocated, and drop a reference of the handle as HG_Destroy() does; the
 * handle may have been destroyed in between. The structure itself stays the caller's.
 *
 * \param handle [IN]            handle
 * \param out_struct [IN]  structure filled by HG_Get_output()
 *
 * \return HG_SUCCESS; otherwise the reference is not dropped: HG_INVALID_ARG if an argument is NULL
 * or there is no reference to the handle; HG_FAULT if the RPC has no output's proc function; an
 * error of the proc function
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Free_output(hg_handle_t handle, void *out_struct);

/**
 * The message buffer of a handle's input, for the caller's own header or encoding.
 *
 * \param handle [IN]           handle
 * \param in_buf_p [OUT]       start of the input, right after the RPC header
 * \param in_buf_size_p [OUT]  size of the buffer from there in bytes; may be NULL
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if handle or in_buf_p is NULL; HG_FAULT if the buffer was
 * released
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Get_input_buf(hg_handle_t handle, void **in_buf_p,
                                       hg_size_t *in_buf_size_p);

/**
 * Release the input before HG_Destroy(): it cannot be read any more, pointers into it become
 * invalid, and memory that a large input took beside its message is freed.
 *
 * \param handle [IN]    handle at the target
 *
 * \return HG_SUCCESS, also if it was released before; HG_INVALID_ARG if handle is NULL
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Release_input_buf(hg_handle_t handle);

/**
 * The message buffer of a handle's output, for the caller's own header or encoding.
 *
 * \param handle [IN]           handle
 * \param out_buf_p [OUT]       start of the output, right after the RPC header
 * \param out_buf_size_p [OUT]  size of the buffer from there in bytes; may be NULL
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if handle or out_buf_p is NULL; HG_FAULT if the buffer was
 * released
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Get_output_buf(hg_handle_t handle, void **out_buf_p,
                                        hg_size_t *out_buf_size_p);

/**
 * The buffer of a handle's input that did not fit one message.
 *
 * \param handle [IN]           handle
 * \param in_buf_p [OUT]       the whole encoded input, valid until the handle is released, reset,
 *     used again or destroyed; NULL if it was in the message
 * \param in_buf_size_p [OUT]  its size in bytes, 0 if there is none; may be NULL
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if handle or in_buf_p is NULL
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Get_input_extra_buf(hg_handle_t handle, void **in_buf_p,
                                             hg_size_t *in_buf_size_p);

/**
 * The buffer of a handle's output that did not fit one message.
 *
 * \param handle [IN]           handle
 * \param out_buf_p [OUT]       the whole encoded output, valid until the handle is released, reset,
 *     used again or destroyed; NULL if it was in the message
 * \param out_buf_size_p [OUT]  its size in bytes, 0 if there is none; may be NULL
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if handle or out_buf_p is NULL
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Get_output_extra_buf(hg_handle_t handle, void **out_buf_p,
                                              hg_size_t *out_buf_size_p);

/*
 * Operations
 */

/**
 * Send a request. The input is encoded before this function returns.
 *
 * \param handle [IN]  handle made by HG_Create()
 * \param callback [IN]  called once, with type HG_CB_FORWARD, when the response has arrived (for a
 *     one-way RPC: when the request is sent) or the RPC has failed; may be NULL. Its ret is
 *     HG_SUCCESS, HG_CANCELED, HG_NOENTRY (the RPC is not registered at the target),
 *     HG_CHECKSUM_ERROR, an error of the transport such as HG_HOSTUNREACH, or the target's error
 *     with the request. The callback may forward the same handle again.
 * \param arg [IN]  passed to the callback
 * \param in_struct [IN]  input; NULL, or an RPC without an input's proc function, sends an empty
 *     one
 *
 * \return HG_SUCCESS, and the callback will run; otherwise it will not: HG_BUSY if an operation of
 *     the handle is in progress; HG_INVALID_ARG if handle is NULL, was received from an origin or
 *     has no address; HG_FAULT if its RPC id is 0; HG_NOENTRY if the RPC was deregistered;
 *     HG_MSGSIZE if the input does not fit one message and no_overflow was asked for; HG_NOMEM;
 *     HG_AGAIN if the transport cannot take the message now: the handle is HG_BUSY until the
 *     receive of the response has been cancelled, which takes some progress; an error of the proc
 *     function; an NA error code
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Forward(hg_handle_t handle, hg_cb_t callback, void *arg, void *in_struct);

/**
 * Send the response to a request. The output is encoded before this function returns.
 *
 * \param handle [IN]  handle that a handler received
 * \param callback [IN]  called once, with type HG_CB_RESPOND, when the response is sent (and, if it
 *     does not fit one message, fetched) or has failed; may be NULL
 * \param arg [IN]  passed to the callback
 * \param out_struct [IN]  output; NULL, or an RPC without an output's proc function, sends an empty
 *     one
 *
 * \return HG_SUCCESS, and the callback will run; otherwise it will not: HG_BUSY if a response is
 *     being sent or was sent; HG_INVALID_ARG if handle is NULL, was created by HG_Create(), or
 *     there is no reference to it; HG_OPNOTSUPPORTED if the RPC is one-way; HG_MSGSIZE if the
 *     output does not fit one message and no_overflow was asked for; HG_NOMEM; HG_AGAIN; an error
 *     of the proc function; an NA error code
 *
 * One thread at a time. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Respond(hg_handle_t handle, hg_cb_t callback, void *arg, void *out_struct);

/**
 * Cancel the operation on a handle. Its callback runs once, with HG_CANCELED unless the operation
 * has completed before. A response that arrives later is dropped. The handle can be used again
 * after the callback.
 *
 * \param handle [IN]    handle
 *
 * \return HG_SUCCESS, also without an operation in progress; HG_INVALID_ARG if handle is NULL; an
 * NA error code if the transport cannot cancel: the operation then ends as it would have without
 * the cancel, or by its deadline (see mercury_ext.h)
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Cancel(hg_handle_t handle);

/*
 * Progress
 */

/**
 * Make progress until there is a callback to trigger or the timeout expires.
 *
 * \param context [IN]   context
 * \param timeout [IN]   milliseconds to wait, 0 not to wait
 *
 * \return HG_SUCCESS if there are callbacks to trigger; HG_TIMEOUT if there are none;
 * HG_INVALID_ARG if context is NULL; an NA error code if the transport as a whole failed. Errors of
 * a single peer are reported by the callbacks of the operations with it.
 *
 * Any thread, also several at once. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Progress(hg_context_t *context, unsigned int timeout);

/**
 * Run callbacks and RPC handlers.
 *
 * \param context [IN]  context
 * \param timeout [IN]  milliseconds to wait for the first one, for which another thread must make
 *     progress; 0 not to wait
 * \param max_count [IN]  how many to run at most
 * \param actual_count_p [OUT]  how many ran; may be NULL
 *
 * \return HG_SUCCESS if any ran (or max_count is 0); HG_TIMEOUT if none; HG_INVALID_ARG if context
 *     is NULL
 *
 * Any thread, also several at once. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Trigger(hg_context_t *context, unsigned int timeout,
                                 unsigned int max_count, unsigned int *actual_count_p);

/**
 * File descriptor that is readable when there is something to progress or to trigger.
 *
 * \param context [IN]   context
 *
 * \return descriptor to wait on with poll() or epoll after HG_Event_ready() returned false; it is
 * not to be read or closed. -1 if the transport has none or polls busily (NA_NO_BLOCK).
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC int HG_Event_get_wait_fd(const hg_context_t *context) HG_WARN_UNUSED_RESULT;

/**
 * Whether there is something to progress or to trigger now. Must be called before each wait on the
 * descriptor of HG_Event_get_wait_fd(), because it arms the descriptor. If messages come in quick
 * succession it polls for up to 50 microseconds first.
 *
 * \param context [IN]   context
 *
 * \return true if there is something to do, or if waiting is not possible; false if it is safe to
 * wait
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC bool HG_Event_ready(hg_context_t *context) HG_WARN_UNUSED_RESULT;

/**
 * Make progress without waiting. While callbacks wait to be triggered the network is not polled,
 * unless none was triggered since the last call.
 *
 * \param context [IN]   context
 * \param count_p [OUT]  number of callbacks that can be triggered now; other threads may add some
 * or trigger them; may be NULL
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if context is NULL; an NA error code if the transport as a
 * whole failed
 *
 * Any thread, also several at once. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Event_progress(hg_context_t *context, unsigned int *count_p);

/**
 * Run callbacks and RPC handlers without waiting.
 *
 * \param context [IN]          context
 * \param max_count [IN]        how many to run at most
 * \param actual_count_p [OUT]  how many ran; may be NULL
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if context is NULL
 *
 * Any thread, also several at once. \since 1.0
 */
HG_PUBLIC hg_return_t HG_Event_trigger(hg_context_t *context, unsigned int max_count,
                                       unsigned int *actual_count_p);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_H */
