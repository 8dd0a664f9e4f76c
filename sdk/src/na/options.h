/* SPDX-License-Identifier: BSD-3-Clause */
/* What an init string sets of a plugin: `name=value` behind its address. */

#ifndef NA_OPTIONS_H
#define NA_OPTIONS_H

#include "na_plugin.h"
#include "na_types.h"

#define NA_OPTION_NAME_MAX 32 /* longest name of an option */
#define NA_OPTIONS_MAX     32 /* most options of a plugin */

/* What is wrong with a name of a plugin's list, or NULL. */
const char *na_option_name_check(const char *name);

/*
 * Divides the address of an init string in place, see na_plugin_wrap.options_split. `address` may
 * be NULL. On NA_INVALID_ARG `reason` says which option, and which there are.
 */
na_return_t na_options_split(const struct na_plugin *table, char *address, const char **options_p,
                             char *reason, size_t reason_size);

#endif /* NA_OPTIONS_H */
