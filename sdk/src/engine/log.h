/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines of the RPC library. They go to NA's log, so that a program has a single one. */
#ifndef HG_ENGINE_LOG_H
#define HG_ENGINE_LOG_H

#include "na_ext.h"

#define HG_LOG_SUBSYS "hg"

#define HG_LOG_WRITE(level, ...)                                                      \
    do {                                                                              \
        const enum na_log_level log_level_ = (level);                                 \
                                                                                      \
        if (NA_Log_enabled(log_level_, HG_LOG_SUBSYS))                                \
            NA_Log_write(log_level_, HG_LOG_SUBSYS, __func__, __LINE__, __VA_ARGS__); \
    } while (0)

#define HG_LOG_ERROR(...)   HG_LOG_WRITE(NA_LOG_LEVEL_ERROR, __VA_ARGS__)
#define HG_LOG_WARNING(...) HG_LOG_WRITE(NA_LOG_LEVEL_WARNING, __VA_ARGS__)
#define HG_LOG_INFO(...)    HG_LOG_WRITE(NA_LOG_LEVEL_INFO, __VA_ARGS__)
#define HG_LOG_DEBUG(...)   HG_LOG_WRITE(NA_LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif /* HG_ENGINE_LOG_H */
