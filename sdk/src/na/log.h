/* SPDX-License-Identifier: BSD-3-Clause */
/* Log messages of the core, and functions of log.c that its other files use. */

#ifndef NA_LOG_H
#define NA_LOG_H

#include "na.h"
#include "na_ext.h"
#include "util/compiler.h"

#include <pthread.h>

#define NA_LOG_SUBSYS "na"

#define NA_LOG_AT(level, ...)                                                    \
    do {                                                                         \
        if (NA_Log_enabled(level, NA_LOG_SUBSYS))                                \
            NA_Log_write(level, NA_LOG_SUBSYS, __func__, __LINE__, __VA_ARGS__); \
    } while (0)

#define NA_LOG_ERROR(...)   NA_LOG_AT(NA_LOG_LEVEL_ERROR, __VA_ARGS__)
#define NA_LOG_WARNING(...) NA_LOG_AT(NA_LOG_LEVEL_WARNING, __VA_ARGS__)
#define NA_LOG_INFO(...)    NA_LOG_AT(NA_LOG_LEVEL_INFO, __VA_ARGS__)
#define NA_LOG_DEBUG(...)   NA_LOG_AT(NA_LOG_LEVEL_DEBUG, __VA_ARGS__)

/* Writes a line to the stream of level info, whatever level and subsystems are set. */
void na_log_force(const char *line);

/*
 * Copies a text and replaces control characters, also the two-byte ones of UTF-8, by \xNN: texts
 * from init strings, plugins and peers must not control a terminal. Truncates the copy to `size`,
 * which is at least 1.
 */
void na_log_escape(char *out, size_t size, const char *in);

/* Returns whether messages of a level are written for at least one subsystem. */
bool na_log_level_enabled(enum na_log_level level);

/* Guards the settings of the log; fork.c holds it around a fork(). */
extern UTIL_HIDDEN pthread_mutex_t na_log_mutex;

#endif /* NA_LOG_H */
