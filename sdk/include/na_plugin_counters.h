/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: counters of a plugin. NA_Class_get_counters(), and HG's text for
 * Prometheus, have them after the counters of the core. Without it there are only those of the
 * core. Since 1.2. The rules at the top of na_plugin.h apply here, too.
 */

#ifndef NA_PLUGIN_COUNTERS_H
#define NA_PLUGIN_COUNTERS_H

#include "na_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The id of this table for get_extension. */
#define NA_PLUGIN_EXT_COUNTERS "na.counters/1"

/* Receives one counter, the number of events since the class was opened. `name` consists of at most
 * 32 lower-case letters, digits and "_"; it is prefixed with na_<plugin>_, and the result has at
 * most 47 bytes. Counters with other names are left out, with a line in the log; those beyond 24
 * are left out silently. `name` is copied. [one at a time] */
typedef void (*na_plugin_counter_fn)(void *arg, const char *name, uint64_t value);

struct na_plugin_counters {
    struct na_plugin_extension extension;

    /* Reports each counter of an open class, in the same order each time. Values never decrease.
     * [any thread] [may not block] */
    void (*counters_get)(struct na_plugin_class *na_class, na_plugin_counter_fn report, void *arg);
};

#if UINTPTR_MAX == UINT64_MAX
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_counters, counters_get) == 8);
#endif

#ifdef __cplusplus
}
#endif

#endif /* NA_PLUGIN_COUNTERS_H */
