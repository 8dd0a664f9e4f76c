/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The HELLOs on the sockets of socket.c, none of which blocks, and the links that they make, match
 * and replace.
 */

#include "ucx.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHANNEL_EVENTS    64
#define CHANNEL_QUIET_NS  UINT64_C(10000000000) /* between log lines about descriptors */
#define CHANNEL_SILENT_NS UINT64_C(100000000)   /* then a silent caller may be closed for another */

static void channels_send_hellos(struct ucx_link *link);
static int32_t channel_connect(struct ucx_channel *channel, const struct sockaddr_storage *address);
static bool unidentified_have_room(struct na_plugin_class *na_class, int listen_fd);
static bool unidentified_make_room(struct na_plugin_class *na_class);
static void channels_refused(struct na_plugin_class *na_class);
static void channels_accept(struct na_plugin_class *na_class, int listen_fd);
static bool channel_challenge(struct ucx_channel *channel);
static void channels_expire(struct na_plugin_class *na_class);
static void channel_event(struct ucx_channel *channel, uint32_t events);
static void channel_connected(struct ucx_channel *channel);
static bool channel_send_hello(struct ucx_channel *channel);
static void channel_write(struct ucx_channel *channel);
static void channel_read(struct ucx_channel *channel);
static void channel_part_received(struct ucx_channel *channel);
static void channel_refused(struct ucx_channel *channel);
static void channel_met(struct ucx_channel *channel);
static bool channel_must_defer(const struct ucx_channel *channel, const struct ucx_hello *hello);
static const char *channel_defer(struct ucx_channel *channel, const struct ucx_hello *hello);
static void channels_resume(struct na_plugin_class *na_class);
static const char *channel_accept_hello(struct ucx_channel *channel, const struct ucx_hello *hello);
static bool channel_has_descriptors(const struct ucx_channel *channel);
static const char *channel_check(struct ucx_channel *channel, uint8_t *data,
                                 struct ucx_hello *hello);
static struct ucx_link *channel_link(const struct ucx_channel *channel,
                                     const struct ucx_hello *hello);
static bool channel_worker_is_taken(const struct ucx_channel *channel,
                                    const struct ucx_hello *hello);
static struct ucx_link *channel_match(struct ucx_channel *channel, const struct ucx_hello *hello);
static bool link_matches(const struct ucx_link *link, const struct ucx_hello *hello);
static bool link_is_alive(const struct ucx_link *link);
static void channel_malformed(struct ucx_channel *channel, const char *reason);
static const char *channel_end_reason(const struct ucx_channel *channel, int error);
static void channel_failed(struct ucx_channel *channel, const char *reason);

/* Begins to connect to the link's name, which is host:port. */
int32_t ucx_channel_dial(struct ucx_link *link)
{
    char reason[KIT_LOCATION_REASON_MAX] = "";
    struct sockaddr_storage address;
    struct kit_location location;
    struct ucx_channel *channel;
    int32_t ret;
    int fd;

    ret = kit_location_parse(link->name, &location, reason);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = kit_location_resolve_formatted(&location, NA_PLUGIN_ADDR_UNSPEC, &address, reason);
    if (ret != NA_PLUGIN_SUCCESS) {
        UCX_LOG_ERROR("'%s' cannot be connected to: %s", link->name, reason);
        return NA_PLUGIN_HOSTUNREACH;
    }
    fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        UCX_LOG_ERROR("no socket for %s: %s; is the limit of descriptors (ulimit -n) too low?",
                      link->name, strerror(errno));
        return NA_PLUGIN_NOMEM;
    }
    if (!link->has_second_key &&
        (!ucx_descriptors_take(link->na_class, 1) || !ucx_descriptors_take_peer(link->na_class))) {
        UCX_LOG_ERROR("no descriptors are left for %s; raise the limit (ulimit -n)", link->name);
        (void) close(fd);
        return NA_PLUGIN_NOMEM;
    }
    channel = ucx_channel_create(link->na_class, fd);
    if (channel == NULL)
        return NA_PLUGIN_NOMEM;
    channel->link = link;
    channel->is_dialed = true;
    kit_list_append(&link->channels, &channel->node);
    ret = channel_connect(channel, &address);
    if (ret != NA_PLUGIN_SUCCESS)
        ucx_channel_close(channel);
    return ret;
}

