/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and transfers between two classes over the strict provider. */

#include "ofi_side.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WAIT_NS UINT64_C(30000000000)
#define BYTES   UINT64_C(4096)
#define MANY    (UINT64_C(8) << 20) /* more than is read while a class closes */

/* Two classes, and an operation of the origin. */
struct pair {
    struct side origin, target;
    struct na_plugin_addr *addr; /* the target's, at the origin */
    struct na_plugin_mem *local, *remote;
    void *op;
};

static void open_side(struct side *side)
{
    const char *profile = getenv("AMALGAM_STRICT_PROFILE");
    const bool is_all = profile == NULL || strcmp(profile, "all") == 0;

    side_open_at(side, is_all ? "strict" : profile, NULL, true);
}

static void open_pair(struct pair *pair)
{
    *pair = (struct pair){0};
    open_side(&pair->origin);
    open_side(&pair->target);
    assert_int_equal(
        ofi_addr_lookup(pair->origin.na_class, pair->target.na_class->name, &pair->addr),
        NA_PLUGIN_SUCCESS);
    pair->op = plugin_host_alloc(kit_msg_op_size(), kit_msg_op_align());
    side_status = -1;
}

static void close_origin(struct pair *pair)
{
    if (pair->remote != NULL)
        ofi_mem_destroy(pair->origin.na_class, pair->remote);
    if (pair->local != NULL)
        ofi_mem_destroy(pair->origin.na_class, pair->local);
    kit_msg_addr_free(pair->origin.na_class, pair->addr);
    side_close(&pair->origin);
    plugin_host_free(pair->op);
}

/* Sends more bytes than any profile injects: injected data leave at once, as a copy. */
static int32_t message(struct pair *pair)
{
    static const uint8_t bytes[1000];

    side_status = -1;
    assert_int_equal(kit_msg_send_unexpected(pair->origin.context, pair->op, bytes, sizeof(bytes),
                                             NULL, pair->addr, 0, 1),
                     NA_PLUGIN_SUCCESS);
    return side_await(&pair->origin, NULL, WAIT_NS);
}

static struct na_plugin_mem *registered(struct side *side, void *base, uint64_t size,
                                        uint32_t flags)
{
    struct na_plugin_mem *mem = NULL;

    assert_int_equal(ofi_mem_create(side->na_class, base, size, flags, &mem), NA_PLUGIN_SUCCESS);
    assert_int_equal(ofi_mem_register(side->na_class, mem, NA_PLUGIN_MEM_TYPE_HOST, 0),
                     NA_PLUGIN_SUCCESS);
    return mem;
}

