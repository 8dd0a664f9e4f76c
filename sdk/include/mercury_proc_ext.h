/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choice of the encoding of RPC arguments; an addition of Amalgam.
 *
 * Raw: integers as they lie in memory, little-endian, without padding. The default and the fastest.
 * Portable: XDR (RFC 4506): big-endian, items in units of four bytes. For clusters of mixed
 * machines and for peers in other languages.
 *
 * Both sides of an RPC must use the same encoding; a message in the other encoding is refused.
 */
#ifndef MERCURY_PROC_EXT_H
#define MERCURY_PROC_EXT_H

#include "mercury_types.h"

/* Encodings of RPC arguments. */
enum hg_proc_encoding {
    HG_PROC_ENCODING_RAW = 0,     /* little-endian memory image */
    HG_PROC_ENCODING_PORTABLE = 1 /* XDR */
};

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Set the encoding of a class. Call it after HG_Init() and before the first HG_Create(),
 * HG_Context_create() or hg_proc_create(): existing objects keep their encoding.
 *
 * \param hg_class [IN]     class
 * \param encoding [IN]     encoding
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if the class is NULL or the encoding is none of the values
 *
 * Any thread. \since 1.0
 */
HG_PUBLIC hg_return_t hg_proc_class_set_encoding(hg_class_t *hg_class,
                                                 enum hg_proc_encoding encoding);

/**
 * \return encoding of a class
 * \param hg_class [IN]     class
 * Any thread. \since 1.0
 */
HG_PUBLIC enum hg_proc_encoding hg_proc_class_get_encoding(const hg_class_t *hg_class);

/**
 * \return encoding that a processor uses
 * \param proc [IN]     processor
 * One thread at a time for a processor. \since 1.0
 */
HG_PUBLIC enum hg_proc_encoding hg_proc_get_encoding(hg_proc_t proc);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_PROC_EXT_H */