void ucx_channels_progress(struct na_plugin_class *na_class)
{
    struct epoll_event events[CHANNEL_EVENTS];
    int count = epoll_wait(na_class->epoll_fd, events, CHANNEL_EVENTS, 0);

    for (int i = 0; i < count; i++) {
        void *source = events[i].data.ptr;

        if (source == &na_class->listen_fd || source == &na_class->process_fd)
            channels_accept(na_class, *(const int *) source);
        else if (source != na_class && source != NULL)
            channel_event(source, events[i].events);
    }
    if (kit_unlikely(na_class->held_calls != 0))
        channels_resume(na_class);
    if (kit_unlikely(!kit_list_empty(&na_class->unidentified)))
        channels_expire(na_class);
    if (kit_unlikely(!kit_list_empty(&na_class->closing)))
        ucx_channels_reclaim(na_class);
}

/* Acts on scheduled links: sends HELLOs on those that are wired up, and ends those that failed. */
void ucx_links_progress(struct na_plugin_class *na_class)
{
    struct kit_link *node, *next;

    for (node = na_class->scheduled.next; node != &na_class->scheduled; node = next) {
        struct ucx_link *link = kit_container(node, struct ucx_link, scheduled);

        next = node->next;
        if (link->phase != UCX_LINK_READY || link->is_failing) {
            ucx_link_end(link);
            continue;
        }
        if (link->is_data_broken)
            ucx_endpoint_close(&link->data, link, true);
        if (ucx_endpoint_is_closed(&link->data))
            kit_list_remove(&link->scheduled);
        if (link->is_wired_up)
            channels_send_hellos(link);
    }
}

/* Sends this side's HELLO to the callers on a link. */
static void channels_send_hellos(struct ucx_link *link)
{
    struct kit_link *node, *next;

    for (node = link->channels.next; node != &link->channels; node = next) {
        struct ucx_channel *channel = kit_container(node, struct ucx_channel, node);

        next = node->next;
        if (!channel->is_met || channel->is_dialed || channel->is_hello_sent)
            continue;
        channel->is_hello_sent = true;
        if (!channel_send_hello(channel))
            channel_failed(channel, "no memory to introduce us");
    }
}

static int32_t channel_connect(struct ucx_channel *channel, const struct sockaddr_storage *address)
{
    int ret = connect(channel->fd, (const struct sockaddr *) address, kit_location_length(address));

    if (ret != 0 && errno != EINPROGRESS) {
        UCX_LOG_INFO("%s cannot be connected to: %s", channel->link->name, strerror(errno));
        return NA_PLUGIN_HOSTUNREACH;
    }
    channel->is_connecting = true;
    if (!ucx_channel_watch(channel, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT))
        return NA_PLUGIN_NOMEM;
    return NA_PLUGIN_SUCCESS;
}

/* Whether one more caller is accepted. Others wait in the listening socket's backlog. */
static bool unidentified_have_room(struct na_plugin_class *na_class, int listen_fd)
{
    struct pollfd listener = {.fd = listen_fd, .events = POLLIN};
    const uint32_t limit = ucx_descriptors_for_unidentified();
    uint32_t count = 0;

    for (struct kit_link *node = na_class->unidentified.next;
         node != &na_class->unidentified && count < limit; node = node->next)
        count++;
    return count < limit || (poll(&listener, 1, 0) == 1 && unidentified_make_room(na_class));
}

/*
 * Closes the unidentified channel that was accepted first, if it has been silent for long. Channels
 * with a deferred HELLO are closed last.
 */
static bool unidentified_make_room(struct na_plugin_class *na_class)
{
    struct kit_link *node = na_class->unidentified.next;
    struct ucx_channel *channel;
    uint8_t byte;

    while (node != &na_class->unidentified &&
           kit_container(node, struct ucx_channel, node)->deferred != NULL)
        node = node->next;
    if (node == &na_class->unidentified)
        node = na_class->unidentified.next;
    channel = kit_container(node, struct ucx_channel, node);
    if (node == &na_class->unidentified ||
        channel->deadline - UCX_HELLO_NS + CHANNEL_SILENT_NS > kit_host->clock_ns() ||
        recv(channel->fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) > 0)
        return false;
    channel_failed(channel, "it did not introduce itself, and its descriptor is needed");
    return true;
}

static void channels_refused(struct na_plugin_class *na_class)
{
    uint64_t now = kit_host->clock_ns();

    if (now < na_class->descriptors_logged_until)
        return;
    na_class->descriptors_logged_until = now + CHANNEL_QUIET_NS;
    UCX_LOG_ERROR("no descriptors are left for more peers, who are turned away; raise the limit "
                  "(ulimit -n)");
}

