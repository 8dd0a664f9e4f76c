/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of addresses: lookup, comparison, references, string and serialized forms. */

#include <stdlib.h>
#include <string.h>

#include "na_conformance/check.h"
#include "na_conformance/peer.h"
#include "na_conformance/traffic.h"

#define PACKED_MAX 4096

static void self(void);
static void to_string(void);
static void form(void);
static void lookup_self(void);
static void compare(void);
static void references(void);
static void malformed(void);
static void absent(void);
static void serialized(void);
static void deserialize_anything(void);
static void set_remove(void);
static void many(void);
static void sources(void);
static void capabilities(void);
static struct na_plugin_addr *receive_from(struct conf_end *end, struct conf_end *from,
                                           uint64_t room, bool deferred);
static uint32_t is_self(struct conf_end *end, struct na_plugin_addr *addr);
static uint64_t serialize(struct conf_end *end, struct na_plugin_addr *addr, uint8_t *packed);

const struct conf_check conf_checks_address[] = {
    {401, "addr.self", "An endpoint has an address, and knows it for its own", self, 0},
    {402, "addr.string", "The string's size is told, and too small a buffer is an OVERFLOW",
     to_string, 0},
    {403, "addr.form", "The string is class+protocol://..., and each half of it is looked up", form,
     0},
    {404, "addr.lookup.self", "An endpoint that looks itself up finds itself", lookup_self, 0},
    {405, "addr.compare", "Two addresses are equal when they mean one endpoint, and only then",
     compare, 0},
    {406, "addr.references", "Each reference of an address works until it is freed itself",
     references, 0},
    {407, "addr.malformed", "A malformed string is refused with INVALID_ARG", malformed, 0},
    {408, "addr.absent", "An endpoint that is gone fails the lookup or the first operation", absent,
     0},
    {409, "addr.serialized", "A serialized address means the same endpoint", serialized, 0},
    {410, "addr.deserialize", "Serialized addresses that were altered do no harm",
     deserialize_anything, 0},
    {411, "addr.remove", "An address that was set to be removed is freed, and may be met again",
     set_remove, 0},
    {412, "addr.many", "Looking up and freeing again keeps no memory", many, 0},
    {413, "addr.sources",
     "Sources that do not come back keep no memory, of messages that were too large neither",
     sources, 0},
    {414, "addr.capabilities", "What is said of a peer is within what the class can, and stays",
     capabilities, 0},
    {0, NULL, NULL, NULL, 0},
};

/* After a message from the peer, its capabilities are known and must stay. */
static void capabilities(void)
{
    const uint64_t of_rma = NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_RMA_NATIVE;
    struct conf_traffic traffic;
    uint64_t known = 0;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    if (conf_plugin.table.addr_capabilities == NULL)
        conf_traffic_skip(&traffic, "it does not distinguish peers");
    for (uint32_t i = 0; i < 10; i++) {
        uint64_t found;

        (void) conf_plugin.table.addr_capabilities(traffic.end.na_class, traffic.end.self);
        conf_traffic_echo(&traffic, 64, i);
        found = traffic.end.info.capabilities &
                conf_plugin.table.addr_capabilities(traffic.end.na_class, traffic.peer.addr);
        conf_require(i == 0 || found == known, "they were %#llx, and are %#llx",
                     (unsigned long long) known, (unsigned long long) found);
        conf_require((found & of_rma) != NA_PLUGIN_CAP_RMA_NATIVE,
                     "native transfers, and no transfers at all");
        known = found;
    }
    conf_note("%#llx of %#llx", (unsigned long long) known,
              (unsigned long long) traffic.end.info.capabilities);
    conf_traffic_close(&traffic);
}

