/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: headers, of which every field is checked, and the place of their payload. A message
 * without a receive that may not be buffered stalls its connection: it is not read any more.
 */

#include "tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/uio.h>

/* Bytes read from one connection before the other connections are read. */
#define READ_TURN (UINT64_C(4) << 20)

/* If this much of a payload is missing, it is read to its target without our buffer. */
#define READ_DIRECT 4096u

static void connection_precede(struct tcp_connection *connection);
static ssize_t input_read(struct tcp_connection *connection, size_t *room);
static size_t input_take(struct tcp_connection *connection, const uint8_t *data, size_t size);
static bool header_take(struct tcp_connection *connection);
static const char *header_check(const struct wire_header *header, uint32_t magic);
static void payload_place(struct tcp_connection *connection);
static void unexpected_place(struct tcp_connection *connection);
static void payload_end(struct tcp_connection *connection);
static void connection_stall(struct tcp_connection *connection);
static void input_keep(struct tcp_connection *connection, const uint8_t *data, size_t size);
static struct tcp_operation *receive_find(struct tcp_address *address, int32_t tag);
static void receive_begin(struct tcp_connection *connection, struct tcp_operation *receive);
static bool receive_take_early(struct tcp_operation *receive, int *ret);
static bool receive_take_moving(struct tcp_operation *receive, int *ret);

int BMI_post_recv(bmi_op_id_t *id, BMI_addr_t src, void *buffer, bmi_size_t expected_size,
                  bmi_size_t *actual_size, enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag,
                  void *user_ptr, bmi_context_id context_id, bmi_hint hints)
{
    struct tcp_instance *instance = tcp_current();
    struct tcp_address *address = tcp_table_find(&instance->address_table, src);
    struct tcp_operation *operation;
    int ret = 0;

    (void) buffer_type;
    (void) hints;
    *id = 0;
    *actual_size = 0;
    if (!instance->is_open || address == NULL || expected_size < 0 || context_id < 0 ||
        context_id >= TCP_CONTEXTS)
        return -BMI_EINVAL;
    if (address->place_size == 0 && TAILQ_EMPTY(&address->connections) &&
        TAILQ_EMPTY(&address->early))
        return -BMI_EPIPE; /* we cannot connect to it, and it does not come back */
    operation = tcp_operation_get(address);
    if (operation == NULL)
        return -BMI_ENOMEM;
    operation->kind = TCP_RECEIVE;
    operation->state = TCP_QUEUED;
    operation->tag = tag;
    operation->user_ptr = user_ptr;
    operation->context = context_id;
    operation->data = buffer;
    operation->size = (uint64_t) expected_size;
    if (receive_take_early(operation, &ret) || receive_take_moving(operation, &ret)) {
        *actual_size = (bmi_size_t) operation->done;
        if (ret != 0)
            tcp_operation_put(operation);
        else
            *id = operation->id;
        return ret;
    }
    TAILQ_INSERT_TAIL(&address->receives, operation, link);
    *id = operation->id;
    return 0;
}

/* Reads up to READ_TURN bytes. True if anything was read. */
bool tcp_read(struct tcp_connection *connection)
{
    uint64_t total = 0;

    while (connection->fd >= 0 && !connection->is_stalled && total < READ_TURN) {
        size_t room;
        ssize_t size = input_read(connection, &room);

        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (size <= 0) {
            tcp_connection_abort(connection, size == 0 ? -BMI_EPIPE : tcp_error(errno));
            break;
        }
        total += (uint64_t) size;
        if ((size_t) size < room)
            break;
    }
    return total != 0;
}

