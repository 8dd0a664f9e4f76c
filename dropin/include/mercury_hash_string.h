/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash of strings.
 */
#ifndef MERCURY_HASH_STRING_H
#define MERCURY_HASH_STRING_H

#include "mercury_util_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Hash a string by the function that is known as djb2: start at 5381, then for each byte multiply
 * by 33 and add the byte.
 *
 * \param string [IN]   string
 *
 * \return hash
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC unsigned int hg_hash_string(const char *string);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_HASH_STRING_H */
