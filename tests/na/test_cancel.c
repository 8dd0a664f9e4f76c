/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The core's promises about an operation that is being cancelled, over the loop plugin, which is
 * built for minor TEST_PLUGIN_MINOR of the plugin ABI.
 */

#include "na/class.h"
#include "na_test.h"

#include <pthread.h>
#include <sched.h>

#define HAS_TRUSTED (TEST_PLUGIN_MINOR >= 2)

static struct loop loop;
static struct loop_control *control;
static na_op_id_t *op, *other;
static struct told told, other_told;
static char buf[8];

/* Set by the hooks. */
static unsigned int triggered;
static atomic_uint canceling, left;
static pthread_t canceller;

static int open_loop(void **state)
{
    (void) state;
    use_plugins("loop");
    loop_open(&loop, "loop+self");
    control =
        (struct loop_control *) (uintptr_t) loop.na_class->table.get_extension(LOOP_CONTROL_ID);
    assert_non_null(control);
    op = NA_Op_create(loop.na_class, NA_OP_SINGLE);
    other = NA_Op_create(loop.na_class, NA_OP_SINGLE);
    memset(&told, 0, sizeof(told));
    memset(&other_told, 0, sizeof(other_told));
    return 0;
}

static int close_loop(void **state)
{
    (void) state;
    control->hook = NULL;
    control->fail = NULL;
    NA_Op_destroy(loop.na_class, op);
    NA_Op_destroy(loop.na_class, other);
    loop_close(&loop);
    return 0;
}

static na_return_t receive(na_op_id_t *receive_op, na_tag_t tag)
{
    return NA_Msg_recv_expected(loop.na_class, loop.context, tell,
                                receive_op == op ? &told : &other_told, buf, sizeof(buf), NULL,
                                loop.self, 0, tag, receive_op);
}

static void a_plugin_that_has_it_is_called_by_cancel_trusted(void **state)
{
    const unsigned int before = atomic_load(&control->trusted);

    (void) state;
    assert_int_equal(receive(op, 1), NA_SUCCESS);
    assert_int_equal(receive(other, 1), NA_SUCCESS);
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, other), NA_SUCCESS);
    assert_int_equal(trigger_all(loop.context), 1);
    assert_int_equal(other_told.last.ret, NA_CANCELED);
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, other), NA_SUCCESS);
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, op), NA_SUCCESS);
    assert_int_equal(trigger_all(loop.context), 1);
    assert_int_equal(told.last.ret, NA_CANCELED);
    assert_int_equal(atomic_load(&control->trusted) - before, HAS_TRUSTED ? 2 : 0);
}

static void what_the_plugin_returns_is_passed_on(void **state)
{
    (void) state;
    assert_int_equal(receive(op, 1), NA_SUCCESS);
    control->fail = "cancel";
    control->fail_status = NA_PLUGIN_BUSY;
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, op), NA_BUSY);
    control->fail = NULL;
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, op), NA_SUCCESS);
    assert_int_equal(trigger_all(loop.context), 1);
}

/* Another thread completes the operation during its cancel, and tries to trigger its callback. */
static void *finish(void *arg)
{
    (void) NA_Poll(loop.na_class, loop.context, NULL);
    (void) NA_Trigger(loop.context, 10, &triggered);
    return arg;
}

static void finish_in_cancel(const char *function)
{
    pthread_t thread;

    if (strcmp(function, "cancel") != 0)
        return;
    control->hook = NULL;
    assert_int_equal(pthread_create(&thread, NULL, finish, NULL), 0);
    pthread_join(thread, NULL);
}

static void an_operation_is_called_back_after_cancel_returned(void **state)
{
    (void) state;
    assert_int_equal(receive(op, 1), NA_SUCCESS);
    assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, tell, &other_told, "x", 1,
                                          NULL, loop.self, 0, 1, other),
                     NA_SUCCESS);
    control->hook = finish_in_cancel;
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, op), NA_SUCCESS);
    assert_int_equal(triggered, HAS_TRUSTED ? 0 : 2);
    assert_int_equal(told.count, HAS_TRUSTED ? 0 : 1);
    assert_int_equal(trigger_all(loop.context), HAS_TRUSTED ? 2 : 0);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.last.ret, NA_SUCCESS);
}

static void *cancel_it(void *arg)
{
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, op), NA_SUCCESS);
    return arg;
}

/* The plugin refuses an operation while another thread cancels it. */
static void linger_in_cancel(const char *function)
{
    if (strcmp(function, "cancel") == 0) {
        atomic_store(&canceling, 1);
        for (int i = 0; i < 20000; i++)
            (void) sched_yield();
        atomic_store(&left, 1);
    } else if (strcmp(function, "msg_recv_expected") == 0 && atomic_load(&canceling) == 0) {
        assert_int_equal(pthread_create(&canceller, NULL, cancel_it, NULL), 0);
        while (atomic_load(&canceling) == 0)
            (void) sched_yield();
    }
}

static void a_refused_operation_is_given_back_after_cancel_returned(void **state)
{
    (void) state;
    control->hook = linger_in_cancel;
    control->fail = "msg_recv_expected";
    control->fail_status = NA_PLUGIN_AGAIN;
    assert_int_equal(receive(op, 1), NA_AGAIN);
    if (HAS_TRUSTED)
        assert_int_equal(atomic_load(&left), 1);
    pthread_join(canceller, NULL);
    assert_int_equal(trigger_all(loop.context), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_loop, close_loop)
    const struct CMUnitTest tests[] = {
        TEST(a_plugin_that_has_it_is_called_by_cancel_trusted),
        TEST(what_the_plugin_returns_is_passed_on),
        TEST(an_operation_is_called_back_after_cancel_returned),
        TEST(a_refused_operation_is_given_back_after_cancel_returned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
