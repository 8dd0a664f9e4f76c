/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Maps of offsets to extents, compared with a table that has an entry for each byte.
 */
#include "bulk/bulk_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define EXTENT_MAX 40
#define LENGTH_MAX 30

static unsigned int seed = 1;

static unsigned int next_random(unsigned int below)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % below;
}

static void every_offset_is_found(void **state)
{
    static struct hg_bulk_extent extents[EXTENT_MAX];
    static char memory[EXTENT_MAX * 2 * LENGTH_MAX];

    (void) state;
    for (int round = 0; round < 200; round++) {
        char *places[EXTENT_MAX * LENGTH_MAX];
        struct hg_bulk_map map;
        char *place = memory;
        hg_size_t size = 0;

        map.extents = extents;
        map.count = 1 + next_random(EXTENT_MAX);
        for (uint32_t i = 0; i < map.count; i++) {
            extents[i].offset = size;
            extents[i].length = 1 + next_random(LENGTH_MAX - 1);
            extents[i].at.base = place;
            for (hg_size_t j = 0; j < extents[i].length; j++)
                places[size++] = place++;
            place++; /* a gap */
        }
        for (hg_size_t offset = 0; offset < size; offset++) {
            struct hg_bulk_cursor cursor = hg_bulk_cursor_at(&map, offset);

            assert_ptr_equal(cursor.extent->at.base + cursor.within, places[offset]);
            for (hg_size_t at = offset; at < size;) {
                hg_size_t left = hg_bulk_cursor_left(&cursor);
                hg_size_t step = 1 + next_random(LENGTH_MAX);

                assert_ptr_equal(cursor.extent->at.base + cursor.within, places[at]);
                assert_true(left > 0 && left <= size - at);
                step = step < left ? step : left;
                hg_bulk_cursor_advance(&cursor, step);
                at += step;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_offset_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
