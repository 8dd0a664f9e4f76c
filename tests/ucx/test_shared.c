/* SPDX-License-Identifier: BSD-3-Clause */
/* A killed process left a hole in a queue in shared memory: a probe detects that, the queue is
 * replaced, and communication continues. */

#include "ucx_side.h"

#define WAIT_NS     UINT64_C(10000000000)
#define DELIVERY_NS UINT64_C(1000000000)

/* The only two operations in flight. */
struct outcome {
    void *op;
    int32_t status;
    bool is_done;
    struct na_plugin_addr *source;
};

static struct outcome send_outcome, receive_outcome;
static struct na_host host;

static void complete(void *op, int32_t status)
{
    struct outcome *outcome = op == send_outcome.op ? &send_outcome : &receive_outcome;

    outcome->status = status;
    outcome->is_done = true;
}

static void complete_recv(void *op, int32_t status, uint64_t size, struct na_plugin_addr *source,
                          uint32_t tag)
{
    (void) size;
    (void) tag;
    complete(op, status);
    receive_outcome.source = source;
}

static void poll_both(struct side *a, struct side *b)
{
    uint32_t count = 0;

    assert_int_equal(kit_msg_poll(a->context, &count), 0);
    assert_int_equal(kit_msg_poll(b->context, &count), 0);
}

/* Sends one message that the other side receives. Returns the status. */
static int32_t send_one(struct side *from, struct side *to, struct na_plugin_addr *addr)
{
    uint64_t end = host.clock_ns() + WAIT_NS;
    char text[32] = "";

    memset(&send_outcome, 0, sizeof(send_outcome));
    memset(&receive_outcome, 0, sizeof(receive_outcome));
    send_outcome.op = host.mem_alloc(kit_msg_op_size(), kit_msg_op_align());
    receive_outcome.op = host.mem_alloc(kit_msg_op_size(), kit_msg_op_align());
    assert_int_equal(
        kit_msg_recv_unexpected(to->context, receive_outcome.op, text, sizeof(text), NULL), 0);
    assert_int_equal(
        kit_msg_send_unexpected(from->context, send_outcome.op, "hello", 6, NULL, addr, 0, 1), 0);
    while (!send_outcome.is_done && host.clock_ns() < end)
        poll_both(from, to);
    assert_true(send_outcome.is_done);
    /* A message that was sent just before the other side closed the connection may be lost. */
    end = host.clock_ns() + DELIVERY_NS;
    while (!receive_outcome.is_done && send_outcome.status == NA_PLUGIN_SUCCESS &&
           host.clock_ns() < end)
        poll_both(from, to);
    if (!receive_outcome.is_done)
        assert_int_equal(kit_msg_cancel(to->context, receive_outcome.op), 0);
    assert_true(receive_outcome.is_done);
    if (receive_outcome.status == NA_PLUGIN_SUCCESS) {
        assert_string_equal(text, "hello");
        kit_msg_addr_free(to->na_class, receive_outcome.source);
    }
    host.mem_free(send_outcome.op);
    host.mem_free(receive_outcome.op);
    return receive_outcome.status;
}

static int32_t send_until_it_works(struct side *from, struct side *to, struct na_plugin_addr *addr)
{
    int32_t ret = NA_PLUGIN_HOSTUNREACH;

    for (int i = 0; i < 5 && ret != NA_PLUGIN_SUCCESS; i++)
        ret = send_one(from, to, addr);
    return ret;
}

static void probe(struct side *side)
{
    kit_msg_lock(&side->na_class->fabric);
    ucx_worker_suspect(side->na_class->worker);
    assert_int_equal(side->na_class->probing, 1);
    kit_msg_unlock(&side->na_class->fabric);
}

static void a_queue_with_a_hole_is_replaced(void **state)
{
    struct side a, b;
    struct na_plugin_addr *to_a, *to_b;
    struct ucx_worker *worker;
    uint64_t end;

    (void) state;
    side_open(&a);
    side_open(&b);
    assert_int_equal(ucx_addr_lookup(b.na_class, a.na_class->name, &to_a), 0);
    assert_int_equal(ucx_addr_lookup(a.na_class, b.na_class->name, &to_b), 0);
    assert_int_equal(send_one(&b, &a, to_a), 0);
    assert_int_equal(send_one(&a, &b, to_b), 0);

    /* A queue without a hole is kept. */
    worker = a.na_class->worker;
    probe(&a);
    for (end = host.clock_ns() + WAIT_NS; a.na_class->probing != 0 && host.clock_ns() < end;)
        poll_both(&a, &b);
    assert_ptr_equal(a.na_class->worker, worker);
    assert_true(worker->probe_seen == worker->probe_sent);
    assert_int_equal(send_one(&b, &a, to_a), 0);

    /* The probe never arrives. */
    probe(&a);
    poll_both(&a, &b);
    assert_true(worker->is_probing);
    worker->probe_sent++;
    for (end = host.clock_ns() + WAIT_NS; a.na_class->probing != 0 && host.clock_ns() < end;)
        poll_both(&a, &b);
    assert_ptr_not_equal(a.na_class->worker, worker);
    assert_true(worker->is_retired);
    assert_int_equal(send_until_it_works(&b, &a, to_a), 0);
    assert_int_equal(send_until_it_works(&a, &b, to_b), 0);
    for (struct kit_link *node = a.na_class->links.next; node != &a.na_class->links;
         node = node->next)
        assert_ptr_equal(kit_container(node, struct ucx_link, node)->worker, a.na_class->worker);
    kit_msg_addr_free(b.na_class, to_a);
    kit_msg_addr_free(a.na_class, to_b);
    side_close(&a);
    side_close(&b);
}

static int setup(void **state)
{
    (void) state;
    host = plugin_host;
    host.op_complete = complete;
    host.op_complete_recv = complete_recv;
    kit_host = &host;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_with_a_hole_is_replaced),
    };

    return cmocka_run_group_tests(tests, setup, ucx_test_teardown);
}
