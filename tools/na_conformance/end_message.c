/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, buffers and messages of an endpoint. */

#include <string.h>

#include "na_conformance/end.h"

#define TAIL 64u

static void header_write(const struct conf_buffer *buffer, bool expected);

static bool is_trusted; /* conf_cancel_trusted() */

struct na_plugin_addr *conf_lookup(struct conf_end *end, const char *address)
{
    struct na_plugin_addr *addr = NULL;
    char *lent = conf_text_lend(address);
    uint64_t entered = conf_enter(CONF_CALL_ADDR_LOOKUP);
    int32_t status = conf_plugin.table.addr_lookup(end->na_class, lent, &addr);

    conf_leave(CONF_CALL_ADDR_LOOKUP, entered);
    conf_text_take_back(lent);
    conf_require(status == NA_PLUGIN_SUCCESS && addr != NULL, "addr_lookup of %.200s failed: %s",
                 address, conf_status_name(status));
    return addr;
}

void conf_addr_free(struct conf_end *end, struct na_plugin_addr *addr)
{
    uint64_t entered = conf_enter(CONF_CALL_ADDR);

    conf_plugin.table.addr_free(end->na_class, addr);
    conf_leave(CONF_CALL_ADDR, entered);
}

bool conf_addr_same(struct conf_end *end, struct na_plugin_addr *a, struct na_plugin_addr *b)
{
    uint64_t entered = conf_enter(CONF_CALL_ADDR);
    uint32_t same = conf_plugin.table.addr_compare(end->na_class, a, b);

    conf_leave(CONF_CALL_ADDR, entered);
    return same != 0;
}

void conf_addr_string(struct conf_end *end, struct na_plugin_addr *addr, char *text, size_t size)
{
    uint64_t entered = conf_enter(CONF_CALL_ADDR_TO_STRING);
    uint64_t room = size;
    int32_t status = conf_plugin.table.addr_to_string(end->na_class, addr, text, &room);

    conf_leave(CONF_CALL_ADDR_TO_STRING, entered);
    conf_require(status == NA_PLUGIN_SUCCESS && memchr(text, '\0', size) != NULL,
                 "addr_to_string failed: %s", conf_status_name(status));
}

void conf_buffer_get(struct conf_buffer *buffer, const struct conf_end *end, uint64_t size,
                     uint32_t flags, bool expected)
{
    uint64_t entered;

    memset(buffer, 0, sizeof(*buffer));
    buffer->end = end;
    buffer->size = size;
    if (flags == 0 || conf_plugin.table.msg_buf_alloc == NULL) {
        conf_block_map(&buffer->block, size);
        buffer->data = buffer->block.data;
    } else {
        entered = conf_enter(CONF_CALL_BUFFER);
        buffer->data =
            conf_plugin.table.msg_buf_alloc(end->na_class, size + TAIL, flags, &buffer->fabric);
        conf_leave(CONF_CALL_BUFFER, entered);
        conf_require(buffer->data != NULL, "msg_buf_alloc gave no %llu bytes",
                     (unsigned long long) size + TAIL);
        conf_guard_set(buffer->data + size, TAIL);
    }
    if ((flags & NA_PLUGIN_BUF_SEND) != 0)
        header_write(buffer, expected);
}

void conf_buffer_check(const struct conf_buffer *buffer, const char *what)
{
    int64_t broken;

    if (buffer->block.map != NULL) {
        conf_block_check(&buffer->block, what);
        return;
    }
    broken = conf_guard_broken(buffer->data + buffer->size, TAIL);
    if (broken >= 0)
        conf_watch_broken(CONF_WATCH_BOUNDS, "%s of %llu bytes was written to %lld bytes past it",
                          what, (unsigned long long) buffer->size, (long long) broken + 1);
}

void conf_buffer_put(struct conf_buffer *buffer)
{
    uint64_t entered;

    conf_buffer_check(buffer, "a message buffer");
    if (buffer->block.map != NULL) {
        conf_block_unmap(&buffer->block);
        return;
    }
    entered = conf_enter(CONF_CALL_BUFFER);
    conf_plugin.table.msg_buf_free((struct na_plugin_class *) buffer->end->na_class, buffer->data,
                                   buffer->fabric);
    conf_leave(CONF_CALL_BUFFER, entered);
}

