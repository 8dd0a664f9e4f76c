/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of plugins: `?name=value&...` behind the address in an init string. */

#ifndef NA_OPTIONS_H
#define NA_OPTIONS_H

#include "na_plugin.h"
#include "na_types.h"

#define NA_OPTION_NAME_MAX 32 /* longest name of an option */
#define NA_OPTIONS_MAX     32 /* most options of a plugin */

/* Returns what is wrong with an option's name in a plugin's table, or NULL. */
const char *na_option_name_check(const char *name);

/*
 * Ends the address of an init string before its options and sets `*options_p` to these, see
 * na_plugin_wrap.options_split. `address` may be NULL. On NA_INVALID_ARG `reason` names the wrong
 * option and lists those of the plugin.
 */
na_return_t na_options_split(const struct na_plugin *table, char *address, const char **options_p,
                             char *reason, size_t reason_size);

#endif /* NA_OPTIONS_H */
