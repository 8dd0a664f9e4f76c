/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic integers, and the queue of pointers: its capacity, and that no entry is lost between
 * threads.
 */
#include "mercury_atomic.h"
#include "mercury_atomic_queue.h"
#include "mercury_thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define THREADS 3
#define ENTRIES 20000

struct traffic {
    struct hg_atomic_queue *queue;
    hg_atomic_int32_t popped;
    hg_atomic_int64_t sum;
};

static void integers_change_as_told(void **state)
{
    hg_atomic_int32_t small = HG_ATOMIC_VAR_INIT(7);
    hg_atomic_int64_t large;

    (void) state;
    assert_int_equal(hg_atomic_get32(&small), 7);
    assert_int_equal(hg_atomic_incr32(&small), 8); /* returns the new value */
    assert_int_equal(hg_atomic_decr32(&small), 7);
    assert_int_equal(hg_atomic_or32(&small, 8), 7); /* returns the old value */
    assert_int_equal(hg_atomic_and32(&small, 12), 15);
    assert_int_equal(hg_atomic_xor32(&small, 5), 12);
    assert_false(hg_atomic_cas32(&small, 12, 1));
    assert_true(hg_atomic_cas32(&small, 9, 1));
    assert_int_equal(hg_atomic_get32(&small), 1);

    hg_atomic_init64(&large, INT64_C(1) << 40);
    assert_int_equal(hg_atomic_incr64(&large), (INT64_C(1) << 40) + 1);
    assert_int_equal(hg_atomic_decr64(&large), INT64_C(1) << 40);
    assert_int_equal(hg_atomic_or64(&large, 3), INT64_C(1) << 40);
    assert_int_equal(hg_atomic_and64(&large, 1), (INT64_C(1) << 40) + 3);
    assert_int_equal(hg_atomic_xor64(&large, 3), 1);
    assert_false(hg_atomic_cas64(&large, 1, 5));
    assert_true(hg_atomic_cas64(&large, 2, 5));
    hg_atomic_fence();
    hg_atomic_set64(&large, -6);
    assert_int_equal(hg_atomic_get64(&large), -6);
}

static void a_queue_holds_one_entry_less(void **state)
{
    struct hg_atomic_queue *queue = hg_atomic_queue_alloc(8);
    int entries[8];

    (void) state;
    assert_null(hg_atomic_queue_alloc(0));
    assert_null(hg_atomic_queue_alloc(1));
    assert_null(hg_atomic_queue_alloc(12));
    assert_non_null(queue);
    for (int round = 0; round < 3; round++) {
        assert_true(hg_atomic_queue_is_empty(queue));
        assert_null(hg_atomic_queue_pop_mc(queue));
        for (int i = 0; i < 7; i++)
            assert_int_equal(hg_atomic_queue_push(queue, &entries[i]), HG_UTIL_SUCCESS);
        assert_int_equal(hg_atomic_queue_push(queue, &entries[7]), HG_UTIL_FAIL);
        assert_int_equal(hg_atomic_queue_count(queue), 7);
        for (int i = 0; i < 7; i++)
            assert_ptr_equal(i % 2 ? hg_atomic_queue_pop_mc(queue) : hg_atomic_queue_pop_sc(queue),
                             &entries[i]);
    }
    hg_atomic_queue_free(queue);
    hg_atomic_queue_free(NULL);
}

static HG_THREAD_RETURN_TYPE push_all(void *arg)
{
    struct traffic *traffic = arg;

    for (uintptr_t i = 1; i <= ENTRIES; i++)
        while (hg_atomic_queue_push(traffic->queue, (void *) i) != HG_UTIL_SUCCESS)
            (void) hg_thread_yield();
    return NULL;
}

static HG_THREAD_RETURN_TYPE pop_all(void *arg)
{
    struct traffic *traffic = arg;

    while (hg_atomic_get32(&traffic->popped) < THREADS * ENTRIES) {
        int64_t entry = (int64_t) (uintptr_t) hg_atomic_queue_pop_mc(traffic->queue);
        int64_t sum = hg_atomic_get64(&traffic->sum);

        if (entry == 0) {
            (void) hg_thread_yield();
            continue;
        }
        (void) hg_atomic_incr32(&traffic->popped);
        while (!hg_atomic_cas64(&traffic->sum, sum, sum + entry))
            sum = hg_atomic_get64(&traffic->sum);
    }
    return NULL;
}

static void threads_lose_no_entry(void **state)
{
    struct traffic traffic = {.queue = hg_atomic_queue_alloc(64)};
    hg_thread_t threads[2 * THREADS];

    (void) state;
    assert_non_null(traffic.queue);
    for (int i = 0; i < 2 * THREADS; i++)
        assert_int_equal(hg_thread_create(&threads[i], i % 2 ? push_all : pop_all, &traffic),
                         HG_UTIL_SUCCESS);
    for (int i = 0; i < 2 * THREADS; i++)
        assert_int_equal(hg_thread_join(threads[i]), HG_UTIL_SUCCESS);
    assert_int_equal(hg_atomic_get32(&traffic.popped), THREADS * ENTRIES);
    assert_int_equal(hg_atomic_get64(&traffic.sum),
                     (int64_t) THREADS * ENTRIES * (ENTRIES + 1) / 2);
    hg_atomic_queue_free(traffic.queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_change_as_told),
        cmocka_unit_test(a_queue_holds_one_entry_less),
        cmocka_unit_test(threads_lose_no_entry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
