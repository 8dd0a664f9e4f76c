/* SPDX-License-Identifier: BSD-3-Clause */
/* The hints that libfabric gets for each protocol, including those whose hardware is missing
 * here. */

#include "ofi.h"

#include "kit/plugin_host.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct na_plugin_init plain = {
    .size = sizeof(struct na_plugin_init),
    .max_contexts = 1,
};

static struct fi_info *create(const char *name, const struct na_plugin_init *init,
                              struct ofi_protocol *protocol)
{
    struct fi_info *hints;

    assert_true(ofi_protocol_find(name, protocol));
    hints = ofi_hints_create(protocol, init);
    assert_non_null(hints);
    return hints;
}

/* The provider for TCP without ofi_rxm. */
static const char *tcp_provider(void)
{
    return FI_VERSION_LT(fi_version(), FI_VERSION(1, 18)) ? "net" : "tcp";
}

static void every_protocol_asks_for_its_provider(void **state)
{
    static const struct {
        const char *name;
        const char *provider; /* NULL: depends on libfabric's version */
        uint32_t format;
        enum ofi_naming naming;
    } expected[] = {
        {"tcp", NULL, FI_FORMAT_UNSPEC, OFI_NAMING_SOCKET},
        {"tcp;ofi_rxm", "tcp;ofi_rxm", FI_FORMAT_UNSPEC, OFI_NAMING_SOCKET},
        {"verbs", "verbs", FI_SOCKADDR_IN, OFI_NAMING_SOCKET},
        {"verbs;ofi_rxm", "verbs;ofi_rxm", FI_SOCKADDR_IN, OFI_NAMING_SOCKET},
        {"shm", "shm", FI_ADDR_STR, OFI_NAMING_STRING},
        {"opx", "opx", FI_ADDR_OPX, OFI_NAMING_RAW},
        {"cxi", "cxi", FI_ADDR_CXI, OFI_NAMING_RAW},
        {"gni", "gni", FI_ADDR_GNI, OFI_NAMING_RAW},
        {"psm2", "psm2", FI_ADDR_PSMX2, OFI_NAMING_RAW},
        {"psm3", "psm3", FI_ADDR_PSMX3, OFI_NAMING_RAW},
        {"sockets", "sockets", FI_FORMAT_UNSPEC, OFI_NAMING_SOCKET},
        {"udp;ofi_rxd", "udp;ofi_rxd", FI_FORMAT_UNSPEC, OFI_NAMING_SOCKET},
        {"net", "net", FI_FORMAT_UNSPEC, OFI_NAMING_SOCKET},
        {"efa", "efa", FI_FORMAT_UNSPEC, OFI_NAMING_RAW},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        struct ofi_protocol protocol;
        struct fi_info *hints = create(expected[i].name, &plain, &protocol);

        assert_string_equal(protocol.name, expected[i].name);
        assert_string_equal(hints->fabric_attr->prov_name,
                            expected[i].provider != NULL ? expected[i].provider : tcp_provider());
        assert_int_equal(hints->addr_format, expected[i].format);
        assert_int_equal(protocol.naming, expected[i].naming);
        assert_true(protocol.frame >= 1024 && protocol.frame < 16384);
        fi_freeinfo(hints);
    }
}

static void every_protocol_asks_for_what_the_plugin_needs(void **state)
{
    (void) state;
    for (uint32_t i = 0; i < ofi_protocol_count; i++) {
        struct ofi_protocol protocol;
        struct fi_info *hints = create(ofi_protocols[i].name, &plain, &protocol);

        assert_int_equal(hints->ep_attr->type, FI_EP_RDM);
        assert_int_equal(hints->caps, FI_MSG | FI_RMA | (protocol.keeps_tagged ? FI_TAGGED : 0));
        assert_int_equal(hints->mode, FI_CONTEXT | FI_CONTEXT2);
        assert_int_equal(hints->tx_attr->msg_order, FI_ORDER_SAS);
        assert_int_equal(hints->rx_attr->msg_order, FI_ORDER_SAS);
        assert_int_equal(hints->domain_attr->threading, FI_THREAD_DOMAIN);
        assert_int_equal(hints->domain_attr->data_progress,
                         protocol.auto_to_wait ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL);
        assert_int_equal(hints->domain_attr->resource_mgmt, FI_RM_ENABLED);
        assert_int_equal(hints->domain_attr->mr_mode, FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR |
                                                          FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                                                          FI_MR_ENDPOINT);
        assert_int_equal(hints->domain_attr->tclass, FI_TC_UNSPEC);
        fi_freeinfo(hints);
    }
}

