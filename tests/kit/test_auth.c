/* SPDX-License-Identifier: BSD-3-Clause */
/* Secrets, the key exchange with its shares, and seals, without a session. */

#include "kit_session.h"
#include "plugin_host.h"

#include <sodium.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct kit_auth_secret *secret, *other_secret;
static const uint8_t digests[2][KIT_AUTH_KEY] = {"what one says", "what the other says"};

static int secrets_open(void **state)
{
    (void) state;
    kit_host = &plugin_host;
    assert_int_equal(kit_auth_secret_open("test", "open sesame", &secret), 0);
    assert_int_equal(kit_auth_secret_open("test", "abracadabra", &other_secret), 0);
    return 0;
}

static int secrets_close(void **state)
{
    (void) state;
    kit_auth_secret_close(secret);
    kit_auth_secret_close(other_secret);
    return 0;
}

/* Runs the exchange between two sides, and requires that both derive keys. */
static void exchange(const struct kit_auth_secret *with, const struct kit_auth_secret *and_with,
                     struct kit_auth_keys keys[2])
{
    struct kit_auth_exchange sides[2];

    kit_auth_exchange_begin(with, &sides[0]);
    kit_auth_exchange_begin(and_with, &sides[1]);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(kit_auth_exchange_end(&sides[i], sides[1 - i].share, digests[i], digests[1 - i],
                                          &keys[i]));
}

static void a_secret_is_made_once(void **state)
{
    struct kit_auth_secret *again, *none;

    (void) state;
    assert_int_equal(kit_auth_secret_open("test", "open sesame", &again), 0);
    assert_ptr_equal(again, secret);
    assert_ptr_not_equal(again, other_secret);
    kit_auth_secret_close(again);
    assert_int_equal(kit_auth_secret_open("test", NULL, &none), 0);
    assert_null(none);
    assert_int_equal(kit_auth_secret_open("test", "", &none), 0);
    assert_null(none);
    kit_auth_secret_close(NULL);
}

static void equal_secrets_make_the_same_keys(void **state)
{
    struct kit_auth_keys keys[2], more[2];

    (void) state;
    exchange(secret, secret, keys);
    assert_memory_equal(keys[0].send, keys[1].receive, KIT_AUTH_KEY);
    assert_memory_equal(keys[1].send, keys[0].receive, KIT_AUTH_KEY);
    assert_memory_equal(keys[0].confirm_own, keys[1].confirm_their, KIT_AUTH_KEY);
    assert_memory_equal(keys[1].confirm_own, keys[0].confirm_their, KIT_AUTH_KEY);
    assert_memory_not_equal(keys[0].send, keys[0].receive, KIT_AUTH_KEY);
    assert_memory_not_equal(keys[0].confirm_own, keys[0].confirm_their, KIT_AUTH_KEY);
    exchange(secret, secret, more);
    assert_memory_not_equal(keys[0].send, more[0].send, KIT_AUTH_KEY);
}

static void other_secrets_make_other_keys(void **state)
{
    struct kit_auth_keys keys[2];

    (void) state;
    exchange(secret, other_secret, keys);
    assert_memory_not_equal(keys[0].send, keys[1].receive, KIT_AUTH_KEY);
    assert_memory_not_equal(keys[0].confirm_own, keys[1].confirm_their, KIT_AUTH_KEY);
}

/* The keys depend on each bit of the messages of both sides, and on which side sent which. */
static void what_is_said_is_part_of_the_keys(void **state)
{
    struct kit_auth_exchange sides[2];
    struct kit_auth_keys keys, other;
    uint8_t said[KIT_AUTH_KEY];

    (void) state;
    kit_auth_exchange_begin(secret, &sides[0]);
    kit_auth_exchange_begin(secret, &sides[1]);
    assert_true(kit_auth_exchange_end(&sides[0], sides[1].share, digests[0], digests[1], &keys));
    memcpy(said, digests[0], sizeof(said));
    said[31] ^= 1;
    assert_true(kit_auth_exchange_end(&sides[1], sides[0].share, digests[1], said, &other));
    assert_memory_not_equal(keys.send, other.receive, KIT_AUTH_KEY);
    assert_true(kit_auth_exchange_end(&sides[1], sides[0].share, digests[0], digests[1], &other));
    assert_memory_not_equal(keys.send, other.receive, KIT_AUTH_KEY);
}

