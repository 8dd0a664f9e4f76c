/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts init info of any version into that of this one. */

#ifndef NA_INIT_INFO_H
#define NA_INIT_INFO_H

#include "na_types.h"

/* Version of the struct that NA_Initialize_opt() takes. */
#define NA_INIT_INFO_OPT_VERSION NA_VERSION(4, 0)

/*
 * Copies init info of the given version; NULL stands for the defaults. Its strings are still the
 * caller's. Returns NA_INVALID_ARG, and the reason, if a field is out of range or lacks its key.
 */
na_return_t na_init_info_get(struct na_init_info *info, unsigned int version,
                             const struct na_init_info *given, char *reason, size_t reason_size);

#endif /* NA_INIT_INFO_H */
