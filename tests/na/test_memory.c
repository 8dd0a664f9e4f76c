/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory handles, put and get, and addresses: the checks that the core makes before it calls a
 * plugin.
 */

#include "na_test.h"

static struct loop loop;
static na_op_id_t *op;

static int open_loop(void **state)
{
    (void) state;
    loop_open(&loop, "loop+self");
    op = NA_Op_create(loop.na_class, NA_OP_SINGLE);
    return op == NULL;
}

static int close_loop(void **state)
{
    (void) state;
    NA_Op_destroy(loop.na_class, op);
    loop_close(&loop);
    return 0;
}

static na_mem_handle_t *make(void *buf, size_t size, unsigned long flags)
{
    na_mem_handle_t *handle = NULL;

    assert_int_equal(NA_Mem_handle_create(loop.na_class, buf, size, flags, &handle), NA_SUCCESS);
    assert_int_equal(NA_Mem_register(loop.na_class, handle, NA_MEM_TYPE_HOST, 0), NA_SUCCESS);
    return handle;
}

static na_mem_handle_t *travel(na_mem_handle_t *handle)
{
    const size_t size = NA_Mem_handle_get_serialize_size(loop.na_class, handle);
    na_mem_handle_t *remote = NULL;
    char *bytes = malloc(size);

    assert_int_equal(NA_Mem_handle_serialize(loop.na_class, bytes, size, handle), NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_deserialize(loop.na_class, &remote, bytes, size), NA_SUCCESS);
    free(bytes);
    return remote;
}

static void release(na_mem_handle_t *handle)
{
    assert_int_equal(NA_Mem_deregister(loop.na_class, handle), NA_SUCCESS);
    NA_Mem_handle_free(loop.na_class, handle);
}

static void put_and_get_move_bytes_and_complete(void **state)
{
    char here[16] = "0123456789abcde", there[16] = "................";
    na_mem_handle_t *local = make(here, 16, NA_MEM_READWRITE);
    na_mem_handle_t *target = make(there, 16, NA_MEM_READWRITE), *remote = travel(target);
    struct told told = {0};

    (void) state;
    assert_int_equal(
        NA_Put(loop.na_class, loop.context, tell, &told, local, 2, remote, 4, 3, loop.self, 0, op),
        NA_SUCCESS);
    assert_int_equal(poll_all(&loop), 1);
    assert_int_equal(told.last.type, NA_CB_PUT);
    assert_memory_equal(there, "....234.........", 16);
    assert_int_equal(
        NA_Get(loop.na_class, loop.context, tell, &told, local, 0, remote, 15, 1, loop.self, 0, op),
        NA_SUCCESS);
    assert_int_equal(poll_all(&loop), 1);
    assert_int_equal(told.last.type, NA_CB_GET);
    assert_int_equal(here[0], '.');
    /* A transfer of no bytes completes without the plugin. */
    assert_int_equal(NA_Get(loop.na_class, loop.context, tell, &told, local, 16, remote, 16, 0,
                            loop.self, 0, op),
                     NA_SUCCESS);
    assert_int_equal(trigger_all(loop.context), 1);
    assert_int_equal(told.count, 3);
    NA_Mem_handle_free(loop.na_class, remote);
    release(local);
    release(target);
}