static void the_init_info_is_passed_on(void **state)
{
    struct na_plugin_init init = plain;
    struct ofi_protocol protocol;
    struct fi_info *hints;

    (void) state;
    init.traffic_class = NA_PLUGIN_TC_LOW_LATENCY;
    init.request_mem_device = 1;
    hints = create("verbs", &init, &protocol);
    assert_int_equal(hints->domain_attr->tclass, FI_TC_LOW_LATENCY);
    assert_int_equal(hints->tx_attr->tclass, FI_TC_LOW_LATENCY);
    assert_int_equal(hints->caps, FI_MSG | FI_RMA | FI_HMEM);
    assert_true((hints->domain_attr->mr_mode & FI_MR_HMEM) != 0);
    fi_freeinfo(hints);
}

static void names_that_are_no_providers_are_refused(void **state)
{
    struct ofi_protocol protocol;

    (void) state;
    assert_false(ofi_protocol_find("", &protocol));
    assert_false(ofi_protocol_find(";ofi_rxm", &protocol));
    assert_false(ofi_protocol_find("tcp+verbs", &protocol));
}

static void only_what_was_asked_for_is_used(void **state)
{
    struct ofi_protocol tcp, layered, net;

    (void) state;
    assert_true(ofi_protocol_find("tcp", &tcp));
    assert_true(ofi_protocol_find("tcp;ofi_rxm", &layered));
    assert_true(ofi_protocol_find("net", &net));
    assert_true(ofi_protocol_has_provider(&tcp, tcp_provider()));
    assert_false(ofi_protocol_has_provider(&tcp, "tcpx"));
    assert_false(ofi_protocol_has_provider(&tcp, "sockets"));
    assert_true(ofi_protocol_has_provider(&layered, "tcp;ofi_rxm"));
    assert_false(ofi_protocol_has_provider(&layered, "tcp"));
    assert_false(ofi_protocol_has_provider(&net, "sockets"));
}