static void self(void)
{
    struct na_plugin_addr *second = NULL;
    struct conf_end end;

    conf_load();
    conf_open(&end, NULL);
    conf_require(is_self(&end, end.self) == 1, "addr_is_self is not 1 for what addr_self gave");
    conf_require(conf_plugin.table.addr_self(end.na_class, &second) == NA_PLUGIN_SUCCESS,
                 "addr_self failed the second time");
    conf_require(conf_addr_same(&end, end.self, second), "addr_self gives two endpoints");
    conf_addr_free(&end, second);
    conf_require(is_self(&end, end.self) == 1, "the first reference went with the second");
    conf_close(&end);
}

static void to_string(void)
{
    uint64_t needed = 0, size;
    struct conf_end end;
    char text[CONF_ADDRESS_SIZE], *exact;
    int32_t status;

    conf_load();
    conf_open(&end, NULL);
    status = conf_plugin.table.addr_to_string(end.na_class, end.self, NULL, &needed);
    conf_require(status == NA_PLUGIN_SUCCESS, "without a buffer it returns %s",
                 conf_status_name(status));
    conf_require(needed == strlen(end.address) + 1,
                 "without a buffer it says %llu bytes, %zu are needed", (unsigned long long) needed,
                 strlen(end.address) + 1);
    exact = malloc(needed);
    conf_require(exact != NULL, "no memory");
    for (size = 0; size < needed; size++) {
        uint64_t given = size;

        memset(text, '#', sizeof(text));
        status = conf_plugin.table.addr_to_string(end.na_class, end.self, text, &given);
        conf_require(status == NA_PLUGIN_OVERFLOW && given == needed,
                     "with %llu bytes it returns %s and says %llu", (unsigned long long) size,
                     conf_status_name(status), (unsigned long long) given);
        for (uint64_t i = size; i < sizeof(text); i++)
            conf_require(text[i] == '#', "given %llu bytes it wrote to byte %llu",
                         (unsigned long long) size, (unsigned long long) i);
    }
    status = conf_plugin.table.addr_to_string(end.na_class, end.self, exact, &size);
    conf_require(status == NA_PLUGIN_SUCCESS && strcmp(exact, end.address) == 0,
                 "with exactly as many bytes as are needed it returns %s",
                 conf_status_name(status));
    free(exact);
    conf_close(&end);
}

static void form(void)
{
    struct na_plugin_addr *whole, *half;
    const char *separator, *plus;
    struct conf_peer peer;
    struct conf_end end;

    conf_pair_open(&peer, &end, NULL);
    separator = strstr(peer.address, "://");
    plus = strchr(peer.address, '+');
    conf_require(separator != NULL && plus != NULL && plus > peer.address && plus < separator - 1,
                 "'%.200s' is not of the form class+protocol://...", peer.address);
    whole = conf_lookup(&end, peer.address);
    half = conf_lookup(&end, separator + 3);
    conf_require(conf_addr_same(&end, whole, half),
                 "'%.200s' and what follows \"://\" of it are two endpoints", peer.address);
    conf_addr_free(&end, whole);
    conf_addr_free(&end, half);
    conf_note("%s", peer.address);
    conf_pair_close(&peer, &end);
}

static void lookup_self(void)
{
    struct na_plugin_addr *found;
    struct conf_end end;

    conf_load();
    conf_open(&end, NULL);
    found = conf_lookup(&end, end.address);
    conf_require(conf_addr_same(&end, found, end.self), "it finds another endpoint");
    conf_require(is_self(&end, found) == 1, "addr_is_self does not know it");
    conf_addr_free(&end, found);
    conf_close(&end);
}

static void compare(void)
{
    struct na_plugin_addr *twice;
    struct conf_peer peer, other;
    struct conf_end end;

    conf_pair_open(&peer, &end, NULL);
    conf_peer_start(&other, NULL);
    conf_peer_meet(&other, &end);
    twice = conf_lookup(&end, peer.address);
    conf_require(conf_addr_same(&end, peer.addr, twice) && conf_addr_same(&end, twice, peer.addr),
                 "one endpoint looked up twice is not the same");
    conf_require(!conf_addr_same(&end, peer.addr, other.addr) &&
                     !conf_addr_same(&end, other.addr, end.self),
                 "two endpoints are the same");
    conf_require(is_self(&end, peer.addr) == 0, "addr_is_self is not 0 for a peer");
    conf_addr_free(&end, twice);
    conf_addr_free(&end, other.addr);
    conf_pair_close(&peer, &end);
    conf_peer_stop(&other);
}