/* Passes the handle of the target's memory to the origin. */
static void offer(struct pair *pair, struct na_plugin_mem *mem)
{
    uint8_t packed[512];
    const uint64_t size = ofi_mem_serialize_size(pair->target.na_class, mem);

    assert_in_range(size, 1, sizeof(packed));
    assert_int_equal(ofi_mem_serialize(pair->target.na_class, mem, packed, size),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(ofi_mem_deserialize(pair->origin.na_class, packed, size, &pair->remote),
                     NA_PLUGIN_SUCCESS);
}

static int32_t transfer(struct pair *pair, bool is_put)
{
    side_status = -1;
    assert_int_equal((is_put ? ofi_put : ofi_get)(pair->origin.context, pair->op, pair->local, 0,
                                                  pair->remote, 0, BYTES, pair->addr, 0),
                     NA_PLUGIN_SUCCESS);
    return side_await(&pair->origin, &pair->target, WAIT_NS);
}

static void a_message_to_an_endpoint_that_is_gone_ends(void **state)
{
    struct pair pair;

    (void) state;
    open_pair(&pair);
    side_close(&pair.target);
    assert_int_equal(message(&pair), NA_PLUGIN_HOSTUNREACH);
    close_origin(&pair);
}

/* The peer closes during a get, or (`is_met` false) before it has answered the HELLO; the get
 * ends. */
static void transfer_with_a_peer_that_goes(bool is_met)
{
    uint8_t *memory = calloc(2, MANY);
    struct pair pair;
    uint32_t count = 0;

    assert_non_null(memory);
    open_pair(&pair);
    offer(&pair, registered(&pair.target, memory, MANY, NA_PLUGIN_MEM_READ));
    pair.local =
        registered(&pair.origin, memory + MANY, MANY, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    if (is_met)
        assert_int_equal(transfer(&pair, false), NA_PLUGIN_SUCCESS);
    side_status = -1;
    assert_int_equal(
        ofi_get(pair.origin.context, pair.op, pair.local, 0, pair.remote, 0, MANY, pair.addr, 0),
        NA_PLUGIN_SUCCESS);
    for (int i = 0; i < 20; i++)
        (void) kit_msg_poll(pair.origin.context, &count);
    side_close(&pair.target);
    assert_int_equal(side_await(&pair.origin, NULL, WAIT_NS), NA_PLUGIN_HOSTUNREACH);
    close_origin(&pair);
    free(memory);
}

/* The fabric reports the get after the peer is known to be gone: the status is that of the peer,
 * not NA_CANCELED. */
static void a_transfer_with_a_peer_that_goes_is_not_canceled(void **state)
{
    (void) state;
    transfer_with_a_peer_that_goes(true);
}

/* The HELLO was injected, so that the fabric reports no error; the peer closes without an
 * answer. */
static void a_transfer_with_a_peer_that_never_answered_ends(void **state)
{
    (void) state;
    transfer_with_a_peer_that_goes(false);
}

/* Returns a read-only page full of `byte`. */
static uint8_t *read_only_page(int byte)
{
    uint8_t *page = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(page, MAP_FAILED);
    memset(page, byte, BYTES);
    assert_int_equal(mprotect(page, BYTES, PROT_READ), 0);
    return page;
}

static void read_only_memory_is_read_and_not_written(void **state)
{
    static uint8_t into[BYTES];
    uint8_t *page = read_only_page(7);
    struct pair pair;

    (void) state;
    open_pair(&pair);
    offer(&pair, registered(&pair.target, page, BYTES, NA_PLUGIN_MEM_READ));
    pair.local = registered(&pair.origin, into, BYTES, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    assert_int_equal(transfer(&pair, false), NA_PLUGIN_SUCCESS);
    assert_memory_equal(into, page, BYTES);
    assert_int_equal(transfer(&pair, true), NA_PLUGIN_PERMISSION);
    side_close(&pair.target);
    close_origin(&pair);
    (void) munmap(page, BYTES);
}

/* The provider ends the process if the source of a put was not registered for that. */
static void read_only_memory_is_put(void **state)
{
    static uint8_t into[BYTES];
    uint8_t *page = read_only_page(9);
    struct pair pair;

    (void) state;
    open_pair(&pair);
    offer(&pair, registered(&pair.target, into, BYTES, NA_PLUGIN_MEM_WRITE));
    pair.local = registered(&pair.origin, page, BYTES, NA_PLUGIN_MEM_READ);
    assert_int_equal(transfer(&pair, true), NA_PLUGIN_SUCCESS);
    assert_memory_equal(into, page, BYTES);
    side_close(&pair.target);
    close_origin(&pair);
    (void) munmap(page, BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_to_an_endpoint_that_is_gone_ends),
        cmocka_unit_test(a_transfer_with_a_peer_that_goes_is_not_canceled),
        cmocka_unit_test(a_transfer_with_a_peer_that_never_answered_ends),
        cmocka_unit_test(read_only_memory_is_read_and_not_written),
        cmocka_unit_test(read_only_memory_is_put),
    };
    struct na_host host;
    int ret;

    side_host_use(&host);
    ret = cmocka_run_group_tests(tests, NULL, NULL);
    ofi_enumerate_cleanup();
    return ret;
}