static void sources_become_addresses_of_the_right_format(void **state)
{
    struct sockaddr_storage address = {0};
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *) &address;
    struct ofi_protocol protocol;
    struct fi_info *hints;

    (void) state;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(7);
    hints = create("tcp", &plain, &protocol);
    assert_int_equal(ofi_hints_set_source(hints, &protocol, "eth0", &address, NULL),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(hints->addr_format, FI_SOCKADDR_IN6);
    assert_int_equal(hints->src_addrlen, sizeof(*in6));
    assert_memory_equal(hints->src_addr, in6, sizeof(*in6));
    assert_string_equal(hints->domain_attr->name, "eth0");
    fi_freeinfo(hints);

    hints = create("shm", &plain, &protocol);
    assert_int_equal(ofi_hints_set_source(hints, &protocol, NULL, NULL, "node-1"),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(hints->addr_format, FI_ADDR_STR);
    assert_string_equal(hints->src_addr, "fi_ns://node-1");
    assert_int_equal(hints->src_addrlen, strlen("fi_ns://node-1") + 1);
    fi_freeinfo(hints);

    hints = create("cxi", &plain, &protocol);
    assert_int_equal(ofi_hints_set_source(hints, &protocol, "cxi0", NULL, NULL), NA_PLUGIN_SUCCESS);
    assert_string_equal(hints->domain_attr->name, "cxi0");
    assert_null(hints->src_addr);
    fi_freeinfo(hints);
}

static int32_t set_key(const char *name, const char *key, const void *expected, size_t size)
{
    struct ofi_protocol protocol;
    struct fi_info *hints = create(name, &plain, &protocol);
    int32_t ret = ofi_hints_set_auth_key(hints, &protocol, key);

    if (ret == NA_PLUGIN_SUCCESS) {
        assert_int_equal(hints->domain_attr->auth_key_size, size);
        assert_int_equal(hints->ep_attr->auth_key_size, size);
        if (size != 0) {
            assert_memory_equal(hints->domain_attr->auth_key, expected, size);
            assert_memory_equal(hints->ep_attr->auth_key, expected, size);
        }
    } else {
        assert_null(hints->domain_attr->auth_key);
    }
    fi_freeinfo(hints);
    return ret;
}

static void authorization_keys_have_the_form_of_their_provider(void **state)
{
    static const uint8_t uuid[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                     0xFE, 0xDC, 0xBA, 0x98, 0x76, 0x54, 0x32, 0x10};
    struct {
        uint32_t service;
        uint16_t vni;
        uint16_t padding;
    } cxi = {5, 1023, 0};
    uint32_t gni[2] = {0, 99};

    (void) state;
    assert_int_equal(set_key("opx", "01234567-89ab-cdef-FEDC-BA9876543210", uuid, 16),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(set_key("psm3", "0123456789abcdefFEDCBA9876543210", uuid, 16),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(set_key("psm2", "0123456789abcdefFEDCBA987654321", uuid, 16),
                     NA_PLUGIN_INVALID_ARG);
    assert_int_equal(set_key("psm2", "0123456789abcdefFEDCBA98765432101", uuid, 16),
                     NA_PLUGIN_INVALID_ARG);
    assert_int_equal(set_key("psm2", "0123456789abcdefFEDCBA987654321g", uuid, 16),
                     NA_PLUGIN_INVALID_ARG);
    assert_int_equal(set_key("cxi", "5:1023", &cxi, sizeof(cxi)), NA_PLUGIN_SUCCESS);
    assert_int_equal(set_key("cxi", "5:65536", &cxi, sizeof(cxi)), NA_PLUGIN_INVALID_ARG);
    assert_int_equal(set_key("cxi", "5", &cxi, sizeof(cxi)), NA_PLUGIN_INVALID_ARG);
    assert_int_equal(set_key("cxi", ":5", &cxi, sizeof(cxi)), NA_PLUGIN_INVALID_ARG);
    assert_int_equal(set_key("gni", "99", gni, sizeof(gni)), NA_PLUGIN_SUCCESS);
    assert_int_equal(set_key("gni", "99x", gni, sizeof(gni)), NA_PLUGIN_INVALID_ARG);
    assert_int_equal(set_key("tcp", "anything", NULL, 0), NA_PLUGIN_SUCCESS);
}

/* The plugin sets variables of libfabric in the environment, but not those that the user has
 * set. */
static void settings_of_the_user_stay(void **state)
{
    const struct na_plugin *plugin = NULL;
    const char *reason = NULL;

    (void) state;
    assert_int_equal(setenv("FI_SOCKETS_CONN_TIMEOUT", "777", 1), 0);
    assert_int_equal(na_plugin_entry_v1(&plugin_host, &plugin, &reason), NA_PLUGIN_SUCCESS);
    assert_string_equal(getenv("FI_SOCKETS_CONN_TIMEOUT"), "777");
    assert_string_equal(getenv("FI_SOCKETS_PE_WAITTIME"), "0");
    assert_non_null(getenv("FI_OFI_RXM_MSG_RX_SIZE"));
}

/* Over sockets, injected frames are limited to what its buffers hold. */
static void injected_frames_are_fenced_where_they_pile_up(void **state)
{
    struct ofi_protocol protocol;

    (void) state;
    assert_true(ofi_protocol_find("sockets", &protocol));
    assert_true(protocol.is_fenced);
    assert_true(ofi_protocol_find("tcp", &protocol));
    assert_false(protocol.is_fenced);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_protocol_asks_for_its_provider),
        cmocka_unit_test(every_protocol_asks_for_what_the_plugin_needs),
        cmocka_unit_test(the_init_info_is_passed_on),
        cmocka_unit_test(names_that_are_no_providers_are_refused),
        cmocka_unit_test(only_what_was_asked_for_is_used),
        cmocka_unit_test(sources_become_addresses_of_the_right_format),
        cmocka_unit_test(authorization_keys_have_the_form_of_their_provider),
        cmocka_unit_test(settings_of_the_user_stay),
        cmocka_unit_test(injected_frames_are_fenced_where_they_pile_up),
    };

    kit_host = &plugin_host;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
