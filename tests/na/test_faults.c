/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each function of the plugin fails in turn, with several codes. The caller gets the code, nothing
 * leaks, and everything works once the fault is gone.
 */

#include "na/class.h"
#include "na_test.h"

static struct loop_control *control;

static na_class_t *receiver;

/* The callback owns the reference to the sender's address. */
static void free_source(const struct na_cb_info *info)
{
    NA_Addr_free(receiver, info->info.recv_unexpected.source);
}

/* All objects of a run; they are freed whatever fails. */
struct run {
    na_class_t *na_class;
    na_context_t *context;
    na_op_id_t *ops[3];
    na_addr_t *self, *copy, *found, *read;
    na_mem_handle_t *local, *target, *remote;
    char buf[64], there[64], bytes[1024];
};

static na_return_t open_all(struct run *run)
{
    na_return_t ret = NA_Initialize_reason("loop+self", true, 0, NULL, &run->na_class, NULL, 0);

    if (ret != NA_SUCCESS)
        return ret;
    receiver = run->na_class;
    run->context = NA_Context_create(run->na_class);
    for (int i = 0; i < 3 && run->context != NULL; i++)
        run->ops[i] = NA_Op_create(run->na_class, i == 2 ? NA_OP_MULTI : NA_OP_SINGLE);
    return run->ops[2] != NULL ? NA_SUCCESS : NA_FAULT;
}

static na_return_t use_addresses(struct run *run)
{
    size_t size = sizeof(run->bytes);
    na_return_t ret = NA_Addr_self(run->na_class, &run->self);

    if (ret == NA_SUCCESS)
        ret = NA_Addr_dup(run->na_class, run->self, &run->copy);
    if (ret == NA_SUCCESS)
        ret = NA_Addr_to_string(run->na_class, run->bytes, &size, run->self);
    if (ret == NA_SUCCESS)
        ret = NA_Addr_lookup(run->na_class, run->bytes, &run->found);
    if (ret == NA_SUCCESS)
        ret = NA_Addr_set_remove(run->na_class, run->found);
    if (ret == NA_SUCCESS)
        ret = NA_Addr_serialize(run->na_class, run->bytes, sizeof(run->bytes), run->self);
    if (ret == NA_SUCCESS)
        ret = NA_Addr_deserialize(run->na_class, &run->read, run->bytes, 4, 0);
    return ret;
}

static na_return_t use_messages(struct run *run)
{
    na_class_t *na_class = run->na_class;
    na_context_t *context = run->context;
    na_return_t ret = NA_Msg_init_unexpected(na_class, run->buf, sizeof(run->buf));

    if (ret == NA_SUCCESS)
        ret = NA_Msg_recv_unexpected(na_class, context, free_source, NULL, run->there, 64, NULL,
                                     run->ops[0]);
    if (ret == NA_SUCCESS)
        ret = NA_Msg_send_unexpected(na_class, context, NULL, NULL, run->buf, 8, NULL, run->self, 0,
                                     0, run->ops[1]);
    if (ret == NA_SUCCESS)
        ret = NA_Poll(na_class, context, NULL);
    (void) trigger_all(context);
    if (ret == NA_SUCCESS)
        ret = NA_Msg_recv_expected(na_class, context, NULL, NULL, run->there, 64, NULL, run->self,
                                   0, 0, run->ops[0]);
    if (ret == NA_SUCCESS)
        ret = NA_Msg_send_expected(na_class, context, NULL, NULL, run->buf, 8, NULL, run->self, 0,
                                   0, run->ops[1]);
    if (ret == NA_SUCCESS)
        ret = NA_Poll_wait(na_class, context, 10, NULL);
    (void) trigger_all(context);
    if (ret == NA_SUCCESS)
        ret = NA_Msg_multi_recv_unexpected(na_class, context, NULL, NULL, run->bytes, 1024, NULL,
                                           run->ops[2]);
    if (ret == NA_SUCCESS)
        ret = NA_Cancel(na_class, context, run->ops[2]);
    return ret;
}

