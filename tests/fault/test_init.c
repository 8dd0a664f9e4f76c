/* SPDX-License-Identifier: BSD-3-Clause */
/* Init strings, options and addresses of wrapped endpoints. */

#include "fault_test.h"

static void a_class_says_what_it_wraps(void **state)
{
    struct end end;
    char address[512];

    (void) state;
    wrapped_open(&end, "drop=0&seed=7");
    assert_string_equal(NA_Get_class_name(end.na_class), "fault");
    assert_string_equal(NA_Get_class_protocol(end.na_class), test_init_string());
    end_address(&end, address, sizeof(address));
    assert_int_equal(strncmp(address, test_init_string(), strlen(test_init_string())), 0);
    assert_null(strchr(address, '?'));
    end_close(&end);
}

static void every_option_is_taken(void **state)
{
    static const char *const options[] = {
        "drop=0.01&delay_us=100:500&reorder=0.05&cancel_fails=0.1&die_after=1000&seed=7",
        "drop=1",
        "drop=1.0",
        "drop=0.",
        "drop=0.000000000000001",
        "delay_us=5",
        "delay_us=0:3600000000",
        "reorder=1&reorder_us=50&order=any",
        "order=keep",
        "cancel_fails=1&cancel_us=0",
        "seed=18446744073709551615",
    };

    (void) state;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        struct end end;

        wrapped_open(&end, options[i]);
        end_close(&end);
    }
}

static void the_wrapped_plugin_has_options_before_ours(void **state)
{
    char address[512], name[600];
    struct end end;
    na_addr_t *self;

    (void) state;
    end_open(&end, "fault+na+sm://?rma=copy?drop=0", NULL);
    assert_false(NA_Class_has_capability(end.na_class, "native_rma"));
    end_address(&end, address, sizeof(address));
    (void) snprintf(name, sizeof(name), "fault+%s?rma=copy?drop=0", address);
    assert_int_equal(NA_Addr_lookup(end.na_class, name, &self), NA_SUCCESS);
    assert_false(NA_Addr_has_capability(end.na_class, self, "native_rma"));
    assert_true(NA_Addr_has_capability(end.na_class, self, "rma"));
    NA_Addr_free(end.na_class, self);
    end_close(&end);
    check_refused("fault+na+sm://?arm=copy?drop=0", NA_INVALID_ARG,
                  "option \"arm=copy\": it is unknown; the options of sm are: rma");
}

static void counters_of_the_wrapped_plugin_follow_ours(void **state)
{
    struct na_counter counters[32];
    size_t count = 32, first = 0;
    struct end end;

    (void) state;
    end_open(&end, "fault+na+sm", NULL);
    assert_int_equal(NA_Class_get_counters(end.na_class, counters, &count), NA_SUCCESS);
    while (first < count && strcmp(counters[first].name, "na_fault_dropped") != 0)
        first++;
    assert_true(first + 5 < count);
    assert_string_equal(counters[first + 4].name, "na_fault_failed");
    assert_string_equal(counters[first + 5].name, "na_fault_inner_sends_queued");
    end_close(&end);
}

static void malformed_options_are_refused_with_the_reason(void **state)
{
    static const char *const options[][2] = {
        {"", "there are drop, delay_us"},
        {"dorp=1", "option \"dorp=1\": there are drop"},
        {"drop=0.1&", "there are drop"},
        {"drop", "\"name=value\" is expected"},
        {"drop=", "a probability"},
        {"drop=2", "a probability from 0 to 1"},
        {"drop=-0", "a probability"},
        {"drop=.5", "a probability"},
        {"drop=0.5x", "a probability"},
        {"drop=0,5", "a number is no choice"},
        {"drop=0,5&seed=7", "only letters"},
        {"delay_us=100,500", "a number is no choice"},
        {"drop=0.1&drop=0.1", "given twice"},
        {"delay_us=5:1", "microseconds"},
        {"delay_us=1:", "microseconds"},
        {"delay_us=:1", "microseconds"},
        {"delay_us=3600000001", "up to an hour"},
        {"delay_us=1ms", "microseconds"},
        {"order=none", "\"keep\" or \"any\""},
        {"seed=18446744073709551616", "a number"},
        {"seed=0x1", "a number"},
        {"die_after=1.5", "a number"},
        {"seed=00000000000000000000000000000000000000001", "\"name=value\""},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        char init[512];

        (void) snprintf(init, sizeof(init), "fault+%s://?%s", test_init_string(), options[i][0]);
        check_refused(init, NA_INVALID_ARG, options[i][1]);
    }
}

static void what_cannot_be_wrapped_is_refused_with_the_reason(void **state)
{
    (void) state;
    check_refused("fault+nothing+tcp", NA_NOENTRY, "there is no na_nothing.so");
    check_refused("fault+sm+tcp", NA_PROTONOSUPPORT, "does not offer the protocol \"tcp\"");
    check_refused("fault+nosuchword", NA_PROTONOSUPPORT, "nosuchword");
    check_refused("fault+fault+nothing+tcp", NA_NOENTRY,
                  "nothing to wrap for \"nothing+tcp\": there is no");
}

