/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Additions to na.h: logging, the records of plugin files, why a transport was picked, counters.
 * The rules of na.h for wrong arguments (NA_INVALID_ARG) and forks (NA_PERMISSION) apply here, too.
 */

#ifndef NA_EXT_H
#define NA_EXT_H

#include "na_types.h"

#include <stdio.h>

/* ---- Logging: types -------------------------------------------------------------------------- */

/* Levels of log messages; a level includes all levels before it. */
enum na_log_level {
    NA_LOG_LEVEL_NONE,    /* Nothing at all */
    NA_LOG_LEVEL_ERROR,   /* A requested operation failed */
    NA_LOG_LEVEL_WARNING, /* Something is wrong, but work continues. This is the default */
    NA_LOG_LEVEL_INFO,    /* Decisions, and their reasons */
    NA_LOG_LEVEL_DEBUG,   /* Everything else */
    NA_LOG_LEVEL_MAX
};

/* A function that writes a log message, like fprintf(). */
typedef int (*na_log_func_t)(FILE *stream, const char *format, ...);

/* ---- Plugins: types -------------------------------------------------------------------------- */

/* The last stage of loading that a plugin file reached. */
enum na_plugin_stage {
    NA_PLUGIN_STAGE_SEARCH, /* Finding the file, and checking that it is safe to load */
    NA_PLUGIN_STAGE_OPEN,   /* Loading it as a shared object */
    NA_PLUGIN_STAGE_ENTRY,  /* Finding its entry function, and calling it */
    NA_PLUGIN_STAGE_TABLE,  /* Checking the table that it returned */
    NA_PLUGIN_STAGE_READY,  /* Usable */
    /* The names of today: NA_PLUGIN_ is the prefix of the plugin ABI. \since 1.1 */
    NA_LOADER_STAGE_SEARCH = NA_PLUGIN_STAGE_SEARCH,
    NA_LOADER_STAGE_OPEN = NA_PLUGIN_STAGE_OPEN,
    NA_LOADER_STAGE_ENTRY = NA_PLUGIN_STAGE_ENTRY,
    NA_LOADER_STAGE_TABLE = NA_PLUGIN_STAGE_TABLE,
    NA_LOADER_STAGE_READY = NA_PLUGIN_STAGE_READY
};

/* State of a plugin file. */
enum na_plugin_code {
    NA_PLUGIN_LOADED,      /* It is usable */
    NA_PLUGIN_FOUND,       /* It exists, but was not loaded yet */
    NA_PLUGIN_MISSING,     /* It does not exist, or the directory cannot be read */
    NA_PLUGIN_UNSAFE,      /* Others than its owner or root can change the file or its directory */
    NA_PLUGIN_OPEN_FAILED, /* It is no shared object for this machine, or needs something missing */
    NA_PLUGIN_NO_ENTRY,    /* It has no entry function of its own */
    NA_PLUGIN_ABI_TOO_OLD, /* It was built for an older major version of the plugin ABI */
    NA_PLUGIN_ABI_TOO_NEW, /* It was built for a newer major version of the plugin ABI */
    NA_PLUGIN_INVALID_TABLE, /* Its table violates the rules of the plugin ABI */
    NA_PLUGIN_DUPLICATE,     /* A file of the same name came earlier in the search path */
    NA_PLUGIN_REFUSED,       /* Its entry function reported that it cannot be used here */
    NA_PLUGIN_BAD_NAME, /* The file is called na_*.so, but no init string can contain the name */
    NA_PLUGIN_CRASHED,  /* It crashed the process that tried it. \since 1.1 */
    /* The names of today: NA_PLUGIN_ is the prefix of the plugin ABI. \since 1.1 */
    NA_LOADER_LOADED = NA_PLUGIN_LOADED,
    NA_LOADER_FOUND = NA_PLUGIN_FOUND,
    NA_LOADER_MISSING = NA_PLUGIN_MISSING,
    NA_LOADER_UNSAFE = NA_PLUGIN_UNSAFE,
    NA_LOADER_OPEN_FAILED = NA_PLUGIN_OPEN_FAILED,
    NA_LOADER_NO_ENTRY = NA_PLUGIN_NO_ENTRY,
    NA_LOADER_ABI_TOO_OLD = NA_PLUGIN_ABI_TOO_OLD,
    NA_LOADER_ABI_TOO_NEW = NA_PLUGIN_ABI_TOO_NEW,
    NA_LOADER_INVALID_TABLE = NA_PLUGIN_INVALID_TABLE,
    NA_LOADER_DUPLICATE = NA_PLUGIN_DUPLICATE,
    NA_LOADER_REFUSED = NA_PLUGIN_REFUSED,
    NA_LOADER_BAD_NAME = NA_PLUGIN_BAD_NAME,
    NA_LOADER_CRASHED = NA_PLUGIN_CRASHED
};

