/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's extension for a plugin that wraps another one. */

#include "fault.h"

#define REASON_MAX 512

const struct na_plugin_wrap *fault_wrap;

/* A core of an ABI before 1.2 lacks the function, and passes options on in the address. */
int32_t fault_split_options(const struct na_plugin *inner, char *address, const char **options_p)
{
    char reason[REASON_MAX] = "";
    int32_t ret;

    *options_p = NULL;
    if (fault_wrap->extension.size <
        offsetof(struct na_plugin_wrap, options_split) + sizeof(fault_wrap->options_split))
        return NA_PLUGIN_SUCCESS;
    ret = fault_wrap->options_split(inner, address, options_p, reason, sizeof(reason));
    if (ret != NA_PLUGIN_SUCCESS)
        FAULT_ERROR("%s", reason);
    return ret;
}
