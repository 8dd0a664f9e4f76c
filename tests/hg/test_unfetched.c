/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large responses that no origin fetches: the target gets its handles, blocks and descriptors back,
 * with and without an ABANDON message.
 */
#include "hg_words.h"

/* Responses of each test; AMALGAM_TEST_COUNT overrides the number. */
#define COUNT   (test_is_sm() ? 2000 : 640)
#define AT_ONCE 32

/* The linker wraps this function of NA: while `is_mute` is set, ABANDON messages are lost. */
static bool is_mute;

na_return_t __real_NA_Msg_send_unexpected(na_class_t *, na_context_t *, na_cb_t, void *,
                                          const void *, size_t, void *, na_addr_t *, uint8_t,
                                          na_tag_t, na_op_id_t *);
na_return_t __wrap_NA_Msg_send_unexpected(na_class_t *, na_context_t *, na_cb_t, void *,
                                          const void *, size_t, void *, na_addr_t *, uint8_t,
                                          na_tag_t, na_op_id_t *);

na_return_t __wrap_NA_Msg_send_unexpected(na_class_t *na_class, na_context_t *context,
                                          na_cb_t callback, void *arg, const void *buf, size_t size,
                                          void *data, na_addr_t *dest, uint8_t id, na_tag_t tag,
                                          na_op_id_t *op)
{
    if (is_mute)
        return NA_IO_ERROR;
    return __real_NA_Msg_send_unexpected(na_class, context, callback, arg, buf, size, data, dest,
                                         id, tag, op);
}

static int wanted_count(void)
{
    const char *count = getenv("AMALGAM_TEST_COUNT");

    return count != NULL ? atoi(count) : COUNT;
}

/* The target's resources that the test counts. */
struct resources {
    uint32_t handles_made;
    uint32_t handles_used;
    int32_t bulks;
    hg_size_t kept;
};

static struct resources resources_of(const struct side *side)
{
    struct resources resources = {0};

    (void) pthread_mutex_lock(&hg_rpc_context(side->context)->targets[HG_PATH_MAIN].lock);
    resources.handles_made = hg_rpc_context(side->context)->targets[HG_PATH_MAIN].count;
    (void) pthread_mutex_unlock(&hg_rpc_context(side->context)->targets[HG_PATH_MAIN].lock);
    resources.handles_used = hg_pools_count(hg_rpc_context(side->context)->targets);
    resources.bulks = atomic_load(&side->hg_class->bulk->count);
    resources.kept = side->hg_class->bulk->blocks.kept;
    return resources;
}

/* All handles are back, and no response waits to be fetched. */
static bool is_settled(const struct side *side, uint32_t used)
{
    return resources_of(side).handles_used == used &&
           hg_rpc_context(side->context)->controls.awaiting == NULL;
}

/*
 * Forward AT_ONCE RPCs and cancel them all. Over shared memory the handlers respond before the
 * cancel. Elsewhere a request may need its origin's progress to arrive, so that the target responds
 * after the cancel.
 */
static void give_up_some(struct pair *pair, hg_handle_t *handles, bool mute)
{
    int handled = atomic_load(&pair->target.handled);
    int responded = atomic_load(&pair->target.responded);
    struct blob in = {0};
    struct outcome outcome = {0};
    uint32_t size = pair_large(pair);

    for (int i = 0; i < AT_ONCE; i++)
        assert_int_equal(
            HG_Forward(handles[i], outcome_set, &outcome, test_is_sm() ? (void *) &size : &in),
            HG_SUCCESS);
    if (!test_is_sm())
        pair_wait_held(pair, &pair->target, AT_ONCE);
    while (atomic_load(&pair->target.handled) < handled + AT_ONCE)
        side_progress(&pair->target);
    is_mute = mute;
    for (int i = 0; i < AT_ONCE; i++)
        assert_int_equal(HG_Cancel(handles[i]), HG_SUCCESS);
    pair_wait_for(pair, &outcome.count, AT_ONCE);
    is_mute = false;
    assert_int_equal(outcome.ret, HG_CANCELED);
    side_respond_all(&pair->target, size);
    pair_wait_for(pair, &pair->target.responded, responded + AT_ONCE);
}

static void run(bool mute, unsigned int timeout_ms, int count)
{
    struct pair pair = {0};
    hg_handle_t handles[AT_ONCE];
    struct resources before, after;
    uint32_t used;

    pair_open(&pair, NULL);
    used = resources_of(&pair.target).handles_used;
    assert_int_equal(HG_Class_set_overflow_timeout(pair.target.hg_class, timeout_ms), HG_SUCCESS);
    for (int i = 0; i < AT_ONCE; i++)
        handles[i] = pair_create(&pair, test_is_sm() ? RPC_FILL : RPC_HOLD);
    give_up_some(&pair, handles, mute);
    pair_until(&pair, is_settled(&pair.target, used));
    assert_true(is_settled(&pair.target, used));
    before = resources_of(&pair.target);
    for (int i = 0; i < count; i += AT_ONCE) {
        give_up_some(&pair, handles, mute);
        pair_until(&pair, is_settled(&pair.target, used));
    }
    after = resources_of(&pair.target);
    assert_true(is_settled(&pair.target, used));
    assert_in_range(after.handles_made, 1, before.handles_made + AT_ONCE);
    assert_in_range(after.bulks, 0, before.bulks + AT_ONCE);
    assert_in_range(after.kept, 0, before.kept + AT_ONCE * (hg_size_t) (pair_large(&pair) + 65536));
    for (int i = 0; i < AT_ONCE; i++)
        (void) HG_Destroy(handles[i]);
    assert_int_equal(
        HG_Class_set_overflow_timeout(pair.target.hg_class, HG_OVERFLOW_TIMEOUT_DEFAULT),
        HG_SUCCESS);
    pair_echo(&pair, pair_large(&pair));
    pair_close(&pair);
}

