/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: functions for plugins that wrap another plugin, to watch or to
 * disturb it. The core provides it by na_host.get_extension; without it such a plugin refuses to
 * load. The core finds and loads the wrapped plugin; from then on the wrapping plugin calls the
 * wrapped plugin's table as the core would, under the same rules, with operations from op_create.
 * The wrapped plugin's reports for these go to the wrapping plugin, which then completes its own
 * operations. Since 1.1. The rules at the top of na_plugin.h apply here, too.
 */

#ifndef NA_PLUGIN_WRAP_H
#define NA_PLUGIN_WRAP_H

#include "na_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The id of this table for get_extension. */
#define NA_PLUGIN_EXT_WRAP "na.wrap/1"

/* One plugin and protocol that match a choice. Frozen. */
struct na_plugin_wrap_candidate {
    /* A complete table for this core: absent functions are NULL. Valid for ever. */
    const struct na_plugin *plugin;
    const char *class_name;              /* for na_plugin_init.class_name; valid during the call */
    const struct na_plugin_offer *offer; /* as the plugin reported it; valid during the call */
};

/*
 * Receives one candidate during na_plugin_wrap.select. Returns NA_PLUGIN_SUCCESS, or a value that
 * select must return at once. [one at a time]
 */
typedef int32_t (*na_plugin_wrap_candidate_fn)(void *arg,
                                               const struct na_plugin_wrap_candidate *candidate);

/*
 * Functions that receive the reports about operations from op_create; they mean the same as the
 * functions of struct na_host. `arg` is that of op_create. The wrapped plugin may hold locks while
 * it calls these: they must not call back into it. The last one returns the same values as that of
 * na_host. [any thread] Frozen.
 */
struct na_plugin_wrap_events {
    void (*complete)(void *arg, int32_t status);
    void (*complete_recv)(void *arg, int32_t status, uint64_t size, struct na_plugin_addr *source,
                          uint32_t tag);
    int32_t (*complete_multi_recv)(void *arg, int32_t status, void *buf, uint64_t size,
                                   struct na_plugin_addr *source, uint32_t tag, uint32_t last);
};

struct na_plugin_wrap {
    struct na_plugin_extension extension;

    /*
     * Finds the candidates for `choice`, one choice of an init string without an address
     * (`plugin+protocol` or a word), loads plugins if necessary, and reports all candidates in the
     * order in which the core would try them, also those that are not usable. Returns the result of
     * the last `report`, or an error, and then `reason` (of `reason_size` bytes) says why there is
     * no candidate. Must not be called in na_plugin.enumerate, which this calls. [any thread]
     */
    int32_t (*select)(const char *choice, na_plugin_wrap_candidate_fn report, void *arg,
                      char *reason, uint64_t reason_size);

    /*
     * Returns an operation for calls of `plugin`, which op_destroy frees: its private part,
     * zero-filled, op_size bytes at op_align. op_initialize and op_finalize are left to the caller.
     * `events` must be valid as long as the operation. NULL if out of memory. [any thread] [may not
     * block]
     */
    void *(*op_create)(const struct na_plugin *plugin, const struct na_plugin_wrap_events *events,
                       void *arg);

    /* Frees an operation that is not outstanding; NULL is allowed. [any thread] [may not block] */
    void (*op_destroy)(void *op);

    /*
     * Splits the address of an init string in place, as the core does for `plugin`: `address` ends
     * where the options begin, and `*options_p`, which is valid as long as `address`, is
     * na_plugin_init.options, NULL for none. Returns NA_PLUGIN_INVALID_ARG, and `reason` (of
     * `reason_size` bytes) says why, when an option is not one of the plugin's, is given twice or
     * has no "=". Since 1.2. [any thread] [may not block]
     */
    int32_t (*options_split)(const struct na_plugin *plugin, char *address, const char **options_p,
                             char *reason, uint64_t reason_size);
};

#if UINTPTR_MAX == UINT64_MAX
NA_PLUGIN_ASSERT(sizeof(struct na_plugin_wrap_candidate) == 24);
NA_PLUGIN_ASSERT(sizeof(struct na_plugin_wrap_events) == 24);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_wrap, op_destroy) == 24);
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_wrap, options_split) == 32);
#endif

#ifdef __cplusplus
}
#endif

#endif /* NA_PLUGIN_WRAP_H */
