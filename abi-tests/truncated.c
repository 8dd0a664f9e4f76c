/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop plugin with the table of an earlier minor, TABLE_MINOR, which ended with TABLE_LAST: all
 * that lies past it is absent, and what stands there in memory is no function. */

#undef na_plugin_entry_v1

#include "na_plugin.h"

#include <string.h>

#define TABLE_SIZE \
    (offsetof(struct na_plugin, TABLE_LAST) + sizeof(((struct na_plugin *) NULL)->TABLE_LAST))

int32_t loop_entry(const struct na_host *host, const struct na_plugin **plugin_p,
                   const char **reason_p);

int32_t na_plugin_entry_v1(const struct na_host *host, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    static struct na_plugin table;
    const struct na_plugin *whole = NULL;
    int32_t status = loop_entry(host, &whole, reason_p);

    if (status != NA_PLUGIN_SUCCESS)
        return status;
    memset(&table, 0x5a, sizeof(table));
    memcpy(&table, whole, TABLE_SIZE);
    table.abi_version = NA_PLUGIN_ABI_MAJOR << 16 | TABLE_MINOR;
    table.size = TABLE_SIZE;
    *plugin_p = &table;
    return NA_PLUGIN_SUCCESS;
}
