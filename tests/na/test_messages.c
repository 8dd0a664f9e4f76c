/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and the states of operations, over the loop plugin. */

#include "na/class.h"
#include "na_test.h"

static struct loop loop;
static struct loop_control *control;

static int open_loop(void **state)
{
    (void) state;
    use_plugins("loop");
    loop_open(&loop, "loop+self");
    control =
        (struct loop_control *) (uintptr_t) loop.na_class->table.get_extension(LOOP_CONTROL_ID);
    assert_non_null(control);
    return 0;
}

/* All objects of the plugin have been freed. */
static int close_loop(void **state)
{
    (void) state;
    control->complete_twice = control->complete_now = control->hold = control->leave_on_stop = 0;
    control->lie_about_size = control->lie_no_source = control->refuse_after = 0;
    loop_close(&loop);
    assert_int_equal(atomic_load(&control->objects), 0);
    return 0;
}

static uint64_t counter(const char *name)
{
    struct na_counter counters[32];
    size_t count = 32;

    assert_int_equal(NA_Class_get_counters(loop.na_class, counters, &count), NA_SUCCESS);
    for (size_t i = 0; i < count; i++)
        if (strcmp(counters[i].name, name) == 0)
            return counters[i].value;
    fail_msg("no counter %s", name);
    return 0;
}

static void an_unexpected_message_arrives_with_its_sender_and_tag(void **state)
{
    na_op_id_t *send = NA_Op_create(loop.na_class, NA_OP_SINGLE);
    na_op_id_t *receive = NA_Op_create(loop.na_class, NA_OP_SINGLE);
    struct told sent = {0}, received = {0};
    void *data;
    char buf[64] = "";
    char *message = NA_Msg_buf_alloc(loop.na_class, 64, NA_SEND, &data);

    (void) state;
    assert_int_equal(NA_Msg_get_unexpected_header_size(loop.na_class), 4);
    assert_int_equal(NA_Msg_init_unexpected(loop.na_class, message, 64), NA_SUCCESS);
    memcpy(message + 4, "hello", 6);
    assert_int_equal(NA_Msg_recv_unexpected(loop.na_class, loop.context, tell, &received, buf,
                                            sizeof(buf), NULL, receive),
                     NA_SUCCESS);
    assert_int_equal(NA_Msg_send_unexpected(loop.na_class, loop.context, tell, &sent, message, 10,
                                            data, loop.self, 0, 42, send),
                     NA_SUCCESS);
    assert_int_equal(poll_all(&loop), 2);
    assert_int_equal(sent.count, 1);
    assert_int_equal(sent.last.type, NA_CB_SEND_UNEXPECTED);
    assert_int_equal(sent.last.ret, NA_SUCCESS);
    assert_int_equal(received.count, 1);
    assert_int_equal(received.last.type, NA_CB_RECV_UNEXPECTED);
    assert_int_equal(received.last.info.recv_unexpected.actual_buf_size, 10);
    assert_int_equal(received.last.info.recv_unexpected.tag, 42);
    assert_true(NA_Addr_is_self(loop.na_class, received.last.info.recv_unexpected.source));
    assert_string_equal(buf + 4, "hello");
    NA_Addr_free(loop.na_class, received.last.info.recv_unexpected.source);
    NA_Msg_buf_free(loop.na_class, message, data);
    NA_Op_destroy(loop.na_class, send);
    NA_Op_destroy(loop.na_class, receive);
}

