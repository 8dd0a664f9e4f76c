/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes with a key, and a hostile proxy on every connection between them, including those
 * that UCX makes internally. The proxy replays, swaps, reflects, truncates, reorders and edits each
 * kind of message, in both directions. Each attack is refused and counted, no handler runs for it,
 * and no byte is delivered that was not sent. Afterwards both processes still communicate with each
 * other and with a third process.
 *
 * Some attacks are not refused at once, because they have no effect. Anybody may send a HELLO, so a
 * repeated one is answered again. A HELLO of another session is kept for ten seconds as an offer,
 * and counted as refused when nothing follows. A repeated HELLO_ACK equals the first one. HELLO,
 * HELLO_ACK and the introductions of the ucx plugin have no other message to be reordered with:
 * they are only delayed, and so is the rest of a truncated challenge of ucx. Bulk data that the
 * fabric moves itself are sealed only with encryption, and attacked only then.
 *
 * A proxy can end connections, and a connection into which it has injected bytes may be unusable.
 * So after some failed calls the test closes all connections, and the two processes have to
 * recover. UCX counts the connections between two workers at each side; after an attack on an
 * introduction that one side had accepted, the counts differ for ever. In that case the caller
 * opens its class again.
 */
#include "hostile.h"
#include "hostile_peer.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define KEY "open sesame"
/* two with the proxy between them, one that does not use the proxy, and one that leaves */
#define PEERS           4u
#define BYSTANDER       2u
#define LEAVER          3u
#define ATTEMPTS        20
#define TRIES_UNTIL_CUT 5
#define WAIT_MS         90000
#define OFFERS_MS       11000 /* until an offer that nothing follows is dropped */
/* Offsets of the key share in a HELLO, and of the confirmation code in a HELLO_ACK. */
#define SHARE_AT   107u
#define CONFIRM_AT 171u
#define CHALLENGED 12u /* offset of the share or code in the ucx plugin's introductions */

static struct hostile hostile;
static struct hostile_peer peers[PEERS];

static void start(uint32_t which, bool encrypts)
{
    const struct hostile_role role = {.port = which == BYSTANDER ? 0 : hostile.port,
                                      .number = which,
                                      .key = KEY,
                                      .encrypts = encrypts};

    hostile_peer_start(&peers[which], &role);
}

static void open_all(bool encrypts)
{
    for (uint32_t i = 0; i <= BYSTANDER; i++)
        start(i, encrypts);
}

static void close_all(void)
{
    for (uint32_t i = 0; i <= BYSTANDER; i++)
        hostile_peer_quit(&peers[BYSTANDER - i]);
}

static int setup(void **state)
{
    (void) state;
    hostile_open(&hostile, test_init_string(), HOSTILE_PLAINTEXT);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    for (uint32_t i = 0; i < PEERS; i++)
        hostile_peer_kill(&peers[i]);
    hostile_close(&hostile);
    return 0;
}

/* Returns how many messages the two processes refused. Fails the test if either received bytes that
 * nobody sent, or handled a request twice. */
static uint64_t refused(void)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < 2; i++) {
        struct hostile_tally tally;

        hostile_peer_tally(&peers[i], &tally);
        assert_int_equal(tally.wrong, 0);
        assert_int_equal(tally.twice, 0);
        sum += tally.refused;
    }
    return sum;
}

static void call_until_answered(uint32_t caller, uint32_t called, bool is_new)
{
    const long long end = now_ms() + WAIT_MS;

    for (int tries = 1; !hostile_peer_call(&peers[caller], &peers[called], is_new); tries++) {
        assert_true(now_ms() < end);
        if (tries % TRIES_UNTIL_CUT == 0)
            hostile_cut(&hostile);
    }
}

static bool is_hello(enum hostile_kind kind)
{
    return kind == HOSTILE_HELLO || kind == HOSTILE_HELLO_MET;
}

/* Whether the attack has no effect, so that nothing needs to be refused. */
static bool is_harmless(const struct hostile_order *order)
{
    const bool is_alone = order->kind == HOSTILE_HELLO || order->kind == HOSTILE_HELLO_ACK;

    return (is_alone && order->attack == HOSTILE_REPLAY) ||
           (order->kind == HOSTILE_CHALLENGE && order->attack == HOSTILE_TRUNCATE) ||
           ((is_alone || order->kind >= HOSTILE_CHALLENGE) && order->attack == HOSTILE_REORDER);
}

