/* SPDX-License-Identifier: BSD-3-Clause */
/* What a peer can do in the name of another one: a message that names the other's link, a claim to
 * be its process, and the use of its name. */

#include "ucx_side.h"

#include "../test_count.h"
#include "rma_state.h"

#include <endian.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_NS UINT64_C(20000000000)
#define SIZE    8192u /* sent eagerly as one piece */

/* A peer of the target, and the handles and links between the two. */
struct guest {
    struct side side;
    struct na_plugin_addr *to_target;
    struct na_plugin_mem *local, *remote;
    struct na_plugin_mem *offered; /* `local`, as deserialized by the target */
    struct ucx_link *link;         /* from the guest to the target */
    struct ucx_link *mirror;       /* from the target to the guest */
    uint8_t memory[SIZE];
    void *op;
};

struct house {
    struct side target;
    struct na_plugin_mem *shared;
    uint8_t memory[SIZE];
    struct guest victim, attacker;
    void *op;
    int threads; /* threads of this process while no socket is being closed */
};

static struct na_host host;
static void *done_op;
static int32_t done_status;

static void complete(void *op, int32_t status)
{
    done_op = op;
    done_status = status;
}

static void poll_all(struct house *house)
{
    side_poll(&house->target);
    side_poll(&house->victim.side);
    side_poll(&house->attacker.side);
}

/* Gets the target's memory, which establishes the connection. */
static int32_t get(struct house *house, struct guest *guest)
{
    uint64_t end = host.clock_ns() + WAIT_NS;

    done_op = NULL;
    assert_int_equal(kit_msg_get(guest->side.context, guest->op, guest->local, 0, guest->remote, 0,
                                 SIZE, guest->to_target, 0),
                     0);
    while (done_op == NULL && host.clock_ns() < end) {
        side_poll(&house->target);
        side_poll(&guest->side);
    }
    assert_ptr_equal(done_op, guest->op);
    return done_status;
}

static void guest_open(struct house *house, struct guest *guest)
{
    uint8_t handle[256];

    side_open(&guest->side);
    guest->op = host.mem_alloc(kit_msg_op_size(), kit_msg_op_align());
    assert_int_equal(
        ucx_addr_lookup(guest->side.na_class, house->target.na_class->name, &guest->to_target), 0);
    assert_int_equal(ucx_mem_create(guest->side.na_class, guest->memory, SIZE, NA_PLUGIN_MEM_READ,
                                    &guest->local),
                     0);
    assert_int_equal(ucx_mem_register(guest->side.na_class, guest->local, 0, 0), 0);
    assert_int_equal(ucx_mem_serialize(guest->side.na_class, guest->local, handle, sizeof(handle)),
                     0);
    assert_int_equal(
        ucx_mem_deserialize(house->target.na_class, handle, sizeof(handle), &guest->offered), 0);
    assert_int_equal(
        ucx_mem_serialize(house->target.na_class, house->shared, handle, sizeof(handle)), 0);
    assert_int_equal(
        ucx_mem_deserialize(guest->side.na_class, handle, sizeof(handle), &guest->remote), 0);
}

static void guest_meet(struct house *house, struct guest *guest)
{
    uint64_t end = host.clock_ns() + WAIT_NS;

    guest_open(house, guest);
    assert_int_equal(get(house, guest), 0);
    guest->link = ucx_link_find(guest->side.na_class, house->target.na_class->name);
    guest->mirror = ucx_link_find(house->target.na_class, guest->side.na_class->name);
    assert_non_null(guest->link);
    assert_non_null(guest->mirror);
    while ((guest->link->pid == 0 || guest->mirror->pid == 0) && host.clock_ns() < end) {
        side_poll(&house->target);
        side_poll(&guest->side);
    }
    assert_true(guest->link->is_shared && guest->mirror->is_shared);
    assert_int_equal(guest->link->pid, getpid());
    assert_int_equal(guest->mirror->pid, getpid());
}

static void guest_close(struct house *house, struct guest *guest)
{
    ucx_mem_destroy(house->target.na_class, guest->offered);
    ucx_mem_destroy(guest->side.na_class, guest->remote);
    ucx_mem_destroy(guest->side.na_class, guest->local);
    kit_msg_addr_free(guest->side.na_class, guest->to_target);
    side_close(&guest->side);
    host.mem_free(guest->op);
}

