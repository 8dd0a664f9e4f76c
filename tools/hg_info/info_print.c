/* SPDX-License-Identifier: BSD-3-Clause */
/* The report for people. */

#include <inttypes.h>
#include <stdio.h>

#include "hg_info/info_report.h"

static void print_selection(const struct info_report *report);
static void print_endpoint(const struct info_endpoint *endpoint);
static void print_plugins(const struct info_report *report);
static void print_plugin(const struct na_plugin_record *record);
static void print_protocol(const struct na_plugin_protocol *protocol);
static void print_skipped(const struct info_report *report);

bool info_print(const struct info_report *report)
{
    uint32_t abi = NA_Plugin_get_abi_version();

    if (report->init != NULL)
        print_selection(report);
    if (report->init == NULL || !report->opened) {
        printf("search path  %s\n", report->search_path);
        printf("plugin ABI   %" PRIu32 ".%" PRIu32 "\n", abi >> 16, abi & 0xffff);
        print_plugins(report);
        print_skipped(report);
    }
    return fflush(stdout) == 0;
}

static void print_selection(const struct info_report *report)
{
    const struct na_selection *selection = report->selection;

    if (!report->opened) {
        printf("%s cannot be opened: %s\n\n", report->init, report->reason);
        return;
    }
    printf("%s opens %s+%s\n", report->init, selection->class_name, selection->protocol_name);
    printf("  file           %s\n", selection->plugin_path);
    print_endpoint(&report->endpoint);
    printf("  considered\n");
    for (size_t i = 0; i < selection->candidate_count; i++) {
        const struct na_selection_candidate *candidate = &selection->candidates[i];

        printf("    %c %s%s%s: %s\n", candidate->picked ? '*' : '-',
               candidate->class_name != NULL ? candidate->class_name : "",
               candidate->protocol_name != NULL && candidate->protocol_name[0] != '\0' ? "+" : "",
               candidate->protocol_name != NULL ? candidate->protocol_name : "",
               candidate->reason != NULL ? candidate->reason : "");
    }
}

static void print_endpoint(const struct info_endpoint *endpoint)
{
    printf("  messages       %zu bytes unexpected, %zu bytes expected\n",
           endpoint->max_unexpected_size, endpoint->max_expected_size);
    printf("  memory         %zu segments in a handle\n", endpoint->max_segments);
    printf("  waiting        %s\n",
           endpoint->waits_by_descriptor ? "by file descriptor" : "inside the transport");
    if (endpoint->address[0] != '\0')
        printf("  address        %s\n", endpoint->address);
}

static void print_plugins(const struct info_report *report)
{
    const struct na_plugin_record *record;
    unsigned int count = 0;

    for (record = report->records; record != NULL; record = record->next) {
        if (record->loaded) {
            print_plugin(record);
            count++;
        }
    }
    if (count == 0 && report->init == NULL)
        printf("\nno plugin can be used\n");
}

static void print_plugin(const struct na_plugin_record *record)
{
    const struct na_plugin_info *info = record->info;

    printf("\nplugin %s\n", record->name);
    printf("  file           %s\n", record->path);
    printf("  ABI            %" PRIu32 ".%" PRIu32 "\n", record->abi_version >> 16,
           record->abi_version & 0xffff);
    if (info == NULL)
        return;
    printf("  version        %s\n", info->version);
    printf("  description    %s\n", info->description);
    printf("  class names   ");
    for (size_t i = 0; i < info->class_name_count; i++)
        printf(" %s", info->class_names[i]);
    printf("\n  capabilities  ");
    for (size_t i = 0; i < info->capability_count; i++)
        printf(" %s", info->capabilities[i]);
    printf("\n");
    for (size_t i = 0; i < info->limit_count; i++)
        printf("  %-14s %s = %" PRIu64 "\n", i == 0 ? "limits" : "", info->limits[i].name,
               info->limits[i].value);
    for (size_t i = 0; i < info->protocol_count; i++)
        print_protocol(&info->protocols[i]);
}

static void print_protocol(const struct na_plugin_protocol *protocol)
{
    bool device = protocol->device_name != NULL && protocol->device_name[0] != '\0';

    printf("  protocol       %s%s%s: priority %" PRId32 "%s%s%s\n", protocol->name,
           device ? " on " : "", device ? protocol->device_name : "", protocol->priority,
           protocol->node_local ? ", this node only" : "",
           protocol->usable ? "" : ", not usable here: ",
           protocol->usable || protocol->reason == NULL ? "" : protocol->reason);
}

static void print_skipped(const struct info_report *report)
{
    const struct na_plugin_record *record;
    bool first = true;

    for (record = report->records; record != NULL; record = record->next) {
        if (record->loaded || record->code == NA_PLUGIN_FOUND)
            continue;
        if (first)
            printf("\nskipped\n");
        first = false;
        printf("  %s\n    %s (%s): %s\n", record->path, NA_Plugin_code_to_string(record->code),
               NA_Plugin_stage_to_string(record->stage), record->text);
    }
}