static na_return_t use_memory(struct run *run)
{
    struct na_segment segments[2] = {{run->there, 32}, {run->there + 32, 32}};
    na_class_t *na_class = run->na_class;
    na_return_t ret = NA_Mem_handle_create(na_class, run->buf, 64, NA_MEM_READWRITE, &run->local);

    if (ret == NA_SUCCESS)
        ret = NA_Mem_handle_create_segments(na_class, segments, 2, NA_MEM_READWRITE, &run->target);
    if (ret == NA_SUCCESS)
        ret = NA_Mem_register(na_class, run->local, NA_MEM_TYPE_HOST, 0);
    if (ret == NA_SUCCESS)
        ret = NA_Mem_register(na_class, run->target, NA_MEM_TYPE_HOST, 0);
    if (ret == NA_SUCCESS)
        ret = NA_Mem_handle_serialize(na_class, run->bytes, sizeof(run->bytes), run->target);
    if (ret == NA_SUCCESS)
        ret = NA_Mem_handle_deserialize(na_class, &run->remote, run->bytes,
                                        NA_Mem_handle_get_serialize_size(na_class, run->target));
    if (ret == NA_SUCCESS)
        ret = NA_Put(na_class, run->context, NULL, NULL, run->local, 0, run->remote, 0, 64,
                     run->self, 0, run->ops[0]);
    if (ret == NA_SUCCESS)
        ret = NA_Get(na_class, run->context, NULL, NULL, run->local, 0, run->remote, 0, 64,
                     run->self, 0, run->ops[1]);
    if (ret == NA_SUCCESS)
        ret = NA_Poll(na_class, run->context, NULL);
    if (ret == NA_SUCCESS)
        ret = NA_Mem_deregister(na_class, run->local);
    return ret;
}

static na_return_t close_all(struct run *run)
{
    na_class_t *na_class = run->na_class;

    NA_Mem_handle_free(na_class, run->remote);
    NA_Mem_handle_free(na_class, run->target);
    NA_Mem_handle_free(na_class, run->local);
    NA_Addr_free(na_class, run->read);
    NA_Addr_free(na_class, run->found);
    NA_Addr_free(na_class, run->copy);
    NA_Addr_free(na_class, run->self);
    while (NA_Context_destroy(na_class, run->context) == NA_BUSY)
        (void) trigger_all(run->context);
    for (int i = 0; i < 3; i++)
        NA_Op_destroy(na_class, run->ops[i]);
    return NA_Finalize(na_class);
}

/* Uses each function once; returns the first error and frees everything. */
static na_return_t use_everything(void)
{
    struct run run;
    na_return_t ret, ret_close;

    memset(&run, 0, sizeof(run));
    ret = open_all(&run);
    if (ret == NA_SUCCESS)
        ret = use_addresses(&run);
    if (ret == NA_SUCCESS)
        ret = use_messages(&run);
    if (ret == NA_SUCCESS)
        ret = use_memory(&run);
    ret_close = close_all(&run);
    return ret != NA_SUCCESS ? ret : ret_close;
}

static const char *const functions[] = {
    "enumerate",
    "initialize",
    "initialize_partly",
    "context_create",
    "op_initialize",
    "addr_self",
    "addr_dup",
    "addr_to_string",
    "addr_lookup",
    "addr_set_remove",
    "addr_serialize",
    "addr_deserialize",
    "msg_init_unexpected",
    "msg_recv_unexpected",
    "msg_send_unexpected",
    "msg_recv_expected",
    "msg_send_expected",
    "msg_multi_recv_unexpected",
    "poll",
    "cancel",
    "mem_create",
    "mem_create_segments",
    "mem_register",
    "mem_serialize",
    "mem_deserialize",
    "put",
    "get",
    "mem_deregister",
    "finalize",
};

