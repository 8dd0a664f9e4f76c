/* SPDX-License-Identifier: BSD-3-Clause */
/* The checksum of messages, descriptors and processors. */
#ifndef HG_ENGINE_CHECKSUM_H
#define HG_ENGINE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* XXH3 of `size` bytes, continuing from `seed` (0 at the start). */
uint64_t hg_checksum(const void *data, size_t size, uint64_t seed);

#endif /* HG_ENGINE_CHECKSUM_H */
