/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of endpoints. static: the rank, then a slash and the number of the endpoint in its process
 * unless that is 0, as in "3" or "3/1". dynamic: the name of the process's port, a '#' and the
 * number. An endpoint that does not listen has a random name, to which no process can connect.
 */

#include "mpi_class.h"

#include <stdio.h>
#include <string.h>

static const char *address_of_string(const struct na_plugin_class *na_class, const char *string);
static int32_t address_canonical(const struct na_plugin_class *na_class, const char *name,
                                 char canonical[KIT_NAME_MAX]);
static bool number_read(const char **text_p, uint64_t max, uint64_t *number_p);

int32_t mpi_addr_lookup(struct na_plugin_class *na_class, const char *string,
                        struct na_plugin_addr **addr_p)
{
    const char *name = address_of_string(na_class, string);
    char canonical[KIT_NAME_MAX];
    int32_t ret = NA_PLUGIN_INVALID_ARG;

    if (name != NULL)
        ret = address_canonical(na_class, name, canonical);
    if (ret == NA_PLUGIN_INVALID_ARG)
        MPI_LOG_ERROR("'%s' is not an address of " MPI_PLUGIN_NAME "+%s: it is %s", string,
                      na_class->fabric.protocol,
                      na_class->is_dynamic
                          ? "the name of a port as the target printed it, '#' and a number"
                          : "the rank in MPI_COMM_WORLD, perhaps with '/' and a number");
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    return kit_msg_peer_lookup(&na_class->fabric, canonical, NULL, 0, addr_p);
}

/* Parses a static name; false when it is malformed. */
bool mpi_name_read(const char *name, int *rank_p, uint32_t *serial_p)
{
    uint64_t rank, serial = 0;

    if (!number_read(&name, INT32_MAX, &rank))
        return false;
    if (*name == '/') {
        name++;
        if (!number_read(&name, mpi_process.serials - 1, &serial))
            return false;
    }
    if (*name != '\0')
        return false;
    *rank_p = (int) rank;
    *serial_p = (uint32_t) serial;
    return true;
}

/* Parses a dynamic name; false when it is malformed, or of an endpoint that does not listen. */
bool mpi_port_read(const char *name, char port[KIT_NAME_MAX], uint32_t *serial_p)
{
    const char *separator = strrchr(name, '#');
    uint64_t serial;
    size_t length;

    if (separator == NULL || separator == name ||
        strncmp(name, MPI_ORIGIN_PREFIX, sizeof(MPI_ORIGIN_PREFIX) - 1) == 0)
        return false;
    length = (size_t) (separator - name);
    separator++;
    if (length >= KIT_NAME_MAX || !number_read(&separator, mpi_process.serials - 1, &serial) ||
        *separator != '\0')
        return false;
    memcpy(port, name, length);
    port[length] = '\0';
    *serial_p = (uint32_t) serial;
    return true;
}

static int32_t address_canonical(const struct na_plugin_class *na_class, const char *name,
                                 char canonical[KIT_NAME_MAX])
{
    char port[KIT_NAME_MAX];
    uint32_t serial;
    int rank;

    if (na_class->is_dynamic) {
        bool is_origin = strncmp(name, MPI_ORIGIN_PREFIX, sizeof(MPI_ORIGIN_PREFIX) - 1) == 0;

        if (strlen(name) >= KIT_NAME_MAX || (!is_origin && !mpi_port_read(name, port, &serial)))
            return NA_PLUGIN_INVALID_ARG;
        if (is_origin)
            (void) snprintf(canonical, KIT_NAME_MAX, "%s", name);
        else
            (void) snprintf(canonical, KIT_NAME_MAX, "%.230s#%u", port, serial);
        return NA_PLUGIN_SUCCESS;
    }
    if (!mpi_name_read(name, &rank, &serial))
        return NA_PLUGIN_INVALID_ARG;
    if (rank >= mpi_process.size) {
        MPI_LOG_ERROR("there is no rank %d among %d: %s", rank, mpi_process.size,
                      mpi_process.size > 1
                          ? "start more of them"
                          : "was this process started by mpiexec, together with the others?");
        return NA_PLUGIN_NOENTRY;
    }
    (void) snprintf(canonical, KIT_NAME_MAX, serial == 0 ? "%d" : "%d/%u", rank, serial);
    return NA_PLUGIN_SUCCESS;
}

/* As kit_address_name(), with each of the plugin's names. */
static const char *address_of_string(const struct na_plugin_class *na_class, const char *string)
{
    const char *protocol = na_class->fabric.protocol;
    const char *name = kit_address_name(string, MPI_PLUGIN_NAME, protocol);

    return name != NULL ? name : kit_address_name(string, "mpi", protocol);
}

static bool number_read(const char **text_p, uint64_t max, uint64_t *number_p)
{
    const char *text = *text_p;
    uint64_t number = 0;

    if (*text < '0' || *text > '9')
        return false;
    while (*text >= '0' && *text <= '9') {
        number = 10 * number + (uint64_t) (*text++ - '0');
        if (number > max)
            return false;
    }
    *text_p = text;
    *number_p = number;
    return true;
}
