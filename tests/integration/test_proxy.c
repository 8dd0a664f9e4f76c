/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attacker between two endpoints edits and repeats the bytes that pass. With a key, nothing of
 * that is received. The proxy is a thread that knows no protocol: it searches the bytes for words.
 */

#define _GNU_SOURCE /* memmem */

#include "na.h"
#include "na_ext.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define WAIT_S    60
#define PATHS_MAX 16
#define KEY       "open sesame"
#define EDIT      "please edit this"
#define REPEAT    "say this twice"
#define SECRET    "nobody reads this"
#define BULK      20000u

static const char *transport; /* ofi+tcp or bmi+tcp */

struct proxy {
    int listen_fd;
    uint16_t port, target_port;
    pthread_t thread;
    _Atomic bool is_over;
    _Atomic uint32_t edited, repeated, read;
    int fds[2 * PATHS_MAX]; /* caller, target, caller, target, ... */
    uint32_t count;
};

struct side {
    na_class_t *na_class;
    na_context_t *context;
};

/* One operation, and its buffer. */
struct work {
    na_op_id_t *op;
    bool is_done;
    na_return_t ret;
    size_t size;
    char buf[256];
};

static struct sockaddr_in local(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static int write_all(int fd, const char *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t sent = send(fd, data + done, size - done, MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR)
            return -1;
        done += sent > 0 ? (size_t) sent : 0;
    }
    return 0;
}

/* Forwards what has arrived, edited if it contains one of the words. Returns false when the
 * connection ended. */
static bool proxy_pass(struct proxy *proxy, int from, int to)
{
    char data[65536];
    ssize_t size = recv(from, data, sizeof(data), 0);
    char *word;

    if (size <= 0)
        return false;
    if (memmem(data, (size_t) size, SECRET, strlen(SECRET)) != NULL)
        (void) atomic_fetch_add(&proxy->read, 1);
    word = memmem(data, (size_t) size, EDIT, strlen(EDIT));
    if (word != NULL) {
        word[0] ^= 'p' ^ 'P';
        (void) atomic_fetch_add(&proxy->edited, 1);
    }
    if (write_all(to, data, (size_t) size) != 0)
        return false;
    if (memmem(data, (size_t) size, REPEAT, strlen(REPEAT)) == NULL)
        return true;
    (void) atomic_fetch_add(&proxy->repeated, 1);
    return write_all(to, data, (size_t) size) == 0;
}

static void proxy_accept(struct proxy *proxy)
{
    const struct sockaddr_in address = local(proxy->target_port);
    const int one = 1;
    int fd = accept(proxy->listen_fd, NULL, NULL);
    int target = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || target < 0 || proxy->count == 2 * PATHS_MAX ||
        connect(target, (const struct sockaddr *) &address, sizeof(address)) != 0) {
        (void) close(fd);
        (void) close(target);
        return;
    }
    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void) setsockopt(target, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    proxy->fds[proxy->count++] = fd;
    proxy->fds[proxy->count++] = target;
}

static void *proxy_run(void *arg)
{
    struct proxy *proxy = arg;

    while (!atomic_load(&proxy->is_over)) {
        struct pollfd polls[2 * PATHS_MAX + 1];
        const uint32_t count = proxy->count; /* a connection accepted in this round is polled in the
                                              * next */

        for (uint32_t i = 0; i < count; i++)
            polls[i] = (struct pollfd){.fd = proxy->fds[i], .events = POLLIN};
        polls[count] = (struct pollfd){.fd = proxy->listen_fd, .events = POLLIN};
        if (poll(polls, count + 1, 10) <= 0)
            continue;
        if (polls[count].revents != 0)
            proxy_accept(proxy);
        for (uint32_t i = 0; i < count; i++) {
            if (polls[i].fd != proxy->fds[i] || polls[i].fd < 0 || polls[i].revents == 0 ||
                proxy_pass(proxy, proxy->fds[i], proxy->fds[i ^ 1]))
                continue;
            (void) shutdown(proxy->fds[i ^ 1], SHUT_RDWR);
            (void) close(proxy->fds[i]);
            proxy->fds[i] = -1;
        }
    }
    for (uint32_t i = 0; i < proxy->count; i++)
        if (proxy->fds[i] >= 0)
            (void) close(proxy->fds[i]);
    return NULL;
}

