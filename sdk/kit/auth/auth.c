/* SPDX-License-Identifier: BSD-3-Clause */
/* The secret that is derived from auth_key, the exchange of shares, and codes. */

#include "kit_auth.h"

#include <pthread.h>
#include <sodium.h>
#include <string.h>

#define AUTH_SALT      "amalgam auth_key" /* 16 bytes; separates it from keys of other programs */
#define AUTH_GENERATOR "amalgam CPace generator 1"
#define AUTH_KEYS      "amalgam session keys 1"
#define AUTH_CONTEXT   "amalgam1" /* crypto_kdf's */

/* Bytes of the stack that are wiped, because libsodium's functions leave secrets on it. */
#define AUTH_STACK 16384u

struct kit_auth_secret {
    struct kit_auth_secret *next;
    uint32_t refs;
    uint8_t text_key[KIT_AUTH_KEY]; /* random key of text_digest, so that no plain digest is kept */
    uint8_t text_digest[KIT_AUTH_KEY];
    uint8_t generator[crypto_core_ristretto255_BYTES];
};

static void text_digest(uint8_t digest[KIT_AUTH_KEY], const struct kit_auth_secret *secret,
                        const char *text);
static struct kit_auth_secret *secret_find(const char *text);
static struct kit_auth_secret *secret_make(const char *text);
static void derive(uint8_t key[KIT_AUTH_KEY], uint64_t id, const uint8_t master[KIT_AUTH_KEY]);

_Static_assert(sizeof(AUTH_SALT) - 1 == crypto_pwhash_SALTBYTES, "size of libsodium's salt");
_Static_assert(sizeof(AUTH_CONTEXT) - 1 == crypto_kdf_CONTEXTBYTES, "libsodium's context");
_Static_assert(KIT_AUTH_KEY == crypto_kdf_KEYBYTES, "libsodium's keys");
_Static_assert(KIT_AUTH_KEY == crypto_core_ristretto255_SCALARBYTES, "libsodium's scalars");
_Static_assert(KIT_AUTH_SHARE == crypto_core_ristretto255_BYTES, "libsodium's elements");

static pthread_mutex_t secrets_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kit_auth_secret *secrets;

int32_t kit_auth_secret_get(const char *text, struct kit_auth_secret **secret_p)
{
    struct kit_auth_secret *secret;

    *secret_p = NULL;
    if (text == NULL || text[0] == '\0')
        return NA_PLUGIN_SUCCESS;
    if (sodium_init() < 0)
        return NA_PLUGIN_IO_ERROR;
    (void) pthread_mutex_lock(&secrets_lock);
    secret = secret_find(text);
    if (secret == NULL)
        secret = secret_make(text);
    if (secret != NULL)
        secret->refs++;
    (void) pthread_mutex_unlock(&secrets_lock);
    *secret_p = secret;
    return secret != NULL ? NA_PLUGIN_SUCCESS : NA_PLUGIN_NOMEM;
}

void kit_auth_secret_close(struct kit_auth_secret *secret)
{
    struct kit_auth_secret **link = &secrets;

    if (secret == NULL)
        return;
    (void) pthread_mutex_lock(&secrets_lock);
    if (--secret->refs == 0) {
        while (*link != secret)
            link = &(*link)->next;
        *link = secret->next;
        sodium_free(secret); /* wipes it */
    }
    (void) pthread_mutex_unlock(&secrets_lock);
}

void kit_auth_exchange_begin(const struct kit_auth_secret *secret,
                             struct kit_auth_exchange *exchange)
{
    do {
        crypto_core_ristretto255_scalar_random(exchange->scalar);
    } while (crypto_scalarmult_ristretto255(exchange->share, exchange->scalar, secret->generator) !=
             0);
}

