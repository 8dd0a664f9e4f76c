/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Classes and contexts: options, ids, objects that prevent their destruction, waiting and waking.
 */
#include "hg_fixture.h"

#include "na_ext.h"

#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static void init_finalize_init_works(void **state)
{
    int i;

    (void) state;
    for (i = 0; i < 5; i++) {
        struct pair pair = {0};

        pair_open(&pair, NULL);
        pair_echo(&pair, 10);
        pair_close(&pair);
    }
}

static void class_tells_what_it_is(void **state)
{
    hg_class_t *hg_class = HG_Init(test_init_string(), HG_TRUE);

    (void) state;
    assert_non_null(hg_class);
    assert_true(HG_Class_is_listening(hg_class));
    assert_non_null(HG_Class_get_name(hg_class));
    assert_non_null(HG_Class_get_protocol(hg_class));
    assert_true(HG_Class_get_input_eager_size(hg_class) > 100);
    assert_true(HG_Class_get_output_eager_size(hg_class) > 100);
    assert_non_null(HG_Class_get_na(hg_class));
    assert_null(HG_Class_get_name(NULL));
    assert_false(HG_Class_is_listening(NULL));
    assert_int_equal(HG_Class_get_input_eager_size(NULL), 0);
    assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);
    assert_int_equal(HG_Finalize(NULL), HG_SUCCESS);
}

static void wrong_options_are_refused(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    (void) state;
    assert_null(HG_Init(NULL, HG_FALSE));
    assert_null(HG_Init("no such transport", HG_FALSE));
    info.checksum_level = (hg_checksum_level_t) 17;
    assert_null(HG_Init_opt2(test_init_string(), HG_FALSE, HG_VERSION(2, 4), &info));
    info = HG_INIT_INFO_INITIALIZER;
    info.request_post_init = UINT32_MAX;
    assert_null(HG_Init_opt2(test_init_string(), HG_FALSE, HG_VERSION(2, 4), &info));
    info = HG_INIT_INFO_INITIALIZER;
    info.multi_recv_op_max = 2;
    info.multi_recv_copy_threshold = 3;
    assert_null(HG_Init_opt2(test_init_string(), HG_FALSE, HG_VERSION(2, 4), &info));
}

static void fields_of_later_versions_are_not_read(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_class_t *hg_class;

    (void) state;
    info.traffic_class = (enum na_traffic_class) 99;
    assert_null(HG_Init_opt2(test_init_string(), HG_FALSE, HG_VERSION(2, 4), &info));
    hg_class = HG_Init_opt2(test_init_string(), HG_FALSE, HG_VERSION(2, 3), &info);
    assert_non_null(hg_class);
    assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);
    hg_class = HG_Init_opt(test_init_string(), HG_FALSE, &info);
    assert_non_null(hg_class);
    assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);
}

static void class_over_an_open_na_class_leaves_it_open(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    na_class_t *na_class = NA_Initialize(test_init_string(), true);
    hg_class_t *hg_class;

    (void) state;
    assert_non_null(na_class);
    info.na_class = na_class;
    hg_class = HG_Init_opt2(NULL, HG_FALSE, HG_VERSION(2, 4), &info);
    assert_non_null(hg_class);
    assert_ptr_equal(HG_Class_get_na(hg_class), na_class);
    assert_true(HG_Class_is_listening(hg_class));
    assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

static void count_frees(void *data)
{
    ++*(int *) data;
}

static void data_of_class_and_context_is_freed(void **state)
{
    hg_class_t *hg_class = HG_Init(test_init_string(), HG_FALSE);
    hg_context_t *context = HG_Context_create(hg_class);
    int of_class = 0, of_context = 0;

    (void) state;
    assert_non_null(context);
    assert_ptr_equal(HG_Context_get_class(context), hg_class);
    assert_null(HG_Class_get_data(hg_class));
    assert_int_equal(HG_Class_set_data(hg_class, &of_class, count_frees), HG_SUCCESS);
    assert_int_equal(HG_Context_set_data(context, &of_context, count_frees), HG_SUCCESS);
    assert_ptr_equal(HG_Class_get_data(hg_class), &of_class);
    assert_ptr_equal(HG_Context_get_data(context), &of_context);
    assert_int_equal(HG_Context_destroy(context), HG_SUCCESS);
    assert_int_equal(of_context, 1);
    assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);
    assert_int_equal(of_class, 1);
}

