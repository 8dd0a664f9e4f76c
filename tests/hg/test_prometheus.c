/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters in the text format of Prometheus: the text is well-formed, and its values equal those of
 * the API.
 */
#include "hg_fixture.h"

#include <ctype.h>
#include <stdio.h>

static char text[65536];

/* Get the text; also checks the reported size, and the error for a buffer that is too small. */
static void text_take(const struct side *side, const char *name)
{
    hg_size_t size = 0, needed;

    assert_int_equal(HG_Class_get_prometheus(side->hg_class, name, NULL, &size), HG_SUCCESS);
    assert_in_range(size, 1000, sizeof(text));
    needed = size;
    size = 10;
    assert_int_equal(HG_Class_get_prometheus(side->hg_class, name, text, &size), HG_OVERFLOW);
    assert_int_equal(size, needed);
    assert_int_equal(text[0], '\0');
    size = sizeof(text);
    assert_int_equal(HG_Class_get_prometheus(side->hg_class, name, text, &size), HG_SUCCESS);
    assert_int_equal(size, strlen(text) + 1);
}

/* The value of a sample; `rest` is the part of the labels that follows `transport`. */
static uint64_t text_value(const char *name, const char *rest)
{
    const size_t length = strlen(name);
    const char *line = text;

    for (; line != NULL && *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *labels = strstr(line, "transport=\""), *end;

        if (strncmp(line, name, length) != 0 || line[length] != '{')
            continue;
        assert_non_null(labels);
        end = strchr(labels + strlen("transport=\""), '"') + 1;
        if (strncmp(end, rest, strlen(rest)) == 0 && end[strlen(rest)] == '}')
            return strtoull(end + strlen(rest) + 1, NULL, 10);
    }
    fail_msg("there is no %s with %s", name, rest);
    return 0;
}

/* Each name has one TYPE line, so that all its samples are in one place. */
static void text_check_types(void)
{
    for (const char *line = strstr(text, "# TYPE "); line != NULL;
         line = strstr(line + 1, "# TYPE ")) {
        char type[160];

        assert_int_equal(sscanf(line, "# TYPE %127s", type + 7), 1);
        memcpy(type, "# TYPE ", 7);
        (void) strcat(type, " ");
        if (strstr(line + 1, type) != NULL)
            fail_msg("there are two of %s", type);
    }
}

/* Each sample is name{label="value",...} number, and follows the HELP and TYPE of its name. */
static void text_check_lines(void)
{
    char name[128] = "", help[128], type[128], kind[16];
    int samples = 0;

    for (char *line = text; *line != '\0';) {
        char *end = strchr(line, '\n');

        assert_non_null(end);
        *end = '\0';
        if (strncmp(line, "# HELP ", 7) == 0) {
            assert_int_equal(sscanf(line, "# HELP %127s", help), 1);
            assert_true(strlen(line) > 7 + strlen(help) + 3);
            *end = '\n';
            line = end + 1;
            end = strchr(line, '\n');
            *end = '\0';
            assert_int_equal(sscanf(line, "# TYPE %127s %15s", type, kind), 2);
            assert_string_equal(help, type);
            assert_string_not_equal(name, type);
            assert_true(strcmp(kind, "counter") == 0 || strcmp(kind, "gauge") == 0);
            assert_int_equal(strcmp(kind, "counter") == 0,
                             strcmp(type + strlen(type) - 6, "_total") == 0);
            (void) strcpy(name, type);
        } else {
            const char *value = strrchr(line, ' ') + 1;

            samples++;
            assert_int_equal(strncmp(line, name, strlen(name)), 0);
            assert_int_equal(line[strlen(name)], '{');
            assert_non_null(strstr(line, "class=\""));
            assert_int_equal(value[-2], '}');
            assert_int_equal(strspn(value, "0123456789"), strlen(value));
        }
        *end = '\n';
        line = end + 1;
    }
    assert_in_range(samples, 30, 200);
    text_check_types();
}

static void traffic(const struct pair *pair)
{
    hg_handle_t handle = pair_create(pair, RPC_FAIL);
    struct outcome outcome = {0};
    struct blob in;

    for (int i = 0; i < 5; i++)
        pair_echo(pair, 100);
    pair_echo(pair, pair_large(pair));
    blob_make(&in, 10, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pair_call(pair, handle, &in), HG_FAULT);
    (void) HG_Destroy(handle);
    handle = pair_create(pair, RPC_HOLD);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    pair_wait_held(pair, &pair->target, 1);
    assert_int_equal(HG_Cancel(handle), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, 1);
    (void) HG_Destroy(handle);
    for (int i = 2; i < 4; i++) {
        handle = pair_create(pair, RPC_HOLD);
        assert_int_equal(HG_Set_deadline(handle, 5), HG_SUCCESS);
        assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
        pair_wait_held(pair, &pair->target, i);
        pair_wait_for(pair, &outcome.count, i);
        (void) HG_Destroy(handle);
    }
    free(in.data);
}

