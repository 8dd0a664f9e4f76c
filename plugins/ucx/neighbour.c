/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a connection is from a process of this node and user: sock_diag tells the owner of the
 * socket at its other end. A process of the same user could kill this one anyway, so UCX may trust
 * its shared-memory addresses.
 */

#include "ucx.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct diag_request {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
};

static bool neighbour_query(const struct diag_request *request, struct inet_diag_msg *answer);
static void neighbour_end(const struct process_end *end, bool is_v6, __be16 *port, __be32 *address);

bool ucx_channel_is_of_user(const struct ucx_channel *channel)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct diag_request request = {
        .head = {.nlmsg_len = sizeof(request),
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_protocol = IPPROTO_TCP, .idiag_states = 1u << TCP_ESTABLISHED},
    };
    struct process_end ours, theirs;
    struct inet_diag_msg answer;
    bool is_v6;

    if (!ucx_channel_end(channel, true, &ours) || !ucx_channel_end(channel, false, &theirs) ||
        memcmp(ours.address, theirs.address, sizeof(ours.address)) != 0)
        return false;
    is_v6 = memcmp(ours.address, mapped, sizeof(mapped)) != 0;
    request.body.sdiag_family = is_v6 ? AF_INET6 : AF_INET;
    request.body.id.idiag_cookie[0] = request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    /* The peer's socket has the two ends in the opposite order. */
    neighbour_end(&theirs, is_v6, &request.body.id.idiag_sport, request.body.id.idiag_src);
    neighbour_end(&ours, is_v6, &request.body.id.idiag_dport, request.body.id.idiag_dst);
    /* A closed socket is reported with user 0. */
    return neighbour_query(&request, &answer) && answer.idiag_state == TCP_ESTABLISHED &&
           answer.idiag_inode != 0 && answer.idiag_uid == geteuid();
}

/* The kernel answers before send() returns. */
static bool neighbour_query(const struct diag_request *request, struct inet_diag_msg *answer)
{
    union {
        struct nlmsghdr head;
        uint8_t bytes[1024];
    } reply;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    ssize_t size = -1;

    if (fd < 0)
        return false;
    if (send(fd, request, sizeof(*request), 0) == (ssize_t) sizeof(*request))
        size = recv(fd, &reply, sizeof(reply), MSG_DONTWAIT);
    (void) close(fd);
    if (size < (ssize_t) NLMSG_LENGTH(sizeof(*answer)) ||
        reply.head.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        reply.head.nlmsg_len < NLMSG_LENGTH(sizeof(*answer)))
        return false;
    memcpy(answer, NLMSG_DATA(&reply.head), sizeof(*answer));
    return true;
}

static void neighbour_end(const struct process_end *end, bool is_v6, __be16 *port, __be32 *address)
{
    *port = (__be16) end->port;
    memcpy(address, end->address + (is_v6 ? 0 : 12), is_v6 ? 16 : 4);
}
