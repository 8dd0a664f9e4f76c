/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which process of this node is at the other end of a link: the kernel says so. Whoever dialed
 * connects to a socket of the other process besides, that exists on this node only, and names the
 * connection over which they have met by its two ends. Each side takes the other's process id from
 * the socket (SO_PEERCRED), never from what was sent: no process can pass for another one, nor be
 * made to by one that both of them talk to. Where their registries lie they say here alone, to
 * processes of the same user: over the network it would tell anybody who is called where our memory
 * lies.
 */

#include "ucx.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PROCESS_MAGIC   0x50435855u
#define PROCESS_BACKLOG 64
#define PROCESS_SEEN    0x53435855u
#define PROCESS_CLOSERS 4u /* at once */

/* It stays on this node: its byte order is theirs. */
struct process_record {
    uint32_t magic;
    uint32_t reserved;
    struct ucx_link_name name;
    struct process_end from, to; /* the sender's end of the connection and the receiver's */
    uint64_t registry;           /* the sender's: where it lies; 0: there is none */
};

struct process_answer {
    uint32_t seen;
    uint32_t reserved;
    uint64_t registry;
};

static socklen_t process_address(uint64_t incarnation, struct sockaddr_un *address);
static bool process_record_fill(const struct ucx_link *link, const struct ucx_channel *channel,
                                struct process_record *record);
static struct ucx_link *process_record_link(struct na_plugin_class *na_class,
                                            const struct process_record *record);
static void process_found(struct ucx_link *link, int fd, uint64_t registry);
static uint64_t registry_address(const struct na_plugin_class *na_class);
static bool process_is_own_user(int fd);
static bool process_turn_away(int fd);
static bool process_may_ask(struct na_plugin_class *na_class);
static void *process_close(void *arg);

static atomic_uint process_closers;

/* Without it nobody's memory is touched, and data go in messages. */
void ucx_process_listen(struct na_plugin_class *na_class)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &na_class->process_fd};
    struct sockaddr_un address;
    socklen_t size = process_address(na_class->incarnation, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    na_class->process_fd = fd;
    if (fd >= 0 && bind(fd, (struct sockaddr *) &address, size) == 0 &&
        listen(fd, PROCESS_BACKLOG) == 0 &&
        epoll_ctl(na_class->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return;
    UCX_LOG_WARNING("no socket for processes of this node (%s): their memory is not touched",
                    strerror(errno));
    if (fd >= 0)
        (void) close(fd);
    na_class->process_fd = -1;
    na_class->may_attach = false;
}

/* Asks the process that introduced itself on a channel of ours. No answer is no harm. */
void ucx_process_ask(struct ucx_channel *channel, uint64_t incarnation)
{
    struct ucx_link *link = channel->link;
    struct process_record record;
    struct ucx_channel *question;
    struct sockaddr_un address;
    socklen_t size = process_address(incarnation, &address);
    int fd;

    if (!process_may_ask(link->na_class) || !process_record_fill(link, channel, &record))
        return;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (struct sockaddr *) &address, size) != 0) {
        (void) close(fd);
        return;
    }
    if (!process_is_own_user(fd)) {
        if (!process_turn_away(fd))
            link->na_class->unclosed_fd = fd;
        return;
    }
    if (send(fd, &record, sizeof(record), MSG_NOSIGNAL) != (ssize_t) sizeof(record)) {
        (void) close(fd);
        return;
    }
    question = ucx_channel_of_process(link->na_class, fd);
    if (question == NULL)
        return;
    question->link = link;
    question->is_dialed = true;
    kit_list_remove(&question->node);
    kit_list_append(&link->channels, &question->node);
}

/* The socket that nobody closed so far. If it cannot be closed now it ends with the process. */
void ucx_process_close(struct na_plugin_class *na_class)
{
    (void) process_may_ask(na_class);
}

/*
 * A caller, whose socket this takes over. False: no more are taken. Every user of the node can
 * call; only what ours does it could do to us anyhow.
 */
bool ucx_process_accept(struct na_plugin_class *na_class, int fd)
{
    if (process_is_own_user(fd)) {
        (void) ucx_channel_of_process(na_class, fd);
        return true;
    }
    if (process_turn_away(fd))
        return true;
    UCX_LOG_WARNING("another user keeps connections to process %d from closing: memory of peers "
                    "that come from now on is not touched, their data go in messages",
                    (int) getpid());
    (void) epoll_ctl(na_class->epoll_fd, EPOLL_CTL_DEL, na_class->process_fd, NULL);
    return false;
}