static hg_return_t count_handles(hg_handle_t handle, void *arg)
{
    int *count = arg;

    return ++*count > 1000 ? HG_NOMEM : HG_Set_data(handle, count, NULL);
}

static void handle_create_callback_sees_every_handle(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};
    hg_handle_t handle;
    int count = 0;

    (void) state;
    info.request_post_init = 32;
    pair.origin.hg_class = HG_Init_opt2(test_init_string(), HG_TRUE, HG_VERSION(2, 4), &info);
    assert_non_null(pair.origin.hg_class);
    assert_int_equal(
        HG_Class_set_handle_create_callback(pair.origin.hg_class, count_handles, &count),
        HG_SUCCESS);
    side_register(&pair.origin);
    pair.origin.context = HG_Context_create(pair.origin.hg_class);
    assert_non_null(pair.origin.context);
    assert_int_equal(count, 32);
    side_open(&pair.target, NULL);
    pair.addr = side_lookup(&pair.origin, &pair.target);
    handle = pair_create(&pair, RPC_NULL);
    assert_int_equal(count, 33);
    assert_ptr_equal(HG_Get_data(handle), &count);
    (void) HG_Destroy(handle);
    count = 1000;
    assert_int_equal(HG_Create(pair.origin.context, pair.addr, RPC_NULL, &handle), HG_NOMEM);
    count = 0;
    pair_close(&pair);
}

static void class_in_use_is_not_closed(void **state)
{
    hg_class_t *hg_class = HG_Init(test_init_string(), HG_FALSE);
    hg_context_t *context = HG_Context_create(hg_class);
    hg_addr_t self;

    (void) state;
    assert_int_equal(HG_Finalize(hg_class), HG_BUSY);
    assert_int_equal(HG_Addr_self(hg_class, &self), HG_SUCCESS);
    assert_int_equal(HG_Context_destroy(context), HG_SUCCESS);
    assert_int_equal(HG_Finalize(hg_class), HG_BUSY);
    assert_int_equal(HG_Addr_free(hg_class, self), HG_SUCCESS);
    assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);
}

static void context_in_use_is_not_destroyed(void **state)
{
    struct pair pair = {0};
    struct outcome outcome = {0};
    hg_handle_t handle;
    struct blob in;

    (void) state;
    pair_open(&pair, NULL);
    handle = pair_create(&pair, RPC_HOLD);
    blob_make(&in, 4, 0);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    pair_wait_held(&pair, &pair.target, 1);
    assert_int_equal(HG_Context_destroy(pair.origin.context), HG_BUSY);
    assert_int_equal(HG_Context_destroy(pair.target.context), HG_BUSY);
    side_respond_held(&pair.target, &in);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    (void) HG_Destroy(handle);
    free(in.data);
    pair_close(&pair);
}

