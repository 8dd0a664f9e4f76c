/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * na_conformance names the promise that each broken plugin breaks, and reports nothing for a plugin
 * that works.
 * Usage: test_conformance NA_CONFORMANCE SOUND_PLUGIN BROKEN_FOLDER
 */

#include "tools/tool_run.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *tool, *sound, *folder;
static struct tool_run run;

struct broken {
    const char *name;
    const char *only;  /* checks to run, which use the broken function */
    const char *finds; /* ids that have to fail, separated by commas */
};

static const struct broken broken[] = {
    {"loses", "msg.order,context.stop", "msg.order,op.completes"},
    {"twice", "msg.order", "op.once"},
    {"source", "msg.source", "msg.source"},
    {"past", "recv.order", "mem.bounds"},
    {"overrun", "recv.order", "mem.bounds"},
    {"leaks", "class.open", "mem.leak"},
    {"grows", "class.again", "class.again"},
    {"touches", "cancel.recv", "op.after"},
    {"exports", "file.exports", "file.exports"},
    {"blocks", "wait.idle", "wait.idle"},
    {"order", "msg.order", "msg.order"},
    {"drops", "msg.order", "msg.order"},
    {"late", "context.stop", "op.completes"},
    {"refuses", "msg.sizes", "op.accepted"},
    {"stuck", "cancel.recv", "cancel.recv"},
    {"tags", "msg.tags.unexpected", "msg.tags.unexpected"},
    {"offset", "rma.offsets", "rma.offsets"},
    {"numb", "wait.descriptor", "wait.descriptor"},
    {"crashes", "addr.string", "addr.string"},
    {"fails", "msg.order", "call.poll"},
    {"silent", "death.recv", "death.recv"},
    {"nameless", "addr.malformed", "addr.malformed"},
    {"strays", "recv.dropped", "recv.dropped"},
    {"counts", "addr.sources", "addr.sources"},
    {"keeps", "addr.sources", "addr.sources"},
    {"deaf", "wait.thread.receive", "wait.thread.receive"},
    {"boasts", "wait.forward", "wait.forward"},
    {"lies", "death.rma", "death.rma"},
    {"dozes", "wait.outstanding", "wait.outstanding"},
    {"clings", "class.open", "class.open"},
    {"wide", "class.first", "mem.bounds"},
    {"spreads", "death.others", "death.others"},
    {"aside", "msg.order,msg.order.contexts", "msg.order.contexts"},
    {"tallies", "wait.count", "wait.count"},
    {"insists", "recv.noretry.refused", "recv.noretry.refused"},
    {"hoards", "recv.bounded.sender", "recv.bounded.sender"},
    {"exceeds", "rma.range", "rma.range"},
    {"halves", "cancel.filling", "cancel.filling"},
    {"shrinks", "class.counters", "class.counters"},
    {"shouts", "table.options", "table.options"},
    {"lingers", "context.stop.waits", "context.stop.waits"},
    {"mute", "death.notice", "death.notice"},
    {"haunts", "context.stop.rma", "context.stop.rma"},
    {"doubts", "cancel.recv,cancel.trusted.recv", "cancel.trusted.recv"},
};

#define BROKEN_COUNT (sizeof(broken) / sizeof(broken[0]))

static void certify(const char *plugin, const char *only)
{
    tool_run(&run, tool, "--plugin", plugin, "--init", "na+sm", "--fast", "--json", "--only", only);
}

/* Returns "pass", "FAIL", "skip", or NULL if the check is not in the report. */
static const char *outcome_of(struct json_object *report, const char *id, size_t length)
{
    struct json_object *checks = tool_json_at(report, "checks");

    for (size_t i = 0; i < json_object_array_length(checks); i++) {
        struct json_object *check = json_object_array_get_idx(checks, i);
        const char *found = tool_json_string(check, "id");

        if (strlen(found) == length && strncmp(found, id, length) == 0)
            return tool_json_string(check, "outcome");
    }
    return NULL;
}

