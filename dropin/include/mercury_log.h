/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log for programs. A line goes to an outlet, which has a level and may have a parent whose
 * level it takes over; what is below the level is not printed. The log of the RPC library is
 * another one, see HG_Set_log_level().
 */
#ifndef MERCURY_LOG_H
#define MERCURY_LOG_H

#include "mercury_dlog.h"
#include "mercury_queue.h"

#include <stdarg.h>
#include <stdio.h>

/* Join two names, with an underscore in between or without one, and turn one into a string. */
#define HG_UTIL_CAT(x, y)    x##y
#define HG_UTIL_CATU(x, y)   x##_##y
#define HG_UTIL_STRINGIFY(x) #x

/* Functions that register outlets and take them back. */
#define HG_UTIL_CONSTRUCTOR HG_ATTR_CONSTRUCTOR
#define HG_UTIL_DESTRUCTOR  HG_ATTR_DESTRUCTOR

/* Levels: X(enumerator, name, short name, pointer to the standard stream). An outlet of level
 * min_debug keeps debug lines in its debug log until an error is printed. */
#define HG_LOG_LEVELS                                        \
    X(HG_LOG_LEVEL_NONE, "", "", NULL)                       \
    X(HG_LOG_LEVEL_FATAL, "fatal", "ftl", &stderr)           \
    X(HG_LOG_LEVEL_ERROR, "error", "err", &stderr)           \
    X(HG_LOG_LEVEL_WARNING, "warning", "warn", &stdout)      \
    X(HG_LOG_LEVEL_MIN_DEBUG, "min_debug", "trace", &stdout) \
    X(HG_LOG_LEVEL_INFO, "info", "inf", &stdout)             \
    X(HG_LOG_LEVEL_DEBUG, "debug", "dbg", &stdout)           \
    X(HG_LOG_LEVEL_MAX, "", "", NULL)

#define X(level, name, short_name, stream) level,
/* These levels, the most important one first. */
enum hg_log_level {
    HG_LOG_LEVELS
};
#undef X

/* State of an outlet: as its parent, silent, or of the level that is set for all. */
enum hg_log_state {
    HG_LOG_PASS,
    HG_LOG_OFF,
    HG_LOG_ON
};

/* An outlet. Its fields are here for the macros of this file alone. */
struct hg_log_outlet {
    const char *name;
    enum hg_log_state state;
    enum hg_log_level level;
    struct hg_log_outlet *parent; /* may be NULL */
    struct hg_dlog *debug_log;    /* may be NULL */
    bool registered;
    STAILQ_ENTRY(hg_log_outlet) entry; /* in the list of all */
};

/* Prints, as fprintf() does. */
typedef int (*hg_log_func_t)(FILE *stream, const char *format, ...);

/* The outlet that all others come from, and the variable of an outlet. */
#define HG_LOG_OUTLET_ROOT_NAME hg_all
#define HG_LOG_OUTLET(name)     HG_UTIL_CATU(name, log_outlet_g)

/* Declare the variable of an outlet, or of a part of another outlet. */
#define HG_LOG_OUTLET_DECL(name) struct hg_log_outlet HG_LOG_OUTLET(name)
#define HG_LOG_OUTLET_SUBSYS_DECL(name, parent_name) \
    HG_LOG_OUTLET_DECL(HG_UTIL_CATU(parent_name, name))

/* Initializers of that variable: in general, of a part of another outlet, the same with a state. */
#define HG_LOG_OUTLET_INITIALIZER(name, state, parent, debug_log)                            \
    {                                                                                        \
        HG_UTIL_STRINGIFY(name), state, HG_LOG_LEVEL_NONE, parent, debug_log, false, {NULL}, \
    }
#define HG_LOG_OUTLET_SUBSYS_INITIALIZER(name, parent_name) \
    HG_LOG_OUTLET_INITIALIZER(name, HG_LOG_PASS, &HG_LOG_OUTLET(parent_name), NULL)
#define HG_LOG_OUTLET_SUBSYS_STATE_INITIALIZER(name, parent_name, state) \
    HG_LOG_OUTLET_INITIALIZER(name, state, &HG_LOG_OUTLET(parent_name), NULL)

