/* SPDX-License-Identifier: BSD-3-Clause */
/* Command lines and the values of options. */

#include "common/tool_options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tool_message.h"

enum options_end {
    OPTIONS_READ,
    OPTIONS_HELP,
    OPTIONS_WRONG
};

static enum options_end options_read(const struct tool_options *options, int argc, char *argv[],
                                     void *settings);
static void options_refuse(const struct tool_options *options, int id, const char *text);
static bool parse_scaled(const char *text, uint64_t *value);

bool tool_options_parse(const struct tool_options *options, int argc, char *argv[], void *settings,
                        int *exit_code)
{
    switch (options_read(options, argc, argv, settings)) {
    case OPTIONS_HELP:
        *exit_code = fputs(options->help, stdout) >= 0 && fflush(stdout) == 0 ? TOOL_EXIT_OK
                                                                              : TOOL_EXIT_FAILED;
        return false;
    case OPTIONS_READ:
        if (options->finish(settings, argc - optind, argv + optind))
            return true;
        break;
    case OPTIONS_WRONG:
        break;
    }
    fprintf(stderr, "Try '%s --help'.\n", tool_message_get_name());
    *exit_code = TOOL_EXIT_USAGE;
    return false;
}

bool tool_parse_size(const char *option, const char *text, uint64_t min, uint64_t max,
                     uint64_t *value)
{
    if (!parse_scaled(text, value)) {
        tool_error("%s: '%s' is not a size; write bytes or a number with k, M, G or T", option,
                   text);
        return false;
    }
    if (*value < min || *value > max) {
        tool_error("%s: %s is out of range, %" PRIu64 " to %" PRIu64 " bytes are possible", option,
                   text, min, max);
        return false;
    }
    return true;
}

bool tool_parse_uint(const char *option, const char *text, unsigned int min, unsigned int max,
                     unsigned int *value)
{
    char *end = NULL;
    unsigned long parsed;

    errno = 0;
    parsed = isdigit((unsigned char) text[0]) ? strtoul(text, &end, 10) : 0;
    if (end == NULL || *end != '\0' || errno != 0) {
        tool_error("%s: '%s' is not a whole number", option, text);
        return false;
    }
    if (parsed < min || parsed > max) {
        tool_error("%s: %s is out of range, %u to %u is possible", option, text, min, max);
        return false;
    }
    *value = (unsigned int) parsed;
    return true;
}

bool tool_parse_seconds(const char *option, const char *text, double min, double max, double *value)
{
    char *end = NULL;
    double parsed = isdigit((unsigned char) text[0]) || text[0] == '.' ? strtod(text, &end) : 0;

    if (end == NULL || *end != '\0' || !isfinite(parsed)) {
        tool_error("%s: '%s' is not a number of seconds", option, text);
        return false;
    }
    if (parsed < min || parsed > max) {
        tool_error("%s: %s is out of range, %g to %g seconds are possible", option, text, min, max);
        return false;
    }
    *value = parsed;
    return true;
}

bool tool_parse_size_list(const char *option, const char *text, uint64_t min, uint64_t max,
                          uint64_t *values, size_t max_count, size_t *count)
{
    char item[64];
    const char *next = text;

    *count = 0;
    do {
        size_t len = strcspn(next, ",");

        if (*count == max_count) {
            tool_error("%s: more than %zu values", option, max_count);
            return false;
        }
        (void) snprintf(item, sizeof(item), "%.*s", (int) (len < 60 ? len : 60), next);
        if (!tool_parse_size(option, item, min, max, &values[*count]))
            return false;
        (*count)++;
        next += len;
    } while (*next++ == ',');
    return true;
}

const char *tool_format_size(uint64_t size, char *buf, size_t buf_size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double) size;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    (void) snprintf(buf, buf_size, value == (double) (uint64_t) value ? "%.0f %s" : "%.1f %s",
                    value, units[unit]);
    return buf;
}

static enum options_end options_read(const struct tool_options *options, int argc, char *argv[],
                                     void *settings)
{
    int id;

    opterr = 0;
    while ((id = getopt_long(argc, argv, ":h", options->table, NULL)) != -1) {
        if (id == TOOL_OPTION_HELP)
            return OPTIONS_HELP;
        if (id == '?' || id == ':') {
            options_refuse(options, id, argv[optind - 1]);
            return OPTIONS_WRONG;
        }
        if (!options->apply(settings, id, optarg))
            return OPTIONS_WRONG;
    }
    return OPTIONS_READ;
}

/* text is the last argument read; in a cluster of single letters it may not be the refused one. */
static void options_refuse(const struct tool_options *options, int id, const char *text)
{
    const struct option *option = options->table;

    while (option->name != NULL && (optopt == 0 || option->val != optopt))
        option++;
    if (option->name != NULL)
        tool_error(id == ':' ? "--%s needs a value" : "--%s takes no value", option->name);
    else if (optopt != 0)
        tool_error("-%c is not an option; options begin with two dashes", optopt);
    else
        tool_error("%s is not an option, or stands for several", text);
}

static bool parse_scaled(const char *text, uint64_t *value)
{
    static const char letters[] = "kMGT";
    const char *letter;
    char *end;
    unsigned int shift = 0;
    char unit;

    if (!isdigit((unsigned char) text[0]))
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    unit = *end == 'K' ? 'k' : *end;
    letter = unit != '\0' ? strchr(letters, unit) : NULL;
    if (letter != NULL) {
        shift = 10 * (unsigned int) (letter - letters + 1);
        end++;
        if (strcmp(end, "iB") == 0)
            end += 2;
    }
    if (*end == 'B')
        end++;
    if (*end != '\0' || (*value << shift) >> shift != *value)
        return false;
    *value <<= shift;
    return true;
}