uint64_t conf_header(const struct conf_end *end, bool expected)
{
    return expected ? end->info.expected_header_size : end->info.unexpected_header_size;
}

uint64_t conf_max_message(const struct conf_end *end, bool expected)
{
    return expected ? end->info.max_expected_size : end->info.max_unexpected_size;
}

uint64_t conf_max_payload(const struct conf_end *end)
{
    const uint64_t unexpected = conf_max_message(end, false) - conf_header(end, false);
    const uint64_t expected = conf_max_message(end, true) - conf_header(end, true);

    return unexpected < expected ? unexpected : expected;
}

int32_t conf_send(struct conf_end *end, uint32_t id, struct conf_op *op,
                  const struct conf_buffer *buffer, uint64_t size, struct na_plugin_addr *dest,
                  uint32_t dest_id, uint32_t tag, bool expected)
{
    const enum conf_call call = expected ? CONF_CALL_SEND_EXPECTED : CONF_CALL_SEND_UNEXPECTED;
    uint64_t entered;
    int32_t status;

    conf_op_begin(op, CONF_OP_SEND, NULL, 0);
    entered = conf_enter(call);
    status =
        (expected ? conf_plugin.table.msg_send_expected : conf_plugin.table.msg_send_unexpected)(
            end->contexts[id], conf_op_private(op), buffer->data, size, buffer->fabric, dest,
            dest_id, tag);
    conf_leave(call, entered);
    conf_op_begun(op, status);
    return status;
}

int32_t conf_recv_unexpected(struct conf_end *end, uint32_t id, struct conf_op *op,
                             struct conf_buffer *buffer, uint64_t size)
{
    uint64_t entered;
    int32_t status;

    conf_op_begin(op, CONF_OP_RECV_UNEXPECTED, buffer->data, size);
    entered = conf_enter(CONF_CALL_RECV_UNEXPECTED);
    status = conf_plugin.table.msg_recv_unexpected(end->contexts[id], conf_op_private(op),
                                                   buffer->data, size, buffer->fabric);
    conf_leave(CONF_CALL_RECV_UNEXPECTED, entered);
    conf_op_begun(op, status);
    return status;
}

int32_t conf_recv_expected(struct conf_end *end, uint32_t id, struct conf_op *op,
                           struct conf_buffer *buffer, uint64_t size, struct na_plugin_addr *source,
                           uint32_t source_id, uint32_t tag)
{
    uint64_t entered;
    int32_t status;

    conf_op_begin(op, CONF_OP_RECV_EXPECTED, buffer->data, size);
    entered = conf_enter(CONF_CALL_RECV_EXPECTED);
    status =
        conf_plugin.table.msg_recv_expected(end->contexts[id], conf_op_private(op), buffer->data,
                                            size, buffer->fabric, source, source_id, tag);
    conf_leave(CONF_CALL_RECV_EXPECTED, entered);
    conf_op_begun(op, status);
    return status;
}

int32_t conf_recv_multi(struct conf_end *end, uint32_t id, struct conf_op *op,
                        struct conf_buffer *buffer, uint64_t size, conf_multi_fn function,
                        void *arg)
{
    uint64_t entered;
    int32_t status;

    conf_op_begin(op, CONF_OP_RECV_MULTI, buffer->data, size);
    op->multi = function;
    op->arg = arg;
    entered = conf_enter(CONF_CALL_MULTI_RECV);
    status = conf_plugin.multi_recv->msg_multi_recv_unexpected(
        end->contexts[id], conf_op_private(op), buffer->data, size, buffer->fabric);
    conf_leave(CONF_CALL_MULTI_RECV, entered);
    conf_op_begun(op, status);
    return status;
}

int32_t conf_cancel(struct conf_end *end, uint32_t id, struct conf_op *op)
{
    uint64_t entered = conf_enter(CONF_CALL_CANCEL);
    int32_t status = conf_cancel_aside(end, id, op);

    conf_leave(CONF_CALL_CANCEL, entered);
    return status;
}