static void context_that_is_not_destroyed_goes_on_receiving(void **state)
{
    struct pair pair = {0};
    struct outcome outcome = {0};
    hg_handle_t handle, second;
    struct blob in;

    (void) state;
    pair_open(&pair, NULL);
    handle = pair_create(&pair, RPC_HOLD);
    blob_make(&in, 4, 0);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    pair_wait_held(&pair, &pair.target, 1);
    assert_int_equal(HG_Context_destroy(pair.target.context), HG_BUSY);
    pair_echo(&pair, 10);

    /* A context that the program has unposted stays unposted. */
    assert_int_equal(HG_Context_unpost(pair.target.context), HG_SUCCESS);
    assert_int_equal(HG_Context_destroy(pair.target.context), HG_BUSY);
    second = pair_create(&pair, RPC_NULL);
    assert_int_equal(HG_Forward(second, outcome_set, &outcome, NULL), HG_SUCCESS);
    pair_run(&pair, 20);
    assert_int_equal(outcome.count, 0);
    assert_int_equal(HG_Cancel(second), HG_SUCCESS);
    pair_wait_for(&pair, &outcome.count, 1);
    side_respond_held(&pair.target, &in);
    pair_wait_for(&pair, &outcome.count, 2);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    (void) HG_Destroy(handle);
    (void) HG_Destroy(second);
    free(in.data);
    pair_close(&pair);
}

static void destroying_a_context_calls_back_what_is_complete(void **state)
{
    struct side side = {0};
    struct outcome outcome = {0};
    hg_handle_t handle;
    hg_addr_t self;

    (void) state;
    side_open(&side, NULL);
    assert_int_equal(HG_Addr_self(side.hg_class, &self), HG_SUCCESS);
    assert_int_equal(HG_Create(side.context, self, RPC_NULL, &handle), HG_SUCCESS);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(side.hg_class, self), HG_SUCCESS);
    assert_int_equal(HG_Context_destroy(side.context), HG_SUCCESS);
    assert_int_equal(outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    assert_int_equal(HG_Finalize(side.hg_class), HG_SUCCESS);
}

static void unposted_context_receives_nothing(void **state)
{
    struct pair pair = {0};
    struct outcome outcome = {0};
    hg_handle_t handle;

    (void) state;
    pair_open(&pair, NULL);
    /* UCX 1.13 may abort a process that closes its class before its connection is made. */
    pair_echo(&pair, 16);
    assert_int_equal(HG_Context_unpost(pair.target.context), HG_SUCCESS);
    handle = pair_create(&pair, RPC_NULL);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
    pair_run(&pair, 30);
    assert_int_equal(outcome.count, 0);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_CANCELED);
    (void) HG_Destroy(handle);
    pair_close(&pair);
}

static void contexts_with_ids_receive_what_is_for_them(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};
    struct side second = {0};
    hg_handle_t handle;
    struct outcome outcome = {0};
    int i;

    (void) state;
    info.na_init_info.max_contexts = 3;
    pair_open(&pair, &info);
    second.hg_class = pair.target.hg_class;
    second.context = HG_Context_create_id(second.hg_class, 2);
    assert_non_null(second.context);
    assert_int_equal(HG_Context_get_id(second.context), 2);
    assert_null(HG_Context_create_id(second.hg_class, 2));
    assert_null(HG_Context_create_id(second.hg_class, 3));
    handle = pair_create(&pair, RPC_NULL);
    assert_int_equal(HG_Set_target_id(handle, 2), HG_SUCCESS);
    assert_int_equal(HG_Get_info(handle)->context_id, 2);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
    pair_run(&pair, 20);
    assert_int_equal(pair.target.handled, 0);
    for (i = 0; i < 100000 && atomic_load(&outcome.count) == 0; i++) {
        side_progress(&second);
        side_progress(&pair.origin);
    }
    assert_int_equal(outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    assert_int_equal(pair.target.handled, 1);
    (void) HG_Destroy(handle);
    side_progress(&second);
    assert_int_equal(HG_Context_destroy(second.context), HG_SUCCESS);
    pair_close(&pair);
}

