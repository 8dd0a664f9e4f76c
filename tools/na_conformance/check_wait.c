/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of progress and sleep. */

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/tool_clock.h"
#include "na_conformance/check.h"
#include "na_conformance/exchange.h"
#include "na_conformance/traffic.h"

#define SLEEP_MS 5000 /* so long that a missing wake-up is noticed */
#define SOON_MS  2500u
#define POLLS    101 /* number of polls whose durations are compared */

static void count(void);
static void idle(void);
static void queued(void);
static void outstanding(void);
static void polls_require_short(const struct conf_end *end, const char *what);
static int compare_times(const void *a, const void *b);
static void timeout(void);
static void wake(void);
static void *wake_later(void *arg);
static void message(void);
static void descriptor(void);
static void quiet(void);
static void thread(void);
static void *send_later(void *arg);
static void thread_receive(void);
static void *receive_later(void *arg);
static void forward(void);
static void thread_transfer(void);
static void *transfer_later(void *arg);
static void transfer(void);
static void busy(void);
static void sleeper(void);
static bool has_descriptor(const struct conf_end *end);
static unsigned int sleep_until(struct conf_end *end, const struct conf_op *op, int also);
static void send_after(struct conf_traffic *traffic, uint32_t ms);

const struct conf_check conf_checks_wait[] = {
    {801, "wait.count", "poll adds what it completed to the count, and nothing else", count, 0},
    {802, "wait.idle", "A poll with nothing to do returns at once", idle, 0},
    {803, "wait.timeout", "poll_wait with nothing to do is a TIMEOUT after the time, not before",
     timeout, 0},
    {804, "wait.wake", "wake ends a poll_wait of another thread", wake, 0},
    {805, "wait.message", "A message ends a poll_wait", message, 0},
    {806, "wait.descriptor", "A message makes the descriptor readable for who sleeps on it",
     descriptor, 0},
    {807, "wait.quiet", "The descriptor is not readable for nothing", quiet, 0},
    {808, "wait.thread", "What another thread starts wakes who sleeps on the descriptor", thread,
     0},
    {809, "wait.transfer", "Every step of a transfer wakes who sleeps on the descriptor", transfer,
     0},
    {810, "wait.busy", "In busy mode there is no descriptor, and everything works", busy, 0},
    {811, "wait.sleeper", "A peer that sleeps is woken by a message", sleeper, 0},
    {812, "wait.thread.transfer",
     "A transfer that another thread starts goes on although all others sleep", thread_transfer, 0},
    {813, "wait.queued", "A poll while sends wait for their peer returns at once", queued, 0},
    {814, "wait.thread.receive",
     "A receive that another thread posts gets a message that waits although all others sleep",
     thread_receive, 0},
    {815, "wait.forward", "Who says that it progresses without being polled does", forward, 0},
    {816, "wait.outstanding",
     "A poll while transfers and receives wait for their peer returns at once", outstanding, 0},
    {0, NULL, NULL, NULL, 0},
};

/* All receives are posted before, so that only polls complete them. */
static void count(void)
{
    const uint32_t messages = 40;
    uint64_t completions, polled;
    struct conf_traffic traffic;
    uint32_t counted = 5;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 4);
    conf_progress_ms(50);
    (void) conf_poll(&traffic.end, 0, &counted);
    conf_require(counted == 5, "an idle poll changed the count from 5 to %u", counted);
    conf_traffic_receive(&traffic, messages);
    (void) conf_poll(&traffic.end, 0, &counted);
    completions = conf_host_completions();
    polled = conf_polled();
    conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end, CONF_PEER_UNEXPECTED, messages, 64,
                   0);
    for (uint32_t i = 0; i < messages; i++)
        conf_wait_ok(traffic.receives[i], "an unexpected receive");
    conf_progress_ms(20);
    completions = conf_host_completions() - completions;
    polled = conf_polled() - polled;
    conf_require(polled <= completions, "%llu operations were completed, polls have counted %llu",
                 (unsigned long long) completions, (unsigned long long) polled);
    conf_require(polled == completions ||
                     (traffic.end.info.capabilities & NA_PLUGIN_CAP_NO_THREADS) == 0,
                 "polls have completed %llu operations, and counted %llu",
                 (unsigned long long) completions, (unsigned long long) polled);
    conf_traffic_close(&traffic);
}