static void channels_accept(struct na_plugin_class *na_class, int listen_fd)
{
    while (unidentified_have_room(na_class, listen_fd)) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct ucx_channel *channel;

        if (fd < 0)
            return;
        /* The descriptor of a closed caller makes room for this one. */
        if (!ucx_descriptors_take(na_class, 1) && !unidentified_make_room(na_class)) {
            channels_refused(na_class);
            (void) close(fd);
            continue;
        }
        if (listen_fd == na_class->process_fd) {
            if (!ucx_process_accept(na_class, fd))
                return;
            continue;
        }
        channel = ucx_channel_create(na_class, fd);
        if (channel == NULL)
            return;
        channel->deadline = kit_host->clock_ns() + UCX_HELLO_NS;
        kit_list_append(&na_class->unidentified, &channel->node);
        if (!channel_challenge(channel) || !ucx_channel_watch(channel, EPOLL_CTL_ADD, EPOLLIN))
            ucx_channel_close(channel);
    }
}

/* Never short: a new socket's send buffer has room for the challenge. */
static bool channel_challenge(struct ucx_channel *channel)
{
    uint8_t bytes[UCX_CHALLENGE];

    ucx_auth_challenge(channel, bytes);
    return send(channel->fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t) sizeof(bytes);
}

static void channels_expire(struct na_plugin_class *na_class)
{
    uint64_t now = kit_host->clock_ns();
    struct kit_link *node, *next;

    for (node = na_class->unidentified.next; node != &na_class->unidentified; node = next) {
        struct ucx_channel *channel = kit_container(node, struct ucx_channel, node);

        next = node->next;
        if (channel->deferred == NULL && now >= channel->deadline)
            channel_failed(channel, "it did not introduce itself in time");
    }
}

static void channel_event(struct ucx_channel *channel, uint32_t events)
{
    if (channel->fd < 0)
        return;
    if (channel->is_of_process) {
        ucx_process_event(channel);
        return;
    }
    if (channel->is_connecting) {
        channel_connected(channel);
        return;
    }
    if ((events & EPOLLOUT) != 0)
        channel_write(channel);
    if (channel->fd >= 0 && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0)
        channel_read(channel);
}

static void channel_connected(struct ucx_channel *channel)
{
    socklen_t size = sizeof(int);
    int error = 0;

    if (getsockopt(channel->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error != 0) {
        channel_failed(channel, strerror(error));
        return;
    }
    channel->is_connecting = false; /* the listener sends first */
    if (!ucx_channel_watch(channel, EPOLL_CTL_MOD, EPOLLIN))
        channel_failed(channel, "its socket cannot be watched");
}

static bool channel_send_hello(struct ucx_channel *channel)
{
    channel->out = ucx_hello_write(channel->link, &channel->out_size);
    if (channel->out == NULL || !ucx_auth_sign(channel, channel->out, channel->out_size))
        return false;
    channel_write(channel);
    return true;
}

static void channel_write(struct ucx_channel *channel)
{
    while (channel->out != NULL && channel->out_done < channel->out_size) {
        ssize_t size = send(channel->fd, channel->out + channel->out_done,
                            channel->out_size - channel->out_done, MSG_NOSIGNAL);

        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && errno == EAGAIN) {
            if (!ucx_channel_watch(channel, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT))
                channel_failed(channel, "its socket cannot be watched");
            return;
        }
        if (size < 0) {
            channel_failed(channel, strerror(errno));
            return;
        }
        channel->out_done += (uint32_t) size;
    }
    kit_host->mem_free(channel->out);
    channel->out = NULL;
    if (!ucx_channel_watch(channel, EPOLL_CTL_MOD, EPOLLIN))
        channel_failed(channel, "its socket cannot be watched");
}

static void channel_read(struct ucx_channel *channel)
{
    uint8_t rest;

    if (channel->in == NULL && !channel->is_met) {
        channel->in = kit_host->mem_alloc(UCX_HELLO_MAX, 0);
        channel->in_size = channel->is_dialed ? UCX_CHALLENGE : UCX_HELLO_HEAD;
        if (channel->in == NULL) {
            channel_failed(channel, "no memory for its introduction");
            return;
        }
    }
    while (channel->fd >= 0) {
        bool is_met = channel->is_met;
        ssize_t size = recv(channel->fd, is_met ? &rest : channel->in + channel->in_done,
                            is_met ? 1 : channel->in_size - channel->in_done, 0);

        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && errno == EAGAIN)
            return;
        if (size <= 0) {
            channel_failed(channel, channel_end_reason(channel, size == 0 ? 0 : errno));
            return;
        }
        if (is_met && rest == UCX_BYE && channel->link != NULL) {
            channel->link->has_bye = true;
            continue;
        }
        if (is_met) {
            channel_malformed(channel, "it said more than belongs on its connection");
            return;
        }
        channel->in_done += (uint32_t) size;
        if (channel->in_done == channel->in_size)
            channel_part_received(channel);
    }
}