static void contexts_without_ids_take_the_lowest_free_one(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_context_t *contexts[3];
    hg_class_t *hg_class;
    uint8_t i;

    (void) state;
    info.na_init_info.max_contexts = 3;
    hg_class = HG_Init_opt2(test_init_string(), HG_FALSE, HG_VERSION(2, 4), &info);
    assert_non_null(hg_class);
    for (i = 0; i < 3; i++) {
        contexts[i] = HG_Context_create(hg_class);
        assert_non_null(contexts[i]);
        assert_int_equal(HG_Context_get_id(contexts[i]), i);
    }
    assert_null(HG_Context_create(hg_class));
    assert_int_equal(HG_Context_destroy(contexts[1]), HG_SUCCESS);
    contexts[1] = HG_Context_create(hg_class);
    assert_non_null(contexts[1]);
    assert_int_equal(HG_Context_get_id(contexts[1]), 1);
    for (i = 0; i < 3; i++)
        assert_int_equal(HG_Context_destroy(contexts[i]), HG_SUCCESS);
    assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);
}

/* The log line has to name the option to change: by default a class has one context. */
static void refused_context_says_max_contexts(void **state)
{
    hg_class_t *hg_class = HG_Init(test_init_string(), HG_FALSE);
    hg_context_t *context = HG_Context_create(hg_class);
    FILE *log = tmpfile();
    char text[1000] = "";

    (void) state;
    assert_non_null(context);
    assert_non_null(log);
    HG_Set_log_stream("error", log);
    assert_null(HG_Context_create(hg_class));
    HG_Set_log_stream("error", NULL);
    rewind(log);
    assert_true(fread(text, 1, sizeof(text) - 1, log) > 0);
    (void) fclose(log);
    assert_non_null(strstr(text, "max_contexts 1"));
    assert_int_equal(HG_Context_destroy(context), HG_SUCCESS);
    assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);
}

static void origin_contexts_get_their_own_responses(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0}, second;
    int i;

    (void) state;
    info.na_init_info.max_contexts = 2;
    pair_open(&pair, &info);
    second = pair;
    second.origin.context = HG_Context_create_id(pair.origin.hg_class, 1);
    assert_non_null(second.origin.context);
    for (i = 0; i < 20; i++) {
        pair_echo(&second, 100);
        pair_echo(&second, pair_large(&second));
        pair_echo(&pair, 100);
    }
    {
        hg_handle_t handle = pair_create(&second, RPC_NULL);

        second.target.context_id = 99;
        assert_int_equal(pair_call(&second, handle, NULL), HG_SUCCESS);
        assert_int_equal(pair.target.context_id, 1);
        (void) HG_Destroy(handle);
    }
    pair_run(&second, 5);
    assert_int_equal(HG_Context_destroy(second.origin.context), HG_SUCCESS);
    pair_close(&pair);
}

static void progress_and_trigger_keep_to_their_time(void **state)
{
    struct side side = {0};
    unsigned int count = 99;
    uint64_t start;

    (void) state;
    side_open(&side, NULL);
    assert_int_equal(HG_Progress(side.context, 0), HG_TIMEOUT);
    assert_int_equal(HG_Trigger(side.context, 0, 1, &count), HG_TIMEOUT);
    assert_int_equal(count, 0);
    start = now_ms();
    assert_int_equal(HG_Progress(side.context, 100), HG_TIMEOUT);
    assert_true(now_ms() - start >= 99);
    start = now_ms();
    assert_int_equal(HG_Trigger(side.context, 100, 1, &count), HG_TIMEOUT);
    assert_true(now_ms() - start >= 99);
    assert_int_equal(HG_Progress(NULL, 0), HG_INVALID_ARG);
    assert_int_equal(HG_Trigger(NULL, 0, 1, &count), HG_INVALID_ARG);
    side_close(&side);
}

static void idle_waiting_uses_no_processor_time(void **state)
{
    struct side side = {0};
    struct timespec before, after;
    double cpu_ms;

    (void) state;
    side_open(&side, NULL);
    (void) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    assert_int_equal(HG_Progress(side.context, 500), HG_TIMEOUT);
    (void) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    cpu_ms = (double) (after.tv_sec - before.tv_sec) * 1e3 +
             (double) (after.tv_nsec - before.tv_nsec) * 1e-6;
    assert_true(cpu_ms < 100); /* generous: sanitizers, loaded machines */
    side_close(&side);
}

