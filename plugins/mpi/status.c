/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's errors, as status codes and as text. */

#include "mpi_class.h"

#include <stdio.h>

int32_t mpi_status(int error)
{
    int class = MPI_ERR_OTHER;

    if (error == MPI_SUCCESS)
        return NA_PLUGIN_SUCCESS;
    (void) MPI_Error_class(error, &class);
    switch (class) {
    case MPI_ERR_NO_MEM:
        return NA_PLUGIN_NOMEM;
    case MPI_ERR_TRUNCATE:
        return NA_PLUGIN_MSGSIZE;
    case MPI_ERR_ARG:
    case MPI_ERR_COUNT:
    case MPI_ERR_TAG:
    case MPI_ERR_COMM:
        return NA_PLUGIN_INVALID_ARG;
    case MPI_ERR_RANK:
    case MPI_ERR_PORT:
        return NA_PLUGIN_HOSTUNREACH;
    default:
        return NA_PLUGIN_IO_ERROR;
    }
}

/* Returns the first line of MPI's error text, for the log. */
const char *mpi_text(int error, char text[MPI_TEXT_MAX])
{
    char full[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;

    if (MPI_Error_string(error, full, &length) != MPI_SUCCESS)
        full[0] = '\0';
    for (char *c = full; *c != '\0'; c++)
        if (*c == '\n')
            *c = '\0';
    (void) snprintf(text, MPI_TEXT_MAX, "MPI error %d: %.100s", error, full);
    return text;
}
