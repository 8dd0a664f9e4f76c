/* SPDX-License-Identifier: BSD-3-Clause */
/* Forged introductions: addresses of workers that would make UCX end the process, and introductions
 * by processes without the key. */

#include "ucx_message.h"

#include "../integration/hosts.h"
#include "../test_count.h"
#include "msg_state.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit_base.h"

#define WAIT_NS   UINT64_C(20000000000)
#define AT_DIGEST 16u
#define MUTATIONS 3000
#define LEFT_MAX  8 /* descriptors that the last connections may hold */

/* In a network namespace of this test: the address of the device, and one without a route. */
#define OWN_ADDRESS      0x0a630002u
#define OWN_ADDRESS_TEXT "10.99.0.2"
#define OTHER_ADDRESS    0x0a010203u
#define OWN_NETWORK                                                                        \
    "ip link add e0 type veth peer name e1 && ip addr add " OWN_ADDRESS_TEXT "/24 dev e0 " \
    "&& ip link set e0 up && ip link set e1 up"

static bool has_own_network;

static void open_at(struct side *side, const char *address, const char *protocol, const char *key)
{
    struct na_plugin_init init = side_init(protocol);

    init.address = address;
    init.auth_key = key;
    (void) side_open_init(side, &init);
}

static void open_one(struct side *side, const char *protocol, const char *key)
{
    open_at(side, "127.0.0.1", protocol, key);
}

static int call(const char *name)
{
    const bool is_loopback = strncmp(name, "127.", 4) == 0;
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr = {htonl(is_loopback ? INADDR_LOOPBACK : OWN_ADDRESS)},
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_port = htons((uint16_t) atoi(strchr(name, ':') + 1));
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *) &address, sizeof(address)), 0);
    return fd;
}

/* Receives `size` bytes; false: the target closed the connection. */
static bool hear(struct side *side, int fd, uint8_t *bytes, size_t size)
{
    uint64_t end = kit_host->clock_ns() + WAIT_NS;

    for (size_t done = 0; done < size;) {
        ssize_t got = recv(fd, bytes + done, size - done, MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno != EAGAIN))
            return false;
        done += got > 0 ? (size_t) got : 0;
        assert_true(kit_host->clock_ns() < end);
        side_poll(side);
    }
    return true;
}

/* Whether the target establishes a link with the process that claims to be `as`, or closes the
 * connection. */
static bool is_met(struct side *target, const struct side *as, int fd)
{
    uint64_t end = kit_host->clock_ns() + WAIT_NS;
    uint8_t byte;

    while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN) {
        const struct kit_link *links = &target->na_class->links;

        for (struct kit_link *node = links->next; node != links; node = node->next) {
            const struct ucx_link *link = kit_container(node, struct ucx_link, node);

            if (link->is_met && link->their_incarnation == as->na_class->incarnation &&
                strcmp(link->name, as->na_class->name) == 0)
                return true;
        }
        assert_true(kit_host->clock_ns() < end);
        side_poll(target);
    }
    return false;
}

static void redress(uint8_t *data, uint32_t size)
{
    uint64_t digest =
        htole64(kit_digest_add(KIT_DIGEST_NONE, data + UCX_HELLO_REST, size - UCX_HELLO_REST));

    memcpy(data + AT_DIGEST, &digest, sizeof(digest));
}

/* Makes an introduction with this worker address; the caller frees it. */
static uint8_t *introduce(struct side *as, const uint8_t *address, size_t size, uint32_t *size_p)
{
    struct ucx_worker worker = {.address = (ucp_address_t *) (uintptr_t) address,
                                .address_size = size};
    struct ucx_link link = {.na_class = as->na_class, .worker = &worker, .id = 7};
    uint8_t *data;

    assert_int_equal(kit_key_draw(&link.secret), 0);
    as->na_class->incarnation += 2; /* each introduction is by another process */
    data = ucx_hello_write(&link, size_p);
    assert_non_null(data);
    redress(data, *size_p);
    return data;
}

/* Connects to the target and sends `data`. */
static int call_and_say(struct side *target, const uint8_t *data, uint32_t size)
{
    uint8_t challenge[UCX_CHALLENGE];
    int fd = call(target->na_class->name);

    assert_true(hear(target, fd, challenge, sizeof(challenge)));
    assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), size);
    return fd;
}

