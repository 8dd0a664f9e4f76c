/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seals: ChaCha20-Poly1305 (RFC 8439), with the bytes that are to be read before the seal is
 * checked as additional data; those are all where nothing is encrypted. The nonce is the number of
 * what is sealed, of which the low half travels. What the network did not take is sealed again
 * under its number; only the last of these leaves the process.
 */

#include "kit_auth.h"

#include <endian.h>
#include <sodium.h>
#include <string.h>

_Static_assert(crypto_aead_chacha20poly1305_IETF_NPUBBYTES == 12, "libsodium's nonces");
_Static_assert(KIT_AUTH_TAG == crypto_aead_chacha20poly1305_IETF_ABYTES, "libsodium's tags");
_Static_assert(KIT_AUTH_KEY == crypto_aead_chacha20poly1305_IETF_KEYBYTES, "libsodium's keys");

static void apply_stream(uint8_t *data, uint64_t size, uint64_t number, const uint8_t *key);
static uint64_t number_near(uint64_t last, uint32_t sequence);
static void nonce_make(uint8_t nonce[crypto_aead_chacha20poly1305_IETF_NPUBBYTES], uint64_t number,
                       uint32_t number_high);

void kit_auth_tag(uint8_t tag[KIT_AUTH_TAG], const uint8_t key[KIT_AUTH_KEY], uint64_t number,
                  uint32_t number_high, const void *data, uint64_t size)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_IETF_NPUBBYTES];
    uint8_t none;

    nonce_make(nonce, number, number_high);
    (void) crypto_aead_chacha20poly1305_ietf_encrypt_detached(&none, tag, NULL, NULL, 0, data, size,
                                                              NULL, nonce, key);
}

bool kit_auth_tag_fits(const uint8_t tag[KIT_AUTH_TAG], const uint8_t key[KIT_AUTH_KEY],
                       uint64_t number, uint32_t number_high, const void *data, uint64_t size)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_IETF_NPUBBYTES];

    nonce_make(nonce, number, number_high);
    return crypto_aead_chacha20poly1305_ietf_decrypt_detached(NULL, NULL, tag, 0, tag, data, size,
                                                              nonce, key) == 0;
}

void kit_seal_begin(struct kit_seal *seal, const struct kit_auth_keys *keys)
{
    memcpy(seal->send, keys->send, sizeof(seal->send));
    memcpy(seal->receive, keys->receive, sizeof(seal->receive));
    seal->sent = seal->received = 0;
}

void kit_seal_write(struct kit_seal *seal, uint32_t sequence, uint8_t *data, uint64_t clear,
                    uint64_t size)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_IETF_NPUBBYTES];

    seal->sent = number_near(seal->sent, sequence);
    nonce_make(nonce, seal->sent, 0);
    (void) crypto_aead_chacha20poly1305_ietf_encrypt_detached(data + clear, data + size, NULL,
                                                              data + clear, size - clear, data,
                                                              clear, NULL, nonce, seal->send);
}

void kit_seal_take_back(const struct kit_seal *seal, uint8_t *data, uint64_t clear, uint64_t size)
{
    apply_stream(data + clear, size - clear, seal->sent, seal->send);
}

/* Nothing is decrypted that is not right, and next: what is not may be somebody else's. */
enum kit_seal_result kit_seal_open(struct kit_seal *seal, uint32_t sequence, uint8_t *data,
                                   uint64_t clear, uint64_t size)
{
    const uint64_t number = number_near(seal->received, sequence);
    uint8_t nonce[crypto_aead_chacha20poly1305_IETF_NPUBBYTES];
    uint64_t expected = seal->received + 1;

    if (size < KIT_AUTH_TAG || clear > size - KIT_AUTH_TAG)
        return KIT_SEAL_NONE;
    size -= KIT_AUTH_TAG;
    nonce_make(nonce, number, 0);
    if (crypto_aead_chacha20poly1305_ietf_decrypt_detached(NULL, NULL, data + clear, size - clear,
                                                           data + size, data, clear, nonce,
                                                           seal->receive) != 0)
        return KIT_SEAL_NONE;
    if ((uint32_t) expected == 0)
        expected++; /* a sequence of 0 does not count */
    if (number != expected)
        return number > expected ? KIT_SEAL_LATER : KIT_SEAL_AGAIN;
    seal->received = number;
    apply_stream(data + clear, size - clear, number, seal->receive);
    return KIT_SEAL_NEXT;
}

/* Encrypts or decrypts: the cipher's block 0 makes the key of the tag, the data begin with 1. */
static void apply_stream(uint8_t *data, uint64_t size, uint64_t number, const uint8_t *key)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_IETF_NPUBBYTES];

    if (size == 0)
        return;
    nonce_make(nonce, number, 0);
    (void) crypto_stream_chacha20_ietf_xor_ic(data, data, size, nonce, 1, key);
}

/* The number with that low half that is nearest to the last one. */
static uint64_t number_near(uint64_t last, uint32_t sequence)
{
    return last + (uint64_t) (int64_t) (int32_t) (sequence - (uint32_t) last);
}

static void nonce_make(uint8_t nonce[crypto_aead_chacha20poly1305_IETF_NPUBBYTES], uint64_t number,
                       uint32_t number_high)
{
    const uint64_t wire = htole64(number);
    const uint32_t wire_high = htole32(number_high);

    memcpy(nonce, &wire, sizeof(wire));
    memcpy(nonce + sizeof(wire), &wire_high, sizeof(wire_high));
}