static void every_function_of_a_plugin_may_fail(void **state)
{
    static const na_return_t codes[] = {NA_NOMEM, NA_HOSTUNREACH, NA_PERMISSION, NA_IO_ERROR};

    (void) state;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        for (size_t j = 0; j < sizeof(codes) / sizeof(codes[0]); j++) {
            na_return_t ret;

            control->fail = functions[i];
            control->fail_status = (int32_t) codes[j];
            ret = use_everything();
            control->fail = NULL;
            if (strcmp(functions[i], "context_create") == 0 ||
                strcmp(functions[i], "op_initialize") == 0)
                assert_int_equal(ret, NA_FAULT); /* these calls return NULL */
            else if (ret != codes[j])
                fail_msg("%s with %s gave %s", functions[i], NA_Error_to_string(codes[j]),
                         NA_Error_to_string(ret));
            assert_int_equal(atomic_load(&control->objects), 0);
            assert_int_equal(use_everything(), NA_SUCCESS);
            assert_int_equal(atomic_load(&control->objects), 0);
        }
    }
}

static void failures_of_closing_do_not_keep_it_open(void **state)
{
    static const char *const closing[] = {"context_stop", "context_destroy"};

    (void) state;
    for (size_t i = 0; i < 2; i++) {
        control->fail = closing[i];
        control->fail_status = NA_PLUGIN_IO_ERROR;
        assert_int_equal(use_everything(), NA_SUCCESS);
        control->fail = NULL;
        assert_int_equal(atomic_load(&control->objects), 0);
    }
}

static void expect_limit(const char *name, uint64_t value)
{
    char reason[2048], number[32];
    na_class_t *na_class;

    assert_int_equal(
        NA_Initialize_reason("loop+self", true, 0, NULL, &na_class, reason, sizeof(reason)),
        NA_PROTOCOL_ERROR);
    (void) snprintf(number, sizeof(number), "%s is %llu,", name, (unsigned long long) value);
    assert_non_null(strstr(reason, number));
    assert_non_null(strstr(reason, "loop"));
    assert_int_equal(use_everything(), NA_PROTOCOL_ERROR);
    assert_int_equal(atomic_load(&control->objects), 0);
}

/*
 * A limit out of range is refused when the class is opened, with its value, and not only when
 * memory for such a message cannot be allocated.
 */
static void limits_that_make_no_sense_are_refused(void **state)
{
    static const uint64_t sizes[] = {1, 8, 259, (1u << 30) + 1, UINT64_C(1) << 62, UINT64_MAX};

    (void) state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        control->max_unexpected = sizes[i];
        expect_limit("max_unexpected_size", sizes[i]);
    }
    control->max_unexpected = 0;
    control->max_rma = 4095;
    expect_limit("max_rma_size", 4095);
    control->max_rma = 0;
    assert_int_equal(use_everything(), NA_SUCCESS);
}

static na_return_t open_loop(na_class_t **na_class_p, char *reason, size_t size)
{
    return NA_Initialize_reason("loop+self", true, 0, NULL, na_class_p, reason, size);
}

static void begin_log(void)
{
    log_last[0] = '\0';
    NA_Set_log_func(log_keep);
    NA_Set_log_level("warning");
}

static void end_log(void)
{
    NA_Set_log_level("none");
    NA_Set_log_func(NULL);
}

/* A caller never gets a status that does not exist. */
static void a_status_that_does_not_exist_is_a_fault_and_said(void **state)
{
    static const int32_t codes[] = {NA_RETURN_MAX, 99, -1, INT32_MIN};
    char number[32];

    (void) state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        control->fail = "addr_to_string";
        control->fail_status = codes[i];
        begin_log();
        assert_int_equal(use_everything(), NA_FAULT);
        end_log();
        control->fail = NULL;
        (void) snprintf(number, sizeof(number), "the status %d,", codes[i]);
        assert_non_null(strstr(log_last, number));
    }
}

