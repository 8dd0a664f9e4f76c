/* SPDX-License-Identifier: BSD-3-Clause */
/* A requested interface or transport is used; if it is missing, the error lists what there is. */

#include "ucx_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct offers {
    uint32_t count;
    uint32_t usable;
    uint32_t node_local;
    int32_t priority;
    char reason[1024];
};

static int32_t count_offer(void *arg, const struct na_plugin_offer *offer)
{
    struct offers *offers = arg;

    offers->count++;
    offers->usable += (offer->flags & NA_PLUGIN_OFFER_USABLE) != 0;
    offers->node_local += (offer->flags & NA_PLUGIN_OFFER_NODE_LOCAL) != 0;
    offers->priority = offer->priority;
    assert_int_equal(offer->reason == NULL, (offer->flags & NA_PLUGIN_OFFER_USABLE) != 0);
    if (offer->reason != NULL)
        (void) snprintf(offers->reason, sizeof(offers->reason), "%s", offer->reason);
    return NA_PLUGIN_SUCCESS;
}

static struct offers ask(const char *protocol)
{
    struct offers offers = {0};

    assert_int_equal(ucx_enumerate(protocol, count_offer, &offers), NA_PLUGIN_SUCCESS);
    return offers;
}

/* Opens and closes a class; captures the log meanwhile. */
static int32_t open_class(const char *protocol, const char *address, uint32_t mode)
{
    struct na_plugin_init init = {
        .size = sizeof(init),
        .listen = 1,
        .class_name = "ucx",
        .protocol = protocol,
        .address = address,
        .max_contexts = 1,
        .progress_mode = mode,
    };
    struct na_plugin_class_info info = {.size = sizeof(info)};
    struct na_plugin_class *na_class = NULL;
    int32_t ret;

    plugin_host_log[0] = '\0';
    ret = ucx_class_initialize(&init, NULL, &na_class, &info);
    assert_int_equal(na_class != NULL, ret == NA_PLUGIN_SUCCESS);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    assert_true((info.capabilities & NA_PLUGIN_CAP_RMA) != 0);
    assert_int_equal((info.capabilities & NA_PLUGIN_CAP_WAIT_FD) != 0,
                     (mode & NA_PLUGIN_PROGRESS_BUSY) == 0);
    assert_int_equal(ucx_class_finalize(na_class), NA_PLUGIN_SUCCESS);
    return ret;
}

static void check_log(const char *text)
{
    if (strstr(plugin_host_log, text) == NULL)
        fail_msg("\"%s\" is not in the log: %s", text, plugin_host_log);
}

static void words_become_a_list_for_ucx(void **state)
{
    char tls[UCX_TLS_MAX], missing[UCX_TLS_MAX], long_word[UCX_TLS_MAX + 8];

    (void) state;
    assert_true(ucx_protocol_to_tls("tcp", tls));
    assert_string_equal(tls, "tcp");
    assert_true(ucx_protocol_to_tls("rc_mlx5+sm+tcp", tls));
    assert_string_equal(tls, "rc_mlx5,sm,tcp");
    assert_true(ucx_protocol_missing(tls, missing, sizeof(missing)) ||
                ucx_protocol_has(tls, "rc_mlx5"));
    assert_true(ucx_protocol_has("sm,tcp", "cma"));
    assert_true(ucx_protocol_has("ib", "dc_mlx5"));
    assert_true(ucx_protocol_has("rc", "rc_verbs"));
    assert_false(ucx_protocol_has("rc_v", "rc_mlx5"));
    assert_false(ucx_protocol_has("mm,tcp", "cma"));
    assert_true(ucx_protocol_has("all", "whatever"));
    assert_false(ucx_protocol_to_tls("", tls));
    assert_false(ucx_protocol_to_tls("tcp+", tls));
    assert_false(ucx_protocol_to_tls("tcp++sm", tls));
    assert_false(ucx_protocol_to_tls("tpc", tls));
    assert_false(ucx_protocol_to_tls("tcp,sm", tls));
    memset(long_word, 'a', sizeof(long_word));
    long_word[sizeof(long_word) - 1] = '\0';
    assert_false(ucx_protocol_to_tls(long_word, tls));
}