static int count_threads(void)
{
    const int count = test_count("/proc/self/task");

    assert_int_not_equal(count, 0);
    return count;
}

static int setup(void **state)
{
    struct house *house = calloc(1, sizeof(*house));

    host = plugin_host;
    host.op_complete = complete;
    kit_host = &host;
    side_open(&house->target);
    assert_int_equal(ucx_mem_create(house->target.na_class, house->memory, SIZE,
                                    NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE, &house->shared),
                     0);
    assert_int_equal(ucx_mem_register(house->target.na_class, house->shared, 0, 0), 0);
    guest_meet(house, &house->victim);
    guest_meet(house, &house->attacker);
    house->op = host.mem_alloc(kit_msg_op_size(), kit_msg_op_align());
    house->threads = count_threads();
    *state = house;
    return 0;
}

static int teardown(void **state)
{
    struct house *house = *state;

    guest_close(house, &house->attacker);
    guest_close(house, &house->victim);
    ucx_mem_destroy(house->target.na_class, house->shared);
    side_close(&house->target);
    host.mem_free(house->op);
    free(house);
    return ucx_test_teardown(state);
}

/* UCX reads the header until the message was sent. */
struct message {
    uint8_t header[sizeof(struct ucx_put_header)];
};

static void sent(void *request, ucs_status_t status, void *arg)
{
    (void) status;
    if (request != NULL)
        ucp_request_free(request);
    free(arg);
}

/* Polls until the target has abandoned the link, which may be freed then. */
static void poll_until_failed(struct house *house, uint64_t link)
{
    uint64_t end = host.clock_ns() + WAIT_NS;

    while (kit_table_find(&house->target.na_class->links_by_id, link) != NULL) {
        assert_true(host.clock_ns() < end);
        poll_all(house);
    }
}

/* Starts a get by the target from the guest, which does not answer yet. Returns the tag of the
 * piece. */
static uint32_t ask(struct house *house, struct guest *guest)
{
    struct kit_rma_piece *const *posted = house->target.na_class->posted;
    struct na_plugin_addr *addr;
    uint32_t tag = 0;

    guest->mirror->registry = 0;
    guest->mirror->is_attach_refused = true;
    memset(house->memory, 1, SIZE);
    memset(guest->memory, 2, SIZE);
    done_op = NULL;
    assert_int_equal(ucx_addr_lookup(house->target.na_class, guest->side.na_class->name, &addr), 0);
    assert_int_equal(kit_msg_get(house->target.context, house->op, house->shared, 0, guest->offered,
                                 0, SIZE, addr, 0),
                     0);
    while (tag < UCX_TAGS && posted[tag] == NULL)
        tag++;
    assert_in_range(tag, 0, UCX_TAGS - 1);
    kit_msg_addr_free(house->target.na_class, addr);
    return tag;
}

static int32_t await(struct house *house)
{
    uint64_t end = host.clock_ns() + WAIT_NS;

    while (done_op == NULL && host.clock_ns() < end)
        poll_all(house);
    assert_ptr_equal(done_op, house->op);
    return done_status;
}

/* The attacker sends bytes of value 3 with this header over its own link. */
static void send_threes(struct house *house, uint32_t am, const void *header, size_t size)
{
    static uint8_t bytes[SIZE];
    struct ucx_link *link = house->attacker.link;
    struct message *message = calloc(1, sizeof(*message));
    const ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER,
        .cb.send = sent,
        .user_data = message,
    };
    ucs_status_ptr_t started;

    assert_true(message != NULL && size <= sizeof(message->header));
    memset(bytes, 3, sizeof(bytes));
    memcpy(message->header, header, size);
    started =
        ucp_am_send_nbx(link->end.ep, am, message->header, size, bytes, sizeof(bytes), &param);
    assert_false(UCS_PTR_IS_ERR(started));
    if (started == NULL)
        sent(NULL, UCS_OK, message);
}