/* A record, or the answer to ours; or neither. */
void ucx_process_event(struct ucx_channel *channel)
{
    struct process_answer answer = {.seen = PROCESS_SEEN,
                                    .registry = registry_address(channel->na_class)};
    struct process_record record;
    struct ucx_link *link = channel->link;
    ssize_t size = channel->is_dialed ? recv(channel->fd, &answer, sizeof(answer), 0)
                                      : recv(channel->fd, &record, sizeof(record), 0);

    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (channel->is_dialed) {
        if (size == (ssize_t) sizeof(answer) && answer.seen == PROCESS_SEEN)
            process_found(link, channel->fd, answer.registry);
    } else if (size == (ssize_t) sizeof(record)) {
        link = process_record_link(channel->na_class, &record);
        if (link != NULL &&
            send(channel->fd, &answer, sizeof(answer), MSG_NOSIGNAL) == (ssize_t) sizeof(answer))
            process_found(link, channel->fd, record.registry);
    }
    ucx_channel_close(channel);
}

/* An abstract name, which no file system knows. */
static socklen_t process_address(uint64_t incarnation, struct sockaddr_un *address)
{
    int length;

    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "amalgam-ucx-%016llx",
                      (unsigned long long) incarnation);
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) length);
}

static bool process_record_fill(const struct ucx_link *link, const struct ucx_channel *channel,
                                struct process_record *record)
{
    memset(record, 0, sizeof(*record));
    record->magic = PROCESS_MAGIC;
    record->name = ucx_link_name(link);
    record->registry = registry_address(link->na_class);
    return ucx_channel_end(channel, true, &record->from) &&
           ucx_channel_end(channel, false, &record->to);
}

/*
 * The link that the sender of the record has with us, and nobody else: its secret may have been
 * passed on, but one of its connections leads from one end to the other.
 */
static struct ucx_link *process_record_link(struct na_plugin_class *na_class,
                                            const struct process_record *record)
{
    struct process_end ours, theirs;
    struct ucx_link *link;

    if (record->magic != PROCESS_MAGIC)
        return NULL;
    link = ucx_link_named(na_class, &record->name);
    if (link == NULL)
        return NULL;
    for (struct kit_link *node = link->channels.next; node != &link->channels; node = node->next) {
        struct ucx_channel *channel = kit_container(node, struct ucx_channel, node);

        if (!channel->is_of_process && channel->is_met && !channel->is_dialed &&
            ucx_channel_end(channel, true, &ours) && ucx_channel_end(channel, false, &theirs) &&
            memcmp(&ours, &record->to, sizeof(ours)) == 0 &&
            memcmp(&theirs, &record->from, sizeof(theirs)) == 0)
            return link;
    }
    UCX_LOG_WARNING("a process of this node is not the one at the other end of %s", link->name);
    return NULL;
}

/* The process is of our user: others were turned away. */
static void process_found(struct ucx_link *link, int fd, uint64_t registry)
{
    struct ucred who = {0};
    socklen_t size = sizeof(who);

    link->their_registry = registry;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.pid <= 0 ||
        !kit_attach_is_allowed((uint32_t) who.pid, link->their_registry))
        return;
    link->pid = (uint32_t) who.pid;
    link->registry = link->na_class->registry != NULL ? link->their_registry : 0;
    UCX_LOG_DEBUG("%s is process %u: memory is copied", link->name, link->pid);
}

static uint64_t registry_address(const struct na_plugin_class *na_class)
{
    return (uint64_t) (uintptr_t) na_class->registry;
}

/* A process of another user could become a privileged one, which a privileged target may touch. */
static bool process_is_own_user(int fd)
{
    struct ucred who = {0};
    socklen_t size = sizeof(who);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
}

/*
 * What the other user has put into the socket may be descriptors of its own, and closing the last
 * one of a socket that lingers takes as long as that user likes: progress does not wait for it.
 * False: the socket stays open, for too many such are being closed.
 */
static bool process_turn_away(int fd)
{
    pthread_attr_t attr;
    pthread_t thread;
    bool is_begun = false;

    if (atomic_fetch_add(&process_closers, 1) < PROCESS_CLOSERS && pthread_attr_init(&attr) == 0) {
        is_begun = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0 &&
                   pthread_create(&thread, &attr, process_close, (void *) (intptr_t) fd) == 0;
        (void) pthread_attr_destroy(&attr);
    }
    if (!is_begun)
        (void) atomic_fetch_sub(&process_closers, 1);
    return is_begun;
}

/* Not while a socket that another user keeps from closing waits: there would be more of them. */
static bool process_may_ask(struct na_plugin_class *na_class)
{
    if (na_class->unclosed_fd >= 0 && process_turn_away(na_class->unclosed_fd))
        na_class->unclosed_fd = -1;
    return na_class->unclosed_fd < 0;
}

static void *process_close(void *arg)
{
    (void) close((int) (intptr_t) arg);
    (void) atomic_fetch_sub(&process_closers, 1);
    return NULL;
}
