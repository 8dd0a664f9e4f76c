/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libsodium's crypto_pwhash() takes a tenth of a second and 64 MiB to stretch a key, so that
 * guesses are expensive. Tests of access by key use many keys, so their programs replace the
 * function by a fast one, also for the plugins that they load.
 */

#include <sodium.h>

int crypto_pwhash(unsigned char *const out, unsigned long long out_size, const char *const text,
                  unsigned long long text_size, const unsigned char *const salt,
                  unsigned long long operations, size_t memory, int algorithm)
{
    (void) operations;
    (void) memory;
    (void) algorithm;
    return crypto_generichash(out, (size_t) out_size, (const unsigned char *) text, text_size, salt,
                              crypto_pwhash_SALTBYTES);
}
