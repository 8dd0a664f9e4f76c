/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory: lookup by key, rights and bounds, and forged handles. */

#include "kit_region.h"

#include "../kit/plugin_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH 1000u
#define READ   NA_PLUGIN_MEM_READ
#define WRITE  NA_PLUGIN_MEM_WRITE

struct fixture {
    struct kit_regions regions;
    struct kit_region region;
    uint8_t memory[LENGTH];
};

static int open_regions(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    kit_host = &plugin_host;
    *state = fixture;
    return fixture == NULL || kit_regions_open(&fixture->regions) != NA_PLUGIN_SUCCESS ||
           kit_region_add(&fixture->regions, &fixture->region, fixture->memory, LENGTH, READ) !=
               NA_PLUGIN_SUCCESS;
}

static int close_regions(void **state)
{
    struct fixture *fixture = *state;

    kit_region_remove(&fixture->region);
    kit_regions_close(&fixture->regions);
    free(fixture);
    return 0;
}

static int32_t find(struct fixture *fixture, uint32_t access, uint64_t offset, uint64_t length)
{
    struct kit_region *region = NULL;
    int32_t ret = kit_region_find(&fixture->regions, fixture->region.id, &fixture->region.key,
                                  access, offset, length, &region);

    assert_true((ret == NA_PLUGIN_SUCCESS) == (region == &fixture->region));
    return ret;
}

static void rights_and_bounds_are_kept(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(find(fixture, READ, 0, 1), NA_PLUGIN_PERMISSION); /* not registered yet */
    assert_int_equal(kit_region_register(&fixture->regions, &fixture->region), NA_PLUGIN_SUCCESS);
    assert_int_equal(find(fixture, READ, 0, LENGTH), NA_PLUGIN_SUCCESS);
    assert_int_equal(find(fixture, READ, LENGTH, 0), NA_PLUGIN_SUCCESS);
    assert_int_equal(find(fixture, READ, LENGTH - 1, 1), NA_PLUGIN_SUCCESS);
    assert_int_equal(find(fixture, READ, 0, LENGTH + 1), NA_PLUGIN_OVERFLOW);
    assert_int_equal(find(fixture, READ, LENGTH, 1), NA_PLUGIN_OVERFLOW);
    assert_int_equal(find(fixture, READ, UINT64_MAX, 2), NA_PLUGIN_OVERFLOW);
    assert_int_equal(find(fixture, READ, 2, UINT64_MAX), NA_PLUGIN_OVERFLOW);
    assert_int_equal(find(fixture, WRITE, 0, 1), NA_PLUGIN_PERMISSION);
    assert_int_equal(find(fixture, READ | WRITE, 0, 1), NA_PLUGIN_PERMISSION);
}

static void nobody_finds_it_without_its_key(void **state)
{
    struct fixture *fixture = *state;
    struct kit_key key;
    uint64_t id;

    assert_int_equal(kit_region_register(&fixture->regions, &fixture->region), NA_PLUGIN_SUCCESS);
    key = fixture->region.key;
    id = fixture->region.id;
    for (int bit = 0; bit < 128; bit++) {
        struct kit_region *region = NULL;

        key.word[bit / 64] ^= UINT64_C(1) << bit % 64;
        assert_int_equal(kit_region_find(&fixture->regions, id, &key, READ, 0, 1, &region),
                         NA_PLUGIN_PERMISSION);
        key.word[bit / 64] ^= UINT64_C(1) << bit % 64;
        if (bit < 64)
            assert_int_equal(kit_region_find(&fixture->regions, id ^ UINT64_C(1) << bit, &key, READ,
                                             0, 1, &region),
                             NA_PLUGIN_PERMISSION);
        assert_null(region);
    }
}

static void it_is_gone_after_deregistration(void **state)
{
    struct fixture *fixture = *state;
    struct kit_region *region;
    struct kit_key key;
    uint64_t id;

    assert_int_equal(kit_region_register(&fixture->regions, &fixture->region), NA_PLUGIN_SUCCESS);
    key = fixture->region.key;
    id = fixture->region.id;
    kit_region_deregister(&fixture->regions, &fixture->region);
    assert_int_equal(find(fixture, READ, 0, 1), NA_PLUGIN_PERMISSION);
    kit_region_deregister(&fixture->regions, &fixture->region);
    assert_int_equal(kit_region_register(&fixture->regions, &fixture->region), NA_PLUGIN_SUCCESS);
    assert_false(kit_key_is_equal(&key, &fixture->region.key));
    assert_int_equal(kit_region_find(&fixture->regions, id, &key, READ, 0, 1, &region),
                     NA_PLUGIN_PERMISSION);
    assert_int_equal(find(fixture, READ, 0, 1), NA_PLUGIN_SUCCESS);
}

