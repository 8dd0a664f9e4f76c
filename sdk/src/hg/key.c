/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SHA-256 (FIPS 180-4), PBKDF2 with HMAC of it (RFC 8018) and SipHash-2-4 (Aumasson, Bernstein).
 */
#include "hg/key.h"

#include <endian.h>
#include <string.h>

#define SHA_BLOCK  64u
#define SHA_DIGEST 32u
#define SHA_WORDS  8u

struct sha {
    uint32_t state[SHA_WORDS];
    uint64_t size;
    uint8_t block[SHA_BLOCK];
};

struct sip {
    uint64_t v[4];
};

static void sha_start(struct sha *sha);
static void sha_add(struct sha *sha, const void *data, size_t size);
static void sha_end(struct sha *sha, uint8_t digest[SHA_DIGEST]);
static void sha_compress(uint32_t state[SHA_WORDS], const uint8_t *block);
static void hmac_start(struct sha *inner, struct sha *outer, const void *text, size_t size);
static void hmac_end(struct sha inner, struct sha outer, uint8_t digest[SHA_DIGEST]);
static void sip_words(struct sip *sip, const uint8_t *data, size_t count);
static void sip_round(struct sip *sip);

void hg_key_derive(struct hg_key *key, const void *text, size_t text_size, const void *salt,
                   size_t salt_size, uint32_t rounds)
{
    static const uint8_t first[4] = {0, 0, 0, 1};
    uint8_t digest[SHA_DIGEST], sum[SHA_DIGEST];
    struct sha inner, outer, message;

    hmac_start(&inner, &outer, text, text_size);
    message = inner;
    sha_add(&message, salt, salt_size);
    sha_add(&message, first, sizeof(first));
    hmac_end(message, outer, digest);
    memcpy(sum, digest, sizeof(sum));
    for (uint32_t round = 1; round < rounds; round++) {
        message = inner;
        sha_add(&message, digest, sizeof(digest));
        hmac_end(message, outer, digest);
        for (size_t i = 0; i < sizeof(sum); i++)
            sum[i] ^= digest[i];
    }
    memcpy(&key->k0, sum, sizeof(key->k0));
    memcpy(&key->k1, sum + sizeof(key->k0), sizeof(key->k1));
    key->k0 = le64toh(key->k0);
    key->k1 = le64toh(key->k1);
}

uint64_t hg_key_tag(const struct hg_key *key, const void *first, size_t first_size,
                    const void *second, size_t second_size)
{
    struct sip sip = {
        {key->k0 ^ UINT64_C(0x736f6d6570736575), key->k1 ^ UINT64_C(0x646f72616e646f6d),
         key->k0 ^ UINT64_C(0x6c7967656e657261), key->k1 ^ UINT64_C(0x7465646279746573)}};
    const size_t tail = second_size % 8;
    uint8_t last[8] = {0};

    sip_words(&sip, first, first_size / 8);
    sip_words(&sip, second, second_size / 8);
    if (tail > 0)
        memcpy(last, (const uint8_t *) second + second_size - tail, tail);
    last[7] = (uint8_t) (first_size + second_size);
    sip_words(&sip, last, 1);
    sip.v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(&sip);
    return sip.v[0] ^ sip.v[1] ^ sip.v[2] ^ sip.v[3];
}

static void sip_words(struct sip *sip, const uint8_t *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word;

        memcpy(&word, data + 8 * i, sizeof(word));
        word = le64toh(word);
        sip->v[3] ^= word;
        sip_round(sip);
        sip_round(sip);
        sip->v[0] ^= word;
    }
}

static inline uint64_t rotate64(uint64_t value, unsigned int bits)
{
    return value << bits | value >> (64 - bits);
}

