/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads, their locks and conditions, and the pool of threads.
 */
#include "mercury_atomic.h"
#include "mercury_thread.h"
#include "mercury_thread_condition.h"
#include "mercury_thread_pool.h"
#include "mercury_thread_rwlock.h"
#include "mercury_thread_spin.h"
#include "mercury_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 4
#define ROUNDS  2000

struct shared {
    hg_thread_mutex_t mutex;
    hg_thread_spin_t spin;
    hg_thread_rwlock_t rwlock;
    hg_thread_cond_t cond;
    unsigned int by_mutex;
    unsigned int by_spin;
    unsigned int by_rwlock;
    bool is_told;
};

static hg_atomic_int32_t works_done;

static HG_THREAD_RETURN_TYPE count(void *arg)
{
    struct shared *shared = arg;

    for (int i = 0; i < ROUNDS; i++) {
        hg_thread_mutex_lock(&shared->mutex);
        shared->by_mutex++;
        hg_thread_mutex_unlock(&shared->mutex);
        hg_thread_spin_lock(&shared->spin);
        shared->by_spin++;
        hg_thread_spin_unlock(&shared->spin);
        hg_thread_rwlock_wrlock(&shared->rwlock);
        shared->by_rwlock++;
        hg_thread_rwlock_release_wrlock(&shared->rwlock);
        hg_thread_rwlock_rdlock(&shared->rwlock);
        hg_thread_rwlock_release_rdlock(&shared->rwlock);
    }
    hg_thread_exit(NULL);
    return NULL;
}

static HG_THREAD_RETURN_TYPE try_locks(void *arg)
{
    struct shared *shared = arg;

    assert_int_equal(hg_thread_mutex_try_lock(&shared->mutex), HG_UTIL_FAIL);
    assert_int_equal(hg_thread_spin_try_lock(&shared->spin), HG_UTIL_FAIL);
    assert_int_equal(hg_thread_rwlock_try_wrlock(&shared->rwlock), HG_UTIL_FAIL);
    assert_int_equal(hg_thread_rwlock_try_rdlock(&shared->rwlock), HG_UTIL_SUCCESS);
    hg_thread_rwlock_release_rdlock(&shared->rwlock);
    return NULL;
}

static void init_shared(struct shared *shared)
{
    assert_int_equal(hg_thread_mutex_init_fast(&shared->mutex), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_spin_init(&shared->spin), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_rwlock_init(&shared->rwlock), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_cond_init(&shared->cond), HG_UTIL_SUCCESS);
}

static void free_shared(struct shared *shared)
{
    assert_int_equal(hg_thread_mutex_destroy(&shared->mutex), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_spin_destroy(&shared->spin), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_rwlock_destroy(&shared->rwlock), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_cond_destroy(&shared->cond), HG_UTIL_SUCCESS);
}

