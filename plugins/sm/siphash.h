/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SipHash-1-3 over whole words. Without the secret a process can neither predict a digest nor find
 * a second input that has it.
 */

#ifndef SM_SIPHASH_H
#define SM_SIPHASH_H

#include "kit_base.h"

struct sm_siphash {
    uint64_t v[4];
};

static inline uint64_t sm_rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void sm_siphash_round(struct sm_siphash *hash)
{
    uint64_t *v = hash->v;

    v[0] += v[1];
    v[1] = sm_rotate(v[1], 13) ^ v[0];
    v[0] = sm_rotate(v[0], 32);
    v[2] += v[3];
    v[3] = sm_rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = sm_rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = sm_rotate(v[1], 17) ^ v[2];
    v[2] = sm_rotate(v[2], 32);
}

static inline struct sm_siphash sm_siphash_begin(const struct kit_key *secret)
{
    return (struct sm_siphash){
        .v = {secret->word[0] ^ UINT64_C(0x736f6d6570736575),
              secret->word[1] ^ UINT64_C(0x646f72616e646f6d),
              secret->word[0] ^ UINT64_C(0x6c7967656e657261),
              secret->word[1] ^ UINT64_C(0x7465646279746573)},
    };
}

static inline void sm_siphash_word(struct sm_siphash *hash, uint64_t word)
{
    hash->v[3] ^= word;
    sm_siphash_round(hash);
    hash->v[0] ^= word;
}

static inline uint64_t sm_siphash_end(struct sm_siphash *hash)
{
    hash->v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sm_siphash_round(hash);
    return hash->v[0] ^ hash->v[1] ^ hash->v[2] ^ hash->v[3];
}

#endif /* SM_SIPHASH_H */
