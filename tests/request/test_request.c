/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests are completed by callbacks that any waiting thread may run; waiting ends in time and
 * uses no processor time. The "network" is a queue of requests: progress waits for a request, and
 * trigger completes one.
 */
#include "mercury_request.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define QUEUE_MAX 4096

struct network {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    hg_request_t *queue[QUEUE_MAX];
    unsigned int first;
    unsigned int last;
    atomic_uint progress_count;
    bool is_broken; /* progress fails at once */
};

static uint64_t now_ms(clockid_t clock)
{
    struct timespec time;

    (void) clock_gettime(clock, &time);
    return (uint64_t) time.tv_sec * 1000 + (uint64_t) time.tv_nsec / 1000000;
}

static int progress(unsigned int timeout, void *arg)
{
    struct network *network = arg;
    struct timespec until;
    int ret;

    atomic_fetch_add(&network->progress_count, 1);
    if (network->is_broken)
        return HG_UTIL_FAIL;
    (void) clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout / 1000;
    until.tv_nsec += (long) (timeout % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void) pthread_mutex_lock(&network->lock);
    if (network->first == network->last)
        (void) pthread_cond_timedwait(&network->cond, &network->lock, &until);
    ret = network->first != network->last ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
    (void) pthread_mutex_unlock(&network->lock);
    return ret;
}

static int trigger(unsigned int timeout, unsigned int *flag, void *arg)
{
    struct network *network = arg;
    hg_request_t *request = NULL;

    (void) timeout;
    (void) pthread_mutex_lock(&network->lock);
    if (network->first != network->last)
        request = network->queue[network->first++ % QUEUE_MAX];
    (void) pthread_mutex_unlock(&network->lock);
    *flag = request != NULL;
    if (request != NULL)
        hg_request_complete(request);
    return HG_UTIL_SUCCESS;
}

static void deliver(struct network *network, hg_request_t *request)
{
    (void) pthread_mutex_lock(&network->lock);
    network->queue[network->last++ % QUEUE_MAX] = request;
    (void) pthread_cond_signal(&network->cond);
    (void) pthread_mutex_unlock(&network->lock);
}

static void network_init(struct network *network)
{
    memset(network, 0, sizeof(*network));
    (void) pthread_mutex_init(&network->lock, NULL);
    (void) pthread_cond_init(&network->cond, NULL);
}

static void request_completes_when_its_callback_ran(void **state)
{
    struct network network;
    hg_request_class_t *request_class;
    hg_request_t *request;
    unsigned int flag = 7;
    void *arg = NULL;

    (void) state;
    network_init(&network);
    request_class = hg_request_init(progress, trigger, &network);
    request = hg_request_create(request_class);
    hg_request_set_data(request, &flag);
    assert_ptr_equal(hg_request_get_data(request), &flag);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(hg_request_wait(request, 0, &flag), HG_UTIL_SUCCESS);
        assert_int_equal(flag, 0);
        deliver(&network, request);
        assert_int_equal(hg_request_wait(request, 5000, &flag), HG_UTIL_SUCCESS);
        assert_int_equal(flag, 1);
        assert_int_equal(hg_request_wait(request, 0, NULL), HG_UTIL_SUCCESS);
        hg_request_reset(request);
    }
    hg_request_destroy(request);
    hg_request_finalize(request_class, &arg);
    assert_ptr_equal(arg, &network);
}

static void wait_ends_on_time(void **state)
{
    struct network network;
    hg_request_class_t *request_class;
    hg_request_t *requests[2];
    unsigned int flag = 7;
    uint64_t start;

    (void) state;
    network_init(&network);
    request_class = hg_request_init(progress, trigger, &network);
    requests[0] = hg_request_create(request_class);
    requests[1] = hg_request_create(request_class);
    start = now_ms(CLOCK_MONOTONIC);
    assert_int_equal(hg_request_waitall(2, requests, 250, &flag), HG_UTIL_SUCCESS);
    assert_int_equal(flag, 0);
    assert_in_range(now_ms(CLOCK_MONOTONIC) - start, 249, 20000);
    deliver(&network, requests[1]);
    assert_int_equal(hg_request_waitall(2, requests, 10, &flag), HG_UTIL_SUCCESS);
    assert_int_equal(flag, 0);
    deliver(&network, requests[0]);
    assert_int_equal(hg_request_waitall(2, requests, 5000, &flag), HG_UTIL_SUCCESS);
    assert_int_equal(flag, 1);
    hg_request_destroy(requests[0]);
    hg_request_destroy(requests[1]);
    hg_request_finalize(request_class, NULL);
}

