/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many threads share a context: each makes progress, triggers and forwards; handles are created and
 * destroyed, and some RPCs are cancelled.
 */
#include "hg_fixture.h"

#include <pthread.h>
#include <time.h>

enum {
    THREADS = 8,
    ROUNDS = 150,
    IN_FLIGHT = 4
};

struct load {
    struct pair *pair;
    pthread_t thread;
    uint8_t number;
    int canceled;
};

struct serving {
    struct side *side;
    pthread_t threads[2];
    atomic_bool stop;
};

static void progress_once(hg_context_t *context, unsigned int timeout)
{
    unsigned int count;

    (void) HG_Progress(context, timeout);
    while (HG_Trigger(context, 0, 1, &count) == HG_SUCCESS && count > 0)
        ;
}

static void *serve(void *arg)
{
    struct serving *serving = arg;

    while (!atomic_load(&serving->stop))
        progress_once(serving->side->context, 20);
    return NULL;
}

static void serving_start(struct serving *serving, struct side *side)
{
    serving->side = side;
    atomic_store(&serving->stop, false);
    assert_int_equal(pthread_create(&serving->threads[0], NULL, serve, serving), 0);
    assert_int_equal(pthread_create(&serving->threads[1], NULL, serve, serving), 0);
}

static void serving_stop(struct serving *serving)
{
    atomic_store(&serving->stop, true);
    (void) pthread_join(serving->threads[0], NULL);
    (void) pthread_join(serving->threads[1], NULL);
}

static void forward(hg_handle_t handle, struct outcome *outcome, struct blob *in,
                    hg_context_t *context)
{
    hg_return_t ret;

    while ((ret = HG_Forward(handle, outcome_set, outcome, in)) == HG_AGAIN)
        progress_once(context, 0);
    assert_int_equal(ret, HG_SUCCESS);
}

static void *echo_load(void *arg)
{
    struct load *load = arg;
    hg_context_t *context = load->pair->origin.context;
    int round, i;

    for (round = 0; round < ROUNDS; round++) {
        struct outcome outcomes[IN_FLIGHT] = {{0}};
        hg_handle_t handles[IN_FLIGHT];

        for (i = 0; i < IN_FLIGHT; i++) {
            struct blob in;

            blob_make(&in, round % 20 == 0 ? 20000u : 40u, (uint8_t) (load->number + i));
            handles[i] = pair_create(load->pair, RPC_ECHO);
            forward(handles[i], &outcomes[i], &in, context);
            free(in.data);
        }
        for (i = 0; i < IN_FLIGHT; i++) {
            struct blob out;

            while (atomic_load(&outcomes[i].count) == 0)
                progress_once(context, 10);
            assert_int_equal(outcomes[i].ret, HG_SUCCESS);
            assert_int_equal(HG_Get_output(handles[i], &out), HG_SUCCESS);
            blob_check(&out, round % 20 == 0 ? 20000u : 40u, (uint8_t) (load->number + i));
            (void) HG_Free_output(handles[i], &out);
            (void) HG_Destroy(handles[i]);
        }
    }
    return NULL;
}

static void *cancel_load(void *arg)
{
    struct load *load = arg;
    hg_context_t *context = load->pair->origin.context;
    hg_handle_t handle = pair_create(load->pair, RPC_ECHO);
    struct blob in;
    int round;

    blob_make(&in, 16, load->number);
    for (round = 0; round < ROUNDS; round++) {
        struct outcome outcome = {0};

        forward(handle, &outcome, &in, context);
        if (round % 3 == 0)
            assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
        while (atomic_load(&outcome.count) == 0)
            progress_once(context, 10);
        assert_true(outcome.ret == HG_SUCCESS || outcome.ret == HG_CANCELED);
        load->canceled += outcome.ret == HG_CANCELED ? 1 : 0;
        assert_int_equal(outcome.count, 1);
    }
    free(in.data);
    (void) HG_Destroy(handle);
    return NULL;
}

static void run_load(void *(*function)(void *) )
{
    struct pair pair = {0};
    struct serving serving;
    struct load loads[THREADS];
    int i;

    pair_open(&pair, NULL);
    serving_start(&serving, &pair.target);
    for (i = 0; i < THREADS; i++) {
        loads[i] = (struct load){.pair = &pair, .number = (uint8_t) (i * 16)};
        assert_int_equal(pthread_create(&loads[i].thread, NULL, function, &loads[i]), 0);
    }
    for (i = 0; i < THREADS; i++)
        (void) pthread_join(loads[i].thread, NULL);
    serving_stop(&serving);
    pair_close(&pair);
}

