/* SPDX-License-Identifier: BSD-3-Clause */
/* Information about a loaded plugin (struct na_plugin_info), which tools print. */

#ifndef NA_PLUGIN_INFO_H
#define NA_PLUGIN_INFO_H

#include "na/transport.h"

/* Asks the plugin for its offers and collects the rest. Freed by na_plugin_info_free(). */
na_return_t na_plugin_info_make(const struct na_transport *transport,
                                const struct na_plugin_info **info_p);

void na_plugin_info_free(const struct na_plugin_info *info);

#endif /* NA_PLUGIN_INFO_H */
