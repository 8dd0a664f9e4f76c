/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lookups with a callback: their deadline while the resolver hangs, their cancel, and addresses
 * that are found too late.
 */
#include "hg_fixture.h"

#include "mercury_bulk.h"
#include "na.h"

#include <pthread.h>
#include <unistd.h>

/* The linker wraps NA_Addr_lookup(): the resolver hangs while `hanging` is set. */
static atomic_bool hanging;
static atomic_int resolving;

na_return_t __real_NA_Addr_lookup(na_class_t *, const char *, na_addr_t **);
na_return_t __wrap_NA_Addr_lookup(na_class_t *, const char *, na_addr_t **);

na_return_t __wrap_NA_Addr_lookup(na_class_t *na_class, const char *name, na_addr_t **addr_p)
{
    atomic_fetch_add(&resolving, 1);
    while (atomic_load(&hanging))
        (void) usleep(500);
    atomic_fetch_sub(&resolving, 1);
    return __real_NA_Addr_lookup(na_class, name, addr_p);
}

struct found {
    struct outcome outcome;
    hg_addr_t addr;
    hg_op_id_t op_id; /* if set, the callback cancels this lookup */
};

static hg_return_t found_set(const struct hg_cb_info *info)
{
    struct found *found = info->arg;

    assert_int_equal(info->type, HG_CB_LOOKUP);
    if (found->op_id != HG_OP_ID_NULL)
        assert_int_equal(HG_Addr_lookup_cancel(found->op_id), HG_SUCCESS);
    found->addr = info->info.lookup.addr;
    found->outcome.ret = info->ret;
    atomic_fetch_add(&found->outcome.count, 1);
    return HG_SUCCESS;
}

static void target_name(const struct pair *pair, char *name, hg_size_t size)
{
    hg_addr_t self;

    assert_int_equal(HG_Addr_self(pair->target.hg_class, &self), HG_SUCCESS);
    assert_int_equal(HG_Addr_to_string(pair->target.hg_class, name, &size, self), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(pair->target.hg_class, self), HG_SUCCESS);
}

static void start(const struct pair *pair, struct found *found, unsigned int deadline_ms,
                  hg_op_id_t *op_id_p)
{
    char name[512];

    target_name(pair, name, sizeof(name));
    assert_int_equal(
        HG_Addr_lookup_deadline(pair->origin.context, found_set, found, name, deadline_ms, op_id_p),
        HG_SUCCESS);
}

static void ends_with(const struct pair *pair, const struct found *found, hg_return_t ret)
{
    pair_wait_for(pair, &found->outcome.count, 1);
    assert_int_equal(found->outcome.ret, ret);
    if (ret == HG_SUCCESS)
        assert_int_equal(HG_Addr_free(pair->origin.hg_class, found->addr), HG_SUCCESS);
    else
        assert_ptr_equal(found->addr, HG_ADDR_NULL);
}

static void let_go(void)
{
    atomic_store(&hanging, false);
    while (atomic_load(&resolving) > 0)
        (void) usleep(500);
}

static void lookup_in_time_finds_the_peer(void **state)
{
    struct pair *pair = *state;
    static const unsigned int deadlines[2] = {0, 20000};

    for (int i = 0; i < 20; i++) {
        struct found found = {0};

        start(pair, &found, deadlines[i % 2], NULL);
        ends_with(pair, &found, HG_SUCCESS);
    }
    {
        struct found found = {0};

        assert_int_equal(HG_Addr_lookup_deadline(NULL, found_set, &found, "x", 1, NULL),
                         HG_INVALID_ARG);
        assert_int_equal(HG_Addr_lookup_cancel(HG_OP_ID_NULL), HG_INVALID_ARG);
    }
}

static void lookup_ends_when_its_time_is_over(void **state)
{
    struct pair *pair = *state;
    uint64_t timeouts = side_ext_counters(&pair->origin).timeout_count;
    struct found found = {0};
    unsigned int count;

    atomic_store(&hanging, true);
    start(pair, &found, 500, NULL);
    assert_int_equal(HG_Progress(pair->origin.context, 0), HG_TIMEOUT);
    (void) usleep(505000);
    assert_int_equal(HG_Progress(pair->origin.context, 0), HG_SUCCESS);
    assert_int_equal(HG_Trigger(pair->origin.context, 0, 1, &count), HG_SUCCESS);
    assert_int_equal(atomic_load(&found.outcome.count), 1);
    ends_with(pair, &found, HG_TIMEOUT);
    assert_int_equal(side_ext_counters(&pair->origin).timeout_count, timeouts + 1);
    /*
     * The class keeps the resolver's thread until it returns; the late address must not call back
     * again.
     */
    let_go();
    pair_run(pair, 20);
    assert_int_equal(atomic_load(&found.outcome.count), 1);
}

