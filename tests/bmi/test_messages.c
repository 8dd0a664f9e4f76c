/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between two instances: sizes, tags, order, limits, messages that arrive before their
 * receive. */

#include "bmi_fixture.h"

#include <stdlib.h>
#include <string.h>

#define EAGER 16384

static const size_t sizes[] = {0,         1,     24,        25,      26,      4095,
                               EAGER - 1, EAGER, EAGER + 1, 1000000, 16777216};

struct pair {
    struct side a, b;
};

static int setup(void **state)
{
    static struct pair pair;

    side_open(&pair.a, 0);
    side_open(&pair.b, 0);
    *state = &pair;
    return 0;
}

static int teardown(void **state)
{
    struct pair *pair = *state;

    side_close(&pair->a);
    side_close(&pair->b);
    return 0;
}

static void test_unexpected(void **state)
{
    struct pair *pair = *state;
    BMI_addr_t to_b = side_lookup(&pair->a, &pair->b);
    uint8_t data[EAGER];

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= EAGER; i++) {
        struct BMI_unexpected_info info;

        pattern_fill(data, sizes[i], (uint32_t) i);
        side_send_unexpected(&pair->a, to_b, data, sizes[i], (bmi_msg_tag_t) (1000 + i));
        info = sides_wait_unexpected(&pair->b, &pair->a);
        assert_int_equal(info.size, sizes[i]);
        assert_int_equal(info.tag, 1000 + i);
        assert_true(pattern_check(info.buffer, sizes[i], (uint32_t) i));
        BMI_instance_use(pair->b.instance);
        assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
    }
}

/* The source of an unexpected message leads to the connection that the sender made. */
static void test_answer(void **state)
{
    struct pair *pair = *state;
    BMI_addr_t to_b = side_lookup(&pair->a, &pair->b);
    struct BMI_unexpected_info info;
    uint8_t data[100], answer[100] = {0};

    pattern_fill(data, sizeof(data), 1);
    side_send_unexpected(&pair->a, to_b, data, sizeof(data), 7);
    info = sides_wait_unexpected(&pair->b, &pair->a);
    BMI_instance_use(pair->b.instance);
    assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
    assert_int_equal(side_lookup(&pair->b, &pair->a), info.addr);

    (void) side_receive(&pair->a, to_b, answer, sizeof(answer), 8, answer);
    (void) side_send(&pair->b, info.addr, data, sizeof(data), 8, data);
    sides_wait(&pair->a, &pair->b, 1);
    assert_int_equal(side_take(&pair->a, answer).size, sizeof(answer));
    assert_true(pattern_check(answer, sizeof(answer), 1));
    assert_int_equal(side_take(&pair->b, data).error, 0);
}

static void exchange(struct pair *pair, size_t size, bool is_late)
{
    BMI_addr_t to_b = side_lookup(&pair->a, &pair->b);
    BMI_addr_t from_a = side_lookup(&pair->b, &pair->a);
    uint8_t *sent = malloc(size + 1), *received = malloc(size + 1);
    struct completion completion;

    assert_non_null(sent);
    assert_non_null(received);
    pattern_fill(sent, size, (uint32_t) size);
    if (!is_late)
        (void) side_receive(&pair->b, from_a, received, size, 5, received);
    (void) side_send(&pair->a, to_b, sent, size, 5, sent);
    if (is_late) {
        for (int i = 0; i < 50; i++)
            sides_progress(&pair->a, &pair->b);
        (void) side_receive(&pair->b, from_a, received, size, 5, received);
    }
    sides_wait(&pair->b, &pair->a, 1);
    completion = side_take(&pair->b, received);
    assert_int_equal(completion.error, 0);
    assert_int_equal(completion.size, size);
    assert_true(pattern_check(received, size, (uint32_t) size));
    sides_wait(&pair->a, &pair->b, 1);
    assert_int_equal(side_take(&pair->a, sent).error, 0);
    free(sent);
    free(received);
}

static void test_expected(void **state)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        exchange(*state, sizes[i], false);
}

static void test_receive_comes_late(void **state)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        exchange(*state, sizes[i], true);
}

