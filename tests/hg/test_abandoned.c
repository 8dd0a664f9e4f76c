/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table in which a target remembers the forwards that their origins abandoned. It keeps the
 * latest HG_ABANDONED_MAX ones, each once.
 */
#include "hg/abandoned.h"
#include "hg/header.h"
#include "hg_fixture.h"

#define MANY (3 * HG_ABANDONED_MAX)

struct table {
    struct hg_abandoned_table *table;
    const hg_class_t *hg_class;
    na_class_t *na_class;
    na_addr_t *self;
    uint32_t addresses; /* references to addresses that the table holds */
};

static void table_open(struct table *table, const struct pair *pair)
{
    table->hg_class = pair->target.hg_class;
    table->na_class = table->hg_class->paths[HG_PATH_MAIN].na_class;
    table->table = hg_abandoned_new();
    table->addresses = 0;
    assert_non_null(table->table);
    assert_int_equal(NA_Addr_self(table->na_class, &table->self), NA_SUCCESS);
}

static void table_close(struct table *table)
{
    hg_abandoned_free(table->table, table->hg_class);
    NA_Addr_free(table->na_class, table->self);
}

static struct hg_abandoned numbered(const struct table *table, uint32_t i)
{
    return (struct hg_abandoned){.na_addr = table->self,
                                 .id = 1 + i % 3,
                                 .tag = i / 7,
                                 .cookie = i & HG_COOKIE_MASK,
                                 .origin = (uint8_t) i};
}

static void table_add(struct table *table, uint32_t i)
{
    struct hg_abandoned abandoned = numbered(table, i);
    na_addr_t *old;
    uint8_t path;

    assert_int_equal(NA_Addr_dup(table->na_class, table->self, &abandoned.na_addr), NA_SUCCESS);
    table->addresses++;
    old = hg_abandoned_add(table->table, table->hg_class, &abandoned, &path);
    if (old == NULL)
        return;
    assert_int_equal(path, HG_PATH_MAIN);
    NA_Addr_free(table->na_class, old);
    table->addresses--;
}

static bool table_take(struct table *table, uint32_t i)
{
    const struct hg_abandoned wanted = numbered(table, i);
    na_addr_t *na_addr = hg_abandoned_take(table->table, table->hg_class, &wanted);

    if (na_addr == NULL)
        return false;
    NA_Addr_free(table->na_class, na_addr);
    table->addresses--;
    return true;
}

static void thousands_are_remembered(void **state)
{
    struct table table;

    table_open(&table, *state);
    assert_false(table_take(&table, 0));
    assert_true(HG_ABANDONED_MAX >= 1000);
    for (uint32_t i = 0; i < HG_ABANDONED_MAX; i++)
        table_add(&table, i);
    /* The entries are taken in another order than they were added. */
    for (uint32_t i = 0; i < HG_ABANDONED_MAX; i++)
        assert_true(table_take(&table, i * 1237u % HG_ABANDONED_MAX));
    for (uint32_t i = 0; i < HG_ABANDONED_MAX; i++)
        assert_false(table_take(&table, i));
    assert_int_equal(table.addresses, 0);
    table_close(&table);
}

static void the_oldest_are_forgotten(void **state)
{
    struct table table;
    uint32_t found = 0;

    table_open(&table, *state);
    for (uint32_t i = 0; i < MANY; i++) {
        table_add(&table, i);
        /* Entries that were taken before leave holes in the ring, which must not matter. */
        if (i % 5 == 0)
            assert_true(table_take(&table, i));
    }
    assert_in_range(table.addresses, 1, HG_ABANDONED_MAX);
    for (uint32_t i = 0; i < MANY; i++) {
        const bool is_there = i % 5 != 0 && i >= MANY - HG_ABANDONED_MAX;

        assert_int_equal(table_take(&table, i), is_there);
        found += is_there;
    }
    assert_true(found > 0);
    assert_int_equal(table.addresses, 0);
    table_close(&table);
}

/* A peer that abandons the same forward repeatedly does not displace other entries. */
static void each_is_there_once(void **state)
{
    struct table table;

    table_open(&table, *state);
    table_add(&table, 1);
    for (uint32_t i = 0; i < MANY; i++)
        table_add(&table, 2);
    assert_int_equal(table.addresses, 2);
    assert_true(table_take(&table, 1));
    assert_true(table_take(&table, 2));
    assert_false(table_take(&table, 2));
    table_close(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_are_remembered),
        cmocka_unit_test(the_oldest_are_forgotten),
        cmocka_unit_test(each_is_there_once),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
