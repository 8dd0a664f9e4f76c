/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each allocation of the core fails in turn while a class is opened, used and closed. Nothing
 * crashes or leaks (AddressSanitizer checks that), and everything works once allocations succeed
 * again. The linker wraps the allocation functions.
 */

#include "na_test.h"

#include <errno.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *ptr, size_t size);
char *__real_strdup(const char *string);
char *__real_strndup(const char *string, size_t length);
int __real_posix_memalign(void **ptr, size_t align, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
char *__wrap_strdup(const char *string);
char *__wrap_strndup(const char *string, size_t length);
int __wrap_posix_memalign(void **ptr, size_t align, size_t size);

/* The allocation that fails, counted from 1 (0: none), and the number of allocations so far. */
static unsigned int fail_at, allocations;
static bool fail_all_after;

static bool fails_now(void)
{
    allocations++;
    return fail_at != 0 && (allocations == fail_at || (fail_all_after && allocations > fail_at));
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *ptr, size_t size)
{
    return fails_now() ? NULL : __real_realloc(ptr, size);
}

char *__wrap_strdup(const char *string)
{
    return fails_now() ? NULL : __real_strdup(string);
}

char *__wrap_strndup(const char *string, size_t length)
{
    return fails_now() ? NULL : __real_strndup(string, length);
}

int __wrap_posix_memalign(void **ptr, size_t align, size_t size)
{
    return fails_now() ? ENOMEM : __real_posix_memalign(ptr, align, size);
}

/* Returns true if everything worked. */
static bool use_class(const char *init)
{
    na_class_t *na_class = NA_Initialize(init, false);
    na_context_t *context = na_class != NULL ? NA_Context_create(na_class) : NULL;
    na_op_id_t *op = context != NULL ? NA_Op_create(na_class, NA_OP_MULTI) : NULL;
    na_mem_handle_t *handle = NULL;
    struct na_segment segments[4];
    bool worked = false;
    void *data, *buf = NULL;
    char memory[4];

    for (int i = 0; i < 4; i++)
        segments[i] = (struct na_segment){memory + i, 1};
    if (op != NULL) {
        buf = NA_Msg_buf_alloc(na_class, 100, NA_SEND, &data);
        worked = buf != NULL && NA_Mem_handle_create_segments(
                                    na_class, segments, 4, NA_MEM_READWRITE, &handle) == NA_SUCCESS;
    }
    NA_Msg_buf_free(na_class, buf, NULL);
    NA_Mem_handle_free(na_class, handle);
    NA_Op_destroy(na_class, op);
    if (context != NULL)
        assert_int_equal(NA_Context_destroy(na_class, context), NA_SUCCESS);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    return worked;
}

static bool list_all(const char *query)
{
    struct na_plugin_record *records = NULL;
    struct na_protocol_info *list = NULL;
    bool worked = NA_Get_protocol_info(query, &list) == NA_SUCCESS &&
                  NA_Plugin_get_records(NA_LOADER_LOAD_ALL, &records) == NA_SUCCESS;

    NA_Free_protocol_info(list);
    NA_Plugin_free_records(records);
    return worked;
}

/* Fail the first allocation, then the second, and so on, until the run makes fewer allocations. */
static void fail_each(bool (*run)(const char *), const char *arg, bool all_after)
{
    unsigned int failed = 0;

    fail_all_after = all_after;
    for (fail_at = 1;; fail_at++) {
        allocations = 0;
        if (!run(arg))
            failed++;
        if (allocations < fail_at)
            break;
    }
    fail_at = 0;
    print_message("  %s: %u allocations, %u failed it\n", arg != NULL ? arg : "all", allocations,
                  failed);
    assert_true(failed > 0);
    assert_true(run(arg));
}

static void opening_and_using_a_class_survives_each_failing_allocation(void **state)
{
    (void) state;
    fail_each(use_class, "loop+self", false);
    fail_each(use_class, "loop+self", true);
}

static void selection_survives_each_failing_allocation(void **state)
{
    (void) state;
    fail_each(use_class, "nosuch+x,loop-alias+self://here,auto", false);
    fail_each(use_class, "auto", false);
    fail_each(use_class, "self", true);
}

static void listing_survives_each_failing_allocation(void **state)
{
    (void) state;
    fail_each(list_all, "loop+self", false);
    fail_each(list_all, NULL, false);
    fail_each(list_all, NULL, true);
}

static void steady_use_allocates_nothing(void **state)
{
    struct loop loop;
    na_op_id_t *op;

    (void) state;
    loop_open(&loop, "loop+self");
    op = NA_Op_create(loop.na_class, NA_OP_SINGLE);
    allocations = 0;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(NA_Msg_send_expected(loop.na_class, loop.context, NULL, NULL, "x", 1, NULL,
                                              loop.self, 0, 0, op),
                         NA_SUCCESS);
        assert_int_equal(NA_Progress(loop.na_class, loop.context, 100), NA_SUCCESS);
        assert_int_equal(trigger_all(loop.context), 1);
    }
    assert_int_equal(allocations, 0);
    NA_Op_destroy(loop.na_class, op);
    loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_and_using_a_class_survives_each_failing_allocation),
        cmocka_unit_test(selection_survives_each_failing_allocation),
        cmocka_unit_test(listing_survives_each_failing_allocation),
        cmocka_unit_test(steady_use_allocates_nothing),
    };

    NA_Set_log_level("none");
    use_plugins("loop");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