static void default_deadline_is_for_lookups_too(void **state)
{
    struct pair *pair = *state;
    struct found found = {0};
    char name[512];

    target_name(pair, name, sizeof(name));
    assert_int_equal(HG_Class_set_default_deadline(pair->origin.hg_class, 20), HG_SUCCESS);
    atomic_store(&hanging, true);
    assert_int_equal(HG_Addr_lookup1(pair->origin.context, found_set, &found, name, NULL),
                     HG_SUCCESS);
    assert_int_equal(HG_Class_set_default_deadline(pair->origin.hg_class, 0), HG_SUCCESS);
    ends_with(pair, &found, HG_TIMEOUT);
    let_go();
}

static void sleeper_wakes_for_the_end_of_a_lookup(void **state)
{
    struct pair *pair = *state;
    uint64_t begin = now_ms();

    for (int hangs = 0; hangs < 2; hangs++) {
        struct found found = {0};
        unsigned int count;

        atomic_store(&hanging, hangs == 1);
        start(pair, &found, hangs ? 50 : 60000, NULL);
        while (atomic_load(&found.outcome.count) == 0) {
            (void) HG_Progress(pair->origin.context, 30000);
            (void) HG_Trigger(pair->origin.context, 0, 1, &count);
        }
        ends_with(pair, &found, hangs ? HG_TIMEOUT : HG_SUCCESS);
        let_go();
    }
    assert_true(now_ms() < begin + 15000);
}

static void cancelled_lookup_calls_back_once(void **state)
{
    struct pair *pair = *state;

    for (int timed = 0; timed < 2; timed++) {
        struct found found = {0};
        hg_op_id_t op_id = HG_OP_ID_NULL;

        atomic_store(&hanging, timed == 1);
        start(pair, &found, timed ? 60000 : 0, &op_id);
        assert_ptr_not_equal(op_id, HG_OP_ID_NULL);
        assert_int_equal(HG_Bulk_cancel(op_id), HG_INVALID_ARG);
        assert_int_equal(HG_Addr_lookup_cancel((hg_op_id_t) &found), HG_INVALID_ARG);
        assert_int_equal(HG_Addr_lookup_cancel(op_id), HG_SUCCESS);
        assert_int_equal(HG_Addr_lookup_cancel(op_id), HG_SUCCESS);
        assert_int_equal(atomic_load(&found.outcome.count), 0);
        ends_with(pair, &found, HG_CANCELED);
        let_go();
        pair_run(pair, 10);
        assert_int_equal(atomic_load(&found.outcome.count), 1);
    }
}

static void cancel_inside_of_the_callback_is_harmless(void **state)
{
    struct pair *pair = *state;
    struct found found = {0};
    hg_op_id_t op_id = HG_OP_ID_NULL;

    start(pair, &found, 0, &op_id);
    found.op_id = op_id;
    ends_with(pair, &found, HG_SUCCESS);
}

static void cancel_after_the_callback_is_harmless(void **state)
{
    struct pair *pair = *state;
    struct found first = {0}, next = {0};
    hg_op_id_t first_id = HG_OP_ID_NULL, next_id = HG_OP_ID_NULL;

    start(pair, &first, 0, &first_id);
    ends_with(pair, &first, HG_SUCCESS);
    start(pair, &next, 0, &next_id);
    assert_int_equal(HG_Addr_lookup_cancel(first_id), HG_SUCCESS);
    ends_with(pair, &next, HG_SUCCESS);
}

struct canceller {
    hg_op_id_t op_id;
    unsigned int after_us;
};

static void *cancel_thread(void *arg)
{
    const struct canceller *canceller = arg;

    (void) usleep(canceller->after_us);
    assert_int_equal(HG_Addr_lookup_cancel(canceller->op_id), HG_SUCCESS);
    return NULL;
}

/*
 * The callback is triggered after the other thread has cancelled, because the id is valid until
 * then.
 */
static void other_thread_may_cancel(void **state)
{
    struct pair *pair = *state;

    for (unsigned int i = 0; i < 60; i++) {
        struct found found = {0};
        struct canceller canceller = {HG_OP_ID_NULL, i * 10};
        pthread_t thread;

        start(pair, &found, 1 + i % 3, &canceller.op_id);
        assert_int_equal(pthread_create(&thread, NULL, cancel_thread, &canceller), 0);
        (void) HG_Progress(pair->origin.context, 1);
        (void) pthread_join(thread, NULL);
        pair_wait_for(pair, &found.outcome.count, 1);
        assert_true(found.outcome.ret == HG_CANCELED || found.outcome.ret == HG_TIMEOUT);
        assert_ptr_equal(found.addr, HG_ADDR_NULL);
    }
    let_go();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup_in_time_finds_the_peer),
        cmocka_unit_test(lookup_ends_when_its_time_is_over),
        cmocka_unit_test(default_deadline_is_for_lookups_too),
        cmocka_unit_test(sleeper_wakes_for_the_end_of_a_lookup),
        cmocka_unit_test(cancelled_lookup_calls_back_once),
        cmocka_unit_test(cancel_inside_of_the_callback_is_harmless),
        cmocka_unit_test(cancel_after_the_callback_is_harmless),
        cmocka_unit_test(other_thread_may_cancel),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