/* The next part was received: the challenge, the head of the HELLO, or all of it. */
static void channel_part_received(struct ucx_channel *channel)
{
    const char *complaint = NULL;

    if (channel->is_dialed && !channel->is_challenged) {
        complaint = ucx_auth_challenged(channel, channel->in);
        if (channel->failure == NA_PLUGIN_PERMISSION) {
            kit_msg_refused(&channel->na_class->fabric, channel->link->name, complaint);
            channel_failed(channel, complaint);
            return;
        }
        if (complaint == NULL && !channel_send_hello(channel))
            complaint = "it sent no share of the key, or memory is missing";
        channel->in_done = 0;
        channel->in_size = UCX_HELLO_HEAD;
    } else if (channel->in_done != UCX_HELLO_HEAD) {
        channel_met(channel);
    } else if (channel->is_dialed && ucx_hello_is_refusal(channel->in)) {
        channel_refused(channel);
    } else if (channel->is_dialed && !channel->link->has_claim &&
               ucx_hello_is_claim(channel->in, &channel->link->claim)) {
        channel->link->has_claim = true;
        channel->in_done = 0;
    } else {
        complaint = ucx_hello_head(channel->in, &channel->in_size);
    }
    if (complaint != NULL && channel->fd >= 0)
        channel_malformed(channel, complaint);
}

/* The listener refused the key. If the class has two, it dials again with the second one. */
static void channel_refused(struct ucx_channel *channel)
{
    struct ucx_link *link = channel->link;
    int32_t ret;

    if (!ucx_auth_use_second_key(link)) {
        channel->failure = NA_PLUGIN_PERMISSION;
        channel_failed(channel, "our key (auth_key) is not its key");
        return;
    }
    ucx_channel_close(channel);
    ret = ucx_channel_dial(link);
    if (ret != NA_PLUGIN_SUCCESS)
        ucx_link_fail(link, ret, "it cannot be connected to again");
}

/* The peer's HELLO is complete. */
static void channel_met(struct ucx_channel *channel)
{
    uint8_t *data = channel->in;
    struct ucx_hello hello = {0};
    const char *complaint = channel_check(channel, data, &hello);

    channel->is_met = true;
    if (complaint == NULL && channel_must_defer(channel, &hello)) {
        complaint = channel_defer(channel, &hello);
    } else {
        channel->in = NULL;
        if (complaint == NULL)
            complaint = channel_accept_hello(channel, &hello);
        kit_host->mem_free(data);
    }
    if (complaint != NULL && channel->fd >= 0)
        channel_failed(channel, complaint);
}

/*
 * A caller's HELLO is deferred while its name is being dialed: any process can claim the name, but
 * pending messages are for the one that listens there. If the caller is that process, which dialed
 * this one at the same time, it proves so by a claim on the dialed channel.
 */
static bool channel_must_defer(const struct ucx_channel *channel, const struct ucx_hello *hello)
{
    const struct ucx_link *link = channel_link(channel, hello);

    return !channel->is_dialed && link != NULL && link->phase == UCX_LINK_DIALING &&
           !link->is_met && !(link->has_claim && ucx_hello_is_claimed(hello, &link->claim));
}

/*
 * Defers a HELLO until the dialed name has answered or failed. Sends the caller a claim, in case it
 * has deferred this process's HELLO as well.
 */
static const char *channel_defer(struct ucx_channel *channel, const struct ucx_hello *hello)
{
    uint8_t claim[UCX_HELLO_HEAD];

    channel->deferred = kit_host->mem_alloc(sizeof(*hello), 0);
    if (channel->deferred == NULL)
        return "no memory to hold it";
    *channel->deferred = *hello;
    channel->na_class->held_calls++;
    ucx_hello_claim(channel_link(channel, hello), claim);
    if (send(channel->fd, claim, sizeof(claim), MSG_NOSIGNAL | MSG_DONTWAIT) !=
        (ssize_t) sizeof(claim))
        return "it does not take an answer";
    return NULL;
}