static void eight_threads_share_a_context(void **state)
{
    (void) state;
    run_load(echo_load);
}

static void eight_threads_cancel_at_will(void **state)
{
    (void) state;
    run_load(cancel_load);
}

static void *trigger_only(void *arg)
{
    struct serving *serving = arg;
    unsigned int count;

    while (!atomic_load(&serving->stop))
        (void) HG_Trigger(serving->side->context, 20, 1, &count);
    return NULL;
}

static void *progress_only(void *arg)
{
    struct serving *serving = arg;

    while (!atomic_load(&serving->stop))
        (void) HG_Progress(serving->side->context, 20);
    return NULL;
}

/* One thread makes progress and another one triggers; no completion is lost between them. */
static void progress_and_trigger_on_different_threads(void **state)
{
    struct pair pair = {0};
    struct serving origin = {0}, target = {0};
    hg_handle_t handle;
    int i;

    (void) state;
    pair_open(&pair, NULL);
    origin.side = &pair.origin;
    target.side = &pair.target;
    assert_int_equal(pthread_create(&origin.threads[0], NULL, progress_only, &origin), 0);
    assert_int_equal(pthread_create(&origin.threads[1], NULL, trigger_only, &origin), 0);
    assert_int_equal(pthread_create(&target.threads[0], NULL, progress_only, &target), 0);
    assert_int_equal(pthread_create(&target.threads[1], NULL, trigger_only, &target), 0);
    handle = pair_create(&pair, RPC_NULL);
    for (i = 0; i < 300; i++) {
        struct outcome outcome = {0};
        struct timespec nap = {0, 20000};

        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
        while (atomic_load(&outcome.count) == 0)
            (void) nanosleep(&nap, NULL);
        assert_int_equal(outcome.ret, HG_SUCCESS);
        /*
         * The callback runs before the RPC drops its reference; the handle may be used again after
         * that.
         */
        while (HG_Ref_get(handle) > 1)
            (void) nanosleep(&nap, NULL);
    }
    (void) HG_Destroy(handle);
    serving_stop(&origin);
    serving_stop(&target);
    pair_close(&pair);
}

struct sleeper {
    hg_context_t *context;
    hg_return_t ret;
    atomic_bool is_back;
};

static void *sleep_in_progress(void *arg)
{
    struct sleeper *sleeper = arg;

    sleeper->ret = HG_Progress(sleeper->context, 10000);
    atomic_store(&sleeper->is_back, true);
    return NULL;
}

/*
 * A thread may sleep because the transport promised to wake it. A poll by another thread ends that
 * promise, and the sleeper has to wake nevertheless.
 */
static void a_poll_by_another_thread_leaves_a_sleeper_wakeable(void **state)
{
    struct pair pair = {0};
    hg_handle_t handle;
    int round;

    (void) state;
    pair_open(&pair, NULL);
    handle = pair_create(&pair, RPC_NULL);
    assert_int_equal(pair_call(&pair, handle, NULL), HG_SUCCESS);
    for (round = 0; round < 5; round++) {
        struct sleeper sleeper = {.context = pair.target.context};
        struct timespec nap = {0, 50000000};
        struct outcome outcome = {0};
        pthread_t thread;
        int waited_ms;

        assert_int_equal(pthread_create(&thread, NULL, sleep_in_progress, &sleeper), 0);
        (void) nanosleep(&nap, NULL);
        assert_false(atomic_load(&sleeper.is_back));
        (void) HG_Progress(pair.target.context, 0);
        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
        for (waited_ms = 0; waited_ms < 5000 && !atomic_load(&sleeper.is_back); waited_ms += 50) {
            /* the transport may send the request later */
            (void) HG_Progress(pair.origin.context, 0);
            (void) nanosleep(&nap, NULL);
        }
        assert_true(atomic_load(&sleeper.is_back));
        (void) pthread_join(thread, NULL);
        assert_int_equal(sleeper.ret, HG_SUCCESS);
        pair_wait_for(&pair, &outcome.count, 1);
    }
    (void) HG_Destroy(handle);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_poll_by_another_thread_leaves_a_sleeper_wakeable),
        cmocka_unit_test(eight_threads_share_a_context),
        cmocka_unit_test(eight_threads_cancel_at_will),
        cmocka_unit_test(progress_and_trigger_on_different_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