static void ranges_flags_and_sides_are_enforced(void **state)
{
    static char big[(1 << 20) + 1];
    char buf[16];
    na_mem_handle_t *local = make(buf, 16, NA_MEM_READWRITE), *target, *remote, *huge;
    const struct {
        uint64_t local_offset, remote_offset, length;
    } ranges[] = {
        {0, 0, 17},        {1, 0, 16},         {0, 1, 16},         {17, 0, 0},
        {0, 17, 0},        {UINT64_MAX, 0, 1}, {0, UINT64_MAX, 1}, {UINT64_MAX, 0, UINT64_MAX},
        {1, 1, UINT64_MAX}};

    (void) state;
    target = make(buf, 16, NA_MEM_READWRITE);
    remote = travel(target);
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        assert_int_equal(NA_Put(loop.na_class, loop.context, NULL, NULL, local,
                                ranges[i].local_offset, remote, ranges[i].remote_offset,
                                ranges[i].length, loop.self, 0, op),
                         NA_OVERFLOW);
    /* A local and a remote handle in the wrong place. */
    assert_int_equal(
        NA_Put(loop.na_class, loop.context, NULL, NULL, remote, 0, remote, 0, 1, loop.self, 0, op),
        NA_INVALID_ARG);
    assert_int_equal(
        NA_Get(loop.na_class, loop.context, NULL, NULL, local, 0, local, 0, 1, loop.self, 0, op),
        NA_INVALID_ARG);
    assert_int_equal(
        NA_Get(loop.na_class, loop.context, NULL, NULL, local, 0, NULL, 0, 1, loop.self, 0, op),
        NA_INVALID_ARG);
    assert_int_equal(
        NA_Get(loop.na_class, loop.context, NULL, NULL, local, 0, remote, 0, 1, NULL, 0, op),
        NA_INVALID_ARG);
    NA_Mem_handle_free(loop.na_class, remote);
    release(target);

    target = make(buf, 16, NA_MEM_READ_ONLY);
    remote = travel(target);
    assert_int_equal(
        NA_Put(loop.na_class, loop.context, NULL, NULL, local, 0, remote, 0, 1, loop.self, 0, op),
        NA_PERMISSION);
    NA_Mem_handle_free(loop.na_class, remote);
    release(target);
    target = make(buf, 16, NA_MEM_WRITE_ONLY);
    remote = travel(target);
    assert_int_equal(
        NA_Get(loop.na_class, loop.context, NULL, NULL, local, 0, remote, 0, 1, loop.self, 0, op),
        NA_PERMISSION);
    NA_Mem_handle_free(loop.na_class, remote);
    release(target);
    release(local);

    huge = make(big, sizeof(big), NA_MEM_READWRITE);
    remote = travel(huge);
    assert_int_equal(NA_Get(loop.na_class, loop.context, NULL, NULL, huge, 0, remote, 0,
                            sizeof(big), loop.self, 0, op),
                     NA_OVERFLOW);
    NA_Mem_handle_free(loop.na_class, remote);
    release(huge);
}

static void segments_are_one_range(void **state)
{
    char one[4] = "abc", two[4] = "def", all[8] = "";
    struct na_segment segments[5] = {{one, 3}, {two, 3}};
    na_mem_handle_t *local = make(all, 8, NA_MEM_READWRITE), *target = NULL, *remote;

    (void) state;
    assert_int_equal(
        NA_Mem_handle_create_segments(loop.na_class, segments, 2, NA_MEM_READ_ONLY, &target),
        NA_SUCCESS);
    assert_int_equal(NA_Mem_register(loop.na_class, target, NA_MEM_TYPE_HOST, 0), NA_SUCCESS);
    remote = travel(target);
    assert_int_equal(
        NA_Get(loop.na_class, loop.context, NULL, NULL, local, 0, remote, 1, 4, loop.self, 0, op),
        NA_SUCCESS);
    assert_int_equal(poll_all(&loop), 1);
    assert_string_equal(all, "bcde");
    assert_int_equal(
        NA_Get(loop.na_class, loop.context, NULL, NULL, local, 0, remote, 1, 6, loop.self, 0, op),
        NA_OVERFLOW);
    NA_Mem_handle_free(loop.na_class, remote);
    release(target);
    for (int i = 0; i < 5; i++)
        segments[i] = (struct na_segment){one, 1};
    assert_int_equal(
        NA_Mem_handle_create_segments(loop.na_class, segments, 5, NA_MEM_READ_ONLY, &target),
        NA_OPNOTSUPPORTED);
    segments[1].len = SIZE_MAX;
    assert_int_equal(
        NA_Mem_handle_create_segments(loop.na_class, segments, 2, NA_MEM_READ_ONLY, &target),
        NA_INVALID_ARG);
    segments[1] = (struct na_segment){NULL, 1};
    assert_int_equal(
        NA_Mem_handle_create_segments(loop.na_class, segments, 2, NA_MEM_READ_ONLY, &target),
        NA_INVALID_ARG);
    release(local);
}