/* Goes on with a stalled connection, if its message can now be received. */
void tcp_resume(struct tcp_connection *connection)
{
    uint8_t *kept;
    size_t size, taken;

    TAILQ_REMOVE(&connection->instance->resume, connection, resume_link);
    connection->is_to_resume = false;
    if (tcp_unlikely(connection->is_behind)) {
        connection_precede(connection);
        if (connection->fd < 0) /* the end of an older connection has ended this one */
            return;
    }
    kept = connection->kept;
    size = connection->kept_size;
    connection->is_stalled = false;
    connection->kept = NULL;
    connection->kept_size = 0;
    payload_place(connection);
    taken = input_take(connection, kept, size);
    if (connection->fd < 0) {
        free(kept);
        return;
    }
    if (taken < size) {
        memmove(kept, kept + taken, size - taken);
        connection->kept = kept;
        connection->kept_size = size - taken;
    } else {
        free(kept);
    }
    if (!connection->is_stalled)
        tcp_connection_watch(connection, connection->events | EPOLLIN);
}

/* Reads the older connections of the same peer. */
static void connection_precede(struct tcp_connection *connection)
{
    struct tcp_connection *older = TAILQ_FIRST(&connection->address->connections);

    connection->is_behind = false;
    while (older != NULL && older != connection) {
        struct tcp_connection *next = TAILQ_NEXT(older, address_link);

        if (!older->is_connecting && !older->is_stalled)
            tcp_read(older);
        older = next;
    }
}

void tcp_resume_add(struct tcp_connection *connection)
{
    if (connection->is_to_resume || connection->fd < 0)
        return;
    connection->is_to_resume = true;
    TAILQ_INSERT_TAIL(&connection->instance->resume, connection, resume_link);
}

/*
 * Reads once, and handles the bytes. A long payload is read directly to its target, with few bytes
 * behind it, so that the next payload is, too. `room` is set to the size of the buffers.
 */
static ssize_t input_read(struct tcp_connection *connection, size_t *room)
{
    uint8_t *input = connection->instance->input;
    uint64_t missing = connection->has_header ? connection->in.size - connection->received : 0;
    struct iovec parts[2];
    ssize_t size;
    size_t rest, taken;

    if (missing < READ_DIRECT || connection->target == NULL) {
        *room = TCP_INPUT_SIZE;
        size = recv(connection->fd, input, TCP_INPUT_SIZE, MSG_DONTWAIT);
        rest = size > 0 ? (size_t) size : 0;
    } else {
        parts[0].iov_base = connection->target + connection->received;
        parts[0].iov_len = (size_t) missing;
        parts[1].iov_base = input;
        parts[1].iov_len = TCP_INPUT_AHEAD;
        *room = (size_t) missing + TCP_INPUT_AHEAD;
        size = readv(connection->fd, parts, 2);
        if (size <= 0)
            return size;
        if ((uint64_t) size < missing) {
            connection->received += (uint64_t) size;
            return size;
        }
        rest = (size_t) size - (size_t) missing;
        connection->received = connection->in.size;
        payload_end(connection);
    }
    if (rest == 0)
        return size;
    taken = input_take(connection, input, rest);
    if (taken < rest && connection->fd >= 0)
        input_keep(connection, input + taken, rest - taken);
    return size;
}

/* Returns the number of bytes handled: not all when the connection stalls or breaks. */
static size_t input_take(struct tcp_connection *connection, const uint8_t *data, size_t size)
{
    size_t at = 0;

    while (connection->fd >= 0 && !connection->is_stalled && at < size) {
        size_t count = size - at;

        if (!connection->has_header) {
            if (count > WIRE_HEADER_SIZE - connection->header_size)
                count = WIRE_HEADER_SIZE - connection->header_size;
            memcpy(connection->header + connection->header_size, data + at, count);
            connection->header_size += (uint32_t) count;
            at += count;
            if (connection->header_size == WIRE_HEADER_SIZE && header_take(connection))
                payload_place(connection);
            continue;
        }
        if (count > connection->in.size - connection->received)
            count = (size_t) (connection->in.size - connection->received);
        if (connection->target != NULL)
            memcpy(connection->target + connection->received, data + at, count);
        connection->received += count;
        at += count;
        if (connection->received == connection->in.size)
            payload_end(connection);
    }
    return at;
}