/* Accepts deferred HELLOs that need not wait any more. Each may change the list, so it restarts. */
static void channels_resume(struct na_plugin_class *na_class)
{
    struct kit_link *node = na_class->unidentified.next;

    while (node != &na_class->unidentified) {
        struct ucx_channel *channel = kit_container(node, struct ucx_channel, node);
        struct ucx_hello *hello = channel->deferred;
        uint8_t *data = channel->in;
        const char *complaint;

        node = node->next;
        if (hello == NULL || channel_must_defer(channel, hello))
            continue;
        channel->deferred = NULL;
        channel->in = NULL;
        na_class->held_calls--;
        complaint = channel_accept_hello(channel, hello);
        if (complaint != NULL && channel->fd >= 0)
            channel_failed(channel, complaint);
        kit_host->mem_free(hello);
        kit_host->mem_free(data);
        node = na_class->unidentified.next;
    }
}

/* Returns NULL if the channel has a link, or is closed already; or what is wrong with the HELLO. */
static const char *channel_accept_hello(struct ucx_channel *channel, const struct ucx_hello *hello)
{
    struct na_plugin_class *na_class = channel->na_class;
    struct ucx_link *link = channel_link(channel, hello);

    if (hello->is_checked && channel_worker_is_taken(channel, hello))
        return "its worker is that of another peer";
    if (!channel->is_dialed && link != NULL && link->phase == UCX_LINK_READY &&
        !link_matches(link, hello) && link_is_alive(link))
        return "its name is that of a peer that is connected";
    if ((link == NULL || !link_matches(link, hello)) && !channel_has_descriptors(channel)) {
        channels_refused(na_class);
        return "no descriptors are left for it";
    }
    link = channel_match(channel, hello);
    if (link == NULL)
        return NULL;
    if (!link->is_met)
        ucx_link_met(link, hello);
    if (channel->fd >= 0 && channel->is_dialed && hello->is_attachable && na_class->may_attach &&
        link->pid == 0)
        ucx_process_ask(channel, hello->incarnation);
    if (channel->fd >= 0 && link->is_wired_up)
        channels_send_hellos(link);
    return NULL;
}

/* Descriptors for a new UCP endpoint. A dialed channel has reserved all but the spare ones. */
static bool channel_has_descriptors(const struct ucx_channel *channel)
{
    return channel->is_dialed ? ucx_spares_open(channel->na_class)
                              : ucx_descriptors_take_peer(channel->na_class);
}

/*
 * Checks key, form and worker's address of the peer's HELLO. Returns NULL if UCX may see the
 * address. A caller with another key is sent a refusal.
 */
static const char *channel_check(struct ucx_channel *channel, uint8_t *data,
                                 struct ucx_hello *hello)
{
    struct na_plugin_class *na_class = channel->na_class;
    struct ucx_worker *worker = channel->link != NULL ? channel->link->worker : na_class->worker;
    const char *complaint = ucx_auth_check(channel, data, channel->in_size);
    uint8_t refusal[UCX_HELLO_HEAD];
    bool is_same_user;

