/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a connection comes from a process of this node and user: the kernel is asked whose the
 * socket at its other end is (sock_diag). A process of the same user could end this one
 * anyway, so UCX may believe what it says of shared memory.
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

struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
};

static bool neighbour_ask(const struct question *question, struct inet_diag_msg *answer);
static void neighbour_end(const struct process_end *end, bool is_v6, __be16 *port, __be32 *address);

bool ucx_channel_is_of_user(const struct ucx_channel *channel)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct question question = {
        .head = {.nlmsg_len = sizeof(question),
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
    question.body.sdiag_family = is_v6 ? AF_INET6 : AF_INET;
    question.body.id.idiag_cookie[0] = question.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    /* Theirs: it begins where ours ends. */
    neighbour_end(&theirs, is_v6, &question.body.id.idiag_sport, question.body.id.idiag_src);
    neighbour_end(&ours, is_v6, &question.body.id.idiag_dport, question.body.id.idiag_dst);
    /* One that was closed has no owner, which looks like root. */
    return neighbour_ask(&question, &answer) && answer.idiag_state == TCP_ESTABLISHED &&
           answer.idiag_inode != 0 && answer.idiag_uid == geteuid();
}

/* The kernel answers inside of the call. */
static bool neighbour_ask(const struct question *question, struct inet_diag_msg *answer)
{
    union {
        struct nlmsghdr head;
        uint8_t bytes[1024];
    } reply;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    ssize_t size = -1;

    if (fd < 0)
        return false;
    if (send(fd, question, sizeof(*question), 0) == (ssize_t) sizeof(*question))
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
