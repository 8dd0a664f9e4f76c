/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets by cross-memory attach: an origin gets only the access that a registered handle
 * gives. */

#include "ofi.h"

#include "kit/plugin_host.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES (16u << 20)
#define STEP  (4u << 20) /* bytes moved in one poll */

/* An endpoint that accesses the memory of another one; both are in this process. */
struct opened {
    struct na_plugin_class *na_class, *target_class;
    struct na_plugin_context *context, *target_context;
    struct na_plugin_addr *target_addr;
    struct na_plugin_mem *exposed, *remote, *local;
    uint8_t *target, *origin;
    void *op;
};

static struct na_host host;
static int32_t last_status;
static int completed;

static void complete(void *op, int32_t status)
{
    (void) op;
    last_status = status;
    completed++;
}

static struct na_plugin_mem *mem_open(struct na_plugin_class *na_class, void *base, uint32_t access)
{
    struct na_plugin_mem *mem = NULL;

    assert_int_equal(ofi_mem_create(na_class, base, BYTES, access, &mem), NA_PLUGIN_SUCCESS);
    assert_int_equal(ofi_mem_register(na_class, mem, NA_PLUGIN_MEM_TYPE_HOST, 0),
                     NA_PLUGIN_SUCCESS);
    return mem;
}

