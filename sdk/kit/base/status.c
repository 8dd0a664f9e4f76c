/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of status codes, for the log. */

#include "kit_base.h"

const char *kit_status_name(int32_t status)
{
    static const char *const names[] = {
        [NA_PLUGIN_SUCCESS] = "NA_SUCCESS",
        [NA_PLUGIN_PERMISSION] = "NA_PERMISSION",
        [NA_PLUGIN_NOENTRY] = "NA_NOENTRY",
        [NA_PLUGIN_INTERRUPT] = "NA_INTERRUPT",
        [NA_PLUGIN_AGAIN] = "NA_AGAIN",
        [NA_PLUGIN_NOMEM] = "NA_NOMEM",
        [NA_PLUGIN_ACCESS] = "NA_ACCESS",
        [NA_PLUGIN_FAULT] = "NA_FAULT",
        [NA_PLUGIN_BUSY] = "NA_BUSY",
        [NA_PLUGIN_EXIST] = "NA_EXIST",
        [NA_PLUGIN_NODEV] = "NA_NODEV",
        [NA_PLUGIN_INVALID_ARG] = "NA_INVALID_ARG",
        [NA_PLUGIN_PROTOCOL_ERROR] = "NA_PROTOCOL_ERROR",
        [NA_PLUGIN_OVERFLOW] = "NA_OVERFLOW",
        [NA_PLUGIN_MSGSIZE] = "NA_MSGSIZE",
        [NA_PLUGIN_PROTONOSUPPORT] = "NA_PROTONOSUPPORT",
        [NA_PLUGIN_OPNOTSUPPORTED] = "NA_OPNOTSUPPORTED",
        [NA_PLUGIN_ADDRINUSE] = "NA_ADDRINUSE",
        [NA_PLUGIN_ADDRNOTAVAIL] = "NA_ADDRNOTAVAIL",
        [NA_PLUGIN_HOSTUNREACH] = "NA_HOSTUNREACH",
        [NA_PLUGIN_TIMEOUT] = "NA_TIMEOUT",
        [NA_PLUGIN_CANCELED] = "NA_CANCELED",
        [NA_PLUGIN_IO_ERROR] = "NA_IO_ERROR",
        [NA_PLUGIN_HOSTFIREWALL] = "NA_HOSTFIREWALL",
    };

    return status >= 0 && status < (int32_t) (sizeof(names) / sizeof(names[0])) ? names[status]
                                                                                : "no known status";
}
