/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash table, and the hash of strings.
 */
#include "mercury_hash_string.h"
#include "mercury_hash_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int freed_keys;
static int freed_values;

static unsigned int hash(hg_hash_table_key_t key)
{
    return hg_hash_string(key);
}

/* Puts all keys into one chain. */
static unsigned int bad_hash(hg_hash_table_key_t key)
{
    (void) key;
    return 5;
}

static int equal(hg_hash_table_key_t key1, hg_hash_table_key_t key2)
{
    return strcmp(key1, key2) == 0;
}

static void free_key(hg_hash_table_key_t key)
{
    freed_keys++;
    free(key);
}

static void free_value(hg_hash_table_value_t value)
{
    freed_values++;
    free(value);
}

static void strings_have_the_hash_that_is_known(void **state)
{
    (void) state;
    assert_int_equal(hg_hash_string(""), 5381);
    assert_int_equal(hg_hash_string("a"), 5381 * 33 + 'a');
    assert_int_equal(hg_hash_string("\xff"), 5381 * 33 + 255);
}

static void use_table(hg_hash_table_hash_func_t hash_func)
{
    hg_hash_table_t *table = hg_hash_table_new(hash_func, equal);
    hg_hash_table_iter_t iter;
    unsigned int seen = 0;
    char key[16];

    assert_non_null(table);
    freed_keys = freed_values = 0;
    hg_hash_table_register_free_functions(table, free_key, free_value);
    for (int i = 0; i < 200; i++) {
        (void) snprintf(key, sizeof(key), "key %d", i);
        assert_int_not_equal(hg_hash_table_insert(table, strdup(key), strdup(key)), 0);
    }
    assert_int_equal(hg_hash_table_num_entries(table), 200);
    assert_string_equal(hg_hash_table_lookup(table, "key 117"), "key 117");
    assert_ptr_equal(hg_hash_table_lookup(table, "key 200"), HG_HASH_TABLE_NULL);

    /* A new value for an existing key frees the old key and value. */
    assert_int_not_equal(hg_hash_table_insert(table, strdup("key 3"), strdup("new")), 0);
    assert_int_equal(hg_hash_table_num_entries(table), 200);
    assert_int_equal(freed_keys, 1);
    assert_int_equal(freed_values, 1);
    assert_string_equal(hg_hash_table_lookup(table, "key 3"), "new");

    assert_int_not_equal(hg_hash_table_remove(table, "key 4"), 0);
    assert_int_equal(hg_hash_table_remove(table, "key 4"), 0);
    assert_int_equal(freed_keys, 2);

    hg_hash_table_iterate(table, &iter);
    while (hg_hash_table_iter_has_more(&iter)) {
        char *value = hg_hash_table_iter_next(&iter);

        assert_non_null(value);
        seen++;
        (void) snprintf(key, sizeof(key), "%.15s", strcmp(value, "new") == 0 ? "key 3" : value);
        assert_int_not_equal(hg_hash_table_remove(table, key), 0);
    }
    assert_int_equal(seen, 199);
    assert_ptr_equal(hg_hash_table_iter_next(&iter), HG_HASH_TABLE_NULL);
    assert_int_equal(hg_hash_table_num_entries(table), 0);

    assert_int_not_equal(hg_hash_table_insert(table, strdup("last"), strdup("last")), 0);
    hg_hash_table_free(table);
    assert_int_equal(freed_keys, 202);
    assert_int_equal(freed_values, 202);
}

static void a_table_keeps_what_it_is_given(void **state)
{
    (void) state;
    use_table(hash);
}

static void keys_of_one_hash_are_told_apart(void **state)
{
    (void) state;
    use_table(bad_hash);
}

static void a_table_needs_its_functions(void **state)
{
    (void) state;
    assert_null(hg_hash_table_new(NULL, equal));
    assert_null(hg_hash_table_new(hash, NULL));
    hg_hash_table_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_have_the_hash_that_is_known),
        cmocka_unit_test(a_table_keeps_what_it_is_given),
        cmocka_unit_test(keys_of_one_hash_are_told_apart),
        cmocka_unit_test(a_table_needs_its_functions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
