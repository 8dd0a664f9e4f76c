/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin under test: its file, its table, and the parts of the init string. */

#ifndef AMALGAM_CONF_LOAD_H
#define AMALGAM_CONF_LOAD_H

#include <na_plugin.h>
#include <stdbool.h>
#include <stddef.h>

/* Settings from the command line. */
struct conf_settings {
    const char *plugin; /* path */
    const char *init;
    bool fast;
    unsigned int log_level;
};

/* The plugin's table; functions that it does not have are NULL. */
struct conf_plugin {
    struct na_plugin table;
    const struct na_plugin *original; /* as returned by the plugin */
    const struct na_plugin_mem_segments *segments;
    const struct na_plugin_multi_recv *multi_recv;
    const struct na_plugin_addr_serialize *serialize;
    const struct na_plugin_counters *counters;
    const struct na_plugin_mem_alloc *alloc;
    void *handle;
    char protocol[128];
    char address[512]; /* without a port; may be empty */
    char options[128]; /* may be empty */
    char class_name[128];
};

extern struct conf_settings conf_settings;
extern struct conf_plugin conf_plugin;

/* Loads the plugin and splits the init string; a failure ends the check. */
void conf_load(void);
void conf_load_into(const struct na_host *host);

/* The steps of loading, dlopen and the entry function, for their checks. NULL: `reason` says
 * why. */
void *conf_load_file(char *reason, size_t size);
const struct na_plugin *conf_load_enter(void *handle, const struct na_host *host, int32_t *status,
                                        char *reason, size_t size);

/* Copies a table up to its size; false if it has another major or is impossibly short. */
bool conf_load_table(const struct na_plugin *original, struct na_plugin *table);

/* Splits an init string; false if it is not for this plugin. */
bool conf_load_init(const char *init, const struct na_plugin *table, struct conf_plugin *plugin);

/* At the end of a check: verifies that the table is unchanged, and calls cleanup(). */
void conf_unload(void);

#endif /* AMALGAM_CONF_LOAD_H */
