/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash table: chains of entries, whose number is a power of two and doubles when there are more
 * entries than chains.
 */
#include "mercury_hash_table.h"

#include <limits.h>
#include <stdlib.h>

#define HG_HASH_TABLE_CHAINS 16u

struct hg_hash_table_entry {
    hg_hash_table_key_t key;
    hg_hash_table_value_t value;
    unsigned int hash;
    hg_hash_table_entry_t *next;
};

struct hg_hash_table {
    hg_hash_table_entry_t **chains;
    unsigned int chain_count;
    unsigned int entry_count;
    hg_hash_table_hash_func_t hash_func;
    hg_hash_table_equal_func_t equal_func;
    hg_hash_table_key_free_func_t key_free_func;
    hg_hash_table_value_free_func_t value_free_func;
};

static hg_hash_table_entry_t **hg_hash_table_find(hg_hash_table_t *hash_table,
                                                  hg_hash_table_key_t key, unsigned int hash);
static void hg_hash_table_grow(hg_hash_table_t *hash_table);
static void hg_hash_table_free_content(hg_hash_table_t *hash_table, hg_hash_table_entry_t *entry);
static void hg_hash_table_iter_skip(hg_hash_table_iter_t *iter);

hg_hash_table_t *hg_hash_table_new(hg_hash_table_hash_func_t hash_func,
                                   hg_hash_table_equal_func_t equal_func)
{
    hg_hash_table_t *hash_table;

    if (hash_func == NULL || equal_func == NULL)
        return NULL;
    hash_table = calloc(1, sizeof(*hash_table));
    if (hash_table == NULL)
        return NULL;
    hash_table->hash_func = hash_func;
    hash_table->equal_func = equal_func;
    hash_table->chain_count = HG_HASH_TABLE_CHAINS;
    hash_table->chains = calloc(hash_table->chain_count, sizeof(hash_table->chains[0]));
    if (hash_table->chains == NULL) {
        free(hash_table);
        return NULL;
    }
    return hash_table;
}

void hg_hash_table_free(hg_hash_table_t *hash_table)
{
    if (hash_table == NULL)
        return;
    for (unsigned int i = 0; i < hash_table->chain_count; i++) {
        hg_hash_table_entry_t *entry = hash_table->chains[i];

        while (entry != NULL) {
            hg_hash_table_entry_t *next = entry->next;

            hg_hash_table_free_content(hash_table, entry);
            free(entry);
            entry = next;
        }
    }
    free(hash_table->chains);
    free(hash_table);
}

void hg_hash_table_register_free_functions(hg_hash_table_t *hash_table,
                                           hg_hash_table_key_free_func_t key_free_func,
                                           hg_hash_table_value_free_func_t value_free_func)
{
    hash_table->key_free_func = key_free_func;
    hash_table->value_free_func = value_free_func;
}

int hg_hash_table_insert(hg_hash_table_t *hash_table, hg_hash_table_key_t key,
                         hg_hash_table_value_t value)
{
    unsigned int hash = hash_table->hash_func(key);
    hg_hash_table_entry_t **link = hg_hash_table_find(hash_table, key, hash);
    hg_hash_table_entry_t *entry = *link;

    if (entry != NULL) {
        hg_hash_table_free_content(hash_table, entry);
    } else {
        entry = calloc(1, sizeof(*entry));
        if (entry == NULL)
            return 0;
        *link = entry;
        hash_table->entry_count++;
    }
    entry->key = key;
    entry->value = value;
    entry->hash = hash;
    if (hash_table->entry_count > hash_table->chain_count)
        hg_hash_table_grow(hash_table);
    return 1;
}

hg_hash_table_value_t hg_hash_table_lookup(hg_hash_table_t *hash_table, hg_hash_table_key_t key)
{
    hg_hash_table_entry_t *entry = *hg_hash_table_find(hash_table, key, hash_table->hash_func(key));

    return entry != NULL ? entry->value : HG_HASH_TABLE_NULL;
}

int hg_hash_table_remove(hg_hash_table_t *hash_table, hg_hash_table_key_t key)
{
    hg_hash_table_entry_t **link = hg_hash_table_find(hash_table, key, hash_table->hash_func(key));
    hg_hash_table_entry_t *entry = *link;

    if (entry == NULL)
        return 0;
    *link = entry->next;
    hash_table->entry_count--;
    hg_hash_table_free_content(hash_table, entry);
    free(entry);
    return 1;
}

unsigned int hg_hash_table_num_entries(hg_hash_table_t *hash_table)
{
    return hash_table->entry_count;
}

void hg_hash_table_iterate(hg_hash_table_t *hash_table, hg_hash_table_iter_t *iter)
{
    iter->hash_table = hash_table;
    iter->next_entry = NULL;
    iter->next_chain = 0;
    hg_hash_table_iter_skip(iter);
}

int hg_hash_table_iter_has_more(hg_hash_table_iter_t *iterator)
{
    return iterator->next_entry != NULL;
}

hg_hash_table_value_t hg_hash_table_iter_next(hg_hash_table_iter_t *iterator)
{
    hg_hash_table_entry_t *entry = iterator->next_entry;

    if (entry == NULL)
        return HG_HASH_TABLE_NULL;
    /* Go on at once, so that the caller may remove the entry. */
    iterator->next_entry = entry->next;
    hg_hash_table_iter_skip(iterator);
    return entry->value;
}

/* Where the pointer to the entry of a key is, or the end of its chain. */
static hg_hash_table_entry_t **hg_hash_table_find(hg_hash_table_t *hash_table,
                                                  hg_hash_table_key_t key, unsigned int hash)
{
    hg_hash_table_entry_t **link = &hash_table->chains[hash & (hash_table->chain_count - 1)];

    while (*link != NULL && ((*link)->hash != hash || !hash_table->equal_func((*link)->key, key)))
        link = &(*link)->next;
    return link;
}

/* Doubles the chains. If memory is out they stay as they are, only longer. */
static void hg_hash_table_grow(hg_hash_table_t *hash_table)
{
    unsigned int count = hash_table->chain_count * 2;
    hg_hash_table_entry_t **chains;

    if (hash_table->chain_count > UINT_MAX / 2)
        return;
    chains = calloc(count, sizeof(*chains));
    if (chains == NULL)
        return;
    for (unsigned int i = 0; i < hash_table->chain_count; i++) {
        hg_hash_table_entry_t *entry = hash_table->chains[i];

        while (entry != NULL) {
            hg_hash_table_entry_t *next = entry->next;

            entry->next = chains[entry->hash & (count - 1)];
            chains[entry->hash & (count - 1)] = entry;
            entry = next;
        }
    }
    free(hash_table->chains);
    hash_table->chains = chains;
    hash_table->chain_count = count;
}

static void hg_hash_table_free_content(hg_hash_table_t *hash_table, hg_hash_table_entry_t *entry)
{
    if (hash_table->key_free_func != NULL)
        hash_table->key_free_func(entry->key);
    if (hash_table->value_free_func != NULL)
        hash_table->value_free_func(entry->value);
}

/* Goes on to the next chain that has entries, if the walk is at the end of one. */
static void hg_hash_table_iter_skip(hg_hash_table_iter_t *iter)
{
    hg_hash_table_t *hash_table = iter->hash_table;

    while (iter->next_entry == NULL && iter->next_chain < hash_table->chain_count)
        iter->next_entry = hash_table->chains[iter->next_chain++];
}