/* Whether the attack leaves an offer that nothing follows: it is counted when the offer is
 * dropped. */
static bool is_counted_later(const struct hostile_order *order)
{
    return is_hello(order->kind) &&
           (order->attack == HOSTILE_SWAP || order->attack == HOSTILE_REORDER ||
            order->attack == HOSTILE_EDIT);
}

static void attack(uint32_t caller, const struct hostile_order *order)
{
    const bool is_new = order->kind == HOSTILE_HELLO_MET || order->kind == HOSTILE_HELLO_ACK_MET;
    const bool may_be_silent = is_harmless(order) || is_counted_later(order);
    uint64_t before;
    bool is_counted = false;

    if (order->kind == HOSTILE_HELLO || order->kind == HOSTILE_HELLO_ACK ||
        order->kind >= HOSTILE_CHALLENGE)
        hostile_peer_renew(&peers[caller]);
    else
        call_until_answered(caller, 1 - caller, false);
    before = refused();
    hostile_arm(&hostile, order);
    for (int i = 0; i < ATTEMPTS; i++) {
        (void) hostile_peer_call(&peers[caller], &peers[1 - caller], is_new);
        is_counted = refused() > before;
        if (hostile_done(&hostile) != 0 && (is_counted || may_be_silent))
            break;
    }
    if (hostile_done(&hostile) == 0 && !is_harmless(order))
        fail_msg("attack %d at kind %d of %u was not done", order->attack, order->kind,
                 order->from);
    hostile_disarm(&hostile);
    if (!is_counted && !may_be_silent)
        fail_msg("attack %d at kind %d of %u was not counted", order->attack, order->kind,
                 order->from);
    if (order->kind >= HOSTILE_CHALLENGE)
        hostile_peer_renew(&peers[caller]);
    call_until_answered(caller, 1 - caller, false);
    call_until_answered(BYSTANDER, 1 - caller, false);
}

/* Returns the index of the byte to edit, or one less than the number of bytes to truncate. */
static uint32_t place_of(enum hostile_kind kind, uint32_t attack_number)
{
    if (attack_number != HOSTILE_EDIT)
        return attack_number + (uint32_t) kind;
    if (kind == HOSTILE_HELLO)
        return SHARE_AT;
    if (kind == HOSTILE_HELLO_ACK)
        return CONFIRM_AT;
    return kind >= HOSTILE_CHALLENGE ? 2 * CHALLENGED : (uint32_t) kind * 7;
}

/* Waits for the count: a pending offer is dropped after ten seconds. */
static void wait_until_refused(uint64_t count)
{
    const long long end = now_ms() + WAIT_MS;

    while (refused() < count) {
        assert_true(now_ms() < end);
        (void) poll(NULL, 0, 50);
    }
}

/* Whether the caller (or, with false, the called process) sends messages of this kind. */
static bool is_sent(enum hostile_kind kind, bool by_caller)
{
    switch (kind) {
    case HOSTILE_HELLO:
    case HOSTILE_HELLO_MET:
    case HOSTILE_REQUEST:
        return by_caller;
    case HOSTILE_HELLO_ACK:
    case HOSTILE_HELLO_ACK_MET:
    case HOSTILE_RESPONSE:
        return !by_caller;
    case HOSTILE_CALL:
        return by_caller && strncmp(test_init_string(), "ucx", 3) == 0;
    case HOSTILE_CHALLENGE:
    case HOSTILE_CALLED:
        return !by_caller && strncmp(test_init_string(), "ucx", 3) == 0;
    default:
        return true;
    }
}

/* Runs the attacks on one kind that are counted later, or the others. Returns how many. */
static uint32_t attack_kind(uint32_t caller, enum hostile_kind kind, bool is_later)
{
    uint32_t done = 0;

    for (uint32_t from = 0; from < 2; from++)
        for (uint32_t k = 0; k < HOSTILE_ATTACKS; k++) {
            const struct hostile_order order = {
                .kind = kind,
                .from = from,
                .attack = (enum hostile_attack) k,
                .place = place_of(kind, k),
            };

            if (!is_sent(kind, from == caller) || is_counted_later(&order) != is_later)
                continue;
            attack(caller, &order);
            done++;
        }
    return done;
}

