/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target that keeps its requests for a long time. It still serves new small requests; if the
 * number of its requests is bounded, its origins have to wait, and no request is lost.
 */
#include "hg_fixture.h"

enum {
    RPC_KEEP = 60,
    KEPT_MAX = 1500
};

static hg_handle_t kept[KEPT_MAX];
static atomic_int kept_count;

/* Keeps the request and its input. */
static hg_return_t handle_keep(hg_handle_t handle)
{
    int i = atomic_fetch_add(&kept_count, 1);

    assert_true(i < KEPT_MAX);
    kept[i] = handle;
    return HG_SUCCESS;
}

static void keep_open(struct pair *pair, const struct hg_init_info *info)
{
    pair_open(pair, info);
    atomic_store(&kept_count, 0);
    assert_int_equal(HG_Register(pair->origin.hg_class, RPC_KEEP, proc_blob, NULL, NULL),
                     HG_SUCCESS);
    assert_int_equal(HG_Register(pair->target.hg_class, RPC_KEEP, proc_blob, NULL, handle_keep),
                     HG_SUCCESS);
}

static void respond_kept(int from, int to)
{
    for (int i = from; i < to; i++) {
        assert_int_equal(HG_Respond(kept[i], NULL, NULL, NULL), HG_SUCCESS);
        assert_int_equal(HG_Destroy(kept[i]), HG_SUCCESS);
    }
}

/* Create up to `count` handles; returns how many the tags of the transport have slots for. */
static int handles_open(struct pair *pair, hg_handle_t *handles, int count)
{
    HG_Set_log_level("none");
    for (int i = 0; i < count; i++)
        if (HG_Create(pair->origin.context, pair->addr, RPC_KEEP, &handles[i]) != HG_SUCCESS)
            return i;
    return count;
}

static void slow_target_serves_small_requests(void **state)
{
    static hg_handle_t handles[KEPT_MAX];
    struct pair pair = {0};
    struct outcome outcome = {0};
    struct blob in;
    int count;

    (void) state;
    keep_open(&pair, NULL);
    count = handles_open(&pair, handles, KEPT_MAX - 1) - 1;
    (void) HG_Destroy(handles[count]); /* makes room for the handles of the small requests */
    blob_make(&in, 100, 1);
    for (int i = 0; i < count; i++) {
        hg_return_t ret;

        while ((ret = HG_Forward(handles[i], outcome_set, &outcome, &in)) == HG_AGAIN)
            pair_progress(&pair);
        assert_int_equal(ret, HG_SUCCESS);
    }
    pair_wait_for(&pair, &kept_count, count);
    for (int i = 0; i < 20; i++)
        pair_echo(&pair, 10);
    assert_int_equal(atomic_load(&outcome.count), 0);
    respond_kept(0, count);
    pair_wait_for(&pair, &outcome.count, count);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    for (int i = 0; i < count; i++)
        (void) HG_Destroy(handles[i]);
    free(in.data);
    pair_close(&pair);
}

/*
 * The target has at most eight requests at a time; further ones wait in the transport, or their
 * forward returns HG_AGAIN.
 */
static void bounded_target_loses_nothing(void **state)
{
    static hg_handle_t handles[KEPT_MAX];
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct outcome outcome = {0};
    struct pair pair = {0};
    int count, sent = 0, done = 0, last = 0, quiet = 0;
    struct blob in;

    (void) state;
    info.request_post_init = 8;
    info.request_post_incr = -1;
    keep_open(&pair, &info);
    count = handles_open(&pair, handles, 300);
    blob_make(&in, 100, 1);
    while (atomic_load(&outcome.count) < count) {
        int kept_now;

        if (sent < count) {
            hg_return_t ret = HG_Forward(handles[sent], outcome_set, &outcome, &in);

            assert_true(ret == HG_SUCCESS || ret == HG_AGAIN);
            sent += ret == HG_SUCCESS;
        }
        pair_progress(&pair);
        kept_now = atomic_load(&kept_count);
        assert_in_range(kept_now - done, 0, 8);
        /*
         * The target is slow: it responds only after no request has arrived for 20 rounds, although
         * more were sent.
         */
        quiet = kept_now == last ? quiet + 1 : 0;
        last = kept_now;
        if (quiet > 20) {
            respond_kept(done, kept_now);
            done = kept_now;
            quiet = 0;
        }
    }
    assert_int_equal(atomic_load(&kept_count), count);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    for (int i = 0; i < count; i++)
        (void) HG_Destroy(handles[i]);
    free(in.data);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_target_serves_small_requests),
        cmocka_unit_test(bounded_target_loses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
