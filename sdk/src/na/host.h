/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of functions that the core gives to plugins. */

#ifndef NA_HOST_H
#define NA_HOST_H

#include "na_plugin.h"

/* Returns the table, which is the same for all plugins. */
const struct na_host *na_host_get(void);

/* Returns its extension NA_PLUGIN_EXT_WRAP. */
const struct na_plugin_wrap *na_host_get_wrap(void);

/* Returns the last error that a plugin logged in this thread since na_host_clear_error(), or "". */
const char *na_host_last_error(void);
void na_host_clear_error(void);

#endif /* NA_HOST_H */
