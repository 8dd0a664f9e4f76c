/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seals: ChaCha20-Poly1305 (RFC 8439), or AES-256-GCM between two machines that have instructions
 * for it. Bytes that are not encrypted are additional data; without encryption these are all. The
 * nonce is the number of the message, whose low half is sent. A message that the network refused is
 * sealed again under the same number, but only one version of it ever leaves the process.
 */

#include "kit_auth.h"

#include <endian.h>
#include <sodium.h>
#include <string.h>

#define NONCE crypto_aead_chacha20poly1305_IETF_NPUBBYTES

_Static_assert(NONCE == 12 && NONCE == crypto_aead_aes256gcm_NPUBBYTES, "libsodium's nonces");
_Static_assert(KIT_AUTH_TAG == crypto_aead_chacha20poly1305_IETF_ABYTES &&
                   KIT_AUTH_TAG == crypto_aead_aes256gcm_ABYTES,
               "libsodium's tags");
_Static_assert(KIT_AUTH_KEY == crypto_aead_chacha20poly1305_IETF_KEYBYTES &&
                   KIT_AUTH_KEY == crypto_aead_aes256gcm_KEYBYTES,
               "libsodium's keys");
_Static_assert(sizeof(crypto_aead_aes256gcm_state) == 512 &&
                   _Alignof(crypto_aead_aes256gcm_state) <= _Alignof(struct kit_seal_contexts),
               "libsodium's contexts");

static void aes_write(const struct kit_seal *seal, uint8_t *data, uint64_t clear, uint64_t size);
static bool aes_open(const struct kit_seal *seal, uint8_t *opened, uint64_t number,
                     const uint8_t *data, uint64_t clear, uint64_t size);
static void apply_stream(uint8_t *data, uint64_t size, uint64_t number, const uint8_t *key);
static uint64_t number_near(uint64_t last, uint32_t sequence);
static void nonce_make(uint8_t nonce[NONCE], uint64_t number, uint32_t number_high);

void kit_auth_write(uint8_t tag[KIT_AUTH_TAG], const uint8_t key[KIT_AUTH_KEY], uint64_t number,
                    uint32_t number_high, void *data, uint64_t clear, uint64_t size)
{
    uint8_t nonce[NONCE], *secret = (uint8_t *) data + clear;

    nonce_make(nonce, number, number_high);
    (void) crypto_aead_chacha20poly1305_ietf_encrypt_detached(
        secret, tag, NULL, secret, size - clear, data, clear, NULL, nonce, key);
}

bool kit_auth_fits(const uint8_t tag[KIT_AUTH_TAG], const uint8_t key[KIT_AUTH_KEY],
                   uint64_t number, uint32_t number_high, const void *data, uint64_t clear,
                   uint64_t size)
{
    uint8_t nonce[NONCE];

    nonce_make(nonce, number, number_high);
    return crypto_aead_chacha20poly1305_ietf_decrypt_detached(
               NULL, NULL, (const uint8_t *) data + clear, size - clear, tag, data, clear, nonce,
               key) == 0;
}

bool kit_auth_has_aes(void)
{
    return crypto_aead_aes256gcm_is_available() != 0;
}

void kit_seal_begin(struct kit_seal *seal, const struct kit_auth_keys *keys, bool is_aes)
{
    *seal = (struct kit_seal){.is_aes = is_aes};
    memcpy(seal->send, keys->send, sizeof(seal->send));
    memcpy(seal->receive, keys->receive, sizeof(seal->receive));
}

void kit_seal_prepare(struct kit_seal *seal, struct kit_seal_contexts *contexts)
{
    seal->contexts = NULL;
    if (!seal->is_aes)
        return;
    (void) crypto_aead_aes256gcm_beforenm((void *) contexts->send, seal->send);
    (void) crypto_aead_aes256gcm_beforenm((void *) contexts->receive, seal->receive);
    seal->contexts = contexts;
}

void kit_seal_write(struct kit_seal *seal, uint32_t sequence, uint8_t *data, uint64_t clear,
                    uint64_t size)
{
    seal->sent = number_near(seal->sent, sequence);
    if (seal->is_aes)
        aes_write(seal, data, clear, size);
    else
        kit_auth_write(data + size, seal->send, seal->sent, 0, data, clear, size);
}

