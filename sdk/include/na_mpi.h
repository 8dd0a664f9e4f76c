/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For programs that use MPI themselves, in addition to the transports mpi+static and mpi+dynamic.
 * Needs the header of the MPI whose plugin is used; without <mpi.h> in the include path this header
 * is empty.
 *
 * Initialisation of MPI: if the program has not initialised it, the first class over MPI does so,
 * with MPI_THREAD_MULTIPLE, and MPI is then used until the process ends. A program that initialises
 * MPI itself requests MPI_THREAD_MULTIPLE, too, or opens its classes with NA_THREAD_MODE_SINGLE,
 * and calls MPI_Finalize after the last class is closed. With mpi+static, opening the first class
 * is collective over the communicator: all of its ranks open one.
 */

#ifndef NA_MPI_H
#define NA_MPI_H

#include "na.h"

#if !defined(__has_include) || __has_include(<mpi.h>)

#    include <mpi.h>
#    include <stdio.h>
#    include <stdlib.h>
#    include <string.h>

#    ifdef __cplusplus
extern "C" {
#    elif defined(__STRICT_ANSI__)
/* The C library hides POSIX functions in ISO C mode. */
int setenv(const char *name, const char *value, int overwrite);
int unsetenv(const char *name);
#    endif

/**
 * Set the communicator whose ranks the addresses of mpi+static are. It is duplicated when the next
 * class is opened, so the program may continue to use it; the duplicate exists as long as MPI,
 * which supports some thousands at most. Processes that the program starts inherit the setting in
 * their environment (AMALGAM_MPI_COMM), where it is meaningless: they must unset it.
 *
 * \param intra_comm  an intra-communicator, valid until the next class is open; MPI_COMM_NULL for
 *                    MPI_COMM_WORLD again
 *
 * \return NA_SUCCESS; NA_FAULT if MPI is not initialised; NA_NOMEM if there is no memory for it
 *
 * While no other thread uses the environment or opens a class. \since 1.0
 */
static inline na_return_t NA_MPI_Set_init_intra_comm(MPI_Comm intra_comm)
{
    int is_initialized = 0;
    char text[32];

    if (intra_comm == MPI_COMM_NULL)
        return unsetenv("AMALGAM_MPI_COMM") == 0 ? NA_SUCCESS : NA_NOMEM;
    if (MPI_Initialized(&is_initialized) != MPI_SUCCESS || is_initialized == 0)
        return NA_FAULT;
    (void) snprintf(text, sizeof(text), "%ld", (long) MPI_Comm_c2f(intra_comm));
    return setenv("AMALGAM_MPI_COMM", text, 1) == 0 ? NA_SUCCESS : NA_NOMEM;
}

/**
 * Get the name of the port of MPI at which a class of mpi+dynamic listens. Addresses contain it;
 * this is for programs that pass it on in other ways.
 *
 * \param na_class [IN]  a class
 *
 * \return the name, overwritten by the next call from the same source file; NULL if the class does
 *         not listen at a port
 *
 * One thread at a time. \since 1.0
 */
static inline const char *NA_MPI_Get_port_name(na_class_t *na_class)
{
    static char text[512];
    size_t size = sizeof(text);
    na_addr_t *self = NULL;
    char *begin, *end;
    na_return_t ret;

    if (NA_Addr_self(na_class, &self) != NA_SUCCESS)
        return NULL;
    ret = NA_Addr_to_string(na_class, text, &size, self);
    NA_Addr_free(na_class, self);
    if (ret != NA_SUCCESS)
        return NULL;
    begin = strstr(text, "+dynamic://");
    end = strrchr(text, '#');
    if (begin == NULL || end == NULL)
        return NULL;
    *end = '\0';
    return begin + strlen("+dynamic://");
}

/**
 * Prepare the interfaces of a Cray Aries network for the job. No transport of Amalgam needs that:
 * the MPI library sets up its network. For programs that call it without checking
 * NA_MPI_HAS_GNI_SETUP, which is not defined.
 *
 * \return NA_OPNOTSUPPORTED
 *
 * Any thread. \since 1.1
 */
static inline na_return_t NA_MPI_Gni_job_setup(void)
{
    return NA_OPNOTSUPPORTED;
}

#    ifdef __cplusplus
}
#    endif

#endif /* mpi.h */

#endif /* NA_MPI_H */