/* Register an outlet before main() and take it back after it. A semicolon follows. */
#define HG_LOG_REGISTER(name)                                                     \
    static void HG_UTIL_CATU(hg_log_outlet_reg, name)(void) HG_UTIL_CONSTRUCTOR;  \
    static void HG_UTIL_CATU(hg_log_outlet_reg, name)(void)                       \
    {                                                                             \
        hg_log_outlet_register(&HG_LOG_OUTLET(name));                             \
    }                                                                             \
    static void HG_UTIL_CATU(hg_log_outlet_dereg, name)(void) HG_UTIL_DESTRUCTOR; \
    static void HG_UTIL_CATU(hg_log_outlet_dereg, name)(void)                     \
    {                                                                             \
        hg_log_outlet_deregister(&HG_LOG_OUTLET(name));                           \
    }                                                                             \
    struct hg_log_outlet
#define HG_LOG_SUBSYS_REGISTER(name, parent_name) HG_LOG_REGISTER(HG_UTIL_CATU(parent_name, name))

/* Declare, initialize and register an outlet, a part of another one, the same with a state. */
#define HG_LOG_DECL_REGISTER(name)                                                              \
    HG_LOG_OUTLET_DECL(name) = HG_LOG_OUTLET_SUBSYS_INITIALIZER(name, HG_LOG_OUTLET_ROOT_NAME); \
    HG_LOG_REGISTER(name)
#define HG_LOG_SUBSYS_DECL_REGISTER(name, parent_name)       \
    HG_LOG_OUTLET_SUBSYS_DECL(name, parent_name) =           \
        HG_LOG_OUTLET_SUBSYS_INITIALIZER(name, parent_name); \
    HG_LOG_SUBSYS_REGISTER(name, parent_name)
#define HG_LOG_SUBSYS_DECL_STATE_REGISTER(name, parent_name, state)       \
    HG_LOG_OUTLET_SUBSYS_DECL(name, parent_name) =                        \
        HG_LOG_OUTLET_SUBSYS_STATE_INITIALIZER(name, parent_name, state); \
    HG_LOG_SUBSYS_REGISTER(name, parent_name)

/* Keep where a debug line comes from, if the outlet has a debug log and a level for that. */
#define HG_LOG_KEEP(name, log_level, file, line, func)                                \
    if ((log_level) == HG_LOG_LEVEL_DEBUG && HG_LOG_OUTLET(name).debug_log != NULL && \
        HG_LOG_OUTLET(name).level >= HG_LOG_LEVEL_MIN_DEBUG)                          \
    (void) hg_dlog_addlog(HG_LOG_OUTLET(name).debug_log, file, line, func, NULL, NULL)

/* Write a line, with format and arguments or with a va_list. */
#define HG_LOG_WRITE_FUNC(name, log_level, module, file, line, func, no_return, ...)           \
    do {                                                                                       \
        HG_LOG_KEEP(name, log_level, file, line, func);                                        \
        if ((log_level) <= HG_LOG_OUTLET(name).level)                                          \
            hg_log_write(&HG_LOG_OUTLET(name), log_level, module, file, line, func, no_return, \
                         __VA_ARGS__);                                                         \
    } while (0)
#define HG_LOG_VWRITE_FUNC(name, log_level, module, file, line, func, no_return, message, ap)   \
    do {                                                                                        \
        HG_LOG_KEEP(name, log_level, file, line, func);                                         \
        if ((log_level) <= HG_LOG_OUTLET(name).level)                                           \
            hg_log_vwrite(&HG_LOG_OUTLET(name), log_level, module, file, line, func, no_return, \
                          message, ap);                                                         \
    } while (0)

/* Write a line of level debug, and behind it text as it is. */
#define HG_LOG_WRITE_FUNC_DEBUG_EXT(name, header, module, file, line, func, no_return, ...)  \
    do {                                                                                     \
        if (HG_LOG_OUTLET(name).level == HG_LOG_LEVEL_DEBUG) {                               \
            hg_log_write(&HG_LOG_OUTLET(name), HG_LOG_LEVEL_DEBUG, module, file, line, func, \
                         no_return, header);                                                 \
            hg_log_get_func()(hg_log_get_stream_debug(), __VA_ARGS__);                       \
            hg_log_get_func()(hg_log_get_stream_debug(), "---\n");                           \
        }                                                                                    \
    } while (0)

/* The same from here. */
#define HG_LOG_WRITE(name, log_level, ...) \
    HG_LOG_WRITE_FUNC(name, log_level, NULL, __FILE__, __LINE__, __func__, false, __VA_ARGS__)
