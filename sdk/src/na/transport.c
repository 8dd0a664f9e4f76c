/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks a plugin's table when it is loaded, and makes a normalized copy of it. */

#include "na/transport.h"

#include "na/init_string.h"
#include "na/options.h"
#include "na/signals.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Smallest size of a table of this ABI major: it ends with the last mandatory function. */
#define TABLE_MIN (offsetof(struct na_plugin, cancel) + sizeof(((struct na_plugin *) NULL)->cancel))

static _Atomic(const char *) current_plugin;

static enum na_plugin_code check_version(uint32_t abi_version, char *reason, size_t size);
static bool check_descriptor(const struct na_plugin *table, const char *file_name, char *reason,
                             size_t size);
static bool check_class_names(const struct na_plugin *table, char *reason, size_t size);
static bool check_option_names(const struct na_plugin *table, char *reason, size_t size);
static bool check_mandatory(const struct na_plugin *table, char *reason, size_t size);
static bool check_families(const struct na_plugin *table, char *reason, size_t size);
static bool load_extensions(struct na_transport *transport, char *reason, size_t size);
static bool load_extension(const struct na_plugin *table, const char *id, void *copy,
                           size_t copy_size, char *reason, size_t size);

const char *NA_Plugin_get_current(void)
{
    return atomic_load(&current_plugin);
}

void na_plugin_enter(const char *path)
{
    na_signals_enter();
    atomic_store(&current_plugin, path);
}

void na_plugin_leave(void)
{
    atomic_store(&current_plugin, NULL);
    na_signals_leave();
}

enum na_plugin_code na_transport_check(struct na_transport *transport,
                                       const struct na_plugin *plugin, const char *file_name,
                                       char *reason, size_t reason_size)
{
    struct na_plugin *table = &transport->table;
    enum na_plugin_code code;

    if (plugin == NULL) {
        (void) snprintf(reason, reason_size, "the entry function returned no table");
        return NA_LOADER_INVALID_TABLE;
    }
    code = check_version(plugin->abi_version, reason, reason_size);
    if (code != NA_LOADER_LOADED)
        return code;
    if (plugin->size < TABLE_MIN || plugin->size > NA_PLUGIN_TABLE_MAX) {
        (void) snprintf(reason, reason_size,
                        "the table's size is %u bytes, it must be between %zu and %u", plugin->size,
                        TABLE_MIN, NA_PLUGIN_TABLE_MAX);
        return NA_LOADER_INVALID_TABLE;
    }
    memset(table, 0, sizeof(*table));
    memcpy(table, plugin, plugin->size < sizeof(*table) ? plugin->size : sizeof(*table));
    table->size = sizeof(*table); /* of the copy, which plugins that wrap this one are given */
    if (!check_descriptor(table, file_name, reason, reason_size) ||
        !check_class_names(table, reason, reason_size) ||
        !check_option_names(table, reason, reason_size) ||
        !check_mandatory(table, reason, reason_size) ||
        !check_families(table, reason, reason_size) ||
        !load_extensions(transport, reason, reason_size))
        return NA_LOADER_INVALID_TABLE;
    return NA_LOADER_LOADED;
}

const char *na_transport_class_name(const struct na_transport *transport)
{
    const char *const *names = transport->table.class_names;

    return names != NULL && names[0] != NULL ? names[0] : transport->name;
}