/* The side with the smaller share comes first, because HELLOs may cross and both be initiators. */
bool kit_auth_exchange_end(const struct kit_auth_exchange *exchange,
                           const uint8_t their_share[KIT_AUTH_SHARE],
                           const uint8_t own_digest[KIT_AUTH_KEY],
                           const uint8_t their_digest[KIT_AUTH_KEY], struct kit_auth_keys *keys)
{
    const int order = memcmp(exchange->share, their_share, KIT_AUTH_SHARE);
    const bool is_first = order < 0;
    uint8_t point[crypto_scalarmult_ristretto255_BYTES], master[KIT_AUTH_KEY];
    crypto_generichash_state state;

    if (order == 0 || crypto_scalarmult_ristretto255(point, exchange->scalar, their_share) != 0)
        return false;
    (void) crypto_generichash_init(&state, NULL, 0, sizeof(master));
    (void) crypto_generichash_update(&state, (const uint8_t *) AUTH_KEYS, sizeof(AUTH_KEYS));
    (void) crypto_generichash_update(&state, point, sizeof(point));
    for (uint32_t i = 0; i < 2; i++) {
        const bool is_own = is_first == (i == 0);

        (void) crypto_generichash_update(&state, is_own ? exchange->share : their_share,
                                         KIT_AUTH_SHARE);
        (void) crypto_generichash_update(&state, is_own ? own_digest : their_digest, KIT_AUTH_KEY);
    }
    (void) crypto_generichash_final(&state, master, sizeof(master));
    derive(keys->send, is_first ? 1 : 2, master);
    derive(keys->receive, is_first ? 2 : 1, master);
    derive(keys->confirm_own, is_first ? 3 : 4, master);
    derive(keys->confirm_their, is_first ? 4 : 3, master);
    sodium_memzero(point, sizeof(point));
    sodium_memzero(master, sizeof(master));
    sodium_memzero(&state, sizeof(state));
    sodium_stackzero(AUTH_STACK);
    return true;
}

void kit_auth_digest(uint8_t digest[KIT_AUTH_KEY], const void *first, uint64_t first_size,
                     const void *second, uint64_t second_size)
{
    crypto_generichash_state state;

    (void) crypto_generichash_init(&state, NULL, 0, KIT_AUTH_KEY);
    (void) crypto_generichash_update(&state, (const uint8_t *) &first_size, sizeof(first_size));
    (void) crypto_generichash_update(&state, first, first_size);
    (void) crypto_generichash_update(&state, second, second_size);
    (void) crypto_generichash_final(&state, digest, KIT_AUTH_KEY);
}

void kit_auth_code(uint8_t code[KIT_AUTH_CODE], const void *key, uint64_t key_size,
                   const void *message, uint64_t size)
{
    (void) crypto_generichash(code, KIT_AUTH_CODE, message, size, key, (size_t) key_size);
}

bool kit_auth_code_is_equal(const uint8_t a[KIT_AUTH_CODE], const uint8_t b[KIT_AUTH_CODE])
{
    return sodium_memcmp(a, b, KIT_AUTH_CODE) == 0;
}

void kit_auth_wipe(void *memory, uint64_t size)
{
    sodium_memzero(memory, (size_t) size);
}

static struct kit_auth_secret *secret_find(const char *text)
{
    struct kit_auth_secret *secret = secrets;
    uint8_t digest[KIT_AUTH_KEY];

    for (; secret != NULL; secret = secret->next) {
        text_digest(digest, secret, text);
        if (sodium_memcmp(digest, secret->text_digest, sizeof(digest)) == 0)
            break;
    }
    return secret;
}

/* Returns NULL without memory. */
static struct kit_auth_secret *secret_make(const char *text)
{
    struct kit_auth_secret *secret = sodium_malloc(sizeof(*secret));
    uint8_t stretched[KIT_AUTH_KEY], wide[crypto_core_ristretto255_HASHBYTES];
    bool is_made;

    if (secret == NULL)
        return NULL;
    is_made = crypto_pwhash(stretched, sizeof(stretched), text, strlen(text),
                            (const uint8_t *) AUTH_SALT, crypto_pwhash_OPSLIMIT_INTERACTIVE,
                            crypto_pwhash_MEMLIMIT_INTERACTIVE, crypto_pwhash_ALG_ARGON2ID13) == 0;
    if (is_made) {
        (void) crypto_generichash(wide, sizeof(wide), (const uint8_t *) AUTH_GENERATOR,
                                  sizeof(AUTH_GENERATOR), stretched, sizeof(stretched));
        (void) crypto_core_ristretto255_from_hash(secret->generator, wide);
        randombytes_buf(secret->text_key, sizeof(secret->text_key));
        text_digest(secret->text_digest, secret, text);
        secret->refs = 0;
        secret->next = secrets;
        secrets = secret;
    } else {
        sodium_free(secret);
        secret = NULL;
    }
    sodium_memzero(stretched, sizeof(stretched));
    sodium_memzero(wide, sizeof(wide));
    sodium_stackzero(AUTH_STACK);
    return secret;
}

static void text_digest(uint8_t digest[KIT_AUTH_KEY], const struct kit_auth_secret *secret,
                        const char *text)
{
    (void) crypto_generichash(digest, KIT_AUTH_KEY, (const uint8_t *) text, strlen(text),
                              secret->text_key, sizeof(secret->text_key));
}

static void derive(uint8_t key[KIT_AUTH_KEY], uint64_t id, const uint8_t master[KIT_AUTH_KEY])
{
    (void) crypto_kdf_derive_from_key(key, KIT_AUTH_KEY, id, AUTH_CONTEXT, master);
}
