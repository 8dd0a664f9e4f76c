/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin under test: its file, its table, and the init string taken apart. */

#ifndef AMALGAM_CONF_LOAD_H
#define AMALGAM_CONF_LOAD_H

#include <na_plugin.h>
#include <stdbool.h>
#include <stddef.h>

/* What the command line says. */
struct conf_settings {
    const char *plugin; /* path */
    const char *init;
    bool fast;
    unsigned int log_level;
};

/* The plugin's table, with NULL for what it does not have. */
struct conf_plugin {
    struct na_plugin table;
    const struct na_plugin *original; /* as the plugin gave it */
    const struct na_plugin_mem_segments *segments;
    const struct na_plugin_multi_recv *multi_recv;
    const struct na_plugin_addr_serialize *serialize;
    const struct na_plugin_counters *counters;
    void *handle;
    char protocol[128];
    char address[512]; /* without a port; empty when there is none */
    char options[128]; /* likewise */
    char class_name[128];
};

extern struct conf_settings conf_settings;
extern struct conf_plugin conf_plugin;

/* Loads the plugin and takes the init string apart; ends the check when that cannot be done. */
void conf_load(void);
void conf_load_into(const struct na_host *host);

/* The steps of it, for checks of each. dlopen and the entry; NULL: `reason` says why. */
void *conf_load_file(char *reason, size_t size);
const struct na_plugin *conf_load_enter(void *handle, const struct na_host *host, int32_t *status,
                                        char *reason, size_t size);

/* Copies a table as far as it goes; false when it is of another major or impossibly short. */
bool conf_load_table(const struct na_plugin *original, struct na_plugin *table);

/* Takes an init string apart for a plugin; false: it is not for it. */
bool conf_load_init(const char *init, const struct na_plugin *table, struct conf_plugin *plugin);

/* At the end of a check: the table is as it was, and cleanup() gives the rest back. */
void conf_unload(void);

/* True when the open class or else the plugin says of itself that it can. */
bool conf_plugin_can(uint64_t capability);

#endif /* AMALGAM_CONF_LOAD_H */