static void idle(void)
{
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 4);
    conf_traffic_echo(&traffic, 10, 1);
    conf_traffic_receive(&traffic, 8);
    conf_progress_ms(50);
    polls_require_short(&traffic.end, "idle polls");
    conf_traffic_close(&traffic);
}

/* The peer is stopped, so sends that the fabric does not take wait in the plugin. */
static void queued(void)
{
    struct conf_traffic traffic;
    uint64_t header;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 8);
    conf_traffic_number(&traffic, 0, 100, 1);
    conf_peer_expect_count(&traffic.peer, 1);
    conf_peer_tell(&traffic.peer, CONF_PEER_LISTEN, CONF_PEER_COUNT, 8);
    conf_peer_pause(&traffic.peer, true);
    header = conf_header(&traffic.end, false);
    for (uint64_t i = 0; i < CONF_TRAFFIC_WINDOW; i++) {
        traffic.sends[i] = conf_op_new(&traffic.end);
        conf_buffer_get(&traffic.out[i], &traffic.end, header + 200, NA_PLUGIN_BUF_SEND, false);
        memcpy(traffic.out[i].data + header, &i, sizeof(i));
        conf_fill(traffic.out[i].data + header + sizeof(i), 200 - sizeof(i), i);
        conf_must_send(&traffic.end, 0, traffic.sends[i], &traffic.out[i], header + 200,
                       traffic.peer.addr, 0, 1, false);
    }
    polls_require_short(&traffic.end, "polls while sends wait");
    conf_peer_pause(&traffic.peer, false);
    for (uint32_t i = 0; i < CONF_TRAFFIC_WINDOW; i++)
        conf_wait_ok(traffic.sends[i], "a send to a process that stood still");
    conf_traffic_close(&traffic);
}

/* The peer is stopped, so no transfer can complete unless transfers are native. */
static void outstanding(void)
{
    struct conf_buffer buffers[2];
    struct conf_exchange exchange;
    struct conf_op *ops[4];
    uint64_t length;

    conf_exchange_open(&exchange, 4u << 20, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    conf_exchange_get(&exchange, 0, 0, 1000, 1);
    for (int i = 0; i < 4; i++)
        ops[i] = conf_op_new(&exchange.end);
    for (int expected = 0; expected < 2; expected++)
        conf_buffer_get(&buffers[expected], &exchange.end,
                        conf_max_message(&exchange.end, expected != 0), NA_PLUGIN_BUF_RECV,
                        expected != 0);
    conf_must_recv(&exchange.end, 0, ops[2], &buffers[0]);
    conf_must_recv_expected(&exchange.end, 0, ops[3], &buffers[1], exchange.peer.addr, 0, 1);
    polls_require_short(&exchange.end, "polls while receives are posted");
    conf_peer_pause(&exchange.peer, true);
    length = conf_transfer_most(&exchange.end, exchange.size / 2);
    for (uint32_t put = 0; put < 2; put++)
        conf_require(conf_transfer(&exchange.end, 0, ops[put], put != 0, &exchange.local,
                                   put * exchange.size / 2, exchange.remote,
                                   put * exchange.size / 2, length, exchange.peer.addr,
                                   0) == NA_PLUGIN_SUCCESS,
                     "a transfer was refused");
    polls_require_short(&exchange.end, "polls while transfers wait");
    conf_peer_pause(&exchange.peer, false);
    for (int i = 0; i < 4; i++) {
        if (i >= 2)
            (void) conf_cancel(&exchange.end, 0, ops[i]);
        conf_wait(ops[i],
                  i < 2 ? "a transfer with a process that stood still" : "a cancelled receive");
        conf_require(i >= 2 || ops[i]->status == NA_PLUGIN_SUCCESS,
                     "a transfer with a process that stood still ended with %s",
                     conf_status_name(ops[i]->status));
    }
    conf_buffer_put(&buffers[0]);
    conf_buffer_put(&buffers[1]);
    conf_exchange_close(&exchange);
}

/* Compares the median of the time that polls spend without using the processor. */
static void polls_require_short(const struct conf_end *end, const char *what)
{
    uint64_t slept[POLLS];
    uint32_t counted = 0;

    for (int i = 0; i < POLLS; i++) {
        struct timespec cpu[2];
        uint64_t from = tool_clock_ns(), used;

        (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu[0]);
        (void) conf_poll(end, 0, &counted);
        (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu[1]);
        used = (uint64_t) (cpu[1].tv_sec - cpu[0].tv_sec) * TOOL_NS_PER_S +
               (uint64_t) cpu[1].tv_nsec - (uint64_t) cpu[0].tv_nsec;
        slept[i] = tool_clock_ns() - from;
        slept[i] = slept[i] > used ? slept[i] - used : 0;
    }
    qsort(slept, POLLS, sizeof(slept[0]), compare_times);
    conf_require(slept[POLLS / 2] < 1000000, "half of all %s sleep %llu us or longer", what,
                 (unsigned long long) slept[POLLS / 2] / 1000);
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t *first = a, *second = b;

    return *first < *second ? -1 : *first > *second;
}

static void timeout(void)
{
    static const uint32_t times[] = {0, 1, 100};
    struct conf_end end;

    conf_load();
    if (conf_plugin.table.poll_wait == NULL)
        conf_skip("there is no poll_wait");
    conf_open(&end, NULL);
    conf_progress_ms(50);
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        uint64_t from = tool_clock_ns(), took;
        uint32_t counted = 0;
        int32_t status = conf_plugin.table.poll_wait(end.contexts[0], times[i], &counted);

        took = (tool_clock_ns() - from) / 1000;
        conf_require(status == NA_PLUGIN_TIMEOUT && counted == 0,
                     "%u ms ended with %s and %u completions", times[i], conf_status_name(status),
                     counted);
        conf_require(took + 1000 >= times[i] * 1000 && took < (times[i] + SOON_MS) * 1000,
                     "%u ms took %llu us", times[i], (unsigned long long) took);
    }
    conf_close(&end);
}

