/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authentication by a key that processes share (auth_key). A secret is made of the key's text, two
 * processes prove to each other in an exchange that both have it, and seal their data afterwards.
 *
 * The exchange is CPace over ristretto255, a balanced PAKE: each side sends one share, a random
 * multiple of a generator that is derived from the secret. An observer cannot test guesses of the
 * key offline; an active attacker tests one guess in each exchange. The descriptions that both
 * sides send of themselves are part of the keys (docs/decisions/0030). Cryptography is libsodium's.
 *
 * This layer uses nothing of the kit, because the HG library, which has sessions of its own where a
 * plugin does not authenticate, is linked with the same source. Only kit_auth_secret_get() blocks.
 * Unless a comment says otherwise any thread may call a function as long as no other thread uses
 * the same object. Since 1.1.
 */

#ifndef KIT_AUTH_H
#define KIT_AUTH_H

#include "na_plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KIT_AUTH_KEY   32u /* bytes of a key or a digest */
#define KIT_AUTH_SHARE 32u /* bytes of a share */
#define KIT_AUTH_CODE  16u /* bytes of a code that proves a key */
#define KIT_AUTH_TAG   16u /* bytes that a seal adds */

struct kit_auth_secret; /* in locked memory; classes of a process with the same text share it */

/* One side of an exchange. The caller wipes it by kit_auth_wipe(). */
struct kit_auth_exchange {
    uint8_t scalar[KIT_AUTH_KEY];
    uint8_t share[KIT_AUTH_SHARE]; /* sent to the other side */
};

/* Keys that result from an exchange. The caller wipes them. */
struct kit_auth_keys {
    uint8_t send[KIT_AUTH_KEY]; /* the other side's `receive` */
    uint8_t receive[KIT_AUTH_KEY];
    uint8_t confirm_own[KIT_AUTH_KEY]; /* the other side's `confirm_their` */
    uint8_t confirm_their[KIT_AUTH_KEY];
};

/* Expanded AES-256-GCM keys of a seal that is used often. The caller wipes them. */
struct kit_seal_contexts {
    uint8_t send[512] __attribute__((aligned(16)));
    uint8_t receive[512];
};

/* Keys and counters for sealing between two processes. The caller wipes it. */
struct kit_seal {
    uint8_t send[KIT_AUTH_KEY];
    uint8_t receive[KIT_AUTH_KEY];
    uint64_t sent;                      /* number of the last message sent */
    uint64_t received;                  /* number of the last message received */
    struct kit_seal_contexts *contexts; /* NULL: keys are expanded for each message */
    bool is_aes;                        /* AES-256-GCM; else ChaCha20-Poly1305 */
};

/* What kit_seal_open() found out about a message. */
enum kit_seal_result {
    KIT_SEAL_NONE,  /* the tag is not of this seal */
    KIT_SEAL_NEXT,  /* the next message */
    KIT_SEAL_LATER, /* messages before this one were lost */
    KIT_SEAL_AGAIN  /* a replay, or late */
};

/*
 * Returns the secret of a text, valid until kit_auth_secret_close() drops the reference to it; NULL
 * without a text or for an empty one. Takes a tenth of a second and 64 MiB (Argon2id) unless a
 * class of the process has that text already. Any thread.
 *
 * NA_PLUGIN_SUCCESS, NA_PLUGIN_NOMEM, or NA_PLUGIN_IO_ERROR if libsodium cannot be initialized.
 */
int32_t kit_auth_secret_get(const char *text, struct kit_auth_secret **secret_p);

/* Drops a reference; the last one wipes the secret. NULL is allowed. Any thread. */
void kit_auth_secret_close(struct kit_auth_secret *secret);

/* Draws a scalar and computes the share. */
void kit_auth_exchange_begin(const struct kit_auth_secret *secret,
                             struct kit_auth_exchange *exchange);

/*
 * Derives the keys from a received share. The digests are of the description that each side sends
 * of itself, which need not include its share. False: the share is invalid, or our own.
 */
bool kit_auth_exchange_end(const struct kit_auth_exchange *exchange,
                           const uint8_t their_share[KIT_AUTH_SHARE],
                           const uint8_t own_digest[KIT_AUTH_KEY],
                           const uint8_t their_digest[KIT_AUTH_KEY], struct kit_auth_keys *keys);

/* BLAKE2b of two buffers; either may be empty. */
void kit_auth_digest(uint8_t digest[KIT_AUTH_KEY], const void *first, uint64_t first_size,
                     const void *second, uint64_t second_size);

/* Keyed BLAKE2b of a message, with a key of 16 to 64 bytes. */
void kit_auth_code(uint8_t code[KIT_AUTH_CODE], const void *key, uint64_t key_size,
                   const void *message, uint64_t size);

/* True if the two codes are equal; takes constant time. */
bool kit_auth_code_is_equal(const uint8_t a[KIT_AUTH_CODE], const uint8_t b[KIT_AUTH_CODE]);

/* Overwrites memory that held a secret; the compiler does not optimize that away. */
void kit_auth_wipe(void *memory, uint64_t size);

/*
 * ChaCha20-Poly1305 of `size` bytes; the nonce is the two numbers, together unique for the key.
 * Encrypts the bytes from `clear` on in place, and returns the tag of all bytes. With `clear` equal
 * to `size` nothing is encrypted.
 */
void kit_auth_write(uint8_t tag[KIT_AUTH_TAG], const uint8_t key[KIT_AUTH_KEY], uint64_t number,
                    uint32_t number_high, void *data, uint64_t clear, uint64_t size);

/* True if the tag is valid; nothing is decrypted. */
bool kit_auth_fits(const uint8_t tag[KIT_AUTH_TAG], const uint8_t key[KIT_AUTH_KEY],
                   uint64_t number, uint32_t number_high, const void *data, uint64_t clear,
                   uint64_t size);

/* True if this machine has AES-256-GCM. Called after kit_auth_secret_get(). Any thread. */
bool kit_auth_has_aes(void);

/* Initializes a seal. `is_aes`: both sides have AES-256-GCM and know that of each other. */
void kit_seal_begin(struct kit_seal *seal, const struct kit_auth_keys *keys, bool is_aes);

/* Expands the keys of a seal that is used often. The contexts must live as long as the seal. */
void kit_seal_prepare(struct kit_seal *seal, struct kit_seal_contexts *contexts);

/*
 * Encrypts the bytes from `clear` up to `size` in place, and writes the tag of all bytes behind
 * them; `sequence` is the low half of the message's number. With `clear` equal to `size` nothing is
 * encrypted.
 */
void kit_seal_write(struct kit_seal *seal, uint32_t sequence, uint8_t *data, uint64_t clear,
                    uint64_t size);

/* Decrypts the last message that was sealed, because it was not sent. */
void kit_seal_take_back(const struct kit_seal *seal, uint8_t *data, uint64_t clear, uint64_t size);

/*
 * Checks a message of `size` bytes, of which the last KIT_AUTH_TAG are the tag. With KIT_SEAL_NEXT
 * the message counts as received, and the bytes from `clear` on were decrypted in place. Otherwise
 * nothing was changed, except that with `is_last` (no other seal will be tried), which is faster,
 * the bytes from `clear` on may have been overwritten.
 */
enum kit_seal_result kit_seal_open(struct kit_seal *seal, uint32_t sequence, uint8_t *data,
                                   uint64_t clear, uint64_t size, bool is_last);

#ifdef __cplusplus
}
#endif

#endif /* KIT_AUTH_H */