static void wrong_memory_arguments_are_refused(void **state)
{
    char buf[16];
    na_mem_handle_t *handle = NULL, *remote;
    struct loop other;

    (void) state;
    assert_int_equal(NA_Mem_handle_create(NULL, buf, 16, 1, &handle), NA_INVALID_ARG);
    assert_int_equal(NA_Mem_handle_create(loop.na_class, NULL, 16, 1, &handle), NA_INVALID_ARG);
    assert_int_equal(NA_Mem_handle_create(loop.na_class, buf, 16, 0, &handle), NA_INVALID_ARG);
    assert_int_equal(NA_Mem_handle_create(loop.na_class, buf, 16, 4, &handle), NA_INVALID_ARG);
    assert_int_equal(NA_Mem_handle_create(loop.na_class, buf, 16, 1, NULL), NA_INVALID_ARG);
    assert_int_equal(NA_Mem_handle_create_segments(loop.na_class, NULL, 1, 1, &handle),
                     NA_INVALID_ARG);
    handle = make(buf, 16, NA_MEM_READWRITE);
    assert_int_equal(NA_Mem_register(loop.na_class, handle, NA_MEM_TYPE_MAX, 0), NA_INVALID_ARG);
    assert_int_equal(NA_Mem_register(loop.na_class, handle, NA_MEM_TYPE_CUDA, 0),
                     NA_OPNOTSUPPORTED);
    assert_int_equal(NA_Mem_register(loop.na_class, NULL, NA_MEM_TYPE_HOST, 0), NA_INVALID_ARG);
    assert_int_equal(NA_Mem_handle_serialize(loop.na_class, buf, 16, handle), NA_OVERFLOW);
    assert_int_equal(NA_Mem_handle_serialize(loop.na_class, NULL, 16, handle), NA_INVALID_ARG);
    remote = travel(handle);
    assert_int_equal(NA_Mem_register(loop.na_class, remote, NA_MEM_TYPE_HOST, 0), NA_INVALID_ARG);
    NA_Mem_handle_free(loop.na_class, remote);
    loop_open(&other, "loop+self");
    assert_int_equal(NA_Mem_deregister(other.na_class, handle), NA_INVALID_ARG);
    assert_int_equal(NA_Mem_handle_get_serialize_size(other.na_class, handle), 0);
    NA_Mem_handle_free(other.na_class, handle); /* refused */
    loop_close(&other);
    release(handle);
}

static void forged_memory_handles_are_refused(void **state)
{
    char buf[16];
    na_mem_handle_t *handle = make(buf, 16, NA_MEM_READWRITE), *remote;
    const size_t size = NA_Mem_handle_get_serialize_size(loop.na_class, handle);
    unsigned char *bytes = malloc(size);

    (void) state;
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_equal(NA_Mem_handle_serialize(loop.na_class, bytes, size, handle), NA_SUCCESS);
        assert_int_not_equal(NA_Mem_handle_deserialize(loop.na_class, &remote, bytes, cut),
                             NA_SUCCESS);
        assert_null(remote);
    }
    for (size_t i = 0; i < 8; i++) { /* magic, version, flags, size */
        assert_int_equal(NA_Mem_handle_serialize(loop.na_class, bytes, size, handle), NA_SUCCESS);
        bytes[i] ^= 0x55;
        assert_int_not_equal(NA_Mem_handle_deserialize(loop.na_class, &remote, bytes, size),
                             NA_SUCCESS);
    }
    assert_int_equal(NA_Mem_handle_serialize(loop.na_class, bytes, size, handle), NA_SUCCESS);
    memset(bytes + 8, 0xff, 8); /* length */
    assert_int_equal(NA_Mem_handle_deserialize(loop.na_class, &remote, bytes, size),
                     NA_PROTOCOL_ERROR);
    free(bytes);
    release(handle);
}

static void addresses_are_found_compared_and_written(void **state)
{
    na_addr_t *addr, *copy;
    char string[64], small[4];
    size_t size = 0;

    (void) state;
    assert_int_equal(NA_Addr_to_string(loop.na_class, NULL, &size, loop.self), NA_SUCCESS);
    assert_true(size > 4 && size < sizeof(string));
    size = sizeof(small);
    assert_int_equal(NA_Addr_to_string(loop.na_class, small, &size, loop.self), NA_OVERFLOW);
    assert_true(size > 4);
    assert_int_equal(NA_Addr_to_string(loop.na_class, string, &size, loop.self), NA_SUCCESS);
    assert_int_equal(NA_Addr_lookup(loop.na_class, string, &addr), NA_SUCCESS);
    assert_true(NA_Addr_cmp(loop.na_class, addr, loop.self));
    assert_true(NA_Addr_is_self(loop.na_class, addr));
    assert_int_equal(NA_Addr_dup(loop.na_class, addr, &copy), NA_SUCCESS);
    NA_Addr_free(loop.na_class, addr);
    assert_true(NA_Addr_cmp(loop.na_class, copy, loop.self));
    assert_false(NA_Addr_cmp(loop.na_class, copy, NULL));
    assert_true(NA_Addr_cmp(loop.na_class, NULL, NULL));
    assert_int_equal(NA_Addr_set_remove(loop.na_class, copy), NA_SUCCESS);
    NA_Addr_free(loop.na_class, copy);
    assert_int_equal(NA_Addr_lookup(loop.na_class, "loop+self://14", &addr), NA_NOENTRY);
    assert_null(addr);
    assert_int_equal(NA_Addr_lookup(loop.na_class, "loop+self://x", &addr), NA_INVALID_ARG);
    assert_int_equal(NA_Addr_lookup(loop.na_class, NULL, &addr), NA_INVALID_ARG);
    assert_int_equal(NA_Addr_lookup(NULL, "x", &addr), NA_INVALID_ARG);
}

