/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handles: forged ones are refused, and keys cannot be guessed. */

#include "ofi.h"

#include "kit/plugin_host.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int64_t allocations;

static void *counted_alloc(uint64_t size, uint64_t align)
{
    allocations++;
    return plugin_host_alloc(size, align);
}

static void counted_free(void *memory)
{
    allocations -= memory != NULL;
    plugin_host_free(memory);
}

struct opened {
    struct na_plugin_class *na_class;
    uint8_t memory[4096];
};

static int open_class(struct opened *opened)
{
    struct na_plugin_init init = {
        .size = sizeof(init),
        .class_name = "ofi",
        .protocol = "tcp",
        .address = "127.0.0.1",
        .max_contexts = 1,
    };
    struct na_plugin_class_info info = {.size = sizeof(info)};

    return ofi_class_initialize(&init, NULL, &opened->na_class, &info);
}

static int setup(void **state)
{
    static struct opened opened;

    *state = &opened;
    return open_class(&opened);
}

static int teardown(void **state)
{
    struct opened *opened = *state;

    return ofi_class_finalize(opened->na_class);
}

static struct na_plugin_mem *create(struct opened *opened)
{
    struct na_plugin_mem *mem = NULL;

    assert_int_equal(ofi_mem_create(opened->na_class, opened->memory, sizeof(opened->memory),
                                    NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE, &mem),
                     NA_PLUGIN_SUCCESS);
    return mem;
}

static void handles_travel_and_come_back(void **state)
{
    struct opened *opened = *state;
    struct na_plugin_class *na_class = opened->na_class;
    struct na_plugin_mem *mem = create(opened), *remote = NULL;
    uint8_t packed[512];
    uint64_t size;

    assert_int_equal(ofi_mem_serialize(na_class, mem, packed, sizeof(packed)),
                     NA_PLUGIN_INVALID_ARG); /* not registered */
    assert_int_equal(ofi_mem_register(na_class, mem, NA_PLUGIN_MEM_TYPE_HOST, 0),
                     NA_PLUGIN_SUCCESS);
    size = ofi_mem_serialize_size(na_class, mem);
    assert_true(size <= sizeof(packed));
    assert_int_equal(ofi_mem_serialize(na_class, mem, packed, size - 1), NA_PLUGIN_OVERFLOW);
    assert_int_equal(ofi_mem_serialize(na_class, mem, packed, size), NA_PLUGIN_SUCCESS);
    assert_int_equal(ofi_mem_deserialize(na_class, packed, size, &remote), NA_PLUGIN_SUCCESS);
    assert_true(remote->region.is_remote);
    assert_int_equal(remote->region.length, sizeof(opened->memory));
    ofi_mem_destroy(na_class, remote);
    assert_int_equal(ofi_mem_deregister(na_class, mem), NA_PLUGIN_SUCCESS);
    assert_int_equal(ofi_mem_deregister(na_class, mem), NA_PLUGIN_SUCCESS);
    ofi_mem_destroy(na_class, mem);
}

static void forged_handles_are_refused(void **state)
{
    struct opened *opened = *state;
    struct na_plugin_class *na_class = opened->na_class;
    struct na_plugin_mem *mem = create(opened), *remote = NULL;
    uint8_t packed[512], forged[512];
    uint64_t size;

    assert_int_equal(ofi_mem_register(na_class, mem, NA_PLUGIN_MEM_TYPE_HOST, 0),
                     NA_PLUGIN_SUCCESS);
    size = ofi_mem_serialize_size(na_class, mem);
    assert_int_equal(ofi_mem_serialize(na_class, mem, packed, size), NA_PLUGIN_SUCCESS);
    for (uint64_t length = 0; length < size; length++)
        assert_int_equal(ofi_mem_deserialize(na_class, packed, length, &remote),
                         NA_PLUGIN_PROTOCOL_ERROR);
    for (uint64_t bit = 0; bit < 8 * size; bit++) {
        memcpy(forged, packed, size);
        forged[bit / 8] ^= (uint8_t) (1 << bit % 8);
        assert_int_equal(ofi_mem_deserialize(na_class, forged, size, &remote),
                         NA_PLUGIN_PROTOCOL_ERROR);
    }
    assert_null(remote);
    ofi_mem_destroy(na_class, mem);
}

static void keys_are_unique_and_do_not_count(void **state)
{
    struct opened *opened = *state;
    struct na_plugin_class *na_class = opened->na_class;
    struct na_plugin_mem *mems[100];
    uint64_t near = 0;

    for (size_t i = 0; i < 100; i++) {
        mems[i] = create(opened);
        assert_int_equal(ofi_mem_register(na_class, mems[i], NA_PLUGIN_MEM_TYPE_HOST, 0),
                         NA_PLUGIN_SUCCESS);
        for (size_t j = 0; j < i; j++) {
            uint64_t distance = mems[i]->region.key.word[1] - mems[j]->region.key.word[1];

            assert_int_not_equal(distance, 0);
            near += distance < 1000 || distance > UINT64_MAX - 1000;
        }
    }
    assert_int_equal(near, 0);
    for (size_t i = 0; i < 100; i++)
        ofi_mem_destroy(na_class, mems[i]);
}

/* When the class closes, it frees a registered handle, one that is not registered, and one of a
 * peer. */
static void forgotten_handles_go_with_the_class(void **state)
{
    struct na_host host = plugin_host;
    struct na_plugin_mem *mem, *remote;
    struct opened opened = {0};
    void *closing = &opened;
    uint8_t packed[512];
    uint64_t size;

    (void) state;
    host.mem_alloc = counted_alloc;
    host.mem_free = counted_free;
    kit_host = &host;
    assert_int_equal(open_class(&opened), 0);
    (void) create(&opened);
    mem = create(&opened);
    assert_int_equal(ofi_mem_register(opened.na_class, mem, NA_PLUGIN_MEM_TYPE_HOST, 0),
                     NA_PLUGIN_SUCCESS);
    size = ofi_mem_serialize_size(opened.na_class, mem);
    assert_int_equal(ofi_mem_serialize(opened.na_class, mem, packed, size), NA_PLUGIN_SUCCESS);
    assert_int_equal(ofi_mem_deserialize(opened.na_class, packed, size, &remote),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(teardown(&closing), 0);
    kit_host = &plugin_host;
    assert_int_equal(allocations, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handles_travel_and_come_back),
        cmocka_unit_test(forged_handles_are_refused),
        cmocka_unit_test(keys_are_unique_and_do_not_count),
        cmocka_unit_test(forgotten_handles_go_with_the_class),
    };
    int ret;

    kit_host = &plugin_host;
    ret = cmocka_run_group_tests(tests, setup, teardown);
    ofi_enumerate_cleanup();
    return ret;
}
