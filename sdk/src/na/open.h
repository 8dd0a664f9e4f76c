/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing of a class at its plugin. */

#ifndef NA_OPEN_H
#define NA_OPEN_H

#include "na/class.h"

/* Tries the choices of an init string in turn. On failure `reason` says what was tried, and why
 * not. */
na_return_t na_class_open(const char *info_string, bool listen, const struct na_init_info *info,
                          struct na_class **na_class_p, char *reason, size_t reason_size);

/* Closes a class that has no contexts and operations, and frees it. */
na_return_t na_class_close(struct na_class *na_class);

#endif /* NA_OPEN_H */
