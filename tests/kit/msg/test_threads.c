/* SPDX-License-Identifier: BSD-3-Clause */
/* Several threads on two endpoints with several contexts, some of them asleep. */

#include "msg_sim.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define CONTEXTS 2u
#define ROUNDS   1500u

struct server {
    struct na_plugin_class *node;
    struct na_plugin_context *context;
    uint32_t id;
    uint32_t count;
};

struct client {
    struct na_plugin_class *node;
    struct na_plugin_context *context;
    struct na_plugin_addr *addr;
    uint32_t id;     /* of the context */
    uint32_t thread; /* makes the tags of each thread unique */
    uint32_t cancelled;
};

static _Atomic bool is_over;

/* Polls for a moment, then sleeps; other threads share the context. */
static void progress(struct na_plugin_context *context)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < 50 && count == 0; i++)
        (void) kit_msg_poll(context, &count);
    if (count == 0 && kit_msg_poll_try_wait(context)) {
        struct pollfd fd = {.fd = kit_msg_poll_get_fd(context), .events = POLLIN};

        (void) poll(&fd, 1, 2);
    }
}

/* Answers each request with the same data. */
static void *serve(void *arg)
{
    struct server *server = arg;
    struct sim_op receive, answer;
    uint32_t value;

    while (!is_over) {
        memset(&receive, 0, sizeof(receive));
        memset(&answer, 0, sizeof(answer));
        assert_int_equal(kit_msg_recv_unexpected(server->context, &receive, &value, 4, NULL), 0);
        while (receive.completions == 0 && !is_over)
            progress(server->context);
        if (receive.completions == 0)
            (void) kit_msg_cancel(server->context, &receive);
        while (receive.completions == 0)
            progress(server->context);
        if (receive.status != 0)
            break;
        assert_int_equal(kit_msg_send_expected(server->context, &answer, &value, 4, NULL,
                                               receive.source, receive.tag >> 24,
                                               receive.tag & 0xffffff),
                         0);
        while (answer.completions == 0)
            progress(server->context);
        kit_msg_addr_free(server->node, receive.source);
        server->count++;
    }
    return NULL;
}

static void *request(void *arg)
{
    struct client *client = arg;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t tag = (client->thread * ROUNDS + i) & 0xffffff, value = tag, result = 0;
        struct sim_op send = {0}, expected = {0};

        assert_int_equal(kit_msg_recv_expected(client->context, &expected, &result, 4, NULL,
                                               client->addr, i % CONTEXTS, tag),
                         0);
        assert_int_equal(kit_msg_send_unexpected(client->context, &send, &value, 4, NULL,
                                                 client->addr, i % CONTEXTS,
                                                 tag | client->id << 24),
                         0);
        if (i % 16 == 0)
            (void) kit_msg_cancel(client->context, &expected);
        if (i % 64 == 0)
            kit_msg_addr_free(client->node, sim_lookup(client->node, "b"));
        while (expected.completions == 0 || send.completions == 0)
            progress(client->context);
        assert_int_equal(expected.completions, 1);
        if (expected.status == NA_PLUGIN_CANCELED)
            client->cancelled++;
        else
            assert_int_equal(result, tag);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct sim_net net;
    struct na_plugin_init init = sim_init();
    struct na_plugin_class *a, *b;
    struct na_plugin_context *ca[CONTEXTS], *cb[CONTEXTS];
    struct na_plugin_addr *addr;
    struct server servers[CONTEXTS];
    struct client clients[2 * CONTEXTS];
    pthread_t threads[3 * CONTEXTS];
    uint32_t served = 0;

    (void) state;
    sim_net_setup(&net);
    init.max_contexts = CONTEXTS;
    a = sim_open(&net, "a", &init);
    b = sim_open(&net, "b", &init);
    addr = sim_lookup(a, "b");
    for (uint32_t i = 0; i < CONTEXTS; i++) {
        ca[i] = sim_context(a, i);
        cb[i] = sim_context(b, i);
    }
    a->delay = 1;
    for (uint32_t i = 0; i < CONTEXTS; i++) {
        servers[i] = (struct server){b, cb[i], i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, serve, &servers[i]), 0);
    }
    for (uint32_t i = 0; i < 2 * CONTEXTS; i++) {
        clients[i] = (struct client){a, ca[i / 2], addr, i / 2, i, 0};
        assert_int_equal(pthread_create(&threads[CONTEXTS + i], NULL, request, &clients[i]), 0);
    }
    for (uint32_t i = 0; i < 2 * CONTEXTS; i++)
        assert_int_equal(pthread_join(threads[CONTEXTS + i], NULL), 0);
    sim_poll(ca[0], NULL, 10);
    is_over = true;
    for (uint32_t i = 0; i < CONTEXTS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        served += servers[i].count;
    }
    assert_in_range(served, 2 * CONTEXTS * ROUNDS - 8, 2 * CONTEXTS * ROUNDS);
    kit_msg_addr_free(a, addr);
    assert_int_equal(kit_msg_context_stop(ca[1]), 0);
    assert_int_equal(kit_msg_context_destroy(ca[1]), 0);
    assert_int_equal(kit_msg_context_stop(cb[1]), 0);
    assert_int_equal(kit_msg_context_destroy(cb[1]), 0);
    sim_close(a, ca[0]);
    sim_close(b, cb[0]);
    assert_int_equal(sim_allocations, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
