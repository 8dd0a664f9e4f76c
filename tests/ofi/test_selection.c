/* SPDX-License-Identifier: BSD-3-Clause */
/* A requested domain, address or subnet is used; if it is missing, the error lists what there
 * is. */

#include "ofi.h"

#include "kit/plugin_host.h"

#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

struct offers {
    uint32_t count;
    uint32_t usable;
    uint32_t node_local;
    char reason[512];
};

static int32_t count_offer(void *arg, const struct na_plugin_offer *offer)
{
    struct offers *offers = arg;

    offers->count++;
    offers->usable += (offer->flags & NA_PLUGIN_OFFER_USABLE) != 0;
    offers->node_local += (offer->flags & NA_PLUGIN_OFFER_NODE_LOCAL) != 0;
    assert_int_equal(offer->reason == NULL, (offer->flags & NA_PLUGIN_OFFER_USABLE) != 0);
    if (offer->reason != NULL)
        (void) snprintf(offers->reason, sizeof(offers->reason), "%s", offer->reason);
    return NA_PLUGIN_SUCCESS;
}

/* Opens and closes a class; captures the log meanwhile. */
static int32_t open_class(const char *protocol, const char *address, const char *subnet)
{
    struct na_plugin_init init = {
        .size = sizeof(init),
        .listen = 1,
        .class_name = "ofi",
        .protocol = protocol,
        .address = address,
        .ip_subnet = subnet,
        .max_contexts = 1,
    };
    struct na_plugin_class_info info = {.size = sizeof(info)};
    struct na_plugin_class *na_class = NULL;
    int32_t ret;

    plugin_host_log[0] = '\0';
    ret = ofi_class_initialize(&init, NULL, &na_class, &info);
    assert_int_equal(na_class != NULL, ret == NA_PLUGIN_SUCCESS);
    if (ret == NA_PLUGIN_SUCCESS)
        assert_int_equal(ofi_class_finalize(na_class), NA_PLUGIN_SUCCESS);
    return ret;
}

static void check_log(const char *text)
{
    if (strstr(plugin_host_log, text) == NULL)
        fail_msg("\"%s\" is not in the log: %s", text, plugin_host_log);
}

static void offers_tell_what_there_is_and_why_not(void **state)
{
    struct offers offers = {0};

    (void) state;
    assert_int_equal(ofi_enumerate("tcp", count_offer, &offers), NA_PLUGIN_SUCCESS);
    assert_true(offers.usable >= 1 && offers.usable == offers.count && offers.node_local == 0);
    memset(&offers, 0, sizeof(offers));
    assert_int_equal(ofi_enumerate("shm", count_offer, &offers), NA_PLUGIN_SUCCESS);
    assert_true(offers.node_local == offers.count);
    memset(&offers, 0, sizeof(offers));
    assert_int_equal(ofi_enumerate("gni", count_offer, &offers), NA_PLUGIN_SUCCESS);
    assert_int_equal(offers.count, 1);
    assert_int_equal(offers.usable, 0);
    assert_non_null(strstr(offers.reason, "no provider 'gni'"));
    assert_non_null(strstr(offers.reason, "tcp"));
    memset(&offers, 0, sizeof(offers));
    assert_int_equal(ofi_enumerate(NULL, count_offer, &offers), NA_PLUGIN_SUCCESS);
    assert_true(offers.count >= ofi_protocol_count);
}

static void missing_providers_are_named_with_what_there_is(void **state)
{
    static const char *const missing[] = {"gni", "cxi", "nosuchprovider", "gni;ofi_rxm"};

    (void) state;
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
        assert_int_equal(open_class(missing[i], NULL, NULL), NA_PLUGIN_NODEV);
        check_log(missing[i]);
        check_log("it offers: ");
        check_log("tcp");
    }
}

static void what_cannot_be_listened_at_is_an_error(void **state)
{
    (void) state;
    assert_int_equal(open_class("tcp", "127.0.0.1:65536", NULL), NA_PLUGIN_INVALID_ARG);
    check_log("65536");
    assert_int_equal(open_class("tcp", "127.0.0.1:port", NULL), NA_PLUGIN_INVALID_ARG);
    assert_int_equal(open_class("tcp", "nosuchinterface9", NULL), NA_PLUGIN_NODEV);
    check_log("nosuchinterface9");
    assert_int_equal(open_class("tcp", "nosuchdomain/127.0.0.1", NULL), NA_PLUGIN_NODEV);
    check_log("nosuchdomain");
    assert_int_equal(open_class("tcp", "/127.0.0.1", NULL), NA_PLUGIN_INVALID_ARG);
    assert_int_equal(open_class("tcp", "203.0.113.9", NULL), NA_PLUGIN_ADDRNOTAVAIL);
    assert_int_equal(open_class("tcp", NULL, "203.0.113.0/24"), NA_PLUGIN_ADDRNOTAVAIL);
    assert_int_equal(open_class("shm", "a/b", NULL), NA_PLUGIN_INVALID_ARG);
    assert_int_equal(open_class("a+b", NULL, NULL), NA_PLUGIN_PROTONOSUPPORT);
}

