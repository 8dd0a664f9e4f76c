/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Init strings: each valid form is parsed, and any other string is refused with a reason and a
 * position.
 */

#include "na/init_string.h"
#include "na_test.h"

static void check_one(const char *string, const char *plugin, const char *protocol,
                      const char *address)
{
    struct na_init_string parsed;

    assert_int_equal(na_init_string_parse(string, &parsed, NULL, 0), NA_SUCCESS);
    assert_int_equal(parsed.count, 1);
    if (plugin != NULL)
        assert_string_equal(parsed.choices[0].plugin, plugin);
    else
        assert_null(parsed.choices[0].plugin);
    if (protocol != NULL)
        assert_string_equal(parsed.choices[0].protocol, protocol);
    else
        assert_null(parsed.choices[0].protocol);
    if (address != NULL)
        assert_string_equal(parsed.choices[0].address, address);
    else
        assert_null(parsed.choices[0].address);
    na_init_string_free(&parsed);
}

static void every_form_of_a_choice_is_understood(void **state)
{
    (void) state;
    check_one("na+sm", "na", "sm", NULL);
    check_one("sm", NULL, "sm", NULL);
    check_one("na+sm://", "na", "sm", NULL);
    check_one("tcp://", NULL, "tcp", NULL);
    check_one("ofi+tcp://localhost:3344", "ofi", "tcp", "localhost:3344");
    check_one("ofi+tcp://[::1]:3344", "ofi", "tcp", "[::1]:3344");
    check_one("ofi+tcp;ofi_rxm", "ofi", "tcp;ofi_rxm", NULL);
    check_one("tcp;ofi_rxm://eth0:1", NULL, "tcp;ofi_rxm", "eth0:1");
    check_one("fault+ofi+tcp://h:1", "fault", "ofi+tcp", "h:1");
    check_one("my-plugin_2+udp-4.1", "my-plugin_2", "udp-4.1", NULL);
    check_one("auto", NULL, NULL, NULL);
    check_one("auto://localhost", NULL, NULL, "localhost");
    check_one("autonomous", NULL, "autonomous", NULL);
    check_one("sm://a://b+c", NULL, "sm", "a://b+c");
}

static void the_strings_that_fabrics_need_are_understood(void **state)
{
    (void) state;
    check_one("ofi+tcp;ofi_rxm://host:port", "ofi", "tcp;ofi_rxm", "host:port");
    check_one("ofi+verbs;ofi_rxm://mlx5_0", "ofi", "verbs;ofi_rxm", "mlx5_0");
    check_one("ofi+verbs://mlx5_0/1.2.3.4:5", "ofi", "verbs", "mlx5_0/1.2.3.4:5");
    check_one("ofi+tcp://eth0:1234", "ofi", "tcp", "eth0:1234");
    check_one("ofi+tcp://[fe80::1%eth0]:5000", "ofi", "tcp", "[fe80::1%eth0]:5000");
    check_one("ofi+sockets://", "ofi", "sockets", NULL);
    check_one("ofi+net", "ofi", "net", NULL);
    check_one("ucx+all", "ucx", "all", NULL);
    check_one("ucx+rc_x", "ucx", "rc_x", NULL);
    check_one("ucx+tcp;cma;posix://10.0.0.1:5", "ucx", "tcp;cma;posix", "10.0.0.1:5");
    check_one("bmi+tcp://localhost:1234", "bmi", "tcp", "localhost:1234");
    check_one("mpi+dynamic", "mpi", "dynamic", NULL);
    check_one("fault+ofi+tcp;ofi_rxm://h:1", "fault", "ofi+tcp;ofi_rxm", "h:1");
    check_one("ofi", NULL, "ofi", NULL);
}

/* This holds whatever precedes the comma; a list within a protocol uses ";". */
static void a_comma_always_begins_the_next_choice(void **state)
{
    struct na_init_string parsed;

    (void) state;
    assert_int_equal(na_init_string_parse("ucx+rc;cma,tcp://h:1,ofi+tcp", &parsed, NULL, 0),
                     NA_SUCCESS);
    assert_int_equal(parsed.count, 3);
    assert_string_equal(parsed.choices[0].protocol, "rc;cma");
    assert_null(parsed.choices[0].address);
    assert_null(parsed.choices[1].plugin);
    assert_string_equal(parsed.choices[1].protocol, "tcp");
    assert_string_equal(parsed.choices[1].address, "h:1");
    assert_string_equal(parsed.choices[2].plugin, "ofi");
    na_init_string_free(&parsed);
}

