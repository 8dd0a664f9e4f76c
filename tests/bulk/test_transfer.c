/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers between two classes, compared with a model of flat buffers.
 */
#include "bulk_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

static unsigned int seed = 2024;

static unsigned int next_random(unsigned int below)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % below;
}

static uint32_t random_sizes(hg_size_t *sizes, uint32_t max_count, unsigned int max_size)
{
    uint32_t count = 1 + next_random(max_count);

    for (uint32_t i = 0; i < count; i++)
        sizes[i] = next_random(4) == 0 ? next_random(8) : next_random(max_size);
    return count;
}

/*
 * One transfer of a random range between random layouts; all bytes of both sides are compared with
 * the model.
 */
static void check_random_transfer(struct pair *pair, uint32_t max_count, unsigned int max_size)
{
    hg_size_t *sizes = calloc(max_count, sizeof(*sizes));
    hg_bulk_op_t op = next_random(2) == 0 ? HG_BULK_PULL : HG_BULK_PUSH;
    struct memory origin;
    struct memory local;
    hg_bulk_t received;
    hg_size_t origin_offset;
    hg_size_t local_offset;
    hg_size_t most;
    hg_size_t size;
    char *flat[3];

    memory_make(&origin, pair->origin.hg_class, random_sizes(sizes, max_count, max_size), sizes,
                HG_BULK_READWRITE, seed);
    memory_make(&local, pair->target.hg_class, random_sizes(sizes, max_count, max_size), sizes,
                HG_BULK_READWRITE, seed + 1);
    received = bulk_send(origin.bulk, 0, pair->target.hg_class);
    origin_offset = next_random((unsigned int) origin.size + 1);
    local_offset = next_random((unsigned int) local.size + 1);
    most = origin.size - origin_offset;
    most = most < local.size - local_offset ? most : local.size - local_offset;
    size = next_random(3) == 0 ? most : next_random((unsigned int) most + 1);

    flat[0] = malloc((size_t) origin.size + 1);
    flat[1] = malloc((size_t) local.size + 1);
    flat[2] = malloc((size_t) (origin.size > local.size ? origin.size : local.size) + 1);
    memory_get(&origin, flat[0]);
    memory_get(&local, flat[1]);
    assert_int_equal(transfer(pair, op, received, origin_offset, local.bulk, local_offset, size),
                     HG_SUCCESS);
    if (op == HG_BULK_PULL)
        memcpy(flat[1] + local_offset, flat[0] + origin_offset, (size_t) size);
    else
        memcpy(flat[0] + origin_offset, flat[1] + local_offset, (size_t) size);
    memory_get(&origin, flat[2]);
    assert_memory_equal(flat[0], flat[2], (size_t) origin.size);
    memory_get(&local, flat[2]);
    assert_memory_equal(flat[1], flat[2], (size_t) local.size);

    for (int i = 0; i < 3; i++)
        free(flat[i]);
    assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
    memory_free(&origin);
    memory_free(&local);
    free(sizes);
}

static void random_layouts_match_the_model(void **state)
{
    for (int round = 0; round < 300; round++)
        check_random_transfer(*state, 1 + (uint32_t) round % 12, 1 + 37u * (unsigned int) round);
}

static void thousands_of_segments_match_the_model(void **state)
{
    for (int round = 0; round < 4; round++)
        check_random_transfer(*state, 3000, 60);
}

static void megabytes_arrive(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[1] = {9 * 1024 * 1024 + 17};
    struct memory origin;
    struct memory local;
    hg_bulk_t received;

    memory_make(&origin, pair->origin.hg_class, 1, sizes, HG_BULK_READWRITE, 1);
    memory_make(&local, pair->target.hg_class, 1, sizes, HG_BULK_READWRITE, 2);
    received = bulk_send(origin.bulk, 0, pair->target.hg_class);
    assert_int_equal(transfer(pair, HG_BULK_PULL, received, 0, local.bulk, 0, sizes[0]),
                     HG_SUCCESS);
    assert_memory_equal(origin.ptrs[0], local.ptrs[0], (size_t) sizes[0]);
    memset(local.ptrs[0], 3, (size_t) sizes[0]);
    assert_int_equal(transfer(pair, HG_BULK_PUSH, received, 0, local.bulk, 0, sizes[0]),
                     HG_SUCCESS);
    assert_memory_equal(origin.ptrs[0], local.ptrs[0], (size_t) sizes[0]);
    assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
    memory_free(&origin);
    memory_free(&local);
}