static void a_port_that_is_taken_is_an_error(void **state)
{
    struct na_plugin_init init = {
        .size = sizeof(init),
        .listen = 1,
        .class_name = "ofi",
        .protocol = "tcp",
        .address = "127.0.0.1",
        .max_contexts = 1,
    };
    struct na_plugin_class_info info = {.size = sizeof(info)};
    struct na_plugin_class *na_class = NULL;

    (void) state;
    assert_int_equal(ofi_class_initialize(&init, NULL, &na_class, &info), NA_PLUGIN_SUCCESS);
    assert_int_equal(open_class("tcp", na_class->name, NULL), NA_PLUGIN_ADDRINUSE);
    check_log(na_class->name);
    assert_int_equal(ofi_class_finalize(na_class), NA_PLUGIN_SUCCESS);
}

static void every_way_to_say_where_is_understood(void **state)
{
    (void) state;
    assert_int_equal(open_class("tcp", NULL, NULL), NA_PLUGIN_SUCCESS);
    assert_int_equal(open_class("tcp", "lo", NULL), NA_PLUGIN_SUCCESS);
    assert_int_equal(open_class("tcp", "lo/127.0.0.1", NULL), NA_PLUGIN_SUCCESS);
    assert_int_equal(open_class("tcp", "localhost", NULL), NA_PLUGIN_SUCCESS);
    assert_int_equal(open_class("tcp", ":0", "127.0.0.0/8"), NA_PLUGIN_SUCCESS);
    assert_int_equal(open_class("tcp;ofi_rxm", "127.0.0.1:0", NULL), NA_PLUGIN_SUCCESS);
    assert_int_equal(open_class("sockets", "127.0.0.1", NULL), NA_PLUGIN_SUCCESS);
    assert_int_equal(open_class("shm", NULL, NULL), NA_PLUGIN_SUCCESS);
    assert_int_equal(open_class("shm", "amalgam-test-name", NULL), NA_PLUGIN_SUCCESS);
}

/* The names of shared-memory endpoints are unique and cannot be guessed. */
static void names_of_shared_memory_are_drawn(void **state)
{
    struct na_plugin_init init = {
        .size = sizeof(init), .class_name = "ofi", .protocol = "shm", .max_contexts = 1};
    struct na_plugin_class_info info = {.size = sizeof(info)};
    struct na_plugin_class *classes[2];
    char path[KIT_NAME_MAX + 16];

    (void) state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ofi_class_initialize(&init, NULL, &classes[i], &info), NA_PLUGIN_SUCCESS);
        assert_int_equal(strlen(strrchr(classes[i]->name, '-')), 1 + 2 * sizeof(struct kit_key));
        assert_int_equal(info.capabilities & NA_PLUGIN_CAP_PEER_DEATH, 0);
    }
    assert_string_not_equal(strrchr(classes[0]->name, '-'), strrchr(classes[1]->name, '-'));
    for (int i = 0; i < 2; i++) {
        (void) snprintf(path, sizeof(path), "/dev/shm/%s", classes[i]->name);
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(ofi_class_finalize(classes[i]), NA_PLUGIN_SUCCESS);
        assert_int_not_equal(access(path, F_OK), 0);
    }
}

static void ipv6_is_taken_where_the_machine_has_it(void **state)
{
    (void) state;
    if (open_class("tcp", "[::1]", NULL) == NA_PLUGIN_ADDRNOTAVAIL)
        skip();
    assert_int_equal(open_class("tcp", "[::1]:0", NULL), NA_PLUGIN_SUCCESS);
}

/* An address that belongs to another domain than the requested one is refused. */
static void a_domain_has_the_address_or_is_refused(void **state)
{
    static const char *const names[] = {"tcp", "sockets"};
    struct if_nameindex *list = if_nameindex();
    struct ofi_protocol protocol;
    char address[64];

    (void) state;
    assert_non_null(list);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_true(ofi_protocol_find(names[i], &protocol));
        for (const struct if_nameindex *entry = list; entry->if_index != 0; entry++) {
            if (strcmp(entry->if_name, "lo") == 0 || !ofi_offered_domain(&protocol, entry->if_name))
                continue;
            (void) snprintf(address, sizeof(address), "%s/127.0.0.1", entry->if_name);
            assert_int_equal(open_class(names[i], address, NULL), NA_PLUGIN_NODEV);
            check_log(entry->if_name);
            (void) snprintf(address, sizeof(address), "%s/%s", entry->if_name, entry->if_name);
            assert_int_equal(open_class(names[i], address, NULL), NA_PLUGIN_SUCCESS);
        }
        assert_int_equal(open_class(names[i], "lo/127.0.0.1", NULL), NA_PLUGIN_SUCCESS);
    }
    if_freenameindex(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offers_tell_what_there_is_and_why_not),
        cmocka_unit_test(missing_providers_are_named_with_what_there_is),
        cmocka_unit_test(what_cannot_be_listened_at_is_an_error),
        cmocka_unit_test(a_port_that_is_taken_is_an_error),
        cmocka_unit_test(every_way_to_say_where_is_understood),
        cmocka_unit_test(names_of_shared_memory_are_drawn),
        cmocka_unit_test(ipv6_is_taken_where_the_machine_has_it),
        cmocka_unit_test(a_domain_has_the_address_or_is_refused),
    };
    int ret;

    kit_host = &plugin_host;
    ret = cmocka_run_group_tests(tests, NULL, NULL);
    ofi_enumerate_cleanup();
    return ret;
}