static void locks_exclude_others(void **state)
{
    struct shared shared = {0};
    hg_thread_t threads[THREADS];

    (void) state;
    init_shared(&shared);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(hg_thread_create(&threads[i], count, &shared), HG_UTIL_SUCCESS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(hg_thread_join(threads[i]), HG_UTIL_SUCCESS);
    assert_int_equal(shared.by_mutex, THREADS * ROUNDS);
    assert_int_equal(shared.by_spin, THREADS * ROUNDS);
    assert_int_equal(shared.by_rwlock, THREADS * ROUNDS);

    assert_int_equal(hg_thread_mutex_try_lock(&shared.mutex), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_spin_try_lock(&shared.spin), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_rwlock_try_rdlock(&shared.rwlock), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_create(&threads[0], try_locks, &shared), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_join(threads[0]), HG_UTIL_SUCCESS);
    hg_thread_rwlock_release_rdlock(&shared.rwlock);
    assert_int_equal(hg_thread_rwlock_try_wrlock(&shared.rwlock), HG_UTIL_SUCCESS);
    hg_thread_rwlock_release_wrlock(&shared.rwlock);
    hg_thread_spin_unlock(&shared.spin);
    hg_thread_mutex_unlock(&shared.mutex);
    free_shared(&shared);
}

static HG_THREAD_RETURN_TYPE tell(void *arg)
{
    struct shared *shared = arg;

    hg_thread_mutex_lock(&shared->mutex);
    shared->is_told = true;
    assert_int_equal(hg_thread_cond_signal(&shared->cond), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_cond_broadcast(&shared->cond), HG_UTIL_SUCCESS);
    hg_thread_mutex_unlock(&shared->mutex);
    return NULL;
}

static void conditions_wake_and_time_out(void **state)
{
    struct shared shared = {0};
    hg_time_t before;
    hg_time_t after;
    hg_thread_t thread;

    (void) state;
    init_shared(&shared);
    hg_thread_mutex_lock(&shared.mutex);
    assert_int_equal(hg_time_get_current(&before), HG_UTIL_SUCCESS);
    while (hg_thread_cond_timedwait(&shared.cond, &shared.mutex, 30) == HG_UTIL_SUCCESS)
        ;
    assert_int_equal(hg_time_get_current(&after), HG_UTIL_SUCCESS);
    assert_true(hg_time_diff(after, before) >= 0.029);

    assert_int_equal(hg_thread_create(&thread, tell, &shared), HG_UTIL_SUCCESS);
    while (!shared.is_told)
        assert_int_equal(hg_thread_cond_wait(&shared.cond, &shared.mutex), HG_UTIL_SUCCESS);
    hg_thread_mutex_unlock(&shared.mutex);
    assert_int_equal(hg_thread_join(thread), HG_UTIL_SUCCESS);
    free_shared(&shared);
}

static HG_THREAD_RETURN_TYPE look_at_key(void *arg)
{
    hg_thread_key_t *key = arg;
    int mine;

    assert_null(hg_thread_getspecific(*key));
    assert_int_equal(hg_thread_setspecific(*key, &mine), HG_UTIL_SUCCESS);
    assert_ptr_equal(hg_thread_getspecific(*key), &mine);
    return NULL;
}

static HG_THREAD_RETURN_TYPE sleep_for_ever(void *arg)
{
    (void) arg;
    for (;;)
        (void) pause();
    return NULL;
}

static void threads_are_told_apart(void **state)
{
    hg_thread_t thread;
    hg_thread_key_t key;
    hg_cpu_set_t cpus;
    int mine;

    (void) state;
    hg_thread_init(&thread);
    assert_false(hg_thread_equal(thread, hg_thread_self()));
    assert_true(hg_thread_equal(hg_thread_self(), hg_thread_self()));
    assert_int_equal(hg_thread_key_create(&key), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_key_create(NULL), HG_UTIL_FAIL);
    assert_int_equal(hg_thread_setspecific(key, &mine), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_create(&thread, look_at_key, &key), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_join(thread), HG_UTIL_SUCCESS);
    assert_ptr_equal(hg_thread_getspecific(key), &mine);
    assert_int_equal(hg_thread_key_delete(key), HG_UTIL_SUCCESS);

    assert_int_equal(hg_thread_create(&thread, sleep_for_ever, NULL), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_cancel(thread), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_join(thread), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_yield(), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_getaffinity(hg_thread_self(), &cpus), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_setaffinity(hg_thread_self(), &cpus), HG_UTIL_SUCCESS);
}

static HG_THREAD_RETURN_TYPE work(void *arg)
{
    (void) hg_atomic_incr32(&works_done);
    free(arg); /* the pool must not use the item once its function has begun */
    return NULL;
}

static void a_pool_runs_all_that_was_handed_over(void **state)
{
    hg_thread_pool_t *pool = NULL;
    struct hg_thread_work nothing = {0};

    (void) state;
    assert_int_equal(hg_thread_pool_init(THREADS, NULL), HG_UTIL_FAIL);
    assert_int_equal(hg_thread_pool_init(THREADS, &pool), HG_UTIL_SUCCESS);
    assert_int_equal(hg_thread_pool_post(pool, NULL), HG_UTIL_FAIL);
    assert_int_equal(hg_thread_pool_post(pool, &nothing), HG_UTIL_FAIL);
    for (int i = 0; i < 500; i++) {
        struct hg_thread_work *item = calloc(1, sizeof(*item));

        assert_non_null(item);
        item->func = work;
        item->args = item;
        assert_int_equal(hg_thread_pool_post(pool, item), HG_UTIL_SUCCESS);
    }
    assert_int_equal(hg_thread_pool_destroy(pool), HG_UTIL_SUCCESS);
    assert_int_equal(hg_atomic_get32(&works_done), 500);
    assert_int_equal(hg_thread_pool_destroy(NULL), HG_UTIL_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_exclude_others),
        cmocka_unit_test(conditions_wake_and_time_out),
        cmocka_unit_test(threads_are_told_apart),
        cmocka_unit_test(a_pool_runs_all_that_was_handed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