static void wake(void)
{
    struct conf_end end;
    pthread_t waker;
    uint32_t counted = 0;
    uint64_t from;

    conf_load();
    if (conf_plugin.table.poll_wait == NULL || conf_plugin.table.wake == NULL)
        conf_skip("there is no poll_wait or no wake");
    conf_open(&end, NULL);
    for (int i = 0; i < 3; i++) {
        from = conf_now_ms();
        conf_require(pthread_create(&waker, NULL, wake_later, &end) == 0, "no thread");
        (void) conf_plugin.table.poll_wait(end.contexts[0], SLEEP_MS, &counted);
        conf_require(conf_now_ms() - from < SOON_MS, "poll_wait went on for %llu ms",
                     (unsigned long long) (conf_now_ms() - from));
        (void) pthread_join(waker, NULL);
    }
    conf_close(&end);
}

static void *wake_later(void *arg)
{
    struct conf_end *end = arg;

    tool_clock_sleep_ms(100);
    conf_plugin.table.wake(end->contexts[0]);
    return NULL;
}

static void message(void)
{
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 4);
    if (conf_plugin.table.poll_wait == NULL)
        conf_traffic_skip(&traffic, "there is no poll_wait");
    conf_traffic_echo(&traffic, 10, 1);
    conf_traffic_receive(&traffic, 4);
    for (int i = 0; i < 3; i++) {
        struct conf_peer_reply reply;
        uint64_t from = conf_now_ms();
        uint32_t counted = 0;

        send_after(&traffic, 100);
        while (!conf_traffic_first_is_done(&traffic) && conf_now_ms() - from < 2 * SLEEP_MS)
            (void) conf_plugin.table.poll_wait(traffic.end.contexts[0], SLEEP_MS, &counted);
        conf_require(conf_now_ms() - from < SOON_MS, "a message was noticed after %llu ms",
                     (unsigned long long) (conf_now_ms() - from));
        conf_traffic_take(&traffic, 0, 64, false);
        conf_peer_finish(&traffic.peer, &reply);
    }
    conf_traffic_close(&traffic);
}

static void descriptor(void)
{
    struct conf_traffic traffic;
    unsigned int sleeps = 0;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 4);
    if (!has_descriptor(&traffic.end))
        conf_traffic_skip(&traffic, "there is no descriptor");
    conf_traffic_echo(&traffic, 10, 1);
    conf_traffic_receive(&traffic, 4);
    for (int i = 0; i < 5; i++) {
        struct conf_peer_reply reply;
        uint64_t from = conf_now_ms();

        send_after(&traffic, 100);
        sleeps += sleep_until(&traffic.end, traffic.receives[traffic.first], -1);
        conf_require(conf_now_ms() - from < SOON_MS, "a message was noticed after %llu ms",
                     (unsigned long long) (conf_now_ms() - from));
        conf_traffic_take(&traffic, 0, 64, false);
        conf_peer_finish(&traffic.peer, &reply);
    }
    conf_require(sleeps > 0, "poll_try_wait never says that it is safe to sleep");
    conf_traffic_close(&traffic);
}

