/* SPDX-License-Identifier: BSD-3-Clause */
/* What a loaded plugin says about itself, in a form that tools can print. */

#ifndef NA_PLUGIN_INFO_H
#define NA_PLUGIN_INFO_H

#include "na/transport.h"

/* Asks the plugin. A copy of all it says, to be freed by na_plugin_info_free(). */
na_return_t na_plugin_info_make(const struct na_transport *transport,
                                const struct na_plugin_info **info_p);

void na_plugin_info_free(const struct na_plugin_info *info);

#endif /* NA_PLUGIN_INFO_H */
