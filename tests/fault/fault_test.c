/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrapped endpoints and bursts of messages; see fault_test.h. */

#include "fault_test.h"

struct send {
    struct burst *burst;
    unsigned int tag;
};

static void sent(const struct na_cb_info *info);
static void receive_next(struct burst *burst, struct end *to, struct event *event, na_op_id_t *op,
                         char *buf, size_t size);

void wrapped_open(struct end *end, const char *options)
{
    char init[512];

    (void) snprintf(init, sizeof(init), "fault+%s%s%s", test_init_string(),
                    options != NULL ? "://?" : "", options != NULL ? options : "");
    end_open(end, init, NULL);
}

void wrapped_stop(struct end *end)
{
    assert_int_equal(NA_Context_destroy(end->na_class, end->context), NA_SUCCESS);
    end->context = NULL;
}

void wrapped_close(struct end *end)
{
    struct na_counter counters[32];
    size_t count = 32;

    while (NA_Context_destroy(end->na_class, end->context) == NA_BUSY)
        (void) NA_Trigger(end->context, 100, NULL);
    assert_int_equal(NA_Class_get_counters(end->na_class, counters, &count), NA_SUCCESS);
    for (size_t i = 0; i < count; i++)
        if (strncmp(counters[i].name, "na_plugin_", 10) == 0)
            assert_int_equal(counters[i].value, 0);
    assert_int_equal(NA_Finalize(end->na_class), NA_SUCCESS);
}

void check_refused(const char *init_string, na_return_t ret, const char *why)
{
    na_class_t *na_class = NULL;
    char reason[1024] = "";

    assert_int_equal(NA_Initialize_reason(init_string, true, NA_VERSION(6, 0), NULL, &na_class,
                                          reason, sizeof(reason)),
                     ret);
    assert_null(na_class);
    if (strstr(reason, why) == NULL)
        print_error("\"%s\" is not in \"%s\"\n", why, reason);
    assert_non_null(strstr(reason, why));
}

void ends_progress(struct end *first, struct end *second)
{
    end_progress(first, 0);
    if (second != NULL)
        end_progress(second, 0);
}

bool ends_wait(struct end *first, struct end *second, struct event *event, unsigned int timeout_ms)
{
    const uint64_t until = now_ms() + timeout_ms;

    while (atomic_load(&event->done) == 0 && now_ms() <= until)
        ends_progress(first, second);
    return atomic_load(&event->done) != 0;
}

void burst_run(struct burst *burst, struct end *from, struct end *to, unsigned int count,
               unsigned int quiet_ms)
{
    na_op_id_t *receive = NA_Op_create(to->na_class, NA_OP_SINGLE), **ops;
    na_addr_t *addr = end_lookup(from, to);
    struct send *sends = calloc(count, sizeof(*sends));
    struct event event = {0};
    uint64_t until;
    char buf[64], message[64] = "burst";

    memset(burst, 0, sizeof(*burst));
    assert_true(count <= BURST_MAX);
    ops = calloc(count, sizeof(na_op_id_t *));
    assert_int_equal(end_receive_unexpected(to, &event, buf, sizeof(buf), receive), NA_SUCCESS);
    for (unsigned int i = 0; i < count; i++) {
        ops[i] = NA_Op_create(from->na_class, NA_OP_SINGLE);
        sends[i] = (struct send){burst, i};
        assert_int_equal(NA_Msg_send_unexpected(from->na_class, from->context, sent, &sends[i],
                                                message, sizeof(message), NULL, addr, 0, i, ops[i]),
                         NA_SUCCESS);
        burst->sent++;
        ends_progress(from, to);
        receive_next(burst, to, &event, receive, buf, sizeof(buf));
    }
    for (until = now_ms() + quiet_ms; now_ms() < until || burst->completed < count;) {
        const unsigned int before = burst->arrived;

        ends_progress(from, to);
        receive_next(burst, to, &event, receive, buf, sizeof(buf));
        if (burst->arrived != before)
            until = now_ms() + quiet_ms;
        assert_true(now_ms() < until + TEST_WAIT_MS);
    }
    assert_int_equal(NA_Cancel(to->na_class, to->context, receive), NA_SUCCESS);
    assert_true(ends_wait(to, from, &event, TEST_WAIT_MS));
    NA_Op_destroy(to->na_class, receive);
    for (unsigned int i = 0; i < count; i++)
        NA_Op_destroy(from->na_class, ops[i]);
    NA_Addr_free(from->na_class, addr);
    free(ops);
    free(sends);
}

bool is_ascending(const unsigned int *tags, unsigned int count)
{
    for (unsigned int i = 1; i < count; i++)
        if (tags[i] <= tags[i - 1])
            return false;
    return true;
}

static void sent(const struct na_cb_info *info)
{
    struct send *send = info->arg;

    send->burst->failed += info->ret != NA_SUCCESS;
    send->burst->order[send->burst->completed++] = send->tag;
}

static void receive_next(struct burst *burst, struct end *to, struct event *event, na_op_id_t *op,
                         char *buf, size_t size)
{
    if (atomic_load(&event->done) == 0)
        return;
    assert_int_equal(event->done, 1);
    assert_int_equal(event->ret, NA_SUCCESS);
    assert_true(burst->arrived < BURST_MAX);
    burst->tags[burst->arrived++] = event->tag;
    NA_Addr_free(to->na_class, event->source);
    *event = (struct event){0};
    assert_int_equal(end_receive_unexpected(to, event, buf, size, op), NA_SUCCESS);
}