static void sip_round(struct sip *sip)
{
    uint64_t *v = sip->v;

    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate64(v[1], 13) ^ v[0];
    v[3] = rotate64(v[3], 16) ^ v[2];
    v[0] = rotate64(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate64(v[1], 17) ^ v[2];
    v[3] = rotate64(v[3], 21) ^ v[0];
    v[2] = rotate64(v[2], 32);
}

/* The two hashes of an HMAC, each after its pad. */
static void hmac_start(struct sha *inner, struct sha *outer, const void *text, size_t size)
{
    uint8_t key[SHA_BLOCK] = {0}, pad[SHA_BLOCK];

    if (size > sizeof(key)) {
        sha_start(inner);
        sha_add(inner, text, size);
        sha_end(inner, key);
    } else {
        memcpy(key, text, size);
    }
    for (size_t i = 0; i < sizeof(key); i++)
        pad[i] = key[i] ^ 0x36;
    sha_start(inner);
    sha_add(inner, pad, sizeof(pad));
    for (size_t i = 0; i < sizeof(key); i++)
        pad[i] = key[i] ^ 0x5c;
    sha_start(outer);
    sha_add(outer, pad, sizeof(pad));
}

static void hmac_end(struct sha inner, struct sha outer, uint8_t digest[SHA_DIGEST])
{
    sha_end(&inner, digest);
    sha_add(&outer, digest, SHA_DIGEST);
    sha_end(&outer, digest);
}

static void sha_start(struct sha *sha)
{
    static const uint32_t state[SHA_WORDS] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memcpy(sha->state, state, sizeof(state));
    sha->size = 0;
}

static void sha_add(struct sha *sha, const void *data, size_t size)
{
    const uint8_t *bytes = data;

    while (size > 0) {
        const size_t used = (size_t) (sha->size % SHA_BLOCK);
        const size_t count = size < SHA_BLOCK - used ? size : SHA_BLOCK - used;

        memcpy(sha->block + used, bytes, count);
        sha->size += count;
        bytes += count;
        size -= count;
        if (used + count == SHA_BLOCK)
            sha_compress(sha->state, sha->block);
    }
}

static void sha_end(struct sha *sha, uint8_t digest[SHA_DIGEST])
{
    static const uint8_t padding[SHA_BLOCK] = {0x80};
    const uint64_t bits = htobe64(sha->size * 8);
    const size_t used = (size_t) (sha->size % SHA_BLOCK);

    sha_add(sha, padding, used < SHA_BLOCK - 8 ? SHA_BLOCK - 8 - used : 2 * SHA_BLOCK - 8 - used);
    sha_add(sha, &bits, sizeof(bits));
    for (size_t i = 0; i < SHA_WORDS; i++) {
        const uint32_t word = htobe32(sha->state[i]);

        memcpy(digest + 4 * i, &word, sizeof(word));
    }
}

static inline uint32_t rotate32(uint32_t value, unsigned int bits)
{
    return value >> bits | value << (32 - bits);
}

static void sha_compress(uint32_t state[SHA_WORDS], const uint8_t *block)
{
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
        0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
        0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
        0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
        0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
        0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
        0xc67178f2};
    uint32_t w[64], s[SHA_WORDS];

    for (size_t i = 0; i < 16; i++) {
        memcpy(&w[i], block + 4 * i, sizeof(w[i]));
        w[i] = be32toh(w[i]);
    }
    for (size_t i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] +
               (rotate32(w[i - 15], 7) ^ rotate32(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (rotate32(w[i - 2], 17) ^ rotate32(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, state, sizeof(s));
    for (size_t i = 0; i < 64; i++) {
        const uint32_t one = s[7] + (rotate32(s[4], 6) ^ rotate32(s[4], 11) ^ rotate32(s[4], 25)) +
                             ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
        const uint32_t two = (rotate32(s[0], 2) ^ rotate32(s[0], 13) ^ rotate32(s[0], 22)) +
                             ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

        memmove(s + 1, s, 7 * sizeof(s[0]));
        s[4] += one;
        s[0] = one + two;
    }
    for (size_t i = 0; i < SHA_WORDS; i++)
        state[i] += s[i];
}
