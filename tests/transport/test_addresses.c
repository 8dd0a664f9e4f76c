/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: as strings and in serialized form, between processes, comparison, malformed input. */

#include "transport_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void an_address_is_the_same_by_every_way(void **state)
{
    char string[512], cut[8];
    na_addr_t *peer, *again, *copy, *self;
    struct child child;
    struct end end;
    size_t size = 0;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    assert_int_equal(NA_Addr_to_string(end.na_class, NULL, &size, peer), NA_SUCCESS);
    assert_int_equal(size, strlen(child.address) + 1);
    size = sizeof(cut);
    assert_int_equal(NA_Addr_to_string(end.na_class, cut, &size, peer), NA_OVERFLOW);
    assert_int_equal(size, strlen(child.address) + 1);
    size = sizeof(string);
    assert_int_equal(NA_Addr_to_string(end.na_class, string, &size, peer), NA_SUCCESS);
    assert_string_equal(string, child.address);

    assert_int_equal(NA_Addr_lookup(end.na_class, string, &again), NA_SUCCESS);
    assert_int_equal(NA_Addr_dup(end.na_class, peer, &copy), NA_SUCCESS);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    assert_true(NA_Addr_cmp(end.na_class, peer, again));
    assert_true(NA_Addr_cmp(end.na_class, again, copy));
    assert_false(NA_Addr_cmp(end.na_class, peer, self));
    assert_false(NA_Addr_is_self(end.na_class, peer));
    assert_true(NA_Addr_is_self(end.na_class, self));
    NA_Addr_free(end.na_class, peer);
    NA_Addr_free(end.na_class, again);
    end_check_peer(&end, copy);
    NA_Addr_free(end.na_class, self);
    pair_close(&child, &end, copy);
}

static void what_follows_the_protocol_is_enough(void **state)
{
    na_addr_t *peer, *again;
    struct child child;
    struct end end;
    char *name;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    name = strstr(child.address, "://");
    assert_non_null(name);
    assert_int_equal(NA_Addr_lookup(end.na_class, name + 3, &again), NA_SUCCESS);
    assert_true(NA_Addr_cmp(end.na_class, peer, again));
    end_check_peer(&end, again);
    NA_Addr_free(end.na_class, again);
    pair_close(&child, &end, peer);
}

static void the_own_address_is_found_by_its_string(void **state)
{
    na_addr_t *self, *found;
    struct end end;

    (void) state;
    end_open(&end, NULL, NULL);
    found = end_lookup(&end, &end);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    assert_true(NA_Addr_is_self(end.na_class, found));
    assert_true(NA_Addr_cmp(end.na_class, found, self));
    NA_Addr_free(end.na_class, self);
    NA_Addr_free(end.na_class, found);
    end_close(&end);
}

/* A receiver can answer the source of a message without a lookup, also after the receive has
 * completed. */
static void the_source_of_a_message_can_be_answered(void **state)
{
    struct event event = {0};
    na_addr_t *peer;
    struct child child;
    struct end end;
    na_op_id_t *op;
    uint8_t in[64];

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    assert_int_equal(end_receive_unexpected(&end, &event, in, sizeof(in), op), NA_SUCCESS);
    assert_int_equal(end_command(&end, peer, PEER_FLOOD, 1, 10, 0, NULL, NULL), NA_SUCCESS);
    assert_true(event_wait(&end, &event, TEST_WAIT_MS));
    assert_int_equal(event.ret, NA_SUCCESS);
    assert_true(NA_Addr_cmp(end.na_class, event.source, peer));
    NA_Addr_free(end.na_class, peer);
    NA_Op_destroy(end.na_class, op);
    end_check_peer(&end, event.source);
    pair_close(&child, &end, event.source);
}

/* Asks a peer for its serialized address and returns the size. Skips the test where addresses
 * cannot be serialized. */
static size_t packed_of(struct end *end, na_addr_t *peer, void *packed, size_t size)
{
    assert_int_equal(end_command(end, peer, PEER_ADDRESS, 0, 0, 0, packed, &size), NA_SUCCESS);
    return size;
}

