/* SPDX-License-Identifier: BSD-3-Clause */
/* Init info of any version, made into the current one. */

#ifndef NA_INIT_INFO_H
#define NA_INIT_INFO_H

#include "na_types.h"

/* Version of the struct that NA_Initialize_opt() takes. */
#define NA_INIT_INFO_OPT_VERSION NA_VERSION(4, 0)

/*
 * Reads init info of a version; NULL stands for the defaults. Strings stay the caller's.
 * NA_INVALID_ARG, and `reason`, if a value makes no sense.
 */
na_return_t na_init_info_get(struct na_init_info *info, unsigned int version,
                             const struct na_init_info *given, char *reason, size_t reason_size);

#endif /* NA_INIT_INFO_H */
