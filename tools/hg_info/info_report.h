/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of hg_info, and its two output formats. */

#ifndef AMALGAM_INFO_REPORT_H
#define AMALGAM_INFO_REPORT_H

#include <na.h>
#include <na_ext.h>
#include <stdbool.h>
#include <stddef.h>

#define INFO_PATH_SIZE    8192
#define INFO_REASON_SIZE  1024
#define INFO_ADDRESS_SIZE 2048

/* Message sizes of an open endpoint; the sizes that a plugin declares are upper bounds of these. */
struct info_endpoint {
    size_t max_unexpected_size;
    size_t max_expected_size;
    size_t max_segments;
    bool waits_by_descriptor;
    char address[INFO_ADDRESS_SIZE]; /* empty without --listen */
};

struct info_report {
    const char *init;                       /* NULL: show the plugins only */
    const struct na_plugin_record *records; /* of every file */
    char search_path[INFO_PATH_SIZE];
    bool opened; /* with init: true: the next two are valid; false: reason is */
    const struct na_selection *selection;
    struct info_endpoint endpoint;
    char reason[INFO_REASON_SIZE];
};

/* Prints the report for people, or as one JSON object; false if writing to stdout failed. */
bool info_print(const struct info_report *report);
bool info_print_json(const struct info_report *report);

#endif /* AMALGAM_INFO_REPORT_H */