/* A protocol that a plugin offers. */
struct na_plugin_protocol {
    const char *name;        /* Protocol name */
    const char *device_name; /* Device that it would use; may be empty */
    int32_t priority;        /* For the choice by `auto`: the highest wins */
    bool node_local;         /* Reaches processes of this machine only */
    bool usable;             /* Can be used on this machine */
    const char *reason;      /* Why it is not usable; empty if it is */
};

/* A limit that a plugin declares. */
struct na_plugin_limit {
    const char *name; /* Name of the limit, such as "max_unexpected_size" */
    uint64_t value;   /* The limit */
};

/* Description of a loaded plugin. */
struct na_plugin_info {
    const char *version;                        /* The plugin's own version */
    const char *description;                    /* One line for people */
    const char *const *class_names;             /* Its name, then further ones */
    size_t class_name_count;                    /* Their number */
    const char *const *capabilities;            /* Words such as "native_rma" */
    size_t capability_count;                    /* Their number */
    const struct na_plugin_limit *limits;       /* Limits */
    size_t limit_count;                         /* Their number */
    const struct na_plugin_protocol *protocols; /* Protocols */
    size_t protocol_count;                      /* Their number */
};

/* The record of one plugin file. */
struct na_plugin_record {
    struct na_plugin_record *next; /* Next record or NULL, in the order of the search */
    const char *name;              /* Plugin name, from the file's */
    const char *path;              /* File; for a directory that cannot be used: the directory */
    enum na_plugin_stage stage;    /* Last stage reached */
    enum na_plugin_code code;      /* State of the file */
    const char *text;              /* The reason in words; empty if it is loaded */
    uint32_t abi_version;          /* major << 16 | minor that it was built for; 0 if unknown */
    bool loaded;                   /* It is usable: code is NA_PLUGIN_LOADED */
    const struct na_plugin_info *info; /* Description; NULL if it is not loaded */
};

/* Flags of NA_Plugin_get_records(). */
#define NA_PLUGIN_LOAD_ALL 0x1                /* Load every file in the search path first */
#define NA_LOADER_LOAD_ALL NA_PLUGIN_LOAD_ALL /* Its name of today. \since 1.1 */

/* ---- Selection and counters: types ----------------------------------------------------------- */

/* One protocol that was considered when a class was opened. */
struct na_selection_candidate {
    const char *class_name;    /* Plugin's name, or the requested name */
    const char *protocol_name; /* Protocol's name, or the requested one */
    bool picked;               /* This one was opened */
    const char *reason;        /* Why it was picked, or why not */
};

/* The protocol that was picked for an init string, and why the others were not. */
struct na_selection {
    const char *info_string;                         /* The init string */
    const char *class_name;                          /* Class name of the opened plugin */
    const char *protocol_name;                       /* And its protocol */
    const char *plugin_path;                         /* The plugin's file */
    size_t candidate_count;                          /* How many were considered */
    const struct na_selection_candidate *candidates; /* The candidates, in the order of
                                                      * consideration */
};

/* A counter. */
struct na_counter {
    char name[48];  /* Its name */
    uint64_t value; /* Its value */
};

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Logging --------------------------------------------------------------------------------- */

/**
 * Ask whether a message would be written, so that its arguments need not be computed otherwise.
 * Costs one or two loads.
 *
 * \param level [IN]   level of the message
 * \param subsys [IN]  subsystem that it belongs to, "na" or "hg" for example
 *
 * \return true if it would be written
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC bool NA_Log_enabled(enum na_log_level level, const char *subsys);

/**
 * Write a log message, if its level and subsystem are enabled. It is one line; a line feed is
 * added. Of errors and warnings from one place (function and line) ten are written within ten
 * seconds, further ones are only counted, so that a peer cannot fill a disk; at level debug all are
 * written.
 *
 * \param level [IN]   level of the message
 * \param subsys [IN]  subsystem that it belongs to
 * \param func [IN]    function that logs it
 * \param line [IN]    and the line
 * \param format [IN]  as for printf()
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Log_write(enum na_log_level level, const char *subsys, const char *func, int line,
                            const char *format, ...) NA_PRINTF(5, 6);

/**
 * Read the settings in the environment again: HG_LOG_LEVEL and HG_LOG_SUBSYS, as at the first log
 * message. If HG_LOG_LEVEL begins with '@' the rest is the name of a file, whose first line is used
 * instead, so that an administrator can change what a service logs: the service calls this on
 * request (by SIGHUP, or by one of its RPCs). Wrong settings are reported and ignored; missing ones
 * change nothing.
 *
 * Any thread, if no other changes the environment. \since 1.1
 */
