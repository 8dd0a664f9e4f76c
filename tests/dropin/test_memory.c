/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aligned and shared memory, and the pool of chunks.
 */
#include "mercury_mem.h"
#include "mercury_mem_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Counts calls of the functions that register blocks, and limits their number. */
struct registrar {
    const char *begins[8];
    size_t size;
    unsigned int count;
    unsigned int max;
    unsigned int undone;
};

static int register_block(const void *buf, size_t size, unsigned long flags, void **handle,
                          void *arg)
{
    struct registrar *registrar = arg;

    if (registrar->count == registrar->max || flags != 9)
        return HG_UTIL_FAIL;
    registrar->begins[registrar->count] = buf;
    registrar->size = size;
    *handle = &registrar->begins[registrar->count++];
    return HG_UTIL_SUCCESS;
}

static int deregister_block(void *handle, void *arg)
{
    struct registrar *registrar = arg;

    assert_non_null(handle);
    registrar->undone++;
    return HG_UTIL_SUCCESS;
}

static void memory_is_aligned(void **state)
{
    (void) state;
    assert_int_equal(hg_mem_get_page_size(), sysconf(_SC_PAGESIZE));
    assert_true(hg_mem_get_hugepage_size() >= 0);
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        char *mem = hg_mem_aligned_alloc(alignment, 100);
        char *behind = hg_mem_header_alloc(24, alignment, 100);

        assert_non_null(mem);
        assert_int_equal((uintptr_t) mem % alignment, 0);
        assert_non_null(behind);
        assert_int_equal((uintptr_t) behind % alignment, 0);
        memset(mem, 1, 100);
        memset(behind - 24, 1, 124);
        hg_mem_aligned_free(mem);
        hg_mem_header_free(24, alignment, behind);
    }
    hg_mem_header_free(24, 0, hg_mem_header_alloc(24, 0, 8));
    assert_null(hg_mem_aligned_alloc(24, 100));
    assert_null(hg_mem_header_alloc(24, 64, SIZE_MAX - 32));
}

static void huge_pages_are_had_or_not(void **state)
{
    size_t size = (size_t) hg_mem_get_hugepage_size();
    char *mem = size > 0 ? hg_mem_huge_alloc(size) : NULL;

    (void) state;
    if (mem == NULL)
        return; /* the system may have no huge pages to spare */
    memset(mem, 1, size);
    assert_int_equal(hg_mem_huge_free(mem, size), HG_UTIL_SUCCESS);
}

static void shared_memory_is_seen_by_its_name(void **state)
{
    char name[64];
    char *mem;
    char *again;

    (void) state;
    (void) snprintf(name, sizeof(name), "/amalgam-dropin-%d", (int) getpid());
    assert_null(hg_mem_shm_map(name, 4096, false));
    mem = hg_mem_shm_map(name, 4096, true);
    assert_non_null(mem);
    again = hg_mem_shm_map(name, 4096, false);
    assert_non_null(again);
    assert_null(hg_mem_shm_map(name, 8192, false)); /* larger than the object */
    mem[5] = 'x';
    assert_int_equal(again[5], 'x');
    assert_int_equal(hg_mem_shm_unmap(NULL, again, 4096), HG_UTIL_SUCCESS);
    assert_int_equal(hg_mem_shm_unmap(name, mem, 4096), HG_UTIL_SUCCESS);
    assert_int_equal(hg_mem_shm_unmap(name, NULL, 0), HG_UTIL_FAIL);
}

static void a_pool_grows_by_blocks(void **state)
{
    struct registrar registrar = {.max = 3};
    struct hg_mem_pool *pool =
        hg_mem_pool_create(100, 4, 2, register_block, 9, deregister_block, &registrar);
    void *chunks[12];
    void *handles[12];

    (void) state;
    assert_non_null(pool);
    assert_int_equal(registrar.count, 2);
    assert_null(hg_mem_pool_alloc(pool, 101, NULL));
    for (int i = 0; i < 12; i++) {
        const char *begin;

        chunks[i] = hg_mem_pool_alloc(pool, 100, &handles[i]);
        assert_non_null(chunks[i]);
        begin = *(const char **) handles[i];
        assert_ptr_equal(begin + hg_mem_pool_chunk_offset(pool, chunks[i], handles[i]), chunks[i]);
        assert_true((const char *) chunks[i] + 100 <= begin + registrar.size);
        memset(chunks[i], i, 100);
    }
    assert_int_equal(registrar.count, 3);
    assert_null(hg_mem_pool_alloc(pool, 1, NULL)); /* the fourth block is refused */
    for (int i = 0; i < 12; i++) {
        assert_int_equal(((char *) chunks[i])[0], i);
        assert_int_equal(((char *) chunks[i])[99], i);
        hg_mem_pool_free(pool, chunks[i], handles[i]);
    }
    assert_non_null(hg_mem_pool_alloc(pool, 100, NULL));
    hg_mem_pool_destroy(pool);
    assert_int_equal(registrar.undone, 3);
}

static void a_pool_that_cannot_be_is_none(void **state)
{
    struct registrar registrar = {.max = 1};

    (void) state;
    assert_null(hg_mem_pool_create(0, 4, 2, NULL, 0, NULL, NULL));
    assert_null(hg_mem_pool_create(100, 0, 2, NULL, 0, NULL, NULL));
    assert_null(hg_mem_pool_create(SIZE_MAX / 2, 4, 2, NULL, 0, NULL, NULL));
    assert_null(hg_mem_pool_create(64, 4, 2, register_block, 9, deregister_block, &registrar));
    assert_int_equal(registrar.undone, 1); /* the block that was registered before */
    hg_mem_pool_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned),
        cmocka_unit_test(huge_pages_are_had_or_not),
        cmocka_unit_test(shared_memory_is_seen_by_its_name),
        cmocka_unit_test(a_pool_grows_by_blocks),
        cmocka_unit_test(a_pool_that_cannot_be_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
