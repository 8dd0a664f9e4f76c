/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables: objects by ids, each a slot's index and generation. */

#include "kit_base.h"

#include <string.h>

#define TABLE_FIRST 64u

static int32_t table_grow(struct kit_table *table);

int32_t kit_table_add(struct kit_table *table, void *object, uint64_t *id_p)
{
    struct kit_table_slot *slot;
    uint32_t index;

    if (kit_unlikely(table->free == table->count)) {
        int32_t ret = table_grow(table);

        if (ret != NA_PLUGIN_SUCCESS)
            return ret;
    }
    index = table->free;
    slot = &table->slots[index];
    table->free = slot->next_free;
    slot->object = object;
    *id_p = (uint64_t) slot->generation << 32 | index;
    return NA_PLUGIN_SUCCESS;
}

void *kit_table_find(const struct kit_table *table, uint64_t id)
{
    uint32_t index = (uint32_t) id;

    if (kit_unlikely(index >= table->count) ||
        kit_unlikely(table->slots[index].generation != id >> 32))
        return NULL;
    return table->slots[index].object;
}

void kit_table_remove(struct kit_table *table, uint64_t id)
{
    struct kit_table_slot *slot;

    if (kit_table_find(table, id) == NULL)
        return;
    slot = &table->slots[(uint32_t) id];
    slot->object = NULL;
    if (++slot->generation == 0)
        slot->generation = 1;
    slot->next_free = table->free;
    table->free = (uint32_t) id;
}

void kit_table_free(struct kit_table *table)
{
    kit_host->mem_free(table->slots);
    memset(table, 0, sizeof(*table));
}

static int32_t table_grow(struct kit_table *table)
{
    uint32_t count = table->count == 0 ? TABLE_FIRST : 2 * table->count;
    struct kit_table_slot *slots;
    struct kit_key start;

    if (count > KIT_TABLE_MAX)
        return NA_PLUGIN_NOMEM;
    if (kit_key_draw(&start) != NA_PLUGIN_SUCCESS)
        return NA_PLUGIN_IO_ERROR;
    slots = kit_host->mem_alloc((uint64_t) count * sizeof(*slots), 0);
    if (slots == NULL)
        return NA_PLUGIN_NOMEM;
    if (table->count != 0)
        memcpy(slots, table->slots, table->count * sizeof(*slots));
    for (uint32_t i = table->count; i < count; i++) {
        slots[i].generation = (uint32_t) start.word[1] | 1; /* not 0 */
        slots[i].next_free = i + 1;
    }
    kit_host->mem_free(table->slots);
    table->slots = slots;
    table->free = table->count; /* no slot was free */
    table->count = count;
    return NA_PLUGIN_SUCCESS;
}
