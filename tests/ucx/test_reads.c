/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets between processes of one node, which the origin executes itself by cross-memory attach, with
 * or without the target's help. */

#include "ucx_side.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define WAIT_NS UINT64_C(10000000000)
#define SMALL   (UINT64_C(32) << 10) /* read without help */
#define LARGE   (UINT64_C(4) << 20)  /* more than one poll reads, also half of it */

/* The origin is a, the target b. */
struct pair {
    struct side a, b;
    struct na_plugin_addr *to_b;
    struct na_plugin_mem *local, *shared, *remote;
    uint8_t *into, *from;
    void *op;
};

static struct na_host host;
static void *done_op;
static int32_t done_status;
static bool is_forbidden;          /* process_vm_readv() fails */
static struct pair *withdraw_from; /* deregistered while a piece is read */

static void withdraw(struct pair *pair);

/* Replaces the function of libc. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                         const struct iovec *remote, unsigned long remote_count,
                         unsigned long flags)
{
    struct pair *pair = withdraw_from;
    ssize_t first, second;

    if (is_forbidden) {
        errno = EPERM;
        return -1;
    }
    if (pair == NULL || remote_count != 2)
        return syscall(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);
    first = syscall(SYS_process_vm_readv, pid, local, 1UL, remote, 1UL, flags);
    withdraw(pair);
    second = syscall(SYS_process_vm_readv, pid, local + 1, 1UL, remote + 1, 1UL, flags);
    return first + second;
}

static void complete(void *op, int32_t status)
{
    done_op = op;
    done_status = status;
}

/* Starts a get of `length` bytes. */
static void get(struct pair *pair, uint64_t length)
{
    done_op = NULL;
    memset(pair->into, 0, LARGE);
    assert_int_equal(kit_msg_get(pair->a.context, pair->op, pair->local, 0, pair->remote, 0, length,
                                 pair->to_b, 0),
                     0);
}

/* Polls the origin, and with `with_target` the target, until the get ends. False: it does not
 * end. */
static bool await(struct pair *pair, bool with_target)
{
    uint64_t end = host.clock_ns() + WAIT_NS;

    while (done_op == NULL && host.clock_ns() < end) {
        side_poll(&pair->a);
        if (with_target)
            side_poll(&pair->b);
    }
    return done_op == pair->op;
}

static struct ucx_link *link_of(const struct side *side)
{
    return kit_container(side->na_class->links.next, struct ucx_link, node);
}

/* Waits until each side knows the other's process. */
static bool await_processes(struct pair *pair)
{
    uint64_t end = host.clock_ns() + WAIT_NS;

    while ((link_of(&pair->a)->registry == 0 || link_of(&pair->b)->pid == 0) &&
           host.clock_ns() < end) {
        side_poll(&pair->a);
        side_poll(&pair->b);
    }
    return link_of(&pair->a)->registry != 0 && link_of(&pair->b)->pid == (uint32_t) getpid();
}

/* Restores for each test what an earlier one deregistered or forbade. */
static int pair_publish(void **state)
{
    struct pair *pair = *state;
    uint8_t handle[256];
    uint64_t size;

    for (uint64_t i = 0; i < LARGE; i++)
        pair->from[i] = (uint8_t) (i * 7 + i / 4096 + 1);
    if (pair->remote != NULL)
        ucx_mem_destroy(pair->a.na_class, pair->remote);
    assert_int_equal(ucx_mem_register(pair->b.na_class, pair->shared, NA_PLUGIN_MEM_TYPE_HOST, 0),
                     0);
    size = ucx_mem_serialize_size(pair->b.na_class, pair->shared);
    assert_true(size <= sizeof(handle));
    assert_int_equal(ucx_mem_serialize(pair->b.na_class, pair->shared, handle, sizeof(handle)), 0);
    assert_int_equal(ucx_mem_deserialize(pair->a.na_class, handle, size, &pair->remote), 0);
    if (!kit_list_empty(&pair->a.na_class->links)) {
        link_of(&pair->a)->is_attach_refused = false;
        link_of(&pair->a)->registry = (uint64_t) (uintptr_t) pair->b.na_class->registry;
        link_of(&pair->b)->pid = (uint32_t) getpid();
    }
    return 0;
}

