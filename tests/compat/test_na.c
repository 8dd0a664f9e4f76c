/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network abstraction: busy operations, contexts with posted receives, addresses, memory
 * handles, and the number of completions.
 */
#include "compat/compat_fixture.h"

#include "na.h"

struct end {
    na_class_t *na_class;
    na_context_t *context;
};

static struct end origin, target;
static na_addr_t *target_addr;
static char target_name[512];
static int completed;
static struct na_cb_info last;

static void complete(const struct na_cb_info *info)
{
    last = *info;
    completed++;
}

static void end_open(struct end *end, bool listen)
{
    end->na_class = NA_Initialize(test_init_string(), listen);
    assert_non_null(end->na_class);
    end->context = NA_Context_create(end->na_class);
    assert_non_null(end->context);
}

static int ends_open(void **state)
{
    size_t size = sizeof(target_name);
    na_addr_t *self;

    (void) state;
    end_open(&origin, false);
    end_open(&target, true);
    assert_int_equal(NA_Addr_self(target.na_class, &self), NA_SUCCESS);
    assert_int_equal(NA_Addr_to_string(target.na_class, target_name, &size, self), NA_SUCCESS);
    assert_int_equal(size, strlen(target_name) + 1);
    NA_Addr_free(target.na_class, self);
    assert_int_equal(NA_Addr_lookup(origin.na_class, target_name, &target_addr), NA_SUCCESS);
    completed = 0;
    return 0;
}

static int ends_close(void **state)
{
    (void) state;
    NA_Addr_free(origin.na_class, target_addr);
    assert_int_equal(NA_Context_destroy(origin.na_class, origin.context), NA_SUCCESS);
    assert_int_equal(NA_Finalize(origin.na_class), NA_SUCCESS);
    assert_int_equal(NA_Context_destroy(target.na_class, target.context), NA_SUCCESS);
    assert_int_equal(NA_Finalize(target.na_class), NA_SUCCESS);
    return 0;
}

static void wait_for_one(const struct end *end)
{
    unsigned int count = 0;
    int i;

    for (i = 0; i < 20000 && completed == 0; i++) {
        (void) NA_Poll_wait(end->na_class, end->context, 1, &count);
        assert_int_equal(NA_Trigger(end->context, 1, &count), NA_SUCCESS);
    }
    assert_int_equal(completed, 1);
}

static void addresses(void **state)
{
    char name[512];
    size_t need = 0, size = 3;
    na_addr_t *self, *copy;

    (void) state;
    assert_int_equal(NA_Addr_self(target.na_class, &self), NA_SUCCESS);
    assert_true(NA_Addr_is_self(target.na_class, self));
    assert_false(NA_Addr_is_self(origin.na_class, target_addr));
    assert_int_equal(NA_Addr_dup(target.na_class, self, &copy), NA_SUCCESS);
    assert_true(NA_Addr_cmp(target.na_class, self, copy));
    NA_Addr_free(target.na_class, self);
    assert_int_equal(NA_Addr_to_string(target.na_class, NULL, &need, copy), NA_SUCCESS);
    assert_int_equal(NA_Addr_to_string(target.na_class, name, &size, copy), NA_OVERFLOW);
    size = sizeof(name);
    assert_int_equal(NA_Addr_to_string(target.na_class, name, &size, copy), NA_SUCCESS);
    assert_int_equal(size, need);
    NA_Addr_free(target.na_class, copy);
    NA_Addr_free(target.na_class, NULL);
    assert_true(NA_Addr_cmp(target.na_class, NULL, NULL));
    assert_false(NA_Addr_cmp(origin.na_class, target_addr, NULL));
    assert_int_equal(NA_Addr_lookup(origin.na_class, NULL, &copy), NA_INVALID_ARG);
    assert_int_equal(NA_Addr_dup(origin.na_class, NULL, &copy), NA_INVALID_ARG);
}

static void nothing_to_do(void **state)
{
    unsigned int count = 9;

    (void) state;
    assert_int_equal(NA_Context_get_completion_count(origin.context), 0);
    assert_int_equal(NA_Poll(origin.na_class, origin.context, &count), NA_SUCCESS);
    assert_int_equal(count, 0);
    assert_int_equal(NA_Poll(origin.na_class, origin.context, NULL), NA_SUCCESS);
    assert_int_equal(NA_Poll_wait(origin.na_class, origin.context, 5, &count), NA_TIMEOUT);
    assert_int_equal(NA_Progress(origin.na_class, origin.context, 0), NA_TIMEOUT);
    count = 9;
    assert_int_equal(NA_Trigger(origin.context, 5, &count), NA_SUCCESS);
    assert_int_equal(count, 0);
    assert_int_equal(NA_Trigger(origin.context, 0, NULL), NA_SUCCESS);
    assert_int_equal(NA_Trigger(NULL, 1, NULL), NA_INVALID_ARG);
    assert_int_equal(NA_Cancel(origin.na_class, origin.context, NULL), NA_INVALID_ARG);
    assert_int_equal(NA_Context_destroy(origin.na_class, NULL), NA_SUCCESS);
    assert_int_equal(NA_Finalize(NULL), NA_SUCCESS);
    NA_Op_destroy(origin.na_class, NULL);
    NA_Msg_buf_free(origin.na_class, NULL, NULL);
}

