/* SPDX-License-Identifier: BSD-3-Clause */
/* Circular lists, linked through their elements. */

#ifndef FAULT_LIST_H
#define FAULT_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct fault_link {
    struct fault_link *next;
    struct fault_link *prev;
};

struct fault_list {
    struct fault_link head;
};

#define FAULT_ITEM(link, type, member) ((type *) (void *) ((char *) (link) -offsetof(type, member)))

static inline void fault_list_init(struct fault_list *list)
{
    list->head.next = list->head.prev = &list->head;
}

/* The first element, or NULL. */
static inline struct fault_link *fault_list_first(const struct fault_list *list)
{
    return list->head.next != &list->head ? list->head.next : NULL;
}

/* The one after it, or NULL. */
static inline struct fault_link *fault_list_next(const struct fault_list *list,
                                                 const struct fault_link *link)
{
    return link->next != &list->head ? link->next : NULL;
}

static inline void fault_list_insert_after(struct fault_link *place, struct fault_link *link)
{
    link->prev = place;
    link->next = place->next;
    place->next->prev = link;
    place->next = link;
}

static inline void fault_list_append(struct fault_list *list, struct fault_link *link)
{
    fault_list_insert_after(list->head.prev, link);
}

static inline void fault_list_remove(struct fault_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
}

#endif /* FAULT_LIST_H */