static void a_list_keeps_its_order(void **state)
{
    struct na_init_string parsed;

    (void) state;
    assert_int_equal(na_init_string_parse("ofi+verbs,ucx+all://h:1,auto", &parsed, NULL, 0),
                     NA_SUCCESS);
    assert_int_equal(parsed.count, 3);
    assert_string_equal(parsed.choices[0].plugin, "ofi");
    assert_string_equal(parsed.choices[0].protocol, "verbs");
    assert_string_equal(parsed.choices[1].plugin, "ucx");
    assert_string_equal(parsed.choices[1].address, "h:1");
    assert_null(parsed.choices[2].plugin);
    assert_null(parsed.choices[2].protocol);
    na_init_string_free(&parsed);
}

static void every_malformed_string_is_refused_at_its_position(void **state)
{
    static const struct {
        const char *string;
        unsigned int position; /* of the error, from 1 */
        const char *reason;
    } cases[] = {
        {"", 1, "empty"},
        {",", 1, "missing beside a comma"},
        {",sm", 1, "missing beside a comma"},
        {"sm,", 4, "missing beside a comma"},
        {"sm,,tcp", 4, "missing beside a comma"},
        {"fault+sm://?drop=0,5", 20, "a number is no choice"},
        {"fault+sm://?delay_us=1,500,sm", 24, "a number is no choice"},
        {"7", 1, "a number is no choice"},
        {"+", 1, "plugin's name is missing"},
        {"+sm", 1, "plugin's name is missing"},
        {"na+", 4, "protocol's name is missing"},
        {"na+://host", 4, "protocol's name is missing"},
        {"://host", 1, "protocol's name is missing"},
        {":", 1, "\"://\" is expected"},
        {"sm:", 3, "\"://\" is expected"},
        {"sm:/", 3, "\"://\" is expected"},
        {"sm:1234", 3, "\"://\" is expected"},
        {"na+sm:/x", 6, "\"://\" is expected"},
        {" sm", 1, "only letters"},
        {"sm ", 3, "only letters"},
        {"na +sm", 3, "only letters"},
        {"na+ sm", 4, "only letters"},
        {"na+sm, tcp", 7, "only letters"},
        {"a/b+sm", 2, "only letters"},
        {"../x+sm", 1, "only letters"},
        {"a.b+sm", 2, "only letters"},
        {"na+s/m", 5, "only letters"},
        {"na+sm\n", 6, "only letters"},
        {"n\303\244+sm", 2, "only letters"},
        {"na++sm", 4, "name is missing beside"},
        {"na+sm+", 6, "name is missing beside"},
        {"na+a++b", 5, "name is missing beside"},
        {"auto+tcp", 5, "takes no protocol"},
        {"sm://a b", 7, "visible"},
        {"sm://a\tb", 7, "visible"},
        {"sm://\303\244", 6, "visible"},
        {"ok,sm://a\177", 10, "visible"},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char reason[512] = "", expected[64];

        print_message("  \"%s\"\n", cases[i].string);
        assert_int_equal(NA_Check_init_string(cases[i].string, reason, sizeof(reason)),
                         NA_INVALID_ARG);
        assert_non_null(strstr(reason, cases[i].reason));
        (void) snprintf(expected, sizeof(expected), "at character %u:", cases[i].position);
        assert_non_null(strstr(reason, expected));
        assert_null(NA_Initialize(cases[i].string, false));
    }
}

