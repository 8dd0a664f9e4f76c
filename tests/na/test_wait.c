/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting by the plugin's own wait function, by its descriptor, and with neither. */

#include "na/class.h"
#include "na_test.h"

#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static const char *const inits[] = {"loop+self", "loopfd+self", "loopbare+self"};

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static struct loop_control *control_of(const struct loop *loop)
{
    return (struct loop_control *) (uintptr_t) loop->na_class->table.get_extension(LOOP_CONTROL_ID);
}

static void nothing_is_a_timeout_after_the_time(void **state)
{
    (void) state;
    for (size_t i = 0; i < 3; i++) {
        struct loop loop;
        unsigned int count = 77;
        double begin;

        loop_open(&loop, inits[i]);
        assert_int_equal(NA_Progress(loop.na_class, loop.context, 0), NA_TIMEOUT);
        begin = seconds();
        assert_int_equal(NA_Poll_wait(loop.na_class, loop.context, 30, &count), NA_TIMEOUT);
        assert_true(seconds() - begin >= 0.029);
        assert_true(seconds() - begin < 5);
        assert_int_equal(count, 0);
        loop_close(&loop);
    }
}

struct sender {
    struct loop *loop;
    na_op_id_t *op;
    unsigned int hold;
};

static void *send_later(void *arg)
{
    struct sender *sender = arg;

    usleep(20000);
    assert_int_equal(NA_Msg_send_expected(sender->loop->na_class, sender->loop->context, NULL, NULL,
                                          "x", 1, NULL, sender->loop->self, 0, 0, sender->op),
                     NA_SUCCESS);
    return NULL;
}

static void what_another_thread_starts_ends_the_wait(void **state)
{
    (void) state;
    for (size_t i = 0; i < 3; i++) {
        struct loop loop;
        struct sender sender = {&loop, NULL, 0};
        unsigned int count = 0;
        pthread_t thread;
        double begin;

        loop_open(&loop, inits[i]);
        sender.op = NA_Op_create(loop.na_class, NA_OP_SINGLE);
        assert_int_equal(pthread_create(&thread, NULL, send_later, &sender), 0);
        begin = seconds();
        assert_int_equal(NA_Poll_wait(loop.na_class, loop.context, 10000, &count), NA_SUCCESS);
        assert_true(seconds() - begin < 5);
        assert_int_equal(count, 1);
        pthread_join(thread, NULL);
        assert_int_equal(trigger_all(loop.context), 1);
        NA_Op_destroy(loop.na_class, sender.op);
        loop_close(&loop);
    }
}

/*
 * The completion does not pass through the plugin's queues, so that only the core can wake the
 * thread.
 */
static void what_completes_inside_of_a_post_wakes_the_waiter(void **state)
{
    (void) state;
    for (size_t i = 0; i < 2; i++) {
        struct loop loop;
        struct sender sender = {&loop, NULL, 0};
        unsigned int count = 0;
        pthread_t thread;
        double begin;

        loop_open(&loop, inits[i]);
        control_of(&loop)->complete_now = 1;
        sender.op = NA_Op_create(loop.na_class, NA_OP_SINGLE);
        assert_int_equal(pthread_create(&thread, NULL, send_later, &sender), 0);
        begin = seconds();
        assert_int_equal(NA_Poll_wait(loop.na_class, loop.context, 10000, &count), NA_SUCCESS);
        assert_true(seconds() - begin < 5);
        assert_int_equal(count, 1);
        pthread_join(thread, NULL);
        assert_int_equal(trigger_all(loop.context), 1);
        control_of(&loop)->complete_now = 0;
        NA_Op_destroy(loop.na_class, sender.op);
        loop_close(&loop);
    }
}

static void completions_that_wait_end_the_wait_at_once(void **state)
{
    struct loop loop;
    na_op_id_t *op;

    (void) state;
    loop_open(&loop, "loop+self");
    control_of(&loop)->complete_now = 1;
    op = NA_Op_create(loop.na_class, NA_OP_SINGLE);
    assert_true(NA_Poll_try_wait(loop.na_class, loop.context));
    assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, NULL, NULL, "x", 1, NULL,
                                          loop.self, 0, 0, op),
                     NA_SUCCESS);
    assert_false(NA_Poll_try_wait(loop.na_class, loop.context));
    assert_int_equal(NA_Progress(loop.na_class, loop.context, NA_MAX_IDLE_TIME), NA_SUCCESS);
    assert_int_equal(trigger_all(loop.context), 1);
    control_of(&loop)->complete_now = 0;
    NA_Op_destroy(loop.na_class, op);
    loop_close(&loop);
}

static void the_descriptor_is_readable_when_there_is_something_to_poll_for(void **state)
{
    struct loop loop;
    struct pollfd fd = {.events = POLLIN};
    na_op_id_t *op;

    (void) state;
    loop_open(&loop, "loopfd+self");
    fd.fd = NA_Poll_get_fd(loop.na_class, loop.context);
    assert_true(fd.fd >= 0);
    assert_true(NA_Poll_try_wait(loop.na_class, loop.context));
    assert_int_equal(poll(&fd, 1, 0), 0);
    op = NA_Op_create(loop.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, NULL, NULL, "x", 1, NULL,
                                          loop.self, 0, 0, op),
                     NA_SUCCESS);
    assert_false(NA_Poll_try_wait(loop.na_class, loop.context));
    assert_int_equal(poll(&fd, 1, 1000), 1);
    assert_int_equal(poll_all(&loop), 1);
    NA_Op_destroy(loop.na_class, op);
    loop_close(&loop);
    loop_open(&loop, "loop+self");
    assert_int_equal(NA_Poll_get_fd(loop.na_class, loop.context), -1);
    loop_close(&loop);
}

static void busy_mode_never_sleeps_and_has_no_descriptor(void **state)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;
    na_context_t *context;

    (void) state;
    info.progress_mode = NA_NO_BLOCK;
    na_class = NA_Initialize_opt2("loopfd+self", false, NA_VERSION(6, 0), &info);
    context = NA_Context_create(na_class);
    assert_int_equal(NA_Poll_get_fd(na_class, context), -1);
    assert_false(NA_Poll_try_wait(na_class, context));
    assert_int_equal(NA_Poll_wait(na_class, context, 5, NULL), NA_TIMEOUT);
    assert_int_equal(NA_Context_destroy(na_class, context), NA_SUCCESS);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

static void a_plugin_that_cannot_wait_fails_the_wait_only(void **state)
{
    struct loop loop;

    (void) state;
    loop_open(&loop, "loop+self");
    control_of(&loop)->fail = "poll_wait";
    control_of(&loop)->fail_status = NA_IO_ERROR;
    assert_int_equal(NA_Poll_wait(loop.na_class, loop.context, 1000, NULL), NA_IO_ERROR);
    control_of(&loop)->fail = NULL;
    assert_int_equal(NA_Poll_wait(loop.na_class, loop.context, 1, NULL), NA_TIMEOUT);
    loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_a_timeout_after_the_time),
        cmocka_unit_test(what_another_thread_starts_ends_the_wait),
        cmocka_unit_test(what_completes_inside_of_a_post_wakes_the_waiter),
        cmocka_unit_test(completions_that_wait_end_the_wait_at_once),
        cmocka_unit_test(the_descriptor_is_readable_when_there_is_something_to_poll_for),
        cmocka_unit_test(busy_mode_never_sleeps_and_has_no_descriptor),
        cmocka_unit_test(a_plugin_that_cannot_wait_fails_the_wait_only),
    };

    NA_Set_log_level("none");
    use_plugins("loop");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
