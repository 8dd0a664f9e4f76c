/* SPDX-License-Identifier: BSD-3-Clause */

#include "na/classes.h"

pthread_mutex_t na_classes_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct na_class *classes;

void na_classes_add(struct na_class *na_class)
{
    pthread_mutex_lock(&na_classes_mutex);
    na_class->next = classes;
    classes = na_class;
    pthread_mutex_unlock(&na_classes_mutex);
}

void na_classes_remove(struct na_class *na_class)
{
    struct na_class **link = &classes;

    pthread_mutex_lock(&na_classes_mutex);
    while (*link != NULL && *link != na_class)
        link = &(*link)->next;
    if (*link != NULL)
        *link = na_class->next;
    pthread_mutex_unlock(&na_classes_mutex);
}

void na_classes_visit(void (*visit)(struct na_class *na_class))
{
    pthread_mutex_lock(&na_classes_mutex);
    for (struct na_class *na_class = classes; na_class != NULL; na_class = na_class->next)
        if (!na_class_is_inherited(na_class))
            visit(na_class);
    pthread_mutex_unlock(&na_classes_mutex);
}

void na_classes_disable(void)
{
    for (struct na_class *na_class = classes; na_class != NULL; na_class = na_class->next)
        na_fork_disable(&na_class->table);
}
