/* SPDX-License-Identifier: BSD-3-Clause */
/* The report: a table for people, TAP version 13, or one JSON object. */

#include "na_conformance/report.h"

#include <stdio.h>
#include <string.h>

#include "common/tool_json.h"
#include "common/tool_signal.h"
#include "na_conformance/load.h"

static void print_line(const struct conf_result *result);
static void print_tap(const struct conf_results *results);
static bool print_json(const struct conf_results *results);
static const char *outcome_name(enum conf_outcome outcome);
static void print_text(const char *text);

static enum conf_form shown;

void conf_report_begin(enum conf_form form, const struct conf_results *results)
{
    (void) results;
    shown = form;
    if (form != CONF_FORM_TABLE)
        return;
    (void) printf("%s with %s%s\n", conf_settings.plugin, conf_settings.init,
                  conf_settings.fast ? ", --fast: fewer races and messages" : "");
    (void) fflush(stdout);
}

void conf_report_check(const struct conf_result *result)
{
    if (shown != CONF_FORM_TABLE)
        return;
    print_line(result);
    (void) fflush(stdout);
}

bool conf_report_end(enum conf_form form, const struct conf_results *results)
{
    if (form == CONF_FORM_JSON)
        return print_json(results);
    if (form == CONF_FORM_TAP) {
        print_tap(results);
        return fflush(stdout) == 0;
    }
    for (size_t i = 0; i < CONF_WATCHES; i++)
        if (results->items[i].wanted)
            print_line(&results->items[i]);
    (void) printf("%u passed, %u failed, %u skipped\n", conf_report_count(results, CONF_PASS),
                  conf_report_count(results, CONF_FAIL), conf_report_count(results, CONF_SKIP));
    return fflush(stdout) == 0;
}

bool conf_report_list(enum conf_form form, const struct conf_results *results)
{
    struct json_object *list = form == CONF_FORM_JSON ? json_object_new_array() : NULL;

    for (size_t i = 0; i < results->count; i++) {
        const struct conf_check *check = results->items[i].check;
        struct json_object *item;

        if (!results->items[i].wanted)
            continue;
        if (list == NULL) {
            (void) printf("%4u  %-24s %s\n", check->number, check->id, check->text);
            continue;
        }
        item = json_object_new_object();
        tool_json_add_uint(item, "number", check->number);
        tool_json_add_string(item, "id", check->id);
        tool_json_add_string(item, "text", check->text);
        (void) json_object_array_add(list, item);
    }
    return list != NULL ? tool_json_print(stdout, list) : fflush(stdout) == 0;
}

unsigned int conf_report_count(const struct conf_results *results, enum conf_outcome outcome)
{
    unsigned int count = 0;

    for (size_t i = 0; i < results->count; i++)
        count += results->items[i].wanted && results->items[i].outcome == outcome;
    return count;
}

static void print_line(const struct conf_result *result)
{
    (void) printf("%-4s %4u  %-24s %s", outcome_name(result->outcome), result->check->number,
                  result->check->id, result->check->text);
    if (result->reason[0] != '\0') {
        (void) printf("\n%*s", 11, "");
        print_text(result->reason);
    }
    (void) printf("\n");
}

static void print_tap(const struct conf_results *results)
{
    unsigned int number = 0;

    (void) printf("TAP version 13\n1..%u\n", conf_report_count(results, CONF_PASS) +
                                                 conf_report_count(results, CONF_FAIL) +
                                                 conf_report_count(results, CONF_SKIP));
    (void) printf("# %s with %s%s\n", conf_settings.plugin, conf_settings.init,
                  conf_settings.fast ? ", --fast: fewer races and messages" : "");
    for (size_t i = 0; i < results->count; i++) {
        const struct conf_result *result = &results->items[i];
        const bool failed = result->outcome == CONF_FAIL || result->interrupted;

        if (!result->wanted || result->outcome == CONF_NONE)
            continue;
        (void) printf("%s %u - %u %s: %s", failed ? "not ok" : "ok", ++number,
                      result->check->number, result->check->id, result->check->text);
        if (result->outcome == CONF_SKIP && !failed)
            (void) printf(" # SKIP ");
        else if (result->reason[0] != '\0')
            (void) printf("\n# ");
        print_text(result->reason);
        (void) printf("\n");
    }
    /* Without this line a reader would take the missing results for a shorter plan. */
    if (tool_signal_received() != 0)
        (void) printf("Bail out! Ended by signal %d (%s)\n", tool_signal_received(),
                      strsignal(tool_signal_received()));
}

static bool print_json(const struct conf_results *results)
{
    struct json_object *report = json_object_new_object(), *checks = json_object_new_array();

    tool_json_add_string(report, "plugin", conf_settings.plugin);
    tool_json_add_string(report, "init", conf_settings.init);
    tool_json_add_bool(report, "fast", conf_settings.fast);
    tool_json_add_uint(report, "passed", conf_report_count(results, CONF_PASS));
    tool_json_add_uint(report, "failed", conf_report_count(results, CONF_FAIL));
    tool_json_add_uint(report, "skipped", conf_report_count(results, CONF_SKIP));
    (void) json_object_object_add(report, "checks", checks);
    for (size_t i = 0; i < results->count; i++) {
        const struct conf_result *result = &results->items[i];
        struct json_object *item;

        if (!result->wanted || result->outcome == CONF_NONE)
            continue;
        item = json_object_new_object();
        tool_json_add_uint(item, "number", result->check->number);
        tool_json_add_string(item, "id", result->check->id);
        tool_json_add_string(item, "text", result->check->text);
        tool_json_add_string(item, "outcome", outcome_name(result->outcome));
        tool_json_add_string(item, "reason", result->reason[0] != '\0' ? result->reason : NULL);
        tool_json_add_number(item, "seconds", result->seconds);
        (void) json_object_array_add(checks, item);
    }
    return tool_json_print(stdout, report);
}

static const char *outcome_name(enum conf_outcome outcome)
{
    static const char *const names[] = {"none", "pass", "FAIL", "skip"};

    return names[outcome];
}

/* Prints a text, which may be from a plugin's log, on one line. */
static void print_text(const char *text)
{
    for (; *text != '\0'; text++)
        (void) putchar((unsigned char) *text < ' ' || *text == 0x7f ? ' ' : *text);
}