static void each_broken_promise_is_named(void **state)
{
    const struct broken *expected = *state;
    struct json_object *report;
    const char *id = expected->finds;
    char path[4096];

    (void) snprintf(path, sizeof(path), "%s/na_%s.so", folder, expected->name);
    certify(path, expected->only);
    assert_int_equal(run.code, 1);
    report = tool_run_json(&run);
    while (*id != '\0') {
        const size_t length = strcspn(id, ",");
        const char *outcome = outcome_of(report, id, length);

        if (outcome == NULL || strcmp(outcome, "FAIL") != 0)
            fail_msg("%s: %.*s is %s: %s", expected->name, (int) length, id,
                     outcome != NULL ? outcome : "not in the report", run.out);
        id += length + (id[length] == ',');
    }
    (void) json_object_put(report);
}

/*
 * The plugin behind the broken ones passes the same checks, so that their failures are not due to
 * the checks.
 */
static void the_plugin_behind_them_passes(void **state)
{
    struct json_object *report;
    char only[1024] = "";

    (void) state;
    for (size_t i = 0; i < BROKEN_COUNT; i++) {
        (void) strncat(only, broken[i].only, sizeof(only) - strlen(only) - 1);
        (void) strncat(only, ",", sizeof(only) - strlen(only) - 1);
    }
    certify(sound, only);
    if (run.code != 0)
        fail_msg("%s", run.out);
    report = tool_run_json(&run);
    assert_int_equal(tool_json_number(report, "failed"), 0);
    assert_true(tool_json_number(report, "passed") > 20);
    (void) json_object_put(report);
}

static void the_smallest_limits_are_enough(void **state)
{
    char path[4096];

    (void) state;
    (void) snprintf(path, sizeof(path), "%s/na_small.so", folder);
    certify(path,
            "class.info,context.stop,context.finalize,msg.sizes,msg.order.in,recv.held,cancel.rma,"
            "rma.outstanding,death.rma");
    if (run.code != 0)
        fail_msg("%s", run.out);
}

static void what_a_plugin_prints_is_not_in_the_report(void **state)
{
    char path[4096];

    (void) state;
    (void) snprintf(path, sizeof(path), "%s/na_prints.so", folder);
    certify(path, "class.open");
    assert_int_equal(run.code, 0);
    assert_null(strstr(run.out, "not ok"));
    assert_non_null(strstr(run.err, "not ok"));
    (void) json_object_put(tool_run_json(&run));
}

/*
 * The init string contains an invalid byte, an incomplete character, a surrogate, and a valid
 * character.
 */
static void a_report_is_utf8_whatever_it_was_told(void **state)
{
    (void) state;
    tool_run(&run, tool, "--plugin", sound, "--init", "na+sm\xff-\xc3-\xed\xa0\x80-\xc3\xa4",
             "--json", "--only", "table.version");
    assert_int_equal(run.code, 0);
    assert_non_null(strstr(run.out, "na+sm\xef\xbf\xbd-\xef\xbf\xbd-\xef\xbf\xbd\xef\xbf\xbd"
                                    "\xef\xbf\xbd-\xc3\xa4"));
}

static void a_report_follows_the_protocol(void **state)
{
    unsigned int planned = 0;

    (void) state;
    tool_run(&run, tool, "--plugin", sound, "--init", "na+sm", "--fast", "--tap", "--only",
             "table,110");
    assert_int_equal(run.code, 0);
    assert_int_equal(sscanf(run.out, "TAP version 13\n1..%u\n", &planned), 1);
    assert_in_range(planned, 5, 30);
    assert_non_null(strstr(run.out, "\nok 1 - 10 table.unchanged: "));
    assert_null(strstr(run.out, "not ok"));
    assert_non_null(strstr(run.out, "--fast"));
}

/*
 * The run is ended during a check that takes much longer than this test, once the check's process
 * exists.
 */
