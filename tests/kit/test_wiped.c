/* SPDX-License-Identifier: BSD-3-Clause */
/* A search for secrets on the stack: a thread makes a secret and the keys of a session, and its
 * stack is searched when it has ended. */

#define _GNU_SOURCE /* memmem */
#include "kit_auth.h"

#include <pthread.h>
#include <sodium.h>
#include <string.h>
#include <sys/mman.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define TEXT       "open sesame"
#define STACK_SIZE (UINT64_C(1) << 20)

/* AddressSanitizer would move the variables of a function that it instruments off the stack. */
#define ON_THE_STACK __attribute__((noinline, no_sanitize("address")))

static const uint8_t marker[KIT_AUTH_KEY] = "what was left on purpose";
static const uint8_t digests[2][KIT_AUTH_KEY] = {"what one says", "what the other says"};

/* These are not on the thread's stack. */
static struct kit_auth_secret *secret;
static struct kit_auth_exchange sides[2];
static struct kit_auth_keys keys[2];
static uint8_t codes[2][KIT_AUTH_CODE];
static uint8_t *stack;

enum step {
    STRETCH,
    BEGIN,
    END,
    PROVE,
    LEAVE
};

static bool is_left(const uint8_t bytes[KIT_AUTH_KEY])
{
    return memmem(stack, STACK_SIZE, bytes, KIT_AUTH_KEY) != NULL;
}

/* Leaves a marker on the stack, to prove that the search works. */
ON_THE_STACK static bool leave_marker(void)
{
    volatile uint8_t left[sizeof(marker)];

    for (uint32_t i = 0; i < sizeof(marker); i++)
        left[i] = marker[i];
    __asm__ volatile("" : : "r"(left) : "memory");
    return true;
}

static bool take(enum step step)
{
    bool is_good = true;

    switch (step) {
    case STRETCH:
        return kit_auth_secret_get(TEXT, &secret) == 0;
    case BEGIN:
        for (uint32_t i = 0; i < 2; i++)
            kit_auth_exchange_begin(secret, &sides[i]);
        return true;
    case END:
        for (uint32_t i = 0; i < 2; i++)
            is_good = kit_auth_exchange_end(&sides[i], sides[1 - i].share, digests[i],
                                            digests[1 - i], &keys[i]) &&
                      is_good;
        return is_good;
    case PROVE:
        for (uint32_t i = 0; i < 2; i++)
            kit_auth_code(codes[i], keys[i].confirm_their, KIT_AUTH_KEY, digests, sizeof(digests));
        return true;
    default:
        return leave_marker();
    }
}

/* Calls so deep in the stack that the end of the thread overwrites nothing. */
ON_THE_STACK static void *take_below(void *arg)
{
    volatile uint8_t above[16384];

    __asm__ volatile("" : : "r"(above) : "memory");
    return take(*(const enum step *) arg) ? arg : NULL;
}

static void take_on_stack(enum step step)
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *result;

    memset(stack, 0, STACK_SIZE);
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK_SIZE), 0);
    assert_int_equal(pthread_create(&thread, &attributes, take_below, &step), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_int_equal(pthread_attr_destroy(&attributes), 0);
    assert_non_null(result);
}

/* Stretches the text as the library does, which the shares prove. */
static void stretch(uint8_t stretched[KIT_AUTH_KEY])
{
    static const char salt[crypto_pwhash_SALTBYTES + 1] = "amalgam auth_key";
    static const char name[] = "amalgam CPace generator 1";
    uint8_t wide[crypto_core_ristretto255_HASHBYTES], share[KIT_AUTH_SHARE];
    uint8_t generator[crypto_core_ristretto255_BYTES];

    assert_int_equal(crypto_pwhash(stretched, KIT_AUTH_KEY, TEXT, strlen(TEXT),
                                   (const uint8_t *) salt, crypto_pwhash_OPSLIMIT_INTERACTIVE,
                                   crypto_pwhash_MEMLIMIT_INTERACTIVE,
                                   crypto_pwhash_ALG_ARGON2ID13),
                     0);
    (void) crypto_generichash(wide, sizeof(wide), (const uint8_t *) name, sizeof(name), stretched,
                              KIT_AUTH_KEY);
    (void) crypto_core_ristretto255_from_hash(generator, wide);
    assert_int_equal(crypto_scalarmult_ristretto255(share, sides[0].scalar, generator), 0);
    assert_memory_equal(share, sides[0].share, sizeof(share));
}

static void nothing_of_the_text_is_left(void **state)
{
    uint8_t stretched[KIT_AUTH_KEY];

    (void) state;
    take_on_stack(STRETCH);
    for (uint32_t i = 0; i < 2; i++)
        kit_auth_exchange_begin(secret, &sides[i]);
    stretch(stretched);
    assert_false(is_left(stretched));
}

static void no_key_of_a_session_is_left(void **state)
{
    (void) state;
    take_on_stack(BEGIN);
    for (uint32_t i = 0; i < 2; i++)
        assert_false(is_left(sides[i].scalar));
    take_on_stack(END);
    for (uint32_t i = 0; i < 2; i++) {
        assert_false(is_left(sides[i].scalar));
        assert_false(is_left(keys[i].send));
        assert_false(is_left(keys[i].receive));
        assert_false(is_left(keys[i].confirm_own));
        assert_false(is_left(keys[i].confirm_their));
    }
    take_on_stack(PROVE);
    for (uint32_t i = 0; i < 2; i++)
        assert_false(is_left(keys[i].confirm_their));
    kit_auth_secret_close(secret);
}

static void the_search_finds_what_is_left(void **state)
{
    (void) state;
    take_on_stack(LEAVE);
    assert_true(is_left(marker));
}

static int stack_make(void **state)
{
    (void) state;
    stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return stack != MAP_FAILED ? 0 : -1;
}

static int stack_free(void **state)
{
    (void) state;
    return munmap(stack, STACK_SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_search_finds_what_is_left),
        cmocka_unit_test(nothing_of_the_text_is_left),
        cmocka_unit_test(no_key_of_a_session_is_left),
    };

    return cmocka_run_group_tests(tests, stack_make, stack_free);
}
