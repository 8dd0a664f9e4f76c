/* SPDX-License-Identifier: BSD-3-Clause */
/* Many threads on one context, and on one address table. */

#include "transport_test.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define THREADS 8
/* The sockets provider moves data in a thread of its own, which competes with the eight here. */
#define CALLS (TEST_SANITIZED || strstr(test_init_string(), "sockets") != NULL ? 300u : 1000u)

struct worker {
    pthread_t thread;
    struct end *end;
    na_addr_t *peer;
    const char *address;
    unsigned int index;
    unsigned int errors;
};

static void run(void *(*function)(void *), struct end *end, na_addr_t *peer, const char *address)
{
    struct worker workers[THREADS];

    for (unsigned int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.end = end, .peer = peer, .address = address, .index = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, function, &workers[i]), 0);
    }
    for (unsigned int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].errors, 0);
    }
}

static void *call_many(void *arg)
{
    struct worker *worker = arg;
    uint8_t request[600] = {0}, reply[600];

    for (uint32_t i = 0; i < CALLS; i++) {
        size_t size = 24 + (i * 7 + worker->index * 13) % 500, got = sizeof(reply);

        memset(request + 4, (int) (worker->index * 16 + i % 16), size - 4);
        if (end_call(worker->end, worker->peer, request, size, reply, &got) != NA_SUCCESS ||
            got != size || memcmp(request, reply, size) != 0)
            worker->errors++;
    }
    return NULL;
}

static void eight_threads_share_a_context(void **state)
{
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    run(call_many, &end, peer, NULL);
    pair_close(&child, &end, peer);
}

/* Sends to the own endpoint and receives from it. */
static void *flood_self(void *arg)
{
    struct worker *worker = arg;
    na_op_id_t *send_op = NA_Op_create(worker->end->na_class, NA_OP_SINGLE);
    na_op_id_t *recv_op = NA_Op_create(worker->end->na_class, NA_OP_SINGLE);
    uint8_t out[300], in[300];

    for (uint32_t i = 0; i < CALLS; i++) {
        struct event sent = {0}, got = {0};

        memset(out, (int) i, sizeof(out));
        if (end_receive_unexpected(worker->end, &got, in, sizeof(in), recv_op) != NA_SUCCESS ||
            NA_Msg_send_unexpected(worker->end->na_class, worker->end->context, event_callback,
                                   &sent, out, sizeof(out), NULL, worker->peer, 0, i,
                                   send_op) != NA_SUCCESS ||
            !event_wait(worker->end, &sent, TEST_WAIT_MS) ||
            !event_wait(worker->end, &got, TEST_WAIT_MS) || sent.ret != NA_SUCCESS ||
            got.ret != NA_SUCCESS || in[0] != (got.tag & 0xff) || in[299] != in[0]) {
            worker->errors++;
            break;
        }
        NA_Addr_free(worker->end->na_class, got.source);
    }
    NA_Op_destroy(worker->end->na_class, send_op);
    NA_Op_destroy(worker->end->na_class, recv_op);
    return NULL;
}

