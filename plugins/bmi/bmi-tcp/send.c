/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending: each address has one queue, whose first message is written as far as possible. */

#include "tcp.h"

#include <errno.h>
#include <sys/epoll.h>

/* A message of up to this size, header included, is copied behind its header. */
#define SEND_SMALL 1024u

static int send_post(bmi_op_id_t *id, BMI_addr_t dest, const void *buffer, bmi_size_t size,
                     const struct wire_header *header, void *user_ptr, bmi_context_id context_id);
static int send_start(struct tcp_operation *operation, bool is_unexpected);
static void send_small(struct tcp_operation *operation, int fd);
static int send_write(struct tcp_operation *operation, int fd);

int BMI_post_send(bmi_op_id_t *id, BMI_addr_t dest, const void *buffer, bmi_size_t size,
                  enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr,
                  bmi_context_id context_id, bmi_hint hints)
{
    struct wire_header header = {
        .mode = size <= (bmi_size_t) WIRE_EAGER_MAX ? WIRE_EAGER : WIRE_RENDEZVOUS,
        .tag = tag,
    };

    (void) buffer_type;
    (void) hints;
    *id = 0;
    if (size > (bmi_size_t) WIRE_RENDEZVOUS_MAX)
        return -BMI_EMSGSIZE;
    return send_post(id, dest, buffer, size, &header, user_ptr, context_id);
}

int BMI_post_sendunexpected_class(bmi_op_id_t *id, BMI_addr_t dest, const void *buffer,
                                  bmi_size_t size, enum bmi_buffer_type buffer_type,
                                  bmi_msg_tag_t tag, uint8_t msg_class, void *user_ptr,
                                  bmi_context_id context_id, bmi_hint hints)
{
    struct wire_header header = {.mode = WIRE_UNEXPECTED, .tag = tag, .class = msg_class};

    (void) buffer_type;
    (void) hints;
    *id = 0;
    if (size > (bmi_size_t) WIRE_EAGER_MAX)
        return -BMI_EMSGSIZE;
    return send_post(id, dest, buffer, size, &header, user_ptr, context_id);
}

int BMI_may_send(BMI_addr_t addr)
{
    struct tcp_instance *instance = tcp_current();
    struct tcp_address *address = tcp_table_find(&instance->address_table, addr);

    if (!instance->is_open || address == NULL)
        return -BMI_EINVAL;
    if (tcp_unlikely(address->sender == NULL)) {
        int ret = tcp_connect(address);

        if (ret != 0)
            return ret;
    }
    return !address->sender->is_connecting && address->unexpected_sends == 0;
}

/* Called when the socket becomes writable: it is connected, or that failed. */
void tcp_connected(struct tcp_connection *connection)
{
    socklen_t size = sizeof(int);
    int error = 0;

    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error != 0) {
        tcp_connection_abort(connection, tcp_error(error));
        return;
    }
    connection->is_connecting = false;
    tcp_connection_watch(connection, EPOLLIN);
    if (connection->address->sender == connection)
        tcp_flush(connection->address);
}

/* Writes as much as the connection takes. */
void tcp_flush(struct tcp_address *address)
{
    struct tcp_connection *connection = address->sender;
    struct tcp_operation *operation;

    while ((operation = TAILQ_FIRST(&address->sends)) != NULL) {
        int ret = send_write(operation, connection->fd);

        if (ret < 0) {
            tcp_connection_abort(connection, ret);
            return;
        }
        if (ret == 0)
            break;
        TAILQ_REMOVE(&address->sends, operation, link);
        tcp_operation_complete(operation, 0);
    }
    tcp_connection_watch(connection, (connection->is_stalled ? 0 : EPOLLIN) |
                                         (operation != NULL ? EPOLLOUT : 0));
}

