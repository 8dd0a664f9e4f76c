/* SPDX-License-Identifier: BSD-3-Clause */
/* The check of a plugin's table, rule by rule, and functions that a plugin lacks. */

#include "na/class.h"
#include "na_test.h"

static struct na_plugin good;
static struct na_transport transport;
static char reason[1024];
static const struct na_plugin_extension *extension; /* the result of get_extension */

static const void *give_extension(const char *id)
{
    return strcmp(id, NA_PLUGIN_EXT_MULTI_RECV) == 0 ? extension : NULL;
}

static const void *give_segments(const char *id)
{
    return strcmp(id, NA_PLUGIN_EXT_MEM_SEGMENTS) == 0 ? extension : NULL;
}

static int fill_good(void **state)
{
    na_class_t *na_class = NA_Initialize("loop+self", false);

    (void) state;
    good = na_class->table;
    good.get_extension = give_extension;
    extension = NULL;
    memset(&transport, 0, sizeof(transport));
    transport.name = (char *) (uintptr_t) "loop";
    return NA_Finalize(na_class) != NA_SUCCESS;
}

static enum na_plugin_code check(const struct na_plugin *table)
{
    reason[0] = '\0';
    return na_transport_check(&transport, table, "loop", reason, sizeof(reason));
}

static void a_complete_table_is_taken(void **state)
{
    (void) state;
    assert_int_equal(check(&good), NA_LOADER_LOADED);
    assert_memory_equal(&transport.table, &good, sizeof(good));
}

static void each_mandatory_function_is_missed(void **state)
{
    static const size_t mandatory[] = {
        offsetof(struct na_plugin, enumerate),
        offsetof(struct na_plugin, initialize),
        offsetof(struct na_plugin, finalize),
        offsetof(struct na_plugin, context_create),
        offsetof(struct na_plugin, context_stop),
        offsetof(struct na_plugin, context_destroy),
        offsetof(struct na_plugin, addr_lookup),
        offsetof(struct na_plugin, addr_free),
        offsetof(struct na_plugin, addr_dup),
        offsetof(struct na_plugin, addr_self),
        offsetof(struct na_plugin, addr_is_self),
        offsetof(struct na_plugin, addr_compare),
        offsetof(struct na_plugin, addr_to_string),
        offsetof(struct na_plugin, msg_send_unexpected),
        offsetof(struct na_plugin, msg_recv_unexpected),
        offsetof(struct na_plugin, msg_send_expected),
        offsetof(struct na_plugin, msg_recv_expected),
        offsetof(struct na_plugin, poll),
        offsetof(struct na_plugin, cancel),
    };

    (void) state;
    for (size_t i = 0; i < sizeof(mandatory) / sizeof(mandatory[0]); i++) {
        struct na_plugin table = good;

        memset((char *) &table + mandatory[i], 0, sizeof(void *));
        assert_int_equal(check(&table), NA_LOADER_INVALID_TABLE);
        assert_non_null(strstr(reason, "mandatory"));
    }
}

static void everything_else_may_be_missing(void **state)
{
    struct na_plugin table = good;

    (void) state;
    table.version = table.description = NULL;
    table.class_names = NULL;
    table.op_size = table.op_align = 0;
    table.op_initialize = NULL;
    table.op_finalize = NULL;
    table.addr_set_remove = NULL;
    table.msg_buf_alloc = NULL;
    table.msg_buf_free = NULL;
    table.msg_init_unexpected = NULL;
    table.msg_init_expected = NULL;
    table.mem_create = NULL;
    table.mem_destroy = NULL;
    table.mem_register = NULL;
    table.mem_deregister = NULL;
    table.mem_serialize_size = NULL;
    table.mem_serialize = NULL;
    table.mem_deserialize = NULL;
    table.put = NULL;
    table.get = NULL;
    table.poll_wait = NULL;
    table.poll_get_fd = NULL;
    table.poll_try_wait = NULL;
    table.wake = NULL;
    table.get_extension = NULL;
    table.cleanup = NULL;
    assert_int_equal(check(&table), NA_LOADER_LOADED);
    assert_string_equal(na_transport_class_name(&transport), "loop");
}