static void eight_threads_flood_their_own_endpoint(void **state)
{
    struct end end;
    na_addr_t *self;

    (void) state;
    end_open(&end, NULL, NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    run(flood_self, &end, self, NULL);
    NA_Addr_free(end.na_class, self);
    end_close(&end);
}

/* Looks up, compares, prints and frees addresses, and sends a request now and then. */
static void *handle_addresses(void *arg)
{
    struct worker *worker = arg;

    for (uint32_t i = 0; i < CALLS / 4; i++) {
        na_class_t *na_class = worker->end->na_class;
        na_addr_t *found = NULL, *copy = NULL;
        char string[512];
        size_t size = sizeof(string);

        if (NA_Addr_lookup(na_class, worker->address, &found) != NA_SUCCESS ||
            NA_Addr_dup(na_class, found, &copy) != NA_SUCCESS ||
            !NA_Addr_cmp(na_class, copy, worker->peer) ||
            NA_Addr_to_string(na_class, string, &size, copy) != NA_SUCCESS ||
            strcmp(string, worker->address) != 0)
            worker->errors++;
        NA_Addr_free(na_class, found);
        if (i % 16 == worker->index) {
            struct peer_request reply;

            size = sizeof(reply);
            if (end_command(worker->end, copy, PEER_ECHO, 1, 2, 3, &reply, &size) != NA_SUCCESS)
                worker->errors++;
        }
        NA_Addr_free(na_class, copy);
    }
    return NULL;
}

static void eight_threads_handle_one_address(void **state)
{
    struct child child;
    struct end end;
    na_addr_t *peer;

    (void) state;
    pair_open(&child, &end, &peer, "plain");
    run(handle_addresses, &end, peer, child.address);
    end_check_peer(&end, peer);
    pair_close(&child, &end, peer);
}

/* Registers memory and gets it through the endpoint's own address. */
static void *register_and_get(void *arg)
{
    struct worker *worker = arg;
    na_class_t *na_class = worker->end->na_class;
    na_op_id_t *op = NA_Op_create(na_class, NA_OP_SINGLE);
    uint8_t *from = malloc(20000), *to = malloc(20000), packed[1024];

    for (uint32_t i = 0; i < 50 && worker->errors == 0; i++) {
        na_mem_handle_t *from_mem = NULL, *to_mem = NULL, *remote = NULL;
        struct event event = {0};
        size_t size = 0;

        memset(from, (int) (worker->index + i), 20000);
        if (NA_Mem_handle_create(na_class, from, 20000, NA_MEM_READ_ONLY, &from_mem) !=
                NA_SUCCESS ||
            NA_Mem_register(na_class, from_mem, NA_MEM_TYPE_HOST, 0) != NA_SUCCESS ||
            NA_Mem_handle_create(na_class, to, 20000, NA_MEM_READWRITE, &to_mem) != NA_SUCCESS ||
            NA_Mem_register(na_class, to_mem, NA_MEM_TYPE_HOST, 0) != NA_SUCCESS ||
            (size = NA_Mem_handle_get_serialize_size(na_class, from_mem)) > sizeof(packed) ||
            NA_Mem_handle_serialize(na_class, packed, size, from_mem) != NA_SUCCESS ||
            NA_Mem_handle_deserialize(na_class, &remote, packed, size) != NA_SUCCESS ||
            NA_Get(na_class, worker->end->context, event_callback, &event, to_mem, 0, remote, 0,
                   20000, worker->peer, 0, op) != NA_SUCCESS ||
            !event_wait(worker->end, &event, TEST_WAIT_MS) || event.ret != NA_SUCCESS ||
            memcmp(from, to, 20000) != 0 || NA_Mem_deregister(na_class, to_mem) != NA_SUCCESS ||
            NA_Mem_deregister(na_class, from_mem) != NA_SUCCESS)
            worker->errors++;
        NA_Mem_handle_free(na_class, remote);
        NA_Mem_handle_free(na_class, to_mem);
        NA_Mem_handle_free(na_class, from_mem);
    }
    NA_Op_destroy(na_class, op);
    free(from);
    free(to);
    return NULL;
}

static void eight_threads_register_memory(void **state)
{
    struct end end;
    na_addr_t *self;

    (void) state;
    end_open(&end, NULL, NULL);
    assert_int_equal(NA_Addr_self(end.na_class, &self), NA_SUCCESS);
    run(register_and_get, &end, self, NULL);
    NA_Addr_free(end.na_class, self);
    end_close(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_threads_share_a_context),
        cmocka_unit_test(eight_threads_flood_their_own_endpoint),
        cmocka_unit_test(eight_threads_handle_one_address),
        cmocka_unit_test(eight_threads_register_memory),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
