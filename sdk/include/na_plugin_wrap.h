/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: what plugins need that stand in front of another plugin, to
 * watch it or to disturb it. The core gives it, by na_host.get_extension; where it does not, such
 * a plugin refuses to load. The core finds and loads the other plugin; from then on the wrapping
 * plugin calls the other's table as the core would, under the same rules, with operations that it
 * gets from op_create. What the other plugin reports for these comes to the wrapping plugin, which
 * completes its own operations in turn. Since 1.1. The rules at the top of na_plugin.h hold here,
 * too.
 */

#ifndef NA_PLUGIN_WRAP_H
#define NA_PLUGIN_WRAP_H

#include "na_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The id of this table for get_extension. */
#define NA_PLUGIN_EXT_WRAP "na.wrap/1"

/* One plugin and protocol that a choice stands for. Frozen. */
struct na_plugin_wrap_candidate {
    /* All members that this core knows are there: absent functions are NULL. Lives for ever. */
    const struct na_plugin *plugin;
    const char *class_name;              /* for na_plugin_init.class_name; during the call */
    const struct na_plugin_offer *offer; /* as the plugin reported it; during the call */
};

/*
 * Takes one candidate during na_plugin_wrap.select. Returns NA_PLUGIN_SUCCESS, or what select is to
 * return at once. [one at a time]
 */
typedef int32_t (*na_plugin_wrap_candidate_fn)(void *arg,
                                               const struct na_plugin_wrap_candidate *candidate);

/*
 * Where the reports about operations of op_create go, with the meaning that the functions of struct
 * na_host have. `arg` is that of op_create. The other plugin may hold locks while it calls these:
 * they must not call back into it. The last one returns what that of na_host returns. [any thread]
 * Frozen.
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
     * Finds what `choice` stands for, one choice of an init string without an address
     * (`plugin+protocol` or a word), loads plugins if need be, and reports all candidates in the
     * order in which the core would try them, also those that are not usable. Returns what the last
     * `report` returned, or an error, and then `reason` (of `reason_size` bytes) says why there is
     * no candidate. Not to be called in na_plugin.enumerate, which this calls. [any thread]
     */
    int32_t (*select)(const char *choice, na_plugin_wrap_candidate_fn report, void *arg,
                      char *reason, uint64_t reason_size);

    /*
     * Returns an operation for calls of `plugin`, which op_destroy frees: its private part,
     * zero-filled, op_size bytes at op_align. op_initialize and op_finalize are left to the caller.
     * `events` must stay valid as long as the operation does. NULL without memory. [any thread]
     * [may not block]
     */
    void *(*op_create)(const struct na_plugin *plugin, const struct na_plugin_wrap_events *events,
                       void *arg);

    /* Frees an operation that is not outstanding; NULL is allowed. [any thread] [may not block] */
    void (*op_destroy)(void *op);

    /*
     * Divides the address of an init string as the core does for `plugin`, in place: `address` ends
     * where the options begin, and `*options_p`, which stays a part of it, is
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
