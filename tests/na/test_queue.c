/* SPDX-License-Identifier: BSD-3-Clause */
/* The completion queue: order, count, and many threads at once. */

#include "na/class.h"
#include "na_test.h"
#include "util/mpsc_queue.h"

#include <pthread.h>
#include <sched.h>

#define PRODUCERS 4
#define CONSUMERS 3
#define EACH      20000

struct item {
    struct mpsc_node node;
    unsigned int producer, number;
};

static void one_producer_keeps_its_order(void **state)
{
    struct mpsc_queue queue;
    struct item items[10];

    (void) state;
    mpsc_queue_init(&queue);
    assert_true(mpsc_queue_is_empty(&queue));
    assert_null(mpsc_queue_pop(&queue));
    for (unsigned int round = 0; round < 3; round++) {
        for (unsigned int i = 0; i < 10; i++) {
            items[i].number = i;
            mpsc_queue_push(&queue, &items[i].node);
            assert_int_equal(mpsc_queue_count(&queue), i + 1);
        }
        for (unsigned int i = 0; i < 10; i++) {
            struct mpsc_node *node = mpsc_queue_pop(&queue);

            assert_ptr_equal(node, &items[i].node);
            assert_int_equal(mpsc_queue_count(&queue), 9 - i);
        }
        assert_true(mpsc_queue_is_empty(&queue));
        assert_null(mpsc_queue_pop(&queue));
    }
}

static void one_thread_keeps_the_order_without_exchanges(void **state)
{
    struct mpsc_queue queue;
    struct item items[10];

    (void) state;
    mpsc_queue_init(&queue);
    assert_null(mpsc_queue_pop_alone(&queue));
    /* After each push, the queue is emptied down to `left` nodes. */
    for (unsigned int left = 0; left < 5; left++) {
        unsigned int next = 0;

        for (unsigned int i = 0; i < 10; i++) {
            mpsc_queue_push_alone(&queue, &items[i].node);
            assert_false(mpsc_queue_is_empty(&queue));
            assert_int_equal(mpsc_queue_count(&queue), i + 1 - next);
            while (i + 1 - next > left)
                assert_ptr_equal(mpsc_queue_pop_alone(&queue), &items[next++].node);
        }
        while (next < 10)
            assert_ptr_equal(mpsc_queue_pop_alone(&queue), &items[next++].node);
        assert_true(mpsc_queue_is_empty(&queue));
        assert_null(mpsc_queue_pop_alone(&queue));
    }
    /* The functions for one thread and those for several may be mixed. */
    mpsc_queue_push_alone(&queue, &items[0].node);
    mpsc_queue_push(&queue, &items[1].node);
    assert_ptr_equal(mpsc_queue_pop(&queue), &items[0].node);
    assert_ptr_equal(mpsc_queue_pop_alone(&queue), &items[1].node);
    assert_true(mpsc_queue_is_empty(&queue));
}

static void a_node_may_be_pushed_again_as_soon_as_it_is_popped(void **state)
{
    struct mpsc_queue queue;
    struct item item = {.number = 0};

    (void) state;
    mpsc_queue_init(&queue);
    for (int i = 0; i < 1000; i++) {
        mpsc_queue_push(&queue, &item.node);
        assert_false(mpsc_queue_is_empty(&queue));
        assert_ptr_equal(mpsc_queue_pop(&queue), &item.node);
    }
}

struct race {
    struct mpsc_queue queue;
    struct item (*items)[EACH];
    atomic_uint popped, next_producer;
    atomic_uint last[PRODUCERS]; /* under the consumer's lock */
    atomic_uint disorder;
};

static void *produce(void *arg)
{
    struct race *race = arg;
    const unsigned int producer = atomic_fetch_add(&race->next_producer, 1);

    for (unsigned int i = 0; i < EACH; i++) {
        struct item *item = &race->items[producer][i];

        item->producer = producer;
        item->number = i + 1;
        mpsc_queue_push(&race->queue, &item->node);
    }
    return NULL;
}

static void *consume(void *arg)
{
    struct race *race = arg;

    while (atomic_load(&race->popped) < PRODUCERS * EACH) {
        struct mpsc_node *node = NULL;

        if (mpsc_queue_try_lock(&race->queue)) {
            node = mpsc_queue_pop(&race->queue);
            if (node != NULL) {
                struct item *item = util_container_of(node, struct item, node);

                if (atomic_exchange(&race->last[item->producer], item->number) + 1 != item->number)
                    atomic_fetch_add(&race->disorder, 1);
            }
            mpsc_queue_unlock(&race->queue);
        }
        if (node != NULL)
            atomic_fetch_add(&race->popped, 1);
        else
            sched_yield();
    }
    return NULL;
}

