/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processors: sizes, the extra buffer and its owner, and strings and descriptors that decoding
 * allocates.
 */
#include "compat/compat_fixture.h"

static hg_class_t *hg_class;

static int class_open(void **state)
{
    (void) state;
    hg_class = test_class_open(HG_TRUE, NULL);
    return hg_class != NULL ? 0 : -1;
}

static int class_close(void **state)
{
    (void) state;
    return HG_Finalize(hg_class) == HG_SUCCESS ? 0 : -1;
}

static void sizes(void **state)
{
    uint8_t one = 1;
    uint16_t two = 2;
    uint64_t eight = 8;
    hg_size_t size = 8;
    char buf[64], bytes[] = "abc";
    hg_proc_t proc;

    (void) state;
    assert_int_equal(hg_proc_create(NULL, HG_NOHASH, &proc), HG_INVALID_ARG);
    assert_int_equal(hg_proc_create(hg_class, HG_NOHASH, &proc), HG_SUCCESS);
    assert_int_equal(hg_proc_get_size(proc), 0);
    assert_int_equal(hg_proc_reset(proc, buf, sizeof(buf), HG_ENCODE), HG_SUCCESS);
    assert_int_equal(hg_proc_get_op(proc), HG_ENCODE);
    assert_ptr_equal(hg_proc_get_class(proc), hg_class);
    assert_int_equal(hg_proc_uint8_t(proc, &one), HG_SUCCESS);
    assert_int_equal(hg_proc_uint16_t(proc, &two), HG_SUCCESS);
    assert_int_equal(hg_proc_get_size_used(proc), 3);
    assert_int_equal(hg_proc_uint64_t(proc, &eight), HG_SUCCESS);
    assert_int_equal(hg_proc_hg_size_t(proc, &size), HG_SUCCESS);
    assert_int_equal(hg_proc_bytes(proc, bytes, 3), HG_SUCCESS);
    assert_int_equal(hg_proc_bytes(proc, NULL, 0), HG_SUCCESS);
    assert_int_equal(hg_proc_get_size_used(proc), 22);
    assert_int_equal(hg_proc_get_size_left(proc), sizeof(buf) - 22);
    assert_int_equal(hg_proc_get_size(proc), sizeof(buf));
    assert_int_equal(hg_proc_flush(proc), HG_SUCCESS);
    assert_int_equal(hg_proc_free(proc), HG_SUCCESS);
    assert_int_equal(hg_proc_free(HG_PROC_NULL), HG_SUCCESS);
    assert_int_equal(hg_proc_create_set(hg_class, NULL, 9, HG_ENCODE, HG_NOHASH, &proc),
                     HG_INVALID_ARG);
}

/* A reset clears the flags and keeps the handle; HG_FREE needs no buffer and leaves integers. */
static void reset(void **state)
{
    uint32_t value = 5;
    char buf[8];
    hg_proc_t proc;

    (void) state;
    assert_int_equal(hg_proc_create_set(hg_class, buf, sizeof(buf), HG_ENCODE, HG_NOHASH, &proc),
                     HG_SUCCESS);
    assert_null(hg_proc_get_handle(proc));
    assert_int_equal(hg_proc_get_flags(proc), 0);
    hg_proc_set_flags(proc, HG_PROC_SM);
    hg_proc_set_handle(proc, (hg_handle_t) (void *) buf);
    assert_int_equal(hg_proc_reset(proc, NULL, 0, HG_FREE), HG_SUCCESS);
    assert_int_equal(hg_proc_get_flags(proc), 0);
    assert_ptr_equal(hg_proc_get_handle(proc), buf);
    assert_int_equal(hg_proc_uint32_t(proc, &value), HG_SUCCESS);
    assert_int_equal(value, 5);
    assert_null(hg_proc_save_ptr(proc, 4));
    assert_int_equal(hg_proc_free(proc), HG_SUCCESS);
}

/* Encoding continues in an extra buffer, which also contains everything encoded before. */
static void extra_buffer(void **state)
{
    uint64_t value = 0x1122, first;
    char buf[8], *extra;
    hg_proc_t proc;

    (void) state;
    assert_int_equal(hg_proc_create_set(hg_class, buf, sizeof(buf), HG_ENCODE, HG_NOHASH, &proc),
                     HG_SUCCESS);
    assert_int_equal(hg_proc_uint64_t(proc, &value), HG_SUCCESS);
    assert_int_equal(hg_proc_get_size_left(proc), 0);
    assert_null(hg_proc_get_extra_buf(proc));
    assert_int_equal(hg_proc_get_extra_size(proc), 0);
    assert_int_equal(hg_proc_uint64_t(proc, &value), HG_SUCCESS);
    assert_int_equal(hg_proc_get_size_used(proc), 16);
    assert_true(hg_proc_get_extra_size(proc) >= 16);
    assert_true(hg_proc_get_size(proc) >= 16);
    extra = hg_proc_get_extra_buf(proc);
    assert_non_null(extra);
    memcpy(&first, extra, sizeof(first));
    assert_int_equal(first, value);
    assert_int_equal(hg_proc_free(proc), HG_SUCCESS);
}