/* Sends a piece that names the link of another peer. */
static void forge(struct house *house, const struct ucx_link *named, const struct kit_key *secret,
                  uint32_t tag)
{
    const struct ucx_piece_header header = {
        .name = {.link = named->their_id, .secret = *secret},
        .tag = tag,
    };

    send_threes(house, UCX_AM_PIECE, &header, sizeof(header));
}

/* Sends a put to memory of the target, naming another peer's link. In its own name the attacker may
 * write there. */
static void forge_put(struct house *house, const struct ucx_link *named,
                      const struct kit_key *secret)
{
    const struct rma_record record = {
        .magic = htole32(RMA_MAGIC),
        .version = RMA_VERSION,
        .kind = RMA_REQUEST,
        .flags = KIT_RMA_INLINE << RMA_MOVER_SHIFT | RMA_FROM_ORIGIN | RMA_IS_PUT,
        .transfer = 1,
        .memory = htole64(house->attacker.remote->region.id),
        .key = house->attacker.remote->region.key,
        .length = htole64(SIZE),
        .piece_size = htole32(SIZE),
    };
    struct ucx_put_header header = {.name = {.link = named->their_id, .secret = *secret}};

    memcpy(header.record, &record, sizeof(record));
    send_threes(house, UCX_AM_PUT, &header, sizeof(header));
}

/* The target receives the attacker's message, which has no effect. */
static void check_dropped(struct house *house, uint32_t tag)
{
    for (int i = 0; i < 1000; i++)
        side_poll(&house->target);
    assert_null(done_op);
    assert_non_null(house->target.na_class->posted[tag]);
    assert_int_equal(house->memory[0], 1);
    assert_memory_equal(house->memory, house->memory + 1, SIZE - 1);
}

static void a_message_does_not_name_anothers_link(void **state)
{
    struct house *house = *state;
    const struct kit_key own = house->attacker.link->their_secret;
    uint32_t tag = ask(house, &house->victim);

    house->victim.mirror->is_warned = false;
    forge(house, house->victim.link, &own, tag);
    while (!house->victim.mirror->is_warned)
        side_poll(&house->target);
    check_dropped(house, tag);
    /* A piece that was requested from another peer is not accepted over the attacker's link,
     * either. */
    forge(house, house->attacker.link, &own, tag);
    check_dropped(house, tag);
    assert_int_equal(await(house), 0);
    assert_memory_equal(house->memory, house->victim.memory, SIZE);
    /* The same message with the right name is accepted. */
    tag = ask(house, &house->attacker);
    forge(house, house->attacker.link, &own, tag);
    while (done_op == NULL)
        side_poll(&house->target);
    assert_int_equal(done_status, 0);
    assert_int_equal(house->memory[SIZE - 1], 3);
    for (int i = 0; i < 1000; i++)
        poll_all(house);
    assert_int_equal(house->memory[SIZE - 1], 3);
}

static void a_put_does_not_name_anothers_link(void **state)
{
    struct house *house = *state;
    const struct kit_key own = house->attacker.link->their_secret;

    memset(house->memory, 1, SIZE);
    house->victim.mirror->is_warned = false;
    forge_put(house, house->victim.link, &own);
    while (!house->victim.mirror->is_warned)
        side_poll(&house->target);
    assert_int_equal(house->memory[0], 1);
    forge_put(house, house->attacker.link, &own);
    while (house->memory[SIZE - 1] != 3)
        side_poll(&house->target);
    for (int i = 0; i < 1000; i++)
        poll_all(house); /* the attacker drops the answer */
}

/* The layout in process.c. */
struct record {
    uint32_t magic, reserved;
    uint64_t link;
    struct kit_key secret;
    struct process_end from, to;
    uint64_t registry;
};

static const struct ucx_channel *channel_of(const struct ucx_link *link)
{
    for (struct kit_link *node = link->channels.next; node != &link->channels; node = node->next) {
        const struct ucx_channel *channel = kit_container(node, struct ucx_channel, node);

        if (!channel->is_of_process)
            return channel;
    }
    return NULL;
}

/* Claims to the target to be the process at the other end of the attacker's link; whether the
 * target believes it. */