static void an_expected_message_is_matched_by_tag(void **state)
{
    na_op_id_t *send = NA_Op_create(loop.na_class, NA_OP_SINGLE);
    na_op_id_t *receives[2];
    struct told sent = {0}, received[2] = {{0}, {0}};
    char buf[2][16] = {"", ""};

    (void) state;
    for (int i = 0; i < 2; i++) {
        receives[i] = NA_Op_create(loop.na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Msg_recv_expected(loop.na_class, loop.context, tell, &received[i],
                                              buf[i], 16, NULL, loop.self, 0, (na_tag_t) i + 1,
                                              receives[i]),
                         NA_SUCCESS);
    }
    assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, tell, &sent, "two", 4, NULL,
                                          loop.self, 0, 2, send),
                     NA_SUCCESS);
    assert_int_equal(poll_all(&loop), 2);
    assert_int_equal(received[0].count, 0);
    assert_int_equal(received[1].count, 1);
    assert_int_equal(received[1].last.info.recv_expected.actual_buf_size, 4);
    assert_string_equal(buf[1], "two");
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, receives[0]), NA_SUCCESS);
    assert_int_equal(trigger_all(loop.context), 1);
    assert_int_equal(received[0].last.ret, NA_CANCELED);
    NA_Op_destroy(loop.na_class, send);
    NA_Op_destroy(loop.na_class, receives[0]);
    NA_Op_destroy(loop.na_class, receives[1]);
}

static void a_message_longer_than_its_buffer_is_an_error_there(void **state)
{
    na_op_id_t *send = NA_Op_create(loop.na_class, 0), *receive = NA_Op_create(loop.na_class, 0);
    struct told sent = {0}, received = {0};
    char buf[8];

    (void) state;
    assert_int_equal(
        NA_Msg_recv_unexpected(loop.na_class, loop.context, tell, &received, buf, 8, NULL, receive),
        NA_SUCCESS);
    assert_int_equal(NA_Msg_send_unexpected(loop.na_class, loop.context, tell, &sent, "123456789",
                                            9, NULL, loop.self, 0, 0, send),
                     NA_SUCCESS);
    assert_int_equal(poll_all(&loop), 2);
    assert_int_equal(received.last.ret, NA_MSGSIZE);
    assert_null(received.last.info.recv_unexpected.source);
    NA_Op_destroy(loop.na_class, send);
    NA_Op_destroy(loop.na_class, receive);
}

static void wrong_arguments_are_refused_and_the_operation_stays_usable(void **state)
{
    na_op_id_t *op = NA_Op_create(loop.na_class, NA_OP_SINGLE);
    struct loop other;
    char buf[8] = "";
    static char big[8192];

    (void) state;
    loop_open(&other, "loop+self");
#define SEND(cls, ctx, b, size, addr, tag, o) \
    NA_Msg_send_unexpected(cls, ctx, NULL, NULL, b, size, NULL, addr, 0, tag, o)
    assert_int_equal(SEND(NULL, loop.context, buf, 8, loop.self, 0, op), NA_INVALID_ARG);
    assert_int_equal(SEND(loop.na_class, NULL, buf, 8, loop.self, 0, op), NA_INVALID_ARG);
    assert_int_equal(SEND(loop.na_class, loop.context, NULL, 8, loop.self, 0, op), NA_INVALID_ARG);
    assert_int_equal(SEND(loop.na_class, loop.context, buf, 8, NULL, 0, op), NA_INVALID_ARG);
    assert_int_equal(SEND(loop.na_class, loop.context, buf, 8, loop.self, 0, NULL), NA_INVALID_ARG);
    assert_int_equal(SEND(loop.na_class, other.context, buf, 8, loop.self, 0, op), NA_INVALID_ARG);
    assert_int_equal(SEND(other.na_class, other.context, buf, 8, loop.self, 0, op), NA_INVALID_ARG);
    assert_int_equal(SEND(loop.na_class, loop.context, big, 4097, loop.self, 0, op), NA_MSGSIZE);
    assert_int_equal(SEND(loop.na_class, loop.context, buf, 8, loop.self, 65536, op), NA_OVERFLOW);
    assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, tell, NULL, big, 2049, NULL,
                                          loop.self, 0, 0, op),
                     NA_MSGSIZE);
    assert_int_equal(
        NA_Msg_recv_unexpected(loop.na_class, loop.context, tell, NULL, NULL, 8, NULL, op),
        NA_INVALID_ARG);
    assert_int_equal(NA_Msg_recv_expected(loop.na_class, loop.context, tell, NULL, buf, 8, NULL,
                                          loop.self, 0, 70000, op),
                     NA_OVERFLOW);
    assert_int_equal(NA_Cancel(loop.na_class, other.context, op), NA_INVALID_ARG);
    assert_int_equal(NA_Cancel(other.na_class, other.context, op), NA_INVALID_ARG);
    assert_int_equal(NA_Trigger(NULL, 1, NULL), NA_INVALID_ARG);
    assert_int_equal(NA_Poll(loop.na_class, other.context, NULL), NA_INVALID_ARG);
    assert_int_equal(NA_Msg_init_unexpected(loop.na_class, buf, 3), NA_OVERFLOW);
    assert_int_equal(NA_Msg_init_unexpected(NULL, buf, 8), NA_INVALID_ARG);
    assert_null(NA_Op_create(loop.na_class, 2));
    assert_null(NA_Op_create(NULL, 0));
    assert_int_equal(SEND(loop.na_class, loop.context, buf, 8, loop.self, 0, op), NA_SUCCESS);
