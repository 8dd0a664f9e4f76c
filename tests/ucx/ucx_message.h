/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of endpoints, driven without the core. */
#ifndef UCX_MESSAGE_H
#define UCX_MESSAGE_H

#include "ucx_side.h"

#include "msg_state.h"

#include <stdlib.h>
#include <string.h>

#define PENDING_WAITS   (-1)
#define PENDING_WAIT_NS UINT64_C(20000000000)

/* An operation that is pending or completed. */
struct pending {
    int32_t status; /* PENDING_WAITS, or the final status */
    const char *source;
    uint8_t op[4096];
};

static inline void op_complete(void *op, int32_t status)
{
    kit_container(op, struct pending, op)->status = status;
}

static inline void op_complete_recv(void *op, int32_t status, uint64_t size,
                                    struct na_plugin_addr *source, uint32_t tag)
{
    (void) size;
    (void) tag;
    kit_container(op, struct pending, op)->status = status;
    if (source != NULL)
        kit_container(op, struct pending, op)->source = ((struct kit_peer *) source)->name;
}

static inline struct pending *pending_new(void)
{
    struct pending *pending = calloc(1, sizeof(*pending));

    assert_non_null(pending);
    pending->status = PENDING_WAITS;
    return pending;
}

/* Makes kit_host report completions to struct pending, until kit_host is plugin_host again. */
static inline void pending_host(void)
{
    static struct na_host host;

    host = plugin_host;
    host.op_complete = op_complete;
    host.op_complete_recv = op_complete_recv;
    kit_host = &host;
}

/* Passes a message from one side to another. Returns the name of its source. */
static inline const char *message_pass(struct side *from, struct side *to,
                                       struct na_plugin_addr *dest)
{
    const uint64_t end = kit_host->clock_ns() + PENDING_WAIT_NS;
    struct pending *send = pending_new(), *receive = pending_new();
    const char *source;
    char text[8] = "";

    assert_int_equal(kit_msg_recv_unexpected(to->context, receive->op, text, sizeof(text), NULL),
                     0);
    assert_int_equal(kit_msg_send_unexpected(from->context, send->op, "hello", 6, NULL, dest, 0, 1),
                     0);
    while (send->status == PENDING_WAITS || receive->status == PENDING_WAITS) {
        assert_true(kit_host->clock_ns() < end);
        side_poll(from);
        side_poll(to);
    }
    assert_int_equal(send->status, 0);
    assert_int_equal(receive->status, 0);
    assert_string_equal(text, "hello");
    source = receive->source;
    free(send);
    free(receive);
    return source;
}

#endif /* UCX_MESSAGE_H */
