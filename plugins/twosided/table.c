/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects under ids that travel: a slot's number and the generation of its use. */

#include "state.h"

#include <string.h>

#define TABLE_FIRST 64u

static int32_t table_grow(struct twosided *ts, struct twosided_table *table);

int32_t twosided_table_add(struct twosided *ts, struct twosided_table *table, void *object,
                           uint64_t *id_p)
{
    struct twosided_slot *slot;
    uint32_t index;

    if (twosided_unlikely(table->free == table->count)) {
        int32_t ret = table_grow(ts, table);

        if (ret != NA_PLUGIN_SUCCESS)
            return ret;
    }
    index = table->free;
    slot = &table->slots[index];
    table->free = slot->next_free;
    slot->object = object;
    slot->generation++;
    *id_p = (uint64_t) slot->generation << 32 | index;
    return NA_PLUGIN_SUCCESS;
}

void *twosided_table_find(const struct twosided_table *table, uint64_t id)
{
    uint32_t index = (uint32_t) id;
    const struct twosided_slot *slot;

    if (index >= table->count)
        return NULL;
    slot = &table->slots[index];
    return slot->generation == (uint32_t) (id >> 32) ? slot->object : NULL;
}

void twosided_table_remove(struct twosided_table *table, uint64_t id)
{
    struct twosided_slot *slot = &table->slots[(uint32_t) id];

    slot->object = NULL;
    slot->next_free = table->free;
    table->free = (uint32_t) id;
}

/* A new process at a peer's address does not meet the ids of its predecessor: they begin at
 * random. */
static int32_t table_grow(struct twosided *ts, struct twosided_table *table)
{
    uint32_t count = table->count == 0 ? TABLE_FIRST : 2 * table->count;
    struct twosided_slot *slots;

    if (count > TWOSIDED_OBJECTS_MAX) {
        TWOSIDED_LOG_ERROR(ts, "%u objects exist, which is the limit", table->count);
        return NA_PLUGIN_NOMEM;
    }
    slots = ts->host->mem_alloc(count * sizeof(*slots), 0);
    if (slots == NULL)
        return NA_PLUGIN_NOMEM;
    if (table->count != 0)
        memcpy(slots, table->slots, table->count * sizeof(*slots));
    for (uint32_t i = table->count; i < count; i++) {
        slots[i].next_free = i + 1;
        slots[i].generation = table->seed;
    }
    ts->host->mem_free(table->slots);
    table->slots = slots;
    table->free = table->count; /* there was none left */
    table->count = count;
    return NA_PLUGIN_SUCCESS;
}