static void busy_class_works_without_a_descriptor(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct pair pair = {0};

    (void) state;
    info.na_init_info.progress_mode = NA_NO_BLOCK;
    pair_open(&pair, &info);
    assert_int_equal(HG_Event_get_wait_fd(pair.origin.context), -1);
    assert_true(HG_Event_ready(pair.origin.context));
    pair_echo(&pair, 50);
    assert_int_equal(HG_Progress(pair.origin.context, 20), HG_TIMEOUT);
    pair_close(&pair);
}

static void *serve(void *arg)
{
    struct side *side = arg;

    while (atomic_load(&side->responded) >= 0) {
        unsigned int count;

        (void) HG_Progress(side->context, 50);
        while (HG_Trigger(side->context, 0, 1, &count) == HG_SUCCESS && count > 0)
            ;
    }
    return NULL;
}

/*
 * An event loop as a program would write it: poll() on the descriptor, then progress and trigger.
 */
static void wait_descriptor_tells_of_responses(void **state)
{
    struct pair pair = {0};
    pthread_t thread;
    hg_handle_t handle;
    int fd, i;

    (void) state;
    pair_open(&pair, NULL);
    fd = HG_Event_get_wait_fd(pair.origin.context);
    if (fd < 0) {
        pair_close(&pair);
        test_skip("this transport has no descriptor to wait on");
    }
    assert_int_equal(pthread_create(&thread, NULL, serve, &pair.target), 0);
    handle = pair_create(&pair, RPC_NULL);
    for (i = 0; i < 300; i++) {
        struct outcome outcome = {0};

        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, NULL), HG_SUCCESS);
        while (atomic_load(&outcome.count) == 0) {
            struct pollfd event = {.fd = fd, .events = POLLIN};
            unsigned int count = 0;

            if (!HG_Event_ready(pair.origin.context))
                assert_int_equal(poll(&event, 1, WAIT_MS), 1);
            assert_int_equal(HG_Event_progress(pair.origin.context, &count), HG_SUCCESS);
            if (count > 0)
                assert_int_equal(HG_Event_trigger(pair.origin.context, 10, &count), HG_SUCCESS);
        }
        assert_int_equal(outcome.ret, HG_SUCCESS);
    }
    atomic_store(&pair.target.responded, -1000000);
    (void) pthread_join(thread, NULL);
    (void) HG_Destroy(handle);
    pair_close(&pair);
}

static void *push_lookup(void *arg)
{
    struct pair *pair = arg;

    (void) usleep(50000);
    assert_int_equal(HG_Addr_lookup1(pair->origin.context, outcome_set, pair->target.held[0],
                                     "no such address", HG_OP_ID_IGNORE),
                     HG_SUCCESS);
    return NULL;
}

/*
 * A completion pushed by another thread wakes each of the three ways to wait: progress, trigger and
 * poll() on the descriptor.
 */