static void proxy_open(struct proxy *proxy, uint16_t target_port)
{
    struct sockaddr_in address = local(0);
    socklen_t size = sizeof(address);

    memset(proxy, 0, sizeof(*proxy));
    proxy->target_port = target_port;
    proxy->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(proxy->listen_fd >= 0);
    assert_int_equal(bind(proxy->listen_fd, (struct sockaddr *) &address, size), 0);
    assert_int_equal(listen(proxy->listen_fd, 16), 0);
    assert_int_equal(getsockname(proxy->listen_fd, (struct sockaddr *) &address, &size), 0);
    proxy->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&proxy->thread, NULL, proxy_run, proxy), 0);
}

static void proxy_close(struct proxy *proxy)
{
    atomic_store(&proxy->is_over, true);
    (void) pthread_join(proxy->thread, NULL);
    (void) close(proxy->listen_fd);
}

static bool encrypts; /* whether the next classes are opened with encryption */

static void side_open(struct side *side, const char *key)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char init[128];

    info.auth_key = key;
    info.encrypt = encrypts;
    (void) snprintf(init, sizeof(init), "%s://127.0.0.1:0", transport);
    side->na_class =
        NA_Initialize_opt2(init, true, NA_VERSION(NA_VERSION_MAJOR, NA_VERSION_MINOR), &info);
    assert_non_null(side->na_class);
    side->context = NA_Context_create(side->na_class);
    assert_non_null(side->context);
}

static void side_close(struct side *side)
{
    assert_int_equal(NA_Context_destroy(side->na_class, side->context), NA_SUCCESS);
    assert_int_equal(NA_Finalize(side->na_class), NA_SUCCESS);
}

static uint16_t side_port(const struct side *side)
{
    na_addr_t *self = NULL;
    char text[256];
    size_t size = sizeof(text);

    assert_int_equal(NA_Addr_self(side->na_class, &self), NA_SUCCESS);
    assert_int_equal(NA_Addr_to_string(side->na_class, text, &size, self), NA_SUCCESS);
    NA_Addr_free(side->na_class, self);
    assert_non_null(strrchr(text, ':'));
    return (uint16_t) atoi(strrchr(text, ':') + 1);
}

static uint64_t side_refused(const struct side *side)
{
    struct na_counter counters[64];
    size_t count = 64;

    assert_int_equal(NA_Class_get_counters(side->na_class, counters, &count), NA_SUCCESS);
    for (size_t i = 0; i < count; i++)
        if (strstr(counters[i].name, "refused_key") != NULL)
            return counters[i].value;
    fail_msg("the transport has no counter of refused messages");
    return 0;
}

static void work_done(const struct na_cb_info *info)
{
    struct work *work = info->arg;

    work->is_done = true;
    work->ret = info->ret;
    if (info->type == NA_CB_RECV_UNEXPECTED && info->ret == NA_SUCCESS)
        work->size = info->info.recv_unexpected.actual_buf_size;
}

static void run(struct side *side)
{
    unsigned int count = 0;

    (void) NA_Poll(side->na_class, side->context, &count);
    while (NA_Trigger(side->context, 1, &count) == NA_SUCCESS && count != 0)
        continue;
}

static void receive(struct side *side, struct work *work)
{
    work->op = NA_Op_create(side->na_class, 0);
    work->is_done = false;
    assert_non_null(work->op);
    memset(work->buf, 0, sizeof(work->buf));
    assert_int_equal(NA_Msg_recv_unexpected(side->na_class, side->context, work_done, work,
                                            work->buf, sizeof(work->buf), NULL, work->op),
                     NA_SUCCESS);
}

/* Sends a text and waits for the end of the send. The caller checks its result and whether it was
 * received, unchanged or edited. */
