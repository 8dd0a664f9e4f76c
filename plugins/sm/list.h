/* SPDX-License-Identifier: BSD-3-Clause */
/* Circular lists with a head, linked through their elements. */

#ifndef SM_LIST_H
#define SM_LIST_H

#include <stdbool.h>

/* An element that is in no list points to itself. */
struct sm_link {
    struct sm_link *next;
    struct sm_link *prev;
};

static inline void sm_list_init(struct sm_link *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool sm_list_empty(const struct sm_link *list)
{
    return list->next == list;
}

static inline void sm_list_append(struct sm_link *list, struct sm_link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static inline void sm_list_prepend(struct sm_link *list, struct sm_link *link)
{
    sm_list_append(list->next, link);
}

static inline void sm_list_remove(struct sm_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link;
    link->prev = link;
}

static inline bool sm_list_contains(const struct sm_link *list, const void *element)
{
    for (const struct sm_link *link = list->next; link != list; link = link->next)
        if (link == element)
            return true;
    return false;
}

#endif /* SM_LIST_H */
