/* SPDX-License-Identifier: BSD-3-Clause */
/* The version of the library, and names of codes. */

#include "na/class.h"
#include "na/log.h"
#include "na_ext.h"
#include "na_plugin.h"

#define X(a) #a,
static const char *const return_names[] = {NA_RETURN_VALUES};
#undef X

/* The codes and flags of the plugin ABI equal those of the API, so that none is translated. */
_Static_assert(NA_PLUGIN_SUCCESS == (int) NA_SUCCESS, "same codes");
_Static_assert(NA_PLUGIN_AGAIN == (int) NA_AGAIN, "same codes");
_Static_assert(NA_PLUGIN_BUSY == (int) NA_BUSY, "same codes");
_Static_assert(NA_PLUGIN_INVALID_ARG == (int) NA_INVALID_ARG, "same codes");
_Static_assert(NA_PLUGIN_MSGSIZE == (int) NA_MSGSIZE, "same codes");
_Static_assert(NA_PLUGIN_OPNOTSUPPORTED == (int) NA_OPNOTSUPPORTED, "same codes");
_Static_assert(NA_PLUGIN_HOSTUNREACH == (int) NA_HOSTUNREACH, "same codes");
_Static_assert(NA_PLUGIN_TIMEOUT == (int) NA_TIMEOUT, "same codes");
_Static_assert(NA_PLUGIN_CANCELED == (int) NA_CANCELED, "same codes");
_Static_assert(NA_PLUGIN_HOSTFIREWALL == (int) NA_HOSTFIREWALL, "same codes");
_Static_assert(NA_PLUGIN_HOSTFIREWALL + 1 == (int) NA_RETURN_MAX, "same codes");
_Static_assert(NA_PLUGIN_MEM_READ == NA_MEM_READ_ONLY, "same flags");
_Static_assert(NA_PLUGIN_MEM_WRITE == NA_MEM_WRITE_ONLY, "same flags");
_Static_assert(NA_PLUGIN_MEM_TYPE_ZE == (int) NA_MEM_TYPE_ZE, "same types");
_Static_assert(NA_PLUGIN_PROGRESS_BUSY == NA_NO_BLOCK, "same flags");
_Static_assert(NA_PLUGIN_PROGRESS_NO_RETRY == NA_NO_RETRY, "same flags");
_Static_assert(NA_PLUGIN_THREAD_SINGLE_CLASS == NA_THREAD_MODE_SINGLE_CLS, "same flags");
_Static_assert(NA_PLUGIN_THREAD_SINGLE_CONTEXT == NA_THREAD_MODE_SINGLE_CTX, "same flags");
_Static_assert(NA_PLUGIN_ADDR_NATIVE == (int) NA_ADDR_NATIVE, "same formats");
_Static_assert(NA_PLUGIN_TC_NETWORK_CTRL == (int) NA_TC_NETWORK_CTRL, "same classes");
_Static_assert(NA_PLUGIN_BUF_SEND == NA_SEND, "same flags");
_Static_assert(NA_PLUGIN_BUF_RECV == NA_RECV, "same flags");
_Static_assert(NA_PLUGIN_BUF_MULTI_RECV == NA_MULTI_RECV, "same flags");

void NA_Version_get(unsigned int *major, unsigned int *minor, unsigned int *patch)
{
    if (major != NULL)
        *major = NA_VERSION_MAJOR;
    if (minor != NULL)
        *minor = NA_VERSION_MINOR;
    if (patch != NULL)
        *patch = NA_VERSION_PATCH;
}

uint32_t NA_Plugin_get_abi_version(void)
{
    return NA_PLUGIN_ABI_VERSION;
}

const char *NA_Error_to_string(na_return_t errnum)
{
    if ((unsigned int) errnum >= NA_RETURN_MAX)
        return "(unknown return code)";
    return return_names[errnum];
}

UTIL_COLD na_return_t na_return_unknown(int32_t status)
{
    NA_LOG_ERROR("a plugin returned or reported the status %d, and there are 0 to %d: taken for "
                 "NA_FAULT; report it to the plugin's maker",
                 status, NA_RETURN_MAX - 1);
    return NA_FAULT;
}

const char *NA_Plugin_stage_to_string(enum na_plugin_stage stage)
{
    static const char *const names[] = {
        [NA_LOADER_STAGE_SEARCH] = "search", [NA_LOADER_STAGE_OPEN] = "open",
        [NA_LOADER_STAGE_ENTRY] = "entry",   [NA_LOADER_STAGE_TABLE] = "table",
        [NA_LOADER_STAGE_READY] = "ready",
    };

    return (size_t) stage < sizeof(names) / sizeof(names[0]) ? names[stage] : "(unknown stage)";
}

const char *NA_Plugin_code_to_string(enum na_plugin_code code)
{
    static const char *const names[] = {
        [NA_LOADER_LOADED] = "loaded",
        [NA_LOADER_FOUND] = "found",
        [NA_LOADER_MISSING] = "missing",
        [NA_LOADER_UNSAFE] = "unsafe file",
        [NA_LOADER_OPEN_FAILED] = "open failed",
        [NA_LOADER_NO_ENTRY] = "no entry",
        [NA_LOADER_ABI_TOO_OLD] = "ABI too old",
        [NA_LOADER_ABI_TOO_NEW] = "ABI too new",
        [NA_LOADER_INVALID_TABLE] = "invalid table",
        [NA_LOADER_DUPLICATE] = "duplicate",
        [NA_LOADER_REFUSED] = "refused by the plugin",
        [NA_LOADER_BAD_NAME] = "bad name",
        [NA_LOADER_CRASHED] = "crashed",
    };

    return (size_t) code < sizeof(names) / sizeof(names[0]) ? names[code] : "(unknown code)";
}