void kit_seal_take_back(const struct kit_seal *seal, uint8_t *data, uint64_t clear, uint64_t size)
{
    struct kit_seal turned = *seal;

    if (!seal->is_aes) {
        apply_stream(data + clear, size - clear, seal->sent, seal->send);
    } else if (size != clear) {
        memcpy(turned.receive, seal->send, sizeof(turned.receive));
        turned.contexts = NULL;
        (void) aes_open(&turned, data + clear, seal->sent, data, clear, size);
        sodium_memzero(&turned, sizeof(turned));
    }
}

/* Only a valid next message is decrypted: another one may have to be tried with another seal. */
enum kit_seal_result kit_seal_open(struct kit_seal *seal, uint32_t sequence, uint8_t *data,
                                   uint64_t clear, uint64_t size, bool is_last)
{
    const uint64_t number = number_near(seal->received, sequence);
    uint64_t expected = seal->received + 1;
    bool is_opened = false, fits;

    if (size < KIT_AUTH_TAG || clear > size - KIT_AUTH_TAG)
        return KIT_SEAL_NONE;
    size -= KIT_AUTH_TAG;
    if ((uint32_t) expected == 0)
        expected++; /* a sequence of 0 is never used */
    if (seal->is_aes) {
        is_opened = is_last && number == expected;
        fits = aes_open(seal, is_opened ? data + clear : NULL, number, data, clear, size);
    } else {
        fits = kit_auth_fits(data + size, seal->receive, number, 0, data, clear, size);
    }
    if (!fits)
        return KIT_SEAL_NONE;
    if (number != expected)
        return number > expected ? KIT_SEAL_LATER : KIT_SEAL_AGAIN;
    seal->received = number;
    if (!seal->is_aes)
        apply_stream(data + clear, size - clear, number, seal->receive);
    else if (!is_opened && size != clear)
        (void) aes_open(seal, data + clear, number, data, clear, size);
    return KIT_SEAL_NEXT;
}

static void aes_write(const struct kit_seal *seal, uint8_t *data, uint64_t clear, uint64_t size)
{
    uint8_t nonce[NONCE], *secret = data + clear;

    nonce_make(nonce, seal->sent, 0);
    if (seal->contexts != NULL)
        (void) crypto_aead_aes256gcm_encrypt_detached_afternm(
            secret, data + size, NULL, secret, size - clear, data, clear, NULL, nonce,
            (const void *) seal->contexts->send);
    else
        (void) crypto_aead_aes256gcm_encrypt_detached(
            secret, data + size, NULL, secret, size - clear, data, clear, NULL, nonce, seal->send);
}

/* True if the tag behind `size` bytes is valid; decrypts into `opened`, unless that is NULL. */
static bool aes_open(const struct kit_seal *seal, uint8_t *opened, uint64_t number,
                     const uint8_t *data, uint64_t clear, uint64_t size)
{
    uint8_t nonce[NONCE];

    nonce_make(nonce, number, 0);
    if (seal->contexts != NULL)
        return crypto_aead_aes256gcm_decrypt_detached_afternm(
                   opened, NULL, data + clear, size - clear, data + size, data, clear, nonce,
                   (const void *) seal->contexts->receive) == 0;
    return crypto_aead_aes256gcm_decrypt_detached(opened, NULL, data + clear, size - clear,
                                                  data + size, data, clear, nonce,
                                                  seal->receive) == 0;
}

/* Encrypts or decrypts. Block 0 of the cipher is the key of the tag, so the data begin at 1. */
static void apply_stream(uint8_t *data, uint64_t size, uint64_t number, const uint8_t *key)
{
    uint8_t nonce[NONCE];

    if (size == 0)
        return;
    nonce_make(nonce, number, 0);
    (void) crypto_stream_chacha20_ietf_xor_ic(data, data, size, nonce, 1, key);
}

/* Returns the number with that low half which is nearest to the last one. */
static uint64_t number_near(uint64_t last, uint32_t sequence)
{
    return last + (uint64_t) (int64_t) (int32_t) (sequence - (uint32_t) last);
}

static void nonce_make(uint8_t nonce[NONCE], uint64_t number, uint32_t number_high)
{
    const uint64_t wire = htole64(number);
    const uint32_t wire_high = htole32(number_high);

    memcpy(nonce, &wire, sizeof(wire));
    memcpy(nonce + sizeof(wire), &wire_high, sizeof(wire_high));
}
