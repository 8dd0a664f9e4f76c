/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads the plugin's file as the core does, but with our own host table. */

#include "na_conformance/load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "na_conformance/host.h"
#include "na_conformance/shared.h"

#define TABLE_MIN (offsetof(struct na_plugin, cancel) + sizeof(((struct na_plugin *) NULL)->cancel))

static bool is_name_of(const struct na_plugin *table, const char *name, size_t length);
static void split_options(struct conf_plugin *plugin, const struct na_plugin *table);
static void strip_port(char *address);
static int32_t pick_protocol(void *arg, const struct na_plugin_offer *offer);
static void offer_require(void);
static int32_t offer_note(void *arg, const struct na_plugin_offer *offer);
static const void *extension_get(const char *id, size_t size);

struct conf_settings conf_settings;
struct conf_plugin conf_plugin;

/* Copy of the table to detect changes. It compares pointers; the strings are checked separately. */
static struct na_plugin table_before;

void conf_load(void)
{
    conf_load_into(conf_host());
}

void conf_load_into(const struct na_host *host)
{
    char reason[CONF_REASON_SIZE];
    int32_t status = NA_PLUGIN_SUCCESS;

    conf_host_set_log(conf_settings.log_level);
    conf_plugin.handle = conf_load_file(reason, sizeof(reason));
    conf_require(conf_plugin.handle != NULL, "it cannot be loaded: %s", reason);
    conf_plugin.original =
        conf_load_enter(conf_plugin.handle, host, &status, reason, sizeof(reason));
    conf_require(conf_plugin.original != NULL, "it cannot be entered: %s", reason);
    conf_require(conf_load_table(conf_plugin.original, &conf_plugin.table),
                 "its table has version %#x and size %u", conf_plugin.original->abi_version,
                 conf_plugin.original->size);
    memcpy(&table_before, &conf_plugin.table, sizeof(table_before));
    conf_require(conf_load_init(conf_settings.init, &conf_plugin.table, &conf_plugin),
                 "the init string '%s' is not for the plugin '%s'", conf_settings.init,
                 conf_plugin.table.name);
    offer_require();
    conf_host_set_op(conf_plugin.table.op_size, conf_plugin.table.op_align);
    conf_plugin.segments =
        extension_get(NA_PLUGIN_EXT_MEM_SEGMENTS, sizeof(struct na_plugin_mem_segments));
    conf_plugin.multi_recv =
        extension_get(NA_PLUGIN_EXT_MULTI_RECV, sizeof(struct na_plugin_multi_recv));
    conf_plugin.serialize =
        extension_get(NA_PLUGIN_EXT_ADDR_SERIALIZE, sizeof(struct na_plugin_addr_serialize));
    conf_plugin.counters = extension_get(NA_PLUGIN_EXT_COUNTERS, sizeof(struct na_plugin_counters));
    conf_plugin.alloc = extension_get(NA_PLUGIN_EXT_MEM_ALLOC, sizeof(struct na_plugin_mem_alloc));
}

void *conf_load_file(char *reason, size_t size)
{
    char path[4096];
    void *handle;

    /* dlopen() would search for a name without a slash. */
    if (realpath(conf_settings.plugin, path) == NULL) {
        (void) snprintf(reason, size, "there is no file %s", conf_settings.plugin);
        return NULL;
    }
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        (void) snprintf(reason, size, "%s", dlerror());
    return handle;
}

const struct na_plugin *conf_load_enter(void *handle, const struct na_host *host, int32_t *status,
                                        char *reason, size_t size)
{
    int32_t (*entry)(const struct na_host *, const struct na_plugin **, const char **);
    void *symbol = dlsym(handle, NA_PLUGIN_ENTRY_SYMBOL);
    const struct na_plugin *table = NULL;
    const char *why = NULL;
    uint64_t entered;

    if (symbol == NULL) {
        (void) snprintf(reason, size, "it exports no %s", NA_PLUGIN_ENTRY_SYMBOL);
        return NULL;
    }
    memcpy(&entry, &symbol, sizeof(entry));
    entered = conf_enter(CONF_CALL_ENTRY);
    *status = entry(host, &table, &why);
    conf_leave(CONF_CALL_ENTRY, entered);
    if (*status != NA_PLUGIN_SUCCESS) {
        (void) snprintf(reason, size, "its entry returned %s: %s", conf_status_name(*status),
                        why != NULL ? why : "without a reason");
        return NULL;
    }
    if (table == NULL)
        (void) snprintf(reason, size, "its entry returned no table");
    return table;
}

bool conf_load_table(const struct na_plugin *original, struct na_plugin *table)
{
    memset(table, 0, sizeof(*table));
    if (original->abi_version >> 16 != NA_PLUGIN_ABI_MAJOR || original->size < TABLE_MIN)
        return false;
    memcpy(table, original, original->size < sizeof(*table) ? original->size : sizeof(*table));
    return true;
}

/* Splits `plugin+protocol://address`, `protocol` alone, or the plugin's name alone: its best
 * usable offer. */