static void send_text(struct side *from, struct side *to, na_addr_t *addr, const char *text)
{
    struct work work = {.op = NA_Op_create(from->na_class, 0)};
    const time_t end = time(NULL) + WAIT_S;

    assert_non_null(work.op);
    (void) strcpy(work.buf, text);
    assert_int_equal(NA_Msg_send_unexpected(from->na_class, from->context, work_done, &work,
                                            work.buf, strlen(text) + 1, NULL, addr, 0, 1, work.op),
                     NA_SUCCESS);
    while (!work.is_done && time(NULL) < end) {
        run(from);
        run(to);
    }
    assert_true(work.is_done);
    NA_Op_destroy(from->na_class, work.op);
}

/* Sends the text again until the receive completes: the session may have to be established anew. */
static void send_until_received(struct side *from, struct side *to, na_addr_t *addr,
                                const char *text, struct work *into)
{
    const time_t end = time(NULL) + WAIT_S;

    while (!into->is_done && time(NULL) < end) {
        const time_t again = time(NULL) + 2;

        send_text(from, to, addr, text);
        while (!into->is_done && time(NULL) < again) {
            run(from);
            run(to);
        }
    }
    assert_true(into->is_done);
    assert_int_equal(into->ret, NA_SUCCESS);
}

/* Whether the receive has completed. A copy of `before` does not count, since send_until_received()
 * may send it twice. */
static bool has_come(struct side *side, struct work *work, const char *before)
{
    if (work->is_done && strcmp(work->buf, before) == 0) {
        NA_Op_destroy(side->na_class, work->op);
        receive(side, work);
    }
    return work->is_done;
}

struct pair {
    struct side from, to;
    struct proxy proxy;
    na_addr_t *addr;
};

static void pair_open(struct pair *pair, const char *key)
{
    char text[128];

    side_open(&pair->from, key);
    side_open(&pair->to, key);
    proxy_open(&pair->proxy, side_port(&pair->to));
    (void) snprintf(text, sizeof(text), "%s://127.0.0.1:%u", transport, pair->proxy.port);
    assert_int_equal(NA_Addr_lookup(pair->from.na_class, text, &pair->addr), NA_SUCCESS);
}

static void pair_close(struct pair *pair)
{
    NA_Addr_free(pair->from.na_class, pair->addr);
    side_close(&pair->from);
    side_close(&pair->to);
    proxy_close(&pair->proxy);
}

static void work_end(struct side *side, struct work *work)
{
    NA_Op_destroy(side->na_class, work->op);
}

/* Without a key the edited and repeated messages are received: the proxy works. */
static void without_a_key_it_is_believed(void **state)
{
    struct pair pair;
    struct work work;

    (void) state;
    pair_open(&pair, NULL);
    receive(&pair.to, &work);
    send_until_received(&pair.from, &pair.to, pair.addr, "hello", &work);
    assert_string_equal(work.buf, "hello");
    work_end(&pair.to, &work);
    receive(&pair.to, &work);
    while (!has_come(&pair.to, &work, "hello"))
        send_until_received(&pair.from, &pair.to, pair.addr, EDIT, &work);
    assert_int_equal(work.buf[0], 'P');
    assert_true(pair.proxy.edited >= 1);
    work_end(&pair.to, &work);
    pair_close(&pair);
}

/* With a key no edited message is received, and a repeated one is received once. */
static void with_a_key_it_is_not(void **state)
{
    struct pair pair;
    struct work work;
    uint64_t before;
    uint32_t count;

    (void) state;
    pair_open(&pair, KEY);
    receive(&pair.to, &work);
    send_until_received(&pair.from, &pair.to, pair.addr, "hello", &work);
    assert_string_equal(work.buf, "hello");
    assert_int_equal(side_refused(&pair.to), 0);
    work_end(&pair.to, &work);
    receive(&pair.to, &work);
    send_text(&pair.from, &pair.to, pair.addr, REPEAT);
    while (!has_come(&pair.to, &work, "hello") || side_refused(&pair.to) == 0) {
        run(&pair.from);
        run(&pair.to);
    }
    assert_string_equal(work.buf, REPEAT);
    assert_true(pair.proxy.repeated >= 1);
    work_end(&pair.to, &work);
    before = side_refused(&pair.to);
    receive(&pair.to, &work);
    send_text(&pair.from, &pair.to, pair.addr, EDIT);
    while (side_refused(&pair.to) == before) {
        run(&pair.from);
        run(&pair.to);
    }
    assert_false(work.is_done);
    for (count = 0; !work.is_done && count < 3; count++)
        send_until_received(&pair.from, &pair.to, pair.addr, "goes on", &work);
    assert_string_equal(work.buf, "goes on");
    assert_true(pair.proxy.edited >= 1);
    work_end(&pair.to, &work);
    pair_close(&pair);
}

