/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Additions to na.h: logging, what became of each plugin file, why a transport was picked,
 * counters. What na.h says of wrong arguments (NA_INVALID_ARG) and of forks (NA_PERMISSION) holds
 * here, too.
 */

#ifndef NA_EXT_H
#define NA_EXT_H

#include "na_types.h"

#include <stdio.h>

/* ---- Logging: types -------------------------------------------------------------------------- */

/* Levels of log messages; a level shows itself and all before it. */
enum na_log_level {
    NA_LOG_LEVEL_NONE,    /* Nothing at all */
    NA_LOG_LEVEL_ERROR,   /* Something that was asked for could not be done */
    NA_LOG_LEVEL_WARNING, /* Something is wrong, but the work goes on. This is the default */
    NA_LOG_LEVEL_INFO,    /* What was decided, and why */
    NA_LOG_LEVEL_DEBUG,   /* Everything else */
    NA_LOG_LEVEL_MAX
};

/* A function that writes a log message, in the manner of fprintf(). */
typedef int (*na_log_func_t)(FILE *stream, const char *format, ...);

/* ---- Plugins: types -------------------------------------------------------------------------- */

/* How far a plugin file got. */
enum na_plugin_stage {
    NA_PLUGIN_STAGE_SEARCH, /* Looking for the file, and whether it is safe to load */
    NA_PLUGIN_STAGE_OPEN,   /* Loading it as a shared object */
    NA_PLUGIN_STAGE_ENTRY,  /* Looking for its entry function, and calling it */
    NA_PLUGIN_STAGE_TABLE,  /* Checking what that returned */
    NA_PLUGIN_STAGE_READY,  /* Usable */
    /* The names of today: NA_PLUGIN_ is the prefix of the plugin ABI. \since 1.1 */
    NA_LOADER_STAGE_SEARCH = NA_PLUGIN_STAGE_SEARCH,
    NA_LOADER_STAGE_OPEN = NA_PLUGIN_STAGE_OPEN,
    NA_LOADER_STAGE_ENTRY = NA_PLUGIN_STAGE_ENTRY,
    NA_LOADER_STAGE_TABLE = NA_PLUGIN_STAGE_TABLE,
    NA_LOADER_STAGE_READY = NA_PLUGIN_STAGE_READY
};

/* What became of a plugin file. */
enum na_plugin_code {
    NA_PLUGIN_LOADED,      /* It is usable */
    NA_PLUGIN_FOUND,       /* It is there; nothing asked for it yet */
    NA_PLUGIN_MISSING,     /* It is not there, or the directory cannot be read */
    NA_PLUGIN_UNSAFE,      /* Others than its owner or root can change the file or its directory */
    NA_PLUGIN_OPEN_FAILED, /* It is no shared object for this machine, or needs something missing */
    NA_PLUGIN_NO_ENTRY,    /* It has no entry function of its own */
    NA_PLUGIN_ABI_TOO_OLD, /* It was built for an older major version of the plugin ABI */
    NA_PLUGIN_ABI_TOO_NEW, /* It was built for a newer major version of the plugin ABI */
    NA_PLUGIN_INVALID_TABLE, /* What it returned breaks the rules of the plugin ABI */
    NA_PLUGIN_DUPLICATE,     /* A file of the same name came earlier in the search path */
    NA_PLUGIN_REFUSED,       /* It said itself that it cannot be used here */
    NA_PLUGIN_BAD_NAME, /* The file is called na_*.so, but no init string can ask for the name */
    NA_PLUGIN_CRASHED,  /* It ended the process that tried it. \since 1.1 */
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
    const char *name; /* What is limited, such as "max_unexpected_size" */
    uint64_t value;   /* The limit */
};

/* What a loaded plugin says about itself. */
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
    enum na_plugin_stage stage;    /* How far it got */
    enum na_plugin_code code;      /* What became of it */
    const char *text;              /* The reason in words; empty if it is loaded */
    uint32_t abi_version;          /* major << 16 | minor that it was built for; 0 if unknown */
    bool loaded;                   /* It is usable: code is NA_PLUGIN_LOADED */
    const struct na_plugin_info *info; /* What it says about itself; NULL if it is not loaded */
};

/* Flags of NA_Plugin_get_records(). */
#define NA_PLUGIN_LOAD_ALL 0x1                /* Load every file in the search path first */
#define NA_LOADER_LOAD_ALL NA_PLUGIN_LOAD_ALL /* Its name of today. \since 1.1 */

/* ---- Selection and counters: types ----------------------------------------------------------- */

/* One protocol that was considered when a class was opened. */
struct na_selection_candidate {
    const char *class_name;    /* Plugin's name, or the name that was asked for */
    const char *protocol_name; /* Protocol's name, or the one that was asked for */
    bool picked;               /* This one was opened */
    const char *reason;        /* Why it was picked, or why not */
};

