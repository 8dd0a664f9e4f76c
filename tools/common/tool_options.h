/* SPDX-License-Identifier: BSD-3-Clause */
/* Command lines, and the values of options: values are complete strings within a range, and
 * errors name the option. */

#ifndef AMALGAM_TOOL_OPTIONS_H
#define AMALGAM_TOOL_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The id of --help and of -h. Other ids begin at TOOL_OPTION_FIRST. */
#define TOOL_OPTION_HELP  'h'
#define TOOL_OPTION_FIRST 256

/* Description of a tool's command line. The functions return false after an error on stderr. */
struct tool_options {
    const char *help;           /* what --help prints */
    const struct option *table; /* ends with an empty entry; val is the id */
    bool (*apply)(void *settings, int id, const char *value);           /* handles one option */
    bool (*finish)(void *settings, int count, char *const arguments[]); /* handles the others */
};

/* Reads a command line into settings. Returns true when there is something to do; otherwise
 * *exit_code is set, and help or an error has been printed. */
bool tool_options_parse(const struct tool_options *options, int argc, char *argv[], void *settings,
                        int *exit_code);

/* A size in bytes: "4096", "64k", "1M", "2GiB"; the units are powers of two. */
bool tool_parse_size(const char *option, const char *text, uint64_t min, uint64_t max,
                     uint64_t *value);

/* A plain decimal number. */
bool tool_parse_uint(const char *option, const char *text, unsigned int min, unsigned int max,
                     unsigned int *value);

/* Seconds, with decimals: "2", "0.25". */
bool tool_parse_seconds(const char *option, const char *text, double min, double max,
                        double *value);

/* Sizes separated by commas; *count is their number; more than max_count is an error. */
bool tool_parse_size_list(const char *option, const char *text, uint64_t min, uint64_t max,
                          uint64_t *values, size_t max_count, size_t *count);

/* Formats a size for people: "4.0 KiB"; returns buf. */
const char *tool_format_size(uint64_t size, char *buf, size_t buf_size);

#endif /* AMALGAM_TOOL_OPTIONS_H */