static void addresses_without_an_end_are_refused(void **state)
{
    char buf[64], reason[512];
    na_class_t *na_class;
    na_addr_t *self;
    size_t size;

    (void) state;
    assert_int_equal(open_loop(&na_class, reason, sizeof(reason)), NA_SUCCESS);
    assert_int_equal(NA_Addr_self(na_class, &self), NA_SUCCESS);
    for (control->odd_strings = 1; control->odd_strings <= 2; control->odd_strings++) {
        size = sizeof(buf);
        memset(buf, 'b', sizeof(buf));
        begin_log();
        assert_int_equal(NA_Addr_to_string(na_class, buf, &size, self), NA_FAULT);
        end_log();
        assert_string_equal(buf, "");
        assert_non_null(
            strstr(log_last, control->odd_strings == 1 ? "without an end" : "too long"));
    }
    control->odd_strings = 2;
    assert_int_equal(NA_Addr_to_string(na_class, NULL, &size, self), NA_FAULT);
    control->odd_strings = 0;
    assert_int_equal(NA_Addr_to_string(na_class, NULL, &size, self), NA_SUCCESS);
    NA_Addr_free(na_class, self);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

static void capabilities_that_a_plugin_does_not_declare_are_not_those_of_a_class(void **state)
{
    char reason[512];
    na_class_t *na_class;

    (void) state;
    control->more_capabilities = NA_PLUGIN_CAP_PEER_DEATH | UINT64_C(1) << 60;
    begin_log();
    assert_int_equal(open_loop(&na_class, reason, sizeof(reason)), NA_SUCCESS);
    end_log();
    control->more_capabilities = 0;
    assert_non_null(strstr(log_last, "capabilities 0x1000000000000010 that the plugin"));
    assert_true(NA_Class_has_capability(na_class, "rma"));
    assert_false(NA_Class_has_capability(na_class, "peer_death"));
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

static void a_header_that_nobody_writes_is_refused_in_a_sentence(void **state)
{
    char reason[512];
    na_class_t *na_class;

    (void) state;
    control->expected_header = 8;
    assert_int_equal(open_loop(&na_class, reason, sizeof(reason)), NA_PROTOCOL_ERROR);
    control->expected_header = 0;
    assert_non_null(strstr(reason, "msg_init_expected is missing, and expected messages have a "
                                   "header of 8 bytes"));
}

static void a_device_that_no_init_string_can_name_is_left_out(void **state)
{
    struct na_protocol_info *list;
    unsigned int without = 0;

    (void) state;
    control->odd_offers = 2;
    begin_log();
    assert_int_equal(NA_Get_protocol_info("loop+self", &list), NA_SUCCESS);
    end_log();
    control->odd_offers = 0;
    assert_non_null(strstr(log_last, "on the device \"loop 2\", which no init string can name"));
    for (const struct na_protocol_info *info = list; info != NULL; info = info->next) {
        assert_null(strchr(info->device_name, ' '));
        without += info->device_name[0] == '\0';
    }
    assert_int_equal(without, 1);
    NA_Free_protocol_info(list);
}

/*
 * Codes that mean "nothing to do", "interrupted" or trouble with one peer do not make progress
 * fail.
 */
static void progress_is_not_ended_by_harmless_codes(void **state)
{
    static const na_return_t codes[] = {NA_TIMEOUT, NA_AGAIN, NA_INTERRUPT};

    (void) state;
    for (size_t i = 0; i < 3; i++) {
        control->fail = "poll";
        control->fail_status = (int32_t) codes[i];
        assert_int_equal(use_everything(), NA_SUCCESS);
        control->fail = NULL;
    }
}

static int find_control(void **state)
{
    na_class_t *na_class = NA_Initialize("loop+self", false);

    (void) state;
    assert_non_null(na_class);
    control = (struct loop_control *) (uintptr_t) na_class->table.get_extension(LOOP_CONTROL_ID);
    return NA_Finalize(na_class) != NA_SUCCESS;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_of_a_plugin_may_fail),
        cmocka_unit_test(failures_of_closing_do_not_keep_it_open),
        cmocka_unit_test(limits_that_make_no_sense_are_refused),
        cmocka_unit_test(progress_is_not_ended_by_harmless_codes),
        cmocka_unit_test(a_status_that_does_not_exist_is_a_fault_and_said),
        cmocka_unit_test(addresses_without_an_end_are_refused),
        cmocka_unit_test(capabilities_that_a_plugin_does_not_declare_are_not_those_of_a_class),
        cmocka_unit_test(a_header_that_nobody_writes_is_refused_in_a_sentence),
        cmocka_unit_test(a_device_that_no_init_string_can_name_is_left_out),
    };

    NA_Set_log_level("none");
    use_plugins("loop");
    return cmocka_run_group_tests(tests, find_control, NULL);
}
