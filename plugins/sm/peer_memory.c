/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reaching a peer's memory. Where /proc does not show it, because the peer is in another PID
 * namespace or its process is not dumpable, the peer passes a descriptor. The sender sends its own
 * memory, with a socket for the answer, to a wake socket of the peer; the peer answers when it
 * polls (sm_handover_read). Messages to the peer wait meanwhile.
 */

#include "sm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SM_HANDOVER_AGAIN_NS UINT64_C(1000000000) /* without an answer the request is repeated */

static int32_t sm_handover_send(struct na_plugin_addr *peer, uint32_t id);
static bool sm_handover_take(struct na_plugin_addr *peer);
static int32_t sm_peer_read_header(const struct na_plugin_addr *peer,
                                   struct sm_segment_header *header);

/*
 * Asks the peer for its memory, by the wake socket of its context `id`. Success once the memory is
 * here, NA_PLUGIN_HOSTUNREACH when the peer is dead, else NA_PLUGIN_AGAIN. connect_lock is held.
 */
int32_t sm_handover_ask(struct na_plugin_addr *peer, uint32_t id)
{
    uint64_t now;

    if (peer->memory_fd >= 0 || sm_handover_take(peer))
        return NA_PLUGIN_SUCCESS;
    if (sm_peer_failure(peer) != 0)
        return NA_PLUGIN_HOSTUNREACH;
    now = kit_host->clock_ns();
    if (peer->asked != 0 && now - peer->asked < SM_HANDOVER_AGAIN_NS)
        return NA_PLUGIN_AGAIN;
    if (peer->asked == 0)
        SM_LOG_INFO("the memory of %s cannot be reached through /proc: it is asked for",
                    peer->name);
    peer->asked = now;
    return sm_handover_send(peer, id);
}

/* Receives a datagram and up to two descriptors. Returns its size, or -1 and errno. */
ssize_t sm_descriptors_receive(int socket_fd, void *buf, size_t size, int fds[2], uint32_t *count_p)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
    struct iovec vector = {.iov_base = buf, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &vector,
        .msg_iovlen = 1,
        .msg_control = control,
        .msg_controllen = sizeof(control),
    };
    ssize_t got = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *header;

    *count_p = 0;
    if (got < 0 || message.msg_controllen == 0)
        return got;
    header = CMSG_FIRSTHDR(&message);
    if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return got;
    *count_p = (uint32_t) ((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(fds, CMSG_DATA(header), *count_p * sizeof(int));
    return got;
}

/*
 * Opens the peer's memory; the caller closes it. NA_PLUGIN_NOENTRY when another endpoint has the
 * name by now, NA_PLUGIN_AGAIN while the peer has not handed its memory over. connect_lock is held.
 */
int32_t sm_peer_open(struct na_plugin_addr *peer, int flags, int *fd_p, uint64_t *size_p)
{
    struct sm_segment_header header;
    struct stat status;
    int32_t ret = NA_PLUGIN_AGAIN;

    if (peer->memory_fd < 0) {
        ret = sm_peer_read_header(peer, &header);
        if (ret == NA_PLUGIN_SUCCESS)
            ret = sm_memory_open(peer->na_class, peer->name, &header, flags, fd_p, size_p);
    }
    if (ret != NA_PLUGIN_AGAIN)
        return ret;
    ret = sm_handover_ask(peer, 0);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    if (fstat(peer->memory_fd, &status) != 0)
        return NA_PLUGIN_NOENTRY;
    *size_p = (uint64_t) status.st_size;
    *fd_p = fcntl(peer->memory_fd, F_DUPFD_CLOEXEC, 0);
    return *fd_p < 0 ? NA_PLUGIN_NOMEM : NA_PLUGIN_SUCCESS;
}

/* Maps a piece of the peer's segment, for reading only unless `is_writable` is set. */
int32_t sm_peer_map(struct na_plugin_addr *peer, uint64_t offset, uint64_t size, bool is_writable,
                    void **map_p)
{
    const int protection = is_writable ? PROT_READ | PROT_WRITE : PROT_READ;
    uint64_t file_size;
    int32_t ret;
    int fd;

    kit_lock_take(&peer->na_class->connect_lock);
    ret = sm_peer_open(peer, is_writable ? O_RDWR : O_RDONLY, &fd, &file_size);
    kit_lock_drop(&peer->na_class->connect_lock);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    if (offset > file_size || size > file_size - offset)
        ret = NA_PLUGIN_PROTOCOL_ERROR;
    if (ret == NA_PLUGIN_SUCCESS) {
        *map_p = mmap(NULL, size, protection, MAP_SHARED, fd, (off_t) offset);
        if (*map_p == MAP_FAILED)
            ret = NA_PLUGIN_NOMEM;
    }
    (void) close(fd);
    return ret;
}

/* Maps the base of the peer's segment over its placeholder. connect_lock is held. */
int32_t sm_handover_attach(struct na_plugin_addr *peer, int fd)
{
    struct sm_segment_header header;
    uint64_t size;
    int32_t ret;
    int copy;

    ret = sm_peer_read_header(peer, &header);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = sm_memory_check(fd, peer->name, &header, &size);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return NA_PLUGIN_NOMEM;
    if (!sm_peer_mapped(peer) && mmap(peer->base, peer->base_size, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        (void) close(copy);
        return NA_PLUGIN_NOMEM;
    }
    peer->memory_fd = copy;
    sm_store_release(&peer->mapped, true);
    return NA_PLUGIN_SUCCESS;
}

/* Returns 0 or errno. `address` NULL: the socket is connected. */
int sm_descriptors_send(int socket_fd, const struct sockaddr_un *address, const void *buf,
                        size_t size, const int *fds, uint32_t count)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec vector = {.iov_base = (void *) (uintptr_t) buf, .iov_len = size};
    struct msghdr message = {
        .msg_name = (void *) (uintptr_t) address,
        .msg_namelen = address != NULL ? sizeof(*address) : 0,
        .msg_iov = &vector,
        .msg_iovlen = 1,
        .msg_control = control,
        .msg_controllen = CMSG_SPACE(count * sizeof(int)),
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    ssize_t ret;

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), fds, count * sizeof(int));
    do {
        ret = sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (ret < 0 && errno == EINTR);
    return ret < 0 ? errno : 0;
}

void sm_descriptors_close(const int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void) close(fds[i]);
}

