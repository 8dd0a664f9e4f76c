/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tools' common code for endpoints: the progress loop never sleeps after callbacks ran, and
 * origins do not take their target's address.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/tool_clock.h"
#include "common/tool_endpoint.h"

/* How long the loop sleeps if nothing happens. */
#define SLEEP_MS 60000U

struct call {
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t self;
    hg_handle_t handle;
    bool answered;
};

static const char *test_init_string(void)
{
    const char *string = getenv("AMALGAM_TEST_INIT");

    return string != NULL && string[0] != '\0' ? string : "na+sm";
}

static hg_return_t serve(hg_handle_t handle)
{
    hg_return_t ret = HG_Respond(handle, NULL, NULL, NULL);

    (void) HG_Destroy(handle);
    return ret;
}

static hg_return_t answered(const struct hg_cb_info *info)
{
    struct call *call = info->arg;

    call->answered = info->ret == HG_SUCCESS;
    return HG_SUCCESS;
}

static void call_self(struct call *call)
{
    hg_id_t id;

    memset(call, 0, sizeof(*call));
    call->hg_class = tool_endpoint_open(test_init_string(), true, NULL);
    assert_non_null(call->hg_class);
    call->context = HG_Context_create(call->hg_class);
    assert_non_null(call->context);
    id = HG_Register_name(call->hg_class, "serve", NULL, NULL, serve);
    assert_int_equal(HG_Addr_self(call->hg_class, &call->self), HG_SUCCESS);
    assert_int_equal(HG_Create(call->context, call->self, id, &call->handle), HG_SUCCESS);
    assert_int_equal(HG_Forward(call->handle, answered, call, NULL), HG_SUCCESS);
}

static void call_end(struct call *call)
{
    assert_int_equal(HG_Destroy(call->handle), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(call->hg_class, call->self), HG_SUCCESS);
    assert_int_equal(HG_Context_destroy(call->context), HG_SUCCESS);
    assert_int_equal(HG_Finalize(call->hg_class), HG_SUCCESS);
}

static void progress_does_not_sleep_after_a_callback(void **state)
{
    uint64_t start = tool_clock_ns();
    struct call call;

    (void) state;
    call_self(&call);
    while (!call.answered)
        assert_int_equal(tool_endpoint_progress(call.context, SLEEP_MS), HG_SUCCESS);
    assert_true(tool_clock_ns() - start < SLEEP_MS / 2 * UINT64_C(1000000));
    call_end(&call);
}

static void an_event_round_says_that_callbacks_ran(void **state)
{
    uint64_t end = tool_clock_ns() + SLEEP_MS * UINT64_C(1000000);
    unsigned int triggered = 0;
    struct call call;
    bool may_wait;

    (void) state;
    call_self(&call);
    while (!call.answered && tool_clock_ns() < end) {
        assert_int_equal(tool_endpoint_event_round(call.context, &triggered, &may_wait),
                         HG_SUCCESS);
        assert_true(!call.answered || triggered > 0);
    }
    assert_true(call.answered);
    call_end(&call);
}

static void origins_leave_out_the_addresses_of_an_init_string(void **state)
{
    static const char *const strings[][2] = {
        {"na+sm", "na+sm"},
        {"na+sm://name", "na+sm"},
        {"ofi+tcp://10.0.0.1:34567", "ofi+tcp"},
        {"ofi+tcp;ofi_rxm://[::1]:1,ucx+all://h:2", "ofi+tcp;ofi_rxm,ucx+all"},
        {"auto", "auto"},
        {"", ""},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        char *init = tool_endpoint_origin_init(strings[i][0]);

        assert_non_null(init);
        assert_string_equal(init, strings[i][1]);
        free(init);
    }
}

static void a_second_endpoint_is_on_the_same_host_and_takes_no_name(void **state)
{
    static const struct {
        const char *init;
        bool is_node_local;
        const char *beside;
    } strings[] = {
        {"ucx+tcp://127.0.0.1", false, "ucx+tcp://127.0.0.1"},
        {"ofi+tcp://127.0.0.1:7000", false, "ofi+tcp://127.0.0.1"},
        {"ofi+tcp://eth0/[fe80::1%eth0]:7000", false, "ofi+tcp://eth0/[fe80::1%eth0]"},
        {"ofi+tcp://[::1]", false, "ofi+tcp://[::1]"},
        {"ofi+tcp://:7000", false, "ofi+tcp"},
        {"ofi+tcp://h:1?a=b:c,ucx+all://i:2", false, "ofi+tcp://h?a=b:c,ucx+all://i"},
        {"na+sm://name", true, "na+sm"},
        {"na+sm://name?rma=copy", true, "na+sm://?rma=copy"},
        {"auto", false, "auto"},
        {"", false, ""},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        char *init = tool_endpoint_beside_init(strings[i].init, strings[i].is_node_local);

        assert_non_null(init);
        assert_string_equal(init, strings[i].beside);
        free(init);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_does_not_sleep_after_a_callback),
        cmocka_unit_test(an_event_round_says_that_callbacks_ran),
        cmocka_unit_test(origins_leave_out_the_addresses_of_an_init_string),
        cmocka_unit_test(a_second_endpoint_is_on_the_same_host_and_takes_no_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
