/* SPDX-License-Identifier: BSD-3-Clause */
/* What others shall not guess: 128 bits of the system's random numbers. */

#ifndef FABRIC_RANDOM_H
#define FABRIC_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct fabric_key {
    uint64_t word[2];
};

/* Some at a time: asking the system takes as long as registering memory does. */
#define FABRIC_KEYS 16u
struct fabric_keys {
    struct fabric_key keys[FABRIC_KEYS];
    uint32_t left;
};

/*
 * NA_PLUGIN_IO_ERROR when the system has no random numbers: errno says why, and nothing may be
 * named by the key.
 */
int32_t fabric_key_draw(struct fabric_key *key);

/* The same out of a stock, which is filled up when it is empty. */
int32_t fabric_key_take(struct fabric_keys *keys, struct fabric_key *key);

static inline bool fabric_key_is_equal(const struct fabric_key *a, const struct fabric_key *b)
{
    return ((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1])) == 0;
}

#endif /* FABRIC_RANDOM_H */