static bool can_serialize(struct end *end)
{
    na_addr_t *self;
    size_t size;

    assert_int_equal(NA_Addr_self(end->na_class, &self), NA_SUCCESS);
    size = NA_Addr_get_serialize_size(end->na_class, self);
    NA_Addr_free(end->na_class, self);
    return size != 0;
}

/* A peer serializes its address, and we forward it to a third process, which did not know that
 * peer. */
static void an_address_travels_in_messages(void **state)
{
    uint8_t message[2048];
    struct peer_request request = {.command = PEER_MEET, .a = 77};
    na_addr_t *peers[2], *unpacked;
    struct child children[2];
    uint64_t reply = 99;
    struct end end;
    size_t size, got = sizeof(reply);

    (void) state;
    pair_open(&children[0], &end, &peers[0], "plain");
    if (!can_serialize(&end)) {
        pair_close(&children[0], &end, peers[0]);
        test_skip("addresses cannot be serialized");
    }
    child_start(&children[1], NULL, "plain");
    assert_int_equal(NA_Addr_lookup(end.na_class, children[1].address, &peers[1]), NA_SUCCESS);
    size = packed_of(&end, peers[1], message + sizeof(request), sizeof(message) - sizeof(request));
    assert_int_equal(
        NA_Addr_deserialize(end.na_class, &unpacked, message + sizeof(request), size, 0),
        NA_SUCCESS);
    assert_true(NA_Addr_cmp(end.na_class, unpacked, peers[1]));
    assert_int_equal(NA_Addr_get_serialize_size(end.na_class, unpacked), size);
    assert_int_equal(NA_Addr_serialize(end.na_class, message + sizeof(request), 3, unpacked),
                     NA_OVERFLOW);
    /* the deserialized address is serialized again for the third process */
    assert_int_equal(NA_Addr_serialize(end.na_class, message + sizeof(request), size, unpacked),
                     NA_SUCCESS);
    NA_Addr_free(end.na_class, unpacked);
    memcpy(message, &request, sizeof(request));
    assert_int_equal(end_call(&end, peers[0], message, sizeof(request) + size, &reply, &got),
                     NA_SUCCESS);
    assert_int_equal(reply, NA_SUCCESS);
    end_await_peer_count(&end, peers[1], 1);
    NA_Addr_free(end.na_class, peers[1]);
    pair_close(&children[0], &end, peers[0]);
    child_stop(&children[1]);
}

/* Resolving a host name would block: a serialized address with a name in place of a number is
 * refused, or its use fails. */
static void names_in_bytes_are_not_looked_up(void **state)
{
    static const char number[] = "127.0.0.1", name[] = "localhost";
    const char *transport = test_init_string();
    char init_string[128];
    uint8_t packed[2048];
    na_addr_t *peer, *named;
    struct child child;
    struct end end;
    size_t size, at = 0;

    (void) state;
    if ((strncmp(transport, "ofi+", 4) != 0 && strncmp(transport, "ucx+", 4) != 0 &&
         strncmp(transport, "bmi+", 4) != 0) ||
        strstr(transport, "shm") != NULL || strstr(transport, "://") != NULL)
        test_skip("its addresses are not those of sockets");
    if (strcmp(transport, "ofi+verbs") == 0 || strcmp(transport, "ofi+strict") == 0)
        test_skip("its device is not at 127.0.0.1");
    (void) snprintf(init_string, sizeof(init_string), "%s://%s", transport, number);
    child_start(&child, init_string, "plain");
    end_open(&end, init_string, NULL);
    assert_int_equal(NA_Addr_lookup(end.na_class, child.address, &peer), NA_SUCCESS);
    size = NA_Addr_get_serialize_size(end.na_class, peer);
    assert_in_range(size, sizeof(number), sizeof(packed));
    assert_int_equal(NA_Addr_serialize(end.na_class, packed, size, peer), NA_SUCCESS);
    while (at + sizeof(number) < size && memcmp(packed + at, number, strlen(number)) != 0)
        at++;
    assert_true(at + sizeof(number) < size);
    memcpy(packed + at, name, strlen(name));
    if (NA_Addr_deserialize(end.na_class, &named, packed, size, 0) == NA_SUCCESS) {
        assert_int_not_equal(end_send(&end, named, "x", 2, 1, false), NA_SUCCESS);
        NA_Addr_free(end.na_class, named);
    }
    end_check_peer(&end, peer);
    pair_close(&child, &end, peer);
}