static void sleepers_are_woken_by_other_threads(void **state)
{
    struct pair pair = {0};
    struct outcome outcome = {0};
    struct pollfd event = {.events = POLLIN};
    unsigned int count = 0;
    uint64_t start = now_ms();
    pthread_t thread;

    (void) state;
    pair_open(&pair, NULL);
    pair.target.held[0] = (void *) &outcome;
    assert_int_equal(pthread_create(&thread, NULL, push_lookup, &pair), 0);
    assert_int_equal(HG_Progress(pair.origin.context, WAIT_MS), HG_SUCCESS);
    (void) pthread_join(thread, NULL);
    assert_int_equal(HG_Trigger(pair.origin.context, 0, 1, &count), HG_SUCCESS);

    assert_int_equal(pthread_create(&thread, NULL, push_lookup, &pair), 0);
    assert_int_equal(HG_Trigger(pair.origin.context, WAIT_MS, 1, &count), HG_SUCCESS);
    (void) pthread_join(thread, NULL);

    event.fd = HG_Event_get_wait_fd(pair.origin.context);
    if (event.fd < 0) {
        pair_close(&pair);
        test_skip("this transport has no descriptor; the other two ways work");
    }
    assert_false(HG_Event_ready(pair.origin.context));
    assert_int_equal(pthread_create(&thread, NULL, push_lookup, &pair), 0);
    assert_int_equal(poll(&event, 1, WAIT_MS), 1);
    (void) pthread_join(thread, NULL);
    assert_true(HG_Event_ready(pair.origin.context));
    assert_int_equal(HG_Event_trigger(pair.origin.context, 10, &count), HG_SUCCESS);
    assert_int_equal(count, 1);
    assert_int_equal(outcome.count, 3);
    assert_int_equal(outcome.type, HG_CB_LOOKUP);
    assert_int_not_equal(outcome.ret, HG_SUCCESS);
    assert_true(now_ms() - start < WAIT_MS / 2);
    pair_close(&pair);
}

static void addresses_compare_and_print(void **state)
{
    struct pair pair = {0};
    hg_addr_t self, copy, other;
    hg_size_t size = 0, needed;
    char name[512];

    (void) state;
    pair_open(&pair, NULL);
    assert_int_equal(HG_Addr_self(pair.target.hg_class, &self), HG_SUCCESS);
    assert_int_equal(HG_Addr_to_string(pair.target.hg_class, NULL, &size, self), HG_SUCCESS);
    needed = size;
    size = needed - 1;
    assert_int_equal(HG_Addr_to_string(pair.target.hg_class, name, &size, self), HG_OVERFLOW);
    assert_int_equal(size, needed);
    assert_int_equal(HG_Addr_to_string(pair.target.hg_class, name, &size, self), HG_SUCCESS);
    assert_int_equal(strlen(name) + 1, needed);
    assert_int_equal(HG_Addr_lookup2(pair.origin.hg_class, name, &other), HG_SUCCESS);
    assert_int_equal(HG_Addr_cmp(pair.origin.hg_class, other, pair.addr), HG_TRUE);
    assert_int_equal(HG_Addr_dup(pair.origin.hg_class, other, &copy), HG_SUCCESS);
    assert_int_equal(HG_Addr_cmp(pair.origin.hg_class, other, copy), HG_TRUE);
    assert_int_equal(HG_Addr_cmp(pair.origin.hg_class, other, HG_ADDR_NULL), HG_FALSE);
    assert_int_equal(HG_Addr_free(pair.origin.hg_class, copy), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(pair.target.hg_class, other), HG_INVALID_ARG);
    assert_int_equal(HG_Addr_set_remove(pair.origin.hg_class, other), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(pair.origin.hg_class, other), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(pair.target.hg_class, self), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(pair.target.hg_class, HG_ADDR_NULL), HG_SUCCESS);
    assert_int_not_equal(HG_Addr_lookup2(pair.origin.hg_class, "", &other), HG_SUCCESS);
    assert_int_equal(HG_Addr_lookup2(pair.origin.hg_class, NULL, &other), HG_INVALID_ARG);
    pair_close(&pair);
}

static void codes_have_names(void **state)
{
    unsigned int major, minor, patch;

    (void) state;
    assert_string_equal(HG_Error_to_string(HG_SUCCESS), "HG_SUCCESS");
    assert_string_equal(HG_Error_to_string(HG_CANCELED), "HG_CANCELED");
    assert_string_equal(HG_Error_to_string(HG_OTHER_ERROR), "HG_OTHER_ERROR");
    assert_string_equal(HG_Error_to_string((hg_return_t) 4711), "HG_UNKNOWN_ERROR");
    assert_int_equal(HG_Version_get(&major, &minor, &patch), HG_SUCCESS);
    assert_int_equal(HG_VERSION(major, minor), HG_VERSION(2, 4));
}