/* The request carries one end of a new socket pair; the answer arrives at the other. */
static int32_t sm_handover_send(struct na_plugin_addr *peer, uint32_t id)
{
    struct na_plugin_class *na_class = peer->na_class;
    struct sm_handover ask = {.magic = SM_HANDOVER_MAGIC, .incarnation = na_class->incarnation};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int pair[2], fds[2], error;

    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        SM_LOG_ERROR("no socket (%s)%s", strerror(errno), sm_error_hint(errno));
        return NA_PLUGIN_NOMEM;
    }
    if (peer->ask_fd >= 0)
        (void) close(peer->ask_fd);
    peer->ask_fd = pair[0];
    memcpy(ask.name, na_class->name, sizeof(ask.name));
    sm_wake_path(address.sun_path, peer->name, &peer->header.secret, id);
    fds[0] = na_class->segment.fd;
    fds[1] = pair[1];
    error = sm_descriptors_send(na_class->send_fd, &address, &ask, sizeof(ask), fds, 2);
    (void) close(pair[1]);
    if (error == ECONNREFUSED || error == ENOENT)
        sm_peer_suspect(peer);
    return sm_peer_failure(peer) != 0 ? NA_PLUGIN_HOSTUNREACH : NA_PLUGIN_AGAIN;
}

/* True when a valid answer has arrived. */
static bool sm_handover_take(struct na_plugin_addr *peer)
{
    uint32_t count = 0;
    bool taken = false;
    uint8_t byte;
    int fds[2];

    if (peer->ask_fd < 0 ||
        sm_descriptors_receive(peer->ask_fd, &byte, sizeof(byte), fds, &count) < 0)
        return false;
    if (count == 1 && sm_handover_attach(peer, fds[0]) == NA_PLUGIN_SUCCESS)
        taken = true;
    sm_descriptors_close(fds, count);
    (void) close(peer->ask_fd);
    peer->ask_fd = -1;
    return taken;
}

/* NA_PLUGIN_NOENTRY when another endpoint has the name by now. */
static int32_t sm_peer_read_header(const struct na_plugin_addr *peer,
                                   struct sm_segment_header *header)
{
    dev_t device;
    ino_t inode;
    int32_t ret = sm_segment_find(peer->name, header, &device, &inode);

    if (ret == NA_PLUGIN_SUCCESS && (device != peer->device || inode != peer->inode))
        return NA_PLUGIN_NOENTRY;
    return ret;
}