static void what_is_no_share_is_refused(void **state)
{
    static const uint8_t identity[KIT_AUTH_SHARE];
    struct kit_auth_exchange side;
    struct kit_auth_keys keys;
    uint8_t garbage[KIT_AUTH_SHARE];

    (void) state;
    kit_auth_exchange_begin(secret, &side);
    memset(garbage, 0xff, sizeof(garbage));
    assert_false(kit_auth_exchange_end(&side, identity, digests[0], digests[1], &keys));
    assert_false(kit_auth_exchange_end(&side, garbage, digests[0], digests[1], &keys));
    assert_false(kit_auth_exchange_end(&side, side.share, digests[0], digests[1], &keys));
}

/*
 * An eavesdropper, or an active attacker with one guess of the key, learns nothing about the key
 * from a share: under any other key there is a scalar that gives the same share. So a share drawn
 * under one key is equally valid under another one, with another scalar.
 */
static void a_share_fits_each_secret(void **state)
{
    struct kit_auth_exchange sides[2], played;
    struct kit_auth_keys keys, guessed;

    (void) state;
    for (uint32_t i = 0; i < 8; i++) {
        kit_auth_exchange_begin(secret, &sides[0]);
        kit_auth_exchange_begin(secret, &sides[1]);
        assert_int_equal(crypto_core_ristretto255_is_valid_point(sides[0].share), 1);
        assert_memory_not_equal(sides[0].share, sides[1].share, KIT_AUTH_SHARE);
        /* An attacker with a wrong guess gets confirmation codes that no later guess explains. */
        kit_auth_exchange_begin(other_secret, &played);
        assert_true(kit_auth_exchange_end(&sides[0], played.share, digests[0], digests[1], &keys));
        assert_true(
            kit_auth_exchange_end(&played, sides[0].share, digests[1], digests[0], &guessed));
        assert_memory_not_equal(keys.confirm_own, guessed.confirm_their, KIT_AUTH_KEY);
        /* Not even the right key, learnt later, explains them: the attacker's scalar belongs to the
         * wrong one. */
        kit_auth_exchange_begin(secret, &sides[1]);
        memcpy(sides[1].share, played.share, sizeof(played.share));
        assert_true(
            kit_auth_exchange_end(&sides[1], sides[0].share, digests[1], digests[0], &guessed));
        assert_memory_not_equal(keys.confirm_own, guessed.confirm_their, KIT_AUTH_KEY);
    }
}

/* A tag depends on the key, on both numbers, and on all bytes that it covers. */
static void a_tag_is_of_its_numbers(void **state)
{
    uint8_t key[KIT_AUTH_KEY] = {1}, tag[KIT_AUTH_TAG], data[] = "open";

    (void) state;
    kit_auth_write(tag, key, 7, 9, data, sizeof(data), sizeof(data));
    assert_true(kit_auth_fits(tag, key, 7, 9, data, sizeof(data), sizeof(data)));
    assert_false(
        kit_auth_fits(tag, key, 7 | UINT64_C(1) << 63, 9, data, sizeof(data), sizeof(data)));
    assert_false(kit_auth_fits(tag, key, 7, 8, data, sizeof(data), sizeof(data)));
    assert_false(kit_auth_fits(tag, key, 7, 9, data, sizeof(data) - 1, sizeof(data) - 1));
    key[31] = 1;
    assert_false(kit_auth_fits(tag, key, 7, 9, data, sizeof(data), sizeof(data)));
}

static bool uses_aes; /* whether the next pair seals with AES */

static void seal_pair(struct kit_seal seals[2])
{
    static struct kit_seal_contexts contexts;
    struct kit_auth_keys keys[2];

    exchange(secret, secret, keys);
    kit_seal_begin(&seals[0], &keys[0], uses_aes);
    kit_seal_begin(&seals[1], &keys[1], uses_aes);
    kit_seal_prepare(&seals[0], &contexts); /* the peer computes its contexts for each message */
}

