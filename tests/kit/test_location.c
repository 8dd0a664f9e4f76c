/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing of the host and port to listen at or to connect to, as users write them. */

#include "kit_base.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char reason[KIT_LOCATION_REASON_MAX];

static void check_parse(const char *text, const char *host, int port)
{
    struct kit_location location;

    assert_int_equal(kit_location_parse(text, &location, reason), NA_PLUGIN_SUCCESS);
    assert_string_equal(location.host, host);
    assert_int_equal(location.has_port, port >= 0);
    assert_int_equal(location.port, port >= 0 ? port : 0);
}

static void check_refused(const char *text, const char *why)
{
    struct kit_location location;

    reason[0] = '\0';
    assert_int_equal(kit_location_parse(text, &location, reason), NA_PLUGIN_INVALID_ARG);
    if (strstr(reason, why) == NULL)
        fail_msg("'%s' was refused with \"%s\", not with \"%s\"", text, reason, why);
}

static void every_form_is_understood(void **state)
{
    (void) state;
    check_parse("", "", -1);
    check_parse("eth0", "eth0", -1);
    check_parse("node-1.example.org:1234", "node-1.example.org", 1234);
    check_parse(":5", "", 5);
    check_parse(":0", "", 0);
    check_parse("10.0.0.1:65535", "10.0.0.1", 65535);
    check_parse("[::1]", "::1", -1);
    check_parse("[fe80::1%eth0]:7", "fe80::1%eth0", 7);
    check_parse("host:00080", "host", 80);
}

static void malformed_text_is_refused_with_the_reason(void **state)
{
    char long_host[300];

    (void) state;
    check_refused("host:65536", "too large");
    check_refused("host:99999999999999999999", "too large");
    check_refused("host:12a", "not a number");
    check_refused("host:-1", "not a number");
    check_refused("host: 1", "not a number");
    check_refused("host:", "no port");
    check_refused("[::1", "not balanced");
    check_refused("[::1]x", "not balanced");
    check_refused("[]", "not an IPv6 address");
    check_refused("[1.2.3.4]:5", "not an IPv6 address");
    check_refused("[]::1]:2", "not an IPv6 address");
    check_refused("::1]:2", "several colons");
    check_refused("host]:2", "a character");
    check_refused("::1", "several colons");
    check_refused("fd00::2:80", "several colons");
    check_refused("a/b:1", "a character");
    check_refused("a b", "a character");
    memset(long_host, 'h', sizeof(long_host) - 1);
    long_host[sizeof(long_host) - 1] = '\0';
    check_refused(long_host, "too long");
}

static int32_t resolve_local(const char *text, const char *subnet, uint32_t format,
                             struct sockaddr_storage *address)
{
    struct kit_location location;

    assert_int_equal(kit_location_parse(text, &location, reason), NA_PLUGIN_SUCCESS);
    reason[0] = '\0';
    return kit_location_resolve_local(&location, subnet, format, address, reason);
}

static void check_local(const char *text, const char *subnet, uint32_t format, const char *expected)
{
    struct sockaddr_storage address;
    char formatted[128];

    assert_int_equal(resolve_local(text, subnet, format, &address), NA_PLUGIN_SUCCESS);
    kit_location_format(&address, formatted, sizeof(formatted));
    assert_string_equal(formatted, expected);
    assert_int_not_equal(kit_location_length(&address), 0);
}

