/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash of strings.
 */
#include "mercury_hash_string.h"

unsigned int hg_hash_string(const char *string)
{
    unsigned int hash = 5381;

    for (; *string != '\0'; string++)
        hash = hash * 33 + (unsigned char) *string;
    return hash;
}