struct lost {
    const struct pair *pair;
    atomic_int count;
    hg_return_t reason;
    char address[256];
};

static void take_lost(hg_class_t *hg_class, hg_addr_t addr, hg_return_t reason, void *arg)
{
    struct lost *lost = arg;
    hg_size_t size = sizeof(lost->address);

    assert_ptr_equal(hg_class, lost->pair->origin.hg_class);
    assert_true(HG_Addr_cmp(hg_class, addr, lost->pair->addr));
    assert_int_equal(HG_Addr_to_string(hg_class, lost->address, &size, addr), HG_SUCCESS);
    lost->reason = reason;
    atomic_fetch_add(&lost->count, 1);
}

/* The loss of a peer is reported even if no RPC to it is pending. */
static void a_peer_that_closes_is_told_of(void **state)
{
    struct pair pair = {0};
    struct lost lost = {.pair = &pair};
    char address[sizeof(lost.address)];
    hg_size_t size = sizeof(address);
    hg_return_t ret;

    (void) state;
    assert_int_equal(HG_Class_set_peer_lost_callback(NULL, take_lost, &lost), HG_INVALID_ARG);
    pair_open(&pair, NULL);
    ret = HG_Class_set_peer_lost_callback(pair.origin.hg_class, take_lost, &lost);
    if (!NA_Class_has_capability(HG_Class_get_na(pair.origin.hg_class), "peer_events")) {
        assert_int_equal(ret, HG_OPNOTSUPPORTED);
        pair_close(&pair);
        return;
    }
    assert_int_equal(ret, HG_SUCCESS);
    pair_echo(&pair, 100);
    assert_int_equal(HG_Addr_to_string(pair.origin.hg_class, address, &size, pair.addr),
                     HG_SUCCESS);
    pair_run(&pair, 5);
    assert_int_equal(atomic_load(&lost.count), 0);
    side_close(&pair.target);
    for (uint64_t end = now_ms() + WAIT_MS; atomic_load(&lost.count) == 0 && now_ms() < end;)
        side_progress(&pair.origin);
    assert_int_equal(atomic_load(&lost.count), 1);
    assert_int_equal(lost.reason, HG_HOSTUNREACH);
    assert_string_equal(lost.address, address);
    assert_int_equal(HG_Addr_free(pair.origin.hg_class, pair.addr), HG_SUCCESS);
    side_close(&pair.origin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_finalize_init_works),
        cmocka_unit_test(class_tells_what_it_is),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(fields_of_later_versions_are_not_read),
        cmocka_unit_test(class_over_an_open_na_class_leaves_it_open),
        cmocka_unit_test(data_of_class_and_context_is_freed),
        cmocka_unit_test(handle_create_callback_sees_every_handle),
        cmocka_unit_test(class_in_use_is_not_closed),
        cmocka_unit_test(context_in_use_is_not_destroyed),
        cmocka_unit_test(context_that_is_not_destroyed_goes_on_receiving),
        cmocka_unit_test(destroying_a_context_calls_back_what_is_complete),
        cmocka_unit_test(unposted_context_receives_nothing),
        cmocka_unit_test(contexts_with_ids_receive_what_is_for_them),
        cmocka_unit_test(contexts_without_ids_take_the_lowest_free_one),
        cmocka_unit_test(refused_context_says_max_contexts),
        cmocka_unit_test(origin_contexts_get_their_own_responses),
        cmocka_unit_test(progress_and_trigger_keep_to_their_time),
        cmocka_unit_test(idle_waiting_uses_no_processor_time),
        cmocka_unit_test(busy_class_works_without_a_descriptor),
        cmocka_unit_test(wait_descriptor_tells_of_responses),
        cmocka_unit_test(sleepers_are_woken_by_other_threads),
        cmocka_unit_test(a_peer_that_closes_is_told_of),
        cmocka_unit_test(addresses_compare_and_print),
        cmocka_unit_test(codes_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