/* A receive that is posted while its message is being buffered gets the whole message. */
static void test_receive_in_the_middle(void **state)
{
    struct pair *pair = *state;
    BMI_addr_t to_b = side_lookup(&pair->a, &pair->b);
    BMI_addr_t from_a = side_lookup(&pair->b, &pair->a);
    static uint8_t sent[2][EAGER], received[2][EAGER];

    for (int i = 0; i < 2; i++) {
        pattern_fill(sent[i], EAGER, (uint32_t) i);
        (void) side_send(&pair->a, to_b, sent[i], EAGER, 5, sent[i]);
    }
    for (int i = 0; i < 20; i++)
        sides_progress(&pair->a, &pair->b);
    for (int i = 0; i < 2; i++)
        (void) side_receive(&pair->b, from_a, received[i], EAGER, 5, received[i]);
    sides_wait(&pair->b, &pair->a, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(side_take(&pair->b, received[i]).size, EAGER);
        assert_true(pattern_check(received[i], EAGER, (uint32_t) i));
    }
}

/* Receives match by tag; those with the same tag complete in order. */
static void test_tags(void **state)
{
    enum {
        COUNT = 12
    };
    struct pair *pair = *state;
    BMI_addr_t to_b = side_lookup(&pair->a, &pair->b);
    BMI_addr_t from_a = side_lookup(&pair->b, &pair->a);
    uint32_t sent[COUNT], received[COUNT] = {0};

    for (uint32_t i = 0; i < COUNT; i++)
        (void) side_receive(&pair->b, from_a, &received[i], sizeof(received[i]),
                            (bmi_msg_tag_t) (i / 2), &received[i]);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t at = i * 5 % COUNT; /* a permutation */

        sent[i] = 100 + at / 2;
        (void) side_send(&pair->a, to_b, &sent[i], sizeof(sent[i]), (bmi_msg_tag_t) (at / 2),
                         &sent[i]);
    }
    sides_wait(&pair->b, &pair->a, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(side_take(&pair->b, &received[i]).size, sizeof(uint32_t));
        assert_int_equal(received[i], 100 + i / 2);
    }
}

static void test_order(void **state)
{
    enum {
        COUNT = 2000
    };
    struct pair *pair = *state;
    BMI_addr_t to_b = side_lookup(&pair->a, &pair->b);
    static uint32_t sent[COUNT][64];

    for (uint32_t i = 0; i < COUNT; i++) {
        sent[i][0] = i;
        side_send_unexpected(&pair->a, to_b, sent[i], sizeof(sent[i]), 1);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        struct BMI_unexpected_info info = sides_wait_unexpected(&pair->b, &pair->a);

        assert_memory_equal(info.buffer, sent[i], sizeof(sent[i]));
        BMI_instance_use(pair->b.instance);
        assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
    }
}

static void test_classes(void **state)
{
    struct pair *pair = *state;
    BMI_addr_t to_b = side_lookup(&pair->a, &pair->b);
    struct BMI_unexpected_info info;
    bmi_op_id_t id;
    int count = 0;

    assert_true(BMI_post_sendunexpected_class(&id, to_b, "three", 5, BMI_EXT_ALLOC, 1, 3, NULL,
                                              pair->a.context, NULL) >= 0);
    side_send_unexpected(&pair->a, to_b, "zero", 4, 2);
    info = sides_wait_unexpected(&pair->b, &pair->a);
    assert_int_equal(info.tag, 2);
    BMI_instance_use(pair->b.instance);
    (void) BMI_unexpected_free(info.addr, info.buffer);
    assert_int_equal(BMI_testunexpected_class(1, &count, &info, 3, BMI_TEST_ONLY), 1);
    assert_int_equal(info.tag, 1);
    assert_memory_equal(info.buffer, "three", 5);
    (void) BMI_unexpected_free(info.addr, info.buffer);
}

static void test_limits(void **state)
{
    struct pair *pair = *state;
    BMI_addr_t to_b = side_lookup(&pair->a, &pair->b);
    static uint8_t data[EAGER + 1];
    bmi_size_t actual;
    bmi_op_id_t id;
    int value;

    assert_int_equal(BMI_get_info(0, BMI_GET_UNEXP_SIZE, &value), 0);
    assert_int_equal(value, EAGER);
    assert_int_equal(BMI_get_info(0, BMI_CHECK_MAXSIZE, &value), 0);
    assert_int_equal(value, 16777216);
    assert_int_equal(BMI_post_sendunexpected(&id, to_b, data, sizeof(data), BMI_EXT_ALLOC, 1, NULL,
                                             pair->a.context, NULL),
                     -BMI_EMSGSIZE);
    assert_int_equal(
        BMI_post_send(&id, to_b, data, 16777217, BMI_EXT_ALLOC, 1, NULL, pair->a.context, NULL),
        -BMI_EMSGSIZE);
    assert_int_equal(
        BMI_post_send(&id, to_b, data, -1, BMI_EXT_ALLOC, 1, NULL, pair->a.context, NULL),
        -BMI_EINVAL);
    assert_int_equal(
        BMI_post_send(&id, to_b + 1, data, 1, BMI_EXT_ALLOC, 1, NULL, pair->a.context, NULL),
        -BMI_EINVAL);
    assert_int_equal(
        BMI_post_recv(&id, to_b, data, -1, &actual, BMI_EXT_ALLOC, 1, NULL, pair->a.context, NULL),
        -BMI_EINVAL);
    assert_int_equal(BMI_initialize("bmi_tcp", NULL, 0), -BMI_EBUSY);
}