/* Sends an introduction to the target; whether the target passes the address to UCX. */
static bool is_let_in(struct side *target, struct side *as, const uint8_t *address, size_t size)
{
    uint32_t told;
    uint8_t *data = introduce(as, address, size, &told);
    int fd = call_and_say(target, data, told);
    bool is_in;

    is_in = is_met(target, as, fd);
    assert_int_equal(close(fd), 0);
    for (int i = 0; i < 3; i++)
        side_poll(target);
    kit_host->mem_free(data);
    return is_in;
}

static void mutate(uint8_t *address, size_t size)
{
    for (int i = 1 + rand() % 4; i > 0; i--) {
        size_t at = (size_t) rand() % size;

        address[at] = (uint8_t) (rand() % 3 == 0 ? rand() : address[at] ^ 1 << rand() % 8);
    }
}

/* Addresses of any length, with any bytes: UCX gets none that would make it end the process. */
static void forged_addresses_end_nobody(void **state)
{
    struct side target, as;
    uint8_t address[512];
    size_t size, let_in = 0;

    (void) state;
    srand(4);
    open_one(&target, "tcp", NULL);
    open_one(&as, "tcp", NULL);
    size = as.na_class->worker->address_size;
    assert_true(as.na_class->worker->is_readable && size <= sizeof(address));
    memcpy(address, as.na_class->worker->address, size);
    address[0] = (uint8_t) (address[0] & 0xf0) | 5; /* an invalid format */
    assert_false(is_let_in(&target, &as, address, size));
    for (size_t i = 1; i < size; i++) {
        memcpy(address, as.na_class->worker->address, size);
        assert_false(is_let_in(&target, &as, address, i));
    }
    for (int i = 0; i < MUTATIONS; i++) {
        memcpy(address, as.na_class->worker->address, size);
        mutate(address, size);
        let_in += is_let_in(&target, &as, address, size);
    }
    assert_true(let_in < MUTATIONS);
    side_close(&as);
    side_close(&target);
}

/* UCX keeps the socket of a connection attempt that fails at once. */
static void addresses_without_a_route_hold_no_descriptors(void **state)
{
    const in_addr_t known = htonl(OWN_ADDRESS), unknown = htonl(OTHER_ADDRESS);
    uint64_t end = kit_host->clock_ns() + WAIT_NS;
    struct side target, as;
    uint8_t address[512];
    size_t size;
    void *at;
    int count;

    (void) state;
    if (!has_own_network) {
        print_message("skipped: there are routes to unused addresses\n");
        skip();
    }
    open_at(&target, OWN_ADDRESS_TEXT, "tcp", NULL);
    open_at(&as, OWN_ADDRESS_TEXT, "tcp", NULL);
    size = as.na_class->worker->address_size;
    assert_true(size <= sizeof(address));
    memcpy(address, as.na_class->worker->address, size);
    at = memmem(address, size, &known, sizeof(known));
    assert_non_null(at);
    memcpy(at, &unknown, sizeof(unknown));
    side_poll(&target);
    count = test_count("/proc/self/fd");
    for (int i = 0; i < 10 * LEFT_MAX; i++)
        (void) is_let_in(&target, &as, address, size);
    while (test_count("/proc/self/fd") > count + LEFT_MAX) {
        assert_true(kit_host->clock_ns() < end);
        side_poll(&target);
    }
    side_close(&as);
    side_close(&target);
}

