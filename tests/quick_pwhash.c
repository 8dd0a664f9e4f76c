/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libsodium stretches a key for a tenth of a second, in 64 MiB, so that guesses are dear. Tests of
 * what a key opens have many keys: their programs replace the function, in the plugins that they
 * load, too.
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
