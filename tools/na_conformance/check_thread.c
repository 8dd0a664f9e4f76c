/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of concurrent use by several threads. */

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "na_conformance/check.h"
#include "na_conformance/exchange.h"
#include "na_conformance/traffic.h"

#define THREADS 4u

static void senders(void);
static void *sender(void *arg);
static void pollers(void);
static void *poller(void *arg);
static void contexts(void);
static void *context_user(void *arg);
static void addresses(void);
static void *address_user(void *arg);
static void handles(void);
static void *handle_user(void *arg);
static void start(void *(*function)(void *), pthread_t *threads);
static void join(pthread_t *threads);
static void wait_alone(uint32_t id, const struct conf_op *op, const char *what);

const struct conf_check conf_checks_thread[] = {
    {901, "thread.send", "Threads send on one context at once, and each one's messages stay whole",
     senders, 0},
    {902, "thread.poll", "Threads poll one context at once, and each completion comes once",
     pollers, 0},
    {903, "thread.context", "Each thread works on a context of its own", contexts, 0},
    {904, "thread.address", "Threads look up, compare and free one address at once", addresses, 0},
    {905, "thread.memory", "Threads make, register and free memory handles at once", handles, 0},
    {0, NULL, NULL, NULL, 0},
};

/* Shared by the threads of a check. */
static struct conf_traffic shared;
static struct conf_end *end = &shared.end;
static _Atomic uint32_t next_thread, running;
static uint32_t times;

static void senders(void)
{
    pthread_t threads[THREADS];

    times = conf_settings.fast ? 500 : 10000;
    conf_traffic_open(&shared, CONF_PEER_COUNT, 32);
    conf_traffic_number(&shared, 0, 64, 0);
    conf_peer_expect_count(&shared.peer, 1);
    conf_peer_tell(&shared.peer, CONF_PEER_LISTEN, CONF_PEER_COUNT, 32);
    start(sender, threads);
    while (atomic_load(&running) > 0)
        conf_progress();
    join(threads);
    {
        const struct conf_peer_command command = {.kind = CONF_PEER_REPORT};
        const uint64_t until = conf_now_ms() + CONF_WAIT_MS;
        struct conf_peer_reply reply;

        do {
            conf_peer_call(&shared.peer, &command, &reply);
        } while (reply.values[0] < times * THREADS && conf_now_ms() < until);
        conf_require(reply.values[0] == times * THREADS && reply.values[2] == 0,
                     "%u messages were sent, %llu arrived, %llu with other content",
                     times * THREADS, (unsigned long long) reply.values[0],
                     (unsigned long long) reply.values[2]);
    }
    conf_note("%u threads, %u messages each", THREADS, times);
    conf_traffic_close(&shared);
}

static void *sender(void *arg)
{
    const uint32_t me = atomic_fetch_add(&next_thread, 1);
    const uint64_t header = conf_header(end, false);
    struct conf_op *op = conf_op_new(end);
    struct conf_buffer out;

    conf_buffer_get(&out, end, header + 200, NA_PLUGIN_BUF_SEND, false);
    for (uint64_t i = 0; i < times; i++) {
        const uint64_t number = i * THREADS + me;
        int32_t status;

        memcpy(out.data + header, &number, sizeof(number));
        conf_fill(out.data + header + sizeof(number), 200 - sizeof(number), number);
        while ((status = conf_send(end, 0, op, &out, out.size, shared.peer.addr, 0, me, false)) ==
               NA_PLUGIN_AGAIN)
            (void) sched_yield();
        conf_require(status == NA_PLUGIN_SUCCESS, "a send failed: %s", conf_status_name(status));
        wait_alone(0, op, "a send");
    }
    conf_buffer_put(&out);
    (void) atomic_fetch_sub(&running, 1);
    return arg;
}

/* The ledger of operations detects a second completion. */
static void pollers(void)
{
    pthread_t threads[THREADS];

    times = conf_settings.fast ? 1000 : 20000;
    conf_traffic_open(&shared, CONF_PEER_ECHO, 32);
    conf_traffic_echo(&shared, 64, 1);
    conf_leave_alone(end);
    start(poller, threads);
    for (uint32_t i = 0; i < times; i++)
        conf_traffic_echo(&shared, i % 200, i % 250);
    atomic_store(&running, 0);
    join(threads);
    conf_traffic_close(&shared);
}

static void *poller(void *arg)
{
    uint32_t count = 0;

    while (atomic_load(&running) > 0) {
        (void) conf_poll(end, 0, &count);
        (void) sched_yield();
    }
    return arg;
}

static void contexts(void)
{
    const struct conf_open how = {.contexts = CONF_CONTEXTS_MAX};
    pthread_t threads[THREADS];

    times = conf_settings.fast ? 500 : 20000;
    conf_load();
    conf_open(end, &how);
    conf_leave_alone(end);
    start(context_user, threads);
    join(threads);
    conf_close(end);
}