/* A process cannot connect a second time under another name, nor claim to be the target itself. */
static void a_worker_belongs_to_one_peer(void **state)
{
    struct side target, as;
    const struct ucx_worker *worker;
    uint8_t *data;
    uint32_t size;
    int fd;

    (void) state;
    open_one(&target, "tcp", NULL);
    open_one(&as, "tcp", NULL);
    worker = target.na_class->worker;
    assert_false(is_let_in(&target, &as, (const uint8_t *) worker->address, worker->address_size));
    worker = as.na_class->worker;
    data = introduce(&as, (const uint8_t *) worker->address, worker->address_size, &size);
    fd = call_and_say(&target, data, size);
    assert_true(is_met(&target, &as, fd));
    as.na_class->name[strlen(as.na_class->name) - 1] ^= 1; /* while the first link exists */
    assert_false(is_let_in(&target, &as, (const uint8_t *) worker->address, worker->address_size));
    as.na_class->incarnation -= 4; /* the same incarnation as in the first introduction */
    assert_false(is_let_in(&target, &as, (const uint8_t *) worker->address, worker->address_size));
    as.na_class->name[strlen(as.na_class->name) - 1] ^= 1;
    assert_int_equal(close(fd), 0);
    kit_host->mem_free(data);
    side_close(&as);
    side_close(&target);
}

/* Connects from a process of another user, which ends when the returned descriptor is closed. */
static pid_t call_as(uid_t user, int *fd_p)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char byte;
    pid_t pid;

    assert_int_equal(bind(listener, (struct sockaddr *) &address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *) &address, &size), 0);
    pid = fork();
    if (pid == 0) {
        int fd = -1;

        if (setuid(user) == 0)
            fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *) &address, size) != 0)
            _exit(1);
        _exit(recv(fd, &byte, 1, 0) != 0);
    }
    *fd_p = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(*fd_p >= 0);
    assert_int_equal(close(listener), 0);
    return pid;
}

/* Shared memory is only for processes of the same user. */
static void neighbours_of_other_users_are_told_apart(void **state)
{
    const uid_t users[] = {geteuid(), 65534};

    (void) state;
    if (geteuid() != 0)
        print_message("not tested for another user: only root can start its process\n");
    for (int i = 0; i < (geteuid() == 0 ? 2 : 1); i++) {
        struct ucx_channel channel = {.fd = -1};
        pid_t pid = call_as(users[i], &channel.fd);
        int status = 1;

        assert_int_equal(ucx_channel_is_of_user(&channel), i == 0);
        /* A socket whose peer has closed has no owner, which looks like root. */
        assert_int_equal(shutdown(channel.fd, SHUT_WR), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_false(ucx_channel_is_of_user(&channel));
        assert_int_equal(close(channel.fd), 0);
    }
}

/* With a key, no part of an address is parsed before the key was checked. */
static void nobody_is_let_in_without_the_key(void **state)
{
    struct side target, as;
    uint8_t address[8];

    (void) state;
    open_one(&target, "tcp", "open sesame");
    open_one(&as, "tcp", NULL);
    memset(address, 5, sizeof(address));
    assert_false(is_let_in(&target, &as, address, sizeof(address)));
    assert_false(is_let_in(&target, &as, (const uint8_t *) as.na_class->worker->address,
                           as.na_class->worker->address_size));
    assert_true(kit_list_empty(&target.na_class->links));
    side_close(&as);
    side_close(&target);
}

/* An introduction that was made with the key is refused when it is altered or replayed. */
static void what_was_said_with_the_key_is_said_once(void **state)
{
    struct side target;
    struct ucx_link link = {.id = 7};
    struct ucx_channel channel = {.is_dialed = true};
    uint8_t bytes[UCX_HELLO_HEAD];
    uint8_t *data;
    uint32_t size;

    (void) state;
    open_one(&target, "tcp", "open sesame");
    link.na_class = channel.na_class = target.na_class;
    channel.link = &link;
    link.worker = target.na_class->worker;
    target.na_class->incarnation += 2;
    data = ucx_hello_write(&link, &size);
    target.na_class->incarnation -= 2;
    for (int i = 0; i < 3; i++) { /* altered, original, replayed */
        int fd = call(target.na_class->name);

        assert_true(hear(&target, fd, bytes, UCX_CHALLENGE));
        if (i < 2) {
            assert_null(ucx_auth_challenged(&channel, bytes));
            assert_true(ucx_auth_sign(&channel, data, size));
        }
        data[size - 1] ^= i == 0;
        assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), size);
        data[size - 1] ^= i == 0;
        assert_true(hear(&target, fd, bytes, sizeof(bytes)));
        assert_int_equal(ucx_hello_is_refusal(bytes), i != 1);
        assert_int_equal(close(fd), 0);
    }
    kit_host->mem_free(data);
    side_close(&target);
}

