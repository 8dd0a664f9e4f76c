/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Version of the utilities, and their log.
 */
#ifndef MERCURY_UTIL_H
#define MERCURY_UTIL_H

#include "mercury_util_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Tell the version of the API that the library offers.
 *
 * \param major [OUT]   may be NULL
 * \param minor [OUT]   may be NULL
 * \param patch [OUT]   may be NULL
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void HG_Util_version_get(unsigned int *major, unsigned int *minor,
                                        unsigned int *patch);

/**
 * Set the level of the log of mercury_log.h.
 *
 * \param level [IN]    "none", "fatal", "error", "warning", "min_debug", "info" or "debug"; any
 *                      other name is "none"
 *
 * One thread, while no other logs: outlets are read without a lock. \since 1.0
 */
HG_UTIL_PUBLIC void HG_Util_set_log_level(const char *level);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_UTIL_H */
