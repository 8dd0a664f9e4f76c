/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects under 64-bit ids: the slot's index and how often it was used. 0 is no id. */

#include "ucx.h"

#include <string.h>

static int32_t ucx_table_grow(struct ucx_table *table);

int32_t ucx_table_add(struct ucx_table *table, void *object, uint64_t *id_p)
{
    struct ucx_table_slot *slot;
    uint32_t index;

    if (ucx_unlikely(table->free == table->count)) {
        int32_t ret = ucx_table_grow(table);

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

void *ucx_table_find(const struct ucx_table *table, uint64_t id)
{
    uint32_t index = (uint32_t) id;

    if (ucx_unlikely(index >= table->count) ||
        ucx_unlikely(table->slots[index].generation != id >> 32))
        return NULL;
    return table->slots[index].object;
}

void ucx_table_remove(struct ucx_table *table, uint64_t id)
{
    struct ucx_table_slot *slot;

    if (ucx_table_find(table, id) == NULL)
        return;
    slot = &table->slots[(uint32_t) id];
    slot->object = NULL;
    if (++slot->generation == 0)
        slot->generation = 1;
    slot->next_free = table->free;
    table->free = (uint32_t) id;
}

void ucx_table_free(struct ucx_table *table)
{
    ucx_host->mem_free(table->slots);
    memset(table, 0, sizeof(*table));
}

static int32_t ucx_table_grow(struct ucx_table *table)
{
    uint32_t count = table->count == 0 ? 64 : table->count * 2;
    struct ucx_table_slot *slots;

    if (count > UCX_TABLE_MAX)
        return NA_PLUGIN_NOMEM;
    slots = ucx_host->mem_alloc((uint64_t) count * sizeof(*slots), 0);
    if (slots == NULL)
        return NA_PLUGIN_NOMEM;
    if (table->count != 0)
        memcpy(slots, table->slots, table->count * sizeof(*slots));
    for (uint32_t i = table->count; i < count; i++) {
        slots[i].generation = 1;
        slots[i].next_free = i + 1;
    }
    ucx_host->mem_free(table->slots);
    table->slots = slots;
    table->free = table->count;
    table->count = count;
    return NA_PLUGIN_SUCCESS;
}