#define HG_LOG_SUBSYS_WRITE(name, parent_name, log_level, ...) \
    HG_LOG_WRITE(HG_UTIL_CATU(parent_name, name), log_level, __VA_ARGS__)
#define HG_LOG_WRITE_DEBUG_EXT(name, header, ...)                                        \
    HG_LOG_WRITE_FUNC_DEBUG_EXT(name, header, NULL, __FILE__, __LINE__, __func__, false, \
                                __VA_ARGS__)
#define HG_LOG_SUBSYS_WRITE_DEBUG_EXT(name, parent_name, header, ...) \
    HG_LOG_WRITE_DEBUG_EXT(HG_UTIL_CATU(parent_name, name), header, __VA_ARGS__)

/* The debug log of an outlet: variables, their declarations and initializers. */
#define HG_LOG_DEBUG_DLOG(name)          HG_UTIL_CATU(name, dlog_g)
#define HG_LOG_DEBUG_LE(name)            HG_UTIL_CATU(name, dlog_entries_g)
#define HG_LOG_DEBUG_DECL_DLOG(name)     struct hg_dlog HG_LOG_DEBUG_DLOG(name)
#define HG_LOG_DEBUG_DECL_LE(name, size) struct hg_dlog_entry HG_LOG_DEBUG_LE(name)[size]
#define HG_LOG_DLOG_INITIALIZER(name, size)                                                      \
    HG_DLOG_INITIALIZER(HG_UTIL_STRINGIFY(name), HG_LOG_DEBUG_DLOG(name), HG_LOG_DEBUG_LE(name), \
                        size, 1)
#define HG_LOG_OUTLET_SUBSYS_DLOG_INITIALIZER(name, parent_name)              \
    HG_LOG_OUTLET_INITIALIZER(name, HG_LOG_PASS, &HG_LOG_OUTLET(parent_name), \
                              &HG_LOG_DEBUG_DLOG(name))

/* Declare, initialize and register an outlet, or a part of another one, that has a debug log. */
#define HG_LOG_DLOG_DECL_REGISTER(name)                                       \
    HG_LOG_OUTLET_DECL(name) =                                                \
        HG_LOG_OUTLET_SUBSYS_DLOG_INITIALIZER(name, HG_LOG_OUTLET_ROOT_NAME); \
    HG_LOG_REGISTER(name)
#define HG_LOG_SUBSYS_DLOG_DECL_REGISTER(name, parent_name)       \
    HG_LOG_OUTLET_SUBSYS_DECL(name, parent_name) =                \
        HG_LOG_OUTLET_SUBSYS_DLOG_INITIALIZER(name, parent_name); \
    HG_LOG_SUBSYS_REGISTER(name, parent_name)

/* Counters of the debug log of an outlet. */
#define HG_LOG_ADD_COUNTER32(name, counter_ptr, counter_name, counter_desc) \
    hg_dlog_mkcount32(HG_LOG_OUTLET(name).debug_log, counter_ptr, counter_name, counter_desc)
#define HG_LOG_DEL_COUNTER32(name, counter_ptr) \
    hg_dlog_rmcount32(HG_LOG_OUTLET(name).debug_log, counter_ptr)
#define HG_LOG_ADD_COUNTER64(name, counter_ptr, counter_name, counter_desc) \
    hg_dlog_mkcount64(HG_LOG_OUTLET(name).debug_log, counter_ptr, counter_name, counter_desc)
#define HG_LOG_DEL_COUNTER64(name, counter_ptr) \
    hg_dlog_rmcount64(HG_LOG_OUTLET(name).debug_log, counter_ptr)

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Set the level of all outlets that are on. Without a call it is what HG_LOG_LEVEL of the
 * environment says, or HG_LOG_LEVEL_ERROR.
 *
 * \param log_level [IN]    level
 *
 * One thread, while no other logs: outlets are read without a lock. \since 1.0
 */
HG_UTIL_PUBLIC void hg_log_set_level(enum hg_log_level log_level);

/**
 * \return level of all outlets that are on
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC enum hg_log_level hg_log_get_level(void);

/**
 * Turn outlets on and off, also those that are registered later. Without a call it is what
 * HG_LOG_SUBSYS of the environment says.
 *
 * \param log_subsys [IN]   names, separated by commas; one behind "~" is turned off; may be
 *                          NULL
 *
 * One thread, while no other logs: outlets are read without a lock. \since 1.0
 */