/* A known peer and posted receives, without traffic. */
static void quiet(void)
{
    struct conf_traffic traffic;
    struct pollfd readable;
    unsigned int wakeups = 0;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 4);
    if (!has_descriptor(&traffic.end))
        conf_traffic_skip(&traffic, "there is no descriptor");
    conf_traffic_echo(&traffic, 10, 1);
    conf_traffic_receive(&traffic, 4);
    conf_progress_ms(100);
    readable.fd = conf_plugin.table.poll_get_fd(traffic.end.contexts[0]);
    readable.events = POLLIN;
    for (uint64_t until = conf_now_ms() + 500; conf_now_ms() < until; wakeups++) {
        conf_progress();
        if (conf_plugin.table.poll_try_wait == NULL ||
            conf_plugin.table.poll_try_wait(traffic.end.contexts[0]) != 0)
            (void) poll(&readable, 1, 500);
    }
    conf_require(wakeups <= 60, "%u wake-ups in half a second of silence", wakeups);
    conf_note("%u wake-ups in half a second of silence", wakeups);
    conf_traffic_close(&traffic);
}

struct starter {
    struct conf_end *end;
    struct conf_op *op;
    struct conf_buffer out; /* or a receive buffer */
};

/* A transfer that another thread starts. */
struct starting {
    struct conf_exchange *exchange;
    struct conf_op *op;
    bool put;
};

static void thread(void)
{
    struct starter starter;
    struct conf_buffer in;
    struct conf_end end;
    struct conf_op *op;
    int notify = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    conf_load();
    conf_open(&end, NULL);
    if (!has_descriptor(&end)) {
        conf_close(&end);
        conf_skip("there is no descriptor");
    }
    conf_host_set_notify(notify); /* the core is notified of completions in the other thread */
    starter.end = &end;
    starter.op = conf_op_new(&end);
    op = conf_op_new(&end);
    conf_buffer_get(&starter.out, &end, conf_header(&end, false) + 64, NA_PLUGIN_BUF_SEND, false);
    conf_buffer_get(&in, &end, conf_header(&end, false) + 64, NA_PLUGIN_BUF_RECV, false);
    for (int i = 0; i < 3; i++) {
        uint64_t from = conf_now_ms();
        pthread_t later;

        conf_must_recv(&end, 0, op, &in);
        conf_require(pthread_create(&later, NULL, send_later, &starter) == 0, "no thread");
        (void) sleep_until(&end, op, notify);
        conf_require(conf_now_ms() - from < SOON_MS, "it was noticed after %llu ms",
                     (unsigned long long) (conf_now_ms() - from));
        (void) pthread_join(later, NULL);
        conf_wait_ok(starter.op, "a send of another thread");
        conf_addr_free(&end, op->source);
    }
    conf_stop(&end);
    conf_buffer_put(&starter.out);
    conf_buffer_put(&in);
    conf_destroy(&end);
    (void) close(notify);
}

static void *send_later(void *arg)
{
    struct starter *starter = arg;

    tool_clock_sleep_ms(100);
    (void) conf_send(starter->end, 0, starter->op, &starter->out, starter->out.size,
                     starter->end->self, 0, 1, false);
    return NULL;
}

/* The message has arrived before its receive is posted. */
static void thread_receive(void)
{
    struct starter starter;
    struct conf_traffic traffic;
    int notify = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 4);
    if (!has_descriptor(&traffic.end))
        conf_traffic_skip(&traffic, "there is no descriptor");
    conf_traffic_echo(&traffic, 10, 1);
    conf_host_set_notify(notify);
    starter.end = &traffic.end;
    conf_buffer_get(&starter.out, &traffic.end, conf_header(&traffic.end, false) + 64,
                    NA_PLUGIN_BUF_RECV, false);
    for (int i = 0; i < 3; i++) {
        uint64_t from;
        pthread_t later;

        conf_peer_send(&traffic.peer, CONF_PEER_START, &traffic.end, CONF_PEER_UNEXPECTED, 1, 64,
                       0);
        conf_progress_ms(50);
        starter.op = conf_op_new(&traffic.end);
        from = conf_now_ms();
        conf_require(pthread_create(&later, NULL, receive_later, &starter) == 0, "no thread");
        (void) sleep_until(&traffic.end, starter.op, notify);
        conf_require(conf_now_ms() - from < SOON_MS, "it was noticed after %llu ms",
                     (unsigned long long) (conf_now_ms() - from));
        (void) pthread_join(later, NULL);
        conf_addr_free(&traffic.end, starter.op->source);
    }
    conf_host_set_notify(-1);
    conf_buffer_put(&starter.out);
    conf_traffic_close(&traffic);
    (void) close(notify);
}