#undef SEND
    NA_Op_destroy(loop.na_class, op);
    loop_close(&other);
}

static void a_posted_operation_is_busy_until_its_callback(void **state)
{
    na_op_id_t *op = NA_Op_create(loop.na_class, 0);
    struct told told = {0};
    char buf[8];

    (void) state;
    assert_int_equal(
        NA_Msg_recv_unexpected(loop.na_class, loop.context, tell, &told, buf, 8, NULL, op),
        NA_SUCCESS);
    assert_int_equal(
        NA_Msg_recv_unexpected(loop.na_class, loop.context, tell, &told, buf, 8, NULL, op),
        NA_BUSY);
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, op), NA_SUCCESS);
    assert_int_equal(
        NA_Msg_recv_unexpected(loop.na_class, loop.context, tell, &told, buf, 8, NULL, op),
        NA_BUSY);
    assert_int_equal(NA_Context_get_completion_count(loop.context), 1);
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, op), NA_SUCCESS);
    assert_int_equal(trigger_all(loop.context), 1);
    assert_int_equal(NA_Context_get_completion_count(loop.context), 0);
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, op), NA_SUCCESS);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.last.ret, NA_CANCELED);
    NA_Op_destroy(loop.na_class, op);
}

struct repost {
    na_op_id_t *op;
    unsigned int left, done;
};

static void post_again(const struct na_cb_info *info)
{
    struct repost *repost = info->arg;

    repost->done++;
    if (repost->left-- > 0)
        assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, post_again, repost, "x",
                                              1, NULL, loop.self, 0, 0, repost->op),
                         NA_SUCCESS);
    else
        NA_Op_destroy(loop.na_class, repost->op);
}

static void a_callback_may_post_its_operation_again_and_destroy_it(void **state)
{
    struct repost repost = {NA_Op_create(loop.na_class, 0), 100, 0};

    (void) state;
    assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, post_again, &repost, "x", 1,
                                          NULL, loop.self, 0, 0, repost.op),
                     NA_SUCCESS);
    for (int i = 0; i < 101; i++)
        (void) poll_all(&loop);
    assert_int_equal(repost.done, 101);
}

static void an_operation_destroyed_while_outstanding_lives_until_its_callback(void **state)
{
    na_op_id_t *op = NA_Op_create(loop.na_class, 0);
    struct told told = {0};
    unsigned int before = atomic_load(&control->objects);
    char buf[8];

    (void) state;
    assert_int_equal(
        NA_Msg_recv_unexpected(loop.na_class, loop.context, tell, &told, buf, 8, NULL, op),
        NA_SUCCESS);
    NA_Op_destroy(loop.na_class, op);
    assert_int_equal(atomic_load(&control->objects), before);
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, op), NA_SUCCESS);
    assert_int_equal(trigger_all(loop.context), 1);
    assert_int_equal(told.count, 1);
    assert_int_equal(atomic_load(&control->objects), before - 1);
}

