/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processing of strings. Decoding allocates strings by malloc(); HG_FREE, and so HG_Free_input()
 * and HG_Free_output(), frees them. A NULL string is decoded as NULL.
 *
 * Raw encoding: 32-bit length including the final NUL (0 for NULL), then the characters and the
 * NUL. Portable encoding: an XDR string, and the length 0xffffffff alone for NULL.
 */
#ifndef MERCURY_PROC_STRING_H
#define MERCURY_PROC_STRING_H

#include "mercury_proc.h"
#include "mercury_string_object.h"

typedef const char *hg_const_string_t; /* a NUL-terminated constant string */
typedef char *hg_string_t;             /* a NUL-terminated string */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Process a constant string.
 *
 * \param proc [IN]         processor
 * \param data [IN,OUT]     pointer to an hg_const_string_t
 *
 * \return HG_SUCCESS; HG_OVERFLOW if the string exceeds the message being decoded or is 4 GiB or
 *         longer; HG_PROTOCOL_ERROR if it has a NUL anywhere but at its end; HG_NOMEM
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_hg_const_string_t(hg_proc_t proc, void *data);

/**
 * Handle a string.
 *
 * \param proc [IN]         processor
 * \param data [IN,OUT]     pointer to an hg_string_t
 *
 * \return as hg_proc_hg_const_string_t()
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_hg_string_t(hg_proc_t proc, void *data);

/**
 * Process a string object. A decoded one owns its string.
 *
 * \param proc [IN]         processor
 * \param string [IN,OUT]   pointer to an hg_string_object_t
 *
 * \return as hg_proc_hg_const_string_t()
 *
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_hg_string_object_t(hg_proc_t proc, void *string);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_PROC_STRING_H */