int32_t conf_cancel_aside(struct conf_end *end, uint32_t id, struct conf_op *op)
{
    if (is_trusted && conf_plugin.table.cancel_trusted == NULL)
        conf_skip("there is no cancel_trusted");
    return (is_trusted ? conf_plugin.table.cancel_trusted
                       : conf_plugin.table.cancel)(end->contexts[id], conf_op_private(op));
}

void conf_cancel_trusted(void)
{
    is_trusted = true;
}

int32_t conf_try_send(struct conf_end *end, uint32_t id, struct conf_op *op,
                      const struct conf_buffer *buffer, uint64_t size, struct na_plugin_addr *dest,
                      uint32_t dest_id, uint32_t tag, bool expected)
{
    int32_t status = conf_send(end, id, op, buffer, size, dest, dest_id, tag, expected);
    uint64_t until;

    if (status != NA_PLUGIN_AGAIN)
        return status;
    until = conf_now_ms() + CONF_WAIT_MS;
    do {
        conf_progress_ms(0);
        status = conf_send(end, id, op, buffer, size, dest, dest_id, tag, expected);
    } while (status == NA_PLUGIN_AGAIN && conf_now_ms() < until);
    return status;
}

void conf_must_send(struct conf_end *end, uint32_t id, struct conf_op *op,
                    const struct conf_buffer *buffer, uint64_t size, struct na_plugin_addr *dest,
                    uint32_t dest_id, uint32_t tag, bool expected)
{
    const int32_t status = conf_try_send(end, id, op, buffer, size, dest, dest_id, tag, expected);

    conf_require(status == NA_PLUGIN_SUCCESS, "%s of %llu bytes failed: %s",
                 expected ? "msg_send_expected" : "msg_send_unexpected", (unsigned long long) size,
                 conf_status_name(status));
}

void conf_must_recv(struct conf_end *end, uint32_t id, struct conf_op *op,
                    struct conf_buffer *buffer)
{
    int32_t status = conf_recv_unexpected(end, id, op, buffer, buffer->size);

    conf_require(status == NA_PLUGIN_SUCCESS, "msg_recv_unexpected of %llu bytes failed: %s",
                 (unsigned long long) buffer->size, conf_status_name(status));
}

void conf_must_recv_expected(struct conf_end *end, uint32_t id, struct conf_op *op,
                             struct conf_buffer *buffer, struct na_plugin_addr *source,
                             uint32_t source_id, uint32_t tag)
{
    int32_t status = conf_recv_expected(end, id, op, buffer, buffer->size, source, source_id, tag);

    conf_require(status == NA_PLUGIN_SUCCESS, "msg_recv_expected of %llu bytes failed: %s",
                 (unsigned long long) buffer->size, conf_status_name(status));
}

void conf_send_wait(struct conf_end *end, uint32_t id, const struct conf_buffer *buffer,
                    uint64_t size, struct na_plugin_addr *dest, uint32_t dest_id, uint32_t tag,
                    bool expected)
{
    if (end->sender == NULL)
        end->sender = conf_op_new(end);
    conf_must_send(end, id, end->sender, buffer, size, dest, dest_id, tag, expected);
    conf_wait_ok(end->sender, expected ? "an expected send" : "an unexpected send");
}

void conf_fill(uint8_t *data, uint64_t size, uint64_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        data[i] = (uint8_t) ((seed + 1) * 29 + i * 7 + (i >> 8) * 13);
}

int64_t conf_is_filled(const uint8_t *data, uint64_t size, uint64_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        if (data[i] != (uint8_t) ((seed + 1) * 29 + i * 7 + (i >> 8) * 13))
            return (int64_t) i;
    return -1;
}

static void header_write(const struct conf_buffer *buffer, bool expected)
{
    int32_t (*init)(struct na_plugin_class *, void *, uint64_t) =
        expected ? conf_plugin.table.msg_init_expected : conf_plugin.table.msg_init_unexpected;
    uint64_t entered;
    int32_t status;

    if (init == NULL)
        return;
    entered = conf_enter(CONF_CALL_BUFFER);
    status = init((struct na_plugin_class *) buffer->end->na_class, buffer->data, buffer->size);
    conf_leave(CONF_CALL_BUFFER, entered);
    conf_require(status == NA_PLUGIN_SUCCESS, "msg_init_%s failed: %s",
                 expected ? "expected" : "unexpected", conf_status_name(status));
}