/* What was picked for an init string, and why not something else. */
struct na_selection {
    const char *info_string;                         /* The init string */
    const char *class_name;                          /* What was opened */
    const char *protocol_name;                       /* And its protocol */
    const char *plugin_path;                         /* The plugin's file */
    size_t candidate_count;                          /* How many were considered */
    const struct na_selection_candidate *candidates; /* They, in the order of consideration */
};

/* A counter. */
struct na_counter {
    char name[48];  /* What it counts */
    uint64_t value; /* How many so far */
};

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Logging --------------------------------------------------------------------------------- */

/**
 * Ask whether a message would be shown, so that its arguments need not be computed in vain. Costs
 * one or two loads.
 *
 * \param level [IN]   level of the message
 * \param subsys [IN]  subsystem that it belongs to, "na" or "hg" for example
 *
 * \return true if it would be shown
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC bool NA_Log_enabled(enum na_log_level level, const char *subsys);

/**
 * Write a log message, if its level and subsystem are shown. One line, a line feed is added.
 * Of errors and warnings from one place (function and line) ten are written within ten seconds, the
 * others are only counted, so that a peer cannot fill a disk; at level debug all are.
 *
 * \param level [IN]   level of the message
 * \param subsys [IN]  subsystem that it belongs to
 * \param func [IN]    function that it comes from
 * \param line [IN]    and the line
 * \param format [IN]  as for printf()
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Log_write(enum na_log_level level, const char *subsys, const char *func, int line,
                            const char *format, ...) NA_PRINTF(5, 6);

/**
 * Read the environment's settings again: HG_LOG_LEVEL, HG_LOG_SUBSYS, as they are when something is
 * logged first. If HG_LOG_LEVEL begins with '@' the rest is the name of a file, whose first line is
 * taken instead, so that who runs a service can change what it logs: the service calls this when it
 * is told to (by SIGHUP, by an RPC of its own). Settings that are wrong are reported and ignored;
 * those that are not there leave what was set.
 *
 * Any thread, if no other changes the environment. \since 1.1
 */
NA_PUBLIC void NA_Log_reload(void);

/**
 * Choose subsystems. Without a choice all are shown.
 *
 * \param subsys [IN]  comma-separated names that are shown; a name after '~' is not shown; NULL or
 *                     "" for all
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Set_log_subsys(const char *subsys);

/**
 * Set the function that writes log messages. It is called from wherever something is logged: it may
 * log, too, and must call nothing else of the library. A line has no control characters but the
 * line feed at its end; those in messages appear as \xNN.
 *
 * \param log_func  the function; NULL for fprintf()
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Set_log_func(na_log_func_t log_func);

/**
 * Set where messages of a level go. The default is stderr.
 *
 * \param level [IN]   "error", "warning", "info" or "debug"; another word is reported and ignored
 * \param stream [IN]  the stream, which has to stay open; NULL for stderr
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_Set_log_stream(const char *level, FILE *stream);

/* ---- Opening, with the reason of a failure --------------------------------------------------- */

/**
 * Open a transport as NA_Initialize_opt2() does, and say why if that fails.
 *
 * \param info_string [IN]   init string
 * \param listen [IN]        accept messages from peers that did not get our address from us
 * \param version [IN]       version of the options
 * \param na_init_info [IN]  options, or NULL for the defaults
 * \param na_class_p [OUT]   receives the class, to be closed with NA_Finalize()
 * \param reason [OUT]       receives one line that says what went wrong, cut to its size; or NULL
 * \param reason_size [IN]   size of reason in bytes
 *
 * \return NA_SUCCESS; NA_INVALID_ARG if the string or the options are malformed; NA_NOENTRY if the
 *         plugin is not there; NA_NODEV if it cannot be loaded or the protocol not be used on this
 *         machine; NA_PROTONOSUPPORT if nothing offers the protocol; NA_NOMEM; others of the
 *         plugin. Of several choices the code is the last one's
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
 * \param flags [IN]       NA_PLUGIN_LOAD_ALL to load all of them, each after a process of its own
 *                         tried it (since 1.1: what crashes there is NA_PLUGIN_CRASHED), 0 to show
 *                         only what is known up to now
 * \param records_p [OUT]  receives the records, a snapshot; the caller frees it with
 *                         NA_Plugin_free_records()
 *
 * \return NA_SUCCESS, also if there are none; NA_INVALID_ARG if there are other flags; NA_NOMEM
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
 * Get what a plugin says of an offer in words: the version of the library or provider below it, how
 * memory is registered, whether puts and gets need the target.
 *
 * \param record    [IN] a record
 * \param protocol  index in its info's protocols
 *
 * \return a line, which belongs to the record; "" if the plugin says nothing, if the offer is not
 *         usable, or if there is none of that index
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
 * Get the file of the plugin that is being loaded, listed or opened at this moment: its own code
 * runs. For a signal handler, to say which plugin has crashed the process.
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
 * Get the search path, as NA_PLUGIN_PATH and the place of the library make it.
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
 * Get what was picked when a class was opened, and why the others were not.
 *
 * \param na_class [IN]  the class
 *
 * \return the report, owned by the class; NULL if na_class is NULL
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC const struct na_selection *NA_Class_get_selection(const na_class_t *na_class);

/**
 * Ask what a class can do. Plugins list such words of all that some class of theirs can do (struct
 * na_plugin_info); those of a class depend on its protocol, device and options, too.
 *
 * \param na_class [IN]    the class
 * \param capability [IN]  "rma", "native_rma", "wait_fd", "poll_wait", "cancel_send", "peer_death",
 *                         "device_memory", "forward_progress", "no_threads", "memory_segments",
 *                         "multi_recv", "addr_serialize", "peer_events", "authenticated",
 *                         "encrypted", "second_key" or "memory_per_session"
 *
 * \return true if the class can; false if it cannot, for other words, or if one of both is NULL
 *
 * Any thread. \since 1.1
 */
