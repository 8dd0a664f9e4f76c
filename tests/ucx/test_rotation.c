/* SPDX-License-Identifier: BSD-3-Clause */
/* Two keys on the sockets on which endpoints introduce themselves: which endpoints meet, and how
 * many guesses of a key an attacker has for each connection. */

#include "ucx_message.h"

#include "test_listen.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_NS UINT64_C(20000000000)
#define OLD     "open sesame"
#define NEW     "abracadabra"

struct keys {
    const char *key, *also;
};

static const struct keys before = {OLD, NULL}, both = {NEW, OLD}, other = {OLD, NEW},
                         after = {NEW, NULL}, third = {"shibboleth", NULL},
                         thirds = {"shibboleth", "mellon"};

static struct kit_auth_secret *kept[4]; /* kept, so that each is stretched only once */

static int setup(void **state)
{
    static const char *const texts[] = {OLD, NEW, "shibboleth", "mellon"};
    const int ret = ucx_test_setup(state);

    pending_host();
    for (uint32_t i = 0; i < 4; i++)
        if (kit_auth_secret_get(texts[i], &kept[i]) != 0)
            return -1;
    return ret;
}

static int teardown(void **state)
{
    for (uint32_t i = 0; i < 4; i++)
        kit_auth_secret_close(kept[i]);
    return ucx_test_teardown(state);
}

static void open_keyed(struct side *side, const struct keys *keys)
{
    struct na_plugin_init init = side_init("tcp");

    init.auth_key = keys->key;
    init.auth_key_also = keys->also;
    assert_true((side_open_init(side, &init) & NA_PLUGIN_CAP_SECOND_KEY) != 0 ||
                keys->also == NULL);
}

static void poll_until(struct side *a, struct side *b, const struct pending *pending)
{
    const uint64_t end = kit_host->clock_ns() + WAIT_NS;

    while (pending->status == PENDING_WAITS) {
        assert_true(kit_host->clock_ns() < end);
        side_poll(a);
        if (b != NULL)
            side_poll(b);
    }
}

static struct pending *send_to(struct side *from, const char *name)
{
    struct pending *send = pending_new();
    struct na_plugin_addr *addr;

    assert_int_equal(ucx_addr_lookup(from->na_class, name, &addr), 0);
    assert_int_equal(kit_msg_send_unexpected(from->context, send->op, "hello", 6, NULL, addr, 0, 1),
                     0);
    return send;
}

/* One side connects, the other one, or both at once. */
static void check_pair(const struct keys *keys_a, const struct keys *keys_b, bool is_met)
{
    for (uint32_t callers = 1; callers <= 3; callers++) {
        struct side sides[2];
        struct pending *sends[2] = {NULL}, *receives[2];
        char text[2][8];

        open_keyed(&sides[0], keys_a);
        open_keyed(&sides[1], keys_b);
        for (uint32_t i = 0; i < 2; i++) {
            receives[i] = pending_new();
            assert_int_equal(kit_msg_recv_unexpected(sides[i].context, receives[i]->op, text[i],
                                                     sizeof(text[i]), NULL),
                             0);
            if ((callers >> i & 1) != 0)
                sends[i] = send_to(&sides[i], sides[1 - i].na_class->name);
        }
        for (uint32_t i = 0; i < 2; i++) {
            if (sends[i] == NULL)
                continue;
            poll_until(&sides[0], &sides[1], sends[i]);
            assert_int_equal(sends[i]->status, is_met ? 0 : NA_PLUGIN_PERMISSION);
            if (is_met)
                poll_until(&sides[0], &sides[1], receives[1 - i]);
            assert_int_equal(receives[1 - i]->status, is_met ? 0 : PENDING_WAITS);
        }
        for (uint32_t i = 0; i < 2; i++) {
            side_close(&sides[i]);
            free(receives[i]);
            free(sends[i]);
        }
    }
}