    if (complaint != NULL)
        kit_msg_refused(&na_class->fabric, channel->link != NULL ? channel->link->name : "a caller",
                        complaint);
    if (complaint != NULL && !channel->is_dialed) {
        ucx_hello_refuse(refusal);
        (void) !send(channel->fd, refusal, sizeof(refusal), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (complaint == NULL)
        complaint = ucx_hello_read(data, channel->in_size, hello);
    if (complaint == NULL && hello->incarnation == na_class->incarnation)
        complaint = "it is this endpoint itself";
    if (complaint != NULL || !worker->is_readable)
        return complaint;
    is_same_user = ucx_channel_is_of_user(channel);
    if (na_class->secret != NULL) {
        if (!is_same_user)
            ucx_address_hide_shared(worker, data + UCX_HELLO_HEAD, hello->address_size);
        return NULL;
    }
    hello->is_checked = true;
    return ucx_address_check(worker, data + UCX_HELLO_HEAD, hello->address_size, is_same_user,
                             &hello->uuid);
}

/* The channel's own link, if it was dialed, else the link of the name in the HELLO. */
static struct ucx_link *channel_link(const struct ucx_channel *channel,
                                     const struct ucx_hello *hello)
{
    return channel->link != NULL ? channel->link : ucx_link_find(channel->na_class, hello->name);
}

/*
 * Whether another peer, or this process, has the worker that the HELLO names. UCX pairs endpoints
 * to one worker, and aborts the process if they do not match. An equal incarnation proves nothing:
 * a peer sends its own to all others, with its worker's address.
 */
static bool channel_worker_is_taken(const struct ucx_channel *channel,
                                    const struct ucx_hello *hello)
{
    const struct na_plugin_class *na_class = channel->na_class;
    const struct ucx_link *own = channel_link(channel, hello);
    const struct kit_link *node;

    for (node = na_class->workers.next; node != &na_class->workers; node = node->next)
        if (kit_container(node, struct ucx_worker, node)->uuid == hello->uuid)
            return true;
    for (node = na_class->links.next; node != &na_class->links; node = node->next) {
        const struct ucx_link *link = kit_container(node, struct ucx_link, node);

        if (link->is_met && link->phase != UCX_LINK_FAILED && link->their_uuid == hello->uuid &&
            (link != own || link->their_incarnation != hello->incarnation))
            return true;
    }
    return false;
}

/*
 * Finds or makes the link of an accepted HELLO. Two processes that dialed each other share one
 * link: both HELLOs of the peer have the same secret. A link to an earlier process of that name is
 * failed, which is permitted if its connections have ended or this side dialed the name.
 */
static struct ucx_link *channel_match(struct ucx_channel *channel, const struct ucx_hello *hello)
{
    struct na_plugin_class *na_class = channel->na_class;
    struct ucx_link *link = channel_link(channel, hello);

    if (link != NULL && link->is_met && !link_matches(link, hello)) {
        ucx_link_fail(link, NA_PLUGIN_HOSTUNREACH,
                      link->their_incarnation != hello->incarnation ? "it was restarted"
                                                                    : "it connected anew");
        link = NULL;
    }
    if (channel->fd < 0)
        return NULL;
    if (link == NULL)
        link = ucx_link_create(na_class->worker, hello->name);
    if (link == NULL) {
        channel_failed(channel, "no memory for one more peer");
        return NULL;
    }
    if (channel->link == NULL) {
        channel->link = link;
        kit_list_remove(&channel->node);
        kit_list_append(&link->channels, &channel->node);
    }
    return link;
}

/* Whether the HELLO is from the process and link that this link was met with. */
static bool link_matches(const struct ucx_link *link, const struct ucx_hello *hello)
{
    return link->is_met && link->phase != UCX_LINK_DYING &&
           link->their_incarnation == hello->incarnation && link->their_id == hello->link_id &&
           kit_key_is_equal(&link->their_secret, &hello->secret);
}

/* False if the peer has closed all connections, even if no event was read yet. */
static bool link_is_alive(const struct ucx_link *link)
{
    for (struct kit_link *node = link->channels.next; node != &link->channels; node = node->next) {
        const struct ucx_channel *channel = kit_container(node, struct ucx_channel, node);
        uint8_t byte;

        if (channel->is_met &&
            recv(channel->fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
            return true;
    }
    return false;
}

/* A protocol violation: by another program, or by somebody who alters the stream. */
static void channel_malformed(struct ucx_channel *channel, const char *reason)
{
    kit_msg_dropped(&channel->na_class->fabric);
    channel_failed(channel, reason);
}

/* Why the connection ended: by the peer, or with a network error. */
static const char *channel_end_reason(const struct ucx_channel *channel, int error)
{
    if (channel->is_met && (error == 0 || error == ECONNRESET))
        return "its process closed the connection";
    return error == 0 ? "it closed its connection" : strerror(error);
}

/*
 * Closes a channel. A link that is being dialed fails with its last channel. A link that is ready
 * is dying then, because its frames may still arrive; the loss of a second channel without a HELLO
 * does not affect it.
 */
static void channel_failed(struct ucx_channel *channel, const char *reason)
{
    struct ucx_link *link = channel->link;
    const int32_t failure = channel->failure;

    if (link == NULL) {
        UCX_LOG_INFO("a caller is turned away: %s", reason);
        ucx_channel_close(channel);
        return;
    }
    ucx_channel_close(channel);
    if (link->phase == UCX_LINK_READY && (channel->is_met || kit_list_empty(&link->channels)))
        ucx_link_disconnected(link, reason);
    else if (link->phase == UCX_LINK_DIALING && kit_list_empty(&link->channels))
        ucx_link_fail(link, failure != 0 ? failure : NA_PLUGIN_HOSTUNREACH, reason);
}
