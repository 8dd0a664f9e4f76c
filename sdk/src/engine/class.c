/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/class.h"

#include "engine/context.h"
#include "engine/fork.h"

pthread_mutex_t hg_classes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hg_class *hg_classes; /* all open classes */
static uint32_t hg_classes_opened;

void hg_class_link(hg_class_t *hg_class)
{
    (void) pthread_mutex_lock(&hg_classes_lock);
    hg_class->number = hg_classes_opened++;
    hg_class->next = hg_classes;
    hg_class->previous_p = &hg_classes;
    if (hg_classes != NULL)
        hg_classes->previous_p = &hg_class->next;
    hg_classes = hg_class;
    (void) pthread_mutex_unlock(&hg_classes_lock);
}

void hg_class_unlink(hg_class_t *hg_class)
{
    (void) pthread_mutex_lock(&hg_classes_lock);
    *hg_class->previous_p = hg_class->next;
    if (hg_class->next != NULL)
        hg_class->next->previous_p = hg_class->previous_p;
    (void) pthread_mutex_unlock(&hg_classes_lock);
}

bool hg_class_is_open(const hg_class_t *hg_class)
{
    const hg_class_t *open;

    (void) pthread_mutex_lock(&hg_classes_lock);
    for (open = hg_classes; open != NULL; open = open->next)
        if (open == hg_class)
            break;
    (void) pthread_mutex_unlock(&hg_classes_lock);
    return open != NULL;
}

void hg_class_for_each(void (*function)(hg_class_t *hg_class, void *arg), void *arg)
{
    hg_class_t *hg_class;

    (void) pthread_mutex_lock(&hg_classes_lock);
    for (hg_class = hg_classes; hg_class != NULL; hg_class = hg_class->next)
        if (!hg_class_is_inherited(hg_class))
            function(hg_class, arg);
    (void) pthread_mutex_unlock(&hg_classes_lock);
}

hg_context_t *hg_class_find_context(hg_class_t *hg_class, uint8_t id)
{
    hg_context_t *context;

    (void) pthread_mutex_lock(&hg_class->lock);
    for (context = hg_class->contexts; context != NULL; context = context->next)
        if (context->id == id)
            break;
    (void) pthread_mutex_unlock(&hg_class->lock);
    return context;
}