#define WITH_EACH_CIPHER(test) \
    cmocka_unit_test_setup(test, with_aes), cmocka_unit_test_setup(test, without_aes)

static int with_aes(void **state)
{
    (void) state;
    uses_aes = kit_auth_has_aes();
    if (!uses_aes)
        print_message("this machine has no AES instructions: ChaCha20 is tested again\n");
    return 0;
}

static int without_aes(void **state)
{
    (void) state;
    uses_aes = false;
    return 0;
}

#define MESSAGE 40u

static void write_one(struct kit_seal *seal, uint32_t sequence, uint8_t *data)
{
    memset(data, (int) sequence, MESSAGE);
    kit_seal_write(seal, sequence, data, MESSAGE, MESSAGE);
}

static void seals_count(void **state)
{
    struct kit_seal seals[2];
    uint8_t data[4][MESSAGE + KIT_AUTH_TAG];
    const uint64_t size = sizeof(data[0]);

    (void) state;
    seal_pair(seals);
    for (uint32_t i = 0; i < 4; i++)
        write_one(&seals[0], i + 1, data[i]);
    assert_int_equal(kit_seal_open(&seals[1], 1, data[0], (size) -KIT_AUTH_TAG, size, false),
                     KIT_SEAL_NEXT);
    assert_int_equal(kit_seal_open(&seals[1], 1, data[0], (size) -KIT_AUTH_TAG, size, false),
                     KIT_SEAL_AGAIN);
    assert_int_equal(kit_seal_open(&seals[1], 3, data[2], (size) -KIT_AUTH_TAG, size, false),
                     KIT_SEAL_LATER);
    assert_int_equal(kit_seal_open(&seals[1], 2, data[2], (size) -KIT_AUTH_TAG, size, false),
                     KIT_SEAL_NONE);
    assert_int_equal(
        kit_seal_open(&seals[1], 2, data[1], (size - 1) - KIT_AUTH_TAG, size - 1, false),
        KIT_SEAL_NONE);
    assert_int_equal(kit_seal_open(&seals[1], 2, data[1], (KIT_AUTH_TAG - 1) - KIT_AUTH_TAG,
                                   KIT_AUTH_TAG - 1, false),
                     KIT_SEAL_NONE);
    assert_int_equal(kit_seal_open(&seals[0], 2, data[1], (size) -KIT_AUTH_TAG, size, false),
                     KIT_SEAL_NONE); /* reflected to its sender */
    assert_int_equal(kit_seal_open(&seals[1], 2, data[1], (size) -KIT_AUTH_TAG, size, false),
                     KIT_SEAL_NEXT);
    assert_int_equal(kit_seal_open(&seals[1], 3, data[2], (size) -KIT_AUTH_TAG, size, false),
                     KIT_SEAL_NEXT);
    assert_int_equal(kit_seal_open(&seals[1], 4, data[3], (size) -KIT_AUTH_TAG, size, false),
                     KIT_SEAL_NEXT);
}

static void each_bit_is_sealed(void **state)
{
    struct kit_seal seals[2];
    uint8_t data[MESSAGE + KIT_AUTH_TAG];

    (void) state;
    seal_pair(seals);
    write_one(&seals[0], 1, data);
    for (uint32_t i = 0; i < 8 * sizeof(data); i++) {
        data[i / 8] ^= (uint8_t) (1u << i % 8);
        assert_int_equal(
            kit_seal_open(&seals[1], 1, data, (sizeof(data)) - KIT_AUTH_TAG, sizeof(data), false),
            KIT_SEAL_NONE);
        data[i / 8] ^= (uint8_t) (1u << i % 8);
    }
    assert_int_equal(
        kit_seal_open(&seals[1], 1, data, (sizeof(data)) - KIT_AUTH_TAG, sizeof(data), false),
        KIT_SEAL_NEXT);
}

/* The low 32 bits of the count wrap around, leaving out 0. A message sealed 2^32 messages before is
 * refused. */
