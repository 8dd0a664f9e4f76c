/* SPDX-License-Identifier: BSD-3-Clause */
/* Circular lists with a head, linked through their elements. */

#ifndef FABRIC_LIST_H
#define FABRIC_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* An element that is in no list points to itself. */
struct fabric_link {
    struct fabric_link *next;
    struct fabric_link *prev;
};

#define fabric_container(link, type, member) \
    ((type *) (void *) ((char *) (link) -offsetof(type, member)))

static inline void fabric_list_init(struct fabric_link *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool fabric_list_empty(const struct fabric_link *list)
{
    return list->next == list;
}

static inline void fabric_list_append(struct fabric_link *list, struct fabric_link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static inline void fabric_list_prepend(struct fabric_link *list, struct fabric_link *link)
{
    fabric_list_append(list->next, link);
}

static inline void fabric_list_remove(struct fabric_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link;
    link->prev = link;
}

/* Of an element that is put into another list, or given away, right afterwards. */
static inline void fabric_list_take(struct fabric_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
}

/* Makes it the only element of a list that is empty. */
static inline void fabric_list_start(struct fabric_link *list, struct fabric_link *link)
{
    link->next = list;
    link->prev = list;
    list->next = link;
    list->prev = link;
}

static inline bool fabric_list_contains(const struct fabric_link *list, const void *element)
{
    for (const struct fabric_link *link = list->next; link != list; link = link->next)
        if (link == element)
            return true;
    return false;
}

#endif /* FABRIC_LIST_H */
