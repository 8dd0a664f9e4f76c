/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The offers of the plugin. MPI is not initialised here, because that can be done only once and
 * starts daemons. `auto` does not pick this plugin: an init string must name it.
 */

#include "mpi_class.h"

#include <string.h>

#define PRIORITY_STATIC  5
#define PRIORITY_DYNAMIC 4

int32_t mpi_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg)
{
    struct na_plugin_offer offers[] = {
        {
            .protocol = MPI_PROTOCOL_STATIC,
            .priority = PRIORITY_STATIC,
            .flags = NA_PLUGIN_OFFER_USABLE | NA_PLUGIN_OFFER_NAMED_ONLY,
        },
        {
            .protocol = MPI_PROTOCOL_DYNAMIC,
            .priority = PRIORITY_DYNAMIC,
            .flags = NA_PLUGIN_OFFER_USABLE | NA_PLUGIN_OFFER_NAMED_ONLY,
            .reason = mpi_dynamic_missing(),
        },
    };
    int32_t ret = NA_PLUGIN_SUCCESS;

    if (offers[1].reason != NULL)
        offers[1].flags &= ~NA_PLUGIN_OFFER_USABLE;
    for (size_t i = 0; i < 2 && ret == NA_PLUGIN_SUCCESS; i++)
        if (protocol == NULL || strcmp(protocol, offers[i].protocol) == 0)
            ret = report(arg, &offers[i]);
    return ret;
}

/* Returns why processes of different jobs cannot connect; NULL when they can. */
const char *mpi_dynamic_missing(void)
{
#ifdef OPEN_MPI
    return NULL;
#else
    static const char missing[] =
        "this MPICH is built for ch4:ucx, in which MPI_Open_port does not exist: "
        "use " MPI_PLUGIN_NAME
        "+static with both sides in one mpiexec, or an MPICH of ch4:ofi or ch3";
    static char text[MPI_MAX_LIBRARY_VERSION_STRING + 1];
    int length = 0;

    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS)
        return NULL;
    return strstr(text, "ch4:ucx") != NULL ? missing : NULL;
#endif
}
