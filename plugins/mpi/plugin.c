/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's descriptor and table. */

#include "mpi_class.h"

#include <stdio.h>
#include <string.h>

static bool plugin_meets_its_mpi(const char **reason_p);
static const void *plugin_get_extension(const char *id);
static int32_t plugin_offer_describe(const char *protocol, const char *device, char *text,
                                     uint64_t size);

/* "mpi" also names the plugin for MPICH, which is used where that for Open MPI is not built. */
static const char *const plugin_names[] = {MPI_PLUGIN_NAME, "mpi", NULL};

static struct na_plugin plugin = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_plugin),
    .name = MPI_PLUGIN_NAME,
    .version = "1.1.0",
    .description = "MPI messages (" MPI_BUILT_FOR "), among ranks or between jobs",
    .class_names = plugin_names,
    .capabilities = NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_CANCEL_SEND | NA_PLUGIN_CAP_PEER_DEATH |
                    NA_PLUGIN_CAP_NO_THREADS | NA_PLUGIN_CAP_AUTHENTICATED |
                    NA_PLUGIN_CAP_SECOND_KEY | NA_PLUGIN_CAP_ENCRYPTED |
                    NA_PLUGIN_CAP_MEM_PER_SESSION,
    .enumerate = mpi_enumerate,
    .initialize = mpi_class_initialize,
    .finalize = mpi_class_finalize,
    KIT_MSG_FUNCTIONS,
    .get_extension = plugin_get_extension,
    .addr_lookup = mpi_addr_lookup,
    KIT_REMOTE_FUNCTIONS,
    .put = kit_msg_put,
    .get = kit_msg_get,
    .poll_wait = mpi_poll_wait,
    .wake = mpi_wake,
};

int32_t na_plugin_entry_v1(const struct na_host *host, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    int32_t ret = kit_host_set(host, reason_p);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    if (!plugin_meets_its_mpi(reason_p))
        return NA_PLUGIN_OPNOTSUPPORTED;
    plugin.op_size = kit_msg_op_size();
    plugin.op_align = kit_msg_op_align();
    *plugin_p = &plugin;
    return NA_PLUGIN_SUCCESS;
}

/* In a program that is linked with another MPI, our calls would go to that one. */
static bool plugin_meets_its_mpi(const char **reason_p)
{
    static char reason[256];
    char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length = 0;
    bool is_open_mpi;

    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS)
        return true;
    is_open_mpi = strstr(text, "Open MPI") != NULL;
    if (is_open_mpi == (strcmp(MPI_BUILT_FOR, "Open MPI") == 0))
        return true;
    text[strcspn(text, "\n")] = '\0';
    (void) snprintf(reason, sizeof(reason),
                    "it is built for " MPI_BUILT_FOR ", but this program uses %.100s: use the "
                    "plugin for that one",
                    text);
    *reason_p = reason;
    return false;
}

static const void *plugin_get_extension(const char *id)
{
    static const struct na_plugin_offer_details details = {
        .extension = {.size = sizeof(details)},
        .offer_describe = plugin_offer_describe,
    };

    return strcmp(id, NA_PLUGIN_EXT_OFFER_DETAILS) == 0 ? &details : kit_remote_get_extension(id);
}

/* MPI tells its version before it is initialized. Details follow behind a comma. */
static int32_t plugin_offer_describe(const char *protocol, const char *device, char *text,
                                     uint64_t size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length = 0;

    (void) protocol;
    (void) device;
    (void) MPI_Get_library_version(version, &length);
    for (char *tab = strchr(version, '\t'); tab != NULL; tab = strchr(tab, '\t'))
        *tab = ' ';
    (void) snprintf(text, size, "%.*s; emulated RMA; registration: none",
                    (int) strcspn(version, ",\n"), version);
    return NA_PLUGIN_SUCCESS;
}