static void offers_tell_what_there_is_and_why_not(void **state)
{
    struct offers offers = ask("tcp");
    char tls[UCX_TLS_MAX], missing[UCX_TLS_MAX];

    (void) state;
    assert_true(offers.usable >= 1 && offers.usable == offers.count && offers.node_local == 0);
    offers = ask("sm");
    assert_int_equal(offers.count, 1);
    assert_int_equal(offers.node_local, 1);
    offers = ask("tcp+sm");
    assert_int_equal(offers.count, 1);
    assert_int_equal(offers.usable, 1);
    offers = ask("unheard-of");
    assert_int_equal(offers.count, 0);
    offers = ask(NULL);
    assert_true(offers.count >= 6);
    assert_true(ask("all").priority > ask("tcp").priority);
    assert_true(ucx_protocol_to_tls("dc", tls));
    if (!ucx_protocol_missing(tls, missing, sizeof(missing)))
        skip();
    offers = ask("dc");
    assert_int_equal(offers.count, 1);
    assert_int_equal(offers.usable, 0);
    assert_non_null(strstr(offers.reason, "no 'dc' on this machine; UCX offers "));
    assert_non_null(strstr(offers.reason, "tcp"));
    assert_true(offers.priority > ask("all").priority);
}

static void places_that_are_not_here_are_refused(void **state)
{
    (void) state;
    assert_int_equal(open_class("tcp", "127.0.0.1:65536", 0), NA_PLUGIN_INVALID_ARG);
    check_log("65536");
    assert_int_equal(open_class("tcp", "127.0.0.1:port", 0), NA_PLUGIN_INVALID_ARG);
    assert_int_not_equal(open_class("tcp", "no-such-interface", 0), NA_PLUGIN_SUCCESS);
    check_log("no-such-interface");
    assert_int_not_equal(open_class("tcp", "192.0.2.77:0", 0), NA_PLUGIN_SUCCESS);
    assert_int_equal(open_class("no-such-transport", NULL, 0), NA_PLUGIN_PROTONOSUPPORT);
    check_log("UCX offers ");
}

static void transports_that_are_not_here_are_refused(void **state)
{
    char tls[UCX_TLS_MAX], missing[UCX_TLS_MAX];

    (void) state;
    assert_true(ucx_protocol_to_tls("rc", tls));
    if (!ucx_protocol_missing(tls, missing, sizeof(missing)))
        skip();
    assert_int_equal(open_class("rc", NULL, 0), NA_PLUGIN_NODEV);
    check_log("there is no 'rc' on this machine; UCX offers ");
    check_log("tcp");
    assert_int_equal(open_class("tcp+rc", NULL, 0), NA_PLUGIN_NODEV);
    check_log("'rc'");
}

static void classes_open_and_close(void **state)
{
    (void) state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(open_class("tcp", "127.0.0.1", 0), NA_PLUGIN_SUCCESS);
        assert_int_equal(open_class("all", NULL, NA_PLUGIN_PROGRESS_BUSY), NA_PLUGIN_SUCCESS);
    }
    assert_int_equal(open_class("tcp", "[::1]:0", 0), NA_PLUGIN_SUCCESS);
    assert_int_equal(open_class("tcp", "lo", 0), NA_PLUGIN_SUCCESS);
}

static void unknown_ways_of_transfer_are_refused(void **state)
{
    (void) state;
    assert_int_equal(setenv("AMALGAM_UCX_RMA", "magic", 1), 0);
    assert_int_equal(open_class("tcp", "127.0.0.1", 0), NA_PLUGIN_INVALID_ARG);
    check_log("'magic'");
    assert_int_equal(unsetenv("AMALGAM_UCX_RMA"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_become_a_list_for_ucx),
        cmocka_unit_test(offers_tell_what_there_is_and_why_not),
        cmocka_unit_test(places_that_are_not_here_are_refused),
        cmocka_unit_test(transports_that_are_not_here_are_refused),
        cmocka_unit_test(classes_open_and_close),
        cmocka_unit_test(unknown_ways_of_transfer_are_refused),
    };

    return cmocka_run_group_tests(tests, ucx_test_setup, ucx_test_teardown);
}
