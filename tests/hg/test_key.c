/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys: RPCs of a process with another key, or without one, are refused and counted, and no handler
 * runs.
 */
#include "hg_fixture.h"

#include "mercury_core_header.h"
#include "na_ext.h"

#include <string.h>

/* 1: the last byte of the next request is altered on the wire. */
static atomic_int damage;

na_return_t __real_NA_Msg_send_unexpected(na_class_t *na_class, na_context_t *context,
                                          na_cb_t callback, void *arg, const void *buf, size_t size,
                                          void *data, na_addr_t *addr, uint8_t id, na_tag_t tag,
                                          na_op_id_t *op);
na_return_t __wrap_NA_Msg_send_unexpected(na_class_t *na_class, na_context_t *context,
                                          na_cb_t callback, void *arg, const void *buf, size_t size,
                                          void *data, na_addr_t *addr, uint8_t id, na_tag_t tag,
                                          na_op_id_t *op);

na_return_t __wrap_NA_Msg_send_unexpected(na_class_t *na_class, na_context_t *context,
                                          na_cb_t callback, void *arg, const void *buf, size_t size,
                                          void *data, na_addr_t *addr, uint8_t id, na_tag_t tag,
                                          na_op_id_t *op)
{
    if (atomic_exchange(&damage, 0) == 1)
        ((char *) (uintptr_t) buf)[size - 1] ^= 1;
    return __real_NA_Msg_send_unexpected(na_class, context, callback, arg, buf, size, data, addr,
                                         id, tag, op);
}

/* The auth_key and the auth_key_also of a side. NULL: none. */
struct keys {
    const char *key, *also;
};

static void rotating_open(struct pair *pair, const struct keys *origin, const struct keys *target,
                          hg_checksum_level_t checksums)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    info.checksum_level = checksums;
    info.na_init_info.auth_key = origin->key;
    info.auth_key_also = origin->also;
    side_open(&pair->origin, &info);
    info.na_init_info.auth_key = target->key;
    info.auth_key_also = target->also;
    side_open(&pair->target, &info);
    side_register(&pair->origin);
    side_register(&pair->target);
    pair->addr = side_lookup(&pair->origin, &pair->target);
}

/* A pair whose sides may have different keys; NULL: none. */
static void keyed_open(struct pair *pair, const char *origin_key, const char *target_key,
                       hg_checksum_level_t checksums)
{
    rotating_open(pair, &(struct keys){origin_key, NULL}, &(struct keys){target_key, NULL},
                  checksums);
}

static void equal_keys_understand_each_other(void **state)
{
    for (int level = HG_CHECKSUM_NONE; level <= HG_CHECKSUM_RPC_PAYLOAD; level += 2) {
        struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
        struct pair pair = {0};
        struct outcome outcome = {0};
        hg_handle_t handle;
        struct blob in;

        (void) state;
        info.checksum_level = (hg_checksum_level_t) level;
        info.na_init_info.auth_key = "open sesame";
        pair_open(&pair, &info);
        pair_echo(&pair, 0);
        pair_echo(&pair, 100);
        pair_echo(&pair, (uint32_t) HG_Class_get_input_eager_size(pair.origin.hg_class) - 4);
        /*
         * A large RPC and a cancelled one: messages without a payload (acknowledgement, ABANDON)
         * are sealed as well.
         */
        pair_echo(&pair, pair_large(&pair));
        blob_make(&in, 10, 1);
        handle = pair_create(&pair, RPC_HOLD);
        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
        pair_wait_held(&pair, &pair.target, 1);
        assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
        pair_wait_for(&pair, &outcome.count, 1);
        pair_run(&pair, 5);
        side_respond_held(&pair.target, NULL);
        pair_run(&pair, 2);
        (void) HG_Destroy(handle);
        free(in.data);
        assert_int_equal(side_ext_counters(&pair.origin).refused_key_count, 0);
        assert_int_equal(side_ext_counters(&pair.target).refused_key_count, 0);
        assert_int_equal(side_ext_counters(&pair.target).refused_header_count, 0);
        pair_close(&pair);
    }
}

