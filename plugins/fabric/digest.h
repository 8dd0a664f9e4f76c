/* SPDX-License-Identifier: BSD-3-Clause */
/* A digest of bytes that tells damage and differing names, but stops no forger: FNV-1a. */

#ifndef FABRIC_DIGEST_H
#define FABRIC_DIGEST_H

#include <stdint.h>

/* What fabric_digest_add() begins with. */
#define FABRIC_DIGEST_NONE UINT64_C(0xcbf29ce484222325)

/* The digest of what `digest` is of, and these bytes behind it. */
static inline uint64_t fabric_digest_add(uint64_t digest, const void *data, uint64_t size)
{
    const uint8_t *bytes = (const uint8_t *) data;

    for (uint64_t i = 0; i < size; i++)
        digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3);
    return digest;
}

/* Not 0; its low half is as good as the high one. */
static inline uint64_t fabric_digest(const void *data, uint64_t size)
{
    uint64_t digest = fabric_digest_add(FABRIC_DIGEST_NONE, data, size);

    digest ^= digest >> 32;
    return digest != 0 ? digest : 1;
}

#endif /* FABRIC_DIGEST_H */
