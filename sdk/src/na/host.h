/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of functions that plugins get from the core. */

#ifndef NA_HOST_H
#define NA_HOST_H

#include "na_plugin.h"

/* The one table, the same for all plugins. */
const struct na_host *na_host_get(void);

/* Its extension for plugins that wrap another one. */
const struct na_plugin_wrap *na_host_get_wrap(void);

/* The last error that a plugin logged in this thread since it was forgotten, or "". */
const char *na_host_last_error(void);
void na_host_forget_error(void);

#endif /* NA_HOST_H */