static void processes_with_a_common_key_meet(void **state)
{
    (void) state;
    check_pair(&before, &both, true);
    check_pair(&both, &both, true);
    check_pair(&both, &other, true);
    check_pair(&after, &both, true);
    check_pair(&before, &other, true);
    check_pair(&before, &after, false);
    check_pair(&third, &both, false);
    check_pair(&thirds, &both, false);
}

/* A wrong key is not a malformed introduction: the side that finds it counts it as refused,
 * once. */
static void a_refused_key_is_not_malformed(void **state)
{
    static const struct keys none = {NULL, NULL};
    static const struct {
        const struct keys *caller, *called;
        uint64_t refused[2]; /* as counted by the caller and by the called side */
    } cases[] = {
        {&none, &before, {1, 0}},
        {&before, &none, {1, 0}},
        {&third, &before, {0, 1}},
    };

    (void) state;
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct side sides[2];
        struct pending *send;

        open_keyed(&sides[0], cases[i].caller);
        open_keyed(&sides[1], cases[i].called);
        send = send_to(&sides[0], sides[1].na_class->name);
        poll_until(&sides[0], &sides[1], send);
        assert_int_equal(send->status, NA_PLUGIN_PERMISSION);
        for (uint32_t k = 0; k < 2; k++) {
            const struct kit_session *session = &sides[k].na_class->fabric.state->session;

            assert_int_equal(session->refused, cases[i].refused[k]);
            assert_int_equal(session->bad, 0);
            side_close(&sides[k]);
        }
        free(send);
    }
}

static int accept_from(struct side *side, int listener)
{
    const uint64_t end = kit_host->clock_ns() + WAIT_NS;
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) < 0) {
        assert_true(kit_host->clock_ns() < end);
        side_poll(side);
    }
    return fd;
}

/* Receives `size` bytes; false: the peer closed the connection. */
static bool hear(struct side *side, int fd, uint8_t *bytes, size_t size)
{
    const uint64_t end = kit_host->clock_ns() + WAIT_NS;

    for (size_t done = 0; done < size;) {
        const ssize_t got = recv(fd, bytes + done, size - done, MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno != EAGAIN))
            return false;
        done += got > 0 ? (size_t) got : 0;
        assert_true(kit_host->clock_ns() < end);
        side_poll(side);
    }
    return true;
}

/* An attacker accepts connections and refuses each introduction. It sends two shares and gets two
 * codes; and it gets one connection for each key of the caller, each with another share. */
static void check_calls(const struct keys *keys, uint32_t calls)
{
    uint8_t challenge[UCX_CHALLENGE], heard[2][UCX_HELLO_HEAD], refusal[UCX_HELLO_HEAD];
    char name[KIT_NAME_MAX];
    int listener = test_listen(name, sizeof(name), 8);
    struct side side, as;
    struct pending *send;

    open_keyed(&side, keys);
    open_keyed(&as, &thirds);
    ucx_hello_refuse(refusal);
    send = send_to(&side, name);
    for (uint32_t i = 0; i < calls; i++) {
        struct ucx_channel called = {.na_class = as.na_class};
        int fd = accept_from(&side, listener);
        uint8_t byte;

        ucx_auth_challenge(&called, challenge);
        assert_int_equal(write(fd, challenge, sizeof(challenge)), sizeof(challenge));
        assert_true(hear(&side, fd, heard[i], sizeof(heard[i])));
        assert_memory_not_equal(heard[i] + UCX_HELLO_CODES,
                                heard[i] + UCX_HELLO_CODES + KIT_AUTH_CODE, KIT_AUTH_CODE);
        assert_int_equal(write(fd, refusal, sizeof(refusal)), sizeof(refusal));
        while (hear(&side, fd, &byte, 1))
            ;
        assert_int_equal(close(fd), 0);
        ucx_auth_wipe(&called);
    }
    poll_until(&side, NULL, send);
    assert_int_equal(send->status, NA_PLUGIN_PERMISSION);
    assert_int_equal(accept4(listener, NULL, NULL, SOCK_CLOEXEC), -1);
    if (calls == 2)
        assert_memory_not_equal(heard[0] + UCX_HELLO_SHARE, heard[1] + UCX_HELLO_SHARE,
                                KIT_AUTH_SHARE);
    free(send);
    side_close(&as);
    side_close(&side);
    assert_int_equal(close(listener), 0);
}