/*
 * Attacks each kind of message. For each kind, the attacks that are counted later run last; the
 * test then waits until every pending offer has been dropped, so that none is taken for the count
 * of the next kind.
 */
static void attack_all(uint32_t caller, const enum hostile_kind *kinds, uint32_t count)
{
    hostile_peer_renew(&peers[caller]);
    call_until_answered(caller, 1 - caller, false);
    call_until_answered(caller, 1 - caller, true);
    call_until_answered(caller, 1 - caller, false);
    hostile_keep(&hostile);
    hostile_peer_renew(&peers[caller]);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t before;

        (void) attack_kind(caller, kinds[i], false);
        before = refused();
        if (attack_kind(caller, kinds[i], true) != 0) {
            wait_until_refused(before + 1);
            (void) poll(NULL, 0, OFFERS_MS);
        }
    }
}

static void each_kind_is_refused(void **state)
{
    static const enum hostile_kind kinds[] = {
        HOSTILE_HELLO,   HOSTILE_HELLO_ACK, HOSTILE_HELLO_MET, HOSTILE_HELLO_ACK_MET,
        HOSTILE_REQUEST, HOSTILE_RESPONSE,  HOSTILE_RECORD,    HOSTILE_CHALLENGE,
        HOSTILE_CALL,    HOSTILE_CALLED,
    };

    (void) state;
    open_all(false);
    for (uint32_t caller = 0; caller < 2; caller++)
        attack_all(caller, kinds, sizeof(kinds) / sizeof(kinds[0]));
    /* the plaintext was seen, so the search for it works */
    assert_true(atomic_load(&hostile.seen) != 0);
    close_all();
}

/* The same attacks with encryption: the proxy sees no plaintext. */
static void each_encrypted_kind_is_refused(void **state)
{
    static const enum hostile_kind kinds[] = {
        HOSTILE_HELLO,    HOSTILE_HELLO_ACK, HOSTILE_HELLO_MET, HOSTILE_REQUEST,
        HOSTILE_RESPONSE, HOSTILE_SEALED,    HOSTILE_PIECE,
    };

    (void) state;
    open_all(true);
    attack_all(0, kinds, sizeof(kinds) / sizeof(kinds[0]));
    assert_int_equal(atomic_load(&hostile.seen), 0);
    close_all();
}

/* Attacks on the BYE of a process that closes: its peer refuses a repeated or forged BYE. */
static void a_bye_is_refused(void **state)
{
    static const enum hostile_attack attacks[] = {HOSTILE_REPLAY, HOSTILE_SWAP, HOSTILE_TRUNCATE,
                                                  HOSTILE_EDIT};

    (void) state;
    open_all(false);
    for (uint32_t i = 0; i < 2 * sizeof(attacks) / sizeof(attacks[0]); i++) {
        const struct hostile_order order = {
            .kind = HOSTILE_BYE, .from = LEAVER % 2, .attack = attacks[i / 2], .place = 7};
        const bool calls = i % 2 == 0;
        uint64_t before;

        start(LEAVER, false);
        call_until_answered(calls ? LEAVER : 0, calls ? 0 : LEAVER, false);
        hostile_peer_quit(&peers[LEAVER]); /* records its BYE for HOSTILE_SWAP */
        hostile_keep(&hostile);
        start(LEAVER, false);
        call_until_answered(calls ? LEAVER : 0, calls ? 0 : LEAVER, false);
        before = refused();
        hostile_arm(&hostile, &order);
        hostile_peer_quit(&peers[LEAVER]);
        wait_until_refused(before + 1);
        assert_int_equal(hostile_done(&hostile), 1);
        call_until_answered(1, 0, false);
        call_until_answered(BYSTANDER, 0, false);
    }
    close_all();
}

/* Whoever sees a token can forge a refusal that says the key is wrong. No call fails because of a
 * forged refusal. */
