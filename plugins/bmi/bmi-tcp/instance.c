/* SPDX-License-Identifier: BSD-3-Clause */
/* Instances: opening, closing, progress, options. */

#include "tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EVENTS 64

/* When only one connection was readable for HOT_STREAK times, it is read without epoll for up to
 * HOT_POLLS polls. */
#define HOT_STREAK 4u
#define HOT_POLLS  16u

/* How long closing waits for posted messages to be sent, roughly. */
#define FLUSH_MS 200

/* Connections resumed in one progress. */
#define RESUMES 64

static int instance_open(struct tcp_instance *instance, const char *listen_addr, int flags);
static bool instance_has_sends(const struct tcp_instance *instance);
static void instance_close(struct tcp_instance *instance);
static void instance_lists_init(struct tcp_instance *instance);
static bool hot_read(struct tcp_instance *instance);
static void hot_note(struct tcp_connection *connection);
static void connection_event(struct tcp_connection *connection, uint32_t events);
static void timer_read(const struct tcp_instance *instance);
static int address_option(struct tcp_instance *instance, BMI_addr_t addr, int option);

int BMI_initialize(const char *method_list, const char *listen_addr, int flags)
{
    struct tcp_instance *instance = tcp_current();
    int ret;

    if (instance->is_open)
        return -BMI_EBUSY;
    if ((method_list != NULL && strcmp(method_list, "bmi_tcp") != 0) ||
        ((flags & BMI_INIT_SERVER) != 0 && listen_addr == NULL))
        return -BMI_EINVAL;
    ret = instance_open(instance, listen_addr, flags);
    if (ret != 0)
        instance_close(instance);
    return ret;
}

int BMI_finalize(void)
{
    struct tcp_instance *instance = tcp_current();

    if (!instance->is_open)
        return -BMI_EINVAL;
    for (int i = 0; i < FLUSH_MS && instance_has_sends(instance); i++)
        if (BMI_progress(1) < 0)
            break;
    instance_close(instance);
    return 0;
}

int BMI_open_context(bmi_context_id *context_id)
{
    struct tcp_instance *instance = tcp_current();

    for (int i = 0; instance->is_open && i < TCP_CONTEXTS; i++) {
        if (instance->contexts[i])
            continue;
        instance->contexts[i] = true;
        *context_id = i;
        return 0;
    }
    return -BMI_EBUSY;
}

void BMI_close_context(bmi_context_id context_id)
{
    struct tcp_instance *instance = tcp_current();

    if (context_id >= 0 && context_id < TCP_CONTEXTS)
        instance->contexts[context_id] = false;
}

/* Accepts last, because messages on an old connection of a peer precede those on its new one. */
int BMI_progress(int max_idle_time_ms)
{
    struct tcp_instance *instance = tcp_current();
    struct epoll_event events[EVENTS];
    bool is_listening = false;
    int count;

    if (!instance->is_open || max_idle_time_ms < 0)
        return -BMI_EINVAL;
    if (max_idle_time_ms == 0 && hot_read(instance))
        return 0;
    instance->hot_polls = 0;
    for (int i = 0; i < RESUMES && !TAILQ_EMPTY(&instance->resume); i++) {
        tcp_resume(TAILQ_FIRST(&instance->resume));
        max_idle_time_ms = 0;
    }
    count = epoll_wait(instance->epoll_fd, events, EVENTS, max_idle_time_ms);
    if (count < 0)
        return errno == EINTR ? 0 : tcp_error(errno);
    for (int i = 0; i < count; i++) {
        if (tcp_unlikely(events[i].data.ptr == instance))
            is_listening = true;
        else if (tcp_unlikely(events[i].data.ptr == &instance->timer_fd))
            timer_read(instance);
        else
            connection_event(events[i].data.ptr, events[i].events);
    }
    if (tcp_unlikely(!TAILQ_EMPTY(&instance->silent)))
        tcp_silent_expire(instance);
    if (tcp_unlikely(is_listening))
        tcp_accept(instance);
    if (tcp_unlikely(!TAILQ_EMPTY(&instance->closed)))
        tcp_connections_free(&instance->closed);
    return 0;
}

/*
 * Reads the hot connection without asking epoll: the answer that a caller polls for mostly comes
 * from where the last one came from. False when the other connections have to be polled.
 */
static bool hot_read(struct tcp_instance *instance)
{
    struct tcp_connection *connection = instance->hot;

    if (connection == NULL || instance->hot_streak < HOT_STREAK || connection->events != EPOLLIN ||
        instance->hot_polls >= HOT_POLLS || !TAILQ_EMPTY(&instance->resume))
        return false;
    instance->hot_polls++;
    (void) tcp_read(connection);
    return true;
}