static void fill(char *memory, const char *text)
{
    for (size_t i = 0; i < BULK; i++)
        memory[i] = text[i % strlen(text)];
}

/* Puts the secret, then gets it back; the transfers contain it many times. */
static void move(struct pair *pair)
{
    static char local[BULK], remote[BULK], packed[4096];
    na_mem_handle_t *own, *theirs, *at_from;
    const time_t end = time(NULL) + WAIT_S;

    assert_int_equal(NA_Mem_handle_create(pair->from.na_class, local, BULK, NA_MEM_READWRITE, &own),
                     NA_SUCCESS);
    assert_int_equal(
        NA_Mem_handle_create(pair->to.na_class, remote, BULK, NA_MEM_READWRITE, &theirs),
        NA_SUCCESS);
    assert_int_equal(NA_Mem_register(pair->from.na_class, own, NA_MEM_TYPE_HOST, 0), NA_SUCCESS);
    assert_int_equal(NA_Mem_register(pair->to.na_class, theirs, NA_MEM_TYPE_HOST, 0), NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_serialize(pair->to.na_class, packed, sizeof(packed), theirs),
                     NA_SUCCESS);
    assert_int_equal(
        NA_Mem_handle_deserialize(pair->from.na_class, &at_from, packed, sizeof(packed)),
        NA_SUCCESS);
    for (uint32_t i = 0; i < 2; i++) {
        struct work work = {.op = NA_Op_create(pair->from.na_class, 0)};

        fill(i == 0 ? local : remote, SECRET);
        memset(i == 0 ? remote : local, 0, BULK);
        assert_int_equal((i == 0 ? NA_Put : NA_Get)(pair->from.na_class, pair->from.context,
                                                    work_done, &work, own, 0, at_from, 0, BULK,
                                                    pair->addr, 0, work.op),
                         NA_SUCCESS);
        while (!work.is_done && time(NULL) < end) {
            run(&pair->from);
            run(&pair->to);
        }
        assert_true(work.is_done);
        assert_int_equal(work.ret, NA_SUCCESS);
        assert_memory_equal(local, remote, BULK);
        NA_Op_destroy(pair->from.na_class, work.op);
    }
    NA_Mem_handle_free(pair->from.na_class, at_from);
    assert_int_equal(NA_Mem_deregister(pair->from.na_class, own), NA_SUCCESS);
    assert_int_equal(NA_Mem_deregister(pair->to.na_class, theirs), NA_SUCCESS);
    NA_Mem_handle_free(pair->from.na_class, own);
    NA_Mem_handle_free(pair->to.na_class, theirs);
}

/* A key alone does not hide the contents. With encryption the proxy sees nothing of messages and
 * bulk data. */
static void what_is_encrypted_it_does_not_read(void **state)
{
    (void) state;
    for (uint32_t i = 0; i < 2; i++) {
        struct pair pair;
        struct work work;

        encrypts = i == 1;
        pair_open(&pair, KEY);
        encrypts = false;
        receive(&pair.to, &work);
        send_until_received(&pair.from, &pair.to, pair.addr, SECRET, &work);
        assert_string_equal(work.buf, SECRET);
        work_end(&pair.to, &work);
        move(&pair);
        assert_int_equal(pair.proxy.read == 0, i == 1);
        pair_close(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_key_it_is_believed),
        cmocka_unit_test(with_a_key_it_is_not),
        cmocka_unit_test(what_is_encrypted_it_does_not_read),
    };

    transport = getenv("AMALGAM_TEST_INIT");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