/*
 * Whether HG seals the messages itself. Other transports prove the key themselves and let no peer
 * in that has another one, so that no message arrives that HG could count.
 */
static bool hg_seals(void)
{
    const char *init = test_init_string();

    return strncmp(init, "na+", 3) == 0 || strncmp(init, "fault+na+", 9) == 0 ||
           strncmp(init, "loop", 4) == 0;
}

/* Sum of the counters of both transports for peers refused because of their key. */
static uint64_t transport_refused(const struct pair *pair)
{
    static const char name[] = "_refused_key";
    const struct side *sides[] = {&pair->origin, &pair->target};
    uint64_t sum = 0;

    for (size_t i = 0; i < 2; i++) {
        struct na_counter counters[64];
        size_t count = 64;

        assert_int_equal(
            NA_Class_get_counters(HG_Class_get_na(sides[i]->hg_class), counters, &count),
            NA_SUCCESS);
        for (size_t k = 0; k < count; k++) {
            const char *end = strstr(counters[k].name, name);

            if (end != NULL && strcmp(end, name) == 0)
                sum += counters[k].value;
        }
    }
    return sum;
}

static void check_refused(const char *origin_key, const char *target_key)
{
    const bool is_let_in = hg_seals();
    /*
     * Without a key the one-way request leaves together with the connection's introduction, but not
     * over ucx.
     */
    const bool is_sent =
        origin_key == NULL && (is_let_in || strncmp(test_init_string(), "ucx+", 4) != 0);
    /*
     * A side without a key refuses nothing, and a target does not learn that its response was
     * refused.
     */
    const bool origin_counts = is_let_in && origin_key != NULL;
    const bool target_counts = is_let_in && (origin_key == NULL || target_key == NULL);
    struct pair pair = {0};
    hg_handle_t handle;
    struct blob in;

    keyed_open(&pair, origin_key, target_key, HG_CHECKSUM_NONE);
    blob_make(&in, 10, 1);
    handle = pair_create(&pair, RPC_ECHO);
    for (unsigned int i = 1; i <= 3; i++) {
        assert_int_equal(pair_call(&pair, handle, &in), HG_PERMISSION);
        assert_int_equal(side_ext_counters(&pair.target).refused_key_count, target_counts ? i : 0);
        assert_int_equal(side_ext_counters(&pair.origin).refused_key_count, origin_counts ? i : 0);
    }
    assert_true(is_let_in || transport_refused(&pair) >= 3);
    (void) HG_Destroy(handle);
    /* A refused one-way RPC gets no response, and its handler does not run. */
    handle = pair_create(&pair, RPC_ONEWAY);
    assert_int_equal(pair_call(&pair, handle, &in), is_sent ? HG_SUCCESS : HG_PERMISSION);
    for (int i = 0;
         i < 2000 && target_counts && side_ext_counters(&pair.target).refused_key_count < 4; i++)
        pair_run(&pair, 1);
    assert_int_equal(side_ext_counters(&pair.target).refused_key_count, target_counts ? 4 : 0);
    (void) HG_Destroy(handle);
    free(in.data);
    blob_make(&in, pair_large(&pair), 1);
    handle = pair_create(&pair, RPC_ECHO);
    assert_int_equal(pair_call(&pair, handle, &in), HG_PERMISSION);
    (void) HG_Destroy(handle);
    free(in.data);
    assert_int_equal(atomic_load(&pair.target.handled), 0);
    assert_int_equal(side_counters(&pair.target).rpc_req_recv_count, 0);
    assert_int_equal(side_counters(&pair.target).bulk_count, 0);
    pair_close(&pair);
}

static void other_keys_are_refused(void **state)
{
    (void) state;
    check_refused("abracadabra", "open sesame");
    check_refused(NULL, "open sesame");
    check_refused("abracadabra", NULL);
}

/* The warnings, one line after the other. */
static char warned[8192];

