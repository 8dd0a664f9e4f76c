/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory allocation: RPCs allocate nothing in the steady state, and a failure of any single
 * allocation is handled.
 */
#include "hg_fixture.h"

#include <errno.h>
#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *ptr, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **ptr_p, size_t alignment, size_t size);
char *__real_strdup(const char *string);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **ptr_p, size_t alignment, size_t size);
char *__wrap_strdup(const char *string);

static bool is_armed;
static long allocation_count;
static long aligned_count;
static long failing = -1; /* index of the allocation that fails, counted since arm(); -1: none */

static bool fails(void)
{
    return is_armed && allocation_count++ == failing;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *ptr, size_t size)
{
    return fails() ? NULL : __real_realloc(ptr, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    aligned_count += is_armed;
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

int __wrap_posix_memalign(void **ptr_p, size_t alignment, size_t size)
{
    return fails() ? ENOMEM : __real_posix_memalign(ptr_p, alignment, size);
}

char *__wrap_strdup(const char *string)
{
    return fails() ? NULL : __real_strdup(string);
}

static void arm(long which)
{
    allocation_count = 0;
    aligned_count = 0;
    failing = which;
    is_armed = true;
}

static long disarm(void)
{
    is_armed = false;
    failing = -1;
    return allocation_count;
}

static void call_small(struct pair *pair, hg_handle_t handle, uint32_t value, int rounds)
{
    int i;

    for (i = 0; i < rounds; i++) {
        struct outcome outcome = {0};
        uint32_t out;

        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &value), HG_SUCCESS);
        while (atomic_load(&outcome.count) == 0)
            pair_progress(pair);
        assert_int_equal(outcome.ret, HG_SUCCESS);
        assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
        assert_int_equal(out, value + 1);
        (void) HG_Free_output(handle, &out);
    }
}

static hg_return_t handle_increment(hg_handle_t handle)
{
    uint32_t value;

    assert_int_equal(HG_Get_input(handle, &value), HG_SUCCESS);
    value++;
    assert_int_equal(HG_Respond(handle, NULL, NULL, &value), HG_SUCCESS);
    (void) HG_Free_input(handle, &value);
    return HG_Destroy(handle);
}

#define RPC_INCREMENT 100

static void register_increment(struct pair *pair)
{
    assert_int_equal(HG_Register(pair->origin.hg_class, RPC_INCREMENT, proc_size, proc_size, NULL),
                     HG_SUCCESS);
    assert_int_equal(
        HG_Register(pair->target.hg_class, RPC_INCREMENT, proc_size, proc_size, handle_increment),
        HG_SUCCESS);
}

static void steady_state_allocates_nothing(void **state)
{
    struct pair pair = {0};
    hg_handle_t handle;
    int i;

    (void) state;
    if (test_is_loop())
        test_skip("this plugin allocates each message");
    pair_open(&pair, NULL);
    register_increment(&pair);
    handle = pair_create(&pair, RPC_INCREMENT);
    call_small(&pair, handle, 1, 200);
    arm(-1);
    call_small(&pair, handle, 2, 2000);
    assert_int_equal(disarm(), 0);

    /* Neither does a new handle for each RPC allocate. */
    arm(-1);
    for (i = 0; i < 500; i++) {
        hg_handle_t other = pair_create(&pair, RPC_INCREMENT);

        call_small(&pair, other, 3, 1);
        (void) HG_Destroy(other);
    }
    assert_int_equal(disarm(), 0);
    (void) HG_Destroy(handle);
    pair_close(&pair);
}

/* Blocks for payloads that do not fit a message are reused, up to a block size of 8 MiB. */
static void large_payloads_reuse_their_memory(void **state)
{
    static const uint32_t sizes[] = {30000, 300000, 1100000, 5000000};
    struct pair pair = {0};
    size_t i;

    (void) state;
    pair_open(&pair, NULL);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        pair_echo(&pair, sizes[i]);
    arm(-1);
    for (i = 0; i < 20; i++)
        pair_echo(&pair, sizes[i % 4] - (uint32_t) i);
    (void) disarm();
    assert_int_equal(aligned_count, 0);

    /* Larger blocks are freed after use and allocated anew. */
    arm(-1);
    pair_echo(&pair, 9000000);
    pair_echo(&pair, 9000000);
    (void) disarm();
    assert_true(aligned_count >= 4);
    pair_close(&pair);
}