static void saved_pointers(void **state)
{
    char buf[8], *place;
    hg_proc_t proc;

    (void) state;
    assert_int_equal(hg_proc_create_set(hg_class, buf, sizeof(buf), HG_ENCODE, HG_NOHASH, &proc),
                     HG_SUCCESS);
    place = hg_proc_save_ptr(proc, 4);
    assert_ptr_equal(place, buf);
    assert_int_equal(hg_proc_get_size_used(proc), 4);
    assert_int_equal(hg_proc_restore_ptr(proc, place, 4), HG_SUCCESS);
    assert_int_equal(hg_proc_get_size_used(proc), 4);
    place = hg_proc_save_ptr(proc, 100);
    assert_ptr_equal(place, (char *) hg_proc_get_extra_buf(proc) + 4);
    assert_int_equal(hg_proc_get_size_used(proc), 104);
    assert_int_equal(hg_proc_free(proc), HG_SUCCESS);
}

/*
 * The program owns decoded strings until HG_FREE. NULL and the empty string are different values.
 */
static void strings(void **state)
{
    hg_const_string_t in[3] = {"hello", "", NULL};
    hg_string_t out[3];
    char buf[64];
    hg_proc_t proc;
    int i;

    (void) state;
    assert_int_equal(hg_proc_create_set(hg_class, buf, sizeof(buf), HG_ENCODE, HG_NOHASH, &proc),
                     HG_SUCCESS);
    for (i = 0; i < 3; i++)
        assert_int_equal(hg_proc_hg_const_string_t(proc, &in[i]), HG_SUCCESS);
    assert_int_equal(hg_proc_reset(proc, buf, sizeof(buf), HG_DECODE), HG_SUCCESS);
    for (i = 0; i < 3; i++)
        assert_int_equal(hg_proc_hg_string_t(proc, &out[i]), HG_SUCCESS);
    memset(buf, 0, sizeof(buf));
    assert_string_equal(out[0], "hello");
    assert_string_equal(out[1], "");
    assert_null(out[2]);
    assert_int_equal(hg_proc_reset(proc, NULL, 0, HG_FREE), HG_SUCCESS);
    for (i = 0; i < 3; i++)
        assert_int_equal(hg_proc_hg_string_t(proc, &out[i]), HG_SUCCESS);
    assert_int_equal(hg_proc_free(proc), HG_SUCCESS);
}

static void string_objects(void **state)
{
    hg_string_object_t string, copy;
    char owned[] = "abc", *text = malloc(sizeof(owned));

    (void) state;
    assert_non_null(text);
    memcpy(text, owned, sizeof(owned));
    assert_int_equal(hg_string_object_init(&string), HG_SUCCESS);
    assert_null(string.data);
    assert_int_equal(hg_string_object_free(&string), HG_SUCCESS);
    assert_int_equal(hg_string_object_init_char(&string, text, 1), HG_SUCCESS);
    assert_ptr_equal(string.data, text);
    assert_true(string.is_owned);
    assert_int_equal(hg_string_object_dup(string, &copy), HG_SUCCESS);
    assert_true(copy.is_owned);
    assert_int_equal(hg_string_object_free(&string), HG_SUCCESS);
    assert_null(string.data);
    assert_string_equal(copy.data, "abc");
    assert_int_equal(hg_string_object_free(&copy), HG_SUCCESS);
    assert_int_equal(hg_string_object_init_const_char(&string, owned, 0), HG_SUCCESS);
    assert_true(string.is_const);
    assert_ptr_equal(hg_string_object_swap(&string, NULL), owned);
    assert_int_equal(hg_string_object_free(&string), HG_SUCCESS);
    assert_string_equal(owned, "abc");
}

/* Decoding creates a descriptor; HG_FREE frees it and sets it to HG_BULK_NULL. */
static void descriptors(void **state)
{
    static char memory[10], buf[2048];
    void *ptr = memory;
    hg_size_t size = sizeof(memory);
    hg_bulk_t none = HG_BULK_NULL, bulk, out[2];
    hg_proc_t proc;

    (void) state;
    assert_int_equal(HG_Bulk_create(hg_class, 1, &ptr, &size, HG_BULK_READ_ONLY, &bulk),
                     HG_SUCCESS);
    assert_int_equal(hg_proc_create_set(hg_class, buf, sizeof(buf), HG_ENCODE, HG_NOHASH, &proc),
                     HG_SUCCESS);
    assert_int_equal(hg_proc_hg_bulk_t(proc, &none), HG_SUCCESS);
    assert_int_equal(hg_proc_hg_bulk_t(proc, &bulk), HG_SUCCESS);
    assert_int_equal(hg_proc_reset(proc, buf, sizeof(buf), HG_DECODE), HG_SUCCESS);
    assert_int_equal(hg_proc_hg_bulk_t(proc, &out[0]), HG_SUCCESS);
    assert_int_equal(hg_proc_hg_bulk_t(proc, &out[1]), HG_SUCCESS);
    assert_null(out[0]);
    assert_int_equal(HG_Bulk_free(bulk), HG_SUCCESS);
    assert_int_equal(HG_Bulk_get_size(out[1]), sizeof(memory));
    assert_int_equal(hg_proc_reset(proc, NULL, 0, HG_FREE), HG_SUCCESS);
    assert_int_equal(hg_proc_hg_bulk_t(proc, &out[0]), HG_SUCCESS);
    assert_int_equal(hg_proc_hg_bulk_t(proc, &out[1]), HG_SUCCESS);
    assert_null(out[1]);
    assert_int_equal(hg_proc_free(proc), HG_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),        cmocka_unit_test(reset),
        cmocka_unit_test(extra_buffer), cmocka_unit_test(saved_pointers),
        cmocka_unit_test(strings),      cmocka_unit_test(string_objects),
        cmocka_unit_test(descriptors),
    };

    return cmocka_run_group_tests(tests, class_open, class_close);
}