static void a_second_completion_is_caught_and_ignored(void **state)
{
    na_op_id_t *send = NA_Op_create(loop.na_class, 0), *receive = NA_Op_create(loop.na_class, 0);
    struct told sent = {0}, received = {0};
    uint64_t before = counter("na_plugin_wrong_completions");
    char buf[8];

    (void) state;
    control->complete_twice = 1;
    assert_int_equal(NA_Msg_recv_expected(loop.na_class, loop.context, tell, &received, buf, 8,
                                          NULL, loop.self, 0, 3, receive),
                     NA_SUCCESS);
    assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, tell, &sent, "x", 1, NULL,
                                          loop.self, 0, 3, send),
                     NA_SUCCESS);
    assert_int_equal(poll_all(&loop), 2);
    assert_int_equal(sent.count, 1);
    assert_int_equal(received.count, 1);
    assert_int_equal(poll_all(&loop), 0);
    assert_int_equal(counter("na_plugin_wrong_completions"), before + 2);
    NA_Op_destroy(loop.na_class, send);
    NA_Op_destroy(loop.na_class, receive);
}

static void a_completion_inside_of_the_post_is_delivered(void **state)
{
    na_op_id_t *op = NA_Op_create(loop.na_class, 0);
    struct told told = {0};

    (void) state;
    control->complete_now = 1;
    assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, tell, &told, "x", 1, NULL,
                                          loop.self, 0, 0, op),
                     NA_SUCCESS);
    assert_int_equal(told.count, 0);
    assert_int_equal(trigger_all(loop.context), 1);
    assert_int_equal(told.count, 1);

    /* The plugin completes the operation and then refuses it: the completion counts. */
    control->refuse_after = 1;
    assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, tell, &told, "x", 1, NULL,
                                          loop.self, 0, 0, op),
                     NA_SUCCESS);
    assert_int_equal(trigger_all(loop.context), 1);
    assert_int_equal(told.count, 2);
    NA_Op_destroy(loop.na_class, op);
}

static void what_a_plugin_reports_wrongly_becomes_an_error(void **state)
{
    na_op_id_t *send = NA_Op_create(loop.na_class, 0), *receive = NA_Op_create(loop.na_class, 0);
    struct told received;
    char buf[8];

    (void) state;
    for (int round = 0; round < 2; round++) {
        memset(&received, 0, sizeof(received));
        control->lie_no_source = round == 0;
        assert_int_equal(NA_Msg_recv_unexpected(loop.na_class, loop.context, tell, &received, buf,
                                                8, NULL, receive),
                         NA_SUCCESS);
        control->lie_about_size = round == 1;
        if (round == 1) {
            /*
             * The core would not free the sender of an unexpected message here, so that an expected
             * one is used.
             */
            assert_int_equal(NA_Cancel(loop.na_class, loop.context, receive), NA_SUCCESS);
            (void) trigger_all(loop.context);
            assert_int_equal(NA_Msg_recv_expected(loop.na_class, loop.context, tell, &received, buf,
                                                  8, NULL, loop.self, 0, 5, receive),
                             NA_SUCCESS);
            assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, NULL, NULL, "x", 1,
                                                  NULL, loop.self, 0, 5, send),
                             NA_SUCCESS);
        } else {
            assert_int_equal(NA_Msg_send_unexpected(loop.na_class, loop.context, NULL, NULL, "x", 1,
                                                    NULL, loop.self, 0, 5, send),
                             NA_SUCCESS);
        }
        assert_int_equal(poll_all(&loop), 2);
        assert_int_equal(received.last.ret, NA_PROTOCOL_ERROR);
        assert_null(received.last.info.recv_unexpected.source);
    }
    NA_Op_destroy(loop.na_class, send);
    NA_Op_destroy(loop.na_class, receive);
}

