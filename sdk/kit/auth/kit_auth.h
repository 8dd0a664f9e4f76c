/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layer 0: what a key that processes share (auth_key) proves. A secret is made of its text, two
 * processes show each other in an exchange that both have it, and seal what they send afterwards.
 *
 * The exchange is CPace over ristretto255, a balanced PAKE: each side sends one share, a random
 * multiple of a generator that is made of the secret. A share alone, and all that is made of two
 * shares, lets nobody try keys: who plays one side learns of one guess whether it is right. What
 * both say of themselves is part of the keys (docs/decisions/0030). Cryptography is libsodium's.
 *
 * Nothing of the kit is used here: HG, which makes sessions of its own where a plugin proves no
 * key, is linked with the same source. No function blocks but kit_auth_secret_get(). Unless it says
 * otherwise a function may be called by any thread as long as no other one uses the same object.
 * Since 1.1.
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
#define KIT_AUTH_SHARE 32u /* bytes of what one side sends to the other */
#define KIT_AUTH_CODE  16u /* bytes of a code that proves a key */
#define KIT_AUTH_TAG   16u /* bytes that a seal adds */

struct kit_auth_secret; /* locked memory; classes of a process that have the same text share it */

/* One side of an exchange. To be wiped by kit_auth_wipe(). */
struct kit_auth_exchange {
    uint8_t scalar[KIT_AUTH_KEY];
    uint8_t share[KIT_AUTH_SHARE]; /* to be sent */
};

/* What comes of it. To be wiped. */
struct kit_auth_keys {
    uint8_t send[KIT_AUTH_KEY]; /* the other side's `receive` */
    uint8_t receive[KIT_AUTH_KEY];
    uint8_t confirm_own[KIT_AUTH_KEY]; /* the other side's `confirm_their` */
    uint8_t confirm_their[KIT_AUTH_KEY];
};

/* What AES-256-GCM makes of the keys of a seal that is used often. To be wiped. */
struct kit_seal_contexts {
    uint8_t send[512] __attribute__((aligned(16)));
    uint8_t receive[512];
};

/* The keys and counters of what two processes send to each other. To be wiped. */
struct kit_seal {
    uint8_t send[KIT_AUTH_KEY];
    uint8_t receive[KIT_AUTH_KEY];
    uint64_t sent; /* numbers of the last ones */
    uint64_t received;
    struct kit_seal_contexts *contexts; /* NULL: made for each message */
    bool is_aes;                        /* AES-256-GCM; else ChaCha20-Poly1305 */
};

/* Where a message stands among those of its seal. */
enum kit_seal_result {
    KIT_SEAL_NONE,  /* not of this seal */
    KIT_SEAL_NEXT,  /* the one after the last */
    KIT_SEAL_LATER, /* some before it were lost */
    KIT_SEAL_AGAIN  /* it was there before, or is late */
};

/*
 * The secret of a text, with a reference, which ends in kit_auth_secret_close(); NULL for no text
 * or an empty one. Takes a tenth of a second and 64 MiB for each text that no class of the process
 * has (Argon2id). Any thread.
 *
 * NA_PLUGIN_SUCCESS, NA_PLUGIN_NOMEM, or NA_PLUGIN_IO_ERROR when libsodium does not work.
 */
int32_t kit_auth_secret_get(const char *text, struct kit_auth_secret **secret_p);

/* Lets go of it; the last one wipes it. NULL does nothing. Any thread. */
void kit_auth_secret_close(struct kit_auth_secret *secret);

/* Draws a scalar, and makes the share. */
void kit_auth_exchange_begin(const struct kit_auth_secret *secret,
                             struct kit_auth_exchange *exchange);

/*
 * The keys for a share that was received. The digests are of what each side says of itself, in
 * which its share may be left out. False when it is no share, or is ours.
 */
bool kit_auth_exchange_end(const struct kit_auth_exchange *exchange,
                           const uint8_t their_share[KIT_AUTH_SHARE],
                           const uint8_t own_digest[KIT_AUTH_KEY],
                           const uint8_t their_digest[KIT_AUTH_KEY], struct kit_auth_keys *keys);

/* BLAKE2b of two pieces; either may be empty. */
void kit_auth_digest(uint8_t digest[KIT_AUTH_KEY], const void *first, uint64_t first_size,
                     const void *second, uint64_t second_size);

/* The code of a message under a key of key_size bytes, 16 to 64: keyed BLAKE2b. */
void kit_auth_code(uint8_t code[KIT_AUTH_CODE], const void *key, uint64_t key_size,
                   const void *message, uint64_t size);

/* True when both are the same; takes as long whether they are or not. */
bool kit_auth_code_is_equal(const uint8_t a[KIT_AUTH_CODE], const uint8_t b[KIT_AUTH_CODE]);

/* Overwrites memory that held a secret, in a way that no compiler leaves out. */
void kit_auth_wipe(void *memory, uint64_t size);

/*
 * ChaCha20-Poly1305 of `size` bytes under a key and two numbers, which may come together only once
 * with that key: encrypts those from `clear` on where they lie, and makes the tag of all. `clear`
 * is `size`: nothing is encrypted.
 */
void kit_auth_write(uint8_t tag[KIT_AUTH_TAG], const uint8_t key[KIT_AUTH_KEY], uint64_t number,
                    uint32_t number_high, void *data, uint64_t clear, uint64_t size);

/* Whether the tag fits; nothing is decrypted. */
bool kit_auth_fits(const uint8_t tag[KIT_AUTH_TAG], const uint8_t key[KIT_AUTH_KEY],
                   uint64_t number, uint32_t number_high, const void *data, uint64_t clear,
                   uint64_t size);

/* Whether this machine does AES-256-GCM; after kit_auth_secret_get(). Any thread. */
bool kit_auth_has_aes(void);

/* `is_aes`: both sides have it, and know that of each other. */
void kit_seal_begin(struct kit_seal *seal, const struct kit_auth_keys *keys, bool is_aes);

/* For one that is used often. The contexts are to be there as long as the seal. */
void kit_seal_prepare(struct kit_seal *seal, struct kit_seal_contexts *contexts);

/*
 * Encrypts the bytes from `clear` up to `size` where they lie, and writes the tag of all behind
 * them; `sequence` is the low half of their number. `clear` is `size`: nothing is encrypted.
 */
void kit_seal_write(struct kit_seal *seal, uint32_t sequence, uint8_t *data, uint64_t clear,
                    uint64_t size);

/* Decrypts what was written last, and did not leave. */
void kit_seal_take_back(const struct kit_seal *seal, uint8_t *data, uint64_t clear, uint64_t size);

/*
 * Checks `size` bytes, of which the last KIT_AUTH_TAG are the tag. NEXT counts them as received,
 * and has decrypted those from `clear` on; else nothing was changed, but for bytes from `clear` on
 * when no other seal is to be tried with them (`is_last`), which is faster.
 */
enum kit_seal_result kit_seal_open(struct kit_seal *seal, uint32_t sequence, uint8_t *data,
                                   uint64_t clear, uint64_t size, bool is_last);

#ifdef __cplusplus
}
#endif

#endif /* KIT_AUTH_H */