static int keep_warning(FILE *stream, const char *format, ...)
{
    const size_t used = strlen(warned);
    va_list args;

    (void) stream;
    va_start(args, format);
    (void) vsnprintf(warned + used, sizeof(warned) - used, format, args);
    va_end(args);
    return 0;
}

static int warnings(const char *text)
{
    int count = 0;

    for (const char *at = warned; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

/* Each side logs once which of them has a key. */
static void the_log_says_who_has_a_key(void **state)
{
    static const char *const texts[] = {
        "it has a key (auth_key) and we have none, or its handler returned",
        "we have a key (auth_key), and its sender has none",
        "its sender has a key (auth_key), and we have none",
        "it has no seal: its sender has no key (auth_key), or refused ours",
        "an answer to HELLO: the auth_key of its sender is not ours",
    };
    static const struct {
        const char *keys[2]; /* of origin and target */
        int warnings[5];     /* count of each text, if HG seals */
    } cases[] = {
        {{NULL, "open sesame"}, {1, 1, 0, 0, 0}},
        {{"open sesame", NULL}, {0, 0, 1, 1, 0}},
        {{"abracadabra", "open sesame"}, {0, 0, 0, 0, 1}},
        {{NULL, NULL}, {0, 0, 0, 0, 0}},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const hg_return_t ret = i < 3 ? HG_PERMISSION : HG_SUCCESS;
        struct pair pair = {0};
        hg_handle_t handle;
        struct blob in;

        keyed_open(&pair, cases[i].keys[0], cases[i].keys[1], HG_CHECKSUM_NONE);
        blob_make(&in, 10, 1);
        handle = pair_create(&pair, RPC_ECHO);
        warned[0] = '\0';
        HG_Set_log_func(keep_warning);
        for (int k = 0; k < 3; k++)
            assert_int_equal(pair_call(&pair, handle, &in), ret);
        HG_Set_log_func(NULL);
        for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++)
            assert_int_equal(warnings(texts[k]), hg_seals() ? cases[i].warnings[k] : 0);
        (void) HG_Destroy(handle);
        free(in.data);
        pair_close(&pair);
    }
}

/*
 * While the key of a service changes, its processes have different pairs of keys, and call each
 * other in any order.
 */
static void keys_are_changed_process_by_process(void **state)
{
    static const struct keys before = {"open sesame", NULL}, both = {"abracadabra", "open sesame"},
                             other = {"open sesame", "abracadabra"}, after = {"abracadabra", NULL},
                             thirds = {"shibboleth", "mellon"};
    static const struct {
        const struct keys *origin, *target;
        bool is_met;
        /* refused by the origin after each call if HG seals: one for each HELLO */
        uint64_t refused[2];
    } pairs[] = {
        {&before, &both, true, {0, 0}},   {&both, &both, true, {0, 0}},
        {&both, &other, true, {0, 0}},    {&after, &both, true, {0, 0}},
        {&both, &after, true, {0, 0}},    {&both, &before, true, {1, 1}},
        {&before, &after, false, {1, 2}}, {&thirds, &both, false, {2, 4}},
        {&both, &thirds, false, {2, 4}},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct pair pair = {0};
        hg_handle_t handle;
        struct blob in;

        rotating_open(&pair, pairs[i].origin, pairs[i].target, HG_CHECKSUM_NONE);
        blob_make(&in, pairs[i].is_met ? pair_large(&pair) : 10, 1);
        handle = pair_create(&pair, RPC_ECHO);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(pair_call(&pair, handle, &in),
                             pairs[i].is_met ? HG_SUCCESS : HG_PERMISSION);
            assert_int_equal(side_ext_counters(&pair.origin).refused_key_count,
                             hg_seals() ? pairs[i].refused[k] : 0);
        }
        assert_int_equal(atomic_load(&pair.target.handled), pairs[i].is_met ? 2 : 0);
        (void) HG_Destroy(handle);
        free(in.data);
        pair_close(&pair);
    }
}

