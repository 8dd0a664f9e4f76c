/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys of classes: made of what a program passes as auth_key, and the tags that messages carry
 * under them.
 */
#ifndef HG_KEY_H
#define HG_KEY_H

#include <stddef.h>
#include <stdint.h>

struct hg_key {
    uint64_t k0;
    uint64_t k1;
};

/* How often the text is hashed: who tries texts pays as much for each of them. */
#define HG_KEY_ROUNDS 10000u

/* PBKDF2 with HMAC-SHA-256: 16 bytes. */
void hg_key_derive(struct hg_key *key, const void *text, size_t text_size, const void *salt,
                   size_t salt_size, uint32_t rounds);

/* SipHash-2-4 of two pieces as if they were joined; first_size is a multiple of 8. */
uint64_t hg_key_tag(const struct hg_key *key, const void *first, size_t first_size,
                    const void *second, size_t second_size);

#endif /* HG_KEY_H */
