/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: which lines are printed on which stream, and the debug log that is printed after an
 * error.
 */
#define _GNU_SOURCE
#include "mercury_log.h"
#include "mercury_util.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

HG_LOG_DECL_REGISTER(room);
HG_LOG_SUBSYS_DECL_REGISTER(corner, room);
HG_LOG_SUBSYS_DECL_STATE_REGISTER(quiet, room, HG_LOG_OFF);

static HG_LOG_DEBUG_DECL_LE(box, 4);
static HG_LOG_DEBUG_DECL_DLOG(box) = HG_LOG_DLOG_INITIALIZER(box, 4);
HG_LOG_DLOG_DECL_REGISTER(box);

static FILE *stream;
static char *text;
static size_t text_size;

/* The text that was printed since the last call. */
static const char *printed(void)
{
    static char copy[4096];

    assert_int_equal(fflush(stream), 0);
    (void) snprintf(copy, sizeof(copy), "%s", text);
    rewind(stream);
    (void) fputc(0, stream);
    assert_int_equal(fflush(stream), 0);
    rewind(stream);
    return copy;
}

static int set_up(void **state)
{
    (void) state;
    stream = open_memstream(&text, &text_size);
    assert_non_null(stream);
    hg_log_set_stream_error(stream);
    hg_log_set_stream_warning(stream);
    hg_log_set_stream_debug(stream);
    assert_ptr_equal(hg_log_get_stream_error(), stream);
    assert_ptr_equal(hg_log_get_stream_warning(), stream);
    assert_ptr_equal(hg_log_get_stream_debug(), stream);
    hg_log_set_level(HG_LOG_LEVEL_WARNING);
    return 0;
}

static int tear_down(void **state)
{
    (void) state;
    hg_log_set_stream_error(NULL);
    hg_log_set_stream_warning(NULL);
    hg_log_set_stream_debug(NULL);
    assert_ptr_equal(hg_log_get_stream_error(), stderr);
    (void) fclose(stream);
    free(text);
    return 0;
}

static void lines_of_the_level_are_printed(void **state)
{
    (void) state;
    HG_LOG_WRITE(room, HG_LOG_LEVEL_ERROR, "number %d", 5);
    assert_non_null(strstr(printed(), "room: [error]"));
    HG_LOG_WRITE(room, HG_LOG_LEVEL_ERROR, "number %d", 5);
    assert_non_null(strstr(printed(), ": number 5\n"));
    HG_LOG_WRITE(room, HG_LOG_LEVEL_WARNING, "a warning");
    assert_non_null(strstr(printed(), "a warning"));
    HG_LOG_WRITE(room, HG_LOG_LEVEL_DEBUG, "a detail");
    assert_string_equal(printed(), "");
    HG_LOG_SUBSYS_WRITE(corner, room, HG_LOG_LEVEL_WARNING, "from the corner");
    assert_non_null(strstr(printed(), "from the corner"));
    HG_LOG_SUBSYS_WRITE(quiet, room, HG_LOG_LEVEL_ERROR, "nothing");
    assert_string_equal(printed(), "");

    HG_Util_set_log_level("debug");
    assert_int_equal(hg_log_get_level(), HG_LOG_LEVEL_DEBUG);
    HG_LOG_WRITE_DEBUG_EXT(room, "header", "further %s\n", "text");
    assert_non_null(strstr(printed(), "header\nfurther text\n---\n"));
    HG_Util_set_log_level("none");
    HG_LOG_WRITE(room, HG_LOG_LEVEL_ERROR, "nothing");
    assert_string_equal(printed(), "");
}

static void names_are_turned_on_and_off(void **state)
{
    (void) state;
    hg_log_set_subsys("~room,quiet,later");
    assert_string_equal(hg_log_get_subsys(), "~room,quiet,later");
    HG_LOG_WRITE(room, HG_LOG_LEVEL_ERROR, "nothing");
    HG_LOG_SUBSYS_WRITE(corner, room, HG_LOG_LEVEL_ERROR, "nothing"); /* disabled with its parent */
    assert_string_equal(printed(), "");
    HG_LOG_SUBSYS_WRITE(quiet, room, HG_LOG_LEVEL_ERROR, "not quiet");
    assert_non_null(strstr(printed(), "not quiet"));
    hg_log_set_subsys("room,~quiet");
    HG_LOG_WRITE(room, HG_LOG_LEVEL_ERROR, "again");
    assert_non_null(strstr(printed(), "again"));

    hg_log_set_subsys_level("corner", HG_LOG_LEVEL_DEBUG);
    HG_LOG_SUBSYS_WRITE(corner, room, HG_LOG_LEVEL_DEBUG, "a detail");
    assert_non_null(strstr(printed(), "a detail"));
    HG_LOG_WRITE(room, HG_LOG_LEVEL_DEBUG, "nothing");
    assert_string_equal(printed(), "");
}