static void many_threads_lose_nothing_and_keep_the_order_of_each(void **state)
{
    struct race *race = aligned_alloc(64, (sizeof(*race) + 63) / 64 * 64);
    pthread_t threads[PRODUCERS + CONSUMERS];

    (void) state;
    assert_non_null(race);
    memset(race, 0, sizeof(*race));
    mpsc_queue_init(&race->queue);
    race->items = calloc(PRODUCERS, sizeof(*race->items));
    assert_non_null(race->items);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i < PRODUCERS ? produce : consume, race),
                         0);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        pthread_join(threads[i], NULL);
    assert_true(mpsc_queue_is_empty(&race->queue));
    assert_int_equal(atomic_load(&race->disorder), 0);
    for (int i = 0; i < PRODUCERS; i++)
        assert_int_equal(atomic_load(&race->last[i]), EACH);
    free(race->items);
    free(race);
}

/* Eight threads post, cancel, poll and trigger on one context. */
struct crowd {
    struct loop loop;
    atomic_uint callbacks, canceled, posted, running, waiting;
};

static void count_callback(const struct na_cb_info *info)
{
    struct crowd *crowd = info->arg;

    if (info->ret == NA_CANCELED)
        atomic_fetch_add(&crowd->canceled, 1);
    atomic_fetch_add(&crowd->callbacks, 1);
}

static void crowd_turn(struct crowd *crowd, na_op_id_t *op, int round)
{
    static _Thread_local char buf[8];
    na_return_t ret;

    if (round % 2 == 0) {
        ret = NA_Msg_send_expected(crowd->loop.na_class, crowd->loop.context, count_callback, crowd,
                                   "x", 1, NULL, crowd->loop.self, 0, 1, op);
    } else {
        ret = NA_Msg_recv_expected(crowd->loop.na_class, crowd->loop.context, count_callback, crowd,
                                   buf, sizeof(buf), NULL, crowd->loop.self, 0, 2, op);
        if (ret == NA_SUCCESS)
            (void) NA_Cancel(crowd->loop.na_class, crowd->loop.context, op);
    }
    if (ret == NA_SUCCESS)
        atomic_fetch_add(&crowd->posted, 1);
}

static void *mingle(void *arg)
{
    struct crowd *crowd = arg;
    na_op_id_t *ops[16];

    for (int i = 0; i < 16; i++)
        ops[i] = NA_Op_create(crowd->loop.na_class, NA_OP_SINGLE);
    for (int round = 0; round < 500; round++) {
        crowd_turn(crowd, ops[round % 16], round);
        (void) NA_Poll(crowd->loop.na_class, crowd->loop.context, NULL);
        (void) NA_Trigger(crowd->loop.context, 4, NULL);
        atomic_fetch_add(&crowd->waiting, NA_Context_get_completion_count(crowd->loop.context));
    }
    for (int i = 0; i < 16; i++)
        NA_Op_destroy(crowd->loop.na_class, ops[i]);
    atomic_fetch_sub(&crowd->running, 1);
    return NULL;
}

static void eight_threads_on_one_context_lose_no_callback(void **state)
{
    struct crowd crowd;
    pthread_t threads[8];

    (void) state;
    memset(&crowd, 0, sizeof(crowd));
    loop_open(&crowd.loop, "loop+self");
    atomic_store(&crowd.running, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, mingle, &crowd), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    while (atomic_load(&crowd.callbacks) < atomic_load(&crowd.posted))
        (void) poll_all(&crowd.loop);
    assert_int_equal(poll_all(&crowd.loop), 0);
    assert_int_equal(atomic_load(&crowd.callbacks), atomic_load(&crowd.posted));
    assert_true(atomic_load(&crowd.posted) > 500);
    assert_true(atomic_load(&crowd.canceled) > 0);
    loop_close(&crowd.loop);
}

/* Each thread repeatedly opens, uses and closes a context of its own. */
struct neighbour {
    na_class_t *na_class;
    na_addr_t *self;
    uint8_t id;
};

static void *live_beside_others(void *arg)
{
    const struct neighbour *neighbour = arg;
    char buf[8];

    for (int round = 0; round < 50; round++) {
        na_context_t *context = NA_Context_create_id(neighbour->na_class, neighbour->id);
        na_op_id_t *ops[4];

        for (int i = 0; i < 4; i++) {
            ops[i] = NA_Op_create(neighbour->na_class, NA_OP_SINGLE);
            (void) NA_Msg_recv_expected(neighbour->na_class, context, NULL, NULL, buf, sizeof(buf),
                                        NULL, neighbour->self, 0, (na_tag_t) i, ops[i]);
        }
        while (NA_Context_destroy(neighbour->na_class, context) == NA_BUSY)
            (void) NA_Trigger(context, 8, NULL);
        for (int i = 0; i < 4; i++)
            NA_Op_destroy(neighbour->na_class, ops[i]);
    }
    return NULL;
}