static void ranges_are_checked_without_overflowing(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[2] = {100, 100};
    static const hg_size_t bad[5][3] = {
        {0, 0, 201}, {1, 0, 200}, {0, 1, 200}, {HG_SIZE_MAX, 0, 2}, {2, 2, HG_SIZE_MAX}};
    struct memory origin;
    struct memory local;
    hg_bulk_t received;

    memory_make(&origin, pair->origin.hg_class, 2, sizes, HG_BULK_READWRITE, 1);
    memory_make(&local, pair->target.hg_class, 2, sizes, HG_BULK_READWRITE, 2);
    received = bulk_send(origin.bulk, 0, pair->target.hg_class);
    for (int i = 0; i < 5; i++)
        assert_int_equal(
            transfer(pair, HG_BULK_PULL, received, bad[i][0], local.bulk, bad[i][1], bad[i][2]),
            HG_OVERFLOW);
    assert_int_equal(transfer(pair, HG_BULK_PULL, received, 200, local.bulk, 200, 0), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
    memory_free(&origin);
    memory_free(&local);
}

static void bound_descriptor_brings_its_address(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[2] = {3000, 4000};
    struct outcome outcome = {0, HG_OTHER_ERROR, {{{NULL}}, NULL, HG_CB_LOOKUP, HG_OTHER_ERROR}};
    struct memory origin;
    struct memory local;
    hg_bulk_t received;
    char flat[2][7000];

    memory_make(&origin, pair->origin.hg_class, 2, sizes, HG_BULK_READWRITE, 1);
    memory_make(&local, pair->target.hg_class, 2, sizes, HG_BULK_READWRITE, 2);
    assert_ptr_equal(HG_Bulk_get_addr(origin.bulk), HG_ADDR_NULL);
    assert_int_equal(HG_Bulk_bind(origin.bulk, pair->origin.context), HG_SUCCESS);
    assert_int_equal(HG_Bulk_bind(origin.bulk, pair->origin.context), HG_INVALID_ARG);
    received = bulk_send(origin.bulk, 0, pair->target.hg_class);
    assert_int_equal(HG_Bulk_get_context_id(received), HG_Context_get_id(pair->origin.context));
    assert_int_equal(
        HG_Addr_cmp(pair->target.hg_class, HG_Bulk_get_addr(received), pair->origin_addr), HG_TRUE);
    assert_int_equal(HG_Bulk_bind_transfer(pair->target.context, outcome_set, &outcome,
                                           HG_BULK_PULL, received, 0, local.bulk, 0, 7000, NULL),
                     HG_SUCCESS);
    /* The transfer keeps the descriptor alive. */
    assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
    pair_wait(pair, &outcome);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    memory_get(&origin, flat[0]);
    memory_get(&local, flat[1]);
    assert_memory_equal(flat[0], flat[1], 7000);
    memory_free(&origin);
    memory_free(&local);
}

static void cancelled_transfer_calls_back_once(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[1] = {4 * 1024 * 1024};
    struct memory origin;
    struct memory local;
    hg_bulk_t received;

    memory_make(&origin, pair->origin.hg_class, 1, sizes, HG_BULK_READWRITE, 1);
    memory_make(&local, pair->target.hg_class, 1, sizes, HG_BULK_READWRITE, 2);
    received = bulk_send(origin.bulk, 0, pair->target.hg_class);
    for (int round = 0; round < 20; round++) {
        struct outcome outcome = {0, HG_OTHER_ERROR, {{{NULL}}, NULL, HG_CB_LOOKUP, HG_SUCCESS}};
        hg_op_id_t op_id = HG_OP_ID_NULL;

        assert_int_equal(HG_Bulk_transfer(pair->target.context, outcome_set, &outcome, HG_BULK_PULL,
                                          pair->origin_addr, received, 0, local.bulk, 0, sizes[0],
                                          &op_id),
                         HG_SUCCESS);
        assert_int_equal(HG_Bulk_cancel(op_id), HG_SUCCESS);
        pair_wait(pair, &outcome);
        assert_int_equal(outcome.ret, HG_CANCELED);
    }
    assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
    memory_free(&origin);
    memory_free(&local);
}

#define THREAD_COUNT 4
#define ROUND_COUNT  100

struct worker {
    pthread_t thread;
    struct pair *pair;
    hg_bulk_t received;
    struct memory local;
    atomic_int ended;
    int started;
    atomic_int unexpected;
};

static hg_return_t count_end(const struct hg_cb_info *info)
{
    struct worker *worker = info->arg;

    if (info->ret != HG_SUCCESS && info->ret != HG_CANCELED)
        atomic_fetch_add(&worker->unexpected, 1);
    atomic_fetch_add(&worker->ended, 1);
    return HG_SUCCESS;
}

static void *transfer_many(void *arg)
{
    struct worker *worker = arg;
    unsigned int count;

    while (worker->started < ROUND_COUNT) {
        hg_op_id_t op_id = HG_OP_ID_NULL;
        hg_return_t ret =
            HG_Bulk_transfer(worker->pair->target.context, count_end, worker, HG_BULK_PULL,
                             worker->pair->origin_addr, worker->received,
                             (hg_size_t) worker->started, worker->local.bulk, 0, 5000, &op_id);

        if (ret != HG_SUCCESS)
            break;
        worker->started++;
        while (atomic_load(&worker->ended) < worker->started) {
            (void) HG_Progress(worker->pair->target.context, 0);
            (void) HG_Trigger(worker->pair->target.context, 0, 1, &count);
        }
    }
    return NULL;
}

static void threads_share_a_context(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[3] = {3000, 4000, 5000};
    struct worker workers[THREAD_COUNT];
    struct memory origin;
    char flat[2][12000];

    memory_make(&origin, pair->origin.hg_class, 3, sizes, HG_BULK_READWRITE, 1);
    memory_get(&origin, flat[0]);
    for (int i = 0; i < THREAD_COUNT; i++) {
        workers[i].pair = pair;
        workers[i].received = bulk_send(origin.bulk, 0, pair->target.hg_class);
        memory_make(&workers[i].local, pair->target.hg_class, 2, sizes, HG_BULK_READWRITE, 2);
        atomic_init(&workers[i].ended, 0);
        workers[i].started = 0;
        atomic_init(&workers[i].unexpected, 0);
    }
    for (int i = 0; i < THREAD_COUNT; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, transfer_many, &workers[i]), 0);
    /* The origin makes progress, which some transports need for transfers. */
    for (int i = 0; i < THREAD_COUNT; i++)
        while (atomic_load(&workers[i].ended) < ROUND_COUNT)
            (void) HG_Progress(pair->origin.context, 1);
    for (int i = 0; i < THREAD_COUNT; i++) {
        (void) pthread_join(workers[i].thread, NULL);
        assert_int_equal(atomic_load(&workers[i].unexpected), 0);
        assert_int_equal(workers[i].started, ROUND_COUNT);
        memory_get(&workers[i].local, flat[1]);
        assert_memory_equal(flat[1], flat[0] + ROUND_COUNT - 1, 5000);
        assert_int_equal(HG_Bulk_free(workers[i].received), HG_SUCCESS);
        memory_free(&workers[i].local);
    }
    memory_free(&origin);
}