NA_PUBLIC void NA_Log_reload(void);

/**
 * Choose the subsystems that log. By default all do.
 *
 * \param subsys [IN]  comma-separated names of subsystems that log; a name after '~' is switched
 *                     off; NULL or "" for all
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Set_log_subsys(const char *subsys);

/**
 * Set the function that writes log messages. It is called by any code that logs: it may log itself,
 * but must not call other functions of the library. A line has no control characters except the
 * line feed at its end; those in messages appear as \xNN.
 *
 * \param log_func  the function; NULL for fprintf()
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Set_log_func(na_log_func_t log_func);

/**
 * Set the stream for messages of a level. The default is stderr.
 *
 * \param level [IN]   "error", "warning", "info" or "debug"; another word is reported and ignored
 * \param stream [IN]  the stream, which has to stay open; NULL for stderr
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Set_log_stream(const char *level, FILE *stream);

/* ---- Opening, with the reason of a failure --------------------------------------------------- */

/**
 * Like NA_Initialize_opt2(), but returns the reason of a failure.
 *
 * \param info_string [IN]   init string
 * \param listen [IN]        accept messages from peers that did not get our address from us
 * \param version [IN]       version of the options
 * \param na_init_info [IN]  options, or NULL for the defaults
 * \param na_class_p [OUT]   receives the class, to be closed with NA_Finalize()
 * \param reason [OUT]       receives one line with the reason of a failure, truncated to its size;
 *     or NULL
 * \param reason_size [IN]   size of reason in bytes
 *
 * \return NA_SUCCESS; NA_INVALID_ARG if the string or the options are malformed; NA_NOENTRY if the
 *         plugin does not exist; NA_NODEV if it cannot be loaded or the protocol cannot be used on
 *         this machine; NA_PROTONOSUPPORT if no plugin offers the protocol; NA_NOMEM; others of the
 *         plugin. With several choices, the code of the last one
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Initialize_reason(const char *info_string, bool listen,
                                           unsigned int version,
                                           const struct na_init_info *na_init_info,
                                           na_class_t **na_class_p, char *reason,
                                           size_t reason_size);

/**
 * Check an init string, without loading or opening anything.
 *
 * \param info_string [IN]  init string
 * \param reason [OUT]      receives one line that says what is wrong and where; or NULL
 * \param reason_size [IN]  size of reason in bytes
 *
 * \return NA_SUCCESS; NA_INVALID_ARG if it is malformed; NA_NOMEM
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Check_init_string(const char *info_string, char *reason,
                                           size_t reason_size);

/* ---- Plugins --------------------------------------------------------------------------------- */

/**
 * Get the records of the plugin files in the search path.
 *
 * \param flags [IN]       NA_PLUGIN_LOAD_ALL to load all of them, each after a child process has
 *                         tried it (since 1.1: a file that crashes there is NA_PLUGIN_CRASHED), 0
 *                         for the current records only
 * \param records_p [OUT]  receives the records, a snapshot; the caller frees it with
 *                         NA_Plugin_free_records()
 *
 * \return NA_SUCCESS, also without any records; NA_INVALID_ARG for other flags; NA_NOMEM
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Plugin_get_records(unsigned long flags,
                                            struct na_plugin_record **records_p);

/**
 * Free records.
 *
 * \param records [IN]  the first record, or NULL
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Plugin_free_records(struct na_plugin_record *records);

/**
 * Get a plugin's description of an offer: the version of the library or provider below it, how
 * memory is registered, whether puts and gets need the target.
 *
 * \param record    [IN] a record
 * \param protocol  index in its info's protocols
 *
 * \return a line, owned by the record; "" if the plugin has no description, if the offer is not
 *         usable, or if there is no offer with that index
 *
 * Any thread. \since 1.1
 */
