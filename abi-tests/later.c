/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop plugin as a later minor would have it: its tables are longer, it gives functions that
 * the core does not know, and it uses of the core's tables what they have and no more. */

#undef na_plugin_entry_v1

#include "na_plugin.h"

#include <stdlib.h>
#include <string.h>

/* Whether a table of so many bytes has a member. */
#define HAS(table_size, type, member) \
    ((table_size) >= offsetof(type, member) + sizeof(((type *) NULL)->member))

int32_t loop_entry(const struct na_host *host, const struct na_plugin **plugin_p,
                   const char **reason_p);

static const struct na_plugin *loop;
static int core_is_later;

/* A core that does not know the function does not call it, and one that does has no reason to. */
static int32_t later_function(struct na_plugin_context *context)
{
    (void) context;
    abort();
}

static int32_t later_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                                struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    if (HAS(init->size, struct na_plugin_init, later_hint) != core_is_later ||
        HAS(info->size, struct na_plugin_class_info, later_limit) != core_is_later)
        return NA_PLUGIN_FAULT;
    if (core_is_later)
        info->later_limit = 1;
    return loop->initialize(init, host_class, class_p, info);
}

int32_t na_plugin_entry_v1(const struct na_host *host, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    static struct na_plugin table;
    int32_t status;

    core_is_later = host->abi_version >= NA_PLUGIN_ABI_VERSION;
    if (HAS(host->size, struct na_host, later_service) != core_is_later) {
        *reason_p = "the size of the host table is not that of its version";
        return NA_PLUGIN_NODEV;
    }
    status = loop_entry(host, &loop, reason_p);
    if (status != NA_PLUGIN_SUCCESS)
        return status;
    memcpy(&table, loop, sizeof(table));
    table.initialize = later_initialize;
    table.later_function = later_function;
    *plugin_p = &table;
    return NA_PLUGIN_SUCCESS;
}