static void *receive_later(void *arg)
{
    struct starter *starter = arg;

    tool_clock_sleep_ms(100);
    (void) conf_recv_unexpected(starter->end, 0, starter->op, &starter->out, starter->out.size);
    return NULL;
}

/* No thread polls after the peer was told to send. */
static void forward(void)
{
    const unsigned int limit_ms = 1000 * conf_patience;
    struct conf_peer_reply reply;
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 4);
    if ((traffic.end.info.capabilities & NA_PLUGIN_CAP_FORWARD_PROG) == 0)
        conf_traffic_skip(&traffic, "it does not say so");
    conf_traffic_echo(&traffic, 10, 1);
    conf_traffic_receive(&traffic, 4);
    send_after(&traffic, 100);
    for (uint64_t until = tool_clock_ns() + limit_ms * (TOOL_NS_PER_S / 1000);
         !conf_traffic_first_is_done(&traffic) && tool_clock_ns() < until;)
        tool_clock_sleep_ms(1);
    conf_require(conf_traffic_first_is_done(&traffic),
                 "without a poll a message has not arrived in %u ms", limit_ms);
    conf_traffic_take(&traffic, 0, 64, false);
    conf_peer_finish(&traffic.peer, &reply);
    conf_traffic_close(&traffic);
}

/* A transfer is not complete when it was started: a sleeping thread must be woken to continue
 * it. */