static void who_refuses_is_called_once_for_each_key(void **state)
{
    (void) state;
    check_calls(&before, 1);
    check_calls(&both, 2);
}

/* An accepting side that sends no share gets nothing that would allow offline guessing. */
static void who_has_no_share_hears_nothing(void **state)
{
    uint8_t challenge[UCX_CHALLENGE], byte;
    char name[KIT_NAME_MAX];
    int listener = test_listen(name, sizeof(name), 8), fd;
    struct ucx_channel called = {0};
    struct pending *send;
    struct side side;

    (void) state;
    open_keyed(&side, &both);
    called.na_class = side.na_class;
    send = send_to(&side, name);
    fd = accept_from(&side, listener);
    ucx_auth_challenge(&called, challenge);
    memset(challenge + UCX_CHALLENGE_SHARE, 0, KIT_SECRETS * KIT_AUTH_SHARE);
    assert_int_equal(write(fd, challenge, sizeof(challenge)), sizeof(challenge));
    assert_false(hear(&side, fd, &byte, 1));
    poll_until(&side, NULL, send);
    assert_int_equal(send->status, NA_PLUGIN_HOSTUNREACH);
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(listener), 0);
    ucx_auth_wipe(&called);
    free(send);
    side_close(&side);
}

/* Whether an introduction under the first or second of two keys is accepted, with its two codes in
 * order or swapped. */
static bool is_taken(const struct keys *keys_of_caller, bool is_swapped)
{
    uint8_t challenge[UCX_CHALLENGE];
    struct ucx_link link = {.id = 7};
    struct ucx_channel caller = {.is_dialed = true, .link = &link}, called = {0};
    struct side as, target;
    uint8_t code[KIT_AUTH_CODE], *data, *codes;
    uint32_t size;
    bool is_good;

    open_keyed(&target, &both);
    open_keyed(&as, keys_of_caller);
    link.na_class = caller.na_class = as.na_class;
    link.worker = as.na_class->worker;
    called.na_class = target.na_class;
    ucx_auth_challenge(&called, challenge);
    assert_null(ucx_auth_challenged(&caller, challenge));
    data = ucx_hello_write(&link, &size);
    assert_non_null(data);
    assert_true(ucx_auth_sign(&caller, data, size));
    codes = data + UCX_HELLO_CODES;
    if (is_swapped) {
        memcpy(code, codes, sizeof(code));
        memmove(codes, codes + KIT_AUTH_CODE, KIT_AUTH_CODE);
        memcpy(codes + KIT_AUTH_CODE, code, sizeof(code));
    }
    is_good = ucx_auth_check(&called, data, size) == NULL;
    if (is_good) { /* the answer is under the key of the caller, and no other one */
        static const uint8_t none[KIT_AUTH_CODE];
        const bool is_second = keys_of_caller == &before;

        data[UCX_HELLO_REST] ^= 1;
        assert_true(ucx_auth_sign(&called, data, size));
        assert_memory_equal(codes + (is_second ? 0 : KIT_AUTH_CODE), none, sizeof(none));
        assert_null(ucx_auth_check(&caller, data, size));
    }
    ucx_auth_wipe(&caller);
    ucx_auth_wipe(&called);
    kit_host->mem_free(data);
    side_close(&as);
    side_close(&target);
    return is_good;
}

static void a_code_counts_for_its_own_share(void **state)
{
    (void) state;
    assert_true(is_taken(&after, false));
    assert_true(is_taken(&before, false));
    assert_false(is_taken(&after, true));
    assert_false(is_taken(&before, true));
    assert_false(is_taken(&third, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_with_a_common_key_meet),
        cmocka_unit_test(a_refused_key_is_not_malformed),
        cmocka_unit_test(who_refuses_is_called_once_for_each_key),
        cmocka_unit_test(who_has_no_share_hears_nothing),
        cmocka_unit_test(a_code_counts_for_its_own_share),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