static void a_refusal_is_not_believed(void **state)
{
    (void) state;
    open_all(false);
    for (uint32_t i = 0; i < 4; i++) {
        const struct hostile_order order = {
            .kind = HOSTILE_RECORD, .from = i % 2, .attack = HOSTILE_REFUSE};
        const uint32_t caller = i / 2;

        call_until_answered(caller, 1 - caller, false);
        hostile_arm(&hostile, &order);
        assert_true(hostile_peer_call(&peers[caller], &peers[1 - caller], false));
        assert_int_equal(hostile_done(&hostile), 1);
        assert_true(hostile_peer_call(&peers[1 - caller], &peers[caller], false));
    }
    (void) refused(); /* also checks that nothing wrong was received */
    close_all();
}

/*
 * A descriptor is valid as long as the class of its owner is open, for every process with the key.
 * After the class was opened again, the old descriptor is refused although memory and key are the
 * same. Over ucx the origin already finds that the owner is gone.
 */
static void a_descriptor_ends_with_its_class(void **state)
{
    const bool is_known = strncmp(test_init_string(), "ucx", 3) == 0;
    char old[2100], new[2100], result[64];

    (void) state;
    open_all(false);
    hostile_peer_expose(&peers[1], old, sizeof(old));
    hostile_peer_take(&peers[0], old, &peers[1], result, sizeof(result));
    assert_string_equal(result, "HG_SUCCESS");
    hostile_peer_take(&peers[BYSTANDER], old, &peers[1], result, sizeof(result));
    assert_string_equal(result, "HG_SUCCESS");
    hostile_peer_renew(&peers[1]);
    hostile_peer_expose(&peers[1], new, sizeof(new));
    for (uint32_t i = 0; i <= BYSTANDER; i += BYSTANDER) {
        call_until_answered(i, 1, false);
        hostile_peer_take(&peers[i], old, &peers[1], result, sizeof(result));
        assert_string_equal(result, is_known ? "HG_HOSTUNREACH" : "HG_PERMISSION");
        hostile_peer_take(&peers[i], new, &peers[1], result, sizeof(result));
        assert_string_equal(result, "HG_SUCCESS");
    }
    (void) refused(); /* also checks that nothing wrong was received */
    close_all();
}

static void check_take(uint32_t which, const char *descriptor, const char *expected)
{
    char result[64];

    hostile_peer_take(&peers[which], descriptor, &peers[1], result, sizeof(result));
    assert_string_equal(result, expected);
}

/* With mem_per_session at the owner, a descriptor works only in a session to which the memory was
 * granted: not in the session of another process, nor in a new session after messages were lost. */
static void a_descriptor_is_of_one_session(void **state)
{
    const struct hostile_order order = {
        .kind = HOSTILE_REQUEST, .from = 0, .attack = HOSTILE_REORDER};
    const struct hostile_role owner = {
        .port = hostile.port, .number = 1, .key = KEY, .has_grants = true};
    char descriptor[2100];

    (void) state;
    start(0, false);
    hostile_peer_start(&peers[1], &owner);
    start(BYSTANDER, false);
    call_until_answered(0, 1, false);
    call_until_answered(BYSTANDER, 1, false);
    hostile_peer_expose(&peers[1], descriptor, sizeof(descriptor));
    check_take(0, descriptor, "HG_PERMISSION");
    hostile_peer_grant(&peers[1], &peers[0]);
    check_take(0, descriptor, "HG_SUCCESS");
    check_take(BYSTANDER, descriptor, "HG_PERMISSION");
    attack(0, &order);
    check_take(0, descriptor, "HG_PERMISSION");
    hostile_peer_grant(&peers[1], &peers[0]);
    check_take(0, descriptor, "HG_SUCCESS");
    check_take(BYSTANDER, descriptor, "HG_PERMISSION");
    close_all();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_kind_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(each_encrypted_kind_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bye_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refusal_is_not_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_descriptor_ends_with_its_class, setup, teardown),
        cmocka_unit_test_setup_teardown(a_descriptor_is_of_one_session, setup, teardown),
    };

    if (argc > 1)
        return hostile_peer_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
