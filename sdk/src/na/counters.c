/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of classes. */

#include "na/classes.h"
#include "na/context.h"
#include "na/log.h"
#include "na/options.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CORE_MAX     8
#define PLUGIN_MAX   24
#define COUNTERS_MAX (CORE_MAX + PLUGIN_MAX)

/* The argument of counters_add(). */
struct counters {
    const char *plugin; /* its name */
    struct na_counter *items;
    size_t count, max_count;
};

static size_t counters_get(struct na_class *na_class, struct na_counter *counters);
static void counters_add(void *arg, const char *name, uint64_t value);
static void counters_print(struct na_class *na_class);

na_return_t NA_Class_get_counters(const na_class_t *na_class, struct na_counter *counters,
                                  size_t *count_p)
{
    struct na_counter all[COUNTERS_MAX];
    size_t count, fits;

    if (na_class_fork_refused(na_class, __func__))
        return NA_PERMISSION;
    if (na_class == NULL || count_p == NULL) {
        NA_LOG_ERROR("class is %p, count_p is %p; none may be NULL", (const void *) na_class,
                     (void *) count_p);
        return NA_INVALID_ARG;
    }
    count = counters_get((struct na_class *) (uintptr_t) na_class, all);
    fits = *count_p < count ? *count_p : count;
    *count_p = count;
    if (counters == NULL)
        return NA_SUCCESS;
    memcpy(counters, all, fits * sizeof(*counters));
    return fits == count ? NA_SUCCESS : NA_OVERFLOW;
}

void NA_Diag_dump_counters(void)
{
    na_classes_visit(counters_print);
}

/* The class has the sums of its closed contexts; those of the open ones are added here. */
static size_t counters_get(struct na_class *na_class, struct na_counter *counters)
{
    struct na_class_counters *own = &na_class->counters;
    uint64_t completed = atomic_load(&own->completed);
    uint64_t failed = atomic_load(&own->failed);
    uint64_t canceled = atomic_load(&own->canceled);
    struct counters more = {.plugin = na_class->transport->name, .items = counters};

    pthread_mutex_lock(&na_class->mutex);
    for (struct na_context *context = na_class->contexts; context != NULL;
         context = context->next) {
        completed += atomic_load_explicit(&context->completed, memory_order_relaxed);
        failed += atomic_load_explicit(&context->failed, memory_order_relaxed);
        canceled += atomic_load_explicit(&context->canceled, memory_order_relaxed);
    }
    pthread_mutex_unlock(&na_class->mutex);

    const struct na_counter all[] = {
        {"na_completed", completed},
        {"na_failed", failed},
        {"na_canceled", canceled},
        {"na_refused", atomic_load(&own->refused)},
        {"na_refused_again", atomic_load(&own->again)},
        {"na_plugin_wrong_completions", atomic_load(&own->duplicates)},
        {"na_plugin_left_outstanding", atomic_load(&own->forced)},
    };

    _Static_assert(sizeof(all) / sizeof(all[0]) <= CORE_MAX, "all fit");
    memcpy(counters, all, sizeof(all));
    more.count = sizeof(all) / sizeof(all[0]);
    more.max_count = more.count + PLUGIN_MAX;
    if (na_class->transport->counters.counters_get != NULL)
        na_class->transport->counters.counters_get(na_class->plugin_class, counters_add, &more);
    return more.count;
}

/* Called by the plugin for each of its counters. A "-" in a name, which Prometheus refuses, becomes
 * "_". */
static void counters_add(void *arg, const char *name, uint64_t value)
{
    struct counters *counters = arg;
    struct na_counter *counter = &counters->items[counters->count];
    const char *wrong = name != NULL ? na_option_name_check(name) : "is NULL";
    int length;

    if (counters->count == counters->max_count)
        return;
    if (wrong == NULL) {
        length = snprintf(counter->name, sizeof(counter->name), "na_%s_%s", counters->plugin, name);
        if (length < 0 || (size_t) length >= sizeof(counter->name))
            wrong = "is too long behind the plugin's";
    }
    if (wrong != NULL) {
        NA_LOG_WARNING("plugin %s: the counter's name \"%.64s\" %s; left out, report it to the "
                       "plugin's maker",
                       counters->plugin, name != NULL ? name : "", wrong);
        return;
    }
    for (char *c = counter->name; *c != '\0'; c++)
        if (*c == '-')
            *c = '_';
    counter->value = value;
    counters->count++;
}

static void counters_print(struct na_class *na_class)
{
    struct na_counter counters[COUNTERS_MAX];
    struct text text = TEXT_INITIALIZER;
    const size_t count = counters_get(na_class, counters);

    text_append(&text, "# [%d] na: counters of %s+%s:", (int) getpid(), na_class->class_name,
                na_class->protocol);
    for (size_t i = 0; i < count; i++)
        text_append(&text, " %s=%llu", counters[i].name, (unsigned long long) counters[i].value);
    text_append(&text, "\n");
    na_log_force(text_get(&text));
    text_free(&text);
}