static void the_wrapped_transport_gets_its_own_address(void **state)
{
    struct end end;
    char address[512];

    (void) state;
    if (!test_is_sm())
        test_skip("its addresses are chosen otherwise");
    end_open(&end, "fault+na+sm://a-name?drop=0.5", NULL);
    end_address(&end, address, sizeof(address));
    assert_non_null(strstr(address, "a-name"));
    end_close(&end);
    end_open(&end, "fault+na+sm://a-name", NULL);
    end_address(&end, address, sizeof(address));
    assert_non_null(strstr(address, "a-name"));
    end_close(&end);
}

static void a_word_and_a_wrapped_wrapper_can_be_wrapped(void **state)
{
    static const char *const strings[] = {"fault+sm", "fault+sm://?drop=0", "fault+fault+na+sm",
                                          "fault+fault+na+sm://?delay_us=10?delay_us=20"};

    (void) state;
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        struct burst burst;
        struct end from, to;

        end_open(&from, strings[i], NULL);
        end_open(&to, "na+sm", NULL);
        burst_run(&burst, &from, &to, 20, 20);
        assert_int_equal(burst.arrived, 20);
        end_close(&from);
        end_close(&to);
    }
}

static void nobody_gets_faults_who_does_not_ask(void **state)
{
    struct end end;

    (void) state;
    end_open(&end, "sm", NULL);
    assert_string_equal(NA_Get_class_name(end.na_class), "na");
    end_close(&end);
    check_refused("fault", NA_PROTONOSUPPORT, "fault");
}

/* Messages pass in both directions; a lookup also accepts the peer's own init string. */
static void wrapped_and_plain_peers_understand_each_other(void **state)
{
    struct end wrapped, plain;
    struct burst burst;
    char address[512], prefixed[600];
    na_addr_t *addr, *other;

    (void) state;
    wrapped_open(&wrapped, "delay_us=10");
    end_open(&plain, NULL, NULL);
    burst_run(&burst, &wrapped, &plain, 50, 50);
    assert_int_equal(burst.arrived, 50);
    burst_run(&burst, &plain, &wrapped, 50, 50);
    assert_int_equal(burst.arrived, 50);

    end_address(&plain, address, sizeof(address));
    (void) snprintf(prefixed, sizeof(prefixed), "fault+%s?drop=1", address);
    assert_int_equal(NA_Addr_lookup(wrapped.na_class, address, &addr), NA_SUCCESS);
    assert_int_equal(NA_Addr_lookup(wrapped.na_class, prefixed, &other), NA_SUCCESS);
    assert_true(NA_Addr_cmp(wrapped.na_class, addr, other));
    NA_Addr_free(wrapped.na_class, addr);
    NA_Addr_free(wrapped.na_class, other);
    end_close(&wrapped);
    end_close(&plain);
}

static void addresses_travel_serialized(void **state)
{
    struct end wrapped, plain;
    na_addr_t *self, *copy;
    char bytes[512], first[512], second[512];
    size_t size = sizeof(second);

    (void) state;
    wrapped_open(&wrapped, "seed=1");
    end_open(&plain, NULL, NULL);
    assert_int_equal(NA_Addr_self(wrapped.na_class, &self), NA_SUCCESS);
    assert_in_range(NA_Addr_get_serialize_size(wrapped.na_class, self), 1, sizeof(bytes));
    assert_int_equal(NA_Addr_serialize(wrapped.na_class, bytes, sizeof(bytes), self), NA_SUCCESS);
    assert_int_equal(NA_Addr_deserialize(plain.na_class, &copy, bytes,
                                         NA_Addr_get_serialize_size(wrapped.na_class, self), 0),
                     NA_SUCCESS);
    end_address(&wrapped, first, sizeof(first));
    assert_int_equal(NA_Addr_to_string(plain.na_class, second, &size, copy), NA_SUCCESS);
    assert_string_equal(first, second);
    NA_Addr_free(plain.na_class, copy);
    NA_Addr_free(wrapped.na_class, self);
    end_close(&wrapped);
    end_close(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_says_what_it_wraps),
        cmocka_unit_test(every_option_is_taken),
        cmocka_unit_test(the_wrapped_plugin_has_options_before_ours),
        cmocka_unit_test(counters_of_the_wrapped_plugin_follow_ours),
        cmocka_unit_test(malformed_options_are_refused_with_the_reason),
        cmocka_unit_test(what_cannot_be_wrapped_is_refused_with_the_reason),
        cmocka_unit_test(the_wrapped_transport_gets_its_own_address),
        cmocka_unit_test(a_word_and_a_wrapped_wrapper_can_be_wrapped),
        cmocka_unit_test(nobody_gets_faults_who_does_not_ask),
        cmocka_unit_test(wrapped_and_plain_peers_understand_each_other),
        cmocka_unit_test(addresses_travel_serialized),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
