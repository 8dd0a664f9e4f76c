/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The extension for plugins that wrap another plugin: selecting that plugin, and creating
 * operations for it.
 */

#include "na/host.h"
#include "na/operation.h"
#include "na/wrap.h"

#include "na_test.h"

#define CANDIDATES_MAX 8

struct candidates {
    unsigned int count;
    const struct na_plugin *plugins[CANDIDATES_MAX];
    char class_names[CANDIDATES_MAX][64];
    char protocols[CANDIDATES_MAX][64];
    unsigned int stop_at; /* 0: never */
};

static int32_t note(void *arg, const struct na_plugin_wrap_candidate *candidate)
{
    struct candidates *candidates = arg;

    assert_true(candidates->count < CANDIDATES_MAX);
    candidates->plugins[candidates->count] = candidate->plugin;
    (void) snprintf(candidates->class_names[candidates->count], 64, "%s", candidate->class_name);
    (void) snprintf(candidates->protocols[candidates->count], 64, "%s", candidate->offer->protocol);
    candidates->count++;
    return candidates->count == candidates->stop_at ? NA_PLUGIN_EXIST : NA_PLUGIN_SUCCESS;
}

static int32_t wrap_select(const char *choice, struct candidates *candidates, char *reason,
                           size_t size)
{
    reason[0] = '\0';
    candidates->count = 0;
    return na_host_get_wrap()->select(choice, note, candidates, reason, size);
}

static void the_host_gives_the_family_by_its_id(void **state)
{
    const struct na_host *host = na_host_get();
    const struct na_plugin_wrap *wrap = host->get_extension(NA_PLUGIN_EXT_WRAP);

    (void) state;
    assert_ptr_equal(wrap, na_host_get_wrap());
    assert_int_equal(wrap->extension.size, sizeof(*wrap));
    assert_null(host->get_extension("na.wrap/2"));
    assert_null(host->get_extension(""));
    assert_null(host->get_extension(NULL));
    assert_true(host->size >= offsetof(struct na_host, get_extension) + sizeof(void *));
}

static void candidates_come_in_the_order_of_the_core(void **state)
{
    struct candidates candidates = {0};
    char reason[256];

    (void) state;
    use_plugins("loop");
    assert_int_equal(wrap_select("loop+self", &candidates, reason, sizeof(reason)), 0);
    assert_int_equal(candidates.count, 2);
    for (unsigned int i = 0; i < 2; i++) {
        assert_string_equal(candidates.plugins[i]->name, "loop");
        assert_string_equal(candidates.class_names[i], "loop");
        assert_string_equal(candidates.protocols[i], "self");
        assert_int_equal(candidates.plugins[i]->size, sizeof(struct na_plugin));
    }
    candidates.stop_at = 1;
    assert_int_equal(wrap_select("loop+self", &candidates, reason, sizeof(reason)),
                     NA_PLUGIN_EXIST);
    assert_int_equal(candidates.count, 1);
}

/*
 * The core returns a copy of the table, in which functions that the plugin does not have are NULL.
 */
static void a_short_table_is_completed(void **state)
{
    struct candidates candidates = {0};
    char reason[256];

    (void) state;
    use_plugins("good");
    assert_int_equal(wrap_select("minimal+wire", &candidates, reason, sizeof(reason)), 0);
    assert_int_equal(candidates.count, 1);
    assert_int_equal(candidates.plugins[0]->size, sizeof(struct na_plugin));
    assert_null(candidates.plugins[0]->get_extension);
}

static void what_is_no_choice_is_refused_with_the_reason(void **state)
{
    static const struct {
        const char *choice;
        int32_t status;
        const char *why;
    } wrong[] = {
        {"", NA_PLUGIN_INVALID_ARG, "empty"},
        {NULL, NA_PLUGIN_INVALID_ARG, "NULL"},
        {"loop+self,loop+self", NA_PLUGIN_INVALID_ARG, "not one choice"},
        {"loop+self://1", NA_PLUGIN_INVALID_ARG, "not one choice"},
        {"loop+", NA_PLUGIN_INVALID_ARG, "missing"},
        {"nobody+self", NA_PLUGIN_NOENTRY, "there is no na_nobody.so"},
        {"loop+other", NA_PLUGIN_PROTONOSUPPORT, "does not offer"},
    };

    (void) state;
    use_plugins("loop");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct candidates candidates = {0};
        char reason[256];

        assert_int_equal(wrap_select(wrong[i].choice, &candidates, reason, sizeof(reason)),
                         wrong[i].status);
        assert_int_equal(candidates.count, 0);
        assert_non_null(strstr(reason, wrong[i].why));
    }
}

/* The reports for the operation. */
struct reports {
    unsigned int plain, receives, events;
    int32_t status;
    uint64_t size;
    uint32_t tag, last;
};

static void on_complete(void *arg, int32_t status)
{
    struct reports *reports = arg;

    reports->plain++;
    reports->status = status;
}

static void on_complete_recv(void *arg, int32_t status, uint64_t size,
                             struct na_plugin_addr *source, uint32_t tag)
{
    struct reports *reports = arg;

    (void) source;
    reports->receives++;
    reports->status = status;
    reports->size = size;
    reports->tag = tag;
}

static int32_t on_complete_multi_recv(void *arg, int32_t status, void *buf, uint64_t size,
                                      struct na_plugin_addr *source, uint32_t tag, uint32_t last)
{
    struct reports *reports = arg;

    (void) buf;
    (void) source;
    reports->events++;
    reports->status = status;
    reports->size = size;
    reports->tag = tag;
    reports->last = last;
    return NA_PLUGIN_NOMEM;
}

static void reports_go_to_the_wrapping_plugin(void **state)
{
    static const struct na_plugin_wrap_events events = {on_complete, on_complete_recv,
                                                        on_complete_multi_recv};
    struct na_plugin plugin = {.op_size = 200, .op_align = 128};
    const struct na_host *host = na_host_get();
    struct reports reports = {0};
    unsigned char *op = na_host_get_wrap()->op_create(&plugin, &events, &reports);

    (void) state;
    assert_non_null(op);
    assert_int_equal((uintptr_t) op % 128, 0);
    for (int i = 0; i < 200; i++)
        assert_int_equal(op[i], 0);
    memset(op, 0xff, 200);
    host->op_complete(op, NA_PLUGIN_CANCELED);
    assert_int_equal(reports.plain, 1);
    assert_int_equal(reports.status, NA_PLUGIN_CANCELED);
    host->op_complete_recv(op, NA_PLUGIN_SUCCESS, 77, NULL, 5);
    assert_int_equal(reports.receives, 1);
    assert_int_equal(reports.size, 77);
    assert_int_equal(reports.tag, 5);
    assert_int_equal(host->op_complete_multi_recv(op, NA_PLUGIN_SUCCESS, op, 8, NULL, 6, 1),
                     NA_PLUGIN_NOMEM);
    assert_int_equal(reports.events, 1);
    assert_int_equal(reports.last, 1);
    /* The operation may be completed again each time it is posted. */
    host->op_complete(op, NA_PLUGIN_SUCCESS);
    assert_int_equal(reports.plain, 2);
    na_host_get_wrap()->op_destroy(op);
    na_host_get_wrap()->op_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_gives_the_family_by_its_id),
        cmocka_unit_test(candidates_come_in_the_order_of_the_core),
        cmocka_unit_test(a_short_table_is_completed),
        cmocka_unit_test(what_is_no_choice_is_refused_with_the_reason),
        cmocka_unit_test(reports_go_to_the_wrapping_plugin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
