/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault plugin around test plugins of the core that lack extensions or a descriptor to wait
 * on. */

#include "fault_test.h"

#define MESSAGE 64u

struct bare {
    struct end end;
    na_addr_t *self;
    char *send_buf, *recv_buf;
    size_t header;
};

/* What the callback of a multi-receive got. */
struct multi {
    na_class_t *na_class;
    unsigned int events, last;
    size_t size;
    void *buf;
};

static void bare_open(struct bare *bare, const char *init)
{
    char path[512];

    (void) snprintf(path, sizeof(path), "%s/loop:<default>", TEST_PLUGIN_DIR);
    assert_int_equal(setenv("NA_PLUGIN_PATH", path, 1), 0);
    bare->end.na_class = NA_Initialize(init, true);
    assert_non_null(bare->end.na_class);
    bare->end.context = NA_Context_create(bare->end.na_class);
    assert_non_null(bare->end.context);
    assert_int_equal(NA_Addr_self(bare->end.na_class, &bare->self), NA_SUCCESS);
    bare->header = NA_Msg_get_unexpected_header_size(bare->end.na_class);
    bare->send_buf = calloc(1, MESSAGE);
    bare->recv_buf = calloc(1, NA_Msg_get_max_unexpected_size(bare->end.na_class));
    assert_int_equal(NA_Msg_init_unexpected(bare->end.na_class, bare->send_buf, MESSAGE),
                     NA_SUCCESS);
}

static void bare_close(struct bare *bare)
{
    free(bare->send_buf);
    free(bare->recv_buf);
    NA_Addr_free(bare->end.na_class, bare->self);
    end_close(&bare->end);
}

static void bare_exchange(struct bare *bare)
{
    na_op_id_t *send = NA_Op_create(bare->end.na_class, NA_OP_SINGLE);
    na_op_id_t *receive = NA_Op_create(bare->end.na_class, NA_OP_SINGLE);
    struct event sent = {0}, received = {0};

    (void) strcpy(bare->send_buf + bare->header, "hello");
    assert_int_equal(end_receive_unexpected(&bare->end, &received, bare->recv_buf,
                                            NA_Msg_get_max_unexpected_size(bare->end.na_class),
                                            receive),
                     NA_SUCCESS);
    assert_int_equal(NA_Msg_send_unexpected(bare->end.na_class, bare->end.context, event_callback,
                                            &sent, bare->send_buf, MESSAGE, NULL, bare->self, 0, 9,
                                            send),
                     NA_SUCCESS);
    assert_true(event_wait(&bare->end, &sent, TEST_WAIT_MS));
    assert_true(event_wait(&bare->end, &received, TEST_WAIT_MS));
    assert_int_equal(sent.ret, NA_SUCCESS);
    assert_int_equal(received.ret, NA_SUCCESS);
    assert_string_equal(bare->recv_buf + bare->header, "hello");
    NA_Addr_free(bare->end.na_class, received.source);
    NA_Op_destroy(bare->end.na_class, send);
    NA_Op_destroy(bare->end.na_class, receive);
}

/* The wrapped plugins: one with a wait function, one with a descriptor, one with neither. */
static void messages_pass_whatever_the_wrapped_plugin_lacks(void **state)
{
    static const char *const strings[] = {
        "fault+loop+self",     "fault+loop+self://?delay_us=2000",
        "fault+loopfd+self",   "fault+loopfd+self://?delay_us=2000",
        "fault+loopbare+self", "fault+loopbare+self://?delay_us=2000&cancel_fails=1&die_after=9",
    };

    (void) state;
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        struct bare bare;

        bare_open(&bare, strings[i]);
        for (int j = 0; j < 3; j++)
            bare_exchange(&bare);
        bare_close(&bare);
    }
}

static void note_event(const struct na_cb_info *info)
{
    struct multi *multi = info->arg;

    multi->events++;
    if (info->ret != NA_SUCCESS)
        return;
    multi->last += info->info.multi_recv_unexpected.last;
    multi->size = info->info.multi_recv_unexpected.actual_buf_size;
    multi->buf = info->info.multi_recv_unexpected.actual_buf;
    NA_Addr_free(multi->na_class, info->info.multi_recv_unexpected.source);
}

