/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Identity of the host, which tells whether two processes run on the same machine, under the same
 * boot of its kernel. In spite of the names it does not depend on any transport.
 */

#ifndef NA_SM_H
#define NA_SM_H

#include "na_types.h"

/* Host id: 16 bytes, the same in all processes of one machine until it boots again. */
#ifdef NA_SM_HAS_UUID
typedef unsigned char na_sm_id_t[16];
#else
typedef long na_sm_id_t;
#endif

/* Length of a host id as a string, without the null that ends it. */
#ifdef NA_SM_HAS_UUID
#    define NA_SM_HOST_ID_LEN 36
#else
#    define NA_SM_HOST_ID_LEN 11
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Get the id of this host. It is the kernel's boot id, so that processes in different containers of
 * one machine agree; where that cannot be read, one derived from the machine id or the host name.
 *
 * \param id_p [OUT]  receives the id
 *
 * \return NA_SUCCESS; NA_INVALID_ARG if id_p is NULL; NA_NOENTRY if the machine has none of these
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_SM_Host_id_get(na_sm_id_t *id_p);

/**
 * Write a host id as a string, in the form 8-4-4-4-12 of lower-case hexadecimal digits.
 *
 * \param id [IN]       the id
 * \param string [OUT]  receives NA_SM_HOST_ID_LEN characters and a null
 *
 * \return NA_SUCCESS; NA_INVALID_ARG if string is NULL
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_SM_Host_id_to_string(na_sm_id_t id, char *string);

/**
 * Read a host id from a string that NA_SM_Host_id_to_string() wrote.
 *
 * \param string [IN]  NA_SM_HOST_ID_LEN characters and a null
 * \param id_p [OUT]   receives the id; not touched on error
 *
 * \return NA_SUCCESS; NA_INVALID_ARG if a pointer is NULL; NA_PROTOCOL_ERROR if the string has not
 *         that form
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC na_return_t NA_SM_String_to_host_id(const char *string, na_sm_id_t *id_p);

/**
 * Copy a host id.
 *
 * \param dst_p [OUT]  receives the copy
 * \param src [IN]     the id
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC void NA_SM_Host_id_copy(na_sm_id_t *dst_p, na_sm_id_t src);

/**
 * Compare two host ids.
 *
 * \param id1  an id
 * \param id2  another
 *
 * \return true if both mean the same host
 *
 * Any thread. \since 1.0
 */
NA_PUBLIC bool NA_SM_Host_id_cmp(na_sm_id_t id1, na_sm_id_t id2);

#ifdef __cplusplus
}
#endif

#endif /* NA_SM_H */