/* The original and a copy are freed in both orders, and the remaining one is used. */
static void references(void)
{
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    for (uint32_t i = 0; i < 20; i++) {
        struct na_plugin_addr *copy = NULL;

        conf_require(conf_plugin.table.addr_dup(traffic.end.na_class, traffic.peer.addr, &copy) ==
                             NA_PLUGIN_SUCCESS &&
                         copy != NULL,
                     "addr_dup failed");
        conf_require(conf_addr_same(&traffic.end, copy, traffic.peer.addr),
                     "a copy is another endpoint");
        if (i % 2 == 0) {
            conf_addr_free(&traffic.end, traffic.peer.addr);
            traffic.peer.addr = copy;
        } else {
            conf_addr_free(&traffic.end, copy);
        }
        conf_traffic_echo(&traffic, 64, i);
    }
    conf_traffic_close(&traffic);
}

static void malformed(void)
{
    static const char *const strings[] = {
        "",   "://",    "nobody+nothing://x",       "nobody://x", "+://",
        "\n", "://://", "no such+pro tocol://\x01",
    };
    char *large = malloc(1 << 20);
    struct na_plugin_addr *addr;
    struct conf_end end;
    int32_t status;

    conf_load();
    conf_open(&end, NULL);
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        addr = NULL;
        status = conf_plugin.table.addr_lookup(end.na_class, strings[i], &addr);
        conf_require(status == NA_PLUGIN_INVALID_ARG, "looking up '%s' returned %s", strings[i],
                     conf_status_name(status));
    }
    conf_require(large != NULL, "no memory");
    memset(large, 'a', 1 << 20);
    large[(1 << 20) - 1] = '\0';
    status = conf_plugin.table.addr_lookup(end.na_class, large, &addr);
    conf_require(status != NA_PLUGIN_SUCCESS, "looking up a string of 1 MiB succeeded");
    free(large);
    conf_close(&end);
}

static void absent(void)
{
    struct na_plugin_addr *addr = NULL;
    struct conf_buffer out;
    struct conf_peer peer;
    struct conf_end end;
    struct conf_op *op;
    int32_t status;

    conf_load();
    conf_open(&end, NULL);
    conf_peer_start(&peer, NULL);
    conf_peer_stop(&peer);
    status = conf_plugin.table.addr_lookup(end.na_class, peer.address, &addr);
    if (status != NA_PLUGIN_SUCCESS) {
        conf_require(status == NA_PLUGIN_NOENTRY || status == NA_PLUGIN_HOSTUNREACH,
                     "the lookup of an endpoint that is gone returned %s",
                     conf_status_name(status));
        conf_note("the lookup says %s", conf_status_name(status));
        conf_close(&end);
        return;
    }
    conf_buffer_get(&out, &end, conf_header(&end, false) + 64, NA_PLUGIN_BUF_SEND, false);
    op = conf_op_new(&end);
    status = conf_send(&end, 0, op, &out, out.size, addr, 0, 1, false);
    if (status == NA_PLUGIN_SUCCESS) {
        conf_wait(op, "a send to an endpoint that is gone");
        status = op->status;
    }
    conf_require(status != NA_PLUGIN_SUCCESS, "a send to an endpoint that is gone succeeded");
    conf_note("the first send says %s", conf_status_name(status));
    conf_addr_free(&end, addr);
    conf_stop(&end);
    conf_buffer_put(&out);
    conf_destroy(&end);
}

