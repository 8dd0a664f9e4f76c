/* SPDX-License-Identifier: BSD-3-Clause */
/* The report as JSON. */

#include <inttypes.h>
#include <stdio.h>

#include "common/tool_json.h"
#include "hg_info/info_report.h"

static struct json_object *json_selection(const struct info_report *report);
static struct json_object *json_plugins(const struct info_report *report);
static struct json_object *json_skipped(const struct info_report *report);
static struct json_object *json_plugin(const struct na_plugin_record *record);
static void json_add_info(struct json_object *object, const struct na_plugin_record *record);
static struct json_object *json_protocol(const struct na_plugin_record *record, size_t index);
static struct json_object *json_strings(const char *const *strings, size_t count);
static void json_add_version(struct json_object *object, const char *name, uint32_t version);

bool info_print_json(const struct info_report *report)
{
    struct json_object *object = json_object_new_object();

    tool_json_add_string(object, "search_path", report->search_path);
    json_add_version(object, "abi_version", NA_Plugin_get_abi_version());
    if (report->init != NULL)
        (void) json_object_object_add(object, "init", json_selection(report));
    (void) json_object_object_add(object, "plugins", json_plugins(report));
    (void) json_object_object_add(object, "skipped", json_skipped(report));
    return tool_json_print(stdout, object);
}

static struct json_object *json_selection(const struct info_report *report)
{
    const struct na_selection *selection = report->selection;
    const struct info_endpoint *endpoint = &report->endpoint;
    struct json_object *object = json_object_new_object(), *candidates;

    tool_json_add_string(object, "string", report->init);
    tool_json_add_bool(object, "opened", report->opened);
    if (!report->opened) {
        tool_json_add_string(object, "reason", report->reason);
        return object;
    }
    tool_json_add_string(object, "class_name", selection->class_name);
    tool_json_add_string(object, "protocol_name", selection->protocol_name);
    tool_json_add_string(object, "file", selection->plugin_path);
    tool_json_add_string(object, "address",
                         endpoint->address[0] != '\0' ? endpoint->address : NULL);
    tool_json_add_uint(object, "max_unexpected_size", endpoint->max_unexpected_size);
    tool_json_add_uint(object, "max_expected_size", endpoint->max_expected_size);
    tool_json_add_uint(object, "max_segments", endpoint->max_segments);
    tool_json_add_bool(object, "waits_by_descriptor", endpoint->waits_by_descriptor);
    candidates = json_object_new_array();
    for (size_t i = 0; i < selection->candidate_count; i++) {
        struct json_object *candidate = json_object_new_object();

        tool_json_add_string(candidate, "class_name", selection->candidates[i].class_name);
        tool_json_add_string(candidate, "protocol_name", selection->candidates[i].protocol_name);
        tool_json_add_bool(candidate, "picked", selection->candidates[i].picked);
        tool_json_add_string(candidate, "reason", selection->candidates[i].reason);
        (void) json_object_array_add(candidates, candidate);
    }
    (void) json_object_object_add(object, "candidates", candidates);
    return object;
}

static struct json_object *json_plugins(const struct info_report *report)
{
    struct json_object *plugins = json_object_new_array();
    const struct na_plugin_record *record;

    for (record = report->records; record != NULL; record = record->next) {
        if (record->loaded)
            (void) json_object_array_add(plugins, json_plugin(record));
    }
    return plugins;
}

static struct json_object *json_skipped(const struct info_report *report)
{
    struct json_object *skipped = json_object_new_array();
    const struct na_plugin_record *record;

    for (record = report->records; record != NULL; record = record->next) {
        struct json_object *object;

        if (record->loaded)
            continue;
        object = json_plugin(record);
        tool_json_add_string(object, "stage", NA_Plugin_stage_to_string(record->stage));
        tool_json_add_string(object, "code", NA_Plugin_code_to_string(record->code));
        tool_json_add_string(object, "reason", record->text);
        (void) json_object_array_add(skipped, object);
    }
    return skipped;
}

static struct json_object *json_plugin(const struct na_plugin_record *record)
{
    struct json_object *object = json_object_new_object();

    tool_json_add_string(object, "name", record->name);
    tool_json_add_string(object, "file", record->path);
    json_add_version(object, "abi_version", record->abi_version);
    if (record->info != NULL)
        json_add_info(object, record);
    return object;
}

static void json_add_info(struct json_object *object, const struct na_plugin_record *record)
{
    const struct na_plugin_info *info = record->info;
    struct json_object *limits = json_object_new_object();
    struct json_object *protocols = json_object_new_array();

    tool_json_add_string(object, "version", info->version);
    tool_json_add_string(object, "description", info->description);
    (void) json_object_object_add(object, "class_names",
                                  json_strings(info->class_names, info->class_name_count));
    (void) json_object_object_add(object, "capabilities",
                                  json_strings(info->capabilities, info->capability_count));
    for (size_t i = 0; i < info->limit_count; i++)
        tool_json_add_uint(limits, info->limits[i].name, info->limits[i].value);
    (void) json_object_object_add(object, "limits", limits);
    for (size_t i = 0; i < info->protocol_count; i++)
        (void) json_object_array_add(protocols, json_protocol(record, i));
    (void) json_object_object_add(object, "protocols", protocols);
}

static struct json_object *json_protocol(const struct na_plugin_record *record, size_t index)
{
    const struct na_plugin_protocol *protocol = &record->info->protocols[index];
    const char *details = NA_Plugin_get_offer_details(record, index);
    struct json_object *object = json_object_new_object();

    tool_json_add_string(object, "name", protocol->name);
    tool_json_add_string(object, "device", protocol->device_name);
    tool_json_add_int(object, "priority", protocol->priority);
    tool_json_add_bool(object, "node_local", protocol->node_local);
    tool_json_add_bool(object, "usable", protocol->usable);
    tool_json_add_string(object, "reason", protocol->usable ? NULL : protocol->reason);
    tool_json_add_string(object, "details", details[0] != '\0' ? details : NULL);
    return object;
}

static struct json_object *json_strings(const char *const *strings, size_t count)
{
    struct json_object *array = json_object_new_array();

    for (size_t i = 0; i < count; i++)
        (void) json_object_array_add(array, tool_json_new_string(strings[i]));
    return array;
}

/* Adds a version as "1.0", or null if it is unknown. */
static void json_add_version(struct json_object *object, const char *name, uint32_t version)
{
    char text[32];

    (void) snprintf(text, sizeof(text), "%" PRIu32 ".%" PRIu32, version >> 16, version & 0xffff);
    tool_json_add_string(object, name, version != 0 ? text : NULL);
}
