/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's host table. */

#include "kit_base.h"

const struct na_host *kit_host;

int32_t kit_host_set(const struct na_host *host, const char **reason_p)
{
    if (host->abi_version >> 16 != NA_PLUGIN_ABI_MAJOR ||
        host->size < offsetof(struct na_host, clock_ns) + sizeof(host->clock_ns)) {
        *reason_p = "the core's host table is not of ABI 1";
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    kit_host = host;
    return NA_PLUGIN_SUCCESS;
}