static void given_up_responses_leave_nothing_behind(void **state)
{
    (void) state;
    run(false, HG_OVERFLOW_TIMEOUT_DEFAULT, wanted_count());
}

/* The target gets no ABANDON: the response ends by the overflow time-out. */
static void unfetched_responses_leave_nothing_behind(void **state)
{
    (void) state;
    run(true, 5, wanted_count() / 10);
}

/*
 * The block is larger than the response, and the rest of it holds bytes of other RPCs, which the
 * origin must not be able to read.
 */
static void origin_is_told_of_its_response_only(void **state)
{
    struct pair pair = {0};
    struct outcome outcome = {0};
    const struct hg_extra *extra;
    hg_handle_t handle;
    struct blob in, out;

    (void) state;
    pair_open(&pair, NULL);
    handle = pair_create(&pair, RPC_HOLD);
    blob_make(&in, 10, 1);
    blob_make(&out, pair_large(&pair) + 1, 2);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    pair_wait_held(&pair, &pair.target, 1);
    extra = &pair.target.held[0]->out_extra;
    assert_int_equal(HG_Respond(pair.target.held[0], NULL, NULL, &out), HG_SUCCESS);
    assert_non_null(extra->block);
    assert_true(extra->block->capacity > extra->size);
    assert_int_equal(HG_Bulk_get_size(extra->block->source), extra->size);
    (void) HG_Destroy(pair.target.held[0]);
    pair.target.held_count = 0;
    pair_wait_for(&pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    (void) HG_Destroy(handle);
    free(in.data);
    free(out.data);
    pair_close(&pair);
}

/* Handlers that respond late: the origins abandon the RPCs long before the responses. */
enum {
    RPC_LATER = 60,
    LATER_MAX = 300
};

static hg_handle_t later[LATER_MAX];
static atomic_int later_count;

static hg_return_t handle_later(hg_handle_t handle)
{
    const int i = atomic_fetch_add(&later_count, 1);

    assert_true(i < LATER_MAX);
    later[i] = handle;
    return HG_SUCCESS;
}

static void give_up_later(struct pair *pair, int count)
{
    static hg_handle_t handles[LATER_MAX];
    struct outcome outcome = {0};
    uint32_t size = 0;

    for (int i = 0; i < count; i++) {
        handles[i] = pair_create(pair, RPC_LATER);
        assert_int_equal(HG_Forward(handles[i], outcome_set, &outcome, &size), HG_SUCCESS);
        pair_wait_for(pair, &later_count, i + 1);
    }
    /* One after the other, because only a few ABANDON messages may be in flight at once. */
    for (int i = 0; i < count; i++) {
        assert_int_equal(HG_Cancel(handles[i]), HG_SUCCESS);
        pair_wait_for(pair, &outcome.count, i + 1);
        (void) HG_Destroy(handles[i]);
        wait_for_words(pair, (uint32_t) i + 1);
    }
}

/* The target exposes none of these responses, and none waits for the overflow time-out. */
static void all_that_were_given_up_are_remembered(void **state)
{
    struct pair pair = {0};
    struct blob out;
    uint64_t before;

    (void) state;
    pair_open(&pair, NULL);
    assert_int_equal(HG_Register(pair.origin.hg_class, RPC_LATER, proc_size, proc_blob, NULL),
                     HG_SUCCESS);
    assert_int_equal(
        HG_Register(pair.target.hg_class, RPC_LATER, proc_size, proc_blob, handle_later),
        HG_SUCCESS);
    give_up_later(&pair, LATER_MAX);
    before = side_counters(&pair.target).rpc_resp_extra_count;
    blob_make(&out, pair_large(&pair), 1);
    for (int i = 0; i < LATER_MAX; i++) {
        assert_int_equal(HG_Respond(later[i], NULL, NULL, &out), HG_SUCCESS);
        (void) HG_Destroy(later[i]);
    }
    assert_int_equal(side_counters(&pair.target).rpc_resp_extra_count, before);
    assert_null(hg_rpc_context(pair.target.context)->controls.awaiting);
    free(out.data);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(origin_is_told_of_its_response_only),
        cmocka_unit_test(given_up_responses_leave_nothing_behind),
        cmocka_unit_test(unfetched_responses_leave_nothing_behind),
        cmocka_unit_test(all_that_were_given_up_are_remembered),
    };

    HG_Set_log_level(getenv("HG_LOG_LEVEL") ? getenv("HG_LOG_LEVEL") : "none");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