static void thread_transfer(void)
{
    struct conf_exchange exchange;
    struct starting starting;
    int notify = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    conf_exchange_open(&exchange, 4u << 20, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    if (!has_descriptor(&exchange.end))
        conf_exchange_skip(&exchange, "there is no descriptor");
    conf_exchange_get(&exchange, 0, 0, exchange.size, 1);
    conf_host_set_notify(notify);
    starting.exchange = &exchange;
    for (int i = 0; i < 4; i++) {
        uint64_t from = conf_now_ms();
        pthread_t later;

        starting.op = conf_op_new(&exchange.end);
        starting.put = i % 2 == 0;
        conf_require(pthread_create(&later, NULL, transfer_later, &starting) == 0, "no thread");
        (void) sleep_until(&exchange.end, starting.op, notify);
        conf_require(conf_now_ms() - from < SOON_MS, "a %s of another thread took %llu ms",
                     starting.put ? "put" : "get", (unsigned long long) (conf_now_ms() - from));
        (void) pthread_join(later, NULL);
    }
    conf_host_set_notify(-1);
    conf_exchange_close(&exchange);
    (void) close(notify);
}

static void *transfer_later(void *arg)
{
    const struct starting *starting = arg;
    const struct conf_exchange *exchange = starting->exchange;

    tool_clock_sleep_ms(100);
    (void) conf_transfer(&starting->exchange->end, 0, starting->op, starting->put, &exchange->local,
                         0, exchange->remote, 0, conf_transfer_most(&exchange->end, exchange->size),
                         exchange->peer.addr, 0);
    return NULL;
}

/* Both sides sleep. */
static void transfer(void)
{
    struct conf_exchange exchange;

    conf_exchange_open(&exchange, 4u << 20, 1, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    if (!has_descriptor(&exchange.end))
        conf_exchange_skip(&exchange, "there is no descriptor");
    conf_exchange_get(&exchange, 0, 0, exchange.size, 1);
    conf_peer_tell(&exchange.peer, CONF_PEER_SLEEP, CONF_PEER_ECHO, 1);
    for (int i = 0; i < 6; i++) {
        struct conf_op *op = conf_op_new(&exchange.end);
        uint64_t from = conf_now_ms();

        tool_clock_sleep_ms(20);
        conf_require(conf_transfer(&exchange.end, 0, op, i % 2 != 0, &exchange.local, 0,
                                   exchange.remote, 0,
                                   conf_transfer_most(&exchange.end, exchange.size),
                                   exchange.peer.addr, 0) == NA_PLUGIN_SUCCESS,
                     "a transfer was refused");
        (void) sleep_until(&exchange.end, op, -1);
        conf_require(conf_now_ms() - from < SOON_MS, "a %s of 4 MiB took %llu ms",
                     i % 2 ? "put" : "get", (unsigned long long) (conf_now_ms() - from));
    }
    conf_exchange_close(&exchange);
}

static void busy(void)
{
    const struct conf_open how = {.progress_mode = NA_PLUGIN_PROGRESS_BUSY};
    const struct conf_peer_options options = {.contexts = 1,
                                              .progress_mode = NA_PLUGIN_PROGRESS_BUSY};
    struct conf_traffic traffic;
    int32_t fd;

    conf_load();
    memset(&traffic, 0, sizeof(traffic));
    traffic.buffer_flags = NA_PLUGIN_BUF_SEND | NA_PLUGIN_BUF_RECV;
    conf_open(&traffic.end, &how);
    conf_peer_start(&traffic.peer, &options);
    conf_peer_meet(&traffic.peer, &traffic.end);
    conf_peer_tell(&traffic.peer, CONF_PEER_LISTEN, CONF_PEER_ECHO, 8);
    traffic.echo_op = conf_op_new(&traffic.end);
    fd = conf_plugin.table.poll_get_fd != NULL
             ? conf_plugin.table.poll_get_fd(traffic.end.contexts[0])
             : -1;
    conf_require(fd < 0, "in busy mode there is the descriptor %d", fd);
    conf_require((traffic.end.info.capabilities & NA_PLUGIN_CAP_WAIT_FD) == 0,
                 "in busy mode the class says that it waits by descriptor");
    for (uint32_t i = 0; i < 200; i++)
        conf_traffic_echo(&traffic, 100, i);
    conf_traffic_close(&traffic);
}

/* Without a wake-up the peer would sleep for half a second. */
static void sleeper(void)
{
    struct conf_traffic traffic;
    uint64_t longest = 0;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    conf_traffic_echo(&traffic, 10, 1);
    if (!conf_can_sleep(&traffic.end))
        conf_traffic_skip(&traffic, "there is nothing to sleep in or on");
    conf_peer_tell(&traffic.peer, CONF_PEER_SLEEP, CONF_PEER_ECHO, 1);
    for (uint32_t i = 0; i < 50; i++) {
        uint64_t from;

        tool_clock_sleep_ms(2);
        from = conf_now_ms();
        conf_traffic_echo(&traffic, 64, i);
        longest = conf_now_ms() - from > longest ? conf_now_ms() - from : longest;
    }
    conf_require(longest < 400, "the longest of 50 answers took %llu ms",
                 (unsigned long long) longest);
    conf_traffic_close(&traffic);
}

static bool has_descriptor(const struct conf_end *end)
{
    return conf_plugin.table.poll_get_fd != NULL &&
           conf_plugin.table.poll_get_fd(end->contexts[0]) >= 0;
}

/* Polls only after the descriptor or the core's notification woke it. Returns how often it
 * slept. */
static unsigned int sleep_until(struct conf_end *end, const struct conf_op *op, int also)
{
    struct pollfd readable[2] = {
        {.fd = conf_plugin.table.poll_get_fd(end->contexts[0]), .events = POLLIN},
        {.fd = also, .events = POLLIN}};
    const uint64_t until = conf_now_ms() + 2 * SLEEP_MS;
    unsigned int sleeps = 0;

    while (!conf_op_is_done(op) && conf_now_ms() < until) {
        uint64_t value;

        conf_progress();
        if (also >= 0 && read(also, &value, sizeof(value)) > 0)
            continue;
        if (conf_op_is_done(op) || (conf_plugin.table.poll_try_wait != NULL &&
                                    conf_plugin.table.poll_try_wait(end->contexts[0]) == 0))
            continue;
        (void) poll(readable, 2, SLEEP_MS);
        sleeps++;
    }
    conf_wait_ok(op, "what a sleeper waited for");
    return sleeps;
}

/* Has the peer send after `ms`; conf_peer_finish() must be called. */
static void send_after(struct conf_traffic *traffic, uint32_t ms)
{
    struct conf_peer_command command;

    conf_peer_tell(&traffic->peer, CONF_PEER_NAP, CONF_PEER_ECHO, ms);
    conf_peer_sending(&command, CONF_PEER_SEND, &traffic->end, CONF_PEER_UNEXPECTED, 1, 64, 0);
    conf_peer_post(&traffic->peer, &command);
}
