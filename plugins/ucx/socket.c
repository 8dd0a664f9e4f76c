/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets between two endpoints. They stay open, because the system closes them when a process
 * dies, and the peer notices the death by that.
 */

#include "ucx.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHANNEL_SYNS 5 /* a host that does not answer is unreachable after about a minute */

/* The death of a peer's host, not only of its process, is noticed after 10 to 15 seconds. */
#define CHANNEL_KEEP_IDLE     5
#define CHANNEL_KEEP_INTERVAL 2
#define CHANNEL_KEEP_COUNT    4

static void channel_set_options(int fd);
static void channel_drop_deferred(struct ucx_channel *channel);

/* Takes over the descriptor, which is closed if this fails. */
struct ucx_channel *ucx_channel_create(struct na_plugin_class *na_class, int fd)
{
    struct ucx_channel *channel = kit_host->mem_alloc(sizeof(*channel), 0);

    if (channel == NULL) {
        (void) close(fd);
        return NULL;
    }
    channel->fd = fd;
    channel->na_class = na_class;
    kit_list_init(&channel->node);
    channel_set_options(fd);
    return channel;
}

bool ucx_channel_watch(struct ucx_channel *channel, int how, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = channel};

    if (epoll_ctl(channel->na_class->epoll_fd, how, channel->fd, &event) == 0)
        return true;
    UCX_LOG_ERROR("a socket cannot be watched: %s", strerror(errno));
    return false;
}

/* Makes an unidentified channel of a local socket (process.c). Takes over the descriptor. */
struct ucx_channel *ucx_channel_of_process(struct na_plugin_class *na_class, int fd)
{
    struct ucx_channel *channel = ucx_channel_create(na_class, fd);

    if (channel == NULL)
        return NULL;
    channel->is_of_process = true;
    channel->deadline = kit_host->clock_ns() + UCX_HELLO_NS;
    kit_list_append(&na_class->unidentified, &channel->node);
    if (ucx_channel_watch(channel, EPOLL_CTL_ADD, EPOLLIN))
        return channel;
    ucx_channel_close(channel);
    return NULL;
}

/* Returns the address of this side's end of the connection, or of the peer's. */
bool ucx_channel_end(const struct ucx_channel *channel, bool is_ours, struct process_end *end)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);

    memset(end, 0, sizeof(*end));
    if ((is_ours ? getsockname : getpeername)(channel->fd, (struct sockaddr *) &address, &size) !=
        0)
        return false;
    if (address.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *) &address;

        memcpy(end->address, mapped, sizeof(mapped));
        memcpy(end->address + sizeof(mapped), &in->sin_addr, sizeof(in->sin_addr));
        end->port = in->sin_port;
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *) &address;

        memcpy(end->address, &in6->sin6_addr, sizeof(in6->sin6_addr));
        end->port = in6->sin6_port;
    }
    return true;
}

/* One byte, so that the peer does not take the end of the connection for a death. */
void ucx_channel_send_bye(struct ucx_channel *channel)
{
    const uint8_t bye = UCX_BYE;
    ssize_t size = 0;

    if (channel->is_met && channel->out == NULL)
        size = send(channel->fd, &bye, sizeof(bye), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void) size;
}

/*
 * The channel is freed later, because an event that was read already may refer to it. It is removed
 * from epoll explicitly: after close() alone events go on if a child process has the socket, too.
 */
void ucx_channel_close(struct ucx_channel *channel)
{
    if (channel->fd < 0)
        return;
    (void) epoll_ctl(channel->na_class->epoll_fd, EPOLL_CTL_DEL, channel->fd, NULL);
    (void) close(channel->fd);
    channel->fd = -1;
    channel->link = NULL;
    channel_drop_deferred(channel);
    kit_list_remove(&channel->node);
    kit_list_append(&channel->na_class->closing, &channel->node);
}

void ucx_channels_reclaim(struct na_plugin_class *na_class)
{
    while (!kit_list_empty(&na_class->closing)) {
        struct ucx_channel *channel =
            kit_container(na_class->closing.next, struct ucx_channel, node);

        kit_list_remove(&channel->node);
        kit_host->mem_free(channel->in);
        kit_host->mem_free(channel->out);
        ucx_auth_wipe(channel);
        kit_host->mem_free(channel);
    }
}

static void channel_set_options(int fd)
{
    static const struct {
        int level, option, value;
    } settings[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {IPPROTO_TCP, TCP_SYNCNT, CHANNEL_SYNS},
        {IPPROTO_TCP, TCP_KEEPIDLE, CHANNEL_KEEP_IDLE},
        {IPPROTO_TCP, TCP_KEEPINTVL, CHANNEL_KEEP_INTERVAL},
        {IPPROTO_TCP, TCP_KEEPCNT, CHANNEL_KEEP_COUNT},
    };

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        (void) setsockopt(fd, settings[i].level, settings[i].option, &settings[i].value,
                          sizeof(settings[i].value));
}

static void channel_drop_deferred(struct ucx_channel *channel)
{
    if (channel->deferred == NULL)
        return;
    kit_host->mem_free(channel->deferred);
    kit_host->mem_free(channel->in);
    channel->deferred = NULL;
    channel->in = NULL;
    channel->na_class->held_calls--;
}