static void broken_progress_does_not_use_a_core(void **state)
{
    struct network network;
    hg_request_class_t *request_class;
    hg_request_t *request;
    unsigned int flag = 7;
    uint64_t cpu;

    (void) state;
    network_init(&network);
    network.is_broken = true;
    request_class = hg_request_init(progress, trigger, &network);
    request = hg_request_create(request_class);
    cpu = now_ms(CLOCK_PROCESS_CPUTIME_ID);
    assert_int_equal(hg_request_wait(request, 300, &flag), HG_UTIL_SUCCESS);
    assert_int_equal(flag, 0);
    assert_in_range(now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu, 0, 150);
    assert_in_range(atomic_load(&network.progress_count), 1, 100000);
    hg_request_destroy(request);
    hg_request_finalize(request_class, NULL);
}

static void bad_arguments_are_refused(void **state)
{
    hg_request_t *none[1] = {NULL};
    unsigned int flag = 7;

    (void) state;
    assert_null(hg_request_init(NULL, trigger, NULL));
    assert_null(hg_request_init(progress, NULL, NULL));
    assert_null(hg_request_create(NULL));
    assert_int_equal(hg_request_wait(NULL, 0, &flag), HG_UTIL_FAIL);
    assert_int_equal(hg_request_waitall(1, none, 0, &flag), HG_UTIL_FAIL);
    assert_int_equal(hg_request_waitall(-1, none, 0, &flag), HG_UTIL_FAIL);
    assert_int_equal(hg_request_waitall(0, NULL, 0, &flag), HG_UTIL_SUCCESS);
    assert_int_equal(flag, 1);
    hg_request_destroy(NULL);
    hg_request_finalize(NULL, NULL);
}

#define THREAD_COUNT 8
#define ROUND_COUNT  500

struct waiter {
    pthread_t thread;
    struct network *network;
    hg_request_class_t *request_class;
    unsigned int completed;
};

/* Each thread waits for its own requests, but other threads run most of their callbacks. */
static void *wait_many(void *arg)
{
    struct waiter *waiter = arg;

    for (int i = 0; i < ROUND_COUNT; i++) {
        hg_request_t *request = hg_request_create(waiter->request_class);
        unsigned int flag = 0;

        deliver(waiter->network, request);
        (void) hg_request_wait(request, 10000, &flag);
        waiter->completed += flag;
        hg_request_destroy(request);
    }
    return NULL;
}

static void threads_complete_requests_for_each_other(void **state)
{
    struct network network;
    struct waiter waiters[THREAD_COUNT];
    hg_request_class_t *request_class;
    uint64_t start = now_ms(CLOCK_MONOTONIC);

    (void) state;
    network_init(&network);
    request_class = hg_request_init(progress, trigger, &network);
    for (int i = 0; i < THREAD_COUNT; i++) {
        waiters[i].network = &network;
        waiters[i].request_class = request_class;
        waiters[i].completed = 0;
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_many, &waiters[i]), 0);
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        (void) pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].completed, ROUND_COUNT);
    }
    /* No thread slept through a completion. */
    assert_in_range(now_ms(CLOCK_MONOTONIC) - start, 0, 20000);
    hg_request_finalize(request_class, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_completes_when_its_callback_ran),
        cmocka_unit_test(wait_ends_on_time),
        cmocka_unit_test(broken_progress_does_not_use_a_core),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(threads_complete_requests_for_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
