/* SPDX-License-Identifier: BSD-3-Clause */
/* Data from other processes: introductions and memory handles; complete, truncated and damaged. */

#include "ucx_test.h"

#include <setjmp.h>
#include <stdarg.h>

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#define COUNTED UINT32_C(0xc0ffee)

static bool is_counting, is_dry;

/* Replaces the function of libc. */
ssize_t getrandom(void *buf, size_t size, unsigned int flags)
{
    static uint32_t count;

    if (is_dry) {
        errno = ENOSYS;
        return -1;
    }
    if (!is_counting)
        return syscall(SYS_getrandom, buf, size, flags);
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t word = (uint64_t) COUNTED << 32 | ++count;

        memcpy((uint8_t *) buf + i, &word, sizeof(word));
    }
    return (ssize_t) size;
}

static struct na_plugin_class *open_class(const char *rma)
{
    struct na_plugin_init init = {
        .size = sizeof(init),
        .listen = 1,
        .class_name = "ucx",
        .protocol = "tcp",
        .address = "127.0.0.1",
        .max_contexts = 1,
    };
    struct na_plugin_class_info info = {.size = sizeof(info)};
    struct na_plugin_class *na_class = NULL;

    assert_int_equal(setenv("AMALGAM_UCX_RMA", rma, 1), 0);
    assert_int_equal(ucx_class_initialize(&init, NULL, &na_class, &info), NA_PLUGIN_SUCCESS);
    assert_int_equal(unsetenv("AMALGAM_UCX_RMA"), 0);
    return na_class;
}

/* Parses an introduction as it arrives at a socket: first the head, then everything. */
static const char *read_hello(const uint8_t *data, uint32_t size, struct ucx_hello *hello)
{
    uint32_t told = 0;
    const char *complaint = size < UCX_HELLO_HEAD ? "short" : ucx_hello_head(data, &told);

    if (complaint != NULL)
        return complaint;
    return told != size ? "size" : ucx_hello_read(data, size, hello);
}

static void introductions_are_checked(void **state)
{
    struct na_plugin_class *na_class = open_class("auto");
    struct ucx_link link = {
        .na_class = na_class, .worker = na_class->worker, .id = UINT64_C(0x0102030405060708)};
    struct ucx_hello hello;
    uint32_t size = 0;
    uint8_t *data = ucx_hello_write(&link, &size);

    (void) state;
    assert_non_null(data);
    assert_null(read_hello(data, size, &hello));
    assert_true(hello.incarnation == na_class->incarnation && hello.link_id == link.id);
    assert_string_equal(hello.name, na_class->name);
    assert_int_equal(hello.address_size, na_class->worker->address_size);
    assert_memory_equal(hello.address, na_class->worker->address, na_class->worker->address_size);
    for (uint32_t i = 0; i < size; i++)
        assert_non_null(read_hello(data, i, &hello));
    for (uint32_t i = 0; i < size; i++) {
        for (uint32_t bit = 0; bit < 8; bit++) {
            data[i] ^= (uint8_t) (1u << bit);
            /* Bytes 6 and 7 are reserved; the tag is checked with the key. */
            if (i != 6 && i != 7 && (i < UCX_HELLO_CODES || i >= UCX_HELLO_REST))
                assert_non_null(read_hello(data, size, &hello));
            data[i] ^= (uint8_t) (1u << bit);
        }
    }
    free(data);
    assert_int_equal(ucx_class_finalize(na_class), NA_PLUGIN_SUCCESS);
}

/* The copies have exactly the announced size, so that an overrun is detected. */
static int32_t read_handle(struct na_plugin_class *na_class, const void *packed, uint64_t size)
{
    struct na_plugin_mem *mem = NULL;
    void *copy = malloc(size != 0 ? size : 1);
    int32_t ret;

    assert_non_null(copy);
    memcpy(copy, packed, size);
    ret = ucx_mem_deserialize(na_class, copy, size, &mem);
    free(copy);
    if (ret == NA_PLUGIN_SUCCESS)
        ucx_mem_destroy(na_class, mem);
    return ret;
}