NA_PUBLIC bool NA_Class_has_capability(const na_class_t *na_class, const char *capability);

/**
 * Ask what a class can do with one peer, where that is less than what it can do at all: transfers
 * over na+sm are native with peers whose memory the system lets us attach, and need the help of
 * others. As long as the peer was not heard of the answer may change.
 *
 * \param na_class [IN]    the class
 * \param addr [IN]        an address of the class; it stays the caller's
 * \param capability [IN]  a word as for NA_Class_has_capability()
 *
 * \return true if the class can; false if it cannot, for other words, if one of the three is NULL,
 *     or if the class was inherited by fork()
 *
 * Any thread. \since 1.1
 */
NA_PUBLIC bool NA_Addr_has_capability(const na_class_t *na_class, na_addr_t *addr,
                                      const char *capability);

/**
 * Let a peer reach memory, in a class that was opened with `mem_per_session`, before it is told of
 * it: in the session with it that there is, or if there is none in the one that brings what is sent
 * to it next. That ends with the session, when the connection is lost or the peer is started again,
 * and when the memory is deregistered. In other classes nothing happens: who has the serialized
 * handle may use it.
 *
 * \param na_class [IN]    the class
 * \param mem_handle [IN]  registered memory of this process
 * \param addr [IN]        address of the peer; it stays the caller's
 *
 * \return NA_SUCCESS; NA_INVALID_ARG if the memory is not registered, or is a peer's, or an
 *         argument is missing; NA_NOMEM, also if the class has too many grants; NA_PERMISSION if
 *         the class was inherited by fork()
 *
 * Any thread. \since 1.1
 */
NA_PUBLIC na_return_t NA_Mem_handle_grant(na_class_t *na_class, na_mem_handle_t *mem_handle,
                                          na_addr_t *addr);

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
 * \param count_p [IN,OUT]  how many fit; receives how many there are
 *
 * \return NA_SUCCESS; NA_OVERFLOW if there are more than fit: the first ones are filled in
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_Class_get_counters(const na_class_t *na_class, struct na_counter *counters,
                                            size_t *count_p);

/**
 * Takes notice of a peer that is lost. It is called in NA_Poll(), NA_Poll_wait() or NA_Progress()
 * of any context of the class, and must call none of these, nor NA_Trigger() or what closes
 * something; other functions it may call.
 *
 * \param na_class  the class
 * \param addr      the peer's address, during the call; NA_Addr_dup() keeps it, NA_Addr_cmp() tells
 *     whose it is
 * \param reason    as operations fail that wait for it: NA_HOSTUNREACH, mostly
 * \param arg       what NA_Class_set_peer_lost() was given
 */
typedef void (*na_peer_lost_cb_t)(na_class_t *na_class, na_addr_t *addr, na_return_t reason,
                                  void *arg);

/**
 * Have a function called for each peer that is lost, also if no operation waits for it: its process
 * has ended, it has closed, another one has taken its place, or there is no way to it any more.
 * Peers are those that have sent something to the class or have answered it. It is called once for
 * each address of a peer, within a second or two when a process of this node has ended, for others
 * as soon as their network tells. Contexts of the class have to be polled. A peer that lives, and
 * could not be reached for a while, may be met again, and be lost again.
 *
 * \param na_class [IN]  the class
 * \param callback [IN]  the function; NULL for none, as at first
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
 * Give an outstanding operation another callback, so that its owner need not wait for a transport
 * that does not let go of it. Operation, buffer and memory stay the transport's until the new
 * callback runs.
 *
 * \param na_class [IN]  the class
 * \param context [IN]   the context that it was posted to
 * \param op_id [IN]     the operation, not one of a multi-receive; the post has to have returned
 * \param callback [IN]  called instead of the one that it was posted with
 * \param arg [IN]       passed to it
 *
 * \return true, and the former callback will not be called; false if nothing is outstanding, or if
 *         that callback runs at this moment
 *
 * Any thread. \since 1.1
 */
NA_PUBLIC bool NA_Op_set_callback(na_class_t *na_class, na_context_t *context, na_op_id_t *op_id,
                                  na_cb_t callback, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* NA_EXT_H */