/* Connects as the message layer does for its first frame to a name. */
static struct ucx_link *dial(struct side *side, const char *name)
{
    struct ucx_link *link = ucx_link_create(side->na_class->worker, name);

    assert_non_null(link);
    assert_int_equal(ucx_channel_dial(link), 0);
    return link;
}

static void poll_until_met(struct side *a, struct side *b, const struct ucx_link *link)
{
    uint64_t end = kit_host->clock_ns() + WAIT_NS;

    while (link->phase == UCX_LINK_DIALING) {
        assert_true(kit_host->clock_ns() < end);
        side_poll(a);
        side_poll(b);
    }
    assert_int_equal(link->phase, UCX_LINK_READY);
}

/* A link for a name goes to the process that listens there, whoever claims that name in the
 * meantime. */
static void a_name_that_is_dialed_is_not_a_callers(void **state)
{
    struct side target, real, as;
    uint8_t bytes[UCX_HELLO_HEAD];
    const struct ucx_worker *worker;
    struct ucx_claim claim;
    struct ucx_link *link;
    uint8_t *data;
    uint32_t size;
    int fd;

    (void) state;
    open_one(&target, "tcp", NULL);
    open_one(&real, "tcp", NULL);
    open_one(&as, "tcp", NULL);
    worker = as.na_class->worker;
    memcpy(as.na_class->name, real.na_class->name, sizeof(as.na_class->name));
    link = dial(&target, real.na_class->name);
    data = introduce(&as, (const uint8_t *) worker->address, worker->address_size, &size);
    fd = call_and_say(&target, data, size);
    assert_true(hear(&target, fd, bytes, sizeof(bytes)));
    assert_true(ucx_hello_is_claim(bytes, &claim));
    assert_int_equal(link->phase, UCX_LINK_DIALING);
    assert_int_equal(claim.link_id, link->id);
    assert_false(kit_key_is_equal(&claim.proof, &link->secret));
    poll_until_met(&target, &real, link);
    assert_int_equal(link->their_incarnation, real.na_class->incarnation);
    assert_false(hear(&target, fd, bytes, 1));
    assert_int_equal(link->phase, UCX_LINK_READY);
    assert_int_equal(close(fd), 0);
    kit_host->mem_free(data);
    side_close(&as);
    side_close(&real);
    side_close(&target);
}

/* Two processes connect to each other at once. Each defers the other's connection until it learns
 * that the other one does the same; they end up with one link. */
static void two_that_dial_each_other_meet(void **state)
{
    struct side a, b;
    struct ucx_link *to_a, *to_b;

    (void) state;
    open_one(&a, "tcp", NULL);
    open_one(&b, "tcp", NULL);
    to_b = dial(&a, b.na_class->name);
    to_a = dial(&b, a.na_class->name);
    poll_until_met(&a, &b, to_a);
    poll_until_met(&a, &b, to_b);
    assert_int_equal(to_a->their_id, to_b->id);
    assert_int_equal(to_b->their_id, to_a->id);
    assert_true(to_a->has_claim || to_b->has_claim);
    assert_ptr_equal(a.na_class->links.next, a.na_class->links.prev);
    assert_ptr_equal(b.na_class->links.next, b.na_class->links.prev);
    side_close(&b);
    side_close(&a);
}

/* Something listens at the name and stays silent. When the link has nothing left to send, the
 * connections that were deferred for it are accepted. */
static void a_dial_ends_with_what_it_is_for(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char name[KIT_NAME_MAX];
    struct side target, as;
    struct ucx_link *link, *own;
    struct ucx_peer priv;
    struct kit_peer peer = {.name = name, .priv = &priv};

    (void) state;
    assert_int_equal(bind(listener, (struct sockaddr *) &address, size), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *) &address, &size), 0);
    (void) snprintf(name, sizeof(name), "127.0.0.1:%d", ntohs(address.sin_port));
    open_one(&target, "tcp", NULL);
    open_one(&as, "tcp", NULL);
    memcpy(as.na_class->name, name, sizeof(as.na_class->name));
    link = dial(&target, name);
    link->peer = &peer;
    priv.link = link;
    own = dial(&as, target.na_class->name);
    while (target.na_class->held_calls == 0) {
        side_poll(&target);
        side_poll(&as);
    }
    for (int i = 0; i < 1000; i++)
        side_poll(&target);
    assert_int_equal(target.na_class->held_calls, 1);
    ucx_peer_close(&target.na_class->fabric, &peer);
    assert_null(priv.link);
    poll_until_met(&target, &as, own);
    assert_int_equal(target.na_class->held_calls, 0);
    assert_int_equal(close(listener), 0);
    side_close(&as);
    side_close(&target);
}

