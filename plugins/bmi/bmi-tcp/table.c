/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects by the numbers given to callers; a generation keeps a number from being reused soon. */

#include "tcp.h"

#include <stdlib.h>

struct tcp_slot {
    void *object; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
};

static bool table_grow(struct tcp_table *table);

/* Returns the number, or 0 without memory. */
int64_t tcp_table_add(struct tcp_table *table, void *object)
{
    uint32_t index = table->first_free;
    struct tcp_slot *slot;

    if (index == table->count && !table_grow(table))
        return 0;
    slot = &table->slots[index];
    table->first_free = slot->next_free;
    slot->object = object;
    slot->generation = (slot->generation + 1) & 0x7fffffffu;
    return (int64_t) slot->generation << 32 | (int64_t) (index + 1);
}

void *tcp_table_find(const struct tcp_table *table, int64_t id)
{
    uint32_t index = (uint32_t) id - 1;

    if (index >= table->count || table->slots[index].generation != (uint32_t) (id >> 32))
        return NULL;
    return table->slots[index].object;
}

void tcp_table_remove(struct tcp_table *table, int64_t id)
{
    uint32_t index = (uint32_t) id - 1;

    table->slots[index].object = NULL;
    table->slots[index].next_free = table->first_free;
    table->first_free = index;
}

void tcp_table_free(struct tcp_table *table)
{
    free(table->slots);
    *table = (struct tcp_table){0};
}

static bool table_grow(struct tcp_table *table)
{
    uint32_t count = table->count == 0 ? 64 : 2 * table->count;
    struct tcp_slot *slots;

    if (count > UINT32_C(1) << 24)
        return false;
    slots = realloc(table->slots, count * sizeof(*slots));
    if (slots == NULL)
        return false;
    for (uint32_t i = table->count; i < count; i++)
        slots[i] = (struct tcp_slot){.next_free = i + 1};
    table->first_free = table->count;
    table->slots = slots;
    table->count = count;
    return true;
}