static int send_post(bmi_op_id_t *id, BMI_addr_t dest, const void *buffer, bmi_size_t size,
                     const struct wire_header *header, void *user_ptr, bmi_context_id context_id)
{
    struct tcp_instance *instance = tcp_current();
    struct tcp_address *address = tcp_table_find(&instance->address_table, dest);
    struct wire_header complete = *header;
    struct tcp_operation *operation;
    int ret;

    if (!instance->is_open || address == NULL || size < 0 || context_id < 0 ||
        context_id >= TCP_CONTEXTS)
        return -BMI_EINVAL;
    operation = tcp_operation_get(address);
    if (operation == NULL)
        return -BMI_ENOMEM;
    complete.size = (uint64_t) size;
    complete.source = instance->hash;
    wire_encode(operation->header, &complete);
    operation->kind = TCP_SEND;
    operation->state = TCP_QUEUED;
    operation->tag = header->tag;
    operation->user_ptr = user_ptr;
    operation->context = context_id;
    operation->data = (uint8_t *) (uintptr_t) buffer;
    operation->size = (uint64_t) size;
    ret = send_start(operation, header->mode == WIRE_UNEXPECTED);
    if (ret == 0) {
        *id = operation->id;
        return 0;
    }
    tcp_operation_put(operation);
    tcp_address_release(address);
    return ret;
}

/* Returns 1 when it is sent, 0 when it is queued, or an error: it is in no list then. */
static int send_start(struct tcp_operation *operation, bool is_unexpected)
{
    struct tcp_address *address = operation->address;
    struct tcp_connection *connection = address->sender;
    int ret;

    if (tcp_unlikely(connection == NULL)) {
        ret = tcp_connect(address);
        if (ret != 0)
            return ret;
    } else if (tcp_likely(TAILQ_EMPTY(&address->sends) && !connection->is_connecting)) {
        ret = send_write(operation, connection->fd);
        if (tcp_likely(ret > 0))
            return 1;
        if (ret < 0) {
            tcp_connection_abort(connection, ret);
            return ret;
        }
        tcp_connection_watch(connection, (connection->is_stalled ? 0 : EPOLLIN) | EPOLLOUT);
    }
    TAILQ_INSERT_TAIL(&address->sends, operation, link);
    operation->is_unexpected = is_unexpected;
    address->unexpected_sends += is_unexpected;
    return 0;
}

/* Writes from one buffer, which is faster than two. The caller writes the rest. */
static void send_small(struct tcp_operation *operation, int fd)
{
    uint8_t bytes[SEND_SMALL];
    ssize_t written;

    memcpy(bytes, operation->header, WIRE_HEADER_SIZE);
    if (operation->size != 0)
        memcpy(bytes + WIRE_HEADER_SIZE, operation->data, operation->size);
    written = send(fd, bytes, WIRE_HEADER_SIZE + operation->size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written <= 0)
        return;
    operation->done = (uint64_t) written;
    operation->state = TCP_MOVING;
}

/* Returns 1 when all of it is written, 0 when not yet, or an error. */
static int send_write(struct tcp_operation *operation, int fd)
{
    uint64_t total = WIRE_HEADER_SIZE + operation->size;

    if (tcp_likely(total <= SEND_SMALL && operation->done == 0))
        send_small(operation, fd);
    while (operation->done < total) {
        struct iovec parts[2];
        struct msghdr message = {.msg_iov = parts};
        uint64_t offset = 0;
        ssize_t written;

        if (operation->done < WIRE_HEADER_SIZE) {
            parts[0].iov_base = operation->header + operation->done;
            parts[0].iov_len = WIRE_HEADER_SIZE - operation->done;
            message.msg_iovlen = 1;
        } else {
            offset = operation->done - WIRE_HEADER_SIZE;
        }
        if (operation->size > offset) {
            parts[message.msg_iovlen].iov_base = operation->data + offset;
            parts[message.msg_iovlen].iov_len = operation->size - offset;
            message.msg_iovlen++;
        }
        written = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (written > 0) {
            operation->done += (uint64_t) written;
            operation->state = TCP_MOVING;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return 0;
        } else if (errno != EINTR) {
            return tcp_error(errno);
        }
    }
    return 1;
}
