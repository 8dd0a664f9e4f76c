/* SPDX-License-Identifier: BSD-3-Clause */
/* Log messages of the core. */

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

/* One line to the stream of level info, whatever the level and the subsystems are. */
void na_log_force(const char *line);

/*
 * Control characters, also those of two bytes in UTF-8, as \xNN: texts come from init strings,
 * plugins and peers, and a terminal obeys. Cut to `size`, which is at least 1.
 */
void na_log_escape(char *out, size_t size, const char *in);

/* Whether messages of a level are shown for at least some subsystem. */
bool na_log_level_enabled(enum na_log_level level);

/* The lock of its settings and of its lines, for a fork(). */
extern UTIL_HIDDEN pthread_mutex_t na_log_mutex;

#endif /* NA_LOG_H */