static void an_interrupted_run_bails_out(void **state)
{
    pid_t check;

    (void) state;
    tool_run_start(&run, tool, "--plugin", sound, "--init", "na+sm", "--tap", "--only",
                   "cancel.race", NULL);
    for (int i = 0; i < 20000 && tool_children(run.pid, &check, 1) == 0; i++)
        (void) usleep(1000);
    assert_int_equal(kill(run.pid, SIGTERM), 0);
    tool_run_wait(&run, 60);
    assert_int_equal(run.code, 128 + SIGTERM);
    assert_non_null(strstr(run.out, "\nnot ok 1 - 709 cancel.race: "));
    assert_null(strstr(run.out, "\nok "));
    assert_non_null(strstr(run.out, "\nBail out! Ended by signal 15"));
}

static void checks_are_listed_with_numbers_of_their_own(void **state)
{
    struct json_object *list;
    int64_t last = 0;

    (void) state;
    tool_run(&run, tool, "--list", "--json");
    assert_int_equal(run.code, 0);
    list = tool_run_json(&run);
    assert_in_range(json_object_array_length(list), 80, 1000);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *check = json_object_array_get_idx(list, i);
        int64_t number = (int64_t) tool_json_number(check, "number");

        assert_true(number > last);
        last = number;
        assert_non_null(strchr(tool_json_string(check, "id"), '.'));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(tool_json_string(check, "id"),
                                    tool_json_string(json_object_array_get_idx(list, j), "id"));
    }
    (void) json_object_put(list);
}

static const char *fifo_make(char *path)
{
    (void) sprintf(path, "/tmp/conformance-%ld.so", (long) getpid());
    assert_int_equal(mkfifo(path, 0600), 0);
    return path;
}

static void wrong_command_lines_are_told_from_failures(void **state)
{
    char path[64];

    (void) state;
    tool_run(&run, tool, "--init", "na+sm");
    assert_int_equal(run.code, 2);
    tool_run(&run, tool, "--plugin", "/nowhere/na_x.so", "--init", "na+sm");
    assert_int_equal(run.code, 2);
    tool_run(&run, tool, "--plugin", fifo_make(path), "--init", "na+sm", "--only", "file");
    assert_int_equal(run.code, 2);
    assert_non_null(strstr(run.err, "not a regular file"));
    assert_int_equal(unlink(path), 0);
    tool_run(&run, tool, "--plugin", sound, "--init", "na+sm", "--only", "no.such");
    assert_int_equal(run.code, 2);
    assert_non_null(strstr(run.err, "no.such"));
    tool_run(&run, tool, "--plugin", sound, "--init", "other+sm", "--only", "class.open");
    assert_int_equal(run.code, 1);
    assert_non_null(strstr(run.out, "other+sm"));
    tool_run(&run, tool, "--plugin", tool, "--init", "na+sm", "--only", "file,class.open");
    assert_int_equal(run.code, 1);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[BROKEN_COUNT + 8] = {
        cmocka_unit_test(the_plugin_behind_them_passes),
        cmocka_unit_test(the_smallest_limits_are_enough),
        cmocka_unit_test(what_a_plugin_prints_is_not_in_the_report),
        cmocka_unit_test(a_report_is_utf8_whatever_it_was_told),
        cmocka_unit_test(a_report_follows_the_protocol),
        cmocka_unit_test(an_interrupted_run_bails_out),
        cmocka_unit_test(checks_are_listed_with_numbers_of_their_own),
        cmocka_unit_test(wrong_command_lines_are_told_from_failures),
    };
    const struct CMUnitTest each = cmocka_unit_test(each_broken_promise_is_named);

    if (argc != 4)
        return 2;
    tool = argv[1];
    sound = argv[2];
    folder = argv[3];
    for (size_t i = 0; i < BROKEN_COUNT; i++) {
        tests[8 + i] = each;
        tests[8 + i].name = broken[i].name;
        tests[8 + i].initial_state = (void *) (uintptr_t) &broken[i];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
