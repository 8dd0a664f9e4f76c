/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HG's sessions with peers that are lost.
 */
#include "session_fixture.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Make the loss of all lost peers older than HG_LOST_NS. */
static void lost_age(struct hg_sessions *sessions)
{
    for (struct hg_session *session = sessions->lost.first; session != NULL;
         session = session->next)
        session->lost_ns -= HG_LOST_NS + 1;
}

/* The session of a lost peer is dropped some time later, and messages sealed in it are refused. */
static void a_lost_peers_session_is_dropped(void **state)
{
    struct pair pair, other = {0};
    struct message *request;
    struct hg_sessions *sessions;

    (void) state;
    pair_open_keyed(&pair);
    sessions = &hg_rpc_context(pair.target.context)->sessions;
    is_taking = true;
    pair_echo(&pair, 10);
    is_taking = false;
    request = taken_request();
    hg_sessions_lose(pair.target.context, HG_PATH_MAIN, sessions->open.first->na_addr);
    assert_int_equal(sessions->open.count, 0);
    assert_int_equal(sessions->lost.count, 1);
    /* A replayed request is refused and does not show that the peer lives; a new request does. */
    inject(&pair, request);
    wait_refused(&pair, &pair.target, 1);
    assert_int_equal(sessions->lost.count, 1);
    pair_echo(&pair, 10);
    assert_int_equal(sessions->open.count, 1);
    assert_int_equal(sessions->lost.count, 0);
    hg_sessions_lose(pair.target.context, HG_PATH_MAIN, sessions->open.first->na_addr);
    lost_age(sessions);
    side_open_keyed(&other.origin, KEY);
    other.target = pair.target;
    other.addr = side_lookup(&other.origin, &pair.target);
    pair_echo(&other, 10);
    assert_int_equal(sessions->open.count, 1);
    assert_int_equal(sessions->lost.count, 0);
    assert_int_equal(refused(&pair.target), 1);
    inject(&pair, request);
    wait_refused(&pair, &pair.target, 2);
    assert_int_equal(call_hooked(&pair, NULL, 0), HG_HOSTUNREACH);
    assert_int_equal(atomic_load(&pair.target.handled), 3);
    pair_echo(&pair, 10);
    assert_int_equal(HG_Addr_free(other.origin.hg_class, other.addr), HG_SUCCESS);
    side_close(&other.origin);
    pair_end(&pair);
}

/* The peer is reported lost before its last request is received. The request is still accepted. */
static void what_a_lost_peer_sent_last_is_taken(void **state)
{
    const struct hg_session *session;
    struct outcome outcome = {0};
    hg_handle_t handle;
    struct pair pair;
    struct blob in;

    (void) state;
    pair_open_keyed(&pair);
    pair_echo(&pair, 10);
    blob_make(&in, 10, 1);
    handle = pair_create(&pair, RPC_ONEWAY);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, &in), HG_SUCCESS);
    while (atomic_load(&outcome.count) == 0)
        side_progress(&pair.origin);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    (void) HG_Destroy(handle);
    free(in.data);
    assert_int_equal(HG_Addr_free(pair.origin.hg_class, pair.addr), HG_SUCCESS);
    side_close(&pair.origin);
    session = hg_rpc_context(pair.target.context)->sessions.open.first;
    hg_sessions_lose(pair.target.context, HG_PATH_MAIN, session->na_addr);
    for (const uint64_t start = now_ms(); atomic_load(&pair.target.handled) < 2;) {
        assert_true(now_ms() - start < WAIT_MS);
        side_progress(&pair.target);
    }
    assert_int_equal(refused(&pair.target), 0);
    side_close(&pair.target);
}

/* A child process that calls the target once and then waits to be killed. */
static void child_call(int fd)
{
    struct outcome outcome = {0};
    struct side side = {0};
    char address[512] = "";
    hg_handle_t handle;
    hg_addr_t addr;

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void) alarm(2 * WAIT_MS / 1000);
    if (read(fd, address, sizeof(address) - 1) <= 0)
        _exit(1);
    side_open_keyed(&side, KEY);
    if (HG_Addr_lookup2(side.hg_class, address, &addr) != HG_SUCCESS ||
        HG_Create(side.context, addr, RPC_NULL, &handle) != HG_SUCCESS ||
        HG_Forward(handle, outcome_set, &outcome, NULL) != HG_SUCCESS)
        _exit(1);
    while (atomic_load(&outcome.count) == 0)
        side_progress(&side);
    for (;;)
        (void) pause();
}

static void count_lost(hg_class_t *hg_class, hg_addr_t addr, hg_return_t reason, void *arg)
{
    (void) hg_class;
    if (addr != HG_ADDR_NULL && reason == HG_HOSTUNREACH)
        atomic_fetch_add((atomic_int *) arg, 1);
}

static void child_tell(const struct side *side, int fd)
{
    char address[512];
    hg_size_t size = sizeof(address);
    hg_addr_t self;

    assert_int_equal(HG_Addr_self(side->hg_class, &self), HG_SUCCESS);
    assert_int_equal(HG_Addr_to_string(side->hg_class, address, &size, self), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(side->hg_class, self), HG_SUCCESS);
    assert_int_equal(write(fd, address, (size_t) size), (ssize_t) size);
}

static void wait_count(const struct side *side, const uint32_t *count, uint32_t value)
{
    for (const uint64_t start = now_ms(); *count != value;) {
        assert_true(now_ms() - start < WAIT_MS);
        side_progress(side);
    }
}

/*
 * The first peer is lost before the program sets its peer-lost callback, the second one while it is
 * set, and the third one after it was removed.
 */
static void killed_peers_leave_no_sessions(void **state)
{
    struct hg_sessions *sessions;
    struct side target = {0};
    atomic_int told = 0;
    pid_t children[3];
    int fds[3][2];

    (void) state;
    if (test_is_loop())
        test_skip("it is within a process");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pipe(fds[i]), 0);
        children[i] = fork();
        if (children[i] == 0)
            child_call(fds[i][0]);
        assert_true(children[i] > 0);
    }
    side_open_keyed(&target, KEY);
    sessions = &hg_rpc_context(target.context)->sessions;
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            assert_int_equal(HG_Class_set_peer_lost_callback(target.hg_class, count_lost, &told),
                             HG_SUCCESS);
        else if (i == 2)
            assert_int_equal(HG_Class_set_peer_lost_callback(target.hg_class, NULL, NULL),
                             HG_SUCCESS);
        child_tell(&target, fds[i][1]);
        wait_count(&target, &sessions->open.count, 1);
        /* the HELLO has dropped the session of the previous child */
        assert_int_equal(sessions->lost.count, 0);
        assert_int_equal(kill(children[i], SIGKILL), 0);
        assert_int_equal(waitpid(children[i], NULL, 0), children[i]);
        wait_count(&target, &sessions->open.count, 0);
        assert_int_equal(sessions->lost.count, 1);
        assert_int_equal(atomic_load(&told), i > 0 ? 1 : 0);
        lost_age(sessions);
        (void) close(fds[i][0]);
        (void) close(fds[i][1]);
    }
    side_close(&target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_peers_session_is_dropped),
        cmocka_unit_test(what_a_lost_peer_sent_last_is_taken),
        cmocka_unit_test(killed_peers_leave_no_sessions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