/* An operation is busy until its callback ran; then it can be used again. */
static void busy_operation(void **state)
{
    size_t size = NA_Msg_get_max_expected_size(origin.na_class);
    void *data = NULL, *buf = NA_Msg_buf_alloc(origin.na_class, size, NA_RECV, &data);
    na_op_id_t *op = NA_Op_create(origin.na_class, NA_OP_SINGLE);
    int i;

    (void) state;
    assert_non_null(buf);
    assert_non_null(op);
    assert_null(NA_Msg_buf_alloc(origin.na_class, 0, NA_RECV, &data));
    for (i = 0; i < 2; i++) {
        completed = 0;
        assert_int_equal(NA_Msg_recv_expected(origin.na_class, origin.context, complete, buf, buf,
                                              size, data, target_addr, 0, 7, op),
                         NA_SUCCESS);
        assert_int_equal(NA_Msg_recv_expected(origin.na_class, origin.context, complete, buf, buf,
                                              size, data, target_addr, 0, 7, op),
                         NA_BUSY);
        assert_int_equal(NA_Cancel(origin.na_class, origin.context, op), NA_SUCCESS);
        assert_int_equal(completed, 0);
        wait_for_one(&origin);
        assert_int_equal(last.ret, NA_CANCELED);
        assert_int_equal(last.type, NA_CB_RECV_EXPECTED);
        assert_ptr_equal(last.arg, buf);
        assert_int_equal(NA_Cancel(origin.na_class, origin.context, op), NA_SUCCESS);
    }
    NA_Op_destroy(origin.na_class, op);
    NA_Msg_buf_free(origin.na_class, buf, data);
}

static void context_with_a_receive_posted(void **state)
{
    size_t size = NA_Msg_get_max_unexpected_size(target.na_class);
    void *data = NULL, *buf;
    na_op_id_t *op;
    struct end end;

    (void) state;
    end_open(&end, true);
    buf = NA_Msg_buf_alloc(end.na_class, size, NA_RECV, &data);
    op = NA_Op_create(end.na_class, NA_OP_SINGLE);
    assert_int_equal(
        NA_Msg_recv_unexpected(end.na_class, end.context, complete, NULL, buf, size, data, op),
        NA_SUCCESS);
    assert_int_equal(NA_Context_destroy(end.na_class, end.context), NA_SUCCESS);
    NA_Op_destroy(end.na_class, op);
    NA_Msg_buf_free(end.na_class, buf, data);
    (void) NA_Finalize(end.na_class);
}

/* A handle may be freed after it was deregistered, or if it never was registered. */
static void memory_handles(void **state)
{
    static char memory[100];
    char buf[1024];
    na_mem_handle_t *local, *remote;
    size_t size;

    (void) state;
    assert_int_equal(NA_Mem_handle_create(target.na_class, NULL, 10, NA_MEM_READWRITE, &local),
                     NA_INVALID_ARG);
    assert_int_equal(
        NA_Mem_handle_create(target.na_class, memory, sizeof(memory), NA_MEM_READWRITE, &local),
        NA_SUCCESS);
    NA_Mem_handle_free(target.na_class, local);
    assert_int_equal(
        NA_Mem_handle_create(target.na_class, memory, sizeof(memory), NA_MEM_READWRITE, &local),
        NA_SUCCESS);
    assert_int_equal(NA_Mem_register(target.na_class, local, NA_MEM_TYPE_HOST, 0), NA_SUCCESS);
    size = NA_Mem_handle_get_serialize_size(target.na_class, local);
    assert_in_range(size, 1, sizeof(buf));
    assert_int_equal(NA_Mem_handle_serialize(target.na_class, buf, size - 1, local), NA_OVERFLOW);
    assert_int_equal(NA_Mem_handle_serialize(target.na_class, buf, size, local), NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_deserialize(origin.na_class, &remote, buf, size), NA_SUCCESS);
    assert_int_equal(NA_Mem_deregister(target.na_class, local), NA_SUCCESS);
    NA_Mem_handle_free(target.na_class, local);
    NA_Mem_handle_free(origin.na_class, remote);
    NA_Mem_handle_free(origin.na_class, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_open, ends_close)
        TEST(addresses),      TEST(nothing_to_do),
        TEST(busy_operation), TEST(context_with_a_receive_posted),
        TEST(memory_handles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
