/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash table from pointers to pointers. It grows; it has no lock.
 */
#ifndef HG_HASH_TABLE_H
#define HG_HASH_TABLE_H

#include "mercury_util_config.h"

/* A table, a walk along it, and an entry of it; keys and values, which belong to the program. */
typedef struct hg_hash_table hg_hash_table_t;
typedef struct hg_hash_table_iter hg_hash_table_iter_t;
typedef struct hg_hash_table_entry hg_hash_table_entry_t;
typedef void *hg_hash_table_key_t;
typedef void *hg_hash_table_value_t;

/* A walk along a table; its fields belong to the functions below. */
struct hg_hash_table_iter {
    hg_hash_table_t *hash_table;
    hg_hash_table_entry_t *next_entry;
    unsigned int next_chain;
};

/* No value. */
#ifdef __cplusplus
#    define HG_HASH_TABLE_NULL nullptr
#else
#    define HG_HASH_TABLE_NULL ((void *) 0)
#endif

/* Hash of a key. */
typedef unsigned int (*hg_hash_table_hash_func_t)(hg_hash_table_key_t value);

/* Not 0 if two keys are equal. */
typedef int (*hg_hash_table_equal_func_t)(hg_hash_table_key_t value1, hg_hash_table_key_t value2);

/* Free a key or a value that leaves the table. */
typedef void (*hg_hash_table_key_free_func_t)(hg_hash_table_key_t value);
typedef void (*hg_hash_table_value_free_func_t)(hg_hash_table_value_t value);

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Make an empty table.
 *
 * \param hash_func [IN]    hash of a key
 * \param equal_func [IN]   compares keys
 *
 * \return table, to be freed by hg_hash_table_free(); NULL if a function is or memory is out
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC hg_hash_table_t *hg_hash_table_new(hg_hash_table_hash_func_t hash_func,
                                                  hg_hash_table_equal_func_t equal_func);

/**
 * Free a table with its keys and values, as far as there are functions that free them.
 *
 * \param hash_table [IN]   table, NULL is allowed
 *
 * One thread, after all others are done with the table. \since 1.0
 */
HG_UTIL_PUBLIC void hg_hash_table_free(hg_hash_table_t *hash_table);

/**
 * Say how keys and values are freed that are removed, replaced, or still there at the end.
 *
 * \param hash_table [IN]       table
 * \param key_free_func [IN]    frees keys; NULL if the table does not own them
 * \param value_free_func [IN]  frees values; NULL if the table does not own them
 *
 * One thread at a time. \since 1.0
 */
HG_UTIL_PUBLIC void hg_hash_table_register_free_functions(
    hg_hash_table_t *hash_table, hg_hash_table_key_free_func_t key_free_func,
    hg_hash_table_value_free_func_t value_free_func);

/**
 * Insert a value; one that the key has already is replaced, and so is the key.
 *
 * \param hash_table [IN]   table
 * \param key [IN]          key
 * \param value [IN]        value, not HG_HASH_TABLE_NULL if lookups are to tell it from none
 *
 * \return 1, or 0 if memory is out
 *
 * One thread at a time. \since 1.0
 */
HG_UTIL_PUBLIC int hg_hash_table_insert(hg_hash_table_t *hash_table, hg_hash_table_key_t key,
                                        hg_hash_table_value_t value);

/**
 * Find the value of a key.
 *
 * \param hash_table [IN]   table
 * \param key [IN]          key
 *
 * \return value, or HG_HASH_TABLE_NULL
 *
 * Any thread while none changes the table. \since 1.0
 */
HG_UTIL_PUBLIC hg_hash_table_value_t hg_hash_table_lookup(hg_hash_table_t *hash_table,
                                                          hg_hash_table_key_t key);

/**
 * Remove a key and its value.
 *
 * \param hash_table [IN]   table
 * \param key [IN]          key
 *
 * \return 1, or 0 if there is no such key
 *
 * One thread at a time. \since 1.0
 */
HG_UTIL_PUBLIC int hg_hash_table_remove(hg_hash_table_t *hash_table, hg_hash_table_key_t key);

/**
 * \return number of keys
 * \param hash_table [IN]   table
 *
 * Any thread while none changes the table. \since 1.0
 */
HG_UTIL_PUBLIC unsigned int hg_hash_table_num_entries(hg_hash_table_t *hash_table);

/**
 * Begin a walk along all values. The entry that was returned last may be removed meanwhile; nothing
 * may be inserted.
 *
 * \param hash_table [IN]   table
 * \param iter [OUT]        walk
 *
 * One thread at a time. \since 1.0
 */
HG_UTIL_PUBLIC void hg_hash_table_iterate(hg_hash_table_t *hash_table, hg_hash_table_iter_t *iter);

/**
 * \return not 0 if there is a further value
 * \param iterator [IN]     walk
 *
 * One thread at a time. \since 1.0
 */
HG_UTIL_PUBLIC int hg_hash_table_iter_has_more(hg_hash_table_iter_t *iterator);

/**
 * Go on to the next value.
 *
 * \param iterator [IN]     walk
 *
 * \return value, or HG_HASH_TABLE_NULL after the last one
 *
 * One thread at a time. \since 1.0
 */
HG_UTIL_PUBLIC hg_hash_table_value_t hg_hash_table_iter_next(hg_hash_table_iter_t *iterator);

#ifdef __cplusplus
}
#endif

#endif /* HG_HASH_TABLE_H */