static void addresses_of_this_machine_are_found(void **state)
{
    struct sockaddr_storage address;

    (void) state;
    check_local("127.0.0.1:80", NULL, NA_PLUGIN_ADDR_UNSPEC, "127.0.0.1:80");
    check_local("127.9.8.7", NULL, NA_PLUGIN_ADDR_UNSPEC, "127.9.8.7:0");
    check_local("lo", NULL, NA_PLUGIN_ADDR_UNSPEC, "127.0.0.1:0");
    check_local("lo:81", NULL, NA_PLUGIN_ADDR_IPV4, "127.0.0.1:81");
    check_local("", "127.0.0.0/8", NA_PLUGIN_ADDR_UNSPEC, "127.0.0.1:0");
    check_local("0.0.0.0:5", "127.0.0.0/9", NA_PLUGIN_ADDR_UNSPEC, "127.0.0.1:5");
    check_local("localhost:1", NULL, NA_PLUGIN_ADDR_IPV4, "127.0.0.1:1");
    assert_int_equal(resolve_local("", NULL, NA_PLUGIN_ADDR_UNSPEC, &address), NA_PLUGIN_SUCCESS);
    assert_int_not_equal(kit_location_length(&address), 0);
}

static void ipv6_is_resolved_where_the_machine_has_it(void **state)
{
    struct sockaddr_storage address;

    (void) state;
    if (resolve_local("[::1]", NULL, NA_PLUGIN_ADDR_UNSPEC, &address) != NA_PLUGIN_SUCCESS)
        skip();
    check_local("[::1]:80", NULL, NA_PLUGIN_ADDR_UNSPEC, "[::1]:80");
    check_local("lo", NULL, NA_PLUGIN_ADDR_IPV6, "[::1]:0");
    check_local("", "::1/128", NA_PLUGIN_ADDR_UNSPEC, "[::1]:0");
    assert_int_equal(resolve_local("127.0.0.1", NULL, NA_PLUGIN_ADDR_IPV6, &address),
                     NA_PLUGIN_NODEV);
    assert_int_equal(resolve_local("[::1]", NULL, NA_PLUGIN_ADDR_IPV4, &address), NA_PLUGIN_NODEV);
}

static void what_is_not_of_this_machine_is_an_error(void **state)
{
    static const char *const of_many[] = {"224.0.0.1", "239.1.2.3", "255.255.255.255"};
    struct sockaddr_storage address;

    (void) state;
    assert_int_equal(resolve_local("203.0.113.77", NULL, NA_PLUGIN_ADDR_UNSPEC, &address),
                     NA_PLUGIN_ADDRNOTAVAIL);
    assert_non_null(strstr(reason, "203.0.113.77"));
    assert_int_equal(resolve_local("nosuchif9", NULL, NA_PLUGIN_ADDR_UNSPEC, &address),
                     NA_PLUGIN_NODEV);
    assert_non_null(strstr(reason, "nosuchif9"));
    assert_int_equal(resolve_local("", "203.0.113.0/24", NA_PLUGIN_ADDR_UNSPEC, &address),
                     NA_PLUGIN_ADDRNOTAVAIL);
    assert_int_equal(resolve_local("", "10.0.0.0", NA_PLUGIN_ADDR_UNSPEC, &address),
                     NA_PLUGIN_INVALID_ARG);
    assert_int_equal(resolve_local("", "10.0.0.0/33", NA_PLUGIN_ADDR_UNSPEC, &address),
                     NA_PLUGIN_INVALID_ARG);
    assert_int_equal(resolve_local("", "/8", NA_PLUGIN_ADDR_UNSPEC, &address),
                     NA_PLUGIN_INVALID_ARG);
    assert_int_equal(resolve_local("", "10.0.0.0/8x", NA_PLUGIN_ADDR_UNSPEC, &address),
                     NA_PLUGIN_INVALID_ARG);
    assert_int_equal(resolve_local("lo", "203.0.113.0/24", NA_PLUGIN_ADDR_UNSPEC, &address),
                     NA_PLUGIN_ADDRNOTAVAIL);
    for (size_t i = 0; i < sizeof(of_many) / sizeof(of_many[0]); i++) {
        assert_int_equal(resolve_local(of_many[i], NULL, NA_PLUGIN_ADDR_UNSPEC, &address),
                         NA_PLUGIN_ADDRNOTAVAIL);
        assert_non_null(strstr(reason, "multicast"));
    }
}