static void a_refused_post_has_no_callback_and_leaves_the_operation_idle(void **state)
{
    na_op_id_t *op = NA_Op_create(loop.na_class, 0);
    struct told told = {0};

    (void) state;
    control->fail_status = NA_AGAIN;
    control->fail = "msg_send_expected";
    for (int i = 0; i < 3; i++)
        assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, tell, &told, "x", 1,
                                              NULL, loop.self, 0, 0, op),
                         NA_AGAIN);
    control->fail_status = 12345;
    assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, tell, &told, "x", 1, NULL,
                                          loop.self, 0, 0, op),
                     NA_FAULT);
    control->fail = NULL;
    assert_int_equal(counter("na_refused"), 4);
    assert_int_equal(counter("na_refused_again"), 3);
    assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, tell, &told, "x", 1, NULL,
                                          loop.self, 0, 0, op),
                     NA_SUCCESS);
    assert_int_equal(poll_all(&loop), 1);
    assert_int_equal(told.count, 1);
    NA_Op_destroy(loop.na_class, op);
}

/* A receive whose callback posts it again, whatever the result. */
struct again {
    struct told told;
    na_class_t *na_class;
    na_context_t *context;
    na_op_id_t *op;
    na_return_t ret;
    na_return_t destroy_ret;
    char buf[8];
};

static void receive_again(const struct na_cb_info *info)
{
    struct again *again = info->arg;

    again->told.count++;
    again->told.last = *info;
    again->ret = NA_Msg_recv_unexpected(again->na_class, again->context, receive_again, again,
                                        again->buf, sizeof(again->buf), NULL, again->op);
    again->destroy_ret = NA_Context_destroy(again->na_class, again->context);
}

static void destroying_a_context_cancels_what_is_posted(void **state)
{
    na_class_t *na_class = NA_Initialize("loop+self", false);
    na_op_id_t *op = NA_Op_create(na_class, 0), *forgotten = NA_Op_create(na_class, 0);
    na_context_t *context = NA_Context_create(na_class);
    struct again again = {.na_class = na_class, .context = context, .op = op};

    (void) state;
    assert_non_null(forgotten);
    assert_int_equal(NA_Finalize(na_class), NA_BUSY);
    assert_int_equal(NA_Msg_recv_unexpected(na_class, context, receive_again, &again, again.buf,
                                            sizeof(again.buf), NULL, op),
                     NA_SUCCESS);
    assert_int_equal(NA_Context_destroy(na_class, context), NA_SUCCESS);
    assert_int_equal(again.told.count, 1);
    assert_int_equal(again.told.last.ret, NA_CANCELED);
    assert_int_equal(again.ret, NA_FAULT);
    assert_int_equal(again.destroy_ret, NA_BUSY);
    NA_Op_destroy(na_class, op);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS); /* frees the forgotten one */
}

static void a_context_with_completions_is_busy_and_goes_on(void **state)
{
    na_class_t *na_class = NA_Initialize("loop+self", false);
    na_context_t *context = NA_Context_create(na_class);
    na_op_id_t *op = NA_Op_create(na_class, 0);
    struct told told = {0};
    char buf[8];

    (void) state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(NA_Msg_recv_unexpected(na_class, context, tell, &told, buf, 8, NULL, op),
                         NA_SUCCESS);
        assert_int_equal(NA_Cancel(na_class, context, op), NA_SUCCESS);
        while (NA_Context_get_completion_count(context) == 0)
            (void) NA_Poll(na_class, context, NULL);
        assert_int_equal(NA_Context_destroy(na_class, context), NA_BUSY);
        assert_int_equal(trigger_all(context), 1);
    }
    assert_int_equal(told.count, 2);
    assert_int_equal(NA_Context_destroy(na_class, context), NA_SUCCESS);
    NA_Op_destroy(na_class, op);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