/* Handles a complete header. False: the connection broke or stalls. */
static bool header_take(struct tcp_connection *connection)
{
    uint32_t magic = wire_decode(connection->header, &connection->in);
    const char *wrong = header_check(&connection->in, magic);

    connection->header_size = 0;
    if (tcp_unlikely(wrong != NULL)) {
        tcp_log(connection->instance, 2,
                "a connection is closed: %s (magic %u, mode %u, %llu bytes); it is not BMI that "
                "is spoken there",
                wrong, magic, connection->in.mode, (unsigned long long) connection->in.size);
        tcp_connection_abort(connection, -BMI_EBADMSG);
        return false;
    }
    if (tcp_unlikely(connection->address == NULL) &&
        !tcp_connection_bind(connection, connection->in.source))
        return false;
    connection->is_heard = true;
    connection->has_header = true;
    connection->received = 0;
    if (tcp_unlikely(connection->is_behind)) {
        connection_stall(connection);
        tcp_resume_add(connection);
        return false;
    }
    return true;
}

/* Returns what is wrong with the header, or NULL. */
static const char *header_check(const struct wire_header *header, uint32_t magic)
{
    if (magic != WIRE_MAGIC)
        return "a header begins with another number";
    switch (header->mode) {
    case WIRE_UNEXPECTED:
    case WIRE_EAGER:
        return header->size <= WIRE_EAGER_MAX ? NULL : "a message is too long for its mode";
    case WIRE_RENDEZVOUS:
        return header->size <= WIRE_RENDEZVOUS_MAX ? NULL : "a message is too long";
    default:
        return "a message has an unknown mode";
    }
}

/* Chooses the target of the payload, or stalls the connection. */
static void payload_place(struct tcp_connection *connection)
{
    struct tcp_address *address = connection->address;
    struct tcp_operation *receive;

    connection->target = NULL;
    if (connection->in.mode == WIRE_UNEXPECTED) {
        unexpected_place(connection);
        return;
    }
    receive = receive_find(address, connection->in.tag);
    if (tcp_likely(receive != NULL)) {
        receive_begin(connection, receive);
    } else if (connection->instance->drops_unwanted) {
        tcp_log(connection->instance, 4, "a message of %llu bytes with tag %d is thrown away",
                (unsigned long long) connection->in.size, connection->in.tag);
    } else if (connection->in.mode == WIRE_EAGER && address->early_size < TCP_EARLY_MAX &&
               connection->instance->early_size < TCP_EARLY_ALL) {
        connection->message = tcp_message_get(connection->instance, connection->in.size);
        if (connection->message == NULL) {
            tcp_connection_abort(connection, -BMI_ENOMEM);
            return;
        }
        tcp_early_count(address);
        connection->message->tag = connection->in.tag;
        connection->message->address = address;
        connection->target = connection->message->data;
    } else {
        connection_stall(connection);
        return;
    }
    if (connection->in.size == 0)
        payload_end(connection);
}

static void unexpected_place(struct tcp_connection *connection)
{
    struct tcp_instance *instance = connection->instance;
    uint64_t limit =
        TAILQ_EMPTY(&connection->address->receives) ? TCP_UNEXPECTED_SOFT : TCP_UNEXPECTED_HARD;

    if (tcp_unlikely(connection->in.class >= instance->classes)) {
        if (connection->in.size == 0)
            payload_end(connection);
        return; /* discarded: no test function asks for the class */
    }
    if (tcp_unlikely(instance->unexpected_size >= limit)) {
        instance->is_full = true;
        connection_stall(connection);
        return;
    }
    connection->message = tcp_message_get(instance, connection->in.size);
    if (tcp_unlikely(connection->message == NULL)) {
        tcp_connection_abort(connection, -BMI_ENOMEM);
        return;
    }
    connection->message->tag = connection->in.tag;
    connection->message->class = connection->in.class;
    connection->message->address = connection->address;
    connection->target = connection->message->data;
    if (connection->in.size == 0)
        payload_end(connection);
}