static void null_and_overlong_strings_are_refused(void **state)
{
    char reason[512], *string = malloc(NA_INIT_STRING_MAX + 2), name[NA_PLUGIN_NAME_MAX + 8];

    (void) state;
    assert_non_null(string);
    assert_int_equal(NA_Check_init_string(NULL, reason, sizeof(reason)), NA_INVALID_ARG);
    assert_non_null(strstr(reason, "NULL"));
    memset(string, 'a', NA_INIT_STRING_MAX + 1);
    string[NA_INIT_STRING_MAX + 1] = '\0';
    assert_int_equal(NA_Check_init_string(string, reason, sizeof(reason)), NA_INVALID_ARG);
    assert_non_null(strstr(reason, "too long"));
    string[NA_INIT_STRING_MAX] = '\0';
    assert_int_equal(NA_Check_init_string(string, reason, sizeof(reason)), NA_SUCCESS);
    free(string);

    memset(name, 'p', sizeof(name));
    memcpy(name + NA_PLUGIN_NAME_MAX + 1, "+tcp", 5);
    assert_int_equal(NA_Check_init_string(name, reason, sizeof(reason)), NA_INVALID_ARG);
    memcpy(name + NA_PLUGIN_NAME_MAX, "+tcp", 5);
    assert_int_equal(NA_Check_init_string(name, reason, sizeof(reason)), NA_SUCCESS);
}

/* Random strings are accepted or refused with a reason; AddressSanitizer checks the accesses. */
static void arbitrary_bytes_do_no_harm(void **state)
{
    static const char alphabet[] = "na+sm:/,;. \t\n\\%s%n\200\377auto";
    char string[40], reason[300];
    uint32_t seed = 12345;

    (void) state;
    for (int i = 0; i < 20000; i++) {
        size_t length = 0;
        char *copy;

        do {
            seed = seed * 1664525u + 1013904223u;
            string[length] = alphabet[(seed >> 16) % (sizeof(alphabet) - 1)];
        } while (++length < (seed >> 8) % sizeof(string));
        copy = strndup(string, length);
        reason[0] = '\0';
        if (NA_Check_init_string(copy, reason, sizeof(reason)) != NA_SUCCESS)
            assert_true(strlen(reason) > 10);
        free(copy);
    }
}

static void a_reason_is_cut_to_its_buffer_and_optional(void **state)
{
    char reason[8] = "xxxxxxx";

    (void) state;
    assert_int_equal(NA_Check_init_string("sm,", reason, sizeof(reason)), NA_INVALID_ARG);
    assert_int_equal(strlen(reason), 7);
    assert_int_equal(NA_Check_init_string("sm,", NULL, 0), NA_INVALID_ARG);
    assert_int_equal(NA_Check_init_string("sm", NULL, 0), NA_SUCCESS);
}

static void a_reason_has_no_control_characters(void **state)
{
    static const char *const bad[] = {"sm\n\x1b[31m,", "no\x1bsuch+tcp", "tcp://\r\xc2\x9b:0,,",
                                      "na+sm\t\x7f"};
    char reason[1024];
    na_class_t *na_class;

    (void) state;
    for (size_t i = 0; i < 2 * sizeof(bad) / sizeof(bad[0]); i++) {
        reason[0] = '\0';
        if (i % 2 == 0)
            (void) NA_Check_init_string(bad[i / 2], reason, sizeof(reason));
        else
            assert_int_not_equal(NA_Initialize_reason(bad[i / 2], false, NA_VERSION(6, 0), NULL,
                                                      &na_class, reason, sizeof(reason)),
                                 NA_SUCCESS);
        for (const char *at = reason; *at != '\0'; at++)
            assert_true((unsigned char) *at >= ' ' && *at != 0x7f);
        assert_null(strstr(reason, "\xc2\x9b"));
        assert_true(i % 2 == 0 || strstr(reason, "\\x") != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_choice_is_understood),
        cmocka_unit_test(the_strings_that_fabrics_need_are_understood),
        cmocka_unit_test(a_comma_always_begins_the_next_choice),
        cmocka_unit_test(a_list_keeps_its_order),
        cmocka_unit_test(every_malformed_string_is_refused_at_its_position),
        cmocka_unit_test(null_and_overlong_strings_are_refused),
        cmocka_unit_test(arbitrary_bytes_do_no_harm),
        cmocka_unit_test(a_reason_is_cut_to_its_buffer_and_optional),
        cmocka_unit_test(a_reason_has_no_control_characters),
    };

    NA_Set_log_level("none");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