static int setup(void **state)
{
    struct pair *pair = calloc(1, sizeof(*pair));

    host = plugin_host;
    host.op_complete = complete;
    kit_host = &host;
    side_open(&pair->a);
    side_open(&pair->b);
    assert_int_equal(ucx_addr_lookup(pair->a.na_class, pair->b.na_class->name, &pair->to_b), 0);
    pair->op = host.mem_alloc(kit_msg_op_size(), kit_msg_op_align());
    pair->into = calloc(1, LARGE);
    pair->from = malloc(LARGE);
    assert_int_equal(
        ucx_mem_create(pair->a.na_class, pair->into, LARGE, NA_PLUGIN_MEM_WRITE, &pair->local), 0);
    assert_int_equal(ucx_mem_register(pair->a.na_class, pair->local, NA_PLUGIN_MEM_TYPE_HOST, 0),
                     0);
    assert_int_equal(
        ucx_mem_create(pair->b.na_class, pair->from, LARGE, NA_PLUGIN_MEM_READ, &pair->shared), 0);
    *state = pair;
    /* Establishes the connection. */
    assert_int_equal(pair_publish(state), 0);
    get(pair, 1);
    assert_true(await(pair, true));
    assert_int_equal(done_status, 0);
    assert_true(await_processes(pair));
    return 0;
}

static int teardown(void **state)
{
    struct pair *pair = *state;

    ucx_mem_destroy(pair->a.na_class, pair->remote);
    ucx_mem_destroy(pair->a.na_class, pair->local);
    ucx_mem_destroy(pair->b.na_class, pair->shared);
    kit_msg_addr_free(pair->a.na_class, pair->to_b);
    side_close(&pair->a);
    side_close(&pair->b);
    host.mem_free(pair->op);
    free(pair->into);
    free(pair->from);
    free(pair);
    return ucx_test_teardown(state);
}

static void a_small_get_needs_nobody(void **state)
{
    struct pair *pair = *state;

    get(pair, SMALL);
    assert_true(await(pair, false));
    assert_int_equal(done_status, 0);
    assert_memory_equal(pair->into, pair->from, SMALL);
}

static void of_a_large_one_the_target_copies_half(void **state)
{
    struct pair *pair = *state;

    get(pair, LARGE);
    for (int i = 0; i < 100; i++)
        side_poll(&pair->a);
    assert_null(done_op);
    assert_memory_equal(pair->into, pair->from, LARGE / 2);
    assert_int_equal(pair->into[LARGE / 2], 0);
    assert_true(await(pair, true));
    assert_int_equal(done_status, 0);
    assert_memory_equal(pair->into, pair->from, LARGE);
}

static void without_help_all_is_read(void **state)
{
    struct pair *pair = *state;

    /* The target finds that it may not attach, and is not asked again. */
    get(pair, LARGE);
    link_of(&pair->b)->pid = 0;
    assert_true(await(pair, true));
    assert_int_equal(done_status, 0);
    assert_memory_equal(pair->into, pair->from, LARGE);
    assert_true(link_of(&pair->a)->is_attach_refused);
    get(pair, LARGE);
    assert_true(await(pair, false));
    assert_int_equal(done_status, 0);
    assert_memory_equal(pair->into, pair->from, LARGE);
}

/* Deregisters the target's memory, which may be reused afterwards. */
static void withdraw(struct pair *pair)
{
    withdraw_from = NULL;
    assert_int_equal(ucx_mem_deregister(pair->b.na_class, pair->shared), 0);
    memset(pair->from, 0xff, LARGE);
}

static void who_may_not_read_any_more_asks(void **state)
{
    struct pair *pair = *state;

    get(pair, LARGE);
    is_forbidden = true;
    assert_true(await(pair, true));
    is_forbidden = false;
    assert_int_equal(done_status, 0);
    assert_memory_equal(pair->into, pair->from, LARGE);
    assert_int_equal(link_of(&pair->a)->registry, 0);
    get(pair, SMALL);
    assert_true(await(pair, true));
    assert_int_equal(done_status, 0);
    assert_memory_equal(pair->into, pair->from, SMALL);
}