static void payload_end(struct tcp_connection *connection)
{
    struct tcp_operation *receive = connection->receive;
    struct tcp_message *message = connection->message;

    connection->has_header = false;
    connection->target = NULL;
    connection->receive = NULL;
    connection->message = NULL;
    if (receive != NULL)
        tcp_operation_complete(receive, receive->error);
    else if (message != NULL && connection->in.mode == WIRE_UNEXPECTED)
        tcp_unexpected_add(connection->instance, message);
    else if (message != NULL)
        TAILQ_INSERT_TAIL(&connection->address->early, message, link);
}

static void connection_stall(struct tcp_connection *connection)
{
    connection->is_stalled = true;
    if (connection->instance->hot == connection)
        connection->instance->hot = NULL;
    tcp_connection_watch(connection, connection->events & ~(uint32_t) EPOLLIN);
}

/* Copies bytes behind the stalling message, until the connection is resumed. */
static void input_keep(struct tcp_connection *connection, const uint8_t *data, size_t size)
{
    connection->kept = malloc(size);
    if (connection->kept == NULL) {
        tcp_connection_abort(connection, -BMI_ENOMEM);
        return;
    }
    memcpy(connection->kept, data, size);
    connection->kept_size = size;
}

static struct tcp_operation *receive_find(struct tcp_address *address, int32_t tag)
{
    struct tcp_operation *receive;

    TAILQ_FOREACH (receive, &address->receives, link)
        if (receive->tag == tag)
            return receive;
    return NULL;
}

/* Matches the message with a receive; a message that does not fit is discarded. */
static void receive_begin(struct tcp_connection *connection, struct tcp_operation *receive)
{
    TAILQ_REMOVE(&receive->address->receives, receive, link);
    receive->state = TCP_MOVING;
    receive->connection = connection;
    receive->done = connection->in.size;
    receive->error = connection->in.size > receive->size ? -BMI_EMSGSIZE : 0;
    connection->receive = receive;
    connection->target = receive->error == 0 ? receive->data : NULL;
}

/* True if a message had arrived; `*ret` is the return value of BMI_post_recv(). */
static bool receive_take_early(struct tcp_operation *receive, int *ret)
{
    struct tcp_address *address = receive->address;
    struct tcp_message *message;

    TAILQ_FOREACH (message, &address->early, link)
        if (message->tag == receive->tag)
            break;
    if (message == NULL)
        return false;
    TAILQ_REMOVE(&address->early, message, link);
    tcp_early_uncount(address);
    receive->done = message->size;
    *ret = message->size <= receive->size ? 1 : -BMI_EMSGSIZE;
    if (*ret == 1 && receive->data != NULL && message->size != 0)
        memcpy(receive->data, message->data, message->size);
    tcp_message_put(address->instance, message);
    return true;
}

/*
 * True if the message is being received: its rest goes directly to the receive. A connection that
 * is stalled by the message is resumed.
 */
static bool receive_take_moving(struct tcp_operation *receive, int *ret)
{
    struct tcp_address *address = receive->address;
    struct tcp_connection *connection;

    TAILQ_FOREACH (connection, &address->connections, address_link) {
        struct tcp_message *message = connection->message;

        if (!connection->has_header || connection->in.tag != receive->tag ||
            connection->in.mode == WIRE_UNEXPECTED || connection->receive != NULL)
            continue;
        if (connection->is_stalled) {
            tcp_resume_add(connection);
            return false;
        }
        if (message == NULL) /* it is being discarded */
            continue;
        TAILQ_INSERT_TAIL(&address->receives, receive, link);
        connection->message = NULL;
        tcp_early_uncount(address);
        receive_begin(connection, receive);
        if (connection->target != NULL)
            memcpy(connection->target, message->data, connection->received);
        tcp_message_put(address->instance, message);
        *ret = 0;
        return true;
    }
    return false;
}