static void impossible_ranges_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct kit_region region = {.id = 0};
    /* ten bytes before the end of the address space */
    void *last = (void *) (uintptr_t) (UINT64_MAX - 9);

    assert_int_equal(kit_region_add(&fixture->regions, &region, last, 10, READ),
                     NA_PLUGIN_INVALID_ARG);
    assert_int_equal(kit_region_add(&fixture->regions, &region, NULL, UINT64_C(1) << 63, READ),
                     NA_PLUGIN_INVALID_ARG);
    assert_int_equal(kit_region_add(&fixture->regions, &region, last, 9, READ), NA_PLUGIN_SUCCESS);
    kit_region_remove(&region);
}

static int32_t unpack(struct fixture *fixture, const uint8_t *bytes, uint64_t size,
                      struct kit_region *region)
{
    const void *extra;
    uint32_t extra_size;
    int32_t ret;

    memset(region, 0, sizeof(*region));
    ret = kit_region_unpack(&fixture->regions, bytes, size, region, &extra, &extra_size);
    if (ret == NA_PLUGIN_SUCCESS)
        kit_region_remove(region);
    return ret;
}

static void a_handle_says_all_that_is_needed(void **state)
{
    struct fixture *fixture = *state;
    uint8_t bytes[KIT_REGION_PACKED + 8];
    struct kit_region remote = {.id = 0}, *region = NULL;
    const void *extra = NULL;
    uint32_t extra_size = 0;

    assert_int_equal(kit_region_pack(&fixture->region, NULL, 0, bytes, sizeof(bytes)),
                     NA_PLUGIN_INVALID_ARG); /* not registered */
    assert_int_equal(kit_region_register(&fixture->regions, &fixture->region), NA_PLUGIN_SUCCESS);
    assert_int_equal(kit_region_pack(&fixture->region, "a fabric's", 9, bytes, sizeof(bytes)),
                     NA_PLUGIN_OVERFLOW);
    assert_int_equal(
        kit_region_pack(&fixture->region, bytes, KIT_REGION_EXTRA_MAX + 1, bytes, UINT64_MAX),
        NA_PLUGIN_INVALID_ARG);
    assert_int_equal(kit_region_pack(&fixture->region, "its key", 8, bytes, sizeof(bytes)),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(
        kit_region_unpack(&fixture->regions, bytes, sizeof(bytes), &remote, &extra, &extra_size),
        NA_PLUGIN_SUCCESS);
    assert_true(remote.is_remote && !remote.is_registered);
    assert_int_equal(extra_size, 8);
    assert_string_equal(extra, "its key");
    assert_true(remote.base == (uint64_t) (uintptr_t) fixture->memory && remote.length == LENGTH);
    assert_int_equal(remote.flags, READ);
    assert_true(remote.owner == fixture->regions.owner);
    assert_int_equal(
        kit_region_find(&fixture->regions, remote.id, &remote.key, READ, 0, LENGTH, &region),
        NA_PLUGIN_SUCCESS);
    assert_ptr_equal(region, &fixture->region);
    /* The handle of a peer's memory is serialized again unchanged, and cannot be registered
     * here. */
    assert_int_equal(kit_region_register(&fixture->regions, &remote), NA_PLUGIN_SUCCESS);
    assert_false(remote.is_registered);
    assert_int_equal(kit_region_pack(&remote, extra, extra_size, bytes, sizeof(bytes)),
                     NA_PLUGIN_SUCCESS);
    kit_region_remove(&remote);
    assert_int_equal(unpack(fixture, bytes, sizeof(bytes), &remote), NA_PLUGIN_SUCCESS);
}

static void damaged_handles_are_refused(void **state)
{
    struct fixture *fixture = *state;
    uint8_t bytes[KIT_REGION_PACKED + 8];
    struct kit_region remote;

    assert_int_equal(kit_region_register(&fixture->regions, &fixture->region), NA_PLUGIN_SUCCESS);
    assert_int_equal(kit_region_pack(&fixture->region, "its key", 8, bytes, sizeof(bytes)),
                     NA_PLUGIN_SUCCESS);
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t) (1 << bit % 8);
        assert_int_equal(unpack(fixture, bytes, sizeof(bytes), &remote), NA_PLUGIN_PROTOCOL_ERROR);
        bytes[bit / 8] ^= (uint8_t) (1 << bit % 8);
    }
    for (size_t size = 0; size < sizeof(bytes); size++)
        assert_int_equal(unpack(fixture, bytes, size, &remote), NA_PLUGIN_PROTOCOL_ERROR);
    assert_int_equal(unpack(fixture, bytes, sizeof(bytes), &remote), NA_PLUGIN_SUCCESS);
}

static int32_t grant(struct kit_region *region, uint64_t holder, uint32_t index, uint32_t epoch)
{
    return kit_region_grant(region,
                            &(struct kit_grant){.holder = holder, .index = index, .epoch = epoch});
}

