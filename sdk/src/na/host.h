/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of functions that plugins get from the core. */

#ifndef NA_HOST_H
#define NA_HOST_H

#include "na_plugin.h"

/* The one table, the same for all plugins. */
const struct na_host *na_host_get(void);

#endif /* NA_HOST_H */
