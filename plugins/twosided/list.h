/* SPDX-License-Identifier: BSD-3-Clause */
/* Circular lists with a head, linked through their elements. */

#ifndef TWOSIDED_LIST_H
#define TWOSIDED_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* An element that is in no list points to itself. */
struct twosided_link {
    struct twosided_link *next;
    struct twosided_link *prev;
};

#define twosided_container(link, type, member) \
    ((type *) (void *) ((char *) (link) -offsetof(type, member)))

static inline void twosided_list_init(struct twosided_link *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool twosided_list_empty(const struct twosided_link *list)
{
    return list->next == list;
}

static inline void twosided_list_append(struct twosided_link *list, struct twosided_link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static inline void twosided_list_remove(struct twosided_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link;
    link->prev = link;
}

#endif /* TWOSIDED_LIST_H */