static void contexts_come_and_go_beside_each_other(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct neighbour neighbours[4];
    pthread_t threads[4];
    na_class_t *na_class;
    na_addr_t *self;

    (void) state;
    info.max_contexts = 4;
    na_class = NA_Initialize_opt2("loop+self", false, NA_VERSION(6, 0), &info);
    assert_non_null(na_class);
    assert_int_equal(NA_Addr_self(na_class, &self), NA_SUCCESS);
    for (uint8_t i = 0; i < 4; i++) {
        neighbours[i] = (struct neighbour){na_class, self, i};
        assert_int_equal(pthread_create(&threads[i], NULL, live_beside_others, &neighbours[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    NA_Addr_free(na_class, self);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

/* One thread polls and triggers while another one destroys operations right after it posts them. */
struct destruction {
    struct loop loop;
    atomic_bool done;
    atomic_uint callbacks;
};

static void count_destroyed(const struct na_cb_info *info)
{
    struct destruction *destruction = info->arg;

    atomic_fetch_add(&destruction->callbacks, 1);
}

static void *trigger_until_done(void *arg)
{
    struct destruction *destruction = arg;

    while (!atomic_load(&destruction->done)) {
        (void) NA_Poll(destruction->loop.na_class, destruction->loop.context, NULL);
        (void) NA_Trigger(destruction->loop.context, 4, NULL);
    }
    return NULL;
}

static void destroy_beside_trigger(uint8_t thread_mode, unsigned int threads)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct destruction destruction = {.done = false};
    struct loop *loop = &destruction.loop;
    const unsigned int rounds = 3000;
    struct loop_control *control;
    unsigned int before;
    pthread_t ids[2];
    char buf[8] = "";

    info.thread_mode = thread_mode;
    loop->na_class = NA_Initialize_opt2("loop+self", true, NA_VERSION(6, 0), &info);
    assert_non_null(loop->na_class);
    loop->context = NA_Context_create(loop->na_class);
    assert_int_equal(NA_Addr_self(loop->na_class, &loop->self), NA_SUCCESS);
    control =
        (struct loop_control *) (uintptr_t) loop->na_class->table.get_extension(LOOP_CONTROL_ID);
    before = atomic_load(&control->objects);
    for (unsigned int i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, trigger_until_done, &destruction), 0);
    for (unsigned int i = 0; i < rounds; i++) {
        na_op_id_t *op = NA_Op_create(loop->na_class, NA_OP_SINGLE);

        assert_int_equal(NA_Msg_send_expected(loop->na_class, loop->context, count_destroyed,
                                              &destruction, buf, sizeof(buf), NULL, loop->self, 0,
                                              1, op),
                         NA_SUCCESS);
        for (unsigned int spin = i % 64; spin > 0; spin--)
            util_cpu_relax();
        NA_Op_destroy(loop->na_class, op);
    }
    atomic_store(&destruction.done, true);
    for (unsigned int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    while (poll_all(loop) > 0)
        ;
    assert_int_equal(atomic_load(&destruction.callbacks), rounds);
    assert_int_equal(atomic_load(&control->objects), before); /* none is left for NA_Finalize() */
    loop_close(loop);
}

static void operations_destroyed_while_they_are_triggered_are_freed_once(void **state)
{
    (void) state;
    destroy_beside_trigger(0, 1);
    destroy_beside_trigger(0, 2);
    destroy_beside_trigger(NA_THREAD_MODE_SINGLE_CTX, 1);
}

/*
 * A class uses the functions for one thread only if the program promises a single thread and the
 * plugin has no threads.
 */
static void only_a_class_without_any_other_thread_is_alone(void **state)
{
    const uint8_t modes[] = {0, NA_THREAD_MODE_SINGLE_CTX, NA_THREAD_MODE_SINGLE_CLS,
                             NA_THREAD_MODE_SINGLE};

    (void) state;
    for (size_t i = 0; i < sizeof(modes); i++) {
        struct na_init_info info = NA_INIT_INFO_INITIALIZER;
        bool is_single = (modes[i] & NA_THREAD_MODE_SINGLE_CLS) != 0;
        na_class_t *na_class;

        info.thread_mode = modes[i];
        na_class = NA_Initialize_opt2("loop+self", true, NA_VERSION(6, 0), &info);
        assert_non_null(na_class);
        assert_int_equal(na_class->is_alone, is_single);
        assert_int_equal(NA_Class_has_capability(na_class, "no_threads"), is_single);
        assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    }
    destroy_beside_trigger(NA_THREAD_MODE_SINGLE, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_producer_keeps_its_order),
        cmocka_unit_test(one_thread_keeps_the_order_without_exchanges),
        cmocka_unit_test(a_node_may_be_pushed_again_as_soon_as_it_is_popped),
        cmocka_unit_test(many_threads_lose_nothing_and_keep_the_order_of_each),
        cmocka_unit_test(eight_threads_on_one_context_lose_no_callback),
        cmocka_unit_test(contexts_come_and_go_beside_each_other),
        cmocka_unit_test(operations_destroyed_while_they_are_triggered_are_freed_once),
        cmocka_unit_test(only_a_class_without_any_other_thread_is_alone),
    };

    NA_Set_log_level("none");
    use_plugins("loop");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
