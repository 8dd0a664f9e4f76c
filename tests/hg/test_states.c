/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of a handle: the code has the tables that docs/architecture.md shows, and handles
 * follow them.
 */
#include "hg/handle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const states[HG_HANDLE_STATES] = {
    [HG_HANDLE_NONE] = "-",
    [HG_HANDLE_UNUSED] = "UNUSED",
    [HG_HANDLE_POSTED] = "POSTED",
    [HG_HANDLE_REFUSING] = "REFUSING",
    [HG_HANDLE_IDLE] = "IDLE",
    [HG_HANDLE_ACTIVE] = "ACTIVE",
    [HG_HANDLE_DRAINING] = "DRAINING",
    [HG_HANDLE_DONE] = "DONE",
};

static const char *const events[HG_EVENTS] = {
    [HG_EVENT_POST] = "POST",     [HG_EVENT_ARRIVE] = "ARRIVE", [HG_EVENT_HAND_OVER] = "HAND_OVER",
    [HG_EVENT_REFUSE] = "REFUSE", [HG_EVENT_START] = "START",   [HG_EVENT_FAIL] = "FAIL",
    [HG_EVENT_DRAIN] = "DRAIN",   [HG_EVENT_END] = "END",       [HG_EVENT_RELEASE] = "RELEASE",
};

static unsigned int find(const char *const *names, unsigned int count, const char *name)
{
    unsigned int i;

    for (i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    fail_msg("the page has \"%s\", the code has not", name);
    return 0;
}

/* Reads the rows below a table's heading. */
static void table_read(const char *heading, uint8_t table[HG_HANDLE_STATES][HG_EVENTS])
{
    char line[512], state[32], event[32], next[32];
    bool is_there = false;
    FILE *file = fopen(DOCS_FOLDER "/architecture.md", "r");

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (!is_there || line[0] != '|') {
            is_there = strncmp(line, heading, strlen(heading)) == 0;
            continue;
        }
        if (sscanf(line, "| %31[A-Z_] | %31[A-Z_] | %31[A-Z_] |", state, event, next) == 3)
            table[find(states, HG_HANDLE_STATES, state)][find(events, HG_EVENTS, event)] =
                (uint8_t) find(states, HG_HANDLE_STATES, next);
    }
    (void) fclose(file);
}

static void compare(const char *heading, const uint8_t code[HG_HANDLE_STATES][HG_EVENTS])
{
    uint8_t page[HG_HANDLE_STATES][HG_EVENTS] = {{0}};
    unsigned int state, event;

    table_read(heading, page);
    for (state = 0; state < HG_HANDLE_STATES; state++)
        for (event = 0; event < HG_EVENTS; event++)
            if (page[state][event] != code[state][event])
                fail_msg("%s in %s: the code goes to %s, the page to %s", events[event],
                         states[state], states[code[state][event]], states[page[state][event]]);
}

static void page_shows_the_life_of_an_origin(void **state)
{
    (void) state;
    compare("| origin's state |", hg_origin_next);
}

static void page_shows_the_life_of_a_target(void **state)
{
    (void) state;
    compare("| target's state |", hg_target_next);
}

static unsigned int logged;

static int count_lines(FILE *stream, const char *format, ...)
{
    (void) stream, (void) format;
    logged++;
    return 0;
}

static void stray_event_is_logged_and_changes_nothing(void **state)
{
    static _Alignas(UTIL_CACHE_LINE) struct hg_handle one;
    struct hg_handle *const handle = &one;

    (void) state;
    atomic_init(&handle->state, HG_HANDLE_IDLE);
    HG_Set_log_func(count_lines);
    hg_handle_advance_any(handle, hg_target_next, HG_EVENT_START);
    assert_int_equal(atomic_load(&handle->state), HG_HANDLE_ACTIVE);
    assert_int_equal(logged, 0);
    hg_handle_advance_any(handle, hg_target_next, HG_EVENT_HAND_OVER);
    assert_int_equal(atomic_load(&handle->state), HG_HANDLE_ACTIVE);
    assert_true(logged > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_shows_the_life_of_an_origin),
        cmocka_unit_test(page_shows_the_life_of_a_target),
        cmocka_unit_test(stray_event_is_logged_and_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