bool conf_load_init(const char *init, const struct na_plugin *table, struct conf_plugin *plugin)
{
    const char *separator = strstr(init, "://"), *protocol = init, *plus;
    size_t length = separator != NULL ? (size_t) (separator - init) : strlen(init);

    (void) snprintf(plugin->address, sizeof(plugin->address), "%s",
                    separator != NULL ? separator + 3 : "");
    split_options(plugin, table);
    strip_port(plugin->address);
    (void) snprintf(plugin->class_name, sizeof(plugin->class_name), "%s",
                    table->class_names != NULL && table->class_names[0] != NULL
                        ? table->class_names[0]
                        : table->name);
    plus = memchr(init, '+', length);
    if (plus != NULL && is_name_of(table, init, (size_t) (plus - init)))
        protocol = plus + 1;
    else if (is_name_of(table, init, length))
        return table->enumerate != NULL &&
               table->enumerate(NULL, pick_protocol, plugin) == NA_PLUGIN_EXIST;
    length -= (size_t) (protocol - init);
    (void) snprintf(plugin->protocol, sizeof(plugin->protocol), "%.*s", (int) length, protocol);
    return length > 0;
}

void conf_unload(void)
{
    const struct na_plugin *table = &conf_plugin.table;
    struct na_plugin now;
    uint64_t entered;

    if (conf_plugin.original == NULL)
        return;
    if (!conf_load_table(conf_plugin.original, &now) ||
        memcmp(&now, &table_before, sizeof(now)) != 0)
        conf_watch_broken(CONF_WATCH_DESCRIPTOR, "the table changed after it was returned");
    if (table->cleanup != NULL) {
        entered = conf_enter(CONF_CALL_CLEANUP);
        table->cleanup();
        conf_leave(CONF_CALL_CLEANUP, entered);
    }
    if (conf_host_allocations() != 0)
        conf_watch_broken(CONF_WATCH_LEAK,
                          "%llu allocations were not freed when all classes were finalized%s",
                          (unsigned long long) conf_host_allocations(),
                          table->cleanup != NULL ? " and cleanup had returned" : "");
}

static bool is_name_of(const struct na_plugin *table, const char *name, size_t length)
{
    const char *const *names = table->class_names;

    if (strlen(table->name) == length && strncmp(table->name, name, length) == 0)
        return true;
    for (; names != NULL && *names != NULL; names++)
        if (strlen(*names) == length && strncmp(*names, name, length) == 0)
            return true;
    return false;
}

/* Splits the options as the core does, which also checks their names. */
static void split_options(struct conf_plugin *plugin, const struct na_plugin *table)
{
    char *mark = table->option_names != NULL ? strrchr(plugin->address, '?') : NULL;

    plugin->options[0] = '\0';
    if (mark == NULL)
        return;
    (void) snprintf(plugin->options, sizeof(plugin->options), "%s", mark + 1);
    *mark = '\0';
}

/* Endpoints that are open at the same time cannot share a port. */
static void strip_port(char *address)
{
    char *colon = strrchr(address, ':');

    if (colon != NULL && colon[1] != '\0' && strspn(colon + 1, "0123456789") == strlen(colon + 1))
        *colon = '\0';
}

static int32_t pick_protocol(void *arg, const struct na_plugin_offer *offer)
{
    struct conf_plugin *plugin = arg;

    if ((offer->flags & NA_PLUGIN_OFFER_USABLE) == 0)
        return NA_PLUGIN_SUCCESS;
    (void) snprintf(plugin->protocol, sizeof(plugin->protocol), "%s", offer->protocol);
    return NA_PLUGIN_EXIST; /* the best offer comes first */
}

/* The core opens usable offers only. */
static void offer_require(void)
{
    char reason[256] = "it does not offer it";

    (void) conf_plugin.table.enumerate(conf_plugin.protocol, offer_note, reason);
    conf_require(reason[0] == '\0', "'%s' cannot be opened with the plugin '%s': %s",
                 conf_settings.init, conf_plugin.table.name, reason);
}

/* Sets the reason why the offer is not usable; empty if it is. */
static int32_t offer_note(void *arg, const struct na_plugin_offer *offer)
{
    char *reason = arg;

    if ((offer->flags & NA_PLUGIN_OFFER_USABLE) != 0)
        reason[0] = '\0';
    else if (reason[0] != '\0' && offer->reason != NULL)
        (void) snprintf(reason, 256, "%s", offer->reason);
    return NA_PLUGIN_SUCCESS;
}

static const void *extension_get(const char *id, size_t size)
{
    const struct na_plugin_extension *extension = NULL;
    uint64_t entered;

    if (conf_plugin.table.get_extension == NULL)
        return NULL;
    entered = conf_enter(CONF_CALL_EXTENSION);
    extension = conf_plugin.table.get_extension(id);
    conf_leave(CONF_CALL_EXTENSION, entered);
    return extension != NULL && extension->size >= size ? extension : NULL;
}