static void operations_that_a_plugin_leaves_behind_are_canceled_by_the_core(void **state)
{
    na_class_t *na_class = NA_Initialize("loop+self", false);
    na_context_t *context = NA_Context_create(na_class);
    na_op_id_t *op = NA_Op_create(na_class, 0);
    struct told told = {0};
    char buf[8];

    (void) state;
    control->leave_on_stop = 1;
    assert_int_equal(NA_Msg_recv_unexpected(na_class, context, tell, &told, buf, 8, NULL, op),
                     NA_SUCCESS);
    assert_int_equal(NA_Context_destroy(na_class, context), NA_SUCCESS);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.last.ret, NA_CANCELED);
    NA_Op_destroy(na_class, op);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

struct events {
    unsigned int count, last;
    size_t bytes;
    na_return_t ret;
};

static void count_event(const struct na_cb_info *info)
{
    struct events *events = info->arg;

    assert_int_equal(info->type, NA_CB_MULTI_RECV_UNEXPECTED);
    events->count++;
    events->bytes += info->info.multi_recv_unexpected.actual_buf_size;
    events->last += info->info.multi_recv_unexpected.last;
    events->ret = info->ret;
    if (info->ret == NA_SUCCESS) {
        assert_memory_equal(info->info.multi_recv_unexpected.actual_buf, "12345678", 8);
        NA_Addr_free(loop.na_class, info->info.multi_recv_unexpected.source);
    }
}

static void a_multi_receive_has_an_event_for_each_message_and_one_is_the_last(void **state)
{
    na_op_id_t *multi = NA_Op_create(loop.na_class, NA_OP_MULTI);
    na_op_id_t *single = NA_Op_create(loop.na_class, NA_OP_SINGLE);
    na_op_id_t *send = NA_Op_create(loop.na_class, NA_OP_SINGLE);
    struct events events = {0};
    static char buf[4096 + 8 * 200];

    (void) state;
    assert_true(NA_Has_opt_feature(loop.na_class, NA_OPT_MULTI_RECV));
    assert_false(NA_Has_opt_feature(loop.na_class, NA_OPT_MULTI_RECV | NA_OPT_FIREWALL_ADDR));
    assert_int_equal(NA_Msg_multi_recv_unexpected(loop.na_class, loop.context, count_event, &events,
                                                  buf, sizeof(buf), NULL, single),
                     NA_INVALID_ARG);
    assert_int_equal(NA_Msg_multi_recv_unexpected(loop.na_class, loop.context, count_event, &events,
                                                  buf, sizeof(buf), NULL, multi),
                     NA_SUCCESS);
    for (int i = 0; i < 201; i++) {
        assert_int_equal(NA_Msg_send_unexpected(loop.na_class, loop.context, NULL, NULL, "12345678",
                                                8, NULL, loop.self, 0, 0, send),
                         NA_SUCCESS);
        assert_int_equal(NA_Poll(loop.na_class, loop.context, NULL), NA_SUCCESS);
        assert_int_equal(NA_Context_get_completion_count(loop.context), 2);
        if (i == 100) /* events may pile up as well */
            assert_int_equal(NA_Msg_multi_recv_unexpected(loop.na_class, loop.context, count_event,
                                                          &events, buf, sizeof(buf), NULL, multi),
                             NA_BUSY);
        assert_int_equal(trigger_all(loop.context), 2);
    }
    assert_int_equal(events.count, 201);
    assert_int_equal(events.last, 1);
    assert_int_equal(events.bytes, 201 * 8);

    memset(&events, 0, sizeof(events));
    assert_int_equal(NA_Msg_multi_recv_unexpected(loop.na_class, loop.context, count_event, &events,
                                                  buf, sizeof(buf), NULL, multi),
                     NA_SUCCESS);
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, multi), NA_SUCCESS);
    assert_int_equal(trigger_all(loop.context), 1);
    assert_int_equal(events.last, 1);
    assert_int_equal(events.ret, NA_CANCELED);
    NA_Op_destroy(loop.na_class, multi);
    NA_Op_destroy(loop.na_class, single);
    NA_Op_destroy(loop.na_class, send);
}

