/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which process of this node is at the other end of a link. The side that dialed also connects to a
 * local socket of the other process, and names the channel on which they met by the addresses of
 * its ends. Each side takes the other's process id from the socket (SO_PEERCRED), never from a
 * message: so no process can pass for another one, nor be made to by a third that has links to
 * both. The addresses of the registries are exchanged here alone, between processes of the same
 * user: over the network they would reveal the address space to any peer.
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
#define PROCESS_CLOSERS 4u /* threads at a time */

/* The record stays on this node, so it has the native byte order. */
struct process_record {
    uint32_t magic;
    uint32_t reserved;
    struct ucx_link_name name;
    struct process_end from, to; /* the sender's end of the channel, and the receiver's */
    uint64_t registry;           /* address of the sender's registry, or 0 */
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
static bool process_close_async(int fd);
static void *process_close(void *arg);

static atomic_uint process_closers;

/* If this fails no memory of other processes is accessed, and data are sent in messages. */
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

/* Sends a record to the process whose HELLO was read on a dialed channel. It need not answer. */
void ucx_process_ask(struct ucx_channel *channel, uint64_t incarnation)
{
    struct ucx_link *link = channel->link;
    struct process_record record;
    struct ucx_channel *question;
    struct sockaddr_un address;
    socklen_t size = process_address(incarnation, &address);
    int fd;

    /* Another record could leave one more socket that another user keeps from closing. */
    if (!ucx_process_close_again(link->na_class) || !process_record_fill(link, channel, &record))
        return;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (struct sockaddr *) &address, size) != 0) {
        (void) close(fd);
        return;
    }
    if (!process_is_own_user(fd)) {
        if (!process_close_async(fd))
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

/* Tries again to close unclosed_fd. False if it stays open. */
bool ucx_process_close_again(struct na_plugin_class *na_class)
{
    if (na_class->unclosed_fd >= 0 && process_close_async(na_class->unclosed_fd))
        na_class->unclosed_fd = -1;
    return na_class->unclosed_fd < 0;
}

/*
 * Takes over an accepted socket. False if no more are accepted. Any user of the node can connect,
 * but only processes of this user, which could kill this one anyway, are trusted.
 */
bool ucx_process_accept(struct na_plugin_class *na_class, int fd)
{
    if (process_is_own_user(fd)) {
        (void) ucx_channel_of_process(na_class, fd);
        return true;
    }
    if (process_close_async(fd))
        return true;
    UCX_LOG_WARNING("another user keeps connections to process %d from closing: memory of peers "
                    "that come from now on is not touched, their data go in messages",
                    (int) getpid());
    (void) epoll_ctl(na_class->epoll_fd, EPOLL_CTL_DEL, na_class->process_fd, NULL);
    return false;
}

/* Reads a caller's record, or the answer to this side's record, and closes the channel. */
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

/* A name in the abstract namespace. */
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
 * Returns the link with the sender of a record, or NULL. Another process may know the link's
 * secret, but only the sender has the channel with these two ends.
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

/* The socket's process is of this user: sockets of other users are closed before. */
static void process_found(struct ucx_link *link, int fd, uint64_t registry)
{
    struct ucred cred = {0};
    socklen_t size = sizeof(cred);

    link->their_registry = registry;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0 || cred.pid <= 0 ||
        !kit_attach_is_allowed((uint32_t) cred.pid, link->their_registry))
        return;
    link->pid = (uint32_t) cred.pid;
    link->registry = link->na_class->registry != NULL ? link->their_registry : 0;
    UCX_LOG_DEBUG("%s is process %u: memory is copied", link->name, link->pid);
}

static uint64_t registry_address(const struct na_plugin_class *na_class)
{
    return (uint64_t) (uintptr_t) na_class->registry;
}

/*
 * Another user's process could exec a privileged program, whose memory a privileged target may
 * access.
 */
static bool process_is_own_user(int fd)
{
    struct ucred cred = {0};
    socklen_t size = sizeof(cred);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0 && cred.uid == geteuid();
}

/*
 * Closes another user's socket in a thread. The socket may have received descriptors, and closing
 * the last one of a socket with SO_LINGER takes as long as that user likes; progress must not wait.
 * False if too many are being closed: the socket stays open.
 */
static bool process_close_async(int fd)
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

static void *process_close(void *arg)
{
    (void) close((int) (intptr_t) arg);
    (void) atomic_fetch_sub(&process_closers, 1);
    return NULL;
}