static void check_handles(const char *rma, bool has_key)
{
    struct na_plugin_class *na_class = open_class(rma);
    struct na_plugin_mem *mem;
    static uint8_t memory[4096];
    uint8_t packed[8192];
    uint64_t size;

    assert_int_equal(ucx_mem_create(na_class, memory, sizeof(memory), NA_PLUGIN_MEM_READ, &mem), 0);
    assert_int_not_equal(ucx_mem_serialize(na_class, mem, packed, sizeof(packed)), 0);
    assert_int_equal(ucx_mem_register(na_class, mem, NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
    size = ucx_mem_serialize_size(na_class, mem);
    assert_true(size <= sizeof(packed));
    assert_int_equal(mem->packed_size != 0, has_key);
    assert_int_equal(ucx_mem_serialize(na_class, mem, packed, size - 1), NA_PLUGIN_OVERFLOW);
    assert_int_equal(ucx_mem_serialize(na_class, mem, packed, size), 0);
    assert_int_equal(read_handle(na_class, packed, size), 0);
    for (uint64_t i = 0; i < size; i++)
        assert_int_equal(read_handle(na_class, packed, i), NA_PLUGIN_PROTOCOL_ERROR);
    for (uint64_t i = 0; i < size; i++) {
        packed[i] ^= 0x41;
        assert_int_equal(read_handle(na_class, packed, size), NA_PLUGIN_PROTOCOL_ERROR);
        packed[i] ^= 0x41;
    }
    ucx_mem_destroy(na_class, mem);
    assert_int_equal(ucx_class_finalize(na_class), NA_PLUGIN_SUCCESS);
}

static void handles_are_checked(void **state)
{
    (void) state;
    check_handles("messages", false);
    check_handles("ucp", true);
}

static void regions_are_found_by_id_key_rights_and_bounds(void **state)
{
    struct na_plugin_class *na_class = open_class("messages");
    const struct kit_regions *regions = &na_class->regions;
    struct kit_region *found = NULL;
    struct na_plugin_mem *mem;
    static uint8_t memory[100];
    struct kit_key key, wrong;
    uint64_t id;

    (void) state;
    assert_int_equal(ucx_mem_create(na_class, memory, sizeof(memory), NA_PLUGIN_MEM_READ, &mem), 0);
    assert_int_equal(ucx_mem_register(na_class, mem, NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
    id = mem->region.id;
    key = mem->region.key;
    assert_int_equal(kit_region_find(regions, id, &key, NA_PLUGIN_MEM_READ, 0, 100, &found), 0);
    assert_ptr_equal(found, &mem->region);
    assert_int_equal(kit_region_find(regions, id, &key, NA_PLUGIN_MEM_READ, 100, 0, &found), 0);
    assert_int_equal(kit_region_find(regions, id, &key, NA_PLUGIN_MEM_READ, 1, 100, &found),
                     NA_PLUGIN_OVERFLOW);
    assert_int_equal(kit_region_find(regions, id, &key, NA_PLUGIN_MEM_READ, UINT64_MAX, 2, &found),
                     NA_PLUGIN_OVERFLOW);
    assert_int_equal(kit_region_find(regions, id, &key, NA_PLUGIN_MEM_READ, 2, UINT64_MAX, &found),
                     NA_PLUGIN_OVERFLOW);
    assert_int_equal(kit_region_find(regions, id, &key, NA_PLUGIN_MEM_WRITE, 0, 1, &found),
                     NA_PLUGIN_PERMISSION);
    for (int bit = 0; bit < 128; bit++) { /* the whole key is compared */
        wrong = key;
        wrong.word[bit / 64] ^= UINT64_C(1) << bit % 64;
        assert_int_equal(kit_region_find(regions, id, &wrong, NA_PLUGIN_MEM_READ, 0, 1, &found),
                         NA_PLUGIN_PERMISSION);
    }
    assert_int_equal(kit_region_find(regions, id + 1, &key, NA_PLUGIN_MEM_READ, 0, 1, &found),
                     NA_PLUGIN_PERMISSION);
    assert_int_equal(ucx_mem_deregister(na_class, mem), 0);
    assert_int_equal(kit_region_find(regions, id, &key, NA_PLUGIN_MEM_READ, 0, 1, &found),
                     NA_PLUGIN_PERMISSION);
    assert_int_equal(ucx_mem_register(na_class, mem, NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
    assert_true(mem->region.id != id && !kit_key_is_equal(&mem->region.key, &key));
    ucx_mem_destroy(na_class, mem);
    assert_int_equal(ucx_class_finalize(na_class), NA_PLUGIN_SUCCESS);
}

/* A key says nothing about any other key. */
static void keys_of_memory_are_random_numbers_of_the_system(void **state)
{
    struct na_plugin_class *na_class = open_class("messages");
    struct na_plugin_mem *mems[3 * KIT_KEYS], *last;
    static uint8_t memory[100];

    (void) state;
    is_counting = true;
    for (uint32_t i = 0; i < 3 * KIT_KEYS; i++) {
        struct na_plugin_mem **mem = &mems[i];

        assert_int_equal(ucx_mem_create(na_class, memory, 100, NA_PLUGIN_MEM_READ, mem), 0);
        assert_int_equal(ucx_mem_register(na_class, *mem, NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
        assert_int_equal((*mem)->region.key.word[0] >> 32, COUNTED);
        assert_int_equal((*mem)->region.key.word[1] >> 32, COUNTED);
        for (uint32_t k = 0; k < i; k++)
            assert_true(mems[k]->region.key.word[0] != (*mem)->region.key.word[0] &&
                        mems[k]->region.key.word[1] != (*mem)->region.key.word[1]);
    }
    is_counting = false;
    is_dry = true;
    assert_int_equal(ucx_mem_create(na_class, memory, 100, NA_PLUGIN_MEM_READ, &last), 0);
    assert_int_equal(ucx_mem_register(na_class, last, NA_PLUGIN_MEM_TYPE_HOST, 0),
                     NA_PLUGIN_IO_ERROR);
    is_dry = false;
    assert_int_equal(ucx_mem_register(na_class, last, NA_PLUGIN_MEM_TYPE_HOST, 0), 0);
    ucx_mem_destroy(na_class, last);
    for (uint32_t i = 0; i < 3 * KIT_KEYS; i++)
        ucx_mem_destroy(na_class, mems[i]);
    assert_int_equal(ucx_class_finalize(na_class), NA_PLUGIN_SUCCESS);
}

static void ids_are_not_used_twice(void **state)
{
    struct kit_table table = {0};
    uint64_t ids[200], id;
    int object;

    (void) state;
    assert_null(kit_table_find(&table, 0));
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(kit_table_add(&table, &object, &ids[i]), NA_PLUGIN_SUCCESS);
        assert_int_not_equal(ids[i], 0);
    }
    kit_table_remove(&table, ids[7]);
    kit_table_remove(&table, ids[7]);
    assert_null(kit_table_find(&table, ids[7]));
    assert_ptr_equal(kit_table_find(&table, ids[8]), &object);
    assert_int_equal(kit_table_add(&table, &object, &id), NA_PLUGIN_SUCCESS);
    assert_int_not_equal(id, ids[7]);
    assert_null(kit_table_find(&table, ids[7]));
    assert_null(kit_table_find(&table, UINT64_MAX));
    kit_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(introductions_are_checked),
        cmocka_unit_test(handles_are_checked),
        cmocka_unit_test(regions_are_found_by_id_key_rights_and_bounds),
        cmocka_unit_test(keys_of_memory_are_random_numbers_of_the_system),
        cmocka_unit_test(ids_are_not_used_twice),
    };

    return cmocka_run_group_tests(tests, ucx_test_setup, ucx_test_teardown);
}
