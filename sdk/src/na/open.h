/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the plugin's class for a struct na_class, and closes it. */

#ifndef NA_OPEN_H
#define NA_OPEN_H

#include "na/class.h"

/* Opens the first choice of an init string that works. On failure `reason` lists what was tried. */
na_return_t na_class_open(const char *info_string, bool listen, const struct na_init_info *info,
                          struct na_class **na_class_p, char *reason, size_t reason_size);

/* Closes a class that has neither contexts nor operations, and frees it, even if that fails. */
na_return_t na_class_close(struct na_class *na_class);

#endif /* NA_OPEN_H */