static void check_forwards(const struct pair *pair)
{
    const struct hg_diag_counters diag = side_counters(&pair->origin);
    const struct hg_ext_counters ext = side_ext_counters(&pair->origin);

    text_take(&pair->origin, NULL);
    text_check_lines();
    assert_int_equal(text_value("amalgam_rpc_requests_sent_total", ""), diag.rpc_req_sent_count);
    assert_int_equal(text_value("amalgam_rpc_responses_received_total", ""),
                     diag.rpc_resp_recv_count);
    assert_int_equal(text_value("amalgam_rpc_overflows_total", ",message=\"request\""),
                     diag.rpc_req_extra_count);
    assert_int_equal(text_value("amalgam_rpc_forwards_total", ",result=\"success\""), 6);
    assert_int_equal(text_value("amalgam_rpc_forwards_total", ",result=\"error\""), 3);
    assert_int_equal(text_value("amalgam_rpc_forwards_total", ",result=\"canceled\""), 1);
    assert_int_equal(text_value("amalgam_rpc_forwards_total", ",result=\"timeout\""), 2);
    assert_int_equal(text_value("amalgam_timeouts_total", ""), ext.timeout_count);
    assert_int_equal(text_value("amalgam_rpc_sent_bytes_total", ",message=\"request\""),
                     ext.req_sent_bytes);
    assert_int_equal(text_value("amalgam_rpc_received_bytes_total", ",message=\"response\""),
                     ext.resp_recv_bytes);
    assert_int_equal(ext.forward_done_count, 6);
    assert_int_equal(ext.req_recv_bytes, 0);
    /* At least the headers of twelve requests and the five small blobs. */
    assert_in_range(ext.req_sent_bytes, 12 * 16 + 5 * 104, 1 << 20);
    assert_in_range(ext.resp_recv_bytes, 9 * 16 + 5 * 104, 1 << 20);
}

static void check_requests(const struct pair *pair)
{
    const struct hg_diag_counters diag = side_counters(&pair->target);
    const struct hg_ext_counters ext = side_ext_counters(&pair->target);

    text_take(&pair->target, "a \"b\" \\ c\nd");
    text_check_lines();
    assert_non_null(strstr(text, "{class=\"a \\\"b\\\" \\\\ c\\nd\",transport=\""));
    assert_int_equal(text_value("amalgam_rpc_requests_received_total", ""),
                     diag.rpc_req_recv_count);
    assert_int_equal(text_value("amalgam_rpc_requests_active", ""), 3);
    assert_int_equal(text_value("amalgam_rpc_responses_sent_total", ""), diag.rpc_resp_sent_count);
    assert_int_equal(text_value("amalgam_bulk_transfers_total", ""), diag.bulk_count);
    assert_int_equal(text_value("amalgam_bulk_bytes_total", ""), ext.bulk_bytes);
    assert_int_equal(text_value("amalgam_refused_total", ",reason=\"unknown_rpc\""),
                     ext.unknown_rpc_count);
    assert_int_equal(ext.req_recv_bytes, side_ext_counters(&pair->origin).req_sent_bytes);
    assert_true(text_value("amalgam_na_completed_total", "") > 0);
    if (strstr(text, "transport=\"na+sm\"") != NULL)
        assert_non_null(strstr(text, "# TYPE amalgam_na_sm_sends_queued_total counter\n"));
}

static void text_says_what_the_counters_say(void **state)
{
    struct pair pair = {0};
    struct blob out;

    (void) state;
    pair_open(&pair, NULL);
    traffic(&pair);
    check_forwards(&pair);
    check_requests(&pair);
    blob_make(&out, 10, 1);
    for (int i = 0; i < 3; i++)
        side_respond_held(&pair.target, &out);
    free(out.data);
    pair_close(&pair);
}

/* Also, two classes without a name have different labels. */
static void wrong_arguments_are_refused(void **state)
{
    struct pair pair = {0};
    hg_size_t size = sizeof(text);
    char *origin;

    (void) state;
    pair_open(&pair, NULL);
    assert_int_equal(HG_Class_get_prometheus(NULL, NULL, text, &size), HG_INVALID_ARG);
    assert_int_equal(HG_Class_get_prometheus(pair.origin.hg_class, NULL, text, NULL),
                     HG_INVALID_ARG);
    text_take(&pair.origin, NULL);
    origin = strndup(strstr(text, "{class="), 12);
    text_take(&pair.target, NULL);
    assert_int_not_equal(strncmp(strstr(text, "{class="), origin, 12), 0);
    free(origin);
    pair_close(&pair);
}