/* Sends to the next context, and receives from the previous one. */
static void *context_user(void *arg)
{
    const uint32_t me = atomic_fetch_add(&next_thread, 1) % THREADS;
    struct conf_op *send = conf_op_new(end), *recv = conf_op_new(end);
    const uint64_t header = conf_header(end, false);
    struct conf_buffer in, out;

    conf_buffer_get(&in, end, header + 64, NA_PLUGIN_BUF_RECV, false);
    conf_buffer_get(&out, end, header + 64, NA_PLUGIN_BUF_SEND, false);
    for (uint32_t i = 0; i < times; i++) {
        conf_require(conf_recv_unexpected(end, me, recv, &in, in.size) == NA_PLUGIN_SUCCESS,
                     "a receive was refused");
        conf_fill(out.data + header, 64, i + me);
        conf_require(conf_send(end, me, send, &out, out.size, end->self, (me + 1) % THREADS, me,
                               false) == NA_PLUGIN_SUCCESS,
                     "a send was refused");
        wait_alone(me, recv, "a receive");
        wait_alone(me, send, "a send");
        conf_require(recv->tag == (me + THREADS - 1) % THREADS &&
                         conf_is_filled(in.data + header, 64, i + recv->tag) < 0,
                     "context %u got a message with tag %u or with other content", me, recv->tag);
        conf_addr_free(end, recv->source);
    }
    conf_buffer_put(&in);
    conf_buffer_put(&out);
    return arg;
}

static void addresses(void)
{
    pthread_t threads[THREADS];

    times = conf_settings.fast ? 300 : 10000;
    conf_traffic_open(&shared, CONF_PEER_ECHO, 8);
    start(address_user, threads);
    for (uint32_t i = 0; atomic_load(&running) > 0; i++)
        conf_traffic_echo(&shared, 64, i % 250);
    join(threads);
    conf_traffic_echo(&shared, 64, 1);
    conf_traffic_close(&shared);
}

static void *address_user(void *arg)
{
    char text[CONF_ADDRESS_SIZE];

    for (uint32_t i = 0; i < times; i++) {
        struct na_plugin_addr *found = conf_lookup(end, shared.peer.address), *copy = NULL;

        conf_require(conf_plugin.table.addr_dup(end->na_class, found, &copy) == NA_PLUGIN_SUCCESS,
                     "addr_dup failed");
        conf_require(conf_addr_same(end, copy, shared.peer.addr),
                     "the same string gives two endpoints");
        conf_addr_free(end, found);
        conf_addr_string(end, copy, text, sizeof(text));
        conf_require(strcmp(text, shared.peer.address) == 0, "the address became %.200s", text);
        conf_addr_free(end, copy);
    }
    (void) atomic_fetch_sub(&running, 1);
    return arg;
}

static void handles(void)
{
    pthread_t threads[THREADS];

    times = conf_settings.fast ? 300 : 5000;
    conf_load();
    conf_exchange_require_rma();
    conf_open(end, NULL);
    start(handle_user, threads);
    while (atomic_load(&running) > 0)
        conf_progress();
    join(threads);
    conf_close(end);
}

static void *handle_user(void *arg)
{
    uint8_t packed[CONF_HANDLE_SIZE];

    for (uint32_t i = 0; i < times; i++) {
        struct conf_memory memory;
        uint64_t size;

        conf_memory_open(&memory, end, 4096, 1, NA_PLUGIN_MEM_READ);
        size = conf_memory_serialize(&memory, packed, sizeof(packed));
        conf_memory_forget(end, conf_memory_deserialize(end, packed, size));
        conf_memory_close(&memory);
    }
    (void) atomic_fetch_sub(&running, 1);
    return arg;
}

static void start(void *(*function)(void *), pthread_t *threads)
{
    atomic_store(&next_thread, 0);
    atomic_store(&running, THREADS);
    for (uint32_t i = 0; i < THREADS; i++)
        conf_require(pthread_create(&threads[i], NULL, function, NULL) == 0, "no thread");
}

static void join(pthread_t *threads)
{
    for (uint32_t i = 0; i < THREADS; i++)
        (void) pthread_join(threads[i], NULL);
}

/* Waits while polling its own context only. */
static void wait_alone(uint32_t id, const struct conf_op *op, const char *what)
{
    const uint64_t until = conf_now_ms() + 2 * CONF_WAIT_MS;

    for (uint64_t turn = 1; !conf_op_is_done(op); turn++) {
        uint32_t count = 0;

        (void) conf_poll(end, id, &count);
        if (turn % 64 != 0)
            continue;
        conf_require(conf_now_ms() < until, "%s was not completed in %u ms", what,
                     2 * CONF_WAIT_MS);
        (void) sched_yield();
    }
    conf_require(op->status == NA_PLUGIN_SUCCESS, "%s ended with %s", what,
                 conf_status_name(op->status));
}