int BMI_get_wait_fd(void)
{
    const struct tcp_instance *instance = tcp_current();

    return instance->is_open ? instance->epoll_fd : -1;
}

int BMI_may_wait(void)
{
    struct tcp_instance *instance = tcp_current();

    instance->hot_polls = HOT_POLLS; /* the next progress asks epoll */
    if (!TAILQ_EMPTY(&instance->resume) || !TAILQ_EMPTY(&instance->unexpected))
        return 0;
    for (int i = 0; i < TCP_CONTEXTS; i++)
        if (instance->contexts[i] && !TAILQ_EMPTY(&instance->completed[i]))
            return 0;
    return 1;
}

int BMI_wake_in(int ms)
{
    struct tcp_instance *instance = tcp_current();
    struct itimerspec timer = {.it_value = {ms / 1000, (long) (ms % 1000) * 1000000}};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &instance->timer_fd};

    if (!instance->is_open || ms < 0)
        return -BMI_EINVAL;
    if (instance->timer_fd < 0) {
        instance->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (instance->timer_fd < 0)
            return tcp_error(errno);
        if (epoll_ctl(instance->epoll_fd, EPOLL_CTL_ADD, instance->timer_fd, &event) != 0)
            return tcp_error(errno);
    }
    return timerfd_settime(instance->timer_fd, 0, &timer, NULL) == 0 ? 0 : tcp_error(errno);
}

int BMI_set_info(BMI_addr_t addr, int option, void *inout_parameter)
{
    struct tcp_instance *instance = tcp_current();

    if (!instance->is_open)
        return -BMI_EINVAL;
    switch (option) {
    case BMI_CLASSES:
        instance->classes = *(const int *) inout_parameter;
        return 0;
    case BMI_DROP_UNWANTED:
        instance->drops_unwanted = *(const int *) inout_parameter != 0;
        return 0;
    case BMI_TCP_BUFFER_SEND_SIZE:
        instance->send_buffer = *(const int *) inout_parameter;
        return 0;
    case BMI_TCP_BUFFER_RECEIVE_SIZE:
        instance->receive_buffer = *(const int *) inout_parameter;
        return 0;
    case BMI_INC_ADDR_REF:
    case BMI_DEC_ADDR_REF:
    case BMI_TCP_CLOSE_SOCKET:
    case BMI_DIAL:
        return address_option(instance, addr, option);
    default:
        return 0;
    }
}

int BMI_get_info(BMI_addr_t addr, int option, void *inout_parameter)
{
    const struct tcp_instance *instance = tcp_current();
    int *value = inout_parameter;

    (void) addr;
    if (!instance->is_open)
        return -BMI_EINVAL;
    switch (option) {
    case BMI_CHECK_MAXSIZE:
        *value = WIRE_RENDEZVOUS_MAX;
        return 0;
    case BMI_GET_UNEXP_SIZE:
        *value = WIRE_EAGER_MAX;
        return 0;
    case BMI_TCP_GET_PORT:
        *value = instance->port;
        return 0;
    default:
        return -BMI_ENOSYS;
    }
}

static int instance_open(struct tcp_instance *instance, const char *listen_addr, int flags)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = instance};
    char name[BMI_MAX_ADDR_LEN];
    int ret;

    instance_lists_init(instance);
    instance->flags = flags;
    instance->epoll_fd = instance->listen_fd = instance->timer_fd = instance->spare_fd = -1;
    instance->port = 0;
    instance->classes = UINT8_MAX + 1;
    instance->hash = 0;
    instance->silent_ms = TCP_SILENT_MS;
    instance->is_open = true;
    instance->input = malloc(TCP_INPUT_SIZE);
    if (instance->input == NULL)
        return -BMI_ENOMEM;
    instance->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (instance->epoll_fd < 0)
        return tcp_error(errno);
    if ((flags & BMI_INIT_SERVER) == 0)
        return 0;
    instance->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ret = tcp_listen(instance, listen_addr, name);
    if (ret != 0)
        return ret;
    instance->hash = tcp_hash(name);
    if (epoll_ctl(instance->epoll_fd, EPOLL_CTL_ADD, instance->listen_fd, &event) != 0)
        return tcp_error(errno);
    return 0;
}

/* True if a connection that is made has queued sends. */
static bool instance_has_sends(const struct tcp_instance *instance)
{
    const struct tcp_connection *connection;

    TAILQ_FOREACH (connection, &instance->connections, link)
        if (!connection->is_connecting && connection->address != NULL &&
            connection->address->sender == connection && !TAILQ_EMPTY(&connection->address->sends))
            return true;
    return false;
}