static void the_count_goes_on_beyond_32_bits(void **state)
{
    struct kit_seal seals[2];
    uint8_t old[MESSAGE + KIT_AUTH_TAG], data[MESSAGE + KIT_AUTH_TAG];

    (void) state;
    seal_pair(seals);
    write_one(&seals[0], 1, old);
    seals[0].sent = seals[1].received = UINT32_MAX - 1;
    write_one(&seals[0], UINT32_MAX, data);
    assert_int_equal(kit_seal_open(&seals[1], UINT32_MAX, data, (sizeof(data)) - KIT_AUTH_TAG,
                                   sizeof(data), false),
                     KIT_SEAL_NEXT);
    write_one(&seals[0], 1, data);
    assert_int_equal(seals[0].sent, UINT64_C(0x100000001));
    assert_int_equal(
        kit_seal_open(&seals[1], 1, old, (sizeof(old)) - KIT_AUTH_TAG, sizeof(old), false),
        KIT_SEAL_NONE);
    assert_int_equal(
        kit_seal_open(&seals[1], 1, data, (sizeof(data)) - KIT_AUTH_TAG, sizeof(data), false),
        KIT_SEAL_NEXT);
}

/* Encrypted data are secret and decrypted correctly. An attempt with the wrong seal leaves them
 * unchanged. */
static void secrets_come_back(void **state)
{
    struct kit_seal seals[2], strangers[2];
    uint8_t data[MESSAGE + KIT_AUTH_TAG], sealed[sizeof(data)];

    (void) state;
    seal_pair(strangers);
    seal_pair(seals);
    for (uint32_t i = 1; i <= 3; i++) {
        memset(data, (int) i, sizeof(data));
        kit_seal_write(&seals[0], i, data, 8, MESSAGE);
        assert_int_equal(data[7], i);
        assert_memory_not_equal(data + 8, data, 8);
        for (uint32_t k = 0; k < 2; k++) { /* the frame was not sent, and is sealed again */
            kit_seal_take_back(&seals[0], data, 8, MESSAGE);
            for (uint32_t at = 0; at < MESSAGE; at++)
                assert_int_equal(data[at], i);
            kit_seal_write(&seals[0], i, data, 8, MESSAGE);
        }
        memcpy(sealed, data, sizeof(data));
        assert_int_equal(kit_seal_open(&strangers[1], i, data, 8, sizeof(data), false),
                         KIT_SEAL_NONE);
        assert_memory_equal(data, sealed, sizeof(data));
        assert_int_equal(kit_seal_open(&seals[1], i, data, 8, sizeof(data), i == 2), KIT_SEAL_NEXT);
        for (uint32_t at = 0; at < MESSAGE; at++)
            assert_int_equal(data[at], i);
        assert_int_equal(kit_seal_open(&seals[1], i, sealed, 8, sizeof(sealed), true),
                         KIT_SEAL_AGAIN);
    }
}

/* A message that was sealed with one cipher is not opened with the other. */
static void ciphers_are_apart(void **state)
{
    struct kit_seal seals[2];
    uint8_t data[MESSAGE + KIT_AUTH_TAG];

    (void) state;
    seal_pair(seals);
    write_one(&seals[0], 1, data);
    seals[1].is_aes = !seals[1].is_aes;
    if (kit_auth_has_aes())
        assert_int_equal(kit_seal_open(&seals[1], 1, data, MESSAGE, sizeof(data), false),
                         KIT_SEAL_NONE);
    seals[1].is_aes = !seals[1].is_aes;
    assert_int_equal(kit_seal_open(&seals[1], 1, data, MESSAGE, sizeof(data), false),
                     KIT_SEAL_NEXT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tag_is_of_its_numbers),
        cmocka_unit_test(a_secret_is_made_once),
        cmocka_unit_test(equal_secrets_make_the_same_keys),
        cmocka_unit_test(other_secrets_make_other_keys),
        cmocka_unit_test(what_is_said_is_part_of_the_keys),
        cmocka_unit_test(what_is_no_share_is_refused),
        cmocka_unit_test(a_share_fits_each_secret),
        WITH_EACH_CIPHER(seals_count),
        WITH_EACH_CIPHER(each_bit_is_sealed),
        WITH_EACH_CIPHER(the_count_goes_on_beyond_32_bits),
        WITH_EACH_CIPHER(secrets_come_back),
        WITH_EACH_CIPHER(ciphers_are_apart),
    };

    return cmocka_run_group_tests(tests, secrets_open, secrets_close);
}