/* A message that is too long for its receive fails that receive; later messages arrive. */
static void test_too_long(void **state)
{
    struct pair *pair = *state;
    BMI_addr_t to_b = side_lookup(&pair->a, &pair->b);
    BMI_addr_t from_a = side_lookup(&pair->b, &pair->a);
    static uint8_t sent[100000], received[50000], small[10];

    pattern_fill(sent, sizeof(sent), 3);
    memset(received, 0x55, sizeof(received));
    (void) side_receive(&pair->b, from_a, received, sizeof(received), 1, received);
    (void) side_send(&pair->a, to_b, sent, sizeof(sent), 1, sent);
    (void) side_receive(&pair->b, from_a, small, sizeof(small), 2, small);
    (void) side_send(&pair->a, to_b, sent, sizeof(small), 2, &small);
    sides_wait(&pair->b, &pair->a, 2);
    assert_int_equal(side_take(&pair->b, received).error, -BMI_EMSGSIZE);
    assert_int_equal(side_take(&pair->b, small).error, 0);
    assert_true(pattern_check(small, sizeof(small), 3));
    for (size_t i = 0; i < sizeof(received); i++)
        assert_int_equal(received[i], 0x55);
}

/* With BMI_DROP_UNWANTED, expected messages without a receive are dropped and do not block
 * others. */
static void test_unwanted(void **state)
{
    struct pair *pair = *state;
    BMI_addr_t to_b = side_lookup(&pair->a, &pair->b);
    static uint8_t sent[1000000];
    struct BMI_unexpected_info info;
    int drops = 1;

    BMI_instance_use(pair->b.instance);
    assert_int_equal(BMI_set_info(0, BMI_DROP_UNWANTED, &drops), 0);
    (void) side_send(&pair->a, to_b, sent, sizeof(sent), 1, sent);
    (void) side_send(&pair->a, to_b, sent, 100, 2, NULL);
    (void) side_send(&pair->a, to_b, sent, 0, 3, NULL);
    side_send_unexpected(&pair->a, to_b, "hello", 5, 1);
    info = sides_wait_unexpected(&pair->b, &pair->a);
    assert_memory_equal(info.buffer, "hello", 5);
    BMI_instance_use(pair->b.instance);
    assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
    sides_wait(&pair->a, &pair->b, 1);
}

/* Unexpected messages without a receive are read only up to a limit; all of them arrive in the
 * end. */
static void test_unexpected_flood(void **state)
{
    enum {
        COUNT = 2000
    };
    struct pair *pair = *state;
    BMI_addr_t to_b = side_lookup(&pair->a, &pair->b);
    static uint8_t data[EAGER];
    int left = 0, last = 0;

    for (uint32_t i = 0; i < COUNT; i++) {
        bmi_op_id_t id;
        int ret = BMI_post_sendunexpected(&id, to_b, data, EAGER, BMI_EXT_ALLOC, 1, NULL,
                                          pair->a.context, NULL);

        assert_true(ret >= 0);
    }
    for (int i = 0; i < 500; i++) {
        bmi_op_id_t ids[16];
        bmi_error_code_t errors[16];
        bmi_size_t actual[16];
        int count;

        BMI_instance_use(pair->b.instance);
        assert_int_equal(BMI_progress(0), 0);
        BMI_instance_use(pair->a.instance);
        assert_int_equal(BMI_progress(0), 0);
        do {
            assert_true(BMI_testcontext(16, ids, &count, errors, actual, NULL, BMI_TEST_ONLY,
                                        pair->a.context) >= 0);
            left += count;
        } while (count != 0);
        if (i == 400)
            last = left;
    }
    assert_true(left < COUNT); /* 8 of 32 MB are read, and the sockets hold some more */
    assert_int_equal(left, last);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct BMI_unexpected_info info = sides_wait_unexpected(&pair->b, &pair->a);

        BMI_instance_use(pair->b.instance);
        assert_int_equal(BMI_unexpected_free(info.addr, info.buffer), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unexpected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_receive_comes_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_receive_in_the_middle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tags, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_classes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_long, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unwanted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unexpected_flood, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