static int32_t resolve_peer(const char *text, struct sockaddr_storage *address)
{
    struct kit_location location;

    assert_int_equal(kit_location_parse(text, &location, reason), NA_PLUGIN_SUCCESS);
    reason[0] = '\0';
    return kit_location_resolve_peer(&location, NA_PLUGIN_ADDR_UNSPEC, address, reason);
}

static void peers_need_a_host_and_a_port(void **state)
{
    struct sockaddr_storage address;
    char formatted[128];

    (void) state;
    assert_int_equal(resolve_peer("203.0.113.77:9", &address), NA_PLUGIN_SUCCESS);
    kit_location_format(&address, formatted, sizeof(formatted));
    assert_string_equal(formatted, "203.0.113.77:9");
    assert_int_equal(resolve_peer("[fe80::1%lo]:9", &address), NA_PLUGIN_SUCCESS);
    assert_int_equal(((struct sockaddr_in6 *) &address)->sin6_scope_id, if_nametoindex("lo"));
    kit_location_format(&address, formatted, sizeof(formatted));
    assert_string_equal(formatted, "[fe80::1%lo]:9");
    assert_int_equal(resolve_peer("203.0.113.77", &address), NA_PLUGIN_INVALID_ARG);
    assert_int_equal(resolve_peer("203.0.113.77:0", &address), NA_PLUGIN_INVALID_ARG);
    assert_int_equal(resolve_peer(":9", &address), NA_PLUGIN_INVALID_ARG);
    assert_int_equal(resolve_peer("no-such-host.invalid:9", &address), NA_PLUGIN_NOENTRY);
    assert_non_null(strstr(reason, "no-such-host.invalid"));
}

static void the_other_family_is_named(void **state)
{
    struct sockaddr_storage address;
    struct kit_location location;

    (void) state;
    assert_int_equal(kit_location_parse("[::1]:9", &location, reason), NA_PLUGIN_SUCCESS);
    assert_int_equal(kit_location_resolve_peer(&location, NA_PLUGIN_ADDR_IPV4, &address, reason),
                     NA_PLUGIN_NOENTRY);
    assert_non_null(strstr(reason, "endpoint of IPv4"));
    assert_int_equal(kit_location_parse("127.0.0.1:9", &location, reason), NA_PLUGIN_SUCCESS);
    assert_int_equal(kit_location_resolve_peer(&location, NA_PLUGIN_ADDR_IPV6, &address, reason),
                     NA_PLUGIN_NOENTRY);
    assert_non_null(strstr(reason, "endpoint of IPv6"));
}

static void formatted_addresses_are_not_asked_about(void **state)
{
    struct sockaddr_storage address;
    struct kit_location location;
    char formatted[128];

    (void) state;
    assert_int_equal(kit_location_parse("[fe80::1%lo]:9", &location, reason), NA_PLUGIN_SUCCESS);
    assert_int_equal(
        kit_location_resolve_formatted(&location, NA_PLUGIN_ADDR_UNSPEC, &address, reason),
        NA_PLUGIN_SUCCESS);
    kit_location_format(&address, formatted, sizeof(formatted));
    assert_string_equal(formatted, "[fe80::1%lo]:9");
    assert_int_equal(kit_location_parse("localhost:9", &location, reason), NA_PLUGIN_SUCCESS);
    assert_int_equal(
        kit_location_resolve_formatted(&location, NA_PLUGIN_ADDR_UNSPEC, &address, reason),
        NA_PLUGIN_NOENTRY);
    assert_non_null(strstr(reason, "localhost"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_understood),
        cmocka_unit_test(malformed_text_is_refused_with_the_reason),
        cmocka_unit_test(addresses_of_this_machine_are_found),
        cmocka_unit_test(ipv6_is_resolved_where_the_machine_has_it),
        cmocka_unit_test(the_other_family_is_named),
        cmocka_unit_test(what_is_not_of_this_machine_is_an_error),
        cmocka_unit_test(peers_need_a_host_and_a_port),
        cmocka_unit_test(formatted_addresses_are_not_asked_about),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