/* The label `class` of an origin with this name. */
static const char *label_of(const struct pair *pair, const char *name)
{
    static char label[512];
    const char *begin;

    text_take(&pair->origin, name);
    text_check_lines();
    begin = strstr(text, "{class=\"") + strlen("{class=\"");
    (void) snprintf(label, sizeof(label), "%.*s", (int) (strstr(begin, "\",transport=") - begin),
                    begin);
    return label;
}

/* Labels are UTF-8, as the format demands; a long label is cut between characters. */
static void labels_are_utf8(void **state)
{
    static const char *const whole[] = {"\303\244", "\342\202\254", "\360\237\230\200"};
    static const struct {
        const char *given, *shown;
    } broken[] = {
        {"a\377b", "a?b"},
        {"\244", "?"},
        {"\303", "?"},
        {"\303\"", "?\\\""},
        {"\300\257", "??"},
        {"\355\240\200", "???"},
        {"\364\220\200\200", "????"},
        {"\342\202x", "??x"},
        {"\340\200\200", "???"},
        {"\360\217\277\277", "????"},
    };
    struct pair pair = {0};
    char name[300];

    (void) state;
    pair_open(&pair, NULL);
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        const size_t length = strlen(whole[i]);

        assert_string_equal(label_of(&pair, whole[i]), whole[i]);
        /* A label has at most 255 bytes. */
        for (size_t before = 255 - length; before < 257; before++) {
            const char *label;

            memset(name, 'x', before);
            (void) strcpy(name + before, whole[i]);
            label = label_of(&pair, name);
            assert_int_equal(strlen(label), before + length <= 255 ? 255
                                            : before < 255         ? before
                                                                   : 255);
            assert_int_equal(strncmp(label, name, strlen(label)), 0);
        }
    }
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
        assert_string_equal(label_of(&pair, broken[i].given), broken[i].shown);
    pair_close(&pair);
}

/* One text for several classes, in which all samples of a name are in one place. */
static void classes_share_a_text(void **state)
{
    const char *names[] = {"front", "back"};
    struct pair pair = {0};
    hg_class_t *classes[2];
    hg_size_t size = sizeof(text);
    uint64_t sent;
    char *of_one;

    (void) state;
    pair_open(&pair, NULL);
    pair_echo(&pair, 100);
    classes[0] = pair.origin.hg_class;
    classes[1] = pair.target.hg_class;
    assert_int_equal(HG_Classes_get_prometheus(classes, names, 2, text, &size), HG_SUCCESS);
    assert_int_equal(size, strlen(text) + 1);
    text_check_lines();
    sent = side_counters(&pair.origin).rpc_req_sent_count;
    assert_int_equal(text_value("amalgam_rpc_requests_sent_total", ""), sent);
    assert_non_null(strstr(text, "amalgam_rpc_requests_sent_total{class=\"front\""));
    assert_non_null(strstr(text, "amalgam_rpc_requests_sent_total{class=\"back\""));
    assert_non_null(strstr(text, "amalgam_na_completed_total{class=\"front\""));
    assert_non_null(strstr(text, "amalgam_na_completed_total{class=\"back\""));

    /* For a single class this is the same text as that of HG_Class_get_prometheus(). */
    text_take(&pair.target, "back");
    of_one = strdup(text);
    size = sizeof(text);
    assert_int_equal(HG_Classes_get_prometheus(classes + 1, names + 1, 1, text, &size), HG_SUCCESS);
    assert_string_equal(text, of_one);
    free(of_one);
    size = sizeof(text);
    assert_int_equal(HG_Classes_get_prometheus(classes, NULL, 2, text, &size), HG_SUCCESS);
    text_check_lines();

    assert_int_equal(HG_Classes_get_prometheus(classes, names, 0, text, &size), HG_INVALID_ARG);
    assert_int_equal(HG_Classes_get_prometheus(NULL, names, 2, text, &size), HG_INVALID_ARG);
    assert_int_equal(HG_Classes_get_prometheus(classes, names, 2, text, NULL), HG_INVALID_ARG);
    names[1] = names[0];
    assert_int_equal(HG_Classes_get_prometheus(classes, names, 2, text, &size), HG_INVALID_ARG);
    classes[1] = NULL;
    assert_int_equal(HG_Classes_get_prometheus(classes, names, 2, text, &size), HG_INVALID_ARG);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_says_what_the_counters_say),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(labels_are_utf8),
        cmocka_unit_test(classes_share_a_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