NA_PUBLIC const char *NA_Plugin_get_offer_details(const struct na_plugin_record *record,
                                                  size_t protocol);

/**
 * Get the name of a stage.
 *
 * \param stage  the stage
 *
 * \return its name, a constant, such as "open"
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC const char *NA_Plugin_stage_to_string(enum na_plugin_stage stage);

/**
 * Get the name of a code.
 *
 * \param code  the code
 *
 * \return its name, a constant, such as "no entry"
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC const char *NA_Plugin_code_to_string(enum na_plugin_code code);

/**
 * Get the file of the plugin that is being loaded, listed or opened at this moment, so that its
 * code is running. For a signal handler, to report which plugin has crashed the process.
 *
 * \return the file, a constant; NULL if there is none
 *
 * Any thread, also in a signal handler. \since 1.0
 */
NA_PUBLIC const char *NA_Plugin_get_current(void);

/**
 * Get the version of the plugin ABI that the library offers.
 *
 * \return major << 16 | minor
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC uint32_t NA_Plugin_get_abi_version(void);

/**
 * Get the search path, which depends on NA_PLUGIN_PATH and on the location of the library.
 *
 * \param buf [OUT]          receives the directories, separated by colons; NULL to ask only for the
 *                           size
 * \param buf_size [IN,OUT]  size of buf in bytes; receives the size needed, the null included
 *
 * \return NA_SUCCESS; NA_OVERFLOW if buf is too small; NA_NOMEM
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Plugin_get_search_path(char *buf, size_t *buf_size);

/* ---- Class ----------------------------------------------------------------------------------- */

/**
 * Get the protocol that was picked when a class was opened, and why the others were not.
 *
 * \param na_class [IN]  the class
 *
 * \return the report, owned by the class; NULL if na_class is NULL
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC const struct na_selection *NA_Class_get_selection(const na_class_t *na_class);

/**
 * Ask whether a class has a capability. Plugins list the capabilities that any of their classes can
 * have (struct na_plugin_info); those of a class also depend on its protocol, device and options.
 *
 * \param na_class [IN]    the class
 * \param capability [IN]  "rma", "native_rma", "wait_fd", "poll_wait", "cancel_send", "peer_death",
 *                         "device_memory", "forward_progress", "no_threads", "memory_segments",
 *                         "multi_recv", "addr_serialize", "peer_events", "authenticated",
 *                         "encrypted", "second_key" or "memory_per_session"
 *
 * \return true if the class has it; false otherwise, for unknown words, or if an argument is NULL
 *
 * Any thread. \since 1.1
 */
NA_PUBLIC bool NA_Class_has_capability(const na_class_t *na_class, const char *capability);

/**
 * Ask whether a class has a capability with one peer, which may have fewer than the class: for
 * instance, transfers over na+sm are native with peers whose memory this process may attach, and
 * need the help of other peers. Until a message of the peer has arrived the answer may change.
 *
 * \param na_class [IN]    the class
 * \param addr [IN]        an address of the class, owned by the caller
 * \param capability [IN]  a word as for NA_Class_has_capability()
 *
 * \return true if the class has it with that peer; false otherwise, for unknown words, if an
 *     argument is NULL, or if the class was inherited by fork()
 *
 * Any thread. \since 1.1
 */
NA_PUBLIC bool NA_Addr_has_capability(const na_class_t *na_class, na_addr_t *addr,
                                      const char *capability);

/**
 * Let a peer reach memory, in a class that was opened with `mem_per_session`; to be called before
 * the handle is sent to the peer. The grant is for the current session with the peer, or if there
 * is none for the session that delivers the next message to it. It ends with the session, when the
 * connection is lost or the peer is restarted, and when the memory is deregistered. In other
 * classes this does nothing: any process that has the serialized handle may use it.
 *
 * \param na_class [IN]    the class
 * \param mem_handle [IN]  registered memory of this process
 * \param addr [IN]        address of the peer, owned by the caller
 *
 * \return NA_SUCCESS; NA_INVALID_ARG if the memory is not registered, or is a peer's, or an
 *         argument is NULL; NA_NOMEM, also if the class has too many grants; NA_PERMISSION if the
 *         class was inherited by fork()
 *
 * Any thread. \since 1.1
 */
NA_PUBLIC na_return_t NA_Mem_handle_grant(na_class_t *na_class, na_mem_handle_t *mem_handle,
                                          na_addr_t *addr);

