/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: what a plugin counts. NA_Class_get_counters() has it behind the
 * counters of the core, and HG's text for Prometheus, too. Without it there are those of the core
 * alone. Since 1.2. The rules at the top of na_plugin.h hold here, too.
 */

#ifndef NA_PLUGIN_COUNTERS_H
#define NA_PLUGIN_COUNTERS_H

#include "na_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The id of this table for get_extension. */
#define NA_PLUGIN_EXT_COUNTERS "na.counters/1"

/* Takes one counter: how often something has happened since the class was opened. `name` is made of
 * at most 32 lower-case letters, digits and "_"; na_<plugin>_ is put before it, and the whole has
 * at most 47 bytes. Others are left out, with a line in the log; so are, silently, more than 24.
 * `name` is copied. [one at a time] */
typedef void (*na_plugin_counter_fn)(void *arg, const char *name, uint64_t value);

struct na_plugin_counters {
    struct na_plugin_extension extension;

    /* Reports each counter of an open class, in the same order each time. Values never fall. [any
     * thread] [may not block] */
    void (*counters_get)(struct na_plugin_class *na_class, na_plugin_counter_fn report, void *arg);
};

#if UINTPTR_MAX == UINT64_MAX
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_counters, counters_get) == 8);
#endif

#ifdef __cplusplus
}
#endif

#endif /* NA_PLUGIN_COUNTERS_H */
