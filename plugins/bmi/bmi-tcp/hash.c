/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash by which listeners name themselves on the wire: Bob Jenkins' lookup3, little-endian. */

#include "tcp.h"

#define BLOCK 12u

static uint32_t rotate(uint32_t value, unsigned bits);
static uint32_t word(const uint8_t *bytes, size_t size, size_t at);
static void mix(uint32_t state[3]);
static uint32_t finish(uint32_t state[3]);

uint32_t tcp_hash(const char *name)
{
    const uint8_t *bytes = (const uint8_t *) name;
    size_t size = strlen(name);
    uint32_t start = 0xdeadbeefu + (uint32_t) size + WIRE_HASH_SEED;
    uint32_t state[3] = {start, start, start};

    for (; size > BLOCK; size -= BLOCK, bytes += BLOCK) {
        for (size_t i = 0; i < 3; i++)
            state[i] += word(bytes, size, 4 * i);
        mix(state);
    }
    if (size == 0)
        return state[2];
    for (size_t i = 0; i < 3; i++)
        state[i] += word(bytes, size, 4 * i);
    return finish(state);
}

static uint32_t rotate(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

/* Four bytes, zeroes for those past the end. */
static uint32_t word(const uint8_t *bytes, size_t size, size_t at)
{
    uint32_t value = 0;

    for (size_t i = 0; i < 4 && at + i < size; i++)
        value |= (uint32_t) bytes[at + i] << (8 * i);
    return value;
}

static void mix(uint32_t state[3])
{
    static const unsigned bits[6] = {4, 6, 8, 16, 19, 4};

    for (size_t i = 0; i < 6; i++) {
        uint32_t *a = &state[i % 3], *b = &state[(i + 1) % 3], *c = &state[(i + 2) % 3];

        *a -= *c;
        *a ^= rotate(*c, bits[i]);
        *c += *b;
    }
}

static uint32_t finish(uint32_t state[3])
{
    static const unsigned bits[7] = {14, 11, 25, 16, 4, 14, 24};

    for (size_t i = 0; i < 7; i++) {
        uint32_t *c = &state[(i + 2) % 3], *b = &state[(i + 1) % 3];

        *c ^= *b;
        *c -= rotate(*b, bits[i]);
    }
    return state[2];
}