/**
 * Allocate memory for transfers. Over some transports peers reach it faster than other memory: over
 * na+sm they copy once, without the system. Elsewhere, and when there is none left, it is ordinary
 * memory. It is registered and used like any other. A process that fork() creates may share it with
 * its parent.
 *
 * \param na_class [IN]  the class
 * \param size [IN]      in bytes, not 0
 *
 * \return zero-filled memory, aligned for any type and owned by the caller, who frees it by
 *         NA_Mem_free() before NA_Finalize(); NULL if there is none, an argument is wrong, or the
 *         class was inherited by fork()
 *
 * Any thread. \since 1.1
 */
NA_PUBLIC void *NA_Mem_alloc(na_class_t *na_class, size_t size);

/**
 * Free memory, which is not registered any more.
 *
 * \param na_class [IN]  the class
 * \param buf [IN]       memory of NA_Mem_alloc() from the same class; NULL is allowed
 *
 * Does nothing if the class was inherited by fork(). Any thread. \since 1.1
 */
NA_PUBLIC void NA_Mem_free(na_class_t *na_class, void *buf);

/**
 * Get the size limit of one NA_Put() or NA_Get().
 *
 * \param na_class [IN]  the class
 *
 * \return the limit in bytes, UINT64_MAX for none; 0 if the class has no RMA
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC uint64_t NA_Class_get_max_rma_size(const na_class_t *na_class);

/**
 * Get the counters of a class, since it was opened.
 *
 * \param na_class [IN]     the class
 * \param counters [OUT]    receives the counters; NULL to ask only for their number
 * \param count_p [IN,OUT]  size of the array; receives the number of counters
 *
 * \return NA_SUCCESS; NA_OVERFLOW if there are more than fit: the first ones are filled in
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Class_get_counters(const na_class_t *na_class, struct na_counter *counters,
                                            size_t *count_p);

/**
 * Called for a peer that is lost, in NA_Poll(), NA_Poll_wait() or NA_Progress() of any context of
 * the class. It must not call these functions, NA_Trigger(), or functions that close something; it
 * may call others.
 *
 * \param na_class  the class
 * \param addr the peer's address, valid during the call; NA_Addr_dup() keeps it, NA_Addr_cmp()
 *     identifies the peer
 * \param reason the error of operations that wait for the peer: mostly NA_HOSTUNREACH
 * \param arg argument given to NA_Class_set_peer_lost()
 */
typedef void (*na_peer_lost_cb_t)(na_class_t *na_class, na_addr_t *addr, na_return_t reason,
                                  void *arg);

/**
 * Have a function called for each peer that is lost, also if no operation waits for it: its process
 * has ended, it has closed its class, another process has taken its place, or it cannot be reached
 * any more. Peers are processes that have sent a message to the class or have answered it. The
 * function is called once for each address of a peer, within a second or two after a process of
 * this node has ended, for others as soon as the network reports it. Contexts of the class must be
 * polled. A living peer that could not be reached for a while may be met again, and be lost again.
 *
 * \param na_class [IN]  the class
 * \param callback [IN]  the function; NULL for none, the default
 * \param arg [IN]       passed to it
 *
 * \return NA_SUCCESS; NA_OPNOTSUPPORTED if the transport cannot; NA_INVALID_ARG if na_class is
 *         NULL; NA_PERMISSION if the class was inherited by fork()
 *
 * Any thread; one that polls meanwhile may still call the former callback. \since 1.1
 */
NA_PUBLIC na_return_t NA_Class_set_peer_lost(na_class_t *na_class, na_peer_lost_cb_t callback,
                                             void *arg);

/* ---- Operations ------------------------------------------------------------------------------ */

/**
 * Set another callback for an outstanding operation, so that its owner need not wait for a
 * transport that does not complete it. The transport uses operation, buffer and memory until the
 * new callback runs.
 *
 * \param na_class [IN]  the class
 * \param context [IN]   the context that it was posted to
 * \param op_id [IN]     the operation, not a multi-receive; the call that posted it must have
 *     returned
 * \param callback [IN]  called instead of the callback given to the post
 * \param arg [IN]       passed to it
 *
 * \return true, and the former callback will not be called; false if the operation is not
 *         outstanding, or if the former callback is running
 *
 * Any thread. \since 1.1
 */
NA_PUBLIC bool NA_Op_set_callback(na_class_t *na_class, na_context_t *context, na_op_id_t *op_id,
                                  na_cb_t callback, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* NA_EXT_H */