static void functions_come_in_families(void **state)
{
    struct na_plugin table;

    (void) state;
#define WITHOUT(function)                                     \
    table = good;                                             \
    table.function = NULL;                                    \
    assert_int_equal(check(&table), NA_LOADER_INVALID_TABLE); \
    assert_non_null(strstr(reason, #function))
    WITHOUT(mem_create);
    WITHOUT(mem_destroy);
    WITHOUT(mem_serialize_size);
    WITHOUT(mem_serialize);
    WITHOUT(mem_deserialize);
#undef WITHOUT
    table = good;
    table.msg_buf_free = (void (*)(struct na_plugin_class *, void *, void *)) 1;
    assert_int_equal(check(&table), NA_LOADER_INVALID_TABLE);
    assert_non_null(strstr(reason, "msg_buf_alloc"));
}

static void functions_past_the_tables_size_are_absent(void **state)
{
    struct na_plugin table = good;

    (void) state;
    table.cleanup = (void (*)(void)) 0x1234;
    table.size = offsetof(struct na_plugin, get_extension);
    assert_int_equal(check(&table), NA_LOADER_LOADED);
    assert_null(transport.table.cleanup);
    assert_null(transport.table.get_extension);
}

static void sizes_versions_and_names_are_checked(void **state)
{
    static const char *const bad_names[] = {"good", "bad name", NULL};
    static const char *many_names[NA_CLASS_NAMES_MAX + 2];
    struct na_plugin table;

    (void) state;
    for (int i = 0; i <= NA_CLASS_NAMES_MAX; i++)
        many_names[i] = "x";
    assert_int_equal(check(NULL), NA_LOADER_INVALID_TABLE);
#define WITH(member, value, code) \
    table = good;                 \
    table.member = value;         \
    assert_int_equal(check(&table), code)
    WITH(abi_version, 0, NA_LOADER_ABI_TOO_OLD);
    WITH(abi_version, 2 << 16, NA_LOADER_ABI_TOO_NEW);
    WITH(abi_version, 1 << 16 | 0xffff, NA_LOADER_LOADED);
    WITH(size, 0, NA_LOADER_INVALID_TABLE);
    WITH(size, offsetof(struct na_plugin, cancel), NA_LOADER_INVALID_TABLE);
    WITH(size, offsetof(struct na_plugin, cancel) + sizeof(void *), NA_LOADER_LOADED);
    WITH(size, UINT32_MAX, NA_LOADER_INVALID_TABLE);
    WITH(name, NULL, NA_LOADER_INVALID_TABLE);
    WITH(name, "loopy", NA_LOADER_INVALID_TABLE);
    WITH(op_align, 3, NA_LOADER_INVALID_TABLE);
    WITH(op_align, 256, NA_LOADER_INVALID_TABLE);
    WITH(op_align, 128, NA_LOADER_LOADED);
    WITH(op_align, 0, NA_LOADER_INVALID_TABLE);
    WITH(op_size, NA_OP_PRIVATE_MAX + 1, NA_LOADER_INVALID_TABLE);
    WITH(class_names, bad_names, NA_LOADER_INVALID_TABLE);
    WITH(class_names, many_names, NA_LOADER_INVALID_TABLE);
#undef WITH
}

static void extensions_have_sizes_too(void **state)
{
    struct na_plugin_multi_recv multi_recv = {{sizeof(multi_recv), 0}, NULL};
    struct na_plugin_mem_segments segments = {{sizeof(segments), 0}, 8, NULL};
    struct na_plugin table = good;

    (void) state;
    multi_recv.msg_multi_recv_unexpected = good.msg_recv_unexpected;
    extension = &multi_recv.extension;
    assert_int_equal(check(&table), NA_LOADER_LOADED);
    assert_non_null(transport.multi_recv.msg_multi_recv_unexpected);
    multi_recv.extension.size = sizeof(struct na_plugin_extension); /* too short for its function */
    assert_int_equal(check(&table), NA_LOADER_LOADED);
    assert_null(transport.multi_recv.msg_multi_recv_unexpected);
    multi_recv.extension.size = 4;
    assert_int_equal(check(&table), NA_LOADER_INVALID_TABLE);
    multi_recv.extension.size = UINT32_MAX;
    assert_int_equal(check(&table), NA_LOADER_INVALID_TABLE);

    /* An extension for memory segments without the functions for memory. */
    table.get_extension = give_segments;
    table.mem_create = NULL;
    table.put = NULL;
    table.get = NULL;
    segments.mem_create_segments =
        (int32_t(*)(struct na_plugin_class *, const struct na_plugin_segment *, uint64_t, uint32_t,
                    struct na_plugin_mem **)) 1;
    extension = &segments.extension;
    assert_int_equal(check(&table), NA_LOADER_INVALID_TABLE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, fill_good)
    const struct CMUnitTest tests[] = {
        TEST(a_complete_table_is_taken),
        TEST(each_mandatory_function_is_missed),
        TEST(everything_else_may_be_missing),
        TEST(functions_come_in_families),
        TEST(functions_past_the_tables_size_are_absent),
        TEST(sizes_versions_and_names_are_checked),
        TEST(extensions_have_sizes_too),
    };
#undef TEST

    NA_Set_log_level("none");
    use_plugins("loop");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