static void serialized(void)
{
    struct na_plugin_addr *again = NULL;
    uint8_t packed[PACKED_MAX];
    struct conf_traffic traffic;
    uint64_t size;
    int32_t status;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    if (conf_plugin.serialize == NULL)
        conf_traffic_skip(&traffic, "addresses travel as strings");
    size = serialize(&traffic.end, traffic.peer.addr, packed);
    status = conf_plugin.serialize->addr_deserialize(traffic.end.na_class, packed, size, 0, &again);
    conf_require(status == NA_PLUGIN_SUCCESS && again != NULL, "addr_deserialize returned %s",
                 conf_status_name(status));
    conf_require(conf_addr_same(&traffic.end, again, traffic.peer.addr),
                 "a serialized address comes back as another endpoint");
    conf_addr_free(&traffic.end, traffic.peer.addr);
    traffic.peer.addr = again;
    conf_traffic_echo(&traffic, 100, 1);
    for (uint64_t i = 0; i < size; i++)
        conf_require(conf_plugin.serialize->addr_serialize(traffic.end.na_class, traffic.peer.addr,
                                                           packed, i) != NA_PLUGIN_SUCCESS,
                     "%llu bytes are enough for what needs %llu", (unsigned long long) i,
                     (unsigned long long) size);
    conf_note("%llu bytes", (unsigned long long) size);
    conf_traffic_close(&traffic);
}

/* Serialized addresses are truncated, extended and altered. Any that is accepted is freed. */
static void deserialize_anything(void)
{
    const unsigned int times = conf_settings.fast ? 2000 : 50000;
    uint8_t good[PACKED_MAX], *packed;
    struct conf_traffic traffic;
    unsigned int refused = 0;
    uint64_t size;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    if (conf_plugin.serialize == NULL)
        conf_traffic_skip(&traffic, "addresses travel as strings");
    size = serialize(&traffic.end, traffic.peer.addr, good);
    srandom(1);
    for (unsigned int i = 0; i < times; i++) {
        const uint64_t length = i % 3 == 0 ? (uint64_t) random() % (size + 1) : size;
        struct na_plugin_addr *addr = NULL;

        packed = malloc(length > 0 ? length : 1); /* exact size, to detect reads past the end */
        conf_require(packed != NULL, "no memory");
        memcpy(packed, good, length);
        for (unsigned int j = 0; j < i % 4 && length > 0; j++)
            packed[(uint64_t) random() % length] = (uint8_t) random();
        if (conf_plugin.serialize->addr_deserialize(traffic.end.na_class, packed, length, 0,
                                                    &addr) == NA_PLUGIN_SUCCESS)
            conf_addr_free(&traffic.end, addr);
        else
            refused++;
        free(packed);
    }
    conf_traffic_echo(&traffic, 100, 1);
    conf_note("%u of %u were refused", refused, times);
    conf_traffic_close(&traffic);
}

static void set_remove(void)
{
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    if (conf_plugin.table.addr_set_remove == NULL)
        conf_traffic_skip(&traffic, "there is no addr_set_remove");
    for (int i = 0; i < 5; i++) {
        int32_t status;

        conf_traffic_echo(&traffic, 100, 1);
        status = conf_plugin.table.addr_set_remove(traffic.end.na_class, traffic.peer.addr);
        conf_require(status == NA_PLUGIN_SUCCESS, "addr_set_remove returned %s",
                     conf_status_name(status));
        conf_addr_free(&traffic.end, traffic.peer.addr);
        conf_progress_ms(5);
        conf_peer_meet(&traffic.peer, &traffic.end);
    }
    conf_traffic_close(&traffic);
}

static void many(void)
{
    const unsigned int times = conf_settings.fast ? 300 : 5000;
    uint64_t before = 0;
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    for (unsigned int i = 0; i < times; i++) {
        conf_addr_free(&traffic.end, conf_lookup(&traffic.end, traffic.peer.address));
        if (i == 10)
            before = conf_host_allocations();
    }
    conf_progress_ms(20);
    conf_require(conf_host_allocations() <= before + 2, "%llu allocations became %llu",
                 (unsigned long long) before, (unsigned long long) conf_host_allocations());
    conf_traffic_echo(&traffic, 100, 1);
    conf_traffic_close(&traffic);
}