/*
 * If the transport encrypts, RPCs of all sizes work between two sides that encrypt, and none
 * between sides of which only one does.
 */
static void both_sides_encrypt_or_neither(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    (void) state;
    info.na_init_info.auth_key = "open sesame";
    if (hg_seals()) {
        info.encrypt = true;
        assert_null(test_class_open(HG_TRUE, &info));
        return;
    }
    for (int who = 1; who <= 3; who++) { /* the origin, the target, both */
        struct pair pair = {0};
        hg_handle_t handle;
        struct blob in;

        info.encrypt = (who & 1) != 0;
        side_open(&pair.origin, &info);
        info.encrypt = (who & 2) != 0;
        side_open(&pair.target, &info);
        pair.addr = side_lookup(&pair.origin, &pair.target);
        assert_int_equal(
            NA_Class_has_capability(HG_Class_get_na(pair.origin.hg_class), "encrypted"), who & 1);
        blob_make(&in, 10, 1);
        handle = pair_create(&pair, RPC_ECHO);
        assert_int_equal(pair_call(&pair, handle, &in), who == 3 ? HG_SUCCESS : HG_PERMISSION);
        (void) HG_Destroy(handle);
        free(in.data);
        assert_int_equal(atomic_load(&pair.target.handled), who == 3);
        if (who == 3) {
            pair_echo(&pair, 0);
            pair_echo(&pair, (uint32_t) HG_Class_get_input_eager_size(pair.origin.hg_class) - 4);
            pair_echo(&pair, pair_large(&pair));
            assert_int_equal(transport_refused(&pair), 0);
        }
        pair_close(&pair);
    }
}

/* A change of a single bit of a message is detected by the seal. */
static void altered_message_is_refused(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};
    hg_handle_t handle;
    struct blob in;

    (void) state;
    if (!hg_seals())
        skip(); /* the test alters the message before the transport seals it */
    info.na_init_info.auth_key = "open sesame";
    pair_open(&pair, &info);
    blob_make(&in, 10, 1);
    handle = pair_create(&pair, RPC_ECHO);
    assert_int_equal(pair_call(&pair, handle, &in), HG_SUCCESS);
    atomic_store(&damage, 1);
    assert_int_equal(pair_call(&pair, handle, &in), HG_PERMISSION);
    assert_int_equal(side_ext_counters(&pair.target).refused_key_count, 1);
    assert_int_equal(pair_call(&pair, handle, &in), HG_SUCCESS);
    assert_int_equal(atomic_load(&pair.target.handled), 2);
    (void) HG_Destroy(handle);
    free(in.data);
    pair_close(&pair);
}

/*
 * Without a key, a checksum of the payload detects the change when the handler decodes the input.
 */
static void altered_payload_is_refused(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};
    hg_handle_t handle;
    struct blob in;

    (void) state;
    info.checksum_level = HG_CHECKSUM_RPC_PAYLOAD;
    pair_open(&pair, &info);
    blob_make(&in, 10, 1);
    handle = pair_create(&pair, RPC_ECHO);
    assert_int_equal(pair_call(&pair, handle, &in), HG_SUCCESS);
    atomic_store(&damage, 1);
    assert_int_equal(pair_call(&pair, handle, &in), HG_CHECKSUM_ERROR);
    assert_int_equal(side_ext_counters(&pair.target).refused_checksum_count, 1);
    assert_int_equal(pair_call(&pair, handle, &in), HG_SUCCESS);
    assert_int_equal(atomic_load(&pair.target.handled), 2);
    (void) HG_Destroy(handle);
    free(in.data);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_keys_understand_each_other),
        cmocka_unit_test(other_keys_are_refused),
        cmocka_unit_test(the_log_says_who_has_a_key),
        cmocka_unit_test(keys_are_changed_process_by_process),
        cmocka_unit_test(both_sides_encrypt_or_neither),
        cmocka_unit_test(altered_message_is_refused),
        cmocka_unit_test(altered_payload_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