static bool claim(struct house *house, const struct record *record)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "amalgam-ucx-%016llx",
                          (unsigned long long) house->target.na_class->incarnation);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct pollfd event = {.fd = fd, .events = POLLIN};
    uint64_t end = host.clock_ns() + WAIT_NS;
    uint8_t answer[32];
    ssize_t size;

    assert_true(fd >= 0);
    assert_int_equal(
        connect(fd, (struct sockaddr *) &address,
                (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t) length),
        0);
    assert_int_equal(send(fd, record, sizeof(*record), MSG_NOSIGNAL), sizeof(*record));
    while (poll(&event, 1, 0) == 0 && host.clock_ns() < end)
        poll_all(house);
    size = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
    assert_true(size >= 0);
    (void) close(fd);
    return size == 16;
}

static void who_is_at_the_other_end_is_not_claimed(void **state)
{
    struct house *house = *state;
    struct ucx_link *link = house->attacker.link;
    const struct ucx_channel *others = channel_of(house->victim.link);
    struct record right = {.magic = 0x50435855u, .link = link->their_id}, wrong;

    right.secret = link->their_secret;
    assert_true(ucx_channel_end(channel_of(link), true, &right.from));
    assert_true(ucx_channel_end(channel_of(link), false, &right.to));
    house->attacker.mirror->pid = 0;
    wrong = right;
    wrong.secret.word[1] ^= 1;
    assert_false(claim(house, &wrong));
    /* The secret was passed on to a process with a connection of its own. */
    wrong = right;
    assert_true(ucx_channel_end(others, true, &wrong.from));
    assert_false(claim(house, &wrong));
    assert_int_equal(house->attacker.mirror->pid, 0);
    assert_true(claim(house, &right));
    assert_int_equal(house->attacker.mirror->pid, getpid());
}

static void the_name_of_a_connected_peer_is_its_own(void **state)
{
    struct house *house = *state;
    struct ucx_link *mirror = house->victim.mirror;
    struct guest impostor = {0};

    guest_open(house, &impostor);
    memcpy(impostor.side.na_class->name, house->victim.side.na_class->name,
           sizeof(impostor.side.na_class->name));
    assert_int_equal(get(house, &impostor), NA_PLUGIN_HOSTUNREACH);
    assert_ptr_equal(ucx_link_find(house->target.na_class, house->victim.side.na_class->name),
                     mirror);
    assert_int_equal(mirror->phase, UCX_LINK_READY);
    assert_int_equal(get(house, &house->victim), 0);
    guest_close(house, &impostor);
}

/* Knowing the other peer's secret does not help: the message came over another UCX endpoint. */
static void a_stolen_secret_reaches_nothing(void **state)
{
    struct house *house = *state;
    const uint64_t mirror = house->victim.mirror->id;
    const uint32_t tag = ask(house, &house->victim);

    forge(house, house->victim.link, &house->victim.link->their_secret, tag);
    while (done_op == NULL)
        side_poll(&house->target);
    assert_int_equal(done_status, NA_PLUGIN_HOSTUNREACH);
    poll_until_failed(house, mirror);
    assert_int_equal(house->memory[0], 1);
}

#define LINGER_S 30
#define NOBODY   65534

/* Returns a connection that closes slowly: the other end does not read what is to be sent. */
static int lingering_socket(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    static const uint8_t data[65536];
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

    if (bind(listener, (struct sockaddr *) &address, size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *) &address, &size) != 0 ||
        connect(fd, (struct sockaddr *) &address, size) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) != 0)
        return -1;
    while (send(fd, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        ;
    return fd;
}

/* The child connects as another user, and leaves in the connection the last reference to a socket
 * that closes slowly. */
static void leave_a_socket(const struct sockaddr_un *address, socklen_t address_size, int ready)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec vector = {.iov_base = (void *) (uintptr_t) "z", .iov_len = 1};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int call = socket(AF_UNIX, SOCK_SEQPACKET, 0), fd;

    if (setresuid(NOBODY, NOBODY, NOBODY) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        _exit(1);
    fd = lingering_socket();
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    if (fd < 0 || connect(call, (const struct sockaddr *) address, address_size) != 0 ||
        sendmsg(call, &message, MSG_NOSIGNAL) != 1)
        _exit(1);
    (void) close(fd);
    if (write(ready, "r", 1) != 1)
        _exit(1);
    for (;;)
        (void) pause();
}

static void another_user_does_not_hold_up_progress(void **state)
{
    struct house *house = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "amalgam-ucx-%016llx",
                          (unsigned long long) house->target.na_class->incarnation);
    uint64_t from;
    int ready[2];
    pid_t pid;
    char byte;

    if (geteuid() != 0) {
        print_message("skipped: only root can start a process of another user\n");
        skip();
    }
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0)
        leave_a_socket(
            &address, (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t) length,
            ready[1]);
    assert_true(pid > 0);
    (void) close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    from = host.clock_ns();
    for (int i = 0; i < 200; i++) {
        poll_all(house);
        (void) usleep(1000);
    }
    assert_in_range((host.clock_ns() - from) / 1000000000, 0, LINGER_S / 2);
    (void) close(ready[0]);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(get(house, &house->victim), 0);
}