/* Where the wrapped plugin has no multi-receive, a multi-receive ends with its first message. */
static void multi_receives_work_everywhere(void **state)
{
    struct multi multi = {0};
    struct event sent = {0};
    struct bare bare;
    na_op_id_t *send, *receive;

    (void) state;
    bare_open(&bare, "fault+loopbare+self");
    multi.na_class = bare.end.na_class;
    assert_true(NA_Has_opt_feature(bare.end.na_class, NA_OPT_MULTI_RECV));
    send = NA_Op_create(bare.end.na_class, NA_OP_SINGLE);
    receive = NA_Op_create(bare.end.na_class, NA_OP_MULTI);
    assert_int_equal(NA_Msg_multi_recv_unexpected(
                         bare.end.na_class, bare.end.context, note_event, &multi, bare.recv_buf,
                         NA_Msg_get_max_unexpected_size(bare.end.na_class), NULL, receive),
                     NA_SUCCESS);
    assert_int_equal(NA_Msg_send_unexpected(bare.end.na_class, bare.end.context, event_callback,
                                            &sent, bare.send_buf, MESSAGE, NULL, bare.self, 0, 9,
                                            send),
                     NA_SUCCESS);
    assert_true(event_wait(&bare.end, &sent, TEST_WAIT_MS));
    for (uint64_t until = now_ms() + TEST_WAIT_MS; multi.events == 0 && now_ms() < until;)
        end_progress(&bare.end, 0);
    assert_int_equal(multi.events, 1);
    assert_int_equal(multi.last, 1);
    assert_int_equal(multi.size, MESSAGE);
    assert_ptr_equal(multi.buf, bare.recv_buf);
    NA_Op_destroy(bare.end.na_class, send);
    NA_Op_destroy(bare.end.na_class, receive);
    bare_close(&bare);
}

static void addresses_travel_as_strings(void **state)
{
    struct bare bare;
    na_addr_t *copy;
    char bytes[256];
    size_t size;

    (void) state;
    bare_open(&bare, "fault+loopbare+self");
    size = NA_Addr_get_serialize_size(bare.end.na_class, bare.self);
    assert_in_range(size, 1, sizeof(bytes));
    assert_int_equal(NA_Addr_serialize(bare.end.na_class, bytes, sizeof(bytes), bare.self),
                     NA_SUCCESS);
    assert_int_equal(NA_Addr_deserialize(bare.end.na_class, &copy, bytes, size, 0), NA_SUCCESS);
    assert_true(NA_Addr_cmp(bare.end.na_class, bare.self, copy));
    NA_Addr_free(bare.end.na_class, copy);
    assert_int_not_equal(NA_Addr_deserialize(bare.end.na_class, &copy, bytes, size - 1, 0),
                         NA_SUCCESS);
    bare_close(&bare);
}

/* As many segments as the wrapped class allows, and one segment where it allows no more. */
static void segments_are_those_of_the_wrapped_plugin(void **state)
{
    char first[8] = "segments", second[4] = "join";
    struct na_segment segments[] = {{second, sizeof(second)}, {first, sizeof(first)}};
    na_mem_handle_t *handle = NULL;
    struct bare bare;

    (void) state;
    bare_open(&bare, "fault+loopbare+self");
    assert_int_equal(NA_Mem_handle_get_max_segments(bare.end.na_class), 1);
    assert_int_equal(
        NA_Mem_handle_create_segments(bare.end.na_class, segments, 2, NA_MEM_READWRITE, &handle),
        NA_OPNOTSUPPORTED);
    bare_close(&bare);

    bare_open(&bare, "fault+fault+loop+self");
    assert_int_equal(NA_Mem_handle_get_max_segments(bare.end.na_class), 4);
    assert_int_equal(
        NA_Mem_handle_create_segments(bare.end.na_class, segments, 2, NA_MEM_READWRITE, &handle),
        NA_SUCCESS);
    NA_Mem_handle_free(bare.end.na_class, handle);
    bare_close(&bare);
}

static void refusals_of_the_wrapped_plugin_are_passed_on(void **state)
{
    (void) state;
    (void) setenv("NA_PLUGIN_PATH", TEST_PLUGIN_DIR "/loop:<default>", 1);
    check_refused("fault+loop+self://bad", NA_INVALID_ARG, "opening it failed");
    check_refused("fault+loop+self://bad?drop=0.1", NA_INVALID_ARG, "opening it failed");
    check_refused("fault+loop+absent", NA_NODEV, "there is no such device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_pass_whatever_the_wrapped_plugin_lacks),
        cmocka_unit_test(multi_receives_work_everywhere),
        cmocka_unit_test(addresses_travel_as_strings),
        cmocka_unit_test(segments_are_those_of_the_wrapped_plugin),
        cmocka_unit_test(refusals_of_the_wrapped_plugin_are_passed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