/* `loopbare` lacks the extension for serialized addresses, so that the address string is sent. */
static void addresses_travel_with_and_without_the_extension(void **state)
{
    struct loop bare;
    struct loop *loops[] = {&loop, &bare};
    char bytes[64];
    na_addr_t *addr;

    (void) state;
    loop_open(&bare, "loopbare+self");
    for (int i = 0; i < 2; i++) {
        na_class_t *na_class = loops[i]->na_class;
        const size_t size = NA_Addr_get_serialize_size(na_class, loops[i]->self);

        assert_true(i == 0 ? size == 4 : size > 4);
        assert_int_equal(NA_Addr_serialize(na_class, bytes, size - 1, loops[i]->self), NA_OVERFLOW);
        assert_int_equal(NA_Addr_serialize(na_class, bytes, size, loops[i]->self), NA_SUCCESS);
        assert_int_equal(NA_Addr_deserialize(na_class, &addr, bytes, size, 0), NA_SUCCESS);
        assert_true(NA_Addr_is_self(na_class, addr));
        NA_Addr_free(na_class, addr);
        assert_int_not_equal(NA_Addr_deserialize(na_class, &addr, bytes, size - 1, 0), NA_SUCCESS);
        assert_int_equal(NA_Addr_deserialize(na_class, &addr, NULL, size, 0), NA_INVALID_ARG);
    }
    assert_false(NA_Has_opt_feature(bare.na_class, NA_OPT_MULTI_RECV));
    assert_int_equal(NA_Mem_handle_get_max_segments(bare.na_class), 1);
    loop_close(&bare);
}

static void a_plugin_without_multi_receive_says_so(void **state)
{
    struct loop bare;
    na_op_id_t *multi;
    char buf[64];

    (void) state;
    loop_open(&bare, "loopbare+self");
    multi = NA_Op_create(bare.na_class, NA_OP_MULTI);
    assert_int_equal(
        NA_Msg_multi_recv_unexpected(bare.na_class, bare.context, NULL, NULL, buf, 64, NULL, multi),
        NA_OPNOTSUPPORTED);
    NA_Op_destroy(bare.na_class, multi);
    loop_close(&bare);
}

static void message_buffers_are_aligned_and_checked(void **state)
{
    void *data = &data, *buf;

    (void) state;
    assert_null(NA_Msg_buf_alloc(loop.na_class, 0, NA_SEND, &data));
    assert_null(data);
    buf = NA_Msg_buf_alloc(loop.na_class, 100, NA_SEND, &data);
    assert_int_equal((uintptr_t) buf % 64, 0);
    NA_Msg_buf_free(loop.na_class, buf, data);
    buf = NA_Msg_buf_alloc(loop.na_class, 100000, NA_RECV | NA_MULTI_RECV, &data);
    assert_int_equal((uintptr_t) buf % 4096, 0);
    NA_Msg_buf_free(loop.na_class, buf, data);
    assert_null(NA_Msg_buf_alloc(loop.na_class, 100, 8, &data));
    assert_null(NA_Msg_buf_alloc(NULL, 100, 1, &data));
    assert_null(NA_Msg_buf_alloc(loop.na_class, 100, 1, NULL));
    assert_null(NA_Msg_buf_alloc(loop.na_class, SIZE_MAX, 1, &data));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_loop, close_loop)
    const struct CMUnitTest tests[] = {
        TEST(put_and_get_move_bytes_and_complete),
        TEST(ranges_flags_and_sides_are_enforced),
        TEST(segments_are_one_range),
        TEST(wrong_memory_arguments_are_refused),
        TEST(forged_memory_handles_are_refused),
        TEST(addresses_are_found_compared_and_written),
        TEST(addresses_travel_with_and_without_the_extension),
        TEST(a_plugin_without_multi_receive_says_so),
        TEST(message_buffers_are_aligned_and_checked),
    };
#undef TEST

    NA_Set_log_level("none");
    use_plugins("loop");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