HG_UTIL_PUBLIC void hg_log_set_subsys(const char *log_subsys);

/**
 * \return names of the outlets that were turned on and off, as hg_log_set_subsys() takes them; the
 *         next call overwrites them
 *
 * One thread at a time. \since 1.0
 */
HG_UTIL_PUBLIC const char *hg_log_get_subsys(void);

/**
 * Set the level of one outlet, and of its parts.
 *
 * \param subsys [IN]       its name
 * \param log_level [IN]    level
 *
 * One thread, while no other logs: outlets are read without a lock. \since 1.0
 */
HG_UTIL_PUBLIC void hg_log_set_subsys_level(const char *subsys, enum hg_log_level log_level);

/**
 * \return the level of that name, HG_LOG_LEVEL_NONE if there is none
 * \param log_level [IN]    name, NULL is allowed
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC enum hg_log_level hg_log_name_to_level(const char *log_level);

/**
 * \return name of a level, a constant; "" if there is no such level
 * \param level [IN]        level
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC const char *hg_log_level_to_string(enum hg_log_level level);

/**
 * Say what prints.
 *
 * \param log_func [IN]     prints; NULL for fprintf()
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_log_set_func(hg_log_func_t log_func);

/**
 * \return what prints
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC hg_log_func_t hg_log_get_func(void);

/**
 * Say where errors go.
 *
 * \param stream [IN]   stream, open as long as it is set; NULL for the standard one
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_log_set_stream_error(FILE *stream);

/**
 * \return where errors go; the stream stays whose it is
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC FILE *hg_log_get_stream_error(void);

/**
 * Say where warnings go.
 *
 * \param stream [IN]   stream, open as long as it is set; NULL for the standard one
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_log_set_stream_warning(FILE *stream);

/**
 * \return where warnings go; the stream stays whose it is
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC FILE *hg_log_get_stream_warning(void);

/**
 * Say where debug output goes.
 *
 * \param stream [IN]   stream, open as long as it is set; NULL for the standard one
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_log_set_stream_debug(FILE *stream);

/**
 * \return where debug output goes; the stream stays whose it is
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC FILE *hg_log_get_stream_debug(void);

/**
 * Register an outlet: from now on it has the level that was set for it.
 *
 * \param outlet [IN]       outlet, which the program keeps
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_log_outlet_register(struct hg_log_outlet *outlet);

/**
 * Take an outlet back, and free the counters of its debug log.
 *
 * \param outlet [IN]       outlet
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_log_outlet_deregister(struct hg_log_outlet *outlet);

/**
 * Print the counters of an outlet's debug log to where debug output goes.
 *
 * \param hg_log_outlet [IN]    outlet
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_log_dump_counters(struct hg_log_outlet *hg_log_outlet);

/**
 * Print a line, whatever the level of its outlet.
 *
 * \param hg_log_outlet [IN]     outlet
 * \param log_level [IN]         level of the line
 * \param module [IN]            part of the program, may be NULL
 * \param file [IN]              where in the source, may be NULL
 * \param line [IN]              where in the source
 * \param func [IN]              where in the source, may be NULL
 * \param no_return [IN]         do not end the line
 * \param format [IN]            format of the text, as of printf()
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_log_write(struct hg_log_outlet *hg_log_outlet, enum hg_log_level log_level,
                                 const char *module, const char *file, unsigned int line,
                                 const char *func, bool no_return, const char *format, ...)
    HG_UTIL_PRINTF(8, 9);

/**
 * Print a line, whatever the level of its outlet.
 *
 * \param hg_log_outlet [IN]     outlet
 * \param log_level [IN]         level of the line
 * \param module [IN]            part of the program, may be NULL
 * \param file [IN]              where in the source, may be NULL
 * \param line [IN]              where in the source
 * \param func [IN]              where in the source, may be NULL
 * \param no_return [IN]         do not end the line
 * \param format [IN]            format of the text, as of printf()
 * \param ap [IN]                its arguments
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_log_vwrite(struct hg_log_outlet *hg_log_outlet, enum hg_log_level log_level,
                                  const char *module, const char *file, unsigned int line,
                                  const char *func, bool no_return, const char *format, va_list ap)
    HG_UTIL_PRINTF(8, 0);

/* The outlet that all others come from. */
extern HG_UTIL_PUBLIC struct hg_log_outlet hg_all_log_outlet_g;

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_LOG_H */