static void what_is_read_during_a_withdrawal_does_not_count(void **state)
{
    struct pair *pair = *state;

    withdraw_from = pair;
    get(pair, SMALL);
    assert_true(await(pair, true));
    assert_null(withdraw_from);
    assert_int_equal(done_status, NA_PLUGIN_PERMISSION);
}

static void memory_that_is_withdrawn_meanwhile_does_not_count(void **state)
{
    struct pair *pair = *state;

    get(pair, LARGE);
    side_poll(&pair->a);
    assert_null(done_op);
    withdraw(pair);
    assert_true(await(pair, true));
    assert_int_equal(done_status, NA_PLUGIN_PERMISSION);
    get(pair, SMALL);
    assert_true(await(pair, false));
    assert_int_equal(done_status, NA_PLUGIN_PERMISSION);
    assert_int_equal(pair->into[0], 0);
}

/* The place in the table is reused; the key tells the new region from the old one. */
static void a_place_that_is_used_again_is_another_region(void **state)
{
    struct pair *pair = *state;
    uint32_t place = (uint32_t) pair->shared->region.id;

    assert_int_equal(ucx_mem_deregister(pair->b.na_class, pair->shared), 0);
    assert_int_equal(ucx_mem_register(pair->b.na_class, pair->shared, NA_PLUGIN_MEM_TYPE_HOST, 0),
                     0);
    assert_int_equal((uint32_t) pair->shared->region.id, place);
    get(pair, SMALL);
    assert_true(await(pair, false));
    assert_int_equal(done_status, NA_PLUGIN_PERMISSION);
}

static void a_cancelled_get_ends_when_nobody_touches_its_memory(void **state)
{
    struct pair *pair = *state;

    get(pair, LARGE);
    side_poll(&pair->a);
    assert_int_equal(kit_msg_cancel(pair->a.context, pair->op), 0);
    side_poll(&pair->a);
    assert_null(done_op); /* the target has not answered */
    assert_true(await(pair, true));
    assert_int_equal(done_status, NA_PLUGIN_CANCELED);
    memset(pair->into, 0, LARGE);
    for (int i = 0; i < 100; i++) {
        side_poll(&pair->a);
        side_poll(&pair->b);
    }
    assert_int_equal(pair->into[0], 0);
    assert_memory_equal(pair->into, pair->into + 1, LARGE - 1);
}

/* Memory that is accessible only to peers to which it was granted is not in the registry, from
 * which origins read without asking. */
static void memory_that_is_granted_is_in_no_registry(void **state)
{
    const struct pair *pair = *state;
    struct na_plugin_init init = {
        .size = sizeof(init),
        .class_name = "ucx",
        .protocol = "sm+tcp",
        .address = "127.0.0.1",
        .max_contexts = 1,
        .auth_key = "open sesame",
        .mem_per_session = 1,
    };
    struct na_plugin_class_info info = {.size = sizeof(info)};
    struct na_plugin_class *na_class = NULL;

    assert_non_null(pair->b.na_class->registry);
    assert_int_equal(ucx_class_initialize(&init, NULL, &na_class, &info), 0);
    assert_true((info.capabilities & NA_PLUGIN_CAP_MEM_PER_SESSION) != 0);
    assert_null(na_class->registry);
    assert_false(na_class->wants_keys);
    assert_int_equal(ucx_class_finalize(na_class), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_small_get_needs_nobody, pair_publish),
        cmocka_unit_test_setup(of_a_large_one_the_target_copies_half, pair_publish),
        cmocka_unit_test_setup(without_help_all_is_read, pair_publish),
        cmocka_unit_test_setup(who_may_not_read_any_more_asks, pair_publish),
        cmocka_unit_test_setup(what_is_read_during_a_withdrawal_does_not_count, pair_publish),
        cmocka_unit_test_setup(memory_that_is_withdrawn_meanwhile_does_not_count, pair_publish),
        cmocka_unit_test_setup(a_place_that_is_used_again_is_another_region, pair_publish),
        cmocka_unit_test_setup(a_cancelled_get_ends_when_nobody_touches_its_memory, pair_publish),
        cmocka_unit_test_setup(memory_that_is_granted_is_in_no_registry, pair_publish),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