#define CLOSERS  4  /* as many sockets as process.c closes at a time */
#define ASKED    16 /* how often the process of another user is contacted */
#define ANOTHERS 42 /* the incarnation of that process */

static socklen_t process_place(uint64_t incarnation, struct sockaddr_un *address)
{
    int length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
                          "amalgam-ucx-%016llx", (unsigned long long) incarnation);

    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t) length;
}

/* The child is contacted as another user's process, and never answers. */
static void listen_for_ever(int ready)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = process_place(ANOTHERS, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    if (setresuid(NOBODY, NOBODY, NOBODY) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
        bind(fd, (const struct sockaddr *) &address, size) != 0 || listen(fd, 2 * ASKED) != 0 ||
        write(ready, "r", 1) != 1)
        _exit(1);
    for (;;)
        (void) pause();
}

static int count_open(void)
{
    const int count = test_count("/proc/self/fd");

    assert_int_not_equal(count, 0);
    return count;
}

/* Polls until there are so many threads: each socket that does not close has one. */
static void poll_until_threads(struct house *house, int count)
{
    uint64_t end = host.clock_ns() + WAIT_NS;

    while (count_threads() < count) {
        assert_true(host.clock_ns() < end);
        poll_all(house);
    }
}

static void sockets_that_do_not_close_do_not_pile_up(void **state)
{
    struct house *house = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = process_place(house->target.na_class->incarnation, &address);
    struct ucx_channel channel = *channel_of(house->attacker.link);
    uint64_t end = host.clock_ns() + WAIT_NS;
    pid_t pids[CLOSERS + 1];
    int ready[2], before;
    char byte;

    if (geteuid() != 0) {
        print_message("skipped: only root can start a process of another user\n");
        skip();
    }
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    for (int i = 0; i <= CLOSERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0 && i == CLOSERS)
            listen_for_ever(ready[1]);
        if (pids[i] == 0)
            leave_a_socket(&address, size, ready[1]);
        assert_true(pids[i] > 0);
        assert_int_equal(read(ready[0], &byte, 1), 1);
    }
    poll_until_threads(house, house->threads + CLOSERS);
    before = count_open();
    for (int i = 0; i < ASKED; i++)
        ucx_process_ask(&channel, ANOTHERS);
    /* other sockets may be leaving the table at the same time */
    assert_in_range(count_open(), 0, before + 1);
    for (int i = 0; i <= CLOSERS; i++) {
        assert_int_equal(kill(pids[i], SIGKILL), 0);
        assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
    }
    while (channel.na_class->unclosed_fd >= 0) { /* now the sockets close */
        assert_true(host.clock_ns() < end);
        ucx_process_ask(&channel, ANOTHERS);
    }
    for (int i = 0; i < 2; i++)
        (void) close(ready[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_does_not_name_anothers_link),
        cmocka_unit_test(a_put_does_not_name_anothers_link),
        cmocka_unit_test(who_is_at_the_other_end_is_not_claimed),
        cmocka_unit_test(the_name_of_a_connected_peer_is_its_own),
        cmocka_unit_test(a_stolen_secret_reaches_nothing),
        cmocka_unit_test(another_user_does_not_hold_up_progress),
        cmocka_unit_test(sockets_that_do_not_close_do_not_pile_up),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