/* Messages come from endpoints that are opened and closed again: state of a source may be kept
 * once per source, until addr_set_remove() says that the source will not return. */
static void sources(void)
{
    const uint32_t times = conf_settings.fast ? 5 : 50, settled = 2;
    struct na_plugin_addr *source;
    struct conf_end end, other;
    uint64_t before = 0;
    int32_t status;

    conf_load();
    if (conf_plugin.table.addr_set_remove == NULL)
        conf_skip("there is no addr_set_remove, and what is known of a peer may stay");
    conf_open(&end, NULL);
    for (uint32_t i = 0; i < times + settled; i++) {
        if (i == settled)
            before = conf_host_allocations();
        status = conf_try_open(&other, NULL);
        if (i == 0 && status != NA_PLUGIN_SUCCESS)
            conf_skip("a second class in the process: %s", conf_status_name(status));
        conf_require(status == NA_PLUGIN_SUCCESS, "class %u: %s", i, conf_status_name(status));
        (void) receive_from(&end, &other, 99, false);
        (void) receive_from(&end, &other, 99, true);
        source = receive_from(&end, &other, 100, false);
        conf_close(&other);
        conf_require(conf_plugin.table.addr_set_remove(end.na_class, source) == NA_PLUGIN_SUCCESS,
                     "addr_set_remove failed");
        conf_addr_free(&end, source);
        conf_progress_ms(5);
    }
    for (uint64_t until = conf_now_ms() + 500;
         conf_host_allocations() >= before + times && conf_now_ms() < until;)
        conf_progress();
    conf_require(conf_host_allocations() < before + times,
                 "%llu allocations became %llu after messages of %u more sources, all gone",
                 (unsigned long long) before, (unsigned long long) conf_host_allocations(), times);
    conf_close(&end);
}

/* Receives a message of 100 bytes with `room` bytes; `deferred`: the receive is posted after its
 * arrival. Returns the source if the message fits. */
static struct na_plugin_addr *receive_from(struct conf_end *end, struct conf_end *from,
                                           uint64_t room, bool deferred)
{
    struct na_plugin_addr *addr = conf_lookup(from, end->address);
    struct conf_op *op = conf_op_new(end), *send = conf_op_new(from);
    const uint64_t header = conf_header(from, false);
    struct conf_buffer in, out;

    conf_buffer_get(&in, end, header + room, NA_PLUGIN_BUF_RECV, false);
    conf_buffer_get(&out, from, header + 100, NA_PLUGIN_BUF_SEND, false);
    if (!deferred)
        conf_must_recv(end, 0, op, &in);
    conf_must_send(from, 0, send, &out, header + 100, addr, 0, 3, false);
    if (deferred) {
        conf_progress_ms(5);
        conf_must_recv(end, 0, op, &in);
    }
    conf_wait_ok(send, "a send");
    conf_wait(op, "a receive");
    conf_require(op->status == (room < 100 ? NA_PLUGIN_MSGSIZE : NA_PLUGIN_SUCCESS),
                 "a receive of %llu bytes ended with %s for a message of 100",
                 (unsigned long long) room, conf_status_name(op->status));
    conf_addr_free(from, addr);
    conf_buffer_put(&in);
    conf_buffer_put(&out);
    return op->source;
}

static uint32_t is_self(struct conf_end *end, struct na_plugin_addr *addr)
{
    return conf_plugin.table.addr_is_self(end->na_class, addr);
}

static uint64_t serialize(struct conf_end *end, struct na_plugin_addr *addr, uint8_t *packed)
{
    uint64_t size = conf_plugin.serialize->addr_serialize_size(end->na_class, addr);
    int32_t status;

    conf_require(size > 0 && size <= PACKED_MAX, "a serialized address has %llu bytes",
                 (unsigned long long) size);
    status = conf_plugin.serialize->addr_serialize(end->na_class, addr, packed, size);
    conf_require(status == NA_PLUGIN_SUCCESS, "addr_serialize returned %s",
                 conf_status_name(status));
    return size;
}