struct late {
    hg_op_id_t op_id; /* of a transfer that has ended */
    atomic_bool is_over;
    atomic_uint cancels;
};

static void *cancel_late(void *arg)
{
    struct late *late = arg;

    while (!atomic_load(&late->is_over)) {
        if (HG_Bulk_cancel(late->op_id) == HG_SUCCESS)
            atomic_fetch_add(&late->cancels, 1);
    }
    return NULL;
}

/*
 * The operation that the id named is reused for other transfers, which the late cancel must not
 * touch.
 */
static void late_cancel_touches_no_other_transfer(void **state)
{
    struct pair *pair = *state;
    const hg_size_t size = 64;
    struct late late = {0};
    struct memory origin, local;
    hg_bulk_t received;
    unsigned int seen = 0;
    pthread_t thread;

    memory_make(&origin, pair->origin.hg_class, 1, &size, HG_BULK_READWRITE, 1);
    memory_make(&local, pair->target.hg_class, 1, &size, HG_BULK_READWRITE, 2);
    received = bulk_send(origin.bulk, 0, pair->target.hg_class);
    for (int i = 0; i < 200 || seen < 2; i++) {
        struct outcome outcome = {0};
        hg_op_id_t op_id;

        assert_int_equal(HG_Bulk_transfer(pair->target.context, outcome_set, &outcome, HG_BULK_PULL,
                                          pair->origin_addr, received, 0, local.bulk, 0, size,
                                          &op_id),
                         HG_SUCCESS);
        pair_wait(pair, &outcome);
        assert_int_equal(outcome.ret, HG_SUCCESS);
        if (i == 0) {
            late.op_id = op_id;
            assert_int_equal(pthread_create(&thread, NULL, cancel_late, &late), 0);
        }
        seen = atomic_load(&late.cancels);
    }
    atomic_store(&late.is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
    memory_free(&local);
    memory_free(&origin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_layouts_match_the_model),
        cmocka_unit_test(thousands_of_segments_match_the_model),
        cmocka_unit_test(megabytes_arrive),
        cmocka_unit_test(ranges_are_checked_without_overflowing),
        cmocka_unit_test(bound_descriptor_brings_its_address),
        cmocka_unit_test(cancelled_transfer_calls_back_once),
        cmocka_unit_test(threads_share_a_context),
        cmocka_unit_test(late_cancel_touches_no_other_transfer),
    };

    return cmocka_run_group_tests(tests, pair_open, pair_close);
}