static void events_of_a_multi_receive_pile_up_beyond_the_pool(void **state)
{
    na_op_id_t *multi = NA_Op_create(loop.na_class, NA_OP_MULTI);
    na_op_id_t *sends[200];
    struct events events = {0};
    static char buf[4096 + 8 * 300];

    (void) state;
    assert_int_equal(NA_Msg_multi_recv_unexpected(loop.na_class, loop.context, count_event, &events,
                                                  buf, sizeof(buf), NULL, multi),
                     NA_SUCCESS);
    for (int i = 0; i < 200; i++) {
        sends[i] = NA_Op_create(loop.na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Msg_send_unexpected(loop.na_class, loop.context, NULL, NULL, "12345678",
                                                8, NULL, loop.self, 0, 0, sends[i]),
                         NA_SUCCESS);
    }
    assert_int_equal(NA_Poll(loop.na_class, loop.context, NULL), NA_SUCCESS);
    assert_int_equal(NA_Context_get_completion_count(loop.context), 400);
    assert_int_equal(trigger_all(loop.context), 400);
    assert_int_equal(events.count, 200);
    assert_int_equal(events.last, 0);
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, multi), NA_SUCCESS);
    assert_int_equal(trigger_all(loop.context), 1);
    for (int i = 0; i < 200; i++)
        NA_Op_destroy(loop.na_class, sends[i]);
    NA_Op_destroy(loop.na_class, multi);
}

static void held_sends_are_canceled(void **state)
{
    na_op_id_t *op = NA_Op_create(loop.na_class, 0);
    struct told told = {0};

    (void) state;
    control->hold = 1;
    assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, tell, &told, "x", 1, NULL,
                                          loop.self, 0, 0, op),
                     NA_SUCCESS);
    assert_int_equal(poll_all(&loop), 0);
    assert_int_equal(NA_Cancel(loop.na_class, loop.context, op), NA_SUCCESS);
    assert_int_equal(trigger_all(loop.context), 1);
    assert_int_equal(told.last.ret, NA_CANCELED);
    assert_int_equal(counter("na_canceled"), 1);
    NA_Op_destroy(loop.na_class, op);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_loop, close_loop)
    const struct CMUnitTest tests[] = {
        TEST(an_unexpected_message_arrives_with_its_sender_and_tag),
        TEST(an_expected_message_is_matched_by_tag),
        TEST(a_message_longer_than_its_buffer_is_an_error_there),
        TEST(wrong_arguments_are_refused_and_the_operation_stays_usable),
        TEST(a_posted_operation_is_busy_until_its_callback),
        TEST(a_callback_may_post_its_operation_again_and_destroy_it),
        TEST(an_operation_destroyed_while_outstanding_lives_until_its_callback),
        TEST(a_second_completion_is_caught_and_ignored),
        TEST(a_completion_inside_of_the_post_is_delivered),
        TEST(what_a_plugin_reports_wrongly_becomes_an_error),
        TEST(a_refused_post_has_no_callback_and_leaves_the_operation_idle),
        TEST(destroying_a_context_cancels_what_is_posted),
        TEST(a_context_with_completions_is_busy_and_goes_on),
        TEST(operations_that_a_plugin_leaves_behind_are_canceled_by_the_core),
        TEST(a_multi_receive_has_an_event_for_each_message_and_one_is_the_last),
        TEST(events_of_a_multi_receive_pile_up_beyond_the_pool),
        TEST(held_sends_are_canceled),
    };
#undef TEST

    NA_Set_log_level("none");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