bool na_transport_has_name(const struct na_transport *transport, const char *name)
{
    const char *const *names = transport->table.class_names;

    if (strcmp(transport->name, name) == 0)
        return true;
    for (; names != NULL && *names != NULL; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static enum na_plugin_code check_version(uint32_t abi_version, char *reason, size_t size)
{
    uint32_t major = abi_version >> 16, minor = abi_version & 0xffff;

    if (major == NA_PLUGIN_ABI_MAJOR)
        return NA_LOADER_LOADED;
    (void) snprintf(
        reason, size,
        "built for plugin ABI %u.%u, this library offers %u.%u: build the plugin with the "
        "headers of this release, or install the release it was built for",
        major, minor, NA_PLUGIN_ABI_MAJOR, NA_PLUGIN_ABI_MINOR);
    return major < NA_PLUGIN_ABI_MAJOR ? NA_LOADER_ABI_TOO_OLD : NA_LOADER_ABI_TOO_NEW;
}

static bool check_descriptor(const struct na_plugin *table, const char *file_name, char *reason,
                             size_t size)
{
    if (table->name == NULL) {
        (void) snprintf(reason, size, "the table has no name, the file is na_%s.so", file_name);
        return false;
    }
    if (strcmp(table->name, file_name) != 0) {
        (void) snprintf(reason, size, "the table's name is \"%.64s\", the file is na_%s.so",
                        table->name, file_name);
        return false;
    }
    if (table->op_size > NA_OP_PRIVATE_MAX) {
        (void) snprintf(reason, size, "op_size is %u bytes, %u is the most", table->op_size,
                        NA_OP_PRIVATE_MAX);
        return false;
    }
    if (table->op_align > NA_OP_ALIGN_MAX || (table->op_align & (table->op_align - 1)) != 0 ||
        (table->op_align == 0 && table->op_size != 0)) {
        (void) snprintf(reason, size, "op_align is %u, not a power of two up to %u",
                        table->op_align, NA_OP_ALIGN_MAX);
        return false;
    }
    return true;
}

static bool check_class_names(const struct na_plugin *table, char *reason, size_t size)
{
    for (size_t i = 0; table->class_names != NULL && table->class_names[i] != NULL; i++) {
        if (i == NA_CLASS_NAMES_MAX) {
            (void) snprintf(reason, size, "there are more than %d class names", NA_CLASS_NAMES_MAX);
            return false;
        }
        if (!na_plugin_name_is_valid(table->class_names[i])) {
            (void) snprintf(reason, size,
                            "class name \"%.64s\" is not made of letters, digits, \"_\" and \"-\"",
                            table->class_names[i]);
            return false;
        }
    }
    return true;
}

static bool check_option_names(const struct na_plugin *table, char *reason, size_t size)
{
    for (size_t i = 0; table->option_names != NULL && table->option_names[i] != NULL; i++) {
        const char *wrong = na_option_name_check(table->option_names[i]);

        if (i == NA_OPTIONS_MAX) {
            (void) snprintf(reason, size, "there are more than %d options", NA_OPTIONS_MAX);
            return false;
        }
        if (wrong != NULL) {
            (void) snprintf(reason, size, "the option's name \"%.64s\" %s", table->option_names[i],
                            wrong);
            return false;
        }
    }
    return true;
}

static bool check_mandatory(const struct na_plugin *table, char *reason, size_t size)
{
    const struct {
        bool there;
        const char *name;
    } functions[] = {
        {table->enumerate != NULL, "enumerate"},
        {table->initialize != NULL, "initialize"},
        {table->finalize != NULL, "finalize"},
        {table->context_create != NULL, "context_create"},
        {table->context_stop != NULL, "context_stop"},
        {table->context_destroy != NULL, "context_destroy"},
        {table->addr_lookup != NULL, "addr_lookup"},
        {table->addr_free != NULL, "addr_free"},
        {table->addr_dup != NULL, "addr_dup"},
        {table->addr_self != NULL, "addr_self"},
        {table->addr_is_self != NULL, "addr_is_self"},
        {table->addr_compare != NULL, "addr_compare"},
        {table->addr_to_string != NULL, "addr_to_string"},
        {table->msg_send_unexpected != NULL, "msg_send_unexpected"},
        {table->msg_recv_unexpected != NULL, "msg_recv_unexpected"},
        {table->msg_send_expected != NULL, "msg_send_expected"},
        {table->msg_recv_expected != NULL, "msg_recv_expected"},
        {table->poll != NULL, "poll"},
        {table->cancel != NULL, "cancel"},
    };

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (!functions[i].there) {
            (void) snprintf(reason, size, "the mandatory function %s is missing",
                            functions[i].name);
            return false;
        }
    }
    return true;
}

/* Checks groups of functions of which a plugin has all or none. */
static bool check_families(const struct na_plugin *table, char *reason, size_t size)
{
    const char *missing = NULL;

    if ((table->msg_buf_alloc == NULL) != (table->msg_buf_free == NULL))
        missing = table->msg_buf_alloc == NULL ? "msg_buf_alloc" : "msg_buf_free";
    else if ((table->put != NULL || table->get != NULL) && table->mem_create == NULL)
        missing = "mem_create";
    else if (table->mem_create != NULL && table->mem_destroy == NULL)
        missing = "mem_destroy";
    else if (table->mem_create != NULL && table->mem_serialize_size == NULL)
        missing = "mem_serialize_size";
    else if (table->mem_create != NULL && table->mem_serialize == NULL)
        missing = "mem_serialize";
    else if (table->mem_create != NULL && table->mem_deserialize == NULL)
        missing = "mem_deserialize";
    if (missing != NULL)
        (void) snprintf(reason, size, "%s is missing, though functions that need it are there",
                        missing);
    return missing == NULL;
}

static bool load_extensions(struct na_transport *transport, char *reason, size_t size)
{
    struct na_plugin *table = &transport->table;
    struct na_plugin_addr_serialize *serialize = &transport->addr_serialize;

    if (!load_extension(table, NA_PLUGIN_EXT_MEM_SEGMENTS, &transport->mem_segments,
                        sizeof(transport->mem_segments), reason, size) ||
        !load_extension(table, NA_PLUGIN_EXT_MULTI_RECV, &transport->multi_recv,
                        sizeof(transport->multi_recv), reason, size) ||
        !load_extension(table, NA_PLUGIN_EXT_ADDR_SERIALIZE, serialize, sizeof(*serialize), reason,
                        size) ||
        !load_extension(table, NA_PLUGIN_EXT_COUNTERS, &transport->counters,
                        sizeof(transport->counters), reason, size) ||
        !load_extension(table, NA_PLUGIN_EXT_PEER_EVENTS, &transport->peer_events,
                        sizeof(transport->peer_events), reason, size) ||
        !load_extension(table, NA_PLUGIN_EXT_OFFER_DETAILS, &transport->offer_details,
                        sizeof(transport->offer_details), reason, size) ||
        !load_extension(table, NA_PLUGIN_EXT_MEM_GRANT, &transport->mem_grant,
                        sizeof(transport->mem_grant), reason, size) ||
        !load_extension(table, NA_PLUGIN_EXT_MEM_ALLOC, &transport->mem_alloc,
                        sizeof(transport->mem_alloc), reason, size))
        return false;
    if (transport->mem_segments.mem_create_segments != NULL && table->mem_create == NULL) {
        (void) snprintf(reason, size, "%s is there, but mem_create is not",
                        NA_PLUGIN_EXT_MEM_SEGMENTS);
        return false;
    }
    if (transport->mem_segments.mem_create_segments != NULL &&
        transport->mem_segments.max_segments < 2) {
        (void) snprintf(reason, size, "%s has max_segments %llu, 2 is the least",
                        NA_PLUGIN_EXT_MEM_SEGMENTS,
                        (unsigned long long) transport->mem_segments.max_segments);
        return false;
    }
    if (serialize->addr_serialize_size == NULL || serialize->addr_serialize == NULL ||
        serialize->addr_deserialize == NULL)
        memset(serialize, 0, sizeof(*serialize));
    if (transport->mem_alloc.mem_alloc == NULL || transport->mem_alloc.mem_free == NULL)
        memset(&transport->mem_alloc, 0, sizeof(transport->mem_alloc));
    return true;
}

/* An extension that is absent leaves the copy zeroed. */
static bool load_extension(const struct na_plugin *table, const char *id, void *copy,
                           size_t copy_size, char *reason, size_t size)
{
    const struct na_plugin_extension *extension;

    memset(copy, 0, copy_size);
    if (table->get_extension == NULL)
        return true;
    extension = table->get_extension(id);
    if (extension == NULL)
        return true;
    if (extension->size < sizeof(*extension) || extension->size > NA_EXTENSION_TABLE_MAX) {
        (void) snprintf(reason, size, "extension %s has a size of %u bytes", id, extension->size);
        return false;
    }
    memcpy(copy, extension, extension->size < copy_size ? extension->size : copy_size);
    return true;
}