static int setup(void **state)
{
    struct opened *opened = calloc(1, sizeof(*opened));
    struct na_plugin_init init = {
        .size = sizeof(init), .class_name = "ofi", .protocol = "shm", .max_contexts = 1};
    struct na_plugin_class_info info = {.size = sizeof(info)};
    uint8_t packed[512];
    uint64_t size;

    *state = opened;
    assert_int_equal(ofi_class_initialize(&init, NULL, &opened->na_class, &info), 0);
    assert_int_equal(ofi_class_initialize(&init, NULL, &opened->target_class, &info), 0);
    assert_int_equal(kit_msg_context_create(opened->na_class, NULL, 0, &opened->context), 0);
    assert_int_equal(kit_msg_context_create(opened->target_class, NULL, 0, &opened->target_context),
                     0);
    assert_int_equal(
        ofi_addr_lookup(opened->na_class, opened->target_class->name, &opened->target_addr), 0);
    opened->op = calloc(1, kit_msg_op_size());
    opened->target = malloc(BYTES);
    opened->origin = malloc(BYTES);
    memset(opened->target, 0x11, BYTES);
    memset(opened->origin, 0x22, BYTES);
    opened->exposed = mem_open(opened->target_class, opened->target, NA_PLUGIN_MEM_READ);
    opened->local =
        mem_open(opened->na_class, opened->origin, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    size = ofi_mem_serialize_size(opened->target_class, opened->exposed);
    assert_int_equal(ofi_mem_serialize(opened->target_class, opened->exposed, packed, size), 0);
    assert_int_equal(ofi_mem_deserialize(opened->na_class, packed, size, &opened->remote), 0);
    return 0;
}

static int teardown(void **state)
{
    struct opened *opened = *state;

    ofi_mem_destroy(opened->na_class, opened->remote);
    ofi_mem_destroy(opened->target_class, opened->exposed);
    ofi_mem_destroy(opened->na_class, opened->local);
    kit_msg_addr_free(opened->na_class, opened->target_addr);
    assert_int_equal(kit_msg_context_stop(opened->context), 0);
    assert_int_equal(kit_msg_context_destroy(opened->context), 0);
    assert_int_equal(ofi_class_finalize(opened->na_class), 0);
    assert_int_equal(kit_msg_context_stop(opened->target_context), 0);
    assert_int_equal(kit_msg_context_destroy(opened->target_context), 0);
    assert_int_equal(ofi_class_finalize(opened->target_class), 0);
    free(opened->target);
    free(opened->origin);
    free(opened->op);
    free(opened);
    return 0;
}

static void polls(struct opened *opened, int times)
{
    uint32_t count = 0;

    for (int i = 0; i < times; i++) {
        assert_int_equal(kit_msg_poll(opened->context, &count), NA_PLUGIN_SUCCESS);
        assert_int_equal(kit_msg_poll(opened->target_context, &count), NA_PLUGIN_SUCCESS);
    }
}

/* Starts a put or get with the exposed memory. */
static void start(struct opened *opened, bool put, uint64_t length)
{
    completed = 0;
    assert_int_equal((put ? ofi_put : ofi_get)(opened->context, opened->op, opened->local, 0,
                                               opened->remote, 0, length, opened->target_addr, 0),
                     NA_PLUGIN_SUCCESS);
}

static int32_t transfer(struct opened *opened, bool put, uint64_t length)
{
    start(opened, put, length);
    for (int i = 0; i < 100000 && completed == 0; i++)
        polls(opened, 1);
    assert_int_equal(completed, 1);
    return last_status;
}

/* Starts a get, and polls until some bytes have arrived, but not all. */
static void start_partly(struct opened *opened)
{
    start(opened, false, BYTES);
    while (((volatile uint8_t *) opened->origin)[0] != 0x11)
        polls(opened, 1);
    assert_int_equal(completed, 0);
}

/* Returns how many bytes of the target have arrived at the origin. */
static uint64_t arrived(const struct opened *opened)
{
    uint64_t count = 0;

    while (count < BYTES && opened->origin[count] == 0x11)
        count++;
    for (uint64_t i = count; i < BYTES; i++)
        assert_int_equal(opened->origin[i], 0x22);
    return count;
}

static void what_the_handle_allows_is_done(void **state)
{
    struct opened *opened = *state;

    assert_int_equal(transfer(opened, false, 1000), NA_PLUGIN_SUCCESS);
    assert_int_equal(arrived(opened), 1000);
    assert_int_equal(transfer(opened, false, BYTES), NA_PLUGIN_SUCCESS);
    assert_int_equal(arrived(opened), BYTES);
    memset(opened->origin, 0x22, BYTES);
    /* the memory is read-only */
    assert_int_equal(transfer(opened, true, 1000), NA_PLUGIN_PERMISSION);
    assert_int_equal(opened->target[0], 0x11);
}

static void a_forged_handle_is_an_error(void **state)
{
    struct opened *opened = *state;
    uint64_t id = opened->remote->region.id;

    opened->remote->region.id ^= 1;
    assert_int_equal(transfer(opened, false, 1000), NA_PLUGIN_PERMISSION);
    opened->remote->region.id = id;
    for (int bit = 0; bit < 128; bit++) { /* a key with one wrong bit */
        opened->remote->region.key.word[bit / 64] ^= UINT64_C(1) << bit % 64;
        assert_int_equal(transfer(opened, false, 1000), NA_PLUGIN_PERMISSION);
        opened->remote->region.key.word[bit / 64] ^= UINT64_C(1) << bit % 64;
    }
    opened->exposed->region.length = 999; /* the origin assumes a larger region */
    assert_int_equal(transfer(opened, false, 1000), NA_PLUGIN_OVERFLOW);
    opened->exposed->region.length = BYTES;
    assert_int_equal(arrived(opened), 0);
}

/* The memory is deregistered between two pieces: no further piece is read, the earlier ones
 * stay. */
static void deregistered_memory_is_out_of_reach_at_once(void **state)
{
    struct opened *opened = *state;

    start_partly(opened);
    assert_int_equal(arrived(opened), STEP);
    assert_int_equal(ofi_mem_deregister(opened->target_class, opened->exposed), NA_PLUGIN_SUCCESS);
    while (completed == 0)
        polls(opened, 1);
    assert_int_equal(last_status, NA_PLUGIN_PERMISSION);
    assert_int_equal(arrived(opened), STEP);
}

static void a_cancel_ends_it_between_two_pieces(void **state)
{
    struct opened *opened = *state;

    start_partly(opened);
    assert_int_equal(kit_msg_cancel(opened->context, opened->op), NA_PLUGIN_SUCCESS);
    while (completed == 0)
        polls(opened, 1);
    assert_int_equal(last_status, NA_PLUGIN_CANCELED);
    assert_true(arrived(opened) < BYTES);
    assert_int_equal(transfer(opened, false, BYTES), NA_PLUGIN_SUCCESS);
}

/* When attaching was refused, transfers go inline in control records. */
static void who_may_not_attach_sends_records(void **state)
{
    struct opened *opened = *state;
    struct kit_rma_counters counters;

    assert_int_equal(transfer(opened, false, 1000), NA_PLUGIN_SUCCESS);
    ((struct ofi_peer *) ((struct kit_peer *) (void *) opened->target_addr)->priv)
        ->is_unattachable = true;
    assert_int_equal(transfer(opened, false, 1 << 20), NA_PLUGIN_SUCCESS);
    kit_rma_counters_get(opened->na_class->base.rma, &counters);
    assert_int_equal(counters.moved[KIT_RMA_INLINE], 1);
    assert_int_equal(counters.moved[KIT_RMA_ATTACH], 1);
    assert_int_equal(arrived(opened), 1 << 20);
}

/* An endpoint of another user is refused: the two could not open each other's files. */
static void endpoints_of_other_users_are_refused(void **state)
{
    struct opened *opened = *state;
    struct na_plugin_addr *addr = opened->target_addr;
    char name[64];
    int fd;

    if (geteuid() != 0)
        skip(); /* only root can change the owner of a file */
    (void) snprintf(name, sizeof(name), "amalgam-test-owner-%d", (int) getpid());
    fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fchown(fd, 65534, (gid_t) -1), 0);
    assert_int_equal(close(fd), 0);
    plugin_host_log[0] = '\0';
    assert_int_equal(ofi_addr_lookup(opened->na_class, name, &opened->target_addr),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(transfer(opened, false, 1000), NA_PLUGIN_HOSTUNREACH);
    assert_non_null(strstr(plugin_host_log, "is an endpoint of user 65534"));
    assert_int_equal(shm_unlink(name), 0);
    kit_msg_addr_free(opened->na_class, opened->target_addr);
    opened->target_addr = addr;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_the_handle_allows_is_done, setup, teardown),
        cmocka_unit_test_setup_teardown(a_forged_handle_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(deregistered_memory_is_out_of_reach_at_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_cancel_ends_it_between_two_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(who_may_not_attach_sends_records, setup, teardown),
        cmocka_unit_test_setup_teardown(endpoints_of_other_users_are_refused, setup, teardown),
    };
    int ret;

    host = plugin_host;
    host.op_complete = complete;
    kit_host = &host;
    ret = cmocka_run_group_tests(tests, NULL, NULL);
    ofi_enumerate_cleanup();
    return ret;
}