/*
 * The whole life of a class, with one RPC to itself. Whichever allocation fails, it must not crash,
 * leak or hang.
 */
static bool live(void)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_class_t *hg_class;
    hg_context_t *context = NULL;
    hg_addr_t self = HG_ADDR_NULL;
    hg_handle_t handle = HG_HANDLE_NULL;
    struct outcome outcome = {0};
    bool is_done = false;
    int rounds;

    info.request_post_init = 4;
    info.no_loopback = 1;
    hg_class = HG_Init_opt2(test_init_string(), HG_TRUE, HG_VERSION(2, 4), &info);
    if (hg_class == NULL)
        return false;
    if (HG_Register_name(hg_class, "increment", proc_size, proc_size, handle_increment) == 0)
        goto out;
    context = HG_Context_create(hg_class);
    if (context == NULL || HG_Addr_self(hg_class, &self) != HG_SUCCESS)
        goto out;
    if (HG_Create(context, self, 0x6eb5a6c1, &handle) != HG_NOENTRY) {
        (void) HG_Destroy(handle);
        handle = HG_HANDLE_NULL;
    } else {
        uint32_t in = 1;
        hg_id_t id = 0;

        (void) HG_Registered_name(hg_class, "increment", &id, NULL);
        if (HG_Create(context, self, id, &handle) != HG_SUCCESS) {
            handle = HG_HANDLE_NULL;
            goto out;
        }
        if (HG_Forward(handle, outcome_set, &outcome, &in) != HG_SUCCESS)
            goto out;
        for (rounds = 0; rounds < 20000 && atomic_load(&outcome.count) == 0; rounds++) {
            unsigned int count;

            (void) HG_Progress(context, 0);
            (void) HG_Trigger(context, 0, 10, &count);
        }
        if (atomic_load(&outcome.count) == 0)
            (void) HG_Cancel(handle);
        for (rounds = 0; rounds < 20000 && atomic_load(&outcome.count) == 0; rounds++) {
            unsigned int count;

            (void) HG_Progress(context, 0);
            (void) HG_Trigger(context, 0, 10, &count);
        }
        assert_int_equal(outcome.count, 1);
        is_done = outcome.ret == HG_SUCCESS;
    }

out:
    (void) HG_Destroy(handle);
    is_armed = false;
    if (self != HG_ADDR_NULL)
        (void) HG_Addr_free(hg_class, self);
    assert_int_equal(HG_Context_destroy(context), HG_SUCCESS);
    assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);
    return is_done;
}

static void each_allocation_may_fail_in_turn(void **state)
{
    long total, which;

    (void) state;
    HG_Set_log_level("none");
    assert_true(live());
    arm(-1);
    assert_true(live());
    total = disarm();
    assert_true(total > 10);
    for (which = 0; which < total; which++) {
        arm(which);
        (void) live();
        (void) disarm();
    }
    assert_true(live());
    HG_Set_log_level("warning");
}

static void large_payload_without_memory_is_an_error(void **state)
{
    struct pair *pair;
    long which;

    (void) state;
    HG_Set_log_level("none");
    pair = calloc(1, sizeof(*pair));
    assert_non_null(pair);
    pair_open(pair, NULL);
    pair_echo(pair, pair_large(pair));
    for (which = 0; which < 60; which++) {
        hg_handle_t handle = pair_create(pair, RPC_FILL);
        struct outcome outcome = {0};
        uint32_t size = pair_large(pair);
        int rounds;

        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &size), HG_SUCCESS);
        while (atomic_load(&outcome.count) == 0 && atomic_load(&pair->target.responded) >= 0) {
            arm(which);
            side_progress(&pair->origin);
            (void) disarm();
            side_progress(&pair->target);
        }
        for (rounds = 0; rounds < 5; rounds++)
            pair_progress(pair);
        (void) HG_Destroy(handle);
    }
    pair_echo(pair, pair_large(pair));
    pair_close(pair);
    free(pair);
    HG_Set_log_level("warning");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_state_allocates_nothing),
        cmocka_unit_test(large_payloads_reuse_their_memory),
        cmocka_unit_test(each_allocation_may_fail_in_turn),
        cmocka_unit_test(large_payload_without_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
