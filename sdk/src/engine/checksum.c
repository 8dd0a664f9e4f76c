/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/checksum.h"

#include <xxhash.h>

uint64_t hg_checksum(const void *data, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, size, seed);
}