/* A peer with a connection of its own claims in its messages to be another peer. */
static void speak_for_another(bool by_name)
{
    struct pending *awaited = pending_new(), *send = pending_new(), *receive = pending_new();
    uint64_t end = kit_host->clock_ns() + WAIT_NS;
    struct kit_session *forger, *forged;
    struct side target, real, as;
    struct na_plugin_addr *addr, *real_addr;
    char *name, text[8];

    open_one(&target, "tcp", NULL);
    open_one(&real, "tcp", NULL);
    open_one(&as, "tcp", NULL);
    forger = &as.na_class->fabric.state->session;
    forged = &real.na_class->fabric.state->session;
    name = forger->self->name;
    assert_int_equal(ucx_addr_lookup(real.na_class, target.na_class->name, &addr), 0);
    assert_string_equal(message_pass(&real, &target, addr), real.na_class->name);
    real_addr = msg_peer_addr(
        kit_peer_by_name(&target.na_class->fabric.state->session, real.na_class->name));
    assert_int_equal(kit_msg_recv_expected(target.context, awaited->op, text, sizeof(text), NULL,
                                           real_addr, 0, 7),
                     0);
    assert_int_equal(kit_msg_recv_unexpected(target.context, receive->op, text, sizeof(text), NULL),
                     0);

    if (by_name)
        forger->self->name = forged->self->name;
    else
        forger->incarnation = forged->incarnation;
    assert_int_equal(ucx_addr_lookup(as.na_class, target.na_class->name, &addr), 0);
    assert_int_equal(kit_msg_send_unexpected(as.context, send->op, "evil", 5, NULL, addr, 0, 1), 0);
    plugin_host_log[0] = '\0';
    while (receive->status == PENDING_WAITS &&
           strstr(plugin_host_log, "that is not from there") == NULL) {
        assert_true(kit_host->clock_ns() < end);
        side_poll(&as);
        side_poll(&target);
        side_poll(&real);
    }
    assert_int_equal(awaited->status, PENDING_WAITS);
    assert_int_equal(receive->status, by_name ? PENDING_WAITS : 0);
    if (!by_name)
        assert_string_equal(receive->source, name);
    forger->self->name = name;
    side_close(&as);
    side_close(&real);
    side_close(&target);
    free(awaited);
    free(send);
    free(receive);
}

static void a_peer_does_not_speak_for_another(void **state)
{
    (void) state;
    pending_host();
    speak_for_another(true);
    speak_for_another(false);
    kit_host = &plugin_host;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forged_addresses_end_nobody),
        cmocka_unit_test(addresses_without_a_route_hold_no_descriptors),
        cmocka_unit_test(a_worker_belongs_to_one_peer),
        cmocka_unit_test(a_name_that_is_dialed_is_not_a_callers),
        cmocka_unit_test(two_that_dial_each_other_meet),
        cmocka_unit_test(neighbours_of_other_users_are_told_apart),
        cmocka_unit_test(nobody_is_let_in_without_the_key),
        cmocka_unit_test(what_was_said_with_the_key_is_said_once),
        cmocka_unit_test(a_dial_ends_with_what_it_is_for),
        cmocka_unit_test(a_peer_does_not_speak_for_another),
    };

    /* UCX connects to the targets of altered addresses, where other programs may listen. */
    has_own_network = geteuid() == 0 && host_enter() && system(OWN_NETWORK) == 0;
    if (!has_own_network)
        print_message("without a network of its own: a process that listens on the loopback and is "
                      "called by UCX could end this test\n");
    return cmocka_run_group_tests(tests, ucx_test_setup, ucx_test_teardown);
}