static bool is_granted(struct kit_region *region, uint64_t holder, uint32_t index, uint32_t epoch)
{
    const struct kit_grant asked = {.holder = holder, .index = index, .epoch = epoch};

    return kit_region_is_granted(region, &asked);
}

/* A region can be granted to every possible peer. Places in the table are reused for later
 * peers. */
static void many_are_granted_a_region(void **state)
{
    struct fixture *fixture = *state;
    struct kit_region *region = &fixture->region;
    const uint32_t count = 10000;

    assert_int_equal(grant(region, 1, 0, 1), NA_PLUGIN_INVALID_ARG); /* not registered yet */
    assert_int_equal(kit_region_register(&fixture->regions, region), NA_PLUGIN_SUCCESS);
    assert_false(is_granted(region, 1, 0, 0));
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(grant(region, i + 1, i * 64, 2), NA_PLUGIN_SUCCESS);
        assert_true(is_granted(region, i + 1, i * 64, 2));
        assert_false(is_granted(region, i + 1, i * 64, 3)); /* a later session of the same peer */
        assert_false(is_granted(region, i + 2, i * 64, 0));
        assert_false(is_granted(region, i + 1, i * 64 + 1, 0));
    }
    assert_int_equal(region->grant_count, count);
    assert_true(region->grant_room <= 2 * count);
    for (uint32_t i = 0; i < count; i++)
        assert_true(is_granted(region, i + 1, i * 64, 2));
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(grant(region, count + i + 1, i * 64, 1), NA_PLUGIN_SUCCESS);
    assert_int_equal(region->grant_count, count);
    assert_true(region->grant_room <= 2 * count);
    for (uint32_t i = 0; i < count; i++) {
        assert_false(is_granted(region, i + 1, i * 64, 0));
        assert_true(is_granted(region, count + i + 1, i * 64, 1));
    }
    kit_region_deregister(&fixture->regions, region);
    assert_false(is_granted(region, count + 1, 0, 0));
    assert_int_equal(fixture->regions.grant_room, 0);
    assert_int_equal(kit_region_register(&fixture->regions, region), NA_PLUGIN_SUCCESS);
    assert_false(is_granted(region, count + 1, 0, 0));
}

/* A region whose table is full keeps its grants, and so do other regions with the same table. */
static void grants_have_a_bound(void **state)
{
    struct fixture *fixture = *state;
    struct kit_region *region = &fixture->region;
    const uint32_t most = KIT_GRANTS_MAX / 4 * 3;
    struct kit_region other = {.length = 0};

    assert_int_equal(kit_region_register(&fixture->regions, region), NA_PLUGIN_SUCCESS);
    for (uint32_t i = 0; i < most; i++)
        if (grant(region, i + 1, i, 1) != NA_PLUGIN_SUCCESS)
            fail_msg("only %u grants fit", i);
    assert_int_equal(grant(region, most + 1, most, 1), NA_PLUGIN_NOMEM);
    assert_true(is_granted(region, most, most - 1, 1));
    assert_int_equal(grant(region, most + 1, most - 1, 1), NA_PLUGIN_SUCCESS);
    assert_int_equal(kit_region_add(&fixture->regions, &other, fixture->memory, LENGTH, READ), 0);
    assert_int_equal(kit_region_register(&fixture->regions, &other), NA_PLUGIN_SUCCESS);
    assert_int_equal(grant(&other, 1, 0, 1), NA_PLUGIN_SUCCESS);
    assert_int_equal(grant(&other, 2, 1, 1), NA_PLUGIN_NOMEM);
    assert_true(is_granted(&other, 1, 0, 1));
    kit_region_deregister(&fixture->regions, region);
    assert_int_equal(grant(&other, 2, 1, 1), NA_PLUGIN_SUCCESS);
    kit_region_deregister(&fixture->regions, &other);
    kit_region_remove(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rights_and_bounds_are_kept, open_regions, close_regions),
        cmocka_unit_test_setup_teardown(nobody_finds_it_without_its_key, open_regions,
                                        close_regions),
        cmocka_unit_test_setup_teardown(it_is_gone_after_deregistration, open_regions,
                                        close_regions),
        cmocka_unit_test_setup_teardown(impossible_ranges_are_refused, open_regions, close_regions),
        cmocka_unit_test_setup_teardown(a_handle_says_all_that_is_needed, open_regions,
                                        close_regions),
        cmocka_unit_test_setup_teardown(damaged_handles_are_refused, open_regions, close_regions),
        cmocka_unit_test_setup_teardown(many_are_granted_a_region, open_regions, close_regions),
        cmocka_unit_test_setup_teardown(grants_have_a_bound, open_regions, close_regions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
