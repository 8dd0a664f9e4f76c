/* SPDX-License-Identifier: BSD-3-Clause */
/* The report for people. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hg_info/info_report.h"

static void print_selection(const struct info_report *report);
static void print_endpoint(const struct info_report *report);
static const char *waiting(const struct info_report *report);
static void print_plugins(const struct info_report *report);
static void print_plugin(const struct na_plugin_record *record);
static void print_protocol(const struct na_plugin_record *record, size_t index);
static void print_skipped(const struct info_report *report);
static void print(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void print_char(const char *text, size_t i, bool raw);

bool info_print(const struct info_report *report)
{
    uint32_t abi = NA_Plugin_get_abi_version();

    if (report->init != NULL)
        print_selection(report);
    if (report->init == NULL || !report->opened) {
        print("search path  %s\n", report->search_path);
        print("plugin ABI   %" PRIu32 ".%" PRIu32 "\n", abi >> 16, abi & 0xffff);
        print_plugins(report);
        print_skipped(report);
    }
    return fflush(stdout) == 0;
}

static void print_selection(const struct info_report *report)
{
    const struct na_selection *selection = report->selection;

    if (!report->opened) {
        print("%s cannot be opened: %s\n\n", report->init, report->reason);
        return;
    }
    print("%s opens %s+%s\n", report->init, selection->class_name, selection->protocol_name);
    print("  file           %s\n", selection->plugin_path);
    print_endpoint(report);
    print("  considered\n");
    for (size_t i = 0; i < selection->candidate_count; i++) {
        const struct na_selection_candidate *candidate = &selection->candidates[i];

        print("    %c %s%s%s: %s\n", candidate->picked ? '*' : '-', candidate->class_name,
              candidate->class_name[0] != '\0' && candidate->protocol_name[0] != '\0' ? "+" : "",
              candidate->protocol_name, candidate->reason);
    }
}

static void print_endpoint(const struct info_report *report)
{
    const struct info_endpoint *endpoint = &report->endpoint;

    print("  messages       %zu bytes unexpected, %zu bytes expected\n",
          endpoint->max_unexpected_size, endpoint->max_expected_size);
    print("  memory         %zu segment%s in a handle\n", endpoint->max_segments,
          endpoint->max_segments == 1 ? "" : "s");
    print("  waiting        %s\n", waiting(report));
    if (endpoint->address[0] != '\0')
        print("  address        %s\n", endpoint->address);
}

static const char *waiting(const struct info_report *report)
{
    if (report->endpoint.waits_by_descriptor)
        return "by file descriptor";
    for (const struct na_plugin_record *record = report->records; record != NULL;
         record = record->next)
        if (record->info != NULL && strcmp(record->path, report->selection->plugin_path) == 0)
            for (size_t i = 0; i < record->info->capability_count; i++)
                if (strcmp(record->info->capabilities[i], "poll_wait") == 0)
                    return "inside the transport";
    return "by polling, with naps between";
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
        print("\nno plugin can be used\n");
}

static void print_plugin(const struct na_plugin_record *record)
{
    const struct na_plugin_info *info = record->info;

    print("\nplugin %s\n", record->name);
    print("  file           %s\n", record->path);
    print("  ABI            %" PRIu32 ".%" PRIu32 "\n", record->abi_version >> 16,
          record->abi_version & 0xffff);
    if (info == NULL)
        return;
    print("  version        %s\n", info->version);
    print("  description    %s\n", info->description);
    print("  class names   ");
    for (size_t i = 0; i < info->class_name_count; i++)
        print(" %s", info->class_names[i]);
    print("\n  capabilities  ");
    for (size_t i = 0; i < info->capability_count; i++)
        print(" %s", info->capabilities[i]);
    print("\n");
    for (size_t i = 0; i < info->limit_count; i++)
        print("  %-14s %s = %" PRIu64 "\n", i == 0 ? "limits" : "", info->limits[i].name,
              info->limits[i].value);
    for (size_t i = 0; i < info->protocol_count; i++)
        print_protocol(record, i);
}

static void print_protocol(const struct na_plugin_record *record, size_t index)
{
    const struct na_plugin_protocol *protocol = &record->info->protocols[index];
    const char *details = NA_Plugin_get_offer_details(record, index);
    bool device = protocol->device_name != NULL && protocol->device_name[0] != '\0';

    print("  protocol       %s%s%s: priority %" PRId32 "%s%s%s\n", protocol->name,
          device ? " on " : "", device ? protocol->device_name : "", protocol->priority,
          protocol->node_local ? ", this node only" : "",
          protocol->usable ? "" : ", not usable here: ",
          protocol->usable || protocol->reason == NULL ? "" : protocol->reason);
    if (details[0] != '\0')
        print("                 %s\n", details);
}

static void print_skipped(const struct info_report *report)
{
    const struct na_plugin_record *record;
    bool first = true;

    for (record = report->records; record != NULL; record = record->next) {
        if (record->loaded || record->code == NA_LOADER_FOUND)
            continue;
        /* A mere name in the init string instead of a file: reported above. */
        if (record->code == NA_LOADER_MISSING && strchr(record->path, '/') == NULL)
            continue;
        if (first)
            print("\nskipped\n");
        first = false;
        print("  %s\n", record->path);
        print("    %s (%s): %s\n", NA_Plugin_code_to_string(record->code),
              NA_Plugin_stage_to_string(record->stage), record->text);
    }
}

/* Like printf(), but control characters in texts of plugins and users appear as \\xNN, because a
 * terminal would obey them. Line feeds of the format are kept. */
static void print(const char *format, ...)
{
    size_t first, last;
    char *text = NULL;
    va_list args;
    int length;

    va_start(args, format);
    length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0)
        return;
    first = strspn(format, "\n");
    last = (size_t) length;
    for (size_t i = strlen(format); i > first && format[i - 1] == '\n'; i--)
        last--;
    for (size_t i = 0; i < (size_t) length; i++)
        print_char(text, i, i < first || i >= last);
    free(text);
}

/* In UTF-8 a C1 control character is 0xc2 and a second byte from 0x80 to 0x9f. */
static void print_char(const char *text, size_t i, bool raw)
{
    const unsigned char *c = (const unsigned char *) text + i;
    bool control = c[0] < ' ' || c[0] == 0x7f || (c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f) ||
                   (c[0] >= 0x80 && c[0] <= 0x9f && i > 0 && c[-1] == 0xc2);

    if (control && !raw)
        (void) printf("\\x%02x", c[0]);
    else
        (void) putchar(c[0]);
}