static void an_outlet_may_come_later(void **state)
{
    static HG_LOG_OUTLET_DECL(late) =
        HG_LOG_OUTLET_INITIALIZER(late, HG_LOG_PASS, &HG_LOG_OUTLET(room), NULL);

    (void) state;
    hg_log_set_subsys_level("late", HG_LOG_LEVEL_INFO);
    hg_log_outlet_register(&HG_LOG_OUTLET(late));
    hg_log_outlet_register(&HG_LOG_OUTLET(late));
    HG_LOG_WRITE(late, HG_LOG_LEVEL_INFO, "here");
    assert_non_null(strstr(printed(), "here"));
    hg_log_outlet_deregister(&HG_LOG_OUTLET(late));
    hg_log_outlet_deregister(&HG_LOG_OUTLET(late));
}

static void levels_have_names(void **state)
{
    (void) state;
    for (int level = HG_LOG_LEVEL_FATAL; level < HG_LOG_LEVEL_MAX; level++)
        assert_int_equal(hg_log_name_to_level(hg_log_level_to_string((enum hg_log_level) level)),
                         level);
    assert_int_equal(hg_log_name_to_level("no level"), HG_LOG_LEVEL_NONE);
    assert_int_equal(hg_log_name_to_level(NULL), HG_LOG_LEVEL_NONE);
    assert_string_equal(hg_log_level_to_string(HG_LOG_LEVEL_MAX), "");
}

static void an_error_shows_what_was_kept(void **state)
{
    hg_atomic_int32_t *counter = NULL;
    const char *out;

    (void) state;
    hg_log_set_level(HG_LOG_LEVEL_MIN_DEBUG);
    HG_LOG_ADD_COUNTER32(box, &counter, "steps", "steps done");
    for (int i = 0; i < 6; i++) {
        HG_LOG_WRITE(box, HG_LOG_LEVEL_DEBUG, "step %d", i);
        (void) hg_atomic_incr32(counter);
    }
    assert_string_equal(printed(), ""); /* kept, not printed */
    HG_LOG_WRITE(box, HG_LOG_LEVEL_ERROR, "failed");
    out = printed();
    assert_non_null(strstr(out, "failed"));
    assert_non_null(strstr(out, "4 records")); /* four of the six, the capacity of the debug log */
    assert_non_null(strstr(out, "steps: 6 [steps done]"));
    hg_log_dump_counters(&HG_LOG_OUTLET(box));
    assert_non_null(strstr(printed(), "steps: 6"));
    HG_LOG_DEL_COUNTER32(box, counter);
    hg_log_dump_counters(&HG_LOG_OUTLET(box));
    assert_string_equal(printed(), "");
}

static void a_debug_log_stops_when_it_is_full_or_told_to(void **state)
{
    char name[] = "a long name";
    struct hg_dlog *d = hg_dlog_alloc(name, 2, 0);
    hg_atomic_int64_t *first = NULL;
    hg_atomic_int64_t *second = NULL;
    char base[64];
    char path[80];

    (void) state;
    assert_non_null(d);
    hg_dlog_mkcount64(d, &first, "bytes", "bytes moved");
    hg_dlog_mkcount64(d, &second, "bytes", "bytes moved");
    assert_ptr_equal(first, second);
    hg_atomic_set64(first, INT64_C(1) << 40);
    assert_int_equal(hg_dlog_addlog(d, "f.c", 1, "f", "one", NULL), 1);
    hg_dlog_setlogstop(d, 1);
    assert_int_equal(hg_dlog_addlog(d, "f.c", 2, "f", NULL, NULL), 0);
    hg_dlog_setlogstop(d, 0);
    assert_int_equal(hg_dlog_addlog(d, "f.c", 3, "f", NULL, d), 1);
    assert_int_equal(hg_dlog_addlog(d, "f.c", 4, "f", NULL, NULL), 0);
    hg_thread_mutex_lock(&d->dlock);
    hg_dlog_dump(d, NULL, stream, 1); /* as a crash handler would */
    hg_thread_mutex_unlock(&d->dlock);
    assert_non_null(strstr(printed(), "f.c:1 f(): one\n"));
    hg_dlog_dump_counters(d, fprintf, stream, 0);
    assert_non_null(strstr(printed(), "bytes: 1099511627776 [bytes moved]"));
    hg_dlog_resetlog(d);
    assert_int_equal(hg_dlog_addlog(d, "f.c", 5, "f", NULL, NULL), 1);

    (void) snprintf(base, sizeof(base), "dropin-%d", (int) getpid());
    hg_dlog_dump_file(d, base, 0, 0);
    (void) snprintf(path, sizeof(path), "%s.log", base);
    assert_int_equal(unlink(path), 0);
    hg_dlog_rmcount64(d, first);
    hg_dlog_free(d);
    hg_dlog_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_of_the_level_are_printed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_are_turned_on_and_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_outlet_may_come_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(levels_have_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_error_shows_what_was_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_debug_log_stops_when_it_is_full_or_told_to, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