/* Reads all input first: closing a socket with unread input discards its unsent data. */
static void instance_close(struct tcp_instance *instance)
{
    struct tcp_connection *connection;

    TAILQ_FOREACH (connection, &instance->connections, link)
        while (recv(connection->fd, instance->input, TCP_INPUT_SIZE, MSG_DONTWAIT) > 0)
            continue;
    while (!TAILQ_EMPTY(&instance->connections))
        tcp_connection_abort(TAILQ_FIRST(&instance->connections), -BMI_ECANCEL);
    tcp_connections_free(&instance->closed);
    for (uint32_t i = 0; i < TCP_BUCKETS; i++) {
        struct tcp_address *address;

        TAILQ_FOREACH (address, &instance->addresses[i], link)
            tcp_address_fail(address, -BMI_ECANCEL);
    }
    tcp_operations_free(instance);
    for (uint32_t i = 0; i < TCP_BUCKETS; i++)
        while (!TAILQ_EMPTY(&instance->addresses[i]))
            tcp_address_destroy(TAILQ_FIRST(&instance->addresses[i]));
    tcp_messages_free(&instance->unexpected);
    tcp_messages_free(&instance->taken);
    tcp_messages_free(&instance->free_messages);
    tcp_table_free(&instance->address_table);
    tcp_table_free(&instance->operation_table);
    free(instance->input);
    if (instance->listen_fd >= 0)
        (void) close(instance->listen_fd);
    if (instance->epoll_fd >= 0)
        (void) close(instance->epoll_fd);
    if (instance->spare_fd >= 0)
        (void) close(instance->spare_fd);
    if (instance->timer_fd >= 0)
        (void) close(instance->timer_fd);
    *instance = (struct tcp_instance){.log = instance->log};
}

static void instance_lists_init(struct tcp_instance *instance)
{
    for (uint32_t i = 0; i < TCP_BUCKETS; i++)
        TAILQ_INIT(&instance->addresses[i]);
    for (int i = 0; i < TCP_CONTEXTS; i++)
        TAILQ_INIT(&instance->completed[i]);
    TAILQ_INIT(&instance->dropped);
    TAILQ_INIT(&instance->connections);
    TAILQ_INIT(&instance->closed);
    TAILQ_INIT(&instance->resume);
    TAILQ_INIT(&instance->silent);
    TAILQ_INIT(&instance->free_operations);
    TAILQ_INIT(&instance->unexpected);
    TAILQ_INIT(&instance->taken);
    TAILQ_INIT(&instance->free_messages);
}

static void hot_note(struct tcp_connection *connection)
{
    struct tcp_instance *instance = connection->instance;

    if (instance->hot == connection) {
        instance->hot_streak++;
        return;
    }
    instance->hot = connection;
    instance->hot_streak = 0;
}

static void connection_event(struct tcp_connection *connection, uint32_t events)
{
    if (connection->fd < 0)
        return;
    if (tcp_unlikely(connection->is_connecting)) {
        tcp_connected(connection);
        return;
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        if (!connection->is_stalled) {
            hot_note(connection);
            (void) tcp_read(connection);
        } else if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
            tcp_connection_abort(connection, -BMI_ECONNRESET);
        }
    }
    if ((events & EPOLLOUT) == 0 || connection->fd < 0)
        return;
    if (connection->address != NULL && connection->address->sender == connection)
        tcp_flush(connection->address);
    else
        tcp_connection_watch(connection, connection->events & ~(uint32_t) EPOLLOUT);
}

static void timer_read(const struct tcp_instance *instance)
{
    uint64_t value;
    ssize_t size = read(instance->timer_fd, &value, sizeof(value));

    (void) size; /* nothing is read if it was set again meanwhile */
}

static int address_option(struct tcp_instance *instance, BMI_addr_t addr, int option)
{
    struct tcp_address *address = tcp_table_find(&instance->address_table, addr);

    if (address == NULL || (option == BMI_DEC_ADDR_REF && address->references == 0))
        return -BMI_EINVAL;
    if (option == BMI_INC_ADDR_REF) {
        address->references++;
        tcp_address_keep(address);
    } else if (option == BMI_TCP_CLOSE_SOCKET) {
        tcp_address_disconnect(address);
    } else if (option == BMI_DIAL) {
        tcp_address_dial(address);
    } else if (--address->references == 0) {
        tcp_address_drop(address);
        tcp_address_release(address);
    }
    return 0;
}
