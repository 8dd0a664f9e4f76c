/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smallest transport: it can be loaded, but refuses to be used. It shows that the headers
 * suffice to build a transport.
 */
#include <na_plugin.h>
#include <stddef.h>

int32_t na_plugin_entry_v1(const struct na_host *host, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    *plugin_p = NULL;
    *reason_p = host->abi_version == NA_PLUGIN_ABI_VERSION ? "there is no fabric" : "another minor";
    return NA_PLUGIN_NODEV;
}