static void damaged_addresses_do_no_harm(void **state)
{
    uint8_t packed[2048];
    unsigned int taken = 0;
    struct child child;
    na_addr_t *peer;
    struct end end;
    size_t size;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    if (!can_serialize(&end)) {
        pair_close(&child, &end, peer);
        test_skip("addresses cannot be serialized");
    }
    size = packed_of(&end, peer, packed, sizeof(packed));
    for (size_t i = 0; i < size; i++) {
        na_addr_t *damaged;

        assert_int_not_equal(NA_Addr_deserialize(end.na_class, &damaged, packed, i, 0), NA_SUCCESS);
        for (uint8_t flip = 0x80; flip != 0; flip = (uint8_t) (flip >> 1)) {
            packed[i] ^= flip;
            if (NA_Addr_deserialize(end.na_class, &damaged, packed, size, 0) == NA_SUCCESS) {
                assert_false(NA_Addr_is_self(end.na_class, damaged));
                /* a damaged address may be valid, but of another endpoint */
                NA_Addr_free(end.na_class, damaged);
                taken++;
            }
            packed[i] ^= flip;
        }
    }
    print_message("%u of %zu damaged addresses are valid addresses\n", taken, 8 * size);
    end_check_peer(&end, peer);
    pair_close(&child, &end, peer);
}

static void expect_malformed(struct end *end, const char *name)
{
    na_addr_t *addr = NULL;
    na_return_t ret = NA_Addr_lookup(end->na_class, name, &addr);

    if (ret == NA_SUCCESS)
        fail_msg("'%.80s' was accepted as an address", name);
    assert_null(addr);
}

static void malformed_strings_are_refused(void **state)
{
    static const char *const names[] = {
        "",           "://",
        "+",          "nosuch+tcp://1.2.3.4:5",
        " ",          "\n",
        "%s%n%s%n",   "\xff\xfe\x01",
        "a b c://d",  "na+nosuch://a",
        "ofi+://a:1", "ofi+nosuch://1.2.3.4:5",
    };
    static const char *const hosts[] = {
        "127.0.0.1:65536", "127.0.0.1:-1",    "127.0.0.1:99999999999999999999",
        "127.0.0.1:x",     "127.0.0.1:",      "127.0.0.1:12x",
        "127.0.0.1: 12",   "300.1.1.1:1000",  "[::1:1000",
        "::::::::::1:5",   "127.0.0.1:1:1:1", "no such host:1000",
    };
    char address[512], string[768], *colon;
    struct end end;
    char *longest = malloc(100001);

    (void) state;
    end_open(&end, NULL, NULL);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        expect_malformed(&end, names[i]);
    end_address(&end, address, sizeof(address));
    colon = strstr(address, "://");
    assert_non_null(colon);
    colon[3] = '\0';
    expect_malformed(&end, address);
    memset(longest, 'a', 100000);
    memcpy(longest, address, strlen(address));
    longest[100000] = '\0';
    expect_malformed(&end, longest);
    free(longest);
    end_address(&end, address, sizeof(address));
    if (strchr(colon + 3, '.') == NULL || strchr(colon + 3, ':') == NULL) {
        print_message("left out: %s has no hosts and ports\n", address);
        end_close(&end);
        return;
    }
    colon[3] = '\0';
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        (void) snprintf(string, sizeof(string), "%s%s", address, hosts[i]);
        expect_malformed(&end, string);
    }
    end_close(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_the_same_by_every_way),
        cmocka_unit_test(what_follows_the_protocol_is_enough),
        cmocka_unit_test(the_own_address_is_found_by_its_string),
        cmocka_unit_test(the_source_of_a_message_can_be_answered),
        cmocka_unit_test(an_address_travels_in_messages),
        cmocka_unit_test(names_in_bytes_are_not_looked_up),
        cmocka_unit_test(damaged_addresses_do_no_harm),
        cmocka_unit_test(malformed_strings_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
